//! Parked calls: calls of the legacy era that wait for the responses to their input requests.
//!
//! A parked call stays unanswered while its input requests are in flight, and is delivered again when all of them have
//! ended. Before `notifications/initialized` the input requests are queued instead of sent (LIFE-006, DESIGN-30).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;

use super::engine::Engine;
use super::event::{Call, Event};
use super::input::RetryContext;
use crate::calls::endpoint::EndpointTimer;
use crate::calls::inbound::{CallId, InboundCall, InputOutcome, ParkedCall};
use crate::calls::outbound::{CallOptions, CallPurpose, OutboundCall, QueuedCall};
use crate::calls::outbound_requests::{OutboundRequest, check_reserved};
use crate::calls::versioned_params::VersionedParams;
use crate::error::{CallError, UseError};
use crate::json::{Serializer, TopLevelMembers};
use crate::limits::Limit;
use crate::methods;
use crate::model::{InputRequest, InputRequests};
use crate::rpc::RpcError;
use crate::rpc::envelope::{self, ParamsSpans};
use crate::shape;
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::Version;

/// A session may use at most one part in this many of the limits that all sessions share.
const SESSION_SHARE: usize = 4;

/// An input request in the form of its revision.
struct EncodedRequest {
    /// The key by which the handler finds the response.
    name: Box<str>,
    method: &'static str,
    params: Bytes,
}

impl Engine {
    /// Sends the input requests and parks the call until all of them have ended.
    ///
    /// Before `notifications/initialized` the requests are queued, and the call keeps its deadline.
    pub(super) fn park(
        &mut self,
        call: &Call,
        requests: &InputRequests<'_>,
        state: &[u8],
    ) -> Result<(), UseError> {
        self.check_room_to_park(call, requests, state)?;
        // Encoded before anything is sent, so that either all requests are sent or none.
        let encoded = encode_requests(requests, call.version)?;
        let limits = Arc::clone(&self.endpoint.limits);
        let channel = call.channel.0;
        let is_initialized = self.session(channel).is_some_and(|session| session.initialized);
        let empty = RetryContext::default();
        let round = call.retry.as_deref().unwrap_or(&empty);
        let carried = round.carried_answers(requests).cloned().collect();
        let key = self.endpoint.rekey(call.id.0).ok_or(UseError::Stale)?;
        let options = CallOptions::new().timeout(limits.input_timeout).total_timeout(limits.input_timeout);
        let mut pending_requests = Vec::with_capacity(encoded.len());
        for EncodedRequest { name, method, params } in encoded {
            let mut request =
                OutboundCall::new(self.endpoint.now, channel, CallPurpose::Input(key), &options, &limits);
            request.queued = Some(Box::new(QueuedCall {
                method: method.into(),
                params: VersionedParams::from_encoded(call.version, params),
                meta: None,
                total_timeout: limits.input_timeout,
            }));
            pending_requests.push((name, self.endpoint.outbound.calls.insert(request)));
        }
        let has_no_requests = pending_requests.is_empty();
        let parked = ParkedCall {
            frame: (&*call.frame).into(),
            attempt: call.attempt().saturating_add(1),
            state: state.into(),
            answers: carried,
            pending_requests,
        };
        if let Some(record) = self.endpoint.inbound.calls.get_mut(key) {
            record.parked = Some(Box::new(parked));
            self.parked_calls += 1;
            // The deadline of the call was armed with its old key.
            self.endpoint.deadlines.arm(record.expires_at, EndpointTimer::CallAge(key));
        }
        if has_no_requests {
            // There are no requests: the call only wanted to be delivered again.
            self.resume(key);
        } else if is_initialized {
            self.send_queued_requests(key);
        }
        Ok(())
    }

    /// Checks that one more call may be parked and that its client can answer.
    ///
    /// # Errors
    ///
    /// [`UseError::Full`], [`UseError::Stale`] or [`UseError::Closed`].
    fn check_room_to_park(
        &self,
        call: &Call,
        requests: &InputRequests<'_>,
        state: &[u8],
    ) -> Result<(), UseError> {
        let limits = &self.endpoint.limits;
        let channel = call.channel.0;
        if self.endpoint.outbound.calls.len() + requests.len() > limits.effective_max_pending_calls() {
            return Err(UseError::Full(Limit::PendingCalls));
        }
        if self.parked_bytes(None) >= limits.max_retained_bytes {
            return Err(UseError::Full(Limit::RetainedBytes));
        }
        let root = self.endpoint.root_channel(channel);
        if root != channel {
            // A session of many: input requests that its client leaves unanswered must not block the other sessions.
            let session_requests = self
                .endpoint
                .outbound
                .calls
                .iter()
                .filter(|(_, c)| self.endpoint.root_channel(c.channel) == root);
            if session_requests.count() + requests.len()
                > (limits.effective_max_pending_calls() / SESSION_SHARE).max(limits.max_inputs)
            {
                return Err(UseError::Full(Limit::PendingCalls));
            }
            let parked_bytes = self.parked_bytes(Some(root));
            if parked_bytes.saturating_add(call.frame.len()).saturating_add(state.len())
                > limits.max_retained_bytes / SESSION_SHARE
            {
                return Err(UseError::Full(Limit::RetainedBytes));
            }
        }
        let c = self.endpoint.channels.get(channel).ok_or(UseError::Stale)?;
        let root = self.endpoint.channels.get(root).ok_or(UseError::Stale)?;
        if c.input_end.is_some() || c.closed || root.input_end.is_some() || c.role.stream.unreachable {
            return Err(UseError::Closed); // the client cannot answer
        }
        Ok(())
    }

    /// Sends the queued input requests of all calls of a session that has become ready (LIFE-006).
    pub(super) fn send_all_queued_requests(&mut self, session: Key) {
        for call in self.endpoint.live_calls(session) {
            self.send_queued_requests(call);
        }
    }

    /// Sends the queued input requests of a parked call, which waits for their responses without a deadline of its own.
    fn send_queued_requests(&mut self, call: Key) {
        let Some(record) = self.endpoint.inbound.calls.get_mut(call) else { return };
        let Some(parked) = record.parked.as_deref() else { return };
        record.expires_at = Instant::FAR_FUTURE;
        let version = record.version;
        let requests: Vec<Key> = parked.pending_requests.iter().map(|(_, request)| *request).collect();
        for key in requests {
            let Some(request) = self.endpoint.outbound.calls.get_mut(key) else { continue };
            let Some(queued) = request.queued.take() else { continue };
            request.restart_timeouts(self.endpoint.now, queued.total_timeout);
            let head = OutboundRequest {
                method: &queued.method,
                base_meta: None,
                meta: None,
                wants_progress: false,
            };
            let sent = queued.params.for_version(version).and_then(|params| {
                self.endpoint.send_request(key, &head, |out| {
                    out.extend_from_slice(params);
                    Ok(TopLevelMembers::default())
                })
            });
            if let Err(error) = sent {
                self.finish_outbound(key, Err(CallError::Refused(error)));
            }
        }
    }

    /// Returns the bytes that are kept for all parked calls, or for those of one session.
    fn parked_bytes(&self, root: Option<Key>) -> usize {
        let calls = self.endpoint.inbound.calls.iter().map(|(_, call)| call);
        let is_counted =
            |call: &&InboundCall| root.is_none_or(|root| self.endpoint.root_channel(call.channel) == root);
        let queued_bytes = |(_, request): &(Box<str>, Key)| {
            let request = self.endpoint.outbound.calls.get(*request);
            request.and_then(|request| request.queued.as_deref()).map_or(0, QueuedCall::cost)
        };
        let bytes = |parked: &ParkedCall| {
            parked.byte_len() + parked.pending_requests.iter().map(queued_bytes).sum::<usize>()
        };
        calls.filter(is_counted).filter_map(|call| call.parked.as_deref()).map(bytes).sum()
    }

    /// Records the outcome of an input request of a parked call.
    pub(super) fn finish_input_request(&mut self, call: Key, request: Key, outcome: InputOutcome) {
        // A small request may have a large response, and others may never come. The allowance of one frame leaves room
        // for at least one response, however large the call itself is.
        let limit = self.endpoint.limits.max_retained_bytes;
        let max_bytes = limit.saturating_add(self.endpoint.limits.effective_max_frame());
        let outcome = match outcome {
            Ok(result) if self.parked_bytes(None).saturating_add(result.as_bytes().len()) > max_bytes => {
                Err(CallError::TooLarge { limit })
            }
            outcome => outcome,
        };
        let parked = self.endpoint.inbound.calls.get_mut(call).and_then(|record| record.parked.as_mut());
        let Some(parked) = parked else { return };
        let Some(index) = parked.pending_requests.iter().position(|(_, out)| *out == request) else { return };
        let (key, _) = parked.pending_requests.remove(index);
        parked.answers.push((key, outcome.map(|result| result.compact())));
        if parked.pending_requests.is_empty() {
            self.resume(call);
        }
    }

    /// Delivers a parked call again.
    fn resume(&mut self, key: Key) {
        let expires = self.endpoint.now + self.endpoint.limits.max_call_age;
        let Some(record) = self.endpoint.inbound.calls.get_mut(key) else { return };
        let Some(parked) = record.parked.take() else { return };
        self.parked_calls = self.parked_calls.saturating_sub(1);
        record.expires_at = expires;
        let (channel, version) = (ChannelId(record.channel), record.version);
        self.endpoint.deadlines.arm(expires, EndpointTimer::CallAge(key));
        let ParkedCall { frame, attempt, state, answers, .. } = *parked;
        let frame = Bytes::from(frame);
        // The frame was valid when it arrived.
        let Ok(envelope) = envelope::parse(&frame, &self.endpoint.limits, None) else { return };
        let Some(rule) = methods::request_rule(&envelope.method) else { return };
        let params: ParamsSpans = envelope.params;
        let round =
            Some(Box::new(RetryContext { attempt, state: state.into_vec(), answers, requested_keys: None }));
        let method = rule.name.into();
        let id = CallId(key);
        self.events.push_back(Event::Call(Call {
            id,
            channel,
            version,
            method,
            frame,
            params,
            retry: round,
        }));
    }

    /// Cancels the input requests of a parked call and delivers the call again at once (legacy).
    ///
    /// `state` is the state that the handler [kept](Self::need_input); it identifies the call. Unanswered input
    /// requests end with [`CallError::Cancelled`], and the client receives the cancellation with `reason`. Returns
    /// false if no call is parked with this state. A modern call is never parked.
    pub fn withdraw_input(&mut self, now: Instant, state: &[u8], reason: Option<&str>) -> bool {
        self.endpoint.tick(now);
        let is_match =
            |call: &InboundCall| call.parked.as_ref().is_some_and(|parked| *parked.state == *state);
        let found = self.endpoint.inbound.calls.iter().find(|(_, call)| is_match(call) && !state.is_empty());
        let Some(key) = found.map(|(key, _)| key) else { return false };
        let parked = self.endpoint.inbound.calls.get_mut(key).and_then(|record| record.parked.as_mut());
        let Some(parked) = parked else { return false };
        let open = core::mem::take(&mut parked.pending_requests);
        parked.answers.extend(open.iter().map(|(name, _)| (name.clone(), Err(CallError::Cancelled))));
        for (_, request) in open {
            self.endpoint.send_cancellation(request, reason);
            self.endpoint.outbound.calls.remove(request);
        }
        self.resume(key);
        true
    }

    /// Cancels the input requests of a parked call that is over.
    ///
    /// Returns false if the call is not parked.
    pub(super) fn unpark(&mut self, key: Key, reason: &str) -> bool {
        let parked = self.endpoint.inbound.calls.get_mut(key).and_then(|record| record.parked.take());
        let Some(parked) = parked else { return false };
        self.parked_calls = self.parked_calls.saturating_sub(1);
        for (_, request) in parked.pending_requests {
            self.endpoint.send_cancellation(request, Some(reason));
            self.endpoint.outbound.calls.remove(request);
        }
        if !parked.state.is_empty() {
            self.events.push_back(Event::ParkedCallDropped { state: parked.state });
        }
        true
    }

    /// Fails the parked calls of a channel, or of all streams of a root channel, when responses can no longer arrive.
    pub(super) fn fail_parked(&mut self, channel: Key, message: &'static str) {
        let root = self.endpoint.root_channel(channel);
        let live = self.endpoint.live_calls(root);
        let is_parked = |key: &Key| {
            let call = self.endpoint.inbound.calls.get(*key);
            call.is_some_and(|c| c.parked.is_some() && (channel == root || c.channel == channel))
        };
        let parked: Vec<Key> = live.into_iter().filter(is_parked).collect();
        for key in parked {
            self.unpark(key, "the call is over");
            self.endpoint.fail(key, &RpcError::internal(message));
        }
    }
}

/// Encodes input requests in the form of `version`.
///
/// # Errors
///
/// [`UseError::ReservedKey`] or an encoding error.
fn encode_requests(requests: &InputRequests<'_>, version: Version) -> Result<Vec<EncodedRequest>, UseError> {
    let table = shape::table(version);
    let encode = |(name, request): (&str, &InputRequest<'_>)| {
        let mut params = Vec::new();
        let members = match request {
            InputRequest::Elicit(request) => Serializer::object(&mut params, request, table),
            InputRequest::CreateMessage(request) => Serializer::object(&mut params, request, table),
            InputRequest::ListRoots(Some(request)) => Serializer::object(&mut params, request, table),
            _ => {
                params.extend_from_slice(b"{}");
                Ok(TopLevelMembers::default())
            }
        }?;
        check_reserved(members)?;
        let method = request.method().unwrap_or_default();
        Ok(EncodedRequest { name: name.into(), method, params: params.into() })
    };
    requests.iter().map(encode).collect()
}
