//! What a connection is woken by: descriptors in the reactor, or a stream that wakes by itself

use alloc::sync::Arc;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io::{self, ErrorKind};
#[cfg(unix)]
use std::os::fd::BorrowedFd;

use futures_lite::io::{AsyncRead, AsyncWrite};
use mcp_std::client::Wire;
use mcp_std::{Duplex, Interest, Ready};

/// What wakes a connection
#[derive(Debug)]
pub(super) enum Watch {
    /// Duplicates of the descriptors that it is made of
    #[cfg(unix)]
    Descriptors(Descriptors),
    /// A stream that has kept the waker
    Stream(Arc<Moved>),
}

impl Watch {
    /// Whether something may have come, to read, write or end; the task of `cx` is woken later otherwise, by the reactor
    /// where that is said
    pub(super) fn poll(
        &mut self,
        wire: &mut dyn Wire,
        cx: &mut Context<'_>,
        reactor: bool,
    ) -> io::Result<bool> {
        match self {
            #[cfg(unix)]
            Self::Descriptors(ours) => ours.poll(wire, cx, reactor),
            Self::Stream(moved) => {
                let _ = (cx, reactor);
                // A read that is wanted again and was not tried wakes nobody.
                let asleep = moved.asleep.load(Ordering::Relaxed);
                Ok(wire.interest().read && !asleep)
            }
        }
    }

    /// What was found since this was asked the last time
    pub(super) fn take(&mut self, cx: &mut Context<'_>, reactor: bool) -> Found {
        match self {
            #[cfg(unix)]
            Self::Descriptors(Descriptors { read, write, aside }) => {
                let mut take = |ours: &mut Option<crate::io::Watch>, interest| {
                    ours.as_mut().is_some_and(|ours| ours.take(cx, interest, reactor))
                };
                take(write, Interest::WRITE);
                Found { read: take(read, Interest::READ), aside: take(aside, Interest::READ) }
            }
            Self::Stream(_) => {
                let _ = (cx, reactor);
                Found { read: true, aside: false }
            }
        }
    }

    /// Has waits block from now on: nobody polls any more
    pub(super) fn let_block(&self) {
        match self {
            #[cfg(unix)]
            Self::Descriptors(_) => {}
            Self::Stream(moved) => moved.blocks.store(true, Ordering::Relaxed),
        }
    }
}

/// What a [`Watch`] has found
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// There may be something to read
    pub(super) read: bool,
    /// There may be something besides
    pub(super) aside: bool,
}

/// Duplicates of what a wire is made of; one that the wire gives up is given up here, or the peer would not see the end
#[cfg(unix)]
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    read: Option<crate::io::Watch>,
    write: Option<crate::io::Watch>,
    aside: Option<crate::io::Watch>,
}

#[cfg(unix)]
impl Descriptors {
    fn poll(&mut self, wire: &mut dyn Wire, cx: &mut Context<'_>, reactor: bool) -> io::Result<bool> {
        let interest = wire.interest();
        let theirs = wire.descriptors();
        let ready = [
            look(&mut self.read, theirs.read, interest.read, Interest::READ, cx, reactor)?,
            look(&mut self.write, theirs.write, interest.write, Interest::WRITE, cx, reactor)?,
            look(&mut self.aside, theirs.aside, true, Interest::READ, cx, reactor)?,
        ];
        Ok(ready.contains(&true))
    }
}

#[cfg(unix)]
fn look(
    ours: &mut Option<crate::io::Watch>,
    theirs: Option<BorrowedFd<'_>>,
    wanted: bool,
    interest: Interest,
    cx: &mut Context<'_>,
    reactor: bool,
) -> io::Result<bool> {
    let Some(theirs) = theirs else {
        *ours = None;
        return Ok(false);
    };
    if !wanted {
        return Ok(false);
    }
    let ours = match ours {
        Some(ours) => ours,
        none => none.insert(crate::io::Watch::new(theirs)?),
    };
    match ours.poll(cx, interest, reactor) {
        Poll::Ready(outcome) => outcome.map(|()| true),
        Poll::Pending => Ok(false),
    }
}

/// A stream of the executor's as what a connection reads and writes
#[derive(Debug)]
pub(super) struct Flow<S> {
    stream: S,
    waker: Waker,
    moved: Arc<Moved>,
}

/// What is known of a [`Flow`] outside
#[derive(Debug, Default)]
pub(super) struct Moved {
    /// The last read could not move: whoever waits is woken when one can
    asleep: AtomicBool,
    /// Waits block
    blocks: AtomicBool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Flow<S> {
    /// Wakes `waker` when it can move again
    pub(super) fn new(stream: S, waker: Waker) -> (Self, Watch) {
        let moved = Arc::<Moved>::default();
        (Self { stream, waker, moved: moved.clone() }, Watch::Stream(moved))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for Flow<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut cx = Context::from_waker(&self.waker);
        loop {
            let outcome = Pin::new(&mut self.stream).poll_read(&mut cx, buf);
            self.moved.asleep.store(outcome.is_pending(), Ordering::Relaxed);
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
            match Pin::new(&mut self.stream).poll_write(&mut cx, bytes) {
                Poll::Pending => {
                    // What stands in a buffer has to leave, or there will never be room.
                    let _ = Pin::new(&mut self.stream).poll_flush(&mut cx)?;
                    return Err(ErrorKind::WouldBlock.into());
                }
                Poll::Ready(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
                Poll::Ready(outcome) => {
                    let written = outcome?;
                    // Pending: it wakes, and is tried again by whatever is written or waited for next.
                    let _ = Pin::new(&mut self.stream).poll_flush(&mut cx)?;
                    return Ok(written);
                }
            }
        }
    }

    /// Waits for nothing: a read or write that could not move will wake
    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        if self.moved.blocks.load(Ordering::Relaxed) {
            std::thread::sleep(timeout.unwrap_or(PAUSE).min(PAUSE));
        }
        let mut cx = Context::from_waker(&self.waker);
        // A failure is told by the next write.
        let _ = Pin::new(&mut self.stream).poll_flush(&mut cx);
        Ok(Ready { readable: interest.read, writable: interest.write })
    }

    fn waker(&mut self) -> io::Result<Waker> {
        Ok(self.waker.clone())
    }

    /// `WouldBlock` while it is not over, which wakes
    fn shutdown_write(&mut self) -> io::Result<()> {
        let mut cx = Context::from_waker(&self.waker);
        match Pin::new(&mut self.stream).poll_close(&mut cx) {
            Poll::Pending => Err(ErrorKind::WouldBlock.into()),
            Poll::Ready(outcome) => outcome,
        }
    }
}

/// Between two looks at a stream that nobody polls any more
const PAUSE: Duration = Duration::from_millis(10);
