//! Schemas of tools: dialects, references, and what nobody can fulfil

use mcp_proto::router::{SchemaError, SchemaValidator};
use mcp_proto::{RawJson, Version};
use mcp_std::validate::Schemas;
use serde_json::{Map, Value};

use super::handshake::absent;
use super::report::Report;
use super::rules;

/// Looks at one schema of a tool
pub(super) fn check(report: &Report, version: Version, tool: &str, which: &str, schema: Option<&RawJson>) {
    let input = which == "inputSchema";
    let value: Value = schema.and_then(|schema| schema.parse().ok()).unwrap_or_default();
    let place = format!("{tool} {which}");
    let shape = if input { rules::INPUT_SCHEMA } else { rules::OUTPUT_SCHEMA };
    let (Some(raw), Some(members)) = (schema, value.as_object()) else {
        return report.add(
            shape,
            &place,
            format!("it is {}, and has to be an object", absent(schema.map(|_| &value))),
        );
    };
    if (input || version < Version::V2026_07_28) && value["type"] != "object" {
        let found = members.get("type").map_or_else(|| "not there".into(), Value::to_string);
        report.add(shape, &place, format!("`type` is {found}, and has to be \"object\""));
    }
    validity(report, version, &place, raw, &value);
    required(report, &place, "", members, DEPTH);
    if input {
        undescribed(report, &place, members);
        if version >= Version::V2025_11_25 && takes_anything(members) {
            report.add(rules::NO_PARAMETERS, &place, "it takes no parameters, and allows any");
        }
    }
}

fn validity(report: &Report, version: Version, place: &str, raw: &RawJson, schema: &Value) {
    let Err(error) = Schemas::new().compile(raw).map(drop) else { return };
    match &error {
        SchemaError::Dialect(dialect) => {
            report.add(rules::SCHEMA_DIALECT, place, format!("it is of the dialect {dialect:?}"));
        }
        SchemaError::Reference(to) => {
            let own = schema["$id"].as_str().is_some_and(|id| !id.is_empty() && to.starts_with(id));
            if own || !refers(schema, to) {
                let what =
                    format!("it was not looked at, as subschemas with an `$id` are not followed: {to:?}");
                report.add(rules::SCHEMA_UNCHECKED, place, what);
            } else {
                report.add(rules::SCHEMA_REFERENCE, place, format!("it refers to {to:?}"));
            }
        }
        SchemaError::Limit(what) => {
            report.add(
                rules::SCHEMA_LIMIT,
                place,
                format!("it was not looked at, as it is beyond a limit: {what}"),
            );
        }
        _ if compiles(&without_patterns(schema.clone())) => {
            let what = format!("a pattern is wrong, or has to be matched by trying: {error}");
            report.add(rules::SCHEMA_UNCHECKED, place, what);
        }
        _ if schema.get("$schema").is_none() && compiles(&as_draft_07(schema.clone())) => {
            // Only then there is a dialect that schemas have by default.
            if version >= Version::V2025_11_25 {
                report.add(rules::SCHEMA_DRAFT_07, place, format!("it is valid in draft-07 only: {error}"));
            }
        }
        _ => report.add(rules::SCHEMA_INVALID, place, format!("it {error}")),
    }
}

fn compiles(schema: &Value) -> bool {
    RawJson::encode(schema).is_ok_and(|raw| Schemas::new().compile(&raw).is_ok())
}

fn as_draft_07(mut schema: Value) -> Value {
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema
}

/// The same without regular expressions
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

/// Whether a reference stands somewhere in it
fn refers(schema: &Value, to: &str) -> bool {
    match schema {
        Value::Array(list) => list.iter().any(|inner| refers(inner, to)),
        Value::Object(members) => members.iter().any(|(name, inner)| {
            let reference = matches!(name.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef");
            // What the validator repeats of it is cut off.
            reference && inner.as_str().is_some_and(|text| text.starts_with(to)) || refers(inner, to)
        }),
        _ => false,
    }
}

/// Required members that are declared nowhere; `at` is where the schema stands
fn required(report: &Report, place: &str, at: &str, schema: &Map<String, Value>, depth: u32) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let properties = schema.get("properties").and_then(Value::as_object);
    let names =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let here = if at.is_empty() { place.to_owned() } else { format!("{place} {at}") };
    for name in names.filter(|name| !properties.is_some_and(|properties| properties.contains_key(*name))) {
        let patterns = schema.contains_key("patternProperties");
        if schema.get("additionalProperties") == Some(&Value::Bool(false)) && !patterns {
            let what = format!("`{name}` is required, and not allowed: no value fits");
            report.add(rules::SCHEMA_IMPOSSIBLE, &here, what);
        } else if !patterns && !ELSEWHERE.iter().any(|keyword| schema.contains_key(*keyword)) {
            report.add(rules::SCHEMA_REQUIRED, &here, format!("`{name}` is required, and not declared"));
        }
    }
    for (name, inner) in properties.into_iter().flatten() {
        if let Some(inner) = inner.as_object() {
            let name = name.replace('~', "~0").replace('/', "~1");
            required(report, place, &format!("{at}/properties/{name}"), inner, depth);
        }
    }
    if let Some(inner) = schema.get("items").and_then(Value::as_object) {
        required(report, place, &format!("{at}/items"), inner, depth);
    }
}

/// Arguments of which nothing is said
fn undescribed(report: &Report, place: &str, schema: &Map<String, Value>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let bare = |(_, schema): &(&String, &Value)| {
        let says =
            ["description", "title", "$ref", "const"].iter().any(|keyword| schema.get(*keyword).is_some());
        schema.is_object() && !says
    };
    let bare: Vec<_> =
        properties.into_iter().flatten().filter(bare).map(|(name, _)| format!("`{name}`")).collect();
    if !bare.is_empty() {
        let what = format!("arguments without `description`: {}", bare.join(", "));
        report.add(rules::NO_ARGUMENT_DESCRIPTION, place, what);
    }
}

/// Whether it declares no member, and does not say that there is none
fn takes_anything(schema: &Map<String, Value>) -> bool {
    let none = schema.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty);
    let closed = ["additionalProperties", "unevaluatedProperties", "patternProperties", "maxProperties"];
    none && !closed.iter().chain(ELSEWHERE).any(|keyword| schema.contains_key(*keyword))
}

/// Keywords through which members may be declared elsewhere
const ELSEWHERE: &[&str] =
    &["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies"];
/// How deep schemas are looked into
const DEPTH: u32 = 16;
