//! Fuzz target for elicitation forms and the checks of submitted values.

use mcp_proto::model::{ElicitResult, ElicitSchema, ElicitValue, Map};
use serde_json::Value;

use super::wire::json;

/// Reads a form and submitted values, which are on two lines, and checks both.
///
/// - A form that was read and written is read as the same form, but for the last bit of large or long numbers, which
///   `serde_json` reads inexactly.
/// - The defaults of a valid form match their fields, and only missing values are filled in.
/// - Values are accepted exactly if a simple model accepts them.
/// - A value of an accepted form stays accepted if members without a field are added.
///
/// A form may hold members that are kept as text without being read. With a number beyond all floats there, as `1e999`,
/// it is valid, but no `Value` can hold it: then only the checks that need no model are made.
pub fn form(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (schema, content) = text.split_once('\n').unwrap_or((&text, "{}"));
    let Ok(form) = serde_json::from_str::<ElicitSchema>(schema) else { return };
    let written = serde_json::to_string(&form).expect("a form can be written");
    let again: ElicitSchema = serde_json::from_str(&written).unwrap_or_else(|e| panic!("{written}: {e}"));
    let model = json(written.as_bytes());
    let rewritten = serde_json::to_string(&again).expect("a form can be written");
    match (&model, json(rewritten.as_bytes())) {
        (Some(before), Some(after)) => assert!(is_same(before, &after), "{written}: {again:?}"),
        (before, after) => assert_eq!(before.is_some(), after.is_some(), "{written}: {again:?}"),
    }
    let is_valid = form.validate().is_ok();
    let initial = form.fill_defaults(Map::new());
    for (name, value) in initial.iter() {
        let (_, field) = form.properties.iter().find(|(field, _)| *field == name).expect("a field");
        assert!(!is_valid || field.check(value).is_ok(), "the default of {name} does not match: {written}");
    }
    let result = format!("{{\"action\":\"accept\",\"content\":{content}}}");
    let Ok(result) = serde_json::from_str::<ElicitResult>(&result) else { return };
    let Some(content) = result.content else { return };
    check_content(&form, model.as_ref(), &content, is_valid);
}

/// Returns whether two JSON values are equal, but for the last bits of numbers.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(x), Some(y)) => a == b || (x - y).abs() <= x.abs() * 4.0 * f64::EPSILON,
            _ => a == b,
        },
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((n, a), (m, b))| n == m && is_same(a, b))
        }
        _ => a == b,
    }
}

fn check_content(form: &ElicitSchema, model: Option<&Value>, content: &Map<ElicitValue>, is_valid: bool) {
    let accepted = form.check(content);
    if let Err(error) = &accepted {
        assert!(!format!("{error}").is_empty());
    }
    // Content has no members that are kept as text.
    let values: Value = serde_json::to_value(content).expect("JSON");
    // Two members with one name are one in the model.
    let is_ambiguous = has_duplicates(content.iter().map(|(name, _)| name))
        || has_duplicates(form.properties.iter().map(|(name, _)| name));
    let is_checkable = is_valid && !is_ambiguous;
    if let Some(model) = model.filter(|_| is_checkable) {
        assert_eq!(accepted.is_ok(), model_accepts(model, &values), "{model} with {values}: {accepted:?}");
    }
    let filled = form.fill_defaults(content.clone());
    for (name, value) in content.iter() {
        assert!(filled.iter().any(|(n, v)| n == name && v == value), "{name} was replaced");
    }
    if is_checkable && accepted.is_ok() {
        assert!(form.check(&filled).is_ok(), "defaults make {values} invalid for {form:?}");
    }
}

fn has_duplicates<'a>(names: impl Iterator<Item = &'a str>) -> bool {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.windows(2).any(|two| two[0] == two[1])
}

/// The model: the keywords of JSON Schema that forms have.
fn model_accepts(form: &Value, values: &Value) -> bool {
    let required = form["required"].as_array().into_iter().flatten();
    let has_required = required.filter_map(Value::as_str).all(|name| values.get(name).is_some());
    let fields = form["properties"].as_object().into_iter().flatten();
    has_required
        && fields
            .filter_map(|(name, field)| Some((field, values.get(name)?)))
            .all(|(f, v)| field_accepts(f, v))
}

fn field_accepts(field: &Value, value: &Value) -> bool {
    let choices = |list: &Value| -> Option<Vec<String>> {
        let one = |choice: &Value| choice.as_str().or_else(|| choice["const"].as_str()).map(String::from);
        list.as_array().map(|all| all.iter().filter_map(one).collect())
    };
    let within = |n: usize, min: &str, max: &str| {
        field[min].as_u64().is_none_or(|min| n as u64 >= min)
            && field[max].as_u64().is_none_or(|max| n as u64 <= max)
    };
    match field["type"].as_str() {
        Some("boolean") => value.is_boolean(),
        Some("string") => {
            let Some(text) = value.as_str() else { return false };
            match choices(&field["oneOf"]).or_else(|| choices(&field["enum"])) {
                Some(choices) => choices.iter().any(|choice| choice == text),
                // Formats have tests of their own.
                None => {
                    let format = field["format"].as_str().map(mcp_proto::model::StringFormat::from);
                    within(text.chars().count(), "minLength", "maxLength")
                        && format.is_none_or(|format| format.matches(text))
                }
            }
        }
        Some("array") => {
            let Some(chosen) = value.as_array() else { return false };
            let known = choices(&field["items"]["anyOf"]).or_else(|| choices(&field["items"]["enum"]));
            let known = known.unwrap_or_default();
            let names: Vec<&str> = chosen.iter().filter_map(Value::as_str).collect();
            within(chosen.len(), "minItems", "maxItems")
                && names.len() == chosen.len()
                && names.iter().all(|name| known.iter().any(|k| k == name))
                && !has_duplicates(names.iter().copied())
        }
        Some("number" | "integer") => {
            let Some(number) = value.as_f64() else { return false };
            let is_integer = field["type"] != "integer" || number % 1.0 == 0.0;
            let bound = |name: &str| field[name].as_f64();
            is_integer
                && bound("minimum").is_none_or(|min| number >= min)
                && bound("maximum").is_none_or(|max| number <= max)
        }
        _ => true,
    }
}
