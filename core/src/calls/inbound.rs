//! The table of inbound calls.
//!
//! The calls of all channels share one slab. Each channel has an index ordered by id, because ids are unique within a
//! channel only. Look-ups bisect, so ids that a peer chooses cannot make them slow.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::token_bucket::TokenBucket;
use crate::error::CallError;
use crate::limits::Limits;
use crate::raw::RawJson;
use crate::rpc::RequestId;
use crate::slab::{Key, Slab};
use crate::time::Instant;
use crate::version::Version;

crate::slab::key! {
    /// The key of an inbound call, which waits for an answer.
    ///
    /// It is stale once the call has been answered or cancelled. A stale key is refused and never reaches another call.
    CallId
}

/// A progress report (PROG-006).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// The amount that is done; must increase from one report to the next (PROG-007).
    pub progress: f64,
    /// The total amount, if it is known.
    pub total: Option<f64>,
    /// A message for the user (since 2025-03-26; PROG-009).
    pub message: Option<String>,
}

impl Progress {
    /// Creates a report of the amount that is done.
    #[must_use]
    pub const fn new(progress: f64) -> Self {
        Self { progress, total: None, message: None }
    }

    /// Sets the total amount.
    #[must_use]
    pub const fn with_total(mut self, total: f64) -> Self {
        self.total = Some(total);
        self
    }

    /// Sets the message for the user.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

/// The outcome of sending a notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SendStatus {
    /// The notification was added to the outbox.
    Queued,
    /// The notification is held back by the rate limit or because the peer is slow. A later one replaces it.
    Deferred,
    /// The notification was dropped: the peer did not ask for it, or it reports nothing new.
    Dropped,
}

#[derive(Debug)]
pub(crate) struct InboundCall {
    pub(crate) id: RequestId,
    pub(crate) channel: Key,
    pub(crate) version: Version,
    /// The result carries cache hints.
    pub(crate) cacheable: bool,
    pub(crate) progress_token: Option<RequestId>,
    pub(crate) throttle: Option<Box<NotificationThrottle>>,
    pub(crate) expires_at: Instant,
    pub(crate) batch: Option<Key>,
    /// Least severe level of log messages that the call asked for, as a number (modern).
    pub(crate) log_threshold: u8,
    /// Set while the call waits for input; it is delivered again afterwards.
    pub(crate) parked: Option<Box<ParkedCall>>,
}

/// The outcome of an input request.
pub(crate) type InputOutcome = Result<RawJson, CallError>;

/// A call that waits for input.
#[derive(Debug)]
pub(crate) struct ParkedCall {
    /// The request as received.
    pub(crate) frame: Box<[u8]>,
    pub(crate) attempt: u32,
    /// State that the application keeps until the next delivery.
    pub(crate) state: Box<[u8]>,
    /// Input responses so far, by the application's keys.
    pub(crate) answers: Vec<(Box<str>, InputOutcome)>,
    /// Input requests without a response, by the application's keys.
    pub(crate) pending_requests: Vec<(Box<str>, Key)>,
}

impl ParkedCall {
    /// Returns the bytes that are kept for the call.
    pub(crate) fn byte_len(&self) -> usize {
        let answer = |(key, answer): &(Box<str>, InputOutcome)| {
            key.len() + answer.as_ref().map_or(0, |a| a.as_bytes().len())
        };
        self.frame.len() + self.state.len() + self.answers.iter().map(answer).sum::<usize>()
    }
}

/// Rate limiter for the progress and log notifications of a call.
#[derive(Debug)]
pub(crate) struct NotificationThrottle {
    pub(crate) last_progress: f64,
    pub(crate) bucket: TokenBucket,
    pub(crate) deferred_progress: Option<Progress>,
    /// The latest log message that was held back, encoded.
    pub(crate) deferred_log: Option<Box<[u8]>>,
    /// Time at which held notifications are sent.
    pub(crate) due_at: Option<Instant>,
}

impl NotificationThrottle {
    pub(crate) fn new(now: Instant, limits: &Limits) -> Self {
        let bucket = TokenBucket::new(now, limits.progress_burst, limits.progress_rate);
        Self {
            last_progress: f64::NEG_INFINITY,
            bucket,
            deferred_progress: None,
            deferred_log: None,
            due_at: None,
        }
    }
}

/// The calls of a channel, ordered by id.
pub(crate) type InboundIndex = Vec<Key>;

#[derive(Debug)]
pub(crate) struct InboundCalls {
    pub(crate) calls: Slab<InboundCall>,
}

impl InboundCalls {
    pub(crate) const fn new() -> Self {
        Self { calls: Slab::new() }
    }

    /// Returns the position of `id` in `index`, or the position where it belongs.
    fn position(&self, index: &InboundIndex, id: &RequestId) -> Result<usize, usize> {
        // Most peers count upwards, so a new id belongs at the end.
        match index.last().and_then(|k| self.calls.get(*k)) {
            None => return Err(0),
            Some(last) if last.id < *id => return Err(index.len()),
            Some(_) => {}
        }
        index.binary_search_by(|k| match self.calls.get(*k) {
            Some(call) => call.id.cmp(id),
            None => core::cmp::Ordering::Less,
        })
    }

    pub(crate) fn find(&self, index: &InboundIndex, id: &RequestId) -> Option<Key> {
        index.get(self.position(index, id).ok()?).copied()
    }

    /// Adds a call; returns `None` if its id is in flight.
    pub(crate) fn insert(&mut self, index: &mut InboundIndex, call: InboundCall) -> Option<Key> {
        let Err(position) = self.position(index, &call.id) else { return None };
        let key = self.calls.insert(call);
        index.insert(position, key);
        Some(key)
    }

    /// Gives a call a new key. The old one is stale.
    pub(crate) fn rekey(&mut self, index: &mut InboundIndex, key: Key) -> Option<Key> {
        let position = self.position(index, &self.calls.get(key)?.id).ok()?;
        let call = self.calls.remove(key)?;
        let key = self.calls.insert(call);
        if let Some(slot) = index.get_mut(position) {
            *slot = key;
        }
        Some(key)
    }

    pub(crate) fn remove(&mut self, index: &mut InboundIndex, key: Key) -> Option<InboundCall> {
        let call = self.calls.get(key)?;
        if let Ok(position) = self.position(index, &call.id) {
            index.remove(position);
        }
        self.calls.remove(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: RequestId) -> InboundCall {
        InboundCall {
            id,
            channel: Key { slot: 0, generation: 0 },
            version: Version::V2025_11_25,
            cacheable: false,
            progress_token: None,
            throttle: None,
            expires_at: Instant::FAR_FUTURE,
            batch: None,
            log_threshold: 0,
            parked: None,
        }
    }

    #[test]
    fn calls_inserted_in_any_order_are_found_and_duplicate_ids_are_refused() {
        let (mut table, mut index) = (InboundCalls::new(), InboundIndex::new());
        let ids = [5, 1, 9, 3, 7, 2].map(RequestId::int);
        let keys: Vec<_> =
            ids.iter().map(|i| table.insert(&mut index, call(i.clone())).expect("new")).collect();
        assert!(table.insert(&mut index, call(RequestId::int(9))).is_none());
        for (id, key) in ids.iter().zip(&keys) {
            assert_eq!(table.find(&index, id), Some(*key));
        }
        assert!(table.remove(&mut index, keys[2]).is_some());
        assert!(table.find(&index, &ids[2]).is_none() && table.remove(&mut index, keys[2]).is_none());
        assert_eq!(index.len(), 5);
    }

    #[test]
    fn inbound_call_and_its_key_fit_in_128_bytes() {
        assert!(size_of::<InboundCall>() + size_of::<Key>() <= 128, "{}", size_of::<InboundCall>());
    }
}
