//! The schema of one revision: types by method, compiled validators, and relaxations.

use alloc::sync::Arc;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::{ExpectedType, MessageDirection};

/// Error codes that have a type. A revision without that type treats the code like any other.
const ERROR_TYPES: [(i64, &str); 4] = [
    (-32020, "HeaderMismatchError"),
    (-32021, "MissingRequiredClientCapabilityError"),
    (-32022, "UnsupportedProtocolVersionError"),
    (-32042, "URLElicitationRequiredError"),
];
/// Name of the added error envelope whose `id` is optional (see [`super::SchemaSet::check_http_body`]).
const ERROR_WITHOUT_ID: &str = "JSONRPCErrorWithoutId";

#[derive(Debug)]
pub(super) struct RevisionSchema {
    pub(super) name: &'static str,
    /// Key of the definitions: `definitions` up to 2025-06-18, `$defs` later.
    key: &'static str,
    /// `$schema` and the definitions, the base of each compiled type.
    base: Map<String, Value>,
    pub(super) types: HashMap<(MessageDirection, String), String>,
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

impl RevisionSchema {
    pub(super) fn new(name: &'static str, mut document: Value) -> Result<Self, String> {
        let key = if document.get("definitions").is_some() { "definitions" } else { "$defs" };
        relax(name, document.get_mut(key).ok_or("no definitions")?)?;
        let definitions = &document[key];
        let mut types = HashMap::new();
        for (union, direction) in [
            ("ClientRequest", MessageDirection::ClientToServer),
            ("ClientNotification", MessageDirection::ClientToServer),
            ("ServerRequest", MessageDirection::ServerToClient),
            ("ServerNotification", MessageDirection::ServerToClient),
        ] {
            for (method, type_name) in union_members(definitions, union)? {
                types.insert((direction, method), type_name);
            }
        }
        let mut base = Map::new();
        base.insert("$schema".into(), document["$schema"].clone());
        base.insert(key.into(), document[key].take());
        Ok(Self { name, key, base, types, validators: Mutex::default() })
    }

    fn has(&self, type_name: &str) -> bool {
        self.definition(type_name).is_some()
    }

    pub(super) fn definition(&self, type_name: &str) -> Option<&Value> {
        self.base[self.key].get(type_name)
    }

    /// Returns the first of several names of one type that the revision has.
    pub(super) fn first_of(&self, names: &[&'static str]) -> &'static str {
        names.iter().copied().find(|name| self.has(name)).unwrap_or("JSONRPCMessage")
    }

    /// Returns the type of the result of a request of type `request`; `task` selects the result that holds a task.
    pub(super) fn result_type(&self, request: &str, task: bool) -> String {
        if task && self.has("CreateTaskResult") {
            return "CreateTaskResult".into();
        }
        let name = format!("{}Result", request.trim_end_matches("Request"));
        // `ping`, `logging/setLevel`, `resources/subscribe` and `resources/unsubscribe` have an empty result.
        if self.has(&name) { name } else { "EmptyResult".into() }
    }

    pub(super) fn plan_error(&self, message: &Value, http: bool) -> Vec<ExpectedType> {
        let idless = http && self.has(ERROR_WITHOUT_ID) && message.get("id").is_none();
        let envelope =
            if idless { ERROR_WITHOUT_ID } else { self.first_of(&["JSONRPCErrorResponse", "JSONRPCError"]) };
        let code = message["error"].get("code").and_then(Value::as_i64);
        let of_code = ERROR_TYPES.iter().find(|(known, name)| Some(*known) == code && self.has(name));
        let names = [Some(envelope), of_code.map(|(_, name)| *name)];
        names.into_iter().flatten().map(|name| ExpectedType::new(name, "")).collect()
    }

    pub(super) fn validate(&self, expected: &ExpectedType, message: &Value) -> Vec<String> {
        let validator = match self.validator(&expected.name) {
            Ok(validator) => validator,
            Err(problem) => return vec![problem],
        };
        let value = message.pointer(expected.pointer).unwrap_or(&Value::Null);
        let problems = validator.iter_errors(value).map(|error| {
            let text: String = error.to_string().chars().take(200).collect();
            format!("{} {}: {}{}: {text}", self.name, expected.name, expected.pointer, error.instance_path())
        });
        problems.collect()
    }

    fn validator(&self, name: &str) -> Result<Arc<Validator>, String> {
        let mut cache = self.validators.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = cache.get(name) {
            return Ok(Arc::clone(found));
        }
        if !self.has(name) {
            return Err(format!("{} has no type {name}", self.name));
        }
        let mut schema = self.base.clone();
        // Not a plain `$ref`: draft-07 ignores all other members beside it.
        schema.insert("allOf".into(), json!([{ "$ref": format!("#/{}/{name}", self.key) }]));
        // `format` is not validated: half of the revisions use a draft in which it is an annotation only.
        let options = jsonschema::options().should_validate_formats(false);
        let validator = options.build(&Value::Object(schema)).map_err(|error| format!("{name}: {error}"))?;
        let validator = Arc::new(validator);
        cache.insert(name.into(), Arc::clone(&validator));
        Ok(validator)
    }
}

/// Returns the methods of a union, `ClientRequest` for example, each with the name of its type.
fn union_members(definitions: &Value, union: &str) -> Result<Vec<(String, String)>, String> {
    let Some(schema) = definitions.get(union) else {
        return Ok(Vec::new()); // The modern revision has no ServerRequest.
    };
    let method_of = |schema: &Value| schema.pointer("/properties/method/const")?.as_str().map(str::to_owned);
    // A union of one member is replaced by that member, so its type is found by the method.
    if let Some(method) = method_of(schema) {
        let all = definitions.as_object().into_iter().flatten();
        let mut named =
            all.filter(|(name, schema)| *name != union && method_of(schema).as_ref() == Some(&method));
        let (name, _) = named.next().ok_or_else(|| format!("{union}: no type for {method}"))?;
        return Ok(vec![(method.clone(), name.clone())]);
    }
    let members = schema["anyOf"].as_array().ok_or_else(|| format!("{union} is not a union"))?;
    let member = |member: &Value| {
        let name = member["$ref"].as_str()?.rsplit('/').next()?;
        Some((method_of(&definitions[name])?, name.to_owned()))
    };
    members.iter().map(|entry| member(entry).ok_or_else(|| format!("{union}: {entry}"))).collect()
}

/// Widens the places where `schema.json` is narrower than the TypeScript source, which decides (BASE-045, DEC-014).
///
/// Nothing else may be relaxed. A place that is not found is an error: the schemas have changed, and this list has to
/// be reviewed.
fn relax(revision: &str, definitions: &mut Value) -> Result<(), String> {
    let mut replace = |pointer: &str, from: Value, to: Value| match definitions.pointer_mut(pointer) {
        Some(spot) if *spot == from => {
            *spot = to;
            Ok(())
        }
        found => Err(format!("relaxation of {pointer} does not fit the schema: found {found:?}")),
    };
    let narrow = json!(["string", "integer", "boolean"]);
    let wide = json!(["string", "number", "boolean"]);
    // Values of an elicited form are `number` in TypeScript: fractions are valid.
    match revision {
        "2025-06-18" => {
            replace("/ElicitResult/properties/content/additionalProperties/type", narrow.clone(), wide)?;
        }
        "2025-11-25" | "2026-07-28" => {
            let spot = "/ElicitResult/properties/content/additionalProperties/anyOf/1/type";
            replace(spot, narrow.clone(), wide)?;
        }
        _ => {}
    }
    // `JSONValue`, used by capability settings and sampling metadata, lost `null` and fractions.
    if revision == "2026-07-28" {
        replace("/JSONValue/anyOf/2/type", narrow, json!(["string", "number", "boolean", "null"]))?;
    }
    // `true` and `false` are JSON Schemas too, as a property of a tool's input or output.
    let object = json!({ "type": "object", "properties": {}, "additionalProperties": true });
    let spots: &[&str] = match revision {
        "2024-11-05" | "2025-03-26" => &["inputSchema"],
        "2025-06-18" | "2025-11-25" => &["inputSchema", "outputSchema"],
        _ => &[],
    };
    for spot in spots {
        let pointer = format!("/Tool/properties/{spot}/properties/properties/additionalProperties");
        replace(&pointer, object.clone(), json!({ "type": ["object", "boolean"] }))?;
    }
    // Up to 2025-06-18 an error needs an `id`, but the text of the HTTP transport allows a body without one. This is a
    // separate type for those bodies: on a byte stream such an error stays invalid (BASE-014).
    if let Some(mut error) = definitions.get("JSONRPCError").cloned() {
        let required = error["required"].as_array_mut().ok_or("JSONRPCError requires nothing")?;
        required.retain(|member| member != "id");
        definitions[ERROR_WITHOUT_ID] = error;
    }
    Ok(())
}
