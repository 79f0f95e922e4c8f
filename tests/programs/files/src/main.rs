//! `mcp-files [--write] FOLDER...`: serves the files below folders, on stdin and stdout.

#![forbid(unsafe_code)]
// Roots are deprecated; the one function that asks for them says why it does.
#![deny(deprecated)]

mod entries;
mod error;
mod files;
mod scope;
mod search;
mod watch;

use std::env;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use mcp_threads::Server;

use watch::Watch;

const USAGE: &str = "usage: mcp-files [--write] FOLDER...";

fn main() -> anyhow::Result<()> {
    let mut allows_writing = false;
    let mut folders = Vec::new();
    for argument in env::args_os().skip(1) {
        match argument.to_str() {
            Some("--write") => allows_writing = true,
            Some(option) if option.starts_with('-') => bail!("unknown option {option}\n{USAGE}"),
            _ => {
                let folder = PathBuf::from(&argument)
                    .canonicalize()
                    .with_context(|| format!("cannot serve {}", argument.display()))?;
                ensure!(folder.is_dir(), "{} is not a folder", folder.display());
                ensure!(folder.to_str().is_some(), "the name {} is not UTF-8", folder.display());
                folders.push(folder);
            }
        }
    }
    ensure!(!folders.is_empty(), USAGE);

    let watch = Arc::new(Watch::default());
    let router = entries::router(folders.clone(), allows_writing, watch.clone());
    let mut server = Server::stdio(router.config()?, router)?;
    watch::start(watch, folders, server.handle()?);
    Ok(server.run()?)
}
