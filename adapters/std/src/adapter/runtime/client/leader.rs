//! Elects the task that drives a shared connection.

use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::task::Waker;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::adapter::poll::current_poller_id;
use crate::adapter::sync::InlineMap;

/// Leader/follower queue of the tasks that poll a connection. One task, the leader, drives I/O; the others wait.
///
/// The queue is the only waker of the connection's sockets, timers and inbox. When it is woken and there is no leader,
/// the waiters that were polled last are woken, and the first of them to run becomes the leader. A waiter that leaves
/// (with an outcome, or dropped) wakes others if `has_work` is still set.
///
/// Invariant (test `leader_election_random_order_loses_no_wakeup`):
///
/// > `has_work` ∧ ¬`has_leader` ∧ a waiter exists ⇒ a waiter has been woken since its last poll
///
/// A waiter inside a handler's future is polled by the leader (`is_nested`). It is woken by its outcome, but never to
/// lead.
///
/// The invariant helps only if a woken future is also polled. A future that was polled once and then left alone would
/// swallow the wake-up. Therefore several waiters are woken, the latest first, and one more with each further event.
#[derive(Debug, Default)]
pub(super) struct LeaderQueue(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Waiters by the ticket of their last poll.
    waiters: InlineMap<u64, Waiter>,
    last_ticket: u64,
    /// Whether there may be work.
    has_work: bool,
    /// Whether a leader is active. It checks `has_work` again afterwards.
    has_leader: bool,
    /// Number of events, as of the last turn.
    events_seen: u64,
    is_over: bool,
    /// The poller that watches the descriptors; `None`: the reactor.
    watching_poller: PollerId,
    /// The poller of the waiters that are not counted in `waiters_elsewhere`.
    home_poller: PollerId,
    /// Number of waiters that were polled on another poller than `home_poller`.
    waiters_elsewhere: usize,
}

#[derive(Debug)]
struct Waiter {
    waker: Waker,
    /// Whether every event wakes the waiter.
    wants_all_events: bool,
    /// Whether it was woken to lead and has not been polled since.
    is_woken: bool,
    /// Whether the leader polled it, inside a handler's future; it cannot lead.
    is_nested: bool,
    poller: PollerId,
}

/// The [poller](crate::adapter::poll::block_on_poller) in which a future is polled; `None` under another executor.
type PollerId = Option<usize>;

thread_local! {
    /// Addresses of the queues whose leader this thread is running.
    static LEADER_SCOPES: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Marks this thread as running the leader of a queue. Waiters polled meanwhile are nested.
pub(super) struct LeaderScope;

impl LeaderScope {
    pub(super) fn enter(queue: &LeaderQueue) -> Self {
        let at = core::ptr::from_ref(queue).addr();
        // Thread-local values may be gone while a thread ends; then no waiter counts as nested.
        let _ = LEADER_SCOPES.try_with(|all| all.borrow_mut().push(at));
        Self
    }
}

impl Drop for LeaderScope {
    fn drop(&mut self) {
        let _ = LEADER_SCOPES.try_with(|all| all.borrow_mut().pop());
    }
}

/// A waiter in the queue; leaves it when dropped.
#[derive(Debug)]
pub(super) struct WaiterGuard {
    leader_queue: Arc<LeaderQueue>,
    ticket: Option<u64>,
    wants_all_events: bool,
}

/// Wakers to be woken after the lock is released.
type Wakers = [Option<Waker>; MAX_WOKEN];

fn wake_all(wakers: Wakers) {
    wakers.into_iter().flatten().for_each(Waker::wake);
}

impl LeaderQueue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether this thread is running the leader of this queue.
    fn is_within_scope(&self) -> bool {
        let at = core::ptr::from_ref(self).addr();
        LEADER_SCOPES.try_with(|all| all.borrow().contains(&at)).unwrap_or(false)
    }

    /// Returns the number of events so far.
    pub(super) fn events_seen(&self) -> u64 {
        self.lock().events_seen
    }

    /// Selects who watches the descriptors, before the leader checks for readiness. Returns whether it is the reactor.
    ///
    /// The reactor is needed if waiters are polled on different pollers: a poller waits only while its thread is idle.
    pub(super) fn select_reactor(&self) -> bool {
        let poller = current_poller_id();
        let mut state = self.lock();
        let use_reactor =
            state.waiters_elsewhere > 0 || (!state.waiters.is_empty() && state.home_poller != poller);
        state.watching_poller = poller.filter(|_| !use_reactor);
        use_reactor
    }

    /// Returns whether the connection has ended.
    pub(super) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Ends the leader's turn and publishes the state after it.
    pub(super) fn end_turn(&self, seen: u64, over: bool) {
        let mut state = self.lock();
        let has_changed = state.events_seen != seen || state.is_over != over;
        state.has_leader = false;
        (state.events_seen, state.is_over) = (seen, over);
        if !has_changed {
            return;
        }
        let notified = state.waiters.iter().filter(|(_, waiter)| waiter.wants_all_events || over);
        let wakers: Vec<Waker> = notified.map(|(_, waiter)| waiter.waker.clone()).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// Records on which poller a waiter is polled. If that changed, descriptors must be watched elsewhere.
    fn record_poll(&mut self, at: u64, poller: PollerId) {
        self.has_work |= self.watching_poller.is_some() && self.watching_poller != poller;
        let only = self.waiters.len() == 1;
        let Some(waiter) = self.waiters.get_mut(&at) else { return };
        let before = core::mem::replace(&mut waiter.poller, poller);
        if only {
            (self.home_poller, self.waiters_elsewhere) = (poller, 0);
        } else {
            self.waiters_elsewhere = self.waiters_elsewhere + usize::from(poller != self.home_poller)
                - usize::from(before != self.home_poller);
        }
    }

    fn remove(&mut self, at: u64) -> Option<Waiter> {
        let waiter = self.waiters.remove(&at)?;
        self.waiters_elsewhere -= usize::from(waiter.poller != self.home_poller);
        Some(waiter)
    }

    /// Selects at max `max` waiters to be woken, if there is work and no leader.
    fn select_wakers(&mut self, max: usize) -> Wakers {
        let mut chosen = [const { None }; MAX_WOKEN];
        if self.has_work && !self.has_leader {
            let asleep =
                self.waiters.values_mut().rev().filter(|waiter| !waiter.is_woken && !waiter.is_nested);
            for (slot, waiter) in chosen.iter_mut().take(max).zip(asleep) {
                waiter.is_woken = true;
                *slot = Some(waiter.waker.clone());
            }
        }
        chosen
    }
}

impl Wake for LeaderQueue {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.lock();
        // If `has_work` was set before, waiters have been woken already: add one.
        let max = if core::mem::replace(&mut state.has_work, true) { 1 } else { MAX_WOKEN };
        let wakers = state.select_wakers(max);
        drop(state);
        wake_all(wakers);
    }
}

impl WaiterGuard {
    /// Creates a guard that does not wait yet. `wants_all_events` makes every event wake it.
    pub(super) const fn new(leader_queue: Arc<LeaderQueue>, wants_all_events: bool) -> Self {
        Self { leader_queue, ticket: None, wants_all_events }
    }

    /// Registers `waker`, and returns whether this task is the leader now. The leader must call
    /// [`LeaderQueue::end_turn`].
    ///
    /// Do not call it when an outcome is available.
    pub(super) fn try_lead(&mut self, waker: &Waker) -> bool {
        let poller = current_poller_id();
        let mut guard = self.leader_queue.lock();
        let state = &mut *guard;
        let mut before = None;
        if let Some(at) = self.ticket.filter(|at| *at != state.last_ticket) {
            before = state.remove(at);
            self.ticket = None;
        }
        let at = *self.ticket.get_or_insert_with(|| {
            state.last_ticket += 1;
            state.last_ticket
        });
        let is_nested = state.has_leader && self.leader_queue.is_within_scope();
        let old = if let Some(waiter) = state.waiters.get_mut(&at) {
            (waiter.is_woken, waiter.is_nested) = (false, is_nested);
            replace_waker(&mut waiter.waker, waker)
        } else {
            let home_poller = state.home_poller;
            let mut own = before.map_or_else(|| waker.clone(), |before| before.waker);
            let old = replace_waker(&mut own, waker);
            state.waiters.insert(
                at,
                Waiter {
                    waker: own,
                    wants_all_events: self.wants_all_events,
                    is_woken: false,
                    is_nested,
                    poller: home_poller,
                },
            );
            old
        };
        state.record_poll(at, poller);
        let leads = state.has_work && !state.has_leader;
        if leads {
            (state.has_work, state.has_leader) = (false, true);
        }
        drop(guard);
        // After unlocking: dropping a waker may run code that uses this queue.
        drop(old);
        leads
    }

    /// Leaves the queue.
    pub(super) fn leave(&mut self) {
        let Some(at) = self.ticket.take() else { return };
        let mut state = self.leader_queue.lock();
        let gone = state.remove(at);
        let wakers = state.select_wakers(MAX_WOKEN);
        drop(state);
        wake_all(wakers);
        drop(gone);
    }
}

/// Replaces a waker unless it wakes the same task. Returns the old one.
fn replace_waker(current: &mut Waker, waker: &Waker) -> Option<Waker> {
    (!current.will_wake(waker)).then(|| core::mem::replace(current, waker.clone()))
}

impl Drop for WaiterGuard {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Number of waiters that are woken for one piece of work.
const MAX_WOKEN: usize = 3;

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Counts its wake-ups since the last reset.
    #[derive(Default)]
    struct CountingWaker(AtomicU32);

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    struct LeaderTestTask {
        waiter: WaiterGuard,
        woken: Arc<CountingWaker>,
        is_leader: bool,
    }

    /// A xorshift generator.
    fn next_random(seed: &mut u64) -> u64 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    }

    // Any order of waking, polling, driving and leaving keeps the invariant of `LeaderQueue`.
    #[test]
    fn leader_election_random_order_loses_no_wakeup() {
        for seed in 1..300_u64 {
            let mut seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let queue = Arc::new(LeaderQueue::default());
            let mut tasks: Vec<LeaderTestTask> = Vec::new();
            for _ in 0..200 {
                let which = next_random(&mut seed) as usize;
                match next_random(&mut seed) % 6 {
                    0 if tasks.len() < 5 => tasks.push(LeaderTestTask {
                        waiter: WaiterGuard::new(queue.clone(), false),
                        woken: Arc::default(),
                        is_leader: false,
                    }),
                    // An event: readiness, a command, a deadline.
                    1 | 2 => queue.wake_by_ref(),
                    // A task is polled, woken or not.
                    3 | 4 if !tasks.is_empty() => {
                        let at = which % tasks.len();
                        let task = &mut tasks[at];
                        task.woken.0.store(0, Ordering::SeqCst);
                        if task.is_leader {
                            task.is_leader = false;
                            queue.end_turn(0, false);
                        }
                        task.is_leader = task.waiter.try_lead(&Waker::from(task.woken.clone()));
                        assert!(tasks.iter().filter(|task| task.is_leader).count() <= 1);
                    }
                    // A task gets its outcome, or is dropped.
                    5 if !tasks.is_empty() => {
                        let at = which % tasks.len();
                        if tasks[at].is_leader {
                            queue.end_turn(0, false);
                        }
                        tasks.swap_remove(at);
                    }
                    _ => {}
                }
                let state = queue.lock();
                let woken = tasks.iter().any(|task| task.woken.0.load(Ordering::SeqCst) > 0);
                // An active leader checks again at the end of its turn.
                let holds = woken || state.has_leader || !state.has_work || state.waiters.is_empty();
                assert!(holds, "{state:?}");
            }
        }
    }

    // Waiters that are never polled again do not prevent others from being woken.
    #[test]
    fn waiter_never_polled_again_does_not_block_others() {
        let queue = Arc::new(LeaderQueue::default());
        let (live, parked) = (Arc::new(CountingWaker::default()), Arc::new(CountingWaker::default()));
        let mut waiter = WaiterGuard::new(queue.clone(), false);
        assert!(!waiter.try_lead(&Waker::from(live.clone())));
        let left: Vec<WaiterGuard> = (0..5)
            .map(|_| {
                let mut left = WaiterGuard::new(queue.clone(), false);
                assert!(!left.try_lead(&Waker::from(parked.clone())));
                left
            })
            .collect();
        // Each further event wakes one more waiter.
        for _ in 0..4 {
            queue.wake_by_ref();
        }
        assert_eq!(live.0.load(Ordering::SeqCst), 1);
        assert!(waiter.try_lead(&Waker::from(live.clone())));
        queue.end_turn(0, false);
        // From now on it is the latest waiter.
        queue.wake_by_ref();
        assert_eq!(live.0.load(Ordering::SeqCst), 2);
        drop(left);
    }

    // A nested waiter is never woken to lead.
    #[test]
    fn nested_waiter_is_never_woken_to_lead() {
        let queue = Arc::new(LeaderQueue::default());
        let (outer, inner) = (Arc::new(CountingWaker::default()), Arc::new(CountingWaker::default()));
        let mut driver = WaiterGuard::new(queue.clone(), false);
        let mut parts: Vec<WaiterGuard> = (0..5).map(|_| WaiterGuard::new(queue.clone(), false)).collect();
        queue.wake_by_ref();
        assert!(driver.try_lead(&Waker::from(outer.clone())));
        {
            let _turn = LeaderScope::enter(&queue);
            // There is more work, but not for nested waiters.
            queue.wake_by_ref();
            assert!(!parts.iter_mut().any(|part| part.try_lead(&Waker::from(inner.clone()))));
        }
        queue.end_turn(0, false);
        assert!(driver.try_lead(&Waker::from(outer.clone())));
        queue.end_turn(0, false);
        queue.wake_by_ref();
        assert_eq!((outer.0.load(Ordering::SeqCst), inner.0.load(Ordering::SeqCst)), (1, 0));
        // Outside the scope it may lead like any other waiter.
        assert!(parts[0].try_lead(&Waker::from(inner.clone())));
    }

    #[test]
    fn watching_waiter_is_woken_by_every_event_and_all_by_end() {
        let queue = Arc::new(LeaderQueue::default());
        let (count, idle) = (Arc::new(CountingWaker::default()), Arc::new(CountingWaker::default()));
        let mut waiter = WaiterGuard::new(queue.clone(), true);
        let mut other = WaiterGuard::new(queue.clone(), false);
        assert!(!waiter.try_lead(&Waker::from(count.clone())) && !other.try_lead(&Waker::from(idle.clone())));
        queue.end_turn(1, false);
        queue.end_turn(1, false);
        assert_eq!((count.0.load(Ordering::SeqCst), idle.0.load(Ordering::SeqCst)), (1, 0));
        queue.end_turn(1, true);
        assert_eq!((count.0.load(Ordering::SeqCst), idle.0.load(Ordering::SeqCst)), (2, 1));
        assert!(queue.is_over());
    }
}
