//! Stdin and stdout of this process, except on Linux: watched by the reactor, or on threads where it cannot watch them.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

use blocking::Unblock;
use futures_lite::{AsyncRead, AsyncWrite, ready};
use mcp_runtime::runtime::{StdioStream, WatchedStream};
use mcp_std::io::{Duplex, HungUp};

use crate::reactor_watch::ReactorWatch;
use crate::unblocked_output::{CAPACITY, UnblockedOutput};

/// Stdin and stdout of this process, as one byte stream.
///
/// The reactor watches pipes, sockets and terminals. Files and other handles that it refuses are read and written on
/// threads of the package `blocking`, with up to 64 KiB in between (on Linux at once, as none of them waits for a peer). Neither handle is set to non-blocking, so processes that
/// share them are not affected. See [`mcp_std::io::Stdio`].
#[derive(Debug)]
pub struct Stdio {
    /// Stdin, if the reactor refuses it.
    input: Option<Unblock<File>>,
    /// Stdout, if the reactor refuses it.
    output: Option<UnblockedOutput<File>>,
    /// Both handles, and what guards them.
    stream: WatchedStream<ReactorWatch, mcp_std::io::Stdio>,
}

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
        let stream = WatchedStream::new(stdio)?;
        let (read, write) = stream.watches();
        let handles = stream.get_ref().descriptors();
        let input = refused_file(read, handles.read)?.map(|file| Unblock::with_capacity(CAPACITY, file));
        let output = refused_file(write, handles.write)?.map(UnblockedOutput::new);
        Ok(Self { input, output, stream })
    }
}

/// Returns a handle to be used on threads, if the reactor has refused to watch it.
fn refused_file(watch: &ReactorWatch, fd: Option<BorrowedFd<'_>>) -> io::Result<Option<File>> {
    match (watch, fd) {
        (ReactorWatch::AlwaysReady(_), Some(fd)) => Ok(Some(fd.try_clone_to_owned()?.into())),
        _ => Ok(None),
    }
}

impl StdioStream for Stdio {
    #[inline]
    fn guarded() -> io::Result<Self> {
        Self::guarded()
    }

    #[inline]
    fn hung_up(&mut self) -> HungUp {
        self.stream.get_mut().hung_up().unwrap_or_default()
    }
}

impl AsyncRead for Stdio {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let Self { input, stream, .. } = self.get_mut();
        match input {
            Some(file) => Pin::new(file).poll_read(cx, buf),
            None => stream.poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stdio {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { output, stream, .. } = self.get_mut();
        match output {
            Some(file) => file.poll_write(cx, bytes),
            None => stream.poll_write(cx, bytes),
        }
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().output {
            Some(file) => file.poll_flush(cx),
            None => Poll::Ready(Ok(())),
        }
    }

    #[inline]
    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { output, stream, .. } = self.get_mut();
        if let Some(file) = output {
            ready!(file.poll_close(cx))?;
        }
        Poll::Ready(stream.shutdown_write())
    }
}
