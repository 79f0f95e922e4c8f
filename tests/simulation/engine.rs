//! One server engine with many channels, and random clients that answer, read slowly, cancel and disconnect.
//!
//! Invariants: a client that reads misses no change and gets no notification without a cause; interest begins and ends
//! in turn; every call ends once; the input requests of a call end with it; each sum that the engine keeps is right.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::model::{ElicitParams, ElicitSchema, InputRequest, InputRequests, LoggingLevel};
use mcp_proto::seal::Keys;
use mcp_proto::server::{Call, Config, Engine, Event};
use mcp_proto::{
    Anchor, CallId, Capabilities, Capability, Change, ChannelId, Fault, Instant, Progress, RpcError,
    VersionSet,
};
use mcp_tests::harness::Rng;
use mcp_tests::harness::build::{legacy_request, modern_request_with, notification};
use serde_json::{Value, json};

const URIS: [&str; 3] = ["x:1", "x:2", "x:3"];

/// A client, with its view of the connection.
#[derive(Default)]
struct SimulatedClient {
    is_modern: bool,
    next_id: i64,
    received: Vec<u8>,
    /// Requests without an answer.
    open_requests: BTreeSet<i64>,
    /// Input requests of a legacy server.
    input_requests: Vec<Value>,
    /// Subscribed resources by subscription id (0 for a session), and whether each is outdated.
    follows: BTreeMap<(i64, String), bool>,
    /// Cancelled requests, which may have been acknowledged before.
    cancelled: BTreeSet<i64>,
    /// Parameters of retries to send.
    retries: Vec<Value>,
    is_gone: bool,
    is_closed: bool,
}

struct EngineSimulation {
    rng: Rng,
    engine: Engine,
    now: Instant,
    clients: BTreeMap<ChannelId, SimulatedClient>,
    live: BTreeMap<CallId, Call>,
    ended: BTreeSet<CallId>,
    interest: BTreeSet<String>,
    transcript: String,
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn engine_survives_random_clients() {
    super::for_each_seed("engine_survives_random_clients", 400, |seed| {
        let mut rng = Rng::new(seed);
        let mut limits = super::tight_limits(&mut rng);
        limits.max_input_rounds = 3;
        limits.max_inputs = 4;
        limits.max_subscriptions = 2;
        limits.max_subscribed_resources = 4;
        limits.max_retained_bytes = 2_000;
        limits.progress_burst = 1;
        limits.progress_rate = [0, 1, 20][rng.below(3)];
        limits.input_timeout = Duration::from_secs(60);
        let everything = [
            Capability::Tools,
            Capability::Logging,
            Capability::ToolsListChanged,
            Capability::ResourceSubscriptions,
        ];
        let config = Config::new("talk", "1")
            .versions(VersionSet::ALL)
            .capabilities(everything.into_iter().fold(Capabilities::new(), Capabilities::with))
            .seal(Keys::new([7; 32]), Anchor::default())
            .limits(limits);
        let mut simulation = EngineSimulation {
            rng,
            engine: Engine::new(Arc::new(config)),
            now: Instant::ZERO,
            clients: BTreeMap::new(),
            live: BTreeMap::new(),
            ended: BTreeSet::new(),
            interest: BTreeSet::new(),
            transcript: String::new(),
        };
        for _ in 0..150 {
            simulation.step();
        }
        simulation.settle();
        simulation.transcript
    });
}

impl EngineSimulation {
    #[expect(deprecated, reason = "tested until its removal")]
    fn step(&mut self) {
        let channels: Vec<ChannelId> =
            self.clients.iter().filter(|(_, c)| !c.is_gone).map(|(channel, _)| *channel).collect();
        let Some(channel) = (!channels.is_empty()).then(|| *self.rng.pick(&channels)) else {
            return self.open();
        };
        match self.rng.below(24) {
            0 => self.open(),
            1..=4 => self.call(channel),
            5 | 6 => self.subscribe(channel),
            7 => self.unsubscribe(channel),
            8 | 9 => self.answer(channel),
            10 => self.cancel(channel),
            11..=13 => self.handle(),
            14..=16 => self.publish(),
            17 => {
                let (now, level) = (self.now, LoggingLevel::Info);
                let _ = self.engine.log_session(now, channel, &level, None, "something");
            }
            18..=20 => {
                let n = self.rng.below(600);
                self.read(channel, n);
            }
            21 => {
                let span = Duration::from_millis(*self.rng.pick(&[1, 60, 300, 30_000]));
                self.advance(span);
            }
            22 if self.rng.percent(20) => {
                let (now, at_once) = (self.now, self.rng.percent(50));
                if at_once {
                    self.engine.close_channel(now, channel, &Fault::Eof);
                } else {
                    self.engine.handle_eof(now, channel);
                }
                self.disconnect(channel);
            }
            23 if self.rng.percent(20) => {
                self.engine.end_subscriptions(self.now, channel);
            }
            _ => {}
        }
        self.drain_events();
    }

    fn open(&mut self) {
        if self.clients.len() > 5 {
            return;
        }
        let (now, modern) = (self.now, self.rng.percent(50));
        let channel = self.engine.open_channel(now);
        self.clients
            .insert(channel, SimulatedClient { is_modern: modern, next_id: 1, ..SimulatedClient::default() });
        if !modern {
            let params = json!({"protocolVersion": "2025-11-25", "clientInfo": {"name": "c", "version": "1"},
                "capabilities": {"elicitation": {}, "roots": {}}});
            self.send_request(channel, "initialize", params);
            self.feed(channel, &notification("notifications/initialized", json!({})));
            let client = self.client(channel);
            client.follows.insert((0, "tools".into()), false);
        }
    }

    fn client(&mut self, channel: ChannelId) -> &mut SimulatedClient {
        self.clients.get_mut(&channel).expect("a client")
    }

    fn feed(&mut self, channel: ChannelId, message: &Value) {
        if !self.engine.is_stalled(channel) {
            self.engine.handle_message(self.now, channel, message.to_string().into());
            self.drain_events();
        }
    }

    /// Sends a request; returns `None` if the server does not read.
    fn send_request(&mut self, channel: ChannelId, method: &str, params: Value) -> Option<i64> {
        if self.engine.is_stalled(channel) {
            return None;
        }
        let client = self.client(channel);
        let id = client.next_id;
        client.next_id += 1;
        client.open_requests.insert(id);
        let can = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "roots": {}},
            "io.modelcontextprotocol/logLevel": "info"});
        let request = if client.is_modern {
            modern_request_with(id, method, params, &can)
        } else {
            legacy_request(id, method, params)
        };
        self.feed(channel, &request);
        Some(id)
    }

    fn call(&mut self, channel: ChannelId) {
        let retry = self.client(channel).retries.pop();
        let mut params = retry.unwrap_or_else(|| json!({"name": "t", "arguments": {"n": 1}}));
        if !self.client(channel).is_modern {
            params["_meta"] = json!({"progressToken": "p"});
        }
        self.send_request(channel, "tools/call", params);
    }

    fn subscribe(&mut self, channel: ChannelId) {
        let uri = *self.rng.pick(&URIS);
        if self.client(channel).is_modern {
            let filter = json!({"toolsListChanged": true, "resourceSubscriptions": [uri]});
            self.send_request(channel, "subscriptions/listen", json!({"notifications": filter}));
        } else {
            self.send_request(channel, "resources/subscribe", json!({"uri": uri}));
        }
    }

    fn unsubscribe(&mut self, channel: ChannelId) {
        let uri = *self.rng.pick(&URIS);
        if self.client(channel).is_modern {
            let known: Vec<i64> = self.client(channel).follows.keys().map(|(id, _)| *id).collect();
            if known.is_empty() || self.engine.is_stalled(channel) {
                return;
            }
            let id = *self.rng.pick(&known);
            self.client(channel).follows.retain(|(other, _), _| *other != id);
            self.client(channel).open_requests.remove(&id);
            self.feed(channel, &notification("notifications/cancelled", json!({"requestId": id})));
        } else if self.send_request(channel, "resources/unsubscribe", json!({"uri": uri})).is_some() {
            self.client(channel).follows.remove(&(0, uri.into()));
        }
    }

    fn answer(&mut self, channel: ChannelId) {
        let count = self.client(channel).input_requests.len();
        if count == 0 || self.engine.is_stalled(channel) {
            return;
        }
        let at = self.rng.below(count);
        let question = self.client(channel).input_requests.remove(at);
        let id = &question["id"];
        let answer = match self.rng.below(4) {
            0 => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": "no"}}),
            1 => json!({"jsonrpc": "2.0", "id": id, "result": {"action": "decline", "x": "y".repeat(1_500)}}),
            _ => json!({"jsonrpc": "2.0", "id": id, "result": {"action": "decline"}}),
        };
        self.feed(channel, &answer);
    }

    fn cancel(&mut self, channel: ChannelId) {
        let listens: BTreeSet<i64> = self.client(channel).follows.keys().map(|(id, _)| *id).collect();
        let open: Vec<i64> = self.client(channel).open_requests.difference(&listens).copied().collect();
        if !open.is_empty() && !self.engine.is_stalled(channel) {
            let id = *self.rng.pick(&open);
            self.client(channel).cancelled.insert(id);
            self.feed(channel, &notification("notifications/cancelled", json!({"requestId": id})));
        }
    }

    /// Performs a random operation of a handler.
    #[expect(deprecated, reason = "tested until its removal")]
    fn handle(&mut self) {
        let keys: Vec<CallId> = self.live.keys().copied().collect();
        if keys.is_empty() {
            return;
        }
        let key = *self.rng.pick(&keys);
        let (now, operation) = (self.now, self.rng.below(6));
        let call = &self.live[&key];
        let is_over = match operation {
            0 => {
                let progress = Progress::new(self.rng.below(50) as f64);
                self.engine.progress(now, key, progress).expect("a live call");
                false
            }
            1 => {
                self.engine.log(now, key, &LoggingLevel::Error, None, "a call").expect("a live call");
                false
            }
            2 => {
                self.engine.fail(now, key, &RpcError::internal("no")).expect("a live call");
                true
            }
            3 => {
                self.engine.complete(now, key, &json!({"content": [], "n": "z".repeat(300)})).expect("live");
                true
            }
            _ => {
                let mut input_requests = InputRequests::new();
                for name in ["a", "b", "c"].iter().take(self.rng.below(4)) {
                    let form = ElicitParams::form("?", ElicitSchema::default());
                    input_requests.insert(*name, InputRequest::Elicit(form));
                }
                self.engine.need_input(now, call, &input_requests, b"state").is_ok()
            }
        };
        if is_over {
            self.live.remove(&key);
            assert!(self.ended.insert(key), "ended twice");
        }
    }

    fn publish(&mut self) {
        let (subject, change) = match self.rng.below(4) {
            3 => ("tools", Change::Tools),
            n => (URIS[n], Change::Resource(URIS[n].into())),
        };
        let notified_count = self.engine.publish(self.now, &change);
        let mut expected_count = 0;
        for client in self.clients.values_mut().filter(|c| !c.is_gone) {
            for ((_, other), outdated) in &mut client.follows {
                if other == subject {
                    *outdated = true;
                    expected_count += 1;
                }
            }
        }
        // A client learns of acknowledgements and ends a little later than the server, but it misses nothing it
        // subscribed to.
        assert!(notified_count + 50 >= expected_count, "{notified_count} of {expected_count}");
    }

    fn advance(&mut self, span: Duration) {
        let until = self.now + span;
        for _ in 0..100_000 {
            let next = self.engine.poll_timeout().filter(|at| *at <= until);
            self.now = next.unwrap_or(until).max(self.now);
            self.engine.handle_timeout(self.now);
            self.drain_events();
            if next.is_none() {
                return;
            }
        }
        panic!("deadlines fire without end");
    }

    fn drain_events(&mut self) {
        while let Some(event) = self.engine.poll_event(self.now) {
            match event {
                Event::Call(call) => {
                    assert!(!self.ended.contains(&call.id()), "a key is reused");
                    assert!(self.live.insert(call.id(), call).is_none(), "a call was delivered twice");
                }
                Event::Cancelled { call, .. } => {
                    assert!(self.live.remove(&call).is_some(), "a cancelled call was not live");
                    assert!(self.ended.insert(call));
                }
                Event::ResourceInterest { uri, is_subscribed: true } => {
                    assert!(self.interest.insert(uri), "interest began twice")
                }
                Event::ResourceInterest { uri, is_subscribed: false } => {
                    assert!(self.interest.remove(&uri), "interest ended twice")
                }
                Event::Closed { channel, .. } => {
                    assert!(!core::mem::replace(&mut self.client(channel).is_closed, true), "closed twice");
                }
                _ => {}
            }
        }
        mcp_proto::internals::check_server(&self.engine);
    }

    fn disconnect(&mut self, channel: ChannelId) {
        self.drain_events();
        let client = self.client(channel);
        client.is_gone = true;
        client.follows.clear();
    }

    /// Reads up to `n` bytes as the client.
    fn read(&mut self, channel: ChannelId, n: usize) -> bool {
        let mut remaining = n;
        let mut lines = Vec::new();
        while remaining > 0 {
            let Some(outbox) = self.engine.outbox(channel) else { return false };
            let some = outbox.transmit().len().min(remaining);
            if some == 0 {
                break;
            }
            let bytes = outbox.transmit()[..some].to_vec();
            outbox.consume(some);
            remaining -= some;
            let client = self.clients.get_mut(&channel).expect("a client");
            client.received.extend(bytes);
            while let Some(end) = client.received.iter().position(|b| *b == b'\n') {
                lines.push(client.received.drain(..=end).collect::<Vec<u8>>());
            }
        }
        for line in lines {
            let message: Value = serde_json::from_slice(&line).expect("a message");
            self.transcript.push_str(&format!("{channel:?} {message}\n"));
            self.handle_message(channel, message);
        }
        remaining < n
    }

    fn handle_message(&mut self, channel: ChannelId, message: Value) {
        let modern = self.client(channel).is_modern;
        let client = self.client(channel);
        let params = &message["params"];
        let subscription = params["_meta"]["io.modelcontextprotocol/subscriptionId"].as_i64().unwrap_or(0);
        match message["method"].as_str() {
            Some("notifications/subscriptions/acknowledged") => {
                assert!(modern, "acknowledgement in the legacy era");
                if client.cancelled.contains(&subscription) {
                    return;
                }
                let filter = &params["notifications"];
                let uris = filter["resourceSubscriptions"].as_array().cloned().unwrap_or_default();
                for uri in uris {
                    client
                        .follows
                        .entry((subscription, uri.as_str().expect("a URI").into()))
                        .or_insert(false);
                }
                client.follows.entry((subscription, "tools".into())).or_insert(false);
            }
            Some("notifications/tools/list_changed") => {
                client.follows.entry((subscription, "tools".into())).and_modify(|outdated| *outdated = false);
            }
            Some("notifications/resources/updated") => {
                let uri = params["uri"].as_str().expect("a URI").to_owned();
                client.follows.entry((subscription, uri)).and_modify(|outdated| *outdated = false);
            }
            Some("notifications/cancelled") => {
                client.input_requests.retain(|question| question["id"] != params["requestId"]);
            }
            Some("elicitation/create") => {
                assert!(!modern, "legacy request in the modern era");
                client.input_requests.push(message);
            }
            Some(_) => {}
            None => {
                let Some(id) = message["id"].as_i64() else { return };
                let known = client.open_requests.remove(&id);
                let listened = client.follows.keys().any(|(other, _)| *other == id);
                assert!(known || listened || modern, "answered twice: {message}");
                client.follows.retain(|(other, _), _| *other != id);
                if message["result"]["resultType"] == "input_required" {
                    let result = &message["result"];
                    let answers: serde_json::Map<String, Value> = result["inputRequests"]
                        .as_object()
                        .into_iter()
                        .flatten()
                        .map(|(key, _)| (key.clone(), json!({"action": "decline"})))
                        .collect();
                    client.retries.push(json!({"name": "t", "arguments": {"n": 1},
                        "inputResponses": answers, "requestState": result["requestState"]}));
                }
            }
        }
    }

    /// Lets all clients read and everything end, and checks the invariants.
    fn settle(&mut self) {
        // Input requests are not answered from here on.
        self.advance(Duration::from_secs(61));
        for _ in 0..20 {
            for channel in self.clients.keys().copied().collect::<Vec<_>>() {
                self.read(channel, usize::MAX);
            }
            self.advance(Duration::from_millis(200));
        }
        for (channel, client) in &self.clients {
            let missed: Vec<_> = client.follows.iter().filter(|(_, outdated)| **outdated).collect();
            assert!(client.is_gone || missed.is_empty(), "{channel:?} missed {missed:?}");
        }
        for channel in self.clients.keys().copied().collect::<Vec<_>>() {
            let before = self.transcript.len();
            assert!(
                !self.read(channel, usize::MAX),
                "notifications without end: {}",
                &self.transcript[before..]
            );
        }
        for channel in self.clients.keys().copied().collect::<Vec<_>>() {
            self.engine.close_channel(self.now, channel, &Fault::Eof);
            self.disconnect(channel);
            assert!(self.client(channel).is_closed);
            self.engine.release_channel(channel);
        }
        assert!(self.live.is_empty(), "calls that did not end");
        assert!(self.interest.is_empty(), "interest that did not end: {:?}", self.interest);
        assert_eq!(self.engine.live_calls(), 0);
        self.advance(Duration::from_secs(10));
        assert_eq!(self.engine.poll_timeout(), None);
        assert_eq!(self.engine.publish(self.now, &Change::Tools), 0);
    }
}
