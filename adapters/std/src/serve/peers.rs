//! The connections of a server, and the one wait for all of them
//!
//! A wait costs what is ready, what was driven since the last one, and what is due: never all connections.

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind};

use super::peer::{Found, Moved, Peer};
use super::places::Places;
use super::seats::{Seat, Seats};
#[cfg(feature = "tls")]
use crate::tls::ServerTls;
use crate::{Clock, Cores, Interest, Listener, Outlook, Ready, Selector, Socket, Transport, is_exhausted};
use mcp_proto::Instant;
use mcp_proto::h1::Limits;
use mcp_proto::http::HeadRecord;
use mcp_proto::http::server::{Connection, ExchangeId, Server};

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
    /// Until then nobody can give way to another one
    full_until: Instant,
    selector: Selector,
    /// What the last wait found, for the sake of its memory
    found: Vec<(u64, Ready)>,
    clock: Clock,
    now: Instant,
    scratch: Box<[u8]>,
}

/// What is known of all connections without looking at each
///
/// Deadlines and times of last use mostly move on. So an entry may say an earlier time than its connection would, never a
/// later one, and is put right when its time has come.
#[derive(Debug, Default)]
struct Known {
    /// Those driven since the last wait; what the rest and the selector say of them may be out of date
    driven: Vec<u64>,
    /// Who has which exchange, but for those who have had others since that was looked at
    exchanges: BTreeMap<ExchangeId, u64>,
    other_exchanges: Vec<u64>,
    /// When who has a deadline
    deadlines: BTreeSet<(Instant, u64)>,
    /// When who was used last, of those who may be idle
    idle: BTreeSet<(Instant, u64)>,
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
        let mut peers = Self::of(Clock::start(), Selector::new()?, limits, Seats::new(1));
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
            self.seats = Seats::new(all);
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

    /// Whether a place is wanted that nobody here can give up: another shard may [make room](Self::make_room); told once
    pub const fn is_crowded(&mut self) -> bool {
        core::mem::replace(&mut self.crowded, false)
    }

    /// Closes the connection that has not been used for longest, if that is long enough
    pub fn make_room(&mut self) {
        if let Some((since, token)) = self.longest_idle() {
            if since + SPARED <= self.now {
                if let Some(idle) = self.forget(token) {
                    idle.close();
                }
            }
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
            let Some(other) = self.known.exchanges.get(&exchange) else { return };
            token = *other;
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
        if self.accepts_at.is_some_and(|at| at <= self.now) {
            self.accepts_at = None;
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

    /// When there may be room for another connection; none when there is
    fn room_at(&mut self) -> Option<Instant> {
        if !self.is_full() || self.shards > 1 {
            return None;
        }
        if self.now < self.full_until {
            // It is looked for once in that time, however much happens.
            return Some(self.full_until);
        }
        let at = self.longest_idle().map_or(Instant::FAR, |(at, _)| at + SPARED);
        // Who is in use now will have been used later than now.
        self.full_until = at.min(self.now + SPARED);
        Some(at).filter(|at| *at > self.now)
    }

    /// Whether as many connections are open as may be
    fn is_full(&self) -> bool {
        self.count() >= self.max
    }

    /// Who has been idle for longest, and since when
    fn longest_idle(&mut self) -> Option<(Instant, u64)> {
        while let Some((at, token)) = self.known.idle.first().copied() {
            let idle = self.peers.get_mut(token).filter(|peer| peer.idle == Some(at));
            match idle {
                Some(peer) if peer.is_idle() && peer.used_at <= at => return Some((at, token)),
                Some(peer) => {
                    self.known.idle.remove(&(at, token));
                    // In use: it is entered again when it was driven.
                    peer.idle = peer.is_idle().then_some(peer.used_at);
                    self.known.idle.extend(peer.idle.map(|at| (at, token)));
                }
                None => _ = self.known.idle.remove(&(at, token)),
            }
        }
        None
    }

    /// Takes in who has come, here or at the shard whose turn it is
    fn welcome(&mut self, socket: Socket) -> io::Result<()> {
        let shard = self.choose(&socket);
        #[cfg(feature = "tls")]
        let transport = match &self.tls {
            Some(tls) => tls.accept(socket)?,
            None => socket.into(),
        };
        #[cfg(not(feature = "tls"))]
        let transport = Transport::from(socket);
        let mut connection = Connection::new(self.now, self.limits.clone());
        if self.heads {
            connection.tap_heads();
        }
        let mut peer = Box::new(Peer::new(transport, connection, Seat::new(&self.seats, shard), self.now));
        let shakes = peer.transport.is_handshaking();
        peer.until = shakes.then(|| self.now + self.limits.head_timeout);
        if shard == self.shard {
            return self.enter(peer);
        }
        self.leaving.push_back((shard, Moved(peer)));
        Ok(())
    }

    /// The shard for a newcomer: that of the core where its packets come in, or the next in turn
    fn choose(&mut self, socket: &Socket) -> u8 {
        if self.shards == 1 {
            return self.shard;
        }
        let core = self.cores.of(socket).and_then(|core| u8::try_from(core).ok());
        let wanted = core.filter(|shard| *shard < self.shards).unwrap_or_else(|| {
            let next = (self.next_shard + 1) % self.shards;
            core::mem::replace(&mut self.next_shard, next)
        });
        self.seats.place(wanted)
    }

    /// Takes in who waits, in the place of who has not used his connection for long, if need be
    fn accept(&mut self) {
        for _ in 0..BATCH {
            let full = self.is_full();
            let gives_way = if full { self.longest_idle() } else { None };
            let gives_way = gives_way.filter(|(since, _)| *since + SPARED <= self.now);
            if full && gives_way.is_none() {
                if self.shards > 1 {
                    // Others may make room, which nobody here notices.
                    self.crowded = true;
                    self.accepts_at = Some(self.now + PAUSE);
                }
                return;
            }
            let Some(listener) = &self.listener else { return };
            let entered = match listener.accept() {
                Ok(Some(socket)) => {
                    if let Some(idle) = gives_way.and_then(|(_, idle)| self.forget(idle)) {
                        idle.close();
                    }
                    self.welcome(socket)
                }
                Ok(None) => return,
                Err(error) => Err(error),
            };
            if let Err(error) = entered {
                // It would go on failing, or be told of at once again: others may end in the meantime.
                let wait = if is_exhausted(&error) { PAUSE } else { PAUSE / 10 };
                self.accepts_at = Some(self.now + wait);
                return;
            }
        }
    }
}

/// Readable when there is something for [`wait`](Peers::wait) to find, or it was [woken](Peers::waker)
#[cfg(target_os = "linux")]
impl std::os::fd::AsFd for Peers {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.selector.as_fd()
    }
}

impl Known {
    /// Has what is known of a connection brought up to date before the next wait
    fn note(&mut self, token: u64, peer: &mut Peer) {
        if !core::mem::replace(&mut peer.driven, true) {
            self.driven.push(token);
        }
        if peer.exchange != peer.connection.exchange() && !core::mem::replace(&mut peer.other_exchange, true)
        {
            self.other_exchanges.push(token);
        }
    }

    /// Brings up to date who has which exchange
    ///
    /// Most exchanges begin and end without a wait in between, and are not asked for.
    fn enter_exchanges(&mut self, peers: &mut Places<Box<Peer>>) {
        for token in self.other_exchanges.drain(..) {
            let Some(peer) = peers.get_mut(token) else { continue };
            peer.other_exchange = false;
            let exchange = peer.connection.exchange();
            if exchange != peer.exchange {
                if let Some(over) = core::mem::replace(&mut peer.exchange, exchange) {
                    self.exchanges.remove(&over);
                }
                self.exchanges.extend(exchange.map(|exchange| (exchange, token)));
            }
        }
    }

    fn update(&mut self, token: u64, peer: &mut Peer) {
        let deadline = peer.poll_timeout();
        if deadline.is_some_and(|at| peer.deadline.is_none_or(|known| at < known)) {
            if let Some(later) = core::mem::replace(&mut peer.deadline, deadline) {
                self.deadlines.remove(&(later, token));
            }
            self.deadlines.extend(deadline.map(|at| (at, token)));
        }
        if peer.idle.is_none() && peer.is_idle() {
            peer.idle = Some(peer.used_at);
            self.idle.insert((peer.used_at, token));
        }
    }

    fn forget(&mut self, token: u64, peer: &Peer) {
        if let Some(exchange) = peer.exchange {
            self.exchanges.remove(&exchange);
        }
        if let Some(at) = peer.deadline {
            self.deadlines.remove(&(at, token));
        }
        if let Some(at) = peer.idle {
            self.idle.remove(&(at, token));
        }
    }
}

/// The token of who listens
const LISTENER: u64 = 0;
/// Bytes of one read
const SCRATCH: usize = 64 << 10;
/// Connections that are accepted in one go
const BATCH: usize = 16;
/// How long a connection is left alone after it was used, however many want its place
const SPARED: Duration = Duration::from_secs(1);
/// How long nobody is accepted after there was no room in this process or on this machine
const PAUSE: Duration = Duration::from_millis(100);
