//! Our client against our server in one thread, in memory, on virtual time.

use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::{Instant, client, server};

use super::app::App;
use super::watch::Watch;
use super::wire::{Chunker, Lines, Wire};
use crate::schema::Direction;

/// Rounds without an end in sight, after which a run counts as stuck
const MANY: usize = 2_000_000;

/// How the two ends are connected
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// How bytes are cut, in both directions
    pub cut: Chunker,
    /// How long they take
    pub latency: Duration,
    /// How many fit under way, each direction by itself
    pub room: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { cut: Chunker::Whole, latency: Duration::ZERO, room: usize::MAX }
    }
}

impl From<Chunker> for Line {
    fn from(cut: Chunker) -> Self {
        Self { cut, ..Self::default() }
    }
}

/// The two applications of a [`Pair`]
pub trait Applications: core::fmt::Debug {
    /// The client is told something
    fn client(&mut self, now: Instant, client: &mut Client, event: client::Event);
    /// The server is told something
    fn server(&mut self, now: Instant, server: &mut Server, event: server::Event);
}

/// A client, a server, the wire between them and the two applications
#[derive(Debug)]
pub struct Pair<A = App> {
    /// The time
    pub now: Instant,
    /// The client
    pub client: Client,
    /// The server
    pub server: Server,
    /// Both applications
    pub app: A,
    /// What passed, both directions
    pub watch: Watch,
    /// Whether the client's process reads
    pub client_reads: bool,
    /// Whether the server's process reads
    pub server_reads: bool,
    /// Whether the client's application looks at events
    pub client_polls: bool,
    /// Whether the server's application looks at events
    pub server_polls: bool,
    up: End,
    down: End,
}

/// One direction
#[derive(Debug)]
struct End {
    wire: Wire,
    direction: Direction,
    lines: Lines,
    told: bool,
}

impl End {
    fn new(line: Line, direction: Direction) -> Self {
        // The two directions are cut differently.
        let cut = match line.cut {
            Chunker::Seeded(seed) if direction == Direction::ServerToClient => Chunker::Seeded(!seed),
            cut => cut,
        };
        let wire = Wire::new(cut, line.latency, line.room);
        Self { wire, direction, lines: Lines::default(), told: false }
    }

    /// Takes what a side wants to write
    fn take<P: Pipe>(&mut self, now: Instant, from: &mut P, watch: &mut Watch) -> bool {
        let mut moved = false;
        loop {
            let bytes = from.transmit();
            if bytes.is_empty() {
                if from.is_drained() && !self.wire.is_closed() {
                    self.wire.close();
                    return true;
                }
                return moved;
            }
            let n = self.wire.write(now, bytes);
            if n == 0 {
                return moved;
            }
            let lines = self.lines.push(&bytes[..n]);
            from.consume(n);
            moved = true;
            for line in lines {
                watch.emitted(now, self.direction, &line);
            }
        }
    }

    /// Gives a side what has arrived
    fn give<P: Pipe>(&mut self, now: Instant, to: &mut P) -> bool {
        if !to.wants_input() {
            return false;
        }
        if let Some(piece) = self.wire.read(now) {
            to.handle_input(now, &piece);
            return true;
        }
        if self.wire.is_over() && !core::mem::replace(&mut self.told, true) {
            to.handle_eof(now);
            return true;
        }
        false
    }
}

impl Pair {
    /// Connects a client and a server; the applications are [`App`]'s
    #[must_use]
    pub fn new(client: client::Config, server: server::Config, line: impl Into<Line>) -> Self {
        Self::with(App::default(), client, server, line)
    }
}

impl<A: Applications> Pair<A> {
    /// Connects a client and a server of these applications
    #[must_use]
    pub fn with(app: A, client: client::Config, server: server::Config, line: impl Into<Line>) -> Self {
        let line = line.into();
        let watch = Watch::new(server.get_versions());
        Self {
            now: Instant::ZERO,
            client: Client::new(Arc::new(client), Instant::ZERO),
            server: Server::new(Arc::new(server), Instant::ZERO),
            app,
            watch,
            client_reads: true,
            server_reads: true,
            client_polls: true,
            server_polls: true,
            up: End::new(line, Direction::ClientToServer),
            down: End::new(line, Direction::ServerToClient),
        }
    }

    /// One round at the present time: events, writing, reading; false when there was nothing to do
    pub fn step(&mut self) -> bool {
        let mut moved = false;
        while self.client_polls {
            let Some(event) = self.client.poll_event(self.now) else { break };
            self.app.client(self.now, &mut self.client, event);
            moved = true;
        }
        while self.server_polls {
            let Some(event) = self.server.poll_event(self.now) else { break };
            self.app.server(self.now, &mut self.server, event);
            moved = true;
        }
        // A process that is done reads no more: what is written to it vanishes.
        for (end, done) in
            [(&mut self.up, self.server.is_drained()), (&mut self.down, self.client.is_drained())]
        {
            if done && !end.wire.is_closed() {
                end.wire.cut_off();
                moved = true;
            }
        }
        moved |= self.up.take(self.now, &mut self.client, &mut self.watch);
        moved |= self.down.take(self.now, &mut self.server, &mut self.watch);
        moved |= self.server_reads && self.up.give(self.now, &mut self.server);
        moved |= self.client_reads && self.down.give(self.now, &mut self.client);
        moved
    }

    /// Everything that can be done without a deadline: bytes under way arrive
    ///
    /// # Panics
    ///
    /// When it never ends.
    pub fn settle(&mut self) {
        for _ in 0..MANY {
            if self.step() {
                continue;
            }
            // Bytes that nobody reads hold nothing up.
            match self.next_arrival().filter(|at| *at > self.now) {
                Some(at) => self.jump(at),
                None => return,
            }
        }
        panic!("without end at {}", self.now);
    }

    fn next_arrival(&self) -> Option<Instant> {
        let up = self.up.wire.next_arrival().filter(|_| self.server_reads && self.server.wants_input());
        let down = self.down.wire.next_arrival().filter(|_| self.client_reads && self.client.wants_input());
        up.into_iter().chain(down).min()
    }

    /// Jumps to a later time and lets deadlines pass
    fn jump(&mut self, at: Instant) {
        self.now = self.now.max(at);
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
    }

    /// Jumps to whatever is due next, at `until` at the latest; false when nothing is
    fn skip(&mut self, until: Instant) -> bool {
        let due = [self.client.poll_timeout(), self.server.poll_timeout(), self.next_arrival()];
        let Some(at) = due.into_iter().flatten().min().filter(|at| *at <= until) else { return false };
        self.jump(at);
        true
    }

    /// Lets time run until nothing is left to do
    pub fn drive(&mut self) {
        assert!(!self.run(Instant::FAR, |_| false), "nothing is left to do");
    }

    /// Lets time run until `done`
    ///
    /// # Panics
    ///
    /// When it never is.
    pub fn drive_until(&mut self, done: impl FnMut(&mut Self) -> bool) {
        assert!(self.run(Instant::FAR, done), "it never happened; {:#?}", self.app);
    }

    /// Lets `span` pass
    pub fn drive_bounded(&mut self, span: Duration) {
        let until = self.now + span;
        self.run(until, |_| false);
        self.jump(until);
        self.settle();
    }

    fn run(&mut self, until: Instant, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        for _ in 0..MANY {
            if done(self) {
                return true;
            }
            if !self.step() && !self.skip(until) {
                return false;
            }
        }
        panic!("without end at {}", self.now);
    }

    /// The client's process closes its end: the server reads what is under way and then the end of the input
    pub fn hang_up(&mut self) {
        self.up.wire.close();
    }

    /// Somebody else writes a line into one direction, between two messages; false when one is half written
    pub fn inject(&mut self, direction: Direction, line: &[u8]) -> bool {
        let end = if direction == Direction::ClientToServer { &mut self.up } else { &mut self.down };
        if !end.lines.is_whole() || end.wire.is_closed() {
            return false;
        }
        self.watch.fed(self.now, direction, line);
        end.wire.force(self.now, &[line, b"\n"].concat());
        true
    }

    /// The server's process dies: what is under way is lost in both directions
    pub fn kill_server(&mut self) {
        self.up.wire.cut_off();
        self.down.wire.cut_off();
    }

    /// The messages that went in `direction`
    pub fn went(&self, direction: Direction) -> impl Iterator<Item = &serde_json::Value> {
        self.watch.messages.iter().filter(move |m| m.direction == direction).map(|m| &m.value)
    }
}
