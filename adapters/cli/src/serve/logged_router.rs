//! The router of the demonstration, which prints what it learns beside calls, for the adapter that includes this file.

use alloc::sync::Arc;

use super::super::{Router, tools};
use crate::demo::TourStep;
use crate::serve::clock::ClockResource;
use crate::serve::server_log::ServerLog;

/// Creates a router with or without the content of `--everything`; `broken` is a step to perform wrongly.
pub(super) fn build(
    everything: bool,
    broken: Option<TourStep>,
    log: &Arc<ServerLog>,
) -> (Router, Option<ClockResource>) {
    let (mut router, clock) = tools::build_router(everything, broken);
    let [failures, diagnostics, messages, heads] = [(); 4].map(|()| Arc::clone(log));
    router
        .on_failure(move |call, failure| failures.failed(call, failure))
        .on_diagnostic(move |diagnostic| diagnostics.diagnostic(diagnostic))
        .on_tap(move |record| messages.tap(record))
        .on_head(move |record| heads.head(record));
    (router, clock)
}
