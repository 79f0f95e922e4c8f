//! Base64 of short texts: ids of sessions, and values of header fields (RFC 4648).
//!
//! Large texts are coded by the crate `base64`, which is faster for them and three kilobytes of code.

use alloc::string::String;
use alloc::vec::Vec;

/// The last two characters of an alphabet; the others are the same in all.
#[derive(Clone, Copy)]
pub(crate) struct Alphabet([u8; 2]);

/// The alphabet of RFC 4648, 4.
pub(crate) const STANDARD: Alphabet = Alphabet(*b"+/");
/// The alphabet of RFC 4648, 5.
pub(crate) const URL_SAFE: Alphabet = Alphabet(*b"-_");

impl Alphabet {
    const fn character(self, six_bits: u8) -> u8 {
        let Self([before_last, last]) = self;
        match six_bits & 63 {
            upper @ 0..=25 => b'A' + upper,
            lower @ 26..=51 => b'a' + (lower - 26),
            digit @ 52..=61 => b'0' + (digit - 52),
            62 => before_last,
            _ => last,
        }
    }

    const fn value(self, character: u8) -> Option<u8> {
        let Self([before_last, last]) = self;
        match character {
            b'A'..=b'Z' => Some(character - b'A'),
            b'a'..=b'z' => Some(character - b'a' + 26),
            b'0'..=b'9' => Some(character - b'0' + 52),
            _ if character == before_last => Some(62),
            _ if character == last => Some(63),
            _ => None,
        }
    }

    /// Returns the text of three bytes.
    pub(crate) fn encode(self, [a, b, c]: [u8; 3]) -> [u8; 4] {
        [a >> 2, a << 4 | b >> 4, b << 2 | c >> 6, c].map(|six_bits| self.character(six_bits))
    }

    /// Returns the three bytes of a text without padding.
    pub(crate) fn decode(self, [a, b, c, d]: [u8; 4]) -> Option<[u8; 3]> {
        let (a, b, c, d) = (self.value(a)?, self.value(b)?, self.value(c)?, self.value(d)?);
        Some([a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d])
    }
}

/// Appends bytes in the standard alphabet with padding.
pub(crate) fn encode_padded(bytes: &[u8], out: &mut String) {
    for group in bytes.chunks(3) {
        let mut padded = [0; 3];
        padded.iter_mut().zip(group).for_each(|(to, from)| *to = *from);
        let text = STANDARD.encode(padded);
        out.extend(text.iter().take(group.len() + 1).copied().map(char::from));
        (group.len()..3).for_each(|_| out.push('='));
    }
}

/// Decodes text in the standard alphabet; `None` if its padding is not exact, or unused bits are set.
pub(crate) fn decode_padded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut groups = text.as_bytes().chunks(4);
    while let Some(group) = groups.next() {
        let &[a, b, c, d] = group else { return None };
        match (c, d) {
            (b'=', b'=') => match STANDARD.decode([a, b, b'A', b'A'])? {
                // Unused bits that are set would be a second text of the same bytes.
                [first, 0, 0] => bytes.push(first),
                _ => return None,
            },
            (_, b'=') => match STANDARD.decode([a, b, c, b'A'])? {
                [first, second, 0] => bytes.extend_from_slice(&[first, second]),
                _ => return None,
            },
            _ => {
                bytes.extend_from_slice(&STANDARD.decode([a, b, c, d])?);
                continue;
            }
        }
        // Padding ends the text.
        return groups.next().is_none().then_some(bytes);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose;

    #[test]
    fn text_equals_that_of_the_crate() {
        let bytes: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        for from in 0..256 {
            for length in 0..8 {
                let bytes = &bytes[from..from + length];
                let mut text = String::new();
                encode_padded(bytes, &mut text);
                assert_eq!(text, general_purpose::STANDARD.encode(bytes));
                assert_eq!(decode_padded(&text).as_deref(), Some(bytes));
            }
            let group: [u8; 3] = bytes[from..from + 3].try_into().expect("three");
            let text = URL_SAFE.encode(group);
            assert_eq!(text, general_purpose::URL_SAFE_NO_PAD.encode(group).as_bytes());
            assert_eq!(URL_SAFE.decode(text), Some(group));
        }
    }

    #[test]
    fn what_the_crate_refuses_is_refused() {
        let mut random = 7_u32;
        for _ in 0..200_000 {
            let mut text = String::new();
            for _ in 0..8 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text.push(char::from(b"AQ/+-_=w9 "[(random >> 16) as usize % 10]));
            }
            text.truncate((random >> 8) as usize % 9);
            assert_eq!(decode_padded(&text), general_purpose::STANDARD.decode(&text).ok(), "{text:?}");
            if let Ok(group) = <[u8; 4]>::try_from(text.as_bytes()) {
                let expected = general_purpose::URL_SAFE_NO_PAD.decode(group).ok();
                assert_eq!(URL_SAFE.decode(group).map(Vec::from), expected, "{text:?}");
            }
        }
    }
}
