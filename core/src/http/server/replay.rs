//! The replay log: sent events of a session, kept for resumption (SSE-014 to SSE-024, DESIGN-18).

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

/// Cost of an entry in addition to its text, in bytes.
const ENTRY_OVERHEAD: usize = 64;

/// The latest events of all streams of a session.
#[derive(Debug, Default)]
pub(super) struct ReplayLog {
    entries: VecDeque<ReplayEntry>,
    bytes: usize,
}

#[derive(Clone, Debug)]
pub(super) struct ReplayEntry {
    pub(super) stream: u32,
    pub(super) event: u32,
    /// The last event of its stream.
    pub(super) is_last: bool,
    /// The message; empty if it was [withdrawn](ReplayLog::withdraw).
    pub(super) message: Bytes,
}

impl ReplayEntry {
    const fn cost(&self) -> usize {
        self.message.len() + ENTRY_OVERHEAD
    }
}

impl ReplayLog {
    /// Adds an event and evicts the oldest ones beyond the budget.
    ///
    /// An event that is larger than the whole budget is not kept, so that the others are.
    pub(super) fn push(&mut self, entry: ReplayEntry, budget: usize) {
        if entry.cost() > budget {
            return;
        }
        self.bytes += entry.cost();
        self.entries.push_back(entry);
        while self.bytes > budget {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= oldest.cost();
        }
    }

    /// Withdraws the message of an event, because it is sent on another stream; the event itself is still known.
    pub(super) fn withdraw(&mut self, stream: u32, event: u32) {
        let found = self.entries.iter_mut().rev().find(|e| e.stream == stream && e.event == event);
        if let Some(entry) = found {
            self.bytes -= core::mem::take(&mut entry.message).len();
        }
    }

    /// Returns all events of a stream after `event`, or `None` if one of them was evicted or never existed.
    ///
    /// `newest` is the last event of an open stream. A closed stream is recognized by `is_last`.
    pub(super) fn events_after(
        &self,
        stream: u32,
        event: u32,
        newest: Option<u32>,
    ) -> Option<Vec<ReplayEntry>> {
        let known = self.entries.iter().filter(|e| e.stream == stream);
        let found: Vec<ReplayEntry> = known.clone().filter(|e| e.event > event).cloned().collect();
        let unbroken = found.iter().zip(event.checked_add(1)?..).all(|(e, wanted)| e.event == wanted);
        let complete = match newest {
            Some(newest) => event.checked_add(u32::try_from(found.len()).ok()?)? == newest,
            None => known.last().is_some_and(|e| e.is_last && e.event >= event),
        };
        (unbroken && complete).then_some(found)
    }
}

/// Returns the id of an event; it names its stream (SSE-015).
pub(super) fn format_event_id(stream: u32, event: u32) -> String {
    let mut id = String::from(itoa::Buffer::new().format(stream));
    id.push('-');
    id.push_str(itoa::Buffer::new().format(event));
    id
}

/// Returns the stream and the event of an id; `None` if this server did not issue it.
pub(super) fn parse_event_id(text: &str) -> Option<(u32, u32)> {
    let (stream, event) = text.split_once('-')?;
    let number = |s: &str| s.parse::<u32>().ok().filter(|n| itoa::Buffer::new().format(*n) == s);
    // The number 0 is that of a response that has no events yet.
    Some((number(stream).filter(|stream| *stream != 0)?, number(event)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn entry(stream: u32, event: u32, last: bool) -> ReplayEntry {
        ReplayEntry { stream, event, is_last: last, message: Bytes::from_static(b"0123456789") }
    }

    fn events(found: Option<Vec<ReplayEntry>>) -> Option<Vec<u32>> {
        found.map(|all| all.iter().map(|e| e.event).collect())
    }

    // covers: SSE-022, SSE-023, SSE-024
    #[test]
    fn events_after_returns_all_or_none() {
        let mut log = ReplayLog::default();
        for (stream, event, last) in
            [(1, 0, false), (2, 0, false), (1, 1, false), (2, 1, true), (1, 2, false)]
        {
            log.push(entry(stream, event, last), 1_000);
        }
        assert_eq!(events(log.events_after(1, 0, Some(2))), Some([1, 2].into()));
        assert_eq!(events(log.events_after(1, 2, Some(2))), Some([].into()));
        assert_eq!(events(log.events_after(1, 3, Some(2))), None, "it was never sent");
        assert_eq!(events(log.events_after(2, 0, None)), Some([1].into()));
        assert_eq!(events(log.events_after(2, 1, None)), Some([].into()), "it is over and was all received");
        assert_eq!(events(log.events_after(2, 2, None)), None);
        assert_eq!(events(log.events_after(3, 0, None)), None);
        assert_eq!(events(log.events_after(1, u32::MAX, Some(2))), None);
        // Two of five events fit.
        log.push(entry(1, 3, false), 2 * (10 + ENTRY_OVERHEAD));
        assert_eq!(events(log.events_after(1, 2, Some(3))), Some([3].into()));
        assert_eq!(events(log.events_after(1, 1, Some(3))), Some([2, 3].into()));
        assert_eq!(events(log.events_after(1, 0, Some(3))), None, "one of them was evicted");
        assert_eq!(events(log.events_after(2, 0, None)), None);
        // An oversize event leaves a gap in its own stream and does not evict others.
        log.push(entry(3, 1, false), 2 * (10 + ENTRY_OVERHEAD));
        log.push(
            ReplayEntry { message: vec![b'x'; 200].into(), ..entry(3, 2, false) },
            2 * (10 + ENTRY_OVERHEAD),
        );
        assert_eq!(events(log.events_after(3, 0, Some(2))), None, "the second one was not kept");
        assert_eq!(events(log.events_after(3, 2, Some(2))), Some([].into()));
        assert_eq!(events(log.events_after(1, 2, Some(3))), Some([3].into()));
        assert_eq!(log.bytes, 2 * (10 + ENTRY_OVERHEAD));
        // A withdrawn message is not replayed, and leaves no gap.
        log.withdraw(1, 3);
        log.withdraw(1, 99);
        let found = log.events_after(1, 2, Some(3)).expect("no gap");
        assert!(found.len() == 1 && found[0].message.is_empty());
        assert_eq!(log.bytes, 10 + 2 * ENTRY_OVERHEAD);
    }

    // covers: SSE-015
    #[test]
    fn event_id_round_trips_and_other_text_is_refused() {
        for (stream, event) in [(1, 0), (7, 42), (u32::MAX, u32::MAX)] {
            assert_eq!(parse_event_id(&format_event_id(stream, event)), Some((stream, event)));
        }
        for text in
            ["", "1", "-", "1-", "-1", "1-2-3", "0-0", "01-2", "+1-2", "1-4294967296", " 1-2", "1-2 ", "a-b"]
        {
            assert_eq!(parse_event_id(text), None, "{text:?}");
        }
    }
}
