//! What was sent on the streams of a session, kept for a client that comes back (SSE-014 to SSE-024).

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

/// What an entry costs besides its text
const OVERHEAD: usize = 64;

/// The last events of a session, of all its streams
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: VecDeque<Entry>,
    bytes: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) stream: u32,
    pub(super) event: u32,
    /// Nothing follows on its stream
    pub(super) last: bool,
    /// The message; nothing for an event that carries none
    pub(super) text: Bytes,
}

impl Entry {
    const fn cost(&self) -> usize {
        self.text.len() + OVERHEAD
    }
}

impl Log {
    /// Adds an event, and forgets the oldest that are too many then
    ///
    /// One that is longer than all of the budget is not kept, so that the others are.
    pub(super) fn push(&mut self, entry: Entry, budget: usize) {
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

    /// The events of a stream behind `event`, all of them; none when one of those is forgotten, or there never were any
    ///
    /// `newest` is the last event of a stream that goes on; one that is over is recognised by its end.
    pub(super) fn after(&self, stream: u32, event: u32, newest: Option<u32>) -> Option<Vec<Entry>> {
        let known = self.entries.iter().filter(|e| e.stream == stream);
        let found: Vec<Entry> = known.clone().filter(|e| e.event > event).cloned().collect();
        let unbroken = found.iter().zip(event.checked_add(1)?..).all(|(e, wanted)| e.event == wanted);
        let complete = match newest {
            Some(newest) => event.checked_add(u32::try_from(found.len()).ok()?)? == newest,
            None => known.last().is_some_and(|e| e.last && e.event >= event),
        };
        (unbroken && complete).then_some(found)
    }
}

/// The id of an event says which stream it is of (SSE-015)
pub(super) fn id(stream: u32, event: u32) -> String {
    format!("{stream}-{event}")
}

/// Stream and event of an id that we gave; none for anything else
pub(super) fn parse(text: &str) -> Option<(u32, u32)> {
    let (stream, event) = text.split_once('-')?;
    let number = |s: &str| s.parse::<u32>().ok().filter(|n| format!("{n}") == s);
    Some((number(stream)?, number(event)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn entry(stream: u32, event: u32, last: bool) -> Entry {
        Entry { stream, event, last, text: Bytes::from_static(b"0123456789") }
    }

    fn events(found: Option<Vec<Entry>>) -> Option<Vec<u32>> {
        found.map(|all| all.iter().map(|e| e.event).collect())
    }

    // covers: SSE-022, SSE-023, SSE-024
    #[test]
    fn what_follows_is_given_whole_or_not_at_all() {
        let mut log = Log::default();
        for (stream, event, last) in
            [(1, 0, false), (2, 0, false), (1, 1, false), (2, 1, true), (1, 2, false)]
        {
            log.push(entry(stream, event, last), 1_000);
        }
        assert_eq!(events(log.after(1, 0, Some(2))), Some([1, 2].into()));
        assert_eq!(events(log.after(1, 2, Some(2))), Some([].into()));
        assert_eq!(events(log.after(1, 3, Some(2))), None, "it was never sent");
        assert_eq!(events(log.after(2, 0, None)), Some([1].into()));
        assert_eq!(events(log.after(2, 1, None)), Some([].into()), "it is over and was all received");
        assert_eq!(events(log.after(2, 2, None)), None);
        assert_eq!(events(log.after(3, 0, None)), None);
        assert_eq!(events(log.after(1, u32::MAX, Some(2))), None);
        // Two of five fit.
        log.push(entry(1, 3, false), 2 * (10 + OVERHEAD));
        assert_eq!(events(log.after(1, 2, Some(3))), Some([3].into()));
        assert_eq!(events(log.after(1, 1, Some(3))), Some([2, 3].into()));
        assert_eq!(events(log.after(1, 0, Some(3))), None, "one of them is forgotten");
        assert_eq!(events(log.after(2, 0, None)), None);
        // What does not fit at all leaves a gap in its stream, and the others alone.
        log.push(entry(3, 1, false), 2 * (10 + OVERHEAD));
        log.push(Entry { text: vec![b'x'; 200].into(), ..entry(3, 2, false) }, 2 * (10 + OVERHEAD));
        assert_eq!(events(log.after(3, 0, Some(2))), None, "the second one is not there");
        assert_eq!(events(log.after(3, 2, Some(2))), Some([].into()));
        assert_eq!(events(log.after(1, 2, Some(3))), Some([3].into()));
        assert_eq!(log.bytes, 2 * (10 + OVERHEAD));
    }

    // covers: SSE-015
    #[test]
    fn ids_are_read_as_they_are_written() {
        for (stream, event) in [(0, 0), (7, 42), (u32::MAX, u32::MAX)] {
            assert_eq!(parse(&id(stream, event)), Some((stream, event)));
        }
        for text in ["", "1", "-", "1-", "-1", "1-2-3", "01-2", "+1-2", "1-4294967296", " 1-2", "1-2 ", "a-b"]
        {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
