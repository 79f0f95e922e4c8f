//! Servers and clients as futures, over the asynchronous runtime of an adapter.
//!
//! An adapter implements [`Runtime`] (timers, readiness of descriptors, threads of shards) and, for its byte streams,
//! [`PollStream`]. Everything else is here: the loops of servers, the election of the task that drives a client, the
//! handlers of both, and virtual time in tests. Nothing here spawns a task.
//!
//! The parts of servers are generic over the runtime, so that programs without a client link none of the client.

pub mod client;
mod deadline_timer;
mod future_set;
#[cfg(feature = "http")]
pub mod http;
mod poll_stream;
mod router;
pub mod server;
pub mod testing;
mod virtual_time;
#[cfg(unix)]
mod watched_stream;

#[cfg(unix)]
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::task::{Context, Poll};
use std::io;
#[cfg(unix)]
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

pub use poll_stream::PollStream;
#[cfg(unix)]
pub use watched_stream::WatchedStream;

use crate::adapter::sync::BlockingPool;
use crate::io::HungUp;
#[cfg(unix)]
use crate::io::Interest;

/// The asynchronous runtime of an adapter.
pub trait Runtime: BlockingPool + fmt::Debug + Send + Sync + Sized + 'static {
    /// A timer.
    type Timer: AsyncTimer;
    /// Readiness of a descriptor.
    #[cfg(unix)]
    type Watch: DescriptorWatch;
    /// Stdin and stdout of this process.
    type Stdio: StdioStream;

    /// Returns the name and version of the adapter, for clients that set none.
    fn name_and_version() -> (&'static str, &'static str);

    /// Runs a future on a thread that was started for it, to completion.
    ///
    /// # Errors
    ///
    /// The I/O error if the thread cannot wait.
    fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T>;

    /// Returns whether this thread is inside the runtime, as far as its timers and descriptors need that.
    fn is_entered() -> bool {
        true
    }

    /// Returns the future without the bound that the runtime sets to its work before it must yield.
    ///
    /// For tests on virtual time, which never yield to the runtime.
    fn unbounded<F: Future>(future: F) -> impl Future<Output = F::Output> {
        future
    }
}

/// A timer that wakes one task.
pub trait AsyncTimer: fmt::Debug + Send + Unpin + 'static {
    /// Creates a timer that is not set.
    fn never() -> Self;

    /// Sets the timer anew, for `at`.
    fn reset(&mut self, at: Instant);

    /// Ready when the time has come. Otherwise the task of `cx` is woken then; a timer that is not set never wakes it.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// Readiness of a descriptor, for the task that polled last in each direction.
#[cfg(unix)]
pub trait DescriptorWatch: fmt::Debug + Send + Sized + 'static {
    /// Watches a duplicate of `fd`.
    ///
    /// # Errors
    ///
    /// The I/O error if there is no descriptor left, or if `fd` cannot be watched.
    fn new(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Self::from_shared(Arc::new(fd.try_clone_to_owned()?))
    }

    /// Watches `fd`, which no other watch has.
    ///
    /// # Errors
    ///
    /// The I/O error if `fd` cannot be watched.
    fn from_shared(fd: Arc<OwnedFd>) -> io::Result<Self>;

    /// Returns whether readiness was found since the last call of this or [`poll`](Self::poll).
    fn take_ready(&mut self, cx: &mut Context<'_>, interest: Interest, is_shared: bool) -> bool;

    /// Ready when an operation should be tried (again). It may be ready too early.
    ///
    /// `is_shared`: the tasks that wait for the descriptor may run on several threads.
    fn poll(&mut self, cx: &mut Context<'_>, interest: Interest, is_shared: bool) -> Poll<io::Result<()>>;
}

/// Stdin and stdout of this process, as one byte stream.
pub trait StdioStream: fmt::Debug + Sized {
    /// Opens stdin and stdout, and withholds both from the rest of the program until this is dropped.
    ///
    /// # Errors
    ///
    /// The I/O error if the descriptors cannot be duplicated, inspected or watched, or are already guarded.
    fn guarded() -> io::Result<Self>;

    /// Returns which directions the client has closed. Errors are left to the next read or write.
    fn hung_up(&mut self) -> HungUp;
}
