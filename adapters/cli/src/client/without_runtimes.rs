//! Stands in for `runtimes` in a program without that feature.

use core::time::Duration;

use mcp_blocking::{ClientHandler, Error};
#[cfg(feature = "events")]
use mcp_events::client::Error as EventsError;
use mcp_proto::client::{Config, Peer};
use mcp_proto::{CallOptions, RawJson};
use mcp_std::process::ShutdownTimeouts;
use serde::Serialize;

use crate::args::Runtime;
use crate::failure::CommandFailure;
use crate::features::Feature;
use crate::server::ServerSpec;

/// A client of an adapter that this program does not have.
pub(crate) enum RuntimeClient {}

pub(crate) enum RuntimeCall {}

macro_rules! with_runtime_client {
    ($self:ident, $client:ident => $call:expr) => {
        $self.never()
    };
}
pub(super) use with_runtime_client;

impl RuntimeClient {
    pub(super) fn open(
        _: Runtime,
        _: &ServerSpec<'_>,
        _: Config,
        _: impl ClientHandler + Send + 'static,
        _: ShutdownTimeouts,
    ) -> Result<Result<Self, Error>, CommandFailure> {
        Err(Feature::Runtimes.missing("--runtime"))
    }

    pub(super) const fn never(&self) -> ! {
        match *self {}
    }

    pub(super) const fn peer(&self) -> &Peer {
        self.never()
    }

    pub(super) const fn start_tool<T: Serialize>(
        &mut self,
        _: &str,
        _: &T,
        _: &CallOptions,
    ) -> Result<RuntimeCall, Error> {
        self.never()
    }

    pub(super) const fn start<T: Serialize>(
        &mut self,
        _: &str,
        _: &T,
        _: &CallOptions,
    ) -> Result<RuntimeCall, Error> {
        self.never()
    }

    pub(super) const fn wait_timeout(
        &mut self,
        _: &mut RuntimeCall,
        _: Duration,
    ) -> Result<Option<RawJson>, Error> {
        self.never()
    }

    pub(super) const fn wait(&mut self, _: RuntimeCall) -> Result<RawJson, Error> {
        self.never()
    }

    pub(super) const fn cancel(&mut self, _: RuntimeCall, _: &str) -> Result<(), Error> {
        self.never()
    }

    #[cfg(feature = "events")]
    pub(super) fn run<O: super::ClientOperation>(&self, _: O) -> Result<O::Value, EventsError> {
        self.never()
    }

    pub(super) const fn poll(&mut self, _: Duration) -> Result<(), Error> {
        self.never()
    }
}
