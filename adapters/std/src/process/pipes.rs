//! Stdin and stdout of a server as one byte stream, on Unix.

use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdin, ChildStdout};
use std::time::Instant;

use super::CapturedStderr;
use crate::io::{Duplex, retry_on_interrupt};
use crate::poll::LazyNotifier;
use crate::poll::PollHandles;
use crate::poll::{Descriptors, Interest, Ready};

/// The non-blocking pipes of a server process: writes go to its stdin, reads come from its stdout.
///
/// Each wait also reads the server's stderr, if it is captured. Dropping the stream closes both pipes.
#[derive(Debug)]
pub struct ChildIo {
    /// `None` after the end was written.
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    /// `None` if it is not captured, or has ended.
    stderr: Option<CapturedStderr>,
    notifier: LazyNotifier,
    /// Whether bytes could not be written, because nobody reads them any more.
    is_refused: bool,
}

impl ChildIo {
    pub(super) fn new(
        stdin: ChildStdin,
        stdout: ChildStdout,
        stderr: Option<CapturedStderr>,
    ) -> io::Result<Self> {
        // Each end has a description of its own, so the server's ends stay blocking.
        rustix::io::ioctl_fionbio(&stdin, true)?;
        rustix::io::ioctl_fionbio(&stdout, true)?;
        Ok(Self { stdin: Some(stdin), stdout, stderr, notifier: LazyNotifier::default(), is_refused: false })
    }

    /// Returns whether the server has left some of what was written to it unread; `false` where the system does not tell.
    #[must_use]
    pub fn has_unread_input(&self) -> bool {
        let unread = |stdin| rustix::io::ioctl_fionread(stdin).is_ok_and(|length| length > 0);
        self.is_refused || self.stdin.as_ref().is_some_and(unread)
    }

    fn note_refusal(&mut self, written: io::Result<usize>) -> io::Result<usize> {
        self.is_refused |= written.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe);
        written
    }
}

impl Duplex for ChildIo {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        retry_on_interrupt(|| self.stdout.read(buf))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(stdin) = &mut self.stdin else { return Err(ErrorKind::BrokenPipe.into()) };
        let written = retry_on_interrupt(|| stdin.write(bytes));
        self.note_refusal(written)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(stdin) = &mut self.stdin else { return Err(ErrorKind::BrokenPipe.into()) };
        let written = retry_on_interrupt(|| stdin.write_vectored(parts));
        self.note_refusal(written)
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        interest.check(timeout, || self.notifier.notifier().is_some())?;
        if interest.write && self.stdin.is_none() {
            return Ok(Ready { readable: false, writable: true });
        }
        // With stderr in the same wait, one call may take several polls; without it the clock is not read.
        let started = (timeout.is_some() && self.stderr.is_some()).then(Instant::now);
        let mut left = timeout;
        loop {
            let found = PollHandles {
                read: interest.read.then(|| self.stdout.as_fd()),
                write: self.stdin.as_ref().filter(|_| interest.write).map(AsFd::as_fd),
                auxiliary: self.stderr.as_ref().map(AsFd::as_fd),
                notifier: self.notifier.notifier(),
            }
            .wait(left)?;
            if found.auxiliary && !self.stderr.as_ref().is_some_and(CapturedStderr::drain) {
                self.stderr = None;
            }
            if found.read || found.write || found.notified || !found.auxiliary {
                return Ok(Ready { readable: found.read, writable: found.write });
            }
            if let (Some(timeout), Some(started)) = (timeout, started) {
                left = Some(timeout.saturating_sub(started.elapsed()));
                if left == Some(Duration::ZERO) {
                    return Ok(Ready::default());
                }
            }
        }
    }

    fn waker(&mut self) -> io::Result<Waker> {
        self.notifier.waker()
    }

    fn descriptors(&self) -> Descriptors<'_> {
        Descriptors {
            read: Some(self.stdout.as_fd()),
            write: self.stdin.as_ref().map(AsFd::as_fd),
            auxiliary: self.stderr.as_ref().map(AsFd::as_fd),
        }
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.stdin = None;
        Ok(())
    }
}
