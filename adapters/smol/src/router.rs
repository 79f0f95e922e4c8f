//! Serving what is registered by name: tools, resources, prompts and completions, each with a closure

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::pin::Pin;
use std::panic::resume_unwind;
use std::sync::Mutex;

use futures_lite::{AsyncRead, AsyncWrite};
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
use mcp_std::serve::{Answered, Failure};
use mcp_std::{Error, catch};
use serde::de::DeserializeOwned;

use crate::handler::{Cx, Handler, caught};

type Run = Rc<dyn for<'a> Fn(&'a mut Cx<'_>, Target<'a>) -> Runs<'a, Ran>>;
type Other = Rc<dyn for<'a> Fn(&'a mut Cx<'_>, &'a Call) -> Runs<'a, Result<Answered, RpcError>>>;
/// A handler at work
type Runs<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
/// Is told of a URI that is followed from now on, or no more
type Interest = Rc<dyn Fn(&str, bool)>;
/// Told what the author of a handler should know; the client is told less
type Report = Rc<dyn Fn(&Call, &Failure)>;
/// Says on whose behalf a request with a token is made
#[cfg(feature = "http")]
type Judge = Rc<dyn Fn(&Token) -> Result<String, Denial>>;
type Hooks = Rc<dyn Hook>;

macro_rules! callback {
    ($closure:ident, |$($name:ident: $type:ty),*| $body:expr) => {
        Rc::new(move |$($name: $type),*| $body)
    };
}

/// Each call has a share in the closure, which may go while it runs
macro_rules! handler {
    ($handler:ident, |$cx:ident, $target:ident| $body:block) => {{
        let shared = Rc::new($handler);
        let run: Run = Rc::new(move |$cx, $target| {
            let shared = shared.clone();
            Box::pin(async move {
                let $handler = &*shared;
                $body
            })
        });
        run
    }};
}

macro_rules! other {
    ($handler:ident, |$cx:ident, $call:ident| $body:block) => {{
        let shared = Rc::new($handler);
        let other: Other = Rc::new(move |$cx, $call| {
            let shared = shared.clone();
            Box::pin(async move {
                let $handler = &*shared;
                $body
            })
        });
        other
    }};
}

mcp_std::router! {
    /// A server made of closures
    ///
    #[cfg_attr(feature = "schemars", doc = "```no_run")]
    #[cfg_attr(not(feature = "schemars"), doc = "```ignore")]
    /// use mcp_smol::Router;
    /// use mcp_proto::router::schema::schemars;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Add { a: i64, b: i64 }
    ///
    /// fn main() -> Result<(), mcp_smol::Error> {
    ///     let mut router = Router::new("calc", "1.0");
    ///     router.tool("add", "Adds two numbers", async |_, Add { a, b }: Add| a + b);
    ///     mcp_smol::block_on(router.serve_stdio())
    /// }
    /// ```
    ///
    /// The same for tools that are known only at run time, without a macro:
    ///
    /// ```
    /// # use mcp_smol::{Cx, Router};
    /// # use mcp_proto::{RawJson, model::Tool};
    /// # let found = [("greet", r#"{"type":"object","properties":{"who":{"type":"string"}}}"#)];
    /// let mut router = Router::new("dynamic", "1.0");
    /// for (name, schema) in found {
    ///     let tool = Tool::new(name, RawJson::new(schema)?).description("From the database");
    ///     router.tool_with(tool, async move |_: &mut Cx<'_>, arguments: serde_json::Value| format!("{name}: {arguments}"));
    /// }
    /// assert!(router.check().is_ok());
    /// # Ok::<(), mcp_proto::InvalidJson>(())
    /// ```
    ///
    /// What cannot be registered (a bad name, a second tool of one name) is remembered: [`check`](Self::check) says it, and
    /// serving fails with it. Handlers run at the same time, on one thread, and see the router as it was when their calls
    /// came; what they change is in cells. Where there are several threads, each has a router of its own
    /// (`HttpServer::shards_with`).
    handlers: AsyncFn, callbacks: Fn, bounds: [], changes: [], pointer: Rc, async: [async], await: [.await]
}

impl Router {
    /// Serves on this process' stdin and stdout; see [`serve_stdio`](crate::serve_stdio)
    ///
    /// # Errors
    ///
    /// [`Error::Register`] when something could not be registered; then as [`serve_stdio`](crate::serve_stdio).
    #[cfg(unix)]
    pub async fn serve_stdio(self) -> Result<(), Error> {
        crate::serve_stdio(self.config()?, self).await
    }

    /// Serves one client on any byte stream; see [`serve`](crate::serve)
    ///
    /// # Errors
    ///
    /// As [`serve_stdio`](Self::serve_stdio).
    pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(self, stream: S) -> Result<(), Error> {
        crate::serve(self.config()?, stream, self).await
    }

    /// Serves HTTP at `address`, for ever; see [`HttpServer`](crate::HttpServer)
    ///
    /// # Errors
    ///
    /// [`Error::Register`] when something could not be registered; then as [`serve_http`](crate::serve_http).
    #[cfg(feature = "http")]
    pub async fn serve_http(
        self,
        address: impl std::net::ToSocketAddrs,
        http: mcp_proto::http::server::Config,
    ) -> Result<(), Error> {
        crate::serve_http(address, self.config()?, http, self).await
    }

    /// Makes the changes that were asked for, and tells of them; who calls this sees those that he asked for made
    fn settle(&self, cx: &mut Cx<'_>) {
        if self.later.0.is_empty() {
            return;
        }
        // Calls that are under way have the router as it was.
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
    async fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        let parts = self.parts.get();
        let outcome = caught(self.answer(&parts, cx, call)).await;
        self.settle(cx);
        outcome.unwrap_or_else(|panic| resume_unwind(Box::new(panic.message().to_owned())))
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
