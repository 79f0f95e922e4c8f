//! Readiness of descriptors, by the reactor of tokio.

use alloc::sync::Arc;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use mcp_runtime::runtime::{AsyncTimer, DescriptorWatch};
use mcp_std::io::Interest;
use mcp_std::poll::is_ready;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

use crate::runtime::TokioTimer;

/// A descriptor known to the reactor.
#[expect(unnameable_types, reason = "callers use it as the type of `Runtime`")]
#[derive(Debug)]
pub struct FdWatch {
    source: Source,
    read: Direction,
    write: Direction,
}

#[derive(Debug)]
enum Source {
    Reactor(AsyncFd<Arc<OwnedFd>>),
    /// A descriptor that is always ready (a regular file). If it is not, it is tried again after the timer.
    AlwaysReady(TokioTimer),
}

/// State of one direction.
///
/// The reactor reports a change once, and callers do not always use up what there is. So the state is checked before
/// the first wait after a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// It was found ready.
    Ready,
    /// That was taken note of. There may be something left.
    Taken,
    /// The direction was checked and was blocked.
    Blocked,
}

impl FdWatch {
    /// Ready when the reactor reports a change, which is then used up.
    fn poll_report(&self, cx: &mut Context<'_>, interest: Interest) -> Poll<io::Result<()>> {
        let Source::Reactor(fd) = &self.source else { return Poll::Pending };
        let mut guard =
            ready!(if interest.write { fd.poll_write_ready(cx) } else { fd.poll_read_ready(cx) })?;
        guard.clear_ready();
        Poll::Ready(Ok(()))
    }

    fn direction(&mut self, interest: Interest) -> &mut Direction {
        if interest.write { &mut self.write } else { &mut self.read }
    }
}

impl DescriptorWatch for FdWatch {
    fn new(fd: BorrowedFd<'_>, interest: Interest) -> io::Result<Self> {
        Handle::try_current().map_err(io::Error::other)?;
        let fd = Arc::new(fd.try_clone_to_owned()?);
        let directions = match (interest.read, interest.write) {
            (_, false) => tokio::io::Interest::READABLE,
            (false, true) => tokio::io::Interest::WRITABLE,
            (true, true) => tokio::io::Interest::READABLE | tokio::io::Interest::WRITABLE,
        };
        #[allow(
            deprecated,
            reason = "newer versions of tokio have an unsafe function instead, for types that are not safe"
        )]
        let source = match AsyncFd::with_interest(fd, directions) {
            Ok(fd) => Source::Reactor(fd),
            Err(error) if mcp_std::io::is_resource_exhausted(&error) => return Err(error),
            // Descriptors that are always ready are refused, with different errors on different systems.
            Err(_) => Source::AlwaysReady(TokioTimer::never()),
        };
        Ok(Self { source, read: Direction::Taken, write: Direction::Taken })
    }

    fn take_ready(&mut self, cx: &mut Context<'_>, interest: Interest, _: bool) -> bool {
        let is_reported = match self.source {
            Source::Reactor(_) => self.poll_report(cx, interest).is_ready(),
            Source::AlwaysReady(_) => return true,
        };
        let direction = self.direction(interest);
        let is_found = is_reported || *direction == Direction::Ready;
        if is_found {
            *direction = Direction::Taken;
        }
        is_found
    }

    fn poll(&mut self, cx: &mut Context<'_>, interest: Interest, _: bool) -> Poll<io::Result<()>> {
        if let Source::AlwaysReady(timer) = &mut self.source {
            if let TokioTimer::Never = timer {
                timer.reset(Instant::now() + RETRY_INTERVAL);
            }
            return timer.poll(cx).map(Ok);
        }
        let report = self.poll_report(cx, interest);
        let Source::Reactor(fd) = &self.source else { return Poll::Pending };
        let was_blocked = *if interest.write { &self.write } else { &self.read } == Direction::Blocked;
        let is_found = report.is_ready() || (!was_blocked && is_ready(fd.as_fd(), interest)?);
        *self.direction(interest) = if is_found { Direction::Ready } else { Direction::Blocked };
        match report {
            Poll::Pending if is_found => Poll::Ready(Ok(())),
            report => report,
        }
    }
}

/// Time between two tries on a descriptor that cannot be watched.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);
