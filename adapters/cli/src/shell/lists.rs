//! The lists of the server, for completions.

use core::time::Duration;
use std::time::Instant;

use mcp_proto::client::Paginator;
use mcp_proto::{CallOptions, Change, EntryKind, RawJson};

use crate::client::{PageParams, take_pages};
use crate::session::ClientSession;

/// Lists that were read.
#[derive(Default)]
pub(super) struct Lists {
    known: Vec<KnownList>,
    /// Lists whose changes the server reports.
    watched: Vec<EntryKind>,
}

struct KnownList {
    kind: EntryKind,
    entries: Vec<RawJson>,
    read_at: Instant,
}

impl Lists {
    /// Sets the lists whose changes the server reports. Other ones are read again after [`MAX_AGE`].
    pub(super) fn set_watched(&mut self, watched: Vec<EntryKind>) {
        self.watched = watched;
    }

    /// Forgets what has changed.
    pub(super) fn handle_change(&mut self, change: &Change) {
        let has_changed = |kind: EntryKind| match change {
            Change::Tools => kind == EntryKind::Tool,
            Change::Prompts => kind == EntryKind::Prompt,
            Change::Resources => matches!(kind, EntryKind::Resource | EntryKind::ResourceTemplate),
            _ => false,
        };
        self.known.retain(|list| !has_changed(list.kind));
    }

    /// Forgets all, as after the end of a session.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Keeps a list that was read.
    pub(super) fn set(&mut self, kind: EntryKind, entries: Vec<RawJson>) {
        self.known.retain(|list| list.kind != kind);
        self.known.push(KnownList { kind, entries, read_at: Instant::now() });
    }

    /// Returns the entries of a list, which is read until `until` if it is not known. Whatever fails leaves it empty.
    pub(super) fn get(
        &mut self,
        session: &mut ClientSession,
        kind: EntryKind,
        until: Instant,
    ) -> Vec<RawJson> {
        let is_watched = self.watched.contains(&kind);
        let known = self.known.iter().find(|list| list.kind == kind);
        if let Some(list) = known.filter(|list| is_watched || list.read_at.elapsed() < MAX_AGE) {
            return list.entries.clone();
        }
        if !session.client.peer().has(kind.capability()) {
            return Vec::new();
        }
        let mut pages = Paginator::new(kind, MAX_LIST_BYTES);
        let request = |params: &PageParams<'_>| {
            let left = Some(until.saturating_duration_since(Instant::now()))
                .filter(|left| !left.is_zero())
                .ok_or(())?;
            let options = CallOptions::new().timeout(left).total_timeout(left);
            session.client.request(kind.list_method(), params, &options, &mut |_| {}).map_err(drop)
        };
        let is_whole = take_pages(&mut pages, request, drop).is_ok();
        let entries = pages.into_entries();
        if is_whole {
            self.set(kind, entries.clone());
        }
        entries
    }
}

/// Maximum size of a list in bytes. The page that exceeds it is the last one.
pub(super) const MAX_LIST_BYTES: usize = 16 << 20;
/// Age of a list whose changes are not reported.
const MAX_AGE: Duration = Duration::from_secs(10);
