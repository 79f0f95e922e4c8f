//! Deadlines of handlers and of bodies that are awaited, over the one timer of a shard.

use alloc::collections::BTreeMap;
use alloc::sync::Weak;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Mutex;

use mcp_proto::Instant;

use super::{Shard, lock};

/// The wakers of those that sleep, by deadline.
#[derive(Debug)]
pub(super) struct Sleepers {
    wakers: Mutex<BTreeMap<(Instant, u64), Waker>>,
    next_key: AtomicU64,
    /// The first deadline, in microseconds; `u64::MAX` if there is none. Changes under the lock.
    first: AtomicU64,
}

impl Sleepers {
    pub(super) const fn new() -> Self {
        Self {
            wakers: Mutex::new(BTreeMap::new()),
            next_key: AtomicU64::new(0),
            first: AtomicU64::new(u64::MAX),
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let first = self.first.load(SeqCst);
        (first < u64::MAX).then(|| Instant::from_micros(first))
    }

    /// Removes those whose time has come.
    pub(super) fn take_due(&self, now: Instant) -> Vec<Waker> {
        let mut due = Vec::new();
        if self.next_deadline().is_some_and(|at| at <= now) {
            self.change(|wakers| {
                while let Some(entry) = wakers.first_entry().filter(|entry| entry.key().0 <= now) {
                    due.push(entry.remove());
                }
            });
        }
        due
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<(Instant, u64), Waker>) -> T) -> T {
        let mut wakers = lock(&self.wakers);
        let outcome = change(&mut wakers);
        let first = wakers.first_key_value().map_or(u64::MAX, |((at, _), _)| at.as_micros());
        self.first.store(first, SeqCst);
        outcome
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
        let sleepers = &shard.sleepers;
        let key = *this.key.get_or_insert_with(|| sleepers.next_key.fetch_add(1, SeqCst));
        let (is_first, previous) = sleepers.change(|wakers| {
            let is_first = wakers.first_key_value().is_none_or(|((first, _), _)| this.at < *first);
            (is_first, wakers.insert((this.at, key), cx.waker().clone()))
        });
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
            let waker = shard.sleepers.change(|wakers| wakers.remove(&(self.at, key)));
            drop(waker);
        }
    }
}
