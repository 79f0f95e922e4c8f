//! Legacy sessions: their ids, who they belong to, and when they end (HTTP-064 to HTTP-075, SEC-005).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq;

use super::Server;
use super::replay::Log;
use crate::entropy::Entropy;
use crate::slab::{Key, Slab};
use crate::time::Instant;
use crate::version::Version;

/// Unpredictable bytes of an id: more than can be guessed (HTTP-065)
const SECRET: usize = 18;
/// In front of them, where the session stands in the table
const PLACE: usize = 3;
const ID: usize = PLACE + SECRET;

/// A session of a legacy client
#[derive(Debug)]
pub(super) struct Session {
    secret: Secret,
    /// The engine's channel: its ids, its peer, and what belongs to no call
    pub(super) channel: Key,
    pub(super) principal: Option<Box<str>>,
    /// When it was used last: when a request came, or a call or its stream ended
    pub(super) last_seen: Instant,
    /// It is one of HTTP+SSE, which the endpoint does not know
    pub(super) old: bool,
    /// The stream that belongs to no call, while it is open
    pub(super) get: Option<Key>,
    /// How many of its calls are under way
    pub(super) calls: u32,
    /// The number that a stream got last; the one of no call is 0
    pub(super) streams: u32,
    /// The last event of stream 0
    pub(super) event: u32,
    /// What was sent, for clients that come back
    pub(super) log: Option<Box<Log>>,
}

/// Shown by nothing (SEC-019)
struct Secret([u8; SECRET]);

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What a request says about its session
pub(super) enum Found {
    Session(Key),
    Missing,
    /// Or somebody else's, which looks the same
    Unknown,
}

#[derive(Debug)]
pub(super) struct Sessions {
    /// Which of how many servers this is
    shard: Option<(u8, u8)>,
    table: Slab<Session>,
    /// All of them whose handshake may not be done, oldest first
    young: VecDeque<Key>,
    /// What each principal has, of those who have any
    shares: Slab<Share>,
    by_principal: BTreeMap<Arc<str>, Key>,
}

/// The sessions of a principal
#[derive(Debug, Default)]
struct Share {
    count: usize,
    /// Those whose handshake may not be done, oldest first
    young: VecDeque<Key>,
}

impl Default for Sessions {
    fn default() -> Self {
        let (shares, by_principal) = (Slab::new(), BTreeMap::new());
        Self { shard: None, table: Slab::new(), young: VecDeque::new(), shares, by_principal }
    }
}

impl Sessions {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn get(&self, key: Key) -> Option<&Session> {
        self.table.get(key)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Session> {
        self.table.get_mut(key)
    }

    /// The session with an id; takes as long whatever is wrong with the id
    pub(super) fn find(&self, id: impl AsRef<[u8]>) -> Option<Key> {
        let mut bytes = [0; ID];
        let length = URL_SAFE_NO_PAD.decode_slice(id, &mut bytes).ok()?;
        let (place, secret) = bytes.get(..length)?.split_first_chunk::<PLACE>()?;
        let [a, b, c] = *place;
        let key = self.table.at(u32::from_be_bytes([0, a, b, c]))?;
        let known = &self.table.get(key)?.secret.0;
        bool::from(known.as_slice().ct_eq(secret)).then_some(key)
    }

    /// The shard that an id names, if that is another one
    pub(super) fn elsewhere(&self, id: &[u8]) -> Option<u8> {
        let (own, all) = self.shard?;
        let mut bytes = [0; ID];
        let length = URL_SAFE_NO_PAD.decode_slice(id, &mut bytes).ok()?;
        let shard = *bytes.get(PLACE)?;
        (length == ID && shard != own && shard < all).then_some(shard)
    }

    pub(super) const fn is_sharded(&self) -> bool {
        self.shard.is_some()
    }

    pub(super) const fn is_one_of(&mut self, shard: u8, all: u8) {
        self.shard = Some((shard, all));
    }

    /// The id of a session (HTTP-066)
    pub(super) fn id(&self, key: Key) -> String {
        let mut bytes = [0; ID];
        if let (Some((place, secret)), Some(session)) =
            (bytes.split_first_chunk_mut::<PLACE>(), self.table.get(key))
        {
            let [_, a, b, c] = key.slot.to_be_bytes();
            *place = [a, b, c];
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
        let mut secret = [0; SECRET];
        entropy.fill(&mut secret);
        if let (Some((own, _)), Some(named)) = (self.shard, secret.first_mut()) {
            // What is left is more than can be guessed.
            *named = own;
        }
        let key = self.table.insert(Session {
            secret: Secret(secret),
            channel,
            principal: principal.clone(),
            last_seen: now,
            old: false,
            get: None,
            calls: 0,
            streams: 0,
            event: 0,
            log: None,
        });
        if let Some(principal) = principal {
            let share = match self.by_principal.get(&*principal) {
                Some(share) => *share,
                None => {
                    let share = self.shares.insert(Share::default());
                    self.by_principal.insert(principal.into(), share);
                    share
                }
            };
            if let Some(share) = self.shares.get_mut(share) {
                share.count += 1;
                note_young(&mut share.young, key, share.count, &self.table);
            }
        }
        note_young(&mut self.young, key, self.table.len(), &self.table);
        key
    }

    fn share(&mut self, principal: &str) -> Option<&mut Share> {
        self.shares.get_mut(*self.by_principal.get(principal)?)
    }

    fn remove(&mut self, key: Key) -> Option<Session> {
        let session = self.table.remove(key)?;
        if let Some(principal) = &session.principal {
            if let Some(share) = self.share(principal) {
                share.count -= 1;
                if share.count == 0 {
                    if let Some(share) = self.by_principal.remove(&**principal) {
                        self.shares.remove(share);
                        self.shares.trim();
                    }
                }
            }
        }
        if self.table.len() == 0 {
            self.young = VecDeque::new();
        }
        Some(session)
    }
}

/// Queues a young session, and forgets those that are gone once they are more than the `count` that there are: however
/// many come and go, one that stays young at the front does not make the queue grow
fn note_young(queue: &mut VecDeque<Key>, key: Key, count: usize, table: &Slab<Session>) {
    if queue.len() >= 2 * count + 16 {
        queue.retain(|key| table.get(*key).is_some());
    }
    queue.push_back(key);
}

impl Server {
    /// The session that a request names, if it is its principal's
    pub(super) fn find_session(&mut self, exchange: Key) -> Found {
        let Some(x) = self.exchanges.get(exchange) else { return Found::Unknown };
        let id = match x.mirror.session() {
            Ok(None) => return Found::Missing,
            Ok(Some(id)) => id,
            Err(()) => return Found::Unknown,
        };
        let Some(key) = self.sessions.find(id) else { return Found::Unknown };
        let principal = x.principal.clone();
        let now = self.now;
        match self.sessions.get_mut(key) {
            // SEC-005: whoever has the id but not the token is nobody.
            Some(session) if session.principal == principal && !session.old => {
                if !self.engine.is_shutting_down() && self.engine.stream_progress(session.channel).closed {
                    // The application has closed its channel (HTTP-070).
                    self.end_session(key);
                    return Found::Unknown;
                }
                session.last_seen = now;
                Found::Session(key)
            }
            _ => Found::Unknown,
        }
    }

    /// Whether there is room for one more session; one whose handshake was never finished gives way (design, 14)
    pub(super) fn room_for_session(&mut self, principal: Option<&str>) -> bool {
        // Who has too many gives up one of his own.
        while let Some(share) = principal.and_then(|p| self.sessions.share(p)) {
            if share.count < self.config.max_sessions_per_principal {
                break;
            }
            let Some(oldest) = share.young.pop_front() else { return false };
            if self.is_young(oldest) {
                self.end_session(oldest);
            }
        }
        let most = self.config.max_sessions.min((1 << 24) - 1);
        while self.sessions.len() >= most {
            let Some(oldest) = self.sessions.young.pop_front() else { return false };
            if self.is_young(oldest) {
                self.end_session(oldest);
            }
        }
        // What is no longer young is not kept in the queue for long.
        while let Some(first) = self.sessions.young.front().copied() {
            if self.is_young(first) {
                break;
            }
            self.sessions.young.pop_front();
        }
        true
    }

    fn is_young(&self, key: Key) -> bool {
        let channel = self.sessions.get(key).map(|s| s.channel);
        channel.and_then(|c| self.engine.session_version(c)).is_some_and(|(_, initialized)| !initialized)
    }

    pub(super) fn begin_session(&mut self, channel: Key, principal: Option<Box<str>>) -> Key {
        self.begin_ticking();
        self.engine.set_apart(channel);
        self.sessions.insert(self.now, channel, principal, &mut self.entropy)
    }

    /// The revision of a session
    pub(super) fn version_of(&self, key: Key) -> Option<Version> {
        let channel = self.sessions.get(key)?.channel;
        self.engine.session_version(channel).map(|(version, _)| version)
    }

    /// Ends a session: its calls are cancelled, its streams end, and its id is unknown from now on (HTTP-070, SSE-027)
    pub(super) fn end_session(&mut self, key: Key) {
        let Some(session) = self.sessions.remove(key) else { return };
        let calls: Vec<Key> = match session.calls {
            0 => Vec::new(),
            _ => self.calls_of(key).map(|(call, _)| call).collect(),
        };
        for exchange in calls.into_iter().chain(session.get) {
            self.finish(exchange);
        }
        self.engine.drop_stream(self.now, session.channel);
    }

    /// Forgets sessions that nobody has used for long
    pub(super) fn expire_sessions(&mut self) {
        let (now, idle) = (self.now, self.config.session_idle);
        let expired: Vec<Key> = self
            .sessions
            .table
            .iter()
            .filter(|(_, s)| s.get.is_none() && s.calls == 0 && s.last_seen + idle <= now)
            .map(|(key, _)| key)
            .collect();
        for key in expired {
            self.end_session(key);
        }
        // After a crowd has left.
        self.sessions.table.trim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    // covers: HTTP-065, HTTP-066, SEC-005
    #[test]
    fn an_id_names_one_session_and_no_other_text_does() {
        let mut entropy = Entropy::new([7; 32], 0);
        let mut sessions = Sessions::default();
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
        assert_eq!(sessions.find(&id), None, "its place in the table is another's now");
        assert_eq!(sessions.find(""), None);
    }

    #[test]
    fn an_id_names_its_shard_and_only_ids_do() {
        let channel = Key { slot: 0, generation: 0 };
        let shards = [0, 1, 2].map(|own| {
            let mut sessions = Sessions::default();
            sessions.is_one_of(own, 3);
            let mut entropy = Entropy::new([7; 32], own.into());
            let key = sessions.insert(Instant::ZERO, channel, None, &mut entropy);
            (own, sessions.id(key), sessions, key)
        });
        for (own, id, sessions, key) in &shards {
            assert_eq!((sessions.find(id), sessions.elsewhere(id.as_bytes())), (Some(*key), None));
            for (other, id, ..) in shards.iter().filter(|(other, ..)| other != own) {
                assert_eq!((sessions.find(id), sessions.elsewhere(id.as_bytes())), (None, Some(*other)));
            }
            for bad in ["", "AAAAAQAA", "not an id", "AAAAA_AAAAAAAAAAAAAAAAAAAAAA"] {
                assert_eq!(sessions.elsewhere(bad.as_bytes()), None);
            }
        }
        assert_eq!(Sessions::default().elsewhere(shards[1].1.as_bytes()), None);
    }

    #[test]
    fn a_request_for_another_shard_goes_there_untouched() {
        use crate::h1::Limits;
        use crate::http::server::Connection;
        let server = |shard: u8| {
            let (engine, http) = (crate::server::Config::new("x", "1"), crate::http::server::Config::new());
            let mut server = Server::new(engine.into(), http.into(), Entropy::new([7; 32], shard.into()));
            server.is_one_of(shard, 2);
            server
        };
        let now = Instant::from_micros(1);
        let (mut first, mut second) = (server(0), server(1));
        let channel = second.engine.open_channel(now);
        let session = second.begin_session(channel.0, None);
        let id = second.sessions.id(session);

        let mut connection = Connection::new(now, Limits::default());
        let nowhere = "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let delete = format!("DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: {id}\r\n\r\n");
        // The first one is answered where it came, and what was not sent of the answer goes along.
        connection.handle_input(now, format!("{nowhere}{delete}{nowhere}").as_bytes());
        connection.drive(now, &mut first);
        assert_eq!((connection.elsewhere(), connection.elsewhere()), (Some(1), None));
        assert_eq!((first.exchanges(), connection.exchange()), (0, None));
        connection.drive(now, &mut first);
        assert_eq!(connection.elsewhere(), Some(1), "it does not move by itself");
        connection.drive(now, &mut second);
        assert_eq!(connection.elsewhere(), None);
        let written = String::from_utf8_lossy(connection.transmit()).into_owned();
        let statuses: Vec<_> = written.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
        assert_eq!((statuses, second.sessions()), (alloc::vec!["404", "204", "404"], 0));
    }

    // covers: SEC-018
    #[test]
    fn sessions_that_come_and_go_leave_nothing_behind() {
        let mut entropy = Entropy::new([7; 32], 0);
        let mut sessions = Sessions::default();
        let channel = Key { slot: 0, generation: 0 };
        let mut insert = |sessions: &mut Sessions| {
            sessions.insert(Instant::ZERO, channel, Some("somebody".into()), &mut entropy)
        };
        let stays = insert(&mut sessions);
        for _ in 0..10_000 {
            let goes = insert(&mut sessions);
            assert!(sessions.remove(goes).is_some());
        }
        assert!(sessions.young.len() < 100, "{}", sessions.young.len());
        assert!(sessions.shares.iter().all(|(_, share)| share.young.len() < 100 && share.count == 1));
        assert_eq!(sessions.young.front(), Some(&stays), "it is still the oldest");
        assert!(sessions.remove(stays).is_some());
        assert!(
            sessions.young.capacity() == 0 && sessions.shares.room() == 0 && sessions.by_principal.is_empty()
        );
        // Nor does the table, and who comes next is not taken for who was there.
        let stale: Vec<Key> = (0..100).map(|_| insert(&mut sessions)).collect();
        stale.iter().for_each(|key| _ = sessions.remove(*key));
        sessions.table.trim();
        assert_eq!(sessions.table.room(), 0);
        let next = insert(&mut sessions);
        assert!(stale.iter().all(|key| *key != next && sessions.get(*key).is_none()));
    }

    // covers: SEC-018
    #[test]
    fn a_server_that_was_crowded_gives_its_tables_back() {
        use crate::head::Request;
        let (engine, http) = (crate::server::Config::new("x", "1"), crate::http::server::Config::new());
        let mut server = Server::new(engine.into(), http.into(), Entropy::new([7; 32], 0));
        let mut now = Instant::ZERO;
        for _ in 0..200 {
            let head = Request { method: "GET", target: "/mcp", fields: &[("Host", b"localhost")] };
            server.open(now, &head, None);
            let channel = server.engine.open_channel(now);
            server.begin_session(channel.0, None);
        }
        while let Some(exchange) = server.poll_ready(now) {
            server.release(now, exchange);
        }
        assert!(server.exchanges.room() >= 200 && server.sessions.table.room() >= 200);
        while let Some(at) = server.poll_timeout() {
            now = at;
            server.handle_timeout(now);
        }
        assert_eq!((server.exchanges.room(), server.sessions.table.room()), (0, 0));
    }

    // covers: SEC-019
    #[test]
    fn a_session_does_not_show_what_its_id_is_made_of() {
        let mut entropy = Entropy::new([7; 32], 0);
        let mut sessions = Sessions::default();
        let channel = Key { slot: 0, generation: 0 };
        let key = sessions.insert(Instant::ZERO, channel, None, &mut entropy);
        let secret = format!("{:?}", sessions.get(key).expect("there").secret.0);
        assert!(!format!("{sessions:?}").contains(&secret));
    }

    #[test]
    fn an_idle_session_is_small() {
        assert!(size_of::<Session>() <= 96, "{}", size_of::<Session>());
    }
}
