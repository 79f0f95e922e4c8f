//! Ending a `poll(2)` from another thread

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

/// The bell of one stream, made when somebody first asks for a waker
#[derive(Debug, Default)]
pub(crate) struct Alarm(Option<Arc<Bell>>);

impl Alarm {
    /// What rings it
    pub(crate) fn waker(&mut self) -> io::Result<Waker> {
        let bell = match &self.0 {
            Some(bell) => bell,
            None => self.0.insert(Arc::new(Bell::new()?)),
        };
        Ok(Waker::from(Arc::clone(bell)))
    }

    /// What to wait for besides; none before anybody asked for a waker
    pub(crate) fn bell(&self) -> Option<&Bell> {
        self.0.as_deref()
    }

    /// Whether it rang, or can: somebody holds a waker
    pub(crate) fn is_armed(&mut self) -> bool {
        self.0.as_mut().is_some_and(|bell| match Arc::get_mut(bell) {
            Some(bell) => *bell.rung.get_mut(),
            None => true,
        })
    }
}

/// A descriptor that is readable once it was rung
#[derive(Debug)]
pub(crate) struct Bell {
    /// Rung, and not [silenced](Self::silence) since: once is enough
    rung: AtomicBool,
    #[cfg(target_os = "linux")]
    count: OwnedFd,
    #[cfg(not(target_os = "linux"))]
    ends: (UnixStream, UnixStream),
}

impl Bell {
    #[cfg(target_os = "linux")]
    pub(crate) fn new() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        let count = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { rung: AtomicBool::new(false), count })
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn new() -> io::Result<Self> {
        let ends = UnixStream::pair()?;
        ends.0.set_nonblocking(true)?;
        ends.1.set_nonblocking(true)?;
        Ok(Self { rung: AtomicBool::new(false), ends })
    }

    fn ringing_end(&self) -> BorrowedFd<'_> {
        #[cfg(target_os = "linux")]
        return self.count.as_fd();
        #[cfg(not(target_os = "linux"))]
        return self.ends.1.as_fd();
    }

    pub(crate) fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // One of an eventfd is a number of eight bytes. It cannot be full: it was silenced since the last time.
            let _ = retry_on_intr(|| write(self.ringing_end(), &1u64.to_ne_bytes()));
        }
    }

    /// To be called when it is readable, before looking for what it was rung about
    pub(crate) fn silence(&self) {
        let _ = retry_on_intr(|| read(self.as_fd(), &mut [0; 8]));
        // After the read: whoever rings in between has rung for the wait that ends here. The other way round what he
        // wrote would be read, and the bell be rung and silent for ever.
        self.rung.swap(false, Ordering::AcqRel);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        #[cfg(target_os = "linux")]
        return self.count.as_fd();
        #[cfg(not(target_os = "linux"))]
        return self.ends.0.as_fd();
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn armed_while_a_wake_can_come_or_has() {
        let mut alarm = Alarm::default();
        assert!(alarm.bell().is_none() && !alarm.is_armed());
        let waker = alarm.waker().unwrap();
        assert!(alarm.is_armed());
        drop(waker);
        assert!(!alarm.is_armed());
        let waker = alarm.waker().unwrap();
        waker.wake_by_ref();
        // Consumed: nobody holds it now.
        waker.wake();
        assert!(alarm.is_armed());
        alarm.bell().unwrap().silence();
        assert!(!alarm.is_armed());
    }

    #[test]
    fn a_waker_outlives_its_stream() {
        let mut alarm = Alarm::default();
        let waker = alarm.waker().unwrap();
        drop(alarm);
        waker.wake();
    }
}
