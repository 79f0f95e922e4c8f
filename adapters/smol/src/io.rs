//! Byte streams watched by the reactor.

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
use mcp_std::adapter::poll::Poller;
#[cfg(unix)]
use mcp_std::adapter::sync::FlagWaker;
use mcp_std::io::{Duplex, Interest, Ready};

/// A stream of descriptors that the reactor watches.
///
/// The reactor watches duplicates, so the stream itself stays unchanged. Reads and writes are tried before they are
/// waited for, unless the descriptor is known to be blocked.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct ReactorStream<D> {
    // Dropped before `stream`: the peer sees the end only after all duplicates are closed.
    input: WatchedFd,
    /// `None` if one descriptor serves both directions.
    output: Option<WatchedFd>,
    #[allow(dead_code, reason = "what server processes write to their stderr")]
    stderr: Option<WatchedFd>,
    pub(crate) stream: D,
}

/// A watched descriptor and the state of its directions.
#[cfg(unix)]
#[derive(Debug)]
struct WatchedFd {
    watch: DescriptorWatch,
    read: DirectionState,
    write: DirectionState,
}

/// Readiness of a descriptor.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) enum DescriptorWatch {
    Reactor(Box<ReactorSource>),
    /// A descriptor that is always ready (a regular file). If it is not, it is tried again after the timer.
    AlwaysReady(Option<Timer>),
}

/// A descriptor known to the reactor, or to the poller of the current [`block_on`](crate::block_on()).
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct ReactorSource {
    source: Async<Arc<OwnedFd>>,
    read: ReadinessRequest,
    write: ReadinessRequest,
}

/// A registration for readiness in one direction.
///
/// `wake_flag` is authoritative, not the reactor's answer: the reactor may take a new event for an old one and report
/// that there is none.
#[cfg(unix)]
#[derive(Debug)]
struct ReadinessRequest {
    wake_flag: Arc<FlagWaker>,
    waker: Waker,
    /// Whether readiness was requested and has not been reported.
    is_registered: bool,
    /// The poller that watches in place of the reactor, and its generation at that time.
    poller: Option<(Arc<Poller>, usize)>,
}

#[cfg(unix)]
impl ReadinessRequest {
    #[inline]
    fn new() -> Self {
        let (wake_flag, waker) = FlagWaker::new();
        Self { waker, wake_flag, is_registered: false, poller: None }
    }

    /// Registers for readiness of `source`, unless that is pending.
    #[inline]
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        source: &Async<Arc<OwnedFd>>,
        interest: Interest,
        current: Option<Arc<Poller>>,
    ) -> Poll<io::Result<()>> {
        let mut woken = self.wake_flag.take(cx.waker());
        if let Some((poller, generation)) = &self.poller {
            let is_outdated = poller.generation() != *generation;
            if is_outdated || !current.as_ref().is_some_and(|current| Arc::ptr_eq(current, poller)) {
                // The task now waits on another thread, and the former one may be busy. The readiness that it may have
                // found will be found again.
                poller.deregister(source.get_ref(), interest);
                (self.is_registered, woken, self.poller) = (false, false, None);
            }
        } else if current.is_some() {
            self.is_registered = false;
        }
        if self.is_registered && !woken {
            return Poll::Pending;
        }
        self.is_registered = false;
        if let Some(current) = current {
            if woken {
                return Poll::Ready(Ok(()));
            }
            let generation = current.generation();
            current.register(source.get_ref(), interest, &self.waker);
            self.is_registered = true;
            self.poller = Some((current, generation));
            return Poll::Pending;
        }
        let mut cx = Context::from_waker(&self.waker);
        let answer =
            if interest.write { source.poll_writable(&mut cx) } else { source.poll_readable(&mut cx) };
        self.is_registered = answer.is_pending();
        match answer {
            Poll::Pending if woken => Poll::Ready(Ok(())),
            answer => answer,
        }
    }
}

// The descriptor is about to be closed, so pollers must forget it.
#[cfg(unix)]
impl Drop for ReactorSource {
    #[inline]
    fn drop(&mut self) {
        for (request, interest) in [(&self.read, Interest::READ), (&self.write, Interest::WRITE)] {
            if let Some((poller, _)) = &request.poller {
                poller.deregister(self.source.get_ref(), interest);
            }
        }
    }
}

#[cfg(unix)]
impl DescriptorWatch {
    /// Registers a duplicate of `fd` with the reactor.
    #[inline]
    pub(crate) fn new(fd: BorrowedFd<'_>) -> io::Result<Self> {
        match Async::new_nonblocking(Arc::new(fd.try_clone_to_owned()?)) {
            Ok(source) => {
                let (read, write) = (ReadinessRequest::new(), ReadinessRequest::new());
                Ok(Self::Reactor(Box::new(ReactorSource { source, read, write })))
            }
            // Descriptors that are always ready are refused, with different errors on different systems.
            Err(error) if mcp_std::io::is_resource_exhausted(&error) => Err(error),
            Err(_) => Ok(Self::AlwaysReady(None)),
        }
    }

    /// Returns whether readiness was found since the last call of this or [`poll`](Self::poll).
    #[inline]
    pub(crate) fn take_ready(&mut self, cx: &mut Context<'_>, interest: Interest, reactor: bool) -> bool {
        match self {
            Self::Reactor(source) => {
                let request = if interest.write { &source.write } else { &source.read };
                request.wake_flag.is_woken() && self.poll(cx, interest, reactor).is_ready()
            }
            Self::AlwaysReady(_) => true,
        }
    }

    /// Ready when an operation that blocked should be tried again.
    ///
    /// `reactor` forces the use of the reactor instead of the poller of [`block_on`](crate::block_on()).
    #[inline]
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        interest: Interest,
        reactor: bool,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Reactor(watched) => {
                let ReactorSource { source, read, write } = &mut **watched;
                let request = if interest.write { write } else { read };
                let current = if reactor { None } else { crate::block_on::current_poller() };
                request.poll(cx, source, interest, current)
            }
            Self::AlwaysReady(timer) => {
                let wait = timer.get_or_insert_with(|| Timer::after(RETRY_INTERVAL));
                ready!(Pin::new(wait).poll(cx));
                *timer = None;
                Poll::Ready(Ok(()))
            }
        }
    }
}

/// State of one direction.
#[cfg(unix)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DirectionState {
    /// An operation may succeed.
    MaybeReady,
    /// The last operation blocked: wait for readiness before the next.
    Blocked,
}

#[cfg(unix)]
impl WatchedFd {
    #[inline]
    fn new(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self {
            watch: DescriptorWatch::new(fd)?,
            read: DirectionState::MaybeReady,
            write: DirectionState::MaybeReady,
        })
    }

    /// Ready when an operation should be tried.
    #[inline]
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

#[cfg(unix)]
impl<D: Duplex> ReactorStream<D> {
    /// Watches `stream`, whose reads must not block.
    #[inline]
    pub(crate) fn new(stream: D) -> io::Result<Self> {
        let fds = stream.descriptors();
        let unsupported =
            || io::Error::new(ErrorKind::Unsupported, "the stream has no file descriptor to wait for");
        let input = fds.read.ok_or_else(unsupported)?;
        let output = fds.write.filter(|fd| fd.as_raw_fd() != input.as_raw_fd());
        let output = output.map(WatchedFd::new).transpose()?;
        let stderr = fds.auxiliary.map(WatchedFd::new).transpose()?;
        let input = WatchedFd::new(input)?;
        Ok(Self { input, output, stderr, stream })
    }

    /// Reads the stderr of the process behind the stream until it blocks.
    #[allow(dead_code, reason = "for clients of server processes")]
    pub(crate) fn poll_stderr(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while let Some(stderr) = &mut self.stderr {
            stderr.read = DirectionState::Blocked;
            match stderr.poll(cx, Interest::READ) {
                Poll::Pending => break,
                Poll::Ready(outcome) => outcome?,
            }
            self.stream.wait(Interest::default(), Some(Duration::ZERO))?;
            if self.stream.descriptors().auxiliary.is_none() {
                self.stderr = None;
            }
        }
        Ok(())
    }

    /// Closes the write direction.
    pub(crate) fn shutdown_write(&mut self) -> io::Result<()> {
        self.output = None;
        self.stream.shutdown_write()
    }
}

#[cfg(unix)]
impl<D: Duplex + Unpin> AsyncRead for ReactorStream<D> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let Self { input, stream, .. } = self.get_mut();
        let outcome = input.attempt(cx, Interest::READ, || stream.read(buf));
        if matches!(outcome, Poll::Ready(Ok(n)) if n < buf.len() && n > 0) {
            // A short read emptied the descriptor: wait without another try.
            input.read = DirectionState::Blocked;
        }
        outcome
    }
}

#[cfg(unix)]
impl<D: Duplex + Unpin> AsyncWrite for ReactorStream<D> {
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

/// A stream during one poll of a future, as a [`Duplex`].
///
/// An operation that is not ready returns `WouldBlock` and wakes the future later.
pub(crate) struct PollScopedStream<'a, 'cx, S> {
    pub(crate) stream: &'a mut S,
    pub(crate) cx: &'a mut Context<'cx>,
    /// Whether bytes or the end of input were read.
    pub(crate) made_progress: bool,
    /// The timeout of the last [`wait`](Duplex::wait).
    pub(crate) timeout: Option<Duration>,
}

impl<'a, 'cx, S> PollScopedStream<'a, 'cx, S> {
    #[inline]
    pub(crate) fn new(stream: &'a mut S, cx: &'a mut Context<'cx>) -> Self {
        Self { stream, cx, made_progress: false, timeout: None }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for PollScopedStream<'_, '_, S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match Pin::new(&mut *self.stream).poll_read(self.cx, buf) {
            Poll::Pending => Err(ErrorKind::WouldBlock.into()),
            Poll::Ready(outcome) => {
                self.made_progress = true;
                outcome
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match Pin::new(&mut *self.stream).poll_write(self.cx, bytes) {
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

/// Time between two tries on a descriptor that cannot be watched.
#[cfg(unix)]
const RETRY_INTERVAL: Duration = Duration::from_millis(1);
