//! A server on a byte stream, and the lines that it reads and writes.

use mcp_embedded::serial::SerialServer;
use mcp_proto::Instant;
use serde_json::{Value, json};

use crate::support;

/// Time at the start of each test.
pub(crate) const START: Instant = Instant::from_micros(1);

pub(crate) fn server() -> SerialServer {
    SerialServer::new(support::config(), START)
}

/// Returns the line of a call.
pub(crate) fn call(id: u32) -> Vec<u8> {
    format!("{}\n", support::tool_call(id, "t", &json!({}))).into_bytes()
}

/// Returns the messages that were written whole.
pub(crate) fn messages(output: &[u8]) -> Vec<Value> {
    let lines = output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).expect("a whole message")).collect()
}
