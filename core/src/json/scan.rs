//! Strict scanner of JSON text (RFC 8259) over borrowed bytes.
//!
//! It checks the whole grammar: numbers, escapes, control characters and surrogate pairs. It builds no tree and never
//! recurses; one bit per level stores the kind of each open container, and one byte beyond 128 levels. The text must be
//! valid UTF-8, which the caller checks.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::convert::Infallible;

use super::member_names::MemberNames;
use super::swar::plain_prefix;

/// Maximum nesting depth of text that is decoded by type, that of `serde_json`, which recurses.
pub(crate) const MAX_DEPTH: u32 = 128;

/// Kinds of the open containers, the innermost last; true for an object.
trait ContainerKinds {
    fn push(&mut self, is_object: bool);
    fn pop(&mut self);
    fn is_object(&self) -> bool;
    /// Returns whether there is room for one more than `open` containers.
    fn has_room(&self, open: u32) -> bool;
}

/// One bit per level, for nesting that is not deeper than 128.
impl ContainerKinds for u128 {
    #[inline]
    fn push(&mut self, is_object: bool) {
        *self = *self << 1 | Self::from(is_object);
    }

    #[inline]
    fn pop(&mut self) {
        *self >>= 1;
    }

    #[inline]
    fn is_object(&self) -> bool {
        *self & 1 == 1
    }

    #[inline]
    fn has_room(&self, open: u32) -> bool {
        open < Self::BITS
    }
}

/// One byte per level, for any nesting.
impl ContainerKinds for Vec<bool> {
    fn push(&mut self, is_object: bool) {
        Self::push(self, is_object);
    }

    fn pop(&mut self) {
        Self::pop(self);
    }

    fn is_object(&self) -> bool {
        self.last().is_some_and(|is_object| *is_object)
    }

    fn has_room(&self, _: u32) -> bool {
        true
    }
}

/// Reason why a text was refused, with the byte position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScanError {
    /// The text is not JSON.
    Syntax(usize),
    /// The nesting exceeds the limit.
    Depth(usize),
    /// An object has two members with the same name.
    Duplicate(usize),
    /// An object has more members than the limit.
    Members(usize),
}

impl ScanError {
    /// Returns the byte position of the error.
    pub(crate) const fn offset(self) -> usize {
        match self {
            Self::Syntax(at) | Self::Depth(at) | Self::Duplicate(at) | Self::Members(at) => at,
        }
    }
}

/// Range of bytes in a frame. An empty span means absent, because no JSON value is empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    /// Creates a span. Positions fit, because frames are shorter than 4 GiB (`Limits::max_frame`).
    #[allow(clippy::cast_possible_truncation, reason = "frames are shorter than 4 GiB")]
    #[inline]
    pub(crate) const fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Returns the bytes of the span, or `None` if it is absent.
    #[inline]
    pub(crate) fn slice(self, frame: &[u8]) -> Option<&[u8]> {
        if self.is_empty() { None } else { frame.get(self.start as usize..self.end as usize) }
    }

    pub(crate) const fn shifted(self, by: u32) -> Self {
        if self.is_empty() {
            self
        } else {
            Self { start: self.start.wrapping_add(by), end: self.end.wrapping_add(by) }
        }
    }
}

/// Content of a string, as it is spelled in the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StringToken<'a> {
    pub(crate) raw: &'a [u8],
    pub(crate) escaped: bool,
}

impl<'a> StringToken<'a> {
    /// Returns the unescaped bytes.
    #[inline]
    pub(crate) fn unescaped(self) -> Cow<'a, [u8]> {
        if self.escaped { Cow::Owned(unescape(self.raw)) } else { Cow::Borrowed(self.raw) }
    }

    /// Returns the unescaped text, or `None` if it is not UTF-8.
    #[inline]
    pub(crate) fn into_str(self) -> Option<Cow<'a, str>> {
        match self.unescaped() {
            Cow::Borrowed(bytes) => core::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Cow::Owned(bytes) => alloc::string::String::from_utf8(bytes).ok().map(Cow::Owned),
        }
    }
}

/// Members of an object that its reader knows by name.
pub(crate) trait KnownMember: Copy {
    /// Returns the member with an unescaped name.
    fn by_name(name: &[u8]) -> Option<Self>;
    /// Returns the place of the member among those that are known, below 32.
    fn index(self) -> u32;
}

/// No member is known.
impl KnownMember for Infallible {
    fn by_name(_: &[u8]) -> Option<Self> {
        None
    }

    fn index(self) -> u32 {
        match self {}
    }
}

#[derive(Clone)]
pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    pos: usize,
    depth: u32,
    max_depth: u32,
    max_members: u32,
}

type ScannerResult<T> = Result<T, ScanError>;

impl<'a> Scanner<'a> {
    pub(crate) const fn new(text: &'a [u8], max_depth: u32, max_members: u32) -> Self {
        Self { text, pos: 0, depth: 0, max_depth, max_members }
    }

    /// Creates a scanner for text that was checked before.
    pub(crate) const fn trusted(text: &'a [u8]) -> Self {
        Self::new(text, u32::MAX, u32::MAX)
    }

    pub(crate) const fn pos(&self) -> usize {
        self.pos
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.text.get(self.pos..).unwrap_or_default()
    }

    pub(crate) const fn advance(&mut self, by: usize) {
        self.pos += by;
    }

    /// Moves to a position that was reached before.
    pub(super) const fn seek(&mut self, pos: usize) {
        self.pos = pos;
    }

    pub(crate) const fn fail<T>(&self) -> ScannerResult<T> {
        Err(ScanError::Syntax(self.pos))
    }

    /// Skips white space and returns the next byte, or 0 at the end. No JSON token starts with 0.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(crate) fn peek(&mut self) -> u8 {
        match self.text.get(self.pos) {
            Some(b) if *b > b' ' => *b,
            _ => self.peek_slow(),
        }
    }

    #[inline(never)]
    fn peek_slow(&mut self) -> u8 {
        loop {
            match self.text.get(self.pos) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.pos += 1,
                Some(b) => return *b,
                None => return 0,
            }
        }
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn byte(&self) -> u8 {
        self.text.get(self.pos).copied().unwrap_or(0)
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(super) fn expect_byte(&mut self, byte: u8) -> ScannerResult<()> {
        if self.peek() != byte {
            return self.fail();
        }
        self.pos += 1;
        Ok(())
    }

    /// Returns whether only white space is left.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.peek();
        self.pos >= self.text.len()
    }

    /// Scans a string; the position is then behind its closing quote.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(crate) fn string(&mut self) -> ScannerResult<StringToken<'a>> {
        let first = self.peek();
        self.string_from(first)
    }

    /// Scans a string at the position, where `first` is.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(crate) fn string_from(&mut self, first: u8) -> ScannerResult<StringToken<'a>> {
        if first != b'"' {
            return self.fail();
        }
        self.pos += 1;
        let rest = self.rest();
        let length = plain_prefix(rest);
        if let Some((raw, [b'"', ..])) = rest.split_at_checked(length) {
            self.pos += length + 1;
            return Ok(StringToken { raw, escaped: false });
        }
        self.string_with_escapes(length)
    }

    /// Scans a string whose first escape, or unexpected end, is `length` bytes behind the position.
    #[cold]
    #[inline(never)]
    fn string_with_escapes(&mut self, length: usize) -> ScannerResult<StringToken<'a>> {
        let start = self.pos;
        self.pos += length;
        loop {
            match self.byte() {
                b'"' => {
                    let raw = self.text.get(start..self.pos).unwrap_or_default();
                    self.pos += 1;
                    return Ok(StringToken { raw, escaped: true });
                }
                b'\\' => {
                    self.pos += 1;
                    self.escape()?;
                }
                _ => return self.fail(),
            }
            self.pos += plain_prefix(self.rest());
        }
    }

    fn escape(&mut self) -> ScannerResult<()> {
        let kind = self.byte();
        self.pos += 1;
        match kind {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(()),
            b'u' => match self.hex4()? {
                0xD800..=0xDBFF => {
                    if !self.rest().starts_with(b"\\u") {
                        return self.fail();
                    }
                    self.pos += 2;
                    if matches!(self.hex4()?, 0xDC00..=0xDFFF) { Ok(()) } else { self.fail() }
                }
                // A surrogate without its other half has no form in UTF-8.
                0xDC00..=0xDFFF => self.fail(),
                _ => Ok(()),
            },
            _ => self.fail(),
        }
    }

    fn hex4(&mut self) -> ScannerResult<u32> {
        let mut value = 0;
        for _ in 0..4 {
            let Some(digit) = (self.byte() as char).to_digit(16) else { return self.fail() };
            value = value << 4 | digit;
            self.pos += 1;
        }
        Ok(value)
    }

    fn digits(&mut self) -> ScannerResult<()> {
        let start = self.pos;
        while self.byte().is_ascii_digit() {
            self.pos += 1;
        }
        if self.pos == start { self.fail() } else { Ok(()) }
    }

    pub(super) fn number(&mut self) -> ScannerResult<()> {
        if self.byte() == b'-' {
            self.pos += 1;
        }
        // JSON has no leading zeros: a digit behind this one fails as the next token.
        if self.byte() == b'0' {
            self.pos += 1;
        } else {
            self.digits()?;
        }
        if self.byte() == b'.' {
            self.pos += 1;
            self.digits()?;
        }
        if matches!(self.byte(), b'e' | b'E') {
            self.pos += 1;
            if matches!(self.byte(), b'+' | b'-') {
                self.pos += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    pub(super) fn literal(&mut self, word: &[u8]) -> ScannerResult<()> {
        if !self.rest().starts_with(word) {
            return self.fail();
        }
        self.pos += word.len();
        Ok(())
    }

    /// Scans a value that is not a container.
    #[inline]
    fn scalar(&mut self, first: u8) -> ScannerResult<()> {
        match first {
            b'"' => self.string_from(first).map(|_| ()),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            _ => self.fail(),
        }
    }

    #[inline]
    fn enter(&mut self) -> ScannerResult<()> {
        if self.depth >= self.max_depth {
            return Err(ScanError::Depth(self.pos));
        }
        self.depth += 1;
        self.pos += 1;
        Ok(())
    }

    /// Scans any value and returns its span.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(crate) fn value(&mut self) -> ScannerResult<Span> {
        let first = self.peek();
        let start = self.pos;
        if matches!(first, b'{' | b'[') {
            self.container()?;
        } else {
            self.scalar(first)?;
        }
        Ok(Span::new(start, self.pos))
    }

    /// Scans a value that is nested at most `max_depth` deep, whatever is around it.
    pub(super) fn value_within(&mut self, max_depth: u32) -> ScannerResult<Span> {
        let around = (self.depth, self.max_depth);
        (self.depth, self.max_depth) = (0, max_depth);
        let span = self.value();
        (self.depth, self.max_depth) = around;
        span
    }

    /// Scans an object or an array with its content.
    fn container(&mut self) -> ScannerResult<()> {
        self.container_with(0u128)
    }

    /// Scans a container inside 128 others.
    #[cold]
    #[inline(never)]
    fn deep_container(&mut self) -> ScannerResult<()> {
        self.container_with(Vec::new())
    }

    #[inline]
    fn container_with<K: ContainerKinds>(&mut self, mut kinds: K) -> ScannerResult<()> {
        let base = self.depth;
        loop {
            match self.peek() {
                // A `u128` has no bit for another level. The scan that begins here has no such bound, so there are two
                // calls at most.
                b'{' | b'[' if !kinds.has_room(self.depth - base) => self.deep_container()?,
                b'{' => {
                    self.enter()?;
                    kinds.push(true);
                    let first = self.peek();
                    if first != b'}' {
                        self.string_from(first)?;
                        self.expect_byte(b':')?;
                        continue;
                    }
                }
                b'[' => {
                    self.enter()?;
                    kinds.push(false);
                    if self.peek() != b']' {
                        continue;
                    }
                }
                first => self.scalar(first)?,
            }
            // A value has ended, or an empty container is before its closing bracket.
            loop {
                if self.depth == base {
                    return Ok(());
                }
                let object = kinds.is_object();
                match self.peek() {
                    b',' => {
                        // Behind an opening bracket only the closing one gets here, so this comma follows a value.
                        self.pos += 1;
                        if object {
                            self.string()?;
                            self.expect_byte(b':')?;
                        }
                        break;
                    }
                    b'}' if object => {}
                    b']' if !object => {}
                    _ => return self.fail(),
                }
                self.pos += 1;
                self.depth -= 1;
                kinds.pop();
            }
        }
    }

    /// Scans an object; `each` receives the name of each member and must scan its value.
    ///
    /// # Errors
    ///
    /// [`ScanError::Duplicate`] if two names are equal, and any error of the grammar or the limits.
    #[inline]
    pub(crate) fn object(
        &mut self,
        mut each: impl FnMut(&mut Self, StringToken<'a>) -> ScannerResult<()>,
    ) -> ScannerResult<Span> {
        self.object_of(|s, _: Option<Infallible>, name| each(s, name))
    }

    /// Scans an object as [`object`](Self::object) does; `each` receives a member that `M` knows as what it is.
    #[inline]
    pub(crate) fn object_of<M: KnownMember>(
        &mut self,
        mut each: impl FnMut(&mut Self, Option<M>, StringToken<'a>) -> ScannerResult<()>,
    ) -> ScannerResult<Span> {
        let start = self.pos;
        if self.peek() != b'{' {
            return self.fail();
        }
        let begin = self.pos;
        self.enter()?;
        if self.peek() == b'}' {
            self.pos += 1;
            self.depth -= 1;
            return Ok(Span::new(begin, self.pos));
        }
        // A bit for each known member that was there. Only other names have to be compared with each other.
        let (mut known, mut known_count) = (0u32, 0usize);
        let mut others = MemberNames::default();
        loop {
            let first = self.peek();
            let at = self.pos;
            let name = self.string_from(first)?;
            let member = if name.escaped { M::by_name(&name.unescaped()) } else { M::by_name(name.raw) };
            let is_new = match member {
                Some(member) => {
                    let bit = 1 << (member.index() & 31);
                    let is_new = known & bit == 0;
                    known |= bit;
                    known_count += 1;
                    is_new
                }
                None => others.insert(self.text, at, name),
            };
            if !is_new {
                return Err(ScanError::Duplicate(at));
            }
            if others.len().saturating_add(known_count) > self.max_members as usize {
                return Err(ScanError::Members(at));
            }
            self.expect_byte(b':')?;
            each(self, member, name)?;
            match self.peek() {
                b',' => self.pos += 1,
                b'}' => break,
                _ => return self.fail(),
            }
        }
        self.pos += 1;
        self.depth -= 1;
        // Many names are compared once, by sorting: a comparison with each earlier name would take quadratic time.
        if others.all_differ() { Ok(Span::new(begin, self.pos)) } else { Err(ScanError::Duplicate(start)) }
    }

    /// Scans an object as [`object`](Self::object) does; compiled once, for callers where speed does not matter.
    pub(crate) fn members(
        &mut self,
        each: &mut dyn FnMut(&mut Self, StringToken<'a>) -> ScannerResult<()>,
    ) -> ScannerResult<Span> {
        self.object(|s, name| each(s, name))
    }

    /// Scans an array; `each` must scan each element.
    pub(crate) fn array(
        &mut self,
        mut each: impl FnMut(&mut Self) -> ScannerResult<()>,
    ) -> ScannerResult<()> {
        if self.peek() != b'[' {
            return self.fail();
        }
        self.enter()?;
        if self.peek() == b']' {
            self.pos += 1;
            self.depth -= 1;
            return Ok(());
        }
        loop {
            each(self)?;
            match self.peek() {
                b',' => self.pos += 1,
                b']' => break,
                _ => return self.fail(),
            }
        }
        self.pos += 1;
        self.depth -= 1;
        Ok(())
    }
}

/// Calls `each` for the members of a checked object in order; does nothing for any other value.
///
/// Returns whether it is an object without a name that occurs twice.
pub(crate) fn object_members<'a>(text: &'a [u8], mut each: impl FnMut(&[u8], &'a [u8])) -> bool {
    /// Compiled once for all callers.
    fn walk<'a>(text: &'a [u8], each: &mut dyn FnMut(&[u8], &'a [u8])) -> bool {
        let scanned = Scanner::trusted(text).members(&mut |s, name| {
            let span = s.value()?;
            each(&name.unescaped(), span.slice(text).unwrap_or_default());
            Ok(())
        });
        scanned.is_ok()
    }
    walk(text, &mut each)
}

/// Returns a member of a checked object: the last one with its name.
pub(crate) fn member<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut found = None;
    object_members(object, |other, value| {
        if other == name.as_bytes() {
            found = Some(value);
        }
    });
    found
}

/// Resolves the escapes of a checked string.
pub(crate) fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    loop {
        let (plain, tail) = rest.split_at_checked(plain_prefix(rest)).unwrap_or((rest, &[]));
        out.extend_from_slice(plain);
        let [b'\\', kind, tail @ ..] = tail else { return out };
        rest = tail;
        match kind {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let mut code = take_hex4(&mut rest).unwrap_or(0xFFFD);
                if (0xD800..0xDC00).contains(&code) {
                    // The scanner has checked that `\u` and the low surrogate follow.
                    rest = rest.get(2..).unwrap_or_default();
                    let low = take_hex4(&mut rest).unwrap_or(0xDC00);
                    code = 0x10000 + ((code - 0xD800) << 10) + (low.wrapping_sub(0xDC00) & 0x3FF);
                }
                let char = char::from_u32(code).unwrap_or('\u{FFFD}');
                out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
            }
            other => out.push(*other),
        }
    }
}

fn take_hex4(rest: &mut &[u8]) -> Option<u32> {
    let (hex, tail) = rest.split_at_checked(4)?;
    *rest = tail;
    hex.iter().try_fold(0u32, |v, b| Some(v << 4 | (*b as char).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    fn scan(text: &str) -> ScannerResult<()> {
        let mut s = Scanner::new(text.as_bytes(), 16, 1000);
        s.value()?;
        if s.is_at_end() { Ok(()) } else { s.fail() }
    }

    #[test]
    fn scanner_accepts_same_texts_as_serde_json() {
        let cases = [
            "0",
            "-0",
            "01",
            "1.",
            "1.5e+3",
            "1e",
            "-",
            ".5",
            "true",
            "tru",
            "truex",
            "null ",
            "nul",
            "\"\"",
            "\"a\\nb\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\ud800\"",
            "\"\\ud83d\\ude00\"",
            "\"\\ud800\\u0041\"",
            "\"\\udc00\"",
            "\"\u{1}\"",
            "\"",
            "{}",
            "{ }",
            "[]",
            "[ 1 , 2 ]",
            "[1,]",
            "[,]",
            "{\"a\":1,}",
            "{\"a\" 1}",
            "{a:1}",
            "{\"a\":{\"b\":[{},[],[[]]]}}",
            "[}",
            "{]",
            "[1 2]",
            "{\"a\":1 \"b\":2}",
            "",
            " ",
            "[[]",
            "[]]",
            "\u{feff}1",
            "{\"a\":[1,{\"b\":null}],\"c\":\"d\"}",
            "1 2",
            "[1}",
            "{\"a\":1]",
            "{,}",
            "[\"a\",\"b\"]",
            "NaN",
            "[-]",
        ];
        for text in cases {
            let want = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
                && serde_json::from_str::<serde_json::Value>(text).is_ok();
            assert_eq!(scan(text).is_ok(), want, "{text:?}");
        }
    }

    #[test]
    fn nesting_beyond_limit_is_refused_without_recursion() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert_eq!(scan(&nested(16)), Ok(()));
        assert_eq!(scan(&nested(17)), Err(ScanError::Depth(16)));
        assert_eq!(scan(&"[{\"a\":".repeat(1_000_000)), Err(ScanError::Depth(48)));
        // Beyond the first 128 levels as before them.
        for (n, limit) in [(127, 127), (128, 128), (129, 129), (300, 300), (100_000, 100_000)] {
            for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
                let text = format!("{}1{}", open.repeat(n), close.repeat(n));
                let scan = |limit| Scanner::new(text.as_bytes(), limit, 9).value();
                assert_eq!(scan(limit).map(|span| span.end as usize), Ok(text.len()));
                assert_eq!(scan(limit - 1), Err(ScanError::Depth(open.len() * (n - 1))));
                for broken in [text.replacen("1", "", 1) + ",", text.replacen(close, "]}", 1)] {
                    let mut s = Scanner::new(broken.as_bytes(), limit + 9, 9);
                    assert!(s.value().is_err() || !s.is_at_end(), "{n} {open}");
                }
            }
        }
        let mixed = format!("{}7{}", "[{\"a\":".repeat(200), "}]".repeat(200));
        assert!(Scanner::new(mixed.as_bytes(), 400, 9).value().is_ok());
        assert!(Scanner::new(mixed.replace("}]}]}]", "}]]}}]").as_bytes(), 400, 9).value().is_err());
        // The depth of siblings does not add up.
        assert_eq!(scan(&format!("[{}[]]", "[[]],".repeat(100))), Ok(()));
    }

    #[test]
    fn object_scan_reports_members_and_refuses_duplicates() {
        let names = |text: &str| {
            let mut seen = String::new();
            Scanner::new(text.as_bytes(), 16, 3)
                .object(|s, n| {
                    seen.push_str(core::str::from_utf8(n.raw).unwrap_or("?"));
                    s.value().map(|_| ())
                })
                .map(|_| seen)
        };
        assert_eq!(names(r#" {"a":1,"b":{"a":2}} "#).as_deref(), Ok("ab"));
        assert_eq!(names(r#"{"a":1,"a":2}"#), Err(ScanError::Duplicate(7)));
        assert!(matches!(names(r#"{"a":1,"\u0061":2}"#), Err(ScanError::Duplicate(_))));
        assert!(matches!(names(r#"{"a":1,"b":1,"c":1,"d":1}"#), Err(ScanError::Members(_))));
    }

    #[test]
    fn unescape_agrees_with_serde_json() {
        for raw in ["plain", "a\\n\\t\\\"\\\\\\/", "\\u00e9\\ud83d\\ude00z", "é\\u0000"] {
            let want: String = serde_json::from_str(&format!("\"{raw}\"")).unwrap_or_default();
            assert_eq!(unescape(raw.as_bytes()), want.as_bytes());
        }
    }

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Digit(u32);

    impl KnownMember for Digit {
        fn by_name(name: &[u8]) -> Option<Self> {
            Some(Self((*name.first()? as char).to_digit(10)?))
        }

        fn index(self) -> u32 {
            self.0
        }
    }

    #[test]
    fn member_limit_counts_members_that_are_known_and_others() {
        let scan = |text: &str| {
            let mut known = Vec::new();
            let scanned = Scanner::new(text.as_bytes(), 16, 3).object_of(|s, member: Option<Digit>, _| {
                known.extend(member.map(|digit| digit.0));
                s.value().map(|_| ())
            });
            scanned.map(|span| (span.end as usize == text.len(), known))
        };
        for (text, known) in [
            (r#"{"a":1,"b":2,"c":3}"#, &[][..]),
            (r#"{"1":1,"0":2,"\u0039":3}"#, &[1, 0, 9]),
            (r#"{"1":1,"b":2,"2":3}"#, &[1, 2]),
        ] {
            assert_eq!(scan(text), Ok((true, known.to_vec())), "{text}");
            for more in [r#","x":1}"#, r#","7":1}"#] {
                let text = text.replace('}', more);
                assert_eq!(scan(&text), Err(ScanError::Members(text.len() - 6)), "{text}");
            }
        }
        assert_eq!(scan(r#"{"1":1,"\u0031":2}"#), Err(ScanError::Duplicate(7)));
    }

    #[test]
    fn depth_of_siblings_does_not_add_up_in_any_scan() {
        fn object(s: &mut Scanner<'_>) -> ScannerResult<()> {
            s.object(|s, _| if s.peek() == b'{' { object(s) } else { array(s) }).map(|_| ())
        }
        fn array(s: &mut Scanner<'_>) -> ScannerResult<()> {
            s.array(|s| if s.peek() == b'{' { object(s) } else { array(s) })
        }
        for (sibling, depth) in [("{}", 1), ("[]", 1), (r#"{"a":{}}"#, 2), (r#"{"a":[]}"#, 2), ("[[],{}]", 2)]
        {
            let text = format!("[{sibling},{sibling},{sibling}]");
            let scan = |max_depth| array(&mut Scanner::new(text.as_bytes(), max_depth, 9));
            assert_eq!(scan(depth + 1), Ok(()), "{text}");
            assert!(matches!(scan(depth), Err(ScanError::Depth(_))), "{text}");
        }
    }
}
