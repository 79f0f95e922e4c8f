//! Queue of one subscription: open messages in order, the watermark, and what happens when it is full.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use mcp_proto::{Instant, RawJson};

/// Bytes that an open message counts in addition to its text.
const ENTRY_BYTES: usize = 256;

/// Place of a message in its subscription; the order of publication.
pub(super) type Place = u64;

/// Content of a message.
pub(super) enum Message {
    /// An event, without its member `cursor`.
    Event(RawJson),
    /// Events at this place were skipped.
    Gap,
    /// The subscription has ended.
    Terminated(RawJson),
}

impl Message {
    fn len(&self) -> usize {
        ENTRY_BYTES
            + match self {
                Self::Event(text) | Self::Terminated(text) => text.as_bytes().len(),
                Self::Gap => 0,
            }
    }
}

fn cursor_len(cursor: Option<&String>) -> usize {
    cursor.map_or(0, String::len)
}

/// A message that is neither acknowledged nor abandoned.
pub(super) struct Entry {
    pub(super) message: Message,
    pub(super) webhook_id: String,
    /// Position that is reached when this message is done, and all before it.
    pub(super) cursor: Option<String>,
    pub(super) attempts: u32,
    /// Start of the time in which it is tried, moved by suspensions.
    pub(super) since: Instant,
    /// When it is due; `None` while an attempt is in flight.
    due: Option<Instant>,
}

impl Entry {
    fn len(&self) -> usize {
        self.message.len() + cursor_len(self.cursor.as_ref())
    }

    /// Returns whether it is a gap that is not in flight.
    fn is_waiting_gap(&self) -> bool {
        matches!(self.message, Message::Gap) && self.due.is_some()
    }

    /// Becomes a new message: a receiver that has seen this one takes it as another.
    fn become_gap(&mut self, webhook_id: String) {
        self.message = Message::Gap;
        self.webhook_id = webhook_id;
        self.attempts = 0;
    }
}

/// Open messages of a subscription.
///
/// Invariants: `due` has exactly the entries that wait; `bytes` is the sum of their lengths; every position up to
/// `watermark` is acknowledged, abandoned, or reported by a gap that is (EVT-099).
#[derive(Default)]
pub(super) struct Queue {
    entries: BTreeMap<Place, Entry>,
    due: BTreeSet<(Instant, Place)>,
    next: Place,
    bytes: usize,
    pub(super) watermark: Option<String>,
    /// Events were skipped, and no gap tells.
    is_truncated: bool,
    /// The watermark before them, while that is so: what follows is sent with it, so that a subscription that is lost before
    /// a refresh tells is made anew from there.
    held: Option<String>,
    /// Events in front of the first position were skipped, and the subscriber was not told of it. The position alone does not say so.
    starts_truncated: bool,
}

impl Queue {
    pub(super) const fn new(watermark: Option<String>) -> Self {
        Self {
            entries: BTreeMap::new(),
            due: BTreeSet::new(),
            next: 0,
            bytes: 0,
            watermark,
            is_truncated: false,
            held: None,
            starts_truncated: false,
        }
    }

    /// Takes in that a gap comes next, or is [held](Self::hold). In front of all messages, its position does not tell of it: it may
    /// be a good one again after a restart, when the log has grown.
    pub(super) const fn note_gap(&mut self) {
        self.starts_truncated |= self.next == 0;
    }

    pub(super) const fn starts_truncated(&self) -> bool {
        self.starts_truncated
    }

    /// Returns an empty queue behind this one: answers to messages of this one find no place in it.
    pub(super) fn successor(&self) -> Self {
        Self { next: self.next, ..Self::new(self.watermark.clone()) }
    }

    /// Notes that events were skipped without a gap; `watermark` is that before them.
    pub(super) fn hold(&mut self, watermark: Option<String>) {
        if !self.is_truncated {
            self.is_truncated = true;
            self.held = watermark;
        }
    }

    /// Returns whether events were skipped without a gap, which the caller tells.
    pub(super) fn tell(&mut self) -> bool {
        self.held = None;
        self.starts_truncated &= !self.is_truncated;
        core::mem::take(&mut self.is_truncated)
    }

    /// Returns the position behind which something is open, or nobody was told about.
    ///
    /// If the start is truncated, that is kept beside it, so deliveries of before are not made again at each restart.
    pub(super) fn resume_at(&self) -> Option<&String> {
        if self.is_truncated && !self.starts_truncated { self.held.as_ref() } else { self.watermark.as_ref() }
    }

    /// Returns whether an open message has a position.
    pub(super) fn has_cursor(&self) -> bool {
        self.entries.values().any(|entry| entry.cursor.is_some())
    }

    /// Returns the envelope that tells of the end: nothing else is in the queue then.
    pub(super) fn terminated(&self) -> Option<&RawJson> {
        match &self.entries.values().next()?.message {
            Message::Terminated(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn is_over(&self, count: usize, bytes: usize) -> bool {
        self.entries.len() > count || self.bytes > bytes
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of open events.
    pub(super) fn events(&self) -> u64 {
        self.entries.values().filter(|entry| matches!(entry.message, Message::Event(_))).count() as u64
    }

    pub(super) fn push(
        &mut self,
        message: Message,
        webhook_id: String,
        cursor: Option<String>,
        now: Instant,
    ) {
        self.due.insert((now, self.next));
        let entry = Entry { message, webhook_id, cursor, attempts: 0, since: now, due: Some(now) };
        self.bytes += entry.len();
        self.entries.insert(self.next, entry);
        self.next += 1;
    }

    /// Takes in that nothing else is open up to a position: it is reached with the last message. Returns whether that is news.
    pub(super) fn pass(&mut self, cursor: &str) -> bool {
        let last = match self.entries.last_entry().map(|last| last.into_mut()) {
            Some(last) => &mut last.cursor,
            None => &mut self.watermark,
        };
        if last.as_deref() == Some(cursor) {
            return false;
        }
        let before = last.replace(cursor.into());
        if !self.entries.is_empty() {
            self.bytes = self.bytes + cursor.len() - cursor_len(before.as_ref());
        }
        true
    }

    /// Puts a gap behind the others, or lets the last one take the cursor over if it is a gap that waits.
    pub(super) fn push_gap(&mut self, webhook_id: String, cursor: String, now: Instant) {
        let last = self.entries.last_entry().map(|last| last.into_mut()).filter(|last| last.is_waiting_gap());
        match last {
            Some(last) => {
                self.bytes -= last.len();
                last.become_gap(webhook_id);
                last.cursor = Some(cursor);
                self.bytes += last.len();
            }
            None => self.push(Message::Gap, webhook_id, Some(cursor), now),
        }
    }

    /// Returns when the next message is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes the next message that is due for an attempt; returns its place, itself, and the cursor to send with it: its
    /// own if all before it are done, else the watermark (EVT-099), or that before a skip that nobody was told about.
    pub(super) fn begin(&mut self, now: Instant) -> Option<(Place, &Entry, Option<&str>)> {
        let (_, place) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
        self.due.pop_first();
        let is_first = self.entries.first_key_value().is_some_and(|(first, _)| *first == place);
        let entry = self.entries.get_mut(&place)?;
        entry.due = None;
        if entry.attempts == 0 {
            entry.since = now;
        }
        entry.attempts += 1;
        let own = if is_first { entry.cursor.as_deref() } else { None };
        let is_held = self.is_truncated && !matches!(entry.message, Message::Gap);
        let cursor = if is_held { self.held.as_deref() } else { own.or(self.watermark.as_deref()) };
        Some((place, entry, cursor))
    }

    pub(super) fn entry(&self, place: Place) -> Option<&Entry> {
        self.entries.get(&place)
    }

    /// Lets a message that is in flight wait for another attempt.
    pub(super) fn retry(&mut self, place: Place, due: Instant) {
        if let Some(entry) = self.entries.get_mut(&place) {
            entry.due = Some(due);
            self.due.insert((due, place));
        }
    }

    /// Takes in that the subscriber has got a gap.
    pub(super) fn acknowledge_gap(&mut self, place: Place) {
        // That of the start is the first of all. If it was given up, a refresh tells of it, and no later gap.
        if self.entries.keys().next() == Some(&place) {
            self.starts_truncated &= self.is_truncated;
        }
    }

    /// Removes a message that is acknowledged, abandoned or skipped, and moves the watermark if it was the first.
    pub(super) fn finish(&mut self, place: Place) -> Option<Message> {
        let entry = self.entries.remove(&place)?;
        self.bytes -= entry.len();
        if let Some(due) = entry.due {
            self.due.remove(&(due, place));
        }
        if let Some(cursor) = entry.cursor {
            // Its position is reached together with that of the message before it.
            match self.entries.range_mut(..place).next_back() {
                Some((_, before)) => {
                    self.bytes += cursor.len();
                    self.bytes -= cursor_len(before.cursor.replace(cursor).as_ref());
                }
                None => self.watermark = Some(cursor),
            }
        }
        Some(entry.message)
    }

    /// Skips the oldest events that are not in flight, until half of the bounds is free; returns their number.
    ///
    /// With `gap_id` the first of them becomes a gap, unless one before it has not been sent yet. So the watermark never
    /// passes an event that nobody was told about.
    pub(super) fn skip(
        &mut self,
        count: usize,
        bytes: usize,
        mut gap_id: Option<String>,
        now: Instant,
    ) -> u64 {
        let mut skipped = 0;
        while self.is_over(count / 2, bytes / 2) {
            let waits = |entry: &Entry| entry.due.is_some() && matches!(entry.message, Message::Event(_));
            let Some(place) = self.entries.iter().find(|(_, entry)| waits(entry)).map(|(place, _)| *place)
            else {
                break;
            };
            skipped += 1;
            let unsent =
                |(_, entry): (&Place, &Entry)| matches!(entry.message, Message::Gap) && entry.attempts == 0;
            if self.entries.range(..place).any(unsent) {
                gap_id = None;
            }
            match gap_id.take() {
                Some(webhook_id) => self.replace_by_gap(place, webhook_id, now),
                None => drop(self.finish(place)),
            }
        }
        self.merge_gaps();
        skipped
    }

    fn replace_by_gap(&mut self, place: Place, webhook_id: String, now: Instant) {
        let Some(entry) = self.entries.get_mut(&place) else { return };
        self.bytes -= entry.len();
        if let Some(due) = entry.due.replace(now) {
            self.due.remove(&(due, place));
        }
        self.due.insert((now, place));
        entry.become_gap(webhook_id);
        self.bytes += entry.len();
    }

    /// Merges gaps that wait, and that no event is between.
    fn merge_gaps(&mut self) {
        let gaps = self.entries.iter().zip(self.entries.iter().skip(1));
        let gaps = gaps.filter(|((_, first), (_, second))| first.is_waiting_gap() && second.is_waiting_gap());
        let pairs: Vec<(Place, Place)> = gaps.map(|((first, _), (second, _))| (*first, *second)).collect();
        // From the last to the first, so that each hands on what it took over.
        for (first, second) in pairs.into_iter().rev() {
            let Some(last) = self.entries.get(&second) else { continue };
            let (webhook_id, attempts, since) = (last.webhook_id.clone(), last.attempts, last.since);
            self.finish(second);
            if let Some(first) = self.entries.get_mut(&first) {
                first.become_gap(webhook_id);
                (first.attempts, first.since) = (attempts, since);
            }
        }
    }

    /// Lets time that passed in a suspension not count (EVT-098).
    pub(super) fn shift(&mut self, pause: Duration, now: Instant) {
        self.due.clear();
        for (place, entry) in &mut self.entries {
            entry.since = entry.since + pause;
            if let Some(due) = &mut entry.due {
                *due = (*due).max(now);
                self.due.insert((*due, *place));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn event(queue: &mut Queue, position: u64) {
        let text = RawJson::new(format!(r#"{{"n":{position}}}"#)).expect("JSON");
        queue.push(
            Message::Event(text),
            format!("e-{position}"),
            Some(format!("c-{position}")),
            Instant::ZERO,
        );
    }

    fn begin(queue: &mut Queue) -> (Place, Option<String>) {
        let (place, _, cursor) = queue.begin(Instant::ZERO).expect("it is due");
        let cursor = cursor.map(String::from);
        (place, cursor)
    }

    fn open(queue: &Queue) -> Vec<String> {
        queue.entries.values().map(|entry| entry.webhook_id.clone()).collect()
    }

    // covers: EVT-099
    #[test]
    fn watermark_follows_what_is_done_in_order() {
        let mut queue = Queue::new(Some("c-0".into()));
        (1..=4).for_each(|position| event(&mut queue, position));
        let (first, own) = begin(&mut queue);
        assert_eq!(own.as_deref(), Some("c-1"));
        let (second, before) = begin(&mut queue);
        assert_eq!(before.as_deref(), Some("c-0"), "the first one is open");
        let (third, _) = begin(&mut queue);
        queue.finish(third);
        assert_eq!(queue.watermark.as_deref(), Some("c-0"));
        queue.finish(first);
        assert_eq!(queue.watermark.as_deref(), Some("c-1"));
        let (_, before) = begin(&mut queue);
        assert_eq!(before.as_deref(), Some("c-1"), "the second one is open");
        queue.finish(second);
        assert_eq!(queue.watermark.as_deref(), Some("c-3"), "the third one was done before");
    }

    // covers: EVT-099
    #[test]
    fn position_that_is_passed_is_reached_with_what_is_open() {
        let mut queue = Queue::new(Some("c-0".into()));
        assert!(queue.pass("c-1") && !queue.pass("c-1"));
        assert_eq!((queue.watermark.as_deref(), queue.bytes), (Some("c-1"), 0));
        (2..=3).for_each(|position| event(&mut queue, position));
        let bytes = queue.bytes;
        assert!(queue.pass("c-10"));
        assert_eq!((queue.watermark.as_deref(), queue.bytes), (Some("c-1"), bytes + 1));
        let [(first, _), (second, _)] = [(); 2].map(|()| begin(&mut queue));
        queue.finish(second);
        assert_eq!(queue.watermark.as_deref(), Some("c-1"), "the first one is open");
        queue.finish(first);
        assert_eq!((queue.watermark.as_deref(), queue.bytes), (Some("c-10"), 0));
    }

    // covers: EVT-099, EVT-104
    #[test]
    fn a_full_queue_becomes_a_gap() {
        let mut queue = Queue::new(Some("c-0".into()));
        (1..=8).for_each(|position| event(&mut queue, position));
        let (first, _) = begin(&mut queue);
        let (second, _) = begin(&mut queue);
        queue.retry(second, Instant::from_micros(5));
        // The first is in flight; the second waits for another attempt.
        let bytes = queue.bytes;
        assert_eq!(queue.skip(8, usize::MAX, Some("gap-1".into()), Instant::ZERO), 5);
        assert_eq!(open(&queue), ["e-1", "gap-1", "e-7", "e-8"]);
        assert!(queue.bytes < bytes);
        queue.finish(first);
        assert_eq!(queue.watermark.as_deref(), Some("c-1"), "the gap is not done");
        // Another one: the gap was not sent yet, so it stands for these as well.
        (9..=13).for_each(|position| event(&mut queue, position));
        queue.skip(8, usize::MAX, Some("gap-2".into()), Instant::ZERO);
        assert_eq!(open(&queue), ["gap-1", "e-11", "e-12", "e-13"]);
        let (gap, cursor) = begin(&mut queue);
        assert_eq!(cursor.as_deref(), Some("c-10"));
        // It is in flight now, and says nothing about what is skipped later.
        (14..=19).for_each(|position| event(&mut queue, position));
        queue.skip(8, usize::MAX, Some("gap-3".into()), Instant::ZERO);
        assert_eq!(open(&queue), ["gap-1", "gap-3", "e-18", "e-19"]);
        queue.finish(gap);
        assert_eq!(queue.watermark.as_deref(), Some("c-10"));
        let (gap, cursor) = begin(&mut queue);
        assert_eq!(cursor.as_deref(), Some("c-17"));
        queue.finish(gap);
        assert_eq!((queue.watermark.as_deref(), queue.events()), (Some("c-17"), 2));
    }

    // covers: EVT-099, EVT-104
    #[test]
    fn gaps_that_wait_are_one() {
        let mut queue = Queue::new(Some("c-0".into()));
        for position in 1..=100 {
            queue.push_gap(format!("gap-{position}"), format!("c-{position}"), Instant::ZERO);
        }
        assert_eq!(open(&queue), ["gap-100"]);
        // It was sent, and waits for another attempt: the new one is another message.
        let (gap, cursor) = begin(&mut queue);
        assert_eq!(cursor.as_deref(), Some("c-100"));
        queue.push_gap("gap-101".into(), "c-101".into(), Instant::ZERO);
        assert_eq!(open(&queue), ["gap-100", "gap-101"], "one is in flight");
        queue.finish(gap);
        let (gap, _) = begin(&mut queue);
        queue.retry(gap, Instant::from_micros(5));
        queue.push_gap("gap-102".into(), "c-102".into(), Instant::ZERO);
        assert_eq!(open(&queue), ["gap-102"]);
        assert_eq!(
            (queue.next_due(), queue.entry(gap).map(|e| e.attempts)),
            (Some(Instant::from_micros(5)), Some(0))
        );
        // Between events: when these are skipped, the gaps merge.
        for position in 103..=140 {
            event(&mut queue, position);
            queue.push_gap(format!("gap-{position}"), format!("c-{position}"), Instant::ZERO);
        }
        assert_eq!(queue.skip(8, usize::MAX, Some("gap".into()), Instant::ZERO), 38);
        assert_eq!(open(&queue), ["gap-140"]);
        assert_eq!(queue.bytes, ENTRY_BYTES + "c-140".len());
        let (gap, cursor) = queue
            .begin(Instant::from_micros(5))
            .map(|(at, _, cursor)| (at, cursor.map(String::from)))
            .expect("it is due");
        assert_eq!(cursor.as_deref(), Some("c-140"));
        queue.finish(gap);
        assert_eq!((queue.watermark.as_deref(), queue.bytes), (Some("c-140"), 0));
    }

    #[test]
    fn without_a_gap_events_are_skipped_in_silence() {
        let mut queue = Queue::new(None);
        for _ in 0..8 {
            queue.push(Message::Event(RawJson::empty_object()), "e".into(), None, Instant::ZERO);
        }
        assert_eq!(queue.skip(usize::MAX, 4 * ENTRY_BYTES + 2, None, Instant::ZERO), 7);
        assert_eq!((queue.events(), queue.watermark.clone()), (1, None));
        begin(&mut queue);
        assert_eq!(queue.skip(0, 0, None, Instant::ZERO), 0, "what is in flight stays");
    }
}
