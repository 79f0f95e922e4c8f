//! Layers: code around the requests of a client.

mod async_layer;
mod blocking_layer;
mod call_port;
mod client_request;
mod retry;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

pub(super) use async_layer::run_async;
pub use async_layer::{AsyncLayer, ClientNext, LayerFuture};
pub use blocking_layer::{BlockingClientNext, BlockingLayer};
pub use client_request::ClientRequest;
pub(super) use client_request::RequestKind;
pub use retry::Retry;

/// The layers of a client, from the outermost to the innermost.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Layers {
    /// No layers: requests go to the connection.
    #[default]
    None,
    /// Layers of a client that blocks.
    Blocking(Arc<[BlockingLayer]>),
    /// Layers of an asynchronous client.
    Async(Arc<[AsyncLayer]>),
}

impl Layers {
    /// Adds a layer of a client that blocks, inside those before it. Such a client has no others.
    pub(super) fn push_blocking(&mut self, layer: BlockingLayer) {
        let mut layers = match self {
            Self::Blocking(layers) => layers.to_vec(),
            Self::None | Self::Async(_) => Vec::new(),
        };
        layers.push(layer);
        *self = Self::Blocking(layers.into());
    }

    /// Adds a layer of an asynchronous client, inside those before it. Such a client has no others.
    pub(crate) fn push_async(&mut self, layer: AsyncLayer) {
        let mut layers = match self {
            Self::Async(layers) => layers.to_vec(),
            Self::None | Self::Blocking(_) => Vec::new(),
        };
        layers.push(layer);
        *self = Self::Async(layers.into());
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Blocking(layers) => write!(f, "Blocking({})", layers.len()),
            Self::Async(layers) => write!(f, "Async({})", layers.len()),
        }
    }
}
