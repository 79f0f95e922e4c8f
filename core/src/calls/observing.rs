//! An observer, as an endpoint keeps it.
//!
//! The feature `observe` leaves it out of a build.

use super::endpoint::{Endpoint, Role};
use crate::error::{CallError, Fault};
use crate::observe::{Observation, Observer, OpenRequest, Requested, RequestedParams, SessionEnd};
use crate::raw::RawJson;
use crate::rpc::{RequestId, RpcError};
use crate::slab::{Key, SecondaryMap};
use crate::sync::Arc;
use crate::tap::Direction;
use crate::time::Instant;
use crate::version::Version;

/// The end of an observed request.
pub(crate) enum ObservedEnd<'a> {
    /// A result that was sent last, after this number of bytes.
    SentResult { before: usize, result: &'a [u8] },
    /// A result in the message that was received last.
    ReceivedResult(&'a [u8]),
    /// The request was dropped without an answer.
    Cancelled,
    /// An error response that was sent last.
    SentError(&'a RpcError),
    /// The outcome of an outbound request: an error response that was received last, or no answer.
    ReceivedError(&'a CallError),
}

/// An observer, with what is known of the message in work.
#[derive(Debug)]
pub(crate) struct Observing {
    observer: Arc<dyn Observer>,
    /// Size of the message that was received last.
    received_bytes: usize,
    /// Size of the message that was sent last.
    sent_bytes: usize,
    /// Error that was sent last.
    sent_error: Option<RpcError>,
    /// Request that the engine is answering by itself.
    direct: Option<OpenRequest>,
    /// Open sessions, by their channel: revision and time of beginning.
    sessions: SecondaryMap<(Version, Instant)>,
}

impl Observing {
    pub(super) fn new(observer: &Arc<dyn Observer>) -> Self {
        Self {
            observer: Arc::clone(observer),
            received_bytes: 0,
            sent_bytes: 0,
            sent_error: None,
            direct: None,
            sessions: SecondaryMap::default(),
        }
    }
}

impl Observing {
    /// Begins the session of a channel, in which requests have this revision.
    pub(crate) fn begin_session(&mut self, at: Instant, channel: Key, version: Version) {
        self.sessions.insert(channel, (version, at));
    }

    /// Ends the session of a channel, if it had one.
    pub(crate) fn end_session(&mut self, at: Instant, channel: Key, direction: Direction, fault: &Fault) {
        let Some((version, began_at)) = self.sessions.remove(channel) else { return };
        let is_fault = !matches!(fault, Fault::Eof | Fault::Closed);
        self.observer.session_ended(&SessionEnd { direction, version, began_at, ended_at: at, is_fault });
    }

    /// Returns the revision of the session of a root channel.
    pub(crate) fn version(&self, channel: Key) -> Option<Version> {
        self.sessions.get(channel).map(|(version, _)| *version)
    }

    /// Records the message that was received last.
    pub(crate) fn record_received(&mut self, message: &[u8]) {
        self.received_bytes = message.len();
    }

    /// Records the message that was sent last.
    pub(crate) fn record_sent(&mut self, message: &[u8]) {
        // Without the newline, which is framing.
        self.sent_bytes = message.len().saturating_sub(1);
    }

    /// Records the error that was sent last.
    pub(crate) fn record_error(&mut self, error: &RpcError) {
        self.sent_error = Some(error.clone());
    }

    /// Returns the size of the message that was sent last.
    pub(crate) fn sent_bytes(&self) -> usize {
        self.sent_bytes
    }

    /// Begins the observation of a request to be sent.
    #[cold]
    pub(crate) fn begin_sent(&self, request: &Requested<'_>) -> Option<OpenRequest> {
        OpenRequest::begin(&*self.observer, request)
    }

    /// Begins the observation of a received request.
    #[cold]
    pub(crate) fn begin_received(
        &mut self,
        at: Instant,
        id: &RequestId,
        method: &str,
        params: RequestedParams<'_>,
        version: Option<Version>,
    ) -> Option<OpenRequest> {
        // An error that answered an earlier request must not become the outcome of this one.
        self.sent_error = None;
        let requested = Requested {
            at,
            direction: Direction::In,
            id,
            method,
            params,
            version,
            request_bytes: self.received_bytes,
        };
        OpenRequest::begin(&*self.observer, &requested)
    }

    /// Begins the observation of a request that the engine answers by itself.
    pub(crate) fn begin_direct(
        &mut self,
        at: Instant,
        id: &RequestId,
        method: &str,
        params: RequestedParams<'_>,
        version: Option<Version>,
    ) {
        self.direct = self.begin_received(at, id, method, params, version);
    }

    /// Returns the request that the engine is answering by itself, which continues as a call.
    pub(crate) fn take_direct(&mut self) -> Option<OpenRequest> {
        self.direct.take()
    }

    /// Ends the request that the engine has answered by itself.
    pub(crate) fn end_direct(&mut self, at: Instant) {
        let Some(open) = self.direct.take() else { return };
        match self.sent_error.take() {
            Some(error) => open.end_with_error(at, self.sent_bytes, &CallError::Rpc(error)),
            // The engine answers no tool call by a result, so there is no `isError` to look for.
            None => open.end_with_result(at, self.sent_bytes, b""),
        }
    }

    /// Ends the observation of a request.
    pub(crate) fn end(&self, at: Instant, open: OpenRequest, end: &ObservedEnd<'_>) {
        match *end {
            ObservedEnd::SentResult { before, result } => {
                open.end_with_result(at, before + self.sent_bytes, result);
            }
            ObservedEnd::ReceivedResult(result) => open.end_with_result(at, self.received_bytes, result),
            ObservedEnd::Cancelled => open.end_with_error(at, 0, &CallError::Cancelled),
            ObservedEnd::SentError(error) => {
                open.end_with_error(at, self.sent_bytes, &CallError::Rpc(error.clone()));
            }
            ObservedEnd::ReceivedError(error) => {
                // Other errors are no answer, or none that could be read, so they have no size.
                let bytes = if matches!(error, CallError::Rpc(_)) { self.received_bytes } else { 0 };
                open.end_with_error(at, bytes, error);
            }
        }
    }
}

// Observed requests and sessions, from their beginning to their end.
//
// Without an observer, each function is a comparison.

/// Begins the session of a channel, in which requests have this revision.
#[inline]
pub(crate) fn begin_session<R: Role>(endpoint: &mut Endpoint<R>, channel: Key, version: Version) {
    if let Some(observing) = endpoint.observing.as_mut() {
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
    if let Some(observing) = endpoint.observing.as_mut() {
        observing.end_session(endpoint.now, channel, direction, fault);
    }
}

/// Goes on with a message that was received before, and has waited.
#[inline]
pub(crate) fn resume_message<R: Role>(endpoint: &mut Endpoint<R>, message: &[u8]) {
    if let Some(observing) = endpoint.observing.as_mut() {
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
    let observing = endpoint.observing.as_mut()?;
    let call = endpoint.inbound.calls.get(key)?;
    let open = observing.begin_received(endpoint.now, &call.id, method, params, Some(call.version))?;
    let observation = Arc::clone(&open.observation);
    endpoint.inbound.observed.insert(key, open);
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
    if let Some(observing) = endpoint.observing.as_mut() {
        observing.begin_direct(endpoint.now, id, method, params, version);
    }
}

/// Continues a request that the engine cannot answer at once as this call.
#[inline]
pub(crate) fn continue_direct_answer<R: Role>(endpoint: &mut Endpoint<R>, key: Key) {
    if let Some(open) = endpoint.observing.as_mut().and_then(|observing| observing.take_direct()) {
        endpoint.inbound.observed.insert(key, open);
    }
}

/// Ends a request that the engine has answered by itself, unless it continues as a call.
#[inline]
pub(crate) fn end_direct_answer<R: Role>(endpoint: &mut Endpoint<R>) {
    if let Some(observing) = endpoint.observing.as_mut() {
        observing.end_direct(endpoint.now);
    }
}

/// Ends the observation of a request, if it is observed.
fn end<R: Role>(endpoint: &Endpoint<R>, open: Option<OpenRequest>, end: &ObservedEnd<'_>) {
    if let (Some(open), Some(observing)) = (open, endpoint.observing.as_ref()) {
        observing.end(endpoint.now, open, end);
    }
}

/// Ends a call that is answered with the message at the end of the outbox of its channel.
#[inline]
pub(super) fn observe_answer<R: Role>(endpoint: &mut Endpoint<R>, key: Key, channel: Key, mark: usize) {
    let Some(open) = endpoint.inbound.take_observed(key) else { return };
    let channel = endpoint.channels.get_mut(channel);
    let response = channel.and_then(|c| c.outbox.tail().get(mark..)).unwrap_or_default();
    open.end_with_response(endpoint.now, response);
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
