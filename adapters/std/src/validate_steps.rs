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
