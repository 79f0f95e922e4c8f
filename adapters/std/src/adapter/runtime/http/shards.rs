//! The shards of an HTTP server other than the first: a thread for each.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;
use std::{io, thread};

use super::InnerServer;
use super::serve_loop::serve_shard;
use crate::adapter::runtime::Runtime;
use crate::adapter::server::{AsyncHandler, Handle, SharedHandler};
use crate::adapter::sync::Inbox;
use crate::{Error, catch};

/// The shards other than the first, each on its own thread; shut down when this is dropped.
#[derive(Debug)]
pub(super) struct ShardThreads {
    handles: Vec<Handle>,
    /// The outcomes of shards that have ended: an error, or `None`.
    results: Inbox<Option<Arc<Error>>>,
}

/// Starts all shards but the first.
pub(super) fn spawn_shards<R: Runtime, H: AsyncHandler + 'static>(
    first: &mut InnerServer<H>,
    shards: u8,
    make: &Arc<impl Fn() -> SharedHandler<H> + Send + Sync + 'static>,
) -> Result<ShardThreads, Error> {
    let mut threads = ShardThreads::new();
    for shard in first.shards(usize::from(shards) - 1)? {
        threads.handles.push(Handle::new(shard.commands()));
        let (first, results) = (Handle::new(first.commands()), threads.results.sender());
        let make = make.clone();
        let serving = move || {
            let result = catch(|| {
                let server = shard.with_handler(make())?;
                server.pin_thread();
                R::block_on(serve_shard::<R, H>(server))?
            });
            let result = result.unwrap_or_else(|_| Err(io::Error::other("a shard panicked").into()));
            if result.is_err() {
                // Without this, connections would still be handed to a shard that is gone.
                first.shutdown(Duration::ZERO);
            }
            let _ = results.send_unbounded(result.err().map(Arc::new));
        };
        thread::Builder::new().name("mcp-shard".into()).spawn(serving)?;
    }
    Ok(threads)
}

impl ShardThreads {
    pub(super) fn new() -> Self {
        Self { handles: Vec::new(), results: Inbox::new(usize::MAX) }
    }

    /// Waits for all shards. They shut down along with the first one; if that failed, this shuts them down.
    pub(super) async fn join(self, mut result: Result<(), Error>) -> Result<(), Error> {
        if result.is_err() {
            self.shut_down();
        }
        let (mut left, mut ended) = (self.handles.len(), VecDeque::new());
        poll_fn(|cx| {
            self.results.register(cx.waker());
            self.results.take(&mut ended);
            left -= ended.len();
            for error in ended.drain(..).flatten() {
                if result.is_ok() {
                    result = Arc::into_inner(error).map_or(Ok(()), Err);
                }
            }
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        result
    }

    fn shut_down(&self) {
        self.handles.iter().for_each(|handle| handle.shutdown(Duration::ZERO));
    }
}

impl Drop for ShardThreads {
    fn drop(&mut self) {
        self.shut_down();
    }
}
