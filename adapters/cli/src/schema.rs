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

/// The members of an object schema in the order of the schema; empty when it says nothing about them
///
/// A schema comes from a peer and may be anything: what is not understood is left out. The texts are not escaped.
pub(crate) fn members(schema: &RawJson) -> Vec<Member> {
    let Some(properties) = schema.member("properties") else { return Vec::new() };
    let required: Vec<String> = schema.member("required").and_then(|r| r.parse().ok()).unwrap_or_default();
    let member = |(name, schema): (String, RawJson)| {
        let schema: Value = schema.parse().unwrap_or_default();
        Member {
            kind: match schema.get("default") {
                Some(default) => format!("{} = {default}", kind(&schema, NESTING)),
                None => kind(&schema, NESTING),
            },
            description: [&schema["description"], &schema["title"]]
                .into_iter()
                .find_map(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            name: if required.contains(&name) { name } else { name + "?" },
        }
    };
    ordered::members(&properties).into_iter().map(member).collect()
}

/// What a schema allows, in a few words
fn kind(schema: &Value, nesting: u32) -> String {
    if nesting == 0 {
        return "…".into();
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
            return schemas.iter().map(|s| kind(s, nesting - 1)).collect::<Vec<_>>().join(" | ");
        }
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => match schema.get("items") {
            Some(items @ Value::Object(_)) => format!("array of {}", kind(items, nesting - 1)),
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
    fn what_is_no_schema_has_no_members() {
        for text in ["{}", "[]", "true", r#"{"properties":[]}"#, r#"{"properties":5}"#] {
            assert_eq!(members(&RawJson::new(text).expect("JSON")), [], "{text}");
        }
    }
}
