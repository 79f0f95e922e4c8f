//! JSON Schemas of tools, shortened to what a person wants to know before a call

use mcp_proto::RawJson;
use serde_json::Value;

use crate::ordered;

/// One argument of a tool, or one member of what it returns
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// `name`, or `name?` when it may be left out
    pub(crate) name: String,
    /// What it holds, in a few words
    pub(crate) kind: String,
    /// What the schema says about it
    pub(crate) description: String,
}

/// The members of an object schema in the order of the schema, and theirs under them: `address`, `address.city`,
/// `lines[].text`; empty when it says nothing about them
///
/// A schema comes from a peer and may be anything: what is not understood is left out. The texts are not escaped.
pub(crate) fn members(schema: &RawJson) -> Vec<Member> {
    let mut all = Vec::new();
    gather(&mut all, schema, schema, "", NESTING);
    if all.len() > MEMBERS {
        all.truncate(MEMBERS);
        all.push(Member { name: "…".into(), kind: "and more".into(), description: String::new() });
    }
    all
}

fn gather(all: &mut Vec<Member>, root: &RawJson, schema: &RawJson, path: &str, nesting: u32) {
    let Some(properties) = schema.member("properties") else { return };
    let required: Vec<String> = schema.member("required").and_then(|r| r.parse().ok()).unwrap_or_default();
    for (name, schema) in ordered::members(&properties) {
        if all.len() > MEMBERS {
            return;
        }
        let schema = resolved(root, schema);
        let value: Value = schema.parse().unwrap_or_default();
        let default = value.get("default").filter(|default| !default.is_object() && !default.is_array());
        let kind = kind(root, &value, NESTING);
        let optional = if required.contains(&name) { "" } else { "?" };
        all.push(Member {
            name: format!("{path}{name}{optional}"),
            kind: default.map_or_else(|| kind.clone(), |default| format!("{kind} = {default}")),
            description: [&value["description"], &value["title"]]
                .into_iter()
                .find_map(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        });
        if nesting > 0 {
            gather(all, root, &schema, &format!("{path}{name}."), nesting - 1);
            if let Some(items) = schema.member("items") {
                gather(all, root, &resolved(root, items), &format!("{path}{name}[]."), nesting - 1);
            }
        }
    }
}

/// What a `$ref` within the schema leads to; the rest stays as it is
fn resolved(root: &RawJson, mut schema: RawJson) -> RawJson {
    for _ in 0..NESTING {
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

/// What a schema allows, in a few words
fn kind(root: &RawJson, schema: &Value, nesting: u32) -> String {
    if nesting == 0 {
        return "…".into();
    }
    if schema.get("$ref").is_some() {
        let target = RawJson::encode(schema).map(|raw| resolved(root, raw).parse().unwrap_or_default());
        let target = target.ok().filter(|target: &Value| target.get("$ref").is_none());
        return target.map_or_else(|| "any".into(), |target| kind(root, &target, nesting - 1));
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
            return schemas.iter().map(|s| kind(root, s, nesting - 1)).collect::<Vec<_>>().join(" | ");
        }
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => match schema.get("items") {
            Some(items @ Value::Object(_)) => format!("array of {}", kind(root, items, nesting - 1)),
            _ => name.clone(),
        },
        Value::String(name) => format!("{name}{}", bounds(schema)),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "),
        _ if schema.get("properties").is_some() => "object".into(),
        _ => "any".into(),
    }
}

fn bounds(schema: &Value) -> String {
    match (schema.get("minimum"), schema.get("maximum")) {
        (Some(least), Some(most)) => format!(" {least}..{most}"),
        (Some(least), None) => format!(" ≥ {least}"),
        (None, Some(most)) => format!(" ≤ {most}"),
        (None, None) => String::new(),
    }
}

/// How deep a schema is described
const NESTING: u32 = 4;
/// How many members are shown
const MEMBERS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_put_into_words() {
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
    fn members_of_members_are_shown_too() {
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
        // A schema that contains itself ends.
        assert!(shown.len() <= MEMBERS + 1, "{}", shown.len());
    }

    #[test]
    fn what_is_no_schema_has_no_members() {
        for text in ["{}", "[]", "true", r#"{"properties":[]}"#, r#"{"properties":5}"#] {
            assert_eq!(members(&RawJson::new(text).expect("JSON")), [], "{text}");
        }
    }
}
