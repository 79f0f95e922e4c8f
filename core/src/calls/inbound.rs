//! Requests from the peer that are being worked on.
//!
//! The calls of all channels stand in one slab. Each channel keeps an index of its own, ordered by what the ids mean,
//! because ids live in a channel; a search is a bisection, so ids chosen to be hostile cost no more than others.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::bucket::Bucket;
use crate::error::CallError;
use crate::limits::Limits;
use crate::raw::RawJson;
use crate::rpc::RequestId;
use crate::slab::{Key, Slab};
use crate::time::Instant;
use crate::version::Version;

crate::slab::key! {
    /// A request from the peer that waits for our answer
    ///
    /// Stale once the call is answered or cancelled; a stale key is refused and never hits another call.
    CallId
}

/// How far a call has come (PROG-006)
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// How much is done; must grow from one report to the next (PROG-007)
    pub progress: f64,
    /// How much there is in all, when that is known
    pub total: Option<f64>,
    /// A sentence for people (since 2025-03-26; PROG-009)
    pub message: Option<String>,
}

impl Progress {
    /// So much is done
    #[must_use]
    pub const fn new(progress: f64) -> Self {
        Self { progress, total: None, message: None }
    }

    /// … out of so much
    #[must_use]
    pub const fn of(mut self, total: f64) -> Self {
        self.total = Some(total);
        self
    }

    /// … which is to say
    #[must_use]
    pub fn saying(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

/// What became of a piece of news
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Sent {
    /// It is on its way
    Queued,
    /// It is held back, because too many went before it or the peer is slow; a later one takes its place
    Held,
    /// It was dropped: nobody asked for it, or it says nothing new
    Dropped,
}

#[derive(Debug)]
pub(crate) struct InCall {
    pub(crate) id: RequestId,
    pub(crate) channel: Key,
    pub(crate) version: Version,
    /// The result says how long it may be kept
    pub(crate) cacheable: bool,
    pub(crate) token: Option<RequestId>,
    pub(crate) progress: Option<Box<Reporting>>,
    pub(crate) expires: Instant,
    pub(crate) batch: Option<Key>,
    /// The least serious log messages that it wants, as a number (modern)
    pub(crate) log: u8,
    /// It waits for answers of the peer's, and is delivered again then
    pub(crate) parked: Option<Box<Parked>>,
}

/// What became of something that the peer was asked
pub(crate) type Answer = Result<RawJson, CallError>;

/// A call that waits for answers of the peer's
#[derive(Debug)]
pub(crate) struct Parked {
    /// The request as it came
    pub(crate) frame: Box<[u8]>,
    pub(crate) attempt: u32,
    /// What the application wants to have back
    pub(crate) state: Box<[u8]>,
    /// Answers so far, by keys of the application's choice
    pub(crate) answers: Vec<(Box<str>, Answer)>,
    /// Requests that have no answer yet
    pub(crate) open: Vec<(Box<str>, Key)>,
}

impl Parked {
    /// Bytes that are kept for it
    pub(crate) fn bytes(&self) -> usize {
        let answer = |(key, answer): &(Box<str>, Answer)| {
            key.len() + answer.as_ref().map_or(0, |a| a.as_bytes().len())
        };
        self.frame.len() + self.state.len() + self.answers.iter().map(answer).sum::<usize>()
    }
}

/// The progress and the log messages of one call on their way out
#[derive(Debug)]
pub(crate) struct Reporting {
    pub(crate) last: f64,
    pub(crate) bucket: Bucket,
    pub(crate) held: Option<Progress>,
    /// The latest log message that came too fast, as it will be sent
    pub(crate) log: Option<Box<[u8]>>,
    /// When what is held goes out
    pub(crate) due: Option<Instant>,
}

impl Reporting {
    pub(crate) fn new(now: Instant, limits: &Limits) -> Self {
        let bucket = Bucket::new(now, limits.progress_burst, limits.progress_rate);
        Self { last: f64::NEG_INFINITY, bucket, held: None, log: None, due: None }
    }
}

/// The calls of one channel, ordered by id
pub(crate) type Index = Vec<Key>;

#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) calls: Slab<InCall>,
}

impl Inbound {
    pub(crate) const fn new() -> Self {
        Self { calls: Slab::new() }
    }

    /// Where `id` stands in `index`, or would
    fn place(&self, index: &Index, id: &RequestId) -> Result<usize, usize> {
        // Most peers count upwards: the newest id belongs at the end.
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

    pub(crate) fn find(&self, index: &Index, id: &RequestId) -> Option<Key> {
        index.get(self.place(index, id).ok()?).copied()
    }

    /// Adds a call; none when its id is in flight already
    pub(crate) fn insert(&mut self, index: &mut Index, call: InCall) -> Option<Key> {
        let Err(place) = self.place(index, &call.id) else { return None };
        let key = self.calls.insert(call);
        index.insert(place, key);
        Some(key)
    }

    /// Gives a call another key: the one that it had is stale from now on
    pub(crate) fn rekey(&mut self, index: &mut Index, key: Key) -> Option<Key> {
        let place = self.place(index, &self.calls.get(key)?.id).ok()?;
        let call = self.calls.remove(key)?;
        let key = self.calls.insert(call);
        if let Some(kept) = index.get_mut(place) {
            *kept = key;
        }
        Some(key)
    }

    pub(crate) fn remove(&mut self, index: &mut Index, key: Key) -> Option<InCall> {
        let call = self.calls.get(key)?;
        if let Ok(place) = self.place(index, &call.id) {
            index.remove(place);
        }
        self.calls.remove(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: RequestId) -> InCall {
        InCall {
            id,
            channel: Key { slot: 0, generation: 0 },
            version: Version::V2025_11_25,
            cacheable: false,
            token: None,
            progress: None,
            expires: Instant::FAR,
            batch: None,
            log: 0,
            parked: None,
        }
    }

    #[test]
    fn ids_are_found_in_any_order_and_twice_is_refused() {
        let (mut table, mut index) = (Inbound::new(), Index::new());
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
    fn a_call_in_flight_is_small() {
        assert!(size_of::<InCall>() + size_of::<Key>() <= 128, "{}", size_of::<InCall>());
    }
}
