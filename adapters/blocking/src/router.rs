//! Serving what is registered by name: tools, resources, prompts and completions, each with a closure

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
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
use mcp_std::client::{Actor, OnTheSpot, Rehearse};
use mcp_std::serve::router::{
    Current, HookGuard, Pending, Ran, complete, complete_read, complete_tool, lock, misrouted,
};
use mcp_std::serve::{Answered, Cx, Failure, Handler};
use mcp_std::{Duplex, Error, catch};
use serde::de::DeserializeOwned;

type Run = Rc<dyn Fn(&mut Cx<'_>, Target<'_>) -> Ran>;
type Other = Rc<dyn Fn(&mut Cx<'_>, &Call) -> Result<Answered, RpcError>>;
/// Is told of a URI that is followed from now on, or no more
type Interest = Rc<dyn Fn(&str, bool)>;
/// Told what the author of a handler should know; the client is told less
type Report = Rc<dyn Fn(&Call, &Failure)>;
/// Says on whose behalf a request with a token is made
#[cfg(feature = "http")]
type Judge = Rc<dyn Fn(&Token) -> Result<String, Denial>>;
type Hooks = Rc<dyn Hook>;

/// No closure is ever called by itself: nothing but the router calls them, and it serves one loop
macro_rules! callback {
    ($closure:ident, |$($name:ident: $type:ty),*| $body:expr) => {{
        let $closure = RefCell::new($closure);
        Rc::new(move |$($name: $type),*| {
            let mut $closure = $closure.borrow_mut();
            $body
        })
    }};
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
    handlers: FnMut, callbacks: FnMut, bounds: [], changes: [], pointer: Rc, async: [], await: []
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
}

/// For [`testing`](crate::testing)
impl Rehearse for Router {
    fn rehearse(self) -> Result<(mcp_proto::server::Config, Box<dyn Actor>), Error> {
        Ok((self.config()?, Box::new(OnTheSpot(self))))
    }
}

impl Handler for Router {
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        self.begin();
        let parts = self.parts.get();
        // Whoever catches the panic uses the router again.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.answer(&parts, cx, call)));
        // Changed in place.
        drop(parts);
        let changes = self.later.0.take();
        for change in self.make(changes, call) {
            cx.publish(&change);
        }
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn failed(&mut self, call: &Call, failure: &Failure) {
        self.parts().report(call, failure);
    }

    #[cfg(feature = "http")]
    fn token(&mut self, token: &Token) -> Result<String, Denial> {
        self.parts().judge.as_ref().map_or(Err(Denial::InvalidToken), |judge| judge(token))
    }

    fn tools(&mut self, tell: &mut dyn FnMut(&str, &RawJson)) {
        self.parts().core.tools().for_each(|tool| tell(&tool.name, &tool.input_schema));
    }

    fn event(&mut self, event: &Event) {
        if let (Event::Interest { uri, wanted }, Some(interest)) = (event, &self.parts().interest) {
            interest(uri, *wanted);
        }
    }
}
