//! URI templates (RFC 6570): expanding them, and matching URIs against them.
//!
//! Expansion is the RFC's, all four levels. Matching is what the RFC leaves open; here it is defined so:
//!
//! - A URI matches when the whole of it can be cut into pieces, one for each literal and each expression. The URI is
//!   [normalised](Mismatch::Uri) first, so `FILE:///%7euser` is `file:///~user`. In the host, what stands
//!   behind `//` up to the path, literals match in capital and small letters alike; variables hold it as it was sent.
//! - Where several cuts are possible, none of them inside of a character, earlier expressions take as much as they can. An expression ends where the sign of
//!   the one right behind it stands, and at the `?` or `#` of a later `{?…}` or `{#…}`.
//! - A piece holds at least one character for `{a}` and `{+a}`; all others may be absent.
//! - `{a}` holds what may stand in a path segment (also what expansion would have encoded, as `@`), `{+a}` and `{#a}`
//!   anything, `{?a}` and `{&a}` what may stand in a query.
//! - Pairs of `{?a,b}`, `{&a,b}` and `{;a,b}` come in any order, each at most once, and none that is not named.
//! - Exploded variables become lists. A name that stands twice means the same in both places.
//! - What a variable matched is decoded, must be UTF-8, and passes a [`Screen`].
//!
//! There is no backtracking and no regular expression: matching costs at most the length of the URI times the length of
//! the template ([`MAX_URI`], [`MAX_TEMPLATE`]).

mod direct;
mod expand;
mod index;
mod matching;
mod parse;
mod rows;
mod screen;
#[cfg(test)]
mod tests;
mod values;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

pub use expand::ExpandError;
pub(super) use index::{Beginnings, START, hash};
pub use parse::{MAX_TEMPLATE, MAX_VARIABLES, TemplateError};
pub use screen::{Screen, Unsafe};
pub use values::{Value, Values};

pub use crate::uri::UriError;
pub(super) use crate::uri::{key, lower_host, normalize};

use crate::uri;
use parse::Part;

/// The longest URI that is matched, in bytes
pub const MAX_URI: usize = 8192;

/// A URI template (RFC 6570)
///
/// ```
/// use mcp_proto::router::template::{Screen, Template, Values};
///
/// let template = Template::new("file:///{+path}{?lines}")?;
/// let found = template.matches("file:///src/lib.rs?lines=10", Screen::default())?;
/// assert_eq!((found.get("path"), found.get("lines")), (Some("src/lib.rs"), Some("10")));
///
/// let uri = template.expand(&Values::new().text("path", "a b/ü.txt")).unwrap();
/// assert_eq!(uri, "file:///a%20b/%C3%BC.txt");
/// assert!(template.matches("file:///src/../../etc/passwd", Screen::default()).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Template {
    text: Box<str>,
    parts: Vec<Part>,
    direct: bool,
}

/// A URI does not mean anything to a template
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// It is no URI
    #[error("not a URI: {0}")]
    Uri(#[from] UriError),
    /// It has another form
    #[error("the URI does not match the template")]
    Different,
    /// It matches, and the [`Screen`] refuses what it holds
    #[error("the URI is refused: {0}")]
    Unsafe(#[from] Unsafe),
}

impl Template {
    /// Reads a template
    pub fn new(text: &str) -> Result<Self, TemplateError> {
        let parts = parse::parse(text)?;
        Ok(Self { text: text.into(), direct: direct::is_direct(&parts), parts })
    }

    /// The template as it was given
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The names of the variables, in the order in which they stand
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts
            .iter()
            .flat_map(|part| match part {
                Part::Literal { .. } => &[][..],
                Part::Expression(e) => &e.variables,
            })
            .map(|v| &*v.name)
    }

    /// What the URIs of this template begin with
    pub(super) fn beginning(&self) -> &str {
        match self.parts.first() {
            Some(Part::Literal { text, key }) => key.as_ref().unwrap_or(text),
            _ => "",
        }
    }

    /// Makes a URI; variables without a value are left out, and all that needs it is encoded
    ///
    /// Nothing is screened: a value that was not chosen by the caller may lead anywhere that the template allows,
    /// `{+path}` to `../..` for instance.
    pub fn expand(&self, values: &Values<'_>) -> Result<String, ExpandError> {
        let mut out = String::with_capacity(self.text.len());
        expand::expand(&self.parts, values, &mut out)?;
        Ok(out)
    }

    /// Finds the values of the variables in a URI of at most [`MAX_URI`] bytes
    pub fn matches(&self, uri: &str, screen: Screen) -> Result<Values<'_>, Mismatch> {
        self.matches_normalized(&normalize(uri, MAX_URI)?, screen)
    }

    /// How many steps a match takes; none for what is no URI
    #[cfg(any(fuzzing, test))]
    pub(crate) fn steps(&self, uri: &str) -> Option<usize> {
        struct Steps(usize);
        impl matching::Count for Steps {
            fn add(&mut self, steps: usize) {
                self.0 += steps;
            }
        }
        let uri = normalize(uri, MAX_URI).ok()?;
        let mut steps = Steps(0);
        let _ = matching::matches(&self.parts, &uri, &mut steps);
        Some(steps.0)
    }

    pub(super) fn matches_normalized(&self, uri: &str, screen: Screen) -> Result<Values<'_>, Mismatch> {
        let found = if self.direct {
            direct::matches(&self.parts, uri)
        } else {
            matching::matches(&self.parts, uri, &mut ())
        };
        let found = found.ok_or(Mismatch::Different)?;
        screen.check(uri, &found.values, found.slashed)?;
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
