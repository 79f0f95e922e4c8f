//! How many connections each shard has, and which shard has room for one more

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::Waker;

/// Connections that are open, by shard
#[derive(Debug)]
pub(super) struct Seats {
    taken: Vec<AtomicUsize>,
    /// Somebody waits for a seat
    wanted: AtomicBool,
    /// Wakes who accepts connections
    waker: Waker,
}

impl Seats {
    /// Nobody has come yet; `waker` is woken when a seat becomes free that is [wanted](Self::want)
    pub(super) fn new(shards: u8, waker: Waker) -> Arc<Self> {
        let taken = (0..shards).map(|_| AtomicUsize::new(0)).collect();
        Arc::new(Self { taken, wanted: AtomicBool::new(false), waker })
    }

    /// Has the next seat that becomes free told; to be followed by another look whether there is one
    pub(super) fn want(&self) {
        self.wanted.store(true, Ordering::SeqCst);
    }

    /// Whether no seat has become free since one was [wanted](Self::want)
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Connections that are open, of all shards
    pub(super) fn taken(&self) -> usize {
        self.taken.iter().map(|shard| shard.load(Ordering::SeqCst)).sum()
    }

    fn taken_of(&self, shard: u8) -> usize {
        self.taken.get(usize::from(shard)).map_or(usize::MAX, |shard| shard.load(Ordering::SeqCst))
    }

    fn enter(&self, shard: u8) {
        self.taken.get(usize::from(shard)).map(|shard| shard.fetch_add(1, Ordering::SeqCst));
    }

    fn leave(&self, shard: u8) {
        self.taken.get(usize::from(shard)).map(|shard| shard.fetch_sub(1, Ordering::SeqCst));
        if self.wanted.swap(false, Ordering::SeqCst) {
            self.waker.wake_by_ref();
        }
    }

    /// Where one more goes who would do best in `wanted`: there, unless that has many more than another one
    pub(super) fn place(&self, wanted: u8) -> u8 {
        let shards = u8::try_from(self.taken.len()).unwrap_or(u8::MAX);
        let least = (0..shards).min_by_key(|shard| self.taken_of(*shard)).unwrap_or(0);
        let few = self.taken_of(least);
        if self.taken_of(wanted) <= few + SLACK.max(few / 4) { wanted } else { least }
    }
}

/// How many more a shard may have than the one that has fewest, or a quarter
const SLACK: usize = 8;

/// One of the connections that are open
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    shard: u8,
}

impl Seat {
    /// Counts one more in a shard, as long as this is there
    pub(super) fn new(seats: &Arc<Seats>, shard: u8) -> Self {
        seats.enter(shard);
        Self { seats: seats.clone(), shard }
    }

    /// Counts it in another shard from now on
    pub(super) fn change(&mut self, shard: u8) {
        if shard != self.shard {
            // One too many for a moment is better than one too few.
            self.seats.enter(shard);
            self.seats.leave(self.shard);
            self.shard = shard;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.leave(self.shard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_counted_where_they_are() {
        let seats = Seats::new(3, Waker::noop().clone());
        let mut one = Seat::new(&seats, 0);
        let two = Seat::new(&seats, 2);
        assert_eq!([seats.taken_of(0), seats.taken_of(1), seats.taken_of(2), seats.taken()], [1, 0, 1, 2]);
        one.change(2);
        one.change(2);
        assert_eq!([seats.taken_of(0), seats.taken_of(1), seats.taken_of(2), seats.taken()], [0, 0, 2, 2]);
        drop(one);
        assert_eq!([seats.taken_of(2), seats.taken()], [1, 1]);
        drop(two);
        assert_eq!(seats.taken(), 0);
    }

    /// Whatever is wanted, no shard has many more than another
    #[test]
    fn what_is_wanted_does_not_fill_one_shard_alone() {
        let seats = Seats::new(4, Waker::noop().clone());
        let sit = |wanted| Seat::new(&seats, seats.place(wanted));
        // As it is wanted, as long as that is even.
        let _even: Vec<Seat> = (0..4).cycle().take(400).map(sit).collect();
        assert!((0..4).all(|shard| seats.taken_of(shard) == 100));
        let _all: Vec<Seat> = (0..600).map(|_| sit(1)).collect();
        let taken: Vec<usize> = (0..4).map(|shard| seats.taken_of(shard)).collect();
        assert!(taken[1] > taken[0] && taken[1] <= taken[0] + 1 + taken[0] / 4, "{taken:?}");
        assert_eq!(seats.taken(), 1_000);
        assert!(taken[0].abs_diff(taken[2]) <= 1 && taken[0].abs_diff(taken[3]) <= 1, "{taken:?}");
        // One that there is not is nowhere.
        assert!(seats.place(9) < 4);
    }
}
