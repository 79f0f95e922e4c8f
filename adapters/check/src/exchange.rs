//! One HTTP exchange, on a connection of its own.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::time::Instant;

use mcp_proto::AuthChallenge;
use mcp_proto::h1::HttpLimits;
use mcp_proto::h1::client::{Connection, Event};
use mcp_proto::head::{BodySize, Fields};
use mcp_proto::http::client::{Url, parse_challenges};
#[cfg(feature = "checks")]
use mcp_proto::http::fields::AUTHORIZATION;
use mcp_proto::http::fields::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use mcp_std::Clock;
use mcp_std::NetStream;
use mcp_std::io::{Duplex, Interest, Ready, Socket};
use mcp_std::poll::Selector;
#[cfg(feature = "tls")]
use mcp_std::tls::ClientTls;

pub(crate) const JSON: &str = "application/json";
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// A server at a URL.
#[derive(Clone)]
pub(crate) struct HttpTarget {
    url: Url,
    addresses: Vec<SocketAddr>,
    /// Header fields that each request carries: name and value.
    fields: Vec<(String, String)>,
    #[cfg(feature = "tls")]
    tls: ClientTls,
}

/// The head of a response.
#[derive(Clone)]
pub(crate) struct HttpResponseHead {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
}

/// A part of a response.
pub(crate) enum ResponseEvent {
    Head(HttpResponseHead),
    Body(Vec<u8>),
    /// The response is complete.
    End,
    /// The response cannot be read further, for this reason.
    Broken(String),
}

/// A running HTTP exchange.
pub(crate) struct HttpExchange {
    transport: NetStream,
    connection: Connection,
    clock: Clock,
}

/// A response with its body.
pub(crate) struct CollectedResponse {
    pub(crate) head: HttpResponseHead,
    /// Body as far as it was received.
    pub(crate) body: Vec<u8>,
}

impl HttpTarget {
    /// Creates a server at addresses of its host. Nothing is connected to.
    pub(crate) fn new(url: Url, addresses: Vec<SocketAddr>, fields: Vec<(String, String)>) -> Self {
        Self {
            url,
            addresses,
            fields,
            #[cfg(feature = "tls")]
            tls: ClientTls::new(),
        }
    }

    /// Returns the server at another URL of the same origin.
    pub(crate) fn at(&self, url: Url) -> Self {
        Self { url, ..self.clone() }
    }

    /// Returns the value of a header field that each request carries.
    #[cfg(feature = "auth")]
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns whether each request carries a header field.
    #[cfg(feature = "auth")]
    pub(crate) fn has_fields(&self) -> bool {
        !self.fields.is_empty()
    }

    /// Adds a header field to each request.
    #[cfg(feature = "auth")]
    pub(crate) fn add_field(&mut self, name: &str, value: String) {
        self.fields.push((name.to_owned(), value));
    }

    /// Resolves the host and connects once, to verify that the server is reachable.
    ///
    /// # Errors
    ///
    /// Fails if the host is unknown or no address accepts a connection.
    #[cfg(feature = "checks")]
    pub(crate) fn resolve(url: Url, fields: Vec<(String, String)>, timeout: Duration) -> io::Result<Self> {
        let addresses = mcp_std::io::resolve_host(&url.origin().host, url.origin().port)?;
        let mut server = Self::new(url, addresses, fields);
        let reached = server.connect(timeout)?.peer_addr()?;
        // Later exchanges use the address that accepted the connection.
        server.addresses = vec![reached];
        if server.url.origin().secure {
            server.open_transport(timeout)?.close();
        }
        Ok(server)
    }

    /// Returns whether GET opens an event stream, as it does at a server of HTTP+SSE.
    pub(crate) fn opens_event_stream(&self, timeout: Duration) -> bool {
        let mut fields = Fields::new();
        fields.push(ACCEPT, EVENT_STREAM.as_bytes());
        let reply = perform(self, "GET", fields, None, Instant::now() + timeout);
        reply.is_ok_and(|reply| reply.head.status == 200 && reply.head.has_media_type(EVENT_STREAM))
    }

    pub(crate) const fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the server for requests without credentials.
    #[cfg(feature = "checks")]
    pub(crate) fn without_credentials(&self) -> Self {
        let mut bare = self.clone();
        bare.fields.retain(|(name, _)| !name.eq_ignore_ascii_case(AUTHORIZATION));
        bare
    }

    /// Connects to the first address that accepts, within `timeout` for all of them.
    pub(crate) fn connect(&self, timeout: Duration) -> io::Result<TcpStream> {
        let until = Instant::now() + timeout;
        let mut last = ErrorKind::AddrNotAvailable.into();
        for (address, waiting) in self.addresses.iter().zip((1..=self.addresses.len()).rev()) {
            // An address that drops packets leaves time for those behind it.
            let left = until.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(waiting).unwrap_or(u32::MAX);
            match TcpStream::connect_timeout(address, share.max(MIN_CONNECT_TIME)) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Opens a connection, with TLS for `https`.
    pub(crate) fn open_transport(&self, timeout: Duration) -> io::Result<NetStream> {
        #[cfg(feature = "tls")]
        let until = Instant::now() + timeout;
        let socket = Socket::tcp(self.connect(timeout)?)?;
        #[cfg(feature = "tls")]
        if self.url.origin().secure {
            let mut transport = NetStream::connect_tls(&self.tls, socket, &self.url.origin().host)?;
            while !transport.handshake()? {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::Error::new(ErrorKind::TimedOut, "the TLS handshake takes too long"));
                }
                transport.wait(Interest::WRITE, Some(left))?;
            }
            return Ok(transport);
        }
        Ok(socket.into())
    }
}

impl HttpResponseHead {
    #[cfg(test)]
    pub(crate) const fn new(status: u16) -> Self {
        Self { status, fields: Vec::new() }
    }

    /// Returns the value of a header field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns the values of all header fields with a name.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = move |field: &&(String, String)| field.0.eq_ignore_ascii_case(name);
        self.fields.iter().filter(named).map(|(_, value)| &**value)
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns whether the body has this media type, whatever its parameters.
    pub(crate) fn has_media_type(&self, kind: &str) -> bool {
        let value = self.field(CONTENT_TYPE).unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(kind)
    }

    /// Returns the challenge that is about access tokens.
    pub(crate) fn bearer_challenge(&self) -> Option<AuthChallenge> {
        let challenges = parse_challenges(self.values(WWW_AUTHENTICATE).map(str::as_bytes));
        let is_known = |challenge: &AuthChallenge| {
            ["bearer", "dpop"].iter().any(|scheme| challenge.scheme.eq_ignore_ascii_case(scheme))
        };
        challenges.into_iter().find(is_known)
    }

    /// Describes the status and the media type.
    pub(crate) fn summary(&self) -> String {
        let kind = self.field(CONTENT_TYPE).map(|kind| format!(" and the type {kind:?}")).unwrap_or_default();
        format!("the status {}{kind}", self.status)
    }

    pub(crate) fn sentence(&self) -> String {
        format!("the response has {}", self.summary())
    }
}

impl HttpExchange {
    /// Sends a request.
    ///
    /// # Errors
    ///
    /// Fails if the connection cannot be opened or the request is invalid.
    pub(crate) fn begin(
        server: &HttpTarget,
        method: &str,
        mut fields: Fields,
        body: Option<&[u8]>,
        timeout: Duration,
    ) -> io::Result<Self> {
        let transport = server.open_transport(timeout)?;
        let clock = Clock::start();
        let now = clock.now();
        let mut limits = HttpLimits::default();
        // Callers enforce their own timeouts.
        (limits.head_timeout, limits.body_idle_timeout) = (MAX_EXCHANGE_TIME, MAX_EXCHANGE_TIME);
        let mut connection = Connection::new(now, limits);
        for (name, value) in &server.fields {
            fields.push(name, value.as_bytes());
        }
        let size = body.map_or(BodySize::None, |body| BodySize::Exact(body.len() as u64));
        let (target, host) = (server.url.target(), server.url.origin().authority());
        let sent = connection.request(now, method, target, &host, &fields, size);
        let sent = sent.and_then(|()| body.map_or(Ok(()), |body| connection.write_body(body)));
        sent.and_then(|()| connection.end(now)).map_err(io::Error::other)?;
        Ok(Self { transport, connection, clock })
    }

    /// Reads the response to its end, or until `read` has enough: it is called with the head, and then with each piece of the body. At
    /// the deadline the response is what has arrived. Also returns whether it is complete.
    ///
    /// # Errors
    ///
    /// [`NoResponse`]; if it `forgives`, a response that breaks after `read` had enough is one.
    pub(crate) fn collect(
        mut self,
        until: Instant,
        forgives: bool,
        mut read: impl FnMut(&mut CollectedResponse, Option<&[u8]>) -> bool,
    ) -> Result<(CollectedResponse, bool), NoResponse> {
        let (mut reply, mut has_enough) = (None, false);
        loop {
            while let Some(came) = self.poll_event() {
                match (came, &mut reply) {
                    (ResponseEvent::Head(head), _) => {
                        has_enough |= read(reply.insert(CollectedResponse { head, body: Vec::new() }), None);
                    }
                    (ResponseEvent::Body(piece), Some(reply)) => has_enough |= read(reply, Some(&piece)),
                    (ResponseEvent::Broken(why), _) if !(forgives && has_enough) => {
                        return Err(NoResponse::Broken(why));
                    }
                    _ => return reply.map(|reply| (reply, true)).ok_or(NoResponse::TimedOut),
                }
            }
            if has_enough || Instant::now() >= until {
                return reply.map(|reply| (reply, false)).ok_or(NoResponse::TimedOut);
            }
            advance(core::iter::once(&mut self), until)
                .map_err(|error| NoResponse::Broken(error.to_string()))?;
        }
    }

    /// Writes and reads as far as possible without blocking.
    fn step(&mut self, ready: Ready) {
        let now = self.clock.now();
        // If flushing fails, reading reports the reason.
        let _ = self.transport.try_flush();
        while ready.writable && !self.connection.transmit().is_empty() {
            match self.transport.write(self.connection.transmit()) {
                Ok(n @ 1..) => self.connection.consume(n),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // Input that arrived before the connection broke can still be read.
                _ => self.connection.consume(self.connection.transmit().len()),
            }
        }
        if ready.readable || self.transport.has_pending_read() {
            let mut chunk = [0; 64 * 1024];
            match self.transport.read(&mut chunk) {
                Ok(0) => self.connection.handle_eof(now),
                Ok(n) => self.connection.handle_input(now, &chunk[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.connection.handle_broken(now),
            }
        }
    }

    /// Returns the next part of the response that has arrived.
    pub(crate) fn poll_event(&mut self) -> Option<ResponseEvent> {
        let head = |response: mcp_proto::head::ResponseHead<'_>| HttpResponseHead {
            status: response.status,
            fields: response
                .fields
                .iter()
                .map(|(name, value)| ((*name).to_owned(), String::from_utf8_lossy(value).into_owned()))
                .collect(),
        };
        Some(match self.connection.poll_event(self.clock.now(), head)? {
            Event::Head(head) => ResponseEvent::Head(head),
            Event::Body(bytes) => ResponseEvent::Body(bytes.to_vec()),
            Event::End => ResponseEvent::End,
            Event::Closed => ResponseEvent::Broken(CLOSED.into()),
            Event::Fault(fault) => ResponseEvent::Broken(format!("its response cannot be read: {fault}")),
        })
    }
}

/// Waits until an exchange is ready, at most until `until`, then advances all of them.
///
/// # Errors
///
/// Fails if the sockets cannot be waited for.
pub(crate) fn advance<'a>(
    exchanges: impl Iterator<Item = &'a mut HttpExchange>,
    until: Instant,
) -> io::Result<()> {
    let mut exchanges: Vec<&mut HttpExchange> = exchanges.collect();
    let (mut selector, mut found) = (Selector::new()?, Vec::new());
    for (exchange, token) in exchanges.iter().zip(0..) {
        let write = !exchange.connection.transmit().is_empty();
        let interest = Interest { read: exchange.connection.wants_input(), write };
        selector.add(exchange.transport.socket(), token, exchange.transport.interest(interest))?;
    }
    let pending = exchanges.iter().any(|exchange| exchange.transport.has_pending_read());
    let until = if pending { Instant::now() } else { until };
    selector.wait(Some(until.saturating_duration_since(Instant::now())), &mut found)?;
    for (exchange, token) in exchanges.iter_mut().zip(0..) {
        let ready = found.iter().find(|(found, _)| *found == token);
        exchange.step(ready.map(|(_, ready)| *ready).unwrap_or_default());
    }
    Ok(())
}

/// Adds the fields of a request whose body is a message.
pub(crate) fn push_message_fields(fields: &mut Fields) {
    fields.push(CONTENT_TYPE, JSON.as_bytes());
    fields.push(ACCEPT, format!("{JSON}, {EVENT_STREAM}").as_bytes());
}

/// Why there is no response.
pub(crate) enum NoResponse {
    Unconnected(io::Error),
    TimedOut,
    Broken(String),
}

impl fmt::Display for NoResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unconnected(error) => write!(f, "there is no connection: {error}"),
            Self::TimedOut => f.write_str("there was no response"),
            Self::Broken(why) => f.write_str(why),
        }
    }
}

/// Performs an exchange and returns the response: for `GET` only the head, for an unfinished stream what has arrived.
///
/// # Errors
///
/// Returns a description of why there is no response.
pub(crate) fn perform(
    server: &HttpTarget,
    method: &str,
    fields: Fields,
    body: Option<&[u8]>,
    until: Instant,
) -> Result<CollectedResponse, String> {
    let begun = HttpExchange::begin(server, method, fields, body, time_to(until));
    let read = |reply: &mut CollectedResponse, piece: Option<&[u8]>| {
        reply.body.extend_from_slice(piece.unwrap_or_default());
        method == "GET" || reply.body.len() > MAX_BODY
    };
    let exchange = begun.map_err(|error| NoResponse::Unconnected(error).to_string())?;
    exchange.collect(until, false, read).map(|(reply, _)| reply).map_err(|why| why.to_string())
}

/// Returns the time that is left, more than none.
pub(crate) fn time_to(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now()).max(MIN_CONNECT_TIME)
}

/// The reason of a response that does not begin.
pub(crate) const CLOSED: &str = "it closed the connection without a response";
/// The system takes no shorter time than one above zero.
const MIN_CONNECT_TIME: Duration = Duration::from_millis(1);
/// Longer than any check takes.
const MAX_EXCHANGE_TIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of body bytes of one response.
const MAX_BODY: usize = 16 << 20;

// On Linux, the queue of a listener can be so short that nobody answers.
#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn response_that_breaks_right_behind_its_head_is_no_response() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let _ = io::Read::read(&mut stream, &mut [0; 1_024]);
            let response = b"HTTP/1.1 405 No\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n";
            io::Write::write_all(&mut stream, response).expect("it reads");
        });
        let url = Url::parse("http://h.example/").expect("a URL");
        let target = HttpTarget::new(url, vec![address], Vec::new());
        let until = Instant::now() + Duration::from_secs(20);
        let outcome = perform(&target, "GET", Fields::new(), None, until);
        assert!(outcome.is_err_and(|why| why.contains("its response cannot be read")));
        server.join().expect("no panic");
    }

    #[test]
    fn timeout_holds_for_all_addresses_together() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        rustix::net::listen(&silent, 0).expect("a short queue");
        let address = silent.local_addr().expect("bound");
        let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(100)).ok();
        let queued: Vec<TcpStream> = core::iter::from_fn(connect).collect();
        assert!(!queued.is_empty(), "the queue has no place");
        let url = Url::parse("http://h.example/").expect("a URL");
        let target = HttpTarget::new(url, vec![address; 5], Vec::new());
        let begun = Instant::now();
        let error = target.connect(Duration::from_millis(400)).expect_err("nobody answers");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(begun.elapsed() < Duration::from_millis(1_200), "{:?}", begun.elapsed());
    }
}
