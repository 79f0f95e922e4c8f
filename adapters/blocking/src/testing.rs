//! Tests of servers: a client and a handler in one thread, in memory, on virtual time.
//!
//! ```
//! use std::time::Duration;
//! use mcp_blocking::mcp_proto::{CallOptions, RawJson, model::Tool};
//! use mcp_blocking::{Router, ok, testing};
//!
//! let mut router = Router::new("harbour", "1.0");
//! let schema = RawJson::new(r#"{"type":"object"}"#).unwrap();
//! router.tool_with(Tool::new("tide", schema), |cx, _: serde_json::Value| {
//!     cx.sleep(Duration::from_secs(50 * 60))?; // returns immediately
//!     ok("high")
//! });
//!
//! let mut client = testing::pair(router, Default::default())?;
//! let start = client.now();
//! let hour = Duration::from_secs(60 * 60);
//! let options = CallOptions::new().timeout(hour).total_timeout(hour);
//! let result = client.call_tool_with("tide", &serde_json::json!({}), &options, &mut |_| {})?;
//! assert_eq!(result.content[0].as_text(), Some("high"));
//! assert!(client.now() >= start + Duration::from_secs(50 * 60));
//! # Ok::<(), mcp_blocking::Error>(())
//! ```
//!
//! The [`Client`] and the messages are the same as in production. Only time is virtual: it advances when something
//! waits, directly to the next deadline. A sleeping handler costs no real time. Timeouts, rate limits and cancellations
//! occur as they would in production. Tests take microseconds and are deterministic. [`Client::now`] returns the
//! virtual time.
//!
//! [`pair`] also takes routers of `mcp-threads`, `mcp-smol` and `mcp-tokio`. Such programs need `mcp-blocking` as a dev-dependency
//! only.
//!
//! # Differences from production
//!
//! - There is one thread. A handler runs to its end while the client waits. Meanwhile the client's own timeouts and
//!   answers to pings occur on time, but its callbacks run afterwards. To cancel a call while its handler runs, give
//!   the call a timeout. (Handlers of `mcp-smol` and `mcp-tokio` run concurrently, and their calls can be cancelled as usual: see
//!   `mcp_smol::testing`.)
//! - Computation takes no virtual time. Each look at the clock takes one microsecond.
//! - [`Client::ping`](crate::BlockingCalls::ping) measures real time.
//! - The client must stay on the thread that created it. On another thread its calls fail.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use mcp_proto::server::{Authorization, Config, Identity};
use mcp_runtime::Error;
use mcp_runtime::client::{ClientSetup, Inline, StreamConnector, TestConnection, TestPeer, TestServer};
use mcp_runtime::server::Handler;

use crate::{Client, Options};

/// Connects a client with these [`Options`] (handler, revisions, limits) to a router. They use the newest revision that
/// both support.
///
/// ```
/// # use mcp_blocking::{Client, Router, mcp_proto, testing};
/// use mcp_proto::{VersionSet, client::Config};
///
/// let client = testing::pair(Router::new("harbour", "1.0"), Default::default())?;
/// assert_eq!(client.peer().version.to_string(), "2026-07-28");
///
/// let legacy = Config::new("test", "1.0").versions(VersionSet::LEGACY);
/// let client = testing::pair(Router::new("harbour", "1.0"), Client::options(legacy))?;
/// assert_eq!(client.peer().version.to_string(), "2025-11-25");
/// # Ok::<(), mcp_blocking::Error>(())
/// ```
///
/// Tools that run as tasks take virtual time like any other: no poll waits. A call follows its task unseen, and a task
/// that was started is waited for by its handle.
///
/// ```
/// # use std::time::Duration;
/// # use mcp_blocking::mcp_proto::{RawJson, client::{Config, StartedTask}, model::{TaskSupport, Tool}};
/// # use mcp_blocking::{Client, Router, ServerTasks, ok, testing};
/// let mut router = Router::new("yard", "1.0");
/// router.tasks(ServerTasks::new());
/// let schema = RawJson::new(r#"{"type":"object"}"#).unwrap();
/// router.tool_with(Tool::new("build", schema), |cx, _: serde_json::Value| {
///     cx.sleep(Duration::from_secs(50 * 60))?;
///     ok("a boat")
/// });
/// router.core().tool_entry("build").task_support(TaskSupport::Required);
///
/// let client = testing::pair(router, Client::options(Config::new("test", "1.0").tasks()))?;
/// let result = client.call_tool("build", &serde_json::json!({}))?;
/// assert_eq!(result.content[0].as_text(), Some("a boat"));
///
/// let started = client.start_task("build", &serde_json::json!({}), None)?;
/// let StartedTask::Task(task) = started else { panic!("no task") };
/// let text = task.to_text(); // for another process
/// let result = client.wait_task(&client.resume_task(&text)?)?;
/// assert_eq!(result.content[0].as_text(), Some("a boat"));
/// # Ok::<(), mcp_blocking::Error>(())
/// ```
///
/// # Errors
///
/// - [`Error::Register`] if an entry of the router could not be registered.
/// - [`Error::Closed`] if client and server have no revision in common.
pub fn pair(router: impl TestServer, options: Options) -> Result<Client, Error> {
    let (config, peer) = router.into_test_peer()?;
    options.connect(Server::from_peer(config, peer))
}

/// Connects a client as [`pair`] does, on behalf of an authenticated caller: the [`Identity`] that a validator of tokens or a
/// login layer would have set. Its principal, scopes and values are those that visibility functions, layers and handlers see.
///
/// ```
/// use mcp_blocking::mcp_proto::{RawJson, model::Tool, server::Identity};
/// use mcp_blocking::{Error, Router, mcp_proto::EntryKind, testing};
///
/// fn router() -> Router {
///     let mut router = Router::new("admin", "1.0");
///     let any = RawJson::new(r#"{"type":"object"}"#).unwrap();
///     router.tool_with(Tool::new("block", any), |_, _: serde_json::Value| "blocked");
///     router.visible_to(EntryKind::Tool, "block", |caller| caller.principal() == Some("root"));
///     router
/// }
///
/// let root = testing::pair_as(router(), Default::default(), Identity::new("root"))?;
/// assert_eq!(root.call_tool("block", &serde_json::json!({}))?.content[0].as_text(), Some("blocked"));
///
/// let alice = testing::pair_as(router(), Default::default(), Identity::new("alice"))?;
/// assert!(alice.list_tools()?.is_empty());
/// assert!(alice.call_tool("block", &serde_json::json!({})).is_err());
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
///
/// As [`pair`].
pub fn pair_as(
    router: impl TestServer,
    options: Options,
    identity: impl Into<Arc<Identity>>,
) -> Result<Client, Error> {
    let (config, peer) = router.into_test_peer()?;
    options.connect(Server::from_peer(config, peer).identity(identity))
}

/// An in-memory server for any [`Handler`], which [`Options::connect`] accepts as a stream.
pub struct Server {
    config: Config,
    peer: Box<dyn TestPeer>,
    authorization: Option<Authorization>,
}

impl Server {
    /// Creates a server without a connection.
    pub fn new(config: Config, handler: impl Handler + 'static) -> Self {
        Self::from_peer(config, Box::new(Inline(handler)))
    }

    /// Creates a server with a test peer of another adapter: `mcp_threads::testing::test_peer`,
    /// `mcp_smol::testing::test_peer`.
    #[must_use]
    pub fn from_peer(config: Config, peer: Box<dyn TestPeer>) -> Self {
        Self { config, peer, authorization: None }
    }

    /// Sets the authenticated caller on whose behalf the client calls; see [`pair_as`].
    #[must_use]
    pub fn identity(mut self, identity: impl Into<Arc<Identity>>) -> Self {
        self.authorization = Some(Authorization::new(identity));
        self
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("config", &self.config).finish_non_exhaustive()
    }
}

impl StreamConnector<Server> for Client {
    fn open_stream(setup: ClientSetup, server: Server) -> Self::Connecting<'static> {
        let mut transport = TestConnection::new(setup.engine_config()?, server.config, server.peer);
        if let Some(authorization) = server.authorization {
            transport.set_authorization(authorization);
        }
        setup.open_transport(Box::new(transport)).map(Self::from)
    }
}
