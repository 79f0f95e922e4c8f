//! A server over HTTP/1.1 on TCP sockets of `smoltcp`, polled by the loop of the program.
//!
//! The program has the network card, as a [`Device`] of `smoltcp`, the [`Interface`] with its addresses, and the
//! [`SocketSet`]. The server takes some of the sockets, and leaves others to the program.
//!
//! ```no_run
//! use core::convert::Infallible;
//! use mcp_embedded::{Application, Turn};
//! use mcp_embedded::http::{HttpServer, Settings};
//! use mcp_proto::{Instant, Limits, server::Config, sync::Arc};
//! use smoltcp::{iface::{Interface, SocketHandle, SocketSet}, phy::Device};
//!
//! fn serve(
//!     iface: &mut Interface,
//!     card: &mut impl Device,
//!     sockets: &mut SocketSet<'_>,
//!     handles: [SocketHandle; 6],
//!     application: &mut impl Application,
//!     now: fn() -> Instant,
//!     generator: fn(&mut [u8]) -> Result<(), Infallible>,
//! ) -> Result<(), Box<dyn core::error::Error>> {
//!     let config = Arc::new(Config::new("device", "1.0").limits(Limits::tiny()));
//!     let settings = Settings::tiny(80, handles.len());
//!     let mut server = HttpServer::new(config, settings, handles, generator)?;
//!     loop {
//!         match server.poll_network(now(), iface, card, sockets, application) {
//!             Turn::Idle(_) => { /* sleep until an interrupt, or this time */ }
//!             _ => {}
//!         }
//!     }
//! }
//! ```

mod entropy;
mod slot;

pub use self::entropy::EntropyError;

use core::time::Duration;

use mcp_proto::h1::{EvictionClass, HttpLimits};
use mcp_proto::http::server::{Admission, Config, Denial, Event, Server};
use mcp_proto::server::{self, Engine};
use mcp_proto::sync::Arc;
use mcp_proto::{Instant, Limits};
use smoltcp::iface::{Interface, PollIngressSingleResult, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::Device;

use self::slot::Slot;
use crate::{Application, Turn};

/// Largest number of packets that one turn takes from the card.
const PACKETS_PER_TURN: usize = 8;

/// The settings of a server over HTTP.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The TCP port, which is not 0.
    pub port: u16,
    /// The path, the names under which the server is reached, and the bounds of exchanges and sessions.
    pub http: Config,
    /// The bounds of a connection.
    pub limits: HttpLimits,
}

impl Settings {
    /// Returns settings for [`Limits::tiny`] and this number of sockets.
    ///
    /// Calls and streams take a place each while they are open. Streams have three quarters of the places, and at least one: with
    /// three sockets one, with six sockets three.
    ///
    /// A request has a head and a body of at most 2 KiB. Four sessions may exist, each until it was not used for two minutes.
    /// Messages sent while no stream is open are not replayed. A connection without a request ends after 15 s, and a request that
    /// is not complete after 10 s. `Host` must be a loopback name until [`Config::allow_host`] names the device.
    #[must_use]
    pub fn tiny(port: u16, sockets: usize) -> Self {
        let mut limits = HttpLimits::small();
        limits.max_body = Limits::tiny().max_frame as u64;
        limits.body_idle_timeout = Duration::from_secs(10);
        limits.body_timeout = Duration::from_secs(20);
        limits.keep_alive = Duration::from_secs(15);
        let http = Config::new()
            .max_exchanges(sockets)
            .max_sessions(4, 4)
            .session_idle_timeout(Duration::from_secs(120))
            .max_streams_per_session(2)
            .max_get_streams_per_session(1)
            .replay_bytes(0);
        Self { port, http, limits }
    }
}

/// A server over HTTP on `N` TCP sockets, at least two.
///
/// Two thirds of the sockets are places: as many connections are served at once. Other clients take the sockets that are left,
/// and wait there:
///
/// - Once the request of one has arrived, the connection that loses least by it is ended, and the request is served: one that
///   is idle or slow, or whose request is not complete.
/// - If there is none for a second, the request gets 503 with `Retry-After`.
/// - While all sockets are taken, none listens: the connection of one more client is refused (a reset), and it may try again.
///
/// Buffers of sockets are the program's. The server has its connections in place, and the rest on the heap. Input waits in
/// its socket while the heap has no room for it. After a second without room its connection ends, with 408 if a request has
/// begun. A request that arrives whole and finds no memory gets 503. A response that finds none for a second is lost with its
/// connection.
#[derive(Debug)]
pub struct HttpServer<const N: usize> {
    server: Server,
    port: u16,
    limits: HttpLimits,
    slots: [Slot; N],
    now: Instant,
}

impl<const N: usize> HttpServer<N> {
    /// Number of connections that are served at once.
    pub const PLACES: usize = N - N.div_ceil(3);

    /// Creates a server whose sockets listen from the first turn on.
    ///
    /// Session ids are derived from 64 bytes that `entropy` fills, which is called twice. They have to come from a
    /// cryptographic source: a hardware generator, or a secret seed that differs at each start. Anyone who can guess them can
    /// use the sessions of others.
    ///
    /// # Errors
    ///
    /// [`EntropyError`] if the source fails, or repeats itself. Then there is no server; serve a byte stream, which needs no
    /// entropy, or try again later.
    pub fn new<E>(
        config: Arc<server::Config>,
        settings: Settings,
        sockets: [SocketHandle; N],
        entropy: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<Self, EntropyError<E>> {
        const { assert!(N >= 2, "one socket is for the client that waits") };
        let entropy = entropy::draw(entropy)?;
        let Settings { port, http, limits } = settings;
        let mut server = Server::new(config, Arc::new(http), entropy);
        server.set_max_connections(Self::PLACES);
        Ok(Self { server, port, limits, slots: sockets.map(Slot::new), now: Instant::ZERO })
    }

    /// Returns the engine, for commands of the application outside of [`Application`].
    pub const fn engine(&mut self) -> &mut Engine {
        self.server.engine()
    }

    /// Returns the server, for example to set a [validator](Server::set_validator) of tokens.
    ///
    /// A token that the validator does not decide about is denied with 503.
    pub const fn server(&mut self) -> &mut Server {
        &mut self.server
    }

    /// Performs one turn of the interface and of the server.
    ///
    /// It takes a bounded number of packets, and never waits.
    pub fn poll_network<D, A>(
        &mut self,
        now: Instant,
        iface: &mut Interface,
        card: &mut D,
        sockets: &mut SocketSet<'_>,
        app: &mut A,
    ) -> Turn
    where
        D: Device + ?Sized,
        A: Application,
    {
        let time = self.network_time(now);
        let mut is_busy = false;
        iface.poll_maintenance(time);
        for _ in 0..PACKETS_PER_TURN {
            match iface.poll_ingress_single(time, card, sockets) {
                PollIngressSingleResult::None => break,
                _ => is_busy = true,
            }
        }
        let turn = self.poll(now, sockets, app);
        is_busy |= iface.poll_egress(time, card, sockets) == PollResult::SocketStateChanged;
        if is_busy {
            return Turn::Busy;
        }
        let deadline = iface.poll_at(time, sockets).and_then(|at| u64::try_from(at.total_micros()).ok());
        turn.and(Turn::Idle(deadline.map(Instant::from_micros)))
    }

    /// Performs one turn of the server alone: takes what its sockets have received, hands the events to the application,
    /// and writes what the sockets take.
    ///
    /// For programs that poll the interface themselves, before and after.
    pub fn poll<A: Application>(&mut self, now: Instant, sockets: &mut SocketSet<'_>, app: &mut A) -> Turn {
        self.now = self.now.max(now);
        let now = self.now;
        let mut is_busy = false;
        for slot in &mut self.slots {
            is_busy |= slot.receive(now, self.port, &self.limits, &mut self.server, sockets);
        }
        let (has_admitted, admits_at) = self.admit(now, sockets);
        let wakes_at = self.advance(now, app);
        for slot in &mut self.slots {
            is_busy |= slot.send(now, &mut self.server, sockets);
        }
        if is_busy || has_admitted {
            return Turn::Busy;
        }
        let slots = self.slots.iter().filter_map(Slot::poll_timeout);
        let deadlines = self.server.poll_timeout().into_iter().chain(wakes_at).chain(admits_at);
        Turn::Idle(deadlines.chain(slots).min())
    }

    /// Returns the time for the interface, which does not go back.
    fn network_time(&mut self, now: Instant) -> smoltcp::time::Instant {
        self.now = self.now.max(now);
        smoltcp::time::Instant::from_micros(i64::try_from(self.now.as_micros()).unwrap_or(i64::MAX))
    }

    /// Gives clients that wait their places. Returns whether one has got an answer, and when to try again.
    fn admit(&mut self, now: Instant, sockets: &mut SocketSet<'_>) -> (bool, Option<Instant>) {
        let (mut has_admitted, mut is_crowded) = (false, false);
        let mut last = None;
        while let Some(next) = self.next_waiting(last) {
            last = Some(next);
            match self.admit_one(now, next, sockets) {
                Some(was_admitted) => has_admitted |= was_admitted,
                None => is_crowded = true,
            }
        }
        for slot in self.slots.iter_mut().filter(|slot| slot.is_served()) {
            if let Some(connection) = slot.connection() {
                connection.end_after_response(is_crowded);
            }
        }
        let evictions = self.slots.iter().filter_map(Slot::eviction).map(|eviction| eviction.at);
        (has_admitted, evictions.min().filter(|_| is_crowded))
    }

    /// Returns the connection that has waited for longest, of those that came after `last`.
    fn next_waiting(&self, last: Option<(Instant, usize)>) -> Option<(Instant, usize)> {
        let waiting = self.slots.iter().zip(0..).filter_map(|(slot, at)| Some((slot.held_since()?, at)));
        waiting.filter(|next| last.is_none_or(|last| last < *next)).min()
    }

    /// Gives a client that waits its place, or refuses it after its time. Returns whether it did, and `None` if its request
    /// still waits for a place.
    fn admit_one(
        &mut self,
        now: Instant,
        (since, at): (Instant, usize),
        sockets: &mut SocketSet<'_>,
    ) -> Option<bool> {
        let has_request = self.slots.get_mut(at)?.connection()?.is_head_held();
        let is_full = self.slots.iter().filter(|slot| slot.is_served()).count() >= Self::PLACES;
        let has_place = !is_full || (has_request && self.evict_one(now, sockets));
        let is_overdue = since + slot::MAX_WAIT <= now;
        let slot = self.slots.get_mut(at)?;
        let admission = match (has_place, has_request) {
            (true, _) => Admission::Open,
            (false, true) if is_overdue => Admission::Refused,
            (false, true) => return None,
            (false, false) => {
                if is_overdue {
                    slot.evict(now, EvictionClass::Silent, &mut self.server, sockets);
                }
                return Some(is_overdue);
            }
        };
        let connection = slot.connection()?;
        connection.set_admission(admission);
        connection.drive(now, &mut self.server);
        Some(true)
    }

    /// Ends the connection that loses least by it, if there is one. Returns whether there was.
    fn evict_one(&mut self, now: Instant, sockets: &mut SocketSet<'_>) -> bool {
        let candidates = self.slots.iter_mut().filter_map(|slot| Some((slot.eviction()?, slot)));
        let found =
            candidates.filter(|(eviction, _)| eviction.at <= now).min_by_key(|(eviction, _)| *eviction);
        let Some((eviction, slot)) = found else { return false };
        slot.evict(now, eviction.class, &mut self.server, sockets);
        true
    }

    /// Processes what is due, hands all events to the application, and returns when it wants to be called.
    fn advance<A: Application>(&mut self, now: Instant, app: &mut A) -> Option<Instant> {
        if self.server.poll_timeout().is_some_and(|at| at <= now) {
            self.server.handle_timeout(now);
        }
        while let Some(event) = self.server.poll_event(now) {
            match event {
                Event::Server(event) => app.handle_event(now, self.server.engine(), event),
                Event::Token { exchange, .. } => self.server.deny(now, exchange, &Denial::Unavailable),
                _ => {}
            }
        }
        let wakes_at = app.poll(now, self.server.engine());
        while let Some(exchange) = self.server.poll_ready(now) {
            self.slots.iter_mut().any(|slot| slot.mark_ready(now, exchange));
        }
        wakes_at
    }
}
