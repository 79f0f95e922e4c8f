//! An annex: a tool that adds and removes a tool, a prompt and a resource while the server runs.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};

use mcp_proto::EntryKind;
use mcp_proto::model::{Prompt, Resource, ToolAnnotations};
use mcp_proto::router::schema::{NoArguments, schemars};
use mcp_runtime::server::router::RegisterFunctions;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Router;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AnnexArguments {
    /// True opens the annex, false closes it.
    open: bool,
}

/// Registers a tool that adds and removes a tool, a prompt and a resource together.
pub(super) fn register(router: &mut Router) {
    let later = router.updates();
    let is_open = Arc::new(AtomicBool::new(false));
    let annex = handler!(|_, AnnexArguments { open }: AnnexArguments| {
        if is_open.swap(open, Ordering::Relaxed) != open {
            later
                .schedule(move |router| if open { register_annex(router) } else { unregister_annex(router) });
        }
        if open { "the annex is open" } else { "the annex is closed" }
    });
    let about = "Opens or closes the annex: while it is open there are the tool annex_bell, the prompt annex_tour and \
                 the resource annex://sign";
    let hints = ToolAnnotations::new().read_only_hint(false).destructive_hint(false).idempotent_hint(true);
    router
        .tool("annex", annex)
        .title("Open or close the annex")
        .description(about)
        .annotations(hints.open_world_hint(false));
}

fn register_annex(router: &mut impl RegisterFunctions) {
    router.tool("annex_bell", |_, _: NoArguments| "ding").description("Rings the bell of the annex");
    router.prompt(
        Prompt::new("annex_tour").description("Asks for a tour of the annex"),
        |_, _: NoArguments| "Show me around the annex.",
    );
    let sign = Resource::new("annex://sign", "sign").description("Text of the sign").mime_type("text/plain");
    router.resource(sign, |_, _| "Welcome to the annex");
}

fn unregister_annex(router: &mut Router) {
    for (kind, name) in [
        (EntryKind::Tool, "annex_bell"),
        (EntryKind::Prompt, "annex_tour"),
        (EntryKind::Resource, "annex://sign"),
    ] {
        router.core().remove(kind, name);
    }
}
