//! Ending a `poll(2)` from another thread.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::os::fd::{AsFd, BorrowedFd};
#[cfg(not(target_os = "linux"))]
use std::os::unix::net::UnixStream;

use rustix::io::{read, retry_on_intr, write};

/// The notifier of a stream, created when the first waker is requested.
#[derive(Debug, Default)]
pub(crate) struct LazyNotifier(Option<Arc<Notifier>>);

impl LazyNotifier {
    /// Returns a waker that notifies.
    pub(crate) fn waker(&mut self) -> io::Result<Waker> {
        let notifier = match &self.0 {
            Some(notifier) => notifier,
            None => self.0.insert(Arc::new(Notifier::new()?)),
        };
        Ok(Waker::from(Arc::clone(notifier)))
    }

    /// Returns the notifier to include in a wait; `None` until a waker is requested.
    pub(crate) fn notifier(&self) -> Option<&Notifier> {
        self.0.as_deref()
    }

    /// Returns whether a notification is pending or possible, because a waker exists.
    pub(crate) fn is_armed(&mut self) -> bool {
        self.0.as_mut().is_some_and(|notifier| match Arc::get_mut(notifier) {
            Some(notifier) => *notifier.notified.get_mut(),
            None => true,
        })
    }
}

/// A descriptor that becomes readable by a notification.
#[derive(Debug)]
pub struct Notifier {
    /// Whether it was notified since the last [`reset`](Self::reset); further notifications are not written.
    notified: AtomicBool,
    #[cfg(target_os = "linux")]
    eventfd: OwnedFd,
    #[cfg(not(target_os = "linux"))]
    ends: (UnixStream, UnixStream),
}

impl Notifier {
    /// Creates a notifier that was not notified.
    ///
    /// # Errors
    ///
    /// That of the operating system, which may have no more descriptors.
    #[cfg(target_os = "linux")]
    pub fn new() -> io::Result<Self> {
        use rustix::event::{self, EventfdFlags};
        let eventfd = event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { notified: AtomicBool::new(false), eventfd })
    }

    /// Creates a notifier that was not notified.
    ///
    /// # Errors
    ///
    /// That of the operating system, which may have no more descriptors.
    #[cfg(not(target_os = "linux"))]
    pub fn new() -> io::Result<Self> {
        let ends = UnixStream::pair()?;
        ends.0.set_nonblocking(true)?;
        ends.1.set_nonblocking(true)?;
        Ok(Self { notified: AtomicBool::new(false), ends })
    }

    fn write_end(&self) -> BorrowedFd<'_> {
        #[cfg(target_os = "linux")]
        return self.eventfd.as_fd();
        #[cfg(not(target_os = "linux"))]
        return self.ends.1.as_fd();
    }

    /// Makes the descriptor readable.
    pub fn notify(&self) {
        if !self.notified.swap(true, Ordering::AcqRel) {
            // An eventfd takes eight bytes. It cannot be full, as it was reset since the last write.
            let _ = retry_on_intr(|| write(self.write_end(), &1u64.to_ne_bytes()));
        }
    }

    /// Makes the descriptor unreadable. Call it when it is readable, before looking for work.
    pub fn reset(&self) {
        let _ = retry_on_intr(|| read(self.as_fd(), &mut [0; 8]));
        // Only after the read: in the other order a notification in between would be consumed by the read while
        // `notified` stays set, so no later one would be written.
        self.notified.swap(false, Ordering::AcqRel);
    }
}

impl AsFd for Notifier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        #[cfg(target_os = "linux")]
        return self.eventfd.as_fd();
        #[cfg(not(target_os = "linux"))]
        return self.ends.0.as_fd();
    }
}

impl Wake for Notifier {
    fn wake(self: Arc<Self>) {
        self.notify();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifier_is_armed_while_a_waker_or_a_notification_exists() {
        let mut lazy = LazyNotifier::default();
        assert!(lazy.notifier().is_none() && !lazy.is_armed());
        let waker = lazy.waker().unwrap();
        assert!(lazy.is_armed());
        drop(waker);
        assert!(!lazy.is_armed());
        let waker = lazy.waker().unwrap();
        waker.wake_by_ref();
        // Consumed: no waker exists now.
        waker.wake();
        assert!(lazy.is_armed());
        lazy.notifier().unwrap().reset();
        assert!(!lazy.is_armed());
    }

    #[test]
    fn waker_may_outlive_its_stream() {
        let mut lazy = LazyNotifier::default();
        let waker = lazy.waker().unwrap();
        drop(lazy);
        waker.wake();
    }
}
