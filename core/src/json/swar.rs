//! Search in string bytes, eight or sixteen at a time: exact, and without `unsafe`.
//!
//! Small hot functions are force-inlined here and in the scanner, on 64-bit targets only, where code size matters less.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;
/// Bytes that are searched in small steps.
const NEAR: usize = 264;

/// Returns a word with the high bit set in each zero byte of `x`; exact up to and including the lowest one.
const fn zero_bytes(x: u64) -> u64 {
    x.wrapping_sub(ONES) & !x & HIGHS
}

/// Returns a word with the high bit set in each byte that needs attention: quote, backslash or control character.
#[cfg_attr(target_pointer_width = "64", inline(always))]
const fn special(x: u64) -> u64 {
    // Flipping bit 1 swaps the quote (0x22) with the space (0x20) and leaves control characters below it, so one
    // comparison with 0x21 finds both. The high bit is untouched, so bytes above 0x7f do not match.
    let quote_or_control = (x ^ (ONES * 0x02)).wrapping_sub(ONES * 0x21) & !x & HIGHS;
    quote_or_control | zero_bytes(x ^ (ONES * b'\\' as u64))
}

/// Returns true for a quote, a backslash and a control character, by the comparison of [`special`].
const fn is_special(byte: u8) -> bool {
    byte ^ 0x02 <= 0x20 || byte == b'\\'
}

/// Returns the position of the first special byte of eight, or `None`.
#[cfg_attr(target_pointer_width = "64", inline(always))]
const fn find_special(chunk: [u8; 8]) -> Option<usize> {
    match special(u64::from_le_bytes(chunk)) {
        0 => None,
        hit => Some((hit.trailing_zeros() / 8) as usize),
    }
}

/// Returns the length of the longest prefix of `text` without quote, backslash or control character.
#[cfg_attr(target_pointer_width = "64", inline(always))]
pub(crate) fn plain_prefix(text: &[u8]) -> usize {
    // Most strings of the protocol, member names above all, end within the first eight bytes.
    let Some(first) = text.first_chunk() else { return plain_prefix_short(text) };
    find_special(*first).unwrap_or_else(|| plain_prefix_long(text))
}

/// Does the same for text whose first eight bytes are plain.
#[inline(never)]
fn plain_prefix_long(text: &[u8]) -> usize {
    let near = text.get(..NEAR).unwrap_or(text);
    let mut rest = near.get(8..).unwrap_or_default();
    // Longer names end in the second eight bytes.
    if let Some((chunk, tail)) = rest.split_first_chunk() {
        if let Some(at) = find_special(*chunk) {
            return 8 + at;
        }
        rest = tail;
    }
    if cfg!(target_pointer_width = "64") {
        while let Some((_, tail)) = rest.split_first_chunk::<32>().filter(|(block, _)| is_plain(block)) {
            rest = tail;
        }
        if let Some((_, tail)) = rest.split_first_chunk::<16>().filter(|(block, _)| is_plain(block)) {
            rest = tail;
        }
    }
    while let Some((chunk, tail)) = rest.split_first_chunk() {
        if let Some(at) = find_special(*chunk) {
            return near.len() - rest.len() + at;
        }
        rest = tail;
    }
    let plain = match near.last_chunk() {
        // The last eight bytes overlap those that were checked before, which are known to be plain.
        Some(last) if !rest.is_empty() => find_special(*last).map_or(near.len(), |at| near.len() - 8 + at),
        _ => near.len(),
    };
    if plain == NEAR { plain_prefix_very_long(text) } else { plain }
}

/// Does the same for text whose first [`NEAR`] bytes are plain: such a text pays for larger steps.
#[cold]
#[inline(never)]
fn plain_prefix_very_long(text: &[u8]) -> usize {
    let mut rest = text.get(NEAR..).unwrap_or_default();
    while let Some((_, tail)) = rest.split_first_chunk::<64>().filter(|(block, _)| is_plain(block)) {
        rest = tail;
    }
    let end = rest.iter().position(|byte| is_special(*byte)).unwrap_or(rest.len());
    text.len() - rest.len() + end
}

/// Returns whether a block has no special byte. The compiler makes vector instructions of this, without `unsafe`.
#[inline]
fn is_plain<const N: usize>(block: &[u8; N]) -> bool {
    !block.iter().fold(false, |found, byte| found | is_special(*byte))
}

/// Does the same for fewer than eight bytes, the length of most member names.
#[inline(never)]
fn plain_prefix_short(text: &[u8]) -> usize {
    let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) else {
        return text.iter().position(|byte| is_special(*byte)).unwrap_or(text.len());
    };
    // The first four bytes and the last four overlap; a hit in the first half comes first.
    let both = u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32;
    match special(both) {
        0 => text.len(),
        hit => match (hit.trailing_zeros() / 8) as usize {
            at @ 0..4 => at,
            at => at + text.len() - 8,
        },
    }
}

/// Returns the position of the first newline.
pub(crate) fn find_newline(text: &[u8]) -> Option<usize> {
    memchr::memchr(b'\n', text)
}

/// Checks that the text is UTF-8.
///
/// # Errors
///
/// The position of the first invalid byte.
#[inline]
pub(crate) fn check_utf8(text: &[u8]) -> Result<&str, usize> {
    core::str::from_utf8(text).map_err(|e| e.valid_up_to())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn word_search_agrees_with_byte_search() {
        // Every byte value at every position of a block, next to neighbours that could borrow into it.
        for filler in [b'a', 0x7f, 0x80, 0xff, b' ', b'!', b'#', b'[', b']'] {
            for at in 0..150 {
                for byte in 0..=255u8 {
                    let mut text = Vec::from([filler; 150]);
                    text[at] = byte;
                    let want = text.iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f)).unwrap_or(150);
                    assert_eq!(plain_prefix(&text), want, "{byte:#x} at {at} in {filler:#x}");
                    assert_eq!(find_newline(&text), text.iter().position(|b| *b == b'\n'));
                    let few = &text[..at % 8];
                    let want =
                        few.iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f)).unwrap_or(at % 8);
                    assert_eq!(plain_prefix(few), want);
                }
            }
        }
    }

    #[test]
    fn search_in_long_text_agrees_with_byte_search() {
        for filler in [b'a', 0x7f, 0x80, b' ', b'!', b'#', b'['] {
            for len in NEAR - 20..NEAR + 150 {
                let mut text = Vec::from([filler; NEAR + 150]);
                text.truncate(len);
                assert_eq!(plain_prefix(&text), len);
                for at in (0..len).filter(|at| at + 40 > len || *at > NEAR - 20) {
                    for byte in [b'"', b'\\', 0x1f, 0] {
                        text[at] = byte;
                        assert_eq!(plain_prefix(&text), at, "{byte:#x} at {at} of {len} in {filler:#x}");
                        text[at] = filler;
                    }
                }
            }
        }
    }
}
