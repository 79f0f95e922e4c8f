//! Output that threads of the package `blocking` write.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io::{self, Write};

use blocking::Unblock;
use futures_lite::AsyncWrite;

/// Output that threads write. Once a write has failed, every operation returns its error.
#[derive(Debug)]
pub(crate) struct UnblockedOutput<T> {
    output: Unblock<T>,
    /// The error of the first write that failed, which `Unblock` returns once.
    failure: Option<io::Error>,
}

impl<T: Write + Send + 'static> UnblockedOutput<T> {
    pub(crate) fn new(output: T) -> Self {
        Self { output: Unblock::with_capacity(CAPACITY, output), failure: None }
    }

    fn poll_with<U>(
        &mut self,
        poll: impl FnOnce(Pin<&mut Unblock<T>>) -> Poll<io::Result<U>>,
    ) -> Poll<io::Result<U>> {
        if let Some(failure) = &self.failure {
            return Poll::Ready(Err(copy(failure)));
        }
        let outcome = ready!(poll(Pin::new(&mut self.output)));
        if let Err(error) = &outcome {
            self.failure = Some(copy(error));
        }
        Poll::Ready(outcome)
    }

    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_with(|output| output.poll_write(cx, bytes))
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_with(|output| output.poll_flush(cx))
    }

    pub(crate) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_with(|output| output.poll_close(cx))
    }
}

fn copy(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

/// Bytes between a server and the thread that reads or writes for it.
pub(crate) const CAPACITY: usize = 64 << 10;
