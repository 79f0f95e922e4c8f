//! Layers: code around the handlers of entries.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use core::future::poll_fn;
use core::marker::PhantomData;
use core::ops::ControlFlow;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use core::time::Duration;

use mcp_proto::router::{EnclosingHooks, Failure, HandlerError, Hook, HookContext, HookOutcome};
use mcp_proto::{EntryKind, RpcError};

use super::Router;
use super::answer::{EntryRequest, HandlerResult};
use super::flavor::{
    Flavor, Function, Functions, Futures, HookCall, LayerCall, Local, Shared, Sharing, Starter, StoredCode,
    StoredHandler, StoredLayer,
};
use super::share::{SendCall, Shareable};
use crate::server::cx::{AsyncCx, CallCx, Cx, RunningCall};

/// A hook or a layer of a router of the flavour `F`, in the order in which they were added.
#[expect(unnameable_types, reason = "layers become it, and only routers have it")]
#[derive(Clone)]
pub enum Middleware<F: Flavor> {
    /// A hook.
    Hook(StoredCode<F, HookCall>),
    /// A closure around handlers.
    Layer(StoredLayer<F>),
    /// An interceptor.
    Interceptor(Arc<dyn ErasedInterceptor>),
}

/// A layer for [`Router::layer`]: an [`Interceptor`], for routers of every flavour, or a closure, made a layer by [`layer_fn`] or
/// [`async_layer_fn`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a layer of this router",
    label = "neither an `Interceptor`, nor a closure of the router's kind",
    note = "a closure is made a layer by `layer_fn` on a router of functions, and by `async_layer_fn` on a router of futures",
    note = "on a router of `Shared` handlers, the closure and its future have to be `Send`, and an async closure also `Clone`"
)]
pub trait Layer<F: Flavor> {
    /// Returns the stored form.
    fn into_middleware(self) -> Middleware<F>;
}

#[diagnostic::do_not_recommend]
impl<F: Flavor, I: Interceptor> Layer<F> for I {
    fn into_middleware(self) -> Middleware<F> {
        Middleware::Interceptor(Arc::new(self))
    }
}

/// A closure as a layer of routers of the flavour `F`.
pub struct LayerFn<F, L> {
    closure: L,
    flavor: PhantomData<F>,
}

impl<F, L> fmt::Debug for LayerFn<F, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayerFn").finish_non_exhaustive()
    }
}

/// Returns a function as a layer of a router of functions; see [Layers](Router#layers).
pub fn layer_fn<R, S, L>(closure: L) -> LayerFn<Functions<R, S>, L>
where
    R: 'static,
    S: Sharing,
    L: Fn(&mut Cx<'_>, EntryRequest<'_>, Next<'_, Functions<R, S>>) -> HandlerResult,
{
    LayerFn { closure, flavor: PhantomData }
}

/// Returns an async function as a layer of a router of futures; see [Layers](Router#layers).
pub fn async_layer_fn<R, S, L>(closure: L) -> LayerFn<Futures<R, S>, L>
where
    R: 'static,
    S: Sharing,
    L: AsyncFn(&mut AsyncCx, EntryRequest<'_>, Next<'_, Futures<R, S>>) -> HandlerResult,
{
    LayerFn { closure, flavor: PhantomData }
}

impl<R: 'static, S: Sharing, L> Layer<Functions<R, S>> for LayerFn<Functions<R, S>, L>
where
    L: Fn(&mut Cx<'_>, EntryRequest<'_>, Next<'_, Functions<R, S>>) -> HandlerResult + Shareable<S>,
{
    fn into_middleware(self) -> Middleware<Functions<R, S>> {
        Middleware::Layer(self.closure.store::<Function<LayerCall<Functions<R, S>>>>(
            |layer, cx, (request, next)| layer(cx, request, next),
        ))
    }
}

impl<R: 'static, L> Layer<Futures<R, Local>> for LayerFn<Futures<R, Local>, L>
where
    L: AsyncFn(&mut AsyncCx, EntryRequest<'_>, Next<'_, Futures<R, Local>>) -> HandlerResult + 'static,
{
    fn into_middleware(self) -> Middleware<Futures<R, Local>> {
        Middleware::Layer(Shareable::<Local>::store::<Starter<Local, LayerCall<Futures<R, Local>>>>(
            Rc::new(self.closure),
            |layer, cx, (request, next)| {
                let layer = layer.clone();
                Box::pin(async move { layer(cx, request, next).await })
            },
        ))
    }
}

#[diagnostic::do_not_recommend]
impl<R: 'static, L> Layer<Futures<R, Shared>> for LayerFn<Futures<R, Shared>, L>
where
    L: for<'a> SendCall<(&'a mut AsyncCx, EntryRequest<'a>, Next<'a, Futures<R, Shared>>), HandlerResult>,
{
    fn into_middleware(self) -> Middleware<Futures<R, Shared>> {
        Middleware::Layer(Shareable::<Shared>::store::<Starter<Shared, LayerCall<Futures<R, Shared>>>>(
            self.closure,
            |layer, cx, (request, next)| {
                let layer = layer.clone();
                Box::pin(async move { layer.call((cx, request, next)).await })
            },
        ))
    }
}

impl<F: Flavor> Hook for Middleware<F> {
    fn before_call(&self, context: &HookContext<'_>) -> Result<(), RpcError> {
        match self {
            Self::Hook(hook) => hook(&mut (), (context, None)),
            Self::Layer(_) | Self::Interceptor(_) => Ok(()),
        }
    }

    fn after_call(&self, context: &HookContext<'_>, outcome: HookOutcome<'_>) {
        if let Self::Hook(hook) = self {
            let _: Result<(), RpcError> = hook(&mut (), (context, Some(outcome)));
        }
    }
}

/// The inside of a layer: the layers after it, and the handler.
///
/// A layer runs it once, several times (to try again), or not at all (to refuse, or to answer from a cache).
#[derive(Clone)]
pub struct Next<'a, F: Flavor> {
    layers: EnclosingHooks<'a, Middleware<F>>,
    handler: &'a StoredHandler<F>,
}

impl<F: Flavor> fmt::Debug for Next<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("layers", &self.layers).finish_non_exhaustive()
    }
}

impl<'a, F: Flavor> Next<'a, F> {
    pub(super) const fn new(
        layers: EnclosingHooks<'a, Middleware<F>>,
        handler: &'a StoredHandler<F>,
    ) -> Self {
        Self { layers, handler }
    }

    /// Returns the next layer, and what is inside it.
    pub(super) fn split(&self) -> (Option<&'a Middleware<F>>, Self) {
        let mut rest = self.clone();
        let layer = rest.layers.find(|middleware| !matches!(middleware, Middleware::Hook(_)));
        (layer, rest)
    }
}

impl<R: 'static, S: Sharing> Next<'_, Functions<R, S>> {
    /// Runs the layers inside and the handler.
    ///
    /// # Errors
    ///
    /// The error of the handler, or of a layer. If [`Cx::is_awaiting_input`] or [`Cx::is_becoming_task`] returns
    /// `true` afterwards, the call is going to be delivered again, and its outcome of now is not sent.
    ///
    /// [`Cx::is_awaiting_input`]: crate::server::CallCx::is_awaiting_input
    /// [`Cx::is_becoming_task`]: crate::server::CallCx::is_becoming_task
    pub fn run(&self, cx: &mut Cx<'_>, request: EntryRequest<'_>) -> HandlerResult {
        match self.split() {
            (Some(Middleware::Layer(layer)), rest) => layer(cx, (request, rest)),
            (Some(Middleware::Interceptor(interceptor)), rest) => {
                intercept_function(&**interceptor, cx, request, &rest)
            }
            (Some(Middleware::Hook(_)) | None, _) => {
                request.with_target(|target| (self.handler)(cx, target))?
            }
        }
    }
}

impl<'a, R: 'static, S: Sharing> Next<'a, Futures<R, S>> {
    /// Runs the layers inside and the handler. Dropping the future drops them.
    ///
    /// # Errors
    ///
    /// The error of the handler, or of a layer. If [`Cx::is_awaiting_input`] or [`Cx::is_becoming_task`] returns
    /// `true` afterwards, the call is going to be delivered again, and its outcome of now is not sent.
    ///
    /// [`Cx::is_awaiting_input`]: crate::server::CallCx::is_awaiting_input
    /// [`Cx::is_becoming_task`]: crate::server::CallCx::is_becoming_task
    pub fn run<'r>(&self, cx: &'r mut AsyncCx, request: EntryRequest<'r>) -> NextFuture<'r, S>
    where
        'a: 'r,
    {
        let (layer, rest) = self.split();
        NextFuture(rest.start_at(layer, cx, request))
    }

    /// Starts a layer, or the handler if there is none. This is the inside of the layer.
    pub(super) fn start_at<'r>(
        self,
        layer: Option<&'a Middleware<Futures<R, S>>>,
        cx: &'r mut AsyncCx,
        request: EntryRequest<'r>,
    ) -> S::Future<'r, HandlerResult>
    where
        'a: 'r,
    {
        match layer {
            Some(Middleware::Layer(layer)) => layer(cx, (request, self)),
            Some(Middleware::Interceptor(interceptor)) => {
                S::start_inside::<R>(Some(&**interceptor), self, cx, request)
            }
            _ if request.is_rewritten() => S::start_inside::<R>(None, self, cx, request),
            _ => (self.handler)(cx, request.target()),
        }
    }
}

/// The future of the inside of a layer.
#[must_use = "futures do nothing unless they are polled"]
pub struct NextFuture<'a, S: Sharing>(S::Future<'a, HandlerResult>);

impl<S: Sharing> Future for NextFuture<'_, S> {
    type Output = HandlerResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<HandlerResult> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<S: Sharing> fmt::Debug for NextFuture<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextFuture").finish_non_exhaustive()
    }
}

/// Runs an interceptor and what is inside it, or a handler whose arguments a layer has rewritten. The future owns the request.
pub(super) async fn run_inside<R: 'static, S: Sharing>(
    interceptor: Option<&dyn ErasedInterceptor>,
    next: Next<'_, Futures<R, S>>,
    cx: &mut AsyncCx,
    mut request: EntryRequest<'_>,
) -> HandlerResult {
    match interceptor {
        Some(interceptor) => intercept_future(interceptor, cx, &mut request, &next).await,
        None => (next.handler)(cx, &request.rewritten_target()?).await,
    }
}

impl<F: Flavor> Router<F> {
    /// Adds a layer around the calls of all entries; see [Layers](Router#layers).
    pub fn layer(&mut self, layer: impl Layer<F>) -> &mut Self {
        self.add_middleware(layer.into_middleware())
    }

    /// Adds a layer around the calls of one entry, inside the layers of the router. It is dropped when the entry is
    /// removed.
    ///
    /// The layers of a prompt or a template also surround its completions. [`check`](Self::check) reports an entry
    /// that is not registered, and a skill, whose files are resources.
    pub fn layer_entry(&mut self, kind: EntryKind, name: &str, layer: impl Layer<F>) -> &mut Self {
        let added = self.state_mut().core.hook_entry(kind, name, layer.into_middleware()).map(drop);
        self.record(added)
    }

    pub(super) fn add_middleware(&mut self, middleware: Middleware<F>) -> &mut Self {
        self.state_mut().core.hook(middleware);
        self
    }
}

/// Runs an interceptor around functions.
fn intercept_function<R: 'static, S: Sharing>(
    interceptor: &dyn ErasedInterceptor,
    cx: &mut Cx<'_>,
    mut request: EntryRequest<'_>,
    next: &Next<'_, Functions<R, S>>,
) -> HandlerResult {
    let EnteredInterceptor { state, time_limit } = match interceptor.enter(cx, &mut request) {
        ControlFlow::Continue(entered) => entered,
        ControlFlow::Break(result) => return result,
    };
    let result = match time_limit {
        None => next.run(cx, request.clone()),
        Some(limit) => {
            let outer = cx.set_deadline(limit);
            let result = next.run(cx, request.clone());
            if cx.restore_deadline(outer) { Err(time_over(cx, limit)) } else { result }
        }
    };
    interceptor.leave(cx, &request, state, result)
}

/// Runs an interceptor around futures.
pub(super) async fn intercept_future<'r, R: 'static, S: Sharing>(
    interceptor: &dyn ErasedInterceptor,
    cx: &mut AsyncCx,
    request: &mut EntryRequest<'r>,
    next: &Next<'r, Futures<R, S>>,
) -> HandlerResult {
    let EnteredInterceptor { state, time_limit } = match interceptor.enter(&mut cx.reborrow(), request) {
        ControlFlow::Continue(entered) => entered,
        ControlFlow::Break(result) => return result,
    };
    let result = match time_limit {
        None => next.run(cx, request.clone()).await,
        Some(limit) => run_for(limit, cx, request.clone(), next).await,
    };
    interceptor.leave(&mut cx.reborrow(), request, state, result)
}

/// Runs the inside of an interceptor for `limit` at most.
async fn run_for<'r, R: 'static, S: Sharing>(
    limit: Duration,
    cx: &mut AsyncCx,
    request: EntryRequest<'r>,
    next: &Next<'r, Futures<R, S>>,
) -> HandlerResult {
    let mut timer = cx.start_timer(limit);
    let ended = {
        let mut inside = pin!(next.run(cx, request));
        poll_fn(|cx| match inside.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
        })
        .await
    };
    ended.unwrap_or_else(|| Err(time_over(cx, limit)))
}

/// Returns the error of an inside that took too long. Its questions are not sent.
fn time_over<B: RunningCall>(cx: &mut CallCx<B>, limit: Duration) -> HandlerError {
    cx.discard_pending();
    let text: Box<dyn core::error::Error> = format!("the call took longer than {limit:?}").into();
    Failure::new(&*text).into()
}

// Interceptors: layers that any router takes.

/// A layer for routers of every flavour: code before and after the layers inside and the handler.
///
/// It runs the inside at most once, and must not block on a router of futures. A layer that tries again, or that awaits
/// something, is a closure of one flavour: the page of the router describes both.
///
/// ```
/// # use mcp_runtime::server::router::{Functions, Local, Router};
/// use std::ops::ControlFlow;
/// use std::time::Instant;
/// use mcp_runtime::server::Cx;
/// use mcp_runtime::server::router::{EntryRequest, HandlerResult, Interceptor};
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
/// let mut router = Router::<Functions<(), Local>>::new("harbour", "1.0");
/// router.layer(Stopwatch);
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
#[expect(unnameable_types, reason = "a method of `Sharing`, for the flavours here, takes it")]
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
#[derive(Debug)]
pub struct EnteredInterceptor {
    /// The [`Interceptor::State`]. One without fields takes no memory.
    pub(super) state: Box<dyn Any + Send>,
    /// The [`Interceptor::time_limit`].
    pub(super) time_limit: Option<Duration>,
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
