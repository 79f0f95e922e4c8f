//! The HTTP flows of `tests/transcripts`, replayed against the server.
//!
//! Client messages of a flow are sent unchanged, except for names that a server assigns: sessions, events, request ids
//! and paths. Status, header fields and messages of the server are compared with those of the flow. Where JSON and
//! event stream are both allowed, the server may use the other form (HTTP-021).

use core::time::Duration;

use mcp_proto::http::server::{Config, ExchangeId};
use mcp_proto::model::InputRequest;
use mcp_proto::server::{Call, Event, InputRequired};
use mcp_proto::{Capabilities, Capability, Change, Progress, RpcError, Version, VersionSet};
use mcp_tests::harness::HttpServerHarness;
use mcp_tests::harness::build::raw;
use serde_json::{Value, json};

use crate::protocol::transcripts::{complete, normalize};

fn flow(text: &str) -> Vec<Value> {
    text.lines().skip(1).map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A flow replayed against a server.
struct FlowReplay {
    harness: HttpServerHarness,
    /// Names that the server of the flow assigned, with those that this server assigned.
    names: Vec<(String, String)>,
    /// The session for steps that do not name one.
    session: Option<String>,
    /// Open calls by the request id of the flow.
    calls: Vec<(Value, Call)>,
}

impl FlowReplay {
    fn new(versions: VersionSet, capabilities: &[Capability], http: Config) -> Self {
        let capabilities = capabilities.iter().fold(Capabilities::new(), |all, one| all.with(*one));
        let web = HttpServerHarness::new(
            crate::protocol::common::server(versions).capabilities(capabilities),
            http,
        );
        Self { harness: web, names: Vec::new(), session: None, calls: Vec::new() }
    }

    fn local_name(&self, flow_name: &str) -> String {
        let known = self.names.iter().rev().find(|(name, _)| name == flow_name);
        known.map_or(flow_name, |(_, local)| local).to_owned()
    }

    /// Sends the request of a step.
    fn send(&mut self, step: &Value) -> ExchangeId {
        let http = &step["http"];
        let mut fields = Vec::new();
        for (name, value) in http["headers"].as_object().into_iter().flatten() {
            let value = self.local_name(value.as_str().expect("text"));
            // The harness omits empty values; whitespace around a value is ignored.
            fields.push((name.clone(), if value.is_empty() { " ".into() } else { value }));
        }
        if let Some(session) = self.session.clone().filter(|_| http.get("headers").is_none()) {
            fields.push(("Mcp-Session-Id".into(), session));
        }
        let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (&**n, &**v)).collect();
        let target = self.local_name(http["path"].as_str().unwrap_or("/mcp"));
        let mut message = step["msg"].clone();
        if message.get("method").is_none() && message.get("id").is_some() {
            let id = message["id"].to_string();
            message["id"] = serde_json::from_str(&self.local_name(&id)).expect("an id");
        }
        let body = if message.is_null() { String::new() } else { message.to_string() };
        let method = http["method"].as_str().unwrap_or("POST");
        let x = self.harness.send_request(method, &target, &fields, &body);
        // The calls of a batch arrive in its order.
        let members = message.as_array().cloned().unwrap_or_else(|| vec![message]);
        let mut ids: Vec<_> =
            members.iter().filter(|m| m["method"] != "ping").map(|m| m["id"].clone()).collect();
        ids.retain(|id| !id.is_null());
        while let Some(event) = self.harness.poll_event() {
            match event {
                Event::Call(call) => self.calls.push((ids.remove(0), call)),
                Event::SessionOpened { .. }
                | Event::Closed { .. }
                | Event::ResourceInterest { .. }
                | Event::Diagnostic { .. }
                | Event::Notification(_) => {}
                other => panic!("{step}: {other:?}"),
            }
        }
        x
    }

    fn call(&mut self, id: &Value) -> Option<Call> {
        let at = self.calls.iter().position(|(known, _)| known == id)?;
        Some(self.calls.remove(at).1)
    }

    /// Answers an application call with the message of the flow.
    fn answer(&mut self, message: &Value) {
        let Some(call) = self.call(&message["id"]) else { return };
        let (now, engine) = (self.harness.now, self.harness.server.engine());
        if let Some(error) = message.get("error") {
            let text = error["message"].as_str().expect("text").to_owned();
            let mut failure = RpcError::new(error["code"].as_i64().expect("a code"), text);
            failure.data = error.get("data").map(raw);
            engine.fail(now, call.id(), &failure).expect("open");
        } else {
            let mut result = message["result"].clone();
            // The engine adds these members.
            result
                .as_object_mut()
                .expect("an object")
                .retain(|name, _| name != "resultType" && name != "_meta");
            complete(engine, now, &call, &result).expect("open");
        }
        self.harness.transmit_all();
    }

    /// Checks status and header fields against those of the flow.
    fn assert_same_head(&mut self, x: ExchangeId, http: &Value, status: u64) {
        let reply = self.harness.response(x);
        assert_eq!(u64::from(reply.status), status, "{http}: {reply:?}");
        let headers = [&http["headers"], &http["response_headers"]];
        let mut session = None;
        for (name, value) in headers.into_iter().filter_map(Value::as_object).flatten() {
            let local = reply.field(&name.to_ascii_lowercase());
            let local = local.unwrap_or_else(|| panic!("header `{name}` is missing: {reply:?}")).to_owned();
            let value = value.as_str().expect("text");
            match &*name.to_ascii_lowercase() {
                "mcp-session-id" => session = Some((value.to_owned(), local)),
                "content-type" => assert!(["application/json", "text/event-stream"].contains(&&*local)),
                _ => assert_eq!(local, value, "{name}"),
            }
        }
        if let Some((flow_name, local)) = session {
            self.session = Some(local.clone());
            self.names.push((flow_name, local));
        }
    }

    /// Replays steps where each request is answered by the next step, or by a status alone.
    fn run(&mut self, steps: &[Value]) -> usize {
        let mut step_count = 0;
        for (index, request) in steps.iter().enumerate().filter(|(_, step)| step["dir"] == "c2s") {
            let x = self.send(request);
            let response = steps.get(index + 1).filter(|next| next["dir"] == "s2c");
            let Some(response) = response else {
                let status = request["http"]["status"].as_u64().expect("a status");
                self.assert_same_head(x, &Value::Null, status);
                assert!(
                    self.harness.response(x).is_complete
                        && (status != 202 || self.harness.response(x).body.is_empty())
                );
                step_count += 1;
                continue;
            };
            let message = &response["msg"];
            for one in message.as_array().map_or_else(|| core::slice::from_ref(message), Vec::as_slice) {
                self.answer(one);
            }
            let status = response["http"]["status"].as_u64().or_else(|| request["http"]["status"].as_u64());
            self.assert_same_head(x, &response["http"], status.unwrap_or(200));
            assert!(self.harness.response(x).is_complete, "{request}");
            assert_eq!(sorted(&self.harness.response(x).message()), sorted(message), "{request}");
            step_count += 1;
        }
        assert!(self.calls.is_empty() && self.harness.server.exchange_count() == 0);
        step_count
    }
}

/// Normalizes messages for comparison; members of a batch come in any order (BATCH-007).
fn sorted(message: &Value) -> Vec<Value> {
    let mut all: Vec<Value> = match message.as_array() {
        Some(members) => members.iter().map(normalize).collect(),
        None => vec![normalize(message)],
    };
    all.sort_by_key(|m| m["id"].to_string());
    all
}

// covers: HTTP-004, HTTP-011, HTTP-013, HTTP-018, HTTP-023, HTTP-069, HTTP-071, HTTP-077, VER-038
#[test]
fn server_matches_flow_version_header_2025_06_18() {
    let mut steps = flow(include_str!("../../transcripts/2025-06-18-http-version-header.jsonl"));
    // A client has to list both types, and the server of the flow refuses one that does not. This one answers it in the
    // type that is listed (HTTP-011).
    let at = steps.iter().position(|step| step["http"]["status"] == 406).expect("a step");
    let one_type = steps.remove(at);
    for versions in [VersionSet::only(Version::V2025_06_18), VersionSet::LEGACY, VersionSet::ALL] {
        let mut replay = FlowReplay::new(versions, &[Capability::Tools], Config::new());
        assert_eq!(replay.run(&steps), 9);
        let (x, id) = (replay.send(&one_type), &one_type["msg"]["id"]);
        replay.answer(&json!({"id": id, "result": {"tools": []}}));
        let json = json!({"headers": {"Content-Type": one_type["http"]["headers"]["Accept"]}});
        replay.assert_same_head(x, &json, 200);
        assert_eq!(replay.harness.response(x).message()["id"], *id);
    }
}

// covers: BATCH-001, BATCH-006, BATCH-007, BATCH-008, BATCH-010
#[test]
fn server_matches_flow_batch_2025_03_26() {
    let mut steps = flow(include_str!("../../transcripts/2025-03-26-batch.jsonl"));
    // The last two steps are checked below: this server refuses the batch as a whole.
    let last = steps.split_off(steps.len() - 2);
    let capabilities = [Capability::Tools, Capability::Completions];
    let mut replay = FlowReplay::new(VersionSet::ALL, &capabilities, Config::new());
    assert_eq!(replay.run(&steps), 6);
    let x = replay.send(&last[0]);
    assert_eq!(sorted(&replay.harness.response(x).message()), sorted(&last[1]["msg"]));
}

// covers: HTTP-024, HTTP-027, HTTP-036, HTTP-037, XHDR-020, XHDR-021, XHDR-022, XHDR-024, XHDR-025, XHDR-026
#[test]
fn server_matches_flow_header_params_2026_07_28() {
    let steps = flow(include_str!("../../transcripts/2026-07-28-http-header-params.jsonl"));
    let route = &steps[1]["msg"]["result"]["tools"][0];
    assert_eq!(route["name"], "route");
    for versions in [VersionSet::MODERN, VersionSet::ALL] {
        let mut replay =
            FlowReplay::new(versions, &[Capability::Tools, Capability::Resources], Config::new());
        replay.harness.server.set_tool_schema("route", &raw(&route["inputSchema"])).expect("sound");
        assert_eq!(replay.run(&steps), 12);
    }
}

// covers: HTTP-021, HTTP-050, HTTP-057, HTTP-062, HTTP-064, HTTP-071, HTTP-075, SSE-013, SSE-022, SSE-023
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn server_matches_flow_session_resume_2025_03_26() {
    let steps = flow(include_str!("../../transcripts/2025-03-26-http-session-sse-resume.jsonl"));
    let mut replay =
        FlowReplay::new(VersionSet::ALL, &[Capability::Tools, Capability::ToolsListChanged], Config::new());
    assert_eq!(replay.run(&steps[..3]), 2);
    let [request, progress_step, sample, sampled] = &steps[3..7] else { panic!("four") };
    let x = replay.send(request);
    let id = &request["msg"]["id"];
    let call = replay.call(id).expect("a call");
    let (now, params) = (replay.harness.now, &progress_step["msg"]["params"]);
    let mut progress = Progress::new(params["progress"].as_f64().expect("a number"));
    progress = progress.with_total(params["total"].as_f64().expect("a number"));
    progress = progress.with_message(params["message"].as_str().expect("text").to_owned());
    replay.harness.server.engine().progress(now, call.id(), progress).expect("open");
    replay.harness.transmit_all();
    let mut input = InputRequired::new();
    let question = raw(&sample["msg"]["params"]);
    let question = InputRequest::CreateMessage(question.parse().expect("parameters")).into_owned();
    input.request_input(&call, "noise", question).expect_err("not yet");
    replay.harness.server.engine().require_input(now, &call, &input).expect("the client can answer");
    replay.harness.transmit_all();
    let mut messages = replay.harness.response(x).messages();
    assert_eq!(messages.len(), 2);
    assert_eq!(normalize(&messages[0]), normalize(&progress_step["msg"]));
    replay.names.push((sample["msg"]["id"].to_string(), messages[1]["id"].to_string()));
    messages[1]["id"] = sample["msg"]["id"].clone();
    assert_eq!(normalize(&messages[1]), normalize(&sample["msg"]));
    // The response lets the parked call resume.
    let mut sampled = sampled.clone();
    let y = {
        let id_text = sampled["msg"]["id"].to_string();
        sampled["msg"]["id"] = serde_json::from_str(&replay.local_name(&id_text)).expect("an id");
        replay.harness.send_request(
            "POST",
            "/mcp",
            &[("Mcp-Session-Id", &replay.session.clone().expect("a session"))],
            &sampled["msg"].to_string(),
        )
    };
    replay.assert_same_head(y, &Value::Null, sampled["http"]["status"].as_u64().expect("a status"));
    let call = replay.harness.expect_call();
    replay.calls.push((id.clone(), call));

    let last = replay.harness.response(x).events().pop().expect("events").id;
    replay.names.push(("2/2".into(), last));
    replay.harness.close_exchange(x);
    assert!(replay.harness.poll_event().is_none(), "a disconnect does not cancel");
    let resumed = replay.send(&steps[8]);
    replay.answer(&steps[9]["msg"]);
    replay.assert_same_head(resumed, &steps[9]["http"], 200);
    assert_eq!(normalize(&replay.harness.response(resumed).message()), normalize(&steps[9]["msg"]));
    assert!(replay.harness.response(resumed).is_complete);

    let get = replay.send(&steps[10]);
    replay.harness.server.engine().publish(now, &Change::Tools);
    replay.harness.transmit_all();
    assert_eq!(normalize(&replay.harness.response(get).message()), normalize(&steps[11]["msg"]));
    let mut ids: Vec<String> = Vec::new();
    for x in [x, resumed, get] {
        ids.extend(replay.harness.response(x).events().into_iter().map(|e| e.id));
    }
    assert!(ids.iter().all(|id| !id.is_empty() && ids.iter().filter(|other| *other == id).count() == 1));
    let end = replay.send(&steps[12]);
    replay.assert_same_head(end, &Value::Null, 204);
    assert!(replay.harness.response(get).is_complete);
    let ping = replay.send(&steps[13]);
    replay.assert_same_head(ping, &Value::Null, 404);
    assert_eq!((replay.harness.server.session_count(), replay.harness.server.exchange_count()), (0, 0));
}

// covers: SSE-016, SSE-017, SSE-018, SSE-022, HTTP-059
#[test]
fn server_matches_flow_sse_polling_2025_11_25() {
    let steps = flow(include_str!("../../transcripts/2025-11-25-http-sse-polling.jsonl"));
    let mut replay = FlowReplay::new(VersionSet::ALL, &[Capability::Tools], Config::new());
    let session = super::open_session(&mut replay.harness, "2025-11-25");
    replay.names.push(("q".into(), session));
    let x = replay.send(&steps[0]);
    let (id, call) = replay.calls.pop().expect("a call");
    assert!(replay.harness.server.poll_later(
        replay.harness.now,
        call.id(),
        Some(Duration::from_millis(1_500))
    ));
    replay.harness.transmit_all();
    replay.assert_same_head(x, &steps[1]["http"], 200);
    let reply = replay.harness.response(x);
    let events = reply.events();
    assert!(reply.is_complete && events.len() == 2, "{reply:?}");
    assert!(!events[0].id.is_empty() && events[0].data.is_empty(), "primed");
    assert_eq!((&*events[1].retry, &*events[1].data), ("1500", ""));
    replay.names.push(("st7-0".into(), events[0].id.clone()));
    replay.calls.push((id, call));
    replay.harness.advance(Duration::from_millis(1_500));
    let get = replay.send(&steps[3]);
    replay.answer(&steps[5]["msg"]);
    replay.assert_same_head(get, &steps[4]["http"], 200);
    let reply = replay.harness.response(get);
    assert_eq!(normalize(&reply.message()), normalize(&steps[5]["msg"]));
    assert!(reply.is_complete && reply.events().iter().all(|e| !e.id.is_empty() && e.id != events[0].id));
}

// covers: HTTP-002, HTTP-039, HTTP-042, SUB-004, SUB-019, SSE-006, SSE-007, SSE-008
#[test]
fn server_matches_flow_subscription_2026_07_28() {
    let steps = flow(include_str!("../../transcripts/2026-07-28-http-subscription.jsonl"));
    let capabilities = [Capability::Tools, Capability::ToolsListChanged];
    let mut replay = FlowReplay::new(VersionSet::MODERN, &capabilities, Config::new());
    let x = replay.send(&steps[0]);
    replay.assert_same_head(x, &steps[1]["http"], 200);
    assert_eq!(normalize(&replay.harness.response(x).message()), normalize(&steps[2]["msg"]));
    let before = replay.harness.response(x).body.len();
    replay.harness.advance(Duration::from_secs(31));
    let alive = &replay.harness.response(x).body[before..];
    assert!(alive.starts_with(':') && alive.trim_matches([':', ' ', '\n']).is_empty(), "{alive:?}");
    replay.harness.server.engine().publish(replay.harness.now, &Change::Tools);
    replay.harness.transmit_all();
    assert_eq!(normalize(&replay.harness.response(x).messages()[1]), normalize(&steps[4]["msg"]));
    replay.harness.close_exchange(x);
    assert_eq!(replay.harness.server.engine().publish(replay.harness.now, &Change::Tools), 0);
    for step in &steps[6..8] {
        let x = replay.send(step);
        replay.assert_same_head(x, &step["http"], step["http"]["status"].as_u64().expect("a status"));
    }
    assert_eq!(replay.harness.server.exchange_count(), 0);
}

// covers: HTTPSSE-001, HTTPSSE-002, HTTPSSE-003, HTTPSSE-004, HTTPSSE-007
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn server_matches_flow_http_sse_2024_11_05() {
    let steps = flow(include_str!("../../transcripts/2024-11-05-http-sse-transport.jsonl"));
    for versions in [VersionSet::only(Version::V2024_11_05), VersionSet::ALL] {
        let http = Config::new().http_sse("/sse", "/messages");
        let mut replay = FlowReplay::new(versions, &[Capability::Resources], http);
        let stream = replay.send(&steps[0]);
        replay.assert_same_head(stream, &steps[1]["http"], 200);
        let first = replay.harness.response(stream).events().remove(0);
        assert_eq!(first.event, "endpoint");
        replay.names.push(("/messages?conn=7f3a".into(), first.data));
        let mut answer_count = 0;
        for step in &steps[2..] {
            if step["dir"] == "c2s" {
                let x = replay.send(step);
                replay.assert_same_head(x, &Value::Null, step["http"]["status"].as_u64().expect("a status"));
                assert!(replay.harness.response(x).body.is_empty());
                continue;
            }
            replay.answer(&step["msg"]);
            answer_count += 1;
            let event = replay.harness.response(stream).events().remove(answer_count);
            assert!(event.event.is_empty(), "an event without a type is a `message`");
            let local: Value = serde_json::from_str(&event.data).expect("JSON");
            assert_eq!(normalize(&local), normalize(&step["msg"]));
        }
        assert_eq!((answer_count, replay.harness.response(stream).events().len()), (2, 3));
    }
}

// covers: HTTPSSE-012, HTTP-083, VER-031 (as the server makes it work)
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn server_matches_flow_fallback_to_http_sse() {
    let steps = flow(include_str!("../../transcripts/dual-era-client-http-fallback.jsonl"));
    let http = Config::new().path("/elsewhere").http_sse("/mcp", "/msg");
    let mut replay = FlowReplay::new(VersionSet::LEGACY, &[Capability::Tools], http);
    for step in &steps[..2] {
        let x = replay.send(step);
        // The flow has status 400 for the first request: its client treats both alike.
        replay.assert_same_head(x, &json!({"headers": {"Allow": "GET"}}), 405);
        assert!(
            !replay.harness.response(x).message()["error"]["code"]
                .as_i64()
                .is_some_and(|c| (-32022..=-32020).contains(&c))
        );
    }
    let get = replay.send(&steps[2]);
    replay.assert_same_head(get, &steps[3]["http"], 200);
    assert_eq!(replay.harness.response(get).events()[0].event, "endpoint");
}
