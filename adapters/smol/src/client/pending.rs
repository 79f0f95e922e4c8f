//! What was begun and is awaited, or given up

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use mcp_proto::client::SubscriptionKey;
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallKey, RawJson, UseError};
use mcp_std::Error;
use mcp_std::client::{Answer, Caller, Slot, Update};

use super::Client;
use super::turns::Place;
use super::waiting::poll_until;

/// A call that was begun: awaiting it, or [`Client::wait`], fetches what comes of it
///
/// Dropping it gives the call up: the server is told.
#[must_use = "dropping it cancels the call"]
pub struct Pending {
    pub(super) slot: Slot<Answer>,
    pub(super) client: Client,
    pub(super) place: Place,
}

impl Pending {
    /// By what handlers are told of the call; none as long as it has not been sent
    #[must_use]
    pub fn key(&self) -> Option<CallKey> {
        self.slot.call()
    }
}

/// As [`Client::wait`]
impl Future for Pending {
    type Output = Result<RawJson, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { slot, client, place } = &mut *self;
        if slot.is_taken() {
            return Poll::Ready(Err(Error::Use(UseError::Stale)));
        }
        let told = poll_until(&client.0.shared, place, cx, |cx| {
            loop {
                match slot.poll(cx.waker()) {
                    Poll::Ready(Update::Outcome(outcome)) => return Some(outcome),
                    Poll::Ready(Update::Progress(_)) => {}
                    Poll::Pending => return None,
                }
            }
        });
        told.map_ok(|(result, _)| result)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.client.0.shared.caller.cancel(&self.slot, None);
    }
}

/// A call that is awaited for a while: whatever ends that, its place is free for others
pub(super) struct Awaited<'a>(pub(super) &'a mut Pending);

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.place.leave();
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("call", &self.slot.call()).finish_non_exhaustive()
    }
}

/// A subscription that is begun: dropped before its key was told, it is given up
pub(super) struct Subscribing<'a> {
    pub(super) slot: Slot<(SubscriptionKey, SubscriptionFilter)>,
    pub(super) caller: &'a Caller,
}

impl Drop for Subscribing<'_> {
    fn drop(&mut self) {
        if let Some(Ok((key, _))) = self.slot.give_up() {
            self.caller.run_due(move |connection| {
                let _ = connection.command(|engine, now| engine.unsubscribe(now, key));
            });
        }
    }
}
