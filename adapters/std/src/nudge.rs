//! Wakers of loops that poll futures

use alloc::sync::Arc;
use alloc::task::Wake;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use core::task::Waker;
use std::sync::{Mutex, PoisonError};

use crate::inbox::Sender;

/// What is told when a loop has something to do: wakes its future, unless that is being polled and will see by itself
///
/// An executor that is woken by what it polls looks at its reactor before it polls again, which costs more than most calls.
#[derive(Debug)]
pub struct Nudge {
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

impl Default for Nudge {
    fn default() -> Self {
        Self::new()
    }
}

impl Nudge {
    /// Of a future that was not polled yet
    #[must_use]
    pub fn new() -> Self {
        let state = AtomicU8::new(AWAKE);
        let shared = Arc::new(Shared { state, outer: Mutex::new(Waker::noop().clone()) });
        Self { waker: Waker::from(shared.clone()), shared }
    }

    /// What nudges
    #[must_use]
    pub const fn waker(&self) -> &Waker {
        &self.waker
    }

    /// The future is polled, by who holds `outer`
    pub fn begin(&self, outer: &Waker) {
        self.shared.outer.lock().unwrap_or_else(PoisonError::into_inner).clone_from(outer);
    }

    /// The future looks for what there is to do
    pub fn look(&self) {
        self.shared.state.store(AWAKE, Ordering::SeqCst);
    }

    /// The future has nothing to do; false when it was nudged since it looked
    #[must_use]
    pub fn rest(&self) -> bool {
        let state = &self.shared.state;
        state.compare_exchange(AWAKE, ASLEEP, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// What has come of a wait: a waker that says whether it was woken, and wakes whoever polls by now
#[derive(Debug)]
pub struct Answer {
    given: AtomicBool,
    /// Who polled last
    outer: Mutex<Waker>,
}

impl Wake for Answer {
    fn wake(self: Arc<Self>) {
        self.given.store(true, Ordering::SeqCst);
        let outer = self.outer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        outer.wake();
    }
}

impl Answer {
    /// One that is not given, and the waker that gives it
    #[must_use]
    pub fn new() -> (Arc<Self>, Waker) {
        let outer = Mutex::new(Waker::noop().clone());
        let answer = Arc::new(Self { given: AtomicBool::new(false), outer });
        (answer.clone(), Waker::from(answer))
    }

    /// Takes the answer if it was given; `outer` is woken by one that is given from now on
    pub fn take(&self, outer: &Waker) -> bool {
        // Before the answer is looked for: one that comes later wakes the right one.
        self.outer.lock().unwrap_or_else(PoisonError::into_inner).clone_from(outer);
        self.given.swap(false, Ordering::SeqCst)
    }

    /// Whether it was given, and not taken
    pub fn is_given(&self) -> bool {
        self.given.load(Ordering::SeqCst)
    }
}

/// Says which of many was woken, once until it is [silenced](Self::silence)
#[derive(Debug)]
pub struct Ring {
    place: usize,
    rung: AtomicBool,
    woken: Sender<usize>,
}

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // No more of them than places. Refused when all is over.
            let _ = self.woken.send_due(self.place);
        }
    }
}

impl Ring {
    /// Sends `place` to `woken` when the waker is woken
    #[must_use]
    pub fn new(place: usize, woken: Sender<usize>) -> (Arc<Self>, Waker) {
        let ring = Arc::new(Self { place, rung: AtomicBool::new(false), woken });
        (ring.clone(), Waker::from(ring))
    }

    /// To be said before a poll: what wakes it meanwhile asks for another one
    pub fn silence(&self) {
        self.rung.store(false, Ordering::Release);
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
