//! The client end of a connection: sends requests and receives responses, one exchange at a time.

use bytes::Bytes;

use super::body::{BodyRead, BodyReader, BodyWriter, append_output, has_framing_field};
use super::error::{ConnectionFault, Reason, WriteError};
use super::fields::{self, ParsedResponse, ResponseFraming};
use super::limits::HttpLimits;
use super::read_buffer::ReadBuffer;
use super::status::put_length;
use super::trim::TrimState;
use crate::head::{BodySize, Fields, ResponseHead, is_token};
use crate::outbox::Outbox;
use crate::time::Instant;

/// An event of the client end of a connection.
#[derive(Debug)]
pub enum Event<R> {
    /// The head of a response, as converted by the callback; interim responses (1xx) are skipped.
    Head(R),
    /// A piece of the body.
    Body(Bytes),
    /// The end of the response.
    End,
    /// The server closed the connection before the first byte of the response.
    ///
    /// It is unknown whether the server processed the request.
    Closed,
    /// The connection has ended.
    ///
    /// A response whose [`End`](Self::End) was not reported is incomplete.
    Fault(ConnectionFault),
}

/// The client end of one connection.
///
/// The caller writes [`transmit`](Self::transmit), reads while [`wants_input`](Self::wants_input), passes the input in,
/// and polls until there are no more events. It closes the socket when [`wants_close`](Self::wants_close). See
/// [the module](super).
#[derive(Debug)]
pub struct Connection {
    limits: HttpLimits,
    now: Instant,
    inbox: ReadBuffer,
    out: Outbox,
    reading: ResponseReadState,
    /// The writer of the request body until [`end`](Self::end).
    writing: Option<BodyWriter>,
    /// The method of the request is `HEAD`.
    head_only: bool,
    /// Number of 1xx responses to the current request.
    interim: u8,
    /// Bytes of the current request were written.
    has_sent: bool,
    /// Bytes arrived since the current request was made.
    has_received: bool,
    /// No request may follow the current one.
    closing: bool,
    eof_received: bool,
    /// The connection broke; a body that is delimited by the end of the connection is incomplete.
    broken: bool,
    trim_state: TrimState,
    /// Time at which input arrived last.
    last_input_at: Instant,
    /// Start of the current wait: for the rest of a head, for a body, or for the next request.
    wait_started: Instant,
}

#[derive(Clone, Copy, Debug)]
enum ResponseReadState {
    /// No request was made.
    Idle,
    /// A response head is expected.
    Head,
    Body(BodyReader),
    /// Input arrived before any byte of the request was written, so it cannot answer the request.
    Unsolicited,
    /// Input arrived although the buffer was full.
    Overrun,
    Closed,
}

impl Connection {
    /// Creates the client end of a connection that begins at `now`.
    #[must_use]
    pub fn new(now: Instant, limits: HttpLimits) -> Self {
        Self {
            limits,
            now,
            inbox: ReadBuffer::default(),
            out: Outbox::default(),
            reading: ResponseReadState::Idle,
            writing: None,
            head_only: false,
            interim: 0,
            has_sent: false,
            has_received: false,
            closing: false,
            eof_received: false,
            broken: false,
            trim_state: TrimState::Trimmed,
            last_input_at: now,
            wait_started: now,
        }
    }

    /// Processes bytes that were read.
    pub fn handle_input(&mut self, now: Instant, input: &[u8]) {
        self.tick(now);
        if self.eof_received
            || input.is_empty()
            || matches!(
                self.reading,
                ResponseReadState::Closed | ResponseReadState::Unsolicited | ResponseReadState::Overrun
            )
        {
            return;
        }
        self.last_input_at = self.now;
        if self.inbox.len() >= self.limits.buffer_limit() {
            self.reading = ResponseReadState::Overrun;
            return;
        }
        if matches!(self.reading, ResponseReadState::Head) && self.inbox.is_empty() {
            self.wait_started = self.now;
            if !self.has_sent {
                self.reading = ResponseReadState::Unsolicited;
            }
        }
        self.has_received = true;
        self.inbox.push(input);
        self.trim_state = TrimState::IdleSince(self.now);
    }

    /// Records the end of the input: the server sends no more.
    pub fn handle_eof(&mut self, now: Instant) {
        self.tick(now);
        self.eof_received = true;
    }

    /// Records that the connection broke.
    ///
    /// No more input follows, and a body that is delimited by the end of the connection is incomplete.
    pub fn handle_broken(&mut self, now: Instant) {
        self.handle_eof(now);
        self.broken = true;
    }

    /// Advances the time to `now`; the effects appear at the next poll.
    pub fn handle_timeout(&mut self, now: Instant) {
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

    /// Returns whether to read now.
    ///
    /// This is also true without a request, because reading detects the end of the connection.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        !self.eof_received
            && !matches!(
                self.reading,
                ResponseReadState::Closed | ResponseReadState::Unsolicited | ResponseReadState::Overrun
            )
            && self.inbox.len() < self.limits.buffer_limit()
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
        self.has_sent |= n > 0;
        self.out.consume(n);
    }

    /// Records that nothing more can be written, and drops the rest of the request.
    ///
    /// Its response may still arrive. No request can follow it.
    pub fn handle_write_failed(&mut self) {
        self.out.clear();
        self.writing = None;
        self.closing = true;
    }

    /// Returns the number of bytes that are not written yet.
    #[must_use]
    pub const fn unsent_len(&self) -> usize {
        self.out.len()
    }

    /// Returns the number of received bytes that are not parsed yet.
    #[must_use]
    pub fn unread_len(&self) -> usize {
        self.inbox.len()
    }

    /// Returns whether the socket is to be closed.
    #[must_use]
    pub const fn wants_close(&self) -> bool {
        matches!(self.reading, ResponseReadState::Closed)
    }

    /// Returns whether the next [`request`](Self::request) may be made.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.reading, ResponseReadState::Idle) && !self.eof_received && self.inbox.is_empty()
    }

    /// Returns whether bytes have arrived since the current or latest request was made.
    ///
    /// If not, and a server closes a kept-alive connection, the server most likely has not seen the request.
    #[must_use]
    pub const fn has_received(&self) -> bool {
        self.has_received
    }

    /// Begins a request.
    ///
    /// `target` is a path with its query. The connection writes the fields that control framing and routing, so such
    /// fields are refused. [`end`](Self::end) completes the request, also without a body. The response may arrive
    /// earlier. If it ends before the request does, the rest of the request is not sent and the connection has ended.
    ///
    /// # Errors
    ///
    /// Nothing is sent in these cases:
    ///
    /// - [`WriteError::Closed`]: the connection has ended.
    /// - [`WriteError::OutOfOrder`]: an exchange is open.
    /// - [`WriteError::Invalid`]: the method, target or host cannot be sent.
    /// - [`WriteError::FramingField`]: `fields` contain a framing field.
    pub fn request(
        &mut self,
        now: Instant,
        method: &str,
        target: &str,
        host: &str,
        fields: &Fields,
        size: BodySize,
    ) -> Result<(), WriteError> {
        self.tick(now);
        match self.reading {
            ResponseReadState::Idle if !self.eof_received && self.inbox.is_empty() => {}
            ResponseReadState::Idle
            | ResponseReadState::Closed
            | ResponseReadState::Unsolicited
            | ResponseReadState::Overrun => return Err(WriteError::Closed),
            ResponseReadState::Head | ResponseReadState::Body(_) => return Err(WriteError::OutOfOrder),
        }
        let sendable = is_token(method.as_bytes())
            && !matches!(method, "CONNECT" | "TRACE")
            && fields::is_target(target)
            && (target.starts_with('/') || (target == "*" && method == "OPTIONS"))
            && fields::is_host(host.as_bytes());
        if !sendable {
            return Err(WriteError::Invalid);
        }
        if has_framing_field(fields.as_lines(), true) {
            return Err(WriteError::FramingField);
        }
        // Only these methods are taken to have no body if there is no length (RFC 9110, 8.6).
        let bare = matches!(method, "GET" | "HEAD" | "DELETE" | "OPTIONS");
        append_output(&mut self.out, |tail| {
            for part in [method, " ", target, " HTTP/1.1\r\nHost: ", host, "\r\n"] {
                tail.extend_from_slice(part.as_bytes());
            }
            tail.extend_from_slice(fields.as_lines());
            match size {
                BodySize::None if bare => {}
                BodySize::None => put_length(tail, 0),
                BodySize::Exact(n) => put_length(tail, n),
                BodySize::Stream => tail.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            }
            tail.extend_from_slice(b"\r\n");
        });
        self.writing = Some(match size {
            BodySize::None => BodyWriter::Exact(0),
            BodySize::Exact(n) => BodyWriter::Exact(n),
            BodySize::Stream => BodyWriter::Chunked,
        });
        self.head_only = method == "HEAD";
        self.reading = ResponseReadState::Head;
        (self.interim, self.has_sent, self.has_received) = (0, false, false);
        self.trim_state = TrimState::IdleSince(self.now);
        Ok(())
    }

    /// Appends to the body of the request; the data is copied.
    ///
    /// # Errors
    ///
    /// - [`WriteError::Closed`]: the connection has ended.
    /// - [`WriteError::OutOfOrder`]: no request is being written.
    /// - [`WriteError::Length`]: the data exceeds the announced length.
    pub fn write_body(&mut self, data: &[u8]) -> Result<(), WriteError> {
        self.trim_state = TrimState::InUse;
        match &mut self.writing {
            Some(writer) => writer.write(&mut self.out, data),
            None => Err(self.write_error()),
        }
    }

    /// Appends to the body of the request; a large piece is sent without a copy.
    ///
    /// # Errors
    ///
    /// As [`write_body`](Self::write_body).
    pub fn write_body_owned(&mut self, data: &Bytes) -> Result<(), WriteError> {
        self.trim_state = TrimState::InUse;
        match &mut self.writing {
            Some(writer) => writer.write_owned(&mut self.out, data),
            None => Err(self.write_error()),
        }
    }

    /// Completes the request.
    ///
    /// # Errors
    ///
    /// - [`WriteError::Closed`]: the connection has ended.
    /// - [`WriteError::OutOfOrder`]: no request is being written.
    /// - [`WriteError::Length`]: the body is shorter than the announced length.
    pub fn end(&mut self, now: Instant) -> Result<(), WriteError> {
        self.tick(now);
        let Some(writer) = self.writing else { return Err(self.write_error()) };
        writer.end(&mut self.out)?;
        self.trim_state = TrimState::IdleSince(self.now);
        self.writing = None;
        Ok(())
    }

    /// Ends the connection: immediately if no exchange is open, otherwise after the exchange.
    pub fn close(&mut self, now: Instant) {
        self.tick(now);
        self.closing = true;
        if matches!(self.reading, ResponseReadState::Idle) {
            self.stop();
        }
    }

    /// Aborts the exchange and the connection.
    ///
    /// HTTP/1.1 has no other way to tell the server.
    pub fn abort(&mut self, now: Instant) {
        self.tick(now);
        self.stop();
    }

    /// Frees the memory of empty buffers.
    pub fn trim(&mut self) {
        self.inbox.trim();
        self.out.trim();
        if self.inbox.is_empty() && self.out.is_empty() {
            self.trim_state = TrimState::Trimmed;
        }
    }

    /// Returns the next event; `on_head` converts the head of a response.
    pub fn poll_event<R>(
        &mut self,
        now: Instant,
        on_head: impl FnOnce(ResponseHead<'_>) -> R,
    ) -> Option<Event<R>> {
        self.tick(now);
        match self.reading {
            ResponseReadState::Idle => self.poll_idle(),
            ResponseReadState::Head => self.read_head(on_head),
            ResponseReadState::Body(reader) => self.read_body(reader),
            ResponseReadState::Unsolicited => self.fail(self.inbox.fault(Reason::Unsolicited, 0)),
            ResponseReadState::Overrun => self.fail(self.inbox.fault_at_end(Reason::Overrun)),
            ResponseReadState::Closed => None,
        }
    }

    /// Handles input, end-of-file and timeouts without a request.
    fn poll_idle<R>(&mut self) -> Option<Event<R>> {
        if !self.inbox.is_empty() {
            return self.fail(self.inbox.fault(Reason::Unsolicited, 0));
        }
        if self.eof_received || self.deadline().is_some_and(|d| d <= self.now) {
            self.stop();
        }
        None
    }

    fn read_head<R, F: FnOnce(ResponseHead<'_>) -> R>(&mut self, mut on_head: F) -> Option<Event<R>> {
        loop {
            if self.inbox.bytes().first().is_some_and(|b| *b != b'H') {
                return self.fail(self.inbox.fault(Reason::StatusLine, 0));
            }
            let found = match self.inbox.find_head(self.limits.max_head, Reason::HeadTooLong) {
                Ok(Some(found)) => found,
                Ok(None) => return self.check_partial_head(),
                Err(fault) => return self.fail(fault),
            };
            let head = self.inbox.bytes().get(..found.length).unwrap_or_default();
            match fields::parse_response(head, found.lines, &self.limits, self.head_only, on_head) {
                Ok(ParsedResponse::Interim(_)) if self.interim >= self.limits.max_interim => {
                    return self.fail(self.inbox.fault(Reason::TooManyInterim, 0));
                }
                Ok(ParsedResponse::Interim(back)) => {
                    on_head = back;
                    self.inbox.advance(found.length);
                    self.interim = self.interim.saturating_add(1);
                    self.wait_started = self.now;
                }
                Ok(ParsedResponse::Final(r, ResponseFraming { framing, closes_connection: close })) => {
                    self.inbox.advance(found.length);
                    self.closing |= close;
                    self.wait_started = self.now;
                    self.reading = ResponseReadState::Body(BodyReader::new(framing, &self.limits));
                    return Some(Event::Head(r));
                }
                Err((reason, at)) => return self.fail(self.inbox.fault(reason, at)),
            }
        }
    }

    fn check_partial_head<R>(&mut self) -> Option<Event<R>> {
        if self.eof_received {
            if self.has_received {
                return self.fail(self.inbox.fault_at_end(Reason::Truncated));
            }
            self.stop();
            return Some(Event::Closed);
        }
        if self.deadline().is_some_and(|d| d <= self.now) {
            return self.fail(self.inbox.fault_at_end(Reason::HeadTimeout));
        }
        None
    }

    fn read_body<R>(&mut self, mut reader: BodyReader) -> Option<Event<R>> {
        let progress = reader.read(&mut self.inbox, &self.limits);
        self.reading = ResponseReadState::Body(reader);
        match progress {
            Ok(BodyRead::Data(data)) => Some(Event::Body(data)),
            Ok(BodyRead::Incomplete) if self.eof_received && !self.broken && reader.is_until_close() => {
                self.finish_response()
            }
            Ok(BodyRead::Incomplete) if self.eof_received => {
                self.fail(self.inbox.fault_at_end(Reason::Truncated))
            }
            Ok(BodyRead::Incomplete) if self.deadline().is_some_and(|d| d <= self.now) => {
                self.fail(self.inbox.fault_at_end(Reason::BodyTimeout))
            }
            Ok(BodyRead::Incomplete) => None,
            Ok(BodyRead::End) => self.finish_response(),
            Err(fault) => self.fail(fault),
        }
    }

    /// Ends the exchange after a complete response.
    fn finish_response<R>(&mut self) -> Option<Event<R>> {
        // A server that has responded need not read the rest of the request, and then no request can follow.
        if self.closing || self.writing.is_some() || !self.out.is_empty() {
            self.stop();
        } else {
            self.reading = ResponseReadState::Idle;
            self.wait_started = self.now;
        }
        Some(Event::End)
    }

    fn fail<R>(&mut self, fault: ConnectionFault) -> Option<Event<R>> {
        self.stop();
        Some(Event::Fault(fault))
    }

    fn stop(&mut self) {
        self.reading = ResponseReadState::Closed;
        self.writing = None;
        self.inbox.clear();
        self.out.clear();
    }

    /// Returns the error of a write command in the current state.
    const fn write_error(&self) -> WriteError {
        if matches!(self.reading, ResponseReadState::Closed) {
            WriteError::Closed
        } else {
            WriteError::OutOfOrder
        }
    }

    /// Returns when the current wait ends.
    fn deadline(&self) -> Option<Instant> {
        match self.reading {
            ResponseReadState::Idle => Some(self.wait_started + self.limits.keep_alive),
            ResponseReadState::Head if !self.inbox.is_empty() => {
                Some(self.wait_started + self.limits.head_timeout)
            }
            // A stream may be idle without limit.
            ResponseReadState::Body(reader) if reader.is_exact() => {
                Some(self.last_input_at.max(self.wait_started) + self.limits.body_idle_timeout)
            }
            _ => None,
        }
    }

    /// Returns when the empty buffers are to be freed.
    fn trim_deadline(&self) -> Option<Instant> {
        let off = matches!(self.reading, ResponseReadState::Closed);
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
