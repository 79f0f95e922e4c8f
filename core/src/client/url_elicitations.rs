//! Ids of elicitations by URL that may be completed (2025-11-25; ELIC-025 to ELIC-028).

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::slab::list::{List, ListLinks, ListNode};
use crate::slab::{Key, Slab};

/// Ids of elicitations by URL; the oldest are evicted.
///
/// Invariant: `by_id` and `order` hold exactly the ids in `ids`.
#[derive(Debug, Default)]
pub(super) struct UrlElicitations {
    ids: Slab<ElicitationId>,
    /// Sorted by the ids.
    by_id: Vec<(Box<str>, Key)>,
    /// From the oldest to the newest.
    order: List,
}

#[derive(Debug)]
struct ElicitationId {
    id: Box<str>,
    links: ListLinks,
}

impl ListNode for ElicitationId {
    fn list_links(&self) -> ListLinks {
        self.links
    }

    fn set_list_links(&mut self, links: ListLinks) {
        self.links = links;
    }
}

impl UrlElicitations {
    pub(super) const fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the position of an id among the sorted ones, or the one that it would have.
    fn position(&self, id: &str) -> Result<usize, usize> {
        self.by_id.binary_search_by(|(known, _)| (**known).cmp(id))
    }

    /// Remembers an id, up to `max` of them. A known id keeps its place.
    pub(super) fn remember(&mut self, id: &str, max: usize) {
        if self.position(id).is_ok() {
            return;
        }
        if self.ids.len() >= max {
            if let Some(oldest) = self.order.first(&self.ids).and_then(|key| self.ids.get(key)) {
                let id = oldest.id.clone();
                self.take(&id);
            }
        }
        let key = self.ids.insert(ElicitationId { id: id.into(), links: ListLinks::NONE });
        let at = self.position(id).unwrap_or_else(|at| at);
        self.by_id.insert(at, (id.into(), key));
        self.order.push(&mut self.ids, key);
    }

    /// Forgets an id and returns it, or `None` if it is unknown.
    pub(super) fn take(&mut self, id: &str) -> Option<Box<str>> {
        let (_, key) = self.by_id.remove(self.position(id).ok()?);
        self.order.remove(&mut self.ids, key);
        self.ids.remove(key).map(|known| known.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    // covers: ELIC-027
    #[test]
    fn id_is_completed_once_and_the_oldest_is_evicted() {
        let mut known = UrlElicitations::default();
        for n in 0..5 {
            known.remember(&format!("e{n}"), 3);
        }
        known.remember("e2", 3);
        assert_eq!(["e0", "e1", "e5"].map(|id| known.take(id)), [None, None, None]);
        assert_eq!(known.take("e3").as_deref(), Some("e3"));
        assert_eq!(known.take("e3"), None);
        known.remember("e6", 3);
        known.remember("e7", 3);
        assert_eq!(known.take("e2"), None, "it was the oldest");
        assert!(["e4", "e6", "e7"].iter().all(|id| known.take(id).is_some()) && known.is_empty());
    }
}
