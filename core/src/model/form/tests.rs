use super::super::test_support::{assert_missing, assert_round_trip};
use super::*;
use alloc::vec;

/// A field of every kind with all its members.
pub(in crate::model) fn every_kind() -> Vec<PrimitiveSchemaDefinition> {
    let strings = || vec![String::from("a"), "b".into()];
    let options = || [EnumOption::new("a", "A"), EnumOption::new("b", "B")];
    vec![
        StringSchema::new()
            .title("t")
            .description("d")
            .min_length(1u32)
            .max_length(9u32)
            .format(StringFormat::DateTime)
            .default("x")
            .into(),
        NumberSchema::number().title("t").description("d").minimum(-1.5).maximum(99.25).default(0.5).into(),
        NumberSchema::integer().into(),
        BooleanSchema::new().title("t").description("d").default(false).into(),
        UntitledSingleSelectEnumSchema::new(strings()).title("t").description("d").default("a").into(),
        TitledSingleSelectEnumSchema::new(options()).title("t").description("d").default("a").into(),
        UntitledMultiSelectEnumSchema::new(UntitledEnumItems::new(strings()))
            .title("t")
            .description("d")
            .min_items(0u32)
            .max_items(2u32)
            .default(strings())
            .into(),
        TitledMultiSelectEnumSchema::new(TitledEnumItems::new(options()))
            .title("t")
            .description("d")
            .min_items(0u32)
            .max_items(2u32)
            .default(vec![])
            .into(),
        LegacyTitledEnumSchema::new(strings(), strings()).title("t").description("d").default("a").into(),
    ]
}

// covers: ELIC-013, ELIC-014, ELIC-015, ELIC-016
#[test]
fn field_kind_is_recognised_by_shape() {
    for field in every_kind() {
        assert_round_trip(&field);
    }
    assert_round_trip(&UntitledEnumItems::new([]));
    assert_round_trip(&TitledEnumItems::new([EnumOption::new("a", "A")]));
    assert_round_trip(&EnumOption::new("a", "A"));
    let pattern: PrimitiveSchemaDefinition =
        serde_json::from_str(r#"{"type":"string","pattern":"^a","format":"phone"}"#).expect("a text");
    assert!(matches!(&pattern, PrimitiveSchemaDefinition::String(s)
        if s.extra.get("pattern").is_some() && s.format == Some("phone".into())));
    for odd in [r#"{"type":"object","x":1}"#, "{}", r#"{"type":["string","null"]}"#] {
        let kept: PrimitiveSchemaDefinition = serde_json::from_str(odd).expect("kept");
        assert!(matches!(kept, PrimitiveSchemaDefinition::Other(raw) if raw.as_str() == odd));
    }
    for wrong in ["true", r#"{"x":1,"type":"object","x":2}"#, r#"{"type":"object","type":"object"}"#] {
        assert!(serde_json::from_str::<PrimitiveSchemaDefinition>(wrong).is_err(), "{wrong}");
    }
    assert_missing::<PrimitiveSchemaDefinition>(r#"{"type":"array"}"#, "items");
    assert_missing::<PrimitiveSchemaDefinition>(r#"{"type":"string","oneOf":[{"const":"a"}]}"#, "title");
    assert_missing::<PrimitiveSchemaDefinition>(r#"{"type":"string","enumNames":[]}"#, "enum");
    assert_missing::<PrimitiveSchemaDefinition>(r#"{"type":"array","items":{"enum":[]}}"#, "type");
    assert_missing::<NumberSchema>("{}", "type");
}

// covers: ELIC-016
#[test]
fn choices_keep_default_and_limits_in_any_order_of_setters() {
    let plain = || UntitledMultiSelectEnumSchema::new(UntitledEnumItems::new(vec!["a".into(), "b".into()]));
    let titled = || TitledMultiSelectEnumSchema::new(TitledEnumItems::new([EnumOption::new("a", "A")]));
    let default = || vec![String::from("a")];
    let all = plain().min_items(1u32).max_items(2u32).default(default());
    assert_eq!((all.min_items, all.max_items, &all.default), (Some(1), Some(2), &Some(default())));
    for other in [
        plain().default(default()).max_items(2u32).min_items(1u32),
        plain().max_items(2u32).default(default()).min_items(1u32),
    ] {
        assert_eq!(other, all);
    }
    let all = titled().default(default()).min_items(1u32).max_items(1u32);
    assert_eq!(titled().max_items(1u32).min_items(1u32).default(default()), all);
    assert_eq!(all.default, Some(default()));
}
