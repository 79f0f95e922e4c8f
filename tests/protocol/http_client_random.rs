//! HTTP client with a random server: each call ends once, and none that may have run is sent again.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use mcp_proto::client::{Event, KnownEra, RefuseTarget};
use mcp_proto::http::client::{Action, Client, Credential, ExchangeFailure, ExchangeId};
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_proto::{
    CallKey, CallOptions, Capabilities, Capability, Instant, RpcError, Version, VersionSet, head,
};
use mcp_tests::harness::build::{
    discover_result, error_response, initialize_result, legacy_request, notification, result_response,
};
use mcp_tests::harness::{HttpClientHarness, Rng, rounds};
use serde_json::{Value, json};

use crate::protocol::common::{client, ms, secs};

/// Progress of the response of an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ResponseStage {
    AwaitingHead,
    Body,
    EventStream,
}

#[derive(Debug)]
struct OpenExchange {
    method: &'static str,
    body: Value,
    stage: ResponseStage,
    has_session: bool,
}

/// State of one tool call, by its argument.
#[derive(Debug, Default)]
struct IssuedCall {
    is_retryable: bool,
    has_ended: bool,
    /// True if a server may have run the call.
    may_have_run: bool,
}

struct RandomHttpClient {
    rng: Rng,
    now: Instant,
    client: Client,
    open: BTreeMap<ExchangeId, OpenExchange>,
    calls: BTreeMap<CallKey, u64>,
    issued: BTreeMap<u64, IssuedCall>,
    challenge: Option<ExchangeId>,
    pending_inputs: Vec<RefuseTarget>,
    next_mark: u64,
    is_closed: bool,
    /// True if calls have no timeouts.
    has_no_timeouts: bool,
    log: Vec<String>,
}

fn call_mark(body: &Value) -> Option<u64> {
    body.pointer("/params/arguments/mark")?.as_u64()
}

impl RandomHttpClient {
    #[expect(deprecated, reason = "tested until its removal")]
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let versions = *rng.pick(&[VersionSet::ALL, VersionSet::ALL, VersionSet::MODERN, VersionSet::LEGACY]);
        let mut config = client(versions)
            .capabilities(Capabilities::new().with(Capability::Roots).with(Capability::Elicitation));
        if rng.percent(10) && versions == VersionSet::ALL {
            config = config.known_era(*rng.pick(&[KnownEra::Legacy, KnownEra::Modern]));
        }
        let http = HttpClientHarness::default_http_config()
            .handle_challenges(rng.percent(50))
            .open_get_stream(rng.percent(80));
        let client = Client::new(Arc::new(config), Arc::new(http), Instant::ZERO);
        let has_no_timeouts = rng.percent(50);
        Self {
            rng,
            has_no_timeouts,
            now: Instant::ZERO,
            client,
            open: BTreeMap::new(),
            calls: BTreeMap::new(),
            issued: BTreeMap::new(),
            challenge: None,
            pending_inputs: Vec::new(),
            next_mark: 0,
            is_closed: false,
            log: Vec::new(),
        }
    }

    fn pump(&mut self) {
        loop {
            if let Some(event) = self.client.poll_event(self.now) {
                self.log.push(format!("{} {event:?}", self.now));
                assert!(!self.is_closed, "an event came after `Closed`");
                match event {
                    Event::Done { call, .. } => {
                        let mark = self.calls.remove(&call).expect("a call ends once");
                        self.issued.entry(mark).or_default().has_ended = true;
                    }
                    Event::Input(input) => self.pending_inputs.push(input.id.into()),
                    Event::InputWithdrawn(id) => {
                        self.pending_inputs.retain(|i| *i != RefuseTarget::Input(id))
                    }
                    Event::Closed(_) => self.is_closed = true,
                    _ => {}
                }
                continue;
            }
            if let Some(challenge) = self.client.authorization().poll_challenge() {
                self.challenge = Some(challenge.exchange);
            }
            match self.client.poll_exchange(self.now) {
                Some(Action::Send(open)) => {
                    let body: Value = serde_json::from_slice(&open.body).unwrap_or(Value::Null);
                    self.log.push(format!("{} {} {body} {:?}", self.now, open.method, open.exchange));
                    if let (Some(mark), true) = (call_mark(&body), body["method"] == "tools/call") {
                        let issued = self.issued.entry(mark).or_default();
                        assert!(!issued.has_ended, "sent after the call had ended");
                        assert!(!issued.may_have_run || issued.is_retryable, "sent twice");
                        issued.may_have_run = true;
                    }
                    let session = open.fields.iter().any(|(n, _)| n.eq_ignore_ascii_case("mcp-session-id"));
                    let new = OpenExchange {
                        method: open.method,
                        body,
                        stage: ResponseStage::AwaitingHead,
                        has_session: session,
                    };
                    assert!(self.open.insert(open.exchange, new).is_none());
                }
                Some(Action::Abort { exchange }) => {
                    self.log.push(format!("{} abort {exchange:?}", self.now));
                    assert!(self.open.remove(&exchange).is_some(), "aborted an exchange that is not open");
                }
                Some(other) => panic!("{other:?}"),
                None => return,
            }
        }
    }

    fn advance(&mut self, span: core::time::Duration) {
        let until = self.now + span;
        for _ in 0..100_000 {
            let next = self.client.poll_timeout().filter(|at| *at <= until);
            self.now = next.unwrap_or(until).max(self.now);
            self.client.handle_timeout(self.now);
            self.pump();
            if next.is_none() {
                return;
            }
        }
        panic!("deadlines never run out");
    }

    // ---- application -----------------------------------------------------------------------------------------

    #[expect(deprecated, reason = "tested until its removal")]
    fn random_command(&mut self) {
        let now = self.now;
        match self.rng.below(16) {
            0..=5 => {
                self.next_mark += 1;
                let repeatable = self.rng.percent(25);
                let mut options = CallOptions::new();
                options.idempotent = repeatable;
                if self.has_no_timeouts {
                    options = options.timeout(secs(1_000_000)).total_timeout(secs(1_000_000));
                } else if self.rng.percent(30) {
                    options = options.timeout(ms(1 + self.rng.next() % 20_000));
                }
                let params = json!({"name": "wave", "arguments": {"mark": self.next_mark}});
                if let Ok(key) = self.client.engine().call(now, "tools/call", &params, &options) {
                    self.calls.insert(key, self.next_mark);
                    self.issued.insert(
                        self.next_mark,
                        IssuedCall { is_retryable: repeatable, ..IssuedCall::default() },
                    );
                }
            }
            6..=7 => {
                let keys: Vec<CallKey> = self.calls.keys().copied().collect();
                if let Some(key) = keys.get(self.rng.below(keys.len())) {
                    // Often before the call could be sent.
                    let _ = self.client.engine().cancel(now, *key, None);
                    self.pump();
                }
            }
            8 => {
                let filter = SubscriptionFilter::new().tools_list_changed(true);
                let _ = self.client.engine().subscribe(now, &filter.resource_subscriptions(["a:b".into()]));
            }
            9 => drop(self.client.engine().set_log_level(now, Some(LoggingLevel::Error))),
            10 => drop(self.client.engine().notify(now, "x/y", None::<&Value>)),
            11..=12 => {
                if let Some(input) = self.pending_inputs.pop() {
                    let _ = self.client.engine().refuse(now, input, &RpcError::internal("no"));
                }
            }
            13 => {
                if let Some(exchange) = self.challenge.take() {
                    let credential = Credential::bearer("x").expect("a token");
                    let _ = self.client.authorization().authorize(now, exchange, credential);
                }
            }
            14 => {
                if let Some(exchange) = self.challenge.take() {
                    let _ = self.client.authorization().refuse(now, exchange);
                }
            }
            _ if self.rng.percent(3) => self.client.close(now),
            _ => {}
        }
    }

    // ---- server ----------------------------------------------------------------------------------------------

    fn answer(&mut self, body: &Value) -> Value {
        let capabilities =
            json!({"tools": {"listChanged": true}, "logging": {}, "resources": {"subscribe": true}});
        match body["method"].as_str() {
            Some("server/discover") => {
                let versions: &[&str] = if self.rng.percent(80) { &["2026-07-28"] } else { &["2025-06-18"] };
                result_response(body, discover_result(versions, capabilities))
            }
            Some("initialize") => {
                result_response(body, initialize_result(Version::V2025_11_25.as_str(), capabilities))
            }
            _ => result_response(body, json!({"resultType": "complete", "content": []})),
        }
    }

    fn message(&mut self, body: &Value) -> Value {
        let id = self.rng.below(3);
        match self.rng.below(12) {
            0..=4 => self.answer(body),
            5 => error_response(body, -32000, "no", Value::Null),
            6 => error_response(&json!({}), -32000, "no", Value::Null),
            7 => {
                let method = *self.rng.pick::<&str>(&["ping", "roots/list", "x/z"]);
                legacy_request(id, method, Value::Null)
            }
            8 => notification("notifications/tools/list_changed", Value::Null),
            9 => {
                let meta = json!({"io.modelcontextprotocol/subscriptionId": body["id"]});
                let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
                notification("notifications/subscriptions/acknowledged", params)
            }
            10 => {
                // The answer to another request.
                let others: Vec<Value> = self.open.values().map(|o| o.body.clone()).collect();
                let other = self.rng.pick(&others).clone();
                if other.is_null() { json!({}) } else { self.answer(&other) }
            }
            _ => self.rng.pick(&[json!([]), json!(7), json!({"jsonrpc": "2.0", "id": 1})]).clone(),
        }
    }

    /// Records that the server refused the request, so that it has not run.
    fn respond_with_error(&mut self, x: ExchangeId) {
        let mark = self.open.get(&x).and_then(|o| call_mark(&o.body));
        if let Some(issued) = mark.and_then(|mark| self.issued.get_mut(&mark)) {
            issued.may_have_run = false;
        }
    }

    fn head(&mut self, x: ExchangeId, status: u16, fields: &[(&str, &str)]) {
        self.log.push(format!("{} head {x:?} {status} {fields:?}", self.now));
        let fields: Vec<head::FieldLine<'_>> = fields.iter().map(|(n, v)| (*n, v.as_bytes())).collect();
        self.client.handle_head(self.now, x, &head::ResponseHead { status, fields: &fields });
    }

    fn serve(&mut self) {
        let keys: Vec<ExchangeId> = self.open.keys().copied().collect();
        let Some(x) = keys.get(self.rng.below(keys.len())).copied() else { return };
        let (body, at, method, session) = match self.open.get(&x) {
            Some(o) => (o.body.clone(), o.stage, o.method, o.has_session),
            None => return,
        };
        let now = self.now;
        if self.rng.percent(4) {
            self.log.push(format!("{now} breaks {x:?}"));
            if at == ResponseStage::AwaitingHead && self.rng.percent(50) {
                self.respond_with_error(x);
                self.client.handle_failure(now, x, ExchangeFailure::unsent("no"));
            } else {
                self.client.handle_failure(now, x, ExchangeFailure::interrupted("no"));
            }
            self.open.remove(&x);
            return;
        }
        match at {
            ResponseStage::AwaitingHead => self.begin(x, &body, method, session),
            ResponseStage::EventStream => {
                let text = match self.rng.below(10) {
                    0 => String::from(": hello\n\n"),
                    1 => format!("id: {}\nretry: {}\ndata:\n\n", self.rng.below(9), self.rng.below(3_000)),
                    2 => String::from("event: endpoint\ndata: /messages\n\n"),
                    3 => {
                        self.log.push(format!("{now} end {x:?}"));
                        self.open.remove(&x);
                        return self.client.handle_end(now, x);
                    }
                    n => {
                        let message = self.message(&body);
                        let id =
                            if n % 2 == 0 { format!("id: {}\n", self.rng.below(99)) } else { String::new() };
                        format!("{id}data: {message}\n\n")
                    }
                };
                self.log.push(format!("{now} event {x:?} {text:?}"));
                self.client.handle_body(now, x, text.as_bytes());
            }
            ResponseStage::Body => {
                let text = if self.rng.percent(80) { self.message(&body).to_string() } else { String::new() };
                self.log.push(format!("{now} body {x:?} {text}"));
                self.client.handle_body(now, x, text.as_bytes());
                self.pump();
                if self.open.remove(&x).is_some() {
                    self.client.handle_end(now, x);
                }
            }
        }
    }

    fn begin(&mut self, x: ExchangeId, body: &Value, method: &str, session: bool) {
        let is_one_way = method == "POST" && (body["id"].is_null() || body["method"].is_null());
        let is_opening = matches!(body["method"].as_str(), Some("server/discover" | "initialize"));
        if is_opening && self.rng.percent(60) {
            let text = self.answer(body).to_string();
            self.head(x, 200, &[("content-type", "application/json"), ("mcp-session-id", "s")]);
            self.open.remove(&x);
            self.client.handle_body(self.now, x, text.as_bytes());
            return self.client.handle_end(self.now, x);
        }
        let status = match self.rng.below(20) {
            0..=12 if is_one_way || method == "DELETE" => 202,
            0..=12 => 200,
            13 => 404,
            _ => *self.rng.pick(&[202, 204, 307, 400, 401, 403, 404, 405, 409, 429, 500, 503]),
        };
        // These statuses mean that the request was not run; 503 does not promise that.
        let refuses = matches!(status, 401 | 307) || (status == 404 && session);
        if refuses {
            self.respond_with_error(x);
        }
        let as_event_stream = method == "GET" || self.rng.percent(50);
        let content_type = match self.rng.below(10) {
            0 => "text/html",
            _ if as_event_stream && status < 300 => "text/event-stream",
            _ => "application/json",
        };
        let id = self.rng.next().to_string();
        let mut fields =
            vec![("content-type", content_type), ("location", "/elsewhere"), ("retry-after", "2")];
        if self.rng.percent(80) {
            fields.push(("mcp-session-id", &id));
        }
        if let Some(open) = self.open.get_mut(&x) {
            open.stage = if content_type == "text/event-stream" {
                ResponseStage::EventStream
            } else {
                ResponseStage::Body
            };
        }
        self.head(x, status, &fields);
        self.pump();
        if matches!(status, 202 | 204 | 307 | 401) && self.open.remove(&x).is_some() {
            self.client.handle_end(self.now, x);
        }
    }
}

fn run(world: &mut RandomHttpClient) {
    world.pump();
    for _ in 0..150 {
        match world.rng.below(10) {
            0..=2 => world.random_command(),
            3..=7 => world.serve(),
            8 => {
                let span = ms(world.rng.next() % 3_000);
                world.advance(span);
            }
            _ if world.rng.percent(5) => world.advance(secs(100)),
            _ => {}
        }
        if world.rng.percent(80) {
            world.pump();
        }
    }
    world.pump();
    if world.has_no_timeouts {
        // The server goes away: everything ends without a timeout.
        for _ in 0..40 {
            if let Some(exchange) = world.challenge.take() {
                let _ = world.client.authorization().refuse(world.now, exchange);
            }
            for (x, open) in core::mem::take(&mut world.open) {
                let failure = if open.stage == ResponseStage::AwaitingHead {
                    ExchangeFailure::unsent("no")
                } else {
                    ExchangeFailure::interrupted("no")
                };
                world.log.push(format!("{} gone {x:?} {failure:?}", world.now));
                let issued = call_mark(&open.body).and_then(|mark| world.issued.get_mut(&mark));
                if let Some(issued) = issued.filter(|_| !failure.may_have_been_sent) {
                    issued.may_have_run = false;
                }
                world.client.handle_failure(world.now, x, failure);
            }
            world.advance(secs(60));
        }
    } else {
        // The server falls silent: everything ends by timeouts.
        world.advance(secs(3 * 3_600));
    }
    assert!(world.calls.is_empty(), "calls that never ended: {:?}", world.calls);
    let left_open = world.open.values().filter(|o| o.body["method"] == "tools/call").count();
    assert_eq!(left_open, 0, "exchanges of ended calls are still open");
    world.client.close(world.now);
    world.pump();
    assert!(world.is_closed, "`Closed` was not reported");
    world.advance(secs(10));
    assert!(world.client.is_drained(), "exchanges are left: {:?}", world.open);
    assert!(world.open.is_empty(), "{:?}", world.open);
}

/// Runs one seed, and prints its log if it fails.
fn run_seed(seed: u64) {
    let mut world = RandomHttpClient::new(seed);
    let outcome = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| run(&mut world)));
    if let Err(panic) = outcome {
        eprintln!("seed {seed}:\n{}", world.log.join("\n"));
        std::panic::resume_unwind(panic);
    }
}

// covers: HTTP-044, HTTP-062, HTTP-072, BASE-005, TIME-001, SEC-018
#[test]
fn each_call_ends_once_and_runs_at_most_once_with_a_random_server() {
    for seed in 0..rounds(600) {
        run_seed(seed);
    }
}
