//! The part of a connection that both roles share: buffers, clock, limits, and the state of both sides.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::HttpLimits;
use super::body::{BodyRead, BodyReader, BodyWriter, Framing, MAX_CODING, append_output};
use super::error::{ConnectionFault, WriteError};
use super::read_buffer::ReadBuffer;
use super::table::{RecvState, Refusal, State, Table, Trigger};
use crate::driving::{self, DriverCheck};
use crate::memory;
use crate::outbox::Outbox;
use crate::time::{Instant, TimeoutReason};

/// One end of a connection: a [server's](super::server::Connection) or a [client's](super::client::Connection).
#[derive(Debug)]
pub struct Connection<R> {
    pub(super) limits: HttpLimits,
    pub(super) now: Instant,
    pub(super) check: DriverCheck,
    pub(super) inbox: ReadBuffer,
    pub(super) out: Outbox,
    pub(super) state: State,
    /// The reader of the current body, in the states of a body.
    pub(super) reader: BodyReader,
    /// The writer of the current body, in the states of a body.
    pub(super) writer: BodyWriter,
    /// No exchange may follow the current one.
    pub(super) closing: bool,
    pub(super) input_end: Option<InputEnd>,
    pub(super) trim_state: TrimState,
    /// Time at which input arrived last.
    last_input_at: Instant,
    /// Start of the current wait: for the rest of a head, for a body, for the next exchange, or for the close.
    pub(super) wait_started: Instant,
    /// Bytes received of the current message, or since the connection lingers.
    pub(super) received: u64,
    pub(super) role: R,
}

/// The end of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum InputEnd {
    /// The peer sends no more.
    Eof,
    /// The connection broke; a body that is delimited by the end of the connection is incomplete.
    Broken,
}

/// The role of one end of a connection.
pub(super) trait Role: Default {
    /// The transitions of the role.
    const TABLE: &'static Table;
    /// Whether the role is that of a server, which receives requests.
    const IS_SERVER: bool;
}

#[allow(private_bounds, reason = "there are no other roles")]
impl<R: Role> Connection<R> {
    /// Creates the end of a connection that was accepted or established at `now`.
    #[must_use]
    pub fn new(now: Instant, limits: HttpLimits) -> Self {
        Self {
            now,
            check: DriverCheck::default(),
            inbox: ReadBuffer::default(),
            out: Outbox::default(),
            state: State::IDLE,
            reader: BodyReader::new(Framing::None, &limits),
            writer: BodyWriter::Exact(0),
            closing: false,
            input_end: None,
            trim_state: TrimState::Trimmed,
            last_input_at: now,
            wait_started: now,
            received: 0,
            role: R::default(),
            limits,
        }
    }

    /// Processes bytes that were read.
    pub fn handle_input(&mut self, now: Instant, input: &[u8]) {
        self.tick(now);
        if self.input_end.is_some() || input.is_empty() {
            return;
        }
        // The connection is over, and what still arrives is dropped.
        let Ok(next) = self.next(Trigger::Input) else { return };
        self.last_input_at = self.now;
        if next.recv != RecvState::Lingering {
            // The check comes before the input is added, so the buffer exceeds its limit by one read at most. A driver
            // that respects `wants_input` never comes here.
            if self.inbox.len() >= self.limits.buffer_limit() {
                return self.advance(Trigger::Overrun);
            }
            // The timeout and the byte count of a message begin with the first byte of its head.
            if next.recv == RecvState::Head && self.inbox.is_empty() {
                (self.wait_started, self.received) = (self.now, 0);
            }
            self.state = next;
            self.inbox.push(input);
            self.trim_state = TrimState::IdleSince(self.now);
        }
        self.received = self.received.saturating_add(input.len() as u64);
    }

    /// Records the end of the input: the peer sends no more.
    pub fn handle_eof(&mut self, now: Instant) {
        self.tick(now);
        // A broken connection stays broken: the end of the input must not make its body complete.
        self.input_end.get_or_insert(InputEnd::Eof);
    }

    /// Advances the time to `now`; the effects appear at the next poll.
    pub fn handle_timeout(&mut self, now: Instant) {
        if cfg!(debug_assertions) {
            self.tick(now);
            self.check.handle_timeout(self.now, self.poll_timeout().zip(self.timeout_reason()), true);
        }
        self.advance_time(now);
    }

    /// Does the same for an owner that checks its driver itself.
    pub(crate) fn advance_time(&mut self, now: Instant) {
        self.tick(now);
        if self.trim_deadline().is_some_and(|t| t <= self.now) {
            self.trim();
        }
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) and poll.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.deadline(), self.trim_deadline()].into_iter().flatten().min()
    }

    /// Returns the reason of the deadline of [`poll_timeout`](Self::poll_timeout).
    #[must_use]
    pub fn timeout_reason(&self) -> Option<TimeoutReason> {
        let wait = match self.state.recv {
            RecvState::Idle => TimeoutReason::IdleConnection,
            RecvState::Head => TimeoutReason::Head,
            RecvState::Lingering => TimeoutReason::Linger,
            // The others have no deadline.
            _ => TimeoutReason::Body,
        };
        let trim = self.trim_deadline().map(|at| (at, TimeoutReason::Trim));
        let earliest = TimeoutReason::earliest([self.deadline().map(|at| (at, wait)), trim]);
        earliest.map(|(_, reason)| reason)
    }

    /// Returns whether to read now.
    ///
    /// For a client this is also true without a request, because reading detects the end of the connection.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.input_end.is_none()
            && match self.state.recv {
                RecvState::Lingering => self.drain_deadline().is_some(),
                _ => self.next(Trigger::Input).is_ok() && self.inbox.len() < self.limits.buffer_limit(),
            }
    }

    /// Returns the bytes to write next; empty if there are none.
    #[must_use]
    pub fn transmit(&self) -> &[u8] {
        self.out.transmit()
    }

    /// Returns all pending slices in order, for vectored writes.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.out.segments()
    }

    /// Records that `n` bytes were written.
    pub fn consume(&mut self, n: usize) {
        // A write without a byte is no progress: input must still count as unsolicited.
        if n > 0 {
            self.advance(Trigger::Sent);
        }
        self.out.consume(n);
    }

    /// Returns the number of bytes that are not written yet.
    #[must_use]
    pub const fn unsent_len(&self) -> usize {
        self.out.len()
    }

    /// Returns the number of received bytes that are not parsed yet: a partial head, or pipelined requests.
    #[must_use]
    pub fn unread_len(&self) -> usize {
        self.inbox.len()
    }

    /// Returns the bytes that both buffers take, without segments.
    pub(crate) fn buffer_capacity(&self) -> usize {
        self.inbox.capacity() + self.out.capacity()
    }

    /// Appends to the body of our message; the data is copied.
    ///
    /// # Errors
    ///
    /// - [`WriteError::Closed`]: the connection has ended.
    /// - [`WriteError::OutOfOrder`]: no message is being written.
    /// - [`WriteError::Length`]: the data exceeds the announced length.
    pub fn write_body(&mut self, data: &[u8]) -> Result<(), WriteError> {
        // The call has no `now`. The next tick turns this into the start of the idle time.
        self.trim_state = TrimState::InUse;
        self.next(Trigger::SendData)?;
        self.writer.write(&mut self.out, data)
    }

    /// Makes room for a piece of `bytes` bytes. Returns false without memory for a copy of it.
    pub(crate) fn make_room(&mut self, bytes: usize) -> bool {
        memory::reserve(self.out.tail(), bytes.saturating_add(MAX_CODING))
    }

    /// Appends to the body of our message; a large piece is sent without a copy.
    ///
    /// # Errors
    ///
    /// As [`write_body`](Self::write_body).
    pub fn write_body_owned(&mut self, data: &Bytes) -> Result<(), WriteError> {
        self.trim_state = TrimState::InUse;
        self.next(Trigger::SendData)?;
        self.writer.write_owned(&mut self.out, data)
    }

    /// Completes our message.
    ///
    /// # Errors
    ///
    /// - [`WriteError::Closed`]: the connection has ended.
    /// - [`WriteError::OutOfOrder`]: no message is being written.
    /// - [`WriteError::Length`]: the body is shorter than the announced length.
    pub fn end(&mut self, now: Instant) -> Result<(), WriteError> {
        self.tick(now);
        let next = self.next(Trigger::SendEnd)?;
        self.writer.end(&mut self.out)?;
        self.trim_state = TrimState::IdleSince(self.now);
        // The state changes only here: a body that is too short leaves the message open for the rest.
        self.state = next;
        // The request has no bytes left, so no input would end this state.
        if next.recv == RecvState::Discard && self.reader.is_done() {
            self.advance(Trigger::RecvEnd);
        }
        // A closing connection does not wait for the rest of the request.
        if self.closing || self.state.recv == RecvState::Done {
            self.finish_exchange();
        }
        Ok(())
    }

    /// Ends the connection: immediately if no exchange is open, otherwise after the exchange.
    pub fn close(&mut self, now: Instant) {
        self.tick(now);
        // An open exchange refuses `Close`. This flag then ends the connection behind it.
        self.closing = true;
        self.stop(Trigger::Close);
    }

    /// Aborts the exchange and the connection, because HTTP/1.1 has no other way to tell the peer.
    ///
    /// A response that has begun is truncated visibly. If none has begun, none is sent.
    pub fn abort(&mut self, now: Instant) {
        self.tick(now);
        self.stop(Trigger::Abort);
    }

    /// Frees the memory of empty buffers.
    pub fn trim(&mut self) {
        self.inbox.trim();
        self.out.trim(0);
        if self.inbox.is_empty() && self.out.is_empty() {
            self.trim_state = TrimState::Trimmed;
        }
    }

    /// Returns whether the memory of the buffers was freed since they were used last.
    pub(crate) fn is_trimmed(&self) -> bool {
        self.trim_state == TrimState::Trimmed
    }

    /// Appends a head that `write` produces to the output.
    pub(super) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        append_output(&mut self.out, write);
        self.trim_state = TrimState::IdleSince(self.now);
    }

    /// Returns the state after `trigger`.
    #[inline]
    pub(super) fn next(&self, trigger: Trigger) -> Result<State, Refusal> {
        self.state.next(R::TABLE, trigger)
    }

    /// Moves to the state after `trigger`, if there is one.
    #[inline]
    pub(super) fn advance(&mut self, trigger: Trigger) {
        if let Ok(next) = self.next(trigger) {
            self.state = next;
        }
    }

    /// Ends the connection by `trigger`, if it may.
    pub(super) fn stop(&mut self, trigger: Trigger) {
        let Ok(next) = self.next(trigger) else { return };
        self.state = next;
        // Pipelined requests go, too: nothing will answer them.
        self.inbox.clear();
        self.wait_started = self.now;
        if next.recv == RecvState::Lingering {
            self.received = 0;
        }
        // A server still sends what it has. The rest of a request is of no use.
        if !R::IS_SERVER {
            self.out.clear();
        }
    }

    /// Ends the exchange if both messages are complete.
    pub(super) fn finish_exchange(&mut self) {
        if let Ok(next) = self.next(Trigger::Reuse) {
            (self.state, self.wait_started) = (next, self.now);
            if !self.inbox.is_empty() {
                // A pipelined request.
                self.advance(Trigger::Input);
                // These bytes were counted for the message before.
                self.received = self.inbox.len() as u64;
            }
        }
        if self.closing {
            // A client that still sends may not have read the response; closing immediately could discard it.
            self.stop(Trigger::EndEarly);
            self.stop(Trigger::Close);
        }
    }

    /// Reads the next part of the peer's body.
    pub(super) fn read_body(&mut self) -> Result<BodyRead, ConnectionFault> {
        let eof = self.input_end == Some(InputEnd::Eof);
        match self.reader.read(&mut self.inbox, &self.limits)? {
            // A broken connection does not come here: its body may lack a part.
            BodyRead::Incomplete if eof && self.reader.is_until_close() => Ok(BodyRead::End),
            BodyRead::Incomplete => self.check_wait().map(|()| BodyRead::Incomplete),
            read => Ok(read),
        }
    }

    /// Checks whether more input can come, which is needed, and comes in time.
    pub(super) fn check_wait(&mut self) -> Result<(), ConnectionFault> {
        let trigger = match self.input_end {
            Some(_) => Trigger::Eof,
            None if self.deadline().is_some_and(|d| d <= self.now) => Trigger::Timeout,
            None => return Ok(()),
        };
        // Between messages the end is in order; the table has a fault only inside of one.
        if let Err(Refusal::Fault(reason)) = self.next(trigger) {
            return Err(self.inbox.fault_at_end(reason));
        }
        self.stop(trigger);
        Ok(())
    }

    /// Returns when the current wait ends.
    fn deadline(&self) -> Option<Instant> {
        match self.state.recv {
            RecvState::Idle if self.out.is_empty() => Some(self.wait_started + self.limits.keep_alive),
            // The buffer is empty after an interim response. The server is at work then, and only the caller has a
            // timeout.
            RecvState::Head if !self.inbox.is_empty() => Some(self.wait_started + self.limits.head_timeout),
            RecvState::Body | RecvState::Discard => {
                // `wait_started` is later than the last input if the body was left unread for a while
                // (`restart_body`).
                let idle = self.last_input_at.max(self.wait_started) + self.limits.body_idle_timeout;
                if R::IS_SERVER {
                    return Some(idle.min(self.wait_started + self.limits.body_timeout));
                }
                // The stream of a server may be idle without limit.
                Some(idle).filter(|_| self.reader.is_exact())
            }
            RecvState::Lingering if self.input_end.is_none() => self.drain_deadline(),
            _ => None,
        }
    }

    /// Returns when a connection that lingers stops to: after a pause of `drain_timeout`, or after ten times that.
    pub(super) fn drain_deadline(&self) -> Option<Instant> {
        // A client that sends one byte within each pause would otherwise keep the connection until `max_linger`.
        let (pause, all) = (self.limits.drain_timeout, self.limits.drain_timeout.saturating_mul(10));
        let end = (self.last_input_at.max(self.wait_started) + pause).min(self.wait_started + all);
        let lingers = self.state.recv == RecvState::Lingering && self.received < self.limits.max_linger;
        Some(end).filter(|end| lingers && self.now < *end)
    }

    /// Returns when the empty buffers are to be freed.
    fn trim_deadline(&self) -> Option<Instant> {
        if self.state.is_over() || !self.inbox.is_empty() || !self.out.is_empty() {
            return None;
        }
        self.trim_state.trim_deadline(self.now, self.limits.idle_trim)
    }

    pub(super) fn tick(&mut self, now: Instant) {
        driving::check_time(self.now, now);
        self.now = self.now.max(now);
        self.trim_state.tick(self.now);
    }
}

// Order in which connections are closed when the server needs a permit for another client.

/// Time from which a connection may be evicted, and how little is lost by it (SEC-018).
///
/// The connection with the smallest value is evicted first: the order is by class, then by time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Eviction {
    /// The class of the connection.
    pub class: EvictionClass,
    /// The time from which it may be evicted.
    pub at: Instant,
}

/// The classes of connections that may be evicted; the first one is evicted first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EvictionClass {
    /// The last response was written; the connection only lingers (RFC 9112, 9.6).
    Done,
    /// Not a single byte was received.
    Silent,
    /// The head of a request is incomplete.
    IncompleteHead,
    /// The token of the request has waited for its decision for 2 s; nobody knows yet whose request it is.
    Undecided,
    /// The client sends a body, or takes a response, slower than
    /// [`min_rate`](super::HttpLimits::min_rate).
    Slow,
    /// The connection waits for its next request.
    Idle,
}

// Idle time of buffers, to decide when to free their memory.

/// Whether buffers hold memory that can be freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TrimState {
    /// No memory is held.
    Trimmed,
    /// The buffers were used after the last known instant.
    InUse,
    /// The buffers have been idle since this instant.
    IdleSince(Instant),
}

impl TrimState {
    /// Starts the idle time at `now` if the buffers were in use.
    #[inline]
    pub(super) fn tick(&mut self, now: Instant) {
        if *self == Self::InUse {
            *self = Self::IdleSince(now);
        }
    }

    /// Returns when the idle time ends.
    pub(super) fn trim_deadline(self, now: Instant, quiet: Duration) -> Option<Instant> {
        match self {
            Self::Trimmed => None,
            Self::InUse => Some(now + quiet),
            Self::IdleSince(then) => Some(then + quiet),
        }
    }
}
