//! Many sockets at once, where they cannot be polled: refused

use core::convert::Infallible;
use core::net::SocketAddr;
use core::task::Waker;
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

/// A wait for many sockets; there is none on this platform
#[derive(Debug)]
pub struct Selector(Infallible);

impl Selector {
    /// Fails
    ///
    /// # Errors
    ///
    /// `Unsupported`.
    pub fn new() -> io::Result<Self> {
        Err(unsupported())
    }

    /// Waits for one more
    ///
    /// # Errors
    ///
    /// None.
    pub fn add<S>(&mut self, _: &S, _: u64, _: Interest) -> io::Result<()> {
        match self.0 {}
    }

    /// Waits for something else
    ///
    /// # Errors
    ///
    /// None.
    pub fn modify<S>(&mut self, _: &S, _: u64, _: Interest) -> io::Result<()> {
        match self.0 {}
    }

    /// Waits for it no more
    ///
    /// # Errors
    ///
    /// None.
    pub fn remove<S>(&mut self, _: &S, _: u64) -> io::Result<()> {
        match self.0 {}
    }

    /// Waits until one can move
    ///
    /// # Errors
    ///
    /// None.
    pub fn wait(&mut self, _: Option<Duration>, _: &mut Vec<(u64, Ready)>) -> io::Result<()> {
        match self.0 {}
    }

    /// What ends a wait early
    ///
    /// # Errors
    ///
    /// None.
    pub fn waker(&mut self) -> io::Result<Waker> {
        match self.0 {}
    }
}

fn unsupported() -> io::Error {
    io::Error::new(ErrorKind::Unsupported, "many sockets at once cannot be waited for on this platform")
}
