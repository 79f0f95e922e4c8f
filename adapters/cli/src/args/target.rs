//! Options that select a server and how to talk to it, shared by several commands.

use core::time::Duration;

use clap::{Args, ValueEnum};
use mcp_proto::client::Config;
use mcp_proto::draft::Draft;
use mcp_proto::model::LoggingLevel;
use mcp_proto::{CallOptions, Era, Version, VersionSet};
use serde::{Deserialize, Serialize};

use super::authorization::AuthorizationArgs;
use super::server::ServerArgs;
use super::values::{duration, level, name_of, optional_revision, revision};

/// How a connection to a server begins, and how long it lasts.
#[derive(Debug, PartialEq, Args, Serialize, Deserialize)]
pub(crate) struct ConnectionArgs {
    /// Limits the time to start the server and agree on a revision.
    ///
    /// Over HTTP it applies to each answer until then.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) connect_timeout: Duration,
    /// Neither uses nor remembers the era of a server.
    ///
    /// A legacy server on stdio that ignores unknown methods costs 10 s to find out about, one that ends at them a second start, one over
    /// HTTP a request. The cache folder of the user remembers it for 7 days, until it reports another version, or until it fails.
    #[arg(long, hide_short_help = true)]
    pub(crate) no_cache: bool,
    /// Pings a silent legacy server in this interval.
    ///
    /// The connection ends after three missed pings in a row. Modern servers have no such ping. At least 1s.
    #[arg(long, value_name = "TIME", value_parser = duration, hide_short_help = true)]
    pub(crate) keep_alive: Option<Duration>,
}

impl ConnectionArgs {
    /// Adds the pings of `--keep-alive` to the configuration of a client.
    pub(crate) fn keep_alive(&self, config: Config) -> Config {
        match self.keep_alive {
            Some(interval) => config.keep_alive_ping(interval, ALLOWED_PING_MISSES),
            None => config,
        }
    }
}

/// A server and how to connect to it.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    #[command(flatten)]
    pub(crate) revisions: RevisionArgs,
    /// Limits the time to wait for one answer: 2s, 500ms or 0.5.
    ///
    /// Progress restarts the time.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// Shows log messages of the server on stderr, from this level on.
    ///
    /// Levels: debug, info, notice, warning, error, critical, alert, emergency.
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    pub(crate) log: Option<LoggingLevel>,
    /// Shows every message on stderr: → to the server, ← from it.
    #[arg(long)]
    pub(crate) trace: bool,
    /// Hides the values of members with this name in the trace.
    ///
    /// Applies at any depth. May be repeated.
    #[arg(long, value_name = "MEMBER", requires = "trace", hide_short_help = true)]
    pub(crate) hide: Vec<String>,
    /// Selects the adapter that the client runs on.
    #[arg(long, value_name = "RUNTIME", value_enum, default_value_t, hide_short_help = true, hide = !cfg!(feature = "runtimes"))]
    pub(crate) runtime: Runtime,
    /// Selects where the server's stderr goes.
    #[arg(long, value_name = "WHERE", value_enum, default_value_t)]
    pub(crate) stderr: StderrChoice,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) authorization: AuthorizationArgs,
}

/// Options of the commands that send one request.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    /// Prints the result object as JSON instead.
    ///
    /// A failure without a result is printed as an object with the member `error`. Its members: kind (failed, usage,
    /// connection, timeout, unanswered, unauthorized), exitCode, message, hint, code and data (of an error response),
    /// scopes (that the server asks for), and deviations of the server from the protocol before the failure, if there were
    /// any.
    #[arg(long)]
    pub(crate) json: bool,
    /// Limits the total time to wait for the answer, despite progress.
    ///
    /// The default is 10 minutes, or --timeout if that is longer; 24 hours for a tool that runs as a task.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) total: Option<Duration>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

impl RequestArgs {
    /// Returns the options of a call that reports progress.
    pub(crate) fn call_options(&self) -> CallOptions {
        self.total.into_iter().fold(CallOptions::new().with_progress(), CallOptions::total_timeout)
    }
}

#[derive(Debug, Default, PartialEq, Args, Serialize, Deserialize)]
pub(crate) struct RevisionArgs {
    /// Selects the era of the protocol.
    ///
    /// Modern revisions (2026-07-28 on) have no handshake. Legacy revisions have one.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) era: EraChoice,
    /// Speaks only this revision, for example 2025-06-18.
    #[arg(long, value_name = "REV", value_parser = revision)]
    #[serde(with = "optional_revision")]
    pub(crate) protocol_version: Option<Version>,
    #[command(flatten)]
    pub(crate) drafts: DraftArgs,
}

/// Whether drafts are followed, the same in all commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
pub(crate) struct DraftArgs {
    /// Follows the drafts of the specification where they differ from the releases.
    ///
    /// Requests in sessions over HTTP have the header fields of 2026-07-28 then, `initialize` included: a client sends them, and a server
    /// requires them. Error codes of a server are those of the drafts. `mcp_proto::draft` lists what differs.
    #[arg(long = "draft", hide_short_help = true)]
    pub(crate) are_followed: bool,
}

impl DraftArgs {
    /// Returns what is followed.
    pub(crate) const fn followed(self) -> Draft {
        if self.are_followed { Draft::ALL } else { Draft::NONE }
    }
}

impl RevisionArgs {
    /// Returns the revisions selected by `--era` and `--protocol-version`.
    ///
    /// # Errors
    ///
    /// Returns the text of a usage error if the revision does not belong to the era.
    pub(crate) fn version_set(&self) -> Result<VersionSet, String> {
        let Some(version) = self.protocol_version else {
            return Ok(self.era.version_set());
        };
        if self.era.version_set().contains(version) {
            return Ok(VersionSet::only(version));
        }
        Err(format!(
            "--protocol-version {version} belongs to the {} era, but --era is {}",
            version.era(),
            name_of(&self.era)
        ))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum EraChoice {
    /// Both eras: a client probes the server, a server accepts either.
    #[default]
    Auto,
    /// Revisions without a handshake.
    Modern,
    /// Revisions with a handshake.
    Legacy,
}

impl EraChoice {
    pub(crate) const fn version_set(self) -> VersionSet {
        match self {
            Self::Auto => VersionSet::ALL,
            Self::Modern => VersionSet::ALL.era(Era::Modern),
            Self::Legacy => VersionSet::ALL.era(Era::Legacy),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Runtime {
    /// One thread. Handlers run one after the other.
    #[default]
    Blocking,
    /// A thread for input and output, and others that run handlers.
    Threads,
    /// Futures on one thread. Handlers run concurrently.
    Smol,
    /// As smol, in a runtime of tokio.
    Tokio,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum StderrChoice {
    /// Printed line by line on stderr, with control characters escaped. Lines before a revision is agreed on only if that takes 2 s more
    /// or fails.
    #[default]
    Show,
    /// Inherited: the server writes to the terminal without escaping.
    Inherit,
    /// Captured. The last lines are shown when something fails.
    Capture,
    /// Discarded.
    Null,
}

/// Number of pings in a row that may go without an answer.
pub(crate) const ALLOWED_PING_MISSES: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revision_outside_the_era_is_refused() {
        let set = |era, protocol_version| {
            RevisionArgs { era, protocol_version, ..RevisionArgs::default() }.version_set()
        };
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
