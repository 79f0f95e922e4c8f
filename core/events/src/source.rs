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

mod streams;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use mcp_proto::{Entropy, Instant};

pub use crate::log::LogLimits;
pub use streams::{Lane, StreamKey, StreamMessage};

use crate::log::{Log, Position, Start};
use crate::store::{Record, Snapshot, StoredSubscription, log_records};
use crate::wire::{
    DeliveryMode, EventOccurrence, EventType, EventsError, ListEventsResult, Nullable, PollEventsParams,
    PollEventsResult,
};
use streams::{LaneState, Stream};

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
    /// It goes on with its [stored](Self::restore) log, which is dropped if it replays nothing any more. Returns what a store
    /// does not know of its log.
    pub fn add(&mut self, described: EventType, limits: LogLimits) -> Option<Record> {
        let name = described.name.clone();
        if let Some(known) = self.types.get_mut(&name) {
            known.described = described;
            return None;
        }
        let begin = |log: &Log| log_records(&name, log).next();
        let (log, record) = match self.stored.remove(&name) {
            Some(mut log) if limits.replays => {
                let is_known = log.limits() == limits;
                log.set_limits(limits);
                let record = if is_known { None } else { begin(&log) };
                (log, record)
            }
            stored => {
                let log = Log::new(limits, &mut self.entropy);
                let record = match limits.replays {
                    true => begin(&log),
                    false => stored.map(|_| Record::LogRemoved { name: name.clone() }),
                };
                (log, record)
            }
        };
        // Those of before may be anywhere in it.
        let checkpoint = log.start_of_all();
        self.types.insert(name, Type { described, log, waiting: BTreeSet::new(), checkpoint });
        record
    }

    /// Removes a type, and ends its streams (EVT-020, EVT-021). Its log does not come back. Returns whether there was one, or a
    /// stored log that waits for it.
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
    /// `truncated` (EVT-145). Readers that begin later are not told. Without cursors a gap would tell nothing, so there is none
    /// (EVT-147).
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

    /// Returns the record of an event to append to a store before it is [published](Self::publish); `None` if its type keeps
    /// none.
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
        let stored = self.stored.iter().flat_map(|(name, log)| log_records(name, log));
        kept.flat_map(|(name, known)| log_records(name, &known.log)).chain(stored)
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
    /// subscriptions of a store have to [pass](crate::delivery::Deliveries::pass) it: the positions of quiet ones would leave
    /// the log, and a restart would take that for a gap.
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

    fn type_with(&mut self, name: &str, mode: &DeliveryMode) -> Result<&mut Type, EventsError> {
        let known = self.types.get_mut(name).ok_or(EventsError::EventNotFound)?;
        match known.described.delivery.contains(mode) {
            true => Ok(known),
            false => Err(EventsError::UnsupportedMode(mode.clone())),
        }
    }
}
