//! Serving what is registered by name: tools, resources, prompts and completions, each with a closure

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;
use core::panic::AssertUnwindSafe;
use std::panic::{catch_unwind, resume_unwind};

#[cfg(feature = "http")]
use mcp_proto::http::server::{Denial, Token};
use mcp_proto::model::{
    CallToolResult, CompletionReference, Prompt, ReadResourceResult, Resource, ResourceTemplate, Tool,
};
#[cfg(feature = "schemars")]
use mcp_proto::router::schema::{self, schemars::JsonSchema};
use mcp_proto::router::{
    self, Asked, CompletionTarget, Hook, IntoCompletion, IntoPromptResult, IntoReadResult, IntoToolResult,
    NoResult, Outcome, PageCache, RegisterError, ResourceTarget, Route, SchemaValidator, Target, ToolTarget,
    Work,
};
use mcp_proto::server::{Call, Event};
use mcp_proto::{Capability, RawJson, RpcError};
use mcp_std::{Duplex, catch};
use serde::Serialize;
use serde::de::DeserializeOwned;

use mcp_std::Error;
use mcp_std::serve::{Answered, Cx, Failure, Handler};

/// A server made of closures
///
#[cfg_attr(feature = "schemars", doc = "```no_run")]
#[cfg_attr(not(feature = "schemars"), doc = "```ignore")]
/// use mcp_blocking::Router;
/// use mcp_proto::router::schema::schemars;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add { a: i64, b: i64 }
///
/// fn main() -> Result<(), mcp_blocking::Error> {
///     let mut router = Router::new("calc", "1.0");
///     router.tool("add", "Adds two numbers", |_, Add { a, b }: Add| a + b);
///     router.serve_stdio()
/// }
/// ```
///
/// The same for tools that are known only at run time, without a macro:
///
/// ```
/// # use mcp_blocking::Router;
/// # use mcp_proto::{RawJson, model::Tool};
/// # let found = [("greet", r#"{"type":"object","properties":{"who":{"type":"string"}}}"#)];
/// let mut router = Router::new("dynamic", "1.0");
/// for (name, schema) in found {
///     let tool = Tool::new(name, RawJson::new(schema)?).description("From the database");
///     router.tool_with(tool, move |_, arguments: serde_json::Value| format!("{name}: {arguments}"));
/// }
/// assert!(router.check().is_ok());
/// # Ok::<(), mcp_proto::InvalidJson>(())
/// ```
///
/// What cannot be registered (a bad name, a second tool of one name) is remembered: [`check`](Self::check) says it, and
/// serving fails with it. Handlers run on the loop's thread, one at a time.
pub struct Router {
    core: router::Router<Run>,
    cache: PageCache,
    /// The first thing that could not be registered
    refused: Option<RegisterError>,
    later: Later,
    other: Option<Other>,
    interest: Option<Interest>,
    report: Report,
    #[cfg(feature = "http")]
    judge: Option<Judge>,
    /// Calls were answered: what is registered from then on is news
    runs: bool,
}

/// Answers a call; also says whether a tool failed
type Run = RefCell<Box<RunFn>>;
type RunFn = dyn FnMut(&mut Cx<'_>, Target<'_>) -> Result<(Answered, bool), RpcError>;
type Other = Box<dyn FnMut(&mut Cx<'_>, &Call) -> Result<Answered, RpcError>>;
/// Is told of a URI that is followed from now on, or no more
type Interest = Box<dyn FnMut(&str, bool)>;
/// Says on whose behalf a request with a token is made
#[cfg(feature = "http")]
type Judge = Box<dyn FnMut(&Token) -> Result<String, Denial>>;
/// Told what the author of a handler should know; the client is told less
type Report = Box<dyn FnMut(&Call, &Failure)>;
type Change = Box<dyn FnOnce(&mut Router)>;

/// Changes to a router from inside of its handlers: made when the handler that asks for them has ended, by a panic too
///
/// Of a router that was [nested](Router::nest) they are changes to the outer one, which has all that the inner one had.
/// A change that panics is [reported](Router::report), and the others are made. What a change asks for in turn is made
/// after the next call.
#[derive(Clone)]
pub struct Later(Rc<RefCell<Pending>>);

/// What was asked for, or who knows
enum Pending {
    Here(Vec<Change>),
    /// The router was nested: its handlers keep what they hold
    Outside(Later),
}

impl Later {
    fn new() -> Self {
        Self(Rc::new(RefCell::new(Pending::Here(Vec::new()))))
    }

    /// Has something done to the router
    pub fn change(&self, change: impl FnOnce(&mut Router) + 'static) {
        self.push(Box::new(change));
    }

    fn push(&self, change: Change) {
        match &mut *self.0.borrow_mut() {
            Pending::Here(changes) => changes.push(change),
            Pending::Outside(later) => later.push(change),
        }
    }

    /// What was asked for since; nothing for what was nested, whose changes are the outer router's
    fn take(&self) -> Vec<Change> {
        match &mut *self.0.borrow_mut() {
            Pending::Here(changes) => core::mem::take(changes),
            Pending::Outside(_) => Vec::new(),
        }
    }

    /// Hands everything on to `outer`, from now on
    fn hand_on(&self, outer: &Self) {
        self.take().into_iter().for_each(|change| outer.push(change));
        *self.0.borrow_mut() = Pending::Outside(outer.clone());
    }
}

impl Router {
    /// A server that is called `name`, in `version`, and has nothing yet
    ///
    /// With the feature `validate`, arguments and results are checked against the schemas of tools, by
    /// `mcp_blocking::validate::Schemas` ([`validator`](Self::validator), [`no_validator`](Self::no_validator)).
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        #[cfg_attr(not(feature = "validate"), expect(unused_mut, reason = "nothing to add"))]
        let mut core = router::Router::new(name, version);
        #[cfg(feature = "validate")]
        let _: Result<_, RegisterError> = core.validator(mcp_std::validate::Schemas::new());
        Self {
            core,
            cache: PageCache::new(),
            refused: None,
            later: Later::new(),
            other: None,
            interest: None,
            report: Box::new(|call, failure| std::eprintln!("{}: {failure}", call.method())),
            #[cfg(feature = "http")]
            judge: None,
            runs: false,
        }
    }

    /// A tool whose schema is that of the type of its arguments; `()` for none
    #[cfg(feature = "schemars")]
    pub fn tool<A, R>(
        &mut self,
        name: &str,
        description: &str,
        handler: impl FnMut(&mut Cx<'_>, A) -> R + 'static,
    ) -> &mut Self
    where
        A: DeserializeOwned + JsonSchema + 'static,
        R: IntoToolResult + 'static,
    {
        self.tool_with(schema::tool::<A>(name).description(description), handler)
    }

    /// A tool that is described further, or by hand; its arguments are read as any type, `serde_json::Value` for instance
    ///
    /// The schema of results comes with the type of the results, if `tool` has none.
    pub fn tool_with<A, R>(
        &mut self,
        mut tool: Tool,
        mut handler: impl FnMut(&mut Cx<'_>, A) -> R + 'static,
    ) -> &mut Self
    where
        A: DeserializeOwned + 'static,
        R: IntoToolResult + 'static,
    {
        tool.output_schema = tool.output_schema.or_else(R::output_schema);
        let run = move |cx: &mut Cx<'_>, target: Target<'_>| {
            let Target::Tool(target) = target else { return Err(misrouted()) };
            let result = match target.parse::<A>() {
                Ok(arguments) => handler(cx, arguments).into_tool_result(),
                Err(bad) => Ok(bad.into_result()),
            };
            complete_tool(cx, &target, result)
        };
        let added = self.core.tool(tool, boxed(run)).map(drop);
        self.noted(added)
    }

    /// A resource, read by its URI
    pub fn resource<R: IntoReadResult + 'static>(
        &mut self,
        resource: Resource,
        handler: impl FnMut(&mut Cx<'_>, &ResourceTarget<'_>) -> R + 'static,
    ) -> &mut Self {
        let added = self.core.resource(resource, reads(handler)).map(drop);
        self.noted(added)
    }

    /// A family of resources, read by URIs that match its template
    pub fn resource_template<R: IntoReadResult + 'static>(
        &mut self,
        family: ResourceTemplate,
        handler: impl FnMut(&mut Cx<'_>, &ResourceTarget<'_>) -> R + 'static,
    ) -> &mut Self {
        let added = self.core.resource_template(family, reads(handler)).map(drop);
        self.noted(added)
    }

    /// A prompt; its arguments are read as any type whose members can be read from texts, or as `()`
    pub fn prompt<A, R>(
        &mut self,
        prompt: Prompt,
        mut handler: impl FnMut(&mut Cx<'_>, A) -> R + 'static,
    ) -> &mut Self
    where
        A: DeserializeOwned + 'static,
        R: IntoPromptResult + 'static,
    {
        let run = move |cx: &mut Cx<'_>, target: Target<'_>| {
            let Target::Prompt(target) = target else { return Err(misrouted()) };
            let result = handler(cx, target.parse()?).into_prompt_result();
            complete(cx, result)
        };
        let added = self.core.prompt(prompt, boxed(run)).map(drop);
        self.noted(added)
    }

    /// What completes an argument of a prompt or a variable of a template, which must be there already
    pub fn completion<'r, R: IntoCompletion + 'static>(
        &mut self,
        of: impl Into<CompletionReference<'r>>,
        argument: &str,
        mut handler: impl FnMut(&mut Cx<'_>, &CompletionTarget<'_>) -> R + 'static,
    ) -> &mut Self {
        let run = move |cx: &mut Cx<'_>, target: Target<'_>| {
            let Target::Completion(target) = target else { return Err(misrouted()) };
            let result = handler(cx, &target).into_completion();
            complete(cx, result)
        };
        let added = self.core.completion(of, argument, boxed(run));
        self.noted(added)
    }

    /// Takes in another router: see [`router::Router::nest`]; what the other one has besides (methods of its own,
    /// a report) goes
    ///
    /// What its handlers ask for through its [`Later`] is done to this router from then on.
    ///
    /// Schemas that the other one has prepared are not prepared again. With the feature `validate` it has, unless it was
    /// told [otherwise](Self::no_validator): then this one's validator takes its tools on, if there is one.
    pub fn nest(&mut self, prefix: &str, inner: Self) -> &mut Self {
        if let Some(refused) = inner.refused {
            return self.noted(Err(refused));
        }
        let added = self.core.nest(prefix, inner.core).map(drop);
        if added.is_ok() {
            inner.later.hand_on(&self.later);
        }
        self.noted(added)
    }

    /// Has arguments and results checked against the schemas of tools: see [`router::Router::validator`]
    ///
    /// It takes the place of the one that is there with the feature `validate`. To be said before there are tools whose
    /// schemas only this one can use.
    pub fn validator(&mut self, validator: impl SchemaValidator + 'static) -> &mut Self {
        let added = self.core.validator(validator).map(drop);
        self.noted(added)
    }

    /// Has nothing checked against schemas: see [`router::Router::no_validator`]
    ///
    /// To be said before there are tools whose schemas cannot be used.
    pub fn no_validator(&mut self) -> &mut Self {
        self.core.no_validator();
        self
    }

    /// Adds a hook that sees all calls
    pub fn hook(&mut self, hook: impl Hook + 'static) -> &mut Self {
        self.core.hook(Box::new(hook));
        self
    }

    /// What answers methods of the application's own
    pub fn other(
        &mut self,
        handler: impl FnMut(&mut Cx<'_>, &Call) -> Result<Answered, RpcError> + 'static,
    ) -> &mut Self {
        self.other = Some(Box::new(handler));
        self
    }

    /// Lets clients follow resources (RES-010): `interest` hears of each URI when the first one begins to follow it, with
    /// true, and when the last one has left, with false
    ///
    /// What changes is for the application to say: [`Cx::publish`], or the engine of a [`Server`](crate::Server) between
    /// its calls.
    pub fn subscriptions(&mut self, interest: impl FnMut(&str, bool) + 'static) -> &mut Self {
        self.core.declare(Capability::ResourceSubscriptions);
        self.interest = Some(Box::new(interest));
        self
    }

    /// Is told what authors of handlers should know and clients are not told: panics, results that break their promise
    ///
    /// Without this, such things are written to stderr.
    pub fn report(&mut self, report: impl FnMut(&Call, &Failure) + 'static) -> &mut Self {
        self.report = Box::new(report);
        self
    }

    /// Judges the tokens that requests come with, where the server is
    /// [protected](mcp_proto::http::server::Config::protected): see [`Handler::token`]
    #[cfg(feature = "http")]
    pub fn tokens(&mut self, judge: impl FnMut(&Token) -> Result<String, Denial> + 'static) -> &mut Self {
        self.judge = Some(Box::new(judge));
        self
    }

    /// For changes from inside of handlers
    #[must_use]
    pub fn later(&self) -> Later {
        self.later.clone()
    }

    /// The router itself: identity, pages, cache hints, removal, and all else that takes no handler
    pub const fn core(&mut self) -> &mut router::Router<impl Sized + use<>> {
        &mut self.core
    }

    /// The first thing that could not be registered
    ///
    /// # Errors
    ///
    /// That one.
    pub fn check(&self) -> Result<(), RegisterError> {
        self.refused.clone().map_or(Ok(()), Err)
    }

    /// The configuration of the server, once all is registered
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn config(&self) -> Result<mcp_proto::server::Config, RegisterError> {
        self.check()?;
        Ok(self.core.config())
    }

    /// Serves on this process' stdin and stdout; see [`serve_stdio`](crate::serve_stdio)
    ///
    /// # Errors
    ///
    /// [`Error::Register`] when something could not be registered; then as [`serve_stdio`](crate::serve_stdio).
    pub fn serve_stdio(self) -> Result<(), Error> {
        crate::serve_stdio(self.config()?, self)
    }

    /// Serves one client on any byte stream; see [`serve`](crate::serve)
    ///
    /// # Errors
    ///
    /// As [`serve_stdio`](Self::serve_stdio).
    pub fn serve<D: Duplex>(self, stream: D) -> Result<(), Error> {
        crate::serve(self.config()?, stream, self)
    }

    /// Serves HTTP at `address`, for ever; see [`HttpServer`](crate::HttpServer)
    ///
    /// # Errors
    ///
    /// [`Error::Register`] when something could not be registered; then as [`serve_http`](crate::serve_http).
    #[cfg(feature = "http")]
    pub fn serve_http(
        self,
        address: impl std::net::ToSocketAddrs,
        http: mcp_proto::http::server::Config,
    ) -> Result<(), Error> {
        crate::serve_http(address, self.config()?, http, self)
    }

    fn noted(&mut self, added: Result<(), RegisterError>) -> &mut Self {
        if let Err(error) = added {
            self.refused.get_or_insert(error);
        }
        self
    }

    fn answer(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        match self.core.route(call) {
            // Written once per revision for as long as nothing changes.
            Route::Answer(answer) => match self.cache.page(call.version(), &answer) {
                Some(page) => cx.complete_prepared(page),
                None => cx.complete(&answer),
            },
            Route::Handle(work) => run(&self.core, cx, work),
            Route::Refuse(error) => Err(error),
            _ => match &mut self.other {
                Some(other) => other(cx, call),
                None => Err(RpcError::method_not_found(call.method())),
            },
        }
    }

    /// Makes the changes that were asked for, and tells of them, and of those that were made between calls
    fn settle(&mut self, cx: &mut Cx<'_>) {
        // Taken out first: a change may ask for others.
        for change in self.later.take() {
            if let Err(panic) = catch(|| change(self)) {
                let _ = catch(|| (self.report)(cx.call(), &Failure::Panicked(panic)));
            }
        }
        for change in self.core.changes() {
            cx.publish(&change);
        }
    }
}

impl Handler for Router {
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        if !core::mem::replace(&mut self.runs, true) {
            // What was registered before the server ran is no news.
            self.core.changes().for_each(drop);
        }
        // Whoever catches the panic uses the router again.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.answer(cx, call)));
        self.settle(cx);
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn failed(&mut self, call: &Call, failure: &Failure) {
        (self.report)(call, failure);
    }

    #[cfg(feature = "http")]
    fn token(&mut self, token: &Token) -> Result<String, Denial> {
        self.judge.as_mut().map_or(Err(Denial::InvalidToken), |judge| judge(token))
    }

    fn tools(&mut self, tell: &mut dyn FnMut(&str, &RawJson)) {
        self.core.tools().for_each(|tool| tell(&tool.name, &tool.input_schema));
    }

    fn event(&mut self, event: &Event) {
        if let (Event::Interest { uri, wanted }, Some(interest)) = (event, &mut self.interest) {
            interest(uri, *wanted);
        }
    }
}

/// Runs a handler, and tells the hooks how it ended, also when it panics
fn run(core: &router::Router<Run>, cx: &mut Cx<'_>, work: Work<'_, Run>) -> Result<Answered, RpcError> {
    struct Told<'a>(&'a router::Router<Run>, Option<Asked<'a>>);
    impl Drop for Told<'_> {
        fn drop(&mut self) {
            if let Some(asked) = self.1.take() {
                self.0.done(asked, Outcome::Failed(&RpcError::internal("the handler panicked")));
            }
        }
    }
    let mut told = Told(core, Some(work.asked()));
    // Nothing but this function runs handlers, and none runs another.
    let Ok(mut handler) = work.handler.try_borrow_mut() else { return Err(misrouted()) };
    let outcome = handler(cx, work.target);
    if let Some(asked) = told.1.take() {
        core.done(
            asked,
            match &outcome {
                _ if cx.is_cancelled() => Outcome::Cancelled,
                _ if cx.is_asking() => Outcome::Asking,
                Ok((_, true)) => Outcome::ToolFailed,
                Ok((_, false)) => Outcome::Completed,
                Err(error) => Outcome::Failed(error),
            },
        );
    }
    outcome.map(|(answered, _)| answered)
}

fn boxed(run: impl FnMut(&mut Cx<'_>, Target<'_>) -> Result<(Answered, bool), RpcError> + 'static) -> Run {
    RefCell::new(Box::new(run))
}

fn misrouted() -> RpcError {
    RpcError::internal("this handler is for something else")
}

fn reads<R: IntoReadResult + 'static>(
    mut handler: impl FnMut(&mut Cx<'_>, &ResourceTarget<'_>) -> R + 'static,
) -> Run {
    boxed(move |cx, target| {
        let Target::Resource(target) = target else { return Err(misrouted()) };
        let result = handler(cx, &target).into_read_result(&target.uri, target.mime_type);
        let result = result.map(|mut result: ReadResourceResult<'_>| {
            if let Some(hint) =
                target.cache.filter(|_| result.ttl_ms.is_none() && result.cache_scope.is_none())
            {
                result.ttl_ms = Some(hint.ttl_ms());
                result.cache_scope = Some(hint.scope());
            }
            result
        });
        complete(cx, result)
    })
}

fn complete_tool(
    cx: &mut Cx<'_>,
    target: &ToolTarget<'_>,
    result: Result<CallToolResult<'static>, NoResult>,
) -> Result<(Answered, bool), RpcError> {
    let failed = result.as_ref().is_ok_and(CallToolResult::failed);
    if let Some(bad) = result.as_ref().ok().and_then(|result| target.check(result).err()) {
        let error = bad.rpc();
        cx.note(Failure::BadResult(bad));
        return Err(error);
    }
    complete(cx, result).map(|(answered, _)| (answered, failed))
}

fn complete<T: Serialize>(
    cx: &mut Cx<'_>,
    result: Result<T, NoResult>,
) -> Result<(Answered, bool), RpcError> {
    match result {
        Ok(result) => cx.complete(&result).map(|answered| (answered, false)),
        Err(none) => {
            if let NoResult::Encode(error) = &none {
                cx.note(Failure::Encode(error.clone()));
            }
            Err(none.rpc())
        }
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("core", &self.core)
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0.borrow() {
            Pending::Here(changes) => f.debug_tuple("Later").field(&changes.len()).finish(),
            Pending::Outside(later) => later.fmt(f),
        }
    }
}
