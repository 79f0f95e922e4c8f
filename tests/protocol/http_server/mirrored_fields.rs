//! Fields that repeat the body: optional in legacy sessions, and compared with the body if present.

use mcp_proto::http::server::Config;
use mcp_proto::server::Event;
use mcp_proto::{RawJson, VersionSet};
use mcp_tests::harness::{Chunker, HttpClientHarness, HttpServerHarness};
use serde_json::json;

use super::{answer_call, harness, legacy_request, open_session};
use crate::protocol::common::{client, server};
use crate::protocol::http_client_shared::non_retryable;

const PARAMS: &str = "\"name\":\"echo\",\"arguments\":{\"region\":\"north\",\"n\":42}";

// covers: XHDR-021, XHDR-022, XHDR-024, XHDR-026, XHDR-027
#[test]
fn legacy_param_fields_are_optional_and_must_match() {
    let schema = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},"no":{"type":"string","x-mcp-header":"No"}}}"#;
    for version in VersionSet::LEGACY.iter().map(|v| v.as_str()).filter(|v| *v != "2024-11-05") {
        let mut web = harness(Config::new());
        web.server.set_tool_schema("echo", &RawJson::new(schema).expect("JSON")).expect("valid annotations");
        let id = open_session(&mut web, version);
        let region = ("Mcp-Param-Region", "north");
        let cases: [(&[(&str, &str)], bool); 9] = [
            (&[], true),
            (&[region], true),
            (&[("mcp-param-region", "=?base64?bm9ydGg=?="), ("Mcp-Param-N", "42.0")], true),
            (&[("Mcp-Param-Other", "x")], true),
            (&[("Mcp-Param-Region", "south")], false),
            (&[region, ("Mcp-Param-N", "43")], false),
            (&[("Mcp-Param-No", "x")], false),
            (&[("Mcp-Param-Region", "=?base64?!?=")], false),
            (&[region, region], false),
        ];
        for (n, (fields, served)) in (2..).zip(cases) {
            let mut all = vec![("Mcp-Session-Id", &*id)];
            all.extend_from_slice(fields);
            let x = web.post(&all, &legacy_request(n, "tools/call", PARAMS));
            match web.poll_event() {
                Some(Event::Call(call)) if served => answer_call(&mut web, &call),
                None if !served => {}
                other => panic!("{version} {fields:?}: {other:?}"),
            }
            let (reply, status) = (web.response(x), if served { 200 } else { 400 });
            assert_eq!(reply.status, status, "{version} {fields:?}");
            // The error of an earlier revision names the request.
            assert_eq!(reply.message()["id"], n, "{version} {fields:?}");
            if !served {
                assert_eq!(reply.message()["error"]["code"], -32600, "{version} {fields:?}");
            }
        }
    }
}

// covers: HTTP-031
#[test]
fn batch_with_mirrored_fields_is_refused() {
    for field in [("Mcp-Method", "tools/call"), ("Mcp-Name", "echo"), ("Mcp-Param-Region", "north")] {
        let mut web = harness(Config::new());
        let id = open_session(&mut web, "2025-03-26");
        let batch = format!("[{}]", legacy_request(2, "tools/call", PARAMS));
        let x = web.post(&[("Mcp-Session-Id", &id), field], &batch);
        let reply = web.response(x);
        assert_eq!((reply.status, &reply.message()["error"]["code"]), (400, &json!(-32600)), "{field:?}");
        assert!(web.poll_event().is_none());
        web.post(&[("Mcp-Session-Id", &id)], &batch);
        assert!(matches!(web.poll_event(), Some(Event::Call(_))));
        // Where there are no batches, that is the fault to name.
        let id = open_session(&mut web, "2025-06-18");
        let x = web.post(&[("Mcp-Session-Id", &id), field], &batch);
        let message = web.response(x).message()["error"]["message"].to_string();
        assert!(message.contains("batches exist in 2025-03-26 alone"), "{field:?}: {message}");
        assert_eq!(web.response(x).status, 400);
    }
}

// covers: HTTP-034
#[test]
fn notification_of_a_session_must_match_its_method_field() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let body = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}"#;
    for (method, status) in [("notifications/progress", 400), ("notifications/cancelled", 202)] {
        let x = web.post(&[("Mcp-Session-Id", &id), ("Mcp-Method", method)], body);
        let reply = web.response(x);
        assert_eq!(reply.status, status);
        if status == 400 {
            assert_eq!(reply.message()["error"]["code"], -32600);
        }
    }
}

/// Such a name is encoded in its field, as any other value.
// covers: HTTP-032
#[test]
fn method_that_is_not_ascii_passes() {
    let config = HttpClientHarness::default_http_config();
    let mut peer = HttpClientHarness::new(client(VersionSet::MODERN), config, Chunker::Whole);
    peer.become_modern(json!({"tools": {}}));
    let (_, request) = peer.start_call("mé/thode", &json!({}), &non_retryable());
    let fields: Vec<(&str, &str)> = request.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    let fields: Vec<_> =
        fields.into_iter().filter(|(name, _)| name.to_lowercase().starts_with("mcp-")).collect();
    let server = server(VersionSet::ALL).custom_method("mé/thode").custom_method("plain");
    let mut web = HttpServerHarness::new(server, Config::new());
    web.post(&fields, &request.body.to_string());
    assert!(matches!(web.poll_event(), Some(Event::Call(_))), "{fields:?}");
    // A gateway that compares the text would not recognize it.
    let body = request.body.to_string().replace("mé/thode", "plain");
    let x = web.post(&[("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "=?base64?cGxhaW4=?=")], &body);
    assert_eq!((web.response(x).status, web.poll_event().is_none()), (400, true));
}
