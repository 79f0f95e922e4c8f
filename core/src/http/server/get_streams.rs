//! The GET streams of a session, and what they have not written yet (HTTP-054 to HTTP-056).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::slab::Key;

/// The GET streams of a session.
#[derive(Debug, Default)]
pub(super) struct GetStreams {
    /// The open ones, and the latest closed ones for resumption, in the order in which they were opened or resumed.
    pub(super) streams: Vec<GetStream>,
    /// Messages that broken streams did not write. They are sent before those of the engine.
    ///
    /// New messages are taken from the engine while this is empty. So all of these fitted into the streams once.
    pub(super) returned: VecDeque<Bytes>,
}

#[derive(Debug)]
pub(super) struct GetStream {
    /// The number in its event ids.
    pub(super) number: u32,
    /// The number of its last event.
    pub(super) last_event: u32,
    /// Its exchange while it is open.
    pub(super) exchange: Option<Key>,
}

/// Events of a GET stream that were produced, and not written completely when last checked.
#[derive(Debug, Default)]
pub(super) struct UnwrittenEvents(pub(super) VecDeque<UnwrittenEvent>);

#[derive(Debug)]
pub(super) struct UnwrittenEvent {
    /// The position of its end, in bytes of the response body.
    pub(super) end: u64,
    pub(super) number: u32,
    pub(super) message: Bytes,
}

impl UnwrittenEvents {
    /// Forgets the events within the first `written` bytes of the body.
    pub(super) fn discard_written(&mut self, written: u64) {
        while self.0.front().is_some_and(|event| event.end <= written) {
            self.0.pop_front();
        }
    }
}
