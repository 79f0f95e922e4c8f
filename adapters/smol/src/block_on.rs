//! Running a future on this thread

use core::future::Future;
#[cfg(unix)]
use core::future::poll_fn;
#[cfg(unix)]
use core::pin::pin;
#[cfg(unix)]
use core::task::{Context, Poll};

#[cfg(unix)]
use mcp_std::run_here;

/// Runs a future on this thread until it is done, and waits for the servers and clients in it by one system call
///
/// For programs that are one server or one client: `async_io::block_on` and `smol::block_on` do the same in five system
/// calls for each wait, which cost more than most calls of a server do. What else the future waits for, such as timers
/// and sockets of `async-io`, is looked at by the reactor's own thread and works as always. An executor can run inside;
/// one that runs on several threads had better be left to the reactor, because what waits on a thread here goes on only
/// when that thread has nothing else to do.
///
/// ```
/// let four = mcp_smol::block_on(async { 2 + 2 });
/// assert_eq!(four, 4);
/// ```
///
/// Where there is no `poll(2)`, it is `async_io::block_on`.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    #[cfg(unix)]
    return by_one_call(future);
    #[cfg(not(unix))]
    return async_io::block_on(future);
}

#[cfg(unix)]
fn by_one_call<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut output = None;
    let mut poll = |cx: &mut Context<'_>| future.as_mut().poll(cx).map(|done| output = Some(done));
    if !run_here(&mut poll) {
        park(&mut poll);
    }
    output.expect("it was run until it had one")
}

/// Without a descriptor to be woken by, all waiting is left to the reactor's thread
#[cfg(unix)]
#[inline]
fn park(poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<()>) {
    futures_lite::future::block_on(poll_fn(poll));
}

#[cfg(unix)]
pub(crate) use mcp_std::{here, spot};

/// Everywhere is the same place
#[cfg(not(unix))]
pub(crate) const fn spot() -> Option<usize> {
    None
}
