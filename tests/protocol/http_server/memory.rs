//! `Limits::max_memory` over HTTP, near its bound: what is refused, what waits, and what goes on.

use mcp_proto::h1::HttpLimits;
use mcp_proto::head::RequestHead;
use mcp_proto::http::server::{Admission, Config, Connection};
use mcp_proto::{VersionSet, server};
use mcp_tests::harness::HttpServerHarness;

use super::{CALL_FIELDS, harness_with, initialize_request, modern_request};
use crate::protocol::common::{limits, server};

const MAX: usize = 1 << 20;

/// A server whose memory is filled by open calls.
struct Full {
    config: server::Config,
    web: HttpServerHarness,
    next: u32,
}

impl Full {
    /// Returns a server of which less than this part is free: an eighth or a sixteenth.
    fn new(part: usize) -> Self {
        let config = server(VersionSet::ALL).limits(limits(|l| {
            l.max_memory = Some(MAX);
            l.max_live_calls = 10_000;
        }));
        let web = harness_with(config.clone(), Config::new());
        let mut full = Self { config, web, next: 0 };
        let bound = MAX - MAX / part;
        while full.config.memory_in_use() <= bound {
            // Short ones near the last eighth, where long ones are refused.
            let is_near = full.config.memory_in_use() + 50_000 > MAX - MAX / 8;
            let status = full.call(if is_near { 3_000 } else { 20_000 });
            assert_eq!(status, None, "{} bytes in use", full.config.memory_in_use());
        }
        full
    }

    /// Makes a call with a body of this length. Returns the status of its response, or `None` if it runs.
    fn call(&mut self, length: usize) -> Option<u16> {
        self.next += 1;
        let body = |padding: usize| {
            modern_request(
                self.next,
                "tools/call",
                &format!("\"name\":\"echo\",\"arguments\":{{\"x\":\"{}\"}}", "x".repeat(padding)),
            )
        };
        let x = self.web.post(&CALL_FIELDS, &body(length - body(0).len()));
        while self.web.poll_event().is_some() {}
        Some(self.web.response(x).status).filter(|status| *status > 0)
    }

    fn connect(&mut self, input: &[u8]) -> Connection {
        let mut connection = Connection::new(self.web.now, HttpLimits::default());
        self.send(&mut connection, input);
        connection
    }

    fn send(&mut self, connection: &mut Connection, input: &[u8]) {
        connection.handle_input(self.web.now, input);
        connection.drive(self.web.now, &mut self.web.server);
    }
}

/// Returns the beginning of a head of this length, or the whole of it.
fn head(length: usize, is_whole: bool) -> Vec<u8> {
    let begin = "GET /nowhere HTTP/1.1\r\nHost: localhost\r\nX-Long: ";
    let end = if is_whole { "\r\n\r\n" } else { "" };
    format!("{begin}{}{end}", "x".repeat(length - begin.len() - end.len())).into_bytes()
}

// covers: SEC-018
#[test]
fn last_eighth_is_for_short_requests() {
    let mut full = Full::new(8);
    assert_eq!((full.call(4_095), full.call(4_096), full.call(4_097)), (None, Some(503), Some(503)));
    // In two pieces it is as long, and none of it is kept.
    let fields: Vec<(&str, &[u8])> =
        [("host", "localhost"), ("accept", "*/*"), ("content-type", "application/json")]
            .map(|(name, value)| (name, value.as_bytes()))
            .into();
    let request = RequestHead { method: "POST", target: "/mcp", fields: &fields };
    for (length, status) in [(2_047, None), (2_048, Some(503))] {
        let web = &mut full.web;
        let x = web.server.open(web.now, &request, None);
        for length in [2_048, length] {
            web.server.handle_body(web.now, x, vec![b' '; length].into());
        }
        assert_eq!(web.server.response(x).map(|response| response.status), status);
        web.server.handle_gone(web.now, x);
    }
    // A session stays, so it is refused however short its request is.
    let x = full.web.post(&[], &initialize_request("2025-11-25"));
    let reply = full.web.response(x);
    assert_eq!(
        (reply.status, &reply.message()["error"]["message"]),
        (503, &"not enough memory for the request".into())
    );
}

// covers: SEC-018
#[test]
fn long_head_is_given_up_while_nothing_new_is_taken() {
    let mut full = Full::new(8);
    for (length, is_given_up) in [(4_095, false), (4_096, true), (5_000, true)] {
        let connection = full.connect(&head(length, false));
        let text = String::from_utf8_lossy(connection.transmit()).into_owned();
        assert_eq!(text.starts_with("HTTP/1.1 408 "), is_given_up, "{length}: {text}");
    }
    // One that is complete waits for its admission, and is served then.
    let mut held = Connection::new(full.web.now, HttpLimits::default());
    held.set_admission(Admission::Held);
    full.send(&mut held, &head(5_000, true));
    assert!(held.is_head_held() && held.transmit().is_empty());
    held.set_admission(Admission::Open);
    full.send(&mut held, b"");
    assert!(held.transmit().starts_with(b"HTTP/1.1 404 "));
}

// covers: SEC-018
#[test]
fn buffers_of_connections_are_charged() {
    let config = server(VersionSet::ALL).limits(limits(|l| l.max_memory = Some(MAX)));
    let mut web = harness_with(config.clone(), Config::new());
    let before = config.memory_in_use();
    let mut connections: Vec<Connection> = Vec::new();
    for _ in 0..10 {
        let mut connection = Connection::new(web.now, HttpLimits::default());
        connection.handle_input(web.now, &head(7_000, false));
        connection.drive(web.now, &mut web.server);
        assert!(connection.transmit().is_empty());
        connections.push(connection);
    }
    assert!(config.memory_in_use() - before >= 70_000, "{before}, then {}", config.memory_in_use());
    drop(connections);
    assert_eq!(config.memory_in_use(), before);
}

// covers: SEC-018
#[test]
fn client_that_reads_no_refusals_gets_no_more_of_them_without_memory() {
    let requests = head(100, true).repeat(20);
    for (part, is_full) in [(8, false), (16, true)] {
        let mut full = Full::new(part);
        let mut connection = full.connect(&requests);
        let unread: usize = connection.segments().map(<[u8]>::len).sum();
        assert_eq!((connection.wants_input(), unread < 2_000), (!is_full, is_full), "{unread}");
        assert!(unread >= 1 << 10, "{unread}");
        // What it reads makes room for the next ones.
        let mut all = Vec::new();
        while !connection.transmit().is_empty() {
            let bytes = connection.transmit().to_vec();
            connection.consume(bytes.len());
            all.extend(bytes);
            full.send(&mut connection, b"");
        }
        assert_eq!(String::from_utf8(all).expect("text").matches("HTTP/1.1 404 ").count(), 20);
    }
}
