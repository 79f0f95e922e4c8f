//! Two connected ends in memory

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::io::{self, ErrorKind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_lite::{AsyncRead, AsyncWrite};

/// Makes two connected ends in memory, each direction holding at most `capacity` bytes (at least 1)
///
/// For tests, and for a client and a server in one process. Either end may move to another thread.
///
/// ```
/// use mcp_proto::{client, server};
/// use mcp_smol::{Call, Client, Cx, memory_pair, serve};
///
/// # mcp_smol::block_on(async {
/// let (near, far) = memory_pair(4096);
/// let server = serve(server::Config::new("demo", "1.0"), far, async |_: &mut Cx<'_>, call: &Call| {
///     Err(mcp_proto::RpcError::method_not_found(call.method()))
/// });
/// let talk = async {
///     let client = Client::options(client::Config::new("demo", "1.0")).connect(near).await?;
///     client.ping().await?;
///     client.close().await
/// };
/// let (served, talked) = futures_lite::future::zip(server, talk).await;
/// served.and(talked.map(|_| ()))
/// # })?;
/// # Ok::<(), mcp_smol::Error>(())
/// ```
#[must_use]
pub fn memory_pair(capacity: usize) -> (MemoryEnd, MemoryEnd) {
    let (one, other) = (Arc::<Mutex<Lane>>::default(), Arc::<Mutex<Lane>>::default());
    let capacity = capacity.max(1);
    let near = MemoryEnd { inbound: one.clone(), outbound: other.clone(), capacity };
    (near, MemoryEnd { inbound: other, outbound: one, capacity })
}

/// One end of a [`memory_pair`]
///
/// Closing it ends our direction, dropping it ends both.
#[derive(Debug)]
pub struct MemoryEnd {
    inbound: Arc<Mutex<Lane>>,
    outbound: Arc<Mutex<Lane>>,
    capacity: usize,
}

/// One direction
#[derive(Debug, Default)]
struct Lane {
    bytes: VecDeque<u8>,
    /// Nothing more comes
    ended: bool,
    /// Nobody reads it any more
    abandoned: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

fn lock(lane: &Mutex<Lane>) -> MutexGuard<'_, Lane> {
    lane.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Without the lock
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl MemoryEnd {
    fn end(&self) {
        let mut lane = lock(&self.outbound);
        lane.ended = true;
        let reader = lane.reader.take();
        drop(lane);
        wake(reader);
    }
}

impl AsyncRead for MemoryEnd {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut lane = lock(&self.inbound);
        let n = io::Read::read(&mut lane.bytes, buf)?;
        if n == 0 && !lane.ended && !buf.is_empty() {
            lane.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let writer = lane.writer.take();
        drop(lane);
        wake(writer);
        Poll::Ready(Ok(n))
    }
}

impl AsyncWrite for MemoryEnd {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut lane = lock(&self.outbound);
        if lane.abandoned || lane.ended {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let room = self.capacity - lane.bytes.len();
        let (some, _) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        if some.is_empty() && !bytes.is_empty() {
            lane.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        lane.bytes.extend(some);
        let reader = lane.reader.take();
        drop(lane);
        wake(reader);
        Poll::Ready(Ok(some.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end();
        Poll::Ready(Ok(()))
    }
}

impl Drop for MemoryEnd {
    fn drop(&mut self) {
        self.end();
        let mut lane = lock(&self.inbound);
        lane.abandoned = true;
        let writer = lane.writer.take();
        drop(lane);
        wake(writer);
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
    fn bytes_go_both_ways_within_bounds() {
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
                // Our own direction is still there.
                far.write_all(&all).await.unwrap();
                drop(far);
            };
            let (back, ()) = block_on(zip(writing, echoing));
            assert_eq!(back, sent);
        }
    }

    #[test]
    fn who_waits_is_woken_when_the_other_end_goes() {
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
    fn nothing_is_asked_for_and_nothing_waits() {
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
