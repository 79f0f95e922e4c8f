//! Sessions whose ids carry their identity, so that each process takes them up without a store.
//!
//! The client gets the id of its session, a dot, and the identity that the application has sealed. A process that does not have
//! the session lets the application open it. What comes later is not in the id: changes, the end, and what other processes do.

use alloc::string::{String, ToString as _};
use core::fmt;

use bytes::Bytes;

use super::super::Server;
use super::super::exchange_table::{ExchangeId, Kind, RequestPhase, SessionKey};
use super::super::refusal::{Refusal, overloaded};
use super::super::session::{ID_LEN, SessionLookup, drop_session, is_id};
use super::super::snapshot::{self, Snapshot, SnapshotError};
use super::waits::{expire, hold_response, load_until, release};
use super::{
    Effect, Functions, NUMBERS, PROCESSES, SessionId, SharedSessionEvent, SharedSessions, Sharing, id_of,
    relay, report,
};
use crate::built::{Part, Sessions};
use crate::head::Fields;
use crate::http::fields;
use crate::methods::{self, Capability};
use crate::rpc::envelope::Envelope;
use crate::server::BatchContents;
use crate::slab::Key;
use crate::time::Instant;

/// Longest id with an identity. Clients take ids of 1 KiB and more, and servers in between lines of 4 KiB and more.
const MAX_ID_LEN: usize = 1 << 10;
/// What is between the id of the session and the identity: a character of neither.
const SEPARATOR: &str = ".";
/// Largest number of ids of sessions that the application has ended, until they expire. Beyond it the one that expires first is
/// taken up again.
const MAX_ENDED: usize = 1 << 14;

/// The methods of the endpoint without DELETE.
const METHODS: &str = "POST, GET";

/// The identity of a session as its [id carries it](SharedSessions::begin_in_ids), sealed by the application. It is a secret of
/// its client, as the id is, so `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedIdentity(String);

impl SealedIdentity {
    /// Largest number of characters, so that an id has at most 1,024.
    pub const MAX_LEN: usize = MAX_ID_LEN - ID_LEN - SEPARATOR.len();

    /// Takes a sealed identity: letters, digits, `-` and `_`. `None` for other texts, an empty one, and one that is too long.
    #[must_use]
    pub fn new(text: String) -> Option<Self> {
        let is_short = (1..=Self::MAX_LEN).contains(&text.len());
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (is_short && text.bytes().all(is_plain)).then_some(Self(text))
    }

    /// Returns the text.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SealedIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealedIdentity(…)")
    }
}

/// The error of [`SharedSessions::begin_in_ids`]: other processes would not know the subscriptions of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("sessions without a store have no subscriptions: leave `Capability::ResourceSubscriptions` out")]
pub struct SubscriptionsNeedStore;

static FUNCTIONS: Functions = Functions {
    wait,
    inspect,
    inspect_batch,
    hold,
    end,
    write_note: relay::write_note,
    hold_answer: |_, _| false,
    expire,
    report_used: |_| {},
    streams_begin_after: |sharing| sharing.streams_begin_after,
    place_of: relay::place_of,
    resume,
    check_relay: |_, _| {},
    report_stream: |server, _, session| mark_initialized(server, session),
};

impl SharedSessions<'_> {
    /// Lets the ids of sessions carry their identity, so that other processes with the same configuration and number of shards
    /// take them up without a store.
    ///
    /// `process` as for [`begin`](Self::begin), which this takes the place of. A random number will do if it may happen that two of
    /// the processes have the same one, modulo 1024: a client that resumes a stream of one at the other may get events of another
    /// stream of its session, or is refused with 400. The application serves [`SharedSessionEvent::Begun`] and [`TakeUp`](SharedSessionEvent::TakeUp) then, and gets no other events. A client cannot
    /// end its session: the other processes would not know, so DELETE is answered with 405 (HTTP-075).
    ///
    /// # Errors
    ///
    /// [`SubscriptionsNeedStore`] if the configuration offers subscriptions to resources.
    pub fn begin_in_ids(&mut self, process: u32) -> Result<(), SubscriptionsNeedStore> {
        let server = &mut *self.server;
        if server.engine.config().settings.capabilities.has(Capability::ResourceSubscriptions) {
            return Err(SubscriptionsNeedStore);
        }
        let begin = process % PROCESSES * NUMBERS;
        server.engine.exchanges().begin_requests_after(begin);
        if let Some(built) = Sessions::get() {
            server.sharing = Part::new(built, Sharing::new(&FUNCTIONS, begin, server.now));
        }
        Ok(())
    }

    /// Lets the response go that [begins](SharedSessionEvent::Begun) a session. Its id carries the identity, until a time; without one
    /// the session is known in this process alone.
    pub fn send_id(
        &mut self,
        now: Instant,
        exchange: ExchangeId,
        identity: Option<(&SealedIdentity, Instant)>,
    ) {
        self.server.tick(now);
        let key = exchange.0;
        if let Some((identity, expires)) = identity {
            if let Some(session) = self.server.exchanges.get(key).and_then(|x| x.session()) {
                expire_at(self.server, session, expires);
            }
            // The head of the response has the id.
            self.server.fill_response(key);
            add_to_id(self.server, key, identity);
        }
        release(self.server, key, true);
    }

    /// Lets a request go on whose session is to be [taken up](SharedSessionEvent::TakeUp), with the identity that was sealed
    /// and the time at which it expires; `None` if it cannot be opened, or has expired.
    ///
    /// Without an identity, or with that of another session or principal, the client is told that its session is over. No
    /// effect if the request has stopped waiting.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`] if the session cannot be taken up. The request is answered with 404 then, or with 503 if there is no room.
    pub fn take_up(
        &mut self,
        now: Instant,
        exchange: ExchangeId,
        identity: Option<(&[u8], Instant)>,
    ) -> Result<(), SnapshotError> {
        self.server.tick(now);
        let key = exchange.0;
        if self.server.exchanges.get(key).is_none_or(|x| x.phase != RequestPhase::Loading) {
            return Ok(());
        }
        let taken = identity.map_or(Ok(()), |(identity, expires)| add(self.server, key, identity, expires));
        match taken {
            Err(SnapshotError::Full | SnapshotError::ShuttingDown) => {
                self.server.exchanges.refuse(key, &overloaded("there is no room for the session"));
            }
            _ => self.go_on(key),
        }
        taken
    }
}

/// Adds the session that a request names.
fn add(server: &mut Server, key: Key, identity: &[u8], expires: Instant) -> Result<(), SnapshotError> {
    let Some(x) = server.exchanges.get(key) else { return Ok(()) };
    let mut snapshot = Snapshot::read(identity)?;
    let is_named = x.headers.session() == Ok(Some(snapshot.id.as_bytes()));
    // SEC-005: the session id alone does not authenticate.
    if !is_named || snapshot.principal != x.principal() {
        return Err(SnapshotError::OtherSession);
    }
    if server.sessions.find(snapshot.id).is_some() {
        // Another request has taken it up meanwhile.
        return Ok(());
    }
    // The id is as old as the session, and its client uses it.
    snapshot.state.is_initialized = true;
    let session = snapshot::restore(server, snapshot)?;
    expire_at(server, session, expires);
    Ok(())
}

/// Notes when the id of a session expires.
fn expire_at(server: &mut Server, session: SessionKey, expires: Instant) {
    if let Some(session) = server.sessions.get_mut(session) {
        session.record.get_or_insert_default().expires = Some(expires);
    }
}

/// Keeps the id of a session that the application has ended, which is not to be taken up again here.
fn end(server: &mut Server, session: SessionKey, _: Option<Key>) {
    let Ok(id) = <[u8; ID_LEN]>::try_from(id_of(server, session).0.as_bytes()) else { return };
    let record = server.sessions.get(session).and_then(|session| session.record.as_ref());
    let Some((expires, sharing)) = record.and_then(|record| record.expires).zip(server.sharing.as_mut())
    else {
        return;
    };
    let now = server.now;
    if sharing.ended.len() >= MAX_ENDED {
        sharing.ended.retain(|(_, expires)| *expires > now);
        let first =
            sharing.ended.iter().enumerate().min_by_key(|(_, (_, expires))| *expires).map(|(at, _)| at);
        if let Some(first) = first.filter(|_| sharing.ended.len() >= MAX_ENDED) {
            sharing.ended.remove(first);
        }
    }
    match sharing.ended.binary_search_by_key(&id, |(ended, _)| *ended) {
        Ok(at) => _ = sharing.ended.get_mut(at).map(|ended| ended.1 = expires),
        Err(at) => sharing.ended.insert(at, (id, expires)),
    }
}

fn add_to_id(server: &mut Server, key: Key, identity: &SealedIdentity) {
    let Some(response) =
        server.exchanges.get_mut(key).filter(|x| x.is_held).and_then(|x| x.response.as_mut())
    else {
        return;
    };
    let before = core::mem::take(&mut response.fields);
    for (name, value) in before.iter() {
        if name == fields::SESSION_ID {
            let id = [value, SEPARATOR.as_bytes(), identity.0.as_bytes()].concat();
            response.fields.push(name, &id);
        } else {
            response.fields.push(name, value);
        }
    }
}

fn wait(server: &mut Server, key: Key) -> bool {
    let Some(x) = server.exchanges.get_mut(key) else { return false };
    // Whatever revision it names: nothing can be ended here.
    if x.kind == Kind::Other {
        let mut allowed = Fields::new();
        allowed.push(fields::ALLOW, METHODS.as_bytes());
        let refusal = Refusal::new(405, "sessions end by themselves here");
        server.exchanges.refuse_with(key, &refusal, allowed);
        return true;
    }
    if x.headers.names_modern_revision() {
        return false;
    }
    // What is behind the id matters only where the session is unknown: the id alone proves enough elsewhere.
    let Some(identity) = x.headers.split_session(ID_LEN, MAX_ID_LEN) else { return false };
    let id = x.headers.session().ok().flatten().and_then(|id| core::str::from_utf8(id).ok());
    let Some(id) = id.filter(|id| is_id(id)) else { return false };
    let identity = identity.strip_prefix(SEPARATOR).and_then(|text| SealedIdentity::new(text.to_string()));
    let id = SessionId(id.into());
    let is_foreign = server.sessions.foreign_shard(id.0.as_bytes()).is_some();
    let has_ended = server.sharing.as_ref().is_some_and(|sharing| {
        sharing.ended.binary_search_by(|(other, _)| other.as_slice().cmp(id.0.as_bytes())).is_ok()
    });
    if let Some(found) = server.sessions.find(&id.0) {
        let record = server.sessions.get(found).and_then(|session| session.record.as_ref());
        if record.and_then(|record| record.expires).is_some_and(|expires| expires <= server.now) {
            drop_session(server, found);
        }
        return false;
    }
    let Some(identity) = identity.filter(|_| !is_foreign && !has_ended) else { return false };
    let until = server.now + server.config.store_timeout;
    load_until(server, key, until);
    report(server, SharedSessionEvent::TakeUp { exchange: ExchangeId(key), identity });
    true
}

fn inspect(
    server: &mut Server,
    key: Key,
    session: Option<SessionKey>,
    _frame: &Bytes,
    envelope: &Envelope<'_>,
) -> Effect {
    // A handshake begins a session.
    let Some(session) = session else { return Effect::Changes };
    relay::note_request(server, key, envelope);
    if !matches!(&*envelope.method, methods::INITIALIZED | methods::PING) {
        mark_initialized(server, session);
    }
    Effect::None
}

fn inspect_batch(server: &mut Server, key: Key, _frame: &Bytes, contents: &BatchContents) -> Effect {
    if contents.has_requests {
        relay::note_batch(server, key);
    }
    if let SessionLookup::Session(session) = server.find_session(key) {
        mark_initialized(server, session);
    }
    Effect::None
}

fn hold(server: &mut Server, key: Key) {
    let Some(session) = server.exchanges.get(key).and_then(|x| x.session()) else { return };
    hold_response(server, key);
    let id = id_of(server, session);
    report(server, SharedSessionEvent::Begun { exchange: ExchangeId(key), id });
}

/// Ends the handshake of a session, which may have ended in another process.
fn mark_initialized(server: &mut Server, session: SessionKey) {
    if server.sessions.is_uninitialized(&server.engine, session) {
        if let Some(channel) = server.sessions.get(session).map(|session| session.channel) {
            server.engine.exchanges().mark_initialized(channel);
        }
    }
}

/// Ends the stream of a call of another process: no process can be asked for it.
fn resume(server: &mut Server, key: Key, _: SessionKey) {
    if let Some(x) = server.exchanges.get_mut(key) {
        (x.phase, x.session_is_loaded) = (RequestPhase::Loading, true);
    }
    relay::end_lost(server, key);
}

#[cfg(test)]
mod tests {
    use super::super::super::Config;
    use super::*;
    use crate::entropy::Entropy;
    use crate::sync::Arc;
    use alloc::vec::Vec;

    #[test]
    fn ended_sessions_beyond_the_limit_make_room_by_those_that_expire_first() {
        let config = Arc::new(crate::server::Config::new("demo", "1.0"));
        let mut server = Server::new(config, Arc::new(Config::new()), Entropy::new([7; 32], 0));
        server.shared_sessions().begin_in_ids(1).expect("no subscriptions");
        let at = |n: usize| Instant::from_micros(n as u64);
        let id = |n: usize| core::array::from_fn(|at| n.to_be_bytes().get(at).copied().unwrap_or_default());
        let mut end_one = |full: &[([u8; ID_LEN], Instant)], now| {
            server.now = now;
            server.sharing.as_mut().expect("begun").ended = full.to_vec();
            let channel = server.engine.open_channel(now).0;
            let session = server.begin_session(channel, None, Sessions::get().expect("built"));
            expire_at(&mut server, session, at(1_000_000));
            end(&mut server, session, None);
            let own = <[u8; ID_LEN]>::try_from(id_of(&server, session).0.as_bytes()).expect("an id");
            let ended = core::mem::take(&mut server.sharing.as_mut().expect("begun").ended);
            assert!(ended.is_sorted() && ended.contains(&(own, at(1_000_000))));
            ended
        };
        // They expire one after the other, the last id first.
        let all: Vec<_> = (0..MAX_ENDED).map(|n| (id(n), at(MAX_ENDED - n))).collect();
        assert_eq!(end_one(&all[1..], at(0)).len(), MAX_ENDED, "the last place");
        let ended = end_one(&all, at(0));
        assert!(ended.len() == MAX_ENDED && !ended.contains(&all[MAX_ENDED - 1]), "the next one to expire");
        // Those that have expired go at the limit alone.
        assert_eq!(end_one(&all[1..], at(3)).len(), MAX_ENDED);
        let ended = end_one(&all, at(3));
        assert_eq!(ended.len(), MAX_ENDED - 3 + 1);
        assert!(ended.contains(&all[MAX_ENDED - 4]) && !ended.contains(&all[MAX_ENDED - 3]));
    }
}
