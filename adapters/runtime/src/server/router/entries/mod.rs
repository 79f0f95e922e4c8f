//! Registration of entries, for each flavour with the closures that it takes.
//!
//! A closure gets its type from the `Fn` bound of the function that takes it, so the methods exist once for each
//! flavour. The macro [`entries!`] holds them, and nothing else.

mod handlers;

use alloc::boxed::Box;
use alloc::sync::Arc;

use mcp_proto::RawJson;
use mcp_proto::model::{CompletionReference, Prompt, Resource, ResourceTemplate, Tool};
use mcp_proto::router::{
    CallTarget, CompletionTarget, Hook, IntoCompletion, IntoPromptResult, IntoReadResult, IntoToolResult,
    ResourceTarget, ToolArguments, ToolEntry, UntypedArguments,
};
use serde::de::DeserializeOwned;

use super::answer::{EntryResult, HandlerResult, misrouted_error};
use super::layer::Middleware;
use super::{
    Flavor, Functions, FutureFlavor, Interceptor, LocalFutures, Router, SendFutures, SharedFunctions,
};
use crate::server::cx::{AsyncCx, Cx};
use handlers::{local_functions, local_futures, send_futures, shared_functions};
use mcp_std::sync::BlockingPool;

/// A closure or function whose future is `Send` when it is called with `Arguments`, a tuple.
///
/// Each call runs a clone, so that the future owns what the closure has captured.
#[diagnostic::on_unimplemented(
    message = "this handler cannot run on a router of `SendFutures`",
    label = "its future is not `Send`, or it cannot be cloned",
    note = "what it holds across an `.await` has to be `Send` (`Arc` instead of `Rc`, no `RefCell` guard)",
    note = "what it captures has to be `Clone + Send + Sync`: put it into an `Arc`, or use `with_state`",
    note = "handlers that stay on one thread run on a router of `LocalFutures`"
)]
pub trait SendCall<Arguments, T>: Clone + Send + Sync + 'static {
    /// The future of a call.
    type Future: Future<Output = T> + Send;

    /// Starts a call.
    fn call(self, arguments: Arguments) -> Self::Future;
}

/// [`ToolArguments`], on the router of an adapter.
#[cfg_attr(
    feature = "schemars",
    diagnostic::on_unimplemented(
        message = "the schema of `{Self}` is not known, so it cannot be the arguments of a tool",
        label = "the arguments are decoded as `{Self}`",
        note = "add `#[derive(serde::Deserialize, schemars::JsonSchema)]` to the type",
        note = "a tool whose schema is known only at run time is added by `tool_with`"
    )
)]
#[cfg_attr(
    not(feature = "schemars"),
    diagnostic::on_unimplemented(
        message = "the schema of `{Self}` is not known, so it cannot be the arguments of a tool",
        label = "the arguments are decoded as `{Self}`",
        note = "enable the feature `schemars` of the package of `{Adapter}`, and add `#[derive(serde::Deserialize, schemars::JsonSchema)]` to the type",
        note = "without the feature, implement `ToolArguments` for the type",
        note = "a tool whose schema is known only at run time is added by `tool_with`"
    )
)]
pub trait ArgumentsOn<Adapter>: ToolArguments {}

#[diagnostic::do_not_recommend]
impl<A: ToolArguments, Adapter> ArgumentsOn<Adapter> for A {}

macro_rules! send_call {
    ($($name:ident: $type:ident),+) => {
        #[diagnostic::do_not_recommend]
        impl<H, $($type,)+ T, Running> SendCall<($($type,)+), T> for H
        where
            H: FnOnce($($type),+) -> Running + Clone + Send + Sync + 'static,
            Running: Future<Output = T> + Send,
        {
            type Future = Running;

            fn call(self, ($($name,)+): ($($type,)+)) -> Running {
                self($($name),+)
            }
        }
    };
}
send_call!(a: A, b: B);
send_call!(a: A, b: B, c: C);

/// Defines the methods that add entries.
///
/// - `Fn`: the trait of closures, with the parameters before the arguments.
/// - `data`: further bounds of arguments.
/// - `bounds`: further bounds of closures, as for the macro `handlers!`: of tools and prompts, of resources, of completions.
/// - `adapter`: the adapter of the router.
/// - `router`: tokens after `self` that lead to the router.
/// - `handlers`: the expression of the stored handler, in which `$handler` is the closure.
///
/// The compiler shows the line of a handler, with its comment, to whoever writes an `async fn` with a result that borrows.
macro_rules! entries {
    (
        $vis:vis $Fn:ident($($before:ty),+), data: [$($data:tt)*],
        bounds: [$($arguments:tt)*] [$($resource:tt)*] [$($completion:tt)*],
        adapter: $adapter:ty, router: [$($router:tt)*], store: $store:ident
    ) => {
        /// Adds a tool. Its schemas are those of the types of its arguments and of its result.
        ///
        /// Arguments have a type with `#[derive(serde::Deserialize, schemars::JsonSchema)]` (feature `schemars`), or one
        /// that implements [`ToolArguments`](mcp_proto::router::ToolArguments); `()` stands for none. The documentation comment of the type is the
        /// description, unless [`description`](ToolEntry::description) sets another one. The entry that is returned also
        /// sets title, annotations, icons and metadata.
        ///
        /// A result owns its data: an `async fn` returns `CallToolResult<'static>` or `Content<'static>`, because without the
        /// lifetime its result would borrow from the arguments.
        $vis fn tool<A, T>(
            &mut self,
            name: &str,
            handler: impl $Fn($($before,)+ A) -> T + 'static $($arguments)*, // `CallToolResult<'static>`, not `CallToolResult`
        ) -> ToolEntry<'_>
        where
            A: ArgumentsOn<$adapter> + 'static $($data)*,
            T: IntoToolResult + 'static,
        {
            let handler = $store!(self, tool, handler, A);
            self $($router)* .add_tool(A::tool(name), T::output_schema(), handler)
        }

        /// Adds a tool whose schema is known only at run time.
        ///
        /// The handler gets the arguments as JSON, since their type could contradict the schema: as `serde_json::Value`,
        /// `serde_json::Map` or [`RawJson`](mcp_proto::RawJson), or not at all (`()`).
        $vis fn tool_with<A, T>(
            &mut self,
            tool: Tool,
            handler: impl $Fn($($before,)+ A) -> T + 'static $($arguments)*, // `CallToolResult<'static>`, not `CallToolResult`
        ) -> &mut Self
        where
            A: UntypedArguments + 'static $($data)*,
            T: IntoToolResult + 'static,
        {
            let handler = $store!(self, tool, handler, A);
            self $($router)* .add_tool(tool, T::output_schema(), handler);
            self
        }

        /// Adds a resource, read by its URI. An `async fn` returns `ReadResourceResult<'static>`, with the lifetime.
        $vis fn resource<T: IntoReadResult + 'static>(
            &mut self,
            resource: Resource,
            handler: impl $Fn($($before,)+ &ResourceTarget<'_>) -> T + 'static $($resource)*, // `ReadResourceResult<'static>`, not `ReadResourceResult`
        ) -> &mut Self {
            let handler = $store!(self, resource, handler, &ResourceTarget<'_>);
            self $($router)* .add_resource(resource, handler);
            self
        }

        /// Adds a resource template. Its resources are read by URIs that match the template.
        ///
        /// The handler gets the values of the variables. `None` answers with "resource not found".
        $vis fn resource_template<T: IntoReadResult + 'static>(
            &mut self,
            template: ResourceTemplate,
            handler: impl $Fn($($before,)+ &ResourceTarget<'_>) -> T + 'static $($resource)*, // `ReadResourceResult<'static>`, not `ReadResourceResult`
        ) -> &mut Self {
            let handler = $store!(self, resource, handler, &ResourceTarget<'_>);
            self $($router)* .add_resource_template(template, handler);
            self
        }

        /// Adds a prompt. Its arguments may have any type whose members can be parsed from strings, or `()`. An `async fn`
        /// returns `Vec<PromptMessage<'static>>`, with the lifetime.
        $vis fn prompt<A, T>(
            &mut self,
            prompt: Prompt,
            handler: impl $Fn($($before,)+ A) -> T + 'static $($arguments)*, // `PromptMessage<'static>`, not `PromptMessage`
        ) -> &mut Self
        where
            A: DeserializeOwned + 'static $($data)*,
            T: IntoPromptResult + 'static,
        {
            let handler = $store!(self, prompt, handler, A);
            self $($router)* .add_prompt(prompt, handler);
            self
        }

        /// Adds the completion of an argument of a prompt, or of a variable of a template. That must be registered
        /// already.
        $vis fn completion<'r, T: IntoCompletion + 'static>(
            &mut self,
            reference: impl Into<CompletionReference<'r>>,
            argument: &str,
            handler: impl $Fn($($before,)+ &CompletionTarget<'_>) -> T + 'static $($completion)*,
        ) -> &mut Self {
            let handler = $store!(self, completion, handler, &CompletionTarget<'_>);
            self $($router)* .add_completion(reference.into(), argument, handler);
            self
        }
    };
}

macro_rules! store_local_function {
    ($self:ident, $kind:ident, $handler:ident, $arguments:ty) => {
        local_functions::$kind($handler)
    };
}

macro_rules! store_shared_function {
    ($self:ident, $kind:ident, $handler:ident, $arguments:ty) => {
        shared_functions::$kind($handler)
    };
}

macro_rules! store_local_future {
    ($self:ident, $kind:ident, $handler:ident, $arguments:ty) => {
        local_futures::$kind($handler)
    };
}

macro_rules! store_send_future {
    ($self:ident, $kind:ident, $handler:ident, $arguments:ty) => {
        send_futures::$kind($handler)
    };
}

impl<R: 'static> Router<Functions<R>> {
    entries! {
        pub FnMut(&mut Cx<'_>), data: [], bounds: [] [] [], adapter: R, router: [], store: store_local_function
    }
}

impl<R: 'static> Router<SharedFunctions<R>> {
    entries! {
        pub Fn(&mut Cx<'_>), data: [],
        bounds: [+ Send + Sync] [+ Send + Sync] [+ Send + Sync],
        adapter: R, router: [], store: store_shared_function
    }
}

impl<R: 'static> Router<LocalFutures<R>> {
    entries! {
        pub AsyncFn(&mut AsyncCx), data: [], bounds: [] [] [], adapter: R, router: [], store: store_local_future
    }
}

impl<R: 'static> Router<SendFutures<R>> {
    entries! {
        pub AsyncFnOnce(&mut AsyncCx), data: [+ Send],
        bounds:
            [+ for<'a> SendCall<(&'a mut AsyncCx, A), T>]
            [+ for<'a> SendCall<(&'a mut AsyncCx, &'a ResourceTarget<'a>), T>]
            [+ for<'a> SendCall<(&'a mut AsyncCx, &'a CompletionTarget<'a>), T>],
        adapter: R, router: [], store: store_send_future
    }
}

/// Stores handlers of entries.
impl<F: Flavor> Router<F> {
    fn add_tool(&mut self, mut tool: Tool, output: Option<RawJson>, handler: F::Handler) -> ToolEntry<'_> {
        tool.output_schema = tool.output_schema.or(output);
        let name = tool.name.clone();
        let added = self.state_mut().core.tool(tool, handler).map(drop);
        match added {
            Ok(()) => self.state_mut().core.tool_entry(&name),
            Err(error) => {
                self.record(Err(error));
                ToolEntry::none()
            }
        }
    }

    fn add_resource(&mut self, resource: Resource, handler: F::Handler) {
        let added = self.state_mut().core.resource(resource, handler).map(drop);
        self.record(added);
    }

    fn add_resource_template(&mut self, template: ResourceTemplate, handler: F::Handler) {
        let added = self.state_mut().core.resource_template(template, handler).map(drop);
        self.record(added);
    }

    fn add_prompt(&mut self, prompt: Prompt, handler: F::Handler) {
        let added = self.state_mut().core.prompt(prompt, handler).map(drop);
        self.record(added);
    }

    fn add_completion(&mut self, reference: CompletionReference<'_>, argument: &str, handler: F::Handler) {
        let added = self.state_mut().core.completion(reference, argument, handler);
        self.record(added);
    }
}

mod callbacks;

// Registration on routers of several flavours.

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
/// # use mcp_runtime::server::router::{Functions, LocalFutures, RegisterFunctions, Router};
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

// Tools whose handlers are functions that may block, on routers of futures.

impl<F: FutureFlavor<Adapter: BlockingPool>> Router<F> {
    /// Adds a tool whose handler is a function that may block: it runs on a thread of the runtime for such work, and the
    /// server goes on meanwhile.
    ///
    /// Arguments, results and the entry that is returned are those of `tool`. The handler may report progress, ask for
    /// input, and sleep ([`Cx::sleep`]). If the call is cancelled, the handler goes on to its end and its
    /// result is dropped; [`checkpoint`](crate::server::CallCx::checkpoint) tells it to stop. Until its end the
    /// call counts as one of those that run at a time. A panic is answered with an internal error.
    ///
    /// Other entries move a part of their work there by the function `unblock` of the adapter.
    pub fn tool_blocking<A, T>(
        &mut self,
        name: &str,
        handler: impl Fn(&mut Cx<'_>, A) -> T + Send + Sync + 'static,
    ) -> ToolEntry<'_>
    where
        A: ArgumentsOn<F::Adapter> + Send + 'static,
        T: IntoToolResult + 'static,
    {
        let handler = Arc::new(handler);
        let stored = F::from_future(Arc::new(move |cx, target| {
            Box::pin(run_tool::<F::Adapter, A, T>(handler.clone(), cx, target))
        }));
        self.add_tool(A::tool(name), T::output_schema(), stored)
    }
}

impl<F: FutureFlavor<Adapter: BlockingPool>, S: Send + Sync + 'static> WithState<'_, F, S> {
    /// Adds a tool whose handler is a function that may block; see [`Router::tool_blocking`].
    pub fn tool_blocking<A, T>(
        &mut self,
        name: &str,
        handler: impl Fn(&S, &mut Cx<'_>, A) -> T + Send + Sync + 'static,
    ) -> ToolEntry<'_>
    where
        A: ArgumentsOn<F::Adapter> + Send + 'static,
        T: IntoToolResult + 'static,
    {
        let state = self.state.clone();
        self.router.tool_blocking(name, move |cx: &mut Cx<'_>, arguments: A| handler(&state, cx, arguments))
    }
}

/// Decodes the arguments here, and runs the handler on another thread.
async fn run_tool<P: BlockingPool, A: DeserializeOwned + Send + 'static, T: IntoToolResult + 'static>(
    handler: Arc<impl Fn(&mut Cx<'_>, A) -> T + Send + Sync + 'static>,
    cx: &mut AsyncCx,
    target: &CallTarget<'_>,
) -> HandlerResult {
    let CallTarget::Tool(target) = target else { return Err(misrouted_error().into()) };
    let result = match target.parse::<A>() {
        Ok(arguments) => cx.run_blocking::<P, _>(move |cx| handler(cx, arguments).into_tool_result()).await,
        Err(invalid) => invalid.into_result(),
    };
    result.map(EntryResult::Tool)
}

// Registration of handlers that share a value.

/// Adds entries whose handlers get a shared value as their first argument.
///
/// ```
/// # use mcp_runtime::server::router::{Functions, Router};
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
    router: &'r mut Router<F>,
    state: Arc<S>,
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
