//! What checking really costs, counted: how often hostile schemas have a leaf of theirs looked at

use alloc::format;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use jsonschema::Draft;
use serde_json::{Map, Value, json};

use crate::validate::{Bounds, options};
use crate::validate_bounds::{Survey, nodes};

/// A leaf that counts
fn leaf() -> Value {
    json!({"format": "counted"})
}

/// How often leaves are looked at, and the bound that a survey of the schema gives
fn steps(schema: &Value, value: &Value) -> (u64, u64) {
    let survey = Survey::of(schema, &Bounds::default()).expect("within the bounds");
    let count = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&count);
    let counted = move |_: &str| {
        counter.fetch_add(1, Ordering::Relaxed);
        true
    };
    let options = options(Draft::Draft202012).should_validate_formats(true).with_format("counted", counted);
    let validator = options.build(schema).expect("a schema");
    if !validator.is_valid(value) && !survey.recursive {
        // Only then are findings looked for over the whole.
        let _ = validator.iter_errors(value).count();
        return (count.load(Ordering::Relaxed), 2 * survey.unfolded * nodes(value));
    }
    (count.load(Ordering::Relaxed), survey.unfolded * nodes(value))
}

// covers: SCHEMA-009
#[test]
fn no_check_takes_more_steps_than_the_survey_allows() {
    // Ways double with each line.
    let mut defs = Map::new();
    for i in 0..12 {
        let next = json!({"$ref": format!("#/$defs/d{}", i + 1)});
        defs.insert(format!("d{i}"), json!({"allOf": [next.clone(), next]}));
    }
    defs.insert("d12".into(), leaf());
    let doubling = json!({"$defs": defs, "items": {"$ref": "#/$defs/d0"}});
    // Branches that differ only below the recursion.
    let node = |kind: &str| json!({"properties": {"zkind": {"const": kind}, "aleaf": leaf(), "next": {"$ref": "#"}}});
    let branching = json!({"anyOf": [node("a"), node("b")]});
    let array = |more: &str| json!({"type": "array", "items": {"$ref": "#"}, more: 9});
    let text = json!({"type": "string", "format": "counted"});
    let tree = json!({"oneOf": [text, array("minItems"), array("maxItems"), {"not": array("maxItems")}]});
    let wide = json!({"items": {"anyOf": (0..200).map(|i| json!({"allOf": [leaf(), {"const": i}]})).collect::<Value>()}});
    let list = |n: usize| Value::Array(alloc::vec![json!("x"); n]);
    let chain =
        |n: usize, end: Value| (0..n).fold(end, |v, _| json!({"zkind": "a", "aleaf": "x", "next": v}));
    let nest = |n: usize| (0..n).fold(json!(["x", 7]), |v, _| json!(["x", v]));
    let mut most = 0;
    for (what, schema, value) in [
        ("doubling", &doubling, list(50)),
        ("branching, right", &branching, chain(16, json!({"zkind": "a"}))),
        ("branching, wrong", &branching, chain(16, json!({"zkind": "c"}))),
        ("tree", &tree, nest(60)),
        ("wide", &wide, list(300)),
    ] {
        let (taken, allowed) = steps(schema, &value);
        assert!(taken > 0 && taken <= allowed, "{what}: {taken} steps of {allowed}");
        most = most.max(taken);
    }
    let (short, _) = steps(&branching, &chain(50, json!({"zkind": "c"})));
    let (long, _) = steps(&branching, &chain(16, json!({"zkind": "c"})));
    assert!(long <= 4 * short + 100, "{short} steps, then {long}");
    assert!(most > 10_000, "{most}: hostile enough");
}

/// A small generator (xorshift64*), repeated by its seed
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % end
    }

    /// A schema of any keywords, with references to each of four definitions
    fn schema(&mut self, depth: u64) -> Value {
        let mut schema = Map::new();
        for _ in 0..1 + self.below(3) {
            let inner = |dice: &mut Self| dice.schema(depth + 1);
            let (keyword, value) = match self.below(if depth > 3 { 4 } else { 12 }) {
                0 => ("format", json!("counted")),
                1 => ("type", json!(["string", "array", "object", "number"][self.below(4) as usize])),
                2 => ("$ref", json!(format!("#/$defs/d{}", self.below(4)))),
                3 => ("minItems", json!(self.below(4))),
                4 => ("items", inner(self)),
                5 => ("additionalProperties", inner(self)),
                6 => ("not", inner(self)),
                7 => ("properties", json!({"a": inner(self), "b": inner(self)})),
                8 => ("allOf", json!([inner(self), inner(self)])),
                9 => ("oneOf", json!([inner(self), inner(self), inner(self)])),
                10 => ("unevaluatedProperties", inner(self)),
                _ => ("anyOf", json!([inner(self), inner(self)])),
            };
            schema.insert(keyword.into(), value);
        }
        Value::Object(schema)
    }

    fn value(&mut self, depth: u64) -> Value {
        match self.below(if depth > 7 { 2 } else { 6 }) {
            0 => json!("x"),
            1 => json!(self.below(9)),
            2 | 3 => (0..self.below(4)).map(|_| self.value(depth + 1)).collect(),
            _ => json!({"a": self.value(depth + 1), "b": self.value(depth + 1)}),
        }
    }
}

// covers: SCHEMA-009
#[test]
fn schemas_by_chance_take_no_more_steps_either() {
    let (mut ran, mut recursive, mut most) = (0, 0, 0);
    for seed in 1..400 {
        let mut dice = Dice(seed);
        let mut schema = dice.schema(0);
        schema["$defs"] = (0..4).map(|i| (format!("d{i}"), dice.schema(1))).collect::<Map<_, _>>().into();
        let value = dice.value(0);
        // Beyond the bounds, or a definition that means only itself.
        let Ok(survey) = Survey::of(&schema, &Bounds::default()) else { continue };
        let (taken, allowed) = steps(&schema, &value);
        assert!(taken <= allowed, "{schema} with {value}: {taken} steps of {allowed}");
        ran += 1;
        recursive += usize::from(survey.recursive);
        most = most.max(taken);
    }
    assert!(ran > 300 && recursive > 30 && most > 20, "{ran} ran, {recursive} recursive, {most} steps");
}
