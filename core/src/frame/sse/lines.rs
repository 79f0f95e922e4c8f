//! Lines to events: what the fields of an event stream mean, over text that somebody else keeps.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use bytes::{Buf, Bytes};

use super::read::{Event, MAX_FIELD, Sse};
use crate::frame::line::Oversize;
use crate::rpc::recover::Finder;

/// From this length on the name of a field is known: a byte order mark, five letters, a colon, and one byte more
const NAMED: usize = 10;

/// Other lines between the data of an event and its end are cut off once they are longer than this
const SLACK: usize = 1 << 10;

/// What has been read of the event that is not complete; positions are those of the text that the decoder keeps
///
/// `data.end <= start <= scanned`: the data, if it is one line, the begin of the unfinished line, and the place up to
/// which that has no end.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) start: usize,
    scanned: usize,
    /// An unfinished line is looked at once it is longer than this
    unseen: usize,
    /// The last line ended with a carriage return, and what came after it is not known
    after_cr: bool,
    /// No line is complete yet: the first one may begin with a byte order mark
    first: bool,
    /// A line of this kind is passing by unstored
    skip: Option<Field>,
    data: Data,
    /// Bytes of data, joined
    length: usize,
    max: usize,
    over: Option<Box<Over>>,
    /// The type, unless it is `message`
    kind: Vec<u8>,
    /// The id of the event that is not complete, if it has one; the room is used for the next one again
    next_id: Vec<u8>,
    has_id: bool,
    pub(super) id: Vec<u8>,
    pub(super) unusable_ids: u64,
    pub(super) retry: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Data,
    Event,
    Id,
    Retry,
    /// A comment, or a field that nobody knows
    Other,
}

/// The data of an event so far
#[derive(Debug)]
enum Data {
    None,
    /// One line, where it stands
    Line(Range<usize>),
    Joined(Vec<u8>),
}

/// Data that was too long to keep
#[derive(Debug)]
struct Over {
    finder: Finder,
    length: u64,
    /// A line of it has been seen
    begun: bool,
}

impl Reader {
    pub(super) const fn new(max: usize) -> Self {
        Self {
            start: 0,
            scanned: 0,
            unseen: NAMED,
            after_cr: false,
            first: true,
            skip: None,
            data: Data::None,
            length: 0,
            max,
            over: None,
            kind: Vec::new(),
            next_id: Vec::new(),
            has_id: false,
            id: Vec::new(),
            unusable_ids: 0,
            retry: None,
        }
    }

    /// Reads lines; true behind the end of an event that is to be handed out, false at the end of the text
    pub(super) fn read(&mut self, text: &[u8]) -> bool {
        if self.after_cr {
            let Some(byte) = text.get(self.start) else { return false };
            self.after_cr = false;
            if *byte == b'\n' {
                self.start += 1;
                self.scanned = self.start;
            }
        }
        loop {
            let fresh = text.get(self.scanned..).unwrap_or_default();
            let Some((at, byte)) = line_end(fresh) else {
                self.scanned = text.len();
                if text.len() - self.start > self.unseen {
                    self.look(text);
                }
                return false;
            };
            let line = self.start..self.scanned + at;
            self.start = line.end + 1;
            if byte == b'\r' {
                match text.get(self.start) {
                    Some(b'\n') => self.start += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            self.scanned = self.start;
            if self.line(text, line) {
                return true;
            }
        }
    }

    /// Takes a complete line; true when it ends an event that is to be handed out
    fn line(&mut self, text: &[u8], mut at: Range<usize>) -> bool {
        self.unseen = NAMED;
        if let Some(field) = self.skip.take() {
            self.skipped(field, text.get(at).unwrap_or_default());
            return false;
        }
        let mut line = text.get(at.clone()).unwrap_or_default();
        if self.first {
            self.first = false;
            line = without_mark(line);
            at.start = at.end - line.len();
        }
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = classify(line);
        if field == Field::Data {
            self.data(text, at.start + value..at.end);
        } else if line.len() > MAX_FIELD {
            self.skipped(field, b"");
        } else {
            self.field(field, line.get(value..).unwrap_or_default());
        }
        false
    }

    fn field(&mut self, field: Field, value: &[u8]) {
        match field {
            Field::Event => {
                self.kind.clear();
                if value != b"message" {
                    self.kind.extend_from_slice(value);
                }
            }
            Field::Id if !value.contains(&0) => {
                self.has_id = true;
                self.next_id.clear();
                self.next_id.extend_from_slice(value);
            }
            Field::Retry if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let digit = |sum: u64, b: &u8| sum.saturating_mul(10).saturating_add(u64::from(*b - b'0'));
                self.retry = Some(Duration::from_millis(value.iter().fold(0, digit)));
            }
            _ => {}
        }
    }

    fn data(&mut self, text: &[u8], value: Range<usize>) {
        let joint = usize::from(!matches!(self.data, Data::None));
        if self.over.is_some() || self.max - self.length < value.len() + joint {
            let over = self.overflow(text);
            over.begin();
            over.feed(text.get(value).unwrap_or_default());
            return;
        }
        self.length += value.len() + joint;
        if let Data::None = self.data {
            self.data = Data::Line(value);
            return;
        }
        let data = self.join(text);
        data.push(b'\n');
        data.extend_from_slice(text.get(value).unwrap_or_default());
    }

    /// The data, moved out of the text
    fn join(&mut self, text: &[u8]) -> &mut Vec<u8> {
        if let Data::Line(line) = &self.data {
            self.data = Data::Joined(text.get(line.clone()).unwrap_or_default().into());
        } else if let Data::None = self.data {
            self.data = Data::Joined(Vec::new());
        }
        match &mut self.data {
            Data::Joined(data) => data,
            // Neither of the two is left.
            Data::None | Data::Line(_) => &mut self.kind,
        }
    }

    /// Notes the event's data as too long, and what there was of it
    fn overflow(&mut self, text: &[u8]) -> &mut Over {
        let data = core::mem::replace(&mut self.data, Data::None);
        self.length = 0;
        self.over.get_or_insert_with(|| {
            let mut over = Box::new(Over { finder: Finder::new(), length: 0, begun: false });
            let before = match &data {
                Data::None => return over,
                Data::Line(line) => text.get(line.clone()).unwrap_or_default(),
                Data::Joined(data) => data,
            };
            over.begin();
            over.feed(before);
            over
        })
    }

    /// Looks at an unfinished line that grows long: whether it is to be kept
    #[cold]
    fn look(&mut self, text: &[u8]) {
        let whole = text.get(self.start..).unwrap_or_default();
        if self.skip.is_some() {
            self.pass(whole);
        } else {
            let line = if self.first { without_mark(whole) } else { whole };
            let (field, value) = classify(line);
            let room = match &self.over {
                _ if field != Field::Data => MAX_FIELD,
                Some(_) => value,
                None => {
                    let joint = usize::from(!matches!(self.data, Data::None));
                    value.saturating_add((self.max - self.length).saturating_sub(joint))
                }
            };
            if line.len() <= room {
                self.unseen = room + (whole.len() - line.len());
                return;
            }
            if field == Field::Data {
                self.overflow(text).begin();
            }
            self.skip = Some(field);
            self.first = false;
            self.unseen = 0;
            self.pass(line.get(value..).unwrap_or_default());
        }
        self.start = text.len();
    }

    /// A part of a line that is not stored
    fn pass(&mut self, part: &[u8]) {
        if let (Some(Field::Data), Some(over)) = (self.skip, &mut self.over) {
            over.feed(part);
        }
    }

    /// The end of a line that was too long, with what of it has not passed yet
    fn skipped(&mut self, field: Field, rest: &[u8]) {
        match field {
            Field::Data => {
                if let Some(over) = &mut self.over {
                    over.feed(rest);
                }
            }
            // Nothing can be said about an event of a type that is not known, but that there was one.
            Field::Event => {
                self.kind.clear();
                self.overflow(b"");
            }
            Field::Id => self.unusable_ids += 1,
            Field::Retry | Field::Other => {}
        }
    }

    /// An event has ended; true when it is to be handed out
    fn dispatch(&mut self) -> bool {
        if core::mem::take(&mut self.has_id) {
            core::mem::swap(&mut self.id, &mut self.next_id);
        }
        if self.length > 0 || self.over.is_some() {
            return true;
        }
        self.kind.clear();
        self.data = Data::None;
        false
    }

    /// The event that has ended, given its text
    pub(super) fn take(&mut self, mut text: Bytes) -> Sse {
        (self.start, self.scanned, self.length) = (0, 0, 0);
        let kind = if self.kind.is_empty() { None } else { Some(Bytes::copy_from_slice(&self.kind)) };
        self.kind.clear();
        let data = core::mem::replace(&mut self.data, Data::None);
        if let Some(over) = self.over.take() {
            let oversize = Oversize { length: over.length, found: over.finder.finish() };
            return Sse::TooLong { kind, oversize };
        }
        let data = match data {
            Data::None => Bytes::new(),
            Data::Line(line) => {
                text.truncate(line.end);
                text.advance(line.start.min(text.len()));
                text
            }
            Data::Joined(data) => data.into(),
        };
        Sse::Event(Event { kind, data })
    }

    /// How much of the text has been read and is not needed any more; positions count from there afterwards
    #[inline]
    pub(super) fn done(&mut self, text: &[u8]) -> usize {
        if let Data::Line(line) = &self.data {
            if self.start - line.end > SLACK {
                self.join(text);
            }
        }
        let done = match &mut self.data {
            Data::Line(line) => {
                let done = line.start;
                *line = 0..line.end - done;
                done
            }
            _ => self.start,
        };
        self.start -= done;
        self.scanned -= done;
        done
    }

    pub(super) fn joined(&self) -> usize {
        if let Data::Joined(data) = &self.data { data.len() } else { 0 }
    }

    /// Begins anew, but for what outlives a stream; whether something of an event was left
    pub(super) fn reset(&mut self, text: &[u8]) -> bool {
        let rest = text.get(self.start..).unwrap_or_default();
        let rest = if self.first { without_mark(rest) } else { rest };
        let cut = !matches!(rest, [] | [b':', ..])
            || !matches!(self.data, Data::None)
            || !self.kind.is_empty()
            || self.has_id
            || self.over.is_some();
        *self = Self {
            id: core::mem::take(&mut self.id),
            unusable_ids: self.unusable_ids,
            retry: self.retry,
            ..Self::new(self.max)
        };
        cut
    }
}

impl Over {
    /// Another line of data
    fn begin(&mut self) {
        if self.begun {
            self.feed(b"\n");
        }
        self.begun = true;
    }

    fn feed(&mut self, data: &[u8]) {
        self.finder.feed(data);
        self.length += data.len() as u64;
    }
}

/// The first line end and its first byte
#[inline]
fn line_end(text: &[u8]) -> Option<(usize, u8)> {
    let at = if text.len() < 16 {
        text.iter().position(|b| matches!(b, b'\n' | b'\r'))
    } else {
        memchr::memchr2(b'\n', b'\r', text)
    };
    at.and_then(|at| text.get(at).map(|b| (at, *b)))
}

fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// Which field a line is, and where its value begins
#[inline]
fn classify(line: &[u8]) -> (Field, usize) {
    let (field, name) = match line {
        [b'd', b'a', b't', b'a', ..] => (Field::Data, 4),
        [b'e', b'v', b'e', b'n', b't', ..] => (Field::Event, 5),
        [b'i', b'd', ..] => (Field::Id, 2),
        [b'r', b'e', b't', b'r', b'y', ..] => (Field::Retry, 5),
        _ => return (Field::Other, 0),
    };
    match line.get(name..) {
        Some([]) => (field, name),
        Some([b':', b' ', ..]) => (field, name + 2),
        Some([b':', ..]) => (field, name + 1),
        _ => (Field::Other, 0),
    }
}
