//! The hand-made flows over HTTP of `tests/transcripts`, on the client's side: what they say that a client sends is held
//! against what ours sends, ids renamed; what they say that a server sends is fed as it is.

use mcp_proto::client::Event;
use mcp_proto::http::client::Config;
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallOptions, Capabilities, Capability, Diagnostic, Version, VersionSet};
use mcp_tests::harness::build::{discovery, result};
use mcp_tests::harness::{Asked, LoneHttp, each_cut};
use mcp_tests::schema::Direction;
use serde_json::{Value, json};

use crate::common::{client, ms};

fn flow(text: &str) -> Vec<Value> {
    text.lines().skip(1).map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The request has the fields that the flow gives it, and no others of MCP's
fn same_head(asked: &Asked, told: &Value) {
    assert_eq!(asked.method, told["method"]);
    let told = told["headers"].as_object().cloned().unwrap_or_default();
    for (name, value) in &told {
        let ours = asked.field(name).unwrap_or_else(|| panic!("{name} is missing: {asked:?}"));
        let numbers = (ours.parse::<f64>(), value.as_str().expect("text").parse::<f64>());
        let equal = ours == value || matches!(numbers, (Ok(a), Ok(b)) if (a - b).abs() < f64::EPSILON);
        assert!(equal, "{name}: {ours:?} and {value}");
    }
    for (name, _) in asked.fields.iter().filter(|(n, _)| n.starts_with("Mcp-") || n.starts_with("Last-")) {
        assert!(told.keys().any(|n| n.eq_ignore_ascii_case(name)), "{name} is more than {told:?}");
    }
}

/// What the server says to a request of ours
fn renamed(step: &Value, asked: &Asked) -> Value {
    let mut message = step["msg"].clone();
    if message.get("id").is_some() {
        message["id"] = asked.body["id"].clone();
    }
    message
}

// covers: XHDR-011, XHDR-012, XHDR-014, XHDR-016, XHDR-017, XHDR-018, XHDR-019, XHDR-032, HTTP-032, HTTP-033, HTTP-035
#[test]
fn header_params() {
    let steps = flow(include_str!("../transcripts/2026-07-28-http-header-params.jsonl"));
    each_cut(|cut| {
        let mut lone = LoneHttp::new(client(VersionSet::MODERN), LoneHttp::http(), cut);
        lone.with_modern(json!({"tools": {}, "resources": {}}));
        let mut played = 0;
        for pair in steps.windows(2) {
            let [asks, answers] = pair else { continue };
            let (method, http) = (asks["msg"]["method"].as_str(), &asks["http"]);
            // What a client of ours does not send is for servers to refuse.
            let refused = http["status"] == 400 || answers["http"]["status"] == 400;
            let ours = http["headers"].get("Mcp-Method").is_some();
            let (Some(method), false, true) = (method, refused, ours) else { continue };
            let mut params = asks["msg"]["params"].clone();
            params.as_object_mut().expect("an object").remove("_meta");
            let (key, asked) = lone.calls(method, &params, &CallOptions::new());
            same_head(&asked, http);
            lone.json(asked.id, 200, &renamed(answers, &asked));
            let odd = lone.odd();
            let done = lone.done(key);
            if method == "tools/list" {
                assert!(
                    odd.len() == 4 && odd.iter().all(|d| matches!(d, Diagnostic::InvalidTool { .. })),
                    "{odd:?}"
                );
                assert_eq!(done.expect("a page")["tools"].as_array().map(Vec::len), Some(1));
            }
            played += 1;
        }
        assert!(played >= 7, "{played}");
        lone.transcript
    });
}

// covers: HTTP-010, HTTP-012, HTTP-067, HTTP-076, VER-039
#[test]
fn the_version_header() {
    let steps = flow(include_str!("../transcripts/2025-06-18-http-version-header.jsonl"));
    each_cut(|cut| {
        let versions = VersionSet::only(Version::V2025_06_18);
        let mut lone = LoneHttp::new(client(versions), LoneHttp::http(), cut);
        let asked = lone.posted("initialize");
        same_head(&asked, &steps[0]["http"]);
        assert_eq!(asked.body["params"], steps[0]["msg"]["params"]);
        let answer = renamed(&steps[1], &asked);
        lone.watch.fed(lone.now, Direction::ServerToClient, answer.to_string().as_bytes());
        let fields = [("Content-Type", "application/json"), ("Mcp-Session-Id", "zz1")];
        lone.answer_with(asked.id, 200, &fields, &answer.to_string());
        lone.ready();
        let said = lone.posted("notifications/initialized");
        same_head(&said, &steps[2]["http"]);
        lone.status(said.id, 202);
        // The flow has no stream.
        let get = lone.asked();
        lone.status(get.id, 405);
        let (key, asked) = lone.calls("tools/list", &json!({}), &CallOptions::new());
        same_head(&asked, &steps[3]["http"]);
        lone.json(asked.id, 200, &renamed(&steps[4], &asked));
        assert_eq!(lone.done(key), Ok(steps[4]["msg"]["result"].clone()));
        // What follows is what no client of ours sends; but it may hear of a lost session.
        let (_, asked) = lone.calls("tools/list", &json!({}), &CallOptions::new());
        same_head(&asked, &steps[3]["http"]);
        lone.status(
            asked.id,
            u16::try_from(steps[7]["http"]["status"].as_u64().expect("a status")).expect("one"),
        );
        assert_eq!(lone.posted("initialize").field("Mcp-Session-Id"), None);
        lone.transcript
    });
}

// covers: SSE-004, SSE-019, SSE-020, SSE-021
#[test]
fn polling() {
    let steps = flow(include_str!("../transcripts/2025-11-25-http-sse-polling.jsonl"));
    each_cut(|cut| {
        let mut lone = LoneHttp::new(client(VersionSet::LEGACY), LoneHttp::http(), cut);
        lone.with_legacy(Version::V2025_11_25, Some("q"), json!({"tools": {}}));
        let (key, asked) = lone.calls("tools/call", &steps[0]["msg"]["params"], &CallOptions::new());
        same_head(&asked, &steps[0]["http"]);
        lone.stream(asked.id);
        for raw in &steps[1..3] {
            lone.body(asked.id, raw["raw"].as_str().expect("text"));
        }
        lone.end(asked.id);
        lone.pass(ms(1_499));
        lone.still();
        lone.pass(ms(1));
        let get = lone.asked();
        same_head(&get, &steps[3]["http"]);
        lone.stream(get.id);
        let id = format!("\"id\":{},", asked.body["id"]);
        lone.body(get.id, steps[4]["raw"].as_str().expect("text").replace("\"id\":7,", &id));
        assert_eq!(lone.done(key), Ok(steps[5]["msg"]["result"].clone()));
        lone.transcript
    });
}

// covers: HTTP-047, HTTP-062, HTTP-067, HTTP-072, SSE-021
#[test]
fn a_session_with_a_stream_that_drops() {
    let steps = flow(include_str!("../transcripts/2025-03-26-http-session-sse-resume.jsonl"));
    let by = |t: &str| steps.iter().find(|s| s["t"] == t).expect("a step").clone();
    let note = |n: &str| steps.iter().find(|s| s["note"] == n).expect("a note")["http"].clone();
    each_cut(|cut| {
        let versions = VersionSet::only(Version::V2025_03_26);
        let config = client(versions).capabilities(Capabilities::new().with(Capability::Sampling));
        let mut lone = LoneHttp::new(config, LoneHttp::http(), cut);
        let asked = lone.posted("initialize");
        assert_eq!(asked.body["params"], by("InitializeRequest")["msg"]["params"]);
        let answer = by("InitializeResult");
        lone.head(asked.id, 200, &[("Content-Type", "text/event-stream"), ("Mcp-Session-Id", "s-9f")]);
        lone.event(asked.id, "0/1", &renamed(&answer, &asked));
        lone.end(asked.id);
        lone.ready();
        let said = lone.posted("notifications/initialized");
        same_head(&said, &by("InitializedNotification")["http"]);
        lone.status(said.id, 202);
        // Ours is opened before anything is asked.
        let standalone = lone.asked();
        same_head(&standalone, &note("standalone stream"));
        lone.stream(standalone.id);

        let call = by("CallToolRequest");
        let mut params = call["msg"]["params"].clone();
        params.as_object_mut().expect("an object").remove("_meta");
        let (key, asked) = lone.calls("tools/call", &params, &CallOptions::new().with_progress());
        same_head(&asked, &call["http"]);
        lone.stream(asked.id);
        let mut progress = by("ProgressNotification")["msg"].clone();
        progress["params"]["progressToken"] = asked.body["params"]["_meta"]["progressToken"].clone();
        lone.event(asked.id, "2/1", &progress);
        assert!(matches!(lone.next_event(), Event::Progress { .. }));
        lone.event(asked.id, "2/2", &by("CreateMessageRequest")["msg"]);
        let Event::Input(input) = lone.next_event() else { panic!("an input") };
        let sample = by("CreateMessageResult");
        lone.client.engine().answer(lone.now, input.id, &sample["msg"]["result"]).expect("answered");
        let told = lone.asked();
        assert_eq!(told.body, sample["msg"]);
        same_head(&told, &sample["http"]);
        lone.status(told.id, 202);
        lone.breaks(asked.id);
        lone.pass(ms(1_000));
        let get = lone.asked();
        same_head(&get, &note("resume"));
        lone.stream(get.id);
        lone.event(get.id, "2/3", &renamed(&by("CallToolResult"), &asked));
        assert_eq!(lone.done(key), Ok(by("CallToolResult")["msg"]["result"].clone()));
        lone.end(get.id);
        lone.event(standalone.id, "g/1", &by("ToolListChangedNotification")["msg"]);
        assert!(matches!(lone.next_event(), Event::Changed { .. }));
        // The session has ended at the server.
        let key = lone.client.engine().ping(lone.now, &CallOptions::new()).expect("a ping");
        let ping = lone.posted("ping");
        same_head(&ping, &by("PingRequest")["http"]);
        lone.status(ping.id, 404);
        assert_eq!(lone.aborted(), standalone.id);
        let again = lone.posted("initialize");
        assert_eq!(again.field("Mcp-Session-Id"), None);
        lone.client.engine().cancel(lone.now, key, None).expect("a call");
        lone.transcript
    });
}

// covers: HTTPSSE-002, HTTPSSE-003, HTTPSSE-004, HTTPSSE-013, VER-029, VER-030, VER-031, HTTP-087
#[test]
fn from_the_first_question_to_http_sse() {
    let fallback = flow(include_str!("../transcripts/dual-era-client-http-fallback.jsonl"));
    let sse = flow(include_str!("../transcripts/2024-11-05-http-sse-transport.jsonl"));
    each_cut(|cut| {
        let config = Config::new("https://tide.example/mcp").expect("a URL");
        let mut lone = LoneHttp::new(client(VersionSet::ALL), config, cut);
        let probe = lone.posted("server/discover");
        same_head(&probe, &fallback[0]["http"]);
        lone.answer(probe.id, 400, "application/json", r#"{"error":"missing session"}"#);
        let asked = lone.posted("initialize");
        assert_eq!(asked.body["params"], fallback[1]["msg"]["params"]);
        lone.status(asked.id, 405);
        let get = lone.asked();
        same_head(&get, &fallback[2]["http"]);
        lone.stream(get.id);
        lone.body(get.id, fallback[3]["raw"].as_str().expect("text"));
        let asked = lone.posted("initialize");
        assert_eq!(asked.url.target(), "/msg?c=1");
        lone.status(asked.id, 202);
        // From here on as in the other flow.
        let event = |lone: &mut LoneHttp, step: &Value, asked: &Asked| {
            let kind = step["sse"]["event"].as_str().expect("a type");
            let text = renamed(step, asked).to_string();
            lone.watch.fed(lone.now, Direction::ServerToClient, text.as_bytes());
            lone.body(get.id, format!("event: {kind}\ndata: {text}\n\n"));
        };
        event(&mut lone, &sse[3], &asked);
        assert_eq!(lone.ready().version, Version::V2024_11_05);
        let key = lone.call("resources/list", &json!({}), &CallOptions::new());
        let said = lone.posted("notifications/initialized");
        lone.status(said.id, 202);
        let asked = lone.posted("resources/list");
        lone.status(asked.id, 202);
        event(&mut lone, &sse[6], &asked);
        assert_eq!(lone.done(key), Ok(sse[6]["msg"]["result"].clone()));
        lone.transcript
    });
}

// covers: SSE-005, HTTP-030, HTTP-032, CANC-016
#[test]
fn a_subscription() {
    let steps = flow(include_str!("../transcripts/2026-07-28-http-subscription.jsonl"));
    each_cut(|cut| {
        let mut lone = LoneHttp::new(client(VersionSet::MODERN), LoneHttp::http(), cut);
        let probe = lone.posted("server/discover");
        lone.json(
            probe.id,
            200,
            &result(&probe.body, discovery(&["2026-07-28"], json!({"tools": {"listChanged": true}}))),
        );
        lone.ready();
        let told = &steps[0]["msg"]["params"]["notifications"];
        let filter = SubscriptionFilter::new().tools_list_changed(true);
        let key = lone.client.engine().subscribe(lone.now, &filter).expect("a subscription");
        let asked = lone.posted("subscriptions/listen");
        same_head(&asked, &steps[0]["http"]);
        assert_eq!(&asked.body["params"]["notifications"], told);
        lone.stream(asked.id);
        let id = asked.body["id"].to_string();
        let text = |step: &Value| step["raw"].as_str().expect("text").replace("\"L1\"", &id);
        lone.body(asked.id, text(&steps[1]));
        assert!(matches!(lone.next_event(), Event::Subscribed { key: k, .. } if k == key));
        lone.body(asked.id, text(&steps[3]));
        lone.still();
        let mut news = steps[4]["msg"].clone();
        news["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] = asked.body["id"].clone();
        lone.event(asked.id, "", &news);
        assert!(matches!(lone.next_event(), Event::Changed { key: Some(k), .. } if k == key));
        lone.client.engine().unsubscribe(lone.now, key).expect("given up");
        assert_eq!(lone.aborted(), asked.id);
        lone.still();
        lone.transcript
    });
}
