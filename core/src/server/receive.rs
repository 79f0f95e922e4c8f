//! Classification of received messages, in one place.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::Bytes;

use super::backlog::Backlog;
use super::channel::{
    OUT_OF_MEMORY, ServerEndpoint, is_exchange, lacks_memory, mark_request_refused, session,
};
use super::early_cancels::EarlyCancels;
use super::engine::{Engine, SHUTTING_DOWN};
use super::event::{Call, CancelReason, Event, Notification};
use super::notifications::report_deprecated;
use super::parked::{cancel_late_question, receive_question_status};
use super::request_check::{AcceptedRequest, MessageSource, ReceivedRequest};
use super::tasks::{CallTask, TaskOffer, unlisten};
use super::{channel, log};
use crate::built::Legacy;
use crate::calls::endpoint::{FrameContent, IdlessErrors, classify_frame};
use crate::calls::inbound::{BatchKey, CallId, InboundCall, InputOutcome};
use crate::calls::observing::{
    begin_direct_answer, begin_session, end_direct_answer, observe_call, resume_message,
};
use crate::calls::outbound::ResponseMatch;
use crate::calls::{batch, room};
use crate::deprecation::DeprecatedFeature;
use crate::diagnostic::Diagnostic;
use crate::error::CallError;
use crate::frame::line::Oversize;
use crate::json::string;
use crate::methods;
use crate::model::InputRequests;
use crate::observe::RequestedParams;
use crate::raw::RawJson;
use crate::rpc::envelope::{self, Envelope, Kind, MalformedMessage, ParamsSpans, RejectedMessage};
use crate::rpc::{RequestId, RpcError, code};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::Version;

impl Engine {
    /// Takes one frame: a message, a batch or a blank line.
    pub(super) fn receive(&mut self, channel: Key, frame: Bytes, waited: bool) {
        match classify_frame(frame) {
            (FrameContent::Blank, _) => {}
            (FrameContent::Array, frame) => self.receive_batch(channel, &frame),
            (FrameContent::Message, frame) => {
                let root = self.endpoint.root_channel(channel);
                let source = MessageSource { channel, root, batch: None, waited, header_check: None };
                self.receive_one(source, &frame);
            }
        }
    }

    fn receive_one(&mut self, source: MessageSource<'_>, frame: &Bytes) {
        match self.parse(frame) {
            Err(rejected) => self.reject(source.channel, source.batch, rejected),
            Ok(mut envelope) => self.receive_parsed(source, frame, &mut envelope),
        }
    }

    /// Parses one message.
    pub(crate) fn parse<'a>(&self, frame: &'a Bytes) -> Result<Envelope<'a>, RejectedMessage> {
        envelope::parse(frame, &self.endpoint.limits, self.request_check.known_meta())
    }

    pub(super) fn receive_parsed(
        &mut self,
        source: MessageSource<'_>,
        frame: &Bytes,
        envelope: &mut Envelope<'_>,
    ) {
        // Faults end a connection only in a row.
        if let Some(c) = self.endpoint.channels.get_mut(source.channel) {
            c.consecutive_faults = 0;
        }
        match envelope.kind {
            Kind::Request => self.receive_request(source, frame, envelope),
            Kind::Notification => self.receive_notification(source.root, frame, envelope),
            Kind::Response => self.receive_response(source.root, frame, envelope),
        }
    }

    /// Takes the members of a batch. Their answers are sent together.
    pub(super) fn receive_batch(&mut self, channel: Key, frame: &Bytes) {
        let root = self.endpoint.root_channel(channel);
        let has_session = session(&self.endpoint, channel).is_some();
        let allows_batches = match session(&self.endpoint, channel) {
            Some(session) => session.version == Version::V2025_03_26,
            // A handshake in a batch is refused with its id, so that its client does not wait for ever (BATCH-003).
            None => {
                is_revision_open(&self.endpoint, channel)
                    && self.config.legacy_versions().contains(Version::V2025_03_26)
            }
        };
        let Some(marker) = Legacy::get() else {
            return self.reject(channel, None, RejectedMessage::unreadable(MalformedMessage::Batch));
        };
        let members = match batch::split_batch(frame, &self.endpoint.limits) {
            Ok(members) if allows_batches => members,
            refused => {
                // BATCH-004, BATCH-005
                let mut rejected = batch::reject_batch(refused, &self.endpoint.limits);
                // Over HTTP one body answers for all. A byte stream has an answer for each that waits.
                let has_body =
                    self.endpoint.channels.get(channel).is_some_and(|c| c.role.stream.owner().is_some());
                rejected.batched.retain(|id| !has_body && !self.in_flight(root, id));
                return self.reject(channel, None, rejected);
            }
        };
        // Without room for an error of each member none is processed: one answer is sent for all of them (DESIGN-76).
        let Some(batch) = self.endpoint.open_batch(marker, channel, members.len()) else {
            return self.reject(channel, None, RejectedMessage::unreadable(MalformedMessage::OutOfMemory));
        };
        let (mut unnamed, mut has_others, mut has_handshake) = (None, false, false);
        for member in members {
            // An observer counts the bytes of the member, not of the array.
            resume_message(&mut self.endpoint, &member);
            // An earlier member may have been one fault too many.
            if self.endpoint.channels.get(channel).is_some_and(|c| c.input_end.is_none()) {
                let source =
                    MessageSource { channel, root, batch: Some(batch), waited: false, header_check: None };
                match self.parse(&member) {
                    Err(rejected) => {
                        has_others |= rejected.id.is_some();
                        unnamed.get_or_insert(rejected.reason);
                        self.reject(channel, source.batch, rejected);
                    }
                    Ok(mut envelope) => {
                        has_others = true;
                        has_handshake |=
                            envelope.kind == Kind::Request && &*envelope.method == methods::INITIALIZE;
                        self.receive_parsed(source, &member, &mut envelope);
                    }
                }
            }
        }
        // After the last member: until then the batch is not complete, however many answers are there.
        self.endpoint.close_batch(batch);
        if let Some(reason) = unnamed.filter(|_| !has_others) {
            refuse_batch(&mut self.endpoint, channel, reason);
        } else if has_handshake && !has_session {
            // The handshake has failed, whatever the other members are (BATCH-003).
            mark_request_refused(&mut self.endpoint, channel);
            if let Some(c) = self.endpoint.channels.get_mut(channel) {
                c.role.stream.record_error(code::INVALID_REQUEST);
            }
        }
        // A member may have ended the input; the answers go first.
        self.close_if_finished(channel);
    }

    /// Answers or reports a faulty message.
    pub(super) fn reject(&mut self, channel: Key, batch: Option<BatchKey>, rejected: RejectedMessage) {
        let root = self.endpoint.root_channel(channel);
        let is_ours = rejected.reason == MalformedMessage::OutOfMemory;
        // An error for an id in flight would end the other request at the peer.
        let in_flight = rejected.id.as_ref().is_some_and(|id| self.in_flight(root, id));
        let (diagnostic, ended) = self.endpoint.reject(channel, batch, rejected, in_flight);
        if let Some((key, outcome)) = ended {
            self.finish_outbound(key, outcome);
        }
        if batch.is_none() {
            mark_request_refused(&mut self.endpoint, channel);
        }
        // After the answer, because the diagnostic says whether there was one.
        self.diagnose(channel, diagnostic);
        // A message that there was no memory for is not faulty.
        if let Some(fault) = if is_ours { None } else { self.endpoint.count_fault(channel) } {
            // No grace period: what such a peer still has in flight is cancelled with the next deadline.
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
        let Some(c) = self.endpoint.channels.get(channel) else { return false };
        let (waiting, has_listeners) = (c.role.waiting, !c.role.listeners.is_empty());
        // An id is in one of three tables, by how far its request has come.
        self.backlog.as_mut().is_some_and(|backlog| backlog.contains(waiting, id))
            || (has_listeners && self.changes.find(&mut self.endpoint, channel, id).is_some())
            || self.endpoint.is_live(channel, id)
    }

    /// Takes a request: an error, an answer of the engine, a place in the queue, or a call for the application.
    fn receive_request(&mut self, source: MessageSource<'_>, frame: &Bytes, envelope: &mut Envelope<'_>) {
        let Some(id) = envelope.id.take() else { return };
        let Envelope { method, params, has_known_meta, .. } = &*envelope;
        if self.in_flight(source.root, &id) {
            // An answer to the second request would end the first one at the peer (DESIGN-09).
            return self.diagnose(source.channel, Diagnostic::DuplicateId(id));
        }
        let request = ReceivedRequest { source, frame, method, params, has_known_meta: *has_known_meta };
        let accepted = match check_request(self, &request) {
            Ok(Some(accepted)) => accepted,
            Ok(None) => {
                observe_direct(self, &request, &id);
                self.answer_in_engine(source, frame, &id, method, params);
                return end_direct_answer(&mut self.endpoint);
            }
            Err(error) => {
                if source.batch.is_none() {
                    mark_request_refused(&mut self.endpoint, source.channel);
                }
                return refuse(self, &request, &id, &error);
            }
        };
        // After the checks: a cancelled request gets no answer, but a faulty one is answered even if it was cancelled.
        let early = self.early_cancels.as_mut();
        if early.is_some_and(|early| early.cancels(&mut self.endpoint, &source, &id)) {
            return self.diagnose(source.root, Diagnostic::EarlyCancellation(id)); // CANC-010
        }
        let token = match self.endpoint.parse_progress_token(params.meta.token.slice(frame)) {
            Ok(token) => token,
            Err(error) => return refuse(self, &request, &id, &error),
        };
        // After the checks, so that a faulty request takes no place of another. All are made again when its turn comes: its
        // session may have ended or changed by then.
        if accepted.is_long_lived {
            if let Err(error) = check_subscription_room(self, &source) {
                return refuse(self, &request, &id, &error);
            }
        } else if must_wait(self, &source) {
            return queue_request(self, &request, id);
        }
        let log_threshold = log_threshold(self, &request, accepted.version);
        let begun = self.endpoint.begin_call(InboundCall {
            cacheable: accepted.cacheable,
            progress_token: token,
            expires_at: match accepted.is_long_lived {
                true => Instant::FAR_FUTURE,
                false => self.endpoint.now + self.endpoint.limits.max_call_age,
            },
            batch: source.batch,
            log_threshold,
            is_long_lived: accepted.is_long_lived,
            ..InboundCall::new(id, source.channel, accepted.version)
        });
        // Only if the channel is gone: an equal id was excluded above.
        let Some(key) = begun else { return };
        // From here on the call is in the table, so an error ends it there.
        if let Err(error) = deliver_call(self, key, source.channel, accepted, frame, params) {
            self.endpoint.fail(key, &error);
        }
    }

    fn receive_notification(&mut self, channel: Key, frame: &Bytes, envelope: &Envelope<'_>) {
        let params = envelope.params.whole.slice(frame);
        let members = params.unwrap_or(b"{}");
        match &*envelope.method {
            methods::CANCELLED => self.receive_cancellation(channel, members),
            methods::INITIALIZED => receive_initialized(self, channel),
            // Progress extends the timeout of an outbound request.
            methods::PROGRESS => {
                if let Err(diagnostic) = self.endpoint.receive_progress(channel, members) {
                    self.diagnose(channel, diagnostic);
                }
            }
            methods::TASK_STATUS
                if receive_question_status(&mut self.parked, &mut self.endpoint, channel, members) => {}
            method => {
                if method == methods::ROOTS_CHANGED {
                    report_deprecated(self, channel, DeprecatedFeature::Roots);
                }
                if lacks_memory(&self.endpoint, &self.events, frame.len(), method.len()) {
                    return self.reject(channel, None, RejectedMessage::notification_without_memory());
                }
                self.events.push_back(Event::Notification(Notification {
                    channel: ChannelId(channel),
                    method: method.into(),
                    params: params.map(|p| RawJson::trusted(frame.slice_ref(p))),
                }));
            }
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
            let parked = self.unpark(key, "the call was cancelled") || room::is_owed(&self.endpoint, key);
            self.endpoint.drop_call(key);
            if !parked {
                self.events
                    .push_back(Event::Cancelled { call: CallId(key), reason: CancelReason::Client(reason) });
            }
            // In a shutdown the channel may have waited for this call alone.
            self.close_if_finished(channel);
        } else if self.backlog.as_mut().is_some_and(|backlog| backlog.remove(c.role.waiting, &id)) {
            self.close_if_finished(channel);
        } else if let Some(listener) = self.changes.find(&mut self.endpoint, channel, &id) {
            let unsubscribed = self.changes.end(&mut self.endpoint, channel, listener);
            self.events.extend(unsubscribed);
            unlisten(&mut self.tasks, channel, Some(&id));
        } else {
            // Its request may still be on its way, by another connection.
            EarlyCancels::record(&mut self.early_cancels, &self.endpoint, channel, &id);
            self.diagnose(channel, Diagnostic::UnknownCancellation(id));
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
            ResponseMatch::Late => {
                // The question has ended, but the response may have created a task that nobody would end (CANC-009).
                if let Ok(result) = &outcome {
                    cancel_late_question(&mut self.parked, &mut self.endpoint, channel, result);
                }
                self.diagnose(channel, Diagnostic::LateResponse(id.clone()));
            }
            ResponseMatch::Unknown => {
                self.diagnose(channel, Diagnostic::UnknownResponse { id: id.clone(), error: outcome.err() });
            }
        }
    }
}

/// Checks a request. `None` if the engine answers its method.
fn check_request(
    engine: &mut Engine,
    request: &ReceivedRequest<'_>,
) -> Result<Option<AcceptedRequest>, RpcError> {
    // Before the other checks, because they allocate.
    if engine.shutting_down {
        Err(RpcError::internal(SHUTTING_DOWN))
    } else if lacks_memory(&engine.endpoint, &engine.events, request.frame.len(), 0) {
        Err(RpcError::internal(OUT_OF_MEMORY))
    } else {
        engine.request_check.check(&mut engine.endpoint, &engine.config, request)
    }
}

/// Returns whether a request waits: too many calls are in flight, or others of its channel wait already.
fn must_wait(engine: &Engine, source: &MessageSource<'_>) -> bool {
    let others_wait = |backlog: &Backlog| {
        let waiting = engine.endpoint.channels.get(source.root).map(|c| c.role.waiting).unwrap_or_default();
        // One that has waited comes from the front of the queue. Behind the others again it might wait without end.
        !backlog.is_empty(waiting) && !source.waited && source.batch.is_none()
    };
    engine.is_full() || engine.backlog.as_ref().is_some_and(others_wait)
}

/// Checks that a byte stream may have one more call that stays open.
///
/// # Errors
///
/// The error response to send.
fn check_subscription_room(engine: &mut Engine, source: &MessageSource<'_>) -> Result<(), RpcError> {
    if source.batch.is_some() {
        // The answers of a batch are sent together, and this one may never come.
        return Err(RpcError::invalid_request("a batch cannot have a call that stays open"));
    }
    // Counted when one begins, which is seldom: a channel has no room for a counter that most never use.
    let open = engine.endpoint.live_calls(source.root).into_iter();
    let open = open.filter(|key| engine.endpoint.inbound.calls.get(*key).is_some_and(|c| c.is_long_lived));
    match open.count() < engine.endpoint.limits.max_subscriptions {
        true => Ok(()),
        false => Err(RpcError::internal("too many subscriptions")),
    }
}

/// Queues a request, or refuses it.
fn queue_request(engine: &mut Engine, request: &ReceivedRequest<'_>, id: RequestId) {
    let source = request.source;
    let is_exchange = is_exchange(&engine.endpoint, source.channel);
    let Some(c) = engine.endpoint.channels.get_mut(source.root) else { return };
    let (waiting, limits) = (&mut c.role.waiting, &engine.endpoint.limits);
    let backlog = engine.backlog.get_or_insert_with(Backlog::new);
    // The members of a batch share one answer, so they cannot be queued one by one. An exchange does not wait
    // (DESIGN-40).
    let is_refused = backlog.is_full(*waiting, limits) || source.batch.is_some() || is_exchange;
    if is_refused || limits.is_out_of_memory(request.frame.len()) {
        let error = RpcError::internal("too many requests in work");
        return refuse(engine, request, &id, &error);
    }
    // Copied, so that a small request does not keep a large buffer alive.
    let frame = engine.endpoint.memory.hold_kept(Bytes::copy_from_slice(request.frame));
    backlog.push(waiting, source.root, id, frame, limits);
}

/// Returns the least severity of the log messages that a request asks for (modern).
fn log_threshold(engine: &mut Engine, request: &ReceivedRequest<'_>, version: Version) -> log::Threshold {
    let level = request.params.meta.log_level.slice(request.frame);
    if level.is_some() && version.is_modern() {
        report_deprecated(engine, request.source.channel, DeprecatedFeature::Logging);
    }
    level.and_then(log::parse_threshold).unwrap_or(log::NONE)
}

/// Gives a call to the application, with what it may become and what it brings along.
fn deliver_call(
    engine: &mut Engine,
    key: Key,
    channel: Key,
    accepted: AcceptedRequest,
    frame: &Bytes,
    params: &ParamsSpans,
) -> Result<(), RpcError> {
    let AcceptedRequest { version, method, fits_headers, .. } = accepted;
    let mut caller = channel::caller(&engine.endpoint, channel);
    if engine.endpoint.observing.is_some() {
        let observed = RequestedParams::Read { frame, spans: params };
        caller.observation = observe_call(&mut engine.endpoint, key, &method, observed);
    }
    let task = CallTask::Offer(TaskOffer::None);
    let (id, channel, frame) = (CallId(key), ChannelId(channel), frame.clone());
    let mut call = Call { id, channel, version, method, frame, params: *params, retry: None, caller, task };
    if let Some(tasks) = engine.tasks.as_ref() {
        call.task = CallTask::Offer(tasks.offer(version, &call)?);
    }
    let is_retry = !(params.input_responses.is_empty() && params.request_state.is_empty());
    if is_retry && version.is_modern() {
        call.retry = engine.sealing.read_retry(&engine.endpoint, &engine.config, &call)?.map(Box::new);
        // Only sealed state counts deliveries: it proves that this call was delivered and asked. Header fields that
        // do not fit are passed for a hidden tool alone, so the tool stays hidden.
        call.caller.is_resumed = fits_headers && call.retry.as_ref().is_some_and(|round| round.attempt > 0);
    }
    // Last: after an error above the call fails, and the application must not see it.
    engine.events.push_back(Event::Call(call));
    Ok(())
}

/// Answers a request with an error.
fn refuse(engine: &mut Engine, request: &ReceivedRequest<'_>, id: &RequestId, error: &RpcError) {
    // Begun before the error is written, because its code and size end the observation.
    observe_direct(engine, request, id);
    let source = request.source;
    engine.endpoint.send_error(source.channel, source.batch, Some(id), error);
    end_direct_answer(&mut engine.endpoint);
}

/// Begins the observation of a request that becomes no call.
fn observe_direct(engine: &mut Engine, request: &ReceivedRequest<'_>, id: &RequestId) {
    let &ReceivedRequest { source, frame, method, params, .. } = request;
    let served = engine.config.modern_versions();
    let observed = RequestedParams::Read { frame, spans: params };
    begin_direct_answer(&mut engine.endpoint, id, method, observed, |endpoint| {
        let stated = params.meta.version.slice(frame).and_then(string);
        // A refused request may name any revision. One that is not served is reported as unknown.
        let modern =
            stated.and_then(|text| Version::from_name(&text)).filter(|version| served.contains(*version));
        modern.or_else(|| session(endpoint, source.root).map(|session| session.version))
    });
}

/// Opens a legacy session for the application.
pub(super) fn receive_initialized(engine: &mut Engine, channel: Key) {
    let Some(session) = engine.endpoint.channels.get_mut(channel).and_then(|c| c.role.session.as_mut())
    else {
        return engine.diagnose(channel, Diagnostic::InvalidNotification(methods::INITIALIZED.into()));
    };
    // Repeated notifications change nothing: a session is opened once.
    if !core::mem::replace(&mut session.initialized, true) {
        let version = session.version;
        report_session(engine, channel, version);
        if let Some(parked) = engine.parked.as_mut() {
            engine.events.extend(parked.send_all_queued(&mut engine.endpoint, channel));
        }
    }
}

/// Reports a session whose handshake has ended to the application and the observer, and begins what it has from then on.
pub(super) fn report_session(engine: &mut Engine, channel: Key, version: Version) {
    begin_session(&mut engine.endpoint, channel, version);
    engine.events.push_back(Event::SessionOpened { channel: ChannelId(channel), version });
    engine.changes.listen_for_session(&mut engine.endpoint, &engine.config.settings.capabilities, channel);
    engine.endpoint.begin_keep_alive(channel);
}

/// Answers a batch of which no member is a message and none has an id.
fn refuse_batch(endpoint: &mut ServerEndpoint, channel: Key, reason: MalformedMessage) {
    // Elsewhere the schema demands an id that cannot be known: a stream stays silent, or has answered each member (DEC-004).
    if endpoint.channels.get(channel).is_some_and(|c| c.idless_errors == IdlessErrors::Absent) {
        let error = reason.to_error();
        endpoint.send_error(channel, None, None, &error);
    }
    mark_request_refused(endpoint, channel);
}

/// Returns whether the revision of a channel without a session may still become any.
fn is_revision_open(endpoint: &ServerEndpoint, channel: Key) -> bool {
    let channel = endpoint.channels.get(channel);
    // Without a session, a byte stream allows such errors only in the modern era, which has no batches (DEC-004).
    channel.is_some_and(|c| c.idless_errors == IdlessErrors::Unsent || c.role.stream.is_exchange())
}

// State and input responses that a call brings along when it is delivered again.

/// State and input responses of a call that was delivered before.
#[derive(Clone, Debug, Default)]
pub(super) struct RetryContext {
    /// Number of earlier deliveries.
    pub(super) attempt: u32,
    pub(super) state: Vec<u8>,
    pub(super) answers: Vec<(Box<str>, InputOutcome)>,
    /// Keys of the input requests in the last round, if they are known.
    pub(super) requested_keys: Option<Vec<Box<str>>>,
}

/// Begins the keys of values that a handler keeps. No input request has such a key.
const KEPT: char = '\u{1}';

/// Returns the key among the answers of a value that a handler keeps.
pub(super) fn kept_key(key: &str) -> Box<str> {
    alloc::format!("{KEPT}{key}").into()
}

/// An input response or a kept value of an earlier round, by its key.
pub(super) type CarriedAnswer<'a> = (&'a str, Result<&'a RawJson, &'a CallError>);

/// Returns what is carried into the next round of a call: the responses that are not requested again, and the values
/// that its handler keeps.
pub(super) fn carried_answers<'a>(
    retry: Option<&'a RetryContext>,
    requests: &InputRequests<'_>,
    kept: &'a [(Box<str>, RawJson)],
) -> Vec<CarriedAnswer<'a>> {
    let is_requested = |key: &str| requests.iter().any(|(other, _)| other == key);
    let earlier = retry.into_iter().flat_map(|round| &round.answers);
    let carried =
        earlier.map(|(key, answer)| (&**key, answer.as_ref())).filter(|(key, _)| !is_requested(key));
    carried.chain(kept.iter().map(|(key, value)| (&**key, Ok(value)))).collect()
}
