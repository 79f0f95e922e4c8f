//! The routers of this adapter.

use mcp_runtime::server::router::{self, Futures, Local, Shared};

use crate::Tokio;

/// A server made of `async` closures that any thread may run, so that `tokio::spawn` takes its future.
///
#[cfg_attr(feature = "schemars", doc = "```no_run")]
#[cfg_attr(not(feature = "schemars"), doc = "```ignore")]
/// use mcp_tokio::{Cx, Router, schemars};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add { a: i64, b: i64 }
///
/// #[tokio::main]
/// async fn main() -> Result<(), mcp_tokio::Error> {
///     let mut router = Router::new("calc", "1.0");
///     router.tool("add", async |_: &mut Cx, Add { a, b }: Add| a + b).description("Adds two numbers");
///     router.serve_stdio().await
/// }
/// ```
///
/// It is a [`router::Router`] of [`Futures`], whose page describes all kinds of entries. Each call runs a clone of
/// its closure; handlers run concurrently inside the future of the server. A call sees the router as it was when the
/// call arrived. Keep what handlers share in an `Arc`:
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use mcp_tokio::Router;
/// use mcp_tokio::mcp_proto::model::Resource;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let log = Arc::new(Mutex::new(vec!["cast off"]));
/// let mut router = Router::new("ship", "1.0");
/// router.resource(Resource::new("ship://log", "log"), async move |_, _| log.lock().unwrap().join("\n"));
///
/// let (server_end, client_end) = tokio::io::duplex(4096);
/// let server = tokio::spawn(router.serve(server_end));
/// # drop(client_end);
/// # server.await.unwrap().unwrap();
/// # }
/// ```
///
/// Tools that are known only at run time take their arguments as JSON:
///
/// ```
/// # use mcp_tokio::{Cx, Router};
/// # use mcp_tokio::mcp_proto::{self, RawJson, model::Tool};
/// # let found = [("greet", r#"{"type":"object","properties":{"who":{"type":"string"}}}"#)];
/// let mut router = Router::new("dynamic", "1.0");
/// for (name, schema) in found {
///     let tool = Tool::new(name, RawJson::new(schema)?).description("From the database");
///     let answer = async move |_: &mut Cx, arguments: serde_json::Value| format!("{name}: {arguments}");
///     router.tool_with(tool, answer);
/// }
/// assert!(router.check().is_ok());
/// # Ok::<(), mcp_proto::InvalidJson>(())
/// ```
pub type Router = router::Router<Futures<Tokio, Shared>>;

/// A server made of `async` closures that stay on their thread: what they hold need not be `Send`.
///
/// It is a [`router::Router`] of [`Futures`] that are [`Local`]. Serve it in `main`, in a `tokio::task::LocalSet`, or in
/// [shards](mcp_runtime::runtime::http::HttpServer::shards_with), each with a router of its own.
pub type LocalRouter = router::Router<Futures<Tokio, Local>>;

/// Updates of a [`Router`] from inside its handlers.
pub type RouterUpdates = router::RouterUpdates<Futures<Tokio, Shared>>;
