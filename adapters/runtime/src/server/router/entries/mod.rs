//! Registration of entries: one method for each kind of entry, for functions and for futures.
//!
//! A closure gets its type from the `Fn` bound of the method that takes it; [`Shareable`] adds what the threads of the router
//! require.

use alloc::sync::Arc;
use core::marker::PhantomData;

use mcp_proto::model::{CompletionReference, Prompt, Resource, ResourceTemplate, Tool};
use mcp_proto::router::{
    CallTarget, CompletionTarget, Hook, IntoCompletion, IntoPromptResult, IntoReadResult, IntoToolResult,
    ResourceTarget, ToolArguments, ToolEntry, UntypedArguments,
};
use mcp_proto::server::Call;
use mcp_proto::{RawJson, RpcError};
use mcp_std::sync::BlockingPool;
use serde::de::DeserializeOwned;

use super::Router;
use super::answer::{EntryResult, HandlerResult, misrouted_error};
use super::flavor::{
    EntryCall, FallbackCall, Flavor, Function, Functions, Futures, HookCall, Request, Shared, Sharing,
    Starter, StoredHandler,
};
use super::layer::Middleware;
use super::share::{Shareable, ShareableFuture};
use crate::server::cx::{Answered, AsyncCx, Cx};

mod callbacks;

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

// Kinds of handlers: how the arguments of a closure come from a request, and the outcome from its result.

/// A kind of handlers, by the request that they answer.
pub trait Kind: 'static {
    /// The request.
    type Request: for<'a> Request<Of<'a>: Copy + Send>;
    /// Argument of the handler, after the context.
    type Arguments<'a>: 'a;
    /// Return type of the handler.
    type Output: 'static;

    /// Returns the arguments of the handler.
    ///
    /// # Errors
    ///
    /// The outcome, if the handler cannot run.
    fn decode(
        request: <Self::Request as Request>::Of<'_>,
    ) -> Result<Self::Arguments<'_>, <Self::Request as Request>::Outcome>;

    /// Returns the outcome.
    fn encode(
        output: Self::Output,
        request: <Self::Request as Request>::Of<'_>,
    ) -> <Self::Request as Request>::Outcome;
}

/// Handlers of tools, from `A` to `T`.
pub struct ToolKind<A, T>(PhantomData<(A, T)>);

/// Handlers of resources and templates, with the result `T`.
pub struct ResourceKind<T>(PhantomData<T>);

/// Handlers of prompts, from `A` to `T`.
pub struct PromptKind<A, T>(PhantomData<(A, T)>);

/// Handlers of completions, with the result `T`.
pub struct CompletionKind<T>(PhantomData<T>);

/// Handlers of calls that no entry takes.
pub enum FallbackKind {}

impl<A: DeserializeOwned + 'static, T: IntoToolResult + 'static> Kind for ToolKind<A, T> {
    type Request = EntryCall;
    type Arguments<'a> = A;
    type Output = T;

    fn decode(target: <EntryCall as Request>::Of<'_>) -> Result<Self::Arguments<'_>, HandlerResult> {
        let CallTarget::Tool(target) = target else { return Err(Err(misrouted_error().into())) };
        target.parse::<A>().map_err(|invalid| invalid.into_result().map(EntryResult::Tool))
    }

    fn encode(output: T, _: <EntryCall as Request>::Of<'_>) -> HandlerResult {
        output.into_tool_result().map(EntryResult::Tool)
    }
}

impl<T: IntoReadResult + 'static> Kind for ResourceKind<T> {
    type Request = EntryCall;
    type Arguments<'a> = &'a ResourceTarget<'a>;
    type Output = T;

    fn decode(target: <EntryCall as Request>::Of<'_>) -> Result<Self::Arguments<'_>, HandlerResult> {
        match target {
            CallTarget::Resource(target) => Ok(target),
            _ => Err(Err(misrouted_error().into())),
        }
    }

    fn encode(output: T, target: <EntryCall as Request>::Of<'_>) -> HandlerResult {
        let CallTarget::Resource(target) = target else { return Err(misrouted_error().into()) };
        output.into_read_result(&target.uri, target.mime_type).map(EntryResult::Resource)
    }
}

impl<A: DeserializeOwned + 'static, T: IntoPromptResult + 'static> Kind for PromptKind<A, T> {
    type Request = EntryCall;
    type Arguments<'a> = A;
    type Output = T;

    fn decode(target: <EntryCall as Request>::Of<'_>) -> Result<Self::Arguments<'_>, HandlerResult> {
        let CallTarget::Prompt(target) = target else { return Err(Err(misrouted_error().into())) };
        target.parse::<A>().map_err(|error| Err(error.into()))
    }

    fn encode(output: T, _: <EntryCall as Request>::Of<'_>) -> HandlerResult {
        output.into_prompt_result().map(EntryResult::Prompt)
    }
}

impl<T: IntoCompletion + 'static> Kind for CompletionKind<T> {
    type Request = EntryCall;
    type Arguments<'a> = &'a CompletionTarget<'a>;
    type Output = T;

    fn decode(target: <EntryCall as Request>::Of<'_>) -> Result<Self::Arguments<'_>, HandlerResult> {
        match target {
            CallTarget::Completion(target) => Ok(target),
            _ => Err(Err(misrouted_error().into())),
        }
    }

    fn encode(output: T, _: <EntryCall as Request>::Of<'_>) -> HandlerResult {
        output.into_completion().map(EntryResult::Completion)
    }
}

impl Kind for FallbackKind {
    type Request = FallbackCall;
    type Arguments<'a> = &'a Call;
    type Output = Result<Answered, RpcError>;

    fn decode(call: <FallbackCall as Request>::Of<'_>) -> Result<&Call, Self::Output> {
        Ok(call)
    }

    fn encode(output: Self::Output, _: &Call) -> Self::Output {
        output
    }
}

/// Returns the stored form of a function.
fn function<S: Sharing, K: Kind>(
    handler: impl Fn(&mut Cx<'_>, K::Arguments<'_>) -> K::Output + Shareable<S>,
) -> S::Stored<Function<K::Request>> {
    handler.store::<Function<K::Request>>(|handler, cx, request| match K::decode(request) {
        Ok(arguments) => K::encode(handler(cx, arguments), request),
        Err(outcome) => outcome,
    })
}

/// Registration of functions: `Fn`, which need not be `Send` if they stay on one thread.
impl<R: 'static, S: Sharing> Router<Functions<R, S>> {
    /// Adds a tool. Its schemas are those of the types of its arguments and of its result.
    ///
    /// Arguments have a type with `#[derive(serde::Deserialize, schemars::JsonSchema)]` (feature `schemars`), or one
    /// that implements [`ToolArguments`]; `()` stands for none. The documentation comment of the type is the
    /// description, unless [`description`](ToolEntry::description) sets another one. The entry that is returned also
    /// sets title, annotations, icons and metadata.
    pub fn tool<A, T>(
        &mut self,
        name: &str,
        handler: impl Fn(&mut Cx<'_>, A) -> T + Shareable<S>,
    ) -> ToolEntry<'_>
    where
        A: ArgumentsOn<R> + 'static,
        T: IntoToolResult + 'static,
    {
        self.add_tool(A::tool(name), T::output_schema(), function::<S, ToolKind<A, T>>(handler))
    }

    /// Adds a tool whose schema is known only at run time.
    ///
    /// The handler gets the arguments as JSON, since their type could contradict the schema: as `serde_json::Value`,
    /// `serde_json::Map` or [`RawJson`], or not at all (`()`).
    pub fn tool_with<A, T>(
        &mut self,
        tool: Tool,
        handler: impl Fn(&mut Cx<'_>, A) -> T + Shareable<S>,
    ) -> &mut Self
    where
        A: UntypedArguments + 'static,
        T: IntoToolResult + 'static,
    {
        self.add_tool(tool, T::output_schema(), function::<S, ToolKind<A, T>>(handler));
        self
    }

    /// Adds a resource, read by its URI.
    pub fn resource<T: IntoReadResult + 'static>(
        &mut self,
        resource: Resource,
        handler: impl Fn(&mut Cx<'_>, &ResourceTarget<'_>) -> T + Shareable<S>,
    ) -> &mut Self {
        self.add_resource(resource, function::<S, ResourceKind<T>>(handler))
    }

    /// Adds a resource template. Its resources are read by URIs that match the template.
    ///
    /// The handler gets the values of the variables. `None` answers with "resource not found".
    pub fn resource_template<T: IntoReadResult + 'static>(
        &mut self,
        template: ResourceTemplate,
        handler: impl Fn(&mut Cx<'_>, &ResourceTarget<'_>) -> T + Shareable<S>,
    ) -> &mut Self {
        self.add_resource_template(template, function::<S, ResourceKind<T>>(handler))
    }

    /// Adds a prompt. Its arguments may have any type whose members can be parsed from strings, or `()`.
    pub fn prompt<A, T>(
        &mut self,
        prompt: Prompt,
        handler: impl Fn(&mut Cx<'_>, A) -> T + Shareable<S>,
    ) -> &mut Self
    where
        A: DeserializeOwned + 'static,
        T: IntoPromptResult + 'static,
    {
        self.add_prompt(prompt, function::<S, PromptKind<A, T>>(handler))
    }

    /// Adds the completion of an argument of a prompt, or of a variable of a template. That must be registered
    /// already.
    pub fn completion<'r, T: IntoCompletion + 'static>(
        &mut self,
        reference: impl Into<CompletionReference<'r>>,
        argument: &str,
        handler: impl Fn(&mut Cx<'_>, &CompletionTarget<'_>) -> T + Shareable<S>,
    ) -> &mut Self {
        self.add_completion(reference.into(), argument, function::<S, CompletionKind<T>>(handler))
    }
}

// The compiler shows the line of a handler, with its comment, to whoever writes an `async fn` with a result that borrows.

/// Registration of futures: `AsyncFn`. If any thread may run them, they are `Clone`, and `Send` in all parts.
impl<R: 'static, S: Sharing> Router<Futures<R, S>> {
    /// Adds a tool. Its schemas are those of the types of its arguments and of its result.
    ///
    /// Arguments have a type with `#[derive(serde::Deserialize, schemars::JsonSchema)]` (feature `schemars`), or one
    /// that implements [`ToolArguments`]; `()` stands for none. The documentation comment of the type is the
    /// description, unless [`description`](ToolEntry::description) sets another one. The entry that is returned also
    /// sets title, annotations, icons and metadata.
    ///
    /// A result owns its data: an `async fn` returns `CallToolResult<'static>` or `Content<'static>`, because without the
    /// lifetime its result would borrow from the arguments.
    pub fn tool<A, T>(
        &mut self,
        name: &str,
        handler: impl AsyncFn(&mut AsyncCx, A) -> T // `CallToolResult<'static>`, not `CallToolResult`
        + ShareableFuture<S, ToolKind<A, T>>,
    ) -> ToolEntry<'_>
    where
        A: ArgumentsOn<R> + 'static,
        T: IntoToolResult + 'static,
    {
        self.add_tool(A::tool(name), T::output_schema(), handler.store_future())
    }

    /// Adds a tool whose schema is known only at run time.
    ///
    /// The handler gets the arguments as JSON, since their type could contradict the schema: as `serde_json::Value`,
    /// `serde_json::Map` or [`RawJson`], or not at all (`()`).
    pub fn tool_with<A, T>(
        &mut self,
        tool: Tool,
        handler: impl AsyncFn(&mut AsyncCx, A) -> T // `CallToolResult<'static>`, not `CallToolResult`
        + ShareableFuture<S, ToolKind<A, T>>,
    ) -> &mut Self
    where
        A: UntypedArguments + 'static,
        T: IntoToolResult + 'static,
    {
        self.add_tool(tool, T::output_schema(), handler.store_future());
        self
    }

    /// Adds a resource, read by its URI. An `async fn` returns `ReadResourceResult<'static>`, with the lifetime.
    pub fn resource<T: IntoReadResult + 'static>(
        &mut self,
        resource: Resource,
        handler: impl AsyncFn(&mut AsyncCx, &ResourceTarget<'_>) -> T // `ReadResourceResult<'static>`
        + ShareableFuture<S, ResourceKind<T>>,
    ) -> &mut Self {
        self.add_resource(resource, handler.store_future())
    }

    /// Adds a resource template. Its resources are read by URIs that match the template.
    ///
    /// The handler gets the values of the variables. `None` answers with "resource not found".
    pub fn resource_template<T: IntoReadResult + 'static>(
        &mut self,
        template: ResourceTemplate,
        handler: impl AsyncFn(&mut AsyncCx, &ResourceTarget<'_>) -> T // `ReadResourceResult<'static>`
        + ShareableFuture<S, ResourceKind<T>>,
    ) -> &mut Self {
        self.add_resource_template(template, handler.store_future())
    }

    /// Adds a prompt. Its arguments may have any type whose members can be parsed from strings, or `()`. An `async fn`
    /// returns `Vec<PromptMessage<'static>>`, with the lifetime.
    pub fn prompt<A, T>(
        &mut self,
        prompt: Prompt,
        handler: impl AsyncFn(&mut AsyncCx, A) -> T // `PromptMessage<'static>`, not `PromptMessage`
        + ShareableFuture<S, PromptKind<A, T>>,
    ) -> &mut Self
    where
        A: DeserializeOwned + 'static,
        T: IntoPromptResult + 'static,
    {
        self.add_prompt(prompt, handler.store_future())
    }

    /// Adds the completion of an argument of a prompt, or of a variable of a template. That must be registered
    /// already.
    pub fn completion<'r, T: IntoCompletion + 'static>(
        &mut self,
        reference: impl Into<CompletionReference<'r>>,
        argument: &str,
        handler: impl AsyncFn(&mut AsyncCx, &CompletionTarget<'_>) -> T + ShareableFuture<S, CompletionKind<T>>,
    ) -> &mut Self {
        self.add_completion(reference.into(), argument, handler.store_future())
    }
}

/// Stores handlers of entries.
impl<F: Flavor> Router<F> {
    fn add_tool(
        &mut self,
        mut tool: Tool,
        output: Option<RawJson>,
        handler: StoredHandler<F>,
    ) -> ToolEntry<'_> {
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

    fn add_resource(&mut self, resource: Resource, handler: StoredHandler<F>) -> &mut Self {
        let added = self.state_mut().core.resource(resource, handler).map(drop);
        self.record(added)
    }

    fn add_resource_template(&mut self, template: ResourceTemplate, handler: StoredHandler<F>) -> &mut Self {
        let added = self.state_mut().core.resource_template(template, handler).map(drop);
        self.record(added)
    }

    fn add_prompt(&mut self, prompt: Prompt, handler: StoredHandler<F>) -> &mut Self {
        let added = self.state_mut().core.prompt(prompt, handler).map(drop);
        self.record(added)
    }

    fn add_completion(
        &mut self,
        reference: CompletionReference<'_>,
        argument: &str,
        handler: StoredHandler<F>,
    ) -> &mut Self {
        let added = self.state_mut().core.completion(reference, argument, handler);
        self.record(added)
    }
}

// Functions on a router of any flavour.

/// A router of any flavour, for entries whose handlers are functions: `Fn + Send + Sync`.
///
/// On a router of futures the function runs when its future is polled, so it must not block.
///
/// ```
/// # use mcp_runtime::server::router::{Functions, Futures, Local, RegisterFunctions, Router};
/// use mcp_proto::model::Resource;
///
/// /// Adds entries that every adapter serves.
/// fn add_entries(router: &mut impl RegisterFunctions) {
///     router.resource(Resource::new("harbour://tide", "tide"), |_, _| "high");
/// }
///
/// let mut router = Router::<Functions<(), Local>>::new("harbour", "1.0");
/// add_entries(&mut router);
/// let mut router_of_futures = Router::<Futures<(), Local>>::new("harbour", "1.0");
/// add_entries(&mut router_of_futures);
/// # router.check().unwrap();
/// # router_of_futures.check().unwrap();
/// ```
pub trait RegisterFunctions {
    /// Flavour of the router.
    type Flavor: Flavor;

    /// Returns the router.
    fn as_router(&mut self) -> &mut Router<Self::Flavor>;

    /// Adds a tool; see [`Router::tool`].
    fn tool<A, T>(
        &mut self,
        name: &str,
        handler: impl Fn(&mut Cx<'_>, A) -> T + Send + Sync + 'static,
    ) -> ToolEntry<'_>
    where
        A: ArgumentsOn<<Self::Flavor as Flavor>::Adapter> + 'static,
        T: IntoToolResult + 'static,
    {
        self.as_router().add_tool(
            A::tool(name),
            T::output_schema(),
            stored::<Self::Flavor, ToolKind<A, T>>(handler),
        )
    }

    /// Adds a tool whose schema is known only at run time; see [`Router::tool_with`].
    fn tool_with<A, T>(
        &mut self,
        tool: Tool,
        handler: impl Fn(&mut Cx<'_>, A) -> T + Send + Sync + 'static,
    ) -> &mut Self
    where
        A: UntypedArguments + 'static,
        T: IntoToolResult + 'static,
    {
        self.as_router().add_tool(tool, T::output_schema(), stored::<Self::Flavor, ToolKind<A, T>>(handler));
        self
    }

    /// Adds a resource; see [`Router::resource`].
    fn resource<T: IntoReadResult + 'static>(
        &mut self,
        resource: Resource,
        handler: impl Fn(&mut Cx<'_>, &ResourceTarget<'_>) -> T + Send + Sync + 'static,
    ) -> &mut Self {
        self.as_router().add_resource(resource, stored::<Self::Flavor, ResourceKind<T>>(handler));
        self
    }

    /// Adds a resource template; see [`Router::resource_template`].
    fn resource_template<T: IntoReadResult + 'static>(
        &mut self,
        template: ResourceTemplate,
        handler: impl Fn(&mut Cx<'_>, &ResourceTarget<'_>) -> T + Send + Sync + 'static,
    ) -> &mut Self {
        self.as_router().add_resource_template(template, stored::<Self::Flavor, ResourceKind<T>>(handler));
        self
    }

    /// Adds a prompt; see [`Router::prompt`].
    fn prompt<A, T>(
        &mut self,
        prompt: Prompt,
        handler: impl Fn(&mut Cx<'_>, A) -> T + Send + Sync + 'static,
    ) -> &mut Self
    where
        A: DeserializeOwned + 'static,
        T: IntoPromptResult + 'static,
    {
        self.as_router().add_prompt(prompt, stored::<Self::Flavor, PromptKind<A, T>>(handler));
        self
    }

    /// Adds the completion of an argument or a variable; see [`Router::completion`].
    fn completion<'r, T: IntoCompletion + 'static>(
        &mut self,
        reference: impl Into<CompletionReference<'r>>,
        argument: &str,
        handler: impl Fn(&mut Cx<'_>, &CompletionTarget<'_>) -> T + Send + Sync + 'static,
    ) -> &mut Self {
        self.as_router().add_completion(
            reference.into(),
            argument,
            stored::<Self::Flavor, CompletionKind<T>>(handler),
        );
        self
    }

    /// Adds a hook that observes the calls of entries and lists.
    fn hook(&mut self, hook: impl Hook + Send + Sync + 'static) -> &mut Self {
        let hook = callbacks::hook::<Shared>(hook);
        let hook = <Self::Flavor as Flavor>::Sharing::from_shared::<HookCall>(hook);
        self.as_router().add_middleware(Middleware::Hook(hook));
        self
    }
}

impl<F: Flavor> RegisterFunctions for Router<F> {
    type Flavor = F;

    fn as_router(&mut self) -> &mut Self {
        self
    }
}

/// Returns the handler of the flavour `F` that runs a function.
fn stored<F: Flavor, K: Kind<Request = EntryCall>>(
    handler: impl Fn(&mut Cx<'_>, K::Arguments<'_>) -> K::Output + Send + Sync + 'static,
) -> StoredHandler<F> {
    F::from_function(function::<Shared, K>(handler))
}

// Tools whose handlers are functions that may block, on routers of futures.

impl<R: BlockingPool + 'static, S: Sharing> Router<Futures<R, S>> {
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
        A: ArgumentsOn<R> + Send + 'static,
        T: IntoToolResult + 'static,
    {
        let handler = Arc::new(handler);
        let stored = S::from_shared::<Starter<S, EntryCall>>(Arc::new(move |cx, target| {
            S::start(run_tool::<R, A, T>(handler.clone(), cx, target))
        }));
        self.add_tool(A::tool(name), T::output_schema(), stored)
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
