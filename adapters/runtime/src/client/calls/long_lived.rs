//! Long-lived calls: their notifications, their end, and waits between calls.

use core::fmt;
use core::time::Duration;

use mcp_proto::client::Notification;
use mcp_proto::{CallOptions, Progress, RawJson, UseError};
use serde::Serialize;

use super::blocking_calls::complete;
use super::commands::Request;
use super::{AsyncCalls, BlockingCalls, ClientBackend};
use crate::client::connection::CallAnswer;
use crate::client::outcome::{OutcomeReceiver, OutcomeUpdate};
use crate::error::Error;

/// What happens to a long-lived call.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallUpdate {
    /// A notification that belongs to it.
    Notification(Notification),
    /// Its progress.
    Progress(Progress),
    /// Its result. It is the last update.
    Ended(RawJson),
}

/// A long-lived call. Dropping it cancels the call.
#[must_use = "dropping it cancels the call"]
pub struct LongLivedCall<'a, B: ClientBackend> {
    backend: &'a B,
    receiver: OutcomeReceiver<CallAnswer>,
}

impl<B: ClientBackend> LongLivedCall<'_, B> {
    /// Waits for the next update, for `timeout` at most. Returns `None` if that time passes.
    ///
    /// Dropping the future loses nothing. While nobody waits, [`Limits::max_events`](mcp_proto::Limits) notifications with
    /// [`max_waiting_bytes`](mcp_proto::Limits) bytes are kept; beyond that the call ends.
    ///
    /// # Errors
    ///
    /// - [`Error::Call`]: the call failed. The server answered with an error, its stream broke, or there was no notification
    ///   within the timeout of the call.
    /// - [`Error::Use`]: the call was refused, too many notifications were not taken
    ///   ([`Limit::CallNotifications`](mcp_proto::Limit)), or the end was reported before ([`UseError::Stale`]).
    /// - [`Error::Closed`] or [`Error::Io`]: the connection has ended.
    pub async fn next(&mut self, timeout: Option<Duration>) -> Result<Option<CallUpdate>, Error> {
        if self.receiver.is_finished() {
            return Err(Error::Use(UseError::Stale));
        }
        Ok(match self.backend.next_update(&self.receiver, timeout).await? {
            None => None,
            Some(OutcomeUpdate::Progress(progress)) => Some(CallUpdate::Progress(progress)),
            Some(OutcomeUpdate::Notification(notification)) => Some(CallUpdate::Notification(notification)),
            Some(OutcomeUpdate::Outcome(outcome)) => Some(CallUpdate::Ended(outcome?.0)),
        })
    }
}

impl<B: ClientBackend> Drop for LongLivedCall<'_, B> {
    fn drop(&mut self) {
        self.backend.abandon(&self.receiver);
    }
}

impl<B: ClientBackend> fmt::Debug for LongLivedCall<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LongLivedCall").field("receiver", &self.receiver).finish_non_exhaustive()
    }
}

/// # Long-lived calls
///
/// Methods of extensions whose calls stay open, and whose notifications belong to the call.
impl<B: ClientBackend> AsyncCalls<B> {
    /// Starts a call that stays open for as long as the server likes, and takes its notifications
    /// ([`CallOptions::long_lived`], which is set). Layers do not see it.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn open<T: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &T,
        options: &CallOptions,
    ) -> Result<LongLivedCall<'_, B>, Error> {
        let options = &options.clone().long_lived();
        let receiver = self.backend.open(Request { method, params, options })?;
        Ok(LongLivedCall { backend: &self.backend, receiver })
    }
}

/// A long-lived call of a client that blocks. Dropping it cancels the call.
#[must_use = "dropping it cancels the call"]
#[derive(Debug)]
pub struct BlockingLongLivedCall<'a, B: ClientBackend>(LongLivedCall<'a, B>);

impl<B: ClientBackend> BlockingLongLivedCall<'_, B> {
    /// Waits for the next update, as [`LongLivedCall::next`] does.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<CallUpdate>, Error> {
        complete(self.0.next(timeout))
    }
}

/// # Long-lived calls
///
/// Methods of extensions whose calls stay open, and whose notifications belong to the call.
impl<B: ClientBackend> BlockingCalls<B> {
    /// Starts a call that stays open for as long as the server likes, as [`AsyncCalls::open`] does.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn open<T: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &T,
        options: &CallOptions,
    ) -> Result<BlockingLongLivedCall<'_, B>, Error> {
        self.calls.open(method, params, options).map(BlockingLongLivedCall)
    }

    /// Returns the same calls as futures, which are ready when they are polled first.
    #[must_use]
    pub const fn as_async(&self) -> &AsyncCalls<B> {
        &self.calls
    }

    /// Runs a future that awaits calls of [`as_async`](Self::as_async) alone.
    ///
    /// # Errors
    ///
    /// Those of the future. [`Error::Io`] if it waits for something else, as nothing would wake it.
    pub fn block_on<T, E: From<Error>>(&self, future: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        complete(future)
    }
}
