//! Streams: the channels of a transport with separate exchanges.
//!
//! A modern exchange is a channel of its own. In a legacy session, each exchange is a stream whose parent is the
//! channel of the session, which owns request ids, peer and subscriptions. Messages about a call are sent on the stream
//! of the call, and all others on a GET stream of the session.

use alloc::collections::VecDeque;

use super::channel::ServerChannel;
use super::engine::Engine;
use crate::calls::role::Role;
use crate::slab::Key;

/// State of a channel on such a transport.
#[derive(Debug, Default)]
pub(super) struct StreamState {
    /// Channel of the session that the stream belongs to.
    pub(super) parent: Option<Key>,
    /// Key of the transport's entry for this stream, which is queued when there is output.
    pub(super) owner: Option<Key>,
    /// The channel is a session over HTTP. Its own messages need a GET stream, which may be absent.
    pub(super) is_http_session: bool,
    /// Number of answers that are still to be sent.
    pub(super) pending_answers: u32,
    /// The owner is in the queue of streams with output.
    pub(super) is_queued: bool,
    /// Messages that are sent from now on cannot reach the client.
    pub(super) unreachable: bool,
    /// The request was refused before it was delivered.
    pub(super) request_refused: bool,
    /// An early cancellation ended the request.
    #[cfg(feature = "http")]
    pub(super) request_cancelled: bool,
    /// Code of the last error response; 0 if there was none.
    pub(super) last_error_code: i32,
}

/// Owners of streams with output, in order.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue(pub(super) VecDeque<Key>);

impl StreamState {
    /// Returns whether messages that are sent from now on cannot reach the client.
    pub(super) const fn is_unreachable(&self) -> bool {
        self.unreachable
    }

    /// Returns whether this is a session without a GET stream. Most clients never open one.
    pub(super) const fn has_no_get_stream(&self) -> bool {
        self.is_http_session && self.owner.is_none()
    }
}

impl Role for ServerChannel {
    type Shared = ReadyQueue;

    fn parent(&self) -> Option<Key> {
        self.stream.parent
    }

    fn is_reachable(&self) -> bool {
        !self.stream.has_no_get_stream()
    }

    fn request_started(&mut self) {
        self.stream.pending_answers += 1;
    }

    fn request_finished(&mut self, ready: &mut ReadyQueue) {
        self.stream.pending_answers = self.stream.pending_answers.saturating_sub(1);
        self.message_sent(ready);
    }

    fn error_sent(&mut self, code: i64) {
        // Codes outside this range have no meaning to the transport.
        self.stream.last_error_code = i32::try_from(code).unwrap_or(-1);
    }

    fn message_sent(&mut self, ready: &mut ReadyQueue) {
        if let Some(owner) = self.stream.owner {
            if !core::mem::replace(&mut self.stream.is_queued, true) {
                ready.0.push_back(owner);
            }
        }
    }
}

impl Engine {
    /// Returns whether the channel carries one exchange.
    pub(super) fn is_exchange(&self, key: Key) -> bool {
        self.endpoint.channels.get(key).is_some_and(|c| c.role.stream.owner.is_some())
    }

    /// Marks the channel as a session over HTTP.
    #[cfg(feature = "http")]
    pub(crate) fn mark_http_session(&mut self, key: Key) {
        if let Some(c) = self.endpoint.channels.get_mut(key) {
            c.role.stream.is_http_session = true;
        }
    }

    /// Queues the owner of a stream that has no more output.
    pub(super) fn mark_stream_finished(&mut self, key: Key) {
        if let Some(c) = self.endpoint.channels.get_mut(key) {
            c.role.message_sent(&mut self.endpoint.shared);
        }
    }

    /// Records that the request of a stream was refused before it was delivered.
    pub(super) fn mark_request_refused(&mut self, key: Key) {
        if let Some(c) = self.endpoint.channels.get_mut(key) {
            c.role.stream.request_refused = true;
        }
    }
}
