//! HTTP client: header fields that repeat parts of the body, sent in legacy sessions, too.

use mcp_proto::{CallError, Version, VersionSet};
use mcp_tests::harness::build::{error_response, result_response};
use mcp_tests::harness::{Chunker, HttpClientHarness, SentRequest, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, secs};
use crate::protocol::http_client_shared::{non_retryable, tool_result};

fn mirroring_harness(cut: Chunker, mirrors: bool) -> HttpClientHarness {
    let config = HttpClientHarness::default_http_config().mirror_in_legacy_sessions(mirrors);
    let mut harness = HttpClientHarness::new(client(VersionSet::LEGACY), config, cut);
    harness.mirrors_in_legacy_sessions = mirrors;
    harness
}

fn tools(header: &str) -> Value {
    let properties = json!({"region": {"type": "string", "x-mcp-header": header}});
    json!({"tools": [{"name": "wave", "inputSchema": {"type": "object", "properties": properties}}]})
}

/// Returns the fields that repeat parts of the body.
fn mirrored(request: &SentRequest) -> Vec<(&str, &str)> {
    let is_one = |name: &str| name.starts_with("Mcp-") && name != "Mcp-Session-Id";
    request.fields.iter().filter(|(name, _)| is_one(name)).map(|(n, v)| (&**n, &**v)).collect()
}

fn list_tools(harness: &mut HttpClientHarness, listed: &Value) -> SentRequest {
    let key = harness.client.engine().list_tools(harness.now, None, &non_retryable()).expect("a list");
    let request = harness.expect_post("tools/list");
    harness.respond_with_json(request.id, 200, &result_response(&request.body, listed.clone()));
    assert_eq!(harness.expect_done(key).expect("a list")["tools"], listed["tools"]);
    request
}

fn call_wave(harness: &mut HttpClientHarness) -> (mcp_proto::CallKey, SentRequest) {
    harness.start_call("tools/call", &json!({"name": "wave", "arguments": {"region": "é"}}), &non_retryable())
}

// covers: HTTP-032, HTTP-033, HTTP-046, XHDR-015, XHDR-031 (of legacy sessions)
#[test]
fn legacy_requests_repeat_the_body_only_with_the_option() {
    for (version, mirrors) in VersionSet::LEGACY.iter().flat_map(|v| [(v, true), (v, false)]) {
        if version == Version::V2024_11_05 {
            continue;
        }
        for_each_chunker(|cut| {
            let mut harness = mirroring_harness(cut, mirrors);
            let initialized = harness.initialize_legacy(version, Some("s"), json!({"tools": {}}));
            let expected = |fields: &[(&'static str, &'static str)]| match mirrors {
                true => fields.to_vec(),
                false => Vec::new(),
            };
            assert_eq!(mirrored(&initialized), expected(&[("Mcp-Method", "notifications/initialized")]));
            harness.respond_with_status(initialized.id, 202);
            let get = harness.expect_request();
            assert_eq!((get.method, mirrored(&get).len()), ("GET", 0));
            harness.respond_with_status(get.id, 405);
            let list = list_tools(&mut harness, &tools("Region"));
            assert_eq!(mirrored(&list), expected(&[("Mcp-Method", "tools/list")]));
            let (key, request) = call_wave(&mut harness);
            let fields =
                [("Mcp-Method", "tools/call"), ("Mcp-Name", "wave"), ("Mcp-Param-Region", "=?base64?w6k=?=")];
            assert_eq!(mirrored(&request), expected(&fields));
            assert_eq!(request.field("mcp-session-id"), Some("s"));
            harness.respond_with_json(request.id, 200, &result_response(&request.body, tool_result()));
            assert_eq!(harness.expect_done(key), Ok(tool_result()));
            harness.transcript
        });
    }
}

// covers: XHDR-013, XHDR-030 (of legacy sessions)
#[test]
fn legacy_tool_with_invalid_annotation_is_kept_and_refusal_ends_the_call() {
    for mirrors in [true, false] {
        let mut harness = mirroring_harness(Chunker::Whole, mirrors);
        harness.become_legacy(Version::V2025_11_25, Some("s"), json!({"tools": {}}));
        list_tools(&mut harness, &tools("Region"));
        list_tools(&mut harness, &tools("not a token"));
        let (key, request) = call_wave(&mut harness);
        assert_eq!(request.field("mcp-name").is_some(), mirrors);
        assert_eq!(request.field("mcp-param-region"), None);
        let refusal = error_response(&request.body, -32020, "Mcp-Param-Region is missing", Value::Null);
        harness.respond_with_json(request.id, 400, &refusal);
        assert!(matches!(harness.expect_done(key), Err(CallError::Rpc(e)) if e.code == -32020));
        harness.assert_idle();
        // The next list brings the field.
        list_tools(&mut harness, &tools("Region"));
        let (_, request) = call_wave(&mut harness);
        assert_eq!(request.field("mcp-param-region").is_some(), mirrors);
    }
}

fn assert_region_is_sent(harness: &mut HttpClientHarness) {
    let params = json!({"name": "wave", "arguments": {"region": "x"}});
    let (_, request) = harness.start_call("tools/call", &params, &non_retryable());
    assert_eq!(request.field("mcp-param-region"), Some("x"));
}

// covers: XHDR-030
#[test]
fn tools_are_learned_from_the_get_stream() {
    let mut harness = mirroring_harness(Chunker::Whole, true);
    let get = harness.become_legacy_with_get_stream(Version::V2025_11_25, Some("s"), json!({"tools": {}}));
    let key = harness.client.engine().list_tools(harness.now, None, &non_retryable()).expect("a list");
    let request = harness.expect_post("tools/list");
    harness.respond_with_status(request.id, 202);
    harness.take_diagnostics();
    harness.receive_event(get, "1", &result_response(&request.body, tools("Region")));
    harness.expect_done(key).expect("a list");
    assert_region_is_sent(&mut harness);
}

// covers: XHDR-030
#[test]
fn tools_are_learned_from_a_resumed_stream() {
    let mut harness = mirroring_harness(Chunker::Whole, true);
    harness.become_legacy(Version::V2025_11_25, Some("s"), json!({"tools": {}}));
    let key = harness.client.engine().list_tools(harness.now, None, &non_retryable()).expect("a list");
    let request = harness.expect_post("tools/list");
    harness.start_event_stream(request.id);
    harness.receive_body(request.id, "id: 1\ndata:\n\n");
    harness.break_connection(request.id);
    harness.advance(secs(2));
    let again = harness.expect_request();
    assert_eq!(again.method, "GET");
    harness.start_event_stream(again.id);
    harness.receive_event(again.id, "2", &result_response(&request.body, tools("Region")));
    harness.expect_done(key).expect("a list");
    assert_region_is_sent(&mut harness);
}
