//! A server's stdin and stdout as one stream, on Unix

use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdin, ChildStdout};
use std::time::Instant;

use super::CapturedStderr;
use crate::alarm::Alarm;
use crate::duplex::{Descriptors, Duplex, Interest, Ready, uninterrupted};
use crate::readiness::Handles;

/// The pipes of a server process, non-blocking: we write its stdin and read its stdout
///
/// While it waits it also reads the server's stderr, if that is captured. Dropping it closes both pipes.
#[derive(Debug)]
pub struct ChildIo {
    /// `None` after the end was written
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    /// `None` when not captured, or at its end
    stderr: Option<CapturedStderr>,
    alarm: Alarm,
}

impl ChildIo {
    pub(super) fn new(
        stdin: ChildStdin,
        stdout: ChildStdout,
        stderr: Option<CapturedStderr>,
    ) -> io::Result<Self> {
        // Our ends have descriptions of their own: the server's ends stay blocking, as it expects.
        rustix::io::ioctl_fionbio(&stdin, true)?;
        rustix::io::ioctl_fionbio(&stdout, true)?;
        Ok(Self { stdin: Some(stdin), stdout, stderr, alarm: Alarm::default() })
    }
}

impl Duplex for ChildIo {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        uninterrupted(|| self.stdout.read(buf))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(stdin) = &mut self.stdin else { return Err(ErrorKind::BrokenPipe.into()) };
        uninterrupted(|| stdin.write(bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(stdin) = &mut self.stdin else { return Err(ErrorKind::BrokenPipe.into()) };
        uninterrupted(|| stdin.write_vectored(parts))
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        interest.check(timeout, || self.alarm.bell().is_some())?;
        if interest.write && self.stdin.is_none() {
            return Ok(Ready { readable: false, writable: true });
        }
        // With stderr in the same wait, one call may be several polls. Without it, no clock is read.
        let started = (timeout.is_some() && self.stderr.is_some()).then(Instant::now);
        let mut left = timeout;
        loop {
            let found = Handles {
                read: interest.read.then(|| self.stdout.as_fd()),
                write: self.stdin.as_ref().filter(|_| interest.write).map(AsFd::as_fd),
                aside: self.stderr.as_ref().map(AsFd::as_fd),
                bell: self.alarm.bell(),
            }
            .wait(left)?;
            if found.aside && !self.stderr.as_ref().is_some_and(CapturedStderr::drain) {
                self.stderr = None;
            }
            if found.read || found.write || found.woken || !found.aside {
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
        self.alarm.waker()
    }

    fn descriptors(&self) -> Descriptors<'_> {
        Descriptors {
            read: Some(self.stdout.as_fd()),
            write: self.stdin.as_ref().map(AsFd::as_fd),
            aside: self.stderr.as_ref().map(AsFd::as_fd),
        }
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.stdin = None;
        Ok(())
    }
}
