//! The client of this adapter, driven by the tasks that await its calls.

use mcp_runtime::runtime::client;

use crate::Tokio;

/// A handle of a connection to one server, ready for calls from any task of a tokio runtime.
///
/// ```no_run
/// use mcp_tokio::{Client, Program};
///
/// # async fn example() -> Result<(), mcp_tokio::Error> {
/// let client = Client::spawn(Program::new("my-server").arg("--stdio")).await?;
/// let result = client.call_tool("add", &serde_json::json!({"a": 20, "b": 22})).await?;
/// for block in result.content.iter() {
///     println!("{block:?}");
/// }
/// # Ok::<(), mcp_tokio::Error>(())
/// # }
/// ```
///
/// A task of its own drives the connection between calls:
///
/// ```no_run
/// # async fn example() -> Result<(), mcp_tokio::Error> {
/// let client = mcp_tokio::Client::spawn(mcp_tokio::Program::new("my-server")).await?;
/// tokio::spawn(client.run());
/// # Ok(())
/// # }
/// ```
///
/// With a handler that stays on its thread:
///
/// ```no_run
/// use std::cell::Cell;
///
/// use mcp_tokio::mcp_proto::model::ListRootsResult;
/// use mcp_tokio::{AsyncClientHandler, RpcError, async_handler};
///
/// struct Counts(Cell<u32>);
///
/// impl AsyncClientHandler for Counts {
///     async fn roots(&self) -> Result<ListRootsResult, RpcError> {
///         self.0.set(self.0.get() + 1);
///         Ok(ListRootsResult::new(Vec::new()))
///     }
/// }
///
/// # async fn example(client: mcp_tokio::Client) -> Result<(), mcp_tokio::Error> {
/// tokio::select! {
///     ended = client.run_with(async_handler(Counts(Cell::new(0)))) => ended?,
///     tools = client.list_tools() => println!("{} tools", tools?.len()),
/// }
/// # Ok(())
/// # }
/// ```
///
/// An [`AsyncClientHandler`](client::AsyncClientHandler) answers the requests of the server:
///
/// ```no_run
/// use std::time::Duration;
///
/// use mcp_tokio::mcp_proto::model::{ElicitParams, ElicitResult};
/// use mcp_tokio::mcp_proto::{Capabilities, Capability, client::Config};
/// use mcp_tokio::{AsyncClientHandler, Client, Program, RpcError, async_handler};
///
/// struct User;
///
/// impl AsyncClientHandler for User {
///     async fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
///         println!("{params:?}");
///         tokio::time::sleep(Duration::from_secs(5)).await; // calls, pings and timeouts continue
///         Ok(ElicitResult::decline())
///     }
/// }
///
/// # async fn example() -> Result<(), mcp_tokio::Error> {
/// let config = Config::new("my-app", "1.0").capabilities(Capabilities::new().with(Capability::ElicitationForm));
/// let client = Client::options(config).handler(async_handler(User)).spawn(Program::new("my-server")).await?;
/// # Ok::<(), mcp_tokio::Error>(())
/// # }
/// ```
/// Its methods are those of [`generic::Client`](crate::generic::Client) and [`AsyncCalls`](crate::AsyncCalls).
pub type Client = client::Client<Tokio>;

/// Options of a [`Client`] before it connects.
pub type Options = mcp_runtime::client::Options<Client>;

/// A client that is connecting. Dropping it shuts down a server process that was started for it.
pub type Connecting<'a> = client::Connecting<'a, Tokio>;

/// A call that was started. Await it, or pass it to [`Client::wait`](client::Client::wait), to get its result.
pub type PendingCall = client::PendingCall<Tokio>;

/// Future that drives a connection to its end; see [`Client::run`](client::Client::run).
pub type Run = client::Run<Tokio>;

/// Future that drives a connection to its end, with a handler of its own; see
/// [`Client::run_with`](client::Client::run_with).
pub type RunWith<H> = client::RunWith<Tokio, H>;

/// The connection of a [`Client`], shared by its handles and pending calls.
pub type SharedBackend = client::SharedBackend<Tokio>;
