//! One connection of our own HTTP/1.1 and its exchanges with a [`Server`]: bytes in, bytes out.

use alloc::collections::VecDeque;
use core::time::Duration;

use super::{ExchangeId, Server};
use crate::h1::server::Event;
use crate::h1::{self, Fault, Framing, Limits};
use crate::http::record::{HeadRecord, keep};
use crate::tap::Direction;
use crate::time::Instant;

/// One connection at the server's end, over [`h1`]
///
/// The loop that drives it:
///
/// ```text
///   read while wants_input → handle_input (handle_eof at the end) → drive
///   the server's events are answered; for each exchange of Server::poll_ready → drive the connection that has it
///   write transmit (or segments), consume what was written, → drive, as there is room again
///   at poll_timeout → handle_timeout, → drive
///   once is_write_over → shut the writing half down; once is_over → close
/// ```
///
/// Of a response no more is made than [`Limits::max_buffered`] bytes and one piece before the reader has taken some: what
/// a slow reader has not read stays in the engine, which is bounded. A reader that takes nothing at all for
/// [`Limits::body_idle`] is given up. The next request of a connection is looked at when the response to the one before
/// is complete.
///
/// ```
/// use std::sync::Arc;
/// use mcp_proto::http::server::{Config, Connection, Server};
/// use mcp_proto::{Entropy, Instant, h1};
///
/// let now = Instant::from_micros(1);
/// let config = mcp_proto::server::Config::new("demo", "1.0");
/// let mut server = Server::new(Arc::new(config), Arc::new(Config::new()), Entropy::new([7; 32], 0));
/// let mut connection = Connection::new(now, h1::Limits::default());
///
/// connection.handle_input(now, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
/// connection.drive(now, &mut server);
/// assert!(connection.transmit().starts_with(b"HTTP/1.1 404 "));
/// ```
#[derive(Debug)]
pub struct Connection {
    h1: h1::server::Connection,
    /// So much may wait to be written before nothing more is made
    mark: usize,
    exchange: Option<Open>,
    /// The request waits for a judgement of its token, and its body for that
    held: bool,
    /// How long a reader may leave everything where it is
    patience: Duration,
    /// Since when it has
    stuck_since: Option<Instant>,
    /// It has taken something
    moved: bool,
    dead: bool,
    /// The shard that the next request is for
    elsewhere: Option<u8>,
    fault: Option<Fault>,
    heads: Option<VecDeque<HeadRecord>>,
}

/// The exchange under way
#[derive(Clone, Copy, Debug)]
struct Open {
    id: ExchangeId,
    /// The request has come whole
    complete: bool,
    /// The head of the response is on its way
    responded: bool,
}

impl Connection {
    /// A connection that was accepted at `now`
    #[must_use]
    pub fn new(now: Instant, limits: Limits) -> Self {
        let (mark, patience) = (limits.max_buffered, limits.body_idle);
        Self {
            h1: h1::server::Connection::new(now, limits),
            mark,
            exchange: None,
            held: false,
            patience,
            stuck_since: None,
            moved: false,
            dead: false,
            elsewhere: None,
            fault: None,
            heads: None,
        }
    }

    /// Whether a client that has ended its half of the connection still gets its responses (default: no, it is gone;
    /// design, 16)
    pub const fn serve_half_closed(&mut self, serve: bool) {
        self.h1.serve_half_closed(serve);
    }

    /// Has heads kept for [`poll_head`](Self::poll_head), 64 at most
    pub fn tap_heads(&mut self) {
        self.heads.get_or_insert_default();
    }

    /// The next head that came or went, if they are kept
    pub fn poll_head(&mut self) -> Option<HeadRecord> {
        self.heads.as_mut()?.pop_front()
    }

    /// Takes what was read
    pub fn handle_input(&mut self, now: Instant, bytes: &[u8]) {
        self.h1.handle_input(now, bytes);
    }

    /// The client will send no more: whatever is open is given up with the next [`drive`](Self::drive)
    pub fn handle_eof(&mut self, now: Instant) {
        self.h1.handle_eof(now);
    }

    /// Time has passed; what comes of it comes with the next [`drive`](Self::drive)
    pub fn handle_timeout(&mut self, now: Instant) {
        self.h1.handle_timeout(now);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout); the server has a [time](Server::poll_timeout) of its own
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let own = if self.waits() { None } else { self.h1.poll_timeout() };
        own.into_iter().chain(self.stuck_since.map(|since| since + self.patience)).min()
    }

    /// Whether nothing is looked at until the application or the reader has moved
    const fn waits(&self) -> bool {
        self.held || (self.exchange.is_none() && self.h1.unsent() >= self.mark)
    }

    /// Whether to read now
    #[must_use]
    pub fn wants_input(&self) -> bool {
        !self.dead && self.h1.wants_input()
    }

    /// The bytes to write next; empty when there are none
    #[must_use]
    pub fn transmit(&self) -> &[u8] {
        self.h1.transmit()
    }

    /// All pending slices in order, for vectored writes
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.h1.segments()
    }

    /// Notes that `n` bytes were written
    pub fn consume(&mut self, n: usize) {
        self.moved |= n > 0;
        self.h1.consume(n);
    }

    /// Everything was sent and nothing will follow: the socket's writing half is to be shut down
    #[must_use]
    pub const fn is_write_over(&self) -> bool {
        self.dead || self.h1.is_write_over()
    }

    /// The socket is to be closed; by a reset, where closing must not look like an orderly end
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.dead || self.h1.is_over()
    }

    /// Whether closing must not look like an orderly end ([`h1::server::Connection::wants_reset`])
    #[must_use]
    pub const fn wants_reset(&self) -> bool {
        self.dead || self.h1.wants_reset()
    }

    /// Whether nothing is being read, answered or written, so that closing it loses nothing
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.exchange.is_none() && self.h1.is_idle() && self.h1.unsent() == 0
    }

    /// The exchange under way: what [`Server::poll_ready`] names is for the connection that has it
    #[must_use]
    pub fn exchange(&self) -> Option<ExchangeId> {
        self.exchange.map(|open| open.id)
    }

    /// The [shard](Server::is_one_of) that the next request is for, if that is not the one that it was driven with; told
    /// once
    ///
    /// The connection is to be driven with that one from now on. Nothing of the request was taken, and no exchange is
    /// open. Until then it stands still.
    pub const fn elsewhere(&mut self) -> Option<u8> {
        self.elsewhere.take()
    }

    /// What was wrong with what came, if that is why the connection ends
    pub const fn take_fault(&mut self) -> Option<Fault> {
        self.fault.take()
    }

    /// Ends the connection when the exchange under way is over, at once if there is none
    pub fn close(&mut self, now: Instant) {
        self.h1.close(now);
    }

    /// Gives everything up: the connection broke, or is to end whatever is open
    pub fn abandon(&mut self, now: Instant, server: &mut Server) {
        if let Some(open) = self.exchange.take() {
            server.handle_gone(now, open.id);
        }
        self.h1.abort(now);
        self.h1.close(now);
    }

    /// Moves what came to the server, and what the server has to say to what is to be written, as far as both go now
    pub fn drive(&mut self, now: Instant, server: &mut Server) {
        loop {
            self.send(now, server);
            if !self.receive(now, server) {
                break;
            }
        }
        self.watch_reader(now, server);
    }

    /// A reader that takes nothing for long is given up: it would hold a connection for ever
    fn watch_reader(&mut self, now: Instant, server: &mut Server) {
        let moved = core::mem::take(&mut self.moved);
        if self.h1.unsent() == 0 {
            self.stuck_since = None;
        } else if moved || self.stuck_since.is_none() {
            self.stuck_since = Some(now);
        } else if self.stuck_since.is_some_and(|since| since + self.patience <= now) {
            self.stuck_since = None;
            self.abandon(now, server);
            self.dead = true;
        }
    }

    // ---- from the client -------------------------------------------------------------------------------------

    /// Takes the next event; whether there was one
    fn receive(&mut self, now: Instant, server: &mut Server) -> bool {
        // While a token is being judged the body is not read, nor is it asked for.
        let was_held =
            core::mem::replace(&mut self.held, self.exchange.is_some_and(|open| is_held(&open, server)));
        if was_held && !self.held {
            // That took the application's time, not the client's.
            self.h1.restart_body(now);
        }
        // And who does not read answers gets no further ones.
        if self.waits() {
            return false;
        }
        let (heads, elsewhere) = (&mut self.heads, &mut self.elsewhere);
        let event = self.h1.poll_event_if(now, |head, info| {
            *elsewhere = server.elsewhere(&head);
            if elsewhere.is_some() {
                return None;
            }
            keep(heads, || HeadRecord::request(now, Direction::In, &head));
            let length = match info.framing {
                Framing::None => Some(0),
                Framing::Exact(length) => Some(length),
                Framing::Chunked | Framing::UntilClose => None,
            };
            Some(server.open(now, &head, length))
        });
        match event {
            None => return false,
            Some(Event::Head(id)) => {
                self.exchange = Some(Open { id, complete: false, responded: false });
            }
            Some(Event::Body(piece)) => {
                if let Some(open) = self.exchange {
                    server.handle_body(now, open.id, piece);
                }
            }
            Some(Event::End) => {
                if let Some(open) = &mut self.exchange {
                    open.complete = true;
                    server.handle_end(now, open.id);
                }
            }
            Some(Event::Gone) => self.lose(now, server),
            Some(Event::Fault(fault)) => {
                self.fault = Some(fault);
                self.lose(now, server);
            }
        }
        true
    }

    /// The client is gone, or nothing that it sends can be understood any more
    fn lose(&mut self, now: Instant, server: &mut Server) {
        if let Some(open) = self.exchange.take() {
            server.handle_gone(now, open.id);
        }
    }

    // ---- to the client ---------------------------------------------------------------------------------------

    /// Moves what the server has to say
    fn send(&mut self, now: Instant, server: &mut Server) {
        let Some(mut open) = self.exchange else { return };
        if !open.responded {
            let Some(response) = server.response(open.id) else {
                if server.is_finished(open.id) {
                    // It was forgotten: there will never be a response.
                    self.abandon(now, server);
                }
                return;
            };
            let record = || {
                let fields = response.fields.iter();
                HeadRecord::response(now, Direction::Out, response.status, fields)
            };
            keep(&mut self.heads, record);
            if self.h1.respond(now, response.status, &response.fields, response.size).is_err() {
                return self.abandon(now, server);
            }
            open.responded = true;
            self.exchange = Some(open);
        }
        while self.h1.unsent() < self.mark {
            let taken = match server.transmit_owned(now, open.id) {
                Some(segment) => self.h1.body_owned(&segment),
                None => {
                    let bytes = server.transmit(now, open.id);
                    let length = bytes.len();
                    if length == 0 {
                        break;
                    }
                    let taken = self.h1.body(bytes);
                    server.consume(open.id, length);
                    taken
                }
            };
            if taken.is_err() {
                return self.abandon(now, server);
            }
        }
        if server.is_finished(open.id) {
            if self.h1.end(now).is_err() {
                return self.abandon(now, server);
            }
            self.exchange = None;
            server.release(now, open.id);
        }
    }
}

/// Whether the application has yet to say if a request may come in
fn is_held(open: &Open, server: &Server) -> bool {
    !open.complete && server.response(open.id).is_none() && !server.wants_body(open.id)
}
