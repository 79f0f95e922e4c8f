//! The router of this adapter: tools, resources, prompts and completions, each with a closure.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::panic::AssertUnwindSafe;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::Mutex;

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
use mcp_std::adapter::server::{Answered, Cx, HandlerFailure};
use mcp_std::io::Duplex;
use mcp_std::{Error, catch};
use serde::de::DeserializeOwned;

use crate::handler::Handler;

type RouteFn = Arc<dyn Fn(&mut Cx<'_>, CallTarget<'_>) -> HandlerResult + Send + Sync>;
type FallbackFn = Arc<dyn Fn(&mut Cx<'_>, &Call) -> Result<Answered, RpcError> + Send + Sync>;
/// Callback for the first subscription and the end of the last subscription of a URI.
type InterestFn = Arc<dyn Fn(&str, bool) + Send + Sync>;
/// Callback for failures of handlers, with details that the client does not get.
type FailureFn = Arc<dyn Fn(&Call, &HandlerFailure) + Send + Sync>;
/// Callback that maps a bearer token to its principal.
#[cfg(feature = "http")]
type AuthenticateFn = Arc<dyn Fn(&BearerToken) -> Result<String, Denial> + Send + Sync>;
type SharedHook = Arc<dyn Hook + Send + Sync>;

macro_rules! callback {
    ($closure:ident, |$($name:ident: $type:ty),*| $body:expr) => {
        Arc::new(move |$($name: $type),*| $body)
    };
}

macro_rules! handler {
    ($handler:ident, |$cx:ident, $target:ident| $body:block) => {
        callback!($handler, |$cx: &mut Cx<'_>, $target: CallTarget<'_>| $body)
    };
}

macro_rules! fallback {
    ($handler:ident, |$cx:ident, $call:ident| $body:block) => {
        callback!($handler, |$cx: &mut Cx<'_>, $call: &Call| $body)
    };
}

mcp_std::router! {
    /// A server made of closures.
    ///
    #[cfg_attr(feature = "schemars", doc = "```no_run")]
    #[cfg_attr(not(feature = "schemars"), doc = "```ignore")]
    /// use mcp_threads::{Router, schemars};
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
    /// Tools that are known only at run time need no macro:
    ///
    /// ```
    /// # use mcp_threads::Router;
    /// # use mcp_threads::mcp_proto::{self, RawJson, model::Tool};
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
    /// An entry that cannot be registered (an invalid name, a duplicate name) is recorded. [`check`](Self::check)
    /// reports it, and serving fails with it.
    ///
    /// Handlers run on the server's workers, several at a time. A call sees the router as it was when the call arrived.
    handlers: Fn, callbacks: Fn, bounds: [+ Send + Sync], changes: [+ Send], pointer: Arc, async: [], await: [],
    examples: ["use mcp_threads::{Cx, Router, mcp_proto};", "|"]
}

impl Router {
    /// Serves on stdin and stdout of this process; see [`serve_stdio`](crate::serve_stdio).
    ///
    /// # Errors
    ///
    /// [`Error::Register`] if an entry could not be registered; otherwise as [`serve_stdio`](crate::serve_stdio).
    pub fn serve_stdio(self) -> Result<(), Error> {
        crate::serve_stdio(self.config()?, self)
    }

    /// Serves one client on any byte stream; see [`serve`](crate::serve).
    ///
    /// # Errors
    ///
    /// As [`serve_stdio`](Self::serve_stdio).
    pub fn serve<D: Duplex>(self, stream: D) -> Result<(), Error> {
        crate::serve(self.config()?, stream, self)
    }

    /// Serves HTTP at `address` until an error occurs; see [`HttpServer`](crate::HttpServer).
    ///
    /// # Errors
    ///
    /// [`Error::Register`] if an entry could not be registered; otherwise as [`serve_http`](crate::serve_http).
    #[cfg(feature = "http")]
    pub fn serve_http(
        self,
        address: impl std::net::ToSocketAddrs,
        http: mcp_proto::http::server::Config,
    ) -> Result<(), Error> {
        crate::serve_http(address, self.config()?, http, self)
    }

    /// Applies the scheduled updates and publishes the changes. Updates that the caller scheduled are applied on
    /// return.
    fn apply_pending_updates(&self, cx: &mut Cx<'_>) {
        if self.updates.0.is_empty() {
            return;
        }
        // One thread at a time. Other calls keep the snapshot with which they started.
        let _guard = lock(&self.update_lock);
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
    fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        let state = self.state.load();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.answer(&state, cx, call)));
        self.apply_pending_updates(cx);
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
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
