//! Request ids and progress tokens: echoed in their original spelling, compared by value.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use crate::json::{unescape, write_int};

/// Id of a request: a string or an integer (BASE-003, BASE-004).
///
/// An id keeps the spelling of the peer, because the answer repeats it (BASE-008). Two ids are equal if their values
/// are: `1.0` is `1` and `"\u0061"` is `"a"`, but `1` is not `"1"` (DEC-013). Progress tokens have the same form
/// (PROG-003).
#[derive(Clone)]
pub struct RequestId(Repr);

#[derive(Clone)]
enum Repr {
    /// An integer in its shortest spelling.
    Int(i64),
    /// JSON text: a string with its quotes, or an integer in another spelling.
    Text(Box<str>),
}

/// Value of an id.
enum IdValue<'a> {
    Int(i64),
    Plain(&'a [u8]),
    Escaped(Vec<u8>),
}

impl RequestId {
    /// Creates an integer id.
    #[must_use]
    pub const fn int(value: i64) -> Self {
        Self(Repr::Int(value))
    }

    /// Returns what stands in the place of an id that could not be read (DEC-004). It is no id of a request.
    pub(crate) fn null() -> Self {
        Self(Repr::Text("null".into()))
    }

    /// Decodes an id from checked JSON text.
    ///
    /// Returns `None` if the text is neither a string nor an integer that fits 64 bits, or is longer than `max` bytes.
    pub(crate) fn from_json(text: &[u8], max: usize) -> Option<Self> {
        if text.len() > max {
            return None;
        }
        if let Some(int) = parse_small(text) {
            return Some(Self(Repr::Int(int)));
        }
        let text = core::str::from_utf8(text).ok()?;
        match text.as_bytes() {
            [b'"', ..] => Some(Self(Repr::Text(text.into()))),
            // It equals 0 and has to return as it was spelled (DEC-013).
            b"-0" => Some(Self(Repr::Text(text.into()))),
            [b'-' | b'0'..=b'9', ..] => match text.parse() {
                Ok(int) => Some(Self(Repr::Int(int))),
                Err(_) => parse_integral(text).map(|_| Self(Repr::Text(text.into()))),
            },
            _ => None,
        }
    }

    /// Appends the id as JSON.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Repr::Int(int) => write_int(out, *int),
            Repr::Text(text) => out.extend_from_slice(text.as_bytes()),
        }
    }

    /// Returns the value of an integer id, or `None` for a string.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self.value() {
            IdValue::Int(int) => Some(int),
            _ => None,
        }
    }

    fn value(&self) -> IdValue<'_> {
        match &self.0 {
            Repr::Int(int) => IdValue::Int(*int),
            Repr::Text(text) => match text.as_bytes() {
                [b'"', inner @ .., b'"'] if inner.contains(&b'\\') => IdValue::Escaped(unescape(inner)),
                [b'"', inner @ .., b'"'] => IdValue::Plain(inner),
                _ => IdValue::Int(parse_integral(text).unwrap_or(0)),
            },
        }
    }

    /// Compares ids of which at least one is text.
    #[inline(never)]
    fn cmp_values(&self, other: &Self) -> Ordering {
        let (a, b) = (self.value(), other.value());
        match (&a, &b) {
            (IdValue::Int(a), IdValue::Int(b)) => a.cmp(b),
            (IdValue::Int(_), _) => Ordering::Less,
            (_, IdValue::Int(_)) => Ordering::Greater,
            _ => a.bytes().cmp(b.bytes()),
        }
    }

    /// Returns the number of heap bytes that the id owns.
    #[cfg(test)]
    fn heap_size(&self) -> usize {
        match &self.0 {
            Repr::Int(_) => 0,
            Repr::Text(text) => text.len(),
        }
    }
}

/// Parses a non-negative integer of few digits, the form of almost all ids.
#[inline]
fn parse_small(text: &[u8]) -> Option<i64> {
    // Fifteen digits fit an `i64`, so the sum needs no check.
    if text.is_empty() || text.len() > 15 {
        return None;
    }
    text.iter().try_fold(0i64, |value, b| b.is_ascii_digit().then(|| value * 10 + i64::from(b - b'0')))
}

/// Parses a number with a fraction or an exponent whose value is an integer up to 2^53, the exact range of floats.
///
/// This is hand-written, because parsing floats needs tables as large as the whole router.
fn parse_integral(text: &str) -> Option<i64> {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let split = text.bytes().position(|b| matches!(b, b'e' | b'E'));
    let (number, exponent) =
        split.and_then(|at| Some((text.get(..at)?, text.get(at + 1..)?))).unwrap_or((text, "0"));
    let mut value = 0u64;
    // Zeros are counted until another digit follows; trailing zeros are not part of `value`.
    let mut zeros = 0u32;
    let mut fraction = None;
    for byte in number.bytes() {
        if byte == b'.' {
            fraction = Some(0i64);
            continue;
        }
        fraction = fraction.map(|digits| digits + 1);
        zeros += 1;
        let digit = u64::from(byte.wrapping_sub(b'0'));
        if digit != 0 {
            value = append_zeros(value, zeros)? + digit; // cannot overflow: at most 2^53 and a digit
            zeros = 0;
        }
    }
    if value == 0 {
        return Some(0);
    }
    let shift = i64::from(exponent.parse::<i32>().ok()?) + i64::from(zeros) - fraction.unwrap_or(0);
    // A negative shift leaves a fraction, which is no id.
    let value = i64::try_from(append_zeros(value, shift.try_into().ok()?)?).ok()?;
    Some(if negative { -value } else { value })
}

/// Multiplies a value by ten `zeros` times, or returns `None` beyond 2^53.
fn append_zeros(mut value: u64, zeros: u32) -> Option<u64> {
    // A value above zero passes the bound within 17 turns, however many zeros there are.
    for _ in 0..if value == 0 { 0 } else { zeros } {
        if value > 1 << 53 {
            return None;
        }
        value *= 10;
    }
    (value <= 1 << 53).then_some(value)
}

impl Ord for RequestId {
    // A search of an index compares many integers. A small program has one copy.
    #[cfg_attr(target_pointer_width = "64", inline)]
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Repr::Int(a), Repr::Int(b)) => a.cmp(b),
            _ => self.cmp_values(other),
        }
    }
}

impl IdValue<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Int(_) => &[],
            Self::Plain(b) => b,
            Self::Escaped(b) => b,
        }
    }
}

impl PartialOrd for RequestId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RequestId {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for RequestId {}

/// Writes the JSON text of the id.
impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Int(int) => int.fmt(f),
            Repr::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn id(text: &str) -> Option<RequestId> {
        RequestId::from_json(text.as_bytes(), 64)
    }

    // covers: BASE-003, BASE-004, BASE-008
    #[test]
    fn id_is_string_or_integer_and_keeps_spelling() {
        for text in ["1", "0", "-0", "-7", "1.0", "1e3", "\"\"", "\"a\\u0062\"", "9223372036854775807"] {
            assert_eq!(id(text).expect(text).to_string(), text);
            assert_eq!(alloc::format!("{:?}", id(text).expect(text)), text);
        }
        for text in ["1.5", "null", "true", "{}", "[1]", "9223372036854775808", "1e400", "1e19", "1e-1"] {
            assert!(id(text).is_none(), "{text}");
        }
        assert!(RequestId::from_json(b"\"12345\"", 6).is_none(), "longer than the limit");
    }

    #[test]
    fn ids_compare_by_value() {
        assert_eq!(id("1"), id("1.0"));
        for (text, int) in [("-1200e-2", -12), ("0.120e3", 120), ("0e-9", 0), ("9007199254740992.0", 1 << 53)]
        {
            assert_eq!(id(text).and_then(|id| id.as_int()), Some(int), "{text}");
        }
        for text in ["9007199254740993.0", "1.0000000000000000001", "0.5e0", "12e-2", "1e99999999999"] {
            assert!(id(text).is_none(), "{text}");
        }
        assert_eq!(id("0"), id("-0"));
        assert_eq!(id("1000"), id("1e3"));
        assert_eq!(id("\"a\""), id("\"\\u0061\""));
        assert_ne!(id("1"), id("\"1\""));
        let mut ids: Vec<_> = ["\"b\"", "2", "\"\\u0061\"", "-1"].into_iter().filter_map(id).collect();
        ids.sort();
        let text: Vec<_> = ids.iter().map(ToString::to_string).collect();
        assert_eq!(text, ["-1", "2", "\"\\u0061\"", "\"b\""]);
    }

    #[test]
    fn integer_id_does_not_allocate() {
        assert_eq!(id("42").expect("id").heap_size(), 0);
        assert_eq!(size_of::<RequestId>(), 16 + size_of::<usize>() % 8);
    }
}
