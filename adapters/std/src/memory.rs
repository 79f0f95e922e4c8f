//! Two bounded byte lanes between threads: the in-memory pair, and the ground that `Threaded` stands on

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::duplex::{Duplex, HungUp, Interest, Ready};

/// Makes two connected ends in memory, each direction holding at most `capacity` bytes (at least 1)
///
/// For tests, and for a client and a server in one process. Either end may move to another thread. Memory is
/// taken as bytes arrive and kept up to `capacity` for each direction.
///
/// ```
/// use mcp_std::{Duplex, Interest};
///
/// let (mut near, mut far) = mcp_std::memory_pair(4);
/// assert_eq!(near.write(b"hello")?, 4);
/// assert!(far.wait(Interest::READ, None)?.readable);
/// let mut buf = [0; 16];
/// assert_eq!(far.read(&mut buf)?, 4);
/// # std::io::Result::Ok(())
/// ```
#[must_use]
pub fn memory_pair(capacity: usize) -> (MemoryEnd, MemoryEnd) {
    let link = Arc::new(Link::new(capacity));
    (MemoryEnd { link: Arc::clone(&link), inbound: 0 }, MemoryEnd { link, inbound: 1 })
}

/// One end of a [`memory_pair`]
///
/// Dropping it ends the stream for the other end, in both directions.
#[derive(Debug)]
pub struct MemoryEnd {
    link: Arc<Link>,
    /// The lane that we read; we write the other one
    inbound: usize,
}

impl Duplex for MemoryEnd {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.link.read(self.inbound, buf)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.link.write(1 - self.inbound, bytes)
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        self.link.wait_ready(self.inbound, interest, timeout)
    }

    fn waker(&mut self) -> io::Result<Waker> {
        Ok(Link::waker(&self.link, self.inbound))
    }

    fn hung_up(&mut self) -> io::Result<HungUp> {
        Ok(self.link.hung_up(self.inbound))
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.link.end(1 - self.inbound, None);
        Ok(())
    }
}

impl Drop for MemoryEnd {
    fn drop(&mut self) {
        self.link.abandon(self.inbound);
        self.link.end(1 - self.inbound, None);
    }
}

/// Two lanes under one lock, so that one wait covers both directions
#[derive(Debug)]
pub(crate) struct Link {
    lanes: Mutex<[Lane; 2]>,
    changed: Condvar,
    capacity: usize,
}

/// One direction; `bytes.len() <= capacity`
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) bytes: VecDeque<u8>,
    /// The writer is done: once `bytes` is empty, the reader sees the end
    pub(crate) ended: bool,
    /// The reader is gone: writing fails
    pub(crate) abandoned: bool,
    /// Why the lane ended, told once, to the side that did not notice it itself
    failure: Option<io::Error>,
    /// Nothing will happen to this lane any more: the thread that served it is gone
    pub(crate) settled: bool,
    /// There are wakers for the side that reads it
    wakeable: bool,
    /// One of them was used, and no wait has ended since
    woken: bool,
}

/// Ends a wait of the side that reads lane `inbound`
struct Alarm {
    link: Arc<Link>,
    inbound: usize,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.link.change(self.inbound, |lane| lane.woken = true);
    }
}

impl Link {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { lanes: Mutex::default(), changed: Condvar::new(), capacity: capacity.max(1) }
    }

    /// Takes up to `buf.len()` bytes off lane `index`
    pub(crate) fn read(&self, index: usize, buf: &mut [u8]) -> io::Result<usize> {
        let mut lanes = self.lock();
        let lane = &mut lanes[index];
        if buf.is_empty() {
            return Ok(0);
        }
        if lane.bytes.is_empty() {
            return match lane.failure.take() {
                Some(error) => Err(error),
                None if lane.ended => Ok(0),
                None => Err(ErrorKind::WouldBlock.into()),
            };
        }
        let n = lane.peek(buf);
        lane.bytes.drain(..n);
        drop(lanes);
        self.changed.notify_all();
        Ok(n)
    }

    /// Puts as much of `bytes` on lane `index` as fits
    pub(crate) fn write(&self, index: usize, bytes: &[u8]) -> io::Result<usize> {
        let mut lanes = self.lock();
        let lane = &mut lanes[index];
        if lane.ended || lane.abandoned {
            return Err(lane.failure.take().unwrap_or_else(|| ErrorKind::BrokenPipe.into()));
        }
        if bytes.is_empty() {
            return Ok(0);
        }
        let n = bytes.len().min(self.capacity - lane.bytes.len());
        if n == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        lane.bytes.extend(&bytes[..n]);
        drop(lanes);
        self.changed.notify_all();
        Ok(n)
    }

    /// Waits as [`Duplex::wait`] says, reading lane `inbound` and writing the other
    pub(crate) fn wait_ready(
        &self,
        inbound: usize,
        interest: Interest,
        timeout: Option<Duration>,
    ) -> io::Result<Ready> {
        interest.check(timeout, || self.lock()[inbound].wakeable)?;
        let ready = self.wait_until(timeout, |lanes| {
            let woken = core::mem::take(&mut lanes[inbound].woken);
            let (from, to) = (&lanes[inbound], &lanes[1 - inbound]);
            let ready = Ready {
                readable: interest.read && (!from.bytes.is_empty() || from.ended),
                writable: interest.write && (to.bytes.len() < self.capacity || to.ended || to.abandoned),
            };
            (woken || !ready.is_empty()).then_some(ready)
        });
        Ok(ready.unwrap_or_default())
    }

    /// What ends a wait of the side that reads lane `inbound`
    pub(crate) fn waker(this: &Arc<Self>, inbound: usize) -> Waker {
        this.lock()[inbound].wakeable = true;
        Waker::from(Arc::new(Alarm { link: Arc::clone(this), inbound }))
    }

    /// Which directions the other side has given up, reading lane `inbound` and writing the other
    pub(crate) fn hung_up(&self, inbound: usize) -> HungUp {
        let lanes = self.lock();
        HungUp { input: lanes[inbound].ended, output: lanes[1 - inbound].abandoned }
    }

    /// Waits until `found` finds something, at most for `timeout` (`None`: no limit)
    pub(crate) fn wait_until<T>(
        &self,
        timeout: Option<Duration>,
        mut found: impl FnMut(&mut [Lane; 2]) -> Option<T>,
    ) -> Option<T> {
        // A deadline beyond what the clock can count is no deadline.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut lanes = self.lock();
        loop {
            if let Some(value) = found(&mut lanes) {
                return Some(value);
            }
            lanes = match deadline {
                None => self.changed.wait(lanes).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    self.changed.wait_timeout(lanes, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Ends lane `index` for its reader, with `failure` as the reason if there is one
    pub(crate) fn end(&self, index: usize, failure: Option<io::Error>) {
        self.change(index, |lane| {
            lane.ended = true;
            lane.failure = failure.or_else(|| lane.failure.take());
        });
    }

    /// Says that nobody reads lane `index` any more; what is on it is dropped
    pub(crate) fn abandon(&self, index: usize) {
        self.change(index, |lane| {
            lane.abandoned = true;
            lane.bytes = VecDeque::new();
        });
    }

    /// Applies `change` to lane `index` and wakes everybody
    pub(crate) fn change(&self, index: usize, change: impl FnOnce(&mut Lane)) {
        change(&mut self.lock()[index]);
        self.changed.notify_all();
    }

    /// How many more bytes lane `lane` takes
    pub(crate) fn room(&self, lane: &Lane) -> usize {
        self.capacity - lane.bytes.len()
    }

    fn lock(&self) -> MutexGuard<'_, [Lane; 2]> {
        // Nothing under this lock panics half-way; a poisoned lock only means that some thread died
        // elsewhere.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    /// Copies the front of the lane without taking it
    pub(crate) fn peek(&self, buf: &mut [u8]) -> usize {
        let (front, back) = self.bytes.as_slices();
        let first = front.len().min(buf.len());
        buf[..first].copy_from_slice(&front[..first]);
        let second = back.len().min(buf.len() - first);
        buf[first..first + second].copy_from_slice(&back[..second]);
        first + second
    }

    /// The failure, taken out, if there was one
    pub(crate) fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_ends_and_errors() {
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
        assert_eq!(b.hung_up().unwrap(), HungUp { input: true, output: false });
        drop(a);
        assert_eq!(b.hung_up().unwrap(), HungUp { input: true, output: true });
        assert_eq!(b.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert!(b.wait(Interest::WRITE, None).unwrap().writable);
        assert_eq!(b.wait(Interest::default(), None).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
