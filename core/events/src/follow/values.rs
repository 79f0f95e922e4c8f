//! Values of a follower: what it is made with, what it asks for and what it reports, and its heartbeats.

use alloc::string::String;
use core::time::Duration;

use mcp_proto::{Instant, RawJson, RpcError};

use crate::wire::{EventOccurrence, PollEventsParams, StreamEventsParams};

/// Bounds and choices of a [`Follower`](super::Follower).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowConfig {
    /// Age of the oldest event that is wanted after an interruption, in milliseconds (EVT-143). Default: `None`, all.
    pub max_age_ms: Option<u64>,
    /// Largest number of events of one poll. Default: `None`, what the server likes.
    pub max_events: Option<u64>,
    /// Shortest time between two polls, unless the server has more (EVT-045). Default: 1 s.
    pub shortest_poll: Duration,
    /// Longest time between two polls, whatever the server asks for; `Retry-After` of HTTP is believed up to it, too. Default: 5 min.
    pub longest_poll: Duration,
    /// Time between two polls if the server names none. Default: 30 s.
    pub default_poll: Duration,
    /// First pause after a failure; each further one is twice as long. Half of a pause is random. Default: 1 s.
    pub shortest_backoff: Duration,
    /// Longest pause after failures. Default: 1 min.
    pub longest_backoff: Duration,
    /// Number of event ids that are remembered, 32 bytes each; a repetition of an older one is handed out again.
    /// Default: 1,024.
    pub remembered: usize,
}

impl Default for FollowConfig {
    fn default() -> Self {
        Self {
            max_age_ms: None,
            max_events: None,
            shortest_poll: Duration::from_secs(1),
            longest_poll: Duration::from_secs(300),
            default_poll: Duration::from_secs(30),
            shortest_backoff: Duration::from_secs(1),
            longest_backoff: Duration::from_secs(60),
            remembered: 1_024,
        }
    }
}

impl FollowConfig {
    /// Returns bounds that hold together: a pause is never zero, and the longest one is not shorter than the shortest.
    pub(super) fn checked(mut self) -> Self {
        let least = Duration::from_millis(10);
        self.shortest_poll = self.shortest_poll.max(least);
        self.longest_poll = self.longest_poll.max(self.shortest_poll);
        self.default_poll = self.default_poll.clamp(self.shortest_poll, self.longest_poll);
        self.shortest_backoff = self.shortest_backoff.max(least);
        self.longest_backoff = self.longest_backoff.max(self.shortest_backoff);
        self.max_events = self.max_events.map(|max| max.max(1));
        self
    }
}

/// What is followed: a type, and arguments for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscription {
    /// Name of the type.
    pub name: String,
    /// Arguments, an object; `None` for `{}`.
    pub arguments: Option<RawJson>,
}

/// What a follower asks its caller to do.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FollowAction {
    /// Send `events/poll`, and pass its outcome to [`handle_polled`](super::Follower::handle_polled).
    Poll(PollEventsParams<'static>),
    /// Send `events/stream`, without a total timeout (EVT-058). Its notifications go to
    /// [`handle_notification`](super::Follower::handle_notification), its end to
    /// [`handle_stream_end`](super::Follower::handle_stream_end).
    Open(StreamEventsParams<'static>),
    /// Cancel the open `events/stream`, if there is one. Nothing of it is passed in any more.
    Close,
    /// Read all pages of `events/list`, and pass the description of the type to
    /// [`handle_listed`](super::Follower::handle_listed). A stream that is open stays open.
    List,
}

/// What a follower reports.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FollowEvent {
    /// An event. It is untrusted, as the result of a tool is (EVT-160). Its `cursor` is the position behind it, by polls as well:
    /// there the last event of a result has it.
    Event(EventOccurrence),
    /// Events may be missing between those before and those after it (EVT-146). Nothing has to be done to go on.
    Gap {
        /// The cause.
        reason: GapReason,
        /// Position behind the gap; `None` if the type has none, or it is not known.
        cursor: Option<String>,
    },
    /// An error after which the follower goes on.
    Error(FollowError),
    /// The subscription has ended (EVT-153). It is the last event.
    Ended(FollowError),
}

/// Cause of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GapReason {
    /// The server has skipped events.
    Truncated,
    /// The server did not take the position.
    CursorRefused,
    /// The type has no positions, and its stream was interrupted.
    NoReplay,
    /// The type was removed or changed, and is there again.
    TypeChanged,
    /// The server sent an event that cannot be read; the error in front of the gap says which one.
    Malformed,
}

/// An error of following.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The server answered with an error.
    #[error("the server reports an error: {0}")]
    Server(RpcError),
    /// There was no answer, or the stream broke.
    #[error("the request was lost: {0}")]
    Lost(String),
    /// The server, or what stands before it, asks to wait (`Retry-After` of HTTP).
    #[error("the server asks to wait for {} s: {reason}", retry_after.as_secs())]
    Busy {
        /// The answer.
        reason: String,
        /// The time that it asks for.
        retry_after: Duration,
    },
    /// The server, or what stands before it, refuses access by the status of HTTP. It is the end: the same again would be refused
    /// again, or ask a user again.
    #[error("access is refused: {0}")]
    Refused(String),
    /// The list of types has changed, and does not have the type any more. It is not the end: the server says that itself.
    #[error("the server does not list the event type any more")]
    Unlisted,
    /// The stream was silent for twice the interval of its heartbeats (EVT-059).
    #[error("the stream is silent for too long")]
    Silent,
    /// A message is not one of the extension.
    #[error("the server sends what is no message of the extension: {0}")]
    Malformed(String),
    /// The type offers none of the modes of this client (EVT-013).
    #[error("the event type offers neither streams nor polls to this client")]
    NoMode,
}

impl FollowError {
    /// Returns the time that the server asks to wait; zero if it asks for none.
    pub(crate) const fn retry_after(&self) -> Duration {
        match self {
            Self::Busy { retry_after, .. } => *retry_after,
            _ => Duration::ZERO,
        }
    }
}

/// What a follower holds for its caller, in order.
pub(super) enum Output {
    Event(FollowEvent),
    /// The position behind the events in front of it.
    Position(Option<String>),
}

/// Heartbeats of a stream come at least this often (EVT-057).
const LONGEST_BEAT: Duration = Duration::from_secs(30);
/// Silence that never makes a stream dead, however fast its heartbeats are.
const SHORTEST_SILENCE: Duration = Duration::from_secs(3);

/// How often heartbeats of a stream come, as far as is known (EVT-059): no message says so.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beats {
    last: Option<Instant>,
    /// The longest time between two of them, and the number of such times.
    longest: Duration,
    count: u32,
}

impl Beats {
    pub(super) fn record(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            self.longest = self.longest.max(now.saturating_duration_since(last));
            self.count += 1;
        }
    }

    /// Returns the silence after which the stream is dead.
    pub(super) fn longest_silence(&self) -> Duration {
        let interval = if self.count < 2 { LONGEST_BEAT } else { self.longest.min(LONGEST_BEAT) };
        (2 * interval).max(SHORTEST_SILENCE)
    }
}
