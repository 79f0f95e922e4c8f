//! The configuration of the server of the tests, and the call of a client without a session.

use mcp_proto::server::Config;
use mcp_proto::sync::Arc;
use mcp_proto::{Capabilities, Capability, Limits};
use serde_json::{Value, json};

/// Returns the configuration of a server with tools.
pub(crate) fn config() -> Arc<Config> {
    let capabilities = Capabilities::new().with(Capability::Tools);
    Arc::new(Config::new("d", "1").capabilities(capabilities).limits(Limits::tiny()))
}

/// Returns the request that calls a tool.
pub(crate) fn tool_call(id: u32, tool: &str, arguments: &Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}
