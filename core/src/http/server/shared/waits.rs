//! Waits for the store: requests wait for their sessions, and responses until changes are stored.
//!
//! Each has a time limit. Then the client gets 503, because its session may be out of date, or its change may not be stored.

use alloc::vec::Vec;

use super::super::Server;
use super::super::exchange_table::{ExchangeId, Kind, RepeatState, RequestPhase, SessionKey, SessionUse};
use super::super::refusal::overloaded;
use super::super::session::{HttpSession, drop_session, is_id};
use super::super::snapshot::SnapshotError;
use super::{SessionId, SharedSessionEvent, SharedSessions, Unstored, id_of, is_stale, repeat, report};
use crate::slab::Key;
use crate::time::Instant;

/// Returns whether a session is here as the store has it, as far as it is known.
fn is_current(server: &Server, session: SessionKey) -> bool {
    // The next step of a handshake may be under way in another process.
    server.sessions.get(session).is_some_and(|session| !is_stale(session))
        && !server.sessions.is_uninitialized(&server.engine, session)
}

pub(super) fn wait(server: &mut Server, key: Key) -> bool {
    let Some(x) = server.exchanges.get(key).filter(|x| !x.session_is_loaded) else { return false };
    let Some(id) = x.headers.session().ok().flatten() else { return false };
    let is_get = x.kind == Kind::Get;
    // Looked for first: nearly always it is here, its id has the right form then, and the revision does not matter.
    if let Some(session) = server.sessions.find(id) {
        let is_own = |session: &HttpSession| session.principal.as_deref() == x.principal();
        // The wrong principal is refused without the store.
        if !server.sessions.get(session).is_some_and(is_own) || !is_get && is_current(server, session) {
            return false;
        }
    }
    let text = core::str::from_utf8(id).ok().filter(|_| !x.headers.names_modern_revision());
    let Some(id) = text.filter(|text| is_id(text) && server.sessions.foreign_shard(id).is_none()) else {
        return false;
    };
    let id = SessionId(id.into());
    let until = server.now + server.config.store_timeout;
    load_until(server, key, until);
    report(server, SharedSessionEvent::Load { exchange: ExchangeId(key), id });
    true
}

/// Holds the response of an exchange back, until the store has answered.
pub(super) fn hold_response(server: &mut Server, key: Key) {
    if let Some(x) = server.exchanges.get_mut(key) {
        x.is_held = true;
    }
    let until = server.now + server.config.store_timeout;
    server.undecided.add_held(&server.exchanges, key, until);
    note_wait(server, key, until);
}

/// Makes a request wait for its session, or the stream that it resumes.
pub(super) fn load_until(server: &mut Server, key: Key, until: Instant) {
    server.undecided.add(&mut server.exchanges, key, until, RequestPhase::Loading);
    note_wait(server, key, until);
}

/// Notes until when an exchange waits: timers of earlier waits may fire before.
pub(super) fn note_wait(server: &mut Server, key: Key, until: Instant) {
    let Some(sharing) = server.sharing.as_mut() else { return };
    if sharing.waits.len() <= key.slot() {
        sharing.waits.resize(key.slot() + 1, (Key::NONE, until));
    }
    if let Some(wait) = sharing.waits.get_mut(key.slot()) {
        *wait = (key, until);
    }
}

pub(super) fn hold(server: &mut Server, key: Key) {
    let Some(x) = server.exchanges.get(key) else { return };
    let Some(session) = x.session() else { return };
    hold_response(server, key);
    if let Some(sharing) = server.sharing.as_mut() {
        let before = core::mem::take(&mut sharing.before);
        let unstored = sharing.unstored.entry(session.key).or_insert_with(|| Unstored {
            saved: before.clone(),
            stored: before,
            exchanges: Vec::new(),
        });
        unstored.exchanges.push(key);
    }
    let id = id_of(server, session);
    report(server, SharedSessionEvent::Changed { exchange: ExchangeId(key), id });
}

/// Lets the response of an exchange go. Returns whether it was held back.
pub(super) fn release(server: &mut Server, key: Key, is_stored: bool) -> bool {
    let session = server.exchanges.get(key).and_then(|x| x.session());
    if let Some(sharing) = server.sharing.as_mut() {
        let goes_on = |unstored: &mut Unstored| {
            let before = unstored.exchanges.len();
            unstored.exchanges.retain(|exchange| *exchange != key);
            if is_stored && unstored.exchanges.len() < before {
                unstored.stored = unstored.saved.clone();
            }
            !unstored.exchanges.is_empty()
        };
        match session.map(|session| session.key) {
            Some(session) => {
                if sharing.unstored.get_mut(&session).is_some_and(|unstored| !goes_on(unstored)) {
                    sharing.unstored.remove(&session);
                }
            }
            // Its client is gone.
            None => sharing.unstored.retain(|_, unstored| goes_on(unstored)),
        }
    }
    let Some(x) = server.exchanges.get_mut(key).filter(|x| x.is_held) else { return false };
    x.is_held = false;
    server.exchanges.mark_ready(key);
    true
}

fn refuse(server: &mut Server, key: Key) {
    if !release(server, key, false) {
        return;
    }
    let Some(x) = server.exchanges.get_mut(key) else { return };
    let begun = x.session().filter(|_| x.session_use == SessionUse::Begins);
    server.finish(key);
    if let Some(session) = begun {
        // Its client never learns the id.
        drop_session(server, session);
    }
    if let Some(x) = server.exchanges.get_mut(key) {
        x.out.clear();
        x.response = None;
    }
    server.exchanges.refuse(key, &overloaded("the session could not be stored"));
}

pub(super) fn expire(server: &mut Server, key: Key) {
    let wait = server.sharing.as_ref().and_then(|sharing| sharing.waits.get(key.slot()));
    if wait.is_some_and(|(waiting, until)| *waiting == key && *until > server.now) {
        return;
    }
    match server.exchanges.get(key) {
        Some(x) if x.is_held => refuse(server, key),
        Some(x) if x.repeat == RepeatState::Removing => repeat::expire(server, key),
        Some(x) if x.phase != RequestPhase::Loading => {}
        Some(x) if x.session_is_loaded => repeat::expire(server, key),
        Some(_) => server.exchanges.refuse(key, &overloaded("the session was not read in time")),
        None => {}
    }
}

impl SharedSessions<'_> {
    /// Lets a request go on with the record of its session that another process, or this one, has [saved](Self::save).
    /// `version` is that of the record, at least 1.
    ///
    /// No effect if the request has stopped waiting.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`] if the record is not one of this session, or cannot be taken. The request is answered with 404 then,
    /// after which its client begins a new session, or with 503 if there is no room.
    pub fn found(
        &mut self,
        now: Instant,
        exchange: ExchangeId,
        version: u64,
        snapshot: &[u8],
    ) -> Result<(), SnapshotError> {
        self.server.tick(now);
        let key = exchange.0;
        let Some(x) = self.server.exchanges.get(key).filter(|x| x.phase == RequestPhase::Loading) else {
            return Ok(());
        };
        let is_get = x.kind == Kind::Get;
        let named = x.headers.session().ok().flatten().map(<[u8]>::to_vec);
        let taken = self.take(version, snapshot, named.as_deref(), is_get);
        match taken {
            Err(SnapshotError::Full | SnapshotError::ShuttingDown) => {
                self.server.exchanges.refuse(key, &overloaded("there is no room for the session"));
            }
            Err(_) => self.not_found(now, exchange),
            Ok(()) => self.go_on(key),
        }
        taken
    }

    /// Lets a request whose session is not in the store go on: its client is told that the session is over.
    pub fn not_found(&mut self, now: Instant, exchange: ExchangeId) {
        self.server.tick(now);
        let x = self.server.exchanges.get(exchange.0).filter(|x| x.phase == RequestPhase::Loading);
        let Some(x) = x else { return };
        let named = x.headers.session().ok().flatten();
        if let Some(session) = named.and_then(|id| self.server.sessions.find(id)) {
            drop_session(self.server, session);
        }
        self.go_on(exchange.0);
    }

    /// Lets a request go on without the store, if what is here is enough, and refuses it with 503 otherwise. One that
    /// [resumes](SharedSessionEvent::Resume) a stream is refused: the other process cannot be asked.
    pub fn unavailable(&mut self, now: Instant, exchange: ExchangeId) {
        self.server.tick(now);
        let server = &mut *self.server;
        let x = server.exchanges.get(exchange.0).filter(|x| x.phase == RequestPhase::Loading);
        let Some(x) = x else { return };
        let session = x.headers.session().ok().flatten().and_then(|id| server.sessions.find(id));
        if !x.session_is_loaded && session.is_some_and(|session| is_current(server, session)) {
            return self.go_on(exchange.0);
        }
        server.exchanges.refuse(exchange.0, &overloaded("the sessions cannot be read at present"));
    }

    /// Lets the response to a request that has changed a session go: the change is stored, in a record with this version,
    /// or the record of the session that has ended is removed.
    pub fn stored(&mut self, now: Instant, exchange: ExchangeId, version: u64) {
        self.server.tick(now);
        let session = self.server.exchanges.get(exchange.0).and_then(|x| x.session());
        if let Some(session) = session.and_then(|session| self.server.sessions.get_mut(session)) {
            session.record.get_or_insert_default().version = version;
        }
        release(self.server, exchange.0, true);
    }

    /// Answers a request that has changed a session with 503, because the change is not stored. A session that has begun
    /// with it ends.
    pub fn not_stored(&mut self, now: Instant, exchange: ExchangeId) {
        self.server.tick(now);
        refuse(self.server, exchange.0);
    }

    /// Lets a request go on that has waited for its session.
    pub(super) fn go_on(&mut self, key: Key) {
        let Some(x) = self.server.exchanges.get_mut(key) else { return };
        (x.phase, x.session_is_loaded) = (RequestPhase::ReceivingBody, true);
        self.server.proceed(key);
    }
}
