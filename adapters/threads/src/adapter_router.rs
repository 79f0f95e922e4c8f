//! The router of this adapter.

use alloc::boxed::Box;

#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
use mcp_proto::server::{Call, Event, Notification};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Diagnostic, RawJson, RpcError};
use mcp_runtime::Error;
use mcp_runtime::client::{TestPeer, TestRouter};
use mcp_runtime::server::router::{self, Flavor, Functions, ServeFunctions, Shared};
use mcp_runtime::server::{Answered, Attachments, Cx, HandlerFailure};
use mcp_std::io::Duplex;

use crate::handler::Handler;

/// A server made of closures that run on several threads.
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
///     router.tool("add", |_, Add { a, b }: Add| a + b).description("Adds two numbers");
///     router.serve_stdio()
/// }
/// ```
///
/// It is a [`router::Router`] of [`Functions`], whose page describes all kinds of entries: closures are `Fn + Send
/// + Sync` and run on the server's workers, several at a time. A call sees the router as it was when the call arrived.
/// Tools that are known only at run time take their arguments as JSON:
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
pub type Router = router::Router<Functions<Threads, Shared>>;

/// Updates of a [`Router`] from inside its handlers.
pub type RouterUpdates = router::RouterUpdates<Functions<Threads, Shared>>;

/// This adapter: it serves routers of [`Functions`] that are [`Shared`].
#[derive(Clone, Copy, Debug)]
pub enum Threads {}

// Generic, so that only the program that serves a router is built with its code.
impl<F: Flavor<Adapter = Self>> ServeFunctions<F> for Threads
where
    router::Router<F>: Handler,
{
    fn serve_stdio(config: mcp_proto::server::Config, router: router::Router<F>) -> Result<(), Error> {
        crate::serve_stdio(config, router)
    }

    fn serve<D: Duplex + Send + 'static>(
        config: mcp_proto::server::Config,
        stream: D,
        router: router::Router<F>,
    ) -> Result<(), Error> {
        crate::serve(config, stream, router)
    }
}

#[cfg(feature = "http")]
impl<F: Flavor<Adapter = Self>> router::ServeFunctionsHttp<F> for Threads
where
    router::Router<F>: Handler,
{
    fn serve_http(
        address: impl std::net::ToSocketAddrs,
        config: mcp_proto::server::Config,
        http: mcp_proto::http::server::Config,
        router: router::Router<F>,
    ) -> Result<(), Error> {
        crate::serve_http(address, config, http, router)
    }
}

impl<F: Flavor<Adapter = Self>> TestRouter<F> for Threads
where
    router::Router<F>: Handler,
{
    fn test_peer(router: router::Router<F>) -> Box<dyn TestPeer> {
        crate::testing::test_peer(router)
    }
}

impl Handler for Router {
    fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        self.handle_call(cx, call)
    }

    fn notification(&self, notification: &Notification) {
        self.handle_notification(notification);
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        self.handle_diagnostic(diagnostic);
    }

    fn failed(&self, call: &Call, failure: &HandlerFailure) {
        self.handle_failure(call, failure);
    }

    fn tap(&self, record: &TapRecord) {
        self.handle_tap(record);
    }

    #[cfg(feature = "http")]
    fn head(&self, record: &HeadRecord) {
        self.handle_head(record);
    }

    fn for_each_tool(&self, visit: &mut dyn FnMut(&str, &RawJson)) {
        Self::for_each_tool(self, visit);
    }

    fn attachments(&self) -> Attachments {
        Self::attachments(self)
    }

    fn event(&self, event: &Event) {
        self.handle_event(event);
    }
}
