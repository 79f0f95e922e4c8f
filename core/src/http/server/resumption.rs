//! GET streams of sessions, and the resumption of streams (HTTP-047 to HTTP-056, SSE-021 to SSE-024).
//!
//! A session may have several GET streams. Each message outside of calls goes to one of them: the newest whose client
//! keeps up. If the connection breaks before the message was written, the message goes to another one.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::events::write_entry;
use super::exchange::SessionKey;
use super::exchange_table::SessionPlace;
use super::get_streams::GetStream;
use super::refusal::{unknown_event_id, unknown_session};
use super::replay::{self, ReplayEntry, ReplayLog};
use super::session::{HttpSession, SessionLookup};
use super::{MAX_BUFFERED_BODY, Server};
use crate::built::{Part, Resuming};
use crate::slab::Key;
use crate::tap::ChannelId;

impl HttpSession {
    /// Returns the exchanges of the open GET streams, oldest first.
    pub(super) fn open_get_streams(&self) -> impl DoubleEndedIterator<Item = Key> + '_ {
        self.get_streams.iter().flat_map(|all| all.streams.iter()).filter_map(|stream| stream.exchange)
    }

    pub(super) fn has_open_get_stream(&self) -> bool {
        self.open_get_streams().next().is_some()
    }

    /// Adds an open stream as the newest one, or opens a closed one again.
    pub(super) fn add_get_stream(&mut self, number: u32, last_event: u32, exchange: Key, resuming: Resuming) {
        let all = self.get_streams.get_or_insert_with(|| Part::new(resuming, Box::default()));
        all.streams.retain(|stream| stream.number != number);
        all.streams.push(GetStream { number, last_event, exchange: Some(exchange) });
    }

    /// Closes the stream of an exchange and keeps the latest `kept` closed ones; returns false if it is none.
    pub(super) fn close_get_stream(&mut self, exchange: Key, kept: usize) -> bool {
        let Some(all) = &mut self.get_streams else { return false };
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
    pub(super) fn replay_log(&mut self, resuming: Resuming) -> &mut ReplayLog {
        self.replay_log.get_or_insert_with(|| Part::new(resuming, Box::default()))
    }

    pub(super) fn get_stream(&mut self, number: u32) -> Option<&mut GetStream> {
        self.get_streams.as_mut()?.streams.iter_mut().find(|stream| stream.number == number)
    }
}

impl Server {
    /// Handles GET: opens a GET stream of a session, or resumes a stream (HTTP-047, HTTP-049, SSE-021).
    pub(super) fn process_get(&mut self, key: Key) {
        let session = match self.find_session(key) {
            SessionLookup::Session(session) => session,
            SessionLookup::Missing => return self.exchanges.refuse_sessionless(key),
            SessionLookup::Unknown => return self.exchanges.refuse(key, &unknown_session()),
        };
        if let Err(refusal) = self.check_version(key, session) {
            return self.exchanges.refuse(key, &refusal);
        }
        // Without it no GET is admitted.
        let Some(resuming) = Resuming::get() else { return };
        let from = self.exchanges.get(key).map(|x| x.headers.last_event_id());
        match from.map(|id| id.map(|id| id.map(replay::parse_event_id))) {
            Some(Ok(None)) => self.open_get_stream(key, session, resuming),
            Some(Ok(Some(Some(from)))) => self.resume_stream(key, session, from, resuming),
            _ => self.exchanges.refuse(key, &unknown_event_id()),
        }
    }

    /// Opens a new GET stream beside those of the session (HTTP-054).
    fn open_get_stream(&mut self, key: Key, session: SessionKey, resuming: Resuming) {
        if !self.admit_get_stream(key, session, None) {
            return;
        }
        let Some(record) = self.sessions.get_mut(session) else { return };
        let number = record.next_stream_number();
        self.begin_get_stream(key, session, (number, 0), resuming);
        self.fill_get_streams(session);
    }

    /// Resumes a stream after an event; this supersedes the exchange that has it (DESIGN-18).
    fn resume_stream(
        &mut self,
        key: Key,
        session: SessionKey,
        (number, event): (u32, u32),
        resuming: Resuming,
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
                self.begin_get_stream(key, session, (number, last_event), resuming);
                // A withdrawn message went to another stream.
                for entry in missed.into_iter().filter(|entry| !entry.message.is_empty()) {
                    let has_id = self.config.replay_budget() > 0;
                    self.exchanges.write_get_event(self.now, key, entry, has_id, resuming);
                }
                self.fill_get_streams(session);
            }
            None => {
                self.sessions.discard_unsent(&mut self.exchanges, session, number);
                self.resume_call(key, session, number, event);
                if let Some(x) = self.exchanges.get_mut(key) {
                    for entry in &missed {
                        write_entry(&mut x.out, entry);
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
                self.transfer_stream(holder, key);
                self.exchanges.schedule_check(self.now + self.config.keep_alive, key);
                self.finish(holder);
                self.begin_events(key);
            }
            None => {
                // The stream has ended; the rest of it is in the replay log.
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
        resuming: Resuming,
    ) {
        let Some(record) = self.sessions.get_mut(session) else { return };
        record.add_get_stream(number, last_event, key, resuming);
        let channel = record.channel;
        self.engine.exchanges().set_owner(channel, Some(key));
        let place = SessionPlace { session: Some(session), number, is_call: false };
        self.sessions.set_place(&mut self.exchanges, key, place);
        if let Some(x) = self.exchanges.get_mut(key) {
            (x.stream, x.last_event) = (Some(channel), last_event);
        }
        self.exchanges.schedule_check(self.now + self.config.keep_alive, key);
        self.begin_events(key);
    }

    /// Moves each message of a session to the newest GET stream that has room (HTTP-055, HTTP-056).
    pub(super) fn fill_get_streams(&mut self, session: SessionKey) {
        let Some(resuming) = Resuming::get() else { return };
        let Some(channel) = self.sessions.get(session).map(|s| s.channel) else { return };
        self.engine.exchanges().rearm(channel);
        let is_closed = self.engine.exchange_status(ChannelId(channel)).is_closed;
        loop {
            let Some(record) = self.sessions.get_mut(session) else { return };
            let has_room = |key: &Key| {
                self.exchanges.get(*key).is_some_and(|x| !x.client_gone && x.out.len() < MAX_BUFFERED_BODY)
            };
            let Some(key) = record.open_get_streams().rev().find(has_room) else { return };
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
            if self.config.replay_budget() > 0 {
                record.replay_log(resuming).push(entry.clone(), self.config.replay_budget());
            }
            let has_id = self.config.replay_budget() > 0;
            self.exchanges.write_get_event(self.now, key, entry, has_id, resuming);
        }
        if is_closed {
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
        self.finish(key);
        self.remove(key);
        let Some((session, record)) = session.and_then(|s| Some((s, self.sessions.get_mut(s)?))) else {
            return;
        };
        for event in core::mem::take(&mut unwritten.0) {
            if let Some(log) = &mut record.replay_log {
                // Resuming the broken stream must not send it a second time (HTTP-055).
                log.withdraw(number, event.number);
            }
            if let Some(all) = &mut record.get_streams {
                all.returned.push_back(event.message);
            }
        }
        self.fill_get_streams(session);
    }
}
