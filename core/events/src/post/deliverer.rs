//! The thread that drives [`Deliveries`].

use alloc::sync::Arc;
use alloc::task::Wake;
use core::fmt;
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

use mcp_proto::{Anchor, Instant};
use mcp_std::Clock;
use mcp_std::sync::{Workers, lock};

use super::{Posted, Poster};
use crate::delivery::{Deliveries, Delivery, DriveDeliveries, Event, Failure, Outcome};

/// A thread that sends what [`Deliveries`] ask for, and tells them the outcomes and the time.
///
/// The application calls the functions of [`Deliveries`] in [`with`](Self::with), from any thread, and takes its events with
/// [`poll_event`](Self::poll_event).
///
/// Beside its own thread there is one for each request in flight, so that a slow receiver holds up no other; they start when
/// they are needed, and end ten seconds after that. [`Config::in_flight_total`](crate::delivery::Config::in_flight_total) bounds
/// their number.
///
/// It follows the clock of the system, for the times in signatures: after the machine slept, or its clock was set.
///
/// Its drop ends the thread. Requests in flight are completed if the process lives long enough; [`finish`](Self::finish) delivers
/// what it can first.
pub struct Deliverer {
    shared: Arc<Shared>,
    thread: Thread,
}

struct Shared {
    clock: Clock,
    state: Mutex<State>,
    /// Notified of events, and of the end of the thread.
    changed: Condvar,
}

struct State {
    deliveries: Deliveries,
    anchor: Anchor,
    /// When the thread goes on by itself.
    wakes_at: Option<Instant>,
    /// For events.
    waker: Option<Waker>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Requests are made until then.
    Ending(Instant),
    Ended,
}

impl Deliverer {
    /// Starts the thread.
    ///
    /// `clock` is the one whose instants the machine has got so far, and whose [anchor](Clock::anchor) it was made with.
    ///
    /// # Errors
    ///
    /// The error of the operating system if no thread can be started.
    pub fn start(mut deliveries: Deliveries, clock: Clock, poster: Poster) -> io::Result<Self> {
        let anchor = clock.anchor();
        deliveries.set_anchor(anchor);
        let most = deliveries.config().in_flight_total;
        let addresses = deliveries.config().addresses.clone();
        let post =
            move |delivery: Delivery| poster.post(&delivery, &addresses, clock.until(delivery.deadline));
        // Attempts that have just timed out may still be there.
        let workers = Workers::start("mcp-post", most, most, post)?;
        let state = State { deliveries, anchor, wakes_at: None, waker: None, phase: Phase::Running };
        let shared = Arc::new(Shared { clock, state: Mutex::new(state), changed: Condvar::new() });
        let run = {
            let shared = shared.clone();
            move || shared.run(workers)
        };
        let thread = thread::Builder::new().name("mcp-deliveries".into()).spawn(run)?;
        Ok(Self { shared, thread: thread.thread().clone() })
    }

    /// Calls functions of the machine, with the time of its clock, and wakes the thread if something is due earlier now.
    ///
    /// The machine is locked meanwhile. Its polls and inputs are for the thread: of
    /// [`poll_transmit`](Deliveries::poll_transmit) a request would be lost.
    pub fn with<R>(&self, f: impl FnOnce(&mut Deliveries, Instant) -> R) -> R {
        let mut state = lock(&self.shared.state);
        let now = self.shared.clock.now();
        // A grant has a time of the clock, which may have been set while the thread waits.
        state.follow_clock(&self.shared.clock, now);
        let result = f(&mut state.deliveries, now);
        let next = state.deliveries.poll_timeout();
        let is_earlier = next.is_some_and(|next| state.wakes_at.is_none_or(|at| next < at));
        self.shared.tell(state);
        if is_earlier {
            self.thread.unpark();
        }
        result
    }

    /// Registers the waker that is woken when there are events, or changes for a store.
    ///
    /// The order is: register, then [poll](Self::poll_event) until there are none, then wait.
    pub fn register(&self, waker: &Waker) {
        lock(&self.shared.state).waker = Some(waker.clone());
    }

    /// Returns the next event. They are kept until they are taken.
    #[must_use]
    pub fn poll_event(&self) -> Option<Event> {
        lock(&self.shared.state).deliveries.poll_event()
    }

    /// Waits for the next event, at most `timeout`.
    #[must_use]
    pub fn wait_event(&self, timeout: Duration) -> Option<Event> {
        let mut state = self.shared.wait(timeout, |state| state.deliveries.has_events());
        state.deliveries.poll_event()
    }

    /// Delivers what is due until `timeout` has passed, and ends the thread then, or when nothing more becomes due in that time.
    /// Returns whether no message is left open: one that is was not acknowledged, and has another attempt later, or waits for a
    /// refresh of its subscription.
    ///
    /// The functions of the machine can be called nevertheless, but nothing is sent any more. A second call waits for the end.
    #[must_use]
    pub fn finish(&self, timeout: Duration) -> bool {
        self.end(timeout);
        let state = self.shared.wait(timeout.saturating_add(GRACE), |state| state.phase == Phase::Ended);
        state.phase == Phase::Ended && !state.deliveries.has_open_messages()
    }

    fn end(&self, timeout: Duration) {
        let mut state = lock(&self.shared.state);
        if state.phase != Phase::Ended {
            state.phase = Phase::Ending(self.shared.clock.now() + timeout);
        }
        drop(state);
        self.thread.unpark();
    }
}

/// Time after its deadline that the thread has for its last turn.
const GRACE: Duration = Duration::from_secs(1);

impl DriveDeliveries for Deliverer {
    fn with_deliveries(&self, f: &mut dyn FnMut(&mut Deliveries, Instant)) {
        self.with(f);
    }

    fn register(&self, waker: &Waker) {
        self.register(waker);
    }

    fn finish(&self, timeout: Duration) -> bool {
        self.finish(timeout)
    }
}

impl Drop for Deliverer {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

impl fmt::Debug for Deliverer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deliverer").finish_non_exhaustive()
    }
}

impl Shared {
    /// Waits until the condition holds, at most `timeout`.
    fn wait(&self, timeout: Duration, holds: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let waited = self.changed.wait_timeout_while(lock(&self.state), timeout, |state| !holds(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Unlocks the state, and wakes those who wait for its events.
    fn tell(&self, state: MutexGuard<'_, State>) {
        let has_events = state.deliveries.has_events();
        let waker = state.waker.clone().filter(|_| has_events || state.deliveries.has_changes());
        // A waker may run code that locks.
        drop(state);
        if has_events {
            self.changed.notify_all();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Drives the machine until the end.
    fn run(&self, mut workers: Workers<Delivery, Posted>) {
        workers.register(&Waker::from(Arc::new(Unpark(thread::current()))));
        loop {
            let at = self.turn(lock(&self.state), &mut workers);
            let mut state = lock(&self.state);
            let until = match state.phase {
                Phase::Ending(until) => until,
                Phase::Running | Phase::Ended => {
                    drop(state);
                    match at {
                        Some(at) => thread::park_timeout(self.clock.until(at)),
                        None => thread::park(),
                    }
                    continue;
                }
            };
            if self.clock.now() >= until || state.deliveries.is_idle_until(until) {
                state.phase = Phase::Ended;
                drop(state);
                self.changed.notify_all();
                // Its threads end with the requests in flight.
                return;
            }
            drop(state);
            thread::park_timeout(self.clock.until(at.map_or(until, |at| at.min(until))));
        }
    }

    /// Takes in what happened and starts the requests that are due. Returns when the next turn is due.
    fn turn(
        &self,
        mut guard: MutexGuard<'_, State>,
        workers: &mut Workers<Delivery, Posted>,
    ) -> Option<Instant> {
        let now = self.clock.now();
        let state = &mut *guard;
        state.follow_clock(&self.clock, now);
        let deliveries = &mut state.deliveries;
        while let Some(posted) = workers.poll_outcome() {
            deliveries.handle_answer(now, posted.id, &posted.outcome());
        }
        deliveries.handle_timeout(now);
        while let Some(delivery) = deliveries.poll_transmit(now) {
            if let Err(delivery) = workers.submit(delivery) {
                // The system has no threads left: the attempt failed, and is made again later.
                deliveries.handle_answer(now, delivery.id, &Outcome::Failed(Failure::Connection));
            }
        }
        state.wakes_at = deliveries.poll_timeout();
        let wakes_at = state.wakes_at;
        self.tell(guard);
        wakes_at
    }
}

impl State {
    /// Ties the machine to Unix time anew if that has jumped: receivers refuse signatures with another time.
    fn follow_clock(&mut self, clock: &Clock, now: Instant) {
        let anchor = clock.anchor();
        if anchor.unix_secs(now).abs_diff(self.anchor.unix_secs(now)) > Clock::MAX_DRIFT {
            self.anchor = anchor;
            self.deliveries.set_anchor(anchor);
        }
    }
}

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::{Config, Subscribe, Subscribed};
    use crate::webhook::{Secret, SubscriptionKey};
    use crate::wire::Profile;
    use alloc::string::String;
    use mcp_proto::{Entropy, RawJson};

    // covers: EVT-080, EVT-082
    #[test]
    fn grant_has_the_time_of_the_clock_although_the_thread_waits() {
        const URL: &str = "https://hooks.example/";
        let clock = Clock::start();
        let config = Config::default().verified_origin(URL).expect("a URL");
        let deliveries = Deliveries::new(config, Entropy::new([1; 32], 1), clock.anchor());
        let deliverer = Deliverer::start(deliveries, clock, Poster::new()).expect("a thread");
        let key = SubscriptionKey::new("ann", URL, "mail", &RawJson::empty_object()).expect("a key");
        for jump in [-3_600, 0, 3_600] {
            // As if the clock had been an hour fast or slow until now.
            let mut state = lock(&deliverer.shared.state);
            let now = clock.now();
            let wrong = clock.anchor().unix_secs(now).checked_add_signed(jump).expect("after 1970");
            state.anchor = Anchor::new(now, wrong);
            let anchor = state.anchor;
            state.deliveries.set_anchor(anchor);
            drop(state);
            let request = Subscribe {
                key: key.clone(),
                secret: Secret::from_entropy([7; 32]),
                ttl: None,
                cursor: None,
                truncated: false,
                profile: Profile::SEP,
                scopes: String::new(),
            };
            let granted = deliverer.with(|deliveries, now| deliveries.subscribe(now, request));
            let Ok(Subscribed::Granted(grant)) = granted else { panic!("{granted:?}") };
            let expected = clock.anchor().unix_secs(clock.now()) + 3_600;
            let until = grant.refresh_before.expect("a time");
            assert!(until.abs_diff(expected) <= Clock::MAX_DRIFT, "{until} instead of {expected}");
        }
    }
}
