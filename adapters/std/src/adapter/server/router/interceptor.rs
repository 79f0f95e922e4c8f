//! Interceptors: layers that any router takes.

use alloc::boxed::Box;
use core::any::Any;
use core::fmt;
use core::ops::ControlFlow;
use core::time::Duration;

use super::entry_request::EntryRequest;
use super::entry_result::HandlerResult;
use crate::adapter::server::cx::Cx;

/// A layer for routers of every flavour: code before and after the layers inside and the handler.
///
/// It runs the inside at most once, and must not block on a router of futures. A layer that tries again, or that awaits
/// something, is a closure of one flavour: the page of the router describes both.
///
/// ```
/// # use mcp_std::adapter::server::router::{Functions, RegisterFunctions, Router};
/// use std::ops::ControlFlow;
/// use std::time::Instant;
/// use mcp_std::adapter::server::Cx;
/// use mcp_std::adapter::server::router::{EntryRequest, HandlerResult, Interceptor};
///
/// /// Prints how long calls take.
/// struct Stopwatch;
///
/// impl Interceptor for Stopwatch {
///     type State = Instant;
///
///     fn before(&self, _: &mut Cx<'_>, _: &mut EntryRequest<'_>) -> ControlFlow<HandlerResult, Instant> {
///         ControlFlow::Continue(Instant::now())
///     }
///
///     fn after(&self, _: &mut Cx<'_>, request: &EntryRequest<'_>, start: Instant, result: HandlerResult) -> HandlerResult {
///         eprintln!("{:?}: {:?}", request.subject(), start.elapsed());
///         result
///     }
/// }
///
/// let mut router = Router::<Functions<()>>::new("harbour", "1.0");
/// router.intercept(Stopwatch);
/// ```
pub trait Interceptor: Send + Sync + 'static {
    /// Value that lives as long as the inside runs.
    ///
    /// It is dropped without [`after`](Self::after) if the inside panics or is dropped, for example when the call is cancelled.
    type State: Send + 'static;

    /// Runs before the inside, and may rewrite the arguments.
    ///
    /// [`Break`](ControlFlow::Break) is the result instead of that of the inside, which does not run; `after` does not run
    /// either.
    fn before(
        &self,
        cx: &mut Cx<'_>,
        request: &mut EntryRequest<'_>,
    ) -> ControlFlow<HandlerResult, Self::State>;

    /// Runs after the inside, and returns its result or another one.
    ///
    /// If [`is_awaiting_input`](Cx::is_awaiting_input) or [`is_becoming_task`](Cx::is_becoming_task) returns `true`,
    /// the call is going to be delivered again, and no result of now is sent.
    ///
    /// # Errors
    ///
    /// The error of the inside, or another one.
    fn after(
        &self,
        cx: &mut Cx<'_>,
        request: &EntryRequest<'_>,
        state: Self::State,
        result: HandlerResult,
    ) -> HandlerResult {
        let _ = (cx, request, state);
        result
    }

    /// Returns how long the inside may take. It is called once, after `before`; by default there is no limit.
    ///
    /// Then the inside has failed. A future is dropped. A function goes on, and learns it from the errors of
    /// [`checkpoint`](Cx::checkpoint), [`progress`](Cx::progress) and [`sleep`](Cx::sleep); its result is replaced
    /// by the error when it returns. A function on a router of futures is not interrupted, and its result counts.
    fn time_limit(&self, request: &EntryRequest<'_>) -> Option<Duration> {
        let _ = request;
        None
    }
}

/// An interceptor in the form in which routers store it.
#[expect(unnameable_types, reason = "a method of `FutureFlavor`, for the flavours here, takes it")]
pub trait ErasedInterceptor: Send + Sync {
    /// Runs the part before the inside.
    fn enter(
        &self,
        cx: &mut Cx<'_>,
        request: &mut EntryRequest<'_>,
    ) -> ControlFlow<HandlerResult, EnteredInterceptor>;

    /// Runs the part after the inside, with the state of [`enter`](Self::enter).
    fn leave(
        &self,
        cx: &mut Cx<'_>,
        request: &EntryRequest<'_>,
        state: Box<dyn Any + Send>,
        result: HandlerResult,
    ) -> HandlerResult;
}

/// An interceptor whose inside runs.
#[expect(unnameable_types, reason = "only routers have it")]
pub struct EnteredInterceptor {
    /// The [`Interceptor::State`]. One without fields takes no memory.
    pub(super) state: Box<dyn Any + Send>,
    /// The [`Interceptor::time_limit`].
    pub(super) time_limit: Option<Duration>,
}

impl fmt::Debug for EnteredInterceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnteredInterceptor").field("time_limit", &self.time_limit).finish_non_exhaustive()
    }
}

impl<I: Interceptor> ErasedInterceptor for I {
    fn enter(
        &self,
        cx: &mut Cx<'_>,
        request: &mut EntryRequest<'_>,
    ) -> ControlFlow<HandlerResult, EnteredInterceptor> {
        match self.before(cx, request) {
            ControlFlow::Continue(state) => ControlFlow::Continue(EnteredInterceptor {
                state: Box::new(state),
                time_limit: self.time_limit(request),
            }),
            ControlFlow::Break(result) => ControlFlow::Break(result),
        }
    }

    fn leave(
        &self,
        cx: &mut Cx<'_>,
        request: &EntryRequest<'_>,
        state: Box<dyn Any + Send>,
        result: HandlerResult,
    ) -> HandlerResult {
        match state.downcast::<I::State>() {
            Ok(state) => self.after(cx, request, *state, result),
            // Not the state of this interceptor, which its callers rule out.
            Err(_) => result,
        }
    }
}
