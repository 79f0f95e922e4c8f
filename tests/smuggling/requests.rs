//! Requests that recipients may read in different ways, and some that are only unusual.

use mcp_proto::h1::{HttpLimits, Reason};

use crate::smuggling::drive::{chunkings, read, server};
use crate::smuggling::table::{ParseCase, ParseExpectation, accepted, refused};
use Reason::{
    BareLineFeed, BodyTooLong, ChunkEnd, ChunkExtension, ChunkSize, ConflictingLengths, ContentLength,
    Expectation, Field, HeadTooLong, Host, Method, RequestLine, Target, TargetTooLong, TooManyFields,
    Trailer, TransferCoding, TransferEncoding, Version,
};

/// Request lines, followed by one field `Host: h`.
const REQUEST_LINE_CASES: &[(&str, ParseExpectation)] = &[
    ("GET / HTTP/1.1", accepted(&["GET / []"])),
    ("GET /?a=b&c=%20;d HTTP/1.1", accepted(&["GET /?a=b&c=%20;d []"])),
    ("GET //a//../b HTTP/1.1", accepted(&["GET //a//../b []"])),
    ("GET /?x={\"y\"}|z^` HTTP/1.1", accepted(&["GET /?x={\\\"y\\\"}|z^` []"])),
    ("get / HTTP/1.1", accepted(&["get / []"])),
    ("X-Y!z / HTTP/1.1", accepted(&["X-Y!z / []"])),
    ("PRI * HTTP/2.0", refused(Version, "PRI")),
    ("GET / HTTP/2.0", refused(Version, "GET")),
    ("GET / HTTP/1.2", refused(Version, "GET")),
    ("GET / HTTP/0.9", refused(Version, "GET")),
    ("GET / HTTP/1.10", refused(RequestLine, "GET")),
    ("GET / HTTP/1", refused(RequestLine, "GET")),
    ("GET / HTTP/1.", refused(RequestLine, "GET")),
    ("GET / HTTP/11", refused(RequestLine, "GET")),
    ("GET / http/1.1", refused(RequestLine, "GET")),
    ("GET / HTTP /1.1", refused(RequestLine, "GET")),
    ("GET / HTTP/1.1 ", refused(RequestLine, "GET")),
    ("GET / HTTP/1.1\t", refused(RequestLine, "GET")),
    ("GET / HTTP/01.1", refused(RequestLine, "GET")),
    ("GET / XTTP/1.1", refused(RequestLine, "GET")),
    ("GET / HTTPS/1.1", refused(RequestLine, "GET")),
    ("GET / ICE/1.0", refused(RequestLine, "GET")),
    ("GET /", refused(RequestLine, "GET")),
    ("GET ", refused(RequestLine, "GET")),
    ("GET", refused(RequestLine, "GET")),
    ("GET  / HTTP/1.1", refused(RequestLine, "GET")),
    ("GET /  HTTP/1.1", refused(RequestLine, "GET")),
    ("GET /a b HTTP/1.1", refused(RequestLine, "GET")),
    ("GET\t/ HTTP/1.1", refused(RequestLine, "GET")),
    ("GET /\tHTTP/1.1", refused(RequestLine, "GET")),
    (" GET / HTTP/1.1", refused(RequestLine, " GET")),
    ("\tGET / HTTP/1.1", refused(RequestLine, "\tGET")),
    ("\0GET / HTTP/1.1", refused(RequestLine, "\0GET")),
    ("\u{feff}GET / HTTP/1.1", refused(RequestLine, "\u{feff}")),
    ("G\0T / HTTP/1.1", refused(RequestLine, "G\0")),
    ("G(T / HTTP/1.1", refused(RequestLine, "G(")),
    ("GET: / HTTP/1.1", refused(RequestLine, "GET")),
    ("G\u{c9}T / HTTP/1.1", refused(RequestLine, "G\u{c9}")),
    ("GET /\0 HTTP/1.1", refused(RequestLine, "GET")),
    ("GET /\x0b HTTP/1.1", refused(RequestLine, "GET")),
    ("GET /\x7f HTTP/1.1", refused(RequestLine, "GET")),
    ("GET /\u{e4} HTTP/1.1", refused(Target, "GET")),
    ("GET /\r HTTP/1.1", refused(RequestLine, "GET")),
    ("GET /\rHTTP/1.1", refused(RequestLine, "GET")),
    ("GET / HTTP/1.1\r", refused(RequestLine, "GET")),
    ("GET /#a HTTP/1.1", refused(Target, "GET")),
    ("GET a HTTP/1.1", refused(Target, "GET")),
    ("GET ?a HTTP/1.1", refused(Target, "GET")),
    ("GET * HTTP/1.1", refused(Target, "GET")),
    ("GET h:80 HTTP/1.1", refused(Target, "GET")),
    ("OPTIONS * HTTP/1.1", accepted(&["OPTIONS * []"])),
    ("OPTIONS / HTTP/1.1", accepted(&["OPTIONS / []"])),
    ("OPTIONS http://h HTTP/1.1", accepted(&["OPTIONS * []"])),
    ("GET http://h/a?b HTTP/1.1", accepted(&["GET /a?b []"])),
    ("GET HTTP://H/a HTTP/1.1", accepted(&["GET /a []"])),
    ("GET https://h/a HTTP/1.1", accepted(&["GET /a []"])),
    ("GET http://h HTTP/1.1", accepted(&["GET / []"])),
    ("GET http://h?a HTTP/1.1", refused(Target, "GET")),
    ("GET http://other/a HTTP/1.1", refused(Target, "GET")),
    ("GET http://h:80/a HTTP/1.1", refused(Target, "GET")),
    ("GET http://u@h/a HTTP/1.1", refused(Target, "GET")),
    ("GET http://h\\@other/ HTTP/1.1", refused(Target, "GET")),
    ("GET http:///a HTTP/1.1", refused(Target, "GET")),
    ("GET http:/a HTTP/1.1", refused(Target, "GET")),
    ("GET ftp://h/a HTTP/1.1", refused(Target, "GET")),
    ("GET file:///etc/passwd HTTP/1.1", refused(Target, "GET")),
    ("CONNECT h:80 HTTP/1.1", refused(Method, "CONNECT")),
    ("CONNECT / HTTP/1.1", refused(Method, "CONNECT")),
    ("TRACE / HTTP/1.1", refused(Method, "TRACE")),
    ("connect / HTTP/1.1", accepted(&["connect / []"])),
];

/// Field lines after `Host: h`, each with its line end, and the bytes after the empty line.
const FIELD_CASES: &[(&str, &str, ParseExpectation)] = &[
    // Content lengths.
    ("Content-Length: 5\r\n", "hello", accepted(&["POST /a [hello]"])),
    ("content-length:5\r\n", "hello", accepted(&["POST /a [hello]"])),
    ("Content-Length: \t 5\t \r\n", "hello", accepted(&["POST /a [hello]"])),
    ("Content-Length: 0005\r\n", "hello", accepted(&["POST /a [hello]"])),
    ("Content-Length: 0\r\n", "", accepted(&["POST /a []"])),
    ("", "", accepted(&["POST /a []"])),
    ("Content-Length: 5\r\nContent-Length: 5\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!", refused(ContentLength, "Content")),
    ("Content-Length: 5\r\nCONTENT-LENGTH: 6\r\n", "hello!", refused(ContentLength, "CONTENT")),
    ("Content-Length: 0\r\nContent-Length: 5\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: 5, 5\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: 5,\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: ,5\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: +5\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: -5\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: -0\r\n", "", refused(ContentLength, "Content")),
    ("Content-Length: 0x5\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: 5.0\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: 5e0\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: 1_0\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: 5 5\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: 5;a\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: \"5\"\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length:\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: a\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: \u{665}\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: 5\0\r\n", "hello", refused(Field, "Content")),
    ("Content-Length: \x0b5\r\n", "hello", refused(Field, "Content")),
    ("Content-Length: \x0c5\r\n", "hello", refused(Field, "Content")),
    ("Content-Length: \u{a0}5\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: 0000000000000000005\r\n", "hello", accepted(&["POST /a [hello]"])),
    ("Content-Length: 00000000000000000005\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: 18446744073709551615\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: 18446744073709551621\r\n", "hello", refused(ContentLength, "Content")),
    ("Content-Length: 9999999999999999999\r\n", "hello", refused(BodyTooLong, "POST")),
    ("Content-Length: 4294967301\r\n", "hello", refused(BodyTooLong, "POST")),
    ("Content-Length : 5\r\n", "hello", refused(Field, "Content")),
    ("Content-Length\t: 5\r\n", "hello", refused(Field, "Content")),
    ("Content_Length: 5\r\n", "", accepted(&["POST /a []"])),
    ("Content-Length\0: 5\r\n", "hello", refused(Field, "Content")),
    ("X: y Content-Length: 5\r\n", "", accepted(&["POST /a []"])),
    // Transfer codings.
    ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n", accepted(&["POST /a [hello]"])),
    ("transfer-encoding:CHUNKED\r\n", "5\r\nhello\r\n0\r\n\r\n", accepted(&["POST /a [hello]"])),
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
    (
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        "0\r\n\r\n",
        refused(ConflictingLengths, "Transfer"),
    ),
    ("Content-Length: x\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", refused(ContentLength, "Content")),
    ("Content-Length: 5\r\nTransfer-Encoding: identity\r\n", "hello", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding: identity\r\n", "", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding: gzip\r\n", "", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding: identity, chunked\r\n", "0\r\n\r\n", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding: chunked,\r\n", "0\r\n\r\n", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding: ,chunked\r\n", "0\r\n\r\n", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding: chunked;q=1\r\n", "0\r\n\r\n", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding: chunked;\r\n", "0\r\n\r\n", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding: chunkedx\r\n", "0\r\n\r\n", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding: chun ked\r\n", "0\r\n\r\n", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding: chun\u{212a}ed\r\n", "0\r\n\r\n", refused(TransferCoding, "Transfer")),
    ("Transfer-Encoding:\r\n", "", refused(TransferEncoding, "Transfer")),
    (
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "0\r\n\r\n",
        refused(TransferEncoding, "Transfer"),
    ),
    (
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "0\r\n\r\n",
        refused(TransferEncoding, "Transfer"),
    ),
    (
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        "0\r\n\r\n",
        refused(TransferCoding, "Transfer-Encoding: i"),
    ),
    ("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n", refused(Field, " chunked")),
    ("Transfer-Encoding : chunked\r\n", "0\r\n\r\n", refused(Field, "Transfer")),
    ("Transfer-Encoding\t: chunked\r\n", "0\r\n\r\n", refused(Field, "Transfer")),
    (" Transfer-Encoding: chunked\r\n", "0\r\n\r\n", refused(Field, " Transfer")),
    ("\tTransfer-Encoding: chunked\r\n", "0\r\n\r\n", refused(Field, "\tTransfer")),
    ("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n", refused(Field, "Transfer")),
    ("Transfer-Encoding: chunked\x0c\r\n", "0\r\n\r\n", refused(Field, "Transfer")),
    ("Transfer-Encoding: chunked\0\r\n", "0\r\n\r\n", refused(Field, "Transfer")),
    ("Transfer-Encoding: chunked\r \r\n", "0\r\n\r\n", refused(Field, "Transfer")),
    ("\0Transfer-Encoding: chunked\r\n", "0\r\n\r\n", refused(Field, "\0Transfer")),
    ("Transfer_Encoding: chunked\r\n", "", accepted(&["POST /a []"])),
    ("X: y\rTransfer-Encoding: chunked\r\n", "0\r\n\r\n", refused(Field, "X: y")),
    ("X: y\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", refused(BareLineFeed, "\nTransfer")),
    // Line ends.
    ("X: y\n", "", refused(BareLineFeed, "\n\r\n")),
    ("X: y\r\r\n", "", refused(Field, "X: y")),
    ("X: y\r\n\n", "", refused(BareLineFeed, "\n\r\n")),
    ("\n", "", refused(BareLineFeed, "\n\r\n")),
    ("\rX: y\r\n", "", refused(Field, "\rX")),
    ("\r\r\n", "", refused(Field, "\r\r\n\r\n")),
    ("X: y\r z\r\n", "", refused(Field, "X: y")),
    // Field names and values.
    ("X:\r\n", "", accepted(&["POST /a []"])),
    ("X: \t \r\n", "", accepted(&["POST /a []"])),
    ("X: a\tb\r\n", "", accepted(&["POST /a []"])),
    ("X: \u{e4}\u{20ac}\r\n", "", accepted(&["POST /a []"])),
    ("X!#$%&'*+-.^_`|~0: y\r\n", "", accepted(&["POST /a []"])),
    ("X: y\r\n z\r\n", "", refused(Field, " z")),
    ("X: y\r\n\tz\r\n", "", refused(Field, "\tz")),
    ("X: y\r\n \r\n", "", refused(Field, " \r\n\r\n")),
    ("X : y\r\n", "", refused(Field, "X :")),
    ("X\t: y\r\n", "", refused(Field, "X\t")),
    (" X: y\r\n", "", refused(Field, " X")),
    ("X y: z\r\n", "", refused(Field, "X y")),
    (": y\r\n", "", refused(Field, ": y")),
    (":\r\n", "", refused(Field, ":\r\n\r\n")),
    ("X\r\n", "", refused(Field, "X")),
    ("X\u{e4}: y\r\n", "", refused(Field, "X\u{e4}")),
    ("X(: y\r\n", "", refused(Field, "X(")),
    ("X/: y\r\n", "", refused(Field, "X/")),
    ("X\"Y\": z\r\n", "", refused(Field, "X\"")),
    ("X\0: y\r\n", "", refused(Field, "X\0")),
    ("X\x7f: y\r\n", "", refused(Field, "X\x7f")),
    ("X: y\0z\r\n", "", refused(Field, "X: y")),
    ("X: \x01\r\n", "", refused(Field, "X: ")),
    ("X: \x08\r\n", "", refused(Field, "X: ")),
    ("X: y\x0bz\r\n", "", refused(Field, "X: y")),
    ("X: y\x1b[2J\r\n", "", refused(Field, "X: y")),
    ("X: y\x7f\r\n", "", refused(Field, "X: y")),
    // Host.
    ("Host: h\r\n", "", refused(Host, "h\r\n\r\n")),
    ("HOST: other\r\n", "", refused(Host, "other")),
    ("Host:\r\n", "", refused(Host, "\r\n\r\n")),
    ("Host : other\r\n", "", refused(Field, "Host :")),
    (" Host: other\r\n", "", refused(Field, " Host")),
    // Expectations.
    ("Expect: 100-continue\r\nContent-Length: 5\r\n", "hello", accepted(&["POST /a [hello]"])),
    ("EXPECT: 100-Continue\r\n", "", accepted(&["POST /a []"])),
    ("Expect: 200-ok\r\n", "", refused(Expectation, "POST")),
    ("Expect:\r\n", "", refused(Expectation, "POST")),
    ("Expect: 100-continue, x\r\n", "", refused(Expectation, "POST")),
    ("Expect: 100-continue\r\nExpect: x\r\n", "", refused(Expectation, "POST")),
    // Upgrades, which this server ignores.
    (
        "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: a\r\n",
        "",
        accepted(&["POST /a []"]),
    ),
    ("Upgrade: websocket\r\nConnection: upgrade\r\n", "", accepted(&["POST /a []"])),
    ("Connection: Content-Length\r\nContent-Length: 5\r\n", "hello", accepted(&["POST /a [hello]"])),
    (
        "Connection: keep-alive, Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n",
        "0\r\n\r\n",
        accepted(&["POST /a []"]),
    ),
    ("Connection:\r\n", "", accepted(&["POST /a []"])),
    ("TE: chunked\r\nTrailer: X\r\n", "", accepted(&["POST /a []"])),
    // Pipelined requests with bodies.
    (
        "Content-Length: 5\r\n",
        "helloGET /b HTTP/1.1\r\nHost: h\r\n\r\n",
        accepted(&["POST /a [hello]", "GET /b []"]),
    ),
    (
        "Content-Length: 5\r\n",
        "hello\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n",
        accepted(&["POST /a [hello]", "GET /b []"]),
    ),
    (
        "Content-Length: 5\r\n",
        "hello\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n",
        ParseExpectation::AcceptedThenRefused(&["POST /a [hello]"], RequestLine, "\r\nGET"),
    ),
    (
        "Content-Length: 5\r\n",
        "hello\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n",
        ParseExpectation::AcceptedThenRefused(&["POST /a [hello]"], RequestLine, "\nGET"),
    ),
    (
        "Content-Length: 5\r\n",
        "hello\rGET /b HTTP/1.1\r\nHost: h\r\n\r\n",
        ParseExpectation::AcceptedThenRefused(&["POST /a [hello]"], RequestLine, "\rGET"),
    ),
    ("Content-Length: 4\r\n", "hello", accepted(&["POST /a [hell]"])),
    ("Connection: close\r\n", "GET /b HTTP/1.1\r\nHost: h\r\n\r\n", accepted(&["POST /a []"])),
    ("Connection: x, CLOSE ,y\r\n", "\0\0", accepted(&["POST /a []"])),
    (
        "Connection: x\r\nConnection: close\r\n",
        "GET /b HTTP/1.1\r\nHost: h\r\n\r\n",
        accepted(&["POST /a []"]),
    ),
    ("Connection: closed\r\n", "GET /b HTTP/1.1\r\nHost: h\r\n\r\n", accepted(&["POST /a []", "GET /b []"])),
];

/// Bodies after `Transfer-Encoding: chunked`.
const CHUNK_CASES: &[(&str, ParseExpectation)] = &[
    ("0\r\n\r\n", accepted(&["POST /a []"])),
    ("00000000\r\n\r\n", accepted(&["POST /a []"])),
    ("1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", accepted(&["POST /a [abc]"])),
    ("a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", accepted(&["POST /a [01234567890123456789]"])),
    ("00000005\r\nhello\r\n0\r\n\r\n", accepted(&["POST /a [hello]"])),
    ("5\r\n0\r\n\r\n\r\n0\r\n\r\n", accepted(&["POST /a [0\\r\\n\\r\\n]"])),
    ("000000005\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "5\r\nhello")),
    ("100000005\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "5\r\nhello")),
    ("10000000000000005\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "000000005\r\nhello")),
    ("ffffffffffffffff\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "ffffffff\r\nhello")),
    ("ffffffff\r\nhello\r\n0\r\n\r\n", refused(BodyTooLong, "\nhello")),
    ("0x5\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "x5")),
    ("+5\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "+5")),
    ("-5\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "-5")),
    (" 5\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, " 5")),
    ("\t5\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "\t5")),
    ("5 \r\nhello\r\n0\r\n\r\n", refused(ChunkSize, " \r\nhello")),
    ("5\t\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "\t\r\nhello")),
    ("5_\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "_")),
    ("5.\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, ".\r\n")),
    ("5,\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, ",\r\n")),
    ("5h\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "h\r\nhello")),
    ("g\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "g\r\n")),
    ("\u{ff15}\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "\u{ff15}")),
    ("5\0\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "\0")),
    ("\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "\r\nhello")),
    ("\r\n5\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "\r\n5\r\n")),
    (";a\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, ";a")),
    // Line end of a chunk size.
    ("5\nhello\r\n0\r\n\r\n", refused(ChunkSize, "\nhello")),
    ("5\rhello\r\n0\r\n\r\n", refused(ChunkSize, "hello")),
    ("5\r\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "\r\nhello")),
    ("0\n\r\n", refused(ChunkSize, "\n\r\n")),
    // Line end of a chunk.
    ("5\r\nhello0\r\n\r\n", refused(ChunkEnd, "0\r\n\r\n")),
    ("5\r\nhello\n0\r\n\r\n", refused(ChunkEnd, "\n0\r\n\r\n")),
    ("5\r\nhello\r0\r\n\r\n", refused(ChunkEnd, "\r0\r\n\r\n")),
    ("5\r\nhelloXX0\r\n\r\n", refused(ChunkEnd, "XX0")),
    ("5\r\nhello\r\r\n0\r\n\r\n", refused(ChunkEnd, "\r\r\n0")),
    ("5\r\nhello!\r\n0\r\n\r\n", refused(ChunkEnd, "!\r\n")),
    ("4\r\nhello\r\n0\r\n\r\n", refused(ChunkEnd, "o\r\n0")),
    ("6\r\nhello\r\n0\r\n\r\n", refused(ChunkEnd, "\n0\r\n\r\n")),
    ("5\r\nhello\r\n\r\n0\r\n\r\n", refused(ChunkSize, "\r\n0\r\n\r\n")),
    // Chunk extensions.
    ("5;\r\nhello\r\n0\r\n\r\n", accepted(&["POST /a [hello]"])),
    ("5;a\r\nhello\r\n0;b=c\r\n\r\n", accepted(&["POST /a [hello]"])),
    ("5;a=\"b;c\" ; d\r\nhello\r\n0\r\n\r\n", accepted(&["POST /a [hello]"])),
    ("5 ;a\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, " ;a")),
    ("5;a\nhello\r\n0\r\n\r\n", refused(ChunkExtension, "\nhello")),
    ("5;a\rb\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "b\r\nhello")),
    ("5;a\r\r\nhello\r\n0\r\n\r\n", refused(ChunkSize, "\r\nhello")),
    ("5;\n0\r\n\r\n", refused(ChunkExtension, "\n0")),
    ("5;a\0\r\nhello\r\n0\r\n\r\n", refused(ChunkExtension, "\0")),
    ("5;\u{e4}\r\nhello\r\n0\r\n\r\n", refused(ChunkExtension, "\u{e4}")),
    ("5;a=\"\n\"\r\nhello\r\n0\r\n\r\n", refused(ChunkExtension, "\n\"")),
    // Trailers.
    ("0\r\nX: y\r\n\r\n", accepted(&["POST /a []"])),
    ("0\r\nX: y\r\nZ:\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n", accepted(&["POST /a []", "GET /b []"])),
    ("0\r\nContent-Length: 5\r\n\r\n", refused(Trailer, "Content")),
    ("0\r\nX: y\r\nTransfer-Encoding: gzip\r\n\r\n", refused(Trailer, "Transfer")),
    ("0\r\nHost: other\r\n\r\n", refused(Trailer, "Host")),
    ("0\r\nX : y\r\n\r\n", refused(Trailer, "X :")),
    ("0\r\nX: y\r\n z\r\n\r\n", refused(Trailer, " z")),
    ("0\r\n X: y\r\n\r\n", refused(Trailer, " X")),
    ("0\r\nX\r\n\r\n", refused(Trailer, "X\r\n")),
    ("0\r\n: y\r\n\r\n", refused(Trailer, ": y")),
    ("0\r\nX: \0\r\n\r\n", refused(Trailer, "X: ")),
    ("0\r\nX: y\rZ: w\r\n\r\n", refused(Trailer, "X: y")),
    ("0\r\nX: y\n\r\n", refused(BareLineFeed, "\n\r\n")),
    ("0\r\n\n", refused(BareLineFeed, "\n")),
    ("0\r\n\rGET /b HTTP/1.1\r\nHost: h\r\n\r\n", refused(Trailer, "\rGET")),
    ("0\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n", refused(Trailer, "GET")),
];

/// Whole inputs.
const RAW_CASES: &[(&str, ParseExpectation)] = &[
    ("\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", accepted(&["GET / []"])),
    ("\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", refused(RequestLine, "\r\nGET")),
    ("\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", refused(RequestLine, "\nGET")),
    ("\r\n\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", refused(RequestLine, "\nGET")),
    ("\r\rGET / HTTP/1.1\r\nHost: h\r\n\r\n", refused(RequestLine, "\r\rGET")),
    ("\rGET / HTTP/1.1\r\nHost: h\r\n\r\n", refused(RequestLine, "\rGET")),
    ("GET / HTTP/1.1\nHost: h\r\n\r\n", refused(BareLineFeed, "\nHost")),
    ("GET / HTTP/1.1\nHost: h\n\n", refused(BareLineFeed, "\nHost")),
    ("GET / HTTP/1.1\r\nHost: h\n\r\n", refused(BareLineFeed, "\n\r\n")),
    ("GET / HTTP/1.1\r\nHost: h\r\n\n", refused(BareLineFeed, "\n")),
    ("GET / HTTP/1.1\r\nHost: h\r\n\rX", ParseExpectation::Incomplete),
    ("GET / HTTP/1.1\rHost: h\r\r", ParseExpectation::Incomplete),
    ("GET / HTTP/1.1\r\n Host: h\r\n\r\n", refused(Field, " Host")),
    ("GET / HTTP/1.1\r\n \r\nHost: h\r\n\r\n", refused(Field, " \r\n")),
    ("GET / HTTP/1.1\r\n\r\n", refused(Host, "GET")),
    ("GET /\r\n\r\n", refused(RequestLine, "GET")),
    ("GET / HTTP/1.1\r\nHost: h\r\n", ParseExpectation::Incomplete),
    ("GET / HTTP/1.1\r\nHost: h\r\n\r", ParseExpectation::Incomplete),
    ("GET", ParseExpectation::Incomplete),
    ("\r\n", ParseExpectation::Incomplete),
    ("", ParseExpectation::Incomplete),
    ("\x16\x03\x01\x02\0\x01\0", refused(RequestLine, "\x16")),
    ("{\"jsonrpc\":\"2.0\"}\n", refused(RequestLine, "{")),
    ("SSH-2.0-x\r\n", ParseExpectation::Incomplete),
    // HTTP/1.0.
    ("GET / HTTP/1.0\r\n\r\n", accepted(&["GET / []"])),
    ("GET / HTTP/1.0\r\nHost: h\r\n\r\n", accepted(&["GET / []"])),
    ("GET http://h/a HTTP/1.0\r\n\r\n", accepted(&["GET /a []"])),
    ("GET http://h/a HTTP/1.0\r\nHost: other\r\n\r\n", refused(Target, "GET")),
    ("GET http://@/a HTTP/1.0\r\n\r\n", refused(Target, "GET")),
    ("GET / HTTP/1.0\r\nHost: h\r\nHost: h\r\n\r\n", refused(Host, "h\r\n\r\n")),
    ("POST /a HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello", accepted(&["POST /a [hello]"])),
    (
        "POST /a HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nhGET / HTTP/1.0\r\n\r\n",
        accepted(&["POST /a [h]"]),
    ),
    (
        "POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        refused(TransferEncoding, "Transfer"),
    ),
    ("POST /a HTTP/1.0\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n", refused(TransferEncoding, "Transfer")),
    (
        "POST /a HTTP/1.0\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        refused(TransferEncoding, "Transfer"),
    ),
    ("GET / HTTP/1.0\r\nExpect: x\r\n\r\n", accepted(&["GET / []"])),
    ("POST /a HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nh", accepted(&["POST /a [h]"])),
    // Bodies of methods that rarely have one.
    ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", accepted(&["GET / [hello]"])),
    ("HEAD / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", accepted(&["HEAD / [hello]"])),
    (
        "DELETE / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        accepted(&["DELETE / [x]"]),
    ),
    ("GET / HTTP/1.1\r\nHost: h\r\n\r\nhello", accepted(&["GET / []"])),
    // Pipelined requests.
    (
        "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\nGET /3 HTTP/1.1\r\nHost: h\r\n\r\n",
        accepted(&["GET /1 []", "GET /2 []", "GET /3 []"]),
    ),
    (
        "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h \r\n\r\nGET /3 HTTP/1.1\r\nHost : h\r\n\r\n",
        ParseExpectation::AcceptedThenRefused(&["GET /1 []", "GET /2 []"], Field, "Host :"),
    ),
    (
        "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.0\r\n\r\nGET /3 HTTP/1.1\r\nHost: h\r\n\r\n",
        accepted(&["GET /1 []", "GET /2 []"]),
    ),
];

/// Values of `Host`.
const HOST_CASES: &[(&str, bool)] = &[
    ("localhost", true),
    ("LOCALHOST", true),
    ("localhost:3000", true),
    ("127.0.0.1:1", true),
    ("a.b-c_d~.example.:65535", true),
    ("[::1]", true),
    ("[::1]:80", true),
    ("[::ffff:127.0.0.1]:80", true),
    ("", false),
    (":80", false),
    ("localhost:", false),
    ("localhost:+80", false),
    ("localhost:80a", false),
    ("localhost:800000", false),
    ("localhost:80:80", false),
    ("local host", false),
    ("localhost, other", false),
    ("localhost,other", false),
    ("localhost\tother", false),
    ("user@localhost", false),
    ("localhost/", false),
    ("localhost/a", false),
    ("localhost?a", false),
    ("localhost#a", false),
    ("localhost\\a", false),
    ("http://localhost", false),
    ("local%68ost", false),
    ("\"localhost\"", false),
    ("(localhost)", false),
    ("::1", false),
    ("[::1", false),
    ("::1]", false),
    ("[]", false),
    ("[::1]80", false),
    ("[::1]:", false),
    ("[fe80::1%eth0]", false),
    ("[localhost]", false),
    ("lo\u{e4}", false),
];

/// Returns all rows above as inputs.
pub(crate) fn cases() -> Vec<ParseCase> {
    let mut rows = Vec::new();
    for (line, expectation) in REQUEST_LINE_CASES {
        let input = format!("{line}\r\nHost: h\r\n\r\n").into_bytes();
        rows.push(ParseCase::new("line", line.as_bytes(), input, *expectation));
    }
    for (fields, rest, expectation) in FIELD_CASES {
        let input = format!("POST /a HTTP/1.1\r\nHost: h\r\n{fields}\r\n{rest}").into_bytes();
        let part = format!("{fields}|{rest}");
        rows.push(ParseCase::new("fields", part.as_bytes(), input, *expectation));
    }
    for (body, expectation) in CHUNK_CASES {
        let head = "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        rows.push(ParseCase::new(
            "chunks",
            body.as_bytes(),
            format!("{head}{body}").into_bytes(),
            *expectation,
        ));
    }
    for (input, expectation) in RAW_CASES {
        rows.push(ParseCase::new("raw", input.as_bytes(), input.as_bytes().to_vec(), *expectation));
    }
    for (host, good) in HOST_CASES {
        let input = format!("GET / HTTP/1.1\r\nHost:{host}\r\n\r\n").into_bytes();
        // The fault of an empty value is at the end of its line.
        let at = if host.is_empty() { "\r\n\r\n" } else { host };
        let expectation = if *good { accepted(&["GET / []"]) } else { refused(Host, at) };
        rows.push(ParseCase::new("host", host.as_bytes(), input, expectation));
    }
    rows.extend(long_cases());
    rows
}

/// Returns inputs at the limits and one byte or field beyond them.
fn long_cases() -> Vec<ParseCase> {
    let limits = limits();
    let head = |fields: &str| format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    let chunked =
        |body: &str| format!("POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
    let pad = |n: usize| "x".repeat(n);
    let value_len = limits.max_head - head("X: \r\n").len();
    let half = format!("1;{0}\r\nh\r\n0;{0}\r\n\r\n", pad(limits.max_extensions / 2 + 1));
    let get = accepted(&["GET / []"]);
    let post = accepted(&["POST /a [h]"]);
    let inputs: Vec<(String, ParseExpectation)> = vec![
        (head(&format!("X: {}\r\n", pad(value_len))), get),
        (head(&format!("X: {}\r\n", pad(value_len + 1))), refused(HeadTooLong, "\r\n")),
        (head(&format!("X: {}", pad(70_000))), refused(HeadTooLong, "X: ")),
        (format!("GET /{} HTTP/1.1\r\n", pad(70_000)), refused(TargetTooLong, "GET")),
        (pad(70_000), ParseExpectation::RefusedAt(TargetTooLong, 0)),
        (head(&"X: y\r\n".repeat(limits.max_fields - 1)), get),
        (head(&"X: y\r\n".repeat(limits.max_fields)), refused(TooManyFields, "GET")),
        (head(&"X: y\r\n".repeat(1_000)), refused(TooManyFields, "GET")),
        (
            head(&"X: y\r\n".repeat(20_000)),
            ParseExpectation::RefusedAt(HeadTooLong, limits.max_head / 6 * 6 + 1),
        ),
        (chunked(&format!("1;{}\r\nh\r\n0\r\n\r\n", pad(limits.max_extensions))), post),
        (
            chunked(&format!("1;{}\r\nh\r\n0\r\n\r\n", pad(limits.max_extensions + 1))),
            refused(ChunkExtension, "x\r\nh"),
        ),
        (
            chunked(&half),
            ParseExpectation::RefusedAt(ChunkExtension, chunked(&half).len() - "xx\r\n\r\n".len()),
        ),
        (chunked(&format!("1\r\nh\r\n0\r\nX: {}\r\n\r\n", pad(limits.max_head - 7))), post),
        (
            chunked(&format!("1\r\nh\r\n0\r\nX: {}\r\n\r\n", pad(limits.max_head - 4))),
            refused(Trailer, "X: "),
        ),
        (chunked(&format!("1\r\nh\r\n0\r\n{}\r\n", "X: y\r\n".repeat(limits.max_fields))), post),
        (
            chunked(&format!("1\r\nh\r\n0\r\n{}\r\n", "X: y\r\n".repeat(limits.max_fields + 1))),
            refused(Trailer, "X: y\r\n\r\n"),
        ),
    ];
    inputs
        .into_iter()
        .enumerate()
        .map(|(n, (input, expectation))| ParseCase {
            name: format!("long: {n}"),
            input: input.into_bytes(),
            expectation,
        })
        .collect()
}

/// Returns the default limits, which bound both ends of the table.
pub(crate) fn limits() -> HttpLimits {
    HttpLimits::default()
}

// covers: HTTP-081, SEC-018
#[test]
fn request_rows_have_expected_outcome_at_every_cut() {
    let rows = cases();
    assert!(rows.len() > 300, "{}", rows.len());
    let mut wrong = Vec::new();
    for row in &rows {
        let whole = read(server(limits()), &[&row.input], false);
        for pieces in chunkings(&row.input) {
            let seen = read(server(limits()), &pieces, false);
            if seen != whole {
                wrong.push(format!("{}: {} pieces: {seen:?} and whole: {whole:?}", row.name, pieces.len()));
                break;
            }
        }
        let fault = row.fault();
        let got = whole.fault.map(|f| (f.reason(), f.offset()));
        if whole.messages != row.messages() || got != fault {
            wrong.push(format!("{}: {:?}, then {got:?} instead of {fault:?}", row.name, whole.messages));
        }
        // Each request has one response, and so has a fault.
        let sent = String::from_utf8(whole.sent.clone()).expect("text");
        assert_eq!(sent.matches("HTTP/1.1 200 OK\r\n").count(), whole.messages.len(), "{}", row.name);
        if let Some(fault) = whole.fault {
            assert!(whole.is_over, "{}", row.name);
            let last = format!("HTTP/1.1 {} ", fault.status());
            let last =
                sent.rfind(&last).map(|at| &sent[at..]).unwrap_or_else(|| panic!("{}: {sent}", row.name));
            assert!(last.ends_with("\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), "{last}");
            assert_eq!(last.matches("HTTP/1.1 ").count(), 1);
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn hang_up_at_any_byte_completes_no_request() {
    for row in cases() {
        let whole = read(server(limits()), &[&row.input], false);
        let step = if row.input.len() > 3_000 { 997 } else { 1 };
        for at in (0..=row.input.len()).step_by(step) {
            let seen = read(server(limits()), &[&row.input[..at]], true);
            assert!(whole.messages.starts_with(&seen.messages), "{}, {at}: {seen:?}", row.name);
            assert!(seen.is_over && !seen.is_peer_gone, "{}, {at}: {seen:?}", row.name);
            // A partial request is a fault, unless none of it was read.
            assert!(seen.partial_message.is_none() || seen.fault.is_some(), "{}, {at}: {seen:?}", row.name);
            if let Some(fault) = seen.fault {
                assert!(
                    fault.reason() == Reason::Truncated || whole.fault == Some(fault),
                    "{}, {at}",
                    row.name
                );
            }
        }
    }
}
