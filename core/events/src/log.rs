//! The log of one event type: what has happened, in order, as far as it is kept, and the cursors into it.
//!
//! A [`Log`] is a window over an unbounded sequence. An event leaves it when it is the oldest and a bound is reached; a reader
//! that comes later is told that it has missed something (EVT-145), never that nothing was there. A cursor names a position
//! and the log that it belongs to: one of a log that was lost, with the memory of an earlier process for example, is
//! recognized, and its reader is told the same.
//!
//! The log knows no arguments and no principals: which events a reader gets is its filter's decision. A filter may match
//! seldom, so one read looks at a bounded number of events.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use mcp_proto::{Entropy, Instant, RawJson};
use serde::{Deserialize, Serialize};

use crate::wire::EventOccurrence;

/// Bounds of the log of an event type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct LogLimits {
    /// Whether readers can come back (default true). If not, every cursor of the type is `null`, and the log is a buffer for
    /// readers that are there (EVT-142, EVT-151).
    pub replays: bool,
    /// Events that are kept, and gaps between them (default 1,024); at least 1.
    pub events: usize,
    /// Bytes of the events that are kept, as JSON text (default 1 MiB). The newest one is kept whatever its size.
    pub bytes: usize,
    /// Age at which an event is no longer kept (default one day).
    pub age: Duration,
    /// Events that one look at the log considers (default 1,024); at least 1.
    pub scan: usize,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { replays: true, events: 1_024, bytes: 1 << 20, age: Duration::from_secs(86_400), scan: 1_024 }
    }
}

/// A position in a [`Log`]: behind all events that a reader has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Position(pub(crate) u64);

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// The position.
    pub(crate) position: Position,
    /// Whether events that the reader asked for are left out (EVT-144).
    pub(crate) truncated: bool,
}

/// What a [`read`](Log::read) found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Batch<'l> {
    /// The events that the filter let through, in order.
    pub(crate) events: Vec<&'l EventOccurrence>,
    /// The position behind them, and behind all events that the filter held back.
    pub(crate) position: Position,
    /// Whether there are events behind that position.
    pub(crate) has_more: bool,
    /// Position behind a gap in front of the first event: events have left the log before they were read, or were lost before
    /// they were published.
    pub(crate) gap: Option<Position>,
}

/// A cursor that is not one of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`cursor` is not one of this server")]
pub(crate) struct InvalidCursor;

#[derive(Debug)]
struct Entry {
    at: Instant,
    bytes: usize,
    /// `None`: what was to stand here was lost. It has a position, so that each reader passes it once.
    event: Option<EventOccurrence>,
}

/// The latest events of a type.
#[derive(Debug)]
pub(crate) struct Log {
    limits: LogLimits,
    /// Tells cursors of this log from those of another one of the type.
    epoch: u32,
    entries: VecDeque<Entry>,
    /// Position in front of the oldest entry.
    first: u64,
    bytes: usize,
}

impl Log {
    /// Creates a log without events.
    pub(crate) fn new(limits: LogLimits, entropy: &mut Entropy) -> Self {
        let mut epoch = [0; 4];
        entropy.fill(&mut epoch);
        let epoch = u32::from_le_bytes(epoch);
        Self { limits, epoch, entries: VecDeque::new(), first: 0, bytes: 0 }
    }

    /// Creates the log that cursors of an epoch name, without events in front of a position.
    pub(crate) const fn begin_at(limits: LogLimits, epoch: u32, first: u64) -> Self {
        Self { limits, epoch, entries: VecDeque::new(), first, bytes: 0 }
    }

    pub(crate) const fn epoch(&self) -> u32 {
        self.epoch
    }

    pub(crate) const fn limits(&self) -> LogLimits {
        self.limits
    }

    pub(crate) fn set_limits(&mut self, limits: LogLimits) {
        self.limits = limits;
        self.bound();
    }

    /// Adds an entry of a store, unless it has one at its position.
    pub(crate) fn restore(&mut self, position: u64, at: u64, event: Option<EventOccurrence>) {
        let end = self.end().0;
        if position < end {
            return;
        }
        if position > end {
            // What is missing in between is lost: readers that were in front of it are told.
            self.entries.clear();
            (self.first, self.bytes) = (position, 0);
        }
        self.append(Instant::from_micros(at), event);
    }

    /// Returns times and events, in order; without an event, it is a gap.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Instant, Option<&EventOccurrence>)> {
        self.entries.iter().map(|entry| (entry.at, entry.event.as_ref()))
    }

    /// Returns whether readers can come back to a position (EVT-142).
    pub(crate) const fn has_cursors(&self) -> bool {
        self.limits.replays
    }

    /// Adds an event, or a gap without one. What exceeds a bound leaves the log.
    pub(crate) fn append(&mut self, now: Instant, event: Option<EventOccurrence>) {
        let bytes = event.as_ref().map_or(0, text_len);
        self.bytes += bytes;
        self.entries.push_back(Entry { at: now, bytes, event });
        self.bound();
        self.expire(now);
    }

    /// Drops what exceeds a bound.
    fn bound(&mut self) {
        while self.entries.len() > self.limits.events.max(1)
            || (self.bytes > self.limits.bytes && self.entries.len() > 1)
        {
            self.drop_oldest();
        }
    }

    /// Drops the events that are too old.
    pub(crate) fn expire(&mut self, now: Instant) {
        while self.entries.front().is_some_and(|oldest| is_older(now, oldest.at, self.limits.age)) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.entries.pop_front() {
            self.first += 1;
            self.bytes -= oldest.bytes;
        }
    }

    /// Returns the position behind all events: that of a reader who begins now (EVT-041).
    pub(crate) fn end(&self) -> Position {
        Position(self.first + self.entries.len() as u64)
    }

    /// Returns the position in front of the oldest event that is kept.
    pub(crate) const fn start_of_all(&self) -> Position {
        Position(self.first)
    }

    /// Returns the cursor of a position, or `None` if the type has none (EVT-140).
    pub(crate) fn cursor(&self, position: Position) -> Option<String> {
        self.has_cursors().then(|| format!("{:08x}.{:x}", self.epoch, position.0))
    }

    /// Finds where a reader begins.
    ///
    /// Without a cursor that is the end, whatever `max_age` is. One that is older than the log, of another log, or ahead of
    /// this one begins at the oldest event, and what it has missed is unknown (EVT-143 to EVT-145).
    ///
    /// # Errors
    ///
    /// The text is no cursor of any log.
    pub(crate) fn start(
        &self,
        now: Instant,
        cursor: Option<&str>,
        max_age: Option<Duration>,
    ) -> Result<Start, InvalidCursor> {
        let Some(cursor) = cursor.filter(|_| self.has_cursors()) else {
            return Ok(Start { position: self.end(), truncated: false });
        };
        let (epoch, at) = cursor.split_once('.').ok_or(InvalidCursor)?;
        let (epoch, at) = (parse_hex(epoch).ok_or(InvalidCursor)?, parse_hex(at).ok_or(InvalidCursor)?);
        let is_here = epoch == u64::from(self.epoch) && (self.first..=self.end().0).contains(&at);
        let mut start =
            Start { position: Position(if is_here { at } else { self.first }), truncated: !is_here };
        if let Some(age) = max_age {
            // Instants rise along the log, except where the clock of the publisher was behind: the first young one counts.
            let skipped = self.entries.iter().take_while(|entry| is_older(now, entry.at, age)).count();
            let young = self.first + skipped as u64;
            if young > start.position.0 {
                start = Start { position: Position(young), truncated: true };
            }
        }
        Ok(start)
    }

    /// Reads up to `max` events behind a position that `filter` lets through.
    pub(crate) fn read(
        &self,
        from: Position,
        max: usize,
        mut filter: impl FnMut(&EventOccurrence) -> bool,
    ) -> Batch<'_> {
        let begin = from.0.clamp(self.first, self.end().0);
        let skipped = usize::try_from(begin - self.first).unwrap_or(usize::MAX);
        let mut batch = Batch {
            events: Vec::new(),
            position: Position(begin),
            has_more: false,
            gap: (from.0 < self.first).then_some(Position(begin)),
        };
        for entry in self.entries.iter().skip(skipped).take(self.limits.scan.max(1)) {
            let wanted = match &entry.event {
                Some(event) => Some(event).filter(|event| filter(event)),
                // The next batch begins with it.
                None if !batch.events.is_empty() => break,
                None => None,
            };
            if wanted.is_some() && batch.events.len() >= max {
                break;
            }
            batch.position.0 += 1;
            if entry.event.is_none() {
                batch.gap = Some(batch.position);
            }
            batch.events.extend(wanted);
        }
        batch.has_more = batch.position < self.end();
        batch
    }
}

/// Returns the length of the JSON text of an event.
fn text_len(event: &EventOccurrence) -> usize {
    // One that cannot be written is refused before.
    RawJson::encode(event).map_or(0, |text| text.as_bytes().len())
}

/// Returns whether more than `age` has passed since `at`.
fn is_older(now: Instant, at: Instant, age: Duration) -> bool {
    now.saturating_duration_since(at) > age
}

/// Parses what `{:x}` writes: no sign, and at most sixteen digits.
fn parse_hex(text: &str) -> Option<u64> {
    let is_number =
        (1..=16).contains(&text.len()) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    u64::from_str_radix(text, 16).ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    fn event(number: u64) -> EventOccurrence {
        let data = RawJson::new(format!(r#"{{"n":{number}}}"#)).expect("JSON");
        EventOccurrence::new(format!("evt-{number}"), "build.finished", "2026-11-25T10:00:00Z", data)
    }

    fn log_of(limits: LogLimits, events: u64) -> Log {
        let mut log = Log::new(limits, &mut Entropy::new([7; 32], 0));
        (0..events).for_each(|number| log.append(at(number), Some(event(number))));
        log
    }

    fn ids(batch: &Batch<'_>) -> Vec<String> {
        batch.events.iter().map(|event| event.event_id.clone()).collect()
    }

    // covers: EVT-041, EVT-043
    #[test]
    fn reader_without_cursor_begins_at_end_and_pages_through_what_follows() {
        let mut log = log_of(LogLimits::default(), 3);
        let start = log.start(at(9), None, Some(Duration::ZERO)).expect("no cursor");
        assert_eq!(start, Start { position: log.end(), truncated: false });
        (3..8).for_each(|number| log.append(at(number), Some(event(number))));
        let (mut position, mut seen) = (start.position, Vec::new());
        for expected_more in [true, true, false] {
            let cursor = log.cursor(position).expect("a cursor");
            let start = log.start(at(9), Some(&cursor), None).expect("its own");
            assert_eq!(start, Start { position, truncated: false });
            let batch = log.read(position, 2, |_| true);
            assert_eq!((batch.has_more, batch.gap), (expected_more, None));
            seen.extend(ids(&batch));
            position = batch.position;
        }
        assert_eq!(seen, ["evt-3", "evt-4", "evt-5", "evt-6", "evt-7"]);
        assert_eq!(position, log.end());
    }

    // covers: EVT-143, EVT-144, EVT-145
    #[test]
    fn reader_is_told_what_it_missed_and_goes_on() {
        let limits = LogLimits { events: 4, ..LogLimits::default() };
        let mut log = log_of(limits, 4);
        let old = log.cursor(log.start(at(4), None, None).expect("end").position).expect("a cursor");
        (4..9).for_each(|number| log.append(at(number), Some(event(number))));
        let start = log.start(at(9), Some(&old), None).expect("its own");
        assert!(start.truncated);
        assert_eq!(ids(&log.read(start.position, 9, |_| true)), ["evt-5", "evt-6", "evt-7", "evt-8"]);
        // A reader that held its position meanwhile learns it, too.
        assert_eq!(log.read(Position(4), 9, |_| true).gap, Some(Position(5)));
        assert_eq!(log.read(Position(5), 9, |_| true).gap, None);
        // An age moves the start only if something is skipped.
        let all = log.cursor(Position(5)).expect("a cursor");
        for (age, first, truncated) in
            [(HOUR, 5, false), (Duration::from_secs(4), 5, false), (Duration::from_secs(2), 7, true)]
        {
            let start = log.start(at(9), Some(&all), Some(age)).expect("its own");
            assert_eq!(start, Start { position: Position(first), truncated }, "{age:?}");
        }
        // None is young enough: the end, and the reader is told.
        let start = log.start(at(9_000), Some(&all), Some(HOUR)).expect("its own");
        assert_eq!(start, Start { position: log.end(), truncated: true });
        // Of another log, and ahead of this one: after a crash that lost what was published last.
        let mut other = Log::new(limits, &mut Entropy::new([8; 32], 0));
        other.append(at(0), Some(event(0)));
        for foreign in [log.cursor(log.end()).expect("a cursor"), format!("{:08x}.ff", other.epoch)] {
            let start = other.start(at(9), Some(&foreign), None).expect("a cursor of a log");
            assert_eq!(start, Start { position: Position(0), truncated: true }, "{foreign}");
        }
    }

    // covers: EVT-055, EVT-145
    #[test]
    fn gap_between_events_is_passed_once_by_each_reader() {
        let mut log = log_of(LogLimits::default(), 2);
        let at_gap = log.end();
        log.append(at(2), None);
        log.append(at(3), Some(event(3)));
        log.append(at(4), None);
        let mut reads = Vec::new();
        let mut position = Position(0);
        loop {
            let batch = log.read(position, 9, |_| true);
            reads.push((ids(&batch).concat(), batch.gap));
            position = batch.position;
            if !batch.has_more {
                break;
            }
        }
        let expected = [("evt-0evt-1", None), ("evt-3", Some(Position(3))), ("", Some(Position(5)))];
        assert_eq!(reads, expected.map(|(ids, gap)| (ids.into(), gap)));
        // One who had read everything learns it, too, and one who begins behind it does not.
        assert_eq!(log.read(at_gap, 1, |_| false).gap, Some(Position(5)));
        assert_eq!(log.read(log.end(), 1, |_| true).gap, None);
    }

    // covers: EVT-140, EVT-142
    #[test]
    fn log_without_replay_has_no_cursors() {
        let mut log = log_of(LogLimits { replays: false, ..LogLimits::default() }, 3);
        assert!(!log.has_cursors());
        assert_eq!(log.cursor(log.end()), None);
        // Whatever a client sends: it has it from a time at which there were cursors.
        let start = log.start(at(3), Some("no cursor"), None).expect("ignored");
        assert_eq!(start, Start { position: log.end(), truncated: false });
        log.append(at(4), Some(event(4)));
        assert_eq!(ids(&log.read(start.position, 9, |_| true)), ["evt-4"], "one that is there gets it");
    }

    #[test]
    fn text_that_is_no_cursor_is_refused() {
        let log = log_of(LogLimits::default(), 3);
        let good = log.cursor(Position(2)).expect("a cursor");
        assert!(log.start(at(9), Some(&good), None).is_ok());
        for bad in [
            "",
            ".",
            "1",
            "1.",
            ".1",
            "g.1",
            "1.g",
            "+1.1",
            "1.-1",
            "1.1.1",
            " 1.1",
            "1.11111111111111111",
            "A.1",
        ] {
            assert_eq!(log.start(at(9), Some(bad), None), Err(InvalidCursor), "{bad:?}");
        }
    }

    #[test]
    fn every_bound_drops_the_oldest_events() {
        let one = text_len(&event(0));
        let log = log_of(LogLimits { bytes: 3 * one, ..LogLimits::default() }, 8);
        assert_eq!((log.entries.len(), log.bytes), (3, 3 * one));
        let log = log_of(LogLimits { bytes: 0, ..LogLimits::default() }, 8);
        assert_eq!((log.entries.len(), log.bytes), (1, one), "the newest one is kept");
        // All of an event counts.
        let meta = RawJson::new(format!(r#"{{"com.example/n":"{}"}}"#, "x".repeat(3 * one))).expect("JSON");
        let mut log = log_of(LogLimits { bytes: 3 * one, ..LogLimits::default() }, 3);
        log.append(at(3), Some(event(3).meta(meta)));
        assert_eq!(log.entries.len(), 1);
        let mut log = log_of(LogLimits { age: Duration::from_secs(2), ..LogLimits::default() }, 8);
        assert_eq!(log.entries.len(), 3);
        log.expire(at(9));
        assert_eq!(log.entries.len(), 1);
        // A clock that was set back makes nothing old, and nothing fails.
        log.expire(at(0));
        log.append(at(0), Some(event(8)));
        assert_eq!(log.entries.len(), 2);
        log.expire(at(1_000));
        assert_eq!((log.entries.len(), log.bytes, log.end()), (0, 0, Position(9)));
    }

    #[test]
    fn filter_that_matches_seldom_costs_a_bounded_number_of_events() {
        let log = log_of(LogLimits { scan: 10, ..LogLimits::default() }, 100);
        let (mut position, mut reads, mut seen) = (Position(0), 0, Vec::new());
        loop {
            let mut looked_at = 0;
            let batch = log.read(position, 5, |event| {
                looked_at += 1;
                event.event_id == "evt-55"
            });
            assert!(looked_at <= 10);
            seen.extend(ids(&batch));
            position = batch.position;
            reads += 1;
            if !batch.has_more {
                break;
            }
        }
        assert_eq!((reads, seen), (10, Vec::from([String::from("evt-55")])));
        // Not even room for one: nothing is skipped.
        let batch = log.read(Position(0), 0, |_| true);
        assert_eq!((batch.position, batch.has_more), (Position(0), true));
    }
}
