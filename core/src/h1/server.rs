//! The server's end of a connection: requests come, responses go, one at a time.

use bytes::Bytes;

use super::body::{Framing, Progress, Reader, Writer, append, has_framing};
use super::error::{Fault, Reason, Refused};
use super::fields::{self, Asked, Look, Wrong};
use super::inbox::Inbox;
use super::keep::Keep;
use super::limits::Limits;
use super::status::{put_length, put_status};
use crate::head::{BodySize, Fields, Request, is_token};
use crate::outbox::Outbox;
use crate::time::Instant;

/// What a request says of its body, beside what its fields say
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BodyInfo {
    /// How it is delimited
    pub framing: Framing,
    /// The client waits for `100 Continue`, which goes out when the owner polls for the body without having responded
    pub expects_continue: bool,
    /// The request is HTTP/1.0: a [stream](BodySize::Stream) will end with the connection
    pub is_http10: bool,
}

/// What came
#[derive(Debug)]
pub enum Event<R> {
    /// A request, as what the callback made of its head
    Head(R),
    /// Some of its body
    Body(Bytes),
    /// It is complete
    End,
    /// The client has ended the connection, at least its half, while a request is complete and the response is not: it
    /// is gone. What is still sent is for nobody; commands are refused.
    Gone,
    /// The connection is over. Nothing of the request at fault may be taken for complete.
    ///
    /// The client gets a response with [`Fault::status`], unless the one to this request has begun: that is cut short.
    Fault(Fault),
}

/// One connection at the server's end
///
/// Whoever drives it reads while [`wants_input`](Self::wants_input), hands over what came, polls until there are no more
/// events, writes [`transmit`](Self::transmit), and closes when it [`is_over`](Self::is_over). See [the module](super).
#[derive(Debug)]
pub struct Connection {
    limits: Limits,
    now: Instant,
    inbox: Inbox,
    out: Outbox,
    reading: Reading,
    writing: Writing,
    asked: Asked,
    /// No request after this one
    last: bool,
    eof: bool,
    half_closed_served: bool,
    blank_skipped: bool,
    keep: Keep,
    reset: bool,
    /// When input came last
    input_at: Instant,
    /// When what is waited for began: the first byte of a head, the body, the time without a request, the end
    since: Instant,
}

#[derive(Clone, Copy, Debug)]
enum Reading {
    /// A head, or nothing yet
    Head,
    Body(Reader),
    /// The request is complete, the next one waits for the response
    Complete,
    /// Input came that was not wanted
    Flooded,
    /// Nothing more is taken; what comes is read and dropped for a while, or not even that
    Off {
        linger: bool,
    },
}

#[derive(Clone, Copy, Debug)]
enum Writing {
    /// No request to respond to
    Idle,
    /// A request was delivered
    Owed {
        continued: bool,
    },
    Body(Writer),
    /// The response is complete, the request is not
    Ended,
}

impl Connection {
    /// A connection that begins at `now`
    #[must_use]
    pub fn new(now: Instant, limits: Limits) -> Self {
        Self {
            limits,
            now,
            inbox: Inbox::default(),
            out: Outbox::default(),
            reading: Reading::Head,
            writing: Writing::Idle,
            asked: Asked {
                framing: Framing::None,
                expects_continue: false,
                old: false,
                close: false,
                head_only: false,
            },
            last: false,
            eof: false,
            half_closed_served: false,
            blank_skipped: false,
            keep: Keep::Nothing,
            reset: false,
            input_at: now,
            since: now,
        }
    }

    /// Whether a client that has ended its half of the connection still gets its responses (default: no, it counts as
    /// gone, because nothing tells the one from the other)
    pub const fn serve_half_closed(&mut self, serve: bool) {
        self.half_closed_served = serve;
    }

    /// Takes what was read
    pub fn handle_input(&mut self, now: Instant, input: &[u8]) {
        self.pass(now);
        if self.eof || input.is_empty() {
            return;
        }
        self.input_at = self.now;
        if matches!(self.reading, Reading::Off { .. } | Reading::Flooded) {
            return;
        }
        if self.inbox.len() >= self.limits.buffered() {
            self.reading = Reading::Flooded;
            return;
        }
        if matches!(self.reading, Reading::Head) && self.inbox.is_empty() {
            self.since = self.now;
        }
        self.inbox.push(input);
        self.keep = Keep::Since(self.now);
    }

    /// The client will send no more
    pub fn handle_eof(&mut self, now: Instant) {
        self.pass(now);
        self.eof = true;
    }

    /// Time has passed; what comes of it comes with the next poll
    pub fn handle_timeout(&mut self, now: Instant) {
        self.pass(now);
        if self.deadline().is_some_and(|d| d <= self.now) {
            return;
        }
        if self.trim_at().is_some_and(|t| t <= self.now) {
            self.trim();
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) and poll
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.deadline(), self.trim_at()].into_iter().flatten().min()
    }

    /// Whether to read now
    #[must_use]
    pub fn wants_input(&self) -> bool {
        !self.eof
            && match self.reading {
                Reading::Off { .. } => self.lingers(),
                _ => self.inbox.len() < self.limits.buffered(),
            }
    }

    /// The bytes to write next; empty when there are none
    #[must_use]
    pub fn transmit(&self) -> &[u8] {
        self.out.transmit()
    }

    /// All pending slices in order, for vectored writes
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.out.segments()
    }

    /// Notes that `n` bytes were written
    pub fn consume(&mut self, n: usize) {
        self.out.consume(n);
    }

    /// Bytes that were not written yet: how far the reader is behind
    #[must_use]
    pub const fn unsent(&self) -> usize {
        self.out.len()
    }

    /// Everything was sent, nothing will follow: the socket's writing half is to be shut down
    #[must_use]
    pub const fn is_write_over(&self) -> bool {
        matches!(self.reading, Reading::Off { .. }) && self.out.is_empty()
    }

    /// The socket is to be closed: everything was sent, and the client has had the time to read it
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_write_over() && (self.eof || !self.lingers())
    }

    /// Closing it must not look like an orderly end, for a response that ends with the connection was
    /// [cut short](Self::abort): the socket is to be reset
    #[must_use]
    pub const fn wants_reset(&self) -> bool {
        self.reset
    }

    /// Bytes that came and were not read yet: those of a head that is not complete, and of requests beyond the one at hand
    #[must_use]
    pub fn unread(&self) -> usize {
        self.inbox.len()
    }

    /// Whether no request is being read or answered, so that closing the connection loses nothing
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!((self.reading, self.writing), (Reading::Head, Writing::Idle)) && self.inbox.is_empty()
    }

    /// The next thing that came; `on_head` is given the head of a request and what is known of its body
    pub fn poll_event<R>(
        &mut self,
        now: Instant,
        on_head: impl FnOnce(Request<'_>, &BodyInfo) -> R,
    ) -> Option<Event<R>> {
        self.poll_event_if(now, |head, info| Some(on_head(head, info)))
    }

    /// As [`poll_event`](Self::poll_event), unless `on_head` does not take the head: then it stays where it is, and there
    /// is nothing for now
    pub fn poll_event_if<R>(
        &mut self,
        now: Instant,
        on_head: impl FnOnce(Request<'_>, &BodyInfo) -> Option<R>,
    ) -> Option<Event<R>> {
        self.pass(now);
        loop {
            match self.reading {
                Reading::Head => return self.read_head(on_head),
                Reading::Body(reader) => match self.read_body(reader) {
                    // What nobody wants to have any more is dropped.
                    Ok(Progress::Data(_)) if matches!(self.writing, Writing::Ended) => {}
                    Ok(Progress::End) if matches!(self.writing, Writing::Ended) => self.next(),
                    Err(_) if matches!(self.writing, Writing::Ended) => {
                        self.stop(false);
                        return None;
                    }
                    Ok(Progress::Data(data)) => return Some(Event::Body(data)),
                    Ok(Progress::End) => {
                        self.reading = Reading::Complete;
                        return Some(Event::End);
                    }
                    Ok(Progress::More) => return None,
                    Err(fault) => return self.fail(fault),
                },
                Reading::Complete if self.eof && !self.half_closed_served => {
                    self.cut();
                    return Some(Event::Gone);
                }
                Reading::Flooded => return self.fail(self.inbox.fault_at_end(Reason::Overrun)),
                Reading::Complete | Reading::Off { .. } => return None,
            }
        }
    }

    fn read_head<R>(
        &mut self,
        on_head: impl FnOnce(Request<'_>, &BodyInfo) -> Option<R>,
    ) -> Option<Event<R>> {
        // A line end too many behind a body is forgiven once (RFC 9112, 2.2).
        if !self.blank_skipped && self.inbox.bytes().starts_with(b"\r\n") {
            self.inbox.advance(2);
            self.blank_skipped = true;
        }
        let begins = match self.inbox.bytes() {
            [] => true,
            [b'\r'] => !self.blank_skipped,
            [first, ..] => is_token(&[*first]),
        };
        if !begins {
            // Another protocol altogether, most likely: no line end needs to be waited for.
            return self.fail(self.inbox.fault(Reason::RequestLine, 0));
        }
        let with_info = |request: Request<'_>, asked: &Asked| {
            let info = BodyInfo {
                framing: asked.framing,
                expects_continue: asked.expects_continue,
                is_http10: asked.old,
            };
            on_head(request, &info)
        };
        // Most heads come in one piece.
        let with_info = match self.inbox.is_fresh() {
            false => with_info,
            true => match fields::look(self.inbox.bytes(), &self.limits, with_info) {
                Look::Read(read, length) => return self.take_head(read, length),
                Look::Unclear(with_info) => with_info,
            },
        };
        let found = match self.inbox.find_head(self.limits.max_head, Reason::TargetTooLong) {
            Ok(Some(found)) => found,
            Ok(None) => return self.wait_for_head(),
            Err(fault) => return self.fail(fault),
        };
        let head = self.inbox.bytes().get(..found.length).unwrap_or_default();
        let read = fields::request(head, found.lines, &self.limits, with_info);
        self.take_head(read, found.length)
    }

    fn take_head<R>(&mut self, read: Result<(Option<R>, Asked), Wrong>, length: usize) -> Option<Event<R>> {
        let (r, asked) = match read {
            Ok((r, asked)) => (r?, asked),
            Err((reason, at)) => return self.fail(self.inbox.fault(reason, at)),
        };
        self.inbox.advance(length);
        self.asked = asked;
        self.last |= asked.close;
        self.blank_skipped = false;
        self.since = self.now;
        self.reading = Reading::Body(Reader::new(asked.framing, &self.limits));
        self.writing = Writing::Owed { continued: !asked.expects_continue };
        Some(Event::Head(r))
    }

    fn wait_for_head<R>(&mut self) -> Option<Event<R>> {
        if self.inbox.is_empty() {
            if !self.out.is_empty() {
                // Time begins when the client can have read the response.
                self.since = self.now;
            }
            if self.eof || self.deadline().is_some_and(|d| d <= self.now) {
                self.reading = Reading::Off { linger: false };
            }
            return None;
        }
        if self.eof {
            return self.fail(self.inbox.fault_at_end(Reason::Truncated));
        }
        if self.deadline().is_some_and(|d| d <= self.now) {
            return self.fail(self.inbox.fault_at_end(Reason::HeadTimeout));
        }
        None
    }

    fn read_body(&mut self, mut reader: Reader) -> Result<Progress, Fault> {
        if let Writing::Owed { continued: continued @ false } = &mut self.writing {
            *continued = true;
            append(&mut self.out, |tail| tail.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n"));
            self.keep = Keep::Since(self.now);
        }
        let progress = reader.read(&mut self.inbox, &self.limits)?;
        self.reading = Reading::Body(reader);
        if matches!(progress, Progress::More) {
            if self.eof {
                return Err(self.inbox.fault_at_end(Reason::Truncated));
            }
            if self.deadline().is_some_and(|d| d <= self.now) {
                return Err(self.inbox.fault_at_end(Reason::BodyTimeout));
            }
        }
        Ok(progress)
    }

    /// Ends the connection for a fault, with a response where none has begun
    fn fail<R>(&mut self, fault: Fault) -> Option<Event<R>> {
        if matches!(self.writing, Writing::Idle | Writing::Owed { .. }) {
            let status = fault.status();
            append(&mut self.out, |tail| {
                put_status(tail, status);
                tail.extend_from_slice(b"Content-Length: 0\r\nConnection: close\r\n\r\n");
            });
            self.keep = Keep::Since(self.now);
            self.stop(true);
        } else {
            self.cut();
        }
        Some(Event::Fault(fault))
    }

    /// Begins the response to the request that was delivered
    ///
    /// A status from 200 to 599. What says where the response ends, and whether the connection lasts, is written here:
    /// such fields are [refused](Refused::Framing). The answer to a `HEAD`, 204 and 304 have no body, whatever `size`
    /// says and [`body`](Self::body) is given.
    ///
    /// A request that was not read to its end by now is still read until the response has ended. After that a rest of a
    /// body no longer than [`Limits::max_drain`] is dropped and the next request follows; otherwise the connection ends
    /// with this response.
    pub fn respond(
        &mut self,
        now: Instant,
        status: u16,
        fields: &Fields,
        size: BodySize,
    ) -> Result<(), Refused> {
        self.pass(now);
        if !matches!(self.writing, Writing::Owed { .. }) {
            return Err(self.refusal());
        }
        if !(200..600).contains(&status) {
            return Err(Refused::Invalid);
        }
        if has_framing(fields.as_lines(), false) {
            return Err(Refused::Framing);
        }
        self.last |= matches!(self.reading, Reading::Body(_)) && !self.is_rest_small();
        let bare = matches!(status, 204 | 304);
        let until_close = size == BodySize::Stream && self.asked.old && !bare && !self.asked.head_only;
        self.last |= until_close;
        let last = self.last;
        append(&mut self.out, |tail| {
            put_status(tail, status);
            tail.extend_from_slice(fields.as_lines());
            match size {
                _ if bare || until_close => {}
                BodySize::None => tail.extend_from_slice(b"Content-Length: 0\r\n"),
                BodySize::Exact(n) => put_length(tail, n),
                BodySize::Stream if self.asked.old => {}
                BodySize::Stream => tail.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            }
            let end: &[u8] = if last { b"Connection: close\r\n\r\n" } else { b"\r\n" };
            tail.extend_from_slice(end);
        });
        self.keep = Keep::Since(self.now);
        let mute = bare || self.asked.head_only;
        self.writing = Writing::Body(match size {
            BodySize::None => Writer::Exact(0),
            BodySize::Exact(n) if mute => Writer::Mute(n),
            BodySize::Stream if mute => Writer::Mute(u64::MAX),
            BodySize::Exact(n) => Writer::Exact(n),
            BodySize::Stream if until_close => Writer::UntilClose,
            BodySize::Stream => Writer::Chunked,
        });
        Ok(())
    }

    /// Why nothing can be sent now
    const fn refusal(&self) -> Refused {
        if matches!(self.reading, Reading::Off { .. }) { Refused::Closed } else { Refused::OutOfOrder }
    }

    /// Whether what is left of the request, if anything, is read when nobody wants it
    fn is_rest_small(&self) -> bool {
        match self.asked.framing {
            Framing::None => true,
            // By its whole length, so that how it was cut plays no part.
            Framing::Exact(n) => {
                n <= self.limits.max_drain && !matches!(self.writing, Writing::Owed { continued: false })
            }
            Framing::Chunked | Framing::UntilClose => false,
        }
    }

    /// More of the body of the response; it is copied
    pub fn body(&mut self, data: &[u8]) -> Result<(), Refused> {
        self.keep = Keep::Used;
        match &mut self.writing {
            Writing::Body(writer) => writer.body(&mut self.out, data),
            _ => Err(self.refusal()),
        }
    }

    /// More of the body of the response; a large piece is sent from where it is
    pub fn body_owned(&mut self, data: &Bytes) -> Result<(), Refused> {
        self.keep = Keep::Used;
        match &mut self.writing {
            Writing::Body(writer) => writer.body_owned(&mut self.out, data),
            _ => Err(self.refusal()),
        }
    }

    /// The response is complete
    pub fn end(&mut self, now: Instant) -> Result<(), Refused> {
        self.pass(now);
        let Writing::Body(writer) = self.writing else { return Err(self.refusal()) };
        writer.end(&mut self.out)?;
        self.keep = Keep::Since(self.now);
        self.writing = Writing::Ended;
        match self.reading {
            Reading::Complete => self.next(),
            Reading::Body(reader) if reader.is_done() => self.next(),
            // Whoever still sends may not have read this: closing at once could take it from him.
            _ if self.last => self.stop(true),
            _ => {}
        }
        Ok(())
    }

    /// Gives the exchange up: the response is cut short so that the client sees it, and the connection ends
    ///
    /// Without a response so far there will be none.
    pub fn abort(&mut self, now: Instant) {
        self.pass(now);
        if matches!(self.writing, Writing::Owed { .. } | Writing::Body(_)) {
            self.cut();
        }
    }

    /// Begins the time of a body anew: it was not asked for, nor read, until now
    #[cfg(feature = "http")]
    pub(crate) fn restart_body(&mut self, now: Instant) {
        self.pass(now);
        if matches!(self.reading, Reading::Body(_)) {
            self.since = self.now;
        }
    }

    /// Ends the connection: at once when no exchange is open, otherwise after it
    pub fn close(&mut self, now: Instant) {
        self.pass(now);
        self.last = true;
        if matches!((self.reading, self.writing), (Reading::Head, Writing::Idle)) {
            self.stop(!self.inbox.is_empty());
        }
    }

    /// Gives back the memory of empty buffers
    pub fn trim(&mut self) {
        self.inbox.trim();
        self.out.trim();
        if self.inbox.is_empty() && self.out.is_empty() {
            self.keep = Keep::Nothing;
        }
    }

    /// An exchange is complete
    fn next(&mut self) {
        self.writing = Writing::Idle;
        if self.last {
            self.stop(!self.inbox.is_empty());
        } else {
            self.reading = Reading::Head;
            self.since = self.now;
        }
    }

    fn cut(&mut self) {
        self.reset |= matches!(self.writing, Writing::Body(Writer::UntilClose));
        self.stop(false);
    }

    /// Nothing is read any more; a client that may still be sending is let finish
    fn stop(&mut self, linger: bool) {
        self.reading = Reading::Off { linger };
        self.writing = Writing::Idle;
        self.inbox.clear();
        self.since = self.now;
    }

    fn lingers(&self) -> bool {
        matches!(self.reading, Reading::Off { linger: true }) && self.now < self.linger_until()
    }

    /// When a client that goes on sending has had time enough: it may be far from the end of what it sends
    fn linger_until(&self) -> Instant {
        let (pause, all) = (self.limits.linger, self.limits.linger.saturating_mul(10));
        (self.input_at.max(self.since) + pause).min(self.since + all)
    }

    /// When waiting ends
    fn deadline(&self) -> Option<Instant> {
        match (self.reading, self.writing) {
            (Reading::Head, _) if !self.inbox.is_empty() => Some(self.since + self.limits.head_timeout),
            (Reading::Head, _) if self.out.is_empty() => Some(self.since + self.limits.keep_alive),
            (Reading::Body(_), _) => {
                let idle = self.input_at.max(self.since) + self.limits.body_idle;
                Some(idle.min(self.since + self.limits.body_timeout))
            }
            (Reading::Off { linger: true }, _) if !self.eof => {
                Some(self.linger_until()).filter(|_| self.lingers())
            }
            _ => None,
        }
    }

    /// When buffers have been empty for so long that they may be wanted elsewhere
    fn trim_at(&self) -> Option<Instant> {
        let off = matches!(self.reading, Reading::Off { .. });
        if off || !self.inbox.is_empty() || !self.out.is_empty() {
            return None;
        }
        self.keep.until(self.now, self.limits.idle_trim)
    }

    fn pass(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.keep.pass(self.now);
    }
}
