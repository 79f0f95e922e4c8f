//! Commands of the engine whose parameters are written directly into the outbox, or encoded for another thread.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;
use core::time::Duration;

use mcp_proto::client::{Engine, InputId, Peer, TaskHandle, TaskRequest};
use mcp_proto::model::{
    CallToolParams, GetTaskPayloadParams, InputResponse, InputResponses, RequestParams, UpdateTaskParams,
};
use mcp_proto::observe::Observer;
use mcp_proto::server::PreparedResult;
use mcp_proto::{CallKey, CallOptions, Instant, Progress, RawJson, UseError, Version};
use serde::Serialize;

use crate::client::connection::CallAnswer;
use crate::client::handler::Callback;
use crate::client::layers::{ClientRequest, Layers, RequestKind};
use crate::client::outcome::{OutcomeReceiver, OutcomeUpdate};
use crate::client::result_cache::ResultCache;
use crate::error::Error;

/// A command of the engine, with borrowed parameters.
///
/// A closure that owns its values is a command, too.
pub trait EngineCommand<T> {
    /// Runs the command. Its parameters are serialized directly into the outbox.
    ///
    /// # Errors
    ///
    /// The reason why the engine refuses the command.
    fn run(self, engine: &mut Engine, now: Instant) -> Result<T, UseError>;

    /// Returns a copy that owns its parameters, to be run later or on another thread. They are encoded for `version`,
    /// the revision of the connection. The copy has the trace context of the caller, which `observer` knows.
    ///
    /// # Errors
    ///
    /// [`UseError::Encode`] or [`UseError::NotInVersion`] if the parameters cannot be encoded.
    fn detach(
        self,
        version: Version,
        observer: Option<&dyn Observer>,
    ) -> Result<impl DetachedCommand<T>, UseError>;
}

/// A command that owns its parameters.
pub trait DetachedCommand<T>: FnOnce(&mut Engine, Instant) -> Result<T, UseError> + Send + 'static {}

impl<T, F: FnOnce(&mut Engine, Instant) -> Result<T, UseError> + Send + 'static> DetachedCommand<T> for F {}

impl<T, F: FnOnce(&mut Engine, Instant) -> Result<T, UseError> + Send + 'static> EngineCommand<T> for F {
    fn run(self, engine: &mut Engine, now: Instant) -> Result<T, UseError> {
        self(engine, now)
    }

    fn detach(self, _: Version, _: Option<&dyn Observer>) -> Result<impl DetachedCommand<T>, UseError> {
        Ok(self)
    }
}

/// A command that starts a call, and that layers can see.
pub(super) trait CallCommand: EngineCommand<CallKey> {
    /// Returns the request for the layers, with parameters encoded for `version`.
    ///
    /// # Errors
    ///
    /// As [`detach`](EngineCommand::detach).
    fn into_request(self, version: Version) -> Result<ClientRequest, UseError>;
}

/// Sends a request.
pub(super) struct Request<'a, P: ?Sized> {
    pub(super) method: &'a str,
    pub(super) params: &'a P,
    pub(super) options: &'a CallOptions,
}

impl<P: Serialize + ?Sized> EngineCommand<CallKey> for Request<'_, P> {
    fn run(self, engine: &mut Engine, now: Instant) -> Result<CallKey, UseError> {
        engine.call(now, self.method, self.params, self.options)
    }

    fn detach(
        self,
        version: Version,
        observer: Option<&dyn Observer>,
    ) -> Result<impl DetachedCommand<CallKey>, UseError> {
        let (method, options) = (Box::<str>::from(self.method), with_current_context(self.options, observer));
        let params = encode(version, self.params)?;
        Ok(move |engine: &mut Engine, now| engine.call(now, &method, &params, &options))
    }
}

impl<P: Serialize + ?Sized> CallCommand for Request<'_, P> {
    fn into_request(self, version: Version) -> Result<ClientRequest, UseError> {
        let params = encode(version, self.params)?;
        Ok(ClientRequest::new(self.method, params, self.options.clone(), RequestKind::Sent))
    }
}

/// Sends the call of a tool.
pub(super) struct ToolCall<'a, P: ?Sized> {
    pub(super) name: &'a str,
    pub(super) arguments: &'a P,
    /// Asks for a task.
    pub(super) task: Option<TaskRequest>,
    pub(super) options: &'a CallOptions,
}

/// Calls a tool, as a task if that is asked for.
fn call_tool<P: Serialize + ?Sized>(
    engine: &mut Engine,
    now: Instant,
    name: &str,
    arguments: &P,
    task: Option<TaskRequest>,
    options: &CallOptions,
) -> Result<CallKey, UseError> {
    match task {
        Some(task) => engine.call_tool_as_task(now, name, arguments, task, options),
        None => engine.call_tool(now, name, arguments, options),
    }
}

impl<P: Serialize + ?Sized> EngineCommand<CallKey> for ToolCall<'_, P> {
    fn run(self, engine: &mut Engine, now: Instant) -> Result<CallKey, UseError> {
        call_tool(engine, now, self.name, self.arguments, self.task, self.options)
    }

    fn detach(
        self,
        version: Version,
        observer: Option<&dyn Observer>,
    ) -> Result<impl DetachedCommand<CallKey>, UseError> {
        let options = with_current_context(self.options, observer);
        let (name, task) = (Box::<str>::from(self.name), self.task);
        let arguments = encode(version, self.arguments)?;
        Ok(move |engine: &mut Engine, now| call_tool(engine, now, &name, &arguments, task, &options))
    }
}

impl<P: Serialize + ?Sized> CallCommand for ToolCall<'_, P> {
    fn into_request(self, version: Version) -> Result<ClientRequest, UseError> {
        let params = CallToolParams::new(self.name).arguments(encode(version, self.arguments)?);
        let params = encode(version, &params)?;
        let kind = RequestKind::Tool(self.task);
        Ok(ClientRequest::new(CallToolParams::METHOD, params, self.options.clone(), kind))
    }
}

/// Waits for a task.
pub(super) struct TaskWait<'a> {
    pub(super) task: &'a TaskHandle,
    pub(super) options: &'a CallOptions,
}

impl EngineCommand<CallKey> for TaskWait<'_> {
    fn run(self, engine: &mut Engine, now: Instant) -> Result<CallKey, UseError> {
        engine.wait_task(now, self.task, self.options)
    }

    fn detach(
        self,
        _: Version,
        observer: Option<&dyn Observer>,
    ) -> Result<impl DetachedCommand<CallKey>, UseError> {
        let (task, options) = (self.task.clone(), with_current_context(self.options, observer));
        Ok(move |engine: &mut Engine, now| engine.wait_task(now, &task, &options))
    }
}

impl CallCommand for TaskWait<'_> {
    fn into_request(self, _version: Version) -> Result<ClientRequest, UseError> {
        // Shown to layers only: it is sent in 2025-11-25 alone.
        let params = RawJson::encode(&GetTaskPayloadParams::new(self.task.id().as_str()))?;
        let kind = RequestKind::Task(self.task.clone());
        Ok(ClientRequest::new(GetTaskPayloadParams::METHOD, params, self.options.clone(), kind))
    }
}

/// Answers input requests of a task.
pub(super) struct TaskUpdate<'a> {
    pub(super) task: &'a TaskHandle,
    pub(super) responses: &'a InputResponses<'a>,
}

impl EngineCommand<CallKey> for TaskUpdate<'_> {
    fn run(self, engine: &mut Engine, now: Instant) -> Result<CallKey, UseError> {
        engine.update_task(now, self.task, self.responses, &CallOptions::new())
    }

    fn detach(
        self,
        version: Version,
        observer: Option<&dyn Observer>,
    ) -> Result<impl DetachedCommand<CallKey>, UseError> {
        let options = with_current_context(&CallOptions::new(), observer);
        let (task, responses) = (self.task.clone(), encode(version, self.responses)?);
        Ok(move |engine: &mut Engine, now| engine.update_task(now, &task, &responses, &options))
    }
}

impl CallCommand for TaskUpdate<'_> {
    fn into_request(self, version: Version) -> Result<ClientRequest, UseError> {
        let params = UpdateTaskParams::new(self.task.id().as_str(), self.responses.clone());
        let params = encode(version, &params)?;
        Ok(ClientRequest::new(UpdateTaskParams::METHOD, params, CallOptions::new(), RequestKind::Sent))
    }
}

/// Answers an input request.
pub(super) struct Answer<'a> {
    pub(super) input: InputId,
    pub(super) response: &'a InputResponse<'a>,
}

impl EngineCommand<()> for Answer<'_> {
    fn run(self, engine: &mut Engine, now: Instant) -> Result<(), UseError> {
        engine.answer(now, self.input, self.response)
    }

    fn detach(
        self,
        version: Version,
        _: Option<&dyn Observer>,
    ) -> Result<impl DetachedCommand<()>, UseError> {
        let input = self.input;
        let response = encode(version, self.response)?;
        Ok(move |engine: &mut Engine, now| engine.answer(now, input, &response))
    }
}

/// Sends a notification.
pub(super) struct Notify<'a, P: ?Sized> {
    pub(super) method: &'a str,
    pub(super) params: Option<&'a P>,
}

impl<P: Serialize + ?Sized> EngineCommand<()> for Notify<'_, P> {
    fn run(self, engine: &mut Engine, now: Instant) -> Result<(), UseError> {
        engine.notify(now, self.method, self.params)
    }

    fn detach(
        self,
        version: Version,
        _: Option<&dyn Observer>,
    ) -> Result<impl DetachedCommand<()>, UseError> {
        let method = Box::<str>::from(self.method);
        let params = self.params.map(|params| encode(version, params)).transpose()?;
        Ok(move |engine: &mut Engine, now| engine.notify(now, &method, params.as_ref()))
    }
}

/// Returns options with the trace context of the running code.
fn with_current_context(options: &CallOptions, observer: Option<&dyn Observer>) -> CallOptions {
    let options = options.clone();
    match observer.and_then(Observer::current_context) {
        Some(context) => options.with_trace_context(&context),
        None => options,
    }
}

/// Encodes parameters for a revision.
fn encode<P: Serialize + ?Sized>(version: Version, params: &P) -> Result<RawJson, UseError> {
    Ok(PreparedResult::new(version, params)?.text().clone())
}

// The interface between the calls of a client and the connection that an adapter drives.

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

    /// Starts a long-lived call ([`CallOptions::long_lived`]) with the command that sends it.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    fn open(&self, command: impl EngineCommand<CallKey>) -> Result<OutcomeReceiver<CallAnswer>, Error>;

    /// Waits for the next update of a long-lived call, for `timeout` at most. Returns `None` if that time passes.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] or [`Error::Io`]: the connection has ended. [`Error::Busy`]: a callback waits.
    fn next_update(
        &self,
        call: &OutcomeReceiver<CallAnswer>,
        timeout: Option<Duration>,
    ) -> impl Future<Output = Result<Option<OutcomeUpdate<CallAnswer>>, Error>>;

    /// Cancels a long-lived call, unless it has ended.
    fn abandon(&self, call: &OutcomeReceiver<CallAnswer>);

    /// Waits for this time, while the connection is driven.
    ///
    /// # Errors
    ///
    /// As [`next_update`](Self::next_update). Where another thread drives the connection, its end is not noticed.
    fn pause(&self, time: Duration) -> impl Future<Output = Result<(), Error>> {
        async move {
            // Nothing is ever sent to it.
            let (_sender, receiver) = OutcomeReceiver::new(false);
            self.next_update(&receiver, Some(time)).await.map(drop)
        }
    }

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

    /// Returns the server.
    fn peer(&self) -> &Peer;

    /// Returns the revision of the connection.
    fn version(&self) -> Version {
        self.peer().version
    }

    /// Returns the time of a clock that does not go back. In tests it may be virtual.
    fn now(&self) -> Instant;

    /// Returns the maximum number of bytes of a list, over all of its pages.
    fn max_list_bytes(&self) -> usize;
}
