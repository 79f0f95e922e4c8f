//! Which upstreams of a gateway have which resource, and which have the tools and prompts whose names clients know in a shorter form.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use core::ops::Bound;

use mcp_proto::EntryKind;

use super::names;

/// Which upstreams have listed an entry, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct EntryOwners {
    resources: Owners,
    templates: Owners,
    /// Tools and prompts with long names, by these and the names of their upstreams.
    tools: Owners,
    prompts: Owners,
}

/// Entries of one kind.
#[derive(Debug, Default)]
struct Owners {
    /// Bounded by [`MAX_RESOURCES`], [`MAX_TEMPLATES`] or [`MAX_NAMES`] owners, while no page is read.
    by_uri: BTreeMap<Arc<str>, Vec<usize>>,
    /// Upstreams whose lists have been read from the beginning.
    listed: BTreeMap<usize, Listed>,
    /// Number of the page that is being read.
    page: u64,
    /// Whether that is all of its list, so that what was listed before makes room.
    is_all: bool,
    /// Number of entries for which there is room on this page.
    room: usize,
    /// Whether owners have changed since this was asked last.
    has_changed: bool,
}

/// What one upstream has listed.
#[derive(Debug, Default)]
struct Listed {
    /// Its entries, with the page on which each was read last.
    entries: BTreeMap<Arc<str>, u64>,
    /// Clients that read its list page by page, oldest first. Bounded by [`MAX_WALKS`].
    walks: VecDeque<Walk>,
}

/// A list that is read page by page.
#[derive(Debug)]
struct Walk {
    first_page: u64,
    /// Cursor of the next page.
    next: String,
}

impl Owners {
    /// Forgets the entries of an upstream that were read last before a page.
    fn forget(&mut self, upstream: usize, before: u64) {
        let Some(listed) = self.listed.get_mut(&upstream) else { return };
        let gone: Vec<Arc<str>> =
            listed.entries.iter().filter(|(_, page)| **page < before).map(|(uri, _)| uri.clone()).collect();
        for uri in gone {
            listed.entries.remove(&uri);
            let Some(owners) = self.by_uri.get_mut(&uri) else { continue };
            owners.retain(|owner| *owner != upstream);
            if owners.is_empty() {
                self.by_uri.remove(&uri);
            }
            self.has_changed = true;
        }
    }

    /// Returns the number of entries for which an upstream has room beside `own`. Half of the table is kept for all, in equal shares.
    fn room_of(&self, upstream: usize, own: usize, upstreams: usize, bound: usize) -> usize {
        let share = bound / 2 / upstreams.max(1);
        let others = self.listed.iter().filter(|(other, _)| **other != upstream);
        let others = others.map(|(_, listed)| listed.entries.len());
        let (used, within_share) =
            others.fold((0, 0), |(used, within), count| (used + count, within + count.min(share)));
        let kept = (share * upstreams.saturating_sub(1)).saturating_sub(within_share);
        let free = bound.saturating_sub(used + own);
        share.saturating_sub(own).min(free).max(free.saturating_sub(kept))
    }
}

impl EntryOwners {
    fn all(&mut self) -> [&mut Owners; 4] {
        [&mut self.resources, &mut self.templates, &mut self.tools, &mut self.prompts]
    }

    fn table(&mut self, kind: EntryKind) -> (&mut Owners, usize) {
        match kind {
            EntryKind::Tool => (&mut self.tools, MAX_NAMES),
            EntryKind::Prompt => (&mut self.prompts, MAX_NAMES),
            EntryKind::ResourceTemplate => (&mut self.templates, MAX_TEMPLATES),
            _ => (&mut self.resources, MAX_RESOURCES),
        }
    }

    /// Begins to read a page of an upstream's list.
    ///
    /// `upstreams`: the number of those that share the table.
    pub(crate) fn begin_page(&mut self, kind: EntryKind, upstream: usize, upstreams: usize, page: Page<'_>) {
        let (table, bound) = self.table(kind);
        table.page += 1;
        if page.cursor.is_none() {
            table.listed.entry(upstream).or_default();
        }
        table.is_all = page.cursor.is_none() && page.next.is_none();
        let listed = table.listed.get(&upstream).filter(|_| !table.is_all);
        let own = listed.map_or(0, |listed| listed.entries.len());
        table.room = table.room_of(upstream, own, upstreams, bound);
    }

    /// Ends to read a page. If it is the last one of a list that was read from the beginning, the entries that were on none of its
    /// pages are forgotten.
    pub(crate) fn end_page(&mut self, kind: EntryKind, upstream: usize, page: Page<'_>) {
        let (table, _) = self.table(kind);
        let Some(listed) = table.listed.get_mut(&upstream) else { return };
        let walk = match page.cursor {
            None => Some(Walk { first_page: table.page, next: String::new() }),
            Some(cursor) => {
                let at = listed.walks.iter().position(|walk| walk.next == cursor);
                at.and_then(|at| listed.walks.remove(at))
            }
        };
        let Some(mut walk) = walk else { return };
        let Some(next) = page.next else { return table.forget(upstream, walk.first_page) };
        next.clone_into(&mut walk.next);
        if listed.walks.len() >= MAX_WALKS {
            listed.walks.pop_front();
        }
        listed.walks.push_back(walk);
    }

    /// Notes that an upstream has listed an entry on the page that is being read, and returns whether it is known then. Of tools and
    /// prompts it is the whole name, if that is too long for clients.
    ///
    /// One beyond a bound belongs to everyone: it is not noted, and its calls ask one upstream after the other. So does one of a
    /// page that a client may ask for by a cursor of its own, before the list was read from the beginning.
    pub(crate) fn claim(&mut self, kind: EntryKind, uri: &str, upstream: usize) -> bool {
        let is_named = matches!(kind, EntryKind::Tool | EntryKind::Prompt);
        let (table, _) = self.table(kind);
        let is_kept = uri.len() <= MAX_URI && (!is_named || names::shortened(uri).is_some());
        let Some(listed) = table.listed.get_mut(&upstream).filter(|_| is_kept) else { return false };
        let known = listed.entries.get_mut(uri);
        if known.as_ref().is_some_and(|page| **page == table.page) {
            return true;
        }
        if known.is_none() || table.is_all {
            let Some(room) = table.room.checked_sub(1) else { return false };
            table.room = room;
        }
        if let Some(page) = known {
            *page = table.page;
            return true;
        }
        table.has_changed = true;
        let uri: Arc<str> = uri.into();
        listed.entries.insert(uri.clone(), table.page);
        let owners = table.by_uri.entry(uri).or_default();
        if let Err(at) = owners.binary_search(&upstream) {
            owners.insert(at, upstream);
        }
        true
    }

    /// Returns the whole name of a tool or prompt that clients know by a shorter one.
    pub(crate) fn full_name(&self, kind: EntryKind, shown: &str) -> Option<String> {
        let table = if kind == EntryKind::Tool { &self.tools } else { &self.prompts };
        let (kept, _) = shown.rsplit_once('_')?;
        let from = table.by_uri.range::<str, _>((Bound::Included(kept), Bound::Unbounded));
        let mut alike = from.map(|(name, _)| name).take_while(|name| name.starts_with(kept));
        alike.find(|name| names::shortened(name).as_deref() == Some(shown)).map(|name| (**name).to_owned())
    }

    /// Returns the upstreams that have listed exactly this.
    pub(crate) fn of_entry(&self, kind: EntryKind, uri: &str) -> &[usize] {
        let table = if kind == EntryKind::ResourceTemplate { &self.templates } else { &self.resources };
        table.by_uri.get(uri).map_or(&[], |owners| owners)
    }

    /// Returns the owners of a resource: of the URI, or of the template with the longest text before its first expression.
    pub(crate) fn of_resource(&self, uri: &str) -> &[usize] {
        let exact = self.of_entry(EntryKind::Resource, uri);
        if !exact.is_empty() {
            return exact;
        }
        let begins = |template: &str| uri.starts_with(literal_prefix(template));
        // An expression right at the beginning would take everything.
        let named = self.templates.by_uri.iter().filter(|(text, _)| !literal_prefix(text).is_empty());
        let found = named.filter(|(template, _)| begins(template));
        let longest = found.max_by_key(|(template, owners)| {
            (literal_prefix(template).len(), core::cmp::Reverse(owners.first().copied()))
        });
        longest.map_or(&[], |(_, owners)| owners)
    }

    /// Returns the owners of a template, or of a resource of this URI.
    pub(crate) fn of_template(&self, template: &str) -> &[usize] {
        let exact = self.of_entry(EntryKind::ResourceTemplate, template);
        if exact.is_empty() { self.of_resource(template) } else { exact }
    }

    /// Returns whether anything has got other owners since the last call.
    pub(crate) const fn take_changed(&mut self) -> bool {
        let has_changed = self.resources.has_changed || self.templates.has_changed;
        (self.resources.has_changed, self.templates.has_changed) = (false, false);
        has_changed
    }

    /// Notes that an upstream's lists have changed: the pages that were read before are not of one list with those after. It
    /// stays the owner of what it has listed until it lists again.
    pub(crate) fn note_change(&mut self, upstream: usize) {
        for table in self.all() {
            if let Some(listed) = table.listed.get_mut(&upstream) {
                listed.walks.clear();
            }
        }
    }

    /// Forgets an upstream.
    pub(crate) fn forget(&mut self, upstream: usize) {
        for table in self.all() {
            table.forget(upstream, u64::MAX);
            table.listed.remove(&upstream);
        }
    }
}

/// Place of a page in the list of an upstream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    /// Cursor of the page; `None` for the first one.
    pub(crate) cursor: Option<&'a str>,
    /// Cursor of the next page; `None` for the last one.
    pub(crate) next: Option<&'a str>,
}

fn literal_prefix(template: &str) -> &str {
    template.split('{').next().unwrap_or_default()
}

/// Maximum number of resources whose owners are known. An upstream finds room for its share of one half, whatever others list.
const MAX_RESOURCES: usize = 65_536;
/// Maximum number of templates whose owners are known, of which upstreams have shares as of resources.
const MAX_TEMPLATES: usize = 1_024;
/// Maximum number of tools, and of prompts, whose names are known because they are long, of which upstreams have shares as of resources.
const MAX_NAMES: usize = 2_048;
/// Maximum number of clients whose walks through the pages of a list are known, for each upstream.
const MAX_WALKS: usize = 16;
/// Length in bytes of the longest URI or name whose owners are known.
const MAX_URI: usize = 4_096;
