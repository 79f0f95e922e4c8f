//! Layers of asynchronous clients.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;

use crate::Error;
use crate::adapter::client::{ClientNext, ClientRequest, Options, Retry};
use mcp_proto::RawJson;

use super::Client;
use crate::adapter::runtime::Runtime;
use crate::adapter::runtime::deadline_timer::sleep;

/// # Layers of asynchronous clients
impl<R: Runtime> Options<Client<R>> {
    /// Adds a [layer](Self#layers) around the requests of the application, inside those before it.
    ///
    /// Its future is polled by the task that makes the call. Dropping the future of a call drops those of its layers, and
    /// cancels what they wait for. A layer may run the inside several times at once. When its future has ended, calls that it
    /// has left to other tasks end with [`CallError::Cancelled`](mcp_proto::CallError::Cancelled).
    #[must_use]
    pub fn layer<F>(mut self, layer: impl Fn(ClientRequest, ClientNext) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<RawJson, Error>> + Send + 'static,
    {
        self.setup_mut().layers.push_async(Arc::new(move |request, next| Box::pin(layer(request, next))));
        self
    }

    /// Adds a layer that repeats requests, inside the layers before it. It waits with the timer of the runtime.
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        let retry = Arc::new(retry);
        self.layer(move |request, next| {
            let retry = retry.clone();
            async move {
                let mut attempts = 1;
                loop {
                    let outcome = next.run(request.clone()).await;
                    let Err(error) = &outcome else { return outcome };
                    let pause = retry.pause_after(attempts, error).filter(|_| retry.may_repeat(&request));
                    let Some(pause) = pause else { return outcome };
                    sleep::<R>(pause).await;
                    attempts += 1;
                }
            }
        })
    }
}
