//! Input requests of a handler: sent to the client, gathered, delivered with the call again (MRTR).
//!
//! In the modern era the server keeps nothing. The input requests are the answer to the call, state travels sealed, and
//! the client's retry is a new call. In the legacy era the call is *parked*: it stays unanswered while its input
//! requests are in flight, and is delivered again when all of them have ended.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

use super::engine::Engine;
use super::event::{Call, Event};
#[cfg(feature = "crypto")]
use super::sealer::UNANSWERED;
use crate::calls::inbound::{CallId, InboundCall, InputOutcome, ParkedCall};
use crate::calls::outbound::{CallOptions, CallPurpose, OutboundCall};
use crate::calls::outbound_requests::OutboundRequest;
use crate::error::{CallError, UseError};
use crate::identity::Capabilities;
use crate::json::{Serializer, Span, object_members, write_str};
use crate::limits::Limit;
use crate::methods;
use crate::model::{InputRequest, InputRequests};
use crate::raw::RawJson;
use crate::rpc::envelope::{self, ParamsSpans};
use crate::rpc::{RpcError, encode};
use crate::shape;
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::{Era, Version};

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

/// A session may use at most one part in this many of the limits that all sessions share.
const SESSION_SHARE: usize = 4;

impl RetryContext {
    /// Returns the responses that are carried into the next round: all except those that are requested again.
    fn carried_answers<'a>(
        &'a self,
        requests: &InputRequests<'_>,
    ) -> impl Iterator<Item = &'a (Box<str>, InputOutcome)> {
        let is_requested = |key: &str| requests.iter().any(|(other, _)| other == key);
        self.answers.iter().filter(move |(key, _)| !is_requested(key))
    }
}

impl Call {
    /// Returns how often this call was delivered before. Each [`need_input`](Engine::need_input) adds one.
    ///
    /// Always 0 for a modern call without sealed state ([`Config::seal`](super::Config::seal)).
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.retry.as_ref().map_or(0, |round| round.attempt)
    }

    /// Returns the state that the handler kept at an earlier delivery.
    #[must_use]
    pub fn state(&self) -> Option<&[u8]> {
        self.retry.as_ref().map(|round| &*round.state).filter(|state| !state.is_empty())
    }

    /// Returns the response to an input request of this round or an earlier one, by its key.
    ///
    /// An error means that the client refused or did not answer in time. It occurs in the legacy era only, because a
    /// modern client does not repeat the call then. Responses are returned as the client wrote them and are not
    /// validated (MRTR-020, MRTR-027).
    #[must_use]
    pub fn answer(&self, key: &str) -> Option<Result<&RawJson, &CallError>> {
        let (_, answer) = self.retry.as_ref()?.answers.iter().find(|(other, _)| **other == *key)?;
        Some(answer.as_ref())
    }
}

impl Engine {
    /// Sends input requests for a call. The call is delivered again with the responses.
    ///
    /// In the modern era, the call is answered with `requests` and the sealed `state` (MRTR-001, MRTR-004, MRTR-021).
    /// The client's retry is the next delivery, and a client need not retry (MRTR-025). In the legacy era, each of
    /// `requests` is sent as a request, and the call is delivered again when all of them have ended. In both eras the
    /// call has a new key then, [`Call::answer`] returns the responses so far, and [`Call::state`] returns `state`.
    ///
    /// # Errors
    ///
    /// Nothing was sent, and the call stays open.
    ///
    /// - [`UseError::Stale`]: the call has ended. [`UseError::Closed`]: its client is gone.
    /// - [`UseError::ReservedMethod`]: the method is not `tools/call`, `prompts/get` or `resources/read` (MRTR-002,
    ///   MRTR-003), or both `requests` and `state` are empty (MRTR-005).
    /// - [`UseError::MissingPeerCapability`]: the client did not declare the capability (MRTR-009, ELIC-005, SAMP-002,
    ///   SAMP-008, ROOT-010).
    /// - [`UseError::NotInVersion`]: the revision has no form for a request.
    /// - [`UseError::InvalidInputRequest`]: a request or its key is not valid.
    /// - [`UseError::Full`]: one of [`Limits::max_input_rounds`](crate::Limits::max_input_rounds),
    ///   [`Limits::max_inputs`](crate::Limits::max_inputs) (with earlier responses) and
    ///   [`Limits::max_request_state`](crate::Limits::max_request_state) is exceeded. For a legacy client also
    ///   [`Limits::max_pending_calls`](crate::Limits::max_pending_calls) and
    ///   [`Limits::max_retained_bytes`](crate::Limits::max_retained_bytes).
    /// - [`UseError::NoSealKeys`]: state or responses have to be sealed, and no key is configured.
    pub fn need_input(
        &mut self,
        now: Instant,
        call: &Call,
        requests: &InputRequests<'_>,
        state: &[u8],
    ) -> Result<(), UseError> {
        self.endpoint.tick(now);
        if self.endpoint.inbound.calls.get(call.id.0).is_none() {
            return Err(UseError::Stale);
        }
        if !methods::may_need_input(&call.method) || (requests.is_empty() && state.is_empty()) {
            return Err(UseError::ReservedMethod(call.method().into()));
        }
        if call.attempt() >= self.endpoint.limits.max_input_rounds {
            return Err(UseError::Full(Limit::InputRounds));
        }
        let empty = RetryContext::default();
        let carried = call.retry.as_deref().unwrap_or(&empty).carried_answers(requests).count();
        if requests.len() + carried > self.endpoint.limits.max_inputs {
            return Err(UseError::Full(Limit::Inputs));
        }
        let declared = Capabilities::from_json(&self.peer(call).capabilities);
        for (key, request) in requests.iter() {
            check_input_request(key, request, &declared, call.version)?;
        }
        match call.version.era() {
            Era::Modern => self.answer_input_required(call, requests, state),
            Era::Legacy => self.park(call, requests, state),
        }
    }

    // ---- modern era ----

    fn answer_input_required(
        &mut self,
        call: &Call,
        requests: &InputRequests<'_>,
        state: &[u8],
    ) -> Result<(), UseError> {
        #[cfg(feature = "crypto")]
        self.init_sealer();
        let sealed = self.seal_state(call, requests, state)?;
        let endpoint = &mut self.endpoint;
        let record = endpoint.inbound.calls.get(call.id.0).ok_or(UseError::Stale)?;
        let c = endpoint.channels.get_mut(record.channel).ok_or(UseError::Stale)?;
        let (channel, mark) = (record.channel, c.outbox.mark());
        let out = c.outbox.tail();
        encode::result_head(out, &record.id);
        out.extend_from_slice(b"{\"resultType\":\"input_required\"");
        if !requests.is_empty() {
            out.extend_from_slice(b",\"inputRequests\":");
            if let Err(e) = Serializer::object(out, requests, shape::table(call.version)) {
                c.outbox.rollback(mark);
                return Err(e.into());
            }
        }
        if let Some(sealed) = sealed {
            out.extend_from_slice(b",\"requestState\":");
            write_str(out, &sealed);
        }
        if !self.config.result_meta.is_empty() {
            out.extend_from_slice(b",\"_meta\":{");
            out.extend_from_slice(&self.config.result_meta);
            out.push(b'}');
        }
        out.push(b'}');
        encode::end(out);
        endpoint.commit_answer(call.id.0, mark);
        self.close_if_finished(channel);
        Ok(())
    }

    /// Returns the sealed state for the client, or `None` if there is nothing to seal and no key.
    ///
    /// # Errors
    ///
    /// [`UseError::NoSealKeys`], or an error of the sealer.
    fn seal_state(
        &self,
        call: &Call,
        requests: &InputRequests<'_>,
        state: &[u8],
    ) -> Result<Option<String>, UseError> {
        let empty = RetryContext::default();
        let round = call.retry.as_deref().unwrap_or(&empty);
        let carried = round
            .carried_answers(requests)
            .filter_map(|(key, answer)| Some((&**key, answer.as_ref().ok()?.as_str())));
        #[cfg(feature = "crypto")]
        if let Some(keys) = &self.sealer {
            let requested = requests.iter().map(|(key, _)| (key, UNANSWERED));
            let answers = carried.chain(requested).collect();
            let record =
                crate::seal::RequestState { attempt: round.attempt.saturating_add(1), state, answers };
            // Rounded up to whole seconds, so that state never expires too early.
            let rounding = core::time::Duration::from_micros(999_999);
            let expires = self
                .config
                .anchor
                .unix_secs(self.endpoint.now + self.endpoint.limits.input_timeout + rounding);
            let principal = self.principal(call.channel);
            return keys
                .seal(call, principal, &record, expires, self.endpoint.limits.max_request_state)
                .map(Some);
        }
        if state.is_empty() && carried.count() == 0 { Ok(None) } else { Err(UseError::NoSealKeys) }
    }

    /// Returns state and responses of a modern retry.
    ///
    /// # Errors
    ///
    /// The error response to send.
    pub(super) fn read_retry(&self, call: &Call) -> Result<Option<Box<RetryContext>>, RpcError> {
        let (inputs, state) = (call.params.input_responses, call.params.request_state);
        if (inputs.is_empty() && state.is_empty()) || !methods::may_need_input(&call.method) {
            return Ok(None);
        }
        let mut round = self.unseal(call, state)?;
        if let Some(inputs) = inputs.slice(&call.frame) {
            if inputs.first() != Some(&b'{') {
                return Err(RpcError::invalid_params("`params.inputResponses` is not an object")); // MRTR-027
            }
            let max_inputs = self.endpoint.limits.max_inputs;
            let mut invalid_key = None;
            let requested_keys = round.requested_keys.take();
            object_members(inputs, |key, value| {
                let key = core::str::from_utf8(key).unwrap_or_default();
                if requested_keys.as_ref().is_some_and(|keys| keys.iter().all(|other| **other != *key)) {
                    return; // MRTR-028
                }
                if value.first() != Some(&b'{') {
                    invalid_key.get_or_insert_with(|| String::from(key));
                } else if round.answers.len() < max_inputs && !round.answers.iter().any(|(k, _)| **k == *key)
                {
                    // The response of an earlier round is not replaced.
                    let value = RawJson::trusted(call.frame.slice_ref(value));
                    round.answers.push((key.into(), Ok(value)));
                }
            });
            if let Some(key) = invalid_key {
                let key = crate::rpc::clip(&key);
                let what = format!("`params.inputResponses.{key}` is not an object");
                return Err(RpcError::invalid_params(what));
            }
        }
        Ok(Some(Box::new(round)))
    }

    /// Opens the sealed state of an earlier round (MRTR-020, MRTR-021, MRTR-023).
    ///
    /// # Errors
    ///
    /// The error response to send.
    fn unseal(&self, call: &Call, state: Span) -> Result<RetryContext, RpcError> {
        if state.is_empty() {
            // A server without keys sends no state, so the responses arrive without it.
            return Ok(RetryContext::default());
        }
        let Some(text) = call.slice(state).and_then(|text| text.string()) else {
            return Err(RpcError::invalid_params("`params.requestState` is not a string"));
        };
        let opened = self.open_sealed(call, &text);
        // The message is the same for every reason, so a forger learns nothing.
        opened.ok_or_else(|| RpcError::invalid_params("`params.requestState` is not valid: begin again"))
    }

    #[cfg(feature = "crypto")]
    fn open_sealed(&self, call: &Call, text: &str) -> Option<RetryContext> {
        let now = self.config.anchor.unix_secs(self.endpoint.now);
        let principal = self.principal(call.channel);
        self.sealer.as_ref()?.open(call, principal, text, now, self.endpoint.limits.max_request_state)
    }

    #[cfg(not(feature = "crypto"))]
    fn open_sealed(&self, _: &Call, _: &str) -> Option<RetryContext> {
        None
    }

    // ---- legacy era ----

    /// Sends the input requests and parks the call until all of them have ended.
    fn park(&mut self, call: &Call, requests: &InputRequests<'_>, state: &[u8]) -> Result<(), UseError> {
        let limits = alloc::sync::Arc::clone(&self.endpoint.limits);
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
        let table = shape::table(call.version);
        // Serialized before anything is sent, so that either all requests are sent or none.
        let mut written = Vec::with_capacity(requests.len());
        for (key, request) in requests.iter() {
            let mut params = Vec::new();
            let members = match request {
                InputRequest::Elicit(request) => Serializer::object(&mut params, request, table),
                InputRequest::CreateMessage(request) => Serializer::object(&mut params, request, table),
                InputRequest::ListRoots(Some(request)) => Serializer::object(&mut params, request, table),
                _ => {
                    params.extend_from_slice(b"{}");
                    Ok(crate::json::TopLevelMembers::default())
                }
            }?;
            written.push((key, request.method().unwrap_or_default(), params, members));
        }
        let round = call.retry.as_deref();
        let empty = RetryContext::default();
        let carried = round.unwrap_or(&empty).carried_answers(requests).cloned().collect();
        let key = self.endpoint.rekey(call.id.0).ok_or(UseError::Stale)?;
        let options = CallOptions::new().timeout(limits.input_timeout).total_timeout(limits.input_timeout);
        let mut pending = Vec::with_capacity(written.len());
        for (name, method, params, members) in written {
            let request =
                OutboundCall::new(self.endpoint.now, channel, CallPurpose::Input(key), &options, &limits);
            let out = self.endpoint.outbound.calls.insert(request);
            let request = OutboundRequest { method, base_meta: None, meta: None, wants_progress: false };
            let sent = self.endpoint.send_request(out, &request, |to| {
                to.extend_from_slice(&params);
                Ok(members)
            });
            match sent {
                Ok(()) => pending.push((Box::<str>::from(name), out)),
                Err(_) => _ = self.endpoint.outbound.calls.remove(out),
            }
        }
        let attempt = call.attempt().saturating_add(1);
        let parked = ParkedCall {
            frame: (&*call.frame).into(),
            attempt,
            state: state.into(),
            answers: carried,
            pending_requests: pending,
        };
        let has_no_requests = parked.pending_requests.is_empty();
        if let Some(record) = self.endpoint.inbound.calls.get_mut(key) {
            record.expires_at = Instant::FAR_FUTURE;
            record.parked = Some(Box::new(parked));
            self.parked_calls += 1;
        }
        if has_no_requests {
            // There are no requests: the call only wanted to be delivered again.
            self.resume(key);
        }
        Ok(())
    }

    /// Returns the bytes that are kept for all parked calls, or for those of one session.
    fn parked_bytes(&self, root: Option<Key>) -> usize {
        let calls = self.endpoint.inbound.calls.iter().map(|(_, call)| call);
        let is_counted =
            |call: &&InboundCall| root.is_none_or(|root| self.endpoint.root_channel(call.channel) == root);
        calls.filter(is_counted).filter_map(|call| call.parked.as_deref()).map(ParkedCall::byte_len).sum()
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
        self.endpoint.deadlines.arm(expires, crate::calls::endpoint::EndpointTimer::CallAge(key));
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

    /// Cancels the input requests of a parked call and delivers the call again immediately (legacy).
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

    /// Cancels the input requests of a parked call that has ended.
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
        let Some(c) = self.endpoint.channels.get(root) else { return };
        let is_parked = |key: &Key| {
            let call = self.endpoint.inbound.calls.get(*key);
            call.is_some_and(|c| c.parked.is_some() && (channel == root || c.channel == channel))
        };
        let parked: Vec<Key> = c.live_calls.iter().copied().filter(is_parked).collect();
        for key in parked {
            self.unpark(key, "the call is over");
            self.endpoint.fail(key, &RpcError::internal(message));
        }
    }

    /// Notifies a client that an elicitation by URL is complete (2025-11-25 only; ELIC-025, ELIC-026).
    ///
    /// `id` is the `elicitationId` of a request that was sent to this client. Returns false if the revision has no such
    /// notification, or if [`Limits::outbox_high_water`](crate::Limits::outbox_high_water) bytes wait to be sent. Over
    /// HTTP, use the channel of [`SessionOpened`](super::Event::SessionOpened): that of a call ends with the call.
    pub fn notify_elicitation_complete(&mut self, now: Instant, channel: ChannelId, id: &str) -> bool {
        self.endpoint.tick(now);
        let root = self.endpoint.root_channel(channel.0);
        let session = self.endpoint.channels.get(root).and_then(|c| c.role.session.as_ref());
        if session.is_none_or(|s| s.version != Version::V2025_11_25) {
            return false;
        }
        let high_water = self.endpoint.limits.outbox_high_water;
        if self.endpoint.channels.get(channel.0).is_none_or(|c| c.outbox.len() >= high_water) {
            return false;
        }
        self.endpoint.send(channel.0, |out| {
            encode::notification_head(out, methods::ELICITATION_COMPLETE);
            out.extend_from_slice(b",\"params\":{\"elicitationId\":");
            write_str(out, id);
            out.push(b'}');
            encode::end(out);
        });
        true
    }
}

/// Checks that an input request is valid and that the client declared the capability for it.
///
/// # Errors
///
/// [`UseError::InvalidInputRequest`], [`UseError::MissingPeerCapability`] or [`UseError::NotInVersion`].
fn check_input_request(
    key: &str,
    request: &InputRequest<'_>,
    declared: &Capabilities,
    version: Version,
) -> Result<(), UseError> {
    let invalid = |reason: String| UseError::InvalidInputRequest { key: key.into(), reason };
    if matches!(request, InputRequest::Other(_)) {
        return Err(invalid("the request type is unknown".into())); // MRTR-008
    }
    if !InputRequest::is_valid_key(key) {
        return Err(invalid("a key must have 1 to 64 characters and no control characters".into()));
    }
    request.validate().map_err(|error| invalid(format!("{error}")))?;
    // The most specific missing capability; it includes the others.
    let Some(missing) = declared.missing(&request.required_capabilities(version)).iter().last() else {
        return Ok(());
    };
    // If the revision lacks the feature, no client can declare it, so that error is more useful.
    Serializer::object(&mut Vec::new(), request, shape::table(version))?;
    Err(UseError::MissingPeerCapability(missing))
}
