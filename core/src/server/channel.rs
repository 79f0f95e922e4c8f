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
    /// Requests that wait for a free place, with their ids
    pub(super) waiting: VecDeque<(RequestId, Bytes)>,
    pub(super) budget: Budget,
    /// Opened by `initialize` (legacy)
    pub(super) session: Option<Box<Session>>,
    /// Its subscriptions, and the session itself if that is told of changes
    pub(super) listeners: Vec<Key>,
    pub(super) news: News,
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

impl Extra {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            waiting: VecDeque::new(),
            budget: Budget::new(limits.max_waiting_bytes),
            session: None,
            listeners: Vec::new(),
            news: News { from: 0, until: 0, round: 0, due: Instant::FAR },
            principal: None,
            stream: Stream::default(),
        }
    }

    /// Gives back what can be made again
    pub(super) fn trim(&mut self) {
        self.waiting.shrink_to_fit();
        self.listeners.shrink_to_fit();
    }
}

/// A legacy session
#[derive(Debug)]
pub(super) struct Session {
    pub(super) version: Version,
    /// `notifications/initialized` has come
    pub(super) initialized: bool,
    pub(super) info: RawJson,
    pub(super) capabilities: RawJson,
    /// The log messages that it wants
    pub(super) threshold: Threshold,
    pub(super) log: Option<Box<SessionLog>>,
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
