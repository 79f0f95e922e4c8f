//! Deprecated features that a peer uses are reported once per peer, and served as ever.

use mcp_proto::DeprecatedFeature::{self, HttpSse, IncludeContext, Logging, Roots, Sampling};
use mcp_proto::{Capabilities, Capability, Diagnostic, Version, VersionSet, http};
use mcp_tests::harness::build::{
    LEGACY_VERSIONS, legacy_request, modern_request_with, notification, result_response,
};
use mcp_tests::harness::{
    ClientHarness, HttpClientHarness, HttpServerHarness, PipeHarness, ServerHarness, for_each_chunker,
};
use serde_json::{Value, json};

use crate::protocol::common::{client, server};

#[expect(deprecated, reason = "tested until its removal")]
fn logging_server() -> mcp_proto::server::Config {
    server(VersionSet::ALL)
        .capabilities(Capabilities::new().with(Capability::Tools).with(Capability::Logging))
}

#[expect(deprecated, reason = "tested until its removal")]
fn capable_client(versions: VersionSet) -> mcp_proto::client::Config {
    let all = [Capability::Elicitation, Capability::Sampling, Capability::Roots];
    client(versions).capabilities(all.into_iter().fold(Capabilities::new(), Capabilities::with))
}

fn reported<P: mcp_proto::pipe::Pipe>(harness: &mut PipeHarness<P>) -> Vec<DeprecatedFeature> {
    core::mem::take(&mut harness.deprecated_features)
}

fn call_with_level(id: u32, level: &str) -> Value {
    let meta = json!({"io.modelcontextprotocol/logLevel": level});
    modern_request_with(id, "tools/call", json!({"name": "book"}), &meta)
}

fn sampling(context: Option<&str>) -> Value {
    let mut params = json!({"messages": [], "maxTokens": 9});
    if let Some(context) = context {
        params["includeContext"] = context.into();
    }
    params
}

// covers: LOG-015, ROOT-013
#[test]
fn server_reports_each_feature_of_a_session_once() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let mut harness = ServerHarness::server(logging_server(), cut);
            harness.open_session_with(version, &json!({"roots": {"listChanged": true}, "sampling": {}}));
            harness.feed_message(&legacy_request(1, "ping", json!({})));
            harness.expect_reply();
            assert_eq!(reported(&mut harness), [], "a declaration is no use");
            for id in 2..4 {
                harness.feed_message(&legacy_request(id, "logging/setLevel", json!({"level": "error"})));
                assert_eq!(harness.expect_reply()["result"], json!({}));
                harness.feed_message(&notification("notifications/roots/list_changed", json!({})));
                assert!(matches!(
                    harness.expect_event(),
                    mcp_proto::server::Event::Notification(n) if n.method.contains("roots")
                ));
            }
            assert_eq!(reported(&mut harness), [Logging, Roots]);
            harness.transcript
        });
    }
}

// covers: LOG-015, META-012
#[test]
fn server_reports_a_level_in_modern_requests_once_per_connection() {
    for_each_chunker(|cut| {
        let mut harness = ServerHarness::server(logging_server(), cut);
        for id in 1..4 {
            let call = harness.expect_call_for(&call_with_level(id, "error"));
            harness.complete(call.id(), &json!({"content": []}));
        }
        assert_eq!(reported(&mut harness), [Logging]);
        harness.transcript
    });
}

// covers: LOG-015
#[test]
fn server_over_http_reports_per_session_and_once_for_all_modern_exchanges() {
    let mut web = HttpServerHarness::new(logging_server(), http::server::Config::new());
    let fields = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "book")];
    for id in 1..4 {
        web.post(&fields, &call_with_level(id, "error").to_string());
        let call = web.expect_call();
        let now = web.now;
        web.server.engine().complete(now, call.id(), &json!({"content": []})).expect("open");
        web.transmit_all();
    }
    assert_eq!(core::mem::take(&mut web.deprecated_features), [Logging]);
    for session in 1..3 {
        let hello = mcp_tests::harness::build::initialize_request(1, "2025-11-25");
        let x = web.post(&[], &hello.to_string());
        let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
        for request in 2..4 {
            let level = legacy_request(request, "logging/setLevel", json!({"level": "error"}));
            let x = web.post(&[("Mcp-Session-Id", &id)], &level.to_string());
            assert_eq!(web.response(x).status, 200);
        }
        while web.poll_event().is_some() {}
        assert_eq!(core::mem::take(&mut web.deprecated_features), [Logging], "session {session}");
    }
}

// covers: HTTPSSE-012
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn server_reports_http_sse_per_session() {
    let mut web =
        HttpServerHarness::new(logging_server(), http::server::Config::new().http_sse("/sse", "/messages"));
    for _ in 0..2 {
        let stream = web.send_request("GET", "/sse", &[], "");
        assert_eq!(web.response(stream).status, 200);
    }
    while web.poll_event().is_some() {}
    assert_eq!(web.deprecated_features, [HttpSse, HttpSse]);
}

// covers: LOG-015, ROOT-013, SAMP-010, SAMP-026
#[test]
fn client_reports_each_feature_of_a_legacy_server_once() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let mut harness = ClientHarness::client(capable_client(VersionSet::only(version)), cut);
            harness.become_legacy(version, json!({"tools": {}, "logging": {}}));
            assert_eq!(reported(&mut harness), [], "a declaration is no use");
            let log = notification("notifications/message", json!({"level": "error", "data": 1}));
            let messages = [
                (legacy_request("a", "sampling/createMessage", sampling(Some("none"))), vec![Sampling]),
                (legacy_request("b", "sampling/createMessage", sampling(None)), vec![]),
                (legacy_request("c", "sampling/createMessage", sampling(Some("new"))), vec![]),
                (
                    legacy_request("d", "sampling/createMessage", sampling(Some("allServers"))),
                    vec![IncludeContext],
                ),
                (legacy_request("e", "sampling/createMessage", sampling(Some("thisServer"))), vec![]),
                (legacy_request("f", "roots/list", Value::Null), vec![Roots]),
                (legacy_request("g", "roots/list", Value::Null), vec![]),
                (log.clone(), vec![Logging]),
                (log, vec![]),
            ];
            for (message, features) in messages {
                harness.feed_message(&message);
                // It is served all the same.
                harness.expect_event();
                assert_eq!(reported(&mut harness), features, "{message}");
            }
            harness.transcript
        });
    }
}

// covers: ROOT-013, SAMP-010, SAMP-026
#[test]
fn client_reports_each_feature_of_a_modern_server_once() {
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(capable_client(VersionSet::ALL), cut);
        harness.become_modern(json!({"tools": {}}));
        for round in 0..2 {
            let (_, request) = harness.start_call("tools/call", &json!({"name": "a"}), &Default::default());
            let inputs = json!({
                "dirs": {"method": "roots/list"},
                "line": {"method": "sampling/createMessage", "params": sampling(Some("thisServer"))},
            });
            let result = json!({"resultType": "input_required", "inputRequests": inputs});
            harness.feed_message(&result_response(&request, result));
            harness.expect_input();
            harness.expect_input();
            let expected: &[_] = if round == 0 { &[Roots, Sampling, IncludeContext] } else { &[] };
            let mut found = reported(&mut harness);
            found.sort();
            assert_eq!(found, expected);
        }
        harness.transcript
    });
}

// covers: HTTPSSE-013
#[test]
fn client_reports_its_fallback_to_http_sse() {
    for_each_chunker(|cut| {
        let mut harness = HttpClientHarness::new(
            client(VersionSet::only(Version::V2024_11_05)),
            HttpClientHarness::default_http_config(),
            cut,
        );
        let hello = harness.expect_post("initialize");
        harness.respond_with_status(hello.id, 405);
        let stream = harness.expect_request();
        assert_eq!(stream.method, "GET");
        harness.start_event_stream(stream.id);
        assert_eq!(harness.deprecated_features, []);
        harness.receive_body(stream.id, "event: endpoint\ndata: /messages?sessionId=1\n\n");
        harness.expect_post("initialize");
        assert_eq!(harness.deprecated_features, [HttpSse]);
        harness.transcript
    });
}

// covers: LOG-015, ROOT-013, SAMP-026
#[test]
fn diagnostic_names_feature_decision_removal_and_replacement() {
    let table = include_str!("../../core/docs/deprecations.md");
    for feature in DeprecatedFeature::ALL {
        let cells = [feature.decided_in(), feature.earliest_removal(), feature.replacement()];
        let row = table.lines().find(|line| line.starts_with(&format!("| {feature} | 20")));
        let row: Vec<&str> = row.unwrap_or_else(|| panic!("{feature} has no row")).split(" | ").collect();
        assert_eq!(row[2..], [cells[0], cells[1], &format!("{} |", cells[2])], "{feature}");
        let text = Diagnostic::DeprecatedFeature { feature }.to_string();
        assert!(cells.iter().all(|cell| text.contains(cell)), "{text}");
        assert!(text.contains(&feature.to_string()), "{text}");
    }
}
