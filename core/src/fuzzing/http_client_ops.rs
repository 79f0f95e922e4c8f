//! A client over HTTP under whatever an application, a server and a network may do, in any order.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::dice::Dice;
use crate::client::{self, Event, InputId, Verdict};
use crate::head;
use crate::http::client::{Action, Challenge, Client, Config, Credential, ExchangeId, Failure};
use crate::model::SubscriptionFilter;
use crate::{
    CallKey, CallOptions, Capabilities, Capability, Instant, Limits, RpcError, UseError, VersionSet,
};

/// What is known of an exchange that is open
struct Known {
    method: &'static str,
    /// The id and the method of what was posted
    id: String,
    rpc: String,
}

struct Play {
    client: Client,
    limits: Limits,
    now: Instant,
    /// Each call, and whether it has ended
    calls: BTreeMap<CallKey, bool>,
    inputs: Vec<InputId>,
    open: BTreeMap<ExchangeId, Known>,
    /// All keys that were ever given out
    seen: BTreeSet<ExchangeId>,
    challenge: Option<Challenge>,
    closed: bool,
}

/// Plays one list of operations
pub fn http_client_ops(data: &[u8]) {
    let mut dice = Dice::new(data);
    let limits = Limits { max_frame: 600, max_pending_calls: 6, ..Limits::small() };
    let versions = match dice.below(4) {
        0 => VersionSet::ALL,
        1 => VersionSet::LEGACY,
        2 => VersionSet::MODERN,
        _ => VersionSet::only(crate::Version::V2025_03_26),
    };
    let verdict = [None, Some(Verdict::Modern), Some(Verdict::Legacy)].into_iter().nth(dice.below(3));
    let engine = client::Config::new("fuzz", "1")
        .capabilities(Capabilities::new().with(Capability::Roots).with(Capability::Elicitation))
        .versions(versions)
        .verdict(verdict.flatten())
        .limits(limits.clone());
    let how = dice.byte();
    let config = Config::new("http://h/mcp").expect("a URL");
    let config = config.asks_for_credentials(how & 1 != 0).listen(how & 2 == 0).max_tools(2);
    let client = Client::new(Arc::new(engine), Arc::new(config), Instant::ZERO);
    let mut play = Play {
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
    play.settle();
    let mut steps = 0;
    while !dice.is_empty() && steps < 300 {
        steps += 1;
        play.step(&mut dice);
        play.settle();
    }
    play.end();
}

impl Play {
    fn settle(&mut self) {
        for turn in 0.. {
            assert!(turn < 10_000, "no end of it");
            if let Some(event) = self.client.poll_event(self.now) {
                self.event(event);
                continue;
            }
            if let Some(challenge) = self.client.poll_challenge() {
                assert!(!self.closed, "nobody is asked after the end");
                self.challenge = Some(challenge);
                continue;
            }
            match self.client.poll_exchange(self.now) {
                Some(Action::Open(open)) => {
                    assert!(self.seen.insert(open.exchange), "a key that was given out before");
                    let post = open.method == "POST";
                    assert_eq!(post, !open.body.is_empty(), "{}", open.method);
                    assert!(!self.closed || open.method == "DELETE" || post);
                    let (id, rpc) = message(&open.body);
                    let known = Known { method: open.method, id, rpc };
                    assert!(self.open.insert(open.exchange, known).is_none());
                }
                Some(Action::Abort { exchange }) => {
                    assert!(self.open.remove(&exchange).is_some(), "aborted what is not open");
                }
                None => break,
            }
        }
        // Requests, those of the client's own, messages on their way, and streams.
        assert!(
            self.open.len() <= 2 * self.limits.max_pending_calls as usize + 64 + 64,
            "{}",
            self.open.len()
        );
    }

    fn event(&mut self, event: Event) {
        assert!(!self.closed, "after the end: {event:?}");
        match event {
            Event::Done { call, .. } => {
                assert_eq!(self.calls.insert(call, true), Some(false), "ended before or never begun");
            }
            Event::Input(input) => self.inputs.push(input.id),
            Event::InputGone(id) => self.inputs.retain(|i| *i != id),
            Event::Closed(_) => self.closed = true,
            _ => {}
        }
    }

    fn step(&mut self, dice: &mut Dice<'_>) {
        match dice.below(16) {
            0 | 1 => self.call(dice),
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
            5 => self.answer_input(dice),
            6 => self.answer_challenge(dice),
            7 => self.pass(dice),
            8..=10 => self.whole_answer(dice),
            11 | 12 => self.head(dice),
            13 => self.body(dice),
            14 => {
                if let Some((x, _)) = self.pick(dice) {
                    self.open.remove(&x);
                    if dice.flag() {
                        self.client.handle_end(self.now, x);
                    } else {
                        let failure = if dice.flag() { Failure::broken("") } else { Failure::unsent("") };
                        self.client.handle_failure(self.now, x, failure);
                    }
                    // Said twice it means nothing more.
                    self.client.handle_end(self.now, x);
                    self.client.handle_body(self.now, x, b"{}");
                }
            }
            _ => {
                if dice.below(16) == 0 {
                    self.client.close(self.now);
                }
            }
        }
    }

    fn call(&mut self, dice: &mut Dice<'_>) {
        let mut options = CallOptions::new();
        if dice.flag() {
            options = options.repeatable();
        }
        let (method, params) = match dice.below(3) {
            0 => ("tools/call", BTreeMap::from([("name", "t")])),
            1 => ("tools/list", BTreeMap::new()),
            _ => ("x/z", BTreeMap::new()),
        };
        if let Ok(key) = self.client.engine().call(self.now, method, &params, &options) {
            assert_eq!(self.calls.insert(key, false), None, "a key given out twice");
        }
    }

    fn answer_input(&mut self, dice: &mut Dice<'_>) {
        let Some(id) = self.inputs.pop() else { return };
        let engine = self.client.engine();
        if dice.flag() || engine.answer(self.now, id, &BTreeMap::from([("action", "decline")])).is_err() {
            let _ = engine.refuse(self.now, id, &RpcError::internal("no"));
        }
    }

    fn answer_challenge(&mut self, dice: &mut Dice<'_>) {
        let Some(challenge) = self.challenge.take() else { return };
        let done = if dice.flag() {
            let credential = Credential::bearer("t").expect("a token");
            self.client.authorize(self.now, challenge.exchange, credential)
        } else {
            self.client.refuse(self.now, challenge.exchange)
        };
        assert!(matches!(done, Ok(()) | Err(UseError::Stale)));
    }

    fn pass(&mut self, dice: &mut Dice<'_>) {
        let at = match dice.below(3) {
            0 => self.client.poll_timeout(),
            1 => Some(self.now + Duration::from_millis(700)),
            _ => Some(self.now + Duration::from_secs(31)),
        };
        if let Some(at) = at {
            self.now = self.now.max(at);
            self.client.handle_timeout(self.now);
            self.settle();
            assert!(self.client.poll_timeout().is_none_or(|next| next > self.now), "a deadline that stays");
        }
    }

    fn pick(&self, dice: &mut Dice<'_>) -> Option<(ExchangeId, (String, String, &'static str))> {
        let n = dice.below(self.open.len());
        let (x, known) = self.open.iter().nth(n)?;
        Some((*x, (known.id.clone(), known.rpc.clone(), known.method)))
    }

    fn head(&mut self, dice: &mut Dice<'_>) {
        let Some((x, _)) = self.pick(dice) else { return };
        const STATUS: [u16; 16] =
            [200, 200, 200, 202, 204, 307, 400, 401, 403, 404, 404, 405, 409, 429, 500, 100];
        const FIELDS: [head::Field<'_>; 10] = [
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
        let status = STATUS[dice.below(STATUS.len())];
        let fields: Vec<_> = (0..dice.below(3)).map(|_| FIELDS[dice.below(FIELDS.len())]).collect();
        self.client.handle_head(self.now, x, &head::Response { status, fields: &fields });
    }

    fn body(&mut self, dice: &mut Dice<'_>) {
        let Some((x, _)) = self.pick(dice) else { return };
        let n = dice.below(40);
        let bytes = dice.take(n).to_vec();
        self.client.handle_body(self.now, x, &bytes);
    }

    /// What a server in order might say
    fn whole_answer(&mut self, dice: &mut Dice<'_>) {
        let Some((x, (id, rpc, method))) = self.pick(dice) else { return };
        let result = match &*rpc {
            "server/discover" => r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#,
            "initialize" => r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}"#,
            "tools/list" => {
                r#"{"tools":[{"name":"t","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}},{"name":"u","inputSchema":{"x-mcp-header":""}}]}"#
            }
            _ if dice.below(4) == 0 => {
                r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}"#
            }
            _ => r#"{"content":[]}"#,
        };
        let message = match dice.below(6) {
            0 => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32020,"message":"m"}}}}"#),
            1 => r#"{"jsonrpc":"2.0","id":9,"method":"roots/list"}"#.into(),
            _ => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        };
        let say = |client: &mut Client, now, status, kind: &[u8], body: &str| {
            let fields: [head::Field<'_>; 2] = [("content-type", kind), ("mcp-session-id", b"s")];
            client.handle_head(now, x, &head::Response { status, fields: &fields });
            client.handle_body(now, x, body.as_bytes());
        };
        match dice.below(6) {
            0 | 1 => say(&mut self.client, self.now, 200, b"application/json", &message),
            2 => say(&mut self.client, self.now, 400, b"application/json", &message),
            3 if method == "GET" => {
                let text = format!("event: endpoint\ndata: /post\n\nid: 1\ndata: {message}\n\n");
                say(&mut self.client, self.now, 200, b"text/event-stream", &text);
            }
            _ => {
                let text = format!("id: {}\nretry: 5\ndata:\n\ndata: {message}\n\n", dice.byte());
                say(&mut self.client, self.now, 200, b"text/event-stream", &text);
            }
        }
        if dice.flag() {
            self.open.remove(&x);
            self.client.handle_end(self.now, x);
        }
    }

    /// Whatever happened, everything comes to an end
    fn end(&mut self) {
        for _ in 0..400 {
            let Some(at) = self.client.poll_timeout() else { break };
            self.now = self.now.max(at);
            self.client.handle_timeout(self.now);
            let all: Vec<ExchangeId> = self.open.keys().copied().collect();
            for x in all {
                self.open.remove(&x);
                self.client.handle_failure(self.now, x, Failure::broken("over"));
            }
            self.settle();
        }
        self.client.close(self.now);
        self.settle();
        assert!(self.closed, "no end");
        assert!(self.calls.values().all(|ended| *ended), "a call without an outcome");
        for _ in 0..100 {
            let Some(at) = self.client.poll_timeout() else { break };
            self.now = self.now.max(at);
            self.client.handle_timeout(self.now);
            self.settle();
        }
        assert!(self.open.is_empty() && self.client.is_drained(), "something is left");
    }
}

/// The id and the method of a message
fn message(body: &[u8]) -> (String, String) {
    let (mut id, mut method) = (String::from("0"), String::new());
    crate::json::object_members(body, |name, value| {
        let text = || String::from(core::str::from_utf8(value).expect("text"));
        match name {
            b"id" => id = text(),
            b"method" => method = text().trim_matches('"').into(),
            _ => {}
        }
    });
    (id, method)
}
