//! Cache of serialized list pages.

use alloc::vec::Vec;

use super::page::{CacheHint, CatalogPage, CursorCodec, PagePosition, Selection};
use super::route::RouterAnswer;
use super::visibility::ViewCache;
use crate::methods::EntryKind;
use crate::server::PreparedResult;
use crate::version::Version;

/// Serialized pages of the lists of one router; an unchanged page is not serialized again.
///
/// The cache is separate from the router, so that threads can share a router without a lock: each has its own cache.
/// Pass a page to [`Engine::complete_prepared`](crate::server::Engine::complete_prepared), which shares the bytes of
/// large pages.
///
/// Pages that everyone sees are at most 32. Pages of [views](super::Visibility#views) are at most 4,096, and 8 MiB; those
/// that were used least recently are dropped. Pages of callers without a view are not remembered.
#[derive(Debug, Default)]
pub struct PageCache {
    /// At most [`MAX_PAGES`] pages, the most recently used last.
    pages: Vec<(PageKey, PreparedResult)>,
    views: ViewCache<PageKey, PreparedResult>,
}

/// The value of `$page_value` if an answer is a page of a list, whatever the type of its entries.
macro_rules! of_page {
    ($answer:ident, $page:ident => $page_value:expr, else $other:expr) => {
        match $answer {
            RouterAnswer::Tools($page) => $page_value,
            RouterAnswer::Resources($page) => $page_value,
            RouterAnswer::ResourceTemplates($page) => $page_value,
            RouterAnswer::Prompts($page) => $page_value,
            _ => $other,
        }
    };
}

/// Everything that determines the bytes of a page, except for its view.
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

impl PageKey {
    /// Returns whether this key belongs to an earlier state of the list of another one.
    fn is_outdated_by(&self, other: &Self) -> bool {
        self.kind == other.kind && self.generation != other.generation
    }
}

/// Maximum number of cached pages: each list in each revision, and a reserve.
const MAX_PAGES: usize = 32;

impl PageCache {
    /// Creates an empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a list page in the shape of a revision, or `None` if the answer is not a list, or must not be remembered.
    pub fn page(&mut self, version: Version, answer: &RouterAnswer<'_>) -> Option<&PreparedResult> {
        if self.find(version, answer).is_none() {
            let page = Self::prepare(version, answer)?;
            if !Self::may_insert(answer) {
                return None;
            }
            self.insert(version, answer, page);
        }
        self.find(version, answer)
    }

    /// Returns a page that is remembered.
    ///
    /// With [`prepare`](Self::prepare), [`may_insert`](Self::may_insert) and [`insert`](Self::insert) it does what
    /// [`page`](Self::page) does, for a cache that threads share: functions of the application run in `prepare` and
    /// `may_insert`, without the lock.
    pub fn find(&mut self, version: Version, answer: &RouterAnswer<'_>) -> Option<&PreparedResult> {
        match PageKey::new(version, answer)? {
            (key, None) => {
                let at = self.pages.iter().position(|(k, _)| *k == key)?;
                // Moved to the end, because eviction takes the first page.
                self.pages.get_mut(at..)?.rotate_left(1);
                self.pages.last().map(|(_, page)| page)
            }
            (key, Some(view)) => self.views.find(view, key),
        }
    }

    /// Serializes a list page; `None` if the answer is not a list, must not be remembered, or cannot be serialized.
    #[must_use]
    pub fn prepare(version: Version, answer: &RouterAnswer<'_>) -> Option<PreparedResult> {
        PageKey::new(version, answer)?;
        PreparedResult::new(version, answer).ok()
    }

    /// Returns whether a page that was [prepared](Self::prepare) may be remembered: its caller has not got another view
    /// meanwhile, so that it is a page of that view.
    #[must_use]
    pub fn may_insert(answer: &RouterAnswer<'_>) -> bool {
        of_page!(answer, page => page.is_current(), else false)
    }

    /// Remembers a page.
    pub fn insert(&mut self, version: Version, answer: &RouterAnswer<'_>, page: PreparedResult) {
        match PageKey::new(version, answer) {
            Some((key, None)) => {
                // No request can ask for a page of an earlier state of the list.
                self.pages.retain(|(k, _)| *k != key && !k.is_outdated_by(&key));
                if self.pages.len() >= MAX_PAGES {
                    self.pages.remove(0);
                }
                self.pages.push((key, page));
            }
            Some((key, Some(view))) => {
                let (size, other) = (page.text().as_bytes().len(), key.clone());
                self.views
                    .insert(view, key, page, size, |known| *known == other || known.is_outdated_by(&other));
            }
            None => {}
        }
    }
}

impl PageKey {
    /// Returns the key of a list page, and the name of its view; `None` if it must not be remembered.
    fn new<'a>(version: Version, answer: &'a RouterAnswer<'_>) -> Option<(Self, Option<&'a str>)> {
        of_page!(answer, page => Self::of_page(version, page), else None)
    }

    fn of_page<'a, T>(version: Version, page: &'a CatalogPage<'_, T>) -> Option<(Self, Option<&'a str>)> {
        let CatalogPage { catalog, position: PagePosition { kind, after, size, cursors, hint }, selection } =
            page;
        let view = match selection {
            Selection::All => None,
            // Without the name of a view, the same caller may see other entries at the next request.
            Selection::Chosen(..) => return None,
            Selection::OfView(viewer) => Some(&*viewer.view),
        };
        let key = Self {
            kind: *kind,
            generation: catalog.generation(),
            after: *after,
            size: *size,
            cursors: *cursors,
            hint: *hint,
            version,
        };
        Some((key, view))
    }
}
