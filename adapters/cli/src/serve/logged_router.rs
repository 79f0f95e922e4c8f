//! The router of the demonstration, which prints what it learns beside calls, for the adapter that includes this file.

use alloc::sync::Arc;

use mcp_mock::{ClockResource, Content, Setup};
use mcp_proto::model::Implementation;

use super::super::{Router, mock_router};
use crate::notes::print_note;
use crate::serve::ServeArgs;
use crate::serve::layers;
use crate::serve::server_log::ServerLog;

/// Creates the router that the options describe.
pub(super) fn build(args: &ServeArgs, log: &Arc<ServerLog>) -> (Router, Option<ClockResource>) {
    let content = match (&args.mock.definition, args.everything, &args.sessions.session_store) {
        (Some(definition), _, _) => Content::Defined(Arc::clone(definition)),
        (None, false, _) => Content::Demonstration,
        (None, true, Some(_)) => Content::EverythingShared,
        (None, true, None) => Content::Everything,
    };
    let info = Implementation::new("mcp-probe", env!("CARGO_PKG_VERSION"));
    let info = info.title("mcp-probe demonstration server");
    let setup = Setup { info, broken: args.broken, ..Setup::new(content, print_note) };
    let (mut router, clock) = mock_router(&setup);
    layers::add(&mut router, &args.layers, log.audit_file.as_ref());
    let [failures, diagnostics, messages, heads] = [(); 4].map(|()| Arc::clone(log));
    router
        .on_failure(move |call, failure| failures.failed(call, failure))
        .on_diagnostic(move |diagnostic| diagnostics.diagnostic(diagnostic))
        .on_tap(move |record| messages.tap(record))
        .on_head(move |record| heads.head(record));
    (router, clock)
}
