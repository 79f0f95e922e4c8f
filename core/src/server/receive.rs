//! Classification of received messages, in one place.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use bytes::Bytes;

use super::backlog::Backlog;
use super::channel::{LegacySession, MetaCache};
use super::engine::{Engine, SHUTTING_DOWN};
use super::event::{Call, CancelReason, Event, Notification};
use super::header_check::HeaderCheck;
use super::log;
use crate::calls::batch;
use crate::calls::endpoint::{FrameContent, classify_frame};
use crate::calls::inbound::{CallId, InboundCall};
use crate::calls::outbound::ResponseMatch;
use crate::diagnostic::Diagnostic;
use crate::error::CallError;
use crate::frame::line::Oversize;
use crate::json::string;
use crate::meta;
use crate::methods::{self, MethodRule};
use crate::raw::RawJson;
use crate::rpc::envelope::{self, Envelope, Kind, MalformedMessage, MetaSpans, ParamsSpans, RejectedMessage};
use crate::rpc::{RequestId, RpcError};
use crate::shape;
use crate::slab::Key;
use crate::slab::tree::TreeLinks;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::{Era, Version};

/// A request that passed all checks.
struct AcceptedRequest {
    version: Version,
    method: Cow<'static, str>,
    cacheable: bool,
}

/// The origin of a message.
#[derive(Clone, Copy)]
pub(super) struct MessageSource<'a> {
    /// Channel that receives the answer.
    pub(super) channel: Key,
    /// Channel that owns the request id.
    pub(super) root: Key,
    /// Batch that the message belongs to.
    pub(super) batch: Option<Key>,
    /// The request was queued before.
    pub(super) waited: bool,
    /// Header fields to check the message against.
    pub(super) header_check: Option<&'a dyn HeaderCheck>,
}

/// Result of checking the modern metadata of a request.
enum ModernCheck {
    /// The request has no modern metadata.
    NotModern,
    Version(Version),
}

impl Engine {
    /// Takes one frame: a message, a batch or a blank line.
    pub(super) fn receive(&mut self, channel: Key, frame: Bytes, waited: bool) {
        match classify_frame(frame) {
            (FrameContent::Blank, _) => {}
            (FrameContent::Array, frame) => self.receive_batch(channel, &frame),
            (FrameContent::Message, frame) => {
                let root = self.endpoint.root_channel(channel);
                self.receive_one(
                    MessageSource { channel, root, batch: None, waited, header_check: None },
                    &frame,
                );
            }
        }
    }

    fn receive_one(&mut self, source: MessageSource<'_>, frame: &Bytes) {
        match self.parse(frame) {
            Err(rejected) => self.reject(source.channel, source.batch, rejected),
            Ok(envelope) => self.receive_parsed(source, frame, envelope),
        }
    }

    /// Parses one message.
    pub(crate) fn parse<'a>(&self, frame: &'a Bytes) -> Result<Envelope<'a>, RejectedMessage> {
        let known = self.meta_cache.as_deref().map(|k| (&*k.text, &k.parts));
        envelope::parse(frame, &self.endpoint.limits, known)
    }

    pub(super) fn receive_parsed(
        &mut self,
        source: MessageSource<'_>,
        frame: &Bytes,
        envelope: Envelope<'_>,
    ) {
        if let Some(c) = self.endpoint.channels.get_mut(source.channel) {
            c.consecutive_faults = 0;
        }
        match envelope.kind {
            Kind::Request => self.receive_request(source, frame, envelope),
            Kind::Notification => self.receive_notification(source.root, frame, &envelope),
            Kind::Response => self.receive_response(source.root, frame, &envelope),
        }
    }

    /// Takes the members of a batch. Their answers are sent together.
    pub(super) fn receive_batch(&mut self, channel: Key, frame: &Bytes) {
        let root = self.endpoint.root_channel(channel);
        let session = self.session(channel);
        let allows_batches = session.is_some_and(|s| s.version == Version::V2025_03_26);
        let members = match batch::split_batch(frame, &self.endpoint.limits) {
            Ok(members) if allows_batches => members,
            // BATCH-004, BATCH-005
            Ok(_) => return self.reject(channel, None, RejectedMessage::unreadable(MalformedMessage::Batch)),
            Err(reason) => return self.reject(channel, None, RejectedMessage::unreadable(reason)),
        };
        let batch = self.endpoint.open_batch(channel);
        for member in members {
            // An earlier member may have been one fault too many.
            if self.endpoint.channels.get(channel).is_some_and(|c| c.input_end.is_none()) {
                let batch = Some(batch);
                self.receive_one(
                    MessageSource { channel, root, batch, waited: false, header_check: None },
                    &member,
                );
            }
        }
        self.endpoint.close_batch(batch);
    }

    /// Records that the request of a stream was refused before it was delivered.
    fn mark_request_refused(&mut self, key: Key) {
        if let Some(c) = self.endpoint.channels.get_mut(key) {
            c.role.stream.mark_refused();
        }
    }

    /// Answers or reports a faulty message.
    pub(super) fn reject(&mut self, channel: Key, batch: Option<Key>, rejected: RejectedMessage) {
        let root = self.endpoint.root_channel(channel);
        let in_flight = rejected.id.as_ref().is_some_and(|id| self.in_flight(root, id));
        let (diagnostic, ended) = self.endpoint.reject(channel, batch, rejected, in_flight);
        if let Some((key, outcome)) = ended {
            self.finish_outbound(key, outcome);
        }
        if batch.is_none() {
            self.mark_request_refused(channel);
        }
        self.diagnose(channel, diagnostic);
        if let Some(fault) = self.endpoint.count_fault(channel) {
            self.end_input(self.endpoint.now, channel, &fault, core::time::Duration::ZERO);
        }
    }

    /// Handles a message that exceeded the frame limit.
    pub(crate) fn handle_oversize(&mut self, now: Instant, channel: ChannelId, oversize: Oversize) {
        self.endpoint.tick(now);
        self.endpoint.record_activity();
        let rejected = self.endpoint.oversize_rejection(oversize);
        self.reject(channel.0, None, rejected);
    }

    /// Returns whether a request with this id is open, queued or subscribed.
    #[inline]
    pub(crate) fn in_flight(&mut self, channel: Key, id: &RequestId) -> bool {
        let waiting = self.endpoint.channels.get(channel).map(|c| c.role.waiting).unwrap_or_default();
        self.backlog.as_mut().is_some_and(|backlog| backlog.contains(waiting, id))
            || self.changes.find(&mut self.endpoint, channel, id).is_some()
            || self.endpoint.is_live(channel, id)
    }

    fn receive_request(&mut self, source: MessageSource<'_>, frame: &Bytes, envelope: Envelope<'_>) {
        let Envelope { id: Some(id), method, params, has_known_meta, .. } = envelope else {
            return;
        };
        if self.in_flight(source.root, &id) {
            // An answer to the second request would end the first one at the peer (DESIGN-09).
            return self.diagnose(source.channel, Diagnostic::DuplicateId(id));
        }
        let checked = self.check_request(source, frame, &method, &params, has_known_meta);
        let accepted = match checked {
            Ok(Some(accepted)) => accepted,
            // The engine answers this method.
            Ok(None) => return self.answer_in_engine(source, frame, &id, &method, &params),
            Err(error) => {
                self.mark_request_refused(source.channel);
                return self.endpoint.send_error(source.channel, source.batch, Some(&id), &error);
            }
        };
        #[cfg(feature = "http")]
        if self.take_early_cancel(source.channel, source.root, &id) {
            return self.diagnose(source.root, Diagnostic::EarlyCancellation(id)); // CANC-010
        }
        let token = match self.endpoint.parse_progress_token(params.meta.token.slice(frame)) {
            Ok(token) => token,
            Err(error) => return self.endpoint.send_error(source.channel, source.batch, Some(&id), &error),
        };
        let is_full = self.is_full();
        let Some(c) = self.endpoint.channels.get_mut(source.root) else { return };
        let backlog = self.backlog.as_deref_mut();
        let is_empty = backlog.as_ref().is_none_or(|backlog| backlog.is_empty(c.role.waiting));
        // The members of a batch share one answer, so they cannot be queued one by one.
        if is_full || (!is_empty && !source.waited && source.batch.is_none()) {
            let backlog = self.backlog.get_or_insert_with(|| Box::new(Backlog::new()));
            let (waiting, limits) = (&mut c.role.waiting, &self.endpoint.limits);
            if backlog.is_full(*waiting, limits) || source.batch.is_some() {
                let error = RpcError::internal("too many requests in work");
                return self.endpoint.send_error(source.channel, source.batch, Some(&id), &error);
            }
            // Copied, so that a small request does not keep a large buffer alive.
            backlog.push(waiting, source.root, id, Bytes::copy_from_slice(frame), limits);
            return;
        }
        let AcceptedRequest { version, method, cacheable } = accepted;
        let begun = self.endpoint.begin_call(InboundCall {
            id,
            channel: source.channel,
            version,
            cacheable,
            progress_token: token,
            throttle: None,
            expires_at: self.endpoint.now + self.endpoint.limits.max_call_age,
            batch: source.batch,
            log_threshold: params
                .meta
                .log_level
                .slice(frame)
                .and_then(log::parse_threshold)
                .unwrap_or(log::NONE),
            is_parked: false,
            links: TreeLinks::default(),
        });
        let Some(key) = begun else { return };
        let (id, channel, frame) = (CallId(key), ChannelId(source.channel), frame.clone());
        let mut call = Call { id, channel, version, method, frame, params, retry: None };
        if version.era() == Era::Modern {
            match self.read_retry(&call) {
                Ok(round) => call.retry = round,
                Err(error) => {
                    self.endpoint.fail(key, &error);
                    return;
                }
            }
        }
        self.events.push_back(Event::Call(call));
    }

    /// Finds the era of a request and checks it. Returns `None` if the engine answers it.
    ///
    /// The order of the checks is that of HTTP-029 and DEC-007.
    ///
    /// # Errors
    ///
    /// The error response to send.
    fn check_request(
        &mut self,
        source: MessageSource<'_>,
        frame: &Bytes,
        method: &str,
        params: &ParamsSpans,
        has_known_meta: bool,
    ) -> Result<Option<AcceptedRequest>, RpcError> {
        if self.shutting_down {
            return Err(RpcError::internal(SHUTTING_DOWN));
        }
        let rule = methods::request_rule(method);
        let modern_check = self.check_modern_meta(source, frame, params, has_known_meta)?;
        let version = match modern_check {
            ModernCheck::Version(_) if source.batch.is_some() => {
                return Err(RpcError::invalid_request("its revision has no batches")); // BATCH-004
            }
            ModernCheck::Version(version) => version,
            ModernCheck::NotModern => self.legacy_version(source, rule, frame, params)?,
        };
        if let Some(check) = source.header_check {
            // Legacy revisions lack the code for a mismatch (ERR-005).
            let in_revision = |error: RpcError| shape::error_in_revision(&error, version).into_owned();
            check.check_request(version, method, frame, params).map_err(in_revision)?;
        }
        let rule = rule.filter(|r| r.exists_in(version) && r.is_sent_by_client());
        match rule {
            Some(rule) => {
                if rule
                    .required_capability_in(version)
                    .is_some_and(|capability| !self.config.capabilities.has(capability))
                {
                    return Err(RpcError::method_not_found(method)); // ERR-002, LIFE-023
                }
                if let Some(check) = source.header_check {
                    let in_revision =
                        |error: RpcError| shape::error_in_revision(&error, version).into_owned();
                    check.check_params(version, method, frame, params).map_err(in_revision)?;
                }
                if rule.handled_by_engine {
                    return Ok(None);
                }
                let cacheable = rule.cacheable;
                Ok(Some(AcceptedRequest { version, method: Cow::Borrowed(rule.name), cacheable }))
            }
            None => {
                let client = || match version.era() {
                    Era::Modern => {
                        params.meta.capabilities.slice(frame).map(|c| RawJson::trusted(frame.slice_ref(c)))
                    }
                    Era::Legacy => self.session(source.root).map(LegacySession::capabilities),
                };
                self.config.check_custom_method(method, version, client)?;
                Ok(Some(AcceptedRequest { version, method: Cow::Owned(method.into()), cacheable: false }))
            }
        }
    }

    /// Checks the metadata of a modern request (META-009, META-010, META-014, VER-009).
    ///
    /// # Errors
    ///
    /// The error response to send.
    fn check_modern_meta(
        &mut self,
        source: MessageSource<'_>,
        frame: &Bytes,
        params: &ParamsSpans,
        known: bool,
    ) -> Result<ModernCheck, RpcError> {
        let served = self.config.modern_versions();
        if served.is_empty() {
            return Ok(ModernCheck::NotModern);
        }
        let Some(c) = self.endpoint.channels.get_mut(source.channel) else {
            return Ok(ModernCheck::NotModern);
        };
        if known {
            if let Some(known) = &self.meta_cache {
                c.allows_idless_errors = true;
                if let Some(check) = source.header_check {
                    check.check_version(Some(known.version.as_str()))?;
                }
                return Ok(ModernCheck::Version(known.version));
            }
        }
        let parts = &params.meta;
        let Some(version) = parts.version.slice(frame) else {
            if let Some(check) = source.header_check {
                check.check_version(None)?;
            }
            // A modern key without the version is a modern request with missing metadata, not a legacy one.
            let modern =
                parts.has_reserved || source.header_check.is_some_and(|check| check.indicates_modern());
            return if modern { Err(missing_meta_error(parts)) } else { Ok(ModernCheck::NotModern) };
        };
        let Some(name) = string(version) else {
            return Err(RpcError::invalid_params(format!(
                "`_meta` member `{}` is not a string",
                meta::PROTOCOL_VERSION
            )));
        };
        if let Some(check) = source.header_check {
            check.check_version(Some(&name))?;
        }
        let Some(version) = Version::from_name(&name).filter(|v| served.contains(*v)) else {
            // VER-009; checked first, because another revision may have other rules.
            return Err(self.unsupported_version_error(&name));
        };
        match parts.capabilities.slice(frame) {
            Some([b'{', ..]) => {}
            None => return Err(missing_meta_error(parts)),
            Some(_) => return Err(wrong_type_error(meta::CLIENT_CAPABILITIES, "an object")),
        }
        if parts.info.slice(frame).is_some_and(|i| i.first() != Some(&b'{')) {
            return Err(wrong_type_error(meta::CLIENT_INFO, "an object"));
        }
        if let Some(level) = parts.log_level.slice(frame) {
            if log::parse_threshold(level).is_none() {
                return Err(RpcError::invalid_params("unknown log level in `_meta`")); // LOG-010
            }
        }
        c.allows_idless_errors = true;
        // A text with a progress token differs in each request.
        let repeats = |t: &&[u8]| t.len() <= self.endpoint.limits.max_meta_cache && parts.token.is_empty();
        if let Some(text) = parts.whole.slice(frame).filter(repeats) {
            // Relative to the beginning of the text; `shifted` wraps.
            let parts = parts.shifted(0u32.wrapping_sub(parts.whole.start));
            self.meta_cache = Some(Box::new(MetaCache { text: text.into(), parts, version }));
        }
        Ok(ModernCheck::Version(version))
    }

    /// Returns the revision of a request without modern metadata.
    ///
    /// # Errors
    ///
    /// The error response to send.
    fn legacy_version(
        &self,
        source: MessageSource<'_>,
        rule: Option<&MethodRule>,
        frame: &Bytes,
        params: &ParamsSpans,
    ) -> Result<Version, RpcError> {
        let served = self.config.legacy_versions();
        let name = rule.map_or("", |r| r.name);
        if served.is_empty() {
            if let Some(check) = source.header_check {
                check.require_modern()?;
            }
            if name == methods::INITIALIZE {
                // The revisions are the one fact that an older client can show its user (VER-032, VER-033, DEC-006).
                let requested =
                    RawJson::trusted(frame.slice_ref(params.whole.slice(frame).unwrap_or_default()));
                let requested = requested.member("protocolVersion").and_then(|v| v.string());
                return Err(self.unsupported_version_error(requested.as_deref().unwrap_or_default()));
            }
            return Err(missing_meta_error(&params.meta));
        }
        match (name, self.session(source.root)) {
            (methods::DISCOVER, _) if !self.config.modern_versions().is_empty() => {
                Err(missing_meta_error(&params.meta))
            }
            (methods::INITIALIZE, _) if source.batch.is_some() => {
                Err(RpcError::invalid_request("`initialize` must not be part of a batch")) // BATCH-003
            }
            (methods::INITIALIZE, Some(_)) => Err(RpcError::invalid_request("already initialized")), // LIFE-008
            (_, Some(session)) => Ok(session.version),
            // `ping` is allowed before the handshake (PING-001).
            (methods::INITIALIZE | methods::PING, None) => {
                Ok(served.newest().unwrap_or(Version::V2024_11_05))
            }
            (_, None) => Err(RpcError::invalid_request("not initialized: `initialize` has to come first")), // LIFE-007
        }
    }

    fn receive_notification(&mut self, channel: Key, frame: &Bytes, envelope: &Envelope<'_>) {
        let params = envelope.params.whole.slice(frame);
        match &*envelope.method {
            methods::CANCELLED => self.receive_cancellation(channel, params.unwrap_or(b"{}")),
            methods::INITIALIZED => self.receive_initialized(channel),
            // Progress extends the timeout of an outbound request.
            methods::PROGRESS => {
                if let Err(diagnostic) = self.endpoint.receive_progress(channel, params.unwrap_or(b"{}")) {
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

    /// Handles a cancellation by the client (CANC-010, CANC-011, CANC-014).
    fn receive_cancellation(&mut self, channel: Key, params: &[u8]) {
        let Some((id, reason)) = self.endpoint.parse_cancellation(params) else {
            return self.diagnose(channel, Diagnostic::InvalidNotification(methods::CANCELLED.into()));
        };
        let call = self.endpoint.find_call(channel, &id);
        let Some(c) = self.endpoint.channels.get_mut(channel) else { return };
        if let Some(key) = call {
            // A parked call has no running handler to notify, as in the modern era.
            let parked = self.unpark(key, "the call was cancelled");
            self.endpoint.drop_call(key);
            if !parked {
                self.events
                    .push_back(Event::Cancelled { call: CallId(key), reason: CancelReason::Client(reason) });
            }
            self.close_if_finished(channel);
        } else if self.backlog.as_mut().is_some_and(|backlog| backlog.remove(c.role.waiting, &id)) {
            self.close_if_finished(channel);
        } else if let Some(listener) = self.changes.find(&mut self.endpoint, channel, &id) {
            let unsubscribed = self.changes.end(&mut self.endpoint, channel, listener);
            self.events.extend(unsubscribed);
        } else {
            #[cfg(feature = "http")]
            self.record_early_cancel(channel, &id);
            self.diagnose(channel, Diagnostic::UnknownCancellation(id));
        }
    }

    fn receive_initialized(&mut self, channel: Key) {
        let Some(session) = self.endpoint.channels.get_mut(channel).and_then(|c| c.role.session.as_mut())
        else {
            return self.diagnose(channel, Diagnostic::InvalidNotification(methods::INITIALIZED.into()));
        };
        if !core::mem::replace(&mut session.initialized, true) {
            let version = session.version;
            self.events.push_back(Event::SessionOpened { channel: ChannelId(channel), version });
            self.changes.listen_for_session(&mut self.endpoint, &self.config.capabilities, channel);
            self.endpoint.begin_keep_alive(channel);
            if let Some(parked) = self.parked.as_deref_mut() {
                self.events.extend(parked.send_all_queued(&mut self.endpoint, channel));
            }
        }
    }

    fn receive_response(&mut self, channel: Key, frame: &Bytes, envelope: &Envelope<'_>) {
        let outcome = envelope.outcome(frame);
        let Some(id) = &envelope.id else {
            if let Err(error) = outcome {
                self.diagnose(channel, Diagnostic::PeerError(error));
            }
            return;
        };
        match self.endpoint.match_response(channel, id) {
            ResponseMatch::Live(key) => self.finish_outbound(key, outcome.map_err(CallError::Rpc)),
            ResponseMatch::Late => self.diagnose(channel, Diagnostic::LateResponse(id.clone())),
            ResponseMatch::Unknown => self.diagnose(channel, Diagnostic::UnknownResponse(id.clone())),
        }
    }
}

/// Returns error -32602 with the names of missing metadata (META-014).
fn missing_meta_error(parts: &MetaSpans) -> RpcError {
    let required = [(parts.version, meta::PROTOCOL_VERSION), (parts.capabilities, meta::CLIENT_CAPABILITIES)];
    let names: Vec<&str> =
        required.iter().filter(|(span, _)| span.is_empty()).map(|(_, name)| *name).collect();
    RpcError::invalid_params(format!("`params._meta` lacks {}", names.join(" and ")))
}

fn wrong_type_error(key: &str, what: &str) -> RpcError {
    RpcError::invalid_params(format!("`_meta` member `{key}` is not {what}"))
}
