//! What of a router has changed, and why something was not registered.

use alloc::string::String;
use core::fmt;

use super::template::{TemplateError, UriError};
use crate::validate::SchemaError;
use crate::vocab::Kind;

/// Which lists of a router have changed, so that clients can be told (TOOL-019, RES-012, PROMPT-009)
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Changed(u8);

impl Changed {
    /// None
    pub const NONE: Self = Self(0);

    /// One of them
    #[must_use]
    pub const fn of(kind: Kind) -> Self {
        Self(1 << kind as u8)
    }

    /// Whether this one has
    #[must_use]
    pub const fn has(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Whether none has
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl core::ops::BitOr for Changed {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl core::ops::BitOrAssign for Changed {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(Kind::ALL.into_iter().filter(|kind| self.has(*kind))).finish()
    }
}

/// Why something was not registered; nothing has changed then
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Its name cannot be one (TOOL-028)
    #[error("the {kind} `{name}` cannot be registered: {why}")]
    Name {
        /// What it is
        kind: Kind,
        /// Its name
        name: String,
        /// What is wrong with it
        why: &'static str,
    },
    /// There is one of this name (or URI, or template) already (TOOL-028)
    #[error("there is a {kind} `{name}` already")]
    Duplicate {
        /// What it is
        kind: Kind,
        /// Its name, URI or template
        name: String,
    },
    /// There is no such thing
    #[error("there is no {kind} `{name}`")]
    Unknown {
        /// What was asked for
        kind: Kind,
        /// Its name, URI or template
        name: String,
    },
    /// The URI of a resource is none (RES-019, RES-026)
    #[error("the resource `{uri}` cannot be registered: {why}")]
    Uri {
        /// What was given for one
        uri: String,
        /// What is wrong with it
        why: UriError,
    },
    /// The template of resources is none (RES-009)
    #[error("the resource template `{template}` cannot be registered: {why}")]
    Template {
        /// What was given for one
        template: String,
        /// What is wrong with it
        why: TemplateError,
    },
    /// A schema of a tool cannot be used (TOOL-007, SCHEMA-004, SCHEMA-005)
    #[error("the tool `{tool}` cannot be registered: its {which} {why}")]
    Schema {
        /// Whose schema
        tool: String,
        /// `inputSchema` or `outputSchema`
        which: &'static str,
        /// What is wrong with it
        why: SchemaError,
    },
    /// A prompt has two arguments of one name, or has none of that name
    #[error("the prompt or template `{of}` has {} argument `{argument}`", if *.twice { "more than one" } else { "no" })]
    Argument {
        /// The prompt or template
        of: String,
        /// The name of the argument
        argument: String,
        /// Whether there are two
        twice: bool,
    },
}

/// Whether a tool can have this name: 1 to 128 letters, digits, `_`, `-` and `.` (TOOL-028)
///
/// Names are short and plain, since models, headers and other programs have to spell them. The error says why not.
pub fn check_tool_name(name: &str) -> Result<(), &'static str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    match name.len() {
        0 => Err("a name is not empty"),
        129.. => Err("a name has 128 characters at most"),
        _ if !name.bytes().all(plain) => Err("a name has letters, digits, `_`, `-` and `.` only"),
        _ => Ok(()),
    }
}

/// Prompts and their arguments may be called anything that can be shown
pub(super) fn check_prompt_name(name: &str) -> Result<(), &'static str> {
    match name.chars().count() {
        0 => Err("a name is not empty"),
        129.. => Err("a name has 128 characters at most"),
        _ if name.chars().any(char::is_control) => Err("a name has no control characters"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    // covers: TOOL-028
    #[test]
    fn names_are_what_the_specification_says() {
        for name in ["a", "add_2", "a.b-c", "A", &"x".repeat(128)] {
            assert_eq!(check_tool_name(name), Ok(()), "{name}");
        }
        for name in ["", "a b", "a,b", "ä", "a/b", "a\0", &"x".repeat(129)] {
            assert!(check_tool_name(name).is_err(), "{name}");
        }
        assert!(check_prompt_name("Übersicht der Woche").is_ok());
        assert!(check_prompt_name("").is_err() && check_prompt_name("a\nb").is_err());
    }

    #[test]
    fn changes_add_up() {
        let mut changed = Changed::NONE;
        assert!(changed.is_empty());
        changed |= Changed::of(Kind::Tool) | Changed::of(Kind::Prompt);
        assert!(changed.has(Kind::Prompt) && !changed.has(Kind::Resource));
        assert_eq!(format!("{changed:?}"), "{Tool, Prompt}");
    }
}
