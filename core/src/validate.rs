//! Values against schemas: what a validator has to offer, and how its findings are told (SCHEMA-010).
//!
//! The core carries schemas as JSON text and brings no validator. One is plugged in with
//! [`Router::validator`](crate::router::Router::validator) and
//! [`OutputSchemas::new`](crate::client::OutputSchemas::new); `mcp-std` has one behind its feature `validate`.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::raw::RawJson;

/// Makes something that checks values out of a schema
///
/// What an implementation promises: a schema without `$schema` is one of 2020-12 (SCHEMA-001); a dialect that it does not
/// know is an error that names it (SCHEMA-004), as is a schema that is not valid in its dialect (SCHEMA-005); nothing is
/// ever fetched: a `$ref` that leads out of the schema is an error (SCHEMA-006, SCHEMA-008); schemas and values that
/// would cost too much are refused (SCHEMA-009).
pub trait SchemaValidator: Send + Sync {
    /// Prepares a schema
    fn compile(&self, schema: &RawJson) -> Result<Box<dyn Validate>, SchemaError>;
}

/// Checks values against one schema
pub trait Validate: Send + Sync {
    /// Says what is wrong with a value, which is JSON text
    fn validate(&self, value: &[u8]) -> Result<(), Violations>;
}

/// What is wrong with the structured result of a tool that has an output schema; failures are not asked about
pub(crate) fn promised(value: Option<&RawJson>, schema: Option<&dyn Validate>) -> Result<(), Violations> {
    match (value, schema) {
        (None, _) => {
            let mut violations = Violations::new();
            violations.push("", "there is no structured result");
            Err(violations)
        }
        (Some(value), Some(schema)) => schema.validate(value.as_bytes()),
        (Some(_), None) => Ok(()),
    }
}

/// A schema cannot be used
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// It is not a JSON object, or does not say `"type":"object"` where it must (TOOL-007)
    #[error("{0}")]
    Shape(&'static str),
    /// It names a dialect that is not known here (SCHEMA-004)
    #[error("is of the dialect `{0}`, which is not supported")]
    Dialect(String),
    /// It refers to something outside of itself, which is never fetched (SCHEMA-006, SCHEMA-008)
    #[error("refers to `{0}`, which is not a part of it")]
    Reference(String),
    /// It is larger, or deeper, than is accepted (SCHEMA-009)
    #[error("is beyond a limit: {0}")]
    Limit(&'static str),
    /// It is not valid in its dialect (SCHEMA-005)
    #[error("is not valid: {0}")]
    Invalid(String),
}

/// What is wrong with a value, and where
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    list: Vec<(String, String)>,
    more: bool,
}

impl Violations {
    /// The most that are told
    pub const MAX: usize = 8;

    /// None
    #[must_use]
    pub const fn new() -> Self {
        Self { list: Vec::new(), more: false }
    }

    /// Adds one: where in the value, as a JSON pointer, and what is wrong there
    ///
    /// The text is for the author of the value; it is clipped, and should not repeat large parts of the value.
    pub fn push(&mut self, pointer: &str, what: &str) {
        if self.list.len() < Self::MAX {
            self.list.push((short(pointer), short(what)));
        } else {
            self.more = true;
        }
    }

    /// Whether there is none
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Where, as JSON pointers, and what
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.list.iter().map(|(pointer, what)| (&**pointer, &**what))
    }
}

/// At most 200 characters
fn short(text: &str) -> String {
    let mut short = String::from(text);
    if let Some((end, _)) = text.char_indices().nth(200) {
        short.truncate(end);
        short.push('…');
    }
    short
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (pointer, what)) in self.iter().enumerate() {
            let pointer = if pointer.is_empty() { "(root)" } else { pointer };
            write!(f, "{}{pointer}: {what}", if i == 0 { "" } else { "; " })?;
        }
        f.write_str(if self.more { "; and more" } else { "" })
    }
}

impl core::error::Error for Violations {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn findings_are_few_and_short() {
        let mut v = Violations::new();
        for _ in 0..10 {
            v.push("", &"x".repeat(1_000));
        }
        assert!(v.to_string().len() < 2_000 && v.to_string().ends_with("; and more"));
        assert!(v.to_string().starts_with("(root): xxx"));
    }
}
