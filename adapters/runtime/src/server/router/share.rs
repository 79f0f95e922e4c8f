//! Conversion of handlers, layers, hooks and callbacks into the form that a router stores, for one thread or several.
//!
//! The two implementations differ in one point: [`Shared`] requires `Send` and `Sync`.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;

use super::entries::Kind;
use super::flavor::{Local, Shared, Sharing, Signature, Starter};
use crate::server::cx::AsyncCx;

/// A function that calls a stored value of the type `H` with the arguments of the signature `G`.
pub type CallOf<H, G> = for<'a> fn(
    &H,
    &'a mut <G as Signature>::Context<'_>,
    <G as Signature>::Argument<'a>,
) -> <G as Signature>::Output<'a>;

/// Something that a router may keep: anything on one thread ([`Local`]), what is `Send` and `Sync` on several ([`Shared`]).
pub trait Shareable<S: Sharing>: Sized + 'static {
    /// Returns the stored form of `call`, which calls this value.
    fn store<G: Signature>(self, call: CallOf<Self, G>) -> S::Stored<G>;
}

impl<H: 'static> Shareable<Local> for H {
    fn store<G: Signature>(self, call: CallOf<Self, G>) -> <Local as Sharing>::Stored<G> {
        Rc::new(move |cx, argument| call(&self, cx, argument))
    }
}

impl<H: Send + Sync + 'static> Shareable<Shared> for H {
    fn store<G: Signature>(self, call: CallOf<Self, G>) -> <Shared as Sharing>::Stored<G> {
        Arc::new(move |cx, argument| call(&self, cx, argument))
    }
}

/// An async function of the kind `K` that a router may keep: on several threads ([`Shared`]) its future is `Send`, too.
#[diagnostic::on_unimplemented(
    message = "this handler cannot run on a router of `{S}` handlers",
    label = "it is not `Send` or not `Sync`, its future is not `Send`, or it cannot be cloned",
    note = "if another error is about the result or the arguments of the handler, this one goes with it",
    note = "what a future holds across an `.await` has to be `Send` (`Arc` instead of `Rc`, no `RefCell` guard)",
    note = "what it captures has to be `Send + Sync`, and for a future also `Clone`: put it into an `Arc`",
    note = "handlers that stay on one thread run on a router of `Local` handlers"
)]
pub trait ShareableFuture<S: Sharing, K: Kind> {
    /// Returns the stored form.
    fn store_future(self) -> S::Stored<Starter<S, K::Request>>;
}

// Calls share the closure, which may be removed from the router while a call runs.
impl<K: Kind, H> ShareableFuture<Local, K> for H
where
    H: AsyncFn(&mut AsyncCx, K::Arguments<'_>) -> K::Output + 'static,
{
    fn store_future(self) -> <Local as Sharing>::Stored<Starter<Local, K::Request>> {
        Shareable::<Local>::store::<Starter<Local, K::Request>>(Rc::new(self), |handler, cx, request| {
            let handler = handler.clone();
            Box::pin(async move {
                match K::decode(request) {
                    Ok(arguments) => K::encode(handler(cx, arguments).await, request),
                    Err(outcome) => outcome,
                }
            })
        })
    }
}

#[diagnostic::do_not_recommend]
impl<K: Kind, H> ShareableFuture<Shared, K> for H
where
    H: for<'a> SendCall<(&'a mut AsyncCx, K::Arguments<'a>), K::Output>,
{
    fn store_future(self) -> <Shared as Sharing>::Stored<Starter<Shared, K::Request>> {
        Shareable::<Shared>::store::<Starter<Shared, K::Request>>(self, |handler, cx, request| {
            let handler = handler.clone();
            Box::pin(async move {
                let running = match K::decode(request) {
                    Ok(arguments) => handler.call((cx, arguments)),
                    Err(outcome) => return outcome,
                };
                K::encode(running.await, request)
            })
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
