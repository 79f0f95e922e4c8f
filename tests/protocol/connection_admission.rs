//! Connections that wait for a permit, are refused, or are evicted, on virtual time.

use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::h1::{Eviction, EvictionClass, HttpLimits};
use mcp_proto::http::server::{Admission, Config, Connection, Event, ExchangeId, Protected, Server};
use mcp_proto::server::{Event as EngineEvent, Identity};
use mcp_proto::{Capabilities, Capability, Entropy, Instant, server};

const GET: &[u8] = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n";
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

fn call() -> Vec<u8> {
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: x\r\nContent-Length: {}\r\n\r\n",
        CALL.len()
    );
    [head.as_bytes(), CALL.as_bytes()].concat()
}

fn new_server() -> Server {
    let config = server::Config::new("x", "1").capabilities(Capabilities::new().with(Capability::Tools));
    Server::new(Arc::new(config), Arc::new(Config::new()), Entropy::new([7; 32], 0))
}

fn seconds(n: u64) -> Instant {
    Instant::from_micros(n * 1_000_000)
}

/// Takes all output.
fn written(connection: &mut Connection, now: Instant, server: &mut Server) -> String {
    let mut all = Vec::new();
    loop {
        while let Some(exchange) = server.poll_ready(now) {
            assert_eq!(connection.exchange(), Some(exchange));
            connection.drive(now, server);
        }
        let bytes = connection.transmit().to_vec();
        if bytes.is_empty() {
            return String::from_utf8(all).expect("text");
        }
        all.extend_from_slice(&bytes);
        connection.consume(bytes.len());
        connection.drive(now, server);
    }
}

// covers: SEC-018
#[test]
fn held_request_waits_and_is_then_served_or_refused() {
    for cut in 1..GET.len() {
        for refuses in [false, true] {
            let (now, mut server) = (seconds(1), new_server());
            let mut connection = Connection::new(now, HttpLimits::default());
            assert_eq!(connection.admission(), Admission::Open);
            connection.set_admission(Admission::Held);
            assert_eq!(connection.admission(), Admission::Held);
            connection.handle_input(now, &GET[..cut]);
            connection.drive(now, &mut server);
            assert!(!connection.is_head_held(), "{cut}");
            connection.handle_input(now, &GET[cut..]);
            connection.drive(now, &mut server);
            assert!(connection.is_head_held() && server.exchange_count() == 0);
            assert_eq!(connection.eviction(), None, "its request is complete");
            connection.drive(now, &mut server);
            assert!(connection.transmit().is_empty());

            connection.set_admission(if refuses { Admission::Refused } else { Admission::Open });
            connection.drive(now, &mut server);
            let response = written(&mut connection, now, &mut server);
            assert!(!connection.is_head_held());
            if refuses {
                assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
                assert!(response.to_ascii_lowercase().contains("\r\nretry-after: 1\r\n"), "{response}");
                assert!(response.contains("\r\nConnection: close\r\n"), "{response}");
                assert!(connection.wants_write_shutdown());
            } else {
                assert!(response.starts_with("HTTP/1.1 404 "), "{response}");
                assert!(!connection.wants_write_shutdown());
            }
            assert_eq!(server.exchange_count(), 0);
        }
    }
}

#[test]
fn held_connection_reports_a_malformed_head() {
    let (now, mut server) = (seconds(1), new_server());
    let mut connection = Connection::new(now, HttpLimits::default());
    connection.set_admission(Admission::Held);
    connection.handle_input(now, b"\x16\x03\x01 no HTTP");
    connection.drive(now, &mut server);
    assert!(written(&mut connection, now, &mut server).starts_with("HTTP/1.1 400 "));
    assert!(matches!(connection.eviction(), Some(Eviction { class: EvictionClass::Done, .. })));
}

// covers: SEC-018
#[test]
fn eviction_order_follows_what_is_lost() {
    let (begin, mut server) = (seconds(100), new_server());
    let mut connection = Connection::new(begin, HttpLimits::default());
    let class = |connection: &Connection| connection.eviction().map(|eviction| eviction.class);
    let at = |connection: &Connection| connection.eviction().expect("it may be closed").at;
    assert_eq!((class(&connection), at(&connection)), (Some(EvictionClass::Silent), begin));

    // A head byte by byte.
    let request = call();
    let head = request.len() - CALL.len();
    let now = begin + Duration::from_secs(3);
    connection.handle_input(now, &request[..head - 1]);
    connection.drive(now, &mut server);
    assert_eq!((class(&connection), at(&connection)), (Some(EvictionClass::IncompleteHead), now));
    // A body: at 500 bytes per second, its bytes buy time.
    let body_at = now + Duration::from_secs(1);
    connection.handle_input(body_at, &request[head - 1..request.len() - 1]);
    connection.drive(body_at, &mut server);
    assert_eq!(class(&connection), Some(EvictionClass::Slow));
    let bought = Duration::from_micros((request.len() as u64 - 1) * 2_000);
    assert_eq!(at(&connection), now + bought);
    // A complete request is owed its response, however long that takes.
    connection.handle_input(body_at, &request[request.len() - 1..]);
    connection.drive(body_at, &mut server);
    assert_eq!(class(&connection), None);
    let later = body_at + Duration::from_secs(1_000);
    connection.drive(later, &mut server);
    assert_eq!(class(&connection), None);
    let Some(Event::Server(EngineEvent::Call(call))) = server.poll_event(later) else { panic!("no call") };
    server
        .engine()
        .complete(later, call.id(), &mcp_proto::model::CallToolResult::text("done"))
        .expect("open");
    assert!(written(&mut connection, later, &mut server).starts_with("HTTP/1.1 200 "));
    // Idle: spared for a moment, because the client may be sending.
    assert_eq!(class(&connection), Some(EvictionClass::Idle));
    assert!(at(&connection) > later && at(&connection) < later + Duration::from_secs(1));
    // Refused: only the end of the client's input is awaited.
    connection.handle_input(later, b"nonsense\r\n\r\n");
    connection.drive(later, &mut server);
    assert!(written(&mut connection, later, &mut server).starts_with("HTTP/1.1 400 "));
    assert_eq!((class(&connection), at(&connection)), (Some(EvictionClass::Done), later));
}

#[test]
fn crowded_connection_ends_after_its_response() {
    let (now, mut server) = (seconds(1), new_server());
    let mut connection = Connection::new(now, HttpLimits::default());
    connection.end_after_response(true);
    connection.handle_input(now, &[GET, GET].concat());
    connection.drive(now, &mut server);
    let response = written(&mut connection, now, &mut server);
    assert_eq!(response.matches("HTTP/1.1 404 ").count(), 1, "{response}");
    assert!(response.contains("\r\nConnection: close\r\n"), "{response}");
    assert!(matches!(connection.eviction(), Some(Eviction { class: EvictionClass::Done, .. })));
}

// covers: SEC-018
#[test]
fn reader_that_takes_nothing_is_evicted() {
    let (now, mut server) = (seconds(1), new_server());
    let mut connection = Connection::new(now, HttpLimits::default());
    connection.handle_input(now, GET);
    connection.drive(now, &mut server);
    connection.drive(now, &mut server);
    let eviction = connection.eviction().expect("it has unsent output");
    assert_eq!((eviction.class, eviction.at), (EvictionClass::Slow, now + Duration::from_secs(2)));
    // A byte is progress, as much as it is worth at 500 bytes per second.
    let later = now + Duration::from_secs(1);
    connection.consume(1);
    connection.drive(later, &mut server);
    let at = |connection: &Connection| connection.eviction().expect("it has unsent output").at;
    assert_eq!(at(&connection), now + Duration::from_millis(2_002));
    // No number of bytes lets it pause for longer than 2 s.
    let (mut limits, call) = (HttpLimits::default(), GET.repeat(400));
    limits.min_rate = 1;
    let mut connection = Connection::new(now, limits);
    connection.handle_input(now, &call);
    connection.drive(now, &mut server);
    connection.consume(10_000);
    connection.drive(later, &mut server);
    assert_eq!(at(&connection), later + Duration::from_secs(2));
}

// covers: SEC-018
#[test]
fn reader_of_single_bytes_is_evicted() {
    let (begin, mut server) = (seconds(1), new_server());
    let mut connection = Connection::new(begin, HttpLimits::default());
    connection.handle_input(begin, GET);
    connection.drive(begin, &mut server);
    let mut now = begin;
    for _ in 0..20 {
        now = now + Duration::from_millis(1_900);
        connection.consume(1);
        connection.drive(now, &mut server);
    }
    assert!(!connection.transmit().is_empty());
    assert!(connection.eviction().is_some_and(|eviction| eviction.at <= now), "{:?}", connection.eviction());
}

/// A head may be complete just before its time ends, and then waits for longer.
#[test]
fn held_head_has_no_deadline_in_the_past() {
    let (begin, mut server) = (seconds(1), new_server());
    let mut connection = Connection::new(begin, HttpLimits::default());
    connection.set_admission(Admission::Held);
    connection.handle_input(begin, &GET[..10]);
    connection.drive(begin, &mut server);
    assert_eq!(connection.poll_timeout(), Some(begin + Duration::from_secs(10)));
    let complete_at = begin + Duration::from_millis(9_900);
    connection.handle_input(complete_at, &GET[10..]);
    connection.drive(complete_at, &mut server);
    let now = begin + Duration::from_millis(10_100);
    connection.handle_timeout(now);
    connection.drive(now, &mut server);
    assert!(connection.is_head_held() && connection.transmit().is_empty());
    assert!(connection.poll_timeout().is_none_or(|at| at > now), "{:?}", connection.poll_timeout());
    connection.set_admission(Admission::Open);
    connection.drive(now, &mut server);
    assert!(written(&mut connection, now, &mut server).starts_with("HTTP/1.1 404 "));
    assert!(connection.poll_timeout().is_some_and(|at| at > now));
}

/// A client that ended its half gets the refusal of a GET, as that of any other method.
#[test]
fn refused_get_of_half_closed_client_is_answered() {
    for (method, admission) in [
        ("GET", Admission::Open),
        ("GET", Admission::Refused),
        ("DELETE", Admission::Open),
        ("DELETE", Admission::Refused),
    ] {
        let (now, mut server) = (seconds(1), new_server());
        let mut connection = Connection::new(now, HttpLimits::default());
        connection.set_admission(Admission::Held);
        connection.handle_input(now, format!("{method} /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        connection.handle_eof(now);
        connection.drive(now, &mut server);
        connection.set_admission(admission);
        connection.drive(now, &mut server);
        let response = written(&mut connection, now, &mut server);
        let status = if admission == Admission::Refused { " 503 " } else { " 40" };
        assert!(response.starts_with(&format!("HTTP/1.1{status}")), "{method} {admission:?}: {response}");
        assert!(connection.wants_close() && !connection.wants_reset());
        assert_eq!(server.exchange_count(), 0);
    }
}

/// A closed connection that counted as a waiting one would cause a useless eviction.
#[test]
fn closed_connection_holds_no_head() {
    let (now, mut server) = (seconds(1), new_server());
    let mut connection = Connection::new(now, HttpLimits::default());
    connection.set_admission(Admission::Held);
    connection.handle_input(now, GET);
    connection.drive(now, &mut server);
    assert!(connection.is_head_held());
    connection.close(now);
    assert!(!connection.is_head_held());
    assert!(connection.poll_timeout().is_some_and(|at| at > now), "the end of its lingering");
}

/// The shard that refuses a connection answers it: elsewhere it would not be counted among those without a permit.
#[test]
fn refused_connection_stays_on_its_shard() {
    let now = seconds(1);
    let mut servers = [new_server(), new_server()];
    (0..).zip(&mut servers).for_each(|(shard, server)| server.set_shard(shard, 2));
    let [here, there] = &mut servers;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
    let initialize = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut connection = Connection::new(now, HttpLimits::default());
    connection.handle_input(now, initialize.as_bytes());
    connection.drive(now, there);
    let response = written(&mut connection, now, there);
    let at =
        response.to_ascii_lowercase().find("mcp-session-id: ").expect("a session") + "mcp-session-id: ".len();
    let session = response[at..].lines().next().expect("an id");
    for (admission, other) in [(Admission::Open, Some(1)), (Admission::Refused, None)] {
        let mut connection = Connection::new(now, HttpLimits::default());
        connection.set_admission(admission);
        let get = format!("GET /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: {session}\r\n\r\n");
        connection.handle_input(now, get.as_bytes());
        connection.drive(now, here);
        assert_eq!(connection.take_other_shard(), other);
        let is_refused = written(&mut connection, now, here).starts_with("HTTP/1.1 503 ");
        assert_eq!(is_refused, admission == Admission::Refused);
    }
}

// covers: SEC-018
#[test]
fn evicted_request_gets_408() {
    let request = call();
    for length in [20, request.len() - 3] {
        let (now, mut server) = (seconds(1), new_server());
        let mut connection = Connection::new(now, HttpLimits::default());
        connection.handle_input(now, &request[..length]);
        connection.drive(now, &mut server);
        connection.time_out(now, &mut server);
        assert_eq!(server.exchange_count(), 0);
        assert!(written(&mut connection, now, &mut server).starts_with("HTTP/1.1 408 "), "{length}");
    }
}

/// A server that leaves all tokens to the application.
fn protected_server() -> Server {
    let config = server::Config::new("x", "1").capabilities(Capabilities::new().with(Capability::Tools));
    let protected = Protected::new("http://localhost/mcp", "http://localhost:9").expect("valid");
    let http = Config::new().protected(protected).token_timeout(Duration::from_secs(7));
    Server::new(Arc::new(config), Arc::new(http), Entropy::new([7; 32], 0))
}

/// Sends a request with a token, which then waits for its decision.
fn undecided(now: Instant, server: &mut Server, part: usize) -> (Connection, ExchangeId) {
    let request = String::from_utf8(call()).expect("text");
    let request = request.replacen("\r\n", "\r\nAuthorization: Bearer x\r\n", 1);
    let mut connection = Connection::new(now, HttpLimits::default());
    connection.handle_input(now, &request.as_bytes()[..request.len() - part]);
    connection.drive(now, server);
    let Some(Event::Token { exchange, .. }) = server.poll_event(now) else { panic!("no token") };
    assert!(server.awaits_token_decision(exchange) && connection.wants_input());
    (connection, exchange)
}

// covers: SEC-018
#[test]
fn request_whose_token_waits_is_evicted_with_503() {
    let (now, mut server) = (seconds(1), protected_server());
    let (mut connection, exchange) = undecided(now, &mut server, 0);
    let eviction = connection.eviction().expect("nobody knows whose request it is");
    assert_eq!((eviction.class, eviction.at), (EvictionClass::Undecided, seconds(3)));
    connection.handle_timeout(seconds(3));
    connection.drive(seconds(3), &mut server);
    assert_eq!(connection.eviction(), Some(eviction), "the wait began once");
    connection.time_out(seconds(3), &mut server);
    let answer = written(&mut connection, seconds(3), &mut server).to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 503 ") && answer.contains("retry-after: 1\r\n"), "{answer}");
    assert!(answer.contains("connection: close\r\n") && !answer.contains("www-authenticate"), "{answer}");
    server.grant(seconds(3), exchange, Identity::new("alice"));
    assert!(server.poll_event(seconds(3)).is_none(), "the decision came too late");
    assert_eq!(server.exchange_count(), 0);
    // A decision ends the wait; what is missing of the body has its own time.
    let (mut connection, exchange) = undecided(seconds(3), &mut server, 5);
    server.grant(seconds(4), exchange, Identity::new("alice"));
    connection.drive(seconds(4), &mut server);
    assert_eq!(connection.eviction().map(|eviction| eviction.class), Some(EvictionClass::Slow));
}

// covers: SEC-018
#[test]
fn request_whose_token_is_not_decided_about_in_time_gets_503() {
    let (now, mut server) = (seconds(1), protected_server());
    let (mut connection, exchange) = undecided(now, &mut server, 0);
    let (mut decided, other) = undecided(seconds(2), &mut server, 0);
    assert_eq!(connection.poll_timeout(), None);
    assert_eq!(server.poll_timeout(), Some(seconds(8)));
    server.handle_timeout(Instant::from_micros(7_999_999));
    assert!(server.awaits_token_decision(exchange));
    server.grant(seconds(8), other, Identity::new("alice"));
    server.handle_timeout(seconds(8));
    assert!(!server.awaits_token_decision(exchange));
    let answer = written(&mut connection, seconds(8), &mut server).to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 503 ") && answer.contains("retry-after: 1\r\n"), "{answer}");
    server.grant(seconds(8), exchange, Identity::new("alice"));
    // The other request was decided about, and goes on.
    decided.drive(seconds(8), &mut server);
    let Some(Event::Server(EngineEvent::Call(call))) = server.poll_event(seconds(8)) else {
        panic!("no call")
    };
    assert_eq!(call.authorization().map(|party| party.principal()), Some("alice"));
    assert!(server.poll_event(seconds(8)).is_none());
    assert_eq!(server.exchange_count(), 1);
}

// covers: SEC-018
#[test]
fn client_that_leaves_while_its_token_waits_is_noticed() {
    for part in [0, 5] {
        let (now, mut server) = (seconds(1), protected_server());
        let (mut connection, exchange) = undecided(now, &mut server, part);
        connection.handle_eof(now);
        connection.drive(now, &mut server);
        assert!(!server.awaits_token_decision(exchange) && connection.wants_close(), "{part}");
        server.grant(now, exchange, Identity::new("alice"));
        assert!(server.poll_event(now).is_none());
        assert_eq!(server.exchange_count(), 0);
    }
    // A client that ended its half alone is served, if that is allowed.
    let (now, mut server) = (seconds(1), protected_server());
    let (mut connection, exchange) = undecided(now, &mut server, 0);
    connection.serve_half_closed(true);
    connection.handle_eof(now);
    connection.drive(now, &mut server);
    server.grant(now, exchange, Identity::new("alice"));
    connection.drive(now, &mut server);
    assert!(matches!(server.poll_event(now), Some(Event::Server(EngineEvent::Call(_)))));
}

// covers: SEC-018
#[test]
fn lingering_ends_after_a_bounded_number_of_bytes() {
    let (begin, mut server) = (seconds(1), new_server());
    let mut limits = HttpLimits::default();
    limits.max_linger = 1_000_000;
    let mut connection = Connection::new(begin, limits);
    connection.handle_input(begin, b"nonsense\r\n\r\n");
    connection.drive(begin, &mut server);
    written(&mut connection, begin, &mut server);
    let (mut now, mut dropped) = (begin, 0);
    while !connection.wants_close() {
        assert!(connection.wants_input() && dropped < 1_000_000);
        now = now + Duration::from_millis(1);
        connection.handle_input(now, &[b'x'; 10_000]);
        connection.drive(now, &mut server);
        dropped += 10_000;
    }
    assert_eq!(dropped, 1_000_000);
    assert!(!connection.wants_input());
}
