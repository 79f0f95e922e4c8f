//! Servers and clients of `mcp-threads` at TCP and Unix addresses and on serial lines.

use crate::support::{Tools, text};
use mcp_proto::{Era, client, server};
use mcp_std::io::{Duplex, StreamAddress};
use mcp_threads::{Client, Error, Handle, Server};
use serde_json::json;

pub(crate) fn serve(
    config: server::Config,
    stream: Box<dyn Duplex + Send>,
    register: impl FnOnce(Handle),
) -> Result<(), Error> {
    let mut server = Server::new(config, stream, Tools::new().0);
    register(server.handle()?);
    server.run()
}

pub(crate) fn talk_over(
    config: client::Config,
    stream: Box<dyn Duplex + Send>,
    tool: &str,
    texts: &[&str],
) -> Result<Vec<Result<String, Error>>, Error> {
    let client = Client::options(config).connect(stream)?;
    let call = |text| client.call_tool(tool, &json!({"text": text})).map(|result| self::text(&result));
    let answers = texts.iter().map(call).collect();
    // Fails if the connection has ended.
    let _ = client.close();
    Ok(answers)
}

pub(crate) fn talk(
    config: client::Config,
    address: StreamAddress,
    texts: &[&str],
) -> Result<(Era, Vec<Result<String, Error>>), Error> {
    let client = Client::options(config).connect_to(address)?;
    let call = |text| client.call_tool("echo", &json!({"text": text})).map(|result| self::text(&result));
    let answers = texts.iter().map(call).collect();
    let era = client.peer().era();
    client.close()?;
    Ok((era, answers))
}
