//! What checking really costs, counted: how often hostile schemas have a leaf of theirs looked at

use alloc::format;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use jsonschema::Draft;
use mcp_proto::RawJson;
use mcp_proto::router::SchemaValidator;
use serde_json::{Map, Value, json};

use crate::validate::{Bounds, Schemas, options};
use crate::validate_bounds::{Survey, size};

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
        let allowed = survey.valid.of(size(value)).saturating_add(survey.find.of(size(value)));
        return (count.load(Ordering::Relaxed), allowed);
    }
    (count.load(Ordering::Relaxed), survey.valid.of(size(value)))
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

/// A schema of `n` levels for one value, each of which asks what the levels below have looked at
fn levels(n: usize, keyword: &str, unevaluated: &str) -> Value {
    (0..n).fold(json!({"properties": {"a": true}, "prefixItems": [true]}), |inner, _| {
        let place = match keyword {
            "allOf" | "anyOf" | "oneOf" => json!([inner]),
            "dependentSchemas" => json!({"b": inner}),
            _ => inner,
        };
        json!({keyword: place, unevaluated: leaf()})
    })
}

// covers: SCHEMA-009
#[test]
fn what_was_looked_at_is_not_asked_without_bounds() {
    let wide: Map<_, _> =
        (0..20).map(|i| (format!("b{i}"), json!("x"))).chain([("b".into(), json!("x"))]).collect();
    for (unevaluated, value) in [
        ("unevaluatedProperties", Value::Object(wide)),
        ("unevaluatedItems", Value::Array(alloc::vec![json!("x"); 20])),
    ] {
        for keyword in ["allOf", "anyOf", "oneOf", "if", "dependentSchemas"] {
            let mut most = 0;
            for n in 1..8 {
                let (taken, allowed) = steps(&levels(n, keyword, unevaluated), &value);
                assert!(taken <= allowed, "{n} {keyword}, {unevaluated}: {taken} steps of {allowed}");
                most = most.max(taken);
            }
            assert!(most > 7 || keyword == "dependentSchemas", "{keyword}, {unevaluated}: {most} steps");
            let refused = Survey::of(&levels(16, keyword, unevaluated), &Bounds::default());
            assert!(refused.is_err(), "{keyword}, {unevaluated}");
        }
        // By way of references just as well.
        let level = |i: usize| json!({"$ref": format!("#/$defs/d{}", i + 1), "allOf": [{"$ref": format!("#/$defs/d{}", i + 1)}], unevaluated: leaf()});
        let mut defs: Map<_, _> = (0..16).map(|i| (format!("d{i}"), level(i))).collect();
        defs.insert("d16".into(), json!({}));
        assert!(Survey::of(&json!({"$defs": defs, "$ref": "#/$defs/d0"}), &Bounds::default()).is_err());
        let circle =
            json!({"$defs": {"a": {"anyOf": [{"$ref": "#"}, {}]}}, "$ref": "#/$defs/a", unevaluated: false});
        assert!(Survey::of(&circle, &Bounds::default()).is_err());
        let tree = json!({"properties": {"a": {"$ref": "#"}}, "items": {"$ref": "#"}, unevaluated: false});
        assert!(Survey::of(&tree, &Bounds::default()).is_ok(), "within itself, and not in its own place");
    }
}

// covers: SCHEMA-009
#[test]
fn lists_and_patterns_cost_what_they_are_long() {
    let cost = |schema: Value, value: &Value| {
        let bounds = Bounds { unfolded: u64::MAX, ..Bounds::default() };
        Survey::of(&schema, &bounds).expect("within the bounds").valid.of(size(value))
    };
    let names = |n: usize| (0..n).map(|i| json!(format!("name{i}"))).collect::<Value>();
    let list = Value::Array(alloc::vec![json!("x"); 99]);
    for n in [10, 1_000] {
        let at_least = 100 * n as u64;
        assert!(cost(json!({"items": {"enum": names(n)}}), &list) >= at_least);
        assert!(cost(json!({"items": {"const": names(n)}}), &list) >= at_least);
        assert!(cost(json!({"items": {"required": names(n)}}), &list) >= at_least);
        assert!(cost(json!({"items": {"dependentRequired": {"a": names(n)}}}), &list) >= at_least);
        let patterns: Map<_, _> = (0..n).map(|i| (format!("x{i}"), json!(true))).collect();
        let members: Value = (0..99).map(|i| (format!("x{i:020}"), json!(1))).collect::<Map<_, _>>().into();
        // Every pattern with every byte of every name.
        assert!(cost(json!({"patternProperties": patterns}), &members) >= 2 * 21 * at_least * 99 / 100);
    }
    let text = |n: usize| json!("a".repeat(n));
    for pattern in
        ["aaaaaaaaaaaaaaaaaaaa", "a{20}", "(?:aa){10}", "((a|b){2}){5,10}", "[ab]{0,20}", "a{19,}b"]
    {
        let (short, long) =
            (cost(json!({"pattern": pattern}), &text(160)), cost(json!({"pattern": pattern}), &text(1_600)));
        assert!(long - short >= 20 * 1_440, "{pattern}: {short}, then {long} steps");
        assert!(long - short <= 100 * 1_440, "{pattern}: {short}, then {long} steps");
    }
    // Too much altogether, each bound kept: refused, and not tried.
    let prepare = |schema: Value| {
        let schema = RawJson::new(schema.to_string()).expect("JSON");
        Schemas::new().compile(&schema).unwrap_or_else(|e| panic!("{e}"))
    };
    let large = Value::Array(alloc::vec![json!("nowhere"); 30_000]).to_string();
    let long = text(2 << 20).to_string();
    for (schema, value) in [
        (json!({"items": {"enum": names(10_000)}}), &large),
        (json!({"pattern": "[ab]*a[ab]{2000}c"}), &long),
        (json!({"allOf": (0..100).map(|i| json!({"pattern": format!("a{i}b")})).collect::<Value>()}), &long),
    ] {
        let found = prepare(schema).validate(value.as_bytes()).expect_err("too large").to_string();
        assert_eq!(found, "(root): is too large to be checked against such a schema");
    }
    let usual = json!({"pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"});
    assert!(
        prepare(json!({"items": usual}))
            .validate(large.as_bytes())
            .expect_err("no ids")
            .to_string()
            .contains("/0: ")
    );
    assert!(prepare(json!({"pattern": "^a*$", "maxLength": 9 << 20})).validate(long.as_bytes()).is_ok());
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
                10 => {
                    let names = ["unevaluatedProperties", "unevaluatedItems", "contains", "propertyNames"];
                    (names[self.below(4) as usize], inner(self))
                }
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
    for seed in 1..1_500 {
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
