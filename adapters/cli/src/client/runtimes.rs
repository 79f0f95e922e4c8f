//! A client of an adapter other than `mcp-blocking`.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use mcp_blocking::{ClientHandler, Error};
#[cfg(feature = "events")]
use mcp_events::client::Error as EventsError;
use mcp_proto::client::{Config, Peer};
use mcp_proto::{CallOptions, RawJson, UseError};
use mcp_runtime::client::Options;
use mcp_std::process::ShutdownTimeouts;
use serde::Serialize;
use smol::block_on;

use crate::args::Runtime;
use crate::failure::CommandFailure;
use crate::server::ServerSpec;
use crate::tokio_runtime;

pub(crate) enum RuntimeClient {
    Threads(mcp_threads::Client),
    Smol(mcp_smol::Client),
    Tokio(mcp_tokio::Client),
}

/// A call that has been started.
pub(crate) enum RuntimeCall {
    Threads(mcp_threads::PendingCall),
    Smol(mcp_smol::PendingCall),
    Tokio(mcp_tokio::PendingCall),
}

/// Evaluates an expression with the client of whichever adapter is in use, and waits for it.
macro_rules! with_runtime_client {
    ($self:ident, $client:ident => $call:expr) => {
        match $self {
            RuntimeClient::Threads($client) => $call,
            RuntimeClient::Smol($client) => smol::block_on($call),
            RuntimeClient::Tokio($client) => crate::tokio_runtime::block_on($call),
        }
    };
}
pub(super) use with_runtime_client;

impl RuntimeClient {
    /// See [`Client::open()`](super::Client::open).
    pub(super) fn open(
        runtime: Runtime,
        spec: &ServerSpec<'_>,
        config: Config,
        handler: impl ClientHandler + Send + 'static,
        timeouts: ShutdownTimeouts,
    ) -> Result<Result<Self, Error>, CommandFailure> {
        Ok(match runtime {
            // `mcp-blocking` has a variant of its own in `Client`.
            Runtime::Blocking | Runtime::Threads => {
                let options =
                    Options::<mcp_threads::Client>::new(config).handler(handler).shutdown_timeouts(timeouts);
                spec.connect(options)?.map(Self::Threads)
            }
            Runtime::Smol => {
                let options =
                    Options::<mcp_smol::Client>::new(config).handler(handler).shutdown_timeouts(timeouts);
                spec.connect_by(options, block_on)?.map(Self::Smol)
            }
            Runtime::Tokio => {
                let options =
                    Options::<mcp_tokio::Client>::new(config).handler(handler).shutdown_timeouts(timeouts);
                spec.connect_by(options, tokio_runtime::block_on)?.map(Self::Tokio)
            }
        })
    }

    pub(super) fn peer(&self) -> &Peer {
        match self {
            Self::Threads(client) => client.peer(),
            Self::Smol(client) => client.peer(),
            Self::Tokio(client) => client.peer(),
        }
    }

    pub(super) fn start_tool<T: Serialize>(
        &mut self,
        name: &str,
        arguments: &T,
        options: &CallOptions,
    ) -> Result<RuntimeCall, Error> {
        Ok(match self {
            Self::Threads(client) => RuntimeCall::Threads(client.start_tool(name, arguments, options)?),
            Self::Smol(client) => RuntimeCall::Smol(client.start_tool(name, arguments, options)?),
            Self::Tokio(client) => RuntimeCall::Tokio(client.start_tool(name, arguments, options)?),
        })
    }

    pub(super) fn start<T: Serialize>(
        &mut self,
        method: &str,
        params: &T,
        options: &CallOptions,
    ) -> Result<RuntimeCall, Error> {
        Ok(match self {
            Self::Threads(client) => RuntimeCall::Threads(client.start(method, params, options)?),
            Self::Smol(client) => RuntimeCall::Smol(client.start(method, params, options)?),
            Self::Tokio(client) => RuntimeCall::Tokio(client.start(method, params, options)?),
        })
    }

    pub(super) fn wait_timeout(
        &mut self,
        call: &mut RuntimeCall,
        timeout: Duration,
    ) -> Result<Option<RawJson>, Error> {
        match (self, call) {
            (Self::Threads(client), RuntimeCall::Threads(call)) => client.wait_timeout(call, timeout),
            (Self::Smol(client), RuntimeCall::Smol(call)) => block_on(client.wait_timeout(call, timeout)),
            (Self::Tokio(client), RuntimeCall::Tokio(call)) => {
                tokio_runtime::block_on(client.wait_timeout(call, timeout))
            }
            _ => Err(Error::Use(UseError::Stale)),
        }
    }

    pub(super) fn wait(&mut self, call: RuntimeCall) -> Result<RawJson, Error> {
        match (self, call) {
            (Self::Threads(client), RuntimeCall::Threads(call)) => client.wait(call),
            (Self::Smol(client), RuntimeCall::Smol(call)) => block_on(client.wait(call)),
            (Self::Tokio(client), RuntimeCall::Tokio(call)) => tokio_runtime::block_on(client.wait(call)),
            _ => Err(Error::Use(UseError::Stale)),
        }
    }

    pub(super) fn cancel(&mut self, call: RuntimeCall, reason: &str) -> Result<(), Error> {
        match (self, call) {
            (Self::Threads(client), RuntimeCall::Threads(call)) => client.cancel(call, Some(reason)),
            (Self::Smol(client), RuntimeCall::Smol(call)) => client.cancel(call, Some(reason)),
            (Self::Tokio(client), RuntimeCall::Tokio(call)) => client.cancel(call, Some(reason)),
            _ => Err(Error::Use(UseError::Stale)),
        }
    }

    /// See [`Client::run()`](super::Client::run).
    #[cfg(feature = "events")]
    pub(super) fn run<O: super::ClientOperation>(&self, operation: O) -> Result<O::Value, EventsError> {
        match self {
            Self::Threads(client) => client.block_on(operation.run(client.as_async())),
            Self::Smol(client) => block_on(operation.run(client)),
            Self::Tokio(client) => tokio_runtime::block_on(operation.run(client)),
        }
    }

    pub(super) fn poll(&mut self, timeout: Duration) -> Result<(), Error> {
        match self {
            Self::Threads(client) => {
                // Callbacks run on a thread of their own; only the end of the connection is left to detect.
                let until = Instant::now() + timeout;
                loop {
                    client.check_open()?;
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(());
                    }
                    thread::sleep(left.min(POLL_INTERVAL));
                }
            }
            Self::Smol(client) => block_on(client.poll(timeout)).map(drop),
            Self::Tokio(client) => tokio_runtime::block_on(client.poll(timeout)).map(drop),
        }
    }
}

/// Interval at which the end of a connection is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
