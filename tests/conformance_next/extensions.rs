//! Extensions of a session in both directions, and an extension that this project does not have.

use mcp_proto::http::server::Config;
use mcp_proto::model::CallToolResult;
use mcp_proto::{Capabilities, Capability, VersionSet};
use mcp_tests::harness::build::{
    error_response, initialize_result, legacy_request, modern_request, notification, raw, result_response,
    to_value,
};
use mcp_tests::harness::{Chunker, HttpClientHarness, HttpServerHarness};
use serde_json::{Value, json};

use crate::protocol::common::{client, secs, server};

const V: &str = "MCP-Protocol-Version";
const SESSION: &str = "Mcp-Session-Id";

/// Settings in which a typed structure would lose `null`, `false`, 0 or an empty object.
fn of_client() -> Value {
    json!({
        "io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]},
        "com.example/conformance": {"nested": {"enabled": false, "limit": 0}, "values": ["a", 2, null]},
        "com.example/empty": {},
    })
}

fn of_server() -> Value {
    json!({
        "io.modelcontextprotocol/ui": {},
        "com.example/conformance": {"nested": {"enabled": true, "limit": 3}, "values": [null, "b", 4]},
        "com.example/empty": {},
    })
}

fn declaring(extensions: &Value) -> Capabilities {
    let extensions = extensions.as_object().expect("an object");
    extensions.iter().fold(Capabilities::new().with(Capability::Tools), |all, (id, settings)| {
        all.extension(id, raw(settings)).expect("an identifier")
    })
}

/// Scenario `server-legacy-extensions`: what the server declares, and what its handler sees of the client.
// covers: EXT-009
#[test]
fn session_server_declares_and_sees_extensions_unchanged() {
    let config = server(VersionSet::ALL).capabilities(declaring(&of_server()));
    let mut web = HttpServerHarness::new(config, Config::new());
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"extensions": of_client()},
        "clientInfo": {"name": "x", "version": "1"}});
    let version = (V, "2025-11-25");
    let x = web.post(&[version], &legacy_request(1, "initialize", params).to_string());
    let result = web.response(x).message()["result"].clone();
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert_eq!(result["capabilities"]["extensions"], of_server());
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    let named = [version, (SESSION, &*id)];
    web.post(&named, &notification("notifications/initialized", Value::Null).to_string());
    web.poll_event().expect("the session");
    let params = json!({"name": "test_legacy_extension_capabilities", "arguments": {}});
    let x = web.post(&named, &legacy_request(2, "tools/call", params).to_string());
    let call = web.expect_call();
    let peer = web.server.engine().peer(&call);
    let seen: Value = of_client()
        .as_object()
        .expect("an object")
        .keys()
        .map(|id| (id.clone(), to_value(&peer.extension(id).expect("declared"))))
        .collect();
    assert_eq!(seen, of_client());
    assert!(peer.extension("com.example/other").is_none());
    let (now, text) = (web.now, json!({"extensions": seen}).to_string());
    web.server.engine().complete(now, call.id(), &CallToolResult::text(text)).expect("open");
    web.transmit_all();
    assert_eq!(web.response(x).status, 200);
    let x = web.send_request("DELETE", "/mcp", &named, "");
    assert!((200..300).contains(&web.response(x).status));
}

/// Scenario `legacy-extensions`: the same from the other side.
// covers: EXT-009
#[test]
fn session_client_declares_and_sees_extensions_unchanged() {
    let config = client(VersionSet::ALL).capabilities(
        of_client()
            .as_object()
            .expect("an object")
            .iter()
            .fold(Capabilities::new(), |all, (id, settings)| {
                all.extension(id, raw(settings)).expect("an identifier")
            }),
    );
    let mut harness =
        HttpClientHarness::new(config, HttpClientHarness::default_http_config(), Chunker::Whole);
    let probe = harness.expect_post("server/discover");
    let unknown = error_response(&probe.body, -32601, "Method not found", Value::Null);
    harness.respond_with_json(probe.id, 200, &unknown);
    let request = harness.expect_post("initialize");
    assert_eq!(request.body["params"]["protocolVersion"], "2025-11-25");
    assert_eq!(request.body["params"]["capabilities"]["extensions"], of_client());
    let capabilities = json!({"tools": {}, "extensions": of_server()});
    let answer = result_response(&request.body, initialize_result("2025-11-25", capabilities));
    harness.respond_with_json(request.id, 200, &answer);
    let peer = harness.expect_ready();
    for (id, settings) in of_server().as_object().expect("an object") {
        assert_eq!(peer.extension(id).map(|found| to_value(&found)).as_ref(), Some(settings), "{id}");
    }
    assert!(peer.extension("com.example/other").is_none());
    let initialized = harness.expect_post("notifications/initialized");
    harness.respond_with_status(initialized.id, 202);
}

/// Scenarios `events-discovery` and `events-client-no-extension`, as far as they go without the extension: the server says that it
/// does not know the methods, and the client calls none.
// covers: EXT-004
#[test]
fn extension_that_nobody_declares_is_unknown_and_unused() {
    for versions in [VersionSet::ALL, VersionSet::MODERN] {
        let mut web = HttpServerHarness::new(server(versions), Config::new());
        for method in
            ["events/list", "events/poll", "events/stream", "events/subscribe", "events/unsubscribe"]
        {
            let fields = [(V, "2026-07-28"), ("Mcp-Method", method)];
            let x = web.post(&fields, &modern_request(1, method, json!({})).to_string());
            let reply = web.response(x);
            assert_eq!((reply.status, &reply.message()["error"]["code"]), (404, &json!(-32601)), "{method}");
        }
    }
    let mut harness = HttpClientHarness::new(
        client(VersionSet::MODERN),
        HttpClientHarness::default_http_config(),
        Chunker::Whole,
    );
    harness.become_modern(json!({"tools": {}}));
    harness.advance(secs(3_600));
    harness.assert_idle();
}
