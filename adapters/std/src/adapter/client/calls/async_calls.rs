//! Untyped calls and commands of a client.

use core::time::Duration;
use std::time::Instant as StdInstant;

use mcp_proto::client::{Engine, InputId, SubscriptionKey};
use mcp_proto::model::{InputResponse, LoggingLevel};
use mcp_proto::{CallOptions, Progress, RawJson, RpcError};
use serde::Serialize;

use super::ClientBackend;
use super::commands::{Answer, Notify, Request, ToolCall};
use crate::error::Error;

/// The calls of an asynchronous client, which dereferences to them.
///
/// Dropping the future of a call cancels the call.
#[derive(Clone, Debug)]
pub struct AsyncCalls<B> {
    pub(super) backend: B,
}

impl<B> AsyncCalls<B> {
    /// Creates the calls over a connection.
    #[doc(hidden)]
    pub const fn new(backend: B) -> Self {
        Self { backend }
    }

    /// Returns the connection.
    #[doc(hidden)]
    pub const fn backend(&self) -> &B {
        &self.backend
    }

    /// Returns the connection.
    #[doc(hidden)]
    pub const fn backend_mut(&mut self) -> &mut B {
        &mut self.backend
    }
}

/// # One call at a time
impl<B: ClientBackend> AsyncCalls<B> {
    /// Sends a request and waits for its result, a JSON object that is returned unchanged.
    ///
    /// `params` must serialize to a JSON object. Use [`send`](Self::send) for typed parameters and results.
    ///
    /// # Errors
    ///
    /// - [`Error::Call`]: the server answered with an error, or the call timed out.
    /// - [`Error::Use`]: the call cannot be made.
    /// - [`Error::Closed`]: the connection has ended.
    pub async fn request<T: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &T,
        options: &CallOptions,
    ) -> Result<RawJson, Error> {
        self.perform(Request { method, params, options }, false, |_| {}).await
    }

    /// Sends a request as [`request`](Self::request) does, with progress reported to `on_progress`.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request).
    pub async fn request_with<T: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &T,
        options: &CallOptions,
        on_progress: &mut (dyn FnMut(&Progress) + Send),
    ) -> Result<RawJson, Error> {
        self.request_reporting(method, params, options, on_progress).await
    }

    /// Sends a `ping` and returns the time until its response.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request).
    pub async fn ping(&self) -> Result<Duration, Error> {
        let begun = StdInstant::now();
        let call =
            self.backend.begin(false, |engine: &mut Engine, now| engine.ping(now, &CallOptions::new()))?;
        self.wait(call).await?;
        Ok(begun.elapsed())
    }
}

/// # Several calls at once
impl<B: ClientBackend> AsyncCalls<B> {
    /// Starts a request without waiting for its result.
    ///
    /// Take the outcome with one of the `wait` methods of the client, or cancel the call. Until then the call counts
    /// against [`Limits::max_pending_calls`](mcp_proto::Limits). While the server is slow to read
    /// ([`Limits::outbox_high_water`](mcp_proto::Limits)), the call is delayed for up to
    /// [`call_timeout`](mcp_proto::Limits).
    ///
    /// # Errors
    ///
    /// - [`Error::Use`]: the call cannot be made.
    /// - [`Error::Closed`]: the connection has ended.
    pub fn start<T: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &T,
        options: &CallOptions,
    ) -> Result<B::PendingCall, Error> {
        self.backend.begin(false, Request { method, params, options })
    }

    /// Starts the call of a tool without waiting for its result; otherwise as [`start`](Self::start).
    ///
    /// It may follow a task, as [`call_tool`](Self::call_tool) does. A tool of a server of 2025-11-25 that must run as a
    /// task needs a list of tools before ([`list_tools`](Self::list_tools)).
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_tool<T: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &T,
        options: &CallOptions,
    ) -> Result<B::PendingCall, Error> {
        let task = self.backend.result_cache().task_request(name, None);
        self.backend.begin(false, ToolCall { name, arguments, task, options })
    }
}

/// # Commands
impl<B: ClientBackend> AsyncCalls<B> {
    /// Answers an input request that [`ClientHandler::input`](crate::adapter::client::ClientHandler::input) left open.
    ///
    /// [`InputRequest::check_response`](mcp_proto::model::InputRequest) tells whether a response matches its form.
    ///
    /// # Errors
    ///
    /// - [`Error::Use`]: the input request is gone or was answered before, or the response is invalid in itself. In
    ///   the last case the input request stays open.
    /// - Otherwise as [`start`](Self::start).
    pub async fn answer(&self, input: InputId, response: &InputResponse<'_>) -> Result<(), Error> {
        self.backend.command(Answer { input, response }).await
    }

    /// Refuses an input request that [`ClientHandler::input`](crate::adapter::client::ClientHandler::input) left open.
    ///
    /// See [`Engine::refuse`](mcp_proto::client::Engine::refuse).
    ///
    /// # Errors
    ///
    /// As [`answer`](Self::answer).
    pub async fn refuse(&self, input: InputId, error: &RpcError) -> Result<(), Error> {
        let error = error.clone();
        self.backend.command(move |engine: &mut Engine, now| engine.refuse(now, input, &error)).await
    }

    /// Ends a subscription. The handler gets no more callbacks for it.
    ///
    /// # Errors
    ///
    /// - [`Error::Use`]: the subscription has ended already.
    /// - Otherwise as [`start`](Self::start).
    pub async fn unsubscribe(&self, subscription: SubscriptionKey) -> Result<(), Error> {
        self.backend.command(move |engine: &mut Engine, now| engine.unsubscribe(now, subscription)).await
    }

    /// Notifies the server that the result of [`ClientHandler::roots`](crate::adapter::client::ClientHandler::roots) has
    /// changed.
    ///
    /// Does nothing unless the client declared [`Capability::RootsListChanged`](mcp_proto::Capability). Does nothing in
    /// the modern era either, because servers ask for the roots whenever they need them (ROOT-004).
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    #[expect(deprecated, reason = "supported until its removal")]
    pub async fn roots_changed(&self) -> Result<(), Error> {
        self.backend.command(|engine: &mut Engine, now| engine.notify_roots_changed(now)).await
    }

    /// Sets the minimum level of the server's log messages; `None` turns them off.
    ///
    /// In the modern era each later call carries the level. A legacy server is notified immediately. Before that it
    /// chooses the level itself.
    ///
    /// # Errors
    ///
    /// [`Error::Use`] if the server does not log.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    #[expect(deprecated, reason = "supported until its removal")]
    pub async fn set_log_level(&self, level: Option<LoggingLevel>) -> Result<(), Error> {
        self.backend.command(move |engine: &mut Engine, now| engine.set_log_level(now, level)).await
    }

    /// Sends a notification of the application.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn notify<T: Serialize + ?Sized>(&self, method: &str, params: Option<&T>) -> Result<(), Error> {
        self.backend.command(Notify { method, params }).await
    }
}

/// The same calls with any type of progress callback.
impl<B: ClientBackend> AsyncCalls<B> {
    pub(super) async fn wait(&self, call: B::PendingCall) -> Result<RawJson, Error> {
        self.backend.result(call, |_| {}).await.map(|(result, _)| result)
    }

    pub(super) async fn request_reporting<T: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &T,
        options: &CallOptions,
        on_progress: impl FnMut(&Progress),
    ) -> Result<RawJson, Error> {
        let options = &options.clone().with_progress();
        self.perform(Request { method, params, options }, true, on_progress).await
    }
}
