//! What every server on a byte stream has, wherever its handlers run: engine, clock, deadlines and end.

use alloc::sync::Arc;
use core::time::Duration;
use std::io;

use mcp_proto::pipe::{self, Pipe};
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::{Fault, Instant};
use mcp_std::io::{Duplex, HungUp, is_peer_gone};

use super::attachments::Attachments;
use super::dispatcher::Dispatcher;
use super::server_loop::{Backlog, ServerLoop};
use super::tasks::StorePlace;
use crate::Error;
use crate::driver::PipeDriver;

/// A server on a byte stream without the stream, the handlers and the wait of its loop.
#[derive(Debug)]
pub(crate) struct StreamCore {
    pub(crate) pipe: pipe::Server,
    pub(crate) driver: PipeDriver,
    /// Events that arrived while a handler ran on the loop.
    pub(super) backlog: Backlog,
    /// Whether so many calls wait in the dispatcher that reading must pause.
    has_full_dispatcher: bool,
    /// Time at which a shutdown aborts the remaining calls, and until which tasks may run after the end of the stream.
    pub(crate) shutdown_deadline: Option<Instant>,
    /// Deadline for progress after the client has closed its sending side.
    pub(crate) eof_deadline: Option<Instant>,
    /// Time of the next check whether the client has disconnected.
    next_liveness_check: Instant,
    /// Number of handlers that ran before their output was written, since the last wait.
    pub(crate) delayed_writes: u32,
    /// Number of further calls for which answers are not delayed, because a handler was slow.
    pub(crate) eager_calls: u32,
    pub(crate) fault: Option<Fault>,
}

impl StreamCore {
    /// Creates the core of a server that has not read anything yet.
    pub(crate) fn new(config: Config) -> Self {
        let mut driver = PipeDriver::new();
        let now = driver.tick();
        // Without entropy no state can be sealed between two rounds; everything else works.
        let config = config.max_memory_by_default(mcp_std::memory::max_memory());
        let config = config.seal_lazily(|| Some((mcp_std::entropy::seed().ok()?, driver.anchor())));
        Self {
            pipe: pipe::Server::new(Arc::new(config), now),
            driver,
            backlog: Backlog::default(),
            has_full_dispatcher: false,
            shutdown_deadline: None,
            eof_deadline: None,
            next_liveness_check: Instant::ZERO,
            delayed_writes: 0,
            eager_calls: 0,
            fault: None,
        }
    }

    /// Takes what the handler gives to its loop.
    pub(crate) fn attach(
        &mut self,
        attachments: &Attachments,
        dispatcher: &mut Dispatcher,
    ) -> Result<(), Error> {
        let (anchor, place) = (self.driver.anchor(), StorePlace::Worker(dispatcher.commands()));
        attachments.install(dispatcher, self, anchor, place)
    }

    /// Returns the next event: one that was deferred, or else a new one.
    pub(crate) fn next_event(&mut self, dispatcher: &Dispatcher) -> Option<Event> {
        self.note_waiting_calls(dispatcher);
        let Some(event) = self.backlog.pop() else { return self.poll_event() };
        self.eof_deadline = None;
        Some(event)
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        let now = self.driver.now();
        // Under congestion no input is decoded, but the engine's own events (cancellations) are still reported.
        if self.is_congested() { self.pipe.engine().poll_event(now) } else { self.pipe.poll_event(now) }
    }

    /// Notes whether the calls that wait in the dispatcher are too many to read on.
    pub(crate) fn note_waiting_calls(&mut self, dispatcher: &Dispatcher) {
        self.has_full_dispatcher = dispatcher.is_congested(self.pipe.engine().config().effective_limits());
    }

    /// Returns whether so many events wait for handlers that reading must pause.
    fn is_congested(&mut self) -> bool {
        // Of a limit of 0 the dispatcher is full, too.
        self.has_full_dispatcher
            || !self.backlog.is_empty()
                && self.backlog.is_full(self.pipe.engine().config().effective_limits())
    }

    /// Returns the time that calls and tasks have after the end of input.
    pub(crate) fn grace_period(&mut self) -> Duration {
        self.pipe.engine().config().effective_limits().eof_grace_period
    }

    /// Writes as much as possible without waiting. Returns whether anything was written.
    pub(crate) fn write(&mut self, stream: &mut dyn Duplex) -> bool {
        let wrote = self.driver.write(&mut self.pipe, stream);
        // Output of a handler that blocks all others does not extend the deadline.
        if wrote && !self.is_congested() {
            self.eof_deadline = None;
        }
        if self.driver.is_write_closed() && !self.pipe.is_drained() {
            // No answer can be written any more.
            self.pipe.abort(self.driver.now(), &Fault::Eof);
        }
        wrote
    }

    /// Waits for the stream or a deadline, until `until` at most, and reads.
    ///
    /// Returns whether to [check](Self::check_client) now if the client is still connected: while it is not read from, its
    /// disconnection would go unnoticed.
    pub(crate) fn wait(&mut self, stream: &mut dyn Duplex, until: Option<Instant>) -> bool {
        let reads = !self.is_congested();
        let unwatched = !reads || !self.pipe.wants_input();
        let check_at = unwatched.then_some(self.next_liveness_check);
        self.driver.wait(&mut self.pipe, stream, reads, until.into_iter().chain(check_at).min());
        self.delayed_writes = 0;
        let is_due = unwatched && self.driver.now() >= self.next_liveness_check;
        if is_due {
            self.next_liveness_check = self.driver.now() + LIVENESS_CHECK_INTERVAL;
        }
        is_due
    }

    /// Aborts if the client has disconnected, or has closed its sending side and nothing progresses any more.
    pub(crate) fn check_client(&mut self, hung_up: HungUp) {
        let now = self.driver.now();
        if hung_up.read_closed || self.driver.is_read_closed() {
            // If the engine has read the end of the stream, its own grace period applies to open calls.
            let unread = self.is_congested() || self.pipe.is_stalled();
            let is_stuck = unread || !self.pipe.transmit().is_empty();
            let grace = self.grace_period();
            let deadline = *self.eof_deadline.get_or_insert(now + grace);
            if is_stuck && deadline <= now {
                self.pipe.abort(now, &Fault::Eof);
            } else if !is_stuck {
                self.eof_deadline = None;
            }
        }
        if hung_up.write_closed && !self.pipe.is_drained() {
            self.pipe.abort(now, &Fault::Eof);
        }
    }

    /// Gives tasks the grace period after the end of the stream: no client is left that could collect them.
    pub(super) fn end_tasks(&mut self) {
        if self.pipe.is_drained() && self.shutdown_deadline.is_none() {
            let now = self.driver.tick();
            let grace = self.grace_period();
            self.pipe.engine().shutdown(now, grace);
            self.shutdown_deadline = Some(now + grace);
        }
    }

    /// Returns until when the tasks that still run after the end of the stream may run. `None` if the server has none.
    pub(crate) fn begin_finishing_tasks(&mut self, dispatcher: &Dispatcher) -> Option<Instant> {
        if !dispatcher.has_tasks() {
            return None;
        }
        self.end_tasks();
        self.shutdown_deadline
    }

    /// Returns the time that is left to running tasks; `None` if there are none, or if it is over.
    pub(crate) fn time_for_tasks(&mut self, dispatcher: &Dispatcher, until: Instant) -> Option<Duration> {
        let left = until.saturating_duration_since(self.driver.tick());
        (dispatcher.running_tasks() > 0 && !left.is_zero()).then_some(left)
    }

    /// Returns how the server ended, after its output was `flushed`.
    pub(crate) fn end(&mut self, flushed: io::Result<()>) -> Result<(), Error> {
        match (self.driver.take_error(), self.fault.take(), flushed) {
            (Some(error), ..) => Err(Error::Io(error)),
            (None, Some(fault @ (Fault::TooManyFaultyMessages { .. } | Fault::PingTimeout { .. })), _) => {
                Err(Error::closed(fault))
            }
            (None, _, Err(error)) if !is_peer_gone(&error) => Err(Error::Io(error)),
            _ => Ok(()),
        }
    }
}

impl ServerLoop for StreamCore {
    #[inline]
    fn engine(&mut self) -> &mut Engine {
        self.pipe.engine()
    }

    #[inline]
    fn now(&self) -> Instant {
        self.driver.now()
    }

    #[inline]
    fn tick(&mut self) -> Instant {
        self.driver.tick()
    }

    fn shutdown(&mut self, grace: Duration) {
        let now = self.driver.tick();
        self.pipe.shutdown(now, grace);
        self.shutdown_deadline = Some(now + grace);
    }
}

/// Maximum number of passes over events and output in one turn, before input is read again.
pub(crate) const MAX_PASSES_PER_TURN: u32 = 16;
/// Interval of the check whether the client is still connected, while it is not read from.
const LIVENESS_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum time for which handlers of other calls may delay an answer.
pub(crate) const MAX_WRITE_DELAY: Duration = Duration::from_millis(10);
/// Number of calls before which output is written immediately, after [`MAX_WRITE_DELAY`] was exceeded.
pub(crate) const EAGER_CALLS: u32 = 64;
