//! Interface between the serializer and the shaping rules of the revisions (DESIGN-35).
//!
//! A rule defines which types and members a revision has, and what replaces a type that it lacks. [`crate::shape`]
//! holds the rules; this module defines their form. A type is known by the name of the newtype that it is serialized
//! through, which begins with [`SHAPED_PREFIX`].

use alloc::vec::Vec;

/// Prefix of the newtype names of shaped types; other newtypes are not affected.
pub(crate) const SHAPED_PREFIX: &str = "$mcp::";

/// Set of revisions, one bit each.
pub(crate) type RevisionMask = u8;

/// Function that appends a replacement made from the JSON text of a value.
pub(crate) type Substitute = fn(&[u8], &mut Vec<u8>);

/// Shaping rule of one type.
#[derive(Debug)]
pub(crate) struct ShapeRule {
    /// Name of the type, without [`SHAPED_PREFIX`].
    pub(crate) name: &'static str,
    /// Revisions that have the type.
    pub(crate) revisions: RevisionMask,
    /// Members that some revisions lack, with the revisions that have them; they are omitted elsewhere.
    pub(crate) members: &'static [(&'static str, RevisionMask)],
    /// Replacements in revisions that lack the type; without one the value cannot be encoded there.
    pub(crate) substitutes: &'static [(RevisionMask, Substitute)],
    /// Name of the missing method or feature for the error.
    pub(crate) refusal: &'static str,
    /// Member that the value gets in some revisions if it has none: these revisions, its name and its JSON text.
    pub(crate) added: Option<AddedMember>,
}

/// A member that is added to a value.
pub(crate) type AddedMember = (RevisionMask, &'static str, &'static str);

/// Shaping rules of one revision; types without a rule are written in full.
///
/// Rules are found by hash, because every object needs a lookup. The index is computed at compile time.
#[derive(Debug)]
pub(crate) struct ShapeTable {
    pub(crate) revision: &'static str,
    pub(crate) bit: RevisionMask,
    rules: &'static [ShapeRule],
    /// Positions in `rules` plus one; 0 marks a free slot.
    index: [u8; SLOTS],
}

const SLOTS: usize = 128;

impl ShapeTable {
    /// Creates the table of the revision with this bit; it contains the rules that change something there.
    #[allow(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "only the compiler runs it")]
    pub(crate) const fn new(revision: &'static str, bit: RevisionMask, rules: &'static [ShapeRule]) -> Self {
        assert!(rules.len() < SLOTS, "some slots stay free, where a search ends");
        let mut index = [0; SLOTS];
        let mut i = 0;
        while i < rules.len() {
            if rules[i].affects(bit) {
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

    /// Returns the rule of a type by the name of its newtype.
    #[inline]
    pub(crate) fn rule(&self, newtype: &str) -> Option<&'static ShapeRule> {
        let name = newtype.strip_prefix(SHAPED_PREFIX)?;
        let mut slot = hash(name.as_bytes());
        loop {
            // A free slot ends the search; see `new`.
            let position = self.index.get(slot % SLOTS)?.checked_sub(1)?;
            let rule = self.rules.get(usize::from(position))?;
            if rule.name == name {
                return Some(rule);
            }
            slot += 1;
        }
    }
}

/// Computes a cheap hash that spreads the few type names well enough.
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

impl ShapeRule {
    /// Returns whether a revision lacks the type or one of its members, or adds one.
    const fn affects(&self, bit: RevisionMask) -> bool {
        let mut missing =
            self.revisions & bit == 0 || matches!(self.added, Some((added, ..)) if added & bit != 0);
        let mut members = self.members;
        while let Some(((_, revisions), rest)) = members.split_first() {
            missing |= *revisions & bit == 0;
            members = rest;
        }
        missing
    }

    /// Returns the replacement for the type in a revision that lacks it.
    pub(crate) fn substitute(&self, bit: RevisionMask) -> Option<Substitute> {
        self.substitutes.iter().find(|(revisions, _)| revisions & bit != 0).map(|(_, substitute)| *substitute)
    }
}

/// Members that are omitted from an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OmittedMembers {
    pub(crate) members: &'static [(&'static str, RevisionMask)],
    pub(crate) bit: RevisionMask,
}

impl OmittedMembers {
    pub(crate) const NONE: Self = Self { members: &[], bit: 0 };

    #[inline]
    pub(crate) fn contains(self, name: &str) -> bool {
        self.members.iter().any(|(member, revisions)| *member == name && revisions & self.bit == 0)
    }
}
