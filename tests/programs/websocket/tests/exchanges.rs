//! Both bindings against each other, without I/O: every frame is seen.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mcp_proto::client::{self, Input};
use mcp_proto::model::{CallToolResult, ListRootsResult, SubscriptionFilter};
use mcp_proto::server::{self, Call, Engine, Event, InputRequired};
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Change, Era, Fault, Instant, Limits, Progress,
    VersionSet,
};
use mcp_websocket::client::Client;
use mcp_websocket::server::{ConnectionId, MAX_EXCHANGES, Server, ViolatedProtocol};
use serde_json::{Value, json};

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// A server and its clients, with the frames between them.
struct Net {
    now: Instant,
    server: Server,
    server_events: VecDeque<Event>,
    clients: Vec<(Client, ConnectionId)>,
    /// Frames in both directions, with `>` before those of clients.
    seen: Vec<String>,
}

impl Net {
    fn new(limits: Limits) -> Self {
        let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
        let config = server::Config::new("server", "1").capabilities(capabilities).limits(limits);
        let server = Server::new(Engine::new(Arc::new(config)));
        Self {
            now: Instant::ZERO,
            server,
            server_events: VecDeque::new(),
            clients: Vec::new(),
            seen: Vec::new(),
        }
    }

    #[expect(deprecated, reason = "tested until its removal")]
    fn connect(&mut self, era: Era) -> usize {
        let capabilities = Capabilities::new().with(Capability::Roots);
        let config =
            client::Config::new("client", "1").capabilities(capabilities).versions(VersionSet::ALL.era(era));
        let client = Client::new(Arc::new(config), self.now);
        let id = self.server.accept(self.now);
        self.clients.push((client, id));
        self.pump();
        let at = self.clients.len() - 1;
        assert!(
            matches!(self.client(at).poll_event(Instant::ZERO), Some(client::Event::Ready(peer)) if peer.era() == era)
        );
        self.seen.clear();
        at
    }

    /// A server with one client.
    fn pair(era: Era) -> Self {
        let mut net = Self::new(Limits::default());
        net.connect(era);
        net
    }

    fn client(&mut self, at: usize) -> &mut client::Engine {
        self.clients[at].0.engine()
    }

    fn engine(&mut self) -> &mut Engine {
        self.server.engine()
    }

    /// Moves frames until there are none.
    fn pump(&mut self) {
        loop {
            let mut is_quiet = true;
            for (client, id) in &mut self.clients {
                while let Some(frame) = client.poll_frame() {
                    self.seen.push(format!("> {frame}"));
                    self.server.handle_frame(self.now, *id, &frame).expect("a valid frame");
                    is_quiet = false;
                }
            }
            while let Some(event) = self.server.engine().poll_event(self.now) {
                self.server_events.push_back(event);
            }
            for (client, id) in &mut self.clients {
                while let Some(frame) = self.server.poll_frame(self.now, *id) {
                    self.seen.push(frame.clone());
                    client.handle_frame(self.now, &frame);
                    is_quiet = false;
                }
            }
            if is_quiet {
                return;
            }
        }
    }

    fn begin(&mut self, at: usize, tool: &str, options: &CallOptions) -> (mcp_proto::CallKey, Call) {
        let now = self.now;
        let key = self.client(at).call_tool(now, tool, &json!({}), options).expect("room");
        self.pump();
        (key, self.expect_call())
    }

    fn expect_call(&mut self) -> Call {
        while let Some(event) = self.server_events.pop_front() {
            if let Event::Call(call) = event {
                return call;
            }
        }
        panic!("no call arrived");
    }

    fn expect_outcome(&mut self, at: usize) -> Result<Value, CallError> {
        while let Some(event) = self.client(at).poll_event(Instant::ZERO) {
            if let client::Event::Done { outcome, .. } = event {
                return outcome.map(|result| serde_json::from_slice(result.as_bytes()).unwrap());
            }
        }
        panic!("no call has ended");
    }

    /// Returns the frames of an exchange that were seen: methods, `result`, `error` or `end`.
    fn outline(&self, number: u32) -> Vec<String> {
        let of = |frame: &String| {
            let (direction, frame) = frame.strip_prefix("> ").map_or(("", &**frame), |frame| ("> ", frame));
            let (found, message) = frame.split_once(' ').map_or((frame, None), |(n, m)| (n, Some(m)));
            let kind = match message.map(|message| serde_json::from_str::<Value>(message).expect("JSON")) {
                None => "end".to_owned(),
                Some(message) => match &message["method"] {
                    Value::String(method) => method.clone(),
                    _ if message.get("error").is_some() => "error".to_owned(),
                    _ => "result".to_owned(),
                },
            };
            (found == number.to_string()).then(|| format!("{direction}{kind}"))
        };
        self.seen.iter().filter_map(of).collect()
    }

    /// Returns the number of the last exchange that the client opened.
    fn last_number(&self) -> u32 {
        let opened = self.seen.iter().rev().find_map(|frame| frame.strip_prefix("> ")?.split_once(' '));
        opened.expect("an exchange").0.parse().expect("a number")
    }
}

#[test]
fn call_has_an_exchange_with_all_that_belongs_to_it() {
    for era in ERAS {
        let mut net = Net::pair(era);
        let (_, slow) = net.begin(0, "slow", &CallOptions::new().with_progress());
        let slow_number = net.last_number();
        let (_, fast) = net.begin(0, "fast", &CallOptions::new());
        let fast_number = net.last_number();
        let now = net.now;
        net.engine().progress(now, slow.id(), Progress::new(1.0)).expect("open");
        net.engine().complete(now, fast.id(), &CallToolResult::text("first")).expect("open");
        net.pump();
        assert_eq!(net.outline(fast_number), ["> tools/call", "result", "end"], "{era:?}");
        assert_eq!(net.expect_outcome(0).expect("a result")["content"][0]["text"], "first");
        net.engine().complete(now, slow.id(), &CallToolResult::text("second")).expect("open");
        net.pump();
        assert_eq!(net.outline(slow_number), ["> tools/call", "notifications/progress", "result", "end"]);
        assert_eq!(net.expect_outcome(0).expect("a result")["content"][0]["text"], "second");
    }
}

// CANC-016, HTTP-062
#[test]
fn cancellation_ends_the_exchange_or_notifies() {
    for era in ERAS {
        let mut net = Net::pair(era);
        let (key, call) = net.begin(0, "never", &CallOptions::new());
        let number = net.last_number();
        let now = net.now;
        net.client(0).cancel(now, key, Some("enough")).expect("open");
        net.pump();
        assert!(
            net.server_events
                .iter()
                .any(|event| matches!(event, Event::Cancelled { call: id, .. } if *id == call.id())),
            "{era:?}"
        );
        assert_eq!(net.expect_outcome(0), Err(CallError::Cancelled));
        match era {
            Era::Modern => assert_eq!(net.outline(number), ["> tools/call", "> end"]),
            Era::Legacy => {
                assert_eq!(net.outline(number), ["> tools/call", "end"]);
                assert_eq!(net.outline(number + 1), ["> notifications/cancelled", "end"]);
            }
        }
    }
}

// SUB-001, SUB-012
#[test]
fn changes_arrive_in_the_session_or_in_the_exchange_of_the_subscription() {
    for era in ERAS {
        let mut net = Net::pair(era);
        let now = net.now;
        let mut filter = SubscriptionFilter::new();
        filter.tools_list_changed = Some(true);
        let key = net.client(0).subscribe(now, &filter).expect("room");
        net.pump();
        let number = if era == Era::Modern { net.last_number() } else { 0 };
        net.seen.clear();
        net.engine().publish(now, &Change::Tools);
        net.pump();
        let changed = "notifications/tools/list_changed".to_owned();
        assert_eq!(net.outline(number), [changed], "{era:?}");
        let mut events = std::iter::from_fn(|| net.clients[0].0.engine().poll_event(now));
        assert!(events.any(|event| matches!(event, client::Event::Changed { change: Change::Tools, .. })));
        net.client(0).unsubscribe(now, key).expect("open");
        net.pump();
        if era == Era::Modern {
            assert_eq!(net.outline(number).last().map(String::as_str), Some("> end"));
        }
        net.seen.clear();
        net.engine().publish(now, &Change::Tools);
        net.pump();
        assert_eq!(net.outline(number).len(), usize::from(era == Era::Legacy));
    }
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn request_of_a_legacy_server_is_sent_in_the_exchange_of_its_call() {
    let mut net = Net::pair(Era::Legacy);
    let (_, call) = net.begin(0, "ask", &CallOptions::new());
    let number = net.last_number();
    let now = net.now;
    let mut input = InputRequired::new();
    input.list_roots(&call, "roots").expect_err("not known yet");
    net.engine().require_input(now, &call, &input).expect("the client can answer");
    net.pump();
    assert_eq!(net.outline(number), ["> tools/call", "roots/list"]);
    let asked = std::iter::from_fn(|| net.clients[0].0.engine().poll_event(now));
    let inputs: Vec<Input> =
        asked.filter_map(|e| if let client::Event::Input(i) = e { Some(i) } else { None }).collect();
    net.client(0).answer(now, inputs[0].id, &ListRootsResult::new(Vec::new())).expect("open");
    net.pump();
    assert_eq!(net.outline(net.last_number()), ["> result", "end"]);
    let call = net.expect_call();
    assert!(InputRequired::new().list_roots(&call, "roots").is_ok());
    net.engine().complete(now, call.id(), &CallToolResult::text("asked")).expect("open");
    net.pump();
    assert_eq!(net.expect_outcome(0).expect("a result")["content"][0]["text"], "asked");
    assert_eq!(net.outline(number), ["> tools/call", "roots/list", "result", "end"]);
}

#[test]
fn request_without_an_answer_is_repeated_if_it_is_idempotent() {
    for era in ERAS {
        let mut net = Net::pair(era);
        for is_idempotent in [true, false] {
            let options = CallOptions::new();
            let (_, call) = net.begin(0, "lost", &if is_idempotent { options.idempotent() } else { options });
            let (number, now) = (net.last_number(), net.now);
            // An intermediary ends the exchange at both sides.
            net.server.handle_frame(now, net.clients[0].1, &number.to_string()).expect("a frame");
            net.clients[0].0.handle_frame(now, &number.to_string());
            net.pump();
            if is_idempotent {
                let again = net.expect_call();
                assert_ne!(again.id(), call.id());
                net.engine().complete(now, again.id(), &CallToolResult::text("again")).expect("open");
                net.pump();
                assert_eq!(
                    net.expect_outcome(0).expect("a result")["content"][0]["text"],
                    "again",
                    "{era:?}"
                );
            } else {
                assert!(matches!(net.expect_outcome(0), Err(CallError::Transport { .. })), "{era:?}");
            }
        }
    }
}

// HTTP-062
#[test]
fn call_of_a_legacy_session_continues_without_its_exchange() {
    let mut net = Net::pair(Era::Legacy);
    let (_, call) = net.begin(0, "slow", &CallOptions::new().with_progress());
    let (number, now) = (net.last_number(), net.now);
    net.server.handle_frame(now, net.clients[0].1, &number.to_string()).expect("a frame");
    net.pump();
    assert_eq!(net.engine().live_calls(), 1);
    net.engine().progress(now, call.id(), Progress::new(1.0)).expect("the call is open");
    net.engine().complete(now, call.id(), &CallToolResult::text("unheard")).expect("the call is open");
    net.pump();
    assert_eq!(net.outline(number), ["> tools/call"]);
    assert_eq!(net.engine().live_calls(), 0);
}

#[test]
fn connection_that_ends_cancels_its_calls_alone() {
    for era in ERAS {
        let mut net = Net::pair(era);
        let other = net.connect(ERAS[usize::from(era == ERAS[0])]);
        let (_, mine) = net.begin(0, "mine", &CallOptions::new());
        let (_, theirs) = net.begin(other, "theirs", &CallOptions::new());
        let now = net.now;
        let id = net.clients[0].1;
        net.server.close(now, id);
        net.clients[0].0.handle_close(now);
        net.pump();
        let cancelled: Vec<_> = net
            .server_events
            .iter()
            .filter_map(|e| match e {
                Event::Cancelled { call, .. } => Some(*call),
                _ => None,
            })
            .collect();
        assert_eq!(cancelled, [mine.id()], "{era:?}");
        let closed = net.server_events.iter().filter(|e| matches!(e, Event::Closed { .. })).count();
        assert_eq!(closed, usize::from(era == Era::Legacy), "sessions end with an event");
        assert_eq!(net.expect_outcome(0), Err(CallError::Closed(Fault::Eof)));
        net.engine().complete(now, theirs.id(), &CallToolResult::text("still here")).expect("open");
        net.pump();
        assert_eq!(net.expect_outcome(other).expect("a result")["content"][0]["text"], "still here");
    }
}

#[test]
fn full_server_refuses_a_call_in_its_exchange() {
    for era in ERAS {
        let mut limits = Limits::default();
        limits.max_live_calls = 1;
        let mut net = Net::new(limits);
        net.connect(era);
        let (_, first) = net.begin(0, "first", &CallOptions::new());
        let now = net.now;
        net.client(0).call_tool(now, "second", &json!({}), &CallOptions::new()).expect("room");
        net.pump();
        assert_eq!(net.outline(net.last_number()), ["> tools/call", "error", "end"], "{era:?}");
        assert!(matches!(net.expect_outcome(0), Err(CallError::Rpc(error)) if error.code == -32603));
        net.engine().complete(now, first.id(), &CallToolResult::text("done")).expect("open");
        net.pump();
        net.begin(0, "third", &CallOptions::new());
    }
}

#[test]
fn session_without_a_stream_keeps_its_messages() {
    let now = Instant::ZERO;
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
    let mut engine = Engine::new(Arc::new(server::Config::new("server", "1").capabilities(capabilities)));
    let session = engine.exchanges().open_session(now, None);
    let mut number = 0;
    let mut send = |engine: &mut Engine, message: Value| {
        number += 1;
        let message = message.to_string().into();
        engine.exchanges().open(now, Some(session), server::ExchangeToken(number), message)
    };
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    assert_eq!(engine.session_status(session), None);
    let exchange =
        send(&mut engine, json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}));
    let status = engine.session_status(session).expect("the handshake was accepted");
    assert_eq!((status.version.as_str(), status.is_initialized), ("2025-11-25", false));
    engine.exchanges().close(now, exchange);
    let exchange = send(&mut engine, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let status = engine.exchange_status(exchange);
    assert!(
        !status.is_open && engine.exchanges().output(exchange).is_some_and(|output| output.outbox.is_empty())
    );
    engine.exchanges().close(now, exchange);
    while engine.exchanges().poll_ready().is_some() {}

    engine.publish(now, &Change::Tools);
    assert_eq!(engine.exchanges().poll_ready(), None);
    engine.exchanges().set_session_token(session, Some(server::ExchangeToken(99)));
    assert_eq!(engine.exchanges().poll_ready(), Some(server::ExchangeToken(99)));
    let message = engine.exchanges().output(session).and_then(|output| output.outbox.pop_message());
    assert!(message.is_some_and(|text| text.ends_with(b"\"notifications/tools/list_changed\"}")));
    assert!(engine.exchange_status(exchange).is_closed && engine.exchanges().output(exchange).is_none());
}

#[test]
fn malformed_message_is_answered_in_its_exchange() {
    for era in ERAS {
        let mut net = Net::pair(era);
        let (now, id) = (net.now, net.clients[0].1);
        for (number, message) in [
            (900, "{"),
            (901, "[]"),
            (902, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}"),
            (903, ""),
            (904, "7"),
        ] {
            net.server.handle_frame(now, id, &format!("{number} {message}")).expect("a frame");
            let mut answers = Vec::new();
            while let Some(frame) = net.server.poll_frame(now, id) {
                answers.push(frame);
            }
            let end = answers.pop().expect("an end");
            assert_eq!(end, number.to_string());
            assert_eq!(answers.len(), usize::from(!message.is_empty()), "{message}: {answers:?}");
            assert!(answers.iter().all(|answer| answer.contains("\"error\":{\"code\":-32")), "{answers:?}");
        }
        let other = net.connect(era);
        net.begin(other, "next", &CallOptions::new());
    }
}

#[test]
fn client_that_violates_the_protocol_is_reported() {
    let mut net = Net::pair(Era::Modern);
    let (now, id) = (net.now, net.clients[0].1);
    for (frame, reason) in [
        ("1 {}", "a number of an exchange was used again"),
        ("0 {}", "a number of an exchange was used again"),
        ("{}", "not a frame"),
    ] {
        assert_eq!(net.server.handle_frame(now, id, frame), Err(ViolatedProtocol(reason)), "{frame}");
    }
    assert_eq!(net.server.handle_frame(now, id, "77"), Ok(()), "an exchange that has ended, or never was");
    for n in 0..MAX_EXCHANGES {
        let message = json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": "t", "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}});
        net.server.handle_frame(now, id, &format!("{} {message}", 100 + n)).expect("room");
    }
    assert_eq!(
        net.server.handle_frame(now, id, "9000 {}"),
        Err(ViolatedProtocol("too many exchanges at once"))
    );
}

#[test]
fn silence_of_a_server_ends_the_negotiation_in_time() {
    let mut client = Client::new(Arc::new(client::Config::new("client", "1")), Instant::ZERO);
    while client.poll_frame().is_some() {}
    let at = client.engine().poll_timeout().expect("a timeout");
    assert!(
        at > Instant::ZERO + Duration::from_secs(1),
        "the transport would tell of a server that does not answer"
    );
    client.engine().handle_timeout(at);
    assert!(matches!(
        client.engine().poll_event(at),
        Some(client::Event::Closed(Fault::HandshakeTimeout { .. }))
    ));
}
