//! Pagination of lists.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::time::Duration;

use crate::diagnostic::Diagnostic;
use crate::error::CallError;
use crate::methods::EntryKind;
use crate::model::ListItem;
use crate::raw::RawJson;
use crate::rpc::{clip_to, code};
use crate::time::Instant;

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResultPage {
    /// The entries, as received.
    pub entries: Vec<RawJson>,
    /// Cursor of the next page; `None` on the last page.
    pub next_cursor: Option<String>,
}

impl ResultPage {
    /// Reads the entries and the cursor of the next page from a result (PAGE-004, PAGE-007).
    ///
    /// An empty string is a cursor, too.
    ///
    /// Returns `None` if the result has no such list.
    #[must_use]
    pub fn from_result(kind: EntryKind, result: &RawJson) -> Option<Self> {
        let entries = result.member(kind.list_member())?.elements()?;
        Some(Self { entries, next_cursor: result.member("nextCursor").and_then(|c| c.string()) })
    }
}

/// The times at which a list is read again because it has changed.
///
/// A change after a quiet minute is read at once. While changes go on, pauses grow from 1 s to 1 min: a server that announces a change
/// after each read is read 7 times in the first minute, and once in each minute after it.
///
/// ```
/// use mcp_proto::Instant;
/// use mcp_proto::client::ListPace;
///
/// let (mut pace, now) = (ListPace::default(), Instant::ZERO);
/// // It is read, has changed, and is read again.
/// pace.note_read(now);
/// assert!(pace.earliest() <= now);
/// pace.note_read(now);
/// assert!(pace.earliest() > now);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ListPace {
    /// Time of the next read, and the pause before it; `None` before the first read.
    next: Option<(Instant, Duration)>,
}

impl ListPace {
    /// Returns the earliest time at which a list that has changed is read again.
    #[must_use]
    pub fn earliest(&self) -> Instant {
        self.next.map_or(Instant::ZERO, |(at, _)| at)
    }

    /// Notes that the list is read from its beginning, for whatever reason.
    pub fn note_read(&mut self, now: Instant) {
        // Not the pause alone: a server that is slow to answer would make quiet times of its own.
        let last = self.next.filter(|(at, _)| now < *at + MAX_PAUSE);
        let pause = last.map_or(Duration::ZERO, |(_, pause)| (pause * 2).clamp(MIN_PAUSE, MAX_PAUSE));
        self.next = Some((now + pause, pause));
    }
}

/// Pause before the third of several reads.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause, and the time without a read after which the next one begins anew.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Follows the pages of one list to its end, with protection against endless lists (PAGE-012).
///
/// Request the page at [`cursor`](Self::cursor) and pass its result to [`take`](Self::take), until that returns false.
/// The list has ended if there is no next cursor, if a cursor repeats, after [`MAX_PAGES`](Self::MAX_PAGES) pages, or
/// when the byte limit is exceeded. All entries received until then are kept, once each if a cursor repeats.
#[derive(Clone, Debug)]
pub struct Paginator {
    kind: EntryKind,
    /// Cursors of all requested pages except the first; the last one is current.
    cursors: Vec<String>,
    entries: Vec<RawJson>,
    /// Remaining bytes for results.
    remaining_bytes: usize,
    max_bytes: usize,
    /// A page came from a cache (CACHE-018).
    used_cache: bool,
    /// A cursor was named again.
    has_repeated: bool,
    /// There was a next page that is not requested.
    is_cut: bool,
}

impl Paginator {
    /// Maximum number of pages.
    pub const MAX_PAGES: usize = 1_000;

    /// Creates a paginator for results of `max_bytes` in total. The page that exceeds this is the last one.
    #[must_use]
    pub const fn new(kind: EntryKind, max_bytes: usize) -> Self {
        Self {
            kind,
            cursors: Vec::new(),
            entries: Vec::new(),
            remaining_bytes: max_bytes,
            max_bytes,
            used_cache: false,
            has_repeated: false,
            is_cut: false,
        }
    }

    /// Returns the kind of the list.
    #[must_use]
    pub const fn kind(&self) -> EntryKind {
        self.kind
    }

    /// Returns the cursor of the page to request; `None` for the first page (PAGE-005, PAGE-008).
    #[must_use]
    pub fn cursor(&self) -> Option<&str> {
        self.cursors.last().map(|cursor| &**cursor)
    }

    /// Takes a result from a [`Cache`](super::Cache) for [`cursor`](Self::cursor).
    ///
    /// Otherwise like [`take`](Self::take).
    ///
    /// # Errors
    ///
    /// [`MissingListError`] if the result has no such list.
    pub fn take_cached(&mut self, result: &RawJson) -> Result<bool, MissingListError> {
        self.used_cache = true;
        self.take(result)
    }

    /// Starts over if the server refused the cursor of a page and cached pages may be the reason (CACHE-018).
    ///
    /// Returns whether it did, which happens once. All entries are dropped then, and the cached pages of the list
    /// should be removed.
    pub fn restart(&mut self, error: &CallError) -> bool {
        let refused = matches!(error, CallError::Rpc(error) if error.code == code::INVALID_PARAMS);
        let restarts = refused && self.used_cache && !self.cursors.is_empty();
        if restarts {
            *self = Self::new(self.kind, self.max_bytes);
        }
        restarts
    }

    /// Takes the result for [`cursor`](Self::cursor). Returns whether there is another page to request.
    ///
    /// # Errors
    ///
    /// [`MissingListError`] if the result has no such list.
    pub fn take(&mut self, result: &RawJson) -> Result<bool, MissingListError> {
        let page = ResultPage::from_result(self.kind, result).ok_or(MissingListError(self.kind))?;
        // Compared with all cursors, because a server may repeat a cycle of several pages.
        self.has_repeated = page.next_cursor.as_ref().is_some_and(|next| self.cursors.contains(next));
        if self.has_repeated {
            // A server that ignores the cursor, or begins again, has sent this page before.
            let known: BTreeSet<&[u8]> = self.entries.iter().map(RawJson::as_bytes).collect();
            let new = page.entries.into_iter().filter(|entry| !known.contains(entry.as_bytes()));
            let new: Vec<RawJson> = new.collect();
            self.entries.extend(new);
        } else {
            self.entries.extend(page.entries);
        }
        let remaining = self.remaining_bytes.checked_sub(result.as_bytes().len());
        self.remaining_bytes = remaining.unwrap_or(0);
        // The first page has no cursor, so it is counted apart.
        let may_continue = self.cursors.len() + 1 < Self::MAX_PAGES && remaining.is_some();
        let Some(next) = page.next_cursor else { return Ok(false) };
        self.is_cut = !may_continue || self.has_repeated;
        if !self.is_cut {
            self.cursors.push(next);
        }
        Ok(!self.is_cut)
    }

    /// Returns whether the list was given up before its end: a cursor was repeated, or a limit of pages or bytes was reached.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns what was wrong with the end of the list, if anything.
    #[must_use]
    pub fn diagnostic(&self) -> Option<Diagnostic> {
        self.has_repeated.then_some(Diagnostic::RepeatedCursor { list: self.kind })
    }

    /// Returns all entries so far, as received.
    #[must_use]
    pub fn into_entries(self) -> Vec<RawJson> {
        self.entries
    }
}

/// The typed entries of a list, without those that cannot be read.
///
/// One bad entry costs only itself: it may be malformed, or nested deeper than 128 levels, the bound of typed decoding.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TypedEntries<T> {
    /// The entries that can be read, in the order of the list.
    pub entries: Vec<T>,
    /// Reports of those that cannot: at most [`MAX_REPORTS`](Self::MAX_REPORTS), and one with the number of the rest.
    pub diagnostics: Vec<Diagnostic>,
}

impl<T: ListItem> TypedEntries<T> {
    /// Maximum number of entries that are reported one by one.
    pub const MAX_REPORTS: usize = 16;

    /// Reads the entries of a list, for example those of [`Paginator::into_entries`].
    #[must_use]
    pub fn read(entries: &[RawJson]) -> Self {
        let list = T::KIND;
        let mut read = Self { entries: Vec::new(), diagnostics: Vec::new() };
        let mut unreported = 0;
        for (index, entry) in entries.iter().enumerate() {
            match entry.parse() {
                Ok(entry) => read.entries.push(entry),
                Err(_) if read.diagnostics.len() >= Self::MAX_REPORTS => unreported += 1,
                Err(why) => {
                    // The text of the error may quote the entry.
                    let reason = clip_to(&why.to_string(), MAX_REASON).into_owned();
                    read.diagnostics.push(Diagnostic::UnreadableEntry { list, index, reason });
                }
            }
        }
        if unreported > 0 {
            read.diagnostics.push(Diagnostic::MoreUnreadableEntries { list, count: unreported });
        }
        read
    }
}

/// Maximum number of characters of a reason.
const MAX_REASON: usize = 256;

/// The error for a result without the requested list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the result has no list `{}`", .0.list_member())]
pub struct MissingListError(pub EntryKind);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Prompt, Resource, ResourceTemplate, Tool};
    use crate::rpc::RpcError;
    use alloc::format;

    #[test]
    fn list_that_changes_without_end_is_read_seven_times_in_the_first_minute_and_once_in_each_later_one() {
        let second = |s: u64| Instant::ZERO + Duration::from_secs(s);
        // The time that each read takes, and the first minute with one read. A slow server makes no quiet times of its own.
        for (slowness, settled) in [(0, 1), (2, 1), (20, 3)] {
            let (mut pace, mut now, mut times) = (ListPace::default(), Instant::ZERO, Vec::new());
            while now < second(600) {
                pace.note_read(now);
                times.push(now);
                now = pace.earliest().max(now + Duration::from_secs(slowness));
            }
            let within = |from, to| times.iter().filter(|at| (second(from)..second(to)).contains(at)).count();
            assert!(within(0, 60) <= 7, "{slowness}: {times:?}");
            assert!(
                (settled..10).all(|minute| within(minute * 60, minute * 60 + 60) <= 1),
                "{slowness}: {times:?}"
            );
        }
        // A change after a quiet minute is read at once, and so is one more.
        let mut pace = ListPace::default();
        for at in [0, 0, 1, 3, 67, 67] {
            assert!(pace.earliest() <= second(at), "{at}: {pace:?}");
            pace.note_read(second(at));
        }
        assert_eq!(pace.earliest(), second(68));
    }

    // covers: PAGE-011, CACHE-018
    #[test]
    fn refused_cursor_of_cached_page_restarts_the_list_once() {
        let page = raw(r#"{"tools":[1],"nextCursor":"a"}"#);
        let refused = CallError::Rpc(RpcError::invalid_params("no such cursor"));
        let mut pages = Paginator::new(EntryKind::Tool, 1 << 20);
        assert_eq!(pages.take_cached(&page), Ok(true));
        assert!(!pages.restart(&CallError::TimedOut) && pages.restart(&refused));
        assert_eq!((pages.cursor(), pages.clone().into_entries().len()), (None, 0));
        assert!(!pages.restart(&refused), "once");
        assert_eq!(pages.take(&page), Ok(true));
        assert!(!pages.restart(&refused), "the cursor is not from the cache");
    }

    // covers: PAGE-012
    #[test]
    fn list_that_is_given_up_before_its_end_is_cut() {
        let page = |n: usize| raw(format!(r#"{{"tools":[],"nextCursor":"{n}"}}"#));
        let last = raw(r#"{"tools":[1]}"#);
        let mut whole = Paginator::new(EntryKind::Tool, 1 << 20);
        for n in 1..Paginator::MAX_PAGES {
            assert_eq!((whole.take(&page(n)), whole.is_cut()), (Ok(true), false));
        }
        let mut too_many = whole.clone();
        assert_eq!((whole.take(&last), whole.is_cut()), (Ok(false), false));
        assert_eq!((too_many.take(&page(Paginator::MAX_PAGES)), too_many.is_cut()), (Ok(false), true));
        let mut repeated = Paginator::new(EntryKind::Tool, 1 << 20);
        assert_eq!((repeated.take(&page(1)), repeated.take(&page(1))), (Ok(true), Ok(false)));
        assert!(repeated.is_cut());
        // The page that exceeds the bytes is the last one: the list is whole if there is no other.
        let mut large = Paginator::new(EntryKind::Tool, 1);
        assert_eq!(
            (large.clone().take(&last), large.take(&page(1)), large.is_cut()),
            (Ok(false), Ok(false), true)
        );
    }

    fn raw(text: impl Into<String>) -> RawJson {
        RawJson::new(text.into()).expect("JSON")
    }

    // covers: PAGE-003, PAGE-004, PAGE-007
    #[test]
    fn list_continues_if_a_cursor_is_present_even_if_empty() {
        let page = |text: &'static str| ResultPage::from_result(EntryKind::Tool, &raw(text));
        let ResultPage { entries: tools, next_cursor: next } =
            page(r#"{"tools":[{"name":"a"}, 1],"nextCursor":""}"#).expect("a page");
        assert_eq!((tools.len(), tools[0].as_str(), next.as_deref()), (2, r#"{"name":"a"}"#, Some("")));
        assert_eq!(page(r#"{"tools":[]}"#).expect("a page").next_cursor, None);
        assert!(page(r#"{"prompts":[]}"#).is_none() && page(r#"{"tools":{}}"#).is_none());
        // A value that is not a string is not a cursor.
        assert_eq!(page(r#"{"tools":[],"nextCursor":7}"#).expect("a page").next_cursor, None);
    }

    // covers: TOOL-005, RES-003, RES-004, PROMPT-003
    #[test]
    fn unreadable_entry_costs_only_itself() {
        fn check<T: ListItem>(good: &str) {
            let deep =
                format!(r#"{},"deep":{}{}}}"#, &good[..good.len() - 1], "[".repeat(200), "]".repeat(200));
            // As the engine passes it on with a higher `max_depth`.
            let text = format!("[{good},{deep},7,{{}},{good}]");
            let list = RawJson::trusted(text.into());
            let TypedEntries { entries, diagnostics } =
                TypedEntries::<T>::read(&list.elements().expect("an array"));
            assert_eq!(entries.len(), 2, "{good}");
            let reports: Vec<(EntryKind, usize, bool)> = diagnostics
                .iter()
                .map(|diagnostic| match diagnostic {
                    Diagnostic::UnreadableEntry { list, index, reason } => {
                        (*list, *index, !reason.is_empty())
                    }
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(reports, [1, 2, 3].map(|index| (T::KIND, index, true)), "{good}");
        }
        check::<Tool>(r#"{"name":"a","inputSchema":{"type":"object"}}"#);
        check::<Resource>(r#"{"uri":"a:b","name":"a"}"#);
        check::<ResourceTemplate>(r#"{"uriTemplate":"a:{b}","name":"a"}"#);
        check::<Prompt>(r#"{"name":"a"}"#);
    }

    // covers: SEC-018
    #[test]
    fn reports_of_unreadable_entries_are_bounded() {
        let long = RawJson::encode(&"\u{1f980}".repeat(1_000)).expect("JSON");
        let read = TypedEntries::<Tool>::read(&alloc::vec![long; 100]);
        assert_eq!(read.diagnostics.len(), TypedEntries::<Tool>::MAX_REPORTS + 1);
        assert!(
            matches!(&read.diagnostics[0], Diagnostic::UnreadableEntry { reason, .. } if reason.len() < 2_000)
        );
        let last = Diagnostic::MoreUnreadableEntries { list: EntryKind::Tool, count: 84 };
        assert_eq!(read.diagnostics.last(), Some(&last));
        assert_eq!(read.entries.capacity(), 0, "memory for entries that cannot be read");
    }

    // covers: PAGE-005, PAGE-008, PAGE-012
    #[test]
    fn paginator_stops_at_end_repeated_cursor_and_limits() {
        let page = |next: &str| raw(format!(r#"{{"tools":["before {next}"],"nextCursor":"{next}"}}"#));
        let mut pages = Paginator::new(EntryKind::Tool, 1 << 20);
        assert_eq!(pages.cursor(), None);
        assert_eq!(pages.take(&page("")), Ok(true));
        assert_eq!(pages.cursor(), Some(""));
        assert_eq!(pages.take(&page("a")), Ok(true));
        assert_eq!(pages.take(&raw(r#"{"prompts":[]}"#)), Err(MissingListError(EntryKind::Tool)));
        assert_eq!(pages.cursor(), Some("a"));
        assert_eq!(pages.take(&page("")), Ok(false), "a repeated cursor ends the list");
        assert_eq!(pages.into_entries().len(), 2, "the first page came twice, the second time by a cursor");

        let mut pages = Paginator::new(EntryKind::Tool, 1 << 20);
        let requested = (1..).find(|n| !pages.take(&page(&format!("{n}"))).expect("a page"));
        assert_eq!(
            (requested, pages.into_entries().len()),
            (Some(Paginator::MAX_PAGES), Paginator::MAX_PAGES)
        );

        let mut pages = Paginator::new(EntryKind::Tool, 2 * page("1").as_bytes().len());
        let requested = (1..).find(|n| !pages.take(&page(&format!("{n}"))).expect("a page"));
        assert_eq!(
            (requested, pages.into_entries().len()),
            (Some(3), 3),
            "the page that exceeds the limit is kept"
        );
    }
}
