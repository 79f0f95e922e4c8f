//! Server leg, authorization: one challenge for all scopes of an operation, and what a request without a token is told.

use mcp_proto::http::server::{Config, Event, ExchangeId, Protected};
use mcp_proto::model::CallToolResult;
use mcp_proto::server::{Call, Identity};
use mcp_proto::{Capabilities, Capability, VersionSet};
use mcp_tests::harness::HttpServerHarness;
use mcp_tests::harness::build::{initialize_request, legacy_request, modern_request};
use serde_json::{Value, json};

use crate::protocol::common::server;

const V: (&str, &str) = ("MCP-Protocol-Version", "2026-07-28");
const RESOURCE: &str = "https://mcp.example.com/mcp";
const METADATA: &str = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp";
const LOW: &str = "mcp:conformance:baseline";

fn web() -> HttpServerHarness {
    let protected = Protected::new(RESOURCE, "https://login.example.com").expect("valid");
    let protected = protected.scopes_supported(["mcp:conformance:tools:call"]).expect("scopes");
    let capabilities =
        Capabilities::new().with(Capability::Tools).with(Capability::Resources).with(Capability::Prompts);
    let config = server(VersionSet::ALL).capabilities(capabilities);
    HttpServerHarness::new(config, Config::new().protected(protected))
}

/// Sends a request with a token that has `scopes`.
fn ask(web: &mut HttpServerHarness, (method, subject): (&str, &str), scopes: &str) -> (ExchangeId, Call) {
    let member = if method == "resources/read" { "uri" } else { "name" };
    let body = modern_request(1, method, json!({(member): subject})).to_string();
    let fields = [V, ("Mcp-Method", method), ("Mcp-Name", subject), ("Authorization", "Bearer opaque")];
    let x = web.send_request("POST", "/mcp", &fields, &body);
    let Some(Event::Token { exchange, .. }) = web.server.poll_event(web.now) else { panic!("no token") };
    web.server.grant(web.now, exchange, Identity::new("a").scopes(scopes));
    web.send_body(x, &body);
    (x, web.expect_call())
}

/// Scenario `sep-2350-server-scope-challenge`: four operations, each with two scopes.
// covers: AUTH-054, AUTH-055
#[test]
fn challenge_names_all_scopes_of_the_operation_at_once() {
    let results = [
        (("tools/call", "test_simple_text"), ["tools:call", "tools:test_simple_text"]),
        (("resources/read", "test://static-text"), ["resources:read", "resources:static"]),
        (("resources/read", "test://template/123/data"), ["resources:read", "resources:template:123"]),
        (("prompts/get", "test_simple_prompt"), ["prompts:get", "prompts:test_simple_prompt"]),
    ];
    for (operation, needed) in results {
        let needed = needed.map(|scope| format!("mcp:conformance:{scope}"));
        let needed = needed.each_ref().map(String::as_str);
        let mut web = web();
        let (x, call) = ask(&mut web, operation, LOW);
        let missing = call.require_scopes(&needed).expect_err("too few scopes");
        let now = web.now;
        web.server.engine().fail(now, call.id(), &missing).expect("open");
        web.transmit_all();
        let reply = web.response(x);
        assert_eq!(reply.status, 403, "{operation:?}");
        let challenge = format!(
            "Bearer error=\"insufficient_scope\", scope=\"{}\", resource_metadata=\"{METADATA}\"",
            needed.join(" ")
        );
        assert_eq!(reply.field("www-authenticate"), Some(&*challenge));
        // With one of the two the challenge is the same.
        let (x, call) = ask(&mut web, operation, needed[0]);
        let missing = call.require_scopes(&needed).expect_err("one scope of two");
        web.server.engine().fail(now, call.id(), &missing).expect("open");
        web.transmit_all();
        assert_eq!(web.response(x).field("www-authenticate"), Some(&*challenge));
        let (x, call) = ask(&mut web, operation, &format!("{LOW} {}", needed.join(" ")));
        call.require_scopes(&needed).expect("all of them");
        let result = match operation.0 {
            "tools/call" => json!(CallToolResult::text("x")),
            "prompts/get" => json!({"messages": []}),
            _ => json!({"contents": []}),
        };
        web.server.engine().complete(now, call.id(), &result).expect("open");
        web.transmit_all();
        assert_eq!((web.response(x).status, web.response(x).message().get("error")), (200, None));
    }
}

/// Scenarios `server/auth-prm-discovery`, `-prm-resource-validation`, `-401-unauthorized`, `-www-authenticate-header`.
// covers: AUTH-004, AUTH-019, AUTH-020, AUTH-021, AUTH-051
#[test]
fn request_without_a_token_is_told_where_the_metadata_is() {
    let mut web = web();
    let initialize = initialize_request(1, "2025-03-26").to_string();
    let list = legacy_request(2, "tools/list", json!({})).to_string();
    for body in [initialize, list] {
        let x = web.post(&[], &body);
        let reply = web.response(x);
        assert_eq!((reply.status, reply.message()["error"]["code"].is_i64()), (401, true));
        let challenge = reply.field("www-authenticate").expect("a challenge");
        assert!(challenge.starts_with("Bearer "), "{challenge}");
        assert!(challenge.contains(&format!("resource_metadata=\"{METADATA}\"")), "{challenge}");
        assert!(!challenge.contains("error="), "there was no token: {challenge}");
    }
    let path = METADATA.strip_prefix("https://mcp.example.com").expect("our own");
    let x = web.send_request("GET", path, &[], "");
    let reply = web.response(x);
    assert_eq!((reply.status, reply.field("content-type")), (200, Some("application/json")));
    let document: Value = serde_json::from_str(&reply.body).expect("JSON");
    assert_eq!(document["resource"], RESOURCE);
    assert_eq!(document["authorization_servers"], json!(["https://login.example.com"]));
    assert_eq!(document["scopes_supported"], json!(["mcp:conformance:tools:call"]));
    // A resource with a fragment cannot be configured at all.
    assert!(Protected::new("https://mcp.example.com/mcp#x", "https://login.example.com").is_err());
}
