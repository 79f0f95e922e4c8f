//! The server on `mcp-threads`.

use mcp_proto::model::CallToolResult;
use mcp_proto::{Change, RpcError};
use mcp_threads::{Call, Cx, HttpServer};

use crate::{Options, ServeResult, config, echo, tools};

pub(crate) fn serve(options: &Options, workers: Option<usize>) -> ServeResult {
    let tools = tools();
    let handler = move |cx: &mut Cx<'_>, call: &Call| match call.method() {
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
    if let Some(workers) = workers {
        server = server.workers(workers);
    }
    Ok(server.max_connections(options.max_connections).run()?)
}
