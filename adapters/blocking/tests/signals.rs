//! Servers of this package that the system tells to end
#![cfg(unix)]

#[path = "../../threads/tests/shared/signals.rs"]
mod shared;

mod adapter {
    use core::time::Duration;

    use mcp_blocking::{Answered, Call, Cx, HttpServer, Server, on_terminate};
    use mcp_proto::RpcError;
    use mcp_proto::http::server::Config as Http;
    use mcp_proto::model::CallToolResult;
    use mcp_proto::server::Config;
    use mcp_std::Stdio;

    /// Takes its time, or never ends
    fn answer(cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        eprintln!("begun");
        while call.tool()?.name == "endless" {
            cx.sleep(Duration::from_secs(1))?;
        }
        cx.sleep(Duration::from_millis(300))?;
        cx.complete(&CallToolResult::text("answered"))
    }

    pub(crate) fn serve_http(config: Config, grace: Duration) {
        let mut server = HttpServer::bind("127.0.0.1:0", config, Http::new(), answer).unwrap();
        let handle = server.handle().unwrap();
        on_terminate(move || handle.shutdown(grace)).unwrap();
        eprintln!("at {}", server.address().unwrap());
        server.run().unwrap();
    }

    pub(crate) fn serve_stdio(config: Config, grace: Duration) {
        let mut server = Server::new(config, Stdio::guarded().unwrap(), answer);
        let handle = server.handle().unwrap();
        on_terminate(move || handle.shutdown(grace)).unwrap();
        server.run().unwrap();
    }
}
