//! Set of the member names of one object, to detect duplicates.
//!
//! Names are compared in unescaped form, so `"id"` and `"\u0069d"` are equal. A few names are compared pairwise without
//! allocation. Many names are sorted once at the end, so that a hostile object costs n log n.

use alloc::borrow::Cow;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;

use super::scan::StringToken;
use super::swar::plain_prefix;
use crate::memory;

const INLINE_NAMES: usize = 12;
/// Largest number of names that [`find_duplicate`] compares in pairs.
const FEW_NAMES: usize = 8;

#[derive(Default)]
pub(crate) struct MemberNames<'a> {
    /// Positions of the first names in the text. Positions, not slices: each object begins with an empty set.
    inline: [u32; INLINE_NAMES],
    len: usize,
    /// Bloom filter over length, first and last byte: a name whose bit is clear is certainly new.
    fingerprint: u64,
    /// All names, once there are more than [`INLINE_NAMES`] or one has an escape.
    spilled: Vec<Cow<'a, [u8]>>,
}

impl<'a> MemberNames<'a> {
    /// Adds the name at a position of a text; returns `false` if it is known to be a duplicate already.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "frames are shorter than 4 GiB")]
    pub(crate) fn insert(&mut self, text: &'a [u8], at: usize, name: StringToken<'a>) -> bool {
        let slot = match self.inline.get_mut(self.len) {
            // A name with escapes equals others only when it is unescaped.
            Some(slot) if !name.escaped => slot,
            _ => {
                self.insert_spilled(text, name);
                return true;
            }
        };
        *slot = at as u32;
        let ends = match name.raw {
            [first, .., last] => usize::from(*first) + usize::from(*last) * 8,
            _ => 0,
        };
        // The names of an envelope, of `params` and of a tool have bits of their own each.
        let bit = 1 << ((name.raw.len() + ends) & 63);
        let is_known = self.fingerprint & bit != 0 && self.is_inline(text, name.raw);
        self.fingerprint |= bit;
        self.len += 1;
        !is_known
    }

    /// Returns whether an earlier name is the same.
    #[inline(never)]
    fn is_inline(&self, text: &[u8], name: &[u8]) -> bool {
        self.inline.iter().take(self.len).any(|at| name_at(text, *at) == name)
    }

    #[cold]
    fn insert_spilled(&mut self, text: &'a [u8], name: StringToken<'a>) {
        let more = if self.spilled.is_empty() { self.len.saturating_add(1) } else { 1 };
        if self.spilled.capacity() - self.spilled.len() < more && !self.grow(more) {
            self.spilled = Vec::new();
            // This length exceeds every limit of members, so the object is refused.
            self.len = usize::MAX;
            return;
        }
        if self.spilled.is_empty() {
            let inline = self.inline.iter().take(self.len);
            self.spilled.extend(inline.map(|at| Cow::Borrowed(name_at(text, *at))));
        }
        self.spilled.push(name.unescaped());
        // From now on every name goes to `spilled`.
        self.len = self.len.max(INLINE_NAMES);
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

/// Returns the name whose opening quote is at a position. It has no escapes, so it ends at the next quote.
fn name_at(text: &[u8], quote: u32) -> &[u8] {
    let name = text.get(quote as usize + 1..).unwrap_or_default();
    name.split_at_checked(plain_prefix(name)).unwrap_or_default().0
}

/// Returns a name that occurs twice.
pub(crate) fn find_duplicate<'n>(names: impl Iterator<Item = &'n [u8]> + Clone) -> Option<&'n [u8]> {
    // A few are compared in pairs, without an allocation.
    if names.clone().nth(FEW_NAMES).is_some() {
        return find_duplicate_of_many(names);
    }
    let is_repeated = |(at, name): &(usize, &[u8])| names.clone().take(*at).any(|earlier| earlier == *name);
    names.clone().enumerate().find(is_repeated).map(|(_, name)| name)
}

/// A heap sort takes n log n for all names, and a tenth of the code of `sort`.
#[cold]
fn find_duplicate_of_many<'n>(names: impl Iterator<Item = &'n [u8]>) -> Option<&'n [u8]> {
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
        let text: String = names.iter().map(|name| format!("\"{name}\":1,")).collect();
        let mut members = MemberNames::default();
        let mut at = 0;
        let is_new = names.iter().all(|name| {
            let token = StringToken { raw: name.as_bytes(), escaped: name.contains('\\') };
            let is_new = members.insert(text.as_bytes(), at, token);
            at += name.len() + 5;
            is_new
        });
        is_new & members.all_differ()
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

    #[test]
    fn names_of_the_protocol_are_told_apart_without_a_comparison() {
        for object in [
            &["jsonrpc", "id", "method", "params", "result", "error"][..],
            &["name", "arguments", "_meta", "inputResponses", "requestState", "uri", "cursor"],
            &[
                "name",
                "title",
                "description",
                "inputSchema",
                "outputSchema",
                "annotations",
                "icons",
                "_meta",
                "execution",
            ],
        ] {
            let mut members = MemberNames::default();
            for name in object {
                members.insert(b"", 0, StringToken { raw: name.as_bytes(), escaped: false });
            }
            assert_eq!(members.fingerprint.count_ones() as usize, object.len(), "{object:?}");
        }
    }

    #[test]
    fn names_beyond_the_inline_ones_are_counted_and_compared() {
        let names: Vec<String> = (0..=INLINE_NAMES + 2).map(|i| format!("\"k{i:02}\":")).collect();
        let text = names.concat();
        for count in 0..names.len() {
            for escaped in [false, true] {
                let mut members = MemberNames::default();
                let token =
                    |at: usize| StringToken { raw: &text.as_bytes()[at * 6 + 1..at * 6 + 4], escaped: false };
                for at in 0..count {
                    assert!(members.insert(text.as_bytes(), at * 6, token(at)), "{at} of {count}");
                }
                assert_eq!((members.len(), members.all_differ()), (count, true));
                if count > 0 {
                    let first = StringToken { escaped, ..token(0) };
                    let is_new = members.insert(text.as_bytes(), 0, first);
                    assert!(!(is_new && members.all_differ()), "{count}");
                }
            }
        }
    }
}
