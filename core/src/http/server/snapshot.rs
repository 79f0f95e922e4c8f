//! Snapshots of sessions: a legacy session as bytes, to go on in another process.
//!
//! A snapshot has what its client relies on: the id, the revision, capabilities, log level, subscriptions, and the events
//! that can be resumed. It has no calls: one that is in flight is lost with its process, and a client that resumes its
//! stream is told so. Format: a version, then numbers and parts ([`record`](crate::record)) in the order of
//! [`Snapshots::save`].

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;

use bytes::Bytes;

use super::exchange_table::SessionKey;
use super::resumption::{GetStream, ReplayEntry};
use super::session::{self, HttpSession};
use super::{Kind, Server};
use crate::json::{object_members, string};
use crate::methods;
use crate::raw::RawJson;
use crate::record::{number, part, put, put_number, text};
use crate::rpc::{self, RequestId, RpcError};
use crate::server::SessionState;
use crate::slab::Key;
use crate::sync::Arc;
use crate::time::Instant;
use crate::version::Version;

/// The first byte of a snapshot.
const FORMAT: u8 = 1;

const INITIALIZED: u8 = 1;
const HAS_PRINCIPAL: u8 = 2;
const HAS_LEVEL: u8 = 4;

/// The reason why a snapshot was refused. No session is added or changed then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The bytes are no snapshot: cut short, altered, or something else.
    #[error("the bytes are not a snapshot of a session")]
    Malformed,
    /// Another release has written the snapshot.
    #[error("the snapshot has format {0}, and this release reads format {FORMAT}")]
    UnknownFormat(u8),
    /// The revision of the session is not served here.
    #[error("this server does not serve revision {0}")]
    VersionNotServed(Version),
    /// The configuration has no sessions ([`Config::sessions`](super::Config::sessions)).
    #[error("this server has no sessions")]
    NoSessions,
    /// The session is in this server already.
    #[error("the session is here already")]
    AlreadyHere,
    /// It is a session with another id, principal or revision.
    #[error("the record is that of another session")]
    OtherSession,
    /// The id of the session names another shard ([`Server::set_shard`]).
    #[error("the session belongs to shard {0}")]
    OtherShard(u8),
    /// The largest number of sessions, or of those of the principal, is reached. Sessions whose handshake is unfinished may
    /// have made room in vain.
    #[error("too many sessions")]
    Full,
    /// The server is [shutting down](Server::shutdown).
    #[error("the server is shutting down")]
    ShuttingDown,
}

/// What the streams of a session have for their client, beside the sent events that are kept.
#[derive(Default)]
struct Streams {
    /// Events of calls that were not taken, in the order of each stream.
    untaken: Vec<ReplayEntry>,
    /// Calls without an answer: number of the stream, number of its last event, and the id of the request.
    lost: Vec<(u32, u32, RequestId)>,
    /// Events of GET streams that were not taken, by stream and event.
    withdrawn: BTreeSet<(u32, u32)>,
    /// The messages of these, and those that no GET stream has.
    returned: Vec<Bytes>,
}

/// A session as it is written down.
pub(super) struct Snapshot<'a> {
    pub(super) id: &'a str,
    pub(super) principal: Option<&'a str>,
    pub(super) state: SessionState,
    pub(super) last_stream_number: u32,
    /// GET streams: number, and number of the last event.
    pub(super) get_streams: Vec<(u32, u32)>,
    /// Streams of calls without an answer: number, number of the last event, and the id of the request.
    pub(super) lost: Vec<(u32, u32, RequestId)>,
    pub(super) sent: Vec<ReplayEntry>,
    /// Messages that no GET stream has written.
    pub(super) returned: Vec<Bytes>,
}

/// The sessions of a server, to be written down and taken back ([`Server::snapshots`]).
///
/// Calls in flight are lost with the process, also those of tools that [may run again](super::SharedSessions::set_repeatable_tools):
/// only a store that processes share has their messages.
#[derive(Debug)]
pub struct Snapshots<'s> {
    server: &'s mut Server,
}

impl Server {
    /// Returns the sessions, to be written down and taken back.
    pub const fn snapshots(&mut self) -> Snapshots<'_> {
        Snapshots { server: self }
    }
}

impl Snapshots<'_> {
    /// Returns the ids of all sessions of Streamable HTTP, in no order; they are secrets (HTTP-065).
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        let sessions = &self.server.sessions;
        sessions.keys().map(|key| sessions.id(key)).collect()
    }

    /// Returns a session as bytes, for [`restore`](Self::restore) in another process.
    ///
    /// `None` for an unknown id, for a session that has ended, is about to end or has not been negotiated, and for one of
    /// HTTP+SSE, which ends with its stream.
    ///
    /// The session goes on here, and what happens in it after this call is unknown elsewhere. So pass nothing more in and send
    /// nothing more before the other server takes it: for a restart, stop reading, wait for the calls as long as you like, save all
    /// sessions, and drop the server. [`Server::shutdown`] ends sessions, so it comes too early.
    ///
    /// The bytes contain the id, which is a secret of the client, and the principal. They are about 100, what the client said
    /// of itself ([`Limits::max_peer_info`](crate::Limits::max_peer_info)), the URIs that it subscribes to, the events that
    /// are kept ([`Config::replay_bytes`](super::Config::replay_bytes)), and what its streams have not taken.
    pub fn save(&mut self, id: &str) -> Option<Vec<u8>> {
        let server = &mut *self.server;
        let key = server.sessions.find(id)?;
        let session =
            server.sessions.get(key).filter(|session| !session.is_http_sse && !session.is_ending)?;
        let channel = session.channel;
        let state = server.engine.exchanges().session_state(channel)?;
        let mut streams = Streams::default();
        collect_calls(server, key, channel, &mut streams);
        collect_get_streams(server, key, channel, &mut streams);
        let session = server.sessions.get(key)?;

        let get_streams = session.get_streams.as_ref().into_iter().flat_map(|all| &all.streams);
        let sent = session.replay_log.as_ref().into_iter().flat_map(|log| log.entries()).cloned();
        let sent = sent.map(|mut entry| {
            // One that goes to another stream keeps its number.
            if streams.withdrawn.contains(&(entry.stream, entry.event)) {
                entry.message = Bytes::new();
            }
            entry
        });
        let snapshot = Snapshot {
            id,
            principal: session.principal.as_deref(),
            state,
            last_stream_number: session.last_stream_number,
            get_streams: get_streams.map(|stream| (stream.number, stream.last_event)).collect(),
            lost: streams.lost,
            sent: sent.chain(streams.untaken).collect(),
            returned: streams.returned,
        };
        Some(snapshot.write())
    }

    /// Takes a session that [`save`](Self::save) wrote, here or in another process.
    ///
    /// Its client goes on with the id that it has. The session is reported as
    /// [`SessionOpened`](crate::server::Event::SessionOpened), if its handshake had ended; it has the party of its first
    /// request, and none before. All lists and resources that it subscribes to are announced as changed, once, because they
    /// may have changed meanwhile. Who resumes the stream of a call that had no answer gets an error. Subscriptions end that
    /// the configuration here does not allow.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`]. The bytes are checked as bytes of a stranger are, but nothing in them proves who wrote them: they
    /// name the principal of the session, so they must come from a place that no client can write to.
    pub fn restore(&mut self, now: Instant, snapshot: &[u8]) -> Result<(), SnapshotError> {
        self.server.tick(now);
        restore(self.server, Snapshot::read(snapshot)?).map(drop)
    }
}

/// Adds the session of a snapshot.
pub(super) fn restore(server: &mut Server, snapshot: Snapshot<'_>) -> Result<SessionKey, SnapshotError> {
    let built = server.config.sessions_marker().ok_or(SnapshotError::NoSessions)?;
    let version = snapshot.state.version;
    if !server.engine.config().legacy_versions().contains(version) {
        return Err(SnapshotError::VersionNotServed(version));
    }
    if server.engine.is_shutting_down() {
        return Err(SnapshotError::ShuttingDown);
    }
    // Whatever the number of shards was there: requests find only the one that their id names.
    if let Some(shard) = server.sessions.foreign_shard(snapshot.id.as_bytes()) {
        return Err(SnapshotError::OtherShard(shard));
    }
    if server.sessions.find(snapshot.id).is_some() {
        return Err(SnapshotError::AlreadyHere);
    }
    if !server.make_room_for_session(snapshot.principal) {
        return Err(SnapshotError::Full);
    }
    let channel = server.engine.open_channel(server.now).0;
    let key = server.begin_session(channel, snapshot.principal.map(Arc::from), built);
    server.sessions.set_id(key, snapshot.id, moved_ids);
    server.engine.exchanges().restore_session(channel, &snapshot.state);
    let budget = server.config.replay_budget();
    let Some(session) = server.sessions.get_mut(key) else { return Ok(key) };
    session.last_stream_number = session.last_stream_number.max(snapshot.last_stream_number);
    if !snapshot.get_streams.is_empty() || !snapshot.returned.is_empty() {
        let all = session.get_streams.get_or_insert_default(built);
        let closed = |&(number, last_event): &(u32, u32)| GetStream { number, last_event, exchange: None };
        let kept = server.config.max_get_streams_per_session.max(1);
        let latest = snapshot.get_streams.len().saturating_sub(kept);
        all.streams = snapshot.get_streams.iter().skip(latest).map(closed).collect();
        all.returned = snapshot.returned.into();
    }
    if !(snapshot.sent.is_empty() && snapshot.lost.is_empty()) {
        let memory = crate::server::memory(&server.engine);
        let log = session.replay_log(built);
        snapshot.sent.into_iter().for_each(|entry| log.push(entry, budget, memory));
        end_lost(snapshot.lost).for_each(|entry| log.push(entry, budget, memory));
    }
    Ok(key)
}

impl<'a> Snapshot<'a> {
    /// Reads what [`write`](Self::write) has written.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, SnapshotError> {
        match bytes.first() {
            Some(&FORMAT) => read(bytes).ok_or(SnapshotError::Malformed),
            Some(other) => Err(SnapshotError::UnknownFormat(*other)),
            None => Err(SnapshotError::Malformed),
        }
    }

    /// Returns the snapshot as bytes.
    pub(super) fn write(&self) -> Vec<u8> {
        let state = &self.state;
        let mut out = Vec::with_capacity(128 + state.info.len() + state.capabilities.len());
        out.push(FORMAT);
        out.extend_from_slice(self.id.as_bytes());
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let flags = flag(state.is_initialized, INITIALIZED)
            | flag(self.principal.is_some(), HAS_PRINCIPAL)
            | flag(state.log_level.is_some(), HAS_LEVEL);
        out.push(flags);
        put(&mut out, state.version.as_str().as_bytes());
        if let Some(principal) = self.principal {
            put(&mut out, principal.as_bytes());
        }
        out.extend(state.log_level);
        put(&mut out, &state.info);
        put(&mut out, &state.capabilities);
        put_number(&mut out, state.newest_request.into());
        put_number(&mut out, self.last_stream_number.into());
        put_number(&mut out, state.resources.len() as u64);
        state.resources.iter().for_each(|uri| put(&mut out, uri.as_bytes()));

        put_number(&mut out, self.get_streams.len() as u64);
        for (number, last_event) in &self.get_streams {
            put_number(&mut out, (*number).into());
            put_number(&mut out, (*last_event).into());
        }
        put_number(&mut out, self.lost.len() as u64);
        for (number, last_event, id) in &self.lost {
            put_number(&mut out, (*number).into());
            put_number(&mut out, (*last_event).into());
            let mut text = Vec::new();
            id.write(&mut text);
            put(&mut out, &text);
        }
        put_number(&mut out, self.sent.len() as u64);
        for entry in &self.sent {
            put_number(&mut out, entry.stream.into());
            put_number(&mut out, u64::from(entry.event) << 1 | u64::from(entry.is_last));
            put(&mut out, &entry.message);
        }
        put_number(&mut out, self.returned.len() as u64);
        self.returned.iter().for_each(|message| put(&mut out, message));
        out
    }
}

/// Collects what the streams of calls have not taken, and the calls that are lost.
fn collect_calls(server: &mut Server, key: SessionKey, channel: Key, streams: &mut Streams) {
    let Some(index) = server.sessions.get(key).map(HttpSession::exchanges) else { return };
    let unanswered = server.engine.exchanges().unanswered(channel);
    for exchange in server.exchanges.indexed(index) {
        let Some(x) = server.exchanges.get(exchange).filter(|x| x.place().number > 0) else { continue };
        let (Kind::Post, Some(stream)) = (x.kind, x.stream) else { continue };
        let (number, mut last_event) = (x.place().number, x.last_event);
        let lost = unanswered.iter().filter(|(owner, _)| *owner == exchange);
        let lost: Vec<&RequestId> = lost.map(|(_, id)| id).collect();
        let mut messages = server.engine.exchanges().unsent(stream).into_iter().peekable();
        while let Some(message) = messages.next() {
            last_event = last_event.saturating_add(1);
            let is_last = lost.is_empty() && messages.peek().is_none();
            streams.untaken.push(ReplayEntry { stream: number, event: last_event, is_last, message });
        }
        streams.lost.extend(lost.into_iter().map(|id| (number, last_event, id.clone())));
    }
}

/// Collects what no GET stream has taken, as if the connections of all of them had broken.
fn collect_get_streams(server: &mut Server, key: SessionKey, channel: Key, streams: &mut Streams) {
    let Some(session) = server.sessions.get(key) else { return };
    streams
        .returned
        .extend(session.get_streams.as_ref().into_iter().flat_map(|all| all.returned.iter().cloned()));
    for x in session.open_get_streams().filter_map(|exchange| server.exchanges.get(exchange)) {
        let unwritten = x.unwritten.as_ref().into_iter().flat_map(|unwritten| &unwritten.0);
        for event in unwritten.filter(|event| event.end > x.out.consumed()) {
            streams.withdrawn.insert((x.place().number, event.number));
            streams.returned.push(event.message.clone());
        }
    }
    streams.returned.extend(server.engine.exchanges().unsent(channel));
    // The other server announces all changes anyway.
    streams.returned.retain(|message| !is_change(message));
}

/// Returns the events that end the streams of calls that were lost, each request with an error.
fn end_lost(lost: Vec<(u32, u32, RequestId)>) -> impl Iterator<Item = ReplayEntry> {
    let mut rest = lost.into_iter().peekable();
    let mut sent_of_stream = 0;
    core::iter::from_fn(move || {
        let (stream, last_event, id) = rest.next()?;
        // The requests of a batch share a stream.
        let is_last = rest.peek().is_none_or(|(next, ..)| *next != stream);
        sent_of_stream += 1;
        let event = last_event.saturating_add(sent_of_stream);
        if is_last {
            sent_of_stream = 0;
        }
        Some(ReplayEntry { stream, event, is_last, message: lost_call(&id) })
    })
}

/// Returns the answer to a request whose call was lost.
pub(super) fn lost_call(id: &RequestId) -> Bytes {
    let error = RpcError::internal("the call was lost when the process that served it ended");
    let mut message = Vec::new();
    rpc::error(&mut message, Some(id), &error);
    // The newline frames messages of a byte stream.
    message.pop();
    message.into()
}

/// Returns whether a message announces a change that a session is subscribed to.
pub(super) fn is_change(message: &[u8]) -> bool {
    let mut is_change = false;
    object_members(message, |name, value| {
        let method = Some(value).filter(|_| name == b"method").and_then(string);
        is_change |= method.is_some_and(|method| {
            matches!(
                &*method,
                methods::TOOLS_CHANGED
                    | methods::PROMPTS_CHANGED
                    | methods::RESOURCES_CHANGED
                    | methods::RESOURCE_UPDATED
            )
        });
    });
    is_change
}

/// Reads a snapshot whose format is known.
fn read(bytes: &[u8]) -> Option<Snapshot<'_>> {
    let from = &mut bytes.get(1..)?;
    let id;
    (id, *from) = from.split_at_checked(session::ID_LEN)?;
    let id = core::str::from_utf8(id).ok().filter(|id| session::is_id(id))?;
    let flags;
    (flags, *from) = from.split_first()?;
    if *flags > INITIALIZED | HAS_PRINCIPAL | HAS_LEVEL {
        return None;
    }
    let version = Version::from_name(text(from)?)?;
    let principal = if flags & HAS_PRINCIPAL != 0 { Some(text(from)?) } else { None };
    let log_level = if flags & HAS_LEVEL != 0 {
        let level;
        (level, *from) = from.split_first()?;
        Some(*level).filter(|level| *level <= 7).map(Some)?
    } else {
        None
    };
    let (info, capabilities) = (object(part(from)?)?, object(part(from)?)?);
    let newest_request = counter(from)?;
    let last_stream_number = counter(from)?;
    let state = SessionState {
        version,
        is_initialized: flags & INITIALIZED != 0,
        info,
        capabilities,
        log_level,
        resources: list(from, 1, |from| text(from).map(Arc::from))?,
        newest_request,
    };
    let get_streams = list(from, 2, |from| Some((stream_number(from, last_stream_number)?, counter(from)?)))?;
    let mut lost = list(from, 3, |from| {
        let place = (stream_number(from, last_stream_number)?, counter(from)?);
        let id = one_line(part(from)?)?;
        Some((place.0, place.1, RequestId::from_json(&id, id.len())?))
    })?;
    lost.sort_by_key(|(stream, ..)| *stream);
    let sent = list(from, 3, |from| {
        let (stream, event) = (stream_number(from, last_stream_number)?, number(from)?);
        let (event, is_last) = (u32::try_from(event >> 1).ok().filter(is_counter)?, event & 1 == 1);
        let message = part(from)?;
        // One that was sent on another stream is empty.
        let message = if message.is_empty() { Bytes::new() } else { object(message)? };
        Some(ReplayEntry { stream, event, is_last, message })
    })?;
    let returned = list(from, 1, |from| object(part(from)?))?;
    from.is_empty().then_some(Snapshot {
        id,
        principal,
        state,
        last_stream_number,
        get_streams,
        lost,
        sent,
        returned,
    })
}

/// Reads a list whose elements have at least `least` bytes each.
fn list<'a, T>(
    from: &mut &'a [u8],
    least: usize,
    mut element: impl FnMut(&mut &'a [u8]) -> Option<T>,
) -> Option<Vec<T>> {
    let count = usize::try_from(number(from)?).ok()?;
    // This bounds the allocation by the input.
    if count > from.len() / least {
        return None;
    }
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        all.push(element(from)?);
    }
    Some(all)
}

/// Reads a number that counts something which a server does, one after the other.
fn counter(from: &mut &[u8]) -> Option<u32> {
    u32::try_from(number(from)?).ok().filter(is_counter)
}

/// Returns whether a server can have counted so far, and can go on.
const fn is_counter(n: &u32) -> bool {
    *n < u32::MAX / 2
}

/// Reads the number of a stream, which is one that the session has given.
fn stream_number(from: &mut &[u8], last: u32) -> Option<u32> {
    counter(from).filter(|number| (1..=last).contains(number))
}

/// Checks that a text is one JSON object, or an array, on one line.
fn object(text: &[u8]) -> Option<Bytes> {
    one_line(text).filter(|text| matches!(&**text, [b'{', .., b'}'] | [b'[', .., b']']))
}

/// Checks that a text is JSON on one line, as an event of a stream is.
fn one_line(text: &[u8]) -> Option<Bytes> {
    let is_one_line = !text.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
    let text = Bytes::copy_from_slice(text);
    (is_one_line && RawJson::new(text.clone()).is_ok()).then_some(text)
}

// Sessions whose id names a slot of another table.

/// The sessions that came from another table, whose ids name the slots that they had there.
///
/// A trait object, so that a program that restores no sessions is linked without the maps.
pub(super) trait MovedIds: Debug + Send + Sync {
    fn insert(&mut self, slot: u32, session: Key);
    fn remove(&mut self, session: Key);
    /// Returns the slot in the id of a session that came from another table.
    fn slot(&self, session: Key) -> Option<u32>;
    /// Returns the session with a slot in its id that `is_it` accepts.
    fn find(&self, slot: u32, is_it: &dyn Fn(Key) -> bool) -> Option<Key>;
}

#[derive(Debug, Default)]
struct IdMaps {
    slots: BTreeMap<Key, u32>,
    sessions: BTreeSet<(u32, Key)>,
}

impl MovedIds for IdMaps {
    fn insert(&mut self, slot: u32, session: Key) {
        self.slots.insert(session, slot);
        self.sessions.insert((slot, session));
    }

    fn remove(&mut self, session: Key) {
        if let Some(slot) = self.slots.remove(&session) {
            self.sessions.remove(&(slot, session));
        }
    }

    fn slot(&self, session: Key) -> Option<u32> {
        self.slots.get(&session).copied()
    }

    fn find(&self, slot: u32, is_it: &dyn Fn(Key) -> bool) -> Option<Key> {
        let first = Key { slot: 0, generation: 0 };
        let same_slot = self.sessions.range((slot, first)..).take_while(|(other, _)| *other == slot);
        same_slot.map(|(_, session)| *session).find(|session| is_it(*session))
    }
}

fn moved_ids() -> Box<dyn MovedIds> {
    Box::new(IdMaps::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// The largest number that a server can have counted to.
    const MOST: u32 = u32::MAX / 2 - 1;

    fn snapshot() -> Snapshot<'static> {
        Snapshot {
            id: "AAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            principal: Some("alice"),
            state: SessionState {
                version: Version::V2025_11_25,
                is_initialized: true,
                info: Bytes::from_static(b"{}"),
                capabilities: Bytes::from_static(b"{}"),
                log_level: Some(7),
                resources: vec!["tide:1".into()],
                newest_request: MOST,
            },
            last_stream_number: MOST,
            get_streams: vec![(1, MOST)],
            lost: vec![(MOST, 3, RequestId::from_json(b"5", 1).expect("an id"))],
            sent: vec![ReplayEntry {
                stream: 2,
                event: MOST,
                is_last: true,
                message: Bytes::from_static(b"{}"),
            }],
            returned: vec![Bytes::from_static(b"[]")],
        }
    }

    #[test]
    fn snapshot_is_read_as_it_was_written() {
        let changes: [fn(&mut Snapshot<'_>); 4] = [
            |_| {},
            |snapshot| snapshot.principal = None,
            |snapshot| snapshot.state.log_level = None,
            |snapshot| (snapshot.state.is_initialized, snapshot.sent[0].is_last) = (false, false),
        ];
        for change in changes {
            let mut snapshot = snapshot();
            change(&mut snapshot);
            let bytes = snapshot.write();
            assert_eq!(Snapshot::read(&bytes).map(|read| read.write()), Ok(bytes.clone()));
        }
    }

    #[test]
    fn snapshot_that_no_server_writes_is_malformed() {
        let changes: [fn(&mut Snapshot<'_>); 10] = [
            // Numbers that could not go on.
            |snapshot| snapshot.state.newest_request = MOST + 1,
            |snapshot| snapshot.last_stream_number = MOST + 1,
            |snapshot| snapshot.get_streams[0].1 = MOST + 1,
            |snapshot| snapshot.sent[0].event = MOST + 1,
            // Streams that were never begun.
            |snapshot| snapshot.get_streams[0].0 = 0,
            |snapshot| (snapshot.last_stream_number, snapshot.lost[0].0) = (7, 8),
            // JSON on two lines, on one line that is none, and that is no object.
            |snapshot| snapshot.state.info = Bytes::from_static(b"{\n}"),
            |snapshot| snapshot.returned[0] = Bytes::from_static(b"{x}"),
            |snapshot| snapshot.state.capabilities = Bytes::from_static(b"1"),
            |snapshot| snapshot.state.log_level = Some(8),
        ];
        for (n, change) in changes.into_iter().enumerate() {
            let mut snapshot = snapshot();
            change(&mut snapshot);
            assert_eq!(Snapshot::read(&snapshot.write()).err(), Some(SnapshotError::Malformed), "{n}");
        }
        let mut flags = snapshot().write();
        flags[1 + session::ID_LEN] = 8;
        assert_eq!(Snapshot::read(&flags).err(), Some(SnapshotError::Malformed));
    }

    #[test]
    fn session_that_has_ended_leaves_no_entry_of_its_old_slot() {
        let (mut maps, key) = (IdMaps::default(), Key { slot: 0, generation: 1 });
        maps.insert(3, key);
        assert_eq!((maps.slot(key), maps.find(3, &|_| true)), (Some(3), Some(key)));
        maps.remove(key);
        assert!(maps.slots.is_empty() && maps.sessions.is_empty());
    }
}

#[cfg(test)]
#[path = "../../exhaustive/snapshots.rs"]
mod exhaustive_tests;
