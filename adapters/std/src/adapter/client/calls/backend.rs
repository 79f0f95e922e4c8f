//! The interface between the calls of a client and the connection that an adapter drives.

use alloc::sync::Arc;
use core::future::Future;

use mcp_proto::observe::Observer;
use mcp_proto::{CallKey, Progress, Version};

use super::EngineCommand;
use crate::adapter::client::callback::Callback;
use crate::adapter::client::connection::CallAnswer;
use crate::adapter::client::layers::Layers;
use crate::adapter::client::result_cache::ResultCache;
use crate::error::Error;

/// The connection that an adapter drives, as the calls of a client use it.
///
/// The futures of a backend that blocks are ready when they are polled first. Only such a backend can be used by
/// [`BlockingCalls`](super::BlockingCalls).
pub trait ClientBackend {
    /// A call that was started. If it is more than a key, dropping it cancels the call.
    type PendingCall;

    /// Starts a call with the command that sends it. `progress` tells that the caller will wait for progress.
    ///
    /// # Errors
    ///
    /// - [`Error::Use`]: the call cannot be made.
    /// - [`Error::Closed`] or [`Error::Io`]: the connection has ended.
    /// - [`Error::Busy`]: a callback made the call.
    fn begin(&self, progress: bool, command: impl EngineCommand<CallKey>)
    -> Result<Self::PendingCall, Error>;

    /// Runs a command that starts no call.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    fn command(&self, command: impl EngineCommand<()>) -> impl Future<Output = Result<(), Error>>;

    /// Waits for the result of a call, and passes its progress to `on_progress`.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if the call failed; [`Error::Use`] with [`UseError::Stale`](mcp_proto::UseError) if its result
    /// was taken; otherwise as [`begin`](Self::begin).
    fn result(
        &self,
        call: Self::PendingCall,
        on_progress: impl FnMut(&Progress),
    ) -> impl Future<Output = Result<CallAnswer, Error>>;

    /// Handles input that has arrived, so that a cached result is not returned after the server invalidated it.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    fn catch_up(&self) -> impl Future<Output = Result<(), Error>>;

    /// Passes a callback to the handler.
    fn dispatch(&self, callback: Callback);

    /// Returns the cached results and output schemas of the server.
    fn result_cache(&self) -> &ResultCache;

    /// Returns the layers around requests. They are run by [`AsyncCalls`](super::AsyncCalls).
    fn layers(&self) -> &Layers;

    /// Returns the observer of requests. The default is none, for backends whose layers make their requests in the code of
    /// the caller: only requests that cross to another task need its trace context.
    fn observer(&self) -> Option<&Arc<dyn Observer>> {
        None
    }

    /// Returns the revision of the connection.
    fn version(&self) -> Version;

    /// Returns the maximum number of bytes of a list, over all of its pages.
    fn max_list_bytes(&self) -> usize;
}
