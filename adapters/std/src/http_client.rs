//! Single HTTP requests: lookup of the host, connection, TLS and exchange, within one budget of time.
//!
//! The parts are apart, so that a policy of the caller stands between them: it looks the host up once, decides which of the
//! addresses are connected to, and a second answer of the name server cannot replace a checked one.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use mcp_proto::h1::client::{Connection, Event};
use mcp_proto::h1::{HttpLimits, Reason};
use mcp_proto::head::{BodySize, Fields, ResponseHead};
use mcp_proto::http::{Origin, Url};

use crate::Clock;
use crate::NetStream;
use crate::io::{Duplex as _, Socket, interleave_families, is_peer_gone, known_addresses, resolve_host};
use crate::poll::Interest;
use crate::sync::{Budget, Ended};
#[cfg(feature = "tls")]
use crate::tls::ClientTls;

/// A sender of single requests with the HTTP/1.1 client of [`mcp_proto::h1`].
///
/// Each request has a connection of its own. There are no redirects, cookies or proxies, and nothing is cached.
/// `https` needs the feature `tls`.
///
/// A name is resolved on a thread of its own. If the resolver of the system hangs, that thread outlives the request: in the C
/// library of Linux by the times of `resolv.conf`, by default ten seconds for each name server.
#[derive(Clone)]
pub struct HttpClient {
    #[cfg(feature = "tls")]
    tls: ClientTls,
    resolver: Resolver,
}

/// A function from a host name and a port to addresses.
type Resolver = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// A request.
#[derive(Clone, Copy)]
pub struct HttpRequest<'a> {
    /// The method.
    pub method: &'a str,
    /// The URL; its host is that of `Host` and of TLS.
    pub url: &'a Url,
    /// The fields apart from those that control framing and routing.
    pub fields: &'a Fields,
    /// The body.
    pub body: &'a [u8],
    /// Number of bytes of the body of the response, and the outcome of a longer one.
    pub response_body: BodyBound,
}

/// A bound of the body of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyBound {
    /// A longer body is [`HttpFailure::TooLarge`].
    Refuse(usize),
    /// The rest of a longer body is not read; nor is it known whether it would have been complete.
    Cut(usize),
}

/// A response.
#[derive(Debug, Default)]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// The fields.
    pub fields: Fields,
    /// The body.
    pub body: Vec<u8>,
}

/// The reason why there is no response. Its text names the host, and has no query, no field and no body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpFailure {
    /// The host has no address, or no connection was made, or it broke.
    Unreachable(Box<str>),
    /// TLS failed.
    Tls(Box<str>),
    /// The body is longer than [`BodyBound::Refuse`] allows.
    TooLarge,
    /// The budget has ended.
    Ended(Ended),
}

impl fmt::Display for HttpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) | Self::Tls(why) => f.write_str(why),
            Self::TooLarge => f.write_str("the body is too large"),
            Self::Ended(Ended::TimedOut) => f.write_str("timed out"),
            Self::Ended(Ended::Cancelled) => f.write_str("cancelled"),
        }
    }
}

impl From<Ended> for HttpFailure {
    fn from(ended: Ended) -> Self {
        Self::Ended(ended)
    }
}

/// Returns the failure of a step on the way to a host.
fn unreachable(what: &str, error: &dyn fmt::Display) -> HttpFailure {
    HttpFailure::Unreachable(reason(what, error))
}

fn reason(what: &str, error: &dyn fmt::Display) -> Box<str> {
    format!("{what}: {error}").into()
}

impl HttpClient {
    /// Creates a client that trusts the roots of the system and uses its resolver.
    #[must_use]
    pub fn new() -> Self {
        Self {
            #[cfg(feature = "tls")]
            tls: ClientTls::new(),
            resolver: Arc::new(resolve_host),
        }
    }

    /// Sets the roots that are trusted.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.tls = tls;
        self
    }

    /// Replaces the resolver of the system by a function of a host name and a port.
    ///
    /// It is called on a thread of its own, and neither for IP addresses nor for `localhost` and the names below it.
    #[must_use]
    pub fn resolver<F>(mut self, resolver: F) -> Self
    where
        F: Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    {
        self.resolver = Arc::new(resolver);
        self
    }

    /// Returns the addresses of a host, at least one. `localhost` and the names below it are `127.0.0.1` and `::1`,
    /// whatever a name server says (RFC 6761, 6.3).
    ///
    /// # Errors
    ///
    /// [`HttpFailure`] if it has none.
    pub fn look_up(&self, origin: &Origin, budget: &Budget<'_>) -> Result<Vec<SocketAddr>, HttpFailure> {
        check_scheme(origin)?;
        budget.next_wait()?;
        if let Some(known) = known_addresses(&origin.host, origin.port) {
            return Ok(known);
        }
        let what = format!("no address of {}", origin.host);
        let (sender, answer) = mpsc::channel();
        let (resolver, host, port) = (Arc::clone(&self.resolver), origin.host.clone(), origin.port);
        // The resolver of the system blocks, and only a thread of its own can be left behind.
        let lookup = move || drop(sender.send(resolver(&host, port)));
        thread::Builder::new()
            .name("mcp-lookup".into())
            .spawn(lookup)
            .map_err(|error| unreachable(&what, &error))?;
        let found = loop {
            match answer.recv_timeout(budget.next_wait()?) {
                Ok(found) => break found,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(unreachable(&what, &"the lookup panicked"));
                }
            }
        };
        match found {
            Ok(found) if found.is_empty() => Err(unreachable(&what, &"the name has none")),
            Ok(found) => Ok(found),
            Err(error) => Err(unreachable(&what, &error)),
        }
    }

    /// Sends a request to the first of `addresses` that accepts, and to no other address, and waits for its response.
    ///
    /// # Errors
    ///
    /// [`HttpFailure`] if there is none.
    pub fn send(
        &self,
        request: &HttpRequest<'_>,
        addresses: Vec<SocketAddr>,
        budget: &Budget<'_>,
    ) -> Result<HttpResponse, HttpFailure> {
        let mut stream = self.connect(request.url.origin(), addresses, budget)?;
        let outcome = run(&mut stream, request, budget);
        stream.close();
        outcome
    }

    /// Connects to the first of `addresses` that accepts. The handshake of TLS is still to be made.
    ///
    /// # Errors
    ///
    /// [`HttpFailure`] if there is no connection.
    pub fn connect(
        &self,
        origin: &Origin,
        addresses: Vec<SocketAddr>,
        budget: &Budget<'_>,
    ) -> Result<NetStream, HttpFailure> {
        check_scheme(origin)?;
        let mut addresses = interleave_families(addresses.into_iter());
        let mut tried = String::new();
        while let Some(address) = addresses.pop_front() {
            let others = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
            match connect_to(address, others, budget)? {
                Ok(socket) => {
                    let stream = self.wrap(socket, origin);
                    return stream.map_err(|error| HttpFailure::Tls(reason("no connection", &error)));
                }
                // A name may have thousands of addresses.
                Err(error) if tried.len() < MAX_TRIED_TEXT => tried = format!("{tried}; {address}: {error}"),
                Err(_) => {}
            }
        }
        let tried = tried.strip_prefix("; ").unwrap_or("there is no address");
        Err(HttpFailure::Unreachable(format!("no connection to {}: {tried}", origin.host).into()))
    }

    /// Wraps a socket in TLS if the origin is secure.
    fn wrap(&self, socket: Socket, origin: &Origin) -> io::Result<NetStream> {
        #[cfg(feature = "tls")]
        if origin.secure {
            // Server names in TLS have no final dot (RFC 6066, 3).
            let host = origin.host.strip_suffix('.').unwrap_or(&origin.host);
            return NetStream::connect_tls(&self.tls, socket, host);
        }
        let _ = (self, origin);
        Ok(socket.into())
    }
}

impl Default for HttpClient {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

/// Refuses what cannot be sent, before anything is done for it.
fn check_scheme(origin: &Origin) -> Result<(), HttpFailure> {
    if origin.secure && cfg!(not(feature = "tls")) {
        let why = "`https` needs the feature `tls`, which is not enabled";
        return Err(HttpFailure::Unreachable(why.into()));
    }
    Ok(())
}

/// Connects to one address. The outer error ends the request, the inner one the attempt.
fn connect_to(
    address: SocketAddr,
    others: u32,
    budget: &Budget<'_>,
) -> Result<io::Result<Socket>, HttpFailure> {
    let share = budget.left().map_or(ADDRESS_TIMEOUT, |left| ADDRESS_TIMEOUT.min(left / (others + 1)));
    // The last address has all the time that is left.
    let attempt = if others == 0 { budget.clone() } else { budget.at_most(share) };
    let mut socket = match Socket::connect(address) {
        Ok(socket) => socket,
        Err(error) => return Ok(Err(error)),
    };
    loop {
        let Ok(wait) = attempt.next_wait() else {
            budget.next_wait()?;
            return Ok(Err(ErrorKind::TimedOut.into()));
        };
        match socket.wait(Interest::WRITE, Some(wait)) {
            Ok(found) if found.writable => return Ok(socket.connect_result().map(|()| socket)),
            Ok(_) => {}
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// Sends a request and receives its response.
fn run(
    stream: &mut NetStream,
    request: &HttpRequest<'_>,
    budget: &Budget<'_>,
) -> Result<HttpResponse, HttpFailure> {
    let clock = Clock::start();
    let bound = request.response_body;
    let mut exchange = Exchange {
        http: Connection::new(clock.now(), limits(bound, budget)),
        clock,
        bound,
        response: HttpResponse::default(),
        broken: None,
    };
    exchange.begin(request).map_err(|error| unreachable("the request cannot be sent", &error))?;
    loop {
        exchange.write(stream);
        if let Some(outcome) = exchange.poll() {
            return outcome;
        }
        let unsent = !exchange.http.transmit().is_empty() || !stream.is_flushed();
        let interest = Interest { read: exchange.http.wants_input(), write: unsent };
        let found = stream.wait(interest, Some(budget.next_wait()?));
        let found = found.map_err(|error| unreachable("the connection broke", &error))?;
        if found.readable {
            exchange.read(stream);
        }
        if found.writable {
            // The next read or write returns the error.
            let _ = stream.try_flush();
        }
    }
}

/// Returns the limits of the connection: the bound of the body, and no time that is shorter than that of the request.
fn limits(bound: BodyBound, budget: &Budget<'_>) -> HttpLimits {
    let mut limits = HttpLimits::default();
    let left = budget.left().unwrap_or(Duration::MAX);
    limits.max_body = match bound {
        BodyBound::Refuse(most) => most as u64,
        BodyBound::Cut(_) => u64::MAX,
    };
    (limits.head_timeout, limits.body_idle_timeout, limits.keep_alive) = (left, left, left);
    limits
}

struct Exchange {
    http: Connection,
    clock: Clock,
    bound: BodyBound,
    response: HttpResponse,
    /// The failure of the stream.
    broken: Option<HttpFailure>,
}

impl Exchange {
    fn begin(&mut self, request: &HttpRequest<'_>) -> Result<(), mcp_proto::h1::WriteError> {
        let now = self.clock.now();
        let size = match request.body.len() {
            0 => BodySize::None,
            length => BodySize::Exact(length as u64),
        };
        let (url, host) = (request.url, request.url.origin().authority());
        self.http.request(now, request.method, url.target(), &host, request.fields, size)?;
        self.http.write_body(request.body)?;
        self.http.end(now)
    }

    fn write(&mut self, stream: &mut NetStream) {
        while !self.http.transmit().is_empty() {
            match stream.write(self.http.transmit()) {
                Ok(n) => self.http.consume(n),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The server may have answered before it closed its side.
                Err(error) if is_peer_gone(&error) => self.http.handle_write_failed(),
                // The server does not know of it, so a read would wait for a response that never comes.
                Err(error) => return self.handle_broken(stream, &error),
            }
        }
    }

    fn read(&mut self, stream: &mut NetStream) {
        let mut buffer = [0; 16 << 10];
        let now = self.clock.now();
        match stream.read(&mut buffer) {
            Ok(0) => self.http.handle_eof(now),
            Ok(n) => self.http.handle_input(now, buffer.get(..n).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => self.handle_broken(stream, &error),
        }
    }

    fn handle_broken(&mut self, stream: &NetStream, error: &io::Error) {
        let why = error.to_string().into();
        // `InvalidData` is what TLS refuses after the handshake, and alerts of the peer.
        let is_tls = stream.is_handshaking() || error.kind() == ErrorKind::InvalidData;
        self.broken = Some(if is_tls { HttpFailure::Tls(why) } else { HttpFailure::Unreachable(why) });
        self.http.handle_broken(self.clock.now());
    }

    /// Processes what has arrived and returns the outcome once there is one.
    fn poll(&mut self) -> Option<Result<HttpResponse, HttpFailure>> {
        let now = self.clock.now();
        while let Some(event) = self.http.poll_event(now, |head| (head.status, copy_fields(&head))) {
            match event {
                Event::Head((status, fields)) => {
                    (self.response.status, self.response.fields) = (status, fields);
                }
                Event::Body(piece) => self.response.body.extend_from_slice(&piece),
                Event::End => return Some(Ok(core::mem::take(&mut self.response))),
                Event::Closed => return Some(Err(self.failure(&"the server closed it without a response"))),
                Event::Fault(fault) => {
                    return Some(Err(match fault.reason() {
                        Reason::BodyTooLong => HttpFailure::TooLarge,
                        Reason::HeadTimeout | Reason::BodyTimeout => Ended::TimedOut.into(),
                        _ => self.failure(&fault),
                    }));
                }
            }
            if let BodyBound::Cut(most) = self.bound {
                if self.response.body.len() >= most {
                    self.response.body.truncate(most);
                    return Some(Ok(core::mem::take(&mut self.response)));
                }
            }
        }
        None
    }

    fn failure(&self, why: &dyn fmt::Display) -> HttpFailure {
        self.broken.clone().unwrap_or_else(|| unreachable("the connection failed", why))
    }
}

/// Copies the fields of a response, which were valid when they were parsed.
fn copy_fields(head: &ResponseHead<'_>) -> Fields {
    let mut fields = Fields::new();
    for (name, value) in head.fields {
        fields.push(name, value);
    }
    fields
}

/// Length from which the text about failed addresses does not grow.
const MAX_TRIED_TEXT: usize = 1_000;

/// Maximum time for one of several addresses. With many addresses it is shorter.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(2);
