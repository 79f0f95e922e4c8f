//! Wakers for loops that poll futures.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use core::task::Waker;
use std::sync::Mutex;

use crate::sync::{Sender, lock};

/// A waker that wakes a task at most once between two polls, and not while the task is being polled.
///
/// An executor that is woken by the task it polls checks its reactor before the next poll. That costs more than most
/// calls.
#[derive(Debug)]
pub struct CoalescingWaker {
    shared: Arc<CoalescingWakerInner>,
    waker: Waker,
    /// The same as in `shared`, to be compared without the lock.
    task_waker: Waker,
}

#[derive(Debug)]
struct CoalescingWakerInner {
    state: AtomicU8,
    /// The waker of the task.
    task_waker: Mutex<Waker>,
}

/// The task is not being polled: a notification wakes it.
const SLEEPING: u8 = 0;
/// The task is being polled.
const POLLING: u8 = 1;
/// The task was notified and has not looked for work since.
const NOTIFIED: u8 = 2;

impl Wake for CoalescingWakerInner {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(NOTIFIED, Ordering::AcqRel) == SLEEPING {
            let task_waker = lock(&self.task_waker).clone();
            task_waker.wake();
        }
    }
}

impl Default for CoalescingWaker {
    fn default() -> Self {
        Self::new()
    }
}

impl CoalescingWaker {
    /// Creates the waker of a task that was not polled yet.
    #[must_use]
    pub fn new() -> Self {
        let state = AtomicU8::new(POLLING);
        let shared = Arc::new(CoalescingWakerInner { state, task_waker: Mutex::new(Waker::noop().clone()) });
        Self { waker: Waker::from(shared.clone()), shared, task_waker: Waker::noop().clone() }
    }

    /// Returns the waker that notifies the task.
    #[must_use]
    pub const fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Records the waker of the task. Call it at the start of a poll.
    pub fn begin_poll(&mut self, task_waker: &Waker) {
        if !self.task_waker.will_wake(task_waker) {
            self.task_waker.clone_from(task_waker);
            lock(&self.shared.task_waker).clone_from(task_waker);
        }
    }

    /// Marks the task as looking for work, which consumes earlier notifications.
    pub fn mark_polling(&self) {
        // Not a store: what was sent before a notification that this consumes has to be seen.
        self.shared.state.swap(POLLING, Ordering::SeqCst);
    }

    /// Marks the task as sleeping; returns `false` if it was notified since [`mark_polling`](Self::mark_polling).
    #[must_use]
    pub fn try_sleep(&self) -> bool {
        let state = &self.shared.state;
        state.compare_exchange(POLLING, SLEEPING, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// A waker that records whether it was woken, and wakes the task that polled last.
#[derive(Debug)]
pub struct FlagWaker {
    woken: AtomicBool,
    /// Waker of the task that polled last.
    task_waker: Mutex<Waker>,
}

impl Wake for FlagWaker {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        let task_waker = lock(&self.task_waker).clone();
        task_waker.wake();
    }
}

impl FlagWaker {
    /// Creates a flag that is not set, and the waker that sets it.
    #[must_use]
    pub fn new() -> (Arc<Self>, Waker) {
        let task_waker = Mutex::new(Waker::noop().clone());
        let flag = Arc::new(Self { woken: AtomicBool::new(false), task_waker });
        (flag.clone(), Waker::from(flag))
    }

    /// Takes the flag, and records `task_waker` as the waker for later wakes.
    pub fn take(&self, task_waker: &Waker) -> bool {
        // Recorded before the flag is read, so that a later wake reaches the right task.
        lock(&self.task_waker).clone_from(task_waker);
        self.woken.swap(false, Ordering::SeqCst)
    }

    /// Returns whether the flag is set and not taken.
    pub fn is_woken(&self) -> bool {
        self.woken.load(Ordering::SeqCst)
    }
}

/// A waker that sends its index once until it is [reset](Self::reset).
#[derive(Debug)]
pub struct IndexedWaker {
    index: usize,
    notified: AtomicBool,
    sender: Sender<usize>,
}

impl Wake for IndexedWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.notified.swap(true, Ordering::AcqRel) {
            // No more indexes are queued than wakers exist. Sending fails after the end of the loop.
            let _ = self.sender.send_unbounded(self.index);
        }
    }
}

impl IndexedWaker {
    /// Creates a waker that sends `index` to `sender`.
    #[must_use]
    pub fn new(index: usize, sender: Sender<usize>) -> (Arc<Self>, Waker) {
        let waker = Arc::new(Self { index, notified: AtomicBool::new(false), sender });
        (waker.clone(), Waker::from(waker))
    }

    /// Allows the next wake to send the index again. Call it before a poll.
    pub fn reset(&self) {
        self.notified.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct TaskWakeCount(AtomicUsize);

    impl Wake for TaskWakeCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn coalescing_waker_wakes_only_a_sleeping_task() {
        let count = Arc::new(TaskWakeCount::default());
        let woken = || count.0.load(Ordering::SeqCst);
        let mut coalescing = CoalescingWaker::new();
        // Before the first poll, which happens anyway.
        coalescing.waker().wake_by_ref();
        coalescing.begin_poll(&Waker::from(count.clone()));
        coalescing.mark_polling();
        coalescing.waker().wake_by_ref();
        assert!(!coalescing.try_sleep(), "a notification is pending");
        coalescing.mark_polling();
        assert!(coalescing.try_sleep());
        assert_eq!(woken(), 0);
        // Woken once, until it looks for work.
        coalescing.waker().wake_by_ref();
        coalescing.waker().wake_by_ref();
        assert_eq!(woken(), 1);
        assert!(!coalescing.try_sleep());
    }
}
