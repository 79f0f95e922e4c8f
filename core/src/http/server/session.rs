//! Legacy sessions: ids, owners and expiry (HTTP-064 to HTTP-075, SEC-005).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq;

use super::Server;
use super::exchange::ServerExchange;
use super::get_streams::GetStreams;
use super::replay::ReplayLog;
use crate::entropy::Entropy;
use crate::slab::tree::Tree;
use crate::slab::{Key, Slab};
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::Version;

/// Number of unpredictable bytes in an id (HTTP-065).
const SECRET_LEN: usize = 18;
/// Number of bytes before them, which hold the slot of the session.
const SLOT_LEN: usize = 3;
const ID_LEN: usize = SLOT_LEN + SECRET_LEN;

/// The session of a legacy client.
#[derive(Debug)]
pub(super) struct HttpSession {
    secret: SessionSecret,
    /// The engine's channel: its ids, its peer, and its messages outside of calls.
    pub(super) channel: Key,
    pub(super) principal: Option<Box<str>>,
    /// Time at which a request arrived last, or a call or a GET stream ended.
    pub(super) last_seen: Instant,
    /// A session of HTTP+SSE, which is unknown at the endpoint.
    pub(super) is_http_sse: bool,
    /// The GET streams, from the first one on.
    pub(super) get_streams: Option<Box<GetStreams>>,
    /// Its exchanges that have a stream number or count as a call, ordered by number, calls first.
    exchanges: Tree,
    /// Number of open calls.
    pub(super) call_count: u32,
    /// The highest stream number in use.
    pub(super) last_stream_number: u32,
    /// Sent events, for resumption.
    pub(super) replay_log: Option<Box<ReplayLog>>,
}

impl HttpSession {
    /// Returns the number of a new stream.
    pub(super) const fn next_stream_number(&mut self) -> u32 {
        self.last_stream_number = self.last_stream_number.saturating_add(1);
        self.last_stream_number
    }
}

/// Not shown by `Debug` (SEC-019).
struct SessionSecret([u8; SECRET_LEN]);

impl core::fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("SessionSecret(…)")
    }
}

/// The outcome of a session lookup.
pub(super) enum SessionLookup {
    Session(Key),
    Missing,
    /// Unknown, or a session of another principal; a client cannot tell the difference.
    Unknown,
}

#[derive(Debug)]
pub(super) struct SessionTable {
    /// The index of this shard, and the number of shards.
    shard: Option<(u8, u8)>,
    table: Slab<HttpSession>,
    /// Sessions whose handshake may be unfinished, oldest first; may contain stale keys.
    uninitialized: VecDeque<Key>,
    /// The sessions of each principal that has any.
    principals: Slab<PrincipalSessions>,
    by_principal: BTreeMap<Arc<str>, Key>,
}

/// The sessions of a principal.
#[derive(Debug, Default)]
struct PrincipalSessions {
    count: usize,
    /// Its sessions whose handshake may be unfinished, oldest first; may contain stale keys.
    uninitialized: VecDeque<Key>,
}

impl Default for SessionTable {
    fn default() -> Self {
        let (principals, by_principal) = (Slab::new(), BTreeMap::new());
        Self { shard: None, table: Slab::new(), uninitialized: VecDeque::new(), principals, by_principal }
    }
}

impl SessionTable {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn get(&self, key: Key) -> Option<&HttpSession> {
        self.table.get(key)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut HttpSession> {
        self.table.get_mut(key)
    }

    /// Returns the session with an id; the comparison of the secret takes constant time.
    pub(super) fn find(&self, id: impl AsRef<[u8]>) -> Option<Key> {
        let mut bytes = [0; ID_LEN];
        let length = URL_SAFE_NO_PAD.decode_slice(id, &mut bytes).ok()?;
        let (slot, secret) = bytes.get(..length)?.split_first_chunk::<SLOT_LEN>()?;
        let [a, b, c] = *slot;
        let key = self.table.key_at(u32::from_be_bytes([0, a, b, c]))?;
        let known = &self.table.get(key)?.secret.0;
        bool::from(known.as_slice().ct_eq(secret)).then_some(key)
    }

    /// Returns the shard that an id names, if it is another one.
    pub(super) fn other_shard(&self, id: &[u8]) -> Option<u8> {
        let (own, all) = self.shard?;
        let mut bytes = [0; ID_LEN];
        let length = URL_SAFE_NO_PAD.decode_slice(id, &mut bytes).ok()?;
        let shard = *bytes.get(SLOT_LEN)?;
        (length == ID_LEN && shard != own && shard < all).then_some(shard)
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
    pub(super) fn id(&self, key: Key) -> String {
        let mut bytes = [0; ID_LEN];
        if let (Some((slot, secret)), Some(session)) =
            (bytes.split_first_chunk_mut::<SLOT_LEN>(), self.table.get(key))
        {
            let [_, a, b, c] = key.slot.to_be_bytes();
            *slot = [a, b, c];
            secret.copy_from_slice(&session.secret.0);
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn insert(
        &mut self,
        now: Instant,
        channel: Key,
        principal: Option<Box<str>>,
        entropy: &mut Entropy,
    ) -> Key {
        let mut secret = [0; SECRET_LEN];
        entropy.fill(&mut secret);
        if let (Some((own, _)), Some(shard_byte)) = (self.shard, secret.first_mut()) {
            // The remaining 17 bytes are still unguessable.
            *shard_byte = own;
        }
        let key = self.table.insert(HttpSession {
            secret: SessionSecret(secret),
            channel,
            principal: principal.clone(),
            last_seen: now,
            is_http_sse: false,
            get_streams: None,
            exchanges: Tree::new(),
            call_count: 0,
            last_stream_number: 0,
            replay_log: None,
        });
        if let Some(principal) = principal {
            let share = match self.by_principal.get(&*principal) {
                Some(share) => *share,
                None => {
                    let share = self.principals.insert(PrincipalSessions::default());
                    self.by_principal.insert(principal.into(), share);
                    share
                }
            };
            if let Some(share) = self.principals.get_mut(share) {
                share.count += 1;
                queue_uninitialized(&mut share.uninitialized, key, share.count, &self.table);
            }
        }
        queue_uninitialized(&mut self.uninitialized, key, self.table.len(), &self.table);
        key
    }

    fn principal_sessions(&mut self, principal: &str) -> Option<&mut PrincipalSessions> {
        self.principals.get_mut(*self.by_principal.get(principal)?)
    }

    fn remove(&mut self, key: Key) -> Option<HttpSession> {
        let session = self.table.remove(key)?;
        if let Some(principal) = &session.principal {
            if let Some(share) = self.principal_sessions(principal) {
                share.count -= 1;
                if share.count == 0 {
                    if let Some(share) = self.by_principal.remove(&**principal) {
                        self.principals.remove(share);
                        self.principals.trim();
                    }
                }
            }
        }
        if self.table.is_empty() {
            self.uninitialized = VecDeque::new();
        }
        Some(session)
    }

    // ---- exchanges of a session ------------------------------------------------------------------------------

    /// Changes what the index of a session depends on: session, stream number, whether the exchange counts as a call.
    pub(super) fn update_exchange(
        &mut self,
        exchanges: &mut Slab<ServerExchange>,
        key: Key,
        change: impl FnOnce(&mut ServerExchange),
    ) {
        self.remove_exchange(exchanges, key);
        let Some(x) = exchanges.get_mut(key) else { return };
        change(x);
        let order = stream_order(x);
        let is_wanted = x.counts_as_call || x.stream_number > 0;
        let Some(session) = x.session.filter(|_| is_wanted).and_then(|s| self.table.get_mut(s)) else {
            return;
        };
        x.is_indexed = true;
        let compare = |slot, x: &ServerExchange| (stream_order(x), slot).cmp(&(order, key.slot));
        if let Ok(place) = session.exchanges.place(exchanges, compare) {
            session.exchanges.insert(exchanges, place, key);
        }
    }

    /// Removes an exchange from the index of its session, which may have ended.
    pub(super) fn remove_exchange(&mut self, exchanges: &mut Slab<ServerExchange>, key: Key) {
        let Some(x) = exchanges.get_mut(key) else { return };
        if !core::mem::take(&mut x.is_indexed) {
            return;
        }
        let (order, session) = (stream_order(x), x.session);
        let Some(session) = session.and_then(|s| self.table.get_mut(s)) else { return };
        let compare = |slot, x: &ServerExchange| (stream_order(x), slot).cmp(&(order, key.slot));
        session.exchanges.remove(exchanges, key, compare);
    }

    /// Returns the exchange of the call whose stream has a number.
    pub(super) fn find_call(
        &mut self,
        exchanges: &mut Slab<ServerExchange>,
        session: Key,
        number: u32,
    ) -> Option<Key> {
        let session = self.table.get_mut(session)?;
        session.exchanges.find(exchanges, |_, x| stream_order(x).cmp(&(number, false)))
    }

    /// Removes all exchanges of a stream from the index, and returns them.
    pub(super) fn take_exchanges(
        &mut self,
        exchanges: &mut Slab<ServerExchange>,
        session: Key,
        number: u32,
    ) -> Vec<Key> {
        let mut found = Vec::new();
        while let Some(key) = self
            .table
            .get_mut(session)
            .and_then(|session| session.exchanges.find(exchanges, |_, x| x.stream_number.cmp(&number)))
        {
            self.remove_exchange(exchanges, key);
            found.push(key);
        }
        found
    }
}

/// Queues a new session.
///
/// Removes stale keys when the queue exceeds about twice the `count` of sessions. So the queue stays bounded even if an
/// unfinished session stays at its front.
fn queue_uninitialized(queue: &mut VecDeque<Key>, key: Key, count: usize, table: &Slab<HttpSession>) {
    if queue.len() >= 2 * count + 16 {
        queue.retain(|key| table.get(*key).is_some());
    }
    queue.push_back(key);
}

impl Server {
    /// Returns the session that a request names, if it belongs to the principal of the request.
    pub(super) fn find_session(&mut self, exchange: Key) -> SessionLookup {
        let Some(x) = self.exchanges.get(exchange) else { return SessionLookup::Unknown };
        let id = match x.headers.session() {
            Ok(None) => return SessionLookup::Missing,
            Ok(Some(id)) => id,
            Err(()) => return SessionLookup::Unknown,
        };
        let Some(key) = self.sessions.find(id) else { return SessionLookup::Unknown };
        let principal = x.principal.clone();
        let now = self.now;
        match self.sessions.get_mut(key) {
            // SEC-005: the session id alone does not authenticate.
            Some(session) if session.principal == principal && !session.is_http_sse => {
                if !self.engine.exchanges().is_shutting_down()
                    && self.engine.exchange_status(ChannelId(session.channel)).is_closed
                {
                    // The application closed the channel (HTTP-070).
                    self.end_session(key);
                    return SessionLookup::Unknown;
                }
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
            let Some(oldest) = share.uninitialized.pop_front() else { return false };
            if self.is_uninitialized(oldest) {
                self.end_session(oldest);
            }
        }
        let limit = self.config.max_sessions.min((1 << 24) - 1);
        while self.sessions.len() >= limit {
            let Some(oldest) = self.sessions.uninitialized.pop_front() else { return false };
            if self.is_uninitialized(oldest) {
                self.end_session(oldest);
            }
        }
        // Finished sessions at the front are removed, so that the queue stays short.
        while let Some(first) = self.sessions.uninitialized.front().copied() {
            if self.is_uninitialized(first) {
                break;
            }
            self.sessions.uninitialized.pop_front();
        }
        true
    }

    fn is_uninitialized(&self, key: Key) -> bool {
        let channel = self.sessions.get(key).map(|s| s.channel);
        channel
            .and_then(|c| self.engine.session_status(ChannelId(c)))
            .is_some_and(|status| !status.is_initialized)
    }

    pub(super) fn begin_session(&mut self, channel: Key, principal: Option<Box<str>>) -> Key {
        self.schedule_session_check();
        let session = self.sessions.insert(self.now, channel, principal, &mut self.entropy);
        self.engine.exchanges().mark_session(channel, session);
        session
    }

    /// Returns the revision of a session.
    pub(super) fn session_version(&self, key: Key) -> Option<Version> {
        let channel = self.sessions.get(key)?.channel;
        self.engine.session_status(ChannelId(channel)).map(|status| status.version)
    }

    /// Ends a session: cancels its calls, ends its streams, and invalidates its id (HTTP-070, SSE-027).
    pub(super) fn end_session(&mut self, key: Key) {
        let Some(session) = self.sessions.remove(key) else { return };
        if self.sessions.len() == 0 {
            self.session_check_at = None;
        }
        let calls: Vec<Key> = match session.call_count {
            0 => Vec::new(),
            _ => session.exchanges.keys(&mut self.exchanges),
        };
        for exchange in session.open_get_streams() {
            self.finish(exchange);
        }
        // With its channel all calls of the session end. One after the other, their streams would look for them.
        self.engine.exchanges().remove(self.now, session.channel);
        for exchange in calls {
            if self.exchanges.get(exchange).is_some_and(|x| x.counts_as_call) {
                self.finish(exchange);
            }
        }
    }

    /// Ends the session whose messages the engine has on this channel.
    pub(super) fn end_session_of(&mut self, channel: Key) {
        if let Some(session) = self.engine.exchanges().session_of(channel) {
            self.end_session(session);
        }
    }

    /// Removes sessions that were idle for `session_idle_timeout`.
    pub(super) fn expire_sessions(&mut self) {
        let (now, idle) = (self.now, self.config.session_idle_timeout);
        let expired: Vec<Key> = self
            .sessions
            .table
            .iter()
            .filter(|(_, s)| !s.has_open_get_stream() && s.call_count == 0 && s.last_seen + idle <= now)
            .map(|(key, _)| key)
            .collect();
        for key in expired {
            self.end_session(key);
        }
        // Memory of many closed sessions.
        self.sessions.table.trim();
    }
}

/// Returns what exchanges of a session are ordered by.
const fn stream_order(x: &ServerExchange) -> (u32, bool) {
    (x.stream_number, !x.counts_as_call)
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
        let keys: Vec<Key> =
            (0..300).map(|_| sessions.insert(Instant::ZERO, channel, None, &mut entropy)).collect();
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
        sessions.insert(Instant::ZERO, channel, None, &mut entropy);
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
            let key = sessions.insert(Instant::ZERO, channel, None, &mut entropy);
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
        let session = second.begin_session(channel.0, None);
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
        let channel = Key { slot: 0, generation: 0 };
        let mut insert = |sessions: &mut SessionTable| {
            sessions.insert(Instant::ZERO, channel, Some("alice".into()), &mut entropy)
        };
        let stays = insert(&mut sessions);
        for _ in 0..10_000 {
            let goes = insert(&mut sessions);
            assert!(sessions.remove(goes).is_some());
        }
        assert!(sessions.uninitialized.len() < 100, "{}", sessions.uninitialized.len());
        assert!(
            sessions.principals.iter().all(|(_, share)| share.uninitialized.len() < 100 && share.count == 1)
        );
        assert_eq!(sessions.uninitialized.front(), Some(&stays), "it is still the oldest");
        assert!(sessions.remove(stays).is_some());
        assert!(
            sessions.uninitialized.capacity() == 0
                && sessions.principals.capacity() == 0
                && sessions.by_principal.is_empty()
        );
        // The table is freed as well, and a stale key does not match a new session.
        let stale: Vec<Key> = (0..100).map(|_| insert(&mut sessions)).collect();
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
            server.begin_session(channel.0, None);
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
        let key = sessions.insert(Instant::ZERO, channel, None, &mut entropy);
        let secret = format!("{:?}", sessions.get(key).expect("there").secret.0);
        assert!(!format!("{sessions:?}").contains(&secret));
    }

    #[test]
    fn idle_session_is_small() {
        assert!(size_of::<HttpSession>() <= 96, "{}", size_of::<HttpSession>());
    }
}
