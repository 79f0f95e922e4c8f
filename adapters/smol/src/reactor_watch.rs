//! Readiness of descriptors, by the reactor of `async-io` or by the poller of the current thread.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use core::time::Duration;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use async_io::{Async, Timer};
use mcp_runtime::runtime::DescriptorWatch;
use mcp_std::io::Interest;
use mcp_std::poll::{Poller, current_poller};
use mcp_std::sync::FlagWaker;

/// Readiness of a descriptor.
#[derive(Debug)]
#[expect(unnameable_types, reason = "callers use it as the type of `Runtime`")]
pub enum ReactorWatch {
    Reactor(Box<ReactorSource>),
    /// A descriptor that is always ready (a regular file). If it is not, it is tried again after the timer.
    AlwaysReady(Option<Timer>),
}

/// A descriptor known to the reactor, or to the poller of the current [`block_on`](crate::block_on()).
#[derive(Debug)]
#[expect(unnameable_types, reason = "in a variant of `ReactorWatch`")]
pub struct ReactorSource {
    source: Async<Arc<OwnedFd>>,
    read: ReadinessRequest,
    write: ReadinessRequest,
}

/// A registration for readiness in one direction.
///
/// `wake_flag` is authoritative, not the reactor's answer: the reactor may take a new event for an old one and report
/// that there is none.
#[derive(Debug)]
struct ReadinessRequest {
    wake_flag: Arc<FlagWaker>,
    waker: Waker,
    /// Whether readiness was requested and has not been reported.
    is_registered: bool,
    /// The poller that watches in place of the reactor, and its generation at that time.
    poller: Option<(Arc<Poller>, usize)>,
}

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

impl DescriptorWatch for ReactorWatch {
    /// Registers a duplicate of `fd` with the reactor.
    #[inline]
    fn new(fd: BorrowedFd<'_>, _: Interest) -> io::Result<Self> {
        // The reactor registers a direction when it is waited for.
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
    fn take_ready(&mut self, cx: &mut Context<'_>, interest: Interest, is_shared: bool) -> bool {
        match self {
            Self::Reactor(source) => {
                let request = if interest.write { &source.write } else { &source.read };
                request.wake_flag.is_woken() && self.poll(cx, interest, is_shared).is_ready()
            }
            Self::AlwaysReady(_) => true,
        }
    }

    /// Uses the reactor instead of the poller of [`block_on`](crate::block_on()) if the descriptor is shared.
    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>, interest: Interest, is_shared: bool) -> Poll<io::Result<()>> {
        match self {
            Self::Reactor(watched) => {
                let ReactorSource { source, read, write } = &mut **watched;
                let request = if interest.write { write } else { read };
                let current = if is_shared { None } else { current_poller() };
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

/// Time between two tries on a descriptor that cannot be watched.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);
