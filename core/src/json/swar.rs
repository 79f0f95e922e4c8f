//! Search in string bytes, eight at a time in one register: exact, and without `unsafe`.
//!
//! Small hot functions are force-inlined here and in the scanner, on 64-bit targets only, where code size matters less.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

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

/// Returns the length of the longest prefix of `text` without quote, backslash or control character.
#[cfg_attr(target_pointer_width = "64", inline(always))]
pub(crate) fn plain_prefix(text: &[u8]) -> usize {
    let mut rest = text;
    while let Some((chunk, tail)) = rest.split_first_chunk::<8>() {
        let hit = special(u64::from_le_bytes(*chunk));
        if hit != 0 {
            return text.len() - rest.len() + (hit.trailing_zeros() / 8) as usize;
        }
        rest = tail;
    }
    if rest.is_empty() {
        return text.len();
    }
    match text.last_chunk::<8>() {
        // The last eight bytes overlap those that were checked before, which are known to be plain.
        Some(last) => match special(u64::from_le_bytes(*last)) {
            0 => text.len(),
            hit => text.len() - 8 + (hit.trailing_zeros() / 8) as usize,
        },
        None => plain_prefix_short(text),
    }
}

/// Does the same for fewer than eight bytes, the length of most member names.
#[inline(never)]
fn plain_prefix_short(text: &[u8]) -> usize {
    let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) else {
        return text.iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f)).unwrap_or(text.len());
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
pub(crate) fn check_utf8(text: &[u8]) -> Result<(), usize> {
    if text.is_ascii() { Ok(()) } else { core::str::from_utf8(text).map(|_| ()).map_err(|e| e.valid_up_to()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn word_search_agrees_with_byte_search() {
        // Every byte value at every position of a block, next to neighbours that could borrow into it.
        for filler in [b'a', 0x7f, 0x80, 0xff, b' ', b'!', b'#', b'[', b']'] {
            for at in 0..40 {
                for byte in 0..=255u8 {
                    let mut text = Vec::from([filler; 40]);
                    text[at] = byte;
                    let want = text.iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f)).unwrap_or(40);
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
}
