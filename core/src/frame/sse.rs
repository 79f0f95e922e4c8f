//! Event streams (`text/event-stream`) of the WHATWG HTML standard: a decoder, and writers that escape line ends
//! (SSE-002).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use super::line::Oversize;
use crate::rpc::recover::IdFinder;

// Decoder: bytes to events.
//
// The cost is linear in the input for any chunking: every byte is searched once for a line end. An event with one
// line of data is cut out of the input and not copied; all events with JSON-RPC are of this kind. Several lines of
// data are joined by copying.

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

// Writers: events to bytes.
//
// No value can break out of its line: where a line end cannot be expressed, the value is refused.

/// Fields of an event other than its data.
///
/// ```
/// use mcp_proto::frame::sse::{EVENT_END, EventHead, write_event};
/// let head = EventHead { id: Some("7"), ..EventHead::default() };
/// let mut out = Vec::new();
/// write_event(&mut out, &head, b"two\nlines")?;
/// assert_eq!(out, b"id: 7\ndata: two\ndata: lines\n\n");
///
/// // A large payload without line ends need not be copied: send it between head and end.
/// let mut before = Vec::new();
/// head.begin(&mut before)?;
/// let (payload, after) = (br#"{"jsonrpc":"2.0"}"#, EVENT_END);
/// assert_eq!([&before, &payload[..], after].concat(), b"id: 7\ndata: {\"jsonrpc\":\"2.0\"}\n\n");
/// # Ok::<(), mcp_proto::frame::sse::InvalidEventField>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EventHead<'a> {
    /// Type of the event; `None` for `message`, the default (SSE-001).
    pub kind: Option<&'a str>,
    /// Id of the event; an empty one makes the reader forget the previous id (SSE-013).
    pub id: Option<&'a str>,
    /// Time for the reader to wait before it connects again, in whole milliseconds (SSE-018).
    pub retry: Option<Duration>,
}

/// End of an event, written after its data.
pub const EVENT_END: &[u8] = b"\n\n";

impl EventHead<'_> {
    /// Appends an event up to its data.
    ///
    /// The data must follow without a line end in it; JSON text that this crate writes has none. [`EVENT_END`] ends the
    /// event.
    ///
    /// # Errors
    ///
    /// [`InvalidEventField`] if the type or the id holds a line end or NUL. Nothing is appended then.
    pub fn begin(&self, out: &mut Vec<u8>) -> Result<(), InvalidEventField> {
        for (name, value) in [("type", self.kind), ("id", self.id)] {
            if value.is_some_and(|v| v.bytes().any(|b| matches!(b, b'\n' | b'\r' | 0))) {
                return Err(InvalidEventField { name });
            }
        }
        if let Some(id) = self.id {
            field(out, b"id: ", id.as_bytes());
        }
        if let Some(kind) = self.kind {
            field(out, b"event: ", kind.as_bytes());
        }
        if let Some(retry) = self.retry {
            let millis = u64::try_from(retry.as_millis()).unwrap_or(u64::MAX);
            field(out, b"retry: ", itoa::Buffer::new().format(millis).as_bytes());
        }
        out.extend_from_slice(DATA);
        Ok(())
    }
}

/// Appends an event. Each line end of the data begins a new line of data; the reader joins them with newlines.
///
/// An event without data is not returned by the reader, but its id takes effect (SSE-016).
///
/// # Errors
///
/// [`InvalidEventField`] if the type or the id holds a line end or NUL. Nothing is appended then.
pub fn write_event(out: &mut Vec<u8>, head: &EventHead<'_>, data: &[u8]) -> Result<(), InvalidEventField> {
    head.begin(out)?;
    lines(out, DATA, data);
    out.extend_from_slice(EVENT_END);
    Ok(())
}

/// Appends a comment, which readers ignore: it keeps a quiet stream alive (SSE-006).
pub fn write_comment(out: &mut Vec<u8>, text: &str) {
    const COMMENT: &[u8] = b": ";
    out.extend_from_slice(COMMENT);
    lines(out, COMMENT, text.as_bytes());
    out.extend_from_slice(EVENT_END);
}

/// Error for a field that could not be read back unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the {name} of an event holds a line end or NUL")]
#[non_exhaustive]
pub struct InvalidEventField {
    /// Name of the field: `type` or `id`.
    pub name: &'static str,
}

const DATA: &[u8] = b"data: ";

fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// Appends text with `begin` after each line end in it.
fn lines(out: &mut Vec<u8>, begin: &[u8], text: &[u8]) {
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', rest) {
        let (line, end) = rest.split_at(at);
        out.extend_from_slice(line);
        out.push(b'\n');
        out.extend_from_slice(begin);
        let length = if end.starts_with(b"\r\n") { 2 } else { 1 };
        rest = end.get(length..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

// Lines to events: the fields of an event stream, over text that the decoder stores.

/// Length of a line from which its field is known: a byte order mark, five letters, a colon, and one more byte.
const MIN_NAMED_LEN: usize = 10;

/// Size of other lines between an event's data and its end from which the data is moved out of the text.
const MAX_TRAILING_BYTES: usize = 1 << 10;

/// State of the event that is not complete; positions are offsets in the decoder's text.
///
/// Invariant: `data.end <= line_start <= scanned`. `data` is its only line of data, `line_start` is the beginning of
/// the unfinished line, and `text[line_start..scanned]` holds no line end.
#[derive(Debug)]
struct EventReader {
    line_start: usize,
    scanned: usize,
    /// Length from which an unfinished line is checked.
    check_threshold: usize,
    /// The last line ended with a carriage return, and the byte after it is not known yet.
    after_cr: bool,
    /// No line is complete yet: the first one may begin with a byte order mark.
    at_stream_start: bool,
    /// Field of an overlong line that passes without being stored.
    skip: Option<SseField>,
    data: EventData,
    /// Length of the joined data in bytes.
    length: usize,
    max: usize,
    oversize: Option<Box<OversizeData>>,
    /// Type of the event; empty for `message`.
    kind: Vec<u8>,
    /// Id of the unfinished event, valid if `has_id`; its allocation is reused.
    next_id: Vec<u8>,
    has_id: bool,
    id: Vec<u8>,
    unusable_ids: u64,
    retry: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SseField {
    Data,
    Event,
    Id,
    Retry,
    /// A comment or an unknown field.
    Other,
}

/// Data of the unfinished event.
#[derive(Debug)]
enum EventData {
    None,
    /// One line, as a range of the text.
    Line(Range<usize>),
    Joined(Vec<u8>),
}

/// State of data that is too long to keep.
#[derive(Debug)]
struct OversizeData {
    finder: IdFinder,
    length: u64,
    /// At least one line of the data has begun.
    has_line: bool,
}

impl EventReader {
    const fn new(max: usize) -> Self {
        Self {
            line_start: 0,
            scanned: 0,
            check_threshold: MIN_NAMED_LEN,
            after_cr: false,
            at_stream_start: true,
            skip: None,
            data: EventData::None,
            length: 0,
            max,
            oversize: None,
            kind: Vec::new(),
            next_id: Vec::new(),
            has_id: false,
            id: Vec::new(),
            unusable_ids: 0,
            retry: None,
        }
    }

    /// Reads lines. Returns true after the end of an event with data, and false at the end of the text.
    fn read(&mut self, text: &[u8]) -> bool {
        // The line feed of a CRLF may come in the next piece. It must not count as an empty line.
        if self.after_cr {
            let Some(byte) = text.get(self.line_start) else { return false };
            self.after_cr = false;
            if *byte == b'\n' {
                self.line_start += 1;
                self.scanned = self.line_start;
            }
        }
        loop {
            let fresh = text.get(self.scanned..).unwrap_or_default();
            let Some((at, byte)) = line_end(fresh) else {
                self.scanned = text.len();
                if text.len() - self.line_start > self.check_threshold {
                    self.check_long_line(text);
                }
                return false;
            };
            let line = self.line_start..self.scanned + at;
            self.line_start = line.end + 1;
            if byte == b'\r' {
                match text.get(self.line_start) {
                    Some(b'\n') => self.line_start += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            self.scanned = self.line_start;
            if self.take_line(text, line) {
                return true;
            }
        }
    }

    /// Handles a complete line; returns true if it ends an event with data.
    fn take_line(&mut self, text: &[u8], mut at: Range<usize>) -> bool {
        self.check_threshold = MIN_NAMED_LEN;
        if let Some(field) = self.skip.take() {
            self.finish_skipped(field, text.get(at).unwrap_or_default());
            return false;
        }
        let mut line = text.get(at.clone()).unwrap_or_default();
        if self.at_stream_start {
            self.at_stream_start = false;
            line = strip_bom(line);
            at.start = at.end - line.len();
        }
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = classify(line);
        if field == SseField::Data {
            self.append_data(text, at.start + value..at.end);
        } else if line.len() > MAX_FIELD {
            self.finish_skipped(field, b"");
        } else {
            self.take_field(field, line.get(value..).unwrap_or_default());
        }
        false
    }

    fn take_field(&mut self, field: SseField, value: &[u8]) {
        match field {
            SseField::Event => {
                self.kind.clear();
                // `message` is the default, so it is the same as no type.
                if value != b"message" {
                    self.kind.extend_from_slice(value);
                }
            }
            // An id with NUL, and a time that is not all digits, are ignored as in the HTML standard.
            SseField::Id if !value.contains(&0) => {
                self.has_id = true;
                self.next_id.clear();
                self.next_id.extend_from_slice(value);
            }
            SseField::Retry if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                // The sender chooses the number of digits.
                let digit = |sum: u64, b: &u8| sum.saturating_mul(10).saturating_add(u64::from(*b - b'0'));
                self.retry = Some(Duration::from_millis(value.iter().fold(0, digit)));
            }
            _ => {}
        }
    }

    fn append_data(&mut self, text: &[u8], value: Range<usize>) {
        let joint = usize::from(!matches!(self.data, EventData::None));
        if self.oversize.is_some() || self.max - self.length < value.len() + joint {
            let over = self.overflow(text);
            over.begin_line();
            over.feed(text.get(value).unwrap_or_default());
            return;
        }
        self.length += value.len() + joint;
        if let EventData::None = self.data {
            self.data = EventData::Line(value);
            return;
        }
        let data = self.join(text);
        data.push(b'\n');
        data.extend_from_slice(text.get(value).unwrap_or_default());
    }

    /// Moves the data out of the text.
    fn join(&mut self, text: &[u8]) -> &mut Vec<u8> {
        if let EventData::Line(line) = &self.data {
            self.data = EventData::Joined(text.get(line.clone()).unwrap_or_default().into());
        } else if let EventData::None = self.data {
            self.data = EventData::Joined(Vec::new());
        }
        match &mut self.data {
            EventData::Joined(data) => data,
            // Unreachable: both were replaced above.
            EventData::None | EventData::Line(_) => &mut self.kind,
        }
    }

    /// Marks the event's data as too long and feeds the part that was kept to the id finder.
    fn overflow(&mut self, text: &[u8]) -> &mut OversizeData {
        let data = core::mem::replace(&mut self.data, EventData::None);
        self.length = 0;
        self.oversize.get_or_insert_with(|| {
            let mut over = Box::new(OversizeData { finder: IdFinder::new(), length: 0, has_line: false });
            let before = match &data {
                EventData::None => return over,
                EventData::Line(line) => text.get(line.clone()).unwrap_or_default(),
                EventData::Joined(data) => data,
            };
            over.begin_line();
            over.feed(before);
            over
        })
    }

    /// Decides whether an unfinished line that grows long is stored.
    #[cold]
    fn check_long_line(&mut self, text: &[u8]) {
        let whole = text.get(self.line_start..).unwrap_or_default();
        if self.skip.is_some() {
            self.feed_skipped(whole);
        } else {
            let line = if self.at_stream_start { strip_bom(whole) } else { whole };
            let (field, value) = classify(line);
            let room = match &self.oversize {
                _ if field != SseField::Data => MAX_FIELD,
                // The data is too long already, so nothing of the line is stored.
                Some(_) => value,
                None => {
                    let joint = usize::from(!matches!(self.data, EventData::None));
                    value.saturating_add((self.max - self.length).saturating_sub(joint))
                }
            };
            if line.len() <= room {
                // Not checked again before this length, so that a line in small pieces is not classified for each of
                // them.
                self.check_threshold = room + (whole.len() - line.len());
                return;
            }
            if field == SseField::Data {
                self.overflow(text).begin_line();
            }
            self.skip = Some(field);
            self.at_stream_start = false;
            // Each further piece is fed and dropped at once.
            self.check_threshold = 0;
            self.feed_skipped(line.get(value..).unwrap_or_default());
        }
        self.line_start = text.len();
    }

    /// Feeds a part of a line that is not stored.
    fn feed_skipped(&mut self, part: &[u8]) {
        if let (Some(SseField::Data), Some(over)) = (self.skip, &mut self.oversize) {
            over.feed(part);
        }
    }

    /// Ends a line that was too long; `rest` is the part of it that was not fed yet.
    fn finish_skipped(&mut self, field: SseField, rest: &[u8]) {
        match field {
            SseField::Data => {
                if let Some(over) = &mut self.oversize {
                    over.feed(rest);
                }
            }
            // An event of unknown type is reported as too long; its data has no meaning.
            SseField::Event => {
                self.kind.clear();
                self.overflow(b"");
            }
            SseField::Id => self.unusable_ids += 1,
            SseField::Retry | SseField::Other => {}
        }
    }

    /// Ends an event; returns true if it has data.
    fn dispatch(&mut self) -> bool {
        // Also for an event without data (SSE-004).
        if core::mem::take(&mut self.has_id) {
            core::mem::swap(&mut self.id, &mut self.next_id);
        }
        // An event with empty data is no event in the HTML standard.
        if self.length > 0 || self.oversize.is_some() {
            return true;
        }
        self.kind.clear();
        self.data = EventData::None;
        false
    }

    /// Returns the event that has ended, given its text.
    fn take(&mut self, mut text: Bytes) -> SseItem {
        (self.line_start, self.scanned, self.length) = (0, 0, 0);
        let kind = if self.kind.is_empty() { None } else { Some(Bytes::copy_from_slice(&self.kind)) };
        self.kind.clear();
        let data = core::mem::replace(&mut self.data, EventData::None);
        if let Some(over) = self.oversize.take() {
            let oversize =
                Oversize { length: over.length, recovered: over.finder.finish(), is_out_of_memory: false };
            return SseItem::TooLong { kind, oversize };
        }
        let data = match data {
            EventData::None => Bytes::new(),
            EventData::Line(line) => {
                text.truncate(line.end);
                text.advance(line.start.min(text.len()));
                text
            }
            EventData::Joined(data) => data.into(),
        };
        SseItem::Event(Event { kind, data })
    }

    /// Returns how much of the text is no longer needed; positions are relative to the rest from then on.
    #[inline]
    fn take_consumed(&mut self, text: &[u8]) -> usize {
        if let EventData::Line(line) = &self.data {
            // Lines behind the data are stored with it, and a peer may send comments without end.
            if self.line_start - line.end > MAX_TRAILING_BYTES {
                self.join(text);
            }
        }
        let done = match &mut self.data {
            EventData::Line(line) => {
                let done = line.start;
                *line = 0..line.end - done;
                done
            }
            _ => self.line_start,
        };
        self.line_start -= done;
        self.scanned -= done;
        done
    }

    fn joined(&self) -> usize {
        if let EventData::Joined(data) = &self.data { data.len() } else { 0 }
    }

    /// Resets all state but the id, the count of unusable ids and `retry`; returns whether an event was cut off.
    fn reset(&mut self, text: &[u8]) -> bool {
        let rest = text.get(self.line_start..).unwrap_or_default();
        let rest = if self.at_stream_start { strip_bom(rest) } else { rest };
        // A comment that was cut off is no loss.
        let cut = !matches!(rest, [] | [b':', ..])
            || !matches!(self.data, EventData::None)
            || !self.kind.is_empty()
            || self.has_id
            || self.oversize.is_some();
        *self = Self {
            id: core::mem::take(&mut self.id),
            unusable_ids: self.unusable_ids,
            retry: self.retry,
            ..Self::new(self.max)
        };
        cut
    }
}

impl OversizeData {
    /// Begins another line of data.
    fn begin_line(&mut self) {
        if self.has_line {
            self.feed(b"\n");
        }
        self.has_line = true;
    }

    fn feed(&mut self, data: &[u8]) {
        self.finder.feed(data);
        self.length += data.len() as u64;
    }
}

/// Returns the offset and the first byte of the first line end.
#[inline]
fn line_end(text: &[u8]) -> Option<(usize, u8)> {
    let at = if text.len() < 16 {
        text.iter().position(|b| matches!(b, b'\n' | b'\r'))
    } else {
        memchr::memchr2(b'\n', b'\r', text)
    };
    at.and_then(|at| text.get(at).map(|b| (at, *b)))
}

fn strip_bom(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// Returns the field of a line and the offset of its value.
#[inline]
fn classify(line: &[u8]) -> (SseField, usize) {
    let (field, name) = match line {
        [b'd', b'a', b't', b'a', ..] => (SseField::Data, 4),
        [b'e', b'v', b'e', b'n', b't', ..] => (SseField::Event, 5),
        [b'i', b'd', ..] => (SseField::Id, 2),
        [b'r', b'e', b't', b'r', b'y', ..] => (SseField::Retry, 5),
        _ => return (SseField::Other, 0),
    };
    match line.get(name..) {
        Some([]) => (field, name),
        Some([b':', b' ', ..]) => (field, name + 2),
        Some([b':', ..]) => (field, name + 1),
        _ => (SseField::Other, 0),
    }
}

#[cfg(test)]
mod tests;
