//! Keys of input requests: a task uses none twice (TASK-120).

use alloc::boxed::Box;
use alloc::collections::BTreeSet;

/// The keys that a task has used for its input requests. They are stored with it, so a restart changes nothing.
#[derive(Debug, Default)]
pub(super) struct UsedKeys(BTreeSet<Box<str>>);

impl UsedKeys {
    /// Returns the keys for the questions of a new round, by their names: `None` for those that are their own keys.
    ///
    /// A name that was never a key is its own key. Any other name gets the first free number.
    pub(super) fn assign<'n>(
        &self,
        names: impl Iterator<Item = &'n str> + Clone,
    ) -> impl Iterator<Item = Option<Box<str>>> {
        // A numbered key gives way to a name of the same round that is spelled like it.
        let mut taken: BTreeSet<Box<str>> =
            names.clone().filter(|name| !self.contains(name)).map(Box::from).collect();
        names.map(move |name| {
            if !self.contains(name) {
                return None;
            }
            let mut numbered = (2_u32..).map(|number| Box::<str>::from(alloc::format!("{name}#{number}")));
            let key = numbered.find(|key| !self.contains(key) && !taken.contains(key))?;
            taken.insert(key.clone());
            Some(key)
        })
    }

    fn contains(&self, key: &str) -> bool {
        self.0.contains(key)
    }

    /// Adds a key. Returns false if it was there.
    pub(super) fn insert(&mut self, key: &str) -> bool {
        self.0.insert(key.into())
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|key| &**key)
    }

    /// Returns the bytes that are charged for the keys.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|key| charge(key)).sum()
    }
}

/// Returns the bytes that are charged for a key: its text, and its place in the set.
pub(super) const fn charge(key: &str) -> usize {
    key.len() + 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn round(used: &mut UsedKeys, names: &[&str]) -> Vec<Box<str>> {
        let keys = used.assign(names.iter().copied()).zip(names);
        let keys: Vec<Box<str>> = keys.map(|(key, name)| key.unwrap_or_else(|| (*name).into())).collect();
        assert!(keys.iter().all(|key| used.insert(key)), "{keys:?}");
        keys
    }

    // covers: TASK-120
    #[test]
    fn key_is_the_name_until_that_is_used() {
        let mut used = UsedKeys::default();
        for (names, keys) in [
            (&["boat", "basin"][..], &["boat", "basin"][..]),
            (&["boat", "pier"], &["boat#2", "pier"]),
            // The number was used for a boat.
            (&["boat#2", "boat"], &["boat#2#2", "boat#3"]),
            (&["basin#2", "basin", "crane"], &["basin#2", "basin#3", "crane"]),
        ] {
            assert_eq!(round(&mut used, names).iter().map(|key| &**key).collect::<Vec<_>>(), keys);
        }
    }
}
