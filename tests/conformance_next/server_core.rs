//! Server leg, core: batches, the version header, cancellation, progress, sessions side by side, no sessions at all.

use core::time::Duration;

use mcp_proto::http::server::Config;
use mcp_proto::model::CallToolResult;
use mcp_proto::server::{Call, Event};
use mcp_proto::{Capabilities, Capability, Progress, VersionSet, server};
use mcp_tests::harness::HttpServerHarness;
use serde_json::{Value, json};

const V: &str = "MCP-Protocol-Version";
const SESSION: &str = "Mcp-Session-Id";

fn web(versions: VersionSet) -> HttpServerHarness {
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::Resources);
    let config = server::Config::new("next", "1").versions(versions).capabilities(capabilities);
    HttpServerHarness::new(config, Config::new())
}

fn request(id: u32, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn call(id: u32, tool: &str, token: Option<&str>) -> String {
    let mut params = json!({"name": tool, "arguments": {}});
    if let Some(token) = token {
        params["_meta"] = json!({"progressToken": token});
    }
    request(id, "tools/call", &params)
}

fn modern(id: u32, method: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    request(id, method, &json!({"_meta": meta}))
}

pub(super) fn open_session(web: &mut HttpServerHarness, version: &str) -> String {
    let client =
        json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
    let x = web.post(&[], &request(1, "initialize", &client));
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    web.post(&[(SESSION, &id)], r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert!(matches!(web.poll_event(), Some(Event::SessionOpened { .. })));
    id
}

fn complete(web: &mut HttpServerHarness, call: &Call, text: &str) {
    let now = web.now;
    web.server.engine().complete(now, call.id(), &CallToolResult::text(text)).expect("open");
    web.transmit_all();
}

/// Scenario `json-rpc-batch-rejection`, from 2025-06-18 on: HTTP 4xx and one error object.
// covers: BATCH-004
#[test]
fn batch_is_refused_by_one_error() {
    for version in ["2025-06-18", "2025-11-25"] {
        let mut web = web(VersionSet::ALL);
        let id = open_session(&mut web, version);
        let pings = format!("[{},{}]", request(901, "ping", &json!({})), request(902, "ping", &json!({})));
        let x = web.post(&[(SESSION, &id)], &pings);
        let reply = web.response(x);
        assert_eq!((reply.status, reply.message()["error"]["code"].is_i64()), (400, true), "{version}");
        assert!(reply.message().is_object());
    }
    for versions in [VersionSet::ALL, VersionSet::MODERN] {
        let mut web = web(versions);
        let batch = format!("[{},{}]", modern(1, "server/discover"), modern(2, "tools/list"));
        let x = web.post(&[(V, "2026-07-28"), ("Mcp-Method", "server/discover")], &batch);
        let reply = web.response(x);
        assert!((400..500).contains(&reply.status), "{}", reply.status);
        assert!(reply.message().is_object() && reply.message()["error"]["code"].is_i64());
    }
}

/// Scenario `server-protocol-version-header`: 400 without and with a session, before anything else is said.
// covers: VER-038, HTTP-077
#[test]
fn version_header_that_is_not_served_is_400() {
    for header in ["invalid-protocol-version", "2000-01-01", "2099-01-01"] {
        let mut web = web(VersionSet::LEGACY);
        let x = web.post(&[(V, header)], &request(2, "tools/list", &json!({})));
        assert_eq!(web.response(x).status, 400, "{header}");
        let id = open_session(&mut web, "2025-11-25");
        let x = web.post(&[(V, header), (SESSION, &id)], &request(2, "tools/list", &json!({})));
        assert_eq!(web.response(x).status, 400, "{header}, in a session");
        let x = web.post(&[(V, "2025-11-25"), (SESSION, &id)], &request(3, "ping", &json!({})));
        assert_eq!(web.response(x).status, 200);
    }
}

/// Scenario `cancellation`: unknown requests, one in progress, a burst. Ours is stricter: the cancelled call gets no answer.
// covers: CANC-011, CANC-013, CANC-014
#[test]
fn cancellations_end_their_own_call_alone() {
    let cancel = |id: Value| {
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
            .to_string()
    };
    for version in ["2025-06-18", "2025-11-25"] {
        let mut web = web(VersionSet::ALL);
        let id = open_session(&mut web, version);
        let named = [(SESSION, &*id)];
        let slow = web.post(&named, &call(2, "test_tool_slow", None));
        let running = web.expect_call();
        let burst = (0..5).map(|n| json!(format!("burst-{n}")));
        for unknown in [json!("nonexistent-request-99999")].into_iter().chain(burst) {
            let x = web.post(&named, &cancel(unknown));
            assert_eq!(web.response(x).status, 202);
            assert!(matches!(web.poll_event(), Some(Event::Diagnostic { .. })));
        }
        web.post(&named, &cancel(json!(2)));
        assert!(matches!(web.poll_event(), Some(Event::Cancelled { call, .. }) if call == running.id()));
        let now = web.now;
        assert!(web.server.engine().complete(now, running.id(), &CallToolResult::text("late")).is_err());
        let fast = web.post(&named, &call(3, "test_tool_fast", None));
        let running = web.expect_call();
        complete(&mut web, &running, "fast");
        assert_eq!(web.response(fast).message()["id"], 3);
        assert!(!web.response(slow).body.contains("\"id\":2"));
    }
}

/// Scenario `progress-notifications`: own token, none without one, none after the result.
// covers: PROG-006, PROG-007, PROG-010, PROG-011
#[test]
fn progress_has_the_token_of_its_call_and_ends_with_it() {
    for version in ["2025-06-18", "2025-11-25"] {
        let mut web = web(VersionSet::ALL);
        let id = open_session(&mut web, version);
        let named = [(SESSION, &*id)];
        let x = web.post(&named, &call(2, "test_tool_with_progress", Some("unique-token-match-test-42")));
        let running = web.expect_call();
        for value in [0.0, 50.0, 100.0] {
            let now = web.now;
            let progress = Progress::new(value).with_total(100.0);
            web.server.engine().progress(now, running.id(), progress).expect("open");
            web.advance(Duration::from_secs(1));
        }
        complete(&mut web, &running, "done");
        let now = web.now;
        assert!(web.server.engine().progress(now, running.id(), Progress::new(101.0)).is_err());
        let messages = web.response(x).messages();
        let (result, progress) = messages.split_last().expect("messages");
        assert_eq!(result["id"], 2);
        let values: Vec<f64> = progress.iter().filter_map(|m| m["params"]["progress"].as_f64()).collect();
        assert!(values.len() >= 2 && values.windows(2).all(|pair| pair[0] < pair[1]), "{values:?}");
        assert!(progress.iter().all(|m| m["params"]["progressToken"] == "unique-token-match-test-42"));
        // Without a token there is none.
        let x = web.post(&named, &call(3, "test_tool_with_progress", None));
        let running = web.expect_call();
        let now = web.now;
        let _ = web.server.engine().progress(now, running.id(), Progress::new(1.0));
        complete(&mut web, &running, "done");
        assert_eq!(web.response(x).messages().len(), 1);
    }
}

/// Scenarios `session-isolation`, `notification-isolation` and its fuzz: equal ids in sessions side by side.
// covers: HTTP-065, BASE-008, PROG-010
#[test]
fn sessions_with_equal_ids_get_their_own_answers_and_notifications() {
    let mut web = web(VersionSet::ALL);
    let sessions: Vec<String> = (0..10).map(|_| open_session(&mut web, "2025-11-25")).collect();
    let mut open = Vec::new();
    for (n, id) in sessions.iter().enumerate() {
        let token = format!("client-{n}-progress");
        let x = web.post(&[(SESSION, id)], &call(2, "test_tool_with_progress", Some(&token)));
        open.push((x, web.expect_call(), token));
    }
    for step in 1..=3 {
        for (_, call, _) in open.iter().rev() {
            let now = web.now;
            web.server.engine().progress(now, call.id(), Progress::new(f64::from(step))).expect("open");
        }
        web.advance(Duration::from_secs(1));
    }
    for (n, (_, call, _)) in open.iter().enumerate().rev() {
        complete(&mut web, call, &format!("result {n}"));
    }
    for (n, (x, _, token)) in open.iter().enumerate() {
        let messages = web.response(*x).messages();
        let (result, progress) = messages.split_last().expect("messages");
        assert_eq!(result["result"]["content"][0]["text"], format!("result {n}"));
        assert!(
            progress.len() >= 3 && progress.iter().all(|m| m["params"]["progressToken"] == **token),
            "{n}"
        );
    }
}

/// Scenario `server-sessionless`, also on a server of the modern era alone, without which its last checks never run.
// covers: HTTP-039, HTTP-040, HTTP-041, TOOL-003
#[test]
fn modern_requests_need_and_get_no_session() {
    for versions in [VersionSet::ALL, VersionSet::MODERN] {
        let mut web = web(versions);
        let head = [(V, "2026-07-28"), ("Mcp-Method", "server/discover")];
        for more in [None, Some((SESSION, "conformance-stale-session-id")), Some(("Last-Event-ID", "42"))] {
            let fields: Vec<(&str, &str)> = head.into_iter().chain(more).collect();
            let x = web.post(&fields, &modern(1, "server/discover"));
            let reply = web.response(x);
            assert_eq!((reply.status, reply.field("mcp-session-id")), (200, None), "{more:?}");
        }
        if versions == VersionSet::MODERN {
            for method in ["GET", "DELETE"] {
                let x = web.send_request(method, "/mcp", &[], "");
                assert_eq!(web.response(x).status, 405, "{method}");
            }
        }
    }
}
