//! A byte stream in memory.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::io::{self, ErrorKind};
use std::sync::Mutex;

use mcp_std::sync::lock;

use futures_lite::{AsyncRead, AsyncWrite};

/// Creates a byte stream in memory. Each direction holds at most `capacity` bytes (at least 1).
///
/// Use it in tests, and for a client and a server in one process. Either end may move to another thread.
///
/// ```
/// use mcp_smol::mcp_proto::{self, client, server};
/// use mcp_smol::{Call, Client, Cx, memory_pair, serve};
///
/// # mcp_smol::block_on(async {
/// let (client_end, server_end) = memory_pair(4096);
/// let server = serve(server::Config::new("demo", "1.0"), server_end, async |_: &mut Cx, call: &Call| {
///     Err(mcp_proto::RpcError::method_not_found(call.method()))
/// });
/// let session = async {
///     let client = Client::options(client::Config::new("demo", "1.0")).connect(client_end).await?;
///     client.ping().await?;
///     client.close().await
/// };
/// let (served, closed) = futures_lite::future::zip(server, session).await;
/// served.and(closed.map(|_| ()))
/// # })?;
/// # Ok::<(), mcp_smol::Error>(())
/// ```
#[must_use]
pub fn memory_pair(capacity: usize) -> (MemoryEnd, MemoryEnd) {
    let (first, second) = (Arc::<Mutex<PipeBuffer>>::default(), Arc::<Mutex<PipeBuffer>>::default());
    let capacity = capacity.max(1);
    let end = MemoryEnd { inbound: first.clone(), outbound: second.clone(), capacity };
    (end, MemoryEnd { inbound: second, outbound: first, capacity })
}

/// One end of a [`memory_pair`].
///
/// Closing it ends its write direction. Dropping it ends both directions.
#[derive(Debug)]
pub struct MemoryEnd {
    inbound: Arc<Mutex<PipeBuffer>>,
    outbound: Arc<Mutex<PipeBuffer>>,
    capacity: usize,
}

/// One direction.
#[derive(Debug, Default)]
struct PipeBuffer {
    bytes: VecDeque<u8>,
    /// The writer has closed the direction.
    is_closed: bool,
    /// The reader has been dropped.
    is_abandoned: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// Wakes `waker`. Call it without holding the lock.
fn wake_if_some(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl MemoryEnd {
    fn close_outbound(&self) {
        let mut buffer = lock(&self.outbound);
        buffer.is_closed = true;
        let reader = buffer.reader.take();
        drop(buffer);
        wake_if_some(reader);
    }
}

impl AsyncRead for MemoryEnd {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = lock(&self.inbound);
        let n = io::Read::read(&mut buffer.bytes, buf)?;
        if n == 0 && !buffer.is_closed && !buf.is_empty() {
            buffer.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let writer = buffer.writer.take();
        drop(buffer);
        wake_if_some(writer);
        Poll::Ready(Ok(n))
    }
}

impl AsyncWrite for MemoryEnd {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut buffer = lock(&self.outbound);
        if buffer.is_abandoned || buffer.is_closed {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let room = self.capacity - buffer.bytes.len();
        let (some, _) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        if some.is_empty() && !bytes.is_empty() {
            buffer.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        buffer.bytes.extend(some);
        let reader = buffer.reader.take();
        drop(buffer);
        wake_if_some(reader);
        Poll::Ready(Ok(some.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.close_outbound();
        Poll::Ready(Ok(()))
    }
}

impl Drop for MemoryEnd {
    fn drop(&mut self) {
        self.close_outbound();
        let mut buffer = lock(&self.inbound);
        buffer.is_abandoned = true;
        let writer = buffer.writer.take();
        drop(buffer);
        wake_if_some(writer);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;
    use std::thread;

    use futures_lite::future::{block_on, poll_once, zip};
    use futures_lite::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn memory_pair_transfers_both_ways_within_capacity() {
        for capacity in [0, 1, 3, 100] {
            let (mut near, mut far) = memory_pair(capacity);
            let sent: Vec<u8> = (0..=255).collect();
            let writing = async {
                near.write_all(&sent).await.unwrap();
                near.close().await.unwrap();
                let mut back = Vec::new();
                near.read_to_end(&mut back).await.unwrap();
                back
            };
            let echoing = async {
                let mut all = Vec::new();
                let mut buf = [0; 64];
                loop {
                    let n = far.read(&mut buf).await.unwrap();
                    assert!(n <= capacity.max(1));
                    if n == 0 {
                        break;
                    }
                    all.extend_from_slice(&buf[..n]);
                }
                // The other direction is still open.
                far.write_all(&all).await.unwrap();
                drop(far);
            };
            let (back, ()) = block_on(zip(writing, echoing));
            assert_eq!(back, sent);
        }
    }

    #[test]
    fn memory_end_dropped_wakes_waiting_peer() {
        let (mut near, far) = memory_pair(1);
        let (mut writer, gone) = memory_pair(1);
        block_on(writer.write_all(b"x")).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!(block_on(near.read(&mut [0; 8])).unwrap(), 0));
            let failed = scope.spawn(|| block_on(writer.write_all(b"y")).unwrap_err().kind());
            drop((far, gone));
            assert_eq!(failed.join().unwrap(), ErrorKind::BrokenPipe);
        });
    }

    #[test]
    fn memory_end_empty_read_or_write_never_waits() {
        let (mut near, mut far) = memory_pair(4);
        block_on(async {
            assert!(poll_once(near.read(&mut [0])).await.is_none());
            assert_eq!(near.read(&mut []).await.unwrap(), 0);
            assert_eq!(near.write(b"").await.unwrap(), 0);
            near.write_all(b"abcd").await.unwrap();
            assert!(poll_once(near.write(b"e")).await.is_none());
            let mut buf = vec![0; 8];
            assert_eq!(far.read(&mut buf).await.unwrap(), 4);
            near.close().await.unwrap();
            assert_eq!(near.write(b"f").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
            assert_eq!(far.read(&mut buf).await.unwrap(), 0);
        });
    }
}
