//! Futures that wait for an outcome of a connection, and drive the connection as its leader.

use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::PoisonError;

use crate::Error;
use crate::adapter::client::{OutcomeReceiver, OutcomeUpdate};
use crate::process::ShutdownReport;

use super::driver::MAX_TURNS_PER_POLL;
use super::leader::WaiterGuard;
use super::shared::ClientShared;
use crate::adapter::runtime::Runtime;

/// Polls `look` until it returns a value, driving the connection whenever this task is the leader.
pub(super) fn poll_until<R: Runtime, T>(
    shared: &ClientShared<R>,
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
pub(super) struct SlotFuture<'a, R: Runtime, T> {
    shared: &'a ClientShared<R>,
    slot: &'a OutcomeReceiver<T>,
    waiter: WaiterGuard,
}

impl<'a, R: Runtime, T> SlotFuture<'a, R, T> {
    pub(super) fn new(shared: &'a ClientShared<R>, slot: &'a OutcomeReceiver<T>) -> Self {
        Self { shared, slot, waiter: WaiterGuard::new(shared.leader_queue.clone(), false) }
    }
}

impl<R: Runtime, T> Future for SlotFuture<'_, R, T> {
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
pub struct Run<R: Runtime> {
    shared: Arc<ClientShared<R>>,
    waiter: WaiterGuard,
}

impl<R: Runtime> Run<R> {
    pub(super) fn new(shared: Arc<ClientShared<R>>) -> Self {
        let waiter = WaiterGuard::new(shared.leader_queue.clone(), false);
        Self { shared, waiter }
    }

    pub(super) fn shared(&self) -> &ClientShared<R> {
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

impl<R: Runtime> Future for Run<R> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { shared, waiter } = &mut *self;
        let over = poll_until(shared, waiter, cx, |_| shared.leader_queue.is_over().then_some(()));
        over.map(|()| if shared.is_closed() { Ok(()) } else { Err(shared.caller.closed_error()) })
    }
}

impl<R: Runtime> core::fmt::Debug for Run<R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Run").field("caller", &self.shared.caller).finish_non_exhaustive()
    }
}
