//! Stdin and stdout of this process, watched by the reactor.

use std::io;

use mcp_runtime::runtime::{StdioStream, WatchedStream};
use mcp_std::io::{Duplex, HungUp};

use crate::ByteStream;

/// Stdin and stdout of this process, as one byte stream.
///
/// The reactor watches pipes, sockets and terminals. On Linux it refuses only files, and devices that make no reader wait for a
/// peer: these are read and written at once. A file of a slow network share delays the executor's thread. Elsewhere, handles that it refuses are read and written on threads of the
/// package `blocking`, with up to 64 KiB in between. Neither handle is set to non-blocking, so processes that share them are
/// not affected. See [`mcp_std::io::Stdio`].
// Threads for files would add 40 KB to each program.
pub type Stdio = ByteStream<mcp_std::io::Stdio>;

impl Stdio {
    /// Opens stdin and stdout. Other output of this process to stdout goes into the stream.
    ///
    /// # Errors
    ///
    /// The I/O error if the descriptors cannot be duplicated, inspected or watched.
    #[inline]
    pub fn open() -> io::Result<Self> {
        Self::from_std(mcp_std::io::Stdio::open()?)
    }

    /// Opens stdin and stdout, and withholds both from the rest of the program until this is dropped.
    ///
    /// See [`mcp_std::io::Stdio::guarded`].
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and if they are already guarded.
    #[inline]
    pub fn guarded() -> io::Result<Self> {
        Self::from_std(mcp_std::io::Stdio::guarded()?)
    }

    #[inline]
    fn from_std(mut stdio: mcp_std::io::Stdio) -> io::Result<Self> {
        stdio.set_read_nonblocking()?;
        WatchedStream::new(stdio).map(Self)
    }
}

impl StdioStream for Stdio {
    #[inline]
    fn guarded() -> io::Result<Self> {
        Self::guarded()
    }

    #[inline]
    fn hung_up(&mut self) -> HungUp {
        self.0.get_mut().hung_up().unwrap_or_default()
    }
}
