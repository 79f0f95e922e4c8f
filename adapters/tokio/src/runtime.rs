//! The runtime of this adapter: timers and descriptors of tokio, and its byte streams.

use alloc::boxed::Box;
use core::future::Future;
use core::mem;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, ready};
use std::io;
use std::time::Instant;

use mcp_runtime::runtime::{AsyncTimer, PollStream, Runtime};
use mcp_std::sync::{BlockingJob, BlockingPool, run_on_thread};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Handle};
use tokio::task::unconstrained;
use tokio::time::{Sleep, sleep_until};

/// This adapter: it serves routers of [`Futures`](crate::router::Futures).
#[derive(Clone, Copy, Debug)]
pub enum Tokio {}

impl Runtime for Tokio {
    type Timer = TokioTimer;
    #[cfg(unix)]
    type Watch = crate::fd_watch::FdWatch;
    type Stdio = crate::Stdio;

    fn name_and_version() -> (&'static str, &'static str) {
        (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let output = runtime.block_on(future);
        // Blocking tasks of handlers may last longer than the server.
        runtime.shutdown_background();
        Ok(output)
    }

    fn is_entered() -> bool {
        Handle::try_current().is_ok()
    }

    fn unbounded<F: Future>(future: F) -> impl Future<Output = F::Output> {
        unconstrained(future)
    }
}

/// The threads of the runtime for blocking tasks; outside of a runtime, as in tests on virtual time, a thread of its own.
impl BlockingPool for Tokio {
    fn run_blocking(job: BlockingJob) {
        match Handle::try_current() {
            Ok(handle) => drop(handle.spawn_blocking(job)),
            Err(_) => run_on_thread(job),
        }
    }
}

/// A timer of tokio, which is started when it is polled: only a task of tokio can do that.
#[expect(unnameable_types, reason = "callers use it as the type of `Runtime`")]
#[derive(Debug, Default)]
pub enum TokioTimer {
    #[default]
    Never,
    Set(Instant),
    Started(Pin<Box<Sleep>>),
}

impl AsyncTimer for TokioTimer {
    #[inline]
    fn never() -> Self {
        Self::Never
    }

    #[inline]
    fn reset(&mut self, at: Instant) {
        // It belongs to the runtime that polls it, which may not be the one that polled it before.
        *self = Self::Set(at);
    }

    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self {
                Self::Never => return Poll::Pending,
                Self::Started(sleep) => {
                    // A poll that only used up the budget of the task would leave no waker.
                    ready!(pin!(unconstrained(sleep.as_mut())).poll(cx));
                    *self = Self::Never;
                    return Poll::Ready(());
                }
                Self::Set(_) => {
                    let Self::Set(at) = mem::take(self) else { continue };
                    *self = Self::Started(Box::pin(sleep_until(at.into())));
                }
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> PollStream<S> for Tokio {
    #[inline]
    fn poll_read(stream: &mut S, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        ready!(Pin::new(stream).poll_read(cx, &mut buf))?;
        Poll::Ready(Ok(buf.filled().len()))
    }

    #[inline]
    fn poll_write(stream: &mut S, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(stream).poll_write(cx, bytes)
    }

    #[inline]
    fn poll_flush(stream: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(stream).poll_flush(cx)
    }

    #[inline]
    fn poll_close(stream: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(stream).poll_shutdown(cx)
    }
}
