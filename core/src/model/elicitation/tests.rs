use super::super::test_support::{assert_missing, assert_round_trip};
use super::super::{BooleanSchema, NumberSchema, StringSchema};
use super::*;
use alloc::string::ToString;
use alloc::vec;

fn raw(text: &'static str) -> RawJson {
    RawJson::new(text).expect("JSON")
}

// covers: ELIC-008, ELIC-009, ELIC-010, ELIC-012
#[test]
fn elicitation_params_round_trip() {
    let schema = ElicitSchema::default()
        .field("nights", NumberSchema::integer().minimum(1))
        .optional("power", BooleanSchema::new())
        .field("mail", StringSchema::new())
        .schema("https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema.required.as_deref(), Some(&["nights".into(), "mail".into()][..]));
    assert_round_trip(&schema);
    let form = ElicitFormParams::new("How long?", schema).meta(raw("{}"));
    assert_round_trip(&form);
    assert_round_trip(&ElicitParams::from(form.clone()));
    assert_round_trip(&ElicitParams::from(form.mode(ElicitMode::Form)));
    let page = ElicitUrlParams::new("Pay", "https://x.example").elicitation_id("e").meta(raw("{}"));
    assert_round_trip(&page);
    assert_round_trip(&ElicitParams::from(page));
    assert_round_trip(&ElicitParams::url("Pay", "https://x.example"));
    let other: ElicitParams = serde_json::from_str(r#"{"mode":"voice","x":1}"#).expect("kept");
    assert!(matches!(other, ElicitParams::Other(raw) if raw.as_str() == r#"{"mode":"voice","x":1}"#));
    assert_missing::<ElicitParams>(r#"{"message":""}"#, "requestedSchema");
    assert_missing::<ElicitParams>(r#"{"message":"","mode":"url"}"#, "url");
    assert_missing::<ElicitSchema>(r#"{"type":"object"}"#, "properties");
    assert_missing::<ElicitSchema>(r#"{"properties":{}}"#, "type");
    for twice in [r#"{"mode":"voice","x":1,"x":1}"#, r#"{"mode":"form","mode":"voice"}"#] {
        assert!(serde_json::from_str::<ElicitParams>(twice).is_err(), "{twice}");
    }
    assert!(serde_json::from_str::<ElicitParams>(r#"{"message":"","mode":1}"#).is_err());
    let nested = r#"{"message":"","requestedSchema":{"type":"object","properties":{"a":{"type":"number","minimum":"x"}}}}"#;
    let error = serde_json::from_str::<ElicitParams>(nested).expect_err("wrong");
    assert!(error.to_string().starts_with("`requestedSchema.properties.a.minimum`: invalid type"), "{error}");
}

// covers: ELIC-018, ELIC-019, ELIC-034
#[test]
fn elicitation_results_round_trip() {
    let content: Map<ElicitValue> = [
        ("text", "x".into()),
        ("whole", 2i64.into()),
        ("part", 2.5.into()),
        ("yes", true.into()),
        ("some", vec![String::from("A")].into()),
        ("none", ElicitValue::Choices(vec![])),
    ]
    .into();
    assert_round_trip(&ElicitResult::accept(content).meta(raw("{}")));
    assert_round_trip(&ElicitResult::decline());
    assert_round_trip(&ElicitResult::cancel());
    assert_round_trip(&ElicitResult::new("later"));
    assert_round_trip(&ElicitationCompleteParams::new("e").meta(raw("{}")));
    assert_missing::<ElicitResult>("{}", "action");
    assert_missing::<ElicitationCompleteParams>("{}", "elicitationId");
    for wrong in ["null", "{}", "[1]"] {
        let text = alloc::format!(r#"{{"action":"accept","content":{{"a":{wrong}}}}}"#);
        let error = serde_json::from_str::<ElicitResult>(&text).expect_err(wrong);
        assert!(error.to_string().starts_with("`content.a`: "), "{error}");
    }
    let large: ElicitValue = serde_json::from_str("18446744073709551615").expect("a number");
    assert_eq!(large, ElicitValue::Number(18_446_744_073_709_551_615.0));
}
