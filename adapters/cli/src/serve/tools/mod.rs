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

use alloc::sync::Arc;

use mcp_proto::model::Implementation;

use super::Router;
use crate::demo::TourStep;
use crate::serve::clock::ClockResource;
use crate::serve::server_log::ServerLog;
use crate::serve::{demo, everything};

/// Creates a router with or without the content of `--everything`; `broken` is a step to perform wrongly. What happens
/// beside its calls goes to `log`.
pub(super) fn build_router(
    everything: bool,
    broken: Option<TourStep>,
    log: &Arc<ServerLog>,
) -> (Router, Option<ClockResource>) {
    let version = env!("CARGO_PKG_VERSION");
    let mut router = Router::new("mcp-probe", version);
    let info = Implementation::new("mcp-probe", version).title("mcp-probe demonstration server");
    let clock = if everything {
        router.core().info(info);
        everything::register(&mut router, broken);
        slow::register(&mut router);
        tasks::register(&mut router, broken);
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
    let [failures, diagnostics, messages, heads] = [(); 4].map(|()| Arc::clone(log));
    router
        .on_failure(move |call, failure| failures.failed(call, failure))
        .on_diagnostic(move |diagnostic| diagnostics.diagnostic(diagnostic))
        .on_tap(move |record| messages.tap(record))
        .on_head(move |record| heads.head(record));
    (router, clock)
}
