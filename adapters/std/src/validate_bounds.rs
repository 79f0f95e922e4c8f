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
    /// What asking whether a value is right costs: for each node of it (at least 1), and for each 16 bytes of text in it
    pub(crate) valid: Price,
    /// The same for looking for all that is wrong
    pub(crate) find: Price,
}

/// Steps for a value
#[derive(Clone, Copy, Debug)]
pub(crate) struct Price {
    pub(crate) nodes: u64,
    pub(crate) text: u64,
}

impl Price {
    /// The most steps that a value of such a size takes
    pub(crate) const fn of(self, size: Size) -> u64 {
        let text = (size.bytes / 16 + 1).saturating_mul(self.text);
        self.nodes.saturating_mul(size.nodes).saturating_add(text)
    }
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
/// Keywords whose schemas are for the same value as the schema that they stand in
const IN_PLACE: &[&str] =
    &["allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"];
/// Keywords that need to know what others have looked at, and so ask those in place again
const UNEVALUATED: &[&str] = &["unevaluatedItems", "unevaluatedProperties"];

impl Survey {
    /// Walks over a schema; an error when it is beyond a bound, or refers to something outside of itself
    pub(crate) fn of(schema: &Value, bounds: &Bounds) -> Result<Self, SchemaError> {
        let mut walk = Walk {
            root: schema,
            bounds,
            anchors: BTreeMap::new(),
            costs: BTreeMap::new(),
            all: Vec::new(),
            sum: Cost::default(),
            unevaluated: false,
            recursive: false,
        };
        walk.collect(schema, 0)?;
        let mut cost = walk.cost(schema, 0)?;
        if walk.recursive {
            // In a recursive schema each subschema sees each part of the value once.
            cost.nodes.valid = cost.nodes.valid.max(walk.sum.nodes.valid).max(walk.all.len() as u64);
            cost.text.valid = cost.text.valid.max(walk.sum.text.valid);
            let mut seen = BTreeMap::new();
            let used =
                |schema: &&Value| walk.costs.contains_key(&(core::ptr::from_ref::<Value>(schema) as usize));
            if walk.unevaluated && walk.all.iter().copied().filter(used).any(|s| walk.circles(s, &mut seen)) {
                // What has been looked at would be asked along every way.
                return Err(SchemaError::Limit("what it unfolds to"));
            }
        }
        if cost.nodes.valid > bounds.unfolded {
            return Err(SchemaError::Limit("what it unfolds to"));
        }
        let valid = Price { nodes: cost.nodes.valid, text: cost.text.valid };
        let find = Price { nodes: cost.nodes.find, text: cost.text.find };
        Ok(Self { recursive: walk.recursive, valid, find })
    }
}

/// Steps of a kind, for each part of a value
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    /// To ask whether the value is right
    valid: u64,
    /// To ask which of its members have been looked at
    mark: u64,
    /// To find all that is wrong
    find: u64,
}

impl Work {
    const fn own(steps: u64) -> Self {
        Self { valid: steps, mark: steps, find: steps }
    }

    const fn reference(&mut self, target: Self) {
        self.valid = self.valid.saturating_add(target.valid);
        self.mark = self.mark.saturating_add(target.mark);
        self.find = self.find.saturating_add(target.find);
    }

    fn inner(&mut self, keyword: &str, inner: Self) {
        let asks = UNEVALUATED.contains(&keyword) || keyword == "contains";
        self.valid = self.valid.saturating_add(inner.valid);
        self.find = self.find.saturating_add(inner.find);
        if IN_PLACE.contains(&keyword) || asks || keyword == "propertyNames" {
            // Whether is asked first, and then what.
            self.find = self.find.saturating_add(inner.valid);
        }
        if IN_PLACE.contains(&keyword) {
            self.mark = self.mark.saturating_add(inner.valid).saturating_add(inner.mark);
        } else if asks {
            self.mark = self.mark.saturating_add(inner.valid);
        }
    }

    const fn unevaluated(&mut self) {
        self.valid = self.valid.saturating_add(self.mark);
        self.find = self.find.saturating_add(self.mark);
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// For each node
    nodes: Work,
    /// For each 16 bytes of text
    text: Work,
}

/// What the keywords of a schema cost that hold no schemas, for each node and for each 16 bytes of text
fn own(schema: &Value) -> (u64, u64) {
    let (mut steps, mut text) = (1, 0);
    for (name, value) in schema.as_object().into_iter().flatten() {
        match name.as_str() {
            // To compare costs at most what stands here.
            "const" => steps += compared(value),
            "enum" => steps += value.as_array().into_iter().flatten().map(compared).sum::<u64>(),
            "required" => steps += size(value).nodes,
            "dependentRequired" | "dependencies" => {
                let names = value.as_object().into_iter().flat_map(Map::values).filter(|v| v.is_array());
                steps += names.map(|names| size(names).nodes).sum::<u64>();
            }
            "pattern" => {
                steps += CALL;
                text += 16 * value.as_str().map_or(0, states);
            }
            "patternProperties" => {
                for pattern in value.as_object().into_iter().flat_map(Map::keys) {
                    steps += CALL;
                    text += 16 * states(pattern);
                }
            }
            "maxLength" | "minLength" => text += 1,
            // Each level of a value looks at all below.
            "uniqueItems" => {
                steps += 32;
                text += 32;
            }
            _ => {}
        }
    }
    (steps, text)
}

/// What it costs to begin with a pattern
const CALL: u64 = 8;

/// What comparing with a value costs at most
fn compared(value: &Value) -> u64 {
    let size = size(value);
    size.nodes + size.bytes / 32
}

/// About how many states the machine for a pattern has: at worst each byte of a text is seen by each of them
fn states(pattern: &str) -> u64 {
    // The sum of a group, and what stands last in it: that is what a `{m,n}` repeats.
    let (mut outer, mut sum, mut last) = (Vec::new(), 0u64, 1u64);
    let mut bytes = pattern.bytes().peekable();
    while let Some(byte) = bytes.next() {
        let item = match byte {
            b'(' => {
                outer.push(sum.saturating_add(last));
                (sum, last) = (0, 1);
                continue;
            }
            b')' => {
                let inner = sum.saturating_add(last);
                sum = outer.pop().unwrap_or(0);
                last = inner;
                continue;
            }
            b'{' => {
                let (mut most, mut number) = (1u64, 0u64);
                for byte in bytes.by_ref().take_while(|b| *b != b'}') {
                    let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
                    number = digit.map_or(0, |digit| number.saturating_mul(10).saturating_add(digit));
                    most = most.max(number);
                }
                last = last.saturating_mul(most);
                continue;
            }
            b'\\' => match bytes.next() {
                // Classes and sets of Unicode, in UTF-8.
                Some(b'd' | b'D' | b'p' | b'P' | b's' | b'S' | b'w' | b'W') => 8,
                _ => 1,
            },
            _ => 1,
        };
        sum = sum.saturating_add(last);
        last = item;
    }
    outer.into_iter().fold(sum.saturating_add(last), u64::saturating_add)
}

struct Walk<'a> {
    root: &'a Value,
    bounds: &'a Bounds,
    anchors: BTreeMap<&'a str, &'a Value>,
    /// By address; none while the cost is being found out
    costs: BTreeMap<usize, Option<Cost>>,
    /// All subschemas
    all: Vec<&'a Value>,
    /// What all that can be used costs, each by itself
    sum: Cost,
    /// Some subschema needs to know what others have looked at
    unevaluated: bool,
    recursive: bool,
}

fn each<'a>(
    schema: &'a Value,
    stored: bool,
    mut seen: impl FnMut(&'a str, &'a Value) -> Result<(), SchemaError>,
) -> Result<(), SchemaError> {
    let Some(members) = schema.as_object() else { return Ok(()) };
    for (name, value) in members {
        let name = name.as_str();
        if SCHEMAS.contains(&name) {
            match value {
                Value::Array(list) => list.iter().try_for_each(|one| seen(name, one))?,
                one => seen(name, one)?,
            }
        } else if NAMED.contains(&name) || stored && STORED.contains(&name) {
            value.as_object().into_iter().flat_map(Map::values).try_for_each(|one| seen(name, one))?;
        }
    }
    Ok(())
}

impl<'a> Walk<'a> {
    /// Counts all that could be used, and finds what references can name
    fn collect(&mut self, schema: &'a Value, depth: usize) -> Result<(), SchemaError> {
        self.all.push(schema);
        if self.all.len() > self.bounds.subschemas {
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
        each(schema, true, |_, inner| self.collect(inner, depth + 1))
    }

    /// What a value costs
    fn cost(&mut self, schema: &'a Value, depth: usize) -> Result<Cost, SchemaError> {
        let address = core::ptr::from_ref(schema) as usize;
        match self.costs.get(&address) {
            Some(Some(cost)) => return Ok(*cost),
            Some(None) => {
                self.recursive = true;
                return Ok(Cost { nodes: Work::own(1), text: Work::default() });
            }
            None => {}
        }
        if depth > self.bounds.depth {
            return Err(SchemaError::Limit("how deep it is nested"));
        }
        self.costs.insert(address, None);
        let (steps, text) = own(schema);
        let mut cost = Cost { nodes: Work::own(steps), text: Work::own(text) };
        self.sum.nodes.reference(cost.nodes);
        self.sum.text.reference(cost.text);
        for target in self.targets(schema) {
            let target = self.cost(target, depth + 1)?;
            cost.nodes.reference(target.nodes);
            cost.text.reference(target.text);
        }
        each(schema, false, |keyword, inner| {
            let inner = self.cost(inner, depth + 1)?;
            cost.nodes.inner(keyword, inner.nodes);
            cost.text.inner(keyword, inner.text);
            Ok(())
        })?;
        if UNEVALUATED.iter().any(|keyword| schema.get(*keyword).is_some()) {
            self.unevaluated = true;
            self.sum.nodes.valid = self.sum.nodes.valid.saturating_add(cost.nodes.mark);
            self.sum.text.valid = self.sum.text.valid.saturating_add(cost.text.mark);
            cost.nodes.unevaluated();
            cost.text.unevaluated();
        }
        self.costs.insert(address, Some(cost));
        Ok(cost)
    }

    /// Whether a schema leads back to itself for the same value; what has been looked at is in `seen`, as `true` while
    /// it is being looked at
    fn circles(&self, schema: &'a Value, seen: &mut BTreeMap<usize, bool>) -> bool {
        let address = core::ptr::from_ref(schema) as usize;
        if let Some(within) = seen.get(&address) {
            return *within;
        }
        seen.insert(address, true);
        let mut circles = self.targets(schema).into_iter().any(|target| self.circles(target, seen));
        let _ = each(schema, false, |keyword, inner| {
            circles = circles || IN_PLACE.contains(&keyword) && self.circles(inner, seen);
            Ok(())
        });
        seen.insert(address, false);
        circles
    }

    /// What a schema refers to
    fn targets(&self, schema: &Value) -> Vec<&'a Value> {
        let references = REFERENCES.iter().filter_map(|name| schema.get(*name)?.as_str());
        references.filter_map(|reference| self.target(reference)).collect()
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

/// How large a value is
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Itself, and all in it
    pub(crate) nodes: u64,
    /// Bytes of the strings in it, names of members included
    pub(crate) bytes: u64,
}

pub(crate) fn size(value: &Value) -> Size {
    let mut all = Size { nodes: 1, bytes: 0 };
    let mut add = |inner: Size| {
        all.nodes += inner.nodes;
        all.bytes += inner.bytes;
    };
    match value {
        Value::Array(list) => list.iter().for_each(|inner| add(size(inner))),
        Value::Object(members) => {
            for (name, inner) in members {
                add(Size { nodes: 0, bytes: name.len() as u64 });
                add(size(inner));
            }
        }
        Value::String(text) => add(Size { nodes: 0, bytes: text.len() as u64 }),
        _ => {}
    }
    all
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
