//! Wake-ups of a connection: descriptors in the reactor, or an asynchronous stream.

use alloc::sync::Arc;
use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker, ready};
use core::time::Duration;
use std::io::{self, ErrorKind};
#[cfg(unix)]
use std::os::fd::BorrowedFd;

use mcp_std::io::{Duplex, Interest, Ready};
use mcp_std::process::ShutdownReport;
use mcp_std::sync::lock;

use super::driver::{ClientShared, MAX_TURNS_PER_POLL, WaiterGuard};
use crate::Error;
use crate::client::ClientTransport;
#[cfg(unix)]
use crate::runtime::DescriptorWatch;
use crate::runtime::{PollStream, Runtime};

/// The source of a connection's wake-ups.
#[derive(Debug)]
pub(super) enum ConnectionWatch<R: Runtime> {
    /// Duplicates of the transport's descriptors.
    #[cfg(unix)]
    Descriptors(DescriptorWatches<R::Watch>),
    /// An asynchronous stream, which has stored the waker.
    Stream(Arc<AsyncDuplexState>, PhantomData<fn() -> R>),
    /// Exchanges of an HTTP implementation, which have the waker. The flag says that no task polls them any more.
    #[cfg(feature = "http")]
    Exchanges(Arc<AtomicBool>),
}

impl<R: Runtime> ConnectionWatch<R> {
    /// Returns whether reading, writing or closing may make progress. Otherwise the task of `cx` is woken later.
    ///
    /// `reactor` forces the use of the reactor instead of the current poller.
    pub(super) fn poll(
        &mut self,
        transport: &mut dyn ClientTransport,
        cx: &mut Context<'_>,
        reactor: bool,
    ) -> io::Result<bool> {
        match self {
            #[cfg(unix)]
            Self::Descriptors(watch) => watch.poll(transport, cx, reactor),
            Self::Stream(state, _) => {
                let _ = (cx, reactor);
                // A read that is wanted again and has not been tried causes no wake-up.
                let is_blocked = state.is_read_blocked.load(Ordering::Relaxed);
                Ok(transport.interest().read && !is_blocked)
            }
            #[cfg(feature = "http")]
            Self::Exchanges(_) => Ok(transport.interest().read),
        }
    }

    /// Returns and resets the readiness found since the last call.
    pub(super) fn take_readiness(&mut self, cx: &mut Context<'_>, reactor: bool) -> WatchReadiness {
        match self {
            #[cfg(unix)]
            Self::Descriptors(DescriptorWatches { read, write, stderr }) => {
                let mut take = |watch: &mut Option<R::Watch>, interest| {
                    watch.as_mut().is_some_and(|watch| watch.take_ready(cx, interest, reactor))
                };
                take(write, Interest::WRITE);
                WatchReadiness {
                    is_readable: take(read, Interest::READ),
                    has_stderr: take(stderr, Interest::READ),
                }
            }
            Self::Stream(..) => {
                let _ = (cx, reactor);
                WatchReadiness { is_readable: true, has_stderr: false }
            }
            #[cfg(feature = "http")]
            Self::Exchanges(_) => WatchReadiness { is_readable: true, has_stderr: false },
        }
    }

    /// Makes `wait` block from now on, because no task polls the connection any more.
    pub(super) fn set_blocking(&self) {
        match self {
            #[cfg(unix)]
            Self::Descriptors(_) => {}
            Self::Stream(state, _) => state.is_blocking.store(true, Ordering::Relaxed),
            #[cfg(feature = "http")]
            Self::Exchanges(_) => {}
        }
    }

    /// Ends what only a task can continue, because no task polls the connection any more.
    pub(super) fn abandon(&self) {
        #[cfg(feature = "http")]
        if let Self::Exchanges(is_abandoned) = self {
            is_abandoned.store(true, Ordering::Relaxed);
        }
    }
}

/// Readiness found by a [`ConnectionWatch`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WatchReadiness {
    /// Whether there may be input.
    pub(super) is_readable: bool,
    /// Whether there may be output on the server's stderr.
    pub(super) has_stderr: bool,
}

/// Duplicates of the transport's descriptors. A duplicate is closed with its original, or the peer would see no end.
#[cfg(unix)]
#[derive(Debug)]
pub(super) struct DescriptorWatches<W> {
    read: Option<W>,
    write: Option<W>,
    stderr: Option<W>,
}

#[cfg(unix)]
impl<W: DescriptorWatch> DescriptorWatches<W> {
    pub(super) const fn new() -> Self {
        Self { read: None, write: None, stderr: None }
    }

    fn poll(
        &mut self,
        transport: &mut dyn ClientTransport,
        cx: &mut Context<'_>,
        reactor: bool,
    ) -> io::Result<bool> {
        let interest = transport.interest();
        let fds = transport.descriptors();
        let ready = [
            poll_descriptor(&mut self.read, fds.read, interest.read, Interest::READ, cx, reactor)?,
            poll_descriptor(&mut self.write, fds.write, interest.write, Interest::WRITE, cx, reactor)?,
            poll_descriptor(&mut self.stderr, fds.auxiliary, true, Interest::READ, cx, reactor)?,
        ];
        Ok(ready.contains(&true))
    }
}

#[cfg(unix)]
fn poll_descriptor<W: DescriptorWatch>(
    watch: &mut Option<W>,
    descriptor: Option<BorrowedFd<'_>>,
    wanted: bool,
    interest: Interest,
    cx: &mut Context<'_>,
    reactor: bool,
) -> io::Result<bool> {
    let Some(descriptor) = descriptor else {
        *watch = None;
        return Ok(false);
    };
    if !wanted {
        return Ok(false);
    }
    let watch = match watch {
        Some(watch) => watch,
        none => none.insert(W::new(descriptor, interest)?),
    };
    match watch.poll(cx, interest, reactor) {
        Poll::Ready(outcome) => outcome.map(|()| true),
        Poll::Pending => Ok(false),
    }
}

/// An asynchronous stream in the form that a connection reads and writes.
#[derive(Debug)]
pub(super) struct AsyncDuplex<R, S> {
    stream: S,
    waker: Waker,
    state: Arc<AsyncDuplexState>,
    runtime: PhantomData<R>,
}

/// State that an [`AsyncDuplex`] shares with its [`ConnectionWatch`].
#[derive(Debug, Default)]
pub(super) struct AsyncDuplexState {
    /// Whether the last read blocked; then the waker is woken when a read is possible.
    is_read_blocked: AtomicBool,
    /// Whether `wait` blocks.
    is_blocking: AtomicBool,
}

impl<R: PollStream<S>, S> AsyncDuplex<R, S> {
    /// Wraps `stream`, which wakes `waker` when it becomes ready.
    pub(super) fn new(stream: S, waker: Waker) -> (Self, ConnectionWatch<R>) {
        let state = Arc::<AsyncDuplexState>::default();
        (
            Self { stream, waker, state: state.clone(), runtime: PhantomData },
            ConnectionWatch::Stream(state, PhantomData),
        )
    }
}

impl<R: PollStream<S>, S> Duplex for AsyncDuplex<R, S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut cx = Context::from_waker(&self.waker);
        loop {
            let outcome = R::poll_read(&mut self.stream, &mut cx, buf);
            self.state.is_read_blocked.store(outcome.is_pending(), Ordering::Relaxed);
            match outcome {
                Poll::Pending => return Err(ErrorKind::WouldBlock.into()),
                Poll::Ready(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
                Poll::Ready(outcome) => return outcome,
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut cx = Context::from_waker(&self.waker);
        loop {
            match R::poll_write(&mut self.stream, &mut cx, bytes) {
                Poll::Pending => {
                    // Buffered bytes must leave, or there will never be room.
                    let _ = R::poll_flush(&mut self.stream, &mut cx)?;
                    return Err(ErrorKind::WouldBlock.into());
                }
                Poll::Ready(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
                Poll::Ready(outcome) => {
                    let written = outcome?;
                    // If it is pending, the flush wakes the connection and is repeated by the next write or wait.
                    let _ = R::poll_flush(&mut self.stream, &mut cx)?;
                    return Ok(written);
                }
            }
        }
    }

    /// Returns immediately: a blocked read or write causes a wake-up.
    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        if self.state.is_blocking.load(Ordering::Relaxed) {
            std::thread::sleep(timeout.unwrap_or(BLOCKING_POLL_INTERVAL).min(BLOCKING_POLL_INTERVAL));
        }
        let mut cx = Context::from_waker(&self.waker);
        // An error occurs again at the next write.
        let _ = R::poll_flush(&mut self.stream, &mut cx);
        Ok(Ready { readable: interest.read, writable: interest.write })
    }

    fn waker(&mut self) -> io::Result<Waker> {
        Ok(self.waker.clone())
    }

    /// Closes the stream. Returns `WouldBlock` and causes a wake-up while that is not complete.
    fn shutdown_write(&mut self) -> io::Result<()> {
        let mut cx = Context::from_waker(&self.waker);
        match R::poll_close(&mut self.stream, &mut cx) {
            Poll::Pending => Err(ErrorKind::WouldBlock.into()),
            Poll::Ready(outcome) => outcome,
        }
    }
}

/// Time between two polls of a stream in blocking mode.
const BLOCKING_POLL_INTERVAL: Duration = Duration::from_millis(10);

// Futures that wait for an outcome of a connection, and drive the connection as its leader.

/// Polls `look` until it returns a value, driving the connection whenever this task is the leader.
pub(super) fn poll_until<R: Runtime, T>(
    shared: &ClientShared<R>,
    waiter: &mut WaiterGuard,
    cx: &mut Context<'_>,
    mut look: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    // `look` leaves a waker at the outcome. While this task continues anyway, that waker may do nothing.
    let mut noop_cx = Context::from_waker(Waker::noop());
    for _ in 0..MAX_TURNS_PER_POLL {
        if let Poll::Ready(found) = look(&mut noop_cx) {
            waiter.leave();
            return Poll::Ready(found);
        }
        if !waiter.try_lead(cx.waker()) {
            // The outcome may have arrived before the waiter was registered.
            let found = ready!(look(cx));
            waiter.leave();
            return Poll::Ready(found);
        }
        lock(&shared.driver).drive(&shared.leader_queue);
    }
    // Yield to the executor's other futures.
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// Future that drives a connection to its end; see [`Client::run`](super::Client::run).
#[must_use = "nothing happens unless it is awaited or spawned"]
pub struct Run<R: Runtime> {
    shared: Arc<ClientShared<R>>,
    waiter: WaiterGuard,
}

impl<R: Runtime> Run<R> {
    pub(super) fn new(shared: Arc<ClientShared<R>>) -> Self {
        let waiter = WaiterGuard::new(shared.leader_queue.clone(), false);
        Self { shared, waiter }
    }

    pub(super) fn shared(&self) -> &ClientShared<R> {
        &self.shared
    }

    /// Returns how the server process ended, once it has.
    pub(super) fn take_exit(&self) -> Result<Option<ShutdownReport>, Error> {
        let mut driver = lock(&self.shared.driver);
        let Some(inner) = driver.state_mut() else { return Ok(None) };
        match &inner.exit {
            Some(Ok(ended)) => Ok(ended.clone()),
            // An error is returned once.
            _ => inner.exit.replace(Ok(None)).unwrap_or(Ok(None)),
        }
    }
}

impl<R: Runtime> Future for Run<R> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { shared, waiter } = &mut *self;
        let over = poll_until(shared, waiter, cx, |_| match shared.leader_queue.is_over() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        });
        over.map(|()| if shared.is_closed() { Ok(()) } else { Err(shared.caller.closed_error()) })
    }
}

impl<R: Runtime> core::fmt::Debug for Run<R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Run").field("caller", &self.shared.caller).finish_non_exhaustive()
    }
}
