//! Registration of hooks, of the fallback, and of callbacks.

#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
use mcp_proto::server::{Call, Notification};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Capability, Diagnostic, RpcError};

use super::{FallbackKind, Flavor, Functions, Futures, Router, Sharing};
use crate::server::cx::{Answered, AsyncCx, Cx};
use crate::server::handler::HandlerFailure;
use crate::server::router::flavor::Notice;
use crate::server::router::layer::Middleware;
use crate::server::router::share::{CallbackRole, FunctionRole, FutureRole, HookRole, NoticeFor, Shareable};

/// Notices for callbacks of the type `Fn(&T)`.
pub struct About<T>(core::marker::PhantomData<T>);

/// The first subscription of a URI, or the end of the last one.
pub enum Interest {}

/// A failure of a handler.
pub enum Failed {}

impl<T: 'static> Notice for About<T> {
    type Of<'a> = &'a T;
}

impl Notice for Interest {
    type Of<'a> = (&'a str, bool);
}

impl Notice for Failed {
    type Of<'a> = (&'a Call, &'a HandlerFailure);
}

impl<T: 'static, H: Fn(&T)> NoticeFor<H> for About<T> {
    fn tell(callback: &H, notice: &T) {
        callback(notice);
    }
}

impl<H: Fn(&str, bool)> NoticeFor<H> for Interest {
    fn tell(callback: &H, (uri, is_wanted): (&str, bool)) {
        callback(uri, is_wanted);
    }
}

impl<H: Fn(&Call, &HandlerFailure)> NoticeFor<H> for Failed {
    fn tell(callback: &H, (call, failure): (&Call, &HandlerFailure)) {
        callback(call, failure);
    }
}

/// Registration of hooks and callbacks.
impl<F: Flavor> Router<F> {
    /// Adds a hook that observes the calls of entries and lists.
    ///
    /// Calls that reach the fallback are not observed.
    pub fn hook(&mut self, hook: impl Shareable<F::Sharing, HookRole>) -> &mut Self {
        self.add_middleware(Middleware::Hook(hook.share()))
    }

    /// Enables subscriptions to resources (RES-010).
    ///
    /// `interest` is called with a URI and `true` when its first subscriber arrives, and with `false` when the last
    /// one has left. In a server with several shards, each shard calls it.
    ///
    /// The application publishes changes with [`Cx::publish`] or through a handle of the server.
    pub fn subscriptions(
        &mut self,
        interest: impl Fn(&str, bool) + Shareable<F::Sharing, CallbackRole<Interest>>,
    ) -> &mut Self {
        self.state_mut().core.declare(Capability::ResourceSubscriptions);
        self.state_mut().observers.on_interest = Some(interest.share());
        self
    }

    /// Sets a callback for failures that authors of handlers should know: panics, invalid results, and errors with
    /// causes that the client does not read.
    ///
    /// Clients do not see them. Without a callback, failures are written to stderr.
    pub fn on_failure(
        &mut self,
        on_failure: impl Fn(&Call, &HandlerFailure) + Shareable<F::Sharing, CallbackRole<Failed>>,
    ) -> &mut Self {
        self.state_mut().observers.on_failure = Some(on_failure.share());
        self
    }

    /// Sets a callback for notifications that the engine does not handle itself, for example
    /// `notifications/roots/list_changed`. Without one they are ignored.
    pub fn on_notification(
        &mut self,
        on_notification: impl Fn(&Notification) + Shareable<F::Sharing, CallbackRole<About<Notification>>>,
    ) -> &mut Self {
        self.state_mut().observers.on_notification = Some(on_notification.share());
        self
    }

    /// Sets a callback for deviations of clients that were tolerated, for their use of deprecated features, and for tools
    /// without a description.
    pub fn on_diagnostic(
        &mut self,
        on_diagnostic: impl Fn(&Diagnostic) + Shareable<F::Sharing, CallbackRole<About<Diagnostic>>>,
    ) -> &mut Self {
        self.state_mut().observers.on_diagnostic = Some(on_diagnostic.share());
        self
    }

    /// Sets a callback for copies of the messages, received and sent. Only
    /// [`Limits::tap_records`](mcp_proto::Limits) of the configuration enables it.
    pub fn on_tap(
        &mut self,
        on_tap: impl Fn(&TapRecord) + Shareable<F::Sharing, CallbackRole<About<TapRecord>>>,
    ) -> &mut Self {
        self.state_mut().observers.on_tap = Some(on_tap.share());
        self
    }

    /// Sets a callback for the heads of HTTP requests and responses, without their secrets. Only `tap_heads` of
    /// `HttpServer` enables it.
    #[cfg(feature = "http")]
    pub fn on_head(
        &mut self,
        on_head: impl Fn(&HeadRecord) + Shareable<F::Sharing, CallbackRole<About<HeadRecord>>>,
    ) -> &mut Self {
        self.state_mut().observers.on_head = Some(on_head.share());
        self
    }
}

/// The fallback as a function.
impl<R: 'static, S: Sharing> Router<Functions<R, S>> {
    /// Sets the handler for calls that no entry takes.
    ///
    /// These are methods of the protocol whose capability was declared by [`core`](Self::core), and custom methods
    /// that [`Config::custom_method`](mcp_proto::server::Config::custom_method) permits. The engine answers all
    /// others itself.
    pub fn fallback(
        &mut self,
        handler: impl Fn(&mut Cx<'_>, &Call) -> Result<Answered, RpcError>
        + Shareable<S, FunctionRole<FallbackKind>>,
    ) -> &mut Self {
        self.state_mut().fallback = Some(handler.share());
        self
    }
}

/// The fallback as a future.
impl<R: 'static, S: Sharing> Router<Futures<R, S>> {
    /// Sets the handler for calls that no entry takes.
    ///
    /// These are methods of the protocol whose capability was declared by [`core`](Self::core), and custom methods
    /// that [`Config::custom_method`](mcp_proto::server::Config::custom_method) permits. The engine answers all
    /// others itself.
    pub fn fallback(
        &mut self,
        handler: impl AsyncFn(&mut AsyncCx, &Call) -> Result<Answered, RpcError>
        + Shareable<S, FutureRole<FallbackKind>>,
    ) -> &mut Self {
        self.state_mut().fallback = Some(handler.share());
        self
    }
}
