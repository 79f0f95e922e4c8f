//! This process' stdin and stdout, watched by the reactor

use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;

use futures_lite::{AsyncRead, AsyncWrite};
use mcp_std::{Duplex, HungUp};

use crate::io::Watched;

/// The standard input and output of this process, as one stream
///
/// Neither is set to non-blocking: whoever shares them notices nothing. See [`mcp_std::Stdio`].
#[derive(Debug)]
pub struct Stdio(Watched<mcp_std::Stdio>);

impl Stdio {
    /// Opens stdin and stdout as they are; whatever else prints to stdout prints into the stream
    ///
    /// # Errors
    ///
    /// When the handles cannot be duplicated, looked at or watched.
    #[inline]
    pub fn open() -> io::Result<Self> {
        Self::watch(mcp_std::Stdio::open()?)
    }

    /// Opens stdin and stdout and takes both away from the rest of the program, until it is dropped: see
    /// [`mcp_std::Stdio::guarded`]
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and when somebody else has taken them.
    #[inline]
    pub fn guarded() -> io::Result<Self> {
        Self::watch(mcp_std::Stdio::guarded()?)
    }

    #[inline]
    fn watch(mut stdio: mcp_std::Stdio) -> io::Result<Self> {
        stdio.never_block()?;
        Watched::new(stdio).map(Self)
    }

    /// Which directions the client has given up; what this fails with, reading and writing fail with too
    #[inline]
    pub(crate) fn hung_up(&mut self) -> HungUp {
        self.0.stream.hung_up().unwrap_or_default()
    }
}

impl AsyncRead for Stdio {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stdio {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(cx, bytes)
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(cx)
    }

    #[inline]
    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_close(cx)
    }
}
