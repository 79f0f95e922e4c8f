//! On `mcp-blocking`

use alloc::borrow::Cow;

use mcp_blocking::{Call, Cx, HttpServer};
use mcp_proto::model::CallToolResult;
use mcp_proto::{Change, RpcError};

use crate::{CONNECTIONS, Outcome, config, paths, tools};

#[derive(serde::Deserialize)]
struct Echo<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

pub(crate) fn serve(port: u16) -> Outcome {
    let tools = tools();
    let handler = |cx: &mut Cx<'_>, call: &Call| match call.method() {
        "tools/list" => cx.complete(&tools),
        "tools/call" => {
            let tool = call.tool()?;
            if tool.name == "change" {
                cx.publish(&Change::Tools);
                return cx.complete(&CallToolResult::text("told"));
            }
            let Echo { text } = tool.parse()?;
            cx.complete(&CallToolResult::text(text))
        }
        other => Err(RpcError::method_not_found(other)),
    };
    let server = HttpServer::bind(("127.0.0.1", port), config(), paths(), handler)?;
    Ok(server.max_connections(CONNECTIONS).run()?)
}
