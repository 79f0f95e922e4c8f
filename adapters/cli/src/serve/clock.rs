//! When the clock that changes by itself has to be told of, whatever the server runs on

use alloc::sync::Arc;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Tells when the clock has to be told of
#[derive(Clone, Default)]
pub(crate) struct Clock(Arc<Mutex<Followed>>);

#[derive(Default)]
struct Followed {
    /// In how many shards
    shards: usize,
    /// When it is to be told of
    next: Option<Instant>,
}

impl Clock {
    pub(crate) const URI: &'static str = "clock://running";

    /// How long nothing has to be told; none while nobody follows
    pub(crate) fn left(&self) -> Option<Duration> {
        lock(&self.0).next.map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// Whether it is time to tell; then it is the next time a tick later
    pub(crate) fn ticks(&self) -> bool {
        let now = Instant::now();
        let mut followed = lock(&self.0);
        let due = followed.next.is_some_and(|next| next <= now);
        if due {
            followed.next = Some(now + TICK);
        }
        due
    }

    /// Somebody follows it from now on, or nobody any more, in one shard of the server
    pub(crate) fn follow(&self, wanted: bool) {
        let mut followed = lock(&self.0);
        followed.shards = if wanted { followed.shards + 1 } else { followed.shards.saturating_sub(1) };
        let next = followed.next.unwrap_or_else(|| Instant::now() + TICK);
        followed.next = (followed.shards > 0).then_some(next);
    }
}

const TICK: Duration = Duration::from_millis(250);

/// How soon it is seen that somebody follows the clock, where nothing says so
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// What was done under it was done wholly or not at all
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_of_while_anybody_follows_in_any_shard() {
        let clock = Clock::default();
        assert!(clock.left().is_none());
        clock.follow(true);
        clock.follow(true);
        clock.follow(false);
        assert!(clock.left().is_some_and(|left| left <= TICK));
        clock.follow(false);
        assert!(clock.left().is_none() && !clock.ticks());
    }
}
