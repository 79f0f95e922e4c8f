//! The calls of a client as plain functions.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io;

use mcp_extensions::pins::Pins;
use mcp_extensions::skills::Skill;
#[cfg(feature = "skills")]
use mcp_extensions::skills::SkillContent;
use mcp_proto::client::{InputId, Keystroke, Peer, StartedTask, SubscriptionKey, TaskHandle};
use mcp_proto::model::{
    CallToolResult, CompleteParams, CompleteResult, CompletionReference, GetPromptResult, InputResponse,
    InputResponses, LoggingLevel, Prompt, ReadResourceResult, RequestParams, Resource, ResourceTemplate,
    Task, Tool,
};
use mcp_proto::{CallOptions, EntryKind, Progress, RawJson, RpcError, UseError};
use serde::Serialize;

use super::{AsyncCalls, ClientBackend};
use crate::client::SharedCompleter;
use crate::error::Error;

/// The calls of a client that blocks, which dereferences to them.
///
/// They are those of [`AsyncCalls`], whose futures are ready at once because the backend blocks.
#[derive(Clone, Debug)]
pub struct BlockingCalls<B> {
    pub(super) calls: AsyncCalls<B>,
}

impl<B> BlockingCalls<B> {
    /// Creates the calls over a connection whose operations block, as the client of an adapter does.
    #[must_use]
    pub const fn new(backend: B) -> Self {
        Self { calls: AsyncCalls::new(backend) }
    }

    /// Returns the connection.
    #[must_use]
    pub const fn backend(&self) -> &B {
        self.calls.backend()
    }

    /// Returns the connection, for its exclusive use.
    #[must_use]
    pub const fn backend_mut(&mut self) -> &mut B {
        self.calls.backend_mut()
    }
}

/// # One call at a time
impl<B: ClientBackend> BlockingCalls<B> {
    /// Sends a request and waits for its result, a JSON object that is returned unchanged.
    ///
    /// `params` must serialize to a JSON object. Use [`send`](Self::send) for typed parameters and results.
    ///
    /// # Errors
    ///
    /// - [`Error::Call`]: the server answered with an error, or the call timed out.
    /// - [`Error::Use`]: the call cannot be made.
    /// - [`Error::Closed`]: the connection has ended.
    pub fn request<T: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &T,
        options: &CallOptions,
    ) -> Result<RawJson, Error> {
        complete(self.calls.request(method, params, options))
    }

    /// Sends a request as [`request`](Self::request) does, with progress reported to `on_progress`.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request).
    pub fn request_with<T: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &T,
        options: &CallOptions,
        on_progress: &mut (impl FnMut(&Progress) + ?Sized),
    ) -> Result<RawJson, Error> {
        complete(self.calls.request_with(method, params, options, on_progress))
    }

    /// Sends a `ping` and returns the time until its response.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request).
    pub fn ping(&self) -> Result<Duration, Error> {
        complete(self.calls.ping())
    }
}

/// # Several calls at once
impl<B: ClientBackend> BlockingCalls<B> {
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
        self.calls.start(method, params, options)
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
        self.calls.start_tool(name, arguments, options)
    }
}

/// # Commands
impl<B: ClientBackend> BlockingCalls<B> {
    /// Answers an input request that [`ClientHandler::input`](crate::client::ClientHandler::input) left open.
    ///
    /// [`InputRequest::check_response`](mcp_proto::model::InputRequest) tells whether a response matches its form.
    ///
    /// # Errors
    ///
    /// - [`Error::Use`]: the input request is gone or was answered before, or the response is invalid in itself. In
    ///   the last case the input request stays open.
    /// - Otherwise as [`start`](Self::start).
    pub fn answer(&self, input: InputId, response: &InputResponse<'_>) -> Result<(), Error> {
        complete(self.calls.answer(input, response))
    }

    /// Refuses an input request that [`ClientHandler::input`](crate::client::ClientHandler::input) left open.
    ///
    /// See [`Engine::refuse`](mcp_proto::client::Engine::refuse).
    ///
    /// # Errors
    ///
    /// As [`answer`](Self::answer).
    pub fn refuse(&self, input: InputId, error: &RpcError) -> Result<(), Error> {
        complete(self.calls.refuse(input, error))
    }

    /// Ends a subscription. The handler gets no more callbacks for it.
    ///
    /// # Errors
    ///
    /// - [`Error::Use`]: the subscription has ended already.
    /// - Otherwise as [`start`](Self::start).
    pub fn unsubscribe(&self, subscription: SubscriptionKey) -> Result<(), Error> {
        complete(self.calls.unsubscribe(subscription))
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
    pub fn roots_changed(&self) -> Result<(), Error> {
        complete(self.calls.roots_changed())
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
    pub fn set_log_level(&self, level: Option<LoggingLevel>) -> Result<(), Error> {
        complete(self.calls.set_log_level(level))
    }

    /// Sends a notification of the application.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn notify<T: Serialize + ?Sized>(&self, method: &str, params: Option<&T>) -> Result<(), Error> {
        complete(self.calls.notify(method, params))
    }
}

/// # Typed calls
impl<B: ClientBackend> BlockingCalls<B> {
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
    /// # use mcp_runtime::client::{BlockingCalls, ClientBackend};
    /// #[derive(serde::Deserialize)]
    /// struct Sum {
    ///     sum: f64,
    /// }
    /// # fn example(client: &BlockingCalls<impl ClientBackend>) -> Result<(), mcp_runtime::Error> {
    /// let arguments = serde_json::json!({"a": 20, "b": 22});
    /// let result = client.call_tool("add", &arguments)?;
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
    pub fn call_tool<T: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &T,
    ) -> Result<CallToolResult<'static>, Error> {
        complete(self.calls.call_tool(name, arguments))
    }

    /// Calls a tool as [`call_tool`](Self::call_tool) does, with options and with progress reported to `on_progress`.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool).
    pub fn call_tool_with<T: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &T,
        options: &CallOptions,
        on_progress: &mut (impl FnMut(&Progress) + ?Sized),
    ) -> Result<CallToolResult<'static>, Error> {
        complete(self.calls.call_tool_with(name, arguments, options, on_progress))
    }

    /// Calls a tool for the page of an app of this server, if the tool permits it (APP-008).
    ///
    /// Whether it does is known from the list of tools, which is fetched when an app calls a tool for the first time, after
    /// it has changed, and for a tool that it lacks. Use the client of the server that the page came from: apps never call
    /// the tools of another server.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool), as [`list`](Self::list), and
    /// [`UseError::NotForApps`](mcp_proto::UseError::NotForApps) if apps may not call the tool.
    pub fn call_tool_for_app<T: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &T,
    ) -> Result<CallToolResult<'static>, Error> {
        complete(self.calls.call_tool_for_app(name, arguments))
    }

    /// Refuses calls of tools that are not as they were when `pins` were made, from now on, before anything is sent.
    ///
    /// Whether a tool is as it was is known from the list of tools. [`call_tool`](Self::call_tool) reads it, never from a cache, if it
    /// was not read before, has changed, or was read more than a minute ago; calls that do not wait
    /// ([`start_tool`](Self::start_tool)), and those that are made as any [`request`](Self::request), are refused then. A tool without
    /// a pin is refused as well. A call whose session an HTTP server has lost ends with
    /// [`HttpError::SessionLost`](mcp_proto::HttpError::SessionLost), and is never sent again in the next one: make it again, which
    /// reads the list of that. One that was checked in the lost session, and still waited for its first sending when that was lost, is
    /// sent in the next one.
    ///
    /// Names and definitions are those of the server, below the [layers](crate::client::Options::layer) of this client: what a layer
    /// renames or describes anew is compared as it is sent, and the list is read without layers.
    pub fn pin(&self, pins: Pins) {
        self.calls.pin(pins);
    }

    /// Reads the definitions of the server: all lists that it has, and its instructions. `peer` is that of the client.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list), and [`Error::UnexpectedResult`] if an entry cannot be pinned, or a list has more pages than are read.
    pub fn read_pins(&self, peer: &Peer) -> Result<Pins, Error> {
        complete(self.calls.read_pins(peer))
    }

    /// Calls a tool as [`call_tool_with`](Self::call_tool_with) does, and returns its result as it was received.
    ///
    /// It is not checked against the output schema.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request).
    pub fn call_tool_raw<T: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &T,
        options: &CallOptions,
        on_progress: &mut (impl FnMut(&Progress) + ?Sized),
    ) -> Result<RawJson, Error> {
        complete(self.calls.call_tool_raw(name, arguments, options, on_progress))
    }

    /// Reads a resource.
    ///
    /// As [`send`](Self::send), it returns a cached result if there is a fresh one.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool).
    pub fn read_resource(&self, uri: &str) -> Result<ReadResourceResult<'static>, Error> {
        complete(self.calls.read_resource(uri))
    }

    /// Gets a prompt, filled in with arguments.
    ///
    /// `arguments` must serialize to a JSON object of strings, or to `null` for none.
    ///
    /// ```no_run
    /// # use mcp_runtime::client::{BlockingCalls, ClientBackend};
    /// # fn example(client: &BlockingCalls<impl ClientBackend>) -> Result<(), mcp_runtime::Error> {
    /// let today = client.get_prompt("today", &())?;
    /// let arguments = serde_json::json!({"from": "Brest", "to": "Cork"});
    /// let plan = client.get_prompt("plan", &arguments)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool). `Use(Encode)` names an argument that is not a string.
    pub fn get_prompt<T: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &T,
    ) -> Result<GetPromptResult<'static>, Error> {
        complete(self.calls.get_prompt(name, arguments))
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
    /// # use mcp_runtime::client::{BlockingCalls, ClientBackend};
    /// # fn example(client: &BlockingCalls<impl ClientBackend>) -> Result<(), mcp_runtime::Error> {
    /// let argument = CompletionArgument::new("to", "C");
    /// let params = CompleteParams::new(PromptReference::new("plan"), argument)
    ///     .context(CompletionContext::new().arguments([("from", "Brest".into())]));
    /// let result = client.send(&params)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool).
    pub fn complete<'a>(
        &self,
        reference: impl Into<CompletionReference<'a>>,
        argument: impl Into<Cow<'a, str>>,
        value: impl Into<Cow<'a, str>>,
    ) -> Result<CompleteResult, Error> {
        complete(self.calls.complete(reference, argument, value))
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
    pub fn send<R: RequestParams>(&self, params: &R) -> Result<R::Result, Error> {
        complete(self.calls.send(params))
    }

    /// Sends a typed request as [`send`](Self::send) does, with options and with progress reported to `on_progress`.
    ///
    /// The cache is neither read nor written, because the result may depend on the options.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn send_with<R: RequestParams>(
        &self,
        params: &R,
        options: &CallOptions,
        on_progress: &mut (impl FnMut(&Progress) + ?Sized),
    ) -> Result<R::Result, Error> {
        complete(self.calls.send_with(params, options, on_progress))
    }
}

/// # Lists
impl<B: ClientBackend> BlockingCalls<B> {
    /// Returns all tools of the server, from all pages of the list.
    ///
    /// A tool that cannot be read is left out and reported to
    /// [`ClientHandler::diagnostic`](crate::client::ClientHandler::diagnostic), as
    /// [`UnreadableEntry`](mcp_proto::Diagnostic::UnreadableEntry). [`list`](Self::list) describes the bounds of a list
    /// and the use of the cache.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub fn list_tools(&self) -> Result<Vec<Tool>, Error> {
        complete(self.calls.list_tools())
    }

    /// Returns the tools for the model, without those that only apps may call (APP-007); otherwise as
    /// [`list_tools`](Self::list_tools).
    ///
    /// A tool whose `_meta.ui.visibility` cannot be read is left out and reported like one that cannot be read at all.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub fn list_model_tools(&self) -> Result<Vec<Tool>, Error> {
        complete(self.calls.list_model_tools())
    }

    /// Returns all resources of the server; otherwise as [`list_tools`](Self::list_tools).
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub fn list_resources(&self) -> Result<Vec<Resource>, Error> {
        complete(self.calls.list_resources())
    }

    /// Returns all resource templates of the server; otherwise as [`list_tools`](Self::list_tools).
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub fn list_resource_templates(&self) -> Result<Vec<ResourceTemplate>, Error> {
        complete(self.calls.list_resource_templates())
    }

    /// Returns all prompts of the server; otherwise as [`list_tools`](Self::list_tools).
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub fn list_prompts(&self) -> Result<Vec<Prompt>, Error> {
        complete(self.calls.list_prompts())
    }

    /// Returns the entries of the skills that the server lists, from all pages (SKILL-020).
    ///
    /// See [`AsyncCalls::list_skills`].
    ///
    /// # Errors
    ///
    /// As [`AsyncCalls::list_skills`].
    pub fn list_skills(&self) -> Result<Vec<Skill>, Error> {
        complete(self.calls.list_skills())
    }

    /// Returns the current entry of a skill, by the URI of its `SKILL.md` (SKILL-024).
    ///
    /// # Errors
    ///
    /// As [`AsyncCalls::get_skill`].
    pub fn get_skill(&self, uri: &str) -> Result<Skill, Error> {
        complete(self.calls.get_skill(uri))
    }

    /// Returns the files and directories directly in a directory of the server, from all pages (SKILL-040).
    ///
    /// See [`AsyncCalls::read_directory`].
    ///
    /// # Errors
    ///
    /// As [`AsyncCalls::read_directory`].
    pub fn read_directory(&self, uri: &str) -> Result<Vec<Resource>, Error> {
        complete(self.calls.read_directory(uri))
    }

    /// Reads a file of a skill, and verifies it against the entry of the skill (SKILL-030, SKILL-031, SKILL-032).
    ///
    /// See [`AsyncCalls::read_skill_file`].
    ///
    /// # Errors
    ///
    /// As [`AsyncCalls::read_skill_file`].
    #[cfg(feature = "skills")]
    pub fn read_skill_file(&self, skill: &Skill, file: &str) -> Result<SkillContent, Error> {
        complete(self.calls.read_skill_file(skill, file))
    }

    /// Returns all entries of a list of the server as raw JSON, from all pages.
    ///
    /// Stops at a list that looks endless, and returns the entries so far (PAGE-012). The bounds are a repeated cursor,
    /// [`Paginator::MAX_PAGES`](mcp_proto::client::Paginator::MAX_PAGES) pages, and four times
    /// [`Limits::max_frame`](mcp_proto::Limits) bytes.
    ///
    /// Fresh cached pages are used without a request ([`Options::cache`](crate::client::Options::cache)). If the
    /// server refuses the cursor of a cached page, all pages are requested again (CACHE-018).
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool), and [`Error::UnexpectedResult`] if a result does not contain the list.
    pub fn list(&self, kind: EntryKind) -> Result<Vec<RawJson>, Error> {
        complete(self.calls.list(kind))
    }
}

/// Returns the output of a future of a backend that blocks.
///
/// # Errors
///
/// [`Error::Io`] if the future is not ready, which is a bug of the backend: nothing would wake it.
pub(super) fn complete<T, E: From<Error>>(future: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => Err(E::from(Error::Io(io::Error::other(
            "internal error: a blocking client returned from a call without its outcome",
        )))),
    }
}

// Completion of a text while it is typed.

impl<B: ClientBackend> BlockingCalls<B> {
    /// Completes the text of an input field after a keystroke; `None` if another key was pressed before the result came.
    ///
    /// Call it after each keystroke with the same completer. It waits until nothing was typed for the
    /// [delay](mcp_proto::client::Completer::delay) of the completer, and then sends a request. Results are cached. With a client
    /// that threads share, call it on a thread that may wait: a call on another thread ends this wait. A request that was sent
    /// goes on, and its result is dropped. To wait elsewhere, drive a [`Completer`](mcp_proto::client::Completer) yourself.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn complete_typed(
        &self,
        completer: &SharedCompleter,
        params: &CompleteParams<'_>,
    ) -> Result<Option<CompleteResult>, Error> {
        let key = match completer.press(params).map_err(UseError::Encode)? {
            Keystroke::Known(result) => return Ok(Some(result)),
            Keystroke::Pending(key) => key,
        };
        if !completer.wait_and_begin(key) {
            return Ok(None);
        }
        let outcome = self.send(params);
        let is_wanted = completer.finish(key, outcome.as_ref().ok());
        if is_wanted { outcome.map(Some) } else { Ok(None) }
    }
}

// Tasks of a server as plain functions.

/// # Tasks
///
/// They need [`Config::tasks`](mcp_proto::client::Config::tasks).
impl<B: ClientBackend> BlockingCalls<B> {
    /// Calls a tool and returns as soon as it runs as a task.
    ///
    /// The handle can be written down ([`TaskHandle::to_text`]) and taken up by another process
    /// ([`resume_task`](Self::resume_task)). `ttl` asks a server of 2025-11-25 to keep the task for this time.
    ///
    /// A server without tasks, or one that makes no task of this call, runs the tool as usual: the call waits for the
    /// result, which is [`StartedTask::Done`]. In 2025-11-25 the list of tools tells whether a tool may run as a task; it
    /// is requested if it is not known.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool), and [`Error::Use`] with [`UseError::NotDeclared`](mcp_proto::UseError::NotDeclared) without
    /// [`Config::tasks`](mcp_proto::client::Config::tasks).
    pub fn start_task<T: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &T,
        ttl: Option<Duration>,
    ) -> Result<StartedTask, Error> {
        complete(self.calls.start_task(name, arguments, ttl))
    }

    /// Reads the handle of a task that [`TaskHandle::to_text`] has written, and checks that it is one of this server.
    ///
    /// Nothing is sent: [`get_task`](Self::get_task) tells whether the server still has the task.
    ///
    /// # Errors
    ///
    /// [`Error::Use`] with [`UseError::ForeignTask`](mcp_proto::UseError::ForeignTask), or [`UseError::NotDeclared`](mcp_proto::UseError::NotDeclared) without
    /// [`Config::tasks`](mcp_proto::client::Config::tasks).
    pub fn resume_task(&self, text: &str) -> Result<TaskHandle, Error> {
        self.calls.resume_task(text)
    }

    /// Waits for the result of a task; otherwise as [`call_tool`](Self::call_tool).
    ///
    /// A wait that times out or is dropped does not cancel the task: it can be waited for again, and its result can be
    /// read again while the server keeps it. The longest wait is
    /// [`TaskPolling::max_wait`](mcp_proto::client::TaskPolling::max_wait).
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool). [`Error::Call`] with [`CallError::TaskLost`](mcp_proto::CallError::TaskLost) if
    /// the server does not know the task any more, [`TaskCancelled`](mcp_proto::CallError::TaskCancelled) if it was
    /// cancelled, [`TaskExpired`](mcp_proto::CallError::TaskExpired) if its time has passed.
    pub fn wait_task(&self, task: &TaskHandle) -> Result<CallToolResult<'static>, Error> {
        complete(self.calls.wait_task(task))
    }

    /// Waits for the result of a task as [`wait_task`](Self::wait_task) does, with options: `total_timeout` bounds the
    /// wait, `timeout` each request.
    ///
    /// # Errors
    ///
    /// As [`wait_task`](Self::wait_task).
    pub fn wait_task_with(
        &self,
        task: &TaskHandle,
        options: &CallOptions,
    ) -> Result<CallToolResult<'static>, Error> {
        complete(self.calls.wait_task_with(task, options))
    }

    /// Returns the state of a task.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool). [`Error::Use`] with [`UseError::ForeignTask`](mcp_proto::UseError::ForeignTask) for a task of another server.
    pub fn get_task(&self, task: &TaskHandle) -> Result<Task<'static>, Error> {
        complete(self.calls.get_task(task))
    }

    /// Answers some or all input requests of a task (2026-07-28).
    ///
    /// Only for tasks that no call follows: [`call_tool`](Self::call_tool) and [`wait_task`](Self::wait_task) pass the
    /// questions to the handler.
    ///
    /// # Errors
    ///
    /// As [`get_task`](Self::get_task), and [`Error::Use`] in 2025-11-25, where questions are requests of the server.
    pub fn update_task(&self, task: &TaskHandle, responses: &InputResponses<'_>) -> Result<(), Error> {
        complete(self.calls.update_task(task, responses))
    }

    /// Asks the server to cancel a task.
    ///
    /// A server of 2025-11-25 refuses that for a task that has ended. One of 2026-07-28 confirms the wish only.
    ///
    /// # Errors
    ///
    /// As [`get_task`](Self::get_task).
    pub fn cancel_task(&self, task: &TaskHandle) -> Result<(), Error> {
        complete(self.calls.cancel_task(task))
    }
}
