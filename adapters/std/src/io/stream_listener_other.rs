//! Listeners for byte streams, which this platform does not support.

use core::convert::Infallible;
use std::io::{self, ErrorKind};

use crate::io::{Socket, StreamAddress};

/// A listener for byte streams; it cannot be created on this platform.
#[derive(Debug)]
pub struct StreamListener(Infallible);

impl StreamListener {
    /// Fails on this platform: accept connections with `std`, and serve each [`Socket`] on a thread of its own.
    ///
    /// # Errors
    ///
    /// Always `Unsupported`.
    pub fn bind(address: &StreamAddress) -> io::Result<Self> {
        let why =
            format!("cannot listen at {address}: this platform cannot wait for several sockets at once");
        Err(io::Error::new(ErrorKind::Unsupported, why))
    }

    /// Returns the address that the listener is bound to.
    ///
    /// # Errors
    ///
    /// None.
    pub fn address(&self) -> io::Result<StreamAddress> {
        match self.0 {}
    }

    /// Returns whether other machines can reach the address.
    ///
    /// # Errors
    ///
    /// None.
    pub fn is_reachable_from_outside(&self) -> io::Result<bool> {
        match self.0 {}
    }

    /// Accepts the next connection.
    ///
    /// # Errors
    ///
    /// None.
    pub fn accept(&self) -> io::Result<Option<Socket>> {
        match self.0 {}
    }
}
