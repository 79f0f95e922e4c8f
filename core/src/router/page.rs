//! Pages of lists: their position, their cursors, and how they are written.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::entries::Catalog;
use super::hooks::Subject;
use super::pending::Listed;
use super::template::{HASH_SEED, extend_hash};
use super::visibility::{Gate, Listing, Visible};
use crate::methods::EntryKind;
use crate::model::{CacheScope, Prompt, Resource, ResourceTemplate, Tool};
use crate::server::Caller;

/// Lifetime of a result in the cache of a client, and the parties that may share it (since 2026-07-28; CACHE-001).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheHint {
    ttl_ms: i64,
    is_public: bool,
}

impl CacheHint {
    /// Creates a hint for a result that only the requesting user may keep, for `time` (CACHE-012).
    #[must_use]
    pub fn private(time: Duration) -> Self {
        Self { ttl_ms: i64::try_from(time.as_millis()).unwrap_or(i64::MAX), is_public: false }
    }

    /// Creates a hint for a result that does not depend on the requester, so that anyone may share it (CACHE-013,
    /// CACHE-019).
    #[must_use]
    pub fn public(time: Duration) -> Self {
        Self { is_public: true, ..Self::private(time) }
    }

    /// Returns the hint with the same lifetime for the requesting user alone.
    pub(super) const fn to_private(self) -> Self {
        Self { ttl_ms: self.ttl_ms, is_public: false }
    }

    /// Returns the time to live in milliseconds, the unit of `ttlMs`.
    #[must_use]
    pub const fn ttl_ms(self) -> i64 {
        self.ttl_ms
    }

    /// Returns the scope, the value of `cacheScope`.
    #[must_use]
    pub const fn scope(self) -> CacheScope {
        if self.is_public { CacheScope::Public } else { CacheScope::Private }
    }
}

// Ties each entry type to the definition of its list result and to the member that holds the entries.
macro_rules! page_shape {
    ($($item:ident $result:literal $member:literal;)*) => {$(
        impl Serialize for CatalogPage<'_, $item> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let members = PageItems { page: self, member: $member };
                serializer.serialize_newtype_struct(concat!("$mcp::", $result), &members)
            }
        }
    )*};
}

page_shape! {
    Tool "ListToolsResult" "tools";
    Resource "ListResourcesResult" "resources";
    ResourceTemplate "ListResourceTemplatesResult" "resourceTemplates";
    Prompt "ListPromptsResult" "prompts";
}

/// One page of a list, borrowed from the router.
///
/// Serializes as the result of the list method, without copying the entries.
pub struct CatalogPage<'a, T> {
    pub(super) catalog: &'a Catalog<T>,
    pub(super) position: PagePosition,
    pub(super) selection: Selection<'a, T>,
}

/// The entries of a list that its reader sees.
pub(super) enum Selection<'a, T> {
    /// All entries.
    All,
    /// Those of this page, and the number of the last one if more follow.
    Chosen(Vec<&'a T>, Option<u64>),
    /// Those that the callers of a view see, chosen when they are needed.
    OfView(Viewer<'a, T>),
}

/// A caller whose view of a list has a name.
pub(super) struct Viewer<'a, T> {
    gate: Gate<'a>,
    caller: &'a Caller,
    /// Reads the name of an entry: a pointer, so that the type of the entry needs no bound.
    subject: for<'i> fn(&'i T) -> Subject<'i>,
    pub(super) view: Box<str>,
    /// Set when a function has failed: then the page is that of this request alone.
    has_failed: AtomicBool,
}

impl<T> Viewer<'_, T> {
    /// Returns whether the caller sees an entry, and records the failure of a function.
    fn shows(&self, listing: &Listing, item: &T) -> bool {
        let answer = self.gate.ask(self.caller, listing, (self.subject)(item));
        if answer == Visible::Failed {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        answer == Visible::Yes
    }
}

impl<'a, T: Listed> Selection<'a, T> {
    /// Chooses the entries of a page that a caller sees, or does so later if the caller has a view.
    pub(super) fn new(
        catalog: &'a Catalog<T>,
        position: &PagePosition,
        gate: Gate<'a>,
        caller: &'a Caller,
    ) -> Self {
        if let Some(view) = gate.scopes.view(caller) {
            let has_failed = AtomicBool::new(false);
            return Self::OfView(Viewer { gate, caller, subject: T::subject, view, has_failed });
        }
        // Now, because the functions of the application must not run while an engine writes.
        let shows = |listing: &Listing, item: &T| gate.shows(caller, listing, item.subject());
        let (items, last) = catalog.page(position.after, position.size, shows);
        Self::Chosen(items, last)
    }
}

/// Position of a page in its list, and the settings it is written with.
#[derive(Clone, Copy)]
pub(super) struct PagePosition {
    pub(super) kind: EntryKind,
    pub(super) after: u64,
    pub(super) size: usize,
    pub(super) cursors: CursorCodec,
    pub(super) hint: Option<CacheHint>,
}

impl<'a, T> CatalogPage<'a, T> {
    /// Returns the entries of this page.
    #[must_use]
    pub fn items(&self) -> Vec<&'a T> {
        self.choose().0
    }

    /// Returns the entries of this page, and the number of the last one if more follow.
    fn choose(&self) -> (Vec<&'a T>, Option<u64>) {
        let PagePosition { after, size, .. } = self.position;
        match &self.selection {
            Selection::All => self.catalog.page(after, size, |_, _| true),
            Selection::Chosen(items, last) => (items.clone(), *last),
            Selection::OfView(viewer) => {
                self.catalog.page(after, size, |listing, item| viewer.shows(listing, item))
            }
        }
    }

    /// Returns whether this is a page of its view: every function has answered, and the caller still has the view with which
    /// the page was requested. Rights may change meanwhile.
    pub(super) fn is_current(&self) -> bool {
        match &self.selection {
            Selection::OfView(viewer) => {
                !viewer.has_failed.load(Ordering::Relaxed)
                    && viewer.gate.scopes.view(viewer.caller).as_ref() == Some(&viewer.view)
            }
            _ => true,
        }
    }

    /// Returns the cursor of the next page, if there is one (PAGE-003).
    #[must_use]
    pub fn next_cursor(&self) -> Option<String> {
        self.position.next_cursor(self.choose().1)
    }
}

impl<T> fmt::Debug for CatalogPage<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatalogPage")
            .field("kind", &self.position.kind)
            .field("after", &self.position.after)
            .finish_non_exhaustive()
    }
}

struct PageItems<'p, 'a, T> {
    page: &'p CatalogPage<'a, T>,
    member: &'static str,
}

impl<T: Serialize> Serialize for PageItems<'_, '_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (items, last) = self.page.choose();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(self.member, &items)?;
        self.page.position.write(&mut map, last)?;
        map.end()
    }
}

impl PagePosition {
    /// Returns the cursor of the next page; `last` is the number of the last entry of this page if more follow.
    pub(super) fn next_cursor(&self, last: Option<u64>) -> Option<String> {
        last.map(|number| self.cursors.encode(self.kind, number))
    }

    /// Writes the members that follow the entries in every list result.
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

/// Encodes and checks the cursors of one server.
///
/// A cursor holds the number of the last entry before the page and a check value. The check value rejects cursors that
/// are invented, belong to another list, or come from another version of the server. It needs no secret, because a
/// cursor grants nothing that a request without a cursor would not. Its number tells how many entries were ever registered
/// up to that one, hidden ones included, and nothing about them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CursorCodec {
    salt: u64,
}

impl CursorCodec {
    pub(super) fn new(name: &str, version: &str) -> Self {
        Self { salt: extend_hash(HASH_SEED, name.bytes().chain([0]).chain(version.bytes())) }
    }

    /// Returns the codec for the cursors of something that `subject` names.
    pub(super) fn of_subject(self, subject: &str) -> Self {
        Self { salt: extend_hash(self.salt, subject.bytes()) }
    }

    pub(super) fn encode(self, kind: EntryKind, number: u64) -> String {
        let bytes = [kind as u8].into_iter().chain(number.to_be_bytes());
        let check = extend_hash(self.salt, bytes) >> 32;
        format!("{number:x}.{check:08x}")
    }

    /// Returns the number in a cursor, or `None` if this codec did not make the cursor.
    pub(super) fn decode(self, kind: EntryKind, text: &str) -> Option<u64> {
        let (number, _) = text.split_once('.')?;
        let number = u64::from_str_radix(number, 16).ok()?;
        // Compared as text, so that another spelling of the number is no cursor of this server.
        (self.encode(kind, number) == text).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: PAGE-010, PAGE-011, CACHE-002
    #[test]
    fn cursor_of_other_list_or_server_is_refused() {
        let codec = CursorCodec::new("n", "1");
        let cursor = codec.encode(EntryKind::Tool, 300);
        assert!(cursor.len() < 16, "{cursor}");
        assert_eq!(codec.decode(EntryKind::Tool, &cursor), Some(300));
        assert_eq!(codec.decode(EntryKind::Prompt, &cursor), None);
        assert_eq!(CursorCodec::new("n", "2").decode(EntryKind::Tool, &cursor), None);
        let changed = cursor.replace("12c", "12d");
        let odd = ["", ".", "12c", "0", "é.", "-1.0", "+12c.00000000", "ffffffffffffffffffff.0", &changed];
        for text in
            odd.into_iter().chain([&*cursor.to_uppercase(), &*format!("0{cursor}"), &*format!("{cursor} ")])
        {
            assert!(codec.decode(EntryKind::Tool, text).is_none() || text == cursor, "{text}");
        }
        assert_eq!(CacheHint::private(Duration::MAX).ttl_ms(), i64::MAX);
    }
}
