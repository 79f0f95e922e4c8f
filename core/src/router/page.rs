//! Pages of lists: where they begin, and how they are written.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::entries::Catalog;
use super::template::{START, hash};
use crate::model::{CacheScope, Prompt, Resource, ResourceTemplate, Tool};
use crate::vocab::Kind;

/// How long a client may keep a result, and for whom (since 2026-07-28; CACHE-001)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheHint {
    ttl_ms: i64,
    public: bool,
}

impl CacheHint {
    /// For whoever asked, in the name of the same user (CACHE-012)
    #[must_use]
    pub fn private(time: Duration) -> Self {
        Self { ttl_ms: i64::try_from(time.as_millis()).unwrap_or(i64::MAX), public: false }
    }

    /// For anybody: nothing in it depends on who asks (CACHE-013, CACHE-019)
    #[must_use]
    pub fn public(time: Duration) -> Self {
        Self { public: true, ..Self::private(time) }
    }

    /// In milliseconds, as results say it
    #[must_use]
    pub const fn ttl_ms(self) -> i64 {
        self.ttl_ms
    }

    /// For whom, as results say it
    #[must_use]
    pub const fn scope(self) -> CacheScope {
        if self.public { CacheScope::Public } else { CacheScope::Private }
    }
}

/// What the result of a list is shaped as, and the member with the entries
macro_rules! listed {
    ($($item:ident $result:literal $member:literal;)*) => {$(
        impl Serialize for Page<'_, $item> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let members = Members { page: self, member: $member };
                serializer.serialize_newtype_struct(concat!("$mcp::", $result), &members)
            }
        }
    )*};
}

listed! {
    Tool "ListToolsResult" "tools";
    Resource "ListResourcesResult" "resources";
    ResourceTemplate "ListResourceTemplatesResult" "resourceTemplates";
    Prompt "ListPromptsResult" "prompts";
}

/// One page of a list, borrowed from the router
///
/// Written as the result of the list method, without a copy of the entries.
pub struct Page<'a, T> {
    pub(super) catalog: &'a Catalog<T>,
    pub(super) place: Place,
}

/// Which part of a list a page is, and what is said with it
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) kind: Kind,
    pub(super) after: u64,
    pub(super) size: usize,
    pub(super) cursors: Cursors,
    pub(super) hint: Option<CacheHint>,
}

impl<'a, T> Page<'a, T> {
    /// The entries
    #[must_use]
    pub fn items(&self) -> Vec<&'a T> {
        self.catalog.page(self.place.after, self.place.size).0
    }

    /// The cursor of the next page, if there is one (PAGE-003)
    #[must_use]
    pub fn next_cursor(&self) -> Option<String> {
        self.place.next_cursor(self.catalog.page(self.place.after, self.place.size).1)
    }
}

impl<T> fmt::Debug for Page<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page")
            .field("kind", &self.place.kind)
            .field("after", &self.place.after)
            .finish_non_exhaustive()
    }
}

struct Members<'p, 'a, T> {
    page: &'p Page<'a, T>,
    member: &'static str,
}

impl<T: Serialize> Serialize for Members<'_, '_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Page { catalog, place } = self.page;
        let (items, last) = catalog.page(place.after, place.size);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(self.member, &items)?;
        place.write(&mut map, last)?;
        map.end()
    }
}

impl Place {
    /// The cursor of the next page, given the last entry of this one if there are more
    fn next_cursor(&self, last: Option<u64>) -> Option<String> {
        last.map(|number| self.cursors.write(self.kind, number))
    }

    /// Writes what pages of all kinds have behind their entries
    fn write<M: SerializeMap>(&self, map: &mut M, last: Option<u64>) -> Result<(), M::Error> {
        if let Some(cursor) = self.next_cursor(last) {
            map.serialize_entry("nextCursor", &cursor)?;
        }
        if let Some(hint) = self.hint {
            map.serialize_entry("ttlMs", &hint.ttl_ms)?;
            map.serialize_entry("cacheScope", &hint.scope())?;
        }
        Ok(())
    }
}

/// What makes cursors of one server those of no other
///
/// A cursor is the number of the last entry before the page, with a check that tells those that we gave out from those
/// that somebody made up, took from another list, or kept from another version of the server. It needs no secret: it
/// grants nothing that asking without one would not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cursors {
    salt: u64,
}

impl Cursors {
    pub(super) fn new(name: &str, version: &str) -> Self {
        Self { salt: hash(START, name.bytes().chain([0]).chain(version.bytes())) }
    }

    pub(super) fn write(self, kind: Kind, number: u64) -> String {
        let bytes = [kind as u8].into_iter().chain(number.to_be_bytes());
        let check = hash(self.salt, bytes) >> 32;
        format!("{number:x}.{check:08x}")
    }

    /// The number in a cursor; none when it is not one of ours
    pub(super) fn read(self, kind: Kind, text: &str) -> Option<u64> {
        let (number, _) = text.split_once('.')?;
        let number = u64::from_str_radix(number, 16).ok()?;
        (self.write(kind, number) == text).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: PAGE-010, PAGE-011, CACHE-002
    #[test]
    fn only_our_cursors_are_read() {
        let ours = Cursors::new("n", "1");
        let cursor = ours.write(Kind::Tool, 300);
        assert!(cursor.len() < 16, "{cursor}");
        assert_eq!(ours.read(Kind::Tool, &cursor), Some(300));
        assert_eq!(ours.read(Kind::Prompt, &cursor), None);
        assert_eq!(Cursors::new("n", "2").read(Kind::Tool, &cursor), None);
        let changed = cursor.replace("12c", "12d");
        let odd = ["", ".", "12c", "0", "é.", "-1.0", "+12c.00000000", "ffffffffffffffffffff.0", &changed];
        for text in
            odd.into_iter().chain([&*cursor.to_uppercase(), &*format!("0{cursor}"), &*format!("{cursor} ")])
        {
            assert!(ours.read(Kind::Tool, text).is_none() || text == cursor, "{text}");
        }
        assert_eq!(CacheHint::private(Duration::MAX).ttl_ms(), i64::MAX);
    }
}
