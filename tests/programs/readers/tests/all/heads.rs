//! Messages of HTTP/1.1: heads, bodies and chunks, read by h11, llhttp (the parser of Node) and hyper.
//!
//! hyper finds the parts of a head with `httparse`, as we do; what it makes of them, and its bodies, are its own.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use mcp_proto::Instant;
use mcp_proto::h1::{HttpLimits, client, server};
use mcp_proto::head::{BodySize, FieldLine, Fields, is_token};
use mcp_proto::testing::for_each_text;

use crate::compare::{Comparison, for_each_input};
use crate::process::Process;

/// Method and target or status, fields with names in lower case, and the body. Each byte is a character.
type Message = (String, Vec<(String, String)>, String);

const NOW: Instant = Instant::from_micros(1);

fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(c).expect("a byte")).collect()
}

fn own_fields(fields: &[FieldLine<'_>]) -> Vec<(String, String)> {
    fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), text(value))).collect()
}

/// Reads the requests that fill an input, each of which is answered.
fn our_requests(input: &[u8]) -> Option<Vec<Message>> {
    let mut server = server::Connection::new(NOW, HttpLimits::default());
    server.handle_input(NOW, input);
    let (mut messages, mut is_open) = (Vec::new(), false);
    while let Some(event) = server.poll_event(NOW, |head, _| -> Message {
        (format!("{} {}", head.method, head.target), own_fields(head.fields), String::new())
    }) {
        match event {
            server::Event::Head(head) => {
                messages.push(head);
                is_open = true;
            }
            server::Event::Body(data) => messages.last_mut().expect("a head").2.push_str(&text(&data)),
            server::Event::End => {
                is_open = false;
                server.respond(NOW, 204, &Fields::new(), BodySize::None).expect("the response");
                server.end(NOW).expect("its end");
            }
            server::Event::ClientGone | server::Event::Fault(_) => return None,
        }
    }
    (!is_open && server.unread_len() == 0 && !messages.is_empty()).then_some(messages)
}

/// Reads the response that fills an input, to `GET`.
fn our_response(input: &[u8]) -> Option<Vec<Message>> {
    let mut client = client::Connection::new(NOW, HttpLimits::default());
    client.request(NOW, "GET", "/", "h", &Fields::new(), BodySize::None).expect("the request");
    client.end(NOW).expect("its end");
    client.consume(client.unsent_len());
    client.handle_input(NOW, input);
    let (mut message, mut is_whole, mut at_end) = (None, false, false);
    loop {
        let event = client.poll_event(NOW, |head| -> Message {
            (head.status.to_string(), own_fields(head.fields), String::new())
        });
        match event {
            Some(client::Event::Head(head)) => message = Some(head),
            Some(client::Event::Body(data)) => message.as_mut()?.2.push_str(&text(&data)),
            Some(client::Event::End) => is_whole = client.unread_len() == 0,
            Some(client::Event::Fault(_)) => return None,
            None if !at_end => {
                at_end = true;
                client.handle_eof(NOW);
            }
            Some(client::Event::Closed) | None => {
                return message.filter(|_| is_whole).map(|message| Vec::from([message]));
            }
        }
    }
}

/// An input as a connection that ends after it. A client reads only after it has written.
struct Input<'a> {
    rest: &'a [u8],
    is_readable: bool,
}

impl Read for Input<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_readable {
            return Poll::Pending;
        }
        let (now, later) = self.rest.split_at(buf.remaining().min(self.rest.len()));
        buf.put_slice(now);
        self.rest = later;
        Poll::Ready(Ok(()))
    }
}

impl Write for Input<'_> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.is_readable = true;
        Poll::Ready(Ok(buf.len()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Polls a future that is never woken: what it waits for is in memory.
fn run<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    (0..100).find_map(|_| (&mut future).now_or_never())
}

async fn by_parts(start: String, fields: HeaderMap, body: Incoming) -> hyper::Result<Message> {
    let fields = fields.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect();
    Ok((start, fields, text(&body.collect().await?.to_bytes())))
}

fn requests_by_hyper(input: &[u8]) -> Option<Vec<Message>> {
    let messages = RefCell::new(Vec::new());
    let service = service_fn(|request: Request<Incoming>| {
        let messages = &messages;
        async move {
            let (head, body) = request.into_parts();
            let start = format!("{} {}", head.method, head.uri);
            let message = by_parts(start, head.headers, body).await.ok();
            messages.borrow_mut().push(message);
            Ok::<_, Infallible>(
                Response::builder().status(204).body(Empty::<Bytes>::new()).expect("a response"),
            )
        }
    });
    let input = Input { rest: input, is_readable: true };
    // Without this the end of the input, which is in memory, would end the first exchange.
    let mut builder = hyper::server::conn::http1::Builder::new();
    let done = run(builder.half_close(true).serve_connection(input, service));
    done?.ok()?;
    messages.take().into_iter().collect()
}

fn response_by_hyper(input: &[u8]) -> Option<Vec<Message>> {
    let io = Input { rest: input, is_readable: false };
    let (mut sender, mut connection) = run(Box::pin(hyper::client::conn::http1::handshake(io)))?.ok()?;
    let request = Request::builder().uri("/").body(Empty::<Bytes>::new()).expect("a request");
    let mut message = Box::pin(async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        by_parts(head.status.as_str().to_owned(), head.headers, body).await
    });
    let message = (0..100).find_map(|_| {
        let _ = (&mut connection).now_or_never();
        (&mut message).now_or_never()
    });
    Some(Vec::from([message?.ok()?]))
}

const BY_H11: &str = "
import h11
def read(data):
    c = h11.Connection(ROLE, max_incomplete_event_size=65536)
    if ROLE is h11.CLIENT:
        c.send(h11.Request(method='GET', target='/', headers=[('Host', 'h')]))
        c.send(h11.EndOfMessage())
    c.receive_data(data)
    messages, ended = [], False
    while True:
        event = c.next_event()
        if isinstance(event, (h11.Request, h11.Response)):
            start = str(event.status_code) if ROLE is h11.CLIENT else (event.method + b' ' + event.target).decode('latin-1')
            fields = [[name.decode('latin-1'), value.decode('latin-1')] for name, value in event.headers]
            messages.append([start, fields, ''])
        elif isinstance(event, h11.Data):
            messages[-1][2] += bytes(event.data).decode('latin-1')
        elif isinstance(event, h11.EndOfMessage):
            if not c.trailing_data[0]: return messages
            c.send(h11.Response(status_code=204, headers=[]))
            c.send(h11.EndOfMessage())
            c.start_next_cycle()
        elif event is h11.NEED_DATA and not ended:
            c.receive_data(b'')
            ended = True
        elif not isinstance(event, h11.InformationalResponse): return None
";

const LLHTTP: &str = include_str!("llhttp.js");

/// Connects the peers of one role.
struct Readers {
    comparison: Comparison,
    is_response: bool,
    h11: Process,
    llhttp: Process,
}

impl Readers {
    fn new(kind: &'static str, is_response: bool) -> Self {
        let (role, side) = if is_response { ("CLIENT", "RESPONSE") } else { ("SERVER", "REQUEST") };
        Self {
            comparison: Comparison::new(kind),
            is_response,
            h11: Process::h11(&BY_H11.replace("ROLE", &format!("h11.{role}"))),
            llhttp: Process::node("llhttp", &format!("const KIND = '{side}';\n{LLHTTP}")),
        }
    }

    fn check(&mut self, input: &[u8]) {
        let read = if self.is_response { our_response } else { our_requests };
        // What ours skips is no part of a message: the last bytes have to belong to one.
        let is_part = |ours: &Vec<Message>| {
            (1..=2).all(|cut| read(input.get(..input.len() - cut).unwrap_or_default()).as_ref() != Some(ours))
        };
        let Some(ours) = self.comparison.count(input, read(input).filter(is_part)) else { return };
        let class = |reader| class(reader, input, &ours);
        ours.iter().for_each(|message| check_printed(message, self.is_response));
        let value = serde_json::to_value(&ours).expect("JSON");
        self.h11.ask(input, value.clone(), class("h11"));
        self.llhttp.ask(input, value, class("llhttp"));
        let by_hyper = if self.is_response { response_by_hyper(input) } else { requests_by_hyper(input) };
        // hyper groups fields by name.
        let grouped = |messages: &Vec<Message>| {
            let mut messages = messages.clone();
            messages.iter_mut().for_each(|(_, fields, _)| fields.sort_by(|a, b| a.0.cmp(&b.0)));
            messages
        };
        self.comparison.check(
            "hyper",
            input,
            &grouped(&ours),
            by_hyper.as_ref().map(grouped).as_ref(),
            class("hyper"),
        );
    }

    fn finish(mut self, least: usize) {
        self.h11.compare(&mut self.comparison);
        self.llhttp.compare(&mut self.comparison);
        self.comparison.finish(least);
    }
}

/// Returns the class of an accepted input for one reader, by which `differences.tsv` lists it.
fn class(reader: &str, input: &[u8], messages: &[Message]) -> &'static str {
    let input = text(input);
    let lower = input.to_ascii_lowercase();
    let starts = || messages.iter().filter_map(|(start, ..)| start.split_once(' '));
    // Of a message, or of a line that is skipped.
    let has_before = |at: usize| our_requests(&bytes(&input[..at])).is_some_and(|m| m.len() < messages.len());
    let mut line_ends = input.match_indices("\r\n").map(|(at, _)| at);
    match reader {
        _ if lower.split("\r\n").any(is_absolute) => "absolute target",
        "h11" if lower.contains("chunked") && !input.contains("chunked") => "coding in capitals",
        "h11" if line_ends.any(|at| at == 0 || messages.len() > 1 && has_before(at)) => {
            "empty line before a request"
        }
        "llhttp" if starts().any(|(method, _)| !METHODS.contains(&method)) => "other method",
        "llhttp"
            if lower
                .split("content-length:")
                .skip(1)
                .any(|rest| rest.split("\r\n").next().is_some_and(|v| v.contains('\t'))) =>
        {
            "tab beside a length"
        }
        "llhttp" if input.split("\r\n").any(|line| !is_extended(line)) => "extension of other grammar",
        "hyper"
            if starts()
                .any(|(_, target)| target.contains(['"', '<', '>', '\\', '^', '`', '{', '|', '}'])) =>
        {
            "target of no URI"
        }
        _ => "",
    }
}

/// Returns whether a line begins a request for a URI.
fn is_absolute(line: &str) -> bool {
    line.split_once(' ').is_some_and(|(method, rest)| {
        is_token(method.as_bytes()) && (rest.starts_with("http://") || rest.starts_with("https://"))
    })
}

/// Methods of RFC 9110, 9.3 and RFC 5789 that can be received.
const METHODS: [&str; 6] = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST"];

/// Returns false for the first line of a chunk whose extensions are not those of RFC 9112, 7.1.1, without spaces.
fn is_extended(line: &str) -> bool {
    let mut parts = line.split(';');
    let is_token = |text: &str| is_token(text.as_bytes());
    let is_quoted = |text: &str| {
        text.len() > 1
            && text.starts_with('"')
            && text.find('"') == Some(text.len() - 1)
            && !text.contains('\\')
    };
    let is_size =
        parts.next().is_some_and(|size| !size.is_empty() && size.bytes().all(|b| b.is_ascii_hexdigit()));
    !is_size
        || parts.all(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, "a"));
            is_token(name) && (is_token(value) || is_quoted(value))
        })
}

/// The fields of a message that its writer takes: it writes those of the framing itself.
fn free_fields((_, fields, _): &Message) -> Vec<(String, String)> {
    let is_framing =
        |name: &str| ["content-length", "transfer-encoding", "connection", "host"].contains(&name);
    fields.iter().filter(|(name, _)| !is_framing(name)).cloned().collect()
}

fn print(message: &Message, is_response: bool) -> Vec<u8> {
    let (start, all, body) = message;
    let value = |name| all.iter().find(|(other, _)| other == name).map(|(_, value)| value);
    let mut fields = Fields::new();
    for (name, value) in free_fields(message) {
        assert!(fields.push(&name, &bytes(&value)), "a field that was read: {name}");
    }
    let body = bytes(body);
    let size = match value("transfer-encoding") {
        Some(_) => BodySize::Stream,
        None if body.is_empty() => BodySize::None,
        None => BodySize::Exact(body.len() as u64),
    };
    if is_response {
        let mut server = server::Connection::new(NOW, HttpLimits::default());
        server.handle_input(NOW, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        while server.poll_event(NOW, |_, _| ()).is_some() {}
        server.respond(NOW, start.parse().expect("a status"), &fields, size).expect("the response");
        server.write_body(&body).expect("its body");
        server.end(NOW).expect("its end");
        return server.segments().collect::<Vec<_>>().concat();
    }
    let mut client = client::Connection::new(NOW, HttpLimits::default());
    let (method, target) = start.split_once(' ').expect("a target");
    let host = value("host").map_or("h", |host| host);
    client.request(NOW, method, target, host, &fields, size).expect("the request");
    client.write_body(&body).expect("its body");
    client.end(NOW).expect("its end");
    client.segments().collect::<Vec<_>>().concat()
}

/// A message that was read and is printed is read as the same, and printed again as the same.
fn check_printed(message: &Message, is_response: bool) {
    let printed = print(message, is_response);
    let again = if is_response { our_response(&printed) } else { our_requests(&printed) };
    let again = again.expect("our own spelling").remove(0);
    assert_eq!((&again.0, free_fields(&again), &again.2), (&message.0, free_fields(message), &message.2));
    assert_eq!(print(&again, is_response), printed, "{message:?}");
}

const REQUESTS: [&str; 7] = [
    "POST /mcp HTTP/1.1\r\nHost: localhost:3000\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    "GET /mcp?a=b HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\nLast-Event-ID:  7 \r\n\r\n",
    "DELETE / HTTP/1.1\r\nhost:h\r\nX: \t a\tb \t\r\nX: c\r\n\r\n",
    "OPTIONS * HTTP/1.0\r\nHost: [::1]:80\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 01\r\nConnection: close\r\n\r\na",
    "GET http://h/a HTTP/1.1\r\nHost: h\r\n\r\nHEAD /b HTTP/1.1\r\nHost: h\r\nX:\r\n\r\n",
];
const HEAD_PIECES: [&str; 17] = [
    "X:",
    "y",
    ":",
    " ",
    "\t",
    "\r\n",
    "\n",
    "\r",
    "a: b\r\n",
    "\u{e9}",
    "\"",
    "!",
    "\u{b}",
    ",",
    "#",
    "Content-Length: 0\r\n",
    "Connection: close\r\n",
];

/// Lines of which heads consist.
const LINES: [&str; 13] = [
    "X: a\r\n",
    "x:\tb \r\n",
    "Accept:\r\n",
    "Content-Length: 1\r\n",
    "content-length:0\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive, x\r\n",
    "Upgrade: h2c\r\n",
    "Expect: 100-continue\r\n",
    "Cookie: a=\"b\"; c\r\n",
    "Trailer: X\r\n",
    "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
];

/// The body that lines announce.
fn body_of(lines: &[u8]) -> &'static [u8] {
    let lines = text(lines);
    match () {
        () if lines.contains("chunked") => b"1\r\na\r\n0\r\nX: y\r\n\r\n",
        () if lines.contains("Length: 1") => b"a",
        () => b"",
    }
}

#[test]
fn request_that_is_accepted_is_read_alike_by_h11_llhttp_and_hyper() {
    let mut readers = Readers::new("request", false);
    for_each_input("h1_server", &REQUESTS, &HEAD_PIECES, 3, |input| {
        // The first bytes of a seed are choices of the fuzz target.
        [input, input.get(9..).unwrap_or_default()].iter().for_each(|input| readers.check(input));
        readers.check(&[b"GET / HTTP/1.1\r\nHost: h\r\n", input, b"\r\n\r\n"].concat());
        readers.check(&[b"GET / HTTP/1.1\r\nX: ", input, b"\r\nHost: h\r\n\r\n"].concat());
        readers.check(&[b"GET /", input, b" HTTP/1.1\r\nHost: h\r\n\r\n"].concat());
    });
    for_each_text(&LINES.map(str::as_bytes), 3, |lines| {
        for start in [&b"POST / HTTP/1.1\r\nHost: h\r\n"[..], b"GET /a?b HTTP/1.0\r\n"] {
            readers.check(&[start, lines, b"\r\n", body_of(lines)].concat());
        }
    });
    readers.finish(10_000);
}

const RESPONSES: [&str; 7] = [
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    "HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n7\r\n: ping\n\r\n0\r\n\r\n",
    "HTTP/1.0 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nConnection: close\r\n\r\nuntil the end",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 204 No Content\r\nX: \t a\tb \t\r\nX: c\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
    "HTTP/1.1 500 \u{e9}\r\nContent-Length: 003\r\n\r\nabc",
];

#[test]
fn response_that_is_accepted_is_read_alike_by_h11_llhttp_and_hyper() {
    let mut readers = Readers::new("response", true);
    for_each_input("h1_client", &RESPONSES, &HEAD_PIECES, 3, |input| {
        [input, input.get(9..).unwrap_or_default()].iter().for_each(|input| readers.check(input));
        readers.check(&[b"HTTP/1.1 200 OK\r\n", input, b"\r\n\r\n"].concat());
        readers.check(&[b"HTTP/1.1 200 OK\r\nX: ", input, b"\r\nContent-Length: 0\r\n\r\n"].concat());
        readers.check(&[b"HTTP/1.1 20", input, b"\r\n\r\n"].concat());
    });
    for_each_text(&LINES.map(str::as_bytes), 3, |lines| {
        for start in [&b"HTTP/1.1 200 OK\r\n"[..], b"HTTP/1.1 204 \r\n", b"HTTP/1.0 404 a\r\n"] {
            let body: &[u8] = if start.contains(&b'K') { body_of(lines) } else { b"" };
            readers.check(&[start, lines, b"\r\n", body].concat());
        }
    });
    readers.finish(10_000);
}

const CHUNKS: [&str; 4] = [
    "5\r\nhello\r\n0\r\n\r\n",
    "1;a=b\r\nx\r\n00\r\n\r\n",
    "a\r\n0123456789\r\nA;q=\"s\"\r\n0123456789\r\n0\r\nX: y\r\n\r\n",
    "1\r\n\r\r\n0\r\n\r\n",
];
const CHUNK_PIECES: [&str; 13] = [
    "1\r\na\r\n",
    "0",
    "1;a=b\r\na\r\n",
    "\r\n",
    "a",
    ";a",
    "=a",
    "0\r\n\r\n",
    "X: y\r\n",
    "\"",
    " ",
    "2\r\n\r\n\r\n",
    "F",
];

/// Chunks whose data may be taken for a chunk.
const WHOLE_CHUNKS: [&str; 5] = [
    "1\r\na\r\n",
    "02\r\n\r\n\r\n",
    "5;a=b\r\n0\r\n\r\n\r\n",
    "1;q=\"s\";z\r\n;\r\n",
    "00b;a\r\n1\r\na\r\n0\r\n\r\n\r\n",
];

#[test]
fn chunks_that_are_accepted_are_read_alike_by_h11_llhttp_and_hyper() {
    let mut readers = Readers::new("chunked body", false);
    let head = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    for_each_input("h1_server", &CHUNKS, &CHUNK_PIECES, 4, |input| {
        readers.check(&[head, input].concat());
        readers.check(&[head, input, b"0\r\n\r\n"].concat());
        readers.check(&[&head[..], b"1;", input, b"\r\na\r\n0\r\n\r\n"].concat());
    });
    for_each_text(&WHOLE_CHUNKS.map(str::as_bytes), 5, |chunks| {
        for end in [&b"0\r\n\r\n"[..], b"00;x=y\r\nX: y\r\nZ:\r\n\r\n", b"000\r\nx: 1;a\r\n\r\n"] {
            readers.check(&[&head[..], chunks, end].concat());
        }
    });
    readers.finish(10_000);
}
