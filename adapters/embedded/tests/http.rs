//! The polled server over HTTP, with clients on the same interface of smoltcp.

mod support;

use core::convert::Infallible;
use core::time::Duration;

use mcp_embedded::Application;
use mcp_embedded::http::{EntropyError, HttpServer, Settings};
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::sync::Arc;
use mcp_proto::{CallId, Instant, RawJson};
use serde_json::json;
use smoltcp::iface::{Config as InterfaceConfig, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Loopback, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};

const START: Instant = Instant::from_micros(1_000_000);
const PORT: u16 = 80;
/// Sockets of the server.
const SOCKETS: usize = 3;
const PLACES: usize = HttpServer::<SOCKETS>::PLACES;

/// A network card that loops back, and may lose everything.
struct Card {
    inner: Loopback,
    is_cut: bool,
}

impl Device for Card {
    type RxToken<'a> = <Loopback as Device>::RxToken<'a>;
    type TxToken<'a> = <Loopback as Device>::TxToken<'a>;

    fn receive(&mut self, now: smoltcp::time::Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        if self.is_cut {
            while self.inner.receive(now).is_some() {}
        }
        self.inner.receive(now)
    }

    fn transmit(&mut self, now: smoltcp::time::Instant) -> Option<Self::TxToken<'_>> {
        self.inner.transmit(now)
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.inner.capabilities()
    }
}

/// Answers the tool `now` at once, and keeps the calls of others.
#[derive(Default)]
struct Calls {
    open: Vec<CallId>,
    cancelled: usize,
}

impl Application for Calls {
    fn handle_event(&mut self, now: Instant, engine: &mut Engine, event: Event) {
        match event {
            Event::Call(call)
                if call.params().is_some_and(|params| params.as_str().contains("\"name\":\"now\"")) =>
            {
                let result = RawJson::new("{\"content\":[]}").expect("JSON");
                engine.complete_raw(now, call.id(), &result).expect("an open call");
            }
            Event::Call(call) => self.open.push(call.id()),
            Event::Cancelled { call, .. } => {
                self.open.retain(|open| *open != call);
                self.cancelled += 1;
            }
            _ => {}
        }
    }
}

/// A generator for tests. Its bytes are no secret.
fn counting() -> impl FnMut(&mut [u8]) -> Result<(), Infallible> {
    let mut next = 0u8;
    move |bytes| {
        for byte in bytes {
            *byte = next;
            next = next.wrapping_add(1);
        }
        Ok(())
    }
}

struct World {
    card: Card,
    iface: Interface,
    sockets: SocketSet<'static>,
    server: HttpServer<SOCKETS>,
    handles: [SocketHandle; SOCKETS],
    app: Calls,
    now: Instant,
    next_port: u16,
}

impl World {
    fn new() -> Self {
        Self::with(|settings| settings)
    }

    fn with(change: impl FnOnce(Settings) -> Settings) -> Self {
        let mut card = Card { inner: Loopback::new(Medium::Ethernet), is_cut: false };
        let config = InterfaceConfig::new(EthernetAddress([2, 0, 0, 0, 0, 1]).into());
        let mut iface = Interface::new(config, &mut card, smoltcp::time::Instant::ZERO);
        iface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(IpAddress::v4(127, 0, 0, 1), 8)).expect("room for an address");
        });
        let mut sockets = SocketSet::new(Vec::new());
        let handles = core::array::from_fn(|_| sockets.add(socket(1_024)));
        let server =
            HttpServer::new(support::config(), change(Settings::tiny(PORT, SOCKETS)), handles, counting())
                .expect("a source of entropy");
        let mut world = Self {
            card,
            iface,
            sockets,
            server,
            handles,
            app: Calls::default(),
            now: START,
            next_port: 50_000,
        };
        world.settle();
        world
    }

    /// Takes turns until a millisecond has passed in which nothing moved.
    fn settle(&mut self) {
        self.run(Duration::from_millis(20));
    }

    /// Takes turns for a time, one in a millisecond.
    fn run(&mut self, time: Duration) {
        for _ in 0..time.as_millis() {
            for _ in 0..4 {
                self.turn();
            }
            self.now = self.now + Duration::from_millis(1);
        }
    }

    fn turn(&mut self) {
        let Self { card, iface, sockets, server, app, now, .. } = self;
        server.poll_network(*now, iface, card, sockets, app);
    }

    /// Begins a connection.
    fn connect(&mut self) -> Client {
        self.next_port += 1;
        let handle = self.sockets.add(socket(4_096));
        let client = self.sockets.get_mut::<Socket<'_>>(handle);
        client
            .connect(self.iface.context(), (IpAddress::v4(127, 0, 0, 1), PORT), self.next_port)
            .expect("an unused socket");
        self.settle();
        Client { handle, received: String::new() }
    }

    fn state(&self, client: &Client) -> State {
        self.sockets.get::<Socket<'_>>(client.handle).state()
    }

    fn send(&mut self, client: &Client, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let n =
                self.sockets.get_mut::<Socket<'_>>(client.handle).send_slice(bytes).expect("an open socket");
            bytes = &bytes[n..];
            self.settle();
        }
    }

    /// Takes what the client has received, and returns all of it since the last response.
    fn receive<'c>(&mut self, client: &'c mut Client) -> &'c str {
        self.settle();
        let socket = self.sockets.get_mut::<Socket<'_>>(client.handle);
        while socket.can_recv() {
            let text = |bytes: &mut [u8]| (bytes.len(), String::from_utf8_lossy(bytes).into_owned());
            client.received += &socket.recv(text).expect("received bytes");
        }
        &client.received
    }

    /// Sends a request and returns the response.
    fn exchange(&mut self, client: &mut Client, bytes: &[u8]) -> String {
        client.received.clear();
        self.send(client, bytes);
        self.receive(client).to_owned()
    }
}

struct Client {
    handle: SocketHandle,
    received: String,
}

fn socket(bytes: usize) -> Socket<'static> {
    Socket::new(SocketBuffer::new(vec![0; bytes]), SocketBuffer::new(vec![0; bytes]))
}

fn post(fields: &str, body: &str) -> Vec<u8> {
    let accept = "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n";
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\n{accept}{fields}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A call of a tool, of a client without a session.
fn call_with(id: u32, tool: &str, note: usize) -> Vec<u8> {
    let body = support::tool_call(id, tool, &json!({ "note": "x".repeat(note) }));
    let fields =
        format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n");
    post(&fields, &body.to_string())
}

fn call(id: u32, tool: &str) -> Vec<u8> {
    call_with(id, tool, 0)
}

fn initialize() -> Vec<u8> {
    let info = json!({ "name": "t", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
    post("", &json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string())
}

fn session_id(response: &str) -> Option<&str> {
    let field = response.lines().find(|line| line.to_ascii_lowercase().starts_with("mcp-session-id: "))?;
    field.split_once(": ").map(|(_, id)| id)
}

#[test]
fn request_cut_at_every_byte_is_answered() {
    let mut world = World::new();
    let mut client = world.connect();
    let whole = call(1, "now");
    for cut in (1..whole.len()).step_by(3) {
        world.send(&client, &whole[..cut]);
        let response = world.exchange(&mut client, &whole[cut..]);
        assert!(response.starts_with("HTTP/1.1 200 "), "cut at {cut}: {response}");
    }
}

#[test]
fn handshake_gets_a_session_whose_id_is_not_repeated() {
    let mut world = World::new();
    let mut client = world.connect();
    let first = world.exchange(&mut client, &initialize());
    let second = world.exchange(&mut client, &initialize());
    let (first, second) = (session_id(&first).expect("an id"), session_id(&second).expect("an id"));
    assert!(first.len() >= 20 && first != second, "{first} {second}");
}

#[test]
fn client_beyond_the_sockets_takes_the_place_of_an_idle_one() {
    let mut world = World::new();
    let mut idle: Vec<Client> = (0..PLACES).map(|_| world.connect()).collect();
    for client in &mut idle {
        assert!(world.exchange(client, &call(1, "now")).starts_with("HTTP/1.1 200 "));
    }
    world.run(Duration::from_millis(500));
    let mut late = world.connect();
    let response = world.exchange(&mut late, &call(2, "now"));
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    // The one that was idle for longest has ended, and the other is still served.
    assert_eq!(world.state(&idle[0]), State::Closed);
    assert!(world.exchange(&mut idle[1], &call(3, "now")).starts_with("HTTP/1.1 200 "));
}

#[test]
fn client_beyond_busy_sockets_is_told_to_come_back_and_one_more_is_refused() {
    let mut world = World::new();
    let busy: Vec<Client> = (0..PLACES).map(|_| world.connect()).collect();
    for (id, client) in (0..).zip(&busy) {
        world.send(client, &call(id, "later"));
    }
    assert_eq!(world.app.open.len(), PLACES);
    let mut waiting = world.connect();
    world.send(&waiting, &call(8, "now"));
    // The last socket is taken: the connection of one more client is reset.
    let refused = world.connect();
    assert_eq!(world.state(&refused), State::Closed);
    assert_eq!(world.receive(&mut waiting), "", "it waits for a place");
    world.run(Duration::from_secs(1));
    let response = world.receive(&mut waiting).to_ascii_lowercase();
    assert!(response.starts_with("http/1.1 503 ") && response.contains("\r\nretry-after: "), "{response}");
    assert_eq!((world.app.open.len(), world.app.cancelled), (PLACES, 0));

    // A place that becomes free goes to the one that waits.
    world.sockets.get_mut::<Socket<'_>>(waiting.handle).close();
    world.run(Duration::from_millis(200));
    let mut waiting = world.connect();
    world.send(&waiting, &call(9, "now"));
    assert_eq!(world.receive(&mut waiting), "");
    let result = RawJson::new("{\"content\":[]}").expect("JSON");
    let (now, done) = (world.now, world.app.open[0]);
    world.server.engine().complete_raw(now, done, &result).expect("an open call");
    world.run(Duration::from_millis(500));
    let response = world.receive(&mut waiting);
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
}

#[test]
fn silent_client_on_the_last_socket_makes_room_for_the_next() {
    let mut world = World::new();
    let clients: Vec<Client> = (0..SOCKETS).map(|_| world.connect()).collect();
    world.run(Duration::from_millis(1_200));
    assert_ne!(world.state(&clients[SOCKETS - 1]), State::Established);
    world.run(Duration::from_millis(2_200));
    let mut late = world.connect();
    let response = world.exchange(&mut late, &call(1, "now"));
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
}

#[test]
fn half_a_request_and_silence_ends_in_a_timeout_and_the_socket_serves_again() {
    let mut world = World::new();
    for (name, kept) in [("head", 20), ("body", call(1, "now").len() - 5)] {
        let mut client = world.connect();
        world.send(&client, &call(1, "now")[..kept]);
        assert_eq!(world.receive(&mut client), "");
        world.run(Duration::from_secs(11));
        let response = world.receive(&mut client);
        assert!(response.starts_with("HTTP/1.1 408 "), "{name}: {response}");
        world.run(Duration::from_secs(5));
    }
    let mut next: Vec<Client> = (0..PLACES).map(|_| world.connect()).collect();
    for client in &mut next {
        assert!(world.exchange(client, &call(1, "now")).starts_with("HTTP/1.1 200 "));
    }
}

#[test]
fn half_a_request_without_a_free_place_gives_its_own_to_a_whole_one_and_gets_408() {
    for (name, kept) in [("head", 20), ("body", call(1, "now").len() - 5)] {
        let mut world = World::new();
        let mut clients: Vec<Client> = (0..PLACES).map(|_| world.connect()).collect();
        let (idle, half) = clients.split_at_mut(1);
        assert!(world.exchange(&mut idle[0], &call(1, "now")).starts_with("HTTP/1.1 200 "));
        world.send(&half[0], &call(1, "now")[..kept]);
        // Until the body is slower than the least rate, and the idle connection could be ended as well.
        world.run(Duration::from_secs(3));
        assert_eq!(world.receive(&mut half[0]), "", "{name}");
        let mut whole = world.connect();
        assert!(world.exchange(&mut whole, &call(2, "now")).starts_with("HTTP/1.1 200 "), "{name}");
        let response = world.receive(&mut half[0]);
        assert!(response.starts_with("HTTP/1.1 408 "), "{name}: {response}");
        assert!(world.exchange(&mut idle[0], &call(3, "now")).starts_with("HTTP/1.1 200 "), "{name}");
    }
}

#[test]
fn request_larger_than_the_limit_is_refused_and_others_go_on() {
    let mut world = World::new();
    let (mut large, mut other) = (world.connect(), world.connect());
    // Announced in full, and only in part sent: the answer does not wait for the rest.
    let bytes = call_with(1, "now", 100_000);
    let response = world.exchange(&mut large, &bytes[..1_000]);
    assert!(response.starts_with("HTTP/1.1 413 "), "{response}");
    assert!(world.exchange(&mut other, &call(2, "now")).starts_with("HTTP/1.1 200 "));
    let head = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: {}", "y".repeat(3_000));
    let response = world.exchange(&mut other, head.as_bytes());
    assert!(response.starts_with("HTTP/1.1 431 "), "{response}");
    let mut next = world.connect();
    assert!(world.exchange(&mut next, &call(3, "now")).starts_with("HTTP/1.1 200 "));
}

#[test]
fn client_that_resets_cancels_its_call_and_its_socket_serves_again() {
    let mut world = World::new();
    for round in 1..=2 * SOCKETS {
        let client = world.connect();
        world.send(&client, &call(1, "later"));
        assert_eq!(world.app.open.len(), 1);
        world.sockets.get_mut::<Socket<'_>>(client.handle).abort();
        world.run(Duration::from_millis(200));
        assert_eq!((world.app.open.len(), world.app.cancelled), (0, round));
    }
}

#[test]
fn call_keeps_its_connection_while_neither_side_sends() {
    let mut world = World::with(|mut settings| {
        settings.http = settings.http.event_stream_delay(Duration::from_secs(60));
        settings
    });
    let mut client = world.connect();
    world.send(&client, &call(1, "slow"));
    // More than the time after which a client is gone that acknowledges nothing.
    world.run(Duration::from_secs(30));
    assert_eq!((world.app.open.len(), world.app.cancelled), (1, 0));
    assert_eq!(world.receive(&mut client), "");
    assert_eq!(world.state(&client), State::Established);
}

#[test]
fn client_that_vanishes_leaves_its_socket_to_the_next() {
    let mut world = World::new();
    let lost: Vec<Client> = (0..PLACES).map(|_| world.connect()).collect();
    for (id, client) in (0..).zip(&lost) {
        world.send(client, &call(id, "later"));
    }
    world.card.is_cut = true;
    let result = RawJson::new("{\"content\":[]}").expect("JSON");
    for id in world.app.open.clone() {
        world.server.engine().complete_raw(world.now, id, &result).expect("an open call");
    }
    for client in &lost {
        world.sockets.remove(client.handle);
    }
    world.run(Duration::from_secs(30));
    world.card.is_cut = false;
    world.settle();
    let mut next: Vec<Client> = (0..PLACES).map(|_| world.connect()).collect();
    for client in &mut next {
        assert!(world.exchange(client, &call(3, "now")).starts_with("HTTP/1.1 200 "));
    }
}

#[test]
fn handshake_that_is_not_finished_leaves_its_socket_to_the_next() {
    let mut world = World::new();
    world.connect();
    world.next_port += 1;
    let handle = world.sockets.add(socket(64));
    let client = world.sockets.get_mut::<Socket<'_>>(handle);
    let remote = (IpAddress::v4(127, 0, 0, 1), PORT);
    client.connect(world.iface.context(), remote, world.next_port).expect("an unused socket");
    let states = |world: &World| world.handles.map(|handle| world.sockets.get::<Socket<'_>>(handle).state());
    while !states(&world).contains(&State::SynReceived) {
        world.turn();
    }
    world.card.is_cut = true;
    world.sockets.remove(handle);
    world.run(Duration::from_millis(2_900));
    assert!(states(&world).contains(&State::SynReceived));
    world.run(Duration::from_millis(300));
    assert!(!states(&world).contains(&State::SynReceived), "{:?}", states(&world));
}

#[test]
fn clock_that_stops_or_jumps_loses_no_request() {
    let mut world = World::new();
    let mut client = world.connect();
    assert!(world.exchange(&mut client, &call(1, "now")).starts_with("HTTP/1.1 200 "));
    // Back by nearly all of it: the last time counts.
    let before = world.now;
    world.now = Instant::from_micros(1);
    let response = world.exchange(&mut client, &call(2, "now"));
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    // It stands still.
    world.now = before;
    client.received.clear();
    let bytes = call(3, "now");
    world.sockets.get_mut::<Socket<'_>>(client.handle).send_slice(&bytes).expect("an open socket");
    for _ in 0..50 {
        world.turn();
    }
    let socket = world.sockets.get_mut::<Socket<'_>>(client.handle);
    let response =
        socket.recv(|bytes| (bytes.len(), String::from_utf8_lossy(bytes).into_owned())).expect("bytes");
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    // Forward by a year: idle connections end, and the next client is served.
    world.now = before + Duration::from_secs(365 * 86_400);
    world.settle();
    assert_ne!(world.state(&client), State::Established);
    let mut next = world.connect();
    let response = world.exchange(&mut next, &call(4, "now"));
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
}

#[test]
fn server_without_entropy_does_not_start() {
    let start = |source: &mut dyn FnMut(&mut [u8]) -> Result<(), &'static str>| {
        let mut sockets = SocketSet::new(Vec::new());
        let handles: [SocketHandle; 2] = core::array::from_fn(|_| sockets.add(socket(64)));
        let config = Arc::new(Config::new("d", "1"));
        HttpServer::new(config, Settings::tiny(PORT, 2), handles, source).map(|_| ())
    };
    assert_eq!(start(&mut |_| Err("not ready")), Err(EntropyError::Source("not ready")));
    let mut draws = 0;
    let fails_later = &mut |bytes: &mut [u8]| {
        draws += 1;
        bytes.iter_mut().zip(1..).for_each(|(byte, n)| *byte = n);
        if draws == 1 { Ok(()) } else { Err("gone") }
    };
    assert_eq!(start(fails_later), Err(EntropyError::Source("gone")));
    // A generator that is off leaves the buffer alone, or fills it with one value.
    assert_eq!(start(&mut |_| Ok(())), Err(EntropyError::Stuck));
    let all_ones = &mut |bytes: &mut [u8]| {
        bytes.fill(0xFF);
        Ok(())
    };
    assert_eq!(start(all_ones), Err(EntropyError::Stuck));
    let repeats = &mut |bytes: &mut [u8]| {
        bytes.iter_mut().zip(1..).for_each(|(byte, n)| *byte = n);
        Ok(())
    };
    assert_eq!(start(repeats), Err(EntropyError::Stuck));
    let error = EntropyError::Source("not ready").to_string();
    assert_eq!(error, "the source of entropy has failed: not ready");
}
