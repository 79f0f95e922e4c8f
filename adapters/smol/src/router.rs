//! The router of this adapter: tools, resources, prompts and completions, each with a closure.

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
use mcp_proto::http::server::{BearerToken, Denial};
use mcp_proto::model::{CompletionReference, Prompt, Resource, ResourceTemplate, Tool};
use mcp_proto::router::{
    self, CallTarget, CompletionTarget, Hook, IntoCompletion, IntoPromptResult, IntoReadResult,
    IntoToolResult, PageCache, RegisterError, ResourceTarget, Route, SchemaValidator,
};
use mcp_proto::server::{Call, Event};
use mcp_proto::{Capability, RawJson, RpcError};
use mcp_std::adapter::client::{TestPeer, TestServer};
use mcp_std::adapter::server::router::{
    ChangeQueue, HandlerResult, HookGuard, Snapshot, complete, complete_read, complete_tool, lock,
    misrouted_error,
};
use mcp_std::adapter::server::{Answered, HandlerFailure};
use mcp_std::{Error, catch};
use serde::de::DeserializeOwned;

use crate::handler::{Cx, Handler, catch_panic};

type RouteFn = Rc<dyn for<'a> Fn(&'a mut Cx<'_>, CallTarget<'a>) -> HandlerFuture<'a, HandlerResult>>;
type FallbackFn =
    Rc<dyn for<'a> Fn(&'a mut Cx<'_>, &'a Call) -> HandlerFuture<'a, Result<Answered, RpcError>>>;
/// Future of a running handler.
type HandlerFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
/// Callback for the first subscription and the end of the last subscription of a URI.
type InterestFn = Rc<dyn Fn(&str, bool)>;
/// Callback for failures of handlers, with details that the client does not get.
type FailureFn = Rc<dyn Fn(&Call, &HandlerFailure)>;
/// Callback that maps a bearer token to its principal.
#[cfg(feature = "http")]
type AuthenticateFn = Rc<dyn Fn(&BearerToken) -> Result<String, Denial>>;
type SharedHook = Rc<dyn Hook>;

macro_rules! callback {
    ($closure:ident, |$($name:ident: $type:ty),*| $body:expr) => {
        Rc::new(move |$($name: $type),*| $body)
    };
}

// Each call shares ownership of the closure, which may be removed from the router while the call runs.
macro_rules! handler {
    ($handler:ident, |$cx:ident, $target:ident| $body:block) => {{
        let shared = Rc::new($handler);
        let run: RouteFn = Rc::new(move |$cx, $target| {
            let shared = shared.clone();
            Box::pin(async move {
                let $handler = &*shared;
                $body
            })
        });
        run
    }};
}

macro_rules! fallback {
    ($handler:ident, |$cx:ident, $call:ident| $body:block) => {{
        let shared = Rc::new($handler);
        let fallback: FallbackFn = Rc::new(move |$cx, $call| {
            let shared = shared.clone();
            Box::pin(async move {
                let $handler = &*shared;
                $body
            })
        });
        fallback
    }};
}

mcp_std::router! {
    /// A server made of `async` closures.
    ///
    #[cfg_attr(feature = "schemars", doc = "```no_run")]
    #[cfg_attr(not(feature = "schemars"), doc = "```ignore")]
    /// use mcp_smol::{Router, schemars};
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
    /// Tools that are known only at run time need no macro:
    ///
    /// ```
    /// # use mcp_smol::{Cx, Router};
    /// # use mcp_smol::mcp_proto::{self, RawJson, model::Tool};
    /// # let found = [("greet", r#"{"type":"object","properties":{"who":{"type":"string"}}}"#)];
    /// let mut router = Router::new("dynamic", "1.0");
    /// for (name, schema) in found {
    ///     let tool = Tool::new(name, RawJson::new(schema)?).description("From the database");
    ///     router.tool_with(tool, async move |_: &mut Cx<'_>, arguments: serde_json::Value| {
    ///         format!("{name}: {arguments}")
    ///     });
    /// }
    /// assert!(router.check().is_ok());
    /// # Ok::<(), mcp_proto::InvalidJson>(())
    /// ```
    ///
    /// An entry that cannot be registered (an invalid name, a duplicate name) is recorded. [`check`](Self::check)
    /// reports it, and serving fails with it.
    ///
    /// Handlers run concurrently on one thread. A call sees the router as it was when the call arrived. Keep mutable
    /// state in cells. With several threads, each has a router of its own (`HttpServer::shards_with`).
    handlers: AsyncFn, callbacks: Fn, bounds: [], changes: [], pointer: Rc, async: [async], await: [.await],
    examples: ["use mcp_smol::{Cx, Router, mcp_proto};", "async |"]
}

impl Router {
    /// Serves on stdin and stdout of this process; see [`serve_stdio`](crate::serve_stdio).
    ///
    /// # Errors
    ///
    /// [`Error::Register`] if an entry could not be registered; otherwise as [`serve_stdio`](crate::serve_stdio).
    #[cfg(unix)]
    pub async fn serve_stdio(self) -> Result<(), Error> {
        crate::serve_stdio(self.config()?, self).await
    }

    /// Serves one client on any byte stream; see [`serve`](crate::serve).
    ///
    /// # Errors
    ///
    /// As [`serve_stdio`](Self::serve_stdio).
    pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(self, stream: S) -> Result<(), Error> {
        crate::serve(self.config()?, stream, self).await
    }

    /// Serves HTTP at `address` until an error occurs; see [`HttpServer`](crate::HttpServer).
    ///
    /// # Errors
    ///
    /// [`Error::Register`] if an entry could not be registered; otherwise as [`serve_http`](crate::serve_http).
    #[cfg(feature = "http")]
    pub async fn serve_http(
        self,
        address: impl std::net::ToSocketAddrs,
        http: mcp_proto::http::server::Config,
    ) -> Result<(), Error> {
        crate::serve_http(address, self.config()?, http, self).await
    }

    /// Applies the scheduled updates and publishes the changes. Updates that the caller scheduled are applied on
    /// return.
    fn apply_pending_updates(&self, cx: &mut Cx<'_>) {
        if self.updates.0.is_empty() {
            return;
        }
        // Running calls keep the snapshot with which they started.
        let mut next = Self::from_state(self.state.load(), self.updates.0.clone());
        let changes = next.apply_updates(self.updates.0.take(), cx.call());
        self.state.store(next.state.load());
        for change in changes {
            cx.publish(&change);
        }
    }
}

// Makes routers testable with `mcp_blocking::testing::pair`.
impl TestServer for Router {
    fn into_test_peer(self) -> Result<(mcp_proto::server::Config, Box<dyn TestPeer>), Error> {
        Ok((self.config()?, crate::testing::test_peer(self)))
    }
}

impl Handler for Router {
    async fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        let state = self.state.load();
        let outcome = catch_panic(self.answer(&state, cx, call)).await;
        self.apply_pending_updates(cx);
        outcome.unwrap_or_else(|panic| resume_unwind(Box::new(panic.message().to_owned())))
    }

    fn failed(&self, call: &Call, failure: &HandlerFailure) {
        self.state.load().report_failure(call, failure);
    }

    #[cfg(feature = "http")]
    fn verify_token(&self, token: &BearerToken) -> Result<String, Denial> {
        self.state
            .load()
            .authenticate
            .as_ref()
            .map_or(Err(Denial::InvalidToken), |authenticate| authenticate(token))
    }

    fn for_each_tool(&self, visit: &mut dyn FnMut(&str, &RawJson)) {
        self.state.load().core.tools().for_each(|tool| visit(&tool.name, &tool.input_schema));
    }

    fn event(&self, event: &Event) {
        if let (Event::ResourceInterest { uri, is_subscribed }, Some(interest)) =
            (event, &self.state.load().on_interest)
        {
            interest(uri, *is_subscribed);
        }
    }
}
