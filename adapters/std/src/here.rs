//! Polling a future on this thread, and waiting for what it waits for

use alloc::sync::Arc;
use alloc::task::Wake;
use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicU8, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use crate::Waits;

/// What a thread waits by, and how its wait is ended
#[derive(Debug)]
struct Thread {
    state: Arc<State>,
    waker: Waker,
}

#[derive(Debug)]
struct State {
    state: AtomicU8,
    waits: Arc<Waits>,
}

/// The future is polled, or about to be
const AWAKE: u8 = 0;
/// The thread waits
const ASLEEP: u8 = 1;
/// It was woken, and not polled since
const WOKEN: u8 = 2;

impl Wake for State {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::AcqRel) == ASLEEP {
            self.waits.ring();
        }
    }
}

impl Thread {
    fn new() -> Option<Self> {
        let waits = Arc::new(Waits::new().ok()?);
        let state = Arc::new(State { state: AtomicU8::new(AWAKE), waits });
        Some(Self { waker: Waker::from(state.clone()), state })
    }

    fn run(&self, poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<()>) {
        let mut cx = Context::from_waker(&self.waker);
        let State { state, waits } = &*self.state;
        loop {
            state.store(AWAKE, Ordering::SeqCst);
            if poll(&mut cx).is_ready() {
                return;
            }
            let sleeps = state.compare_exchange(AWAKE, ASLEEP, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            // While a future wants to go on, the others of an executor are to get what they wait for.
            let timeout = if sleeps { None } else { Some(Duration::ZERO) };
            let awake = || _ = state.compare_exchange(ASLEEP, AWAKE, Ordering::SeqCst, Ordering::SeqCst);
            if waits.wait(timeout, awake).is_err() {
                // The system is short of memory.
                std::thread::sleep(SHORT);
            }
        }
    }
}

std::thread_local! {
    /// Of the last future that ran here, for the next one
    static SPARE: Cell<Option<Thread>> = const { Cell::new(None) };
    /// Of the future that runs here
    static HERE: RefCell<Option<Arc<Waits>>> = const { RefCell::new(None) };
}

/// What this thread waits by while it runs a future
pub fn here() -> Option<Arc<Waits>> {
    HERE.try_with(|here| here.borrow().clone()).ok().flatten()
}

/// A number for what this thread waits by while it runs a future, as long as that is asked for something
pub fn spot() -> Option<usize> {
    HERE.try_with(|here| here.borrow().as_ref().map(|here| Arc::as_ptr(here).addr())).ok().flatten()
}

/// While it lives, the thread waits by `thread`; then as before
struct Entered<'a> {
    before: Option<Arc<Waits>>,
    thread: &'a Thread,
}

impl<'a> Entered<'a> {
    fn new(thread: &'a Thread) -> Self {
        let before = HERE.with(|here| here.replace(Some(thread.state.waits.clone())));
        Self { before, thread }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let _ = HERE.try_with(|here| here.replace(self.before.take()));
        // What goes on elsewhere has to ask there.
        self.thread.state.waits.leave();
    }
}

/// Polls on this thread until that is ready, and waits by one system call meanwhile; false when there is no descriptor to
/// be woken by, and nothing was polled
///
/// It can be used inside of itself.
pub fn run_here(poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<()>) -> bool {
    let spare = SPARE.try_with(Cell::take).ok().flatten();
    let Some(thread) = spare.or_else(Thread::new) else { return false };
    let entered = Entered::new(&thread);
    thread.run(poll);
    drop(entered);
    let _ = SPARE.try_with(|spare| spare.set(Some(thread)));
    true
}

/// Before what failed is tried again
const SHORT: Duration = Duration::from_millis(1);
