//! Two bounded byte pipes between threads: the in-memory pair, and the base of `Threaded`.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::io::{Duplex, HungUp};
use crate::poll::{Interest, Ready};

/// Creates two connected ends in memory, with at most `capacity` bytes (at least 1) in each direction.
///
/// It is meant for tests, and for a client and a server in one process. Either end may move to another thread. Memory
/// is allocated as bytes arrive, and kept, up to `capacity` for each direction.
///
/// ```
/// use mcp_std::io::{Duplex, Interest};
///
/// let (mut near, mut far) = mcp_std::io::memory_pair(4);
/// assert_eq!(near.write(b"hello")?, 4);
/// assert!(far.wait(Interest::READ, None)?.readable);
/// let mut buf = [0; 16];
/// assert_eq!(far.read(&mut buf)?, 4);
/// # std::io::Result::Ok(())
/// ```
#[must_use]
pub fn memory_pair(capacity: usize) -> (MemoryEnd, MemoryEnd) {
    let pipes = Arc::new(MemoryPipes::new(capacity));
    [0, 1].map(|inbound| MemoryEnd { pipes: Arc::clone(&pipes), inbound, is_threaded: false }).into()
}

/// One end of a [`memory_pair`].
///
/// Dropping it ends the stream for the other end, in both directions.
#[derive(Debug)]
pub struct MemoryEnd {
    pub(super) pipes: Arc<MemoryPipes>,
    /// The index of the pipe to read; the other one is written.
    pub(super) inbound: usize,
    /// Whether a thread writes the other one to its destination, which `flush` waits for.
    pub(super) is_threaded: bool,
}

impl Duplex for MemoryEnd {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.pipes.read(self.inbound, buf)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pipes.write(1 - self.inbound, bytes)
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        self.pipes.wait_ready(self.inbound, interest, timeout)
    }

    fn waker(&mut self) -> io::Result<Waker> {
        Ok(MemoryPipes::waker(&self.pipes, self.inbound))
    }

    fn hung_up(&mut self) -> io::Result<HungUp> {
        Ok(self.pipes.hung_up(self.inbound))
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.pipes.close_writer(1 - self.inbound, None);
        Ok(())
    }

    fn flush(&mut self, timeout: Duration) -> io::Result<()> {
        if !self.is_threaded {
            return Ok(());
        }
        let outcome = self.pipes.wait_until(Some(timeout), |pair| {
            let pipe = &mut pair[1 - self.inbound];
            match pipe.failure.take() {
                Some(error) => Some(Err(error)),
                None if pipe.bytes.is_empty() => {
                    // After the end of the output, the thread is waited for: it closes the writer.
                    (pipe.is_finished || !pipe.is_writer_closed).then_some(Ok(()))
                }
                // The write error has already been returned.
                None => pipe.is_finished.then(|| Err(ErrorKind::BrokenPipe.into())),
            }
        });
        outcome.unwrap_or_else(|| Err(ErrorKind::TimedOut.into()))
    }
}

impl Drop for MemoryEnd {
    fn drop(&mut self) {
        self.pipes.drop_reader(self.inbound);
        self.pipes.close_writer(1 - self.inbound, None);
    }
}

/// Two pipes under one lock, so that one wait covers both directions.
#[derive(Debug)]
pub(crate) struct MemoryPipes {
    pipes: Mutex<[MemoryPipe; 2]>,
    changed: Condvar,
    capacity: usize,
}

/// One direction. Invariant: `bytes.len() <= capacity`.
#[derive(Debug, Default)]
pub(crate) struct MemoryPipe {
    pub(crate) bytes: VecDeque<u8>,
    /// The writer is closed: once `bytes` is empty, the reader gets the end of the stream.
    pub(crate) is_writer_closed: bool,
    /// The reader is gone: writes fail.
    pub(crate) is_reader_dropped: bool,
    /// Error that ended the pipe; returned once, to the side that did not cause it.
    failure: Option<io::Error>,
    /// The thread that served the pipe has exited; nothing changes any more.
    pub(crate) is_finished: bool,
    /// Whether wakers exist for the side that reads this pipe.
    has_wakers: bool,
    /// Whether a waker was used since the last wait ended.
    woken: bool,
}

/// Ends a wait of the side that reads pipe `inbound`.
struct MemoryWaker {
    pipes: Arc<MemoryPipes>,
    inbound: usize,
}

impl Wake for MemoryWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.pipes.update(self.inbound, |pipe| pipe.woken = true);
    }
}

impl MemoryPipes {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { pipes: Mutex::default(), changed: Condvar::new(), capacity: capacity.max(1) }
    }

    /// Reads up to `buf.len()` bytes from pipe `index`.
    pub(crate) fn read(&self, index: usize, buf: &mut [u8]) -> io::Result<usize> {
        let mut pair = self.lock();
        let pipe = &mut pair[index];
        if buf.is_empty() {
            return Ok(0);
        }
        // Bytes that were written before the failure are read first.
        if pipe.bytes.is_empty() {
            return match pipe.failure.take() {
                Some(error) => Err(error),
                None if pipe.is_writer_closed => Ok(0),
                None => Err(ErrorKind::WouldBlock.into()),
            };
        }
        let n = pipe.peek(buf);
        pipe.bytes.drain(..n);
        drop(pair);
        self.changed.notify_all();
        Ok(n)
    }

    /// Writes as much of `bytes` to pipe `index` as fits.
    pub(crate) fn write(&self, index: usize, bytes: &[u8]) -> io::Result<usize> {
        let mut pair = self.lock();
        let pipe = &mut pair[index];
        if pipe.is_writer_closed || pipe.is_reader_dropped {
            return Err(pipe.failure.take().unwrap_or_else(|| ErrorKind::BrokenPipe.into()));
        }
        if bytes.is_empty() {
            return Ok(0);
        }
        let n = bytes.len().min(self.capacity - pipe.bytes.len());
        if n == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        pipe.bytes.extend(&bytes[..n]);
        drop(pair);
        self.changed.notify_all();
        Ok(n)
    }

    /// Implements [`Duplex::wait`] for the side that reads pipe `inbound` and writes the other one.
    pub(crate) fn wait_ready(
        &self,
        inbound: usize,
        interest: Interest,
        timeout: Option<Duration>,
    ) -> io::Result<Ready> {
        interest.check(timeout, || self.lock()[inbound].has_wakers)?;
        let ready = self.wait_until(timeout, |pair| {
            // Taken under the lock, so that a waker ends one wait only.
            let woken = core::mem::take(&mut pair[inbound].woken);
            let (incoming, outgoing) = (&pair[inbound], &pair[1 - inbound]);
            let ready = Ready {
                readable: interest.read && (!incoming.bytes.is_empty() || incoming.is_writer_closed),
                writable: interest.write
                    && (outgoing.bytes.len() < self.capacity
                        || outgoing.is_writer_closed
                        || outgoing.is_reader_dropped),
            };
            (woken || !ready.is_empty()).then_some(ready)
        });
        Ok(ready.unwrap_or_default())
    }

    /// Returns a waker that ends a wait of the side that reads pipe `inbound`.
    pub(crate) fn waker(pipes: &Arc<Self>, inbound: usize) -> Waker {
        pipes.lock()[inbound].has_wakers = true;
        Waker::from(Arc::new(MemoryWaker { pipes: Arc::clone(pipes), inbound }))
    }

    /// Returns the closed directions for the side that reads pipe `inbound` and writes the other one.
    pub(crate) fn hung_up(&self, inbound: usize) -> HungUp {
        let pair = self.lock();
        HungUp {
            read_closed: pair[inbound].is_writer_closed,
            write_closed: pair[1 - inbound].is_reader_dropped,
        }
    }

    /// Waits until `found` returns a value, at most for `timeout` (`None`: no limit).
    pub(crate) fn wait_until<T>(
        &self,
        timeout: Option<Duration>,
        mut found: impl FnMut(&mut [MemoryPipe; 2]) -> Option<T>,
    ) -> Option<T> {
        // A deadline beyond the range of the clock is no deadline.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut pair = self.lock();
        loop {
            if let Some(value) = found(&mut pair) {
                return Some(value);
            }
            pair = match deadline {
                None => self.changed.wait(pair).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    self.changed.wait_timeout(pair, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Ends pipe `index` for its reader, with `failure` as the reason if there is one.
    pub(crate) fn close_writer(&self, index: usize, failure: Option<io::Error>) {
        self.update(index, |pipe| {
            pipe.is_writer_closed = true;
            pipe.failure = failure.or_else(|| pipe.failure.take());
        });
    }

    /// Marks pipe `index` as without a reader and drops its bytes.
    pub(crate) fn drop_reader(&self, index: usize) {
        self.update(index, |pipe| {
            pipe.is_reader_dropped = true;
            pipe.bytes = VecDeque::new();
        });
    }

    /// Applies `change` to pipe `index` and wakes all waiting threads.
    pub(crate) fn update(&self, index: usize, change: impl FnOnce(&mut MemoryPipe)) {
        change(&mut self.lock()[index]);
        self.changed.notify_all();
    }

    /// Returns how many more bytes `pipe` accepts.
    pub(crate) fn free_capacity(&self, pipe: &MemoryPipe) -> usize {
        self.capacity - pipe.bytes.len()
    }

    fn lock(&self) -> MutexGuard<'_, [MemoryPipe; 2]> {
        // No code under this lock panics half-way, so a poisoned lock is consistent.
        self.pipes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryPipe {
    /// Copies the front of the pipe without removing it.
    pub(crate) fn peek(&self, buf: &mut [u8]) -> usize {
        let (front, back) = self.bytes.as_slices();
        let first = front.len().min(buf.len());
        buf[..first].copy_from_slice(&front[..first]);
        let second = back.len().min(buf.len() - first);
        buf[first..first + second].copy_from_slice(&back[..second]);
        first + second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_pair_reports_bounds_ends_and_errors() {
        let (mut a, mut b) = memory_pair(3);
        let mut buf = [0; 8];
        assert_eq!(b.read(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(a.write(b"abcd").unwrap(), 3);
        assert_eq!(a.write(b"d").unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(a.wait(Interest::BOTH, Some(Duration::from_millis(1))).unwrap().is_empty());
        assert_eq!(b.read(&mut buf[..2]).unwrap(), 2);
        assert_eq!(a.write(b"de").unwrap(), 2);
        a.shutdown_write().unwrap();
        assert_eq!(a.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(b.read(&mut buf).unwrap(), 3);
        assert_eq!(&buf[..3], b"cde");
        assert_eq!(b.read(&mut buf).unwrap(), 0);
        assert_eq!(b.hung_up().unwrap(), HungUp { read_closed: true, write_closed: false });
        drop(a);
        assert_eq!(b.hung_up().unwrap(), HungUp { read_closed: true, write_closed: true });
        assert_eq!(b.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert!(b.wait(Interest::WRITE, None).unwrap().writable);
        assert_eq!(b.wait(Interest::default(), None).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
