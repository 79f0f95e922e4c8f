//! Tools and what goes through them against their schemas (SCHEMA-010).

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use crate::model::{CallToolResult, Tool};
use crate::rpc::{RpcError, clip};
use crate::validate::{SchemaError, SchemaValidator, Validate, Violations, promised};

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
#[derive(Clone, Default)]
pub(super) struct Checks {
    pub(super) input: Option<Arc<dyn Validate>>,
    pub(super) output: Option<Arc<dyn Validate>>,
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
            input: Some(validator.compile(&tool.input_schema).map_err(|why| (input, why))?.into()),
            output: match &tool.output_schema {
                Some(schema) => Some(validator.compile(schema).map_err(|why| (output, why))?.into()),
                None => None,
            },
        })
    }

    /// Whether a result fits; failures need not (TOOL-015)
    pub(super) fn result(&self, tool: &Tool, result: &CallToolResult<'_>) -> Result<(), BadResult> {
        if tool.output_schema.is_none() || result.failed() {
            return Ok(());
        }
        let checked = promised(result.structured_content.as_ref(), self.output.as_deref());
        checked.map_err(|violations| BadResult { tool: tool.name.clone(), violations })
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prepared = |check: &Option<Arc<dyn Validate>>| check.is_some();
        f.debug_struct("Checks")
            .field("input", &prepared(&self.input))
            .field("output", &prepared(&self.output))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::RawJson;

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
}
