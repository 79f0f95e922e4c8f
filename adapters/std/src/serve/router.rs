//! Routers of closures: what they have in common, whatever the closures are and whoever runs them

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_proto::RpcError;
use mcp_proto::model::{CallToolResult, ReadResourceResult};
use mcp_proto::router::{Asked, Hook, NoResult, Outcome, ResourceTarget, Router, ToolTarget};
use serde::Serialize;

use super::cx::{Answered, Cx, Line};
use super::handler::Failure;
use crate::catch;

/// What a handler has made of its call: the answer, and whether it says that a tool failed
pub type Ran = Result<(Answered, bool), RpcError>;

/// Something that many use while somebody makes the next one
///
/// No lock is held while it is used.
#[derive(Debug)]
pub struct Current<T>(Mutex<Arc<T>>);

impl<T> Current<T> {
    /// The first one
    pub fn new(first: Arc<T>) -> Self {
        Self(Mutex::new(first))
    }

    /// The one that is used from now on
    pub fn get(&self) -> Arc<T> {
        lock(&self.0).clone()
    }

    /// Has another one used from now on
    pub fn set(&self, next: Arc<T>) {
        // The old one goes when the lock has.
        let _old = core::mem::replace(&mut *lock(&self.0), next);
    }

    /// To change it: in place when nobody else uses it, otherwise a copy, which takes its place
    pub fn make_mut(&mut self) -> &mut T
    where
        T: Clone,
    {
        Arc::make_mut(self.0.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// The last one
    pub fn into_inner(self) -> T
    where
        T: Clone,
    {
        Arc::unwrap_or_clone(self.0.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What is to be done later, by whoever [takes](Self::take) it; clones are the same list
pub struct Pending<C>(Arc<Mutex<Where<C>>>);

enum Where<C> {
    Here(Vec<C>),
    /// Somebody else takes it
    Outside(Pending<C>),
}

impl<C> Default for Pending<C> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Where::Here(Vec::new()))))
    }
}

impl<C> Pending<C> {
    /// Adds something
    pub fn push(&self, change: C) {
        match &mut *lock(&self.0) {
            Where::Here(changes) => changes.push(change),
            Where::Outside(later) => later.push(change),
        }
    }

    /// Whether there is nothing to take
    pub fn is_empty(&self) -> bool {
        !matches!(&*lock(&self.0), Where::Here(changes) if !changes.is_empty())
    }

    /// What was added since; nothing once it was [handed on](Self::hand_on)
    pub fn take(&self) -> Vec<C> {
        match &mut *lock(&self.0) {
            Where::Here(changes) => core::mem::take(changes),
            Where::Outside(_) => Vec::new(),
        }
    }

    /// Hands everything on to `outer`, from now on
    pub fn hand_on(&self, outer: &Self) {
        let mut own = lock(&self.0);
        if let Where::Here(changes) = core::mem::replace(&mut *own, Where::Outside(outer.clone())) {
            changes.into_iter().for_each(|change| outer.push(change));
        }
    }
}

impl<C> Clone for Pending<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C> fmt::Debug for Pending<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*lock(&self.0) {
            Where::Here(changes) => f.debug_tuple("Pending").field(&changes.len()).finish(),
            Where::Outside(later) => later.fmt(f),
        }
    }
}

/// What was done under it was done wholly or not at all: a panic in between changes nothing
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the hooks how a call ended, also when its handler panics or is dropped
#[derive(Debug)]
pub struct HookGuard<'a, H, M: Hook>(&'a Router<H, M>, Option<Asked<'a>>);

impl<'a, H, M: Hook> HookGuard<'a, H, M> {
    /// The handler is about to run
    pub const fn new(router: &'a Router<H, M>, asked: Asked<'a>) -> Self {
        Self(router, Some(asked))
    }

    /// It has ended
    ///
    /// # Errors
    ///
    /// What the handler says.
    pub fn ended<L: Line + ?Sized>(mut self, cx: &Cx<'_, L>, ran: Ran) -> Result<Answered, RpcError> {
        if let Some(asked) = self.1.take() {
            self.0.done(
                asked,
                match &ran {
                    _ if cx.is_cancelled() => Outcome::Cancelled,
                    _ if cx.is_asking() => Outcome::Asking,
                    Ok((_, true)) => Outcome::ToolFailed,
                    Ok((_, false)) => Outcome::Completed,
                    Err(error) => Outcome::Failed(error),
                },
            );
        }
        ran.map(|(answered, _)| answered)
    }
}

impl<H, M: Hook> Drop for HookGuard<'_, H, M> {
    fn drop(&mut self) {
        if let Some(asked) = self.1.take() {
            let panicked = RpcError::internal("the handler panicked");
            let outcome =
                if std::thread::panicking() { Outcome::Failed(&panicked) } else { Outcome::Cancelled };
            // A second panic, of a hook, would end the process.
            let _ = catch(|| self.0.done(asked, outcome));
        }
    }
}

/// A call came to a handler of something else
pub fn misrouted() -> RpcError {
    RpcError::internal("this handler is for something else")
}

/// Answers with the result of a tool, if that is what it promises
///
/// # Errors
///
/// What the client is told instead.
pub fn complete_tool<L: Line + ?Sized>(
    cx: &mut Cx<'_, L>,
    target: &ToolTarget<'_>,
    result: Result<CallToolResult<'static>, NoResult>,
) -> Ran {
    let failed = result.as_ref().is_ok_and(CallToolResult::failed);
    if let Some(bad) = result.as_ref().ok().and_then(|result| target.check(result).err()) {
        let error = bad.rpc();
        cx.note(Failure::BadResult(bad));
        return Err(error);
    }
    complete(cx, result).map(|(answered, _)| (answered, failed))
}

/// Answers with what a resource holds, and with how long it may be kept
///
/// # Errors
///
/// What the client is told instead.
pub fn complete_read<L: Line + ?Sized>(
    cx: &mut Cx<'_, L>,
    target: &ResourceTarget<'_>,
    result: Result<ReadResourceResult<'_>, NoResult>,
) -> Ran {
    let result = result.map(|mut result| {
        if let Some(hint) = target.cache.filter(|_| result.ttl_ms.is_none() && result.cache_scope.is_none()) {
            result.ttl_ms = Some(hint.ttl_ms());
            result.cache_scope = Some(hint.scope());
        }
        result
    });
    complete(cx, result)
}

/// Answers with a result, if there is one
///
/// # Errors
///
/// What the client is told instead.
pub fn complete<L: Line + ?Sized, T: Serialize>(cx: &mut Cx<'_, L>, result: Result<T, NoResult>) -> Ran {
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

/// Defines an adapter's `Router` and `Later`, for adapters: the methods that register things, and what answers calls
///
/// What is different between adapters is said by them. `handlers` is what a handler is, such as `FnMut`, and `callbacks`
/// what the other closures are, with the bounds of both; `await` is what stands behind a call of a handler, and `async`
/// what stands before a function that does that. The module besides has these types of shared closures: `Run`
/// (`Fn(&mut Cx<'_>, Target<'_>)`, to [`Ran`]), `Other`, `Interest`, `Report`, `Judge`, and `Hooks`; and the macros
/// `handler!`, `other!` and `callback!`, which make the first, the second and the others of a closure and of what is done
/// with it. It says how the router is a handler, and has the methods that serve.
#[macro_export]
macro_rules! router {
    (
        $(#[$about:meta])*
        handlers: $Handler:ident, callbacks: $Callback:ident, bounds: [$($bounds:tt)*],
        changes: [$($sends:tt)*], pointer: $Pointer:ident, async: [$($async:tt)?], await: [$($await:tt)*]
    ) => {
        $(#[$about])*
        pub struct Router {
            parts: Current<Parts>,
            cache: Mutex<PageCache>,
            later: Later,
            /// Held by who makes changes
            changing: Mutex<()>,
        }

        /// All that a call needs; changed in a copy while one is under way
        #[derive(Clone)]
        struct Parts {
            core: router::Router<Run, Hooks>,
            /// The first thing that could not be registered
            refused: Option<RegisterError>,
            other: Option<Other>,
            interest: Option<Interest>,
            report: Option<Report>,
            #[cfg(feature = "http")]
            judge: Option<Judge>,
            /// It serves: what is registered from then on is news
            runs: bool,
        }

        impl Parts {
            fn report(&self, call: &Call, failure: &Failure) {
                match &self.report {
                    Some(report) => report(call, failure),
                    None => std::eprintln!("{}: {failure}", call.method()),
                }
            }
        }

        /// Changes to a router from inside of its handlers: made when the handler that asks for them has ended, by a panic
        /// too, before its answer goes out
        ///
        /// Where several handlers run at a time, the first one that ends has them made; handlers that run meanwhile go on
        /// with the router as it was. Of a router that was [nested](Router::nest) they are changes to the outer one, which
        /// has all that the inner one had. A change that panics is [reported](Router::report), and the others are made.
        /// What a change asks for in turn is made after the next call.
        #[derive(Clone, Debug)]
        pub struct Later(Pending<Change>);

        type Change = Box<dyn FnOnce(&mut Router) $($sends)*>;

        impl Later {
            /// Has something done to the router
            pub fn change(&self, change: impl FnOnce(&mut Router) $($sends)* + 'static) {
                self.0.push(Box::new(change));
            }
        }

        impl Router {
            /// A server that is called `name`, in `version`, and has nothing yet
            ///
            /// With the feature `validate`, arguments and results are checked against the schemas of tools, by
            /// `validate::Schemas` ([`validator`](Self::validator), [`no_validator`](Self::no_validator)).
            #[must_use]
            pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
                #[cfg_attr(not(feature = "validate"), expect(unused_mut, reason = "nothing to add"))]
                let mut core = router::Router::new(name, version);
                #[cfg(feature = "validate")]
                let _: Result<_, RegisterError> = core.validator($crate::validate::Schemas::new());
                Self::of(Parts {
                    core,
                    refused: None,
                    other: None,
                    interest: None,
                    report: None,
                    #[cfg(feature = "http")]
                    judge: None,
                    runs: false,
                }.into(), Pending::default())
            }

            fn of(parts: Arc<Parts>, later: Pending<Change>) -> Self {
                Self { parts: Current::new(parts), cache: Mutex::default(), later: Later(later), changing: Mutex::new(()) }
            }

            /// A tool whose schema is that of the type of its arguments; `()` for none
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

            /// A tool that is described further, or by hand; its arguments are read as any type, `serde_json::Value` for
            /// instance
            ///
            /// The schema of results comes with the type of the results, if `tool` has none.
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
                let run: Run = handler!(handler, |cx, target| {
                    let Target::Tool(target) = target else { return Err(misrouted()) };
                    let result = match target.parse::<A>() {
                        Ok(arguments) => handler(cx, arguments) $($await)* .into_tool_result(),
                        Err(bad) => Ok(bad.into_result()),
                    };
                    complete_tool(cx, &target, result)
                });
                let added = self.parts().core.tool(tool, run).map(drop);
                self.noted(added)
            }

            /// A resource, read by its URI
            pub fn resource<R: IntoReadResult + 'static>(
                &mut self,
                resource: Resource,
                handler: impl $Handler(&mut Cx<'_>, &ResourceTarget<'_>) -> R $($bounds)* + 'static,
            ) -> &mut Self {
                let run = Self::reads(handler);
                let added = self.parts().core.resource(resource, run).map(drop);
                self.noted(added)
            }

            /// A family of resources, read by URIs that match its template
            pub fn resource_template<R: IntoReadResult + 'static>(
                &mut self,
                family: ResourceTemplate,
                handler: impl $Handler(&mut Cx<'_>, &ResourceTarget<'_>) -> R $($bounds)* + 'static,
            ) -> &mut Self {
                let run = Self::reads(handler);
                let added = self.parts().core.resource_template(family, run).map(drop);
                self.noted(added)
            }

            fn reads<R: IntoReadResult + 'static>(
                handler: impl $Handler(&mut Cx<'_>, &ResourceTarget<'_>) -> R $($bounds)* + 'static,
            ) -> Run {
                handler!(handler, |cx, target| {
                    let Target::Resource(target) = target else { return Err(misrouted()) };
                    let read = handler(cx, &target) $($await)*;
                    let result = read.into_read_result(&target.uri, target.mime_type);
                    complete_read(cx, &target, result)
                })
            }

            /// A prompt; its arguments are read as any type whose members can be read from texts, or as `()`
            pub fn prompt<A, R>(
                &mut self,
                prompt: Prompt,
                handler: impl $Handler(&mut Cx<'_>, A) -> R $($bounds)* + 'static,
            ) -> &mut Self
            where
                A: DeserializeOwned + 'static,
                R: IntoPromptResult + 'static,
            {
                let run: Run = handler!(handler, |cx, target| {
                    let Target::Prompt(target) = target else { return Err(misrouted()) };
                    let arguments = target.parse()?;
                    let result = handler(cx, arguments) $($await)* .into_prompt_result();
                    complete(cx, result)
                });
                let added = self.parts().core.prompt(prompt, run).map(drop);
                self.noted(added)
            }

            /// What completes an argument of a prompt or a variable of a template, which must be there already
            pub fn completion<'r, R: IntoCompletion + 'static>(
                &mut self,
                of: impl Into<CompletionReference<'r>>,
                argument: &str,
                handler: impl $Handler(&mut Cx<'_>, &CompletionTarget<'_>) -> R $($bounds)* + 'static,
            ) -> &mut Self {
                let run: Run = handler!(handler, |cx, target| {
                    let Target::Completion(target) = target else { return Err(misrouted()) };
                    let result = handler(cx, &target) $($await)* .into_completion();
                    complete(cx, result)
                });
                let added = self.parts().core.completion(of, argument, run);
                self.noted(added)
            }

            /// Takes in another router: see [`router::Router::nest`]; what the other one has besides (methods of its own,
            /// a report) goes
            ///
            /// What its handlers ask for through its [`Later`] is done to this router from then on.
            ///
            /// Schemas that the other one has prepared are not prepared again. With the feature `validate` it has, unless
            /// it was told [otherwise](Self::no_validator): then this one's validator takes its tools on, if there is one.
            pub fn nest(&mut self, prefix: &str, inner: Self) -> &mut Self {
                let parts = inner.parts.into_inner();
                if let Some(refused) = parts.refused {
                    return self.noted(Err(refused));
                }
                let added = self.parts().core.nest(prefix, parts.core).map(drop);
                if added.is_ok() {
                    inner.later.0.hand_on(&self.later.0);
                }
                self.noted(added)
            }

            /// Has arguments and results checked against the schemas of tools: see [`router::Router::validator`]
            ///
            /// It takes the place of the one that is there with the feature `validate`. To be said before there are tools
            /// whose schemas only this one can use.
            pub fn validator(&mut self, validator: impl SchemaValidator + 'static) -> &mut Self {
                let added = self.parts().core.validator(validator).map(drop);
                self.noted(added)
            }

            /// Has nothing checked against schemas: see [`router::Router::no_validator`]
            ///
            /// To be said before there are tools whose schemas cannot be used.
            pub fn no_validator(&mut self) -> &mut Self {
                self.parts().core.no_validator();
                self
            }

            /// Adds a hook that sees all calls
            pub fn hook(&mut self, hook: impl Hook $($bounds)* + 'static) -> &mut Self {
                self.parts().core.hook($Pointer::new(hook));
                self
            }

            /// What answers methods of the application's own
            pub fn other(
                &mut self,
                handler: impl $Handler(&mut Cx<'_>, &Call) -> Result<Answered, RpcError> $($bounds)* + 'static,
            ) -> &mut Self {
                self.parts().other = Some(other!(handler, |cx, call| { handler(cx, call) $($await)* }));
                self
            }

            /// Lets clients follow resources (RES-010): `interest` hears of each URI when the first one begins to follow
            /// it, with true, and when the last one has left, with false
            ///
            /// What changes is for the application to say: [`Cx::publish`], or what the server has for that. Where a server
            /// has several shards, it hears so of each.
            pub fn subscriptions(&mut self, interest: impl $Callback(&str, bool) $($bounds)* + 'static) -> &mut Self {
                self.parts().core.declare(Capability::ResourceSubscriptions);
                self.parts().interest = Some(callback!(interest, |uri: &str, wanted: bool| interest(uri, wanted)));
                self
            }

            /// Is told what authors of handlers should know and clients are not told: panics, results that break their
            /// promise
            ///
            /// Without this, such things are written to stderr.
            pub fn report(&mut self, report: impl $Callback(&Call, &Failure) $($bounds)* + 'static) -> &mut Self {
                let report: Report = callback!(report, |call: &Call, failure: &Failure| report(call, failure));
                self.parts().report = Some(report);
                self
            }

            /// Judges the tokens that requests come with, where the server is
            /// [protected](mcp_proto::http::server::Config::protected): see [`Handler::token`]
            #[cfg(feature = "http")]
            pub fn tokens(
                &mut self,
                judge: impl $Callback(&Token) -> Result<String, Denial> $($bounds)* + 'static,
            ) -> &mut Self {
                self.parts().judge = Some(callback!(judge, |token: &Token| judge(token)));
                self
            }

            /// For changes from inside of handlers
            #[must_use]
            pub fn later(&self) -> Later {
                self.later.clone()
            }

            /// The router itself: identity, pages, cache hints, removal, and all else that takes no handler
            pub fn core(&mut self) -> &mut router::Router<impl Sized + use<>, impl Hook + use<>> {
                &mut self.parts().core
            }

            /// The first thing that could not be registered
            ///
            /// # Errors
            ///
            /// That one.
            pub fn check(&self) -> Result<(), RegisterError> {
                self.parts.get().refused.clone().map_or(Ok(()), Err)
            }

            /// The configuration of the server, once all is registered
            ///
            /// # Errors
            ///
            /// As [`check`](Self::check).
            pub fn config(&self) -> Result<mcp_proto::server::Config, RegisterError> {
                self.check()?;
                Ok(self.parts.get().core.config())
            }

            fn noted(&mut self, added: Result<(), RegisterError>) -> &mut Self {
                if let Err(error) = added {
                    self.parts().refused.get_or_insert(error);
                }
                self
            }

            fn parts(&mut self) -> &mut Parts {
                self.parts.make_mut()
            }

            $($async)? fn answer(&self, parts: &Parts, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
                match parts.core.route(call) {
                    // Written once per revision for as long as nothing changes.
                    Route::Answer(answer) => {
                        let page = lock(&self.cache).page(call.version(), &answer).cloned();
                        match page {
                            Some(page) => cx.complete_prepared(&page),
                            None => cx.complete(&answer),
                        }
                    }
                    Route::Handle(work) => {
                        let guard = HookGuard::new(&parts.core, work.asked());
                        let ran = (work.handler)(cx, work.target) $($await)*;
                        guard.ended(cx, ran)
                    }
                    Route::Refuse(error) => Err(error),
                    _ => match &parts.other {
                        Some(other) => other(cx, call) $($await)*,
                        None => Err(RpcError::method_not_found(call.method())),
                    },
                }
            }

            /// What was registered before the server ran is no news
            fn begin(&mut self) {
                let parts = self.parts();
                if !core::mem::replace(&mut parts.runs, true) {
                    parts.core.changes().for_each(drop);
                }
            }

            /// Makes changes that were asked for; the news of them, and of those that were made between calls
            fn make(&mut self, changes: Vec<Change>, call: &Call) -> Vec<mcp_proto::Change> {
                self.begin();
                for change in changes {
                    if let Err(panic) = catch(|| change(self)) {
                        let _ = catch(|| self.parts().report(call, &Failure::Panicked(panic)));
                    }
                }
                self.parts().core.changes().collect()
            }
        }

        impl fmt::Debug for Router {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let parts = self.parts.get();
                f.debug_struct("Router")
                    .field("core", &parts.core)
                    .field("refused", &parts.refused)
                    .finish_non_exhaustive()
            }
        }
    };
}
