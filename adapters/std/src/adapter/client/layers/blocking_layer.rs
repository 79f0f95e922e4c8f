//! Layers of clients that block.

use alloc::sync::Arc;
use core::fmt;

use mcp_proto::RawJson;

use super::client_request::ClientRequest;
use crate::error::Error;

/// A layer of a client that blocks.
pub type BlockingLayer =
    Arc<dyn Fn(ClientRequest, BlockingClientNext<'_>) -> Result<RawJson, Error> + Send + Sync>;

/// The inside of a layer of a client that blocks: the layers after it, and the call.
///
/// A layer runs it once, several times (to try again), or not at all (to refuse, or to answer from a cache).
#[derive(Clone, Copy)]
pub struct BlockingClientNext<'a> {
    layers: &'a [BlockingLayer],
    call: &'a dyn Fn(ClientRequest) -> Result<RawJson, Error>,
}

impl<'a> BlockingClientNext<'a> {
    pub(in super::super) fn new(
        layers: &'a [BlockingLayer],
        call: &'a dyn Fn(ClientRequest) -> Result<RawJson, Error>,
    ) -> Self {
        Self { layers, call }
    }

    /// Runs the layers inside and makes the call. Returns its result, a JSON object.
    ///
    /// # Errors
    ///
    /// The error of the call, or of a layer.
    pub fn run(&self, request: ClientRequest) -> Result<RawJson, Error> {
        match self.layers.split_first() {
            Some((layer, layers)) => layer(request, BlockingClientNext { layers, call: self.call }),
            None => (self.call)(request),
        }
    }
}

impl fmt::Debug for BlockingClientNext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingClientNext").field("layers", &self.layers.len()).finish_non_exhaustive()
    }
}
