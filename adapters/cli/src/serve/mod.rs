//! The `serve` command: runs the demonstration server.

mod args;
mod blocking;
mod card;
mod chaos;
mod layers;
mod mock;
#[cfg(feature = "runtimes")]
mod runtimes;
mod server_log;
#[cfg(feature = "sessions")]
mod session_store;

use alloc::sync::Arc;
use core::time::Duration;
use std::thread;

use mcp_proto::router::RegisterErrors;
use mcp_proto::server::Config;
use mcp_proto::{Era, Limits, VersionSet};

use crate::args::{ALLOWED_PING_MISSES, Runtime};
use crate::endpoint::http;
use crate::failure::CommandFailure;
use crate::notes;
use crate::tour::TourStep;
pub(crate) use args::ServeArgs;

/// Interval at which new followers of the clock are detected where no wake-up reports them.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Serves until the input ends or a signal arrives.
///
/// # Errors
///
/// Fails if the options contradict each other, or if the server stops with an error.
pub(crate) fn run(mut args: ServeArgs) -> Result<(), CommandFailure> {
    if args.chaos.print_list()? {
        return Ok(());
    }
    if args.chaos.chaos.is_some() && args.http.address.is_some() {
        return Err(CommandFailure::usage(
            "--chaos disturbs streams: stdio, --listen and --serial, not --http",
        ));
    }
    args.mock.load()?;
    let args = &Arc::new(args);
    if args.http.address.is_none() && args.http.listen.is_none() && args.serial.is_none() {
        notes::hint_at_terminal("serve");
    }
    check_shards(args)?;
    if !cfg!(feature = "sessions") && args.sessions.session_store.is_some() {
        return Err(crate::features::Feature::Sessions.missing("--session-store"));
    }
    http::raise_descriptor_limit(&args.http);
    match args.runtime {
        Runtime::Blocking => blocking::run(args)?,
        #[cfg(feature = "runtimes")]
        Runtime::Threads | Runtime::Smol | Runtime::Tokio => runtimes::run(args)?,
        #[cfg(not(feature = "runtimes"))]
        Runtime::Threads | Runtime::Smol | Runtime::Tokio => {
            return Err(crate::features::Feature::Runtimes.missing("--runtime"));
        }
    }
    if args.broken == Some(TourStep::End) {
        // Longer than any client waits.
        thread::sleep(Duration::from_secs(60));
    }
    Ok(())
}

/// Checks that the options allow `--shards`.
///
/// # Errors
///
/// Returns a usage error if connections cannot be shared among several threads.
fn check_shards(args: &ServeArgs) -> Result<(), CommandFailure> {
    let why = match args.runtime {
        _ if args.shards == 1 => return Ok(()),
        Runtime::Blocking => {
            "--shards: the blocking runtime has one thread; use --runtime threads, smol or tokio"
        }
        _ if args.everything && args.sessions.session_store.is_none() => {
            "--shards: --everything has tasks, and a server with tasks has one shard"
        }
        Runtime::Threads | Runtime::Smol | Runtime::Tokio => return Ok(()),
    };
    Err(CommandFailure::usage(why))
}

/// Applies the options to the configuration of the router.
fn config(args: &ServeArgs, config: Result<Config, RegisterErrors>) -> Result<Config, CommandFailure> {
    let mut versions = args.revisions.version_set().map_err(CommandFailure::usage)?;
    if args.broken == Some(TourStep::Negotiate) {
        versions = versions_of_other_era(versions);
    }
    let mut limits = Limits::default();
    limits.max_frame = args.max_frame;
    if args.trace {
        limits.tap_records = 100_000;
        limits.tap_bytes = 64 << 20;
    }
    let config = config.map_err(|error| CommandFailure::failed(error.to_string()))?;
    let mut config = config.versions(versions).limits(limits).draft(args.revisions.drafts.followed());
    #[cfg(feature = "sessions")]
    if let Some(keys) = session_store::state_keys(&args.sessions) {
        // What one process has sealed comes to another one.
        config = config.seal(keys, mcp_std::Clock::start().anchor());
    }
    if let Some(interval) = args.keep_alive {
        config = config.keep_alive_ping(interval, ALLOWED_PING_MISSES);
    }
    Ok(args.hide.iter().fold(config, |config, member| config.redact_in_tap(member)))
}

/// Returns revisions that a client pinned to one of `versions` cannot speak.
fn versions_of_other_era(versions: VersionSet) -> VersionSet {
    let legacy = versions.era(Era::Modern).is_empty();
    VersionSet::ALL.era(if legacy { Era::Modern } else { Era::Legacy })
}
