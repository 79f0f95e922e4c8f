//! Stdin and stdout of this process as one byte stream, where they cannot be polled.

use core::task::Waker;
use core::time::Duration;
use std::io::{self, IoSlice};

use crate::adapter::poll::{Interest, Ready};
use crate::io::Threaded;
use crate::io::{Duplex, HungUp};

/// Stdin and stdout of this process, through one thread each (see [`Threaded`]).
///
/// Call [`flush`](Duplex::flush) before the process ends.
#[derive(Debug)]
pub struct Stdio(Threaded);

impl Stdio {
    /// Opens stdin and stdout as they are; other output of the program to stdout mixes with the stream.
    ///
    /// # Errors
    ///
    /// The error of the operating system if a thread cannot be started.
    pub fn open() -> io::Result<Self> {
        Threaded::new(io::stdin(), io::stdout()).map(Self)
    }

    /// The same as [`open`](Self::open); stdout cannot be guarded on this platform.
    ///
    /// # Errors
    ///
    /// The same as [`open`](Self::open).
    pub fn guarded() -> io::Result<Self> {
        Self::open()
    }

    /// Does nothing: a thread waits for stdin, and `read` never blocks.
    ///
    /// # Errors
    ///
    /// None.
    pub fn set_read_nonblocking(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Duplex for Stdio {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(parts)
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        self.0.wait(interest, timeout)
    }

    fn waker(&mut self) -> io::Result<Waker> {
        self.0.waker()
    }

    fn hung_up(&mut self) -> io::Result<HungUp> {
        self.0.hung_up()
    }

    /// Ends the stream. The handle itself stays open until the process ends.
    fn shutdown_write(&mut self) -> io::Result<()> {
        self.0.shutdown_write()
    }

    fn flush(&mut self, timeout: Duration) -> io::Result<()> {
        self.0.flush(timeout)
    }
}
