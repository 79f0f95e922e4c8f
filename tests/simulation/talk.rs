//! Servers that ask, tell and log on several channels at once, to clients that answer, read slowly, cancel and leave.
//!
//! No change is missed by who reads on, nothing is told again for no reason, interest begins and ends in turns, every
//! call ends once, and what was asked for the sake of a call ends with it.

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
use mcp_tests::harness::build::{legacy, modern_with, note};
use serde_json::{Value, json};

const URIS: [&str; 3] = ["x:1", "x:2", "x:3"];

/// A client, as far as it knows
#[derive(Default)]
struct Client {
    modern: bool,
    next: i64,
    read: Vec<u8>,
    /// Requests without an answer
    open: BTreeSet<i64>,
    /// Questions of a legacy server
    asked: Vec<Value>,
    /// What is followed, by the id of the subscription (0 for a session), and whether it is outdated
    follows: BTreeMap<(i64, String), bool>,
    /// What was cancelled: it may have been acknowledged before
    given_up: BTreeSet<i64>,
    /// Retries to be made
    again: Vec<Value>,
    gone: bool,
    closed: bool,
}

struct World {
    rng: Rng,
    engine: Engine,
    now: Instant,
    clients: BTreeMap<ChannelId, Client>,
    live: BTreeMap<CallId, Call>,
    ended: BTreeSet<CallId>,
    interest: BTreeSet<String>,
    story: String,
}

#[test]
fn conversations_by_chance() {
    super::for_each_seed("talk", 400, |seed| {
        let mut rng = Rng::new(seed);
        let mut limits = super::tight(&mut rng);
        limits.max_input_rounds = 3;
        limits.max_inputs = 4;
        limits.max_subscriptions = 2;
        limits.max_followed = 4;
        limits.max_kept_bytes = 2_000;
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
        let mut world = World {
            rng,
            engine: Engine::new(Arc::new(config)),
            now: Instant::ZERO,
            clients: BTreeMap::new(),
            live: BTreeMap::new(),
            ended: BTreeSet::new(),
            interest: BTreeSet::new(),
            story: String::new(),
        };
        for _ in 0..150 {
            world.step();
        }
        world.rest();
        world.story
    });
}

impl World {
    fn step(&mut self) {
        let channels: Vec<ChannelId> =
            self.clients.iter().filter(|(_, c)| !c.gone).map(|(channel, _)| *channel).collect();
        let Some(channel) = (!channels.is_empty()).then(|| *self.rng.pick(&channels)) else {
            return self.open();
        };
        match self.rng.below(24) {
            0 => self.open(),
            1..=4 => self.call(channel),
            5 | 6 => self.follow(channel),
            7 => self.leave_off(channel),
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
                self.pass(span);
            }
            22 if self.rng.chance(20) => {
                let (now, at_once) = (self.now, self.rng.chance(50));
                if at_once {
                    self.engine.close_channel(now, channel, &Fault::Eof);
                } else {
                    self.engine.handle_eof(now, channel);
                }
                self.gone(channel);
            }
            23 if self.rng.chance(20) => {
                self.engine.end_subscriptions(self.now, channel);
            }
            _ => {}
        }
        self.events();
    }

    fn open(&mut self) {
        if self.clients.len() > 5 {
            return;
        }
        let (now, modern) = (self.now, self.rng.chance(50));
        let channel = self.engine.open_channel(now);
        self.clients.insert(channel, Client { modern, next: 1, ..Client::default() });
        if !modern {
            let params = json!({"protocolVersion": "2025-11-25", "clientInfo": {"name": "c", "version": "1"},
                "capabilities": {"elicitation": {}, "roots": {}}});
            self.ask(channel, "initialize", params);
            self.tell(channel, &note("notifications/initialized", json!({})));
            let client = self.client(channel);
            client.follows.insert((0, "tools".into()), false);
        }
    }

    fn client(&mut self, channel: ChannelId) -> &mut Client {
        self.clients.get_mut(&channel).expect("a client")
    }

    fn tell(&mut self, channel: ChannelId, message: &Value) {
        if !self.engine.is_stalled(channel) {
            self.engine.handle_message(self.now, channel, message.to_string().into());
            self.events();
        }
    }

    /// Sends a request; none when the server does not read
    fn ask(&mut self, channel: ChannelId, method: &str, params: Value) -> Option<i64> {
        if self.engine.is_stalled(channel) {
            return None;
        }
        let client = self.client(channel);
        let id = client.next;
        client.next += 1;
        client.open.insert(id);
        let can = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "roots": {}},
            "io.modelcontextprotocol/logLevel": "info"});
        let request =
            if client.modern { modern_with(id, method, params, &can) } else { legacy(id, method, params) };
        self.tell(channel, &request);
        Some(id)
    }

    fn call(&mut self, channel: ChannelId) {
        let again = self.client(channel).again.pop();
        let mut params = again.unwrap_or_else(|| json!({"name": "t", "arguments": {"n": 1}}));
        if !self.client(channel).modern {
            params["_meta"] = json!({"progressToken": "p"});
        }
        self.ask(channel, "tools/call", params);
    }

    fn follow(&mut self, channel: ChannelId) {
        let uri = *self.rng.pick(&URIS);
        if self.client(channel).modern {
            let filter = json!({"toolsListChanged": true, "resourceSubscriptions": [uri]});
            self.ask(channel, "subscriptions/listen", json!({"notifications": filter}));
        } else {
            self.ask(channel, "resources/subscribe", json!({"uri": uri}));
        }
    }

    fn leave_off(&mut self, channel: ChannelId) {
        let uri = *self.rng.pick(&URIS);
        if self.client(channel).modern {
            let known: Vec<i64> = self.client(channel).follows.keys().map(|(id, _)| *id).collect();
            if known.is_empty() || self.engine.is_stalled(channel) {
                return;
            }
            let id = *self.rng.pick(&known);
            self.client(channel).follows.retain(|(other, _), _| *other != id);
            self.client(channel).open.remove(&id);
            self.tell(channel, &note("notifications/cancelled", json!({"requestId": id})));
        } else if self.ask(channel, "resources/unsubscribe", json!({"uri": uri})).is_some() {
            self.client(channel).follows.remove(&(0, uri.into()));
        }
    }

    fn answer(&mut self, channel: ChannelId) {
        let count = self.client(channel).asked.len();
        if count == 0 || self.engine.is_stalled(channel) {
            return;
        }
        let at = self.rng.below(count);
        let question = self.client(channel).asked.remove(at);
        let id = &question["id"];
        let answer = match self.rng.below(4) {
            0 => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": "no"}}),
            1 => json!({"jsonrpc": "2.0", "id": id, "result": {"action": "decline", "x": "y".repeat(1_500)}}),
            _ => json!({"jsonrpc": "2.0", "id": id, "result": {"action": "decline"}}),
        };
        self.tell(channel, &answer);
    }

    fn cancel(&mut self, channel: ChannelId) {
        let listens: BTreeSet<i64> = self.client(channel).follows.keys().map(|(id, _)| *id).collect();
        let open: Vec<i64> = self.client(channel).open.difference(&listens).copied().collect();
        if !open.is_empty() && !self.engine.is_stalled(channel) {
            let id = *self.rng.pick(&open);
            self.client(channel).given_up.insert(id);
            self.tell(channel, &note("notifications/cancelled", json!({"requestId": id})));
        }
    }

    /// The application does something about a call
    fn handle(&mut self) {
        let keys: Vec<CallId> = self.live.keys().copied().collect();
        if keys.is_empty() {
            return;
        }
        let key = *self.rng.pick(&keys);
        let (now, what) = (self.now, self.rng.below(6));
        let call = &self.live[&key];
        let over = match what {
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
                let mut questions = InputRequests::new();
                for name in ["a", "b", "c"].iter().take(self.rng.below(4)) {
                    let form = ElicitParams::form("?", ElicitSchema::default());
                    questions.insert(*name, InputRequest::Elicit(form));
                }
                self.engine.need_input(now, call, &questions, b"state").is_ok()
            }
        };
        if over {
            self.live.remove(&key);
            assert!(self.ended.insert(key), "ended twice");
        }
    }

    fn publish(&mut self) {
        let (what, change) = match self.rng.below(4) {
            3 => ("tools", Change::Tools),
            n => (URIS[n], Change::Resource(URIS[n].into())),
        };
        let told = self.engine.publish(self.now, &change);
        let mut want = 0;
        for client in self.clients.values_mut().filter(|c| !c.gone) {
            for ((_, other), outdated) in &mut client.follows {
                if other == what {
                    *outdated = true;
                    want += 1;
                }
            }
        }
        // Clients know a little later what is honoured, and of ends; nobody who knows is passed over.
        assert!(told + 50 >= want, "{told} of {want}");
    }

    fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        for _ in 0..100_000 {
            let next = self.engine.poll_timeout().filter(|at| *at <= until);
            self.now = next.unwrap_or(until).max(self.now);
            self.engine.handle_timeout(self.now);
            self.events();
            if next.is_none() {
                return;
            }
        }
        panic!("deadlines without end");
    }

    fn events(&mut self) {
        while let Some(event) = self.engine.poll_event(self.now) {
            match event {
                Event::Call(call) => {
                    assert!(!self.ended.contains(&call.id()), "a key comes twice");
                    assert!(self.live.insert(call.id(), call).is_none(), "a call comes twice");
                }
                Event::Cancelled { call, .. } => {
                    assert!(self.live.remove(&call).is_some(), "what is cancelled is alive");
                    assert!(self.ended.insert(call));
                }
                Event::Interest { uri, wanted: true } => assert!(self.interest.insert(uri), "begins twice"),
                Event::Interest { uri, wanted: false } => assert!(self.interest.remove(&uri), "ends twice"),
                Event::Closed { channel, .. } => {
                    assert!(!core::mem::replace(&mut self.client(channel).closed, true), "closed twice");
                }
                _ => {}
            }
        }
    }

    fn gone(&mut self, channel: ChannelId) {
        self.events();
        let client = self.client(channel);
        client.gone = true;
        client.follows.clear();
    }

    /// A client reads so many bytes
    fn read(&mut self, channel: ChannelId, n: usize) -> bool {
        let mut left = n;
        let mut lines = Vec::new();
        while left > 0 {
            let Some(outbox) = self.engine.outbox(channel) else { return false };
            let some = outbox.transmit().len().min(left);
            if some == 0 {
                break;
            }
            let bytes = outbox.transmit()[..some].to_vec();
            outbox.consume(some);
            left -= some;
            let client = self.clients.get_mut(&channel).expect("a client");
            client.read.extend(bytes);
            while let Some(end) = client.read.iter().position(|b| *b == b'\n') {
                lines.push(client.read.drain(..=end).collect::<Vec<u8>>());
            }
        }
        for line in lines {
            let message: Value = serde_json::from_slice(&line).expect("a message");
            self.story.push_str(&format!("{channel:?} {message}\n"));
            self.hear(channel, message);
        }
        left < n
    }

    fn hear(&mut self, channel: ChannelId, message: Value) {
        let modern = self.client(channel).modern;
        let client = self.client(channel);
        let params = &message["params"];
        let subscription = params["_meta"]["io.modelcontextprotocol/subscriptionId"].as_i64().unwrap_or(0);
        match message["method"].as_str() {
            Some("notifications/subscriptions/acknowledged") => {
                assert!(modern, "acknowledged in the other era");
                if client.given_up.contains(&subscription) {
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
                client.asked.retain(|question| question["id"] != params["requestId"]);
            }
            Some("elicitation/create") => {
                assert!(!modern, "asked in the other era");
                client.asked.push(message);
            }
            Some(_) => {}
            None => {
                let Some(id) = message["id"].as_i64() else { return };
                let known = client.open.remove(&id);
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
                    client.again.push(json!({"name": "t", "arguments": {"n": 1},
                        "inputResponses": answers, "requestState": result["requestState"]}));
                }
            }
        }
    }

    /// Everybody reads on, and everything ends
    fn rest(&mut self) {
        // Nobody answers questions any more.
        self.pass(Duration::from_secs(61));
        for _ in 0..20 {
            for channel in self.clients.keys().copied().collect::<Vec<_>>() {
                self.read(channel, usize::MAX);
            }
            self.pass(Duration::from_millis(200));
        }
        for (channel, client) in &self.clients {
            let missed: Vec<_> = client.follows.iter().filter(|(_, outdated)| **outdated).collect();
            assert!(client.gone || missed.is_empty(), "{channel:?} was not told of {missed:?}");
        }
        for channel in self.clients.keys().copied().collect::<Vec<_>>() {
            let before = self.story.len();
            assert!(!self.read(channel, usize::MAX), "told again and again: {}", &self.story[before..]);
        }
        for channel in self.clients.keys().copied().collect::<Vec<_>>() {
            self.engine.close_channel(self.now, channel, &Fault::Eof);
            self.gone(channel);
            assert!(self.client(channel).closed);
            self.engine.release_channel(channel);
        }
        assert!(self.live.is_empty(), "calls without an end");
        assert!(self.interest.is_empty(), "interest without an end: {:?}", self.interest);
        assert_eq!(self.engine.live_calls(), 0);
        self.pass(Duration::from_secs(10));
        assert_eq!(self.engine.poll_timeout(), None);
        assert_eq!(self.engine.publish(self.now, &Change::Tools), 0);
    }
}
