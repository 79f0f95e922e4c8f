//! Streams that are resumed at another process than the one that has them.
//!
//! The ids of events tell whose stream it is, by its number, and of a call also the id of its request. The process of the call
//! opens the stream as if its client were there, and passes the bytes on. If it has ended, the call is lost: its client gets an
//! error, unless the call can be [repeated](super::repeat). A GET stream is not moved: a new one begins, all changes are announced on it, and the processes give it what waits.

use alloc::boxed::Box;
use alloc::string::String;
use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;

use super::super::admission::AdmissionHeaders;
use super::super::exchange_table::{
    ExchangeId, Kind, RepeatState, RequestPhase, ResponseForm, ServerExchange, SessionKey,
};
use super::super::refusal::{unknown_event_id, unknown_session};
use super::super::resumption::{
    EventNote, ReplayEntry, event_stream_fields, parse_event_id, resumed_event, write_entry,
};
use super::super::session::SessionLookup;
use super::super::snapshot::lost_call;
use super::super::{MAX_BUFFERED_BODY, Server};
use super::repeat::{event_here, runs, seek};
use super::waits::load_until;
use super::{NUMBERS, SessionId, SharedSessionEvent, SharedSessions, StreamPlace, id_of, report};
use crate::built::Sessions;
use crate::head::BodySize;
use crate::http::fields;
use crate::rpc::RequestId;
use crate::rpc::envelope::Envelope;
use crate::slab::Key;
use crate::time::Instant;

/// Time after which a process that does not answer has ended.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest id of a request that ids of events repeat, in bytes of JSON.
const MAX_NOTED_ID: usize = 64;
/// Length of its note.
const MAX_NOTE: usize = (4 * MAX_NOTED_ID).div_ceil(3);
/// The note of a batch and of a request with a longer id. It is not that of any id: if its process has ended, no request can be
/// answered.
const OTHER_NOTE: &str = "_";
/// Number of relayed bytes that may wait for a slow client. Beyond it the stream ends, and its client resumes it.
const MAX_RELAYED: usize = 64 * MAX_BUFFERED_BODY;

/// Notes the request of a call for the ids of its events.
pub(super) fn note_request(server: &mut Server, key: Key, envelope: &Envelope<'_>) {
    if let (Some(x), Some(id)) = (server.exchanges.get_mut(key), &envelope.id) {
        x.event_note = Some(EventNote::Request(id.clone()));
    }
}

/// Writes the note of a call, before its first event.
pub(super) fn write_note(server: &mut Server, key: Key) {
    let Some(x) = server.exchanges.get_mut(key) else { return };
    if let Some(EventNote::Request(id)) = &x.event_note {
        x.event_note = Some(EventNote::Text(note_of(id)));
    }
}

/// Returns the note of the request of an exchange, if the ids of its events name it.
pub(super) fn request_of(x: &ServerExchange) -> Option<Box<str>> {
    match &x.event_note {
        Some(EventNote::Request(id)) => note_of_one(id),
        Some(EventNote::Text(text)) => Some(text.clone()).filter(|text| **text != *OTHER_NOTE),
        None => None,
    }
}

/// Returns the note of a request, unless its id is too long.
pub(super) fn note_of_one(id: &RequestId) -> Option<Box<str>> {
    Some(note_of(id)).filter(|note| **note != *OTHER_NOTE)
}

fn note_of(id: &RequestId) -> Box<str> {
    let (mut text, mut note) = (alloc::vec::Vec::with_capacity(16), [0; MAX_NOTE]);
    id.write(&mut text);
    // Fails for a text of more than `MAX_NOTED_ID`.
    let len = URL_SAFE_NO_PAD.encode_slice(text, &mut note).unwrap_or_default();
    let note = note.get(..len).and_then(|note| core::str::from_utf8(note).ok());
    note.filter(|note| !note.is_empty()).unwrap_or(OTHER_NOTE).into()
}

/// Notes in the ids of events that they belong to the calls of a batch.
pub(super) fn note_batch(server: &mut Server, key: Key) {
    if let Some(x) = server.exchanges.get_mut(key) {
        x.event_note = Some(EventNote::Text(OTHER_NOTE.into()));
    }
}

fn noted(note: &str) -> Option<RequestId> {
    RequestId::from_json(&URL_SAFE_NO_PAD.decode(note).ok()?, MAX_NOTED_ID)
}

/// Returns whether a stream has a number of this process.
pub(super) fn is_own(server: &Server, stream: u32) -> bool {
    let begin = server.sharing.as_ref().map_or(0, |sharing| sharing.streams_begin_after);
    stream.wrapping_sub(begin) < NUMBERS
}

pub(super) fn place_of(server: &mut Server, session: SessionKey, stream: u32, is_call: bool) -> StreamPlace {
    match (is_own(server, stream), is_call) {
        (true, false) => StreamPlace::Here,
        (true, true) if !may_have_moved(server, session, stream) => StreamPlace::Here,
        (false, false) => StreamPlace::GetStreamElsewhere,
        _ => StreamPlace::CallElsewhere,
    }
}

/// Returns whether another process may have taken the call of an own stream over.
fn may_have_moved(server: &mut Server, session: SessionKey, stream: u32) -> bool {
    server.sharing.as_ref().is_some_and(|sharing| sharing.repeats.is_some())
        && !is_here(server, session, stream)
}

/// Returns whether the call of a stream runs here, or events of it are kept.
fn is_here(server: &mut Server, session: SessionKey, stream: u32) -> bool {
    let is_open = server.sessions.find_call(&mut server.exchanges, session, stream).is_some();
    let log = server.sessions.get(session).and_then(|session| session.replay_log.as_ref());
    is_open || log.is_some_and(|log| log.has_stream(stream))
}

/// Resumes a stream that is here, whatever process its number is of: a call that was [repeated](super::repeat) keeps it. Returns
/// whether it is.
pub(super) fn resume_here(server: &mut Server, key: Key) -> bool {
    let SessionLookup::Session(session) = server.find_session(key) else { return false };
    let after = server.exchanges.get(key).and_then(resumed_event);
    let (Some((stream, event, _)), Some(built)) = (after, Sessions::get()) else { return false };
    let is_here = is_here(server, session, stream);
    if is_here {
        let is_own = is_own(server, stream);
        let event = if is_own { event } else { event_here(server, session, stream, event) };
        server.resume_stream(key, session, (stream, event), built);
    }
    is_here
}

pub(super) fn resume(server: &mut Server, key: Key, _: SessionKey) {
    if resume_here(server, key) {
        return;
    }
    let Some((stream, ..)) = server.exchanges.get(key).and_then(resumed_event) else { return };
    if is_own(server, stream) {
        // A request that names a modern revision has not waited for its session, and only this time limit ends it.
        let until = server.now + ANSWER_TIMEOUT;
        load_until(server, key, until);
        return seek(server, key);
    }
    ask(server, key, stream / NUMBERS);
}

/// Asks the process with a number for the stream that a request resumes.
pub(super) fn ask(server: &mut Server, key: Key, process: u32) {
    let SessionLookup::Session(session) = server.find_session(key) else {
        return server.exchanges.refuse(key, &unknown_session());
    };
    let Some(x) = server.exchanges.get(key) else { return };
    let Ok(Some(after)) = x.headers.last_event_id() else { return };
    let after = String::from(after);
    let until = server.now + ANSWER_TIMEOUT;
    load_until(server, key, until);
    let id = id_of(server, session);
    report(server, SharedSessionEvent::Resume { exchange: ExchangeId(key), id, process, after });
}

pub(super) fn report_stream(server: &mut Server, key: Key, session: SessionKey) {
    let after = server.exchanges.get(key).and_then(|x| x.headers.last_event_id().ok().flatten());
    let (after, id) = (after.map(String::from), id_of(server, session));
    report(server, SharedSessionEvent::StreamOpened { id, after });
}

/// Ends the stream of a call that is lost.
pub(super) fn end_lost(server: &mut Server, key: Key) {
    let Some(x) = server.exchanges.get(key).filter(|x| is_waiting(x)) else { return };
    let lost = resumed_event(x).and_then(|(stream, event, note)| Some((stream, event, noted(note)?)));
    let Some((stream, event, id)) = lost else {
        return server.exchanges.refuse(key, &unknown_event_id());
    };
    begin(server, key);
    let event = event.saturating_add(1);
    let entry = ReplayEntry { stream, event, is_last: true, message: lost_call(&id) };
    if let Some(x) = server.exchanges.get_mut(key) {
        // A client that resumes the stream after this error as well is told no second one: the SDK of TypeScript takes only
        // results for answers, and would not stop.
        write_entry(&mut x.out, &entry, Some(OTHER_NOTE));
    }
    server.finish(key);
}

/// Ends a request that resumes the stream of a call which is not in the store: an own one is unknown, and one of another process
/// is lost.
pub(super) fn end_unknown(server: &mut Server, key: Key) {
    let after = server.exchanges.get(key).and_then(resumed_event);
    if after.is_some_and(|(stream, ..)| is_own(server, stream)) {
        return server.exchanges.refuse(key, &unknown_event_id());
    }
    end_lost(server, key);
}

/// Returns whether a request waits for the stream of another process.
pub(super) fn is_waiting(x: &ServerExchange) -> bool {
    x.phase == RequestPhase::Loading && x.session_is_loaded
}

/// Returns whether a request waits for the answer of another process, and its call is not looked for in the store.
fn is_asking(x: &ServerExchange) -> bool {
    is_waiting(x) && x.repeat == RepeatState::None
}

/// Returns whether a response is that of a stream of another process.
const fn is_relayed(x: &ServerExchange) -> bool {
    matches!((x.kind, x.form), (Kind::Get, ResponseForm::EventStream)) && x.session().is_none()
}

/// Returns the time after which the process of a stream has ended: it sends comments more often.
fn silence(server: &Server) -> Duration {
    server.config.keep_alive.saturating_mul(2).saturating_add(ANSWER_TIMEOUT)
}

/// Ends the stream of another process that has ended. Its client resumes it, and learns that the call is lost.
pub(super) fn check(server: &mut Server, key: Key) {
    let Some(x) = server.exchanges.get(key).filter(|x| is_relayed(x)) else { return };
    let until = x.idle_since + silence(server);
    if until <= server.now {
        server.finish(key);
    } else {
        server.exchanges.schedule_check(until, key);
    }
}

/// Begins the response to a request that resumes a stream of another process.
fn begin(server: &mut Server, key: Key) {
    let Some(x) = server.exchanges.get_mut(key) else { return };
    (x.phase, x.form) = (RequestPhase::Active, ResponseForm::EventStream);
    x.respond(200, event_stream_fields(), BodySize::Stream);
    server.exchanges.mark_ready(key);
}

/// The outcome of [`SharedSessions::open_relay`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenedRelay {
    /// The stream is open, in this exchange.
    Open(ExchangeId),
    /// The call runs here, but the event is not kept any more, or there was none with its id. The call must not be taken over.
    EventIsGone,
    /// The call does not run here, and what follows the event is not kept.
    Unknown,
}

impl SharedSessions<'_> {
    /// Opens the stream of a call for another process, whose client [resumes](SharedSessionEvent::Resume) it there.
    ///
    /// The exchange is one like those of clients: its body is for [`relay`](Self::relay) there.
    pub fn open_relay(&mut self, now: Instant, id: &SessionId, after: &str) -> OpenedRelay {
        let server = &mut *self.server;
        server.tick(now);
        let session = server.sessions.find(id.reveal());
        let (Some(session), Some((stream, _, note))) = (session, parse_event_id(after)) else {
            return OpenedRelay::Unknown;
        };
        let Some(channel) = server.sessions.get(session).map(|session| session.channel) else {
            return OpenedRelay::Unknown;
        };
        if !is_here(server, session, stream) {
            return if runs(server, session, note) { OpenedRelay::EventIsGone } else { OpenedRelay::Unknown };
        }
        let runs = runs(server, session, note);
        let key = server.exchanges.open(Kind::Get, server.now);
        let lines = [(fields::SESSION_ID, id.reveal().as_bytes()), (fields::LAST_EVENT_ID, after.as_bytes())];
        let party = server.engine.exchanges().party(channel);
        if let Some(x) = server.exchanges.get_mut(key) {
            x.headers.record(&AdmissionHeaders::new(&lines), false);
            x.session_is_loaded = true;
        }
        if let Some(party) = party {
            server.exchanges.set_authorization(key, party, None);
        }
        resume_here(server, key);
        let is_open = |server: &Server| {
            let x = server.exchanges.get(key);
            x.is_some_and(|x| x.response.as_ref().is_some_and(|response| response.status == 200))
        };
        if is_open(server) {
            return OpenedRelay::Open(ExchangeId(key));
        }
        server.handle_gone(now, ExchangeId(key));
        if runs { OpenedRelay::EventIsGone } else { OpenedRelay::Unknown }
    }

    /// Adds bytes of a stream that another process has opened to the response of a request that resumes it. With the last
    /// ones it ends.
    ///
    /// Returns whether the client is still there, and keeps up.
    pub fn relay(&mut self, now: Instant, exchange: ExchangeId, bytes: &Bytes, is_last: bool) -> bool {
        let server = &mut *self.server;
        server.tick(now);
        let key = exchange.0;
        let Some(x) = server.exchanges.get(key).filter(|x| x.is_live()) else { return false };
        if is_waiting(x) {
            begin(server, key);
            server.exchanges.schedule_check(server.now + silence(server), key);
        } else if !is_relayed(x) {
            return false;
        }
        let Some(x) = server.exchanges.get_mut(key) else { return false };
        x.out.push(bytes);
        x.idle_since = server.now;
        let keeps_up = x.out.len() <= MAX_RELAYED;
        if is_last || !keeps_up {
            server.finish(key);
        } else {
            server.exchanges.mark_ready(key);
        }
        keeps_up
    }

    /// Refuses a request that resumes the stream of a call of another process, which has the call, and not
    /// [that event](OpenedRelay::EventIsGone).
    pub fn event_is_gone(&mut self, now: Instant, exchange: ExchangeId) {
        self.server.tick(now);
        if self.server.exchanges.get(exchange.0).is_some_and(is_asking) {
            self.server.exchanges.refuse(exchange.0, &unknown_event_id());
        }
    }

    /// Ends a request that resumes the stream of a call of another process which does not know it, or has ended: the request
    /// of the call gets an error, unless the call [can be repeated](SharedSessionEvent::FindCall).
    pub fn call_is_lost(&mut self, now: Instant, exchange: ExchangeId) {
        self.server.tick(now);
        if self.server.exchanges.get(exchange.0).is_some_and(is_asking) {
            seek(self.server, exchange.0);
        }
    }
}
