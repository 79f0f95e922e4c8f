//! Events that clients ask for: lists of types, polls, and the streams of requests.
//!
//! [`Source`] is one state machine for all of them. The application publishes ([`publish`](Source::publish)); the caller passes
//! in the requests of clients, and sends what [`poll_message`](Source::poll_message) returns on the stream that it names. A
//! message that the connection has no room for comes back later ([`hold`](Source::hold)), and nothing is lost or doubled by
//! that: each stream is a position in the log of its type. One that falls behind the log is told so (EVT-055).
//!
//! Several callers can drive the streams of one source, each on a thread of its own for example: each has a [`Lane`], and sees the
//! messages and deadlines of its own streams alone.
//!
//! A stream begins with `active`, has events and heartbeats, and ends by [`close`](Source::close), or with `terminated`
//! ([`remove`](Source::remove), [`terminate`](Source::terminate)). Streams take turns: one message each.

mod log;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use mcp_proto::{Entropy, Instant};

pub(crate) use log::Log;
pub use log::LogLimits;

use crate::store::{Record, Snapshot, StoredSubscription};
use crate::wire::{
    DeliveryMode, EventOccurrence, EventType, EventsError, ListEventsResult, Nullable, PollEventsParams,
    PollEventsResult, StreamEventsParams,
};
use log::{Position, Start};

/// Bounds and choices of a [`Source`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceConfig {
    /// Silence after which a stream gets a heartbeat (default 10 s; at most 30 s by EVT-057). It is below the interval of
    /// comments on event streams of HTTP, which carry no cursor (EVT-056).
    pub heartbeat: Duration,
    /// Time to the next poll that clients are told (default 30 s).
    pub next_poll: Duration,
    /// Largest number of events in the result of a poll, and what a client gets that names none (default 100).
    pub events_per_poll: usize,
    /// Types in a page of a list (default 100).
    pub types_per_page: usize,
    /// Open streams (default 1,024).
    pub streams: usize,
    /// Open streams of one principal (default 64). Those without a principal are bounded by [`streams`](Self::streams) alone.
    pub streams_per_principal: usize,
}

impl Default for SourceConfig {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(10),
            next_poll: Duration::from_secs(30),
            events_per_poll: 100,
            types_per_page: 100,
            streams: 1_024,
            streams_per_principal: 64,
        }
    }
}

/// Decides whether an event is for a client, by his arguments and by what he may see.
pub type Filter = Box<dyn Fn(&EventOccurrence) -> bool + Send + Sync>;

/// Key of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey(u64);

/// Key of the streams that one caller drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(u64);

#[derive(Default)]
struct LaneState {
    ready: VecDeque<StreamKey>,
    /// When each stream is looked at again: heartbeats, and the ends of holds.
    timers: BTreeSet<(Instant, StreamKey)>,
    /// The latest time that was passed in for it. Those of other lanes may be ahead.
    now: Instant,
}

impl LaneState {
    fn make_ready(&mut self, key: StreamKey, stream: &mut Stream) {
        if !core::mem::replace(&mut stream.is_ready, true) {
            self.ready.push_back(key);
        }
    }
}

/// A message on a stream.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StreamMessage {
    /// `notifications/events/active`: the first one, and again where events were missed.
    Active {
        /// Position; absent means `null`.
        cursor: Option<String>,
        /// Whether events were missed.
        truncated: bool,
    },
    /// `notifications/events/event`.
    Event(EventOccurrence),
    /// `notifications/events/heartbeat`.
    Heartbeat {
        /// Position; absent means `null`.
        cursor: Option<String>,
    },
    /// `notifications/events/error`: the stream goes on (EVT-054).
    Error(EventsError),
    /// `notifications/events/terminated`; the final result follows, and the key is stale.
    Terminated(EventsError),
}

/// Where the deliveries of a webhook subscription begin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resume {
    /// Cursor of the position; absent if the type has none.
    pub cursor: Option<String>,
    /// Whether events that the client asked for are left out (EVT-144).
    pub truncated: bool,
    position: Position,
}

/// The events that a webhook subscription has missed before it was granted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Replay {
    /// The events, in order, each with its cursor.
    pub events: Vec<EventOccurrence>,
    /// Cursor of a gap in front of them: events left the log since [`Source::resume`], or there is a gap among them.
    pub gap: Option<String>,
}

/// No type has the name of the event; nothing was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no event type has this name")]
pub struct UnknownType;

struct Type {
    described: EventType,
    log: Log,
    /// Streams that wait for the next event.
    waiting: BTreeSet<StreamKey>,
    /// End of the log at the last checkpoint.
    checkpoint: Position,
}

impl Type {
    /// Finds where a poll or a stream begins.
    fn start(
        &mut self,
        now: Instant,
        cursor: Option<&str>,
        max_age_ms: Option<u64>,
    ) -> Result<Start, EventsError> {
        self.log.expire(now);
        let start = self.log.start(now, cursor, max_age_ms.map(Duration::from_millis));
        start.map_err(|error| EventsError::InvalidParams(alloc::format!("{error}")))
    }
}

/// What of a stream a message changes; kept until the next one, for [`Source::hold`].
#[derive(Clone)]
struct Progress {
    position: Position,
    /// `active` is due, with this `truncated`.
    active: Option<bool>,
    /// An error that is due: the newest of those that were reported.
    error: Option<EventsError>,
    /// Time at which a heartbeat is due.
    beat_at: Instant,
}

struct Stream {
    lane: Lane,
    name: String,
    principal: Option<String>,
    filter: Filter,
    progress: Progress,
    before: Progress,
    /// It ends with this.
    end: Option<EventsError>,
    /// Invariant: it is among `LaneState::ready` of its lane once if true.
    is_ready: bool,
    held_until: Option<Instant>,
}

/// The event types of a server, their logs, and the streams of clients.
pub struct Source {
    config: SourceConfig,
    entropy: Entropy,
    types: BTreeMap<String, Type>,
    /// Logs of types that were not added yet, by name.
    stored: BTreeMap<String, Log>,
    streams: BTreeMap<StreamKey, Stream>,
    principals: BTreeMap<Option<String>, usize>,
    /// Invariant: those of all streams are here.
    lanes: BTreeMap<Lane, LaneState>,
    next: u64,
}

/// Shows numbers alone: events belong to others.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("types", &self.types.len())
            .field("streams", &self.streams.len())
            .finish_non_exhaustive()
    }
}

impl Source {
    /// Creates a source without types. `entropy` tells its cursors from those of another process.
    #[must_use]
    pub const fn new(config: SourceConfig, entropy: Entropy) -> Self {
        Self {
            config,
            entropy,
            types: BTreeMap::new(),
            stored: BTreeMap::new(),
            streams: BTreeMap::new(),
            principals: BTreeMap::new(),
            lanes: BTreeMap::new(),
            next: 0,
        }
    }

    // Types.

    /// Adds a type, or describes one anew that has changed additively: nothing that follows it ends (EVT-022).
    ///
    /// A type that changed otherwise is [removed](Self::remove) first, with [`EventsError::SchemaChanged`].
    ///
    /// It goes on with its [stored](Self::restore) log. Returns what a store does not know of its log.
    pub fn add(&mut self, described: EventType, limits: LogLimits) -> Option<Record> {
        let name = described.name.clone();
        if let Some(known) = self.types.get_mut(&name) {
            known.described = described;
            return None;
        }
        let stored = self.stored.remove(&name).filter(|_| limits.replays);
        let (log, is_known) = match stored {
            Some(mut log) => {
                let is_known = log.limits() == limits;
                log.set_limits(limits);
                (log, is_known)
            }
            None => (Log::new(limits, &mut self.entropy), !limits.replays),
        };
        let record = (!is_known).then(|| log.record(&name));
        // Those of before may be anywhere in it.
        let checkpoint = log.start_of_all();
        self.types.insert(name, Type { described, log, waiting: BTreeSet::new(), checkpoint });
        record
    }

    /// Removes a type, and ends its streams (EVT-020, EVT-021). Its log does not come back. Returns whether there was one, or a stored
    /// log that waits for it.
    pub fn remove(&mut self, name: &str, reason: &EventsError) -> bool {
        let waits = self.stored.remove(name).is_some();
        let is_known = self.types.remove(name).is_some() || waits;
        self.terminate(|stream, _| (stream == name).then(|| reason.clone()));
        is_known
    }

    /// Returns the description of a type.
    #[must_use]
    pub fn described(&self, name: &str) -> Option<&EventType> {
        self.types.get(name).map(|known| &known.described)
    }

    /// Answers `events/list` with the types that `is_visible` (EVT-010, EVT-011).
    ///
    /// A cursor is the name of the last type of the page before, so types that come and go neither repeat nor hide others.
    #[must_use]
    pub fn list(&self, cursor: Option<&str>, is_visible: impl Fn(&EventType) -> bool) -> ListEventsResult {
        let after = |name: &String| cursor.is_none_or(|cursor| name.as_str() > cursor);
        let described = self.types.iter().filter(|(name, _)| after(name)).map(|(_, known)| &known.described);
        let mut visible = described.filter(|described| is_visible(described));
        let page: Vec<EventType> =
            visible.by_ref().take(self.config.types_per_page.max(1)).cloned().collect();
        let last = page.last().map(|last| last.name.clone()).filter(|_| visible.next().is_some());
        let result = ListEventsResult::new(page);
        match last {
            Some(name) => result.next_cursor(name),
            None => result,
        }
    }

    // Events.

    /// Publishes an event of a type. Streams that wait for it get it next.
    ///
    /// # Errors
    ///
    /// [`UnknownType`].
    pub fn publish(&mut self, now: Instant, event: EventOccurrence) -> Result<(), UnknownType> {
        let name = event.name.clone();
        let known = self.types.get_mut(&name).ok_or(UnknownType)?;
        known.log.append(now, Some(event));
        self.wake_waiting(&name);
        Ok(())
    }

    /// Reports that events of a type were lost before they were published: streams get `active` again (EVT-055), and polls
    /// `truncated` (EVT-145). Readers that begin later are not told. Without cursors a gap would tell nothing, so there is none (EVT-147).
    ///
    /// # Errors
    ///
    /// [`UnknownType`].
    pub fn report_gap(&mut self, now: Instant, name: &str) -> Result<(), UnknownType> {
        let known = self.types.get_mut(name).ok_or(UnknownType)?;
        if known.log.has_cursors() {
            known.log.append(now, None);
            self.wake_waiting(name);
        }
        Ok(())
    }

    /// Reports an error that passes, of what the events come from, on every open stream of a type; they go on (EVT-054). Of several
    /// errors that a stream has no room for, the newest is sent.
    ///
    /// # Errors
    ///
    /// [`UnknownType`].
    pub fn report_error(&mut self, name: &str, error: &EventsError) -> Result<(), UnknownType> {
        if !self.types.contains_key(name) {
            return Err(UnknownType);
        }
        for (key, stream) in self.streams.iter_mut().filter(|(_, stream)| stream.name == name) {
            stream.progress.error = Some(error.clone());
            if stream.held_until.is_none() {
                make_ready(&mut self.lanes, *key, stream);
            }
        }
        Ok(())
    }

    /// Lets the streams of a type that wait for its next event look at its log.
    fn wake_waiting(&mut self, name: &str) {
        let Some(known) = self.types.get_mut(name) else { return };
        for key in core::mem::take(&mut known.waiting) {
            if let Some(stream) = self.streams.get_mut(&key).filter(|stream| stream.held_until.is_none()) {
                make_ready(&mut self.lanes, key, stream);
            }
        }
    }

    // Stores.

    /// Takes the logs of a store in, for types that are [added](Self::add) later: cursors of before are valid then. Returns the
    /// subscriptions of the store, by their ids.
    ///
    /// Its instants go on: those of a source with a store are microseconds since 1970, for example.
    pub fn restore(&mut self, snapshot: Snapshot) -> BTreeMap<String, StoredSubscription> {
        let Snapshot { mut logs, subscriptions } = snapshot;
        logs.retain(|name, _| !self.types.contains_key(name));
        self.stored.append(&mut logs);
        subscriptions
    }

    /// Returns the record of an event to append to a store before it is [published](Self::publish); `None` if its type keeps none.
    #[must_use]
    pub fn record(&self, now: Instant, event: &EventOccurrence) -> Option<Record> {
        let position = self.kept(&event.name)?.end().0;
        Some(Record::Event { position, at: now.as_micros(), event: event.clone() })
    }

    /// Returns the record of a gap to append to a store before it is [reported](Self::report_gap); `None` if its type keeps none.
    #[must_use]
    pub fn gap_record(&self, now: Instant, name: &str) -> Option<Record> {
        let position = self.kept(name)?.end().0;
        Some(Record::Gap { name: name.into(), position, at: now.as_micros() })
    }

    /// Returns the records of everything that a store keeps of this source.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let kept = self.types.iter().filter(|(_, known)| known.log.has_cursors());
        let stored = self.stored.iter().flat_map(|(name, log)| log.records(name));
        kept.flat_map(|(name, known)| known.log.records(name)).chain(stored)
    }

    fn kept(&self, name: &str) -> Option<&Log> {
        self.types.get(name).map(|known| &known.log).filter(|log| log.has_cursors())
    }

    // Polls.

    /// Answers `events/poll` (EVT-040 to EVT-047). The caller has checked the arguments and the permission for them.
    ///
    /// # Errors
    ///
    /// The error to answer with.
    pub fn poll(
        &mut self,
        now: Instant,
        params: &PollEventsParams<'_>,
        filter: impl Fn(&EventOccurrence) -> bool,
    ) -> Result<PollEventsResult, EventsError> {
        let (most, next_poll) = (self.config.events_per_poll.max(1), self.config.next_poll);
        let known = self.type_with(&params.name, &DeliveryMode::Poll)?;
        let max = match params.max_events {
            None => most,
            Some(0) => return Err(EventsError::InvalidParams("`maxEvents` must be at least 1".into())),
            Some(max) => usize::try_from(max).unwrap_or(usize::MAX).min(most),
        };
        let start = known.start(now, params.cursor.as_ref().map(AsRef::as_ref), params.max_age_ms)?;
        let batch = known.log.read(start.position, max, filter);
        let events: Vec<EventOccurrence> = batch.events.iter().map(|event| (*event).clone()).collect();
        #[allow(clippy::cast_precision_loss, reason = "far below 2^53 milliseconds")]
        let next_poll_ms = next_poll.as_millis() as f64;
        Ok(PollEventsResult::new(events)
            .cursor(Nullable(known.log.cursor(batch.position)))
            .truncated(start.truncated || batch.gap.is_some())
            .has_more(batch.has_more)
            .next_poll_ms(next_poll_ms))
    }

    // Webhooks.

    /// Finds where the deliveries of `events/subscribe` begin (EVT-078). The caller has checked the arguments and the permission
    /// for them.
    ///
    /// # Errors
    ///
    /// The error to answer with.
    pub fn resume(
        &mut self,
        now: Instant,
        name: &str,
        cursor: Option<&str>,
        max_age_ms: Option<u64>,
    ) -> Result<Resume, EventsError> {
        let known = self.type_with(name, &DeliveryMode::Webhook)?;
        let start = known.start(now, cursor, max_age_ms)?;
        let cursor = known.log.cursor(start.position);
        Ok(Resume { cursor, truncated: start.truncated, position: start.position })
    }

    /// Returns what a subscription has missed since its start. What is published after this call is for the caller to deliver.
    #[must_use]
    pub fn replay(&self, name: &str, resume: &Resume, filter: impl Fn(&EventOccurrence) -> bool) -> Replay {
        let mut replay = Replay { events: Vec::new(), gap: None };
        let Some(known) = self.types.get(name) else { return replay };
        let mut position = resume.position;
        loop {
            // One at a time, because the cursor of an event is the position behind it.
            let batch = known.log.read(position, 1, &filter);
            if let Some(gap) = batch.gap {
                // In front of all events, so behind none of those that follow it.
                let at = if replay.events.is_empty() {
                    gap
                } else {
                    resume.position.max(known.log.start_of_all())
                };
                replay.gap = known.log.cursor(at);
            }
            position = batch.position;
            let cursor = || Nullable(known.log.cursor(position));
            replay.events.extend(batch.events.iter().map(|event| (*event).clone().cursor(cursor())));
            if !batch.has_more {
                return replay;
            }
        }
    }

    /// Finds where the deliveries of a stored subscription go on. What is too old, and still there, is delivered.
    ///
    /// # Errors
    ///
    /// The reason why it cannot go on.
    pub fn resume_stored(&mut self, name: &str, cursor: Option<&str>) -> Result<Resume, EventsError> {
        // At the beginning of time, nothing is old.
        self.resume(Instant::ZERO, name, cursor, None)
    }

    /// Returns the cursor behind all events of a type if half of its log is newer than at the last checkpoint, and makes one. The
    /// subscriptions of a store have to [pass](crate::delivery::Deliveries::pass) it: the positions of quiet ones would leave the log,
    /// and a restart would take that for a gap.
    pub fn checkpoint(&mut self, name: &str) -> Option<String> {
        let known = self.types.get_mut(name)?;
        let (first, end) = (known.log.start_of_all().0, known.log.end().0);
        let is_due = end - known.checkpoint.0 >= (end - first).div_ceil(2).max(1);
        if is_due {
            known.checkpoint = known.log.end();
        }
        self.cursor(name).filter(|_| is_due)
    }

    /// Returns the cursor behind all events of a type; `None` if it has none.
    #[must_use]
    pub fn cursor(&self, name: &str) -> Option<String> {
        let log = &self.types.get(name)?.log;
        log.cursor(log.end())
    }

    // Streams.

    /// Adds a lane without streams.
    pub fn add_lane(&mut self) -> Lane {
        self.next += 1;
        let lane = Lane(self.next);
        self.lanes.insert(lane, LaneState::default());
        lane
    }

    /// Removes a lane, and closes its streams.
    pub fn remove_lane(&mut self, lane: Lane) {
        let of_lane = self.streams.iter().filter(|(_, stream)| stream.lane == lane).map(|(key, _)| *key);
        for key in of_lane.collect::<Vec<_>>() {
            self.close(key);
        }
        self.lanes.remove(&lane);
    }

    /// Returns whether a lane has streams to look at: [`poll_message`](Self::poll_message) may have something.
    #[must_use]
    pub fn is_ready(&self, lane: Lane) -> bool {
        self.lanes.get(&lane).is_some_and(|lane| !lane.ready.is_empty())
    }

    /// Opens the stream of `events/stream` (EVT-050). The caller has checked the arguments and the permission for them.
    ///
    /// # Errors
    ///
    /// The error to answer with; there is no stream then. A lane that was removed has no room for any.
    pub fn open(
        &mut self,
        now: Instant,
        lane: Lane,
        params: &StreamEventsParams<'_>,
        principal: Option<&str>,
        filter: Filter,
    ) -> Result<StreamKey, EventsError> {
        let config = self.config;
        let known = self.type_with(&params.name, &DeliveryMode::Push)?;
        let start = known.start(now, params.cursor.as_ref().map(AsRef::as_ref), params.max_age_ms)?;
        let principal = principal.map(String::from);
        let of_principal = self.principals.get(&principal).copied().unwrap_or_default();
        let is_known = principal.is_some();
        for (open, max, is_bounded) in [
            (self.streams.len(), config.streams, true),
            (of_principal, config.streams_per_principal, is_known),
        ] {
            if open >= max && is_bounded {
                return Err(EventsError::ResourceExhausted { limit: "streams", max: max as u64 });
            }
        }
        self.next += 1;
        let key = StreamKey(self.next);
        let Some(lane_state) = self.lanes.get_mut(&lane) else {
            return Err(EventsError::ResourceExhausted { limit: "streams", max: 0 });
        };
        *self.principals.entry(principal.clone()).or_default() += 1;
        let beat_at = now + config.heartbeat;
        let progress =
            Progress { position: start.position, active: Some(start.truncated), error: None, beat_at };
        let mut stream = Stream {
            lane,
            name: params.name.as_ref().into(),
            principal,
            filter,
            before: progress.clone(),
            progress,
            end: None,
            is_ready: false,
            held_until: None,
        };
        lane_state.make_ready(key, &mut stream);
        lane_state.timers.insert((beat_at, key));
        self.streams.insert(key, stream);
        Ok(key)
    }

    /// Closes a stream whose client has gone or cancelled it (EVT-060). Returns whether it was open.
    pub fn close(&mut self, key: StreamKey) -> bool {
        let Some(stream) = self.streams.remove(&key) else { return false };
        if let Some(lane) = self.lanes.get_mut(&stream.lane) {
            lane.timers.remove(&(stream.progress.beat_at, key));
            if let Some(until) = stream.held_until {
                lane.timers.remove(&(until, key));
            }
        }
        if let Some(known) = self.types.get_mut(&stream.name) {
            known.waiting.remove(&key);
        }
        if let Some(count) = self.principals.get_mut(&stream.principal) {
            *count -= 1;
            if *count == 0 {
                self.principals.remove(&stream.principal);
            }
        }
        true
    }

    /// Ends the streams for which `reason`, called with name and principal, returns one: their clients may not see these events
    /// any more, for example (EVT-162). Returns their number.
    pub fn terminate(&mut self, reason: impl Fn(&str, Option<&str>) -> Option<EventsError>) -> usize {
        let mut count = 0;
        for (key, stream) in &mut self.streams {
            if stream.end.is_some() {
                continue;
            }
            if let Some(end) = reason(&stream.name, stream.principal.as_deref()) {
                stream.end = Some(end);
                count += 1;
                if stream.held_until.is_none() {
                    make_ready(&mut self.lanes, *key, stream);
                }
            }
        }
        count
    }

    /// Returns the next message to send on a stream of a lane.
    ///
    /// After `None` there may be more to look through: [`poll_timeout`](Self::poll_timeout) has passed then.
    pub fn poll_message(&mut self, now: Instant, lane: Lane) -> Option<(StreamKey, StreamMessage)> {
        let state = self.lanes.get_mut(&lane)?;
        state.now = state.now.max(now);
        // Of each stream that is ready now once: what a filter holds back must not keep the others from their turn.
        for _ in 0..state.ready.len() {
            let key = self.lanes.get_mut(&lane)?.ready.pop_front()?;
            let Some(stream) = self.streams.get_mut(&key) else { continue };
            stream.is_ready = false;
            if let Some(message) = self.next_message(now, key) {
                return Some((key, message));
            }
        }
        None
    }

    /// Takes the last message of a stream back, because it could not be sent. It comes again after `until`.
    ///
    /// A message that was the last one of its stream cannot come back: its error ends the call without it.
    pub fn hold(&mut self, key: StreamKey, until: Instant) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        let Some(lane) = self.lanes.get_mut(&stream.lane) else { return };
        lane.timers.remove(&(stream.progress.beat_at, key));
        // An error may have been reported meanwhile.
        let error = stream.progress.error.take();
        stream.progress = stream.before.clone();
        stream.progress.error = error.or_else(|| stream.progress.error.take());
        lane.timers.insert((stream.progress.beat_at, key));
        if let Some(before) = stream.held_until.replace(until) {
            lane.timers.remove(&(before, key));
        }
        lane.timers.insert((until, key));
        if let Some(known) = self.types.get_mut(&stream.name) {
            known.waiting.remove(&key);
        }
    }

    /// Handles the deadlines of a lane that have passed.
    pub fn handle_timeout(&mut self, now: Instant, lane: Lane) {
        let Some(lane) = self.lanes.get_mut(&lane) else { return };
        lane.now = lane.now.max(now);
        while let Some((at, key)) = lane.timers.first().copied().filter(|(at, _)| *at <= now) {
            lane.timers.remove(&(at, key));
            let Some(stream) = self.streams.get_mut(&key) else { continue };
            if stream.held_until == Some(at) {
                stream.held_until = None;
            }
            if stream.held_until.is_none() {
                lane.make_ready(key, stream);
            }
        }
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout), and [`poll_message`](Self::poll_message) behind it.
    #[must_use]
    pub fn poll_timeout(&self, lane: Lane) -> Option<Instant> {
        let lane = self.lanes.get(&lane)?;
        if lane.ready.is_empty() { lane.timers.first().map(|(at, _)| *at) } else { Some(lane.now) }
    }

    /// Returns the number of open streams.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    fn type_with(&mut self, name: &str, mode: &DeliveryMode) -> Result<&mut Type, EventsError> {
        let known = self.types.get_mut(name).ok_or(EventsError::EventNotFound)?;
        match known.described.delivery.contains(mode) {
            true => Ok(known),
            false => Err(EventsError::UnsupportedMode(mode.clone())),
        }
    }

    fn next_message(&mut self, now: Instant, key: StreamKey) -> Option<StreamMessage> {
        let stream = self.streams.get_mut(&key).filter(|stream| stream.held_until.is_none())?;
        if let Some(end) = stream.end.take() {
            self.close(key);
            return Some(StreamMessage::Terminated(end));
        }
        let known = self.types.get_mut(&stream.name)?;
        known.log.expire(now);
        stream.before = stream.progress.clone();
        let message = read(stream, known, now);
        let (beat_before, is_behind) = (stream.before.beat_at, stream.progress.position < known.log.end());
        if message.is_some() {
            stream.progress.beat_at = now + self.config.heartbeat;
        }
        if message.is_some() || is_behind {
            // Its turn comes again, behind the others.
            make_ready(&mut self.lanes, key, stream);
        } else {
            known.waiting.insert(key);
        }
        if let Some(lane) = self.lanes.get_mut(&stream.lane) {
            lane.timers.remove(&(beat_before, key));
            lane.timers.insert((stream.progress.beat_at, key));
        }
        message
    }
}

fn make_ready(lanes: &mut BTreeMap<Lane, LaneState>, key: StreamKey, stream: &mut Stream) {
    if let Some(lane) = lanes.get_mut(&stream.lane) {
        lane.make_ready(key, stream);
    }
}

/// Reads on in the log of a stream. `None` if no message is due.
fn read(stream: &mut Stream, known: &Type, now: Instant) -> Option<StreamMessage> {
    let (log, progress) = (&known.log, &mut stream.progress);
    if let Some(truncated) = progress.active.take() {
        return Some(StreamMessage::Active { cursor: log.cursor(progress.position), truncated });
    }
    if let Some(error) = progress.error.take() {
        return Some(StreamMessage::Error(error));
    }
    let batch = log.read(progress.position, 1, &stream.filter);
    if let Some(gap) = batch.gap.filter(|_| log.has_cursors()) {
        // EVT-055. The event behind the gap does not count as read yet.
        progress.position = gap;
        return Some(StreamMessage::Active { cursor: log.cursor(progress.position), truncated: true });
    }
    progress.position = batch.position;
    if let Some(event) = batch.events.first() {
        return Some(StreamMessage::Event((*event).clone().cursor(Nullable(log.cursor(batch.position)))));
    }
    // Not while there is more to look through, which may be for the client.
    let is_due = progress.beat_at <= now && !batch.has_more;
    is_due.then(|| StreamMessage::Heartbeat { cursor: log.cursor(batch.position) })
}
