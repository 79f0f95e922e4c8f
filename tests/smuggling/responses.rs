//! Responses that recipients may read in different ways, and some that are only unusual.

use mcp_proto::h1::{HttpLimits, Reason};

use crate::smuggling::drive::{chunkings, client, read};
use crate::smuggling::table::{ParseCase, ParseExpectation, accepted, refused};
use Reason::{
    BareLineFeed, BodyForbidden, ChunkEnd, ChunkSize, ConflictingLengths, ContentLength, Field, StatusLine,
    TooManyFields, TooManyInterim, Trailer, TransferCoding, TransferEncoding, Truncated, Unsolicited,
    Upgrade, Version,
};

/// Status lines, followed by one field `Content-Length: 0`.
const STATUS_LINE_CASES: &[(&str, ParseExpectation)] = &[
    ("HTTP/1.1 200 OK", accepted(&["200 []"])),
    ("HTTP/1.1 200 ", accepted(&["200 []"])),
    ("HTTP/1.1 200", accepted(&["200 []"])),
    ("HTTP/1.1 200 a b\tc\u{e4}", accepted(&["200 []"])),
    ("HTTP/1.1 599 X", accepted(&["599 []"])),
    ("HTTP/1.0 404 Not Found", accepted(&["404 []"])),
    ("HTTP/1.1 600 X", refused(StatusLine, "HTTP")),
    ("HTTP/1.1 999 X", refused(StatusLine, "HTTP")),
    ("HTTP/1.1 099 X", refused(StatusLine, "HTTP")),
    ("HTTP/1.1 000 X", refused(StatusLine, "HTTP")),
    ("HTTP/1.1 20 OK", refused(StatusLine, "HTTP")),
    ("HTTP/1.1 2000 OK", refused(StatusLine, "HTTP")),
    ("HTTP/1.1 +20 OK", refused(StatusLine, "HTTP")),
    ("HTTP/1.1 2x0 OK", refused(StatusLine, "HTTP")),
    ("HTTP/1.1  200 OK", refused(StatusLine, "HTTP")),
    ("HTTP/1.1\t200 OK", refused(StatusLine, "HTTP")),
    ("HTTP/1.1 200\tOK", refused(StatusLine, "HTTP")),
    ("HTTP/1.1 200 O\0K", refused(StatusLine, "HTTP")),
    ("HTTP/1.1 200 O\x1bK", refused(StatusLine, "HTTP")),
    ("HTTP/1.1 200 O\rK", refused(StatusLine, "HTTP")),
    ("HTTP/1.1 200 OK\r", refused(StatusLine, "HTTP")),
    ("HTTP/1.1 200\r", refused(StatusLine, "HTTP")),
    ("HTTP/1.2 200 OK", refused(Version, "HTTP")),
    ("HTTP/2.0 200 OK", refused(Version, "HTTP")),
    ("HTTP/2 200 OK", refused(StatusLine, "HTTP")),
    ("HTTP/1.10 200 OK", refused(StatusLine, "HTTP")),
    ("HTTP/1.1", refused(StatusLine, "HTTP")),
    ("HTTP 200 OK", refused(StatusLine, "HTTP")),
    ("HTTP/11 200 OK", refused(StatusLine, "HTTP")),
    ("http/1.1 200 OK", refused(StatusLine, "http")),
    ("ICY 200 OK", refused(StatusLine, "ICY")),
    (" HTTP/1.1 200 OK", refused(StatusLine, " HTTP")),
    ("\0HTTP/1.1 200 OK", refused(StatusLine, "\0")),
    ("HXTP/1.1 200 OK", refused(StatusLine, "HXTP")),
];

/// Field lines of a 200 response, each with its line end, and the bytes after the empty line.
const FIELD_CASES: &[(&str, &str, ParseExpectation)] = &[
    ("Content-Length: 5\r\n", "hello", accepted(&["200 [hello]"])),
    ("Content-Length: 0\r\n", "", accepted(&["200 []"])),
    ("", "hello", ParseExpectation::Incomplete),
    ("Connection: close\r\n", "hello", ParseExpectation::Incomplete),
    ("Content-Length: 5\r\nContent-Length: 5\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!", refused(ContentLength, "Content")),
    ("Content-Length: 5, 5\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: +5\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: -1\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: 0x5\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length:\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: 18446744073709551621\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length : 5\r\n", "hello", refused(Field, "Content")),
    (
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "0\r\n\r\n",
        refused(ConflictingLengths, "Transfer"),
    ),
    (
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "0\r\n\r\n",
        refused(ConflictingLengths, "Content"),
    ),
    ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n", accepted(&["200 [hello]"])),
    ("Transfer-Encoding: Chunked\r\n", "5;a\r\nhello\r\n0\r\nX: y\r\n\r\n", accepted(&["200 [hello]"])),
    ("Transfer-Encoding: gzip\r\n", "hello", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding: identity\r\n", "hello", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n", refused(TransferCoding, "Transfer")),
    (
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "0\r\n\r\n",
        refused(TransferEncoding, "Transfer"),
    ),
    ("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n", refused(Field, " chunked")),
    ("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n", refused(Field, "Transfer")),
    ("Transfer-Encoding: chunked\r\n", "5\r\nhello0\r\n\r\n", refused(ChunkEnd, "0\r\n\r\n")),
    ("Transfer-Encoding: chunked\r\n", "5\nhello\n0\n\n", refused(ChunkSize, "\nhello")),
    ("Transfer-Encoding: chunked\r\n", "0x5\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "x5")),
    ("Transfer-Encoding: chunked\r\n", "0\r\nX : y\r\n\r\n", refused(Trailer, "X :")),
    ("X: y\n", "", refused(BareLineFeed, "\n\r\n")),
    ("X: y\rZ: w\r\n", "", refused(Field, "X: y")),
    ("X: y\r\n z\r\n", "", refused(Field, " z")),
    ("X y: z\r\n", "", refused(Field, "X y")),
    (" X: y\r\n", "", refused(Field, " X")),
    ("X: \0\r\n", "", refused(Field, "X: ")),
    // The bytes after the body answer no request.
    (
        "Content-Length: 4\r\n",
        "hello",
        ParseExpectation::AcceptedThenRefused(&["200 [hell]"], Unsolicited, "o"),
    ),
    (
        "Content-Length: 0\r\n",
        "\r\n",
        ParseExpectation::AcceptedThenRefused(&["200 []"], Unsolicited, "\r\n"),
    ),
    (
        "Content-Length: 0\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        ParseExpectation::AcceptedThenRefused(&["200 []"], Unsolicited, "HTTP/1.1 200 OK"),
    ),
    ("Content-Length: 0\r\nConnection: close\r\n", "HTTP/1.1 200 OK\r\n", accepted(&["200 []"])),
];

/// Whole inputs.
const RAW_CASES: &[(&str, ParseExpectation)] = &[
    ("", ParseExpectation::Incomplete),
    ("H", ParseExpectation::Incomplete),
    ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r", ParseExpectation::Incomplete),
    ("\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", refused(StatusLine, "\r\nHTTP")),
    ("HTTP/1.1 200 OK\nContent-Length: 0\n\n", refused(BareLineFeed, "\nContent")),
    ("HTTP/1.1 204 No Content\r\n\r\n", accepted(&["204 []"])),
    ("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", accepted(&["204 []"])),
    ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", refused(BodyForbidden, "HTTP")),
    (
        "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        refused(BodyForbidden, "HTTP"),
    ),
    ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", accepted(&["304 []"])),
    ("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", accepted(&["304 []"])),
    ("HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", accepted(&["205 []"])),
    ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", accepted(&["200 []"])),
    (
        "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 100 \r\n\r\nHTTP/1.1 202 \r\nContent-Length: 1\r\n\r\nx",
        accepted(&["202 [x]"]),
    ),
    ("HTTP/1.1 100 Continue\r\n\r\n", ParseExpectation::Incomplete),
    ("HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\nhello", refused(BodyForbidden, "HTTP")),
    ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", refused(Upgrade, "HTTP")),
    ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", refused(TransferEncoding, "Transfer")),
    ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", accepted(&["200 [x]"])),
    ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nxyz", accepted(&["200 [x]"])),
    ("\x15\x03\x01\0\x02\x02\x50", refused(StatusLine, "\x15")),
    ("<html>", refused(StatusLine, "<html>")),
];

/// Returns all rows above as inputs.
pub(crate) fn cases() -> Vec<ParseCase> {
    let mut rows = Vec::new();
    for (line, expectation) in STATUS_LINE_CASES {
        let input = format!("{line}\r\nContent-Length: 0\r\n\r\n").into_bytes();
        rows.push(ParseCase::new("status line", line.as_bytes(), input, *expectation));
    }
    for (fields, rest, expectation) in FIELD_CASES {
        let input = format!("HTTP/1.1 200 OK\r\n{fields}\r\n{rest}").into_bytes();
        let part = format!("{fields}|{rest}");
        rows.push(ParseCase::new("response fields", part.as_bytes(), input, *expectation));
    }
    for (input, expectation) in RAW_CASES {
        rows.push(ParseCase::new("raw response", input.as_bytes(), input.as_bytes().to_vec(), *expectation));
    }
    let interim = "HTTP/1.1 100 Continue\r\n\r\n";
    let last = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let limit = usize::from(HttpLimits::default().max_interim);
    for (n, expectation) in [
        (limit, accepted(&["200 []"])),
        (limit + 1, ParseExpectation::RefusedAt(TooManyInterim, interim.len() * limit)),
    ] {
        let input = interim.repeat(n) + last;
        rows.push(ParseCase {
            name: format!("{n} interim responses"),
            input: input.into_bytes(),
            expectation,
        });
    }
    let fields = |n| format!("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", "X: y\r\n".repeat(n));
    let limit = HttpLimits::default().max_fields;
    for (n, expectation) in [(limit - 1, accepted(&["200 []"])), (limit, refused(TooManyFields, "HTTP"))] {
        rows.push(ParseCase {
            name: format!("{n} fields and a length"),
            input: fields(n).into_bytes(),
            expectation,
        });
    }
    rows
}

// covers: SEC-018
#[test]
fn response_rows_have_expected_outcome_at_every_cut() {
    let rows = cases();
    let mut wrong = Vec::new();
    for row in &rows {
        let read = |pieces: &[&[u8]]| read(client(HttpLimits::default(), "GET"), pieces, false);
        let whole = read(&[&row.input]);
        for pieces in chunkings(&row.input) {
            let seen = read(&pieces);
            if seen != whole {
                wrong.push(format!("{}: {} pieces: {seen:?} and whole: {whole:?}", row.name, pieces.len()));
                break;
            }
        }
        let (got, fault) = (whole.fault.map(|f| (f.reason(), f.offset())), row.fault());
        if whole.messages != row.messages() || got != fault {
            wrong.push(format!("{}: {:?}, then {got:?} instead of {fault:?}", row.name, whole.messages));
        }
        assert!(whole.is_over || whole.fault.is_none(), "{}", row.name);
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn hang_up_at_any_byte_completes_no_response() {
    for row in cases() {
        let whole = read(client(HttpLimits::default(), "GET"), &[&row.input], false);
        for at in 0..=row.input.len() {
            let seen = read(client(HttpLimits::default(), "GET"), &[&row.input[..at]], true);
            assert!(seen.is_over, "{}, {at}: {seen:?}", row.name);
            let until_close =
                whole.messages.is_empty() && whole.partial_message.is_some() && whole.fault.is_none();
            if until_close {
                // Only a body that is delimited by the end of the connection is completed by it.
                let head = row.input.len() - "hello".len();
                assert_eq!(seen.messages.len(), usize::from(at >= head), "{}, {at}", row.name);
            } else {
                assert!(whole.messages.starts_with(&seen.messages), "{}, {at}: {seen:?}", row.name);
            }
            assert_eq!(seen.is_peer_gone, at == 0, "{}, {at}: {seen:?}", row.name);
            let silent = seen.fault.is_none() && seen.messages.is_empty();
            assert_eq!(silent, at == 0, "{}, {at}: received bytes had no effect: {seen:?}", row.name);
            if let Some(fault) = seen.fault {
                assert!(fault.reason() == Truncated || whole.fault == Some(fault), "{}, {at}", row.name);
            }
        }
    }
}

#[test]
fn response_to_head_has_no_body() {
    for head in ["Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "", "Connection: close\r\n"] {
        let input = format!("HTTP/1.1 200 OK\r\n{head}\r\n");
        for pieces in chunkings(input.as_bytes()) {
            let seen = read(client(HttpLimits::default(), "HEAD"), &pieces, false);
            assert_eq!((&*seen.messages, seen.fault), (&["200 []".to_owned()][..], None), "{head}");
            assert_eq!(seen.is_over, head.contains("close"));
        }
    }
}
