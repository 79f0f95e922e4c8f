//! Layers of asynchronous clients.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::Pin;

use mcp_proto::RawJson;
use mcp_proto::observe::Observer;

use super::call_port::{CallPort, PortCall, PortDriver};
use super::client_request::ClientRequest;
use crate::error::Error;

/// A layer of an asynchronous client.
pub type AsyncLayer = Arc<dyn Fn(ClientRequest, ClientNext) -> LayerFuture + Send + Sync>;

/// Future of the outcome of a layer, or of what is inside it.
pub type LayerFuture = Pin<Box<dyn Future<Output = Result<RawJson, Error>> + Send>>;

/// The inside of a layer of an asynchronous client: the layers after it, and the call.
///
/// A layer runs it once, several times (to try again, also at the same time), or not at all (to refuse, or to answer from a
/// cache). It belongs to one call: after that has ended, it returns
/// [`CallError::Cancelled`](mcp_proto::CallError::Cancelled).
#[derive(Clone)]
pub struct ClientNext {
    layers: Arc<[AsyncLayer]>,
    /// Number of layers outside.
    depth: usize,
    port: CallPort,
}

impl ClientNext {
    /// Runs the layers inside and makes the call. Returns its result, a JSON object.
    ///
    /// The call is made while the future is polled, which may be in another task, and while the caller of the client polls
    /// its own. Dropping the future cancels the call.
    ///
    /// # Errors
    ///
    /// The error of the call, or of a layer.
    #[must_use = "nothing happens unless it is awaited"]
    pub fn run(&self, request: ClientRequest) -> LayerFuture {
        match self.layers.get(self.depth) {
            Some(layer) => layer(request, Self { depth: self.depth + 1, ..self.clone() }),
            None => Box::pin(PortCall::new(self.port.clone(), request)),
        }
    }
}

impl fmt::Debug for ClientNext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientNext")
            .field("layers", &(self.layers.len() - self.depth))
            .finish_non_exhaustive()
    }
}

/// Runs the layers around the calls that `start` makes.
pub(in super::super) async fn run_async<F: Future<Output = Result<RawJson, Error>>>(
    layers: &Arc<[AsyncLayer]>,
    observer: Option<&Arc<dyn Observer>>,
    request: ClientRequest,
    start: impl Fn(ClientRequest) -> F,
) -> Result<RawJson, Error> {
    let port = CallPort::new(observer.cloned());
    // Dropped after the layers: the calls that they still wait for are cancelled then.
    let mut driver = PortDriver::new(port.clone());
    let mut layered = ClientNext { layers: layers.clone(), depth: 0, port }.run(request);
    poll_fn(|cx| driver.poll(cx, &mut |cx| layered.as_mut().poll(cx), &start)).await
}
