//! Classification of received messages.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString as _};

use bytes::Bytes;
use core::time::Duration;

use super::calls::Calls;
use super::common::CommonState;
use super::engine::Engine;
use super::event::{Event, LogMessage, Notification, ServerRequest};
use super::input::InputSource;
use super::input_tasks::{RequestSource, is_about_task};
use super::negotiate::NegotiationStep;
use super::subscriptions::is_listen;
use crate::built::Legacy;
use crate::calls::batch;
use crate::calls::endpoint::{FrameContent, classify_frame};
use crate::calls::inbound::{BatchKey, CallId, InboundCall};
use crate::calls::observing::{observe_call, observe_outcome, resume_message};
use crate::calls::outbound::{CallKey, CallPurpose, ResponseMatch};
use crate::deprecation::DeprecatedFeature;
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, Fault, HttpError};
use crate::frame::line::Oversize;
use crate::json::Span;
use crate::methods::MethodRule;
use crate::model::TaskId;
use crate::observe::RequestedParams;
use crate::raw::RawJson;
use crate::rpc::envelope::{self, Envelope, Kind, MalformedMessage, ParamsSpans, RejectedMessage};
use crate::rpc::{RequestId, RpcError};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::{Era, Version};
use crate::{meta, methods};

impl Engine {
    /// Takes one frame: a message, a batch or a blank line.
    ///
    /// With `own`, it may answer only that request.
    pub(super) fn receive(&mut self, channel: Key, frame: Bytes, own: Option<&RequestId>) {
        match classify_frame(frame) {
            (FrameContent::Blank, _) => {}
            (FrameContent::Array, frame) => self.receive_batch(channel, &frame, own),
            (FrameContent::Message, frame) => self.receive_one(channel, None, &frame, own),
        }
    }

    fn receive_one(&mut self, channel: Key, batch: Option<BatchKey>, frame: &Bytes, own: Option<&RequestId>) {
        match envelope::parse(frame, &self.common.endpoint.limits, None) {
            Err(rejected) => self.reject(channel, batch, rejected, frame, own),
            Ok(mut envelope) => {
                // Faults end a connection only in a row.
                if let Some(c) = self.common.endpoint.channels.get_mut(channel) {
                    c.consecutive_faults = 0;
                }
                match envelope.kind {
                    Kind::Response => self.receive_response(channel, frame, &envelope, own),
                    Kind::Notification => self.receive_notification(channel, frame, &envelope, own),
                    Kind::Request => {
                        // Answers are counted apart from calls: a server that asks faster than it reads is not read any more.
                        let before = self.common.outbox_len();
                        self.receive_request(channel, batch, frame, &mut envelope);
                        self.common.count_answer(before);
                    }
                }
            }
        }
    }

    fn receive_batch(&mut self, channel: Key, frame: &Bytes, own: Option<&RequestId>) {
        // 2024-11-05 refers to JSON-RPC, and some of its servers answer so (BATCH-005).
        let version = self.common.peer.as_ref().map(|p| p.version);
        let allows_batches = version.is_some_and(|version| version <= Version::V2025_03_26);
        let Some(marker) = Legacy::get() else {
            let rejected = RejectedMessage::unreadable(MalformedMessage::Batch);
            return self.reject(channel, None, rejected, frame, own);
        };
        let members = match batch::split_batch(frame, &self.common.endpoint.limits) {
            Ok(members) if allows_batches => members,
            refused => {
                let rejected = batch::reject_batch(refused, &self.common.endpoint.limits);
                return self.reject(channel, None, rejected, frame, own);
            }
        };
        let before = self.common.outbox_len();
        // All answers to the members are one array, so its room is held before the first one is read. In 2024-11-05 each
        // one is sent alone: arrays are taken there, and never sent.
        let batch = (version == Some(Version::V2025_03_26))
            .then(|| self.common.endpoint.open_batch(marker, channel, members.len()));
        if batch == Some(None) {
            let rejected = RejectedMessage::unreadable(MalformedMessage::OutOfMemory);
            return self.reject(channel, None, rejected, frame, own);
        }
        let batch = batch.flatten();
        for member in members {
            resume_message(&mut self.common.endpoint, &member);
            // An earlier member may have been one fault too many.
            if self.common.endpoint.channels.get(channel).is_some_and(|c| !c.closed) {
                self.receive_one(channel, batch, &member, own);
            }
        }
        if let Some(batch) = batch {
            self.common.endpoint.close_batch(batch);
            self.common.count_answer(before);
        }
    }

    fn reject(
        &mut self,
        channel: Key,
        batch: Option<BatchKey>,
        rejected: RejectedMessage,
        frame: &[u8],
        own: Option<&RequestId>,
    ) {
        // Servers print banners to stdout, which are noise and get no answer (STDIO-005).
        let noise = batch.is_none()
            && matches!(rejected.reason, MalformedMessage::Json { at: 0 } | MalformedMessage::NotAnObject);
        let noise = noise
            || (matches!(rejected.reason, MalformedMessage::Json { .. } | MalformedMessage::Utf8 { .. })
                && !frame.trim_ascii_start().starts_with(b"{"));
        if noise {
            let kept = frame.get(..self.common.endpoint.limits.max_noise_bytes).unwrap_or(frame);
            let line = String::from_utf8_lossy(kept).into_owned();
            self.common.diagnose(Diagnostic::Noise { line, length: frame.len() });
        } else {
            self.refuse_message(channel, batch, rejected, own);
            return;
        }
        // Noise is counted, too: a program that is no server may print without end.
        self.count_fault(channel);
    }

    fn refuse_message(
        &mut self,
        channel: Key,
        batch: Option<BatchKey>,
        rejected: RejectedMessage,
        own: Option<&RequestId>,
    ) {
        let before = self.common.outbox_len();
        // A modern client never answers (BASE-020). A client that does not know the era yet does not answer either.
        let is_legacy = self.common.peer.as_ref().is_some_and(|p| p.era() == Era::Legacy);
        let mut rejected = rejected;
        if rejected.is_response && rejected.id.is_none() {
            rejected.id = own.cloned();
        }
        // A response in the exchange of another request ends nothing.
        let is_foreign = own.is_some_and(|own| rejected.id.as_ref().is_some_and(|id| id != own));
        let is_awaited = !is_foreign
            && rejected
                .id
                .as_ref()
                .is_some_and(|id| self.common.endpoint.match_response(channel, id) != ResponseMatch::Unknown);
        if !is_legacy {
            // Without it no answer is sent.
            rejected.has_method = false;
            rejected.batched.clear();
        }
        rejected.batched.retain(|id| !self.common.endpoint.is_live(channel, id));
        // A message without a method that has the id of a call is its answer, if it has neither a result nor an error.
        rejected.is_response |= !rejected.has_method && is_awaited;
        let is_response = rejected.is_response;
        let is_silent = if is_response { is_foreign } else { !is_legacy && rejected.id.is_none() };
        let (diagnostic, ended) = if is_silent {
            (Diagnostic::Malformed { reason: rejected.reason, id: rejected.id, answered: false }, None)
        } else {
            let in_flight = rejected.id.as_ref().is_some_and(|id| self.common.endpoint.is_live(channel, id));
            self.common.endpoint.reject(channel, batch, rejected, in_flight)
        };
        // Reported first, because the end of the connection may follow.
        match &diagnostic {
            Diagnostic::Malformed { id: None, .. } => self.common.diagnose_stray(diagnostic, own.is_some()),
            _ => self.common.diagnose(diagnostic),
        }
        if let Some((key, outcome)) = ended {
            self.finish_outbound(key, outcome);
        }
        self.common.count_answer(before);
        self.count_fault(channel);
    }

    fn count_fault(&mut self, channel: Key) {
        if let Some(fault) = self.common.endpoint.count_fault(channel) {
            self.close_with(fault);
        }
    }

    /// Handles a message that exceeded the frame limit.
    pub(crate) fn handle_oversize(&mut self, now: Instant, channel: ChannelId, oversize: Oversize) {
        self.common.endpoint.tick(now);
        self.common.endpoint.record_activity();
        let rejected = self.common.endpoint.oversize_rejection(oversize);
        self.refuse_message(channel.0, None, rejected, None);
    }

    fn receive_response(
        &mut self,
        channel: Key,
        frame: &Bytes,
        envelope: &Envelope<'_>,
        own: Option<&RequestId>,
    ) {
        let outcome = envelope.outcome(frame);
        let matched = envelope.id.as_ref().filter(|id| own.is_none_or(|own| own == *id));
        let matched = matched.map(|id| (id, self.common.endpoint.match_response(channel, id)));
        let (id, matched) = match matched {
            Some((id, matched)) if matched != ResponseMatch::Unknown => (id, matched),
            _ => {
                let ended = take_misaddressed(&mut self.common, channel, own, envelope.id.as_ref(), outcome);
                if let Some((key, error)) = ended {
                    self.finish_outbound(key, Err(error));
                }
                return;
            }
        };
        match matched {
            ResponseMatch::Live(key) => {
                let outcome = match outcome {
                    Err(error) => Err(CallError::Rpc(error)),
                    Ok(result) => {
                        // Here and not with the outcome: a call that goes on as a task or a round has had its response all the same.
                        observe_outcome(&mut self.common.endpoint, key, Ok(&result));
                        match envelope.result_type.slice(frame) {
                            // TASK-105, TASK-106
                            Some(b"\"task\"" | b"\"complete\"") | None
                                if self.calls.may_have_task(&self.common, key) =>
                            {
                                match self.calls.receive_task(&mut self.common, key, result) {
                                    Some(result) => Ok(result),
                                    None => return,
                                }
                            }
                            Some(b"\"input_required\"")
                                if self.common.is_modern()
                                    && self.calls.may_need_input(&self.common, key) =>
                            {
                                return self.calls.receive_input_required(&mut self.common, key, &result); // MRTR-002, MRTR-003
                            }
                            // A missing type means complete; an unknown one is not a success (BASE-030, BASE-031).
                            Some(kind) if self.common.is_modern() && kind != b"\"complete\"" => Err(
                                CallError::UnknownResultType(RawJson::trusted(Bytes::copy_from_slice(kind))),
                            ),
                            _ => Ok(result),
                        }
                    }
                };
                self.finish_outbound(key, outcome);
            }
            ResponseMatch::Late => {
                // The late answer may have created a task that no call follows (CANC-009, TASK-122).
                if let Ok(result) = &outcome {
                    self.calls.cancel_late_task(&mut self.common, result);
                }
                self.common.diagnose(Diagnostic::LateResponse(id.clone()));
            }
            ResponseMatch::Unknown => {}
        }
    }

    /// Applies the outcome of an outbound request according to its purpose.
    pub(super) fn finish_outbound(&mut self, key: Key, outcome: Result<RawJson, CallError>) {
        observe_outcome(&mut self.common.endpoint, key, outcome.as_ref());
        let Some(purpose) = self.common.endpoint.outbound.calls.get(key).map(|c| c.purpose) else { return };
        match purpose {
            CallPurpose::Application | CallPurpose::Retry(_) => {
                if let Err(CallError::Rpc(error)) = &outcome {
                    self.negotiation.check_era(&mut self.common, error);
                    // ELIC-029
                    let pages = self.common.config.read_pages(error);
                    self.calls.remember_elicitations(&mut self.common, &pages);
                }
                let call = match purpose {
                    CallPurpose::Retry(_) => self.calls.finish_retry(&mut self.common, key),
                    _ => key,
                };
                self.calls.finish(&mut self.common, call, outcome);
            }
            CallPurpose::Task(call) => {
                self.calls.finish_task_request(&mut self.common, key, call, outcome);
            }
            CallPurpose::Abandoned => self.calls.finish_abandoned(&mut self.common, key, &outcome),
            CallPurpose::Listen(_) => {
                self.subscriptions.listen_ended(&mut self.common, key, outcome.map(drop));
            }
            CallPurpose::Subscribe(_) | CallPurpose::Internal => {
                self.finish_internal_request(key, purpose, outcome.map(drop));
            }
            CallPurpose::KeepAlive => {
                let health = self.common.endpoint.finish_ping(key, &outcome);
                self.report_health(health);
            }
            CallPurpose::Probe
            | CallPurpose::Handshake
            | CallPurpose::Input(_)
            | CallPurpose::InputTask(_)
            | CallPurpose::TaskInput { .. } => finish_negotiation(self, key, purpose, outcome),
        }
    }

    /// Handles a request from the server, which only legacy servers send.
    fn receive_request(
        &mut self,
        channel: Key,
        batch: Option<BatchKey>,
        frame: &Bytes,
        envelope: &mut Envelope<'_>,
    ) {
        let Some(id) = envelope.id.take() else { return };
        let (method, params) = (core::mem::take(&mut envelope.method), &envelope.params);
        if self.drop_misplaced(channel, &id, &method) {
            return;
        }
        // `ping` may come before the handshake has finished (PING-001, LIFE-006).
        let version = self.common.peer.as_ref().map_or(Version::V2024_11_05, |peer| peer.version);
        let rule = methods::request_rule(&method).filter(|r| r.is_sent_by_server() && r.exists_in(version));
        if rule.is_some_and(|rule| rule.name == methods::PING) {
            return self.common.answer_ping(channel, batch, &id);
        }
        let source = RequestSource { channel, batch, id: &id };
        let taken = accept_method(self, rule, version, method)
            .and_then(|method| take_request(self, source, version, (rule, method), frame, params));
        if let Err(error) = taken {
            self.common.endpoint.send_error(channel, batch, Some(&id), &error);
        }
    }

    /// Drops a request that gets no answer: our own that came back, one of an era without requests of servers, and one
    /// with the id of another one in flight. Returns false for all others.
    fn drop_misplaced(&mut self, channel: Key, id: &RequestId, method: &str) -> bool {
        let is_negotiation = matches!(method, methods::DISCOVER | methods::INITIALIZE);
        // A program that echoes its input is no server: our own request comes back with the id of a live one.
        if self.common.peer.is_none()
            && is_negotiation
            && matches!(self.common.endpoint.match_response(channel, id), ResponseMatch::Live(_))
        {
            self.close_with(Fault::Echo);
            return true;
        }
        let is_modern = match &self.common.peer {
            Some(peer) => peer.era() == Era::Modern,
            // While the era is unknown, only a client without legacy revisions can tell.
            None => self.common.config.legacy_versions().is_empty(),
        };
        if is_modern {
            let diagnostic = Diagnostic::UnexpectedRequest { method: method.into(), id: id.clone() };
            self.common.diagnose(diagnostic); // BASE-020
            return true;
        }
        let is_duplicate = self.common.endpoint.is_live(channel, id);
        if is_duplicate {
            // An answer to the second request would end the first one at the peer (DESIGN-09).
            self.common.diagnose(Diagnostic::DuplicateId(id.clone()));
        }
        is_duplicate
    }

    /// Handles the answer to a request of the engine.
    fn finish_internal_request(&mut self, key: Key, purpose: CallPurpose, outcome: Result<(), CallError>) {
        self.common.endpoint.outbound.calls.remove(key);
        self.common.endpoint.sweep();
        let refused = outcome.is_err();
        match outcome {
            // The next session renews the subscriptions.
            Err(CallError::Http(error)) if *error == HttpError::SessionLost => return,
            Err(CallError::Rpc(error)) => self.common.diagnose(Diagnostic::PeerError(error)),
            _ => {}
        }
        if let CallPurpose::Subscribe(resource) = purpose {
            self.subscriptions.resource_answered(&mut self.common, key, resource, refused);
        }
    }

    // ---- notifications ----

    #[expect(deprecated, reason = "supported until its removal")]
    fn receive_notification(
        &mut self,
        channel: Key,
        frame: &Bytes,
        envelope: &Envelope<'_>,
        own: Option<&RequestId>,
    ) {
        let whole = envelope.params.whole.slice(frame);
        let params = whole.unwrap_or(b"{}");
        match &*envelope.method {
            methods::PROGRESS => match self.common.endpoint.receive_progress(channel, params) {
                Err(diagnostic) => self.common.diagnose(diagnostic),
                Ok((key, progress)) => Calls::receive_progress(&mut self.common, key, progress),
            },
            methods::CANCELLED => self.receive_cancellation(channel, params),
            methods::MESSAGE => {
                // In the legacy era no level turns messages off, so they are dropped here.
                let is_muted = self.common.log.as_ref().is_some_and(|log| log.level().is_none());
                match LogMessage::parse(frame, params) {
                    _ if is_muted => {}
                    Some(message) => {
                        self.common.report_deprecated(DeprecatedFeature::Logging);
                        self.common.events.push_back(Event::Log(message));
                    }
                    None => self.common.diagnose(Diagnostic::InvalidNotification(methods::MESSAGE.into())),
                }
            }
            methods::ELICITATION_COMPLETE => {
                self.calls.receive_elicitation_complete(&mut self.common, params)
            }
            methods::ACKNOWLEDGED
                if self.calls.receive_task_acknowledged(&mut self.common, channel, params) => {}
            methods::ACKNOWLEDGED => {
                self.subscriptions.receive_acknowledged(&mut self.common, channel, params);
            }
            method if self.subscriptions.receive_change(&mut self.common, channel, method, params) => {}
            method => {
                let addressee = find_addressee(&mut self.common, channel, params, own);
                let params = whole.map(|p| RawJson::trusted(frame.slice_ref(p)));
                // A task that no call follows is the application's.
                let is_followed = matches!(method, methods::TASK_STATUS | methods::TASK_CHANGED)
                    && params
                        .as_ref()
                        .is_some_and(|params| self.calls.receive_task_notification(&mut self.common, params));
                if !is_followed {
                    let notification = Notification { method: method.into(), params };
                    match addressee {
                        Addressee::Call(call) => {
                            self.common.events.push_back(Event::CallNotification { call, notification });
                        }
                        Addressee::EndedCall => {}
                        Addressee::None => self.common.events.push_back(Event::Notification(notification)),
                    }
                }
            }
        }
    }

    /// Handles the end of a subscription by the server; returns false if the cancellation does not name one.
    fn listen_cancelled(&mut self, channel: Key, id: &RequestId) -> bool {
        if !self.common.is_modern() {
            return false;
        }
        match self.common.endpoint.match_response(channel, id) {
            ResponseMatch::Live(key) if is_listen(&self.common, key) => {
                self.subscriptions.listen_ended(&mut self.common, key, Ok(())); // CANC-018, SUB-021
                true
            }
            // Most servers end a subscription in both ways, and the first one counted (DEC-002).
            ResponseMatch::Late => true,
            _ => false,
        }
    }

    /// Handles a cancellation of a request of the server, or the end of a subscription.
    fn receive_cancellation(&mut self, channel: Key, params: &[u8]) {
        let Some((id, _)) = self.common.endpoint.parse_cancellation(params) else {
            return self.common.diagnose(Diagnostic::InvalidNotification(methods::CANCELLED.into()));
        };
        match self.common.endpoint.find_call(channel, &id) {
            Some(key) => {
                self.common.endpoint.drop_call(key);
                self.calls.end_server_request(&mut self.common, key);
            }
            None if self.listen_cancelled(channel, &id) => {}
            None if self.calls.task_listen_cancelled(&mut self.common, channel, &id) => {}
            None => self.common.diagnose(Diagnostic::UnknownCancellation(id)),
        }
    }
}

/// The call that a notification belongs to.
enum Addressee {
    /// A long-lived call.
    Call(CallKey),
    /// A call that has ended: the notification was sent before the server knew.
    EndedCall,
    /// None, or one that takes no notifications.
    None,
}

/// Finds the long-lived call that a notification belongs to. Its first notification ends its timeouts.
fn find_addressee(
    common: &mut CommonState,
    channel: Key,
    params: &[u8],
    own: Option<&RequestId>,
) -> Addressee {
    let named = common.subscription_id(params);
    let Some(id) = named.as_ref().or(own) else { return Addressee::None };
    let sent = match common.endpoint.match_response(channel, id) {
        ResponseMatch::Live(key) => key,
        // Its exchange may outlive a call, so only the id in the message tells that this is a late one.
        ResponseMatch::Late if named.is_some() && common.endpoint.outbound.had_long_lived => {
            return Addressee::EndedCall;
        }
        ResponseMatch::Late | ResponseMatch::Unknown => return Addressee::None,
    };
    let key = common.original_call(sent);
    let had_long_lived = &mut common.endpoint.outbound.had_long_lived;
    let calls = &mut common.endpoint.outbound.calls;
    match calls.get_mut(key) {
        Some(call) if call.is_long_lived && call.purpose == CallPurpose::Application => {
            call.keep_open();
            *had_long_lived = true;
        }
        _ => return Addressee::None,
    }
    // A call that was sent again has the timeouts of that.
    if let Some(again) = calls.get_mut(sent) {
        again.keep_open();
    }
    Addressee::Call(CallKey(key))
}

/// Passes the outcome of a request to the negotiation, and follows its next step.
fn finish_negotiation(
    engine: &mut Engine,
    key: Key,
    purpose: CallPurpose,
    outcome: Result<RawJson, CallError>,
) {
    // A faulty answer is an answer all the same, and not one of a modern server. It is no error of the server, though.
    let malformed = match &outcome {
        Err(CallError::Malformed(reason)) => Some(*reason),
        _ => None,
    };
    let outcome = outcome.map_err(|e| match e {
        CallError::Rpc(error) => error,
        CallError::Malformed(reason) => {
            RpcError::invalid_request(format!("the answer is malformed: {reason}"))
        }
        // The text of all outcomes is long (10 KiB), and few of them end a request of the negotiation on a byte stream.
        other if cfg!(feature = "http") => RpcError::invalid_request(format!("{other}")),
        _ => RpcError::invalid_request("the answer is not valid"),
    });
    let mut step = engine.negotiation.handle_answer(&mut engine.common, key, purpose, outcome);
    if let (NegotiationStep::Close(fault), Some(reason)) = (&mut step, malformed) {
        match fault {
            Fault::HandshakeRefused(_) => {
                let is_probe = purpose == CallPurpose::Probe;
                let method = if is_probe { methods::DISCOVER } else { methods::INITIALIZE };
                *fault = Fault::BadHandshake { method, reason: reason.to_string().into() };
            }
            Fault::LegacyServer { error, .. } => *error = None,
            _ => {}
        }
    }
    engine.apply(step);
}

/// Returns the method of a request that this client answers.
fn accept_method(
    engine: &Engine,
    rule: Option<&'static MethodRule>,
    version: Version,
    method: Cow<'_, str>,
) -> Result<Cow<'static, str>, RpcError> {
    let declared = |gate| engine.common.config.settings.capabilities.has(gate);
    match rule {
        // ERR-002, ERR-021
        Some(rule) if rule.required_capability_in(version).is_none_or(declared) => {
            Ok(Cow::Borrowed(rule.name))
        }
        None if engine.common.config.accepts_custom_method(&method) => Ok(Cow::Owned(method.into_owned())),
        _ => Err(RpcError::method_not_found(&method)),
    }
}

/// Gives a request to what answers it: the tasks of this client, or the application.
fn take_request(
    engine: &mut Engine,
    source: RequestSource<'_>,
    version: Version,
    (rule, method): (Option<&'static MethodRule>, Cow<'static, str>),
    frame: &Bytes,
    params: &ParamsSpans,
) -> Result<(), RpcError> {
    let token = engine.common.endpoint.parse_progress_token(params.meta.token.slice(frame))?;
    // The server chooses how many requests it sends, and each one is an entry until it is answered.
    if engine.common.endpoint.inbound.calls.len() >= engine.common.endpoint.limits.max_live_calls as usize {
        return Err(RpcError::internal("too many requests in work"));
    }
    let part = |span: Span| span.slice(frame).map(|text| RawJson::trusted(frame.slice_ref(text)));
    let (params, related) = (part(params.whole), part(params.meta.whole));
    if is_about_task(&method) {
        engine.calls.answer_task_request(&mut engine.common, source, &method, params.as_ref());
        return Ok(());
    }
    let related = related.filter(|_| version == Version::V2025_11_25).and_then(|meta| related_task(&meta));
    // All other requests of a server that have a rule are input requests.
    let read =
        |rule: &MethodRule| engine.common.config.read_input_request(rule.name, params.as_ref(), version);
    let mut input = rule.map(read).transpose()?;
    let common = &mut engine.common;
    let hosted = match &mut input {
        Some(question) => engine.calls.host_question(common, source, version, question, related.as_ref())?,
        None => None,
    };
    let input = match (input, hosted) {
        (Some(question), Some(hosted)) => {
            engine.calls.receive_input_request(common, InputSource::Hosted(hosted), question, related);
            return Ok(());
        }
        (input, _) => input,
    };
    let limits = &engine.common.endpoint.limits;
    // An input request may need a user, so it gets the longer time.
    let age = if input.is_some() { limits.input_timeout } else { limits.max_call_age };
    let Some(key) = begin_request(engine, source, version, token, age) else { return Ok(()) };
    let text = params.as_ref().map(RawJson::as_bytes).unwrap_or_default();
    let observed = RequestedParams::Unread { text, meta: None };
    observe_call(&mut engine.common.endpoint, key, &method, observed);
    match input {
        Some(input) => {
            let source = InputSource::Request(key);
            engine.calls.receive_input_request(&mut engine.common, source, input, related);
        }
        None => {
            let request = ServerRequest { id: CallId(key), method, params };
            engine.common.events.push_back(Event::Request(request));
        }
    }
    Ok(())
}

/// Adds a request to the table of calls; `None` if its id is in flight.
fn begin_request(
    engine: &mut Engine,
    source: RequestSource<'_>,
    version: Version,
    progress_token: Option<RequestId>,
    age: Duration,
) -> Option<Key> {
    let call = InboundCall {
        progress_token,
        expires_at: engine.common.endpoint.now + age,
        batch: source.batch,
        ..InboundCall::new(source.id.clone(), source.channel, version)
    };
    let begun = engine.common.endpoint.begin_call(call);
    if begun.is_none() {
        engine.common.diagnose(Diagnostic::DuplicateId(source.id.clone()));
    }
    begun
}

/// Takes a response without an id, or with one that is not that of a request here.
///
/// Returns the request of its exchange, which it ends if it has no id (BASE-013). With another id it is skipped: the answer may follow,
/// and if nothing does, the request ends with what was skipped.
fn take_misaddressed(
    common: &mut CommonState,
    channel: Key,
    own: Option<&RequestId>,
    id: Option<&RequestId>,
    outcome: Result<RawJson, RpcError>,
) -> Option<(Key, CallError)> {
    let error = outcome.err();
    match (id, &error) {
        (Some(id), _) => {
            let diagnostic = Diagnostic::UnknownResponse { id: id.clone(), error: error.clone() };
            common.diagnose_stray(diagnostic, own.is_some());
        }
        (None, Some(error)) => {
            common.diagnose_stray(Diagnostic::PeerError(error.clone()), own.is_some());
        }
        // Results without an id were refused before.
        (None, None) => return None,
    }
    // It answers another request in the wrong exchange, and ends neither of them.
    if id.is_some_and(|id| common.endpoint.match_response(channel, id) != ResponseMatch::Unknown) {
        return None;
    }
    // On a byte stream there is no exchange that tells which request was meant (DEC-004).
    match common.endpoint.match_response(channel, own?) {
        ResponseMatch::Live(key) => {
            let outcome = error.map_or(CallError::Malformed(MalformedMessage::WrongId), CallError::Rpc);
            match id {
                Some(_) => common.skipped_answer = Some((key, outcome)),
                None => return Some((key, outcome)),
            }
            None
        }
        ResponseMatch::Late | ResponseMatch::Unknown => None,
    }
}

/// Returns the task that a request of the server with this `_meta` belongs to (TASK-023).
fn related_task(meta: &RawJson) -> Option<TaskId> {
    let task = meta.member(meta::RELATED_TASK)?;
    let id = task.member("taskId")?.string()?;
    super::tasks::check_id(&id).ok().map(|()| id.into())
}
