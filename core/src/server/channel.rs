//! State of the server engine per channel.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::Bytes;

use super::log::{SessionLog, Threshold};
use super::stream::StreamState;
use crate::budget::Budget;
use crate::limits::Limits;
use crate::raw::RawJson;
use crate::rpc::RequestId;
use crate::rpc::envelope::MetaSpans;
use crate::slab::Key;
use crate::time::Instant;
use crate::version::Version;

#[derive(Debug)]
pub(super) struct ServerChannel {
    /// Requests that wait because too many calls are in flight.
    pub(super) waiting: WaitingRequests,
    /// The session that `initialize` opened (legacy).
    pub(super) session: Option<Box<LegacySession>>,
    /// Listeners of the subscriptions, and that of the session if it is subscribed to list changes.
    pub(super) listeners: Vec<Key>,
    /// Change notifications in the outbox; created with the first one.
    pub(super) sent_changes: Option<Box<SentChanges>>,
    /// Authenticated principal of the channel.
    pub(super) principal: Option<Box<str>>,
    /// State as a stream of a transport with separate exchanges; default on a byte stream.
    pub(super) stream: StreamState,
}

/// The change notifications that were sent last on a channel.
#[derive(Debug)]
pub(super) struct SentChanges {
    /// Position of the first byte in the output of the channel.
    pub(super) start: u64,
    /// Position after the last byte.
    pub(super) end: u64,
    /// Number of times that all notifications had been written.
    pub(super) epoch: u32,
    /// Deadline for the deferred notifications.
    pub(super) due_at: Instant,
}

impl Default for SentChanges {
    fn default() -> Self {
        Self { start: 0, end: 0, epoch: 0, due_at: Instant::FAR_FUTURE }
    }
}

/// Requests that wait because too many calls are in flight, with their ids; unallocated while empty.
#[derive(Debug, Default)]
pub(super) struct WaitingRequests(Option<Box<WaitQueue>>);

#[derive(Debug)]
struct WaitQueue {
    queue: VecDeque<(RequestId, Bytes)>,
    budget: Budget,
}

impl WaitingRequests {
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |w| w.queue.len())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the byte budget is used up.
    pub(super) fn is_spent(&self) -> bool {
        self.0.as_ref().is_some_and(|w| w.budget.is_spent())
    }

    pub(super) fn contains(&self, id: &RequestId) -> bool {
        self.0.as_ref().is_some_and(|w| w.queue.iter().any(|(other, _)| other == id))
    }

    /// Adds a request, even beyond the budget.
    pub(super) fn push(&mut self, id: RequestId, frame: Bytes, limits: &Limits) {
        let waiting = self.0.get_or_insert_with(|| {
            Box::new(WaitQueue { queue: VecDeque::new(), budget: Budget::new(limits.max_waiting_bytes) })
        });
        waiting.budget.overdraw(frame.len());
        waiting.queue.push_back((id, frame));
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let waiting = self.0.as_mut()?;
        let (_, frame) = waiting.queue.pop_front()?;
        waiting.budget.release(frame.len());
        Some(frame)
    }

    /// Removes a request; returns false if there is none with this id.
    pub(super) fn remove(&mut self, id: &RequestId) -> bool {
        let Some(waiting) = self.0.as_mut() else { return false };
        let index = waiting.queue.iter().position(|(other, _)| other == id);
        let Some((_, frame)) = index.and_then(|index| waiting.queue.remove(index)) else { return false };
        waiting.budget.release(frame.len());
        true
    }

    /// Returns the ids of all requests.
    pub(super) fn into_ids(self) -> impl Iterator<Item = RequestId> {
        self.0.into_iter().flat_map(|w| w.queue.into_iter().map(|(id, _)| id))
    }
}

impl ServerChannel {
    pub(super) fn new() -> Self {
        Self {
            waiting: WaitingRequests::default(),
            session: None,
            listeners: Vec::new(),
            sent_changes: None,
            principal: None,
            stream: StreamState::default(),
        }
    }

    /// Frees memory that is not in use.
    pub(super) fn trim(&mut self) {
        self.waiting.0.take_if(|w| w.queue.is_empty());
        self.listeners.shrink_to_fit();
    }
}

/// A legacy session.
#[derive(Debug)]
pub(super) struct LegacySession {
    pub(super) version: Version,
    /// `notifications/initialized` has arrived.
    pub(super) initialized: bool,
    /// The session exists for one request only.
    pub(super) is_stateless: bool,
    /// `clientInfo`, followed by the capabilities.
    text: Bytes,
    info_len: u32,
    /// Least severe level that the client asked for, once it has set one.
    pub(super) threshold: Option<Threshold>,
    pub(super) log: Option<Box<SessionLog>>,
    /// Bytes that are kept for the parked calls of the session.
    pub(super) parked_bytes: usize,
}

impl LegacySession {
    /// Creates a session from the parameters of `initialize`.
    pub(super) fn new(version: Version, info: &[u8], capabilities: &[u8]) -> Self {
        Self {
            version,
            initialized: false,
            is_stateless: false,
            text: [info, capabilities].concat().into(),
            // Frames are shorter than 4 GiB.
            info_len: u32::try_from(info.len()).unwrap_or_default(),
            threshold: None,
            log: None,
            parked_bytes: 0,
        }
    }

    pub(super) fn info(&self) -> Option<RawJson> {
        let text = self.text.slice(..self.info_len as usize);
        (!text.is_empty()).then(|| RawJson::trusted(text))
    }

    pub(super) fn capabilities(&self) -> RawJson {
        RawJson::trusted(self.text.slice(self.info_len as usize..))
    }
}

/// The last valid `_meta` text, with the offsets of its parts.
///
/// A client repeats its `_meta` in every request. An equal text is recognized and not parsed again.
#[derive(Debug)]
pub(super) struct MetaCache {
    pub(super) text: Box<[u8]>,
    pub(super) parts: MetaSpans,
    pub(super) version: Version,
}
