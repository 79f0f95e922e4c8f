//! Changes of a list that were not announced yet, and who saw the changed entries before.

use alloc::vec::Vec;

use super::hooks::Subject;
use super::visibility::{Listing, OwnedSubject};
use crate::model::{Prompt, Resource, ResourceTemplate, Tool};

/// An entry of a list.
pub(super) trait Listed {
    /// Returns the name by which visibility functions know it.
    fn subject(&self) -> Subject<'_>;
}

macro_rules! listed {
    ($item:ident, $name:ident) => {
        impl Listed for $item {
            fn subject(&self) -> Subject<'_> {
                Subject::$item(&self.$name)
            }
        }
    };
}

listed!(Tool, name);
listed!(Resource, uri);
listed!(ResourceTemplate, uri_template);
listed!(Prompt, name);

/// An entry as it was before its first change; `None` if it was not there, or hidden from all.
type Before = Option<(Listing, OwnedSubject)>;

/// The entries of a list that have changed.
#[derive(Clone)]
pub(super) enum PendingChanges {
    /// Entries by number, each as it was before its first change; at most [`MAX_ENTRIES`].
    Entries(Vec<(u64, Before)>),
    /// Any entries.
    All,
}

/// Maximum number of changed entries that are told apart.
const MAX_ENTRIES: usize = 32;

impl Default for PendingChanges {
    fn default() -> Self {
        Self::Entries(Vec::new())
    }
}

impl PendingChanges {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Entries(entries) if entries.is_empty())
    }

    /// Records that any entry may have changed.
    pub(super) fn add_all(&mut self) {
        *self = Self::All;
    }

    /// Records the change of an entry; `before` returns it as it is before the change.
    pub(super) fn add(&mut self, number: u64, before: impl FnOnce() -> Before) {
        let Self::Entries(entries) = self else { return };
        if entries.iter().any(|(known, _)| *known == number) {
            return;
        }
        if entries.len() >= MAX_ENTRIES {
            return self.add_all();
        }
        entries.push((number, before()));
    }

    /// Records the removal of an entry. One that comes and goes between two announcements counts as changed for those who
    /// could see it at the end.
    pub(super) fn add_removed(&mut self, number: u64, last: impl FnOnce() -> Before) {
        if let Self::Entries(entries) = self {
            if let Some((_, known)) = entries.iter_mut().find(|(known, _)| *known == number) {
                if known.is_none() {
                    *known = last();
                }
                return;
            }
        }
        self.add(number, last);
    }

    /// Returns the entries; `None` if any may have changed.
    pub(super) fn into_entries(self) -> Option<Vec<(u64, Before)>> {
        match self {
            Self::Entries(entries) => Some(entries),
            Self::All => None,
        }
    }
}
