//! Over HTTP: servers that do anything at any moment; each call ends once, and none that may have run is sent again.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use mcp_proto::client::{Asked, Event, Verdict};
use mcp_proto::http::client::{Action, Client, Credential, ExchangeId, Failure};
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_proto::{
    CallKey, CallOptions, Capabilities, Capability, Instant, RpcError, Version, VersionSet, head,
};
use mcp_tests::harness::build::{discovery, error, initialized, legacy, note, result};
use mcp_tests::harness::{LoneHttp, Rng};
use serde_json::{Value, json};

use crate::common::{client, ms, secs};

/// How far the answer to an exchange has come
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Asked,
    Body,
    Events,
}

#[derive(Debug)]
struct Open {
    method: &'static str,
    body: Value,
    at: At,
    session: bool,
}

/// What is known of one call of a tool, by its argument
#[derive(Debug, Default)]
struct Made {
    repeatable: bool,
    ended: bool,
    /// A server may have run it
    ran: bool,
}

struct World {
    rng: Rng,
    now: Instant,
    client: Client,
    open: BTreeMap<ExchangeId, Open>,
    calls: BTreeMap<CallKey, u64>,
    made: BTreeMap<u64, Made>,
    challenge: Option<ExchangeId>,
    inputs: Vec<Asked>,
    serial: u64,
    closed: bool,
    /// Calls have no time-outs
    patient: bool,
    log: Vec<String>,
}

fn mark(body: &Value) -> Option<u64> {
    body.pointer("/params/arguments/mark")?.as_u64()
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let versions = *rng.pick(&[VersionSet::ALL, VersionSet::ALL, VersionSet::MODERN, VersionSet::LEGACY]);
        let mut config = client(versions)
            .capabilities(Capabilities::new().with(Capability::Roots).with(Capability::Elicitation));
        if rng.chance(10) && versions == VersionSet::ALL {
            config = config.verdict(*rng.pick(&[Verdict::Legacy, Verdict::Modern]));
        }
        let http = LoneHttp::http().asks_for_credentials(rng.chance(50)).listen(rng.chance(80));
        let client = Client::new(Arc::new(config), Arc::new(http), Instant::ZERO);
        let patient = rng.chance(50);
        Self {
            rng,
            patient,
            now: Instant::ZERO,
            client,
            open: BTreeMap::new(),
            calls: BTreeMap::new(),
            made: BTreeMap::new(),
            challenge: None,
            inputs: Vec::new(),
            serial: 0,
            closed: false,
            log: Vec::new(),
        }
    }

    fn pump(&mut self) {
        loop {
            if let Some(event) = self.client.poll_event(self.now) {
                self.log.push(format!("{} {event:?}", self.now));
                assert!(!self.closed, "nothing is told after the end");
                match event {
                    Event::Done { call, .. } => {
                        let mark = self.calls.remove(&call).expect("a call ends once");
                        self.made.entry(mark).or_default().ended = true;
                    }
                    Event::Input(input) => self.inputs.push(input.id.into()),
                    Event::InputGone(id) => self.inputs.retain(|i| *i != Asked::Input(id)),
                    Event::Closed(_) => self.closed = true,
                    _ => {}
                }
                continue;
            }
            if let Some(challenge) = self.client.poll_challenge() {
                self.challenge = Some(challenge.exchange);
            }
            match self.client.poll_exchange(self.now) {
                Some(Action::Open(open)) => {
                    let body: Value = serde_json::from_slice(&open.body).unwrap_or(Value::Null);
                    self.log.push(format!("{} {} {body} {:?}", self.now, open.method, open.exchange));
                    if let (Some(mark), true) = (mark(&body), body["method"] == "tools/call") {
                        let made = self.made.entry(mark).or_default();
                        assert!(!made.ended, "sent when nobody waits any more");
                        assert!(!made.ran || made.repeatable, "sent twice");
                        made.ran = true;
                    }
                    let session = open.fields.iter().any(|(n, _)| n.eq_ignore_ascii_case("mcp-session-id"));
                    let new = Open { method: open.method, body, at: At::Asked, session };
                    assert!(self.open.insert(open.exchange, new).is_none());
                }
                Some(Action::Abort { exchange }) => {
                    self.log.push(format!("{} abort {exchange:?}", self.now));
                    assert!(self.open.remove(&exchange).is_some(), "aborted, and not open");
                }
                Some(other) => panic!("{other:?}"),
                None => return,
            }
        }
    }

    fn pass(&mut self, span: core::time::Duration) {
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
        panic!("deadlines without end");
    }

    // ---- the application -------------------------------------------------------------------------------------

    fn command(&mut self) {
        let now = self.now;
        match self.rng.below(16) {
            0..=5 => {
                self.serial += 1;
                let repeatable = self.rng.chance(25);
                let mut options = CallOptions::new();
                options.repeatable = repeatable;
                if self.patient {
                    options = options.timeout(secs(1_000_000)).total(secs(1_000_000));
                } else if self.rng.chance(30) {
                    options = options.timeout(ms(1 + self.rng.next() % 20_000));
                }
                let params = json!({"name": "wave", "arguments": {"mark": self.serial}});
                if let Ok(key) = self.client.engine().call(now, "tools/call", &params, &options) {
                    self.calls.insert(key, self.serial);
                    self.made.insert(self.serial, Made { repeatable, ..Made::default() });
                }
            }
            6..=7 => {
                let keys: Vec<CallKey> = self.calls.keys().copied().collect();
                if let Some(key) = keys.get(self.rng.below(keys.len())) {
                    // Often before it could be sent.
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
                if let Some(asked) = self.inputs.pop() {
                    let _ = self.client.engine().refuse(now, asked, &RpcError::internal("no"));
                }
            }
            13 => {
                if let Some(exchange) = self.challenge.take() {
                    let credential = Credential::bearer("x").expect("a token");
                    let _ = self.client.authorize(now, exchange, credential);
                }
            }
            14 => {
                if let Some(exchange) = self.challenge.take() {
                    let _ = self.client.refuse(now, exchange);
                }
            }
            _ if self.rng.chance(3) => self.client.close(now),
            _ => {}
        }
    }

    // ---- the server ------------------------------------------------------------------------------------------

    fn answer(&mut self, body: &Value) -> Value {
        let can = json!({"tools": {"listChanged": true}, "logging": {}, "resources": {"subscribe": true}});
        match body["method"].as_str() {
            Some("server/discover") => {
                let versions: &[&str] = if self.rng.chance(80) { &["2026-07-28"] } else { &["2025-06-18"] };
                result(body, discovery(versions, can))
            }
            Some("initialize") => result(body, initialized(Version::V2025_11_25.as_str(), can)),
            _ => result(body, json!({"resultType": "complete", "content": []})),
        }
    }

    fn message(&mut self, body: &Value) -> Value {
        let id = self.rng.below(3);
        match self.rng.below(12) {
            0..=4 => self.answer(body),
            5 => error(body, -32000, "no", Value::Null),
            6 => error(&json!({}), -32000, "no", Value::Null),
            7 => {
                let method = *self.rng.pick::<&str>(&["ping", "roots/list", "x/z"]);
                legacy(id, method, Value::Null)
            }
            8 => note("notifications/tools/list_changed", Value::Null),
            9 => {
                let meta = json!({"io.modelcontextprotocol/subscriptionId": body["id"]});
                let told = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
                note("notifications/subscriptions/acknowledged", told)
            }
            10 => {
                // The answer to what somebody else asks.
                let others: Vec<Value> = self.open.values().map(|o| o.body.clone()).collect();
                let other = self.rng.pick(&others).clone();
                if other.is_null() { json!({}) } else { self.answer(&other) }
            }
            _ => self.rng.pick(&[json!([]), json!(7), json!({"jsonrpc": "2.0", "id": 1})]).clone(),
        }
    }

    /// A refusal: the server has not run what was asked
    fn refused(&mut self, x: ExchangeId) {
        let repeated = self.open.get(&x).and_then(|o| mark(&o.body));
        if let Some(made) = repeated.and_then(|mark| self.made.get_mut(&mark)) {
            made.ran = false;
        }
    }

    fn head(&mut self, x: ExchangeId, status: u16, fields: &[(&str, &str)]) {
        self.log.push(format!("{} head {x:?} {status} {fields:?}", self.now));
        let fields: Vec<head::Field<'_>> = fields.iter().map(|(n, v)| (*n, v.as_bytes())).collect();
        self.client.handle_head(self.now, x, &head::Response { status, fields: &fields });
    }

    fn serve(&mut self) {
        let keys: Vec<ExchangeId> = self.open.keys().copied().collect();
        let Some(x) = keys.get(self.rng.below(keys.len())).copied() else { return };
        let (body, at, method, session) = match self.open.get(&x) {
            Some(o) => (o.body.clone(), o.at, o.method, o.session),
            None => return,
        };
        let now = self.now;
        if self.rng.chance(4) {
            self.log.push(format!("{now} breaks {x:?}"));
            if at == At::Asked && self.rng.chance(50) {
                self.refused(x);
                self.client.handle_failure(now, x, Failure::unsent("no"));
            } else {
                self.client.handle_failure(now, x, Failure::broken("no"));
            }
            self.open.remove(&x);
            return;
        }
        match at {
            At::Asked => self.begin(x, &body, method, session),
            At::Events => {
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
            At::Body => {
                let text = if self.rng.chance(80) { self.message(&body).to_string() } else { String::new() };
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
        let tells = method == "POST" && (body["id"].is_null() || body["method"].is_null());
        let opens = matches!(body["method"].as_str(), Some("server/discover" | "initialize"));
        if opens && self.rng.chance(60) {
            let text = self.answer(body).to_string();
            self.head(x, 200, &[("content-type", "application/json"), ("mcp-session-id", "s")]);
            self.open.remove(&x);
            self.client.handle_body(self.now, x, text.as_bytes());
            return self.client.handle_end(self.now, x);
        }
        let status = match self.rng.below(20) {
            0..=12 if tells || method == "DELETE" => 202,
            0..=12 => 200,
            13 => 404,
            _ => *self.rng.pick(&[202, 204, 307, 400, 401, 403, 404, 405, 409, 429, 500, 503]),
        };
        // What these refuse was not run; that a 503 was not is not to be relied on.
        let refuses = matches!(status, 401 | 307) || (status == 404 && session);
        if refuses {
            self.refused(x);
        }
        let events = method == "GET" || self.rng.chance(50);
        let kind = match self.rng.below(10) {
            0 => "text/html",
            _ if events && status < 300 => "text/event-stream",
            _ => "application/json",
        };
        let id = self.rng.next().to_string();
        let mut fields = vec![("content-type", kind), ("location", "/elsewhere"), ("retry-after", "2")];
        if self.rng.chance(80) {
            fields.push(("mcp-session-id", &id));
        }
        if let Some(open) = self.open.get_mut(&x) {
            open.at = if kind == "text/event-stream" { At::Events } else { At::Body };
        }
        self.head(x, status, &fields);
        self.pump();
        if matches!(status, 202 | 204 | 307 | 401) && self.open.remove(&x).is_some() {
            self.client.handle_end(self.now, x);
        }
    }
}

fn run(world: &mut World) {
    world.pump();
    for _ in 0..150 {
        match world.rng.below(10) {
            0..=2 => world.command(),
            3..=7 => world.serve(),
            8 => {
                let span = ms(world.rng.next() % 3_000);
                world.pass(span);
            }
            _ if world.rng.chance(5) => world.pass(secs(100)),
            _ => {}
        }
        if world.rng.chance(80) {
            world.pump();
        }
    }
    world.pump();
    if world.patient {
        // The server goes away: everything ends, and no clock is needed for it.
        for _ in 0..40 {
            if let Some(exchange) = world.challenge.take() {
                let _ = world.client.refuse(world.now, exchange);
            }
            for (x, open) in core::mem::take(&mut world.open) {
                let failure =
                    if open.at == At::Asked { Failure::unsent("no") } else { Failure::broken("no") };
                world.log.push(format!("{} gone {x:?} {failure:?}", world.now));
                let made = mark(&open.body).and_then(|mark| world.made.get_mut(&mark));
                if let Some(made) = made.filter(|_| !failure.sent) {
                    made.ran = false;
                }
                world.client.handle_failure(world.now, x, failure);
            }
            world.pass(secs(60));
        }
    } else {
        // The server falls silent: everything ends by itself.
        world.pass(secs(3 * 3_600));
    }
    assert!(world.calls.is_empty(), "calls without an end: {:?}", world.calls);
    let left = world.open.values().filter(|o| o.body["method"] == "tools/call").count();
    assert_eq!(left, 0, "exchanges of calls that have ended");
    world.client.close(world.now);
    world.pump();
    assert!(world.closed, "the end is told");
    world.pass(secs(10));
    assert!(world.client.is_drained(), "nothing is left: {:?}", world.open);
    assert!(world.open.is_empty(), "{:?}", world.open);
}

/// One schedule, which is shown when something is wrong
fn one(seed: u64) {
    let mut world = World::new(seed);
    let outcome = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| run(&mut world)));
    if let Err(why) = outcome {
        eprintln!("seed {seed}:\n{}", world.log.join("\n"));
        std::panic::resume_unwind(why);
    }
}

// covers: HTTP-044, HTTP-062, HTTP-072, BASE-005, TIME-001, SEC-018
#[test]
fn whatever_a_server_does_each_call_ends_once_and_none_runs_twice() {
    for seed in 0..600 {
        one(seed);
    }
}
