//! HTTP/1.1: a head, a request that is read and answered, a request that is sent and whose answer is read.

use alloc::sync::Arc;
use core::hint::black_box;

use mcp_proto::h1::{HttpLimits, client, server};
use mcp_proto::head::{BodySize, Fields};
use mcp_proto::http::server as http;
use mcp_proto::internals::HeadParser;
use mcp_proto::{Entropy, Instant};

use super::server::config;
use super::{Scenario, TIME_STEP, advance};

/// Request head of an MCP client: 435 bytes, 11 fields.
pub(super) const HEAD: &str = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:8801\r\nUser-Agent: example-client/1.0.0\r\n\
    Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: 366\r\n\
    MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\nAuthorization: Bearer \
    eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJlc2lnbmF0dXJlc2lnbmF0dXJl\r\n\
    Accept-Encoding: gzip, deflate, br\r\nConnection: keep-alive\r\n\r\n";
/// Request head of a web page on this machine. Besides common fields it has an `Origin`, which is checked.
pub(super) const BROWSER_HEAD: &str = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:8801\r\nUser-Agent: \
    example-client/1.0.0\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
    Content-Length: 366\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n\
    Origin: http://localhost:3000\r\nAccept-Encoding: gzip, deflate, br\r\nConnection: keep-alive\r\n\r\n";
const BODY: [u8; 366] = [b'x'; 366];
const ANSWER: [u8; 150] = [b'y'; 150];

/// `httparse` alone.
#[derive(Debug)]
pub struct FloorHead(pub(super) &'static str);

impl Scenario for FloorHead {
    fn run_once(&mut self) {
        let mut fields = [httparse::EMPTY_HEADER; 32];
        let mut request = httparse::Request::new(&mut fields);
        let read = request.parse(black_box(self.0.as_bytes()));
        assert!(matches!(black_box(read), Ok(httparse::Status::Complete(_))));
        black_box(&request);
    }
}

/// Parsing with all checks, up to the borrowed head.
#[derive(Debug)]
pub struct HeadParse(HeadParser);

impl HeadParse {
    /// Returns the scenario, with the head in the buffer of a connection.
    #[must_use]
    pub fn new() -> Self {
        let mut heads = HeadParser::default();
        heads.load(HEAD.as_bytes());
        Self(heads)
    }
}

impl Default for HeadParse {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario for HeadParse {
    fn run_once(&mut self) {
        assert_eq!(black_box(black_box(&self.0).parse(|head| head.fields.len())), Some(11));
    }
}

/// A head with all checks of HTTP and MCP, up to the point where the body is wanted. The cost of opening and releasing
/// the exchange is included.
#[derive(Debug)]
pub struct RequestChecks {
    now: Instant,
    heads: HeadParser,
    server: http::Server,
}

impl RequestChecks {
    /// Returns the scenario in its steady state.
    #[must_use]
    pub fn new() -> Self {
        let mut heads = HeadParser::default();
        heads.load(BROWSER_HEAD.as_bytes());
        let server = http::Server::new(config(), Arc::new(http::Config::new()), Entropy::new([7; 32], 0));
        let mut checks = Self { now: Instant::from_micros(1), heads, server };
        for _ in 0..100 {
            checks.run_once();
        }
        checks
    }
}

impl Default for RequestChecks {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario for RequestChecks {
    fn run_once(&mut self) {
        let (now, server) = (self.now, &mut self.server);
        let open = black_box(&self.heads).parse(|head| server.open(now, &head, Some(366))).expect("a head");
        assert!(server.wants_body(open), "the request is accepted");
        server.release(now, open);
    }
}

/// A POST that is read and answered on a keep-alive connection.
#[derive(Debug)]
pub struct H1ServerExchange {
    now: Instant,
    server: server::Connection,
    request: Vec<u8>,
    fields: Fields,
}

impl H1ServerExchange {
    /// Returns the scenario in its steady state.
    #[must_use]
    pub fn new() -> Self {
        let now = Instant::from_micros(1);
        let server = server::Connection::new(now, HttpLimits::default());
        let mut fields = Fields::new();
        assert!(fields.push("Content-Type", b"application/json"));
        let mut exchange = Self { now, server, request: [HEAD.as_bytes(), &BODY].concat(), fields };
        for _ in 0..100 {
            exchange.run_once();
        }
        exchange
    }
}

impl Default for H1ServerExchange {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario for H1ServerExchange {
    fn run_once(&mut self) {
        advance(&mut self.now, TIME_STEP);
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
                    server.write_body(&ANSWER).expect("its body");
                    server.end(now).expect("its end");
                }
                server::Event::ClientGone | server::Event::Fault(_) => panic!("{event:?}"),
            }
        }
        let sent = black_box(server.transmit()).len();
        assert!(sent > ANSWER.len() && sent == server.unsent_len(), "in one piece");
        server.consume(sent);
    }
}

/// A POST that is sent on a keep-alive connection, and its answer.
#[derive(Debug)]
pub struct H1ClientExchange {
    now: Instant,
    client: client::Connection,
    answer: Vec<u8>,
    fields: Fields,
}

impl H1ClientExchange {
    /// Returns the scenario in its steady state.
    #[must_use]
    pub fn new() -> Self {
        let now = Instant::from_micros(1);
        let client = client::Connection::new(now, HttpLimits::default());
        let mut fields = Fields::new();
        assert!(fields.push("Content-Type", b"application/json"));
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 150\r\n\r\n";
        let mut ask = Self { now, client, answer: [&head[..], &ANSWER].concat(), fields };
        for _ in 0..100 {
            ask.run_once();
        }
        ask
    }
}

impl Default for H1ClientExchange {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario for H1ClientExchange {
    fn run_once(&mut self) {
        advance(&mut self.now, TIME_STEP);
        let (client, now) = (&mut self.client, self.now);
        let size = BodySize::Exact(BODY.len() as u64);
        client.request(now, "POST", "/mcp", "127.0.0.1:8801", &self.fields, size).expect("a request");
        client.write_body(&BODY).expect("its body");
        client.end(now).expect("its end");
        let sent = black_box(client.transmit()).len();
        assert_eq!(sent, client.unsent_len(), "in one piece");
        client.consume(sent);
        client.handle_input(now, black_box(&self.answer));
        while let Some(event) = client.poll_event(now, |head| black_box(head.status)) {
            assert!(!matches!(event, client::Event::Fault(_) | client::Event::Closed));
            black_box(event);
        }
        assert!(client.is_idle());
    }
}
