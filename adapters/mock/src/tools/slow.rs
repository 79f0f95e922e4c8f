//! Fixtures of the conformance suite that take time.

use core::time::Duration;

use mcp_proto::model::LoggingLevel;
use mcp_proto::router::schema::NoArguments;
use mcp_proto::{Progress, RpcError};

use super::Router;
use crate::everything::log;

pub(super) fn register(router: &mut Router) {
    let progress = handler!(|cx, _: NoArguments| {
        for step in [0.0, 50.0, 100.0] {
            cx.progress(
                Progress::new(step).with_total(100.0).with_message(format!("Completed step {step} of 100")),
            )?;
            wait!(cx.sleep(Duration::from_millis(50)))?;
        }
        Ok::<_, RpcError>("Three steps were reported")
    });
    router.tool("test_tool_with_progress", progress).description("Reports progress before it answers");

    let reconnection = handler!(|cx, _: NoArguments| {
        cx.poll_later(Some(Duration::from_millis(500)));
        wait!(cx.sleep(Duration::from_millis(100)))?;
        Ok::<_, RpcError>("Whoever came back has this")
    });
    router
        .tool("test_reconnection", reconnection)
        .description("Cuts its stream, so that the client resumes it (HTTP, 2025-11-25)");

    let logging = handler!(|cx, _: NoArguments| {
        for text in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
            log(cx, &LoggingLevel::Info, text)?;
            wait!(cx.sleep(Duration::from_millis(50)))?;
        }
        Ok::<_, RpcError>("Tool with logging executed successfully")
    });
    router.tool("test_tool_with_logging", logging).description("Logs while it works");
}
