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
use super::layer::{Inside, Next, run_inside};
use crate::server::cx::{Answered, AsyncCx, Cx};

/// The kind of the handlers of a [`Router`]: [`Functions`] or [`Futures`].
///
/// A flavour names the adapter that serves its routers, and says whether handlers stay on one thread.
pub trait Flavor: Sized + 'static {
    /// The adapter that serves routers of this flavour.
    type Adapter: 'static;
    /// Whether handlers stay on one thread.
    type Sharing: Sharing;
    /// Stored form of what answers requests of a kind: an entry, the fallback, a layer.
    type Stored<Q: Request>: Clone;

    /// Returns the handler that runs a function.
    fn from_function(function: SharedFunction<EntryCall>) -> Self::Stored<EntryCall>;
}

/// Handlers are functions.
pub struct Functions<R, S>(PhantomData<(R, S)>);

/// Handlers are futures.
///
/// If any thread may poll them ([`Shared`]), each call runs a clone of its handler: share what handlers have in common by `Arc`.
pub struct Futures<R, S>(PhantomData<(R, S)>);

impl<R: 'static, S: Sharing> Flavor for Functions<R, S> {
    type Adapter = R;
    type Sharing = S;
    type Stored<Q: Request> = S::Function<Q>;

    fn from_function(function: SharedFunction<EntryCall>) -> Self::Stored<EntryCall> {
        S::function(function)
    }
}

impl<R: 'static, S: Sharing> Flavor for Futures<R, S> {
    type Adapter = R;
    type Sharing = S;
    type Stored<Q: Request> = S::Starter<Q>;

    fn from_function(function: SharedFunction<EntryCall>) -> Self::Stored<EntryCall> {
        S::starter(Arc::new(move |cx, target| {
            let function = function.clone();
            Box::pin(async move { function(&mut cx.reborrow(), target) })
        }))
    }
}

/// Stored handler of an entry of the flavour `F`.
pub(super) type StoredHandler<F> = <F as Flavor>::Stored<EntryCall>;
/// Stored layer of a router of the flavour `F`.
pub(super) type StoredLayer<F> = <F as Flavor>::Stored<LayerCall<F>>;

// What a handler is asked.

/// A kind of requests that stored code answers, with the type of its outcome.
pub trait Request: 'static {
    /// The request.
    type Of<'a>;
    /// The outcome.
    type Outcome: Send + 'static;
}

/// A call of an entry.
pub enum EntryCall {}

/// A call that no entry takes.
pub enum FallbackCall {}

/// A call of an entry, and what is inside the layer.
pub struct LayerCall<F>(PhantomData<F>);

impl Request for EntryCall {
    type Of<'a> = &'a CallTarget<'a>;
    type Outcome = HandlerResult;
}

impl Request for FallbackCall {
    type Of<'a> = &'a Call;
    type Outcome = Result<Answered, RpcError>;
}

impl<F: Flavor> Request for LayerCall<F> {
    type Of<'a> = (EntryRequest<'a>, Next<'a, F>);
    type Outcome = HandlerResult;
}

/// A kind of notices for callbacks.
pub trait Notice: 'static {
    /// The arguments of the callback.
    type Of<'a>;
}

// Where handlers run.

/// Whether the handlers of a router stay on one thread: [`Local`] or [`Shared`].
pub trait Sharing: Sized + 'static {
    /// Stored function.
    type Function<Q: Request>: Clone + Deref<Target: Fn(&mut Cx<'_>, Q::Of<'_>) -> Q::Outcome>;
    /// Stored function that starts a future.
    type Starter<Q: Request>: Clone
        + Deref<Target: for<'a> Fn(&'a mut AsyncCx, Q::Of<'a>) -> Self::Future<'a, Q::Outcome>>;
    /// Future of a running handler.
    type Future<'a, T: 'a>: Future<Output = T> + Unpin + 'a;
    /// Stored hook.
    type Hook: Hook + Clone;
    /// Stored callback.
    type Callback<N: Notice>: Clone + Deref<Target: Fn(N::Of<'_>)>;
    /// Change of a router that is applied between two calls.
    type Update<F: Flavor<Sharing = Self>>: FnOnce(&mut Router<F>);

    /// Starts what is inside a layer.
    fn start_inside<'a, R: 'static>(
        inside: Inside<'a, Futures<R, Self>>,
        cx: &'a mut AsyncCx,
        request: EntryRequest<'a>,
    ) -> Self::Future<'a, HandlerResult>;

    /// Returns the stored form of a function that any thread may run.
    fn function(function: SharedFunction<EntryCall>) -> Self::Function<EntryCall>;

    /// Returns the stored form of a function that starts futures for any thread.
    fn starter(starter: SharedStarter<EntryCall>) -> Self::Starter<EntryCall>;

    /// Returns the stored form of a hook that any thread may run.
    fn hook(hook: Arc<dyn Hook + Send + Sync>) -> Self::Hook;
}

/// Handlers stay on one thread: they need not be `Send`.
pub enum Local {}

/// Any thread may run handlers: they are `Send` and `Sync`.
pub enum Shared {}

/// Stored function that any thread may run.
pub type SharedFunction<Q> =
    Arc<dyn Fn(&mut Cx<'_>, <Q as Request>::Of<'_>) -> <Q as Request>::Outcome + Send + Sync>;
/// Stored function that starts futures for any thread.
pub type SharedStarter<Q> = Arc<
    dyn for<'a> Fn(&'a mut AsyncCx, <Q as Request>::Of<'a>) -> SendFuture<'a, <Q as Request>::Outcome>
        + Send
        + Sync,
>;

/// Future of a running handler.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
/// Future of a running handler that may move to another thread.
pub type SendFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl Sharing for Local {
    type Function<Q: Request> = Rc<dyn Fn(&mut Cx<'_>, Q::Of<'_>) -> Q::Outcome>;
    type Starter<Q: Request> = Rc<dyn for<'a> Fn(&'a mut AsyncCx, Q::Of<'a>) -> LocalFuture<'a, Q::Outcome>>;
    type Future<'a, T: 'a> = LocalFuture<'a, T>;
    type Hook = Rc<dyn Hook>;
    type Callback<N: Notice> = Rc<dyn Fn(N::Of<'_>)>;
    type Update<F: Flavor<Sharing = Self>> = Box<dyn FnOnce(&mut Router<F>)>;

    fn start_inside<'a, R: 'static>(
        inside: Inside<'a, Futures<R, Self>>,
        cx: &'a mut AsyncCx,
        request: EntryRequest<'a>,
    ) -> Self::Future<'a, HandlerResult> {
        Box::pin(run_inside(inside, cx, request))
    }

    fn function(function: SharedFunction<EntryCall>) -> Self::Function<EntryCall> {
        Rc::new(move |cx, target| function(cx, target))
    }

    fn starter(starter: SharedStarter<EntryCall>) -> Self::Starter<EntryCall> {
        Rc::new(move |cx, target| starter(cx, target))
    }

    fn hook(hook: Arc<dyn Hook + Send + Sync>) -> Self::Hook {
        Rc::new(hook)
    }
}

impl Sharing for Shared {
    type Function<Q: Request> = SharedFunction<Q>;
    type Starter<Q: Request> = SharedStarter<Q>;
    type Future<'a, T: 'a> = SendFuture<'a, T>;
    type Hook = Arc<dyn Hook + Send + Sync>;
    type Callback<N: Notice> = Arc<dyn Fn(N::Of<'_>) + Send + Sync>;
    type Update<F: Flavor<Sharing = Self>> = Box<dyn FnOnce(&mut Router<F>) + Send>;

    fn start_inside<'a, R: 'static>(
        inside: Inside<'a, Futures<R, Self>>,
        cx: &'a mut AsyncCx,
        request: EntryRequest<'a>,
    ) -> Self::Future<'a, HandlerResult> {
        Box::pin(run_inside(inside, cx, request))
    }

    fn function(function: SharedFunction<EntryCall>) -> Self::Function<EntryCall> {
        function
    }

    fn starter(starter: SharedStarter<EntryCall>) -> Self::Starter<EntryCall> {
        starter
    }

    fn hook(hook: Arc<dyn Hook + Send + Sync>) -> Self::Hook {
        hook
    }
}
