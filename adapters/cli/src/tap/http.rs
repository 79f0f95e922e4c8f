//! `tap` over HTTP: each connection of a client has one to the server, and each exchange is recorded as it passes.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _};
use std::thread;

use mcp_proto::Instant;
use mcp_proto::h1::{HttpLimits, client, server};
use mcp_proto::head::{BodySize, FieldLine, Fields};
use mcp_proto::http::Url;
use mcp_proto_trace::Side;
use mcp_std::io::{Duplex, Socket};
use mcp_std::poll::{Interest, WaitRequest};
#[cfg(feature = "tls")]
use mcp_std::tls::ClientTls;
use mcp_std::{Clock, NetStream};

use super::{Recording, broken};
use crate::failure::CommandFailure;
use crate::session::{print_note, print_stderr};

/// Connections at a time. Another one is closed.
const MAX_CONNECTIONS: usize = 256;
/// Time to connect to the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes that wait for one side before no more are read for it.
const MAX_WAITING: usize = 1 << 20;
/// Bytes of an event or a body that are kept for the record.
const MAX_KEPT: usize = mcp_proto_trace::MAX_LINE + 1;
/// Longest wait: deadlines are looked at again then.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Serves clients at an address until the process ends.
///
/// # Errors
///
/// Fails if the address cannot be used.
pub(super) fn run(address: &str, url: &Url, recording: &Arc<Recording>) -> Result<(), CommandFailure> {
    let listener =
        TcpListener::bind(address).map_err(|error| broken(&format!("cannot listen on {address}"), &error))?;
    let bound = listener.local_addr().map_err(|error| broken("the address is not known", &error))?;
    print_stderr(&format!("listening at http://{bound}{}", url.target()));
    if !bound.ip().is_loopback() {
        print_note(
            "other machines reach this address: by its number, all that they send is recorded and passed on",
        );
    }
    let upstream = Arc::new(Upstream::new(url.clone(), bound.to_string()));
    let (exchanges, open) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        if open.load(Ordering::SeqCst) >= MAX_CONNECTIONS {
            continue;
        }
        let (upstream, recording) = (Arc::clone(&upstream), Arc::clone(recording));
        let (exchanges, place) = (Arc::clone(&exchanges), Place::new(&open));
        // Without a thread the connection is closed.
        let _ = thread::Builder::new().name("mcp-tap".into()).spawn(move || {
            let _place = place;
            // A connection that breaks is no failure of the others.
            let _ = Relay::new(stream, &upstream, &recording, &exchanges).and_then(Relay::run);
        });
    }
    Ok(())
}

/// A place among the connections.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn new(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(open))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The server.
struct Upstream {
    url: Url,
    /// The authority at which the tap listens.
    listens_at: String,
    #[cfg(feature = "tls")]
    tls: ClientTls,
}

impl Upstream {
    fn new(url: Url, listens_at: String) -> Self {
        Self {
            url,
            listens_at,
            #[cfg(feature = "tls")]
            tls: ClientTls::new(),
        }
    }

    /// Returns whether a client may have come here by this name.
    fn is_own_host(&self, host: &str) -> bool {
        let is_loopback =
            || Url::parse(&format!("http://{host}/")).is_ok_and(|url| url.origin().is_loopback());
        host.eq_ignore_ascii_case(&self.listens_at) || is_loopback()
    }

    fn connect(&self) -> io::Result<NetStream> {
        let origin = self.url.origin();
        let mut last = io::Error::from(ErrorKind::NotFound);
        for address in (&*origin.host, origin.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(stream) => {
                    let _ = stream.set_nodelay(true);
                    return self.wrap(Socket::tcp(stream)?);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    #[cfg(feature = "tls")]
    fn wrap(&self, socket: Socket) -> io::Result<NetStream> {
        let origin = self.url.origin();
        match origin.secure {
            true => NetStream::connect_tls(&self.tls, socket, &origin.host),
            false => Ok(socket.into()),
        }
    }

    /// URLs with `https` were refused before.
    #[cfg(not(feature = "tls"))]
    fn wrap(&self, socket: Socket) -> io::Result<NetStream> {
        Ok(socket.into())
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
            } else if !HOP_BY_HOP.iter().any(|other| is(other)) {
                head.is_event_stream |= is("Content-Type")
                    && words.trim_start().to_ascii_lowercase().starts_with("text/event-stream");
                head.fields.push(name, value);
            }
        }
        head
    }
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
    server: server::Connection,
    back: Option<(NetStream, client::Connection)>,
    upstream: &'a Upstream,
    recording: &'a Recording,
    exchanges: &'a AtomicU64,
    exchange: Option<Exchange>,
}

/// An exchange that is not over.
struct Exchange {
    number: u64,
    request: Vec<u8>,
    response: Vec<u8>,
    is_event_stream: bool,
    has_response: bool,
    /// The request has ended.
    is_sent: bool,
}

impl<'a> Relay<'a> {
    fn new(
        stream: TcpStream,
        upstream: &'a Upstream,
        recording: &'a Recording,
        exchanges: &'a AtomicU64,
    ) -> io::Result<Self> {
        let clock = Clock::start();
        let _ = stream.set_nodelay(true);
        let mut limits = HttpLimits::default();
        // What the server takes is for the server to say.
        limits.max_body = u64::MAX;
        let now = clock.now();
        let server = server::Connection::new(now, limits);
        Ok(Self {
            clock,
            now,
            front: Socket::tcp(stream)?,
            server,
            back: None,
            upstream,
            recording,
            exchanges,
            exchange: None,
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
            self.read_front(&mut buffer)?;
            let is_open = self.hear_client() && self.exchange_with_server(&mut buffer);
            let moved = self.write_front();
            if !is_open || !moved || self.server.wants_close() {
                // The rest of what the client is to get.
                while !self.server.transmit().is_empty() && self.write_front() {
                    self.front.wait(Interest::WRITE, Some(MAX_WAIT))?;
                }
                return Ok(());
            }
            self.wait()?;
        }
    }

    fn read_front(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let waits = self.back.as_ref().is_some_and(|(_, client)| client.transmit().len() > MAX_WAITING);
        if waits || !self.server.wants_input() {
            return Ok(());
        }
        let now = self.now;
        match self.front.read(buffer) {
            Ok(0) => self.server.handle_eof(now),
            Ok(length) => self.server.handle_input(now, buffer.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
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
                Some(server::Event::Head(head)) => self.begin(&head),
                Some(server::Event::Body(bytes)) => {
                    if let Some(exchange) = &mut self.exchange {
                        keep(&mut exchange.request, &bytes);
                    }
                    if let Some((_, client)) = &mut self.back {
                        let _ = client.write_body(&bytes);
                    }
                }
                Some(server::Event::End) => {
                    if let Some(exchange) = self.exchange.as_mut().filter(|exchange| !exchange.is_sent) {
                        exchange.is_sent = true;
                        let (number, body) = (exchange.number, core::mem::take(&mut exchange.request));
                        if !body.is_empty() {
                            self.recording
                                .record(|recorder, at| recorder.body(at, Side::Client, number, &body, None));
                        }
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
        let number = self.exchanges.fetch_add(1, Ordering::SeqCst) + 1;
        self.exchange = Some(Exchange {
            number,
            request: Vec::new(),
            response: Vec::new(),
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
        // A connection that has ended meanwhile is replaced.
        self.back = self.back.take().filter(|(_, client)| client.is_idle() && !client.wants_close());
        let now = self.now;
        if self.back.is_none() {
            match self.upstream.connect() {
                Ok(stream) => {
                    let mut limits = HttpLimits::default();
                    limits.max_body = u64::MAX;
                    self.back = Some((stream, client::Connection::new(now, limits)));
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
        if client.wants_input() && self.server.transmit().len() < MAX_WAITING {
            match stream.read(buffer) {
                Ok(0) => client.handle_eof(now),
                Ok(length) => client.handle_input(now, buffer.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
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
        keep(&mut exchange.response, bytes);
        if !exchange.is_event_stream {
            return;
        }
        let number = exchange.number;
        while let Some((data, fields)) = take_event(&mut exchange.response) {
            self.recording.record(|recorder, at| {
                recorder.body(at, Side::Server, number, data.as_bytes(), Some(fields))
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
        let text = format!("mcp-probe tap: {why}\n");
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
        self.recording.record(|recorder, at| {
            if !exchange.response.is_empty() {
                recorder.body(at, Side::Server, exchange.number, &exchange.response, None);
            }
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
        let reads_front = self.server.wants_input();
        let to_front = Interest { read: reads_front, write: !self.server.transmit().is_empty() };
        let mut requests = vec![WaitRequest::new(self.front.descriptors(), to_front, None)];
        if let Some((stream, client)) = &self.back {
            if stream.has_pending_read() && client.wants_input() {
                return Ok(());
            }
            let unsent = !client.transmit().is_empty() || !stream.is_flushed();
            let to_back = stream.interest(Interest { read: client.wants_input(), write: unsent });
            requests.push(WaitRequest::new(stream.descriptors(), to_back, None));
        }
        WaitRequest::wait(&requests, Some(MAX_WAIT))
    }

    #[cfg(not(unix))]
    fn wait(&mut self) -> io::Result<()> {
        WaitRequest::wait(&[WaitRequest::unpollable(None)], Some(MAX_WAIT))
    }
}

fn keep(kept: &mut Vec<u8>, bytes: &[u8]) {
    let room = MAX_KEPT.saturating_sub(kept.len());
    kept.extend_from_slice(bytes.get(..bytes.len().min(room)).unwrap_or_default());
}

/// Takes the first complete event from a stream: its data, and its other lines.
fn take_event(stream: &mut Vec<u8>) -> Option<(String, String)> {
    let mut end = None;
    let mut line_start = 0;
    for (index, byte) in stream.iter().enumerate() {
        if *byte != b'\n' {
            continue;
        }
        let line = stream.get(line_start..index).unwrap_or_default();
        if line.is_empty() || line == b"\r" {
            end = Some(index + 1);
            break;
        }
        line_start = index + 1;
    }
    let rest = stream.split_off(end?);
    let event = core::mem::replace(stream, rest);
    let text = String::from_utf8_lossy(&event);
    let (mut data, mut fields) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("data:") {
            Some(value) => data.push(value.strip_prefix(' ').unwrap_or(value)),
            None => fields.push(line),
        }
    }
    Some((data.join("\n"), fields.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_when_they_are_complete() {
        let mut stream = Vec::new();
        let mut taken = Vec::new();
        for byte in b": hello\n\nid: 7\r\nevent: message\r\ndata: {\"a\":\r\ndata:1}\r\n\r\ndata: x" {
            stream.push(*byte);
            taken.extend(take_event(&mut stream));
        }
        let want = [("", ": hello"), ("{\"a\":\n1}", "id: 7\nevent: message")];
        assert_eq!(taken, want.map(|(data, fields)| (data.to_owned(), fields.to_owned())));
        assert_eq!(stream, b"data: x");
    }
}
