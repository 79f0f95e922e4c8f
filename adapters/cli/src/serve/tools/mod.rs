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
use crate::args::ServeArgs;
use crate::serve::clock::ClockResource;
use crate::serve::{demo, everything};

/// Creates the router of the demonstration, as the options say.
pub(super) fn build_router(args: &ServeArgs) -> (Router, Option<ClockResource>) {
    let broken = args.broken;
    let version = env!("CARGO_PKG_VERSION");
    let mut router = Router::new("mcp-probe", version);
    let info = Implementation::new("mcp-probe", version).title("mcp-probe demonstration server");
    let clock = if args.everything {
        router.core().info(info);
        everything::register(&mut router, broken);
        slow::register(&mut router);
        // Other processes would not know them.
        if args.sessions.session_store.is_none() {
            tasks::register(&mut router, broken);
        }
        annex::register(&mut router);
        notes::register(&mut router);
        Some(clock::register(&mut router))
    } else {
        router.core().info(info).instructions(demo::INSTRUCTIONS);
        None
    };
    demo::register(&mut router, broken);
    count::register(&mut router, broken);
    demo::register_fail(&mut router, broken);
    (router, clock)
}
