//! Streams: the channels of a transport with separate exchanges.
//!
//! A modern exchange is a channel of its own. In a legacy session, each exchange is a stream whose parent is the
//! channel of the session, which owns request ids, peer and subscriptions. Messages about a call are sent on the stream
//! of the call, and all others on a GET stream of the session.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use crate::slab::Key;

/// The place of a channel on such a transport.
#[derive(Clone, Copy, Debug, Default)]
enum Place {
    /// A channel of its own: a byte stream, or a modern exchange.
    #[default]
    Alone,
    /// A session, with the binding's key for it.
    Session(Key),
    /// A stream of the session with this channel.
    StreamOf(Key),
}

/// Why a message ended before it was delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EarlyEnd {
    /// The message was refused because of its form, its revision, its method or the state of its session.
    ///
    /// Not if the server had no room for it, nor for members of a batch, unless a handshake is among them.
    Refused,
    /// A cancellation that overtook the request ended it, so it has no answer (CANC-010).
    Cancelled,
}

/// State of a channel on such a transport.
#[derive(Debug, Default)]
pub(super) struct StreamState {
    place: Place,
    /// Key of the transport's entry for this stream, which is queued when there is output.
    owner: Option<Key>,
    /// Number of answers that are still to be sent.
    pending_answers: u32,
    /// The owner is in the queue of streams with output.
    is_queued: bool,
    /// Messages that are sent from now on cannot reach the client.
    unreachable: bool,
    /// The client has left the stream, which it can resume.
    left: bool,
    early_end: Option<EarlyEnd>,
    /// Code of the last error response; 0 if there was none.
    last_error_code: i32,
    /// Scopes that the only request of the stream lacks. Boxed, because most lack none.
    required_scopes: Option<Box<RequiredScopes>>,
}

/// Scopes, separated by spaces.
#[derive(Debug)]
struct RequiredScopes(Box<str>);

/// Owners of streams with output, in order.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue(VecDeque<Key>);

impl ReadyQueue {
    pub(super) fn pop(&mut self) -> Option<Key> {
        self.0.pop_front()
    }
}

impl StreamState {
    /// Makes the channel a stream of the session `root`, or one with request ids of its own.
    pub(super) fn open(&mut self, root: Option<Key>, owner: Key) {
        self.place = root.map_or(Place::Alone, Place::StreamOf);
        self.owner = Some(owner);
    }

    /// Makes the channel a session. Its own messages need a stream with an owner, which may be absent.
    pub(super) const fn mark_session(&mut self, session: Key) {
        self.place = Place::Session(session);
    }

    /// Returns the channel of the session that the stream belongs to.
    pub(super) const fn parent(&self) -> Option<Key> {
        match self.place {
            Place::StreamOf(root) => Some(root),
            _ => None,
        }
    }

    /// Returns the transport's key of the session.
    pub(super) const fn session(&self) -> Option<Key> {
        match self.place {
            Place::Session(session) => Some(session),
            _ => None,
        }
    }

    /// Returns whether the channel carries one exchange.
    pub(super) const fn is_exchange(&self) -> bool {
        self.owner.is_some() && !matches!(self.place, Place::Session(_))
    }

    pub(super) const fn owner(&self) -> Option<Key> {
        self.owner
    }

    /// Sets the owner, which is queued when the channel has output.
    pub(super) const fn set_owner(&mut self, owner: Option<Key>) {
        self.owner = owner;
        // An entry in the queue names the old owner, so the new one may be queued besides.
        self.is_queued = false;
    }

    /// Queues the owner, unless it is queued.
    pub(super) fn queue(&mut self, ready: &mut ReadyQueue) {
        if let Some(owner) = self.owner {
            // Once until its output is taken, so the queue has at most one entry for each stream.
            if !core::mem::replace(&mut self.is_queued, true) {
                ready.0.push_back(owner);
            }
        }
    }

    /// Allows the owner to be queued again for new output.
    pub(super) const fn rearm(&mut self) {
        self.is_queued = false;
    }

    /// Returns whether this is a session without a GET stream. Most clients never open one.
    pub(super) const fn has_no_get_stream(&self) -> bool {
        self.session().is_some() && self.owner.is_none()
    }

    /// Returns whether messages that are sent from now on cannot reach the client.
    pub(super) const fn is_unreachable(&self) -> bool {
        self.unreachable
    }

    pub(super) const fn mark_unreachable(&mut self) {
        self.unreachable = true;
    }

    /// Returns whether the client has left the stream since it was opened, which it can resume.
    pub(super) const fn is_left(&self) -> bool {
        self.left
    }

    /// Records that the client has left the stream, which it can resume.
    pub(super) const fn mark_left(&mut self) {
        self.left = true;
    }

    /// Records that the request ended before it was delivered.
    pub(super) const fn end_early(&mut self, why: EarlyEnd) {
        self.early_end = Some(why);
    }

    pub(super) const fn begin_request(&mut self) {
        self.pending_answers += 1;
    }

    pub(super) fn finish_request(&mut self, ready: &mut ReadyQueue) {
        self.pending_answers = self.pending_answers.saturating_sub(1);
        // Also without output: with its last answer the stream may have ended.
        self.queue(ready);
    }

    /// Returns whether answers are still to be sent.
    pub(super) const fn owes_answers(&self) -> bool {
        self.pending_answers > 0
    }

    pub(super) fn record_error(&mut self, code: i64) {
        // Codes outside this range have no meaning to the transport.
        self.last_error_code = i32::try_from(code).unwrap_or(-1);
    }

    /// Returns why the request ended before it was delivered, if it did.
    pub(super) const fn early_end(&self) -> Option<EarlyEnd> {
        self.early_end
    }

    /// Records that the request was refused because it lacks scopes.
    pub(super) fn set_required_scopes(&mut self, scopes: &str) {
        self.required_scopes = Some(Box::new(RequiredScopes(scopes.into())));
    }

    /// Takes the scopes for whose lack the request was refused.
    pub(super) fn take_required_scopes(&mut self) -> Option<Box<str>> {
        self.required_scopes.take().map(|scopes| scopes.0)
    }

    /// Returns the code of the last answer, if it was an error.
    pub(super) fn error_code(&self) -> Option<i64> {
        (self.last_error_code != 0).then_some(i64::from(self.last_error_code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::code;

    const OWNER: Key = Key { slot: 1, generation: 0 };

    #[test]
    fn owner_is_queued_once_until_it_is_rearmed() {
        let (mut stream, mut ready) = (StreamState::default(), ReadyQueue::default());
        stream.queue(&mut ready);
        assert_eq!(ready.pop(), None, "nobody owns it");
        stream.open(None, OWNER);
        stream.begin_request();
        stream.queue(&mut ready);
        stream.finish_request(&mut ready);
        assert_eq!((ready.pop(), ready.pop()), (Some(OWNER), None));
        stream.rearm();
        stream.queue(&mut ready);
        assert_eq!(ready.pop(), Some(OWNER));
        assert!(!stream.owes_answers());
    }

    #[test]
    fn session_without_an_owner_has_no_get_stream() {
        let mut stream = StreamState::default();
        assert!(!stream.has_no_get_stream());
        stream.mark_session(OWNER);
        assert!(stream.has_no_get_stream() && stream.session() == Some(OWNER));
        stream.set_owner(Some(OWNER));
        assert!(!stream.has_no_get_stream() && stream.parent().is_none());
        stream.open(Some(OWNER), OWNER);
        assert_eq!((stream.parent(), stream.session()), (Some(OWNER), None));
        stream.record_error(code::METHOD_NOT_FOUND);
        assert_eq!(stream.error_code(), Some(code::METHOD_NOT_FOUND));
    }
}
