//! Fuzz target for a server over HTTP, driven by a list of operations: heads, bodies, disconnects, answers, time.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use core::time::Duration;

use bytes::Bytes;
use mcp_proto::head::{BodySize, FieldLine, RequestHead};
use mcp_proto::http::server::{Config, Denial, Dpop, Event, ExchangeId, Protected, Server};
use mcp_proto::internals::find_session;
use mcp_proto::model::{ElicitParams, ElicitSchema, InputRequest};
use mcp_proto::server::{self, Call, Identity, InputRequired};
use mcp_proto::tap::ChannelId;
use mcp_proto::{
    Capabilities, Capability, Change, Diagnostic, Entropy, Instant, Limits, Progress, RequestId, RpcError,
};

use super::input::FuzzInput;

/// Runs a list of operations and checks the invariants of the server.
///
/// - A response is decided once and has the announced length. Nothing follows its end.
/// - A call that was cancelled before it arrived is not delivered; every other call is.
/// - Memory stays bounded.
/// - A head without a local host is refused. The fields of a response are valid whatever the request was.
/// - Nothing is left after all clients have gone and all sessions have expired.
#[expect(deprecated, reason = "tested until its removal")]
pub fn http_server_ops(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let flags = choices.byte();
    let mut limits = Limits::small();
    limits.max_live_calls = 4;
    limits.max_frame = 600;
    limits.max_early_cancellations = EARLY;
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
    let config = server::Config::new("fuzz", "1").capabilities(capabilities).limits(limits);
    let mut http = Config::new()
        .sessions(flags & 1 == 0)
        .replay_bytes(if flags & 2 == 0 { 600 } else { 0 })
        .max_sessions(3, 2)
        .max_exchanges(6)
        .max_streams_per_session(2)
        .session_idle_timeout(IDLE)
        .cors(flags & 4 != 0)
        .http_sse("/sse", "/post");
    if flags & 8 != 0 {
        let protected = Protected::new("https://x/mcp", "https://y").and_then(|p| p.scope("a"));
        let dpop = if flags & 16 != 0 { Dpop::Accepted } else { Dpop::Off };
        match protected {
            Ok(protected) => http = http.protected(protected.dpop(dpop)),
            Err(error) => panic!("{error}"),
        }
    }
    let server = Server::new(Arc::new(config), Arc::new(http), Entropy::new([1; 32], 0));
    let mut run = HttpServerRun {
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
        if choices.is_empty() {
            break;
        }
        run.step(&mut choices);
    }
    run.end();
}

const IDLE: Duration = Duration::from_secs(60);
/// Number of remembered early cancellations, in all and per session.
const EARLY: usize = 4;
const EARLY_SHARE: usize = 1;

/// The response to an exchange.
#[derive(Default)]
struct ObservedReply {
    head: Option<(u16, BodySize)>,
    body: Vec<u8>,
}

struct HttpServerRun {
    server: Server,
    now: Instant,
    open: BTreeMap<ExchangeId, ObservedReply>,
    calls: Vec<Call>,
    sessions: BTreeSet<String>,
    events: BTreeSet<String>,
    /// Early cancellations: session, request id and time.
    early: VecDeque<(ChannelId, RequestId, Instant)>,
    held: Vec<ExchangeId>,
}

const META: &str = concat!(
    "\"_meta\":{\"progressToken\":1,\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",",
    "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{}}}"
);

impl HttpServerRun {
    fn step(&mut self, choices: &mut FuzzInput<'_>) {
        match choices.below(12) {
            0..=3 => self.request(choices),
            4 => {
                let index = choices.below(self.open.len());
                if let Some(x) = self.open.keys().nth(index).copied() {
                    self.open.remove(&x);
                    self.server.handle_gone(self.now, x);
                }
            }
            5 => self.answer(choices),
            6 => {
                let (index, n) = (choices.below(self.calls.len()), choices.byte());
                if let Some(call) = self.calls.get(index) {
                    let _ = self.server.engine().progress(self.now, call.id(), Progress::new(f64::from(n)));
                }
            }
            7 => _ = self.server.engine().publish(self.now, &Change::Tools),
            8 => {
                let index = choices.below(self.calls.len());
                if let Some(call) = self.calls.get(index) {
                    self.server.poll_later(self.now, call.id(), None);
                }
            }
            9 => {
                let n = choices.byte();
                let unit = Duration::from_millis(if n < 128 { 50 } else { 1_000 });
                self.now = self.now + unit * u32::from(n);
                self.server.handle_timeout(self.now);
            }
            10 => {
                let (granted, principal) = (choices.boolean(), if choices.boolean() { "a" } else { "b" });
                if let Some(x) = self.held.pop() {
                    if granted {
                        let scopes = if choices.byte() % 8 == 0 { "b" } else { "a b" };
                        let lifetime = Duration::from_secs(u64::from(choices.byte()));
                        let identity = Identity::new(principal).scopes(scopes).valid_for(lifetime);
                        self.server.grant(self.now, x, identity);
                    } else {
                        self.server.deny(self.now, x, &Denial::invalid_token());
                    }
                    self.body(x, choices);
                } else {
                    self.race_cancellation(granted, choices);
                }
            }
            _ => self.drain_responses(usize::from(choices.byte())),
        }
        if !choices.boolean() {
            self.drain_responses(usize::MAX);
        }
        self.poll_events();
    }

    /// Sends a request whose head is drawn from the input.
    fn free_request(&mut self, choices: &mut FuzzInput<'_>) {
        const METHODS: [&str; 6] = ["POST", "GET", "DELETE", "OPTIONS", "PUT", "BREW"];
        const TARGETS: [&str; 4] = ["/mcp", "/sse", "/post?sessionId=x", "*"];
        const FIELDS: [&str; 16] = [
            "Host",
            "Origin",
            "Accept",
            "Content-Type",
            "Content-Encoding",
            "Authorization",
            "MCP-Protocol-Version",
            "Mcp-Method",
            "Mcp-Name",
            "Mcp-Session-Id",
            "Last-Event-ID",
            "Mcp-Param-A",
            "Access-Control-Request-Method",
            "Access-Control-Request-Headers",
            "Content-Length",
            "Expect",
        ];
        let (method, which) = (METHODS[choices.below(METHODS.len())], choices.below(TARGETS.len() + 1));
        let length = choices.below(30);
        let target = match TARGETS.get(which) {
            Some(target) => String::from(*target),
            None => choices.take(length).iter().map(|b| char::from(b'!' + b % 94)).collect(),
        };
        let mut fields = choices.fields(6, &FIELDS);
        // Without these nothing else of the head is looked at.
        let defaults = [("Host", "localhost"), ("Accept", "*/*"), ("Content-Type", "application/json")];
        for (name, value) in defaults {
            if choices.below(4) > 0 && !fields.iter().any(|(other, _)| other == name) {
                fields.push((name.into(), value.into()));
            }
        }
        self.open(method, &target, &fields, choices);
    }

    /// Opens an exchange and sends its body.
    fn open(
        &mut self,
        method: &str,
        target: &str,
        fields: &[(impl AsRef<str>, impl AsRef<[u8]>)],
        choices: &mut FuzzInput<'_>,
    ) {
        let all: Vec<FieldLine<'_>> = fields.iter().map(|(n, v)| (n.as_ref(), v.as_ref())).collect();
        let x = self.server.open(self.now, &RequestHead { method, target, fields: &all }, None);
        assert!(self.open.insert(x, ObservedReply::default()).is_none(), "exchange id in use");
        let has_host = all.iter().any(|(name, value)| *name == "Host" && *value == b"localhost");
        let refused = self.server.response(x).is_some_and(|response| response.status >= 400);
        assert!(has_host || refused, "a request without a local host was accepted");
        self.body(x, choices);
    }

    fn request(&mut self, choices: &mut FuzzInput<'_>) {
        let method = ["POST", "POST", "GET", "DELETE", "OPTIONS", "PUT"][choices.below(6)];
        if method == "PUT" {
            return self.free_request(choices);
        }
        let pick = |set: &BTreeSet<String>, index: usize| set.iter().nth(index % set.len().max(1)).cloned();
        let session = pick(&self.sessions, choices.below(4)).filter(|_| choices.below(4) > 0);
        let event = pick(&self.events, choices.below(8)).filter(|_| method == "GET" && choices.boolean());
        let target = match choices.below(8) {
            0 => "/sse".into(),
            1 => format!("/post?sessionId={}", session.as_deref().unwrap_or("x")),
            2 => String::from("/nowhere"),
            _ => String::from("/mcp"),
        };
        let mut fields: Vec<(&str, String)> = Vec::from([
            ("Host", String::from(if choices.below(20) == 0 { "evil" } else { "localhost" })),
            ("Accept", String::from(if choices.below(20) == 0 { "x/y" } else { "*/*" })),
            ("Content-Type", String::from("application/json")),
            ("Authorization", String::from("Bearer t")),
        ]);
        if choices.below(3) == 0 {
            fields.push((
                "MCP-Protocol-Version",
                String::from(["2026-07-28", "2025-11-25", "x"][choices.below(3)]),
            ));
            fields.push(("Mcp-Method", String::from(["tools/call", "ping", "initialize"][choices.below(3)])));
            fields.push(("Mcp-Name", String::from("t")));
        }
        fields.extend(session.map(|id| ("Mcp-Session-Id", id)));
        fields.extend(event.map(|id| ("Last-Event-ID", id)));
        self.open(method, &target, &fields, choices);
    }

    /// Sends a call and its cancellation, in either order.
    fn race_cancellation(&mut self, overtaken: bool, choices: &mut FuzzInput<'_>) {
        let (index, id) = (choices.below(self.sessions.len()), choices.below(4));
        let Some(session) = self.sessions.iter().nth(index).cloned() else { return };
        let both = [Self::call(id, ""), Self::cancel(id)];
        for text in if overtaken { [&both[1], &both[0]] } else { [&both[0], &both[1]] } {
            let fields: [FieldLine<'_>; 4] = [
                ("Host", b"localhost"),
                ("Accept", b"*/*"),
                ("Content-Type", b"application/json"),
                ("Mcp-Session-Id", session.as_bytes()),
            ];
            let request = RequestHead { method: "POST", target: "/mcp", fields: &fields };
            let x = self.server.open(self.now, &request, None);
            assert!(self.open.insert(x, ObservedReply::default()).is_none(), "exchange id in use");
            if self.server.wants_body(x) {
                self.server.handle_body(self.now, x, Bytes::copy_from_slice(text.as_bytes()));
                self.server.handle_end(self.now, x);
            }
            self.poll_events();
        }
    }

    /// Sends a body if it is wanted: in one or two pieces, complete or not.
    fn body(&mut self, x: ExchangeId, choices: &mut FuzzInput<'_>) {
        if !self.server.wants_body(x) {
            return;
        }
        let text = Self::message(choices);
        let at = choices.below(text.len() + 1);
        let (first, second) = text.split_at(at);
        self.server.handle_body(self.now, x, Bytes::copy_from_slice(first));
        self.server.handle_body(self.now, x, Bytes::copy_from_slice(second));
        if choices.below(8) > 0 {
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

    fn message(choices: &mut FuzzInput<'_>) -> Vec<u8> {
        let id = choices.below(4);
        let text = match choices.below(12) {
            0 | 1 => format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"initialize\",\"params\":{{\"protocolVersion\":\"{}\",\"capabilities\":{{\"elicitation\":{{}}}},\"clientInfo\":{{\"name\":\"x\",\"version\":\"1\"}}}}}}",
                ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"][choices.below(4)]
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
                let n = choices.below(700);
                return choices.take(n).to_vec();
            }
        };
        text.into_bytes()
    }

    fn answer(&mut self, choices: &mut FuzzInput<'_>) {
        let index = choices.below(self.calls.len());
        if index >= self.calls.len() {
            return;
        }
        let call = self.calls.swap_remove(index);
        let engine = self.server.engine();
        // A cancelled call is stale, so the answer is refused.
        let _ = match choices.below(5) {
            4 => match call.require_scopes(&["c"]) {
                Err(error) => engine.fail(self.now, call.id(), &error),
                Ok(()) => {
                    engine.complete(self.now, call.id(), &mcp_proto::model::CallToolResult::text("open"))
                }
            },
            0 => engine.fail(self.now, call.id(), &RpcError::method_not_found("x")),
            1 => {
                let mut input_required = InputRequired::new();
                let form = ElicitParams::form("?", ElicitSchema::default());
                let _ = input_required.request_input(&call, "k", InputRequest::Elicit(form));
                engine.require_input(self.now, &call, &input_required)
            }
            _ => engine.complete(self.now, call.id(), &mcp_proto::model::CallToolResult::text("done")),
        };
    }

    fn poll_events(&mut self) {
        while let Some(event) = self.server.poll_event(self.now) {
            match event {
                Event::Server(server::Event::Call(call)) => {
                    let arguments: BTreeMap<String, i64> =
                        call.tool_call().ok().and_then(|tool| tool.parse().ok()).unwrap_or_default();
                    let (session, _) = find_session(self.server.engine(), call.channel());
                    if let Some(id) = arguments.get("id") {
                        assert!(
                            !self.was_cancelled(session, &RequestId::int(*id)),
                            "cancelled call was delivered"
                        );
                    }
                    self.calls.push(call);
                }
                Event::Server(server::Event::Diagnostic { channel, diagnostic }) => {
                    self.check_diagnostic(channel, diagnostic);
                }
                Event::Server(_) => {}
                Event::Token { exchange, .. } => self.held.push(exchange),
                other => panic!("unknown event: {other:?}"),
            }
        }
    }

    fn check_diagnostic(&mut self, session: ChannelId, diagnostic: Diagnostic) {
        match diagnostic {
            // Only sessions, with or without a handshake (HTTP+SSE opens one before it): outside a session a
            // cancellation cannot overtake its request.
            Diagnostic::UnknownCancellation(id) if find_session(self.server.engine(), session).1 => {
                self.was_cancelled(session, &id);
                let mut own = self.early.iter().enumerate().filter(|(_, (owner, ..))| *owner == session);
                match (own.next(), own.count() + 1) {
                    (Some((oldest, _)), EARLY_SHARE..) => _ = self.early.remove(oldest),
                    _ if self.early.len() == EARLY => _ = self.early.pop_front(),
                    _ => {}
                }
                self.early.push_back((session, id, self.now));
            }
            Diagnostic::EarlyCancellation(id) => {
                assert!(self.was_cancelled(session, &id), "call was dropped without a cancellation");
            }
            _ => {}
        }
    }

    /// Returns whether a request was cancelled within the last seconds before it arrived; removes the record.
    fn was_cancelled(&mut self, session: ChannelId, id: &RequestId) -> bool {
        let now = self.now;
        self.early.retain(|(.., at)| *at + Duration::from_secs(5) > now);
        let position = self.early.iter().position(|(owner, other, _)| *owner == session && other == id);
        position.and_then(|position| self.early.remove(position)).is_some()
    }

    /// Takes at most `max_bytes` bytes at a time from each response.
    fn drain_responses(&mut self, max_bytes: usize) {
        while let Some(x) = self.server.poll_ready(self.now) {
            self.drain_response(x, max_bytes);
        }
        let open: Vec<ExchangeId> = self.open.keys().copied().collect();
        for x in open {
            self.drain_response(x, max_bytes);
        }
    }

    fn drain_response(&mut self, x: ExchangeId, max_bytes: usize) {
        let Some(reply) = self.open.get_mut(&x) else { return };
        let Some(response) = self.server.response(x) else {
            assert!(self.server.transmit(self.now, x).is_empty(), "a body before its head");
            return;
        };
        let head = (response.status, response.size);
        for (name, value) in response.fields.iter() {
            let is_valid = value.iter().all(|b| *b == b'\t' || (*b >= b' ' && *b != 0x7f));
            assert!(mcp_proto::head::is_token(name.as_bytes()) && is_valid, "invalid field {name}");
        }
        assert!((200..=599).contains(&head.0), "no status: {}", head.0);
        assert_eq!(*reply.head.get_or_insert(head), head, "response head has changed");
        for (name, value) in response.fields.iter() {
            if name.eq_ignore_ascii_case("mcp-session-id") {
                self.sessions.insert(String::from_utf8_lossy(value).into_owned());
            }
        }
        let n = {
            let bytes = self.server.transmit(self.now, x);
            let n = bytes.len().min(max_bytes);
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
            assert!(reply.body.len() as u64 <= length, "body is longer than announced");
        }
        if self.server.is_finished(x) {
            if let BodySize::Exact(length) = head.1 {
                assert_eq!(reply.body.len() as u64, length, "body is shorter than announced");
            }
            self.open.remove(&x);
            self.server.release(self.now, x);
            assert!(self.server.response(x).is_none() && self.server.transmit(self.now, x).is_empty());
        }
    }

    /// Disconnects all clients, answers all calls, and lets the sessions expire.
    fn end(&mut self) {
        for x in core::mem::take(&mut self.open).into_keys() {
            self.server.handle_gone(self.now, x);
        }
        for _ in 0..20 {
            self.poll_events();
            for call in core::mem::take(&mut self.calls) {
                let _ = self.server.engine().fail(self.now, call.id(), &RpcError::internal("over"));
            }
            while self.server.poll_ready(self.now).is_some() {}
            let Some(at) = self.server.poll_timeout() else { break };
            // Input requests without an answer expire after an hour.
            self.now = self.now.max(at) + Duration::from_secs(600);
            self.server.handle_timeout(self.now);
        }
        self.poll_events();
        assert_eq!(
            (self.server.exchange_count(), self.server.session_count()),
            (0, 0),
            "exchanges or sessions are left"
        );
        assert_eq!(self.server.engine().live_calls(), 0, "calls are left");
    }
}
