//! The body of a POST: finds its session and passes it to the engine (HTTP-029, DEC-007).

use bytes::Bytes;

use super::admission::call_request;
use super::exchange_table::{
    ExchangeId, HeadRejection, Kind, RequestPhase, ResponseForm, ServerExchange, SessionKey, SessionUse,
};
use super::http_sse::HttpSse;
use super::refusal::{
    self, Refusal, no_batches, no_session, overloaded, repeated_id, too_long, unknown_session,
    unsupported_version,
};
use super::request_headers::{RequestHeaderCheck, RequestHeaders};
use super::session::SessionLookup;
use super::shared::Effect;
use super::{Server, shared};
use crate::built::Sessions;
use crate::draft::{Deviation, Draft};
use crate::head::Fields;
use crate::json::{Span, string};
use crate::memory::LONG;
use crate::methods;
use crate::rpc::envelope::{self, Envelope, MalformedMessage};
use crate::rpc::{RpcError, code};
use crate::server::{Authorization, EarlyEnd, Engine, is_out_of_memory};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::{Era, Version};

const OUT_OF_MEMORY: &str = "not enough memory for the request";

/// The destination of a message.
#[derive(Clone, Copy)]
enum PostRoute {
    /// No session.
    Standalone,
    /// No session, with this legacy revision.
    PresumedVersion(Version),
    /// A new session.
    Handshake(Sessions),
    Session(SessionKey),
}

impl Server {
    /// Returns whether to read (more of) the request body.
    ///
    /// This is false once the request is refused, and during the validation of its token.
    #[must_use]
    pub fn wants_body(&self, exchange: ExchangeId) -> bool {
        let wanted = |x: &ServerExchange| {
            x.phase == RequestPhase::ReceivingBody && !x.body_complete && x.response.is_none()
        };
        self.exchanges.get(exchange.0).is_some_and(wanted)
    }

    /// Processes a piece of the body; a single piece is shared and not copied.
    pub fn handle_body(&mut self, now: Instant, exchange: ExchangeId, piece: Bytes) {
        self.tick(now);
        // The field `Content-Length` was checked with the head; a chunked body shows its length only here.
        let limit = self.engine.config().effective_limits().effective_max_frame();
        let Some(x) = self.exchanges.get_mut(exchange.0) else { return };
        if x.body_complete || x.response.is_some() || !matches!(x.kind, Kind::Post | Kind::HttpSsePost) {
            return;
        }
        if x.body_len().saturating_add(piece.len()) > limit {
            // The part that was received is freed now and not only when the response is read.
            x.take_body();
            return self.exchanges.refuse(exchange.0, &too_long(limit as u64)); // HTTP-081
        }
        let memory = crate::server::memory(&self.engine);
        let growth = x.body_growth(piece.len());
        let is_long = x.body_len() + piece.len() >= LONG;
        if self.engine.config().effective_limits().is_out_of_memory(growth)
            || (is_long && !memory.takes_new(growth.max(piece.len())))
        {
            x.take_body();
            return self.exchanges.refuse(exchange.0, &overloaded(OUT_OF_MEMORY));
        }
        x.push_body(piece, memory);
        if self.engine.config().settings.keep_alive.is_some() {
            // A part of a message is a sign of life, too.
            self.find_session(exchange.0);
        }
    }

    /// Records the end of the request.
    pub fn handle_end(&mut self, now: Instant, exchange: ExchangeId) {
        self.tick(now);
        let Some(x) = self.exchanges.get_mut(exchange.0) else { return };
        // A request whose token is undecided starts later, in `proceed`.
        let starts_now = matches!(x.kind, Kind::Post | Kind::HttpSsePost)
            && x.phase == RequestPhase::ReceivingBody
            && !x.body_complete;
        x.body_complete = true;
        if starts_now && x.response.is_none() {
            self.process_post(exchange.0);
        }
    }

    pub(super) fn process_post(&mut self, key: Key) {
        if waits_for_session(self, key) {
            return;
        }
        let Some(x) = self.exchanges.get_mut(key) else { return };
        x.phase = RequestPhase::Active;
        x.idle_since = self.now;
        let allocated = x.body_capacity();
        let frame = crate::server::memory(&self.engine).hold_allocated(x.take_body(), allocated);
        let kind = x.kind;
        // Some clients write a byte order mark, which JSON does not have.
        let frame = match frame.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) => frame.slice_ref(rest),
            None => frame,
        };
        match frame.iter().find(|b| !b.is_ascii_whitespace()) {
            // Whatever the body is: the events of one more message would wait, too.
            _ if self.engine.exchanges().has_event_backlog() => {
                self.exchanges.refuse(key, &overloaded("too much waits for the application"));
            }
            None => {
                let error = RpcError::new(code::PARSE_ERROR, "the body is empty");
                self.exchanges.refuse(key, &Refusal::with_error(400, error));
            }
            _ if kind == Kind::HttpSsePost => {
                if let Some(process) = self.config.http_sse.as_ref().map(HttpSse::process_post) {
                    process(self, key, frame);
                }
            }
            Some(b'[') => self.post_batch(key, &frame),
            Some(_) => self.post_message(key, &frame),
        }
    }

    fn post_message(&mut self, key: Key, frame: &Bytes) {
        let envelope = self.engine.parse(frame);
        let route = match &envelope {
            Ok(envelope) => self.route_message(key, envelope),
            // Only the session id can route a malformed message.
            Err(_) => Ok(match self.find_session(key) {
                SessionLookup::Session(session) => PostRoute::Session(session),
                // A syntax error comes before the session in HTTP-029, so an unknown id does not hide it.
                _ => PostRoute::Standalone,
            }),
        };
        let route = match route {
            Ok(route) => route,
            Err(refusal) => return self.exchanges.refuse(key, &refusal),
        };
        let is_request = envelope.as_ref().is_ok_and(|e| e.kind == envelope::Kind::Request);
        let is_response = envelope.as_ref().is_ok_and(|e| e.kind == envelope::Kind::Response);
        if is_response && matches!(route, PostRoute::Standalone | PostRoute::PresumedVersion(_)) {
            return self
                .exchanges
                .refuse(key, &Refusal::new(400, "nothing was asked that this could answer")); // HTTP-017
        }
        // Notifications and responses end at once, and may free a place: they are never too many.
        if let Err(refusal) = if is_request { check_room(self, route, frame.len()) } else { Ok(()) } {
            return self.exchanges.refuse(key, &refusal);
        }
        let is_long_lived =
            envelope.as_ref().is_ok_and(|e| self.engine.config().is_long_lived_method(&e.method));
        let takes_events = |x: &ServerExchange| x.only_form != Some(ResponseForm::Json);
        if is_long_lived && !self.exchanges.get(key).is_some_and(takes_events) {
            return self.exchanges.refuse(key, &HeadRejection::AcceptEvents.to_refusal(0)); // HTTP-011
        }
        let is_listen =
            is_request && envelope.as_ref().is_ok_and(|e| e.method == methods::SUBSCRIPTIONS_LISTEN);
        // Before the engine sees it, because one that is refused here must not begin a subscription.
        if is_listen && !self.admit_open_ended(key) {
            return;
        }
        if let (Ok(envelope), Some(x)) = (&envelope, self.exchanges.get(key)) {
            let is_notification = envelope.kind == envelope::Kind::Notification;
            let draft = self.engine.config().settings.draft;
            let checked =
                if is_notification { check_notification(&x.headers, frame, envelope, draft) } else { Ok(()) };
            if let Err(error) = checked {
                // The engine does this for all other errors.
                let error = draft.error(&error).into_owned();
                let refusal = match route {
                    PostRoute::Standalone => Refusal::with_error(400, error),
                    _ if draft.keeps_mismatch_in_sessions() => Refusal::with_error(400, error),
                    _ => Refusal::with_error(400, RpcError::invalid_request(error.message)), // ERR-005
                };
                return self.exchanges.refuse(key, &refusal);
            }
        }
        let effect = match &envelope {
            Ok(envelope) => inspect_shared(self, key, route, frame, envelope),
            Err(_) => Effect::None,
        };
        match effect {
            Effect::Elsewhere => return self.exchanges.answer_empty(key, 202, Fields::new()),
            Effect::Waits => return,
            Effect::None | Effect::Changes => {}
        }
        // From here on the engine answers, whatever is wrong with the message.
        let Some(stream) = self.open_stream(key, route) else { return };
        let Some(x) = self.exchanges.get(key) else { return };
        let check = RequestHeaderCheck {
            headers: &x.headers,
            tools: self.tool_fields.as_deref(),
            draft: self.engine.config().settings.draft,
            served_versions: self.engine.config().advertised_versions(),
        };
        let reason = envelope.as_ref().err().map(|rejected| rejected.reason);
        self.engine.exchanges().handle_message(self.now, stream, frame, envelope, &check);
        let has_changed =
            effect == Effect::Changes && self.engine.exchange_status(ChannelId(stream)).error_code.is_none();
        self.finish_post(key, stream, route, is_request, reason);
        if has_changed {
            hold(self, key);
        }
    }

    /// Processes a batch (BATCH-001, BATCH-004, BATCH-009, BATCH-010).
    fn post_batch(&mut self, key: Key, frame: &Bytes) {
        if self.engine.config().settings.draft.contains(Deviation::NoBatches) {
            return self.exchanges.refuse(key, &Refusal::new(400, "a POST has one message in the draft"));
        }
        let batches = Version::V2025_03_26;
        let found = self.find_session(key);
        let parent = match found {
            SessionLookup::Session(session) => self.sessions.get(session).map(|s| s.channel),
            _ => None,
        };
        // Looked at as a whole first, because one refusal answers all members.
        let contents = self.engine.exchanges().inspect_batch(parent, frame);
        let route = match found {
            SessionLookup::Session(session) => {
                Ok(PostRoute::Session(session)).and_then(|r| self.check_version(key, session).map(|()| r))
            }
            SessionLookup::Unknown => Err(unknown_session()),
            // It is refused with its id (BATCH-003).
            SessionLookup::Missing if contents.has_handshake => Ok(PostRoute::Standalone),
            SessionLookup::Missing if self.config.has_sessions() => {
                Err(Refusal::new(400, "a batch belongs into a session"))
            }
            SessionLookup::Missing => presume_version(self.exchanges.get(key), &self.engine),
        };
        let version = match route {
            Ok(PostRoute::Session(session)) => self.sessions.version(&self.engine, session),
            Ok(PostRoute::PresumedVersion(version)) => Some(version),
            Ok(PostRoute::Standalone) => Some(batches),
            _ => None,
        };
        let route = match route {
            Err(_) if !self.engine.config().effective_versions().contains(batches) => {
                return self.exchanges.refuse(key, &no_batches());
            }
            Err(refusal) => return self.exchanges.refuse(key, &refusal),
            Ok(_) if version != Some(batches) => return self.exchanges.refuse(key, &no_batches()),
            Ok(route) => route,
        };
        // After the revision: where there are no batches, that is the fault to name.
        if self.exchanges.get(key).is_some_and(|x| x.headers.has_mirrored_fields()) {
            // DEC-008
            let refusal = Refusal::new(400, "a batch has no single method that a field could repeat");
            return self.exchanges.refuse(key, &refusal);
        }
        if contents.has_repeated_id {
            // The whole batch is refused: an array without the answer of one member would look incomplete.
            return self.exchanges.refuse(key, &repeated_id());
        }
        if let Err(refusal) =
            if contents.has_requests { check_room(self, route, frame.len()) } else { Ok(()) }
        {
            return self.exchanges.refuse(key, &refusal);
        }
        let effect = match (route, shared::functions(self)) {
            (PostRoute::Session(_), Some(sharing)) => (sharing.inspect_batch)(self, key, frame, &contents),
            _ => Effect::None,
        };
        let Some(stream) = self.open_stream(key, route) else { return };
        self.engine.exchanges().handle_batch(self.now, stream, frame);
        self.finish_post(key, stream, route, false, None);
        if effect == Effect::Changes {
            hold(self, key);
        }
    }

    /// Finds the destination of a message (DEC-006, DEC-007, HTTP-069, HTTP-071, HTTP-078).
    fn route_message(&mut self, key: Key, envelope: &Envelope<'_>) -> Result<PostRoute, Refusal> {
        // DEC-029: `_meta` has precedence.
        if self.engine.config().is_modern_message(envelope) {
            return Ok(PostRoute::Standalone);
        }
        let is_request = envelope.kind == envelope::Kind::Request;
        if is_request && envelope.method == methods::INITIALIZE {
            // DEC-026: the revision that the field names is ignored here, except with the draft.
            if let Some(x) = self.exchanges.get(key) {
                let config = self.engine.config();
                let (served, draft) = (config.effective_versions(), config.settings.draft);
                x.headers.check_session_version(Version::V2024_11_05, served, draft)?;
            }
            return Ok(self.config.sessions_marker().map_or(PostRoute::Standalone, PostRoute::Handshake));
        }
        let named = self.exchanges.get(key).and_then(|x| x.headers.version().ok().flatten());
        let named = named.and_then(Version::from_name);
        let modern = self.engine.config().modern_versions();
        // A modern version field without `_meta` is a fault that the engine names (DEC-007), not a legacy message.
        if !modern.is_empty() && named.is_some_and(|v| v.era() == Era::Modern) {
            return Ok(PostRoute::Standalone);
        }
        match self.find_session(key) {
            SessionLookup::Session(session) => {
                self.check_version(key, session)?;
                Ok(PostRoute::Session(session))
            }
            SessionLookup::Unknown if self.config.has_sessions() => Err(unknown_session()),
            SessionLookup::Missing if self.config.has_sessions() => Err(no_session()),
            // A server without sessions ignores an id. The version field, or its absence, gives the revision
            // (HTTP-078).
            _ => presume_version(self.exchanges.get(key), &self.engine),
        }
    }

    /// Checks the version field of a request against its session (HTTP-077).
    pub(super) fn check_version(&self, key: Key, session: SessionKey) -> Result<(), Refusal> {
        let (Some(x), Some(version)) =
            (self.exchanges.get(key), self.sessions.version(&self.engine, session))
        else {
            return Ok(());
        };
        let config = self.engine.config();
        x.headers.check_session_version(version, config.legacy_versions(), config.settings.draft)
    }

    /// Opens the stream of the answer.
    fn open_stream(&mut self, key: Key, route: PostRoute) -> Option<Key> {
        let now = self.now;
        let authorization = self.exchanges.get(key)?.authorization().cloned();
        let parent = match route {
            PostRoute::Session(session) => Some(self.sessions.get(session)?.channel),
            PostRoute::Handshake(_) => {
                // Room is made before the channel is opened: after a refusal nothing would close that channel.
                if !self.make_room_for_session(authorization.as_ref().map(Authorization::principal)) {
                    self.exchanges.refuse(key, &overloaded("too many sessions"));
                    return None;
                }
                Some(self.engine.open_channel(now).0)
            }
            PostRoute::Standalone | PostRoute::PresumedVersion(_) => None,
        };
        let buffers = self.exchanges.take_stream_buffers();
        let stream = self.engine.exchanges().open_channel(now, parent, key, buffers);
        if authorization.is_some() {
            // The session has the party of its last request, for what happens outside of calls.
            if let Some(parent) = parent {
                self.engine.set_authorization(ChannelId(parent), authorization.clone());
            }
            self.engine.set_authorization(ChannelId(stream), authorization);
        }
        // The handlers share the request from now on, so it cannot be changed any more (`request_mut`).
        let request = self.exchanges.get_mut(key).and_then(|x| x.request.take());
        let request = request.unwrap_or_else(|| call_request(&self.path));
        self.engine.exchanges().set_http_request(stream, Some(request));
        if let PostRoute::PresumedVersion(version) = route {
            self.engine.exchanges().begin_stateless_session(stream, version);
        }
        let x = self.exchanges.get_mut(key)?;
        x.stream = Some(stream);
        if x.only_form == Some(ResponseForm::Json) {
            // Nothing but the answer has a place in the response, so nobody can be asked on it.
            self.engine.exchanges().set_unreachable(now, stream, false);
        }
        if matches!(route, PostRoute::Standalone) {
            x.session_use = SessionUse::Standalone;
        }
        if let PostRoute::Session(session) = route {
            x.set_session(Some(session));
        }
        // A call that stays silent for this time becomes an event stream (see `check_exchange`).
        self.exchanges.schedule_check(self.now + self.config.event_stream_delay, key);
        Some(stream)
    }

    /// Evaluates how the engine processed a message; `needs_answer` if it needs an answer.
    fn finish_post(
        &mut self,
        key: Key,
        stream: Key,
        route: PostRoute,
        needs_answer: bool,
        reason: Option<MalformedMessage>,
    ) {
        let progress = self.engine.exchange_status(ChannelId(stream));
        if let PostRoute::Handshake(built) = route {
            self.begin_handshake_session(key, stream, built);
        }
        // Without output and without an open call, nothing will ever be sent on the stream.
        let silent = self.engine.outbox(ChannelId(stream)).is_none_or(|o| o.is_empty());
        let Some(x) = self.exchanges.get_mut(key) else { return };
        if progress.is_open {
            self.sessions.begin_call(&mut self.exchanges, key);
        } else if silent && progress.early_end == Some(EarlyEnd::Cancelled) {
            return self.finish(key);
        } else if silent {
            x.stream = None;
            self.exchanges.keep_stream_buffers(self.engine.exchanges().remove(self.now, stream));
            match (reason, needs_answer) {
                (Some(reason), _) => self.exchanges.refuse(key, &refusal::malformed(reason)),
                // Only an exchange of its own can refuse a duplicate id without ending the first call (DESIGN-09).
                (None, true) => self.exchanges.refuse(key, &repeated_id()),
                (None, false) => self.exchanges.answer_empty(key, 202, Fields::new()), // HTTP-018
            }
            return;
        }
        self.exchanges.mark_ready(key);
    }

    /// Creates the session of an answered handshake, if the handshake succeeded.
    fn begin_handshake_session(&mut self, key: Key, stream: Key, built: Sessions) {
        let Some(parent) = self.engine.exchanges().parent_of(stream) else { return };
        // The handshake failed. No session would ever remove its channel.
        if self.engine.session_status(ChannelId(parent)).is_none() {
            self.engine.exchanges().remove(self.now, parent);
            return;
        }
        let party = self.exchanges.get(key).and_then(|x| x.authorization());
        let principal = party.map(|party| party.identity().shared_principal().clone());
        let session = self.begin_session(parent, principal, built);
        if let Some(x) = self.exchanges.get_mut(key) {
            x.set_session(Some(session));
            x.session_use = SessionUse::Begins;
        }
    }
}

/// Processes the message of a call of a session a second time, without progress. Returns whether it has a stream.
pub(super) fn post_again(server: &mut Server, key: Key, session: SessionKey, frame: &Bytes) -> bool {
    let mut envelope = server.engine.parse(frame);
    if let Ok(envelope) = &mut envelope {
        envelope.params.meta.token = Span::default();
    }
    let route = PostRoute::Session(session);
    let Some(stream) = server.open_stream(key, route) else { return false };
    let Some(x) = server.exchanges.get(key) else { return false };
    // What header fields repeat was compared the first time.
    let check = RequestHeaderCheck {
        headers: &x.headers,
        tools: None,
        draft: server.engine.config().settings.draft,
        served_versions: server.engine.config().advertised_versions(),
    };
    server.engine.exchanges().handle_message(server.now, stream, frame, envelope, &check);
    server.finish_post(key, stream, route, true, None);
    server.exchanges.get(key).is_some_and(|x| x.stream.is_some())
}

/// Checks the limits for a call of a session.
pub(super) fn check_room_in(server: &Server, session: SessionKey) -> Result<(), Refusal> {
    check_room(server, PostRoute::Session(session), 0)
}

/// Makes a request wait for its session, if other processes serve it, too, and it may not be here as it is now.
pub(super) fn waits_for_session(server: &mut Server, key: Key) -> bool {
    shared::functions(server).is_some_and(|sharing| (sharing.wait)(server, key))
}

/// Returns what a message means to the other processes, if there are any.
fn inspect_shared(
    server: &mut Server,
    key: Key,
    route: PostRoute,
    frame: &Bytes,
    envelope: &Envelope<'_>,
) -> Effect {
    let session = match route {
        PostRoute::Session(session) => Some(session),
        PostRoute::Handshake(_) => None,
        PostRoute::Standalone | PostRoute::PresumedVersion(_) => return Effect::None,
    };
    let sharing = shared::functions(server);
    sharing.map_or(Effect::None, |sharing| (sharing.inspect)(server, key, session, frame, envelope))
}

/// Holds back the response to a request that has changed its session, which other processes serve, too.
fn hold(server: &mut Server, key: Key) {
    if let Some(sharing) = shared::functions(server) {
        (sharing.hold)(server, key);
    }
}

/// Checks the limits for a message that needs an answer.
fn check_room(server: &Server, route: PostRoute, length: usize) -> Result<(), Refusal> {
    if let PostRoute::Session(session) = route {
        let calls = server.sessions.get(session).map_or(0, |s| s.call_count() as usize);
        if calls >= server.config.max_streams_per_session {
            return Err(overloaded("too many calls of this session are under way"));
        }
    }
    // The tables of the exchange take memory, and then the event of its call needs the reserve.
    let room = server.engine.config().effective_limits().message_room();
    // A session stays, so it is something new however short its request is.
    let begins = matches!(route, PostRoute::Handshake(_));
    if is_out_of_memory(&server.engine, length, room)
        || (begins && !crate::server::memory(&server.engine).takes_new(0))
    {
        return Err(overloaded(OUT_OF_MEMORY));
    }
    if server.overloaded || server.engine.is_full() {
        Err(overloaded("too many requests are in work"))
    } else {
        Ok(())
    }
}

/// Returns the destination of a legacy message without a session.
fn presume_version(x: Option<&ServerExchange>, engine: &Engine) -> Result<PostRoute, Refusal> {
    let x = x.ok_or_else(unsupported_version)?;
    x.headers.presumed_version(engine.config().legacy_versions()).map(PostRoute::PresumedVersion)
}

/// Compares a notification with the fields of its request.
fn check_notification(
    headers: &RequestHeaders,
    frame: &Bytes,
    envelope: &Envelope<'_>,
    draft: Draft,
) -> Result<(), RpcError> {
    let version = envelope.params.meta.version.slice(frame).and_then(string);
    headers.check_notification(version.as_deref(), &envelope.method, draft)
}
