//! Changes that have not been published yet.

use alloc::vec::Vec;

use mcp_proto::Change;
use mcp_proto::server::{Announcement, Audience};

use super::server_loop::ServerLoop;

/// A set of changes, each with its audience.
///
/// It is bounded: beyond 256 KiB of resource changes, it stands for all resources. Then every subscriber of a resource
/// is notified that it may have changed.
///
/// Invariant: `includes_all_resources` ⇒ `changes` contains no resource and `bytes` is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// Sorted changes without duplicates, and who gets to know of them.
    changes: Vec<(Change, Audience)>,
    /// Memory of the resource changes, in bytes; at most [`MAX_URI_BYTES`].
    bytes: usize,
    /// Whether any resource may have changed.
    includes_all_resources: bool,
}

impl ChangeSet {
    /// Creates a set that stands for all subscribed resources.
    #[must_use]
    pub fn all_resources() -> Self {
        Self { includes_all_resources: true, ..Self::default() }
    }

    /// Adds the changes of another set.
    pub fn merge(&mut self, other: &Self) {
        other.changes.iter().for_each(|(change, audience)| self.insert(change.clone(), audience));
        if other.includes_all_resources {
            self.collapse_resources();
        }
    }

    fn insert(&mut self, change: Change, audience: &Audience) {
        let index = match self.changes.binary_search_by(|(other, _)| other.cmp(&change)) {
            Ok(known) => return self.changes.get_mut(known).map_or((), |(_, all)| all.merge(audience)),
            Err(index) => index,
        };
        if let Change::Resource(uri) = &change {
            if self.includes_all_resources {
                return;
            }
            self.bytes += size_of::<Change>() + uri.len();
        }
        self.changes.insert(index, (change, audience.clone()));
        if self.bytes > MAX_URI_BYTES {
            self.collapse_resources();
        }
    }

    fn collapse_resources(&mut self) {
        self.changes.retain(|(change, _)| !matches!(change, Change::Resource(_)));
        (self.includes_all_resources, self.bytes) = (true, 0);
    }

    /// Publishes the changes to their audiences.
    pub(super) fn publish(&self, server_loop: &mut dyn ServerLoop) {
        self.iter().for_each(|announcement| server_loop.publish(&announcement));
        if self.includes_all_resources {
            server_loop.publish_resources();
        }
    }

    /// Returns the changes, without those that [`includes_all_resources`](Self::includes_all_resources) stands for.
    pub fn iter(&self) -> impl Iterator<Item = Announcement<'_>> {
        self.changes.iter().map(|(change, audience)| Announcement::from(change).to(audience.clone()))
    }

    /// Returns whether any resource may have changed in addition.
    #[must_use]
    pub const fn includes_all_resources(&self) -> bool {
        self.includes_all_resources
    }
}

impl From<Change> for ChangeSet {
    fn from(change: Change) -> Self {
        Announcement::new(change).into()
    }
}

impl From<Announcement<'_>> for ChangeSet {
    fn from(announcement: Announcement<'_>) -> Self {
        let (change, audience) = announcement.into_parts();
        let mut changes = Self::default();
        changes.insert(change.into_owned(), &audience);
        changes
    }
}

impl From<&Announcement<'_>> for ChangeSet {
    fn from(announcement: &Announcement<'_>) -> Self {
        announcement.clone().into()
    }
}

/// Maximum memory of individual resource changes, in bytes.
const MAX_URI_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_unique_and_too_many_resources_become_all() {
        let mut changes = ChangeSet::from(Change::Tools);
        for round in 0..3 {
            for n in 0..100 {
                changes.merge(&Change::Resource(alloc::format!("file:///{n}")).into());
            }
            changes.merge(&Change::Tools.into());
            assert_eq!(
                (changes.changes.len(), changes.includes_all_resources),
                (101, false),
                "round {round}"
            );
        }
        let long = "x".repeat(1000);
        for n in 0..300 {
            changes.merge(&Change::Resource(alloc::format!("file:///{n}/{long}")).into());
            assert!(changes.bytes <= MAX_URI_BYTES);
        }
        assert_eq!(
            changes,
            ChangeSet {
                changes: [(Change::Tools, Audience::EVERYONE)].into(),
                bytes: 0,
                includes_all_resources: true
            }
        );
        // All resources include each single one, whichever set comes first.
        let mut other = ChangeSet::from(Change::Resource("file:///1".into()));
        other.merge(&changes);
        assert_eq!(other, changes);
    }

    #[test]
    fn merged_changes_reach_the_audiences_of_all() {
        let to_nobody = Announcement::new(Change::Tools).to(Audience::matching(|_| false));
        let mut changes = ChangeSet::from(&to_nobody);
        let audience = |changes: &ChangeSet| changes.iter().map(|a| a.audience().clone()).collect::<Vec<_>>();
        changes.merge(&(&to_nobody).into());
        assert_eq!(audience(&changes), [to_nobody.audience().clone()]);
        changes.merge(&Announcement::new(Change::Prompts).to(Audience::matching(|_| true)).into());
        assert_eq!(changes.iter().count(), 2);
        assert!(audience(&changes).iter().all(|audience| !audience.is_everyone()));
        changes.merge(&Change::Tools.into());
        assert!(audience(&changes).first().is_some_and(Audience::is_everyone));
    }
}
