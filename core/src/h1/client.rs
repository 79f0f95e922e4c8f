//! The client end of a connection: sends requests and receives responses, one exchange at a time.

use bytes::Bytes;

use super::body::{BodyRead, BodyReader, BodyWriter, has_framing_field, put_length};
use super::connection::{self, InputEnd};
use super::error::{ConnectionFault, Reason, WriteError};
use super::fields::{self, ParsedResponse};
use super::table::{self, RecvState, SendState, Trigger};
use crate::head::{BodySize, Fields, ResponseHead, is_token};
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
/// The caller writes `transmit`, reads while `wants_input`, passes the input in, and polls until there are no more
/// events. It closes the socket when [`wants_close`](Connection::wants_close). See [the module](super).
pub type Connection = connection::Connection<ClientRole>;

/// The part of a [`Connection`] that only a client has.
#[derive(Debug, Default)]
pub struct ClientRole {
    /// The method of the request is `HEAD`.
    head_only: bool,
    /// Number of 1xx responses to the current request.
    interim: u8,
}

impl connection::Role for ClientRole {
    const TABLE: &'static table::Table = &table::CLIENT;
    const IS_SERVER: bool = false;
}

impl Connection {
    /// Records that the connection broke.
    ///
    /// No more input follows, and a body that is delimited by the end of the connection is incomplete.
    pub fn handle_broken(&mut self, now: Instant) {
        self.tick(now);
        self.input_end = Some(InputEnd::Broken);
    }

    /// Records that nothing more can be written, and drops the rest of the request.
    ///
    /// Its response may still arrive. No request can follow it.
    pub fn handle_write_failed(&mut self) {
        // A request that was sent in part cannot be completed, so its rest is of no use.
        self.out.clear();
        self.advance(Trigger::WriteFailed);
        // The server cannot find the end of a request that was cut, so nothing may follow it.
        self.closing = true;
    }

    /// Returns whether the socket is to be closed.
    #[must_use]
    pub const fn wants_close(&self) -> bool {
        self.state.is_over()
    }

    /// Returns whether the next [`request`](Self::request) may be made.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.state.recv == RecvState::Idle && self.input_end.is_none()
    }

    /// Returns whether bytes have arrived since the current or latest request was made.
    ///
    /// If not, and a server closes a kept-alive connection, the server most likely has not seen the request.
    #[must_use]
    pub const fn has_received(&self) -> bool {
        self.received > 0
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
        // The state is determined first and stored last: a refusal below must leave the connection as it was.
        let next = self.next(Trigger::SendHead)?;
        // The server sends no more, so a request would be written and never be answered.
        if self.input_end.is_some() {
            return Err(WriteError::Closed);
        }
        // `CONNECT` would start a tunnel, and a server sends back what it gets by `TRACE`, with its credentials.
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
        self.append(|tail| {
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
        self.writer = match size {
            BodySize::None => BodyWriter::Exact(0),
            BodySize::Exact(n) => BodyWriter::Exact(n),
            BodySize::Stream => BodyWriter::Chunked,
        };
        // The count restarts, because `has_received` is about this request.
        (self.state, self.received) = (next, 0);
        self.role = ClientRole { head_only: method == "HEAD", interim: 0 };
        Ok(())
    }

    /// Returns the next event; `on_head` converts the head of a response.
    pub fn poll_event<R>(
        &mut self,
        now: Instant,
        on_head: impl FnOnce(ResponseHead<'_>) -> R,
    ) -> Option<Event<R>> {
        self.tick(now);
        self.check.polled();
        self.read(on_head).unwrap_or_else(|fault| {
            // After a fault the start of the next message is unknown, so the connection cannot be used again.
            self.stop(Trigger::Abort);
            Some(Event::Fault(fault))
        })
    }

    fn read<R>(
        &mut self,
        on_head: impl FnOnce(ResponseHead<'_>) -> R,
    ) -> Result<Option<Event<R>>, ConnectionFault> {
        match self.state.recv {
            RecvState::Idle => self.check_wait().map(|()| None),
            RecvState::Unsent | RecvState::Due => {
                // An end before the first byte is no fault: the owner decides whether the request may be repeated.
                self.check_wait().map(|()| self.state.is_over().then_some(Event::Closed))
            }
            RecvState::Head => self.read_head(on_head),
            RecvState::Body => match self.read_body()? {
                BodyRead::Data(data) => Ok(Some(Event::Body(data))),
                BodyRead::Incomplete => Ok(None),
                BodyRead::End => {
                    self.advance(Trigger::RecvEnd);
                    // A server that has responded need not read the rest of the request, and then no request can follow.
                    self.closing |= self.state.send != SendState::Done || !self.out.is_empty();
                    self.finish_exchange();
                    Ok(Some(Event::End))
                }
            },
            RecvState::Unsolicited => Err(self.inbox.fault(Reason::Unsolicited, 0)),
            RecvState::Overrun => Err(self.inbox.fault_at_end(Reason::Overrun)),
            _ => Ok(None),
        }
    }

    fn read_head<R, F: FnOnce(ResponseHead<'_>) -> R>(
        &mut self,
        mut on_head: F,
    ) -> Result<Option<Event<R>>, ConnectionFault> {
        loop {
            // Another protocol may never send the line end that is searched below, so the first byte decides.
            if self.inbox.bytes().first().is_some_and(|b| *b != b'H') {
                return Err(self.inbox.fault(Reason::StatusLine, 0));
            }
            let Some(found) = self.inbox.find_head(self.limits.max_head, Reason::HeadTooLong)? else {
                return self.check_wait().map(|()| None);
            };
            let head = self.inbox.bytes().get(..found.length).unwrap_or_default();
            let read = fields::parse_response(head, found.lines, &self.limits, self.role.head_only, on_head);
            match read.map_err(|(reason, at)| self.inbox.fault(reason, at))? {
                // The wait between interim responses has no timeout, so their number is bounded.
                ParsedResponse::Interim(_) if self.role.interim >= self.limits.max_interim => {
                    return Err(self.inbox.fault(Reason::TooManyInterim, 0));
                }
                ParsedResponse::Interim(back) => {
                    // An interim response has not used the callback; the next head gets it.
                    on_head = back;
                    self.role.interim = self.role.interim.saturating_add(1);
                    self.inbox.advance(found.length);
                    self.wait_started = self.now;
                }
                ParsedResponse::Final(r, framing) => {
                    self.inbox.advance(found.length);
                    self.wait_started = self.now;
                    self.closing |= framing.closes_connection;
                    self.reader = BodyReader::new(framing.framing, &self.limits);
                    self.advance(Trigger::RecvHead);
                    return Ok(Some(Event::Head(r)));
                }
            }
        }
    }
}
