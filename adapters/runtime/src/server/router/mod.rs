//! Routers: entries by name, each with a handler of one [flavour](Flavor).

mod answer;
mod entries;
mod flavor;
mod layer;
mod share;
#[cfg(feature = "skills")]
mod skills;
mod updates;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
#[cfg(feature = "http")]
use std::net::ToSocketAddrs;
use std::sync::{Mutex, PoisonError, RwLock};

use mcp_proto::router::{
    self, AccessRules, Hook, PageCache, RegisterError, RegisterErrors, SchemaValidator, Visibility,
};
use mcp_proto::server::{Announcement, Call, Caller, Config};
use mcp_proto::{Diagnostic, EntryKind};
use mcp_std::catch;
use mcp_std::io::Duplex;

use super::attachments::{Attachments, ServerExtension};
use super::handler::HandlerFailure;
#[cfg(feature = "tasks")]
use super::tasks::TaskSource;
use crate::Error;
use flavor::{FallbackCall, StoredHandler};
use layer::Middleware;
use updates::{ChangeQueue, Observers, ScheduledUpdate, Snapshot};

pub use answer::{EntryRequest, EntryResult, HandlerResult};
pub use entries::{ArgumentsOn, RegisterFunctions};
pub use flavor::{Flavor, Functions, Futures, Local, LocalFuture, SendFuture, Shared, Sharing};
pub use layer::{Interceptor, Layer, LayerFn, Next, NextFuture, async_layer_fn, layer_fn};
pub use share::{Shareable, ShareableFuture};
pub use updates::RouterUpdates;

/// The types behind [`Shareable`], [`ShareableFuture`] and [`Sharing`]: what handlers are asked, and how stored code is called.
///
/// Signatures name them; programs need not.
pub mod roles {
    pub use super::entries::{CompletionKind, FallbackKind, Kind, PromptKind, ResourceKind, ToolKind};
    pub use super::flavor::{
        About, EntryCall, Failed, FallbackCall, Function, HookCall, LayerCall, Request, SharedFunction,
        Signature, Starter, Update,
    };
    pub use super::share::{CallOf, SendCall};
}

/// A server made of functions or futures, each for an entry with a name.
///
/// The [flavour](Flavor) `F` says what a handler has to be; each adapter has a router of the flavour that it runs. A
/// handler takes the context of the call and its arguments, and returns anything that can become a result.
///
/// ```
/// # use mcp_runtime::server::router::{Functions, Local, Router};
/// use mcp_proto::model::{Prompt, PromptArgument, PromptReference, Resource, ResourceTemplate};
/// use mcp_proto::router::suggest;
///
/// #[derive(serde::Deserialize)]
/// struct Trip {
///     to: String,
///     days: Option<u32>,
/// }
///
/// let mut router = Router::<Functions<(), Local>>::new("harbour", "1.0");
/// # #[cfg(feature = "schemars")]
/// router.tool("tide", |_, (): ()| "high").title("State of the tide").description("Returns the state of the tide");
///
/// let tide = Resource::new("harbour://tide", "tide").mime_type("text/plain");
/// router.resource(tide, |_, _| "high");
///
/// // Variables of a template are read by name. `None` answers with "resource not found".
/// router.resource_template(ResourceTemplate::new("harbour://berths/{number}", "berth"), |_, read| {
///     let number: u32 = read.variables.get("number")?.parse().ok()?;
///     (number < 40).then(|| format!("berth {number} is free"))
/// });
///
/// // The arguments of a prompt are parsed from strings.
/// let arguments = [PromptArgument::new("to").title("Harbour").required(true), PromptArgument::new("days")];
/// router.prompt(Prompt::new("trip").arguments(arguments), |_, trip: Trip| {
///     format!("Plan a trip to {} of {} days.", trip.to, trip.days.unwrap_or(1))
/// });
/// router.completion(PromptReference::new("trip"), "to", |_, typed| {
///     suggest(["Cobh", "Cork", "Kinsale"], typed.value())
/// });
/// router.check().unwrap();
/// ```
///
/// An entry that cannot be registered (an invalid name, a duplicate name) is recorded. [`check`](Self::check) reports
/// all of them, and serving fails with them.
///
/// # State of handlers
///
/// A handler is a closure that may be called again at any time, so what it captures is shared: by [`Rc`](alloc::rc::Rc) and cells on one
/// thread, by [`Arc`] and locks on several. Handlers that share a value capture a clone of its pointer.
///
/// ```
/// # use mcp_runtime::server::router::{Functions, Local, Router};
/// use std::cell::RefCell;
/// use std::rc::Rc;
/// use mcp_proto::model::{Prompt, Resource};
///
/// let log = Rc::new(RefCell::new(vec!["cast off"]));
/// let mut router = Router::<Functions<(), Local>>::new("ship", "1.0");
/// let read = log.clone();
/// router.resource(Resource::new("ship://log", "log"), move |_, _| read.borrow().join("\n"));
/// router.prompt(Prompt::new("report"), move |_, (): ()| format!("Summarize {} entries.", log.borrow().len()));
/// # router.check().unwrap();
/// ```
///
/// # Lists for each principal
///
/// [`visibility`](Self::visibility) and [`visible_to`](Self::visible_to) decide which entries a caller sees: to all others,
/// an entry is as if it were not registered. They hide what a caller has no right to know; a scope that a caller may ask for is
/// [required](router::Router::require_scope) instead.
///
/// ```
/// # #[cfg(feature = "schemars")] {
/// # use mcp_runtime::server::router::{Functions, Local, Router};
/// let mut router = Router::<Functions<(), Local>>::new("harbour", "1.0");
/// router.tool("tide", |_, (): ()| "high").description("Returns the state of the tide");
/// router
///     .tool("close", |_, (): ()| "closed")
///     .description("Closes the harbour")
///     .visible_to(|caller| caller.principal() == Some("harbour master"));
/// router.check().unwrap();
/// # }
/// ```
///
/// # Entries for every adapter
///
/// [`RegisterFunctions`] is implemented by the routers of all flavours. A function over it registers entries that every adapter can
/// serve.
///
/// # Errors of handlers
///
/// A handler may return `Result` with any error that implements `Error + Send + Sync`, with text, or with an
/// `anyhow::Error`. The error of a tool becomes a result that tells the model what went wrong; elsewhere it becomes an
/// internal error with its message. An [`RpcError`](mcp_proto::RpcError) is sent as it is (with the feature `anyhow`
/// also inside an `anyhow::Error`). The client reads the message of the error alone; [`on_failure`](Self::on_failure)
/// gets those of its causes, too.
///
/// A closure that leaves by `?` does not name its error. It ends in [`ok`](mcp_proto::router::ok)`(value)`, which takes errors of
/// every kind, or in `anyhow::Ok(value)`.
///
/// ```
/// # use mcp_runtime::server::router::{Functions, Local, Router};
/// use mcp_proto::model::ResourceTemplate;
///
/// #[derive(Debug)]
/// struct UnknownHarbour(String);
///
/// impl std::fmt::Display for UnknownHarbour {
///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
///         write!(f, "no tide table for {}; `harbours` lists the known ones", self.0)
///     }
/// }
///
/// impl std::error::Error for UnknownHarbour {}
///
/// fn tide(harbour: &str) -> Result<String, UnknownHarbour> {
///     Err(UnknownHarbour(harbour.into()))
/// }
///
/// let mut router = Router::<Functions<(), Local>>::new("harbour", "1.0");
/// router.resource_template(ResourceTemplate::new("tide://{harbour}", "tide"), |_, read| {
///     tide(read.variables.get("harbour").unwrap_or_default())
/// });
/// router.check().unwrap();
/// ```
///
/// # Layers
///
/// A layer is code around handlers, for example a function ([`layer_fn`], [`async_layer_fn`]). It may refuse a call, rewrite its arguments, its result or its error, run the
/// handler again, or answer without it. [`Next`] is the inside: the further layers and the handler.
///
/// ```
/// # use mcp_runtime::server::router::{Functions, Futures, Local, Router};
/// use mcp_runtime::server::router::{async_layer_fn, layer_fn};
/// # use std::time::Duration;
/// use mcp_proto::{EntryKind, RpcError};
/// use mcp_proto::model::Resource;
///
/// let mut router = Router::<Functions<(), Local>>::new("harbour", "1.0");
/// router.resource(Resource::new("harbour://tide", "tide"), |_, _| "high");
/// // Around all entries, those that are registered later included.
/// router.layer(layer_fn(|cx, request, next| {
///     if !cx.has_scope("harbour") {
///         return Err(RpcError::invalid_request("the harbour is closed").into());
///     }
///     next.run(cx, request)
/// }));
/// // Around one entry: tries twice.
/// router.layer_entry(EntryKind::Resource, "harbour://tide", layer_fn(|cx, request, next| {
///     next.run(cx, request.clone()).or_else(|_| {
///         cx.sleep(Duration::from_secs(1))?;
///         next.run(cx, request)
///     })
/// }));
/// # router.check().unwrap();
///
/// // On a router of futures, a layer is an async closure.
/// let mut router_of_futures = Router::<Futures<(), Local>>::new("harbour", "1.0");
/// router_of_futures.layer(async_layer_fn(async |cx, request, next| {
///     let result = next.run(cx, request).await;
///     eprintln!("has ended: {}", result.is_ok());
///     result
/// }));
/// ```
///
/// The first layer that was added is the outermost. Layers of a [nested](Self::nest) router are inside those of the outer
/// router, and layers of an entry (`layer_entry`) are inside those of its router. [Hooks](Hook)
/// run outside of all layers.
///
/// An [`Interceptor`] is a layer for routers of every flavour. The module
/// [`layers`](crate::server::layers) has some: limits of rate, concurrency, time and size, redaction, and an audit log.
///
/// - Layers surround handlers alone. Calls that the router answers itself (lists, arguments that violate the schema,
///   missing scopes), and calls for the fallback, have none.
/// - What a layer returns counts as the outcome of the handler: its result is checked against the output schema.
/// - A call that asks for input is delivered again when it is answered, and its layers run again. Meanwhile
///   [`is_awaiting_input`](super::CallCx::is_awaiting_input) returns `true` after `next.run`, and the outcome is not sent.
/// - Layers surround the run of a task, not the call that creates it.
/// - A panic of a layer is a panic of the handler: the call fails, and others go on. A layer that does not return is a handler
///   that does not return: [`Limits::max_call_age`](mcp_proto::Limits) ends its call. If a layer answers the call by `cx`, that
///   answer stands.
pub struct Router<F: Flavor> {
    state: Snapshot<RouterState<F>>,
    cache: Mutex<PageCache>,
    updates: RouterUpdates<F>,
    /// Held while updates are applied.
    update_lock: Mutex<()>,
}

/// Everything that a call needs. Updates are applied to a copy while calls are under way.
#[derive(Clone)]
struct RouterState<F: Flavor> {
    core: router::Router<StoredHandler<F>, Middleware<F>>,
    /// The refused registrations.
    errors: RegisterErrors,
    fallback: Option<F::Stored<FallbackCall>>,
    observers: Observers<F::Sharing>,
    attachments: Attachments,
    /// Whether the router serves, so that later registrations are announced as changes.
    is_serving: bool,
    /// The rights to see and use entries, which engines look up; clones share them.
    access_rules: Arc<RwLock<AccessRules>>,
}

impl<F: Flavor> RouterState<F> {
    /// Shows engines the rights to see and use entries as they are now.
    fn publish_access_rules(&self) {
        let next = self.core.access_rules();
        *self.access_rules.write().unwrap_or_else(PoisonError::into_inner) = next;
    }

    /// Returns the changes since the last call, and shows engines who may see and use entries since then.
    fn take_changes(&mut self) -> Vec<Announcement<'static>> {
        let ruled = [EntryKind::Tool, EntryKind::Resource, EntryKind::ResourceTemplate, EntryKind::Skill];
        if ruled.into_iter().any(|kind| self.core.has_changed(kind)) {
            self.publish_access_rules();
        } else if !self.core.has_changed(EntryKind::Prompt) {
            return Vec::new();
        }
        self.core.take_changes().collect()
    }

    fn report_failure(&self, call: &Call, failure: &HandlerFailure) {
        match &self.observers.on_failure {
            Some(on_failure) => on_failure(&mut (), (call, failure)),
            None => std::eprintln!("{}: {failure}", call.describe_target()),
        }
    }
}

impl<F: Flavor> Router<F> {
    /// Creates a router for a server with this name and version, without entries.
    ///
    /// With the feature `validate`, arguments and results are checked against the schemas of tools, by
    /// `JsonSchemaValidator` ([`validator`](Self::validator), [`clear_validator`](Self::clear_validator)).
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        let mut core = router::Router::new(name, version);
        core.guard_visibility(|function| catch(function).unwrap_or(false));
        #[cfg(feature = "validate")]
        let _: Result<_, RegisterError> = core.validator(mcp_std::schema::JsonSchemaValidator::new());
        let state = RouterState {
            core,
            errors: RegisterErrors::default(),
            fallback: None,
            observers: Observers::default(),
            attachments: Attachments::default(),
            is_serving: false,
            access_rules: Arc::default(),
        };
        Self::from_state(Arc::new(state), ChangeQueue::default())
    }

    fn from_state(state: Arc<RouterState<F>>, updates: ChangeQueue<ScheduledUpdate<F>>) -> Self {
        Self {
            state: Snapshot::new(state),
            cache: Mutex::default(),
            updates: RouterUpdates(updates),
            update_lock: Mutex::new(()),
        }
    }

    /// Moves all entries of another router into this one; see [`router::Router::nest`].
    ///
    /// Updates that its handlers schedule through its [`RouterUpdates`] apply to this router from now on. The callbacks
    /// and the fallback of `inner` are dropped.
    ///
    /// Schemas that `inner` has compiled are not compiled again. With the feature `validate`, `inner` has a validator
    /// unless it was [removed](Self::clear_validator). Without one, the validator of this router checks its tools.
    pub fn nest(&mut self, prefix: &str, inner: Self) -> &mut Self {
        let state = inner.state.into_inner();
        if !state.errors.is_empty() {
            self.state_mut().errors.append(state.errors);
            return self;
        }
        let added = self.state_mut().core.nest(prefix, state.core).map(drop);
        if added.is_ok() {
            let attachments = &mut self.state_mut().attachments;
            state
                .attachments
                .extensions
                .into_iter()
                .for_each(|extension| attachments.add_extension(extension));
            inner.updates.0.forward_to(&self.updates.0);
        }
        self.record(added)
    }

    /// Sets the validator for arguments and results of tools; see [`router::Router::validator`].
    ///
    /// It replaces the default of the feature `validate`. Call it before adding tools whose schemas only this validator
    /// can use.
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

    /// Sets an observer of all requests of the server, for traces and metrics. Handlers run in the
    /// [scope](mcp_proto::observe::Observation::in_scope) of their request. That of a [nested](Self::nest) router is dropped.
    pub fn observer(&mut self, observer: Arc<dyn mcp_proto::observe::Observer>) -> &mut Self {
        self.state_mut().core.observer(observer);
        self
    }

    /// Returns a handle for updates from inside handlers.
    #[must_use]
    pub fn updates(&self) -> RouterUpdates<F> {
        self.updates.clone()
    }

    /// Returns the router of the core: identity, page sizes, cache hints, removal, and everything without a handler.
    pub fn core(&mut self) -> &mut router::Router<impl Sized + use<F>, impl Hook + use<F>> {
        &mut self.state_mut().core
    }

    /// Gives the server tasks; see [`ServerTasks`](crate::server::ServerTasks).
    ///
    /// Calls of tools that [support](mcp_proto::router::ToolEntry::task_support) it may then become tasks. A server with
    /// tasks has one shard. Those of a [nested](Self::nest) router are dropped.
    #[cfg(feature = "tasks")]
    pub fn tasks(&mut self, tasks: super::tasks::ServerTasks) -> &mut Self {
        self.state_mut().attachments.tasks = Some(TaskSource::new(tasks));
        self
    }

    /// Adds an extension of the protocol that answers its methods itself. Layers and the fallback see none of its calls.
    ///
    /// Those of a [nested](Self::nest) router are added too. One that is there is not added again.
    pub fn extension(&mut self, extension: impl ServerExtension + 'static) -> &mut Self {
        self.state_mut().attachments.add_extension(Arc::new(extension));
        self
    }

    /// Checks that everything was registered, that tools name pages of apps that exist
    /// ([`router::Router::check_apps`]), and that tasks are there for the tools that require them.
    ///
    /// # Errors
    ///
    /// All refused registrations, all tools with a wrong `_meta.ui`, and the tools that
    /// [require](mcp_proto::model::TaskSupport::Required) tasks on a router without [tasks](Self::tasks). With a fallback,
    /// which may know further resources, a page need not be registered.
    pub fn check(&self) -> Result<(), RegisterErrors> {
        let state = self.state.load();
        let mut errors = state.errors.clone();
        if let Err(invalid) = state.core.check_apps(state.fallback.is_some()) {
            errors.append(invalid);
        }
        if state.attachments.tasks.is_none() {
            state.core.check_tools_without_tasks(&mut errors);
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Returns the configuration of the server. Call it after all registrations.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn config(&self) -> Result<Config, RegisterErrors> {
        self.check()?;
        let state = self.state.load();
        for tool in router::undescribed_tools(&state.core) {
            self.handle_diagnostic(&Diagnostic::UndescribedTool { tool: tool.into() });
        }
        state.publish_access_rules();
        let [scopes, resources, tools] = [(); 3].map(|()| state.access_rules.clone());
        let config = state.core.config().subscription_scopes(move |caller, uri| {
            scopes.read().unwrap_or_else(PoisonError::into_inner).required_for(caller, uri)
        });
        let config = config.resource_audience(move |uri| {
            resources.read().unwrap_or_else(PoisonError::into_inner).resource_audience(uri)
        });
        let config = config.tool_audience(move |name| {
            tools.read().unwrap_or_else(PoisonError::into_inner).tool_audience(name)
        });
        let extensions = &state.attachments.extensions;
        Ok(extensions.iter().fold(config, |config, extension| extension.configure(config)))
    }

    /// Adds a function that decides which entries a caller sees; see [`router::Router::visibility`].
    ///
    /// An entry whose function panics is hidden. That of a tool is added by
    /// [`ToolEntry::visible_to`](mcp_proto::router::ToolEntry::visible_to).
    pub fn visibility(&mut self, visibility: impl Visibility + 'static) -> &mut Self {
        self.state_mut().core.visibility(visibility);
        self
    }

    /// Adds a function that decides which callers see an entry; see [`router::Router::visible_to`].
    ///
    /// [`check`](Self::check) reports that there is no such entry.
    pub fn visible_to(
        &mut self,
        kind: EntryKind,
        name: &str,
        is_visible: impl Fn(&Caller) -> bool + Send + Sync + 'static,
    ) -> &mut Self {
        let added = self.state_mut().core.visible_to(kind, name, is_visible).map(drop);
        self.record(added)
    }

    fn record(&mut self, added: Result<(), RegisterError>) -> &mut Self {
        if let Err(error) = added {
            self.state_mut().errors.push(error);
        }
        self
    }

    fn state_mut(&mut self) -> &mut RouterState<F> {
        self.state.make_mut()
    }

    /// Drops the changes of registrations before the server runs.
    fn start_serving(&mut self) {
        let state = self.state_mut();
        if !core::mem::replace(&mut state.is_serving, true) {
            drop(state.take_changes());
        }
    }

    /// Applies updates. Returns the changes to publish, including those made between calls.
    fn apply_updates(&mut self, updates: Vec<ScheduledUpdate<F>>, call: &Call) -> Vec<Announcement<'static>> {
        self.start_serving();
        for update in updates {
            if let Err(panic) = catch(|| update(self, ())) {
                let _ = catch(|| self.state_mut().report_failure(call, &HandlerFailure::Panicked(panic)));
            }
        }
        self.state_mut().take_changes()
    }
}

impl<F: Flavor> fmt::Debug for Router<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.load();
        f.debug_struct("Router")
            .field("core", &state.core)
            .field("errors", &state.errors)
            .finish_non_exhaustive()
    }
}

// The functions that serve a router of functions, by the adapter that its flavour names.

/// An adapter that serves routers of functions.
pub trait ServeFunctions<F: Flavor>: 'static {
    /// Serves on stdin and stdout of this process.
    ///
    /// # Errors
    ///
    /// Those of the adapter.
    fn serve_stdio(config: Config, router: Router<F>) -> Result<(), Error>;

    /// Serves one client on a byte stream.
    ///
    /// # Errors
    ///
    /// Those of the adapter.
    fn serve<D: Duplex + Send + 'static>(config: Config, stream: D, router: Router<F>) -> Result<(), Error>;
}

/// An adapter that serves routers of functions over HTTP.
///
/// It is a trait of its own, because an adapter may lack the feature `http` in a program in which another one has it.
#[cfg(feature = "http")]
pub trait ServeFunctionsHttp<F: Flavor>: ServeFunctions<F> {
    /// Serves HTTP at an address.
    ///
    /// # Errors
    ///
    /// Those of the adapter.
    fn serve_http(
        address: impl ToSocketAddrs,
        config: Config,
        http: mcp_proto::http::server::Config,
        router: Router<F>,
    ) -> Result<(), Error>;
}

/// The functions that serve it.
impl<R: ServeFunctions<Functions<R, S>>, S: Sharing> Router<Functions<R, S>> {
    /// Serves on stdin and stdout of this process until the input ends or the client disconnects; see the function
    /// `serve_stdio` of the adapter.
    ///
    /// # Errors
    ///
    /// [`Error::Register`] if an entry could not be registered; otherwise as that function.
    pub fn serve_stdio(self) -> Result<(), Error> {
        R::serve_stdio(self.config()?, self)
    }

    /// Serves one client on any byte stream; see the function `serve` of the adapter.
    ///
    /// # Errors
    ///
    /// As [`serve_stdio`](Self::serve_stdio).
    pub fn serve<D: Duplex + Send + 'static>(self, stream: D) -> Result<(), Error> {
        R::serve(self.config()?, stream, self)
    }

    /// Serves HTTP at `address` until an error occurs; see the function `serve_http` of the adapter.
    ///
    /// # Errors
    ///
    /// As [`serve_stdio`](Self::serve_stdio).
    #[cfg(feature = "http")]
    pub fn serve_http(
        self,
        address: impl ToSocketAddrs,
        http: mcp_proto::http::server::Config,
    ) -> Result<(), Error>
    where
        R: ServeFunctionsHttp<Functions<R, S>>,
    {
        R::serve_http(address, self.config()?, http, self)
    }
}
