//! A selector for platforms whose sockets cannot be polled: it cannot be created.

use core::convert::Infallible;
use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind};

use super::{Interest, Ready};

/// A wait for many sockets; it cannot be created on this platform.
#[derive(Debug)]
pub struct Selector(Infallible);

impl Selector {
    /// Fails on this platform.
    ///
    /// # Errors
    ///
    /// Always `Unsupported`.
    pub fn new() -> io::Result<Self> {
        Err(io::Error::new(ErrorKind::Unsupported, "this platform cannot wait for several sockets at once"))
    }

    /// Registers a source.
    ///
    /// # Errors
    ///
    /// None.
    pub fn add<S>(&mut self, _: &S, _: u64, _: Interest) -> io::Result<()> {
        match self.0 {}
    }

    /// Changes the interest in a registered source.
    ///
    /// # Errors
    ///
    /// None.
    pub fn modify<S>(&mut self, _: &S, _: u64, _: Interest) -> io::Result<()> {
        match self.0 {}
    }

    /// Removes a source.
    ///
    /// # Errors
    ///
    /// None.
    pub fn remove<S>(&mut self, _: &S, _: u64) -> io::Result<()> {
        match self.0 {}
    }

    /// Waits until a source is ready.
    ///
    /// # Errors
    ///
    /// None.
    pub fn wait(&mut self, _: Option<Duration>, _: &mut Vec<(u64, Ready)>) -> io::Result<()> {
        match self.0 {}
    }

    /// Returns a waker that ends a wait early.
    ///
    /// # Errors
    ///
    /// None.
    pub fn waker(&mut self) -> io::Result<Waker> {
        match self.0 {}
    }
}
