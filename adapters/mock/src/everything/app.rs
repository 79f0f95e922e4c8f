//! An app: a page, a tool that shows it, and a tool that only the page calls.

use core::sync::atomic::{AtomicU64, Ordering};

use alloc::sync::Arc;
use mcp_proto::model::{Map, Resource, UiResourceMeta, UiResourcePermissions, UiToolMeta, UiToolVisibility};
use mcp_proto::router::schema::NoArguments;
use mcp_runtime::server::router::RegisterFunctions;

use crate::demonstration::read_only;

const PAGE: &str = "ui://counter/page";

/// Registers the page and its tools.
pub(super) fn register(router: &mut impl RegisterFunctions) {
    let page =
        Resource::app(PAGE, "counter").title("Counter").description("Page of the app").ui(page_metadata());
    router.resource(page, |_, _| include_str!("counter.html"));

    let count = Arc::new(AtomicU64::new(0));
    let shown = Arc::clone(&count);
    let ui = || UiToolMeta::new().resource_uri(PAGE);
    router
        .tool("show_counter", move |_, _: NoArguments| {
            format!("The counter is at {}.", shown.load(Ordering::Relaxed))
        })
        .title("Show the counter")
        .description("Shows a counter, as a page where the client shows apps")
        .annotations(read_only())
        .ui(ui());
    router
        .tool("raise_counter", move |_, _: NoArguments| {
            let next = count.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            format!("The counter is at {next}.")
        })
        .description("Adds one to the counter; for its page alone")
        .ui(ui().visibility([UiToolVisibility::App]));
}

fn page_metadata() -> UiResourceMeta {
    let permissions = UiResourcePermissions::new().clipboard_write(Map::new());
    UiResourceMeta::new().permissions(permissions).prefers_border(true)
}
