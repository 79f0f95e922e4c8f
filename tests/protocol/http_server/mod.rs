//! The server over HTTP, exchange by exchange.

mod cards;
mod codes;
mod crowds;
mod early_cancellation;
mod get_streams;
mod legacy;
mod memory;
mod mirrored_fields;
mod modern;
mod principals;
mod replay;
mod request_checks;
mod request_in_view;
mod resumption;
mod retention;
mod scopes;
mod sessions;
mod shared;
mod snapshots;
mod sse_2024;
mod tokens;
mod transcripts;
mod visibility;

use mcp_proto::http::server::Config;
use mcp_proto::model::CallToolResult;
use mcp_proto::server::Call;
use mcp_proto::{Capabilities, Capability, VersionSet};
use mcp_tests::harness::HttpServerHarness;

use crate::protocol::common::server;

/// Returns a server with all capabilities for every revision.
pub(super) fn harness(http: Config) -> HttpServerHarness {
    harness_with_versions(VersionSet::ALL, http)
}

pub(super) fn harness_with_versions(versions: VersionSet, http: Config) -> HttpServerHarness {
    harness_with(server(versions), http)
}

pub(super) fn harness_with(server: mcp_proto::server::Config, http: Config) -> HttpServerHarness {
    HttpServerHarness::new(with_capabilities(server), http)
}

/// Declares all capabilities.
#[expect(deprecated, reason = "tested until its removal")]
pub(super) fn with_capabilities(server: mcp_proto::server::Config) -> mcp_proto::server::Config {
    let capabilities = Capabilities::new()
        .with(Capability::Tools)
        .with(Capability::ToolsListChanged)
        .with(Capability::Logging)
        .with(Capability::Resources)
        .with(Capability::ResourceSubscriptions);
    server.capabilities(capabilities)
}

/// Returns the body of a modern request.
pub(super) fn modern_request(id: u32, method: &str, params: &str) -> String {
    let comma = if params.is_empty() { "" } else { "," };
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{{{params}{comma}\"_meta\":{{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{{}}}}}}}}"
    )
}

/// Header fields of a modern call of the tool `echo`.
pub(super) const CALL_FIELDS: [(&str, &str); 3] =
    [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")];

/// Returns the body of a legacy request.
pub(super) fn legacy_request(id: u32, method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{{{params}}}}}")
}

pub(super) const ECHO_PARAMS: &str = "\"name\":\"echo\",\"arguments\":{\"text\":\"hi\"}";

pub(super) fn initialize_request(version: &str) -> String {
    legacy_request(
        1,
        "initialize",
        &format!(
            "\"protocolVersion\":\"{version}\",\"capabilities\":{{\"elicitation\":{{}}}},\"clientInfo\":{{\"name\":\"x\",\"version\":\"1\"}}"
        ),
    )
}

/// Opens a session and returns its id.
pub(super) fn open_session(web: &mut HttpServerHarness, version: &str) -> String {
    let x = web.post(&[], &initialize_request(version));
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    let x = web
        .post(&[("Mcp-Session-Id", &id)], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert_eq!(web.response(x).status, 202);
    while let Some(event) = web.poll_event() {
        assert!(matches!(event, mcp_proto::server::Event::SessionOpened { .. }), "{event:?}");
    }
    id
}

/// Completes a call with the text `done`.
pub(super) fn answer_call(web: &mut HttpServerHarness, call: &Call) {
    let now = web.now;
    web.server.engine().complete(now, call.id(), &CallToolResult::text("done")).expect("open");
    web.transmit_all();
}
