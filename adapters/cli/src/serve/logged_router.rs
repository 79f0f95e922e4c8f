//! The router of the demonstration, which prints what it learns beside calls, for the adapter that includes this file.

#[path = "mock_router.rs"]
#[cfg_attr(
    feature = "runtimes",
    expect(clippy::duplicate_mod, reason = "once for the router of each adapter")
)]
mod mock_router;

use alloc::sync::Arc;

use super::super::Router;
use super::super::tools::{self, Entries};
use crate::serve::ServeArgs;
use crate::serve::clock::ClockResource;
use crate::serve::layers;
use crate::serve::server_log::ServerLog;

/// Creates the router that the options describe.
pub(super) fn build(args: &ServeArgs, log: &Arc<ServerLog>) -> (Router, Option<ClockResource>) {
    let entries = match (args.everything, &args.sessions.session_store) {
        (false, _) => Entries::Demonstration,
        (true, Some(_)) => Entries::Shared,
        (true, None) => Entries::Everything,
    };
    let (mut router, clock) = match &args.mock.definition {
        Some(definition) => (mock_router::build(definition), None),
        None => tools::build_router(entries, args.broken),
    };
    layers::add(&mut router, &args.layers, log.audit_file.as_ref());
    let [failures, diagnostics, messages, heads] = [(); 4].map(|()| Arc::clone(log));
    router
        .on_failure(move |call, failure| failures.failed(call, failure))
        .on_diagnostic(move |diagnostic| diagnostics.diagnostic(diagnostic))
        .on_tap(move |record| messages.tap(record))
        .on_head(move |record| heads.head(record));
    (router, clock)
}
