//! An HTTP/1.1 connection with a server behind it, byte by byte.

use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::http::server::{Config, Connection, Event, Protected, Server};
use mcp_proto::model::CallToolResult;
use mcp_proto::server::{Event as EngineEvent, Identity};
use mcp_proto::{Capabilities, Capability, Entropy, Instant, Progress, VersionSet, h1, server};
use mcp_tests::harness::Rng;

/// A server with one connection.
struct ConnectionHarness {
    server: Server,
    connection: Connection,
    now: Instant,
    output: Vec<u8>,
    /// Calls that have not been answered.
    calls: Vec<server::Call>,
    cancelled_count: usize,
    answers_calls: bool,
    reads_output: bool,
}

impl ConnectionHarness {
    fn new(http: Config) -> Self {
        let now = Instant::from_micros(1);
        let config = server::Config::new("test", "1")
            .capabilities(Capabilities::new().with(Capability::Tools))
            .versions(VersionSet::ALL);
        Self {
            server: Server::new(Arc::new(config), Arc::new(http), Entropy::new([7; 32], 0)),
            connection: Connection::new(now, h1::HttpLimits::default()),
            now,
            output: Vec::new(),
            calls: Vec::new(),
            cancelled_count: 0,
            answers_calls: true,
            reads_output: true,
        }
    }

    /// Runs one turn in the order of an adapter.
    fn run_turn(&mut self) {
        self.connection.drive(self.now, &mut self.server);
        loop {
            let mut moved = false;
            while let Some(event) = self.server.poll_event(self.now) {
                moved = true;
                match event {
                    Event::Server(EngineEvent::Call(call)) if self.answers_calls => self.answer(&call),
                    Event::Server(EngineEvent::Call(call)) => self.calls.push(call),
                    Event::Server(EngineEvent::Cancelled { .. }) => self.cancelled_count += 1,
                    Event::Token { exchange, request } => {
                        assert_eq!(request.token.reveal(), "good");
                        self.server.grant(self.now, exchange, Identity::new("alice"));
                        self.connection.drive(self.now, &mut self.server);
                    }
                    _ => {}
                }
            }
            while let Some(exchange) = self.server.poll_ready(self.now) {
                assert_eq!(self.connection.exchange(), Some(exchange), "the only connection");
                moved = true;
                self.connection.drive(self.now, &mut self.server);
            }
            while self.reads_output && !self.connection.transmit().is_empty() {
                moved = true;
                let bytes = self.connection.transmit();
                self.output.extend_from_slice(bytes);
                let n = bytes.len();
                self.connection.consume(n);
                self.connection.drive(self.now, &mut self.server);
            }
            if !moved {
                return;
            }
        }
    }

    fn answer(&mut self, call: &server::Call) {
        let name = call.tool_call().expect("a tool call").name.into_owned();
        self.server.engine().complete(self.now, call.id(), &CallToolResult::text(name)).expect("taken");
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.connection.handle_input(self.now, bytes);
        self.run_turn();
    }

    fn advance(&mut self, time: Duration) {
        self.now = self.now + time;
        self.connection.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
        self.run_turn();
    }

    fn text(&self) -> &str {
        core::str::from_utf8(&self.output).expect("text")
    }

    /// Returns true if no exchange and no call is left.
    fn is_finished(&mut self) -> bool {
        self.server.exchange_count() == 0
            && self.connection.exchange().is_none()
            && self.server.engine().live_calls() == 0
    }
}

fn post_request(id: u32, name: &str, more: &str) -> Vec<u8> {
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":1}"#;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}","arguments":{{}},"_meta":{meta}}}}}"#
    );
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: {name}\r\n{more}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn pipelined_requests() -> Vec<u8> {
    let mut input = Vec::new();
    for (id, name) in [(1, "one"), (1, "two")] {
        input.extend(post_request(id, name, ""));
    }
    input.extend_from_slice(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n");
    input.extend(post_request(2, "three", ""));
    input
}

#[test]
fn pipelined_responses_keep_order_however_the_input_is_cut() {
    let input = pipelined_requests();
    let mut whole = ConnectionHarness::new(Config::new());
    whole.feed(&input);
    let text = whole.text().to_owned();
    let positions: Vec<_> =
        ["\"one\"", "\"two\"", "HTTP/1.1 404", "\"three\""].map(|part| text.find(part)).into();
    assert!(positions.iter().all(Option::is_some) && positions.is_sorted(), "{positions:?}: {text}");
    assert_eq!(text.matches("HTTP/1.1 ").count(), 4);
    assert!(whole.is_finished());

    for cut in 1..input.len() {
        let mut harness = ConnectionHarness::new(Config::new());
        harness.feed(&input[..cut]);
        harness.feed(&input[cut..]);
        assert_eq!(harness.text(), text, "cut at {cut}");
    }
    let mut harness = ConnectionHarness::new(Config::new());
    input.iter().for_each(|byte| harness.feed(&[*byte]));
    assert_eq!(harness.text(), text);
}

// covers: HTTP-037, HTTP-038
#[test]
fn header_whitespace_and_name_case_are_ignored() {
    let input = String::from_utf8(post_request(1, "one", "")).expect("text");
    for (field, served) in [
        ("MCP-METHOD: \t tools/call \t", true),
        ("mcp-method:tools/call", true),
        ("Mcp-Method: tools/ call", false),
        ("Mcp-Method: Tools/Call", false),
    ] {
        let mut harness = ConnectionHarness::new(Config::new());
        harness.feed(input.replace("Mcp-Method: tools/call", field).as_bytes());
        assert_eq!(harness.text().starts_with("HTTP/1.1 200 OK"), served, "{field}: {}", harness.text());
        assert_eq!(harness.text().contains("-32020"), !served, "{field}: {}", harness.text());
    }
}

#[test]
fn small_response_is_one_segment() {
    let mut harness = ConnectionHarness::new(Config::new());
    harness.reads_output = false;
    harness.feed(&post_request(1, "one", ""));
    assert_eq!(harness.connection.segments().count(), 1);
    assert!(harness.connection.transmit().ends_with(b"}"));
    assert!(harness.connection.exchange().is_none(), "the exchange is over except for writing");
}

// covers: HTTP-042
#[test]
fn disconnect_at_any_byte_of_the_request_frees_everything() {
    let input = post_request(1, "one", "");
    for cut in 0..=input.len() {
        let mut harness = ConnectionHarness::new(Config::new());
        harness.answers_calls = false;
        harness.feed(&input[..cut]);
        assert_eq!(harness.calls.len(), usize::from(cut == input.len()));
        harness.connection.handle_eof(harness.now);
        harness.run_turn();
        assert!(harness.is_finished(), "{cut}");
        assert_eq!(harness.cancelled_count, usize::from(cut == input.len()), "{cut}");
        assert!(harness.connection.wants_close(), "{cut}");
    }
}

// covers: HTTP-042, HTTP-043
#[test]
fn disconnect_at_any_byte_of_the_response_frees_everything() {
    let start_response = |harness: &mut ConnectionHarness, until: usize| {
        harness.reads_output = false;
        harness.feed(&post_request(1, "one", ""));
        let call = harness.calls.pop().expect("called");
        let progress = |n: u32| Progress::new(n.into()).with_message("so far");
        harness.server.engine().progress(harness.now, call.id(), progress(1)).expect("sent");
        harness.run_turn();
        let mut taken = 0;
        while taken < until && !harness.connection.transmit().is_empty() {
            let n = harness.connection.transmit().len().min(until - taken);
            harness.connection.consume(n);
            taken += n;
        }
        (call, taken)
    };
    let mut harness = ConnectionHarness::new(Config::new());
    harness.answers_calls = false;
    let (_, all) = start_response(&mut harness, usize::MAX);
    assert!(all > 100);
    for cut in 0..=all {
        for breaks in [false, true] {
            let mut harness = ConnectionHarness::new(Config::new());
            harness.answers_calls = false;
            let (call, _) = start_response(&mut harness, cut);
            if breaks {
                harness.connection.abandon(harness.now, &mut harness.server);
            } else {
                harness.connection.handle_eof(harness.now);
            }
            harness.reads_output = true;
            harness.run_turn();
            assert_eq!((harness.cancelled_count, harness.is_finished()), (1, true), "{cut}");
            assert!(
                harness
                    .server
                    .engine()
                    .complete(harness.now, call.id(), &CallToolResult::text("late"))
                    .is_err()
            );
            assert!(harness.connection.wants_close());
        }
    }
}

// covers: SEC-018
#[test]
fn output_is_bounded_when_client_does_not_read() {
    let mut harness = ConnectionHarness::new(Config::new());
    harness.reads_output = false;
    let request = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let input = request.repeat(100_000);
    let (mut fed, mut max_unsent) = (0, 0);
    for piece in input.chunks(16 << 10) {
        if !harness.connection.wants_input() {
            break;
        }
        harness.feed(piece);
        fed += piece.len();
        max_unsent = max_unsent.max(harness.connection.segments().map(<[u8]>::len).sum());
    }
    assert!(fed < 1 << 20 && max_unsent < 80 << 10, "{fed} {max_unsent}");
    assert_eq!(
        harness.connection.poll_timeout(),
        Some(harness.now + h1::HttpLimits::default().body_idle_timeout)
    );
    // After the client reads it gets the rest.
    harness.reads_output = true;
    harness.run_turn();
    assert_eq!(harness.text().matches("HTTP/1.1 404").count(), fed / request.len());
}

#[test]
fn progress_is_coalesced_while_client_does_not_read() {
    let mut harness = ConnectionHarness::new(Config::new());
    (harness.answers_calls, harness.reads_output) = (false, false);
    harness.feed(&post_request(1, "one", ""));
    let call = harness.calls.pop().expect("called");
    let text = "x".repeat(1_000);
    for n in 0..2_000 {
        harness.now = harness.now + Duration::from_millis(50);
        let _ = harness.server.engine().progress(
            harness.now,
            call.id(),
            Progress::new(n.into()).with_message(&*text),
        );
        harness.run_turn();
    }
    let waiting: usize = harness.connection.segments().map(<[u8]>::len).sum();
    assert!(waiting < 100 << 10, "{waiting}");
}

#[test]
fn connection_without_write_progress_times_out() {
    let mut harness = ConnectionHarness::new(Config::new());
    (harness.answers_calls, harness.reads_output) = (false, false);
    harness.feed(&post_request(1, "one", ""));
    let call = harness.calls.pop().expect("called");
    harness.server.engine().progress(harness.now, call.id(), Progress::new(1.0)).expect("sent");
    harness.run_turn();
    let idle_timeout = h1::HttpLimits::default().body_idle_timeout;
    harness.advance(idle_timeout - Duration::from_millis(1));
    assert!(!harness.connection.wants_close());
    // A single consumed byte restarts the timeout.
    harness.connection.consume(1);
    harness.run_turn();
    harness.advance(idle_timeout - Duration::from_millis(1));
    assert!(!harness.connection.wants_close());
    harness.advance(Duration::from_millis(1));
    assert!(harness.connection.wants_close() && harness.connection.wants_reset() && harness.is_finished());
    assert_eq!(harness.cancelled_count, 1);
}

// covers: HTTP-007
#[test]
fn body_is_not_requested_while_token_is_checked() {
    let protected = Protected::new("https://example.com/mcp", "https://as.example").expect("valid");
    let http = || Config::new().protected(protected.clone());
    let more = "Authorization: Bearer good\r\nExpect: 100-continue\r\n";
    let input = post_request(1, "one", more);
    let head = input.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;

    let mut harness = ConnectionHarness::new(http());
    harness.connection.handle_input(harness.now, &input[..head]);
    harness.connection.drive(harness.now, &mut harness.server);
    assert!(harness.connection.transmit().is_empty(), "no 100 Continue yet");
    assert_eq!(harness.connection.poll_timeout(), None, "no timeout while the application checks the token");
    harness.run_turn();
    assert_eq!(harness.text(), "HTTP/1.1 100 Continue\r\n\r\n");
    harness.feed(&input[head..]);
    assert!(
        harness.text().contains("HTTP/1.1 200 OK") && harness.text().contains("\"one\""),
        "{}",
        harness.text()
    );

    // Without a token the body is not requested either.
    let mut harness = ConnectionHarness::new(http());
    harness.feed(&post_request(1, "one", "Expect: 100-continue\r\n")[..head - 28]);
    assert!(harness.text().starts_with("HTTP/1.1 401 "), "{}", harness.text());
}

#[test]
fn slow_token_check_does_not_count_against_the_body_timeout() {
    let protected = Protected::new("https://example.com/mcp", "https://as.example").expect("valid");
    let http = || Config::new().protected(protected.clone());
    for expects in ["", "Expect: 100-continue\r\n"] {
        let input = post_request(1, "one", &format!("Authorization: Bearer good\r\n{expects}"));
        let head = input.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
        let mut harness = ConnectionHarness::new(http());
        harness.connection.handle_input(harness.now, &input[..head]);
        harness.connection.drive(harness.now, &mut harness.server);
        harness.now = harness.now + Duration::from_secs(1_000);
        harness.run_turn();
        assert!(!harness.text().contains("408"), "{}", harness.text());
        harness.feed(&input[head..]);
        assert!(harness.text().contains("HTTP/1.1 200 OK"), "{}", harness.text());
    }
}

// covers: SEC-019
#[test]
fn debug_output_hides_received_secrets() {
    let input = post_request(1, "one", "Authorization: Bearer secret\r\nMcp-Session-Id: secret\r\n");
    for cut in 0..input.len() {
        let mut harness = ConnectionHarness::new(Config::new());
        (harness.answers_calls, harness.reads_output) = (false, false);
        harness.feed(&input[..cut]);
        let shown = format!("{:?}{:?}", harness.connection, harness.server);
        assert!(!shown.contains("secret"), "{shown}");
    }
}

// covers: SEC-019
#[test]
fn tapped_heads_hide_secrets() {
    let mut harness = ConnectionHarness::new(Config::new());
    harness.connection.tap_heads();
    harness.feed(&post_request(1, "one", "Authorization: Bearer secret\r\n"));
    let seen: Vec<_> =
        core::iter::from_fn(|| harness.connection.poll_head()).map(|record| record.text).collect();
    assert_eq!(seen.len(), 2);
    assert!(seen[0].starts_with("POST /mcp\nHost: localhost\n") && seen[1].starts_with("200\n"), "{seen:?}");
    assert!(!seen.concat().contains("secret") && seen[0].contains("Authorization: [redacted]"), "{seen:?}");
}

#[test]
fn closing_connection_ends_after_its_last_response() {
    let mut harness = ConnectionHarness::new(Config::new());
    harness.answers_calls = false;
    harness.feed(&post_request(1, "one", ""));
    harness.connection.close(harness.now);
    harness.run_turn();
    assert!(!harness.connection.wants_close());
    let call = harness.calls.pop().expect("called");
    harness.answer(&call);
    harness.run_turn();
    assert!(
        harness.text().contains("Connection: close") && harness.text().contains("\"one\""),
        "{}",
        harness.text()
    );
    assert!(harness.connection.wants_write_shutdown() && harness.is_finished());

    let mut idle = ConnectionHarness::new(Config::new());
    idle.connection.close(idle.now);
    idle.run_turn();
    assert!(idle.connection.wants_close());
}

/// A deadline is always later than the time of its check, so that an event loop does not spin.
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn passed_deadline_is_never_reported_again() {
    let chunked = post_request(1, "one", "").to_vec();
    let chunked = String::from_utf8(chunked).expect("text").replace("Content-Length: ", "X: ");
    let chunked = chunked.replace("\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n");
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
    let initialize = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{initialize}",
        initialize.len()
    );
    let inputs = [
        post_request(1, "one", ""),
        post_request(2, "two", "Expect: 100-continue\r\n"),
        post_request(3, "three", "Connection: close\r\n"),
        chunked.into_bytes(),
        initialize.into_bytes(),
        b"GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n".to_vec(),
        b"GET /sse HTTP/1.0\r\nHost: localhost\r\nAccept: */*\r\n\r\n".to_vec(),
        b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n".to_vec(),
        b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n".to_vec(),
        b"\r\n".to_vec(),
        b"nonsense".to_vec(),
        vec![b'x'; 1_000],
    ];
    let http = || Config::new().http_sse("/sse", "/messages").session_idle_timeout(Duration::from_secs(90));
    for seed in 0..1_500 {
        let mut rng = Rng::new(seed);
        let mut harness = ConnectionHarness::new(http());
        for step in 0..40 {
            match rng.below(12) {
                0..=3 => {
                    let input = rng.pick(&inputs);
                    let (from, to) = match rng.below(3) {
                        0 => (0, input.len()),
                        1 => (0, rng.below(input.len())),
                        _ => (rng.below(input.len()), input.len()),
                    };
                    harness.feed(&input[from..to]);
                }
                4 => harness.reads_output = rng.below(3) > 0,
                5 => harness.answers_calls = rng.below(3) > 0,
                6 => {
                    if let Some(call) = harness.calls.pop() {
                        let now = harness.now;
                        let _ = harness.server.engine().complete(
                            now,
                            call.id(),
                            &CallToolResult::text("x".repeat(100_000)),
                        );
                        harness.run_turn();
                    }
                }
                7 if rng.below(4) == 0 => {
                    harness.connection.handle_eof(harness.now);
                    harness.run_turn();
                }
                8 if rng.below(4) == 0 => {
                    harness.connection.close(harness.now);
                    harness.run_turn();
                }
                _ => {
                    let deadlines = [harness.connection.poll_timeout(), harness.server.poll_timeout()];
                    let Some(next) = deadlines.into_iter().flatten().min() else { continue };
                    harness.now = harness.now.max(next);
                    harness.advance(Duration::ZERO);
                    if harness.connection.wants_close() {
                        break;
                    }
                    let deadlines = [harness.connection.poll_timeout(), harness.server.poll_timeout()];
                    let next = deadlines.into_iter().flatten().min();
                    assert!(
                        next.is_none_or(|at| at > harness.now),
                        "seed {seed}, step {step}: {:?}",
                        harness.connection
                    );
                }
            }
        }
    }
}

#[test]
fn connection_is_idle_while_nothing_is_read_answered_or_written() {
    let mut harness = ConnectionHarness::new(Config::new());
    (harness.answers_calls, harness.reads_output) = (false, false);
    assert!(harness.connection.is_idle());
    let request = post_request(1, "one", "");
    harness.feed(&request[..10]);
    assert!(!harness.connection.is_idle(), "a head has begun");
    harness.feed(&request[10..]);
    assert!(!harness.connection.is_idle(), "a call is under way");
    let call = harness.calls.pop().expect("called");
    harness.answer(&call);
    harness.run_turn();
    assert!(harness.connection.exchange().is_none() && !harness.connection.is_idle(), "the answer is unsent");
    harness.reads_output = true;
    harness.run_turn();
    assert!(harness.connection.is_idle());
}

#[test]
fn call_shows_the_description_of_its_connection() {
    for is_known in [false, true] {
        let mut harness = ConnectionHarness::new(Config::new());
        harness.answers_calls = false;
        if is_known {
            let info = server::ConnectionInfo::new().peer_addr(([127, 0, 0, 1], 5_000)).extension("a lane");
            harness.connection.set_info(info);
        }
        // Each request of it.
        for id in 1..3 {
            harness.feed(&post_request(id, "one", ""));
            let call = harness.calls.pop().expect("called");
            let http = call.http().expect("over HTTP");
            assert_eq!(http.peer_addr().map(|peer| peer.port()), is_known.then_some(5_000));
            let lane = http.connection().and_then(|connection| connection.extensions().get::<&str>());
            assert_eq!(lane, is_known.then_some(&"a lane"));
            harness.answer(&call);
            harness.run_turn();
        }
    }
}

#[test]
fn fault_of_malformed_input_is_told_once() {
    let mut harness = ConnectionHarness::new(Config::new());
    harness.feed(&post_request(1, "one", ""));
    assert_eq!(harness.connection.take_fault(), None);
    harness.feed(b"no request\r\n\r\n");
    assert!(harness.connection.take_fault().is_some() && harness.connection.take_fault().is_none());
    assert!(harness.text().contains("HTTP/1.1 400 "), "{}", harness.text());
}

#[test]
fn reader_that_takes_nothing_makes_no_progress() {
    let mut harness = ConnectionHarness::new(Config::new());
    harness.reads_output = false;
    harness.feed(&post_request(1, "one", ""));
    let deadline = harness.connection.poll_timeout();
    assert_eq!(deadline, Some(harness.now + h1::HttpLimits::default().body_idle_timeout));
    harness.now = harness.now + Duration::from_secs(1);
    harness.connection.consume(0);
    harness.run_turn();
    assert_eq!(harness.connection.poll_timeout(), deadline);
    harness.connection.consume(1);
    harness.run_turn();
    assert_eq!(harness.connection.poll_timeout(), deadline.map(|at| at + Duration::from_secs(1)));
    harness.now = harness.now + h1::HttpLimits::default().body_idle_timeout;
    harness.advance(Duration::ZERO);
    assert!(harness.connection.wants_reset() && !harness.connection.wants_input());
}
