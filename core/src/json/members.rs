//! The member names of one object, to refuse the second of two equal ones.
//!
//! Names are compared as they read after unescaping, so `"id"` and `"\u0069d"` are the same name. Few names are
//! compared pair by pair without memory of their own; many are sorted once at the end, so that a hostile object
//! costs n log n.

use alloc::borrow::Cow;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;

use super::scan::Text;

const FEW: usize = 12;

#[derive(Default)]
pub(crate) struct Members<'a> {
    few: [&'a [u8]; FEW],
    len: usize,
    /// A bit per length and first and last byte seen: a name whose bit is clear is certainly new
    seen: u64,
    /// All names once there are more than a few, or one has an escape
    many: Vec<Cow<'a, [u8]>>,
}

impl<'a> Members<'a> {
    /// Notes a name; false when it is known already to be the second
    #[inline]
    pub(crate) fn insert(&mut self, name: Text<'a>) -> bool {
        if name.escaped || self.len >= FEW {
            self.insert_many(name);
            return true;
        }
        let ends = match name.raw {
            [first, .., last] => usize::from(*first) ^ (usize::from(*last) << 2),
            _ => 0,
        };
        let bit = 1 << ((name.raw.len() ^ ends) & 63);
        let known = self.seen & bit != 0 && self.few.iter().take(self.len).any(|n| *n == name.raw);
        self.seen |= bit;
        if let Some(place) = self.few.get_mut(self.len) {
            *place = name.raw;
        }
        self.len += 1;
        !known
    }

    #[cold]
    fn insert_many(&mut self, name: Text<'a>) {
        if self.many.is_empty() {
            self.many.extend(self.few.iter().take(self.len).map(|n| Cow::Borrowed(*n)));
        }
        self.many.push(name.bytes());
        // From now on every name comes here.
        self.len = self.len.max(FEW) + 1;
    }

    /// How many names there were
    #[inline]
    pub(crate) fn len(&self) -> usize {
        if self.many.is_empty() { self.len } else { self.many.len() }
    }

    /// Whether all names differ, those included that `insert` could not tell at once
    #[inline]
    pub(crate) fn all_differ(&self) -> bool {
        self.many.is_empty() || twice(self.many.iter().map(|name| &**name)).is_none()
    }
}

/// A name that stands twice among these
///
/// Sorted by a heap: n log n whatever the names are, and a tenth of the code of a sort.
#[cold]
pub(crate) fn twice<'n>(names: impl Iterator<Item = &'n [u8]>) -> Option<&'n [u8]> {
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
        let mut m = Members::default();
        let ok = names.iter().all(|n| m.insert(Text { raw: n.as_bytes(), escaped: n.contains('\\') }));
        ok & m.all_differ()
    }

    #[test]
    fn equal_names_are_found_whatever_their_spelling_and_number() {
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
