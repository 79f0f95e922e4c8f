//! The hand-made flows over HTTP of `tests/transcripts`, with our server in the place of theirs.
//!
//! What a flow says that a client sends is sent as it stands, but for what the server has named: sessions, events,
//! questions, paths. What it says that a server answers is held against what ours answers: statuses, fields, messages.
//! Where both kinds of answers are allowed, ours may be of the other kind (HTTP-021).

use core::time::Duration;

use mcp_proto::http::server::{Config, ExchangeId};
use mcp_proto::model::InputRequest;
use mcp_proto::server::{Asking, Call, Event};
use mcp_proto::{Capabilities, Capability, Change, Progress, RpcError, Version, VersionSet};
use mcp_tests::harness::Web;
use mcp_tests::harness::build::raw;
use serde_json::{Value, json};

use crate::transcripts::{complete, normal};

fn flow(text: &str) -> Vec<Value> {
    text.lines().skip(1).map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A flow with our server in it
struct Play {
    web: Web,
    /// What the flow calls something that a server names, and what ours calls it
    names: Vec<(String, String)>,
    /// The session that is meant where a flow does not say it
    session: Option<String>,
    /// Calls that are not answered, by the ids that they were sent with
    calls: Vec<(Value, Call)>,
}

impl Play {
    fn new(versions: VersionSet, capabilities: &[Capability], http: Config) -> Self {
        let capabilities = capabilities.iter().fold(Capabilities::new(), |all, one| all.with(*one));
        let web = Web::new(crate::common::server(versions).capabilities(capabilities), http);
        Self { web, names: Vec::new(), session: None, calls: Vec::new() }
    }

    fn ours(&self, theirs: &str) -> String {
        let known = self.names.iter().rev().find(|(name, _)| name == theirs);
        known.map_or(theirs, |(_, ours)| ours).to_owned()
    }

    /// Sends what a line of a flow says is sent
    fn send(&mut self, step: &Value) -> ExchangeId {
        let http = &step["http"];
        let mut fields = Vec::new();
        for (name, value) in http["headers"].as_object().into_iter().flatten() {
            let value = self.ours(value.as_str().expect("text"));
            // The harness leaves out what is empty; white space around a value does not count.
            fields.push((name.clone(), if value.is_empty() { " ".into() } else { value }));
        }
        if let Some(session) = self.session.clone().filter(|_| http.get("headers").is_none()) {
            fields.push(("Mcp-Session-Id".into(), session));
        }
        let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (&**n, &**v)).collect();
        let target = self.ours(http["path"].as_str().unwrap_or("/mcp"));
        let mut message = step["msg"].clone();
        if message.get("method").is_none() && message.get("id").is_some() {
            let theirs = message["id"].to_string();
            message["id"] = serde_json::from_str(&self.ours(&theirs)).expect("an id");
        }
        let body = if message.is_null() { String::new() } else { message.to_string() };
        let method = http["method"].as_str().unwrap_or("POST");
        let x = self.web.send(method, &target, &fields, &body);
        // The calls of a batch come in its order.
        let members = message.as_array().cloned().unwrap_or_else(|| vec![message]);
        let mut ids: Vec<_> =
            members.iter().filter(|m| m["method"] != "ping").map(|m| m["id"].clone()).collect();
        ids.retain(|id| !id.is_null());
        while let Some(event) = self.web.event() {
            match event {
                Event::Call(call) => self.calls.push((ids.remove(0), call)),
                Event::SessionOpened { .. }
                | Event::Closed { .. }
                | Event::Interest { .. }
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

    /// Answers a call, if it is one of the application's, as theirs does
    fn answer(&mut self, theirs: &Value) {
        let Some(call) = self.call(&theirs["id"]) else { return };
        let (now, engine) = (self.web.now, self.web.server.engine());
        if let Some(error) = theirs.get("error") {
            let text = error["message"].as_str().expect("text").to_owned();
            let mut ours = RpcError::new(error["code"].as_i64().expect("a code"), text);
            ours.data = error.get("data").map(raw);
            engine.fail(now, call.id(), &ours).expect("open");
        } else {
            let mut result = theirs["result"].clone();
            // The engine stamps by itself.
            result
                .as_object_mut()
                .expect("an object")
                .retain(|name, _| name != "resultType" && name != "_meta");
            complete(engine, now, &call, &result).expect("open");
        }
        self.web.pull();
    }

    /// The response begins as theirs does
    fn same_head(&mut self, x: ExchangeId, http: &Value, status: u64) {
        let reply = self.web.reply(x);
        assert_eq!(u64::from(reply.status), status, "{http}: {reply:?}");
        let told = [&http["headers"], &http["response_headers"]];
        let mut session = None;
        for (name, value) in told.into_iter().filter_map(Value::as_object).flatten() {
            let ours = reply.field(&name.to_ascii_lowercase());
            let ours = ours.unwrap_or_else(|| panic!("no {name}: {reply:?}")).to_owned();
            let value = value.as_str().expect("text");
            match &*name.to_ascii_lowercase() {
                "mcp-session-id" => session = Some((value.to_owned(), ours)),
                "content-type" => assert!(["application/json", "text/event-stream"].contains(&&*ours)),
                _ => assert_eq!(ours, value, "{name}"),
            }
        }
        if let Some((theirs, ours)) = session {
            self.session = Some(ours.clone());
            self.names.push((theirs, ours));
        }
    }

    /// Plays lines of which each is answered by the next one, or by a status alone
    fn play(&mut self, steps: &[Value]) -> usize {
        let mut played = 0;
        for (at, asks) in steps.iter().enumerate().filter(|(_, step)| step["dir"] == "c2s") {
            let x = self.send(asks);
            let answers = steps.get(at + 1).filter(|next| next["dir"] == "s2c");
            let Some(answers) = answers else {
                let status = asks["http"]["status"].as_u64().expect("a status");
                self.same_head(x, &Value::Null, status);
                assert!(self.web.reply(x).finished && (status != 202 || self.web.reply(x).body.is_empty()));
                played += 1;
                continue;
            };
            let theirs = &answers["msg"];
            for one in theirs.as_array().map_or_else(|| core::slice::from_ref(theirs), Vec::as_slice) {
                self.answer(one);
            }
            let status = answers["http"]["status"].as_u64().or_else(|| asks["http"]["status"].as_u64());
            self.same_head(x, &answers["http"], status.unwrap_or(200));
            assert!(self.web.reply(x).finished, "{asks}");
            assert_eq!(sorted(&self.web.reply(x).message()), sorted(theirs), "{asks}");
            played += 1;
        }
        assert!(self.calls.is_empty() && self.web.server.exchanges() == 0);
        played
    }
}

/// Messages in a form that can be compared; those of a batch come in any order (BATCH-007)
fn sorted(message: &Value) -> Vec<Value> {
    let mut all: Vec<Value> = match message.as_array() {
        Some(members) => members.iter().map(normal).collect(),
        None => vec![normal(message)],
    };
    all.sort_by_key(|m| m["id"].to_string());
    all
}

// covers: HTTP-004, HTTP-011, HTTP-013, HTTP-018, HTTP-023, HTTP-069, HTTP-071, HTTP-077, VER-038
#[test]
fn the_version_header_of_2025_06_18() {
    let steps = flow(include_str!("../../transcripts/2025-06-18-http-version-header.jsonl"));
    for versions in [VersionSet::only(Version::V2025_06_18), VersionSet::LEGACY, VersionSet::ALL] {
        let mut play = Play::new(versions, &[Capability::Tools], Config::new());
        assert_eq!(play.play(&steps), 10);
    }
}

// covers: BATCH-001, BATCH-006, BATCH-007, BATCH-008, BATCH-010
#[test]
fn batches_of_2025_03_26() {
    let mut steps = flow(include_str!("../../transcripts/2025-03-26-batch.jsonl"));
    // What our server refuses as a whole, see below.
    let last = steps.split_off(steps.len() - 2);
    let can = [Capability::Tools, Capability::Completions];
    let mut play = Play::new(VersionSet::ALL, &can, Config::new());
    assert_eq!(play.play(&steps), 6);
    let x = play.send(&last[0]);
    assert_eq!(sorted(&play.web.reply(x).message()), sorted(&last[1]["msg"]));
}

// covers: HTTP-024, HTTP-027, HTTP-036, HTTP-037, XHDR-020, XHDR-021, XHDR-022, XHDR-024, XHDR-025, XHDR-026
#[test]
fn header_params_of_2026_07_28() {
    let steps = flow(include_str!("../../transcripts/2026-07-28-http-header-params.jsonl"));
    let route = &steps[1]["msg"]["result"]["tools"][0];
    assert_eq!(route["name"], "route");
    for versions in [VersionSet::MODERN, VersionSet::ALL] {
        let mut play = Play::new(versions, &[Capability::Tools, Capability::Resources], Config::new());
        play.web.server.tool_schema("route", &raw(&route["inputSchema"])).expect("sound");
        assert_eq!(play.play(&steps), 12);
    }
}

// covers: HTTP-021, HTTP-050, HTTP-057, HTTP-062, HTTP-064, HTTP-071, HTTP-075, SSE-013, SSE-022, SSE-023
#[test]
fn a_session_of_2025_03_26_whose_connection_drops() {
    let steps = flow(include_str!("../../transcripts/2025-03-26-http-session-sse-resume.jsonl"));
    let mut play =
        Play::new(VersionSet::ALL, &[Capability::Tools, Capability::ToolsListChanged], Config::new());
    assert_eq!(play.play(&steps[..3]), 2);
    let [asks, told, sample, sampled] = &steps[3..7] else { panic!("four") };
    let x = play.send(asks);
    let id = &asks["msg"]["id"];
    let call = play.call(id).expect("a call");
    let (now, params) = (play.web.now, &told["msg"]["params"]);
    let mut progress = Progress::new(params["progress"].as_f64().expect("a number"));
    progress = progress.of(params["total"].as_f64().expect("a number"));
    progress = progress.saying(params["message"].as_str().expect("text").to_owned());
    play.web.server.engine().progress(now, call.id(), progress).expect("open");
    play.web.pull();
    let mut asking = Asking::new();
    let question = raw(&sample["msg"]["params"]);
    let question = InputRequest::CreateMessage(question.parse().expect("parameters")).into_owned();
    asking.ask(&call, "noise", question).expect_err("not yet");
    play.web.server.engine().ask(now, &call, &asking).expect("it can be asked");
    play.web.pull();
    let mut said = play.web.reply(x).messages();
    assert_eq!(said.len(), 2);
    assert_eq!(normal(&said[0]), normal(&told["msg"]));
    play.names.push((sample["msg"]["id"].to_string(), said[1]["id"].to_string()));
    said[1]["id"] = sample["msg"]["id"].clone();
    assert_eq!(normal(&said[1]), normal(&sample["msg"]));
    // Its answer has the call come again.
    let mut sampled = sampled.clone();
    let y = {
        let theirs = sampled["msg"]["id"].to_string();
        sampled["msg"]["id"] = serde_json::from_str(&play.ours(&theirs)).expect("an id");
        play.web.send(
            "POST",
            "/mcp",
            &[("Mcp-Session-Id", &play.session.clone().expect("a session"))],
            &sampled["msg"].to_string(),
        )
    };
    play.same_head(y, &Value::Null, sampled["http"]["status"].as_u64().expect("a status"));
    let call = play.web.call();
    play.calls.push((id.clone(), call));

    let last = play.web.reply(x).events().pop().expect("events").id;
    play.names.push(("2/2".into(), last));
    play.web.hang_up(x);
    assert!(play.web.event().is_none(), "nobody has cancelled anything");
    let resumed = play.send(&steps[8]);
    play.answer(&steps[9]["msg"]);
    play.same_head(resumed, &steps[9]["http"], 200);
    assert_eq!(normal(&play.web.reply(resumed).message()), normal(&steps[9]["msg"]));
    assert!(play.web.reply(resumed).finished);

    let get = play.send(&steps[10]);
    play.web.server.engine().publish(now, &Change::Tools);
    play.web.pull();
    assert_eq!(normal(&play.web.reply(get).message()), normal(&steps[11]["msg"]));
    let mut ids: Vec<String> = Vec::new();
    for x in [x, resumed, get] {
        ids.extend(play.web.reply(x).events().into_iter().map(|e| e.id));
    }
    assert!(ids.iter().all(|id| !id.is_empty() && ids.iter().filter(|other| *other == id).count() == 1));
    let end = play.send(&steps[12]);
    play.same_head(end, &Value::Null, 204);
    assert!(play.web.reply(get).finished);
    let ping = play.send(&steps[13]);
    play.same_head(ping, &Value::Null, 404);
    assert_eq!((play.web.server.sessions(), play.web.server.exchanges()), (0, 0));
}

// covers: SSE-016, SSE-017, SSE-018, SSE-022, HTTP-059
#[test]
fn polling_of_2025_11_25() {
    let steps = flow(include_str!("../../transcripts/2025-11-25-http-sse-polling.jsonl"));
    let mut play = Play::new(VersionSet::ALL, &[Capability::Tools], Config::new());
    let ours = super::session(&mut play.web, "2025-11-25");
    play.names.push(("q".into(), ours));
    let x = play.send(&steps[0]);
    let (id, call) = play.calls.pop().expect("a call");
    assert!(play.web.server.poll_later(play.web.now, call.id(), Some(Duration::from_millis(1_500))));
    play.web.pull();
    play.same_head(x, &steps[1]["http"], 200);
    let reply = play.web.reply(x);
    let events = reply.events();
    assert!(reply.finished && events.len() == 2, "{reply:?}");
    assert!(!events[0].id.is_empty() && events[0].data.is_empty(), "primed");
    assert_eq!((&*events[1].retry, &*events[1].data), ("1500", ""));
    play.names.push(("st7-0".into(), events[0].id.clone()));
    play.calls.push((id, call));
    play.web.advance(Duration::from_millis(1_500));
    let get = play.send(&steps[3]);
    play.answer(&steps[5]["msg"]);
    play.same_head(get, &steps[4]["http"], 200);
    let reply = play.web.reply(get);
    assert_eq!(normal(&reply.message()), normal(&steps[5]["msg"]));
    assert!(reply.finished && reply.events().iter().all(|e| !e.id.is_empty() && e.id != events[0].id));
}

// covers: HTTP-002, HTTP-039, HTTP-042, SUB-004, SUB-019, SSE-006, SSE-007, SSE-008
#[test]
fn a_subscription_of_2026_07_28() {
    let steps = flow(include_str!("../../transcripts/2026-07-28-http-subscription.jsonl"));
    let can = [Capability::Tools, Capability::ToolsListChanged];
    let mut play = Play::new(VersionSet::MODERN, &can, Config::new());
    let x = play.send(&steps[0]);
    play.same_head(x, &steps[1]["http"], 200);
    assert_eq!(normal(&play.web.reply(x).message()), normal(&steps[2]["msg"]));
    let before = play.web.reply(x).body.len();
    play.web.advance(Duration::from_secs(31));
    let alive = &play.web.reply(x).body[before..];
    assert!(alive.starts_with(':') && alive.trim_matches([':', ' ', '\n']).is_empty(), "{alive:?}");
    play.web.server.engine().publish(play.web.now, &Change::Tools);
    play.web.pull();
    assert_eq!(normal(&play.web.reply(x).messages()[1]), normal(&steps[4]["msg"]));
    play.web.hang_up(x);
    assert_eq!(play.web.server.engine().publish(play.web.now, &Change::Tools), 0);
    for step in &steps[6..8] {
        let x = play.send(step);
        play.same_head(x, &step["http"], step["http"]["status"].as_u64().expect("a status"));
    }
    assert_eq!(play.web.server.exchanges(), 0);
}

// covers: HTTPSSE-001, HTTPSSE-002, HTTPSSE-003, HTTPSSE-004, HTTPSSE-007
#[test]
fn http_sse_of_2024_11_05() {
    let steps = flow(include_str!("../../transcripts/2024-11-05-http-sse-transport.jsonl"));
    for versions in [VersionSet::only(Version::V2024_11_05), VersionSet::ALL] {
        let http = Config::new().http_sse("/sse", "/messages");
        let mut play = Play::new(versions, &[Capability::Resources], http);
        let stream = play.send(&steps[0]);
        play.same_head(stream, &steps[1]["http"], 200);
        let first = play.web.reply(stream).events().remove(0);
        assert_eq!(first.event, "endpoint");
        play.names.push(("/messages?conn=7f3a".into(), first.data));
        let mut said = 0;
        for step in &steps[2..] {
            if step["dir"] == "c2s" {
                let x = play.send(step);
                play.same_head(x, &Value::Null, step["http"]["status"].as_u64().expect("a status"));
                assert!(play.web.reply(x).body.is_empty());
                continue;
            }
            play.answer(&step["msg"]);
            said += 1;
            let event = play.web.reply(stream).events().remove(said);
            assert!(event.event.is_empty(), "`message` is what an event is that says nothing else");
            let ours: Value = serde_json::from_str(&event.data).expect("JSON");
            assert_eq!(normal(&ours), normal(&step["msg"]));
        }
        assert_eq!((said, play.web.reply(stream).events().len()), (2, 3));
    }
}

// covers: HTTPSSE-012, HTTP-083, VER-031 (as the server makes it work)
#[test]
fn a_client_that_falls_back_finds_http_sse_where_it_looks() {
    let steps = flow(include_str!("../../transcripts/dual-era-client-http-fallback.jsonl"));
    let http = Config::new().path("/elsewhere").http_sse("/mcp", "/msg");
    let mut play = Play::new(VersionSet::LEGACY, &[Capability::Tools], http);
    for step in &steps[..2] {
        let x = play.send(step);
        // The flow has 400 for the first: to its client they are the same.
        play.same_head(x, &json!({"headers": {"Allow": "GET"}}), 405);
        assert!(
            !play.web.reply(x).message()["error"]["code"]
                .as_i64()
                .is_some_and(|c| (-32022..=-32020).contains(&c))
        );
    }
    let get = play.send(&steps[2]);
    play.same_head(get, &steps[3]["http"], 200);
    assert_eq!(play.web.reply(get).events()[0].event, "endpoint");
}
