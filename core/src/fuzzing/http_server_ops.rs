//! A server over HTTP, driven by a list of operations: heads, bodies, hang-ups, answers, time.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::dice::Dice;
use crate::head::{BodySize, Field, Request};
use crate::http::server::{Config, Denial, Event, ExchangeId, Protected, Server};
use crate::model::{ElicitParams, ElicitSchema, InputRequest};
use crate::server::{self, Asking, Call};
use crate::slab::Key;
use crate::{
    Capabilities, Capability, Change, Diagnostic, Entropy, Instant, Limits, Progress, RequestId, RpcError,
};

/// Whatever is done in whatever order: a response is decided once and is as long as it says, nothing follows its end,
/// what was cancelled before it came is worked on by nobody, and everything else is, what is kept stays bounded, and when
/// everybody is gone and the time of sessions is over nothing is left
pub fn http_server_ops(data: &[u8]) {
    let mut dice = Dice::new(data);
    let how = dice.byte();
    let limits = Limits { max_live_calls: 4, max_frame: 600, max_early_cancels: EARLY, ..Limits::small() };
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
    let config = server::Config::new("fuzz", "1").capabilities(capabilities).limits(limits);
    let mut http = Config::new()
        .sessions(how & 1 == 0)
        .replay_bytes(if how & 2 == 0 { 600 } else { 0 })
        .max_sessions(3, 2)
        .max_exchanges(6)
        .max_streams_per_session(2)
        .session_idle(IDLE)
        .cors(how & 4 != 0)
        .http_sse("/sse", "/post");
    if how & 8 != 0 {
        http = http.protected(Protected::new("https://x/meta").scope("a"));
    }
    let server = Server::new(Arc::new(config), Arc::new(http), Entropy::new([1; 32], 0));
    let mut play = Play {
        server,
        now: Instant::from_micros(1),
        open: BTreeMap::new(),
        calls: Vec::new(),
        sessions: BTreeSet::new(),
        events: BTreeSet::new(),
        early: VecDeque::new(),
        held: Vec::new(),
    };
    for _ in 0..200 {
        if dice.is_empty() {
            break;
        }
        play.step(&mut dice);
    }
    play.end();
}

const IDLE: Duration = Duration::from_secs(60);
/// Early cancellations that are remembered, and how many of them are one session's
const EARLY: usize = 4;
const EARLY_SHARE: usize = 1;

/// What came of an exchange
#[derive(Default)]
struct Reply {
    head: Option<(u16, BodySize)>,
    body: Vec<u8>,
}

struct Play {
    server: Server,
    now: Instant,
    open: BTreeMap<ExchangeId, Reply>,
    calls: Vec<Call>,
    sessions: BTreeSet<String>,
    events: BTreeSet<String>,
    /// What was cancelled before it came: of which session, its id, and when
    early: VecDeque<(Key, RequestId, Instant)>,
    held: Vec<ExchangeId>,
}

const META: &str = concat!(
    "\"_meta\":{\"progressToken\":1,\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",",
    "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{}}}"
);

impl Play {
    fn step(&mut self, dice: &mut Dice<'_>) {
        match dice.below(12) {
            0..=3 => self.request(dice),
            4 => {
                let nth = dice.below(self.open.len());
                if let Some(x) = self.open.keys().nth(nth).copied() {
                    self.open.remove(&x);
                    self.server.handle_gone(self.now, x);
                }
            }
            5 => self.answer(dice),
            6 => {
                let (nth, n) = (dice.below(self.calls.len()), dice.byte());
                if let Some(call) = self.calls.get(nth) {
                    let _ = self.server.engine().progress(self.now, call.id(), Progress::new(f64::from(n)));
                }
            }
            7 => _ = self.server.engine().publish(self.now, &Change::Tools),
            8 => {
                let nth = dice.below(self.calls.len());
                if let Some(call) = self.calls.get(nth) {
                    self.server.poll_later(self.now, call.id(), None);
                }
            }
            9 => {
                let n = dice.byte();
                let unit = Duration::from_millis(if n < 128 { 50 } else { 1_000 });
                self.now = self.now + unit * u32::from(n);
                self.server.handle_timeout(self.now);
            }
            10 => {
                let (granted, who) = (dice.flag(), if dice.flag() { "a" } else { "b" });
                if let Some(x) = self.held.pop() {
                    if granted {
                        self.server.grant(self.now, x, who);
                    } else {
                        self.server.deny(self.now, x, &Denial::InvalidToken);
                    }
                    self.body(x, dice);
                } else {
                    self.race(granted, dice);
                }
            }
            _ => self.pull(usize::from(dice.byte())),
        }
        if !dice.flag() {
            self.pull(usize::MAX);
        }
        self.hear();
    }

    fn request(&mut self, dice: &mut Dice<'_>) {
        let method = ["POST", "POST", "GET", "DELETE", "OPTIONS", "PUT"][dice.below(6)];
        let pick = |set: &BTreeSet<String>, nth: usize| set.iter().nth(nth % set.len().max(1)).cloned();
        let session = pick(&self.sessions, dice.below(4)).filter(|_| dice.below(4) > 0);
        let event = pick(&self.events, dice.below(8)).filter(|_| method == "GET" && dice.flag());
        let target = match dice.below(8) {
            0 => "/sse".into(),
            1 => format!("/post?sessionId={}", session.as_deref().unwrap_or("x")),
            2 => String::from("/nowhere"),
            _ => String::from("/mcp"),
        };
        let mut fields: Vec<(&str, String)> = Vec::from([
            ("Host", String::from(if dice.below(20) == 0 { "evil" } else { "localhost" })),
            ("Accept", String::from(if dice.below(20) == 0 { "x/y" } else { "*/*" })),
            ("Content-Type", String::from("application/json")),
            ("Authorization", String::from("Bearer t")),
        ]);
        if dice.below(3) == 0 {
            fields.push((
                "MCP-Protocol-Version",
                String::from(["2026-07-28", "2025-11-25", "x"][dice.below(3)]),
            ));
            fields.push(("Mcp-Method", String::from(["tools/call", "ping", "initialize"][dice.below(3)])));
            fields.push(("Mcp-Name", String::from("t")));
        }
        fields.extend(session.map(|id| ("Mcp-Session-Id", id)));
        fields.extend(event.map(|id| ("Last-Event-ID", id)));
        let all: Vec<Field<'_>> = fields.iter().map(|(n, v)| (*n, v.as_bytes())).collect();
        let x = self.server.open(self.now, &Request { method, target: &target, fields: &all }, None);
        assert!(self.open.insert(x, Reply::default()).is_none(), "a key that was in use");
        self.body(x, dice);
    }

    /// A call and its cancellation, in whichever order they arrive
    fn race(&mut self, overtaken: bool, dice: &mut Dice<'_>) {
        let (nth, id) = (dice.below(self.sessions.len()), dice.below(4));
        let Some(session) = self.sessions.iter().nth(nth).cloned() else { return };
        let both = [Self::call(id, ""), Self::cancel(id)];
        for text in if overtaken { [&both[1], &both[0]] } else { [&both[0], &both[1]] } {
            let fields: [Field<'_>; 4] = [
                ("Host", b"localhost"),
                ("Accept", b"*/*"),
                ("Content-Type", b"application/json"),
                ("Mcp-Session-Id", session.as_bytes()),
            ];
            let request = Request { method: "POST", target: "/mcp", fields: &fields };
            let x = self.server.open(self.now, &request, None);
            assert!(self.open.insert(x, Reply::default()).is_none(), "a key that was in use");
            if self.server.wants_body(x) {
                self.server.handle_body(self.now, x, Bytes::copy_from_slice(text.as_bytes()));
                self.server.handle_end(self.now, x);
            }
            self.hear();
        }
    }

    /// Sends a body if it is wanted, in pieces or not, to its end or not
    fn body(&mut self, x: ExchangeId, dice: &mut Dice<'_>) {
        if !self.server.wants_body(x) {
            return;
        }
        let text = Self::message(dice);
        let at = dice.below(text.len() + 1);
        let (first, second) = text.split_at(at);
        self.server.handle_body(self.now, x, Bytes::copy_from_slice(first));
        self.server.handle_body(self.now, x, Bytes::copy_from_slice(second));
        if dice.below(8) > 0 {
            self.server.handle_end(self.now, x);
        }
    }

    fn call(id: usize, meta: &str) -> String {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"t\",\"arguments\":{{\"id\":{id}}}{meta}}}}}"
        )
    }

    fn cancel(id: usize) -> String {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}"
        )
    }

    fn message(dice: &mut Dice<'_>) -> Vec<u8> {
        let id = dice.below(4);
        let text = match dice.below(12) {
            0 | 1 => format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"initialize\",\"params\":{{\"protocolVersion\":\"{}\",\"capabilities\":{{\"elicitation\":{{}}}},\"clientInfo\":{{\"name\":\"x\",\"version\":\"1\"}}}}}}",
                ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"][dice.below(4)]
            ),
            2 => String::from("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"),
            3 | 4 => Self::call(id, &format!(",{META}")),
            5 | 6 => Self::call(id, ",\"_meta\":{\"progressToken\":1}"),
            7 => Self::cancel(id),
            8 => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"action\":\"decline\"}}}}"),
            9 => format!("[{},{}]", Self::call(id, ""), Self::call(id, &format!(",{META}"))),
            10 => format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"subscriptions/listen\",\"params\":{{\"notifications\":{{\"toolsListChanged\":true}},{META}}}}}"
            ),
            _ => {
                let n = dice.below(700);
                return dice.take(n).to_vec();
            }
        };
        text.into_bytes()
    }

    fn answer(&mut self, dice: &mut Dice<'_>) {
        let nth = dice.below(self.calls.len());
        if nth >= self.calls.len() {
            return;
        }
        let call = self.calls.swap_remove(nth);
        let engine = self.server.engine();
        // Calls that were cancelled are stale, and refused as such.
        let _ = match dice.below(4) {
            0 => engine.fail(self.now, call.id(), &RpcError::method_not_found("x")),
            1 => {
                let mut asking = Asking::new();
                let form = ElicitParams::form("?", ElicitSchema::default());
                let _ = asking.ask(&call, "k", InputRequest::Elicit(form));
                engine.ask(self.now, &call, &asking)
            }
            _ => engine.complete(self.now, call.id(), &crate::model::CallToolResult::text("done")),
        };
    }

    fn hear(&mut self) {
        while let Some(event) = self.server.poll_event(self.now) {
            match event {
                Event::Server(server::Event::Call(call)) => {
                    let arguments: BTreeMap<String, i64> =
                        call.tool().ok().and_then(|tool| tool.parse().ok()).unwrap_or_default();
                    let stream = call.channel().0;
                    let session = self.server.engine().home_of(stream).unwrap_or(stream);
                    if let Some(id) = arguments.get("id") {
                        assert!(
                            !self.was_cancelled(session, &RequestId::int(*id)),
                            "cancelled, and worked on"
                        );
                    }
                    self.calls.push(call);
                }
                Event::Server(server::Event::Diagnostic { channel, diagnostic }) => {
                    self.odd(channel.0, diagnostic);
                }
                Event::Server(_) => {}
                Event::Token { exchange, .. } => self.held.push(exchange),
            }
        }
    }

    fn odd(&mut self, session: Key, diagnostic: Diagnostic) {
        match diagnostic {
            // A session's: what comes on no session can be overtaken by nothing.
            Diagnostic::UnknownCancel(id) if self.server.engine().session_version(session).is_some() => {
                self.was_cancelled(session, &id);
                let mut own = self.early.iter().enumerate().filter(|(_, (of, ..))| *of == session);
                match (own.next(), own.count() + 1) {
                    (Some((oldest, _)), EARLY_SHARE..) => _ = self.early.remove(oldest),
                    _ if self.early.len() == EARLY => _ = self.early.pop_front(),
                    _ => {}
                }
                self.early.push_back((session, id, self.now));
            }
            Diagnostic::CancelledEarly(id) => {
                assert!(self.was_cancelled(session, &id), "not cancelled, and not worked on");
            }
            _ => {}
        }
    }

    /// Whether a request that comes was cancelled in the last seconds; it is that once
    fn was_cancelled(&mut self, session: Key, id: &RequestId) -> bool {
        let now = self.now;
        self.early.retain(|(.., at)| *at + Duration::from_secs(5) > now);
        let place = self.early.iter().position(|(of, other, _)| *of == session && other == id);
        place.and_then(|place| self.early.remove(place)).is_some()
    }

    /// Takes what there is, of each at most so much at a time
    fn pull(&mut self, most: usize) {
        while let Some(x) = self.server.poll_ready(self.now) {
            self.take(x, most);
        }
        let open: Vec<ExchangeId> = self.open.keys().copied().collect();
        for x in open {
            self.take(x, most);
        }
    }

    fn take(&mut self, x: ExchangeId, most: usize) {
        let Some(reply) = self.open.get_mut(&x) else { return };
        let Some(response) = self.server.response(x) else {
            assert!(self.server.transmit(self.now, x).is_empty(), "a body before its head");
            return;
        };
        let head = (response.status, response.size);
        assert!((200..=599).contains(&head.0), "no status: {}", head.0);
        assert_eq!(*reply.head.get_or_insert(head), head, "another head than before");
        for (name, value) in response.fields.iter() {
            if name.eq_ignore_ascii_case("mcp-session-id") {
                self.sessions.insert(String::from_utf8_lossy(value).into_owned());
            }
        }
        let n = {
            let bytes = self.server.transmit(self.now, x);
            let n = bytes.len().min(most);
            reply.body.extend_from_slice(&bytes[..n]);
            n
        };
        self.server.consume(x, n);
        for line in reply.body.split(|b| *b == b'\n') {
            if let Some(id) = line.strip_prefix(b"id: ") {
                if self.events.len() < 64 {
                    self.events.insert(String::from_utf8_lossy(id).into_owned());
                }
            }
            if let Some((_, id)) = core::str::from_utf8(line).ok().and_then(|l| l.split_once("sessionId=")) {
                self.sessions.insert(id.into());
            }
        }
        if let BodySize::Exact(length) = head.1 {
            assert!(reply.body.len() as u64 <= length, "longer than it says");
        }
        if self.server.is_finished(x) {
            if let BodySize::Exact(length) = head.1 {
                assert_eq!(reply.body.len() as u64, length, "shorter than it says");
            }
            self.open.remove(&x);
            self.server.release(self.now, x);
            assert!(self.server.response(x).is_none() && self.server.transmit(self.now, x).is_empty());
        }
    }

    /// Everybody leaves, every call is answered, and the time of sessions passes
    fn end(&mut self) {
        for x in core::mem::take(&mut self.open).into_keys() {
            self.server.handle_gone(self.now, x);
        }
        for _ in 0..20 {
            self.hear();
            for call in core::mem::take(&mut self.calls) {
                let _ = self.server.engine().fail(self.now, call.id(), &RpcError::internal("over"));
            }
            while self.server.poll_ready(self.now).is_some() {}
            let Some(at) = self.server.poll_timeout() else { break };
            // Questions that nobody answers have an hour.
            self.now = self.now.max(at) + Duration::from_secs(600);
            self.server.handle_timeout(self.now);
        }
        self.hear();
        assert_eq!((self.server.exchanges(), self.server.sessions()), (0, 0), "something is kept");
        assert_eq!(self.server.engine().live_calls(), 0, "calls are kept");
    }
}
