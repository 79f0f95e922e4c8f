//! The connection of a client: drives the transport and dispatches the events of the engine.

mod calls;
mod closing;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::task::Waker;
use core::time::Duration;
use std::io;

use crate::adapter::sync::InlineMap;
use crate::catch;
use crate::process::ShutdownTimeouts;
use mcp_proto::client::{Event, KnownEra, Peer, SubscriptionKey};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallError, CallKey, Diagnostic, Fault, Instant, Progress, RawJson, RpcError, UseError};

use self::calls::subscription_error;
pub use self::closing::EXIT_STATUS_TIMEOUT;
use super::callback::{Callback, CallbackReply, HandlerSlot};
use super::handler::ClientHandler;
use super::layers::Layers;
use super::outcome::OutcomeSender;
use super::result_cache::ResultCache;
use super::transport::ClientTransport;
use crate::error::{ConnectionClosed, Error};

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

/// The destination of the outcome of a subscription: the honoured filter, or the reason why there is none.
enum SubscriptionSink {
    /// A caller of this connection takes it; `None` until it has arrived.
    Local(Option<Result<SubscriptionFilter, Option<CallError>>>),
    /// Another thread or task receives it.
    Remote(OutcomeSender<AcknowledgedSubscription>),
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
    pending_subscriptions: Vec<(SubscriptionKey, SubscriptionSink)>,
    /// Receivers of calls that ended with the connection. They are notified once all exit information is known.
    closed_calls: Vec<OutcomeSender<CallAnswer>>,
    closed_subscriptions: Vec<OutcomeSender<AcknowledgedSubscription>>,
    /// The server, from when the connection becomes ready until [`take_peer`](Self::take_peer).
    peer: Option<Peer>,
    was_ready: bool,
    /// The era of the server, as far as this connection found it out.
    pub known_era: Option<KnownEra>,
    fault: Option<Fault>,
    /// Everything known about the end of the connection. Computed on first use.
    closed: Option<Arc<ConnectionClosed>>,
    /// An I/O error that has not been reported.
    io_error: Option<io::Error>,
    noise: Option<String>,
    received_message: bool,
    /// Whether messages or heads are recorded for the tap.
    tapped: bool,
    /// Number of events handled so far.
    pub event_count: u64,
    /// Maximum wait for the exit status of a server that has closed its output.
    pub exit_status_timeout: Duration,
    finished: bool,
}

impl Connection {
    /// Creates a connection that has not sent anything yet.
    pub fn new(
        mut transport: Box<dyn ClientTransport + Send>,
        handler: Box<dyn ClientHandler + Send>,
        shutdown_timeouts: ShutdownTimeouts,
    ) -> Self {
        Self {
            tapped: transport.is_tapped(),
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
            fault: None,
            closed: None,
            io_error: None,
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
        self.dispatch_tap();
        self.transport.write()
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
        if !self.tapped {
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

    /// Completes a pending subscription. Returns the error of a subscription that is not pending.
    fn complete_subscription(
        &mut self,
        key: SubscriptionKey,
        outcome: Result<SubscriptionFilter, Option<CallError>>,
    ) -> Option<Option<CallError>> {
        // An acknowledged subscription has begun, even if its end arrived together with the acknowledgement.
        let is_pending = |(other, sink): &(_, SubscriptionSink)| {
            *other == key && !matches!(sink, SubscriptionSink::Local(Some(_)))
        };
        let Some(at) = self.pending_subscriptions.iter().position(is_pending) else { return outcome.err() };
        if let Some((_, SubscriptionSink::Local(slot))) = self.pending_subscriptions.get_mut(at) {
            *slot = Some(outcome);
            return None;
        }
        let (_, SubscriptionSink::Remote(sender)) = self.pending_subscriptions.swap_remove(at) else {
            return None;
        };
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
