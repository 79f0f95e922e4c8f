//! The configuration file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Directory of the commands, relative to that of the file.
    #[serde(default)]
    pub directory: PathBuf,
    /// Number of commands that run at a time.
    #[serde(default = "default_jobs")]
    pub jobs: usize,
    /// Number of calls that wait for their turn; more are refused.
    #[serde(default = "default_waiting")]
    pub waiting: usize,
    /// Time limit of a command in seconds, without the time that it waits.
    #[serde(default = "default_seconds")]
    pub seconds: u64,
    /// Programs with their arguments, by the names of their tools. No shell is involved.
    pub commands: BTreeMap<String, Vec<String>>,
}

const fn default_jobs() -> usize {
    1
}

const fn default_waiting() -> usize {
    4
}

const fn default_seconds() -> u64 {
    600
}

impl Config {
    /// Reads and checks the file.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut config: Self =
            serde_json::from_slice(&text).with_context(|| format!("{} is not valid", path.display()))?;
        ensure!(config.jobs > 0, "{}: `jobs` must be at least 1", path.display());
        for (name, command) in &config.commands {
            ensure!(!command.is_empty(), "{}: the command `{name}` is empty", path.display());
        }
        config.directory = path.parent().unwrap_or(Path::new("")).join(&config.directory);
        if config.directory.as_os_str().is_empty() {
            config.directory = PathBuf::from(".");
        }
        Ok(config)
    }
}
