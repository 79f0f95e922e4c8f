//! The client of any adapter, for commands that wait for what they ask

use core::time::Duration;
use std::thread;
use std::time::Instant;

use mcp_blocking::{ClientHandler, Error};
use mcp_proto::client::{Config, Kind, Peer, SubscriptionKey};
use mcp_proto::model::{CallToolResult, LoggingLevel, Prompt, ReadResourceResult, SubscriptionFilter, Tool};
use mcp_proto::{CallKey, CallOptions, Progress, RawJson, UseError};
use mcp_smol::block_on;
use mcp_std::child::{Ended, Patience};
use mcp_std::client::Options;
use serde::Serialize;

use crate::args::Runtime;
use crate::failure::Failure;
use crate::session::Way;

/// A connection to a server, on the runtime that was named
pub(crate) enum Client {
    Blocking(Box<mcp_blocking::Client>),
    Threads(mcp_threads::Client),
    Smol(mcp_smol::Client),
}

/// The same of whichever it is
macro_rules! on {
    ($self:ident, $client:ident => $call:expr) => {
        match $self {
            Client::Blocking($client) => $call,
            Client::Threads($client) => $call,
            Client::Smol($client) => block_on($call),
        }
    };
}

impl Client {
    /// Starts the server or connects to it; what is wrong with the command line is said first
    pub(crate) fn open(
        runtime: Runtime,
        way: &Way<'_>,
        config: Config,
        handler: impl ClientHandler + Send + 'static,
        patience: Patience,
    ) -> Result<Result<Self, Error>, Failure> {
        Ok(match runtime {
            Runtime::Blocking => {
                let options =
                    Options::<mcp_blocking::Client>::new(config).handler(handler).patience(patience);
                way.connect(options)?.map(|client| Self::Blocking(Box::new(client)))
            }
            Runtime::Threads => {
                let options = Options::<mcp_threads::Client>::new(config).handler(handler).patience(patience);
                way.connect(options)?.map(Self::Threads)
            }
            Runtime::Smol => {
                let options = Options::<mcp_smol::Client>::new(config).handler(handler).patience(patience);
                block_on(way.open(options)?).map(Self::Smol)
            }
        })
    }

    pub(crate) fn peer(&self) -> &Peer {
        match self {
            Self::Blocking(client) => client.peer(),
            Self::Threads(client) => client.peer(),
            Self::Smol(client) => client.peer(),
        }
    }

    /// The result of a request as it came
    pub(crate) fn request<T: Serialize>(
        &mut self,
        method: &str,
        params: &T,
        options: &CallOptions,
        on_progress: &mut (dyn FnMut(&Progress) + Send),
    ) -> Result<RawJson, Error> {
        on!(self, client => client.request_with(method, params, options, on_progress))
    }

    /// The result of a tool as it came
    pub(crate) fn tool(
        &mut self,
        name: &str,
        arguments: &RawJson,
        options: &CallOptions,
        on_progress: &mut (dyn FnMut(&Progress) + Send),
    ) -> Result<RawJson, Error> {
        match self {
            Self::Blocking(client) => {
                let call = client.start_tool(name, arguments, options)?;
                client.wait_with(call, on_progress)
            }
            Self::Threads(client) => {
                client.wait_with(client.start_tool(name, arguments, options)?, on_progress)
            }
            Self::Smol(client) => {
                let call = client.start_tool(name, arguments, options)?;
                block_on(client.wait_with(call, on_progress))
            }
        }
    }

    pub(crate) fn call_tool<T: Serialize>(
        &mut self,
        name: &str,
        arguments: &T,
    ) -> Result<CallToolResult<'static>, Error> {
        on!(self, client => client.call_tool(name, arguments))
    }

    pub(crate) fn call_tool_with<T: Serialize>(
        &mut self,
        name: &str,
        arguments: &T,
        options: &CallOptions,
        on_progress: &mut (dyn FnMut(&Progress) + Send),
    ) -> Result<CallToolResult<'static>, Error> {
        on!(self, client => client.call_tool_with(name, arguments, options, on_progress))
    }

    /// Begins a call
    pub(crate) fn start_tool<T: Serialize>(
        &mut self,
        name: &str,
        arguments: &T,
        options: &CallOptions,
    ) -> Result<Pending, Error> {
        Ok(match self {
            Self::Blocking(client) => Pending::Blocking(client.start_tool(name, arguments, options)?),
            Self::Threads(client) => Pending::Threads(client.start_tool(name, arguments, options)?),
            Self::Smol(client) => Pending::Smol(client.start_tool(name, arguments, options)?),
        })
    }

    pub(crate) fn wait(&mut self, call: Pending) -> Result<RawJson, Error> {
        match (self, call) {
            (Self::Blocking(client), Pending::Blocking(call)) => client.wait(call),
            (Self::Threads(client), Pending::Threads(call)) => client.wait(call),
            (Self::Smol(client), Pending::Smol(call)) => block_on(client.wait(call)),
            _ => Err(Error::Use(UseError::Stale)),
        }
    }

    pub(crate) fn cancel(&mut self, call: Pending, reason: &str) -> Result<(), Error> {
        match (self, call) {
            (Self::Blocking(client), Pending::Blocking(call)) => client.cancel(call, Some(reason)),
            (Self::Threads(client), Pending::Threads(call)) => client.cancel(call, Some(reason)),
            (Self::Smol(client), Pending::Smol(call)) => client.cancel(call, Some(reason)),
            _ => Err(Error::Use(UseError::Stale)),
        }
    }

    pub(crate) fn list_tools(&mut self) -> Result<Vec<Tool>, Error> {
        on!(self, client => client.list_tools())
    }

    pub(crate) fn read_resource(&mut self, uri: &str) -> Result<ReadResourceResult<'static>, Error> {
        on!(self, client => client.read_resource(uri))
    }

    pub(crate) fn list(&mut self, kind: Kind) -> Result<Vec<RawJson>, Error> {
        on!(self, client => client.list(kind))
    }

    pub(crate) fn list_prompts(&mut self) -> Result<Vec<Prompt>, Error> {
        on!(self, client => client.list_prompts())
    }

    pub(crate) fn ping(&mut self) -> Result<Duration, Error> {
        on!(self, client => client.ping())
    }

    pub(crate) fn subscribe(
        &mut self,
        filter: &SubscriptionFilter,
    ) -> Result<(SubscriptionKey, SubscriptionFilter), Error> {
        on!(self, client => client.subscribe(filter))
    }

    pub(crate) fn unsubscribe(&mut self, subscription: SubscriptionKey) -> Result<(), Error> {
        on!(self, client => client.unsubscribe(subscription))
    }

    pub(crate) fn set_log_level(&mut self, level: LoggingLevel) -> Result<(), Error> {
        on!(self, client => client.set_log_level(Some(level)))
    }

    /// Lets callbacks handle what comes, for at most `timeout`
    pub(crate) fn poll(&mut self, timeout: Duration) -> Result<(), Error> {
        match self {
            Self::Blocking(client) => client.poll(timeout).map(drop),
            Self::Threads(client) => {
                // They run on a thread of their own; what is left to see is the end.
                let until = Instant::now() + timeout;
                loop {
                    client.check_open()?;
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(());
                    }
                    thread::sleep(left.min(LOOK));
                }
            }
            Self::Smol(client) => block_on(client.poll(timeout)).map(drop),
        }
    }

    pub(crate) fn close(self) -> Result<Option<Ended>, Error> {
        on!(self, client => client.close())
    }
}

/// A call that was begun
pub(crate) enum Pending {
    Blocking(CallKey),
    Threads(mcp_threads::Pending),
    Smol(mcp_smol::Pending),
}

/// How often it is looked whether a connection is over
const LOOK: Duration = Duration::from_millis(20);
