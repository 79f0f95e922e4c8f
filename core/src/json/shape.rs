//! The seam between writing and the revisions: which types and members a revision has, and what stands in for a type
//! that it lacks. The rules themselves are [`crate::shape`]'s; this module only says what one is.
//!
//! A type is known by the name of the newtype that it is written through, which begins with [`MARK`].

use alloc::vec::Vec;

/// What the names of shaped types begin with, so that no other newtype is taken for one
pub(crate) const MARK: &str = "$mcp::";

/// A set of revisions, a bit each
pub(crate) type Revisions = u8;

/// Makes something else out of the JSON text of a value, and appends it
pub(crate) type Substitute = fn(&[u8], &mut Vec<u8>);

/// One type, and what the revisions make of it
#[derive(Debug)]
pub(crate) struct Rule {
    /// The name behind [`MARK`]
    pub(crate) name: &'static str,
    /// The revisions that have the type
    pub(crate) lives: Revisions,
    /// Members that not every one of them has: they are left out
    pub(crate) members: &'static [(&'static str, Revisions)],
    /// What stands in for it in others; where there is nothing, it cannot be written
    pub(crate) instead: &'static [(Revisions, Substitute)],
    /// What the refusal says
    pub(crate) what: &'static str,
}

/// The rules of one revision; types without one are written in full
///
/// Found by hash, since every object that is written asks; the index is made by the compiler.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) revision: &'static str,
    pub(crate) bit: Revisions,
    rules: &'static [Rule],
    /// Places in `rules`, counted from one; zero for none
    index: [u8; SLOTS],
}

const SLOTS: usize = 128;

impl Table {
    /// The table of the revision that `bit` stands for, with the rules that do something there
    #[allow(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "only the compiler runs it")]
    pub(crate) const fn new(revision: &'static str, bit: Revisions, rules: &'static [Rule]) -> Self {
        assert!(rules.len() < SLOTS, "some slots stay free, where a search ends");
        let mut index = [0; SLOTS];
        let mut i = 0;
        while i < rules.len() {
            if rules[i].concerns(bit) {
                let mut slot = hash(rules[i].name.as_bytes());
                while index[slot % SLOTS] != 0 {
                    slot += 1;
                }
                index[slot % SLOTS] = i as u8 + 1;
            }
            i += 1;
        }
        Self { revision, bit, rules, index }
    }

    /// The rule of a type, given the name of its newtype
    #[inline]
    pub(crate) fn rule(&self, newtype: &str) -> Option<&'static Rule> {
        let name = newtype.strip_prefix(MARK)?;
        let mut slot = hash(name.as_bytes());
        loop {
            let place = self.index.get(slot % SLOTS)?.checked_sub(1)?;
            let rule = self.rules.get(usize::from(place))?;
            if rule.name == name {
                return Some(rule);
            }
            slot += 1;
        }
    }
}

/// Cheap, and spreads the few names that there are well enough
const fn hash(name: &[u8]) -> usize {
    match name {
        [first, second, .., before, last] => {
            name.len() * 5
                + (*first as usize) * 3
                + *second as usize
                + (*before as usize) * 7
                + (*last as usize) * 11
        }
        _ => name.len(),
    }
}

impl Rule {
    /// Whether a revision lacks the type or one of its members
    const fn concerns(&self, bit: Revisions) -> bool {
        let mut missing = self.lives & bit == 0;
        let mut members = self.members;
        while let Some(((_, lives), rest)) = members.split_first() {
            missing |= *lives & bit == 0;
            members = rest;
        }
        missing
    }

    /// What stands in for the type in a revision that lacks it
    pub(crate) fn substitute(&self, bit: Revisions) -> Option<Substitute> {
        self.instead.iter().find(|(revisions, _)| revisions & bit != 0).map(|(_, substitute)| *substitute)
    }
}

/// The members that an object is written without
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Without {
    pub(crate) members: &'static [(&'static str, Revisions)],
    pub(crate) bit: Revisions,
}

impl Without {
    #[inline]
    pub(crate) fn has(self, name: &str) -> bool {
        self.members.iter().any(|(member, lives)| *member == name && lives & self.bit == 0)
    }
}
