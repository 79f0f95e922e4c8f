//! Requests that not every recipient would read in the same way, and some that are only unusual.

use mcp_proto::h1::{Limits, Reason};

use crate::drive::{cuts, read, server};
use crate::table::{Row, Want, no, ok};
use Reason::{
    BareLineFeed, BodyTooLong, ChunkEnd, ChunkExtension, ChunkSize, Coding, ContentLength, Expectation,
    Field, HeadTooLong, Host, Method, RequestLine, Target, TargetTooLong, TooManyFields, Trailer,
    TransferEncoding, TwoLengths, Version,
};

/// Start lines, over one field `Host: h`
const LINES: &[(&str, Want)] = &[
    ("GET / HTTP/1.1", ok(&["GET / []"])),
    ("GET /?a=b&c=%20;d HTTP/1.1", ok(&["GET /?a=b&c=%20;d []"])),
    ("GET //a//../b HTTP/1.1", ok(&["GET //a//../b []"])),
    ("GET /?x={\"y\"}|z^` HTTP/1.1", ok(&["GET /?x={\\\"y\\\"}|z^` []"])),
    ("get / HTTP/1.1", ok(&["get / []"])),
    ("X-Y!z / HTTP/1.1", ok(&["X-Y!z / []"])),
    ("PRI * HTTP/2.0", no(Version, "PRI")),
    ("GET / HTTP/2.0", no(Version, "GET")),
    ("GET / HTTP/1.2", no(Version, "GET")),
    ("GET / HTTP/0.9", no(Version, "GET")),
    ("GET / HTTP/1.10", no(RequestLine, "GET")),
    ("GET / HTTP/1", no(RequestLine, "GET")),
    ("GET / HTTP/1.", no(RequestLine, "GET")),
    ("GET / HTTP/11", no(RequestLine, "GET")),
    ("GET / http/1.1", no(RequestLine, "GET")),
    ("GET / HTTP /1.1", no(RequestLine, "GET")),
    ("GET / HTTP/1.1 ", no(RequestLine, "GET")),
    ("GET / HTTP/1.1\t", no(RequestLine, "GET")),
    ("GET / HTTP/01.1", no(RequestLine, "GET")),
    ("GET / XTTP/1.1", no(RequestLine, "GET")),
    ("GET / HTTPS/1.1", no(RequestLine, "GET")),
    ("GET / ICE/1.0", no(RequestLine, "GET")),
    ("GET /", no(RequestLine, "GET")),
    ("GET ", no(RequestLine, "GET")),
    ("GET", no(RequestLine, "GET")),
    ("GET  / HTTP/1.1", no(RequestLine, "GET")),
    ("GET /  HTTP/1.1", no(RequestLine, "GET")),
    ("GET /a b HTTP/1.1", no(RequestLine, "GET")),
    ("GET\t/ HTTP/1.1", no(RequestLine, "GET")),
    ("GET /\tHTTP/1.1", no(RequestLine, "GET")),
    (" GET / HTTP/1.1", no(RequestLine, " GET")),
    ("\tGET / HTTP/1.1", no(RequestLine, "\tGET")),
    ("\0GET / HTTP/1.1", no(RequestLine, "\0GET")),
    ("\u{feff}GET / HTTP/1.1", no(RequestLine, "\u{feff}")),
    ("G\0T / HTTP/1.1", no(RequestLine, "G\0")),
    ("G(T / HTTP/1.1", no(RequestLine, "G(")),
    ("GET: / HTTP/1.1", no(RequestLine, "GET")),
    ("G\u{c9}T / HTTP/1.1", no(RequestLine, "G\u{c9}")),
    ("GET /\0 HTTP/1.1", no(RequestLine, "GET")),
    ("GET /\x0b HTTP/1.1", no(RequestLine, "GET")),
    ("GET /\x7f HTTP/1.1", no(RequestLine, "GET")),
    ("GET /\u{e4} HTTP/1.1", no(Target, "GET")),
    ("GET /\r HTTP/1.1", no(RequestLine, "GET")),
    ("GET /\rHTTP/1.1", no(RequestLine, "GET")),
    ("GET / HTTP/1.1\r", no(RequestLine, "GET")),
    ("GET /#a HTTP/1.1", no(Target, "GET")),
    ("GET a HTTP/1.1", no(Target, "GET")),
    ("GET ?a HTTP/1.1", no(Target, "GET")),
    ("GET * HTTP/1.1", no(Target, "GET")),
    ("GET h:80 HTTP/1.1", no(Target, "GET")),
    ("OPTIONS * HTTP/1.1", ok(&["OPTIONS * []"])),
    ("OPTIONS / HTTP/1.1", ok(&["OPTIONS / []"])),
    ("OPTIONS http://h HTTP/1.1", ok(&["OPTIONS * []"])),
    ("GET http://h/a?b HTTP/1.1", ok(&["GET /a?b []"])),
    ("GET HTTP://H/a HTTP/1.1", ok(&["GET /a []"])),
    ("GET https://h/a HTTP/1.1", ok(&["GET /a []"])),
    ("GET http://h HTTP/1.1", ok(&["GET / []"])),
    ("GET http://h?a HTTP/1.1", no(Target, "GET")),
    ("GET http://other/a HTTP/1.1", no(Target, "GET")),
    ("GET http://h:80/a HTTP/1.1", no(Target, "GET")),
    ("GET http://u@h/a HTTP/1.1", no(Target, "GET")),
    ("GET http://h\\@other/ HTTP/1.1", no(Target, "GET")),
    ("GET http:///a HTTP/1.1", no(Target, "GET")),
    ("GET http:/a HTTP/1.1", no(Target, "GET")),
    ("GET ftp://h/a HTTP/1.1", no(Target, "GET")),
    ("GET file:///etc/passwd HTTP/1.1", no(Target, "GET")),
    ("CONNECT h:80 HTTP/1.1", no(Method, "CONNECT")),
    ("CONNECT / HTTP/1.1", no(Method, "CONNECT")),
    ("TRACE / HTTP/1.1", no(Method, "TRACE")),
    ("connect / HTTP/1.1", ok(&["connect / []"])),
];

/// Field lines behind `Host: h`, each with its end, and what follows the empty line
const FIELDS: &[(&str, &str, Want)] = &[
    // Lengths.
    ("Content-Length: 5\r\n", "hello", ok(&["POST /a [hello]"])),
    ("content-length:5\r\n", "hello", ok(&["POST /a [hello]"])),
    ("Content-Length: \t 5\t \r\n", "hello", ok(&["POST /a [hello]"])),
    ("Content-Length: 0005\r\n", "hello", ok(&["POST /a [hello]"])),
    ("Content-Length: 0\r\n", "", ok(&["POST /a []"])),
    ("", "", ok(&["POST /a []"])),
    ("Content-Length: 5\r\nContent-Length: 5\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!", no(ContentLength, "Content")),
    ("Content-Length: 5\r\nCONTENT-LENGTH: 6\r\n", "hello!", no(ContentLength, "CONTENT")),
    ("Content-Length: 0\r\nContent-Length: 5\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: 5, 5\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: 5,\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: ,5\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: +5\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: -5\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: -0\r\n", "", no(ContentLength, "Content")),
    ("Content-Length: 0x5\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: 5.0\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: 5e0\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: 1_0\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: 5 5\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: 5;a\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: \"5\"\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length:\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: a\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: \u{665}\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: 5\0\r\n", "hello", no(Field, "Content")),
    ("Content-Length: \x0b5\r\n", "hello", no(Field, "Content")),
    ("Content-Length: \x0c5\r\n", "hello", no(Field, "Content")),
    ("Content-Length: \u{a0}5\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: 0000000000000000005\r\n", "hello", ok(&["POST /a [hello]"])),
    ("Content-Length: 00000000000000000005\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: 18446744073709551615\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: 18446744073709551621\r\n", "hello", no(ContentLength, "Content")),
    ("Content-Length: 9999999999999999999\r\n", "hello", no(BodyTooLong, "POST")),
    ("Content-Length: 4294967301\r\n", "hello", no(BodyTooLong, "POST")),
    ("Content-Length : 5\r\n", "hello", no(Field, "Content")),
    ("Content-Length\t: 5\r\n", "hello", no(Field, "Content")),
    ("Content_Length: 5\r\n", "", ok(&["POST /a []"])),
    ("Content-Length\0: 5\r\n", "hello", no(Field, "Content")),
    ("X: y Content-Length: 5\r\n", "", ok(&["POST /a []"])),
    // Codings.
    ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n", ok(&["POST /a [hello]"])),
    ("transfer-encoding:CHUNKED\r\n", "5\r\nhello\r\n0\r\n\r\n", ok(&["POST /a [hello]"])),
    ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", no(TwoLengths, "Transfer")),
    ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n", no(TwoLengths, "Content")),
    ("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", no(TwoLengths, "Transfer")),
    ("Content-Length: x\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", no(ContentLength, "Content")),
    ("Content-Length: 5\r\nTransfer-Encoding: identity\r\n", "hello", no(Coding, "Transfer")),
    ("Transfer-Encoding: identity\r\n", "", no(Coding, "Transfer")),
    ("Transfer-Encoding: gzip\r\n", "", no(Coding, "Transfer")),
    ("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n", no(Coding, "Transfer")),
    ("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n", no(Coding, "Transfer")),
    ("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n", no(Coding, "Transfer")),
    ("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n", no(Coding, "Transfer")),
    ("Transfer-Encoding: identity, chunked\r\n", "0\r\n\r\n", no(Coding, "Transfer")),
    ("Transfer-Encoding: chunked,\r\n", "0\r\n\r\n", no(Coding, "Transfer")),
    ("Transfer-Encoding: ,chunked\r\n", "0\r\n\r\n", no(Coding, "Transfer")),
    ("Transfer-Encoding: chunked;q=1\r\n", "0\r\n\r\n", no(Coding, "Transfer")),
    ("Transfer-Encoding: chunked;\r\n", "0\r\n\r\n", no(Coding, "Transfer")),
    ("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n", no(Coding, "Transfer")),
    ("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n", no(Coding, "Transfer")),
    ("Transfer-Encoding: chunkedx\r\n", "0\r\n\r\n", no(Coding, "Transfer")),
    ("Transfer-Encoding: chun ked\r\n", "0\r\n\r\n", no(Coding, "Transfer")),
    ("Transfer-Encoding: chun\u{212a}ed\r\n", "0\r\n\r\n", no(Coding, "Transfer")),
    ("Transfer-Encoding:\r\n", "", no(TransferEncoding, "Transfer")),
    (
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "0\r\n\r\n",
        no(TransferEncoding, "Transfer"),
    ),
    (
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "0\r\n\r\n",
        no(TransferEncoding, "Transfer"),
    ),
    (
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        "0\r\n\r\n",
        no(Coding, "Transfer-Encoding: i"),
    ),
    ("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n", no(Field, " chunked")),
    ("Transfer-Encoding : chunked\r\n", "0\r\n\r\n", no(Field, "Transfer")),
    ("Transfer-Encoding\t: chunked\r\n", "0\r\n\r\n", no(Field, "Transfer")),
    (" Transfer-Encoding: chunked\r\n", "0\r\n\r\n", no(Field, " Transfer")),
    ("\tTransfer-Encoding: chunked\r\n", "0\r\n\r\n", no(Field, "\tTransfer")),
    ("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n", no(Field, "Transfer")),
    ("Transfer-Encoding: chunked\x0c\r\n", "0\r\n\r\n", no(Field, "Transfer")),
    ("Transfer-Encoding: chunked\0\r\n", "0\r\n\r\n", no(Field, "Transfer")),
    ("Transfer-Encoding: chunked\r \r\n", "0\r\n\r\n", no(Field, "Transfer")),
    ("\0Transfer-Encoding: chunked\r\n", "0\r\n\r\n", no(Field, "\0Transfer")),
    ("Transfer_Encoding: chunked\r\n", "", ok(&["POST /a []"])),
    ("X: y\rTransfer-Encoding: chunked\r\n", "0\r\n\r\n", no(Field, "X: y")),
    ("X: y\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", no(BareLineFeed, "\nTransfer")),
    // Line ends.
    ("X: y\n", "", no(BareLineFeed, "\n\r\n")),
    ("X: y\r\r\n", "", no(Field, "X: y")),
    ("X: y\r\n\n", "", no(BareLineFeed, "\n\r\n")),
    ("\n", "", no(BareLineFeed, "\n\r\n")),
    ("\rX: y\r\n", "", no(Field, "\rX")),
    ("\r\r\n", "", no(Field, "\r\r\n\r\n")),
    ("X: y\r z\r\n", "", no(Field, "X: y")),
    // Names and values.
    ("X:\r\n", "", ok(&["POST /a []"])),
    ("X: \t \r\n", "", ok(&["POST /a []"])),
    ("X: a\tb\r\n", "", ok(&["POST /a []"])),
    ("X: \u{e4}\u{20ac}\r\n", "", ok(&["POST /a []"])),
    ("X!#$%&'*+-.^_`|~0: y\r\n", "", ok(&["POST /a []"])),
    ("X: y\r\n z\r\n", "", no(Field, " z")),
    ("X: y\r\n\tz\r\n", "", no(Field, "\tz")),
    ("X: y\r\n \r\n", "", no(Field, " \r\n\r\n")),
    ("X : y\r\n", "", no(Field, "X :")),
    ("X\t: y\r\n", "", no(Field, "X\t")),
    (" X: y\r\n", "", no(Field, " X")),
    ("X y: z\r\n", "", no(Field, "X y")),
    (": y\r\n", "", no(Field, ": y")),
    (":\r\n", "", no(Field, ":\r\n\r\n")),
    ("X\r\n", "", no(Field, "X")),
    ("X\u{e4}: y\r\n", "", no(Field, "X\u{e4}")),
    ("X(: y\r\n", "", no(Field, "X(")),
    ("X/: y\r\n", "", no(Field, "X/")),
    ("X\"Y\": z\r\n", "", no(Field, "X\"")),
    ("X\0: y\r\n", "", no(Field, "X\0")),
    ("X\x7f: y\r\n", "", no(Field, "X\x7f")),
    ("X: y\0z\r\n", "", no(Field, "X: y")),
    ("X: \x01\r\n", "", no(Field, "X: ")),
    ("X: \x08\r\n", "", no(Field, "X: ")),
    ("X: y\x0bz\r\n", "", no(Field, "X: y")),
    ("X: y\x1b[2J\r\n", "", no(Field, "X: y")),
    ("X: y\x7f\r\n", "", no(Field, "X: y")),
    // Host.
    ("Host: h\r\n", "", no(Host, "h\r\n\r\n")),
    ("HOST: other\r\n", "", no(Host, "other")),
    ("Host:\r\n", "", no(Host, "\r\n\r\n")),
    ("Host : other\r\n", "", no(Field, "Host :")),
    (" Host: other\r\n", "", no(Field, " Host")),
    // Expectations.
    ("Expect: 100-continue\r\nContent-Length: 5\r\n", "hello", ok(&["POST /a [hello]"])),
    ("EXPECT: 100-Continue\r\n", "", ok(&["POST /a []"])),
    ("Expect: 200-ok\r\n", "", no(Expectation, "POST")),
    ("Expect:\r\n", "", no(Expectation, "POST")),
    ("Expect: 100-continue, x\r\n", "", no(Expectation, "POST")),
    ("Expect: 100-continue\r\nExpect: x\r\n", "", no(Expectation, "POST")),
    // What a server here has no ears for.
    ("Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: a\r\n", "", ok(&["POST /a []"])),
    ("Upgrade: websocket\r\nConnection: upgrade\r\n", "", ok(&["POST /a []"])),
    ("Connection: Content-Length\r\nContent-Length: 5\r\n", "hello", ok(&["POST /a [hello]"])),
    (
        "Connection: keep-alive, Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n",
        "0\r\n\r\n",
        ok(&["POST /a []"]),
    ),
    ("Connection:\r\n", "", ok(&["POST /a []"])),
    ("TE: chunked\r\nTrailer: X\r\n", "", ok(&["POST /a []"])),
    // One after the other.
    (
        "Content-Length: 5\r\n",
        "helloGET /b HTTP/1.1\r\nHost: h\r\n\r\n",
        ok(&["POST /a [hello]", "GET /b []"]),
    ),
    (
        "Content-Length: 5\r\n",
        "hello\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n",
        ok(&["POST /a [hello]", "GET /b []"]),
    ),
    (
        "Content-Length: 5\r\n",
        "hello\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n",
        Want::Then(&["POST /a [hello]"], RequestLine, "\r\nGET"),
    ),
    (
        "Content-Length: 5\r\n",
        "hello\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n",
        Want::Then(&["POST /a [hello]"], RequestLine, "\nGET"),
    ),
    (
        "Content-Length: 5\r\n",
        "hello\rGET /b HTTP/1.1\r\nHost: h\r\n\r\n",
        Want::Then(&["POST /a [hello]"], RequestLine, "\rGET"),
    ),
    ("Content-Length: 4\r\n", "hello", ok(&["POST /a [hell]"])),
    ("Connection: close\r\n", "GET /b HTTP/1.1\r\nHost: h\r\n\r\n", ok(&["POST /a []"])),
    ("Connection: x, CLOSE ,y\r\n", "\0\0", ok(&["POST /a []"])),
    ("Connection: x\r\nConnection: close\r\n", "GET /b HTTP/1.1\r\nHost: h\r\n\r\n", ok(&["POST /a []"])),
    ("Connection: closed\r\n", "GET /b HTTP/1.1\r\nHost: h\r\n\r\n", ok(&["POST /a []", "GET /b []"])),
];

/// Bodies behind `Transfer-Encoding: chunked`
const CHUNKS: &[(&str, Want)] = &[
    ("0\r\n\r\n", ok(&["POST /a []"])),
    ("00000000\r\n\r\n", ok(&["POST /a []"])),
    ("1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", ok(&["POST /a [abc]"])),
    ("a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", ok(&["POST /a [01234567890123456789]"])),
    ("00000005\r\nhello\r\n0\r\n\r\n", ok(&["POST /a [hello]"])),
    ("5\r\n0\r\n\r\n\r\n0\r\n\r\n", ok(&["POST /a [0\\r\\n\\r\\n]"])),
    ("000000005\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "5\r\nhello")),
    ("100000005\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "5\r\nhello")),
    ("10000000000000005\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "000000005\r\nhello")),
    ("ffffffffffffffff\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "ffffffff\r\nhello")),
    ("ffffffff\r\nhello\r\n0\r\n\r\n", no(BodyTooLong, "\nhello")),
    ("0x5\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "x5")),
    ("+5\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "+5")),
    ("-5\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "-5")),
    (" 5\r\nhello\r\n0\r\n\r\n", no(ChunkSize, " 5")),
    ("\t5\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "\t5")),
    ("5 \r\nhello\r\n0\r\n\r\n", no(ChunkSize, " \r\nhello")),
    ("5\t\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "\t\r\nhello")),
    ("5_\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "_")),
    ("5.\r\nhello\r\n0\r\n\r\n", no(ChunkSize, ".\r\n")),
    ("5,\r\nhello\r\n0\r\n\r\n", no(ChunkSize, ",\r\n")),
    ("5h\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "h\r\nhello")),
    ("g\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "g\r\n")),
    ("\u{ff15}\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "\u{ff15}")),
    ("5\0\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "\0")),
    ("\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "\r\nhello")),
    ("\r\n5\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "\r\n5\r\n")),
    (";a\r\nhello\r\n0\r\n\r\n", no(ChunkSize, ";a")),
    // The end of the line of a size.
    ("5\nhello\r\n0\r\n\r\n", no(ChunkSize, "\nhello")),
    ("5\rhello\r\n0\r\n\r\n", no(ChunkSize, "hello")),
    ("5\r\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "\r\nhello")),
    ("0\n\r\n", no(ChunkSize, "\n\r\n")),
    // The end of a chunk.
    ("5\r\nhello0\r\n\r\n", no(ChunkEnd, "0\r\n\r\n")),
    ("5\r\nhello\n0\r\n\r\n", no(ChunkEnd, "\n0\r\n\r\n")),
    ("5\r\nhello\r0\r\n\r\n", no(ChunkEnd, "\r0\r\n\r\n")),
    ("5\r\nhelloXX0\r\n\r\n", no(ChunkEnd, "XX0")),
    ("5\r\nhello\r\r\n0\r\n\r\n", no(ChunkEnd, "\r\r\n0")),
    ("5\r\nhello!\r\n0\r\n\r\n", no(ChunkEnd, "!\r\n")),
    ("4\r\nhello\r\n0\r\n\r\n", no(ChunkEnd, "o\r\n0")),
    ("6\r\nhello\r\n0\r\n\r\n", no(ChunkEnd, "\n0\r\n\r\n")),
    ("5\r\nhello\r\n\r\n0\r\n\r\n", no(ChunkSize, "\r\n0\r\n\r\n")),
    // Extensions.
    ("5;\r\nhello\r\n0\r\n\r\n", ok(&["POST /a [hello]"])),
    ("5;a\r\nhello\r\n0;b=c\r\n\r\n", ok(&["POST /a [hello]"])),
    ("5;a=\"b;c\" ; d\r\nhello\r\n0\r\n\r\n", ok(&["POST /a [hello]"])),
    ("5 ;a\r\nhello\r\n0\r\n\r\n", no(ChunkSize, " ;a")),
    ("5;a\nhello\r\n0\r\n\r\n", no(ChunkExtension, "\nhello")),
    ("5;a\rb\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "b\r\nhello")),
    ("5;a\r\r\nhello\r\n0\r\n\r\n", no(ChunkSize, "\r\nhello")),
    ("5;\n0\r\n\r\n", no(ChunkExtension, "\n0")),
    ("5;a\0\r\nhello\r\n0\r\n\r\n", no(ChunkExtension, "\0")),
    ("5;\u{e4}\r\nhello\r\n0\r\n\r\n", no(ChunkExtension, "\u{e4}")),
    ("5;a=\"\n\"\r\nhello\r\n0\r\n\r\n", no(ChunkExtension, "\n\"")),
    // Trailers.
    ("0\r\nX: y\r\n\r\n", ok(&["POST /a []"])),
    ("0\r\nX: y\r\nZ:\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n", ok(&["POST /a []", "GET /b []"])),
    ("0\r\nContent-Length: 5\r\n\r\n", no(Trailer, "Content")),
    ("0\r\nX: y\r\nTransfer-Encoding: gzip\r\n\r\n", no(Trailer, "Transfer")),
    ("0\r\nHost: other\r\n\r\n", no(Trailer, "Host")),
    ("0\r\nX : y\r\n\r\n", no(Trailer, "X :")),
    ("0\r\nX: y\r\n z\r\n\r\n", no(Trailer, " z")),
    ("0\r\n X: y\r\n\r\n", no(Trailer, " X")),
    ("0\r\nX\r\n\r\n", no(Trailer, "X\r\n")),
    ("0\r\n: y\r\n\r\n", no(Trailer, ": y")),
    ("0\r\nX: \0\r\n\r\n", no(Trailer, "X: ")),
    ("0\r\nX: y\rZ: w\r\n\r\n", no(Trailer, "X: y")),
    ("0\r\nX: y\n\r\n", no(BareLineFeed, "\n\r\n")),
    ("0\r\n\n", no(BareLineFeed, "\n")),
    ("0\r\n\rGET /b HTTP/1.1\r\nHost: h\r\n\r\n", no(Trailer, "\rGET")),
    ("0\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n", no(Trailer, "GET")),
];

/// Whole inputs
const RAW: &[(&str, Want)] = &[
    ("\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", ok(&["GET / []"])),
    ("\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", no(RequestLine, "\r\nGET")),
    ("\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", no(RequestLine, "\nGET")),
    ("\r\n\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", no(RequestLine, "\nGET")),
    ("\r\rGET / HTTP/1.1\r\nHost: h\r\n\r\n", no(RequestLine, "\r\rGET")),
    ("\rGET / HTTP/1.1\r\nHost: h\r\n\r\n", no(RequestLine, "\rGET")),
    ("GET / HTTP/1.1\nHost: h\r\n\r\n", no(BareLineFeed, "\nHost")),
    ("GET / HTTP/1.1\nHost: h\n\n", no(BareLineFeed, "\nHost")),
    ("GET / HTTP/1.1\r\nHost: h\n\r\n", no(BareLineFeed, "\n\r\n")),
    ("GET / HTTP/1.1\r\nHost: h\r\n\n", no(BareLineFeed, "\n")),
    ("GET / HTTP/1.1\r\nHost: h\r\n\rX", Want::Waits),
    ("GET / HTTP/1.1\rHost: h\r\r", Want::Waits),
    ("GET / HTTP/1.1\r\n Host: h\r\n\r\n", no(Field, " Host")),
    ("GET / HTTP/1.1\r\n \r\nHost: h\r\n\r\n", no(Field, " \r\n")),
    ("GET / HTTP/1.1\r\n\r\n", no(Host, "GET")),
    ("GET /\r\n\r\n", no(RequestLine, "GET")),
    ("GET / HTTP/1.1\r\nHost: h\r\n", Want::Waits),
    ("GET / HTTP/1.1\r\nHost: h\r\n\r", Want::Waits),
    ("GET", Want::Waits),
    ("\r\n", Want::Waits),
    ("", Want::Waits),
    ("\x16\x03\x01\x02\0\x01\0", no(RequestLine, "\x16")),
    ("{\"jsonrpc\":\"2.0\"}\n", no(RequestLine, "{")),
    ("SSH-2.0-x\r\n", Want::Waits),
    // HTTP/1.0.
    ("GET / HTTP/1.0\r\n\r\n", ok(&["GET / []"])),
    ("GET / HTTP/1.0\r\nHost: h\r\n\r\n", ok(&["GET / []"])),
    ("GET http://h/a HTTP/1.0\r\n\r\n", ok(&["GET /a []"])),
    ("GET http://h/a HTTP/1.0\r\nHost: other\r\n\r\n", no(Target, "GET")),
    ("GET http://@/a HTTP/1.0\r\n\r\n", no(Target, "GET")),
    ("GET / HTTP/1.0\r\nHost: h\r\nHost: h\r\n\r\n", no(Host, "h\r\n\r\n")),
    ("POST /a HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello", ok(&["POST /a [hello]"])),
    (
        "POST /a HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nhGET / HTTP/1.0\r\n\r\n",
        ok(&["POST /a [h]"]),
    ),
    ("POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", no(TransferEncoding, "Transfer")),
    ("POST /a HTTP/1.0\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n", no(TransferEncoding, "Transfer")),
    (
        "POST /a HTTP/1.0\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        no(TransferEncoding, "Transfer"),
    ),
    ("GET / HTTP/1.0\r\nExpect: x\r\n\r\n", ok(&["GET / []"])),
    ("POST /a HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nh", ok(&["POST /a [h]"])),
    // Bodies where there is seldom one.
    ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", ok(&["GET / [hello]"])),
    ("HEAD / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", ok(&["HEAD / [hello]"])),
    (
        "DELETE / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        ok(&["DELETE / [x]"]),
    ),
    ("GET / HTTP/1.1\r\nHost: h\r\n\r\nhello", ok(&["GET / []"])),
    // Pipelined.
    (
        "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\nGET /3 HTTP/1.1\r\nHost: h\r\n\r\n",
        ok(&["GET /1 []", "GET /2 []", "GET /3 []"]),
    ),
    (
        "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h \r\n\r\nGET /3 HTTP/1.1\r\nHost : h\r\n\r\n",
        Want::Then(&["GET /1 []", "GET /2 []"], Field, "Host :"),
    ),
    (
        "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.0\r\n\r\nGET /3 HTTP/1.1\r\nHost: h\r\n\r\n",
        ok(&["GET /1 []", "GET /2 []"]),
    ),
];

/// Values of `Host`
const HOSTS: &[(&str, bool)] = &[
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

/// Everything above as inputs
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (line, want) in LINES {
        let input = format!("{line}\r\nHost: h\r\n\r\n").into_bytes();
        rows.push(Row::new("line", line.as_bytes(), input, *want));
    }
    for (fields, rest, want) in FIELDS {
        let input = format!("POST /a HTTP/1.1\r\nHost: h\r\n{fields}\r\n{rest}").into_bytes();
        let part = format!("{fields}|{rest}");
        rows.push(Row::new("fields", part.as_bytes(), input, *want));
    }
    for (body, want) in CHUNKS {
        let head = "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        rows.push(Row::new("chunks", body.as_bytes(), format!("{head}{body}").into_bytes(), *want));
    }
    for (input, want) in RAW {
        rows.push(Row::new("raw", input.as_bytes(), input.as_bytes().to_vec(), *want));
    }
    for (host, good) in HOSTS {
        let input = format!("GET / HTTP/1.1\r\nHost:{host}\r\n\r\n").into_bytes();
        // Of an empty value no byte stands anywhere: its place is the end of its line.
        let at = if host.is_empty() { "\r\n\r\n" } else { host };
        let want = if *good { ok(&["GET / []"]) } else { no(Host, at) };
        rows.push(Row::new("host", host.as_bytes(), input, want));
    }
    rows.extend(long());
    rows
}

/// At the limits and one beyond
fn long() -> Vec<Row> {
    let limits = limits();
    let head = |fields: &str| format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    let chunked =
        |body: &str| format!("POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
    let pad = |n: usize| "x".repeat(n);
    let room = limits.max_head - head("X: \r\n").len();
    let half = format!("1;{0}\r\nh\r\n0;{0}\r\n\r\n", pad(limits.max_extensions / 2 + 1));
    let get = ok(&["GET / []"]);
    let post = ok(&["POST /a [h]"]);
    let inputs: Vec<(String, Want)> = vec![
        (head(&format!("X: {}\r\n", pad(room))), get),
        (head(&format!("X: {}\r\n", pad(room + 1))), no(HeadTooLong, "\r\n")),
        (head(&format!("X: {}", pad(70_000))), no(HeadTooLong, "X: ")),
        (format!("GET /{} HTTP/1.1\r\n", pad(70_000)), no(TargetTooLong, "GET")),
        (pad(70_000), Want::RefusedAt(TargetTooLong, 0)),
        (head(&"X: y\r\n".repeat(limits.max_fields - 1)), get),
        (head(&"X: y\r\n".repeat(limits.max_fields)), no(TooManyFields, "GET")),
        (head(&"X: y\r\n".repeat(1_000)), no(TooManyFields, "GET")),
        (head(&"X: y\r\n".repeat(20_000)), Want::RefusedAt(HeadTooLong, limits.max_head / 6 * 6 + 1)),
        (chunked(&format!("1;{}\r\nh\r\n0\r\n\r\n", pad(limits.max_extensions))), post),
        (
            chunked(&format!("1;{}\r\nh\r\n0\r\n\r\n", pad(limits.max_extensions + 1))),
            no(ChunkExtension, "x\r\nh"),
        ),
        (chunked(&half), Want::RefusedAt(ChunkExtension, chunked(&half).len() - "xx\r\n\r\n".len())),
        (chunked(&format!("1\r\nh\r\n0\r\nX: {}\r\n\r\n", pad(limits.max_head - 7))), post),
        (chunked(&format!("1\r\nh\r\n0\r\nX: {}\r\n\r\n", pad(limits.max_head - 4))), no(Trailer, "X: ")),
        (chunked(&format!("1\r\nh\r\n0\r\n{}\r\n", "X: y\r\n".repeat(limits.max_fields))), post),
        (
            chunked(&format!("1\r\nh\r\n0\r\n{}\r\n", "X: y\r\n".repeat(limits.max_fields + 1))),
            no(Trailer, "X: y\r\n\r\n"),
        ),
    ];
    inputs
        .into_iter()
        .enumerate()
        .map(|(n, (input, want))| Row { name: format!("long: {n}"), input: input.into_bytes(), want })
        .collect()
}

/// The defaults, small enough at both ends of the table
pub(crate) fn limits() -> Limits {
    Limits::default()
}

// covers: HTTP-081, SEC-018
#[test]
fn each_row_gets_its_answer_at_every_cut() {
    let rows = rows();
    assert!(rows.len() > 300, "{}", rows.len());
    let mut wrong = Vec::new();
    for row in &rows {
        let whole = read(server(limits()), &[&row.input], false);
        for pieces in cuts(&row.input) {
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
        // Each request its answer, and a fault its own.
        let sent = String::from_utf8(whole.sent.clone()).expect("text");
        assert_eq!(sent.matches("HTTP/1.1 200 OK\r\n").count(), whole.messages.len(), "{}", row.name);
        if let Some(fault) = whole.fault {
            assert!(whole.over, "{}", row.name);
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
fn a_hang_up_at_any_byte_completes_nothing() {
    for row in rows() {
        let whole = read(server(limits()), &[&row.input], false);
        let step = if row.input.len() > 3_000 { 997 } else { 1 };
        for at in (0..=row.input.len()).step_by(step) {
            let seen = read(server(limits()), &[&row.input[..at]], true);
            assert!(whole.messages.starts_with(&seen.messages), "{}, {at}: {seen:?}", row.name);
            assert!(seen.over && !seen.gone, "{}, {at}: {seen:?}", row.name);
            // A request that has begun is a fault, unless nothing of it is read.
            assert!(seen.open.is_none() || seen.fault.is_some(), "{}, {at}: {seen:?}", row.name);
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
