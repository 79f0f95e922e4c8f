//! What a value of a result has to be, and how one differs from it.

#[cfg(feature = "check")]
use mcp_proto::RawJson;
#[cfg(feature = "check")]
use mcp_proto::router::{SchemaValidator as _, Validate};
use regex_lite::{Regex, RegexBuilder};
use serde_json::Value;

use super::mismatch::Mismatch;
use crate::failure::CommandFailure;
use mcp_std::json_file::values::{includes, is_equal, shown};
use mcp_std::json_file::{Location, Object};

/// What a value has to be: all of its rules hold.
pub(super) struct Expectation(Vec<Rule>);

enum Rule {
    Equals(Value),
    Matches(Regex),
    Contains(Value),
    #[cfg(feature = "check")]
    Schema(Box<dyn Validate>),
    Exists(bool),
    Length(u64),
    Type(&'static str),
}

impl Expectation {
    /// Reads an expectation: an object of rules, or any other value, which has to be equal.
    ///
    /// # Errors
    ///
    /// Fails if a rule is not known, or if its value is of no use to it.
    pub(super) fn parse(value: &Value, at: &Location) -> Result<Self, CommandFailure> {
        let Some(members) = value.as_object() else {
            return Ok(Self(vec![Rule::Equals(value.clone())]));
        };
        let known = ["equals", "matches", "contains", "schema", "exists", "length", "type"];
        if let Some(name) = members.keys().find(|name| !known.contains(&name.as_str())) {
            let why = "is no rule; the rule `equals` has an object to be equal to";
            return Err(at
                .member(name)
                .failure(&format!("{why}, and the rules are {}", known.join(", ")))
                .into());
        }
        let object = Object::new(value, at.clone(), &known)?;
        let mut rules = Vec::new();
        if let Some((value, _)) = object.get("equals") {
            rules.push(Rule::Equals(value.clone()));
        }
        if let Some(pattern) = object.text("matches")? {
            let pattern = RegexBuilder::new(pattern).size_limit(MAX_REGEX_BYTES).build();
            let wrong = |error| at.member("matches").failure(&format!("is no regular expression: {error}"));
            rules.push(Rule::Matches(pattern.map_err(wrong)?));
        }
        if let Some((value, _)) = object.get("contains") {
            rules.push(Rule::Contains(value.clone()));
        }
        if let Some((value, at)) = object.get("schema") {
            rules.push(schema(value, &at)?);
        }
        if let Some((value, at)) = object.get("length") {
            rules
                .push(Rule::Length(value.as_u64().ok_or_else(|| at.failure("must be a number, 0 or more"))?));
        }
        if let Some(name) = object.text("type")? {
            let known = TYPES.iter().find(|known| **known == name);
            let wrong = || at.member("type").failure(&format!("must be one of {}", TYPES.join(", ")));
            rules.push(Rule::Type(known.ok_or_else(wrong)?));
        }
        if object.has("exists") {
            let exists = object.flag("exists")?;
            if !exists && !rules.is_empty() {
                return Err(at.failure("what does not exist has no other rule").into());
            }
            rules.push(Rule::Exists(exists));
        }
        match rules.is_empty() {
            true => Err(at.failure(&format!("has no rule; there are {}", known.join(", "))).into()),
            false => Ok(Self(rules)),
        }
    }

    /// Returns how a value differs from what it has to be. `at` is its place.
    pub(super) fn check(&self, at: &str, found: Option<&Value>) -> Vec<Mismatch> {
        let Some(found) = found else {
            let expected = self.0.iter().find(|rule| !matches!(rule, Rule::Exists(false)));
            let missing = expected.map(|rule| Mismatch::new(at, rule.describe(), "nothing"));
            return missing.into_iter().collect();
        };
        self.0.iter().filter_map(|rule| rule.check(at, found)).collect()
    }
}

#[cfg(feature = "check")]
fn schema(value: &Value, at: &Location) -> Result<Rule, CommandFailure> {
    let raw = RawJson::encode(value).map_err(|error| at.failure(&error.to_string()))?;
    let compiled = mcp_std::schema::JsonSchemaValidator::new().compile(&raw);
    compiled.map(Rule::Schema).map_err(|error| at.failure(&format!("the schema {error}")).into())
}

#[cfg(not(feature = "check"))]
fn schema(_: &Value, _: &Location) -> Result<Rule, CommandFailure> {
    Err(crate::features::Feature::Check.missing("schema"))
}

impl Rule {
    fn describe(&self) -> String {
        match self {
            Self::Equals(value) => shown(value),
            Self::Matches(pattern) => format!("a text that matches {pattern}"),
            Self::Contains(value) => format!("something that contains {}", shown(value)),
            #[cfg(feature = "check")]
            Self::Schema(_) => "what fits the schema".to_owned(),
            Self::Exists(true) => "any value".to_owned(),
            Self::Exists(false) => "nothing".to_owned(),
            Self::Length(length) => format!("the length {length}"),
            Self::Type(name) => format!("the type {name}"),
        }
    }

    fn check(&self, at: &str, found: &Value) -> Option<Mismatch> {
        let differs = |found: String| Some(Mismatch::new(at, self.describe(), found));
        let holds = match self {
            Self::Equals(value) if is_equal(value, found) => true,
            Self::Equals(value) => return Some(Mismatch::between(at, value, found)),
            Self::Matches(pattern) => found.as_str().is_some_and(|text| pattern.is_match(text)),
            Self::Contains(part) => contains(found, part),
            #[cfg(feature = "check")]
            Self::Schema(schema) => {
                let violations = match RawJson::encode(found) {
                    Ok(raw) => schema.validate(raw.as_bytes()).err()?.to_string(),
                    Err(error) => error.to_string(),
                };
                return differs(format!("{}: {violations}", shown(found)));
            }
            Self::Exists(exists) => *exists,
            Self::Length(length) => {
                let found = match found {
                    Value::String(text) => Some(text.chars().count()),
                    Value::Array(elements) => Some(elements.len()),
                    Value::Object(members) => Some(members.len()),
                    _ => None,
                };
                match found.map(|found| found as u64) {
                    Some(found) if found == *length => return None,
                    Some(found) => return differs(found.to_string()),
                    None => false,
                }
            }
            Self::Type(name) => has_type(found, name),
        };
        if holds { None } else { differs(shown(found)) }
    }
}

/// Checks a JSON pointer (RFC 6901).
///
/// # Errors
///
/// Returns what a pointer has to be.
pub(super) fn check_pointer(pointer: &str) -> Result<(), String> {
    let is_escaped = |part: &str| part.starts_with('0') || part.starts_with('1');
    match (pointer.is_empty() || pointer.starts_with('/')) && pointer.split('~').skip(1).all(is_escaped) {
        true => Ok(()),
        false => {
            Err("must be a JSON pointer: write /content/0/text, with ~0 for ~ and ~1 for / in a name".into())
        }
    }
}

fn has_type(value: &Value, name: &str) -> bool {
    match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::Number(number) => {
            let is_whole = number.as_f64().is_some_and(|number| number.fract() == 0.0);
            name == "number" || (name == "integer" && is_whole)
        }
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
    }
}

/// Returns whether a text contains another one, an array an element, or an object members.
fn contains(found: &Value, part: &Value) -> bool {
    match (found, part) {
        (Value::String(text), Value::String(part)) => text.contains(part),
        (Value::Array(elements), part) => elements.iter().any(|element| includes(element, part)),
        (Value::Object(_), Value::Object(_)) => includes(found, part),
        _ => false,
    }
}

/// Maximum size of a compiled regular expression. The time of a search grows with it and with the text.
const MAX_REGEX_BYTES: usize = 64 << 10;
/// Names of types.
const TYPES: &[&str] = &["string", "number", "integer", "boolean", "null", "array", "object"];
