//! Servers and clients of `mcp-tokio` at TCP and Unix addresses and on serial lines.

use crate::support::adapter::block_on_reactor;
use crate::support::{Tools, text};
use mcp_proto::{Era, client, server};
use mcp_std::io::{Duplex, StreamAddress};
use mcp_tokio::{ByteStream, Client, Error, Handle, Server};
use serde_json::json;

pub(crate) fn serve(
    config: server::Config,
    stream: Box<dyn Duplex + Send>,
    register: impl FnOnce(Handle),
) -> Result<(), Error> {
    block_on_reactor(async {
        let server = Server::new(config, ByteStream::new(stream)?, Tools::new().0);
        register(server.handle());
        server.run().await
    })
}

pub(crate) fn talk_over(
    config: client::Config,
    stream: Box<dyn Duplex + Send>,
    tool: &str,
    texts: &[&str],
) -> Result<Vec<Result<String, Error>>, Error> {
    block_on_reactor(async {
        let client = Client::options(config).connect(ByteStream::new(stream)?).await?;
        let mut answers = Vec::new();
        for text in texts {
            let called = client.call_tool(tool, &json!({"text": text})).await;
            answers.push(called.map(|result| self::text(&result)));
        }
        // Fails if the connection has ended.
        let _ = client.close().await;
        Ok(answers)
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
