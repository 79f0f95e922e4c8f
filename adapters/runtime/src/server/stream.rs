//! The server on a byte stream: an event loop that reads, runs handlers and writes.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use std::thread;

use mcp_proto::pipe::{self, Pipe};
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::{Fault, Instant};
use mcp_std::catch;
use mcp_std::io::{Duplex, Stdio};

use super::Handle;
use super::dispatcher::Dispatcher;
use super::handler::Handler;
use super::remote::RemoteCall;
use super::server_loop::{Backlog, ServerLoop, dispatch_event};
use super::tasks::{StorePlace, thread_waker};
use crate::Error;
use crate::driver::PipeDriver;

/// A server on one byte stream.
///
/// The thread that is in [`run`](Self::run) or [`poll`](Self::poll) drives the event loop. Handlers run on this thread,
/// one at a time, unless they [run remotely](Self::run_remotely).
pub struct Server<D, H> {
    handler: H,
    stream: D,
    state: State,
    dispatcher: Dispatcher,
    /// Starts remote handlers. `None` if handlers run on this thread.
    remote_runner: Option<Box<SendCallRunner>>,
    /// Whether other threads can wake the loop.
    is_waker_registered: bool,
    /// Whether the loop has the tasks of the handler.
    has_attachments: bool,
    /// Whether the last turn ended before all work was done.
    has_more_work: bool,
    fault: Option<Fault>,
}

/// A function that starts remote handlers for calls.
pub type CallRunner<'a> = dyn FnMut(&mut dyn Iterator<Item = RemoteCall>) + 'a;
/// A [`CallRunner`] that a loop owns.
pub(super) type SendCallRunner = dyn FnMut(&mut dyn Iterator<Item = RemoteCall>) + Send;

impl<H: Handler> Server<Stdio, H> {
    /// Creates a server on stdin and stdout of this process, which belong to it until it is dropped; see
    /// [`Stdio::guarded`].
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if stdin or stdout is not available.
    pub fn stdio(config: Config, handler: H) -> Result<Self, Error> {
        let mut server = Self::new(config, Stdio::guarded()?, handler);
        server.state.driver.defer_buffer_release();
        Ok(server)
    }
}

impl<D: Duplex, H: Handler> Server<D, H> {
    /// Creates a server that has not read anything yet.
    pub fn new(config: Config, stream: D, handler: H) -> Self {
        let (state, dispatcher) = (State::new(config), Dispatcher::new(1));
        Self {
            handler,
            stream,
            state,
            dispatcher,
            remote_runner: None,
            is_waker_registered: false,
            has_attachments: false,
            has_more_work: false,
            fault: None,
        }
    }

    /// Runs handlers elsewhere: `run` starts them for calls, at most `max_running` at a time (at least 1).
    ///
    /// The server's own handler then receives everything except calls. Call this before the server runs.
    ///
    /// # Errors
    ///
    /// The error of [`Duplex::waker`].
    pub fn run_remotely(
        &mut self,
        max_running: usize,
        run: impl FnMut(&mut dyn Iterator<Item = RemoteCall>) + Send + 'static,
    ) -> Result<(), Error> {
        self.dispatcher.set_max_running(max_running);
        self.remote_runner = Some(Box::new(run));
        self.register_waker()
    }

    /// Lets the outcomes of [remote handlers](Self::run_remotely) wake nothing until the next [`poll`](Self::poll).
    ///
    /// For a loop that runs such a handler itself, between two turns. That turn does not wait.
    pub fn expect_messages(&mut self) {
        self.dispatcher.expect_messages();
    }

    /// Returns a handle that sends commands to the server from any thread.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if another thread cannot end a wait for the stream; see [`Duplex::waker`].
    pub fn handle(&mut self) -> Result<Handle, Error> {
        self.register_waker()?;
        Ok(Handle::new(self.dispatcher.commands()))
    }

    fn register_waker(&mut self) -> Result<(), Error> {
        if !self.is_waker_registered {
            self.dispatcher.register(&self.stream.waker()?);
            self.is_waker_registered = true;
        }
        Ok(())
    }

    /// Runs the server until its end.
    ///
    /// # Errors
    ///
    /// - [`Error::Io`]: the stream failed; a client that leaves is not an error.
    /// - [`Error::Closed`]: the client sent too many faulty messages
    ///   ([`Limits::max_faulty_messages`](mcp_proto::Limits)) or answered too few
    ///   keep-alive pings.
    pub fn run(mut self) -> Result<(), Error> {
        while self.turn(None)? {}
        Ok(())
    }

    /// Runs one turn: waits for work for `timeout` at most, and does it. Returns `false` when the server has stopped.
    ///
    /// A turn that begins with messages of other threads, for example commands of a [`Handle`], does not look for input.
    /// The next one does.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run). After an error the server has stopped, too.
    pub fn poll(&mut self, timeout: Duration) -> Result<bool, Error> {
        let until = self.state.driver.tick() + timeout;
        self.turn(Some(until))
    }

    /// Shuts down: accepts no more requests, and ends when all calls are answered and written or after `grace`.
    ///
    /// Call [`poll`](Self::poll) afterwards until it returns `false`.
    pub fn shutdown(&mut self, grace: Duration) {
        self.state.shutdown(grace);
        // Extensions end their calls in the next turn, before it waits.
        self.has_more_work = true;
    }

    /// Returns the engine, for example to send a notification. The next [`poll`](Self::poll) writes its output.
    pub const fn engine(&mut self) -> &mut Engine {
        self.state.pipe.engine()
    }

    /// Returns the channel of the stream, for commands of the engine.
    pub const fn channel(&self) -> mcp_proto::ChannelId {
        self.state.pipe.channel()
    }

    /// Reads the clock, for commands of the engine.
    pub fn now(&mut self) -> Instant {
        self.state.driver.tick()
    }

    /// Returns the handler.
    pub const fn handler(&mut self) -> &mut H {
        &mut self.handler
    }

    /// Takes what the handler gives to its loop, before the first turn.
    fn attach(&mut self) -> Result<(), Error> {
        if core::mem::replace(&mut self.has_attachments, true) {
            return Ok(());
        }
        let attachments = self.handler.attachments();
        if attachments.is_empty() {
            return Ok(());
        }
        // The store of tasks and the extensions wake the loop.
        self.register_waker()?;
        let (anchor, place) = (self.state.driver.anchor(), StorePlace::Worker(self.dispatcher.commands()));
        let mut server_loop = StreamLoop { state: &mut self.state, stream: &mut self.stream };
        attachments.install(&mut self.dispatcher, &mut server_loop, anchor, place)
    }

    /// Lets the tasks that still run finish after the end of the stream, within the grace period, and the store write
    /// what it has not written.
    fn finish_tasks(&mut self) {
        if !self.dispatcher.has_tasks() {
            return;
        }
        self.state.end_tasks();
        let until = self.state.shutdown_deadline.unwrap_or_else(|| self.state.driver.now());
        // Nothing can be read or written any more, so only messages wake this thread.
        self.dispatcher.register(&thread_waker());
        loop {
            self.process_events();
            let now = self.state.driver.tick();
            if self.dispatcher.running_tasks() == 0 || now >= until {
                break;
            }
            thread::park_timeout(until.saturating_duration_since(now));
        }
        let mut server_loop = StreamLoop { state: &mut self.state, stream: &mut self.stream };
        self.dispatcher.finish_tasks(&mut server_loop);
    }

    /// Runs one turn of the event loop. Returns `false` when the server has stopped.
    fn turn(&mut self, until: Option<Instant>) -> Result<bool, Error> {
        self.attach()?;
        if !self.state.pipe.is_drained() && self.dispatcher.processes_messages_first() {
            self.process_events();
            return Ok(true);
        }
        // The last turn ended before all was done, or there is more to do, so this one does not wait.
        let has_more_work = core::mem::take(&mut self.has_more_work) || self.dispatcher.has_messages();
        let at_once = has_more_work.then(|| self.state.driver.now());
        let held = self.dispatcher.next_deadline();
        let until = until.into_iter().chain(self.state.shutdown_deadline).chain(at_once).chain(held).min();
        if !self.state.pipe.is_drained() {
            self.dispatch_tap();
            self.state.write(&mut self.stream);
            self.state.congested =
                self.dispatcher.is_congested(self.state.pipe.engine().config().effective_limits());
            self.state.wait(&mut self.stream, until);
            if self.state.shutdown_deadline.is_some_and(|at| at <= self.state.driver.now()) {
                // Tell the client about aborted calls, as far as that is possible without waiting.
                self.state.write(&mut self.stream);
                self.state.pipe.abort(self.state.driver.now(), &Fault::Closed);
            }
        }
        self.process_events();
        if !self.state.pipe.is_drained() {
            return Ok(true);
        }
        self.finish_tasks();
        // Streams that write in the background may still have output.
        let flushed =
            self.stream.flush(self.state.pipe.engine().config().effective_limits().eof_grace_period);
        match (self.state.driver.take_error(), self.fault.take(), flushed) {
            (Some(error), ..) => Err(Error::Io(error)),
            (None, Some(fault @ (Fault::TooManyFaultyMessages { .. } | Fault::PingTimeout { .. })), _) => {
                Err(Error::closed(fault))
            }
            (None, _, Err(error)) if !mcp_std::io::is_peer_gone(&error) => Err(Error::Io(error)),
            _ => Ok(false),
        }
    }

    /// Handles all events and writes all output until nothing is left to do without waiting. Stops after
    /// [`MAX_PASSES_PER_TURN`] passes, so that input is read again.
    fn process_events(&mut self) {
        for _ in 0..MAX_PASSES_PER_TURN {
            let (handler, stream) = (&mut self.handler, &mut self.stream);
            let mut server_loop = StreamLoop { state: &mut self.state, stream };
            self.dispatcher.process_messages(&mut server_loop, &mut |call, failure| {
                _ = catch(|| handler.failed(call, failure))
            });
            while let Some(event) = self.next_event() {
                self.handle_event(event);
                self.dispatch_tap();
            }
            // Calls that were read earlier may start now.
            let mut progressed = self.start_remote_calls();
            let mut server_loop = StreamLoop { state: &mut self.state, stream: &mut self.stream };
            progressed |= self.dispatcher.drive(&mut server_loop);
            self.dispatch_tap();
            progressed |= self.state.write(&mut self.stream);
            if !progressed {
                return;
            }
        }
        self.has_more_work = true;
    }

    fn next_event(&mut self) -> Option<Event> {
        self.state.congested =
            self.dispatcher.is_congested(self.state.pipe.engine().config().effective_limits());
        self.state.next_event()
    }

    fn dispatch_tap(&mut self) {
        while let Some(record) = self.state.pipe.engine().poll_tap() {
            // The panic hook has reported the panic.
            let _ = catch(|| self.handler.tap(&record));
        }
    }

    fn handle_event(&mut self, event: Event) {
        if let Event::Closed { fault, .. } = event {
            self.fault = Some(fault);
            return;
        }
        let mut server_loop = StreamLoop { state: &mut self.state, stream: &mut self.stream };
        let event = if self.remote_runner.is_some() {
            self.dispatcher.accept_event(&mut server_loop, event)
        } else {
            Some(event)
        };
        let Some(event) = event else { return };
        let is_call = matches!(event, Event::Call(_));
        if is_call {
            self.state.write_if_slow(&mut self.stream);
        }
        let mut server_loop = StreamLoop { state: &mut self.state, stream: &mut self.stream };
        dispatch_event(&mut server_loop, &mut self.dispatcher, &mut self.handler, &event);
        // The handler has returned, which is progress for a client that waits.
        if is_call {
            self.state.eof_deadline = None;
        }
    }

    /// Starts remote handlers for the calls that may run now. Returns whether there were any.
    fn start_remote_calls(&mut self) -> bool {
        let Some(runner) = &mut self.remote_runner else { return false };
        let mut started = false;
        let mut server_loop = StreamLoop { state: &mut self.state, stream: &mut self.stream };
        runner(
            &mut core::iter::from_fn(|| self.dispatcher.next_call(&mut server_loop))
                .inspect(|_| started = true),
        );
        if started {
            self.state.eof_deadline = None;
        }
        started
    }
}

impl<D: fmt::Debug, H: fmt::Debug> fmt::Debug for Server<D, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("handler", &self.handler)
            .field("stream", &self.stream)
            .field("state", &self.state)
            .field("dispatcher", &self.dispatcher)
            .finish_non_exhaustive()
    }
}

/// The event loop of a stream, for a running handler.
struct StreamLoop<'a> {
    state: &'a mut State,
    stream: &'a mut dyn Duplex,
}

impl ServerLoop for StreamLoop<'_> {
    fn engine(&mut self) -> &mut Engine {
        self.state.pipe.engine()
    }

    fn now(&self) -> Instant {
        self.state.driver.now()
    }

    fn tick(&mut self) -> Instant {
        self.state.driver.tick()
    }

    fn poll_event_during_call(&mut self) -> Option<Event> {
        self.state.end_tasks();
        self.state.poll_event()
    }

    fn defer(&mut self, event: Event) {
        self.state.backlog.push(event);
    }

    fn write(&mut self) -> bool {
        self.state.write(self.stream)
    }

    fn wait(&mut self, until: Instant) {
        self.state.wait(self.stream, Some(until));
    }

    fn shutdown(&mut self, grace: Duration) {
        self.state.shutdown(grace);
    }
}

/// The state of the server without the stream and the handler.
#[derive(Debug)]
struct State {
    pipe: pipe::Server,
    driver: PipeDriver,
    backlog: Backlog,
    /// Whether so many calls wait for remote handlers that reading must pause.
    congested: bool,
    /// Deadline of the shutdown.
    shutdown_deadline: Option<Instant>,
    /// Number of handlers that ran before waiting output was written.
    delayed_writes: u32,
    /// Number of further calls before which output is written immediately, because a handler was slow.
    eager_calls: u32,
    /// Deadline for progress after the client has closed its sending side.
    eof_deadline: Option<Instant>,
    /// Time of the next check whether the client has disconnected.
    next_liveness_check: Instant,
}

impl State {
    fn new(config: Config) -> Self {
        let mut driver = PipeDriver::new();
        let now = driver.tick();
        // Without entropy no state can be sealed between two rounds; everything else works.
        let config = config.max_memory_by_default(mcp_std::memory::max_memory());
        let config = config.seal_lazily(|| Some((mcp_std::entropy::seed().ok()?, driver.anchor())));
        Self {
            pipe: pipe::Server::new(Arc::new(config), now),
            driver,
            backlog: Backlog::default(),
            congested: false,
            shutdown_deadline: None,
            delayed_writes: 0,
            eager_calls: 0,
            eof_deadline: None,
            next_liveness_check: Instant::ZERO,
        }
    }

    fn next_event(&mut self) -> Option<Event> {
        let Some(event) = self.backlog.pop() else { return self.poll_event() };
        self.eof_deadline = None;
        Some(event)
    }

    fn poll_event(&mut self) -> Option<Event> {
        let now = self.driver.now();
        // Under congestion no input is decoded, but the engine's own events (cancellations) are still reported.
        if self.is_congested() { self.pipe.engine().poll_event(now) } else { self.pipe.poll_event(now) }
    }

    fn shutdown(&mut self, grace: Duration) {
        let now = self.driver.tick();
        self.pipe.shutdown(now, grace);
        self.shutdown_deadline = Some(now + grace);
    }

    /// Gives tasks the grace period after the end of the stream: no client is left that could collect them.
    fn end_tasks(&mut self) {
        if self.pipe.is_drained() && self.shutdown_deadline.is_none() {
            let now = self.driver.tick();
            let grace = self.pipe.engine().config().effective_limits().eof_grace_period;
            self.pipe.engine().shutdown(now, grace);
            self.shutdown_deadline = Some(now + grace);
        }
    }

    /// Returns whether so many events wait for handlers that reading must pause.
    fn is_congested(&mut self) -> bool {
        self.congested || self.backlog.is_full(self.pipe.engine().config().effective_limits())
    }

    /// Writes as much as possible without waiting. Returns whether anything was written.
    fn write(&mut self, stream: &mut dyn Duplex) -> bool {
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

    /// Waits for the stream or a deadline, until `until` at most.
    fn wait(&mut self, stream: &mut dyn Duplex, until: Option<Instant>) {
        let reads = !self.is_congested();
        // While the client is not read from, its disconnection would go unnoticed.
        let unwatched = !reads || !self.pipe.wants_input();
        let check_at = unwatched.then_some(self.next_liveness_check);
        self.driver.wait(&mut self.pipe, stream, reads, until.into_iter().chain(check_at).min());
        self.delayed_writes = 0;
        if unwatched && self.driver.now() >= self.next_liveness_check {
            self.next_liveness_check = self.driver.now() + LIVENESS_CHECK_INTERVAL;
            self.check_client_alive(stream);
        }
    }

    /// Aborts if the client has disconnected, or has closed its sending side and nothing progresses any more.
    fn check_client_alive(&mut self, stream: &mut dyn Duplex) {
        let now = self.driver.now();
        // Reading and writing report the same error.
        let hung_up = stream.hung_up().unwrap_or_default();
        if hung_up.read_closed || self.driver.is_read_closed() {
            let grace = self.pipe.engine().config().effective_limits().eof_grace_period;
            // If the engine has read the end of the stream, its own grace period applies to open calls.
            let unread = self.is_congested() || self.pipe.is_stalled();
            let is_stuck = unread || !self.pipe.transmit().is_empty();
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

    /// Writes waiting output before a handler runs, if handlers are slow. Otherwise several answers share a write.
    ///
    /// The clock is checked for every eighth handler. This costs fast handlers little. After a slow one, output is
    /// written immediately for the next [`EAGER_CALLS`] calls.
    fn write_if_slow(&mut self, stream: &mut dyn Duplex) {
        if self.pipe.transmit().is_empty() {
            return;
        }
        self.delayed_writes = self.delayed_writes.wrapping_add(1);
        // The clock is read for one call in eight, and for none while output is written at once.
        if self.eager_calls > 0 {
            self.eager_calls -= 1;
        } else if self.delayed_writes % 8 == 1 && self.driver.since_tick() > MAX_WRITE_DELAY {
            self.eager_calls = EAGER_CALLS;
        } else {
            return;
        }
        self.write(stream);
    }
}

/// Maximum number of passes over events and output in one turn, before input is read again.
pub(super) const MAX_PASSES_PER_TURN: u32 = 16;
/// Interval of the check whether the client is still connected, while it is not read from.
const LIVENESS_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum time for which handlers of other calls may delay an answer.
const MAX_WRITE_DELAY: Duration = Duration::from_millis(10);
/// Number of calls before which output is written immediately, after [`MAX_WRITE_DELAY`] was exceeded.
const EAGER_CALLS: u32 = 64;
