//! The HTTP requests of a flow, sent under their policy.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs as _;
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use mcp_proto::auth::{Fetch, FetchFailure, FetchPolicy, FetchResponse, Network};
use mcp_proto::h1::client::{Connection, Event};
use mcp_proto::h1::{HttpLimits, Reason};
use mcp_proto::head::{BodySize, Fields, ResponseHead};
use mcp_proto::http::client::{Origin, Url};

use super::interaction::{Budget, Cancellation, Ended};
use mcp_std::Clock;
use mcp_std::NetStream;
use mcp_std::io::{Duplex as _, Socket, interleave_families, known_addresses};
use mcp_std::poll::Interest;
#[cfg(feature = "tls")]
use mcp_std::tls::ClientTls;

#[cfg(test)]
mod tests;

/// A sender of the requests of a flow.
///
/// An implementation enforces the [policy](FetchPolicy) of each request, sends it once, without cookies, and returns
/// a redirect like any other response.
pub trait Fetcher: Send + Sync {
    /// Sends a request and waits for the whole response.
    ///
    /// # Errors
    ///
    /// [`FetchFailure`] if there is no whole response. No part of it may contain the query of the URL, a field or a
    /// body, because these hold secrets (SEC-019).
    fn fetch(&self, fetch: &Fetch) -> Result<FetchResponse, FetchFailure>;

    /// Does the same, and ends early when `cancellation` is cancelled.
    ///
    /// The default ignores `cancellation`: the request then ends by its timeout.
    ///
    /// # Errors
    ///
    /// The same as [`fetch`](Self::fetch); [`FetchFailure::Unreachable`] for a cancelled request.
    fn fetch_cancellable(
        &self,
        fetch: &Fetch,
        cancellation: &Cancellation,
    ) -> Result<FetchResponse, FetchFailure> {
        let _ = cancellation;
        self.fetch(fetch)
    }

    /// Returns the sender of the requests of one flow, which may keep what it decides for its first request; `None`,
    /// the default, if this one serves all flows alike.
    fn for_flow(&self) -> Option<Arc<dyn Fetcher>> {
        None
    }
}

/// A [`Fetcher`] with the HTTP/1.1 client of [`mcp_proto::h1`], on Unix.
///
/// Each request has a connection of its own. There are no redirects, cookies or proxies, and nothing is cached.
/// `https` needs the feature `tls`.
///
/// The host of a request is resolved once, and only addresses that the policy permits are connected to, so that a
/// second answer of the name server cannot replace a checked one (SEC-011). `localhost` and the names below it are
/// `127.0.0.1` and `::1`, whatever a name server says (RFC 6761, 6.3).
///
/// The network of the server, which decides what the policy permits, is that of the first lookup of its host
/// [in a flow](Fetcher::for_flow): otherwise its name server could open another one in the middle of it. Requests
/// outside of a flow decide each for itself.
///
/// A name is resolved on a thread of its own. If the resolver of the system hangs, that thread outlives the request.
///
/// A cancelled request is [`FetchFailure::Unreachable`] with the text `cancelled`.
#[derive(Clone)]
pub struct HttpFetcher {
    #[cfg(feature = "tls")]
    tls: ClientTls,
    resolver: Resolver,
    /// Present in a flow.
    network: Option<Arc<FirstNetwork>>,
}

/// The parts of a request that are sent, with its policy.
struct Outgoing<'a> {
    method: &'a str,
    url: &'a Url,
    fields: &'a Fields,
    body: &'a [u8],
    policy: Bounds<'a>,
}

/// The bounds of a [`FetchPolicy`].
struct Bounds<'a> {
    timeout: Duration,
    max_body: usize,
    reachable_from: Option<&'a Origin>,
}

impl HttpFetcher {
    /// Creates a fetcher that trusts the roots of the system and uses its resolver.
    #[must_use]
    pub fn new() -> Self {
        Self {
            #[cfg(feature = "tls")]
            tls: ClientTls::new(),
            resolver: system(),
            network: None,
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
    /// It is called on a thread of its own, and neither for IP addresses nor for `localhost`. The policy applies to
    /// what it returns.
    #[must_use]
    pub fn resolver<F>(mut self, resolver: F) -> Self
    where
        F: Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    {
        self.resolver = Arc::new(resolver);
        self
    }

    fn send(
        &self,
        outgoing: &Outgoing<'_>,
        cancellation: &Cancellation,
    ) -> Result<FetchResponse, FetchFailure> {
        let origin = outgoing.url.origin();
        if origin.secure && cfg!(not(feature = "tls")) {
            let why = "`https` needs the feature `tls`, which is not enabled";
            return Err(FetchFailure::Unreachable(why.into()));
        }
        let budget = Budget::new(outgoing.policy.timeout, cancellation);
        let network = self.network.clone().unwrap_or_default();
        let from = outgoing.policy.reachable_from;
        let addresses = permitted(&self.resolver, &network, origin, from, &budget)?;
        let mut stream = self.connect(origin, addresses, &budget)?;
        let outcome = run(&mut stream, outgoing, &budget);
        stream.close();
        outcome
    }
}

impl Fetcher for HttpFetcher {
    fn fetch(&self, fetch: &Fetch) -> Result<FetchResponse, FetchFailure> {
        self.fetch_cancellable(fetch, &Cancellation::new())
    }

    fn fetch_cancellable(
        &self,
        fetch: &Fetch,
        cancellation: &Cancellation,
    ) -> Result<FetchResponse, FetchFailure> {
        let FetchPolicy { timeout, max_body, reachable_from, .. } = &fetch.policy;
        let policy =
            Bounds { timeout: *timeout, max_body: *max_body, reachable_from: reachable_from.as_ref() };
        let Fetch { method, url, fields, body, .. } = fetch;
        self.send(&Outgoing { method, url, fields, body, policy }, cancellation)
    }

    fn for_flow(&self) -> Option<Arc<dyn Fetcher>> {
        Some(Arc::new(Self { network: Some(Arc::default()), ..self.clone() }))
    }
}

impl Default for HttpFetcher {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for HttpFetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpFetcher").finish_non_exhaustive()
    }
}

impl From<Ended> for FetchFailure {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::TimedOut => Self::TimedOut,
            Ended::Cancelled => Self::Unreachable("cancelled".into()),
        }
    }
}

/// Returns the failure of a step on the way to a host.
fn unreachable(what: &str, error: &dyn fmt::Display) -> FetchFailure {
    FetchFailure::Unreachable(format!("{what}: {error}").into())
}

// The addresses of a host, and which of them a policy permits (SEC-011).

/// A function from a host name and a port to addresses.
type Resolver = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// Returns the resolver of the system.
fn system() -> Resolver {
    Arc::new(|host, port| Ok((host, port).to_socket_addrs()?.collect()))
}

/// The host of the server of a flow, and the network that its first lookup found.
///
/// Whoever runs the server may run its name server, too: a second answer could open another network (SEC-011).
type FirstNetwork = OnceLock<(Box<str>, Network)>;

/// Returns the addresses of `target` that a server at `reachable_from` may refer to, in the order to try them.
fn permitted(
    resolver: &Resolver,
    first: &FirstNetwork,
    target: &Origin,
    reachable_from: Option<&Origin>,
    budget: &Budget<'_>,
) -> Result<VecDeque<SocketAddr>, FetchFailure> {
    let mut addresses = look_up(resolver, target, budget)?;
    if let Some(server) = reachable_from {
        let network = match first.get() {
            Some((host, network)) if *host == server.host => *network,
            _ if server.host == target.host => network_of(&addresses),
            _ => network_of(&look_up(resolver, server, budget)?),
        };
        // The requests of a flow are all for one server, one after another.
        let _ = first.set((server.host.clone(), network));
        // SEC-011
        addresses.retain(|address| network.permits(address.ip()));
        if addresses.is_empty() {
            return Err(FetchFailure::Forbidden(target.host.clone()));
        }
    }
    Ok(interleave_families(addresses.into_iter()))
}

/// Returns the network that all addresses are in, or the public one, which permits the fewest targets.
fn network_of(addresses: &[SocketAddr]) -> Network {
    let mut networks = addresses.iter().map(|address| Network::of(address.ip()));
    match networks.next() {
        Some(first) if networks.all(|other| other == first) => first,
        _ => Network::Public,
    }
}

/// Returns the addresses of a host, at least one.
fn look_up(
    resolver: &Resolver,
    origin: &Origin,
    budget: &Budget<'_>,
) -> Result<Vec<SocketAddr>, FetchFailure> {
    if let Some(known) = known_addresses(&origin.host, origin.port) {
        return Ok(known);
    }
    let what = format!("no address of {}", origin.host);
    let (sender, answer) = mpsc::channel();
    let (resolver, host, port) = (Arc::clone(resolver), origin.host.clone(), origin.port);
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
            Err(RecvTimeoutError::Disconnected) => return Err(unreachable(&what, &"the lookup panicked")),
        }
    };
    match found {
        Ok(found) if found.is_empty() => Err(unreachable(&what, &"the name has none")),
        Ok(found) => Ok(found),
        Err(error) => Err(unreachable(&what, &error)),
    }
}

// Connecting, and one exchange on the connection.

impl HttpFetcher {
    /// Connects to the first address that accepts.
    fn connect(
        &self,
        origin: &Origin,
        mut addresses: VecDeque<SocketAddr>,
        budget: &Budget<'_>,
    ) -> Result<NetStream, FetchFailure> {
        let mut tried = String::new();
        while let Some(address) = addresses.pop_front() {
            let others = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
            match connect_to(address, others, budget)? {
                Ok(socket) => {
                    let stream = self.wrap(socket, origin);
                    return stream.map_err(|error| unreachable("no connection", &error));
                }
                Err(error) => tried = format!("{tried}; {address}: {error}"),
            }
        }
        let tried = tried.strip_prefix("; ").unwrap_or("there is no address");
        Err(FetchFailure::Unreachable(format!("no connection to {}: {tried}", origin.host).into()))
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

/// Connects to one address. The outer error ends the request, the inner one the attempt.
fn connect_to(
    address: SocketAddr,
    others: u32,
    budget: &Budget<'_>,
) -> Result<io::Result<Socket>, FetchFailure> {
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
    outgoing: &Outgoing<'_>,
    budget: &Budget<'_>,
) -> Result<FetchResponse, FetchFailure> {
    let clock = Clock::start();
    let mut exchange = Exchange {
        http: Connection::new(clock.now(), limits(outgoing.policy.max_body, budget)),
        clock,
        response: FetchResponse::default(),
        broken: None,
    };
    exchange.begin(outgoing).map_err(|error| unreachable("the request cannot be sent", &error))?;
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

/// Returns the limits of the connection: the policy's body, and no time that is shorter than the policy's.
fn limits(max_body: usize, budget: &Budget<'_>) -> HttpLimits {
    let mut limits = HttpLimits::default();
    let left = budget.left().unwrap_or(Duration::MAX);
    limits.max_body = max_body as u64;
    (limits.head_timeout, limits.body_idle_timeout, limits.keep_alive) = (left, left, left);
    limits
}

struct Exchange {
    http: Connection,
    clock: Clock,
    response: FetchResponse,
    /// The error of the stream.
    broken: Option<String>,
}

impl Exchange {
    fn begin(&mut self, outgoing: &Outgoing<'_>) -> Result<(), mcp_proto::h1::WriteError> {
        let now = self.clock.now();
        let size = match outgoing.body.len() {
            0 => BodySize::None,
            length => BodySize::Exact(length as u64),
        };
        let (url, host) = (outgoing.url, outgoing.url.origin().authority());
        self.http.request(now, outgoing.method, url.target(), &host, outgoing.fields, size)?;
        self.http.write_body(outgoing.body)?;
        self.http.end(now)
    }

    fn write(&mut self, stream: &mut NetStream) {
        while !self.http.transmit().is_empty() {
            match stream.write(self.http.transmit()) {
                Ok(n) => self.http.consume(n),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The server may have answered before it closed its side.
                Err(_) => self.http.handle_write_failed(),
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
            Err(error) => {
                self.broken = Some(error.to_string());
                self.http.handle_broken(now);
            }
        }
    }

    /// Processes what has arrived and returns the outcome once there is one.
    fn poll(&mut self) -> Option<Result<FetchResponse, FetchFailure>> {
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
                        Reason::BodyTooLong => FetchFailure::TooLarge,
                        Reason::HeadTimeout | Reason::BodyTimeout => FetchFailure::TimedOut,
                        _ => self.failure(&fault),
                    }));
                }
            }
        }
        None
    }

    fn failure(&self, why: &dyn fmt::Display) -> FetchFailure {
        match &self.broken {
            Some(error) => FetchFailure::Unreachable(error.as_str().into()),
            None => unreachable("the connection failed", why),
        }
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

/// Maximum time for one of several addresses. With many addresses it is shorter.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(2);
