//! One pass of a shard: input of other threads, deadlines, events, output.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use core::task::{Context, Waker};
use core::time::Duration;

use mcp_proto::http::server::{Denial, ExchangeId, TokenRequest};
use mcp_proto::{Anchor, Instant};
use mcp_runtime::Error;
use mcp_runtime::server::{
    ChangeSet, Dispatcher, RemoteCall, ServerLoop as _, StorePlace, TokenOutcome, TokenQueue, TokenWorkers,
};
use mcp_std::catch;

use super::host::Host;
use super::{Inbox, Poller, RequestState, Shard, lock};
use crate::handler::Application;
use crate::{Sleep, Timer};

/// The part of a shard that its mutex guards.
pub(super) struct Core {
    pub(super) host: Host,
    pub(super) dispatcher: Dispatcher,
    pub(super) application: Arc<dyn Application>,
    timer: Arc<dyn Timer>,
    sleep: Option<Sleep>,
    sleep_until: Option<Instant>,
    /// Whether the host failed to start a timer.
    has_no_timer: bool,
    pub(super) tokens: Option<TokenQueue>,
    /// Whether the grace period of a shutdown has passed: what is open ends.
    pub(super) is_aborted: bool,
    /// The store of tasks has done its last work.
    has_finished_tasks: bool,
}

/// Work for the time after the mutex is released.
#[derive(Default)]
pub(super) struct Outcome {
    /// Those whose exchanges have output.
    pub(super) wakers: Vec<Waker>,
    /// Calls whose handlers are to be started.
    pub(super) calls: Vec<RemoteCall>,
    pub(super) unshared: Option<ChangeSet>,
    pub(super) unshared_shutdown: Option<Duration>,
}

impl Core {
    pub(super) fn new(
        host: Host,
        dispatcher: Dispatcher,
        application: Arc<dyn Application>,
        timer: Arc<dyn Timer>,
    ) -> Self {
        Self {
            host,
            dispatcher,
            application,
            timer,
            sleep: None,
            sleep_until: None,
            has_no_timer: false,
            tokens: None,
            is_aborted: false,
            has_finished_tasks: false,
        }
    }

    /// Takes what the application gives to its loops. Returns whether there are tasks.
    pub(super) fn attach(&mut self) -> Result<bool, Error> {
        let attachments = self.application.attachments();
        let anchor = Anchor::new(self.host.tick(), self.timer.unix_seconds());
        let place = StorePlace::Worker(self.dispatcher.commands());
        attachments.install(&mut self.dispatcher, &mut self.host, anchor, place)?;
        Ok(self.dispatcher.has_tasks())
    }

    /// Sets what decides about tokens.
    pub(super) fn set_tokens(&mut self, tokens: TokenWorkers) {
        self.tokens = Some(TokenQueue::new(tokens, &mut self.host.server));
    }

    /// Does the work that is there, as far as it needs no code that waits. For a `poller`, handlers may be started.
    pub(super) fn pass(&mut self, shard: &Shard, poller: Option<Poller<'_>>) -> Outcome {
        let mut outcome = Outcome::default();
        let now = self.host.tick();
        if let Some(Inbox { gone, decided, changes }) = shard.take_input() {
            for exchange in gone {
                self.host.server.handle_gone(now, exchange);
            }
            for (exchange, decision) in decided {
                self.decide(exchange, decision);
            }
            if let Some(changes) = changes {
                self.host.publish_here(&changes);
            }
        }
        self.handle_deadlines(shard, now, &mut outcome);
        let is_done = (0..MAX_ROUNDS).any(|_| !self.round(shard, poller.is_some(), &mut outcome));
        if !is_done {
            shard.has_work.store(true, Ordering::SeqCst);
        }
        if self.host.shutdown_deadline.is_some() {
            shard.is_shutting_down.store(true, Ordering::SeqCst);
        }
        let now = self.host.now();
        while let Some(exchange) = self.host.server.poll_ready(now) {
            // It looks for itself.
            if !poller.is_some_and(|poller| poller.is_home(exchange.index())) {
                outcome.wakers.extend(lock(&shard.waiting).remove_exchange(exchange.index()));
            }
        }
        if self.is_aborted {
            outcome.wakers.extend(lock(&shard.waiting).take_all());
        }
        // Handlers are polled when they are started, and another pass follows.
        if outcome.calls.is_empty() {
            self.arm(shard);
        }
        outcome.unshared = self.host.unshared.take();
        outcome.unshared_shutdown = self.host.unshared_shutdown.take();
        outcome
    }

    /// Returns how far a request is.
    pub(super) fn request_state(&self, id: ExchangeId) -> RequestState {
        let server = &self.host.server;
        if server.response(id).is_some() || server.is_finished(id) || self.is_aborted {
            RequestState::Decided
        } else if server.wants_body(id) {
            RequestState::WantsBody
        } else {
            RequestState::Waits
        }
    }

    fn handle_deadlines(&mut self, shard: &Shard, now: Instant, outcome: &mut Outcome) {
        if self.host.server.poll_timeout().is_some_and(|at| at <= now) {
            self.host.server.handle_timeout(now);
        }
        outcome.wakers.extend(shard.sleepers.take_due(now));
        if self.host.shutdown_deadline.is_some_and(|at| at <= now) && !self.is_aborted {
            self.is_aborted = true;
            self.finish_tasks();
        }
    }

    /// Lets the store of tasks save what is left, once. Waits for it, for some seconds at most, as a server that ends.
    pub(super) fn finish_tasks(&mut self) {
        if !core::mem::replace(&mut self.has_finished_tasks, true) {
            self.dispatcher.finish_tasks(&mut self.host);
            if let Some(sharing) = self.host.sharing.take() {
                sharing.finish();
            }
        }
    }

    /// Handles all events and messages. Returns whether there were any.
    fn round(&mut self, shard: &Shard, starts_calls: bool, outcome: &mut Outcome) -> bool {
        let Self { host, dispatcher, application, .. } = self;
        let on_failure = &mut |call: &_, failure: &_| _ = catch(|| application.failed(call, failure));
        let mut progressed = dispatcher.process_messages(host, on_failure);
        while let Some(event) = host.poll_event() {
            progressed = true;
            if let Some(event) = dispatcher.accept_event(host, event) {
                application.event(&event);
            }
        }
        if starts_calls {
            outcome.calls.extend(core::iter::from_fn(|| dispatcher.next_call(host)));
        }
        progressed |= dispatcher.drive(host);
        progressed |= host.drive_sharing();
        let is_overloaded = dispatcher.is_congested(host.server.engine().config().effective_limits());
        host.server.set_overloaded(is_overloaded);
        if core::mem::take(&mut host.tools_changed) {
            // A schema that cannot be used is not checked. It was reported at the start.
            let _ = host.register_tools(&**application);
        }
        while let Some(record) = host.server.engine().poll_tap() {
            let _ = catch(|| application.tap(&record));
        }
        self.validate_tokens(shard) || progressed
    }

    // ---- tokens ----------------------------------------------------------------------------------------------

    /// Has the tokens decided about that the validator was not asked about. Returns whether there were any.
    fn validate_tokens(&mut self, shard: &Shard) -> bool {
        if let Some(tokens) = &mut self.tokens {
            tokens.discard(&self.host.server);
        }
        let mut any = false;
        while let Some((exchange, request)) = self.host.tokens.pop_front() {
            any = true;
            if let Err(denial) = self.submit_token(shard, exchange, request) {
                self.decide(exchange, Err(denial));
            }
        }
        any
    }

    fn submit_token(
        &mut self,
        shard: &Shard,
        exchange: ExchangeId,
        request: TokenRequest,
    ) -> Result<(), Denial> {
        let tokens = self.tokens.as_mut().ok_or_else(Denial::invalid_token)?;
        let shard = shard.this.clone();
        let reply = move |outcome| {
            if let Some(shard) = shard.upgrade() {
                shard.add_input(|inbox| inbox.decided.push((exchange, outcome)));
                shard.wake(Some(exchange.index()));
            }
        };
        tokens.submit(exchange, request, Box::new(reply))
    }

    fn decide(&mut self, exchange: ExchangeId, outcome: TokenOutcome) {
        let now = self.host.now();
        match outcome {
            Ok(identity) => self.host.server.grant(now, exchange, identity),
            Err(denial) => self.host.server.deny(now, exchange, &denial),
        }
    }

    // ---- deadlines -------------------------------------------------------------------------------------------

    /// Sets the timer of the host for the next deadline.
    pub(super) fn arm(&mut self, shard: &Shard) {
        if self.has_no_timer {
            return;
        }
        let now = self.host.now();
        let own = self.host.shutdown_deadline.filter(|_| !self.is_aborted);
        let slept = shard.sleepers.next_deadline();
        let engine = self.host.server.poll_timeout();
        let next = engine.into_iter().chain(own).chain(slept).chain(self.dispatcher.next_deadline()).min();
        let Some(next) = next else { return };
        // A runtime that was shut down may have taken its timers along: they are not waited for any longer.
        let is_past = self.sleep_until.is_some_and(|at| at + TOLERANCE < now);
        let has_fired =
            shard.timer_fired.load(Ordering::SeqCst) && shard.timer_fired.swap(false, Ordering::SeqCst);
        if has_fired || is_past {
            (self.sleep, self.sleep_until) = (None, None);
        }
        if self.sleep_until.is_some_and(|set| set <= next + TOLERANCE) {
            return;
        }
        // A deadline that has passed already comes again soon, but does not keep its pollers busy.
        let wait = next.saturating_duration_since(now).max(TOLERANCE);
        let cx = &mut Context::from_waker(&shard.timer_waker);
        let started = catch(|| {
            let mut sleep = self.timer.sleep(wait)?;
            let is_ready = sleep.as_mut().poll(cx).is_ready();
            Some((sleep, is_ready))
        });
        match started {
            Ok(Some((sleep, is_ready))) => {
                (self.sleep, self.sleep_until) = (Some(sleep), Some(now + wait));
                if is_ready {
                    shard.timer_waker.wake_by_ref();
                }
            }
            Ok(None) => (self.sleep, self.sleep_until) = (None, None),
            // A runtime without timers may panic, as the panic hook has reported. It is not asked again.
            Err(_) => self.has_no_timer = true,
        }
    }
}

/// Rounds of a pass after which others get the mutex.
const MAX_ROUNDS: usize = 16;
/// Accepted delay of a deadline.
const TOLERANCE: Duration = Duration::from_millis(1);
