//! The poller of the current thread, and polling a future with it.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicU8, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use crate::adapter::poll::Poller;

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
    let _ = SPARE.try_with(|spare| spare.set(Some(thread)));
    true
}

/// Pause before a failed wait is repeated.
const RETRY_DELAY: Duration = Duration::from_millis(1);
