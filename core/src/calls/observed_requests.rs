//! Observed requests and sessions, from their beginning to their end.
//!
//! Without an observer, each function is a comparison.

use super::endpoint::Endpoint;
use super::observing::ObservedEnd;
use super::role::Role;
use crate::error::{CallError, Fault};
use crate::observe::{Observation, OpenRequest, RequestedParams};
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
        observing.begin_session(endpoint.now, channel, version);
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
    if let Some(observing) = &mut endpoint.observing {
        observing.end_session(endpoint.now, channel, direction, fault);
    }
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
        observing.begin_direct(endpoint.now, id, method, params, version);
    }
}

/// Continues a request that the engine cannot answer at once as this call.
#[cfg_attr(
    not(feature = "crypto"),
    allow(dead_code, reason = "only requests about tasks wait, which need `Entropy`")
)]
#[inline]
pub(crate) fn continue_direct_answer<R: Role>(endpoint: &mut Endpoint<R>, key: Key) {
    if let Some(open) = endpoint.observing.as_deref_mut().and_then(|observing| observing.take_direct()) {
        endpoint.inbound.observed.get_or_insert_default().insert(key, open);
    }
}

/// Ends a request that the engine has answered by itself, unless it continues as a call.
#[inline]
pub(crate) fn end_direct_answer<R: Role>(endpoint: &mut Endpoint<R>) {
    if let Some(observing) = &mut endpoint.observing {
        observing.end_direct(endpoint.now);
    }
}

/// Ends the observation of a request, if it is observed.
fn end<R: Role>(endpoint: &Endpoint<R>, open: Option<OpenRequest>, end: &ObservedEnd<'_>) {
    if let (Some(open), Some(observing)) = (open, &endpoint.observing) {
        observing.end(endpoint.now, open, end);
    }
}

/// Ends a call that is answered with the message at the end of its outbox.
#[inline]
pub(super) fn observe_answer<R: Role>(endpoint: &mut Endpoint<R>, key: Key, mark: usize) {
    let Some(open) = endpoint.inbound.take_observed(key) else { return };
    let Some(observing) = &endpoint.observing else { return };
    let channel = endpoint.inbound.calls.get(key).and_then(|call| endpoint.channels.get_mut(call.channel));
    let response = channel.and_then(|c| c.outbox.tail().get(mark..)).unwrap_or_default();
    observing.end(endpoint.now, open, &ObservedEnd::Response(response));
}

/// Ends a call that was answered with an error.
#[cold]
pub(crate) fn observe_failure<R: Role>(endpoint: &Endpoint<R>, open: OpenRequest, error: &RpcError) {
    end(endpoint, Some(open), &ObservedEnd::SentError(error));
}

/// Ends a call that was answered with this result, in `before` bytes and the segment that was sent last.
#[inline]
pub(crate) fn observe_sent_result<R: Role>(
    endpoint: &Endpoint<R>,
    open: Option<OpenRequest>,
    before: usize,
    result: &[u8],
) {
    end(endpoint, open, &ObservedEnd::SentResult { before, result });
}

/// Ends a call that gets no answer.
#[inline]
pub(super) fn observe_cancellation<R: Role>(endpoint: &mut Endpoint<R>, key: Key) {
    let open = endpoint.inbound.take_observed(key);
    end(endpoint, open, &ObservedEnd::Cancelled);
}

/// Ends an outbound request, if it has not ended before.
#[inline]
pub(crate) fn observe_outcome<R: Role>(
    endpoint: &mut Endpoint<R>,
    key: Key,
    outcome: Result<&RawJson, &CallError>,
) {
    if endpoint.observing.is_none() {
        return;
    }
    let open = endpoint.outbound.calls.take_observed(key);
    let outcome = match outcome {
        Ok(result) => ObservedEnd::ReceivedResult(result.as_bytes()),
        Err(error) => ObservedEnd::ReceivedError(error),
    };
    end(endpoint, open, &outcome);
}
