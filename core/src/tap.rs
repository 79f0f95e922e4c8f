//! Wire tap: a bounded queue of copies of the messages that pass, off by default. Without the feature `observe` nothing is
//! recorded.
//!
//! With exchanges, as over HTTP, a message is recorded when its exchange begins, and again when it is repeated. One that was cancelled
//! before, or a cancellation that the end of an exchange stands for (CANC-016), is not recorded.
//!
//! Values of listed members are replaced before a message is queued, so a record can never contain them. With a
//! non-empty list, a message that is not JSON is recorded by its length alone.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use crate::budget::Budget;
use crate::json::{ScanError, Scanner};
use crate::limits::Limits;
use crate::time::Instant;

crate::slab::key! {
    /// Channel in which request ids are unique: one byte stream, one legacy session or one exchange.
    ChannelId
}

/// Direction of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the peer.
    In,
    /// To the peer.
    Out,
}

/// One message as it went over the wire.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TapRecord {
    /// Time at which the message was handled.
    pub at: Instant,
    /// Direction of the message.
    pub direction: Direction,
    /// Channel of the message.
    pub channel: ChannelId,
    /// The message without its newline, with the values of listed members replaced.
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Tap {
    records: VecDeque<TapRecord>,
    max_records: usize,
    budget: Budget,
    redacted_members: Vec<String>,
    dropped: u64,
    /// Messages are recorded when their exchanges begin, and not when they are written: not all of them are sent.
    pub(crate) has_exchanges: bool,
}

/// Replacement for a hidden value.
const REPLACEMENT: &[u8] = b"\"[redacted]\"";

impl Tap {
    pub(crate) fn new(limits: &Limits, hidden: Vec<String>) -> Self {
        Self {
            records: VecDeque::new(),
            max_records: limits.tap_records,
            budget: Budget::new(limits.tap_bytes),
            redacted_members: hidden,
            dropped: 0,
            has_exchanges: false,
        }
    }

    pub(crate) fn record(&mut self, at: Instant, direction: Direction, channel: ChannelId, message: &[u8]) {
        // A message that cannot fit is not worth redacting.
        if self.records.len() >= self.max_records || self.budget.is_spent() {
            self.dropped += 1;
            return;
        }
        let bytes = redact(message, &self.redacted_members);
        // Charged by its capacity, which is what the record takes.
        if !self.budget.charge(bytes.capacity()) {
            self.dropped += 1;
            return;
        }
        self.records.push_back(TapRecord { at, direction, channel, bytes });
    }

    pub(crate) fn poll(&mut self) -> Option<TapRecord> {
        let record = self.records.pop_front()?;
        self.budget.release(record.bytes.capacity());
        Some(record)
    }

    pub(crate) const fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Returns a copy of `message` in which the value of each member named in `hidden` is replaced, at any depth.
fn redact(message: &[u8], hidden: &[String]) -> Vec<u8> {
    let message = message.strip_suffix(b"\n").unwrap_or(message);
    if hidden.is_empty() {
        return message.to_vec();
    }
    let mut cuts = Vec::new();
    let mut s = Scanner::trusted(message);
    if core::str::from_utf8(message).is_err()
        || s.value().is_err()
        || !s.is_at_end()
        || find_redactions(message, hidden, &mut cuts).is_err()
    {
        // A text that cannot be read may hold a hidden value anywhere.
        return alloc::format!("[{} bytes that are not JSON]", message.len()).into_bytes();
    }
    let mut out = Vec::with_capacity(message.len());
    let mut from = 0;
    for (start, end) in cuts {
        out.extend_from_slice(message.get(from..start).unwrap_or_default());
        out.extend_from_slice(REPLACEMENT);
        from = end;
    }
    out.extend_from_slice(message.get(from..).unwrap_or_default());
    out
}

/// Collects the ranges of hidden values. Recursion is bounded by the scanner's depth limit.
fn find_redactions(
    message: &[u8],
    hidden: &[String],
    cuts: &mut Vec<(usize, usize)>,
) -> Result<(), ScanError> {
    let mut s = Scanner::trusted(message);
    while !s.is_at_end() {
        match s.peek() {
            b'{' | b'}' | b'[' | b']' | b',' | b':' => s.advance(1),
            b'"' => {
                let text = s.string()?;
                // A string before a colon is a name, because the grammar was checked.
                if s.peek() == b':' && hidden.iter().any(|h| h.as_bytes() == &*text.unescaped()) {
                    s.advance(1);
                    s.peek();
                    let start = s.pos();
                    s.value()?;
                    cuts.push((start, s.pos()));
                }
            }
            _ => {
                s.value()?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(message: &str, hidden: &[&str]) -> String {
        let hidden: Vec<String> = hidden.iter().map(|h| String::from(*h)).collect();
        String::from_utf8(redact(message.as_bytes(), &hidden)).expect("UTF-8")
    }

    #[test]
    fn listed_members_are_replaced_at_any_depth() {
        let text = r#"{"a":[{"token":{"x":1}},{"t\u006fken" : 5}],"token":"s","b":"token"}"#;
        let want = r#"{"a":[{"token":"[redacted]"},{"t\u006fken" : "[redacted]"}],"token":"[redacted]","b":"token"}"#;
        assert_eq!(shown(text, &["token"]), want);
        assert_eq!(shown(text, &[]), text);
        assert_eq!(shown("token=abc", &["token"]), "[9 bytes that are not JSON]");
        assert_eq!(shown(r#"{"token":"abc"} trailing"#, &["token"]), "[24 bytes that are not JSON]");
    }

    #[test]
    fn overflow_is_counted_and_poll_frees_room() {
        let limits = Limits { tap_records: 2, tap_bytes: 64, ..Limits::default() };
        let mut tap = Tap::new(&limits, Vec::new());
        let channel = ChannelId(crate::slab::Key { slot: 0, generation: 0 });
        for _ in 0..3 {
            tap.record(Instant::ZERO, Direction::In, channel, b"{}\n");
        }
        tap.poll();
        tap.record(Instant::ZERO, Direction::Out, channel, &[b'x'; 100]);
        assert_eq!(tap.dropped(), 2);
        assert_eq!(tap.poll().map(|r| r.bytes), Some(b"{}".to_vec()));
        assert!(tap.poll().is_none());
    }
}
