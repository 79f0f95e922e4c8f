//! The HTTP flows of `tests/transcripts` at the client. Client messages of a flow are compared with what the client
//! sends, with ids translated. Server messages are fed unchanged.

use mcp_proto::client::Event;
use mcp_proto::http::client::Config;
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallOptions, Capabilities, Capability, Diagnostic, Version, VersionSet};
use mcp_tests::harness::build::{discover_result, result_response};
use mcp_tests::harness::{HttpClientHarness, SentRequest, for_each_chunker};
use mcp_tests::schema::MessageDirection;
use serde_json::{Value, json};

use crate::protocol::common::{client, ms};

fn parse_flow(text: &str) -> Vec<Value> {
    text.lines().skip(1).map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Checks that the request has the header fields of the flow, and no other MCP fields.
fn assert_same_head(request: &SentRequest, flow: &Value) {
    assert_eq!(request.method, flow["method"]);
    let flow = flow["headers"].as_object().cloned().unwrap_or_default();
    for (name, value) in &flow {
        let sent = request.field(name).unwrap_or_else(|| panic!("header `{name}` is missing: {request:?}"));
        let numbers = (sent.parse::<f64>(), value.as_str().expect("text").parse::<f64>());
        let equal = sent == value || matches!(numbers, (Ok(a), Ok(b)) if (a - b).abs() < f64::EPSILON);
        assert!(equal, "{name}: {sent:?} and {value}");
    }
    for (name, _) in request.fields.iter().filter(|(n, _)| n.starts_with("Mcp-") || n.starts_with("Last-")) {
        assert!(
            flow.keys().any(|n| n.eq_ignore_ascii_case(name)),
            "header `{name}` is not in the flow: {flow:?}"
        );
    }
}

/// Returns the server message of `step` with the id of `request`.
fn translate_ids(step: &Value, request: &SentRequest) -> Value {
    let mut message = step["msg"].clone();
    if message.get("id").is_some() {
        message["id"] = request.body["id"].clone();
    }
    message
}

// covers: XHDR-011, XHDR-012, XHDR-014, XHDR-016, XHDR-017, XHDR-018, XHDR-019, XHDR-032, HTTP-032, HTTP-033, HTTP-035
#[test]
fn client_matches_flow_header_params_2026_07_28() {
    let steps = parse_flow(include_str!("../transcripts/2026-07-28-http-header-params.jsonl"));
    for_each_chunker(|cut| {
        let mut harness =
            HttpClientHarness::new(client(VersionSet::MODERN), HttpClientHarness::default_http_config(), cut);
        harness.become_modern(json!({"tools": {}, "resources": {}}));
        let mut step_count = 0;
        for pair in steps.windows(2) {
            let [request_step, response_step] = pair else { continue };
            let (method, http) = (request_step["msg"]["method"].as_str(), &request_step["http"]);
            // Requests that this client never sends are tested at the server.
            let refused = http["status"] == 400 || response_step["http"]["status"] == 400;
            let is_ours = http["headers"].get("Mcp-Method").is_some();
            let (Some(method), false, true) = (method, refused, is_ours) else { continue };
            let mut params = request_step["msg"]["params"].clone();
            params.as_object_mut().expect("an object").remove("_meta");
            let (key, request) = harness.start_call(method, &params, &CallOptions::new());
            assert_same_head(&request, http);
            harness.respond_with_json(request.id, 200, &translate_ids(response_step, &request));
            let diagnostics = harness.take_diagnostics();
            let done = harness.expect_done(key);
            if method == "tools/list" {
                assert!(
                    diagnostics.len() == 4
                        && diagnostics.iter().all(|d| matches!(d, Diagnostic::InvalidTool { .. })),
                    "{diagnostics:?}"
                );
                assert_eq!(done.expect("a page")["tools"].as_array().map(Vec::len), Some(1));
            }
            step_count += 1;
        }
        assert!(step_count >= 7, "{step_count}");
        harness.transcript
    });
}

// covers: HTTP-010, HTTP-012, HTTP-067, HTTP-076, VER-039
#[test]
fn client_matches_flow_version_header_2025_06_18() {
    let steps = parse_flow(include_str!("../transcripts/2025-06-18-http-version-header.jsonl"));
    for_each_chunker(|cut| {
        let versions = VersionSet::only(Version::V2025_06_18);
        let mut harness =
            HttpClientHarness::new(client(versions), HttpClientHarness::default_http_config(), cut);
        let request = harness.expect_post("initialize");
        assert_same_head(&request, &steps[0]["http"]);
        assert_eq!(request.body["params"], steps[0]["msg"]["params"]);
        let answer = translate_ids(&steps[1], &request);
        harness.observer.record_fed(
            harness.now,
            MessageDirection::ServerToClient,
            answer.to_string().as_bytes(),
        );
        let fields = [("Content-Type", "application/json"), ("Mcp-Session-Id", "zz1")];
        harness.respond_with(request.id, 200, &fields, &answer.to_string());
        harness.expect_ready();
        let initialized = harness.expect_post("notifications/initialized");
        assert_same_head(&initialized, &steps[2]["http"]);
        harness.respond_with_status(initialized.id, 202);
        // The flow has no GET stream.
        let get = harness.expect_request();
        harness.respond_with_status(get.id, 405);
        let (key, request) = harness.start_call("tools/list", &json!({}), &CallOptions::new());
        assert_same_head(&request, &steps[3]["http"]);
        harness.respond_with_json(request.id, 200, &translate_ids(&steps[4], &request));
        assert_eq!(harness.expect_done(key), Ok(steps[4]["msg"]["result"].clone()));
        // This client sends none of the remaining requests, but a session may be lost as in step 7.
        let (_, request) = harness.start_call("tools/list", &json!({}), &CallOptions::new());
        assert_same_head(&request, &steps[3]["http"]);
        harness.respond_with_status(
            request.id,
            u16::try_from(steps[7]["http"]["status"].as_u64().expect("a status")).expect("one"),
        );
        assert_eq!(harness.expect_post("initialize").field("Mcp-Session-Id"), None);
        harness.transcript
    });
}

// covers: SSE-004, SSE-019, SSE-020, SSE-021
#[test]
fn client_matches_flow_sse_polling_2025_11_25() {
    let steps = parse_flow(include_str!("../transcripts/2025-11-25-http-sse-polling.jsonl"));
    for_each_chunker(|cut| {
        let mut harness =
            HttpClientHarness::new(client(VersionSet::LEGACY), HttpClientHarness::default_http_config(), cut);
        harness.become_legacy(Version::V2025_11_25, Some("q"), json!({"tools": {}}));
        let (key, request) =
            harness.start_call("tools/call", &steps[0]["msg"]["params"], &CallOptions::new());
        assert_same_head(&request, &steps[0]["http"]);
        harness.start_event_stream(request.id);
        for raw in &steps[1..3] {
            harness.receive_body(request.id, raw["raw"].as_str().expect("text"));
        }
        harness.receive_end(request.id);
        harness.advance(ms(1_499));
        harness.assert_idle();
        harness.advance(ms(1));
        let get = harness.expect_request();
        assert_same_head(&get, &steps[3]["http"]);
        harness.start_event_stream(get.id);
        let id = format!("\"id\":{},", request.body["id"]);
        harness.receive_body(get.id, steps[4]["raw"].as_str().expect("text").replace("\"id\":7,", &id));
        assert_eq!(harness.expect_done(key), Ok(steps[5]["msg"]["result"].clone()));
        harness.transcript
    });
}

// covers: HTTP-047, HTTP-062, HTTP-067, HTTP-072, SSE-021
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn client_matches_flow_session_resume_2025_03_26() {
    let steps = parse_flow(include_str!("../transcripts/2025-03-26-http-session-sse-resume.jsonl"));
    let step_of_type = |t: &str| steps.iter().find(|s| s["t"] == t).expect("a step").clone();
    let http_of_note = |n: &str| steps.iter().find(|s| s["note"] == n).expect("a note")["http"].clone();
    for_each_chunker(|cut| {
        let versions = VersionSet::only(Version::V2025_03_26);
        let config = client(versions).capabilities(Capabilities::new().with(Capability::Sampling));
        let mut harness = HttpClientHarness::new(config, HttpClientHarness::default_http_config(), cut);
        let request = harness.expect_post("initialize");
        assert_eq!(request.body["params"], step_of_type("InitializeRequest")["msg"]["params"]);
        let answer = step_of_type("InitializeResult");
        harness.receive_head(
            request.id,
            200,
            &[("Content-Type", "text/event-stream"), ("Mcp-Session-Id", "s-9f")],
        );
        harness.receive_event(request.id, "0/1", &translate_ids(&answer, &request));
        harness.receive_end(request.id);
        harness.expect_ready();
        let initialized = harness.expect_post("notifications/initialized");
        assert_same_head(&initialized, &step_of_type("InitializedNotification")["http"]);
        harness.respond_with_status(initialized.id, 202);
        // This client opens its GET stream before the first call.
        let standalone = harness.expect_request();
        assert_same_head(&standalone, &http_of_note("standalone stream"));
        harness.start_event_stream(standalone.id);

        let call = step_of_type("CallToolRequest");
        let mut params = call["msg"]["params"].clone();
        params.as_object_mut().expect("an object").remove("_meta");
        let (key, request) = harness.start_call("tools/call", &params, &CallOptions::new().with_progress());
        assert_same_head(&request, &call["http"]);
        harness.start_event_stream(request.id);
        let mut progress = step_of_type("ProgressNotification")["msg"].clone();
        progress["params"]["progressToken"] = request.body["params"]["_meta"]["progressToken"].clone();
        harness.receive_event(request.id, "2/1", &progress);
        assert!(matches!(harness.expect_event(), Event::Progress { .. }));
        harness.receive_event(request.id, "2/2", &step_of_type("CreateMessageRequest")["msg"]);
        let Event::Input(input) = harness.expect_event() else { panic!("an input") };
        let sample = step_of_type("CreateMessageResult");
        harness.client.engine().answer(harness.now, input.id, &sample["msg"]["result"]).expect("answered");
        let reply = harness.expect_request();
        assert_eq!(reply.body, sample["msg"]);
        assert_same_head(&reply, &sample["http"]);
        harness.respond_with_status(reply.id, 202);
        harness.break_connection(request.id);
        harness.advance(ms(1_000));
        let get = harness.expect_request();
        assert_same_head(&get, &http_of_note("resume"));
        harness.start_event_stream(get.id);
        harness.receive_event(get.id, "2/3", &translate_ids(&step_of_type("CallToolResult"), &request));
        assert_eq!(harness.expect_done(key), Ok(step_of_type("CallToolResult")["msg"]["result"].clone()));
        harness.receive_end(get.id);
        harness.receive_event(standalone.id, "g/1", &step_of_type("ToolListChangedNotification")["msg"]);
        assert!(matches!(harness.expect_event(), Event::Changed { .. }));
        // The session has ended at the server.
        let key = harness.client.engine().ping(harness.now, &CallOptions::new()).expect("a ping");
        let ping = harness.expect_post("ping");
        assert_same_head(&ping, &step_of_type("PingRequest")["http"]);
        harness.respond_with_status(ping.id, 404);
        assert_eq!(harness.expect_aborted(), standalone.id);
        let again = harness.expect_post("initialize");
        assert_eq!(again.field("Mcp-Session-Id"), None);
        harness.client.engine().cancel(harness.now, key, None).expect("a call");
        harness.transcript
    });
}

// covers: HTTPSSE-002, HTTPSSE-003, HTTPSSE-004, HTTPSSE-013, VER-029, VER-030, VER-031, HTTP-087
#[test]
fn client_matches_flow_fallback_to_http_sse_2024_11_05() {
    let fallback = parse_flow(include_str!("../transcripts/dual-era-client-http-fallback.jsonl"));
    let sse = parse_flow(include_str!("../transcripts/2024-11-05-http-sse-transport.jsonl"));
    for_each_chunker(|cut| {
        let config = Config::new("https://tide.example/mcp").expect("a URL");
        let mut harness = HttpClientHarness::new(client(VersionSet::ALL), config, cut);
        let probe = harness.expect_post("server/discover");
        assert_same_head(&probe, &fallback[0]["http"]);
        harness.respond(probe.id, 400, "application/json", r#"{"error":"missing session"}"#);
        let request = harness.expect_post("initialize");
        assert_eq!(request.body["params"], fallback[1]["msg"]["params"]);
        harness.respond_with_status(request.id, 405);
        let get = harness.expect_request();
        assert_same_head(&get, &fallback[2]["http"]);
        harness.start_event_stream(get.id);
        harness.receive_body(get.id, fallback[3]["raw"].as_str().expect("text"));
        let request = harness.expect_post("initialize");
        assert_eq!(request.url.target(), "/msg?c=1");
        harness.respond_with_status(request.id, 202);
        // The HTTP+SSE flow continues here.
        let event = |harness: &mut HttpClientHarness, step: &Value, request: &SentRequest| {
            let event_type = step["sse"]["event"].as_str().expect("a type");
            let text = translate_ids(step, request).to_string();
            harness.observer.record_fed(harness.now, MessageDirection::ServerToClient, text.as_bytes());
            harness.receive_body(get.id, format!("event: {event_type}\ndata: {text}\n\n"));
        };
        event(&mut harness, &sse[3], &request);
        assert_eq!(harness.expect_ready().version, Version::V2024_11_05);
        let key = harness.call("resources/list", &json!({}), &CallOptions::new());
        let initialized = harness.expect_post("notifications/initialized");
        harness.respond_with_status(initialized.id, 202);
        let request = harness.expect_post("resources/list");
        harness.respond_with_status(request.id, 202);
        event(&mut harness, &sse[6], &request);
        assert_eq!(harness.expect_done(key), Ok(sse[6]["msg"]["result"].clone()));
        harness.transcript
    });
}

// covers: SSE-005, HTTP-030, HTTP-032, CANC-016
#[test]
fn client_matches_flow_subscription_2026_07_28() {
    let steps = parse_flow(include_str!("../transcripts/2026-07-28-http-subscription.jsonl"));
    for_each_chunker(|cut| {
        let mut harness =
            HttpClientHarness::new(client(VersionSet::MODERN), HttpClientHarness::default_http_config(), cut);
        let probe = harness.expect_post("server/discover");
        harness.respond_with_json(
            probe.id,
            200,
            &result_response(
                &probe.body,
                discover_result(&["2026-07-28"], json!({"tools": {"listChanged": true}})),
            ),
        );
        harness.expect_ready();
        let requested = &steps[0]["msg"]["params"]["notifications"];
        let filter = SubscriptionFilter::new().tools_list_changed(true);
        let key = harness.client.engine().subscribe(harness.now, &filter).expect("a subscription");
        let request = harness.expect_post("subscriptions/listen");
        assert_same_head(&request, &steps[0]["http"]);
        assert_eq!(&request.body["params"]["notifications"], requested);
        harness.start_event_stream(request.id);
        let id = request.body["id"].to_string();
        let text = |step: &Value| step["raw"].as_str().expect("text").replace("\"L1\"", &id);
        harness.receive_body(request.id, text(&steps[1]));
        assert!(matches!(harness.expect_event(), Event::Subscribed { key: k, .. } if k == key));
        harness.receive_body(request.id, text(&steps[3]));
        harness.assert_idle();
        let mut change = steps[4]["msg"].clone();
        change["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] = request.body["id"].clone();
        harness.receive_event(request.id, "", &change);
        assert!(matches!(harness.expect_event(), Event::Changed { key: Some(k), .. } if k == key));
        harness.client.engine().unsubscribe(harness.now, key).expect("an open subscription");
        assert_eq!(harness.expect_aborted(), request.id);
        harness.assert_idle();
        harness.transcript
    });
}
