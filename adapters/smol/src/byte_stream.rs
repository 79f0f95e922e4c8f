//! Byte streams of `mcp-std`, watched by the reactor.

use alloc::boxed::Box;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;

use futures_lite::{AsyncRead, AsyncWrite};
use mcp_runtime::runtime::WatchedStream;
use mcp_std::io::Duplex;

use crate::reactor_watch::ReactorWatch;

/// A byte stream of `mcp-std`, a [serial line](mcp_std::io::SerialPort) for example, for [`serve`](crate::serve()).
///
/// ```no_run
/// use mcp_smol::mcp_proto::{model::CallToolResult, server::Config};
/// use mcp_smol::{ByteStream, Call, Cx, SerialConfig, SerialPort, serve};
///
/// # async fn example() -> Result<(), mcp_smol::Error> {
/// let line = SerialPort::open(&SerialConfig::new("/dev/ttyGS0"))?;
/// let handler = async |cx: &mut Cx, _: &Call| cx.complete(&CallToolResult::text("hello"));
/// serve(Config::new("board", "1.0"), ByteStream::new(line)?, handler).await
/// # }
/// ```
///
/// Sockets of `async-io` need it not: they are served as they are.
///
/// The type of the stream is erased, but for that of [`Stdio`](crate::Stdio).
pub struct ByteStream<D = Box<dyn Duplex + Send>>(pub(crate) WatchedStream<ReactorWatch, D>);

impl ByteStream {
    /// Watches a stream whose reads do not block.
    ///
    /// # Errors
    ///
    /// The I/O error if the stream has no descriptors, or if they cannot be watched.
    #[inline]
    pub fn new(stream: impl Duplex + Send + 'static) -> io::Result<Self> {
        WatchedStream::<_, Box<dyn Duplex + Send>>::new(Box::new(stream)).map(Self)
    }
}

impl<D> fmt::Debug for ByteStream<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByteStream")
    }
}

impl<D: Duplex + Unpin> AsyncRead for ByteStream<D> {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.get_mut().0.poll_read(cx, buf)
    }
}

impl<D: Duplex + Unpin> AsyncWrite for ByteStream<D> {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().0.poll_write(cx, bytes)
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.get_mut().0.shutdown_write())
    }
}
