//! The server over HTTP, exchange by exchange.

mod door;
mod early;
mod kept;
mod legacy;
mod modern;
mod old;
mod replay;
mod seams;
mod sessions;
mod tokens;
mod transcripts;

use mcp_proto::http::server::Config;
use mcp_proto::model::CallToolResult;
use mcp_proto::server::Call;
use mcp_proto::{Capabilities, Capability, VersionSet};
use mcp_tests::harness::Web;

use crate::common::server;

/// A server with everything, for every revision
fn web(http: Config) -> Web {
    web_of(VersionSet::ALL, http)
}

fn web_of(versions: VersionSet, http: Config) -> Web {
    let capabilities = Capabilities::new()
        .with(Capability::Tools)
        .with(Capability::ToolsListChanged)
        .with(Capability::Logging)
        .with(Capability::Resources)
        .with(Capability::ResourceSubscriptions);
    Web::new(server(versions).capabilities(capabilities), http)
}

/// A modern request as it stands in a body
fn modern(id: u32, method: &str, params: &str) -> String {
    let comma = if params.is_empty() { "" } else { "," };
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{{{params}{comma}\"_meta\":{{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{{}}}}}}}}"
    )
}

/// The fields that a modern request for a tool has
const CALL: [(&str, &str); 3] =
    [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")];

/// A legacy request
fn legacy(id: u32, method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{{{params}}}}}")
}

const ECHO: &str = "\"name\":\"echo\",\"arguments\":{\"text\":\"hi\"}";

fn initialize(version: &str) -> String {
    legacy(
        1,
        "initialize",
        &format!(
            "\"protocolVersion\":\"{version}\",\"capabilities\":{{\"elicitation\":{{}}}},\"clientInfo\":{{\"name\":\"x\",\"version\":\"1\"}}"
        ),
    )
}

/// Opens a session; its id
fn session(web: &mut Web, version: &str) -> String {
    let x = web.post(&[], &initialize(version));
    let id = web.reply(x).field("mcp-session-id").expect("a session").to_owned();
    let x = web
        .post(&[("Mcp-Session-Id", &id)], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert_eq!(web.reply(x).status, 202);
    while let Some(event) = web.event() {
        assert!(matches!(event, mcp_proto::server::Event::SessionOpened { .. }), "{event:?}");
    }
    id
}

/// Answers a call with its text
fn answer(web: &mut Web, call: &Call) {
    let now = web.now;
    web.server.engine().complete(now, call.id(), &CallToolResult::text("done")).expect("open");
    web.pull();
}
