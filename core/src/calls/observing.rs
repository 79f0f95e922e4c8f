//! Reports of requests to an observer. Nothing is done, and no memory is used, without one.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::endpoint::Endpoint;
use super::inbound::InboundCalls;
use super::outbound::{CallPurpose, OutboundCalls};
use super::outbound_requests::OutboundRequest;
use super::role::Role;
use crate::error::CallError;
use crate::observe::{Observation, Observer, OpenRequest, Requested};
use crate::raw::RawJson;
use crate::rpc::{RequestId, RpcError};
use crate::slab::Key;
use crate::tap::Direction;
use crate::time::Instant;
use crate::version::Version;

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
    /// Revision of the requests that a client sends.
    version: Option<Version>,
}

impl Observing {
    pub(super) fn new(observer: &Arc<dyn Observer>) -> Box<Self> {
        Box::new(Self {
            observer: Arc::clone(observer),
            received_bytes: 0,
            sent_bytes: 0,
            sent_error: None,
            version: None,
        })
    }

    pub(super) const fn record_received(&mut self, message: &[u8]) {
        self.received_bytes = message.len();
    }

    pub(super) const fn record_sent(&mut self, message: &[u8]) {
        self.sent_bytes = message.len().saturating_sub(1);
    }

    /// Begins the observation of a request that is sent, unless it negotiates or is a ping.
    #[cold]
    pub(super) fn begin_request(
        &self,
        at: Instant,
        key: Key,
        request: &OutboundRequest<'_>,
        params: &[u8],
        outbound: &OutboundCalls,
        inbound: &InboundCalls,
    ) -> Option<OpenRequest> {
        let version = match outbound.calls.get(key)?.purpose {
            CallPurpose::Probe | CallPurpose::Handshake | CallPurpose::KeepAlive => return None,
            CallPurpose::Input(call) => inbound.calls.get(call).map(|call| call.version),
            _ => self.version,
        };
        let requested = Requested {
            at,
            direction: Direction::Out,
            id: &RequestId::int(OutboundCalls::wire_id(key)),
            method: request.method,
            params,
            meta: request.meta.map(RawJson::as_bytes),
            version,
            request_bytes: 0,
        };
        OpenRequest::begin(&*self.observer, &requested)
    }

    pub(super) fn record_error(&mut self, error: &RpcError) {
        self.sent_error = Some(error.clone());
    }
}

impl<R: Role> Endpoint<R> {
    /// Sets the revision of the requests that are sent from now on.
    pub(crate) fn set_observed_version(&mut self, version: Version) {
        if let Some(observing) = &mut self.observing {
            observing.version = Some(version);
        }
    }

    #[cold]
    fn begin_received(
        &mut self,
        id: &RequestId,
        method: &str,
        params: Option<&[u8]>,
        version: Option<Version>,
    ) -> Option<OpenRequest> {
        let at = self.now;
        let observing = self.observing.as_deref_mut()?;
        observing.sent_error = None;
        let requested = Requested {
            at,
            direction: Direction::In,
            id,
            method,
            params: params.unwrap_or_default(),
            meta: None,
            version,
            request_bytes: observing.received_bytes,
        };
        OpenRequest::begin(&*observing.observer, &requested)
    }

    /// Observes a request that is a call now.
    #[inline]
    pub(crate) fn observe_call(
        &mut self,
        key: Key,
        method: &str,
        params: Option<&[u8]>,
    ) -> Option<Arc<dyn Observation>> {
        self.observing.as_ref()?;
        let call = self.inbound.calls.get(key)?;
        let (id, version) = (call.id.clone(), Some(call.version));
        let open = self.begin_received(&id, method, params, version)?;
        let observation = Arc::clone(&open.observation);
        self.inbound.observed.get_or_insert_default().insert(key, open);
        Some(observation)
    }

    /// Observes a request that the engine refuses or answers by itself.
    #[inline]
    pub(crate) fn begin_direct_answer(
        &mut self,
        id: &RequestId,
        method: &str,
        params: Option<&[u8]>,
        version: Option<Version>,
    ) -> Option<OpenRequest> {
        self.observing.as_ref()?;
        self.begin_received(id, method, params, version)
    }

    /// Ends a request that the engine has answered by itself.
    #[inline]
    pub(crate) fn end_direct_answer(&mut self, open: Option<OpenRequest>) {
        let (Some(open), Some(observing)) = (open, self.observing.as_deref_mut()) else { return };
        let at = self.now;
        match observing.sent_error.take() {
            Some(error) => open.end_with_error(at, observing.sent_bytes, &CallError::Rpc(error)),
            None => open.end_with_result(at, observing.sent_bytes, b""),
        }
    }

    /// Ends a call that is answered with the message at the end of its outbox.
    #[inline]
    pub(super) fn observe_answer(&mut self, key: Key, mark: usize) {
        let Some(open) = self.inbound.observed.as_mut().and_then(|observed| observed.take(key)) else {
            return;
        };
        let channel = self.inbound.calls.get(key).and_then(|call| self.channels.get_mut(call.channel));
        let response = channel.and_then(|c| c.outbox.tail().get(mark..));
        open.end_with_response(self.now, response.unwrap_or_default());
    }

    /// Ends a call that was answered with an error.
    #[cold]
    pub(super) fn observe_failure(&self, open: OpenRequest, error: &RpcError) {
        let bytes = self.observing.as_ref().map_or(0, |observing| observing.sent_bytes);
        open.end_with_error(self.now, bytes, &CallError::Rpc(error.clone()));
    }

    /// Ends a call that was answered with a result of this size.
    #[inline]
    pub(crate) fn observe_result(&mut self, key: Key, response_bytes: usize, result: &[u8]) {
        if let Some(open) = self.inbound.observed.as_mut().and_then(|observed| observed.take(key)) {
            open.end_with_result(self.now, response_bytes, result);
        }
    }

    /// Ends a call that gets no answer.
    #[inline]
    pub(super) fn observe_cancellation(&mut self, key: Key) {
        if let Some(open) = self.inbound.observed.as_mut().and_then(|observed| observed.take(key)) {
            open.end_with_error(self.now, 0, &CallError::Cancelled);
        }
    }

    /// Keeps the observation of a request that was sent.
    #[cold]
    pub(super) fn observe_sent(&mut self, key: Key, mut open: OpenRequest) {
        open.request_bytes = self.observing.as_ref().map_or(0, |observing| observing.sent_bytes);
        self.outbound.calls.observed.get_or_insert_default().insert(key, open);
    }

    /// Ends an outbound request, if it has not ended before.
    #[inline]
    pub(crate) fn observe_outcome(&mut self, key: Key, outcome: Result<&RawJson, &CallError>) {
        let Some(observing) = &self.observing else { return };
        let observed = self.outbound.calls.observed.as_mut();
        let Some(open) = observed.and_then(|observed| observed.take(key)) else { return };
        match outcome {
            Ok(result) => open.end_with_result(self.now, observing.received_bytes, result.as_bytes()),
            Err(error) => {
                let bytes = if matches!(error, CallError::Rpc(_)) { observing.received_bytes } else { 0 };
                open.end_with_error(self.now, bytes, error);
            }
        }
    }
}
