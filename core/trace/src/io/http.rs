//! A proxy over HTTP: each connection of a client has one to the server, and each exchange is recorded as it passes.

use alloc::sync::Arc;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Instant as StdInstant;

use mcp_proto::Instant;
use mcp_proto::h1::{HttpLimits, client, server};
use mcp_proto::head::{BodySize, FieldLine, Fields};
use mcp_proto::http::Url;
use mcp_std::http_client::{HttpClient, HttpFailure};
use mcp_std::io::{Duplex, OpenConnection, OpenConnections, Socket};
use mcp_std::poll::{Interest, WaitRequest};
use mcp_std::sync::Budget;
use mcp_std::{Clock, NetStream};

use super::Recording;
use crate::{Recorder, Side};

/// Connections at a time. Another one takes the place of the oldest one that has sent no request, or is closed.
const MAX_CONNECTIONS: usize = 256;
/// Time to connect to the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes that wait for one side before no more are read for it.
const MAX_WAITING: usize = 1 << 20;
/// Time that a client has to take the rest of what it gets.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait: deadlines are looked at again then.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Passes what the clients of `listener` send to the server at `url`, whatever its path, and records it; does not return.
///
/// A client that comes by another name than that of this machine is refused, since the server gets its own name as `Host`; at an address
/// that is not of loopback, other machines come by its number. `Accept-Encoding` is removed, so that the trace can be read. `name` is the
/// program in the answers that the proxy gives itself. A URL with `https` needs the feature `tls`.
///
/// # Errors
///
/// The address of the listener is not known.
pub fn serve_http(
    listener: &TcpListener,
    url: &Url,
    recording: &Arc<Recording>,
    name: &'static str,
) -> io::Result<()> {
    let upstream = Arc::new(Upstream {
        url: url.clone(),
        listens_at: listener.local_addr()?,
        name,
        exchanges: AtomicU64::new(0),
        client: HttpClient::new(),
    });
    let open = OpenConnections::new(MAX_CONNECTIONS);
    for stream in listener.incoming().flatten() {
        let place = open.admit(&stream);
        let (upstream, recording) = (Arc::clone(&upstream), Arc::clone(recording));
        let run = move |place| {
            // A connection that breaks is no failure of the others.
            let _ = Relay::new(stream, place, &upstream, &recording).and_then(Relay::run);
        };
        // Without a thread the connection is closed.
        let _ = place.map(|place| thread::Builder::new().name("mcp-tap".into()).spawn(|| run(place)));
    }
    Ok(())
}

/// The server.
struct Upstream {
    url: Url,
    /// The address at which the tap listens.
    listens_at: SocketAddr,
    /// The program, in answers of the proxy.
    name: &'static str,
    /// Number of exchanges so far.
    exchanges: AtomicU64,
    client: HttpClient,
}

impl Upstream {
    /// Returns whether a client may have come here by this name.
    fn is_own_host(&self, host: &str) -> bool {
        let is_loopback =
            || Url::parse(&format!("http://{host}/")).is_ok_and(|url| url.origin().is_loopback());
        // At all addresses of this machine: by any number, and by no name that somebody could rebind.
        let is_number = || {
            let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
            host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
        };
        host.eq_ignore_ascii_case(&self.listens_at.to_string())
            || is_loopback()
            || (self.listens_at.ip().is_unspecified() && is_number())
    }

    fn connect(&self) -> Result<NetStream, HttpFailure> {
        let budget = Budget::new(CONNECT_TIMEOUT);
        let addresses = self.client.look_up(self.url.origin(), &budget)?;
        self.client.connect(self.url.origin(), addresses, &budget)
    }
}

/// A head, as it is passed on.
struct Head {
    /// The first line without the version.
    method: String,
    target: String,
    fields: Fields,
    size: BodySize,
    is_event_stream: bool,
    /// The field `Host`.
    host: String,
    /// The whole head, for the record.
    text: String,
}

impl Head {
    fn new(method: &str, target: &str, first_line: String, lines: &[FieldLine<'_>]) -> Self {
        let mut head = Self {
            method: method.to_owned(),
            target: target.to_owned(),
            fields: Fields::new(),
            size: BodySize::None,
            is_event_stream: false,
            host: String::new(),
            text: first_line,
        };
        let nominating = lines.iter().filter(|(name, _)| name.eq_ignore_ascii_case("Connection"));
        let nominated: Vec<_> = nominating
            .flat_map(|(_, value)| core::str::from_utf8(value).unwrap_or_default().split(','))
            .map(str::trim)
            .collect();
        for (name, value) in lines {
            head.text.push_str(&format!("\n{name}: {}", String::from_utf8_lossy(value)));
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            let words = core::str::from_utf8(value).unwrap_or_default();
            if is("Content-Length") {
                head.size = words.trim().parse().map_or(BodySize::Stream, BodySize::Exact);
            } else if is("Transfer-Encoding") {
                head.size = BodySize::Stream;
            } else if is("Host") {
                words.clone_into(&mut head.host);
            } else if !HOP_BY_HOP.iter().chain(&nominated).any(|other| is(other)) {
                head.is_event_stream |= is("Content-Type")
                    && words.trim_start().to_ascii_lowercase().starts_with("text/event-stream");
                head.fields.push(name, value);
            }
        }
        head
    }
}

/// Returns limits that do not end what either side takes its time for: a body, or a pause.
fn limits() -> HttpLimits {
    const NEVER: Duration = Duration::from_secs(365 * 86_400);
    let mut limits = HttpLimits::default();
    (limits.max_body, limits.min_rate) = (u64::MAX, 0);
    (limits.body_idle_timeout, limits.body_timeout) = (NEVER, NEVER);
    limits
}

/// Fields of one connection, and `Accept-Encoding`: what is compressed could not be read in the trace.
const HOP_BY_HOP: [&str; 9] = [
    "Accept-Encoding",
    "Connection",
    "Expect",
    "Keep-Alive",
    "Proxy-Connection",
    "TE",
    "Trailer",
    "Upgrade",
    "Proxy-Authorization",
];

/// A connection of a client and the one to the server.
struct Relay<'a> {
    clock: Clock,
    now: Instant,
    front: Socket,
    place: OpenConnection,
    server: server::Connection,
    back: Option<(NetStream, client::Connection)>,
    upstream: &'a Upstream,
    recording: &'a Recording,
    exchange: Option<Exchange>,
    /// Whether an exchange has ended in this turn.
    has_ended: bool,
}

/// An exchange that is not over.
struct Exchange {
    number: u64,
    request: Kept,
    response: Kept,
    is_event_stream: bool,
    has_response: bool,
    /// The request has ended.
    is_sent: bool,
}

impl<'a> Relay<'a> {
    fn new(
        stream: TcpStream,
        place: OpenConnection,
        upstream: &'a Upstream,
        recording: &'a Recording,
    ) -> io::Result<Self> {
        let clock = Clock::start();
        let _ = stream.set_nodelay(true);
        let now = clock.now();
        // A client that has ended its half is gone: the server learns so, and cancels what it was doing for it (CANC-017).
        let server = server::Connection::new(now, limits());
        Ok(Self {
            clock,
            now,
            front: Socket::tcp(stream)?,
            place,
            server,
            back: None,
            upstream,
            recording,
            exchange: None,
            has_ended: false,
        })
    }

    /// Runs until either side has ended the connection.
    fn run(mut self) -> io::Result<()> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            // One time for the whole turn.
            self.now = self.clock.now();
            let now = self.now;
            if self.server.poll_timeout().is_some_and(|due| due <= now) {
                self.server.handle_timeout(now);
            }
            if let Some((_, client)) = &mut self.back {
                if client.poll_timeout().is_some_and(|due| due <= now) {
                    client.handle_timeout(now);
                }
            }
            let mut is_open = self.read_front(&mut buffer) && self.relay_events(&mut buffer);
            // A next request may lie behind the one that has just ended.
            while is_open && core::mem::take(&mut self.has_ended) {
                is_open = self.relay_events(&mut buffer);
            }
            let moved = self.write_front();
            if !is_open || !moved || self.server.wants_close() {
                return self.flush();
            }
            self.wait()?;
        }
    }

    fn relay_events(&mut self, buffer: &mut [u8]) -> bool {
        self.hear_client() && self.exchange_with_server(buffer)
    }

    /// Writes the rest of what the client is to get, while it takes any.
    fn flush(mut self) -> io::Result<()> {
        self.end_exchange(Side::Client, "the client closed the connection");
        let until = StdInstant::now() + FLUSH_TIMEOUT;
        while !self.server.transmit().is_empty() && self.write_front() && StdInstant::now() < until {
            self.front.wait(Interest::WRITE, Some(MAX_WAIT))?;
        }
        if self.server.wants_reset() {
            self.front.set_reset_on_drop()?;
        }
        Ok(())
    }

    /// Returns whether more of the client may be read.
    fn may_read_front(&self) -> bool {
        let waits = self.back.as_ref().is_some_and(|(_, client)| client.transmit().len() > MAX_WAITING);
        !waits && self.server.wants_input()
    }

    /// Returns whether more of the server may be read. Between exchanges only its end can come.
    fn may_read_back(&self) -> bool {
        let wants = self.back.as_ref().is_some_and(|(_, client)| client.wants_input());
        (wants && self.server.transmit().len() < MAX_WAITING) || self.exchange.is_none()
    }

    /// Reads from the client. Returns false if it is gone.
    fn read_front(&mut self, buffer: &mut [u8]) -> bool {
        if !self.may_read_front() {
            return true;
        }
        let now = self.now;
        match self.front.read(buffer) {
            Ok(0) => self.server.handle_eof(now),
            Ok(length) => self.server.handle_input(now, buffer.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => {
                self.end_exchange(Side::Client, "the client closed the connection");
                return false;
            }
        }
        true
    }

    /// Passes on what the client says. Returns false if its connection has ended.
    fn hear_client(&mut self) -> bool {
        loop {
            let now = self.now;
            let event = self.server.poll_event(now, |head, _| {
                let line = [head.method, head.target, "HTTP/1.1"].join(" ");
                Head::new(head.method, head.target, line, head.fields)
            });
            match event {
                None => return true,
                Some(server::Event::Head(head)) => {
                    self.place.set_busy();
                    self.begin(&head);
                }
                Some(server::Event::Body(bytes)) => {
                    if let Some(exchange) = &mut self.exchange {
                        exchange.request.push(&bytes);
                    }
                    if let Some((_, client)) = &mut self.back {
                        let _ = client.write_body(&bytes);
                    }
                }
                Some(server::Event::End) => {
                    if let Some(exchange) = self.exchange.as_mut().filter(|exchange| !exchange.is_sent) {
                        exchange.is_sent = true;
                        let (number, body) = (exchange.number, core::mem::take(&mut exchange.request));
                        self.recording.record(|recorder, at| body.record(recorder, at, Side::Client, number));
                    }
                    if let Some((_, client)) = &mut self.back {
                        let _ = client.end(now);
                    }
                }
                Some(server::Event::ClientGone) => {
                    self.end_exchange(Side::Client, "the client closed the connection");
                    return false;
                }
                Some(server::Event::Fault(fault)) => {
                    self.end_exchange(Side::Client, &fault.to_string());
                    return false;
                }
            }
        }
    }

    /// Begins an exchange with the server.
    fn begin(&mut self, head: &Head) {
        let number = self.upstream.exchanges.fetch_add(1, Ordering::SeqCst) + 1;
        self.exchange = Some(Exchange {
            number,
            request: Kept::default(),
            response: Kept::default(),
            is_event_stream: false,
            has_response: false,
            is_sent: false,
        });
        self.recording.record(|recorder, at| recorder.head(at, Side::Client, number, &head.text));
        // The server gets its own name as `Host`, and can no longer tell that a web page has rebound a name to this machine.
        if !self.upstream.is_own_host(&head.host) {
            return self.refuse(
                403,
                "this address is for programs of this machine: the field Host names another one",
            );
        }
        // A connection that has ended meanwhile is replaced. Nothing but its end can be read now.
        let is_open = |stream: &mut NetStream| matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
        let idle = self.back.take().filter(|(_, client)| client.is_idle() && !client.wants_close());
        self.back = idle.and_then(|(mut stream, client)| is_open(&mut stream).then_some((stream, client)));
        let now = self.now;
        if self.back.is_none() {
            match self.upstream.connect() {
                Ok(stream) => {
                    self.back = Some((stream, client::Connection::new(now, limits())));
                }
                Err(error) => return self.fail(&format!("the server cannot be reached: {error}")),
            }
        }
        let host = self.upstream.url.origin().authority();
        let Some((_, client)) = &mut self.back else { return };
        if let Err(error) = client.request(now, &head.method, &head.target, &host, &head.fields, head.size) {
            self.fail(&format!("the request cannot be passed on: {error}"));
        }
    }

    /// Passes on what the server says. Returns false if the response cannot be finished.
    fn exchange_with_server(&mut self, buffer: &mut [u8]) -> bool {
        let Some((stream, client)) = &mut self.back else { return true };
        let now = self.now;
        while !client.transmit().is_empty() {
            match stream.write(client.transmit()) {
                Ok(length) => client.consume(length),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {
                    client.handle_write_failed();
                    break;
                }
            }
        }
        let _ = stream.try_flush();
        let is_idle = self.exchange.is_none();
        if self.may_read_back() {
            let Some((stream, client)) = &mut self.back else { return true };
            match stream.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // It has ended, or says what nobody asked for: the next exchange has a new one.
                _ if is_idle => {
                    self.back = None;
                    return true;
                }
                Ok(0) => client.handle_eof(now),
                Ok(length) => client.handle_input(now, buffer.get(..length).unwrap_or_default()),
                Err(_) => client.handle_broken(now),
            }
        }
        loop {
            let Some((_, client)) = &mut self.back else { return true };
            let event = client.poll_event(now, |head| {
                let line = format!("HTTP/1.1 {}", head.status);
                (head.status, Head::new("", "", line, head.fields))
            });
            match event {
                None => return true,
                Some(client::Event::Head((status, head))) => self.respond(status, &head),
                Some(client::Event::Body(bytes)) => {
                    let _ = self.server.write_body(&bytes);
                    self.keep_response(&bytes);
                }
                Some(client::Event::End) => {
                    let _ = self.server.end(now);
                    self.end_exchange(Side::Server, "complete");
                }
                Some(client::Event::Closed) => {
                    self.back = None;
                    if self.exchange.is_some() {
                        self.fail("the server closed the connection without a response");
                    }
                }
                Some(client::Event::Fault(fault)) => {
                    self.back = None;
                    if self.exchange.as_ref().is_some_and(|exchange| exchange.has_response) {
                        self.end_exchange(Side::Server, &fault.to_string());
                        self.server.abort(now);
                        return false;
                    }
                    if self.exchange.is_some() {
                        self.fail(&format!("the connection to the server broke: {fault}"));
                    }
                }
            }
        }
    }

    fn respond(&mut self, status: u16, head: &Head) {
        let now = self.now;
        // Without a length a response lasts until it ends, unless it cannot have a body.
        let size = match head.size {
            BodySize::None if !matches!(status, 204 | 304) => BodySize::Stream,
            size => size,
        };
        let _ = self.server.respond(now, status, &head.fields, size);
        let Some(exchange) = &mut self.exchange else { return };
        exchange.has_response = true;
        exchange.is_event_stream = head.is_event_stream;
        let number = exchange.number;
        self.recording.record(|recorder, at| recorder.head(at, Side::Server, number, &head.text));
    }

    /// Keeps a part of a response for the record. Events are recorded one by one.
    fn keep_response(&mut self, bytes: &[u8]) {
        let Some(exchange) = &mut self.exchange else { return };
        exchange.response.push(bytes);
        if !exchange.is_event_stream {
            return;
        }
        let number = exchange.number;
        while let Some(event) = exchange.response.take_event() {
            self.recording.record(|recorder, at| match &event {
                Event::Whole(data, fields) => {
                    recorder.body(at, Side::Server, number, data.as_bytes(), Some(fields.clone()));
                }
                Event::Omitted(bytes) => recorder.omitted(at, Side::Server, number, *bytes),
            });
        }
    }

    /// Answers that the server cannot.
    fn fail(&mut self, why: &str) {
        self.refuse(502, why);
    }

    /// Answers the client in place of the server.
    fn refuse(&mut self, status: u16, why: &str) {
        let now = self.now;
        let text = format!("{}: {why}\n", self.upstream.name);
        let mut fields = Fields::new();
        fields.push("Content-Type", b"text/plain");
        if self.server.respond(now, status, &fields, BodySize::Exact(text.len() as u64)).is_ok() {
            let _ = self.server.write_body(text.as_bytes());
            let _ = self.server.end(now);
        }
        self.back = None;
        self.end_exchange(Side::Server, why);
    }

    fn end_exchange(&mut self, from: Side, how: &str) {
        let Some(exchange) = self.exchange.take() else { return };
        self.has_ended = true;
        self.recording.record(|recorder, at| {
            exchange.response.record(recorder, at, Side::Server, exchange.number);
            recorder.exchange_end(at, from, exchange.number, how);
        });
    }

    /// Writes to the client. Returns false if it is gone.
    fn write_front(&mut self) -> bool {
        while !self.server.transmit().is_empty() {
            match self.front.write(self.server.transmit()) {
                Ok(length) => self.server.consume(length),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => {
                    self.end_exchange(Side::Client, "the client closed the connection");
                    return false;
                }
            }
        }
        true
    }

    #[cfg(unix)]
    fn wait(&mut self) -> io::Result<()> {
        let to_front = Interest { read: self.may_read_front(), write: !self.server.transmit().is_empty() };
        let mut requests = vec![WaitRequest::new(self.front.descriptors(), to_front, None)];
        let reads_back = self.may_read_back();
        if let Some((stream, client)) = &self.back {
            if stream.has_pending_read() && reads_back {
                return Ok(());
            }
            let unsent = !client.transmit().is_empty() || !stream.is_flushed();
            let to_back = stream.interest(Interest { read: reads_back, write: unsent });
            // Without interest a connection that has broken would end each wait.
            if to_back.read || to_back.write {
                requests.push(WaitRequest::new(stream.descriptors(), to_back, None));
            }
        }
        WaitRequest::wait(&requests, Some(MAX_WAIT))
    }

    #[cfg(not(unix))]
    fn wait(&mut self) -> io::Result<()> {
        WaitRequest::wait(&[WaitRequest::unpollable(None)], Some(MAX_WAIT))
    }
}

/// What is kept of a body for the record.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    /// Where the line begins that is looked at, and how much of it was: of an event stream.
    line: usize,
    searched: usize,
    /// Number of bytes that were too many.
    dropped: u64,
}

/// An event of a stream.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    /// Its data, and its other lines.
    Whole(String, String),
    /// Its length: it was too long.
    Omitted(u64),
}

impl Kept {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > crate::MAX_LINE {
            // What was searched goes. That the line is not empty is all that is needed to find the end of an event.
            let is_in_line = self.bytes.len() > self.line;
            self.dropped += self.bytes.len() as u64 - u64::from(is_in_line);
            let last = self.bytes.last().copied().filter(|_| is_in_line);
            self.bytes.clear();
            self.bytes.extend(last);
            (self.line, self.searched) = (0, 0);
        }
    }

    fn record(&self, recorder: &mut Recorder<File>, at: u64, from: Side, exchange: u64) {
        match self.dropped {
            0 if self.bytes.is_empty() => {}
            0 => recorder.body(at, from, exchange, &self.bytes, None),
            dropped => recorder.omitted(at, from, exchange, dropped + self.bytes.len() as u64),
        }
    }

    /// Takes the first complete event.
    fn take_event(&mut self) -> Option<Event> {
        loop {
            let rest = self.bytes.get(self.searched..)?;
            let Some(newline) = rest.iter().position(|byte| *byte == b'\n') else {
                self.searched = self.bytes.len();
                return None;
            };
            let end = self.searched + newline + 1;
            let line = self.bytes.get(self.line..end - 1).unwrap_or_default();
            let is_blank = matches!(line, b"" | b"\r");
            (self.line, self.searched) = (end, end);
            if is_blank {
                break;
            }
        }
        let rest = self.bytes.split_off(self.searched);
        let event = core::mem::replace(&mut self.bytes, rest);
        (self.line, self.searched) = (0, 0);
        let dropped = core::mem::take(&mut self.dropped);
        if dropped > 0 {
            return Some(Event::Omitted(dropped + event.len() as u64));
        }
        let text = String::from_utf8_lossy(&event);
        let (mut data, mut fields) = (Vec::new(), Vec::new());
        for line in text.lines().filter(|line| !line.is_empty()) {
            match line.strip_prefix("data:") {
                Some(value) => data.push(value.strip_prefix(' ').unwrap_or(value)),
                None => fields.push(line),
            }
        }
        Some(Event::Whole(data.join("\n"), fields.join("\n")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_when_they_are_complete() {
        let mut stream = Kept::default();
        let mut taken = Vec::new();
        for byte in b": hello\n\nid: 7\r\nevent: message\r\ndata: {\"a\":\r\ndata:1}\r\n\r\ndata: x" {
            stream.push(&[*byte]);
            taken.extend(stream.take_event());
        }
        let want = [("", ": hello"), ("{\"a\":\n1}", "id: 7\nevent: message")];
        let want = want.map(|(data, fields)| Event::Whole(data.to_owned(), fields.to_owned()));
        assert_eq!(taken, want);
        assert_eq!(stream.bytes, b"data: x");
    }

    /// The events behind one that is too long are taken as before.
    #[test]
    fn an_event_that_is_too_long_is_counted() {
        let mut stream = Kept::default();
        let part = vec![b'x'; 1 << 20];
        let mut length = 0;
        let mut taken = Vec::new();
        for _ in 0..20 {
            stream.push(&part);
            length += part.len() as u64;
            taken.extend(stream.take_event());
        }
        stream.push(b"\n\ndata: 1\n\n");
        taken.extend(core::iter::from_fn(|| stream.take_event()));
        assert_eq!(taken, [Event::Omitted(length + 2), Event::Whole("1".into(), String::new())]);
    }
}
