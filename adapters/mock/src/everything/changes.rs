//! Changes while a client is connected, and log messages.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};

use mcp_proto::model::{LoggingLevel, Resource};
use mcp_proto::router::schema::NoArguments;
use mcp_proto::{Capability, Change, RpcError};
use mcp_runtime::server::router::RegisterFunctions;
use mcp_runtime::server::{CallCx, RunningCall};

const WATCHED_URI: &str = "test://watched-resource";

#[expect(deprecated, reason = "supported until its removal")]
pub(super) fn register(router: &mut impl RegisterFunctions) {
    router.as_router().core().declare(Capability::Logging);
    register_log_tools(router);
    register_triggers(router);
    register_watched_resource(router);
}

fn register_log_tools(router: &mut impl RegisterFunctions) {
    router
        .tool("test_logging_tool", move |cx, _: NoArguments| {
            log(cx, &LoggingLevel::Debug, "a detail")?;
            log(cx, &LoggingLevel::Info, "something worth knowing")?;
            Ok::<_, RpcError>("Logged at two levels")
        })
        .description("Logs if the client requests it");
}

/// Sends a log message in the middle of a call.
#[expect(deprecated, reason = "supported until its removal")]
pub(crate) fn log<B: RunningCall>(
    cx: &mut CallCx<B>,
    level: &LoggingLevel,
    text: &str,
) -> Result<(), RpcError> {
    let sent = cx.log(level, Some("everything"), text);
    sent.map(drop).map_err(|error| RpcError::internal(error.to_string()))
}

/// Registers tools that announce a change although nothing changes, as the conformance suite requires.
fn register_triggers(router: &mut impl RegisterFunctions) {
    let triggers = [
        ("test_trigger_tool_change", "Announces that the list of tools has changed", Change::Tools),
        ("test_trigger_prompt_change", "Announces that the list of prompts has changed", Change::Prompts),
    ];
    for (name, about, change) in triggers {
        router
            .tool(name, move |cx, _: NoArguments| {
                cx.publish(&change);
                "The change was announced"
            })
            .description(about);
    }
}

/// Registers a resource that changes each time a tool is called.
fn register_watched_resource(router: &mut impl RegisterFunctions) {
    let times = Arc::new(AtomicU32::new(0));
    let resource =
        Resource::new(WATCHED_URI, "watched-resource").description("Changes by test_touch_watched_resource");
    let seen = Arc::clone(&times);
    router.resource(resource.mime_type("text/plain"), move |_, _| {
        format!("changed {} times", seen.load(Ordering::Relaxed))
    });
    let about = "Changes test://watched-resource and notifies its followers";
    router
        .tool("test_touch_watched_resource", move |cx, _: NoArguments| {
            let now = times.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            cx.publish(&Change::Resource(WATCHED_URI.into()));
            format!("changed {now} times")
        })
        .description(about);
}
