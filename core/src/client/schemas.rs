//! What tools promised of their structured results, and results held against it (TOOL-016).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use core::fmt;

use crate::change::Change;
use crate::raw::RawJson;
use crate::validate::{SchemaError, SchemaValidator, Validate, Violations, promised};

/// The output schemas of a server's tools, as far as its list was seen
///
/// Apart from the engine: whoever wants results checked has one per connection, [learns](Self::learn) each list of tools
/// and [checks](Self::check) each result. A schema is prepared when the first result is held against it. Tools whose
/// schema is not known, or cannot be used, pass.
///
/// At most [`MAX_TOOLS`](Self::MAX_TOOLS) schemas with [`MAX_BYTES`](Self::MAX_BYTES) of names and text are remembered;
/// tools beyond that pass, too. What the validator keeps of a schema that it has prepared is its own affair.
pub struct OutputSchemas {
    validator: Box<dyn SchemaValidator>,
    tools: BTreeMap<String, Schema>,
}

struct Schema {
    text: RawJson,
    /// None until a result was there; then nothing if it cannot be used
    prepared: Option<Option<Box<dyn Validate>>>,
}

/// Why a result was not found to be what its tool promised
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Not the result's fault: the schema cannot be used; told once for each schema (SCHEMA-004, SCHEMA-005)
    Schema(SchemaError),
    /// The result does not fit the schema
    Result(Violations),
}

impl OutputSchemas {
    /// Tools that are remembered at most
    pub const MAX_TOOLS: usize = 4_096;
    /// Bytes of names and schemas that are remembered at most
    pub const MAX_BYTES: usize = 4 << 20;

    /// None known so far
    #[must_use]
    pub fn new(validator: impl SchemaValidator + 'static) -> Self {
        Self { validator: Box::new(validator), tools: BTreeMap::new() }
    }

    /// Takes note of the whole list of tools, as its entries came; what was known before is forgotten
    pub fn learn(&mut self, tools: &[RawJson]) {
        let mut known = core::mem::take(&mut self.tools);
        let mut left = Self::MAX_BYTES;
        for tool in tools {
            let Some(name) = tool.member("name").and_then(|name| name.string()) else { continue };
            let Some(text) = tool.member("outputSchema").filter(|text| text.as_bytes() != b"null") else {
                continue;
            };
            if self.tools.len() >= Self::MAX_TOOLS {
                break;
            }
            let Some(rest) = left.checked_sub(name.len() + text.as_bytes().len()) else { continue };
            left = rest;
            let schema = match known.remove(&name) {
                // What is prepared stays so.
                Some(same) if same.text == text => same,
                _ => Schema { text: text.compact(), prepared: None },
            };
            self.tools.insert(name, schema);
        }
    }

    /// Forgets them all, if it is the tools that have changed
    pub fn notice(&mut self, change: &Change) {
        if *change == Change::Tools {
            self.tools.clear();
        }
    }

    /// Holds the result object of a call against what `tool` promised; failures (`isError`) promise nothing
    ///
    /// # Errors
    ///
    /// What is wrong with the result, or with the schema.
    pub fn check(&mut self, tool: &str, result: &RawJson) -> Result<(), Misfit> {
        let Some(schema) = self.tools.get_mut(tool) else { return Ok(()) };
        if result.member("isError").is_some_and(|is| is.as_bytes() == b"true") {
            return Ok(());
        }
        let prepared = match &mut schema.prepared {
            Some(prepared) => prepared,
            place => match self.validator.compile(&schema.text) {
                Ok(made) => place.insert(Some(made)),
                Err(why) => {
                    *place = Some(None);
                    return Err(Misfit::Schema(why));
                }
            },
        };
        let Some(prepared) = prepared else { return Ok(()) };
        promised(result.member("structuredContent").as_ref(), Some(&**prepared)).map_err(Misfit::Result)
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

    /// `{"const":TEXT}` wants that very text; counts what it prepares
    struct Const(Arc<AtomicUsize>);

    struct Only(RawJson);

    impl SchemaValidator for Const {
        fn compile(&self, schema: &RawJson) -> Result<Box<dyn Validate>, SchemaError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let only = schema.member("const").ok_or(SchemaError::Shape("has no `const`"))?;
            Ok(Box::new(Only(only)))
        }
    }

    impl Validate for Only {
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
        (OutputSchemas::new(Const(Arc::clone(&made))), made)
    }

    // covers: TOOL-015, TOOL-016
    #[test]
    fn results_are_held_against_what_was_promised() {
        let (mut schemas, made) = schemas();
        let list = [
            tool("one", r#"{"const":1}"#),
            tool("odd", r#"{"$schema":"x"}"#),
            tool("none", "null"),
            raw(r#"{"name":"plain"}"#),
            raw(r#"{"name":7,"outputSchema":{}}"#),
            raw("[]"),
        ];
        schemas.learn(&list);
        assert_eq!(made.load(Ordering::Relaxed), 0, "prepared when there is a result");
        let mut check = |tool: &str, result: &str| schemas.check(tool, &raw(result));
        assert_eq!(check("one", r#"{"content":[],"structuredContent":1}"#), Ok(()));
        let wrong = check("one", r#"{"structuredContent":2}"#).expect_err("another value");
        assert!(matches!(wrong, Misfit::Result(v) if v.iter().eq([("", "is another value")])));
        let none = check("one", r#"{"content":[]}"#).expect_err("no value");
        assert!(matches!(none, Misfit::Result(v) if v.iter().eq([("", "there is no structured result")])));
        assert_eq!(check("one", r#"{"content":[],"isError":true}"#), Ok(()), "a failure promises nothing");
        for unknown in ["plain", "none", "other"] {
            assert_eq!(check(unknown, "{}"), Ok(()), "{unknown}");
        }
        // Told once, and the result passes.
        let bad = Misfit::Schema(SchemaError::Shape("has no `const`"));
        assert_eq!(check("odd", r#"{"structuredContent":2}"#), Err(bad));
        assert_eq!(check("odd", r#"{"structuredContent":2}"#), Ok(()));
        assert_eq!(made.load(Ordering::Relaxed), 2);
        // The same list again: nothing is prepared again, what is gone is forgotten.
        schemas.learn(&list[..1]);
        assert!(schemas.check("one", &raw("{}")).is_err());
        assert_eq!((made.load(Ordering::Relaxed), format!("{schemas:?}")), (2, r#"["one"]"#.into()));
        schemas.learn(&[tool("one", r#"{"const":2}"#)]);
        assert_eq!(schemas.check("one", &raw(r#"{"structuredContent":2}"#)), Ok(()));
    }

    // covers: TOOL-019
    #[test]
    fn news_of_the_tools_end_what_was_promised() {
        let (mut schemas, _) = schemas();
        schemas.learn(&[tool("one", r#"{"const":1}"#)]);
        schemas.notice(&Change::Prompts);
        assert!(schemas.check("one", &raw("{}")).is_err());
        schemas.notice(&Change::Tools);
        assert_eq!(schemas.check("one", &raw("{}")), Ok(()));
    }

    #[test]
    fn only_so_many_are_remembered() {
        let (mut schemas, _) = schemas();
        let many: Vec<RawJson> =
            (0..=OutputSchemas::MAX_TOOLS).map(|n| tool(&format!("{n}"), "{}")).collect();
        schemas.learn(&many);
        assert_eq!(schemas.tools.len(), OutputSchemas::MAX_TOOLS);
        let large = format!("\"{}\"", "x".repeat(OutputSchemas::MAX_BYTES));
        schemas.learn(&[tool("large", &large), tool("small", "{}")]);
        assert_eq!(format!("{schemas:?}"), r#"["small"]"#);
    }
}
