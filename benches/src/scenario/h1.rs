//! HTTP/1.1: a head, a request that is read and answered, a request that is made and whose answer is read.

use alloc::sync::Arc;
use core::hint::black_box;

use mcp_proto::bench::Heads;
use mcp_proto::h1::{Limits, client, server};
use mcp_proto::head::{BodySize, Fields};
use mcp_proto::http::server as http;
use mcp_proto::{Entropy, Instant};

use super::server::config;
use super::{STEP, Scenario, pass};

/// A head as a client of MCP sends it: 435 bytes, 11 fields
pub(super) const HEAD: &str = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:8801\r\nUser-Agent: example-client/1.0.0\r\n\
    Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: 366\r\n\
    MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\nAuthorization: Bearer \
    eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJlc2lnbmF0dXJlc2lnbmF0dXJl\r\n\
    Accept-Encoding: gzip, deflate, br\r\nConnection: keep-alive\r\n\r\n";
/// The same as a page of this machine sends it: nothing in it that the door does not look at but the usual four
pub(super) const FROM_PAGE: &str = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:8801\r\nUser-Agent: \
    example-client/1.0.0\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
    Content-Length: 366\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n\
    Origin: http://localhost:3000\r\nAccept-Encoding: gzip, deflate, br\r\nConnection: keep-alive\r\n\r\n";
const BODY: [u8; 366] = [b'x'; 366];
const ANSWER: [u8; 150] = [b'y'; 150];

/// `httparse` alone
#[derive(Debug)]
pub struct FloorHead(pub(super) &'static str);

impl Scenario for FloorHead {
    fn op(&mut self) {
        let mut fields = [httparse::EMPTY_HEADER; 32];
        let mut request = httparse::Request::new(&mut fields);
        let read = request.parse(black_box(self.0.as_bytes()));
        assert!(matches!(black_box(read), Ok(httparse::Status::Complete(_))));
        black_box(&request);
    }
}

/// The same with all checks, up to the head that is lent
#[derive(Debug)]
pub struct Head(Heads);

impl Head {
    /// With the head in the buffer that a connection reads it from
    #[must_use]
    pub fn new() -> Self {
        let mut heads = Heads::default();
        heads.keep(HEAD.as_bytes());
        Self(heads)
    }
}

impl Default for Head {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario for Head {
    fn op(&mut self) {
        assert_eq!(black_box(black_box(&self.0).read(|head| head.fields.len())), Some(11));
    }
}

/// A head with all checks of HTTP and of MCP, up to where the body is wanted; what the exchange that it begins costs
/// to begin and to forget is in it
#[derive(Debug)]
pub struct Door {
    now: Instant,
    heads: Heads,
    server: http::Server,
}

impl Door {
    /// In the steady state
    #[must_use]
    pub fn new() -> Self {
        let mut heads = Heads::default();
        heads.keep(FROM_PAGE.as_bytes());
        let server = http::Server::new(config(), Arc::new(http::Config::new()), Entropy::new([7; 32], 0));
        let mut door = Self { now: Instant::from_micros(1), heads, server };
        for _ in 0..100 {
            door.op();
        }
        door
    }
}

impl Default for Door {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario for Door {
    fn op(&mut self) {
        let (now, server) = (self.now, &mut self.server);
        let open = black_box(&self.heads).read(|head| server.open(now, &head, Some(366))).expect("a head");
        assert!(server.wants_body(open), "let in");
        server.release(now, open);
    }
}

/// A POST that is read and answered on a connection that is kept
#[derive(Debug)]
pub struct Exchange {
    now: Instant,
    server: server::Connection,
    request: Vec<u8>,
    fields: Fields,
}

impl Exchange {
    /// In the steady state
    #[must_use]
    pub fn new() -> Self {
        let now = Instant::from_micros(1);
        let server = server::Connection::new(now, Limits::default());
        let mut fields = Fields::new();
        assert!(fields.push("Content-Type", b"application/json"));
        let mut exchange = Self { now, server, request: [HEAD.as_bytes(), &BODY].concat(), fields };
        for _ in 0..100 {
            exchange.op();
        }
        exchange
    }
}

impl Default for Exchange {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario for Exchange {
    fn op(&mut self) {
        pass(&mut self.now, STEP);
        let (server, now) = (&mut self.server, self.now);
        server.handle_input(now, black_box(&self.request));
        let mut length = 0;
        while let Some(event) = server.poll_event(now, |head, _| black_box(head.fields.len())) {
            match event {
                server::Event::Head(_) => {}
                server::Event::Body(data) => length += black_box(data).len(),
                server::Event::End => {
                    assert_eq!(length, BODY.len());
                    let size = BodySize::Exact(ANSWER.len() as u64);
                    server.respond(now, 200, &self.fields, size).expect("a response");
                    server.body(&ANSWER).expect("its body");
                    server.end(now).expect("its end");
                }
                server::Event::Gone | server::Event::Fault(_) => panic!("{event:?}"),
            }
        }
        let sent = black_box(server.transmit()).len();
        assert!(sent > ANSWER.len() && sent == server.unsent(), "in one piece");
        server.consume(sent);
    }
}

/// A POST that is made on a connection that is kept, and its answer
#[derive(Debug)]
pub struct Ask {
    now: Instant,
    client: client::Connection,
    answer: Vec<u8>,
    fields: Fields,
}

impl Ask {
    /// In the steady state
    #[must_use]
    pub fn new() -> Self {
        let now = Instant::from_micros(1);
        let client = client::Connection::new(now, Limits::default());
        let mut fields = Fields::new();
        assert!(fields.push("Content-Type", b"application/json"));
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 150\r\n\r\n";
        let mut ask = Self { now, client, answer: [&head[..], &ANSWER].concat(), fields };
        for _ in 0..100 {
            ask.op();
        }
        ask
    }
}

impl Default for Ask {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario for Ask {
    fn op(&mut self) {
        pass(&mut self.now, STEP);
        let (client, now) = (&mut self.client, self.now);
        let size = BodySize::Exact(BODY.len() as u64);
        client.request(now, "POST", "/mcp", "127.0.0.1:8801", &self.fields, size).expect("a request");
        client.body(&BODY).expect("its body");
        client.end(now).expect("its end");
        let sent = black_box(client.transmit()).len();
        assert_eq!(sent, client.unsent(), "in one piece");
        client.consume(sent);
        client.handle_input(now, black_box(&self.answer));
        while let Some(event) = client.poll_event(now, |head| black_box(head.status)) {
            assert!(!matches!(event, client::Event::Fault(_) | client::Event::Closed));
            black_box(event);
        }
        assert!(client.is_idle());
    }
}
