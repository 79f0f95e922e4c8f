//! What `DOCUMENTS.md` says is not followed: each test shows one such deviation, and fails when there is none any more.
//!
//! A test that fails here is no reason to restore the deviation: its row in `documents.tsv` is to be changed.

use mcp_proto::http::server::Config;
use mcp_proto::{Fault, VersionSet};
use mcp_tests::harness::build::{initialize_request, modern_request_with};
use mcp_tests::harness::{Chunker, HttpClientHarness, ServerHarness};
use serde_json::json;

use super::common::{client, server};
use super::http_client_headers::{list_tools, modern_harness, schema_with_header, tools_page};
use super::http_client_opening::fall_back_to_sse;
use super::http_server::{self as http, CALL_FIELDS, ECHO_PARAMS};

// gap: HTTP-077, VER-038
#[test]
fn revision_that_a_date_names_is_ignored_with_initialize() {
    let mut web = http::harness(Config::new());
    let x = web.post(&[("MCP-Protocol-Version", "1900-01-01")], &http::initialize_request("2025-06-18"));
    assert_eq!(web.response(x).status, 200);
}

// gap: HTTP-085
#[test]
fn refusal_of_access_does_not_fall_back_to_http_sse() {
    for status in [401, 407, 408] {
        let http_config = HttpClientHarness::default_http_config();
        let mut harness = HttpClientHarness::new(client(VersionSet::LEGACY), http_config, Chunker::Whole);
        let request = harness.expect_post("initialize");
        harness.respond_with_status(request.id, status);
        assert!(matches!(harness.expect_closed(), Fault::Http(_)), "{status}");
        harness.assert_nothing_sent();
    }
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
