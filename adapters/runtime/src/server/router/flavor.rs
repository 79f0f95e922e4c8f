//! Flavours of routers: functions or futures, for one thread or for several.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::marker::PhantomData;
use core::ops::Deref;
use core::pin::Pin;

use mcp_proto::RpcError;
use mcp_proto::router::{CallTarget, Hook};
use mcp_proto::server::Call;

use super::Router;
use super::answer::{EntryRequest, HandlerResult};
use super::layer::{ErasedInterceptor, Next, intercept_future};
use crate::server::cx::{Answered, AsyncCx, Cx};
use crate::server::handler::HandlerFailure;

/// The kind of the handlers of a [`Router`], with the types in which it stores them.
///
/// A flavour names the adapter `R` that serves its routers.
pub trait Flavor: Sized + 'static {
    /// The adapter that serves routers of this flavour.
    type Adapter: 'static;
    /// Handler of an entry.
    type Handler: Clone;
    /// Handler of requests that no entry takes.
    type Fallback: Clone;
    /// Observer of calls.
    type Hook: Hook + Clone;
    /// Code around the handlers of entries.
    type Layer: Clone;
    /// Callback for the first subscription and the end of the last subscription of a URI.
    type OnInterest: Clone + Deref<Target: Fn(&str, bool)>;
    /// Callback for failures of handlers, with details that the client does not get.
    type OnFailure: Clone + Deref<Target: Fn(&Call, &HandlerFailure)>;
    /// Callback for what a server learns beside calls: notifications, deviations of clients, copies of messages.
    type Observer<T: 'static>: Clone + Deref<Target: Fn(&T)>;
    /// Change of the router that is applied between two calls.
    type Update: FnOnce(&mut Router<Self>);

    /// Returns the handler that runs a function.
    fn from_function(function: SharedFunction) -> Self::Handler;

    /// Returns the hook in the form in which the router stores it.
    fn from_hook(hook: Arc<dyn Hook + Send + Sync>) -> Self::Hook;
}

/// A flavour whose handlers are functions.
pub trait FunctionFlavor:
    Flavor<
        Handler: Deref<Target: Fn(&mut Cx<'_>, &CallTarget<'_>) -> HandlerResult>,
        Layer: Deref<Target: Fn(&mut Cx<'_>, EntryRequest<'_>, Next<'_, Self>) -> HandlerResult>,
        Fallback: Deref<Target: Fn(&mut Cx<'_>, &Call) -> Result<Answered, RpcError>>,
    >
{
}

/// A flavour whose handlers are futures.
pub trait FutureFlavor: Flavor {
    /// Future of a running handler.
    type Future<'a, T: 'a>: Future<Output = T> + 'a;

    /// Starts the handler of an entry.
    fn start<'a>(
        handler: &Self::Handler,
        cx: &'a mut AsyncCx,
        target: &'a CallTarget<'a>,
    ) -> Self::Future<'a, HandlerResult>;

    /// Starts the handler of an entry with arguments that a layer has rewritten.
    fn start_rewritten<'a>(
        handler: &Self::Handler,
        cx: &'a mut AsyncCx,
        request: EntryRequest<'a>,
    ) -> Self::Future<'a, HandlerResult>;

    /// Starts a layer.
    fn start_layer<'a>(
        layer: &Self::Layer,
        cx: &'a mut AsyncCx,
        request: EntryRequest<'a>,
        next: Next<'a, Self>,
    ) -> Self::Future<'a, HandlerResult>;

    /// Starts an interceptor.
    fn start_interceptor<'a>(
        interceptor: &'a dyn ErasedInterceptor,
        cx: &'a mut AsyncCx,
        request: EntryRequest<'a>,
        next: Next<'a, Self>,
    ) -> Self::Future<'a, HandlerResult>;

    /// Starts the handler of requests that no entry takes.
    fn start_fallback<'a>(
        fallback: &Self::Fallback,
        cx: &'a mut AsyncCx,
        call: &'a Call,
    ) -> Self::Future<'a, Result<Answered, RpcError>>;

    /// Returns the handler that starts a future.
    fn from_future(start: SendFutureHandler) -> Self::Handler;
}

/// Handlers are functions on the thread of the event loop, one at a time: `FnMut`, not necessarily `Send`.
pub struct Functions<R>(PhantomData<R>);

/// Handlers are functions on several threads: `Fn + Send + Sync`.
pub struct SharedFunctions<R>(PhantomData<R>);

/// Handlers are futures that stay on their thread: `AsyncFn`.
pub struct LocalFutures<R>(PhantomData<R>);

/// Handlers are futures that any thread may poll: `AsyncFnOnce + Clone`, `Send` in all parts.
///
/// Each call runs a clone of its handler. Share what handlers have in common by `Arc` or by
/// [`with_state`](Router::with_state).
pub struct SendFutures<R>(PhantomData<R>);

/// Stored handler of an entry of [`SharedFunctions`].
pub type SharedFunction = Arc<dyn Fn(&mut Cx<'_>, &CallTarget<'_>) -> HandlerResult + Send + Sync>;
/// Stored handler of an entry of [`SendFutures`].
pub type SendFutureHandler =
    Arc<dyn for<'a> Fn(&'a mut AsyncCx, &'a CallTarget<'a>) -> SendFuture<'a, HandlerResult> + Send + Sync>;

/// Future of a running handler.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
/// Future of a running handler that may move to another thread.
pub type SendFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl<R: 'static> Flavor for Functions<R> {
    type Adapter = R;
    type Handler = Rc<dyn Fn(&mut Cx<'_>, &CallTarget<'_>) -> HandlerResult>;
    type Fallback = Rc<dyn Fn(&mut Cx<'_>, &Call) -> Result<Answered, RpcError>>;
    type Hook = Rc<dyn Hook>;
    type Layer = Rc<dyn Fn(&mut Cx<'_>, EntryRequest<'_>, Next<'_, Self>) -> HandlerResult>;
    type OnInterest = Rc<dyn Fn(&str, bool)>;
    type OnFailure = Rc<dyn Fn(&Call, &HandlerFailure)>;
    type Observer<T: 'static> = Rc<dyn Fn(&T)>;
    type Update = Box<dyn FnOnce(&mut Router<Self>)>;

    fn from_function(function: SharedFunction) -> Self::Handler {
        Rc::new(move |cx, target| function(cx, target))
    }

    fn from_hook(hook: Arc<dyn Hook + Send + Sync>) -> Self::Hook {
        Rc::new(hook)
    }
}

impl<R: 'static> Flavor for SharedFunctions<R> {
    type Adapter = R;
    type Handler = SharedFunction;
    type Fallback = Arc<dyn Fn(&mut Cx<'_>, &Call) -> Result<Answered, RpcError> + Send + Sync>;
    type Hook = Arc<dyn Hook + Send + Sync>;
    type Layer = Arc<dyn Fn(&mut Cx<'_>, EntryRequest<'_>, Next<'_, Self>) -> HandlerResult + Send + Sync>;
    type OnInterest = Arc<dyn Fn(&str, bool) + Send + Sync>;
    type OnFailure = Arc<dyn Fn(&Call, &HandlerFailure) + Send + Sync>;
    type Observer<T: 'static> = Arc<dyn Fn(&T) + Send + Sync>;
    type Update = Box<dyn FnOnce(&mut Router<Self>) + Send>;

    fn from_function(function: SharedFunction) -> Self::Handler {
        function
    }

    fn from_hook(hook: Arc<dyn Hook + Send + Sync>) -> Self::Hook {
        hook
    }
}

impl<R: 'static> Flavor for LocalFutures<R> {
    type Adapter = R;
    type Handler = Rc<dyn for<'a> Fn(&'a mut AsyncCx, &'a CallTarget<'a>) -> LocalFuture<'a, HandlerResult>>;
    type Fallback =
        Rc<dyn for<'a> Fn(&'a mut AsyncCx, &'a Call) -> LocalFuture<'a, Result<Answered, RpcError>>>;
    type Hook = Rc<dyn Hook>;
    type Layer = Rc<
        dyn for<'a> Fn(&'a mut AsyncCx, EntryRequest<'a>, Next<'a, Self>) -> LocalFuture<'a, HandlerResult>,
    >;
    type OnInterest = Rc<dyn Fn(&str, bool)>;
    type OnFailure = Rc<dyn Fn(&Call, &HandlerFailure)>;
    type Observer<T: 'static> = Rc<dyn Fn(&T)>;
    type Update = Box<dyn FnOnce(&mut Router<Self>)>;

    fn from_function(function: SharedFunction) -> Self::Handler {
        Rc::new(move |cx, target| {
            let function = function.clone();
            Box::pin(async move { function(&mut cx.reborrow(), target) })
        })
    }

    fn from_hook(hook: Arc<dyn Hook + Send + Sync>) -> Self::Hook {
        Rc::new(hook)
    }
}

impl<R: 'static> Flavor for SendFutures<R> {
    type Adapter = R;
    type Handler = SendFutureHandler;
    type Fallback = Arc<
        dyn for<'a> Fn(&'a mut AsyncCx, &'a Call) -> SendFuture<'a, Result<Answered, RpcError>> + Send + Sync,
    >;
    type Hook = Arc<dyn Hook + Send + Sync>;
    type Layer = Arc<
        dyn for<'a> Fn(&'a mut AsyncCx, EntryRequest<'a>, Next<'a, Self>) -> SendFuture<'a, HandlerResult>
            + Send
            + Sync,
    >;
    type OnInterest = Arc<dyn Fn(&str, bool) + Send + Sync>;
    type OnFailure = Arc<dyn Fn(&Call, &HandlerFailure) + Send + Sync>;
    type Observer<T: 'static> = Arc<dyn Fn(&T) + Send + Sync>;
    type Update = Box<dyn FnOnce(&mut Router<Self>) + Send>;

    fn from_function(function: SharedFunction) -> Self::Handler {
        Arc::new(move |cx, target| {
            let function = function.clone();
            Box::pin(async move { function(&mut cx.reborrow(), target) })
        })
    }

    fn from_hook(hook: Arc<dyn Hook + Send + Sync>) -> Self::Hook {
        hook
    }
}

impl<R: 'static> FunctionFlavor for Functions<R> {}

impl<R: 'static> FunctionFlavor for SharedFunctions<R> {}

impl<R: 'static> FutureFlavor for LocalFutures<R> {
    type Future<'a, T: 'a> = LocalFuture<'a, T>;

    fn start<'a>(
        handler: &Self::Handler,
        cx: &'a mut AsyncCx,
        target: &'a CallTarget<'a>,
    ) -> Self::Future<'a, HandlerResult> {
        handler(cx, target)
    }

    fn start_rewritten<'a>(
        handler: &Self::Handler,
        cx: &'a mut AsyncCx,
        request: EntryRequest<'a>,
    ) -> Self::Future<'a, HandlerResult> {
        let handler = handler.clone();
        Box::pin(async move { handler(cx, &request.rewritten_target()?).await })
    }

    fn start_layer<'a>(
        layer: &Self::Layer,
        cx: &'a mut AsyncCx,
        request: EntryRequest<'a>,
        next: Next<'a, Self>,
    ) -> Self::Future<'a, HandlerResult> {
        layer(cx, request, next)
    }

    fn start_interceptor<'a>(
        interceptor: &'a dyn ErasedInterceptor,
        cx: &'a mut AsyncCx,
        mut request: EntryRequest<'a>,
        next: Next<'a, Self>,
    ) -> Self::Future<'a, HandlerResult> {
        Box::pin(async move { intercept_future(interceptor, cx, &mut request, &next).await })
    }

    fn start_fallback<'a>(
        fallback: &Self::Fallback,
        cx: &'a mut AsyncCx,
        call: &'a Call,
    ) -> Self::Future<'a, Result<Answered, RpcError>> {
        fallback(cx, call)
    }

    fn from_future(start: SendFutureHandler) -> Self::Handler {
        Rc::new(move |cx, target| start(cx, target))
    }
}

impl<R: 'static> FutureFlavor for SendFutures<R> {
    type Future<'a, T: 'a> = SendFuture<'a, T>;

    fn start<'a>(
        handler: &Self::Handler,
        cx: &'a mut AsyncCx,
        target: &'a CallTarget<'a>,
    ) -> Self::Future<'a, HandlerResult> {
        handler(cx, target)
    }

    fn start_rewritten<'a>(
        handler: &Self::Handler,
        cx: &'a mut AsyncCx,
        request: EntryRequest<'a>,
    ) -> Self::Future<'a, HandlerResult> {
        let handler = handler.clone();
        Box::pin(async move { handler(cx, &request.rewritten_target()?).await })
    }

    fn start_layer<'a>(
        layer: &Self::Layer,
        cx: &'a mut AsyncCx,
        request: EntryRequest<'a>,
        next: Next<'a, Self>,
    ) -> Self::Future<'a, HandlerResult> {
        layer(cx, request, next)
    }

    fn start_interceptor<'a>(
        interceptor: &'a dyn ErasedInterceptor,
        cx: &'a mut AsyncCx,
        mut request: EntryRequest<'a>,
        next: Next<'a, Self>,
    ) -> Self::Future<'a, HandlerResult> {
        Box::pin(async move { intercept_future(interceptor, cx, &mut request, &next).await })
    }

    fn start_fallback<'a>(
        fallback: &Self::Fallback,
        cx: &'a mut AsyncCx,
        call: &'a Call,
    ) -> Self::Future<'a, Result<Answered, RpcError>> {
        fallback(cx, call)
    }

    fn from_future(start: SendFutureHandler) -> Self::Handler {
        start
    }
}
