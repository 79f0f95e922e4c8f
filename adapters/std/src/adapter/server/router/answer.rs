//! Answers to calls: the handler of the entry, the hooks around it, and its result.

use alloc::format;

use mcp_proto::RpcError;
use mcp_proto::model::{CallToolResult, ReadResourceResult};
use mcp_proto::router::{
    self, CallTarget, HandlerError, Hook, HookContext, HookOutcome, PageCache, ResourceTarget, Route,
    ToolTarget,
};
use mcp_proto::server::Call;
use serde::Serialize;

use super::flavor::{Flavor, FunctionFlavor, FutureFlavor};
use super::updates::lock;
use super::{Router, RouterState};
use crate::adapter::server::cx::{Answered, AsyncCx, CallCx, Cx, RunningCall};
use crate::adapter::server::handler::HandlerFailure;
use crate::catch;

/// Outcome of a handler: the answer and whether it reports a tool failure.
pub type HandlerResult = Result<(Answered, bool), RpcError>;

/// Remaining step of a routed call.
#[expect(clippy::large_enum_variant, reason = "one at a time, on the stack")]
enum Step<'a, F: Flavor> {
    Answered(Result<Answered, RpcError>),
    Run(&'a F::Handler, CallTarget<'a>, HookGuard<'a, F::Handler, F::Hook>),
    Fallback(&'a F::Fallback),
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
                    lock(&self.cache).insert(call.version(), &answer, page.clone());
                    Some(page)
                });
                Step::Answered(match page {
                    Some(page) => cx.complete_prepared(&page),
                    None => cx.complete(&answer),
                })
            }
            Route::Handle(work) => {
                let guard = HookGuard::new(&state.core, work.context());
                Step::Run(work.handler, work.target, guard)
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

impl<F: FunctionFlavor> Router<F> {
    /// Answers a call with the handlers of `state`.
    pub(super) fn answer(
        &self,
        state: &RouterState<F>,
        cx: &mut Cx<'_>,
        call: &Call,
    ) -> Result<Answered, RpcError> {
        match self.begin(state, cx, call) {
            Step::Answered(answer) => answer,
            Step::Run(handler, target, guard) => {
                let result = handler(cx, target);
                guard.finish(cx, result)
            }
            Step::Fallback(fallback) => fallback(cx, call),
        }
    }
}

impl<F: FutureFlavor> Router<F> {
    /// Answers a call with the handlers of `state`.
    pub(super) async fn answer_async(
        &self,
        state: &RouterState<F>,
        cx: &mut AsyncCx,
        call: &Call,
    ) -> Result<Answered, RpcError> {
        match self.begin(state, cx, call) {
            Step::Answered(answer) => answer,
            Step::Run(handler, target, guard) => {
                let result = F::start(handler, cx, target).await;
                guard.finish(cx, result)
            }
            Step::Fallback(fallback) => F::start_fallback(fallback, cx, call).await,
        }
    }
}

/// Reports the outcome of a call to the hooks, even if its handler panics or is dropped.
#[derive(Debug)]
struct HookGuard<'a, H, M: Hook>(&'a router::Router<H, M>, Option<HookContext<'a>>);

impl<'a, H, M: Hook> HookGuard<'a, H, M> {
    /// Creates the guard before the handler runs.
    const fn new(router: &'a router::Router<H, M>, context: HookContext<'a>) -> Self {
        Self(router, Some(context))
    }

    /// Reports the outcome to the hooks and returns the answer.
    ///
    /// # Errors
    ///
    /// The error of the handler.
    fn finish<B: RunningCall>(mut self, cx: &CallCx<B>, result: HandlerResult) -> Result<Answered, RpcError> {
        if let Some(context) = self.1.take() {
            self.0.finish(
                context,
                match &result {
                    _ if cx.is_cancelled() => HookOutcome::Cancelled,
                    _ if cx.is_awaiting_input() => HookOutcome::InputRequired,
                    _ if cx.is_becoming_task() => HookOutcome::TaskBegun,
                    Ok((_, true)) => HookOutcome::ToolFailed,
                    Ok((_, false)) => HookOutcome::Completed,
                    Err(error) => HookOutcome::Failed(error),
                },
            );
        }
        result.map(|(answered, _)| answered)
    }
}

impl<H, M: Hook> Drop for HookGuard<'_, H, M> {
    fn drop(&mut self) {
        if let Some(context) = self.1.take() {
            let panicked =
                RpcError::internal(format!("the handler of {} panicked", context.call().describe_target()));
            let outcome = if std::thread::panicking() {
                HookOutcome::Failed(&panicked)
            } else {
                HookOutcome::Cancelled
            };
            // A hook that panics during a panic would abort the process.
            let _ = catch(|| self.0.finish(context, outcome));
        }
    }
}

/// Returns the error for a call that reached a handler of another kind.
pub(super) fn misrouted_error() -> RpcError {
    RpcError::internal("this handler is for something else")
}

/// Answers with the result of a tool, after checking it against the output schema.
///
/// # Errors
///
/// The error for the client: the handler failed, the result violates the schema, or it cannot be sent.
pub(super) fn complete_tool<B: RunningCall>(
    cx: &mut CallCx<B>,
    target: &ToolTarget<'_>,
    result: Result<CallToolResult<'static>, HandlerError>,
) -> HandlerResult {
    let result = match result {
        Ok(result) => {
            if let Err(violation) = target.check(&result) {
                let error = violation.to_rpc_error();
                cx.record_failure(HandlerFailure::InvalidToolOutput(violation));
                return Err(error);
            }
            result
        }
        Err(error) => {
            record_error(cx, &error);
            error.into_result()?
        }
    };
    let answered = cx.complete(&result)?;
    Ok((answered, result.is_failure()))
}

/// Answers with the contents of a resource. Adds the cache hint of the resource and the metadata of a page if the result
/// has none.
///
/// # Errors
///
/// The error for the client: the handler failed, or the result cannot be sent.
pub(super) fn complete_read<B: RunningCall>(
    cx: &mut CallCx<B>,
    target: &ResourceTarget<'_>,
    result: Result<ReadResourceResult<'_>, HandlerError>,
) -> HandlerResult {
    let result = result.map(|mut result| {
        target.complete_page(&mut result);
        if let Some(hint) = target.cache.filter(|_| result.ttl_ms.is_none() && result.cache_scope.is_none()) {
            result.ttl_ms = Some(hint.ttl_ms());
            result.cache_scope = Some(hint.scope());
        }
        target.limit_sharing(&mut result);
        result
    });
    complete(cx, result)
}

/// Answers with the result of a handler.
///
/// # Errors
///
/// The error for the client: the handler failed, or the result cannot be sent.
pub(super) fn complete<B: RunningCall, T: Serialize>(
    cx: &mut CallCx<B>,
    result: Result<T, HandlerError>,
) -> HandlerResult {
    match result {
        Ok(result) => cx.complete(&result).map(|answered| (answered, false)),
        Err(error) => {
            record_error(cx, &error);
            Err(error.into_rpc_error())
        }
    }
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
