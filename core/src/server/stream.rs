//! Streams: channels of a transport that carries each message apart, and answers it apart.
//!
//! A modern exchange is a channel of its own. In a legacy session each exchange is a stream whose home is the session:
//! ids, peer and subscriptions belong to that, messages about a call go out on the call's stream, and all others on the
//! session's own.

use alloc::collections::VecDeque;

use super::channel::Extra;
use super::engine::Engine;
use crate::calls::side::Side;
use crate::slab::Key;

/// What a channel is to such a transport
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The session that it is a stream of
    pub(super) home: Option<Key>,
    /// Whoever wants to know when there is something to send
    pub(super) owner: Option<Key>,
    /// A session whose own messages go out on a stream that it may or may not have
    pub(super) apart: bool,
    /// Answers that are still to come
    pub(super) open: u32,
    /// It stands in the queue of those with something to send
    pub(super) marked: bool,
    /// Its client cannot have what is sent from now on
    pub(super) deaf: bool,
    /// The request was refused before anybody worked on it
    pub(super) refused: bool,
    /// The request was cancelled before it came
    #[cfg(feature = "http")]
    pub(super) cancelled: bool,
    /// The code of the last answer that was an error; 0 when none was
    pub(super) code: i32,
}

/// The streams with something to send, by owner
#[derive(Debug, Default)]
pub(crate) struct Ready(pub(super) VecDeque<Key>);

impl Stream {
    /// Whether nobody reads it, perhaps ever: most clients never open the stream of their session
    pub(super) const fn is_unheard(&self) -> bool {
        self.apart && self.owner.is_none()
    }
}

impl Side for Extra {
    type Shared = Ready;

    fn home(&self) -> Option<Key> {
        self.stream.home
    }

    fn begun(&mut self) {
        self.stream.open += 1;
    }

    fn ended(&mut self, ready: &mut Ready) {
        self.stream.open = self.stream.open.saturating_sub(1);
        self.sent(ready);
    }

    fn failed(&mut self, code: i64) {
        // A code beyond that range is none that anything depends on.
        self.stream.code = i32::try_from(code).unwrap_or(-1);
    }

    fn sent(&mut self, ready: &mut Ready) {
        if let Some(owner) = self.stream.owner {
            if !core::mem::replace(&mut self.stream.marked, true) {
                ready.0.push_back(owner);
            }
        }
    }
}

impl Engine {
    /// Whether a channel carries one exchange
    pub(super) fn is_exchange(&self, key: Key) -> bool {
        self.link.channels.get(key).is_some_and(|c| c.extra.stream.owner.is_some())
    }

    /// Says that a session's own messages go out on a stream of its own, if its client opens one
    #[cfg(feature = "http")]
    pub(crate) fn set_apart(&mut self, key: Key) {
        if let Some(c) = self.link.channels.get_mut(key) {
            c.extra.stream.apart = true;
        }
    }

    /// Says that nothing more comes on a stream
    pub(super) fn stream_over(&mut self, key: Key) {
        if let Some(c) = self.link.channels.get_mut(key) {
            c.extra.sent(&mut self.link.shared);
        }
    }

    /// Notes that the request of a stream was refused before anybody worked on it
    pub(super) fn refused(&mut self, key: Key) {
        if let Some(c) = self.link.channels.get_mut(key) {
            c.extra.stream.refused = true;
        }
    }
}
