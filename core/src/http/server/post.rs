//! The body of a POST: which session it belongs to, and on to the engine (`spec-map` 3.4; HTTP-029, second half).

use bytes::Bytes;

use super::Server;
use super::exchange::{ExchangeId, Kind, Phase};
use super::head::{Refusal, no_session, overloaded, too_long, unknown_session};
use super::mirror::Check;
use super::session::Found;
use crate::head::Fields;
use crate::http::fields;
use crate::json::string;
use crate::rpc::envelope::{self, Envelope, Malformed};
use crate::rpc::{RpcError, code};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::{Era, Version};
use crate::vocab;

/// Where a message belongs
#[derive(Clone, Copy)]
enum Route {
    /// It stands alone
    Alone,
    /// It stands alone, and is of this legacy revision
    Presumed(Version),
    /// It opens a session
    Handshake,
    Session(Key),
}

impl Server {
    /// Whether the body of a request is to be read (further): not once the request is refused, nor while its token is
    /// being judged
    #[must_use]
    pub fn wants_body(&self, exchange: ExchangeId) -> bool {
        let wanted = |x: &super::Exchange| x.phase == Phase::Body && !x.complete && x.response.is_none();
        self.exchanges.get(exchange.0).is_some_and(wanted)
    }

    /// Takes a piece of the body; shared, not copied, when it is all of it
    pub fn handle_body(&mut self, now: Instant, exchange: ExchangeId, piece: Bytes) {
        self.tick(now);
        let limit = self.engine.config().get_limits().frame();
        let Some(x) = self.exchanges.get_mut(exchange.0) else { return };
        if x.complete || x.response.is_some() || !matches!(x.kind, Kind::Post | Kind::OldPost) {
            return;
        }
        if x.body.len().saturating_add(piece.len()) > limit {
            x.body.take();
            return self.refuse(exchange.0, &too_long(limit as u64)); // HTTP-081
        }
        x.body.push(piece);
    }

    /// Says that the request is complete
    pub fn handle_end(&mut self, now: Instant, exchange: ExchangeId) {
        self.tick(now);
        let Some(x) = self.exchanges.get_mut(exchange.0) else { return };
        let begins = matches!(x.kind, Kind::Post | Kind::OldPost) && x.phase == Phase::Body && !x.complete;
        x.complete = true;
        if begins && x.response.is_none() {
            self.post(exchange.0);
        }
    }

    pub(super) fn post(&mut self, key: Key) {
        let Some(x) = self.exchanges.get_mut(key) else { return };
        x.phase = Phase::Open;
        x.quiet_since = self.now;
        let frame = x.body.take();
        let kind = x.kind;
        let frame = match frame.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) => frame.slice_ref(rest),
            None => frame,
        };
        match frame.iter().find(|b| !b.is_ascii_whitespace()) {
            _ if self.engine.is_behind() => {
                self.refuse(key, &overloaded("too much waits for the application"));
            }
            None => {
                let error = RpcError::new(code::PARSE_ERROR, "the body is empty");
                self.refuse(key, &Refusal { status: 400, error });
            }
            _ if kind == Kind::OldPost => self.old_post(key, frame),
            Some(b'[') => self.post_batch(key, &frame),
            Some(_) => self.post_message(key, &frame),
        }
    }

    fn post_message(&mut self, key: Key, frame: &Bytes) {
        let envelope = self.engine.parse(frame);
        let route = match &envelope {
            Ok(envelope) => self.route(key, envelope),
            // Whose it is nothing but the session can tell; it is answered for what it is.
            Err(_) => Ok(match self.find_session(key) {
                Found::Session(session) => Route::Session(session),
                _ => Route::Alone,
            }),
        };
        let route = match route {
            Ok(route) => route,
            Err(refusal) => return self.refuse(key, &refusal),
        };
        let asks = envelope.as_ref().is_ok_and(|e| e.kind == envelope::Kind::Request);
        let answers = envelope.as_ref().is_ok_and(|e| e.kind == envelope::Kind::Response);
        if answers && matches!(route, Route::Alone | Route::Presumed(_)) {
            return self.refuse(key, &Refusal::new(400, "nothing was asked that this could answer")); // HTTP-017
        }
        if let Err(refusal) = if asks { self.check_room(route) } else { Ok(()) } {
            return self.refuse(key, &refusal);
        }
        let listens = asks && envelope.as_ref().is_ok_and(|e| e.method == vocab::SUBSCRIBE);
        if listens && !self.stand(key) {
            return;
        }
        if let (Ok(envelope), Route::Alone) = (&envelope, route) {
            if let Err(error) = self.check_notification(key, frame, envelope) {
                return self.refuse(key, &Refusal { status: 400, error });
            }
        }
        let Some(stream) = self.open_stream(key, route) else { return };
        let Some(x) = self.exchanges.get(key) else { return };
        let check = Check { mirror: &x.mirror, tools: &self.tools, served: self.engine.config().listed() };
        let why = envelope.as_ref().err().map(|rejected| rejected.why);
        self.engine.handle_on_stream(self.now, stream, frame, envelope, &check);
        self.settle(key, stream, route, asks, why);
    }

    fn check_notification(&self, key: Key, frame: &Bytes, envelope: &Envelope<'_>) -> Result<(), RpcError> {
        let Some(x) = self.exchanges.get(key).filter(|_| envelope.kind == envelope::Kind::Notification)
        else {
            return Ok(());
        };
        let version = envelope.params.meta.version.of(frame).and_then(string);
        x.mirror.check_notification(version.as_deref(), &envelope.method)
    }

    /// BATCH-001, BATCH-004, BATCH-009, BATCH-010
    fn post_batch(&mut self, key: Key, frame: &Bytes) {
        let batches = Version::V2025_03_26;
        let route = match self.find_session(key) {
            Found::Session(session) => {
                Ok(Route::Session(session)).and_then(|r| self.check_version(key, session).map(|()| r))
            }
            Found::Unknown => Err(unknown_session()),
            Found::Missing if self.config.sessions => {
                Err(Refusal::new(400, "a batch belongs into a session"))
            }
            Found::Missing => self.presumed(key).map(Route::Presumed),
        };
        let version = match route {
            Ok(Route::Session(session)) => self.version_of(session),
            Ok(Route::Presumed(version)) => Some(version),
            _ => None,
        };
        let route = match route {
            Err(_) if !self.engine.config().get_versions().contains(batches) => {
                return self.refuse(key, &no_batches());
            }
            Err(refusal) => return self.refuse(key, &refusal),
            Ok(_) if version != Some(batches) => return self.refuse(key, &no_batches()),
            Ok(route) => route,
        };
        let home = match route {
            Route::Session(session) => self.sessions.get(session).map(|s| s.channel),
            _ => None,
        };
        let (asks, repeats) = self.engine.survey(home, frame);
        if repeats {
            // Its other members are not done either: who reads the answer would miss one.
            return self.refuse(key, &repeated_id());
        }
        if let Err(refusal) = if asks { self.check_room(route) } else { Ok(()) } {
            return self.refuse(key, &refusal);
        }
        let Some(stream) = self.open_stream(key, route) else { return };
        self.engine.handle_batch_on_stream(self.now, stream, frame);
        self.settle(key, stream, route, false, None);
    }

    /// The table of `spec-map` 3.4
    fn route(&mut self, key: Key, envelope: &Envelope<'_>) -> Result<Route, Refusal> {
        let config = self.engine.config();
        let (modern, legacy) = (!config.modern().is_empty(), !config.legacy().is_empty());
        let says_so = modern && (!envelope.params.meta.version.is_empty() || envelope.params.meta.reserved);
        // DEC-029: what the message says comes first.
        if !legacy || says_so {
            return Ok(Route::Alone);
        }
        let is_request = envelope.kind == envelope::Kind::Request;
        if is_request && envelope.method == vocab::INITIALIZE {
            // DEC-026: the version field says nothing here.
            return Ok(if self.config.sessions { Route::Handshake } else { Route::Alone });
        }
        let named = self.exchanges.get(key).and_then(|x| x.mirror.version().ok().flatten());
        let named = named.and_then(Version::from_name);
        if modern && named.is_some_and(|v| v.era() == Era::Modern) {
            return Ok(Route::Alone);
        }
        match self.find_session(key) {
            Found::Session(session) => {
                self.check_version(key, session)?;
                Ok(Route::Session(session))
            }
            Found::Unknown if self.config.sessions => Err(unknown_session()),
            Found::Missing if self.config.sessions => Err(no_session()),
            _ => self.presumed(key).map(Route::Presumed),
        }
    }

    /// Whether there is room for what asks for an answer
    fn check_room(&self, route: Route) -> Result<(), Refusal> {
        if let Route::Session(session) = route {
            let calls = self.sessions.get(session).map_or(0, |s| s.calls as usize);
            if calls >= self.config.max_streams_per_session {
                return Err(overloaded("too many calls of this session are under way"));
            }
        }
        if self.is_overloaded() { Err(overloaded("too many requests are in work")) } else { Ok(()) }
    }

    /// HTTP-077: what a request says about the revision of its session
    pub(super) fn check_version(&self, key: Key, session: Key) -> Result<(), Refusal> {
        let Some(x) = self.exchanges.get(key) else { return Ok(()) };
        // The field came with 2025-06-18; before, it says nothing.
        if self.version_of(session).is_none_or(|v| v < Version::V2025_06_18) {
            return Ok(());
        }
        let served = self.engine.config().legacy();
        match x.mirror.version() {
            Ok(None) => Ok(()),
            Ok(Some(name)) if Version::from_name(name).is_some_and(|v| served.contains(v)) => Ok(()),
            _ => Err(unsupported()),
        }
    }

    /// The revision of a legacy request without a session (HTTP-078)
    fn presumed(&self, key: Key) -> Result<Version, Refusal> {
        let served = self.engine.config().legacy();
        let named = self.exchanges.get(key).map_or(Ok(None), |x| x.mirror.version());
        let version = match named {
            Ok(None) => Some(Version::V2025_03_26),
            Ok(Some(name)) => Version::from_name(name),
            Err(()) => None,
        };
        version.filter(|v| served.contains(*v)).ok_or_else(unsupported)
    }

    /// Opens the stream that the answer goes out on
    fn open_stream(&mut self, key: Key, route: Route) -> Option<Key> {
        let now = self.now;
        let principal = self.exchanges.get(key)?.principal.clone();
        let home = match route {
            Route::Session(session) => Some(self.sessions.get(session)?.channel),
            Route::Handshake => {
                if !self.room_for_session(principal.as_deref()) {
                    self.refuse(key, &overloaded("too many sessions"));
                    return None;
                }
                Some(self.engine.open_channel(now).0)
            }
            Route::Alone | Route::Presumed(_) => None,
        };
        let spare = self.exchanges.get_mut(key).map(|x| core::mem::take(&mut x.spare)).unwrap_or_default();
        let stream = self.engine.open_stream(now, home, key, spare);
        if principal.is_some() {
            self.engine.set_principal(ChannelId(home.unwrap_or(stream)), principal.as_deref());
        }
        if let Route::Presumed(version) = route {
            self.engine.presume_session(stream, version);
        }
        let x = self.exchanges.get_mut(key)?;
        x.stream = Some(stream);
        x.modern = matches!(route, Route::Alone);
        if let Route::Session(session) = route {
            x.session = Some(session);
        }
        Some(stream)
    }

    /// Looks at what the engine made of a message, which `asks` for an answer or does not
    fn settle(&mut self, key: Key, stream: Key, route: Route, asks: bool, why: Option<Malformed>) {
        let progress = self.engine.stream_progress(stream);
        if let Route::Handshake = route {
            self.shake(key, stream);
        }
        let silent = self.engine.outbox(ChannelId(stream)).is_none_or(|o| o.is_empty());
        let Some(x) = self.exchanges.get_mut(key) else { return };
        if progress.open {
            if let Some(session) = x.session.and_then(|s| self.sessions.get_mut(s)) {
                session.calls += 1;
                x.counted = true;
            }
        } else if silent && progress.cancelled {
            return self.finish(key);
        } else if silent {
            x.stream = None;
            x.spare = self.engine.drop_stream(self.now, stream);
            match (why, asks) {
                (Some(why), _) => self.refuse(key, &malformed(why)),
                // An answer to the second would be taken for one to the first, were it not for the stream.
                (None, true) => self.refuse(key, &repeated_id()),
                (None, false) => self.answer_empty(key, 202, Fields::new()), // HTTP-018
            }
            return;
        }
        self.mark(key);
    }

    /// The handshake was answered: with a session, or not
    fn shake(&mut self, key: Key, stream: Key) {
        let Some(home) = self.engine.home_of(stream) else { return };
        if self.engine.session_version(home).is_none() {
            self.engine.drop_stream(self.now, home);
            return;
        }
        let principal = self.exchanges.get(key).and_then(|x| x.principal.clone());
        let session = self.begin_session(home, principal);
        if let Some(x) = self.exchanges.get_mut(key) {
            x.session = Some(session);
            x.greets = true;
        }
    }
}

fn unsupported() -> Refusal {
    Refusal::new(400, alloc::format!("`{}` names no revision that is served here", fields::PROTOCOL_VERSION))
}

/// A body that is no message
pub(super) fn malformed(why: Malformed) -> Refusal {
    Refusal { status: 400, error: RpcError::new(why.code(), alloc::format!("{why}")) }
}

pub(super) fn repeated_id() -> Refusal {
    Refusal::new(400, "a request with this id is under way")
}

pub(super) fn no_batches() -> Refusal {
    Refusal::new(400, "batches exist in 2025-03-26 alone")
}
