//! The connections of a server, and the one wait for all of them

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind, IoSlice};

use mcp_proto::Instant;
use mcp_proto::h1::Limits;
use mcp_proto::http::HeadRecord;
use mcp_proto::http::server::{Connection, ExchangeId, Server};
use mcp_std::{Clock, Duplex, Interest, Listener, Poll, Ready, Socket, Source, is_exhausted};

/// Who listens, and who is connected
#[derive(Debug)]
pub(super) struct Peers {
    listener: Option<Listener>,
    peers: Vec<Peer>,
    pub(super) max: usize,
    pub(super) limits: Limits,
    /// Heads of requests and responses are kept
    pub(super) heads: bool,
    /// When connections are accepted again
    accepts_at: Option<Instant>,
    poll: Poll,
    clock: Clock,
    now: Instant,
    scratch: Box<[u8]>,
}

/// One connection
#[derive(Debug)]
struct Peer {
    socket: Socket,
    connection: Connection,
    /// When something was read or written last
    used_at: Instant,
    /// Our direction was ended
    shut: bool,
    /// The socket is broken
    broken: bool,
}

impl Peers {
    pub(super) fn new(listener: Listener) -> Self {
        let clock = Clock::start();
        let mut limits = Limits::default();
        // How long a message may be is for the server to say, which says so in the answer.
        limits.max_body = u64::MAX;
        Self {
            listener: Some(listener),
            peers: Vec::new(),
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

    pub(super) const fn now(&self) -> Instant {
        self.now
    }

    pub(super) fn tick(&mut self) -> Instant {
        self.now = self.clock.now();
        self.now
    }

    pub(super) fn anchor(&self) -> mcp_proto::Anchor {
        self.clock.anchor()
    }

    /// Where connections are accepted; fails when they are not, or no more
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.as_ref().map_or_else(|| Err(ErrorKind::NotConnected.into()), Listener::address)
    }

    pub(super) fn len(&self) -> usize {
        self.peers.len()
    }

    /// Whether nobody is connected and nobody can be any more
    pub(super) fn is_over(&self) -> bool {
        self.listener.is_none() && self.peers.is_empty()
    }

    /// Accepts nobody any more, and lets everybody go who has had his answer
    pub(super) fn close(&mut self, server: &mut Server) {
        self.listener = None;
        for peer in &mut self.peers {
            peer.connection.close(self.now);
            peer.connection.drive(self.now, server);
        }
    }

    /// Ends all connections, whatever is under way
    pub(super) fn abandon(&mut self, server: &mut Server) {
        self.listener = None;
        for mut peer in self.peers.drain(..) {
            peer.connection.abandon(self.now, server);
        }
    }

    pub(super) fn poll_head(&mut self) -> Option<HeadRecord> {
        self.peers.iter_mut().find_map(|peer| peer.connection.poll_head())
    }

    /// Moves what the server has to say on one exchange, or wants to hear, to its connection
    pub(super) fn drive(&mut self, server: &mut Server, exchange: ExchangeId) {
        let has_it = |peer: &&mut Peer| peer.connection.exchange() == Some(exchange);
        if let Some(peer) = self.peers.iter_mut().find(has_it) {
            peer.connection.drive(self.now, server);
        }
    }

    /// Writes what there is as far as it goes now; whether anything went
    pub(super) fn write(&mut self, server: &mut Server) -> bool {
        let mut moved = false;
        loop {
            while let Some(exchange) = server.poll_ready(self.now) {
                self.drive(server, exchange);
            }
            let mut again = false;
            for peer in &mut self.peers {
                again |= peer.write(self.now, server);
            }
            if !again {
                return moved;
            }
            moved = true;
        }
    }

    /// Forgets connections that are over
    pub(super) fn sweep(&mut self) {
        self.peers.retain(|peer| !peer.is_over());
    }

    /// Waits until something can be read (if `reads`), written or accepted, or until `until`; reads what is there, and lets
    /// deadlines pass
    pub(super) fn wait(
        &mut self,
        server: &mut Server,
        reads: bool,
        until: Option<Instant>,
    ) -> io::Result<()> {
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
        for (peer, ready) in self.peers.iter_mut().zip(found) {
            peer.turn(self.now, server, *ready, reads, &mut self.scratch);
        }
        if server.poll_timeout().is_some_and(|at| at <= self.now) {
            server.handle_timeout(self.now);
        }
        self.sweep();
        if self.accepts_at.is_some_and(|at| at <= self.now) {
            self.accepts_at = None;
        }
        if newcomers {
            self.accept(server);
        }
        Ok(())
    }

    /// When there may be room for another connection; none when there is
    fn room_at(&self) -> Option<Instant> {
        if self.peers.len() < self.max {
            return None;
        }
        let idle = self.peers.iter().filter(|peer| peer.connection.is_idle());
        let at = idle.map(|peer| peer.used_at + SPARED).min().unwrap_or(Instant::FAR);
        Some(at).filter(|at| *at > self.now)
    }

    /// Where a newcomer goes: in the place of one, or beside all; none when there is no room
    fn place(&self) -> Option<Option<usize>> {
        if self.peers.len() < self.max {
            return Some(None);
        }
        let idle =
            |(_, peer): &(usize, &Peer)| peer.connection.is_idle() && peer.used_at + SPARED <= self.now;
        let oldest = self.peers.iter().enumerate().filter(idle).min_by_key(|(_, peer)| peer.used_at);
        oldest.map(|(place, _)| Some(place))
    }

    /// Takes in who waits, in the place of who has not used his connection for long, if need be
    fn accept(&mut self, server: &mut Server) {
        let Some(listener) = &self.listener else { return };
        for _ in 0..BATCH {
            let Some(place) = self.place() else { return };
            match listener.accept() {
                Ok(Some(socket)) => {
                    if let Some(idle) = place {
                        self.peers.remove(idle);
                    }
                    let mut connection = Connection::new(self.now, self.limits.clone());
                    if self.heads {
                        connection.tap_heads();
                    }
                    let (shut, broken) = (false, false);
                    let mut peer = Peer { socket, connection, used_at: self.now, shut, broken };
                    // Most clients have sent their request by now.
                    peer.turn(
                        self.now,
                        server,
                        Ready { readable: true, writable: false },
                        true,
                        &mut self.scratch,
                    );
                    self.peers.push(peer);
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
    /// Reads what is there, and lets deadlines pass
    fn turn(&mut self, now: Instant, server: &mut Server, ready: Ready, reads: bool, scratch: &mut [u8]) {
        if ready.writable {
            // Before its deadline is looked at: while a handler ran nobody wrote, however fast its client reads.
            self.write(now, server);
        }
        let due = self.connection.poll_timeout().is_some_and(|at| at <= now);
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
        } else if ready.readable {
            // Nobody asked: both directions are over.
            return self.lose(now, server);
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
            for (part, bytes) in parts.iter_mut().zip(self.connection.segments()) {
                *part = IoSlice::new(bytes);
            }
            match self.socket.write_vectored(&parts) {
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
