//! Conversion of handlers, layers, hooks and callbacks into the form that a router stores, for one thread or several.
//!
//! The two implementations for each role differ in one point: [`Shared`] requires `Send` and `Sync`.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::marker::PhantomData;

use mcp_proto::router::Hook;

use super::entries::Kind;
use super::flavor::{Flavor, Functions, Futures, LayerCall, Local, Notice, Request, Shared, Sharing};
use super::{EntryRequest, HandlerResult, Next, Router};
use crate::server::cx::{AsyncCx, Cx};

/// Something that a router may keep as `K`: anything on one thread ([`Local`]), what is `Send` and `Sync` on several
/// ([`Shared`]).
#[diagnostic::on_unimplemented(
    message = "this handler cannot run on a router of `{S}` handlers",
    label = "it is not `Send` or not `Sync`, its future is not `Send`, or it cannot be cloned",
    note = "if another error is about the result or the arguments of the handler, this one goes with it",
    note = "what a future holds across an `.await` has to be `Send` (`Arc` instead of `Rc`, no `RefCell` guard)",
    note = "what it captures has to be `Send + Sync`, and for a future also `Clone`: put it into an `Arc`",
    note = "handlers that stay on one thread run on a router of `Local` handlers"
)]
pub trait Shareable<S: Sharing, K: Role> {
    /// Returns the stored form.
    fn share(self) -> K::Stored<S>;
}

/// The role of a stored value in its router: a handler, a layer, a hook or a callback.
pub trait Role {
    /// Stored form.
    type Stored<S: Sharing>;
}

/// A function that answers requests of the kind `K`.
pub struct FunctionRole<K>(PhantomData<K>);

/// A function whose future answers requests of the kind `K`.
pub struct FutureRole<K>(PhantomData<K>);

/// A layer around functions, on a router of the adapter `R`.
pub struct FunctionLayerRole<R>(PhantomData<R>);

/// A layer around futures, on a router of the adapter `R`.
pub struct FutureLayerRole<R>(PhantomData<R>);

/// A hook.
pub enum HookRole {}

/// A callback for notices of the kind `N`.
pub struct CallbackRole<N>(PhantomData<N>);

impl<K: Kind> Role for FunctionRole<K> {
    type Stored<S: Sharing> = S::Function<K::Request>;
}

impl<K: Kind> Role for FutureRole<K> {
    type Stored<S: Sharing> = S::Starter<K::Request>;
}

impl<R: 'static> Role for FunctionLayerRole<R> {
    type Stored<S: Sharing> = S::Function<LayerCall<Functions<R, S>>>;
}

impl<R: 'static> Role for FutureLayerRole<R> {
    type Stored<S: Sharing> = S::Starter<LayerCall<Futures<R, S>>>;
}

impl Role for HookRole {
    type Stored<S: Sharing> = S::Hook;
}

impl<N: Notice> Role for CallbackRole<N> {
    type Stored<S: Sharing> = S::Callback<N>;
}

// Functions.

impl<K: Kind, H> Shareable<Local, FunctionRole<K>> for H
where
    H: Fn(&mut Cx<'_>, K::Arguments<'_>) -> K::Output + 'static,
{
    fn share(self) -> <Local as Sharing>::Function<K::Request> {
        Rc::new(move |cx, request| answer::<K>(&self, cx, request))
    }
}

impl<K: Kind, H> Shareable<Shared, FunctionRole<K>> for H
where
    H: Fn(&mut Cx<'_>, K::Arguments<'_>) -> K::Output + Send + Sync + 'static,
{
    fn share(self) -> <Shared as Sharing>::Function<K::Request> {
        Arc::new(move |cx, request| answer::<K>(&self, cx, request))
    }
}

/// Answers a request with a function.
fn answer<K: Kind>(
    handler: &impl Fn(&mut Cx<'_>, K::Arguments<'_>) -> K::Output,
    cx: &mut Cx<'_>,
    request: <K::Request as Request>::Of<'_>,
) -> <K::Request as Request>::Outcome {
    match K::decode(request) {
        Ok((arguments, subject)) => K::encode(handler(cx, arguments), subject),
        Err(outcome) => outcome,
    }
}

impl<R: 'static, H> Shareable<Local, FunctionLayerRole<R>> for H
where
    H: Fn(&mut Cx<'_>, EntryRequest<'_>, Next<'_, Functions<R, Local>>) -> HandlerResult + 'static,
{
    fn share(self) -> <Local as Sharing>::Function<LayerCall<Functions<R, Local>>> {
        Rc::new(move |cx, (request, next)| self(cx, request, next))
    }
}

impl<R: 'static, H> Shareable<Shared, FunctionLayerRole<R>> for H
where
    H: Fn(&mut Cx<'_>, EntryRequest<'_>, Next<'_, Functions<R, Shared>>) -> HandlerResult
        + Send
        + Sync
        + 'static,
{
    fn share(self) -> <Shared as Sharing>::Function<LayerCall<Functions<R, Shared>>> {
        Arc::new(move |cx, (request, next)| self(cx, request, next))
    }
}

// Futures. On one thread, calls share the closure, which may be removed from the router while a call runs.

impl<K: Kind, H> Shareable<Local, FutureRole<K>> for H
where
    H: AsyncFn(&mut AsyncCx, K::Arguments<'_>) -> K::Output + 'static,
{
    fn share(self) -> <Local as Sharing>::Starter<K::Request> {
        let handler = Rc::new(self);
        Rc::new(move |cx, request| {
            let handler = handler.clone();
            Box::pin(async move {
                match K::decode(request) {
                    Ok((arguments, subject)) => K::encode(handler(cx, arguments).await, subject),
                    Err(outcome) => outcome,
                }
            })
        })
    }
}

#[diagnostic::do_not_recommend]
impl<K: Kind, H> Shareable<Shared, FutureRole<K>> for H
where
    H: for<'a> SendCall<(&'a mut AsyncCx, K::Arguments<'a>), K::Output>,
    for<'a> <K::Request as Request>::Of<'a>: Send,
{
    fn share(self) -> <Shared as Sharing>::Starter<K::Request> {
        Arc::new(move |cx, request| {
            let handler = self.clone();
            Box::pin(async move {
                let (running, subject) = match K::decode(request) {
                    Ok((arguments, subject)) => (handler.call((cx, arguments)), subject),
                    Err(outcome) => return outcome,
                };
                K::encode(running.await, subject)
            })
        })
    }
}

impl<R: 'static, H> Shareable<Local, FutureLayerRole<R>> for H
where
    H: AsyncFn(&mut AsyncCx, EntryRequest<'_>, Next<'_, Futures<R, Local>>) -> HandlerResult + 'static,
{
    fn share(self) -> <Local as Sharing>::Starter<LayerCall<Futures<R, Local>>> {
        let layer = Rc::new(self);
        Rc::new(move |cx, (request, next)| {
            let layer = layer.clone();
            Box::pin(async move { layer(cx, request, next).await })
        })
    }
}

#[diagnostic::do_not_recommend]
impl<R: 'static, H> Shareable<Shared, FutureLayerRole<R>> for H
where
    H: for<'a> SendCall<(&'a mut AsyncCx, EntryRequest<'a>, Next<'a, Futures<R, Shared>>), HandlerResult>,
{
    fn share(self) -> <Shared as Sharing>::Starter<LayerCall<Futures<R, Shared>>> {
        Arc::new(move |cx, (request, next)| {
            let layer = self.clone();
            Box::pin(async move { layer.call((cx, request, next)).await })
        })
    }
}

/// A closure or function whose future is `Send` when it is called with `Arguments`, a tuple.
///
/// Each call runs a clone, so that the future owns what the closure has captured.
pub trait SendCall<Arguments, T>: Clone + Send + Sync + 'static {
    /// The future of a call.
    type Future: Future<Output = T> + Send;

    /// Starts a call.
    fn call(self, arguments: Arguments) -> Self::Future;
}

#[diagnostic::do_not_recommend]
impl<H, A, B, T, Running> SendCall<(A, B), T> for H
where
    H: FnOnce(A, B) -> Running + Clone + Send + Sync + 'static,
    Running: Future<Output = T> + Send,
{
    type Future = Running;

    fn call(self, (a, b): (A, B)) -> Running {
        self(a, b)
    }
}

#[diagnostic::do_not_recommend]
impl<H, A, B, C, T, Running> SendCall<(A, B, C), T> for H
where
    H: FnOnce(A, B, C) -> Running + Clone + Send + Sync + 'static,
    Running: Future<Output = T> + Send,
{
    type Future = Running;

    fn call(self, (a, b, c): (A, B, C)) -> Running {
        self(a, b, c)
    }
}

// Hooks and callbacks.

impl<H: Hook + 'static> Shareable<Local, HookRole> for H {
    fn share(self) -> Rc<dyn Hook> {
        Rc::new(self)
    }
}

impl<H: Hook + Send + Sync + 'static> Shareable<Shared, HookRole> for H {
    fn share(self) -> Arc<dyn Hook + Send + Sync> {
        Arc::new(self)
    }
}

/// A notice that callbacks of the type `H` take.
pub trait NoticeFor<H>: Notice {
    /// Runs the callback.
    fn tell(callback: &H, notice: Self::Of<'_>);
}

impl<N: NoticeFor<H>, H: 'static> Shareable<Local, CallbackRole<N>> for H {
    fn share(self) -> <Local as Sharing>::Callback<N> {
        Rc::new(move |notice| N::tell(&self, notice))
    }
}

impl<N: NoticeFor<H>, H: Send + Sync + 'static> Shareable<Shared, CallbackRole<N>> for H {
    fn share(self) -> <Shared as Sharing>::Callback<N> {
        Arc::new(move |notice| N::tell(&self, notice))
    }
}

/// A change of a router of the flavour `F` that may be scheduled; see
/// [`RouterUpdates::schedule`](super::RouterUpdates::schedule).
pub trait Update<F: Flavor<Sharing = S>, S: Sharing = <F as Flavor>::Sharing> {
    /// Returns the stored form.
    fn store(self) -> S::Update<F>;
}

impl<F: Flavor<Sharing = Local>, U: FnOnce(&mut Router<F>) + 'static> Update<F, Local> for U {
    fn store(self) -> <Local as Sharing>::Update<F> {
        Box::new(self)
    }
}

impl<F: Flavor<Sharing = Shared>, U: FnOnce(&mut Router<F>) + Send + 'static> Update<F, Shared> for U {
    fn store(self) -> <Shared as Sharing>::Update<F> {
        Box::new(self)
    }
}
