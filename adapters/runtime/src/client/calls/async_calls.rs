//! Calls and commands of a client.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use std::time::Instant as StdInstant;

use mcp_proto::client::{CacheKey, CacheTicket, Engine, InputId, OutputMismatch, SubscriptionKey};
use mcp_proto::model::{
    CallToolParams, CallToolResult, CompleteParams, CompleteResult, CompletionArgument, CompletionReference,
    GetPromptParams, GetPromptResult, InputResponse, LoggingLevel, Map, ReadResourceParams,
    ReadResourceResult, RequestParams, lacks_content,
};
use mcp_proto::{CallOptions, Diagnostic, EncodeError, Progress, RawJson, RpcError, UseError};
use serde::Serialize;

use super::ClientBackend;
use super::commands::{Answer, Notify, Request, ToolCall};
use crate::client::handler::Callback;
use crate::error::{Error, OutputSchemaViolation};

/// The calls of an asynchronous client, which dereferences to them.
///
/// Dropping the future of a call cancels the call.
#[derive(Clone, Debug)]
pub struct AsyncCalls<B> {
    pub(super) backend: B,
}

impl<B> AsyncCalls<B> {
    /// Creates the calls over a connection, as the client of an adapter does.
    #[must_use]
    pub const fn new(backend: B) -> Self {
        Self { backend }
    }

    /// Returns the connection.
    #[must_use]
    pub const fn backend(&self) -> &B {
        &self.backend
    }

    /// Returns the connection, for its exclusive use.
    #[must_use]
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
        self.check_outside(method, params)?;
        let options = &*self.request_options(method, options);
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
        on_progress: &mut (impl FnMut(&Progress) + ?Sized),
    ) -> Result<RawJson, Error> {
        self.check_outside(method, params)?;
        let options = &self.request_options(method, options).into_owned().with_progress();
        self.perform(Request { method, params, options }, true, on_progress).await
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
        self.backend.result(call, |_| {}).await?;
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
        self.check_request(method, params)?;
        let options = &*self.request_options(method, options);
        self.backend.begin(false, Request { method, params, options })
    }

    /// Starts the call of a tool without waiting for its result; otherwise as [`start`](Self::start).
    ///
    /// It may follow a task, as [`call_tool`](Self::call_tool) does. A tool of a server of 2025-11-25 that must run as a
    /// task needs a list of tools before ([`list_tools`](Self::list_tools)), and so does any tool if there are
    /// [pins](Self::pin). It passes no layers.
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
        self.check_pin(name)?;
        let task = self.backend.result_cache().task_request(name, None);
        let options = &*self.tool_options(options);
        self.backend.begin(false, ToolCall { name, arguments, task, options })
    }
}

/// # Commands
impl<B: ClientBackend> AsyncCalls<B> {
    /// Answers an input request that [`ClientHandler::input`](crate::client::ClientHandler::input) left open.
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

    /// Refuses an input request that [`ClientHandler::input`](crate::client::ClientHandler::input) left open.
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

    /// Notifies the server that the result of [`ClientHandler::roots`](crate::client::ClientHandler::roots) has
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

// Typed calls: tools, resources, prompts, completions, and any request with its result.

/// # Typed calls
impl<B: ClientBackend> AsyncCalls<B> {
    /// Calls a tool and waits for its result.
    ///
    /// `arguments` must serialize to a JSON object. [`is_failure`](CallToolResult::is_failure) tells whether the tool
    /// failed. Read a structured result with [`parse_structured`](CallToolResult::parse_structured).
    ///
    /// With [`Config::tasks`](mcp_proto::client::Config::tasks) the server may run the tool as a task, which the call
    /// follows to its result: it polls, passes questions to
    /// [`ClientHandler::input`](crate::client::ClientHandler::input) and states to
    /// [`task_changed`](crate::client::ClientHandler::task_changed). A server of 2025-11-25 is asked for a task
    /// only for tools that require one; the list of tools tells which do, and is requested before the first call. A call that times out or is dropped cancels its task. Without a total timeout of its own
    /// ([`CallOptions::total_timeout`](mcp_proto::CallOptions::total_timeout)) the call may take as long as
    /// [`TaskPolling::max_wait`](mcp_proto::client::TaskPolling::max_wait) says, from the creation of the task on.
    ///
    /// ```no_run
    /// # use mcp_runtime::client::{AsyncCalls, ClientBackend};
    /// #[derive(serde::Deserialize)]
    /// struct Sum {
    ///     sum: f64,
    /// }
    /// # async fn example(client: &AsyncCalls<impl ClientBackend>) -> Result<(), mcp_runtime::Error> {
    /// let arguments = serde_json::json!({"a": 20, "b": 22});
    /// let result = client.call_tool("add", &arguments).await?;
    /// let Sum { sum } = result.parse_structured().expect("a sum");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Error::Call`]: the server answered with an error, or the call timed out.
    /// - [`Error::UnexpectedResult`]: the result cannot be read.
    /// - [`Error::OutputSchemaViolation`]: the result violates the tool's output schema (checked with a
    ///   [validator](crate::client::Options::validator)).
    /// - [`Error::Use`]: the call cannot be made.
    /// - [`Error::Closed`]: the connection has ended.
    pub async fn call_tool<T: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &T,
    ) -> Result<CallToolResult<'static>, Error> {
        let result = self.tool_result(name, arguments, &CallOptions::new(), false, |_| {}).await?;
        self.read_tool_result(name, &result)
    }

    /// Calls a tool as [`call_tool`](Self::call_tool) does, with options and with progress reported to `on_progress`.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool).
    pub async fn call_tool_with<T: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &T,
        options: &CallOptions,
        on_progress: &mut (impl FnMut(&Progress) + ?Sized),
    ) -> Result<CallToolResult<'static>, Error> {
        let result = self.call_tool_raw(name, arguments, options, on_progress).await?;
        self.read_tool_result(name, &result)
    }

    /// Calls a tool as [`call_tool_with`](Self::call_tool_with) does, and returns its result as it was received.
    ///
    /// It is not checked against the output schema.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request).
    pub async fn call_tool_raw<T: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &T,
        options: &CallOptions,
        on_progress: &mut (impl FnMut(&Progress) + ?Sized),
    ) -> Result<RawJson, Error> {
        self.tool_result(name, arguments, &options.clone().with_progress(), true, on_progress).await
    }

    /// Calls a tool, as a task if it requires one (TASK-007).
    async fn tool_result<T: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &T,
        options: &CallOptions,
        reports: bool,
        on_progress: impl FnMut(&Progress),
    ) -> Result<RawJson, Error> {
        // Servers refuse a plain call of such a tool in different ways. Without a list the tool is called plainly.
        if let Err(error @ Error::Io(_)) = self.learn_tool_tasks().await {
            // Reported once: the call would only say that the connection has ended.
            return Err(error);
        }
        self.learn_called(name).await?;
        let task = self.backend.result_cache().task_request(name, None);
        let options = &*self.tool_options(options);
        self.perform(ToolCall { name, arguments, task, options }, reports, on_progress).await
    }

    /// Reads the result of a tool and checks it against the output schema, if that is known.
    pub(super) fn read_tool_result(
        &self,
        name: &str,
        result: &RawJson,
    ) -> Result<CallToolResult<'static>, Error> {
        let read = CallToolResult::from_result(result).map_err(|why| {
            let method = CallToolParams::METHOD;
            Error::UnexpectedResult(format!("the result of `{method}` cannot be read: {why}"))
        })?;
        if lacks_content(result) {
            self.backend.dispatch(Callback::Diagnostic(Diagnostic::MissingContent { tool: name.into() }));
        }
        match self.backend.result_cache().check_output(name, result) {
            Ok(()) => {}
            Err(OutputMismatch::Schema(why)) => {
                self.backend.dispatch(Callback::UnusableSchema(name.into(), why));
            }
            Err(OutputMismatch::Result(violations)) => {
                let violation = OutputSchemaViolation::new(name, read, violations);
                return Err(Error::OutputSchemaViolation(violation.into()));
            }
        }
        Ok(read)
    }

    /// Reads a resource.
    ///
    /// As [`send`](Self::send), it returns a cached result if there is a fresh one.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool).
    pub async fn read_resource(&self, uri: &str) -> Result<ReadResourceResult<'static>, Error> {
        self.send(&ReadResourceParams::new(uri)).await
    }

    /// Gets a prompt, filled in with arguments.
    ///
    /// `arguments` must serialize to a JSON object of strings, or to `null` for none.
    ///
    /// ```no_run
    /// # use mcp_runtime::client::{AsyncCalls, ClientBackend};
    /// # async fn example(client: &AsyncCalls<impl ClientBackend>) -> Result<(), mcp_runtime::Error> {
    /// let today = client.get_prompt("today", &()).await?;
    /// let arguments = serde_json::json!({"from": "Brest", "to": "Cork"});
    /// let plan = client.get_prompt("plan", &arguments).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool). `Use(Encode)` names an argument that is not a string.
    pub async fn get_prompt<T: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &T,
    ) -> Result<GetPromptResult<'static>, Error> {
        let params = prompt_params(name, arguments)?;
        self.send(&params).await
    }

    /// Returns completions of `value` for an argument of a prompt or a variable of a resource template.
    ///
    /// `reference` is a [`PromptReference`](mcp_proto::model::PromptReference) or a
    /// [`ResourceTemplateReference`](mcp_proto::model::ResourceTemplateReference). Since 2025-06-18 the request can
    /// contain the arguments that are filled in already (COMP-006):
    ///
    /// ```no_run
    /// use mcp_proto::model::{CompleteParams, CompletionArgument, CompletionContext, PromptReference};
    ///
    /// # use mcp_runtime::client::{AsyncCalls, ClientBackend};
    /// # async fn example(client: &AsyncCalls<impl ClientBackend>) -> Result<(), mcp_runtime::Error> {
    /// let argument = CompletionArgument::new("to", "C");
    /// let params = CompleteParams::new(PromptReference::new("plan"), argument)
    ///     .context(CompletionContext::new().arguments([("from", "Brest".into())]));
    /// let result = client.send(&params).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool).
    pub async fn complete<'a>(
        &self,
        reference: impl Into<CompletionReference<'a>>,
        argument: impl Into<Cow<'a, str>>,
        value: impl Into<Cow<'a, str>>,
    ) -> Result<CompleteResult, Error> {
        let params = CompleteParams::new(reference, CompletionArgument::new(argument, value));
        self.send(&params).await
    }

    /// Sends a typed request and waits for its typed result.
    ///
    /// Returns a cached result without a request if the server allowed caching and the result is still fresh
    /// ([`Options::cache`](crate::client::Options::cache)).
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool), except for [`Error::OutputSchemaViolation`]: output schemas are checked by
    /// the `call_tool` methods only.
    pub async fn send<R: RequestParams>(&self, params: &R) -> Result<R::Result, Error> {
        self.check_outside(R::METHOD, params)?;
        let plain = CallOptions::new();
        let (key, options) =
            (CacheKey::from_request(R::METHOD, params), &*self.request_options(R::METHOD, &plain));
        let fetched = self.fetch(key, Request { method: R::METHOD, params, options }).await?;
        let read = read::<R>(&fetched.result)?;
        self.backend.result_cache().insert(fetched.ticket, &fetched.result);
        Ok(read)
    }

    /// Sends a typed request as [`send`](Self::send) does, with options and with progress reported to `on_progress`.
    ///
    /// The cache is neither read nor written, because the result may depend on the options.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub async fn send_with<R: RequestParams>(
        &self,
        params: &R,
        options: &CallOptions,
        on_progress: &mut (impl FnMut(&Progress) + ?Sized),
    ) -> Result<R::Result, Error> {
        read::<R>(&self.request_with(R::METHOD, params, options, on_progress).await?)
    }

    /// Returns a fresh cached result, or the ticket for its result.
    pub(super) async fn lookup_cached(
        &self,
        key: CacheKey,
    ) -> Result<Result<RawJson, Option<CacheTicket>>, Error> {
        let found = self.backend.result_cache().lookup(key.clone());
        if found.is_err() {
            return Ok(found);
        }
        // A change notification that invalidates the entry may have arrived unread.
        self.backend.catch_up().await?;
        Ok(self.backend.result_cache().lookup(key))
    }
}

/// Reads a result as the type that its request declares.
///
/// # Errors
///
/// [`Error::UnexpectedResult`] if the result does not have that type.
pub(super) fn read<R: RequestParams>(result: &RawJson) -> Result<R::Result, Error> {
    R::read(result).map_err(|why| {
        Error::UnexpectedResult(format!("the result of `{}` cannot be read: {why}", R::METHOD))
    })
}

/// Creates the parameters of `prompts/get`.
///
/// `arguments` must serialize to a JSON object of strings, or to `null` for none.
///
/// # Errors
///
/// [`Error::Use`] if `arguments` cannot be serialized or an argument is not a string.
fn prompt_params<'a, T: Serialize + ?Sized>(
    name: &'a str,
    arguments: &T,
) -> Result<GetPromptParams<'a>, Error> {
    let encoded = RawJson::encode(arguments).map_err(|e| Error::Use(e.into()))?;
    let arguments: Option<Map<String>> = encoded.parse().map_err(|e| {
        Error::Use(UseError::Encode(EncodeError::Custom(format!("arguments of a prompt: {e}"))))
    })?;
    let mut params = GetPromptParams::new(name);
    params.arguments = arguments;
    Ok(params)
}
