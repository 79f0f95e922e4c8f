//! Connecting, and one exchange on the connection.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString as _};
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind};

use mcp_proto::auth::{FetchFailure, FetchResponse};
use mcp_proto::h1::client::{Connection, Event};
use mcp_proto::h1::{HttpLimits, Reason};
use mcp_proto::head::{BodySize, Fields, ResponseHead};
use mcp_proto::http::client::Origin;

use super::{Budget, HttpFetcher, Outgoing, unreachable};
use crate::Clock;
use crate::adapter::NetStream;
use crate::adapter::poll::Interest;
use crate::io::{Duplex as _, Socket};

impl HttpFetcher {
    /// Connects to the first address that accepts.
    pub(super) fn connect(
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
pub(super) fn run(
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

    fn failure(&self, why: &dyn core::fmt::Display) -> FetchFailure {
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
