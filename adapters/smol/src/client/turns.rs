//! Whose turn it is to drive: of all who wait, one at a time, and somebody whenever there is something to do

use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::task::Waker;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_std::Newest;

/// Who waits, and whether there is something to do
///
/// It is the one waker that everything below knows: sockets, timers, the inbox. When it is woken and nobody drives, those
/// who were polled last are woken, and whoever comes first drives. Who leaves, with an outcome or dropped, wakes others if
/// there is still something to do. So as long as anybody waits, nothing that can be done stays undone:
///
/// > due, and nobody drives, and somebody waits ⇒ one who waits has been woken since it was last polled
///
/// Who waits inside of a handler's future, which the driver polls, is woken by what it waits for, and never to drive.
///
/// That is all there is to be had where a future that is woken is polled. One that was polled once and then is left
/// alone is woken in vain, which is why it is several that are woken, the latest ones, and another one with each further
/// event.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By when they were polled
    waiting: Newest<u64, Waiter>,
    last: u64,
    /// There may be something to do
    due: bool,
    /// Somebody is at it, and looks at `due` again afterwards
    driving: bool,
    /// As of the last turn
    seen: u64,
    over: bool,
    /// By whose way of waiting the descriptors are watched; none: by the reactor
    asked: Spot,
    /// Where the first of those who wait was polled
    home: Spot,
    /// How many of them were polled elsewhere
    away: usize,
}

#[derive(Debug)]
struct Waiter {
    waker: Waker,
    /// Wants to be woken by whatever happens
    watches: bool,
    /// Has been woken to drive and was not polled since
    woken: bool,
    /// Was polled by a handler that who drives has polled: it cannot drive itself
    inner: bool,
    spot: Spot,
}

/// Where a future is polled: by which [`block_on`](crate::block_on()), or none that waits in its own way
type Spot = Option<usize>;

thread_local! {
    /// The turns that this thread is in, by their addresses
    static IN: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// A turn of this thread's: whoever waits while it lasts, on this thread, is part of it
pub(super) struct Turn;

impl Turn {
    pub(super) fn of(turns: &Turns) -> Self {
        let at = core::ptr::from_ref(turns).addr();
        // A thread that is ending has no list any more: then nobody is known to be part of it.
        let _ = IN.try_with(|all| all.borrow_mut().push(at));
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let _ = IN.try_with(|all| all.borrow_mut().pop());
    }
}

/// One who waits; leaves when dropped
#[derive(Debug)]
pub(super) struct Place {
    turns: Arc<Turns>,
    at: Option<u64>,
    watches: bool,
}

/// Those to be woken without the lock
type Wakers = [Option<Waker>; AT_ONCE];

fn wake_all(wakers: Wakers) {
    wakers.into_iter().flatten().for_each(Waker::wake);
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this thread is in one of these turns
    fn is_in(&self) -> bool {
        let at = core::ptr::from_ref(self).addr();
        IN.try_with(|all| all.borrow().contains(&at)).unwrap_or(false)
    }

    /// Events so far
    pub(super) fn seen(&self) -> u64 {
        self.lock().seen
    }

    /// To be asked by who is about to look for what has come: whether what is waited for is to be asked of the reactor,
    /// since others wait elsewhere
    ///
    /// In its own way, a place waits only when it has nothing else to do.
    pub(super) fn are_apart(&self) -> bool {
        let spot = crate::block_on::spot();
        let mut state = self.lock();
        let apart = state.away > 0 || (!state.waiting.is_empty() && state.home != spot);
        state.asked = spot.filter(|_| !apart);
        apart
    }

    /// Whether nothing is left to be driven
    pub(super) fn is_over(&self) -> bool {
        self.lock().over
    }

    /// Says that a turn has ended, and what is known after it
    pub(super) fn ended(&self, seen: u64, over: bool) {
        let mut state = self.lock();
        let news = state.seen != seen || state.over != over;
        state.driving = false;
        (state.seen, state.over) = (seen, over);
        if !news {
            return;
        }
        let watching = state.waiting.iter().filter(|(_, waiter)| waiter.watches || over);
        let wakers: Vec<Waker> = watching.map(|(_, waiter)| waiter.waker.clone()).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// Notes that one who waits is polled at `spot`: what is waited for elsewhere is to be moved
    fn polled(&mut self, at: u64, spot: Spot) {
        self.due |= self.asked.is_some() && self.asked != spot;
        let only = self.waiting.len() == 1;
        let Some(waiter) = self.waiting.get_mut(&at) else { return };
        let before = core::mem::replace(&mut waiter.spot, spot);
        if only {
            (self.home, self.away) = (spot, 0);
        } else {
            self.away = self.away + usize::from(spot != self.home) - usize::from(before != self.home);
        }
    }

    fn remove(&mut self, at: u64) -> Option<Waiter> {
        let waiter = self.waiting.remove(&at)?;
        self.away -= usize::from(waiter.spot != self.home);
        Some(waiter)
    }

    /// Who is to be woken, at most so many, if there is something to do that nobody does
    fn choose(&mut self, most: usize) -> Wakers {
        let mut chosen = [const { None }; AT_ONCE];
        if self.due && !self.driving {
            let asleep = self.waiting.values_mut().rev().filter(|waiter| !waiter.woken && !waiter.inner);
            for (place, waiter) in chosen.iter_mut().take(most).zip(asleep) {
                waiter.woken = true;
                *place = Some(waiter.waker.clone());
            }
        }
        chosen
    }
}

impl Wake for Turns {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.lock();
        // Those who were woken the last time are on their way.
        let most = if core::mem::replace(&mut state.due, true) { 1 } else { AT_ONCE };
        let wakers = state.choose(most);
        drop(state);
        wake_all(wakers);
    }
}

impl Place {
    /// Nobody waits yet; `watches` says whether whatever happens is to be told
    pub(super) const fn new(turns: Arc<Turns>, watches: bool) -> Self {
        Self { turns, at: None, watches }
    }

    /// Waits by `waker`, and says whether it is this one's turn to drive: [`Turns::ended`] is to be called then
    ///
    /// Not to be called by who has an outcome.
    pub(super) fn enter(&mut self, waker: &Waker) -> bool {
        let spot = crate::block_on::spot();
        let mut guard = self.turns.lock();
        let state = &mut *guard;
        let mut before = None;
        if let Some(at) = self.at.filter(|at| *at != state.last) {
            before = state.remove(at);
            self.at = None;
        }
        let at = *self.at.get_or_insert_with(|| {
            state.last += 1;
            state.last
        });
        let inner = state.driving && self.turns.is_in();
        let old = if let Some(waiter) = state.waiting.get_mut(&at) {
            (waiter.woken, waiter.inner) = (false, inner);
            renewed(&mut waiter.waker, waker)
        } else {
            let (watches, woken, spot) = (self.watches, false, state.home);
            let mut own = before.map_or_else(|| waker.clone(), |before| before.waker);
            let old = renewed(&mut own, waker);
            state.waiting.insert(at, Waiter { waker: own, watches, woken, inner, spot });
            old
        };
        state.polled(at, spot);
        let turn = state.due && !state.driving;
        if turn {
            (state.due, state.driving) = (false, true);
        }
        drop(guard);
        // What it wakes may look here as it goes.
        drop(old);
        turn
    }

    /// Waits no more
    pub(super) fn leave(&mut self) {
        let Some(at) = self.at.take() else { return };
        let mut state = self.turns.lock();
        let gone = state.remove(at);
        let wakers = state.choose(AT_ONCE);
        drop(state);
        wake_all(wakers);
        drop(gone);
    }
}

/// Puts a waker in the place of one that does not do the same, which is given back
fn renewed(place: &mut Waker, waker: &Waker) -> Option<Waker> {
    (!place.will_wake(waker)).then(|| core::mem::replace(place, waker.clone()))
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

/// How many are woken for one thing to do
const AT_ONCE: usize = 3;

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Counts how often it was woken since it was looked at
    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    struct Task {
        place: Place,
        woken: Arc<Count>,
        drives: bool,
    }

    /// A generator good enough for a test (xorshift)
    fn next(seed: &mut u64) -> u64 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    }

    /// Any order of waking, polling, driving, leaving: what is due is never forgotten while somebody waits
    #[test]
    fn what_is_due_is_never_forgotten() {
        for seed in 1..300_u64 {
            let mut seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let turns = Arc::new(Turns::default());
            let mut tasks: Vec<Task> = Vec::new();
            for _ in 0..200 {
                let which = next(&mut seed) as usize;
                match next(&mut seed) % 6 {
                    0 if tasks.len() < 5 => tasks.push(Task {
                        place: Place::new(turns.clone(), false),
                        woken: Arc::default(),
                        drives: false,
                    }),
                    // Something happens: readiness, a command, a deadline.
                    1 | 2 => turns.wake_by_ref(),
                    // A task runs, woken or not.
                    3 | 4 if !tasks.is_empty() => {
                        let at = which % tasks.len();
                        let task = &mut tasks[at];
                        task.woken.0.store(0, Ordering::SeqCst);
                        if task.drives {
                            task.drives = false;
                            turns.ended(0, false);
                        }
                        task.drives = task.place.enter(&Waker::from(task.woken.clone()));
                        assert!(tasks.iter().filter(|task| task.drives).count() <= 1);
                    }
                    // One gets its outcome, or is dropped.
                    5 if !tasks.is_empty() => {
                        let at = which % tasks.len();
                        if tasks[at].drives {
                            turns.ended(0, false);
                        }
                        tasks.swap_remove(at);
                    }
                    _ => {}
                }
                let state = turns.lock();
                let woken = tasks.iter().any(|task| task.woken.0.load(Ordering::SeqCst) > 0);
                // One that drives looks again when it is done.
                let looked_after = woken || state.driving || !state.due || state.waiting.is_empty();
                assert!(looked_after, "{state:?}");
            }
        }
    }

    /// One that was polled and is then left alone keeps nobody else from being woken
    #[test]
    fn those_left_alone_hold_nobody_up() {
        let turns = Arc::new(Turns::default());
        let (live, parked) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let mut place = Place::new(turns.clone(), false);
        assert!(!place.enter(&Waker::from(live.clone())));
        let left: Vec<Place> = (0..5)
            .map(|_| {
                let mut left = Place::new(turns.clone(), false);
                assert!(!left.enter(&Waker::from(parked.clone())));
                left
            })
            .collect();
        // Each further event wakes one more.
        for _ in 0..4 {
            turns.wake_by_ref();
        }
        assert_eq!(live.0.load(Ordering::SeqCst), 1);
        assert!(place.enter(&Waker::from(live.clone())));
        turns.ended(0, false);
        // And from then on it is known to come.
        turns.wake_by_ref();
        assert_eq!(live.0.load(Ordering::SeqCst), 2);
        drop(left);
    }

    /// Who waits inside of the turn is never woken to take one
    #[test]
    fn who_drives_does_not_wake_what_it_polls() {
        let turns = Arc::new(Turns::default());
        let (outer, inner) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let mut driver = Place::new(turns.clone(), false);
        let mut parts: Vec<Place> = (0..5).map(|_| Place::new(turns.clone(), false)).collect();
        turns.wake_by_ref();
        assert!(driver.enter(&Waker::from(outer.clone())));
        {
            let _turn = Turn::of(&turns);
            // There is more to do: not for these.
            turns.wake_by_ref();
            assert!(!parts.iter_mut().any(|part| part.enter(&Waker::from(inner.clone()))));
        }
        turns.ended(0, false);
        assert!(driver.enter(&Waker::from(outer.clone())));
        turns.ended(0, false);
        turns.wake_by_ref();
        assert_eq!((outer.0.load(Ordering::SeqCst), inner.0.load(Ordering::SeqCst)), (1, 0));
        // Out of the turn it is one as any other.
        assert!(parts[0].enter(&Waker::from(inner.clone())));
    }

    #[test]
    fn who_watches_is_told_of_everything_and_all_are_told_of_the_end() {
        let turns = Arc::new(Turns::default());
        let (count, idle) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let mut place = Place::new(turns.clone(), true);
        let mut other = Place::new(turns.clone(), false);
        assert!(!place.enter(&Waker::from(count.clone())) && !other.enter(&Waker::from(idle.clone())));
        turns.ended(1, false);
        turns.ended(1, false);
        assert_eq!((count.0.load(Ordering::SeqCst), idle.0.load(Ordering::SeqCst)), (1, 0));
        turns.ended(1, true);
        assert_eq!((count.0.load(Ordering::SeqCst), idle.0.load(Ordering::SeqCst)), (2, 1));
        assert!(turns.is_over());
    }
}
