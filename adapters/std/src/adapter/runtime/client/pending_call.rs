//! Pending calls and subscriptions, which are cancelled when dropped.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::adapter::client::{CallAnswer, ConnectionHandle, OutcomeReceiver, OutcomeUpdate};
use crate::{Error, catch};
use mcp_proto::client::SubscriptionKey;
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallKey, Progress, RawJson, UseError};

use super::backend::SharedBackend;
use super::leader::WaiterGuard;
use super::wait::poll_until;
use crate::adapter::runtime::Runtime;

/// A call that was started. Await it, or pass it to [`Client::wait`](super::Client::wait), to get its result.
///
/// Dropping it cancels the call and notifies the server.
#[must_use = "dropping it cancels the call"]
pub struct PendingCall<R: Runtime> {
    pub(super) slot: OutcomeReceiver<CallAnswer>,
    pub(super) backend: SharedBackend<R>,
    pub(super) waiter: WaiterGuard,
}

impl<R: Runtime> PendingCall<R> {
    /// Returns the key under which the handler gets progress of the call; `None` until the call has been sent.
    #[must_use]
    pub fn key(&self) -> Option<CallKey> {
        self.slot.call()
    }

    /// Polls for the result, and passes progress to `on_progress`. The task drives the connection as its leader.
    pub(super) fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Poll<Result<CallAnswer, Error>> {
        let Self { slot, backend, waiter } = self;
        if slot.is_finished() {
            return Poll::Ready(Err(Error::Use(UseError::Stale)));
        }
        poll_until(backend.shared(), waiter, cx, |cx| {
            loop {
                match slot.poll(cx.waker()) {
                    Poll::Ready(OutcomeUpdate::Outcome(outcome)) => return Some(outcome),
                    Poll::Ready(OutcomeUpdate::Progress(progress)) => {
                        // A panic ends only the callback. The panic hook has already reported it.
                        let _ = catch(|| on_progress(&progress));
                    }
                    Poll::Pending => return None,
                }
            }
        })
    }
}

// Awaiting it is the same as `Client::wait`.
impl<R: Runtime> Future for PendingCall<R> {
    type Output = Result<RawJson, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_answer(cx, &mut |_| {}).map_ok(|(result, _)| result)
    }
}

impl<R: Runtime> Drop for PendingCall<R> {
    fn drop(&mut self) {
        self.backend.shared().caller.cancel(&self.slot, None);
    }
}

/// A call that is awaited for a limited time. Leaves the leader queue when dropped.
pub(super) struct LeaveOnDrop<'a, R: Runtime>(pub(super) &'a mut PendingCall<R>);

impl<R: Runtime> Drop for LeaveOnDrop<'_, R> {
    fn drop(&mut self) {
        self.0.waiter.leave();
    }
}

impl<R: Runtime> fmt::Debug for PendingCall<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCall").field("call", &self.slot.call()).finish_non_exhaustive()
    }
}

/// A pending subscription. Unsubscribes if it is dropped before the caller has the key.
pub(super) struct SubscribeGuard<'a> {
    pub(super) slot: OutcomeReceiver<(SubscriptionKey, SubscriptionFilter)>,
    pub(super) caller: &'a ConnectionHandle,
}

impl Drop for SubscribeGuard<'_> {
    fn drop(&mut self) {
        if let Some(Ok((key, _))) = self.slot.close() {
            self.caller.run_unbounded(move |connection| {
                let _ = connection.command(|engine, now| engine.unsubscribe(now, key));
            });
        }
    }
}
