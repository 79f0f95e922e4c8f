//! Slow peers: each wait is bounded, and input in small pieces costs no more than input at once.

use mcp_proto::Instant;
use mcp_proto::h1::{HttpLimits, Reason, client, server};
use mcp_proto::head::{BodySize, Fields};

use crate::smuggling::drive::{NOW, after_millis};

/// Polls all events and returns the reason of the fault.
fn expect_fault(server: &mut server::Connection, now: Instant) -> Option<Reason> {
    let mut fault = None;
    while let Some(event) = server.poll_event(now, |_, _| ()) {
        if let server::Event::Fault(f) = event {
            fault = Some(f.reason());
        }
    }
    fault
}

/// Checks that the connection fails at `end` and not before.
fn assert_expires(server: &mut server::Connection, end: Instant, reason: Reason) {
    let before = Instant::from_micros(end.as_micros() - 1);
    server.handle_timeout(before);
    assert_eq!(expect_fault(server, before), None);
    // A deadline to release buffers may come first.
    assert_eq!(server.poll_timeout(), Some(end));
    server.handle_timeout(end);
    assert_eq!(expect_fault(server, end), Some(reason));
    assert!(server.transmit().starts_with(b"HTTP/1.1 408 "));
    server.consume(server.unsent_len());
    assert!(server.wants_write_shutdown());
}

#[test]
fn head_times_out_ten_seconds_after_its_first_byte() {
    let mut server = server::Connection::new(NOW, HttpLimits::default());
    let start = after_millis(20_000);
    server.handle_input(start, b"G");
    assert_eq!(expect_fault(&mut server, start), None);
    server.handle_input(after_millis(29_000), b"ET / HTTP/1.1\r\nX: y\r\n");
    assert_eq!(expect_fault(&mut server, after_millis(29_000)), None);
    assert_expires(&mut server, after_millis(30_000), Reason::HeadTimeout);
}

#[test]
fn input_in_time_counts_even_if_polled_late() {
    let mut server = server::Connection::new(NOW, HttpLimits::default());
    server.handle_input(NOW, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    server.handle_timeout(after_millis(60_000));
    let event = server.poll_event(after_millis(60_000), |r, _| r.method.len());
    assert!(matches!(event, Some(server::Event::Head(3))));
}

#[test]
fn idle_connection_is_closed_without_response() {
    let mut server = server::Connection::new(NOW, HttpLimits::default());
    assert_eq!(server.poll_timeout(), Some(after_millis(60_000)));
    server.handle_timeout(after_millis(60_000));
    assert_eq!(expect_fault(&mut server, after_millis(60_000)), None);
    assert!(server.wants_close() && server.unsent_len() == 0);

    // The idle time begins after the response, when the client could have read it.
    let mut server = server::Connection::new(NOW, HttpLimits::default());
    server.handle_input(NOW, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(expect_fault(&mut server, NOW), None);
    server.respond(after_millis(50_000), 200, &Fields::new(), BodySize::None).expect("the response");
    server.end(after_millis(50_000)).expect("its end");
    server.handle_timeout(after_millis(200_000));
    assert_eq!(expect_fault(&mut server, after_millis(200_000)), None);
    assert!(!server.wants_write_shutdown());
    server.consume(server.unsent_len());
    server.handle_timeout(after_millis(259_999));
    assert_eq!(expect_fault(&mut server, after_millis(259_999)), None);
    assert!(!server.wants_close());
    server.handle_timeout(after_millis(260_000));
    assert_eq!(expect_fault(&mut server, after_millis(260_000)), None);
    assert!(server.wants_close());
}

#[test]
fn body_times_out_after_pause_or_five_minutes() {
    let head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n";
    let mut server = server::Connection::new(NOW, HttpLimits::default());
    server.handle_input(NOW, head);
    assert_eq!(expect_fault(&mut server, NOW), None);
    server.handle_input(after_millis(29_000), b"x");
    assert_eq!(expect_fault(&mut server, after_millis(29_000)), None);
    assert_expires(&mut server, after_millis(59_000), Reason::BodyTimeout);

    let mut server = server::Connection::new(NOW, HttpLimits::default());
    server.handle_input(NOW, head);
    for n in 0..15 {
        assert_eq!(expect_fault(&mut server, after_millis(n * 20_000)), None);
        server.handle_input(after_millis(n * 20_000), b"x");
    }
    assert_eq!(expect_fault(&mut server, after_millis(280_000)), None);
    assert_expires(&mut server, after_millis(300_000), Reason::BodyTimeout);
}

#[test]
fn open_response_has_no_deadline() {
    let mut server = server::Connection::new(NOW, HttpLimits::default());
    server.handle_input(NOW, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(expect_fault(&mut server, NOW), None);
    server.respond(NOW, 200, &Fields::new(), BodySize::Stream).expect("the response");
    server.consume(server.unsent_len());
    let trim = server.poll_timeout().expect("a deadline to release buffers");
    assert_eq!(trim, after_millis(1_000));
    server.handle_timeout(trim);
    assert_eq!(expect_fault(&mut server, trim), None);
    assert_eq!(server.poll_timeout(), None);
    server.write_body(b"x").expect("a part");
    server.consume(server.unsent_len());
    // The connection was not called for a while, so it checks the time once more before it releases a buffer.
    let due = server.poll_timeout().expect("a deadline");
    server.handle_timeout(after_millis(100_000).max(due));
    assert_eq!(server.poll_timeout(), Some(after_millis(101_000)));
    server.handle_timeout(after_millis(101_000));
    assert_eq!(server.poll_timeout(), None);
}

#[test]
fn client_waits_for_streams_but_not_for_heads_and_lengths() {
    let requesting_client = |answer: &[u8]| {
        let mut client = client::Connection::new(NOW, HttpLimits::default());
        client.request(NOW, "GET", "/", "h", &Fields::new(), BodySize::None).expect("the request");
        client.end(NOW).expect("its end");
        client.consume(client.unsent_len());
        client.handle_input(after_millis(600_000), answer);
        while client.poll_event(after_millis(600_000), |_| ()).is_some() {}
        let trim = client.poll_timeout().filter(|t| *t <= after_millis(601_000));
        client.handle_timeout(trim.unwrap_or(NOW).max(after_millis(600_000)));
        client
    };
    for (answer, wait, reason) in [
        (&b"HTTP/1.1 200 OK\r\n"[..], 10_000, Reason::HeadTimeout),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", 30_000, Reason::BodyTimeout),
    ] {
        let mut client = requesting_client(answer);
        let end = after_millis(600_000 + wait);
        assert_eq!(client.poll_timeout(), Some(end));
        client.handle_timeout(end);
        let event = client.poll_event(end, |_| ());
        assert!(matches!(event, Some(client::Event::Fault(f)) if f.reason() == reason));
        assert!(client.wants_close());
    }
    for answer in [
        &b""[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nx",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        assert_eq!(requesting_client(answer).poll_timeout(), None, "{}", answer.escape_ascii());
    }
    let client = client::Connection::new(NOW, HttpLimits::default());
    assert_eq!(client.poll_timeout(), Some(after_millis(60_000)));
}

#[test]
fn head_in_single_bytes_takes_linear_work() {
    // Quadratic work would take billions of steps here.
    let mut limits = HttpLimits::default();
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
