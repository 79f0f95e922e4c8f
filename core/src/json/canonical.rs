//! Canonical form of a JSON value: one stream of bytes for all its spellings, as input of a hash (DESIGN-10).
//!
//! The stream ignores the order of members, escapes, white space, and the spelling of numbers (`1`, `1.0`, `10e-1`;
//! `-0` is `0`). Numbers are compared as decimals of any length, never as floating point. Every other difference
//! changes the stream: two different values never have the same one.
//!
//! - Members are sorted by the UTF-8 bytes of their unescaped names. Members with equal names are all kept, in the
//!   order of the text. The reader of the value decides which of them counts, so none of them may change unnoticed.
//! - A number whose exponent has more than 18 digits keeps its spelling, unless it is zero.
//!
//! Each value begins with a byte that names its kind. Strings and numbers end with a byte that never occurs in UTF-8.
//!
//! ```text
//! null n · true t · false f · zero 0 · [ values ] · { pairs of string and value }
//! string  " text ff
//! number  + or -, digits without zeros at either end, e and the exponent of the last digit if it is not 0, ff
//! number with too large an exponent  ~ its text ff
//! ```
//!
//! The first pass checks the text and builds a sorted index of its objects; the second pass writes. Neither recurses.
//! The work is bounded by the length of the text times the logarithm of the number of members. The index takes 16 bytes
//! per object and per member.
//!
//! The same passes write the JSON Canonicalization Scheme, which is another [`Spelling`] (`jcs`).

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::scan::{ScanError, Scanner, Span, StringToken};

/// Passes the canonical stream of the JSON value `text` to `sink`, piece by piece.
///
/// `text` must be UTF-8, as for every scan.
///
/// # Errors
///
/// [`ScanError`] if `text` is not JSON, or is 2 GiB or longer. Nothing was passed
/// to `sink` then.
pub(crate) fn canonical(text: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<(), ScanError> {
    canonical_counted(text, sink, &mut 0)
}

/// As [`canonical`], and adds the steps that it took to `count`.
fn canonical_counted(text: &[u8], sink: &mut dyn FnMut(&[u8]), count: &mut usize) -> Result<(), ScanError> {
    // A position counts through the text and then through `unescaped`, and has to fit a `Span`.
    if text.len() > (u32::MAX / 2) as usize {
        return Err(ScanError::Members(0));
    }
    let mut stream = HashStream(sink);
    ObjectIndex::build(text, &stream, count)?.write(&mut stream, count)
}

/// A canonical form: the order of its members, and how its parts are written.
pub(super) trait Spelling {
    /// Compares two unescaped names; members with equal names stay in the order of the text.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;
    /// Writes a bracket, or a comma or colon where JSON has one.
    fn punctuation(&mut self, mark: u8);
    fn string(&mut self, text: StringToken<'_>);
    /// Writes a checked value that is neither a string nor a container.
    fn scalar(&mut self, first: u8, text: &[u8]);
}

/// The stream of this module, which needs neither commas nor colons.
struct HashStream<'s>(&'s mut dyn FnMut(&[u8]));

impl Spelling for HashStream<'_> {
    #[inline]
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    #[inline]
    fn punctuation(&mut self, mark: u8) {
        if !matches!(mark, b',' | b':') {
            (self.0)(&[mark]);
        }
    }

    fn string(&mut self, text: StringToken<'_>) {
        (self.0)(b"\"");
        (self.0)(&text.unescaped());
        (self.0)(END_MARKER);
    }

    fn scalar(&mut self, first: u8, text: &[u8]) {
        match first {
            b'n' => (self.0)(b"n"),
            b't' => (self.0)(b"t"),
            b'f' => (self.0)(b"f"),
            _ => write_number(text, self.0),
        }
    }
}

const END_MARKER: &[u8] = &[0xff];

/// Maximum number of digits of an exponent in calculations; adding a text position to it still fits 64 bits.
const MAX_EXPONENT: usize = 18;

/// Index of all objects of a text.
pub(super) struct ObjectIndex<'a> {
    text: &'a [u8],
    /// Unescaped copies of the names that had escapes; a position beyond the text points into this buffer.
    unescaped: Vec<u8>,
    /// Objects in the order of their opening braces.
    objects: Vec<IndexedObject>,
    /// Members of all objects; those of one object are adjacent and sorted.
    members: Vec<IndexedMember>,
}

#[derive(Clone, Copy, Default)]
struct IndexedObject {
    /// Start of its members in [`ObjectIndex::members`].
    first: u32,
    last: u32,
    end: TextPosition,
}

#[derive(Clone, Copy)]
struct IndexedMember {
    name: Span,
    value: TextPosition,
}

/// A position in the text, and the number of objects that begin before it.
#[derive(Clone, Copy, Default)]
struct TextPosition {
    at: u32,
    objects: u32,
}

/// Containers whose ends have not been reached. The text of a call is nearly always one object, for which no stack is allocated.
struct OpenContainers<T> {
    innermost: Option<T>,
    around: Vec<T>,
}

impl<T> OpenContainers<T> {
    const fn new() -> Self {
        Self { innermost: None, around: Vec::new() }
    }

    fn push(&mut self, container: T) {
        self.around.extend(self.innermost.replace(container));
    }

    fn pop(&mut self) {
        self.innermost = self.around.pop();
    }
}

/// An object that is being written.
struct Members<'i> {
    rest: &'i [IndexedMember],
    is_first: bool,
    /// Position behind the object.
    after: TextPosition,
}

impl<'a> ObjectIndex<'a> {
    /// Checks the text and indexes its objects.
    pub(super) fn build<S: Spelling>(
        text: &'a [u8],
        spelling: &S,
        count: &mut usize,
    ) -> Result<Self, ScanError> {
        let mut index = Self { text, unescaped: Vec::new(), objects: Vec::new(), members: Vec::new() };
        let mut s = Scanner::trusted(text);
        // For an object: its number, and the start of its members among the pending ones.
        let mut open: OpenContainers<Option<(usize, usize)>> = OpenContainers::new();
        let mut pending: Vec<IndexedMember> = Vec::new();
        loop {
            *count += 1;
            let first = s.peek();
            if matches!(first, b'{' | b'[') {
                s.advance(1);
                let object = (first == b'{').then_some((index.objects.len(), pending.len()));
                open.push(object);
                if object.is_some() {
                    index.objects.push(IndexedObject::default());
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
            // A value has ended, or an empty container is before its closing bracket.
            loop {
                let Some(object) = open.innermost else {
                    return if s.is_at_end() { Ok(index) } else { s.fail() };
                };
                match (s.peek(), object) {
                    (b',', object) => {
                        s.advance(1);
                        if object.is_some() {
                            pending.push(index.member(&mut s)?);
                        }
                        break;
                    }
                    (b'}', Some((number, first))) => {
                        s.advance(1);
                        // Members of inner objects were drained when those ended, so all behind `first` are of this
                        // object.
                        index.close(number, pending.drain(first..), s.pos(), spelling, count);
                    }
                    (b']', None) => s.advance(1),
                    _ => return s.fail(),
                }
                open.pop();
            }
        }
    }

    /// Reads a name and its colon; the value follows.
    fn member(&mut self, s: &mut Scanner<'_>) -> Result<IndexedMember, ScanError> {
        let name = s.string()?;
        // The position is behind the closing quote.
        let end = s.pos() - 1;
        let name = if name.escaped {
            let start = self.text.len() + self.unescaped.len();
            self.unescaped.extend_from_slice(&name.unescaped());
            Span::new(start, self.text.len() + self.unescaped.len())
        } else {
            Span::new(end - name.raw.len(), end)
        };
        if s.peek() != b':' {
            return s.fail();
        }
        s.advance(1);
        Ok(IndexedMember { name, value: self.position(s.pos()) })
    }

    /// Indexes an object that ended before `end`.
    fn close<S: Spelling>(
        &mut self,
        number: usize,
        members: impl Iterator<Item = IndexedMember>,
        end: usize,
        spelling: &S,
        count: &mut usize,
    ) {
        let first = self.members.len();
        self.members.extend(members);
        let (text, plain) = (self.text, &self.unescaped);
        if let Some(members) = self.members.get_mut(first..) {
            heap_sort(members, &mut |a, b| {
                let (x, y) = (unescaped_name(text, plain, a.name), unescaped_name(text, plain, b.name));
                *count += 1 + x.len().min(y.len());
                // Equal names stay in the order of the text.
                spelling.compare(x, y).then(a.value.at.cmp(&b.value.at)).is_lt()
            });
        }
        let object =
            IndexedObject { first: to_u32(first), last: to_u32(self.members.len()), end: self.position(end) };
        if let Some(slot) = self.objects.get_mut(number) {
            *slot = object;
        }
    }

    fn position(&self, at: usize) -> TextPosition {
        TextPosition { at: to_u32(at), objects: to_u32(self.objects.len()) }
    }

    /// Returns the position of a value whose name another member of its object has, too.
    pub(super) fn duplicate(&self) -> Option<usize> {
        let name = |member: &IndexedMember| unescaped_name(self.text, &self.unescaped, member.name);
        self.objects.iter().find_map(|object| {
            let members = self.members.get(object.first as usize..object.last as usize)?;
            let mut pairs = members.iter().zip(members.iter().skip(1));
            pairs.find(|(a, b)| name(a) == name(b)).map(|(_, b)| b.value.at as usize)
        })
    }

    /// Writes the canonical form.
    pub(super) fn write<S: Spelling>(&self, to: &mut S, count: &mut usize) -> Result<(), ScanError> {
        let mut s = Scanner::trusted(self.text);
        let mut objects = 0;
        // An object with its remaining members, or `None` for an array.
        let mut open: OpenContainers<Option<Members<'_>>> = OpenContainers::new();
        loop {
            *count += 1;
            match s.peek() {
                b'{' => {
                    to.punctuation(b'{');
                    let object = self.objects.get(objects as usize).copied().unwrap_or_default();
                    let members = self.members.get(object.first as usize..object.last as usize);
                    objects += 1;
                    let rest = members.unwrap_or_default();
                    open.push(Some(Members { rest, is_first: true, after: object.end }));
                }
                b'[' => {
                    to.punctuation(b'[');
                    s.advance(1);
                    open.push(None);
                    if s.peek() != b']' {
                        continue;
                    }
                }
                b'"' => to.string(s.string()?),
                first => to.scalar(first, s.value()?.slice(self.text).unwrap_or_default()),
            }
            // A value has ended, or a container has begun that may be empty.
            loop {
                match &mut open.innermost {
                    None => return Ok(()),
                    Some(None) => {
                        let more = s.peek() == b',';
                        s.advance(1);
                        if more {
                            to.punctuation(b',');
                            break;
                        }
                        to.punctuation(b']');
                    }
                    Some(Some(Members { rest, is_first, after })) => {
                        if let Some((member, others)) = rest.split_first() {
                            *rest = others;
                            if !core::mem::take(is_first) {
                                to.punctuation(b',');
                            }
                            let raw = unescaped_name(self.text, &self.unescaped, member.name);
                            to.string(StringToken { raw, escaped: false });
                            to.punctuation(b':');
                            s.seek(member.value.at as usize);
                            // Objects are numbered in the order of the text, so a jump in the text sets their number as
                            // well.
                            objects = member.value.objects;
                            break;
                        }
                        to.punctuation(b'}');
                        s.seek(after.at as usize);
                        objects = after.objects;
                    }
                }
                open.pop();
            }
        }
    }
}

/// Sorts by a heap; this is a twentieth of the code of `sort_unstable` and takes at most twice as many steps.
fn heap_sort(members: &mut [IndexedMember], before: &mut dyn FnMut(&IndexedMember, &IndexedMember) -> bool) {
    for root in (0..members.len() / 2).rev() {
        sift_down(members, root, before);
    }
    for end in (1..members.len()).rev() {
        members.swap(0, end);
        sift_down(members.get_mut(..end).unwrap_or_default(), 0, before);
    }
}

/// Moves a member down in the heap until no child comes after it.
fn sift_down(
    members: &mut [IndexedMember],
    mut at: usize,
    before: &mut dyn FnMut(&IndexedMember, &IndexedMember) -> bool,
) {
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

/// Converts a text position, or a count of items in the text.
#[allow(clippy::cast_possible_truncation, reason = "the text is shorter than 2 GiB")]
const fn to_u32(n: usize) -> u32 {
    n as u32
}

/// Returns the unescaped name of a member.
fn unescaped_name<'a>(text: &'a [u8], plain: &'a [u8], span: Span) -> &'a [u8] {
    let (start, end) = (span.start as usize, span.end as usize);
    let behind = start.checked_sub(text.len()).zip(end.checked_sub(text.len()));
    match behind {
        Some((start, end)) => plain.get(start..end),
        None => text.get(start..end),
    }
    .unwrap_or_default()
}

/// Writes a checked number.
fn write_number(text: &[u8], sink: &mut dyn FnMut(&[u8])) {
    let (sign, unsigned): (&[u8], _) = match text {
        [b'-', rest @ ..] => (b"-", rest),
        _ => (b"+", text),
    };
    let (mantissa, exponent) = split_at_match(unsigned, |b| matches!(b, b'e' | b'E'));
    let (whole, fraction) = split_at_match(mantissa, |b| b == b'.');
    let (mut whole, mut fraction) = (trim_leading_zeros(whole), trim_trailing_zeros(fraction));
    // Each digit behind the point lowers the exponent of the last digit; each zero that is dropped raises it.
    let mut shift = 0i64.saturating_sub_unsigned(fraction.len() as u64);
    if whole.is_empty() {
        fraction = trim_leading_zeros(fraction);
    }
    if fraction.is_empty() {
        let zeros = whole.len();
        whole = trim_trailing_zeros(whole);
        shift = 0i64.saturating_add_unsigned((zeros - whole.len()) as u64);
        if whole.is_empty() {
            return sink(b"0");
        }
    }
    match parse_exponent(exponent) {
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
            // An exponent of this size is not computed, so the number stands as it is spelled.
            sink(b"~");
            sink(text);
        }
    }
    sink(END_MARKER);
}

/// Parses an exponent: 0 if it is absent, `None` if it exceeds [`MAX_EXPONENT`] digits.
fn parse_exponent(exponent: &[u8]) -> Option<i64> {
    let (negative, digits) = match exponent {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let digits = trim_leading_zeros(digits);
    if digits.len() > MAX_EXPONENT {
        return None;
    }
    let size = digits.iter().fold(0, |n: i64, digit| n * 10 + i64::from(digit & 0xf));
    Some(if negative { -size } else { size })
}

/// Splits around the first byte that matches `at`; without a match the second part is empty.
fn split_at_match(text: &[u8], at: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let mut parts = text.splitn(2, |b| at(*b));
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

fn trim_leading_zeros(mut digits: &[u8]) -> &[u8] {
    while let [b'0', rest @ ..] = digits {
        digits = rest;
    }
    digits
}

fn trim_trailing_zeros(mut digits: &[u8]) -> &[u8] {
    while let [rest @ .., b'0'] = digits {
        digits = rest;
    }
    digits
}

#[cfg(test)]
mod tests;
