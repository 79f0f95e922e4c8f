//! The proofs that were used and could be used again.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use super::super::jose::sha256;

/// Maximum number of proofs that are remembered: at most some 24 MB.
const CAPACITY: usize = 1 << 18;
/// Maximum number of proofs of one key: 68 in a second, for the two minutes of a proof.
const MAX_OF_KEY: usize = CAPACITY / 32;

/// The first half of a SHA-256 digest, for which nobody finds a second text.
type Digest = [u8; 16];

/// A proof: the key by which it was made, and its id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct UsedProof {
    key: Digest,
    id: Digest,
}

/// The reason why a proof is not remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryError {
    /// The proof was used before.
    Repeated,
    /// The key has used up its share; its proofs are remembered again when some are too old.
    Full,
}

/// The proofs that were used and could be used again.
///
/// A key has a share of 1/32, and no more than there are free places: it takes more than 32 keys that are used without
/// a pause to leave no room for another one.
///
/// Invariant: `used` has exactly the proofs in `order`, whose times never decrease, and `counts` their number by key.
pub(super) struct ProofMemory {
    capacity: usize,
    max_of_key: usize,
    order: VecDeque<(u64, UsedProof)>,
    used: BTreeSet<UsedProof>,
    counts: BTreeMap<Digest, usize>,
}

impl Default for ProofMemory {
    fn default() -> Self {
        Self {
            capacity: CAPACITY,
            max_of_key: MAX_OF_KEY,
            order: VecDeque::new(),
            used: BTreeSet::new(),
            counts: BTreeMap::new(),
        }
    }
}

impl ProofMemory {
    /// Records the use of a proof at `now`, in seconds, for `keep` seconds.
    ///
    /// If the clock was set back, what was recorded later than `now` is kept as if it had been recorded now: it could be
    /// used again for as long, and would otherwise take its place until the old time comes again.
    pub(super) fn insert(&mut self, key: &str, id: &str, now: u64, keep: u64) -> Result<(), MemoryError> {
        self.order.iter_mut().rev().take_while(|(at, _)| *at > now).for_each(|(at, _)| *at = now);
        while self.order.front().is_some_and(|(at, _)| at.saturating_add(keep) < now) {
            self.forget_first();
        }
        let proof = UsedProof { key: digest(key), id: digest(id) };
        if self.used.contains(&proof) {
            return Err(MemoryError::Repeated);
        }
        let own = self.counts.get(&proof.key).copied().unwrap_or(0);
        if own >= self.capacity.saturating_sub(self.order.len()).min(self.max_of_key) {
            return Err(MemoryError::Full);
        }
        self.order.push_back((now, proof));
        self.used.insert(proof);
        self.counts.insert(proof.key, own + 1);
        Ok(())
    }

    fn forget_first(&mut self) {
        let Some((_, proof)) = self.order.pop_front() else { return };
        self.used.remove(&proof);
        match self.counts.get_mut(&proof.key) {
            Some(count @ 2..) => *count -= 1,
            _ => _ = self.counts.remove(&proof.key),
        }
    }
}

fn digest(text: &str) -> Digest {
    let mut half = [0; 16];
    half.copy_from_slice(&sha256(text.as_bytes())[..16]);
    half
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    fn memory(capacity: usize) -> ProofMemory {
        ProofMemory { capacity, ..ProofMemory::default() }
    }

    impl ProofMemory {
        /// Uses `n` new proofs of a key; returns how many were recorded.
        fn fill(&mut self, key: &str, n: usize, now: u64) -> usize {
            let first = self.order.len();
            let new = (first..first + n).filter(|id| self.insert(key, &id.to_string(), now, 120).is_ok());
            new.count()
        }

        fn check(&self) {
            let mut counts = BTreeMap::new();
            for (_, proof) in &self.order {
                assert!(self.used.contains(proof));
                *counts.entry(proof.key).or_insert(0) += 1;
            }
            assert_eq!((self.used.len(), &self.counts), (self.order.len(), &counts));
            assert!(self.order.iter().is_sorted_by_key(|(at, _)| *at));
        }
    }

    #[test]
    fn one_key_cannot_take_the_places_of_all() {
        let mut memory = ProofMemory { max_of_key: 100, ..memory(1_000) };
        for key in ["greedy", "second", "third", "fourth", "fifth"] {
            assert_eq!(memory.fill(key, 2_000, 10), 100);
            assert_eq!(memory.insert(key, "x", 10, 120), Err(MemoryError::Full));
        }
        for n in 0..20 {
            assert_eq!(memory.fill(&n.to_string(), 5, 10), 5, "{n}");
        }
        assert_eq!(memory.insert("second", "new", 130, 120), Err(MemoryError::Full));
        assert_eq!(memory.insert("second", "new", 131, 120), Ok(()));
        assert_eq!(memory.order.len(), 1, "all others are too old");
        memory.check();
    }

    #[test]
    fn clock_that_is_set_back_neither_forgets_proofs_nor_keeps_them_for_ever() {
        let mut memory = memory(100);
        assert_eq!(memory.fill("a", 10, 1_000_000), 10);
        assert_eq!(memory.insert("a", "0", 500, 120), Err(MemoryError::Repeated));
        assert_eq!(memory.insert("a", "later", 510, 120), Ok(()));
        memory.check();
        assert_eq!(memory.insert("a", "0", 620, 120), Err(MemoryError::Repeated));
        assert_eq!(memory.insert("a", "0", 621, 120), Ok(()));
        memory.check();
        assert_eq!(memory.order.len(), 2);
    }

    #[test]
    fn memory_equals_a_walk_after_every_step() {
        let (mut memory, mut random, mut now) = (memory(50), 3_u32, 1_000);
        let mut refused = [0; 2];
        for _ in 0..5_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            now = if random >> 26 == 0 { now - 40 } else { now + u64::from(random >> 24) % 9 };
            let (key, id) = ((random >> 8) % 5, (random >> 16) % 40);
            match memory.insert(&key.to_string(), &id.to_string(), now, 120) {
                Ok(()) => {}
                Err(MemoryError::Repeated) => refused[0] += 1,
                Err(MemoryError::Full) => refused[1] += 1,
            }
            memory.check();
        }
        assert!(refused.iter().all(|n| *n > 100), "{refused:?}");
    }
}
