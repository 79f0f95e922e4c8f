//! The connections of a server, and the one wait for all of them
//!
//! A wait costs what is ready, what was driven since the last one, and what is due: never all connections.

mod known;
mod newcomers;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::task::Waker;
use std::io::{self, ErrorKind};

use self::known::Known;
use super::peer::{Found, Moved, Peer};
use super::places::Places;
use super::seats::Seats;
#[cfg(feature = "tls")]
use crate::tls::ServerTls;
use crate::{Clock, Cores, Interest, Listener, Outlook, Ready, Selector, Transport};
use mcp_proto::Instant;
use mcp_proto::h1::Limits;
use mcp_proto::http::HeadRecord;
use mcp_proto::http::server::{ExchangeId, Server};

/// Who listens, and who is connected
#[derive(Debug)]
pub struct Peers {
    listener: Option<Listener>,
    /// The selector waits for newcomers
    listening: bool,
    /// Nobody is to come any more
    closed: bool,
    /// Which shard this is, of how many, and whose turn it is to get a newcomer
    shard: u8,
    shards: u8,
    next_shard: u8,
    /// Those for other shards
    leaving: VecDeque<(u8, Moved)>,
    /// All places are taken, and nobody here can give his up
    crowded: bool,
    /// Connections that are open, of all shards
    seats: Arc<Seats>,
    /// The cores that shards stay on, one each in this order; newcomers go where their packets come in
    cores: Cores,
    /// By their tokens
    peers: Places<Box<Peer>>,
    /// Whose turn it is, or was last
    turn: u64,
    /// Those for whom the last wait found something and who had no turn yet
    turns: VecDeque<u64>,
    /// Those with which something has happened since they were last written to
    moved: Vec<u64>,
    known: Known,
    /// Those whom the selector does not wait for although they want to read: nobody does
    muffled: Vec<u64>,
    /// Those who have something to read that the selector does not know of
    pending: Vec<u64>,
    /// Connections that may be open at a time
    pub max: usize,
    /// The bounds of connections
    pub limits: Limits,
    /// Heads of requests and responses are kept
    pub heads: bool,
    /// What is shown to clients, who all have to speak TLS then
    #[cfg(feature = "tls")]
    pub tls: Option<ServerTls>,
    /// When connections are accepted again
    accepts_at: Option<Instant>,
    /// Or when another shard has a place free
    waits: bool,
    /// Until then nobody can give way to another one
    full_until: Instant,
    selector: Selector,
    /// What the last wait found, for the sake of its memory
    found: Vec<(u64, Ready)>,
    clock: Clock,
    now: Instant,
    scratch: Box<[u8]>,
}

impl Peers {
    /// Nobody is connected yet
    ///
    /// # Errors
    ///
    /// When the system has no way to wait for many sockets, or none left.
    pub fn new(listener: Listener) -> io::Result<Self> {
        let mut limits = Limits::default();
        // How long a message may be is for the server to say, which says so in the answer.
        limits.max_body = u64::MAX;
        let mut peers =
            Self::of(Clock::start(), Selector::new()?, limits, Seats::new(1, Waker::noop().clone()));
        peers.selector.add(&listener, LISTENER, Interest::READ)?;
        (peers.listener, peers.listening) = (Some(listener), true);
        Ok(peers)
    }

    /// The connections of one more shard: they come from this one, which is the first of so many from now on
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn shard(&mut self, shard: u8, all: u8) -> io::Result<Self> {
        if self.shards != all {
            self.seats = Seats::new(all, self.selector.waker()?);
        }
        let mut peers = Self::of(self.clock, Selector::new()?, self.limits.clone(), self.seats.clone());
        (peers.max, peers.heads) = (self.max, self.heads);
        (peers.shard, peers.shards, self.shards) = (shard, all, all);
        peers.cores = self.cores.clone();
        Ok(peers)
    }

    /// Has each of the [shards](Self::shard) that come from now on stay on a core of its own
    pub fn pin(&mut self) {
        self.cores = Cores::all();
    }

    /// The cores that shards stay on; none unless they are to
    pub const fn cores(&self) -> &Cores {
        &self.cores
    }

    /// Keeps this thread on the core of this shard, if shards stay on cores; the first does not
    pub fn stay(&self) {
        if self.shard > 0 {
            self.cores.stay(usize::from(self.shard));
        }
    }

    fn of(clock: Clock, selector: Selector, limits: Limits, seats: Arc<Seats>) -> Self {
        Self {
            listener: None,
            listening: false,
            closed: false,
            shard: 0,
            shards: 1,
            next_shard: 0,
            leaving: VecDeque::new(),
            crowded: false,
            seats,
            cores: Cores::default(),
            peers: Places::new(),
            turn: LISTENER,
            turns: VecDeque::new(),
            moved: Vec::new(),
            known: Known::default(),
            muffled: Vec::new(),
            pending: Vec::new(),
            max: 64,
            limits,
            heads: false,
            #[cfg(feature = "tls")]
            tls: None,
            accepts_at: None,
            waits: false,
            full_until: Instant::ZERO,
            selector,
            found: Vec::new(),
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

    /// Connections that are open, of all shards
    pub fn count(&self) -> usize {
        self.seats.taken()
    }

    /// Whether nobody is connected and nobody can be any more
    pub fn is_over(&self) -> bool {
        self.closed && self.peers.len() == 0
    }

    /// What ends a [`wait`](Self::wait) early, from any thread
    ///
    /// # Errors
    ///
    /// As [`Selector::waker`].
    pub fn waker(&mut self) -> io::Result<Waker> {
        self.selector.waker()
    }

    /// Accepts nobody any more, and lets everybody go who has had his answer
    pub fn close(&mut self, server: &mut Server) {
        self.end_listening();
        for (token, peer) in self.peers.iter_mut() {
            peer.connection.close(self.now);
            peer.connection.drive(self.now, server);
            self.known.note(token, peer);
            self.moved.push(token);
        }
    }

    /// Ends all connections, whatever is under way
    pub fn abandon(&mut self, server: &mut Server) {
        self.end_listening();
        let tokens: Vec<u64> = self.peers.iter_mut().map(|(token, _)| token).collect();
        for token in tokens {
            if let Some(peer) = self.peers.get_mut(token) {
                peer.connection.abandon(self.now, server);
            }
            drop(self.forget(token));
        }
    }

    fn end_listening(&mut self) {
        self.closed = true;
        if let Some(listener) = self.listener.take() {
            // Closing it would do.
            let _ = self.selector.remove(&listener, LISTENER);
        }
    }

    /// The next connection that belongs to another shard, which is to [adopt](Self::adopt) it
    pub fn poll_leaving(&mut self) -> Option<(u8, Moved)> {
        self.leaving.pop_front()
    }

    /// Takes in a connection from another shard; one that cannot be waited for is closed
    pub fn adopt(&mut self, server: &mut Server, moved: Moved) {
        let Moved(mut peer) = moved;
        peer.uproot();
        peer.seat.change(self.shard);
        if self.closed {
            peer.connection.close(self.now);
        }
        peer.connection.drive(self.now, server);
        let _ = self.enter(peer);
    }

    /// Takes in a connection, which has its turn soon
    fn enter(&mut self, mut peer: Box<Peer>) -> io::Result<()> {
        // Most clients have sent their request by now.
        peer.found.ready.readable = true;
        peer.found.asked = true;
        let token = self.peers.insert(peer);
        let Some(peer) = self.peers.get_mut(token) else { return Ok(()) };
        if let Err(error) = self.selector.add(peer.transport.socket(), token, Interest::READ) {
            self.peers.remove(token);
            return Err(error);
        }
        self.known.note(token, peer);
        self.turns.push_back(token);
        self.moved.push(token);
        Ok(())
    }

    /// Lets a connection go to the shard that its next request is for, if that is another one
    fn see_off(&mut self, token: u64) {
        let shard = self.peers.get_mut(token).and_then(|peer| peer.connection.elsewhere());
        if let Some((shard, peer)) = shard.and_then(|shard| Some((shard, self.take(token)?))) {
            self.leaving.push_back((shard, Moved(peer)));
        }
    }

    /// The next head of a request or response, if they are kept
    pub fn poll_head(&mut self) -> Option<HeadRecord> {
        if !self.heads {
            return None;
        }
        self.peers.iter_mut().find_map(|(_, peer)| peer.connection.poll_head())
    }

    /// Moves what the server has to say on one exchange, or wants to hear, to its connection
    pub fn drive(&mut self, server: &mut Server, exchange: ExchangeId) {
        // Most likely it is that of whoever has his turn, and over before anything is waited for.
        let has_it = |peer: &mut Box<Peer>| peer.connection.exchange() == Some(exchange);
        let mut token = self.turn;
        if !self.peers.get_mut(token).is_some_and(has_it) {
            self.known.enter_exchanges(&mut self.peers);
            let Some(other) = self.known.who_has(exchange) else { return };
            token = other;
        }
        if let Some(peer) = self.peers.get_mut(token) {
            peer.connection.drive(self.now, server);
            self.known.note(token, peer);
            self.moved.push(token);
            self.see_off(token);
        }
    }

    /// Writes what there is as far as it goes now; whether anything went
    pub fn write(&mut self, server: &mut Server) -> bool {
        let mut moved = false;
        loop {
            while let Some(exchange) = server.poll_ready(self.now) {
                self.drive(server, exchange);
            }
            let Some(token) = self.moved.pop() else { return moved };
            let Some(peer) = self.peers.get_mut(token) else { continue };
            moved |= peer.write(self.now, server);
            if peer.is_over() {
                drop(self.forget(token));
            } else {
                self.known.note(token, peer);
                self.see_off(token);
            }
        }
    }

    /// Takes out a connection that is over, or gives way: to be closed
    fn forget(&mut self, token: u64) -> Option<Transport> {
        self.take(token).map(|peer| peer.transport)
    }

    fn take(&mut self, token: u64) -> Option<Box<Peer>> {
        let peer = self.peers.remove(token)?;
        self.known.forget(token, &peer);
        if self.peers.len() == 0 {
            self.known.exchanges = Vec::new();
        }
        // To close it would do, unless it goes on elsewhere, or a child of ours holds it between its fork and its exec.
        let _ = self.selector.remove(peer.transport.socket(), token);
        Some(peer)
    }

    /// Waits until something can be read (if `reads`), written or accepted, until `until`, or until [woken](Self::waker);
    /// then each has its [turn](Self::next), and deadlines of the server pass
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn wait(&mut self, server: &mut Server, reads: bool, until: Option<Instant>) -> io::Result<()> {
        let deadline = until.into_iter().chain(self.arm(server, reads)?).min();
        let mut found = core::mem::take(&mut self.found);
        let waited = self.selector.wait(deadline.map(|at| self.clock.until(at)), &mut found);
        self.now = self.clock.now();
        let newcomers = found.iter().any(|(token, _)| *token == LISTENER);
        let heard = found.drain(..).try_for_each(|(token, ready)| self.hear(token, ready, reads));
        self.found = found;
        waited.and(heard)?;

        self.hear_pending();
        self.pass_deadlines();
        if server.poll_timeout().is_some_and(|at| at <= self.now) {
            server.handle_timeout(self.now);
        }
        let freed = self.waits && !self.seats.is_wanted();
        if freed || self.accepts_at.is_some_and(|at| at <= self.now) {
            (self.accepts_at, self.waits) = (None, false);
        }
        if newcomers && self.listening {
            self.accept();
        }
        Ok(())
    }

    /// What [`wait`](Self::wait) would wait for, for a loop that has other things to wait for besides
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn outlook(&mut self, server: &mut Server, reads: bool) -> io::Result<Outlook<'_>> {
        let timeout = self.arm(server, reads)?.map(|at| self.clock.until(at));
        #[cfg(target_os = "linux")]
        return Ok(Outlook::of(std::os::fd::AsFd::as_fd(self), timeout));
        #[cfg(not(target_os = "linux"))]
        Ok(Outlook::blind(timeout))
    }

    /// Brings up to date what is waited for; when to call [`wait`](Self::wait) at the latest
    ///
    /// For loops that wait by other means until the selector has something; `wait` does it by itself.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn arm(&mut self, server: &mut Server, reads: bool) -> io::Result<Option<Instant>> {
        for token in self.turns.drain(..) {
            // What was left is found again.
            if let Some(peer) = self.peers.get_mut(token) {
                peer.found = Found::default();
                self.known.note(token, peer);
            }
        }
        if reads {
            for token in self.muffled.drain(..) {
                if let Some(peer) = self.peers.get_mut(token) {
                    peer.muffled = false;
                    self.known.note(token, peer);
                }
            }
        }
        self.known.enter_exchanges(&mut self.peers);
        while let Some(token) = self.known.driven.pop() {
            let Some(peer) = self.peers.get_mut(token) else { continue };
            peer.driven = false;
            self.known.update(token, peer);
            // Most who want to read nothing now do soon: that is taken back when there is something.
            let wants = peer.connection.wants_input();
            let read = peer.interest.read || peer.asks(reads);
            let pending = peer.transport.is_pending();
            if wants && (!read || (pending && !reads)) && !core::mem::replace(&mut peer.muffled, true) {
                self.muffled.push(token);
            }
            if pending && peer.asks(reads) && !self.pending.contains(&token) {
                self.pending.push(token);
            }
            let write = !peer.connection.transmit().is_empty();
            peer.select(token, Interest { read, write }, &mut self.selector)?;
        }

        let room_at = self.room_at();
        let accepts_at = self.listener.as_ref().and_then(|_| self.accepts_at.or(room_at));
        if let Some(listener) = &self.listener {
            let listens = accepts_at.is_none();
            if listens != self.listening {
                self.selector.modify(listener, LISTENER, Interest { read: listens, write: false })?;
                self.listening = listens;
            }
        }
        let own = self.known.deadlines.first().map(|(at, _)| *at);
        let at_once = Some(self.now).filter(|_| !self.pending.is_empty());
        Ok([at_once, accepts_at, own, server.poll_timeout()].into_iter().flatten().min())
    }

    /// Notes what the selector found for a connection
    fn hear(&mut self, token: u64, mut ready: Ready, reads: bool) -> io::Result<()> {
        let Some(peer) = self.peers.get_mut(token) else { return Ok(()) };
        let asked = peer.interest.read;
        if ready.readable && asked && !peer.asks(reads) {
            // If both directions are over, that is found again.
            ready.readable = false;
            peer.select(token, Interest { read: false, ..peer.interest }, &mut self.selector)?;
            // It is seen then whether it is to be read again, and when.
            self.known.note(token, peer);
        }
        if !ready.is_empty() {
            peer.found = Found { ready, asked, due: false };
            self.turns.push_back(token);
        }
        Ok(())
    }

    /// Notes for whom there is something to read without the selector
    fn hear_pending(&mut self) {
        for token in self.pending.drain(..) {
            let Some(peer) = self.peers.get_mut(token) else { continue };
            if peer.found.ready.is_empty() {
                self.turns.push_back(token);
            }
            peer.found.ready.readable = true;
            peer.found.asked = true;
        }
    }

    /// Finds those whose deadlines have passed
    fn pass_deadlines(&mut self) {
        while let Some((at, token)) = self.known.deadlines.first().copied().filter(|(at, _)| *at <= self.now)
        {
            self.known.deadlines.remove(&(at, token));
            let Some(peer) = self.peers.get_mut(token) else { continue };
            peer.deadline = None;
            if peer.poll_timeout().is_some_and(|at| at <= self.now) {
                if peer.found.ready.is_empty() {
                    self.turns.push_back(token);
                }
                peer.found.due = true;
            }
            // It has another one, or will have.
            self.known.note(token, peer);
        }
    }

    /// Gives the next one its turn for whom the last wait found something: reads what is there (if `reads`), and lets its
    /// deadline pass; false when all have had theirs
    pub fn next(&mut self, server: &mut Server, reads: bool) -> bool {
        while let Some(token) = self.turns.pop_front() {
            let Some(peer) = self.peers.get_mut(token) else { continue };
            let found = core::mem::take(&mut peer.found);
            self.turn = token;
            peer.turn(self.now, server, found, reads, &mut self.scratch);
            self.known.note(token, peer);
            self.moved.push(token);
            self.see_off(token);
            return true;
        }
        false
    }
}

/// Readable when there is something for [`wait`](Peers::wait) to find, or it was [woken](Peers::waker)
#[cfg(target_os = "linux")]
impl std::os::fd::AsFd for Peers {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.selector.as_fd()
    }
}

/// The token of who listens
const LISTENER: u64 = 0;
/// Bytes of one read
const SCRATCH: usize = 64 << 10;
