//! An HTTP server with the tool `echo {text}` at `http://127.0.0.1:PORT/mcp` (default port: 8080).

extern crate alloc;

use alloc::borrow::Cow;

use mcp_smol::mcp_proto::model::{CallToolResult, ListToolsResult, Tool};
use mcp_smol::mcp_proto::{Capabilities, Capability, RawJson, http, server::Config};
use mcp_smol::{Call, Cx, Error, HttpServer, RpcError};

#[derive(serde::Deserialize)]
struct Echo<'a> {
    /// Borrowed from the message, unless it contains escapes.
    #[serde(borrow)]
    text: Cow<'a, str>,
}

fn main() -> Result<(), Error> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "8080".into());
    let config = Config::new("echo", "1.0.0").capabilities(Capabilities::new().with(Capability::Tools));
    let schema = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;
    let schema = RawJson::new(schema).expect("a valid constant");
    let tools = ListToolsResult::new(vec![Tool::new("echo", schema).description("Answers with the text")]);
    let handler = async move |cx: &mut Cx, call: &Call| match call.method() {
        "tools/call" => {
            let Echo { text } = call.tool_call()?.parse()?;
            cx.complete(&CallToolResult::text(text))
        }
        "tools/list" => cx.complete(&tools),
        other => Err(RpcError::method_not_found(other)),
    };
    let server = HttpServer::bind(format!("127.0.0.1:{port}"), config, http::server::Config::new(), handler)?;
    mcp_smol::block_on(server.run())
}
