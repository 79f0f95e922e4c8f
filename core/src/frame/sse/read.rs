//! Bytes to events.
//!
//! Linear in the input whatever the chunking: every byte is looked at once for a line end. An event with one line of
//! data, as all are that carry JSON-RPC, is cut out of the input and not copied; several lines are joined by copying.

use core::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use super::lines::Reader;
use crate::frame::line::Oversize;

/// Longest line, in bytes, that is looked at unless it is data
///
/// An id beyond it would not fit into a header field either.
pub const MAX_FIELD: usize = 8 << 10;

/// What the decoder found
#[derive(Debug)]
pub enum Sse {
    /// An event with data
    Event(Event),
    /// An event whose data was longer than the limit, or whose type was longer than [`MAX_FIELD`] (and is not told);
    /// those before and after it are not touched by that
    TooLong {
        /// Its type, as in [`Event::kind`]
        kind: Option<Bytes>,
        /// What is known about its data
        oversize: Oversize,
    },
}

/// One event
///
/// Its id is what [`SseDecoder::last_event_id`] says once it was handed out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Its type; none for `message`, which is the default
    pub kind: Option<Bytes>,
    /// Its lines of data, joined by newlines; never empty. Bytes that are no UTF-8 are passed on as they came, for
    /// whoever reads the data to refuse.
    pub data: Bytes,
}

/// Reads an event stream
///
/// ```
/// use mcp_proto::frame::sse::{Sse, SseDecoder};
/// let mut decoder = SseDecoder::new(1 << 20);
/// decoder.push(b": hello\nid: 7\ndata: {}\r");
/// assert!(decoder.next_event().is_none());
/// decoder.push(b"\n\r\n");
/// let Some(Sse::Event(event)) = decoder.next_event() else { panic!("an event") };
/// assert_eq!((event.kind, &event.data[..]), (None, &b"{}"[..]));
/// assert_eq!(decoder.last_event_id(), b"7");
/// ```
///
/// It differs from the standard in two points: an event of one empty line of data is taken as one without data, which
/// is not handed out, while its id and `retry` are noted (SSE-004); and bytes that are no UTF-8 stay what they are.
#[derive(Debug)]
pub struct SseDecoder {
    /// Bytes handed in whole, cut without copying; while there are some, `buf` is empty
    owned: Bytes,
    buf: BytesMut,
    reader: Reader,
}

impl SseDecoder {
    /// A decoder for events with at most `max` bytes of data
    ///
    /// It keeps that much, a line of [`MAX_FIELD`] and an id and a type of that length, and what was pushed since
    /// [`next_event`](Self::next_event) last returned `None`.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { owned: Bytes::new(), buf: BytesMut::new(), reader: Reader::new(max) }
    }

    /// Takes input; copies it once
    #[inline]
    pub fn push(&mut self, input: &[u8]) {
        self.settle();
        self.buf.extend_from_slice(input);
    }

    /// Takes input without copying the events that lie wholly in it
    pub fn push_owned(&mut self, input: Bytes) {
        if self.owned.is_empty() && self.buf.is_empty() {
            self.owned = input;
        } else {
            self.push(&input);
        }
    }

    /// The next event, oldest first
    pub fn next_event(&mut self) -> Option<Sse> {
        if self.owned.is_empty() {
            let before = self.reader.start;
            if self.reader.read(&self.buf) {
                let event = self.buf.split_to(self.reader.start).freeze();
                return Some(self.reader.take(event));
            }
            // Most pieces of a stream that comes slowly complete no line.
            if self.reader.start > before {
                let done = self.reader.done(&self.buf);
                self.buf.advance(done);
            }
            return None;
        }
        if self.reader.read(&self.owned) {
            let event = self.owned.split_to(self.reader.start);
            return Some(self.reader.take(event));
        }
        let done = self.reader.done(&self.owned);
        self.owned.advance(done);
        self.settle();
        None
    }

    /// The id to resume after: that of the last event with one, be it without data (SSE-004); empty when there is none,
    /// or when an event said that it has none
    ///
    /// An `id` that holds NUL is ignored (SSE-025), and so is one that [`MAX_FIELD`] has no room for; those are counted
    /// by [`unusable_ids`](Self::unusable_ids).
    #[must_use]
    pub fn last_event_id(&self) -> &[u8] {
        &self.reader.id
    }

    /// How many ids were too long to be kept: resuming then begins after an older event
    #[must_use]
    pub const fn unusable_ids(&self) -> u64 {
        self.reader.unusable_ids
    }

    /// How long the sender wants its reader to wait before it connects again (SSE-019); anything but digits is ignored
    /// (SSE-025)
    #[must_use]
    pub const fn retry(&self) -> Option<Duration> {
        self.reader.retry
    }

    /// Bytes that are kept of what was not handed out yet
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.buf.len() + self.owned.len() + self.reader.joined()
    }

    /// The stream has ended, and another may follow; true when it ended inside of an event, which is dropped
    ///
    /// All events before it must have been taken. The last id and `retry` stay as they are.
    pub fn finish(&mut self) -> bool {
        let cut = self.reader.reset(if self.owned.is_empty() { &self.buf } else { &self.owned });
        self.owned = Bytes::new();
        self.buf.clear();
        cut
    }

    /// Gives memory back when nothing is kept
    pub fn trim(&mut self) {
        if self.buf.is_empty() {
            self.buf = BytesMut::new();
        }
        if self.owned.is_empty() {
            self.owned = Bytes::new();
        }
    }

    /// Moves what is left of owned input into the buffer
    #[inline]
    fn settle(&mut self) {
        if !self.owned.is_empty() {
            self.buf.extend_from_slice(&core::mem::take(&mut self.owned));
        }
    }
}
