//! Serving what is registered by name: tools, resources, prompts and completions, each with a closure

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::panic::AssertUnwindSafe;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::Mutex;

#[cfg(feature = "http")]
use mcp_proto::http::server::{Denial, Token};
use mcp_proto::model::{CompletionReference, Prompt, Resource, ResourceTemplate, Tool};
use mcp_proto::router::{
    self, CompletionTarget, Hook, IntoCompletion, IntoPromptResult, IntoReadResult, IntoToolResult,
    PageCache, RegisterError, ResourceTarget, Route, SchemaValidator, Target,
};
use mcp_proto::server::{Call, Event};
use mcp_proto::{Capability, RawJson, RpcError};
use mcp_std::client::{Actor, Rehearse};
use mcp_std::serve::router::{
    Current, HookGuard, Pending, Ran, complete, complete_read, complete_tool, lock, misrouted,
};
use mcp_std::serve::{Answered, Cx, Failure};
use mcp_std::{Duplex, Error, catch};
use serde::de::DeserializeOwned;

use crate::handler::Handler;

type Run = Arc<dyn Fn(&mut Cx<'_>, Target<'_>) -> Ran + Send + Sync>;
type Other = Arc<dyn Fn(&mut Cx<'_>, &Call) -> Result<Answered, RpcError> + Send + Sync>;
/// Is told of a URI that is followed from now on, or no more
type Interest = Arc<dyn Fn(&str, bool) + Send + Sync>;
/// Told what the author of a handler should know; the client is told less
type Report = Arc<dyn Fn(&Call, &Failure) + Send + Sync>;
/// Says on whose behalf a request with a token is made
#[cfg(feature = "http")]
type Judge = Arc<dyn Fn(&Token) -> Result<String, Denial> + Send + Sync>;
type Hooks = Arc<dyn Hook + Send + Sync>;

macro_rules! callback {
    ($closure:ident, |$($name:ident: $type:ty),*| $body:expr) => {
        Arc::new(move |$($name: $type),*| $body)
    };
}

macro_rules! handler {
    ($handler:ident, |$cx:ident, $target:ident| $body:block) => {
        callback!($handler, |$cx: &mut Cx<'_>, $target: Target<'_>| $body)
    };
}

macro_rules! other {
    ($handler:ident, |$cx:ident, $call:ident| $body:block) => {
        callback!($handler, |$cx: &mut Cx<'_>, $call: &Call| $body)
    };
}

mcp_std::router! {
    /// A server made of closures
    ///
    #[cfg_attr(feature = "schemars", doc = "```no_run")]
    #[cfg_attr(not(feature = "schemars"), doc = "```ignore")]
    /// use mcp_threads::Router;
    /// use mcp_proto::router::schema::schemars;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Add { a: i64, b: i64 }
    ///
    /// fn main() -> Result<(), mcp_threads::Error> {
    ///     let mut router = Router::new("calc", "1.0");
    ///     router.tool("add", "Adds two numbers", |_, Add { a, b }: Add| a + b);
    ///     router.serve_stdio()
    /// }
    /// ```
    ///
    /// The same for tools that are known only at run time, without a macro:
    ///
    /// ```
    /// # use mcp_threads::Router;
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
    /// serving fails with it. Handlers run on the server's workers, several at a
    /// time, and see the router as it was when their calls came.
    handlers: Fn, callbacks: Fn, bounds: [+ Send + Sync], changes: [+ Send], pointer: Arc, async: [], await: []
}

impl Router {
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

    /// Makes the changes that were asked for, and tells of them; who calls this sees those that he asked for made
    fn settle(&self, cx: &mut Cx<'_>) {
        if self.later.0.is_empty() {
            return;
        }
        // One after the other. Calls that are under way, and those that come meanwhile, have the router as it was.
        let _turn = lock(&self.changing);
        let mut next = Self::of(self.parts.get(), self.later.0.clone());
        let news = next.make(self.later.0.take(), cx.call());
        self.parts.set(next.parts.get());
        for change in news {
            cx.publish(&change);
        }
    }
}

/// For tests on virtual time: see [`testing`](crate::testing)
impl Rehearse for Router {
    fn rehearse(self) -> Result<(mcp_proto::server::Config, Box<dyn Actor>), Error> {
        Ok((self.config()?, crate::testing::actor(self)))
    }
}

impl Handler for Router {
    fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        let parts = self.parts.get();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.answer(&parts, cx, call)));
        self.settle(cx);
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn failed(&self, call: &Call, failure: &Failure) {
        self.parts.get().report(call, failure);
    }

    #[cfg(feature = "http")]
    fn token(&self, token: &Token) -> Result<String, Denial> {
        self.parts.get().judge.as_ref().map_or(Err(Denial::InvalidToken), |judge| judge(token))
    }

    fn tools(&self, tell: &mut dyn FnMut(&str, &RawJson)) {
        self.parts.get().core.tools().for_each(|tool| tell(&tool.name, &tool.input_schema));
    }

    fn event(&self, event: &Event) {
        if let (Event::Interest { uri, wanted }, Some(interest)) = (event, &self.parts.get().interest) {
            interest(uri, *wanted);
        }
    }
}
