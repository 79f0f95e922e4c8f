//! Descriptors that wakers wait for, looked at by one thread with `poll(2)`

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

use crate::alarm::Bell;
use crate::duplex::Interest;
use crate::readiness::LONGEST;

/// Descriptors that wakers wait for, and the wait for all of them
///
/// For loops that poll futures: a future that cannot go on [asks](Self::ask), and the thread of the loop
/// [waits](Self::wait), which costs one system call however many are asked for. Asking is possible from every thread.
#[derive(Debug)]
pub struct Waits {
    bell: Bell,
    asked: Mutex<Asked>,
    /// How often it was [left](Self::leave)
    rounds: AtomicUsize,
}

#[derive(Debug, Default)]
struct Asked {
    questions: Vec<Question>,
    /// A wait goes on, for other ones maybe
    waits: bool,
    /// Empty between two waits, and kept for its memory
    fds: Vec<(Arc<OwnedFd>, bool)>,
    /// Likewise
    woken: Vec<Waker>,
}

#[derive(Debug)]
struct Question {
    fd: Arc<OwnedFd>,
    writes: bool,
    waker: Waker,
}

impl Waits {
    /// Nothing is asked for yet
    ///
    /// # Errors
    ///
    /// When the system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { bell: Bell::new()?, asked: Mutex::default(), rounds: AtomicUsize::new(0) })
    }

    /// Ends the wait that goes on, or the next one
    pub fn ring(&self) {
        self.bell.ring();
    }

    /// What was asked in another round than this was taken back
    pub fn round(&self) -> usize {
        self.rounds.load(Ordering::SeqCst)
    }

    /// Has `waker` woken once, by a wait that finds `fd` ready: for writing if `interest` says so, for reading otherwise
    ///
    /// Who has asked the same before is forgotten. A descriptor whose other end is closed is ready.
    pub fn ask(&self, fd: &Arc<OwnedFd>, interest: Interest, waker: &Waker) {
        let mut asked = self.asked();
        let writes = interest.write;
        match asked.questions.iter_mut().find(|question| question.is(fd, writes)) {
            Some(question) => question.waker.clone_from(waker),
            None => asked.questions.push(Question { fd: fd.clone(), writes, waker: waker.clone() }),
        }
        if asked.waits {
            self.ring();
        }
    }

    /// Takes back what was asked, and lets go of `fd`
    pub fn forget(&self, fd: &Arc<OwnedFd>, interest: Interest) {
        let mut asked = self.asked();
        let place = asked.questions.iter().position(|question| question.is(fd, interest.write));
        if let Some(place) = place {
            asked.questions.swap_remove(place);
            if asked.waits {
                // The wait holds it, too.
                self.ring();
            }
        }
    }

    /// Waits until something is ready, it is [rung](Self::ring), `timeout` has passed (none: no limit) or a signal arrives;
    /// calls `awake`, and then wakes all who have asked for what is ready. One thread at a time may wait.
    ///
    /// # Errors
    ///
    /// When the system does not let it wait.
    pub fn wait(&self, timeout: Option<Duration>, awake: impl FnOnce()) -> io::Result<()> {
        let mut asked = self.asked();
        let mut fds = mem::take(&mut asked.fds);
        fds.extend(asked.questions.iter().map(|question| (question.fd.clone(), question.writes)));
        asked.waits = true;
        drop(asked);

        // The bell is the first.
        let entry = |at: usize| {
            let (fd, writes) = match at.checked_sub(1).and_then(|at| fds.get(at)) {
                Some((fd, writes)) => (fd.as_fd(), *writes),
                None => (self.bell.as_fd(), false),
            };
            PollFd::from_borrowed_fd(fd, if writes { PollFlags::OUT } else { PollFlags::IN })
        };
        let (mut few, mut many);
        let entries = if fds.len() < FEW {
            few = array::from_fn::<_, FEW, _>(entry);
            few.get_mut(..=fds.len()).unwrap_or_default()
        } else {
            many = (0..=fds.len()).map(entry).collect::<Vec<_>>();
            &mut many[..]
        };
        let timeout = timeout.map(|timeout| timeout.min(LONGEST));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let outcome = match poll(entries, timeout.as_ref()) {
            Err(error) if error != Errno::INTR => Err(error.into()),
            _ => Ok(()),
        };
        awake();
        let mut asked = self.asked();
        asked.waits = false;
        let mut woken = mem::take(&mut asked.woken);
        let is_ready = |entry: &PollFd<'_>| outcome.is_ok() && !entry.revents().is_empty();
        for (entry, (fd, writes)) in entries.iter().skip(1).zip(&fds) {
            if is_ready(entry) {
                let place = asked.questions.iter().position(|question| question.is(fd, *writes));
                woken.extend(place.map(|place| asked.questions.swap_remove(place).waker));
            }
        }
        drop(asked);
        if entries.first().is_some_and(is_ready) {
            self.bell.silence();
        }
        fds.clear();
        woken.drain(..).for_each(Waker::wake);
        let mut asked = self.asked();
        asked.fds = fds;
        asked.woken = woken;
        outcome
    }

    /// Begins another [round](Self::round) because nobody waits any more, and wakes all who have asked: they may ask
    /// elsewhere
    pub fn leave(&self) {
        self.rounds.fetch_add(1, Ordering::SeqCst);
        loop {
            // One by one, so that the memory stays.
            let Some(question) = self.asked().questions.pop() else { return };
            question.waker.wake();
        }
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Question {
    fn is(&self, fd: &Arc<OwnedFd>, writes: bool) -> bool {
        self.writes == writes && Arc::ptr_eq(&self.fd, fd)
    }
}

/// Descriptors, with the bell, that are waited for without an allocation
const FEW: usize = 8;

#[cfg(test)]
mod tests {
    use alloc::task::Wake;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Count {
        fn get(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    fn counter() -> (Arc<Count>, Waker) {
        let count = Arc::<Count>::default();
        (count.clone(), Waker::from(count))
    }

    fn pair() -> (UnixStream, UnixStream, Arc<OwnedFd>) {
        let (near, far) = UnixStream::pair().unwrap();
        let fd = Arc::new(OwnedFd::from(near.try_clone().unwrap()));
        (near, far, fd)
    }

    const NOW: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn wakes_once_for_what_is_ready_and_nobody_else() {
        let waits = Waits::new().unwrap();
        let (_near, mut far, fd) = pair();
        let (_other, _far, silent) = pair();
        let ((count, waker), (other, nobody)) = (counter(), counter());
        waits.ask(&fd, Interest::READ, &waker);
        waits.ask(&silent, Interest::READ, &nobody);
        waits.wait(NOW, || {}).unwrap();
        assert_eq!(count.get(), 0);
        far.write_all(b"x").unwrap();
        waits.wait(None, || {}).unwrap();
        assert_eq!(count.get(), 1);
        // It is still readable, and nobody asks.
        waits.wait(NOW, || {}).unwrap();
        assert_eq!((count.get(), other.get()), (1, 0));
        // Reading and writing are two questions.
        waits.ask(&fd, Interest::READ, &waker);
        waits.ask(&fd, Interest::WRITE, &waker);
        waits.wait(None, || {}).unwrap();
        assert_eq!(count.get(), 3);
    }

    #[test]
    fn many_are_waited_for_as_few_are() {
        let waits = Waits::new().unwrap();
        let (count, waker) = counter();
        let mut pairs: Vec<_> = (0..2 * FEW).map(|_| pair()).collect();
        for (at, (_, _, fd)) in pairs.iter().enumerate() {
            waits.ask(fd, Interest::READ, &waker);
            waits.wait(NOW, || {}).unwrap();
            assert_eq!(count.get(), 0, "with {} descriptors", at + 1);
        }
        // From the last to the first, so that every number of descriptors occurs.
        for (at, (_, far, _)) in pairs.iter_mut().enumerate().rev() {
            far.write_all(b"x").unwrap();
            waits.wait(None, || {}).unwrap();
            assert_eq!(count.get(), 2 * FEW - at);
        }
    }

    #[test]
    fn who_asks_last_is_woken() {
        let waits = Waits::new().unwrap();
        let (_near, far, fd) = pair();
        let ((first, one), (second, two)) = (counter(), counter());
        waits.ask(&fd, Interest::READ, &one);
        waits.ask(&fd, Interest::READ, &two);
        drop(far);
        waits.wait(None, || {}).unwrap();
        assert_eq!((first.get(), second.get()), (0, 1));
    }

    #[test]
    fn what_is_forgotten_is_closed_and_wakes_nobody() {
        let waits = Waits::new().unwrap();
        let (near, mut far, fd) = pair();
        let (count, waker) = counter();
        waits.ask(&fd, Interest::READ, &waker);
        // The other direction is another matter.
        waits.forget(&fd, Interest::WRITE);
        assert_eq!(waits.asked().questions.len(), 1);
        waits.forget(&fd, Interest::READ);
        drop((near, fd));
        assert_eq!(far.read(&mut [0]).unwrap(), 0);
        waits.wait(NOW, || {}).unwrap();
        assert_eq!(count.get(), 0);
    }

    #[test]
    fn who_asks_while_it_waits_is_waited_for() {
        let waits = Waits::new().unwrap();
        let (_near, _far, fd) = pair();
        let (count, waker) = counter();
        thread::scope(|scope| {
            scope.spawn(|| waits.ask(&fd, Interest::WRITE, &waker));
            while count.get() == 0 {
                waits.wait(None, || {}).unwrap();
            }
        });
    }

    #[test]
    fn what_is_forgotten_while_it_waits_is_closed() {
        let waits = Waits::new().unwrap();
        let (near, mut far, fd) = pair();
        waits.ask(&fd, Interest::READ, Waker::noop());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| waits.wait(None, || {}).unwrap());
            while !waits.asked().waits && !waiting.is_finished() {
                thread::yield_now();
            }
            waits.forget(&fd, Interest::READ);
            drop((near, fd));
            assert_eq!(far.read(&mut [0]).unwrap(), 0);
        });
    }

    #[test]
    fn those_who_are_left_are_woken() {
        let waits = Waits::new().unwrap();
        let (_near, _far, fd) = pair();
        let (count, waker) = counter();
        waits.ask(&fd, Interest::READ, &waker);
        let round = waits.round();
        waits.leave();
        waits.leave();
        assert_eq!(count.get(), 1);
        assert_ne!(waits.round(), round);
    }

    #[test]
    fn a_ring_before_the_wait_ends_it() {
        let waits = Waits::new().unwrap();
        waits.ring();
        let mut awake = false;
        waits.wait(None, || awake = true).unwrap();
        assert!(awake);
    }
}
