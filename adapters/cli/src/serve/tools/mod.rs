//! Registration of everything the server offers, for the adapter that includes this file.
//!
//! Most entries are functions, which every adapter serves. Those that wait or update the router are here: `handler!`
//! creates a handler from closure syntax, and `wait!` waits for an operation that takes time.

mod annex;
mod clock;
mod count;
mod notes;
mod slow;
mod tasks;

use mcp_proto::model::Implementation;

use super::Router;
use crate::serve::clock::ClockResource;
use crate::serve::{demo, everything};
use crate::tour::TourStep;

/// What the server offers.
#[derive(Clone, Copy)]
pub(super) enum Entries {
    Demonstration,
    /// Everything but the tasks, which other processes would not know.
    Shared,
    Everything,
}

/// Creates the router of the demonstration, which performs the step `broken` wrongly.
pub(super) fn build_router(entries: Entries, broken: Option<TourStep>) -> (Router, Option<ClockResource>) {
    let version = env!("CARGO_PKG_VERSION");
    let mut router = Router::new("mcp-probe", version);
    let info = Implementation::new("mcp-probe", version).title("mcp-probe demonstration server");
    let clock = if matches!(entries, Entries::Demonstration) {
        router.core().info(info).instructions(demo::INSTRUCTIONS);
        None
    } else {
        router.core().info(info);
        everything::register(&mut router, broken);
        slow::register(&mut router);
        if matches!(entries, Entries::Everything) {
            tasks::register(&mut router, broken);
        }
        annex::register(&mut router);
        notes::register(&mut router);
        Some(clock::register(&mut router))
    };
    demo::register(&mut router, broken);
    count::register(&mut router, broken);
    demo::register_fail(&mut router, broken);
    (router, clock)
}
