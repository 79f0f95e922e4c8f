//! The interface between the endpoint and the state that an engine keeps per channel.

use crate::slab::Key;

/// The state of an engine per channel.
///
/// On a server, a channel may be one stream of a session. Its messages are sent apart, and everything else, request
/// ids above all, belongs to the *root channel*: that of the session. Channels of a client are always roots.
pub(crate) trait Role {
    /// State that all channels share.
    type Shared: Default + core::fmt::Debug;

    /// Whether the role sends requests. A server does in legacy revisions alone.
    const SENDS_REQUESTS: bool = true;

    /// Returns the channel that owns request ids, session and peer, or `None` if that is this one.
    fn parent(&self) -> Option<Key> {
        None
    }

    /// Returns whether messages outside of calls reach the peer at present.
    fn is_reachable(&self) -> bool {
        true
    }

    /// Records that a request of the channel has to be answered.
    fn request_started(&mut self) {}

    /// Records that a request was answered or dropped.
    fn request_finished(&mut self, _shared: &mut Self::Shared) {}

    /// Records that an error response was sent.
    fn error_sent(&mut self, _code: i64) {}

    /// Records that a message was appended to the outbox.
    fn message_sent(&mut self, _shared: &mut Self::Shared) {}
}

impl Role for () {
    type Shared = ();
}
