//! Byte streams and the reactor

#[cfg(unix)]
use alloc::boxed::Box;
#[cfg(unix)]
use alloc::sync::Arc;
use core::pin::Pin;
use core::task::{Context, Poll};
#[cfg(unix)]
use core::task::{Waker, ready};
use core::time::Duration;
use std::io::{self, ErrorKind};
#[cfg(unix)]
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

#[cfg(unix)]
use async_io::{Async, Timer};
use futures_lite::{AsyncRead, AsyncWrite};
#[cfg(unix)]
use mcp_std::Waits;
#[cfg(unix)]
use mcp_std::nudge::Answer;
use mcp_std::{Duplex, Interest, Ready};

/// A stream of descriptors, watched by the reactor
///
/// What the reactor watches are duplicates, so the stream stays whole. Reads and writes are tried before they are waited
/// for, except where it is known that there is nothing.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Watched<D> {
    // The duplicates go first, or the peer would not see the end when the stream goes.
    input: Side,
    /// None where it is the same as for reading
    output: Option<Side>,
    #[allow(dead_code, reason = "what server processes write to their stderr")]
    aside: Option<Side>,
    pub(crate) stream: D,
}

/// One watched descriptor
#[cfg(unix)]
#[derive(Debug)]
struct Side {
    watch: Watch,
    read: Direction,
    write: Direction,
}

/// A descriptor and the reactor
#[cfg(unix)]
#[derive(Debug)]
pub(crate) enum Watch {
    Reactor(Box<Asked>),
    /// Always ready, as regular files are; should it not be, it is asked again soon
    Always(Option<Timer>),
}

/// What the reactor is asked about a descriptor, or the [thread](crate::block_on()) that polls
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Asked {
    source: Async<Arc<OwnedFd>>,
    read: Question,
    write: Question,
}

/// A question to the reactor
///
/// That the reactor has woken somebody is what counts: it may take an event that it has told for an older one, and then
/// says that there is none.
#[cfg(unix)]
#[derive(Debug)]
struct Question {
    answer: Arc<Answer>,
    waker: Waker,
    /// It was asked, and the answer has not been seen
    asked: bool,
    /// The thread that was asked last, in place of the reactor, and the round of that time
    thread: Option<(Arc<Waits>, usize)>,
}

#[cfg(unix)]
impl Question {
    #[inline]
    fn new() -> Self {
        let (answer, waker) = Answer::new();
        Self { waker, answer, asked: false, thread: None }
    }

    /// Asks about `source`, unless that was done
    #[inline]
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        source: &Async<Arc<OwnedFd>>,
        interest: Interest,
        here: Option<Arc<Waits>>,
    ) -> Poll<io::Result<()>> {
        let mut given = self.answer.take(cx.waker());
        if let Some((thread, round)) = &self.thread {
            let left = thread.round() != *round;
            if left || !here.as_ref().is_some_and(|here| Arc::ptr_eq(here, thread)) {
                // Who polls now waits elsewhere, and that thread may have other things to do. What it has found it would
                // find again.
                thread.forget(source.get_ref(), interest);
                (self.asked, given, self.thread) = (false, false, None);
            }
        } else if here.is_some() {
            self.asked = false;
        }
        if self.asked && !given {
            return Poll::Pending;
        }
        self.asked = false;
        if let Some(here) = here {
            if given {
                return Poll::Ready(Ok(()));
            }
            let round = here.round();
            here.ask(source.get_ref(), interest, &self.waker);
            self.asked = true;
            self.thread = Some((here, round));
            return Poll::Pending;
        }
        let mut cx = Context::from_waker(&self.waker);
        let answer =
            if interest.write { source.poll_writable(&mut cx) } else { source.poll_readable(&mut cx) };
        self.asked = answer.is_pending();
        match answer {
            Poll::Pending if given => Poll::Ready(Ok(())),
            answer => answer,
        }
    }
}

/// What is waited for is to be closed
#[cfg(unix)]
impl Drop for Asked {
    #[inline]
    fn drop(&mut self) {
        for (question, interest) in [(&self.read, Interest::READ), (&self.write, Interest::WRITE)] {
            if let Some((thread, _)) = &question.thread {
                thread.forget(self.source.get_ref(), interest);
            }
        }
    }
}

#[cfg(unix)]
impl Watch {
    /// Has the reactor watch a duplicate of `fd`
    #[inline]
    pub(crate) fn new(fd: BorrowedFd<'_>) -> io::Result<Self> {
        match Async::new_nonblocking(Arc::new(fd.try_clone_to_owned()?)) {
            Ok(source) => {
                let (read, write) = (Question::new(), Question::new());
                Ok(Self::Reactor(Box::new(Asked { source, read, write })))
            }
            // What can always be read and written is refused, by one error or another.
            Err(error) if mcp_std::is_exhausted(&error) => Err(error),
            Err(_) => Ok(Self::Always(None)),
        }
    }

    /// Whether it was found to be ready since the last [`poll`](Self::poll) or call of this
    #[inline]
    pub(crate) fn take(&mut self, cx: &mut Context<'_>, interest: Interest, reactor: bool) -> bool {
        match self {
            Self::Reactor(watched) => {
                let question = if interest.write { &watched.write } else { &watched.read };
                question.answer.is_given() && self.poll(cx, interest, reactor).is_ready()
            }
            Self::Always(_) => true,
        }
    }

    /// Ready when it was not ready before, and is to be tried now; `reactor` says that the [thread](crate::block_on()) is not
    /// to be asked
    #[inline]
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        interest: Interest,
        reactor: bool,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Reactor(watched) => {
                let Asked { source, read, write } = &mut **watched;
                let question = if interest.write { write } else { read };
                let here = if reactor { None } else { crate::block_on::here() };
                question.poll(cx, source, interest, here)
            }
            Self::Always(timer) => {
                let wait = timer.get_or_insert_with(|| Timer::after(RETRY));
                ready!(Pin::new(wait).poll(cx));
                *timer = None;
                Poll::Ready(Ok(()))
            }
        }
    }
}

/// What is known of one direction
#[cfg(unix)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// It may be ready
    Open,
    /// The reactor was asked, or is to be asked, before the next try
    Waits,
}

#[cfg(unix)]
impl Side {
    #[inline]
    fn new(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self { watch: Watch::new(fd)?, read: Direction::Open, write: Direction::Open })
    }

    /// Ready when the descriptor is to be tried
    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>, interest: Interest) -> Poll<io::Result<()>> {
        let direction = if interest.write { &mut self.write } else { &mut self.read };
        if *direction == Direction::Open {
            return Poll::Ready(Ok(()));
        }
        ready!(self.watch.poll(cx, interest, false))?;
        *direction = Direction::Open;
        Poll::Ready(Ok(()))
    }

    /// Tries until it succeeds or has to be waited for
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
                    *(if interest.write { &mut self.write } else { &mut self.read }) = Direction::Waits;
                }
                outcome => return Poll::Ready(outcome),
            }
        }
    }
}

#[cfg(unix)]
impl<D: Duplex> Watched<D> {
    /// Has the reactor watch `stream`, whose reads must not block
    #[inline]
    pub(crate) fn new(stream: D) -> io::Result<Self> {
        let fds = stream.descriptors();
        let unsupported = || io::Error::new(ErrorKind::Unsupported, "no descriptor to be watched");
        let input = fds.read.ok_or_else(unsupported)?;
        let output = fds.write.filter(|fd| fd.as_raw_fd() != input.as_raw_fd());
        let output = output.map(Side::new).transpose()?;
        let aside = fds.aside.map(Side::new).transpose()?;
        let input = Side::new(input)?;
        Ok(Self { input, output, aside, stream })
    }

    /// Lets the stream do what it has to do besides, until there is nothing left but to wait
    #[allow(dead_code, reason = "for clients of server processes")]
    pub(crate) fn poll_aside(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while let Some(aside) = &mut self.aside {
            aside.read = Direction::Waits;
            match aside.poll(cx, Interest::READ) {
                Poll::Pending => break,
                Poll::Ready(outcome) => outcome?,
            }
            self.stream.wait(Interest::default(), Some(Duration::ZERO))?;
            if self.stream.descriptors().aside.is_none() {
                self.aside = None;
            }
        }
        Ok(())
    }

    /// Ends our direction
    pub(crate) fn shutdown_write(&mut self) -> io::Result<()> {
        self.output = None;
        self.stream.shutdown_write()
    }
}

#[cfg(unix)]
impl<D: Duplex + Unpin> AsyncRead for Watched<D> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let Self { input, stream, .. } = self.get_mut();
        let outcome = input.attempt(cx, Interest::READ, || stream.read(buf));
        if matches!(outcome, Poll::Ready(Ok(n)) if n < buf.len() && n > 0) {
            // That was all there was: it is waited for more without another try.
            input.read = Direction::Waits;
        }
        outcome
    }
}

#[cfg(unix)]
impl<D: Duplex + Unpin> AsyncWrite for Watched<D> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { input, output, stream, .. } = self.get_mut();
        output.as_mut().unwrap_or(input).attempt(cx, Interest::WRITE, || stream.write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.get_mut().shutdown_write())
    }
}

/// A stream within one poll of a future, for what drives streams step by step: what is not ready would block, and wakes
/// the future later
pub(crate) struct Polled<'a, 'cx, S> {
    pub(crate) stream: &'a mut S,
    pub(crate) cx: &'a mut Context<'cx>,
    /// Something was read, or reading has ended
    pub(crate) moved: bool,
    /// The longest wait that was asked for
    pub(crate) timeout: Option<Duration>,
}

impl<'a, 'cx, S> Polled<'a, 'cx, S> {
    #[inline]
    pub(crate) fn new(stream: &'a mut S, cx: &'a mut Context<'cx>) -> Self {
        Self { stream, cx, moved: false, timeout: None }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for Polled<'_, '_, S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match Pin::new(&mut *self.stream).poll_read(self.cx, buf) {
            Poll::Pending => Err(ErrorKind::WouldBlock.into()),
            Poll::Ready(outcome) => {
                self.moved = true;
                outcome
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match Pin::new(&mut *self.stream).poll_write(self.cx, bytes) {
            Poll::Pending => Err(ErrorKind::WouldBlock.into()),
            // Some say so instead of failing.
            Poll::Ready(Ok(0)) if !bytes.is_empty() => Err(ErrorKind::BrokenPipe.into()),
            Poll::Ready(outcome) => outcome,
        }
    }

    /// Waits for nothing: what is wanted is tried, and `timeout` kept for the timer of the future
    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        self.timeout = timeout;
        Ok(Ready { readable: interest.read, writable: interest.write })
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Between two tries on a handle that cannot be watched and is not ready against expectation
#[cfg(unix)]
const RETRY: Duration = Duration::from_millis(1);
