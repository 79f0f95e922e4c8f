//! Decoding of values from text that the scanner has checked.

use alloc::borrow::Cow;

use serde::Deserialize;

use super::scan::Scanner;

/// Decodes a value.
///
/// The text is read as `str`, not as bytes. UTF-8 is then checked once instead of once per string, and each decoder is
/// compiled once.
pub(crate) fn read<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, serde_json::Error> {
    serde_json::from_str(core::str::from_utf8(text).unwrap_or_default())
}

/// Decodes a string, or returns `None` for any other value.
pub(crate) fn string(text: &[u8]) -> Option<Cow<'_, str>> {
    Scanner::trusted(text).string().ok()?.into_str()
}
