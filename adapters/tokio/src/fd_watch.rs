//! Readiness of descriptors, by the reactor of tokio.

use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use mcp_std::adapter::poll::is_ready;
use mcp_std::adapter::runtime::{AsyncTimer, DescriptorWatch};
use mcp_std::io::Interest;
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
    Reactor(AsyncFd<OwnedFd>),
    /// A descriptor that is always ready (a regular file). If it is not, it is tried again after the timer.
    AlwaysReady(TokioTimer),
}

/// State of one direction.
///
/// The reactor reports a change once, and callers do not always use up what there is. So the state is checked before
/// the first wait after a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// There may be something left since the last report.
    Reported,
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
    fn new(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Handle::try_current().map_err(io::Error::other)?;
        #[allow(
            deprecated,
            reason = "newer versions of tokio have an unsafe function instead, for types that are not safe"
        )]
        let source = match AsyncFd::new(fd.try_clone_to_owned()?) {
            Ok(fd) => Source::Reactor(fd),
            Err(error) if mcp_std::io::is_resource_exhausted(&error) => return Err(error),
            // Descriptors that are always ready are refused, with different errors on different systems.
            Err(_) => Source::AlwaysReady(TokioTimer::never()),
        };
        Ok(Self { source, read: Direction::Reported, write: Direction::Reported })
    }

    fn take_ready(&mut self, cx: &mut Context<'_>, interest: Interest, _: bool) -> bool {
        let found = match self.source {
            Source::Reactor(_) => self.poll_report(cx, interest).is_ready(),
            Source::AlwaysReady(_) => true,
        };
        if found {
            *self.direction(interest) = Direction::Reported;
        }
        found
    }

    fn poll(&mut self, cx: &mut Context<'_>, interest: Interest, _: bool) -> Poll<io::Result<()>> {
        if let Source::AlwaysReady(timer) = &mut self.source {
            if let TokioTimer::Never = timer {
                timer.reset(Instant::now() + RETRY_INTERVAL);
            }
            return timer.poll(cx).map(Ok);
        }
        if let Poll::Ready(report) = self.poll_report(cx, interest) {
            *self.direction(interest) = Direction::Reported;
            return Poll::Ready(report);
        }
        let Source::Reactor(fd) = &self.source else { return Poll::Pending };
        let is_reported = *if interest.write { &self.write } else { &self.read } == Direction::Reported;
        if is_reported && is_ready(fd.as_fd(), interest)? {
            return Poll::Ready(Ok(()));
        }
        *self.direction(interest) = Direction::Blocked;
        Poll::Pending
    }
}

/// Time between two tries on a descriptor that cannot be watched.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);
