//! When the clock that changes by itself has to be told of, whatever the server runs on

use alloc::sync::Arc;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Tells when the clock has to be told of
#[derive(Clone, Default)]
pub(crate) struct Clock(Arc<Mutex<Option<Instant>>>);

impl Clock {
    pub(crate) const URI: &'static str = "clock://running";

    /// How long nothing has to be told; none while nobody follows
    pub(crate) fn left(&self) -> Option<Duration> {
        lock(&self.0).map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// Whether it is time to tell; then it is the next time a tick later
    pub(crate) fn ticks(&self) -> bool {
        let now = Instant::now();
        let mut next = lock(&self.0);
        let due = next.is_some_and(|next| next <= now);
        if due {
            *next = Some(now + TICK);
        }
        due
    }

    /// Somebody follows it from now on, or nobody any more
    pub(crate) fn follow(&self, wanted: bool) {
        *lock(&self.0) = wanted.then(|| Instant::now() + TICK);
    }
}

const TICK: Duration = Duration::from_millis(250);

/// What was done under it was done wholly or not at all
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
