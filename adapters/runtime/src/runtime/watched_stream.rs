//! Byte streams of descriptors that a runtime watches.

use core::task::{Context, Poll, ready};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd};

use mcp_std::io::{Duplex, Interest};

use super::DescriptorWatch;

/// A stream of descriptors that a runtime watches.
///
/// The runtime watches duplicates, so the stream itself stays unchanged. Reads and writes are tried before they are
/// waited for, unless the descriptor is known to be blocked.
#[derive(Debug)]
pub struct WatchedStream<W, D> {
    // Dropped before `stream`: the peer sees the end only after all duplicates are closed.
    input: WatchedFd<W>,
    /// `None` if one descriptor serves both directions.
    output: Option<WatchedFd<W>>,
    stream: D,
}

/// A watched descriptor and the state of its directions.
#[derive(Debug)]
struct WatchedFd<W> {
    watch: W,
    read: DirectionState,
    write: DirectionState,
}

/// State of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DirectionState {
    /// An operation may succeed.
    MaybeReady,
    /// The last operation blocked: wait for readiness before the next.
    Blocked,
}

impl<W: DescriptorWatch> WatchedFd<W> {
    fn new(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self {
            watch: W::new(fd, Interest::BOTH)?,
            read: DirectionState::MaybeReady,
            write: DirectionState::MaybeReady,
        })
    }

    /// Ready when an operation should be tried.
    fn poll(&mut self, cx: &mut Context<'_>, interest: Interest) -> Poll<io::Result<()>> {
        let direction = if interest.write { &mut self.write } else { &mut self.read };
        if *direction == DirectionState::MaybeReady {
            return Poll::Ready(Ok(()));
        }
        ready!(self.watch.poll(cx, interest, false))?;
        *direction = DirectionState::MaybeReady;
        Poll::Ready(Ok(()))
    }

    /// Tries an operation until it succeeds or blocks.
    fn attempt(
        &mut self,
        cx: &mut Context<'_>,
        interest: Interest,
        mut attempt: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll(cx, interest))?;
            match attempt() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    *(if interest.write { &mut self.write } else { &mut self.read }) =
                        DirectionState::Blocked;
                }
                outcome => return Poll::Ready(outcome),
            }
        }
    }
}

impl<W: DescriptorWatch, D: Duplex> WatchedStream<W, D> {
    /// Watches `stream`, whose reads must not block.
    ///
    /// # Errors
    ///
    /// The I/O error if the stream has no descriptors, or if they cannot be watched.
    pub fn new(stream: D) -> io::Result<Self> {
        let fds = stream.descriptors();
        let unsupported =
            || io::Error::new(ErrorKind::Unsupported, "the stream has no file descriptor to wait for");
        let input = fds.read.ok_or_else(unsupported)?;
        let output = fds.write.filter(|fd| fd.as_raw_fd() != input.as_raw_fd());
        let output = output.map(WatchedFd::new).transpose()?;
        let input = WatchedFd::new(input)?;
        Ok(Self { input, output, stream })
    }

    /// Returns how reading and writing are watched; the same twice if one descriptor serves both.
    pub fn watches(&self) -> (&W, &W) {
        (&self.input.watch, &self.output.as_ref().unwrap_or(&self.input).watch)
    }

    /// Returns the stream.
    pub const fn get_ref(&self) -> &D {
        &self.stream
    }

    /// Returns the stream.
    pub fn get_mut(&mut self) -> &mut D {
        &mut self.stream
    }

    /// Reads bytes into `buf`; 0 is the end of the stream.
    ///
    /// # Errors
    ///
    /// Those of the stream.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let Self { input, stream, .. } = self;
        let outcome = input.attempt(cx, Interest::READ, || stream.read(buf));
        if matches!(outcome, Poll::Ready(Ok(n)) if n < buf.len() && n > 0) {
            // A short read emptied the descriptor: wait without another try.
            input.read = DirectionState::Blocked;
        }
        outcome
    }

    /// Writes some of `bytes`. No buffer is in between.
    ///
    /// # Errors
    ///
    /// Those of the stream.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { input, output, stream } = self;
        output.as_mut().unwrap_or(input).attempt(cx, Interest::WRITE, || stream.write(bytes))
    }

    /// Closes the write direction.
    ///
    /// # Errors
    ///
    /// Those of the stream.
    pub fn shutdown_write(&mut self) -> io::Result<()> {
        // The watch has a duplicate of the descriptor, which would keep the direction open.
        self.output = None;
        self.stream.shutdown_write()
    }
}
