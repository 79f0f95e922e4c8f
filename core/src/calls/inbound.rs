//! The table of inbound calls.
//!
//! The calls of all channels share one slab. Each channel has an index ordered by id, because ids are unique within a
//! channel only. The index is a [`Tree`], so ids that a peer chooses cannot make a look-up slow.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::batch_key::BatchKey;
use super::token_bucket::TokenBucket;
use crate::error::CallError;
use crate::limits::Limits;
use crate::observe::{OpenRequest, OpenRequests};
use crate::raw::RawJson;
use crate::rpc::RequestId;
use crate::slab::tree::{Tree, TreeLinks, TreeNode};
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
    pub(crate) batch: Option<BatchKey>,
    /// Least severe level of log messages that the call asked for, as a number (modern).
    pub(crate) log_threshold: u8,
    /// The call has ended with an error that waits for memory. Nothing else knows its key.
    pub(crate) is_owed: bool,
    /// Links of the index of the channel.
    pub(crate) links: TreeLinks,
}

impl TreeNode for InboundCall {
    fn tree_links(&mut self) -> &mut TreeLinks {
        &mut self.links
    }
}

/// The outcome of an input request.
pub(crate) type InputOutcome = Result<RawJson, CallError>;

/// Rate limiter for the progress and log notifications of a call.
#[derive(Debug)]
pub(crate) struct NotificationThrottle {
    pub(crate) last_progress: f64,
    pub(crate) bucket: TokenBucket,
    /// The latest progress that was held back, and its notification.
    pub(crate) deferred_progress: Option<(f64, Box<[u8]>)>,
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

    /// Returns the length of the longest message that is held back.
    pub(super) fn deferred_len(&self) -> usize {
        let progress = self.deferred_progress.as_ref().map_or(0, |(_, message)| message.len());
        self.deferred_log.as_ref().map_or(0, |message| message.len()).max(progress)
    }
}

/// The calls of a channel, ordered by id.
pub(super) type InboundIndex = Tree;

#[derive(Debug)]
pub(crate) struct InboundCalls {
    pub(crate) calls: Slab<InboundCall>,
    /// Those that are observed.
    pub(super) observed: Option<Box<OpenRequests>>,
}

impl InboundCalls {
    pub(crate) const fn new() -> Self {
        Self { calls: Slab::new(), observed: None }
    }

    /// Releases the memory if there are no calls.
    pub(super) fn trim(&mut self) {
        self.calls.trim();
        self.observed.take_if(|_| self.calls.is_empty());
    }

    /// Ends the observation of a call, if it is observed.
    #[inline]
    pub(crate) fn take_observed(&mut self, key: Key) -> Option<OpenRequest> {
        self.observed.as_mut()?.take(key)
    }

    #[inline]
    pub(super) fn find(&mut self, index: &mut InboundIndex, id: &RequestId) -> Option<Key> {
        index.find(&mut self.calls, |_, call| call.id.cmp(id))
    }

    /// Returns all calls of an index.
    pub(super) fn keys(&mut self, index: &InboundIndex) -> Vec<Key> {
        index.keys(&mut self.calls)
    }

    /// Adds a call; returns `None` if its id is in flight.
    pub(super) fn insert(&mut self, index: &mut InboundIndex, call: InboundCall) -> Option<Key> {
        let place = index.place(&mut self.calls, |_, other| other.id.cmp(&call.id)).ok()?;
        let key = self.calls.insert(call);
        index.insert(&mut self.calls, place, key);
        Some(key)
    }

    /// Gives a call a new key. The old one is stale.
    pub(super) fn rekey(&mut self, index: &mut InboundIndex, key: Key) -> Option<Key> {
        let observed = self.take_observed(key);
        let call = self.remove(index, key)?;
        let key = self.insert(index, call)?;
        if let (Some(all), Some(observed)) = (&mut self.observed, observed) {
            all.insert(key, observed);
        }
        Some(key)
    }

    pub(super) fn remove(&mut self, index: &mut InboundIndex, key: Key) -> Option<InboundCall> {
        // The id is compared with those of other calls only, so it can be taken out instead of cloned.
        let id = core::mem::replace(&mut self.calls.get_mut(key)?.id, RequestId::int(0));
        index.remove(
            &mut self.calls,
            key,
            |slot, call| {
                if slot == key.slot { Ordering::Equal } else { call.id.cmp(&id) }
            },
        );
        let call = self.calls.remove(key)?;
        Some(InboundCall { id, ..call })
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
            is_owed: false,
            links: TreeLinks::default(),
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
            assert_eq!(table.find(&mut index, id), Some(*key));
        }
        assert_eq!(table.keys(&index), [1, 5, 3, 0, 4, 2].map(|at| keys[at]));
        assert!(table.remove(&mut index, keys[2]).is_some());
        assert!(table.find(&mut index, &ids[2]).is_none() && table.remove(&mut index, keys[2]).is_none());
        let renamed = table.rekey(&mut index, keys[3]).expect("live");
        assert!(renamed != keys[3] && table.find(&mut index, &ids[3]) == Some(renamed));
        assert_eq!(table.keys(&index).len(), 5);
    }

    #[test]
    fn inbound_call_and_its_key_fit_in_128_bytes() {
        assert!(size_of::<InboundCall>() + size_of::<Key>() <= 128, "{}", size_of::<InboundCall>());
    }
}
