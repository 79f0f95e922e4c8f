//! Legacy sessions: ids, owners and expiry (HTTP-064 to HTTP-075, SEC-005).

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use subtle::{Choice, ConstantTimeEq};

use super::exchange_table::{
    ExchangeTable, ResponseForm, ServerExchange, SessionKey, SessionPlace, SessionUse,
};
use super::principals::{PrincipalSessions, SessionsOfPrincipal, queue_uninitialized};
use super::resumption::{GetStreams, ReplayEntry, ReplayLog};
use super::snapshot::MovedIds;
use super::{MIN_CHECK_INTERVAL, Server, shared};
use crate::built::{Authorizing, Part, Sessions};
use crate::entropy::Entropy;
use crate::head::Fields;
use crate::http::fields;
use crate::server::Engine;
use crate::short_base64::URL_SAFE;
use crate::slab::tree::Tree;
use crate::slab::{Key, Slab};
use crate::sync::Arc;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::Version;

/// Number of unpredictable bytes in an id (HTTP-065).
const SECRET_LEN: usize = 18;
/// Number of bytes before them, which hold the slot of the session.
const SLOT_LEN: usize = 3;
/// Lengths of both parts in Base64, where neither shares a character with the other.
const SLOT_TEXT_LEN: usize = SLOT_LEN / 3 * 4;
const SECRET_TEXT_LEN: usize = SECRET_LEN / 3 * 4;
/// Length of an id.
pub(super) const ID_LEN: usize = SLOT_TEXT_LEN + SECRET_TEXT_LEN;
const _: () = assert!(SECRET_TEXT_LEN % 8 == 0, "it is compared in words");

/// The session of a legacy client.
#[derive(Debug)]
pub(super) struct HttpSession {
    _built: Sessions,
    secret: SessionSecret,
    /// The engine's channel: its ids, its peer, and its messages outside of calls.
    pub(super) channel: Key,
    pub(super) principal: Option<Arc<str>>,
    /// Time at which a request arrived last, or a call or a GET stream ended.
    pub(super) last_seen: Instant,
    /// A session of HTTP+SSE, which is unknown at the endpoint.
    pub(super) is_http_sse: bool,
    /// The token of its stream has expired: running calls are answered, and there are no others.
    pub(super) is_ending: bool,
    /// What is known of its record in a store, if there is one.
    pub(super) record: Option<Box<RecordState>>,
    /// The GET streams, from the first one on.
    pub(super) get_streams: Part<Sessions, GetStreams>,
    /// Its exchanges that have a stream number or count as a call, ordered by number, calls first.
    exchanges: Tree,
    /// Number of open calls.
    call_count: u32,
    /// The highest stream number in use.
    pub(super) last_stream_number: u32,
    /// Sent events, for resumption.
    pub(super) replay_log: Part<Sessions, ReplayLog>,
}

impl HttpSession {
    /// Returns the number of open calls.
    pub(super) const fn call_count(&self) -> u32 {
        self.call_count
    }

    /// Returns the index of the exchanges.
    pub(super) const fn exchanges(&self) -> &Tree {
        &self.exchanges
    }

    /// Returns the number of a new stream.
    pub(super) const fn next_stream_number(&mut self) -> u32 {
        self.last_stream_number = self.last_stream_number.saturating_add(1);
        self.last_stream_number
    }
}

/// What a process knows of the record of a session that other processes serve, too.
#[derive(Debug, Default)]
pub(super) struct RecordState {
    /// The version that the session has here; 0 if it is not stored yet.
    pub(super) version: u64,
    /// The latest version that other processes have told of.
    pub(super) newest: u64,
    /// Other processes may have told of a later one.
    pub(super) is_uncertain: bool,
    /// When its id expires, if that carries its identity.
    pub(super) expires: Option<Instant>,
}

/// The unpredictable part of an id, as its text: requests are compared with it. Not shown by `Debug` (SEC-019).
struct SessionSecret([u8; SECRET_TEXT_LEN]);

impl SessionSecret {
    /// Compares the text with another one, in a time that does not depend on where they differ.
    fn is(&self, text: &[u8]) -> bool {
        // The length is no secret: all ids have the same.
        let Ok(text) = <&[u8; SECRET_TEXT_LEN]>::try_from(text) else { return false };
        let words = self.0.chunks_exact(8).zip(text.chunks_exact(8));
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        words.fold(Choice::from(1), |same, (a, b)| same & word(a).ct_eq(&word(b))).into()
    }
}

impl core::fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("SessionSecret(…)")
    }
}

/// The outcome of a session lookup.
pub(super) enum SessionLookup {
    Session(SessionKey),
    Missing,
    /// Unknown, or a session of another principal; a client cannot tell the difference.
    Unknown,
}

#[derive(Debug, Default)]
pub(super) struct SessionTable {
    /// The index of this shard, and the number of shards.
    shard: Option<(u8, u8)>,
    table: Slab<HttpSession>,
    /// Sessions whose handshake may be unfinished, oldest first; may contain stale keys.
    uninitialized: VecDeque<SessionKey>,
    /// Sessions of each principal; `None` without tokens.
    principals: Part<Authorizing, PrincipalSessions>,
    /// Time at which expired sessions are looked for; `None` while there are no sessions.
    check_at: Option<Instant>,
    /// Those that were restored; `None` before the first one.
    moved: Option<Box<dyn MovedIds>>,
}

/// Returns whether a text has the form of an id.
pub(super) fn is_id(text: &str) -> bool {
    let groups = text.as_bytes().chunks(4);
    text.len() == ID_LEN
        && groups.filter_map(|group| group.try_into().ok()).all(|group| URL_SAFE.decode(group).is_some())
}

impl SessionTable {
    /// Counts the sessions of each principal from now on.
    pub(super) fn count_principals(&mut self) {
        self.principals.get_or_make(PrincipalSessions::default);
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn get(&self, session: SessionKey) -> Option<&HttpSession> {
        self.table.get(session.key)
    }

    pub(super) fn get_mut(&mut self, session: SessionKey) -> Option<&mut HttpSession> {
        self.table.get_mut(session.key)
    }

    /// Returns the session with an id; the comparison of the secret takes constant time.
    pub(super) fn find(&self, id: impl AsRef<[u8]>) -> Option<SessionKey> {
        let built = Sessions::get()?;
        let (slot, secret) = id.as_ref().split_first_chunk::<SLOT_TEXT_LEN>()?;
        let [a, b, c] = URL_SAFE.decode(*slot)?;
        // The slot only finds the entry and proves nothing. The comparison of the secret does.
        let slot = u32::from_be_bytes([0, a, b, c]);
        let is_it = |key: Key| self.table.get(key).is_some_and(|session| session.secret.is(secret));
        let has_moved = |key| self.moved.as_ref().is_some_and(|moved| moved.slot(key).is_some());
        let key = self.table.key_at(slot).filter(|key| is_it(*key) && !has_moved(*key));
        let key = key.or_else(|| self.moved.as_ref()?.find(slot, &is_it))?;
        Some(SessionKey::new(key, built))
    }

    /// Returns the keys of all sessions that are known at the endpoint.
    pub(super) fn keys(&self) -> impl Iterator<Item = SessionKey> {
        let known = self.table.iter().filter(|(_, session)| !session.is_http_sse);
        known.filter_map(|(key, _)| SessionKey::from_engine(key))
    }

    /// Gives a new session the id that it had in another table.
    pub(super) fn set_id(&mut self, session: SessionKey, id: &str, moved_ids: fn() -> Box<dyn MovedIds>) {
        let Some((slot, secret)) = id.as_bytes().split_first_chunk::<SLOT_TEXT_LEN>() else { return };
        let (Some([a, b, c]), Ok(secret)) = (URL_SAFE.decode(*slot), secret.try_into()) else { return };
        if let Some(record) = self.table.get_mut(session.key) {
            record.secret = SessionSecret(secret);
            let moved = self.moved.get_or_insert_with(moved_ids);
            moved.insert(u32::from_be_bytes([0, a, b, c]), session.key);
        }
    }

    /// Returns the shard that an id names, if it is another one of those that there are.
    pub(super) fn other_shard(&self, id: &[u8]) -> Option<u8> {
        let (_, all) = self.shard?;
        // A forged id can name a shard that does not exist; then this one answers 404.
        self.foreign_shard(id).filter(|shard| *shard < all)
    }

    /// Returns the shard that an id names, if there are several and it is not this one.
    pub(super) fn foreign_shard(&self, id: &[u8]) -> Option<u8> {
        let (own, _) = self.shard?;
        let (_, secret) = id.split_first_chunk::<SLOT_TEXT_LEN>()?;
        let [shard, ..] = URL_SAFE.decode(*secret.first_chunk()?)?;
        // An identity may follow.
        (secret.len() >= SECRET_TEXT_LEN && shard != own).then_some(shard)
    }

    /// Returns the index of this shard and the number of shards, if there are several.
    pub(super) const fn shard(&self) -> Option<(u8, u8)> {
        self.shard
    }

    pub(super) const fn is_sharded(&self) -> bool {
        self.shard.is_some()
    }

    pub(super) const fn set_shard(&mut self, shard: u8, all: u8) {
        self.shard = Some((shard, all));
    }

    /// Returns the id of a session (HTTP-066).
    pub(super) fn id(&self, session: SessionKey) -> String {
        let moved = self.moved.as_ref().and_then(|moved| moved.slot(session.key));
        let [_, a, b, c] = moved.unwrap_or(session.key.slot).to_be_bytes();
        let secret = self.get(session).map(|session| session.secret.0.iter());
        let text = URL_SAFE.encode([a, b, c]).into_iter().chain(secret.into_iter().flatten().copied());
        text.map(char::from).collect()
    }

    #[allow(unused_variables, reason = "unreachable without the feature `sessions`")]
    fn insert(
        &mut self,
        now: Instant,
        channel: Key,
        principal: Option<Arc<str>>,
        entropy: &mut Entropy,
        built: Sessions,
    ) -> SessionKey {
        let mut secret = [0; SECRET_LEN];
        entropy.fill(&mut secret);
        if let (Some((own, _)), Some(shard_byte)) = (self.shard, secret.first_mut()) {
            // The remaining 17 bytes are still unguessable.
            *shard_byte = own;
        }
        let mut text = [0; SECRET_TEXT_LEN];
        for (group, text) in secret.chunks_exact(3).zip(text.chunks_exact_mut(4)) {
            if let (&[a, b, c], Ok(text)) = (group, <&mut [u8; 4]>::try_from(text)) {
                *text = URL_SAFE.encode([a, b, c]);
            }
        }
        let key = self.table.insert(HttpSession {
            _built: built,
            secret: SessionSecret(text),
            channel,
            principal,
            last_seen: now,
            is_http_sse: false,
            is_ending: false,
            record: None,
            get_streams: Part::NONE,
            exchanges: Tree::new(),
            call_count: 0,
            last_stream_number: 0,
            replay_log: Part::NONE,
        });
        let session = SessionKey::new(key, built);
        let Self { table, principals, uninitialized, .. } = self;
        let is_known = |session: SessionKey| table.get(session.key).is_some();
        let principal = table.get(key).and_then(|session| session.principal.as_deref());
        if let (Some(principal), Some(principals)) = (principal, principals.as_mut()) {
            principals.add(principal, session, &is_known);
        }
        queue_uninitialized(uninitialized, session, table.len(), &is_known);
        session
    }

    fn principal_sessions(&mut self, principal: &str) -> Option<&mut SessionsOfPrincipal> {
        self.principals.as_mut()?.of(principal)
    }

    fn remove(&mut self, session: SessionKey) -> Option<HttpSession> {
        if let Some(moved) = &mut self.moved {
            moved.remove(session.key);
        }
        let session = self.table.remove(session.key)?;
        if let (Some(principal), Some(principals)) = (&session.principal, self.principals.as_mut()) {
            principals.remove(principal);
        }
        // The queue may hold stale keys for as long as there are other sessions.
        if self.table.is_empty() {
            self.uninitialized = VecDeque::new();
            self.check_at = None;
        }
        Some(session)
    }

    /// Releases the memory of many closed sessions.
    fn trim(&mut self) {
        self.table.trim();
    }

    // ---- time ------------------------------------------------------------------------------------------------

    /// Sets the time of the next check, if there is none.
    fn schedule_check(&mut self, now: Instant, idle_timeout: Duration) {
        self.check_at.get_or_insert_with(|| now + (idle_timeout / 16).max(MIN_CHECK_INTERVAL));
    }

    /// Returns the time of the next check, if there are sessions.
    pub(super) const fn next_deadline(&self) -> Option<Instant> {
        self.check_at
    }

    fn is_check_due(&self, now: Instant) -> bool {
        self.check_at.is_some_and(|at| at <= now)
    }

    /// Returns the sessions that have been idle for `idle_timeout`, if it is time to look for them.
    pub(super) fn take_expired(&mut self, now: Instant, idle_timeout: Duration) -> Vec<SessionKey> {
        let Some(built) = Sessions::get().filter(|_| self.is_check_due(now)) else {
            return Vec::new();
        };
        self.check_at = None;
        let is_expired = |s: &HttpSession| {
            !s.has_open_get_stream() && s.call_count == 0 && s.last_seen + idle_timeout <= now
        };
        // All sessions are walked, but only 16 times within an idle timeout, so no order of expiry is kept.
        let expired = self.table.iter().filter(|(_, s)| is_expired(s));
        let expired: Vec<SessionKey> = expired.map(|(key, _)| SessionKey::new(key, built)).collect();
        // The last session that is removed takes this time with it.
        self.schedule_check(now, idle_timeout);
        expired
    }

    // ---- what the engine knows ---------------------------------------------------------------------------------

    /// Returns the revision of a session.
    pub(super) fn version(&self, engine: &Engine, session: SessionKey) -> Option<Version> {
        let channel = self.get(session)?.channel;
        engine.session_status(ChannelId(channel)).map(|status| status.version)
    }

    pub(super) fn is_uninitialized(&self, engine: &Engine, session: SessionKey) -> bool {
        let channel = self.get(session).map(|s| s.channel);
        channel.and_then(|c| engine.session_status(ChannelId(c))).is_some_and(|status| !status.is_initialized)
    }

    // ---- exchanges of a session ------------------------------------------------------------------------------

    /// Adds the id to the response that announces the session (HTTP-064).
    #[inline]
    pub(super) fn push_id(&self, x: &ServerExchange, fields: &mut Fields) {
        if let Some(session) = x.session().filter(|_| x.session_use == SessionUse::Begins) {
            fields.push(fields::SESSION_ID, self.id(session).as_bytes());
        }
    }

    fn session_of(&mut self, exchanges: &ExchangeTable, key: Key) -> Option<&mut HttpSession> {
        self.get_mut(exchanges.get(key)?.session()?)
    }

    /// Counts an exchange as an open call of its session, if it has one.
    pub(super) fn begin_call(&mut self, exchanges: &mut ExchangeTable, key: Key) {
        if let Some(session) = self.session_of(exchanges, key) {
            session.call_count += 1;
            exchanges.begin_call(&mut session.exchanges, key);
        }
    }

    /// Ends the count of an exchange as an open call; its session may have ended.
    pub(super) fn end_call(&mut self, exchanges: &mut ExchangeTable, key: Key) {
        let session = self.session_of(exchanges, key).map(|session| {
            session.call_count = session.call_count.saturating_sub(1);
            &mut session.exchanges
        });
        exchanges.end_call(session, key);
    }

    /// Changes the place of an exchange. A call that moves to another exchange is counted on.
    pub(super) fn set_place(&mut self, exchanges: &mut ExchangeTable, key: Key, place: SessionPlace) {
        // The index is ordered by the place, so it is left before that changes.
        self.remove_exchange(exchanges, key);
        exchanges.set_place(key, place);
        if let Some(session) = place.session.and_then(|s| self.get_mut(s)) {
            exchanges.index(&mut session.exchanges, key);
        }
    }

    /// Removes an exchange from the index of its session, which may have ended.
    pub(super) fn remove_exchange(&mut self, exchanges: &mut ExchangeTable, key: Key) {
        if exchanges.is_indexed(key) {
            let session = self.session_of(exchanges, key);
            exchanges.unindex(session.map(|session| &mut session.exchanges), key);
        }
    }

    /// Returns the exchange of the call whose stream has a number.
    pub(super) fn find_call(
        &mut self,
        exchanges: &mut ExchangeTable,
        session: SessionKey,
        number: u32,
    ) -> Option<Key> {
        exchanges.find_call(&mut self.get_mut(session)?.exchanges, number)
    }

    /// Returns the events after `event` of a stream, or `None` if some were evicted.
    pub(super) fn missed_events(
        &mut self,
        exchanges: &mut ExchangeTable,
        session: SessionKey,
        number: u32,
        event: u32,
    ) -> Option<Vec<ReplayEntry>> {
        let record = self.get_mut(session)?;
        let newest = record.get_stream(number).map(|stream| stream.last_event);
        let newest = match newest {
            None => self
                .find_call(exchanges, session, number)
                .and_then(|call| exchanges.get(call))
                .map(|x| x.last_event),
            newest => newest,
        };
        match self.get(session)?.replay_log.as_ref() {
            Some(log) => log.events_after(number, event, newest),
            // Only the priming event was sent.
            None => (newest == Some(event)).then(Vec::new),
        }
    }

    /// Drops the unsent output of a stream that is resumed.
    ///
    /// The output is in the replay log and goes to the new connection only (HTTP-055).
    pub(super) fn discard_unsent(&mut self, exchanges: &mut ExchangeTable, session: SessionKey, number: u32) {
        if number == 0 {
            return; // not an event stream yet
        }
        let mut found = Vec::new();
        // The loop ends, because each turn takes one exchange out of the index.
        while let Some(session) = self.get_mut(session) {
            let Some(key) = exchanges.find_stream(&mut session.exchanges, number) else { break };
            exchanges.unindex(Some(&mut session.exchanges), key);
            found.push(key);
        }
        for key in found {
            let Some(x) = exchanges.get_mut(key) else { continue };
            let (place, is_stream) = (x.place(), x.form == ResponseForm::EventStream);
            if is_stream {
                x.out.clear();
                x.unwritten = Part::NONE;
            }
            // One that has ended has nothing left to discard.
            if !x.output_complete {
                self.set_place(exchanges, key, place);
            }
            if is_stream {
                exchanges.mark_ready(key);
            }
        }
    }
}

impl Server {
    /// Returns the session that a request names, if it belongs to the principal of the request.
    pub(super) fn find_session(&mut self, exchange: Key) -> SessionLookup {
        let Some(x) = self.exchanges.get(exchange) else { return SessionLookup::Unknown };
        let id = match x.headers.session() {
            Ok(None) => return SessionLookup::Missing,
            Ok(Some(id)) => id,
            // A repeated field could name two sessions, so it names none.
            Err(()) => return SessionLookup::Unknown,
        };
        let Some(key) = self.sessions.find(id) else { return SessionLookup::Unknown };
        let now = self.now;
        match self.sessions.get_mut(key) {
            // SEC-005: the session id alone does not authenticate.
            Some(session) if session.principal.as_deref() == x.principal() && !session.is_http_sse => {
                if !self.engine.is_shutting_down()
                    && self.engine.exchange_status(ChannelId(session.channel)).is_closed
                {
                    // The application closed the channel (HTTP-070).
                    self.end_session(key);
                    return SessionLookup::Unknown;
                }
                // Any request in the session is a sign of life of its client.
                session.last_seen = now;
                self.engine.record_input(now, ChannelId(session.channel));
                SessionLookup::Session(key)
            }
            _ => SessionLookup::Unknown,
        }
    }

    /// Returns whether there is room for one more session, after evicting unfinished ones if needed (DESIGN-14).
    pub(super) fn make_room_for_session(&mut self, principal: Option<&str>) -> bool {
        // A principal at its limit loses a session of its own.
        while let Some(share) = principal.and_then(|p| self.sessions.principal_sessions(p)) {
            if share.count < self.config.max_sessions_per_principal {
                break;
            }
            // Sessions with a finished handshake are never evicted: they may have calls (DESIGN-14).
            let Some(oldest) = share.uninitialized.pop_front() else { return false };
            if self.sessions.is_uninitialized(&self.engine, oldest) {
                drop_session(self, oldest);
            }
        }
        // An id has three bytes for the slot.
        let limit = self.config.max_sessions.min((1 << 24) - 1);
        while self.sessions.len() >= limit {
            let Some(oldest) = self.sessions.uninitialized.pop_front() else { return false };
            if self.sessions.is_uninitialized(&self.engine, oldest) {
                drop_session(self, oldest);
            }
        }
        // Finished sessions at the front are removed, so that the queue stays short.
        while let Some(first) = self.sessions.uninitialized.front().copied() {
            if self.sessions.is_uninitialized(&self.engine, first) {
                break;
            }
            self.sessions.uninitialized.pop_front();
        }
        true
    }

    #[allow(unused_variables, reason = "unreachable without the feature `sessions`")]
    pub(super) fn begin_session(
        &mut self,
        channel: Key,
        principal: Option<Arc<str>>,
        built: Sessions,
    ) -> SessionKey {
        self.sessions.schedule_check(self.now, self.config.session_idle_timeout);
        let session = self.sessions.insert(self.now, channel, principal, &mut self.entropy, built);
        self.engine.exchanges().mark_session(channel, session.key);
        if let (Some(sharing), Some(record)) = (self.sharing.as_ref(), self.sessions.get_mut(session)) {
            record.last_stream_number = (sharing.functions.streams_begin_after)(sharing);
        }
        session
    }

    /// Ends a session everywhere (HTTP-070).
    pub(super) fn end_session(&mut self, session: SessionKey) {
        let is_shared = self.sessions.get(session).is_some_and(|session| !session.is_http_sse);
        if let Some(sharing) = shared::functions(self).filter(|_| is_shared) {
            (sharing.end)(self, session, None);
        }
        drop_session(self, session);
    }
}

/// Ends a session here: cancels its calls, ends its streams, and invalidates its id (HTTP-070, SSE-027).
pub(super) fn drop_session(server: &mut Server, session: SessionKey) {
    let Some(ending) = server.sessions.get(session) else { return };
    let calls: Vec<Key> = server.exchanges.indexed(&ending.exchanges);
    if let Some(sharing) = shared::functions(server) {
        // A store that has the messages of calls lets them go, under an id that is still known.
        for exchange in &calls {
            (sharing.hold_answer)(server, *exchange);
        }
    }
    // The session is removed first: its id is invalid while its streams and calls still end.
    let Some(session) = server.sessions.remove(session) else { return };
    for exchange in session.open_get_streams() {
        server.finish(exchange);
    }
    // With its channel all calls of the session end. One after the other, their streams would look for them.
    server.engine.exchanges().remove(server.now, session.channel);
    for exchange in calls {
        if server.exchanges.get(exchange).is_some_and(|x| x.place().is_call) {
            // Requests that waited for its tasks have an answer.
            server.fill_response(exchange);
            if server.exchanges.get(exchange).is_some_and(|x| !x.output_complete) {
                server.finish(exchange);
            }
        }
    }
}

/// Removes sessions that were idle for `session_idle_timeout`.
pub(super) fn expire_sessions(server: &mut Server) {
    if let Some(sharing) = shared::functions(server).filter(|_| server.sessions.is_check_due(server.now)) {
        (sharing.report_used)(server);
    }
    let expired = server.sessions.take_expired(server.now, server.config.session_idle_timeout);
    for key in &expired {
        // Another process may have used it.
        drop_session(server, *key);
    }
    if !expired.is_empty() {
        server.sessions.trim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    // covers: HTTP-065, HTTP-066, SEC-005
    #[test]
    fn session_id_is_found_and_altered_id_is_not() {
        let mut entropy = Entropy::new([7; 32], 0);
        let mut sessions = SessionTable::default();
        let channel = Key { slot: 0, generation: 0 };
        let keys: Vec<SessionKey> =
            (0..300).map(|_| sessions.insert(Instant::ZERO, channel, None, &mut entropy, Sessions)).collect();
        for key in &keys {
            let id = sessions.id(*key);
            assert!(id.len() == 28 && id.bytes().all(|b| (0x21..=0x7e).contains(&b)));
            assert_eq!(sessions.find(&id), Some(*key));
            for at in 0..id.len() {
                let mut other = id.clone().into_bytes();
                other[at] = if other[at] == b'A' { b'B' } else { b'A' };
                assert_ne!(sessions.find(core::str::from_utf8(&other).expect("ASCII")), Some(*key), "{at}");
            }
            assert_eq!(sessions.find(&id[..27]), None);
            assert_eq!(sessions.find(&(id + "A")), None);
        }
        let id = sessions.id(keys[5]);
        assert!(sessions.remove(keys[5]).is_some());
        assert_eq!(sessions.find(&id), None);
        sessions.insert(Instant::ZERO, channel, None, &mut entropy, Sessions);
        assert_eq!(sessions.find(&id), None, "its slot now holds another session");
        assert_eq!(sessions.find(""), None);
    }

    #[test]
    fn session_id_names_its_shard() {
        let channel = Key { slot: 0, generation: 0 };
        let shards = [0, 1, 2].map(|own| {
            let mut sessions = SessionTable::default();
            sessions.set_shard(own, 3);
            let mut entropy = Entropy::new([7; 32], own.into());
            let key = sessions.insert(Instant::ZERO, channel, None, &mut entropy, Sessions);
            (own, sessions.id(key), sessions, key)
        });
        for (own, id, sessions, key) in &shards {
            assert_eq!((sessions.find(id), sessions.other_shard(id.as_bytes())), (Some(*key), None));
            for (other, id, ..) in shards.iter().filter(|(other, ..)| other != own) {
                assert_eq!((sessions.find(id), sessions.other_shard(id.as_bytes())), (None, Some(*other)));
            }
            for bad in ["", "AAAAAQAA", "not an id", "AAAAA_AAAAAAAAAAAAAAAAAAAAAA"] {
                assert_eq!(sessions.other_shard(bad.as_bytes()), None);
            }
        }
        assert_eq!(SessionTable::default().other_shard(shards[1].1.as_bytes()), None);
    }

    #[test]
    fn request_for_another_shard_is_not_consumed() {
        use crate::h1::HttpLimits;
        use crate::http::server::Connection;
        let server = |shard: u8| {
            let (engine, http) = (crate::server::Config::new("x", "1"), crate::http::server::Config::new());
            let mut server = Server::new(engine.into(), http.into(), Entropy::new([7; 32], shard.into()));
            server.set_shard(shard, 2);
            server
        };
        let now = Instant::from_micros(1);
        let (mut first, mut second) = (server(0), server(1));
        let channel = second.engine.open_channel(now);
        let session = second.begin_session(channel.0, None, Sessions);
        let id = second.sessions.id(session);

        let mut connection = Connection::new(now, HttpLimits::default());
        let nowhere = "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let delete = format!("DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: {id}\r\n\r\n");
        // The first request is answered by the first shard; its unsent response moves along.
        connection.handle_input(now, format!("{nowhere}{delete}{nowhere}").as_bytes());
        connection.drive(now, &mut first);
        assert_eq!((connection.take_other_shard(), connection.take_other_shard()), (Some(1), None));
        assert_eq!((first.exchange_count(), connection.exchange()), (0, None));
        connection.drive(now, &mut first);
        assert_eq!(connection.take_other_shard(), Some(1), "the connection stays until the caller moves it");
        connection.drive(now, &mut second);
        assert_eq!(connection.take_other_shard(), None);
        let written = String::from_utf8_lossy(connection.transmit()).into_owned();
        let statuses: Vec<_> = written.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
        assert_eq!((statuses, second.session_count()), (alloc::vec!["404", "204", "404"], 0));
    }

    // covers: SEC-018
    #[test]
    fn removed_sessions_leave_no_memory() {
        let mut entropy = Entropy::new([7; 32], 0);
        let mut sessions = SessionTable::default();
        sessions.count_principals();
        let channel = Key { slot: 0, generation: 0 };
        let mut insert = |sessions: &mut SessionTable| {
            sessions.insert(Instant::ZERO, channel, Some("alice".into()), &mut entropy, Sessions)
        };
        let stays = insert(&mut sessions);
        for _ in 0..10_000 {
            let goes = insert(&mut sessions);
            assert!(sessions.remove(goes).is_some());
        }
        assert!(sessions.uninitialized.len() < 100, "{}", sessions.uninitialized.len());
        let share = sessions.principal_sessions("alice").expect("one is left");
        assert!(share.uninitialized.len() < 100 && share.count == 1);
        assert_eq!(sessions.uninitialized.front(), Some(&stays), "it is still the oldest");
        assert!(sessions.remove(stays).is_some());
        assert_eq!(sessions.uninitialized.capacity(), 0);
        assert!(sessions.principal_sessions("alice").is_none());
        // The table is freed as well, and a stale key does not match a new session.
        let stale: Vec<SessionKey> = (0..100).map(|_| insert(&mut sessions)).collect();
        stale.iter().for_each(|key| _ = sessions.remove(*key));
        sessions.table.trim();
        assert_eq!(sessions.table.capacity(), 0);
        let next = insert(&mut sessions);
        assert!(stale.iter().all(|key| *key != next && sessions.get(*key).is_none()));
    }

    // covers: SEC-018
    #[test]
    fn idle_server_frees_its_tables() {
        use crate::head::RequestHead;
        let (engine, http) = (crate::server::Config::new("x", "1"), crate::http::server::Config::new());
        let mut server = Server::new(engine.into(), http.into(), Entropy::new([7; 32], 0));
        let mut now = Instant::ZERO;
        for _ in 0..200 {
            let head = RequestHead { method: "GET", target: "/mcp", fields: &[("Host", b"localhost")] };
            server.open(now, &head, None);
            let channel = server.engine.open_channel(now);
            server.begin_session(channel.0, None, Sessions);
        }
        while let Some(exchange) = server.poll_ready(now) {
            server.release(now, exchange);
        }
        assert!(server.exchanges.capacity() >= 200 && server.sessions.table.capacity() >= 200);
        while let Some(at) = server.poll_timeout() {
            now = at;
            server.handle_timeout(now);
        }
        assert_eq!((server.exchanges.capacity(), server.sessions.table.capacity()), (0, 0));
    }

    // covers: SEC-019
    #[test]
    fn session_debug_output_omits_the_secret() {
        let mut entropy = Entropy::new([7; 32], 0);
        let mut sessions = SessionTable::default();
        let channel = Key { slot: 0, generation: 0 };
        let key = sessions.insert(Instant::ZERO, channel, None, &mut entropy, Sessions);
        let secret = format!("{:?}", sessions.get(key).expect("there").secret.0);
        let shown = format!("{sessions:?}");
        assert!(!shown.contains(&secret) && shown.contains("SessionSecret(…)"), "{shown}");
    }

    #[test]
    fn id_has_28_characters_of_its_alphabet() {
        let id = "AZaz09-_AAAAAAAAAAAAAAAAAAAA";
        assert!(is_id(id));
        let long = format!("{id}AAAA");
        for other in ["", &id[..24], &id[..27], &long, &id.replace('-', "+"), &id.replace('_', "=")] {
            assert!(!is_id(other), "{other}");
        }
    }

    #[test]
    fn session_with_an_open_call_does_not_expire() {
        use crate::http::server::Kind;
        let (mut sessions, mut exchanges) = (SessionTable::default(), ExchangeTable::new(1));
        let (mut entropy, idle) = (Entropy::new([7; 32], 0), Duration::from_secs(16));
        let channel = Key { slot: 0, generation: 0 };
        let [busy, quiet] =
            [0; 2].map(|_| sessions.insert(Instant::ZERO, channel, None, &mut entropy, Sessions));
        sessions.schedule_check(Instant::ZERO, idle);
        let call = exchanges.open(Kind::Post, Instant::ZERO);
        if let Some(x) = exchanges.get_mut(call) {
            x.set_session(Some(busy));
        }
        sessions.begin_call(&mut exchanges, call);
        assert_eq!(sessions.get(busy).map(HttpSession::call_count), Some(1));
        assert_eq!(sessions.find_call(&mut exchanges, busy, 0), Some(call));
        assert!(sessions.take_expired(Instant::ZERO, idle).is_empty(), "it is not time to look");
        let now = Instant::ZERO + idle;
        assert_eq!(sessions.take_expired(now, idle), [quiet]);
        assert_eq!(sessions.next_deadline(), Some(now + idle / 16), "one is left");
        sessions.end_call(&mut exchanges, call);
        assert_eq!(sessions.find_call(&mut exchanges, busy, 0), None);
        assert_eq!(sessions.take_expired(now + idle, idle), [busy, quiet]);
        for session in [busy, quiet] {
            assert!(sessions.remove(session).is_some());
        }
        assert_eq!(sessions.next_deadline(), None);
    }

    #[test]
    fn idle_session_is_small() {
        assert!(size_of::<HttpSession>() <= 96, "{}", size_of::<HttpSession>());
    }
}
