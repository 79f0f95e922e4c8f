//! A server engine on a byte stream.

use core::time::Duration;

use bytes::Bytes;

use super::Pipe;
use crate::driving::BoundEngine as _;
use crate::error::Fault;
use crate::frame::line::LineDecoder;
use crate::server::{Config, Engine, Event, can_answer};
use crate::sync::Arc;
use crate::tap::ChannelId;
use crate::time::{Instant, TimeoutReason};

/// A server on a byte stream, for example a socket or stdin and stdout.
///
/// ```
/// use std::sync::Arc;
/// use mcp_proto::{Capabilities, Capability, Instant, pipe::{Pipe, Server}, server::{Config, Event}};
///
/// let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
/// let mut server = Server::new(Arc::new(config), Instant::ZERO);
/// server.handle_input(Instant::ZERO, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
/// while let Some(event) = server.poll_event(Instant::ZERO) {
///     if let Event::Call(call) = event {
///         // … work, then: server.engine().complete(now, call.id(), &result)
///     }
/// }
/// assert_eq!(server.transmit(), b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
/// ```
#[derive(Debug)]
pub struct Server {
    engine: Engine,
    channel: ChannelId,
    decoder: LineDecoder,
    eof: bool,
    /// Input waits until output is written, because an answer to it might have no memory.
    is_starved: bool,
}

impl Server {
    /// Creates a server with one channel.
    #[must_use]
    pub fn new(config: Arc<Config>, now: Instant) -> Self {
        let mut engine = Engine::new(config);
        let (decoder, channel) = (engine.line_decoder(), engine.open_channel(now));
        Self { engine, channel, decoder, eof: false, is_starved: false }
    }

    /// Returns the engine, for answers and other commands.
    pub const fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Returns the channel of the byte stream.
    #[must_use]
    pub const fn channel(&self) -> ChannelId {
        self.channel
    }

    /// Returns whether decoding is paused until calls are answered or output is written.
    ///
    /// Input that was already received, a cancellation or the end of the stream for example, waits meanwhile. Returns
    /// false once the engine has seen the end of the input; the grace period for open calls runs then.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        let is_stalled = self.is_starved || self.engine.is_stalled(self.channel);
        is_stalled && !self.engine.has_input_ended(self.channel)
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
        // Asked before each message, because the answer to the last one may have taken the room.
        self.is_starved = !can_answer(&mut self.engine, self.channel);
        if self.is_starved || self.engine.is_stalled(self.channel) {
            return false;
        }
        match self.decoder.next_line() {
            Some(line) => self.engine.handle_line(now, self.channel, line),
            None if self.eof => {
                let fault = match self.decoder.partial() {
                    0 => Fault::Eof,
                    bytes => Fault::Truncated { bytes },
                };
                let grace = self.engine.config().effective_limits().eof_grace_period;
                // Once: from here on the engine is stalled on this channel.
                self.engine.end_input(now, self.channel.0, &fault, grace);
            }
            None => return false,
        }
        true
    }

    /// Refuses new requests, and closes the channel when all calls are answered or `grace` has passed.
    pub fn shutdown(&mut self, now: Instant, grace: Duration) {
        self.eof = true;
        self.engine.shutdown(now, grace);
    }

    /// Closes the channel immediately: cancels its calls and drops unwritten output.
    pub fn abort(&mut self, now: Instant, fault: &Fault) {
        self.eof = true;
        self.engine.close_channel(now, self.channel, fault);
    }
}

impl Pipe for Server {
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
        while !crate::server::has_event(&mut self.engine, now) && self.decode_next(now) {}
        crate::server::take_event(&mut self.engine)
    }

    fn wants_input(&self) -> bool {
        // Input that was not polled yet is bounded as well.
        let room = self.decoder.buffered() <= self.decoder.max().saturating_mul(2);
        !self.eof && room && !self.is_starved && !self.engine.is_stalled(self.channel)
    }

    fn transmit(&self) -> &[u8] {
        self.engine.peek_outbox(self.channel)
    }

    fn consume(&mut self, n: usize) {
        // What was written has made room, perhaps. The next poll finds out.
        self.is_starved = false;
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
        self.engine.is_drained(self.channel)
    }
}
