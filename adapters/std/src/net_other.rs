//! Many sockets at once, where they cannot be polled: refused

use core::convert::Infallible;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;

use crate::duplex::{Interest, Ready};
use crate::socket::Socket;

/// A TCP listener; there is none on this platform
#[derive(Debug)]
pub struct Listener(Infallible);

impl Listener {
    /// Fails
    ///
    /// # Errors
    ///
    /// `Unsupported`.
    pub fn bind(_: impl ToSocketAddrs) -> io::Result<Self> {
        Err(unsupported())
    }

    /// Where it listens
    ///
    /// # Errors
    ///
    /// None.
    pub fn address(&self) -> io::Result<SocketAddr> {
        match self.0 {}
    }

    /// The next connection
    ///
    /// # Errors
    ///
    /// None.
    pub fn accept(&self) -> io::Result<Option<Socket>> {
        match self.0 {}
    }
}

/// Whether `error` says that this process or machine has no room for another connection now
#[must_use]
pub fn is_exhausted(_: &io::Error) -> bool {
    false
}

impl Socket {
    /// Fails
    ///
    /// # Errors
    ///
    /// `Unsupported`.
    pub fn connect(_: SocketAddr) -> io::Result<Self> {
        Err(unsupported())
    }

    /// What came of [`connect`](Self::connect)
    ///
    /// # Errors
    ///
    /// `Unsupported`.
    pub fn connected(&self) -> io::Result<()> {
        Err(unsupported())
    }
}

impl Socket {
    /// Does nothing
    ///
    /// # Errors
    ///
    /// None.
    pub fn reset_when_dropped(&self) -> io::Result<()> {
        Ok(())
    }
}

/// What is waited for among others
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A client that wants to connect counts as readable
    Listener(&'a Listener),
    /// A stream
    Socket(&'a Socket),
}

/// A wait for many sockets; there is none on this platform
#[derive(Debug, Default)]
pub struct Poll(());

impl Poll {
    /// None yet
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }

    /// Fails
    ///
    /// # Errors
    ///
    /// `Unsupported`.
    pub fn wait<'a>(
        &mut self,
        _: impl Iterator<Item = (Source<'a>, Interest)>,
        _: Option<Duration>,
    ) -> io::Result<&[Ready]> {
        Err(unsupported())
    }
}

fn unsupported() -> io::Error {
    io::Error::new(ErrorKind::Unsupported, "many sockets at once cannot be waited for on this platform")
}
