//! Validation of values against schemas: the interface of a validator and its findings (SCHEMA-010).
//!
//! The core carries schemas as JSON text and contains no validator. Plug one in with
//! [`Router::validator`](crate::router::Router::validator) and
//! [`OutputSchemas::new`](crate::client::OutputSchemas::new); `mcp-std` has one behind its feature `validate`.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::raw::RawJson;

/// Compiles schemas into validators.
///
/// An implementation keeps these rules:
///
/// - A schema without `$schema` is one of 2020-12 (SCHEMA-001).
/// - An unknown dialect is an error that names it (SCHEMA-004).
/// - A schema that is not valid in its dialect is an error (SCHEMA-005).
/// - Nothing is ever fetched: a `$ref` that leads out of the schema is an error (SCHEMA-006, SCHEMA-008).
/// - Schemas and values that would cost too much are refused (SCHEMA-009).
pub trait SchemaValidator: Send + Sync {
    /// Compiles a schema.
    ///
    /// # Errors
    ///
    /// [`SchemaError`] if the schema is invalid, refers to something outside of itself, or exceeds a limit.
    fn compile(&self, schema: &RawJson) -> Result<Box<dyn Validate>, SchemaError>;
}

/// Validator for one schema.
pub trait Validate: Send + Sync {
    /// Validates a value, which is JSON text.
    ///
    /// # Errors
    ///
    /// [`Violations`] that lists the places where the value does not match the schema.
    fn validate(&self, value: &[u8]) -> Result<(), Violations>;
}

/// Validates the structured result of a tool that has an output schema. Tool failures are not passed here.
pub(crate) fn check_structured_result(
    value: Option<&RawJson>,
    schema: Option<&dyn Validate>,
) -> Result<(), Violations> {
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

/// Reason why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// It is not a JSON object, or lacks `"type":"object"` where that is required (TOOL-007).
    #[error("{0}")]
    Shape(&'static str),
    /// It names a dialect that is not supported (SCHEMA-004).
    #[error("is of the dialect `{0}`, which is not supported")]
    Dialect(String),
    /// It refers to something outside of itself, which is never fetched (SCHEMA-006, SCHEMA-008).
    #[error("refers to `{0}`, which is outside of the schema")]
    Reference(String),
    /// It is larger or deeper than the validator accepts (SCHEMA-009).
    #[error("exceeds a limit: {0}")]
    Limit(&'static str),
    /// It is not valid in its dialect (SCHEMA-005).
    #[error("is not valid: {0}")]
    Invalid(String),
}

/// List of the places where a value does not match its schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    list: Vec<(String, String)>,
    is_truncated: bool,
}

impl Violations {
    /// Number of violations that are kept; further ones only mark the list as truncated.
    pub const MAX: usize = 8;

    /// Creates an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { list: Vec::new(), is_truncated: false }
    }

    /// Adds a violation: a JSON pointer into the value, and a description.
    ///
    /// The description is for the author of the value. It is clipped to 200 characters and should not repeat large
    /// parts of the value.
    pub fn push(&mut self, pointer: &str, what: &str) {
        if self.list.len() < Self::MAX {
            self.list.push((truncate(pointer), truncate(what)));
        } else {
            self.is_truncated = true;
        }
    }

    /// Returns whether there are no violations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Iterates over pairs of a JSON pointer and a description.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.list.iter().map(|(pointer, what)| (&**pointer, &**what))
    }
}

/// Clips a text to 200 characters.
fn truncate(text: &str) -> String {
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
        f.write_str(if self.is_truncated { "; and more" } else { "" })
    }
}

impl core::error::Error for Violations {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn violations_are_bounded_in_number_and_length() {
        let mut v = Violations::new();
        for _ in 0..10 {
            v.push("", &"x".repeat(1_000));
        }
        assert!(v.to_string().len() < 2_000 && v.to_string().ends_with("; and more"));
        assert!(v.to_string().starts_with("(root): xxx"));
    }
}
