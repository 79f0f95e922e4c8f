//! What a schema costs, found out before it is used, and JSON without ambiguity

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use core::fmt;

use mcp_proto::router::SchemaError;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::validate::Bounds;

/// What a walk over a schema has shown
#[derive(Clone, Copy, Debug)]
pub(crate) struct Survey {
    /// Some subschema leads back to itself
    pub(crate) recursive: bool,
    /// How many subschemas a value may have to be seen by, at least 1
    pub(crate) unfolded: u64,
}

/// Keywords that hold a schema, or an array of them
const SCHEMAS: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords that hold schemas by name
const NAMED: &[&str] = &["dependencies", "dependentSchemas", "patternProperties", "properties"];
/// Keywords that hold schemas by name which only references use
const STORED: &[&str] = &["$defs", "definitions"];
const REFERENCES: &[&str] = &["$dynamicRef", "$recursiveRef", "$ref"];
const ANCHORS: &[&str] = &["$anchor", "$dynamicAnchor"];

impl Survey {
    /// Walks over a schema; an error when it is beyond a bound, or refers to something outside of itself
    pub(crate) fn of(schema: &Value, bounds: &Bounds) -> Result<Self, SchemaError> {
        let mut walk = Walk {
            root: schema,
            bounds,
            anchors: BTreeMap::new(),
            costs: BTreeMap::new(),
            subschemas: 0,
            recursive: false,
        };
        walk.collect(schema, 0)?;
        let unfolded = walk.cost(schema, 0)?;
        if unfolded > bounds.unfolded {
            return Err(SchemaError::Limit("what it unfolds to"));
        }
        // In a recursive schema each subschema sees each part of the value once.
        let unfolded = if walk.recursive { unfolded.max(walk.subschemas as u64) } else { unfolded };
        Ok(Self { recursive: walk.recursive, unfolded })
    }
}

struct Walk<'a> {
    root: &'a Value,
    bounds: &'a Bounds,
    anchors: BTreeMap<&'a str, &'a Value>,
    /// By address; none while the cost is being found out
    costs: BTreeMap<usize, Option<u64>>,
    subschemas: usize,
    recursive: bool,
}

fn each<'a>(
    schema: &'a Value,
    stored: bool,
    mut seen: impl FnMut(&'a Value) -> Result<(), SchemaError>,
) -> Result<(), SchemaError> {
    let Some(members) = schema.as_object() else { return Ok(()) };
    for (name, value) in members {
        let name = name.as_str();
        if SCHEMAS.contains(&name) {
            match value {
                Value::Array(list) => list.iter().try_for_each(&mut seen)?,
                one => seen(one)?,
            }
        } else if NAMED.contains(&name) || stored && STORED.contains(&name) {
            value.as_object().into_iter().flat_map(Map::values).try_for_each(&mut seen)?;
        }
    }
    Ok(())
}

impl<'a> Walk<'a> {
    /// Counts all that could be used, and finds what references can name
    fn collect(&mut self, schema: &'a Value, depth: usize) -> Result<(), SchemaError> {
        self.subschemas += 1;
        if self.subschemas > self.bounds.subschemas {
            return Err(SchemaError::Limit("how many subschemas it has"));
        }
        if depth > self.bounds.depth {
            return Err(SchemaError::Limit("how deep it is nested"));
        }
        for reference in REFERENCES.iter().filter_map(|name| schema.get(*name)?.as_str()) {
            if !reference.starts_with('#') {
                return Err(SchemaError::Reference(reference.chars().take(200).collect()));
            }
        }
        if let Some(id) = schema.get("$id").and_then(Value::as_str).filter(|_| depth > 0) {
            // It would change what references mean.
            return Err(SchemaError::Reference(id.chars().take(200).collect()));
        }
        for anchor in ANCHORS.iter().filter_map(|name| schema.get(*name)?.as_str()) {
            self.anchors.insert(anchor, schema);
        }
        each(schema, true, |inner| self.collect(inner, depth + 1))
    }

    /// How many subschemas a value may have to be seen by
    fn cost(&mut self, schema: &'a Value, depth: usize) -> Result<u64, SchemaError> {
        let address = core::ptr::from_ref(schema) as usize;
        match self.costs.get(&address) {
            Some(Some(cost)) => return Ok(*cost),
            Some(None) => {
                self.recursive = true;
                return Ok(1);
            }
            None => {}
        }
        if depth > self.bounds.depth {
            return Err(SchemaError::Limit("how deep it is nested"));
        }
        self.costs.insert(address, None);
        let mut cost = 1u64;
        for reference in REFERENCES.iter().filter_map(|name| schema.get(*name)?.as_str()) {
            if let Some(target) = self.target(reference) {
                cost = cost.saturating_add(self.cost(target, depth + 1)?);
            }
        }
        each(schema, false, |inner| {
            cost = cost.saturating_add(self.cost(inner, depth + 1)?);
            Ok(())
        })?;
        self.costs.insert(address, Some(cost));
        Ok(cost)
    }

    /// What a reference names; none when there is no such thing, which the validator will say
    fn target(&self, reference: &str) -> Option<&'a Value> {
        let fragment = decode(reference.strip_prefix('#')?);
        if fragment.is_empty() || fragment.starts_with('/') {
            self.root.pointer(&fragment)
        } else {
            self.anchors.get(&*fragment).copied()
        }
    }
}

/// A fragment without its escapes
fn decode(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escaped = tail
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|digits| u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { tail.get(2..).unwrap_or_default() } else { tail };
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// What a value consists of: itself, and all in it
pub(crate) fn nodes(value: &Value) -> u64 {
    match value {
        Value::Array(list) => list.iter().map(nodes).sum::<u64>() + 1,
        Value::Object(members) => members.values().map(nodes).sum::<u64>() + 1,
        _ => 1,
    }
}

/// Reads JSON in which no object has a member twice: whoever reads it again must not see another value
pub(crate) fn no_duplicates(text: &[u8]) -> Result<Value, String> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Strict.deserialize(&mut deserializer).map_err(|e| e.to_string())?;
    deserializer.end().map_err(|e| e.to_string())?;
    Ok(value)
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }

    fn visit_f64<E: Error>(self, v: f64) -> Result<Value, E> {
        Number::from_f64(v).map(Value::Number).ok_or_else(|| E::custom("a number that is none"))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.into()))
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element_seed(Self)? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(Name(name)) = map.next_key()? {
            if members.contains_key(&name) {
                let name: String = name.chars().take(64).collect();
                return Err(A::Error::custom(alloc::format!("the member `{name}` stands twice")));
            }
            members.insert(name, map.next_value_seed(Self)?);
        }
        Ok(Value::Object(members))
    }
}

#[derive(serde::Deserialize)]
struct Name(String);
