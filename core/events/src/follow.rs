//! Following the events of one subscription (a type with arguments) by polls or by streams, without I/O.
//!
//! A [`Follower`] says what to send ([`poll_action`](Follower::poll_action)) and until when to wait
//! ([`poll_timeout`](Follower::poll_timeout)); the caller passes in what comes back, and takes events
//! ([`poll_event`](Follower::poll_event)) before the next input. It resumes a lost stream from the last position, finds a stream
//! that is dead by its silence, and drops what it has seen before. **Every event is handed out once, or a [`Gap`] says that some
//! may be missing**, as far as the server keeps its promises.
//!
//! A position belongs to the event that it stands behind: [`cursor`](Follower::cursor) has it as soon as the event is handed out,
//! and so has the event. The result of a poll has one position, behind its last event: there is none behind the others.
//!
//! | state | input | what follows |
//! |---|---|---|
//! | any request | transport failure, passing error | the same again, later and later |
//! | a request with a cursor | `InvalidParams` | [`Gap`], and the same from now on; without a cursor the end |
//! | any request, a stream | `NotFound`, `Unsupported` | the list of types, then [`Gap`] and a new beginning, or the end (EVT-023) |
//! | any request, a stream | `Forbidden`, or HTTP refuses access | the end |
//! | any request | `Retry-After` of HTTP | the same again, not before, but within [`FollowConfig::longest_poll`] |
//! | poll | result | its events, then the next poll after `nextPollMs`, or at once (EVT-044, EVT-045) |
//! | poll, stream | an event that cannot be read | an error that names it, and [`Gap`] in its place; the position moves on |
//! | stream | `active`, event, heartbeat | the position moves (EVT-065) |
//! | stream | silence for twice the interval of heartbeats | another stream from the last position (EVT-059) |
//! | stream | end without `terminated` | another stream, later and later (EVT-062) |
//! | stream | `events/stream` is unknown, and the type has polls | polls |
//! | any | [the list of types has changed](Follower::handle_list_changed) | the list, and another mode if that of now is gone (EVT-019) |
//!
//! A type without replay has no positions. What happens while its stream is broken is lost, so its new stream begins with a
//! [`Gap`].
//!
//! [`Gap`]: FollowEvent::Gap

mod listing;
mod polls;
mod values;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod simulation_tests;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString as _};
use core::fmt;
use core::time::Duration;

use mcp_proto::client::ListPace;
use mcp_proto::rpc::code;
use mcp_proto::{Entropy, Instant, RawJson, RpcError};

use listing::mode;
use polls::read_event;
use values::{Beats, Output};
pub use values::{FollowAction, FollowConfig, FollowError, FollowEvent, GapReason, Subscription};

use crate::seen::{Seen, digest};
use crate::wire::{
    self, DeliveryMode, EventErrorObject, EventOccurrence, EventType, EventsErrorKind, Nullable,
    PollEventsParams, StreamActiveParams, StreamErrorParams, StreamEventsParams, StreamHeartbeatParams,
};

/// What a follower waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The next request is due then.
    Pausing {
        until: Instant,
    },
    /// A poll was sent.
    Polling,
    /// A stream was opened, and has not begun.
    Opening,
    /// A stream has begun.
    Live {
        since: Instant,
        heard_at: Instant,
    },
    /// The list of types was asked for.
    Listing,
    Ended,
}

/// Follower of one subscription; see the [module](self).
pub struct Follower {
    config: FollowConfig,
    subscription: Subscription,
    mode: DeliveryMode,
    /// Whether the connection has streams.
    has_streams: bool,
    /// Whether the type has polls.
    has_polls: bool,
    entropy: Entropy,
    state: State,
    /// Whether the stream of the caller is to be closed.
    closes: bool,
    /// The server does not know the type any more, or not in this form: the list is asked for next.
    refusal: Option<RpcError>,
    /// When the list is asked for because it has changed, beside what goes on.
    recheck_at: Option<Instant>,
    /// Whether it was asked for so.
    is_rechecking: bool,
    /// When it may be asked for because it has changed.
    list_pace: ListPace,
    /// Position for the next request.
    cursor: Option<String>,
    /// Position behind everything that was taken, unless that ends between two positions.
    taken: Option<String>,
    /// Whether the server has ever answered: what comes after that continues it.
    has_begun: bool,
    /// Whether something may be missing in front of the next answer.
    gap: Option<GapReason>,
    failures: u32,
    lists_in_vain: u32,
    burst: u32,
    beats: Beats,
    seen: Seen,
    output: VecDeque<Output>,
}

/// Shows no event and no position: they belong to others.
impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower")
            .field("name", &self.subscription.name)
            .field("mode", &self.mode)
            .field("state", &self.state)
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}

impl Follower {
    /// Creates a follower of a type, as `events/list` describes it. `cursor` is a position that was stored, or `None` for what
    /// happens from now on. `has_streams` tells whether the connection has streams: it does with a modern revision.
    ///
    /// Streams are preferred. `entropy` makes the jitter of pauses.
    ///
    /// # Errors
    ///
    /// [`FollowError::NoMode`] (EVT-013).
    pub fn new(
        config: FollowConfig,
        subscription: Subscription,
        described: &EventType,
        has_streams: bool,
        cursor: Option<String>,
        entropy: Entropy,
    ) -> Result<Self, FollowError> {
        let mode = mode(described, has_streams).ok_or(FollowError::NoMode)?;
        Ok(Self {
            seen: Seen::default(),
            config: config.checked(),
            subscription,
            mode,
            has_streams,
            has_polls: described.delivery.contains(&DeliveryMode::Poll),
            entropy,
            state: State::Pausing { until: Instant::ZERO },
            closes: false,
            refusal: None,
            recheck_at: None,
            is_rechecking: false,
            list_pace: ListPace::default(),
            taken: cursor.clone(),
            cursor,
            has_begun: false,
            gap: None,
            failures: 0,
            lists_in_vain: 0,
            burst: 0,
            beats: Beats::default(),
            output: VecDeque::new(),
        })
    }

    /// Returns the position behind everything that [`poll_event`](Self::poll_event) has handed out, to be stored after that was
    /// handled (EVT-065). `None` if nothing is to be stored, and what is stored stays: in the middle of the events of a poll, and
    /// if the type has no positions (EVT-141).
    #[must_use]
    pub fn cursor(&self) -> Option<&str> {
        self.taken.as_deref()
    }

    /// Returns what is followed.
    #[must_use]
    pub const fn subscription(&self) -> &Subscription {
        &self.subscription
    }

    /// Returns how events come: [`DeliveryMode::Push`] or [`DeliveryMode::Poll`].
    #[must_use]
    pub const fn mode(&self) -> &DeliveryMode {
        &self.mode
    }

    /// Returns whether [`FollowEvent::Ended`] is the next event, or was the last one.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Returns the next event. Take all before the next input: they are held without a bound.
    pub fn poll_event(&mut self) -> Option<FollowEvent> {
        let event = loop {
            match self.output.pop_front()? {
                Output::Event(event) => break event,
                Output::Position(cursor) => self.taken = cursor,
            }
        };
        if matches!(event, FollowEvent::Event(_)) {
            self.taken = None;
        }
        while let Some(Output::Position(cursor)) = self.output.front_mut() {
            self.taken = cursor.take();
            self.output.pop_front();
        }
        Some(event)
    }

    /// Sets the largest number of events of the next polls, as [`FollowConfig::max_events`] does: a program that wants only so many
    /// more has a position behind the last one.
    pub fn set_max_events(&mut self, max_events: Option<u64>) {
        self.config.max_events = max_events.map(|max| max.max(1));
    }

    /// Returns what to do now. Its outcome is passed in before the next action, except that of [`FollowAction::Close`].
    pub fn poll_action(&mut self, now: Instant) -> Option<FollowAction> {
        if core::mem::take(&mut self.closes) {
            return Some(FollowAction::Close);
        }
        if self.takes_recheck(now) {
            return Some(FollowAction::List);
        }
        if self.is_rechecking || !matches!(self.state, State::Pausing { until } if until <= now) {
            return None;
        }
        if self.refusal.is_some() {
            self.state = State::Listing;
            self.record_list(now);
            return Some(FollowAction::List);
        }
        let Subscription { name, arguments } = &self.subscription;
        let max_age_ms = self.config.max_age_ms.filter(|_| self.cursor.is_some());
        if self.mode == DeliveryMode::Push {
            (self.state, self.beats) = (State::Opening, Beats::default());
            let mut params = StreamEventsParams::new(name.clone());
            params.arguments = arguments.clone();
            params.cursor = self.cursor.clone();
            params.max_age_ms = max_age_ms;
            return Some(FollowAction::Open(params));
        }
        self.state = State::Polling;
        let mut params = PollEventsParams::new(name.clone());
        params.arguments = arguments.clone();
        params.cursor = self.cursor.clone();
        params.max_age_ms = max_age_ms;
        params.max_events = self.config.max_events;
        Some(FollowAction::Poll(params))
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout), and [`poll_action`](Self::poll_action) behind it. `None`
    /// while a request is on its way: its answer is the next input.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let due = match self.state {
            State::Pausing { .. } if self.is_rechecking => return None,
            State::Pausing { until } => until,
            State::Live { heard_at, .. } => heard_at + self.beats.longest_silence(),
            State::Polling | State::Opening | State::Listing | State::Ended => return None,
        };
        Some(self.next_recheck().map_or(due, |at| at.min(due)))
    }

    /// Handles the deadline: a stream that was silent for too long is dead (EVT-059).
    pub fn handle_timeout(&mut self, now: Instant) {
        let State::Live { heard_at, .. } = self.state else { return };
        if now >= heard_at + self.beats.longest_silence() {
            self.closes = true;
            self.fail(FollowError::Silent);
            self.stream_lost(now);
        }
    }

    /// Forgets a request whose answer will not come, because the caller gave it up. It is due again. A stream that has begun is
    /// none.
    pub fn handle_abandoned(&mut self, now: Instant) {
        if core::mem::take(&mut self.is_rechecking) {
            self.recheck_at = Some(now);
        }
        if matches!(self.state, State::Polling | State::Opening | State::Listing) {
            self.wait_until(now);
        }
    }

    /// Takes a notification of the stream.
    pub fn handle_notification(&mut self, now: Instant, method: &str, params: Option<&RawJson>) {
        let since = match self.state {
            State::Opening => now,
            State::Live { since, .. } => since,
            _ => return,
        };
        self.state = State::Live { since, heard_at: now };
        let params = params.cloned().unwrap_or_else(RawJson::empty_object);
        let read = match method {
            wire::ACTIVE => params.parse().map(|active: StreamActiveParams| self.stream_active(active)),
            wire::EVENT => match read_event(&params) {
                Ok(event) => {
                    self.stream_event(event);
                    Ok(())
                }
                Err(error) => return self.stream_event_unread(&params, &error),
            },
            wire::HEARTBEAT => params.parse().map(|beat: StreamHeartbeatParams| {
                self.beats.record(now);
                self.succeed();
                let cursor = beat.cursor.and_then(|Nullable(cursor)| cursor);
                self.report_gap(false, cursor.as_ref(), false);
                self.move_to(cursor);
            }),
            wire::ERROR => params.parse().map(|error: StreamErrorParams| {
                self.fail(FollowError::Server(to_rpc(error.error)));
            }),
            wire::TERMINATED => params.parse().map(|end: StreamErrorParams| {
                self.closes = true;
                self.terminated(now, to_rpc(end.error));
            }),
            // Nothing else belongs to the stream (EVT-053).
            _ => Ok(()),
        };
        if let Err(error) = read {
            self.fail(FollowError::Malformed(format!("`{method}`: {error}")));
            // It may have told of a gap.
            if method == wire::ACTIVE && (self.has_begun || self.cursor.is_some()) {
                self.report_lost_event(None);
            }
        }
    }

    /// Takes the end of the stream: the final result, or an error. A stream that was to be closed has none.
    pub fn handle_stream_end(&mut self, now: Instant, outcome: Result<(), FollowError>) {
        match (self.state, outcome) {
            (State::Opening, Err(error)) => self.request_failed(now, error),
            (State::Live { .. }, Err(error @ FollowError::Refused(_))) => self.end(error),
            (State::Live { .. }, Err(error)) => {
                let asked = error.retry_after();
                self.fail(error);
                self.stream_lost(now);
                self.wait_as_asked(now, asked);
            }
            (State::Opening | State::Live { .. }, Ok(())) => self.stream_lost(now),
            _ => {}
        }
    }

    // ---- what follows ----

    fn stream_active(&mut self, active: StreamActiveParams) {
        let cursor = active.cursor.and_then(|Nullable(cursor)| cursor);
        self.report_gap(active.truncated == Some(true), cursor.as_ref(), false);
        self.lists_in_vain = 0;
        self.move_to(cursor);
    }

    fn stream_event(&mut self, event: EventOccurrence) {
        // Also one before `active`, which is tolerated.
        self.succeed();
        let cursor = event.cursor.as_ref().and_then(|Nullable(cursor)| cursor.clone());
        self.report_gap(false, cursor.as_ref(), true);
        self.hand_out(event);
        self.move_to(cursor);
    }

    /// Handles an event of the stream that cannot be read. Its position is taken if that can be read: it would come again otherwise.
    fn stream_event_unread(&mut self, params: &RawJson, error: &str) {
        self.fail(FollowError::Malformed(format!("`{}`: {error}", wire::EVENT)));
        let cursor = params.member("cursor").and_then(|cursor| cursor.string());
        self.report_lost_event(cursor.clone());
        self.move_to(cursor);
    }

    /// Reports a gap in the place of a message that cannot be read.
    fn report_lost_event(&mut self, cursor: Option<String>) {
        // It comes after a gap in front of this answer, if there is one.
        self.report_gap(false, cursor.as_ref(), false);
        self.output.push_back(Output::Event(FollowEvent::Gap { reason: GapReason::Malformed, cursor }));
    }

    /// Reports a gap in front of this answer: one that was found before, or the one of which `truncated` tells.
    ///
    /// If the answer has events, its position is behind them and not told: whoever stored it would lose them in a crash.
    fn report_gap(&mut self, truncated: bool, cursor: Option<&String>, has_events: bool) {
        // Types without positions cannot tell (EVT-147), and nothing is missing before the beginning.
        let is_gap = truncated && cursor.is_some() && (self.has_begun || self.cursor.is_some());
        let reason = self.gap.take().or_else(|| is_gap.then_some(GapReason::Truncated));
        self.has_begun = true;
        if let Some(reason) = reason {
            let cursor = cursor.filter(|_| !has_events).cloned();
            self.output.push_back(Output::Event(FollowEvent::Gap { reason, cursor }));
        }
    }

    fn hand_out(&mut self, event: EventOccurrence) {
        if event.name != self.subscription.name {
            let text = format!("an event of the type `{}`", event.name.chars().take(64).collect::<String>());
            return self.fail(FollowError::Malformed(text));
        }
        if self.seen.insert(digest(b"event", &event.event_id), self.config.remembered) {
            self.output.push_back(Output::Event(FollowEvent::Event(event)));
        }
    }

    /// Records the position behind everything so far. None is kept if there was one before: a type has positions always or never
    /// (EVT-142).
    fn move_to(&mut self, cursor: Option<String>) {
        if cursor.is_some() {
            if let Some(Output::Event(FollowEvent::Event(event))) = self.output.back_mut() {
                event.cursor = Some(Nullable(cursor.clone()));
            }
            self.cursor.clone_from(&cursor);
            self.output.push_back(Output::Position(cursor));
        }
    }

    fn succeed(&mut self) {
        (self.failures, self.lists_in_vain) = (0, 0);
    }

    /// Tells the application of an error that is not the end.
    fn fail(&mut self, error: FollowError) {
        self.output.push_back(Output::Event(FollowEvent::Error(error)));
    }

    fn end(&mut self, error: FollowError) {
        self.state = State::Ended;
        self.output.push_back(Output::Event(FollowEvent::Ended(error)));
    }

    fn request_failed(&mut self, now: Instant, error: FollowError) {
        match error {
            FollowError::Server(error) => self.refused(now, error),
            error @ FollowError::Refused(_) => self.end(error),
            error => {
                let asked = error.retry_after();
                self.fail(error);
                let pause = self.next_backoff();
                self.wait_until(now + pause);
                self.wait_as_asked(now, asked);
            }
        }
    }

    /// Makes a pause as long as the server asks for, within the bound of pauses between polls.
    fn wait_as_asked(&mut self, now: Instant, asked: Duration) {
        if let State::Pausing { until } = &mut self.state {
            *until = (*until).max(now + asked.min(self.config.longest_poll));
        }
    }

    /// Follows from the error with which the server answered a request.
    fn refused(&mut self, now: Instant, error: RpcError) {
        use EventsErrorKind::{Forbidden, InvalidParams, NotFound, Unsupported};
        let is_unknown = error.code == code::METHOD_NOT_FOUND;
        let is_listing = self.state == State::Listing;
        match EventsErrorKind::of_code(error.code) {
            Some(InvalidParams) if self.cursor.is_some() && !is_listing => {
                // The answer without it tells whether the arguments are at fault.
                self.begin_anew(GapReason::CursorRefused);
                self.wait_until(now);
            }
            Some(NotFound | Unsupported) if !is_listing => self.list(now, error),
            Some(Forbidden | InvalidParams) => self.end(FollowError::Server(error)),
            None if is_unknown && self.mode == DeliveryMode::Push && self.has_polls && !is_listing => {
                (self.mode, self.has_streams) = (DeliveryMode::Poll, false);
                self.wait_until(now);
            }
            None if is_unknown => self.end(FollowError::Server(error)),
            _ => {
                self.fail(FollowError::Server(error));
                let pause = self.next_backoff();
                self.wait_until(now + pause);
            }
        }
    }

    /// Follows from `terminated`: the subscription has ended, and may begin anew if its type has changed (EVT-023).
    fn terminated(&mut self, now: Instant, error: RpcError) {
        match EventsErrorKind::of_code(error.code) {
            Some(EventsErrorKind::NotFound | EventsErrorKind::Unsupported) => self.list(now, error),
            _ => self.end(FollowError::Server(error)),
        }
    }

    /// Opens another stream later. One that has lived for longer than the last pause was no failure.
    fn stream_lost(&mut self, now: Instant) {
        if let State::Live { since, .. } = self.state {
            if now.saturating_duration_since(since) >= self.backoff() {
                self.failures = 0;
            }
        }
        if self.cursor.is_none() && self.has_begun {
            self.gap.get_or_insert(GapReason::NoReplay);
        }
        let pause = self.next_backoff();
        self.wait_until(now + pause);
    }

    fn begin_anew(&mut self, reason: GapReason) {
        if self.has_begun || self.cursor.is_some() {
            self.gap.get_or_insert(reason);
        }
        if self.cursor.take().is_some() {
            self.output.push_back(Output::Position(None));
        }
    }

    fn wait_until(&mut self, until: Instant) {
        self.state = State::Pausing { until };
    }

    fn backoff(&self) -> Duration {
        backoff(self.failures, self.config.shortest_backoff, self.config.longest_backoff)
    }

    /// Returns the next pause, between half of it and all: clients that lost one server must not come back together.
    fn next_backoff(&mut self) -> Duration {
        let pause = self.backoff();
        self.failures = self.failures.saturating_add(1);
        pause / 2 + random_part(&mut self.entropy, pause / 2)
    }
}

/// Returns the pause after a number of failures: each is twice as long as the one before, within the bounds.
pub(crate) fn backoff(failures: u32, shortest: Duration, longest: Duration) -> Duration {
    let doubled = 1_u32.checked_shl(failures.min(16)).unwrap_or(1);
    shortest.saturating_mul(doubled).min(longest)
}

/// Returns a random part of a time.
pub(crate) fn random_part(entropy: &mut Entropy, of: Duration) -> Duration {
    let mut random = [0; 2];
    entropy.fill(&mut random);
    of.saturating_mul(u32::from(u16::from_le_bytes(random))) / (1 << 16)
}

fn to_rpc(error: EventErrorObject) -> RpcError {
    let rpc = RpcError::new(error.code, error.message.to_string());
    match error.data {
        Some(data) => rpc.with_data(data),
        None => rpc,
    }
}
