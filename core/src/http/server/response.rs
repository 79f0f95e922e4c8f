//! Responses from the messages of the engine: one body or an event stream, on demand (HTTP-021 to HTTP-028), and what ends or moves
//! one: a client that disconnects, a timer, a resumption.

use core::time::Duration;

use super::exchange_table::{
    Kind, RequestPhase, ResponseForm, ServerExchange, SessionKey, SessionPlace, SessionUse,
};
use super::http_sse::HttpSse;
use super::refusal::overloaded;
use super::resumption::{
    self, ReplayEntry, event_stream_fields, note_text, write_empty_event, write_entry, write_event_head,
};
use super::{MAX_BUFFERED_BODY, Server, shared};
use crate::CallId;
use crate::built::Sessions;
use crate::draft::Deviation;
use crate::frame::sse::{EVENT_END, EventHead, write_comment};
use crate::head::{BodySize, Fields};
use crate::http::fields;
use crate::rpc::code;
use crate::server::{EarlyEnd, ExchangeStatus};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::Version;

impl Server {
    /// Produces more of a response if there is room and output.
    pub(super) fn fill_response(&mut self, key: Key) {
        let Some(x) = self.exchanges.get(key) else { return };
        if Sessions::IS_BUILT && x.kind == Kind::Get {
            if let Some(session) = x.session().filter(|_| x.stream.is_some()) {
                self.fill_get_streams(session);
            }
            return;
        }
        // Without a client the output goes to the replay log or nowhere, so the buffer cannot grow.
        if x.output_complete || (!x.is_client_gone() && x.out.len() >= MAX_BUFFERED_BODY) {
            return;
        }
        let Some(stream) = x.stream else { return };
        // Before the output is looked at, so that what comes later queues the exchange again.
        self.engine.exchanges().rearm(stream);
        let progress = self.engine.exchange_status(ChannelId(stream));
        let sharing = shared::functions(self).filter(|_| !progress.is_open);
        if sharing.is_some_and(|sharing| (sharing.hold_answer)(self, key)) {
            return;
        }
        let Some(x) = self.exchanges.get(key) else { return };
        let before = x.out.len();
        if x.form == ResponseForm::Undecided {
            let Some(outbox) = self.engine.outbox(ChannelId(stream)) else { return };
            if x.only_form == Some(ResponseForm::Json) {
                // The answer comes last, and what precedes it has no place in one object.
                while !outbox.is_empty() && (progress.is_open || !outbox.has_single_message()) {
                    outbox.pop_message();
                }
            }
            let (empty, one) = (outbox.is_empty(), !progress.is_open && outbox.has_single_message());
            if one {
                return self.answer_single_message(key, stream, progress);
            }
            // Undecided until there is a message: one alone is JSON, more are events (HTTP-023).
            if empty {
                // Cancelled without any output, so there is nothing to resume.
                if !progress.is_open {
                    self.finish(key);
                }
                return;
            }
            if x.is_client_gone() {
                // The client has no event id, so it cannot resume.
                outbox.clear();
            } else {
                self.begin_events(key);
            }
        }
        // May leave messages behind: a body holds no more than `MAX_BUFFERED_BODY`, and the rest waits in the engine.
        self.move_events(key, stream);
        let drained = self.engine.outbox(ChannelId(stream)).is_none_or(|o| o.is_empty());
        let over = match self.exchanges.get(key).map(|x| x.kind) {
            Some(Kind::Post) => !progress.is_open,
            Some(Kind::HttpSse) => progress.is_closed,
            _ => false,
        };
        let http_sse = self.config.http_sse.as_ref().filter(|_| {
            // Only an event stream of HTTP+SSE outlives its token.
            drained && self.exchanges.get(key).is_some_and(|x| x.kind == Kind::HttpSse)
        });
        if http_sse.map(HttpSse::check).is_some_and(|check| check(self, key, false)) {
            // The session has ended.
        } else if over && drained {
            self.finish(key);
        } else if self.exchanges.get(key).is_some_and(|x| x.out.len() > before) {
            if let Some(x) = self.exchanges.get_mut(key) {
                x.idle_since = self.now;
            }
            self.exchanges.record_activity(key);
            self.exchanges.mark_ready(key);
        }
    }

    /// Sends the only message as the body (HTTP-023).
    fn answer_single_message(&mut self, key: Key, stream: Key, progress: ExchangeStatus) {
        let mut fields = self.exchanges.take_fields();
        let Some(x) = self.exchanges.get_mut(key) else { return };
        if x.session_use == SessionUse::Begins
            && x.session().is_none_or(|session| self.sessions.get(session).is_none())
        {
            // The session was evicted before its id was sent.
            self.exchanges.refuse(key, &overloaded("too many sessions"));
            return self.finish(key);
        }
        // Only an error asks for scopes.
        let forbidden = x.scheme.and_then(|scheme| {
            let scopes = self.engine.exchanges().take_required_scopes(stream)?;
            self.config.protected_resource()?.challenge_call(scheme, &scopes, &mut fields);
            Some(403)
        });
        let status = forbidden.unwrap_or_else(|| status(x, progress));
        if status == 200 && x.only_form == Some(ResponseForm::EventStream) {
            self.begin_events(key);
            self.move_events(key, stream);
            return self.finish(key);
        }
        x.form = ResponseForm::Json;
        if let Some(outbox) = self.engine.outbox(ChannelId(stream)) {
            outbox.move_message(&mut x.out);
        }
        fields.push(fields::CONTENT_TYPE, fields::JSON.as_bytes());
        self.sessions.push_id(x, &mut fields);
        let size = BodySize::Exact(x.out.len() as u64);
        x.respond(status, fields, size);
        self.finish(key);
    }

    /// Makes the response an event stream.
    pub(super) fn begin_events(&mut self, key: Key) {
        let Some(x) = self.exchanges.get_mut(key) else { return };
        let mut fields = event_stream_fields();
        self.sessions.push_id(x, &mut fields);
        x.form = ResponseForm::EventStream;
        x.phase = RequestPhase::Active;
        x.respond(200, fields, BodySize::Stream);
        let primed = x.session().is_some_and(|session| primes_streams(self, session));
        let Some(x) = self.exchanges.get_mut(key) else { return };
        let session = x.session().filter(|_| Sessions::IS_BUILT).and_then(|s| self.sessions.get_mut(s));
        let Some(session) = session else { return self.exchanges.mark_ready(key) };
        // A stream that is resumed keeps its number, because its client has event ids with it.
        if x.kind == Kind::Post && x.place().number == 0 {
            let place = SessionPlace { number: session.next_stream_number(), ..x.place() };
            self.sessions.set_place(&mut self.exchanges, key, place);
        }
        let sharing = shared::functions(self);
        if let Some(sharing) = sharing {
            (sharing.write_note)(self, key);
        }
        let Some(x) = self.exchanges.get_mut(key) else { return };
        if primed && self.config.replay_budget() > 0 {
            // An id for resumption before the first message (SSE-016, DEC-033). That of a stream which is resumed could be ahead of
            // what its client has missed. Where processes may end, the client gets its own again: the SDK of TypeScript forgets it
            // with a stream that breaks.
            let id = match x.headers.last_event_id() {
                Ok(Some(id)) => sharing.map(|_| id.into()),
                _ => Some(resumption::format_event_id(
                    x.place().number,
                    x.last_event,
                    note_text(&x.event_note),
                )),
            };
            if let Some(id) = id {
                x.out.write(|out| {
                    write_empty_event(out, &EventHead { id: Some(&id), ..EventHead::default() })
                });
            }
        }
        self.exchanges.mark_ready(key);
    }

    /// Moves messages from a stream to the response, as events.
    fn move_events(&mut self, key: Key, stream: Key) {
        let open = self.engine.exchange_status(ChannelId(stream)).is_open;
        let Some(x) = self.exchanges.get_mut(key) else { return };
        let Some(outbox) = self.engine.outbox(ChannelId(stream)) else { return };
        let session = x.session().and_then(|s| self.sessions.get_mut(s));
        let budget = self.config.replay_budget();
        let replayed = session.filter(|_| budget > 0 && x.kind != Kind::HttpSse).zip(Sessions::get());
        let Some((session, built)) = replayed else {
            // A client that is gone asks for nothing more, so its whole outbox is emptied.
            while (x.is_client_gone() || x.out.len() < MAX_BUFFERED_BODY) && !outbox.is_empty() {
                x.out.write(|out| write_event_head(out, &EventHead::default()));
                if !outbox.move_message(&mut x.out) {
                    break;
                }
                x.out.push(EVENT_END);
                if x.is_client_gone() {
                    x.out.clear();
                }
            }
            return;
        };
        while x.is_client_gone() || x.out.len() < MAX_BUFFERED_BODY {
            let Some(text) = outbox.pop_message() else { return };
            x.last_event = x.last_event.saturating_add(1);
            let last = !open && outbox.is_empty() && x.kind == Kind::Post;
            let entry =
                ReplayEntry { stream: x.place().number, event: x.last_event, is_last: last, message: text };
            if !x.is_client_gone() {
                write_entry(&mut x.out, &entry, note_text(&x.event_note));
            }
            session.replay_log(built).push(entry, budget, self.tables.account());
        }
    }

    /// Completes the output of an exchange and releases its resources in the engine.
    pub(super) fn finish(&mut self, key: Key) {
        self.exchanges.set_open_ended(key, false);
        let Some(x) = self.exchanges.get_mut(key) else { return };
        x.output_complete = true;
        if x.response.is_none() && !x.is_client_gone() {
            // Cancelled without any output: an empty event stream.
            let mut fields = Fields::new();
            fields.push(fields::CONTENT_TYPE, fields::EVENT_STREAM.as_bytes());
            x.respond(200, fields, BodySize::Exact(0));
        }
        // The stream is taken out, so that a second call releases nothing twice.
        let (kind, gone, stream) = (x.kind, x.is_client_gone(), x.stream.take());
        let SessionPlace { session, is_call, .. } = x.place();
        if is_call {
            self.sessions.end_call(&mut self.exchanges, key);
        }
        if let Some(session) = session.and_then(|s| self.sessions.get_mut(s)) {
            let was_get_stream = session.close_get_stream(key, self.config.max_get_streams_per_session);
            if is_call || was_get_stream {
                // The session was in use until now.
                session.last_seen = self.now;
            }
        }
        match (stream, kind) {
            (Some(stream), Kind::Post) => {
                self.exchanges.keep_stream_buffers(self.engine.exchanges().remove(self.now, stream));
            }
            // This is the channel of the session, which goes on. Its messages go to the newest GET stream that is
            // left.
            (Some(channel), _) => {
                let newest =
                    session.and_then(|s| self.sessions.get(s)).and_then(|s| s.open_get_streams().next_back());
                self.engine.exchanges().set_owner(channel, newest);
            }
            (None, _) => {}
        }
        if gone {
            self.remove(key);
        } else {
            self.exchanges.mark_ready(key);
        }
    }

    /// Handles the disconnection of the client.
    pub(super) fn disconnect(&mut self, key: Key) {
        let Some(x) = self.exchanges.get_mut(key) else { return };
        x.mark_client_gone();
        if x.unwritten.is_some() {
            return self.close_broken_get_stream(key);
        }
        if x.stream.is_none() && x.session().is_none() {
            // Nothing else knows of it: it is answered, or was never passed to the engine.
            return self.remove(key);
        }
        x.out.clear();
        if let Some(session) =
            x.session().filter(|_| x.session_use == SessionUse::Begins && x.response.is_none())
        {
            // The client cannot know the session id.
            self.end_session(session);
        }
        // `end_session` may have removed the exchange.
        let Some(x) = self.exchanges.get_mut(key) else { return };
        // A modern request does not continue: its client has cancelled it by disconnecting (HTTP-042).
        let continues = x.kind == Kind::Post
            && x.stream.is_some()
            && !x.output_complete
            && x.session_use != SessionUse::Standalone;
        if continues {
            // HTTP-062: the messages are kept for resumption, if the client has an event id.
            let (begun, events, stream, session) =
                (x.form == ResponseForm::EventStream, x.last_event, x.stream, x.session());
            let numbered = session.is_some() && self.config.replay_budget() > 0;
            let primed = || session.is_some_and(|session| primes_streams(self, session));
            let can_resume = numbered && begun && (events > 0 || primed());
            if let Some(stream) = stream {
                if can_resume {
                    self.engine.exchanges().mark_left(stream);
                } else {
                    let discard = !begun || (numbered && events == 0);
                    self.engine.exchanges().set_unreachable(self.now, stream, discard);
                }
            }
            // What waits moves to the replay log now, or is dropped.
            return self.fill_response(key);
        }
        if x.kind == Kind::HttpSse {
            if let Some(session) = x.session() {
                self.end_session(session); // HTTPSSE-010
            }
        }
        // This removes the exchange, too, as its client is gone.
        self.finish(key);
    }

    /// Handles the timer of an exchange, and sets it again while it may be needed.
    ///
    /// Output does not move the timer: it writes `idle_since`, which is compared here.
    pub(super) fn check_exchange(&mut self, key: Key) {
        let (now, keep_alive) = (self.now, self.config.keep_alive);
        let Some(x) = self.exchanges.get_mut(key).filter(|x| x.is_live()) else {
            return;
        };
        let is_expired = x.is_open_ended() && x.expires.is_some_and(|at| at <= now);
        // Calls end by themselves; a stream would outlive its token.
        match self.config.http_sse.as_ref().filter(|_| x.kind == Kind::HttpSse).map(HttpSse::check) {
            Some(check) if check(self, key, is_expired) => return,
            None if is_expired => return self.end_stream(key, self.config.retry),
            _ => {}
        }
        let Some(x) = self.exchanges.get_mut(key) else { return };
        let next = match x.form {
            _ if x.stream.is_none() => {
                return shared::functions(self).map_or((), |sharing| (sharing.check_relay)(self, key));
            }
            // `open_stream` has set this time.
            ResponseForm::Undecided if x.only_form == Some(ResponseForm::Json) => return,
            ResponseForm::Undecided => {
                x.idle_since = now;
                self.begin_events(key);
                now + keep_alive
            }
            ResponseForm::EventStream if now < x.idle_since + keep_alive => x.idle_since + keep_alive,
            ResponseForm::EventStream => {
                // Output that waits for the reader shows as much life as a comment, which would only make it longer.
                if x.out.is_empty() {
                    x.idle_since = now;
                    x.out.write(|out| write_comment(out, "")); // SSE-006
                    self.exchanges.mark_ready(key);
                }
                now + keep_alive
            }
            ResponseForm::Json => return,
        };
        self.exchanges.schedule_check(next.max(now + super::MIN_CHECK_INTERVAL), key);
    }

    // ---- transfers -------------------------------------------------------------------------------------------

    /// Ends the exchange of a call and lets its client poll for the rest (2025-11-25; HTTP-059, SSE-017, SSE-018).
    ///
    /// This is for long calls: no connection is held meanwhile. Messages and the answer are kept for the client within
    /// [`Config::replay_bytes`](super::Config::replay_bytes). `retry` overrides
    /// [`Config::retry`](super::Config::retry).
    ///
    /// Returns false and changes nothing if the exchange has ended, if the revision of the client does not support this,
    /// or if replay is disabled.
    pub fn poll_later(&mut self, now: Instant, call: CallId, retry: Option<Duration>) -> bool {
        self.tick(now);
        let Some(key) = self.engine.exchanges().call_owner(call) else { return false };
        let Some(x) = self.exchanges.get(key).filter(|x| x.is_live() && x.kind == Kind::Post) else {
            return false;
        };
        let supported = x.session().is_some_and(|session| primes_streams(self, session));
        if !supported || self.config.replay_budget() == 0 || x.only_form == Some(ResponseForm::Json) {
            return false;
        }
        // Messages that wait still go to this exchange. The client polls for later ones.
        self.fill_response(key);
        if self.exchanges.get(key).is_some_and(|x| x.form == ResponseForm::Undecided) {
            self.begin_events(key);
        }
        let rest = self.exchanges.open_detached(self.now);
        if let Some(party) = self.exchanges.get(key).and_then(|x| x.authorization()).cloned() {
            // The call still counts for its principal (SEC-018).
            self.exchanges.set_authorization(rest, party, None);
        }
        transfer_stream(self, key, rest);
        let retry = Some(retry.unwrap_or(self.config.retry));
        if let Some(x) = self.exchanges.get_mut(key) {
            x.out.write(|out| write_empty_event(out, &EventHead { retry, ..EventHead::default() }));
        }
        self.finish(key);
        self.fill_response(rest);
        true
    }
}

/// Moves the stream of one exchange to another one.
pub(super) fn transfer_stream(server: &mut Server, from: Key, to: Key) {
    let Some(x) = server.exchanges.get_mut(from) else { return };
    debug_assert!(x.session_use != SessionUse::Standalone, "a stream without a session cannot be resumed");
    let (stream, event, place) = (x.stream.take(), x.last_event, x.place());
    let (note, repeat) = (x.event_note.take(), x.repeat.take_for_transfer());
    // The old exchange leaves the index before the new one enters it with the same place.
    server.sessions.set_place(&mut server.exchanges, from, SessionPlace { is_call: false, ..place });
    if let Some(stream) = stream {
        server.engine.exchanges().set_owner(stream, Some(to));
    }
    if let Some(x) = server.exchanges.get_mut(to) {
        (x.kind, x.form) = (Kind::Post, ResponseForm::EventStream);
        (x.stream, x.last_event, x.event_note, x.repeat) = (stream, event, note, repeat);
    }
    server.sessions.set_place(&mut server.exchanges, to, place);
}

/// Returns whether event streams of a session begin with an id, after which their clients can poll (SSE-016, SSE-017).
fn primes_streams(server: &Server, session: SessionKey) -> bool {
    let version = server.sessions.version(&server.engine, session);
    version == Some(Version::V2025_11_25)
        || version.is_some() && server.engine.config().settings.draft.contains(Deviation::PrimedStreams)
}

/// Returns the status of a response that is one message (HTTP-024, HTTP-028, DEC-021).
fn status(x: &ServerExchange, progress: ExchangeStatus) -> u16 {
    let Some(code) = progress.error_code else { return 200 };
    let is_refused = progress.early_end == Some(EarlyEnd::Refused);
    if x.session_use != SessionUse::Standalone {
        // Legacy revisions give errors the status 200. Only what is no valid message is refused (HTTP-023).
        let unreadable = is_refused && matches!(code, code::PARSE_ERROR | code::INVALID_REQUEST);
        return if unreadable || code == code::HEADER_MISMATCH { 400 } else { 200 };
    }
    match code {
        code::METHOD_NOT_FOUND => 404, // HTTP-024
        code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY | code::UNSUPPORTED_PROTOCOL_VERSION => 400,
        code::PARSE_ERROR | code::INVALID_REQUEST | code::INVALID_PARAMS if is_refused => 400, // HTTP-028
        _ => 200,                                                                              // DEC-021
    }
}
