//! The calls that wait for tasks.

use alloc::collections::BTreeMap;

use super::entry::Owner;
use crate::slab::Key;

/// Reason for which a call is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Held {
    /// The store does not have its new task yet.
    Creation(Key),
    /// It asks for the result of the task, which has not ended.
    Result(Key),
    /// The store does not have the change yet that the request made.
    Change(Key),
}

impl Held {
    pub(super) const fn task(self) -> Key {
        match self {
            Self::Creation(task) | Self::Result(task) | Self::Change(task) => task,
        }
    }

    const fn is_change(self) -> bool {
        matches!(self, Self::Change(_))
    }
}

/// The calls that wait for tasks, and the number of requests of each party among them.
#[derive(Debug, Default)]
pub(super) struct HeldCalls {
    calls: BTreeMap<Key, (Held, Option<Owner>)>,
    /// Requests for results, and requests that change tasks: the first do not delay the second.
    by_party: BTreeMap<(bool, Owner), usize>,
}

impl HeldCalls {
    /// Adds a call whose task is being created, which has the bounds of tasks.
    pub(super) fn insert_creation(&mut self, call: Key, task: Key) {
        self.calls.insert(call, (Held::Creation(task), None));
    }

    pub(super) fn insert(&mut self, call: Key, held: Held, party: Owner) {
        *self.by_party.entry((held.is_change(), party.clone())).or_default() += 1;
        self.calls.insert(call, (held, Some(party)));
    }

    pub(super) fn remove(&mut self, call: Key) -> Option<Held> {
        let (held, party) = self.calls.remove(&call)?;
        if let Some(party) = party {
            let at = (held.is_change(), party);
            let left = self.by_party.remove(&at).unwrap_or_default().saturating_sub(1);
            if left > 0 {
                self.by_party.insert(at, left);
            }
        }
        Some(held)
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, Held)> {
        self.calls.iter().map(|(call, (held, _))| (*call, *held))
    }

    /// Returns the number of requests of a party that wait as this one.
    pub(super) fn of_party(&self, held: Held, party: &Owner) -> usize {
        self.by_party.get(&(held.is_change(), party.clone())).copied().unwrap_or_default()
    }

    /// Panics if the number of a party is wrong.
    #[cfg(any(fuzzing, test))]
    pub(super) fn check(&self) {
        let mut counts = BTreeMap::new();
        for (held, party) in self.calls.values() {
            if let Some(party) = party {
                *counts.entry((held.is_change(), party.clone())).or_default() += 1;
            }
        }
        assert_eq!(counts, self.by_party, "the waiting requests of each party");
    }
}
