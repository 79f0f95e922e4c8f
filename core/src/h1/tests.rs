//! Single exchanges at the limits of a connection, and the memory that it holds.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::read_buffer::ReadBuffer;
use super::{Framing, HeadParser, HttpLimits, Reason, WriteError, client, server};
use crate::head::{BodySize, Fields};
use crate::time::Instant;

const NOW: Instant = Instant::from_micros(1);
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn request(line: &str, fields: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

/// Returns a request head of `length` bytes.
fn head_of(length: usize) -> String {
    let rest = request("GET /", "X: \r\n").len();
    request("GET /", &format!("X: {}\r\n", "x".repeat(length - rest)))
}

fn server(limits: &HttpLimits, input: &[u8]) -> server::Connection {
    let mut server = server::Connection::new(NOW, limits.clone());
    server.handle_input(NOW, input);
    server
}

/// Polls a server until there is no event. Returns the fault, or else whether a request has ended.
fn poll(server: &mut server::Connection) -> Result<bool, Reason> {
    let mut has_ended = false;
    while let Some(event) = server.poll_event(NOW, |_, _| ()) {
        match event {
            server::Event::Fault(fault) => return Err(fault.reason()),
            event => has_ended |= matches!(event, server::Event::End),
        }
    }
    Ok(has_ended)
}

fn client(limits: HttpLimits) -> client::Connection {
    let mut client = client::Connection::new(NOW, limits);
    client.request(NOW, "GET", "/", "a", &Fields::new(), BodySize::None).expect("an idle connection");
    client.end(NOW).expect("no body");
    client.consume(client.unsent_len());
    client
}

fn respond(server: &mut server::Connection) {
    server.respond(NOW, 200, &Fields::new(), BodySize::Exact(2)).expect("a request");
    server.write_body(b"ok").expect("two bytes");
    server.end(NOW).expect("two bytes");
}

#[test]
fn refused_request_is_answered_with_its_status() {
    for (input, reason, status) in [
        (request("POST /", "Expect: tea\r\n"), Reason::Expectation, 417),
        (request("TRACE /", ""), Reason::Method, 501),
        (request("POST /", "Transfer-Encoding: gzip\r\n"), Reason::TransferCoding, 501),
        ("GET / HTTP/3.0\r\n\r\n".into(), Reason::Version, 505),
        (request("GET / x", ""), Reason::RequestLine, 400),
    ] {
        let mut server = server(&HttpLimits::default(), input.as_bytes());
        assert_eq!(poll(&mut server), Err(reason), "{input}");
        assert!(server.transmit().starts_with(format!("HTTP/1.1 {status} ").as_bytes()), "{input}");
    }
}

#[test]
fn small_device_takes_what_its_limits_say_and_no_more() {
    let fields = |count: usize| request("GET /", &"X: y\r\n".repeat(count - 1));
    let length = |bytes: usize| request("POST /", &format!("Content-Length: {bytes}\r\n"));
    let chunked = |rest: &str| request("POST /", "Transfer-Encoding: chunked\r\n") + rest;
    let extension = |length: usize| chunked(&format!("1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(length)));
    // All trailers together are one head; each of these is 100 bytes long.
    let trailers = |last: usize| {
        let line = |length: usize| format!("X: {}\r\n", "t".repeat(length - 5));
        chunked(&format!("0\r\n{}{}\r\n", line(100).repeat(20), line(last)))
    };
    for (taken, refused, reason) in [
        (head_of(2 << 10), head_of((2 << 10) + 1), Reason::HeadTooLong),
        (fields(32), fields(33), Reason::TooManyFields),
        (length(8 << 10), length((8 << 10) + 1), Reason::BodyTooLong),
        (extension(64), extension(65), Reason::ChunkExtension),
        (trailers(46), trailers(48), Reason::Trailer),
    ] {
        assert!(poll(&mut server(&HttpLimits::small(), taken.as_bytes())).is_ok(), "{reason:?}");
        assert_eq!(poll(&mut server(&HttpLimits::small(), refused.as_bytes())), Err(reason));
    }
    for (length, wants_input) in [((2 << 10) - 1, true), (2 << 10, false)] {
        assert_eq!(server(&HttpLimits::small(), &b"G".repeat(length)).wants_input(), wants_input);
    }
    let limits = HttpLimits::small();
    assert_eq!((limits.max_buffered, limits.max_drain, limits.max_linger), (2 << 10, 2 << 10, 64 << 10));
    assert_eq!((limits.min_rate, limits.max_interim), (500, 16), "as for others");
}

#[test]
fn only_a_connection_option_ends_the_connection() {
    for (field, closes) in [
        ("Connection: close\r\n", true),
        ("Connection: x, Close\r\n", true),
        ("Connection: other\r\n", false),
        ("Connection: closed\r\n", false),
        ("User-Agent: close\r\n", false),
    ] {
        let mut server = server(&HttpLimits::default(), request("GET /", field).as_bytes());
        assert_eq!(poll(&mut server), Ok(true));
        respond(&mut server);
        server.consume(server.unsent_len());
        assert_eq!((server.wants_write_shutdown(), server.is_idle()), (closes, !closes), "{field}");
    }
}

#[test]
fn request_without_a_body_leaves_the_connection_idle_also_if_its_end_was_not_polled() {
    let mut server = server(&HttpLimits::default(), GET);
    assert!(matches!(server.poll_event(NOW, |_, _| ()), Some(server::Event::Head(()))));
    assert!(!server.is_idle());
    respond(&mut server);
    assert!(server.is_idle());
    server.handle_input(NOW, GET);
    assert_eq!((server.is_idle(), server.unread_len()), (false, GET.len()));
    assert_eq!((poll(&mut server), server.unread_len()), (Ok(true), 0));
}

#[test]
fn response_beyond_a_limit_is_a_fault() {
    let limits = HttpLimits { max_fields: 2, max_head: 100, max_buffered: 100, ..HttpLimits::default() };
    for (count, fault) in [(2, None), (3, Some(Reason::TooManyFields))] {
        let mut client = client(limits.clone());
        let response = format!("HTTP/1.1 204 x\r\n{}\r\n", "X: y\r\n".repeat(count));
        client.handle_input(NOW, response.as_bytes());
        let found = match client.poll_event(NOW, |_| ()) {
            Some(client::Event::Fault(fault)) => Some(fault.reason()),
            event => event.and(None),
        };
        assert_eq!(found, fault, "{count} fields");
    }
    let mut client = client(limits);
    client.handle_input(NOW, &[b'H'; 100]);
    assert!(!client.wants_input());
    client.handle_input(NOW, b"more");
    let fault = client.poll_event(NOW, |_| ());
    assert!(
        matches!(fault, Some(client::Event::Fault(fault)) if fault.reason() == Reason::Overrun),
        "{fault:?}"
    );
}

#[test]
fn asterisk_is_a_target_of_options_alone() {
    for (method, target, sent) in [
        ("OPTIONS", "*", Ok(())),
        ("OPTIONS", "/", Ok(())),
        ("GET", "*", Err(WriteError::Invalid)),
        ("OPTIONS", "a", Err(WriteError::Invalid)),
    ] {
        let mut client = client::Connection::new(NOW, HttpLimits::default());
        let request = client.request(NOW, method, target, "a", &Fields::new(), BodySize::None);
        assert_eq!(request, sent, "{method} {target}");
    }
}

#[test]
fn length_of_a_body_is_known_unless_it_is_a_stream() {
    for (framing, length) in [
        (Framing::None, Some(0)),
        (Framing::Exact(7), Some(7)),
        (Framing::Chunked, None),
        (Framing::UntilClose, None),
    ] {
        assert_eq!(framing.body_len(), length);
    }
}

#[test]
fn head_parser_reads_what_was_loaded() {
    let mut parser = HeadParser::default();
    parser.load(head_of(100).as_bytes());
    let read = parser.parse(|head| (String::from(head.method), String::from(head.target)));
    assert_eq!(read, Some(("GET".into(), "/".into())));
    parser.load(b"GET");
    assert!(HeadParser::default().parse(|_| ()).is_none());
}

#[test]
fn unsent_response_keeps_a_connection_from_its_end_and_from_eviction() {
    let limits = HttpLimits::default();
    let mut server = server(&limits, GET);
    poll(&mut server).expect("a request");
    respond(&mut server);
    assert_eq!((server.poll_timeout(), server.eviction()), (None, None));
    server.consume(server.unsent_len());
    assert_eq!(server.poll_timeout(), Some(NOW + limits.idle_trim));
    assert!(server.eviction().is_some());
    server.handle_timeout(NOW + limits.idle_trim);
    assert_eq!(server.poll_timeout(), Some(NOW + limits.keep_alive));
}

#[test]
fn lingering_connection_waits_for_the_end_of_the_input_and_no_longer() {
    let limits = HttpLimits::default();
    let mut server = server(&limits, request("TRACE /", "").as_bytes());
    poll(&mut server).expect_err("a fault");
    server.consume(server.unsent_len());
    assert_eq!((server.poll_timeout(), server.wants_close()), (Some(NOW + limits.drain_timeout), false));
    server.handle_eof(NOW);
    assert_eq!((server.poll_timeout(), server.wants_close()), (None, true));
}

#[test]
fn memory_of_buffers_is_counted_and_freed_when_both_are_empty() {
    let limits = HttpLimits::default();
    let mut server = server(&limits, &head_of(9_000).as_bytes()[..8_999]);
    assert_eq!((server.unread_len(), server.unsent_len()), (8_999, 0));
    assert!(server.buffer_capacity() >= 8_999);
    server.trim();
    assert!(server.buffer_capacity() >= 8_999 && !server.is_trimmed(), "a part of a head is there");
    server.handle_input(NOW, &head_of(9_000).as_bytes()[8_999..]);
    assert_eq!(poll(&mut server), Ok(true));
    respond(&mut server);
    server.trim();
    assert!(server.unsent_len() > 0 && !server.is_trimmed(), "so is a response");
    assert!(server.buffer_capacity() >= server.unsent_len());
    server.consume(server.unsent_len());
    assert!(server.make_room(5_000) && server.buffer_capacity() >= 5_000);
    server.trim();
    assert_eq!((server.buffer_capacity(), server.is_trimmed(), server.unsent_len()), (0, true, 0));
}

#[test]
fn idle_time_of_buffers_begins_after_the_last_write() {
    let limits = HttpLimits::default();
    let mut client = client::Connection::new(NOW, limits.clone());
    client.request(NOW, "POST", "/", "a", &Fields::new(), BodySize::Stream).expect("an idle connection");
    let later = NOW + Duration::from_secs(5);
    client.handle_timeout(later);
    client.write_body(b"x").expect("a stream");
    client.consume(client.unsent_len());
    assert_eq!(client.poll_timeout(), Some(later + limits.idle_trim));
}

#[test]
fn debug_shows_the_length_of_received_bytes_and_not_the_content() {
    let mut buffer = ReadBuffer::default();
    buffer.push(b"secret!");
    buffer.advance(1);
    assert_eq!(format!("{buffer:?}"), "ReadBuffer { len: 6, consumed: 1, .. }");
}

#[test]
fn piece_of_a_body_is_copied_unless_it_is_nearly_all_of_its_block() {
    for (length, is_copied) in [(4_000, true), (13_999, true), (14_000, false), (16_000, false)] {
        let mut buffer = ReadBuffer::default();
        buffer.push(&[b'x'; 16_000]);
        assert_eq!(buffer.capacity(), 16_000);
        let block = buffer.bytes().as_ptr_range();
        let piece = buffer.take(length);
        assert_eq!((piece.len(), buffer.len()), (length, 16_000 - length));
        assert_eq!(!block.contains(&piece.as_ptr()), is_copied, "{length}");
        buffer.clear();
        buffer.trim();
        assert_eq!(buffer.capacity(), 0);
    }
    let pieces: Vec<_> = {
        let mut buffer = ReadBuffer::default();
        buffer.push(b"abc");
        [2, 2, 2].into_iter().map(|length| buffer.take(length)).collect()
    };
    assert_eq!(pieces, ["ab", "c", ""]);
}
