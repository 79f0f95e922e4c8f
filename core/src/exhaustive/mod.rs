//! Tests of all cases within a small scope: what reads and writes text, beside oracles that share no code with it.
//!
//! An oracle is `serde_json`, a crate of the standard in question, or the grammar of the standard written down as plainly as
//! possible. Those of private parts stand beside these parts (`exhaustive_tests.rs`). `tests/exhaustive` counts all of them.

#[cfg(feature = "http")]
mod fields;
mod frames;
#[cfg(feature = "http")]
mod http_heads;
#[cfg(feature = "http")]
mod http_messages;
mod json;
mod json_values;
#[cfg(feature = "http")]
mod links;
mod names;
mod rpc;
mod tables {
    mod sets;
}
mod templates;

use alloc::vec::Vec;

use crate::testing::for_each_text;

/// Calls `check` with every text of at most `longest` of the pieces, and returns how many there were.
pub(crate) fn for_each_str(pieces: &[&str], longest: usize, mut check: impl FnMut(&str)) -> u64 {
    let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
    for_each_text(&pieces, longest, |text| check(core::str::from_utf8(text).expect("the pieces are UTF-8")))
}

/// Returns the pieces of a text between these ends.
fn pieces<'t>(text: &'t [u8], ends: &[usize]) -> Vec<&'t [u8]> {
    let begins = core::iter::once(0).chain(ends.iter().copied());
    begins.zip(ends.iter().copied().chain([text.len()])).map(|(from, to)| &text[from..to]).collect()
}
