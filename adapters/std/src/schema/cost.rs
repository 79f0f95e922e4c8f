//! Cost of a schema, estimated before use.

use alloc::collections::BTreeMap;
use alloc::string::String;

use mcp_proto::router::SchemaError;
use serde_json::{Map, Value};

use crate::schema::SchemaLimits;

/// Estimated cost of a schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SchemaCost {
    /// Whether a subschema refers back to itself.
    pub(crate) is_recursive: bool,
    /// Cost of checking whether a value is valid, for each of its nodes (at least 1) and each 16 bytes of text.
    pub(crate) validation: ValueCost,
    /// Cost of collecting all violations, likewise.
    pub(crate) reporting: ValueCost,
}

/// Steps that a value costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueCost {
    pub(crate) per_node: u64,
    pub(crate) per_text: u64,
}

impl ValueCost {
    /// Returns the largest number of steps for a value of this size.
    pub(crate) const fn total(self, size: ValueSize) -> u64 {
        let text = (size.bytes / 16 + 1).saturating_mul(self.per_text);
        self.per_node.saturating_mul(size.nodes).saturating_add(text)
    }
}

/// Keywords whose value is a schema or an array of schemas.
const SCHEMA_KEYWORDS: &[&str] = &[
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
/// Keywords whose value is an object of schemas.
const NAMED_SCHEMA_KEYWORDS: &[&str] =
    &["dependencies", "dependentSchemas", "patternProperties", "properties"];
/// Keywords whose value is an object of schemas that only references use.
const DEFINITION_KEYWORDS: &[&str] = &["$defs", "definitions"];
const REFERENCE_KEYWORDS: &[&str] = &["$dynamicRef", "$recursiveRef", "$ref"];
const ANCHOR_KEYWORDS: &[&str] = &["$anchor", "$dynamicAnchor"];
/// Keywords whose schemas apply to the same value as their parent.
const IN_PLACE_KEYWORDS: &[&str] =
    &["allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"];
/// Keywords that depend on evaluated members, so that schemas in place are evaluated again.
const UNEVALUATED_KEYWORDS: &[&str] = &["unevaluatedItems", "unevaluatedProperties"];

impl SchemaCost {
    /// Walks over a schema. Fails if it exceeds a limit, or refers to something outside of itself.
    pub(crate) fn estimate(schema: &Value, limits: &SchemaLimits) -> Result<Self, SchemaError> {
        let mut walk = SchemaWalk {
            root: schema,
            limits,
            anchors: BTreeMap::new(),
            costs: BTreeMap::new(),
            subschemas: Vec::new(),
            sum: StepCost::default(),
            has_unevaluated: false,
            is_recursive: false,
        };
        walk.collect(schema, 0)?;
        let mut cost = walk.cost(schema, 0)?;
        if walk.is_recursive {
            // In a recursive schema each subschema is applied to each part of the value once.
            cost.nodes.validation =
                cost.nodes.validation.max(walk.sum.nodes.validation).max(walk.subschemas.len() as u64);
            cost.text.validation = cost.text.validation.max(walk.sum.text.validation);
            let mut seen = BTreeMap::new();
            let used =
                |schema: &&Value| walk.costs.contains_key(&(core::ptr::from_ref::<Value>(schema) as usize));
            if walk.has_unevaluated
                && walk.subschemas.iter().copied().filter(used).any(|s| walk.has_cycle(s, &mut seen))
            {
                // Evaluated members would be computed again along each path.
                return Err(SchemaError::Limit("what it unfolds to"));
            }
        }
        if cost.nodes.validation > limits.unfolded {
            return Err(SchemaError::Limit("what it unfolds to"));
        }
        let validation = ValueCost { per_node: cost.nodes.validation, per_text: cost.text.validation };
        let reporting = ValueCost { per_node: cost.nodes.reporting, per_text: cost.text.reporting };
        Ok(Self { is_recursive: walk.is_recursive, validation, reporting })
    }
}

/// Steps by purpose, for each part of a value.
#[derive(Clone, Copy, Debug, Default)]
struct StepCounts {
    /// Steps to check whether the value is valid.
    validation: u64,
    /// Steps to find which of its members were evaluated.
    annotation: u64,
    /// Steps to collect all violations.
    reporting: u64,
}

impl StepCounts {
    const fn uniform(steps: u64) -> Self {
        Self { validation: steps, annotation: steps, reporting: steps }
    }

    const fn add_reference(&mut self, target: Self) {
        self.validation = self.validation.saturating_add(target.validation);
        self.annotation = self.annotation.saturating_add(target.annotation);
        self.reporting = self.reporting.saturating_add(target.reporting);
    }

    fn add_subschema(&mut self, keyword: &str, inner: Self) {
        let evaluates_again = UNEVALUATED_KEYWORDS.contains(&keyword) || keyword == "contains";
        self.validation = self.validation.saturating_add(inner.validation);
        self.reporting = self.reporting.saturating_add(inner.reporting);
        if IN_PLACE_KEYWORDS.contains(&keyword) || evaluates_again || keyword == "propertyNames" {
            // A check comes first, and then the collection of violations.
            self.reporting = self.reporting.saturating_add(inner.validation);
        }
        if IN_PLACE_KEYWORDS.contains(&keyword) {
            self.annotation =
                self.annotation.saturating_add(inner.validation).saturating_add(inner.annotation);
        } else if evaluates_again {
            self.annotation = self.annotation.saturating_add(inner.validation);
        }
    }

    const fn add_unevaluated(&mut self) {
        self.validation = self.validation.saturating_add(self.annotation);
        self.reporting = self.reporting.saturating_add(self.annotation);
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct StepCost {
    /// Steps for each node.
    nodes: StepCounts,
    /// Steps for each 16 bytes of text.
    text: StepCounts,
}

/// Returns the steps of keywords without subschemas, for each node and for each 16 bytes of text.
fn keyword_steps(schema: &Value) -> (u64, u64) {
    let (mut steps, mut text) = (1, 0_u64);
    for (name, value) in schema.as_object().into_iter().flatten() {
        match name.as_str() {
            // A comparison costs at most the size of the constant.
            "const" => steps += comparison_steps(value),
            "enum" => steps += value.as_array().into_iter().flatten().map(comparison_steps).sum::<u64>(),
            "required" => steps += value_size(value).nodes,
            "dependentRequired" | "dependencies" => {
                let names = value.as_object().into_iter().flat_map(Map::values).filter(|v| v.is_array());
                steps += names.map(|names| value_size(names).nodes).sum::<u64>();
            }
            "pattern" => {
                steps += PATTERN_SETUP_STEPS;
                text = text.saturating_add(pattern_steps(value.as_str().unwrap_or_default()));
            }
            "patternProperties" => {
                for pattern in value.as_object().into_iter().flat_map(Map::keys) {
                    steps += PATTERN_SETUP_STEPS;
                    text = text.saturating_add(pattern_steps(pattern));
                }
            }
            "maxLength" | "minLength" => text = text.saturating_add(1),
            // Each level of a value is compared with all levels below.
            "uniqueItems" => {
                steps += 32;
                text = text.saturating_add(32);
            }
            _ => {}
        }
    }
    (steps, text)
}

/// Fixed steps of starting a pattern match.
const PATTERN_SETUP_STEPS: u64 = 8;

/// Returns the steps of one comparison with a value, at most.
fn comparison_steps(value: &Value) -> u64 {
    let size = value_size(value);
    size.nodes + size.bytes / 32
}

/// Returns the steps of a pattern for each 16 bytes of text.
fn pattern_steps(pattern: &str) -> u64 {
    pattern_states(pattern).saturating_mul(16)
}

/// Estimates the number of automaton states of a pattern; at worst each state sees each byte of the text.
fn pattern_states(pattern: &str) -> u64 {
    // The sum of a group and its last item, which a following `{m,n}` repeats.
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
                let (mut max_repeat, mut number) = (1u64, 0u64);
                for byte in bytes.by_ref().take_while(|b| *b != b'}') {
                    let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
                    number = digit.map_or(0, |digit| number.saturating_mul(10).saturating_add(digit));
                    max_repeat = max_repeat.max(number);
                }
                last = last.saturating_mul(max_repeat);
                continue;
            }
            b'\\' => match bytes.next() {
                // Unicode classes and properties, encoded in UTF-8.
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

struct SchemaWalk<'a> {
    root: &'a Value,
    limits: &'a SchemaLimits,
    anchors: BTreeMap<&'a str, &'a Value>,
    /// Costs by address of the schema; `None` while being computed.
    costs: BTreeMap<usize, Option<StepCost>>,
    /// All subschemas.
    subschemas: Vec<&'a Value>,
    /// Sum of the costs of all used subschemas, each by itself.
    sum: StepCost,
    /// Whether a subschema depends on evaluated members.
    has_unevaluated: bool,
    is_recursive: bool,
}

fn for_each_subschema<'a>(
    schema: &'a Value,
    stored: bool,
    mut seen: impl FnMut(&'a str, &'a Value) -> Result<(), SchemaError>,
) -> Result<(), SchemaError> {
    let Some(members) = schema.as_object() else { return Ok(()) };
    for (name, value) in members {
        let name = name.as_str();
        if SCHEMA_KEYWORDS.contains(&name) {
            match value {
                Value::Array(list) => list.iter().try_for_each(|one| seen(name, one))?,
                one => seen(name, one)?,
            }
        } else if NAMED_SCHEMA_KEYWORDS.contains(&name) || stored && DEFINITION_KEYWORDS.contains(&name) {
            value.as_object().into_iter().flat_map(Map::values).try_for_each(|one| seen(name, one))?;
        }
    }
    Ok(())
}

impl<'a> SchemaWalk<'a> {
    /// Counts all subschemas and collects the anchors.
    fn collect(&mut self, schema: &'a Value, depth: usize) -> Result<(), SchemaError> {
        self.subschemas.push(schema);
        if self.subschemas.len() > self.limits.subschemas {
            return Err(SchemaError::Limit("how many subschemas it has"));
        }
        if depth > self.limits.depth {
            return Err(SchemaError::Limit("how deep it is nested"));
        }
        for reference in REFERENCE_KEYWORDS.iter().filter_map(|name| schema.get(*name)?.as_str()) {
            if !reference.starts_with('#') {
                return Err(SchemaError::Reference(reference.chars().take(200).collect()));
            }
        }
        if let Some(id) = schema.get("$id").and_then(Value::as_str).filter(|_| depth > 0) {
            // It would change the meaning of references.
            return Err(SchemaError::Reference(id.chars().take(200).collect()));
        }
        for anchor in ANCHOR_KEYWORDS.iter().filter_map(|name| schema.get(*name)?.as_str()) {
            self.anchors.insert(anchor, schema);
        }
        for_each_subschema(schema, true, |_, inner| self.collect(inner, depth + 1))
    }

    /// Computes the cost of a schema.
    fn cost(&mut self, schema: &'a Value, depth: usize) -> Result<StepCost, SchemaError> {
        let address = core::ptr::from_ref(schema) as usize;
        match self.costs.get(&address) {
            Some(Some(cost)) => return Ok(*cost),
            Some(None) => {
                self.is_recursive = true;
                return Ok(StepCost { nodes: StepCounts::uniform(1), text: StepCounts::default() });
            }
            None => {}
        }
        if depth > self.limits.depth {
            return Err(SchemaError::Limit("how deep it is nested"));
        }
        self.costs.insert(address, None);
        let (steps, text) = keyword_steps(schema);
        let mut cost = StepCost { nodes: StepCounts::uniform(steps), text: StepCounts::uniform(text) };
        self.sum.nodes.add_reference(cost.nodes);
        self.sum.text.add_reference(cost.text);
        for target in self.targets(schema) {
            let target = self.cost(target, depth + 1)?;
            cost.nodes.add_reference(target.nodes);
            cost.text.add_reference(target.text);
        }
        for_each_subschema(schema, false, |keyword, inner| {
            let inner = self.cost(inner, depth + 1)?;
            cost.nodes.add_subschema(keyword, inner.nodes);
            cost.text.add_subschema(keyword, inner.text);
            Ok(())
        })?;
        if UNEVALUATED_KEYWORDS.iter().any(|keyword| schema.get(*keyword).is_some()) {
            self.has_unevaluated = true;
            self.sum.nodes.validation = self.sum.nodes.validation.saturating_add(cost.nodes.annotation);
            self.sum.text.validation = self.sum.text.validation.saturating_add(cost.text.annotation);
            cost.nodes.add_unevaluated();
            cost.text.add_unevaluated();
        }
        self.costs.insert(address, Some(cost));
        Ok(cost)
    }

    /// Returns whether a schema refers back to itself for the same value.
    ///
    /// `seen` holds the visited schemas; the value is `true` while a schema is being visited.
    fn has_cycle(&self, schema: &'a Value, seen: &mut BTreeMap<usize, bool>) -> bool {
        let address = core::ptr::from_ref(schema) as usize;
        if let Some(within) = seen.get(&address) {
            return *within;
        }
        seen.insert(address, true);
        let mut has_cycle = self.targets(schema).into_iter().any(|target| self.has_cycle(target, seen));
        let _ = for_each_subschema(schema, false, |keyword, inner| {
            has_cycle = has_cycle || IN_PLACE_KEYWORDS.contains(&keyword) && self.has_cycle(inner, seen);
            Ok(())
        });
        seen.insert(address, false);
        has_cycle
    }

    /// Returns the targets of a schema's references.
    fn targets(&self, schema: &Value) -> Vec<&'a Value> {
        let references = REFERENCE_KEYWORDS.iter().filter_map(|name| schema.get(*name)?.as_str());
        references.filter_map(|reference| self.target(reference)).collect()
    }

    /// Returns the target of a reference. `None` if there is none, which the validator reports.
    fn target(&self, reference: &str) -> Option<&'a Value> {
        let fragment = percent_decode(reference.strip_prefix('#')?);
        if fragment.is_empty() || fragment.starts_with('/') {
            self.root.pointer(&fragment)
        } else {
            self.anchors.get(&*fragment).copied()
        }
    }
}

/// Decodes the escapes of a URI fragment.
fn percent_decode(fragment: &str) -> String {
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

/// Size of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueSize {
    /// The value itself and all values in it.
    pub(crate) nodes: u64,
    /// Bytes of the strings in it, names of members included.
    pub(crate) bytes: u64,
}

pub(crate) fn value_size(value: &Value) -> ValueSize {
    let mut all = ValueSize { nodes: 1, bytes: 0 };
    let mut add = |inner: ValueSize| {
        all.nodes += inner.nodes;
        all.bytes += inner.bytes;
    };
    match value {
        Value::Array(list) => list.iter().for_each(|inner| add(value_size(inner))),
        Value::Object(members) => {
            for (name, inner) in members {
                add(ValueSize { nodes: 0, bytes: name.len() as u64 });
                add(value_size(inner));
            }
        }
        Value::String(text) => add(ValueSize { nodes: 0, bytes: text.len() as u64 }),
        _ => {}
    }
    all
}
