//! The server on `mcp-tokio`.

use mcp_proto::model::CallToolResult;
use mcp_proto::{Change, RpcError};
use mcp_tokio::{Call, Cx, HttpServer};

use crate::{Options, ServeResult, config, echo, tools};

pub(crate) fn serve(options: &Options) -> ServeResult {
    let tools = tools();
    let handler = async move |cx: &mut Cx, call: &Call| match call.method() {
        "tools/list" => cx.complete(&tools),
        "tools/call" if call.tool_call()?.name == "change" => {
            cx.publish(&Change::Tools);
            cx.complete(&CallToolResult::text("told"))
        }
        "tools/call" => cx.complete(&echo(call)?),
        other => Err(RpcError::method_not_found(other)),
    };
    // As in the example of the package.
    let runtime = ::tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut server = HttpServer::bind(("127.0.0.1", options.port), config(), options.paths(), handler)?;
        if let Some(sessions) = &options.sessions {
            server = server.share_sessions(sessions)?;
        }
        Ok(::tokio::spawn(server.max_connections(options.max_connections).run()).await??)
    })
}
