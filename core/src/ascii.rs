//! Comparison of ASCII words without regard to case.

/// Case-insensitive comparison of ASCII text.
///
/// It does the same as `eq_ignore_ascii_case` but is compiled once, and compares eight bytes at a time. The standard function
/// is inlined as hundreds of bytes of vector instructions at each use, and short words gain nothing from them.
pub(crate) trait AsciiCaseExt {
    /// Returns whether both are equal apart from the case of ASCII letters.
    fn eq_ignore_case(&self, other: &Self) -> bool;
}

impl AsciiCaseExt for [u8] {
    #[inline(never)]
    fn eq_ignore_case(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        let (Some(last), Some(other_last)) = (self.last_chunk(), other.last_chunk()) else {
            return self.iter().zip(other).all(|(a, b)| a.eq_ignore_ascii_case(b));
        };
        // The last word may overlap the one before it.
        let mut words = self.chunks_exact(8).zip(other.chunks_exact(8));
        lower_case(*last) == lower_case(*other_last)
            && words.all(|(a, b)| {
                a.first_chunk().map(|a| lower_case(*a)) == b.first_chunk().map(|b| lower_case(*b))
            })
    }
}

/// A word of 4 to 24 bytes that others are compared with in any case.
///
/// Its length is a part of its type, so that a comparison is two to four operations for each eight bytes. It is exact: the bit
/// that tells the cases apart is ignored only where the word has a letter, and no third byte differs from a letter in that bit
/// alone.
#[cfg(feature = "http")]
pub(crate) struct CaselessWord<const N: usize> {
    lower: [u8; N],
    case_bits: [u8; N],
}

#[cfg(feature = "http")]
impl<const N: usize> CaselessWord<N> {
    /// Number of bytes that are compared at once.
    const BLOCK: usize = if N < 8 { 4 } else { 8 };

    #[allow(clippy::indexing_slicing, reason = "only the compiler runs it")]
    pub(crate) const fn new(word: &str) -> Self {
        // Three blocks, which may overlap, are the whole word.
        assert!(word.len() == N && Self::BLOCK <= N && N <= 3 * Self::BLOCK);
        let word = word.as_bytes();
        let (mut lower, mut case_bits, mut at) = ([0; N], [0; N], 0);
        while at < N {
            lower[at] = word[at].to_ascii_lowercase();
            case_bits[at] = if word[at].is_ascii_alphabetic() { b'a' ^ b'A' } else { 0 };
            at += 1;
        }
        Self { lower, case_bits }
    }

    /// Returns whether `word` is this word, apart from the case of ASCII letters.
    #[inline(always)]
    pub(crate) fn is(&self, word: &[u8]) -> bool {
        let Ok(word) = <&[u8; N]>::try_from(word) else { return false };
        let agrees =
            |at| Self::block(word, at) | Self::block(&self.case_bits, at) == Self::block(&self.lower, at);
        agrees(0) && agrees(Self::BLOCK.min(N - Self::BLOCK)) && agrees(N - Self::BLOCK)
    }

    #[inline(always)]
    fn block(bytes: &[u8; N], at: usize) -> u64 {
        let rest = bytes.get(at..).unwrap_or_default();
        match rest.first_chunk() {
            Some(block) if Self::BLOCK == 8 => u64::from_le_bytes(*block),
            _ => rest.first_chunk().map_or(0, |block| u32::from_le_bytes(*block).into()),
        }
    }
}

/// Returns whether a text is the constant word `$word`, apart from the case of ASCII letters.
#[cfg(feature = "http")]
macro_rules! is_word {
    ($text:expr, $word:expr) => {
        const { $crate::ascii::CaselessWord::<{ $word.len() }>::new($word) }.is($text)
    };
}
#[cfg(feature = "http")]
pub(crate) use is_word;

/// Returns eight bytes with upper-case ASCII letters as lower-case ones.
const fn lower_case(bytes: [u8; 8]) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    let bytes = u64::from_le_bytes(bytes);
    // The highest bit of each byte: whether it is at least `A`, beyond `Z`, or no ASCII.
    let low = bytes & (0x7f * ONES);
    let is_at_least_a = low + (0x80 - b'A' as u64) * ONES;
    let is_beyond_z = low + (0x7f - b'Z' as u64) * ONES;
    let is_upper = is_at_least_a & !is_beyond_z & !bytes & (0x80 * ONES);
    bytes | (is_upper >> 2)
}

impl AsciiCaseExt for str {
    #[inline]
    fn eq_ignore_case(&self, other: &Self) -> bool {
        self.as_bytes().eq_ignore_case(other.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::testing::rounds;

    #[test]
    fn comparison_is_that_of_the_standard_library() {
        let assert_agrees = |one: &[u8], other: &[u8]| {
            assert_eq!(one.eq_ignore_case(other), one.eq_ignore_ascii_case(other), "{one:?} and {other:?}");
        };
        // All pairs of bytes, beside all bytes that are near a border.
        let borders = [0, b'@', b'A', b'Z', b'[', b'`', b'a', b'z', b'{', 0x7f, 0x80, 0xc1, 0xff];
        for (a, b) in (0..=u8::MAX).flat_map(|a| (0..=u8::MAX).map(move |b| (a, b))) {
            for before in borders {
                for after in borders.into_iter().take(rounds(13) as usize) {
                    assert_agrees(
                        &[before, a, after, 0, 0, 0, 0, 0],
                        &[before, b, after ^ 0x20, 0, 0, 0, 0, 0],
                    );
                    assert_agrees(&[before, a, after, 0, 0, 0, 0, 0], &[before, b, after, 0, 0, 0, 0, 0]);
                }
            }
        }
        // Words that are constant.
        #[cfg(feature = "http")]
        for at in 0..20 {
            for byte in 0..=u8::MAX {
                let mut other = *b"mCp-Protocol-Version";
                other[at] = byte;
                for length in 0..=20 {
                    let other = &other[..length];
                    let same = |word: &str| other.eq_ignore_ascii_case(word.as_bytes());
                    assert_eq!(is_word!(other, "Mcp-"), same("Mcp-"), "{other:?}");
                    assert_eq!(is_word!(other, "MCP-Pr"), same("MCP-Pr"), "{other:?}");
                    assert_eq!(is_word!(other, "MCP-Prot"), same("MCP-Prot"), "{other:?}");
                    assert_eq!(is_word!(other, "mcp-protoco"), same("mcp-protoco"), "{other:?}");
                    const WHOLE: &str = "MCP-Protocol-Version";
                    assert_eq!(is_word!(other, WHOLE), same(WHOLE), "{other:?}");
                }
            }
        }
        // All positions.
        for length in [0, 1, 7, 8, 9, 15, 16, 17, 24] {
            let word = vec![b'm'; length];
            assert_agrees(&word, &vec![b'M'; length]);
            assert_agrees(&word, &vec![b'm'; length + 1]);
            for at in 0..length {
                for byte in borders {
                    let mut other = word.clone();
                    other[at] = byte;
                    assert_agrees(&word, &other);
                    other[at] = b'M';
                    assert_agrees(&word, &other);
                }
            }
        }
    }
}
