//! The number of open exchanges of each principal.

use alloc::collections::BTreeMap;

use crate::sync::Arc;

/// The number of open exchanges of each principal.
#[derive(Debug, Default)]
pub(super) struct PrincipalCounts {
    /// The principal whose exchange was counted last, and their number, which may be zero: its next request mostly
    /// follows.
    recent: Option<(Arc<str>, usize)>,
    /// The other ones with open exchanges.
    others: BTreeMap<Arc<str>, usize>,
}

impl PrincipalCounts {
    /// Returns the number of exchanges of a principal.
    pub(super) fn of(&self, principal: &str) -> usize {
        match &self.recent {
            Some((recent, count)) if **recent == *principal => *count,
            _ => self.others.get(principal).copied().unwrap_or(0),
        }
    }

    /// Counts one more exchange of a principal.
    pub(super) fn add(&mut self, principal: &Arc<str>) {
        match &mut self.recent {
            Some((recent, count)) if *recent == *principal => *count += 1,
            _ => {
                let count = self.others.remove(principal).unwrap_or(0) + 1;
                if let Some((other, open @ 1..)) = self.recent.replace((principal.clone(), count)) {
                    self.others.insert(other, open);
                }
            }
        }
    }

    /// Counts one exchange of a principal less.
    pub(super) fn remove(&mut self, principal: &Arc<str>) {
        match &mut self.recent {
            Some((recent, count)) if *recent == *principal => *count = count.saturating_sub(1),
            _ => match self.others.get_mut(principal) {
                Some(count @ 2..) => *count -= 1,
                Some(_) => _ = self.others.remove(principal),
                None => {}
            },
        }
    }

    /// Removes the principals without exchanges.
    pub(super) fn trim(&mut self) {
        self.recent.take_if(|(_, count)| *count == 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn counts_equal_a_walk_and_at_most_one_principal_is_idle() {
        let names: [Arc<str>; 20] = core::array::from_fn(|n| format!("principal {n}").into());
        let (mut counts, mut open, mut random) = (PrincipalCounts::default(), [0_usize; 20], 7_u32);
        for _ in 0..10_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = (random >> 16) as usize % names.len();
            if open[at] == 0 || (open[at] < 3 && random & 0x800 == 0) {
                counts.add(&names[at]);
                open[at] += 1;
            } else {
                counts.remove(&names[at]);
                open[at] -= 1;
            }
            for (name, open) in names.iter().zip(open) {
                assert_eq!(counts.of(name), open, "{name}");
            }
            assert!(counts.others.values().all(|count| *count > 0));
        }
        for (name, open) in names.iter().zip(open) {
            (0..open).for_each(|_| counts.remove(name));
        }
        counts.remove(&"nobody".into());
        assert!(counts.others.is_empty());
        counts.trim();
        assert!(counts.recent.is_none());
    }
}
