//! Registration of handlers that share a value.

use alloc::sync::Arc;

use mcp_proto::model::{CompletionReference, Prompt, Resource, ResourceTemplate, Tool};
use mcp_proto::router::{
    CompletionTarget, IntoCompletion, IntoPromptResult, IntoReadResult, IntoToolResult, ResourceTarget,
    ToolEntry, UntypedArguments,
};
use serde::de::DeserializeOwned;

use super::handlers::{local_functions, local_futures, send_futures, shared_functions};
use super::{ArgumentsOn, Flavor, Functions, LocalFutures, Router, SendCall, SendFutures, SharedFunctions};
use crate::adapter::server::cx::{AsyncCx, Cx};

/// Adds entries whose handlers get a shared value as their first argument.
///
/// ```
/// # use mcp_std::adapter::server::router::{Functions, Router};
/// use std::cell::RefCell;
/// use mcp_proto::model::{Prompt, Resource};
///
/// let mut router = Router::<Functions<()>>::new("ship", "1.0");
/// router
///     .with_state(RefCell::new(vec!["cast off"]))
///     .resource(Resource::new("ship://log", "log"), |log, _, _| log.borrow().join("\n"))
///     .prompt(Prompt::new("report"), |log, _, (): ()| format!("Summarize {} entries.", log.borrow().len()));
/// # router.check().unwrap();
/// ```
pub struct WithState<'r, F: Flavor, S> {
    pub(super) router: &'r mut Router<F>,
    pub(super) state: Arc<S>,
}

impl<F: Flavor> Router<F> {
    /// Returns a view of this router whose handlers share `state`.
    pub fn with_state<S: 'static>(&mut self, state: S) -> WithState<'_, F, S> {
        WithState { router: self, state: Arc::new(state) }
    }
}

impl<F: Flavor, S> core::fmt::Debug for WithState<'_, F, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("WithState").field("router", &self.router).finish_non_exhaustive()
    }
}

macro_rules! store_local_function {
    ($self:ident, $kind:ident, $handler:ident, $arguments:ty) => {{
        let (state, mut handler) = ($self.state.clone(), $handler);
        local_functions::$kind(move |cx: &mut Cx<'_>, arguments: $arguments| handler(&state, cx, arguments))
    }};
}

macro_rules! store_shared_function {
    ($self:ident, $kind:ident, $handler:ident, $arguments:ty) => {{
        let state = $self.state.clone();
        shared_functions::$kind(move |cx: &mut Cx<'_>, arguments: $arguments| $handler(&state, cx, arguments))
    }};
}

macro_rules! store_local_future {
    ($self:ident, $kind:ident, $handler:ident, $arguments:ty) => {{
        let state = $self.state.clone();
        local_futures::$kind(async move |cx: &mut AsyncCx, arguments: $arguments| {
            $handler(&*state, cx, arguments).await
        })
    }};
}

macro_rules! store_send_future {
    ($self:ident, $kind:ident, $handler:ident, $arguments:ty) => {{
        let state = $self.state.clone();
        send_futures::$kind(async move |cx: &mut AsyncCx, arguments: $arguments| {
            $handler.call((&*state, cx, arguments)).await
        })
    }};
}

impl<R: 'static, S: 'static> WithState<'_, Functions<R>, S> {
    entries! {
        pub FnMut(&S, &mut Cx<'_>), data: [], bounds: [] [] [], adapter: R, router: [.router], store: store_local_function
    }
}

impl<R: 'static, S: Send + Sync + 'static> WithState<'_, SharedFunctions<R>, S> {
    entries! {
        pub Fn(&S, &mut Cx<'_>), data: [],
        bounds: [+ Send + Sync] [+ Send + Sync] [+ Send + Sync],
        adapter: R, router: [.router], store: store_shared_function
    }
}

impl<R: 'static, S: 'static> WithState<'_, LocalFutures<R>, S> {
    entries! {
        pub AsyncFn(&S, &mut AsyncCx), data: [], bounds: [] [] [], adapter: R, router: [.router], store: store_local_future
    }
}

impl<R: 'static, S: Send + Sync + 'static> WithState<'_, SendFutures<R>, S> {
    entries! {
        pub AsyncFnOnce(&S, &mut AsyncCx), data: [+ Send],
        bounds:
            [+ for<'a> SendCall<(&'a S, &'a mut AsyncCx, A), T>]
            [+ for<'a> SendCall<(&'a S, &'a mut AsyncCx, &'a ResourceTarget<'a>), T>]
            [+ for<'a> SendCall<(&'a S, &'a mut AsyncCx, &'a CompletionTarget<'a>), T>],
        adapter: R, router: [.router], store: store_send_future
    }
}
