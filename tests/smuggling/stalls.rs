//! Peers that are slow: each wait has its end, and what dribbles in costs no more than what comes at once.

use mcp_proto::Instant;
use mcp_proto::h1::{Limits, Reason, client, server};
use mcp_proto::head::{BodySize, Fields};

use crate::drive::{NOW, later};

/// Polls until there is no more, and says what the fault was
fn fault(server: &mut server::Connection, now: Instant) -> Option<Reason> {
    let mut fault = None;
    while let Some(event) = server.poll_event(now, |_, _| ()) {
        if let server::Event::Fault(f) = event {
            fault = Some(f.reason());
        }
    }
    fault
}

/// Nothing before `end`, then a fault
fn expires(server: &mut server::Connection, end: Instant, reason: Reason) {
    let before = Instant::from_micros(end.as_micros() - 1);
    server.handle_timeout(before);
    assert_eq!(fault(server, before), None);
    // Buffers may be given back before.
    assert_eq!(server.poll_timeout(), Some(end));
    server.handle_timeout(end);
    assert_eq!(fault(server, end), Some(reason));
    assert!(server.transmit().starts_with(b"HTTP/1.1 408 "));
    server.consume(usize::MAX);
    assert!(server.is_write_over());
}

#[test]
fn a_head_has_ten_seconds_from_its_first_byte() {
    let mut server = server::Connection::new(NOW, Limits::default());
    let start = later(20_000);
    server.handle_input(start, b"G");
    assert_eq!(fault(&mut server, start), None);
    server.handle_input(later(29_000), b"ET / HTTP/1.1\r\nX: y\r\n");
    assert_eq!(fault(&mut server, later(29_000)), None);
    expires(&mut server, later(30_000), Reason::HeadTimeout);
}

#[test]
fn what_has_come_in_time_counts_even_if_it_is_polled_late() {
    let mut server = server::Connection::new(NOW, Limits::default());
    server.handle_input(NOW, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    server.handle_timeout(later(60_000));
    let event = server.poll_event(later(60_000), |r, _| r.method.len());
    assert!(matches!(event, Some(server::Event::Head(3))));
}

#[test]
fn a_connection_without_a_request_is_closed_in_silence() {
    let mut server = server::Connection::new(NOW, Limits::default());
    assert_eq!(server.poll_timeout(), Some(later(60_000)));
    server.handle_timeout(later(60_000));
    assert_eq!(fault(&mut server, later(60_000)), None);
    assert!(server.is_over() && server.unsent() == 0);

    // After a response the time begins anew, and not before the client could read it.
    let mut server = server::Connection::new(NOW, Limits::default());
    server.handle_input(NOW, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(fault(&mut server, NOW), None);
    server.respond(later(50_000), 200, &Fields::new(), BodySize::None).expect("the response");
    server.end(later(50_000)).expect("its end");
    server.handle_timeout(later(200_000));
    assert_eq!(fault(&mut server, later(200_000)), None);
    assert!(!server.is_write_over());
    server.consume(usize::MAX);
    server.handle_timeout(later(259_999));
    assert_eq!(fault(&mut server, later(259_999)), None);
    assert!(!server.is_over());
    server.handle_timeout(later(260_000));
    assert_eq!(fault(&mut server, later(260_000)), None);
    assert!(server.is_over());
}

#[test]
fn a_body_may_pause_for_thirty_seconds_and_take_five_minutes() {
    let head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n";
    let mut server = server::Connection::new(NOW, Limits::default());
    server.handle_input(NOW, head);
    assert_eq!(fault(&mut server, NOW), None);
    server.handle_input(later(29_000), b"x");
    assert_eq!(fault(&mut server, later(29_000)), None);
    expires(&mut server, later(59_000), Reason::BodyTimeout);

    let mut server = server::Connection::new(NOW, Limits::default());
    server.handle_input(NOW, head);
    for n in 0..15 {
        assert_eq!(fault(&mut server, later(n * 20_000)), None);
        server.handle_input(later(n * 20_000), b"x");
    }
    assert_eq!(fault(&mut server, later(280_000)), None);
    expires(&mut server, later(300_000), Reason::BodyTimeout);
}

#[test]
fn an_open_response_has_no_deadline() {
    let mut server = server::Connection::new(NOW, Limits::default());
    server.handle_input(NOW, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(fault(&mut server, NOW), None);
    server.respond(NOW, 200, &Fields::new(), BodySize::Stream).expect("the response");
    server.consume(usize::MAX);
    let trim = server.poll_timeout().expect("buffers are given back");
    assert_eq!(trim, later(1_000));
    server.handle_timeout(trim);
    assert_eq!(fault(&mut server, trim), None);
    assert_eq!(server.poll_timeout(), None);
    server.body(b"x").expect("a part");
    server.consume(usize::MAX);
    // Time has passed that the connection was not told of: it looks at the clock once more before it gives up a buffer.
    let due = server.poll_timeout().expect("a look");
    server.handle_timeout(later(100_000).max(due));
    assert_eq!(server.poll_timeout(), Some(later(101_000)));
    server.handle_timeout(later(101_000));
    assert_eq!(server.poll_timeout(), None);
}

#[test]
fn a_client_waits_for_streams_but_not_for_heads_and_lengths() {
    let asked = |answer: &[u8]| {
        let mut client = client::Connection::new(NOW, Limits::default());
        client.request(NOW, "GET", "/", "h", &Fields::new(), BodySize::None).expect("the request");
        client.end(NOW).expect("its end");
        client.consume(usize::MAX);
        client.handle_input(later(600_000), answer);
        while client.poll_event(later(600_000), |_| ()).is_some() {}
        let trim = client.poll_timeout().filter(|t| *t <= later(601_000));
        client.handle_timeout(trim.unwrap_or(NOW));
        client
    };
    for (answer, wait, reason) in [
        (&b"HTTP/1.1 200 OK\r\n"[..], 10_000, Reason::HeadTimeout),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", 30_000, Reason::BodyTimeout),
    ] {
        let mut client = asked(answer);
        let end = later(600_000 + wait);
        assert_eq!(client.poll_timeout(), Some(end));
        client.handle_timeout(end);
        let event = client.poll_event(end, |_| ());
        assert!(matches!(event, Some(client::Event::Fault(f)) if f.reason() == reason));
        assert!(client.is_over());
    }
    for answer in [
        &b""[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nx",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        assert_eq!(asked(answer).poll_timeout(), None, "{}", answer.escape_ascii());
    }
    let client = client::Connection::new(NOW, Limits::default());
    assert_eq!(client.poll_timeout(), Some(later(60_000)));
}

#[test]
fn a_head_that_dribbles_in_is_looked_at_once() {
    // Quadratic work would be some billions of steps here.
    let mut limits = Limits::default();
    limits.max_head = 4 << 20;
    let mut server = server::Connection::new(NOW, limits);
    let head = format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "y".repeat(4 << 20).split_off(100));
    let start = std::time::Instant::now();
    let mut heads = 0;
    for piece in head.as_bytes().chunks(7) {
        server.handle_input(NOW, piece);
        while let Some(event) = server.poll_event(NOW, |_, _| ()) {
            heads += usize::from(matches!(event, server::Event::Head(())));
        }
    }
    assert_eq!(heads, 1);
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}
