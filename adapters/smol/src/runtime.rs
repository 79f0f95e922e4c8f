//! The runtime of this adapter: timers and descriptors in the reactor of `async-io`, streams of `futures-io`.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;
use std::time::Instant;

use futures_lite::{AsyncRead, AsyncWrite};
use mcp_runtime::runtime::{AsyncTimer, PollStream, Runtime};
use mcp_std::sync::{BlockingJob, BlockingPool};

/// This adapter: it serves routers of [`Futures`](crate::router::Futures).
#[derive(Clone, Copy, Debug)]
pub enum Smol {}

impl Runtime for Smol {
    type Timer = ReactorTimer;
    #[cfg(unix)]
    type Watch = crate::reactor_watch::ReactorWatch;
    type Stdio = crate::Stdio;

    fn name_and_version() -> (&'static str, &'static str) {
        (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    #[inline]
    fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
        Ok(crate::block_on(future))
    }
}

/// The threads of the package `blocking`, at most 500, which all of the process share.
impl BlockingPool for Smol {
    #[inline]
    fn run_blocking(job: BlockingJob) {
        blocking::unblock(job).detach();
    }
}

/// A timer of the reactor.
#[derive(Debug)]
#[expect(unnameable_types, reason = "callers use it as the type of `Runtime`")]
pub struct ReactorTimer(async_io::Timer);

impl AsyncTimer for ReactorTimer {
    #[inline]
    fn never() -> Self {
        Self(async_io::Timer::never())
    }

    #[inline]
    fn reset(&mut self, at: Instant) {
        self.0.set_at(at);
    }

    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> PollStream<S> for Smol {
    #[inline]
    fn poll_read(stream: &mut S, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(stream).poll_read(cx, buf)
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
        Pin::new(stream).poll_close(cx)
    }
}
