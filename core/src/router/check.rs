//! Values against schemas: what a validator has to offer, and how its findings are told (SCHEMA-010).
//!
//! The core carries schemas as JSON text and brings no validator. One is plugged in with
//! [`Router::validator`](super::Router::validator); `mcp-std` has one behind its feature `validate`.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::model::{CallToolResult, Tool};
use crate::raw::RawJson;
use crate::rpc::{RpcError, clip};

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

/// Arguments do not fit their tool
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadArguments(String);

impl BadArguments {
    pub(super) fn new(tool: &str, what: &dyn fmt::Display) -> Self {
        Self(alloc::format!("The arguments of `{}` are not valid: {what}", clip(tool)))
    }

    /// The result to complete the call with: one that the model can read and act on, whatever the revision
    /// (TOOL-022, DEC-028)
    #[must_use]
    pub fn into_result(self) -> CallToolResult<'static> {
        CallToolResult::error(self.0)
    }
}

/// A handler returned what the output schema of its tool forbids (TOOL-015)
///
/// This is for the author of the handler. The client is told no more than [`rpc`](Self::rpc).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the result of the tool `{tool}` does not fit its outputSchema: {violations}")]
#[non_exhaustive]
pub struct BadResult {
    /// Which tool
    pub tool: String,
    /// What is wrong with its result
    pub violations: Violations,
}

impl BadResult {
    /// What the client is told
    #[must_use]
    pub fn rpc(&self) -> RpcError {
        RpcError::internal("the result of the tool is not what it promises")
    }
}

/// The prepared schemas of a tool
#[derive(Default)]
pub(super) struct Checks {
    pub(super) input: Option<Box<dyn Validate>>,
    pub(super) output: Option<Box<dyn Validate>>,
}

impl Checks {
    /// Looks at the schemas of a tool as far as the core can, and prepares them if there is a validator
    pub(super) fn of(
        tool: &Tool,
        validator: Option<&dyn SchemaValidator>,
    ) -> Result<Self, (&'static str, SchemaError)> {
        let (input, output) = ("inputSchema", "outputSchema");
        let kind = tool.input_schema.member("type");
        if kind.is_none_or(|kind| kind.as_bytes() != b"\"object\"") {
            return Err((input, SchemaError::Shape("does not say `\"type\":\"object\"`")));
        }
        if tool.output_schema.as_ref().is_some_and(|s| !s.is_object()) {
            return Err((output, SchemaError::Shape("is not a JSON object")));
        }
        let Some(validator) = validator else { return Ok(Self::default()) };
        Ok(Self {
            input: Some(validator.compile(&tool.input_schema).map_err(|why| (input, why))?),
            output: match &tool.output_schema {
                Some(schema) => Some(validator.compile(schema).map_err(|why| (output, why))?),
                None => None,
            },
        })
    }

    /// Whether a result fits; failures need not (TOOL-015)
    pub(super) fn result(&self, tool: &Tool, result: &CallToolResult<'_>) -> Result<(), BadResult> {
        if tool.output_schema.is_none() || result.failed() {
            return Ok(());
        }
        let checked = match (&result.structured_content, &self.output) {
            (None, _) => {
                let mut violations = Violations::new();
                violations.push("", "there is no structured result");
                Err(violations)
            }
            (Some(value), Some(output)) => output.validate(value.as_bytes()),
            (Some(_), None) => Ok(()),
        };
        checked.map_err(|violations| BadResult { tool: tool.name.clone(), violations })
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prepared = |check: &Option<Box<dyn Validate>>| check.is_some();
        f.debug_struct("Checks")
            .field("input", &prepared(&self.input))
            .field("output", &prepared(&self.output))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    // covers: TOOL-007
    #[test]
    fn schemas_are_looked_at_without_a_validator() {
        let raw = |text: &'static str| RawJson::new(text).expect("JSON");
        for bad in ["{}", "true", "null", r#"{"type":"string"}"#, r#"{"type":["object"]}"#] {
            let error = Checks::of(&Tool::new("t", raw(bad)), None).expect_err(bad);
            assert_eq!(error.0, "inputSchema");
        }
        let tool = Tool::new("t", raw(r#"{"type":"object"}"#));
        assert!(Checks::of(&tool, None).is_ok());
        assert!(Checks::of(&tool.output_schema(raw("true")), None).is_err());
    }

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
