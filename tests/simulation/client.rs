//! Our client against a server that does as it pleases.

use core::time::Duration;

use mcp_proto::client::{Config, Event, InputId, SubscriptionKey, Verdict};
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_proto::{
    CallId, CallKey, CallOptions, Capabilities, Capability, Progress, RpcError, UseError, VersionSet,
};
use mcp_tests::harness::build::{discovery, error, initialized, legacy, note, result};
use mcp_tests::harness::{Chunker, LoneClient, Rng};
use serde_json::{Value, json};

use crate::hostile::{mad, mutate};
use crate::{for_each_seed, stays_small, tight};

struct World {
    rng: Rng,
    lone: LoneClient,
    /// Requests of the client that the server has not answered
    heard: Vec<Value>,
    calls: Vec<CallKey>,
    requests: Vec<CallId>,
    /// What the server needs
    inputs: Vec<InputId>,
    subscriptions: Vec<SubscriptionKey>,
    closed: bool,
    next: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0xC11E);
        let versions = *rng.pick(&[VersionSet::ALL, VersionSet::LEGACY, VersionSet::MODERN]);
        let verdict = *rng.pick(&[None, None, Some(Verdict::Modern), Some(Verdict::Legacy)]);
        let mut limits = tight(&mut rng);
        limits.max_faulty = rng.chance(10).then_some(20);
        let config = Config::new("harbor-client", "0.3.0")
            .versions(versions)
            .verdict(verdict)
            .custom_method("harbor/name")
            .capabilities(Capabilities::new().with(Capability::Roots).with(Capability::Elicitation))
            .limits(limits);
        let cut = *rng.pick(&[Chunker::Whole, Chunker::Seeded(seed), Chunker::Bytewise]);
        let lone = LoneClient::client(config, cut);
        let (heard, calls, requests) = (Vec::new(), Vec::new(), Vec::new());
        let (inputs, subscriptions) = (Vec::new(), Vec::new());
        Self { rng, lone, heard, calls, requests, inputs, subscriptions, closed: false, next: 0 }
    }

    fn call(&mut self) {
        let mut options = CallOptions::new();
        options.progress = self.rng.chance(50);
        if self.rng.chance(30) {
            options = options.timeout(Duration::from_millis(self.rng.below(3_000) as u64));
        }
        let method = *self.rng.pick(&["tools/list", "custom/x", "ping", "resources/list", "tools/call"]);
        let now = self.lone.now;
        if let Ok(key) = self.lone.pipe.engine().call(now, method, &json!({"name": "a"}), &options) {
            assert!(!self.calls.contains(&key), "a key is used once");
            self.calls.push(key);
        }
    }

    fn cancel(&mut self) {
        if let Some(key) = self.calls.get(self.rng.below(8)) {
            self.lone
                .pipe
                .engine()
                .cancel(self.lone.now, *key, None)
                .expect("it was not told that the call is over");
        }
    }

    /// The server answers something
    fn answer(&mut self) {
        if self.heard.is_empty() {
            return;
        }
        let at = self.rng.below(self.heard.len());
        let request = if self.rng.chance(90) { self.heard.remove(at) } else { self.heard[at].clone() };
        let method = request["method"].as_str().unwrap_or_default();
        let capabilities = json!({
            "tools": {"listChanged": true}, "resources": {"subscribe": true}, "logging": {},
        });
        let good = match method {
            "server/discover" => {
                let versions = *self.rng.pick(&[&["2026-07-28"][..], &["2025-11-25"], &["?"], &[]]);
                discovery(versions, capabilities)
            }
            "initialize" => {
                let version = *self.rng.pick(&["2024-11-05", "2025-03-26", "2025-11-25"]);
                initialized(version, capabilities)
            }
            "tools/call" if self.rng.chance(60) => self.need(),
            _ => json!({"tools": [], "resources": []}),
        };
        let message = match self.rng.below(10) {
            0..=5 => result(&request, good),
            6 => error(&request, -32601, "Method not found", Value::Null),
            7 => error(&request, -32022, "?", json!({"supported": ["2026-07-28"], "requested": "?"})),
            8 => result(&request, json!([1])),
            _ => {
                let line = mutate(&mut self.rng, &result(&request, good).to_string());
                return self.lone.feed(line);
            }
        };
        self.lone.tell(&message);
    }

    /// What the server needs first, in more or less good order
    fn need(&mut self) -> Value {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let form = json!({"message": "m", "requestedSchema": schema});
        let form = json!({"method": "elicitation/create", "params": form});
        let asked = match self.rng.below(8) {
            0 => json!(null),
            1 => json!({}),
            2 => json!({"a": form, "b": {"method": "sampling/createMessage"}}),
            3..=5 => json!({"a": form, "b": {"method": "roots/list"}}),
            _ => json!({"a": {"method": "roots/list"}}),
        };
        let mut need = json!({"resultType": "input_required"});
        if self.rng.chance(70) {
            need["inputRequests"] = asked;
        }
        if self.rng.chance(60) {
            need["requestState"] = if self.rng.chance(95) { json!("state") } else { json!(7) };
        }
        need
    }

    /// The application has something for the server, or no mind for it
    fn give(&mut self) {
        if self.inputs.is_empty() {
            return;
        }
        let id = self.inputs.remove(self.rng.below(self.inputs.len()));
        let (now, engine) = (self.lone.now, self.lone.pipe.engine());
        if self.rng.chance(80) {
            let answers = [json!({"action": "accept"}), json!({"roots": []})];
            let given = answers.iter().any(|answer| match engine.answer(now, id, answer) {
                Ok(()) => true,
                Err(UseError::BadAnswer { .. }) => false,
                Err(error) => panic!("it was not told that it is gone: {error}"),
            });
            assert!(given, "one of them fits");
        } else {
            engine.refuse(now, id, &RpcError::new(-1, "no")).expect("it was not told that it is gone");
        }
        assert_eq!(engine.answer(now, id, &json!({})), Err(UseError::Stale));
    }

    fn follow(&mut self) {
        let (now, engine) = (self.lone.now, self.lone.pipe.engine());
        let level = *self.rng.pick(&[Some("debug"), Some("error"), None]);
        if self.rng.chance(30) {
            let _ = engine.set_log_level(now, level.map(LoggingLevel::from));
        }
        if self.rng.chance(60) {
            let uris = (0..self.rng.below(3)).map(|i| format!("a:{i}")).collect::<Vec<_>>();
            let filter = SubscriptionFilter::new().tools_list_changed(true).resource_subscriptions(uris);
            self.subscriptions.extend(engine.subscribe(now, &filter));
        } else if !self.subscriptions.is_empty() {
            let at = self.rng.below(self.subscriptions.len());
            match engine.unsubscribe(now, self.subscriptions[at]) {
                Ok(()) => drop(self.subscriptions.remove(at)),
                Err(error) => assert!(matches!(error, UseError::Full(_)), "{error}"),
            }
        }
    }

    /// The server says something on its own
    fn speak(&mut self) {
        let id = format!("s{}", self.next);
        self.next += 1;
        let token = self.heard.first().map_or_else(|| json!(1), |r| r["id"].clone());
        let progress = json!({"progressToken": token, "progress": self.rng.below(100)});
        let subscription = json!({"io.modelcontextprotocol/subscriptionId": token});
        let message = match self.rng.below(12) {
            8 => legacy(id, "roots/list", Value::Null),
            9 => note(
                "notifications/subscriptions/acknowledged",
                json!({"_meta": subscription, "notifications": {"toolsListChanged": true}}),
            ),
            10 => note("notifications/tools/list_changed", json!({"_meta": subscription})),
            11 => {
                let uri = format!("a:{}", self.rng.below(3));
                note("notifications/resources/updated", json!({"uri": uri, "_meta": subscription}))
            }
            0 => legacy(id, "ping", Value::Null),
            1 => legacy(id, "harbor/name", json!({"_meta": {"progressToken": 1}})),
            2 => legacy(id, "unheard/of", Value::Null),
            3 => note("notifications/progress", progress),
            4 => note("notifications/message", json!({"level": "info", "data": 1})),
            5 => note(
                "notifications/cancelled",
                json!({"requestId": format!("s{}", self.rng.below(self.next))}),
            ),
            6 => {
                json!([legacy(format!("{id}b"), "ping", Value::Null), note("notifications/odd", Value::Null)])
            }
            _ => {
                let line = mad(&mut self.rng);
                return self.lone.feed(line);
            }
        };
        self.lone.tell(&message);
    }

    fn respond(&mut self) {
        if self.requests.is_empty() {
            return;
        }
        let id = self.requests.remove(self.rng.below(self.requests.len()));
        let (now, engine) = (self.lone.now, self.lone.pipe.engine());
        engine.progress(now, id, Progress::new(1.0)).expect("open");
        engine.respond(now, id, &json!({"name": "Mara"})).expect("it was not told that the request is over");
    }

    fn look(&mut self) {
        self.lone.pump();
        while !self.lone.is_quiet() {
            assert!(!self.closed, "after the end");
            match self.lone.event() {
                Event::Done { call, .. } => {
                    let at = self.calls.iter().position(|key| *key == call);
                    self.calls.remove(at.expect("a call that is open"));
                }
                Event::Progress { call, .. } => assert!(self.calls.contains(&call), "a call that is open"),
                Event::Request(request) => self.requests.push(request.id),
                Event::RequestCancelled(id) => {
                    let at = self.requests.iter().position(|open| *open == id);
                    self.requests.remove(at.expect("a request that is open"));
                }
                Event::Input(input) => {
                    assert!(input.call.is_none_or(|call| self.calls.contains(&call)), "a call that is open");
                    assert!(!self.inputs.contains(&input.id), "a key is used once");
                    self.inputs.push(input.id);
                }
                Event::InputGone(id) => {
                    let at = self.inputs.iter().position(|open| *open == id);
                    self.inputs.remove(at.expect("an input that is open"));
                }
                Event::Changed { key: None, .. } => {}
                Event::Subscribed { key, .. } | Event::Changed { key: Some(key), .. } => {
                    assert!(self.subscriptions.contains(&key), "a subscription that is open");
                }
                Event::SubscriptionEnded { key, .. } => {
                    let at = self.subscriptions.iter().position(|open| *open == key);
                    self.subscriptions.remove(at.expect("a subscription that is open"));
                }
                Event::Closed(_) => self.closed = true,
                _ => {}
            }
        }
        let asked =
            self.lone.sent().into_iter().filter(|m| m.get("method").is_some() && m.get("id").is_some());
        self.heard.extend(asked);
    }

    fn act(&mut self) {
        match self.rng.below(100) {
            0..=24 => self.call(),
            25..=29 => self.cancel(),
            30..=59 => self.answer(),
            60..=74 => self.speak(),
            75..=77 => self.respond(),
            78..=80 => self.give(),
            81 => self.follow(),
            82..=84 => self.lone.blocked = self.rng.chance(50),
            85..=96 => self.lone.pass(Duration::from_millis(self.rng.below(2_000) as u64)),
            _ => self.lone.pass(Duration::from_secs(self.rng.below(30) as u64)),
        }
        self.look();
        if self.rng.chance(10) {
            stays_small(&self.lone.pipe);
        }
    }

    fn run(mut self) -> String {
        for _ in 0..30 + self.rng.below(150) {
            if self.closed {
                break;
            }
            self.act();
        }
        self.lone.blocked = false;
        self.look();
        if self.rng.chance(50) {
            self.lone.eof();
        } else if self.rng.chance(50) {
            self.lone.pipe.engine().close(self.lone.now);
        } else {
            // Time alone ends every call and every question, an hour after it was asked at the latest.
            self.lone.pass(Duration::from_secs(10_000));
            self.look();
            assert!(self.calls.is_empty() && self.inputs.is_empty(), "calls without an end");
            self.lone.eof();
        }
        self.look();
        assert!(self.closed && self.calls.is_empty() && self.requests.is_empty(), "all is over");
        assert!(self.inputs.is_empty() && self.subscriptions.is_empty(), "all is over");
        assert!(mcp_proto::pipe::Pipe::is_drained(&self.lone.pipe));
        self.lone.pass(Duration::from_secs(10_000));
        self.lone.still();
        format!("{:#?}", self.lone.transcript)
    }
}

// covers: STDIO-011, STDIO-028, CANC-012, PROG-012, VER-020, BASE-020
#[test]
fn our_client_and_any_server() {
    for_each_seed("our_client_and_any_server", 300, |seed| World::new(seed).run());
}
