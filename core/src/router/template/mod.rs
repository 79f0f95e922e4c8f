//! URI templates (RFC 6570): expansion, and matching of URIs.
//!
//! Expansion implements all four levels of the RFC. The RFC does not define matching. These rules define it here:
//!
//! - A URI matches if the whole of it can be split into pieces, one for each literal and each expression. The URI is
//!   [normalized](TemplateMismatch::Uri) first, so `FILE:///%7euser` is `file:///~user`. In the host (from `//` to the
//!   path) literals match without regard to case; variables keep the case that was sent.
//! - No split lies inside a character. If several splits are possible, earlier expressions take as much as they can. An
//!   expression ends at the first character of the expansion that follows it, and at the `?` or `#` of a later `{?…}`
//!   or `{#…}`.
//! - `{a}` and `{+a}` match at least one character; all other expressions may be absent.
//! - `{a}` matches the characters of a path segment (including those that expansion would encode, such as `@`), `{+a}`
//!   and `{#a}` match every character, `{?a}` and `{&a}` match the characters of a query.
//! - Pairs of `{?a,b}`, `{&a,b}` and `{;a,b}` may come in any order. Each occurs at most once, and unknown names do not
//!   match.
//! - Exploded variables become lists. A name that occurs twice has the same value in both places.
//! - The value of a variable is decoded, must be UTF-8, and has to satisfy a [`VariablePolicy`].
//!
//! There is no backtracking and no regular expression. Matching takes time proportional to the length of the URI times
//! the length of the template at most ([`MAX_URI`], [`MAX_TEMPLATE`]).

mod expand;
mod matching;
mod parse;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::uri;
use parse::TemplatePart;

pub use expand::{ExpandError, Values, VariableValue};
pub(super) use matching::{HASH_SEED, PrefixIndex, extend_hash};
pub use parse::{MAX_TEMPLATE, MAX_VARIABLES, TemplateError};

pub use crate::uri::UriError;
pub(super) use crate::uri::{comparison_key, lower_host, normalize};

/// Maximum length of a URI to match, in bytes.
pub const MAX_URI: usize = 8192;

/// A URI template (RFC 6570).
///
/// ```
/// use mcp_proto::router::template::{Template, Values, VariablePolicy};
///
/// let template = Template::new("file:///{+path}{?lines}")?;
/// let found = template.match_uri("file:///src/lib.rs?lines=10", VariablePolicy::default())?;
/// assert_eq!((found.get("path"), found.get("lines")), (Some("src/lib.rs"), Some("10")));
///
/// let uri = template.expand(&Values::new().text("path", "a b/ü.txt")).unwrap();
/// assert_eq!(uri, "file:///a%20b/%C3%BC.txt");
/// assert!(template.match_uri("file:///src/../../etc/passwd", VariablePolicy::default()).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Template {
    text: Box<str>,
    parts: Vec<TemplatePart>,
    is_direct: bool,
}

/// Reason why a URI does not match a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateMismatch {
    /// The text is not a valid URI.
    #[error("not a URI: {0}")]
    Uri(#[from] UriError),
    /// The URI has a different form.
    #[error("the URI does not match the template")]
    Different,
    /// The URI matches, but its values violate the [`VariablePolicy`].
    #[error("the URI is refused: {0}")]
    Unsafe(#[from] UnsafeUri),
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] with the position of the first mistake, or if the template exceeds [`MAX_TEMPLATE`] or
    /// [`MAX_VARIABLES`].
    pub fn new(text: &str) -> Result<Self, TemplateError> {
        let parts = parse::parse(text)?;
        Ok(Self { text: text.into(), is_direct: matching::is_direct(&parts), parts })
    }

    /// Returns the text of the template.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the names of the variables in the order of the template.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts
            .iter()
            .flat_map(|part| match part {
                TemplatePart::Literal { .. } => &[][..],
                TemplatePart::Expression(e) => &e.variables,
            })
            .map(|v| &*v.name)
    }

    /// Returns the literal that all URIs of this template begin with.
    pub(super) fn literal_prefix(&self) -> &str {
        match self.parts.first() {
            Some(TemplatePart::Literal { text, key }) => key.as_ref().unwrap_or(text),
            _ => "",
        }
    }

    /// Expands the template to a URI; undefined variables are left out, and values are percent-encoded where necessary.
    ///
    /// Values are not checked: an untrusted value can lead anywhere that the template allows, for example `../..` for
    /// `{+path}`.
    ///
    /// # Errors
    ///
    /// [`ExpandError::Prefix`] if a variable with a prefix modifier is not a text.
    pub fn expand(&self, values: &Values<'_>) -> Result<String, ExpandError> {
        let mut out = String::with_capacity(self.text.len());
        expand::expand(&self.parts, values, &mut out)?;
        Ok(out)
    }

    /// Matches a URI of at most [`MAX_URI`] bytes and returns the values of the variables.
    ///
    /// # Errors
    ///
    /// - [`TemplateMismatch::Uri`]: `uri` is not a valid URI, or too long.
    /// - [`TemplateMismatch::Different`]: the URI does not match.
    /// - [`TemplateMismatch::Unsafe`]: the URI matches, but a value violates `policy`.
    pub fn match_uri(&self, uri: &str, policy: VariablePolicy) -> Result<Values<'_>, TemplateMismatch> {
        self.match_normalized(&normalize(uri, MAX_URI)?, policy)
    }

    /// Returns the number of steps that a match takes, or `None` if `uri` is not a URI.
    pub(crate) fn count_steps(&self, uri: &str) -> Option<usize> {
        let uri = normalize(uri, MAX_URI).ok()?;
        let mut steps = 0;
        let _ = matching::match_parts(&self.parts, &uri, &mut steps);
        Some(steps)
    }

    pub(super) fn match_normalized(
        &self,
        uri: &str,
        policy: VariablePolicy,
    ) -> Result<Values<'_>, TemplateMismatch> {
        let found = if self.is_direct {
            matching::match_direct(&self.parts, uri)
        } else {
            matching::match_parts(&self.parts, uri, &mut 0)
        };
        let found = found.ok_or(TemplateMismatch::Different)?;
        policy.check(uri, &found.values, found.encoded_slash)?;
        Ok(found.values)
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.text).finish()
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Template {}

// Checks of variable values that protect handlers against path traversal (RES-022).

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
    fn check(self, uri: &str, values: &Values<'_>, encoded_slash: Option<&str>) -> Result<(), UnsafeUri> {
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
