//! A poller for tasks: descriptors with wakers, and one `poll(2)` for all of them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::Waker;
use core::time::Duration;
use core::{array, mem};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::poll::Interest;
use crate::poll::MAX_TIMEOUT;
use crate::poll::Notifier;

/// Registered descriptors with their wakers, and the wait for all of them.
///
/// It serves loops that poll futures. A future that cannot continue [registers](Self::register) a descriptor. The
/// thread of the loop [waits](Self::wait), with one system call for all registrations. Any thread may register.
#[derive(Debug)]
pub struct Poller {
    notifier: Notifier,
    registrations: Mutex<PollerRegistrations>,
    /// Number of calls of [`wake_all`](Self::wake_all).
    generation: AtomicUsize,
}

#[derive(Debug, Default)]
struct PollerRegistrations {
    entries: Vec<PollerRegistration>,
    /// Whether a wait is running, perhaps for older registrations.
    is_waiting: bool,
    /// Empty between two waits; kept for its allocation.
    fds: Vec<(Arc<OwnedFd>, bool)>,
    /// Empty between two waits; kept for its allocation.
    woken: Vec<Waker>,
}

#[derive(Debug)]
struct PollerRegistration {
    fd: Arc<OwnedFd>,
    is_write: bool,
    waker: Waker,
}

impl Poller {
    /// Creates a poller without registrations.
    ///
    /// # Errors
    ///
    /// The error of the operating system if no descriptor is left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            notifier: Notifier::new()?,
            registrations: Mutex::default(),
            generation: AtomicUsize::new(0),
        })
    }

    /// Ends the running wait, or the next one.
    pub fn notify(&self) {
        self.notifier.notify();
    }

    /// Returns the generation; registrations of an earlier generation no longer exist.
    pub fn generation(&self) -> usize {
        self.generation.load(Ordering::SeqCst)
    }

    /// Registers `waker` to be woken once, by a wait that finds `fd` ready.
    ///
    /// It waits for writing if `interest.write` is set, and for reading otherwise. An earlier waker for the same
    /// descriptor and direction is replaced. A descriptor whose other end is closed is ready.
    pub fn register(&self, fd: &Arc<OwnedFd>, interest: Interest, waker: &Waker) {
        let mut registrations = self.lock();
        let is_write = interest.write;
        match registrations.entries.iter_mut().find(|entry| entry.matches(fd, is_write)) {
            Some(entry) => entry.waker.clone_from(waker),
            None => registrations.entries.push(PollerRegistration {
                fd: fd.clone(),
                is_write,
                waker: waker.clone(),
            }),
        }
        // The running wait has a copy of the registrations, so it has to begin again.
        if registrations.is_waiting {
            self.notify();
        }
    }

    /// Removes a registration and releases `fd`.
    pub fn deregister(&self, fd: &Arc<OwnedFd>, interest: Interest) {
        let mut registrations = self.lock();
        let index = registrations.entries.iter().position(|entry| entry.matches(fd, interest.write));
        if let Some(index) = index {
            registrations.entries.swap_remove(index);
            if registrations.is_waiting {
                // The running wait holds a clone of `fd`.
                self.notify();
            }
        }
    }

    /// Waits until a descriptor is ready, [`notify`](Self::notify) is called, `timeout` has passed (`None`: no limit),
    /// or a signal arrives.
    ///
    /// It then calls `awake`, and wakes the wakers of all ready descriptors. Only one thread at a time may wait.
    ///
    /// # Errors
    ///
    /// The error of the operating system if `poll(2)` fails.
    pub fn wait(&self, timeout: Option<Duration>, awake: impl FnOnce()) -> io::Result<()> {
        let mut registrations = self.lock();
        let mut fds = mem::take(&mut registrations.fds);
        fds.extend(registrations.entries.iter().map(|entry| (entry.fd.clone(), entry.is_write)));
        registrations.is_waiting = true;
        drop(registrations);

        // Entry 0 is the notifier.
        let poll_fd = |at: usize| {
            let (fd, is_write) = match at.checked_sub(1).and_then(|at| fds.get(at)) {
                Some((fd, is_write)) => (fd.as_fd(), *is_write),
                None => (self.notifier.as_fd(), false),
            };
            PollFd::from_borrowed_fd(fd, if is_write { PollFlags::OUT } else { PollFlags::IN })
        };
        let (mut inline, mut heap);
        let entries = if fds.len() < INLINE_FDS {
            inline = array::from_fn::<_, INLINE_FDS, _>(poll_fd);
            inline.get_mut(..=fds.len()).unwrap_or_default()
        } else {
            heap = (0..=fds.len()).map(poll_fd).collect::<Vec<_>>();
            &mut heap[..]
        };
        let timeout = timeout.map(|timeout| timeout.min(MAX_TIMEOUT));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let outcome = match poll(entries, timeout.as_ref()) {
            Err(error) if error != Errno::INTR => Err(error.into()),
            _ => Ok(()),
        };
        awake();
        let mut registrations = self.lock();
        registrations.is_waiting = false;
        let mut woken = mem::take(&mut registrations.woken);
        let is_ready = |entry: &PollFd<'_>| outcome.is_ok() && !entry.revents().is_empty();
        for (entry, (fd, is_write)) in entries.iter().skip(1).zip(&fds) {
            if is_ready(entry) {
                // It may have been removed while the wait ran.
                let index = registrations.entries.iter().position(|entry| entry.matches(fd, *is_write));
                woken.extend(index.map(|index| registrations.entries.swap_remove(index).waker));
            }
        }
        drop(registrations);
        if entries.first().is_some_and(is_ready) {
            self.notifier.reset();
        }
        fds.clear();
        // After unlocking, because what is woken may register again.
        woken.drain(..).for_each(Waker::wake);
        let mut registrations = self.lock();
        registrations.fds = fds;
        registrations.woken = woken;
        outcome
    }

    /// Increments the [generation](Self::generation) and wakes all registered wakers.
    ///
    /// Call it when no thread will wait any more, so that the tasks register with another poller.
    pub fn wake_all(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        loop {
            // One at a time, so that the allocation stays.
            let Some(entry) = self.lock().entries.pop() else { return };
            entry.waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, PollerRegistrations> {
        self.registrations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PollerRegistration {
    fn matches(&self, fd: &Arc<OwnedFd>, is_write: bool) -> bool {
        self.is_write == is_write && Arc::ptr_eq(&self.fd, fd)
    }
}

/// Descriptors, with the notifier, for which a wait does not allocate.
const INLINE_FDS: usize = 8;

#[cfg(test)]
mod tests {
    use alloc::task::Wake;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    #[derive(Default)]
    struct PollerWakeCount(AtomicUsize);

    impl Wake for PollerWakeCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl PollerWakeCount {
        fn get(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    fn counter() -> (Arc<PollerWakeCount>, Waker) {
        let count = Arc::<PollerWakeCount>::default();
        (count.clone(), Waker::from(count))
    }

    fn pair() -> (UnixStream, UnixStream, Arc<OwnedFd>) {
        let (near, far) = UnixStream::pair().unwrap();
        let fd = Arc::new(OwnedFd::from(near.try_clone().unwrap()));
        (near, far, fd)
    }

    const NOW: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn poller_wakes_only_ready_registrations_and_only_once() {
        let poller = Poller::new().unwrap();
        let (_near, mut far, fd) = pair();
        let (_other, _far, silent) = pair();
        let ((count, waker), (other, other_waker)) = (counter(), counter());
        poller.register(&fd, Interest::READ, &waker);
        poller.register(&silent, Interest::READ, &other_waker);
        poller.wait(NOW, || {}).unwrap();
        assert_eq!(count.get(), 0);
        far.write_all(b"x").unwrap();
        poller.wait(None, || {}).unwrap();
        assert_eq!(count.get(), 1);
        // The descriptor is still readable, but not registered any more.
        poller.wait(NOW, || {}).unwrap();
        assert_eq!((count.get(), other.get()), (1, 0));
        // Reading and writing are separate registrations.
        poller.register(&fd, Interest::READ, &waker);
        poller.register(&fd, Interest::WRITE, &waker);
        poller.wait(None, || {}).unwrap();
        assert_eq!(count.get(), 3);
    }

    #[test]
    fn poller_waits_for_any_number_of_descriptors() {
        let poller = Poller::new().unwrap();
        let (count, waker) = counter();
        let mut pairs: Vec<_> = (0..2 * INLINE_FDS).map(|_| pair()).collect();
        for (at, (_, _, fd)) in pairs.iter().enumerate() {
            poller.register(fd, Interest::READ, &waker);
            poller.wait(NOW, || {}).unwrap();
            assert_eq!(count.get(), 0, "with {} descriptors", at + 1);
        }
        // From the last to the first, so that every number of descriptors occurs.
        for (at, (_, far, _)) in pairs.iter_mut().enumerate().rev() {
            far.write_all(b"x").unwrap();
            poller.wait(None, || {}).unwrap();
            assert_eq!(count.get(), 2 * INLINE_FDS - at);
        }
    }

    #[test]
    fn later_registration_replaces_the_waker() {
        let poller = Poller::new().unwrap();
        let (_near, far, fd) = pair();
        let ((first, one), (second, two)) = (counter(), counter());
        poller.register(&fd, Interest::READ, &one);
        poller.register(&fd, Interest::READ, &two);
        drop(far);
        poller.wait(None, || {}).unwrap();
        assert_eq!((first.get(), second.get()), (0, 1));
    }

    #[test]
    fn deregistered_descriptor_is_closed_and_wakes_nothing() {
        let poller = Poller::new().unwrap();
        let (near, mut far, fd) = pair();
        let (count, waker) = counter();
        poller.register(&fd, Interest::READ, &waker);
        // The other direction is a separate registration.
        poller.deregister(&fd, Interest::WRITE);
        assert_eq!(poller.lock().entries.len(), 1);
        poller.deregister(&fd, Interest::READ);
        drop((near, fd));
        assert_eq!(far.read(&mut [0]).unwrap(), 0);
        poller.wait(NOW, || {}).unwrap();
        assert_eq!(count.get(), 0);
    }

    #[test]
    fn registration_during_a_wait_takes_effect() {
        let poller = Poller::new().unwrap();
        let (_near, _far, fd) = pair();
        let (count, waker) = counter();
        thread::scope(|scope| {
            scope.spawn(|| poller.register(&fd, Interest::WRITE, &waker));
            while count.get() == 0 {
                poller.wait(None, || {}).unwrap();
            }
        });
    }

    #[test]
    fn deregistration_during_a_wait_closes_the_descriptor() {
        let poller = Poller::new().unwrap();
        let (near, mut far, fd) = pair();
        poller.register(&fd, Interest::READ, Waker::noop());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| poller.wait(None, || {}).unwrap());
            while !poller.lock().is_waiting && !waiting.is_finished() {
                thread::yield_now();
            }
            poller.deregister(&fd, Interest::READ);
            drop((near, fd));
            assert_eq!(far.read(&mut [0]).unwrap(), 0);
        });
    }

    #[test]
    fn wake_all_wakes_each_registration_once() {
        let poller = Poller::new().unwrap();
        let (_near, _far, fd) = pair();
        let (count, waker) = counter();
        poller.register(&fd, Interest::READ, &waker);
        let generation = poller.generation();
        poller.wake_all();
        poller.wake_all();
        assert_eq!(count.get(), 1);
        assert_ne!(poller.generation(), generation);
    }

    #[test]
    fn notification_before_the_wait_ends_it() {
        let poller = Poller::new().unwrap();
        poller.notify();
        let mut awake = false;
        poller.wait(None, || awake = true).unwrap();
        assert!(awake);
    }
}
