//! Input requests of a handler: sent to the client, gathered, delivered with the call again (MRTR).
//!
//! In the modern era the server keeps nothing. The input requests are the answer to the call, state travels sealed, and
//! the client's retry is a new call. In the legacy era the call is [parked](super::parked).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::engine::Engine;
use super::event::Call;
use super::input_tasks::QuestionTasks;
use super::parked::ParkedCalls;
use super::reply::{MEMBERS_ROOM, RESULT_CAPACITY};
use super::retry::{CarriedAnswer, carried_answers};
use crate::built::{Conversing, Parking, Part};
use crate::error::UseError;
use crate::identity::Capabilities;
use crate::json::{EncodeError, Serializer, room, write_str};
use crate::limits::Limit;
use crate::methods;
use crate::model::{InputRequest, InputRequests};
use crate::raw::RawJson;
use crate::rpc::{RpcError, encode};
use crate::shape;
use crate::slab::Key;
use crate::time::Instant;
use crate::version::Version;

impl Engine {
    /// Sends input requests for a call. The call is delivered again with the responses.
    ///
    /// In the modern era, the call is answered with `requests` and the sealed `state` (MRTR-001, MRTR-004, MRTR-021).
    /// The client's retry is the next delivery, and a client need not retry (MRTR-025). In the legacy era, each of
    /// `requests` is sent as a request, and the call is delivered again when all of them have ended. They wait for
    /// `notifications/initialized` (LIFE-006), at most until the call is
    /// [`Limits::max_call_age`](crate::Limits::max_call_age) old; then it ends with an error.
    ///
    /// When it is delivered again, in both eras, the call has a new key, [`Call::answer`] returns the responses so far,
    /// and [`Call::state`] returns `state`.
    ///
    /// # Errors
    ///
    /// Nothing was sent, and the call stays open.
    ///
    /// - [`UseError::Stale`]: the call has ended. [`UseError::Closed`]: its client is gone.
    /// - [`UseError::ReservedMethod`]: the method is not `tools/call`, `prompts/get` or `resources/read` (MRTR-002,
    ///   MRTR-003), or both `requests` and `state` are empty (MRTR-005).
    /// - [`UseError::MissingPeerCapability`]: the client did not declare the capability (MRTR-009, ELIC-005, SAMP-002,
    ///   SAMP-008, ROOT-010), or the crate is built without the feature `conversations`.
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
        begin_round(self, now, call, Round { requests, state, kept: &[], tasks: None })
    }

    /// Cancels the input requests of a parked call and delivers the call again at once (legacy).
    ///
    /// `state` is the state that the handler [kept](Self::need_input); it identifies the call. Unanswered input
    /// requests end with [`CallError::Cancelled`](crate::CallError::Cancelled), and the client receives the cancellation with `reason`. Returns
    /// false if no call is parked with this state. A modern call is never parked.
    pub fn withdraw_input(&mut self, now: Instant, state: &[u8], reason: Option<&str>) -> bool {
        self.endpoint.tick(now);
        let parked = self.parked.as_deref_mut();
        let resumed = parked.and_then(|parked| parked.withdraw(&mut self.endpoint, state, reason));
        let is_found = resumed.is_some();
        self.events.extend(resumed);
        is_found
    }

    /// Cancels the input requests of a parked call that is over, or ends what a call waits for at a task.
    ///
    /// Returns false if the call is not parked and waits for no task.
    pub(super) fn unpark(&mut self, call: Key, reason: &str) -> bool {
        if self.with_tasks(|tasks, cx| tasks.release(cx, call)) == Some(true) {
            return true;
        }
        let parked = self.parked.as_deref_mut();
        let Some(dropped) = parked.and_then(|parked| parked.unpark(&mut self.endpoint, call, reason)) else {
            return false;
        };
        self.events.extend(dropped);
        true
    }

    /// Fails the parked calls of a channel, or of all streams of a root channel, when responses can no longer arrive.
    pub(super) fn fail_parked(&mut self, channel: Key, message: &'static str) {
        while let Some(call) = self.parked.as_mut().and_then(|p| p.find_on(&self.endpoint, channel)) {
            self.unpark(call, "the call is over");
            self.endpoint.fail(call, &RpcError::internal(message));
        }
    }
}

/// Answers a call of the modern era with its input requests.
fn answer_input_required(
    engine: &mut Engine,
    call: &Call,
    requests: &InputRequests<'_>,
    state: &[u8],
    answers: &[CarriedAnswer<'_>],
) -> Result<(), UseError> {
    engine.sealing.init(&engine.config);
    let sealed = engine.sealing.seal(&engine.endpoint, &engine.config, call, requests, state, answers)?;
    let endpoint = &mut engine.endpoint;
    let reserve = endpoint.limits.hold_reserve().ok_or(EncodeError::OutOfMemory)?;
    let record = endpoint.inbound.calls.get(call.id.0).ok_or(UseError::Stale)?;
    let c = endpoint.channels.get_mut(record.channel).ok_or(UseError::Stale)?;
    let (channel, mark) = (record.channel, c.outbox.mark());
    let out = c.outbox.tail();
    room(out, RESULT_CAPACITY)?;
    encode::result_head(out, &record.id);
    out.extend_from_slice(b"{\"resultType\":\"input_required\"");
    if !requests.is_empty() {
        out.extend_from_slice(b",\"inputRequests\":");
        if let Err(e) = Serializer::object(out, requests, shape::table(call.version)) {
            c.outbox.rollback(mark);
            return Err(e.into());
        }
    }
    let sealed_bytes = sealed.as_ref().map_or(0, |sealed| sealed.len());
    if let Err(e) = room(out, sealed_bytes + engine.config.result_meta.len() + MEMBERS_ROOM) {
        c.outbox.rollback(mark);
        return Err(e.into());
    }
    if let Some(sealed) = sealed {
        out.extend_from_slice(b",\"requestState\":");
        write_str(out, &sealed);
    }
    if !engine.config.result_meta.is_empty() {
        out.extend_from_slice(b",\"_meta\":{");
        out.extend_from_slice(&engine.config.result_meta);
        out.push(b'}');
    }
    out.push(b'}');
    encode::end(out);
    drop(reserve);
    endpoint.commit_answer(call.id.0, mark)?;
    engine.close_if_finished(channel);
    Ok(())
}

/// Input requests of a handler, and what goes with them.
#[derive(Clone, Copy)]
pub(super) struct Round<'a> {
    pub(super) requests: &'a InputRequests<'a>,
    pub(super) state: &'a [u8],
    /// Values for the next delivery.
    pub(super) kept: &'a [(Box<str>, RawJson)],
    /// The wish that the requests run as tasks.
    pub(super) tasks: Option<QuestionTasks>,
}

/// Does what [`Engine::need_input`] does, and keeps values for the next delivery.
pub(super) fn begin_round(
    engine: &mut Engine,
    now: Instant,
    call: &Call,
    round: Round<'_>,
) -> Result<(), UseError> {
    let Round { requests, state, kept, tasks } = round;
    engine.endpoint.tick(now);
    if !Conversing::IS_BUILT {
        return Err(refuse_round(call, requests));
    }
    if engine.endpoint.inbound.calls.get(call.id.0).is_none() {
        return Err(UseError::Stale);
    }
    if !methods::may_need_input(&call.method) || (requests.is_empty() && state.is_empty()) {
        return Err(UseError::ReservedMethod(call.method().into()));
    }
    if call.attempt() >= engine.endpoint.limits.max_input_rounds {
        return Err(UseError::Full(Limit::InputRounds));
    }
    let answers = carried_answers(call.retry.as_deref(), requests, kept);
    if requests.len() + answers.len() > engine.endpoint.limits.max_inputs {
        return Err(UseError::Full(Limit::Inputs));
    }
    let is_run = engine.is_run(call.id.0);
    let declared = Capabilities::read(engine.peer(call).capabilities.as_bytes());
    for (key, request) in requests.iter() {
        if is_run && call.version.is_legacy() {
            // The client that collects the result is asked, which may be another one.
            let needed = request.required_capabilities(call.version);
            check_input_request(key, request, &needed, call.version)?;
        } else {
            check_input_request(key, request, &declared, call.version)?;
        }
    }
    if is_run {
        let asked = engine.with_tasks(|tasks, cx| tasks.need_input(cx, call, requests, state, &answers));
        return asked.unwrap_or(Err(UseError::Stale));
    }
    let marker = Parking::get().filter(|_| call.version.is_legacy());
    let Some(marker) = marker else { return answer_input_required(engine, call, requests, state, &answers) };
    let parked = engine.parked.get_or_insert_with(|| Part::new(marker, Box::new(ParkedCalls::new())));
    let tasks = tasks.map(|tasks| (tasks, &declared));
    let resumed = parked.park(&mut engine.endpoint, call, requests, state, &answers, tasks)?;
    engine.events.extend(resumed);
    Ok(())
}

/// Returns the refusal of a round if requests of a server are not built: the client counts as one without capabilities.
fn refuse_round(call: &Call, requests: &InputRequests<'_>) -> UseError {
    let needed = requests.iter().next().map(|(_, request)| request.required_capabilities(call.version));
    let missing = needed.and_then(|needed| needed.iter().last());
    missing.map_or_else(|| UseError::ReservedMethod(call.method().into()), UseError::MissingPeerCapability)
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
