//! The client's end of a connection: requests go, responses come, one at a time.

use bytes::Bytes;

use super::body::{Progress, Reader, Writer, append, has_framing};
use super::error::{Fault, Reason, Refused};
use super::fields::{self, Answered, Reply};
use super::inbox::Inbox;
use super::keep::Keep;
use super::limits::Limits;
use super::status::put_length;
use crate::head::{BodySize, Fields, Response, is_token};
use crate::outbox::Outbox;
use crate::time::Instant;

/// What came
#[derive(Debug)]
pub enum Event<R> {
    /// A response, as what the callback made of its head; interim ones (1xx) are not told of
    Head(R),
    /// Some of its body
    Body(Bytes),
    /// It is complete
    End,
    /// The server has ended the connection before a byte of the response came: nothing tells whether it acted on the
    /// request
    Closed,
    /// The connection is over. Nothing of the response at fault may be taken for complete.
    Fault(Fault),
}

/// One connection at the client's end
///
/// Whoever drives it writes [`transmit`](Self::transmit), reads while [`wants_input`](Self::wants_input), hands over what
/// came, polls until there are no more events, and closes when it [`is_over`](Self::is_over). See [the module](super).
#[derive(Debug)]
pub struct Connection {
    limits: Limits,
    now: Instant,
    inbox: Inbox,
    out: Outbox,
    reading: Reading,
    /// The body of the request, while it is not complete
    writing: Option<Writer>,
    /// The request was a `HEAD`
    head_only: bool,
    /// Responses 1xx so far
    interim: u8,
    /// Bytes of the request were written
    sent: bool,
    /// Bytes of the response have come
    received: bool,
    /// No request after this one
    last: bool,
    eof: bool,
    /// It broke: what would end with the connection has not ended
    broken: bool,
    keep: Keep,
    /// When input came last
    input_at: Instant,
    /// When what is waited for began: the first byte of a head, the body, the time without a request
    since: Instant,
}

#[derive(Clone, Copy, Debug)]
enum Reading {
    /// No request was made
    Idle,
    /// A response is to come
    Head,
    Body(Reader),
    /// Input came before any of the request was written: whatever it answers, it is not this request
    Early,
    /// Input came that was not wanted
    Flooded,
    Off,
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
            reading: Reading::Idle,
            writing: None,
            head_only: false,
            interim: 0,
            sent: false,
            received: false,
            last: false,
            eof: false,
            broken: false,
            keep: Keep::Nothing,
            input_at: now,
            since: now,
        }
    }

    /// Takes what was read
    pub fn handle_input(&mut self, now: Instant, input: &[u8]) {
        self.pass(now);
        if self.eof
            || input.is_empty()
            || matches!(self.reading, Reading::Off | Reading::Early | Reading::Flooded)
        {
            return;
        }
        self.input_at = self.now;
        if self.inbox.len() >= self.limits.buffered() {
            self.reading = Reading::Flooded;
            return;
        }
        if matches!(self.reading, Reading::Head) && self.inbox.is_empty() {
            self.since = self.now;
            if !self.sent {
                self.reading = Reading::Early;
            }
        }
        self.received = true;
        self.inbox.push(input);
        self.keep = Keep::Since(self.now);
    }

    /// The server will send no more
    pub fn handle_eof(&mut self, now: Instant) {
        self.pass(now);
        self.eof = true;
    }

    /// The connection broke: nothing more will come, and a body that its end would end is not whole
    pub fn handle_broken(&mut self, now: Instant) {
        self.handle_eof(now);
        self.broken = true;
    }

    /// Time has passed; what comes of it comes with the next poll
    pub fn handle_timeout(&mut self, now: Instant) {
        self.pass(now);
        if self.trim_at().is_some_and(|t| t <= self.now) {
            self.trim();
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) and poll
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.deadline(), self.trim_at()].into_iter().flatten().min()
    }

    /// Whether to read now; also without a request, for that is how the end of the connection is seen
    #[must_use]
    pub fn wants_input(&self) -> bool {
        !self.eof
            && !matches!(self.reading, Reading::Off | Reading::Early | Reading::Flooded)
            && self.inbox.len() < self.limits.buffered()
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
        self.sent |= n > 0;
        self.out.consume(n);
    }

    /// Nothing more can be written: what is left of the request is dropped
    ///
    /// Its response may have come all the same, or be on its way; nothing can follow it.
    pub fn handle_write_failed(&mut self) {
        self.out.clear();
        self.writing = None;
        self.last = true;
    }

    /// Bytes that were not written yet
    #[must_use]
    pub const fn unsent(&self) -> usize {
        self.out.len()
    }

    /// Bytes that came and were not read yet
    #[must_use]
    pub fn unread(&self) -> usize {
        self.inbox.len()
    }

    /// The socket is to be closed
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.reading, Reading::Off)
    }

    /// Whether the next [`request`](Self::request) may be made
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.reading, Reading::Idle) && !self.eof && self.inbox.is_empty()
    }

    /// Whether bytes have come since the request at hand was made, or the last one that was
    ///
    /// Without any, a server that has just closed a connection kept alive too long has most likely not seen the request.
    #[must_use]
    pub const fn has_received(&self) -> bool {
        self.received
    }

    /// Begins a request
    ///
    /// `target` is a path with its query. What says where the request ends and where it goes is written here: such fields
    /// are [refused](Refused::Framing). [`end`](Self::end) completes it, also without a body. The response may come before
    /// that; once it has ended, what is left of the request need not be sent, and then the connection is over.
    pub fn request(
        &mut self,
        now: Instant,
        method: &str,
        target: &str,
        host: &str,
        fields: &Fields,
        size: BodySize,
    ) -> Result<(), Refused> {
        self.pass(now);
        match self.reading {
            Reading::Idle if !self.eof && self.inbox.is_empty() => {}
            Reading::Idle | Reading::Off | Reading::Early | Reading::Flooded => return Err(Refused::Closed),
            Reading::Head | Reading::Body(_) => return Err(Refused::OutOfOrder),
        }
        let sendable = is_token(method.as_bytes())
            && !matches!(method, "CONNECT" | "TRACE")
            && fields::is_target(target)
            && (target.starts_with('/') || (target == "*" && method == "OPTIONS"))
            && fields::is_host(host.as_bytes());
        if !sendable {
            return Err(Refused::Invalid);
        }
        if has_framing(fields.as_lines(), true) {
            return Err(Refused::Framing);
        }
        // Nothing but these may go without a length and be taken to have no body by everyone (RFC 9110, 8.6).
        let bare = matches!(method, "GET" | "HEAD" | "DELETE" | "OPTIONS");
        append(&mut self.out, |tail| {
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
            BodySize::None => Writer::Exact(0),
            BodySize::Exact(n) => Writer::Exact(n),
            BodySize::Stream => Writer::Chunked,
        });
        self.head_only = method == "HEAD";
        self.reading = Reading::Head;
        (self.interim, self.sent, self.received) = (0, false, false);
        self.keep = Keep::Since(self.now);
        Ok(())
    }

    /// More of the body of the request; it is copied
    pub fn body(&mut self, data: &[u8]) -> Result<(), Refused> {
        self.keep = Keep::Used;
        match &mut self.writing {
            Some(writer) => writer.body(&mut self.out, data),
            None => Err(self.refusal()),
        }
    }

    /// More of the body of the request; a large piece is sent from where it is
    pub fn body_owned(&mut self, data: &Bytes) -> Result<(), Refused> {
        self.keep = Keep::Used;
        match &mut self.writing {
            Some(writer) => writer.body_owned(&mut self.out, data),
            None => Err(self.refusal()),
        }
    }

    /// The request is complete
    pub fn end(&mut self, now: Instant) -> Result<(), Refused> {
        self.pass(now);
        let Some(writer) = self.writing else { return Err(self.refusal()) };
        writer.end(&mut self.out)?;
        self.keep = Keep::Since(self.now);
        self.writing = None;
        Ok(())
    }

    /// Ends the connection: at once when no exchange is open, otherwise after it
    pub fn close(&mut self, now: Instant) {
        self.pass(now);
        self.last = true;
        if matches!(self.reading, Reading::Idle) {
            self.stop();
        }
    }

    /// Gives the exchange up, and the connection with it: nothing else tells the server
    pub fn abort(&mut self, now: Instant) {
        self.pass(now);
        self.stop();
    }

    /// Gives back the memory of empty buffers
    pub fn trim(&mut self) {
        self.inbox.trim();
        self.out.trim();
        if self.inbox.is_empty() && self.out.is_empty() {
            self.keep = Keep::Nothing;
        }
    }

    /// The next thing that came; `on_head` is given the head of the response
    pub fn poll_event<R>(
        &mut self,
        now: Instant,
        on_head: impl FnOnce(Response<'_>) -> R,
    ) -> Option<Event<R>> {
        self.pass(now);
        match self.reading {
            Reading::Idle => self.watch(),
            Reading::Head => self.read_head(on_head),
            Reading::Body(reader) => self.read_body(reader),
            Reading::Early => self.fail(self.inbox.fault(Reason::Unasked, 0)),
            Reading::Flooded => self.fail(self.inbox.fault_at_end(Reason::Overrun)),
            Reading::Off => None,
        }
    }

    /// Nobody was asked anything
    fn watch<R>(&mut self) -> Option<Event<R>> {
        if !self.inbox.is_empty() {
            return self.fail(self.inbox.fault(Reason::Unasked, 0));
        }
        if self.eof || self.deadline().is_some_and(|d| d <= self.now) {
            self.stop();
        }
        None
    }

    fn read_head<R, F: FnOnce(Response<'_>) -> R>(&mut self, mut on_head: F) -> Option<Event<R>> {
        loop {
            if self.inbox.bytes().first().is_some_and(|b| *b != b'H') {
                return self.fail(self.inbox.fault(Reason::StatusLine, 0));
            }
            let found = match self.inbox.find_head(self.limits.max_head, Reason::HeadTooLong) {
                Ok(Some(found)) => found,
                Ok(None) => return self.wait_for_head(),
                Err(fault) => return self.fail(fault),
            };
            let head = self.inbox.bytes().get(..found.length).unwrap_or_default();
            match fields::response(head, found.lines, &self.limits, self.head_only, on_head) {
                Ok(Reply::Interim(_)) if self.interim >= self.limits.max_interim => {
                    return self.fail(self.inbox.fault(Reason::TooManyInterim, 0));
                }
                Ok(Reply::Interim(back)) => {
                    on_head = back;
                    self.inbox.advance(found.length);
                    self.interim = self.interim.saturating_add(1);
                    self.since = self.now;
                }
                Ok(Reply::Final(r, Answered { framing, close })) => {
                    self.inbox.advance(found.length);
                    self.last |= close;
                    self.since = self.now;
                    self.reading = Reading::Body(Reader::new(framing, &self.limits));
                    return Some(Event::Head(r));
                }
                Err((reason, at)) => return self.fail(self.inbox.fault(reason, at)),
            }
        }
    }

    fn wait_for_head<R>(&mut self) -> Option<Event<R>> {
        if self.eof {
            if self.received {
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

    fn read_body<R>(&mut self, mut reader: Reader) -> Option<Event<R>> {
        let progress = reader.read(&mut self.inbox, &self.limits);
        self.reading = Reading::Body(reader);
        match progress {
            Ok(Progress::Data(data)) => Some(Event::Body(data)),
            Ok(Progress::More) if self.eof && !self.broken && reader.is_until_close() => self.ended(),
            Ok(Progress::More) if self.eof => self.fail(self.inbox.fault_at_end(Reason::Truncated)),
            Ok(Progress::More) if self.deadline().is_some_and(|d| d <= self.now) => {
                self.fail(self.inbox.fault_at_end(Reason::BodyTimeout))
            }
            Ok(Progress::More) => None,
            Ok(Progress::End) => self.ended(),
            Err(fault) => self.fail(fault),
        }
    }

    /// The response is complete
    fn ended<R>(&mut self) -> Option<Event<R>> {
        // A server that has answered need not read the rest of the request, and then nothing can follow it.
        if self.last || self.writing.is_some() || !self.out.is_empty() {
            self.stop();
        } else {
            self.reading = Reading::Idle;
            self.since = self.now;
        }
        Some(Event::End)
    }

    fn fail<R>(&mut self, fault: Fault) -> Option<Event<R>> {
        self.stop();
        Some(Event::Fault(fault))
    }

    fn stop(&mut self) {
        self.reading = Reading::Off;
        self.writing = None;
        self.inbox.clear();
        self.out.clear();
    }

    /// Why nothing can be sent now
    const fn refusal(&self) -> Refused {
        if matches!(self.reading, Reading::Off) { Refused::Closed } else { Refused::OutOfOrder }
    }

    /// When waiting ends
    fn deadline(&self) -> Option<Instant> {
        match self.reading {
            Reading::Idle => Some(self.since + self.limits.keep_alive),
            Reading::Head if !self.inbox.is_empty() => Some(self.since + self.limits.head_timeout),
            // A stream may be quiet for as long as it likes.
            Reading::Body(reader) if reader.is_exact() => {
                Some(self.input_at.max(self.since) + self.limits.body_idle)
            }
            _ => None,
        }
    }

    /// When buffers have been empty for so long that they may be wanted elsewhere
    fn trim_at(&self) -> Option<Instant> {
        let off = matches!(self.reading, Reading::Off);
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
