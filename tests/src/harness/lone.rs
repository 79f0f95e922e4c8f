//! One side alone: raw lines in, events and messages out, on virtual time.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::{Instant, VersionSet, client, server};
use serde_json::Value;

use super::say;
use super::watch::Watch;
use super::wire::{Chunker, Cutter, Lines};
use crate::schema::Direction;

/// What came out of a run: events in words, and messages. How the input was cut must not change it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    /// The events
    pub events: Vec<String>,
    /// The messages
    pub sent: Vec<String>,
}

/// One side with a test in the place of its peer
#[derive(Debug)]
pub struct Lone<P: Pipe> {
    /// The side itself, for commands; [`pump`](Self::pump) afterwards
    pub pipe: P,
    /// The time
    pub now: Instant,
    /// Whether the peer has stopped reading
    pub blocked: bool,
    /// What passed
    pub watch: Watch,
    /// What came out, all of it
    pub transcript: Transcript,
    cutter: Cutter,
    sends: Direction,
    say: fn(&P::Event) -> String,
    input: VecDeque<u8>,
    eof: bool,
    fed: Lines,
    lines: Lines,
    events: VecDeque<P::Event>,
    sent: VecDeque<Value>,
}

/// A server alone
pub type LoneServer = Lone<Server>;
/// A client alone
pub type LoneClient = Lone<Client>;

impl Lone<Server> {
    /// A server whose input is cut in this way
    #[must_use]
    pub fn server(config: server::Config, cut: Chunker) -> Self {
        let watch = Watch::new(config.get_versions());
        let pipe = Server::new(Arc::new(config), Instant::ZERO);
        Self::new(pipe, cut, Direction::ServerToClient, say::server, watch)
    }
}

impl Lone<Client> {
    /// A client whose input is cut in this way
    #[must_use]
    pub fn client(config: client::Config, cut: Chunker) -> Self {
        let pipe = Client::new(Arc::new(config), Instant::ZERO);
        Self::new(pipe, cut, Direction::ClientToServer, say::client, Watch::new(VersionSet::ALL))
    }
}

impl<P: Pipe> Lone<P> {
    fn new(pipe: P, cut: Chunker, sends: Direction, say: fn(&P::Event) -> String, watch: Watch) -> Self {
        let mut lone = Self {
            pipe,
            now: Instant::ZERO,
            blocked: false,
            watch,
            transcript: Transcript::default(),
            cutter: Cutter::new(cut),
            sends,
            say,
            input: VecDeque::new(),
            eof: false,
            fed: Lines::default(),
            lines: Lines::default(),
            events: VecDeque::new(),
            sent: VecDeque::new(),
        };
        lone.pump();
        lone
    }

    // ---- what goes in ----------------------------------------------------------------------------------------

    /// Feeds one line, which may be anything without a newline
    pub fn feed(&mut self, line: impl AsRef<[u8]>) {
        self.feed_bytes(&[line.as_ref(), b"\n"].concat());
    }

    /// Feeds one message
    pub fn tell(&mut self, message: &Value) {
        self.feed(message.to_string());
    }

    /// Feeds several messages at once
    pub fn tell_all(&mut self, messages: &[Value]) {
        let lines: String = messages.iter().map(|m| format!("{m}\n")).collect();
        self.feed_bytes(lines.as_bytes());
    }

    /// Feeds bytes as they are
    pub fn feed_bytes(&mut self, bytes: &[u8]) {
        for line in self.fed.push(bytes) {
            self.watch.fed(self.now, self.sends.reverse(), &line);
        }
        self.input.extend(bytes);
        self.pump();
    }

    /// Ends the input
    pub fn eof(&mut self) {
        self.eof = true;
        self.pump();
    }

    /// Lets time pass
    ///
    /// # Panics
    ///
    /// When deadlines are due again and again without time going on.
    pub fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        for _ in 0..100_000 {
            let next = self.pipe.poll_timeout().filter(|at| *at <= until);
            self.now = next.unwrap_or(until).max(self.now);
            self.pipe.handle_timeout(self.now);
            self.pump();
            if next.is_none() {
                return;
            }
        }
        panic!("deadlines without end at {}", self.now);
    }

    /// Moves everything that can be moved now
    pub fn pump(&mut self) {
        loop {
            let mut moved = false;
            while let Some(event) = self.pipe.poll_event(self.now) {
                self.transcript.events.push((self.say)(&event));
                self.events.push_back(event);
                moved = true;
            }
            // Room in the outbox may let more in.
            moved |= !self.blocked && self.read(usize::MAX) > 0;
            if moved {
                continue;
            }
            if self.input.is_empty() {
                if core::mem::take(&mut self.eof) {
                    self.pipe.handle_eof(self.now);
                    continue;
                }
                return;
            }
            if !self.pipe.wants_input() {
                return;
            }
            let n = self.cutter.next(self.input.len());
            let piece: Vec<u8> = self.input.drain(..n).collect();
            self.pipe.handle_input(self.now, &piece);
        }
    }

    /// The peer reads at most `n` bytes; how many there were
    pub fn read(&mut self, n: usize) -> usize {
        let mut left = n;
        loop {
            let bytes = self.pipe.transmit();
            if bytes.is_empty() || left == 0 {
                return n - left;
            }
            let some = self.cutter.next(bytes.len().min(left));
            let lines = self.lines.push(&bytes[..some]);
            self.pipe.consume(some);
            left -= some;
            for line in lines {
                let message = self.watch.emitted(self.now, self.sends, &line);
                self.transcript.sent.push(message.to_string());
                self.sent.push_back(message);
            }
        }
    }

    /// Bytes that were fed and not taken
    #[must_use]
    pub fn untaken(&self) -> usize {
        self.input.len()
    }

    // ---- what comes out --------------------------------------------------------------------------------------

    /// The next event
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn event(&mut self) -> P::Event {
        self.pump();
        self.events.pop_front().unwrap_or_else(|| panic!("an event; so far: {:#?}", self.transcript))
    }

    /// Whether every event has been taken
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.events.is_empty()
    }

    /// All events that have not been taken, in words
    pub fn said(&mut self) -> Vec<String> {
        self.pump();
        self.events.drain(..).map(|e| (self.say)(&e)).collect()
    }

    /// All messages that have not been taken
    pub fn sent(&mut self) -> Vec<Value> {
        self.pump();
        self.sent.drain(..).collect()
    }

    /// The one message that has not been taken
    ///
    /// # Panics
    ///
    /// When there is none or more than one.
    pub fn reply(&mut self) -> Value {
        let mut sent = self.sent();
        assert!(sent.len() == 1, "one message, not {sent:#?}; so far: {:#?}", self.transcript);
        sent.remove(0)
    }

    /// Nothing was sent
    ///
    /// # Panics
    ///
    /// When something was.
    pub fn silent(&mut self) {
        let sent = self.sent();
        assert!(sent.is_empty(), "nothing, not {sent:#?}");
    }

    /// Nothing was sent and nothing happened
    ///
    /// # Panics
    ///
    /// When something did.
    pub fn still(&mut self) {
        self.silent();
        let said = self.said();
        assert!(said.is_empty(), "nothing, not {said:#?}");
    }
}
