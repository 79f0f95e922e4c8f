//! Checks of variable values that protect handlers against path traversal (RES-022).

use super::values::{Values, VariableValue};

/// Checks on the values of template variables before a handler receives them.
///
/// By default a URI is refused if a variable could lead to another place in a file system or on another server: if it
/// has the segment `..`, begins like an absolute path, or contains an encoded slash, an encoded backslash or a NUL.
/// Handlers that never use values as paths can relax these checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariablePolicy {
    is_enabled: bool,
    allows_absolute: bool,
    allows_encoded_slashes: bool,
}

impl Default for VariablePolicy {
    fn default() -> Self {
        Self { is_enabled: true, allows_absolute: false, allows_encoded_slashes: false }
    }
}

impl VariablePolicy {
    /// Allows values that begin with a slash, a backslash or a drive letter.
    #[must_use]
    pub const fn allow_absolute(mut self) -> Self {
        self.allows_absolute = true;
        self
    }

    /// Allows encoded slashes and backslashes; values in the query may always contain them.
    #[must_use]
    pub const fn allow_encoded_slashes(mut self) -> Self {
        self.allows_encoded_slashes = true;
        self
    }

    /// Disables all checks: the handler receives every value that the client sends, including `../../etc/passwd` and
    /// NUL.
    #[must_use]
    pub const fn dangerously_off() -> Self {
        Self { is_enabled: false, allows_absolute: true, allows_encoded_slashes: true }
    }

    /// Checks the values of a match; `uri` is normalized, and `encoded_slash` is a variable with an encoded slash.
    pub(super) fn check(
        self,
        uri: &str,
        values: &Values<'_>,
        encoded_slash: Option<&str>,
    ) -> Result<(), UnsafeUri> {
        if !self.is_enabled {
            return Ok(());
        }
        // The whole URI is checked too, because two variables can form one segment.
        if has_dots(uri) && segments(uri).any(|s| s == "..") {
            return Err(UnsafeUri::Traversal);
        }
        if encoded_slash.is_some() && !self.allows_encoded_slashes {
            return Err(UnsafeUri::EncodedSlash);
        }
        for (_, value) in values.iter() {
            match value {
                VariableValue::Text(text) => self.check_text(text)?,
                VariableValue::List(list) => list.iter().try_for_each(|text| self.check_text(text))?,
                VariableValue::Pairs(pairs) => {
                    pairs.iter().try_for_each(|(_, text)| self.check_text(text))?
                }
            }
        }
        Ok(())
    }

    fn check_text(self, text: &str) -> Result<(), UnsafeUri> {
        // Some systems ignore spaces around a file name.
        if has_dots(text) && text.split(['/', '\\']).any(|segment| segment.trim() == "..") {
            return Err(UnsafeUri::Traversal);
        }
        if text.contains('\0') {
            return Err(UnsafeUri::Nul);
        }
        let drive = matches!(text.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
        if !self.allows_absolute && (drive || text.starts_with(['/', '\\'])) {
            return Err(UnsafeUri::Absolute);
        }
        Ok(())
    }
}

/// Returns whether a text contains two dots in a row, as a fast first check.
fn has_dots(text: &str) -> bool {
    text.as_bytes().windows(2).any(|pair| pair == b"..")
}

/// Returns the segments of a normalized URI. An encoded separator counts as a separator, and query and fragment begin
/// new segments.
fn segments(uri: &str) -> impl Iterator<Item = &str> {
    uri.split(['/', '?', '#']).flat_map(|s| s.split("%2F")).flat_map(|s| s.split("%5C"))
}

/// Reason why a matching URI is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnsafeUri {
    /// The URI has the segment `..`.
    #[error("it has the segment `..`")]
    Traversal,
    /// A variable begins like an absolute path.
    #[error("a part of it begins like an absolute path")]
    Absolute,
    /// A variable contains an encoded slash or backslash.
    #[error("a part of it has an encoded slash")]
    EncodedSlash,
    /// A variable contains a NUL.
    #[error("a part of it has a NUL")]
    Nul,
}
