//! The client of any adapter, for commands that wait for what they ask

use core::time::Duration;
use std::thread;
use std::time::Instant;

use mcp_blocking::{ClientHandler, Error};
use mcp_proto::client::{Config, Kind, Peer, SubscriptionKey};
use mcp_proto::model::{LoggingLevel, Prompt, SubscriptionFilter};
use mcp_proto::{CallOptions, Progress, RawJson};
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

/// How often it is looked whether a connection is over
const LOOK: Duration = Duration::from_millis(20);
