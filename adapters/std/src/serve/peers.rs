//! The connections of a server, and the one wait for all of them

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind, IoSlice};

use crate::{Clock, Duplex, Interest, Listener, Poll, Ready, Socket, Source, is_exhausted};
use mcp_proto::Instant;
use mcp_proto::h1::Limits;
use mcp_proto::http::HeadRecord;
use mcp_proto::http::server::{Connection, ExchangeId, Server};

/// Who listens, and who is connected
#[derive(Debug)]
pub struct Peers {
    listener: Option<Listener>,
    peers: Vec<Peer>,
    /// Those before this one have had their turn since the last wait
    turn: usize,
    /// Those with which something has happened since they were last written to
    moved: Vec<usize>,
    /// Some of them may be over
    over: bool,
    /// Connections that may be open at a time
    pub max: usize,
    /// The bounds of connections
    pub limits: Limits,
    /// Heads of requests and responses are kept
    pub heads: bool,
    /// When connections are accepted again
    accepts_at: Option<Instant>,
    poll: Poll,
    clock: Clock,
    now: Instant,
    scratch: Box<[u8]>,
}

/// What a wait found for a connection
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    ready: Ready,
    /// Reading was wanted
    asked: bool,
    /// A deadline has passed
    due: bool,
}

/// One connection
#[derive(Debug)]
struct Peer {
    socket: Socket,
    connection: Connection,
    /// What the last wait found and was not acted on yet
    found: Found,
    /// When something was read or written last
    used_at: Instant,
    /// Our direction was ended
    shut: bool,
    /// The socket is broken
    broken: bool,
}

impl Peers {
    /// Nobody is connected yet
    pub fn new(listener: Listener) -> Self {
        let clock = Clock::start();
        let mut limits = Limits::default();
        // How long a message may be is for the server to say, which says so in the answer.
        limits.max_body = u64::MAX;
        Self {
            listener: Some(listener),
            peers: Vec::new(),
            turn: 0,
            moved: Vec::new(),
            over: false,
            max: 64,
            limits,
            heads: false,
            accepts_at: None,
            poll: Poll::new(),
            clock,
            now: clock.now(),
            scratch: vec![0; SCRATCH].into(),
        }
    }

    /// The time as of the last look at the clock; cheap
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Looks at the clock
    pub fn tick(&mut self) -> Instant {
        self.now = self.clock.now();
        self.now
    }

    /// What time of day the clock's instants are
    pub fn anchor(&self) -> mcp_proto::Anchor {
        self.clock.anchor()
    }

    /// Where connections are accepted; fails when they are not, or no more
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.as_ref().map_or_else(|| Err(ErrorKind::NotConnected.into()), Listener::address)
    }

    /// Connections that are open
    pub fn count(&self) -> usize {
        self.peers.len()
    }

    /// Whether nobody is connected and nobody can be any more
    pub fn is_over(&self) -> bool {
        self.listener.is_none() && self.peers.is_empty()
    }

    /// Accepts nobody any more, and lets everybody go who has had his answer
    pub fn close(&mut self, server: &mut Server) {
        self.listener = None;
        for peer in &mut self.peers {
            peer.connection.close(self.now);
            peer.connection.drive(self.now, server);
        }
        self.moved.extend(0..self.peers.len());
    }

    /// Ends all connections, whatever is under way
    pub fn abandon(&mut self, server: &mut Server) {
        self.listener = None;
        for mut peer in self.peers.drain(..) {
            peer.connection.abandon(self.now, server);
        }
        self.moved.clear();
    }

    /// The next head of a request or response, if they are kept
    pub fn poll_head(&mut self) -> Option<HeadRecord> {
        if !self.heads {
            return None;
        }
        self.peers.iter_mut().find_map(|peer| peer.connection.poll_head())
    }

    /// Moves what the server has to say on one exchange, or wants to hear, to its connection
    pub fn drive(&mut self, server: &mut Server, exchange: ExchangeId) {
        let has_it = |peer: &Peer| peer.connection.exchange() == Some(exchange);
        // Most likely it is that of whoever had his turn just now.
        let last = self.turn.saturating_sub(1);
        let place = match self.peers.get(last) {
            Some(peer) if has_it(peer) => Some(last),
            _ => self.peers.iter().position(has_it),
        };
        if let Some((place, peer)) = place.and_then(|place| Some((place, self.peers.get_mut(place)?))) {
            peer.connection.drive(self.now, server);
            self.moved.push(place);
        }
    }

    /// Writes what there is as far as it goes now; whether anything went
    pub fn write(&mut self, server: &mut Server) -> bool {
        let mut moved = false;
        loop {
            while let Some(exchange) = server.poll_ready(self.now) {
                self.drive(server, exchange);
            }
            let Some(place) = self.moved.pop() else { break };
            if let Some(peer) = self.peers.get_mut(place) {
                moved |= peer.write(self.now, server);
                self.over |= peer.is_over();
            }
        }
        if core::mem::take(&mut self.over) {
            self.sweep();
        }
        moved
    }

    /// Forgets connections that are over
    fn sweep(&mut self) {
        self.peers.retain(|peer| !peer.is_over());
        // They stand elsewhere now.
        self.turn = 0;
        self.moved.clear();
        self.moved.extend(0..self.peers.len());
    }

    /// Waits until something can be read (if `reads`), written or accepted, or until `until`; then each has its
    /// [turn](Self::next), and deadlines of the server pass
    pub fn wait(&mut self, server: &mut Server, reads: bool, until: Option<Instant>) -> io::Result<()> {
        let room_at = self.room_at();
        let accepts_at = self.listener.as_ref().and_then(|_| self.accepts_at.or(room_at));
        let own = self.peers.iter().filter_map(|peer| peer.connection.poll_timeout()).min();
        let deadline = [until, accepts_at, own, server.poll_timeout()].into_iter().flatten().min();

        let listener = self.listener.as_ref().filter(|_| accepts_at.is_none());
        let sources = listener.map(|listener| (Source::Listener(listener), Interest::READ)).into_iter();
        let sources = sources.chain(self.peers.iter().map(|peer| {
            let read = reads && peer.connection.wants_input();
            let write = !peer.connection.transmit().is_empty();
            (Source::Socket(&peer.socket), Interest { read, write })
        }));
        let found = self.poll.wait(sources, deadline.map(|at| self.clock.until(at)))?;
        self.now = self.clock.now();

        let (newcomers, found) = match (listener, found.split_first()) {
            (Some(_), Some((first, rest))) => (first.readable, rest),
            _ => (false, found),
        };
        let late = own.is_some_and(|at| at <= self.now);
        for (peer, ready) in self.peers.iter_mut().zip(found) {
            let due = late && peer.connection.poll_timeout().is_some_and(|at| at <= self.now);
            peer.found = Found { ready: *ready, asked: reads && peer.connection.wants_input(), due };
        }
        self.turn = 0;
        if server.poll_timeout().is_some_and(|at| at <= self.now) {
            server.handle_timeout(self.now);
        }
        if self.accepts_at.is_some_and(|at| at <= self.now) {
            self.accepts_at = None;
        }
        if newcomers {
            self.accept();
        }
        Ok(())
    }

    /// Gives the next one its turn for whom the last wait found something: reads what is there (if `reads`), and lets its
    /// deadline pass; false when all have had theirs
    pub fn next(&mut self, server: &mut Server, reads: bool) -> bool {
        while let Some(peer) = self.peers.get_mut(self.turn) {
            self.turn += 1;
            let found = core::mem::take(&mut peer.found);
            if found.due || !found.ready.is_empty() {
                peer.turn(self.now, server, found, reads, &mut self.scratch);
                self.moved.push(self.turn - 1);
                return true;
            }
        }
        false
    }

    /// When there may be room for another connection; none when there is
    fn room_at(&self) -> Option<Instant> {
        if self.peers.len() < self.max {
            return None;
        }
        let at = self.peers.iter().filter_map(Peer::spare_at).min().unwrap_or(Instant::FAR);
        Some(at).filter(|at| *at > self.now)
    }

    /// Where a newcomer goes: to the place of one who is idle, or behind all; none when there is no room
    fn place(&self) -> Option<usize> {
        if self.peers.len() < self.max {
            return Some(self.peers.len());
        }
        let idle = |(_, peer): &(usize, &Peer)| peer.spare_at().is_some_and(|at| at <= self.now);
        let oldest = self.peers.iter().enumerate().filter(idle).min_by_key(|(_, peer)| peer.used_at);
        oldest.map(|(place, _)| place)
    }

    /// Takes in who waits, in the place of who has not used his connection for long, if need be
    fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        for _ in 0..BATCH {
            let Some(place) = self.place() else { return };
            match listener.accept() {
                Ok(Some(socket)) => {
                    let mut connection = Connection::new(self.now, self.limits.clone());
                    if self.heads {
                        connection.tap_heads();
                    }
                    // Most clients have sent their request by now.
                    let found =
                        Found { ready: Ready { readable: true, writable: false }, asked: true, due: false };
                    let (used_at, shut, broken) = (self.now, false, false);
                    let peer = Peer { socket, connection, found, used_at, shut, broken };
                    match self.peers.get_mut(place) {
                        Some(idle) => *idle = peer,
                        None => self.peers.push(peer),
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    // It would go on failing, or be told of at once again: others may end in the meantime.
                    let wait = if is_exhausted(&error) { PAUSE } else { PAUSE / 10 };
                    self.accepts_at = Some(self.now + wait);
                    return;
                }
            }
        }
    }
}

impl Peer {
    /// When it may give way to another one; none while it is in use
    fn spare_at(&self) -> Option<Instant> {
        let unused = self.connection.is_idle() && self.found.ready.is_empty();
        unused.then(|| self.used_at + SPARED)
    }

    /// Writes and reads what can be, and lets its deadline pass
    fn turn(&mut self, now: Instant, server: &mut Server, found: Found, reads: bool, scratch: &mut [u8]) {
        let ready = found.ready;
        if self.is_over() {
            return;
        }
        if ready.writable {
            // Before its deadline is looked at: while a handler ran nobody wrote, however fast its client reads.
            self.write(now, server);
        }
        if ready.readable && !found.asked {
            // Nobody asked: both directions are over.
            return self.lose(now, server);
        }
        let due = found.due && self.connection.poll_timeout().is_some_and(|at| at <= now);
        if ready.readable && reads && self.connection.wants_input() {
            match self.socket.read(scratch) {
                Ok(0) => self.connection.handle_eof(now),
                Ok(n) => {
                    self.used_at = now;
                    self.connection.handle_input(now, scratch.get(..n).unwrap_or_default());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock && !due => return,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return self.lose(now, server),
            }
        } else if !due {
            return;
        }
        if due {
            self.connection.handle_timeout(now);
        }
        self.connection.drive(now, server);
        self.shut();
    }

    /// Writes what there is as far as it goes now; whether anything went
    fn write(&mut self, now: Instant, server: &mut Server) -> bool {
        let mut moved = false;
        while !self.broken && !self.connection.transmit().is_empty() {
            let mut parts = [IoSlice::new(&[]); 8];
            let mut filled = 0;
            for (part, bytes) in parts.iter_mut().zip(self.connection.segments()) {
                *part = IoSlice::new(bytes);
                filled += 1;
            }
            match self.socket.write_vectored(parts.get(..filled).unwrap_or(&parts)) {
                Ok(0) => break,
                Ok(n) => {
                    self.used_at = now;
                    self.connection.consume(n);
                    self.connection.drive(now, server);
                    moved = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.lose(now, server),
            }
        }
        self.shut();
        moved
    }

    /// Ends our direction once nothing more is to be written
    fn shut(&mut self) {
        if self.connection.is_write_over() && !core::mem::replace(&mut self.shut, true) {
            if self.connection.wants_reset() {
                // Fails when the client is gone, who then needs no sign.
                let _ = self.socket.reset_when_dropped();
            } else {
                let _ = self.socket.shutdown_write();
            }
        }
    }

    fn lose(&mut self, now: Instant, server: &mut Server) {
        self.broken = true;
        self.connection.abandon(now, server);
    }

    fn is_over(&self) -> bool {
        self.broken || self.connection.is_over()
    }
}

/// Bytes of one read
const SCRATCH: usize = 64 << 10;
/// Connections that are accepted in one go
const BATCH: usize = 16;
/// How long a connection is left alone after it was used, however many want its place
const SPARED: Duration = Duration::from_secs(1);
/// How long nobody is accepted after there was no room in this process or on this machine
const PAUSE: Duration = Duration::from_millis(100);
