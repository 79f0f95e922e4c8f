//! An observer, as an endpoint keeps it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use crate::observe::{Observer, OpenRequest, Requested, RequestedParams};
use crate::rpc::{RequestId, RpcError};
use crate::slab::Key;
use crate::sync::Arc;
use crate::tap::Direction;
use crate::time::Instant;
use crate::version::Version;

/// An observer, with what is known of the message in work.
#[derive(Debug)]
pub(crate) struct Observing {
    pub(super) observer: Arc<dyn Observer>,
    /// Size of the message that was received last.
    pub(super) received_bytes: usize,
    /// Size of the message that was sent last.
    pub(super) sent_bytes: usize,
    /// Error that was sent last.
    pub(super) sent_error: Option<RpcError>,
    /// Request that the engine is answering by itself.
    pub(super) direct: Option<OpenRequest>,
    /// Open sessions, by their channel: revision and time of beginning.
    pub(super) sessions: BTreeMap<Key, (Version, Instant)>,
}

impl Observing {
    pub(super) fn new(observer: &Arc<dyn Observer>) -> Box<Self> {
        Box::new(Self {
            observer: Arc::clone(observer),
            received_bytes: 0,
            sent_bytes: 0,
            sent_error: None,
            direct: None,
            sessions: BTreeMap::new(),
        })
    }

    pub(super) const fn record_received(&mut self, message: &[u8]) {
        self.received_bytes = message.len();
    }

    pub(super) const fn record_sent(&mut self, message: &[u8]) {
        self.sent_bytes = message.len().saturating_sub(1);
    }

    /// Returns the revision of the session of a root channel.
    pub(super) fn version(&self, channel: Key) -> Option<Version> {
        self.sessions.get(&channel).map(|(version, _)| *version)
    }

    pub(super) fn record_error(&mut self, error: &RpcError) {
        self.sent_error = Some(error.clone());
    }

    /// Begins the observation of a received request.
    #[cold]
    pub(super) fn begin_received(
        &mut self,
        at: Instant,
        id: &RequestId,
        method: &str,
        params: RequestedParams<'_>,
        version: Option<Version>,
    ) -> Option<OpenRequest> {
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
}
