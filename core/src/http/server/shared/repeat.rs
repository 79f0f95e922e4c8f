//! Calls of tools that may run again: another process repeats them if this one ends before it has answered.
//!
//! Such a call goes to its handler once its message is in the store, under a name that the ids of its events tell as well. A
//! process at which the client resumes the stream takes the message over when the owner is silent, and runs the call. The answer of
//! the owner waits until its message is out of the store. If another process has taken it over, the answer is dropped.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::time::Duration;

use bytes::Bytes;

use super::super::Server;
use super::super::exchange_table::{
    ExchangeId, RepeatState, RequestPhase, ServerExchange, SessionKey, SessionPlace,
};
use super::super::post::{check_room_in, post_again};
use super::super::refusal::{overloaded, repeated_id, unknown_event_id, unknown_session};
use super::super::resumption::{EventNote, resumed_event};
use super::super::session::SessionLookup;
use super::waits::{load_until, note_wait};
use super::{NUMBERS, SharedSessionEvent, SharedSessions, id_of, relay, report};
use crate::json::string;
use crate::methods;
use crate::rpc::envelope::{self, Envelope};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;

/// Largest number of calls of a session that are in the store for a process.
const MAX_CALLS: usize = 8;
/// Largest message of such a call, in bytes.
const MAX_MESSAGE: usize = 16 << 10;
/// Number of cancellations of calls of other processes that are noted in the store within [`CANCELLATION_WINDOW`]. Further ones are
/// passed on only: their calls may run again if their processes end.
const MAX_CANCELLATIONS: usize = 1024;
/// See [`MAX_CANCELLATIONS`].
const CANCELLATION_WINDOW: Duration = Duration::from_secs(60);

/// The name of a call in its session, for a store ([`SharedSessionEvent::KeepCall`]).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KeptCall {
    /// The number of the process that the call came to, modulo 1024.
    pub process: u32,
    /// The id of its request, as ids of events have it.
    pub request: String,
}

/// The tools whose calls may run again, and the calls that are in the store.
///
/// A trait object, so that a program that shares no sessions is linked without the tables.
pub(super) trait Repeats: Debug + Send + Sync {
    fn is_repeatable(&self, tool: &str) -> bool;
    /// Returns the calls of a session that wait for their messages to be stored, to add one.
    fn storing(&mut self, session: Key, is_storing: &dyn Fn(Key) -> bool) -> &mut Vec<Key>;
    /// Returns which process each request has asked last that resumes a call which was taken over.
    fn asked(&mut self) -> &mut BTreeMap<Key, u32>;
    /// Returns whether one more cancellation may be noted in the store now.
    fn may_note_cancellation(&mut self, now: Instant) -> bool;
}

#[derive(Debug, Default)]
struct RepeatTables {
    tools: BTreeSet<Box<str>>,
    /// The calls of each session that wait for their messages to be stored; may contain some that do not any more.
    storing: BTreeMap<Key, Vec<Key>>,
    /// The processes that requests have asked; may contain some that do not wait any more.
    asked: BTreeMap<Key, u32>,
    /// Until when, and how many, cancellations are noted.
    cancellations: Option<(Instant, usize)>,
}

impl Repeats for RepeatTables {
    fn is_repeatable(&self, tool: &str) -> bool {
        self.tools.contains(tool)
    }

    fn storing(&mut self, session: Key, is_storing: &dyn Fn(Key) -> bool) -> &mut Vec<Key> {
        if !self.storing.contains_key(&session) && self.storing.len().is_power_of_two() {
            // Those of sessions that have ended. Their number doubles between two looks at all.
            self.storing.retain(|_, calls| calls.iter().any(|call| is_storing(*call)));
        }
        let calls = self.storing.entry(session).or_default();
        calls.retain(|call| is_storing(*call));
        calls
    }

    fn asked(&mut self) -> &mut BTreeMap<Key, u32> {
        &mut self.asked
    }

    fn may_note_cancellation(&mut self, now: Instant) -> bool {
        let (until, noted) =
            self.cancellations.filter(|(until, _)| now < *until).unwrap_or((now + CANCELLATION_WINDOW, 0));
        self.cancellations = Some((until, noted.saturating_add(1)));
        noted < MAX_CANCELLATIONS
    }
}

/// Returns the calls of a session that wait for their messages to be stored, to add one. `None` if no call may run again.
fn storing(server: &mut Server, session: SessionKey) -> Option<&mut Vec<Key>> {
    let exchanges = &server.exchanges;
    let is_storing = |call| exchanges.get(call).is_some_and(|x| x.repeat == RepeatState::Storing);
    let repeats = server.sharing.as_mut()?.repeats.as_mut()?;
    Some(repeats.storing(session.key, &is_storing))
}

/// Returns the calls of a session that wait for their messages to be stored.
fn waiting_calls(server: &mut Server, session: SessionKey) -> Vec<Key> {
    storing(server, session).cloned().unwrap_or_default()
}

/// Returns which process each request has asked last. `None` if no call may run again.
fn asked(server: &mut Server) -> Option<&mut BTreeMap<Key, u32>> {
    Some(server.sharing.as_mut()?.repeats.as_mut()?.asked())
}

/// Returns the exchanges of a session, whichever its calls are at now.
fn exchanges_of(server: &mut Server, session: SessionKey) -> Vec<Key> {
    let session = server.sessions.get(session);
    session.map(|session| server.exchanges.indexed(session.exchanges())).unwrap_or_default()
}

/// Returns whether the request of an exchange has a note.
fn is_request(server: &Server, key: Key, note: &str) -> bool {
    server.exchanges.get(key).and_then(relay::request_of).is_some_and(|request| *request == *note)
}

/// Makes a request wait until its message is in the store, if its call may run again. Returns whether it does.
pub(super) fn keep(server: &mut Server, key: Key, frame: &Bytes, envelope: &Envelope<'_>) -> bool {
    let is_call = envelope.kind == envelope::Kind::Request && envelope.method == methods::TOOLS_CALL;
    if !is_call || frame.len() > MAX_MESSAGE {
        return false;
    }
    let SessionLookup::Session(session) = server.find_session(key) else { return false };
    let Some(repeats) = server.sharing.as_ref().and_then(|sharing| sharing.repeats.as_ref()) else {
        return false;
    };
    let tool = envelope.params.name.slice(frame).and_then(string);
    if !tool.is_some_and(|tool| repeats.is_repeatable(&tool)) {
        return false;
    }
    let x = server.exchanges.get(key).filter(|x| x.repeat == RepeatState::None);
    let Some(note) = x.and_then(relay::request_of) else { return false };
    let waiting = waiting_calls(server, session);
    if waiting.iter().any(|call| is_request(server, *call, &note)) {
        // The engine does not know that call yet, which would be refused in the place of this one.
        server.exchanges.refuse(key, &repeated_id());
        return true;
    }
    // The message of a call that runs must not be lost for one with the same id, which the engine refuses.
    let Some(channel) = server.sessions.get(session).map(|session| session.channel) else { return false };
    let mut unanswered = server.engine.exchanges().unanswered(channel).into_iter();
    if unanswered.any(|(_, id)| Some(&id) == envelope.id.as_ref()) {
        return false;
    }
    let mut kept = exchanges_of(server, session);
    kept.retain(|key| {
        let x = server.exchanges.get(*key);
        x.is_some_and(|x| matches!(x.repeat, RepeatState::Stored | RepeatState::Removing))
    });
    let is_answering = kept.iter().any(|call| is_request(server, *call, &note));
    if is_answering || kept.len() + waiting.len() >= MAX_CALLS {
        return false;
    }
    if let Some(storing) = storing(server, session) {
        storing.push(key);
    }
    if let Some(x) = server.exchanges.get_mut(key) {
        (x.repeat, x.session_is_loaded) = (RepeatState::Storing, true);
        // It is processed anew then.
        x.push_body(frame.clone(), crate::server::memory(&server.engine));
    }
    let until = server.now + server.config.store_timeout;
    load_until(server, key, until);
    let id = id_of(server, session);
    if let Some(call) = name_of(server, key) {
        let (exchange, message) = (ExchangeId(key), frame.clone());
        report(server, SharedSessionEvent::KeepCall { exchange, id, call, message });
    }
    true
}

/// Returns the name of the call of an exchange.
fn name_of(server: &mut Server, key: Key) -> Option<KeptCall> {
    relay::write_note(server, key);
    let x = server.exchanges.get(key)?;
    let Some(EventNote::Text(request)) = &x.event_note else { return None };
    let begin = server.sharing.as_ref().map_or(0, |sharing| sharing.streams_begin_after);
    // The stream of a repeated call has the number that it had where the call came to.
    let number = if x.place().number == 0 { begin } else { x.place().number };
    Some(KeptCall { process: number / NUMBERS, request: String::from(&**request) })
}

/// Goes on with a request whose message is in the store, or whose call cannot be repeated. Returns false if its session has ended
/// meanwhile.
pub(super) fn go_on(server: &mut Server, key: Key, is_stored: bool) -> bool {
    let Some(x) = server.exchanges.get_mut(key) else { return false };
    x.repeat = if is_stored { RepeatState::Stored } else { RepeatState::Never };
    x.phase = RequestPhase::ReceivingBody;
    server.proceed(key);
    let is_refused = |x: &&mut ServerExchange| x.repeat == RepeatState::Stored && x.stream.is_none();
    let Some(x) = server.exchanges.get_mut(key).filter(is_refused) else { return true };
    x.repeat = RepeatState::Never;
    let SessionLookup::Session(session) = server.find_session(key) else { return false };
    let id = id_of(server, session);
    if let Some(call) = name_of(server, key) {
        report(server, SharedSessionEvent::CallAnswered { exchange: ExchangeId(key), id, call });
    }
    true
}

/// Takes a cancellation of a request that does not run here. Returns whether the request waits here for its message to be stored:
/// then it never runs.
pub(super) fn cancel(
    server: &mut Server,
    session: SessionKey,
    frame: &Bytes,
    envelope: &Envelope<'_>,
) -> bool {
    let Some(request) = cancelled_request(server, frame, envelope) else { return false };
    if end_storing(server, session, &request) {
        return true;
    }
    let now = server.now;
    let repeats = server.sharing.as_mut().and_then(|sharing| sharing.repeats.as_mut());
    if repeats.is_some_and(|repeats| repeats.may_note_cancellation(now)) {
        let id = id_of(server, session);
        report(server, SharedSessionEvent::CallCancelled { id, request: request.into() });
    }
    false
}

/// Takes a message of another process: a call that it cancels, and that waits here for its message to be stored, never runs.
pub(super) fn receive(server: &mut Server, session: SessionKey, frame: &Bytes) {
    if server.sharing.as_ref().is_some_and(|sharing| sharing.repeats.is_some()) {
        let envelope = server.engine.parse(frame).ok();
        let request = envelope.and_then(|envelope| cancelled_request(server, frame, &envelope));
        if let Some(request) = request {
            end_storing(server, session, &request);
        }
    }
}

/// Returns the note of the request that a message cancels.
fn cancelled_request(server: &mut Server, frame: &Bytes, envelope: &Envelope<'_>) -> Option<Box<str>> {
    relay::note_of_one(&server.engine.exchanges().cancelled(frame, envelope)?)
}

/// Ends a request that waits for its message to be stored. Returns whether there is one.
fn end_storing(server: &mut Server, session: SessionKey, request: &str) -> bool {
    let mut waiting = waiting_calls(server, session).into_iter();
    let Some(call) = waiting.find(|call| is_request(server, *call, request)) else {
        return false;
    };
    if let Some(x) = server.exchanges.get_mut(call) {
        (x.repeat, x.phase) = (RepeatState::Never, RequestPhase::Active);
    }
    server.finish(call);
    true
}

/// Holds the answer of a call back while its message is in the store. Returns whether it is held.
pub(super) fn hold_answer(server: &mut Server, key: Key) -> bool {
    let Some(x) = server.exchanges.get_mut(key) else { return false };
    let Some(session) = x.session().filter(|_| x.repeat == RepeatState::Stored) else {
        return x.repeat == RepeatState::Removing;
    };
    // A server that ends does not wait for the store: the answer, or the error that it ends, would be lost.
    let is_held = !server.engine.is_shutting_down();
    x.repeat = if is_held { RepeatState::Removing } else { RepeatState::Never };
    if is_held {
        let until = server.now + server.config.store_timeout;
        server.undecided.add_held(&server.exchanges, key, until);
        note_wait(server, key, until);
    }
    let id = id_of(server, session);
    if let Some(call) = name_of(server, key) {
        report(server, SharedSessionEvent::CallAnswered { exchange: ExchangeId(key), id, call });
    }
    is_held
}

/// Lets the answer of a call go.
pub(super) fn release_answer(server: &mut Server, key: Key) {
    if let Some(x) = server.exchanges.get_mut(key) {
        x.repeat = RepeatState::Never;
        server.fill_response(key);
    }
}

/// Returns whether the call with a note runs here.
pub(super) fn runs(server: &mut Server, session: SessionKey, note: &str) -> bool {
    let calls = exchanges_of(server, session);
    let is_one = |call: &Key| {
        server.exchanges.get(*call).is_some_and(|x| x.place().is_call) && is_request(server, *call, note)
    };
    calls.iter().any(is_one)
}

/// Looks for the call whose stream a request resumes: its owner has ended. Without calls that may run again it is lost.
pub(super) fn seek(server: &mut Server, key: Key) {
    let repeats = server.sharing.as_ref().is_some_and(|sharing| sharing.repeats.is_some());
    // One that names a modern revision has not waited for its session, so it cannot wait for a call.
    let x = server.exchanges.get(key).filter(|x| repeats && relay::is_waiting(x));
    let Some((stream, _, note)) = x.and_then(resumed_event) else { return relay::end_lost(server, key) };
    let call = KeptCall { process: stream / NUMBERS, request: note.into() };
    let SessionLookup::Session(session) = server.find_session(key) else {
        return server.exchanges.refuse(key, &unknown_session());
    };
    if relay::is_own(server, stream) && runs(server, session, &call.request) {
        // The event is gone from the log, or was made up. The store is not asked: the call would run again if it ended meanwhile.
        return server.exchanges.refuse(key, &unknown_event_id());
    }
    let asked = asked(server).and_then(|asked| asked.get(&key).copied()).unwrap_or(call.process);
    // Before the message is taken over: afterwards no other process would run it.
    if let Err(refusal) = check_room_in(server, session) {
        return server.exchanges.refuse(key, &refusal);
    }
    if let Some(x) = server.exchanges.get_mut(key) {
        x.repeat = RepeatState::Sought;
    }
    let until = server.now + server.config.store_timeout + relay::ANSWER_TIMEOUT;
    load_until(server, key, until);
    let id = id_of(server, session);
    report(server, SharedSessionEvent::FindCall { exchange: ExchangeId(key), id, call, asked });
}

/// Ends a wait for the store.
pub(super) fn expire(server: &mut Server, key: Key) {
    match server.exchanges.get(key).map(|x| x.repeat) {
        Some(RepeatState::Storing) => _ = go_on(server, key, false),
        // Its message may be in the store still. A process takes it over only for a client that has not got the answer.
        Some(RepeatState::Removing) => release_answer(server, key),
        Some(RepeatState::Sought) => {
            server.exchanges.refuse(key, &overloaded("the call was not found in time"));
        }
        _ => seek(server, key),
    }
}

/// Returns the event after which a stream is resumed whose call runs here again, or has done so.
///
/// That may be a later one than any here: the earlier owner was only slow, and has sent more before its answer was dropped. Those
/// that follow here come after it.
pub(super) fn event_here(server: &mut Server, session: SessionKey, stream: u32, event: u32) -> u32 {
    let call = server.sessions.find_call(&mut server.exchanges, session, stream);
    if let Some(x) = call.and_then(|call| server.exchanges.get_mut(call)) {
        x.last_event = x.last_event.max(event);
        return event;
    }
    let log = server.sessions.get(session).and_then(|session| session.replay_log.as_ref());
    let last = log.and_then(|log| log.entries().filter(|entry| entry.stream == stream).last());
    // What its client can have missed then is the answer.
    last.filter(|last| last.event < event).map_or(event, |last| last.event.saturating_sub(1))
}

/// Begins a call again, for a request that resumes its stream.
fn repeat(server: &mut Server, key: Key, message: &Bytes) -> bool {
    let SessionLookup::Session(session) = server.find_session(key) else {
        server.exchanges.refuse(key, &unknown_session());
        return false;
    };
    let Some(x) = server.exchanges.get(key) else { return false };
    let Some((stream, event, note)) = resumed_event(x) else { return false };
    let (request, note, party) =
        (String::from(note), EventNote::Text(note.into()), x.authorization().cloned());
    if runs(server, session, &request) {
        // The number of the stream was made up.
        server.exchanges.refuse(key, &unknown_event_id());
        return true;
    }
    let tool = server.engine.parse(message).ok();
    let tool = tool.and_then(|envelope| envelope.params.name.slice(message).and_then(string));
    let repeats = server.sharing.as_ref().and_then(|sharing| sharing.repeats.as_ref());
    if !tool.zip(repeats).is_some_and(|(tool, repeats)| repeats.is_repeatable(&tool)) {
        // The process that has stored it had other tools.
        relay::end_lost(server, key);
        return true;
    }
    // Others may have begun since it was looked for.
    if let Err(refusal) = check_room_in(server, session) {
        server.exchanges.refuse(key, &refusal);
        return false;
    }
    let call = server.exchanges.open_detached(server.now);
    if let Some(party) = party {
        server.exchanges.set_authorization(call, party, None);
    }
    if let Some(x) = server.exchanges.get_mut(call) {
        (x.last_event, x.event_note, x.repeat) = (event, Some(note), RepeatState::Stored);
        x.phase = RequestPhase::Active;
    }
    let place = SessionPlace { session: Some(session), number: stream, is_call: false };
    server.sessions.set_place(&mut server.exchanges, call, place);
    if !post_again(server, call, session, message) {
        server.remove(call);
        relay::end_lost(server, key);
        return true;
    }
    if let Some(x) = server.exchanges.get_mut(call).filter(|x| !x.place().is_call) {
        // It was answered at once.
        x.repeat = RepeatState::Never;
        server.fill_response(call);
    }
    relay::resume_here(server, key);
    true
}

impl SharedSessions<'_> {
    /// Sets the tools whose calls another process may run again if this one ends before it has answered them. No effect before
    /// [`begin`](Self::begin).
    ///
    /// Up to 8 calls of a session at a time are [kept](SharedSessionEvent::KeepCall), whose messages have at most 16 KiB and whose
    /// ids have at most 64 bytes. Those that run again here count, and are not refused beyond the bound. A call beyond these bounds, a
    /// call in a batch, and one that came to the process before, ends with its process. So does one that came with the id of a call
    /// that runs, which is refused. A call whose cancellation is in a batch, or beyond 1,024 of a minute, may run again if its
    /// process ends.
    pub fn set_repeatable_tools(&mut self, tools: impl IntoIterator<Item = Box<str>>) {
        let tools = tools.into_iter().collect();
        if let Some(sharing) = self.server.sharing.as_mut() {
            sharing.repeats = Some(Box::new(RepeatTables { tools, ..RepeatTables::default() }));
        }
    }

    /// Lets a request go on whose call was to be [kept](SharedSessionEvent::KeepCall). If it is not in the store, it is not
    /// repeated.
    ///
    /// Returns whether the call runs, or [`CallAnswered`](SharedSessionEvent::CallAnswered) follows. Otherwise its client is gone, its
    /// session has ended, or the store was waited for in vain: remove it from there.
    pub fn call_kept(&mut self, now: Instant, exchange: ExchangeId, is_stored: bool) -> bool {
        self.server.tick(now);
        let x = self.server.exchanges.get(exchange.0).filter(|x| x.repeat == RepeatState::Storing);
        let is_waiting = x.is_some_and(|x| x.phase == RequestPhase::Loading);
        is_waiting && go_on(self.server, exchange.0, is_stored)
    }

    /// Lets the [answer](SharedSessionEvent::CallAnswered) of a call go. If another process has taken the call over, the answer is
    /// dropped, and the response ends without it.
    pub fn answer_call(&mut self, now: Instant, exchange: ExchangeId, is_taken_over: bool) {
        self.server.tick(now);
        let server = &mut *self.server;
        let key = exchange.0;
        let Some(x) = server.exchanges.get(key).filter(|x| x.repeat == RepeatState::Removing) else { return };
        if is_taken_over {
            let SessionPlace { session, number, .. } = x.place();
            if let Some(outbox) = x.stream.and_then(|stream| server.engine.outbox(ChannelId(stream))) {
                outbox.clear();
            }
            // Who resumes the stream here, or asks for it, is to find the new owner.
            let session = session.and_then(|session| server.sessions.get_mut(session));
            if let Some(log) = session.and_then(|session| session.replay_log.as_mut()) {
                log.forget(number);
            }
            return server.finish(key);
        }
        release_answer(server, key);
    }

    /// Asks the process with a number, modulo 1024, for the stream of a call that a client [resumes](SharedSessionEvent::FindCall):
    /// it has taken the call over. [`Resume`](SharedSessionEvent::Resume) follows, and if that process has ended, or does not know the
    /// call, it is looked for again.
    pub fn ask_owner(&mut self, now: Instant, exchange: ExchangeId, process: u32) {
        self.server.tick(now);
        let (server, key) = (&mut *self.server, exchange.0);
        let x = server.exchanges.get_mut(key).filter(|x| x.repeat == RepeatState::Sought);
        let Some(x) = x.filter(|x| relay::is_waiting(x)) else { return };
        x.repeat = RepeatState::None;
        let exchanges = &server.exchanges;
        if let Some(asked) = server.sharing.as_mut().and_then(|sharing| sharing.repeats.as_mut()) {
            let asked = asked.asked();
            asked.retain(|key, _| exchanges.get(*key).is_some_and(relay::is_waiting));
            asked.insert(key, process);
        }
        relay::ask(server, key, process);
    }

    /// Runs a call again whose stream a client [resumes](SharedSessionEvent::FindCall), by its message, which this process has
    /// taken over. `None` if it is not in the store: the call is lost, and its request gets an error.
    ///
    /// A call of a tool that may not run again here is lost, too: the process that it came to had other tools.
    ///
    /// The party of the call is that of the request that resumes it. The call shows no
    /// [header fields](super::super::Config::visible_fields). Progress of the call is not sent: it would begin anew, and must
    /// only increase (PROG-005).
    ///
    /// Returns whether the call runs. Otherwise its client is gone: another process may take it over.
    pub fn repeat_call(&mut self, now: Instant, exchange: ExchangeId, message: Option<&Bytes>) -> bool {
        self.server.tick(now);
        let (server, key) = (&mut *self.server, exchange.0);
        let x = server.exchanges.get(key).filter(|x| x.repeat == RepeatState::Sought);
        if !x.is_some_and(relay::is_waiting) {
            return false;
        }
        // Another request may have begun it here meanwhile.
        if relay::resume_here(server, key) {
            return true;
        }
        match message {
            Some(message) => repeat(server, key, message),
            None => {
                relay::end_unknown(server, key);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancellations_are_noted_up_to_the_limit_of_a_minute() {
        let (mut tables, begin) = (RepeatTables::default(), Instant::from_micros(1));
        let end = begin + CANCELLATION_WINDOW;
        for (now, noted) in
            [(begin, MAX_CANCELLATIONS), (end - Duration::from_micros(1), 0), (end, MAX_CANCELLATIONS)]
        {
            let taken = (0..MAX_CANCELLATIONS + 5).take_while(|_| tables.may_note_cancellation(now));
            assert_eq!(taken.count(), noted, "{now}");
        }
    }

    #[test]
    fn sessions_whose_calls_do_not_wait_are_forgotten() {
        let key = |slot| Key { slot, generation: 0 };
        let mut tables = RepeatTables::default();
        // One call waits all the time.
        let is_storing = |call: Key| call == key(0);
        for session in 0..5_000 {
            let calls = tables.storing(key(session), &is_storing);
            assert!(calls.is_empty());
            calls.push(key(session));
            assert!(tables.storing.len() <= 3, "{}", tables.storing.len());
        }
        assert_eq!(tables.storing(key(0), &is_storing), &[key(0)]);
    }
}
