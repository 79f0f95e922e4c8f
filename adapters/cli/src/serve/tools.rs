//! What is offered, registered with the router of the adapter that includes this
//!
//! `handler!` makes a handler of what looks like a closure, and `wait!` has it wait for what takes time.

mod demo;
mod everything;

use mcp_proto::model::Implementation;

use super::{Cx, Router};
use crate::args;
use crate::demo::Step;
use crate::serve::INSTRUCTIONS;
use crate::serve::clock::Clock;
use crate::session;

/// All that the options want, and the clock if there is one
pub(super) fn router(args: &args::Serve) -> (Router, Option<Clock>) {
    make(args.everything, args.broken)
}

/// … of which these matter
pub(super) fn make(everything: bool, broken: Option<Step>) -> (Router, Option<Clock>) {
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
    router.report(|call, failure| session::note(&format!("{} failed: {failure}", call.method())));
    (router, clock)
}
