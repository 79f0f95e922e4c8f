//! The server on a byte stream: an event loop that reads, runs handlers and writes.

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;
use std::thread;

use mcp_proto::pipe::Pipe;
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::{Fault, Instant};
use mcp_std::catch;
use mcp_std::io::{Duplex, Stdio};

use super::Handle;
use super::dispatcher::Dispatcher;
use super::handler::Handler;
use super::remote::RemoteCall;
use super::server_loop::{ServerLoop, dispatch_event};
use super::stream_core::{EAGER_CALLS, MAX_PASSES_PER_TURN, MAX_WRITE_DELAY, StreamCore};
use super::tasks::thread_waker;
use crate::Error;

/// A server on one byte stream.
///
/// The thread that is in [`run`](Self::run) or [`poll`](Self::poll) drives the event loop. Handlers run on this thread,
/// one at a time, unless they [run remotely](Self::run_remotely).
pub struct Server<D, H> {
    handler: H,
    stream: D,
    core: StreamCore,
    dispatcher: Dispatcher,
    /// Starts remote handlers. `None` if handlers run on this thread.
    remote_runner: Option<Box<SendCallRunner>>,
    /// Whether other threads can wake the loop.
    is_waker_registered: bool,
    /// Whether the loop has the tasks of the handler.
    has_attachments: bool,
    /// Whether the last turn ended before all work was done.
    has_more_work: bool,
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
        server.core.driver.defer_buffer_release();
        Ok(server)
    }
}

impl<D: Duplex, H: Handler> Server<D, H> {
    /// Creates a server that has not read anything yet.
    pub fn new(config: Config, stream: D, handler: H) -> Self {
        Self {
            handler,
            stream,
            core: StreamCore::new(config),
            dispatcher: Dispatcher::new(1),
            remote_runner: None,
            is_waker_registered: false,
            has_attachments: false,
            has_more_work: false,
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
        let until = self.core.driver.tick() + timeout;
        self.turn(Some(until))
    }

    /// Shuts down: accepts no more requests, and ends when all calls are answered and written or after `grace`.
    ///
    /// Call [`poll`](Self::poll) afterwards until it returns `false`.
    pub fn shutdown(&mut self, grace: Duration) {
        self.core.shutdown(grace);
        // Extensions end their calls in the next turn, before it waits.
        self.has_more_work = true;
    }

    /// Returns the engine, for example to send a notification. The next [`poll`](Self::poll) writes its output.
    pub const fn engine(&mut self) -> &mut Engine {
        self.core.pipe.engine()
    }

    /// Returns the channel of the stream, for commands of the engine.
    pub const fn channel(&self) -> mcp_proto::ChannelId {
        self.core.pipe.channel()
    }

    /// Reads the clock, for commands of the engine.
    pub fn now(&mut self) -> Instant {
        self.core.driver.tick()
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
        self.core.attach(&attachments, &mut self.dispatcher)
    }

    /// Lets the tasks that still run finish after the end of the stream, within the grace period, and the store write
    /// what it has not written.
    fn finish_tasks(&mut self) {
        if let Some(until) = self.core.begin_finishing_tasks(&self.dispatcher) {
            // Nothing can be read or written any more, so only messages wake this thread.
            self.dispatcher.register(&thread_waker());
            self.process_events();
            while let Some(left) = self.core.time_for_tasks(&self.dispatcher, until) {
                thread::park_timeout(left);
                self.process_events();
            }
            self.dispatcher.finish_tasks(&mut self.core);
        }
    }

    /// Runs one turn of the event loop. Returns `false` when the server has stopped.
    fn turn(&mut self, until: Option<Instant>) -> Result<bool, Error> {
        self.attach()?;
        if !self.core.pipe.is_drained() && self.dispatcher.processes_messages_first() {
            self.process_events();
            return Ok(true);
        }
        // The last turn ended before all was done, or there is more to do, so this one does not wait.
        let has_more_work = core::mem::take(&mut self.has_more_work) || self.dispatcher.has_messages();
        let at_once = has_more_work.then(|| self.core.driver.now());
        let held = self.dispatcher.next_deadline();
        let until = until.into_iter().chain(self.core.shutdown_deadline).chain(at_once).chain(held).min();
        if !self.core.pipe.is_drained() {
            self.dispatch_tap();
            self.core.write(&mut self.stream);
            self.core.note_waiting_calls(&self.dispatcher);
            StreamLoop { core: &mut self.core, stream: &mut self.stream }.wait_until(until);
            if self.core.shutdown_deadline.is_some_and(|at| at <= self.core.driver.now()) {
                // Tell the client about aborted calls, as far as that is possible without waiting.
                self.core.write(&mut self.stream);
                self.core.pipe.abort(self.core.driver.now(), &Fault::Closed);
            }
        }
        self.process_events();
        if !self.core.pipe.is_drained() {
            return Ok(true);
        }
        self.finish_tasks();
        // Streams that write in the background may still have output.
        let flushed = self.stream.flush(self.core.grace_period());
        self.core.end(flushed).map(|()| false)
    }

    /// Handles all events and writes all output until nothing is left to do without waiting. Stops after
    /// [`MAX_PASSES_PER_TURN`] passes, so that input is read again.
    fn process_events(&mut self) {
        for _ in 0..MAX_PASSES_PER_TURN {
            let handler = &mut self.handler;
            self.dispatcher.process_messages(&mut self.core, &mut |call, failure| {
                _ = catch(|| handler.failed(call, failure))
            });
            while let Some(event) = self.core.next_event(&self.dispatcher) {
                self.handle_event(event);
                self.dispatch_tap();
            }
            // Calls that were read earlier may start now.
            let mut progressed = self.start_remote_calls();
            progressed |= self.dispatcher.drive(&mut self.core);
            self.dispatch_tap();
            progressed |= self.core.write(&mut self.stream);
            if !progressed {
                return;
            }
        }
        self.has_more_work = true;
    }

    fn dispatch_tap(&mut self) {
        while let Some(record) = self.core.engine().poll_tap() {
            // The panic hook has reported the panic.
            let _ = catch(|| self.handler.tap(&record));
        }
    }

    fn handle_event(&mut self, event: Event) {
        if let Event::Closed { fault, .. } = event {
            self.core.fault = Some(fault);
            return;
        }
        let event = if self.remote_runner.is_some() {
            self.dispatcher.accept_event(&mut self.core, event)
        } else {
            Some(event)
        };
        let Some(event) = event else { return };
        let is_call = matches!(event, Event::Call(_));
        if is_call {
            self.write_if_slow();
        }
        let mut server_loop = StreamLoop { core: &mut self.core, stream: &mut self.stream };
        dispatch_event(&mut server_loop, &mut self.dispatcher, &mut self.handler, &event);
        // The handler has returned, which is progress for a client that waits.
        if is_call {
            self.core.eof_deadline = None;
        }
    }

    /// Writes waiting output before a handler runs, if handlers are slow. Otherwise several answers share a write.
    ///
    /// The clock is checked for every eighth handler. This costs fast handlers little. After a slow one, output is
    /// written immediately for the next [`EAGER_CALLS`] calls.
    fn write_if_slow(&mut self) {
        if self.core.pipe.transmit().is_empty() {
            return;
        }
        self.core.delayed_writes = self.core.delayed_writes.wrapping_add(1);
        // The clock is read for one call in eight, and for none while output is written at once.
        if self.core.eager_calls > 0 {
            self.core.eager_calls -= 1;
        } else if self.core.delayed_writes % 8 == 1 && self.core.driver.since_tick() > MAX_WRITE_DELAY {
            self.core.eager_calls = EAGER_CALLS;
        } else {
            return;
        }
        self.core.write(&mut self.stream);
    }

    /// Starts remote handlers for the calls that may run now. Returns whether there were any.
    fn start_remote_calls(&mut self) -> bool {
        let Some(runner) = &mut self.remote_runner else { return false };
        let mut started = false;
        runner(
            &mut core::iter::from_fn(|| self.dispatcher.next_call(&mut self.core))
                .inspect(|_| started = true),
        );
        if started {
            self.core.eof_deadline = None;
        }
        started
    }
}

impl<D: fmt::Debug, H: fmt::Debug> fmt::Debug for Server<D, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("handler", &self.handler)
            .field("stream", &self.stream)
            .field("core", &self.core)
            .field("dispatcher", &self.dispatcher)
            .finish_non_exhaustive()
    }
}

/// The event loop of a stream, for a running handler.
struct StreamLoop<'a> {
    core: &'a mut StreamCore,
    stream: &'a mut dyn Duplex,
}

impl StreamLoop<'_> {
    fn wait_until(&mut self, until: Option<Instant>) {
        if self.core.wait(self.stream, until) {
            // Reading and writing report the same error.
            self.core.check_client(self.stream.hung_up().unwrap_or_default());
        }
    }
}

impl ServerLoop for StreamLoop<'_> {
    fn engine(&mut self) -> &mut Engine {
        self.core.engine()
    }

    fn now(&self) -> Instant {
        self.core.now()
    }

    fn tick(&mut self) -> Instant {
        self.core.tick()
    }

    fn poll_event_during_call(&mut self) -> Option<Event> {
        self.core.end_tasks();
        self.core.poll_event()
    }

    fn defer(&mut self, event: Event) {
        self.core.backlog.push(event);
    }

    fn write(&mut self) -> bool {
        self.core.write(self.stream)
    }

    fn wait(&mut self, until: Instant) {
        self.wait_until(Some(until));
    }

    fn shutdown(&mut self, grace: Duration) {
        self.core.shutdown(grace);
    }
}
