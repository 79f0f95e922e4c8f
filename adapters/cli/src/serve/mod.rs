//! `serve`: the demonstration server

mod blocking;
mod clock;
pub(crate) mod http;
mod smol;
mod threads;
mod watched;

use core::time::Duration;
use std::thread;

use mcp_proto::model::{Tool, ToolAnnotations};
use mcp_proto::router::RegisterError;
use mcp_proto::server::Config;
use mcp_proto::{Era, Limits, VersionSet};

use crate::args::{self, Runtime};
use crate::demo::Step;
use crate::failure::Failure;
use crate::session;

/// Serves until the input ends
pub(crate) fn run(args: &args::Serve) -> Result<(), Failure> {
    if args.http.address.is_none() {
        session::hint_at_terminal("serve");
    }
    check_shards(args)?;
    match args.runtime {
        Runtime::Blocking => blocking::run(args)?,
        Runtime::Threads => threads::run(args)?,
        Runtime::Smol => smol::run(args)?,
    }
    if args.broken == Some(Step::End) {
        // Longer than any client waits.
        thread::sleep(Duration::from_secs(60));
    }
    Ok(())
}

/// Why connections cannot be shared out to several threads, if they are to be
fn check_shards(args: &args::Serve) -> Result<(), Failure> {
    let why = match args.runtime {
        _ if args.shards == 1 => return Ok(()),
        Runtime::Blocking => "--shards: the blocking runtime has one thread; say --runtime threads, or smol",
        // What is remembered belongs to closures that do not leave their thread.
        Runtime::Smol if args.everything => {
            "--shards: on smol, what --everything remembers stays on one thread; say --runtime threads"
        }
        Runtime::Threads | Runtime::Smol => return Ok(()),
    };
    Err(Failure::usage(why))
}

/// What the router wants, as the options want it
fn config(args: &args::Serve, config: Result<Config, RegisterError>) -> Result<Config, Failure> {
    let mut versions = args.revisions.set().map_err(Failure::usage)?;
    if args.broken == Some(Step::Negotiate) {
        versions = other_era(versions);
    }
    let mut limits = Limits::default();
    limits.max_frame = args.max_frame;
    if args.trace {
        limits.tap_records = 100_000;
        limits.tap_bytes = 64 << 20;
    }
    let config = config.map_err(|error| Failure::failed(error.to_string()))?;
    let config = config.versions(versions).limits(limits);
    Ok(args.hide.iter().fold(config, |config, member| config.hide_in_tap(member)))
}

/// What a client that is pinned to one of these revisions cannot talk to
fn other_era(versions: VersionSet) -> VersionSet {
    let legacy = versions.era(Era::Modern).is_empty();
    VersionSet::ALL.era(if legacy { Era::Modern } else { Era::Legacy })
}

/// A tool that changes nothing, and knows nothing of the world
fn harmless(tool: Tool) -> Tool {
    tool.annotations(ToolAnnotations::new().read_only_hint(true).idempotent_hint(true).open_world_hint(false))
}

const INSTRUCTIONS: &str = "Four small tools to try a client on: echo and add answer at once, count takes its time and \
                            reports progress, fail always fails.";
