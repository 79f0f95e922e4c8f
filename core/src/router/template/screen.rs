//! What a variable must not hold, so that a handler which makes a path of it stays where it should (RES-022).

use super::values::{Value, Values};

/// What the values of a template's variables are searched for before a handler sees them
///
/// By default a URI is refused when one of its variables could lead somewhere else in a file system or on another
/// server: when it has `..` as a segment, begins like an absolute path, holds a slash or backslash that was encoded to
/// hide it, or a NUL. Handlers that never make paths of them can say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    on: bool,
    absolute: bool,
    slashes: bool,
}

impl Default for Screen {
    fn default() -> Self {
        Self { on: true, absolute: false, slashes: false }
    }
}

impl Screen {
    /// Lets values begin with a slash, a backslash or a drive letter
    #[must_use]
    pub const fn allow_absolute(mut self) -> Self {
        self.absolute = true;
        self
    }

    /// Lets values hold encoded slashes and backslashes (values in the query always may)
    #[must_use]
    pub const fn allow_encoded_slashes(mut self) -> Self {
        self.slashes = true;
        self
    }

    /// Searches for nothing: the handler gets whatever the client sent, `../../etc/passwd` and NUL included
    #[must_use]
    pub const fn dangerously_off() -> Self {
        Self { on: false, absolute: true, slashes: true }
    }

    /// `uri` is normalised; `slashed` a variable with an encoded slash
    pub(super) fn check(self, uri: &str, values: &Values<'_>, slashed: Option<&str>) -> Result<(), Unsafe> {
        if !self.on {
            return Ok(());
        }
        // Seen as a whole too, since two variables can make one segment.
        if has_dots(uri) && segments(uri).any(|s| s == "..") {
            return Err(Unsafe::Traversal);
        }
        if slashed.is_some() && !self.slashes {
            return Err(Unsafe::EncodedSlash);
        }
        for (_, value) in values.iter() {
            match value {
                Value::Text(text) => self.text(text)?,
                Value::List(list) => list.iter().try_for_each(|text| self.text(text))?,
                Value::Pairs(pairs) => pairs.iter().try_for_each(|(_, text)| self.text(text))?,
            }
        }
        Ok(())
    }

    fn text(self, text: &str) -> Result<(), Unsafe> {
        // Some systems drop spaces around a name.
        if has_dots(text) && text.split(['/', '\\']).any(|segment| segment.trim() == "..") {
            return Err(Unsafe::Traversal);
        }
        if text.contains('\0') {
            return Err(Unsafe::Nul);
        }
        let drive = matches!(text.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
        if !self.absolute && (drive || text.starts_with(['/', '\\'])) {
            return Err(Unsafe::Absolute);
        }
        Ok(())
    }
}

/// Whether a text is worth a closer look
fn has_dots(text: &str) -> bool {
    text.as_bytes().windows(2).any(|pair| pair == b"..")
}

/// The segments of a normalised URI, encoded separators being separators too; none goes on into the query or fragment
fn segments(uri: &str) -> impl Iterator<Item = &str> {
    uri.split(['/', '?', '#']).flat_map(|s| s.split("%2F")).flat_map(|s| s.split("%5C"))
}

/// Why a URI was refused that matches
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsafe {
    /// It has the segment `..`
    #[error("it has the segment `..`")]
    Traversal,
    /// A variable begins like an absolute path
    #[error("a part of it begins like an absolute path")]
    Absolute,
    /// A variable has an encoded slash or backslash
    #[error("a part of it has an encoded slash")]
    EncodedSlash,
    /// A variable has a NUL
    #[error("a part of it has a NUL")]
    Nul,
}
