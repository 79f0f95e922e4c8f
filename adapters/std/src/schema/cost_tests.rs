//! Measured cost of validation: how often hostile schemas evaluate a leaf.

use alloc::format;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use jsonschema::Draft;
use mcp_proto::RawJson;
use mcp_proto::router::SchemaValidator;
use mcp_proto::testing::Rng;
use serde_json::{Map, Value, json};

use crate::schema::cost::{SchemaCost, value_size};
use crate::schema::{JsonSchemaValidator, SchemaLimits, options};

/// Returns a leaf that counts its evaluations.
fn leaf() -> Value {
    json!({"format": "counted"})
}

/// Returns how often leaves are evaluated, and the bound that the estimate gives.
fn steps(schema: &Value, value: &Value) -> (u64, u64) {
    let cost = SchemaCost::estimate(schema, &SchemaLimits::default()).expect("within the limits");
    let count = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&count);
    let counted = move |_: &str| {
        counter.fetch_add(1, Ordering::Relaxed);
        true
    };
    let options = options(Draft::Draft202012).should_validate_formats(true).with_format("counted", counted);
    let validator = options.build(schema).expect("a schema");
    if !validator.is_valid(value) && !cost.is_recursive {
        // Violations are collected over the whole value only in this case.
        let _ = validator.iter_errors(value).count();
        let allowed =
            cost.validation.total(value_size(value)).saturating_add(cost.reporting.total(value_size(value)));
        return (count.load(Ordering::Relaxed), allowed);
    }
    (count.load(Ordering::Relaxed), cost.validation.total(value_size(value)))
}

// covers: SCHEMA-009
#[test]
fn cost_of_a_pattern_that_repeats_without_end_is_not_small() {
    let endless = "(x{99999999999})+y{2,99999999999999999999}";
    // 16 times as many states as this one has are one more than the greatest number.
    let wraps = "x{1152921504606846976}";
    for schema in [
        json!({"pattern": endless, "minLength": 1, "uniqueItems": true}),
        json!({"patternProperties": {endless: {}, wraps: {"pattern": endless}}}),
        json!({"pattern": wraps}),
    ] {
        let cost = SchemaCost::estimate(&schema, &SchemaLimits::default()).expect("within the limits");
        assert!(cost.validation.per_text > u64::MAX / 2, "{schema}: {cost:?}");
    }
}

// covers: SCHEMA-009
#[test]
fn validation_takes_no_more_steps_than_estimated() {
    // Paths double with each line.
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
    let mut max_steps = 0;
    for (name, schema, value) in [
        ("doubling", &doubling, list(50)),
        ("branching, right", &branching, chain(16, json!({"zkind": "a"}))),
        ("branching, wrong", &branching, chain(16, json!({"zkind": "c"}))),
        ("tree", &tree, nest(60)),
        ("wide", &wide, list(300)),
    ] {
        let (taken, allowed) = steps(schema, &value);
        assert!(taken > 0 && taken <= allowed, "{name}: {taken} steps of {allowed}");
        max_steps = max_steps.max(taken);
    }
    let (short, _) = steps(&branching, &chain(50, json!({"zkind": "c"})));
    let (long, _) = steps(&branching, &chain(16, json!({"zkind": "c"})));
    assert!(long <= 4 * short + 100, "{short} steps, then {long}");
    assert!(max_steps > 10_000, "{max_steps} steps, not hostile enough");
}

/// Returns a schema of `n` levels for one value, each of which depends on the members evaluated by the levels below.
fn levels(n: usize, keyword: &str, unevaluated: &str) -> Value {
    (0..n).fold(json!({"properties": {"a": true}, "prefixItems": [true]}), |inner, _| {
        let inner = match keyword {
            "allOf" | "anyOf" | "oneOf" => json!([inner]),
            "dependentSchemas" => json!({"b": inner}),
            _ => inner,
        };
        json!({keyword: inner, unevaluated: leaf()})
    })
}

// covers: SCHEMA-009
#[test]
fn unevaluated_keywords_stay_within_the_estimate() {
    let wide: Map<_, _> =
        (0..20).map(|i| (format!("b{i}"), json!("x"))).chain([("b".into(), json!("x"))]).collect();
    for (unevaluated, value) in [
        ("unevaluatedProperties", Value::Object(wide)),
        ("unevaluatedItems", Value::Array(alloc::vec![json!("x"); 20])),
    ] {
        for keyword in ["allOf", "anyOf", "oneOf", "if", "dependentSchemas"] {
            let mut max_steps = 0;
            for n in 1..8 {
                let (taken, allowed) = steps(&levels(n, keyword, unevaluated), &value);
                assert!(taken <= allowed, "{n} {keyword}, {unevaluated}: {taken} steps of {allowed}");
                max_steps = max_steps.max(taken);
            }
            assert!(
                max_steps > 7 || keyword == "dependentSchemas",
                "{keyword}, {unevaluated}: {max_steps} steps"
            );
            let refused = SchemaCost::estimate(&levels(16, keyword, unevaluated), &SchemaLimits::default());
            assert!(refused.is_err(), "{keyword}, {unevaluated}");
        }
        // The same through references.
        let level = |i: usize| json!({"$ref": format!("#/$defs/d{}", i + 1), "allOf": [{"$ref": format!("#/$defs/d{}", i + 1)}], unevaluated: leaf()});
        let mut defs: Map<_, _> = (0..16).map(|i| (format!("d{i}"), level(i))).collect();
        defs.insert("d16".into(), json!({}));
        assert!(
            SchemaCost::estimate(&json!({"$defs": defs, "$ref": "#/$defs/d0"}), &SchemaLimits::default())
                .is_err()
        );
        let cycle =
            json!({"$defs": {"a": {"anyOf": [{"$ref": "#"}, {}]}}, "$ref": "#/$defs/a", unevaluated: false});
        assert!(SchemaCost::estimate(&cycle, &SchemaLimits::default()).is_err());
        let tree = json!({"properties": {"a": {"$ref": "#"}}, "items": {"$ref": "#"}, unevaluated: false});
        assert!(
            SchemaCost::estimate(&tree, &SchemaLimits::default()).is_ok(),
            "recursive, but not for the same value"
        );
    }
}

// covers: SCHEMA-009
#[test]
fn cost_of_lists_and_patterns_grows_with_their_length() {
    let cost = |schema: Value, value: &Value| {
        let limits = SchemaLimits { unfolded: u64::MAX, ..SchemaLimits::default() };
        SchemaCost::estimate(&schema, &limits).expect("within the limits").validation.total(value_size(value))
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
        // Each pattern with each byte of each name.
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
    // Too expensive in total, although each limit is kept: refused without an attempt.
    let compile = |schema: Value| {
        let schema = RawJson::new(schema.to_string()).expect("JSON");
        JsonSchemaValidator::new().compile(&schema).unwrap_or_else(|e| panic!("{e}"))
    };
    let large = Value::Array(alloc::vec![json!("nowhere"); 30_000]).to_string();
    let long = text(2 << 20).to_string();
    for (schema, value) in [
        (json!({"items": {"enum": names(10_000)}}), &large),
        (json!({"pattern": "[ab]*a[ab]{2000}c"}), &long),
        (json!({"allOf": (0..100).map(|i| json!({"pattern": format!("a{i}b")})).collect::<Value>()}), &long),
    ] {
        let found = compile(schema).validate(value.as_bytes()).expect_err("too large").to_string();
        assert_eq!(found, "(root): is too large to be checked against such a schema");
    }
    let usual = json!({"pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"});
    assert!(
        compile(json!({"items": usual}))
            .validate(large.as_bytes())
            .expect_err("no ids")
            .to_string()
            .contains("/0: ")
    );
    assert!(compile(json!({"pattern": "^a*$", "maxLength": 9 << 20})).validate(long.as_bytes()).is_ok());
}

/// Generator of random schemas and values.
struct SchemaRng(Rng);

impl SchemaRng {
    fn below(&mut self, end: usize) -> usize {
        self.0.next_high() as usize % end
    }

    /// Returns a schema of random keywords, with references to four definitions.
    fn schema(&mut self, depth: usize) -> Value {
        let mut schema = Map::new();
        for _ in 0..1 + self.below(3) {
            let inner = |rng: &mut Self| rng.schema(depth + 1);
            let (keyword, value) = match self.below(if depth > 3 { 4 } else { 12 }) {
                0 => ("format", json!("counted")),
                1 => ("type", json!(["string", "array", "object", "number"][self.below(4)])),
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
                    (names[self.below(4)], inner(self))
                }
                _ => ("anyOf", json!([inner(self), inner(self)])),
            };
            schema.insert(keyword.into(), value);
        }
        Value::Object(schema)
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth > 7 { 2 } else { 6 }) {
            0 => json!("x"),
            1 => json!(self.below(9)),
            2 | 3 => (0..self.below(7)).map(|_| self.value(depth + 1)).collect(),
            _ => json!({"a": self.value(depth + 1), "b": self.value(depth + 1)}),
        }
    }
}

// covers: SCHEMA-009
#[test]
fn random_schemas_take_no_more_steps_than_estimated() {
    let (mut ran, mut recursive, mut max_steps) = (0, 0, 0);
    for seed in 1..1_500 {
        let mut rng = SchemaRng(Rng::new(seed));
        let mut schema = rng.schema(0);
        schema["$defs"] = (0..4).map(|i| (format!("d{i}"), rng.schema(1))).collect::<Map<_, _>>().into();
        let value = rng.value(0);
        // Skips schemas beyond the limits, and definitions that refer only to themselves.
        let Ok(cost) = SchemaCost::estimate(&schema, &SchemaLimits::default()) else { continue };
        let (taken, allowed) = steps(&schema, &value);
        assert!(taken <= allowed, "{schema} with {value}: {taken} steps of {allowed}");
        ran += 1;
        recursive += usize::from(cost.is_recursive);
        max_steps = max_steps.max(taken);
    }
    assert!(
        ran > 300 && recursive > 30 && max_steps > 20,
        "{ran} ran, {recursive} recursive, {max_steps} steps"
    );
}
