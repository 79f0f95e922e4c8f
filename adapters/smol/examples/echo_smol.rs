//! A server on stdin and stdout with two tools: `echo {text}` and `add {a, b}`.

extern crate alloc;

use alloc::borrow::Cow;

use mcp_smol::mcp_proto::model::{CallToolResult, ListToolsResult, Tool};
use mcp_smol::mcp_proto::server::Config;
use mcp_smol::mcp_proto::{Capabilities, Capability, RawJson};
use mcp_smol::{Answered, Call, Cx, Error, RpcError, serve_stdio};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Echo<'a> {
    /// Borrowed from the message, unless it contains escapes.
    #[serde(borrow)]
    text: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

#[derive(Serialize)]
struct Sum {
    sum: f64,
}

fn main() -> Result<(), Error> {
    let config = Config::new("echo", "1.0.0").capabilities(Capabilities::new().with(Capability::Tools));
    let tools = list();
    mcp_smol::block_on(serve_stdio(config, async |cx: &mut Cx, call: &Call| match call.method() {
        "tools/call" => call_tool(cx, call),
        "tools/list" => cx.complete(&tools),
        other => Err(RpcError::method_not_found(other)),
    }))
}

fn call_tool(cx: &mut Cx, call: &Call) -> Result<Answered, RpcError> {
    let tool = call.tool_call()?;
    match &*tool.name {
        "echo" => {
            let Echo { text } = tool.parse()?;
            cx.complete(&CallToolResult::text(text))
        }
        "add" => {
            let Add { a, b } = tool.parse()?;
            let sum = RawJson::encode(&Sum { sum: a + b }).map_err(|e| RpcError::internal(e.to_string()))?;
            cx.complete(&CallToolResult::structured(sum))
        }
        other => Err(RpcError::invalid_params(format!("unknown tool: {other}"))),
    }
}

fn list() -> ListToolsResult {
    let schema = |text: &'static str| RawJson::new(text).expect("a valid constant");
    let echo = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;
    let add = r#"{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}"#;
    let sum = r#"{"type":"object","properties":{"sum":{"type":"number"}},"required":["sum"]}"#;
    ListToolsResult::new(vec![
        Tool::new("echo", schema(echo)).description("Answers with the text that it is given"),
        Tool::new("add", schema(add)).description("Adds two numbers").output_schema(schema(sum)),
    ])
}
