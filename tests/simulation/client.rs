//! A client against a random server.

use core::time::Duration;

use mcp_proto::client::{Config, Event, InputId, KnownEra, SubscriptionKey};
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_proto::{
    CallId, CallKey, CallOptions, Capabilities, Capability, Progress, RpcError, UseError, VersionSet,
};
use mcp_tests::harness::build::{
    discover_result, error_response, initialize_result, legacy_request, notification, result_response,
};
use mcp_tests::harness::{Chunker, ClientHarness, Rng};
use serde_json::{Value, json};

use crate::simulation::hostile_input::{arbitrary_line, mutate};
use crate::simulation::{assert_bounded, for_each_seed, tight_limits};

struct ClientSimulation {
    rng: Rng,
    harness: ClientHarness,
    /// Requests of the client without an answer.
    open_requests: Vec<Value>,
    calls: Vec<CallKey>,
    requests: Vec<CallId>,
    /// Open input requests of the server.
    inputs: Vec<InputId>,
    subscriptions: Vec<SubscriptionKey>,
    is_closed: bool,
    next_id: usize,
}

impl ClientSimulation {
    #[expect(deprecated, reason = "tested until its removal")]
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0xC11E);
        let versions = *rng.pick(&[VersionSet::ALL, VersionSet::LEGACY, VersionSet::MODERN]);
        let verdict = *rng.pick(&[None, None, Some(KnownEra::Modern), Some(KnownEra::Legacy)]);
        let mut limits = tight_limits(&mut rng);
        limits.max_faulty_messages = rng.percent(10).then_some(20);
        let config = Config::new("harbor-client", "0.3.0")
            .versions(versions)
            .known_era(verdict)
            .custom_method("harbor/name")
            .capabilities(Capabilities::new().with(Capability::Roots).with(Capability::Elicitation))
            .limits(limits);
        let chunker = *rng.pick(&[Chunker::Whole, Chunker::Seeded(seed), Chunker::Bytewise]);
        let harness = ClientHarness::client(config, chunker);
        let (open_requests, calls, requests) = (Vec::new(), Vec::new(), Vec::new());
        let (inputs, subscriptions) = (Vec::new(), Vec::new());
        Self {
            rng,
            harness,
            open_requests,
            calls,
            requests,
            inputs,
            subscriptions,
            is_closed: false,
            next_id: 0,
        }
    }

    fn call(&mut self) {
        let mut options = CallOptions::new();
        options.wants_progress = self.rng.percent(50);
        if self.rng.percent(30) {
            options = options.timeout(Duration::from_millis(self.rng.below(3_000) as u64));
        }
        let method = *self.rng.pick(&["tools/list", "custom/x", "ping", "resources/list", "tools/call"]);
        let now = self.harness.now;
        if let Ok(key) = self.harness.pipe.engine().call(now, method, &json!({"name": "a"}), &options) {
            assert!(!self.calls.contains(&key), "a key is reused");
            self.calls.push(key);
        }
    }

    fn cancel(&mut self) {
        if let Some(key) = self.calls.get(self.rng.below(8)) {
            self.harness
                .pipe
                .engine()
                .cancel(self.harness.now, *key, None)
                .expect("no event reported the end of the call");
        }
    }

    /// Answers a random request as the server.
    fn answer(&mut self) {
        if self.open_requests.is_empty() {
            return;
        }
        let at = self.rng.below(self.open_requests.len());
        let request =
            if self.rng.percent(90) { self.open_requests.remove(at) } else { self.open_requests[at].clone() };
        let method = request["method"].as_str().unwrap_or_default();
        let capabilities = json!({
            "tools": {"listChanged": true}, "resources": {"subscribe": true}, "logging": {},
        });
        let good = match method {
            "server/discover" => {
                let versions = *self.rng.pick(&[&["2026-07-28"][..], &["2025-11-25"], &["?"], &[]]);
                discover_result(versions, capabilities)
            }
            "initialize" => {
                let version = *self.rng.pick(&["2024-11-05", "2025-03-26", "2025-11-25"]);
                initialize_result(version, capabilities)
            }
            "tools/call" if self.rng.percent(60) => self.input_required(),
            _ => json!({"tools": [], "resources": []}),
        };
        let message = match self.rng.below(10) {
            0..=5 => result_response(&request, good),
            6 => error_response(&request, -32601, "Method not found", Value::Null),
            7 => {
                error_response(&request, -32022, "?", json!({"supported": ["2026-07-28"], "requested": "?"}))
            }
            8 => result_response(&request, json!([1])),
            _ => {
                let line = mutate(&mut self.rng, &result_response(&request, good).to_string());
                return self.harness.feed(line);
            }
        };
        self.harness.feed_message(&message);
    }

    /// Returns a result that needs input, which may be malformed.
    fn input_required(&mut self) -> Value {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let form = json!({"message": "m", "requestedSchema": schema});
        let form = json!({"method": "elicitation/create", "params": form});
        let requests = match self.rng.below(8) {
            0 => json!(null),
            1 => json!({}),
            2 => json!({"a": form, "b": {"method": "sampling/createMessage"}}),
            3..=5 => json!({"a": form, "b": {"method": "roots/list"}}),
            _ => json!({"a": {"method": "roots/list"}}),
        };
        let mut result = json!({"resultType": "input_required"});
        if self.rng.percent(70) {
            result["inputRequests"] = requests;
        }
        if self.rng.percent(60) {
            result["requestState"] = if self.rng.percent(95) { json!("state") } else { json!(7) };
        }
        result
    }

    /// Answers or refuses an input request as the application.
    fn answer_input(&mut self) {
        if self.inputs.is_empty() {
            return;
        }
        let id = self.inputs.remove(self.rng.below(self.inputs.len()));
        let (now, engine) = (self.harness.now, self.harness.pipe.engine());
        if self.rng.percent(80) {
            let answers = [json!({"action": "accept"}), json!({"roots": []})];
            let is_accepted = answers.iter().any(|answer| match engine.answer(now, id, answer) {
                Ok(()) => true,
                Err(UseError::InvalidInputResponse { .. }) => false,
                Err(error) => panic!("no event reported the withdrawal: {error}"),
            });
            assert!(is_accepted, "one of the answers fits");
        } else {
            engine.refuse(now, id, &RpcError::new(-1, "no")).expect("no event reported the withdrawal");
        }
        assert_eq!(engine.answer(now, id, &json!({})), Err(UseError::Stale));
    }

    #[expect(deprecated, reason = "tested until its removal")]
    fn toggle_subscription(&mut self) {
        let (now, engine) = (self.harness.now, self.harness.pipe.engine());
        let level = *self.rng.pick(&[Some("debug"), Some("error"), None]);
        if self.rng.percent(30) {
            let _ = engine.set_log_level(now, level.map(LoggingLevel::from));
        }
        if self.rng.percent(60) {
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

    /// Feeds a request or notification of the server.
    fn feed_server_message(&mut self) {
        let id = format!("s{}", self.next_id);
        self.next_id += 1;
        let token = self.open_requests.first().map_or_else(|| json!(1), |r| r["id"].clone());
        let progress = json!({"progressToken": token, "progress": self.rng.below(100)});
        let subscription = json!({"io.modelcontextprotocol/subscriptionId": token});
        let message = match self.rng.below(12) {
            8 => legacy_request(id, "roots/list", Value::Null),
            9 => notification(
                "notifications/subscriptions/acknowledged",
                json!({"_meta": subscription, "notifications": {"toolsListChanged": true}}),
            ),
            10 => notification("notifications/tools/list_changed", json!({"_meta": subscription})),
            11 => {
                let uri = format!("a:{}", self.rng.below(3));
                notification("notifications/resources/updated", json!({"uri": uri, "_meta": subscription}))
            }
            0 => legacy_request(id, "ping", Value::Null),
            1 => legacy_request(id, "harbor/name", json!({"_meta": {"progressToken": 1}})),
            2 => legacy_request(id, "unheard/of", Value::Null),
            3 => notification("notifications/progress", progress),
            4 => notification("notifications/message", json!({"level": "info", "data": 1})),
            5 => notification(
                "notifications/cancelled",
                json!({"requestId": format!("s{}", self.rng.below(self.next_id))}),
            ),
            6 => {
                json!([
                    legacy_request(format!("{id}b"), "ping", Value::Null),
                    notification("notifications/odd", Value::Null)
                ])
            }
            _ => {
                let line = arbitrary_line(&mut self.rng);
                return self.harness.feed(line);
            }
        };
        self.harness.feed_message(&message);
    }

    fn respond(&mut self) {
        if self.requests.is_empty() {
            return;
        }
        let id = self.requests.remove(self.rng.below(self.requests.len()));
        let (now, engine) = (self.harness.now, self.harness.pipe.engine());
        engine.progress(now, id, Progress::new(1.0)).expect("open");
        engine
            .respond(now, id, &json!({"name": "Mara"}))
            .expect("no event reported the cancellation of the request");
    }

    fn drain_events(&mut self) {
        self.harness.pump();
        while !self.harness.has_no_events() {
            assert!(!self.is_closed, "event after the end");
            match self.harness.expect_event() {
                Event::Done { call, .. } => {
                    let at = self.calls.iter().position(|key| *key == call);
                    self.calls.remove(at.expect("an open call"));
                }
                Event::Progress { call, .. } => assert!(self.calls.contains(&call), "an open call"),
                Event::Request(request) => self.requests.push(request.id),
                Event::RequestCancelled(id) => {
                    let at = self.requests.iter().position(|open| *open == id);
                    self.requests.remove(at.expect("an open request"));
                }
                Event::Input(input) => {
                    assert!(input.call.is_none_or(|call| self.calls.contains(&call)), "an open call");
                    assert!(!self.inputs.contains(&input.id), "a key is reused");
                    self.inputs.push(input.id);
                }
                Event::InputWithdrawn(id) => {
                    let at = self.inputs.iter().position(|open| *open == id);
                    self.inputs.remove(at.expect("an open input request"));
                }
                Event::Changed { key: None, .. } => {}
                Event::Subscribed { key, .. } | Event::Changed { key: Some(key), .. } => {
                    assert!(self.subscriptions.contains(&key), "an open subscription");
                }
                Event::SubscriptionEnded { key, .. } => {
                    let at = self.subscriptions.iter().position(|open| *open == key);
                    self.subscriptions.remove(at.expect("an open subscription"));
                }
                Event::Closed(_) => self.is_closed = true,
                _ => {}
            }
        }
        let requests = self
            .harness
            .take_sent()
            .into_iter()
            .filter(|m| m.get("method").is_some() && m.get("id").is_some());
        self.open_requests.extend(requests);
    }

    fn random_step(&mut self) {
        match self.rng.below(100) {
            0..=24 => self.call(),
            25..=29 => self.cancel(),
            30..=59 => self.answer(),
            60..=74 => self.feed_server_message(),
            75..=77 => self.respond(),
            78..=80 => self.answer_input(),
            81 => self.toggle_subscription(),
            82..=84 => self.harness.is_blocked = self.rng.percent(50),
            85..=96 => self.harness.advance(Duration::from_millis(self.rng.below(2_000) as u64)),
            _ => self.harness.advance(Duration::from_secs(self.rng.below(30) as u64)),
        }
        self.drain_events();
        if self.rng.percent(10) {
            assert_bounded(&self.harness.pipe);
        }
    }

    fn run(mut self) -> String {
        for _ in 0..30 + self.rng.below(150) {
            if self.is_closed {
                break;
            }
            self.random_step();
        }
        self.harness.is_blocked = false;
        self.drain_events();
        if self.rng.percent(50) {
            self.harness.eof();
        } else if self.rng.percent(50) {
            self.harness.pipe.engine().close(self.harness.now);
        } else {
            // Deadlines end every call and every input request after at most an hour.
            self.harness.advance(Duration::from_secs(10_000));
            self.drain_events();
            assert!(self.calls.is_empty() && self.inputs.is_empty(), "calls without an end");
            self.harness.eof();
        }
        self.drain_events();
        assert!(self.is_closed && self.calls.is_empty() && self.requests.is_empty(), "everything has ended");
        assert!(self.inputs.is_empty() && self.subscriptions.is_empty(), "everything has ended");
        assert!(mcp_proto::pipe::Pipe::is_drained(&self.harness.pipe));
        self.harness.advance(Duration::from_secs(10_000));
        self.harness.assert_idle();
        format!("{:#?}", self.harness.transcript)
    }
}

// covers: STDIO-011, STDIO-028, CANC-012, PROG-012, VER-020, BASE-020
#[test]
fn client_survives_random_server() {
    for_each_seed("client_survives_random_server", 300, |seed| ClientSimulation::new(seed).run());
}
