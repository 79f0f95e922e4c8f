//! What a message is and what becomes of it: one decision, in one place (design: classification at the boundary).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use bytes::Bytes;

use super::channel::{Extra, KnownMeta};
use super::engine::{Engine, SHUTTING_DOWN};
use super::event::{Call, CancelReason, Event, Notification};
use super::log;
use super::said::Said;
use crate::calls::batch;
use crate::calls::inbound::{CallId, InCall};
use crate::calls::link::{Channel, Content, content};
use crate::calls::outbound::Match;
use crate::diagnostic::Diagnostic;
use crate::error::CallError;
use crate::frame::line::Oversize;
use crate::json::string;
use crate::meta;
use crate::raw::RawJson;
use crate::rpc::envelope::{self, Envelope, Kind, Malformed, Meta, Params, Rejected};
use crate::rpc::{RequestId, RpcError};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::{Era, Version};
use crate::vocab::{self, Rule};

/// A request that was found to be in order
struct Accepted {
    version: Version,
    method: Cow<'static, str>,
    cacheable: bool,
}

/// Where a message stands
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    /// Where its answer goes
    pub(super) channel: Key,
    /// The channel that its id lives in
    pub(super) home: Key,
    /// The batch that it is a member of
    pub(super) batch: Option<Key>,
    /// It has waited for a place before
    pub(super) waited: bool,
    /// What was said about it
    pub(super) said: Option<&'a dyn Said>,
}

/// What a modern request says about itself, once found to be in order
enum Modern {
    /// Not a modern request
    No,
    Version(Version),
}

impl Engine {
    /// One frame: a message, a batch, or something else
    pub(super) fn receive(&mut self, channel: Key, frame: Bytes, waited: bool) {
        match content(frame) {
            (Content::Blank, _) => {}
            (Content::Array, frame) => self.receive_batch(channel, &frame),
            (Content::One, frame) => {
                let home = self.link.home(channel);
                self.receive_one(Source { channel, home, batch: None, waited, said: None }, &frame);
            }
        }
    }

    fn receive_one(&mut self, source: Source<'_>, frame: &Bytes) {
        match self.parse(frame) {
            Err(rejected) => self.reject(source.channel, source.batch, rejected),
            Ok(envelope) => self.receive_parsed(source, frame, envelope),
        }
    }

    /// Reads one message
    pub(crate) fn parse<'a>(&self, frame: &'a Bytes) -> Result<Envelope<'a>, Rejected> {
        let known = self.known_meta.as_deref().map(|k| (&*k.text, &k.parts));
        envelope::parse(frame, &self.link.limits, known)
    }

    pub(super) fn receive_parsed(&mut self, source: Source<'_>, frame: &Bytes, envelope: Envelope<'_>) {
        if let Some(c) = self.link.channels.get_mut(source.channel) {
            c.faulty = 0;
        }
        match envelope.kind {
            Kind::Request => self.request_in(source, frame, envelope),
            Kind::Notification => self.notification_in(source.home, frame, &envelope),
            Kind::Response => self.response_in(source.home, frame, &envelope),
        }
    }

    /// The members of a batch one by one; their answers go out together
    pub(super) fn receive_batch(&mut self, channel: Key, frame: &Bytes) {
        let home = self.link.home(channel);
        let session = self.session(channel);
        let batches = session.is_some_and(|s| s.version == Version::V2025_03_26);
        let members = match batch::members(frame, &self.link.limits) {
            Ok(members) if batches => members,
            Ok(_) => return self.reject(channel, None, Rejected::unknown(Malformed::Batch)), // BATCH-004, BATCH-005
            Err(why) => return self.reject(channel, None, Rejected::unknown(why)),
        };
        let batch = self.link.open_batch(channel);
        for member in members {
            // One of them may be the fault that was one too many.
            if self.link.channels.get(channel).is_some_and(|c| c.ended.is_none()) {
                let batch = Some(batch);
                self.receive_one(Source { channel, home, batch, waited: false, said: None }, &member);
            }
        }
        self.link.close_batch(batch);
    }

    /// Answers or reports a message that is not in order
    pub(super) fn reject(&mut self, channel: Key, batch: Option<Key>, rejected: Rejected) {
        let home = self.link.home(channel);
        let in_flight = rejected.id.as_ref().is_some_and(|id| self.in_flight(home, id));
        let (diagnostic, ended) = self.link.reject(channel, batch, rejected, in_flight);
        if let Some((key, outcome)) = ended {
            self.finish_out(key, outcome);
        }
        if batch.is_none() {
            self.refused(channel);
        }
        self.diagnose(channel, diagnostic);
        if let Some(fault) = self.link.count_fault(channel) {
            self.end_input(self.link.now, channel, &fault, core::time::Duration::ZERO);
        }
    }

    /// Takes note of a message that was too long to keep
    pub(crate) fn handle_oversize(&mut self, now: Instant, channel: ChannelId, oversize: Oversize) {
        self.link.tick(now);
        self.link.touch();
        let rejected = self.link.too_long(oversize);
        self.reject(channel.0, None, rejected);
    }

    /// Whether a request with this id is in work or waits for a place
    #[inline]
    pub(crate) fn in_flight(&self, channel: Key, id: &RequestId) -> bool {
        let waits = |c: &Channel<Extra>| {
            c.extra.waiting.has(id)
                || (!c.extra.listeners.is_empty() && self.find_listener(channel, id).is_some())
        };
        self.link.is_live(channel, id) || self.link.channels.get(channel).is_some_and(waits)
    }

    fn request_in(&mut self, source: Source<'_>, frame: &Bytes, envelope: Envelope<'_>) {
        let Envelope { id: Some(id), method, params, meta_known, .. } = envelope else { return };
        if self.in_flight(source.home, &id) {
            // Whatever was answered to the second would end the first at the peer (design, 9).
            return self.diagnose(source.channel, Diagnostic::DuplicateId(id));
        }
        let verdict = self.judge(source, frame, &method, &params, meta_known);
        let accepted = match verdict {
            Ok(Some(accepted)) => accepted,
            // Answered by the engine itself.
            Ok(None) => return self.answer_myself(source, frame, &id, &method, &params),
            Err(error) => {
                self.refused(source.channel);
                return self.link.send_error(source.channel, source.batch, Some(&id), &error);
            }
        };
        #[cfg(feature = "http")]
        if self.is_over_already(source.channel, source.home, &id) {
            return self.diagnose(source.home, Diagnostic::CancelledEarly(id)); // CANC-010
        }
        let token = match self.link.token(params.meta.token.of(frame)) {
            Ok(token) => token,
            Err(error) => return self.link.send_error(source.channel, source.batch, Some(&id), &error),
        };
        let is_full = self.is_full();
        let Some(c) = self.link.channels.get_mut(source.home) else { return };
        let waiting = &mut c.extra.waiting;
        // The members of a batch share one answer, so none of them can be put off.
        let must_wait = is_full || (!waiting.is_empty() && !source.waited && source.batch.is_none());
        if must_wait {
            // The last one may go beyond the budget: it was read already, and then reading pauses.
            let room = waiting.len() < self.link.limits.max_waiting && !waiting.is_spent();
            if !room || source.batch.is_some() {
                let error = RpcError::internal("too many requests in work");
                return self.link.send_error(source.channel, source.batch, Some(&id), &error);
            }
            if waiting.is_empty() {
                self.backlog.push_back(source.home);
            }
            // A copy of its own, so that a small request does not keep a large buffer alive.
            waiting.push(id, Bytes::copy_from_slice(frame), &self.link.limits);
            return;
        }
        let Accepted { version, method, cacheable } = accepted;
        let begun = self.link.begin(InCall {
            id,
            channel: source.channel,
            version,
            cacheable,
            token,
            progress: None,
            expires: self.link.now + self.link.limits.max_call_age,
            batch: source.batch,
            log: params.meta.log_level.of(frame).and_then(log::threshold).unwrap_or(log::NONE),
            parked: None,
        });
        let Some(key) = begun else { return };
        let (id, channel, frame) = (CallId(key), ChannelId(source.channel), frame.clone());
        let mut call = Call { id, channel, version, method, frame, params, round: None };
        if version.era() == Era::Modern {
            match self.round(&call) {
                Ok(round) => call.round = round,
                Err(error) => {
                    self.link.fail(key, &error);
                    return;
                }
            }
        }
        self.events.push_back(Event::Call(call));
    }

    /// The era of a request, whether it is in order, and whether it is for the application. `Ok(None)`: the engine
    /// answers it. This is the table of `spec-map` 3.4 and 3.5.
    fn judge(
        &mut self,
        source: Source<'_>,
        frame: &Bytes,
        method: &str,
        params: &Params,
        meta_known: bool,
    ) -> Result<Option<Accepted>, RpcError> {
        if self.shutting_down {
            return Err(RpcError::internal(SHUTTING_DOWN));
        }
        let rule = vocab::request(method);
        let modern = self.modern(source, frame, params, meta_known)?;
        let version = match modern {
            Modern::Version(_) if source.batch.is_some() => {
                return Err(RpcError::invalid_request("its revision has no batches")); // BATCH-004
            }
            Modern::Version(version) => version,
            Modern::No => self.legacy(source, rule, frame, params)?,
        };
        if let Some(said) = source.said {
            said.request(version, method, frame, params)?;
        }
        let rule = rule.filter(|r| r.exists_in(version) && r.client_sends());
        match rule {
            Some(rule) => {
                if rule.gate_in(version).is_some_and(|gate| !self.config.capabilities.has(gate)) {
                    return Err(RpcError::method_not_found(method)); // ERR-002, LIFE-023
                }
                if let Some(said) = source.said {
                    said.parameters(version, method, frame, params)?;
                }
                if rule.by_engine {
                    return Ok(None);
                }
                let cacheable = rule.cacheable;
                Ok(Some(Accepted { version, method: Cow::Borrowed(rule.name), cacheable }))
            }
            None if self.config.accepts_custom(method) => {
                Ok(Some(Accepted { version, method: Cow::Owned(method.into()), cacheable: false }))
            }
            None => Err(RpcError::method_not_found(method)),
        }
    }

    /// Reads the metadata of a modern request (META-009, META-010, META-014, VER-009)
    fn modern(
        &mut self,
        source: Source<'_>,
        frame: &Bytes,
        params: &Params,
        known: bool,
    ) -> Result<Modern, RpcError> {
        let served = self.config.modern();
        if served.is_empty() {
            return Ok(Modern::No);
        }
        let Some(c) = self.link.channels.get_mut(source.channel) else { return Ok(Modern::No) };
        if known {
            if let Some(known) = &self.known_meta {
                c.idless = true;
                if let Some(said) = source.said {
                    said.modern(Some(known.version.as_str()))?;
                }
                return Ok(Modern::Version(known.version));
            }
        }
        let parts = &params.meta;
        let Some(version) = parts.version.of(frame) else {
            if let Some(said) = source.said {
                said.modern(None)?;
            }
            // A modern key without the version is a modern request with missing metadata, not a legacy one.
            let modern = parts.reserved || source.said.is_some_and(|said| said.calls_it_modern());
            return if modern { Err(missing(parts)) } else { Ok(Modern::No) };
        };
        let Some(name) = string(version) else {
            return Err(RpcError::invalid_params(format!(
                "`_meta` member `{}` is not a string",
                meta::PROTOCOL_VERSION
            )));
        };
        if let Some(said) = source.said {
            said.modern(Some(&name))?;
        }
        let Some(version) = Version::from_name(&name).filter(|v| served.contains(*v)) else {
            return Err(self.unsupported(&name)); // VER-009, before anything that another revision may want otherwise
        };
        match parts.capabilities.of(frame) {
            Some([b'{', ..]) => {}
            None => return Err(missing(parts)),
            Some(_) => return Err(wrong(meta::CLIENT_CAPABILITIES, "an object")),
        }
        if parts.info.of(frame).is_some_and(|i| i.first() != Some(&b'{')) {
            return Err(wrong(meta::CLIENT_INFO, "an object"));
        }
        if let Some(level) = parts.log_level.of(frame) {
            if log::threshold(level).is_none() {
                return Err(RpcError::invalid_params("unknown log level in `_meta`")); // LOG-010
            }
        }
        c.idless = true;
        // With a token in it the text is another one each time.
        let repeats = |t: &&[u8]| t.len() <= self.link.limits.max_meta_cache && parts.token.is_empty();
        if let Some(text) = parts.whole.of(frame).filter(repeats) {
            // Relative to the beginning of the text; `shifted` wraps.
            let parts = parts.shifted(0u32.wrapping_sub(parts.whole.start));
            self.known_meta = Some(Box::new(KnownMeta { text: text.into(), parts, version }));
        }
        Ok(Modern::Version(version))
    }

    /// The revision of a request without modern metadata
    fn legacy(
        &self,
        source: Source<'_>,
        rule: Option<&Rule>,
        frame: &Bytes,
        params: &Params,
    ) -> Result<Version, RpcError> {
        let served = self.config.legacy();
        let name = rule.map_or("", |r| r.name);
        if served.is_empty() {
            if let Some(said) = source.said {
                said.must_be_modern()?;
            }
            if name == vocab::INITIALIZE {
                // The one thing that an older client can show its user (VER-032, VER-033, DEC-006).
                let requested = RawJson::trusted(frame.slice_ref(params.whole.of(frame).unwrap_or_default()));
                let requested = requested.member("protocolVersion").and_then(|v| v.string());
                return Err(self.unsupported(requested.as_deref().unwrap_or_default()));
            }
            return Err(missing(&params.meta));
        }
        match (name, self.session(source.home)) {
            (vocab::DISCOVER, _) if !self.config.modern().is_empty() => Err(missing(&params.meta)),
            (vocab::INITIALIZE, _) if source.batch.is_some() => {
                Err(RpcError::invalid_request("`initialize` must not be part of a batch")) // BATCH-003
            }
            (vocab::INITIALIZE, Some(_)) => Err(RpcError::invalid_request("already initialized")), // LIFE-008
            (_, Some(session)) => Ok(session.version),
            // PING-001: also before the handshake.
            (vocab::INITIALIZE | vocab::PING, None) => Ok(served.newest().unwrap_or(Version::V2024_11_05)),
            (_, None) => Err(RpcError::invalid_request("not initialized: `initialize` has to come first")), // LIFE-007
        }
    }

    fn notification_in(&mut self, channel: Key, frame: &Bytes, envelope: &Envelope<'_>) {
        let params = envelope.params.whole.of(frame);
        match &*envelope.method {
            vocab::CANCELLED => self.cancelled_in(channel, params.unwrap_or(b"{}")),
            vocab::INITIALIZED => self.initialized(channel),
            // It keeps a request of ours alive.
            vocab::PROGRESS => {
                if let Err(diagnostic) = self.link.progress_in(channel, params.unwrap_or(b"{}")) {
                    self.diagnose(channel, diagnostic);
                }
            }
            method => self.events.push_back(Event::Notification(Notification {
                channel: ChannelId(channel),
                method: method.into(),
                params: params.map(|p| RawJson::trusted(frame.slice_ref(p))),
            })),
        }
    }

    /// A client no longer wants an answer (CANC-010, CANC-011, CANC-014)
    fn cancelled_in(&mut self, channel: Key, params: &[u8]) {
        let Some((id, reason)) = self.link.cancellation(params) else {
            return self.diagnose(channel, Diagnostic::InvalidNotification(vocab::CANCELLED.into()));
        };
        let Some(c) = self.link.channels.get_mut(channel) else { return };
        if let Some(key) = self.link.inbound.find(&c.live, &id) {
            // Between two deliveries nobody works on it: then nobody has to be told, as in the modern era.
            let parked = self.unpark(key, "the call was cancelled");
            self.link.drop_call(key);
            if !parked {
                self.events
                    .push_back(Event::Cancelled { call: CallId(key), reason: CancelReason::Client(reason) });
            }
            self.check_closed(channel);
        } else if c.extra.waiting.remove(&id) {
            if c.extra.waiting.is_empty() {
                self.backlog.retain(|k| *k != channel);
            }
            self.check_closed(channel);
        } else if let Some(listener) = self.find_listener(channel, &id) {
            self.end_listener(channel, listener);
        } else {
            #[cfg(feature = "http")]
            self.cancelled_early(channel, &id);
            self.diagnose(channel, Diagnostic::UnknownCancel(id));
        }
    }

    fn initialized(&mut self, channel: Key) {
        let Some(session) = self.link.channels.get_mut(channel).and_then(|c| c.extra.session.as_mut()) else {
            return self.diagnose(channel, Diagnostic::InvalidNotification(vocab::INITIALIZED.into()));
        };
        if !core::mem::replace(&mut session.initialized, true) {
            let version = session.version;
            self.events.push_back(Event::SessionOpened { channel: ChannelId(channel), version });
            self.promise(channel);
        }
    }

    fn response_in(&mut self, channel: Key, frame: &Bytes, envelope: &Envelope<'_>) {
        let outcome = envelope.outcome(frame);
        let Some(id) = &envelope.id else {
            if let Err(error) = outcome {
                self.diagnose(channel, Diagnostic::PeerError(error));
            }
            return;
        };
        match self.link.match_answer(channel, id) {
            Match::Live(key) => self.finish_out(key, outcome.map_err(CallError::Rpc)),
            Match::Late => self.diagnose(channel, Diagnostic::LateResponse(id.clone())),
            Match::Unknown => self.diagnose(channel, Diagnostic::UnknownResponse(id.clone())),
        }
    }
}

/// -32602 that names what a modern request lacks (META-014)
fn missing(parts: &Meta) -> RpcError {
    let lacking = [(parts.version, meta::PROTOCOL_VERSION), (parts.capabilities, meta::CLIENT_CAPABILITIES)];
    let names: Vec<&str> =
        lacking.iter().filter(|(span, _)| span.is_empty()).map(|(_, name)| *name).collect();
    RpcError::invalid_params(format!("`params._meta` lacks {}", names.join(" and ")))
}

fn wrong(key: &str, what: &str) -> RpcError {
    RpcError::invalid_params(format!("`_meta` member `{key}` is not {what}"))
}
