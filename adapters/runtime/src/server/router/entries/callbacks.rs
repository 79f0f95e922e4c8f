//! Registration of hooks, of the fallback, and of callbacks.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::RefCell;

#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
use mcp_proto::router::Hook;
use mcp_proto::server::{Call, Notification};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Capability, Diagnostic, EntryKind, RpcError};

use super::handlers::{local_functions, local_futures, send_futures, shared_functions};
use super::{Flavor, Functions, LocalFutures, Router, SendCall, SendFutures, SharedFunctions};
use crate::server::cx::{Answered, AsyncCx, Cx};
use crate::server::handler::HandlerFailure;
use crate::server::router::layer::Middleware;
use crate::server::router::{EntryRequest, HandlerResult, Next, RouterUpdates};

/// Defines the methods that set callbacks.
///
/// - `fallback`: the trait of the fallback, its further bounds, and the function that stores it.
/// - `layer`: further bounds of layers, and the function that stores them.
/// - `callbacks`: the trait of the other closures, their further bounds, and the macro that stores them.
/// - `pointer`: the shared pointer for hooks.
macro_rules! callbacks {
    (
        flavor: $flavor:ident,
        fallback: $Fn:ident($Cx:ty) [$($bounds:tt)*] $store:path,
        layer: [$($layer:tt)*] $store_layer:path,
        callbacks: $Callback:ident [$($callback_bounds:tt)*] $callback:ident,
        pointer: $Pointer:ident
    ) => {
        /// Adds a hook that observes the calls of entries and lists.
        ///
        /// Calls that reach the [fallback](Self::fallback) are not observed.
        pub fn hook(&mut self, hook: impl Hook + 'static $($callback_bounds)*) -> &mut Self {
            let hook: <$flavor<R> as Flavor>::Hook = $Pointer::new(hook);
            self.state_mut().core.hook(Middleware::Hook(hook));
            self
        }

        /// Adds a layer around the calls of all entries; see [Layers](Router#layers).
        pub fn layer(
            &mut self,
            layer: impl $Fn($Cx, EntryRequest<'_>, Next<'_, $flavor<R>>) -> HandlerResult + 'static $($layer)*,
        ) -> &mut Self {
            self.add_layer($store_layer(layer))
        }

        /// Adds a layer around the calls of one entry, inside the layers of the router. It is dropped when the entry is
        /// removed.
        ///
        /// The layers of a prompt or a template also surround its completions. [`check`](Self::check) reports an entry
        /// that is not registered, and a skill, whose files are resources.
        pub fn layer_entry(
            &mut self,
            kind: EntryKind,
            name: &str,
            layer: impl $Fn($Cx, EntryRequest<'_>, Next<'_, $flavor<R>>) -> HandlerResult + 'static $($layer)*,
        ) -> &mut Self {
            self.add_entry_layer(kind, name, $store_layer(layer))
        }

        /// Sets the handler for calls that no entry takes.
        ///
        /// These are methods of the protocol whose capability was declared by [`core`](Self::core), and custom methods
        /// that [`Config::custom_method`](mcp_proto::server::Config::custom_method) permits. The engine answers all
        /// others itself.
        pub fn fallback(
            &mut self,
            handler: impl $Fn($Cx, &Call) -> Result<Answered, RpcError> + 'static $($bounds)*,
        ) -> &mut Self {
            self.state_mut().fallback = Some($store(handler));
            self
        }

        /// Enables subscriptions to resources (RES-010).
        ///
        /// `interest` is called with a URI and `true` when its first subscriber arrives, and with `false` when the last
        /// one has left. In a server with several shards, each shard calls it.
        ///
        /// The application publishes changes with [`Cx::publish`] or through a handle of the server.
        pub fn subscriptions(
            &mut self,
            interest: impl $Callback(&str, bool) + 'static $($callback_bounds)*,
        ) -> &mut Self {
            self.state_mut().core.declare(Capability::ResourceSubscriptions);
            self.state_mut().on_interest = Some($callback!(interest, |uri: &str, is_wanted: bool|));
            self
        }

        /// Sets a callback for failures that authors of handlers should know: panics, invalid results, and errors with
        /// causes that the client does not read.
        ///
        /// Clients do not see them. Without a callback, failures are written to stderr.
        pub fn on_failure(
            &mut self,
            on_failure: impl $Callback(&Call, &HandlerFailure) + 'static $($callback_bounds)*,
        ) -> &mut Self {
            self.state_mut().on_failure =
                Some($callback!(on_failure, |call: &Call, failure: &HandlerFailure|));
            self
        }

        /// Sets a callback for notifications that the engine does not handle itself, for example
        /// `notifications/roots/list_changed`. Without one they are ignored.
        pub fn on_notification(
            &mut self,
            on_notification: impl $Callback(&Notification) + 'static $($callback_bounds)*,
        ) -> &mut Self {
            self.state_mut().observers.on_notification =
                Some($callback!(on_notification, |notification: &Notification|));
            self
        }

        /// Sets a callback for deviations of clients that were tolerated, and for their use of deprecated features.
        pub fn on_diagnostic(
            &mut self,
            on_diagnostic: impl $Callback(&Diagnostic) + 'static $($callback_bounds)*,
        ) -> &mut Self {
            self.state_mut().observers.on_diagnostic =
                Some($callback!(on_diagnostic, |diagnostic: &Diagnostic|));
            self
        }

        /// Sets a callback for copies of the messages, received and sent. Only
        /// [`Limits::tap_records`](mcp_proto::Limits) of the configuration enables it.
        pub fn on_tap(
            &mut self,
            on_tap: impl $Callback(&TapRecord) + 'static $($callback_bounds)*,
        ) -> &mut Self {
            self.state_mut().observers.on_tap = Some($callback!(on_tap, |record: &TapRecord|));
            self
        }

        /// Sets a callback for the heads of HTTP requests and responses, without their secrets. Only `tap_heads` of
        /// `HttpServer` enables it.
        #[cfg(feature = "http")]
        pub fn on_head(
            &mut self,
            on_head: impl $Callback(&HeadRecord) + 'static $($callback_bounds)*,
        ) -> &mut Self {
            self.state_mut().observers.on_head = Some($callback!(on_head, |record: &HeadRecord|));
            self
        }
    };
}

// The `RefCell` is never borrowed twice: only the router calls the closures, from one loop.
macro_rules! local_function {
    ($closure:ident, |$($name:ident: $type:ty),*|) => {{
        let closure = RefCell::new($closure);
        Rc::new(move |$($name: $type),*| (*closure.borrow_mut())($($name),*))
    }};
}

macro_rules! local {
    ($closure:ident, |$($name:ident: $type:ty),*|) => {
        Rc::new($closure)
    };
}

macro_rules! shared {
    ($closure:ident, |$($name:ident: $type:ty),*|) => {
        Arc::new($closure)
    };
}

/// Defines how updates are scheduled, with the further bounds of their closures.
macro_rules! schedule {
    ($($flavor:ident [$($bounds:tt)*],)*) => {$(
        impl<R: 'static> RouterUpdates<$flavor<R>> {
            /// Schedules an update of the router.
            pub fn schedule(&self, update: impl FnOnce(&mut Router<$flavor<R>>) + 'static $($bounds)*) {
                self.push(Box::new(update));
            }
        }
    )*};
}

schedule! {
    Functions [],
    SharedFunctions [+ Send],
    LocalFutures [],
    SendFutures [+ Send],
}

impl<R: 'static> Router<Functions<R>> {
    callbacks! {
        flavor: Functions,
        fallback: FnMut(&mut Cx<'_>) [] local_functions::fallback,
        layer: [] local_functions::layer,
        callbacks: FnMut [] local_function,
        pointer: Rc
    }
}

impl<R: 'static> Router<SharedFunctions<R>> {
    callbacks! {
        flavor: SharedFunctions,
        fallback: Fn(&mut Cx<'_>) [+ Send + Sync] shared_functions::fallback,
        layer: [+ Send + Sync] shared_functions::layer,
        callbacks: Fn [+ Send + Sync] shared,
        pointer: Arc
    }
}

impl<R: 'static> Router<LocalFutures<R>> {
    callbacks! {
        flavor: LocalFutures,
        fallback: AsyncFn(&mut AsyncCx) [] local_futures::fallback,
        layer: [] local_futures::layer,
        callbacks: Fn [] local,
        pointer: Rc
    }
}

impl<R: 'static> Router<SendFutures<R>> {
    callbacks! {
        flavor: SendFutures,
        fallback: AsyncFnOnce(&mut AsyncCx)
            [+ for<'a> SendCall<(&'a mut AsyncCx, &'a Call), Result<Answered, RpcError>>]
            send_futures::fallback,
        layer:
            [+ for<'a> SendCall<(&'a mut AsyncCx, EntryRequest<'a>, Next<'a, SendFutures<R>>), HandlerResult>]
            send_futures::layer,
        callbacks: Fn [+ Send + Sync] shared,
        pointer: Arc
    }
}
