//! Bodies of HTTP/1.1 messages, and both ends of a connection beside plain readers of RFC 9112.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::http_heads::field;
use crate::h1::server::RequestBodyInfo;
use crate::h1::{HttpLimits, Reason, WriteError, client, server};
use crate::head::{BodySize, Fields};
use crate::testing::{exhaustive, for_each_sequence, for_each_text};
use crate::time::Instant;

const NOW: Instant = Instant::from_micros(1);

/// An event of either end; pieces of a body that follow each other are one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    Head { method: String, target: String, fields: Vec<(String, Vec<u8>)>, info: RequestBodyInfo },
    Status(u16),
    Body(Vec<u8>),
    End,
    Gone,
    Fault(Reason, u64),
}

fn push(events: &mut Vec<Seen>, event: Seen) {
    match (events.last_mut(), event) {
        (Some(Seen::Body(body)), Seen::Body(more)) => body.extend(more),
        (_, event) => events.push(event),
    }
}

/// Returns the first body, and whether it ended.
pub(super) fn body(events: &[Seen]) -> (Vec<u8>, bool) {
    let body = events.iter().find_map(|event| match event {
        Seen::Body(body) => Some(body.clone()),
        _ => None,
    });
    (body.unwrap_or_default(), events.contains(&Seen::End))
}

/// Returns a request without a body.
pub(super) fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

/// Returns what a server reports of these pieces, answering each request at its end, and what it writes.
pub(super) fn server_events<'p>(
    pieces: impl IntoIterator<Item = &'p [u8]>,
    limits: &HttpLimits,
) -> (Vec<Seen>, Vec<u8>) {
    let mut connection = server::Connection::new(NOW, limits.clone());
    let (mut events, mut output) = (Vec::new(), Vec::new());
    for piece in pieces {
        connection.handle_input(NOW, piece);
        while let Some(event) = connection.poll_event(NOW, |head, info| Seen::Head {
            method: head.method.to_owned(),
            target: head.target.to_owned(),
            fields: head.fields.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect(),
            info: *info,
        }) {
            let event = match event {
                server::Event::Head(head) => head,
                server::Event::Body(body) => Seen::Body(body.to_vec()),
                server::Event::End => Seen::End,
                server::Event::ClientGone => Seen::Gone,
                server::Event::Fault(fault) => Seen::Fault(fault.reason(), fault.offset()),
            };
            if event == Seen::End {
                connection.respond(NOW, 200, &Fields::new(), BodySize::Exact(0)).expect("a request");
                connection.end(NOW).expect("a response");
            }
            push(&mut events, event);
        }
        connection.segments().for_each(|segment| output.extend_from_slice(segment));
        connection.consume(connection.unsent_len());
    }
    (events, output)
}

/// Returns what a client that sent a request of this method reports of these pieces and the end of the input behind them.
pub(super) fn client_events<'p>(
    pieces: impl IntoIterator<Item = &'p [u8]>,
    method: &str,
    limits: &HttpLimits,
) -> Vec<Seen> {
    let mut connection = client::Connection::new(NOW, limits.clone());
    connection.request(NOW, method, "/", "a", &Fields::new(), BodySize::None).expect("idle");
    connection.end(NOW).expect("a request");
    connection.consume(connection.unsent_len());
    let mut events = Vec::new();
    let mut poll = |connection: &mut client::Connection| {
        while let Some(event) = connection.poll_event(NOW, |head| head.status) {
            let event = match event {
                client::Event::Head(status) => Seen::Status(status),
                client::Event::Body(body) => Seen::Body(body.to_vec()),
                client::Event::End => Seen::End,
                client::Event::Closed => Seen::Gone,
                client::Event::Fault(fault) => Seen::Fault(fault.reason(), fault.offset()),
            };
            push(&mut events, event);
        }
    };
    for piece in pieces {
        connection.handle_input(NOW, piece);
        poll(&mut connection);
    }
    connection.handle_eof(NOW);
    poll(&mut connection);
    events
}

/// Why a body is not complete.
#[derive(PartialEq, Eq, Debug)]
enum Stop {
    More,
    Bad,
}

/// Returns the rest behind a text that has to follow.
fn expect<'t>(text: &'t [u8], expected: &[u8]) -> Result<&'t [u8], Stop> {
    match text.strip_prefix(expected) {
        Some(rest) => Ok(rest),
        None if expected.starts_with(text) => Err(Stop::More),
        None => Err(Stop::Bad),
    }
}

/// Reads a chunked body to its end, or to the first byte that cannot follow (RFC 9112, 7.1).
fn read_chunks(mut text: &[u8], body: &mut Vec<u8>) -> Result<(), Stop> {
    loop {
        let digits = text.iter().take_while(|b| b.is_ascii_hexdigit()).count();
        let (size, mut rest) = text.split_at(digits);
        match (digits, rest) {
            (9.., _) | (0, [_, ..]) => return Err(Stop::Bad),
            (_, []) => return Err(Stop::More),
            (_, [b';', extension @ ..]) => {
                let is_text = |b: &&u8| **b == b'\t' || (0x20..0x7f).contains(*b);
                rest = &extension[extension.iter().take_while(is_text).count()..];
            }
            _ => {}
        }
        rest = expect(rest, b"\r\n")?;
        let size = core::str::from_utf8(size).expect("digits");
        let size = usize::from_str_radix(size, 16).expect("8 digits");
        if size == 0 {
            return read_trailers(rest);
        }
        body.extend_from_slice(&rest[..size.min(rest.len())]);
        text = expect(rest.get(size..).ok_or(Stop::More)?, b"\r\n")?;
    }
}

fn read_trailers(mut text: &[u8]) -> Result<(), Stop> {
    const FORBIDDEN: [&str; 4] = ["host", "connection", "content-length", "transfer-encoding"];
    loop {
        let end = text.iter().position(|b| *b == b'\n').ok_or(Stop::More)?;
        let line = text[..end].strip_suffix(b"\r").ok_or(Stop::Bad)?;
        if line.is_empty() {
            return Ok(());
        }
        let (name, _) = field(line).ok_or(Stop::Bad)?;
        if FORBIDDEN.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes())) {
            return Err(Stop::Bad);
        }
        text = &text[end + 1..];
    }
}

const CHUNKED_HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Compares what a server reads of a chunked body with what the plain reader does, whole and byte by byte.
fn check_chunks(text: &[u8]) {
    let mut expected = Vec::new();
    let outcome = read_chunks(text, &mut expected);
    let limits = HttpLimits { max_body: u64::MAX, ..HttpLimits::default() };
    for pieces in [Vec::from([text]), text.chunks(1).collect()] {
        let (events, _) = server_events([CHUNKED_HEAD].into_iter().chain(pieces), &limits);
        let (body, is_whole) = body(&events);
        let is_fault = events.iter().any(|event| matches!(event, Seen::Fault(..)));
        let found = match (is_whole, is_fault) {
            (true, _) => Ok(()),
            (false, true) => Err(Stop::Bad),
            (false, false) => Err(Stop::More),
        };
        assert_eq!((&found, body), (&outcome, expected.clone()), "{}", text.escape_ascii());
    }
}

#[test]
fn exhaustive_chunked_bodies_are_read_as_the_grammar_says() {
    const PIECES: [&[u8]; 9] = [b"0", b"1", b"aB", b";", b"\r\n", b"\r", b"\n", b"x:", b" "];
    exhaustive(
        "chunked bodies: every text is complete, incomplete or faulty as RFC 9112, 7.1 says, with the same body, whole and byte by byte",
        "texts of 9 pieces, up to a length of",
        [4, 5, 7],
        |longest| for_each_text(&PIECES, longest, check_chunks),
    );
}

#[test]
fn exhaustive_chunks_follow_each_other() {
    const PIECES: [&[u8]; 7] =
        [b"1\r\nx\r\n", b"2;e\r\n\r\n\r\n", b"1\r\n", b"y", b"0\r\n", b"\r\n", b"A: b\r\n"];
    exhaustive(
        "chunked bodies: sequences of chunks, parts of chunks and trailers are read as the grammar says",
        "sequences of 7 parts, up to a length of",
        [4, 6, 7],
        |longest| for_each_text(&PIECES, longest, check_chunks),
    );
}

#[test]
fn exhaustive_chunk_sizes_have_one_to_eight_digits() {
    exhaustive(
        "chunk sizes: 1 to 8 hexadecimal digits are a number, and a chunk beyond the limit of the body is refused at its size",
        "digits 0, 1 and f up to 9, and limits 0 to 3, in the last digits of a size:",
        [3, 5, 8],
        |digits| {
            let mut count = 0;
            for_each_text(&[b"0", b"1", b"F"], digits, |last| {
                for zeros in 0..=9_usize.saturating_sub(last.len()) {
                    let size = [&alloc::vec![b'0'; zeros], last].concat();
                    let value =
                        core::str::from_utf8(&size).ok().and_then(|size| u64::from_str_radix(size, 16).ok());
                    let text = [CHUNKED_HEAD, &size, b"\r\n"].concat();
                    for max_body in 0..4 {
                        let limits = HttpLimits { max_body, ..HttpLimits::default() };
                        let (events, _) = server_events([&*text], &limits);
                        let fault = events.iter().find_map(|event| match event {
                            Seen::Fault(reason, _) => Some(*reason),
                            _ => None,
                        });
                        let expected = match value {
                            None => Some(Reason::ChunkSize),
                            Some(_) if size.len() > 8 => Some(Reason::ChunkSize),
                            Some(value) if value > max_body => Some(Reason::BodyTooLong),
                            Some(_) => None,
                        };
                        assert_eq!(fault, expected, "{}", text.escape_ascii());
                        count += 1;
                    }
                }
            });
            count
        },
    );
}

#[test]
fn exhaustive_trailers_control_nothing() {
    const LINES: [&[u8]; 12] = [
        b"A: b",
        b"X:",
        b"Host: a",
        b"HOST:x",
        b"Hosts: a",
        b"content-length: 1",
        b"Connection: x",
        b"Transfer-Encoding : x",
        b"Contents: 1",
        b"no line",
        b": x",
        b"T: \x7f",
    ];
    exhaustive(
        "trailers: dropped if each is a field that controls neither framing nor routing, refused otherwise",
        "sequences of 12 lines, up to a length of",
        [2, 3, 4],
        |longest| {
            for_each_sequence(LINES.len(), longest, |sequence| {
                let mut text = b"1\r\nx\r\n0\r\n".to_vec();
                sequence.iter().for_each(|line| text.extend([LINES[*line], b"\r\n"].concat()));
                text.extend(b"\r\n");
                check_chunks(&text);
            })
        },
    );
}

#[test]
fn exhaustive_lengths_are_digits() {
    exhaustive(
        "Content-Length: 1 to 19 digits are a length, of at most the limit; every other value is refused by both roles",
        "values of 8 pieces, of which one has 17 digits, up to a length of",
        [3, 4, 5],
        |longest| {
            let limits = HttpLimits { max_body: 9, ..HttpLimits::default() };
            const PIECES: [&[u8]; 8] = [b"0", b"3", b"00000000000000000", b"+", b"-", b" ", b",", b"x"];
            for_each_text(&PIECES, longest, |value| {
                let trimmed = core::str::from_utf8(value.trim_ascii()).expect("ASCII");
                let is_number =
                    (1..=19).contains(&trimmed.len()) && trimmed.bytes().all(|b| b.is_ascii_digit());
                let length = is_number.then(|| trimmed.parse::<u64>().expect("19 digits"));
                let expected = match length {
                    None => Err(Reason::ContentLength),
                    Some(10..) => Err(Reason::BodyTooLong),
                    Some(length) => Ok(length),
                };
                let request =
                    [b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ", value, b"\r\n\r\n123456789"].concat();
                let response = [b"HTTP/1.1 200 x\r\nContent-Length: ", value, b"\r\n\r\n123456789"].concat();
                let requested = server_events([&*request], &limits).0;
                for events in [requested, client_events([&*response], "GET", &limits)] {
                    let found = match (&*events, body(&events)) {
                        ([Seen::Fault(reason, _), ..], _) => Err(*reason),
                        (_, (body, true)) => Ok(body.len() as u64),
                        other => panic!("{other:?}"),
                    };
                    assert_eq!(found, expected, "{}", value.escape_ascii());
                }
            })
        },
    );
}

/// What a plain client reads of a response: status, body, whether its end shows, and whether the connection ends.
fn read_response(text: &[u8], to_head: bool) -> (u16, Vec<u8>, bool, bool) {
    let end = text.windows(4).position(|part| part == b"\r\n\r\n").expect("a head");
    let head = core::str::from_utf8(&text[..end]).expect("ASCII");
    let value = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let status = head.get(9..12).and_then(|digits| digits.parse().ok()).expect("a status");
    let (rest, closes) = (&text[end + 4..], value("Connection") == Some("close"));
    if to_head || matches!(status, 204 | 304) {
        return (status, rest.to_vec(), true, closes);
    }
    match (value("Content-Length"), value("Transfer-Encoding")) {
        (Some(length), None) => (status, rest.to_vec(), length.parse() == Ok(rest.len()), closes),
        (None, Some("chunked")) => {
            let mut body = Vec::new();
            let is_whole = read_chunks(rest, &mut body) == Ok(());
            (status, body, is_whole, closes)
        }
        (None, None) => (status, rest.to_vec(), closes, closes),
        _ => panic!("{head}"),
    }
}

/// Lengths of pieces of a body: near the borders of a chunk size of one and two digits.
const LENGTHS: [usize; 6] = [0, 1, 15, 16, 17, 256];

fn each_body(longest: usize, mut check: impl FnMut(&[Vec<u8>])) -> u64 {
    for_each_sequence(LENGTHS.len(), longest, |sequence| {
        let pieces: Vec<_> = sequence.iter().map(|length| alloc::vec![b'x'; LENGTHS[*length]]).collect();
        check(&pieces);
    })
}

#[test]
fn exhaustive_responses_are_read_by_a_plain_client() {
    const REQUESTS: [&str; 4] = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    ];
    exhaustive(
        "responses: a plain client finds status, body and end of what was written, for each request, status and kind of length",
        "bodies of pieces of 6 lengths, to 4 requests, with 4 statuses and 2 kinds of length, pieces up to",
        [2, 3, 4],
        |longest| {
            each_body(longest, |pieces| {
                let whole = pieces.concat();
                for request in REQUESTS {
                    for status in [200, 204, 304, 500] {
                        for size in [BodySize::Exact(whole.len() as u64), BodySize::Stream] {
                            let mut connection = server::Connection::new(NOW, HttpLimits::default());
                            connection.handle_input(NOW, request.as_bytes());
                            while connection.poll_event(NOW, |_, _| ()).is_some() {}
                            connection.respond(NOW, status, &Fields::new(), size).expect("a request");
                            for piece in pieces {
                                connection.write_body(piece).expect("room");
                            }
                            connection.end(NOW).expect("a response");
                            let output: Vec<u8> = connection.segments().flatten().copied().collect();
                            connection.consume(output.len());
                            let is_head = request.starts_with("HEAD");
                            let (found, body, is_whole, closes) = read_response(&output, is_head);
                            let expected =
                                if is_head || matches!(status, 204 | 304) { &[][..] } else { &*whole };
                            assert_eq!((found, &*body, is_whole), (status, expected, true), "{request}");
                            let is_last = request.contains("1.0") || request.contains("close");
                            assert_eq!((closes, connection.wants_write_shutdown()), (is_last, is_last));
                        }
                    }
                }
            }) * 32
        },
    );
}

#[test]
fn exhaustive_messages_pass_from_one_end_to_the_other() {
    exhaustive(
        "both ends: the body of a request and of its response arrive as written, copied or shared, and the next exchange follows",
        "bodies of pieces of 6 lengths, 2 kinds of length, delivered whole and in 3 kinds of pieces, pieces up to",
        [2, 3, 4],
        |longest| {
            each_body(longest, |pieces| {
                let whole = pieces.concat();
                for size in [BodySize::Exact(whole.len() as u64), BodySize::Stream] {
                    for cut in [1, 3, 64, usize::MAX] {
                        exchange(pieces, &whole, size, cut);
                    }
                }
            }) * 8
        },
    );
}

/// Sends a body there and back.
fn exchange(pieces: &[Vec<u8>], whole: &[u8], size: BodySize, cut: usize) {
    let mut client = client::Connection::new(NOW, HttpLimits::default());
    let mut server = server::Connection::new(NOW, HttpLimits::default());
    client.request(NOW, "POST", "/", "a", &Fields::new(), size).expect("idle");
    pieces.iter().for_each(|piece| client.write_body(piece).expect("room"));
    client.end(NOW).expect("a request");
    let request: Vec<u8> = client.segments().flatten().copied().collect();
    client.consume(request.len());
    let (mut received, mut is_whole) = (Vec::new(), false);
    for input in request.chunks(cut) {
        server.handle_input(NOW, input);
        while let Some(event) = server.poll_event(NOW, |_, _| ()) {
            match event {
                server::Event::Body(body) => received.extend(body),
                server::Event::End => is_whole = true,
                server::Event::Head(()) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((&*received, is_whole), (whole, true));
    server.respond(NOW, 200, &Fields::new(), size).expect("a request");
    pieces.iter().for_each(|piece| {
        server.write_body_owned(&bytes::Bytes::copy_from_slice(piece)).expect("room");
    });
    server.end(NOW).expect("a response");
    let response: Vec<u8> = server.segments().flatten().copied().collect();
    server.consume(response.len());
    received.clear();
    for input in response.chunks(cut) {
        client.handle_input(NOW, input);
        while let Some(event) = client.poll_event(NOW, |head| assert_eq!(head.status, 200)) {
            match event {
                client::Event::Body(body) => received.extend(body),
                client::Event::Head(()) | client::Event::End => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((&*received, client.is_idle(), server.is_idle()), (whole, true, true));
}

#[test]
fn exhaustive_announced_lengths_are_kept() {
    exhaustive(
        "announced lengths: a piece is refused if the sum exceeds the length, and the end while bytes are missing, in both roles",
        "sequences of pieces of 0 to 3 bytes beside the lengths 0 to 6, up to a length of",
        [4, 5, 6],
        |longest| {
            for_each_sequence(4, longest, |sequence| {
                for length in 0..=6 {
                    let mut server = server::Connection::new(NOW, HttpLimits::default());
                    server.handle_input(NOW, &get("/"));
                    while server.poll_event(NOW, |_, _| ()).is_some() {}
                    let mut client = client::Connection::new(NOW, HttpLimits::default());
                    let size = BodySize::Exact(length);
                    server.respond(NOW, 200, &Fields::new(), size).expect("a request");
                    client.request(NOW, "POST", "/", "a", &Fields::new(), size).expect("idle");
                    let heads = (server.unsent_len(), client.unsent_len());
                    let mut left = length;
                    for piece in sequence {
                        let next = left.checked_sub(*piece as u64);
                        let expected = next.map(|_| ()).ok_or(WriteError::Length);
                        let data = &b"xyz"[..*piece];
                        assert_eq!((server.write_body(data), client.write_body(data)), (expected, expected));
                        left = next.unwrap_or(left);
                    }
                    let written = (length - left) as usize;
                    let sent = (heads.0 + written, heads.1 + written);
                    assert_eq!((server.unsent_len(), client.unsent_len()), sent);
                    let expected = if left == 0 { Ok(()) } else { Err(WriteError::Length) };
                    assert_eq!((server.end(NOW), client.end(NOW)), (expected, expected));
                }
            }) * 7
        },
    );
}
