//! Fuzz target for a client over HTTP, driven by operations of the application, the server and the network.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::client::{self, Event, InputId, KnownEra};
use mcp_proto::http::client::{Action, Challenge, Client, Config, Credential, ExchangeFailure, ExchangeId};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{
    CallKey, CallOptions, Capabilities, Capability, Instant, Limits, RawJson, RpcError, UseError, VersionSet,
    head,
};

use super::input::FuzzInput;

/// An open exchange.
struct PostedExchange {
    method: &'static str,
    /// The id and the method of the posted message.
    id: String,
    rpc: String,
}

struct HttpClientRun {
    client: Client,
    limits: Limits,
    now: Instant,
    /// Outbound calls, and whether each has ended.
    calls: BTreeMap<CallKey, bool>,
    inputs: Vec<InputId>,
    open: BTreeMap<ExchangeId, PostedExchange>,
    /// All exchange ids that were ever assigned.
    seen: BTreeSet<ExchangeId>,
    challenge: Option<Challenge>,
    closed: bool,
}

/// Runs a list of operations and checks that every call and exchange ends, and that ids are never reused.
///
/// Every request goes to the origin of the endpoint, and its fields are valid, whatever the server has sent before.
#[expect(deprecated, reason = "tested until its removal")]
pub fn http_client_ops(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let mut limits = Limits::small();
    limits.max_frame = 600;
    limits.max_pending_calls = 6;
    let versions = match choices.below(4) {
        0 => VersionSet::ALL,
        1 => VersionSet::LEGACY,
        2 => VersionSet::MODERN,
        _ => VersionSet::only(mcp_proto::Version::V2025_03_26),
    };
    let known_era = [None, Some(KnownEra::Modern), Some(KnownEra::Legacy)].into_iter().nth(choices.below(3));
    let engine = client::Config::new("fuzz", "1")
        .capabilities(Capabilities::new().with(Capability::Roots).with(Capability::Elicitation))
        .versions(versions)
        .known_era(known_era.flatten())
        .limits(limits.clone());
    let flags = choices.byte();
    let config = Config::new("http://h/mcp").expect("a URL");
    let config = config.handle_challenges(flags & 1 != 0).open_get_stream(flags & 2 == 0).max_tools(2);
    let client = Client::new(Arc::new(engine), Arc::new(config), Instant::ZERO);
    let mut run = HttpClientRun {
        client,
        limits,
        now: Instant::ZERO,
        calls: BTreeMap::new(),
        inputs: Vec::new(),
        open: BTreeMap::new(),
        seen: BTreeSet::new(),
        challenge: None,
        closed: false,
    };
    run.settle();
    let mut steps = 0;
    while !choices.is_empty() && steps < 300 {
        steps += 1;
        run.step(&mut choices);
        run.settle();
    }
    run.end();
}

impl HttpClientRun {
    fn settle(&mut self) {
        for turn in 0.. {
            assert!(turn < 10_000, "polling does not terminate");
            if let Some(event) = self.client.poll_event(self.now) {
                self.handle_event(event);
                continue;
            }
            if let Some(challenge) = self.client.authorization().poll_challenge() {
                assert!(!self.closed, "challenge after the end");
                self.challenge = Some(challenge);
                continue;
            }
            match self.client.poll_exchange(self.now) {
                Some(Action::Send(open)) => {
                    assert!(self.seen.insert(open.exchange), "exchange id assigned twice");
                    let post = open.method == "POST";
                    assert_eq!(open.url.origin().to_string(), "http://h", "another origin sees the request");
                    for (name, value) in open.fields.iter() {
                        let is_valid = value.iter().all(|b| *b == b'\t' || (*b >= b' ' && *b != 0x7f));
                        assert!(head::is_token(name.as_bytes()) && is_valid, "invalid field {name}");
                    }
                    assert_eq!(post, !open.body.is_empty(), "{}", open.method);
                    assert!(!self.closed || open.method == "DELETE" || post);
                    let (id, rpc) = message(&open.body);
                    let known = PostedExchange { method: open.method, id, rpc };
                    assert!(self.open.insert(open.exchange, known).is_none());
                }
                Some(Action::Abort { exchange }) => {
                    assert!(self.open.remove(&exchange).is_some(), "aborted exchange is not open");
                }
                Some(other) => panic!("unknown action: {other:?}"),
                None => break,
            }
        }
        // Calls, requests of the client itself, messages in flight, those sent again, the last ones of an ended connection.
        let messages = if self.closed { 3 * 64 } else { 2 * 64 };
        let most = 2 * self.limits.max_pending_calls as usize + messages;
        assert!(self.open.len() <= most, "{} of {most}", self.open.len());
    }

    fn handle_event(&mut self, event: Event) {
        assert!(!self.closed, "after the end: {event:?}");
        match event {
            Event::Done { call, .. } => {
                assert_eq!(self.calls.insert(call, true), Some(false), "the call is not open");
            }
            Event::Input(input) => self.inputs.push(input.id),
            Event::InputWithdrawn(id) => self.inputs.retain(|i| *i != id),
            Event::Closed(_) => self.closed = true,
            _ => {}
        }
    }

    fn step(&mut self, choices: &mut FuzzInput<'_>) {
        match choices.below(16) {
            0 | 1 => self.call(choices),
            2 => {
                let key = self.calls.iter().find(|(_, ended)| !**ended).map(|(key, _)| *key);
                if let Some(key) = key {
                    let done = self.client.engine().cancel(self.now, key, None);
                    assert!(matches!(done, Ok(()) | Err(UseError::Stale)));
                }
            }
            3 => {
                let filter = SubscriptionFilter::new().tools_list_changed(true);
                let _ = self.client.engine().subscribe(self.now, &filter);
            }
            4 => {
                let _ = self.client.engine().notify(self.now, "x/y", None::<&u8>);
            }
            5 => self.answer_input(choices),
            6 => self.answer_challenge(choices),
            7 => self.advance_time(choices),
            8..=10 => self.whole_answer(choices),
            11 | 12 => self.head(choices),
            13 => self.body(choices),
            14 => {
                if let Some((x, _)) = self.pick(choices) {
                    self.open.remove(&x);
                    if choices.boolean() {
                        self.client.handle_end(self.now, x);
                    } else {
                        let failure = if choices.boolean() {
                            ExchangeFailure::interrupted("")
                        } else {
                            ExchangeFailure::unsent("")
                        };
                        self.client.handle_failure(self.now, x, failure);
                    }
                    // Events of a closed exchange have no effect.
                    self.client.handle_end(self.now, x);
                    self.client.handle_body(self.now, x, b"{}");
                }
            }
            _ => {
                if choices.below(16) == 0 {
                    self.client.close(self.now);
                }
            }
        }
    }

    fn call(&mut self, choices: &mut FuzzInput<'_>) {
        let mut options = CallOptions::new();
        if choices.boolean() {
            options = options.idempotent();
        }
        let (method, params) = match choices.below(3) {
            0 => ("tools/call", BTreeMap::from([("name", "t")])),
            1 => ("tools/list", BTreeMap::new()),
            _ => ("x/z", BTreeMap::new()),
        };
        if let Ok(key) = self.client.engine().call(self.now, method, &params, &options) {
            assert_eq!(self.calls.insert(key, false), None, "key assigned twice");
        }
    }

    fn answer_input(&mut self, choices: &mut FuzzInput<'_>) {
        let Some(id) = self.inputs.pop() else { return };
        let engine = self.client.engine();
        // A stale or mismatched answer is refused.
        let answer = BTreeMap::from([("action", "decline")]);
        if choices.boolean() || engine.answer(self.now, id, &answer).is_err() {
            let _ = engine.refuse(self.now, id, &RpcError::internal("no"));
        }
    }

    fn answer_challenge(&mut self, choices: &mut FuzzInput<'_>) {
        let Some(challenge) = self.challenge.take() else { return };
        let done = if choices.boolean() {
            let credential = Credential::bearer("t").expect("a token");
            self.client.authorization().authorize(self.now, challenge.exchange, credential)
        } else {
            self.client.authorization().refuse(self.now, challenge.exchange)
        };
        assert!(matches!(done, Ok(()) | Err(UseError::Stale)));
    }

    fn advance_time(&mut self, choices: &mut FuzzInput<'_>) {
        let at = match choices.below(3) {
            0 => self.client.poll_timeout(),
            1 => Some(self.now + Duration::from_millis(700)),
            _ => Some(self.now + Duration::from_secs(31)),
        };
        if let Some(at) = at {
            self.now = self.now.max(at);
            self.client.handle_timeout(self.now);
            self.settle();
            assert!(
                self.client.poll_timeout().is_none_or(|next| next > self.now),
                "the deadline did not advance"
            );
        }
    }

    fn pick(&self, choices: &mut FuzzInput<'_>) -> Option<(ExchangeId, (String, String, &'static str))> {
        let n = choices.below(self.open.len());
        let (x, known) = self.open.iter().nth(n)?;
        Some((*x, (known.id.clone(), known.rpc.clone(), known.method)))
    }

    fn head(&mut self, choices: &mut FuzzInput<'_>) {
        let Some((x, _)) = self.pick(choices) else { return };
        const STATUS: [u16; 16] =
            [200, 200, 200, 202, 204, 307, 400, 401, 403, 404, 404, 405, 409, 429, 500, 100];
        const FIELDS: [head::FieldLine<'_>; 10] = [
            ("content-type", b"application/json"),
            ("Content-Type", b"text/event-stream"),
            ("Content-Type", b"text/html"),
            ("mcp-session-id", b"s"),
            ("Mcp-Session-Id", b"\xff "),
            ("location", b"/other"),
            ("location", b"http://other/"),
            ("retry-after", b"3"),
            ("www-authenticate", b"Bearer error=\"insufficient_scope\""),
            ("x", b""),
        ];
        let status = STATUS[choices.below(STATUS.len())];
        if status == 100 {
            return self.free_head(x, choices);
        }
        let fields: Vec<_> = (0..choices.below(3)).map(|_| FIELDS[choices.below(FIELDS.len())]).collect();
        self.client.handle_head(self.now, x, &head::ResponseHead { status, fields: &fields });
    }

    /// Answers with a head that is drawn from the input.
    fn free_head(&mut self, x: ExchangeId, choices: &mut FuzzInput<'_>) {
        const FIELDS: [&str; 9] = [
            "content-type",
            "content-encoding",
            "mcp-session-id",
            "location",
            "retry-after",
            "www-authenticate",
            "allow",
            "content-length",
            "set-cookie",
        ];
        let status = match choices.below(4) {
            0 => 200,
            1 => 300 + choices.byte() as u16 % 10,
            2 => 400 + choices.byte() as u16 % 32,
            _ => 100 + (u16::from(choices.byte()) << 1) % 500,
        };
        let fields = choices.fields(4, &FIELDS);
        let fields: Vec<head::FieldLine<'_>> = fields.iter().map(|(n, v)| (&**n, &**v)).collect();
        self.client.handle_head(self.now, x, &head::ResponseHead { status, fields: &fields });
    }

    fn body(&mut self, choices: &mut FuzzInput<'_>) {
        let Some((x, _)) = self.pick(choices) else { return };
        let n = choices.below(40);
        let bytes = choices.take(n).to_vec();
        self.client.handle_body(self.now, x, &bytes);
    }

    /// Answers an exchange as a correct server might.
    fn whole_answer(&mut self, choices: &mut FuzzInput<'_>) {
        let Some((x, (id, rpc, method))) = self.pick(choices) else { return };
        let result = match &*rpc {
            "server/discover" => r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#,
            "initialize" => r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}"#,
            "tools/list" => {
                r#"{"tools":[{"name":"t","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}},{"name":"u","inputSchema":{"x-mcp-header":""}}]}"#
            }
            _ if choices.below(4) == 0 => {
                r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}"#
            }
            _ => r#"{"content":[]}"#,
        };
        let message = match choices.below(6) {
            0 => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32020,"message":"m"}}}}"#),
            1 => r#"{"jsonrpc":"2.0","id":9,"method":"roots/list"}"#.into(),
            _ => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        };
        let respond = |client: &mut Client, now, status, kind: &[u8], body: &str| {
            let fields: [head::FieldLine<'_>; 2] = [("content-type", kind), ("mcp-session-id", b"s")];
            client.handle_head(now, x, &head::ResponseHead { status, fields: &fields });
            client.handle_body(now, x, body.as_bytes());
        };
        match choices.below(6) {
            0 | 1 => respond(&mut self.client, self.now, 200, b"application/json", &message),
            2 => respond(&mut self.client, self.now, 400, b"application/json", &message),
            3 if method == "GET" => {
                let text = format!("event: endpoint\ndata: /post\n\nid: 1\ndata: {message}\n\n");
                respond(&mut self.client, self.now, 200, b"text/event-stream", &text);
            }
            _ => {
                let text = format!("id: {}\nretry: 5\ndata:\n\ndata: {message}\n\n", choices.byte());
                respond(&mut self.client, self.now, 200, b"text/event-stream", &text);
            }
        }
        if choices.boolean() {
            self.open.remove(&x);
            self.client.handle_end(self.now, x);
        }
    }

    /// Ends all exchanges and lets time pass, and checks that nothing is left.
    fn end(&mut self) {
        for _ in 0..400 {
            let Some(at) = self.client.poll_timeout() else { break };
            self.now = self.now.max(at);
            self.client.handle_timeout(self.now);
            let all: Vec<ExchangeId> = self.open.keys().copied().collect();
            for x in all {
                self.open.remove(&x);
                self.client.handle_failure(self.now, x, ExchangeFailure::interrupted("over"));
            }
            self.settle();
        }
        self.client.close(self.now);
        self.settle();
        assert!(self.closed, "not everything has ended");
        assert!(self.calls.values().all(|ended| *ended), "a call without an outcome");
        for _ in 0..100 {
            let Some(at) = self.client.poll_timeout() else { break };
            self.now = self.now.max(at);
            self.client.handle_timeout(self.now);
            self.settle();
        }
        assert!(self.open.is_empty() && self.client.is_drained(), "exchanges are left");
    }
}

/// Returns the id and the method of a message.
fn message(body: &[u8]) -> (String, String) {
    let message = RawJson::new(body.to_vec()).ok();
    let member = |name| message.as_ref().and_then(|message| message.member(name));
    let id = member("id").map_or_else(|| String::from("0"), |id| id.as_str().into());
    (id, member("method").and_then(|method| method.string()).unwrap_or_default())
}
