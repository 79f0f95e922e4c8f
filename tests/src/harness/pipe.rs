//! Harness for one side of a pipe: lines in, events and messages out, on virtual time.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::{DeprecatedFeature, Instant, VersionSet, client, server};
use mcp_sim::stream::{ChunkSizes, Chunker, LineAssembler};
use serde_json::Value;

use super::describe;
use super::observer::MessageObserver;
use crate::schema::MessageDirection;

/// Output of a run: its events as text, and its messages. It must not depend on how the input was cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    /// Events, as text.
    pub events: Vec<String>,
    /// Messages, as JSON text.
    pub sent: Vec<String>,
}

/// One side of a pipe, with the test as its peer.
#[derive(Debug)]
pub struct PipeHarness<P: Pipe> {
    /// Side under test, for commands; call [`pump`](Self::pump) after them.
    pub pipe: P,
    /// Virtual time.
    pub now: Instant,
    /// Whether the peer has stopped reading.
    pub is_blocked: bool,
    /// Observer of both directions.
    pub observer: MessageObserver,
    /// All output since the start.
    pub transcript: Transcript,
    /// Deprecated features that were reported; kept apart from the events.
    pub deprecated_features: Vec<DeprecatedFeature>,
    chunk_sizes: ChunkSizes,
    direction: MessageDirection,
    describe_event: fn(&P::Event) -> String,
    deprecated_feature: fn(&P::Event) -> Option<DeprecatedFeature>,
    input: VecDeque<u8>,
    eof: bool,
    fed_lines: LineAssembler,
    sent_lines: LineAssembler,
    events: VecDeque<P::Event>,
    sent: VecDeque<Value>,
}

/// A server alone.
pub type ServerHarness = PipeHarness<Server>;
/// A client alone.
pub type ClientHarness = PipeHarness<Client>;

impl PipeHarness<Server> {
    /// Returns a server whose input is cut by `chunker`.
    #[must_use]
    pub fn server(config: server::Config, chunker: Chunker) -> Self {
        let observer = MessageObserver::new(config.effective_versions());
        let pipe = Server::new(Arc::new(config), Instant::ZERO);
        Self::new(
            pipe,
            chunker,
            MessageDirection::ServerToClient,
            describe::server_event,
            describe::deprecated_by_client,
            observer,
        )
    }
}

impl PipeHarness<Client> {
    /// Returns a client whose input is cut by `chunker`.
    #[must_use]
    pub fn client(config: client::Config, chunker: Chunker) -> Self {
        let pipe = Client::new(Arc::new(config), Instant::ZERO);
        Self::new(
            pipe,
            chunker,
            MessageDirection::ClientToServer,
            describe::client_event,
            describe::deprecated_by_server,
            MessageObserver::new(VersionSet::ALL),
        )
    }
}

impl<P: Pipe> PipeHarness<P> {
    fn new(
        pipe: P,
        chunker: Chunker,
        direction: MessageDirection,
        describe_event: fn(&P::Event) -> String,
        deprecated_feature: fn(&P::Event) -> Option<DeprecatedFeature>,
        observer: MessageObserver,
    ) -> Self {
        let mut harness = Self {
            pipe,
            now: Instant::ZERO,
            is_blocked: false,
            observer,
            transcript: Transcript::default(),
            deprecated_features: Vec::new(),
            chunk_sizes: ChunkSizes::new(chunker),
            direction,
            describe_event,
            deprecated_feature,
            input: VecDeque::new(),
            eof: false,
            fed_lines: LineAssembler::default(),
            sent_lines: LineAssembler::default(),
            events: VecDeque::new(),
            sent: VecDeque::new(),
        };
        harness.pump();
        harness
    }

    // ---- input -----------------------------------------------------------------------------------------------

    /// Feeds one line, which may hold any bytes but newlines.
    pub fn feed(&mut self, line: impl AsRef<[u8]>) {
        self.feed_bytes(&[line.as_ref(), b"\n"].concat());
    }

    /// Feeds one message.
    pub fn feed_message(&mut self, message: &Value) {
        self.feed(message.to_string());
    }

    /// Feeds several messages at once.
    pub fn feed_messages(&mut self, messages: &[Value]) {
        let lines: String = messages.iter().map(|m| format!("{m}\n")).collect();
        self.feed_bytes(lines.as_bytes());
    }

    /// Feeds bytes.
    pub fn feed_bytes(&mut self, bytes: &[u8]) {
        for line in self.fed_lines.push(bytes) {
            self.observer.record_fed(self.now, self.direction.reverse(), &line);
        }
        self.input.extend(bytes);
        self.pump();
    }

    /// Ends the input.
    pub fn eof(&mut self) {
        self.eof = true;
        self.pump();
    }

    /// Advances the time by `span` and handles each deadline on the way.
    ///
    /// # Panics
    ///
    /// If deadlines fire without end while time does not advance.
    pub fn advance(&mut self, span: Duration) {
        let until = self.now + span;
        for _ in 0..100_000 {
            let next = self.pipe.poll_timeout();
            assert_eq!(next.is_some(), self.pipe.timeout_reason().is_some(), "a deadline without a reason");
            let next = next.filter(|at| *at <= until);
            self.now = next.unwrap_or(until).max(self.now);
            self.pipe.handle_timeout(self.now);
            self.pump();
            if next.is_none() {
                return;
            }
        }
        panic!("deadlines fire without end at {}", self.now);
    }

    /// Moves input, output and events until nothing moves.
    pub fn pump(&mut self) {
        loop {
            let mut moved = false;
            while let Some(event) = self.pipe.poll_event(self.now) {
                if let Some(feature) = (self.deprecated_feature)(&event) {
                    self.deprecated_features.push(feature);
                    continue;
                }
                self.transcript.events.push((self.describe_event)(&event));
                self.events.push_back(event);
                moved = true;
            }
            // Space in the outbox may admit more input.
            moved |= !self.is_blocked && self.read(usize::MAX) > 0;
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
            let n = self.chunk_sizes.next(self.input.len());
            let piece: Vec<u8> = self.input.drain(..n).collect();
            self.pipe.handle_input(self.now, &piece);
        }
    }

    /// Reads at most `n` bytes as the peer, and returns how many were read.
    pub fn read(&mut self, n: usize) -> usize {
        let mut remaining = n;
        loop {
            let bytes = self.pipe.transmit();
            if bytes.is_empty() || remaining == 0 {
                return n - remaining;
            }
            let some = self.chunk_sizes.next(bytes.len().min(remaining));
            let lines = self.sent_lines.push(&bytes[..some]);
            self.pipe.consume(some);
            remaining -= some;
            for line in lines {
                let message = self.observer.record_emitted(self.now, self.direction, &line);
                self.transcript.sent.push(message.to_string());
                self.sent.push_back(message);
            }
        }
    }

    /// Returns the number of fed bytes that the side has not taken.
    #[must_use]
    pub fn unread_input_len(&self) -> usize {
        self.input.len()
    }

    // ---- output ----------------------------------------------------------------------------------------------

    /// Takes the next event.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn expect_event(&mut self) -> P::Event {
        self.pump();
        self.events.pop_front().unwrap_or_else(|| panic!("expected an event; so far: {:#?}", self.transcript))
    }

    /// Returns whether all events have been taken.
    #[must_use]
    pub fn has_no_events(&self) -> bool {
        self.events.is_empty()
    }

    /// Takes all events, as text.
    pub fn take_event_texts(&mut self) -> Vec<String> {
        self.pump();
        self.events.drain(..).map(|e| (self.describe_event)(&e)).collect()
    }

    /// Takes all messages.
    pub fn take_sent(&mut self) -> Vec<Value> {
        self.pump();
        self.sent.drain(..).collect()
    }

    /// Takes the only message.
    ///
    /// # Panics
    ///
    /// If there is none or more than one.
    pub fn expect_reply(&mut self) -> Value {
        let mut sent = self.take_sent();
        assert!(sent.len() == 1, "expected one message, got {sent:#?}; so far: {:#?}", self.transcript);
        sent.remove(0)
    }

    /// Asserts that no message is left to take.
    ///
    /// # Panics
    ///
    /// If there is one.
    pub fn assert_nothing_sent(&mut self) {
        let sent = self.take_sent();
        assert!(sent.is_empty(), "expected no message, got {sent:#?}");
    }

    /// Asserts that no message and no event is left to take.
    ///
    /// # Panics
    ///
    /// If there is one.
    pub fn assert_idle(&mut self) {
        self.assert_nothing_sent();
        let events = self.take_event_texts();
        assert!(events.is_empty(), "expected no event, got {events:#?}");
    }
}
