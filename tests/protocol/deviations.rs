//! What `DOCUMENTS.md` says is not followed: each test shows one such deviation, and fails when there is none any more.
//!
//! A test that fails here is no reason to restore the deviation: its row in `documents.tsv` is to be changed.

use mcp_proto::http::server::Config;
use mcp_proto::model::{CallToolResult, CreateMessageParams, InputRequest, ListToolsResult, SamplingMessage};
use mcp_proto::{Version, VersionSet};
use mcp_tests::harness::build::{initialize_request, legacy_request, modern_request_with, result_response};
use mcp_tests::harness::{Chunker, ServerHarness};
use serde_json::json;

use super::common::server;
use super::http_client_headers::{list_tools, modern_harness, schema_with_header, tools_page};
use super::http_client_opening::fall_back_to_sse;
use super::http_server::{self as http, CALL_FIELDS, ECHO_PARAMS};
use super::inputs_server;

// gap: TOOL-006
#[test]
fn tool_without_description_is_listed() {
    let list = r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}"#;
    let read: ListToolsResult = serde_json::from_str(list).expect("a list");
    assert_eq!((read.tools.len(), read.tools[0].description.as_deref()), (1, None));
    assert_eq!(serde_json::to_string(&read).expect("JSON"), list);
}

// gap: TOOL-010
#[test]
fn result_of_a_success_has_no_is_error() {
    let mut harness = ServerHarness::server(server(VersionSet::ALL), Chunker::Whole);
    harness.open_session(Version::V2025_03_26);
    let call = harness.expect_call_for(&legacy_request(1, "tools/call", json!({"name": "a"})));
    let done = serde_json::to_value(CallToolResult::text("x")).expect("JSON");
    let result = harness.complete(call.id(), &done)["result"].clone();
    assert_eq!(result, json!({"content": [{"type": "text", "text": "x"}]}));
    let text = result.to_string();
    assert!(!serde_json::from_str::<CallToolResult<'_>>(&text).expect("a result").is_failure());
}

// gap: SAMP-005
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn sampling_result_without_stop_reason_is_accepted() {
    let mut harness =
        inputs_server::open_session(inputs_server::config(), Version::V2025_03_26, Chunker::Whole);
    let call = harness.expect_call_for(&legacy_request(1, "tools/call", json!({"name": "a"})));
    let sample = CreateMessageParams::new(vec![SamplingMessage::user("hi")], 100_u64);
    let requests = inputs_server::input_requests([("a", InputRequest::CreateMessage(sample))]);
    harness.need_input(&call, &requests, b"").expect("the client can answer");
    let request = harness.expect_reply();
    let answer = json!({"role": "assistant", "content": {"type": "text", "text": "ho"}, "model": "m"});
    let again = harness.expect_call_for(&result_response(&request, answer.clone()));
    assert_eq!(inputs_server::input_response(&again, "a"), answer);
}

// gap: HTTP-034
#[test]
fn notification_without_method_field_is_accepted() {
    let mut web = http::harness(Config::new());
    let x = web.post(
        &CALL_FIELDS[..1],
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
    );
    assert_eq!(web.response(x).status, 202);
}

// gap: ERR-016
#[test]
fn header_mismatch_has_the_released_code() {
    let mut web = http::harness(Config::new());
    let fields = [CALL_FIELDS[0], ("Mcp-Method", "tools/list")];
    let x = web.post(&fields, &http::modern_request(1, "tools/call", ECHO_PARAMS));
    assert_eq!((web.response(x).status, &web.response(x).message()["error"]["code"]), (400, &json!(-32020)));
}

// gap: XHDR-004
#[test]
fn header_name_that_is_no_token_is_refused() {
    let mut harness = modern_harness(Chunker::Whole);
    // Characters that the draft allows.
    for name in ["A(B)", "A/B", "A@B", "A[0]", "\"A\"", "A;B"] {
        let page = tools_page(&[("a", json!({"a": schema_with_header(name)})), ("b", json!({}))], None);
        assert_eq!(list_tools(&mut harness, None, &page, false), ["b"], "{name}");
    }
}

// gap: XHDR-007
#[test]
fn header_of_type_number_is_refused() {
    let mut harness = modern_harness(Chunker::Whole);
    let number = json!({"a": {"type": "number", "x-mcp-header": "A"}});
    let page = tools_page(&[("a", number), ("b", json!({}))], None);
    assert_eq!(list_tools(&mut harness, None, &page, false), ["b"]);
}

// gap: HTTP-086
#[test]
fn other_client_errors_fall_back_to_http_sse_too() {
    for status in [402, 410, 415, 422] {
        let (_, get) = fall_back_to_sse(Chunker::Whole, status);
        assert_eq!(get.field("accept"), Some("text/event-stream"), "{status}");
    }
}

// gap: ERR-016
#[test]
fn unsupported_version_has_the_released_code() {
    let mut harness = ServerHarness::server(server(VersionSet::ALL), Chunker::Whole);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2030-01-01"});
    let error = harness.expect_error(&modern_request_with(1, "tools/list", json!({}), &meta));
    assert_eq!(error["code"], -32022);
    let mut web = http::harness(Config::new());
    let body = http::modern_request(1, "tools/call", ECHO_PARAMS).replace("2026-07-28", "2030-01-01");
    let x = web.post(&[("MCP-Protocol-Version", "2030-01-01"), CALL_FIELDS[1], CALL_FIELDS[2]], &body);
    assert_eq!((web.response(x).status, &web.response(x).message()["error"]["code"]), (400, &json!(-32022)));
}

// gap: VER-033
#[test]
fn initialize_at_modern_only_server_has_the_released_codes() {
    let mut harness = ServerHarness::server(server(VersionSet::MODERN), Chunker::Whole);
    assert_eq!(harness.expect_error(&initialize_request(1, "2025-11-25"))["code"], -32022);
    let mut web = http::harness_with_versions(VersionSet::MODERN, Config::new());
    let x = web.post(&[], &http::initialize_request("2025-11-25"));
    assert_eq!((web.response(x).status, &web.response(x).message()["error"]["code"]), (400, &json!(-32020)));
}
