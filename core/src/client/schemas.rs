//! Validation of structured results against the output schemas of tools (TOOL-016).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use core::fmt;

use crate::change::Change;
use crate::raw::RawJson;
use crate::validate::{SchemaError, SchemaValidator, Validate, Violations, check_structured_result};

/// The output schemas of a server's tools.
///
/// Independent of the engine: create one per connection, pass each complete list of tools to
/// [`set_tools`](Self::set_tools), and [`check`](Self::check) each result. A schema is compiled when its first result
/// is checked. Results of tools whose schema is unknown or unusable pass.
///
/// At most [`MAX_TOOLS`](Self::MAX_TOOLS) schemas with [`MAX_BYTES`](Self::MAX_BYTES) of names and text are kept.
/// Results of further tools pass. The memory of compiled schemas is up to the validator.
pub struct OutputSchemas {
    validator: Box<dyn SchemaValidator>,
    tools: BTreeMap<String, ToolSchema>,
}

struct ToolSchema {
    text: RawJson,
    /// `None` before the first result; `Some(None)` if the schema is unusable.
    prepared: Option<Option<Box<dyn Validate>>>,
}

/// The reason why a result was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputMismatch {
    /// The schema is unusable. Reported once per schema (SCHEMA-004, SCHEMA-005).
    Schema(SchemaError),
    /// The result does not fit the schema.
    Result(Violations),
}

impl OutputSchemas {
    /// Maximum number of tools.
    pub const MAX_TOOLS: usize = 4_096;
    /// Maximum number of bytes of names and schemas.
    pub const MAX_BYTES: usize = 4 << 20;

    /// Creates an empty table.
    #[must_use]
    pub fn new(validator: impl SchemaValidator + 'static) -> Self {
        Self { validator: Box::new(validator), tools: BTreeMap::new() }
    }

    /// Replaces the table by the schemas of the complete list of tools.
    pub fn set_tools(&mut self, tools: &[RawJson]) {
        let mut known = core::mem::take(&mut self.tools);
        let mut remaining_bytes = Self::MAX_BYTES;
        for tool in tools {
            let Some(name) = tool.member("name").and_then(|name| name.string()) else { continue };
            let Some(text) = tool.member("outputSchema").filter(|text| text.as_bytes() != b"null") else {
                continue;
            };
            if self.tools.len() >= Self::MAX_TOOLS {
                break;
            }
            let Some(remaining) = remaining_bytes.checked_sub(name.len() + text.as_bytes().len()) else {
                // Smaller schemas may follow, and they still fit.
                continue;
            };
            remaining_bytes = remaining;
            let schema = match known.remove(&name) {
                // An unchanged schema stays compiled.
                Some(same) if same.text == text => same,
                _ => ToolSchema { text: text.compact(), prepared: None },
            };
            self.tools.insert(name, schema);
        }
    }

    /// Clears the table if the list of tools has changed.
    pub fn handle_change(&mut self, change: &Change) {
        if *change == Change::Tools {
            self.tools.clear();
        }
    }

    /// Checks the result object of a call against the schema of `tool`. Failed results (`isError`) pass.
    ///
    /// # Errors
    ///
    /// [`OutputMismatch`] if the result does not fit or the schema is unusable.
    pub fn check(&mut self, tool: &str, result: &RawJson) -> Result<(), OutputMismatch> {
        let Some(schema) = self.tools.get_mut(tool) else { return Ok(()) };
        if result.member("isError").is_some_and(|is| is.as_bytes() == b"true") {
            return Ok(());
        }
        let prepared = match &mut schema.prepared {
            Some(prepared) => prepared,
            slot => match self.validator.compile(&schema.text) {
                Ok(compiled) => slot.insert(Some(compiled)),
                Err(error) => {
                    // Kept as unusable, so that it is compiled and reported once.
                    *slot = Some(None);
                    return Err(OutputMismatch::Schema(error));
                }
            },
        };
        let Some(prepared) = prepared else { return Ok(()) };
        check_structured_result(result.member("structuredContent").as_ref(), Some(&**prepared))
            .map_err(OutputMismatch::Result)
    }
}

impl fmt::Debug for OutputSchemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tools.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Validator for `{"const":TEXT}`, which accepts that text only; counts what it compiles.
    struct ConstValidator(Arc<AtomicUsize>);

    struct ConstSchema(RawJson);

    impl SchemaValidator for ConstValidator {
        fn compile(&self, schema: &RawJson) -> Result<Box<dyn Validate>, SchemaError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let only = schema.member("const").ok_or(SchemaError::Shape("has no `const`"))?;
            Ok(Box::new(ConstSchema(only)))
        }
    }

    impl Validate for ConstSchema {
        fn validate(&self, value: &[u8]) -> Result<(), Violations> {
            if value == self.0.as_bytes() {
                return Ok(());
            }
            let mut violations = Violations::new();
            violations.push("", "is another value");
            Err(violations)
        }
    }

    fn raw(text: impl Into<String>) -> RawJson {
        RawJson::new(text.into()).expect("JSON")
    }

    fn tool(name: &str, schema: &str) -> RawJson {
        raw(format!(r#"{{"name":"{name}","outputSchema":{schema}}}"#))
    }

    fn schemas() -> (OutputSchemas, Arc<AtomicUsize>) {
        let made = Arc::new(AtomicUsize::new(0));
        (OutputSchemas::new(ConstValidator(Arc::clone(&made))), made)
    }

    // covers: TOOL-015, TOOL-016
    #[test]
    fn results_are_checked_against_output_schemas() {
        let (mut schemas, made) = schemas();
        let list = [
            tool("one", r#"{"const":1}"#),
            tool("odd", r#"{"$schema":"x"}"#),
            tool("none", "null"),
            raw(r#"{"name":"plain"}"#),
            raw(r#"{"name":7,"outputSchema":{}}"#),
            raw("[]"),
        ];
        schemas.set_tools(&list);
        assert_eq!(made.load(Ordering::Relaxed), 0, "compiled with the first result");
        let mut check = |tool: &str, result: &str| schemas.check(tool, &raw(result));
        assert_eq!(check("one", r#"{"content":[],"structuredContent":1}"#), Ok(()));
        let wrong = check("one", r#"{"structuredContent":2}"#).expect_err("another value");
        assert!(matches!(wrong, OutputMismatch::Result(v) if v.iter().eq([("", "is another value")])));
        let none = check("one", r#"{"content":[]}"#).expect_err("no value");
        assert!(
            matches!(none, OutputMismatch::Result(v) if v.iter().eq([("", "there is no structured result")]))
        );
        assert_eq!(check("one", r#"{"content":[],"isError":true}"#), Ok(()), "a failed result passes");
        for unknown in ["plain", "none", "other"] {
            assert_eq!(check(unknown, "{}"), Ok(()), "{unknown}");
        }
        // Reported once; the result passes afterwards.
        let bad = OutputMismatch::Schema(SchemaError::Shape("has no `const`"));
        assert_eq!(check("odd", r#"{"structuredContent":2}"#), Err(bad));
        assert_eq!(check("odd", r#"{"structuredContent":2}"#), Ok(()));
        assert_eq!(made.load(Ordering::Relaxed), 2);
        // The same list again: nothing is compiled again, and removed tools are forgotten.
        schemas.set_tools(&list[..1]);
        assert!(schemas.check("one", &raw("{}")).is_err());
        assert_eq!((made.load(Ordering::Relaxed), format!("{schemas:?}")), (2, r#"["one"]"#.into()));
        schemas.set_tools(&[tool("one", r#"{"const":2}"#)]);
        assert_eq!(schemas.check("one", &raw(r#"{"structuredContent":2}"#)), Ok(()));
    }

    // covers: TOOL-019
    #[test]
    fn tools_change_clears_output_schemas() {
        let (mut schemas, _) = schemas();
        schemas.set_tools(&[tool("one", r#"{"const":1}"#)]);
        schemas.handle_change(&Change::Prompts);
        assert!(schemas.check("one", &raw("{}")).is_err());
        schemas.handle_change(&Change::Tools);
        assert_eq!(schemas.check("one", &raw("{}")), Ok(()));
    }

    #[test]
    fn output_schemas_are_bounded() {
        let (mut schemas, _) = schemas();
        let many: Vec<RawJson> =
            (0..=OutputSchemas::MAX_TOOLS).map(|n| tool(&format!("{n}"), "{}")).collect();
        schemas.set_tools(&many);
        assert_eq!(schemas.tools.len(), OutputSchemas::MAX_TOOLS);
        let large = format!("\"{}\"", "x".repeat(OutputSchemas::MAX_BYTES));
        schemas.set_tools(&[tool("large", &large), tool("small", "{}")]);
        assert_eq!(format!("{schemas:?}"), r#"["small"]"#);
    }

    #[test]
    fn names_and_schemas_have_four_megabytes() {
        let text = |length: usize| format!(r#""{}""#, "x".repeat(length - 2));
        let (mut schemas, _) = schemas();
        let half = OutputSchemas::MAX_BYTES / 2;
        schemas.set_tools(&[tool("a", &text(half - 1)), tool("b", &text(half - 1)), tool("c", "7")]);
        assert_eq!(format!("{schemas:?}"), r#"["a", "b"]"#);
    }
}
