//! Short descriptions of the JSON Schemas of tools.

use mcp_proto::RawJson;
use serde_json::Value;

use crate::ordered;

/// An argument of a tool, or a member of its structured result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SchemaMember {
    /// `name`, or `name?` if it is optional.
    pub(crate) name: String,
    /// Short description of the type.
    pub(crate) kind: String,
    /// Description or title from the schema.
    pub(crate) description: String,
}

/// Returns the members of an object schema in its order, each followed by its own members.
///
/// Nested names are paths: `address`, `address.city`, `lines[].text`. A schema comes from a peer and may be anything;
/// parts that are not understood are left out. The texts are not escaped.
pub(crate) fn members(schema: &RawJson) -> Vec<SchemaMember> {
    let mut all = Vec::new();
    collect_members(&mut all, schema, schema, "", MAX_NESTING);
    if all.len() > MAX_MEMBERS {
        all.truncate(MAX_MEMBERS);
        all.push(SchemaMember { name: "…".into(), kind: "and more".into(), description: String::new() });
    }
    all
}

fn collect_members(all: &mut Vec<SchemaMember>, root: &RawJson, schema: &RawJson, path: &str, nesting: u32) {
    let Some(properties) = schema.member("properties") else { return };
    let required: Vec<String> = schema.member("required").and_then(|r| r.parse().ok()).unwrap_or_default();
    for (name, schema) in ordered::members(&properties) {
        if all.len() > MAX_MEMBERS {
            return;
        }
        let schema = resolve_ref(root, schema);
        let value: Value = schema.parse().unwrap_or_default();
        let default = value.get("default").filter(|default| !default.is_object() && !default.is_array());
        let kind = describe_type(root, &value, MAX_NESTING);
        let optional = if required.contains(&name) { "" } else { "?" };
        all.push(SchemaMember {
            name: format!("{path}{name}{optional}"),
            kind: default.map_or_else(|| kind.clone(), |default| format!("{kind} = {default}")),
            description: [&value["description"], &value["title"]]
                .into_iter()
                .find_map(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        });
        if nesting > 0 {
            collect_members(all, root, &schema, &format!("{path}{name}."), nesting - 1);
            if let Some(items) = schema.member("items") {
                collect_members(
                    all,
                    root,
                    &resolve_ref(root, items),
                    &format!("{path}{name}[]."),
                    nesting - 1,
                );
            }
        }
    }
}

/// Follows a `$ref` within the schema. Any other schema is returned unchanged.
fn resolve_ref(root: &RawJson, mut schema: RawJson) -> RawJson {
    for _ in 0..MAX_NESTING {
        let pointer = schema.member("$ref").and_then(|to| to.string());
        let Some(pointer) = pointer.as_deref().and_then(|to| to.strip_prefix('#')) else { break };
        let mut target = Some(root.clone());
        for part in pointer.split('/').skip(1) {
            target = target.and_then(|at| at.member(&part.replace("~1", "/").replace("~0", "~")));
        }
        let Some(target) = target.filter(|_| pointer.is_empty() || pointer.starts_with('/')) else { break };
        schema = target;
    }
    schema
}

/// Describes the type that a schema allows.
fn describe_type(root: &RawJson, schema: &Value, nesting: u32) -> String {
    if nesting == 0 {
        return "…".into();
    }
    if schema.get("$ref").is_some() {
        let target = RawJson::encode(schema).map(|raw| resolve_ref(root, raw).parse().unwrap_or_default());
        let target = target.ok().filter(|target: &Value| target.get("$ref").is_none());
        return target.map_or_else(|| "any".into(), |target| describe_type(root, &target, nesting - 1));
    }
    let list = |values: &[Value]| values.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    if let Some(Value::Array(values)) = schema.get("enum") {
        return list(values);
    }
    for word in ["anyOf", "oneOf"] {
        if let Some(Value::Array(schemas)) = schema.get(word) {
            return schemas
                .iter()
                .map(|s| describe_type(root, s, nesting - 1))
                .collect::<Vec<_>>()
                .join(" | ");
        }
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => match schema.get("items") {
            Some(items @ Value::Object(_)) => format!("array of {}", describe_type(root, items, nesting - 1)),
            _ => name.clone(),
        },
        Value::String(name) => format!("{name}{}", describe_bounds(schema)),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "),
        _ if schema.get("properties").is_some() => "object".into(),
        _ => "any".into(),
    }
}

fn describe_bounds(schema: &Value) -> String {
    match (schema.get("minimum"), schema.get("maximum")) {
        (Some(minimum), Some(maximum)) => format!(" {minimum}..{maximum}"),
        (Some(minimum), None) => format!(" ≥ {minimum}"),
        (None, Some(maximum)) => format!(" ≤ {maximum}"),
        (None, None) => String::new(),
    }
}

/// Maximum depth of a description.
const MAX_NESTING: u32 = 4;
/// Maximum number of members.
const MAX_MEMBERS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_members_have_short_type_descriptions() {
        let schema = r#"{"properties":{
            "z":{"type":"string","description":"last first"},
            "count":{"type":"integer","minimum":0,"maximum":9,"default":5},
            "mode":{"enum":["fast","slow"]},
            "tags":{"type":"array","items":{"type":"string"}},
            "maybe":{"type":["string","null"]},
            "either":{"anyOf":[{"type":"number"},{"const":"all"}]},
            "deep":{"anyOf":[{"anyOf":[{"anyOf":[{"anyOf":[{"type":"string"}]}]}]}]},
            "free":{}, "odd":true, "ref":{"$ref":"x"}
        },"required":["z","tags"]}"#;
        let members = members(&RawJson::new(schema).expect("JSON"));
        let shown: Vec<_> = members.iter().map(|m| (m.name.as_str(), m.kind.as_str())).collect();
        let want = [
            ("z", "string"),
            ("count?", "integer 0..9 = 5"),
            ("mode?", "\"fast\" | \"slow\""),
            ("tags", "array of string"),
            ("maybe?", "string | null"),
            ("either?", "number | \"all\""),
            ("deep?", "…"),
            ("free?", "any"),
            ("odd?", "any"),
            ("ref?", "any"),
        ];
        assert_eq!(shown, want);
        assert_eq!(members[0].description, "last first");
    }

    #[test]
    fn nested_schema_members_are_listed_with_paths() {
        let schema = r##"{"properties":{
            "home":{"$ref":"#/$defs/address"},
            "edits":{"type":"array","items":{"properties":{"old":{"type":"string"},"new":{"type":"string"}},"required":["old"]}},
            "list":{"type":"array","items":{"$ref":"#/$defs/address"}},
            "next":{"$ref":"#"},"odd":{"$ref":"#/nowhere"},"loop":{"$ref":"#/$defs/loop"}
        },"$defs":{"address":{"type":"object","properties":{"city":{"type":"string"}}},"loop":{"$ref":"#/$defs/loop"}}}"##;
        let shown = members(&RawJson::new(schema).expect("JSON"));
        let kind_of = |name: &str| shown.iter().find(|m| m.name == name).map(|m| m.kind.as_str());
        assert_eq!(kind_of("home?"), Some("object"));
        assert_eq!(kind_of("home.city?"), Some("string"));
        assert_eq!(kind_of("edits?"), Some("array of object"));
        assert_eq!((kind_of("edits[].old"), kind_of("edits[].new?")), (Some("string"), Some("string")));
        assert_eq!((kind_of("list?"), kind_of("list[].city?")), (Some("array of object"), Some("string")));
        assert_eq!((kind_of("odd?"), kind_of("loop?")), (Some("any"), Some("any")));
        assert_eq!((kind_of("next?"), kind_of("next.next?")), (Some("object"), Some("object")));
        // A schema that refers to itself must not recurse forever.
        assert!(shown.len() <= MAX_MEMBERS + 1, "{}", shown.len());
    }

    #[test]
    fn invalid_schema_has_no_members() {
        for text in ["{}", "[]", "true", r#"{"properties":[]}"#, r#"{"properties":5}"#] {
            assert_eq!(members(&RawJson::new(text).expect("JSON")), [], "{text}");
        }
    }
}
