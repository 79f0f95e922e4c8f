//! Whom to talk to, and how: what several commands have in common

use core::time::Duration;
use std::ffi::OsString;

use clap::{Args, ValueEnum};
use mcp_proto::model::LoggingLevel;
use mcp_proto::{Era, Version, VersionSet};

use super::values::{duration, level, revision};

/// A server to start and how to talk to it
#[derive(Debug, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    pub(crate) revisions: Revisions,
    /// Longest wait for one answer, such as 2s, 500ms or 0.5; progress starts it anew
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Longest wait for the server to start and to agree on a revision; over HTTP for each answer on the way there
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) connect_timeout: Duration,
    /// Show what the server logs on stderr, from this level on: debug, info, notice, warning, error, critical, alert,
    /// emergency
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    pub(crate) log: Option<LoggingLevel>,
    /// Show every message on stderr as it passes: → to the server, ← from it
    #[arg(long)]
    pub(crate) trace: bool,
    /// In the trace, replace the values of members with this name, at any depth (may be repeated)
    #[arg(long, value_name = "MEMBER", requires = "trace")]
    pub(crate) hide: Vec<String>,
    /// What our client runs on
    #[arg(long, value_name = "RUNTIME", value_enum, default_value_t)]
    pub(crate) runtime: Runtime,
    /// What becomes of the server's stderr
    #[arg(long, value_name = "WHERE", value_enum, default_value_t)]
    pub(crate) stderr: StderrChoice,
    /// Pass on an environment variable, or set one; otherwise the server gets only PATH, HOME and the like (may be
    /// repeated)
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// Show who we are to a server over HTTP: this token goes out with each request
    ///
    /// What stands on a command line can be seen by others on this machine: env:NAME takes the token from a variable of
    /// the environment, @PATH out of a file.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) bearer: Option<String>,
    /// The server: a program and its arguments, never given to a shell; mcp-probe means this very program. Or a URL, such
    /// as http://127.0.0.1:8080/mcp, which needs no -- before it
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) server: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Revisions {
    /// Which era of the protocol to speak: modern has no handshake (from 2026-07-28), legacy has one
    #[arg(long, value_enum, default_value_t)]
    pub(crate) era: EraChoice,
    /// Speak this revision only, 2025-06-18 for instance
    #[arg(long, value_name = "REV", value_parser = revision)]
    pub(crate) protocol_version: Option<Version>,
}

impl Target {
    /// The URL of the server, if it is not a program
    pub(crate) fn url(&self) -> Option<&str> {
        url(&self.server)
    }
}

/// Why a token is refused that no request would carry
pub(crate) const NO_BEARER: &str = "--bearer is for servers over HTTP: name one by its URL";

/// The URL that stands where a server's command does
pub(crate) fn url(server: &[OsString]) -> Option<&str> {
    match server {
        [only] => only.to_str().filter(|text| is_url(text)),
        _ => None,
    }
}

/// Whether a word can only be a URL to connect to
fn is_url(word: &str) -> bool {
    let begins =
        |scheme: &str| word.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    begins("http://") || begins("https://")
}

/// The command line with a URL where a server's command goes
///
/// A URL needs no `--` before it, and may stand among the options. That is not so for what serves, and of the options
/// of others only `--allow-origin` has a value that begins like one.
pub(crate) fn with_server(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let serves = words.get(1).is_some_and(|word| word == "serve" || word == "demo");
    if serves || words.iter().any(|word| word == "--") {
        return words;
    }
    let is_origin =
        |at: usize| at.checked_sub(1).and_then(|at| words.get(at)).is_some_and(|w| w == "--allow-origin");
    let mut urls = words.iter().enumerate().filter(|(_, word)| word.to_str().is_some_and(is_url));
    if let Some((at, _)) = urls.rfind(|(at, _)| !is_origin(*at)) {
        let url = words.remove(at);
        words.extend(["--".into(), url]);
    }
    words
}

impl Revisions {
    /// The revisions that were asked for; the error is a usage error
    pub(crate) fn set(&self) -> Result<VersionSet, String> {
        let Some(version) = self.protocol_version else {
            return Ok(self.era.set());
        };
        if self.era.set().contains(version) {
            return Ok(VersionSet::only(version));
        }
        Err(format!(
            "--protocol-version {version} belongs to the {} era, and --era says {}",
            version.era(),
            self.era
        ))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum EraChoice {
    /// Both: a client finds out by asking, a server serves either
    #[default]
    Auto,
    /// Without a handshake
    Modern,
    /// With a handshake
    Legacy,
}

impl EraChoice {
    pub(crate) const fn set(self) -> VersionSet {
        match self {
            Self::Auto => VersionSet::ALL,
            Self::Modern => VersionSet::ALL.era(Era::Modern),
            Self::Legacy => VersionSet::ALL.era(Era::Legacy),
        }
    }
}

impl core::fmt::Display for EraChoice {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Modern => "modern",
            Self::Legacy => "legacy",
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Runtime {
    /// One thread, on which handlers run one after the other
    #[default]
    Blocking,
    /// A thread for input and output, and others on which handlers run side by side
    Threads,
    /// Futures on one thread: handlers run at the same time
    Smol,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum StderrChoice {
    /// Shown line by line on our stderr, with what a terminal would act on escaped
    #[default]
    Show,
    /// To our own stderr, raw: the server may do anything to the terminal
    Inherit,
    /// Kept; the last lines are shown when something fails
    Capture,
    /// Nowhere
    Null,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_era_and_a_revision_have_to_agree() {
        let set = |era, protocol_version| Revisions { era, protocol_version }.set();
        assert_eq!(set(EraChoice::Auto, None), Ok(VersionSet::ALL));
        assert_eq!(set(EraChoice::Legacy, None), Ok(VersionSet::LEGACY));
        assert_eq!(
            set(EraChoice::Auto, Some(Version::V2025_06_18)),
            Ok(VersionSet::only(Version::V2025_06_18))
        );
        let error = set(EraChoice::Modern, Some(Version::V2025_06_18)).expect_err("contradiction");
        assert!(error.contains("2025-06-18") && error.contains("modern"), "{error}");
    }
}
