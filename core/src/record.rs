//! Numbers and parts of binary records: sealed state of calls, and snapshots of sessions.
//!
//! Numbers are written seven bits at a time, low ones first; a length precedes each part. Each value has exactly one
//! encoding. A reader takes from the front of a slice, and returns `None` where no value is.

use alloc::vec::Vec;

pub(crate) fn put_number(out: &mut Vec<u8>, mut n: u64) {
    while n > 0x7f {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

pub(crate) fn put(out: &mut Vec<u8>, part: &[u8]) {
    put_number(out, part.len() as u64);
    out.extend_from_slice(part);
}

pub(crate) fn number(from: &mut &[u8]) -> Option<u64> {
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

pub(crate) fn part<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(number(from)?).ok()?;
    let part;
    (part, *from) = from.split_at_checked(length)?;
    Some(part)
}

pub(crate) fn text<'a>(from: &mut &'a [u8]) -> Option<&'a str> {
    core::str::from_utf8(part(from)?).ok()
}
