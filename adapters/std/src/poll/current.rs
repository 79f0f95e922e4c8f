//! The poller of the current thread, and polling a future with it.

use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicU8, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{HungUp, Interest, MAX_TIMEOUT, Notifier, Ready};
use crate::poll::Poller;

/// The poller of a thread, and the waker that ends its wait.
#[derive(Debug)]
struct ThreadPoller {
    state: Arc<State>,
    waker: Waker,
}

#[derive(Debug)]
struct State {
    state: AtomicU8,
    poller: Arc<Poller>,
}

/// The future is being polled, or is about to be.
const POLLING: u8 = 0;
/// The thread waits.
const WAITING: u8 = 1;
/// The future was woken and has not been polled since.
const WOKEN: u8 = 2;

impl Wake for State {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::AcqRel) == WAITING {
            self.poller.notify();
        }
    }
}

impl ThreadPoller {
    fn new() -> Option<Self> {
        let poller = Arc::new(Poller::new().ok()?);
        let state = Arc::new(State { state: AtomicU8::new(POLLING), poller });
        Some(Self { waker: Waker::from(state.clone()), state })
    }

    fn run(&self, poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<()>) {
        let mut cx = Context::from_waker(&self.waker);
        let State { state, poller } = &*self.state;
        loop {
            state.store(POLLING, Ordering::SeqCst);
            if poll(&mut cx).is_ready() {
                return;
            }
            // This fails if the future was woken while it was polled.
            let is_waiting =
                state.compare_exchange(POLLING, WAITING, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            // The future can make progress, so the wait only polls for what is ready now.
            let timeout = if is_waiting { None } else { Some(Duration::ZERO) };
            let awake = || _ = state.compare_exchange(WAITING, POLLING, Ordering::SeqCst, Ordering::SeqCst);
            if poller.wait(timeout, awake).is_err() {
                // The system is short of memory; try again later.
                std::thread::sleep(RETRY_DELAY);
            }
        }
    }
}

std::thread_local! {
    /// Poller of the last future that ran on this thread, kept for the next one.
    static SPARE: Cell<Option<ThreadPoller>> = const { Cell::new(None) };
    /// Poller of the future that runs on this thread.
    static CURRENT: RefCell<Option<Arc<Poller>>> = const { RefCell::new(None) };
}

/// Returns the poller of this thread, while it runs a future.
pub fn current_poller() -> Option<Arc<Poller>> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// Returns an identifier of this thread's poller, while it runs a future; valid as long as the poller has users.
pub fn current_poller_id() -> Option<usize> {
    CURRENT
        .try_with(|current| current.borrow().as_ref().map(|poller| Arc::as_ptr(poller).addr()))
        .ok()
        .flatten()
}

/// Makes `thread` the current poller while it lives, and restores the previous one when dropped.
struct CurrentPollerGuard<'a> {
    previous: Option<Arc<Poller>>,
    thread: &'a ThreadPoller,
}

impl<'a> CurrentPollerGuard<'a> {
    fn new(thread: &'a ThreadPoller) -> Self {
        let previous = CURRENT.with(|current| current.replace(Some(thread.state.poller.clone())));
        Self { previous, thread }
    }
}

impl Drop for CurrentPollerGuard<'_> {
    fn drop(&mut self) {
        let _ = CURRENT.try_with(|current| current.replace(self.previous.take()));
        // Tasks that continue elsewhere have to register with another poller.
        self.thread.state.poller.wake_all();
    }
}

/// Polls on this thread until `poll` is ready, and waits for registered descriptors in between.
///
/// Returns `false` without polling if no descriptor for the poller is left. Calls may be nested.
pub fn block_on_poller(poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<()>) -> bool {
    let spare = SPARE.try_with(Cell::take).ok().flatten();
    let Some(thread) = spare.or_else(ThreadPoller::new) else { return false };
    let guard = CurrentPollerGuard::new(&thread);
    thread.run(poll);
    drop(guard);
    // It fails while the thread ends, and then nothing has to be kept.
    let _ = SPARE.try_with(|spare| spare.set(Some(thread)));
    true
}

/// Pause before a failed wait is repeated.
const RETRY_DELAY: Duration = Duration::from_millis(1);

// A wait for a few handles with `poll(2)`.
//
// `epoll` refuses regular files, but `server < requests > answers` must work, and few handles need nothing faster.

/// The handles of one wait; a handle that is `None` cannot end the wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct PollHandles<'fd> {
    /// Handle to be read.
    pub read: Option<BorrowedFd<'fd>>,
    /// Handle to be written.
    pub write: Option<BorrowedFd<'fd>>,
    /// Second handle to be read, for example the stderr of a child process.
    pub auxiliary: Option<BorrowedFd<'fd>>,
    /// Notifier that ends the wait.
    pub notifier: Option<&'fd Notifier>,
}

/// The handles that are ready.
///
/// Errors and hang-ups count as ready, so that the next call on the handle reports them.
#[derive(Clone, Copy, Debug, Default)]
pub struct PollOutcome {
    /// Whether the handle to be read is ready.
    pub read: bool,
    /// Whether the handle to be written is ready.
    pub write: bool,
    /// Whether the second handle to be read is ready.
    pub auxiliary: bool,
    /// Whether the notifier was notified; it has been reset.
    pub notified: bool,
}

/// Returns whether an operation on a descriptor would not block now. Errors and hang-ups count as ready.
///
/// # Errors
///
/// That of `poll(2)`.
pub fn is_ready(fd: BorrowedFd<'_>, interest: Interest) -> io::Result<bool> {
    let (read, write) = (interest.read.then_some(fd), interest.write.then_some(fd));
    let found = PollHandles { read, write, ..PollHandles::default() }.wait(Some(Duration::ZERO))?;
    Ok(found.read || found.write)
}

/// Waits for a byte stream with one descriptor, as [`Duplex::wait`](crate::io::Duplex::wait) does.
pub(crate) fn wait_stream(
    fd: BorrowedFd<'_>,
    interest: Interest,
    timeout: Option<Duration>,
    notifier: Option<&Notifier>,
) -> io::Result<Ready> {
    interest.check(timeout, || notifier.is_some())?;
    let (read, write) = (interest.read.then_some(fd), interest.write.then_some(fd));
    let found = PollHandles { read, write, auxiliary: None, notifier }.wait(timeout)?;
    Ok(Ready { readable: found.read, writable: found.write })
}

impl PollHandles<'_> {
    /// Waits until a handle is ready, the notifier is notified, `timeout` has passed (`None`: no limit) or a signal
    /// arrives.
    ///
    /// Very long timeouts end early, after a day.
    ///
    /// # Errors
    ///
    /// That of `poll(2)`.
    pub fn wait(self, timeout: Option<Duration>) -> io::Result<PollOutcome> {
        let notifier = self.notifier.map(Notifier::as_fd);
        let wanted = [
            (self.read, PollFlags::IN),
            (self.write, PollFlags::OUT),
            (self.auxiliary, PollFlags::IN),
            (notifier, PollFlags::IN),
        ];
        let timeout = timeout.map(|timeout| timeout.min(MAX_TIMEOUT));
        let Some(any_fd) = self.read.or(self.write).or(self.auxiliary).or(notifier) else {
            std::thread::sleep(timeout.unwrap_or(MAX_TIMEOUT));
            return Ok(PollOutcome::default());
        };

        // An entry without events would still report a hang-up, so unused entries are cut off. This does not allocate.
        let mut entries = [any_fd; 4].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::empty()));
        let mut len = 0;
        for (fd, flags) in wanted {
            if let Some(fd) = fd {
                entries[len] = PollFd::from_borrowed_fd(fd, flags);
                len += 1;
            }
        }
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut entries[..len], timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(PollOutcome::default()),
            Err(error) => return Err(error.into()),
        }
        let mut revents = entries[..len].iter().map(|entry| !entry.revents().is_empty());
        let mut is_ready = |wanted: bool| wanted && revents.next().unwrap_or_default();
        let found = PollOutcome {
            read: is_ready(self.read.is_some()),
            write: is_ready(self.write.is_some()),
            auxiliary: is_ready(self.auxiliary.is_some()),
            notified: is_ready(notifier.is_some()),
        };
        if let (Some(notifier), true) = (self.notifier, found.notified) {
            notifier.reset();
        }
        Ok(found)
    }
}

/// Waits until one of `all` is ready, for writing if the flag is set and otherwise for reading, or until `timeout` has
/// passed. Returns which are ready.
pub(crate) fn wait_any<'fd>(
    all: impl Iterator<Item = (BorrowedFd<'fd>, bool)>,
    timeout: Option<Duration>,
) -> io::Result<Vec<bool>> {
    let entry = |(fd, is_write)| {
        let flags = if is_write { PollFlags::OUT } else { PollFlags::IN };
        PollFd::from_borrowed_fd(fd, flags)
    };
    let mut entries: Vec<PollFd<'fd>> = all.map(entry).collect();
    let timeout = timeout.map_or(MAX_TIMEOUT, |timeout| timeout.min(MAX_TIMEOUT));
    match poll(&mut entries, Timespec::try_from(timeout).ok().as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(entries.iter().map(|entry| !entry.revents().is_empty()).collect()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the directions that the other end has closed, without waiting.
pub(crate) fn hung_up(input: BorrowedFd<'_>, output: Option<BorrowedFd<'_>>) -> io::Result<HungUp> {
    let closed = PollFlags::HUP | PollFlags::ERR | PEER_WRITE_CLOSED;
    let mut entries = [
        PollFd::from_borrowed_fd(input, PEER_WRITE_CLOSED),
        PollFd::from_borrowed_fd(output.unwrap_or(input), PollFlags::empty()),
    ];
    match poll(&mut entries, Some(&Timespec::default())) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(HungUp::default()),
        Err(error) => return Err(error.into()),
    }
    let [input, output_closed] = entries.map(|entry| entry.revents().intersects(closed));
    Ok(HungUp { read_closed: input, write_closed: output.is_some() && output_closed })
}

/// The peer of a socket has closed its sending side.
#[cfg(target_os = "linux")]
const PEER_WRITE_CLOSED: PollFlags = PollFlags::RDHUP;
#[cfg(not(target_os = "linux"))]
const PEER_WRITE_CLOSED: PollFlags = PollFlags::empty();
