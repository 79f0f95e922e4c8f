//! The server end of a connection: receives requests and sends responses, one exchange at a time.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::body::{BodyRead, BodyReader, BodyWriter, Framing, has_framing_field, put_length};
use super::connection::{self, Eviction, EvictionClass};
use super::error::{ConnectionFault, Reason, WriteError};
use super::fields::{self, FastParse, RequestFraming};
use super::table::{self, RecvState, Refusal, SendState, Trigger};
use crate::head::{BodySize, Fields, RequestHead, is_token};
use crate::time::Instant;

pub use super::body::RequestBodyInfo;

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
/// The caller reads while `wants_input`, passes the input in, polls until there are no more events, and writes
/// `transmit`. It closes the socket when [`wants_close`](Connection::wants_close). See [the module](super).
pub type Connection = connection::Connection<ServerRole>;

/// The part of a [`Connection`] that only a server has.
#[derive(Debug, Default)]
pub struct ServerRole {
    pub(super) request: RequestBodyInfo,
    /// The method is `HEAD`: the response has no body, whatever its fields are.
    is_head_request: bool,
    serves_half_closed: bool,
    blank_skipped: bool,
    /// Time at which the current request began.
    request_started: Instant,
}

impl connection::Role for ServerRole {
    const TABLE: &'static table::Table = &table::SERVER;
    const IS_SERVER: bool = true;
}

impl Connection {
    /// Sets whether a client that ended its half of the connection still gets its responses (default: no).
    ///
    /// By default such a client counts as gone, because both cases look alike (DESIGN-16).
    pub const fn serve_half_closed(&mut self, serve: bool) {
        self.role.serves_half_closed = serve;
    }

    /// Returns whether to shut down the writing half of the socket: all output was written and none will follow.
    #[must_use]
    pub const fn wants_write_shutdown(&self) -> bool {
        self.state.is_over() && self.out.is_empty()
    }

    /// Returns whether to close the socket: all output was written, and the client had time to read it.
    #[must_use]
    pub fn wants_close(&self) -> bool {
        self.wants_write_shutdown() && (self.input_end.is_some() || self.drain_deadline().is_none())
    }

    /// Returns whether to reset the socket instead of closing it in order.
    ///
    /// This is true if a response that is delimited by the end of the connection was [truncated](Self::abort).
    #[must_use]
    pub const fn wants_reset(&self) -> bool {
        matches!(self.state.send, SendState::Reset)
    }

    /// Returns whether no request is being read or answered, so that closing the connection loses nothing.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.state.recv == RecvState::Idle
    }

    /// Returns whether the head of a request is expected or waits in the buffer.
    #[cfg(feature = "http")]
    pub(crate) const fn is_reading_head(&self) -> bool {
        matches!(self.state.recv, RecvState::Idle | RecvState::Head)
    }

    /// Returns whether the client is gone, as far as that shows: its half of the connection has ended, and that
    /// [counts](Self::serve_half_closed).
    #[cfg(feature = "http")]
    pub(crate) const fn is_client_gone(&self) -> bool {
        self.input_end.is_some() && !self.role.serves_half_closed
    }

    /// Returns from when the connection may be evicted in favour of another one, if it may at all.
    ///
    /// It may not while a complete request has no complete response.
    #[must_use]
    pub fn eviction(&self) -> Option<Eviction> {
        let (class, at) = match self.state.recv {
            // Unsent output may be the rest of a response, which an eviction would cut.
            _ if !self.out.is_empty() => return None,
            RecvState::Lingering | RecvState::Closed | RecvState::Discard => {
                (EvictionClass::Done, self.wait_started)
            }
            RecvState::Head => (EvictionClass::IncompleteHead, self.wait_started),
            RecvState::Idle if self.inbox.is_unused() => (EvictionClass::Silent, self.wait_started),
            RecvState::Idle => (EvictionClass::Idle, self.wait_started + MIN_IDLE),
            RecvState::Body => {
                // Each received byte buys time at the minimum rate. Without such a rate no body is too slow.
                (EvictionClass::Slow, self.role.request_started + self.time_at_min_rate(self.received)?)
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
        // Outside of a request a timeout is no fault, so there is nothing to end.
        if let Err(Refusal::Fault(reason)) = self.next(Trigger::Timeout) {
            // The event is dropped, because the caller itself has ended the request.
            let _ = self.fail::<()>(self.inbox.fault_at_end(reason));
        }
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
        self.check.polled();
        self.read(on_head).unwrap_or_else(|fault| self.fail(fault))
    }

    fn read<R>(
        &mut self,
        on_head: impl FnOnce(RequestHead<'_>, &RequestBodyInfo) -> Option<R>,
    ) -> Result<Option<Event<R>>, ConnectionFault> {
        loop {
            let recv = self.state.recv;
            match recv {
                RecvState::Idle | RecvState::Head => return self.read_head(on_head),
                RecvState::Body | RecvState::Discard => {
                    // The caller polls before it has responded, so it wants the body that the client holds back.
                    if self.state.send == SendState::Expected {
                        self.advance(Trigger::Continue);
                        self.append(|tail| tail.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n"));
                    }
                    match self.read_body()? {
                        BodyRead::Incomplete => return Ok(None),
                        BodyRead::Data(data) if recv == RecvState::Body => {
                            return Ok(Some(Event::Body(data)));
                        }
                        // The loop drops at most `max_drain` bytes: `respond` closes the connection after a longer
                        // request.
                        BodyRead::Data(_) => {}
                        BodyRead::End => {
                            self.advance(Trigger::RecvEnd);
                            if recv == RecvState::Body {
                                return Ok(Some(Event::End));
                            }
                            self.finish_exchange();
                        }
                    }
                }
                // A client that is gone and one that only ended its half look alike (DESIGN-16).
                RecvState::Done if self.input_end.is_some() && !self.role.serves_half_closed => {
                    self.stop(Trigger::Eof);
                    return Ok(Some(Event::ClientGone));
                }
                RecvState::Overrun => return Err(self.inbox.fault_at_end(Reason::Overrun)),
                _ => return Ok(None),
            }
        }
    }

    fn read_head<R>(
        &mut self,
        on_head: impl FnOnce(RequestHead<'_>, &RequestBodyInfo) -> Option<R>,
    ) -> Result<Option<Event<R>>, ConnectionFault> {
        // One empty line before a request is tolerated (RFC 9112, 2.2).
        if !self.role.blank_skipped && self.inbox.bytes().starts_with(b"\r\n") {
            self.inbox.advance(2);
            self.role.blank_skipped = true;
        }
        let may_begin = match self.inbox.bytes() {
            [] => {
                // An empty line alone begins no request, so the keep-alive time holds and not that of a head.
                self.advance(Trigger::Blank);
                if !self.out.is_empty() {
                    // The keep-alive time may begin when the client can have read the response.
                    self.wait_started = self.now;
                }
                return self.check_wait().map(|()| None);
            }
            // The line feed of a tolerated empty line may still be on its way.
            [b'\r'] => !self.role.blank_skipped,
            [first, ..] => is_token(&[*first]),
        };
        if !may_begin {
            // Most likely another protocol, so there is no line end to wait for.
            return Err(self.inbox.fault(Reason::RequestLine, 0));
        }
        // Most heads arrive in one piece.
        let on_head = match self.inbox.is_fresh() {
            false => on_head,
            true => match fields::parse_request_fast(self.inbox.bytes(), &self.limits, on_head) {
                FastParse::Parsed(read, framing, length) => {
                    return Ok(self.accept_head(read, framing, length));
                }
                FastParse::Undecided(on_head) => on_head,
            },
        };
        let Some(found) = self.inbox.find_head(self.limits.max_head, Reason::TargetTooLong)? else {
            return self.check_wait().map(|()| None);
        };
        let head = self.inbox.bytes().get(..found.length).unwrap_or_default();
        let read = fields::parse_request(head, found.lines, &self.limits, on_head);
        let (read, framing) = read.map_err(|(reason, at)| self.inbox.fault(reason, at))?;
        Ok(self.accept_head(read, framing, found.length))
    }

    fn accept_head<R>(&mut self, r: Option<R>, framing: RequestFraming, length: usize) -> Option<Event<R>> {
        let Some(r) = r else {
            // The scan ended behind the head. Without this step the next poll would search the head there.
            self.inbox.rewind();
            return None;
        };
        self.inbox.advance(length);
        self.closing |= framing.closes_connection;
        self.reader = BodyReader::new(framing.body.framing, &self.limits);
        let expects = framing.body.expects_continue;
        self.advance(if expects { Trigger::RecvExpecting } else { Trigger::RecvHead });
        (self.role.request, self.role.is_head_request) = (framing.body, framing.is_head_request);
        self.role.blank_skipped = false;
        // A request begins with the first byte of its head: `wait_started` has that time until this line.
        (self.role.request_started, self.wait_started) = (self.wait_started, self.now);
        Some(Event::Head(r))
    }

    /// Ends the connection with a fault, and responds if no response has begun.
    fn fail<R>(&mut self, fault: ConnectionFault) -> Option<Event<R>> {
        // The rest of a request that was already answered is of no interest.
        let is_reported = self.state.recv != RecvState::Discard;
        if self.next(Trigger::Reject).is_ok() {
            self.append(|tail| {
                put_status(tail, fault.status());
                tail.extend_from_slice(b"Content-Length: 0\r\nConnection: close\r\n\r\n");
            });
        }
        // `Reject` is refused once a response has begun; then `Fail` cuts that response. After `Reject` it has no
        // effect.
        self.stop(Trigger::Reject);
        self.stop(Trigger::Fail);
        is_reported.then_some(Event::Fault(fault))
    }

    /// Begins the response to the delivered request.
    ///
    /// `status` is 200 to 599. The connection writes the fields that control framing and its own life, so such fields
    /// are refused. A response to `HEAD`, and those with status 204 and 304, have no body, whatever `size` and
    /// [`write_body`](Self::write_body) give.
    ///
    /// A request that is still incomplete is read until the response has ended. If its length is at most
    /// [`max_drain`](super::HttpLimits::max_drain), the rest of its body is then dropped and the next request follows.
    /// Otherwise the connection ends with this response.
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
        // The state is determined first and stored last: a refusal below must leave the connection as it was.
        let next = self.next(Trigger::SendHead)?;
        if !(200..600).contains(&status) {
            return Err(WriteError::Invalid);
        }
        if has_framing_field(fields.as_lines(), false) {
            return Err(WriteError::FramingField);
        }
        let request = self.role.request;
        let bare = matches!(status, 204 | 304);
        let body_suppressed = bare || self.role.is_head_request;
        // An HTTP/1.0 client does not know the chunked coding, so only the end of the connection can end a stream.
        let until_close = size == BodySize::Stream && request.is_http10 && !body_suppressed;
        let can_drain = match request.framing {
            Framing::None => true,
            // Decided by the whole length, so that the cutting of the input changes nothing.
            // A client that waits for `100 Continue` may send its body or leave it out, so the next request cannot be
            // found.
            Framing::Exact(n) => n <= self.limits.max_drain && self.state.send != SendState::Expected,
            // The length of the rest is unknown, and with it the cost of reading it.
            Framing::Chunked | Framing::UntilClose => false,
        };
        self.closing |= until_close || (self.state.recv == RecvState::Body && !can_drain);
        let last = self.closing;
        self.append(|tail| {
            put_status(tail, status);
            tail.extend_from_slice(fields.as_lines());
            match size {
                // 204 must not have a length (RFC 9110, 8.6), and that of 304 would be the length of another response.
                _ if bare || until_close => {}
                BodySize::None => put_length(tail, 0),
                BodySize::Exact(n) => put_length(tail, n),
                // Only a response to `HEAD` comes here: it has no body that needs a coding.
                BodySize::Stream if request.is_http10 => {}
                BodySize::Stream => tail.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            }
            let end: &[u8] = if last { b"Connection: close\r\n\r\n" } else { b"\r\n" };
            tail.extend_from_slice(end);
        });
        // This cannot fail after the output was appended: HTTP/1.0 has no `Expect`, so the state is `Due`.
        self.state = if until_close { self.next(Trigger::SendUntilClose)? } else { next };
        self.writer = match size {
            BodySize::None => BodyWriter::Exact(0),
            BodySize::Exact(n) if body_suppressed => BodyWriter::Suppressed(n),
            BodySize::Stream if body_suppressed => BodyWriter::Suppressed(u64::MAX),
            BodySize::Exact(n) => BodyWriter::Exact(n),
            BodySize::Stream if until_close => BodyWriter::UntilClose,
            BodySize::Stream => BodyWriter::Chunked,
        };
        Ok(())
    }

    /// Restarts the timeouts of a body that was not read until now.
    #[cfg(feature = "http")]
    pub(crate) fn restart_body(&mut self, now: Instant) {
        self.tick(now);
        if matches!(self.state.recv, RecvState::Body | RecvState::Discard) {
            (self.wait_started, self.role.request_started) = (self.now, self.now);
        }
    }
}

/// Shortest time that a connection must have waited for its next request before it may be evicted.
///
/// A client is likely to use a connection again that it used just now, and would lose that request.
const MIN_IDLE: Duration = Duration::from_millis(300);

/// Writes a status line; the phrase is informative and may be empty (RFC 9112, 4).
fn put_status(tail: &mut Vec<u8>, status: u16) {
    tail.extend_from_slice(b"HTTP/1.1 ");
    tail.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    tail.push(b' ');
    tail.extend_from_slice(phrase(status).as_bytes());
    tail.extend_from_slice(b"\r\n");
}

fn phrase(status: u16) -> &'static str {
    // The most frequent ones first.
    PHRASES.iter().find(|(known, _)| *known == status).map_or("", |(_, phrase)| phrase)
}

static PHRASES: [(u16, &str); 32] = [
    (200, "OK"),
    (201, "Created"),
    (202, "Accepted"),
    (204, "No Content"),
    (301, "Moved Permanently"),
    (302, "Found"),
    (303, "See Other"),
    (304, "Not Modified"),
    (307, "Temporary Redirect"),
    (308, "Permanent Redirect"),
    (400, "Bad Request"),
    (401, "Unauthorized"),
    (403, "Forbidden"),
    (404, "Not Found"),
    (405, "Method Not Allowed"),
    (406, "Not Acceptable"),
    (408, "Request Timeout"),
    (409, "Conflict"),
    (410, "Gone"),
    (411, "Length Required"),
    (413, "Content Too Large"),
    (414, "URI Too Long"),
    (415, "Unsupported Media Type"),
    (417, "Expectation Failed"),
    (429, "Too Many Requests"),
    (431, "Request Header Fields Too Large"),
    (500, "Internal Server Error"),
    (501, "Not Implemented"),
    (502, "Bad Gateway"),
    (503, "Service Unavailable"),
    (504, "Gateway Timeout"),
    (505, "HTTP Version Not Supported"),
];
