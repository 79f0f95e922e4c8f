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

use super::Router;
use crate::clock::ClockResource;
use crate::{Content, Setup, demonstration, everything};

/// Creates the router of the demonstration, with everything or without.
pub(super) fn build(setup: &Setup) -> (Router, Option<ClockResource>) {
    let (info, broken) = (setup.info.clone(), setup.broken);
    let mut router = Router::new(info.name.clone(), info.version.clone());
    router.core().info(info);
    let clock = if matches!(setup.content, Content::Demonstration) {
        router.core().instructions(demonstration::INSTRUCTIONS);
        None
    } else {
        everything::register(&mut router, setup);
        slow::register(&mut router);
        if matches!(setup.content, Content::Everything) {
            tasks::register(&mut router, broken);
        }
        annex::register(&mut router);
        notes::register(&mut router);
        Some(clock::register(&mut router))
    };
    demonstration::register(&mut router, broken);
    count::register(&mut router, broken);
    demonstration::register_fail(&mut router, broken);
    (router, clock)
}
