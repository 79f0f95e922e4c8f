//! TCP listeners and connecting sockets, which this platform does not support.

use core::convert::Infallible;
use core::net::SocketAddr;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;

use crate::io::Socket;

/// A TCP listener; it cannot be created on this platform.
#[derive(Debug)]
pub struct Listener(Infallible);

impl Listener {
    /// Fails on this platform.
    ///
    /// # Errors
    ///
    /// Always `Unsupported`.
    pub fn bind(_: impl ToSocketAddrs) -> io::Result<Self> {
        Err(unsupported())
    }

    /// Returns the address that the listener is bound to.
    ///
    /// # Errors
    ///
    /// None.
    pub fn address(&self) -> io::Result<SocketAddr> {
        match self.0 {}
    }

    /// Accepts the next connection.
    ///
    /// # Errors
    ///
    /// None.
    pub fn accept(&self) -> io::Result<Option<(Socket, SocketAddr)>> {
        match self.0 {}
    }

    /// Returns whether a connection is waiting.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        match self.0 {}
    }
}

/// Returns whether `error` means that this process or machine has no resources for another connection now.
#[must_use]
pub fn is_resource_exhausted(_: &io::Error) -> bool {
    false
}

impl Socket {
    /// Fails on this platform.
    ///
    /// # Errors
    ///
    /// Always `Unsupported`.
    pub fn connect(_: SocketAddr) -> io::Result<Self> {
        Err(unsupported())
    }

    /// Returns the outcome of [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// Always `Unsupported`.
    pub fn connect_result(&self) -> io::Result<()> {
        Err(unsupported())
    }
}

impl Socket {
    /// Does nothing.
    ///
    /// # Errors
    ///
    /// None.
    pub fn set_reset_on_drop(&self) -> io::Result<()> {
        Ok(())
    }

    #[expect(clippy::unused_self, reason = "same signature as on other platforms")]
    pub(crate) const fn probe_silent_peer(&self) {}

    #[cfg(feature = "http")]
    pub(crate) fn has_input(&self) -> bool {
        false
    }
}

fn unsupported() -> io::Error {
    io::Error::new(ErrorKind::Unsupported, "this platform cannot wait for several sockets at once")
}
