//! Byte streams of an adapter.

use core::task::{Context, Poll};
use core::time::Duration;
use std::io::{self, ErrorKind};

use super::Runtime;
use crate::io::{Duplex, Interest, Ready};

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
pub(super) struct PollScopedStream<'a, 'cx, R, S> {
    stream: &'a mut S,
    cx: &'a mut Context<'cx>,
    /// Whether bytes or the end of input were read.
    pub(super) made_progress: bool,
    /// The timeout of the last [`wait`](Duplex::wait).
    pub(super) timeout: Option<Duration>,
    runtime: core::marker::PhantomData<R>,
}

impl<'a, 'cx, R: PollStream<S>, S> PollScopedStream<'a, 'cx, R, S> {
    pub(super) fn new(stream: &'a mut S, cx: &'a mut Context<'cx>) -> Self {
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
