//! From the engine's messages to the bytes of a response: whole or as events, on demand (HTTP-021 to HTTP-028).

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use super::exchange::{Exchange, Form, Kind, Parts, Phase};
use super::head::{Refusal, overloaded, unknown_session};
use super::replay::{self, Entry};
use super::session::Found;
use super::{AHEAD, Server};
use crate::CallId;
use crate::frame::sse::{END, EventHead, write_comment};
use crate::head::{BodySize, Fields};
use crate::http::fields;
use crate::outbox::Outbox;
use crate::rpc::code;
use crate::server::exchange::Progress;
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::Version;

impl Server {
    /// Makes more of a response, if there is room and something to make it of
    pub(super) fn refill(&mut self, key: Key) {
        let Some(x) = self.exchanges.get(key) else { return };
        if x.done || (!x.gone && x.out.len() >= AHEAD) {
            return;
        }
        let Some(stream) = x.stream else { return };
        self.engine.rearm(stream);
        let progress = self.engine.stream_progress(stream);
        let before = x.out.len();
        if x.form == Form::Undecided {
            let Some(outbox) = self.engine.outbox(ChannelId(stream)) else { return };
            let (empty, one) = (outbox.is_empty(), !progress.open && outbox.is_one_message());
            if one {
                return self.answer_json(key, stream, progress);
            }
            if empty {
                // Cancelled before there was anything to say: nobody is invited to come back for more.
                if !progress.open {
                    self.finish(key);
                }
                return;
            }
            if x.gone {
                // Its client has no id to come back with: nobody can have it.
                outbox.clear();
            } else {
                self.begin_events(key);
            }
        }
        self.move_events(key, stream);
        let drained = self.engine.outbox(ChannelId(stream)).is_none_or(|o| o.is_empty());
        let over = match self.exchanges.get(key).map(|x| x.kind) {
            Some(Kind::Post) => !progress.open,
            Some(Kind::Get | Kind::Old) => progress.closed,
            _ => false,
        };
        if over && drained {
            self.finish(key);
        } else if self.exchanges.get(key).is_some_and(|x| x.out.len() > before) {
            if let Some(x) = self.exchanges.get_mut(key) {
                x.quiet_since = self.now;
            }
            self.mark(key);
        }
    }

    /// One message is all there is: it is the body (HTTP-023)
    fn answer_json(&mut self, key: Key, stream: Key, progress: Progress) {
        let Some(x) = self.exchanges.get_mut(key) else { return };
        x.form = Form::Whole;
        if x.greets && x.session.is_none_or(|session| self.sessions.get(session).is_none()) {
            // It gave way before its client knew of it.
            self.refuse(key, &overloaded("too many sessions"));
            return self.finish(key);
        }
        if let Some(outbox) = self.engine.outbox(ChannelId(stream)) {
            outbox.move_message(&mut x.out);
        }
        let mut fields = x.fields();
        fields.push(fields::CONTENT_TYPE, fields::JSON.as_bytes());
        self.greet(key, &mut fields);
        if let Some(x) = self.exchanges.get_mut(key) {
            let size = BodySize::Exact(x.out.len() as u64);
            x.respond(status(x, progress), fields, size);
        }
        self.finish(key);
    }

    fn greet(&self, key: Key, fields: &mut Fields) {
        let session = self.exchanges.get(key).filter(|x| x.greets).and_then(|x| x.session);
        if let Some(session) = session {
            fields.push(fields::SESSION_ID, self.sessions.id(session).as_bytes()); // HTTP-064
        }
    }

    /// Makes the response a stream of events
    pub(super) fn begin_events(&mut self, key: Key) {
        let mut fields = stream_fields();
        self.greet(key, &mut fields);
        let Some(x) = self.exchanges.get_mut(key) else { return };
        x.form = Form::Events;
        x.phase = Phase::Open;
        x.respond(200, fields, BodySize::Stream);
        let primed = x.session.and_then(|s| self.version_of(s)) == Some(Version::V2025_11_25);
        let Some(x) = self.exchanges.get_mut(key) else { return };
        let Some(session) = x.session.and_then(|s| self.sessions.get_mut(s)) else { return self.mark(key) };
        if x.kind == Kind::Post && x.number == 0 {
            session.streams = session.streams.saturating_add(1);
            x.number = session.streams;
        }
        if primed && self.config.replay_bytes > 0 && x.mirror.last_event() == Ok(None) {
            // SSE-016, DEC-033: an id to come back with, before there is anything to miss.
            let id = replay::id(x.number, x.event);
            x.out.write(|out| event(out, &EventHead { id: Some(&id), ..EventHead::default() }));
        }
        self.mark(key);
    }

    /// Moves messages from a stream to the response, as events
    fn move_events(&mut self, key: Key, stream: Key) {
        let open = self.engine.stream_progress(stream).open;
        let Some(x) = self.exchanges.get_mut(key) else { return };
        let Some(outbox) = self.engine.outbox(ChannelId(stream)) else { return };
        let session = x.session.and_then(|s| self.sessions.get_mut(s));
        let budget = self.config.replay_bytes;
        let Some(session) = session.filter(|_| budget > 0 && x.kind != Kind::Old) else {
            while (x.gone || x.out.len() < AHEAD) && !outbox.is_empty() {
                x.out.write(|out| begin(out, &EventHead::default()));
                if !outbox.move_message(&mut x.out) {
                    break;
                }
                x.out.push(END);
                if x.gone {
                    x.out.clear();
                }
            }
            return;
        };
        while x.gone || x.out.len() < AHEAD {
            let Some(text) = outbox.pop_message() else { return };
            x.event = x.event.saturating_add(1);
            if x.number == 0 {
                session.event = x.event;
            }
            let last = !open && outbox.is_empty() && x.kind == Kind::Post;
            let entry = Entry { stream: x.number, event: x.event, last, text };
            if !x.gone {
                write_entry(&mut x.out, &entry);
            }
            session.log.get_or_insert_default().push(entry, budget);
        }
    }

    /// Nothing more comes on an exchange: what it holds of the engine is given back
    pub(super) fn finish(&mut self, key: Key) {
        self.set_standing(key, false);
        let Some(x) = self.exchanges.get_mut(key) else { return };
        x.done = true;
        if x.response.is_none() && !x.gone {
            // Cancelled before there was anything to say: an answer that says nothing.
            let mut fields = Fields::new();
            fields.push(fields::CONTENT_TYPE, fields::EVENT_STREAM.as_bytes());
            x.respond(200, fields, BodySize::Exact(0));
        }
        let (kind, gone, session) = (x.kind, x.gone, x.session);
        let stream = x.stream.take();
        let counted = core::mem::take(&mut x.counted);
        if let Some(session) = session.and_then(|s| self.sessions.get_mut(s)) {
            session.calls = session.calls.saturating_sub(u32::from(counted));
            let listened = session.get == Some(key);
            if listened {
                session.get = None;
            }
            if counted || listened {
                // It was in use until now, however long ago its request came.
                session.last_seen = self.now;
            }
        }
        match (stream, kind) {
            (Some(stream), Kind::Post) => {
                let spare = self.engine.drop_stream(self.now, stream);
                if let Some(x) = self.exchanges.get_mut(key) {
                    x.spare = spare;
                }
            }
            (Some(channel), _) => self.engine.own_stream(channel, None),
            (None, _) => {}
        }
        if gone {
            self.remove(key);
        } else {
            self.mark(key);
        }
    }

    /// The client of an exchange is not there any more
    pub(super) fn disconnect(&mut self, key: Key) {
        let Some(x) = self.exchanges.get_mut(key) else { return };
        x.gone = true;
        x.out.clear();
        if let Some(session) = x.session.filter(|_| x.greets && x.response.is_none()) {
            // Nobody will ever know its id.
            self.end_session(session);
        }
        let Some(x) = self.exchanges.get_mut(key) else { return };
        let lives_on = x.kind == Kind::Post && x.stream.is_some() && !x.done && !x.modern;
        if lives_on {
            // HTTP-062: its messages are kept for a client that comes back, if it has something to come back with.
            let (begun, events, stream, session) = (x.form == Form::Events, x.event, x.stream, x.session);
            let numbered = session.is_some() && self.config.replay_bytes > 0;
            let primed = || session.and_then(|s| self.version_of(s)) == Some(Version::V2025_11_25);
            let way_back = numbered && begun && (events > 0 || primed());
            if let Some(stream) = stream.filter(|_| !way_back) {
                let nothing = !begun || (numbered && events == 0);
                self.engine.deafen(self.now, stream, nothing);
            }
            return self.refill(key);
        }
        if x.kind == Kind::Old {
            if let Some(session) = x.session {
                self.end_session(session); // HTTPSSE-010
            }
        }
        self.finish(key);
        self.remove(key);
    }

    /// What time alone does to an exchange
    pub(super) fn look_at(&mut self, key: Key) {
        let (now, late, silent) = (self.now, self.config.sse_after, self.config.keep_alive);
        let Some(x) = self.exchanges.get_mut(key) else { return };
        if x.gone || x.done || x.stream.is_none() {
            return;
        }
        match x.form {
            Form::Undecided if now >= x.quiet_since + late => {
                x.quiet_since = now;
                self.begin_events(key);
            }
            Form::Events if now >= x.quiet_since + silent && x.out.is_empty() => {
                x.quiet_since = now;
                x.out.write(|out| write_comment(out, "")); // SSE-006
                self.mark(key);
            }
            _ => {}
        }
    }

    // ---- the stream of no call, and those that are taken up again ----------------------------------------------

    /// GET: the stream of a session, or the rest of one (HTTP-047, HTTP-049, SSE-021)
    pub(super) fn open_get(&mut self, key: Key) {
        let session = match self.find_session(key) {
            Found::Session(session) => session,
            Found::Missing => return self.refuse_sessionless(key),
            Found::Unknown => return self.refuse(key, &unknown_session()),
        };
        if let Err(refusal) = self.check_version(key, session) {
            return self.refuse(key, &refusal);
        }
        let from =
            match self.exchanges.get(key).map(|x| x.mirror.last_event().map(|id| id.map(replay::parse))) {
                Some(Ok(None)) => None,
                Some(Ok(Some(Some(from)))) => Some(from),
                _ => return self.refuse(key, &no_event()),
            };
        let (number, event) = from.unwrap_or((0, 0));
        let missed = match from {
            None => Vec::new(),
            Some(_) => match self.missed(session, number, event) {
                Some(missed) => missed,
                None => return self.refuse(key, &no_event()),
            },
        };
        // One that takes the place of another takes its room as well.
        let takes_over = self.sessions.get(session).is_some_and(|s| s.get.is_some());
        if number == 0 && !takes_over && !self.stand(key) {
            return;
        }
        self.set_standing(key, number == 0);
        let Some(x) = self.exchanges.get_mut(key) else { return };
        x.session = Some(session);
        x.number = number;
        if from.is_some() {
            self.take_back(session, number);
        }
        if number == 0 {
            self.open_standalone(key, session);
        } else {
            self.take_up(key, session, number, event);
        }
        if let Some(x) = self.exchanges.get_mut(key) {
            for entry in &missed {
                write_entry(&mut x.out, entry);
            }
        }
        self.refill(key);
    }

    /// The events of a stream that its client has not seen; none when it cannot have all of them
    fn missed(&self, session: Key, number: u32, event: u32) -> Option<Vec<Entry>> {
        let record = self.sessions.get(session).filter(|_| self.config.replay_bytes > 0)?;
        let newest = match number {
            0 => Some(record.event),
            _ => self.calls_of(session).find(|(_, x)| x.number == number).map(|(_, x)| x.event),
        };
        match &record.log {
            Some(log) => log.after(number, event, newest),
            // Nothing was sent yet but the id to come back with.
            None => (newest == Some(event)).then(Vec::new),
        }
    }

    /// Drops what was made of a stream for a connection and not taken: it stands in the log, and goes out on the
    /// connection that takes the stream up, not on both (HTTP-055)
    fn take_back(&mut self, session: Key, number: u32) {
        let is_it = |x: &Exchange| x.session == Some(session) && x.number == number && x.form == Form::Events;
        let all: Vec<Key> = self.exchanges.iter().filter(|(_, x)| is_it(x)).map(|(key, _)| key).collect();
        for key in all {
            if let Some(x) = self.exchanges.get_mut(key) {
                x.out.clear();
            }
            self.mark(key);
        }
    }

    /// Whether there is room for one more stream that has no end of its own, which this is then; refused if not
    ///
    /// A quarter of all exchanges is left to those that end.
    pub(super) fn stand(&mut self, key: Key) -> bool {
        let most = self.config.max_exchanges - self.config.max_exchanges / 4;
        if self.standing >= most {
            self.refuse(key, &overloaded("too many streams are open"));
            return false;
        }
        self.set_standing(key, true);
        true
    }

    fn set_standing(&mut self, key: Key, stands: bool) {
        let Some(x) = self.exchanges.get_mut(key) else { return };
        match (core::mem::replace(&mut x.standing, stands), stands) {
            (false, true) => self.standing += 1,
            (true, false) => self.standing -= 1,
            _ => {}
        }
    }

    /// The stream of no call; one that is open already gives way: it may be that of a connection that died unseen
    fn open_standalone(&mut self, key: Key, session: Key) {
        let Some(record) = self.sessions.get_mut(session) else { return };
        let (channel, event) = (record.channel, record.event);
        if let Some(old) = record.get.replace(key) {
            if let Some(x) = self.exchanges.get_mut(old) {
                x.stream = None;
            }
            self.finish(old);
            if let Some(record) = self.sessions.get_mut(session) {
                record.get = Some(key);
            }
        }
        self.engine.own_stream(channel, Some(key));
        if let Some(x) = self.exchanges.get_mut(key) {
            x.stream = Some(channel);
            x.event = event;
        }
        self.begin_events(key);
    }

    /// Takes up the stream of a call, which supersedes whoever has it (design, 18)
    fn take_up(&mut self, key: Key, session: Key, number: u32, event: u32) {
        let holder = self.calls_of(session).find(|(_, x)| x.number == number).map(|(holder, _)| holder);
        if let Some(x) = self.exchanges.get_mut(key) {
            x.event = event;
        }
        match holder {
            Some(holder) => {
                self.hand_over(holder, key);
                self.finish(holder);
                self.begin_events(key);
            }
            None => {
                // It is over, and what is left of it stands in the log.
                self.begin_events(key);
                self.finish(key);
            }
        }
    }

    /// Gives the stream of one exchange to another one
    fn hand_over(&mut self, from: Key, to: Key) {
        let Some(x) = self.exchanges.get_mut(from) else { return };
        let stream = x.stream.take();
        let (number, event, modern, session) = (x.number, x.event, x.modern, x.session);
        let counted = core::mem::take(&mut x.counted);
        if let Some(stream) = stream {
            self.engine.own_stream(stream, Some(to));
        }
        if let Some(x) = self.exchanges.get_mut(to) {
            x.kind = Kind::Post;
            (x.stream, x.number, x.event, x.modern) = (stream, number, event, modern);
            x.form = Form::Events;
            x.session = session;
            x.counted = counted;
        }
    }

    /// Ends the connection of a call and has its client come back for the rest, if it can (2025-11-25; HTTP-059,
    /// SSE-017, SSE-018)
    ///
    /// For calls that take long: no connection is held meanwhile, and what is sent is kept for the client, the answer
    /// included, as far as [`Config::replay_bytes`](super::Config::replay_bytes) reaches. False where the client's
    /// revision has no such thing: then the stream stays as it is.
    pub fn poll_later(&mut self, now: Instant, call: CallId, retry: Option<Duration>) -> bool {
        self.tick(now);
        let Some(key) = self.engine.owner_of(call) else { return false };
        let Some(x) = self.exchanges.get(key).filter(|x| !x.gone && !x.done && x.kind == Kind::Post) else {
            return false;
        };
        let can = x.session.and_then(|s| self.version_of(s)) == Some(Version::V2025_11_25);
        if !can || self.config.replay_bytes == 0 {
            return false;
        }
        self.refill(key);
        if self.exchanges.get(key).is_some_and(|x| x.form == Form::Undecided) {
            self.begin_events(key);
        }
        let mut rest = Exchange::new(Kind::Post, self.now, &mut Parts::default());
        rest.gone = true;
        let rest = self.exchanges.insert(rest);
        self.hand_over(key, rest);
        let retry = Some(retry.unwrap_or(self.config.retry));
        if let Some(x) = self.exchanges.get_mut(key) {
            x.out.write(|out| event(out, &EventHead { retry, ..EventHead::default() }));
        }
        self.finish(key);
        self.refill(rest);
        true
    }
}

/// What the head of every stream of events says
pub(super) fn stream_fields() -> Fields {
    let mut fields = Fields::new();
    fields.push(fields::CONTENT_TYPE, fields::EVENT_STREAM.as_bytes());
    fields.push(fields::CACHE_CONTROL, b"no-cache"); // SSE-008
    fields.push(fields::X_ACCEL_BUFFERING, b"no"); // SSE-007
    fields
}

/// An event without data
fn event(out: &mut Vec<u8>, head: &EventHead<'_>) {
    begin(out, head);
    out.extend_from_slice(END);
}

/// What stands before the data; our ids and types have no line ends
pub(super) fn begin(out: &mut Vec<u8>, head: &EventHead<'_>) {
    let _ = head.begin(out);
}

fn write_entry(out: &mut Outbox, entry: &Entry) {
    let id = replay::id(entry.stream, entry.event);
    out.write(|out| begin(out, &EventHead { id: Some(&id), ..EventHead::default() }));
    out.push_bytes(&entry.text);
    out.push(END);
}

fn no_event() -> Refusal {
    Refusal::new(400, format!("`{}` names no event that can be gone on from", fields::LAST_EVENT_ID)) // SSE-024
}

/// The status of an answer that is one message (`wire-tables` (d))
fn status(x: &Exchange, progress: Progress) -> u16 {
    let Some(code) = progress.code else { return 200 };
    if !x.modern {
        let unreadable = progress.refused && matches!(code, code::PARSE_ERROR | code::INVALID_REQUEST);
        return if unreadable || code == code::HEADER_MISMATCH { 400 } else { 200 };
    }
    match code {
        code::METHOD_NOT_FOUND => 404, // HTTP-024
        code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY | code::UNSUPPORTED_PROTOCOL_VERSION => 400,
        code::PARSE_ERROR | code::INVALID_REQUEST | code::INVALID_PARAMS if progress.refused => 400, // HTTP-028
        _ => 200, // DEC-021
    }
}
