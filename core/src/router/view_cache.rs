//! Serialized list pages of views, bounded by number and bytes.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::mem;

/// Maximum number of remembered pages.
pub(super) const MAX_PAGES: usize = 4096;
/// Maximum size of the remembered pages and the names of their views, in bytes.
pub(super) const MAX_BYTES: usize = 8 << 20;

/// Pages `P` by the name of a view and a key `K`.
///
/// Two generations: a page that is used moves to the young one. When that is full, it becomes the old one, and the pages
/// that were not used since the last time are dropped. So at least the pages of half the bounds that were used last are
/// there, and finding one costs no bookkeeping.
pub(super) struct ViewCache<K, P> {
    young: Half<K, P>,
    old: Half<K, P>,
}

/// Invariant: `pages` and `bytes` are the sums over `views`, at most half of the bounds.
struct Half<K, P> {
    views: BTreeMap<Box<str>, Vec<(K, P, usize)>>,
    pages: usize,
    bytes: usize,
}

impl<K, P> Default for Half<K, P> {
    fn default() -> Self {
        Self { views: BTreeMap::new(), pages: 0, bytes: 0 }
    }
}

impl<K, P> Default for ViewCache<K, P> {
    fn default() -> Self {
        Self { young: Half::default(), old: Half::default() }
    }
}

impl<K: PartialEq, P> Half<K, P> {
    fn find(&self, view: &str, key: &K) -> Option<&P> {
        self.views.get(view)?.iter().find(|(k, ..)| k == key).map(|(_, page, _)| page)
    }

    fn take(&mut self, view: &str, key: &K) -> Option<(P, usize)> {
        let pages = self.views.get_mut(view)?;
        let at = pages.iter().position(|(k, ..)| k == key)?;
        let (_, page, bytes) = pages.swap_remove(at);
        if pages.is_empty() {
            self.views.remove(view);
        }
        (self.pages, self.bytes) = (self.pages - 1, self.bytes - bytes);
        Some((page, bytes))
    }

    /// Adds a page, and drops those of its view that are outdated by it.
    fn push(&mut self, view: &str, key: K, page: P, bytes: usize, is_outdated: impl Fn(&K) -> bool) {
        let pages = match self.views.get_mut(view) {
            Some(pages) => pages,
            None => self.views.entry(view.into()).or_default(),
        };
        let (sums, before) = ((&mut self.pages, &mut self.bytes), pages.len());
        pages.retain(|(k, _, bytes)| {
            let keeps = !is_outdated(k);
            *sums.1 -= if keeps { 0 } else { *bytes };
            keeps
        });
        *sums.0 -= before - pages.len();
        pages.push((key, page, bytes));
        (*sums.0, *sums.1) = (*sums.0 + 1, *sums.1 + bytes);
    }
}

impl<K: PartialEq, P> ViewCache<K, P> {
    /// Returns a page.
    pub(super) fn find(&mut self, view: &str, key: K) -> Option<&P> {
        if self.young.find(view, &key).is_none() {
            let (page, bytes) = self.old.take(view, &key)?;
            // Outdated pages of the view are as old as this one.
            self.make_room(bytes);
            self.young.push(view, key, page, bytes, |_| false);
            return self.young.views.get(view)?.last().map(|(_, page, _)| page);
        }
        self.young.find(view, &key)
    }

    /// Adds a page of this size. One that is larger than half of the bound is not kept.
    pub(super) fn insert(
        &mut self,
        view: &str,
        key: K,
        page: P,
        size: usize,
        is_outdated: impl Fn(&K) -> bool,
    ) {
        let bytes = size + view.len() + size_of::<(K, P, usize)>();
        if bytes > MAX_BYTES / 2 {
            return;
        }
        self.old.take(view, &key);
        self.make_room(bytes);
        self.young.push(view, key, page, bytes, is_outdated);
    }

    fn make_room(&mut self, bytes: usize) {
        if self.young.pages >= MAX_PAGES / 2 || self.young.bytes + bytes > MAX_BYTES / 2 {
            self.old = mem::take(&mut self.young);
        }
    }
}

impl<K, P> fmt::Debug for ViewCache<K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pages, bytes) = (self.young.pages + self.old.pages, self.young.bytes + self.old.bytes);
        f.debug_struct("ViewCache").field("pages", &pages).field("bytes", &bytes).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;
    use alloc::format;
    use alloc::string::String;

    impl<K, P> ViewCache<K, P> {
        fn check_sums(&self) {
            for half in [&self.young, &self.old] {
                let pages = || half.views.values().flatten();
                assert_eq!((half.pages, half.bytes), (pages().count(), pages().map(|(.., n)| n).sum()));
                assert!(half.pages <= MAX_PAGES / 2 && half.bytes <= MAX_BYTES / 2);
                assert!(half.views.values().all(|pages| !pages.is_empty()));
            }
        }
    }

    #[test]
    fn pages_that_are_used_stay_within_the_bounds() {
        let (mut cache, mut rng) = (ViewCache::<u64, String>::default(), Rng::new(11));
        let name = |view: usize| format!("view {view}");
        for step in 0..10_000_u64 {
            let view = name(rng.below(3_000));
            let size = if rng.below(50) == 0 { 100_000 } else { rng.below(4_000) };
            if cache.find(&view, step % 3).is_none_or(|page| *page != format!("{view} {}", step % 3)) {
                cache.insert(&view, step % 3, format!("{view} {}", step % 3), size, |_| false);
            }
            // A page that is used every time is never dropped.
            if step > 0 {
                assert_eq!(cache.find("always", 7).map(|page| &**page), Some("kept"), "step {step}");
            } else {
                cache.insert("always", 7, "kept".into(), 10, |_| false);
            }
            if step % 200 == 0 {
                cache.check_sums();
            }
        }
        assert!(cache.old.pages > 0, "the bounds were not reached");
        cache.insert("large", 1, String::new(), MAX_BYTES, |_| false);
        assert!(cache.find("large", 1).is_none());
        cache.insert("always", 8, "next".into(), 10, |key| *key == 7);
        assert!(cache.find("always", 7).is_none() && cache.find("always", 8).is_some());
        cache.check_sums();
    }
}
