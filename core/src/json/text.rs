//! Text that is appended to a buffer: punctuation, strings and numbers.

use alloc::vec::Vec;

use super::EncodeError;
use super::swar::plain_prefix;
use crate::memory;

/// Size from which a string is usually larger than the rest of its message.
const LARGE_STRING: usize = 16 << 10;
/// Least number of bytes by which a text grows, if there is memory for them.
const LEAST_STEP: usize = 64;

/// Makes room for `more` bytes.
#[inline]
pub(crate) fn room(out: &mut Vec<u8>, more: usize) -> Result<(), EncodeError> {
    if memory::reserve(out, more) { Ok(()) } else { Err(EncodeError::OutOfMemory) }
}

/// The end of a buffer, to which text is appended while there is memory for it.
///
/// A lack of memory is noted and reported by [`outcome`](Self::outcome), instead of by each of the many small writes.
pub(super) struct Text<'a> {
    pub(super) buffer: &'a mut Vec<u8>,
    is_out_of_memory: bool,
}

impl<'a> Text<'a> {
    pub(super) const fn new(buffer: &'a mut Vec<u8>) -> Self {
        Self { buffer, is_out_of_memory: false }
    }

    /// Returns an error if something could not be appended.
    #[inline]
    pub(super) const fn outcome(&self) -> Result<(), EncodeError> {
        if self.is_out_of_memory { Err(EncodeError::OutOfMemory) } else { Ok(()) }
    }

    /// Appends a byte.
    #[inline]
    pub(super) fn push(&mut self, byte: u8) {
        self.append(&[byte]);
    }

    /// Appends bytes.
    // The compiler drops the check in `extend_from_slice`, so a write has one check and no error to pass on.
    #[inline]
    pub(super) fn append(&mut self, bytes: &[u8]) {
        if self.buffer.capacity() - self.buffer.len() >= bytes.len() {
            self.buffer.extend_from_slice(bytes);
        } else {
            self.append_growing(bytes);
        }
    }

    #[cold]
    #[inline(never)]
    fn append_growing(&mut self, bytes: &[u8]) {
        if self.reserve(bytes.len()) {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Makes room for `more` bytes. Returns whether there is room.
    fn reserve(&mut self, more: usize) -> bool {
        // Where doubling fails, steps of single bytes would copy the text for each of them.
        let has_room =
            memory::reserve(self.buffer, more.max(LEAST_STEP)) || memory::reserve(self.buffer, more);
        self.is_out_of_memory |= !has_room;
        has_room
    }

    /// Appends a string with its quotes.
    pub(super) fn string(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let plain = plain_prefix(bytes);
        if plain == bytes.len() && plain < LARGE_STRING {
            self.push(b'"');
            self.append(bytes);
            self.push(b'"');
        } else {
            self.string_of_any_kind(bytes, plain);
        }
    }

    #[cold]
    #[inline(never)]
    fn string_of_any_kind(&mut self, bytes: &[u8], plain: usize) {
        let length = if plain == bytes.len() { plain } else { escaped_len(bytes) };
        if self.reserve(length.saturating_add(room_behind(bytes))) {
            append_str(self.buffer, bytes, plain);
        }
    }

    /// Appends the name of a member with its colon, behind a comma unless the member is the first one.
    pub(super) fn member_name(&mut self, name: &str, is_first: bool) {
        let bytes = name.as_bytes();
        if plain_prefix(bytes) == bytes.len() {
            // Not one call with either: copying a number of bytes that is not known is a function call.
            if is_first {
                self.push(b'"');
            } else {
                self.append(b",\"");
            }
            self.append(bytes);
            self.append(b"\":");
        } else {
            if !is_first {
                self.push(b',');
            }
            self.string(name);
            self.push(b':');
        }
    }

    /// Appends an integer.
    pub(super) fn integer(&mut self, value: impl itoa::Integer) {
        self.append(itoa::Buffer::new().format(value).as_bytes());
    }

    /// Appends JSON text as one line.
    pub(super) fn one_line(&mut self, text: &[u8]) {
        if self.reserve(text.len()) {
            append_one_line(self.buffer, text);
        }
    }
}

/// Appends a string with its quotes.
pub(crate) fn write_str(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + room_behind(bytes));
    append_str(out, bytes, plain_prefix(bytes));
}

/// Returns the room that is made behind a string. The text behind a large one must not double the buffer.
const fn room_behind(bytes: &[u8]) -> usize {
    if bytes.len() < LARGE_STRING { 2 } else { 1 << 10 }
}

/// Returns the length of a string of `bytes` bytes if each of them is escaped.
pub(crate) const fn max_escaped_len(bytes: usize) -> usize {
    bytes.saturating_mul(6)
}

/// Returns an upper bound of the length of a string with its escapes.
#[cold]
pub(crate) fn escaped_len(bytes: &[u8]) -> usize {
    let escapes = bytes.iter().filter(|byte| matches!(byte, 0..32 | b'"' | b'\\')).count();
    bytes.len().saturating_add(escapes.saturating_mul(5))
}

#[inline]
fn append_str(out: &mut Vec<u8>, bytes: &[u8], plain: usize) {
    out.push(b'"');
    if plain == bytes.len() {
        out.extend_from_slice(bytes);
    } else {
        write_escaped(out, bytes, plain);
    }
    out.push(b'"');
}

/// Appends string bytes whose first `plain` bytes need no escape.
#[cold]
fn write_escaped(out: &mut Vec<u8>, mut rest: &[u8], mut plain: usize) {
    loop {
        let (head, tail) = rest.split_at_checked(plain).unwrap_or((rest, &[]));
        out.extend_from_slice(head);
        let Some((special, tail)) = tail.split_first() else { return };
        let short = match special {
            b'"' => b'"',
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            8 => b'b',
            12 => b'f',
            _ => 0,
        };
        if short == 0 {
            let hex = |n: u8| if n < 10 { b'0' + n } else { b'a' + n - 10 };
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', hex(special >> 4), hex(special & 15)]);
        } else {
            out.extend_from_slice(&[b'\\', short]);
        }
        rest = tail;
        plain = plain_prefix(rest);
    }
}

/// Appends an integer.
pub(crate) fn write_int(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends JSON text as one line. A raw line break in JSON is always white space between tokens (STDIO-003).
#[inline(never)]
pub(crate) fn append_one_line(out: &mut Vec<u8>, text: &[u8]) {
    let start = out.len();
    out.extend_from_slice(text);
    for byte in out.get_mut(start..).unwrap_or_default() {
        if matches!(*byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn text_beyond_all_memory_is_refused() {
        assert_eq!(room(&mut Vec::new(), usize::MAX), Err(EncodeError::OutOfMemory));
        let mut buffer = Vec::new();
        let mut text = Text::new(&mut buffer);
        text.string("before");
        assert_eq!(text.outcome(), Ok(()));
        assert!(!text.reserve(usize::MAX));
        text.string("behind");
        assert_eq!(text.outcome(), Err(EncodeError::OutOfMemory), "also after a write that fits");
    }

    #[test]
    fn text_grows_by_64_bytes_at_least() {
        for length in [0, 3, 60] {
            let mut buffer = Vec::from(b"x".repeat(length).into_boxed_slice());
            Text::new(&mut buffer).push(b'y');
            assert!(buffer.capacity() >= length + LEAST_STEP, "{length}: {}", buffer.capacity());
        }
    }

    #[test]
    fn room_for_a_string_is_made_once() {
        let string = |text: &str| {
            let mut buffer = Vec::new();
            Text::new(&mut buffer).string(text);
            buffer
        };
        for length in [LARGE_STRING, LARGE_STRING + 1, 3 * LARGE_STRING] {
            let (plain, escaped) = (string(&"x".repeat(length)), string(&"\u{1}".repeat(length)));
            assert_eq!((plain.len(), plain.capacity()), (length + 2, length + (1 << 10)), "plain");
            assert_eq!(
                (escaped.len(), escaped.capacity()),
                (6 * length + 2, 6 * length + (1 << 10)),
                "escaped"
            );
        }
        // The few bytes of a short one need no more than its quotes.
        for (length, behind) in [(0, 2), (100, 2), (LARGE_STRING - 1, 2), (LARGE_STRING, 1 << 10)] {
            let mut out = Vec::new();
            write_str(&mut out, &"x".repeat(length));
            // The least that a buffer has is a matter of the library.
            let room = length + behind..=(length + behind).max(64);
            assert!(room.contains(&out.capacity()), "{length}: {}", out.capacity());
        }
    }

    #[test]
    fn length_of_an_escaped_string_is_known_in_advance() {
        for length in [0, 1, 7, 300] {
            let mut out = Vec::new();
            write_str(&mut out, &"\u{1f}".repeat(length));
            assert_eq!((out.len(), escaped_len(&b"\x1f".repeat(length))), (6 * length + 2, 6 * length));
            assert_eq!(max_escaped_len(length), 6 * length);
        }
        assert_eq!(max_escaped_len(usize::MAX), usize::MAX);
        let mut out = Vec::new();
        write_str(&mut out, "a\"\\\n\r\t\u{8}\u{c}\u{1}é");
        assert_eq!(String::from_utf8(out).as_deref(), Ok(r#""a\"\\\n\r\t\b\f\u0001é""#));
    }
}
