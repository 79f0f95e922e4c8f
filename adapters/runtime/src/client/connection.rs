//! The connection of a client: drives the transport and dispatches the events of the engine.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::io;

use mcp_proto::client::{Engine, Event, KnownEra, Notification, Peer, SubscriptionKey};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{
    CallError, CallKey, Diagnostic, Fault, Instant, Limit, Progress, RawJson, RpcError, UseError,
};
use mcp_std::catch;
use mcp_std::process::{ShutdownReport, ShutdownTimeouts};

use super::handler::{Callback, CallbackReply, ClientHandler, HandlerSlot};
use super::layers::Layers;
use super::outcome::{OutcomeReceiver, OutcomeSender, UnqueuedNotification};
use super::result_cache::ResultCache;
use super::transport::{ClientTransport, CloseAction};
use crate::error::{ConnectionClosed, Error};
use crate::inline_map::InlineMap;

/// The result of a call, and whether the call was retried after an input request.
pub type CallAnswer = (RawJson, bool);

/// A subscription, and the part of its filter that the server honours.
pub type AcknowledgedSubscription = (SubscriptionKey, SubscriptionFilter);

/// The progress callback of one call.
pub type ProgressWatch<'a> = Option<(CallKey, &'a mut dyn FnMut(&Progress))>;

/// The destination of the outcome of a call.
enum CallSink {
    /// A caller of this connection takes it; `None` until it has arrived.
    Local(Option<(Result<RawJson, CallError>, bool)>),
    /// Another thread or task receives it.
    Remote(OutcomeSender<CallAnswer>),
}

/// The connection of a client, ready or not.
pub struct Connection {
    /// The transport to the server.
    pub transport: Box<dyn ClientTransport + Send>,
    /// The handler of callbacks.
    pub handler: HandlerSlot,
    /// Cached results and output schemas of the server.
    pub cache: ResultCache,
    /// Layers around the requests of the application.
    pub layers: Layers,
    shutdown_timeouts: ShutdownTimeouts,
    /// Calls whose outcome has not been taken.
    calls: InlineMap<CallKey, CallSink>,
    /// Subscriptions that wait for their acknowledgement.
    pending_subscriptions: Vec<(SubscriptionKey, OutcomeSender<AcknowledgedSubscription>)>,
    /// Receivers of calls that ended with the connection. They are notified once all exit information is known.
    closed_calls: Vec<OutcomeSender<CallAnswer>>,
    closed_subscriptions: Vec<OutcomeSender<AcknowledgedSubscription>>,
    /// The server, from when the connection becomes ready until [`take_peer`](Self::take_peer).
    peer: Option<Peer>,
    was_ready: bool,
    /// The era of the server, as far as this connection found it out.
    pub known_era: Option<KnownEra>,
    /// Number of lost sessions that the cache knows of.
    lost_sessions: u32,
    fault: Option<Fault>,
    /// Everything known about the end of the connection. Computed on first use.
    closed: Option<Arc<ConnectionClosed>>,
    /// An I/O error that has not been reported.
    io_error: Option<io::Error>,
    /// The text of the I/O error that was reported.
    reported_io_error: Option<String>,
    noise: Option<String>,
    received_message: bool,
    /// Number of events handled so far.
    pub event_count: u64,
    /// Maximum wait for the exit status of a server that has closed its output.
    pub exit_status_timeout: Duration,
    finished: bool,
}

impl Connection {
    /// Creates a connection that has not sent anything yet.
    pub fn new(
        transport: Box<dyn ClientTransport + Send>,
        handler: Box<dyn ClientHandler + Send>,
        shutdown_timeouts: ShutdownTimeouts,
    ) -> Self {
        Self {
            transport,
            handler: HandlerSlot::Local(handler),
            cache: ResultCache::default(),
            layers: Layers::None,
            shutdown_timeouts,
            calls: InlineMap::new(),
            pending_subscriptions: Vec::new(),
            closed_calls: Vec::new(),
            closed_subscriptions: Vec::new(),
            peer: None,
            was_ready: false,
            known_era: None,
            lost_sessions: 0,
            fault: None,
            closed: None,
            io_error: None,
            reported_io_error: None,
            noise: None,
            received_message: false,
            event_count: 0,
            exit_status_timeout: EXIT_STATUS_TIMEOUT,
            finished: false,
        }
    }

    /// Drives the connection until it is ready for calls.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] or [`Error::Io`] if the connection ends before.
    pub fn open(&mut self) -> Result<Peer, Error> {
        loop {
            if let Some(peer) = self.take_peer() {
                return Ok(peer);
            }
            self.check_open()?;
            self.turn(None, &mut None);
        }
    }

    /// Returns the server, once, when the connection is ready for calls.
    pub const fn take_peer(&mut self) -> Option<Peer> {
        self.peer.take()
    }

    /// Takes the handler out, for use by another connection.
    pub fn take_handler(&mut self) -> Box<dyn ClientHandler + Send> {
        match core::mem::replace(&mut self.handler, HandlerSlot::Local(Box::new(()))) {
            HandlerSlot::Local(handler) => handler,
            HandlerSlot::Remote(_) => Box::new(()),
        }
    }

    /// Runs, defers or queues a callback (see [`HandlerSlot::dispatch`]), and applies its reply if there is one now.
    pub fn dispatch(&mut self, callback: Callback) {
        let max_open = self.transport.engine().config().effective_limits().max_waiting_requests;
        if let Some(reply) = self.handler.dispatch(callback, max_open) {
            self.reply(reply);
        }
    }

    /// Replaces the handler. Open callbacks of the previous handler are refused.
    pub fn set_handler(&mut self, handler: HandlerSlot) {
        self.refuse_deferred();
        let previous = core::mem::replace(&mut self.handler, handler);
        // A panic of the handler's destructor must not end the connection.
        let _ = catch(|| drop(previous));
    }

    /// Refuses the open callbacks of a deferred handler.
    pub fn refuse_deferred(&mut self) {
        self.handler.cancel_deferred().into_iter().for_each(|reply| self.reply(reply));
    }

    /// Applies the replies that a deferred handler has ready. `waker` is woken when there is more work.
    pub fn poll_deferred(&mut self, waker: &Waker) {
        let mut replied = false;
        while let Some(reply) = self.handler.poll_deferred(waker) {
            self.reply(reply);
            replied = true;
        }
        if replied {
            self.process_events(&mut None);
        }
    }

    // ---- the loop --------------------------------------------------------------------------------------------

    /// Runs one turn: writes, waits for something to happen until `until` at most, and handles it.
    pub fn turn(&mut self, until: Option<Instant>, watch: &mut ProgressWatch<'_>) {
        self.flush();
        self.transport.wait(until);
        self.process_events(watch);
    }

    /// Runs one turn of a loop that has waited itself. `readable` tells whether the transport can be read.
    pub fn step(&mut self, readable: bool) {
        self.flush();
        self.transport.step(readable);
        self.process_events(&mut None);
    }

    /// Writes as much as possible without waiting. Returns whether anything was written.
    pub fn flush(&mut self) -> bool {
        let is_written = self.transport.write();
        // HTTP decides only now what is sent.
        self.dispatch_tap();
        is_written
    }

    /// Handles all events and writes all output, until there is nothing left to do but wait.
    pub fn process_events(&mut self, watch: &mut ProgressWatch<'_>) {
        loop {
            while let Some(event) = self.next_event() {
                self.handle(event, watch);
                self.dispatch_tap();
            }
            #[cfg(feature = "http")]
            while let Some(challenge) = self.transport.poll_challenge() {
                self.dispatch(Callback::Challenge(challenge));
            }
            let lost_sessions = self.transport.engine().exchanges().lost_sessions();
            if core::mem::replace(&mut self.lost_sessions, lost_sessions) != lost_sessions {
                self.cache.forget_pinned_tools();
            }
            if !self.flush() {
                return;
            }
        }
    }

    /// Returns the next event. While the handler is full, events from input are held back.
    fn next_event(&mut self) -> Option<Event> {
        let full = self.handler.is_full();
        self.transport.set_events_paused(full);
        if full { self.transport.poll_timer_event() } else { self.transport.poll_event() }
    }

    fn dispatch_tap(&mut self) {
        if !self.transport.is_tapped() {
            return;
        }
        #[cfg(feature = "http")]
        while let Some(record) = self.transport.poll_head() {
            self.dispatch(Callback::Head(record));
        }
        while let Some(record) = self.transport.engine().poll_tap() {
            self.dispatch(Callback::Tap(record));
        }
    }

    #[expect(deprecated, reason = "supported until its removal")]
    fn handle(&mut self, event: Event, watch: &mut ProgressWatch<'_>) {
        self.event_count += 1;
        self.received_message |=
            !matches!(event, Event::Closed(_) | Event::Diagnostic(Diagnostic::Noise { .. }));
        match event {
            Event::Done { call, outcome, retried } => self.complete_call(call, outcome, retried),
            Event::Progress { call, progress } => self.dispatch_progress(call, progress, watch),
            Event::CallNotification { call, notification } => self.dispatch_notification(call, notification),
            Event::Task { call, task } => self.dispatch(Callback::Task(call, task)),
            Event::Request(request) => self.dispatch(Callback::Request(request)),
            Event::Input(input) => self.dispatch(Callback::Input(input)),
            Event::InputWithdrawn(input) => self.dispatch(Callback::InputWithdrawn(input)),
            Event::RequestCancelled(request) => self.dispatch(Callback::RequestCancelled(request)),
            Event::Notification(notification) => self.dispatch(Callback::Notification(notification)),
            Event::Subscribed { key, honoured } => {
                let _ = self.complete_subscription(key, Ok(honoured));
            }
            Event::SubscriptionEnded { key, error, .. } => {
                if let Some(error) = self.complete_subscription(key, Err(error)) {
                    self.dispatch(Callback::SubscriptionEnded(key, error));
                }
            }
            Event::ElicitationComplete(id) => self.dispatch(Callback::ElicitationComplete(id)),
            Event::Changed { change, .. } => {
                // Before the handler, which may request the list again.
                self.cache.handle_change(&change);
                self.dispatch(Callback::Changed(change));
            }
            Event::Log(log) => self.dispatch(Callback::Log(log)),
            Event::Diagnostic(diagnostic) => {
                if let Diagnostic::Noise { line, .. } = &diagnostic {
                    self.noise.get_or_insert_with(|| line.clone());
                    self.transport.discard_noise(line);
                }
                if diagnostic == Diagnostic::EraContradicted {
                    self.known_era = self.transport.engine().known_era();
                    self.transport.record_era();
                }
                self.dispatch(Callback::Diagnostic(diagnostic));
            }
            Event::Ready(peer) => {
                self.peer = Some(peer);
                self.was_ready = true;
                self.transport.set_ready();
                self.known_era = self.transport.engine().known_era();
                self.transport.record_era();
            }
            Event::Closed(fault) => self.fault = Some(fault),
            // The engine answers what handlers of a server would have to answer.
            _ => {}
        }
    }

    fn complete_call(&mut self, call: CallKey, outcome: Result<RawJson, CallError>, retried: bool) {
        match self.calls.get_mut(&call) {
            None => {}
            Some(CallSink::Local(slot)) => *slot = Some((outcome, retried)),
            Some(CallSink::Remote(_)) => {
                let Some(CallSink::Remote(sender)) = self.calls.remove(&call) else { return };
                match outcome {
                    Ok(result) => sender.send(Ok((result, retried))),
                    // Its error needs the exit status, so it is sent by `notify_closed`.
                    Err(CallError::Closed(_)) => self.closed_calls.push(sender),
                    Err(error) => sender.send(Err(Error::Call(error))),
                }
            }
        }
    }

    fn dispatch_progress(&mut self, call: CallKey, progress: Progress, watch: &mut ProgressWatch<'_>) {
        match (watch, self.calls.get(&call)) {
            (Some((watched, on_progress)), _) if *watched == call => {
                // The panic hook has reported the panic.
                let _ = catch(|| on_progress(&progress));
            }
            (_, Some(CallSink::Remote(sender))) => {
                if let Some(progress) = sender.send_progress(progress) {
                    self.dispatch(Callback::Progress(call, progress));
                }
            }
            _ => self.dispatch(Callback::Progress(call, progress)),
        }
    }

    /// Passes a notification to the caller of its call, or to the handler if that does not take any. A caller that is too slow
    /// loses the call: no other call has to wait for it.
    fn dispatch_notification(&mut self, call: CallKey, notification: Notification) {
        let sent = match self.calls.get(&call) {
            // It was given up, and its notifications with it.
            None => return,
            Some(CallSink::Local(_)) => Err(UnqueuedNotification::Unwanted(notification)),
            Some(CallSink::Remote(sender)) => {
                sender.send_notification(notification, self.transport.engine().config().effective_limits())
            }
        };
        match sent {
            Ok(()) => {}
            Err(UnqueuedNotification::Unwanted(notification)) => {
                self.dispatch(Callback::Notification(notification));
            }
            Err(UnqueuedNotification::Full) => {
                if let Some(CallSink::Remote(sender)) = self.calls.remove(&call) {
                    sender.send(Err(Error::Use(UseError::Full(Limit::CallNotifications))));
                }
                let now = self.transport.tick();
                let reason = Some("its notifications are not taken");
                let _ = self.transport.engine().cancel(now, call, reason);
            }
        }
    }

    /// Completes a pending subscription. Returns the error of a subscription that is not pending.
    fn complete_subscription(
        &mut self,
        key: SubscriptionKey,
        outcome: Result<SubscriptionFilter, Option<CallError>>,
    ) -> Option<Option<CallError>> {
        let at = self.pending_subscriptions.iter().position(|(other, _)| *other == key);
        let Some(at) = at else { return outcome.err() };
        let (_, sender) = self.pending_subscriptions.swap_remove(at);
        match outcome {
            Ok(honoured) => {
                if sender.send_or_return(Ok((key, honoured))).is_some() {
                    // The caller abandoned the subscription in the meantime.
                    let now = self.transport.now();
                    let _ = self.transport.engine().unsubscribe(now, key);
                }
            }
            Err(Some(CallError::Closed(_))) => self.closed_subscriptions.push(sender),
            Err(error) => sender.send(Err(subscription_error(error))),
        }
        None
    }

    /// Applies the reply of a handler.
    pub fn reply(&mut self, reply: CallbackReply) {
        // A user may have taken long to reply: deadlines start at the current time, not at the last tick.
        let now = self.transport.tick();
        let engine = self.transport.engine();
        // A stale reply is ignored: the server no longer wants it.
        let _ = match reply {
            CallbackReply::Request(request, outcome) => {
                match outcome.map(|result| engine.respond(now, request, &result)) {
                    Ok(Err(UseError::Encode(_))) => {
                        engine.refuse(now, request, &RpcError::internal("the answer is no JSON object"))
                    }
                    Ok(outcome) => outcome,
                    Err(error) => engine.refuse(now, request, &error),
                }
            }
            CallbackReply::Input(input, outcome) => match outcome
                .map(|result| engine.answer(now, input, &*result))
            {
                Ok(Ok(()) | Err(UseError::Stale)) => Ok(()),
                Ok(Err(_)) => engine.refuse(now, input, &RpcError::internal("the answer cannot be given")),
                Err(error) => engine.refuse(now, input, &error),
            },
            #[cfg(feature = "http")]
            CallbackReply::Challenge(exchange, credential) => {
                self.transport.authorize(exchange, credential);
                Ok(())
            }
        };
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("transport", &self.transport)
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}

// The end of a connection: exit information, and the output that is still sent.

impl Connection {
    /// Checks that the connection is not over.
    ///
    /// # Errors
    ///
    /// As returned by [`closed_error`](Self::closed_error).
    pub fn check_open(&mut self) -> Result<(), Error> {
        if self.fault.is_none() { Ok(()) } else { Err(self.closed_error()) }
    }

    /// Returns whether the connection has ended.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.fault.is_some()
    }

    /// Returns the error that describes the end of the connection.
    ///
    /// This is [`Error::Io`] once for an I/O error, and [`Error::Closed`], which has its text, otherwise. May wait up to
    /// `exit_status_timeout` for the exit status of the server.
    pub fn closed_error(&mut self) -> Error {
        if let Some(error) = self.io_error.take().or_else(|| self.transport.take_error()) {
            let text = error.to_string();
            if let Some(closed) = &mut self.closed {
                Arc::make_mut(closed).io_error.get_or_insert_with(|| text.clone());
            }
            self.reported_io_error.get_or_insert(text);
            return Error::Io(error);
        }
        if self.closed.is_none() {
            let fault = self.fault.clone().unwrap_or(Fault::Closed);
            let mut closed = ConnectionClosed {
                fault,
                io_error: self.reported_io_error.clone(),
                was_ready: self.was_ready,
                program: None,
                url: None,
                exit_status: None,
                stderr_tail: String::new(),
                has_unread_input: false,
                noise: self.noise.clone(),
                received_message: self.received_message || self.transport.has_received_message(),
            };
            // A process closes its output a moment before it exits.
            let wait = if closed.is_ended_by_peer() { self.exit_status_timeout } else { Duration::ZERO };
            let info = self.transport.exit_info(wait);
            (closed.program, closed.url) = (info.program, info.url);
            (closed.exit_status, closed.stderr_tail) = (info.exit_status, info.stderr_tail);
            closed.has_unread_input = info.has_unread_input;
            self.closed = Some(Arc::new(closed));
        }
        self.closed.clone().map_or_else(|| Error::closed(Fault::Closed), Error::Closed)
    }

    /// Ends the connection because its loop cannot wait any more.
    pub fn abort(&mut self, error: io::Error) {
        self.io_error.get_or_insert(error);
        self.fault.get_or_insert(Fault::Closed);
    }

    /// Ends the connection as [`abort`](Self::abort) does, and skips the graceful shutdown.
    pub fn abort_unclean(&mut self, error: io::Error) {
        self.abort(error);
        self.finished = true;
    }

    /// Returns whether the server's output has ended and its exit status is still unknown, for loops with their own
    /// wait.
    pub fn is_awaiting_exit_status(&mut self) -> bool {
        let ended = matches!(
            self.fault,
            Some(Fault::Eof | Fault::Truncated { .. } | Fault::ExitedDuringProbe { .. })
        );
        ended && {
            let info = self.transport.exit_info(Duration::ZERO);
            info.program.is_some() && info.exit_status.is_none()
        }
    }

    /// Sends the remaining output as far as the server reads it soon, and ends the server.
    ///
    /// Returns the report on a server process, or `None` for other servers and for repeated calls.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the stream fails; a peer that has left is not an error.
    pub fn finish(&mut self) -> Result<Option<ShutdownReport>, Error> {
        let Some(until) = self.begin_finish() else { return Ok(None) };
        while !self.transport.is_drained() && self.transport.now() < until {
            self.continue_finish(until);
        }
        self.transport.shutdown(self.shutdown_timeouts)
    }

    /// Starts to send the remaining output. Returns the deadline for it, or `None` if it was started before.
    ///
    /// Afterwards call [`continue_finish`](Self::continue_finish) until the transport
    /// [is drained](crate::client::ClientTransport::is_drained) or the deadline has passed, then
    /// [`take_close_action`](Self::take_close_action).
    pub fn begin_finish(&mut self) -> Option<Instant> {
        if core::mem::replace(&mut self.finished, true) {
            return None;
        }
        let until = self.transport.tick() + self.shutdown_timeouts.exit.min(FINAL_WRITE_TIMEOUT);
        self.transport.close();
        self.process_events(&mut None);
        Some(until)
    }

    /// Sends some of the remaining output. Waits for that until `until` at most.
    pub fn continue_finish(&mut self, until: Instant) {
        self.transport.wait_closing(until);
        self.process_events(&mut None);
        if let Some(diagnostic) = self.transport.poll_closing_diagnostic() {
            self.dispatch(Callback::Diagnostic(diagnostic));
        }
    }

    /// Returns the last step of closing, and the timeouts for it.
    pub fn take_close_action(&mut self, now: Instant) -> (CloseAction, ShutdownTimeouts) {
        (self.transport.take_close_action(self.shutdown_timeouts, now), self.shutdown_timeouts)
    }
}

/// Default maximum wait for the exit status of a server that has closed its output.
pub const EXIT_STATUS_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time for a server to read the remaining output.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(1);

// Calls and subscriptions of a connection, for local and for remote callers.

impl Connection {
    /// Runs a command of the engine that has no outcome, and writes its output.
    ///
    /// # Errors
    ///
    /// [`Error::Use`] if the engine refuses the command; [`Error::Closed`] or [`Error::Io`] if the connection ended.
    pub fn command(
        &mut self,
        command: impl FnOnce(&mut Engine, Instant) -> Result<(), UseError>,
    ) -> Result<(), Error> {
        self.check_open()?;
        let now = self.transport.tick();
        command(self.transport.engine(), now).map_err(Error::Use)?;
        self.flush();
        Ok(())
    }

    /// Starts a call with the command that sends it.
    ///
    /// Waits while the server is slow to read, for up to [`call_timeout`](mcp_proto::Limits).
    ///
    /// # Errors
    ///
    /// [`Error::Use`] if a limit is reached or the engine refuses the command, [`Error::Closed`] or [`Error::Io`] if
    /// the connection has ended.
    pub fn start(
        &mut self,
        command: impl FnOnce(&mut Engine, Instant) -> Result<CallKey, UseError>,
    ) -> Result<CallKey, Error> {
        self.wait_for_capacity()?;
        let now = self.transport.tick();
        let engine = self.transport.engine();
        // Outcomes that are not taken count, too.
        if self.calls.len() >= engine.config().effective_limits().max_pending_calls as usize {
            return Err(Error::Use(UseError::Full(Limit::PendingCalls)));
        }
        let call = command(engine, now).map_err(Error::Use)?;
        self.calls.insert(call, CallSink::Local(None));
        self.flush();
        Ok(call)
    }

    /// Waits until the server has read most of the output, so that a server that does not read cannot grow the outbox.
    fn wait_for_capacity(&mut self) -> Result<(), Error> {
        let timeout = self.transport.engine().config().effective_limits().call_timeout;
        let mut deadline = None;
        loop {
            self.check_open()?;
            if !self.transport.engine().is_congested() {
                return Ok(());
            }
            let now = self.transport.tick();
            // One deadline for all turns: a server that reads a little must not extend it.
            let deadline = *deadline.get_or_insert(now + timeout);
            if now >= deadline {
                return Err(Error::Use(UseError::Full(Limit::OutboxHighWater)));
            }
            self.turn(Some(deadline), &mut None);
        }
    }

    /// Waits for the outcome of a call until `until` at most. Returns `None` if that time passes.
    ///
    /// # Errors
    ///
    /// - [`Error::Call`]: the call failed.
    /// - [`Error::Use`] with [`UseError::Stale`]: the call is unknown or its outcome was taken.
    /// - [`Error::Closed`] or [`Error::Io`]: the connection has ended.
    pub fn wait_outcome(
        &mut self,
        call: CallKey,
        until: Option<Instant>,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<Option<CallAnswer>, Error> {
        loop {
            let Some(CallSink::Local(slot)) = self.calls.get_mut(&call) else {
                return Err(Error::Use(UseError::Stale));
            };
            // Before the check of the connection: the outcome may have come together with the end.
            if let Some((outcome, retried)) = slot.take() {
                self.calls.remove(&call);
                return match outcome {
                    Err(CallError::Closed(_)) => Err(self.closed_error()),
                    Err(error) => Err(Error::Call(error)),
                    Ok(result) => Ok(Some((result, retried))),
                };
            }
            self.check_open()?;
            if until.is_some_and(|at| at <= self.transport.now()) {
                return Ok(None);
            }
            self.turn(until, watch);
        }
    }

    /// Starts a subscription and waits for its acknowledgement.
    ///
    /// # Errors
    ///
    /// [`Error::Use`] if the engine refuses it, [`Error::Call`] if the server does, [`Error::Closed`] or [`Error::Io`]
    /// if the connection has ended.
    pub fn subscribe(&mut self, filter: &SubscriptionFilter) -> Result<AcknowledgedSubscription, Error> {
        self.wait_for_capacity()?;
        let now = self.transport.tick();
        let key = self.transport.engine().subscribe(now, filter).map_err(Error::Use)?;
        let (sender, receiver) = OutcomeReceiver::new(false);
        self.pending_subscriptions.push((key, sender));
        loop {
            if let Poll::Ready(outcome) = receiver.poll_outcome(Waker::noop(), &mut |_| {}) {
                return outcome;
            }
            if let Err(error) = self.check_open() {
                self.pending_subscriptions.retain(|(other, _)| *other != key);
                return Err(error);
            }
            self.turn(None, &mut None);
        }
    }

    /// Forgets a call. Returns `false` if it is unknown.
    pub fn forget(&mut self, call: CallKey) -> bool {
        self.calls.remove(&call).is_some()
    }

    /// Cancels a call and drops its outcome. Returns `false` if the call is unknown.
    pub fn cancel(&mut self, call: CallKey, reason: Option<&str>) -> bool {
        let known = self.forget(call);
        if known {
            let now = self.transport.tick();
            // A call that has ended already cannot be cancelled, and need not be.
            let _ = self.transport.engine().cancel(now, call, reason);
        }
        known
    }

    /// Handles input that has arrived, so that a cached result is not returned after the server invalidated it.
    pub fn catch_up(&mut self) {
        for _ in 0..MAX_CATCH_UP_TURNS {
            let (event_count, now) = (self.event_count, self.transport.tick());
            self.turn(Some(now), &mut None);
            if self.event_count == event_count || self.fault.is_some() {
                return;
            }
        }
    }

    // ---- remote callers --------------------------------------------------------------------------------------

    /// Starts a call for a remote caller, without waiting for capacity.
    pub fn begin_call(
        &mut self,
        sender: OutcomeSender<CallAnswer>,
        command: impl FnOnce(&mut Engine, Instant) -> Result<CallKey, UseError>,
    ) {
        if sender.is_abandoned() {
            return;
        }
        let now = self.transport.tick();
        match command(self.transport.engine(), now) {
            Ok(call) if sender.set_call(call) => {
                self.calls.insert(call, CallSink::Remote(sender));
            }
            Ok(call) => {
                // The caller has given the call up meanwhile. One that has ended by now needs no cancellation.
                let _ = self.transport.engine().cancel(now, call, None);
            }
            // The end of the connection has not been handled yet.
            Err(UseError::Closed) => self.closed_calls.push(sender),
            Err(error) => sender.send(Err(Error::Use(error))),
        }
    }

    /// Starts a subscription for a remote caller.
    pub fn begin_subscription(
        &mut self,
        sender: OutcomeSender<AcknowledgedSubscription>,
        filter: &SubscriptionFilter,
    ) {
        let now = self.transport.tick();
        match self.transport.engine().subscribe(now, filter) {
            Ok(key) => self.pending_subscriptions.push((key, sender)),
            Err(UseError::Closed) => self.closed_subscriptions.push(sender),
            Err(error) => sender.send(Err(Error::Use(error))),
        }
    }

    /// Sends the end of the connection to all remote callers.
    pub fn notify_closed(&mut self) {
        let calls = core::mem::take(&mut self.calls);
        let pending = calls.into_iter().filter_map(|(_, sink)| match sink {
            CallSink::Local(_) => None,
            CallSink::Remote(sender) => Some(sender),
        });
        let lost: Vec<_> = core::mem::take(&mut self.closed_calls).into_iter().chain(pending).collect();
        lost.into_iter().for_each(|sender| sender.send(Err(self.closed_error())));
        let pending = core::mem::take(&mut self.pending_subscriptions).into_iter().map(|(_, sender)| sender);
        let lost: Vec<_> =
            core::mem::take(&mut self.closed_subscriptions).into_iter().chain(pending).collect();
        lost.into_iter().for_each(|sender| sender.send(Err(self.closed_error())));
    }
}

/// Returns the error of a subscription that does not begin.
fn subscription_error(error: Option<CallError>) -> Error {
    // A graceful end before the acknowledgement means that the server does not want it.
    Error::Call(error.unwrap_or(CallError::Cancelled))
}

/// Maximum number of turns that read pending input before a cached result is returned.
const MAX_CATCH_UP_TURNS: u32 = 64;
