//! What a server keeps per channel.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::Bytes;

use super::log::{SessionLog, Threshold};
use super::stream::Stream;
use crate::budget::Budget;
use crate::limits::Limits;
use crate::raw::RawJson;
use crate::rpc::RequestId;
use crate::rpc::envelope::Meta;
use crate::slab::Key;
use crate::time::Instant;
use crate::version::Version;

#[derive(Debug)]
pub(super) struct Extra {
    /// Requests that wait for a free place
    pub(super) waiting: Waiting,
    /// Opened by `initialize` (legacy)
    pub(super) session: Option<Box<Session>>,
    /// Its subscriptions, and the session itself if that is told of changes
    pub(super) listeners: Vec<Key>,
    /// Made when something is told for the first time
    pub(super) news: Option<Box<News>>,
    /// On whose behalf it speaks
    pub(super) principal: Option<Box<str>>,
    /// What it is to a transport that carries each message apart; nothing for a byte stream
    pub(super) stream: Stream,
}

/// The news that were sent last on a channel
#[derive(Debug)]
pub(super) struct News {
    /// Where they begin in the output, counted from its beginning
    pub(super) from: u64,
    /// Where they end
    pub(super) until: u64,
    /// Counts the batches that were told until all of it had left
    pub(super) round: u32,
    /// When what is held back is looked at
    pub(super) due: Instant,
}

impl Default for News {
    fn default() -> Self {
        Self { from: 0, until: 0, round: 0, due: Instant::FAR }
    }
}

/// Requests that wait for a free place, with their ids; nothing at all most of the time
#[derive(Debug, Default)]
pub(super) struct Waiting(Option<Box<Crowd>>);

#[derive(Debug)]
struct Crowd {
    queue: VecDeque<(RequestId, Bytes)>,
    budget: Budget,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |w| w.queue.len())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether their bytes are too many for another one
    pub(super) fn is_spent(&self) -> bool {
        self.0.as_ref().is_some_and(|w| w.budget.is_spent())
    }

    pub(super) fn has(&self, id: &RequestId) -> bool {
        self.0.as_ref().is_some_and(|w| w.queue.iter().any(|(other, _)| other == id))
    }

    /// Adds one, even beyond the budget
    pub(super) fn push(&mut self, id: RequestId, frame: Bytes, limits: &Limits) {
        let crowd = self.0.get_or_insert_with(|| {
            Box::new(Crowd { queue: VecDeque::new(), budget: Budget::new(limits.max_waiting_bytes) })
        });
        crowd.budget.overdraw(frame.len());
        crowd.queue.push_back((id, frame));
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let crowd = self.0.as_mut()?;
        let (_, frame) = crowd.queue.pop_front()?;
        crowd.budget.release(frame.len());
        Some(frame)
    }

    /// Takes one out; false when it is not there
    pub(super) fn remove(&mut self, id: &RequestId) -> bool {
        let Some(crowd) = self.0.as_mut() else { return false };
        let place = crowd.queue.iter().position(|(other, _)| other == id);
        let Some((_, frame)) = place.and_then(|place| crowd.queue.remove(place)) else { return false };
        crowd.budget.release(frame.len());
        true
    }

    /// The ids of all
    pub(super) fn ids(self) -> impl Iterator<Item = RequestId> {
        self.0.into_iter().flat_map(|w| w.queue.into_iter().map(|(id, _)| id))
    }
}

impl Extra {
    pub(super) fn new() -> Self {
        Self {
            waiting: Waiting::default(),
            session: None,
            listeners: Vec::new(),
            news: None,
            principal: None,
            stream: Stream::default(),
        }
    }

    /// Gives back what can be made again
    pub(super) fn trim(&mut self) {
        self.waiting.0.take_if(|w| w.queue.is_empty());
        self.listeners.shrink_to_fit();
    }
}

/// A legacy session
#[derive(Debug)]
pub(super) struct Session {
    pub(super) version: Version,
    /// `notifications/initialized` has come
    pub(super) initialized: bool,
    /// It is over with the one request that it was made for
    pub(super) passing: bool,
    /// `clientInfo`, and behind it the capabilities
    text: Bytes,
    info: u32,
    /// The log messages that it wants, once it has said so
    pub(super) threshold: Option<Threshold>,
    pub(super) log: Option<Box<SessionLog>>,
}

impl Session {
    /// A session of a client that has introduced itself like this
    pub(super) fn new(version: Version, info: &[u8], capabilities: &[u8]) -> Self {
        Self {
            version,
            initialized: false,
            passing: false,
            text: [info, capabilities].concat().into(),
            // Frames are shorter than 4 GiB.
            info: u32::try_from(info.len()).unwrap_or_default(),
            threshold: None,
            log: None,
        }
    }

    pub(super) fn info(&self) -> Option<RawJson> {
        let text = self.text.slice(..self.info as usize);
        (!text.is_empty()).then(|| RawJson::trusted(text))
    }

    pub(super) fn capabilities(&self) -> RawJson {
        RawJson::trusted(self.text.slice(self.info as usize..))
    }
}

/// A `_meta` text and where its parts are, counted from its beginning
///
/// A client repeats its `_meta` on every request; recognising it by its bytes spares reading it again.
#[derive(Debug)]
pub(super) struct KnownMeta {
    pub(super) text: Box<[u8]>,
    pub(super) parts: Meta,
    pub(super) version: Version,
}
