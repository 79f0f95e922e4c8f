//! Pages of lists as they were written.

use alloc::vec::Vec;

use super::page::{CacheHint, Cursors, Page, Place};
use super::route::Answer;
use crate::server::Prepared;
use crate::version::Version;
use crate::vocab::Kind;

/// Pages of the lists of one router, as text: what has not changed since is not written again
///
/// Apart from the router, so that threads which share one need no lock: each has a cache of its own. Give what comes out
/// to [`Engine::complete_prepared`](crate::server::Engine::complete_prepared), which shares the bytes of large pages.
#[derive(Debug, Default)]
pub struct PageCache {
    /// At most [`MOST`], the last used last
    pages: Vec<(Key, Prepared)>,
}

/// All that a page is made of
#[derive(Clone, PartialEq, Eq, Debug)]
struct Key {
    kind: Kind,
    generation: u64,
    after: u64,
    size: usize,
    cursors: Cursors,
    hint: Option<CacheHint>,
    version: Version,
}

/// How many pages are kept: every list in every revision, and some
const MOST: usize = 32;

impl PageCache {
    /// Empty
    #[must_use]
    pub const fn new() -> Self {
        Self { pages: Vec::new() }
    }

    /// A list in the shape of a revision; none for other answers
    pub fn page(&mut self, version: Version, answer: &Answer<'_>) -> Option<&Prepared> {
        let key = match answer {
            Answer::Tools(page) => Key::of(page, version),
            Answer::Resources(page) => Key::of(page, version),
            Answer::ResourceTemplates(page) => Key::of(page, version),
            Answer::Prompts(page) => Key::of(page, version),
            _ => return None,
        };
        match self.pages.iter().position(|(k, _)| *k == key) {
            // Moved to the end, which is the last place to be taken away.
            Some(at) => self.pages.get_mut(at..)?.rotate_left(1),
            None => {
                let page = Prepared::new(version, answer).ok()?;
                self.pages.retain(|(k, _)| k.kind != key.kind || k.generation == key.generation);
                if self.pages.len() >= MOST {
                    self.pages.remove(0);
                }
                self.pages.push((key, page));
            }
        }
        self.pages.last().map(|(_, page)| page)
    }
}

impl Key {
    fn of<T>(page: &Page<'_, T>, version: Version) -> Self {
        let Page { catalog, place: Place { kind, after, size, cursors, hint } } = *page;
        Self { kind, generation: catalog.generation(), after, size, cursors, hint, version }
    }
}
