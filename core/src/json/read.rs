//! Reading values out of text that the scanner has checked.

use alloc::borrow::Cow;

use serde::Deserialize;

use super::scan::Scanner;

/// Reads a value
///
/// Everything is read as `str` and not as bytes: that it is UTF-8 is looked at once, where `serde_json` would look at
/// each string by itself, and what reads a type is there once.
pub(crate) fn read<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, serde_json::Error> {
    serde_json::from_str(core::str::from_utf8(text).unwrap_or_default())
}

/// Reads a string; none for other values
pub(crate) fn string(text: &[u8]) -> Option<Cow<'_, str>> {
    Scanner::trusted(text).string().ok()?.into_str()
}
