//! The server end of a connection: receives requests and sends responses, one exchange at a time.

use core::time::Duration;

use bytes::Bytes;

use super::body::{BodyRead, BodyReader, BodyWriter, Framing, append_output, has_framing_field};
use super::error::{ConnectionFault, Reason, WriteError};
use super::eviction::{Eviction, EvictionClass};
use super::fields::{self, FastParse, HeadFault, RequestFraming};
use super::limits::HttpLimits;
use super::read_buffer::ReadBuffer;
use super::status::{put_length, put_status};
use super::trim::TrimState;
use crate::head::{BodySize, Fields, RequestHead, is_token};
use crate::outbox::Outbox;
use crate::time::Instant;

/// Properties of a request body that the fields alone do not show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestBodyInfo {
    /// Framing of the body.
    pub framing: Framing,
    /// The client waits for `100 Continue`.
    ///
    /// It is sent when the caller polls for the body before it has responded.
    pub expects_continue: bool,
    /// The request is HTTP/1.0, so a [stream](BodySize::Stream) in the response ends with the connection.
    pub is_http10: bool,
}

/// An event of the server end of a connection.
#[derive(Debug)]
pub enum Event<R> {
    /// The head of a request, as converted by the callback.
    Head(R),
    /// A piece of the body.
    Body(Bytes),
    /// The end of the request.
    End,
    /// The client ended its half of the connection after a complete request and before the response was complete.
    ///
    /// It counts as gone. Further output is discarded, and commands are refused.
    ClientGone,
    /// The connection has ended.
    ///
    /// A request whose [`End`](Self::End) was not reported is incomplete. If no response has begun, the client gets one
    /// with [`ConnectionFault::status`]. Otherwise the response is truncated.
    Fault(ConnectionFault),
}

/// The server end of one connection.
///
/// The caller reads while [`wants_input`](Self::wants_input), passes the input in, polls until there are no more
/// events, and writes [`transmit`](Self::transmit). It closes the socket when [`wants_close`](Self::wants_close). See
/// [the module](super).
#[derive(Debug)]
pub struct Connection {
    limits: HttpLimits,
    now: Instant,
    inbox: ReadBuffer,
    out: Outbox,
    reading: RequestReadState,
    writing: ResponseWriteState,
    request: RequestFraming,
    /// No request may follow the current one.
    closing: bool,
    eof_received: bool,
    serves_half_closed: bool,
    blank_skipped: bool,
    trim_state: TrimState,
    needs_reset: bool,
    /// Time at which input arrived last.
    last_input_at: Instant,
    /// Start of the current wait: for the rest of a head, for a body, for the next request, or for the close.
    wait_started: Instant,
    /// When the current request began; `None` until the first byte of the first request.
    request_started: Option<Instant>,
    /// Bytes received since then, or since the connection was closed for requests.
    received: u64,
}

#[derive(Clone, Copy, Debug)]
enum RequestReadState {
    /// A head is expected.
    Head,
    Body(BodyReader),
    /// The request is complete; the next one waits for the end of the response.
    Complete,
    /// Input arrived although the buffer was full.
    Overrun,
    /// No more requests are accepted; while `draining`, input is read and dropped.
    Closed {
        draining: bool,
    },
}

#[derive(Clone, Copy, Debug)]
enum ResponseWriteState {
    /// There is no request to respond to.
    Idle,
    /// A request was delivered and has no response yet.
    Pending {
        continue_handled: bool,
    },
    Body(BodyWriter),
    /// The response is complete; the request is not.
    Ended,
}

impl Connection {
    /// Creates the server end of a connection that was accepted at `now`.
    #[must_use]
    pub fn new(now: Instant, limits: HttpLimits) -> Self {
        Self {
            limits,
            now,
            inbox: ReadBuffer::default(),
            out: Outbox::default(),
            reading: RequestReadState::Head,
            writing: ResponseWriteState::Idle,
            request: RequestFraming {
                framing: Framing::None,
                expects_continue: false,
                is_http10: false,
                closes_connection: false,
                is_head_request: false,
            },
            closing: false,
            eof_received: false,
            serves_half_closed: false,
            blank_skipped: false,
            trim_state: TrimState::Trimmed,
            needs_reset: false,
            last_input_at: now,
            wait_started: now,
            request_started: None,
            received: 0,
        }
    }

    /// Sets whether a client that ended its half of the connection still gets its responses (default: no).
    ///
    /// By default such a client counts as gone, because both cases look alike (DESIGN-16).
    pub const fn serve_half_closed(&mut self, serve: bool) {
        self.serves_half_closed = serve;
    }

    /// Processes bytes that were read.
    pub fn handle_input(&mut self, now: Instant, input: &[u8]) {
        self.tick(now);
        if self.eof_received || input.is_empty() {
            return;
        }
        self.last_input_at = self.now;
        self.received = self.received.saturating_add(input.len() as u64);
        if matches!(self.reading, RequestReadState::Closed { .. } | RequestReadState::Overrun) {
            return;
        }
        if self.inbox.len() >= self.limits.buffer_limit() {
            self.reading = RequestReadState::Overrun;
            return;
        }
        if matches!(self.reading, RequestReadState::Head) && self.inbox.is_empty() {
            self.wait_started = self.now;
            (self.request_started, self.received) = (Some(self.now), input.len() as u64);
        }
        self.inbox.push(input);
        self.trim_state = TrimState::IdleSince(self.now);
    }

    /// Records the end of the input: the client sends no more.
    pub fn handle_eof(&mut self, now: Instant) {
        self.tick(now);
        self.eof_received = true;
    }

    /// Advances the time to `now`; the effects appear at the next poll.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.tick(now);
        if self.deadline().is_some_and(|d| d <= self.now) {
            return;
        }
        if self.trim_deadline().is_some_and(|t| t <= self.now) {
            self.trim();
        }
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) and poll.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.deadline(), self.trim_deadline()].into_iter().flatten().min()
    }

    /// Returns whether to read now.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        !self.eof_received
            && match self.reading {
                RequestReadState::Closed { .. } => self.is_draining(),
                _ => self.inbox.len() < self.limits.buffer_limit(),
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
        self.out.consume(n);
    }

    /// Returns the number of bytes that are not written yet.
    #[must_use]
    pub const fn unsent_len(&self) -> usize {
        self.out.len()
    }

    /// Returns whether to shut down the writing half of the socket: all output was written and none will follow.
    #[must_use]
    pub const fn wants_write_shutdown(&self) -> bool {
        matches!(self.reading, RequestReadState::Closed { .. }) && self.out.is_empty()
    }

    /// Returns whether to close the socket: all output was written, and the client had time to read it.
    #[must_use]
    pub fn wants_close(&self) -> bool {
        self.wants_write_shutdown() && (self.eof_received || !self.is_draining())
    }

    /// Returns whether to reset the socket instead of closing it in order.
    ///
    /// This is true if a response that is delimited by the end of the connection was [truncated](Self::abort).
    #[must_use]
    pub const fn wants_reset(&self) -> bool {
        self.needs_reset
    }

    /// Returns the number of received bytes that are not parsed yet: a partial head, or pipelined requests.
    #[must_use]
    pub fn unread_len(&self) -> usize {
        self.inbox.len()
    }

    /// Returns whether no request is being read or answered, so that closing the connection loses nothing.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!((self.reading, self.writing), (RequestReadState::Head, ResponseWriteState::Idle))
            && self.inbox.is_empty()
    }

    /// Returns whether the head of a request is expected or waits in the buffer.
    #[cfg(feature = "http")]
    pub(crate) const fn is_reading_head(&self) -> bool {
        matches!(self.reading, RequestReadState::Head)
    }

    /// Returns from when the connection may be evicted in favour of another one, if it may at all.
    ///
    /// It may not while a complete request has no complete response.
    #[must_use]
    pub fn eviction(&self) -> Option<Eviction> {
        let (class, at) = match (self.reading, self.writing) {
            _ if !self.out.is_empty() => return None,
            (RequestReadState::Closed { .. }, _) | (RequestReadState::Body(_), ResponseWriteState::Ended) => {
                (EvictionClass::Done, self.wait_started)
            }
            (RequestReadState::Head, _) if !self.inbox.is_empty() => {
                (EvictionClass::IncompleteHead, self.wait_started)
            }
            (RequestReadState::Head, _) if self.request_started.is_none() => {
                (EvictionClass::Silent, self.wait_started)
            }
            (RequestReadState::Head, _) => (EvictionClass::Idle, self.wait_started + MIN_IDLE),
            (RequestReadState::Body(_), _) => {
                (EvictionClass::Slow, self.request_started? + self.time_at_min_rate(self.received)?)
            }
            _ => return None,
        };
        Some(Eviction { class, at })
    }

    /// Returns the time that `bytes` take at the minimum rate, after which they fall below it; `None` without one.
    pub(crate) fn time_at_min_rate(&self, bytes: u64) -> Option<Duration> {
        let micros = bytes.saturating_mul(1_000_000).checked_div(self.limits.min_rate.into())?;
        Some(Duration::from_micros(micros))
    }

    /// Ends the request that is being received as if its time had run out: the client gets 408.
    pub fn time_out(&mut self, now: Instant) {
        self.tick(now);
        let reason = match self.reading {
            RequestReadState::Head if !self.inbox.is_empty() => Reason::HeadTimeout,
            RequestReadState::Body(_) => Reason::BodyTimeout,
            _ => return,
        };
        let fault = self.inbox.fault_at_end(reason);
        let _ = self.fail::<()>(fault);
    }

    /// Returns the next event; `on_head` converts the head of a request and the properties of its body.
    pub fn poll_event<R>(
        &mut self,
        now: Instant,
        on_head: impl FnOnce(RequestHead<'_>, &RequestBodyInfo) -> R,
    ) -> Option<Event<R>> {
        self.poll_event_if(now, |head, info| Some(on_head(head, info)))
    }

    /// Returns the next event, unless `on_head` declines the head.
    ///
    /// A declined head stays in the buffer, and there is no event for now. See [`poll_event`](Self::poll_event).
    pub fn poll_event_if<R>(
        &mut self,
        now: Instant,
        on_head: impl FnOnce(RequestHead<'_>, &RequestBodyInfo) -> Option<R>,
    ) -> Option<Event<R>> {
        self.tick(now);
        loop {
            match self.reading {
                RequestReadState::Head => return self.read_head(on_head),
                RequestReadState::Body(reader) => match self.read_body(reader) {
                    // The rest of a request that was already answered is dropped.
                    Ok(BodyRead::Data(_)) if matches!(self.writing, ResponseWriteState::Ended) => {}
                    Ok(BodyRead::End) if matches!(self.writing, ResponseWriteState::Ended) => {
                        self.finish_exchange()
                    }
                    Err(_) if matches!(self.writing, ResponseWriteState::Ended) => {
                        self.stop(false);
                        return None;
                    }
                    Ok(BodyRead::Data(data)) => return Some(Event::Body(data)),
                    Ok(BodyRead::End) => {
                        self.reading = RequestReadState::Complete;
                        return Some(Event::End);
                    }
                    Ok(BodyRead::Incomplete) => return None,
                    Err(fault) => return self.fail(fault),
                },
                RequestReadState::Complete if self.eof_received && !self.serves_half_closed => {
                    self.truncate_response();
                    return Some(Event::ClientGone);
                }
                RequestReadState::Overrun => return self.fail(self.inbox.fault_at_end(Reason::Overrun)),
                RequestReadState::Complete | RequestReadState::Closed { .. } => return None,
            }
        }
    }

    fn read_head<R>(
        &mut self,
        on_head: impl FnOnce(RequestHead<'_>, &RequestBodyInfo) -> Option<R>,
    ) -> Option<Event<R>> {
        // One empty line before a request is tolerated (RFC 9112, 2.2).
        if !self.blank_skipped && self.inbox.bytes().starts_with(b"\r\n") {
            self.inbox.advance(2);
            self.blank_skipped = true;
        }
        let may_begin = match self.inbox.bytes() {
            [] => true,
            [b'\r'] => !self.blank_skipped,
            [first, ..] => is_token(&[*first]),
        };
        if !may_begin {
            // Most likely another protocol, so there is no line end to wait for.
            return self.fail(self.inbox.fault(Reason::RequestLine, 0));
        }
        let with_info = |request: RequestHead<'_>, framing: &RequestFraming| {
            let info = RequestBodyInfo {
                framing: framing.framing,
                expects_continue: framing.expects_continue,
                is_http10: framing.is_http10,
            };
            on_head(request, &info)
        };
        // Most heads arrive in one piece.
        let with_info = match self.inbox.is_fresh() {
            false => with_info,
            true => match fields::parse_request_fast(self.inbox.bytes(), &self.limits, with_info) {
                FastParse::Parsed(read, length) => return self.accept_head(read, length),
                FastParse::Undecided(with_info) => with_info,
            },
        };
        let found = match self.inbox.find_head(self.limits.max_head, Reason::TargetTooLong) {
            Ok(Some(found)) => found,
            Ok(None) => return self.check_partial_head(),
            Err(fault) => return self.fail(fault),
        };
        let head = self.inbox.bytes().get(..found.length).unwrap_or_default();
        let read = fields::parse_request(head, found.lines, &self.limits, with_info);
        self.accept_head(read, found.length)
    }

    fn accept_head<R>(
        &mut self,
        read: Result<(Option<R>, RequestFraming), HeadFault>,
        length: usize,
    ) -> Option<Event<R>> {
        let (r, framing) = match read {
            Ok((Some(r), framing)) => (r, framing),
            Ok((None, _)) => {
                self.inbox.rewind();
                return None;
            }
            Err((reason, at)) => return self.fail(self.inbox.fault(reason, at)),
        };
        self.inbox.advance(length);
        self.request = framing;
        self.closing |= framing.closes_connection;
        self.blank_skipped = false;
        self.wait_started = self.now;
        self.reading = RequestReadState::Body(BodyReader::new(framing.framing, &self.limits));
        self.writing = ResponseWriteState::Pending { continue_handled: !framing.expects_continue };
        Some(Event::Head(r))
    }

    fn check_partial_head<R>(&mut self) -> Option<Event<R>> {
        if self.inbox.is_empty() {
            if !self.out.is_empty() {
                // The keep-alive time may begin when the client can have read the response.
                self.wait_started = self.now;
            }
            if self.eof_received || self.deadline().is_some_and(|d| d <= self.now) {
                self.reading = RequestReadState::Closed { draining: false };
            }
            return None;
        }
        if self.eof_received {
            return self.fail(self.inbox.fault_at_end(Reason::Truncated));
        }
        if self.deadline().is_some_and(|d| d <= self.now) {
            return self.fail(self.inbox.fault_at_end(Reason::HeadTimeout));
        }
        None
    }

    fn read_body(&mut self, mut reader: BodyReader) -> Result<BodyRead, ConnectionFault> {
        if let ResponseWriteState::Pending { continue_handled: handled @ false } = &mut self.writing {
            *handled = true;
            append_output(&mut self.out, |tail| tail.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n"));
            self.trim_state = TrimState::IdleSince(self.now);
        }
        let progress = reader.read(&mut self.inbox, &self.limits)?;
        self.reading = RequestReadState::Body(reader);
        if matches!(progress, BodyRead::Incomplete) {
            if self.eof_received {
                return Err(self.inbox.fault_at_end(Reason::Truncated));
            }
            if self.deadline().is_some_and(|d| d <= self.now) {
                return Err(self.inbox.fault_at_end(Reason::BodyTimeout));
            }
        }
        Ok(progress)
    }

    /// Ends the connection with a fault, and responds if no response has begun.
    fn fail<R>(&mut self, fault: ConnectionFault) -> Option<Event<R>> {
        if matches!(self.writing, ResponseWriteState::Idle | ResponseWriteState::Pending { .. }) {
            let status = fault.status();
            append_output(&mut self.out, |tail| {
                put_status(tail, status);
                tail.extend_from_slice(b"Content-Length: 0\r\nConnection: close\r\n\r\n");
            });
            self.trim_state = TrimState::IdleSince(self.now);
            self.stop(true);
        } else {
            self.truncate_response();
        }
        Some(Event::Fault(fault))
    }

    /// Begins the response to the delivered request.
    ///
    /// `status` is 200 to 599. The connection writes the fields that control framing and its own life, so such fields
    /// are refused. A response to `HEAD`, and those with status 204 and 304, have no body, whatever `size` and
    /// [`write_body`](Self::write_body) give.
    ///
    /// A request that is still incomplete is read until the response has ended. If its length is at most
    /// [`HttpLimits::max_drain`], the rest of its body is then dropped and the next request follows. Otherwise the
    /// connection ends with this response.
    ///
    /// # Errors
    ///
    /// Nothing is sent in these cases:
    ///
    /// - [`WriteError::Closed`]: the connection has ended.
    /// - [`WriteError::OutOfOrder`]: no request waits for a response.
    /// - [`WriteError::Invalid`]: the status is outside 200 to 599.
    /// - [`WriteError::FramingField`]: `fields` contain a framing field.
    pub fn respond(
        &mut self,
        now: Instant,
        status: u16,
        fields: &Fields,
        size: BodySize,
    ) -> Result<(), WriteError> {
        self.tick(now);
        if !matches!(self.writing, ResponseWriteState::Pending { .. }) {
            return Err(self.write_error());
        }
        if !(200..600).contains(&status) {
            return Err(WriteError::Invalid);
        }
        if has_framing_field(fields.as_lines(), false) {
            return Err(WriteError::FramingField);
        }
        self.closing |= matches!(self.reading, RequestReadState::Body(_)) && !self.can_drain_request();
        let bare = matches!(status, 204 | 304);
        let until_close =
            size == BodySize::Stream && self.request.is_http10 && !bare && !self.request.is_head_request;
        self.closing |= until_close;
        let last = self.closing;
        append_output(&mut self.out, |tail| {
            put_status(tail, status);
            tail.extend_from_slice(fields.as_lines());
            match size {
                _ if bare || until_close => {}
                BodySize::None => tail.extend_from_slice(b"Content-Length: 0\r\n"),
                BodySize::Exact(n) => put_length(tail, n),
                BodySize::Stream if self.request.is_http10 => {}
                BodySize::Stream => tail.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            }
            let end: &[u8] = if last { b"Connection: close\r\n\r\n" } else { b"\r\n" };
            tail.extend_from_slice(end);
        });
        self.trim_state = TrimState::IdleSince(self.now);
        let body_suppressed = bare || self.request.is_head_request;
        self.writing = ResponseWriteState::Body(match size {
            BodySize::None => BodyWriter::Exact(0),
            BodySize::Exact(n) if body_suppressed => BodyWriter::Suppressed(n),
            BodySize::Stream if body_suppressed => BodyWriter::Suppressed(u64::MAX),
            BodySize::Exact(n) => BodyWriter::Exact(n),
            BodySize::Stream if until_close => BodyWriter::UntilClose,
            BodySize::Stream => BodyWriter::Chunked,
        });
        Ok(())
    }

    /// Returns the error of a write command in the current state.
    const fn write_error(&self) -> WriteError {
        if matches!(self.reading, RequestReadState::Closed { .. }) {
            WriteError::Closed
        } else {
            WriteError::OutOfOrder
        }
    }

    /// Returns whether the rest of the request can be read and dropped.
    fn can_drain_request(&self) -> bool {
        match self.request.framing {
            Framing::None => true,
            // Decided by the whole length, so that the cutting of the input changes nothing.
            Framing::Exact(n) => {
                n <= self.limits.max_drain
                    && !matches!(self.writing, ResponseWriteState::Pending { continue_handled: false })
            }
            Framing::Chunked | Framing::UntilClose => false,
        }
    }

    /// Appends to the body of the response; the data is copied.
    ///
    /// # Errors
    ///
    /// - [`WriteError::Closed`]: the connection has ended.
    /// - [`WriteError::OutOfOrder`]: no response is being written.
    /// - [`WriteError::Length`]: the data exceeds the announced length.
    pub fn write_body(&mut self, data: &[u8]) -> Result<(), WriteError> {
        self.trim_state = TrimState::InUse;
        match &mut self.writing {
            ResponseWriteState::Body(writer) => writer.write(&mut self.out, data),
            _ => Err(self.write_error()),
        }
    }

    /// Appends to the body of the response; a large piece is sent without a copy.
    ///
    /// # Errors
    ///
    /// As [`write_body`](Self::write_body).
    pub fn write_body_owned(&mut self, data: &Bytes) -> Result<(), WriteError> {
        self.trim_state = TrimState::InUse;
        match &mut self.writing {
            ResponseWriteState::Body(writer) => writer.write_owned(&mut self.out, data),
            _ => Err(self.write_error()),
        }
    }

    /// Completes the response.
    ///
    /// # Errors
    ///
    /// - [`WriteError::Closed`]: the connection has ended.
    /// - [`WriteError::OutOfOrder`]: no response is being written.
    /// - [`WriteError::Length`]: the body is shorter than the announced length.
    pub fn end(&mut self, now: Instant) -> Result<(), WriteError> {
        self.tick(now);
        let ResponseWriteState::Body(writer) = self.writing else { return Err(self.write_error()) };
        writer.end(&mut self.out)?;
        self.trim_state = TrimState::IdleSince(self.now);
        self.writing = ResponseWriteState::Ended;
        match self.reading {
            RequestReadState::Complete => self.finish_exchange(),
            RequestReadState::Body(reader) if reader.is_done() => self.finish_exchange(),
            // A client that still sends may not have read the response; closing immediately could discard it.
            _ if self.closing => self.stop(true),
            _ => {}
        }
        Ok(())
    }

    /// Aborts the exchange and the connection; a response that has begun is truncated visibly.
    ///
    /// If no response has begun, none is sent.
    pub fn abort(&mut self, now: Instant) {
        self.tick(now);
        if matches!(self.writing, ResponseWriteState::Pending { .. } | ResponseWriteState::Body(_)) {
            self.truncate_response();
        }
    }

    /// Restarts the timeouts of a body that was not read until now.
    #[cfg(feature = "http")]
    pub(crate) fn restart_body(&mut self, now: Instant) {
        self.tick(now);
        if matches!(self.reading, RequestReadState::Body(_)) {
            self.wait_started = self.now;
            self.request_started = Some(self.now);
        }
    }

    /// Ends the connection: immediately if no exchange is open, otherwise after the exchange.
    pub fn close(&mut self, now: Instant) {
        self.tick(now);
        self.closing = true;
        if matches!((self.reading, self.writing), (RequestReadState::Head, ResponseWriteState::Idle)) {
            self.stop(!self.inbox.is_empty());
        }
    }

    /// Frees the memory of empty buffers.
    pub fn trim(&mut self) {
        self.inbox.trim();
        self.out.trim();
        if self.inbox.is_empty() && self.out.is_empty() {
            self.trim_state = TrimState::Trimmed;
        }
    }

    /// Ends the exchange after a complete response and request.
    fn finish_exchange(&mut self) {
        self.writing = ResponseWriteState::Idle;
        if self.closing {
            self.stop(!self.inbox.is_empty());
        } else {
            self.reading = RequestReadState::Head;
            self.wait_started = self.now;
            // A pipelined request.
            (self.request_started, self.received) = (Some(self.now), self.inbox.len() as u64);
        }
    }

    fn truncate_response(&mut self) {
        self.needs_reset |= matches!(self.writing, ResponseWriteState::Body(BodyWriter::UntilClose));
        self.stop(false);
    }

    /// Stops reading requests; with `linger`, input is read and dropped for a while.
    fn stop(&mut self, linger: bool) {
        self.reading = RequestReadState::Closed { draining: linger };
        self.writing = ResponseWriteState::Idle;
        self.inbox.clear();
        self.wait_started = self.now;
        self.received = 0;
    }

    fn is_draining(&self) -> bool {
        matches!(self.reading, RequestReadState::Closed { draining: true })
            && self.now < self.drain_deadline()
            && self.received < self.limits.max_linger
    }

    /// Returns when draining ends: after a pause of `drain_timeout`, or after ten times that in all.
    fn drain_deadline(&self) -> Instant {
        let (pause, all) = (self.limits.drain_timeout, self.limits.drain_timeout.saturating_mul(10));
        (self.last_input_at.max(self.wait_started) + pause).min(self.wait_started + all)
    }

    /// Returns when the current wait ends.
    fn deadline(&self) -> Option<Instant> {
        match (self.reading, self.writing) {
            (RequestReadState::Head, _) if !self.inbox.is_empty() => {
                Some(self.wait_started + self.limits.head_timeout)
            }
            (RequestReadState::Head, _) if self.out.is_empty() => {
                Some(self.wait_started + self.limits.keep_alive)
            }
            (RequestReadState::Body(_), _) => {
                let idle = self.last_input_at.max(self.wait_started) + self.limits.body_idle_timeout;
                Some(idle.min(self.wait_started + self.limits.body_timeout))
            }
            (RequestReadState::Closed { draining: true }, _) if !self.eof_received => {
                Some(self.drain_deadline()).filter(|_| self.is_draining())
            }
            _ => None,
        }
    }

    /// Returns when the empty buffers are to be freed.
    fn trim_deadline(&self) -> Option<Instant> {
        let off = matches!(self.reading, RequestReadState::Closed { .. });
        if off || !self.inbox.is_empty() || !self.out.is_empty() {
            return None;
        }
        self.trim_state.trim_deadline(self.now, self.limits.idle_trim)
    }

    fn tick(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.trim_state.tick(self.now);
    }
}

/// Shortest time that a connection must have waited for its next request before it may be evicted.
///
/// A client is likely to use a connection again that it used just now, and would lose that request.
const MIN_IDLE: Duration = Duration::from_millis(300);
