//! Flavours of routers: functions or futures, for one thread or for several.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::marker::PhantomData;
use core::ops::Deref;
use core::pin::Pin;

use mcp_proto::RpcError;
use mcp_proto::router::{CallTarget, HookContext, HookOutcome};
use mcp_proto::server::Call;

use super::Router;
use super::answer::{EntryRequest, HandlerResult};
use super::layer::{ErasedInterceptor, Next, run_inside};
use crate::server::cx::{Answered, AsyncCx, Cx};
use crate::server::handler::HandlerFailure;

/// The kind of the handlers of a [`Router`]: [`Functions`] or [`Futures`].
///
/// A flavour names the adapter that serves its routers, and says whether handlers stay on one thread.
pub trait Flavor: Clone + 'static {
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

// Not derived: adapters need not be `Clone`.
impl<R, S> Clone for Functions<R, S> {
    fn clone(&self) -> Self {
        Self(PhantomData)
    }
}

impl<R, S> Clone for Futures<R, S> {
    fn clone(&self) -> Self {
        Self(PhantomData)
    }
}

impl<R: 'static, S: Sharing> Flavor for Functions<R, S> {
    type Adapter = R;
    type Sharing = S;
    type Stored<Q: Request> = S::Stored<Function<Q>>;

    fn from_function(function: SharedFunction<EntryCall>) -> Self::Stored<EntryCall> {
        S::from_shared::<Function<EntryCall>>(function)
    }
}

impl<R: 'static, S: Sharing> Flavor for Futures<R, S> {
    type Adapter = R;
    type Sharing = S;
    type Stored<Q: Request> = S::Stored<Starter<S, Q>>;

    fn from_function(function: SharedFunction<EntryCall>) -> Self::Stored<EntryCall> {
        S::from_shared::<Starter<S, EntryCall>>(Arc::new(move |cx, target| {
            let function = function.clone();
            S::start(async move { function(&mut cx.reborrow(), target) })
        }))
    }
}

/// Stored handler of an entry of the flavour `F`.
pub(super) type StoredHandler<F> = <F as Flavor>::Stored<EntryCall>;
/// Stored layer of a router of the flavour `F`.
pub(super) type StoredLayer<F> = <F as Flavor>::Stored<LayerCall<F>>;
/// Stored code with the signature `G`, of a router of the flavour `F`.
pub(super) type StoredCode<F, G> = <<F as Flavor>::Sharing as Sharing>::Stored<G>;

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

// How stored code is called.

/// A signature of stored code: a context that it may change, what it is told, and what it returns.
pub trait Signature: 'static {
    /// The context.
    type Context<'c>;
    /// The other argument.
    type Argument<'a>;
    /// The result, which may borrow from the arguments.
    type Output<'a>;
}

/// A function that answers requests.
pub struct Function<Q>(PhantomData<Q>);

/// A function that starts the future of an answer.
pub struct Starter<S, Q>(PhantomData<(S, Q)>);

/// A hook: without an outcome, it runs before the call.
pub enum HookCall {}

/// A callback of the type `Fn(&T)`.
pub struct About<T>(PhantomData<T>);

/// A callback for failures of handlers.
pub enum Failed {}

/// A change of a router that is applied between two calls.
pub struct Update<F>(PhantomData<F>);

impl<Q: Request> Signature for Function<Q> {
    type Context<'c> = Cx<'c>;
    type Argument<'a> = Q::Of<'a>;
    type Output<'a> = Q::Outcome;
}

impl<S: Sharing, Q: Request> Signature for Starter<S, Q> {
    type Context<'c> = AsyncCx;
    type Argument<'a> = Q::Of<'a>;
    type Output<'a> = S::Future<'a, Q::Outcome>;
}

impl Signature for HookCall {
    type Context<'c> = ();
    type Argument<'a> = (&'a HookContext<'a>, Option<HookOutcome<'a>>);
    type Output<'a> = Result<(), RpcError>;
}

impl<T: 'static> Signature for About<T> {
    type Context<'c> = ();
    type Argument<'a> = &'a T;
    type Output<'a> = ();
}

impl Signature for Failed {
    type Context<'c> = ();
    type Argument<'a> = (&'a Call, &'a HandlerFailure);
    type Output<'a> = ();
}

impl<F: Flavor> Signature for Update<F> {
    type Context<'c> = Router<F>;
    type Argument<'a> = ();
    type Output<'a> = ();
}

// Where handlers run.

/// Whether the handlers of a router stay on one thread: [`Local`] or [`Shared`].
pub trait Sharing: Clone + 'static {
    /// Stored code.
    type Stored<G: Signature>: Clone
        + Deref<Target: for<'a> Fn(&'a mut G::Context<'_>, G::Argument<'a>) -> G::Output<'a>>;
    /// Future of a running handler.
    type Future<'a, T: 'a>: Future<Output = T> + Unpin + 'a;

    /// Returns the stored form of code that any thread may run.
    fn from_shared<G: Signature>(code: <Shared as Sharing>::Stored<G>) -> Self::Stored<G>;

    /// Returns the stored form of a future that any thread may poll.
    fn start<'a, T: 'a>(future: impl Future<Output = T> + Send + 'a) -> Self::Future<'a, T>;

    /// Starts an interceptor and what is inside it, or a handler whose arguments a layer has rewritten.
    fn start_inside<'a, R: 'static>(
        interceptor: Option<&'a dyn ErasedInterceptor>,
        next: Next<'a, Futures<R, Self>>,
        cx: &'a mut AsyncCx,
        request: EntryRequest<'a>,
    ) -> Self::Future<'a, HandlerResult>;
}

/// Handlers stay on one thread: they need not be `Send`.
#[derive(Clone)]
pub enum Local {}

/// Any thread may run handlers: they are `Send` and `Sync`.
#[derive(Clone)]
pub enum Shared {}

/// Stored function that any thread may run.
pub type SharedFunction<Q> = <Shared as Sharing>::Stored<Function<Q>>;

/// Future of a running handler.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
/// Future of a running handler that may move to another thread.
pub type SendFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl Sharing for Local {
    type Stored<G: Signature> = Rc<dyn for<'a> Fn(&'a mut G::Context<'_>, G::Argument<'a>) -> G::Output<'a>>;
    type Future<'a, T: 'a> = LocalFuture<'a, T>;

    fn from_shared<G: Signature>(code: <Shared as Sharing>::Stored<G>) -> Self::Stored<G> {
        Rc::new(move |cx, argument| code(cx, argument))
    }

    fn start<'a, T: 'a>(future: impl Future<Output = T> + Send + 'a) -> Self::Future<'a, T> {
        Box::pin(future)
    }

    fn start_inside<'a, R: 'static>(
        interceptor: Option<&'a dyn ErasedInterceptor>,
        next: Next<'a, Futures<R, Self>>,
        cx: &'a mut AsyncCx,
        request: EntryRequest<'a>,
    ) -> Self::Future<'a, HandlerResult> {
        Box::pin(run_inside(interceptor, next, cx, request))
    }
}

impl Sharing for Shared {
    type Stored<G: Signature> =
        Arc<dyn for<'a> Fn(&'a mut G::Context<'_>, G::Argument<'a>) -> G::Output<'a> + Send + Sync>;
    type Future<'a, T: 'a> = SendFuture<'a, T>;

    fn from_shared<G: Signature>(code: Self::Stored<G>) -> Self::Stored<G> {
        code
    }

    fn start<'a, T: 'a>(future: impl Future<Output = T> + Send + 'a) -> Self::Future<'a, T> {
        Box::pin(future)
    }

    fn start_inside<'a, R: 'static>(
        interceptor: Option<&'a dyn ErasedInterceptor>,
        next: Next<'a, Futures<R, Self>>,
        cx: &'a mut AsyncCx,
        request: EntryRequest<'a>,
    ) -> Self::Future<'a, HandlerResult> {
        Box::pin(run_inside(interceptor, next, cx, request))
    }
}
