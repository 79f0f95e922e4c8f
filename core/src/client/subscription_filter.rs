//! Parts of a subscription filter: flags of lists, and URIs of resources.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::model::SubscriptionFilter;

/// Lists that can change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ListFlags {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
}

impl ListFlags {
    pub(super) fn from_filter(filter: &SubscriptionFilter) -> Self {
        let is = |flag: Option<bool>| flag == Some(true);
        Self {
            tools: is(filter.tools_list_changed),
            prompts: is(filter.prompts_list_changed),
            resources: is(filter.resources_list_changed),
        }
    }

    /// Returns the flags in the order of the lists.
    pub(super) const fn as_array(self) -> [bool; 3] {
        [self.tools, self.prompts, self.resources]
    }

    pub(super) const fn intersection(self, other: Self) -> Self {
        Self {
            tools: self.tools && other.tools,
            prompts: self.prompts && other.prompts,
            resources: self.resources && other.resources,
        }
    }
}

/// Returns the resources of a filter, sorted and without duplicates.
pub(super) fn sorted_uris(filter: &SubscriptionFilter) -> Vec<Box<str>> {
    let given = filter.resource_subscriptions.iter().flatten();
    let mut uris: Vec<Box<str>> = given.map(|uri| Box::from(&**uri)).collect();
    uris.sort_unstable();
    uris.dedup();
    uris
}

/// Returns whether `uri` is the resource or a part of it (RES-011).
pub(super) fn covers(resource: &str, uri: &str) -> bool {
    uri.starts_with(resource) && is_covered_by_prefix(uri, resource.len())
}

/// Returns whether `uri` is the resource whose URI is its first `end` bytes, or a part of it.
pub(super) fn is_covered_by_prefix(uri: &str, end: usize) -> bool {
    let (prefix, rest) = uri.as_bytes().split_at_checked(end).unwrap_or_default();
    rest.is_empty() || prefix.ends_with(b"/") || matches!(rest, [b'/' | b'?' | b'#', ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: RES-011
    #[test]
    fn resource_covers_only_itself_and_its_parts() {
        for within in ["a:b", "a:b/c", "a:b?c", "a:b#c"] {
            assert!(covers("a:b", within), "{within}");
        }
        for other in ["a:", "a:bc", "a:c", "", "x/a:b"] {
            assert!(!covers("a:b", other), "{other}");
        }
        assert!(covers("a:b/", "a:b/c") && !covers("a:b/", "a:b"));
    }
}
