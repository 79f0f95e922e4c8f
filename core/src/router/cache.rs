//! Cache of serialized list pages.

use alloc::vec::Vec;

use super::page::{CacheHint, CatalogPage, CursorCodec, PagePosition};
use super::route::RouterAnswer;
use crate::methods::EntryKind;
use crate::server::PreparedResult;
use crate::version::Version;

/// Serialized pages of the lists of one router; an unchanged page is not serialized again.
///
/// The cache is separate from the router, so that threads can share a router without a lock: each has its own cache.
/// Pass a page to [`Engine::complete_prepared`](crate::server::Engine::complete_prepared), which shares the bytes of
/// large pages.
#[derive(Debug, Default)]
pub struct PageCache {
    /// At most [`MAX_PAGES`] pages, the most recently used last.
    pages: Vec<(PageKey, PreparedResult)>,
}

/// Everything that determines the bytes of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
struct PageKey {
    kind: EntryKind,
    generation: u64,
    after: u64,
    size: usize,
    cursors: CursorCodec,
    hint: Option<CacheHint>,
    version: Version,
}

/// Maximum number of cached pages: each list in each revision, and a reserve.
const MAX_PAGES: usize = 32;

impl PageCache {
    /// Creates an empty cache.
    #[must_use]
    pub const fn new() -> Self {
        Self { pages: Vec::new() }
    }

    /// Returns a list page in the shape of a revision, or `None` if the answer is not a list.
    pub fn page(&mut self, version: Version, answer: &RouterAnswer<'_>) -> Option<&PreparedResult> {
        let key = match answer {
            RouterAnswer::Tools(page) => PageKey::new(page, version),
            RouterAnswer::Resources(page) => PageKey::new(page, version),
            RouterAnswer::ResourceTemplates(page) => PageKey::new(page, version),
            RouterAnswer::Prompts(page) => PageKey::new(page, version),
            _ => return None,
        };
        match self.pages.iter().position(|(k, _)| *k == key) {
            // Moved to the end, because eviction takes the first page.
            Some(at) => self.pages.get_mut(at..)?.rotate_left(1),
            None => {
                let page = PreparedResult::new(version, answer).ok()?;
                self.pages.retain(|(k, _)| k.kind != key.kind || k.generation == key.generation);
                if self.pages.len() >= MAX_PAGES {
                    self.pages.remove(0);
                }
                self.pages.push((key, page));
            }
        }
        self.pages.last().map(|(_, page)| page)
    }
}

impl PageKey {
    fn new<T>(page: &CatalogPage<'_, T>, version: Version) -> Self {
        let CatalogPage { catalog, position: PagePosition { kind, after, size, cursors, hint } } = *page;
        Self { kind, generation: catalog.generation(), after, size, cursors, hint, version }
    }
}
