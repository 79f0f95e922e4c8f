//! JSON Schemas of tools: short descriptions, and values from texts by their types.

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
pub(crate) fn resolve_ref(root: &RawJson, mut schema: RawJson) -> RawJson {
    for _ in 0..MAX_NESTING {
        let pointer = schema.member("$ref").and_then(|to| to.string());
        let Some(path) = pointer.as_deref().and_then(ref_path) else { break };
        let Some(target) = ref_target(root, &path) else { break };
        schema = target;
    }
    schema
}

/// Returns the names of members on the way to the target of a `$ref` within the schema; `None` for any other. A `~` has two
/// spellings, so texts of references cannot be compared.
pub(crate) fn ref_path(pointer: &str) -> Option<Vec<String>> {
    let pointer = pointer.strip_prefix('#')?;
    let decode = |part: &str| part.replace("~1", "/").replace("~0", "~");
    let is_path = pointer.is_empty() || pointer.starts_with('/');
    is_path.then(|| pointer.split('/').skip(1).map(decode).collect())
}

/// Returns the schema at a [path](ref_path).
pub(crate) fn ref_target(root: &RawJson, path: &[String]) -> Option<RawJson> {
    path.iter().try_fold(root.clone(), |at, part| at.member(part))
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

/// Values that a schema accepts.
#[derive(Default)]
struct AcceptedValues {
    /// Names of types.
    types: Vec<String>,
    /// Values of `enum` and `const`.
    choices: Vec<Value>,
    /// Whether a type has a name that JSON Schema does not know, for example `any`: every value may be one.
    is_open: bool,
}

impl AcceptedValues {
    fn collect(&mut self, root: &RawJson, schema: &RawJson, nesting: u32) {
        let schema = resolve_ref(root, schema.clone());
        let value: Value = schema.parse().unwrap_or_default();
        if let Some(only) = value.get("const") {
            self.choices.push(only.clone());
        } else if let Some(Value::Array(values)) = value.get("enum") {
            self.choices.extend(values.iter().cloned());
        } else {
            match &value["type"] {
                Value::String(name) => self.add_type(name),
                Value::Array(names) => names.iter().filter_map(Value::as_str).for_each(|n| self.add_type(n)),
                _ if value.get("properties").is_some() => self.types.push("object".into()),
                _ => {}
            }
            for word in ["anyOf", "oneOf", "allOf"].into_iter().filter(|_| nesting > 0) {
                let schemas = schema.member(word).and_then(|schemas| schemas.elements());
                for schema in schemas.iter().flatten() {
                    self.collect(root, schema, nesting - 1);
                }
            }
        }
    }

    fn add_type(&mut self, name: &str) {
        match name {
            "string" | "integer" | "number" | "boolean" | "null" | "array" | "object" => {
                self.types.push(name.to_owned());
            }
            _ => self.is_open = true,
        }
    }

    /// Formats the values for an error message: `a number or "all"`.
    fn describe(&self) -> String {
        let types = self.types.iter().map(|name| match name.as_str() {
            "integer" => "a whole number".to_owned(),
            "boolean" => "true or false".to_owned(),
            "array" => "a JSON array".to_owned(),
            "object" => "a JSON object".to_owned(),
            "null" => "null".to_owned(),
            other => format!("a {other}"),
        });
        let words: Vec<_> =
            types.chain(self.choices.iter().map(Value::to_string)).take(MAX_MEMBERS).collect();
        words.join(" or ")
    }
}

/// Returns the JSON value that a text stands for, by the type that the schema of an object gives to this member.
///
/// A text is a string if the schema allows one and no other type fits, or if there is no type or an unknown one.
///
/// # Errors
///
/// Returns what the value must be if no type fits.
pub(crate) fn value_from_text(root: Option<&RawJson>, name: &str, text: &str) -> Result<RawJson, String> {
    let mut accepted = AcceptedValues::default();
    if let Some(root) = root {
        let object = resolve_ref(root, root.clone());
        if let Some(schema) = object.member("properties").and_then(|properties| properties.member(name)) {
            accepted.collect(root, &schema, MAX_NESTING);
        }
    }
    let AcceptedValues { types, choices, is_open } = &accepted;
    let string = || RawJson::encode(text).map_err(|error| error.to_string());
    let json = serde_json::from_str::<Value>(text).ok();
    if choices.iter().any(|choice| choice == text) {
        return string();
    }
    if let Some(value) = &json {
        let is_typed = |name: &String| match name.as_str() {
            "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            _ => false,
        };
        if choices.contains(value) || types.iter().any(is_typed) {
            // The text is kept, because a number may have more digits than a float.
            return RawJson::new(text.to_owned()).map_err(|error| error.to_string());
        }
    }
    if *is_open || types.iter().any(|name| name == "string") || (types.is_empty() && choices.is_empty()) {
        return string();
    }
    Err(format!("must be {}", accepted.describe()))
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
    fn text_becomes_a_value_of_a_type_that_the_schema_allows() {
        let schema = r##"{"properties":{
            "text":{"type":"string"}, "whole":{"type":"integer"}, "number":{"type":"number"}, "flag":{"type":"boolean"},
            "list":{"type":"array"}, "object":{"properties":{}}, "null":{"type":"null"}, "free":{}, "odd":true,
            "maybe":{"type":["string","null"]}, "either":{"anyOf":[{"type":"number"},{"const":"all"}]},
            "mode":{"type":"string","enum":["1","fast",2]}, "ref":{"$ref":"#/$defs/whole"},
            "loop":{"anyOf":[{"$ref":"#/properties/loop"}]}, "both":{"allOf":[{"type":"integer"}]},
            "any":{"type":"any"}, "date":{"type":["date","null"]}, "mixed":{"anyOf":[{"type":"float"},{"type":"integer"}]}
        },"$defs":{"whole":{"type":"integer"}}}"##;
        let schema = RawJson::new(schema).expect("JSON");
        let cases = [
            ("text", "5", Ok("\"5\"")),
            ("text", "", Ok("\"\"")),
            ("text", "a \"b\"\n", Ok("\"a \\\"b\\\"\\n\"")),
            ("whole", "-5", Ok("-5")),
            ("whole", "123456789012345678901234567890", Ok("123456789012345678901234567890")),
            ("whole", "2.0", Ok("2.0")),
            ("whole", "2.5", Err("must be a whole number")),
            ("whole", "five", Err("must be a whole number")),
            ("whole", "", Err("must be a whole number")),
            ("number", "2.5e3", Ok("2.5e3")),
            ("number", "\"2\"", Err("must be a number")),
            ("flag", "true", Ok("true")),
            ("flag", "yes", Err("must be true or false")),
            ("list", "[1, 2]", Ok("[1, 2]")),
            ("list", "1,2", Err("must be a JSON array")),
            ("object", "{\"a\": 1}", Ok("{\"a\": 1}")),
            ("object", "[]", Err("must be a JSON object")),
            ("null", "null", Ok("null")),
            ("free", "5", Ok("\"5\"")),
            ("odd", "5", Ok("\"5\"")),
            ("unknown", "5", Ok("\"5\"")),
            ("maybe", "null", Ok("null")),
            ("maybe", "5", Ok("\"5\"")),
            ("either", "5", Ok("5")),
            ("either", "all", Ok("\"all\"")),
            ("either", "none", Err("must be a number or \"all\"")),
            ("mode", "1", Ok("\"1\"")),
            ("mode", "2", Ok("2")),
            ("mode", "slow", Err("must be \"1\" or \"fast\" or 2")),
            ("ref", "7", Ok("7")),
            ("ref", "x", Err("must be a whole number")),
            ("loop", "x", Ok("\"x\"")),
            ("both", "7", Ok("7")),
            // Types that JSON Schema does not know are no reason to refuse a value.
            ("any", "7", Ok("\"7\"")),
            ("any", "x", Ok("\"x\"")),
            ("date", "null", Ok("null")),
            ("date", "2026-07-28", Ok("\"2026-07-28\"")),
            ("mixed", "7", Ok("7")),
            ("mixed", "7.5", Ok("\"7.5\"")),
        ];
        for (name, text, want) in cases {
            let got = value_from_text(Some(&schema), name, text);
            let got = got.as_ref().map(RawJson::as_str).map_err(String::as_str);
            assert_eq!(got, want, "{name}={text}");
        }
        assert_eq!(
            value_from_text(None, "a", "5").map(|value| value.as_str().to_owned()),
            Ok("\"5\"".into())
        );
    }

    #[test]
    fn invalid_schema_has_no_members() {
        for text in ["{}", "[]", "true", r#"{"properties":[]}"#, r#"{"properties":5}"#] {
            assert_eq!(members(&RawJson::new(text).expect("JSON")), [], "{text}");
        }
    }
}
