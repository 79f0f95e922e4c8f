//! Rounds of a modern call: input requests are reported, gathered, and sent with a retry of the call (MRTR).
//!
//! ```text
//!   call ──input_required, with requests─▶ AwaitingInput ──all answered──▶ Sent (a request of its own) ──▶ …
//!     └────input_required, state alone───▶ BackingOff (from the second in a row on) ──▶ Sent
//! ```
//! The original call stays in the table through all rounds as *superseded*: its id is used up. Each retry is an entry
//! of its own, whose outcome becomes that of the call.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::calls::request_meta;
use super::engine::Engine;
use super::event::Event;
use super::input::{Input, InputId, InputSource, PendingInputs, check_input_response};
use crate::calls::endpoint::EndpointTimer;
use crate::calls::outbound::{CallKey, CallPurpose};
use crate::calls::outbound_requests::{OutboundRequest, split_retained};
use crate::error::{CallError, UseError};
use crate::json::{self, Serializer, TopLevelMembers, object_members, write_str};
use crate::methods;
use crate::model::{InputRequest, InputRequests};
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::shape;
use crate::slab::Key;
use crate::time::Instant;

/// Input requests in both eras.
#[derive(Debug, Default)]
pub(super) struct InputState {
    /// Calls that are in a round.
    rounds: BTreeMap<Key, InputRound>,
    /// Unanswered input requests, by the serial number in their [`InputId`].
    open_inputs: BTreeMap<u64, OpenInput>,
    /// Open input requests of a legacy server.
    pub(super) legacy_inputs: PendingInputs,
    /// Ids of elicitations by URL that may be completed.
    pub(super) elicitation_ids: Vec<Box<str>>,
}

#[derive(Debug)]
struct OpenInput {
    call: Key,
    /// The server's key for the input request.
    name: Box<str>,
    method: &'static str,
}

/// The progress of a call through its rounds.
#[derive(Debug, Default)]
struct InputRound {
    /// Number of rounds so far.
    count: u32,
    /// Number of rounds in a row without input requests.
    empty_rounds: u32,
    /// Text of the latest `requestState`, which is returned unchanged (MRTR-011, MRTR-015).
    state: Option<Box<[u8]>>,
    /// Bytes that are charged for the state and the keys.
    charged_bytes: usize,
    phase: RoundPhase,
}

#[derive(Debug, Default)]
enum RoundPhase {
    /// The call waits before its next retry.
    #[default]
    BackingOff,
    /// The application has to answer input requests.
    AwaitingInput {
        /// Number of missing responses.
        missing: usize,
        /// Members of `inputResponses`.
        answers: Vec<u8>,
        /// Rest of the total timeout, which is suspended.
        remaining_total: Option<Duration>,
    },
    /// The retry was sent as this entry.
    Sent(Key),
}

impl InputState {
    /// Returns whether there is nothing to keep.
    pub(super) fn is_empty(&self) -> bool {
        self.rounds.is_empty() && self.legacy_inputs.is_empty() && self.elicitation_ids.is_empty()
    }
}

/// The content of an `InputRequiredResult`.
struct RequiredInput {
    inputs: Vec<(Box<str>, InputRequest<'static>)>,
    state: Option<Box<[u8]>>,
}

/// Parses the result strictly, because its input requests are presented to a user.
///
/// # Errors
///
/// [`CallError::InvalidInputRequest`].
fn parse_input_required(result: &RawJson, max_inputs: usize) -> Result<RequiredInput, CallError> {
    let invalid = |reason: &str| CallError::InvalidInputRequest { reason: reason.into() };
    let (mut state, mut requests) = (None, None);
    object_members(result.as_bytes(), |name, value| match name {
        b"requestState" => state = Some(value),
        b"inputRequests" => requests = Some(value),
        _ => {}
    });
    if state.is_some_and(|s| s.first() != Some(&b'"')) {
        return Err(invalid("`requestState` is not a string"));
    }
    if requests.is_none() && state.is_none() {
        return Err(invalid("it has neither `inputRequests` nor `requestState`")); // MRTR-005
    }
    let inputs = match &requests {
        None => Vec::new(),
        Some(requests) => {
            let requests = json::read::<InputRequests<'_>>(requests)
                .map_err(|e| invalid(&format!("`inputRequests`: {e}")))?;
            if requests.len() > max_inputs {
                return Err(invalid(&format!("it has more than {max_inputs} input requests")));
            }
            requests.into_iter().map(|(name, request)| (name.into(), request.into_owned())).collect()
        }
    };
    if inputs.is_empty() && state.is_none() {
        return Err(invalid("`inputRequests` is empty"));
    }
    Ok(RequiredInput { inputs, state: state.map(Into::into) })
}

impl Engine {
    /// Returns whether an outbound request may be answered by `input_required` (MRTR-003).
    pub(super) fn may_need_input(&self, key: Key) -> bool {
        let call = self.endpoint.outbound.calls.get(self.original_call(key));
        let retained = call.and_then(|c| c.retained.as_deref());
        retained.is_some_and(|retained| methods::may_need_input(split_retained(retained).0))
    }

    /// Sends a call again whose answer was lost, or which was refused for its header fields. Returns the retry.
    ///
    /// Returns `None` without effect if the request is not retained. A retry with input responses never is.
    #[cfg(feature = "http")]
    pub(super) fn resend_lost(&mut self, key: Key) -> Option<Key> {
        let call = self.original_call(key);
        let input_state = self.inputs.get_or_insert_default();
        if input_state.rounds.get(&call).is_some_and(|round| round.count > 0) {
            return None;
        }
        self.endpoint.outbound.calls.get(call).filter(|c| c.retained.is_some())?;
        self.endpoint.outbound.calls.supersede(call);
        input_state.rounds.entry(call).or_default();
        if call != key {
            self.endpoint.outbound.calls.remove(key);
        }
        self.send_retry(call);
        self.wire_key(call).filter(|retry| *retry != call)
    }

    /// Returns the original call of a retry, or the call itself.
    pub(super) fn original_call(&self, key: Key) -> Key {
        match self.endpoint.outbound.calls.get(key).map(|c| c.purpose) {
            Some(CallPurpose::Retry(call)) => call,
            _ => key,
        }
    }

    /// Handles `input_required` for a call or its retry.
    pub(super) fn receive_input_required(&mut self, key: Key, result: &RawJson) {
        let call = self.finish_retry(key);
        if let Err(error) = self.begin_round(call, result) {
            self.finish(call, Err(error));
        }
    }

    /// Removes a retry from the table. Returns the original call.
    pub(super) fn finish_retry(&mut self, key: Key) -> Key {
        let call = self.original_call(key);
        if call != key {
            self.endpoint.outbound.calls.remove(key);
        }
        call
    }

    fn begin_round(&mut self, call: Key, result: &RawJson) -> Result<(), CallError> {
        let (now, limits) = (self.endpoint.now, Arc::clone(&self.endpoint.limits));
        let Some(version) = self.peer.as_ref().map(|p| p.version) else { return Ok(()) };
        let RequiredInput { mut inputs, state } = parse_input_required(result, limits.max_inputs)?;
        for (_, request) in &mut inputs {
            self.config.check_input_request(request, version)?; // MRTR-008, MRTR-009
        }
        self.endpoint.outbound.calls.supersede(call);
        let Some(parked) = self.endpoint.outbound.calls.get_mut(call) else { return Ok(()) };
        let input_state = self.inputs.get_or_insert_default();
        let round = input_state.rounds.entry(call).or_default();
        if round.count >= limits.max_input_rounds {
            return Err(CallError::TooManyRounds { limit: limits.max_input_rounds });
        }
        round.count += 1;
        let names: usize = inputs.iter().map(|(name, _)| name.len()).sum();
        let added_bytes = names + state.as_ref().map_or(0, |s| s.len());
        let params = parked.retained.as_ref().map_or(0, |k| k.len());
        self.retained_bytes = self.retained_bytes.saturating_sub(round.charged_bytes);
        round.charged_bytes = 0;
        if self.retained_bytes.saturating_sub(params) + added_bytes > limits.max_retained_bytes {
            let reason = "it exceeds the limit `max_retained_bytes`".into();
            return Err(CallError::InvalidInputRequest { reason });
        }
        self.retained_bytes += added_bytes;
        round.charged_bytes = added_bytes;
        round.state = state;
        if inputs.is_empty() {
            round.empty_rounds = round.empty_rounds.saturating_add(1);
            round.phase = RoundPhase::BackingOff;
            let Some(doublings) = round.empty_rounds.checked_sub(2) else {
                self.send_retry(call); // MRTR-013: immediately the first time
                return Ok(());
            };
            parked.idle_deadline = now + limits.input_backoff.saturating_mul(1 << doublings.min(20)); // DEC-030
            self.endpoint.deadlines.arm(parked.deadline(), EndpointTimer::Outbound(call));
            return Ok(());
        }
        round.empty_rounds = 0;
        // A user may be asked, so this time does not count against the server.
        let remaining_total =
            (!parked.has_explicit_total).then(|| parked.total_deadline.saturating_duration_since(now));
        if remaining_total.is_some() {
            parked.total_deadline = Instant::FAR_FUTURE;
        }
        parked.idle_deadline = now + limits.input_timeout;
        self.endpoint.deadlines.arm(parked.deadline(), EndpointTimer::Outbound(call));
        round.phase =
            RoundPhase::AwaitingInput { missing: inputs.len(), answers: Vec::new(), remaining_total };
        for (name, request) in inputs {
            self.last_serial += 1;
            let id = InputId(InputSource::Round(self.last_serial));
            let method = request.method().unwrap_or_default();
            input_state.open_inputs.insert(self.last_serial, OpenInput { call, name: name.clone(), method });
            let input = Input { id, call: Some(CallKey(call)), key: Some(name), request: Box::new(request) };
            self.events.push_back(Event::Input(input));
        }
        Ok(())
    }

    pub(super) fn answer_input<T: Serialize + ?Sized>(
        &mut self,
        number: u64,
        response: &T,
    ) -> Result<(), UseError> {
        let table = self.peer.as_ref().and_then(|p| shape::table(p.version));
        let InputState { open_inputs: open, rounds, .. } =
            self.inputs.as_deref_mut().ok_or(UseError::Stale)?;
        let OpenInput { call, name, method } = open.get(&number).ok_or(UseError::Stale)?;
        let (call, round) = (*call, rounds.get_mut(call).ok_or(UseError::Stale)?);
        let RoundPhase::AwaitingInput { missing, answers, .. } = &mut round.phase else {
            return Err(UseError::Stale);
        };
        let mark = answers.len();
        if mark > 0 {
            answers.push(b',');
        }
        write_str(answers, name); // MRTR-014
        answers.push(b':');
        let start = answers.len();
        let written = Serializer::object(answers, response, table).map_err(UseError::from);
        let checked = written.and_then(|members| {
            check_input_response(method, members, answers.get(start..).unwrap_or_default())
        });
        if let Err(error) = checked {
            answers.truncate(mark);
            return Err(error);
        }
        *missing -= 1;
        let is_complete = *missing == 0;
        open.remove(&number);
        if is_complete {
            self.send_retry(call); // MRTR-012
        }
        Ok(())
    }

    pub(super) fn refuse_input(&mut self, number: u64, error: &RpcError) -> Result<(), UseError> {
        let inputs = self.inputs.as_mut().ok_or(UseError::Stale)?;
        let OpenInput { call, .. } = inputs.open_inputs.remove(&number).ok_or(UseError::Stale)?;
        self.finish(call, Err(CallError::InputRefused(error.clone())));
        Ok(())
    }

    /// Sends a retry of a call, with a new id and new metadata (MRTR-016, MRTR-019).
    fn send_retry(&mut self, call: Key) {
        let now = self.endpoint.now;
        let Some(input_state) = &mut self.inputs else { return };
        let Some(round) = input_state.rounds.get_mut(&call) else { return };
        let Some(parked) = self.endpoint.outbound.calls.get_mut(call) else { return };
        let (answers, remaining_total) = match core::mem::take(&mut round.phase) {
            RoundPhase::AwaitingInput { answers, remaining_total, .. } => (answers, remaining_total),
            _ => (Vec::new(), None),
        };
        if let Some(remaining_total) = remaining_total {
            parked.total_deadline = now + remaining_total;
        }
        parked.idle_deadline = Instant::FAR_FUTURE;
        let (retry, progress) = (parked.new_retry(now, call), parked.wants_progress);
        let Some(retained) = parked.retained.take() else { return };
        let key = self.endpoint.outbound.calls.insert(retry);
        round.phase = RoundPhase::Sent(key);
        let (method, params, meta) = split_retained(&retained);
        let meta = meta.map(|meta| RawJson::trusted(Bytes::copy_from_slice(meta)));
        let base_meta = request_meta(self.peer.as_deref(), &self.config, self.notifications.as_deref());
        let request = OutboundRequest { method, base_meta, meta: meta.as_ref(), wants_progress: progress };
        let sent = self.endpoint.send_request(key, &request, |out| {
            let start = out.len() + 1;
            out.extend_from_slice(params);
            let mut member = |name: &str, parts: &[&[u8]]| {
                if out.len() > start {
                    out.push(b',');
                }
                write_str(out, name);
                out.push(b':');
                parts.iter().for_each(|part| out.extend_from_slice(part));
            };
            if !answers.is_empty() {
                member("inputResponses", &[b"{", &answers, b"}"]);
            }
            if let Some(state) = &round.state {
                member("requestState", &[state]);
            }
            out.push(b'}');
            Ok(TopLevelMembers::default())
        });
        if let Some(parked) = self.endpoint.outbound.calls.get_mut(call) {
            parked.retained = Some(retained);
        }
        if let Err(error) = sent {
            self.finish(call, Err(CallError::Refused(error)));
        }
    }

    /// Handles a deadline of a call that is in a round.
    pub(super) fn handle_round_deadline(&mut self, call: Key) {
        let Some(parked) = self.endpoint.outbound.calls.get(call) else { return };
        // A legacy server may wait for input while a call was sent a second time.
        let waited = self
            .inputs
            .as_ref()
            .map_or(Duration::ZERO, |inputs| inputs.legacy_inputs.total_wait(self.endpoint.now));
        let extension = if parked.has_explicit_total { Duration::ZERO } else { waited };
        let total_at = parked.total_deadline + extension;
        if self.endpoint.now >= total_at {
            return self.abandon(call, Some("no answer in time"), CallError::TotalTimedOut);
        }
        if self.endpoint.now >= parked.total_deadline {
            return self.endpoint.deadlines.arm(total_at, EndpointTimer::Outbound(call));
        }
        let round = self.inputs.as_ref().and_then(|inputs| inputs.rounds.get(&call));
        match round.map(|r| &r.phase) {
            Some(RoundPhase::BackingOff) => self.send_retry(call),
            Some(RoundPhase::AwaitingInput { .. }) => self.finish(call, Err(CallError::InputTimedOut)),
            Some(RoundPhase::Sent(_)) | None => {}
        }
    }

    /// Returns the entry under which a call is in flight, if it is.
    pub(super) fn wire_key(&self, call: Key) -> Option<Key> {
        match self.inputs.as_ref().and_then(|inputs| inputs.rounds.get(&call)).map(|r| &r.phase) {
            None => Some(call),
            Some(RoundPhase::Sent(key)) => Some(*key),
            Some(_) => None,
        }
    }

    /// Removes the rounds of a call that has ended, and withdraws its input requests.
    pub(super) fn end_rounds(&mut self, call: Key) {
        let Some(inputs) = &mut self.inputs else { return };
        let Some(round) = inputs.rounds.remove(&call) else { return };
        self.retained_bytes = self.retained_bytes.saturating_sub(round.charged_bytes);
        match round.phase {
            RoundPhase::BackingOff => {}
            RoundPhase::Sent(key) => drop(self.endpoint.outbound.calls.remove(key)),
            RoundPhase::AwaitingInput { .. } => {
                let ended = inputs.open_inputs.iter().filter(|(_, open)| open.call == call);
                let ended: Vec<u64> = ended.map(|(number, _)| *number).collect();
                for number in &ended {
                    inputs.open_inputs.remove(number);
                }
                for number in ended {
                    self.withdraw_input(InputId(InputSource::Round(number)));
                }
            }
        }
    }
}
