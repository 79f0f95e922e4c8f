//! Options of clients that block: their layers are functions.

use alloc::sync::Arc;
use std::thread;

use mcp_proto::RawJson;

use super::layers::{BlockingClientNext, ClientRequest, Retry};
use super::options::{Connector, Options, ReadyConnection};
use crate::error::Error;

/// A client whose calls block, so that its layers are functions.
pub trait BlockingConnector: Connector {}

impl BlockingConnector for ReadyConnection {}

/// # Layers of clients that block
impl<C: BlockingConnector> Options<C> {
    /// Adds a [layer](Self#layers) around the requests of the application, inside those before it.
    ///
    /// It runs on the thread that makes the call. With `mcp-threads`, that may be several at a time.
    #[must_use]
    pub fn layer(
        mut self,
        layer: impl Fn(ClientRequest, BlockingClientNext<'_>) -> Result<RawJson, Error> + Send + Sync + 'static,
    ) -> Self {
        self.setup_mut().layers.push_blocking(Arc::new(layer));
        self
    }

    /// Adds a layer that repeats requests, inside the layers before it. Between attempts the thread of the call sleeps.
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        self.layer(move |request, next| {
            let mut attempts = 1;
            loop {
                let outcome = next.run(request.clone());
                let Err(error) = &outcome else { return outcome };
                let pause = retry.pause_after(attempts, error).filter(|_| retry.may_repeat(&request));
                let Some(pause) = pause else { return outcome };
                thread::sleep(pause);
                attempts += 1;
            }
        })
    }
}
