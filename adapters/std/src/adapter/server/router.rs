//! Routers of closures: the parts that all adapters share.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_proto::RpcError;
use mcp_proto::model::{CallToolResult, ReadResourceResult};
use mcp_proto::router::{HandlerError, Hook, HookContext, HookOutcome, ResourceTarget, Router, ToolTarget};
use serde::Serialize;

use super::cx::{Answered, CallBackend, Cx};
use super::handler::HandlerFailure;
use crate::catch;

/// Outcome of a handler: the answer and whether it reports a tool failure.
pub type HandlerResult = Result<(Answered, bool), RpcError>;

/// An immutable copy that is in use while the next one is prepared.
///
/// No lock is held while a copy is in use.
#[derive(Debug)]
pub struct Snapshot<T>(Mutex<Arc<T>>);

impl<T> Snapshot<T> {
    /// Creates a cell with its first snapshot.
    pub fn new(first: Arc<T>) -> Self {
        Self(Mutex::new(first))
    }

    /// Returns the current snapshot.
    pub fn load(&self) -> Arc<T> {
        lock(&self.0).clone()
    }

    /// Replaces the current snapshot. Users of the previous one keep it.
    pub fn store(&self, next: Arc<T>) {
        // The previous snapshot is dropped after the lock.
        let _previous = core::mem::replace(&mut *lock(&self.0), next);
    }

    /// Returns a mutable reference to the current snapshot. Copies it first if it is in use.
    pub fn make_mut(&mut self) -> &mut T
    where
        T: Clone,
    {
        Arc::make_mut(self.0.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the current snapshot. Copies it if it is in use.
    pub fn into_inner(self) -> T
    where
        T: Clone,
    {
        Arc::unwrap_or_clone(self.0.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A queue of changes for the next snapshot. Clones share the queue.
pub struct ChangeQueue<C>(Arc<Mutex<ChangeQueueState<C>>>);

enum ChangeQueueState<C> {
    Queued(Vec<C>),
    /// Changes go to this queue instead.
    Forwarded(ChangeQueue<C>),
}

impl<C> Default for ChangeQueue<C> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(ChangeQueueState::Queued(Vec::new()))))
    }
}

impl<C> ChangeQueue<C> {
    /// Adds a change.
    pub fn push(&self, change: C) {
        match &mut *lock(&self.0) {
            ChangeQueueState::Queued(changes) => changes.push(change),
            ChangeQueueState::Forwarded(outer) => outer.push(change),
        }
    }

    /// Returns whether there is nothing to take.
    pub fn is_empty(&self) -> bool {
        !matches!(&*lock(&self.0), ChangeQueueState::Queued(changes) if !changes.is_empty())
    }

    /// Takes all changes. Returns none once the queue [forwards](Self::forward_to) them.
    pub fn take(&self) -> Vec<C> {
        match &mut *lock(&self.0) {
            ChangeQueueState::Queued(changes) => core::mem::take(changes),
            ChangeQueueState::Forwarded(_) => Vec::new(),
        }
    }

    /// Moves all changes, and all later ones, to `outer`.
    pub fn forward_to(&self, outer: &Self) {
        let mut state = lock(&self.0);
        if let ChangeQueueState::Queued(changes) =
            core::mem::replace(&mut *state, ChangeQueueState::Forwarded(outer.clone()))
        {
            changes.into_iter().for_each(|change| outer.push(change));
        }
    }
}

impl<C> Clone for ChangeQueue<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C> fmt::Debug for ChangeQueue<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*lock(&self.0) {
            ChangeQueueState::Queued(changes) => f.debug_tuple("ChangeQueue").field(&changes.len()).finish(),
            ChangeQueueState::Forwarded(outer) => outer.fmt(f),
        }
    }
}

/// Locks a mutex, ignoring poison. Only for state that stays consistent if a holder panics.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reports the outcome of a call to the hooks, even if its handler panics or is dropped.
#[derive(Debug)]
pub struct HookGuard<'a, H, M: Hook>(&'a Router<H, M>, Option<HookContext<'a>>);

impl<'a, H, M: Hook> HookGuard<'a, H, M> {
    /// Creates the guard before the handler runs.
    pub const fn new(router: &'a Router<H, M>, context: HookContext<'a>) -> Self {
        Self(router, Some(context))
    }

    /// Reports the outcome to the hooks and returns the answer.
    ///
    /// # Errors
    ///
    /// The error of the handler.
    pub fn finish<L: CallBackend + ?Sized>(
        mut self,
        cx: &Cx<'_, L>,
        result: HandlerResult,
    ) -> Result<Answered, RpcError> {
        if let Some(context) = self.1.take() {
            self.0.finish(
                context,
                match &result {
                    _ if cx.is_cancelled() => HookOutcome::Cancelled,
                    _ if cx.is_awaiting_input() => HookOutcome::InputRequired,
                    Ok((_, true)) => HookOutcome::ToolFailed,
                    Ok((_, false)) => HookOutcome::Completed,
                    Err(error) => HookOutcome::Failed(error),
                },
            );
        }
        result.map(|(answered, _)| answered)
    }
}

impl<H, M: Hook> Drop for HookGuard<'_, H, M> {
    fn drop(&mut self) {
        if let Some(context) = self.1.take() {
            let panicked = RpcError::internal("the handler panicked");
            let outcome = if std::thread::panicking() {
                HookOutcome::Failed(&panicked)
            } else {
                HookOutcome::Cancelled
            };
            // A hook that panics during a panic would abort the process.
            let _ = catch(|| self.0.finish(context, outcome));
        }
    }
}

/// Returns the error for a call that reached a handler of another kind.
pub fn misrouted_error() -> RpcError {
    RpcError::internal("this handler is for something else")
}

/// Answers with the result of a tool, after checking it against the output schema.
///
/// # Errors
///
/// The error for the client: the handler failed, the result violates the schema, or it cannot be sent.
pub fn complete_tool<L: CallBackend + ?Sized>(
    cx: &mut Cx<'_, L>,
    target: &ToolTarget<'_>,
    result: Result<CallToolResult<'static>, HandlerError>,
) -> HandlerResult {
    let failed = result.as_ref().is_ok_and(CallToolResult::is_failure);
    if let Some(violation) = result.as_ref().ok().and_then(|result| target.check(result).err()) {
        let error = violation.to_rpc_error();
        cx.record_failure(HandlerFailure::InvalidToolOutput(violation));
        return Err(error);
    }
    complete(cx, result).map(|(answered, _)| (answered, failed))
}

/// Answers with the contents of a resource. Adds the cache hint of the resource if the result has none.
///
/// # Errors
///
/// The error for the client: the handler failed, or the result cannot be sent.
pub fn complete_read<L: CallBackend + ?Sized>(
    cx: &mut Cx<'_, L>,
    target: &ResourceTarget<'_>,
    result: Result<ReadResourceResult<'_>, HandlerError>,
) -> HandlerResult {
    let result = result.map(|mut result| {
        if let Some(hint) = target.cache.filter(|_| result.ttl_ms.is_none() && result.cache_scope.is_none()) {
            result.ttl_ms = Some(hint.ttl_ms());
            result.cache_scope = Some(hint.scope());
        }
        result
    });
    complete(cx, result)
}

/// Answers with the result of a handler.
///
/// # Errors
///
/// The error for the client: the handler failed, or the result cannot be sent.
pub fn complete<L: CallBackend + ?Sized, T: Serialize>(
    cx: &mut Cx<'_, L>,
    result: Result<T, HandlerError>,
) -> HandlerResult {
    match result {
        Ok(result) => cx.complete(&result).map(|answered| (answered, false)),
        Err(error) => {
            if let HandlerError::Encode(source) = &error {
                cx.record_failure(HandlerFailure::Encode(source.clone()));
            }
            Err(error.into_rpc_error())
        }
    }
}

/// Defines the `Router` and `RouterUpdates` of an adapter: registration of handlers, and routing of calls.
///
/// The parameters state how adapters differ:
///
/// - `handlers`: the trait of handlers, for example `FnMut`.
/// - `callbacks`: the trait of the other closures.
/// - `bounds`: further bounds of both.
/// - `changes`: further bounds of updates.
/// - `pointer`: the shared pointer for hooks.
/// - `async`: the token before functions that run handlers.
/// - `await`: the tokens after the call of a handler.
/// - `examples`: the import of the adapter, and what closures begin with, for the examples in the documentation.
///
/// The calling module provides these types of shared closures: `RouteFn` (`Fn(&mut Cx<'_>, CallTarget<'_>)`, which
/// returns a [`HandlerResult`]), `FallbackFn`, `InterestFn`, `FailureFn`, `AuthenticateFn` and `SharedHook`. It
/// provides the macros `handler!`, `fallback!` and `callback!`, which create the first, the second and the other
/// closures. It also implements `Handler` for the router and the methods that serve.
#[macro_export]
macro_rules! router {
    (
        $(#[$about:meta])*
        handlers: $Handler:ident, callbacks: $Callback:ident, bounds: [$($bounds:tt)*],
        changes: [$($sends:tt)*], pointer: $Pointer:ident, async: [$($async:tt)?], await: [$($await:tt)*],
        examples: [$import:literal, $closure:literal]
    ) => {
        $(#[$about])*
        ///
        /// # Errors of handlers
        ///
        /// A handler may return `Result` with any error that implements `Display`, such as an `enum` of `thiserror` or
        /// an `anyhow::Error`. The error of a tool becomes a result that tells the model what went wrong; elsewhere it
        /// becomes an internal error with its message. An [`RpcError`] is sent as it is. The text of an
        /// `anyhow::Error` is the outermost context alone; `{:#}` adds the causes.
        ///
        /// ```
        #[doc = $import]
        /// use anyhow::Context as _;
        /// use mcp_proto::{RawJson, model::Tool};
        ///
        /// #[derive(Debug, thiserror::Error)]
        /// enum TideError {
        ///     #[error("no tide table for {0}; `harbours` lists the known ones")]
        ///     UnknownHarbour(String),
        /// }
        ///
        /// fn tide(harbour: &str) -> Result<&'static str, TideError> {
        ///     Err(TideError::UnknownHarbour(harbour.into()))
        /// }
        ///
        /// fn plan(harbour: &str) -> anyhow::Result<String> {
        ///     Ok(format!("leave at {} tide", tide(harbour).context("no plan")?))
        /// }
        ///
        /// # let tool = |name: &str| Tool::new(name, RawJson::new(r#"{"type":"object"}"#).unwrap());
        /// let mut router = Router::new("harbour", "1.0");
        #[doc = concat!("router.tool_with(tool(\"tide\"), ", $closure, "_: &mut Cx<'_>, _: serde_json::Value| tide(\"Cork\"));")]
        #[doc = concat!("router.tool_with(tool(\"plan\"), ", $closure, "_: &mut Cx<'_>, _: serde_json::Value| {")]
        ///     plan("Cork").map_err(|error| format!("{error:#}"))
        /// });
        /// # router.check().unwrap();
        /// ```
        pub struct Router {
            state: Snapshot<RouterState>,
            cache: Mutex<PageCache>,
            updates: RouterUpdates,
            /// Held while updates are applied.
            update_lock: Mutex<()>,
        }

        /// Everything that a call needs. Updates are applied to a copy while calls are under way.
        #[derive(Clone)]
        struct RouterState {
            core: router::Router<RouteFn, SharedHook>,
            /// The first registration error.
            register_error: Option<RegisterError>,
            fallback: Option<FallbackFn>,
            on_interest: Option<InterestFn>,
            on_failure: Option<FailureFn>,
            #[cfg(feature = "http")]
            authenticate: Option<AuthenticateFn>,
            /// Whether the router serves, so that later registrations are announced as changes.
            is_serving: bool,
        }

        impl RouterState {
            fn report_failure(&self, call: &Call, failure: &HandlerFailure) {
                match &self.on_failure {
                    Some(on_failure) => on_failure(call, failure),
                    None => std::eprintln!("{}: {failure}", call.method()),
                }
            }
        }

        /// Updates of a router from inside its handlers.
        ///
        /// Updates are applied when the handler that scheduled them has ended, before its answer is sent. This is also
        /// true if the handler panics. If several handlers run at a time, the first one that ends applies all updates.
        /// Handlers that still run keep the previous state of the router.
        ///
        /// Updates of a [nested](Router::nest) router apply to the outer router, which contains its entries. An update
        /// that panics is [reported](Router::on_failure), and the other updates are applied. Updates that an update
        /// schedules are applied after the next call.
        #[derive(Clone, Debug)]
        pub struct RouterUpdates(ChangeQueue<RouterUpdate>);

        type RouterUpdate = Box<dyn FnOnce(&mut Router) $($sends)*>;

        impl RouterUpdates {
            /// Schedules an update of the router.
            pub fn schedule(&self, update: impl FnOnce(&mut Router) $($sends)* + 'static) {
                self.0.push(Box::new(update));
            }
        }

        impl Router {
            /// Creates a router for a server with this name and version, without entries.
            ///
            /// With the feature `validate`, arguments and results are checked against the schemas of tools, by
            /// `JsonSchemaValidator` ([`validator`](Self::validator), [`clear_validator`](Self::clear_validator)).
            #[must_use]
            pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
                #[cfg_attr(not(feature = "validate"), expect(unused_mut, reason = "nothing to add"))]
                let mut core = router::Router::new(name, version);
                #[cfg(feature = "validate")]
                let _: Result<_, RegisterError> = core.validator($crate::schema::JsonSchemaValidator::new());
                Self::from_state(RouterState {
                    core,
                    register_error: None,
                    fallback: None,
                    on_interest: None,
                    on_failure: None,
                    #[cfg(feature = "http")]
                    authenticate: None,
                    is_serving: false,
                }.into(), ChangeQueue::default())
            }

            fn from_state(state: Arc<RouterState>, updates: ChangeQueue<RouterUpdate>) -> Self {
                Self {
                    state: Snapshot::new(state),
                    cache: Mutex::default(),
                    updates: RouterUpdates(updates),
                    update_lock: Mutex::new(()),
                }
            }

            /// Adds a tool. Its input schema is derived from the type of its arguments; use `()` for none.
            #[cfg(feature = "schemars")]
            pub fn tool<A, R>(
                &mut self,
                name: &str,
                description: &str,
                handler: impl $Handler(&mut Cx<'_>, A) -> R $($bounds)* + 'static,
            ) -> &mut Self
            where
                A: DeserializeOwned + router::schema::schemars::JsonSchema + 'static,
                R: IntoToolResult + 'static,
            {
                self.tool_with(router::schema::tool::<A>(name).description(description), handler)
            }

            /// Adds a tool with its own description. Its arguments may have any type, for example `serde_json::Value`.
            ///
            /// Without an output schema, `tool` gets that of the type of its results, if there is one.
            ///
            /// Titles and annotations are for the users of clients. Clients do not trust annotations of a server that
            /// they do not trust (TOOL-026).
            ///
            /// ```
            #[doc = $import]
            /// use mcp_proto::{RawJson, model::{Tool, ToolAnnotations}};
            ///
            /// let schema = RawJson::new(r#"{"type":"object"}"#)?;
            /// let reads = ToolAnnotations::new().read_only_hint(true).open_world_hint(false);
            /// let tide = Tool::new("tide", schema).title("State of the tide").annotations(reads);
            /// let mut router = Router::new("harbour", "1.0");
            #[doc = concat!("router.tool_with(tide, ", $closure, "_: &mut Cx<'_>, _: serde_json::Value| \"high\");")]
            /// # router.check().unwrap();
            /// # Ok::<(), mcp_proto::InvalidJson>(())
            /// ```
            ///
            /// With the feature `schemars`, [`router::schema::tool`] creates the description from the type of the
            /// arguments.
            pub fn tool_with<A, R>(
                &mut self,
                mut tool: Tool,
                handler: impl $Handler(&mut Cx<'_>, A) -> R $($bounds)* + 'static,
            ) -> &mut Self
            where
                A: DeserializeOwned + 'static,
                R: IntoToolResult + 'static,
            {
                tool.output_schema = tool.output_schema.or_else(R::output_schema);
                let run: RouteFn = handler!(handler, |cx, target| {
                    let CallTarget::Tool(target) = target else { return Err(misrouted_error()) };
                    let result = match target.parse::<A>() {
                        Ok(arguments) => handler(cx, arguments) $($await)* .into_tool_result(),
                        Err(invalid) => invalid.into_result(),
                    };
                    complete_tool(cx, &target, result)
                });
                let added = self.state_mut().core.tool(tool, run).map(drop);
                self.record(added)
            }

            /// Adds a resource, read by its URI.
            ///
            /// ```
            #[doc = $import]
            /// use mcp_proto::model::Resource;
            /// use mcp_proto::router::ResourceTarget;
            ///
            /// let tide = Resource::new("harbour://tide", "tide").title("State of the tide").mime_type("text/plain");
            /// let mut router = Router::new("harbour", "1.0");
            #[doc = concat!("router.resource(tide, ", $closure, "_: &mut Cx<'_>, _: &ResourceTarget<'_>| \"high\");")]
            /// # router.check().unwrap();
            /// ```
            pub fn resource<R: IntoReadResult + 'static>(
                &mut self,
                resource: Resource,
                handler: impl $Handler(&mut Cx<'_>, &ResourceTarget<'_>) -> R $($bounds)* + 'static,
            ) -> &mut Self {
                let run = Self::resource_handler(handler);
                let added = self.state_mut().core.resource(resource, run).map(drop);
                self.record(added)
            }

            /// Adds a resource template. Its resources are read by URIs that match the template.
            ///
            /// The handler gets the values of the variables. `None` answers with "resource not found".
            ///
            /// ```
            #[doc = $import]
            /// use mcp_proto::model::ResourceTemplate;
            /// use mcp_proto::router::ResourceTarget;
            ///
            /// let berth = ResourceTemplate::new("harbour://berths/{number}", "berth");
            /// let mut router = Router::new("harbour", "1.0");
            #[doc = concat!("router.resource_template(berth, ", $closure, "_: &mut Cx<'_>, read: &ResourceTarget<'_>| {")]
            ///     let number: u32 = read.variables.get("number")?.parse().ok()?;
            ///     (number < 40).then(|| format!("berth {number} is free"))
            /// });
            /// # router.check().unwrap();
            /// ```
            pub fn resource_template<R: IntoReadResult + 'static>(
                &mut self,
                template: ResourceTemplate,
                handler: impl $Handler(&mut Cx<'_>, &ResourceTarget<'_>) -> R $($bounds)* + 'static,
            ) -> &mut Self {
                let run = Self::resource_handler(handler);
                let added = self.state_mut().core.resource_template(template, run).map(drop);
                self.record(added)
            }

            fn resource_handler<R: IntoReadResult + 'static>(
                handler: impl $Handler(&mut Cx<'_>, &ResourceTarget<'_>) -> R $($bounds)* + 'static,
            ) -> RouteFn {
                handler!(handler, |cx, target| {
                    let CallTarget::Resource(target) = target else { return Err(misrouted_error()) };
                    let read = handler(cx, &target) $($await)*;
                    let result = read.into_read_result(&target.uri, target.mime_type);
                    complete_read(cx, &target, result)
                })
            }

            /// Adds a prompt. Its arguments may have any type whose members can be parsed from strings, or `()`.
            ///
            /// ```
            #[doc = $import]
            /// use mcp_proto::model::{Prompt, PromptArgument};
            ///
            /// #[derive(serde::Deserialize)]
            /// struct Trip {
            ///     to: String,
            ///     days: Option<u32>,
            /// }
            ///
            /// let arguments = [PromptArgument::new("to").title("Harbour").required(true), PromptArgument::new("days")];
            /// let mut router = Router::new("harbour", "1.0");
            #[doc = concat!("router.prompt(Prompt::new(\"trip\").arguments(arguments), ", $closure, "_: &mut Cx<'_>, trip: Trip| {")]
            ///     format!("Plan a trip to {} of {} days.", trip.to, trip.days.unwrap_or(1))
            /// });
            /// # router.check().unwrap();
            /// ```
            pub fn prompt<A, R>(
                &mut self,
                prompt: Prompt,
                handler: impl $Handler(&mut Cx<'_>, A) -> R $($bounds)* + 'static,
            ) -> &mut Self
            where
                A: DeserializeOwned + 'static,
                R: IntoPromptResult + 'static,
            {
                let run: RouteFn = handler!(handler, |cx, target| {
                    let CallTarget::Prompt(target) = target else { return Err(misrouted_error()) };
                    let arguments = target.parse()?;
                    let result = handler(cx, arguments) $($await)* .into_prompt_result();
                    complete(cx, result)
                });
                let added = self.state_mut().core.prompt(prompt, run).map(drop);
                self.record(added)
            }

            /// Adds the completion of an argument of a prompt, or of a variable of a template. That must be registered
            /// already.
            ///
            /// ```
            #[doc = $import]
            /// use mcp_proto::model::{Prompt, PromptArgument, PromptReference};
            /// use mcp_proto::router::{CompletionTarget, suggest};
            ///
            /// let mut router = Router::new("harbour", "1.0");
            /// let trip = Prompt::new("trip").arguments([PromptArgument::new("to")]);
            #[doc = concat!("router.prompt(trip, ", $closure, "_: &mut Cx<'_>, _: ()| \"Plan a trip.\");")]
            /// let trip = PromptReference::new("trip");
            #[doc = concat!("router.completion(trip, \"to\", ", $closure, "_: &mut Cx<'_>, typed: &CompletionTarget<'_>| {")]
            ///     suggest(["Cobh", "Cork", "Kinsale"], typed.value())
            /// });
            /// # router.check().unwrap();
            /// ```
            pub fn completion<'r, R: IntoCompletion + 'static>(
                &mut self,
                reference: impl Into<CompletionReference<'r>>,
                argument: &str,
                handler: impl $Handler(&mut Cx<'_>, &CompletionTarget<'_>) -> R $($bounds)* + 'static,
            ) -> &mut Self {
                let run: RouteFn = handler!(handler, |cx, target| {
                    let CallTarget::Completion(target) = target else { return Err(misrouted_error()) };
                    let result = handler(cx, &target) $($await)* .into_completion();
                    complete(cx, result)
                });
                let added = self.state_mut().core.completion(reference, argument, run);
                self.record(added)
            }

            /// Moves all entries of another router into this one; see [`router::Router::nest`].
            ///
            /// Updates that its handlers schedule through its [`RouterUpdates`] apply to this router from now on. The
            /// callbacks and the fallback of `inner` are dropped.
            ///
            /// Schemas that `inner` has compiled are not compiled again. With the feature `validate`, `inner` has a
            /// validator unless it was [removed](Self::clear_validator). Without one, the validator of this router
            /// checks its tools.
            pub fn nest(&mut self, prefix: &str, inner: Self) -> &mut Self {
                let state = inner.state.into_inner();
                if let Some(error) = state.register_error {
                    return self.record(Err(error));
                }
                let added = self.state_mut().core.nest(prefix, state.core).map(drop);
                if added.is_ok() {
                    inner.updates.0.forward_to(&self.updates.0);
                }
                self.record(added)
            }

            /// Sets the validator for arguments and results of tools; see [`router::Router::validator`].
            ///
            /// It replaces the default of the feature `validate`. Call it before adding tools whose schemas only this
            /// validator can use.
            pub fn validator(&mut self, validator: impl SchemaValidator + 'static) -> &mut Self {
                let added = self.state_mut().core.validator(validator).map(drop);
                self.record(added)
            }

            /// Removes the validator; see [`router::Router::clear_validator`].
            ///
            /// Call it before adding tools whose schemas the validator cannot use.
            pub fn clear_validator(&mut self) -> &mut Self {
                self.state_mut().core.clear_validator();
                self
            }

            /// Adds a hook that observes the calls of entries and lists.
            ///
            /// Calls that reach the [fallback](Self::fallback) are not observed.
            pub fn hook(&mut self, hook: impl Hook $($bounds)* + 'static) -> &mut Self {
                self.state_mut().core.hook($Pointer::new(hook));
                self
            }

            /// Sets the handler for calls that no entry takes.
            ///
            /// These are methods of the protocol whose capability was declared by [`core`](Self::core), and custom methods
            /// that [`Config::custom_method`](mcp_proto::server::Config::custom_method) permits. The engine answers all
            /// others itself.
            pub fn fallback(
                &mut self,
                handler: impl $Handler(&mut Cx<'_>, &Call) -> Result<Answered, RpcError> $($bounds)* + 'static,
            ) -> &mut Self {
                self.state_mut().fallback = Some(fallback!(handler, |cx, call| { handler(cx, call) $($await)* }));
                self
            }

            /// Enables subscriptions to resources (RES-010).
            ///
            /// `interest` is called with a URI and `true` when its first subscriber arrives, and with `false` when the
            /// last one has left. In a server with several shards, each shard calls it.
            ///
            /// The application publishes changes with [`Cx::publish`] or through a handle of the server.
            pub fn subscriptions(&mut self, interest: impl $Callback(&str, bool) $($bounds)* + 'static) -> &mut Self {
                self.state_mut().core.declare(Capability::ResourceSubscriptions);
                let on_interest: InterestFn =
                    callback!(interest, |uri: &str, is_wanted: bool| interest(uri, is_wanted));
                self.state_mut().on_interest = Some(on_interest);
                self
            }

            /// Sets a callback for failures that authors of handlers should know, for example panics and invalid
            /// results.
            ///
            /// Clients do not see them. Without a callback, failures are written to stderr.
            pub fn on_failure(
                &mut self,
                on_failure: impl $Callback(&Call, &HandlerFailure) $($bounds)* + 'static,
            ) -> &mut Self {
                let on_failure: FailureFn =
                    callback!(on_failure, |call: &Call, failure: &HandlerFailure| on_failure(call, failure));
                self.state_mut().on_failure = Some(on_failure);
                self
            }

            /// Sets the check of the tokens that requests carry, for a server that is
            /// [protected](mcp_proto::http::server::Config::protected); see [`Handler::verify_token`].
            #[cfg(feature = "http")]
            pub fn authenticate(
                &mut self,
                authenticate: impl $Callback(&BearerToken) -> Result<String, Denial> $($bounds)* + 'static,
            ) -> &mut Self {
                self.state_mut().authenticate =
                    Some(callback!(authenticate, |token: &BearerToken| authenticate(token)));
                self
            }

            /// Returns a handle for updates from inside handlers.
            #[must_use]
            pub fn updates(&self) -> RouterUpdates {
                self.updates.clone()
            }

            /// Returns the router of the core: identity, page sizes, cache hints, removal, and everything without a
            /// handler.
            pub fn core(&mut self) -> &mut router::Router<impl Sized + use<>, impl Hook + use<>> {
                &mut self.state_mut().core
            }

            /// Checks that everything was registered.
            ///
            /// # Errors
            ///
            /// The first registration error.
            pub fn check(&self) -> Result<(), RegisterError> {
                self.state.load().register_error.clone().map_or(Ok(()), Err)
            }

            /// Returns the configuration of the server. Call it after all registrations.
            ///
            /// # Errors
            ///
            /// As [`check`](Self::check).
            pub fn config(&self) -> Result<mcp_proto::server::Config, RegisterError> {
                self.check()?;
                Ok(self.state.load().core.config())
            }

            fn record(&mut self, added: Result<(), RegisterError>) -> &mut Self {
                if let Err(error) = added {
                    self.state_mut().register_error.get_or_insert(error);
                }
                self
            }

            fn state_mut(&mut self) -> &mut RouterState {
                self.state.make_mut()
            }

            $($async)? fn answer(
                &self,
                state: &RouterState,
                cx: &mut Cx<'_>,
                call: &Call,
            ) -> Result<Answered, RpcError> {
                match state.core.route(call) {
                    // Pages are encoded once per revision until something changes.
                    Route::Answer(answer) => {
                        let page = lock(&self.cache).page(call.version(), &answer).cloned();
                        match page {
                            Some(page) => cx.complete_prepared(&page),
                            None => cx.complete(&answer),
                        }
                    }
                    Route::Handle(work) => {
                        let guard = HookGuard::new(&state.core, work.context());
                        let result = (work.handler)(cx, work.target) $($await)*;
                        guard.finish(cx, result)
                    }
                    Route::Refuse(error) => Err(error),
                    _ => match &state.fallback {
                        Some(fallback) => fallback(cx, call) $($await)*,
                        None => Err(RpcError::method_not_found(call.method())),
                    },
                }
            }

            /// Drops the changes of registrations before the server runs.
            fn start_serving(&mut self) {
                let state = self.state_mut();
                if !core::mem::replace(&mut state.is_serving, true) {
                    state.core.take_changes().for_each(drop);
                }
            }

            /// Applies updates. Returns the changes to publish, including those made between calls.
            fn apply_updates(&mut self, updates: Vec<RouterUpdate>, call: &Call) -> Vec<mcp_proto::Change> {
                self.start_serving();
                for update in updates {
                    if let Err(panic) = catch(|| update(self)) {
                        let _ = catch(|| self.state_mut().report_failure(call, &HandlerFailure::Panicked(panic)));
                    }
                }
                self.state_mut().core.take_changes().collect()
            }
        }

        impl fmt::Debug for Router {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let state = self.state.load();
                f.debug_struct("Router")
                    .field("core", &state.core)
                    .field("register_error", &state.register_error)
                    .finish_non_exhaustive()
            }
        }
    };
}
