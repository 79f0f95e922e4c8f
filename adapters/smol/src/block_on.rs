//! An executor for one future on the current thread.

use core::future::Future;
#[cfg(unix)]
use core::future::poll_fn;
#[cfg(unix)]
use core::pin::pin;
#[cfg(unix)]
use core::task::{Context, Poll};

#[cfg(unix)]
use mcp_std::poll::block_on_poller;

/// Runs a future on this thread to completion, and waits for its servers and clients with one system call.
///
/// Use this in programs that are one server or one client. `async_io::block_on` and `smol::block_on` need five system
/// calls for each wait, which cost more than most calls of a server do. Other timers and sockets of `async-io` are
/// handled by the reactor's own thread and work as usual.
///
/// An executor can run inside. For an executor with several threads, use the reactor instead: a wait on this thread
/// continues only when this thread has nothing else to do.
///
/// ```
/// let four = mcp_smol::block_on(async { 2 + 2 });
/// assert_eq!(four, 4);
/// ```
///
/// On platforms without `poll(2)` this is `async_io::block_on`.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    #[cfg(unix)]
    return block_on_current_thread(future);
    #[cfg(not(unix))]
    return async_io::block_on(future);
}

#[cfg(unix)]
fn block_on_current_thread<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut output = None;
    let mut poll = |cx: &mut Context<'_>| future.as_mut().poll(cx).map(|done| output = Some(done));
    if !block_on_poller(&mut poll) {
        park(&mut poll);
    }
    output.expect("polling ends with an output")
}

/// Waits with the reactor's thread. Used when there is no descriptor for waking this thread.
#[cfg(unix)]
#[inline]
fn park(poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<()>) {
    futures_lite::future::block_on(poll_fn(poll));
}
