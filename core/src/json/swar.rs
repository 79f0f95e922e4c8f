//! Eight bytes at a time in one register: exact searches without `unsafe` and without vector instructions.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// High bit set in each byte of `x` that is zero; exact up to and including the lowest one
const fn zero_bytes(x: u64) -> u64 {
    x.wrapping_sub(ONES) & !x & HIGHS
}

/// High bit set where a string byte needs attention: a quote, a backslash, a control character
#[inline]
const fn special(x: u64) -> u64 {
    let control = x.wrapping_sub(ONES * 0x20) & !x & HIGHS;
    control | zero_bytes(x ^ (ONES * b'"' as u64)) | zero_bytes(x ^ (ONES * b'\\' as u64))
}

/// Length of the longest prefix of `text` without quote, backslash or control character
#[inline]
pub(crate) fn plain_prefix(text: &[u8]) -> usize {
    let mut rest = text;
    let mut at = 0;
    while let Some((chunk, tail)) = rest.split_first_chunk::<8>() {
        let hit = special(u64::from_le_bytes(*chunk));
        if hit != 0 {
            return at + (hit.trailing_zeros() / 8) as usize;
        }
        at += 8;
        rest = tail;
    }
    for byte in rest {
        if matches!(byte, b'"' | b'\\' | 0..=0x1f) {
            return at;
        }
        at += 1;
    }
    at
}

/// Position of the first newline
#[inline]
pub(crate) fn find_newline(text: &[u8]) -> Option<usize> {
    // Four words at a time keep the loop cheap on long lines; the words are told apart only on a hit.
    let mut rest = text;
    let mut at = 0;
    while let Some((block, tail)) = rest.split_first_chunk::<32>() {
        let mut any = 0;
        let mut words = &block[..];
        while let Some((word, others)) = words.split_first_chunk::<8>() {
            any |= zero_bytes(u64::from_le_bytes(*word) ^ (ONES * b'\n' as u64));
            words = others;
        }
        if any != 0 {
            break;
        }
        at += 32;
        rest = tail;
    }
    rest.iter().position(|b| *b == b'\n').map(|i| at + i)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn finds_what_a_byte_loop_finds() {
        // Every byte value at every place of a block, behind neighbours that could borrow into it.
        for filler in [b'a', 0x7f, 0x80, 0xff, b' ', b'!', b'#', b'[', b']'] {
            for at in 0..40 {
                for byte in 0..=255u8 {
                    let mut text = Vec::from([filler; 40]);
                    text[at] = byte;
                    let want = text.iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f)).unwrap_or(40);
                    assert_eq!(plain_prefix(&text), want, "{byte:#x} at {at} in {filler:#x}");
                    assert_eq!(find_newline(&text), text.iter().position(|b| *b == b'\n'));
                }
            }
        }
    }
}
