//! Values against JSON Schemas, by the crate `jsonschema` (feature `validate`)
//!
//! For tools whose arguments and results come from elsewhere: a [`Schemas`] is given to
//! [`Router::validator`](mcp_proto::router::Router::validator). What it promises, and what it does not take:
//!
//! - Dialects are 2020-12, which a schema without `$schema` is of, and draft-07. Others are refused by name.
//! - Nothing is fetched. A `$ref` begins with `#`; all others are refused, as is an `$id` below the root.
//! - `format` says something and is not enforced.
//! - Patterns are matched in linear time; those that need more (look-around, back-references) are refused.
//! - Schemas and values have [bounds](Bounds), and checking costs at most the product of both: recursive schemas included,
//!   and those in which `unevaluatedProperties` or `unevaluatedItems` has other subschemas asked again. The longer an
//!   `enum` or a pattern is, the more it counts.
//! - Findings name the place in the value as a JSON pointer. They do not repeat the value. For recursive schemas they
//!   name a member of the value and not what is wrong within it; where looking for places would cost too much, none.

use alloc::boxed::Box;
use alloc::string::{String, ToString};

use jsonschema::{Draft, PatternOptions, ValidationOptions, Validator, ValidatorMap};
use mcp_proto::RawJson;
use mcp_proto::router::{SchemaError, SchemaValidator, Validate, Violations};
use serde_json::Value;

use crate::validate_bounds::{Survey, no_duplicates, size};

/// Prepares schemas
#[derive(Clone, Copy, Debug, Default)]
pub struct Schemas {
    bounds: Bounds,
}

/// What a schema may cost (SCHEMA-009)
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Bounds {
    /// Bytes of its text (256 KiB)
    pub bytes: usize,
    /// Subschemas in it (4096)
    pub subschemas: usize,
    /// How deep subschemas stand in each other, also by way of `$ref` (128)
    pub depth: usize,
    /// Subschemas that one value may have to be seen by, each `$ref` counting as what it refers to, and entries of `enum`
    /// and `required` like subschemas (65,536)
    ///
    /// What `unevaluatedProperties` and `unevaluatedItems` have asked again counts again: more than a few of them within
    /// each other, for the same value, are too much.
    pub unfolded: u64,
    /// Bytes of the value (4 MiB)
    pub value: usize,
    /// What the schema unfolds to times what the value consists of, and the lengths of its patterns (`a{9}` being as long
    /// as nine `a`) times the bytes of its strings (2^28: about a second)
    pub steps: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            bytes: 256 << 10,
            subschemas: 4096,
            depth: 128,
            unfolded: 1 << 16,
            value: 4 << 20,
            steps: 1 << 28,
        }
    }
}

impl Schemas {
    /// With the usual bounds
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With other bounds
    #[must_use]
    pub const fn with_bounds(bounds: Bounds) -> Self {
        Self { bounds }
    }
}

/// The dialect that a schema says it is of
fn dialect(schema: &Value) -> Result<Draft, SchemaError> {
    let Some(named) = schema.get("$schema") else { return Ok(Draft::Draft202012) };
    let Some(named) = named.as_str() else {
        return Err(SchemaError::Shape("has a `$schema` that is no string"));
    };
    let plain = named.trim_end_matches('#');
    match plain.strip_prefix("https://").or_else(|| plain.strip_prefix("http://")) {
        Some("json-schema.org/draft/2020-12/schema") => Ok(Draft::Draft202012),
        Some("json-schema.org/draft-07/schema") => Ok(Draft::Draft7),
        _ => Err(SchemaError::Dialect(named.chars().take(200).collect())),
    }
}

impl SchemaValidator for Schemas {
    fn compile(&self, schema: &RawJson) -> Result<Box<dyn Validate>, SchemaError> {
        if schema.as_bytes().len() > self.bounds.bytes {
            return Err(SchemaError::Limit("the length of its text"));
        }
        let value = no_duplicates(schema.as_bytes()).map_err(SchemaError::Invalid)?;
        let draft = dialect(&value)?;
        let survey = Survey::of(&value, &self.bounds)?;
        let build = options(draft).build(&value);
        let whole = build.map_err(|e| SchemaError::Invalid(e.masked().to_string()))?;
        let parts = if survey.recursive {
            // Looking for what is wrong goes over a recursive schema anew for each branch; asking whether all is right
            // does not. So each member is asked for by itself.
            let parts = options(draft).build_map(&value);
            Some(parts.map_err(|e| SchemaError::Invalid(e.masked().to_string()))?)
        } else {
            None
        };
        Ok(Box::new(Prepared { whole, parts, schema: value, bounds: self.bounds, survey }))
    }
}

pub(crate) fn options(draft: Draft) -> ValidationOptions<'static> {
    jsonschema::options()
        .with_draft(draft)
        .offline()
        .should_validate_formats(false)
        .with_pattern_options(PatternOptions::regex().size_limit(1 << 20).dfa_size_limit(1 << 20))
}

struct Prepared {
    whole: Validator,
    /// For a recursive schema its parts, by their places
    parts: Option<ValidatorMap>,
    schema: Value,
    bounds: Bounds,
    survey: Survey,
}

impl Validate for Prepared {
    fn validate(&self, value: &[u8]) -> Result<(), Violations> {
        let mut violations = Violations::new();
        if value.len() > self.bounds.value {
            violations.push("", "is too long to be checked");
            return Err(violations);
        }
        let value = match no_duplicates(value) {
            Ok(value) => value,
            Err(why) => {
                violations.push("", &why);
                return Err(violations);
            }
        };
        let size = size(&value);
        if self.survey.valid.of(size) > self.bounds.steps {
            violations.push("", "is too large to be checked against such a schema");
            return Err(violations);
        }
        if self.whole.is_valid(&value) {
            return Ok(());
        }
        match &self.parts {
            Some(parts) => self.roughly(parts, &value, &mut violations),
            // Places are worth as much again, and no more.
            None if self.survey.find.of(size) > self.bounds.steps => {}
            None => {
                for error in self.whole.iter_errors(&value).take(Violations::MAX + 1) {
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

impl Prepared {
    /// Finds the members that do not fit, and those that are missing
    fn roughly(&self, parts: &ValidatorMap, value: &Value, violations: &mut Violations) {
        let Some(members) = value.as_object() else { return };
        let required = self.schema.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                violations.push("", &alloc::format!("\"{name}\" is a required property"));
            }
        }
        for (name, member) in members {
            let name = name.replace('~', "~0").replace('/', "~1");
            let part = parts.get(&alloc::format!("#/properties/{}", percent(&name)));
            if part.is_some_and(|part| !part.is_valid(member)) {
                violations.push(&alloc::format!("/{name}"), "does not fit its schema");
            }
        }
    }
}

/// A name as it stands in the fragment of a URI
fn percent(name: &str) -> String {
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

    fn prepare(schema: &Value) -> Result<Box<dyn Validate>, SchemaError> {
        Schemas::new().compile(&RawJson::new(schema.to_string()).expect("JSON"))
    }

    fn findings(schema: &Value, value: &Value) -> String {
        let prepared = prepare(schema).unwrap_or_else(|e| panic!("{schema}: {e}"));
        prepared.validate(value.to_string().as_bytes()).map_or_else(|v| v.to_string(), |()| String::new())
    }

    // covers: TOOL-015, TOOL-016, TOOL-022
    #[test]
    fn findings_name_the_place_and_not_the_value() {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"items": {"maxLength": 3}}},
            "required": ["c"],
        });
        assert_eq!(findings(&schema, &json!({"a": 1, "c": null})), "");
        let found = findings(&schema, &json!({"a": "secret", "b": ["x", "secrets"]}));
        assert!(found.contains("/a: ") && found.contains("/b/1: ") && found.contains("\"c\""), "{found}");
        assert!(!found.contains("secret"), "{found}");
        let many = json!({"type": "array", "items": false});
        let found = findings(&many, &json!(alloc::vec![1; 1_000]));
        assert!(found.ends_with("; and more") && found.len() < 2_000);
    }

    // covers: SCHEMA-001, SCHEMA-002, SCHEMA-003, SCHEMA-004, SCHEMA-005
    #[test]
    fn dialects_are_known_or_refused_by_name() {
        // A tuple, as the dialects spell it.
        let tuple = |schema: Option<&str>, keyword: &str| {
            let mut s = json!({"type": "array"});
            s[keyword] = json!([{"type": "string"}]);
            if let Some(schema) = schema {
                s["$schema"] = json!(schema);
            }
            findings(&s, &json!([1])).is_empty()
        };
        assert!(!tuple(None, "prefixItems"));
        assert!(!tuple(Some("https://json-schema.org/draft/2020-12/schema"), "prefixItems"));
        for draft7 in ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft-07/schema"] {
            assert!(!tuple(Some(draft7), "items") && tuple(Some(draft7), "prefixItems"));
        }
        for other in
            ["http://json-schema.org/draft-04/schema#", "https://spec.openapis.org/oas/3.1/dialect/base", ""]
        {
            let error = prepare(&json!({"$schema": other})).err().expect("another dialect");
            assert_eq!(error, SchemaError::Dialect(other.into()));
        }
        assert!(prepare(&json!({"$schema": 7})).is_err());
        for invalid in [json!({"type": "int"}), json!({"required": "a"}), json!({"pattern": "("}), json!(3)] {
            assert!(prepare(&invalid).is_err(), "{invalid}");
        }
    }

    // covers: SCHEMA-006, SCHEMA-008
    #[test]
    fn nothing_is_fetched() {
        for away in
            ["https://example.com/s", "http://127.0.0.1/", "file:///etc/passwd", "other.json", "//x", "?", ""]
        {
            let schema = json!({"type": "object", "properties": {"a": {"$ref": away}}});
            assert_eq!(prepare(&schema).err(), Some(SchemaError::Reference(away.into())));
        }
        assert!(prepare(&json!({"$ref": "#/nowhere"})).is_err());
        assert!(prepare(&json!({"properties": {"a": {"$id": "https://example.com/s"}}})).is_err());
        let local = json!({"$defs": {"s": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/s"}}});
        assert!(findings(&local, &json!({"a": 1})).starts_with("/a: "));
        // What only looks like a reference.
        let data =
            json!({"enum": [{"$ref": "https://example.com"}], "properties": {"$ref": {"type": "string"}}});
        assert_eq!(findings(&data, &json!({"$ref": "https://example.com"})), "");
    }

    // covers: SCHEMA-009
    #[test]
    fn no_schema_makes_a_value_expensive() {
        // Each definition uses the next one twice: 2^60 ways through sixty lines.
        let mut defs = serde_json::Map::new();
        for i in 0..60 {
            let next = json!({"$ref": format!("#/$defs/d{}", i + 1)});
            defs.insert(format!("d{i}"), json!({"allOf": [next.clone(), next]}));
        }
        defs.insert("d60".into(), json!({"type": "string"}));
        let schema = json!({"$defs": defs, "$ref": "#/$defs/d0"});
        assert!(matches!(prepare(&schema), Err(SchemaError::Limit(_))));

        // Two branches that differ below the recursion: twice as many ways with each level of the value.
        let node = |kind: &str| json!({"properties": {"next": {"$ref": "#"}, "kind": {"const": kind}}});
        let schema =
            json!({"type": "object", "anyOf": [node("a"), node("b")], "properties": {"next": {"$ref": "#"}}});
        let mut value = json!({"kind": "c"});
        for _ in 0..100 {
            value = json!({"kind": "a", "next": value});
        }
        assert_eq!(findings(&schema, &value), "/next: does not fit its schema");

        let chain = |n: usize| {
            let link = |i| (format!("d{i}"), json!({"$ref": format!("#/$defs/d{}", i + 1)}));
            let mut defs: serde_json::Map<_, _> = (0..n).map(link).collect();
            defs.insert(format!("d{n}"), json!({}));
            json!({"$defs": defs, "$ref": "#/$defs/d0"})
        };
        assert!(prepare(&chain(100)).is_ok() && prepare(&chain(200)).is_err());
        let wide: Vec<Value> = (0..5_000).map(|_| json!({})).collect();
        assert!(prepare(&json!({"anyOf": wide})).is_err());
        assert!(prepare(&json!({"description": "x".repeat(300 << 10)})).is_err());
        let pattern = json!({"pattern": "^(a+)+$"});
        assert!(!findings(&pattern, &json!("a".repeat(100_000) + "b")).is_empty());
        assert!(prepare(&json!({"pattern": "(?=a)b"})).is_err(), "it needs more than linear time");
        for cycle in [json!({"$ref": "#"}), json!({"allOf": [{"$ref": "#"}]}), json!({"not": {"$ref": "#"}})]
        {
            let _ = prepare(&cycle).map(|p| p.validate(b"{}"));
        }
        let bounds = Bounds { value: 10, ..Bounds::default() };
        let prepared =
            Schemas::with_bounds(bounds).compile(&RawJson::new("true").expect("JSON")).expect("a schema");
        assert!(prepared.validate(b"[1, 2, 3, 4]").is_err());
        let bounds = Bounds { steps: 100, ..Bounds::default() };
        let schema = RawJson::new(r#"{"items":{"allOf":[true,true,true]}}"#).expect("JSON");
        let prepared = Schemas::with_bounds(bounds).compile(&schema).expect("a schema");
        assert!(prepared.validate(b"[1,2,3]").is_ok());
        assert!(prepared.validate(format!("[{}1]", "1,".repeat(50)).as_bytes()).is_err());
    }

    #[test]
    fn members_that_stand_twice_are_refused_at_any_depth() {
        let prepared = prepare(&json!({"type": "object"})).expect("a schema");
        let twice = prepared.validate(br#"{"a":{"b":1,"\u0062":2}}"#).expect_err("twice");
        assert!(twice.to_string().contains("`b`"), "{twice}");
    }
}
