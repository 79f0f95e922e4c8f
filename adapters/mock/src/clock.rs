//! Schedule of the clock resource, for any adapter.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use std::sync::Mutex;
use std::time::Instant;

use mcp_std::sync::lock;

/// Schedule of the change notifications of the clock resource: the loop that serves it publishes
/// [`Change::Resource`](mcp_proto::Change) for [`URI`](Self::URI) at each tick. Clones share everything.
#[derive(Clone, Default)]
pub struct ClockResource(Arc<Mutex<ClockFollowers>>);

#[derive(Default)]
struct ClockFollowers {
    /// Number of shards in which a client follows the clock.
    shards: usize,
    /// Time of the next notification; `None` while no client follows the clock.
    next_tick: Option<Instant>,
}

impl ClockResource {
    /// URI of the resource.
    pub const URI: &'static str = "clock://running";

    /// Returns the time until the next notification, or `None` while no client follows the clock.
    #[must_use]
    pub fn time_to_tick(&self) -> Option<Duration> {
        lock(&self.0).next_tick.map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// Returns whether a notification is due. If so, schedules the next one a tick later.
    #[must_use]
    pub fn take_tick(&self) -> bool {
        let now = Instant::now();
        let mut followed = lock(&self.0);
        let due = followed.next_tick.is_some_and(|next| next <= now);
        if due {
            followed.next_tick = Some(now + TICK);
        }
        due
    }

    /// Sets whether any client of one shard follows the clock.
    pub(crate) fn set_followed(&self, wanted: bool) {
        let mut followed = lock(&self.0);
        followed.shards = if wanted { followed.shards + 1 } else { followed.shards.saturating_sub(1) };
        let next = followed.next_tick.unwrap_or_else(|| Instant::now() + TICK);
        followed.next_tick = (followed.shards > 0).then_some(next);
    }
}

impl fmt::Debug for ClockResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClockResource").finish_non_exhaustive()
    }
}

const TICK: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_ticks_while_any_shard_follows_it() {
        let clock = ClockResource::default();
        assert!(clock.time_to_tick().is_none());
        clock.set_followed(true);
        clock.set_followed(true);
        clock.set_followed(false);
        assert!(clock.time_to_tick().is_some_and(|left| left <= TICK));
        clock.set_followed(false);
        assert!(clock.time_to_tick().is_none() && !clock.take_tick());
    }
}
