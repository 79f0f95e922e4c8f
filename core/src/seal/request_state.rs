//! State of a call between two rounds, as bytes.

use alloc::vec::Vec;

use super::SealError;

/// Progress of a call: the payload of a sealed state.
///
/// Encoding: a version, the attempt, the state, and the number of input responses, then key and text of each. Numbers
/// are written seven bits at a time, low ones first; a length precedes each text. Each record has exactly one encoding.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RequestState<'a> {
    /// Number of the delivery that this is for.
    pub attempt: u32,
    /// State of the application.
    pub state: &'a [u8],
    /// Input responses so far, as JSON with their keys; an empty text for an input request without an answer yet.
    pub answers: Vec<(&'a str, &'a str)>,
}

const VERSION: u8 = 1;

impl<'a> RequestState<'a> {
    /// Encodes the record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let answers: usize = self.answers.iter().map(|(key, json)| key.len() + json.len() + 6).sum();
        let mut out = Vec::with_capacity(16 + self.state.len() + answers);
        out.push(VERSION);
        put_number(&mut out, u64::from(self.attempt));
        put(&mut out, self.state);
        put_number(&mut out, self.answers.len() as u64);
        for (key, json) in &self.answers {
            put(&mut out, key.as_bytes());
            put(&mut out, json.as_bytes());
        }
        out
    }

    /// Decodes the output of [`encode`](Self::encode).
    ///
    /// It does not check that the input responses are JSON: the seal has shown that this server wrote them.
    ///
    /// # Errors
    ///
    /// [`SealError::Malformed`] for any other bytes.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, SealError> {
        Self::read(bytes).ok_or(SealError::Malformed)
    }

    fn read(mut from: &'a [u8]) -> Option<Self> {
        let from = &mut from;
        let version;
        (version, *from) = from.split_first()?;
        if *version != VERSION {
            return None;
        }
        let attempt = u32::try_from(number(from)?).ok()?;
        let state = part(from)?;
        let count = usize::try_from(number(from)?).ok()?;
        // An entry has two lengths at least: this bounds the allocation by the input.
        if count > from.len() / 2 {
            return None;
        }
        let mut answers = Vec::with_capacity(count);
        for _ in 0..count {
            answers.push((text(from)?, text(from)?));
        }
        from.is_empty().then_some(Self { attempt, state, answers })
    }
}

fn put_number(out: &mut Vec<u8>, mut n: u64) {
    while n > 0x7f {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn put(out: &mut Vec<u8>, part: &[u8]) {
    put_number(out, part.len() as u64);
    out.extend_from_slice(part);
}

fn number(from: &mut &[u8]) -> Option<u64> {
    let mut n = 0;
    // Nine times seven bits hold any length.
    for index in 0..9 {
        let byte;
        (byte, *from) = from.split_first()?;
        n |= u64::from(byte & 0x7f) << (7 * index);
        if *byte <= 0x7f {
            // A zero in the last byte would be a second encoding of the same number.
            return (*byte != 0 || index == 0).then_some(n);
        }
    }
    None
}

fn part<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(number(from)?).ok()?;
    let part;
    (part, *from) = from.split_at_checked(length)?;
    Some(part)
}

fn text<'a>(from: &mut &'a [u8]) -> Option<&'a str> {
    core::str::from_utf8(part(from)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn answers(n: usize) -> Vec<(String, String)> {
        (0..n).map(|i| ("k".repeat(i % 200), "9".repeat(i * 7))).collect()
    }

    #[test]
    fn request_state_round_trips() {
        let long = answers(300);
        let long: Vec<(&str, &str)> = long.iter().map(|(key, json)| (&**key, &**json)).collect();
        let state = [0xff; 20_000];
        for attempt in [0, 1, 2, 127, 128, 16_383, 16_384, u32::MAX] {
            for state in [&b""[..], b"x", &state[..127], &state[..128], &state] {
                for answers in [&[][..], &[("", "")], &[("sure", r#"{"action":"accept"}"#)], &long] {
                    let record = RequestState { attempt, state, answers: answers.into() };
                    assert_eq!(RequestState::decode(&record.encode()), Ok(record));
                }
            }
        }
        assert_eq!(RequestState::default().encode(), [1, 0, 0, 0]);
    }

    // covers: MRTR-020
    #[test]
    fn malformed_request_state_is_refused() {
        let record =
            RequestState { attempt: 300, state: b"step 1", answers: [("a", "1"), ("é", "null")].into() };
        let bytes = record.encode();
        for length in 0..bytes.len() {
            assert_eq!(
                RequestState::decode(&bytes[..length]),
                Err(SealError::Malformed),
                "the first {length}"
            );
        }
        for more in 0..=255 {
            let longer = [&bytes[..], &[more]].concat();
            assert_eq!(RequestState::decode(&longer), Err(SealError::Malformed));
        }
        for bad in [
            &[][..],
            // Another version.
            &[0, 0, 0, 0],
            &[2, 0, 0, 0],
            // Numbers that could be shorter, have no end, or are too large.
            &[1, 0x80, 0, 0, 0],
            &[1, 0x81, 0, 0, 0],
            &[1, 0, 0, 0x80],
            &[1, 0xff, 0xff, 0xff, 0xff, 0x1f, 0, 0],
            &[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0],
            // Lengths and counts beyond the end.
            &[1, 0, 1],
            &[1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0],
            &[1, 0, 0, 1],
            &[1, 0, 0, 1, 0],
            &[1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
            &[1, 0, 0, 2, 0, 0],
            &[1, 0, 0, 1, 1, b'a', 2, b'1'],
            // Texts that are not UTF-8.
            &[1, 0, 0, 1, 1, 0xff, 0],
            &[1, 0, 0, 1, 0, 2, b'"', 0x80],
        ] {
            assert_eq!(RequestState::decode(bad), Err(SealError::Malformed), "{bad:?}");
        }
    }

    /// Decoded bytes encode to themselves: each record has exactly one encoding.
    #[test]
    fn request_state_has_one_encoding() {
        let mut seen = 0;
        let mut random: u64 = 1;
        for _ in 0..200_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut bytes = random.to_be_bytes();
            bytes[0] = 1;
            for byte in &mut bytes[1..] {
                *byte = [0, 1, 2, 3, 0x80, 0x81, b'a', 0xff][usize::from(*byte >> 5)];
            }
            let bytes = &bytes[..4 + (random & 3) as usize];
            if let Ok(record) = RequestState::decode(bytes) {
                assert_eq!(record.encode(), bytes);
                seen += 1;
            }
        }
        assert!(seen > 500, "{seen}");
    }
}
