//! Futures that wait for an outcome of a connection, and drive the connection as its leader.

use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::PoisonError;

use mcp_std::Error;
use mcp_std::adapter::client::{OutcomeReceiver, OutcomeUpdate};
use mcp_std::process::ShutdownReport;

use super::backend::ClientShared;
use super::driver::MAX_TURNS_PER_POLL;
use super::leader::WaiterGuard;

/// Polls `look` until it returns a value, driving the connection whenever this task is the leader.
pub(super) fn poll_until<T>(
    shared: &ClientShared,
    waiter: &mut WaiterGuard,
    cx: &mut Context<'_>,
    mut look: impl FnMut(&mut Context<'_>) -> Option<T>,
) -> Poll<T> {
    // `look` leaves a waker at the outcome. While this task continues anyway, that waker may do nothing.
    let mut noop_cx = Context::from_waker(Waker::noop());
    for _ in 0..MAX_TURNS_PER_POLL {
        if let Some(found) = look(&mut noop_cx) {
            waiter.leave();
            return Poll::Ready(found);
        }
        if !waiter.try_lead(cx.waker()) {
            // The outcome may have arrived before the waiter was registered.
            let Some(found) = look(cx) else { return Poll::Pending };
            waiter.leave();
            return Poll::Ready(found);
        }
        shared.driver.lock().unwrap_or_else(PoisonError::into_inner).drive(&shared.leader_queue);
    }
    // Yield to the executor's other futures.
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// Future of an outcome.
pub(super) struct SlotFuture<'a, T> {
    shared: &'a ClientShared,
    slot: &'a OutcomeReceiver<T>,
    waiter: WaiterGuard,
}

impl<'a, T> SlotFuture<'a, T> {
    pub(super) fn new(shared: &'a ClientShared, slot: &'a OutcomeReceiver<T>) -> Self {
        Self { shared, slot, waiter: WaiterGuard::new(shared.leader_queue.clone(), false) }
    }
}

impl<T> Future for SlotFuture<'_, T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { shared, slot, waiter } = &mut *self;
        poll_until(shared, waiter, cx, |cx| {
            loop {
                match slot.poll(cx.waker()) {
                    Poll::Ready(OutcomeUpdate::Outcome(outcome)) => return Some(outcome),
                    Poll::Ready(OutcomeUpdate::Progress(_)) => {}
                    Poll::Pending => return None,
                }
            }
        })
    }
}

/// Future that drives a connection to its end; see [`Client::run`](super::Client::run).
#[must_use = "nothing happens unless it is awaited or spawned"]
pub struct Run {
    shared: Arc<ClientShared>,
    waiter: WaiterGuard,
}

impl Run {
    pub(super) fn new(shared: Arc<ClientShared>) -> Self {
        let waiter = WaiterGuard::new(shared.leader_queue.clone(), false);
        Self { shared, waiter }
    }

    pub(super) fn shared(&self) -> &ClientShared {
        &self.shared
    }

    /// Returns how the server process ended, once it has.
    pub(super) fn take_exit(&self) -> Result<Option<ShutdownReport>, Error> {
        let mut driver = self.shared.driver.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(inner) = driver.state_mut() else { return Ok(None) };
        match &inner.exit {
            Some(Ok(ended)) => Ok(ended.clone()),
            // An error is returned once.
            _ => inner.exit.replace(Ok(None)).unwrap_or(Ok(None)),
        }
    }
}

impl Future for Run {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { shared, waiter } = &mut *self;
        let over = poll_until(shared, waiter, cx, |_| shared.leader_queue.is_over().then_some(()));
        over.map(|()| if shared.is_closed() { Ok(()) } else { Err(shared.caller.closed_error()) })
    }
}

impl core::fmt::Debug for Run {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Run").field("caller", &self.shared.caller).finish_non_exhaustive()
    }
}
