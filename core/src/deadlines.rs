//! Deadline queue: a heap with lazy deletion.
//!
//! An entry stays in the heap when its reason goes away. The caller that takes it out checks whether it still holds.
//! [`Deadlines::sweep`] drops dead entries before they outnumber the live ones.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use crate::time::Instant;

#[derive(Debug)]
pub(crate) struct Deadlines<K: Ord> {
    heap: BinaryHeap<Reverse<(Instant, K)>>,
    /// Number of entries that the last sweep left. They may all be live, although the caller does not count them.
    swept_len: usize,
}

impl<K: Ord + Copy> Default for Deadlines<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord + Copy> Deadlines<K> {
    pub(crate) const fn new() -> Self {
        Self { heap: BinaryHeap::new(), swept_len: 0 }
    }

    pub(crate) fn arm(&mut self, at: Instant, key: K) {
        self.heap.push(Reverse((at, key)));
    }

    /// Returns the earliest entry that still holds, and drops dead entries before it.
    pub(crate) fn next(&mut self, mut holds: impl FnMut(Instant, K) -> bool) -> Option<Instant> {
        while let Some(Reverse((at, key))) = self.heap.peek().copied() {
            if holds(at, key) {
                return Some(at);
            }
            self.heap.pop();
        }
        None
    }

    /// Returns the earliest entry; dead ones are among them until [`next`](Self::next) was called.
    pub(crate) fn peek(&self) -> Option<(Instant, K)> {
        self.heap.peek().map(|Reverse(entry)| *entry)
    }

    /// Removes one entry that is due, whether it still holds or not.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, K)> {
        let Reverse((at, _)) = self.heap.peek()?;
        if *at > now {
            return None;
        }
        self.heap.pop().map(|Reverse(e)| e)
    }

    /// Drops dead entries when more than half can be dead; `live` is the number of entries that may hold.
    ///
    /// The number of entries has doubled since the last sweep, so a sweep costs little per entry.
    #[inline]
    pub(crate) fn sweep(&mut self, live: usize, mut holds: impl FnMut(Instant, K) -> bool) {
        if self.is_sweep_due(live) {
            let mut entries = core::mem::take(&mut self.heap).into_sorted_vec();
            entries.dedup();
            entries.retain(|Reverse((at, key))| holds(*at, *key));
            self.heap = entries.into();
            self.swept_len = self.heap.len();
        }
    }

    /// Does the same as [`sweep`](Self::sweep). Of a key that `moves`, only the earliest entry is kept: the caller arms it anew
    /// when it is due.
    #[inline]
    pub(crate) fn sweep_moving(
        &mut self,
        live: usize,
        mut holds: impl FnMut(Instant, K) -> bool,
        moves: impl Fn(K) -> bool,
    ) {
        if self.is_sweep_due(live) {
            let entries = core::mem::take(&mut self.heap).into_iter().map(|Reverse((at, key))| (key, at));
            let live = entries.filter(|(key, at)| holds(*at, *key)).collect::<BinaryHeap<_>>();
            let mut entries = live.into_sorted_vec();
            entries.dedup_by(|later, first| later.0 == first.0 && (later.1 == first.1 || moves(later.0)));
            self.heap = entries.into_iter().map(|(key, at)| Reverse((at, key))).collect();
            self.swept_len = self.heap.len();
        }
    }

    /// Returns whether at least half of the entries came since the last sweep, so that its cost is spread over them.
    fn is_sweep_due(&self, live: usize) -> bool {
        self.heap.len() > live.max(self.swept_len).saturating_mul(2).saturating_add(32)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Drops all dead entries and releases spare memory.
    pub(crate) fn trim(&mut self, mut holds: impl FnMut(Instant, K) -> bool) {
        self.heap.retain(|Reverse((at, key))| holds(*at, *key));
        self.heap.shrink_to_fit();
        self.swept_len = self.heap.len();
    }
}

#[cfg(test)]
#[path = "exhaustive/tables/deadlines.rs"]
mod exhaustive_tables;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_returns_earliest_live_deadline() {
        let mut d = Deadlines::new();
        for k in [3u8, 1, 2] {
            d.arm(Instant::from_micros(u64::from(k)), k);
        }
        assert_eq!(d.next(|_, k| k != 1), Some(Instant::from_micros(2)));
        assert_eq!(d.pop_due(Instant::from_micros(1)), None);
        assert_eq!(d.pop_due(Instant::from_micros(5)), Some((Instant::from_micros(2), 2)));
    }

    #[test]
    fn sweep_without_effect_is_not_repeated_for_each_entry() {
        let (mut d, mut calls) = (Deadlines::new(), 0);
        for k in 0..1_000_u64 {
            d.arm(Instant::from_micros(k), k);
            let count = |_, _| {
                calls += 1;
                true
            };
            d.sweep(1, count);
        }
        assert!(calls <= 2_000, "{calls}");
        d.sweep(1, |_, _| false);
        assert_eq!(d.heap.len(), 1_000);
        d.trim(|_, _| false);
        assert_eq!((d.heap.len(), d.swept_len), (0, 0));
    }

    #[test]
    fn sweep_bounds_dead_entries() {
        let mut d = Deadlines::new();
        for k in 0..1000u32 {
            d.arm(Instant::from_micros(u64::from(k)), k);
            d.sweep(1, |_, e| e == k);
        }
        assert!(d.heap.len() <= 34, "{}", d.heap.len());
    }

    #[test]
    fn sweep_keeps_the_earliest_entry_of_a_moving_key() {
        let mut d = Deadlines::new();
        for at in 0..1_000_u64 {
            d.arm(Instant::from_micros(at + 5), 1_u8);
            d.arm(Instant::from_micros(at), 2);
            d.sweep_moving(2, |_, _| true, |key| key == 1);
        }
        let of = |d: &Deadlines<u8>, key| d.heap.iter().filter(|Reverse((_, k))| *k == key).count();
        // Those of the other key are all kept, so a sweep is due when their number has doubled.
        assert_eq!(of(&d, 2), 1_000);
        assert!(of(&d, 1) < 1_000, "{}", of(&d, 1));
        d.swept_len = 0;
        d.sweep_moving(0, |_, _| true, |key| key == 1);
        assert_eq!((of(&d, 1), of(&d, 2)), (1, 1_000));
        let first = d.heap.iter().find(|Reverse((_, key))| *key == 1);
        assert_eq!(first, Some(&Reverse((Instant::from_micros(5), 1))));
    }
}
