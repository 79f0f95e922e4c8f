//! Our client as tests use it, whatever runtime it is on

mod blocking;
mod smol;
mod threads;

use core::fmt;
use core::time::Duration;
use std::process::Command;

use mcp_blocking::{ClientHandler, Error, Program, Stderr};
use mcp_proto::client::{Config, Kind, Peer, SubscriptionKey};
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use serde_json::Value;

/// What our side runs on
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Runtime {
    /// `mcp-blocking`
    Blocking,
    /// `mcp-threads`
    Threads,
    /// `mcp-smol`
    Smol,
}

impl Runtime {
    /// Every one
    pub const ALL: [Self; 3] = [Self::Blocking, Self::Threads, Self::Smol];

    /// As `--runtime` has it
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Threads => "threads",
            Self::Smol => "smol",
        }
    }

    /// The one of this name
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|runtime| runtime.as_str() == name)
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A server
#[derive(Debug)]
pub enum Where {
    /// A program to start
    Process(Command),
    /// A URL
    Url(String),
}

impl Where {
    /// The program of a command, with the end of its stderr for messages
    fn program(command: &Command) -> Program {
        Program::new(command.get_program()).args(command.get_args()).stderr(Stderr::Capture)
    }
}

/// What a client can do on every runtime
///
/// # Errors
///
/// Each method's are those of the client's own.
#[allow(clippy::missing_errors_doc, reason = "said above")]
pub trait Client {
    /// The server
    fn peer(&self) -> &Peer;

    /// Makes a request; progress comes to the callback.
    fn request(
        &mut self,
        method: &str,
        params: &Value,
        on_progress: &mut (dyn FnMut(f64) + Send),
    ) -> Result<Value, Error>;

    /// Calls a tool.
    fn call_tool(&mut self, name: &str, arguments: &Value) -> Result<(), Error>;

    /// All entries of a list, from all of its pages
    fn list(&mut self, kind: Kind) -> Result<Vec<Value>, Error>;

    /// Calls a tool with progress, and gives the call up as soon as it is time to; the result if that came before
    fn give_up(
        &mut self,
        tool: &str,
        arguments: &Value,
        is_time: &dyn Fn() -> bool,
    ) -> Result<Option<Value>, Error>;

    /// Says from which level on the server is to log.
    fn set_log_level(&mut self, level: LoggingLevel) -> Result<(), Error>;

    /// Asks to be told of changes; what of it the server honours
    fn subscribe(
        &mut self,
        filter: &SubscriptionFilter,
    ) -> Result<(SubscriptionKey, SubscriptionFilter), Error>;

    /// Gives a subscription up.
    fn unsubscribe(&mut self, subscription: SubscriptionKey) -> Result<(), Error>;

    /// Asks whether the server is alive.
    fn ping(&mut self) -> Result<(), Error>;

    /// Lets come what comes, for this long.
    fn pause(&mut self, time: Duration) -> Result<(), Error>;

    /// Ends the connection; whether the server, if it is a process of this client's, ended by itself and well
    fn close(self: Box<Self>) -> Result<bool, Error>;
}

/// Connects a client that keeps nothing.
///
/// # Errors
///
/// As the client of the runtime.
pub fn connect(
    runtime: Runtime,
    config: Config,
    handler: impl ClientHandler + Send + 'static,
    server: &Where,
) -> Result<Box<dyn Client>, Error> {
    match runtime {
        Runtime::Blocking => blocking::connect(config, handler, server),
        Runtime::Threads => threads::connect(config, handler, server),
        Runtime::Smol => smol::connect(config, handler, server),
    }
}

/// A result as JSON
fn read(result: &mcp_proto::RawJson) -> Value {
    serde_json::from_str(result.as_str()).expect("a result is JSON")
}
