//! Which upstreams of a gateway have which resource.

use alloc::collections::{BTreeMap, BTreeSet};

use mcp_proto::EntryKind;

/// Resources and templates that upstreams have listed, by those that have them, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct ResourceOwners {
    resources: Owners,
    templates: Owners,
}

/// Entries of one kind.
#[derive(Debug, Default)]
struct Owners {
    by_uri: BTreeMap<String, Vec<usize>>,
    /// Number of all owners in `by_uri`. Bounded by [`MAX_RESOURCES`] or [`MAX_TEMPLATES`].
    count: usize,
    /// Upstreams whose lists have been read from the beginning.
    begun: BTreeSet<usize>,
    /// Upstreams whose lists have changed since.
    stale: BTreeSet<usize>,
}

impl Owners {
    fn forget(&mut self, upstream: usize) {
        self.by_uri.retain(|_, owners| {
            owners.retain(|owner| *owner != upstream);
            !owners.is_empty()
        });
        self.count = self.by_uri.values().map(Vec::len).sum();
    }
}

impl ResourceOwners {
    fn table(&mut self, kind: EntryKind) -> (&mut Owners, usize) {
        match kind {
            EntryKind::ResourceTemplate => (&mut self.templates, MAX_TEMPLATES),
            _ => (&mut self.resources, MAX_RESOURCES),
        }
    }

    /// Notes the first page of an upstream's list. If it is all of the list, what was listed before a change is forgotten.
    pub(crate) fn begin(&mut self, kind: EntryKind, upstream: usize, is_all: bool) {
        let (table, _) = self.table(kind);
        table.begun.insert(upstream);
        if is_all && table.stale.remove(&upstream) {
            table.forget(upstream);
        }
    }

    /// Notes that an upstream has listed a resource or a template.
    ///
    /// One beyond a bound belongs to everyone: it is not noted, and its calls ask one upstream after the other. So does one of a
    /// page that a client may ask for by a cursor of its own, before the list was read from the beginning.
    pub(crate) fn claim(&mut self, kind: EntryKind, uri: &str, upstream: usize) {
        let (table, bound) = self.table(kind);
        if uri.len() > MAX_URI || table.count >= bound || !table.begun.contains(&upstream) {
            return;
        }
        let owners = table.by_uri.entry(uri.to_owned()).or_default();
        if let Err(at) = owners.binary_search(&upstream) {
            owners.insert(at, upstream);
            table.count += 1;
        }
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
        let begins = |template: &&String| uri.starts_with(literal_prefix(template));
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

    /// Notes that an upstream may not have any more what it has listed. It stays the owner until it lists again.
    pub(crate) fn mark_stale(&mut self, upstream: usize) {
        self.resources.stale.insert(upstream);
        self.templates.stale.insert(upstream);
    }

    /// Forgets an upstream.
    pub(crate) fn forget(&mut self, upstream: usize) {
        for table in [&mut self.resources, &mut self.templates] {
            table.forget(upstream);
            table.begun.remove(&upstream);
            table.stale.remove(&upstream);
        }
    }
}

fn literal_prefix(template: &str) -> &str {
    template.split('{').next().unwrap_or_default()
}

/// Maximum number of resources whose owners are known.
const MAX_RESOURCES: usize = 65_536;
/// Maximum number of templates whose owners are known.
const MAX_TEMPLATES: usize = 1_024;
/// Length in bytes of the longest URI whose owners are known.
const MAX_URI: usize = 4_096;
