//! How the pages of a list hang together, and where following them ends.

use alloc::string::String;
use alloc::vec::Vec;

use crate::error::CallError;
use crate::raw::RawJson;
use crate::rpc::code;
use crate::vocab::Kind;

/// One page of a list
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The entries, as they came
    pub entries: Vec<RawJson>,
    /// Where the next page begins; none on the last one
    pub next: Option<String>,
}

impl Page {
    /// The entries of a result and the cursor of the next page; an empty cursor is one too (PAGE-004, PAGE-007)
    ///
    /// None when the result holds no such list.
    #[must_use]
    pub fn of(kind: Kind, result: &RawJson) -> Option<Self> {
        let entries = result.member(kind.member())?.elements()?;
        Some(Self { entries, next: result.member("nextCursor").and_then(|c| c.string()) })
    }
}

/// Follows the pages of one list to its end, or to what looks endless (PAGE-012)
///
/// Ask for the page at [`cursor`](Self::cursor) and hand its result to [`take`](Self::take), until that says that it was
/// the last: the list has ended, a cursor came again, or there were [`MAX`](Self::MAX) pages or more bytes than allowed.
/// What came before counts all the same.
#[derive(Clone, Debug)]
pub struct Pages {
    kind: Kind,
    /// The cursors that were asked for, besides none; the one that is asked for now is the last
    cursors: Vec<String>,
    entries: Vec<RawJson>,
    /// Bytes that results may still have
    left: usize,
    max_bytes: usize,
    /// One of the pages was asked for before (CACHE-018)
    kept: bool,
}

impl Pages {
    /// Pages that are asked for at most
    pub const MAX: usize = 1_000;

    /// From the beginning, over results of `max_bytes` together; the one that goes beyond is the last
    #[must_use]
    pub const fn new(kind: Kind, max_bytes: usize) -> Self {
        Self { kind, cursors: Vec::new(), entries: Vec::new(), left: max_bytes, max_bytes, kept: false }
    }

    /// Which list it is
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// What the next page is asked for with; none for the first (PAGE-005, PAGE-008)
    #[must_use]
    pub fn cursor(&self) -> Option<&str> {
        self.cursors.last().map(|cursor| &**cursor)
    }

    /// Takes a result for [`cursor`](Self::cursor) that was kept from before ([`Cache`](super::Cache)); otherwise as
    /// [`take`](Self::take)
    ///
    /// # Errors
    ///
    /// The result holds no such list.
    pub fn take_kept(&mut self, result: &RawJson) -> Result<bool, NoList> {
        self.kept = true;
        self.take(result)
    }

    /// Whether to begin anew after the request for a page has failed: its cursor is refused, and it may be so because
    /// pages were kept for too long (CACHE-018)
    ///
    /// Then everything taken so far is gone, what is kept of this list is of no use, and it is true once.
    pub fn start_over(&mut self, error: &CallError) -> bool {
        let refused = matches!(error, CallError::Rpc(error) if error.code == code::INVALID_PARAMS);
        let again = refused && self.kept && !self.cursors.is_empty();
        if again {
            *self = Self::new(self.kind, self.max_bytes);
        }
        again
    }

    /// Takes the result for [`cursor`](Self::cursor); whether there is another page to ask for
    ///
    /// # Errors
    ///
    /// The result holds no such list.
    pub fn take(&mut self, result: &RawJson) -> Result<bool, NoList> {
        let page = Page::of(self.kind, result).ok_or(NoList(self.kind))?;
        self.entries.extend(page.entries);
        let left = self.left.checked_sub(result.as_bytes().len());
        self.left = left.unwrap_or(0);
        let more = self.cursors.len() + 1 < Self::MAX && left.is_some();
        match page.next.filter(|next| more && !self.cursors.contains(next)) {
            Some(next) => {
                self.cursors.push(next);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// All entries so far, as they came
    #[must_use]
    pub fn into_entries(self) -> Vec<RawJson> {
        self.entries
    }
}

/// A result holds no list of the kind that was asked for
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer holds no list `{}`", .0.member())]
pub struct NoList(pub Kind);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::RpcError;
    use alloc::format;

    // covers: PAGE-011, CACHE-018
    #[test]
    fn a_cursor_that_was_kept_for_too_long_is_no_end() {
        let page = raw(r#"{"tools":[1],"nextCursor":"a"}"#);
        let refused = CallError::Rpc(RpcError::invalid_params("no such cursor"));
        let mut pages = Pages::new(Kind::Tool, 1 << 20);
        assert_eq!(pages.take_kept(&page), Ok(true));
        assert!(!pages.start_over(&CallError::TimedOut) && pages.start_over(&refused));
        assert_eq!((pages.cursor(), pages.clone().into_entries().len()), (None, 0));
        assert!(!pages.start_over(&refused), "once");
        assert_eq!(pages.take(&page), Ok(true));
        assert!(!pages.start_over(&refused), "the server has just given it");
    }

    fn raw(text: impl Into<String>) -> RawJson {
        RawJson::new(text.into()).expect("JSON")
    }

    // covers: PAGE-003, PAGE-004, PAGE-007
    #[test]
    fn presence_of_a_cursor_decides_not_its_content() {
        let page = |text: &'static str| Page::of(Kind::Tool, &raw(text));
        let Page { entries: tools, next } =
            page(r#"{"tools":[{"name":"a"}, 1],"nextCursor":""}"#).expect("a page");
        assert_eq!((tools.len(), tools[0].as_str(), next.as_deref()), (2, r#"{"name":"a"}"#, Some("")));
        assert_eq!(page(r#"{"tools":[]}"#).expect("a page").next, None);
        assert!(page(r#"{"prompts":[]}"#).is_none() && page(r#"{"tools":{}}"#).is_none());
        // What is no string is no cursor.
        assert_eq!(page(r#"{"tools":[],"nextCursor":7}"#).expect("a page").next, None);
    }

    // covers: PAGE-005, PAGE-008, PAGE-012
    #[test]
    fn pages_are_followed_to_their_end_and_not_beyond() {
        let page = |next: &str| raw(format!(r#"{{"tools":[1],"nextCursor":"{next}"}}"#));
        let mut pages = Pages::new(Kind::Tool, 1 << 20);
        assert_eq!(pages.cursor(), None);
        assert_eq!(pages.take(&page("")), Ok(true));
        assert_eq!(pages.cursor(), Some(""));
        assert_eq!(pages.take(&page("a")), Ok(true));
        assert_eq!(pages.take(&raw(r#"{"prompts":[]}"#)), Err(NoList(Kind::Tool)));
        assert_eq!(pages.cursor(), Some("a"));
        assert_eq!(pages.take(&page("")), Ok(false), "it comes again");
        assert_eq!(pages.into_entries().len(), 3);

        let mut pages = Pages::new(Kind::Tool, 1 << 20);
        let asked = (1..).find(|n| !pages.take(&page(&format!("{n}"))).expect("a page"));
        assert_eq!((asked, pages.into_entries().len()), (Some(Pages::MAX), Pages::MAX));

        let mut pages = Pages::new(Kind::Tool, 2 * page("1").as_bytes().len());
        let asked = (1..).find(|n| !pages.take(&page(&format!("{n}"))).expect("a page"));
        assert_eq!((asked, pages.into_entries().len()), (Some(3), 3), "the one that is too much counts");
    }
}
