//! Registration on routers of several flavours.

use alloc::sync::Arc;

use mcp_proto::model::{CompletionReference, Prompt, Resource, ResourceTemplate, Tool};
use mcp_proto::router::{
    CompletionTarget, Hook, IntoCompletion, IntoPromptResult, IntoReadResult, IntoToolResult, ResourceTarget,
    ToolEntry, UntypedArguments,
};
use serde::de::DeserializeOwned;

use super::handlers::{send_futures, shared_functions};
use super::{ArgumentsOn, Flavor, Router, SendCall};
use crate::adapter::server::cx::{AsyncCx, Cx};
use crate::adapter::server::router::layer::Middleware;
use crate::adapter::server::router::{FutureFlavor, Interceptor};

macro_rules! store_function {
    ($self:ident, $kind:ident, $handler:ident, $arguments:ty) => {
        Self::Flavor::from_function(shared_functions::$kind($handler))
    };
}

macro_rules! store_future {
    ($self:ident, $kind:ident, $handler:ident, $arguments:ty) => {
        Self::Flavor::from_future(send_futures::$kind($handler))
    };
}

/// A router of any flavour, for entries whose handlers are functions: `Fn + Send + Sync`.
///
/// On a router of futures the function runs when its future is polled, so it must not block.
///
/// ```
/// # use mcp_std::adapter::server::router::{Functions, LocalFutures, RegisterFunctions, Router};
/// use mcp_proto::model::Resource;
///
/// /// Adds entries that every adapter serves.
/// fn add_entries(router: &mut impl RegisterFunctions) {
///     router.resource(Resource::new("harbour://tide", "tide"), |_, _| "high");
/// }
///
/// let mut router = Router::<Functions<()>>::new("harbour", "1.0");
/// add_entries(&mut router);
/// let mut router_of_futures = Router::<LocalFutures<()>>::new("harbour", "1.0");
/// add_entries(&mut router_of_futures);
/// # router.check().unwrap();
/// # router_of_futures.check().unwrap();
/// ```
pub trait RegisterFunctions {
    /// Flavour of the router.
    type Flavor: Flavor;

    /// Returns the router.
    fn as_router(&mut self) -> &mut Router<Self::Flavor>;

    entries! {
        Fn(&mut Cx<'_>), data: [],
        bounds: [+ Send + Sync] [+ Send + Sync] [+ Send + Sync],
        adapter: <Self::Flavor as Flavor>::Adapter, router: [.as_router()], store: store_function
    }

    /// Returns a view of this router whose handlers share `state`, as their first argument.
    fn with_state<S: Send + Sync + 'static>(&mut self, state: S) -> FunctionsWithState<'_, Self::Flavor, S> {
        FunctionsWithState { router: self.as_router(), state: Arc::new(state) }
    }

    /// Adds a hook that observes the calls of entries and lists.
    fn hook(&mut self, hook: impl Hook + Send + Sync + 'static) -> &mut Self {
        let router = self.as_router();
        router.state_mut().core.hook(Middleware::Hook(Self::Flavor::from_hook(Arc::new(hook))));
        self
    }

    /// Adds an interceptor around the calls of all entries; see [`Router::intercept`].
    fn intercept(&mut self, interceptor: impl Interceptor) -> &mut Self {
        self.as_router().intercept(interceptor);
        self
    }
}

impl<F: Flavor> RegisterFunctions for Router<F> {
    type Flavor = F;

    fn as_router(&mut self) -> &mut Self {
        self
    }
}

/// Adds entries to a router of any flavour, whose handlers get a shared value as their first argument.
pub struct FunctionsWithState<'r, F: Flavor, S> {
    router: &'r mut Router<F>,
    state: Arc<S>,
}

impl<F: Flavor, S> core::fmt::Debug for FunctionsWithState<'_, F, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FunctionsWithState").field("router", &self.router).finish_non_exhaustive()
    }
}

macro_rules! store_function_with_state {
    ($self:ident, $kind:ident, $handler:ident, $arguments:ty) => {{
        let state = $self.state.clone();
        F::from_function(shared_functions::$kind(move |cx: &mut Cx<'_>, arguments: $arguments| {
            $handler(&state, cx, arguments)
        }))
    }};
}

impl<F: Flavor, S: Send + Sync + 'static> FunctionsWithState<'_, F, S> {
    entries! {
        pub Fn(&S, &mut Cx<'_>), data: [],
        bounds: [+ Send + Sync] [+ Send + Sync] [+ Send + Sync],
        adapter: F::Adapter, router: [.router], store: store_function_with_state
    }
}

/// A router of futures, for entries whose handlers are futures that any thread may poll.
pub trait RegisterFutures {
    /// Flavour of the router.
    type Flavor: FutureFlavor;

    /// Returns the router.
    fn as_router(&mut self) -> &mut Router<Self::Flavor>;

    entries! {
        AsyncFnOnce(&mut AsyncCx), data: [+ Send],
        bounds:
            [+ for<'a> SendCall<(&'a mut AsyncCx, A), T>]
            [+ for<'a> SendCall<(&'a mut AsyncCx, &'a ResourceTarget<'a>), T>]
            [+ for<'a> SendCall<(&'a mut AsyncCx, &'a CompletionTarget<'a>), T>],
        adapter: <Self::Flavor as Flavor>::Adapter, router: [.as_router()], store: store_future
    }
}

impl<F: FutureFlavor> RegisterFutures for Router<F> {
    type Flavor = F;

    fn as_router(&mut self) -> &mut Self {
        self
    }
}
