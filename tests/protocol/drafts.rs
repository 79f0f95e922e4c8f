//! Drafts of the specification: each row of the table of deviations, off and on, and both sides with all of them.

use mcp_proto::draft::{Deviation, Draft};
use mcp_proto::http::server::Config;
use mcp_proto::model::ClientCapabilities;
use mcp_proto::server::Event;
use mcp_proto::{
    CallError, CallKey, CallOptions, Diagnostic, Fault, Progress, RawJson, RpcError, Version, VersionSet,
};
use mcp_tests::harness::build::{error_response, initialize_request, modern_request_with, result_response};
use mcp_tests::harness::{Chunker, HttpClientHarness, HttpServerHarness, Pair, SentRequest, ServerHarness};
use serde_json::{Value, json};

use super::common::{client, server};
use super::http_client_headers::{schema_with_header, tools_page};
use super::http_server::{self as http, CALL_FIELDS, ECHO_PARAMS, answer_call, harness_with, legacy_request};

/// Sessions over Streamable HTTP.
const SESSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

/// Returns the release, and the draft with one deviation.
fn off_and_on(deviation: Deviation) -> [(Draft, bool); 2] {
    [(Draft::NONE, false), (Draft::NONE.with(deviation), true)]
}

fn server_with(versions: VersionSet, draft: Draft) -> HttpServerHarness {
    harness_with(server(versions).draft(draft), Config::new())
}

fn client_with(versions: VersionSet, draft: Draft) -> HttpClientHarness {
    let config = HttpClientHarness::default_http_config();
    HttpClientHarness::mirroring(client(versions).draft(draft), config, Chunker::Whole)
}

/// Returns status and error code of a refusal.
fn refusal(web: &HttpServerHarness, x: mcp_proto::http::server::ExchangeId) -> (u16, i64) {
    let response = web.response(x);
    (response.status, response.message()["error"]["code"].as_i64().unwrap_or_default())
}

/// Opens a session with the header fields that the draft requires.
fn open_session(web: &mut HttpServerHarness, version: &str) -> String {
    let x = web.post(&[("Mcp-Method", "initialize")], &http::initialize_request(version));
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    let fields = [("Mcp-Session-Id", &*id), ("Mcp-Method", "notifications/initialized")];
    let x = web.post(&fields, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!(web.response(x).status, 202);
    assert!(matches!(web.poll_event(), Some(Event::SessionOpened { .. })));
    id
}

fn set_schema(web: &mut HttpServerHarness, properties: &Value) -> bool {
    let schema = json!({"type": "object", "properties": properties}).to_string();
    web.server.set_tool_schema("echo", &RawJson::new(schema).expect("JSON")).is_ok()
}

// ---- error codes -----------------------------------------------------------------------------------------------

// covers: ERR-016, ERR-008, VER-009
#[test]
fn unsupported_version_code() {
    for (draft, is_on) in off_and_on(Deviation::UnsupportedVersionCode) {
        let code = if is_on { -32004 } else { -32022 };
        let mut harness = ServerHarness::server(server(VersionSet::ALL).draft(draft), Chunker::Whole);
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "1900-01-01"});
        let error = harness.expect_error(&modern_request_with(1, "tools/list", json!({}), &meta));
        assert_eq!(error["code"], code);
        assert_eq!(error["data"]["requested"], "1900-01-01");
        assert!(error["data"]["supported"].as_array().is_some_and(|all| all.contains(&json!("2026-07-28"))));
        let mut web = server_with(VersionSet::ALL, draft);
        let body = http::modern_request(1, "tools/call", ECHO_PARAMS).replace("2026-07-28", "1900-01-01");
        let fields = [("MCP-Protocol-Version", "1900-01-01"), CALL_FIELDS[1], CALL_FIELDS[2]];
        let x = web.post(&fields, &body);
        assert_eq!(refusal(&web, x), (400, code));
    }
}

// covers: ERR-016
#[test]
fn missing_capability_code() {
    for (draft, is_on) in off_and_on(Deviation::MissingCapabilityCode) {
        let mut web = server_with(VersionSet::ALL, draft);
        let x = web.post(&CALL_FIELDS, &http::modern_request(1, "tools/call", ECHO_PARAMS));
        let call = web.expect_call();
        let error = RpcError::missing_client_capability(ClientCapabilities::new()).expect("JSON");
        web.server.engine().fail(web.now, call.id(), &error).expect("open");
        web.transmit_all();
        assert_eq!(refusal(&web, x), (400, if is_on { -32003 } else { -32021 }));
        assert!(web.response(x).message()["error"]["data"]["requiredCapabilities"].is_object());
    }
}

// covers: ERR-016, HTTP-027, HTTP-036
#[test]
fn header_mismatch_code() {
    for (draft, is_on) in off_and_on(Deviation::HeaderMismatchCode) {
        let code = if is_on { -32001 } else { -32020 };
        let mut web = server_with(VersionSet::ALL, draft);
        let cases: [&[(&str, &str)]; 3] = [
            &[CALL_FIELDS[0], CALL_FIELDS[1]],
            &[CALL_FIELDS[0], CALL_FIELDS[1], ("Mcp-Name", "foo")],
            &[CALL_FIELDS[0], ("Mcp-Method", "tools/list"), CALL_FIELDS[2]],
        ];
        for fields in cases {
            let x = web.post(fields, &http::modern_request(1, "tools/call", ECHO_PARAMS));
            assert_eq!(refusal(&web, x), (400, code), "{fields:?}");
            let message = web.response(x).message()["error"]["message"].as_str().expect("text").to_owned();
            assert_eq!(message.starts_with("Header mismatch: "), is_on, "{message}");
        }
        let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let x = web.post(&[CALL_FIELDS[0], ("Mcp-Method", "notifications/progress")], note);
        assert_eq!(refusal(&web, x), (400, code));
    }
}

// covers: ERR-016, HTTP-036
#[test]
fn session_mismatch_code() {
    for version in SESSIONS {
        for (draft, is_on) in off_and_on(Deviation::SessionMismatchCode) {
            let code = if is_on { -32001 } else { -32600 };
            let mut web = server_with(VersionSet::ALL, draft.with(Deviation::HeaderMismatchCode));
            assert!(set_schema(&mut web, &json!({"text": schema_with_header("Text")})));
            let id = open_session(&mut web, version);
            for field in [("Mcp-Method", "tools/list"), ("Mcp-Name", "foo"), ("Mcp-Param-Text", "ho")] {
                let body = legacy_request(2, "tools/call", ECHO_PARAMS);
                let x = web.post(&[("Mcp-Session-Id", &id), field], &body);
                assert_eq!(refusal(&web, x), (400, code), "{version} {field:?}");
            }
            let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
            let x = web.post(&[("Mcp-Session-Id", &id), ("Mcp-Method", "ping")], note);
            assert_eq!(refusal(&web, x), (400, code), "{version}");
        }
    }
}

/// Such errors come from servers of a draft, whatever the client is set to.
// covers: ERR-016, VER-019, VER-026, VER-041
#[test]
fn client_recognizes_codes_of_drafts_by_shape() {
    let required = json!({"requiredCapabilities": {"roots": {}}});
    let supported = json!({"supported": ["2026-07-28"], "requested": "2026-07-28"});
    for (code, message, data, is_modern) in [
        (-32001, "Header mismatch: Mcp-Name header value 'foo'", Value::Null, true),
        (-32001, "Session not found", Value::Null, false),
        (-32001, "Request timed out", json!({"timeout": 60_000}), false),
        (-32003, "no", required, true),
        (-32003, "no", Value::Null, false),
        (-32004, "Unsupported protocol version", Value::Null, false),
    ] {
        for draft in [Draft::NONE, Draft::ALL] {
            let mut harness = client_with(VersionSet::ALL, draft);
            let probe = harness.expect_post("server/discover");
            harness.respond_with_json(
                probe.id,
                400,
                &error_response(&probe.body, code, message, data.clone()),
            );
            if is_modern {
                let fault = harness.expect_closed();
                assert!(
                    matches!(&fault, Fault::HandshakeRefused(e) if e.code == code),
                    "{message}: {fault:?}"
                );
            } else {
                harness.expect_post("initialize");
            }
        }
    }
    let mut harness = client_with(VersionSet::ALL, Draft::NONE);
    let probe = harness.expect_post("server/discover");
    harness.respond_with_json(probe.id, 400, &error_response(&probe.body, -32004, "no", supported));
    harness.expect_post("server/discover");
}

// covers: VER-032, VER-033
#[test]
fn initialize_is_unknown() {
    for (draft, is_on) in off_and_on(Deviation::InitializeIsUnknown) {
        let mut harness = ServerHarness::server(server(VersionSet::MODERN).draft(draft), Chunker::Whole);
        let error = harness.expect_error(&initialize_request(1, "2025-11-25"));
        assert_eq!(error["code"], if is_on { -32601 } else { -32022 });
        let names = |error: &Value| error["message"].as_str().is_some_and(|m| m.contains("2026-07-28"));
        assert!(names(&error), "{error}");
        let mut web = server_with(VersionSet::MODERN, draft);
        let x = web.post(&[], &http::initialize_request("2025-11-25"));
        assert_eq!(refusal(&web, x), if is_on { (404, -32601) } else { (400, -32020) });
        assert!(names(&web.response(x).message()["error"]));
        // A legacy client shows the revisions to its user.
        let config = server(VersionSet::MODERN).draft(draft);
        let mut pair = Pair::new(client(VersionSet::LEGACY), config, Chunker::Whole);
        pair.settle();
        let fault = pair.app.client_fault.clone().expect("a fault");
        assert!(fault.to_string().contains("2026-07-28"), "{fault}");
    }
}

// ---- header fields of sessions, at the server ------------------------------------------------------------------

// covers: HTTP-032, HTTP-033, HTTP-036
#[test]
fn session_headers() {
    for version in SESSIONS {
        for (draft, is_on) in off_and_on(Deviation::SessionHeaders) {
            let draft = draft.with(Deviation::SessionMismatchCode).with(Deviation::HeaderMismatchCode);
            let mut web = server_with(VersionSet::ALL, draft);
            let x = web.post(&[], &http::initialize_request(version));
            assert_eq!(web.response(x).status, if is_on { 400 } else { 200 }, "{version}");
            assert_eq!(web.server.session_count(), usize::from(!is_on));
            let id = open_session(&mut web, version);
            let [method, name] = [CALL_FIELDS[1], CALL_FIELDS[2]];
            let cases: [(&[(&str, &str)], bool); 4] =
                [(&[], false), (&[method], false), (&[name], false), (&[method, name], true)];
            for (n, (fields, is_complete)) in (2..).zip(cases) {
                let fields: Vec<_> = fields.iter().copied().chain([("Mcp-Session-Id", &*id)]).collect();
                let x = web.post(&fields, &legacy_request(n, "tools/call", ECHO_PARAMS));
                if is_complete || !is_on {
                    let call = web.expect_call();
                    answer_call(&mut web, &call);
                    assert_eq!(web.response(x).status, 200, "{version} {fields:?}");
                } else {
                    assert_eq!(refusal(&web, x), (400, -32001), "{version} {fields:?}");
                }
            }
            // Methods without a name need none.
            let fields = [("Mcp-Session-Id", &*id), ("Mcp-Method", "ping")];
            let x = web.post(&fields, &legacy_request(9, "ping", ""));
            assert_eq!(web.response(x).status, 200);
            // Nor does the draft ask for the name of a task, which this server does not have.
            let fields = [("Mcp-Session-Id", &*id), ("Mcp-Method", "tasks/get")];
            let x = web.post(&fields, &legacy_request(10, "tasks/get", "\"taskId\":\"x\""));
            assert_eq!(refusal(&web, x), (200, -32601));
        }
    }
}

// covers: XHDR-024, XHDR-025
#[test]
fn session_param_headers() {
    for version in SESSIONS {
        for (draft, is_on) in off_and_on(Deviation::SessionParamHeaders) {
            let mut web = server_with(VersionSet::ALL, draft);
            assert!(set_schema(&mut web, &json!({"text": schema_with_header("Text")})));
            let id = open_session(&mut web, version);
            let named = [("Mcp-Session-Id", &*id), CALL_FIELDS[1], CALL_FIELDS[2]];
            let x = web.post(&named, &legacy_request(2, "tools/call", ECHO_PARAMS));
            assert_eq!(web.poll_event().is_none(), is_on, "{version}");
            if is_on {
                assert_eq!(refusal(&web, x), (400, -32600));
            }
            let all: Vec<_> = named.into_iter().chain([("Mcp-Param-Text", "hi")]).collect();
            web.post(&all, &legacy_request(3, "tools/call", ECHO_PARAMS));
            web.expect_call();
            // Nothing is expected for `null` and for an absent argument.
            for (n, arguments) in [(4, r#""name":"echo","arguments":{"text":null}"#), (5, r#""name":"echo""#)]
            {
                web.post(&named, &legacy_request(n, "tools/call", arguments));
                web.expect_call();
            }
        }
    }
}

// covers: HTTP-034
#[test]
fn notification_headers() {
    let cancel = |meta: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":77{meta}}}}}"#)
    };
    let modern = r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    for (draft, is_on) in off_and_on(Deviation::NotificationHeaders) {
        let status = if is_on { 400 } else { 202 };
        let mut web = server_with(VersionSet::ALL, draft.with(Deviation::HeaderMismatchCode));
        let id = open_session(&mut web, "2025-11-25");
        let method = ("Mcp-Method", "notifications/cancelled");
        for (field, meta, code) in [(("Mcp-Session-Id", &*id), "", -32600), (CALL_FIELDS[0], modern, -32001)]
        {
            let x = web.post(&[field], &cancel(meta));
            assert_eq!(web.response(x).status, status);
            if is_on {
                assert_eq!(refusal(&web, x), (400, code));
            }
            let x = web.post(&[field, method], &cancel(meta));
            assert_eq!(web.response(x).status, 202);
        }
    }
}

// covers: HTTP-077, VER-038
#[test]
fn checked_version() {
    for (draft, is_on) in off_and_on(Deviation::CheckedVersion) {
        let mut web = server_with(VersionSet::ALL, draft);
        let id = open_session(&mut web, "2025-03-26");
        for (named, status) in [("2025-03-26", 200), ("1900-01-01", if is_on { 400 } else { 200 })] {
            let fields = [("Mcp-Session-Id", &*id), ("MCP-Protocol-Version", named)];
            let x = web.post(&fields, &legacy_request(2, "ping", ""));
            assert_eq!(web.response(x).status, status, "{named}");
        }
        for (named, is_known) in [("2025-06-18", true), ("2026-07-28", true), ("1900-01-01", false)] {
            let x = web.post(&[("MCP-Protocol-Version", named)], &http::initialize_request("2025-11-25"));
            let status = if is_known || !is_on { 200 } else { 400 };
            assert_eq!(web.response(x).status, status, "{named} with `initialize`");
        }
    }
}

/// A batch has no single method that a header field could repeat.
// covers: HTTP-014
#[test]
fn no_batches() {
    for (draft, is_on) in off_and_on(Deviation::NoBatches) {
        let mut web = server_with(VersionSet::ALL, draft);
        let id = open_session(&mut web, "2025-03-26");
        let batch = format!("[{}]", legacy_request(2, "ping", ""));
        let x = web.post(&[("Mcp-Session-Id", &id)], &batch);
        assert_eq!(web.response(x).status, if is_on { 400 } else { 200 });
    }
}

// ---- header fields of sessions, at the client ------------------------------------------------------------------

/// Returns the fields that repeat parts of the body.
fn mirrored(request: &SentRequest) -> Vec<(&str, &str)> {
    let is_one = |name: &str| name.starts_with("Mcp-") && name != "Mcp-Session-Id";
    request.fields.iter().filter(|(name, _)| is_one(name)).map(|(n, v)| (&**n, &**v)).collect()
}

// covers: HTTP-032, HTTP-033, HTTP-034, XHDR-031
#[test]
fn sent_in_sessions() {
    for (draft, is_on) in off_and_on(Deviation::SentInSessions) {
        let expected = |fields: &[(&'static str, &'static str)]| match is_on {
            true => fields.to_vec(),
            false => Vec::new(),
        };
        let mut harness = client_with(VersionSet::LEGACY, draft);
        let initialized = harness.initialize_legacy(Version::V2025_06_18, Some("s"), json!({"tools": {}}));
        assert_eq!(mirrored(&initialized), expected(&[("Mcp-Method", "notifications/initialized")]));
        harness.respond_with_status(initialized.id, 202);
        let get = harness.expect_request();
        harness.respond_with_status(get.id, 405);
        let page = tools_page(&[("wave", json!({"region": schema_with_header("Region")}))], None);
        let key = harness.client.engine().list_tools(harness.now, None, &CallOptions::new()).expect("a list");
        let list = harness.expect_post("tools/list");
        harness.respond_with_json(list.id, 200, &result_response(&list.body, page));
        harness.expect_done(key).expect("a list");
        let params = json!({"name": "wave", "arguments": {"region": "us-west1"}});
        let (_, request) = harness.start_call("tools/call", &params, &CallOptions::new());
        let fields = [("Mcp-Method", "tools/call"), ("Mcp-Name", "wave"), ("Mcp-Param-Region", "us-west1")];
        assert_eq!(mirrored(&request), expected(&fields));
    }
}

/// Returns the answer to a call whose fields are not those of a draft.
fn header_mismatch(request: &SentRequest) -> Value {
    error_response(&request.body, -32001, "Header mismatch: `Mcp-Param-Region` is missing", Value::Null)
}

/// Starts a call that nothing was listed before, and returns its key.
fn call_wave(harness: &mut HttpClientHarness) -> CallKey {
    let params = json!({"name": "wave", "arguments": {"region": "us-west1"}});
    harness.call("tools/call", &params, &CallOptions::new())
}

// covers: XHDR-029, XHDR-031
#[test]
fn first_call_of_a_session_lists_first_and_is_repeated_once_after_a_refusal() {
    let page = |header: &str| tools_page(&[("wave", json!({"region": schema_with_header(header)}))], None);
    for version in [Version::V2025_03_26, Version::V2025_06_18, Version::V2025_11_25] {
        let mut harness = client_with(VersionSet::LEGACY, Draft::ALL);
        harness.become_legacy(version, Some("s"), json!({"tools": {}}));
        let key = call_wave(&mut harness);
        let list = harness.expect_post("tools/list");
        assert_eq!(mirrored(&list), [("Mcp-Method", "tools/list")]);
        assert_eq!(list.field("mcp-session-id"), Some("s"));
        let other = tools_page(&[("other", json!({}))], Some("2"));
        harness.respond_with_json(list.id, 200, &result_response(&list.body, other));
        let next = harness.expect_post("tools/list");
        assert_eq!(next.body["params"]["cursor"], "2");
        harness.respond_with_json(next.id, 200, &result_response(&next.body, page("Region")));
        let call = harness.expect_post("tools/call");
        let fields = [("Mcp-Method", "tools/call"), ("Mcp-Name", "wave"), ("Mcp-Param-Region", "us-west1")];
        assert_eq!(mirrored(&call), fields);
        // The schema has changed.
        harness.respond_with_json(call.id, 400, &header_mismatch(&call));
        let list = harness.expect_post("tools/list");
        harness.respond_with_json(list.id, 200, &result_response(&list.body, page("Zone")));
        let again = harness.expect_post("tools/call");
        assert_eq!(mirrored(&again)[2..], [("Mcp-Param-Zone", "us-west1")]);
        assert_eq!(again.body, call.body, "the same request, which was not begun");
        // Once: a server that goes on refusing is believed.
        harness.respond_with_json(again.id, 400, &header_mismatch(&again));
        assert!(matches!(harness.expect_done(key), Err(CallError::Rpc(e)) if e.code == -32001));
        // What is known is not listed again.
        call_wave(&mut harness);
        harness.expect_post("tools/call");
    }
}

// covers: XHDR-030
#[test]
fn call_whose_tool_cannot_be_looked_up_is_sent_without_its_fields() {
    let missing = |list: &SentRequest| result_response(&list.body, tools_page(&[("other", json!({}))], None));
    let refused = |list: &SentRequest| error_response(&list.body, -32601, "no such method", Value::Null);
    let answers: [&dyn Fn(&SentRequest) -> Value; 2] = [&missing, &refused];
    for answer in answers {
        let mut harness = client_with(VersionSet::LEGACY, Draft::ALL);
        harness.become_legacy(Version::V2025_11_25, Some("s"), json!({"tools": {}}));
        let key = call_wave(&mut harness);
        let list = harness.expect_post("tools/list");
        harness.respond_with_json(list.id, 200, &answer(&list));
        let call = harness.expect_post("tools/call");
        assert_eq!(mirrored(&call), [("Mcp-Method", "tools/call"), ("Mcp-Name", "wave")]);
        harness.respond_with_json(call.id, 200, &result_response(&call.body, json!({"content": []})));
        assert!(harness.expect_done(key).is_ok());
        // One that is cancelled meanwhile is never sent.
        let mut harness = client_with(VersionSet::LEGACY, Draft::ALL);
        harness.become_legacy(Version::V2025_11_25, Some("s"), json!({"tools": {}}));
        let key = call_wave(&mut harness);
        let list = harness.expect_post("tools/list");
        harness.client.engine().cancel(harness.now, key, None).expect("open");
        harness.pump();
        harness.respond_with_json(list.id, 200, &answer(&list));
        assert!(harness.take_requests().iter().all(|sent| sent.body["method"] != "tools/call"));
    }
}

/// Without the setting nothing is listed, and the error says what is missing.
// covers: XHDR-030, ERR-016
#[test]
fn refused_call_of_a_client_of_the_release_names_the_setting() {
    let mut harness = client_with(VersionSet::LEGACY, Draft::NONE);
    harness.become_legacy(Version::V2025_11_25, Some("s"), json!({"tools": {}}));
    let key = call_wave(&mut harness);
    let call = harness.expect_post("tools/call");
    harness.respond_with_json(call.id, 400, &header_mismatch(&call));
    let error = harness.expect_done(key).expect_err("refused");
    assert!(error.to_string().contains("a client does with the setting `draft`"), "{error}");
    // An error that is none of a draft is as it came.
    let key = call_wave(&mut harness);
    let call = harness.expect_post("tools/call");
    harness.respond_with_json(call.id, 400, &error_response(&call.body, -32001, "no session", Value::Null));
    assert_eq!(harness.expect_done(key).expect_err("refused").to_string().matches("draft").count(), 0);
}

// covers: HTTP-032
#[test]
fn sent_with_initialize() {
    for (draft, is_on) in off_and_on(Deviation::SentWithInitialize) {
        let draft = draft.with(Deviation::SentInSessions);
        let mut harness = client_with(VersionSet::ALL, draft);
        let probe = harness.expect_post("server/discover");
        harness.respond_with_status(probe.id, 404);
        let request = harness.expect_post("initialize");
        let sent = [("Mcp-Method", "initialize")];
        assert_eq!(mirrored(&request), if is_on { &sent[..] } else { &[] });
        assert_eq!(request.field("mcp-protocol-version"), None, "DEC-026");
        // The next session is opened like the first one.
        let mut harness = client_with(VersionSet::ALL, draft);
        harness.become_legacy(Version::V2025_11_25, Some("s"), json!({"tools": {}}));
        call_wave(&mut harness);
        let list = harness.expect_post("tools/list");
        harness.respond_with_status(list.id, 404);
        let call = harness.expect_post("tools/call");
        harness.respond_with_status(call.id, 404);
        let renewed = harness.expect_post("initialize");
        assert_eq!(mirrored(&renewed).len(), usize::from(is_on));
        // HTTP+SSE knows nothing of them.
        let mut harness = client_with(VersionSet::LEGACY, draft);
        let request = harness.expect_post("initialize");
        harness.respond_with_status(request.id, 405);
        let get = harness.expect_request();
        harness.start_event_stream(get.id);
        harness.receive_body(get.id, "event: endpoint\ndata: messages\n\n");
        assert!(mirrored(&harness.expect_post("initialize")).is_empty());
    }
}

// covers: HTTP-076, VER-039
#[test]
fn sent_version() {
    for (draft, is_on) in off_and_on(Deviation::SentVersion) {
        let mut harness = client_with(VersionSet::LEGACY, draft);
        let initialized = harness.initialize_legacy(Version::V2025_03_26, Some("s"), json!({}));
        let named = initialized.field("mcp-protocol-version");
        assert_eq!(named, is_on.then_some("2025-03-26"));
    }
}

/// Lists tools in a session; returns the names that the application gets, and the number of warnings.
fn list_in_session(draft: Draft, tools: &[(&str, Value)]) -> (Vec<String>, usize, HttpClientHarness) {
    let mut harness = client_with(VersionSet::LEGACY, draft);
    harness.become_legacy(Version::V2025_11_25, Some("s"), json!({"tools": {}}));
    let key = harness.client.engine().list_tools(harness.now, None, &CallOptions::new()).expect("a list");
    let request = harness.expect_post("tools/list");
    let answer = result_response(&request.body, tools_page(tools, None));
    harness.respond_with_json(request.id, 200, &answer);
    let warnings = harness.take_diagnostics();
    let warnings = warnings.iter().filter(|d| matches!(d, Diagnostic::InvalidTool { .. })).count();
    let listed = harness.expect_done(key).expect("a list");
    let names = listed["tools"].as_array().expect("tools").iter().filter_map(|tool| tool["name"].as_str());
    (names.map(str::to_owned).collect(), warnings, harness)
}

// covers: XHDR-011, XHDR-012
#[test]
fn invalid_tools_left_out() {
    let tools = [
        ("empty", json!({"a": schema_with_header("")})),
        ("space", json!({"a": schema_with_header("My Region")})),
        ("twice", json!({"a": schema_with_header("A"), "b": schema_with_header("a")})),
        ("object", json!({"a": {"type": "object", "x-mcp-header": "A"}})),
        ("good", json!({"a": schema_with_header("A")})),
    ];
    for (draft, is_on) in off_and_on(Deviation::InvalidToolsLeftOut) {
        for draft in [draft.with(Deviation::SentInSessions), draft.without(Deviation::SentInSessions)] {
            let (names, warnings, _) = list_in_session(draft, &tools);
            assert_eq!((names.len(), warnings), if is_on { (1, 4) } else { (5, 0) });
            assert!(names.contains(&"good".to_owned()));
        }
    }
}

// ---- annotations -----------------------------------------------------------------------------------------------

// covers: XHDR-004, XHDR-005
#[test]
fn header_names() {
    for (draft, is_on) in off_and_on(Deviation::HeaderNames) {
        let draft = draft.with(Deviation::InvalidToolsLeftOut).with(Deviation::SentInSessions);
        for name in ["A(B)", "A/B", "A@B", "A[0]", "\"A\"", "A;B"] {
            let properties = json!({"a": schema_with_header(name), "b": schema_with_header("B")});
            let (names, warnings, mut harness) = list_in_session(draft, &[("a", properties.clone())]);
            assert_eq!((names.len(), warnings), if is_on { (1, 0) } else { (0, 1) }, "{name}");
            let mut web = server_with(VersionSet::ALL, draft);
            assert_eq!(set_schema(&mut web, &properties), is_on, "{name}");
            if is_on {
                // HTTP has no field of that name, so neither side expects one.
                let params = json!({"name": "a", "arguments": {"a": "x", "b": "y"}});
                let (_, request) = harness.start_call("tools/call", &params, &CallOptions::new());
                assert_eq!(mirrored(&request)[2..], [("Mcp-Param-B", "y")]);
            }
        }
        for name in ["A B", "A:B", "", "é", "A\r\nB", "A\u{7f}"] {
            let properties = json!({"a": schema_with_header(name)});
            let (names, ..) = list_in_session(draft, &[("a", properties.clone())]);
            assert!(names.is_empty(), "{name:?}");
            assert!(!set_schema(&mut server_with(VersionSet::ALL, draft), &properties), "{name:?}");
        }
    }
}

// covers: XHDR-007, XHDR-008, XHDR-016, XHDR-026
#[test]
fn number_headers() {
    let properties = json!({"text": {"type": "number", "x-mcp-header": "N"}});
    for (draft, is_on) in off_and_on(Deviation::NumberHeaders) {
        let draft = draft.with(Deviation::InvalidToolsLeftOut).with(Deviation::SentInSessions);
        let (names, _, mut harness) = list_in_session(draft, &[("echo", properties.clone())]);
        assert_eq!(names.len(), usize::from(is_on));
        let mut web = server_with(VersionSet::ALL, draft.with(Deviation::SessionParamHeaders));
        assert_eq!(set_schema(&mut web, &properties), is_on);
        if !is_on {
            continue;
        }
        let id = open_session(&mut web, "2025-11-25");
        for (n, (number, sent)) in (2..).zip([
            ("42", "42"),
            ("3.14", "3.14"),
            ("-0.50", "-0.5"),
            ("-0.0", "0"),
            ("1e2", "100"),
            ("1.25E-3", "0.00125"),
            ("12300e-1", "1230"),
            ("9007199254740993", "9007199254740993"),
        ]) {
            let params: Value =
                serde_json::from_str(&format!(r#"{{"name":"echo","arguments":{{"text":{number}}}}}"#))
                    .expect("JSON");
            let text =
                RawJson::new(format!(r#"{{"name":"echo","arguments":{{"text":{number}}}}}"#)).expect("JSON");
            let key = harness.client.engine().call(harness.now, "tools/call", &text, &CallOptions::new());
            harness.pump();
            let request = harness.expect_post("tools/call");
            assert_eq!(request.field("mcp-param-n"), Some(sent), "{number}");
            harness.client.engine().cancel(harness.now, key.expect("a call"), None).expect("open");
            harness.pump();
            harness.take_requests();
            let body =
                json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params}).to_string();
            let fields = [("Mcp-Session-Id", &*id), CALL_FIELDS[1], CALL_FIELDS[2], ("Mcp-Param-N", sent)];
            web.post(&fields, &body);
            web.expect_call();
            let other = [fields[0], fields[1], fields[2], ("Mcp-Param-N", "7.5")];
            let x = web.post(&other, &body.replace(&format!("\"id\":{n}"), &format!("\"id\":{}", n + 100)));
            assert_eq!(web.response(x).status, 400, "{number}");
        }
        // No decimal notation of a reasonable length.
        for number in ["1e400", "1e-999999999999999999999"] {
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":900,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":{number}}}}}}}"#
            );
            let fields = [("Mcp-Session-Id", &*id), CALL_FIELDS[1], CALL_FIELDS[2], ("Mcp-Param-N", number)];
            let x = web.post(&fields, &body);
            assert_eq!(web.response(x).status, 400, "{number}");
        }
    }
}

// ---- event streams and negotiation -----------------------------------------------------------------------------

// covers: SSE-016, SSE-017, SSE-018, HTTP-059
#[test]
fn primed_streams() {
    for (draft, is_on) in off_and_on(Deviation::PrimedStreams) {
        for version in SESSIONS {
            let is_primed = is_on || version == "2025-11-25";
            let mut web = server_with(VersionSet::ALL, draft);
            let id = open_session(&mut web, version);
            let named = ("Mcp-Session-Id", &*id);
            let params = format!("{ECHO_PARAMS},\"_meta\":{{\"progressToken\":2}}");
            let x = web.post(&[named], &legacy_request(2, "tools/call", &params));
            let call = web.expect_call();
            web.server.engine().progress(web.now, call.id(), Progress::new(1.0)).expect("open");
            web.transmit_all();
            let events = web.response(x).events();
            let starts_primed = events.first().is_some_and(|e| e.data.is_empty() && !e.id.is_empty());
            assert_eq!(starts_primed, is_primed, "{version}");
            // The client may be told to poll, and resumes.
            let now = web.now;
            assert_eq!(web.server.poll_later(now, call.id(), None), is_primed, "{version}");
            web.transmit_all();
            if is_primed {
                let last = web.response(x).events();
                assert!(!last.last().expect("an event").retry.is_empty());
                let x = web.send_request("GET", "/mcp", &[named, ("Last-Event-ID", &events[0].id)], "");
                answer_call(&mut web, &call);
                assert_eq!(web.response(x).messages().len(), 2, "{version}");
            }
        }
    }
}

// covers: HTTP-084, HTTP-086, HTTPSSE-013
#[test]
fn fallback_statuses() {
    for (draft, is_on) in off_and_on(Deviation::FallbackStatuses) {
        for (status, is_in_draft) in
            [(400, true), (404, true), (405, true), (402, false), (403, false), (415, false), (429, false)]
        {
            let mut harness = client_with(VersionSet::ALL, draft);
            for method in ["server/discover", "initialize"] {
                let request = harness.expect_post(method);
                harness.respond_with_status(request.id, status);
            }
            if is_in_draft || !is_on {
                let get = harness.expect_request();
                assert_eq!((get.method, get.field("accept")), ("GET", Some("text/event-stream")), "{status}");
                harness.start_event_stream(get.id);
                harness.receive_body(get.id, "event: endpoint\ndata: messages\n\n");
                harness.expect_post("initialize");
            } else {
                assert!(matches!(harness.expect_closed(), Fault::NoServer { .. }), "{status}");
            }
        }
    }
}

// ---- all of them -----------------------------------------------------------------------------------------------

/// Passes all requests of the client to the server, and the responses back.
fn exchange(peer: &mut HttpClientHarness, web: &mut HttpServerHarness) -> Vec<(String, u16)> {
    let mut passed = Vec::new();
    loop {
        let requests = peer.take_requests();
        if requests.is_empty() {
            return passed;
        }
        for request in requests {
            let mut fields: Vec<(&str, &str)> = request.fields.iter().map(|(n, v)| (&**n, &**v)).collect();
            fields.push(("host", "localhost"));
            let body = if request.body.is_null() { String::new() } else { request.body.to_string() };
            let x = web.send_request(request.method, "/mcp", &fields, &body);
            while let Some(event) = web.poll_event() {
                match event {
                    Event::Call(call) if call.method() == "tools/list" => {
                        let page = tools_page(&[("echo", json!({"text": schema_with_header("Text")}))], None);
                        web.server.engine().complete(web.now, call.id(), &page).expect("open");
                        web.transmit_all();
                    }
                    Event::Call(call) => answer_call(web, &call),
                    _ => {}
                }
            }
            let response = web.response(x);
            let what = request.body["method"].as_str().unwrap_or(request.method);
            passed.push((what.to_owned(), response.status));
            let fields: Vec<(&str, &str)> = response.fields.iter().map(|(n, v)| (&**n, &**v)).collect();
            if response.is_complete {
                peer.respond_with(request.id, response.status, &fields, &response.body);
            } else {
                peer.receive_head(request.id, response.status, &fields);
            }
        }
    }
}

// covers: HTTP-032, HTTP-033, HTTP-034, XHDR-031, LIFE-001, VER-012
#[test]
fn client_and_server_of_the_drafts_agree_in_every_revision() {
    for version in VersionSet::ALL.iter().filter(|version| *version != Version::V2024_11_05) {
        let versions = VersionSet::only(version);
        let mut web = server_with(VersionSet::ALL, Draft::ALL);
        assert!(set_schema(
            &mut web,
            &json!({"text": schema_with_header("Text"), "n": {"type": "number", "x-mcp-header": "N"}})
        ));
        let mut peer = client_with(versions, Draft::ALL);
        let opened = exchange(&mut peer, &mut web);
        assert!(opened.iter().all(|(_, status)| *status < 300), "{opened:?}");
        assert_eq!(peer.expect_ready().version, version);
        let arguments = json!({"name": "echo", "arguments": {"text": "hi"}});
        let key = peer.call("tools/call", &arguments, &CallOptions::new());
        // The first call has the fields of its arguments: in a session after a list, in the modern era after a refusal.
        let (list, call) = (("tools/list".to_owned(), 200), ("tools/call".to_owned(), 200));
        let refused = ("tools/call".to_owned(), 400);
        let passed = match version {
            Version::V2026_07_28 => vec![refused, list, call],
            _ => vec![list, call],
        };
        assert_eq!(exchange(&mut peer, &mut web), passed);
        assert_eq!(peer.expect_done(key).expect("an answer")["content"][0]["text"], "done", "{version}");
        // A client of the release is refused in sessions, and told why.
        let mut peer = HttpClientHarness::new(
            client(versions),
            HttpClientHarness::default_http_config(),
            Chunker::Whole,
        );
        let opened = exchange(&mut peer, &mut web);
        if version == Version::V2026_07_28 {
            assert_eq!(peer.expect_ready().version, version);
        } else {
            assert_eq!(opened, [("initialize".to_owned(), 400)]);
            let fault = peer.expect_closed();
            assert!(matches!(&fault, Fault::HandshakeRefused(e) if e.code == -32001), "{fault:?}");
            assert!(fault.to_string().contains("`Mcp-Method` is missing"), "{fault}");
            assert!(fault.to_string().contains("as a client does with the setting `draft`"), "{fault}");
        }
    }
}

/// A client of a draft works with a server of the release.
// covers: HTTP-032, HTTP-034
#[test]
fn client_of_the_drafts_works_with_released_server() {
    for versions in [VersionSet::ALL, VersionSet::LEGACY, VersionSet::MODERN] {
        let mut web = server_with(VersionSet::ALL, Draft::NONE);
        let mut peer = client_with(versions, Draft::ALL);
        exchange(&mut peer, &mut web);
        peer.expect_ready();
        let key = peer.call("tools/call", &json!({"name": "echo", "arguments": {}}), &CallOptions::new());
        exchange(&mut peer, &mut web);
        peer.expect_done(key).expect("an answer");
    }
}
