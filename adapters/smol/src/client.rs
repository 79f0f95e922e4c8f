//! The client of this adapter, driven by the tasks that await its calls.

use mcp_runtime::runtime::client;

use crate::Smol;

/// A handle of a connection to one server, ready for calls from any task and under any executor.
///
/// ```no_run
/// use mcp_smol::{Client, Program};
///
/// # mcp_smol::block_on(async {
/// let client = Client::spawn(Program::new("my-server").arg("--stdio")).await?;
/// let result = client.call_tool("add", &serde_json::json!({"a": 20, "b": 22})).await?;
/// for block in result.content.iter() {
///     println!("{block:?}");
/// }
/// # Ok::<(), mcp_smol::Error>(())
/// # })?;
/// # Ok::<(), mcp_smol::Error>(())
/// ```
///
/// A task of its own drives the connection between calls:
///
/// ```no_run
/// # mod async_executor { pub struct Executor<'a>(&'a ()); impl Executor<'_> {
/// #     pub fn spawn<F: Future + Send + 'static>(&self, _: F) -> Task { Task } } pub struct Task;
/// #     impl Task { pub fn detach(self) {} } }
/// # async fn example(executor: &async_executor::Executor<'static>) -> Result<(), mcp_smol::Error> {
/// let client = mcp_smol::Client::spawn(mcp_smol::Program::new("my-server")).await?;
/// executor.spawn(client.run()).detach();
/// # Ok(())
/// # }
/// ```
///
/// With a handler that stays on its thread:
///
/// ```no_run
/// use std::cell::Cell;
///
/// use mcp_smol::mcp_proto::model::ListRootsResult;
/// use mcp_smol::{AsyncClientHandler, RpcError, async_handler};
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
/// # async fn example(client: mcp_smol::Client) -> Result<(), mcp_smol::Error> {
/// let calls = async { client.list_tools().await.map(drop) };
/// futures_lite::future::or(client.run_with(async_handler(Counts(Cell::new(0)))), calls).await?;
/// # Ok(())
/// # }
/// ```
///
/// An [`AsyncClientHandler`](client::AsyncClientHandler) answers the requests of the server:
///
/// ```no_run
/// use std::time::Duration;
///
/// use mcp_smol::mcp_proto::model::{ElicitParams, ElicitResult};
/// use mcp_smol::mcp_proto::{Capabilities, Capability, client::Config};
/// use mcp_smol::{AsyncClientHandler, Client, Program, RpcError, async_handler};
///
/// struct User;
///
/// impl AsyncClientHandler for User {
///     async fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
///         println!("{params:?}");
///         async_io::Timer::after(Duration::from_secs(5)).await; // calls, pings and timeouts continue
///         Ok(ElicitResult::decline())
///     }
/// }
///
/// # mcp_smol::block_on(async {
/// let config = Config::new("my-app", "1.0").capabilities(Capabilities::new().with(Capability::ElicitationForm));
/// let client = Client::options(config).handler(async_handler(User)).spawn(Program::new("my-server")).await?;
/// # Ok::<(), mcp_smol::Error>(())
/// # })?;
/// # Ok::<(), mcp_smol::Error>(())
/// ```
/// Its methods are those of [`generic::Client`](crate::generic::Client) and [`AsyncCalls`](crate::AsyncCalls).
pub type Client = client::Client<Smol>;

/// Options of a [`Client`] before it connects.
pub type Options = mcp_runtime::client::Options<Client>;

/// A client that is connecting. Dropping it shuts down a server process that was started for it.
pub type Connecting<'a> = client::Connecting<'a, Smol>;

/// A call that was started. Await it, or pass it to [`Client::wait`](client::Client::wait), to get its result.
pub type PendingCall = client::PendingCall<Smol>;

/// Future that drives a connection to its end; see [`Client::run`](client::Client::run).
pub type Run = client::Run<Smol>;

/// Future that drives a connection to its end, with a handler of its own; see
/// [`Client::run_with`](client::Client::run_with).
pub type RunWith<H> = client::RunWith<Smol, H>;

/// The connection of a [`Client`], shared by its handles and pending calls.
pub type SharedBackend = client::SharedBackend<Smol>;
