//! The client of each adapter behind one trait.

mod asynchronous;
mod blocking;
mod threads;

use core::fmt;
use core::time::Duration;
use std::process::Command;

use mcp_auth::client::Authorizer;
use mcp_blocking::{ClientHandler, Error, Program, Stderr};
use mcp_extensions::skills::{Skill, SkillContent};
use mcp_proto::EntryKind;
use mcp_proto::client::{Config, Peer, SubscriptionKey};
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_smol::Smol;
use mcp_tokio::Tokio;
use serde_json::Value;

/// An adapter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AdapterKind {
    /// `mcp-blocking`.
    Blocking,
    /// `mcp-threads`.
    Threads,
    /// `mcp-smol`.
    Smol,
    /// `mcp-tokio`.
    Tokio,
}

impl AdapterKind {
    /// All adapters.
    pub const ALL: [Self; 4] = [Self::Blocking, Self::Threads, Self::Smol, Self::Tokio];

    /// Returns the name, as `--runtime` takes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Threads => "threads",
            Self::Smol => "smol",
            Self::Tokio => "tokio",
        }
    }

    /// Returns the adapter of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|runtime| runtime.as_str() == name)
    }
}

impl fmt::Display for AdapterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Location of a server.
#[derive(Debug)]
pub enum ServerLocation {
    /// A program to start.
    Process(Command),
    /// A URL to connect to.
    Url(String),
    /// A URL to connect to, with the authorizer that answers its challenges.
    Protected(String, Authorizer),
}

impl ServerLocation {
    /// Returns the program of a command, with its stderr captured for error messages.
    fn program(command: &Command) -> Program {
        Program::new(command.get_program()).args(command.get_args()).stderr(Stderr::Capture)
    }
}

/// Operations that the client of every adapter has.
///
/// # Errors
///
/// Each method returns the errors of the adapter's own client.
#[allow(clippy::missing_errors_doc, reason = "the trait documents the errors")]
pub trait AdapterClient {
    /// Returns the server.
    fn peer(&self) -> &Peer;

    /// Sends a request and passes progress to the callback.
    fn request(
        &mut self,
        method: &str,
        params: &Value,
        on_progress: &mut (dyn FnMut(f64) + Send),
    ) -> Result<Value, Error>;

    /// Calls a tool.
    fn call_tool(&mut self, name: &str, arguments: &Value) -> Result<(), Error>;

    /// Returns all entries of a list, from all pages.
    fn list(&mut self, kind: EntryKind) -> Result<Vec<Value>, Error>;

    /// Reads a file of a skill and verifies it.
    fn read_skill_file(&mut self, skill: &Skill, file: &str) -> Result<SkillContent, Error>;

    /// Calls a tool with progress and cancels the call when `is_due` returns `true`; returns a result that came before.
    fn cancel_call(
        &mut self,
        tool: &str,
        arguments: &Value,
        is_due: &dyn Fn() -> bool,
    ) -> Result<Option<Value>, Error>;

    /// Sets the level from which the server logs.
    fn set_log_level(&mut self, level: LoggingLevel) -> Result<(), Error>;

    /// Subscribes to changes; returns the honoured part of the filter.
    fn subscribe(
        &mut self,
        filter: &SubscriptionFilter,
    ) -> Result<(SubscriptionKey, SubscriptionFilter), Error>;

    /// Ends a subscription.
    fn unsubscribe(&mut self, subscription: SubscriptionKey) -> Result<(), Error>;

    /// Pings the server.
    fn ping(&mut self) -> Result<(), Error>;

    /// Handles what arrives for `time`.
    fn pause(&mut self, time: Duration) -> Result<(), Error>;

    /// Closes the connection; returns whether a child process exited by itself and with success.
    fn close(self: Box<Self>) -> Result<bool, Error>;
}

/// Connects a client without a cache.
///
/// # Errors
///
/// Those of the adapter's client.
pub fn connect(
    runtime: AdapterKind,
    config: Config,
    handler: impl ClientHandler + Send + 'static,
    server: &ServerLocation,
) -> Result<Box<dyn AdapterClient>, Error> {
    match runtime {
        AdapterKind::Blocking => blocking::connect(config, handler, server),
        AdapterKind::Threads => threads::connect(config, handler, server),
        AdapterKind::Smol => asynchronous::connect::<Smol>(config, handler, server),
        AdapterKind::Tokio => asynchronous::connect::<Tokio>(config, handler, server),
    }
}

/// Returns a result as JSON.
fn to_value(result: &mcp_proto::RawJson) -> Value {
    serde_json::from_str(result.as_str()).expect("a result is JSON")
}
