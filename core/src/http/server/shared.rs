//! Sessions that several processes serve, each with a copy of those that it uses ([`SharedSessions::begin`]).
//!
//! The copies have what the client relies on: identity, revision, principal, log level, subscriptions. What happens in a
//! process stays there: its calls, questions and streams. A store beside the server has one record for each session. A request
//! waits for it if its session is not here, or may have changed elsewhere, and a response waits if its request has changed
//! the session. All other requests do without the store.
//!
//! The server calls it through [`Functions`], which [`SharedSessions::begin`] installs, so a program without it links none of
//! its code.

mod event;
mod in_ids;
mod relay;
mod repeat;
mod waits;

pub use event::SharedSessionEvent;
pub use in_ids::{SealedIdentity, SubscriptionsNeedStore};
pub use relay::OpenedRelay;
pub use repeat::KeptCall;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use super::exchange_table::{ExchangeId, ServerExchange, SessionKey};
use super::resumption::{parse_event_id, return_message, take_waiting};
use super::session::{HttpSession, ID_LEN, SessionLookup, drop_session, is_id};
use super::snapshot::{self, Snapshot, SnapshotError};
use super::{Event, Server};
use crate::built::{Part, Sessions};
use crate::methods;
use crate::rpc::envelope::{self, Envelope};
use crate::server::{BatchContents, SessionState};
use crate::slab::Key;
use crate::sync::Arc;
use crate::time::Instant;
use repeat::Repeats;
use waits::hold_response;

/// The id of a session, which is a secret of its client (HTTP-065). `Debug` shows its first characters alone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(String);

impl SessionId {
    /// Reads an id; `None` for a text that has not the form of one.
    #[must_use]
    pub fn new(id: &str) -> Option<Self> {
        is_id(id).then(|| Self(id.into()))
    }

    /// Returns the id.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({}…)", self.0.get(..4).unwrap_or_default())
    }
}

/// The record of a session, for a store.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionRecord {
    /// The version of the record that this one takes the place of; 0 if there is none.
    pub replaces: u64,
    /// The record.
    pub bytes: Vec<u8>,
}

/// Does not show the record.
impl fmt::Debug for SessionRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionRecord").field("replaces", &self.replaces).finish_non_exhaustive()
    }
}

/// What a server knows about sharing, if it does.
#[derive(Debug)]
pub(super) struct Sharing {
    pub(super) functions: &'static Functions,
    /// The number in front of the first one of a stream.
    streams_begin_after: u32,
    /// The session of the message that was inspected last, before it was processed.
    before: Mutable,
    /// Sessions with changes that are not stored yet.
    unstored: BTreeMap<Key, Unstored>,
    /// Sessions that were used after this time are to be reported.
    used_since: Instant,
    /// Until when exchanges wait, by their slots. May contain some that do not any more. Not a map: what shares nothing links its
    /// end, too.
    waits: Vec<(Key, Instant)>,
    /// The sessions that have ended here, whose ids carry their identity, until these expire; in order.
    ended: Vec<([u8; ID_LEN], Instant)>,
    /// The calls that another process may run again; `None` if there are none.
    repeats: Option<Box<dyn Repeats>>,
}

impl Sharing {
    const fn new(functions: &'static Functions, streams_begin_after: u32, now: Instant) -> Self {
        Self {
            functions,
            streams_begin_after,
            before: Mutable { log_level: None, resources: Vec::new() },
            unstored: BTreeMap::new(),
            used_since: now,
            waits: Vec::new(),
            ended: Vec::new(),
            repeats: None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Functions {
    /// Makes a request wait for its session. Returns whether it does.
    pub(super) wait: fn(&mut Server, Key) -> bool,
    /// Looks at a message, of a session or a new one, before it is processed.
    pub(super) inspect: fn(&mut Server, Key, Option<SessionKey>, &Bytes, &Envelope<'_>) -> Effect,
    /// The same for a batch, of a session.
    pub(super) inspect_batch: fn(&mut Server, Key, &Bytes, &BatchContents) -> Effect,
    /// Holds back the response to the request that was inspected last, and has changed its session.
    pub(super) hold: fn(&mut Server, Key),
    /// Reports the end of a session, for the request of an exchange or for another reason.
    pub(super) end: fn(&mut Server, SessionKey, Option<Key>),
    /// Writes the note in the ids of events of a call, before the first one.
    pub(super) write_note: fn(&mut Server, Key),
    /// Holds back the answer of a call that another process may have taken over. Returns whether it is held.
    pub(super) hold_answer: fn(&mut Server, Key) -> bool,
    /// Ends the wait of a request for its session, or of its response, if it waits.
    pub(super) expire: fn(&mut Server, Key),
    /// Reports the sessions that were used.
    pub(super) report_used: fn(&mut Server),
    /// Returns the number in front of the first stream of a session.
    pub(super) streams_begin_after: fn(&Sharing) -> u32,
    /// Returns where the stream with a number is, that of a call or a GET stream.
    pub(super) place_of: fn(&mut Server, SessionKey, u32, bool) -> StreamPlace,
    /// Resumes the stream of a call of another process.
    pub(super) resume: fn(&mut Server, Key, SessionKey),
    /// Ends the stream of a call of another process that has ended.
    pub(super) check_relay: fn(&mut Server, Key),
    /// Reports a GET stream that is open.
    pub(super) report_stream: fn(&mut Server, Key, SessionKey),
}

/// Where a stream is that a client resumes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamPlace {
    Here,
    GetStreamElsewhere,
    CallElsewhere,
}

/// What a message means to other processes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    /// It changes the session.
    Changes,
    /// It belongs to another process, and was passed on.
    Elsewhere,
    /// It waits, and is processed anew later.
    Waits,
}

/// What two processes can change at the same time.
#[derive(Clone, Debug, Default)]
struct Mutable {
    log_level: Option<u8>,
    resources: Vec<Arc<str>>,
}

impl From<&SessionState> for Mutable {
    fn from(state: &SessionState) -> Self {
        Self { log_level: state.log_level, resources: state.resources.clone() }
    }
}

/// Changes of a session that are not stored yet.
#[derive(Debug)]
struct Unstored {
    /// What the store has, as far as it is known here.
    stored: Mutable,
    /// What was given to the store.
    saved: Mutable,
    /// The exchanges that wait.
    exchanges: Vec<Key>,
}

/// Number of streams of a session, and of questions in one slot, before their numbers are those of the next process.
const NUMBERS: u32 = 1 << 21;
/// Number of processes whose numbers differ.
const PROCESSES: u32 = 1 << 10;

static FUNCTIONS: Functions = Functions {
    wait: waits::wait,
    inspect,
    inspect_batch,
    hold: waits::hold,
    end,
    write_note: relay::write_note,
    hold_answer: repeat::hold_answer,
    expire: waits::expire,
    report_used,
    streams_begin_after: |sharing| sharing.streams_begin_after,
    place_of: relay::place_of,
    resume: relay::resume,
    check_relay: relay::check,
    report_stream: relay::report_stream,
};

impl Server {
    /// Returns the sessions that are shared with other processes.
    pub const fn shared_sessions(&mut self) -> SharedSessions<'_> {
        SharedSessions { server: self }
    }
}

/// Returns the functions for sessions that are shared, if they are.
#[inline]
pub(super) fn functions(server: &Server) -> Option<&'static Functions> {
    server.sharing.as_ref().map(|sharing| sharing.functions)
}

fn id_of(server: &Server, session: SessionKey) -> SessionId {
    SessionId(server.sessions.id(session))
}

fn report(server: &mut Server, event: SharedSessionEvent) {
    server.events.push_back(Event::Shared(event));
}

/// Returns the state of a session.
fn state_of(server: &mut Server, session: SessionKey) -> Option<SessionState> {
    let channel = server.sessions.get(session).filter(|session| !session.is_ending)?.channel;
    server.engine.exchanges().session_state(channel)
}

/// The sessions of a server that other processes serve, too ([`Server::shared_sessions`]).
#[derive(Debug)]
pub struct SharedSessions<'s> {
    server: &'s mut Server,
}

impl SharedSessions<'_> {
    /// Shares the sessions with other processes, whose servers have the same configuration and number of shards.
    ///
    /// `process` is a number that no other process has had for long: numbers of requests to the client and of streams begin with
    /// it, modulo 1024. Must be called before the first request. The application serves [`Event::Shared`] from
    /// then on.
    pub fn begin(&mut self, process: u32) {
        let server = &mut *self.server;
        let begin = process % PROCESSES * NUMBERS;
        server.engine.exchanges().begin_requests_after(begin);
        if let Some(built) = Sessions::get() {
            server.sharing = Part::new(built, Sharing::new(&FUNCTIONS, begin, server.now));
        }
    }

    /// Returns the record of a session for the store; `None` if it is not here, or has ended.
    ///
    /// It has the form of a [snapshot](super::Snapshots::save), without streams, which stay with their process. It contains the id
    /// and the principal: seal it.
    pub fn save(&mut self, id: &SessionId) -> Option<SessionRecord> {
        let server = &mut *self.server;
        let key = server.sessions.find(id.reveal())?;
        // Requests and streams of each process have numbers of their own.
        let state = SessionState { newest_request: 0, ..state_of(server, key)? };
        if let Some(unstored) = server.sharing.as_mut().and_then(|s| s.unstored.get_mut(&key.key)) {
            unstored.saved = Mutable::from(&state);
        }
        let session = server.sessions.get(key)?;
        let snapshot = Snapshot {
            id: id.reveal(),
            principal: session.principal.as_deref(),
            state,
            last_stream_number: 0,
            get_streams: Vec::new(),
            lost: Vec::new(),
            sent: Vec::new(),
            returned: Vec::new(),
        };
        let replaces = session.record.as_ref().map_or(0, |record| record.version);
        Some(SessionRecord { replaces, bytes: snapshot.write() })
    }

    /// Adds what another process has changed in a session that is here: after a conflict with it, or because it said so.
    ///
    /// What was changed here and is not stored yet stays changed. No effect if the session is not here.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`] if the record is not one of this session. Nothing changes then.
    pub fn merge(
        &mut self,
        now: Instant,
        id: &SessionId,
        version: u64,
        snapshot: &[u8],
    ) -> Result<(), SnapshotError> {
        self.server.tick(now);
        if self.server.sessions.find(id.reveal()).is_none() {
            return Ok(());
        }
        self.take(version, snapshot, Some(id.reveal().as_bytes()), false)
    }

    /// Records that another process has changed a session, whose record has this version. The next request loads it, until the
    /// record is that one or a later one.
    ///
    /// Returns whether to load it now, for [`merge`](Self::merge): it has a GET stream here.
    pub fn mark_stale(&mut self, id: &SessionId, version: u64) -> bool {
        let session = self.server.sessions.find(id.reveal());
        let Some(session) = session.and_then(|key| self.server.sessions.get_mut(key)) else { return false };
        let record = session.record.get_or_insert_default();
        record.newest = record.newest.max(version);
        is_stale(session) && session.has_open_get_stream()
    }

    /// Records that other processes may have changed any session. Returns those that are to be loaded now.
    pub fn mark_all_stale(&mut self) -> Vec<SessionId> {
        let all: Vec<SessionKey> = self.server.sessions.keys().collect();
        let ids = all.into_iter().map(|session| id_of(self.server, session)).collect::<Vec<_>>();
        let is_open = |id: &SessionId| {
            let session = self.server.sessions.find(id.reveal());
            let session = session.and_then(|key| self.server.sessions.get_mut(key));
            session.is_some_and(|session| {
                session.record.get_or_insert_default().is_uncertain = true;
                session.has_open_get_stream()
            })
        };
        ids.into_iter().filter(is_open).collect()
    }

    /// Ends all GET streams and subscriptions, whose clients open them anew at another process. For a process that ends.
    pub fn end_streams(&mut self, now: Instant) {
        self.server.tick(now);
        let exchanges: Vec<Key> = self.server.exchanges.keys().collect();
        for key in exchanges {
            if self.server.exchanges.get(key).is_some_and(ServerExchange::is_open_ended) {
                self.server.end_stream(key, self.server.config.retry);
            }
        }
    }

    /// Ends a session here that has ended in another process.
    pub fn forget(&mut self, now: Instant, id: &SessionId) {
        self.server.tick(now);
        if let Some(session) = self.server.sessions.find(id.reveal()) {
            drop_session(self.server, session);
        }
    }

    /// Takes a message that the client of a session has sent to [another process](SharedSessionEvent::Relay).
    ///
    /// No effect if the session is not here, or nothing waits for the message.
    pub fn receive(&mut self, now: Instant, id: &SessionId, message: &Bytes) {
        self.server.tick(now);
        let session = self.server.sessions.find(id.reveal());
        if let Some(session) = session {
            repeat::receive(self.server, session, message);
        }
        if let Some(channel) = session.and_then(|key| self.server.sessions.get(key)).map(|s| s.channel) {
            self.server.engine.exchanges().handle_relayed(self.server.now, channel, message);
        }
    }

    /// Takes the messages of a session that wait here, for the process that has a GET stream
    /// ([`StreamOpened`](SharedSessionEvent::StreamOpened)). Notifications of changes are left out: that process announces all.
    pub fn take_waiting(&mut self, now: Instant, id: &SessionId, after: Option<&str>) -> Vec<Bytes> {
        self.server.tick(now);
        let Some(session) = self.server.sessions.find(id.reveal()) else { return Vec::new() };
        let after = after.and_then(parse_event_id).map(|(stream, event, _)| (stream, event));
        take_waiting(self.server, session, after)
    }

    /// Sends a message of another process to the client of a session, on a GET stream, or when it opens one here.
    ///
    /// Returns whether it will be sent: the session is here, and less than
    /// [`Limits::outbox_high_water`](crate::Limits::outbox_high_water) bytes wait.
    pub fn send(&mut self, now: Instant, id: &SessionId, message: Bytes) -> bool {
        self.server.tick(now);
        let session = self.server.sessions.find(id.reveal());
        session.is_some_and(|session| return_message(self.server, session, message))
    }

    /// Takes a record of the session with an id.
    fn take(
        &mut self,
        version: u64,
        snapshot: &[u8],
        id: Option<&[u8]>,
        announces: bool,
    ) -> Result<(), SnapshotError> {
        let server = &mut *self.server;
        let mut snapshot = Snapshot::read(snapshot)?;
        if id != Some(snapshot.id.as_bytes()) {
            return Err(SnapshotError::OtherSession);
        }
        let Some(key) = server.sessions.find(snapshot.id) else {
            let key = snapshot::restore(server, snapshot)?;
            if let Some(session) = server.sessions.get_mut(key) {
                session.record.get_or_insert_default().version = version;
            }
            return Ok(());
        };
        let current = state_of(server, key).ok_or(SnapshotError::OtherSession)?;
        let Some(session) = server.sessions.get_mut(key) else { return Ok(()) };
        if session.principal.as_deref() != snapshot.principal || current.version != snapshot.state.version {
            return Err(SnapshotError::OtherSession);
        }
        // Read before what is known here was written.
        let record = session.record.get_or_insert_default();
        if version < record.version {
            return Ok(());
        }
        (record.is_uncertain, record.version) = (false, version);
        let channel = session.channel;
        if let Some(unstored) = server.sharing.as_mut().and_then(|s| s.unstored.get_mut(&key.key)) {
            let theirs = Mutable::from(&snapshot.state);
            merge(&mut snapshot.state, &unstored.stored, &current);
            unstored.stored = theirs;
        }
        server.engine.exchanges().update_session(channel, &snapshot.state, announces);
        Ok(())
    }
}

/// Adds to `theirs` what `ours` has changed since `before`.
fn merge(theirs: &mut SessionState, before: &Mutable, ours: &SessionState) {
    if ours.log_level != before.log_level {
        theirs.log_level = ours.log_level;
    }
    theirs.is_initialized |= ours.is_initialized;
    theirs.resources.retain(|uri| ours.resources.contains(uri) || !before.resources.contains(uri));
    let added = ours.resources.iter().filter(|uri| !before.resources.contains(uri));
    for uri in added {
        if !theirs.resources.contains(uri) {
            theirs.resources.push(uri.clone());
        }
    }
}

/// Returns whether another process has changed a session, or may have.
fn is_stale(session: &HttpSession) -> bool {
    session.record.as_ref().is_some_and(|record| record.is_uncertain || record.version < record.newest)
}

fn inspect(
    server: &mut Server,
    key: Key,
    session: Option<SessionKey>,
    frame: &Bytes,
    envelope: &Envelope<'_>,
) -> Effect {
    // A handshake begins a session.
    let Some(session) = session else {
        if let Some(sharing) = server.sharing.as_mut() {
            sharing.before = Mutable::default();
        }
        return Effect::Changes;
    };
    relay::note_request(server, key, envelope);
    if envelope.kind != envelope::Kind::Response && methods::changes_session(&envelope.method) {
        return changes(server, session);
    }
    if envelope.kind == envelope::Kind::Request {
        return if repeat::keep(server, key, frame, envelope) { Effect::Waits } else { Effect::None };
    }
    let Some(channel) = server.sessions.get(session).map(|s| s.channel) else { return Effect::None };
    let is_awaited = server.engine.exchanges().awaits(channel, frame, envelope);
    if is_awaited == Some(false) && repeat::cancel(server, session, frame, envelope) {
        return Effect::Elsewhere;
    }
    if is_awaited != Some(true) {
        let id = id_of(server, session);
        report(server, SharedSessionEvent::Relay { id, message: frame.clone() });
    }
    if is_awaited == Some(false) { Effect::Elsewhere } else { Effect::None }
}

fn inspect_batch(server: &mut Server, key: Key, frame: &Bytes, contents: &BatchContents) -> Effect {
    let SessionLookup::Session(session) = server.find_session(key) else { return Effect::None };
    if contents.has_requests {
        relay::note_batch(server, key);
        // The requests are for this process, and the rest may be for another one.
        for message in server.engine.exchanges().members_without_answer(frame) {
            let id = id_of(server, session);
            report(server, SharedSessionEvent::Relay { id, message });
        }
    } else {
        let id = id_of(server, session);
        report(server, SharedSessionEvent::Relay { id, message: frame.clone() });
    }
    if contents.changes_session { changes(server, session) } else { Effect::None }
}

fn changes(server: &mut Server, session: SessionKey) -> Effect {
    let Some(state) = state_of(server, session) else { return Effect::None };
    if let Some(sharing) = server.sharing.as_mut() {
        sharing.before = Mutable::from(&state);
    }
    Effect::Changes
}

fn end(server: &mut Server, session: SessionKey, exchange: Option<Key>) {
    let id = id_of(server, session);
    if let Some(sharing) = server.sharing.as_mut() {
        sharing.unstored.remove(&session.key);
    }
    if let Some(key) = exchange {
        hold_response(server, key);
    }
    report(server, SharedSessionEvent::Ended { id, exchange: exchange.map(ExchangeId) });
}

fn report_used(server: &mut Server) {
    let Some(sharing) = server.sharing.as_mut() else { return };
    let since = core::mem::replace(&mut sharing.used_since, server.now);
    let is_used = |session: &HttpSession| {
        session.last_seen >= since || session.call_count() > 0 || session.has_open_get_stream()
    };
    let used = server.sessions.keys().filter(|key| server.sessions.get(*key).is_some_and(is_used));
    let ids: Vec<SessionId> = used.map(|key| id_of(server, key)).collect();
    if !ids.is_empty() {
        report(server, SharedSessionEvent::Used { ids });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::Version;

    type Parts = (Option<u8>, bool, &'static str);

    fn state((log_level, is_initialized, resources): Parts) -> SessionState {
        SessionState {
            version: Version::V2025_11_25,
            is_initialized,
            info: Bytes::new(),
            capabilities: Bytes::new(),
            log_level,
            resources: resources.split_whitespace().map(Arc::from).collect(),
            newest_request: 0,
        }
    }

    #[test]
    fn what_either_side_has_changed_is_kept() {
        // Before, here, in the store, and after all.
        let cases: [[Parts; 4]; 8] = [
            [(None, false, ""), (Some(3), false, ""), (None, false, ""), (Some(3), false, "")],
            [(None, false, ""), (None, false, ""), (Some(3), false, ""), (Some(3), false, "")],
            [(Some(1), false, ""), (Some(2), false, ""), (Some(3), false, ""), (Some(2), false, "")],
            [(None, false, ""), (None, true, ""), (None, false, ""), (None, true, "")],
            [(None, false, ""), (None, false, ""), (None, true, ""), (None, true, "")],
            [(None, false, ""); 4],
            [(None, true, "a b c"), (None, true, "b c d"), (None, true, "a b e"), (None, true, "b e d")],
            [(None, true, ""), (None, true, "a"), (None, true, "a"), (None, true, "a")],
        ];
        for case in cases {
            let [before, ours, mut merged, expected] = case.map(state);
            merge(&mut merged, &Mutable::from(&before), &ours);
            let parts = |state: SessionState| (state.log_level, state.is_initialized, state.resources);
            assert_eq!(parts(merged), parts(expected), "{case:?}");
        }
    }
}
