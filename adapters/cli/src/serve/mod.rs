//! `serve`: the demonstration server

mod arguments;
mod tools;

use core::time::Duration;
use std::thread;

use mcp_proto::{Capabilities, Capability, Era, Implementation, Limits, VersionSet, server};

use crate::args;
use crate::demo::Step;
use crate::failure::Failure;
use tools::Tools;

/// Serves until the input ends
pub(crate) fn run(args: &args::Serve) -> Result<(), Failure> {
    let mut versions = args.revisions.set().map_err(Failure::usage)?;
    if args.broken == Some(Step::Negotiate) {
        versions = other_era(versions);
    }
    let mut info = Implementation::new("mcp-probe", env!("CARGO_PKG_VERSION"));
    info.title = Some("mcp-probe demonstration server".into());
    let mut limits = Limits::default();
    limits.max_frame = args.max_frame;
    if args.trace {
        limits.tap_records = 100_000;
        limits.tap_bytes = 64 << 20;
    }
    let mut config = server::Config::new("", "")
        .info(info)
        .capabilities(Capabilities::new().with(Capability::Tools))
        .instructions(INSTRUCTIONS)
        .versions(versions)
        .limits(limits);
    for member in &args.hide {
        config = config.hide_in_tap(member);
    }
    mcp_blocking::serve_stdio(config, Tools::new(args.broken)).map_err(|error| Failure::serving(&error))?;
    if args.broken == Some(Step::End) {
        // Longer than any client waits.
        thread::sleep(Duration::from_secs(60));
    }
    Ok(())
}

/// What a client that is pinned to one of these revisions cannot talk to
fn other_era(versions: VersionSet) -> VersionSet {
    let legacy = versions.era(Era::Modern).is_empty();
    VersionSet::ALL.era(if legacy { Era::Modern } else { Era::Legacy })
}

const INSTRUCTIONS: &str = "Four small tools to try a client on: echo and add answer at once, count takes its time and \
                            reports progress, fail always fails.";
