//! `Limits::max_memory` under attack: what peers can make a server hold, in each way that there is, and what the next honest
//! client sees before, at and after the bound.

use alloc::sync::Arc;

use mcp_proto::h1::HttpLimits;
use mcp_proto::http::server::{Connection, Event as HttpEvent, Server as HttpServer};
use mcp_proto::model::CallToolResult;
use mcp_proto::pipe::{Pipe, Server};
use mcp_proto::server::{Call, Config, Engine, Event, TaskOffer, TaskOptions, TaskTable};
use mcp_proto::tap::ChannelId;
use mcp_proto::{
    Anchor, Capabilities, Capability, EncodeError, Entropy, Instant, Limit, Limits, RpcError, UseError, http,
};
use serde_json::json;

use crate::{NOW, call, confirm as confirm_on_stream, echo, feed, line, meta, within, written};

/// The bound of all attacks.
const MAX: usize = 4 << 20;

/// Returns the most bytes that are counted: who was refused, and reads nothing, keeps what was read behind that.
const fn most(refused: usize) -> usize {
    MAX + refused * (16 << 10)
}

fn config(max_memory: usize) -> Arc<Config> {
    let capabilities = Capabilities::new()
        .with(Capability::Tools)
        .with(Capability::Resources)
        .with(Capability::ResourceSubscriptions);
    let mut limits = Limits::default();
    limits.max_memory = Some(max_memory);
    // So that memory is what runs out.
    limits.max_live_calls = 100_000;
    Arc::new(Config::new("server", "1").capabilities(capabilities).limits(limits))
}

/// A server over HTTP with the connections of its clients, who read nothing unless they are asked to.
struct Web {
    config: Arc<Config>,
    server: HttpServer,
    connections: Vec<Connection>,
    /// Calls that no handler has answered.
    held: Vec<Call>,
    /// Sessions that have begun.
    sessions: Vec<ChannelId>,
    /// The fields of the latest session of an attack.
    fields: String,
    now: Instant,
    answer: fn(&mut HttpServer, Instant, Call) -> Option<Call>,
}

impl Web {
    fn new() -> Self {
        let config = config(MAX);
        let mut server = HttpServer::new(
            Arc::clone(&config),
            Arc::new(http::server::Config::new()),
            Entropy::new([7; 32], 0),
        );
        server.set_tasks(NOW, TaskTable::new(Entropy::new([8; 32], 0), Anchor::default()));
        // Room for what the test itself keeps.
        let (connections, held) = (Vec::with_capacity(20_000), Vec::with_capacity(20_000));
        Self {
            config,
            server,
            connections,
            held,
            sessions: Vec::with_capacity(20_000),
            fields: String::new(),
            answer: hold,
            now: NOW,
        }
    }

    /// Opens a connection that sends `input`.
    fn connect(&mut self, input: &[u8]) -> usize {
        self.connections.push(Connection::new(self.now, HttpLimits::default()));
        let at = self.connections.len() - 1;
        self.send(at, input);
        at
    }

    fn send(&mut self, at: usize, input: &[u8]) {
        for piece in input.chunks(16 << 10) {
            if !self.connections[at].wants_input() {
                break;
            }
            self.connections[at].handle_input(self.now, piece);
            self.drive(at);
        }
    }

    fn drive(&mut self, at: usize) {
        self.connections[at].drive(self.now, &mut self.server);
        while let Some(event) = self.server.poll_event(self.now) {
            match event {
                HttpEvent::Server(Event::Call(call)) => {
                    self.held.extend((self.answer)(&mut self.server, self.now, call));
                }
                HttpEvent::Server(Event::SessionOpened { channel, .. }) => self.sessions.push(channel),
                _ => {}
            }
        }
        while self.server.poll_ready(self.now).is_some() {}
        self.connections[at].drive(self.now, &mut self.server);
    }

    /// Returns the start of what a connection has to send: the status and the fields.
    fn head(&self, at: usize) -> String {
        let bytes = self.connections[at].transmit();
        String::from_utf8_lossy(&bytes[..bytes.len().min(1_000)]).into_owned()
    }

    /// Reads and drops all that a connection has to send.
    fn read(&mut self, at: usize) -> String {
        let mut all = Vec::new();
        while !self.connections[at].transmit().is_empty() {
            let n = self.connections[at].transmit().len();
            all.extend_from_slice(self.connections[at].transmit());
            self.connections[at].consume(n);
            self.drive(at);
        }
        String::from_utf8(all).expect("text")
    }

    /// An honest client: a short call on a connection of its own. Returns the response.
    fn honest(&mut self) -> String {
        let answer = core::mem::replace(&mut self.answer, confirm);
        let at = self.connect(&post("", &call(1, "echo", 10)));
        let response = self.read(at);
        self.answer = answer;
        let mut connection = self.connections.pop().expect("the last one");
        connection.abandon(self.now, &mut self.server);
        response
    }

    /// All clients go away, and their calls end.
    fn leave(&mut self) {
        for mut connection in self.connections.drain(..) {
            connection.abandon(self.now, &mut self.server);
        }
        while self.server.poll_event(self.now).is_some() {}
        self.held.clear();
    }
}

fn post(fields: &str, body: &[u8]) -> Vec<u8> {
    let modern = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n";
    let fields = if fields.is_empty() { modern } else { fields };
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\n{fields}Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Answers nothing.
#[allow(clippy::unnecessary_wraps, reason = "a function of `Web`")]
const fn hold(_: &mut HttpServer, _: Instant, call: Call) -> Option<Call> {
    Some(call)
}

#[allow(clippy::needless_pass_by_value, reason = "a function of `Web`")]
fn confirm(server: &mut HttpServer, now: Instant, call: Call) -> Option<Call> {
    respond(server, now, &call, "ok");
    None
}

/// Answers with much more than was asked.
#[allow(clippy::needless_pass_by_value, reason = "a function of `Web`")]
fn amplify(server: &mut HttpServer, now: Instant, call: Call) -> Option<Call> {
    static TEXT: [u8; 200 << 10] = [b'z'; 200 << 10];
    respond(server, now, &call, core::str::from_utf8(&TEXT).expect("text"));
    None
}

fn respond(server: &mut HttpServer, now: Instant, call: &Call, text: &str) {
    match server.engine().complete(now, call.id(), &CallToolResult::text(text)) {
        Ok(()) => {}
        Err(UseError::Encode(EncodeError::OutOfMemory)) => {
            server.engine().fail(now, call.id(), &RpcError::internal("no memory")).expect("an open call");
        }
        Err(other) => panic!("{other}"),
    }
}

fn initialize(name: &str) -> Vec<u8> {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": name, "version": "1" },
    });
    line(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }))
}

const LEGACY: &str = "X-Client: old\r\n";

/// Begins a session with `name` as the name of the client. Returns its fields, or the refusal.
fn begin_session(web: &mut Web, name: &str) -> Result<String, String> {
    let at = web.connect(&post(LEGACY, &initialize(name)));
    let response = web.read(at);
    if !response.starts_with("HTTP/1.1 200") {
        return Err(response);
    }
    let id = response
        .lines()
        .find_map(|field| field.to_ascii_lowercase().starts_with("mcp-session-id: ").then(|| &field[16..]));
    let fields =
        format!("Mcp-Session-Id: {}\r\nMCP-Protocol-Version: 2025-11-25\r\n", id.expect("a session"));
    let opened = line(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    web.send(at, &post(&fields, &opened));
    web.read(at);
    // The client closes its connection: the session stays.
    web.connections.pop().expect("the last one").abandon(NOW, &mut web.server);
    Ok(fields)
}

/// A way to make a server hold memory: returns false once it is refused.
type Attack = fn(&mut Web, usize) -> bool;

/// Bodies that never end.
fn bodies(web: &mut Web, _: usize) -> bool {
    let request = post("", &call(1, "echo", 100_000));
    let at = web.connect(&request[..90_000]);
    web.head(at).is_empty()
}

/// Calls that no handler ends.
fn calls(web: &mut Web, _: usize) -> bool {
    let at = web.connect(&post("", &call(1, "echo", 30_000)));
    web.head(at).is_empty()
}

/// Short calls that no handler ends.
fn short_calls(web: &mut Web, _: usize) -> bool {
    let at = web.connect(&post("", &call(1, "echo", 500)));
    web.head(at).is_empty()
}

/// Heads that never end.
fn heads(web: &mut Web, _: usize) -> bool {
    let field = format!("X-Long: {}\r\n", "y".repeat(7_000));
    let head = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\n{}", field.repeat(8));
    let at = web.connect(head.as_bytes());
    web.head(at).is_empty()
}

/// Results that nobody reads.
fn results(web: &mut Web, _: usize) -> bool {
    web.answer = amplify;
    let at = web.connect(&post("", &call(1, "echo", 10)));
    let head = web.head(at);
    head.starts_with("HTTP/1.1 200") && !head.contains("no memory")
}

/// Sessions with a long description of their client.
fn sessions(web: &mut Web, _: usize) -> bool {
    begin_session(web, &"n".repeat(15_000)).is_ok()
}

/// Sessions, and nothing else.
fn small_sessions(web: &mut Web, _: usize) -> bool {
    begin_session(web, "n").is_ok()
}

/// Sessions with a description that is just too short to be charged as a message.
fn described_sessions(web: &mut Web, _: usize) -> bool {
    begin_session(web, &"n".repeat(900)).is_ok()
}

/// Subscriptions to resources with long names.
fn subscriptions(web: &mut Web, n: usize) -> bool {
    let Ok(fields) = begin_session(web, "n") else { return false };
    (0..20).all(|part| {
        let uri = format!("x://{n}/{part}/{}", "u".repeat(8_000));
        let params = json!({ "uri": uri });
        let body =
            line(&json!({ "jsonrpc": "2.0", "id": part, "method": "resources/subscribe", "params": params }));
        let at = web.connect(&post(&fields, &body));
        let response = web.read(at);
        web.connections.pop().expect("the last one").abandon(NOW, &mut web.server);
        response.starts_with("HTTP/1.1 200") && !response.contains("\"error\"")
    })
}

/// Notifications of the server that no stream takes.
fn notifications(web: &mut Web, n: usize) -> bool {
    if n % 8 == 0 && begin_session(web, "n").is_err() {
        return false;
    }
    let Some(session) = web.sessions.last().copied() else { return false };
    let params = json!({ "text": "t".repeat(60_000) });
    web.server.engine().notify(NOW, session, "notifications/news", Some(&params)).is_ok()
}

/// Calls of sessions that go on without their connections. Each was read in one piece with a longer message.
fn abandoned_calls(web: &mut Web, n: usize) -> bool {
    abandon(web, n, 14_000, 600)
}

/// The same with calls that are more than half of the piece.
fn abandoned_long_calls(web: &mut Web, n: usize) -> bool {
    abandon(web, n, 6_500, 8_300)
}

fn abandon(web: &mut Web, n: usize, of_news: usize, of_call: usize) -> bool {
    if n % 8 == 0 {
        let Ok(fields) = begin_session(web, "n") else { return false };
        web.fields = fields;
    }
    let news = json!({ "jsonrpc": "2.0", "method": "notifications/news", "params": { "text": "t".repeat(of_news) } });
    let params = json!({ "name": "echo", "arguments": { "text": "x".repeat(of_call) } });
    let short = line(&json!({ "jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params }));
    let input = [post(&web.fields, &line(&news)), post(&web.fields, &short)].concat();
    let at = web.connect(&input);
    let response = web.read(at);
    web.connections.pop().expect("the last one").abandon(NOW, &mut web.server);
    !response.contains("HTTP/1.1 503")
}

/// Requests in one piece, of which most are refused, on connections that read nothing.
fn refusals(web: &mut Web, _: usize) -> bool {
    let at = web.connect(&post("", &call(1, "echo", 500)).repeat(100));
    let head = web.head(at);
    head.is_empty()
}

/// Sends a call that becomes a task, on a connection that is closed then. Returns whether it did.
fn begin_task(web: &mut Web, length: usize) -> bool {
    let mut meta = meta();
    meta["io.modelcontextprotocol/clientCapabilities"] =
        json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let params = json!({ "name": "echo", "arguments": { "text": "x".repeat(length) }, "_meta": meta });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let at = web.connect(&post("", &line(&request)));
    let response = web.read(at);
    web.connections.pop().expect("the last one").abandon(NOW, &mut web.server);
    response.contains("\"taskId\"")
}

/// Tasks that have ended, whose results nobody collects.
fn task_results(web: &mut Web, _: usize) -> bool {
    web.answer = |server, now, call| {
        let call = hold_task(server, now, call)?;
        amplify(server, now, call)
    };
    begin_task(web, 10)
}

/// Tasks whose handlers never end, and more that wait for their turn.
fn task_inputs(web: &mut Web, _: usize) -> bool {
    web.answer = hold_task;
    begin_task(web, 20_000)
}

/// Makes a call a task. Returns a call that is the run of one.
fn hold_task(server: &mut HttpServer, now: Instant, call: Call) -> Option<Call> {
    if call.task_offer() == TaskOffer::None {
        return Some(call);
    }
    if let Err(refused) = server.engine().tasks(now).begin(&call, TaskOptions::new()) {
        assert_eq!(refused, UseError::Full(Limit::Memory));
        server.engine().fail(now, call.id(), &RpcError::internal("no memory")).expect("an open call");
    }
    None
}

const ATTACKS: [(&str, Attack); 15] = [
    ("bodies that never end", bodies),
    ("calls that no handler ends", calls),
    ("short calls that no handler ends", short_calls),
    ("heads that never end", heads),
    ("results that nobody reads", results),
    ("sessions with a long description", sessions),
    ("sessions with a description", described_sessions),
    ("sessions", small_sessions),
    ("subscriptions", subscriptions),
    ("notifications that no stream takes", notifications),
    ("calls whose connections are gone", abandoned_calls),
    ("long calls whose connections are gone", abandoned_long_calls),
    ("refusals that nobody reads", refusals),
    ("results of tasks that nobody collects", task_results),
    ("tasks that no handler ends", task_inputs),
];

#[test]
fn max_memory_holds_over_http_and_the_next_client_is_told_and_then_served() {
    for (name, attack) in ATTACKS {
        let (mut steps, mut refused) = (0, 0);
        let mut web = Web::new();
        let ((), peak) = within(isize::MAX / 2, || {
            assert!(web.honest().starts_with("HTTP/1.1 200"), "{name}: before");
            // It goes on although it is refused.
            while refused < 20 {
                refused += usize::from(!attack(&mut web, steps));
                steps += 1;
                assert!(steps < 20_000, "{name}: nothing is ever refused");
            }
        });
        let (peak, used) = (peak as usize, web.config.memory_in_use());
        println!("{name}: {steps} steps, {used} bytes counted, {peak} bytes at most, of {MAX}");
        assert!(used <= most(refused) && peak <= MAX + MAX / 4, "{name}: {used} counted, {peak} held");
        assert!(used >= MAX / 2 && peak >= MAX / 2, "{name}: {used} counted, {peak} held");
        // What is there goes on, and what is new is told.
        let response = web.honest();
        let is_served = response.starts_with("HTTP/1.1 200");
        let is_told = response.starts_with("HTTP/1.1 503")
            && response.to_ascii_lowercase().contains("\r\nretry-after: ")
            && response.contains("not enough memory for the request");
        assert!(is_served || is_told, "{name}: at the bound: {response}");
        let at = web.connect(&post("", &call(1, "echo", 600_000)));
        let response = web.head(at);
        assert!(response.starts_with("HTTP/1.1 503"), "{name}: a long request: {response}");
        web.leave();
        // Sessions end by their idle time.
        while let Some(at) = web.server.poll_timeout() {
            web.now = at.max(web.now);
            web.server.handle_timeout(web.now);
            while web.server.poll_event(web.now).is_some() {}
            while web.server.poll_ready(web.now).is_some() {}
        }
        let used = web.config.memory_in_use();
        assert!(used < 16 << 10, "{name}: {used} bytes of nobody");
        assert!(web.honest().starts_with("HTTP/1.1 200"), "{name}: afterwards");
        let config = Arc::clone(&web.config);
        drop(web);
        assert_eq!(config.memory_in_use(), 0, "{name}: something is counted that is not there");
    }
}

#[test]
fn idle_server_takes_a_body_of_a_quarter_of_max_memory() {
    let mut web = Web::new();
    web.answer = confirm;
    let at = web.connect(&post("", &call(1, "echo", MAX / 4)));
    let response = web.read(at);
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
}

/// Byte streams of one listener, which share the bound.
struct Streams {
    config: Arc<Config>,
    servers: Vec<Server>,
    held: Vec<Call>,
}

impl Streams {
    fn new(memory_reserve: usize) -> Self {
        let (servers, held) = (Vec::with_capacity(10_000), Vec::with_capacity(10_000));
        let mut limits = config(MAX).effective_limits().clone();
        limits.memory_reserve = memory_reserve;
        let config = Config::clone(&config(MAX)).limits(limits);
        Self { config: Arc::new(config), servers, held }
    }

    /// Opens a stream with a clone of the configuration, as a listener does.
    fn connect(&mut self) -> &mut Server {
        let config = Config::clone(&self.config);
        self.servers.push(Server::new(Arc::new(config), NOW));
        self.servers.last_mut().expect("the last one")
    }

    /// An honest client: a call on a stream of its own. Returns the answer.
    fn honest(&mut self, length: usize) -> serde_json::Value {
        let mut server = Server::new(Arc::new(Config::clone(&self.config)), NOW);
        feed(&mut server, &call(1, "echo", length), &mut confirm_on_stream);
        let mut replies = written(&mut server);
        assert_eq!(replies.len(), 1, "{replies:?}");
        replies.remove(0)
    }

    /// Sends a message to a new stream, whose client reads nothing. Returns whether it was not refused.
    fn send(&mut self, input: &[u8], answer: fn(&mut Server, Call) -> Option<Call>) -> bool {
        let mut held = core::mem::take(&mut self.held);
        let server = self.connect();
        for piece in input.chunks(16 << 10) {
            feed_whole(server, piece, &mut |server, call| held.extend(answer(server, call)));
        }
        let output = server.transmit();
        let is_refused = output.windows(7).any(|part| part == b"\"error\"");
        self.held = held;
        !is_refused
    }
}

/// Feeds input as a socket does, and lets `answer` answer each call.
fn feed_whole(server: &mut Server, piece: &[u8], answer: &mut dyn FnMut(&mut Server, Call)) {
    if server.wants_input() {
        server.handle_input(NOW, piece);
    }
    while let Some(event) = server.poll_event(NOW) {
        if let Event::Call(call) = event {
            answer(server, call);
        }
    }
}

fn echo_on_stream(server: &mut Server, call: Call) -> Option<Call> {
    echo(server, call);
    None
}

#[allow(clippy::unnecessary_wraps, reason = "a function of `Streams`")]
const fn hold_on_stream(_: &mut Server, call: Call) -> Option<Call> {
    Some(call)
}

/// A way to make byte streams hold memory: returns false once it is refused.
type StreamAttack = fn(&mut Streams, usize) -> bool;

/// Returns calls of 700 bytes, each behind a longer notification.
fn calls_behind_news() -> Vec<u8> {
    let news =
        json!({ "jsonrpc": "2.0", "method": "notifications/news", "params": { "text": "t".repeat(14_000) } });
    (0..8).flat_map(|id| [line(&news), call(id, "echo", 700)].concat()).collect()
}

const STREAM_ATTACKS: [(&str, StreamAttack); 7] = [
    ("lines that never end", |streams, _| {
        let message = call(1, "echo", 200_000);
        let before = streams.config.memory_in_use();
        streams.send(&message[..150_000], hold_on_stream);
        // Nothing is said before the line has ended.
        streams.config.memory_in_use() > before + 50_000
    }),
    ("calls that no handler ends", |streams, _| streams.send(&call(1, "echo", 50_000), hold_on_stream)),
    ("results that nobody reads", |streams, _| streams.send(&call(1, "echo", 50_000), echo_on_stream)),
    ("subscriptions", |streams, n| {
        let uris: Vec<String> = (0..10).map(|part| format!("x://{n}/{part}/{}", "u".repeat(8_000))).collect();
        let params = json!({ "notifications": { "resourceSubscriptions": uris }, "_meta": meta() });
        let id = format!("listen-{n}");
        streams.send(
            &line(&json!({ "jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params })),
            hold_on_stream,
        )
    }),
    ("short calls that no handler ends", |streams, _| {
        let calls: Vec<u8> = (0..50).flat_map(|id| call(id, "echo", 700)).collect();
        streams.send(&calls, hold_on_stream)
    }),
    ("short calls behind long lines", |streams, _| streams.send(&calls_behind_news(), hold_on_stream)),
    ("refusals that nobody reads", |streams, _| {
        let calls: Vec<u8> = (0..1_000).flat_map(|id| call(id, "echo", 200)).collect();
        streams.send(&calls, hold_on_stream)
    }),
];

#[test]
fn max_memory_holds_over_the_byte_streams_of_a_listener() {
    for (reserve, (name, attack)) in
        [0, 1 << 10].into_iter().flat_map(|reserve| STREAM_ATTACKS.map(|a| (reserve, a)))
    {
        let mut streams = Streams::new(reserve);
        let (mut steps, mut refused) = (0, 0);
        let ((), peak) = within(isize::MAX / 2, || {
            assert!(streams.honest(10).get("result").is_some(), "{name}: before");
            while refused < 20 {
                refused += usize::from(!attack(&mut streams, steps));
                steps += 1;
                assert!(steps < 9_000, "{name}: nothing is ever refused");
            }
        });
        let (peak, used) = (peak as usize, streams.config.memory_in_use());
        println!("{name}: {steps} steps, {used} bytes counted, {peak} bytes at most, of {MAX}");
        assert!(used <= most(refused) && peak <= MAX + MAX / 4, "{name}: {used} counted, {peak} held");
        assert!(used >= MAX / 2 && peak >= MAX / 2, "{name}: {used} counted, {peak} held");
        let short = streams.honest(10);
        assert!(short.get("result").is_some() || short["error"]["code"] == -32603, "{name}: {short}");
        let long = streams.honest(600_000);
        assert_eq!((&long["id"], &long["error"]["code"]), (&json!(1), &json!(-32603)), "{name}");
        streams.servers.clear();
        streams.held.clear();
        assert_eq!(streams.config.memory_in_use(), 0, "{name}: something is counted that is not there");
        assert!(streams.honest(600_000).get("result").is_some(), "{name}: afterwards");
    }
}

#[test]
fn lines_of_clients_that_share_an_engine_are_counted_once() {
    let config = config(MAX);
    let mut engine = Engine::new(Arc::clone(&config));
    let message = call(1, "echo", 150_000);
    let (begin, rest) = message.split_at(100_000);
    let mut clients: Vec<_> = (0..10).map(|_| (engine.open_channel(NOW), engine.line_decoder())).collect();
    for (_, decoder) in &mut clients {
        begin.chunks(16 << 10).for_each(|piece| decoder.push(piece));
    }
    let used = config.memory_in_use();
    assert!((1_000_000..1_500_000).contains(&used), "{used} bytes of ten unfinished lines");
    for (channel, decoder) in &mut clients {
        decoder.push(rest);
        while let Some(line) = decoder.next_line() {
            engine.handle_line(NOW, *channel, line);
        }
    }
    drop(clients);
    let held: Vec<Event> = core::iter::from_fn(|| engine.poll_event(NOW)).collect();
    assert_eq!(held.len(), 10);
    let used = config.memory_in_use();
    assert!((1_500_000..2_700_000).contains(&used), "{used} bytes of ten calls");
    drop((engine, held));
    assert_eq!(config.memory_in_use(), 0);
}

#[test]
fn requests_that_wait_and_answers_to_batches_are_counted() {
    let mut limits = Limits::default();
    limits.max_live_calls = 1;
    let waiting = Arc::new(
        Config::new("server", "1").capabilities(Capabilities::new().with(Capability::Tools)).limits(limits),
    );
    let mut server = Server::new(Arc::clone(&waiting), NOW);
    let mut held = Vec::new();
    for id in 0..11 {
        feed_whole(&mut server, &call(id, "echo", 50_000), &mut |_, call| held.push(call));
    }
    assert_eq!(held.len(), 1, "the others wait");
    let used = waiting.memory_in_use();
    assert!((500_000..1_000_000).contains(&used), "{used} bytes of ten requests that wait");
    drop((server, held.pop()));
    assert_eq!(waiting.memory_in_use(), 0);

    let config = config(MAX);
    let mut server = Server::new(Arc::clone(&config), NOW);
    let params = json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
    let batch: Vec<_> = (1..=11)
        .map(|id| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "echo", "arguments": { "text": "x".repeat(50_000) } } }))
        .collect();
    for message in [
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!(batch),
    ] {
        feed_whole(&mut server, &line(&message), &mut |_, call| held.push(call));
    }
    let before = config.memory_in_use();
    for call in held.drain(..10) {
        echo(&mut server, call);
    }
    let used = config.memory_in_use() - before;
    assert!((500_000..1_100_000).contains(&used), "{used} bytes of ten answers that wait for the last one");
    drop((server, held));
    assert_eq!(config.memory_in_use(), 0);
}
