//! Answers to calls: the handler of the entry, the hooks around it, and its result.

use alloc::format;

use mcp_proto::RpcError;
use mcp_proto::router::{self, CallTarget, Hook, HookContext, HookOutcome, PageCache, Route};
use mcp_proto::server::Call;

use super::entry_request::EntryRequest;
use super::entry_result::{HandlerResult, complete, misrouted_error};
use super::flavor::{Flavor, FunctionFlavor, FutureFlavor};
use super::layer::{LayerRef, Middleware, Next, intercept_future};
use super::updates::lock;
use super::{Router, RouterState};
use crate::adapter::server::cx::{Answered, AsyncCx, CallCx, Cx, RunningCall};
use crate::catch;

/// Remaining step of a routed call.
#[expect(clippy::large_enum_variant, reason = "one at a time, on the stack")]
enum Step<'a, F: Flavor> {
    Answered(Result<Answered, RpcError>),
    Run(Next<'a, F>, CallTarget<'a>, HookGuard<'a, F::Handler, Middleware<F>>),
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
            Step::Run(next, target, guard) => {
                let result = next.run_function(cx, EntryRequest::new(guard.context, &target));
                guard.finish(cx, &target, result)
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
            Step::Run(next, target, guard) => {
                let mut request = EntryRequest::new(guard.context, &target);
                let result = match next.split() {
                    // The outermost layer runs in this future.
                    (Some(LayerRef::Interceptor(interceptor)), inside) => {
                        intercept_future(interceptor, cx, &mut request, &inside).await
                    }
                    (layer, inside) => inside.start_at(layer, cx, request).await,
                };
                guard.finish(cx, &target, result)
            }
            Step::Fallback(fallback) => F::start_fallback(fallback, cx, call).await,
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
        let result = complete(cx, target, result);
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
