//! HTTP+SSE of 2024-11-05: one event stream for all messages of the server, and a path for POST (HTTPSSE).
//!
//! The server calls it through the function pointers of [`HttpSse`], which [`Config::http_sse`](super::Config::http_sse)
//! installs, so a program without it links next to none of its code.

use alloc::format;
use alloc::string::String;

use bytes::Bytes;

use super::Server;
use super::exchange_table::{RequestPhase, ResponseForm, SessionKey};
use super::refusal::{malformed, no_batches, overloaded, repeated_id, unknown_session};
use super::resumption::event_stream_fields;
use super::session::SessionTable;
use crate::built::Sessions;
use crate::deprecation::DeprecatedFeature;
use crate::frame::sse::{EventHead, write_event};
use crate::head::{BodySize, Fields};
use crate::http::fields;
use crate::rpc::envelope::Kind;
use crate::server::{Engine, is_blocked, report_deprecated};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::version::Version;

/// The paths of HTTP+SSE, and the functions that serve them.
#[derive(Clone, Debug)]
pub(super) struct HttpSse {
    /// The path of the event stream.
    pub(super) stream: String,
    /// The path for POST.
    pub(super) messages: String,
    functions: &'static Functions,
}

#[derive(Debug)]
struct Functions {
    open: fn(&mut Server, Key),
    process_post: fn(&mut Server, Key, Bytes),
    check: fn(&mut Server, Key, bool) -> bool,
}

impl HttpSse {
    pub(super) const fn new(stream: String, messages: String) -> Self {
        let functions =
            &Functions { open: Server::open_http_sse, process_post: Server::process_http_sse_post, check };
        Self { stream, messages, functions }
    }

    /// Returns the function that opens the event stream of a request, or refuses it.
    pub(super) const fn open(&self) -> fn(&mut Server, Key) {
        self.functions.open
    }

    /// Returns the function that processes a message.
    pub(super) const fn process_post(&self) -> fn(&mut Server, Key, Bytes) {
        self.functions.process_post
    }

    /// Returns the function that ends an event stream which has outlived its token; it returns whether it did.
    ///
    /// Its last argument is true if the token has expired now.
    pub(super) const fn check(&self) -> fn(&mut Server, Key, bool) -> bool {
        self.functions.check
    }

    /// Returns the id of the session that the query of a target names.
    pub(super) fn session_id(query: &str) -> Option<&str> {
        query.split('&').find_map(|pair| pair.strip_prefix(fields::HTTP_SSE_SESSION)?.strip_prefix('='))
    }
}

impl Server {
    /// Opens the event stream; its first event is the path for messages (HTTPSSE-002).
    fn open_http_sse(&mut self, key: Key) {
        // Such paths are served only if sessions are built.
        let Some(built) = Sessions::get() else { return };
        if !self.admit_open_ended(key) {
            return;
        }
        let Some(messages) = self.config.http_sse.as_ref().map(|sse| sse.messages.clone()) else { return };
        let authorization = self.exchanges.get(key).and_then(|x| x.authorization()).cloned();
        let principal = authorization.as_ref().map(|party| party.identity().shared_principal().clone());
        if !self.make_room_for_session(principal.as_deref()) {
            return self.exchanges.refuse(key, &overloaded("too many sessions"));
        }
        let channel = self.engine.open_channel(self.now);
        self.engine.set_authorization(channel, authorization);
        self.engine.exchanges().set_owner(channel.0, Some(key));
        let session = self.begin_session(channel.0, principal, built);
        report_deprecated(&mut self.engine, channel.0, DeprecatedFeature::HttpSse);
        self.exchanges.schedule_check(self.now + self.config.keep_alive, key);
        let id = self.sessions.id(session);
        if let Some(record) = self.sessions.get_mut(session) {
            // The number 0 never occurs in an event id, so this stream cannot be resumed (HTTPSSE-010).
            record.add_get_stream(0, 0, key, built);
            record.is_http_sse = true;
        }
        if let Some(x) = self.exchanges.get_mut(key) {
            x.set_session(Some(session));
            x.stream = Some(channel.0);
            (x.form, x.phase) = (ResponseForm::EventStream, RequestPhase::Active);
            let target = format!("{messages}?{}={id}", fields::HTTP_SSE_SESSION);
            let head = EventHead { kind: Some("endpoint"), ..EventHead::default() };
            // The path has no line end, because a request could not name it.
            x.out.write(|out| _ = write_event(out, &head, target.as_bytes()));
            x.respond(200, event_stream_fields(), BodySize::Stream);
        }
        self.exchanges.mark_ready(key);
    }

    /// Accepts a message of such a session; its answer goes to the event stream (HTTPSSE-003, HTTPSSE-007,
    /// HTTPSSE-009).
    fn process_http_sse_post(&mut self, key: Key, frame: Bytes) {
        let Some(x) = self.exchanges.get(key) else { return };
        let session = x.session();
        let record =
            // The id in the target does not authenticate (SEC-005).
            session.and_then(|s| self.sessions.get(s)).filter(|s| s.principal.as_deref() == x.principal());
        let Some((channel, is_ending)) = record
            .filter(|s| s.is_http_sse && s.has_open_get_stream())
            .map(|s| (ChannelId(s.channel), s.is_ending))
        else {
            return self.exchanges.refuse(key, &unknown_session());
        };
        // Under overload, notifications and responses are still accepted, because they can end calls.
        let envelope = self.engine.parse(&frame);
        let is_request = envelope.as_ref().is_ok_and(|envelope| envelope.kind == Kind::Request);
        if is_ending && (is_request || envelope.is_err()) {
            // Notifications and responses are for the calls that still run.
            return self.exchanges.refuse(key, &unknown_session());
        }
        let is_overloaded = self.overloaded || self.engine.is_full() || self.engine.is_stalled(channel);
        if (is_request && is_overloaded) || is_blocked(&self.engine, channel) {
            return self.exchanges.refuse(key, &overloaded("too many requests are in work"));
        }
        // Errors without an id cannot be reported on the stream, so they are refused here.
        let is_batch = frame.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[');
        let batches =
            session.is_some_and(|s| self.sessions.version(&self.engine, s) == Some(Version::V2025_03_26));
        let refusal = match &envelope {
            _ if is_batch => (!batches).then(no_batches),
            Err(rejected) if rejected.id.is_none() => Some(malformed(rejected.reason)),
            Ok(envelope) if is_request => {
                let id = envelope.id.as_ref();
                id.is_some_and(|id| self.engine.in_flight(channel.0, id)).then(repeated_id)
            }
            _ => None,
        };
        let mut request = None;
        if let Some(x) = self.exchanges.get_mut(key) {
            request = x.request.take();
            if let Some(authorization) = x.authorization() {
                // Its scopes can differ from those of the stream.
                self.engine.set_authorization(channel, Some(authorization.clone()));
            }
            // The end of this exchange must not end the session.
            x.set_session(None);
        }
        // Line breaks in the message are whitespace here; only a byte stream is framed by them.
        self.engine.exchanges().set_http_request(channel.0, request);
        self.engine.handle_message(self.now, channel, frame);
        // A request that waits for others is delivered later, when this one may not be the last.
        self.engine.exchanges().set_http_request(channel.0, None);
        match refusal {
            Some(refusal) => self.exchanges.refuse(key, &refusal),
            None => self.exchanges.answer_empty(key, 202, Fields::new()),
        }
    }
}

/// Ends the session of an event stream whose token has expired, once its calls are answered. Returns whether it did.
fn check(server: &mut Server, key: Key, is_expired: bool) -> bool {
    let Some(x) = server.exchanges.get_mut(key) else { return false };
    let Some(session) = x.session() else { return false };
    if is_expired && server.sessions.expire_http_sse(&mut server.engine, session) {
        // The stream ends with its running calls. The old time would be due again at once.
        x.expires = None;
        return false;
    }
    let is_over = is_expired || server.sessions.has_outlived_its_token(&mut server.engine, session);
    if is_over {
        server.end_session(session); // HTTPSSE-010
    }
    is_over
}

impl SessionTable {
    /// Records that the token of such a stream has expired: it goes on for running calls alone. Returns whether there
    /// are any.
    fn expire_http_sse(&mut self, engine: &mut Engine, session: SessionKey) -> bool {
        let Some(record) = self.get_mut(session) else { return false };
        record.is_ending = true;
        let channel = record.channel;
        engine.exchanges().end_changes(channel);
        engine.exchanges().has_live_calls(channel)
    }

    /// Returns whether the stream of such a session has only waited for calls, which are answered now.
    fn has_outlived_its_token(&self, engine: &mut Engine, session: SessionKey) -> bool {
        let channel = self.get(session).filter(|s| s.is_ending).map(|s| s.channel);
        channel.is_some_and(|channel| !engine.exchanges().has_live_calls(channel))
    }
}
