//! Which upstream of a gateway has which resource.

use alloc::collections::BTreeMap;

use mcp_proto::EntryKind;

/// Resources and templates that upstreams have listed, by their owners.
///
/// If two list the same URI, it belongs to the one that was added first.
#[derive(Debug, Default)]
pub(crate) struct ResourceOwners {
    /// Bounded by [`MAX_RESOURCES`].
    resources: BTreeMap<String, usize>,
    /// Bounded by [`MAX_TEMPLATES`].
    templates: BTreeMap<String, usize>,
}

impl ResourceOwners {
    /// Notes that an upstream has listed a resource or a template. Returns whether it belongs to this upstream.
    ///
    /// One beyond the bound belongs to everyone: it is not noted, and its calls ask one upstream after the other.
    pub(crate) fn claim(&mut self, kind: EntryKind, uri: &str, upstream: usize) -> bool {
        let (table, bound) = match kind {
            EntryKind::ResourceTemplate => (&mut self.templates, MAX_TEMPLATES),
            _ => (&mut self.resources, MAX_RESOURCES),
        };
        let owner = table.get(uri).copied();
        if owner.is_none_or(|owner| upstream < owner) && (owner.is_some() || table.len() < bound) {
            table.insert(uri.to_owned(), upstream);
        }
        owner.is_none_or(|owner| upstream <= owner)
    }

    /// Returns the owner of a resource: of the URI, or of the template with the longest text before its first expression.
    pub(crate) fn of_resource(&self, uri: &str) -> Option<usize> {
        self.resources.get(uri).copied().or_else(|| {
            let begins = |template: &&String| uri.starts_with(literal_prefix(template));
            // An expression right at the beginning would take everything.
            let named = self.templates.iter().filter(|(text, _)| !literal_prefix(text).is_empty());
            let found = named.filter(|(template, _)| begins(template));
            let longest = found.max_by_key(|(template, owner)| {
                (literal_prefix(template).len(), core::cmp::Reverse(**owner))
            });
            longest.map(|(_, owner)| *owner)
        })
    }

    /// Returns the owner of a template, or of a resource of this URI.
    pub(crate) fn of_template(&self, template: &str) -> Option<usize> {
        self.templates.get(template).copied().or_else(|| self.of_resource(template))
    }

    /// Forgets what an upstream has listed.
    pub(crate) fn forget(&mut self, upstream: usize) {
        self.resources.retain(|_, owner| *owner != upstream);
        self.templates.retain(|_, owner| *owner != upstream);
    }
}

fn literal_prefix(template: &str) -> &str {
    template.split('{').next().unwrap_or_default()
}

/// Maximum number of resources whose owners are known.
const MAX_RESOURCES: usize = 65_536;
/// Maximum number of templates whose owners are known.
const MAX_TEMPLATES: usize = 1_024;
