//! Decoder: bytes to events.
//!
//! The cost is linear in the input for any chunking: every byte is searched once for a line end. An event with one
//! line of data is cut out of the input and not copied; all events with JSON-RPC are of this kind. Several lines of
//! data are joined by copying.

use core::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use super::lines::EventReader;
use crate::frame::line::Oversize;

/// Longest line in bytes that is evaluated, lines of data excepted.
///
/// An id beyond it would not fit into a header field either.
pub const MAX_FIELD: usize = 8 << 10;

/// One item of an event stream.
#[derive(Debug)]
pub enum SseItem {
    /// An event with data.
    Event(Event),
    /// An event that is not kept: its data was longer than the limit, or its type longer than [`MAX_FIELD`].
    ///
    /// Events before and after it are not affected.
    TooLong {
        /// Type of the event as in [`Event::kind`]; `None` also for a type that was too long.
        kind: Option<Bytes>,
        /// Length and recovered id of the data.
        oversize: Oversize,
    },
}

/// One event.
///
/// Its id is the value of [`SseDecoder::last_event_id`] after it was returned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Type of the event; `None` for `message`, the default.
    pub kind: Option<Bytes>,
    /// Lines of data, joined by newlines; never empty. Bytes that are not UTF-8 are kept; the reader of the data has to
    /// refuse them.
    pub data: Bytes,
}

/// Decoder for an event stream.
///
/// ```
/// use mcp_proto::frame::sse::{SseDecoder, SseItem};
/// let mut decoder = SseDecoder::new(1 << 20);
/// decoder.push(b": hello\nid: 7\ndata: {}\r");
/// assert!(decoder.next_event().is_none());
/// decoder.push(b"\n\r\n");
/// let Some(SseItem::Event(event)) = decoder.next_event() else { panic!("an event") };
/// assert_eq!((event.kind, &event.data[..]), (None, &b"{}"[..]));
/// assert_eq!(decoder.last_event_id(), b"7");
/// ```
///
/// It differs from the standard in two points. An event with one empty line of data counts as an event without data:
/// it is not returned, but its id and `retry` take effect (SSE-004). Bytes that are not UTF-8 are not replaced.
#[derive(Debug)]
pub struct SseDecoder {
    /// Input of `push_owned`, cut without copying; `buf` is empty while this is not.
    owned: Bytes,
    buf: BytesMut,
    reader: EventReader,
}

impl SseDecoder {
    /// Creates a decoder for events with at most `max` bytes of data.
    ///
    /// It stores at most `max` bytes of data, and a line, an id and a type of [`MAX_FIELD`] bytes each. Input since
    /// [`next_event`](Self::next_event) last returned `None` is buffered in addition.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { owned: Bytes::new(), buf: BytesMut::new(), reader: EventReader::new(max) }
    }

    /// Adds input and copies it once.
    #[inline]
    pub fn push(&mut self, input: &[u8]) {
        self.merge_owned();
        self.buf.extend_from_slice(input);
    }

    /// Adds input; events that are complete within it are not copied.
    pub fn push_owned(&mut self, input: Bytes) {
        if self.owned.is_empty() && self.buf.is_empty() {
            self.owned = input;
        } else {
            self.push(&input);
        }
    }

    /// Returns the next event, oldest first.
    pub fn next_event(&mut self) -> Option<SseItem> {
        if self.owned.is_empty() {
            let before = self.reader.line_start;
            if self.reader.read(&self.buf) {
                let event = self.buf.split_to(self.reader.line_start).freeze();
                return Some(self.reader.take(event));
            }
            // On a slow stream most pieces of input complete no line.
            if self.reader.line_start > before {
                let done = self.reader.take_consumed(&self.buf);
                self.buf.advance(done);
            }
            return None;
        }
        if self.reader.read(&self.owned) {
            let event = self.owned.split_to(self.reader.line_start);
            return Some(self.reader.take(event));
        }
        let done = self.reader.take_consumed(&self.owned);
        self.owned.advance(done);
        self.merge_owned();
        None
    }

    /// Returns the id to resume after: that of the last event with an id, even one without data (SSE-004).
    ///
    /// It is empty if there was no id, or if the last one was empty. An `id` that holds NUL is ignored (SSE-025), and
    /// so is one longer than [`MAX_FIELD`]; [`unusable_ids`](Self::unusable_ids) counts the latter.
    #[must_use]
    pub fn last_event_id(&self) -> &[u8] {
        &self.reader.id
    }

    /// Returns the number of ids that were too long to keep. Resumption then starts after an older event.
    #[must_use]
    pub const fn unusable_ids(&self) -> u64 {
        self.reader.unusable_ids
    }

    /// Returns the time to wait before the next connection attempt, as the sender asked (SSE-019).
    ///
    /// A `retry` field that holds anything but digits is ignored (SSE-025).
    #[must_use]
    pub const fn retry(&self) -> Option<Duration> {
        self.reader.retry
    }

    /// Returns the number of stored bytes of events that were not returned yet.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.buf.len() + self.owned.len() + self.reader.joined()
    }

    /// Ends the stream; another one may follow. Returns true if it ended inside of an event, which is dropped.
    ///
    /// All earlier events must have been taken. The last id and `retry` stay as they are.
    pub fn finish(&mut self) -> bool {
        let cut = self.reader.reset(if self.owned.is_empty() { &self.buf } else { &self.owned });
        self.owned = Bytes::new();
        self.buf.clear();
        cut
    }

    /// Releases memory that holds no bytes.
    pub fn trim(&mut self) {
        if self.buf.is_empty() {
            self.buf = BytesMut::new();
        }
        if self.owned.is_empty() {
            self.owned = Bytes::new();
        }
    }

    /// Moves the rest of owned input into the buffer.
    #[inline]
    fn merge_owned(&mut self) {
        if !self.owned.is_empty() {
            self.buf.extend_from_slice(&core::mem::take(&mut self.owned));
        }
    }
}
