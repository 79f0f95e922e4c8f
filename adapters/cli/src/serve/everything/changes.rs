//! Changes while a client is connected, and log messages.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;

use mcp_proto::EntryKind;
use mcp_proto::model::{LoggingLevel, Prompt, Resource, ToolAnnotations};
use mcp_proto::router::schema::{self, NoArguments, schemars};
use mcp_proto::{Capability, Change, RpcError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Cx, Router};

const WATCHED_URI: &str = "test://watched-resource";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AnnexArguments {
    /// True opens the annex, false closes it.
    open: bool,
}

pub(super) fn register(router: &mut Router) {
    router.core().declare(Capability::Logging);
    register_log_tools(router);
    register_triggers(router);
    register_watched_resource(router);
    register_annex_tool(router);
}

fn register_log_tools(router: &mut Router) {
    router.tool(
        "test_tool_with_logging",
        "Logs while it works",
        handler!(|cx, _: NoArguments| {
            for text in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                log(cx, &LoggingLevel::Info, text)?;
                wait!(cx.sleep(Duration::from_millis(50)))?;
            }
            Ok::<_, RpcError>("Tool with logging executed successfully")
        }),
    );
    router.tool(
        "test_logging_tool",
        "Logs if the client requests it",
        handler!(|cx, _: NoArguments| {
            log(cx, &LoggingLevel::Debug, "a detail")?;
            log(cx, &LoggingLevel::Info, "something worth knowing")?;
            Ok::<_, RpcError>("Logged at two levels")
        }),
    );
}

fn log(cx: &mut Cx<'_>, level: &LoggingLevel, text: &str) -> Result<(), RpcError> {
    let sent = cx.log(level, Some("everything"), text);
    sent.map(drop).map_err(|error| RpcError::internal(error.to_string()))
}

/// Registers tools that announce a change although nothing changes, as the conformance suite requires.
fn register_triggers(router: &mut Router) {
    let triggers = [
        ("test_trigger_tool_change", "Announces that the list of tools has changed", Change::Tools),
        ("test_trigger_prompt_change", "Announces that the list of prompts has changed", Change::Prompts),
    ];
    for (name, about, change) in triggers {
        router.tool(
            name,
            about,
            handler!(|cx, _: NoArguments| {
                cx.publish(&change);
                "The change was announced"
            }),
        );
    }
}

/// Registers a resource that changes each time a tool is called.
fn register_watched_resource(router: &mut Router) {
    let times = Arc::new(AtomicU32::new(0));
    let resource =
        Resource::new(WATCHED_URI, "watched-resource").description("Changes by test_touch_watched_resource");
    let seen = Arc::clone(&times);
    router.resource(
        resource.mime_type("text/plain"),
        handler!(|_, _| { format!("changed {} times", seen.load(Ordering::Relaxed)) }),
    );
    let about = "Changes test://watched-resource and notifies its followers";
    router.tool(
        "test_touch_watched_resource",
        about,
        handler!(|cx, _: NoArguments| {
            let now = times.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            cx.publish(&Change::Resource(WATCHED_URI.into()));
            format!("changed {now} times")
        }),
    );
}

/// Registers a tool that adds and removes a tool, a prompt and a resource together.
fn register_annex_tool(router: &mut Router) {
    let tool = schema::tool::<AnnexArguments>("annex").title("Open or close the annex").annotations(
        ToolAnnotations::new()
            .read_only_hint(false)
            .destructive_hint(false)
            .idempotent_hint(true)
            .open_world_hint(false),
    );
    let later = router.updates();
    let is_open = AtomicBool::new(false);
    let about = "Opens or closes the annex: while it is open there are the tool annex_bell, the prompt annex_tour and \
                 the resource annex://sign";
    router.tool_with(
        tool.description(about),
        handler!(|_, AnnexArguments { open }: AnnexArguments| {
            if is_open.swap(open, Ordering::Relaxed) != open {
                later.schedule(
                    move |router| if open { register_annex(router) } else { unregister_annex(router) },
                );
            }
            if open { "the annex is open" } else { "the annex is closed" }
        }),
    );
}

fn register_annex(router: &mut Router) {
    router.tool("annex_bell", "Rings the bell of the annex", handler!(|_, _: NoArguments| "ding"));
    router.prompt(
        Prompt::new("annex_tour").description("Asks for a tour of the annex"),
        handler!(|_, _: NoArguments| "Show me around the annex."),
    );
    let sign = Resource::new("annex://sign", "sign").description("Text of the sign").mime_type("text/plain");
    router.resource(sign, handler!(|_, _| "Welcome to the annex"));
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
