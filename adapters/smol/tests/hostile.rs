//! Servers that are futures, in bad surroundings

#[cfg(target_os = "linux")]
extern crate alloc;

#[cfg(target_os = "linux")]
#[path = "../../blocking/tests/shared/hostile.rs"]
mod shared;

#[cfg(target_os = "linux")]
mod adapter {
    use core::future::pending;
    use core::net::SocketAddr;
    use core::time::Duration;

    use mcp_proto::RpcError;
    use mcp_proto::http::server::Config as Http;
    use mcp_proto::model::CallToolResult;
    use mcp_proto::server::Config;
    use mcp_smol::{Answered, Call, Cx, Error, HttpServer};

    use crate::shared::{Step, step};

    /// One handler at a time
    pub(crate) const ALONE: bool = false;

    async fn answer(cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        match step(&call.tool()?.name) {
            Step::Answer(text) => cx.complete(&CallToolResult::text(text)),
            Step::Wait => loop {
                cx.sleep(Duration::from_secs(3_600)).await?;
            },
            Step::Never => pending().await,
        }
    }

    pub(crate) fn serve_stdio(config: Config) -> Result<(), Error> {
        mcp_smol::block_on(mcp_smol::serve_stdio(config, answer))
    }

    pub(crate) fn serve_http(
        address: SocketAddr,
        config: Config,
        ready: impl FnOnce(SocketAddr),
    ) -> Result<(), Error> {
        let server = HttpServer::bind(address, config, Http::new(), answer)?;
        ready(server.address()?);
        mcp_smol::block_on(server.run())
    }
}

fn main() {
    #[cfg(target_os = "linux")]
    shared::main();
}
