//! Checks of the schemas of tools: dialect, references and contradictions.

use mcp_proto::router::{SchemaError, SchemaValidator};
use mcp_proto::{RawJson, Version};
use mcp_std::schema::JsonSchemaValidator;
use serde_json::{Map, Value};

use super::entries::NO_ARGUMENT_DESCRIPTION;
use super::handshake::describe_missing;
use super::report::CheckReport;
use super::rules::rules_of;

rules_of! {
    RULES
    INPUT_SCHEMA "input-schema" Error [Spec Hosted] ["TOOL-007"]
        "each tool has an `inputSchema` that is an object with `\"type\":\"object\"`"
        "write `{\"type\":\"object\",\"additionalProperties\":false}` for a tool without parameters"
    OUTPUT_SCHEMA "output-schema" Error [Spec Hosted] ["TOOL-009"]
        "an `outputSchema` is an object; before 2026-07-28 it has `\"type\":\"object\"`"
        "wrap the result into an object, or leave the schema out"
    SCHEMA_INVALID "schema-invalid" Error [Spec Hosted] ["SCHEMA-005"]
        "schemas are valid in their dialect"
        "correct the schema"
    SCHEMA_DIALECT "schema-dialect" Note [Spec] ["SCHEMA-002" "SCHEMA-004"]
        "schemas use 2020-12, which all clients support, or draft-07, which most clients support"
        "write it in 2020-12"
    SCHEMA_DRAFT_07 "schema-draft-07" Warning [Spec Hosted] ["SCHEMA-001" "SCHEMA-005"]
        "a schema that does not name its dialect is valid in 2020-12"
        "add `\"$schema\":\"http://json-schema.org/draft-07/schema#\"`, or write it in 2020-12"
    SCHEMA_REFERENCE "schema-reference" Warning [Spec Hosted] Mcp04 ["SCHEMA-006" "SCHEMA-008"]
        "schemas have no external references, because clients do not fetch them"
        "put the target under `$defs`"
    SCHEMA_LIMIT "schema-limit" Note [Spec] ["SCHEMA-009"]
        "schemas are small enough for clients to accept"
        "make it smaller"
    SCHEMA_UNCHECKED "schema-unchecked" Note [Spec] ["SCHEMA-009"]
        "schemas use only patterns and references that every client supports"
        "avoid look-around and back-references in patterns, and avoid `$id` in subschemas"
    SCHEMA_REQUIRED "schema-required" Note [Spec] ["SCHEMA-005"]
        "required members are declared in `properties`"
        "declare them"
    SCHEMA_IMPOSSIBLE "schema-impossible" Warning [Spec Hosted] ["SCHEMA-005"]
        "at least one value fits a schema"
        "declare the required members, or allow additional ones"
    CONSTRAINTS_UNSEEN "constraints-unseen" Note [Spec] ["TOOL-032"]
        "what a schema says of ranges, lengths and patterns is checked by the server, which no request of this check shows"
        "check them in the tool, or validate arguments by the schema: the types of a language often do not, and clients need not"
    NO_PARAMETERS "no-parameters" Note [Spec] ["TOOL-008"]
        "a tool without parameters has `\"additionalProperties\":false`"
        "add it"
}

/// Checks one schema of a tool.
pub(super) fn check_schema(
    report: &CheckReport,
    version: Version,
    tool: &str,
    which: &str,
    schema: Option<&RawJson>,
) {
    let input = which == "inputSchema";
    let value: Value = schema.and_then(|schema| schema.parse().ok()).unwrap_or_default();
    let location = format!("{tool} {which}");
    let shape = if input { INPUT_SCHEMA } else { OUTPUT_SCHEMA };
    let (Some(raw), Some(members)) = (schema, value.as_object()) else {
        return report.add(
            shape,
            &location,
            format!("it is {}, but must be an object", describe_missing(schema.map(|_| &value))),
        );
    };
    if (input || version < Version::V2026_07_28) && value["type"] != "object" {
        let found = members.get("type").map_or_else(|| "not there".into(), Value::to_string);
        report.add(shape, &location, format!("`type` is {found}, but must be \"object\""));
    }
    check_validity(report, version, &location, raw, &value);
    check_required(report, &location, "", members, MAX_DEPTH);
    if input {
        check_descriptions(report, &location, members);
        if version >= Version::V2025_11_25 && accepts_anything(members) {
            report.add(NO_PARAMETERS, &location, "it takes no parameters but allows additional ones");
        }
    }
}

fn check_validity(report: &CheckReport, version: Version, location: &str, raw: &RawJson, schema: &Value) {
    let Err(error) = JsonSchemaValidator::new().compile(raw).map(drop) else { return };
    match &error {
        SchemaError::Dialect(dialect) => {
            report.add(SCHEMA_DIALECT, location, format!("its dialect is {dialect:?}"));
        }
        SchemaError::Reference(to) => {
            let own = schema["$id"].as_str().is_some_and(|id| !id.is_empty() && to.starts_with(id));
            if own || !has_reference(schema, to) {
                let what =
                    format!("it was not checked, because subschemas with an `$id` are not followed: {to:?}");
                report.add(SCHEMA_UNCHECKED, location, what);
            } else {
                report.add(SCHEMA_REFERENCE, location, format!("it refers to {to:?}"));
            }
        }
        SchemaError::Limit(what) => {
            report.add(
                SCHEMA_LIMIT,
                location,
                format!("it was not checked, because it exceeds a limit: {what}"),
            );
        }
        _ if compiles(&without_patterns(schema.clone())) => {
            let what = format!("a pattern is invalid, or needs backtracking: {error}");
            report.add(SCHEMA_UNCHECKED, location, what);
        }
        _ if schema.get("$schema").is_none() && compiles(&as_draft_07(schema.clone())) => {
            // Only these revisions define a default dialect.
            if version >= Version::V2025_11_25 {
                report.add(SCHEMA_DRAFT_07, location, format!("it is valid in draft-07 only: {error}"));
            }
        }
        _ => report.add(SCHEMA_INVALID, location, format!("it {error}")),
    }
}

fn compiles(schema: &Value) -> bool {
    RawJson::encode(schema).is_ok_and(|raw| JsonSchemaValidator::new().compile(&raw).is_ok())
}

fn as_draft_07(mut schema: Value) -> Value {
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema
}

/// Returns the schema without regular expressions.
fn without_patterns(schema: Value) -> Value {
    match schema {
        Value::Array(list) => list.into_iter().map(without_patterns).collect(),
        Value::Object(members) => members
            .into_iter()
            .filter(|(name, value)| !(name == "pattern" && value.is_string() || name == "patternProperties"))
            .map(|(name, value)| (name, without_patterns(value)))
            .collect(),
        other => other,
    }
}

/// Returns whether the schema contains a reference that starts with `to`.
fn has_reference(schema: &Value, to: &str) -> bool {
    match schema {
        Value::Array(list) => list.iter().any(|inner| has_reference(inner, to)),
        Value::Object(members) => members.iter().any(|(name, inner)| {
            let reference = matches!(name.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef");
            // The validator may cut off the reference in its error.
            reference && inner.as_str().is_some_and(|text| text.starts_with(to)) || has_reference(inner, to)
        }),
        _ => false,
    }
}

/// Reports required members that are declared nowhere. `at` is the path of the schema.
fn check_required(report: &CheckReport, location: &str, at: &str, schema: &Map<String, Value>, depth: u32) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let properties = schema.get("properties").and_then(Value::as_object);
    let names =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let schema_location = if at.is_empty() { location.to_owned() } else { format!("{location} {at}") };
    for name in names.filter(|name| !properties.is_some_and(|properties| properties.contains_key(*name))) {
        let patterns = schema.contains_key("patternProperties");
        if schema.get("additionalProperties") == Some(&Value::Bool(false)) && !patterns {
            let what = format!("`{name}` is required but not allowed: no value fits");
            report.add(SCHEMA_IMPOSSIBLE, &schema_location, what);
        } else if !patterns && !APPLICATOR_KEYWORDS.iter().any(|keyword| schema.contains_key(*keyword)) {
            report.add(SCHEMA_REQUIRED, &schema_location, format!("`{name}` is required but not declared"));
        }
    }
    for (name, inner) in properties.into_iter().flatten() {
        if let Some(inner) = inner.as_object() {
            let name = name.replace('~', "~0").replace('/', "~1");
            check_required(report, location, &format!("{at}/properties/{name}"), inner, depth);
        }
    }
    if let Some(inner) = schema.get("items").and_then(Value::as_object) {
        check_required(report, location, &format!("{at}/items"), inner, depth);
    }
}

/// Reports arguments without a description.
fn check_descriptions(report: &CheckReport, location: &str, schema: &Map<String, Value>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let bare = |(_, schema): &(&String, &Value)| {
        let is_described =
            ["description", "title", "$ref", "const"].iter().any(|keyword| schema.get(*keyword).is_some());
        schema.is_object() && !is_described
    };
    let bare: Vec<_> =
        properties.into_iter().flatten().filter(bare).map(|(name, _)| format!("`{name}`")).collect();
    if !bare.is_empty() {
        let what = format!("arguments without `description`: {}", bare.join(", "));
        report.add(NO_ARGUMENT_DESCRIPTION, location, what);
    }
}

/// Returns whether a schema, or a part of it, limits values beyond their types.
pub(super) fn is_constrained(schema: &Value) -> bool {
    match schema {
        Value::Array(parts) => parts.iter().any(is_constrained),
        Value::Object(members) => members.iter().any(|(name, value)| match value {
            // An unsigned type has this limit by itself.
            Value::Number(limit) if name == "minimum" => limit.as_f64() != Some(0.0),
            Value::Number(_) => LIMITS.contains(&name.as_str()),
            Value::String(_) => name == "pattern",
            // Its members are names, and no keywords.
            Value::Object(named) if name == "properties" => named.values().any(is_constrained),
            other => !["default", "const", "enum", "examples"].contains(&&**name) && is_constrained(other),
        }),
        _ => false,
    }
}

/// Returns whether a schema declares no member and does not forbid additional ones.
fn accepts_anything(schema: &Map<String, Value>) -> bool {
    let none = schema.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty);
    let closed = ["additionalProperties", "unevaluatedProperties", "patternProperties", "maxProperties"];
    none && !closed.iter().chain(APPLICATOR_KEYWORDS).any(|keyword| schema.contains_key(*keyword))
}

/// Keywords with numbers that limit values.
const LIMITS: &[&str] = &[
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
];
/// Keywords that may declare members elsewhere.
const APPLICATOR_KEYWORDS: &[&str] =
    &["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies"];
/// Maximum depth of the search.
const MAX_DEPTH: u32 = 16;
