//! The routers of this adapter.

use mcp_runtime::server::router::{self, Futures, Local, Shared};

use crate::Smol;

/// A server made of `async` closures that stay on their thread.
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
///     router.tool("add", async |_, Add { a, b }: Add| a + b).description("Adds two numbers");
///     mcp_smol::block_on(router.serve_stdio())
/// }
/// ```
///
/// It is a [`router::Router`] of [`Futures`], whose page describes all kinds of entries: closures are `AsyncFn` and
/// need not be `Send`. Handlers run concurrently on one thread. A call sees the router as it was when the call arrived.
/// Keep mutable state in cells. With several threads, each has a router of its own (`HttpServer::shards_with`); a
/// [`SendRouter`] may be served on any thread.
///
/// Tools that are known only at run time take their arguments as JSON:
///
/// ```
/// # use mcp_smol::Router;
/// # use mcp_smol::mcp_proto::{self, RawJson, model::Tool};
/// # let found = [("greet", r#"{"type":"object","properties":{"who":{"type":"string"}}}"#)];
/// let mut router = Router::new("dynamic", "1.0");
/// for (name, schema) in found {
///     let tool = Tool::new(name, RawJson::new(schema)?).description("From the database");
///     router.tool_with(tool, async move |_, arguments: serde_json::Value| format!("{name}: {arguments}"));
/// }
/// assert!(router.check().is_ok());
/// # Ok::<(), mcp_proto::InvalidJson>(())
/// ```
pub type Router = router::Router<Futures<Smol, Local>>;

/// A server made of `async` closures that any thread may run, so that its future is `Send`.
///
/// It is a [`router::Router`] of [`Futures`] that are [`Shared`]. Each call runs a clone of its closure. Keep what handlers share in an
/// `Arc`.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use mcp_smol::SendRouter;
/// use mcp_smol::mcp_proto::model::Resource;
///
/// let log = Arc::new(Mutex::new(vec!["cast off"]));
/// let mut router = SendRouter::new("ship", "1.0");
/// router.resource(Resource::new("ship://log", "log"), async move |_, _| log.lock().unwrap().join("\n"));
///
/// fn spawn(future: impl Future<Output = Result<(), mcp_smol::Error>> + Send) {
///     # drop(future);
///     // of any executor with several threads
/// }
/// # let stream = std::os::unix::net::UnixStream::pair()?.0;
/// # let stream = async_io::Async::new(stream)?;
/// spawn(router.serve(stream));
/// # Ok::<(), std::io::Error>(())
/// ```
pub type SendRouter = router::Router<Futures<Smol, Shared>>;

/// Updates of a [`Router`] from inside its handlers.
pub type RouterUpdates = router::RouterUpdates<Futures<Smol, Local>>;
