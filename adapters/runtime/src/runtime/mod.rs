//! Servers and clients as futures, over the asynchronous runtime of an adapter.
//!
//! An adapter implements [`Runtime`] (timers, readiness of descriptors, threads of shards) and, for its byte streams,
//! [`PollStream`]. Everything else is here: the loops of servers, the election of the task that drives a client, the
//! handlers of both, and virtual time in tests. Nothing here spawns a task.
//!
//! The parts of servers are generic over the runtime, so that programs without a client link none of the client.

pub mod client;
#[cfg(feature = "http")]
pub mod http;
pub mod server;
pub mod testing;
#[cfg(unix)]
mod watched_stream;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io::{self, ErrorKind};
#[cfg(feature = "http")]
use std::net::ToSocketAddrs;
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::time::Instant;

use mcp_std::catch;
use mcp_std::io::{Duplex, HungUp, Interest, Ready};
use mcp_std::sync::BlockingPool;
use mcp_std::sync::{Inbox, IndexedWaker};

use super::client::{TestPeer, TestRouter};
use super::server::router::{Futures, Router, Sharing};
use crate::Error;
use server::Server;
use testing::test_peer;

#[cfg(unix)]
pub use watched_stream::WatchedStream;

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
    /// Watches a duplicate of `fd` in these directions. A selector is a descriptor that some systems watch for reads alone.
    ///
    /// # Errors
    ///
    /// The I/O error if there is no descriptor left, or if `fd` cannot be watched.
    fn new(fd: BorrowedFd<'_>, interest: Interest) -> io::Result<Self>;

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

// The timer of a loop.

/// Wakes its future at a deadline that changes often.
///
/// The timer is set anew only for an earlier deadline. Setting it wakes the reactor, which costs more than an
/// occasional spurious wake-up.
#[derive(Debug)]
struct DeadlineTimer<T> {
    timer: T,
    armed_for: Option<Instant>,
}

impl<T: AsyncTimer> DeadlineTimer<T> {
    fn new() -> Self {
        Self { timer: T::never(), armed_for: None }
    }

    /// Wakes the future of `cx` after `timeout` at the latest. Returns whether `timeout` may have passed already.
    fn poll(&mut self, cx: &mut Context<'_>, timeout: Option<Duration>) -> bool {
        let Some(at) = timeout.and_then(|timeout| Instant::now().checked_add(timeout)) else { return false };
        // A timer that fires too early costs one spurious wake-up. Setting it again for each message costs more.
        if self.armed_for.is_none_or(|set| set > at + TOLERANCE) {
            self.timer.reset(at);
            self.armed_for = Some(at);
        }
        let fired = self.timer.poll(cx).is_ready();
        if fired {
            self.armed_for = None;
        }
        fired
    }
}

/// Accepted delay of a deadline.
const TOLERANCE: Duration = Duration::from_millis(1);

/// Completes after `duration`.
async fn sleep<R: Runtime>(duration: Duration) {
    let mut timer = timer_after::<R>(duration);
    poll_fn(|cx| timer.poll(cx)).await;
}

/// Returns a timer that is set. For a duration that has no end, it is not.
fn timer_after<R: Runtime>(duration: Duration) -> R::Timer {
    let mut timer = R::Timer::never();
    if let Some(at) = Instant::now().checked_add(duration) {
        timer.reset(at);
    }
    timer
}

/// Starts a timer of the runtime, or one on virtual time in tests.
fn start_timer<R: Runtime>(duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    testing::sleep(duration).unwrap_or_else(|| Box::pin(sleep::<R>(duration)))
}

// The functions that serve and test a router of futures, on the runtime that its flavour names.

/// The functions that serve it.
impl<R: Runtime, S: Sharing> Router<Futures<R, S>> {
    /// Serves on stdin and stdout of this process until the input ends or the client disconnects; see the function
    /// `serve_stdio` of the adapter.
    ///
    /// # Errors
    ///
    /// [`Error::Register`] if an entry could not be registered; otherwise as that function.
    pub async fn serve_stdio(self) -> Result<(), Error>
    where
        R: PollStream<<R as Runtime>::Stdio>,
    {
        Server::<R, _, _>::stdio(self.config()?, self)?.run().await
    }

    /// Serves one client on any byte stream; see the function `serve` of the adapter.
    ///
    /// # Errors
    ///
    /// As [`serve_stdio`](Self::serve_stdio).
    pub async fn serve<T>(self, stream: T) -> Result<(), Error>
    where
        R: PollStream<T>,
    {
        Server::<R, _, _>::new(self.config()?, stream, self).run().await
    }

    /// Serves HTTP at `address` until an error occurs; see the function `serve_http` of the adapter.
    ///
    /// # Errors
    ///
    /// As [`serve_stdio`](Self::serve_stdio).
    #[cfg(feature = "http")]
    pub async fn serve_http(
        self,
        address: impl ToSocketAddrs,
        http: mcp_proto::http::server::Config,
    ) -> Result<(), Error> {
        http::HttpServer::<R, _>::bind(address, self.config()?, http, self)?.run().await
    }
}

impl<R: Runtime, S: Sharing> TestRouter<Futures<R, S>> for R {
    fn test_peer(router: Router<Futures<R, S>>) -> Box<dyn TestPeer> {
        test_peer::<R>(router)
    }
}

// A set of handler futures, each polled only after it was woken.

/// Concurrently running futures of one type, in reusable slots. `K` identifies a future.
///
/// The set is `Send` if its futures are.
struct FutureSet<F, K = ()> {
    slots: Vec<FutureSlot<F, K>>,
    free: Vec<usize>,
    /// Indexes of the slots that were woken.
    woken: Inbox<usize>,
    /// Buffer for `poll_woken`, kept to reuse its memory.
    scratch: VecDeque<usize>,
}

struct FutureSlot<F, K> {
    /// Key of the running future; `None` if the slot is free.
    key: Option<K>,
    future: Pin<Box<Option<F>>>,
    /// Sends the slot's index to `woken`.
    wake_flag: Arc<IndexedWaker>,
    waker: Waker,
}

impl<F, K: PartialEq> FutureSet<F, K> {
    /// Drops the future with this key, if it runs.
    fn cancel(&mut self, key: &K) {
        if let Some(index) = self.slots.iter().position(|slot| slot.key.as_ref() == Some(key)) {
            self.clear_slot(index);
        }
    }
}

impl<F, K> FutureSet<F, K> {
    /// Creates an empty set; `waker` is woken when a future is to be polled.
    fn new(waker: &Waker) -> Self {
        let (slots, free, scratch) = (Vec::new(), Vec::new(), VecDeque::new());
        let woken = Inbox::new(usize::MAX);
        woken.register(waker);
        Self { slots, free, woken, scratch }
    }

    fn add_slot(&mut self) -> usize {
        let index = self.slots.len();
        let (wake_flag, waker) = IndexedWaker::new(index, self.woken.sender());
        self.slots.push(FutureSlot { key: None, future: Box::pin(None), wake_flag, waker });
        index
    }

    /// Replaces the waker of the set.
    fn register(&self, waker: &Waker) {
        self.woken.register(waker);
    }

    /// Returns the number of running futures.
    fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns whether a future was woken.
    fn is_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Drops all futures and returns their keys.
    fn drop_all(&mut self) -> Vec<K> {
        (0..self.slots.len()).filter_map(|index| self.clear_slot(index)).collect()
    }

    fn clear_slot(&mut self, index: usize) -> Option<K> {
        let FutureSlot { key, future, .. } = self.slots.get_mut(index)?;
        let key = key.take()?;
        // A destructor of the application may panic, and the slot is free all the same.
        let _ = catch(|| future.as_mut().set(None));
        self.free.push(index);
        Some(key)
    }
}

// One after the other: a panic in one destructor neither skips the others nor reaches the caller.
impl<F, K> Drop for FutureSet<F, K> {
    fn drop(&mut self) {
        let _ = self.drop_all();
    }
}

impl<F: Future, K> FutureSet<F, K> {
    /// Adds a future and polls it for the first time. Returns its output if it is ready.
    fn start(&mut self, key: K, future: impl FnOnce() -> F) -> Option<F::Output> {
        let index = self.free.pop().unwrap_or_else(|| self.add_slot());
        let slot = self.slots.get_mut(index)?;
        slot.key = Some(key);
        slot.future.as_mut().set(Some(future()));
        self.poll_slot(index)
    }

    /// Polls the futures that were woken, and passes on the outputs of those that are ready. Returns whether there were any.
    fn poll_woken(&mut self, on_output: &mut dyn FnMut(F::Output)) -> bool {
        let mut woken = core::mem::take(&mut self.scratch);
        let any = self.woken.take(&mut woken);
        woken.drain(..).filter_map(|index| self.poll_slot(index)).for_each(on_output);
        self.scratch = woken;
        any
    }

    fn poll_slot(&mut self, index: usize) -> Option<F::Output> {
        let FutureSlot { future, wake_flag, waker, .. } = self.slots.get_mut(index)?;
        // Before the poll, so that a wake-up from inside of it counts.
        wake_flag.reset();
        let future = future.as_mut().as_pin_mut()?;
        let outcome = catch(|| future.poll(&mut Context::from_waker(waker)));
        if let Ok(Poll::Pending) = outcome {
            return None;
        }
        self.clear_slot(index);
        match outcome {
            Ok(Poll::Ready(output)) => Some(output),
            // Handlers catch their own panics. A panic here comes from a destructor and ends the future as well.
            _ => None,
        }
    }
}

// Byte streams of an adapter.

/// How an adapter reads and writes a byte stream of the type `S`.
pub trait PollStream<S>: Runtime {
    /// Reads bytes into `buf`; 0 is the end of the stream.
    ///
    /// # Errors
    ///
    /// Those of the stream.
    fn poll_read(stream: &mut S, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes some of `bytes`.
    ///
    /// # Errors
    ///
    /// Those of the stream.
    fn poll_write(stream: &mut S, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Sends what a buffer of the stream holds.
    ///
    /// # Errors
    ///
    /// Those of the stream.
    fn poll_flush(stream: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Sends what a buffer holds and closes the write direction.
    ///
    /// # Errors
    ///
    /// Those of the stream.
    fn poll_close(stream: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// A stream during one poll of a future, as a [`Duplex`].
///
/// An operation that is not ready returns `WouldBlock` and wakes the future later.
struct PollScopedStream<'a, 'cx, R, S> {
    stream: &'a mut S,
    cx: &'a mut Context<'cx>,
    /// Whether bytes or the end of input were read.
    made_progress: bool,
    /// The timeout of the last [`wait`](Duplex::wait).
    timeout: Option<Duration>,
    runtime: core::marker::PhantomData<R>,
}

impl<'a, 'cx, R: PollStream<S>, S> PollScopedStream<'a, 'cx, R, S> {
    fn new(stream: &'a mut S, cx: &'a mut Context<'cx>) -> Self {
        Self { stream, cx, made_progress: false, timeout: None, runtime: core::marker::PhantomData }
    }
}

impl<R: PollStream<S>, S> Duplex for PollScopedStream<'_, '_, R, S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match R::poll_read(self.stream, self.cx, buf) {
            Poll::Pending => Err(ErrorKind::WouldBlock.into()),
            Poll::Ready(outcome) => {
                self.made_progress = true;
                outcome
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match R::poll_write(self.stream, self.cx, bytes) {
            Poll::Pending => Err(ErrorKind::WouldBlock.into()),
            // Some writers return 0 instead of an error.
            Poll::Ready(Ok(0)) if !bytes.is_empty() => Err(ErrorKind::BrokenPipe.into()),
            Poll::Ready(outcome) => outcome,
        }
    }

    /// Returns immediately: operations are tried, and `timeout` is kept for the future's timer.
    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        self.timeout = timeout;
        Ok(Ready { readable: interest.read, writable: interest.write })
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        Ok(())
    }
}
