//! Rust types from JSON Schemas.

use alloc::collections::{BTreeMap, BTreeSet};

use mcp_proto::RawJson;
use serde_json::Value;

use super::layout::{push_docs, push_joined, push_line, push_rename};
use super::names::{Names, pascal, snake};
use crate::ordered;
use crate::schema::{ref_path, ref_target};

/// Deepest nesting of schemas that get types.
const MAX_NESTING: usize = 24;
/// Maximum number of members of all types: references may repeat a schema many times.
const MAX_FIELDS: usize = 100_000;
/// Maximum number of bytes of all types, but for the rest of those that have begun.
const MAX_BYTES: usize = 8 << 20;
/// Names that types of a generated file must not have.
const TAKEN: &[&str] = &[
    "B",
    "BTreeMap",
    "BlockingCalls",
    "CallToolResult",
    "ClientBackend",
    "Deserialize",
    "Err",
    "GetPromptResult",
    "Map",
    "None",
    "Ok",
    "Option",
    "ReadResourceResult",
    "Result",
    "Serialize",
    "Some",
    "String",
    "Template",
    "Value",
    "Values",
    "Vec",
];
/// Keywords whose meaning has no Rust type.
const UNSUPPORTED: &[&str] =
    &["oneOf", "anyOf", "allOf", "not", "if", "patternProperties", "prefixItems", "$dynamicRef"];

/// A Rust type, as the source names it.
#[derive(Clone)]
pub(super) struct RustType {
    pub(super) text: String,
    /// Whether it implements `Default`.
    has_default: bool,
    /// The reason why it is no closer to its schema.
    pub(super) note: Option<String>,
}

/// A member of a struct.
struct Field<'a> {
    name: &'a str,
    docs: Vec<String>,
    kind: RustType,
    is_required: bool,
}

/// Writes the types of all schemas, each named once.
#[derive(Default)]
pub(super) struct TypeWriter {
    pub(super) names: Names,
    /// The source of the types, in order.
    pub(super) items: Vec<String>,
    pub(super) uses_map: bool,
    pub(super) uses_tree: bool,
    pub(super) uses_value: bool,
    /// Types of the targets of references within the current schema, by their paths; `None` while one is being made.
    targets: BTreeMap<Vec<String>, Option<RustType>>,
    fields: usize,
    bytes: usize,
    prefix: String,
}

impl TypeWriter {
    pub(super) fn new() -> Self {
        Self { names: Names::with_taken(TAKEN), ..Self::default() }
    }

    /// Returns the type of a whole schema. Types within it have names that begin with `prefix`.
    pub(super) fn root(&mut self, schema: &RawJson, prefix: &str, end: &str) -> RustType {
        self.targets.clear();
        prefix.clone_into(&mut self.prefix);
        self.type_of(schema, schema, &format!("{prefix}{end}"), MAX_NESTING)
    }

    /// Returns the type of the arguments of a tool, if it has any.
    pub(super) fn arguments(&mut self, schema: &RawJson, prefix: &str) -> Option<RustType> {
        let value: Value = schema.parse().unwrap_or_default();
        let is_empty = value["properties"].as_object().is_none_or(|members| members.is_empty());
        let is_closed = match value.get("additionalProperties") {
            Some(others) => *others == false,
            None => value["properties"].is_object(),
        };
        let needs_none = value["required"].as_array().is_none_or(|names| names.is_empty());
        let is_plain = UNSUPPORTED.iter().chain(&["$ref"]).all(|word| value.get(*word).is_none());
        if is_empty && is_closed && needs_none && is_plain {
            return None;
        }
        Some(self.root(schema, prefix, "Arguments"))
    }

    /// Writes a struct of texts, the arguments of a prompt: names, descriptions, and whether they are required.
    pub(super) fn texts(&mut self, members: &[(String, String, bool)], docs: &str, name: &str) -> String {
        let string = || RustType { text: "String".into(), has_default: true, note: None };
        let fields = members.iter().map(|(name, description, is_required)| Field {
            name,
            docs: vec![description.clone()],
            kind: if *is_required { string() } else { optional(string()) },
            is_required: *is_required,
        });
        let fields: Vec<_> = fields.collect();
        let name = self.names.claim(name, "");
        let source = struct_source(&name, &[docs.to_owned()], &fields);
        self.items.push(source);
        name
    }

    fn value(&mut self, note: Option<String>) -> RustType {
        self.uses_value = true;
        RustType { text: "Value".into(), has_default: true, note }
    }

    fn type_of(&mut self, root: &RawJson, schema: &RawJson, name: &str, nesting: usize) -> RustType {
        if nesting == 0 {
            return self.value(Some("it is nested too deeply".into()));
        }
        if self.fields >= MAX_FIELDS || self.bytes >= MAX_BYTES {
            return self.value(Some("the schemas of this server are too large for more types".into()));
        }
        let value: Value = schema.parse().unwrap_or_default();
        if let Some(pointer) = value["$ref"].as_str() {
            return self.target(root, pointer, nesting);
        }
        for word in ["anyOf", "oneOf", "allOf"] {
            let schemas = schema.member(word).and_then(|list| list.elements()).unwrap_or_default();
            let is_null =
                |schema: &&RawJson| schema.member("type").and_then(|t| t.string()).as_deref() == Some("null");
            let others: Vec<_> = schemas.iter().filter(|schema| !is_null(schema)).collect();
            // A reference with a description, or a value that may be null.
            let is_alone = value.get("properties").is_none()
                && UNSUPPORTED.iter().filter(|w| value.get(**w).is_some()).count() == 1;
            if let (true, [only]) = (is_alone && schemas.len() <= 2, &others[..]) {
                let kind = self.type_of(root, only, name, nesting - 1);
                let is_nullable = schemas.len() == 2 && word != "allOf";
                return if is_nullable { optional(kind) } else { kind };
            }
        }
        if let Some(word) = UNSUPPORTED.iter().find(|word| value.get(**word).is_some()) {
            return self.value(Some(format!("its schema has `{word}`")));
        }
        let mut kinds: Vec<_> = match &value["type"] {
            Value::String(kind) => vec![kind.as_str()],
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let is_nullable = kinds.len() > 1 && kinds.contains(&"null");
        kinds.retain(|kind| *kind != "null");
        let kind = self.plain_type(root, schema, &value, &kinds, name, nesting);
        if is_nullable { optional(kind) } else { kind }
    }

    /// Returns the type of a schema without references and alternatives.
    fn plain_type(
        &mut self,
        root: &RawJson,
        schema: &RawJson,
        value: &Value,
        kinds: &[&str],
        name: &str,
        nesting: usize,
    ) -> RustType {
        let simple = |text: &str| RustType { text: text.into(), has_default: true, note: None };
        let allowed = match (value.get("enum"), value.get("const")) {
            (Some(Value::Array(all)), _) => Some(&**all),
            (_, Some(only)) => Some(core::slice::from_ref(only)),
            _ => None,
        };
        if let Some(allowed) = allowed {
            let some: Vec<_> = allowed.iter().filter(|value| !value.is_null()).collect();
            let texts: Vec<_> = some.iter().filter_map(|value| value.as_str()).collect();
            if texts.len() < some.len() || texts.is_empty() {
                return self.value(Some("its values are not all strings".into()));
            }
            let kind = self.enumeration(&texts, value, name);
            return if some.len() < allowed.len() { optional(kind) } else { kind };
        }
        match kinds {
            ["string"] => simple("String"),
            ["boolean"] => simple("bool"),
            ["number"] => simple("f64"),
            ["integer"] if value["minimum"].as_f64().is_some_and(|least| least >= 0.0) => simple("u64"),
            ["integer"] => simple("i64"),
            ["array"] => {
                let item = match schema.member("items").filter(RawJson::is_object) {
                    Some(items) => self.type_of(root, &items, &format!("{name}Item"), nesting - 1),
                    None => self.value(None),
                };
                RustType { text: format!("Vec<{}>", item.text), has_default: true, note: item.note }
            }
            ["object"] | [] if value["properties"].as_object().is_some_and(|members| !members.is_empty()) => {
                self.structure(root, schema, value, name, nesting)
            }
            ["object"] => match schema.member("additionalProperties").filter(RawJson::is_object) {
                Some(member) => {
                    let member = self.type_of(root, &member, &format!("{name}Value"), nesting - 1);
                    self.uses_tree = true;
                    let text = format!("BTreeMap<String, {}>", member.text);
                    RustType { text, has_default: true, note: member.note }
                }
                None => {
                    (self.uses_map, self.uses_value) = (true, true);
                    simple("Map<String, Value>")
                }
            },
            [] => self.value(None),
            _ => self.value(Some(format!("its type is {}", kinds.join(" or ")))),
        }
    }

    /// Returns the type of the target of a reference.
    fn target(&mut self, root: &RawJson, pointer: &str, nesting: usize) -> RustType {
        let path = ref_path(pointer);
        match path.as_ref().and_then(|path| self.targets.get(path)) {
            Some(Some(kind)) => return kind.clone(),
            Some(None) => return self.value(Some("its schema refers to itself".into())),
            None => {}
        }
        let target = path.and_then(|path| Some((ref_target(root, &path)?, path)));
        let Some((target, path)) = target else {
            return self.value(Some("its schema refers to something else".into()));
        };
        self.targets.insert(path.clone(), None);
        let name = format!("{}{}", self.prefix, pascal(pointer.rsplit('/').next().unwrap_or_default()));
        // The target of a target has its own type, however many references lead to it.
        let kind = self.type_of(root, &target, &name, nesting - 1);
        self.targets.insert(path, Some(kind.clone()));
        kind
    }

    fn enumeration(&mut self, texts: &[&str], value: &Value, name: &str) -> RustType {
        let name = self.claim(name);
        let mut out = String::new();
        let [title, description] = texts_of(value);
        push_docs(&mut out, 0, [&*title, &*description]);
        push_line(&mut out, 0, "#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]");
        push_line(&mut out, 0, &format!("pub enum {name} {{"));
        let (mut names, mut seen) = (Names::default(), BTreeSet::new());
        for text in texts.iter().filter(|text| seen.insert(**text)) {
            let variant = names.claim(&pascal(text), "");
            if variant != *text {
                push_rename(&mut out, 4, text);
            }
            push_line(&mut out, 4, &format!("{variant},"));
        }
        push_line(&mut out, 0, "}");
        self.bytes += out.len();
        self.items.push(out);
        RustType { text: name, has_default: false, note: None }
    }

    fn structure(
        &mut self,
        root: &RawJson,
        schema: &RawJson,
        value: &Value,
        name: &str,
        nesting: usize,
    ) -> RustType {
        let name = self.claim(name);
        // A type stands before those of its members.
        let place = self.items.len();
        self.items.push(String::new());
        let members =
            schema.member("properties").map(|members| ordered::members(&members)).unwrap_or_default();
        let required = value["required"].as_array().map_or(&[][..], |names| names);
        let (mut fields, mut seen) = (Vec::new(), BTreeSet::new());
        for (member, schema) in members.iter().filter(|(member, _)| seen.insert(&**member)) {
            self.fields += 1;
            let is_required = required.iter().any(|name| name == &**member);
            let kind = self.type_of(root, schema, &format!("{name}{}", pascal(member)), nesting - 1);
            let value: Value = schema.parse().unwrap_or_default();
            let [title, description] = texts_of(&value);
            let mut docs = vec![title, description];
            docs.extend(value.get("default").map(|default| format!("Default: `{default}`.")));
            docs.extend(kind.note.as_ref().map(|note| format!("Any JSON value: {note}.")));
            // Counted before the struct is written, because those within it are written first.
            self.bytes += member.len() + kind.text.len() + docs.iter().map(String::len).sum::<usize>();
            let is_optional = !is_required && !kind.text.starts_with("Option<");
            let kind = if is_optional { optional(kind) } else { kind };
            fields.push(Field { name: member, docs, kind, is_required });
        }
        let [title, description] = texts_of(value);
        self.items[place] = struct_source(&name, &[title, description], &fields);
        RustType { text: name, has_default: fields.iter().all(|field| field.kind.has_default), note: None }
    }

    fn claim(&mut self, name: &str) -> String {
        self.names.claim(&pascal(name), "")
    }
}

/// Returns the title and the description of a schema, which may be missing.
fn texts_of(schema: &Value) -> [String; 2] {
    let text = |member: &str| schema[member].as_str().unwrap_or_default().to_owned();
    [text("title"), text("description")]
}

fn optional(kind: RustType) -> RustType {
    if kind.text.starts_with("Option<") {
        return kind;
    }
    RustType { text: format!("Option<{}>", kind.text), has_default: true, note: kind.note }
}

fn struct_source(name: &str, docs: &[String], fields: &[Field<'_>]) -> String {
    let mut out = String::new();
    push_docs(&mut out, 0, docs.iter().map(|text| &**text));
    let default = if fields.iter().all(|field| field.kind.has_default) { "Default, " } else { "" };
    push_line(&mut out, 0, &format!("#[derive(Clone, Debug, {default}PartialEq, Serialize, Deserialize)]"));
    push_line(&mut out, 0, &format!("pub struct {name} {{"));
    let mut names = Names::default();
    for field in fields {
        push_docs(&mut out, 4, field.docs.iter().map(|text| &**text));
        let identifier = names.claim(&snake(field.name), "_");
        if identifier != field.name {
            push_rename(&mut out, 4, field.name);
        }
        if !field.is_required {
            push_line(&mut out, 4, "#[serde(default, skip_serializing_if = \"Option::is_none\")]");
        }
        push_joined(&mut out, 4, &format!("pub {identifier}:"), &format!("{},", field.kind.text));
    }
    push_line(&mut out, 0, "}");
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(schema: &Value) -> RawJson {
        RawJson::encode(schema).expect("JSON")
    }

    #[test]
    fn target_has_one_type_however_it_is_spelled() {
        // 2^6 spellings of one path, and references to references.
        let spellings = (0..64).map(|bits: u32| {
            let name: String = (0..6).map(|at| if bits >> at & 1 == 0 { "~" } else { "~0" }).collect();
            (format!("p{bits}"), json!({"$ref": format!("#/$defs/{name}")}))
        });
        let aliases = (0..8).map(|at| (format!("a{at}"), json!({"$ref": format!("#/$defs/a{at}")})));
        let properties: Value = spellings.chain(aliases).collect::<serde_json::Map<_, _>>().into();
        let mut schema = json!({"type": "object", "properties": properties});
        schema["$defs"]["~~~~~~"] = json!({"type": "object", "properties": {"x": {"type": "string"}}});
        for at in 0..8 {
            schema["$defs"][format!("a{at}")] = json!({"$ref": "#/$defs/~0~0~0~0~0~0"});
        }
        let mut writer = TypeWriter::new();
        writer.root(&raw(&schema), "Tool", "Arguments");
        assert_eq!(writer.items.len(), 2, "{:?}", writer.items);
        // Targets that lead to each other have no type.
        let around = json!({"$ref": "#/a", "a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}});
        let kind = writer.root(&raw(&around), "Other", "Arguments");
        assert_eq!((&*kind.text, kind.note.is_some()), ("Value", true));
    }

    #[test]
    fn types_are_bounded_in_number_and_size() {
        let members = |count: usize, description: &str| {
            let members = (0..count).map(|at| (format!("m{at}"), json!({"description": description})));
            let properties: Value = members.collect::<serde_json::Map<_, _>>().into();
            raw(&json!({"type": "object", "properties": properties}))
        };
        let description = "x".repeat(1 << 20);
        for (schema, times) in [(members(2_000, ""), MAX_FIELDS / 2_000), (members(1, &description), 8)] {
            let mut writer = TypeWriter::new();
            for at in 0..times {
                let kind = writer.root(&schema, &format!("Tool{at}"), "Arguments");
                assert_eq!(kind.note, None, "{at}");
            }
            let size = writer.items.len();
            let kind = writer.root(&schema, "More", "Arguments");
            assert_eq!((&*kind.text, writer.items.len()), ("Value", size));
            assert!(kind.note.is_some_and(|note| note.contains("too large")));
        }
    }

    #[test]
    fn tool_without_arguments_allows_none() {
        for (schema, kind) in [
            (json!({"type": "object", "properties": {}}), None),
            (json!({"type": "object", "additionalProperties": false}), None),
            (
                json!({"type": "object", "properties": {}, "additionalProperties": false, "required": []}),
                None,
            ),
            (json!({"type": "object"}), Some("Map<String, Value>")),
            (
                json!({"type": "object", "properties": {}, "additionalProperties": true}),
                Some("Map<String, Value>"),
            ),
            (
                json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}),
                Some("BTreeMap<String, String>"),
            ),
            (json!({"type": "object", "properties": {}, "required": ["a"]}), Some("Map<String, Value>")),
        ] {
            let arguments = TypeWriter::new().arguments(&raw(&schema), "Tool");
            assert_eq!(arguments.map(|kind| kind.text).as_deref(), kind, "{schema}");
        }
    }
}
