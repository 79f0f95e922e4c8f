//! One stream of bytes for all spellings of a JSON value, to be hashed.
//!
//! Not told apart: the order of members, escapes, white space, and the ways to write a number (`1`, `1.0`, `10e-1`;
//! `-0` is `0`). Numbers are compared as decimals of any length, never as floating point. Everything else is told
//! apart: no two different values give the same stream.
//!
//! - Members are sorted by their names as bytes of UTF-8, escapes resolved. Equal names are all kept, in the order in
//!   which they stand: which of them counts is for the reader of the value to say, so neither may change unnoticed.
//! - A number whose exponent has more than 18 digits is kept as it is spelled, unless it is zero.
//!
//! The stream: a byte that says what follows, then that; strings and numbers end with a byte that UTF-8 never has.
//!
//! ```text
//! null n · true t · false f · zero 0 · [ values ] · { pairs of string and value }
//! string  " text ff
//! number  + or -, digits without zeros at either end, e and the exponent of the last one if it is not 0, ff
//! number of too large an exponent  ~ its text ff
//! ```
//!
//! The first walk checks the text and notes its objects, sorted; the second writes. Neither recurses. The work is that
//! of sorting: the length of the text times the logarithm of the number of members. The notes take 16 bytes for each
//! object and for each member.

use alloc::vec::Vec;

use super::scan::{MAX_DEPTH, ScanError, Scanner, Span, Text};

/// Hands the canonical stream of the value `text` to `sink`, piece by piece
///
/// `text` is UTF-8, as for every scan. Refused: what is no JSON, nesting beyond [`MAX_DEPTH`], text of 2 GiB or more.
/// Nothing was handed over then.
pub(crate) fn canonical(text: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<(), ScanError> {
    counted(text, sink, &mut ())
}

/// Counts what is done, in tests
trait Count {
    fn add(&mut self, steps: usize);
}

impl Count for () {
    #[inline]
    fn add(&mut self, _: usize) {}
}

fn counted(text: &[u8], sink: &mut dyn FnMut(&[u8]), count: &mut impl Count) -> Result<(), ScanError> {
    // Positions in the text and behind it, among the names that had escapes, must fit `Span`.
    if text.len() > (u32::MAX / 2) as usize {
        return Err(ScanError::Members(0));
    }
    Index::of(text, count)?.write(sink, count)
}

const END: &[u8] = &[0xff];

/// The longest exponent in digits that is calculated with: positions in a text added to it fit 64 bits
const MAX_EXPONENT: usize = 18;

/// The objects of a text
struct Index<'a> {
    text: &'a [u8],
    /// Names that had escapes, without them: a name that begins behind the text is found here
    plain: Vec<u8>,
    /// In the order in which they begin
    objects: Vec<Object>,
    /// Those of one object stand together, sorted
    members: Vec<Member>,
}

#[derive(Clone, Copy, Default)]
struct Object {
    /// Its members in [`Index::members`]
    first: u32,
    last: u32,
    after: Place,
}

#[derive(Clone, Copy)]
struct Member {
    name: Span,
    value: Place,
}

/// A position in the text, and how many objects begin before it
#[derive(Clone, Copy, Default)]
struct Place {
    at: u32,
    objects: u32,
}

/// A container that is being checked
struct Open {
    /// Which one it is, if it is an object, and where its members begin among those of unfinished objects
    object: Option<(usize, usize)>,
}

impl<'a> Index<'a> {
    /// Checks the text and notes its objects
    fn of(text: &'a [u8], count: &mut impl Count) -> Result<Self, ScanError> {
        let mut index = Self { text, plain: Vec::new(), objects: Vec::new(), members: Vec::new() };
        let mut s = Scanner::new(text, MAX_DEPTH, u32::MAX);
        let mut open: Vec<Open> = Vec::new();
        let mut pending: Vec<Member> = Vec::new();
        loop {
            count.add(1);
            let first = s.peek();
            if matches!(first, b'{' | b'[') {
                if open.len() >= MAX_DEPTH as usize {
                    return Err(ScanError::Depth(s.pos()));
                }
                s.advance(1);
                let object = (first == b'{').then_some((index.objects.len(), pending.len()));
                open.push(Open { object });
                if object.is_some() {
                    index.objects.push(Object::default());
                    if s.peek() != b'}' {
                        pending.push(index.member(&mut s)?);
                        continue;
                    }
                } else if s.peek() != b']' {
                    continue;
                }
            } else {
                s.value()?;
            }
            // A value has ended, or an empty container stands before its closing bracket.
            loop {
                let Some(Open { object }) = open.last() else {
                    return if s.at_end() { Ok(index) } else { s.fail() };
                };
                match (s.peek(), *object) {
                    (b',', object) => {
                        s.advance(1);
                        if object.is_some() {
                            pending.push(index.member(&mut s)?);
                        }
                        break;
                    }
                    (b'}', Some((number, first))) => {
                        s.advance(1);
                        index.close(number, pending.drain(first..), s.pos(), count);
                    }
                    (b']', None) => s.advance(1),
                    _ => return s.fail(),
                }
                open.pop();
            }
        }
    }

    /// A name and its colon; the value follows
    fn member(&mut self, s: &mut Scanner<'_>) -> Result<Member, ScanError> {
        let name = s.string()?;
        // The closing quote is behind the name.
        let end = s.pos() - 1;
        let name = if name.escaped {
            let start = self.text.len() + self.plain.len();
            self.plain.extend_from_slice(&name.bytes());
            Span::new(start, self.text.len() + self.plain.len())
        } else {
            Span::new(end - name.raw.len(), end)
        };
        if s.peek() != b':' {
            return s.fail();
        }
        s.advance(1);
        Ok(Member { name, value: self.place(s.pos()) })
    }

    /// Notes an object that ended before `end`
    fn close(
        &mut self,
        number: usize,
        members: impl Iterator<Item = Member>,
        end: usize,
        count: &mut impl Count,
    ) {
        let first = self.members.len();
        self.members.extend(members);
        let (text, plain) = (self.text, &self.plain);
        if let Some(members) = self.members.get_mut(first..) {
            sort(members, &mut |a, b| {
                let (x, y) = (name(text, plain, a.name), name(text, plain, b.name));
                count.add(1 + x.len().min(y.len()));
                (x, a.value.at) < (y, b.value.at)
            });
        }
        let object = Object { first: short(first), last: short(self.members.len()), after: self.place(end) };
        if let Some(place) = self.objects.get_mut(number) {
            *place = object;
        }
    }

    fn place(&self, at: usize) -> Place {
        Place { at: short(at), objects: short(self.objects.len()) }
    }

    /// Writes the stream
    fn write(&self, sink: &mut dyn FnMut(&[u8]), count: &mut impl Count) -> Result<(), ScanError> {
        let mut s = Scanner::trusted(self.text);
        let mut objects = 0;
        // Objects with the members that are left, none for an array.
        let mut open: Vec<Option<(&[Member], Place)>> = Vec::new();
        loop {
            count.add(1);
            match s.peek() {
                b'{' => {
                    sink(b"{");
                    let object = self.objects.get(objects as usize).copied().unwrap_or_default();
                    let members = self.members.get(object.first as usize..object.last as usize);
                    objects += 1;
                    open.push(Some((members.unwrap_or_default(), object.after)));
                }
                b'[' => {
                    sink(b"[");
                    s.advance(1);
                    open.push(None);
                    if s.peek() != b']' {
                        continue;
                    }
                }
                b'"' => string(s.string()?, sink),
                first => scalar(first, s.value()?.of(self.text).unwrap_or_default(), sink),
            }
            // A value has ended, or a container has begun that may have no more of them.
            loop {
                match open.last_mut() {
                    None => return Ok(()),
                    Some(None) => {
                        let more = s.peek() == b',';
                        s.advance(1);
                        if more {
                            break;
                        }
                        sink(b"]");
                    }
                    Some(Some((members, after))) => {
                        if let Some((member, rest)) = members.split_first() {
                            *members = rest;
                            let raw = name(self.text, &self.plain, member.name);
                            string(Text { raw, escaped: false }, sink);
                            s.go(member.value.at as usize);
                            objects = member.value.objects;
                            break;
                        }
                        sink(b"}");
                        s.go(after.at as usize);
                        objects = after.objects;
                    }
                }
                open.pop();
            }
        }
    }
}

/// Sorts by a heap: it takes a twentieth of the code of `sort_unstable`, and no more than twice its steps
fn sort(members: &mut [Member], before: &mut dyn FnMut(&Member, &Member) -> bool) {
    for root in (0..members.len() / 2).rev() {
        sink(members, root, before);
    }
    for end in (1..members.len()).rev() {
        members.swap(0, end);
        sink(members.get_mut(..end).unwrap_or_default(), 0, before);
    }
}

/// Has a member change places with what stands under it in the heap, until none of that comes after it
fn sink(members: &mut [Member], mut at: usize, before: &mut dyn FnMut(&Member, &Member) -> bool) {
    while let (Some(member), Some(left)) = (members.get(at), members.get(2 * at + 1)) {
        let (mut under, mut last) = (2 * at + 1, left);
        if let Some(right) = members.get(under + 1).filter(|right| before(left, right)) {
            (under, last) = (under + 1, right);
        }
        if !before(member, last) {
            return;
        }
        members.swap(at, under);
        at = under;
    }
}

/// A position in the text, or a number of things in it
#[allow(clippy::cast_possible_truncation, reason = "the text is shorter than 2 GiB")]
const fn short(n: usize) -> u32 {
    n as u32
}

/// A name without its escapes
fn name<'a>(text: &'a [u8], plain: &'a [u8], span: Span) -> &'a [u8] {
    let (start, end) = (span.start as usize, span.end as usize);
    let behind = start.checked_sub(text.len()).zip(end.checked_sub(text.len()));
    match behind {
        Some((start, end)) => plain.get(start..end),
        None => text.get(start..end),
    }
    .unwrap_or_default()
}

fn string(text: Text<'_>, sink: &mut dyn FnMut(&[u8])) {
    sink(b"\"");
    sink(&text.bytes());
    sink(END);
}

/// A checked value that is neither string nor container
fn scalar(first: u8, text: &[u8], sink: &mut dyn FnMut(&[u8])) {
    match first {
        b'n' => sink(b"n"),
        b't' => sink(b"t"),
        b'f' => sink(b"f"),
        _ => number(text, sink),
    }
}

/// A checked number
fn number(text: &[u8], sink: &mut dyn FnMut(&[u8])) {
    let (sign, unsigned): (&[u8], _) = match text {
        [b'-', rest @ ..] => (b"-", rest),
        _ => (b"+", text),
    };
    let (mantissa, exponent) = cut(unsigned, |b| matches!(b, b'e' | b'E'));
    let (whole, fraction) = cut(mantissa, |b| b == b'.');
    let (mut whole, mut fraction) = (without_zeros_before(whole), without_zeros_behind(fraction));
    // Each digit behind the point lowers the exponent of the last one, each zero that is left out raises it.
    let mut shift = 0i64.saturating_sub_unsigned(fraction.len() as u64);
    if whole.is_empty() {
        fraction = without_zeros_before(fraction);
    }
    if fraction.is_empty() {
        let zeros = whole.len();
        whole = without_zeros_behind(whole);
        shift = 0i64.saturating_add_unsigned((zeros - whole.len()) as u64);
        if whole.is_empty() {
            return sink(b"0");
        }
    }
    match written(exponent) {
        Some(exponent) => {
            sink(sign);
            sink(whole);
            sink(fraction);
            if exponent + shift != 0 {
                sink(b"e");
                sink(itoa::Buffer::new().format(exponent + shift).as_bytes());
            }
        }
        None => {
            sink(b"~");
            sink(text);
        }
    }
    sink(END);
}

/// An exponent as it is written, zero where there is none; none where it is too long
fn written(exponent: &[u8]) -> Option<i64> {
    let (negative, digits) = match exponent {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let digits = without_zeros_before(digits);
    if digits.len() > MAX_EXPONENT {
        return None;
    }
    let size = digits.iter().fold(0, |n: i64, digit| n * 10 + i64::from(digit & 0xf));
    Some(if negative { -size } else { size })
}

/// What stands before and behind the first byte that `at` knows; nothing behind where there is none
fn cut(text: &[u8], at: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let mut parts = text.splitn(2, |b| at(*b));
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

fn without_zeros_before(mut digits: &[u8]) -> &[u8] {
    while let [b'0', rest @ ..] = digits {
        digits = rest;
    }
    digits
}

fn without_zeros_behind(mut digits: &[u8]) -> &[u8] {
    while let [rest @ .., b'0'] = digits {
        digits = rest;
    }
    digits
}

#[cfg(test)]
mod tests;
