//! Deadlines of handlers and of bodies that are awaited, over the one timer of a shard.

use alloc::collections::BTreeMap;
use alloc::sync::Weak;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use mcp_proto::Instant;

use super::{Shard, lock};

/// The wakers of those that sleep, by deadline.
#[derive(Debug, Default)]
pub(super) struct Sleepers {
    wakers: BTreeMap<(Instant, u64), Waker>,
    next: u64,
}

impl Sleepers {
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.wakers.first_key_value().map(|((at, _), _)| *at)
    }

    /// Removes those whose time has come.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Waker> {
        let mut due = Vec::new();
        while let Some(entry) = self.wakers.first_entry().filter(|entry| entry.key().0 <= now) {
            due.push(entry.remove());
        }
        due
    }
}

/// Ready after some time of a shard.
#[derive(Debug)]
pub(crate) struct ShardSleep {
    shard: Weak<Shard>,
    at: Instant,
    key: Option<u64>,
}

impl ShardSleep {
    pub(crate) fn new(shard: &Weak<Shard>, duration: Duration) -> Self {
        let now = shard.upgrade().map_or(Instant::ZERO, |shard| shard.now());
        Self { shard: shard.clone(), at: now + duration, key: None }
    }
}

impl Future for ShardSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let Some(shard) = this.shard.upgrade() else { return Poll::Ready(()) };
        if shard.now() >= this.at {
            return Poll::Ready(());
        }
        let mut sleepers = lock(&shard.sleepers);
        let key = *this.key.get_or_insert_with(|| {
            sleepers.next += 1;
            sleepers.next
        });
        let is_first = sleepers.next_deadline().is_none_or(|first| this.at < first);
        let previous = sleepers.wakers.insert((this.at, key), cx.waker().clone());
        drop(sleepers);
        drop(previous);
        if is_first {
            // The timer of the shard has to be set anew.
            shard.wake(None);
        }
        Poll::Pending
    }
}

impl Drop for ShardSleep {
    fn drop(&mut self) {
        if let (Some(shard), Some(key)) = (self.shard.upgrade(), self.key) {
            let waker = lock(&shard.sleepers).wakers.remove(&(self.at, key));
            drop(waker);
        }
    }
}
