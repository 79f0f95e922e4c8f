//! Stdin and stdout of this process on threads, where the reactor cannot watch them.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;

use blocking::Unblock;
use futures_lite::{AsyncRead, AsyncWrite};
use mcp_runtime::runtime::StdioStream;
use mcp_std::io::HungUp;

use crate::unblocked_output::{CAPACITY, UnblockedOutput};

/// Stdin and stdout of this process, as one byte stream.
///
/// They are read and written on threads of the package `blocking`, with up to 64 KiB in between. A read that is under way when
/// this is dropped goes on, and takes up to as many bytes.
#[derive(Debug)]
pub struct Stdio {
    input: Unblock<io::Stdin>,
    output: UnblockedOutput<io::Stdout>,
}

impl Stdio {
    /// Opens stdin and stdout. Other output of this process to stdout goes into the stream.
    ///
    /// # Errors
    ///
    /// None on this platform.
    pub fn open() -> io::Result<Self> {
        let input = Unblock::with_capacity(CAPACITY, io::stdin());
        let output = UnblockedOutput::new(io::stdout());
        Ok(Self { input, output })
    }

    /// The same as [`open`](Self::open); stdout cannot be guarded on this platform.
    ///
    /// # Errors
    ///
    /// None on this platform.
    pub fn guarded() -> io::Result<Self> {
        Self::open()
    }
}

impl StdioStream for Stdio {
    fn guarded() -> io::Result<Self> {
        Self::guarded()
    }

    /// Nothing is known but by reading and writing.
    fn hung_up(&mut self) -> HungUp {
        HungUp::default()
    }
}

impl AsyncRead for Stdio {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().input).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stdio {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().output.poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().output.poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().output.poll_close(cx)
    }
}
