//! A complete event loop on `mio`: MCP over TCP connections and over HTTP, on one thread, without an adapter.
//!
//! It shows what a program does that drives the state machines itself:
//!
//! - Each TCP connection has a [`pipe::Server`]. Each HTTP connection has a [`Connection`], and all of them share one
//!   [`Server`], whose sessions and calls outlive a connection.
//! - A turn waits, takes input in, answers calls, and writes. The last three repeat until none of them makes progress.
//! - Back-pressure: nothing is read while `wants_input` is false, and output is produced only while it is written. `mio`
//!   reports edges, so a peer remembers that its socket is readable or writable.
//! - Deadlines: the loop waits until the earliest `poll_timeout`, and then calls `handle_timeout`.
//! - A connection that fails ends alone.
//!
//! A turn visits every connection. An adapter for thousands keeps a queue of those with something to do, and a heap of
//! deadlines. TLS, a limit on connections and an orderly shutdown are left out; the adapters have them.
//!
//! ```sh
//! cargo run -p mcp-proto --example own_loop
//! cargo run -p mcp-probe -- call add a=20 b=22 tcp://127.0.0.1:7000
//! cargo run -p mcp-probe -- call add a=20 b=22 http://127.0.0.1:8080/mcp
//! ```

#![expect(clippy::std_instead_of_alloc, reason = "a program with std")]

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::sync::Arc;

use mcp_proto::h1::HttpLimits;
use mcp_proto::http::server::{self as http, Connection, Server};
use mcp_proto::model::Tool;
use mcp_proto::pipe::{self, Pipe as _};
use mcp_proto::router::{CallTarget, HandlerError, HookOutcome, IntoToolResult as _, Route, Router};
use mcp_proto::server::{Call, Config, Engine, Event};
use mcp_proto::{Entropy, Fault, Instant, RawJson, RpcError};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

#[derive(serde::Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

type Handler = fn(Add) -> f64;

fn router() -> Result<Router<Handler>, Box<dyn core::error::Error>> {
    let schema = r#"{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}"#;
    let mut router = Router::<Handler>::new("calculator", "1.0.0");
    router
        .tool(Tool::new("add", RawJson::new(schema)?).description("Adds two numbers"), |add| add.a + add.b)?;
    Ok(router)
}

/// Answers a call. The handlers of this program are quick, so they run here; others would be given to a thread.
fn answer(engine: &mut Engine, router: &Router<Handler>, now: Instant, call: &Call) {
    let sent = match router.route(call) {
        Route::Answer(answer) => engine.complete(now, call.id(), &answer),
        Route::Refuse(error) => engine.fail(now, call.id(), &error),
        Route::Handle(routed) => {
            let CallTarget::Tool(tool) = &routed.target else { return };
            let result = tool.parse().map_err(HandlerError::from);
            let result = result.and_then(|add| (routed.handler)(add).into_tool_result());
            let outcome = result.or_else(HandlerError::into_result);
            let (sent, outcome) = match &outcome {
                Ok(result) if result.is_failure() => {
                    (engine.complete(now, call.id(), result), HookOutcome::ToolFailed)
                }
                Ok(result) => (engine.complete(now, call.id(), result), HookOutcome::Completed),
                Err(error) => (engine.fail(now, call.id(), error), HookOutcome::Failed(error)),
            };
            router.finish(routed.context(), outcome);
            sent
        }
        _ => engine.fail(now, call.id(), &RpcError::internal("not offered")),
    };
    if let Err(error) = sent {
        eprintln!("{} was not answered: {error}", call.method());
    }
}

/// The state machine of a connection.
enum Machine {
    Raw(Box<pipe::Server>),
    Http(Box<Connection>),
}

/// A connection: its socket, and what is known about it.
struct Peer {
    stream: TcpStream,
    machine: Machine,
    /// Reading may succeed. `mio` says so once, so it is kept while the machine wants no input.
    readable: bool,
    /// Writing may succeed.
    writable: bool,
    is_broken: bool,
}

impl Peer {
    fn wants_input(&self) -> bool {
        match &self.machine {
            Machine::Raw(pipe) => pipe.wants_input(),
            Machine::Http(connection) => connection.wants_input(),
        }
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        match &mut self.machine {
            Machine::Raw(pipe) => pipe.poll_timeout(),
            Machine::Http(connection) => connection.poll_timeout(),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match &mut self.machine {
            Machine::Raw(pipe) => pipe.handle_timeout(now),
            Machine::Http(connection) => connection.handle_timeout(now),
        }
    }

    /// Reads once, if the machine wants input. Returns whether something has changed.
    fn read(&mut self, now: Instant) -> bool {
        if self.is_broken || !self.readable || !self.wants_input() {
            return false;
        }
        let mut buffer = [0; 16 << 10];
        match (self.stream.read(&mut buffer), &mut self.machine) {
            (Ok(0), machine) => {
                self.readable = false;
                match machine {
                    Machine::Raw(pipe) => pipe.handle_eof(now),
                    Machine::Http(connection) => connection.handle_eof(now),
                }
            }
            (Ok(length), Machine::Raw(pipe)) => pipe.handle_input(now, &buffer[..length]),
            (Ok(length), Machine::Http(connection)) => connection.handle_input(now, &buffer[..length]),
            (Err(error), _) => match error.kind() {
                ErrorKind::WouldBlock => {
                    self.readable = false;
                    return false;
                }
                ErrorKind::Interrupted => {}
                _ => self.is_broken = true,
            },
        }
        true
    }

    /// Writes what there is. Returns whether something has changed.
    fn write(&mut self) -> bool {
        let mut has_changed = false;
        while !self.is_broken && self.writable {
            let bytes = match &self.machine {
                Machine::Raw(pipe) => pipe.transmit(),
                Machine::Http(connection) => connection.transmit(),
            };
            if bytes.is_empty() {
                break;
            }
            match (self.stream.write(bytes), &mut self.machine) {
                (Ok(length), Machine::Raw(pipe)) => pipe.consume(length),
                (Ok(length), Machine::Http(connection)) => connection.consume(length),
                (Err(error), _) => match error.kind() {
                    ErrorKind::WouldBlock => {
                        self.writable = false;
                        break;
                    }
                    ErrorKind::Interrupted => {}
                    _ => self.is_broken = true,
                },
            }
            has_changed = true;
        }
        if let Machine::Http(connection) = &self.machine {
            if connection.wants_write_shutdown() {
                // The client may have gone already.
                let _ = self.stream.shutdown(Shutdown::Write);
            }
        }
        has_changed
    }

    fn is_over(&self) -> bool {
        self.is_broken
            || match &self.machine {
                Machine::Raw(pipe) => pipe.is_drained(),
                Machine::Http(connection) => connection.wants_close(),
            }
    }
}

const RAW: Token = Token(0);
const HTTP: Token = Token(1);

struct EventLoop {
    poll: Poll,
    raw: TcpListener,
    http: TcpListener,
    /// `now` is the time since then.
    begun: std::time::Instant,
    router: Router<Handler>,
    config: Arc<Config>,
    /// The server over HTTP, which all its connections share.
    server: Server,
    peers: HashMap<Token, Peer>,
    last_token: usize,
}

impl EventLoop {
    fn bind(raw: SocketAddr, http: SocketAddr) -> Result<Self, Box<dyn core::error::Error>> {
        let poll = Poll::new()?;
        let (mut raw, mut http) = (TcpListener::bind(raw)?, TcpListener::bind(http)?);
        poll.registry().register(&mut raw, RAW, Interest::READABLE)?;
        poll.registry().register(&mut http, HTTP, Interest::READABLE)?;
        let router = router()?;
        let config = Arc::new(router.config());
        // Session ids are made of it, so nobody may guess it.
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| error.to_string())?;
        let server = Server::new(config.clone(), Arc::new(http::Config::new()), Entropy::new(secret, 0));
        let begun = std::time::Instant::now();
        Ok(Self { poll, raw, http, begun, router, config, server, peers: HashMap::new(), last_token: HTTP.0 })
    }

    fn now(&self) -> Instant {
        Instant::from_micros(u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// Returns how long to wait if nothing happens.
    fn time_to_wait(&mut self) -> Option<Duration> {
        let peers = self.peers.values_mut().filter_map(Peer::poll_timeout);
        let next = peers.chain(self.server.poll_timeout()).min()?;
        Some(next.saturating_duration_since(self.now()))
    }

    fn accept(&mut self, listener: Token) -> io::Result<()> {
        loop {
            let accepted = if listener == RAW { self.raw.accept() } else { self.http.accept() };
            let mut stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The client has gone again, or there are no descriptors now.
                Err(error) => {
                    eprintln!("a connection was not accepted: {error}");
                    return Ok(());
                }
            };
            self.last_token += 1;
            let token = Token(self.last_token);
            self.poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
            let now = self.now();
            let machine = match listener {
                RAW => Machine::Raw(Box::new(pipe::Server::new(self.config.clone(), now))),
                _ => Machine::Http(Box::new(Connection::new(now, HttpLimits::default()))),
            };
            let peer = Peer { stream, machine, readable: true, writable: true, is_broken: false };
            self.peers.insert(token, peer);
        }
    }

    /// Takes input in, answers calls and writes. Returns whether something has changed.
    fn advance(&mut self, now: Instant) -> bool {
        let Self { peers, server, router, .. } = self;
        let mut has_changed = false;
        for peer in peers.values_mut() {
            has_changed |= peer.read(now);
            match &mut peer.machine {
                Machine::Raw(pipe) => {
                    while let Some(event) = pipe.poll_event(now) {
                        has_changed = true;
                        if let Event::Call(call) = event {
                            answer(pipe.engine(), router, now, &call);
                        }
                    }
                }
                Machine::Http(connection) => connection.drive(now, server),
            }
        }
        while let Some(event) = server.poll_event(now) {
            has_changed = true;
            if let http::Event::Server(Event::Call(call)) = event {
                answer(server.engine(), router, now, &call);
            }
        }
        // An answer may belong to any connection, or to one that has gone.
        while let Some(exchange) = server.poll_ready(now) {
            has_changed = true;
            let connections = peers.values_mut().filter_map(|peer| match &mut peer.machine {
                Machine::Http(connection) => Some(connection),
                Machine::Raw(_) => None,
            });
            let owner = connections.into_iter().find(|connection| connection.exchange() == Some(exchange));
            if let Some(connection) = owner {
                connection.drive(now, server);
            }
        }
        for peer in peers.values_mut() {
            has_changed |= peer.write();
        }
        has_changed
    }

    /// Removes the connections that have ended.
    fn remove_ended(&mut self, now: Instant) {
        let Self { peers, server, poll, .. } = self;
        peers.retain(|_, peer| {
            if !peer.is_over() {
                return true;
            }
            match &mut peer.machine {
                Machine::Raw(pipe) => pipe.abort(now, &Fault::Eof),
                // Its calls are cancelled, and a session may be resumed on another connection.
                Machine::Http(connection) => connection.abandon(now, server),
            }
            // It is closed all the same.
            let _ = poll.registry().deregister(&mut peer.stream);
            false
        });
    }

    /// Waits for something, and does all that follows from it.
    fn turn(&mut self, events: &mut Events) -> io::Result<()> {
        let wait = self.time_to_wait();
        match self.poll.poll(events, wait) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            outcome => outcome?,
        }
        for event in events.iter() {
            match event.token() {
                listener @ (RAW | HTTP) => self.accept(listener)?,
                token => {
                    // Events of a connection that has just been removed may follow.
                    let Some(peer) = self.peers.get_mut(&token) else { continue };
                    peer.readable |= event.is_readable() || event.is_read_closed();
                    peer.writable |= event.is_writable();
                }
            }
        }
        let now = self.now();
        self.server.handle_timeout(now);
        self.peers.values_mut().for_each(|peer| peer.handle_timeout(now));
        while self.advance(now) {}
        self.remove_ended(now);
        Ok(())
    }

    fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        loop {
            self.turn(&mut events)?;
        }
    }
}

fn main() -> Result<(), Box<dyn core::error::Error>> {
    let mut addresses = std::env::args().skip(1);
    let mut next = |default: &str| addresses.next().unwrap_or_else(|| default.to_owned()).parse();
    let event_loop = EventLoop::bind(next("127.0.0.1:7000")?, next("127.0.0.1:8080")?)?;
    let (raw, http) = (event_loop.raw.local_addr()?, event_loop.http.local_addr()?);
    eprintln!("tcp://{raw}\nhttp://{http}/mcp");
    Ok(event_loop.run()?)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::net::TcpStream as StdStream;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

    /// Starts the loop on a thread that lives as long as the process. Returns the addresses of both listeners.
    fn start() -> (SocketAddr, SocketAddr) {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let any = "127.0.0.1:0".parse().expect("an address");
            let event_loop = EventLoop::bind(any, any).expect("free ports");
            let addresses = (event_loop.raw.local_addr(), event_loop.http.local_addr());
            tell.send((addresses.0.expect("bound"), addresses.1.expect("bound"))).expect("awaited");
            event_loop.run().expect("no end");
        });
        told.recv().expect("it listens")
    }

    fn connect(address: SocketAddr) -> BufReader<StdStream> {
        let stream = StdStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
        BufReader::new(stream)
    }

    fn add(id: u32, a: u32) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"add","arguments":{{"a":{a},"b":1}},{META}}}}}"#
        )
    }

    fn line(client: &mut BufReader<StdStream>) -> serde_json::Value {
        let mut line = String::new();
        client.read_line(&mut line).expect("an answer");
        serde_json::from_str(&line).expect("JSON")
    }

    #[test]
    fn tcp_clients_are_served_beside_each_other_in_both_eras() {
        let (raw, _) = start();
        let (mut first, mut second) = (connect(raw), connect(raw));
        // A part of a message holds up nobody else.
        let text = add(1, 41) + "\n";
        first.get_mut().write_all(&text.as_bytes()[..40]).expect("open");
        second.get_mut().write_all((add(7, 1) + "\n").as_bytes()).expect("open");
        assert_eq!(line(&mut second)["result"]["content"][0]["text"], "2");
        first.get_mut().write_all(&text.as_bytes()[40..]).expect("open");
        assert_eq!(line(&mut first)["result"]["content"][0]["text"], "42");

        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
        second.get_mut().write_all(format!("{hello}\n").as_bytes()).expect("open");
        assert_eq!(line(&mut second)["result"]["protocolVersion"], "2025-11-25");
        // The end of one client is not that of the other.
        drop(first);
        second.get_mut().write_all(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n").expect("open");
        assert_eq!(line(&mut second)["id"], 2);
    }

    #[test]
    fn calls_are_answered_in_order_however_many_come_at_once() {
        let (raw, _) = start();
        let mut client = connect(raw);
        // More than the machine takes before it wants no further input.
        let count = 20_000;
        let all: String = (0..count).map(|id| add(id, id) + "\n").collect();
        let mut writing = client.get_ref().try_clone().expect("a handle");
        let writer = thread::spawn(move || writing.write_all(all.as_bytes()).expect("open"));
        for id in 0..count {
            let answer = line(&mut client);
            assert_eq!(answer["id"], id);
            assert_eq!(answer["result"]["content"][0]["text"], (id + 1).to_string());
        }
        writer.join().expect("all was written");
    }

    #[test]
    fn http_clients_are_served_and_connections_are_used_again() {
        let (_, http) = start();
        let (mut client, mut other) = (connect(http), connect(http));
        for a in [1, 41] {
            for client in [&mut client, &mut other] {
                let body = add(1, a);
                let head = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: add";
                let request = format!(
                    "POST /mcp HTTP/1.1\r\nHost: localhost\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                client.get_mut().write_all(request.as_bytes()).expect("open");
                let mut length = 0;
                let mut status = String::new();
                client.read_line(&mut status).expect("a status");
                assert!(status.starts_with("HTTP/1.1 200 "), "{status}");
                loop {
                    let mut field = String::new();
                    client.read_line(&mut field).expect("a field");
                    let Some((name, value)) = field.split_once(':') else { break };
                    if name.eq_ignore_ascii_case("content-length") {
                        length = value.trim().parse().expect("a number");
                    }
                }
                let mut body = vec![0; length];
                client.read_exact(&mut body).expect("a body");
                let answer: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
                assert_eq!(answer["result"]["content"][0]["text"], (a + 1).to_string());
            }
        }
    }
}
