//! The server on `mcp-blocking`.

use mcp_blocking::{Call, Cx, HttpServer};
use mcp_proto::model::CallToolResult;
use mcp_proto::{Change, RpcError};

use crate::{Options, ServeResult, config, echo, tools};

pub(crate) fn serve(options: &Options) -> ServeResult {
    let tools = tools();
    let handler = |cx: &mut Cx<'_>, call: &Call| match call.method() {
        "tools/list" => cx.complete(&tools),
        "tools/call" if call.tool_call()?.name == "change" => {
            cx.publish(&Change::Tools);
            cx.complete(&CallToolResult::text("told"))
        }
        "tools/call" => cx.complete(&echo(call)?),
        other => Err(RpcError::method_not_found(other)),
    };
    let mut server = HttpServer::bind(("127.0.0.1", options.port), config(), options.paths(), handler)?;
    if let Some(sessions) = &options.sessions {
        server = server.share_sessions(sessions)?;
    }
    Ok(server.max_connections(options.max_connections).run()?)
}
