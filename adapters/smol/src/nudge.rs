//! Waking a future that may be awake

use alloc::sync::Arc;
use alloc::task::Wake;
use core::sync::atomic::{AtomicU8, Ordering};
use core::task::Waker;
use std::sync::{Mutex, PoisonError};

/// What is told when a loop has something to do: wakes its future, unless that is being polled and will see by itself
///
/// An executor that is woken by what it polls looks at its reactor before it polls again, which costs more than most calls.
#[derive(Debug)]
pub(crate) struct Nudge {
    shared: Arc<Shared>,
    waker: Waker,
}

#[derive(Debug)]
struct Shared {
    state: AtomicU8,
    /// That of the future
    outer: Mutex<Waker>,
}

/// The future sleeps: it is to be woken
const ASLEEP: u8 = 0;
/// It is being polled
const AWAKE: u8 = 1;
/// It was nudged, and has not looked since
const NUDGED: u8 = 2;

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(NUDGED, Ordering::AcqRel) == ASLEEP {
            let outer = self.outer.lock().unwrap_or_else(PoisonError::into_inner).clone();
            outer.wake();
        }
    }
}

impl Nudge {
    /// Of a future that was not polled yet
    pub(crate) fn new() -> Self {
        let state = AtomicU8::new(AWAKE);
        let shared = Arc::new(Shared { state, outer: Mutex::new(Waker::noop().clone()) });
        Self { waker: Waker::from(shared.clone()), shared }
    }

    /// What nudges
    pub(crate) const fn waker(&self) -> &Waker {
        &self.waker
    }

    /// The future is polled, by who holds `outer`
    pub(crate) fn begin(&self, outer: &Waker) {
        self.shared.outer.lock().unwrap_or_else(PoisonError::into_inner).clone_from(outer);
    }

    /// The future looks for what there is to do
    pub(crate) fn look(&self) {
        self.shared.state.store(AWAKE, Ordering::SeqCst);
    }

    /// The future has nothing to do; false when it was nudged since it looked
    pub(crate) fn rest(&self) -> bool {
        let state = &self.shared.state;
        state.compare_exchange(AWAKE, ASLEEP, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn wakes_who_sleeps_and_nobody_else() {
        let count = Arc::new(Count::default());
        let woken = || count.0.load(Ordering::SeqCst);
        let nudge = Nudge::new();
        // Before the first poll, which comes anyway.
        nudge.waker().wake_by_ref();
        nudge.begin(&Waker::from(count.clone()));
        nudge.look();
        nudge.waker().wake_by_ref();
        assert!(!nudge.rest(), "there is something to look for");
        nudge.look();
        assert!(nudge.rest());
        assert_eq!(woken(), 0);
        // Once, until it has looked.
        nudge.waker().wake_by_ref();
        nudge.waker().wake_by_ref();
        assert_eq!(woken(), 1);
        assert!(!nudge.rest());
    }
}
