//! Servers and clients of `mcp-tokio` at TCP and Unix addresses and on serial lines.

use crate::support::adapter::block_on_reactor;
use crate::support::{Tools, server_config, text};
use mcp_proto::{Era, client};
use mcp_std::io::{Duplex, StreamAddress};
use mcp_tokio::{ByteStream, Client, Error, Handle, Server};
use serde_json::json;

pub(crate) fn serve(stream: Box<dyn Duplex + Send>, register: impl FnOnce(Handle)) -> Result<(), Error> {
    block_on_reactor(async {
        let server = Server::new(server_config(), ByteStream::new(stream)?, Tools::new().0);
        register(server.handle());
        server.run().await
    })
}

pub(crate) fn talk(
    config: client::Config,
    address: StreamAddress,
    texts: &[&str],
) -> Result<(Era, Vec<Result<String, Error>>), Error> {
    block_on_reactor(async {
        let client = Client::options(config).connect_to(address).await?;
        let mut answers = Vec::new();
        for text in texts {
            let called = client.call_tool("echo", &json!({"text": text})).await;
            answers.push(called.map(|result| self::text(&result)));
        }
        let era = client.peer().era();
        client.close().await?;
        Ok((era, answers))
    })
}
