//! The streams of clients: each is a position in the log of its type, and a turn among those of its lane.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use mcp_proto::Instant;

use super::{Filter, Source, Type, UnknownType};
use crate::log::Position;
use crate::wire::{DeliveryMode, EventOccurrence, EventsError, Nullable, StreamEventsParams};

/// Key of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey(u64);

/// Key of the streams that one caller drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub(super) u64);

#[derive(Default)]
pub(super) struct LaneState {
    ready: VecDeque<StreamKey>,
    /// When each stream is looked at again: heartbeats, and the ends of holds.
    pub(super) timers: BTreeSet<(Instant, StreamKey)>,
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

pub(super) struct Stream {
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

impl Source {
    /// Reports an error that passes, of what the events come from, on every open stream of a type; they go on (EVT-054). Of
    /// several errors that a stream has no room for, the newest is sent.
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
    pub(super) fn wake_waiting(&mut self, name: &str) {
        let Some(known) = self.types.get_mut(name) else { return };
        for key in core::mem::take(&mut known.waiting) {
            if let Some(stream) = self.streams.get_mut(&key).filter(|stream| stream.held_until.is_none()) {
                make_ready(&mut self.lanes, key, stream);
            }
        }
    }

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
