//! Validation of values against JSON Schemas, by the crate `jsonschema` (feature `validate`).
//!
//! It is meant for tools whose arguments and results come from other programs. Pass a [`JsonSchemaValidator`] to
//! [`Router::validator`](mcp_proto::router::Router::validator). Guarantees and restrictions:
//!
//! - Dialects are 2020-12, which is the default without `$schema`, and draft-07. Others are refused by name.
//! - Nothing is fetched. A `$ref` must begin with `#`; others are refused, as is an `$id` below the root.
//! - `format` is an annotation and is not enforced.
//! - Patterns are matched in linear time. Patterns that need more (look-around, back-references) are refused.
//! - Schemas and values have [limits](SchemaLimits). Validation costs at most the product of both. This includes
//!   recursive schemas, and schemas whose `unevaluatedProperties` or `unevaluatedItems` evaluates other subschemas
//!   again. A longer `enum` or pattern costs more.
//! - Violations name the position in the value as a JSON pointer, and never repeat the value. For a recursive schema
//!   they name only the top-level member. If finding positions would cost too much, they name none.

mod cost;
#[cfg(test)]
mod cost_tests;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;

use alloc::boxed::Box;
use alloc::string::{String, ToString};

use jsonschema::{Draft, PatternOptions, ValidationOptions, Validator, ValidatorMap};
use mcp_proto::RawJson;
use mcp_proto::router::{SchemaError, SchemaValidator, Validate, Violations};
use serde_json::Value;

use crate::distinct_members::parse;
use crate::schema::cost::{SchemaCost, value_size};

/// A validator that compiles JSON Schemas.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonSchemaValidator {
    limits: SchemaLimits,
}

/// Limits of a schema and of the work to validate a value (SCHEMA-009).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SchemaLimits {
    /// Bytes of the schema's text (256 KiB).
    pub bytes: usize,
    /// Number of subschemas (4096).
    pub subschemas: usize,
    /// Nesting depth of subschemas, also through `$ref` (128).
    pub depth: usize,
    /// Subschemas that may apply to one value (65,536).
    ///
    /// Each `$ref` counts as its target, and each entry of `enum` and `required` as a subschema. Subschemas that
    /// `unevaluatedProperties` or `unevaluatedItems` evaluates again count again. So a few of these keywords nested for
    /// the same value exceed the limit.
    pub unfolded: u64,
    /// Bytes of the value (4 MiB).
    pub value_bytes: usize,
    /// Steps of one validation (2^28, which takes about a second).
    ///
    /// This is the number of applicable subschemas times the nodes of the value, plus the lengths of the patterns
    /// (`a{9}` is as long as nine `a`) times the bytes of the value's strings.
    pub steps: u64,
}

impl Default for SchemaLimits {
    fn default() -> Self {
        Self {
            bytes: 256 << 10,
            subschemas: 4096,
            depth: 128,
            unfolded: 1 << 16,
            value_bytes: 4 << 20,
            steps: 1 << 28,
        }
    }
}

impl JsonSchemaValidator {
    /// Creates a validator with the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a validator with other limits.
    #[must_use]
    pub const fn with_limits(limits: SchemaLimits) -> Self {
        Self { limits }
    }
}

/// Returns the dialect that the schema declares.
fn dialect(schema: &Value) -> Result<Draft, SchemaError> {
    let Some(named) = schema.get("$schema") else { return Ok(Draft::Draft202012) };
    let Some(named) = named.as_str() else {
        return Err(SchemaError::Shape("has a `$schema` that is not a string"));
    };
    let plain = named.trim_end_matches('#');
    match plain.strip_prefix("https://").or_else(|| plain.strip_prefix("http://")) {
        Some("json-schema.org/draft/2020-12/schema") => Ok(Draft::Draft202012),
        Some("json-schema.org/draft-07/schema") => Ok(Draft::Draft7),
        _ => Err(SchemaError::Dialect(named.chars().take(200).collect())),
    }
}

impl SchemaValidator for JsonSchemaValidator {
    fn compile(&self, schema: &RawJson) -> Result<Box<dyn Validate>, SchemaError> {
        if schema.as_bytes().len() > self.limits.bytes {
            return Err(SchemaError::Limit("the length of its text"));
        }
        let value = parse(schema.as_bytes()).map_err(SchemaError::Invalid)?;
        let draft = dialect(&value)?;
        let cost = SchemaCost::estimate(&value, &self.limits)?;
        let build = options(draft).build(&value);
        let validator = build.map_err(|e| SchemaError::Invalid(e.masked().to_string()))?;
        let members = if cost.is_recursive {
            // Collecting violations walks a recursive schema again for each branch, while a yes-or-no check does not.
            // So each member is checked by itself.
            let members = options(draft).build_map(&value);
            Some(members.map_err(|e| SchemaError::Invalid(e.masked().to_string()))?)
        } else {
            None
        };
        Ok(Box::new(CompiledSchema {
            validator,
            member_validators: members,
            schema: value,
            limits: self.limits,
            cost,
        }))
    }
}

pub(crate) fn options(draft: Draft) -> ValidationOptions<'static> {
    jsonschema::options()
        .with_draft(draft)
        .offline()
        .should_validate_formats(false)
        .with_pattern_options(PatternOptions::regex().size_limit(1 << 20).dfa_size_limit(1 << 20))
}

struct CompiledSchema {
    validator: Validator,
    /// For a recursive schema: the validators of its subschemas, by JSON pointer.
    member_validators: Option<ValidatorMap>,
    schema: Value,
    limits: SchemaLimits,
    cost: SchemaCost,
}

impl Validate for CompiledSchema {
    fn validate(&self, value: &[u8]) -> Result<(), Violations> {
        let mut violations = Violations::new();
        if value.len() > self.limits.value_bytes {
            violations.push("", "is too long to be checked");
            return Err(violations);
        }
        let value = match parse(value) {
            Ok(value) => value,
            Err(message) => {
                violations.push("", &message);
                return Err(violations);
            }
        };
        let size = value_size(&value);
        if self.cost.validation.total(size) > self.limits.steps {
            violations.push("", "is too large to be checked against such a schema");
            return Err(violations);
        }
        if self.validator.is_valid(&value) {
            return Ok(());
        }
        match &self.member_validators {
            Some(members) => self.check_members(members, &value, &mut violations),
            // Collecting positions may cost as much as the check again, and no more.
            None if self.cost.reporting.total(size) > self.limits.steps => {}
            None => {
                for error in self.validator.iter_errors(&value).take(Violations::MAX + 1) {
                    let what = error.masked().to_string();
                    violations.push(error.instance_path().as_str(), &what);
                }
            }
        }
        if violations.is_empty() {
            violations.push("", "does not fit the schema");
        }
        Err(violations)
    }
}

impl CompiledSchema {
    /// Reports members that do not fit, and required members that are missing.
    fn check_members(&self, members: &ValidatorMap, value: &Value, violations: &mut Violations) {
        let Some(object) = value.as_object() else { return };
        let required = self.schema.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !object.contains_key(name) {
                violations.push("", &alloc::format!("\"{name}\" is a required property"));
            }
        }
        for (name, member) in object {
            let name = name.replace('~', "~0").replace('/', "~1");
            let part = members.get(&alloc::format!("#/properties/{}", percent_encode(&name)));
            if part.is_some_and(|part| !part.is_valid(member)) {
                violations.push(&alloc::format!("/{name}"), "does not fit its schema");
            }
        }
    }
}

/// Returns `name` encoded for the fragment of a URI.
fn percent_encode(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for b in name.bytes() {
        if b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?".contains(&b) {
            out.push(char::from(b));
        } else {
            out.push_str(&alloc::format!("%{b:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec::Vec;
    use serde_json::json;

    fn compile(schema: &Value) -> Result<Box<dyn Validate>, SchemaError> {
        JsonSchemaValidator::new().compile(&RawJson::new(schema.to_string()).expect("JSON"))
    }

    fn violations(schema: &Value, value: &Value) -> String {
        let compiled = compile(schema).unwrap_or_else(|e| panic!("{schema}: {e}"));
        compiled.validate(value.to_string().as_bytes()).map_or_else(|v| v.to_string(), |()| String::new())
    }

    // covers: TOOL-015, TOOL-016, TOOL-022
    #[test]
    fn violations_name_the_position_and_not_the_value() {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"items": {"maxLength": 3}}},
            "required": ["c"],
        });
        assert_eq!(violations(&schema, &json!({"a": 1, "c": null})), "");
        let found = violations(&schema, &json!({"a": "secret", "b": ["x", "secrets"]}));
        assert!(found.contains("/a: ") && found.contains("/b/1: ") && found.contains("\"c\""), "{found}");
        assert!(!found.contains("secret"), "{found}");
        let many = json!({"type": "array", "items": false});
        let found = violations(&many, &json!(alloc::vec![1; 1_000]));
        assert!(found.ends_with("; and more") && found.len() < 2_000);
    }

    // covers: SCHEMA-001, SCHEMA-002, SCHEMA-003, SCHEMA-004, SCHEMA-005
    #[test]
    fn unknown_dialect_is_refused_by_name() {
        // A tuple in the syntax of each dialect.
        let tuple = |schema: Option<&str>, keyword: &str| {
            let mut s = json!({"type": "array"});
            s[keyword] = json!([{"type": "string"}]);
            if let Some(schema) = schema {
                s["$schema"] = json!(schema);
            }
            violations(&s, &json!([1])).is_empty()
        };
        assert!(!tuple(None, "prefixItems"));
        assert!(!tuple(Some("https://json-schema.org/draft/2020-12/schema"), "prefixItems"));
        for draft7 in ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft-07/schema"] {
            assert!(!tuple(Some(draft7), "items") && tuple(Some(draft7), "prefixItems"));
        }
        for other in
            ["http://json-schema.org/draft-04/schema#", "https://spec.openapis.org/oas/3.1/dialect/base", ""]
        {
            let error = compile(&json!({"$schema": other})).err().expect("another dialect");
            assert_eq!(error, SchemaError::Dialect(other.into()));
        }
        assert!(compile(&json!({"$schema": 7})).is_err());
        for invalid in [json!({"type": "int"}), json!({"required": "a"}), json!({"pattern": "("}), json!(3)] {
            assert!(compile(&invalid).is_err(), "{invalid}");
        }
    }

    // covers: SCHEMA-006, SCHEMA-008
    #[test]
    fn remote_reference_is_refused() {
        for remote in
            ["https://example.com/s", "http://127.0.0.1/", "file:///etc/passwd", "other.json", "//x", "?", ""]
        {
            let schema = json!({"type": "object", "properties": {"a": {"$ref": remote}}});
            assert_eq!(compile(&schema).err(), Some(SchemaError::Reference(remote.into())));
        }
        assert!(compile(&json!({"$ref": "#/nowhere"})).is_err());
        assert!(compile(&json!({"properties": {"a": {"$id": "https://example.com/s"}}})).is_err());
        let local = json!({"$defs": {"s": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/s"}}});
        assert!(violations(&local, &json!({"a": 1})).starts_with("/a: "));
        // Members that only look like references.
        let data =
            json!({"enum": [{"$ref": "https://example.com"}], "properties": {"$ref": {"type": "string"}}});
        assert_eq!(violations(&data, &json!({"$ref": "https://example.com"})), "");
    }

    // covers: SCHEMA-009
    #[test]
    fn expensive_schema_is_refused_or_bounded() {
        // Each definition uses the next one twice: 2^60 paths in sixty lines.
        let mut defs = serde_json::Map::new();
        for i in 0..60 {
            let next = json!({"$ref": format!("#/$defs/d{}", i + 1)});
            defs.insert(format!("d{i}"), json!({"allOf": [next.clone(), next]}));
        }
        defs.insert("d60".into(), json!({"type": "string"}));
        let schema = json!({"$defs": defs, "$ref": "#/$defs/d0"});
        assert!(matches!(compile(&schema), Err(SchemaError::Limit(_))));

        // Two branches that differ below the recursion: paths double with each level of the value.
        let node = |kind: &str| json!({"properties": {"next": {"$ref": "#"}, "kind": {"const": kind}}});
        let schema =
            json!({"type": "object", "anyOf": [node("a"), node("b")], "properties": {"next": {"$ref": "#"}}});
        let mut value = json!({"kind": "c"});
        for _ in 0..100 {
            value = json!({"kind": "a", "next": value});
        }
        assert_eq!(violations(&schema, &value), "/next: does not fit its schema");

        let chain = |n: usize| {
            let link = |i| (format!("d{i}"), json!({"$ref": format!("#/$defs/d{}", i + 1)}));
            let mut defs: serde_json::Map<_, _> = (0..n).map(link).collect();
            defs.insert(format!("d{n}"), json!({}));
            json!({"$defs": defs, "$ref": "#/$defs/d0"})
        };
        assert!(compile(&chain(100)).is_ok() && compile(&chain(200)).is_err());
        let wide: Vec<Value> = (0..5_000).map(|_| json!({})).collect();
        assert!(compile(&json!({"anyOf": wide})).is_err());
        assert!(compile(&json!({"description": "x".repeat(300 << 10)})).is_err());
        let pattern = json!({"pattern": "^(a+)+$"});
        assert!(!violations(&pattern, &json!("a".repeat(100_000) + "b")).is_empty());
        assert!(compile(&json!({"pattern": "(?=a)b"})).is_err(), "look-ahead needs more than linear time");
        for cycle in [json!({"$ref": "#"}), json!({"allOf": [{"$ref": "#"}]}), json!({"not": {"$ref": "#"}})]
        {
            let _ = compile(&cycle).map(|p| p.validate(b"{}"));
        }
        let limits = SchemaLimits { value_bytes: 10, ..SchemaLimits::default() };
        let compiled = JsonSchemaValidator::with_limits(limits)
            .compile(&RawJson::new("true").expect("JSON"))
            .expect("a schema");
        assert!(compiled.validate(b"[1, 2, 3, 4]").is_err());
        let limits = SchemaLimits { steps: 100, ..SchemaLimits::default() };
        let schema = RawJson::new(r#"{"items":{"allOf":[true,true,true]}}"#).expect("JSON");
        let compiled = JsonSchemaValidator::with_limits(limits).compile(&schema).expect("a schema");
        assert!(compiled.validate(b"[1,2,3]").is_ok());
        assert!(compiled.validate(format!("[{}1]", "1,".repeat(50)).as_bytes()).is_err());
    }

    #[test]
    fn duplicate_member_is_refused_at_any_depth() {
        let compiled = compile(&json!({"type": "object"})).expect("a schema");
        let twice = compiled.validate(br#"{"a":{"b":1,"\u0062":2}}"#).expect_err("twice");
        assert!(twice.to_string().contains("`b`"), "{twice}");
    }
}
