//! Set of the member names of one object, to detect duplicates.
//!
//! Names are compared in unescaped form, so `"id"` and `"\u0069d"` are equal. A few names are compared pairwise without
//! allocation. Many names are sorted once at the end, so that a hostile object costs n log n.

use alloc::borrow::Cow;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;

use super::scan::StringToken;
use crate::memory;

const INLINE_NAMES: usize = 12;

#[derive(Default)]
pub(crate) struct MemberNames<'a> {
    inline: [&'a [u8]; INLINE_NAMES],
    len: usize,
    /// Bloom filter over length, first and last byte: a name whose bit is clear is certainly new.
    fingerprint: u64,
    /// All names, once there are more than [`INLINE_NAMES`] or one has an escape.
    spilled: Vec<Cow<'a, [u8]>>,
}

impl<'a> MemberNames<'a> {
    /// Adds a name; returns `false` if it is known to be a duplicate already.
    #[inline]
    pub(crate) fn insert(&mut self, name: StringToken<'a>) -> bool {
        // A name with escapes equals others only when it is unescaped.
        if name.escaped || self.len >= INLINE_NAMES {
            self.insert_spilled(name);
            return true;
        }
        let ends = match name.raw {
            [first, .., last] => usize::from(*first) ^ (usize::from(*last) << 2),
            _ => 0,
        };
        let bit = 1 << ((name.raw.len() ^ ends) & 63);
        let known = self.fingerprint & bit != 0 && self.inline.iter().take(self.len).any(|n| *n == name.raw);
        self.fingerprint |= bit;
        if let Some(slot) = self.inline.get_mut(self.len) {
            *slot = name.raw;
        }
        self.len += 1;
        !known
    }

    #[cold]
    fn insert_spilled(&mut self, name: StringToken<'a>) {
        let more = if self.spilled.is_empty() { self.len + 1 } else { 1 };
        if self.spilled.capacity() - self.spilled.len() < more && !self.grow(more) {
            self.spilled = Vec::new();
            // This length exceeds every limit of members, so the object is refused.
            self.len = usize::MAX;
            return;
        }
        if self.spilled.is_empty() {
            self.spilled.extend(self.inline.iter().take(self.len).map(|n| Cow::Borrowed(*n)));
        }
        self.spilled.push(name.unescaped());
        // From now on every name goes to `spilled`.
        self.len = self.len.max(INLINE_NAMES) + 1;
    }

    /// Makes room for `more` names, and returns whether there is memory to sort all of them at the end.
    fn grow(&mut self, more: usize) -> bool {
        self.spilled.try_reserve(more).is_ok()
            && memory::is_available(self.spilled.capacity().saturating_mul(size_of::<&[u8]>()))
    }

    /// Returns the number of names that were added, or the largest number if there was no memory for one.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        if self.spilled.is_empty() { self.len } else { self.spilled.len() }
    }

    /// Returns whether all names differ, including those that `insert` did not compare.
    #[inline]
    pub(crate) fn all_differ(&self) -> bool {
        self.spilled.is_empty() || find_duplicate(self.spilled.iter().map(|name| &**name)).is_none()
    }
}

/// Returns a name that occurs twice.
///
/// A heap sort takes n log n for all names, and a tenth of the code of `sort`.
#[cold]
pub(crate) fn find_duplicate<'n>(names: impl Iterator<Item = &'n [u8]>) -> Option<&'n [u8]> {
    let sorted = names.collect::<BinaryHeap<_>>().into_sorted_vec();
    sorted.windows(2).find_map(|pair| match pair {
        [a, b] if a == b => Some(*a),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    fn distinct(names: &[&str]) -> bool {
        let mut m = MemberNames::default();
        let ok = names.iter().all(|n| m.insert(StringToken { raw: n.as_bytes(), escaped: n.contains('\\') }));
        ok & m.all_differ()
    }

    #[test]
    fn duplicate_names_are_found_in_any_spelling_and_count() {
        assert!(distinct(&["a", "b", "A"]));
        assert!(!distinct(&["a", "b", "a"]));
        assert!(!distinct(&["a", "\\u0061"]));
        assert!(!distinct(&["\\u0061", "b", "a"]));
        let many: Vec<String> = (0..100).map(|i| format!("k{i}")).collect();
        let mut names: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(distinct(&names));
        names.push("k3");
        assert!(!distinct(&names));
    }
}
