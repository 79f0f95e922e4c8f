//! The router of this adapter.

use alloc::boxed::Box;

use mcp_runtime::Error;
use mcp_runtime::client::{Inline, TestPeer, TestRouter};
use mcp_runtime::server::Handler;
use mcp_runtime::server::router::{self, Flavor, Functions, Local, ServeFunctions};
use mcp_std::io::Duplex;

/// A server made of closures.
///
#[cfg_attr(feature = "schemars", doc = "```no_run")]
#[cfg_attr(not(feature = "schemars"), doc = "```ignore")]
/// use mcp_blocking::{Router, schemars};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add { a: i64, b: i64 }
///
/// fn main() -> Result<(), mcp_blocking::Error> {
///     let mut router = Router::new("calc", "1.0");
///     router.tool("add", |_, Add { a, b }: Add| a + b).description("Adds two numbers");
///     router.serve_stdio()
/// }
/// ```
///
/// It is a [`router::Router`] of [`Functions`], whose page describes all kinds of entries: closures are `Fn`, run on
/// the loop's thread, one at a time, and need not be `Send`: what they change is in a [`Cell`](core::cell::Cell) or a
/// [`RefCell`](core::cell::RefCell). Tools that are known only at run time take their arguments
/// as JSON:
///
/// ```
/// # use mcp_blocking::Router;
/// # use mcp_blocking::mcp_proto::{self, RawJson, model::Tool};
/// # let found = [("greet", r#"{"type":"object","properties":{"who":{"type":"string"}}}"#)];
/// let mut router = Router::new("dynamic", "1.0");
/// for (name, schema) in found {
///     let tool = Tool::new(name, RawJson::new(schema)?).description("From the database");
///     router.tool_with(tool, move |_, arguments: serde_json::Value| format!("{name}: {arguments}"));
/// }
/// assert!(router.check().is_ok());
/// # Ok::<(), mcp_proto::InvalidJson>(())
/// ```
pub type Router = router::Router<Functions<Blocking, Local>>;

/// Updates of a [`Router`] from inside its handlers.
pub type RouterUpdates = router::RouterUpdates<Functions<Blocking, Local>>;

/// This adapter: it serves routers of [`Functions`].
#[derive(Clone, Copy, Debug)]
pub enum Blocking {}

// Generic, so that only the program that serves a router is built with its code.
impl<F: Flavor<Adapter = Self>> ServeFunctions<F> for Blocking
where
    router::Router<F>: Handler,
{
    fn serve_stdio(config: mcp_proto::server::Config, router: router::Router<F>) -> Result<(), Error> {
        crate::serve_stdio(config, router)
    }

    fn serve<D: Duplex>(
        config: mcp_proto::server::Config,
        stream: D,
        router: router::Router<F>,
    ) -> Result<(), Error> {
        crate::serve(config, stream, router)
    }
}

#[cfg(feature = "http")]
impl<F: Flavor<Adapter = Self>> router::ServeFunctionsHttp<F> for Blocking
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

impl<F: Flavor<Adapter = Self>> TestRouter<F> for Blocking
where
    router::Router<F>: Handler,
{
    fn test_peer(router: router::Router<F>) -> Box<dyn TestPeer> {
        Box::new(Inline(router))
    }
}
