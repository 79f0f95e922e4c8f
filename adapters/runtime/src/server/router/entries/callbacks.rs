//! Registration of hooks, of the fallback, and of callbacks.

#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
use mcp_proto::router::Hook;
use mcp_proto::server::{Call, Event, Notification};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Capability, Diagnostic, RpcError};

use super::{FallbackKind, Flavor, Functions, Futures, Router, Sharing, function};
use crate::server::cx::{Answered, AsyncCx, Cx};
use crate::server::handler::HandlerFailure;
use crate::server::router::flavor::{About, Failed, HookCall};
use crate::server::router::layer::Middleware;
use crate::server::router::share::{Shareable, ShareableFuture};

/// Returns the stored form of a hook.
pub(super) fn hook<S: Sharing>(hook: impl Hook + Shareable<S>) -> S::Stored<HookCall> {
    hook.store::<HookCall>(|hook, (), (context, outcome)| match outcome {
        None => hook.before_call(context),
        Some(outcome) => {
            hook.after_call(context, outcome);
            Ok(())
        }
    })
}

/// Registration of hooks and callbacks.
impl<F: Flavor> Router<F> {
    /// Adds a hook that observes the calls of entries and lists.
    ///
    /// Calls that reach the fallback are not observed.
    pub fn hook(&mut self, hook: impl Hook + Shareable<F::Sharing>) -> &mut Self {
        self.add_middleware(Middleware::Hook(self::hook::<F::Sharing>(hook)))
    }

    /// Enables subscriptions to resources (RES-010).
    ///
    /// `interest` is called with a URI and `true` when its first subscriber arrives, and with `false` when the last
    /// one has left. In a server with several shards, each shard calls it.
    ///
    /// The application publishes changes with [`Cx::publish`] or through a handle of the server.
    pub fn subscriptions(&mut self, interest: impl Fn(&str, bool) + Shareable<F::Sharing>) -> &mut Self {
        self.state_mut().core.declare(Capability::ResourceSubscriptions);
        self.state_mut().observers.on_interest =
            Some(interest.store::<About<Event>>(|interest, (), event| {
                if let Event::ResourceInterest { uri, is_subscribed } = event {
                    interest(uri, *is_subscribed);
                }
            }));
        self
    }

    /// Sets a callback for failures that authors of handlers should know: panics, invalid results, and errors with
    /// causes that the client does not read.
    ///
    /// Clients do not see them. Without a callback, failures are written to stderr.
    pub fn on_failure(
        &mut self,
        on_failure: impl Fn(&Call, &HandlerFailure) + Shareable<F::Sharing>,
    ) -> &mut Self {
        self.state_mut().observers.on_failure =
            Some(on_failure.store::<Failed>(|told, (), (call, failure)| told(call, failure)));
        self
    }

    /// Sets a callback for notifications that the engine does not handle itself, for example
    /// `notifications/roots/list_changed`. Without one they are ignored.
    pub fn on_notification(
        &mut self,
        on_notification: impl Fn(&Notification) + Shareable<F::Sharing>,
    ) -> &mut Self {
        self.state_mut().observers.on_notification =
            Some(on_notification.store::<About<Notification>>(|told, (), notification| told(notification)));
        self
    }

    /// Sets a callback for deviations of clients that were tolerated, for their use of deprecated features, and for tools
    /// without a description.
    pub fn on_diagnostic(
        &mut self,
        on_diagnostic: impl Fn(&Diagnostic) + Shareable<F::Sharing>,
    ) -> &mut Self {
        self.state_mut().observers.on_diagnostic =
            Some(on_diagnostic.store::<About<Diagnostic>>(|told, (), diagnostic| told(diagnostic)));
        self
    }

    /// Sets a callback for copies of the messages, received and sent. Only
    /// [`Limits::tap_records`](mcp_proto::Limits) of the configuration enables it.
    pub fn on_tap(&mut self, on_tap: impl Fn(&TapRecord) + Shareable<F::Sharing>) -> &mut Self {
        self.state_mut().observers.on_tap = Some(on_tap.store::<About<TapRecord>>(|told, (), tap| told(tap)));
        self
    }

    /// Sets a callback for the heads of HTTP requests and responses, without their secrets. Only `tap_heads` of
    /// `HttpServer` enables it.
    #[cfg(feature = "http")]
    pub fn on_head(&mut self, on_head: impl Fn(&HeadRecord) + Shareable<F::Sharing>) -> &mut Self {
        self.state_mut().observers.on_head =
            Some(on_head.store::<About<HeadRecord>>(|told, (), head| told(head)));
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
        handler: impl Fn(&mut Cx<'_>, &Call) -> Result<Answered, RpcError> + Shareable<S>,
    ) -> &mut Self {
        self.state_mut().fallback = Some(function::<S, FallbackKind>(handler));
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
        + ShareableFuture<S, FallbackKind>,
    ) -> &mut Self {
        self.state_mut().fallback = Some(handler.store_future());
        self
    }
}
