//! Registration of everything the server offers, for the adapter that includes this file.
//!
//! `handler!` creates a handler from closure syntax, and `wait!` waits for an operation that takes time.

mod demo;
mod everything;

use mcp_proto::model::Implementation;

use super::{Cx, Router};
use crate::args;
use crate::demo::TourStep;
use crate::serve::INSTRUCTIONS;
use crate::serve::clock::ClockResource;
use crate::session;

/// Creates the router that the options select, and the clock if there is one.
pub(super) fn router(args: &args::ServeArgs) -> (Router, Option<ClockResource>) {
    build_router(args.everything, args.broken)
}

/// Creates a router with or without the content of `--everything`; `broken` is a step to perform wrongly.
pub(super) fn build_router(everything: bool, broken: Option<TourStep>) -> (Router, Option<ClockResource>) {
    let version = env!("CARGO_PKG_VERSION");
    let mut router = Router::new("mcp-probe", version);
    let info = Implementation::new("mcp-probe", version).title("mcp-probe demonstration server");
    let clock = if everything {
        Some(everything::register(&mut router, info, broken))
    } else {
        router.core().info(info).instructions(INSTRUCTIONS);
        None
    };
    demo::register(&mut router, broken);
    router.on_failure(|call, failure| session::print_note(&format!("{} failed: {failure}", call.method())));
    (router, clock)
}
