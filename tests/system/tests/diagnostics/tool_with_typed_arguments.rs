//~ arguments of the type `Add` may contradict the schema of this tool
//~ `tool` derives the schema from the type: `router.tool(name, handler).title(…).description(…)`
//~ a handler for any schema takes `serde_json::Value`, `serde_json::Map` or `RawJson`

use mcp_blocking::Router;
use mcp_blocking::mcp_proto::{RawJson, model::Tool};

#[derive(serde::Deserialize)]
struct Add {
    a: i64,
    b: i64,
}

fn main() {
    let mut router = Router::new("calc", "1.0");
    let tool = Tool::new("add", RawJson::new(r#"{"type":"object"}"#).unwrap());
    router.tool_with(tool, |_, Add { a, b }: Add| a + b);
}
