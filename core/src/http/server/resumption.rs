//! GET streams of sessions, and the resumption of streams (HTTP-047 to HTTP-056, SSE-021 to SSE-024).
//!
//! A session may have several GET streams. Each message outside of calls goes to one of them: the newest whose client
//! keeps up. If the connection breaks before the message was written, the message goes to another one.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

use super::exchange_table::{ServerExchange, SessionKey, SessionPlace};
use super::post::waits_for_session;
use super::refusal::{unknown_event_id, unknown_session};
use super::response::transfer_stream;
use super::session::{HttpSession, SessionLookup};
use super::shared::StreamPlace;
use super::snapshot::is_change;
use super::{MAX_BUFFERED_BODY, Server, shared};
use crate::built::Sessions;
use crate::frame::sse::{EVENT_END, EventHead};
use crate::head::Fields;
use crate::http::fields;
use crate::memory::{Charge, MemoryAccount};
use crate::outbox::Outbox;
use crate::rpc::RequestId;
use crate::slab::Key;
use crate::tap::ChannelId;

impl HttpSession {
    /// Returns the exchanges of the open GET streams, oldest first.
    pub(super) fn open_get_streams(&self) -> impl DoubleEndedIterator<Item = Key> + '_ {
        self.get_streams
            .as_ref()
            .into_iter()
            .flat_map(|all| all.streams.iter())
            .filter_map(|stream| stream.exchange)
    }

    pub(super) fn has_open_get_stream(&self) -> bool {
        self.open_get_streams().next().is_some()
    }

    /// Adds an open stream as the newest one, or opens a closed one again.
    pub(super) fn add_get_stream(&mut self, number: u32, last_event: u32, exchange: Key, built: Sessions) {
        let all = self.get_streams.get_or_insert_default(built);
        // A resumed stream moves to the end of the list, where the newest ones are.
        all.streams.retain(|stream| stream.number != number);
        all.streams.push(GetStream { number, last_event, exchange: Some(exchange) });
    }

    /// Closes the stream of an exchange and keeps the latest `kept` closed ones; returns false if it is none.
    pub(super) fn close_get_stream(&mut self, exchange: Key, kept: usize) -> bool {
        let Some(all) = self.get_streams.as_mut() else { return false };
        let Some(stream) = all.streams.iter_mut().find(|s| s.exchange == Some(exchange)) else {
            return false;
        };
        stream.exchange = None;
        let is_closed = |stream: &GetStream| stream.exchange.is_none();
        if all.streams.iter().filter(|stream| is_closed(stream)).count() > kept.max(1) {
            if let Some(oldest) = all.streams.iter().position(is_closed) {
                all.streams.remove(oldest);
            }
        }
        true
    }

    /// Returns the sent events, to add one.
    pub(super) fn replay_log(&mut self, built: Sessions) -> &mut ReplayLog {
        self.replay_log.get_or_insert_default(built)
    }

    pub(super) fn get_stream(&mut self, number: u32) -> Option<&mut GetStream> {
        self.get_streams.as_mut()?.streams.iter_mut().find(|stream| stream.number == number)
    }
}

impl Server {
    /// Handles GET: opens a GET stream of a session, or resumes a stream (HTTP-047, HTTP-049, SSE-021).
    pub(super) fn process_get(&mut self, key: Key) {
        if waits_for_session(self, key) {
            return;
        }
        let session = match self.find_session(key) {
            SessionLookup::Session(session) => session,
            SessionLookup::Missing => return self.exchanges.refuse_sessionless(key),
            SessionLookup::Unknown => return self.exchanges.refuse(key, &unknown_session()),
        };
        if let Err(refusal) = self.check_version(key, session) {
            return self.exchanges.refuse(key, &refusal);
        }
        let authorization = self.exchanges.get(key).and_then(|x| x.authorization()).cloned();
        if let Some((channel, party)) = self.sessions.get(session).map(|s| s.channel).zip(authorization) {
            // What is announced to a party reaches a session that was restored, and has made no call yet.
            self.engine.set_authorization(ChannelId(channel), Some(party));
        }
        // Without it no GET is admitted.
        let Some(built) = Sessions::get() else { return };
        let from = self.exchanges.get(key).map(|x| x.headers.last_event_id());
        let from = match from.map(|id| id.map(|id| id.map(parse_event_id))) {
            Some(Ok(None)) => return self.open_get_stream(key, session, built),
            Some(Ok(Some(Some((stream, event, note))))) => {
                let is_call = !note.is_empty();
                match shared::functions(self) {
                    Some(sharing) => match (sharing.place_of)(self, session, stream, is_call) {
                        StreamPlace::Here => Some((stream, event)),
                        // What happened meanwhile is announced, and what waits elsewhere is sent here.
                        StreamPlace::GetStreamElsewhere => return self.open_get_stream(key, session, built),
                        StreamPlace::CallElsewhere => return (sharing.resume)(self, key, session),
                    },
                    None => (!is_call).then_some((stream, event)),
                }
            }
            _ => None,
        };
        match from {
            Some(from) => self.resume_stream(key, session, from, built),
            None => self.exchanges.refuse(key, &unknown_event_id()),
        }
    }

    /// Opens a new GET stream beside those of the session (HTTP-054).
    fn open_get_stream(&mut self, key: Key, session: SessionKey, built: Sessions) {
        if !self.admit_get_stream(key, session, None) {
            return;
        }
        let Some(record) = self.sessions.get_mut(session) else { return };
        let number = record.next_stream_number();
        self.begin_get_stream(key, session, (number, 0), built);
        self.fill_get_streams(session);
    }

    /// Resumes a stream after an event; this supersedes the exchange that has it (DESIGN-18).
    pub(super) fn resume_stream(
        &mut self,
        key: Key,
        session: SessionKey,
        (number, event): (u32, u32),
        built: Sessions,
    ) {
        let keeps_events = self.config.replay_budget() > 0;
        let missed = self.sessions.missed_events(&mut self.exchanges, session, number, event);
        let Some(missed) = missed.filter(|_| keeps_events) else {
            return self.exchanges.refuse(key, &unknown_event_id());
        };
        let record = self.sessions.get_mut(session).and_then(|s| s.get_stream(number));
        match record.map(|stream| (stream.last_event, stream.exchange)) {
            Some((last_event, superseded)) => {
                if !self.admit_get_stream(key, session, superseded) {
                    return;
                }
                self.sessions.discard_unsent(&mut self.exchanges, session, number);
                self.begin_get_stream(key, session, (number, last_event), built);
                // A withdrawn message went to another stream.
                for entry in missed.into_iter().filter(|entry| !entry.message.is_empty()) {
                    let has_id = self.config.replay_budget() > 0;
                    self.exchanges.write_get_event(self.now, key, entry, has_id, built);
                }
                self.fill_get_streams(session);
            }
            None => {
                self.sessions.discard_unsent(&mut self.exchanges, session, number);
                self.resume_call(key, session, number, event);
                if let Some(x) = self.exchanges.get_mut(key) {
                    for entry in &missed {
                        write_entry(&mut x.out, entry, note_text(&x.event_note));
                    }
                }
                self.fill_response(key);
            }
        }
    }

    /// Resumes the stream of a call.
    fn resume_call(&mut self, key: Key, session: SessionKey, number: u32, event: u32) {
        let holder = self.sessions.find_call(&mut self.exchanges, session, number);
        let place = SessionPlace { session: Some(session), number, is_call: false };
        self.sessions.set_place(&mut self.exchanges, key, place);
        if let Some(x) = self.exchanges.get_mut(key) {
            x.last_event = event;
        }
        match holder {
            Some(holder) => {
                // The stream moves, and the call goes on: the client has only changed its connection.
                transfer_stream(self, holder, key);
                self.exchanges.schedule_check(self.now + self.config.keep_alive, key);
                // The transfer comes first: `finish` would release the stream and end the call.
                self.finish(holder);
                self.begin_events(key);
            }
            None => {
                // The stream has ended; the rest of it is in the replay log, and its ids say as before whose it is.
                if let Some(x) = self.exchanges.get_mut(key) {
                    let note = resumed_event(x).map(|(.., note)| note).filter(|note| !note.is_empty());
                    x.event_note = note.map(|note| EventNote::Text(note.into()));
                }
                self.begin_events(key);
                self.finish(key);
            }
        }
    }

    // ---- open GET streams ------------------------------------------------------------------------------------

    /// Admits a GET stream, or refuses it and returns false.
    ///
    /// It takes the room of the stream that it supersedes. If there is no room, it takes that of the oldest one of the
    /// session, whose connection may have broken unnoticed.
    fn admit_get_stream(&mut self, key: Key, session: SessionKey, superseded: Option<Key>) -> bool {
        let Some(record) = self.sessions.get(session) else { return false };
        let is_full = record.open_get_streams().count() >= self.config.max_get_streams_per_session.max(1)
            || !self.exchanges.has_room_for_open_ended();
        match superseded.or_else(|| record.open_get_streams().next().filter(|_| is_full)) {
            Some(previous) => {
                self.finish(previous);
                // Without asking for room: the stream that has just ended left some.
                self.exchanges.set_open_ended(key, true);
                true
            }
            None => self.admit_open_ended(key),
        }
    }

    fn begin_get_stream(
        &mut self,
        key: Key,
        session: SessionKey,
        (number, last_event): (u32, u32),
        built: Sessions,
    ) {
        let Some(record) = self.sessions.get_mut(session) else { return };
        record.add_get_stream(number, last_event, key, built);
        let channel = record.channel;
        self.engine.exchanges().set_owner(channel, Some(key));
        let place = SessionPlace { session: Some(session), number, is_call: false };
        self.sessions.set_place(&mut self.exchanges, key, place);
        if let Some(x) = self.exchanges.get_mut(key) {
            (x.stream, x.last_event) = (Some(channel), last_event);
        }
        self.exchanges.schedule_check(self.now + self.config.keep_alive, key);
        self.begin_events(key);
        if let Some(sharing) = shared::functions(self) {
            (sharing.report_stream)(self, key, session);
        }
    }

    /// Moves each message of a session to the newest GET stream that has room (HTTP-055, HTTP-056).
    pub(super) fn fill_get_streams(&mut self, session: SessionKey) {
        let Some(built) = Sessions::get() else { return };
        let Some(channel) = self.sessions.get(session).map(|s| s.channel) else { return };
        // This precedes the look at the output, so that later messages queue an exchange again.
        self.engine.exchanges().rearm(channel);
        let is_closed = self.engine.exchange_status(ChannelId(channel)).is_closed;
        loop {
            let Some(record) = self.sessions.get_mut(session) else { return };
            let has_room = |key: &Key| {
                self.exchanges
                    .get(*key)
                    .is_some_and(|x| !x.is_client_gone() && x.out.len() < MAX_BUFFERED_BODY)
            };
            // Without room the messages stay in the engine, whose limits hold.
            let Some(key) = record.open_get_streams().rev().find(has_room) else { return };
            // Returned messages are older than those in the engine, so they go first.
            let returned = record.get_streams.as_mut().and_then(|all| all.returned.pop_front());
            let message = returned
                .or_else(|| self.engine.outbox(ChannelId(channel)).and_then(|outbox| outbox.pop_message()));
            let Some(message) = message else { break };
            let Some(x) = self.exchanges.get_mut(key) else { return };
            x.last_event = x.last_event.saturating_add(1);
            let (number, event) = (x.place().number, x.last_event);
            if let Some(stream) = record.get_stream(number) {
                stream.last_event = event;
            }
            let entry = ReplayEntry { stream: number, event, is_last: false, message };
            // Logged before it is written, so that a break in between loses nothing.
            if self.config.replay_budget() > 0 {
                let memory = crate::server::memory(&self.engine);
                record.replay_log(built).push(entry.clone(), self.config.replay_budget(), memory);
            }
            let has_id = self.config.replay_budget() > 0;
            self.exchanges.write_get_event(self.now, key, entry, has_id, built);
        }
        if is_closed {
            // The keys are collected first, because `finish` changes the list of streams.
            let open: Vec<Key> =
                self.sessions.get(session).into_iter().flat_map(|s| s.open_get_streams()).collect();
            for key in open {
                self.finish(key);
            }
        }
    }

    /// Ends a GET stream whose client is gone; what was not written goes to another stream of the session.
    pub(super) fn close_broken_get_stream(&mut self, key: Key) {
        let Some(x) = self.exchanges.get_mut(key) else { return };
        let Some(mut unwritten) = x.unwritten.take() else { return };
        unwritten.discard_written(x.out.consumed());
        x.out.clear();
        let (session, number) = (x.session(), x.place().number);
        // The stream is closed first, so that its messages cannot be given to it again.
        self.finish(key);
        self.remove(key);
        let Some((session, record)) = session.and_then(|s| Some((s, self.sessions.get_mut(s)?))) else {
            return;
        };
        for event in core::mem::take(&mut unwritten.0) {
            if let Some(log) = record.replay_log.as_mut() {
                // Resuming the broken stream must not send it a second time (HTTP-055).
                log.withdraw(number, event.number);
            }
            if let Some(all) = record.get_streams.as_mut() {
                all.returned.push_back(event.message);
            }
        }
        self.fill_get_streams(session);
    }
}

/// Takes the messages of a session that no GET stream has written, and those of a stream after an event. Messages of
/// changes are dropped.
pub(super) fn take_waiting(
    server: &mut Server,
    session: SessionKey,
    after: Option<(u32, u32)>,
) -> Vec<Bytes> {
    let mut messages = Vec::new();
    let Some(record) = server.sessions.get_mut(session) else { return messages };
    if let Some((number, event)) = after.filter(|(number, _)| record.get_stream(*number).is_some()) {
        // Its client has another connection now.
        if let Some(superseded) = record.get_stream(number).and_then(|stream| stream.exchange) {
            server.finish(superseded);
        }
        let missed = server.sessions.missed_events(&mut server.exchanges, session, number, event);
        for entry in missed.into_iter().flatten().filter(|entry| !entry.message.is_empty()) {
            if let Some(log) = server.sessions.get_mut(session).and_then(|s| s.replay_log.as_mut()) {
                log.withdraw(number, entry.event);
            }
            messages.push(entry.message);
        }
    }
    let Some(record) = server.sessions.get_mut(session) else { return messages };
    if !record.has_open_get_stream() {
        let returned = record.get_streams.as_mut().map(|all| core::mem::take(&mut all.returned));
        messages.extend(returned.into_iter().flatten());
        let channel = ChannelId(record.channel);
        while let Some(message) = server.engine.outbox(channel).and_then(|outbox| outbox.pop_message()) {
            messages.push(message);
        }
    }
    messages.retain(|message| !is_change(message));
    messages
}

/// Sends a message of a session on a GET stream, now or when there is one. Returns whether there was room for it.
pub(super) fn return_message(server: &mut Server, session: SessionKey, message: Bytes) -> bool {
    let limit = server.engine.config().effective_limits().outbox_high_water;
    let (Some(built), Some(record)) = (Sessions::get(), server.sessions.get_mut(session)) else {
        return false;
    };
    let returned = &mut record.get_streams.get_or_insert_default(built).returned;
    let waiting: usize = returned.iter().map(Bytes::len).sum();
    if waiting >= limit {
        return false;
    }
    returned.push_back(message);
    server.fill_get_streams(session);
    true
}

// Writers of event streams.

/// What ids of events say besides their number, for other processes.
#[derive(Debug)]
pub(super) enum EventNote {
    /// The request of their call. Most calls have no events, so the text is written before the first one.
    Request(RequestId),
    Text(Box<str>),
}

/// Returns the text of a note, which is written when events begin.
pub(super) fn note_text(note: &Option<EventNote>) -> Option<&str> {
    if let Some(EventNote::Text(text)) = note { Some(text) } else { None }
}

/// Returns the fields of every event stream response.
pub(super) fn event_stream_fields() -> Fields {
    let mut fields = Fields::new();
    fields.push(fields::CONTENT_TYPE, fields::EVENT_STREAM.as_bytes());
    fields.push(fields::CACHE_CONTROL, b"no-cache"); // SSE-008
    fields.push(fields::X_ACCEL_BUFFERING, b"no"); // SSE-007
    fields
}

/// Writes an event without data.
pub(super) fn write_empty_event(out: &mut Vec<u8>, head: &EventHead<'_>) {
    write_event_head(out, head);
    out.extend_from_slice(EVENT_END);
}

/// Writes the lines of an event before its data; ids and types of ours have no line ends.
pub(super) fn write_event_head(out: &mut Vec<u8>, head: &EventHead<'_>) {
    let _ = head.begin(out);
}

/// Writes an event with its id, which has a note for other processes if there are any.
pub(super) fn write_entry(out: &mut Outbox, entry: &ReplayEntry, note: Option<&str>) {
    let id = format_event_id(entry.stream, entry.event, note);
    out.write(|out| write_event_head(out, &EventHead { id: Some(&id), ..EventHead::default() }));
    out.push_bytes(&entry.message);
    out.push(EVENT_END);
}

// The GET streams of a session, and what they have not written yet (HTTP-054 to HTTP-056).

/// The GET streams of a session.
#[derive(Debug, Default)]
pub(super) struct GetStreams {
    /// The open ones, and the latest closed ones for resumption, in the order in which they were opened or resumed.
    pub(super) streams: Vec<GetStream>,
    /// Messages that broken streams did not write. They are sent before those of the engine.
    ///
    /// New messages are taken from the engine while this is empty. So all of these fitted into the streams once.
    pub(super) returned: VecDeque<Bytes>,
}

#[derive(Debug)]
pub(super) struct GetStream {
    /// The number in its event ids.
    pub(super) number: u32,
    /// The number of its last event.
    pub(super) last_event: u32,
    /// Its exchange while it is open.
    pub(super) exchange: Option<Key>,
}

/// Events of a GET stream that were produced, and not written completely when last checked.
#[derive(Debug, Default)]
pub(super) struct UnwrittenEvents(pub(super) VecDeque<UnwrittenEvent>);

#[derive(Debug)]
pub(super) struct UnwrittenEvent {
    /// The position of its end, in bytes of the response body.
    pub(super) end: u64,
    pub(super) number: u32,
    pub(super) message: Bytes,
}

impl UnwrittenEvents {
    /// Forgets the events within the first `written` bytes of the body.
    pub(super) fn discard_written(&mut self, written: u64) {
        while self.0.front().is_some_and(|event| event.end <= written) {
            self.0.pop_front();
        }
    }
}

// The replay log: sent events of a session, kept for resumption (SSE-014 to SSE-024, DESIGN-18).

/// Cost of an entry in addition to its text, in bytes.
const ENTRY_OVERHEAD: usize = 64;

/// The latest events of all streams of a session.
#[derive(Debug, Default)]
pub(super) struct ReplayLog {
    entries: VecDeque<ReplayEntry>,
    bytes: usize,
    charge: Charge,
}

#[derive(Clone, Debug)]
pub(super) struct ReplayEntry {
    pub(super) stream: u32,
    pub(super) event: u32,
    /// The last event of its stream.
    pub(super) is_last: bool,
    /// The message; empty if it was [withdrawn](ReplayLog::withdraw).
    pub(super) message: Bytes,
}

impl ReplayEntry {
    const fn cost(&self) -> usize {
        self.message.len() + ENTRY_OVERHEAD
    }
}

impl ReplayLog {
    /// Adds an event and evicts the oldest ones beyond the budget.
    ///
    /// An event that is larger than the whole budget is not kept, so that the others are. While the account takes nothing new, the
    /// log does not grow.
    pub(super) fn push(&mut self, entry: ReplayEntry, budget: usize, memory: &MemoryAccount) {
        let budget = if memory.takes_new(entry.cost()) { budget } else { budget.min(self.bytes) };
        if entry.cost() > budget {
            return;
        }
        self.bytes += entry.cost();
        self.entries.push_back(entry);
        while self.bytes > budget {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= oldest.cost();
        }
        self.charge.attach(memory);
        self.charge.follow(self.bytes);
    }

    /// Returns all events, oldest first.
    pub(super) fn entries(&self) -> impl ExactSizeIterator<Item = &ReplayEntry> {
        self.entries.iter()
    }

    /// Returns whether there is an event of a stream.
    pub(super) fn has_stream(&self, stream: u32) -> bool {
        self.entries.iter().any(|entry| entry.stream == stream)
    }

    /// Forgets the events of a stream.
    pub(super) fn forget(&mut self, stream: u32) {
        self.entries.retain(|entry| entry.stream != stream);
        self.bytes = self.entries.iter().map(ReplayEntry::cost).sum();
        self.charge.follow(self.bytes);
    }

    /// Withdraws the message of an event, because it is sent on another stream; the event itself is still known.
    pub(super) fn withdraw(&mut self, stream: u32, event: u32) {
        let found = self.entries.iter_mut().rev().find(|e| e.stream == stream && e.event == event);
        if let Some(entry) = found {
            // The entry stays, so that its number is known, and with it its overhead.
            self.bytes -= core::mem::take(&mut entry.message).len();
            self.charge.follow(self.bytes);
        }
    }

    /// Returns all events of a stream after `event`, or `None` if one of them was evicted or never existed.
    ///
    /// `newest` is the last event of an open stream. A closed stream is recognized by `is_last`.
    pub(super) fn events_after(
        &self,
        stream: u32,
        event: u32,
        newest: Option<u32>,
    ) -> Option<Vec<ReplayEntry>> {
        let known = self.entries.iter().filter(|e| e.stream == stream);
        let found: Vec<ReplayEntry> = known.clone().filter(|e| e.event > event).cloned().collect();
        let unbroken =
            found.iter().zip(event.checked_add(1)?..=u32::MAX).all(|(e, wanted)| e.event == wanted);
        let complete = match newest {
            // The sum finds a gap at the end, too: an event that was too large for the log.
            Some(newest) => event.checked_add(u32::try_from(found.len()).ok()?)? == newest,
            None => known.last().is_some_and(|e| e.is_last && e.event >= event),
        };
        (unbroken && complete).then_some(found)
    }
}

/// Returns the id of an event; it names its stream (SSE-015). A note follows if there is one.
pub(super) fn format_event_id(stream: u32, event: u32, note: Option<&str>) -> String {
    let mut id = String::from(itoa::Buffer::new().format(stream));
    id.push('-');
    id.push_str(itoa::Buffer::new().format(event));
    if let Some(note) = note {
        id.push('-');
        id.push_str(note);
    }
    id
}

/// Returns the stream and the event of an id, and its note, which may be empty; `None` if no server issued it.
pub(super) fn parse_event_id(text: &str) -> Option<(u32, u32, &str)> {
    let (stream, rest) = text.split_once('-')?;
    let (event, note) = match rest.split_once('-') {
        Some((event, note)) => (event, Some(note).filter(|note| !note.is_empty())?),
        None => (rest, ""),
    };
    // Only the form that `format_event_id` writes is accepted: `parse` also takes a plus sign and leading zeros.
    let number = |s: &str| s.parse::<u32>().ok().filter(|n| itoa::Buffer::new().format(*n) == s);
    // The number 0 is that of a response that has no events yet.
    Some((number(stream).filter(|stream| *stream != 0)?, number(event)?, note))
}

/// Returns the stream and the event after which a request resumes it, and the note of their id; `None` if it names none that a
/// server issued.
pub(super) fn resumed_event(x: &ServerExchange) -> Option<(u32, u32, &str)> {
    x.headers.last_event_id().ok().flatten().and_then(parse_event_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn entry(stream: u32, event: u32, last: bool) -> ReplayEntry {
        ReplayEntry { stream, event, is_last: last, message: Bytes::from_static(b"0123456789") }
    }

    fn events(found: Option<Vec<ReplayEntry>>) -> Option<Vec<u32>> {
        found.map(|all| all.iter().map(|e| e.event).collect())
    }

    // covers: SSE-022, SSE-023, SSE-024
    #[test]
    fn events_after_returns_all_or_none() {
        let (mut log, memory) = (ReplayLog::default(), &MemoryAccount::default());
        for (stream, event, last) in
            [(1, 0, false), (2, 0, false), (1, 1, false), (2, 1, true), (1, 2, false)]
        {
            log.push(entry(stream, event, last), 1_000, memory);
        }
        assert_eq!(events(log.events_after(1, 0, Some(2))), Some([1, 2].into()));
        assert_eq!(events(log.events_after(1, 2, Some(2))), Some([].into()));
        assert_eq!(events(log.events_after(1, 3, Some(2))), None, "it was never sent");
        assert_eq!(events(log.events_after(2, 0, None)), Some([1].into()));
        assert_eq!(events(log.events_after(2, 1, None)), Some([].into()), "it is over and was all received");
        assert_eq!(events(log.events_after(2, 2, None)), None);
        assert_eq!(events(log.events_after(3, 0, None)), None);
        assert_eq!(events(log.events_after(1, u32::MAX, Some(2))), None);
        // Two of five events fit.
        log.push(entry(1, 3, false), 2 * (10 + ENTRY_OVERHEAD), memory);
        assert_eq!(events(log.events_after(1, 2, Some(3))), Some([3].into()));
        assert_eq!(events(log.events_after(1, 1, Some(3))), Some([2, 3].into()));
        assert_eq!(events(log.events_after(1, 0, Some(3))), None, "one of them was evicted");
        assert_eq!(events(log.events_after(2, 0, None)), None);
        // An oversize event leaves a gap in its own stream and does not evict others.
        log.push(entry(3, 1, false), 2 * (10 + ENTRY_OVERHEAD), memory);
        log.push(
            ReplayEntry { message: vec![b'x'; 200].into(), ..entry(3, 2, false) },
            2 * (10 + ENTRY_OVERHEAD),
            memory,
        );
        assert_eq!(events(log.events_after(3, 0, Some(2))), None, "the second one was not kept");
        assert_eq!(events(log.events_after(3, 2, Some(2))), Some([].into()));
        assert_eq!(events(log.events_after(1, 2, Some(3))), Some([3].into()));
        assert_eq!(log.bytes, 2 * (10 + ENTRY_OVERHEAD));
        // One that needs the whole budget fits, and one byte more does not.
        for (budget, kept) in [(10 + ENTRY_OVERHEAD, 1), (9 + ENTRY_OVERHEAD, 0)] {
            let mut log = ReplayLog::default();
            (1..=2).for_each(|event| log.push(entry(1, event, false), budget, memory));
            assert_eq!(log.entries().len(), kept);
        }
        // A withdrawn message is not replayed, and leaves no gap.
        log.withdraw(1, 3);
        log.withdraw(1, 99);
        let found = log.events_after(1, 2, Some(3)).expect("no gap");
        assert!(found.len() == 1 && found[0].message.is_empty());
        assert_eq!(log.bytes, 10 + 2 * ENTRY_OVERHEAD);
    }

    // covers: SSE-015
    #[test]
    fn event_id_round_trips_and_other_text_is_refused() {
        for (stream, event) in [(1, 0), (7, 42), (u32::MAX, u32::MAX)] {
            for note in ["", "Mg", "a-b"] {
                let id = format_event_id(stream, event, Some(note).filter(|note| !note.is_empty()));
                assert_eq!(parse_event_id(&id), Some((stream, event, note)));
            }
        }
        for text in
            ["", "1", "-", "1-", "-1", "1-2-", "0-0", "01-2", "+1-2", "1-4294967296", " 1-2", "1-2 ", "a-b"]
        {
            assert_eq!(parse_event_id(text), None, "{text:?}");
        }
    }
}
