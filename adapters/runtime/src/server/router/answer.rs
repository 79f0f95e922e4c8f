//! Answers to calls: the handler of the entry, the hooks around it, and its result.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use core::panic::AssertUnwindSafe;
use core::pin::pin;
use std::panic::{catch_unwind, resume_unwind};

#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
use mcp_proto::model::{CallToolResult, CompleteResult, GetPromptResult, Map, ReadResourceResult};
use mcp_proto::router::{
    self, CallTarget, HandlerError, Hook, HookContext, HookOutcome, PageCache, ResourceTarget, Route, Subject,
};
use mcp_proto::server::{Call, Event, Notification};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Diagnostic, EncodeError, RawJson, RpcError};
use mcp_std::{catch, catch_async};

use super::flavor::{FallbackCall, Functions, Futures, Local, Shared, Sharing, StoredHandler};
use super::layer::{Middleware, Next, intercept_future};
use super::{Flavor, Router, RouterState};
use crate::server::attachments::Attachments;
use crate::server::cx::{Answered, AsyncCx, CallCx, Cx, RunningCall};
use crate::server::handler::{AsyncHandler, Handler, HandlerFailure};
use mcp_std::sync::lock;

/// Remaining step of a routed call.
#[expect(clippy::large_enum_variant, reason = "one at a time, on the stack")]
enum Step<'a, F: Flavor> {
    Answered(Result<Answered, RpcError>),
    Run(Next<'a, F>, CallTarget<'a>, HookGuard<'a, StoredHandler<F>, Middleware<F>>),
    Fallback(&'a F::Stored<FallbackCall>),
}

impl<F: Flavor> Router<F> {
    fn begin<'a, B: RunningCall>(
        &self,
        state: &'a RouterState<F>,
        cx: &mut CallCx<B>,
        call: &'a Call,
    ) -> Step<'a, F> {
        match state.core.route(call) {
            // Pages are encoded once per revision until something changes.
            Route::Answer(answer) => {
                let known = lock(&self.cache).find(call.version(), &answer).cloned();
                // Without the lock, because visibility functions may run.
                let page = known.or_else(|| {
                    let page = PageCache::prepare(call.version(), &answer)?;
                    if PageCache::may_insert(&answer) {
                        lock(&self.cache).insert(call.version(), &answer, page.clone());
                    }
                    Some(page)
                });
                Step::Answered(match page {
                    Some(page) => cx.complete_prepared(&page),
                    None => cx.complete(&answer),
                })
            }
            Route::Handle(work) => {
                let context = work.context();
                let next = Next::new(state.core.enclosing_hooks(&context), work.handler);
                Step::Run(next, work.target, HookGuard::new(&state.core, context))
            }
            Route::BeginTask => Step::Answered(cx.begin_task().map_or_else(Err, |()| Err(misrouted_error()))),
            Route::Refuse(error) => Step::Answered(Err(error)),
            _ => match &state.fallback {
                Some(fallback) => Step::Fallback(fallback),
                None => Step::Answered(Err(RpcError::method_not_found(call.method()))),
            },
        }
    }
}

impl<R: 'static, S: Sharing> Router<Functions<R, S>> {
    /// Answers a call with the handlers of `state`.
    pub(super) fn answer(
        &self,
        state: &RouterState<Functions<R, S>>,
        cx: &mut Cx<'_>,
        call: &Call,
    ) -> Result<Answered, RpcError> {
        match self.begin(state, cx, call) {
            Step::Answered(answer) => answer,
            Step::Run(next, target, guard) => {
                let result = next.run(cx, EntryRequest::new(guard.context, &target));
                guard.finish(cx, &target, result)
            }
            Step::Fallback(fallback) => fallback(cx, call),
        }
    }
}

impl<R: 'static, S: Sharing> Router<Futures<R, S>> {
    /// Answers a call with the handlers of `state`.
    pub(super) async fn answer_async(
        &self,
        state: &RouterState<Futures<R, S>>,
        cx: &mut AsyncCx,
        call: &Call,
    ) -> Result<Answered, RpcError> {
        match self.begin(state, cx, call) {
            Step::Answered(answer) => answer,
            Step::Run(next, target, guard) => {
                let mut request = EntryRequest::new(guard.context, &target);
                let result = match next.split() {
                    // The outermost layer runs in this future.
                    (Some(Middleware::Interceptor(interceptor)), inside) => {
                        intercept_future(&**interceptor, cx, &mut request, &inside).await
                    }
                    (layer, inside) => inside.start_at(layer, cx, request).await,
                };
                guard.finish(cx, &target, result)
            }
            Step::Fallback(fallback) => fallback(cx, call).await,
        }
    }
}

/// Reports the outcome of a call to the hooks, even if its handler panics or is dropped.
#[derive(Debug)]
struct HookGuard<'a, H, M: Hook> {
    router: &'a router::Router<H, M>,
    context: HookContext<'a>,
    is_finished: bool,
}

impl<'a, H, M: Hook> HookGuard<'a, H, M> {
    /// Creates the guard before the handler runs.
    const fn new(router: &'a router::Router<H, M>, context: HookContext<'a>) -> Self {
        Self { router, context, is_finished: false }
    }

    /// Completes the call with the result of its handler, reports the outcome to the hooks, and returns the answer.
    ///
    /// # Errors
    ///
    /// The error for the client.
    fn finish<B: RunningCall>(
        mut self,
        cx: &mut CallCx<B>,
        target: &CallTarget<'_>,
        result: HandlerResult,
    ) -> Result<Answered, RpcError> {
        // The result is sent first: hooks are told if that fails.
        let result = complete(cx, target, result);
        // Before the hooks run: after a panic of one of them, `drop` must not run them again.
        self.is_finished = true;
        self.router.finish(
            self.context,
            match &result {
                _ if cx.is_cancelled() => HookOutcome::Cancelled,
                _ if cx.is_awaiting_input() => HookOutcome::InputRequired,
                _ if cx.is_becoming_task() => HookOutcome::TaskBegun,
                Ok((_, true)) => HookOutcome::ToolFailed,
                Ok((_, false)) => HookOutcome::Completed,
                Err(error) => HookOutcome::Failed(error),
            },
        );
        result.map(|(answered, _)| answered)
    }
}

impl<H, M: Hook> Drop for HookGuard<'_, H, M> {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        let target = self.context.call().describe_target();
        let panicked = RpcError::internal(format!("the handler of {target} panicked"));
        let outcome =
            if std::thread::panicking() { HookOutcome::Failed(&panicked) } else { HookOutcome::Cancelled };
        // A hook that panics during a panic would abort the process.
        let _ = catch(|| self.router.finish(self.context, outcome));
    }
}

// Results of handlers, and how calls are completed with them.

/// Result of the handler of an entry, by the kind of the entry.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EntryResult {
    /// Result of a tool.
    Tool(CallToolResult<'static>),
    /// Contents of a resource.
    Resource(ReadResourceResult<'static>),
    /// Messages of a prompt.
    Prompt(GetPromptResult<'static>),
    /// Suggestions for an argument or a variable.
    Completion(CompleteResult),
}

impl EntryResult {
    /// Returns the result as JSON, in the form of the newest revision.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if a part of it cannot be expressed as JSON.
    pub fn encode(&self) -> Result<RawJson, EncodeError> {
        match self {
            Self::Tool(result) => RawJson::encode(result),
            Self::Resource(result) => RawJson::encode(result),
            Self::Prompt(result) => RawJson::encode(result),
            Self::Completion(result) => RawJson::encode(result),
        }
    }

    /// Returns the size as JSON in bytes, if it can be expressed as JSON.
    pub(in crate::server) fn encoded_len(&self) -> Option<usize> {
        self.encode().ok().map(|json| json.as_bytes().len())
    }
}

/// Outcome of the handler of an entry.
pub type HandlerResult = Result<EntryResult, HandlerError>;

/// Completes a call with the outcome of its handler. Returns the answer and whether it reports a tool failure.
///
/// # Errors
///
/// The error for the client: the handler failed, its result violates a schema, or it cannot be sent.
pub(super) fn complete<B: RunningCall>(
    cx: &mut CallCx<B>,
    target: &CallTarget<'_>,
    result: HandlerResult,
) -> Result<(Answered, bool), RpcError> {
    match (target, result) {
        (CallTarget::Tool(target), Ok(EntryResult::Tool(result))) => {
            if let Err(violation) = target.check(&result) {
                let error = violation.to_rpc_error();
                cx.record_failure(HandlerFailure::InvalidToolOutput(violation));
                return Err(error);
            }
            Ok((cx.complete(&result)?, result.is_failure()))
        }
        (CallTarget::Resource(target), Ok(EntryResult::Resource(mut result))) => {
            complete_read(target, &mut result);
            Ok((cx.complete(&result)?, false))
        }
        (CallTarget::Prompt(_), Ok(EntryResult::Prompt(result))) => Ok((cx.complete(&result)?, false)),
        (CallTarget::Completion(_), Ok(EntryResult::Completion(result))) => {
            Ok((cx.complete(&result)?, false))
        }
        (_, Ok(_)) => Err(misrouted_error()),
        (target, Err(error)) => {
            record_error(cx, &error);
            if !matches!(target, CallTarget::Tool(_)) {
                return Err(error.into_rpc_error());
            }
            Ok((cx.complete(&error.into_result()?)?, true))
        }
    }
}

/// Adds the cache hint of the resource and the metadata of a page if the result has none; a result that depends on its caller
/// is not public.
fn complete_read(target: &ResourceTarget<'_>, result: &mut ReadResourceResult<'_>) {
    target.complete_page(result);
    if let Some(hint) = target.cache.filter(|_| result.ttl_ms.is_none() && result.cache_scope.is_none()) {
        result.ttl_ms = Some(hint.ttl_ms());
        result.cache_scope = Some(hint.scope());
    }
    // Last, because both the handler and the hint may have made it public.
    target.limit_sharing(result);
}

/// Records what the client is not told about an error.
fn record_error<B: RunningCall>(cx: &mut CallCx<B>, error: &HandlerError) {
    match error {
        HandlerError::Encode(error) => cx.record_failure(HandlerFailure::Encode(error.clone())),
        HandlerError::Failed(failure) if failure.has_causes() => {
            cx.record_failure(HandlerFailure::Failed(failure.clone()));
        }
        _ => {}
    }
}

/// Returns the error for a call that reached a handler of another kind.
pub(super) fn misrouted_error() -> RpcError {
    RpcError::internal("this handler is for something else")
}

// Requests as layers see them.

/// A call of an entry, as layers see it.
///
/// Its arguments match the schema of the tool, and required arguments of a prompt are there: calls without are answered
/// before layers run. A layer that runs its inside several times clones it.
#[derive(Clone, Debug)]
pub struct EntryRequest<'a> {
    context: HookContext<'a>,
    target: &'a CallTarget<'a>,
    /// Shared by clones: each layer has one.
    rewritten: Option<Arc<RewrittenArguments>>,
}

#[derive(Debug)]
enum RewrittenArguments {
    Tool(RawJson),
    Prompt(Map<String>),
}

impl<'a> EntryRequest<'a> {
    pub(super) const fn new(context: HookContext<'a>, target: &'a CallTarget<'a>) -> Self {
        Self { context, target, rewritten: None }
    }

    /// Returns the call.
    #[must_use]
    pub const fn call(&self) -> &'a Call {
        self.context.call()
    }

    /// Returns the kind of the entry and its name.
    #[must_use]
    pub const fn subject(&self) -> Subject<'a> {
        self.context.subject()
    }

    /// Returns the entry that the call addresses, with the arguments that the client sent.
    #[must_use]
    pub const fn target(&self) -> &'a CallTarget<'a> {
        self.target
    }

    /// Returns the arguments of a tool or a prompt: those of the client, or those that were [set](Self::set_arguments).
    /// `None` for resources and completions.
    #[must_use]
    pub fn arguments(&self) -> Option<RawJson> {
        match (self.rewritten.as_deref(), self.target) {
            (Some(RewrittenArguments::Tool(arguments)), _) => Some(arguments.clone()),
            (Some(RewrittenArguments::Prompt(arguments)), _) => RawJson::encode(arguments).ok(),
            (None, CallTarget::Tool(tool)) => Some(tool.raw_arguments()),
            (None, CallTarget::Prompt(prompt)) => RawJson::encode(&prompt.arguments).ok(),
            _ => None,
        }
    }

    /// Replaces the arguments of a tool or a prompt for the layers inside and for the handler.
    ///
    /// # Errors
    ///
    /// The request is unchanged, and the error suits as the answer of the call:
    /// - `arguments` is not an object, or violates the schema of the tool;
    /// - it does not hold texts, or a required argument of the prompt is missing;
    /// - the entry is a resource or a completion, which have no arguments.
    pub fn set_arguments(&mut self, arguments: RawJson) -> Result<(), HandlerError> {
        let rewritten = match self.target {
            CallTarget::Tool(tool) => {
                tool.with_arguments(&arguments)?;
                RewrittenArguments::Tool(arguments)
            }
            CallTarget::Prompt(prompt) => {
                let read = arguments.parse::<Map<String>>();
                let read = read.map_err(|e| RpcError::invalid_params(format!("`params.arguments`: {e}")))?;
                RewrittenArguments::Prompt(prompt.with_arguments(read)?.arguments)
            }
            _ => return Err(RpcError::internal("only tools and prompts have arguments").into()),
        };
        self.rewritten = Some(Arc::new(rewritten));
        Ok(())
    }

    /// Returns whether its arguments were set.
    pub(super) const fn is_rewritten(&self) -> bool {
        self.rewritten.is_some()
    }

    /// Calls `run` with the target of the handler.
    pub(super) fn with_target<T>(&self, run: impl FnOnce(&CallTarget<'_>) -> T) -> Result<T, HandlerError> {
        match &self.rewritten {
            None => Ok(run(self.target)),
            Some(_) => self.rewritten_target().map(|target| run(&target)),
        }
    }

    /// Returns the target with the arguments that were set.
    pub(super) fn rewritten_target(&self) -> Result<CallTarget<'_>, HandlerError> {
        match (self.target, self.rewritten.as_deref()) {
            (CallTarget::Tool(tool), Some(RewrittenArguments::Tool(arguments))) => {
                let mut tool = *tool;
                tool.arguments = arguments.as_bytes();
                Ok(CallTarget::Tool(tool))
            }
            (CallTarget::Prompt(prompt), Some(RewrittenArguments::Prompt(arguments))) => {
                Ok(CallTarget::Prompt(prompt.with_arguments(arguments.clone())?))
            }
            _ => Err(misrouted_error().into()),
        }
    }
}

// Routers as handlers of servers.

impl<F: Flavor> Router<F> {
    /// Applies the scheduled updates and publishes the changes, while other calls keep the state with which they
    /// started. Updates that the caller scheduled are applied on return.
    fn apply_pending_updates<B: RunningCall>(&self, cx: &mut CallCx<B>) {
        if self.updates.0.is_empty() {
            return;
        }
        // One thread at a time.
        let _guard = lock(&self.update_lock);
        let mut next = Self::from_state(self.state.load(), self.updates.0.clone());
        let changes = next.apply_updates(self.updates.0.take(), cx.running_call());
        self.state.store(next.state.load());
        for change in changes {
            cx.publish(change);
        }
    }

    /// Reports a failure to the author of the handlers; see [`Handler::failed`].
    pub fn handle_failure(&self, call: &Call, failure: &HandlerFailure) {
        self.state.load().report_failure(call, failure);
    }

    /// Visits the name and the input schema of each tool; see [`Handler::for_each_tool`].
    pub fn for_each_tool(&self, visit: &mut dyn FnMut(&str, &RawJson)) {
        self.state.load().core.tools().for_each(|tool| visit(&tool.name, &tool.input_schema));
    }

    /// Returns the tasks and extensions of the router; see [`Handler::attachments`].
    pub fn attachments(&self) -> Attachments {
        let state = self.state.load();
        state.attachments.clone().with_repeatable_tools(state.core.repeatable_tools().map(Box::from))
    }

    /// Takes an event other than a call; see [`Handler::event`].
    pub fn handle_event(&self, event: &Event) {
        if let Some(observer) = &self.state.load().observers.on_interest {
            observer(&mut (), event);
        }
    }
}

impl<R: 'static> Router<Functions<R, Shared>> {
    /// Answers a call. Several threads may do so at a time; each call sees the router as it was when it arrived.
    ///
    /// # Errors
    ///
    /// The error for the client.
    pub fn handle_call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        let state = self.state.load();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.answer(&state, cx, call)));
        self.apply_pending_updates(cx);
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl<R: 'static> Handler for Router<Functions<R, Local>> {
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        self.start_serving();
        let state = self.state.load();
        // The caller catches the panic and keeps using the router, so pending updates are applied first.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.answer(&state, cx, call)));
        // Released, so that the update can modify the state in place instead of copying it.
        drop(state);
        let changes = self.updates.0.take();
        for change in self.apply_updates(changes, call) {
            cx.publish(change);
        }
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn notification(&mut self, notification: &Notification) {
        self.handle_notification(notification);
    }

    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        self.handle_diagnostic(diagnostic);
    }

    fn failed(&mut self, call: &Call, failure: &HandlerFailure) {
        self.handle_failure(call, failure);
    }

    fn tap(&mut self, record: &TapRecord) {
        self.handle_tap(record);
    }

    #[cfg(feature = "http")]
    fn head(&mut self, record: &HeadRecord) {
        self.handle_head(record);
    }

    fn for_each_tool(&mut self, visit: &mut dyn FnMut(&str, &RawJson)) {
        Self::for_each_tool(self, visit);
    }

    fn attachments(&mut self) -> Attachments {
        Self::attachments(self)
    }

    fn event(&mut self, event: &Event) {
        self.handle_event(event);
    }
}

impl<R: 'static, S: Sharing> AsyncHandler for Router<Futures<R, S>> {
    async fn call(&self, cx: &mut AsyncCx, call: &Call) -> Result<Answered, RpcError> {
        let state = self.state.load();
        let outcome = {
            // Pinned here, as it is large and would be moved into `catch_async`.
            let answer = pin!(self.answer_async(&state, cx, call));
            catch_async(answer).await
        };
        self.apply_pending_updates(cx);
        outcome.unwrap_or_else(|panic| resume_unwind(Box::new(panic.message().to_owned())))
    }

    fn notification(&self, notification: &Notification) {
        self.handle_notification(notification);
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        self.handle_diagnostic(diagnostic);
    }

    fn failed(&self, call: &Call, failure: &HandlerFailure) {
        self.handle_failure(call, failure);
    }

    fn tap(&self, record: &TapRecord) {
        self.handle_tap(record);
    }

    #[cfg(feature = "http")]
    fn head(&self, record: &HeadRecord) {
        self.handle_head(record);
    }

    fn for_each_tool(&self, visit: &mut dyn FnMut(&str, &RawJson)) {
        Self::for_each_tool(self, visit);
    }

    fn attachments(&self) -> Attachments {
        Self::attachments(self)
    }

    fn event(&self, event: &Event) {
        self.handle_event(event);
    }
}
