//! Stdin and stdout of a server as one byte stream, where pipes cannot be polled.

use core::task::Waker;
use core::time::Duration;
use std::io;
use std::process::{ChildStdin, ChildStdout};

use super::CapturedStderr;
use crate::io::Duplex;
use crate::io::Threaded;
use crate::poll::{Interest, Ready};

/// The pipes of a server process, through one thread each: writes go to its stdin, reads come from its stdout.
///
/// Dropping it closes stdin once all accepted bytes are written.
#[derive(Debug)]
pub struct ChildIo(Threaded);

impl ChildIo {
    pub(super) fn new(stdin: ChildStdin, stdout: ChildStdout, _: Option<CapturedStderr>) -> io::Result<Self> {
        Threaded::new(stdout, stdin).map(Self)
    }

    /// Returns `false`: the system does not tell what the server has left unread.
    #[must_use]
    pub const fn has_unread_input(&self) -> bool {
        false
    }
}

impl Duplex for ChildIo {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        self.0.wait(interest, timeout)
    }

    fn waker(&mut self) -> io::Result<Waker> {
        self.0.waker()
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.0.shutdown_write()
    }

    fn flush(&mut self, timeout: Duration) -> io::Result<()> {
        self.0.flush(timeout)
    }
}
