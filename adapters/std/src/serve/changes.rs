//! What has changed, while nobody has been told of it yet

use alloc::vec::Vec;

use mcp_proto::Change;

use super::host::Host;

/// Things that have changed, each of them once, however often that was said
///
/// It is bounded: when the URIs of more resources are in it than a quarter of a megabyte takes, it stands for all
/// resources, and whoever follows one is told that it may have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// In order; few, or a quarter of a megabyte with their names
    things: Vec<Change>,
    /// What is taken up by resources
    bytes: usize,
    /// All resources may have changed
    resources: bool,
}

impl Changes {
    /// All resources that somebody follows
    #[cfg(feature = "http")]
    pub(super) fn resources() -> Self {
        Self { resources: true, ..Self::default() }
    }

    /// Adds what another one has
    pub(super) fn add(&mut self, other: &Self) {
        other.things.iter().for_each(|change| self.insert(change.clone()));
        if other.resources {
            self.give_up_names();
        }
    }

    fn insert(&mut self, change: Change) {
        let Err(place) = self.things.binary_search(&change) else { return };
        if let Change::Resource(uri) = &change {
            if self.resources {
                return;
            }
            self.bytes += size_of::<Change>() + uri.len();
        }
        self.things.insert(place, change);
        if self.bytes > MAX_BYTES {
            self.give_up_names();
        }
    }

    fn give_up_names(&mut self) {
        self.things.retain(|change| !matches!(change, Change::Resource(_)));
        (self.resources, self.bytes) = (true, 0);
    }

    /// Tells everybody who wants to know
    pub(super) fn publish(&self, host: &mut dyn Host) {
        self.things.iter().for_each(|change| host.publish(change));
        if self.resources {
            host.publish_resources();
        }
    }

    /// What has changed, by name
    #[cfg(feature = "http")]
    pub(super) fn things(&self) -> impl Iterator<Item = &Change> {
        self.things.iter()
    }

    /// Whether any resource may have changed besides
    #[cfg(feature = "http")]
    pub(super) const fn has_resources(&self) -> bool {
        self.resources
    }
}

impl From<Change> for Changes {
    fn from(change: Change) -> Self {
        let mut changes = Self::default();
        changes.insert(change);
        changes
    }
}

/// Of the URIs of resources, one by one
const MAX_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_in_it_once_and_too_many_resources_are_all() {
        let mut changes = Changes::from(Change::Tools);
        for round in 0..3 {
            for n in 0..100 {
                changes.add(&Change::Resource(alloc::format!("file:///{n}")).into());
            }
            changes.add(&Change::Tools.into());
            assert_eq!((changes.things.len(), changes.resources), (101, false), "round {round}");
        }
        let long = "x".repeat(1000);
        for n in 0..300 {
            changes.add(&Change::Resource(alloc::format!("file:///{n}/{long}")).into());
            assert!(changes.bytes <= MAX_BYTES);
        }
        assert_eq!(changes, Changes { things: [Change::Tools].into(), bytes: 0, resources: true });
        // Who has heard of all needs no names, and who adds it neither.
        let mut other = Changes::from(Change::Resource("file:///1".into()));
        other.add(&changes);
        assert_eq!(other, changes);
    }
}
