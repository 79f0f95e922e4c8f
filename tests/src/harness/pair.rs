//! A client and a server in one thread, in memory, on virtual time.

use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::{Instant, client, server};
use mcp_sim::stream::{Chunker, OneWayLink};

use super::app::App;
use super::observer::MessageObserver;
use crate::schema::MessageDirection;

/// Number of steps after which a run counts as stuck.
const MAX_STEPS: usize = 2_000_000;

/// Properties of the connection between client and server.
#[derive(Clone, Copy, Debug)]
pub struct LinkConfig {
    /// Cuts bytes into pieces, in both directions.
    pub chunker: Chunker,
    /// Time that a byte takes.
    pub latency: Duration,
    /// Capacity of each direction in bytes.
    pub capacity: usize,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self { chunker: Chunker::Whole, latency: Duration::ZERO, capacity: usize::MAX }
    }
}

impl From<Chunker> for LinkConfig {
    fn from(chunker: Chunker) -> Self {
        Self { chunker, ..Self::default() }
    }
}

/// The two applications of a [`Pair`].
pub trait Applications: core::fmt::Debug {
    /// Handles an event of the client.
    fn handle_client_event(&mut self, now: Instant, client: &mut Client, event: client::Event);
    /// Handles an event of the server.
    fn handle_server_event(&mut self, now: Instant, server: &mut Server, event: server::Event);
}

/// A client and a server with their applications, connected by two byte streams.
#[derive(Debug)]
pub struct Pair<A = App> {
    /// Virtual time.
    pub now: Instant,
    /// The client.
    pub client: Client,
    /// The server.
    pub server: Server,
    /// Both applications.
    pub app: A,
    /// Observer of both directions.
    pub observer: MessageObserver,
    /// Whether the client's process reads.
    pub client_reads_input: bool,
    /// Whether the server's process reads.
    pub server_reads_input: bool,
    /// Whether the client's application polls events.
    pub client_polls_events: bool,
    /// Whether the server's application polls events.
    pub server_polls_events: bool,
    to_server: OneWayLink,
    to_client: OneWayLink,
}

/// Returns one direction of a connection; the two directions are cut differently.
fn one_way_link(config: LinkConfig, direction: MessageDirection) -> OneWayLink {
    let chunker = match config.chunker {
        Chunker::Seeded(seed) if direction == MessageDirection::ServerToClient => Chunker::Seeded(!seed),
        other => other,
    };
    OneWayLink::new(chunker, config.latency, config.capacity)
}

impl Pair {
    /// Connects a client and a server with the applications of [`App`].
    #[must_use]
    pub fn new(client: client::Config, server: server::Config, link: impl Into<LinkConfig>) -> Self {
        Self::with_app(App::default(), client, server, link)
    }
}

impl<A: Applications> Pair<A> {
    /// Connects a client and a server with the applications `app`.
    #[must_use]
    pub fn with_app(
        app: A,
        client: client::Config,
        server: server::Config,
        link: impl Into<LinkConfig>,
    ) -> Self {
        let link = link.into();
        let observer = MessageObserver::new(server.effective_versions());
        Self {
            now: Instant::ZERO,
            client: Client::new(Arc::new(client), Instant::ZERO),
            server: Server::new(Arc::new(server), Instant::ZERO),
            app,
            observer,
            client_reads_input: true,
            server_reads_input: true,
            client_polls_events: true,
            server_polls_events: true,
            to_server: one_way_link(link, MessageDirection::ClientToServer),
            to_client: one_way_link(link, MessageDirection::ServerToClient),
        }
    }

    /// Handles events, output and input once at the current time; returns whether anything moved.
    pub fn step(&mut self) -> bool {
        let mut moved = false;
        while self.client_polls_events {
            let Some(event) = self.client.poll_event(self.now) else { break };
            self.app.handle_client_event(self.now, &mut self.client, event);
            moved = true;
        }
        while self.server_polls_events {
            let Some(event) = self.server.poll_event(self.now) else { break };
            self.app.handle_server_event(self.now, &mut self.server, event);
            moved = true;
        }
        // An ended process reads no more: bytes written to it are lost.
        for (end, done) in
            [(&mut self.to_server, self.server.is_drained()), (&mut self.to_client, self.client.is_drained())]
        {
            if done && !end.stream.is_closed() {
                end.stream.discard();
                moved = true;
            }
        }
        let (now, observer) = (self.now, &mut self.observer);
        moved |= self.to_server.pull_from(now, &mut self.client, usize::MAX, |line| {
            observer.record_emitted(now, MessageDirection::ClientToServer, line);
        });
        moved |= self.to_client.pull_from(now, &mut self.server, usize::MAX, |line| {
            observer.record_emitted(now, MessageDirection::ServerToClient, line);
        });
        moved |= self.server_reads_input && self.to_server.deliver_to(self.now, &mut self.server);
        moved |= self.client_reads_input && self.to_client.deliver_to(self.now, &mut self.client);
        moved
    }

    /// Runs until only deadlines are left. The time advances as far as bytes under way need.
    ///
    /// # Panics
    ///
    /// If the run does not end.
    pub fn settle(&mut self) {
        for _ in 0..MAX_STEPS {
            if self.step() {
                continue;
            }
            // Arrived bytes of a side that does not read are not waited for.
            match self.next_arrival().filter(|at| *at > self.now) {
                Some(at) => self.advance_to(at),
                None => return,
            }
        }
        panic!("no end of the run at {}", self.now);
    }

    fn next_arrival(&self) -> Option<Instant> {
        let up = self
            .to_server
            .stream
            .next_arrival()
            .filter(|_| self.server_reads_input && self.server.wants_input());
        let down = self
            .to_client
            .stream
            .next_arrival()
            .filter(|_| self.client_reads_input && self.client.wants_input());
        up.into_iter().chain(down).min()
    }

    /// Advances the time to `at` and handles the deadlines up to it.
    fn advance_to(&mut self, at: Instant) {
        self.now = self.now.max(at);
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
    }

    /// Advances to the next deadline or arrival, at most to `until`; returns `false` if there is none.
    fn skip_to_next(&mut self, until: Instant) -> bool {
        let due = [self.client.poll_timeout(), self.server.poll_timeout(), self.next_arrival()];
        let Some(at) = due.into_iter().flatten().min().filter(|at| *at <= until) else { return false };
        self.advance_to(at);
        true
    }

    /// Runs until nothing is left to do.
    pub fn drive(&mut self) {
        assert!(
            !self.run_until(Instant::FAR_FUTURE, |_| false),
            "a run without a condition ends only when nothing is left to do"
        );
    }

    /// Runs until `done` returns `true`.
    ///
    /// # Panics
    ///
    /// If nothing is left to do before that.
    pub fn drive_until(&mut self, done: impl FnMut(&mut Self) -> bool) {
        assert!(self.run_until(Instant::FAR_FUTURE, done), "the condition was never met: {:#?}", self.app);
    }

    /// Runs for `span`.
    pub fn drive_bounded(&mut self, span: Duration) {
        let until = self.now + span;
        self.run_until(until, |_| false);
        self.advance_to(until);
        self.settle();
    }

    fn run_until(&mut self, until: Instant, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        for _ in 0..MAX_STEPS {
            if done(self) {
                return true;
            }
            if !self.step() && !self.skip_to_next(until) {
                return false;
            }
        }
        panic!("no end of the run at {}", self.now);
    }

    /// Closes the client's end: the server reads the bytes under way and then the end of the input.
    pub fn hang_up(&mut self) {
        self.to_server.stream.close();
    }

    /// Injects a foreign line between two messages of one direction; returns `false` in the middle of a message.
    pub fn inject(&mut self, direction: MessageDirection, line: &[u8]) -> bool {
        let end = if direction == MessageDirection::ClientToServer {
            &mut self.to_server
        } else {
            &mut self.to_client
        };
        if !end.lines.is_at_line_start() || end.stream.is_closed() {
            return false;
        }
        self.observer.record_fed(self.now, direction, line);
        end.stream.force(self.now, &[line, b"\n"].concat());
        true
    }

    /// Kills the server's process: bytes under way are lost in both directions.
    pub fn kill_server(&mut self) {
        self.to_server.stream.discard();
        self.to_client.stream.discard();
    }

    /// Returns the messages that went in `direction`.
    pub fn messages_in(&self, direction: MessageDirection) -> impl Iterator<Item = &serde_json::Value> {
        self.observer.messages.iter().filter(move |m| m.direction == direction).map(|m| &m.value)
    }
}
