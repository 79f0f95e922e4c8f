//! The way from the layers of an asynchronous client to the call inside them.
//!
//! The futures of layers own what they hold and are `Send`; the future of a call borrows its client and its progress
//! function. So a layer posts its request here, and the future around both makes the call.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_proto::observe::Observer;
use mcp_proto::{CallError, RawJson};

use super::client_request::ClientRequest;
use crate::adapter::client::outcome::{OutcomeReceiver, OutcomeSender, OutcomeUpdate};
use crate::error::Error;

/// Requests that layers have posted. Clones are one port.
#[derive(Clone)]
pub(super) struct CallPort {
    state: Arc<Mutex<State>>,
    /// Knows the trace context of the layer that posts.
    observer: Option<Arc<dyn Observer>>,
}

#[derive(Default)]
struct State {
    posted: Vec<(ClientRequest, OutcomeSender<RawJson>)>,
    /// The task that makes the calls, while it is not polled.
    driver: Option<Waker>,
    /// Whether no more calls are made.
    is_closed: bool,
}

impl CallPort {
    pub(super) fn new(observer: Option<Arc<dyn Observer>>) -> Self {
        Self { state: Arc::default(), observer }
    }

    /// Locks the state. The lock is never held while other code runs.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn post(&self, mut request: ClientRequest) -> OutcomeReceiver<RawJson> {
        request.set_current_context(self.observer.as_deref());
        let (sender, receiver) = OutcomeReceiver::new(false);
        let mut state = self.lock();
        if state.is_closed {
            drop(state);
            sender.send(Err(cancelled()));
            return receiver;
        }
        state.posted.push((request, sender));
        let driver = state.driver.take();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        receiver
    }

    fn wake_driver(&self) {
        let driver = self.lock().driver.take();
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Ends all waits, also those that begin later.
    fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.driver = None;
        let posted = core::mem::take(&mut state.posted);
        drop(state);
        for (_, sender) in posted {
            sender.send(Err(cancelled()));
        }
    }
}

/// Error of a call whose layers have ended without it.
fn cancelled() -> Error {
    Error::Call(CallError::Cancelled)
}

/// A call that a layer makes. Dropping it cancels the call.
pub(super) struct PortCall {
    port: CallPort,
    /// The request, until it is posted by the first poll.
    request: Option<ClientRequest>,
    outcome: Option<OutcomeReceiver<RawJson>>,
}

impl PortCall {
    pub(super) const fn new(port: CallPort, request: ClientRequest) -> Self {
        Self { port, request: Some(request), outcome: None }
    }
}

impl Future for PortCall {
    type Output = Result<RawJson, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(request) = self.request.take() {
            self.outcome = Some(self.port.post(request));
        }
        let Some(outcome) = &self.outcome else { return Poll::Pending };
        loop {
            match outcome.poll(cx.waker()) {
                Poll::Ready(OutcomeUpdate::Outcome(outcome)) => return Poll::Ready(outcome),
                Poll::Ready(OutcomeUpdate::Progress(_)) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl Drop for PortCall {
    fn drop(&mut self) {
        if let Some(outcome) = self.outcome.take().filter(|outcome| !outcome.is_finished()) {
            // Before the wake-up: the driver looks for abandoned calls.
            drop(outcome);
            self.port.wake_driver();
        }
    }
}

/// The end of a call that sends its outcome; `None` after that.
type CallSender = Option<OutcomeSender<RawJson>>;

/// The calls under way, which this end makes. Dropping it cancels them.
pub(super) struct PortDriver<F> {
    port: CallPort,
    calls: Vec<(CallSender, Pin<Box<F>>)>,
}

impl<F: Future<Output = Result<RawJson, Error>>> PortDriver<F> {
    pub(super) const fn new(port: CallPort) -> Self {
        Self { port, calls: Vec::new() }
    }

    /// Polls the layers and the calls that they have made, until the layers have ended.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        layers: &mut dyn FnMut(&mut Context<'_>) -> Poll<T>,
        start: &dyn Fn(ClientRequest) -> F,
    ) -> Poll<T> {
        // A wake-up by what this poll itself does would be spurious.
        self.port.lock().driver = None;
        for _ in 0..MAX_ROUNDS_PER_POLL {
            if let Poll::Ready(outcome) = layers(cx) {
                return Poll::Ready(outcome);
            }
            let has_outcome = self.poll_calls(cx, start);
            if !has_outcome && self.rest(cx.waker()) {
                return Poll::Pending;
            }
        }
        // Yield to the executor's other futures: a layer may repeat a call that fails at once.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Starts and polls calls. Returns whether one has ended.
    fn poll_calls(&mut self, cx: &mut Context<'_>, start: &dyn Fn(ClientRequest) -> F) -> bool {
        let posted = core::mem::take(&mut self.port.lock().posted);
        for (request, sender) in posted {
            if !sender.is_abandoned() {
                self.calls.push((Some(sender), Box::pin(start(request))));
            }
        }
        let mut has_outcome = false;
        self.calls.retain_mut(|(sender, call)| {
            if sender.as_ref().is_none_or(OutcomeSender::is_abandoned) {
                return false;
            }
            let Poll::Ready(outcome) = call.as_mut().poll(cx) else { return true };
            has_outcome = true;
            if let Some(sender) = sender.take() {
                sender.send(outcome);
            }
            false
        });
        has_outcome
    }

    /// Registers the task for wake-ups. Returns `false` if there is something to do already.
    fn rest(&self, waker: &Waker) -> bool {
        let mut state = self.port.lock();
        let is_abandoned =
            |sender: &Option<OutcomeSender<RawJson>>| sender.as_ref().is_none_or(OutcomeSender::is_abandoned);
        if !state.posted.is_empty() || self.calls.iter().any(|(sender, _)| is_abandoned(sender)) {
            return false;
        }
        state.driver = Some(waker.clone());
        true
    }
}

impl<F> Drop for PortDriver<F> {
    fn drop(&mut self) {
        self.port.close();
        for (sender, call) in self.calls.drain(..) {
            drop(call);
            if let Some(sender) = sender {
                sender.send(Err(cancelled()));
            }
        }
    }
}

/// Polls of the layers in one poll of the call.
const MAX_ROUNDS_PER_POLL: usize = 32;
