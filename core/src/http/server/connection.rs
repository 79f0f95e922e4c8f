//! One HTTP/1.1 connection and its exchanges with a [`Server`].

use core::time::Duration;

use super::token::RecentToken;
use super::{Denial, ExchangeId, Server};
use crate::built::{Observability, Part};
use crate::driving::DriverCheck;
use crate::h1::server::Event;
use crate::h1::{self, ConnectionFault, Eviction, EvictionClass, HttpLimits};
use crate::http::{HeadRecord, HeadRecords};
use crate::memory::{Charge, LONG, STEP};
use crate::server::ConnectionInfo;
use crate::sync::Arc;
use crate::tap::Direction;
use crate::time::{Instant, TimeoutReason};

/// The server end of one connection, over [`h1`].
///
/// The loop of the caller:
///
/// ```text
///   read while wants_input → handle_input (handle_eof at the end) → drive
///   answer the events of the server; for each exchange of Server::poll_ready → drive the connection that has it
///   write transmit (or segments), consume the bytes written → drive, because there is room again
///   at poll_timeout → handle_timeout → drive
///   if wants_write_shutdown → shut the writing half down; if wants_close → close
/// ```
///
/// The connection buffers at most [`HttpLimits::max_buffered`] bytes and one piece of a response. The rest stays in the
/// engine, which is bounded. A reader that takes nothing for [`HttpLimits::body_idle_timeout`] is disconnected. The
/// next request of a connection is read when the response to the previous one is complete.
///
/// ```
/// use std::sync::Arc;
/// use mcp_proto::http::server::{Config, Connection, Server};
/// use mcp_proto::{Entropy, Instant, h1};
///
/// let now = Instant::from_micros(1);
/// let config = mcp_proto::server::Config::new("demo", "1.0");
/// let mut server = Server::new(Arc::new(config), Arc::new(Config::new()), Entropy::new([7; 32], 0));
/// let mut connection = Connection::new(now, h1::HttpLimits::default());
///
/// connection.handle_input(now, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
/// connection.drive(now, &mut server);
/// assert!(connection.transmit().starts_with(b"HTTP/1.1 404 "));
/// ```
#[derive(Debug)]
pub struct Connection {
    h1: h1::server::Connection,
    check: DriverCheck,
    /// Number of unsent bytes at which no more output is produced.
    write_limit: usize,
    exchange: Option<CurrentExchange>,
    /// The last piece of a GET stream, until it was written.
    piece: Option<QueuedPiece>,
    /// Time since which the request waits for the decision about its token; its body is not read meanwhile.
    undecided_since: Option<Instant>,
    /// Maximum time for which a reader may take no bytes.
    write_timeout: Duration,
    /// Time since which the reader has taken no bytes.
    stalled_since: Option<Instant>,
    /// Time since which there has been unsent output without a break.
    unsent_since: Option<Instant>,
    /// Number of bytes that the reader has taken since then.
    taken: u64,
    /// The reader has taken bytes since the last check.
    made_progress: bool,
    is_aborted: bool,
    /// Requests wait until output is written, because there is no memory for them.
    is_starved: bool,
    next_head: NextHead,
    admission: Admission,
    /// The connection ends after the next response.
    ends_after_response: bool,
    pub(super) recent_token: RecentToken,
    fault: Option<ConnectionFault>,
    heads: Part<Observability, HeadRecords>,
    /// The description of the connection, for handlers.
    info: Option<Arc<ConnectionInfo>>,
    /// The buffers of the connection.
    charge: Charge,
}

/// Whether the next request of a [`Connection`] is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Admission {
    /// It is served.
    #[default]
    Open,
    /// It waits in the buffer until this changes.
    Held,
    /// It gets 503 with `Retry-After`, and the connection ends.
    Refused,
}

/// Why the head of the next request stays in the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NextHead {
    /// It does not.
    Free,
    /// It waits for admission.
    Held,
    /// Its session is on this shard.
    OtherShard(u8),
}

/// The open exchange of a connection.
#[derive(Clone, Copy, Debug)]
struct CurrentExchange {
    id: ExchangeId,
    /// The whole request was received.
    request_complete: bool,
    /// The head of the response was queued.
    head_sent: bool,
}

/// A piece of a body that was queued for writing and is not consumed yet.
///
/// A GET stream has at most one, so that the server knows which messages were not written when the connection breaks.
#[derive(Clone, Copy, Debug)]
struct QueuedPiece {
    /// Its length in the body.
    length: usize,
    /// Its length with its transfer coding.
    coded_length: usize,
}

impl QueuedPiece {
    /// Largest length.
    const MAX: usize = 16 << 10;

    /// Returns how much of it was not written if `unsent` bytes of the connection were not.
    fn unwritten(self, unsent: usize) -> usize {
        // A chunk ends in a line break, which says nothing new.
        let line_break = if self.coded_length > self.length { 2 } else { 0 };
        unsent.saturating_sub(line_break).min(self.length)
    }
}

impl Connection {
    /// Creates a connection that was accepted at `now`.
    #[must_use]
    pub fn new(now: Instant, limits: HttpLimits) -> Self {
        let (write_limit, write_timeout) = (limits.max_buffered, limits.body_idle_timeout);
        Self {
            h1: h1::server::Connection::new(now, limits),
            check: DriverCheck::default(),
            write_limit,
            exchange: None,
            piece: None,
            undecided_since: None,
            write_timeout,
            stalled_since: None,
            unsent_since: None,
            taken: 0,
            made_progress: false,
            is_aborted: false,
            is_starved: false,
            next_head: NextHead::Free,
            admission: Admission::Open,
            ends_after_response: false,
            recent_token: RecentToken::default(),
            fault: None,
            heads: Part::NONE,
            info: None,
            charge: Charge::default(),
        }
    }

    /// Describes the connection to the handlers of its calls ([`Call::http`](crate::server::Call::http)).
    pub fn set_info(&mut self, info: ConnectionInfo) {
        self.info = Some(Arc::new(info));
    }

    /// Sets whether a client that ended its half of the connection still gets its responses (default: no).
    ///
    /// By default such a client counts as gone (DESIGN-16).
    pub const fn serve_half_closed(&mut self, serve: bool) {
        self.h1.serve_half_closed(serve);
    }

    /// Sets whether the next request is served; [`drive`](Self::drive) afterwards.
    ///
    /// For servers with a connection limit: a client beyond it waits for a permit, or is told to come back.
    pub const fn set_admission(&mut self, admission: Admission) {
        self.admission = admission;
    }

    /// Sets whether the connection ends after the next response that begins (default no).
    ///
    /// For servers at their connection limit: unlike evicting an idle connection, this loses no request.
    pub const fn end_after_response(&mut self, ends: bool) {
        self.ends_after_response = ends;
    }

    /// Returns whether the next request is served.
    #[must_use]
    pub const fn admission(&self) -> Admission {
        self.admission
    }

    /// Returns whether the head of a request is complete and [held](Admission::Held).
    #[must_use]
    pub const fn is_head_held(&self) -> bool {
        // A connection that was closed meanwhile has dropped the head.
        matches!(self.next_head, NextHead::Held) && self.h1.is_reading_head()
    }

    /// Returns from when the connection may be evicted in favour of another one, if it may at all.
    ///
    /// It may not while it owes a response or is an event stream, unless its reader takes nothing for 2 s, or less than
    /// [`HttpLimits::min_rate`]. A request whose token has waited for its decision for 2 s is owed none yet.
    #[must_use]
    pub fn eviction(&self) -> Option<Eviction> {
        if self.h1.unsent_len() > 0 {
            let mut at = self.stalled_since? + STALL_GRACE;
            // A reader that takes a byte now and then never stalls. The minimum rate finds it.
            if let (Some(since), Some(time)) = (self.unsent_since, self.h1.time_at_min_rate(self.taken)) {
                at = at.min(since + STALL_GRACE + time);
            }
            return Some(Eviction { class: EvictionClass::Slow, at });
        }
        if let Some(since) = self.undecided_since {
            return Some(Eviction { class: EvictionClass::Undecided, at: since + STALL_GRACE });
        }
        let answers = self.exchange.is_some_and(|open| open.request_complete);
        if answers || self.is_head_held() {
            return None;
        }
        self.h1.eviction()
    }

    /// Ends the request that is being received with 408, because the connection is evicted.
    ///
    /// A request whose token waits for its decision gets 503 with `Retry-After`: the delay is not the client's.
    pub fn time_out(&mut self, now: Instant, server: &mut Server) {
        if let Some(open) = self.exchange.filter(|_| self.undecided_since.is_some()) {
            server.deny(now, open.id, &Denial::Unavailable);
            // The connection is closed before `drive` writes the response, so that its head says so.
            self.h1.close(now);
            return self.drive(now, server);
        }
        // The exchange ends first: the 408 comes from the connection, so the server must not answer, too.
        self.client_gone(now, server);
        self.h1.time_out(now);
    }

    /// Enables the records of heads for [`poll_head`](Self::poll_head).
    ///
    /// At most 64 records wait to be polled. Further heads are not recorded. Without the feature `observe` none are.
    pub fn tap_heads(&mut self) {
        self.heads.get_or_make(HeadRecords::default);
    }

    /// Returns the next record of a head, if records are enabled.
    pub fn poll_head(&mut self) -> Option<HeadRecord> {
        self.heads.as_mut()?.poll()
    }

    /// Processes bytes that were read.
    pub fn handle_input(&mut self, now: Instant, bytes: &[u8]) {
        self.h1.handle_input(now, bytes);
    }

    /// Records the end of the input; the next [`drive`](Self::drive) abandons what is open.
    pub fn handle_eof(&mut self, now: Instant) {
        self.h1.handle_eof(now);
    }

    /// Advances the time to `now`; the effects appear at the next [`drive`](Self::drive).
    pub fn handle_timeout(&mut self, now: Instant) {
        if cfg!(debug_assertions) {
            self.check.handle_timeout(now, self.poll_timeout().zip(self.timeout_reason()), true);
        }
        self.h1.advance_time(now);
        // The recent token goes with the buffers: an idle connection keeps no memory for it.
        if self.h1.is_trimmed() {
            self.recent_token.clear();
        }
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout).
    ///
    /// The server has [its own deadline](Server::poll_timeout).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        // While a complete head is held, its timeout has no effect. Its deadline would be returned again and again.
        let own = if self.is_paused() || self.is_head_held() { None } else { self.h1.poll_timeout() };
        own.into_iter().chain(self.stalled_since.map(|since| since + self.write_timeout)).min()
    }

    /// Returns the reason of the deadline of [`poll_timeout`](Self::poll_timeout).
    #[must_use]
    pub fn timeout_reason(&self) -> Option<TimeoutReason> {
        let at = self.poll_timeout()?;
        let is_slow = self.stalled_since.is_some_and(|since| since + self.write_timeout == at);
        if is_slow { Some(TimeoutReason::SlowReader) } else { self.h1.timeout_reason() }
    }

    /// Returns whether input is not processed until the application or the reader has made progress.
    const fn is_paused(&self) -> bool {
        self.undecided_since.is_some()
            || self.is_starved
            || (self.exchange.is_none() && self.h1.unsent_len() >= self.write_limit)
    }

    /// Returns whether to read now.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        !self.is_aborted && !self.is_starved && self.h1.wants_input()
    }

    /// Returns the bytes to write next; empty if there are none.
    #[must_use]
    pub fn transmit(&self) -> &[u8] {
        if self.is_aborted { &[] } else { self.h1.transmit() }
    }

    /// Returns all pending slices in order, for vectored writes.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.h1.segments().take(if self.is_aborted { 0 } else { usize::MAX })
    }

    /// Records that `n` bytes were written.
    pub fn consume(&mut self, n: usize) {
        self.made_progress |= n > 0;
        self.taken = self.taken.saturating_add(n as u64);
        self.is_starved = false;
        self.h1.consume(n);
    }

    /// Returns whether to shut down the writing half of the socket: all output was written and none will follow.
    #[must_use]
    pub const fn wants_write_shutdown(&self) -> bool {
        self.is_aborted || self.h1.wants_write_shutdown()
    }

    /// Returns whether to close the socket; by a reset if [`wants_reset`](Self::wants_reset).
    #[must_use]
    pub fn wants_close(&self) -> bool {
        self.is_aborted || self.h1.wants_close()
    }

    /// Returns whether to reset the socket instead of closing it in order.
    ///
    /// See [`h1::server::Connection::wants_reset`].
    #[must_use]
    pub const fn wants_reset(&self) -> bool {
        self.is_aborted || self.h1.wants_reset()
    }

    /// Returns whether nothing is being read, answered or written, so that closing the connection loses nothing.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.exchange.is_none() && self.h1.is_idle() && self.h1.unsent_len() == 0
    }

    /// Returns the open exchange; [`Server::poll_ready`] names it when this connection has output.
    #[must_use]
    pub fn exchange(&self) -> Option<ExchangeId> {
        self.exchange.map(|open| open.id)
    }

    /// Returns the [shard](Server::set_shard) of the next request if it is not the one of the driving server.
    ///
    /// It is returned once. The caller must then drive the connection with that shard. Nothing of the request was
    /// consumed, and no exchange is open. Until then the connection makes no progress.
    pub const fn take_other_shard(&mut self) -> Option<u8> {
        let NextHead::OtherShard(shard) = self.next_head else { return None };
        self.next_head = NextHead::Free;
        Some(shard)
    }

    /// Returns the fault in the received data, if that is why the connection ends.
    pub const fn take_fault(&mut self) -> Option<ConnectionFault> {
        self.fault.take()
    }

    /// Ends the connection after the open exchange, or immediately if there is none.
    pub fn close(&mut self, now: Instant) {
        self.h1.close(now);
    }

    /// Abandons the exchange and the connection, because the connection broke or must end immediately.
    pub fn abandon(&mut self, now: Instant, server: &mut Server) {
        self.client_gone(now, server);
        // Between exchanges `abort` has no effect. There `close` ends the connection.
        self.h1.abort(now);
        self.h1.close(now);
    }

    /// Moves input to the server and output to the connection, as far as both are possible now.
    pub fn drive(&mut self, now: Instant, server: &mut Server) {
        self.check.polled();
        // The loop is bounded by the buffered input: each further turn has taken one event from it.
        loop {
            // Output before input: the next request is read when the response to the last one was taken.
            self.queue_response(now, server);
            if !self.process_input(now, server) {
                break;
            }
        }
        self.check_write_timeout(now, server);
        self.charge_buffers(now, server);
    }

    /// Charges the buffers to the server. Gives a long head up while the server takes nothing new.
    fn charge_buffers(&mut self, now: Instant, server: &mut Server) {
        let memory = crate::server::memory(&server.engine);
        self.charge.attach(memory);
        self.charge.follow(self.h1.buffer_capacity());
        let is_long = self.exchange.is_none() && self.h1.unread_len() >= LONG;
        if is_long && !memory.takes_new(0) && self.h1.is_reading_head() && !self.is_head_held() {
            self.time_out(now, server);
        }
    }

    /// Disconnects a reader that has taken nothing for `write_timeout`; it would hold the connection forever.
    fn check_write_timeout(&mut self, now: Instant, server: &mut Server) {
        // The flag is reset in any case, or bytes of an earlier response would count for the next one.
        let progressed = core::mem::take(&mut self.made_progress);
        if self.h1.unsent_len() == 0 {
            (self.unsent_since, self.stalled_since) = (None, None);
            return;
        }
        if self.unsent_since.is_none() {
            (self.unsent_since, self.taken) = (Some(now), 0);
        }
        if progressed || self.stalled_since.is_none() {
            self.stalled_since = Some(now);
        } else if self.stalled_since.is_some_and(|since| since + self.write_timeout <= now) {
            // Without this the deadline in the past would be returned again and again.
            self.stalled_since = None;
            self.abandon(now, server);
            self.is_aborted = true;
        }
    }

    // ---- input -----------------------------------------------------------------------------------------------

    /// Processes the next event of the connection; returns whether there was one.
    fn process_input(&mut self, now: Instant, server: &mut Server) -> bool {
        if !self.follow_token_decision(now, server) {
            return false;
        }
        // The refusals of a client that reads none would take what is left.
        self.is_starved = self.exchange.is_none()
            && self.h1.unsent_len() >= STEP
            && !crate::server::memory(&server.engine).takes_request();
        // A client that does not read responses gets no further ones.
        if self.is_paused() {
            return false;
        }
        let (heads, admission, next_head) = (&mut self.heads, self.admission, &mut self.next_head);
        let recent_token = &mut self.recent_token;
        let event = self.h1.poll_event_if(now, |head, info| {
            *next_head = match admission {
                Admission::Held => NextHead::Held,
                Admission::Open => server.other_shard(&head).map_or(NextHead::Free, NextHead::OtherShard),
                // A refusal needs no session, so the connection stays here and is counted here.
                Admission::Refused => NextHead::Free,
            };
            if *next_head != NextHead::Free {
                return None;
            }
            // A head that stays in the buffer is parsed again, so it is recorded only when it is taken.
            if let Some(tap) = heads.as_mut() {
                tap.record_request(now, Direction::In, &head);
            }
            Some(match admission {
                Admission::Refused => server.refuse_connection(now, &head),
                _ => server.open_unless(now, &head, info.framing.body_len(), false, Some(recent_token), None),
            })
        });
        match event {
            None => return false,
            Some(Event::Head(id)) => {
                if admission == Admission::Refused {
                    self.h1.close(now);
                }
                if let (Some(info), Some(request)) = (&self.info, server.request_mut(id)) {
                    request.set_connection(info.clone());
                }
                self.exchange = Some(CurrentExchange { id, request_complete: false, head_sent: false });
            }
            Some(Event::Body(piece)) => {
                if let Some(open) = self.exchange {
                    server.handle_body(now, open.id, piece);
                }
            }
            Some(Event::End) => {
                if let Some(open) = &mut self.exchange {
                    open.request_complete = true;
                    server.handle_end(now, open.id);
                }
            }
            Some(Event::ClientGone) => self.client_gone(now, server),
            Some(Event::Fault(fault)) => {
                self.fault = Some(fault);
                self.client_gone(now, server);
            }
        }
        true
    }

    /// Notes how long the application takes to decide about a token; false if the client is gone meanwhile.
    fn follow_token_decision(&mut self, now: Instant, server: &mut Server) -> bool {
        // During token validation the body is neither read nor requested.
        match self.exchange.filter(|open| server.awaits_token_decision(open.id)) {
            Some(_) if self.h1.is_client_gone() => {
                // Nobody is left to decide for.
                self.abandon(now, server);
                return false;
            }
            Some(_) => _ = self.undecided_since.get_or_insert(now),
            // The application took this time, not the client.
            None if self.undecided_since.take().is_some() => self.h1.restart_body(now),
            None => {}
        }
        true
    }

    /// Ends the exchange because the client disconnected or sent invalid data.
    fn client_gone(&mut self, now: Instant, server: &mut Server) {
        let Some(open) = self.exchange.take() else { return };
        if let Some(piece) = self.piece.take() {
            // This precedes `handle_gone`, which gives all messages that were not consumed to other streams.
            let unwritten = piece.unwritten(self.h1.unsent_len());
            server.consume(open.id, piece.length - unwritten);
            // The rest goes to another stream of the session, so it must not be written here.
            self.is_aborted |= unwritten > 0;
        }
        server.handle_gone(now, open.id);
    }

    // ---- output ----------------------------------------------------------------------------------------------

    /// Queues the response of the open exchange, as far as there is room.
    fn queue_response(&mut self, now: Instant, server: &mut Server) {
        let Some(mut open) = self.exchange else { return };
        if !open.head_sent {
            let Some(response) = server.response(open.id) else {
                if server.is_finished(open.id) {
                    // The exchange was removed, so there will be no response.
                    self.abandon(now, server);
                }
                return;
            };
            if let Some(tap) = self.heads.as_mut() {
                tap.record_response(now, Direction::Out, response.status, &mut response.fields.iter());
            }
            // Before the head is written, which says so.
            if self.ends_after_response {
                self.h1.close(now);
            }
            if self.h1.respond(now, response.status, &response.fields, response.size).is_err() {
                return self.abandon(now, server);
            }
            open.head_sent = true;
            self.exchange = Some(open);
        }
        // Its messages go elsewhere if the connection breaks, so each is consumed only when it was written.
        if server.exchanges.is_get_stream(open.id.0) && !self.queue_piece(now, server, open.id) {
            return;
        }
        while !server.is_finished(open.id) {
            // The rest stays in the engine, where limits hold, until the reader has taken some (DESIGN-13).
            if self.h1.unsent_len() >= self.write_limit {
                return;
            }
            let taken = match server.transmit_owned(now, open.id) {
                Some(segment) => self.h1.write_body_owned(&segment),
                None => {
                    let bytes = server.transmit(now, open.id);
                    let length = bytes.len();
                    if length == 0 {
                        // The last of several messages may have been the end.
                        if server.is_finished(open.id) {
                            break;
                        }
                        return;
                    }
                    if !self.h1.make_room(length) {
                        // As segments they need no copy.
                        if server.exchanges.get_mut(open.id.0).is_none_or(|x| x.out.seal()) {
                            continue;
                        }
                        return;
                    }
                    let taken = self.h1.write_body(bytes);
                    server.consume(open.id, length);
                    taken
                }
            };
            if taken.is_err() {
                return self.abandon(now, server);
            }
        }
        if self.h1.end(now).is_err() {
            return self.abandon(now, server);
        }
        self.exchange = None;
        server.release(now, open.id);
    }

    /// Queues the next piece of a GET stream once the previous one was written; returns false if one waits for that.
    fn queue_piece(&mut self, now: Instant, server: &mut Server, exchange: ExchangeId) -> bool {
        if self.h1.unsent_len() > 0 && self.piece.is_some() {
            return false;
        }
        // The previous piece has left the connection. Only now do its messages count as sent.
        if let Some(written) = self.piece.take() {
            server.consume(exchange, written.length);
        }
        let bytes = server.transmit(now, exchange);
        let bytes = bytes.get(..QueuedPiece::MAX).unwrap_or(bytes);
        if bytes.is_empty() {
            return true;
        }
        let (length, before) = (bytes.len(), self.h1.unsent_len());
        if self.h1.write_body(bytes).is_err() {
            self.abandon(now, server);
            return false;
        }
        // The coded length is a difference, because a chunk size has a varying number of digits.
        self.piece = Some(QueuedPiece { length, coded_length: self.h1.unsent_len() - before });
        false
    }
}

/// How long a reader may take nothing, or a token may wait for its decision, before the connection may be evicted.
const STALL_GRACE: Duration = Duration::from_secs(2);
