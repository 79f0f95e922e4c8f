//! Where a caller finds what came of what it wants of a loop

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;
use core::task::{Poll, Waker};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_proto::{CallKey, Fault, Progress};

use crate::error::Error;

/// The caller's end: told once what came of it, and woken for that
///
/// Dropping it says that nobody wants to know any more.
pub struct Slot<T>(Arc<Shared<T>>);

/// The loop's end of a [`Slot`]; dropping it says that the connection is over
pub struct Teller<T>(Arc<Shared<T>>);

/// What a [`Slot`] was told
#[derive(Debug)]
pub enum Update<T> {
    /// How far it has come
    Progress(Progress),
    /// What came of it; nothing is told after that
    Outcome(Result<T, Error>),
}

struct Shared<T>(Mutex<State<T>>);

struct State<T> {
    outcome: Option<Result<T, Error>>,
    waker: Option<Waker>,
    /// The call, once it has begun
    call: Option<CallKey>,
    /// The newest, if they are wanted
    progress: Option<VecDeque<Progress>>,
    /// The outcome was told or taken
    over: bool,
    /// Nobody waits for it
    abandoned: bool,
}

impl<T> Shared<T> {
    /// Held for a moment, never while anything else runs
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Slot<T> {
    /// Both ends; `progress` says whether that is wanted too
    #[must_use]
    pub fn new(progress: bool) -> (Teller<T>, Self) {
        let state = State {
            outcome: None,
            waker: None,
            call: None,
            progress: progress.then(VecDeque::new),
            over: false,
            abandoned: false,
        };
        let shared = Arc::new(Shared(Mutex::new(state)));
        (Teller(shared.clone()), Self(shared))
    }

    /// What there is to be told, or `waker` woken when there is
    ///
    /// Stays pending for ever once the outcome was taken.
    pub fn poll(&self, waker: &Waker) -> Poll<Update<T>> {
        let mut state = self.0.lock();
        if let Some(progress) = state.progress.as_mut().and_then(VecDeque::pop_front) {
            return Poll::Ready(Update::Progress(progress));
        }
        if let Some(outcome) = state.outcome.take() {
            return Poll::Ready(Update::Outcome(outcome));
        }
        match &mut state.waker {
            Some(old) => old.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        Poll::Pending
    }

    /// Keeps progress from now on, to be [polled](Self::poll)
    pub fn watch(&self) {
        self.0.lock().progress.get_or_insert_default();
    }

    /// Whether the outcome was told and taken: nothing more comes
    #[must_use]
    pub fn is_taken(&self) -> bool {
        let state = self.0.lock();
        state.over && state.outcome.is_none()
    }

    /// The call, once it has begun
    #[must_use]
    pub fn call(&self) -> Option<CallKey> {
        self.0.lock().call
    }

    /// Says that nobody wants to know any more; what came of it if that was told and not taken
    ///
    /// What comes of it from now on is given [back](Teller::tell_or_keep) to who would tell.
    pub fn give_up(&self) -> Option<Result<T, Error>> {
        let mut state = self.0.lock();
        state.abandoned = true;
        state.waker = None;
        state.outcome.take()
    }

    /// Says that nobody wants to know any more; the call that is to be cancelled for that, if it has begun and is not over
    pub fn abandon(&self) -> Option<CallKey> {
        let mut state = self.0.lock();
        let first = !core::mem::replace(&mut state.abandoned, true);
        state.waker = None;
        state.call.filter(|_| first && !state.over)
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        let _ = self.abandon();
    }
}

impl<T> Teller<T> {
    /// Tells what came of it
    pub fn tell(self, outcome: Result<T, Error>) {
        self.tell_once(outcome);
    }

    /// Tells what came of it, or gives it back if nobody wants to know any more: for what has to be undone then
    #[must_use]
    pub fn tell_or_keep(self, outcome: Result<T, Error>) -> Option<Result<T, Error>> {
        self.tell_once(outcome)
    }

    fn tell_once(&self, outcome: Result<T, Error>) -> Option<Result<T, Error>> {
        let mut state = self.0.lock();
        if core::mem::replace(&mut state.over, true) || state.abandoned {
            return Some(outcome);
        }
        state.outcome = Some(outcome);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        None
    }

    /// Says which call it became; false when nobody wants it any more
    #[must_use]
    pub fn begun(&self, call: CallKey) -> bool {
        let mut state = self.0.lock();
        state.call = Some(call);
        !state.abandoned
    }

    /// Whether nobody wants to know any more
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.0.lock().abandoned
    }

    /// Tells how far it has come, if that is wanted; the newest few are kept. Gives it back where it is not
    pub fn progress(&self, progress: Progress) -> Option<Progress> {
        let mut state = self.0.lock();
        let Some(kept) = &mut state.progress else { return Some(progress) };
        if kept.len() >= MOST_PROGRESS {
            kept.pop_front();
        }
        kept.push_back(progress);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        None
    }
}

impl<T> Drop for Teller<T> {
    fn drop(&mut self) {
        if !self.0.lock().over {
            let _ = self.tell_once(Err(Error::closed(Fault::Closed)));
        }
    }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("call", &self.call()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Teller<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Teller").finish_non_exhaustive()
    }
}

/// Progress that a caller has not looked at, of which the oldest goes when there is more
const MOST_PROGRESS: usize = 64;

#[cfg(test)]
mod tests {
    use alloc::task::Wake;
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn told_once_and_woken_for_it() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let (teller, slot) = Slot::new(true);
        assert!(slot.poll(&waker).is_pending());
        for n in 0..100_u32 {
            assert!(teller.progress(Progress::new(f64::from(n))).is_none());
        }
        // Woken by the first: who did not come since need not be woken again.
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        teller.tell(Ok(7));
        for n in 36..100_u32 {
            assert!(
                matches!(slot.poll(&waker), Poll::Ready(Update::Progress(p)) if p == Progress::new(f64::from(n)))
            );
        }
        assert!(matches!(slot.poll(&waker), Poll::Ready(Update::Outcome(Ok(7)))));
        assert!(slot.poll(&waker).is_pending());
    }

    #[test]
    fn who_is_told_nothing_learns_that_it_is_over() {
        let (teller, slot) = Slot::<()>::new(false);
        assert!(!teller.is_abandoned());
        drop(teller);
        let Poll::Ready(Update::Outcome(Err(error))) = slot.poll(Waker::noop()) else { panic!() };
        assert!(error.is_closed());
    }

    #[test]
    fn progress_that_is_not_wanted_comes_back() {
        let (teller, slot) = Slot::<()>::new(false);
        assert!(teller.progress(Progress::new(1.0)).is_some());
        drop(slot);
        assert!(teller.is_abandoned());
    }
}
