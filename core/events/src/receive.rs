//! A web server on `std` that takes deliveries in: the [`Receiver`], and a function that keeps what comes (feature `receive`).
//!
//! It serves `POST` at one path, over HTTPS with [`tls`](ReceiverServer::tls), or over HTTP behind a proxy that has the certificate:
//! callback URLs are `https`. In a web framework, use [`Receiver`] itself, or the layer of `mcp-tower`.
//!
//! ```no_run
//! use std::sync::{Arc, Mutex};
//!
//! use mcp_events::receive::ReceiverServer;
//! use mcp_events::receiver::{Limits, Message, Receiver};
//!
//! let receiver = Arc::new(Mutex::new(Receiver::new(Limits::default())));
//! let server = ReceiverServer::bind("127.0.0.1:8080", receiver.clone())?.path("/hooks");
//! let running = server.start(|_subscription, message| {
//!     // It is stored here; `false` makes the sender try again.
//!     if let Message::Event(event) = message {
//!         println!("{}: {}", event.event_id, event.data);
//!     }
//!     true
//! })?;
//! # drop(running);
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(test)]
mod tests;

use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Mutex;
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use mcp_proto::h1::HttpLimits;
use mcp_proto::h1::server::{Connection, Event};
use mcp_proto::head::{BodySize, FieldLine, Fields, RequestHead};
use mcp_std::io::{Duplex as _, OpenConnection, OpenConnections, Socket};
use mcp_std::poll::Interest;
use mcp_std::{Clock, NetStream, catch};

pub use mcp_std::tls::ServerTls;

use crate::receiver::{Answer, Message, Receiver, RegistrationKey, Request};

/// Connections that are served at once, each on a thread.
const MAX_CONNECTIONS: usize = 64;
/// Time for a connection, from its first byte to its last one.
const CONNECTION_TIME: Duration = Duration::from_secs(30);
/// Pause after an error of the listener, when no descriptor is left for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Pause between two looks at the open connections.
const FINISH_PAUSE: Duration = Duration::from_millis(5);

/// Keeps a message; returns whether it is kept.
type Keep = dyn Fn(RegistrationKey, &Message) -> bool + Send + Sync;

/// A web server for deliveries, before it is started.
///
/// At most 64 connections are open at once; one more takes the place of the oldest one whose request has not arrived, and is closed if
/// there is none: its sender tries again. Each has one request, and 30 s for it. A head has at most 16 KiB, and a body
/// [`Limits::max_body`](crate::receiver::Limits::max_body) bytes: 413 answers a larger one.
pub struct ReceiverServer {
    listener: TcpListener,
    tls: Option<ServerTls>,
    path: String,
    receiver: Arc<Mutex<Receiver>>,
}

impl ReceiverServer {
    /// Listens at an address. Its path is `/`.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn bind(address: impl ToSocketAddrs, receiver: Arc<Mutex<Receiver>>) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address)?, tls: None, path: "/".to_owned(), receiver })
    }

    /// Sets the path of the callback URL; all others are answered with 404. The query is not looked at.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Sets the certificate, to be reached by HTTPS.
    #[must_use]
    pub fn tls(mut self, tls: ServerTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Returns the address with the port that was chosen for port 0.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Starts to serve on a thread. `keep` keeps each message durably, and returns whether it has (EVT-123): the sender is then told that
    /// it arrived, and else that it has to try again. Of a panic it is told that as well.
    ///
    /// `keep` runs on the thread of its connection, several at once, and should be done within seconds: senders wait for five to ten.
    ///
    /// # Errors
    ///
    /// The operating system has no thread left.
    pub fn start(
        self,
        keep: impl Fn(RegistrationKey, &Message) -> bool + Send + Sync + 'static,
    ) -> io::Result<RunningReceiver> {
        let address = self.listener.local_addr()?;
        let is_stopped = Arc::<AtomicBool>::default();
        let open = OpenConnections::new(MAX_CONNECTIONS);
        let Self { listener, tls, path, receiver } = self;
        let shared = Arc::new(Shared { tls, path, receiver, keep: Box::new(keep), open: open.clone() });
        let flag = is_stopped.clone();
        let thread = thread::Builder::new().name("mcp-webhooks".into());
        let thread = thread.spawn(move || accept(&listener, &shared, &flag))?;
        Ok(RunningReceiver { address, is_stopped, open, thread: Some(thread) })
    }
}

impl fmt::Debug for ReceiverServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiverServer").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A web server that runs. Dropping it ends the listener; requests that have begun are answered.
#[must_use = "dropping it stops the server"]
#[derive(Debug)]
pub struct RunningReceiver {
    address: SocketAddr,
    is_stopped: Arc<AtomicBool>,
    open: OpenConnections,
    thread: Option<JoinHandle<()>>,
}

impl RunningReceiver {
    /// Returns the address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the listener, and waits until the requests that have begun are answered, for `time` at most. Returns whether they are.
    ///
    /// A program that ends sooner takes the answers with it, and the senders of what it has kept try again.
    pub fn finish(mut self, time: Duration) -> bool {
        self.stop();
        let clock = Clock::start();
        let until = clock.now() + time;
        while !self.open.is_empty() {
            if clock.now() >= until {
                return false;
            }
            thread::sleep(FINISH_PAUSE);
        }
        true
    }

    /// Ends the listener, once.
    fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.is_stopped.store(true, Ordering::SeqCst);
        // It ends the wait of the listener.
        let ip = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let address = SocketAddr::new(ip, self.address.port());
        if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
            let _ = thread.join();
        }
    }
}

impl Drop for RunningReceiver {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Shared {
    tls: Option<ServerTls>,
    path: String,
    receiver: Arc<Mutex<Receiver>>,
    keep: Box<Keep>,
    open: OpenConnections,
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, is_stopped: &AtomicBool) {
    loop {
        let accepted = listener.accept();
        if is_stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok((socket, _)) = accepted else {
            thread::sleep(ACCEPT_PAUSE);
            continue;
        };
        let place = shared.open.admit(&socket);
        let shared = shared.clone();
        let run = move |place: OpenConnection| {
            let _ = Socket::tcp(socket)
                .and_then(|socket| match &shared.tls {
                    Some(tls) => NetStream::accept_tls(tls, socket),
                    None => Ok(NetStream::from(socket)),
                })
                .and_then(|stream| serve(stream, &shared, &place));
        };
        // Without a thread the connection is closed, and the sender tries again.
        let _ = place.map(|place| thread::Builder::new().name("mcp-webhook".into()).spawn(|| run(place)));
    }
}

/// A request that is being read.
struct Incoming {
    method: String,
    path: String,
    fields: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Incoming {
    fn new(head: &RequestHead<'_>) -> Self {
        let path = head.target.split('?').next().unwrap_or_default();
        let fields = head.fields.iter().map(|(name, value)| ((*name).into(), value.to_vec()));
        Self { method: head.method.into(), path: path.into(), fields: fields.collect(), body: Vec::new() }
    }
}

impl Shared {
    fn answer(&self, incoming: &Incoming) -> Answer {
        if incoming.path != self.path {
            return Answer::empty(404);
        }
        let fields: Vec<FieldLine<'_>> =
            incoming.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        let request = Request { method: &incoming.method, fields: &fields, body: &incoming.body };
        let outcome = self.receiver().receive(&request, unix_secs());
        match outcome.into_message() {
            Err(answer) => answer,
            Ok((subscription, message, receipt)) => {
                // Without the lock, because it may take its time. The panic hook has reported a panic.
                let is_kept = catch(|| (self.keep)(subscription, &message)).unwrap_or(false);
                self.receiver().confirm(receipt, is_kept)
            }
        }
    }

    fn receiver(&self) -> std::sync::MutexGuard<'_, Receiver> {
        mcp_std::sync::lock(&self.receiver)
    }

    fn limits(&self) -> HttpLimits {
        let mut limits = HttpLimits::default();
        limits.max_head = 16 << 10;
        limits.max_body = u64::try_from(self.receiver().limits().max_body).unwrap_or(u64::MAX);
        (limits.head_timeout, limits.body_timeout) = (Duration::from_secs(10), Duration::from_secs(20));
        limits
    }
}

/// Serves the request of one connection.
fn serve(mut stream: NetStream, shared: &Shared, place: &OpenConnection) -> io::Result<()> {
    let clock = Clock::start();
    let mut http = Connection::new(clock.now(), shared.limits());
    let ends_at = clock.now() + CONNECTION_TIME;
    let (mut incoming, mut is_write_shut) = (None, false);
    let mut buffer = [0; 8 << 10];
    loop {
        http.handle_timeout(clock.now());
        // The time goes on while a message is kept.
        while let Some(event) = http.poll_event(clock.now(), |head, _| Incoming::new(&head)) {
            match (event, &mut incoming) {
                (Event::Head(head), _) => incoming = Some(head),
                // Its length is bounded by the limits of the connection.
                (Event::Body(piece), Some(incoming)) => incoming.body.extend_from_slice(&piece),
                (Event::End, Some(_)) => {
                    place.set_busy();
                    if let Some(incoming) = incoming.take() {
                        respond(&mut http, clock.now(), &shared.answer(&incoming));
                    }
                }
                _ => {}
            }
        }
        if write(&mut stream, &mut http)? {
            if http.wants_write_shutdown() && !core::mem::replace(&mut is_write_shut, true) {
                stream.shutdown_write()?;
            }
            if http.wants_close() {
                stream.close();
                return Ok(());
            }
        }
        let now = clock.now();
        if now >= ends_at {
            return Err(ErrorKind::TimedOut.into());
        }
        let until = http.poll_timeout().map_or(ends_at, |at| at.min(ends_at));
        let is_written = http.transmit().is_empty() && stream.is_flushed();
        let wanted = Interest { read: http.wants_input(), write: !is_written };
        let ready = stream.wait(wanted, Some(until.saturating_duration_since(now)))?;
        if ready.readable && http.wants_input() {
            match stream.read(&mut buffer) {
                Ok(0) => http.handle_eof(clock.now()),
                Ok(n) => http.handle_input(clock.now(), buffer.get(..n).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Writes as much as possible. Returns whether everything is on its way.
fn write(stream: &mut NetStream, http: &mut Connection) -> io::Result<bool> {
    while !http.transmit().is_empty() {
        match stream.write(http.transmit()) {
            Ok(n) => http.consume(n),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    stream.try_flush()?;
    Ok(stream.is_flushed())
}

fn respond(http: &mut Connection, now: mcp_proto::Instant, answer: &Answer) {
    let mut fields = Fields::new();
    if !answer.body.is_empty() {
        fields.push("Content-Type", crate::webhook::MEDIA_TYPE.as_bytes());
    }
    if answer.status == 405 {
        fields.push("Allow", b"POST");
    }
    // A sender opens a connection for each delivery (EVT-111).
    http.close(now);
    // Refused only if the sender is gone.
    let _ = http
        .respond(now, answer.status, &fields, BodySize::Exact(answer.body.len() as u64))
        .and_then(|()| http.write_body(answer.body.as_bytes()))
        .and_then(|()| http.end(now));
}

fn unix_secs() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
