//! Waiting for handles with `poll(2)`
//!
//! `poll`, because `epoll` refuses regular files (`server < requests > answers` must work) and a few handles
//! need nothing better.

use alloc::vec::Vec;
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::alarm::Bell;
use crate::duplex::HungUp;

/// The handles of one wait; `None` means "not wanted", and then nothing about that handle can wake the wait
#[derive(Clone, Copy, Default)]
pub(crate) struct Handles<'fd> {
    /// Wanted for reading
    pub(crate) read: Option<BorrowedFd<'fd>>,
    /// Wanted for writing
    pub(crate) write: Option<BorrowedFd<'fd>>,
    /// A second one for reading (a child's stderr)
    pub(crate) aside: Option<BorrowedFd<'fd>>,
    /// Ends the wait when it is rung
    pub(crate) bell: Option<&'fd Bell>,
}

/// Which of them are ready; errors and hang-ups count as ready, so that the next call on the handle reports
/// them
#[derive(Clone, Copy, Default)]
pub(crate) struct Found {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) aside: bool,
    /// The bell was rung; it is silent again
    pub(crate) woken: bool,
}

impl Handles<'_> {
    /// Waits until one is ready or the bell is rung, `timeout` has passed (`None`: no limit) or a signal arrived
    ///
    /// Very long timeouts end early, after [`LONGEST`].
    pub(crate) fn wait(self, timeout: Option<Duration>) -> io::Result<Found> {
        let bell = self.bell.map(Bell::as_fd);
        let wanted = [
            (self.read, PollFlags::IN),
            (self.write, PollFlags::OUT),
            (self.aside, PollFlags::IN),
            (bell, PollFlags::IN),
        ];
        let timeout = timeout.map(|timeout| timeout.min(LONGEST));
        let Some(some) = self.read.or(self.write).or(self.aside).or(bell) else {
            std::thread::sleep(timeout.unwrap_or(LONGEST));
            return Ok(Found::default());
        };

        // An entry without wanted events would still wake for a hang-up, so the entries in use are moved to
        // the front and the rest is cut off. No allocation on this path.
        let mut entries = [some; 4].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::empty()));
        let mut len = 0;
        for (fd, flags) in wanted {
            if let Some(fd) = fd {
                entries[len] = PollFd::from_borrowed_fd(fd, flags);
                len += 1;
            }
        }
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut entries[..len], timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Found::default()),
            Err(error) => return Err(error.into()),
        }
        let mut answers = entries[..len].iter().map(|entry| !entry.revents().is_empty());
        let mut answer = |wanted: bool| wanted && answers.next().unwrap_or_default();
        let found = Found {
            read: answer(self.read.is_some()),
            write: answer(self.write.is_some()),
            aside: answer(self.aside.is_some()),
            woken: answer(bell.is_some()),
        };
        if let (Some(bell), true) = (self.bell, found.woken) {
            bell.silence();
        }
        Ok(found)
    }
}

/// Waits until one of these is ready, for writing where that is said and for reading elsewhere, or `timeout` has passed
pub(crate) fn wait_any<'fd>(
    all: impl Iterator<Item = (BorrowedFd<'fd>, bool)>,
    timeout: Option<Duration>,
) -> io::Result<()> {
    let entry = |(fd, writes)| {
        let flags = if writes { PollFlags::OUT } else { PollFlags::IN };
        PollFd::from_borrowed_fd(fd, flags)
    };
    let mut entries: Vec<PollFd<'fd>> = all.map(entry).collect();
    let timeout = timeout.map_or(LONGEST, |timeout| timeout.min(LONGEST));
    match poll(&mut entries, Timespec::try_from(timeout).ok().as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Which of an input and an output the other end has closed; does not wait
pub(crate) fn hung_up(input: BorrowedFd<'_>, output: Option<BorrowedFd<'_>>) -> io::Result<HungUp> {
    let gone = PollFlags::HUP | PollFlags::ERR | HALF;
    let mut entries = [
        PollFd::from_borrowed_fd(input, HALF),
        PollFd::from_borrowed_fd(output.unwrap_or(input), PollFlags::empty()),
    ];
    match poll(&mut entries, Some(&Timespec::default())) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(HungUp::default()),
        Err(error) => return Err(error.into()),
    }
    let [input, other] = entries.map(|entry| entry.revents().intersects(gone));
    Ok(HungUp { input, output: output.is_some() && other })
}

/// A socket's peer has ended its direction
#[cfg(target_os = "linux")]
const HALF: PollFlags = PollFlags::RDHUP;
#[cfg(not(target_os = "linux"))]
const HALF: PollFlags = PollFlags::empty();

/// Some systems count the timeout in milliseconds in an `int`; callers loop, so an early end does no harm
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
