//! Futures that wait for something of a connection, and drive it when it is their turn

use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::PoisonError;

use mcp_proto::Progress;
use mcp_std::child::Ended;
use mcp_std::client::{Slot, Update};
use mcp_std::{Error, catch};

use super::Shared;
use super::drive::ROUNDS;
use super::turns::Place;

/// Has the connection driven, by this task when it is its turn, until `look` finds what it looks for
pub(super) fn poll_until<T>(
    shared: &Shared,
    place: &mut Place,
    cx: &mut Context<'_>,
    mut look: impl FnMut(&mut Context<'_>) -> Option<T>,
) -> Poll<T> {
    // Every look leaves a waker where it is told of what it looks for. While this task goes on it need not be its own.
    let mut goes_on = Context::from_waker(Waker::noop());
    for _ in 0..ROUNDS {
        if let Some(found) = look(&mut goes_on) {
            place.leave();
            return Poll::Ready(found);
        }
        if !place.enter(cx.waker()) {
            // It may have been told between the look and the place.
            let Some(found) = look(cx) else { return Poll::Pending };
            place.leave();
            return Poll::Ready(found);
        }
        shared.core.lock().unwrap_or_else(PoisonError::into_inner).turn(&shared.turns);
    }
    // Others have waited long enough.
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// What comes of a slot
pub(super) struct Waiting<'a, 'p, T> {
    shared: &'a Shared,
    slot: &'a Slot<T>,
    on_progress: Option<&'p mut (dyn FnMut(&Progress) + Send + 'p)>,
    place: Place,
}

impl<'a, 'p, T> Waiting<'a, 'p, T> {
    pub(super) fn new(
        shared: &'a Shared,
        slot: &'a Slot<T>,
        on_progress: Option<&'p mut (dyn FnMut(&Progress) + Send + 'p)>,
    ) -> Self {
        Self { shared, slot, on_progress, place: Place::new(shared.turns.clone(), false) }
    }
}

impl<T> Future for Waiting<'_, '_, T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { shared, slot, on_progress, place } = &mut *self;
        poll_until(shared, place, cx, |cx| {
            loop {
                match slot.poll(cx.waker()) {
                    Poll::Ready(Update::Outcome(outcome)) => return Some(outcome),
                    Poll::Ready(Update::Progress(progress)) => {
                        if let Some(told) = on_progress {
                            // A panic ends what panicked and nothing else; the panic hook has said it.
                            let _ = catch(|| told(&progress));
                        }
                    }
                    Poll::Pending => return None,
                }
            }
        })
    }
}

/// Drives a connection to its very end; see [`Client::run`](super::Client::run)
#[must_use = "nothing happens unless it is awaited or spawned"]
pub struct Run {
    shared: Arc<Shared>,
    place: Place,
}

impl Run {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let place = Place::new(shared.turns.clone(), false);
        Self { shared, place }
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// How the server ended, once it has
    pub(super) fn ended(&self) -> Result<Option<Ended>, Error> {
        let mut core = self.shared.core.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(inner) = core.inner() else { return Ok(None) };
        match &inner.ended {
            Some(Ok(ended)) => Ok(ended.clone()),
            // Told once.
            _ => inner.ended.replace(Ok(None)).unwrap_or(Ok(None)),
        }
    }
}

impl Future for Run {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { shared, place } = &mut *self;
        let over = poll_until(shared, place, cx, |_| shared.turns.is_over().then_some(()));
        over.map(|()| if shared.is_closed() { Ok(()) } else { Err(shared.caller.gone()) })
    }
}

impl core::fmt::Debug for Run {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Run").field("caller", &self.shared.caller).finish_non_exhaustive()
    }
}
