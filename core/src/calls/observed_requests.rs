//! Observed requests and sessions, from their beginning to their end.
//!
//! Without an observer, each function is a comparison.

use super::endpoint::Endpoint;
use super::role::Role;
use crate::error::{CallError, Fault};
use crate::observe::{Observation, OpenRequest, RequestedParams, SessionEnd};
use crate::raw::RawJson;
use crate::rpc::{RequestId, RpcError};
use crate::slab::Key;
use crate::sync::Arc;
use crate::tap::Direction;
use crate::version::Version;

/// Begins the session of a channel, in which requests have this revision.
#[inline]
pub(crate) fn begin_session<R: Role>(endpoint: &mut Endpoint<R>, channel: Key, version: Version) {
    if let Some(observing) = &mut endpoint.observing {
        observing.sessions.insert(channel, (version, endpoint.now));
    }
}

/// Ends the session of a channel, if it had one.
#[inline]
pub(crate) fn end_session<R: Role>(
    endpoint: &mut Endpoint<R>,
    channel: Key,
    direction: Direction,
    fault: &Fault,
) {
    let Some(observing) = &mut endpoint.observing else { return };
    let Some((version, began_at)) = observing.sessions.remove(&channel) else { return };
    let is_fault = !matches!(fault, Fault::Eof | Fault::Closed);
    let ended_at = endpoint.now;
    observing.observer.session_ended(&SessionEnd { direction, version, began_at, ended_at, is_fault });
}

/// Goes on with a message that was received before, and has waited.
#[inline]
pub(crate) fn resume_message<R: Role>(endpoint: &mut Endpoint<R>, message: &[u8]) {
    if let Some(observing) = &mut endpoint.observing {
        observing.record_received(message);
    }
}

/// Observes a request that is a call now.
#[inline]
pub(crate) fn observe_call<R: Role>(
    endpoint: &mut Endpoint<R>,
    key: Key,
    method: &str,
    params: RequestedParams<'_>,
) -> Option<Arc<dyn Observation>> {
    let observing = endpoint.observing.as_deref_mut()?;
    let call = endpoint.inbound.calls.get(key)?;
    let open = observing.begin_received(endpoint.now, &call.id, method, params, Some(call.version))?;
    let observation = Arc::clone(&open.observation);
    endpoint.inbound.observed.get_or_insert_default().insert(key, open);
    Some(observation)
}

/// Observes a request that the engine refuses or answers by itself.
#[inline]
pub(crate) fn begin_direct_answer<R: Role>(
    endpoint: &mut Endpoint<R>,
    id: &RequestId,
    method: &str,
    params: RequestedParams<'_>,
    version: impl FnOnce(&Endpoint<R>) -> Option<Version>,
) {
    if endpoint.observing.is_none() {
        return;
    }
    let version = version(endpoint);
    if let Some(observing) = &mut endpoint.observing {
        observing.direct = observing.begin_received(endpoint.now, id, method, params, version);
    }
}

/// Continues a request that the engine cannot answer at once as this call.
#[cfg_attr(
    not(feature = "crypto"),
    allow(dead_code, reason = "only requests about tasks wait, which need `Entropy`")
)]
#[inline]
pub(crate) fn continue_direct_answer<R: Role>(endpoint: &mut Endpoint<R>, key: Key) {
    if let Some(open) = endpoint.observing.as_deref_mut().and_then(|observing| observing.direct.take()) {
        endpoint.inbound.observed.get_or_insert_default().insert(key, open);
    }
}

/// Ends a request that the engine has answered by itself, unless it continues as a call.
#[inline]
pub(crate) fn end_direct_answer<R: Role>(endpoint: &mut Endpoint<R>) {
    let Some(observing) = endpoint.observing.as_deref_mut() else { return };
    let Some(open) = observing.direct.take() else { return };
    let at = endpoint.now;
    match observing.sent_error.take() {
        Some(error) => open.end_with_error(at, observing.sent_bytes, &CallError::Rpc(error)),
        None => open.end_with_result(at, observing.sent_bytes, b""),
    }
}

/// Ends a call that is answered with the message at the end of its outbox.
#[inline]
pub(super) fn observe_answer<R: Role>(endpoint: &mut Endpoint<R>, key: Key, mark: usize) {
    let Some(open) = endpoint.inbound.take_observed(key) else { return };
    let channel = endpoint.inbound.calls.get(key).and_then(|call| endpoint.channels.get_mut(call.channel));
    let response = channel.and_then(|c| c.outbox.tail().get(mark..));
    open.end_with_response(endpoint.now, response.unwrap_or_default());
}

/// Ends a call that was answered with an error.
#[cold]
pub(crate) fn observe_failure<R: Role>(endpoint: &Endpoint<R>, open: OpenRequest, error: &RpcError) {
    let bytes = endpoint.observing.as_ref().map_or(0, |observing| observing.sent_bytes);
    open.end_with_error(endpoint.now, bytes, &CallError::Rpc(error.clone()));
}

/// Ends a call that was answered with this result, in `before` bytes and the segment that was sent last.
#[inline]
pub(crate) fn observe_sent_result<R: Role>(
    endpoint: &Endpoint<R>,
    open: Option<OpenRequest>,
    before: usize,
    result: &[u8],
) {
    let (Some(open), Some(observing)) = (open, &endpoint.observing) else { return };
    open.end_with_result(endpoint.now, before + observing.sent_bytes, result);
}

/// Ends a call that gets no answer.
#[inline]
pub(super) fn observe_cancellation<R: Role>(endpoint: &mut Endpoint<R>, key: Key) {
    if let Some(open) = endpoint.inbound.take_observed(key) {
        open.end_with_error(endpoint.now, 0, &CallError::Cancelled);
    }
}

/// Ends an outbound request, if it has not ended before.
#[inline]
pub(crate) fn observe_outcome<R: Role>(
    endpoint: &mut Endpoint<R>,
    key: Key,
    outcome: Result<&RawJson, &CallError>,
) {
    let Some(observing) = &endpoint.observing else { return };
    let Some(open) = endpoint.outbound.calls.take_observed(key) else { return };
    match outcome {
        Ok(result) => open.end_with_result(endpoint.now, observing.received_bytes, result.as_bytes()),
        Err(error) => {
            let bytes = if matches!(error, CallError::Rpc(_)) { observing.received_bytes } else { 0 };
            open.end_with_error(endpoint.now, bytes, error);
        }
    }
}
