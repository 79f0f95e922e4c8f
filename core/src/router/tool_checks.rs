//! Checks of tool schemas, arguments and results (SCHEMA-010).

use alloc::string::String;
use core::fmt;

use super::results::{Failure, HandlerError};
use crate::model::{CallToolResult, Tool};
use crate::rpc::{RpcError, clip};
use crate::sync::Arc;
use crate::validate::{SchemaError, SchemaValidator, Validate, Violations, check_structured_result};
use crate::version::Version;

/// Error for tool arguments that do not match the schema or the type of the handler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidArguments {
    message: String,
    version: Version,
}

impl InvalidArguments {
    pub(super) fn new(tool: &str, version: Version, what: &dyn fmt::Display) -> Self {
        let message = alloc::format!("The arguments of `{}` are not valid: {what}", clip(tool));
        Self { message, version }
    }

    /// Returns the result of the call: since 2025-11-25 a failure that the model can read and act on (TOOL-022,
    /// DEC-028).
    ///
    /// # Errors
    ///
    /// Up to and including 2025-06-18 error -32602, with which the call is to be answered.
    pub fn into_result(self) -> Result<CallToolResult<'static>, HandlerError> {
        if self.version >= Version::V2025_11_25 {
            Ok(CallToolResult::error(self.message))
        } else {
            Err(RpcError::invalid_params(self.message).into())
        }
    }
}

/// As [`into_result`](InvalidArguments::into_result), before it becomes a result.
impl From<InvalidArguments> for HandlerError {
    fn from(invalid: InvalidArguments) -> Self {
        if invalid.version >= Version::V2025_11_25 {
            Failure::new(&invalid).into()
        } else {
            RpcError::invalid_params(invalid.message).into()
        }
    }
}

/// Error for a result that violates the output schema of its tool (TOOL-015).
///
/// It is meant for the author of the handler. The client receives only [`to_rpc_error`](Self::to_rpc_error).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the result of the tool `{tool}` does not fit its outputSchema: {violations}")]
#[non_exhaustive]
pub struct InvalidToolOutput {
    /// Name of the tool.
    pub tool: String,
    /// Violations of the schema.
    pub violations: Violations,
}

impl InvalidToolOutput {
    /// Returns the error that the client receives.
    #[must_use]
    pub fn to_rpc_error(&self) -> RpcError {
        RpcError::internal("the result of the tool is not what it promises")
    }
}

/// Compiled schemas of a tool.
#[derive(Clone, Default)]
pub(super) struct ToolChecks {
    pub(super) input: Option<Arc<dyn Validate>>,
    pub(super) output: Option<Arc<dyn Validate>>,
}

impl ToolChecks {
    /// Checks the basic form of the schemas of a tool, and compiles them if there is a validator.
    ///
    /// # Errors
    ///
    /// The name of the member (`inputSchema` or `outputSchema`) and the reason why its schema cannot be used.
    pub(super) fn compile(
        tool: &Tool,
        validator: Option<&dyn SchemaValidator>,
    ) -> Result<Self, (&'static str, SchemaError)> {
        let (input, output) = ("inputSchema", "outputSchema");
        let kind = tool.input_schema.member("type");
        if kind.is_none_or(|kind| kind.as_bytes() != b"\"object\"") {
            return Err((input, SchemaError::Shape("has no `\"type\":\"object\"`")));
        }
        if tool.output_schema.as_ref().is_some_and(|s| !s.is_object()) {
            return Err((output, SchemaError::Shape("is not a JSON object")));
        }
        let Some(validator) = validator else { return Ok(Self::default()) };
        Ok(Self {
            input: Some(validator.compile(&tool.input_schema).map_err(|reason| (input, reason))?.into()),
            output: match &tool.output_schema {
                Some(schema) => Some(validator.compile(schema).map_err(|reason| (output, reason))?.into()),
                None => None,
            },
        })
    }

    /// Checks a result against the output schema; tool failures are exempt (TOOL-015).
    pub(super) fn check_result(
        &self,
        tool: &Tool,
        result: &CallToolResult<'_>,
    ) -> Result<(), InvalidToolOutput> {
        if tool.output_schema.is_none() || result.is_failure() {
            return Ok(());
        }
        let checked = check_structured_result(result.structured_content.as_ref(), self.output.as_deref());
        checked.map_err(|violations| InvalidToolOutput { tool: tool.name.clone(), violations })
    }
}

impl fmt::Debug for ToolChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prepared = |check: &Option<Arc<dyn Validate>>| check.is_some();
        f.debug_struct("ToolChecks")
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
    fn input_schema_without_object_type_is_refused_without_validator() {
        let raw = |text: &'static str| RawJson::new(text).expect("JSON");
        for schema in ["{}", "true", "null", r#"{"type":"string"}"#, r#"{"type":["object"]}"#] {
            let error = ToolChecks::compile(&Tool::new("t", raw(schema)), None).expect_err(schema);
            assert_eq!(error.0, "inputSchema");
        }
        let tool = Tool::new("t", raw(r#"{"type":"object"}"#));
        assert!(ToolChecks::compile(&tool, None).is_ok());
        assert!(ToolChecks::compile(&tool.output_schema(raw("true")), None).is_err());
    }
}
