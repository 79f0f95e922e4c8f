//! One request over HTTP and the response to it, on a connection of its own

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Instant;

#[cfg(feature = "tls")]
use mcp_blocking::tls::ClientTls;
use mcp_proto::h1::Limits;
use mcp_proto::h1::client::{Connection, Event};
use mcp_proto::head::{BodySize, Fields};
use mcp_proto::http::client::Url;
use mcp_proto::http::fields::{AUTHORIZATION, CONTENT_TYPE};
use mcp_std::{Clock, Duplex, Interest, Ready, Selector, Socket, Transport};

/// A server at a URL
#[derive(Clone)]
pub(super) struct Site {
    url: Url,
    addresses: Vec<SocketAddr>,
    /// What `Authorization` holds
    credential: Option<String>,
    #[cfg(feature = "tls")]
    tls: ClientTls,
}

/// The head of a response
#[derive(Clone)]
pub(super) struct Head {
    pub(super) status: u16,
    fields: Vec<(String, String)>,
}

/// What a response is made of
pub(super) enum Came {
    Head(Head),
    Body(Vec<u8>),
    /// It is complete
    End,
    /// There is no more, for this reason
    Broken(String),
}

/// A request that was made
pub(super) struct Exchange {
    transport: Transport,
    connection: Connection,
    clock: Clock,
}

/// A response
pub(super) struct Reply {
    pub(super) head: Head,
    /// What came of its body
    pub(super) body: Vec<u8>,
}

impl Site {
    /// Finds the server, and makes sure that somebody is there
    pub(super) fn find(url: Url, credential: Option<String>, timeout: Duration) -> io::Result<Self> {
        let origin = url.origin();
        let addresses = (&*origin.host, origin.port).to_socket_addrs()?.collect();
        let mut site = Self {
            url,
            addresses,
            credential,
            #[cfg(feature = "tls")]
            tls: ClientTls::new(),
        };
        let reached = site.connect(timeout)?.peer_addr()?;
        // The one that answers is the one that is talked to.
        site.addresses = vec![reached];
        if site.url.origin().secure {
            site.transport(timeout)?.close();
        }
        Ok(site)
    }

    fn connect(&self, timeout: Duration) -> io::Result<TcpStream> {
        let mut last = ErrorKind::AddrNotAvailable.into();
        for address in &self.addresses {
            match TcpStream::connect_timeout(address, timeout) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// A connection, with TLS agreed on where that is to be
    fn transport(&self, timeout: Duration) -> io::Result<Transport> {
        let socket = Socket::tcp(self.connect(timeout)?)?;
        #[cfg(feature = "tls")]
        if self.url.origin().secure {
            let until = Instant::now() + timeout;
            let mut transport = self.tls.connect(socket, &self.url.origin().host)?;
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

impl Head {
    /// The value of a field, if there is one
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether the body is of this type, whatever the parameters are
    pub(super) fn is_of(&self, kind: &str) -> bool {
        let value = self.get(CONTENT_TYPE).unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(kind)
    }

    /// The status, and the type of the body if it has one
    pub(super) fn text(&self) -> String {
        let kind = self.get(CONTENT_TYPE).map(|kind| format!(" and the type {kind:?}")).unwrap_or_default();
        format!("the status {}{kind}", self.status)
    }
}

impl Exchange {
    /// Makes a request
    pub(super) fn begin(
        site: &Site,
        method: &str,
        mut fields: Fields,
        body: Option<&[u8]>,
        timeout: Duration,
    ) -> io::Result<Self> {
        let transport = site.transport(timeout)?;
        let clock = Clock::start();
        let now = clock.now();
        let mut limits = Limits::default();
        // Who waits for how long is decided elsewhere.
        (limits.head_timeout, limits.body_idle) = (FOREVER, FOREVER);
        let mut connection = Connection::new(now, limits);
        if let Some(credential) = &site.credential {
            fields.push(AUTHORIZATION, credential.as_bytes());
        }
        let size = body.map_or(BodySize::None, |body| BodySize::Exact(body.len() as u64));
        let (target, host) = (site.url.target(), site.url.origin().authority());
        let asked = connection.request(now, method, target, &host, &fields, size);
        let asked = asked.and_then(|()| body.map_or(Ok(()), |body| connection.body(body)));
        asked.and_then(|()| connection.end(now)).map_err(io::Error::other)?;
        Ok(Self { transport, connection, clock })
    }

    /// Writes and reads as far as it goes now
    fn step(&mut self, ready: Ready) {
        let now = self.clock.now();
        // Where that fails, reading says why.
        let _ = self.transport.flush_some();
        while ready.writable && !self.connection.transmit().is_empty() {
            match self.transport.write(self.connection.transmit()) {
                Ok(n @ 1..) => self.connection.consume(n),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // What was said before it left is still there to be read.
                _ => self.connection.consume(self.connection.transmit().len()),
            }
        }
        if ready.readable || self.transport.is_pending() {
            let mut chunk = [0; 64 * 1024];
            match self.transport.read(&mut chunk) {
                Ok(0) => self.connection.handle_eof(now),
                Ok(n) => self.connection.handle_input(now, &chunk[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.connection.handle_broken(now),
            }
        }
    }

    /// What has come, one thing at a time
    pub(super) fn poll(&mut self) -> Option<Came> {
        let head = |response: mcp_proto::head::Response<'_>| Head {
            status: response.status,
            fields: response
                .fields
                .iter()
                .map(|(name, value)| ((*name).to_owned(), String::from_utf8_lossy(value).into_owned()))
                .collect(),
        };
        Some(match self.connection.poll_event(self.clock.now(), head)? {
            Event::Head(head) => Came::Head(head),
            Event::Body(bytes) => Came::Body(bytes.to_vec()),
            Event::End => Came::End,
            Event::Closed => Came::Broken("it closed the connection without a response".into()),
            Event::Fault(fault) => Came::Broken(format!("its response cannot be read: {fault}")),
        })
    }
}

/// Lets exchanges move on: waits until one of them can, at most until `until`; an error leaves nothing to wait for
pub(super) fn advance<'a>(
    exchanges: impl Iterator<Item = &'a mut Exchange>,
    until: Instant,
) -> io::Result<()> {
    let mut exchanges: Vec<&mut Exchange> = exchanges.collect();
    let (mut selector, mut found) = (Selector::new()?, Vec::new());
    for (exchange, token) in exchanges.iter().zip(0..) {
        let write = !exchange.connection.transmit().is_empty();
        let interest = Interest { read: exchange.connection.wants_input(), write };
        selector.add(exchange.transport.socket(), token, exchange.transport.interest(interest))?;
    }
    let pending = exchanges.iter().any(|exchange| exchange.transport.is_pending());
    let until = if pending { Instant::now() } else { until };
    selector.wait(Some(until.saturating_duration_since(Instant::now())), &mut found)?;
    for (exchange, token) in exchanges.iter_mut().zip(0..) {
        let ready = found.iter().find(|(found, _)| *found == token);
        exchange.step(ready.map(|(_, ready)| *ready).unwrap_or_default());
    }
    Ok(())
}

/// Makes a request and gives what it is answered with: of a `GET` the head alone, of a stream that goes on what came
/// until then
pub(super) fn perform(
    site: &Site,
    method: &str,
    fields: Fields,
    body: Option<&[u8]>,
    until: Instant,
) -> Result<Reply, String> {
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let begun = Exchange::begin(site, method, fields, body, left);
    let mut exchange = begun.map_err(|error| format!("there is no connection: {error}"))?;
    let mut reply = None;
    loop {
        while let Some(came) = exchange.poll() {
            match (came, &mut reply) {
                (Came::Head(head), _) => reply = Some(Reply { head, body: Vec::new() }),
                (Came::Body(piece), Some(reply)) => reply.body.extend_from_slice(&piece),
                (Came::Broken(why), _) => return Err(why),
                _ => return reply.ok_or_else(|| NO_RESPONSE.into()),
            }
        }
        let enough = |reply: &Reply| method == "GET" || reply.body.len() > MOST;
        if Instant::now() >= until || reply.as_ref().is_some_and(enough) {
            return reply.ok_or_else(|| NO_RESPONSE.into());
        }
        advance(core::iter::once(&mut exchange), until).map_err(|error| error.to_string())?;
    }
}

const NO_RESPONSE: &str = "there was no response";
/// Longer than any check takes
const FOREVER: Duration = Duration::from_secs(24 * 60 * 60);
/// Bytes of the body of one response
const MOST: usize = 16 << 20;
