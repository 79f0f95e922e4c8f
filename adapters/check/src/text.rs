//! Parts of messages and texts that a check and a diagnosis have in common.

use core::time::Duration;

use serde_json::{Value, json};

/// Returns the params of `initialize` of a client without capabilities.
pub(crate) fn initialize_params(version: &str) -> Value {
    json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client_info()})
}

/// Returns the `_meta` that every modern request needs.
pub(crate) fn request_meta(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": client_info(),
    })
}

fn client_info() -> Value {
    json!({"name": "mcp-probe", "version": env!("CARGO_PKG_VERSION")})
}

/// Writes a time in seconds, as options of `mcp-probe` take it: `0.5s`, not `500ms`.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs_f64())
}
