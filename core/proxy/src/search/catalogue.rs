//! The tools of one upstream, read page by page.

use mcp_proto::client::ListPace;
use mcp_proto::model::Map;
use mcp_proto::{CallError, CallKey, CallOptions, EntryKind, Instant, RawJson, UseError};

use super::ranking::Document;
use crate::convert;
use crate::gateway::{MAX_NOTES, UpstreamEngine};
use crate::names;

/// The tools of an upstream, as far as they are known.
#[derive(Debug)]
pub(crate) struct Catalogue {
    /// What precedes the names of tools.
    prefix: Box<str>,
    tools: Vec<IndexedTool>,
    state: State,
    /// Whether tools were left out, so that a name may be one although it is unknown here.
    is_partial: bool,
    pace: ListPace,
    /// Whether the list has changed since it was asked for.
    pub(crate) is_stale: bool,
    /// Whether it is awaited of the next start of the upstream, although the last attempt has failed.
    is_retried: bool,
    /// Whole names of tools that are shortened for clients, of the last list that was read.
    pub(crate) shortened: Vec<String>,
}

#[derive(Debug)]
enum State {
    /// Not asked for since the start of the upstream.
    Unknown,
    Reading(Reading),
    Known,
    /// The last attempt failed. Tools of an earlier one stay.
    Failed(String),
}

/// A list that is being read.
#[derive(Debug)]
struct Reading {
    call: CallKey,
    tools: Vec<IndexedTool>,
    bytes: usize,
    pages: usize,
    is_partial: bool,
}

/// A tool of an upstream.
#[derive(Clone, Debug)]
pub(crate) struct IndexedTool {
    /// Its name at the upstream.
    pub(crate) name: String,
    /// Its name for clients.
    pub(crate) shown: String,
    pub(crate) entry: RawJson,
    pub(crate) document: Document,
}

impl IndexedTool {
    /// Reads an entry. Returns `None` if it has no name.
    pub(crate) fn new(prefix: &str, entry: &RawJson) -> Option<Self> {
        let name = entry.member("name")?.string()?;
        let shown = format!("{prefix}{name}");
        let shown = names::shortened(&shown).filter(|_| !prefix.is_empty()).unwrap_or(shown);
        let document = Document::new(&shown, &name, entry);
        Some(Self { name, shown, entry: entry.compact(), document })
    }

    /// Returns its name with the prefix, if clients know it by a shorter one.
    fn full_name(&self, prefix: &str) -> Option<String> {
        (!self.shown.ends_with(&self.name)).then(|| format!("{prefix}{}", self.name))
    }
}

impl Catalogue {
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.into(),
            tools: Vec::new(),
            state: State::Unknown,
            is_partial: false,
            pace: ListPace::default(),
            // To be read at first.
            is_stale: true,
            is_retried: false,
            shortened: Vec::new(),
        }
    }

    pub(crate) fn tools(&self) -> &[IndexedTool] {
        &self.tools
    }

    /// Returns whether a tool has this name for clients.
    pub(crate) fn has_tool(&self, shown: &str) -> bool {
        self.tools.iter().any(|tool| tool.shown == shown)
    }

    /// Returns the whole name of a tool that clients know by a shorter one.
    pub(crate) fn full_name(&self, shown: &str) -> Option<String> {
        self.tools.iter().find(|tool| tool.shown == shown)?.full_name(&self.prefix)
    }

    /// Returns whether a name that none of the tools has may be one of the upstream.
    pub(crate) const fn may_have_others(&self) -> bool {
        self.is_partial || !matches!(self.state, State::Known)
    }

    pub(crate) const fn is_known(&self) -> bool {
        matches!(self.state, State::Known)
    }

    pub(crate) const fn is_reading(&self) -> bool {
        matches!(self.state, State::Reading(_))
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        match &self.state {
            State::Failed(reason) => Some(reason),
            _ => None,
        }
    }

    /// Returns whether the list is to come with the next start.
    pub(crate) const fn awaits_start(&self) -> bool {
        self.is_retried || matches!(self.state, State::Unknown)
    }

    /// Reads the list again if the last attempt failed, or at the next start of an upstream that does not run.
    pub(crate) fn retry(&mut self, now: Instant, upstream: Option<UpstreamEngine<'_>>) {
        let has_failed = self.failure().is_some();
        self.is_retried = has_failed;
        self.read(now, upstream.filter(|_| has_failed));
    }

    /// Notes that the upstream could not be started.
    pub(crate) fn handle_start_failure(&mut self) {
        self.is_retried = false;
        if matches!(self.state, State::Unknown) {
            self.state = State::Failed("it could not be started".to_owned());
        }
    }

    /// Returns whether a call is the one that reads the list.
    pub(crate) fn has_call(&self, call: CallKey) -> bool {
        matches!(&self.state, State::Reading(reading) if reading.call == call)
    }

    /// Reads the list of an upstream that runs from its beginning, at a time on the clock of the proxy.
    pub(crate) fn read(&mut self, now: Instant, upstream: Option<UpstreamEngine<'_>>) {
        self.state = match upstream.map(|mut upstream| ask(&mut upstream, None)) {
            None => return,
            Some(Ok(call)) => {
                State::Reading(Reading { call, tools: Vec::new(), bytes: 0, pages: 0, is_partial: false })
            }
            // It has no tools.
            Some(Err(UseError::MissingPeerCapability(_))) => {
                (self.tools, self.is_partial) = (Vec::new(), false);
                State::Known
            }
            Some(Err(refused)) => State::Failed(convert::clip(&refused.to_string())),
        };
        self.pace.note_read(now);
        (self.is_stale, self.is_retried) = (false, false);
    }

    /// Returns when the list is to be read again.
    pub(crate) fn next_read(&self) -> Option<Instant> {
        (self.is_stale && !self.is_reading()).then(|| self.pace.earliest())
    }

    /// Reads the list again if it has changed and the time for that has come. That of an upstream which does not run is read at its
    /// start.
    pub(crate) fn refresh(&mut self, now: Instant, upstream: Option<UpstreamEngine<'_>>) {
        self.is_stale &= upstream.is_some();
        let is_due = self.next_read().is_some_and(|at| at <= now);
        self.read(now, upstream.filter(|_| is_due));
    }

    /// Handles one page of the list, which is read on if there are more.
    pub(crate) fn handle_page(
        &mut self,
        outcome: Result<RawJson, CallError>,
        upstream: Option<UpstreamEngine<'_>>,
    ) {
        let State::Reading(mut reading) = core::mem::replace(&mut self.state, State::Unknown) else { return };
        let page = match outcome {
            Ok(page) => page,
            Err(error) => {
                let reason = convert::failed_call_error(&error).message;
                self.state = State::Failed(convert::clip(&reason));
                return;
            }
        };
        reading.add(&self.prefix, &page);
        let cursor = page.member("nextCursor").and_then(|cursor| cursor.string());
        let has_room = reading.pages < MAX_PAGES && !reading.is_full();
        let next = upstream.filter(|_| has_room).zip(cursor.as_deref());
        match next.map(|(mut upstream, cursor)| ask(&mut upstream, Some(cursor))) {
            Some(Ok(call)) => {
                reading.call = call;
                self.state = State::Reading(reading);
            }
            Some(Err(refused)) => self.state = State::Failed(convert::clip(&refused.to_string())),
            None => {
                self.is_partial = reading.is_partial || cursor.is_some();
                self.tools = reading.tools;
                let shortened = self.tools.iter().filter_map(|tool| tool.full_name(&self.prefix));
                self.shortened = shortened.take(MAX_NOTES).collect();
                self.state = State::Known;
            }
        }
    }
}

impl Reading {
    fn is_full(&self) -> bool {
        self.tools.len() >= MAX_TOOLS || self.bytes >= MAX_BYTES
    }

    fn add(&mut self, prefix: &str, page: &RawJson) {
        self.pages += 1;
        let entries = page.member(EntryKind::Tool.list_member()).and_then(|list| list.elements());
        for entry in entries.unwrap_or_default() {
            let size = entry.as_bytes().len();
            if size > MAX_ENTRY || self.is_full() {
                self.is_partial = true;
                continue;
            }
            let Some(tool) = IndexedTool::new(prefix, &entry) else { continue };
            self.bytes += size;
            self.tools.push(tool);
        }
    }
}

/// Asks an upstream for a page of its tools.
fn ask(upstream: &mut UpstreamEngine<'_>, cursor: Option<&str>) -> Result<CallKey, UseError> {
    let params = cursor.map(|cursor| ("cursor", cursor)).into_iter().collect::<Map<_>>();
    upstream.engine.call(upstream.now, EntryKind::Tool.list_method(), &params, &CallOptions::new())
}

/// Maximum number of tools of one upstream.
pub(super) const MAX_TOOLS: usize = 4_096;
/// Maximum number of bytes of them, as the upstream wrote them, up to one more.
const MAX_BYTES: usize = 8 << 20;
/// Maximum number of bytes of one tool. A larger one is not found, but can be called.
pub(super) const MAX_ENTRY: usize = 256 << 10;
/// Maximum number of pages of a list.
const MAX_PAGES: usize = 1_024;
