//! Serial lines, which this platform does not support.

use core::convert::Infallible;
use core::time::Duration;
use std::io::{self, ErrorKind};

use super::SerialConfig;
use crate::adapter::poll::{Interest, Ready};
use crate::io::Duplex;

/// An open serial line; it cannot be created on this platform.
#[derive(Debug)]
pub struct SerialPort(Infallible);

impl SerialPort {
    /// Fails on this platform.
    ///
    /// # Errors
    ///
    /// Always `Unsupported`.
    pub fn open(_: &SerialConfig) -> io::Result<Self> {
        Err(io::Error::new(ErrorKind::Unsupported, "serial lines need a Unix system"))
    }
}

impl Duplex for SerialPort {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }

    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match self.0 {}
    }

    fn wait(&mut self, _: Interest, _: Option<Duration>) -> io::Result<Ready> {
        match self.0 {}
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        match self.0 {}
    }
}
