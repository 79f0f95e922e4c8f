//! Stdin and stdout of this process on threads of tokio, where the reactor cannot watch them.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;

use mcp_runtime::runtime::StdioStream;
use mcp_std::io::HungUp;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, Stdin, Stdout};

/// Stdin and stdout of this process, as one byte stream.
///
/// A thread of tokio waits for input. A runtime that is dropped waits for it, unless `Runtime::shutdown_background` is called.
#[derive(Debug)]
pub struct Stdio {
    input: Stdin,
    output: Stdout,
}

impl Stdio {
    /// Opens stdin and stdout. Other output of this process to stdout goes into the stream.
    ///
    /// # Errors
    ///
    /// None on this platform.
    pub fn open() -> io::Result<Self> {
        Ok(Self { input: tokio::io::stdin(), output: tokio::io::stdout() })
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
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().input).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stdio {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().output).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().output).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().output).poll_shutdown(cx)
    }
}
