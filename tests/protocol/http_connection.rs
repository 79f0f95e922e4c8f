//! A connection of our own HTTP/1.1 with a server behind it: bytes in, bytes out, whatever happens on the way.

use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::http::server::{Config, Connection, Event, Protected, Server};
use mcp_proto::model::CallToolResult;
use mcp_proto::server::Event as Told;
use mcp_proto::{Capabilities, Capability, Entropy, Instant, Progress, VersionSet, h1, server};
use mcp_tests::harness::Rng;

/// A server with one connection
struct Lone {
    server: Server,
    connection: Connection,
    now: Instant,
    out: Vec<u8>,
    /// Calls that were not answered
    calls: Vec<server::Call>,
    cancelled: usize,
    answers: bool,
    takes: bool,
}

impl Lone {
    fn new(http: Config) -> Self {
        let now = Instant::from_micros(1);
        let config = server::Config::new("test", "1")
            .capabilities(Capabilities::new().with(Capability::Tools))
            .versions(VersionSet::ALL);
        Self {
            server: Server::new(Arc::new(config), Arc::new(http), Entropy::new([7; 32], 0)),
            connection: Connection::new(now, h1::Limits::default()),
            now,
            out: Vec::new(),
            calls: Vec::new(),
            cancelled: 0,
            answers: true,
            takes: true,
        }
    }

    /// What an adapter does, in its order
    fn turn(&mut self) {
        self.connection.drive(self.now, &mut self.server);
        loop {
            let mut moved = false;
            while let Some(event) = self.server.poll_event(self.now) {
                moved = true;
                match event {
                    Event::Server(Told::Call(call)) if self.answers => self.answer(&call),
                    Event::Server(Told::Call(call)) => self.calls.push(call),
                    Event::Server(Told::Cancelled { .. }) => self.cancelled += 1,
                    Event::Token { exchange, token } => {
                        assert_eq!(token.reveal(), "good");
                        self.server.grant(self.now, exchange, "somebody");
                        self.connection.drive(self.now, &mut self.server);
                    }
                    _ => {}
                }
            }
            while let Some(exchange) = self.server.poll_ready(self.now) {
                assert_eq!(self.connection.exchange(), Some(exchange), "there is no other connection");
                moved = true;
                self.connection.drive(self.now, &mut self.server);
            }
            while self.takes && !self.connection.transmit().is_empty() {
                moved = true;
                let bytes = self.connection.transmit();
                self.out.extend_from_slice(bytes);
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
        let name = call.tool().expect("a tool is called").name.into_owned();
        self.server.engine().complete(self.now, call.id(), &CallToolResult::text(name)).expect("taken");
    }

    fn give(&mut self, bytes: &[u8]) {
        self.connection.handle_input(self.now, bytes);
        self.turn();
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.connection.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
        self.turn();
    }

    fn text(&self) -> &str {
        core::str::from_utf8(&self.out).expect("text")
    }

    /// Nothing is kept of anything
    fn is_empty(&mut self) -> bool {
        self.server.exchanges() == 0
            && self.connection.exchange().is_none()
            && self.server.engine().live_calls() == 0
    }
}

fn post(id: u32, name: &str, more: &str) -> Vec<u8> {
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

fn pipelined() -> Vec<u8> {
    let mut input = Vec::new();
    for (id, name) in [(1, "one"), (1, "two")] {
        input.extend(post(id, name, ""));
    }
    input.extend_from_slice(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n");
    input.extend(post(2, "three", ""));
    input
}

#[test]
fn however_the_input_is_cut_the_answers_come_in_its_order() {
    let input = pipelined();
    let mut whole = Lone::new(Config::new());
    whole.give(&input);
    let text = whole.text().to_owned();
    let places: Vec<_> =
        ["\"one\"", "\"two\"", "HTTP/1.1 404", "\"three\""].map(|part| text.find(part)).into();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {text}");
    assert_eq!(text.matches("HTTP/1.1 ").count(), 4);
    assert!(whole.is_empty());

    for cut in 1..input.len() {
        let mut lone = Lone::new(Config::new());
        lone.give(&input[..cut]);
        lone.give(&input[cut..]);
        assert_eq!(lone.text(), text, "cut at {cut}");
    }
    let mut lone = Lone::new(Config::new());
    input.iter().for_each(|byte| lone.give(&[*byte]));
    assert_eq!(lone.text(), text);
}

// covers: HTTP-037, HTTP-038
#[test]
fn white_space_around_values_and_the_case_of_names_do_not_count() {
    let input = String::from_utf8(post(1, "one", "")).expect("text");
    for (field, served) in [
        ("MCP-METHOD: \t tools/call \t", true),
        ("mcp-method:tools/call", true),
        ("Mcp-Method: tools/ call", false),
        ("Mcp-Method: Tools/Call", false),
    ] {
        let mut lone = Lone::new(Config::new());
        lone.give(input.replace("Mcp-Method: tools/call", field).as_bytes());
        assert_eq!(lone.text().starts_with("HTTP/1.1 200 OK"), served, "{field}: {}", lone.text());
        assert_eq!(lone.text().contains("-32020"), !served, "{field}: {}", lone.text());
    }
}

#[test]
fn a_small_answer_is_one_write() {
    let mut lone = Lone::new(Config::new());
    lone.takes = false;
    lone.give(&post(1, "one", ""));
    assert_eq!(lone.connection.segments().count(), 1);
    assert!(lone.connection.transmit().ends_with(b"}"));
    assert!(lone.connection.exchange().is_none(), "it is over but for the writing");
}

// covers: HTTP-042
#[test]
fn a_client_that_hangs_up_at_any_byte_of_its_request_leaves_nothing() {
    let input = post(1, "one", "");
    for cut in 0..=input.len() {
        let mut lone = Lone::new(Config::new());
        lone.answers = false;
        lone.give(&input[..cut]);
        assert_eq!(lone.calls.len(), usize::from(cut == input.len()));
        lone.connection.handle_eof(lone.now);
        lone.turn();
        assert!(lone.is_empty(), "{cut}");
        assert_eq!(lone.cancelled, usize::from(cut == input.len()), "{cut}");
        assert!(lone.connection.is_over(), "{cut}");
    }
}

// covers: HTTP-042, HTTP-043
#[test]
fn a_client_that_hangs_up_at_any_byte_of_the_answer_leaves_nothing() {
    let answer = |lone: &mut Lone, until: usize| {
        lone.takes = false;
        lone.give(&post(1, "one", ""));
        let call = lone.calls.pop().expect("called");
        let told = |n: u32| Progress::new(n.into()).saying("so far");
        lone.server.engine().progress(lone.now, call.id(), told(1)).expect("sent");
        lone.turn();
        let mut taken = 0;
        while taken < until && !lone.connection.transmit().is_empty() {
            let n = lone.connection.transmit().len().min(until - taken);
            lone.connection.consume(n);
            taken += n;
        }
        (call, taken)
    };
    let mut lone = Lone::new(Config::new());
    lone.answers = false;
    let (_, all) = answer(&mut lone, usize::MAX);
    assert!(all > 100);
    for cut in 0..=all {
        for breaks in [false, true] {
            let mut lone = Lone::new(Config::new());
            lone.answers = false;
            let (call, _) = answer(&mut lone, cut);
            if breaks {
                lone.connection.abandon(lone.now, &mut lone.server);
            } else {
                lone.connection.handle_eof(lone.now);
            }
            lone.takes = true;
            lone.turn();
            assert_eq!((lone.cancelled, lone.is_empty()), (1, true), "{cut}");
            assert!(
                lone.server.engine().complete(lone.now, call.id(), &CallToolResult::text("late")).is_err()
            );
            assert!(lone.connection.is_over());
        }
    }
}

// covers: SEC-018
#[test]
fn who_does_not_read_is_not_written_for() {
    let mut lone = Lone::new(Config::new());
    lone.takes = false;
    let request = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let input = request.repeat(100_000);
    let (mut given, mut most) = (0, 0);
    for piece in input.chunks(16 << 10) {
        if !lone.connection.wants_input() {
            break;
        }
        lone.give(piece);
        given += piece.len();
        most = most.max(lone.connection.segments().map(<[u8]>::len).sum());
    }
    assert!(given < 1 << 20 && most < 80 << 10, "{given} {most}");
    assert_eq!(lone.connection.poll_timeout(), Some(lone.now + h1::Limits::default().body_idle));
    // And once it reads it gets the rest.
    lone.takes = true;
    lone.turn();
    assert_eq!(lone.text().matches("HTTP/1.1 404").count(), given / request.len());
}

#[test]
fn a_stream_waits_in_the_engine_for_its_reader() {
    let mut lone = Lone::new(Config::new());
    (lone.answers, lone.takes) = (false, false);
    lone.give(&post(1, "one", ""));
    let call = lone.calls.pop().expect("called");
    let text = "x".repeat(1_000);
    for n in 0..2_000 {
        lone.now = lone.now + Duration::from_millis(50);
        let _ = lone.server.engine().progress(lone.now, call.id(), Progress::new(n.into()).saying(&*text));
        lone.turn();
    }
    let waiting: usize = lone.connection.segments().map(<[u8]>::len).sum();
    assert!(waiting < 100 << 10, "{waiting}");
}

#[test]
fn a_reader_that_takes_nothing_for_long_is_given_up() {
    let mut lone = Lone::new(Config::new());
    (lone.answers, lone.takes) = (false, false);
    lone.give(&post(1, "one", ""));
    let call = lone.calls.pop().expect("called");
    lone.server.engine().progress(lone.now, call.id(), Progress::new(1.0)).expect("sent");
    lone.turn();
    let patience = h1::Limits::default().body_idle;
    lone.pass(patience - Duration::from_millis(1));
    assert!(!lone.connection.is_over());
    // A single byte shows that somebody is there.
    lone.connection.consume(1);
    lone.turn();
    lone.pass(patience - Duration::from_millis(1));
    assert!(!lone.connection.is_over());
    lone.pass(Duration::from_millis(1));
    assert!(lone.connection.is_over() && lone.connection.wants_reset() && lone.is_empty());
    assert_eq!(lone.cancelled, 1);
}

// covers: HTTP-007
#[test]
fn nothing_is_asked_for_while_a_token_is_judged() {
    let http = || Config::new().protected(Protected::new("https://example.com/.well-known/x"));
    let more = "Authorization: Bearer good\r\nExpect: 100-continue\r\n";
    let input = post(1, "one", more);
    let head = input.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;

    let mut lone = Lone::new(http());
    lone.connection.handle_input(lone.now, &input[..head]);
    lone.connection.drive(lone.now, &mut lone.server);
    assert!(lone.connection.transmit().is_empty(), "not even told to go on");
    assert_eq!(lone.connection.poll_timeout(), None, "time is the application's");
    lone.turn();
    assert_eq!(lone.text(), "HTTP/1.1 100 Continue\r\n\r\n");
    lone.give(&input[head..]);
    assert!(lone.text().contains("HTTP/1.1 200 OK") && lone.text().contains("\"one\""), "{}", lone.text());

    // Without one, the body is not asked for either.
    let mut lone = Lone::new(http());
    lone.give(&post(1, "one", "Expect: 100-continue\r\n")[..head - 28]);
    assert!(lone.text().starts_with("HTTP/1.1 401 "), "{}", lone.text());
}

#[test]
fn a_slow_judgement_is_not_held_against_the_body() {
    let http = || Config::new().protected(Protected::new("https://example.com/.well-known/x"));
    for expects in ["", "Expect: 100-continue\r\n"] {
        let input = post(1, "one", &format!("Authorization: Bearer good\r\n{expects}"));
        let head = input.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
        let mut lone = Lone::new(http());
        lone.connection.handle_input(lone.now, &input[..head]);
        lone.connection.drive(lone.now, &mut lone.server);
        lone.now = lone.now + Duration::from_secs(1_000);
        lone.turn();
        assert!(!lone.text().contains("408"), "{}", lone.text());
        lone.give(&input[head..]);
        assert!(lone.text().contains("HTTP/1.1 200 OK"), "{}", lone.text());
    }
}

// covers: SEC-019
#[test]
fn a_connection_does_not_show_what_came() {
    let input = post(1, "one", "Authorization: Bearer secret\r\nMcp-Session-Id: secret\r\n");
    for cut in 0..input.len() {
        let mut lone = Lone::new(Config::new());
        (lone.answers, lone.takes) = (false, false);
        lone.give(&input[..cut]);
        let shown = format!("{:?}{:?}", lone.connection, lone.server);
        assert!(!shown.contains("secret"), "{shown}");
    }
}

// covers: SEC-019
#[test]
fn heads_are_seen_without_their_secrets() {
    let mut lone = Lone::new(Config::new());
    lone.connection.tap_heads();
    lone.give(&post(1, "one", "Authorization: Bearer secret\r\n"));
    let seen: Vec<_> =
        core::iter::from_fn(|| lone.connection.poll_head()).map(|record| record.text).collect();
    assert_eq!(seen.len(), 2);
    assert!(seen[0].starts_with("POST /mcp\nHost: localhost\n") && seen[1].starts_with("200\n"), "{seen:?}");
    assert!(!seen.concat().contains("secret") && seen[0].contains("Authorization: [redacted]"), "{seen:?}");
}

#[test]
fn a_connection_ends_when_its_last_answer_is_written() {
    let mut lone = Lone::new(Config::new());
    lone.answers = false;
    lone.give(&post(1, "one", ""));
    lone.connection.close(lone.now);
    lone.turn();
    assert!(!lone.connection.is_over());
    let call = lone.calls.pop().expect("called");
    lone.answer(&call);
    lone.turn();
    assert!(lone.text().contains("Connection: close") && lone.text().contains("\"one\""), "{}", lone.text());
    assert!(lone.connection.is_write_over() && lone.is_empty());

    let mut idle = Lone::new(Config::new());
    idle.connection.close(idle.now);
    idle.turn();
    assert!(idle.connection.is_over());
}

/// Each deadline is later than the one before it: a loop that sleeps until the next one does not spin
#[test]
fn no_deadline_is_told_again_once_it_has_passed() {
    let chunked = post(1, "one", "").to_vec();
    let chunked = String::from_utf8(chunked).expect("text").replace("Content-Length: ", "X: ");
    let chunked = chunked.replace("\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n");
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
    let initialize = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{initialize}",
        initialize.len()
    );
    let inputs = [
        post(1, "one", ""),
        post(2, "two", "Expect: 100-continue\r\n"),
        post(3, "three", "Connection: close\r\n"),
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
    let http = || Config::new().http_sse("/sse", "/messages").session_idle(Duration::from_secs(90));
    for seed in 0..1_500 {
        let mut rng = Rng::new(seed);
        let mut lone = Lone::new(http());
        for step in 0..40 {
            match rng.below(12) {
                0..=3 => {
                    let input = rng.pick(&inputs);
                    let (from, to) = match rng.below(3) {
                        0 => (0, input.len()),
                        1 => (0, rng.below(input.len())),
                        _ => (rng.below(input.len()), input.len()),
                    };
                    lone.give(&input[from..to]);
                }
                4 => lone.takes = rng.below(3) > 0,
                5 => lone.answers = rng.below(3) > 0,
                6 => {
                    if let Some(call) = lone.calls.pop() {
                        let now = lone.now;
                        let _ = lone.server.engine().complete(
                            now,
                            call.id(),
                            &CallToolResult::text("x".repeat(100_000)),
                        );
                        lone.turn();
                    }
                }
                7 if rng.below(4) == 0 => {
                    lone.connection.handle_eof(lone.now);
                    lone.turn();
                }
                8 if rng.below(4) == 0 => {
                    lone.connection.close(lone.now);
                    lone.turn();
                }
                _ => {
                    let deadlines = [lone.connection.poll_timeout(), lone.server.poll_timeout()];
                    let Some(next) = deadlines.into_iter().flatten().min() else { continue };
                    lone.now = lone.now.max(next);
                    lone.pass(Duration::ZERO);
                    if lone.connection.is_over() {
                        break;
                    }
                    let deadlines = [lone.connection.poll_timeout(), lone.server.poll_timeout()];
                    let next = deadlines.into_iter().flatten().min();
                    assert!(
                        next.is_none_or(|at| at > lone.now),
                        "seed {seed}, step {step}: {:?}",
                        lone.connection
                    );
                }
            }
        }
    }
}
