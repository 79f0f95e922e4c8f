//! Servers of this package that the system tells to end
#![cfg(unix)]

#[path = "../../threads/tests/shared/signals.rs"]
mod shared;

mod adapter {
    use core::time::Duration;

    use mcp_proto::RpcError;
    use mcp_proto::http::server::Config as Http;
    use mcp_proto::model::CallToolResult;
    use mcp_proto::server::Config;
    use mcp_smol::{Answered, Call, Cx, HttpServer, Server, block_on, on_terminate};

    /// Takes its time, or never ends
    async fn answer(cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        eprintln!("begun");
        if call.tool()?.name == "endless" {
            core::future::pending::<()>().await;
        }
        cx.sleep(Duration::from_millis(300)).await?;
        cx.complete(&CallToolResult::text("answered"))
    }

    pub(crate) fn serve_http(config: Config, grace: Duration) {
        let answer = async |cx: &mut Cx<'_>, call: &Call| answer(cx, call).await;
        let server = HttpServer::bind("127.0.0.1:0", config, Http::new(), answer).unwrap().shards(2);
        let handle = server.handle();
        on_terminate(move || handle.shutdown(grace)).unwrap();
        eprintln!("at {}", server.address().unwrap());
        block_on(server.run()).unwrap();
    }

    /// By the reactor, as in any executor
    pub(crate) fn serve_stdio(config: Config, grace: Duration) {
        let answer = async |cx: &mut Cx<'_>, call: &Call| answer(cx, call).await;
        let server = Server::stdio(config, answer).unwrap();
        let handle = server.handle();
        on_terminate(move || handle.shutdown(grace)).unwrap();
        async_io::block_on(server.run()).unwrap();
    }
}
