//! Servers under test: our client and their handler in one thread, in memory, on virtual time
//!
//! ```
//! use std::time::Duration;
//! use mcp_blocking::{Router, testing};
//! use mcp_proto::{CallOptions, RawJson, model::Tool};
//!
//! let mut router = Router::new("harbour", "1.0");
//! let schema = RawJson::new(r#"{"type":"object"}"#).unwrap();
//! router.tool_with(Tool::new("tide", schema), |cx, _: serde_json::Value| {
//!     cx.sleep(Duration::from_secs(50 * 60))?; // returns at once
//!     Ok::<_, mcp_proto::RpcError>("high")
//! });
//!
//! let mut client = testing::pair(router)?;
//! let begun = client.now();
//! let hour = Duration::from_secs(60 * 60);
//! let options = CallOptions::new().timeout(hour).total(hour);
//! let result = client.call_tool_with("tide", &serde_json::json!({}), &options, &mut |_| {})?;
//! assert_eq!(result.content[0].as_text(), Some("high"));
//! assert!(client.now() >= begun + Duration::from_secs(50 * 60));
//! # Ok::<(), mcp_blocking::Error>(())
//! ```
//!
//! The [`Client`] is the ordinary one, and so is everything that the two say to each other. Time is not: it passes only
//! where something is waited for, and then at once, to the next deadline. What a handler sleeps costs nothing, time-outs,
//! limits of rates and cancellations come as they would, and a test is over in microseconds and the same each time.
//! [`Client::now`] says how late it is.
//!
//! Routers of `mcp-threads` and `mcp-smol` are tested in the same way: [`pair`] takes any of them. Those programs need
//! `mcp-blocking` for their tests alone.
//!
//! # What differs
//!
//! - There is one thread. A handler runs when the client waits for something, to its end: what the client does of itself
//!   meanwhile (time-outs, answers to pings) comes in time, what its callbacks are told comes afterwards. To cancel a call
//!   while its handler runs, give it a time-out. (Handlers of `mcp-smol` run at the same time, and their calls can be
//!   cancelled as ever: see `mcp_smol::testing`.)
//! - A handler that computes for an hour takes no time; one that looks at the clock takes a microsecond for each look.
//! - [`Client::ping`] measures real time.
//! - Such a client works on the thread that made it: on another one its calls fail.

use alloc::boxed::Box;
use core::fmt;

use mcp_proto::client;
use mcp_proto::server::Config;
use mcp_std::Error;
use mcp_std::client::{Actor, OnTheSpot, OpensStream, Rehearsal, Rehearse, Setup};
use mcp_std::serve::Handler;

use crate::{Client, Options};

/// A client of a router, which speaks the newest revision that both know
///
/// # Errors
///
/// [`Error::Register`] when something could not be registered; [`Error::Closed`] when they do not agree.
pub fn pair(router: impl Rehearse) -> Result<Client, Error> {
    let config = client::Config::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    pair_with(Client::options(config), router)
}

/// The same with a handler for what the server asks, another revision and whatever else [`Options`] say
///
/// ```
/// # use mcp_blocking::{Client, Router, testing};
/// use mcp_proto::{VersionSet, client::Config};
///
/// let legacy = Config::new("test", "1.0").versions(VersionSet::LEGACY);
/// let client = testing::pair_with(Client::options(legacy), Router::new("harbour", "1.0"))?;
/// assert_eq!(client.peer().version.to_string(), "2025-11-25");
/// # Ok::<(), mcp_blocking::Error>(())
/// ```
///
/// # Errors
///
/// As [`pair`].
pub fn pair_with(options: Options, router: impl Rehearse) -> Result<Client, Error> {
    let (config, actor) = router.rehearse()?;
    options.connect(Server { config, actor })
}

/// A server in memory, for any [`Handler`]: what [`Options::connect`] takes for a stream
pub struct Server {
    config: Config,
    actor: Box<dyn Actor>,
}

impl Server {
    /// A server that nobody is connected to
    pub fn new(config: Config, handler: impl Handler + 'static) -> Self {
        Self::of(config, Box::new(OnTheSpot(handler)))
    }

    /// The same for handlers of another adapter: `mcp_threads::testing::actor`, `mcp_smol::testing::actor`
    #[must_use]
    pub fn of(config: Config, actor: Box<dyn Actor>) -> Self {
        Self { config, actor }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("config", &self.config).finish_non_exhaustive()
    }
}

impl OpensStream<Server> for Client {
    fn open_stream(setup: Setup, server: Server) -> Self::Opening<'static> {
        let wire = Rehearsal::new(setup.config.clone(), server.config, server.actor);
        setup.open_wire(Box::new(wire)).map(Self::from)
    }
}
