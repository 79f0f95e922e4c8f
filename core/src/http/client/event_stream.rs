//! The state of an event stream across its connections: decoder, event ids, and delays between connections.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;

use super::config::{FailureReason, ReconnectPolicy};
use crate::frame::sse::SseDecoder;
use crate::time::Instant;

/// Number of remembered event ids, to detect repeated events.
const MAX_RECENT_IDS: usize = 32;

/// An event stream, across all its connections.
#[derive(Debug)]
pub(super) struct EventStreamState {
    pub(super) decoder: SseDecoder,
    /// The exchange is in the queue of streams with undecoded events.
    pub(super) is_queued: bool,
    /// Outcome of the current connection.
    pub(super) ended: Option<Result<(), FailureReason>>,
    /// The id to resume after.
    pub(super) last_event_id: Box<[u8]>,
    recent_ids: VecDeque<Box<[u8]>>,
    /// Events of the broken connection may be sent again.
    may_replay: bool,
    pub(super) retry: Option<Duration>,
    /// The stream has been open.
    pub(super) was_open: bool,
    /// Time at which it was opened; taken when its end is evaluated.
    opened_at: Option<Instant>,
    /// Yield of the current connection.
    pub(super) yielded: StreamYield,
    /// The current connection has sent an event id.
    id_advanced: bool,
    /// Consecutive unproductive connections.
    failures: u32,
}

/// The yield of a connection of an event stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum StreamYield {
    Nothing,
    /// The acknowledgment of a subscription, and no messages.
    Acknowledgment,
    Messages,
}

impl EventStreamState {
    pub(super) fn new(max: usize) -> Self {
        Self {
            decoder: SseDecoder::new(max),
            is_queued: false,
            ended: None,
            last_event_id: Box::default(),
            recent_ids: VecDeque::new(),
            may_replay: false,
            retry: None,
            was_open: false,
            opened_at: None,
            yielded: StreamYield::Nothing,
            id_advanced: false,
            failures: 0,
        }
    }

    /// Starts to decode a new connection.
    pub(super) fn reopen(&mut self, now: Instant, max: usize) {
        self.decoder = SseDecoder::new(max);
        self.ended = None;
        self.may_replay = self.was_open;
        self.was_open = true;
        self.opened_at = Some(now);
        self.yielded = StreamYield::Nothing;
        self.id_advanced = false;
    }

    /// Forgets the received events: the next connection is a new stream, whose ids may be used again.
    ///
    /// Replay is optional, and bounded where there is any. What was missed is lost, but the stream can be opened anew.
    /// Returns false if the last connection was such a stream already.
    pub(super) fn forget_events(&mut self) -> bool {
        self.recent_ids.clear();
        !core::mem::take(&mut self.last_event_id).is_empty()
    }

    /// Records the event id and the retry time of the decoder.
    pub(super) fn update_from_decoder(&mut self) {
        let id = self.decoder.last_event_id();
        if *id != *self.last_event_id && (!id.is_empty() || self.id_advanced) {
            // An id that does not fit into a header field cannot be used.
            let trimmed = id.trim_ascii().len() == id.len();
            let fits = trimmed && id.iter().all(|b| *b >= b' ' && *b != 0x7f);
            self.last_event_id = if fits { id.into() } else { Box::default() };
            self.id_advanced = true;
        }
        self.retry = self.decoder.retry().or(self.retry);
    }

    /// Returns whether the decoded event was received before; `before` is the previous id of the decoder.
    ///
    /// Only the first events on a new connection can be duplicates. So no event is lost if a server uses an id twice.
    pub(super) fn is_duplicate(&mut self, before: &[u8]) -> bool {
        let id = self.decoder.last_event_id();
        // An event without an id of its own is always new.
        if id.is_empty() || id == before {
            return false;
        }
        if self.recent_ids.iter().any(|known| **known == *id) {
            return self.may_replay;
        }
        self.may_replay = false;
        if self.recent_ids.len() >= MAX_RECENT_IDS {
            self.recent_ids.pop_front();
        }
        self.recent_ids.push_back(id.into());
        false
    }

    /// Returns the yield of the ended connection; one that was open for `max_delay` counts as productive.
    ///
    /// Each connection is evaluated once. Later attempts that fail to connect yield nothing.
    pub(super) fn take_yield(&mut self, now: Instant, policy: &ReconnectPolicy) -> StreamYield {
        let lived = self.opened_at.take().map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let brought = core::mem::replace(&mut self.yielded, StreamYield::Nothing);
        if lived >= policy.max_delay { StreamYield::Messages } else { brought }
    }

    /// Returns the delay before the stream is reopened, or `None` after `max_attempts` unproductive connections.
    ///
    /// `polled` means that the server may end the stream on purpose and something else limits the total time. A new
    /// event id then counts as productive (SSE-017).
    pub(super) fn next_delay(
        &mut self,
        now: Instant,
        policy: &ReconnectPolicy,
        polled: bool,
    ) -> Option<Duration> {
        let advanced = core::mem::take(&mut self.id_advanced);
        if self.take_yield(now, policy) == StreamYield::Messages || (polled && advanced) {
            self.failures = 0;
        }
        if self.failures >= policy.max_attempts {
            return None;
        }
        self.failures += 1;
        Some(match self.retry {
            Some(retry) => {
                let more = self.failures.checked_sub(2).map_or(Duration::ZERO, |n| backoff(policy, n));
                retry.max(more).max(Duration::from_millis(50))
            }
            None => backoff(policy, self.failures - 1),
        })
    }
}

/// Returns the delay after this number of attempts (SSE-026).
pub(super) fn backoff(policy: &ReconnectPolicy, tries: u32) -> Duration {
    policy.initial_delay.saturating_mul(1 << tries.min(20)).min(policy.max_delay)
}
