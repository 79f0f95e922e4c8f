//! A client engine on a byte stream.

use bytes::Bytes;

use super::Pipe;
use crate::client::{Config, Engine, Event};
use crate::driving::BoundEngine as _;
use crate::frame::line::{Line, LineDecoder};
use crate::sync::Arc;
use crate::tap::ChannelId;
use crate::time::{Instant, TimeoutReason};

/// A client on a byte stream, for example a socket or the pipes of a server process.
///
/// ```
/// use std::sync::Arc;
/// use mcp_proto::{Instant, client::Config, pipe::{Client, Pipe}};
///
/// let client = Client::new(Arc::new(Config::new("demo", "1.0")), Instant::ZERO);
/// // The first request is ready to be written:
/// assert!(client.transmit().starts_with(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\""));
/// ```
#[derive(Debug)]
pub struct Client {
    engine: Engine,
    channel: ChannelId,
    decoder: LineDecoder,
    eof: bool,
}

impl Client {
    /// Creates a client whose first request is ready to be sent.
    #[must_use]
    pub fn new(config: Arc<Config>, now: Instant) -> Self {
        let limits = config.effective_limits();
        let decoder = LineDecoder::new(limits.effective_max_frame()).memory_reserve(limits.memory_reserve);
        let mut engine = Engine::new(config);
        let channel = engine.open_channel(now);
        Self { engine, channel, decoder, eof: false }
    }

    /// Returns the engine, for calls and other commands.
    pub const fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Takes bytes that were read. Messages that lie completely in them are not copied.
    pub fn handle_input_owned(&mut self, now: Instant, bytes: Bytes) {
        if !self.eof {
            self.engine.record_input(now, self.channel);
            self.decoder.push_owned(bytes);
        }
    }

    /// Decodes one message, or the end of the input. Returns false if there is none, or if decoding is paused.
    fn decode_next(&mut self, now: Instant) -> bool {
        // After the end of the input, back-pressure has no purpose: the rest is decoded immediately.
        let can_read = self.engine.can_answer(self.channel) && !self.engine.is_stalled();
        if self.engine.is_closed() || !(can_read || self.eof) {
            return false;
        }
        match self.decoder.next_line() {
            Some(Line::Frame(frame)) => self.engine.handle_message(now, self.channel, frame),
            Some(Line::TooLong(oversize)) => self.engine.handle_oversize(now, self.channel, oversize),
            None if self.eof => self.engine.end_input(now, self.decoder.partial()),
            None => return false,
        }
        true
    }
}

impl Pipe for Client {
    type Event = Event;

    fn handle_input(&mut self, now: Instant, bytes: &[u8]) {
        if !self.eof {
            self.engine.record_input(now, self.channel);
            self.decoder.push(bytes);
        }
    }

    fn hold_keep_alive(&mut self, now: Instant) {
        self.engine.hold_keep_alive(now);
    }

    fn handle_eof(&mut self, _now: Instant) {
        // Only noted: `poll_event` decodes the rest of the input first, and reports the end after it.
        self.eof = true;
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.engine.handle_timeout_with(now, self.decoder.buffered() > 0);
        if self.engine.is_idle() {
            self.decoder.trim();
        }
    }

    fn poll_event(&mut self, now: Instant) -> Option<Event> {
        // Taken once there is one, instead of passed on: events are large.
        while !crate::client::has_event(&mut self.engine, now) && self.decode_next(now) {}
        crate::client::take_event(&mut self.engine)
    }

    fn wants_input(&self) -> bool {
        // Unfinished outbound calls never pause reading (DESIGN-12); what is unpolled is bounded by the decoder.
        !self.eof
            && !self.engine.is_closed()
            // More than one frame, so that the largest one always becomes complete.
            && self.decoder.buffered() <= self.decoder.max().saturating_mul(2)
    }

    fn transmit(&self) -> &[u8] {
        self.engine.peek_outbox(self.channel)
    }

    fn consume(&mut self, n: usize) {
        if let Some(outbox) = self.engine.outbox(self.channel) {
            outbox.consume(n);
        }
        self.engine.driver_check().progressed();
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.engine.poll_timeout()
    }

    fn poll_timeout_without_trim(&mut self) -> Option<Instant> {
        self.engine.poll_timeout_without_trim()
    }

    fn timeout_reason(&mut self) -> Option<TimeoutReason> {
        self.engine.timeout_reason()
    }

    fn is_drained(&self) -> bool {
        self.engine.is_drained()
    }
}
