//! Responses that not every recipient would read in the same way, and some that are only unusual.

use mcp_proto::h1::{Limits, Reason};

use crate::drive::{client, cuts, read};
use crate::table::{Row, Want, no, ok};
use Reason::{
    BareLineFeed, BodyForbidden, ChunkEnd, ChunkSize, Coding, ContentLength, Field, StatusLine,
    TooManyFields, TooManyInterim, Trailer, TransferEncoding, Truncated, TwoLengths, Unasked, Upgrade,
    Version,
};

/// Status lines, over one field `Content-Length: 0`
const LINES: &[(&str, Want)] = &[
    ("HTTP/1.1 200 OK", ok(&["200 []"])),
    ("HTTP/1.1 200 ", ok(&["200 []"])),
    ("HTTP/1.1 200", ok(&["200 []"])),
    ("HTTP/1.1 200 a b\tc\u{e4}", ok(&["200 []"])),
    ("HTTP/1.1 599 X", ok(&["599 []"])),
    ("HTTP/1.0 404 Not Found", ok(&["404 []"])),
    ("HTTP/1.1 600 X", no(StatusLine, "HTTP")),
    ("HTTP/1.1 999 X", no(StatusLine, "HTTP")),
    ("HTTP/1.1 099 X", no(StatusLine, "HTTP")),
    ("HTTP/1.1 000 X", no(StatusLine, "HTTP")),
    ("HTTP/1.1 20 OK", no(StatusLine, "HTTP")),
    ("HTTP/1.1 2000 OK", no(StatusLine, "HTTP")),
    ("HTTP/1.1 +20 OK", no(StatusLine, "HTTP")),
    ("HTTP/1.1 2x0 OK", no(StatusLine, "HTTP")),
    ("HTTP/1.1  200 OK", no(StatusLine, "HTTP")),
    ("HTTP/1.1\t200 OK", no(StatusLine, "HTTP")),
    ("HTTP/1.1 200\tOK", no(StatusLine, "HTTP")),
    ("HTTP/1.1 200 O\0K", no(StatusLine, "HTTP")),
    ("HTTP/1.1 200 O\x1bK", no(StatusLine, "HTTP")),
    ("HTTP/1.1 200 O\rK", no(StatusLine, "HTTP")),
    ("HTTP/1.1 200 OK\r", no(StatusLine, "HTTP")),
    ("HTTP/1.1 200\r", no(StatusLine, "HTTP")),
    ("HTTP/1.2 200 OK", no(Version, "HTTP")),
    ("HTTP/2.0 200 OK", no(Version, "HTTP")),
    ("HTTP/2 200 OK", no(StatusLine, "HTTP")),
    ("HTTP/1.10 200 OK", no(StatusLine, "HTTP")),
    ("HTTP/1.1", no(StatusLine, "HTTP")),
    ("HTTP 200 OK", no(StatusLine, "HTTP")),
    ("HTTP/11 200 OK", no(StatusLine, "HTTP")),
    ("http/1.1 200 OK", no(StatusLine, "http")),
    ("ICY 200 OK", no(StatusLine, "ICY")),
    (" HTTP/1.1 200 OK", no(StatusLine, " HTTP")),
    ("\0HTTP/1.1 200 OK", no(StatusLine, "\0")),
    ("HXTP/1.1 200 OK", no(StatusLine, "HXTP")),
];

/// Field lines of a 200, each with its end, and what follows the empty line
const FIELDS: &[(&str, &str, Want)] = &[
    ("Content-Length: 5\r\n", "hello", ok(&["200 [hello]"])),
    ("Content-Length: 0\r\n", "", ok(&["200 []"])),
    ("", "hello", Want::Waits),
    ("Connection: close\r\n", "hello", Want::Waits),
    ("Content-Length: 5\r\nContent-Length: 5\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!", no(ContentLength, "Content")),
    ("Content-Length: 5, 5\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: +5\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: -1\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: 0x5\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length:\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: 18446744073709551621\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length : 5\r\n", "hello", no(Field, "Content")),
    ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", no(TwoLengths, "Transfer")),
    ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n", no(TwoLengths, "Content")),
    ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n", ok(&["200 [hello]"])),
    ("Transfer-Encoding: Chunked\r\n", "5;a\r\nhello\r\n0\r\nX: y\r\n\r\n", ok(&["200 [hello]"])),
    ("Transfer-Encoding: gzip\r\n", "hello", no(Coding, "Transfer")),
    ("Transfer-Encoding: identity\r\n", "hello", no(Coding, "Transfer")),
    ("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n", no(Coding, "Transfer")),
    ("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n", no(Coding, "Transfer")),
    (
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "0\r\n\r\n",
        no(TransferEncoding, "Transfer"),
    ),
    ("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n", no(Field, " chunked")),
    ("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n", no(Field, "Transfer")),
    ("Transfer-Encoding: chunked\r\n", "5\r\nhello0\r\n\r\n", no(ChunkEnd, "0\r\n\r\n")),
    ("Transfer-Encoding: chunked\r\n", "5\nhello\n0\n\n", no(ChunkSize, "\nhello")),
    ("Transfer-Encoding: chunked\r\n", "0x5\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "x5")),
    ("Transfer-Encoding: chunked\r\n", "0\r\nX : y\r\n\r\n", no(Trailer, "X :")),
    ("X: y\n", "", no(BareLineFeed, "\n\r\n")),
    ("X: y\rZ: w\r\n", "", no(Field, "X: y")),
    ("X: y\r\n z\r\n", "", no(Field, " z")),
    ("X y: z\r\n", "", no(Field, "X y")),
    (" X: y\r\n", "", no(Field, " X")),
    ("X: \0\r\n", "", no(Field, "X: ")),
    // What follows was not asked for.
    ("Content-Length: 4\r\n", "hello", Want::Then(&["200 [hell]"], Unasked, "o")),
    ("Content-Length: 0\r\n", "\r\n", Want::Then(&["200 []"], Unasked, "\r\n")),
    (
        "Content-Length: 0\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        Want::Then(&["200 []"], Unasked, "HTTP/1.1 200 OK"),
    ),
    ("Content-Length: 0\r\nConnection: close\r\n", "HTTP/1.1 200 OK\r\n", ok(&["200 []"])),
];

/// Whole inputs
const RAW: &[(&str, Want)] = &[
    ("", Want::Waits),
    ("H", Want::Waits),
    ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r", Want::Waits),
    ("\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", no(StatusLine, "\r\nHTTP")),
    ("HTTP/1.1 200 OK\nContent-Length: 0\n\n", no(BareLineFeed, "\nContent")),
    ("HTTP/1.1 204 No Content\r\n\r\n", ok(&["204 []"])),
    ("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", ok(&["204 []"])),
    ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", no(BodyForbidden, "HTTP")),
    ("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", no(BodyForbidden, "HTTP")),
    ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", ok(&["304 []"])),
    ("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", ok(&["304 []"])),
    ("HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", ok(&["205 []"])),
    ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ok(&["200 []"])),
    (
        "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 100 \r\n\r\nHTTP/1.1 202 \r\nContent-Length: 1\r\n\r\nx",
        ok(&["202 [x]"]),
    ),
    ("HTTP/1.1 100 Continue\r\n\r\n", Want::Waits),
    ("HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\nhello", no(BodyForbidden, "HTTP")),
    ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", no(Upgrade, "HTTP")),
    ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", no(TransferEncoding, "Transfer")),
    ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", ok(&["200 [x]"])),
    ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nxyz", ok(&["200 [x]"])),
    ("\x15\x03\x01\0\x02\x02\x50", no(StatusLine, "\x15")),
    ("<html>", no(StatusLine, "<html>")),
];

/// Everything above as inputs
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (line, want) in LINES {
        let input = format!("{line}\r\nContent-Length: 0\r\n\r\n").into_bytes();
        rows.push(Row::new("status line", line.as_bytes(), input, *want));
    }
    for (fields, rest, want) in FIELDS {
        let input = format!("HTTP/1.1 200 OK\r\n{fields}\r\n{rest}").into_bytes();
        let part = format!("{fields}|{rest}");
        rows.push(Row::new("response fields", part.as_bytes(), input, *want));
    }
    for (input, want) in RAW {
        rows.push(Row::new("raw response", input.as_bytes(), input.as_bytes().to_vec(), *want));
    }
    let interim = "HTTP/1.1 100 Continue\r\n\r\n";
    let last = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let most = usize::from(Limits::default().max_interim);
    for (n, want) in
        [(most, ok(&["200 []"])), (most + 1, Want::RefusedAt(TooManyInterim, interim.len() * most))]
    {
        let input = interim.repeat(n) + last;
        rows.push(Row { name: format!("{n} interim responses"), input: input.into_bytes(), want });
    }
    let fields = |n| format!("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", "X: y\r\n".repeat(n));
    let most = Limits::default().max_fields;
    for (n, want) in [(most - 1, ok(&["200 []"])), (most, no(TooManyFields, "HTTP"))] {
        rows.push(Row { name: format!("{n} fields and a length"), input: fields(n).into_bytes(), want });
    }
    rows
}

// covers: SEC-018
#[test]
fn each_row_is_read_in_one_way_at_every_cut() {
    let rows = rows();
    let mut wrong = Vec::new();
    for row in &rows {
        let read = |pieces: &[&[u8]]| read(client(Limits::default(), "GET"), pieces, false);
        let whole = read(&[&row.input]);
        for pieces in cuts(&row.input) {
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
        assert!(whole.over || whole.fault.is_none(), "{}", row.name);
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn a_hang_up_at_any_byte_completes_nothing() {
    for row in rows() {
        let whole = read(client(Limits::default(), "GET"), &[&row.input], false);
        for at in 0..=row.input.len() {
            let seen = read(client(Limits::default(), "GET"), &[&row.input[..at]], true);
            assert!(seen.over, "{}, {at}: {seen:?}", row.name);
            let until_close = whole.messages.is_empty() && whole.open.is_some() && whole.fault.is_none();
            if until_close {
                // Only what ends with the connection is completed by its end.
                let head = row.input.len() - "hello".len();
                assert_eq!(seen.messages.len(), usize::from(at >= head), "{}, {at}", row.name);
            } else {
                assert!(whole.messages.starts_with(&seen.messages), "{}, {at}: {seen:?}", row.name);
            }
            assert_eq!(seen.gone, at == 0, "{}, {at}: {seen:?}", row.name);
            let silent = seen.fault.is_none() && seen.messages.is_empty();
            assert_eq!(silent, at == 0, "{}, {at}: whatever has come is told of: {seen:?}", row.name);
            if let Some(fault) = seen.fault {
                assert!(fault.reason() == Truncated || whole.fault == Some(fault), "{}, {at}", row.name);
            }
        }
    }
}

#[test]
fn no_body_follows_the_head_of_an_answer_to_head() {
    for head in ["Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "", "Connection: close\r\n"] {
        let input = format!("HTTP/1.1 200 OK\r\n{head}\r\n");
        for pieces in cuts(input.as_bytes()) {
            let seen = read(client(Limits::default(), "HEAD"), &pieces, false);
            assert_eq!((&*seen.messages, seen.fault), (&["200 []".to_owned()][..], None), "{head}");
            assert_eq!(seen.over, head.contains("close"));
        }
    }
}
