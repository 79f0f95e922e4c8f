//! Sessions that several processes serve, without affinity.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use bytes::Bytes;
use mcp_proto::http::server::{
    Config, ExchangeId, KeptCall, OpenedRelay, Protected, Server, SessionId, SharedSessionEvent,
    SnapshotError,
};
use mcp_proto::model::{ElicitParams, ElicitSchema, InputRequest, LoggingLevel};
use mcp_proto::server::{Call, CancelReason, Event, Identity, InputRequired};
use mcp_proto::{Change, Entropy, SendStatus, VersionSet};
use mcp_tests::harness::{HttpServerHarness, Rng, rounds};
use serde_json::{Value, json};

use super::{
    ECHO_PARAMS, answer_call, initialize_request, legacy_request, modern_request, with_capabilities,
};
use crate::protocol::common::{ms, secs, server};

mod in_ids;
mod relays;
mod repeats;

/// Several processes with one store, whose messages arrive at once unless they are held.
struct Cluster {
    processes: Vec<HttpServerHarness>,
    records: BTreeMap<String, (u64, Vec<u8>)>,
    /// Whether the store answers at all.
    store_is_up: bool,
    /// Number of calls of the store.
    loads: usize,
    writes: usize,
    relayed: usize,
    used: usize,
    /// The numbers of the processes.
    numbers: Vec<u8>,
    /// Streams that are open for another process: where, for whom.
    relays: Vec<(usize, ExchangeId, usize, ExchangeId)>,
    /// Calls of `echo` may run again.
    is_repeatable: bool,
    /// The messages of such calls, by session, and their owners.
    kept: BTreeMap<(String, KeptCall), (u32, Bytes)>,
    /// The requests that were cancelled, by session.
    cancelled: BTreeSet<(String, String)>,
    /// What the store has not answered yet, if it is slow.
    held: Option<Vec<(usize, SharedSessionEvent)>>,
    /// Processes that no other one hears.
    is_silent: BTreeSet<usize>,
}

const OK: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

impl Cluster {
    fn new(count: u8, http: impl Fn() -> Config) -> Self {
        let processes = (0..count).map(|n| Self::process(n, http())).collect();
        Self {
            processes,
            records: BTreeMap::new(),
            store_is_up: true,
            loads: 0,
            writes: 0,
            relayed: 0,
            used: 0,
            numbers: (0..count).collect(),
            relays: Vec::new(),
            is_repeatable: false,
            kept: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            held: None,
            is_silent: BTreeSet::new(),
        }
    }

    fn process(number: u8, http: Config) -> HttpServerHarness {
        let mut web = HttpServerHarness::new(with_capabilities(server(VersionSet::ALL)), Config::new());
        let config = Arc::new(with_capabilities(server(VersionSet::ALL)));
        web.server = Server::new(config, Arc::new(http), Entropy::new([number; 32], 0));
        web.server.shared_sessions().begin(number.into());
        web.has_other_processes = true;
        web
    }

    /// Ends a process without notice, and starts another one in its place.
    fn kill(&mut self, at: usize, number: u8) {
        let now = self.processes[at].now;
        self.processes[at] = Self::process(number, Config::new());
        self.processes[at].now = now;
        self.numbers[at] = number;
        self.relays.retain(|(of, _, to, _)| *of != at && *to != at);
        self.held.iter_mut().for_each(|held| held.retain(|(of, _)| *of != at));
        if self.is_repeatable {
            self.processes[at].server.shared_sessions().set_repeatable_tools(["echo".into()]);
        }
    }

    /// Passes events between the processes and the store until there are no more.
    fn settle(&mut self) {
        loop {
            while let Some((at, event)) = self.next() {
                self.serve(at, event);
                self.processes.iter_mut().for_each(HttpServerHarness::transmit_all);
            }
            if !self.relay() {
                break;
            }
        }
    }

    /// Passes on what streams have that are open for other processes. Returns whether there was anything.
    fn relay(&mut self) -> bool {
        let mut any = false;
        for (of, relay, at, exchange) in core::mem::take(&mut self.relays) {
            let from = &mut self.processes[of];
            let bytes = from.server.transmit(from.now, relay).to_vec();
            from.server.consume(relay, bytes.len());
            let is_last = from.server.is_finished(relay);
            if bytes.is_empty() && !is_last {
                self.relays.push((of, relay, at, exchange));
                continue;
            }
            any = true;
            let to = &mut self.processes[at];
            let goes_on = to.server.shared_sessions().relay(to.now, exchange, &bytes.into(), is_last);
            let from = &mut self.processes[of];
            if is_last || !goes_on {
                from.server.release(from.now, relay);
            } else {
                self.relays.push((of, relay, at, exchange));
            }
        }
        self.processes.iter_mut().for_each(HttpServerHarness::transmit_all);
        any
    }

    fn next(&mut self) -> Option<(usize, SharedSessionEvent)> {
        let mut processes = self.processes.iter_mut().enumerate();
        processes.find_map(|(at, web)| Some((at, web.poll_shared()?)))
    }

    fn serve(&mut self, at: usize, event: SharedSessionEvent) {
        let up = self.store_is_up;
        let now = self.processes[at].now;
        let web = &mut self.processes[at];
        match event {
            SharedSessionEvent::Load { exchange, .. } if !up => {
                web.server.shared_sessions().unavailable(now, exchange);
            }
            SharedSessionEvent::Load { exchange, id } => {
                self.loads += 1;
                match self.records.get(id.reveal()) {
                    Some((version, record)) => {
                        _ = web.server.shared_sessions().found(now, exchange, *version, record);
                    }
                    None => web.server.shared_sessions().not_found(now, exchange),
                }
            }
            SharedSessionEvent::StreamOpened { id, after } => {
                let mut waiting = Vec::new();
                self.others(at, |web, now| {
                    waiting.extend(web.server.shared_sessions().take_waiting(now, &id, after.as_deref()));
                });
                for message in waiting {
                    self.processes[at].server.shared_sessions().send(now, &id, message);
                }
            }
            SharedSessionEvent::Resume { exchange, id, process, after } => {
                let of = self.numbers.iter().position(|number| u32::from(*number) == process);
                let Some(of) = of.filter(|of| !self.is_silent.contains(of)) else {
                    // It has ended, and answers nothing.
                    return;
                };
                let other = &mut self.processes[of];
                match other.server.shared_sessions().open_relay(other.now, &id, &after) {
                    OpenedRelay::Open(relay) => {
                        self.relays.push((of, relay, at, exchange));
                        let to = &mut self.processes[at];
                        assert!(to.server.shared_sessions().relay(
                            to.now,
                            exchange,
                            &b"".as_slice().into(),
                            false
                        ));
                    }
                    OpenedRelay::EventIsGone => {
                        self.processes[at].server.shared_sessions().event_is_gone(now, exchange);
                    }
                    OpenedRelay::Unknown => {
                        self.processes[at].server.shared_sessions().call_is_lost(now, exchange);
                    }
                }
            }
            SharedSessionEvent::Changed { exchange, .. } if !up => {
                web.server.shared_sessions().not_stored(now, exchange);
            }
            SharedSessionEvent::Changed { exchange, id } => {
                self.writes += 1;
                let record = web.server.shared_sessions().save(&id).expect("it is here");
                let version = self.records.get(id.reveal()).map_or(0, |(version, _)| *version);
                assert!(record.replaces == version || record.replaces == 0);
                self.records.insert(id.reveal().into(), (version + 1, record.bytes));
                web.server.shared_sessions().stored(now, exchange, version + 1);
                self.others(at, |web, _| _ = web.server.shared_sessions().mark_stale(&id, version + 1));
            }
            SharedSessionEvent::Ended { exchange, id } => {
                self.records.remove(id.reveal());
                if let Some(exchange) = exchange {
                    web.server.shared_sessions().stored(now, exchange, 0);
                }
                self.others(at, |web, now| web.server.shared_sessions().forget(now, &id));
            }
            SharedSessionEvent::Relay { id, message } => {
                self.relayed += 1;
                self.others(at, |web, now| web.server.shared_sessions().receive(now, &id, &message));
            }
            SharedSessionEvent::Used { ids } => {
                assert!(!ids.is_empty() && ids.iter().all(|id| self.records.contains_key(id.reveal())));
                self.used += 1;
            }
            event => self.serve_kept(at, event),
        }
    }

    /// Answers as a store that has messages of calls.
    fn serve_kept(&mut self, at: usize, event: SharedSessionEvent) {
        if let Some(held) = &mut self.held {
            return held.push((at, event));
        }
        let own = u32::from(self.numbers[at]);
        let web = &mut self.processes[at];
        let now = web.now;
        let mut sessions = web.server.shared_sessions();
        match event {
            SharedSessionEvent::KeepCall { exchange, id, call, message } => {
                assert_eq!(call.process, own);
                let name = (id.reveal().into(), call);
                if self.store_is_up {
                    self.kept.insert(name.clone(), (own, message));
                }
                if !sessions.call_kept(now, exchange, self.store_is_up) {
                    self.kept.remove(&name);
                }
            }
            SharedSessionEvent::CallAnswered { exchange, id, call } => {
                let name = (id.reveal().into(), call);
                let is_taken_over = self.kept.get(&name).is_some_and(|(owner, _)| *owner != own);
                if !is_taken_over {
                    self.kept.remove(&name);
                }
                sessions.answer_call(now, exchange, is_taken_over);
            }
            SharedSessionEvent::CallCancelled { id, request } => {
                self.cancelled.insert((id.reveal().into(), request));
            }
            SharedSessionEvent::FindCall { exchange, id, call, asked } => {
                let name = (id.reveal().to_owned(), call);
                if self.cancelled.contains(&(name.0.clone(), name.1.request.clone())) {
                    self.kept.remove(&name);
                }
                let Some((owner, message)) = self.kept.get_mut(&name) else {
                    _ = sessions.repeat_call(now, exchange, None);
                    return;
                };
                if *owner != asked && *owner != own {
                    return sessions.ask_owner(now, exchange, *owner);
                }
                let previous = core::mem::replace(owner, own);
                if !sessions.repeat_call(now, exchange, Some(message)) {
                    *owner = previous;
                }
            }
            other => panic!("{other:?}"),
        }
    }

    /// Lets the store answer what it has not answered.
    fn answer_held(&mut self) {
        for (at, event) in self.held.take().into_iter().flatten() {
            self.serve_kept(at, event);
        }
        self.processes.iter_mut().for_each(HttpServerHarness::transmit_all);
        self.settle();
    }

    fn others(&mut self, at: usize, mut f: impl FnMut(&mut HttpServerHarness, mcp_proto::Instant)) {
        for (_, web) in self.processes.iter_mut().enumerate().filter(|(other, _)| *other != at) {
            let now = web.now;
            f(web, now);
        }
    }

    fn post(&mut self, at: usize, id: &str, body: &str) -> ExchangeId {
        let x = self.processes[at].post(&[("Mcp-Session-Id", id)], body);
        self.settle();
        x
    }

    fn get(&mut self, at: usize, id: &str) -> ExchangeId {
        let x = self.processes[at].send_request("GET", "/mcp", &[("Mcp-Session-Id", id)], "");
        self.settle();
        x
    }

    fn delete(&mut self, at: usize, id: &str) -> ExchangeId {
        let x = self.processes[at].send_request("DELETE", "/mcp", &[("Mcp-Session-Id", id)], "");
        self.settle();
        x
    }

    /// Opens a session, whose handshake ends at another process than it began at.
    fn open(&mut self, at: usize, version: &str) -> String {
        let x = self.processes[at].post(&[], &initialize_request(version));
        assert_eq!(self.processes[at].response(x).status, 0, "nothing is answered that is not stored");
        self.settle();
        let id = self.processes[at].response(x).field("mcp-session-id").expect("a session").to_owned();
        let next = (at + 1) % self.processes.len();
        let x = self.post(next, &id, OK);
        assert_eq!(self.processes[next].response(x).status, 202);
        id
    }

    fn drain(&mut self) {
        self.processes.iter_mut().for_each(|web| while web.poll_event().is_some() {});
    }
}

/// Returns the next call, after other events.
fn call(web: &mut HttpServerHarness, other: &mut dyn FnMut(Event)) -> Call {
    loop {
        match web.poll_event().expect("a call") {
            Event::Call(call) => break call,
            event => other(event),
        }
    }
}

fn methods(messages: &[Value]) -> Vec<String> {
    messages.iter().filter_map(|message| Some(message["method"].as_str()?.to_owned())).collect()
}

// covers: HTTP-064, HTTP-071, LIFE-006, LOG-006, RES-010
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn each_process_serves_each_session() {
    for version in ["2025-06-18", "2025-11-25"] {
        let mut all = Cluster::new(3, Config::new);
        let id = all.open(0, version);
        let mut channels = [None; 3];
        for at in [1, 2, 0, 2, 1, 0] {
            let x = all.post(at, &id, &legacy_request(at as u32 + 10, "tools/call", ECHO_PARAMS));
            let web = &mut all.processes[at];
            let call = call(web, &mut |event| match event {
                Event::SessionOpened { channel, .. } => channels[at] = Some(channel),
                other => panic!("{other:?}"),
            });
            assert_eq!(call.version().as_str(), version);
            answer_call(web, &call);
            assert_eq!(web.response(x).message()["result"]["content"][0]["text"], "done");
        }
        // A process that has the session does not ask the store.
        let (loads, writes) = (all.loads, all.writes);
        for at in 0..3 {
            all.post(at, &id, &legacy_request(99, "ping", ""));
        }
        assert_eq!((all.loads, all.writes, all.relayed), (loads, writes, 0));

        // What a client sets at one process holds at all.
        let x = all.post(0, &id, &legacy_request(20, "logging/setLevel", r#""level":"error""#));
        assert_eq!(all.processes[0].response(x).message()["result"], json!({}));
        all.post(1, &id, &legacy_request(21, "resources/subscribe", r#""uri":"tide:1""#));
        all.post(2, &id, &legacy_request(22, "ping", ""));
        let stream = all.get(2, &id);
        let web = &mut all.processes[2];
        let messages = web.response(stream).messages();
        let [list, updated] = ["notifications/tools/list_changed", "notifications/resources/updated"];
        assert_eq!(methods(&messages), [list, updated], "all that may have changed");
        web.server.engine().publish(web.now, &Change::Resource("tide:1".into()));
        web.transmit_all();
        assert_eq!(methods(&web.response(stream).messages()[2..]), [updated]);
        let (now, channel) = (web.now, channels[2].expect("it is here"));
        let log = |web: &mut HttpServerHarness, level| {
            web.server.engine().log_session(now, channel, level, None, "x")
        };
        assert_eq!(log(web, &LoggingLevel::Info), Ok(SendStatus::Dropped));
        assert_eq!(log(web, &LoggingLevel::Error), Ok(SendStatus::Queued));

        // The end of it is the end at all.
        let x = all.delete(1, &id);
        assert_eq!(all.processes[1].response(x).status, 204);
        for at in 0..3 {
            let x = all.post(at, &id, &legacy_request(30, "ping", ""));
            assert_eq!(all.processes[at].response(x).status, 404);
        }
        assert!(all.records.is_empty());
    }
}

/// Begins a call that asks its user, and returns it with the id of the question.
fn ask(all: &mut Cluster, at: usize, id: &str, request: u32) -> (ExchangeId, Value) {
    let x = all.post(at, id, &legacy_request(request, "tools/call", ECHO_PARAMS));
    let web = &mut all.processes[at];
    let call = call(web, &mut |_| {});
    let mut input = InputRequired::new();
    let form = ElicitParams::form("Sure?", ElicitSchema::default());
    input.request_input(&call, "sure", InputRequest::Elicit(form)).expect_err("not yet");
    let now = web.now;
    web.server.engine().require_input(now, &call, &input).expect("open");
    web.transmit_all();
    let messages = web.response(x).messages();
    let question = messages.iter().find(|m| m["method"] == "elicitation/create").expect("a question");
    (x, question["id"].clone())
}

// covers: BASE-005, CANC-010, ELIC-001, HTTP-055
#[test]
fn what_a_client_sends_reaches_the_process_that_waits_for_it() {
    let mut all = Cluster::new(3, Config::new);
    let id = all.open(0, "2025-11-25");
    // Two processes ask at the same time, and a third one gets the answers.
    let (first, second) = (ask(&mut all, 0, &id, 5), ask(&mut all, 1, &id, 6));
    assert_ne!(first.1, second.1);
    for (n, question) in [(0, &first.1), (1, &second.1)] {
        let answer = json!({"jsonrpc": "2.0", "id": question, "result": {"action": "decline"}});
        let x = all.post(2, &id, &answer.to_string());
        assert_eq!(all.processes[2].response(x).status, 202);
        // The call is delivered again where it was asked, and nowhere else.
        let again = call(&mut all.processes[n], &mut |event| panic!("{event:?}"));
        answer_call(&mut all.processes[n], &again);
    }
    for (at, x) in [(0, first.0), (1, second.0)] {
        let messages = all.processes[at].response(x).messages();
        assert_eq!(messages.last().expect("an answer")["result"]["content"][0]["text"], "done");
    }
    all.drain();
    // A cancellation.
    let x = all.post(0, &id, &legacy_request(7, "tools/call", ECHO_PARAMS));
    let running = call(&mut all.processes[0], &mut |_| {});
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    let y = all.post(1, &id, cancel);
    assert_eq!(all.processes[1].response(y).status, 202);
    let Some(Event::Cancelled { call, reason: CancelReason::Client(None) }) = all.processes[0].poll_event()
    else {
        panic!("not cancelled")
    };
    assert_eq!(call, running.id());
    assert!(all.processes[1].poll_event().is_none() && all.processes[2].poll_event().is_none());
    all.processes[0].transmit_all();
    assert!(all.processes[0].response(x).is_complete);
    // A notification that no process waits for in particular reaches all that have the session.
    all.post(2, &id, r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    for web in &mut all.processes {
        let event = web.poll_event();
        assert!(matches!(event, Some(Event::Notification(_))), "{event:?}");
        assert!(web.poll_event().is_none());
    }
    // An answer to nothing, and requests from another process, do nothing.
    for body in [r#"{"jsonrpc":"2.0","id":77,"result":{}}"#, r#"{"jsonrpc":"2.0","result":{}}"#] {
        all.post(1, &id, body);
    }
    let shared = shared_id(&mut all.processes[0], &id);
    assert!(!format!("{shared:?}").contains(&id[5..]), "an id is a secret");
    for message in [&legacy_request(90, "tools/call", ECHO_PARAMS), "[", "{}", "", "[1]"] {
        let web = &mut all.processes[0];
        web.server.shared_sessions().receive(web.now, &shared, &message.as_bytes().to_vec().into());
    }
    assert!(all.processes.iter_mut().all(|web| !matches!(web.poll_event(), Some(Event::Call(_)))));
}

// covers: BASE-005
#[test]
fn each_process_asks_with_ids_of_its_own() {
    let mut all = Cluster::new(3, Config::new);
    let id = all.open(0, "2025-11-25");
    let asked: Vec<Value> = (0..3).map(|at| ask(&mut all, at, &id, 5 + at as u32).1).collect();
    assert!(asked[0] != asked[1] && asked[1] != asked[2] && asked[2] != asked[0], "{asked:?}");
    // Progress of a question reaches the process that asked it, and no other one.
    for (at, token) in asked.iter().enumerate() {
        all.drain();
        let params = json!({"progressToken": token, "progress": 1});
        let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        all.post((at + 1) % 3, &id, &progress.to_string());
        for (other, web) in all.processes.iter_mut().enumerate() {
            // It had not asked for progress.
            let is_there = matches!(web.poll_event(), Some(Event::Diagnostic { .. }));
            assert_eq!(is_there, other == at, "{at} {other}");
        }
    }
}

// covers: CANC-010, BATCH-004
#[test]
fn cancellation_in_a_batch_reaches_the_process_of_the_call() {
    let mut all = Cluster::new(2, Config::new);
    let id = all.open(0, "2025-03-26");
    all.post(0, &id, &legacy_request(7, "tools/call", ECHO_PARAMS));
    let running = call(&mut all.processes[0], &mut |_| {});
    let cancel = r#"[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}]"#;
    let x = all.post(1, &id, cancel);
    assert_eq!(all.processes[1].response(x).status, 202);
    let event = all.processes[0].poll_event();
    assert!(matches!(&event, Some(Event::Cancelled { call, .. }) if *call == running.id()), "{event:?}");
}

// covers: HTTP-056
#[test]
fn message_that_waits_at_one_process_is_sent_where_the_stream_is() {
    let mut all = Cluster::new(2, Config::new);
    let id = all.open(0, "2025-11-25");
    all.drain();
    let x = all.post(0, &id, &legacy_request(5, "ping", ""));
    assert_eq!(all.processes[0].response(x).status, 200);
    // The stream of the first process breaks before it has taken the messages.
    let stream = all.get(0, &id);
    let web = &mut all.processes[0];
    web.auto_transmits = false;
    let now = web.now;
    let shared = {
        web.server.engine().publish(now, &Change::Tools);
        let message = br#"{"jsonrpc":"2.0","method":"notifications/x"}"#.as_slice();
        let shared = shared_id(web, &id);
        assert!(web.server.shared_sessions().send(now, &shared, message.into()));
        shared
    };
    web.server.handle_gone(now, stream);
    web.auto_transmits = true;
    let stream = all.get(1, &id);
    let sent = methods(&all.processes[1].response(stream).messages());
    assert_eq!(sent, ["notifications/tools/list_changed", "notifications/x"]);
    assert!(all.processes[0].server.shared_sessions().take_waiting(now, &shared, None).is_empty());
    // What waits is bounded.
    all.processes[1].close_exchange(stream);
    let web = &mut all.processes[1];
    let long = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, "x".repeat(100_000));
    let taken = (0..1_000).take_while(|_| {
        web.server.shared_sessions().send(web.now, &shared, long.clone().into_bytes().into())
    });
    assert!(taken.count() < 100);
}

/// Returns the id of a session as events have it.
fn shared_id(web: &mut HttpServerHarness, id: &str) -> SessionId {
    let x = web.send_request("GET", "/mcp", &[("Mcp-Session-Id", id)], "");
    let Some(SharedSessionEvent::Load { id, .. }) = web.poll_shared() else { panic!("a lookup") };
    web.close_exchange(x);
    id
}

// covers: HTTP-064
#[test]
fn store_that_is_down_refuses_what_needs_it_and_nothing_else() {
    let mut all = Cluster::new(2, Config::new);
    let id = all.open(0, "2025-11-25");
    all.post(0, &id, &legacy_request(4, "ping", ""));
    all.drain();
    all.store_is_up = false;
    // A new session cannot begin.
    let x = all.processes[0].post(&[], &initialize_request("2025-11-25"));
    all.settle();
    let response = all.processes[0].response(x);
    assert_eq!((response.status, response.field("mcp-session-id")), (503, None));
    assert_eq!(all.processes[0].server.session_count(), 1);
    // A change is not acknowledged.
    let x = all.post(0, &id, &legacy_request(5, "resources/subscribe", r#""uri":"tide:1""#));
    let response = all.processes[0].response(x);
    assert_eq!((response.status, response.message()["error"]["code"].as_i64()), (503, Some(-32603)));
    // A call goes on, so do a modern request, and a stream.
    let x = all.post(0, &id, &legacy_request(6, "tools/call", ECHO_PARAMS));
    let running = call(&mut all.processes[0], &mut |_| {});
    answer_call(&mut all.processes[0], &running);
    assert_eq!(all.processes[0].response(x).message()["id"], 6);
    let fields = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "server/discover")];
    let fields = [fields[0], fields[1], ("Mcp-Session-Id", &*id)];
    let x = all.processes[0].post(&fields, &modern_request(1, "server/discover", ""));
    assert_eq!(all.processes[0].response(x).status, 200);
    let x = all.get(0, &id);
    assert!(all.processes[0].response(x).is_event_stream());
    // A process that does not have the session cannot say whether it is over.
    all.kill(1, 9);
    for x in [all.post(1, &id, &legacy_request(7, "ping", "")), all.get(1, &id), all.delete(1, &id)] {
        assert_eq!(all.processes[1].response(x).status, 503);
    }
    let x = all.delete(0, &id);
    assert_eq!(all.processes[0].response(x).status, 204, "the store is asked to remove it");
    all.store_is_up = true;
    // What was refused succeeds when it is sent again.
    let id = all.open(0, "2025-11-25");
    let x = all.post(1, &id, &legacy_request(5, "resources/subscribe", r#""uri":"tide:1""#));
    assert_eq!(all.processes[1].response(x).message()["result"], json!({}));
}

#[test]
fn store_that_never_answers_is_waited_for_until_the_time_limit() {
    let config = || Config::new().store_timeout(secs(2));
    let mut all = Cluster::new(2, config);
    let id = all.open(0, "2025-11-25");
    all.kill(1, 9);
    let web = &mut all.processes[1];
    let fields = [("Mcp-Session-Id", &*id)];
    let waiting = [
        web.post(&fields, &legacy_request(2, "ping", "")),
        web.send_request("GET", "/mcp", &fields, ""),
        web.send_request("DELETE", "/mcp", &fields, ""),
        web.post(&[], &initialize_request("2025-11-25")),
    ];
    web.advance(secs(1));
    assert!(waiting.iter().all(|x| web.response(*x).status == 0));
    web.advance(secs(5));
    for x in waiting {
        assert_eq!((web.response(x).status, web.response(x).is_complete), (503, true));
    }
    assert_eq!(web.server.session_count(), 0);
    // Late answers have no effect.
    let record = all.records[&id].1.clone();
    let web = &mut all.processes[1];
    for x in waiting {
        assert_eq!(web.server.shared_sessions().found(web.now, x, 1, &record), Ok(()));
        web.server.shared_sessions().not_found(web.now, x);
        web.server.shared_sessions().unavailable(web.now, x);
        web.server.shared_sessions().stored(web.now, x, 1);
        web.server.shared_sessions().not_stored(web.now, x);
    }
    assert_eq!((web.server.session_count(), web.server.exchange_count()), (0, 0));
    // A client that goes away while it waits leaves nothing.
    let x = web.post(&fields, &legacy_request(2, "ping", ""));
    web.close_exchange(x);
    assert_eq!(web.server.shared_sessions().found(web.now, x, 1, &record), Ok(()));
    let x = web.post(&[], &initialize_request("2025-11-25"));
    web.close_exchange(x);
    web.server.shared_sessions().stored(web.now, x, 1);
    web.advance(secs(5));
    assert_eq!(web.server.exchange_count(), 0);
}

// covers: SEC-005
#[test]
fn record_that_is_not_that_of_the_session_is_refused_and_its_client_begins_anew() {
    let mut all = Cluster::new(1, Config::new);
    let (id, other) = (all.open(0, "2025-11-25"), all.open(0, "2025-06-18"));
    let [own, foreign] = [&id, &other].map(|id| all.records[id].1.clone());
    let mut newer = own.clone();
    newer[0] = 9;
    let bad: [(&[u8], SnapshotError); 5] = [
        (b"", SnapshotError::Malformed),
        (b"garbage", SnapshotError::UnknownFormat(b'g')),
        (&newer, SnapshotError::UnknownFormat(9)),
        (&own[..own.len() - 1], SnapshotError::Malformed),
        (&foreign, SnapshotError::OtherSession),
    ];
    for (record, expected) in bad {
        for has_session in [false, true] {
            let mut web = Cluster::process(7, Config::new());
            if has_session {
                web.server.snapshots().restore(web.now, &own).expect("a snapshot");
                web.server.shared_sessions().mark_all_stale();
            }
            let x = web.post(&[("Mcp-Session-Id", &id)], &legacy_request(2, "ping", ""));
            let Some(SharedSessionEvent::Load { exchange, .. }) = web.poll_shared() else { panic!() };
            assert_eq!(web.server.shared_sessions().found(web.now, exchange, 1, record), Err(expected));
            web.transmit_all();
            assert_eq!(web.response(x).status, 404);
            assert_eq!(web.server.session_count(), 0);
        }
    }
    // A record with the id and another principal.
    let http = || Config::new().protected(protected());
    let mut alice = Cluster::new(1, http);
    let web = &mut alice.processes[0];
    web.server.set_validator(|request| Some(Ok(Arc::new(Identity::new(request.token.reveal())))));
    let x = web.post(&[("Authorization", "Bearer alice")], &initialize_request("2025-06-18"));
    alice.settle();
    let id = alice.processes[0].response(x).field("mcp-session-id").expect("a session").to_owned();
    let record = alice.records[&id].1.clone();
    let mut web = Cluster::process(7, http());
    web.server.set_validator(|request| Some(Ok(Arc::new(Identity::new(request.token.reveal())))));
    for (token, status) in [("eve", 404), ("alice", 200), ("eve", 404)] {
        let token = format!("Bearer {token}");
        let fields = [("Mcp-Session-Id", &*id), ("Authorization", &token)];
        let x = web.post(&fields, &legacy_request(2, "ping", ""));
        while let Some(event) = web.poll_shared() {
            if let SharedSessionEvent::Load { exchange, .. } = event {
                _ = web.server.shared_sessions().found(web.now, exchange, 1, &record);
            }
        }
        web.transmit_all();
        assert_eq!(web.response(x).status, status, "{token}");
    }
}

fn protected() -> Protected {
    Protected::new("http://localhost:8080/mcp", "https://login.example").expect("valid")
}

/// Saves a session as a store with versions does. Returns whether there was a conflict.
fn swap(all: &mut Cluster, at: usize, exchange: ExchangeId, id: &SessionId) -> bool {
    let web = &mut all.processes[at];
    let (version, stored) = all.records.get_mut(id.reveal()).expect("stored");
    let mut record = web.server.shared_sessions().save(id).expect("it is here");
    let conflicts = record.replaces != *version;
    if conflicts {
        web.server.shared_sessions().merge(web.now, id, *version, stored).expect("the record");
        record = web.server.shared_sessions().save(id).expect("it is here");
    }
    assert_eq!(record.replaces, *version);
    *version += 1;
    *stored = record.bytes;
    web.server.shared_sessions().stored(web.now, exchange, *version);
    conflicts
}

#[test]
fn changes_at_two_processes_at_the_same_time_are_both_kept() {
    let mut all = Cluster::new(2, Config::new);
    let id = all.open(0, "2025-11-25");
    all.post(0, &id, &legacy_request(2, "resources/subscribe", r#""uri":"a:1""#));
    all.post(1, &id, &legacy_request(3, "resources/subscribe", r#""uri":"b:1""#));
    all.post(0, &id, &legacy_request(4, "ping", ""));
    let fields = [("Mcp-Session-Id", &*id)];
    let mut begun = Vec::new();
    for (at, method, params) in [
        (0, "resources/subscribe", r#""uri":"c:1""#),
        (0, "resources/unsubscribe", r#""uri":"b:1""#),
        (1, "logging/setLevel", r#""level":"error""#),
        (1, "resources/subscribe", r#""uri":"d:1""#),
        (1, "resources/unsubscribe", r#""uri":"a:1""#),
    ] {
        let x = all.processes[at].post(&fields, &legacy_request(20 + begun.len() as u32, method, params));
        begun.push((at, x));
    }
    let mut conflicts = 0;
    while let Some((at, event)) = all.next() {
        let SharedSessionEvent::Changed { exchange, id } = event else { panic!("{event:?}") };
        conflicts += usize::from(swap(&mut all, at, exchange, &id));
    }
    assert_eq!(conflicts, 1, "only the first one of the second process");
    for (at, x) in begun {
        all.processes[at].transmit_all();
        assert_eq!(all.processes[at].response(x).message()["result"], json!({}));
    }
    let (_, record) = &all.records[&id];
    let text = String::from_utf8_lossy(record);
    for (uri, is_there) in [("a:1", false), ("b:1", false), ("c:1", true), ("d:1", true)] {
        assert_eq!(text.contains(uri), is_there, "{uri} in {text}");
    }
    // The level is in it: a third process knows it.
    let mut third = Cluster::process(5, Config::new());
    third.server.snapshots().restore(third.now, record).expect("a snapshot");
    let Some(Event::SessionOpened { channel, .. }) = third.poll_event() else { panic!() };
    #[expect(deprecated, reason = "tested until its removal")]
    let sent = third.server.engine().log_session(third.now, channel, &LoggingLevel::Info, None, "x");
    assert_eq!(sent, Ok(SendStatus::Dropped));
}

// covers: HTTP-070
#[test]
fn session_that_is_in_use_is_reported_and_one_that_is_idle_is_dropped_here_alone() {
    let mut all = Cluster::new(2, || Config::new().session_idle_timeout(secs(160)));
    let id = all.open(0, "2025-11-25");
    for n in 0..40 {
        all.processes.iter_mut().for_each(|web| web.advance(secs(10)));
        all.post(0, &id, &legacy_request(50 + n, "ping", ""));
    }
    assert!((20..=45).contains(&all.used), "{}", all.used);
    // The other process has dropped its copy, and has not ended the session.
    assert_eq!((all.processes[0].server.session_count(), all.processes[1].server.session_count()), (1, 0));
    assert!(all.records.contains_key(&id));
    let x = all.post(1, &id, &legacy_request(3, "ping", ""));
    assert_eq!(all.processes[1].response(x).status, 200);
}

// covers: HTTP-070
#[test]
fn session_whose_call_runs_is_in_use() {
    let mut all = Cluster::new(1, || Config::new().session_idle_timeout(secs(160)));
    let id = all.open(0, "2025-11-25");
    all.post(0, &id, &legacy_request(5, "tools/call", ECHO_PARAMS));
    let running = call(&mut all.processes[0], &mut |_| {});
    for _ in 0..40 {
        all.processes[0].advance(secs(10));
        all.settle();
    }
    assert!((20..=45).contains(&all.used), "{}", all.used);
    answer_call(&mut all.processes[0], &running);
    all.used = 0;
    for _ in 0..40 {
        all.processes[0].advance(secs(10));
        all.settle();
    }
    assert!(all.used < 5, "{}", all.used);
    assert_eq!(all.processes[0].server.session_count(), 0);
}

// covers: HTTP-071
#[test]
fn store_is_asked_for_ids_alone_that_a_session_can_have() {
    let mut all = Cluster::new(1, Config::new);
    let web = &mut all.processes[0];
    web.server.set_shard(0, 2);
    // The last one is of another shard.
    for id in
        ["x", "AAAAAAAAAAAAAAAAAAAAAAAAAA!A", "AAAAAAAAAAAAAAAAAAAAAAAAAAA", "AAAAAQAAAAAAAAAAAAAAAAAAAAAA"]
    {
        let x = web.post(&[("Mcp-Session-Id", id)], &legacy_request(2, "ping", ""));
        assert!(web.poll_shared().is_none());
        assert_eq!(web.response(x).status, 404, "{id}");
    }
    web.post(&[("Mcp-Session-Id", "AAAAAAAAAAAAAAAAAAAAAAAAAAAA")], &legacy_request(2, "ping", ""));
    assert!(matches!(web.poll_shared(), Some(SharedSessionEvent::Load { .. })));
}

/// Posts a subscription, or its end, whose change the store is to keep.
fn change(all: &mut Cluster, at: usize, id: &str, request: u32, what: &str) -> ExchangeId {
    let (method, uri) = match what.strip_prefix('-') {
        Some(uri) => ("resources/unsubscribe", uri),
        None => ("resources/subscribe", what),
    };
    let body = legacy_request(request, method, &format!(r#""uri":"{uri}""#));
    all.processes[at].post(&[("Mcp-Session-Id", id)], &body)
}

/// Takes the next change of a process.
fn changed(all: &mut Cluster, at: usize) -> (ExchangeId, SessionId) {
    match all.processes[at].poll_shared() {
        Some(SharedSessionEvent::Changed { exchange, id }) => (exchange, id),
        other => panic!("{other:?}"),
    }
}

fn assert_stored(all: &Cluster, id: &str, uris: &[(&str, bool)]) {
    let text = String::from_utf8_lossy(&all.records[id].1).into_owned();
    for (uri, is_there) in uris {
        assert_eq!(text.contains(uri), *is_there, "{uri} in {text}");
    }
}

#[test]
fn change_that_was_stored_is_no_change_any_more() {
    let mut all = Cluster::new(2, Config::new);
    let id = all.open(0, "2025-11-25");
    all.post(1, &id, &legacy_request(2, "ping", ""));
    // One alone: what the other process takes back later stays taken back.
    change(&mut all, 1, &id, 3, "a:1");
    all.settle();
    change(&mut all, 0, &id, 4, "-a:1");
    all.settle();
    change(&mut all, 1, &id, 5, "b:1");
    all.settle();
    assert_stored(&all, &id, &[("a:1", false), ("b:1", true)]);
    // Two at a time, of which the first one is stored when the other process takes it back.
    let waiting = ["c:1", "d:1"].map(|uri| change(&mut all, 1, &id, 6 + u32::from(uri == "d:1"), uri));
    let [first, second] = [(); 2].map(|()| changed(&mut all, 1));
    assert!(!swap(&mut all, 1, first.0, &first.1));
    all.processes[1].transmit_all();
    assert_eq!(waiting.map(|x| all.processes[1].response(x).status), [200, 0]);
    let (version, _) = all.records[&id];
    all.processes[0].server.shared_sessions().mark_stale(&first.1, version);
    change(&mut all, 0, &id, 8, "-c:1");
    let load = all.processes[0].poll_shared().expect("a load");
    all.serve(0, load);
    let taken_back = changed(&mut all, 0);
    assert!(!swap(&mut all, 0, taken_back.0, &taken_back.1));
    assert!(swap(&mut all, 1, second.0, &second.1), "it conflicts");
    assert_stored(&all, &id, &[("a:1", false), ("b:1", true), ("c:1", false), ("d:1", true)]);
}

#[test]
fn first_change_of_a_process_is_none_any_more_once_it_is_stored() {
    let mut all = Cluster::new(3, Config::new);
    let id = all.open(0, "2025-11-25");
    // This process has changed nothing before: the handshake was at the others.
    change(&mut all, 2, &id, 3, "a:1");
    all.settle();
    change(&mut all, 0, &id, 4, "-a:1");
    all.settle();
    change(&mut all, 2, &id, 5, "b:1");
    all.settle();
    assert_stored(&all, &id, &[("a:1", false), ("b:1", true)]);
}

#[test]
fn change_that_is_stored_after_its_client_is_gone_leaves_those_of_other_sessions_alone() {
    let mut all = Cluster::new(2, Config::new);
    let ids = [(); 2].map(|()| all.open(0, "2025-11-25"));
    for (at, id) in [(0, &ids[0]), (0, &ids[1]), (1, &ids[0]), (1, &ids[1])] {
        all.post(at, id, &legacy_request(2, "ping", ""));
    }
    change(&mut all, 1, &ids[0], 3, "a:1");
    let first = changed(&mut all, 1);
    // It is written down, and the store has not answered.
    assert!(all.processes[1].server.shared_sessions().save(&first.1).is_some());
    let gone = change(&mut all, 1, &ids[1], 3, "b:1");
    let other = changed(&mut all, 1);
    all.processes[1].close_exchange(gone);
    assert!(!swap(&mut all, 1, other.0, &other.1));
    // Another process was faster.
    change(&mut all, 0, &ids[0], 4, "c:1");
    let faster = changed(&mut all, 0);
    assert!(!swap(&mut all, 0, faster.0, &faster.1));
    assert!(swap(&mut all, 1, first.0, &first.1), "it conflicts");
    assert_stored(&all, &ids[0], &[("a:1", true), ("c:1", true)]);
    assert_stored(&all, &ids[1], &[("b:1", true)]);
}

// covers: BATCH-001
#[test]
fn call_beside_a_change_runs_on_when_the_time_for_the_store_is_over() {
    let mut all = Cluster::new(1, || Config::new().store_timeout(secs(1)));
    let id = all.open(0, "2025-03-26");
    // The timer of another request, which waits all the time, comes before that of the change.
    let web = &mut all.processes[0];
    let other = [("Mcp-Session-Id", "AAAAAAAAAAAAAAAAAAAAAAAAAAAA")];
    let waiting = web.post(&other, &legacy_request(2, "ping", ""));
    assert!(matches!(web.poll_shared(), Some(SharedSessionEvent::Load { .. })));
    web.now = web.now + ms(100);
    let batch = format!(
        "[{},{}]",
        legacy_request(5, "resources/subscribe", r#""uri":"a:1""#),
        legacy_request(6, "tools/call", ECHO_PARAMS)
    );
    let x = web.post(&[("Mcp-Session-Id", &id)], &batch);
    let change = web.poll_shared().expect("a change");
    all.serve(0, change);
    let web = &mut all.processes[0];
    let running = call(web, &mut |_| {});
    web.now = web.now + secs(2);
    web.server.handle_timeout(web.now);
    web.transmit_all();
    assert_eq!((web.response(waiting).status, web.response(x).status), (503, 0));
    answer_call(web, &running);
    assert_eq!(web.response(x).status, 200);
    assert!(web.response(x).body.contains("done"));
}

#[test]
fn change_that_was_not_stored_is_one_still() {
    let mut all = Cluster::new(2, Config::new);
    let id = all.open(0, "2025-11-25");
    all.post(1, &id, &legacy_request(2, "ping", ""));
    all.post(0, &id, &legacy_request(2, "ping", ""));
    let x = change(&mut all, 1, &id, 3, "a:1");
    change(&mut all, 1, &id, 4, "b:1");
    let [first, second] = [(); 2].map(|()| changed(&mut all, 1));
    // It was written down, and the store has failed.
    let web = &mut all.processes[1];
    assert!(web.server.shared_sessions().save(&first.1).is_some());
    web.server.shared_sessions().not_stored(web.now, first.0);
    web.transmit_all();
    assert_eq!(web.response(x).status, 503);
    change(&mut all, 0, &id, 5, "c:1");
    let other = changed(&mut all, 0);
    assert!(!swap(&mut all, 0, other.0, &other.1));
    assert!(swap(&mut all, 1, second.0, &second.1), "it conflicts");
    assert_stored(&all, &id, &[("b:1", true), ("c:1", true)]);
}

// covers: BATCH-001
#[test]
fn batch_that_changes_a_session_is_answered_once_that_is_stored() {
    let mut all = Cluster::new(1, Config::new);
    let id = all.open(0, "2025-03-26");
    for (member, is_change) in
        [("\"ping\",\"params\":{}", false), ("\"resources/subscribe\",\"params\":{\"uri\":\"a:1\"}", true)]
    {
        let batch = format!("[{{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":{member}}}]");
        let x = all.processes[0].post(&[("Mcp-Session-Id", &id)], &batch);
        assert_eq!(all.processes[0].response(x).status, if is_change { 0 } else { 200 }, "{member}");
        all.settle();
        assert_eq!(all.processes[0].response(x).status, 200, "{member}");
    }
    assert_stored(&all, &id, &[("a:1", true)]);
}

#[test]
fn changed_session_is_loaded_at_once_where_it_has_a_stream() {
    let mut all = Cluster::new(1, Config::new);
    let id = all.open(0, "2025-11-25");
    let shared = shared_id(&mut all.processes[0], &id);
    let (version, _) = all.records[&id];
    let mut is_due = |has_stream: bool| {
        let stream = has_stream.then(|| all.get(0, &id));
        let mut sessions = all.processes[0].server.shared_sessions();
        let due = [version - 1, version, version + 1].map(|newest| sessions.mark_stale(&shared, newest));
        all.get(0, &id);
        stream.into_iter().for_each(|x| all.processes[0].close_exchange(x));
        due
    };
    assert_eq!(is_due(true), [false, false, true]);
    let web = &mut all.processes[0];
    web.server.shared_sessions().end_streams(web.now);
    web.transmit_all();
    assert!(!web.server.shared_sessions().mark_stale(&shared, version + 2), "no stream");
}

// covers: SUB-013, SSE-018
#[test]
fn process_that_ends_sends_its_streams_elsewhere_and_answers_its_calls() {
    let mut all = Cluster::new(1, Config::new);
    let id = all.open(0, "2025-11-25");
    let stream = all.get(0, &id);
    let x = all.post(0, &id, &legacy_request(5, "tools/call", ECHO_PARAMS));
    let running = call(&mut all.processes[0], &mut |_| {});
    let web = &mut all.processes[0];
    let fields = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "subscriptions/listen")];
    let body = modern_request(1, "subscriptions/listen", "\"notifications\":{\"toolsListChanged\":true}");
    let listen = web.post(&fields, &body);
    assert!(!web.response(stream).is_complete && !web.response(listen).is_complete);
    web.server.shared_sessions().end_streams(web.now);
    web.transmit_all();
    assert!(web.response(stream).is_complete && web.response(listen).is_complete);
    let last =
        web.response(stream).body.split("\n\n").filter(|event| !event.is_empty()).last().map(str::to_owned);
    assert_eq!(last.as_deref(), Some("retry: 1000\ndata: "));
    assert_eq!(web.response(listen).messages().last().map(|m| m["id"].clone()), Some(1.into()));
    answer_call(web, &running);
    assert_eq!(web.response(x).message()["id"], 5);
}

#[test]
fn record_is_the_same_whichever_process_writes_it() {
    let mut all = Cluster::new(2, Config::new);
    let id = all.open(0, "2025-11-25");
    // Each has asked another number of questions.
    (0..3).for_each(|request| _ = ask(&mut all, 0, &id, 5 + request));
    ask(&mut all, 1, &id, 9);
    let shared = shared_id(&mut all.processes[0], &id);
    let [first, second] = [0, 1].map(|at| {
        let record = all.processes[at].server.shared_sessions().save(&shared).expect("it is here");
        let shown = format!("{record:?} {shared:?}");
        assert!(
            shown.contains("SessionRecord") && shown.contains("SessionId") && !shown.contains(&id[5..]),
            "{shown}"
        );
        record.bytes
    });
    assert_eq!(first, second);
}

// covers: SEC-005
#[test]
fn record_of_another_revision_or_principal_changes_nothing() {
    let mut all = Cluster::new(1, Config::new);
    let id = all.open(0, "2025-11-25");
    let shared = shared_id(&mut all.processes[0], &id);
    let (version, record) = all.records[&id].clone();
    let text = |from: &[u8], to: &[u8]| {
        let at = record.windows(from.len()).position(|window| window == from).expect("it is in the record");
        [&record[..at], to, &record[at + from.len()..]].concat()
    };
    // The flag of a principal is the second bit behind the id; its name follows the revision, with its length.
    let mut with_principal = text(b"2025-11-25", b"2025-11-25\x05alice");
    with_principal[1 + id.len()] |= 2;
    for other in [text(b"2025-11-25", b"2025-06-18"), with_principal] {
        let web = &mut all.processes[0];
        let merged = web.server.shared_sessions().merge(web.now, &shared, version + 1, &other);
        assert_eq!(merged, Err(SnapshotError::OtherSession));
        assert_eq!(web.server.shared_sessions().save(&shared).map(|record| record.replaces), Some(version));
    }
    let web = &mut all.processes[0];
    assert_eq!(web.server.shared_sessions().merge(web.now, &shared, version + 1, &record), Ok(()));
    assert_eq!(web.server.shared_sessions().save(&shared).map(|record| record.replaces), Some(version + 1));
}

// covers: HTTP-064, HTTP-071
#[test]
fn processes_that_are_killed_lose_no_session_and_no_change() {
    for seed in 0..rounds(40) {
        let mut rng = Rng::new(seed);
        let mut all = Cluster::new(3, Config::new);
        // Each session with the resources that it subscribes to.
        let mut sessions: Vec<(String, Vec<u32>)> = Vec::new();
        for step in 0..80 {
            let at = rng.below(3);
            match rng.below(7) {
                0 => sessions.push((all.open(at, "2025-11-25"), Vec::new())),
                1 => all.kill(at, 3 + step as u8),
                _ if sessions.is_empty() => {}
                which @ (2 | 3) => {
                    let picked = rng.below(sessions.len());
                    let (id, uris) = &mut sessions[picked];
                    let uri = rng.below(4) as u32;
                    let method = if which == 2 { "resources/subscribe" } else { "resources/unsubscribe" };
                    uris.retain(|known| *known != uri);
                    uris.extend((which == 2).then_some(uri));
                    let id = id.clone();
                    let body = legacy_request(100 + step, method, &format!(r#""uri":"r:{uri}""#));
                    let x = all.post(at, &id, &body);
                    assert_eq!(all.processes[at].response(x).message()["result"], json!({}));
                }
                4 => {
                    let (id, _) = &sessions[rng.below(sessions.len())];
                    let id = id.clone();
                    let x = all.post(at, &id, &legacy_request(100 + step, "ping", ""));
                    assert_eq!(all.processes[at].response(x).status, 200);
                }
                5 => {
                    let (id, uris) = sessions[rng.below(sessions.len())].clone();
                    let x = all.get(at, &id);
                    let messages = all.processes[at].response(x).messages();
                    let told: Vec<&str> =
                        messages.iter().filter_map(|m| m["params"]["uri"].as_str()).collect();
                    assert!(uris.iter().all(|uri| told.contains(&&*format!("r:{uri}"))), "{uris:?} {told:?}");
                    // A notification that waited here may be of an earlier subscription.
                    assert!((1..told.len()).all(|n| !told[..n].contains(&told[n])), "{told:?}");
                    all.processes[at].close_exchange(x);
                }
                _ => {
                    let (id, _) = sessions.swap_remove(rng.below(sessions.len()));
                    let x = all.delete(at, &id);
                    assert_eq!(all.processes[at].response(x).status, 204);
                    let at = rng.below(3);
                    let x = all.post(at, &id, &legacy_request(100 + step, "ping", ""));
                    assert_eq!(all.processes[at].response(x).status, 404);
                }
            }
            all.drain();
            assert_eq!(all.records.len(), sessions.len());
        }
    }
}
