//! Body of the fuzz target `schema`: a schema and values of strangers, on the lines of the input.

use mcp_proto::RawJson;
use mcp_proto::router::SchemaValidator;
use serde_json::Value;

use super::{JsonSchemaValidator, SchemaLimits};

/// Compiles the first line and validates the others.
///
/// # Panics
///
/// Panics if a limit changes a verdict instead of refusing the check, or if a violation names a position that is not in
/// the value.
pub fn schema(data: &[u8]) {
    let mut lines = data.split(|b| *b == b'\n');
    let Ok(schema) = RawJson::new(lines.next().unwrap_or_default().to_vec()) else { return };
    let narrow = SchemaLimits { subschemas: 64, unfolded: 256, steps: 1 << 14, ..SchemaLimits::default() };
    let wide = SchemaLimits { steps: 1 << 22, ..SchemaLimits::default() };
    let narrow = JsonSchemaValidator::with_limits(narrow).compile(&schema);
    let wide = JsonSchemaValidator::with_limits(wide).compile(&schema);
    assert!(narrow.is_err() || wide.is_ok(), "wider limits refuse a schema");
    let Ok(wide) = wide else { return };
    for line in lines {
        let verdict = wide.validate(line);
        if narrow.as_ref().is_ok_and(|narrow| narrow.validate(line).is_ok()) {
            assert!(verdict.is_ok(), "wider limits refuse a value");
        }
        match (verdict, serde_json::from_slice::<Value>(line)) {
            (Ok(()), value) => {
                assert!(value.is_ok(), "a text that is not JSON fits");
                assert!(schema.as_bytes() != b"false", "a value fits the schema `false`");
            }
            (Err(violations), value) => {
                assert!(!violations.is_empty(), "a refusal without a reason");
                let Ok(value) = value else { continue };
                for (pointer, _) in violations.iter().filter(|(pointer, _)| !pointer.ends_with('…')) {
                    assert!(value.pointer(pointer).is_some(), "{pointer} is not in the value");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::schema;
    use crate::fuzz_tests;

    #[test]
    fn schema_target_accepts_seeds_and_noise() {
        fuzz_tests::for_each_variant("schema", schema);
    }
}
