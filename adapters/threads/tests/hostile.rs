//! Servers with handlers on workers, in bad surroundings

#[cfg(target_os = "linux")]
extern crate alloc;

#[cfg(target_os = "linux")]
#[path = "../../blocking/tests/shared/hostile.rs"]
mod shared;

#[cfg(target_os = "linux")]
mod adapter {
    use core::net::SocketAddr;
    use core::time::Duration;
    use std::thread;

    use mcp_proto::RpcError;
    use mcp_proto::http::server::Config as Http;
    use mcp_proto::model::CallToolResult;
    use mcp_proto::server::Config;
    use mcp_threads::{Answered, Call, Cx, Error, HttpServer};

    use crate::shared::{Step, step};

    /// One handler at a time
    pub(crate) const ALONE: bool = false;

    fn answer(cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        match step(&call.tool()?.name) {
            Step::Answer(text) => cx.complete(&CallToolResult::text(text)),
            Step::Wait => loop {
                cx.sleep(Duration::from_secs(3_600))?;
            },
            Step::Never => loop {
                thread::park();
            },
        }
    }

    pub(crate) fn serve_stdio(config: Config) -> Result<(), Error> {
        mcp_threads::serve_stdio(config, answer)
    }

    pub(crate) fn serve_http(
        address: SocketAddr,
        config: Config,
        ready: impl FnOnce(SocketAddr),
    ) -> Result<(), Error> {
        let server = HttpServer::bind(address, config, Http::new(), answer)?;
        ready(server.address()?);
        server.run()
    }
}

fn main() {
    #[cfg(target_os = "linux")]
    shared::main();
}
