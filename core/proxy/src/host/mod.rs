//! The event loops of a bridge and of a gateway on `std` (feature `host`): what a program needs to embed one.
//!
//! A [`Gateway`] shows several servers as one, a [`Bridge`] stands in for one server. Each serves a client on a byte stream, those of a
//! [socket](Socket), or any number over [HTTP](Http), on the thread that calls it; servers are started and ended on threads of their own.
//!
//! ```no_run
//! use mcp_proto::http::{client, server};
//! use mcp_proto_proxy::host::{Gateway, Http, Notice, Options, Stop, Upstream};
//! use mcp_std::process::Program;
//!
//! let options = Options::new(|notice: &Notice<'_>| eprintln!("{notice}"));
//! let mut gateway = Gateway::new("tools", "1.0", options);
//! gateway.server("files", Upstream::program(Program::new("my-files")))?;
//! let search = client::Config::new("https://search.example.com/mcp")?.field("x-api-key", b"secret")?;
//! gateway.server("search", Upstream::http(search))?;
//! let http = Http::bind("127.0.0.1:8080", server::Config::new())?;
//! gateway.serve_http(http, &Stop::new()?)?;
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! | type | what a program says with it |
//! |---|---|
//! | [`Options`] | revisions and limits of the side that faces clients, search, idle servers |
//! | [`Operator`] | where [notices](Notice) go, and which servers there are from now on |
//! | [`Connect`] | how a server is connected to: [`Upstream`], or one of the program's own |
//! | [`Server`], [`Rules`] | what of a server clients see and use, and its calls in flight |
//! | [`Stop`] | the end, from any thread, for example one of `mcp_std::process::on_terminate` |
//!
//! A bridge connects with the identity of its client, a gateway on a byte stream too. Servers that several clients share see one client
//! that can be [asked questions only](ClientIdentity::shared). A server that dies is started again, after a delay of up to a minute if
//! it dies at once.

mod bridge;
mod client;
mod downstream;
mod front;
mod gateway;
mod health;
mod http;
mod notice;
mod rules;
mod slot;
#[cfg(unix)]
mod socket;
mod stop;
#[cfg(test)]
mod tests;
mod upstream;
mod uri_forms;

use alloc::sync::Arc;
use core::time::Duration;
use std::io;

use mcp_proto::server::Config;
use mcp_proto::{Limits, VersionSet};

use crate::server_limits;

pub use bridge::{Bridge, ConnectedBridge};
pub use client::ClientIdentity;
pub use gateway::{Gateway, Server};
pub use health::HEALTH_PATH;
pub use http::Http;
pub use notice::{Lost, Notice, Operator};
pub use rules::{Pattern, Patterns, Rules};
#[cfg(unix)]
pub use socket::Socket;
pub use stop::Stop;
pub use upstream::{Connect, ConnectError, Connection, PROGRAM_FAILED, UNREACHABLE, Upstream};

/// Options of a proxy.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The revisions that clients may speak; all by default.
    pub versions: VersionSet,
    /// Limits of the side that faces clients.
    pub limits: Limits,
    /// Names of members whose values are hidden in [`Notice::Message`], at any depth.
    pub hidden: Vec<String>,
    /// Whether two tools stand for all: `search` finds tools, and `call` calls one. By default they do not.
    pub search: bool,
    /// Time after which a server that no client has used is ended, until one needs it again. Sessions over HTTP end after it, too. By
    /// default no server is ended.
    pub idle_timeout: Option<Duration>,
    operator: Arc<dyn Operator>,
}

impl Options {
    /// Creates the default options, with what hears of what happens.
    #[must_use]
    pub fn new(operator: impl Operator + 'static) -> Self {
        Self {
            versions: VersionSet::ALL,
            limits: Limits::default(),
            hidden: Vec::new(),
            search: false,
            idle_timeout: None,
            operator: Arc::new(operator),
        }
    }

    fn front_limits(&self) -> Limits {
        server_limits(self.limits.clone())
    }

    fn with_hidden(&self, config: Config) -> Config {
        self.hidden.iter().fold(config, |config, member| config.redact_in_tap(member))
    }
}

/// Why a proxy ended, or did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server of a bridge cannot be connected to at first.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// stdin and stdout cannot be used.
    #[error("stdin and stdout cannot be used: {0}")]
    Stdio(#[source] io::Error),
    /// The only client cannot be read from.
    #[error("the client cannot be read from: {0}")]
    Client(#[source] io::Error),
    /// The system refuses what HTTP needs.
    #[error("HTTP cannot be served: {0}")]
    Http(#[source] io::Error),
    /// The loop broke.
    #[error("the proxy stopped: {0}")]
    Stopped(#[source] io::Error),
}
