use super::*;
use crate::model::{
    BooleanSchema, ElicitResult, EnumSchema, LegacyTitledEnumSchema, TitledSingleSelectEnumSchema,
    UntitledSingleSelectEnumSchema,
};
use alloc::format;
use alloc::string::ToString;
use alloc::vec;

fn field(text: &str) -> PrimitiveSchemaDefinition {
    serde_json::from_str(text).expect("a field")
}

fn value(text: &str) -> ElicitValue {
    serde_json::from_str(text).expect("a value")
}

/// Checks values that match a field, and values that do not, with a part of the error for each.
fn assert_checked(schema: &str, good: &[&str], bad: &[(&str, &str)]) {
    let field = field(schema);
    for text in good {
        assert_eq!(field.check(&value(text)), Ok(()), "{schema}: {text}");
    }
    for (text, why) in bad {
        let mismatch = field.check(&value(text)).expect_err(text);
        assert!(mismatch.to_string().contains(why), "{schema}: {text}: {mismatch}");
    }
}

// covers: ELIC-013, ELIC-020
#[test]
fn string_field_checks_length_and_format() {
    let wrong =
        [("1", "must be a string"), ("1.5", "a string"), ("true", "a string"), (r#"["a"]"#, "a string")];
    assert_checked(r#"{"type":"string"}"#, &[r#""""#, r#""x""#], &wrong);
    assert_checked(
        r#"{"type":"string","minLength":2,"maxLength":3}"#,
        // Two emoji are two characters in eight bytes; a letter with a combining accent is two.
        &[r#""ab""#, r#""abc""#, "\"\u{1F600}\u{1F600}\"", r#""e\u0301""#, "\"\u{1F600}\u{1F600}\u{1F600}\""],
        &[
            (r#""a""#, "2 characters or more"),
            ("\"\u{1F600}\"", "or more"),
            (r#""abcd""#, "3 characters or fewer"),
        ],
    );
    assert_checked(
        r#"{"type":"string","format":"email"}"#,
        &[r#""a@b.example""#],
        &[(r#""a""#, "an e-mail address")],
    );
    assert_checked(r#"{"type":"string","format":"uri"}"#, &[r#""a:b""#], &[(r#""a b""#, "a URI")]);
    assert_checked(
        r#"{"type":"string","format":"date"}"#,
        &[r#""2026-07-28""#],
        &[(r#""28.7.2026""#, "a date")],
    );
    assert_checked(
        r#"{"type":"string","format":"date-time"}"#,
        &[r#""2026-07-28T00:00:00Z""#],
        &[(r#""now""#, "a date and")],
    );
    assert_checked(r#"{"type":"string","format":"phone","pattern":"^a"}"#, &[r#""b""#], &wrong);
}

// covers: ELIC-014, ELIC-019, ELIC-020
#[test]
fn number_field_checks_kind_and_bounds() {
    let wrong = [(r#""1""#, "must be a"), ("false", "must be a"), (r#"[]"#, "must be a")];
    assert_checked(r#"{"type":"number"}"#, &["1", "-1.5", "1e300", "18446744073709551616"], &wrong);
    assert_checked(
        r#"{"type":"integer"}"#,
        &["1", "-1", "2.0", "1e3", "1e300", "18446744073709551616", "-9007199254740993"],
        &[("1.5", "a whole number"), ("1e-7", "a whole number"), wrong[0], wrong[1], wrong[2]],
    );
    assert_checked(
        r#"{"type":"number","minimum":-1.5,"maximum":2}"#,
        &["-1.5", "-1", "2", "2.0", "0"],
        &[("-1.6", "-1.5 or more"), ("-2", "-1.5 or more"), ("2.1", "2 or less"), ("3", "2 or less")],
    );
    // No float lies between these bounds and their neighbours.
    assert_checked(
        r#"{"type":"integer","minimum":-9007199254740992,"maximum":9007199254740992}"#,
        &["9007199254740992", "-9007199254740992"],
        &[("9007199254740993", "or less"), ("-9007199254740993", "or more"), ("1e300", "or less")],
    );
    assert_checked(
        r#"{"type":"integer","minimum":-1e300,"maximum":1e300}"#,
        &["9223372036854775807", "-9223372036854775808"],
        &[("2e300", "or less"), ("-2e300", "or more")],
    );
    for odd in [f64::NAN, f64::INFINITY] {
        for schema in [NumberSchema::number(), NumberSchema::integer()] {
            assert!(schema.check(&ElicitValue::Number(odd)).is_err());
        }
    }
}

// covers: ELIC-014, ELIC-020
#[test]
fn boolean_field_accepts_booleans_only() {
    let wrong =
        [("1", "true or false"), ("0.5", "true or"), (r#""true""#, "true or"), (r#"["true"]"#, "true or")];
    assert_checked(r#"{"type":"boolean"}"#, &["true", "false"], &wrong);
}

// covers: ELIC-015, ELIC-016, ELIC-020
#[test]
fn single_select_field_accepts_one_choice() {
    for schema in [
        r#"{"type":"string","enum":["a","B"]}"#,
        r#"{"type":"string","enum":["a","B"],"enumNames":["A","b"]}"#,
        r#"{"type":"string","oneOf":[{"const":"a","title":"A"},{"const":"B","title":"b"}]}"#,
    ] {
        let wrong = [
            (r#""A""#, "one of the choices"),
            (r#""b""#, "one of the choices"),
            (r#""""#, "one of the choices"),
            ("1", "a string"),
            ("1.5", "a string"),
            ("true", "a string"),
            (r#"["a"]"#, "a string"),
        ];
        assert_checked(schema, &[r#""a""#, r#""B""#], &wrong);
    }
}

// covers: ELIC-016, ELIC-020
#[test]
fn multi_select_field_checks_choices_and_count() {
    for items in [
        r#"{"type":"string","enum":["a","b","c"]}"#,
        r#"{"anyOf":[{"const":"a","title":"A"},{"const":"b","title":"B"},{"const":"c","title":"C"}]}"#,
    ] {
        let any = format!(r#"{{"type":"array","items":{items}}}"#);
        let wrong = [
            (r#"["d"]"#, "`[0]`: must be one of the choices"),
            (r#"["a","A"]"#, "`[1]`: must be one of"),
            (r#"["a","b","a"]"#, "must not repeat a choice"),
            (r#""a""#, "an array of strings"),
            ("1", "an array"),
            ("1.5", "an array"),
            ("true", "an array"),
        ];
        assert_checked(&any, &["[]", r#"["c","a"]"#], &wrong);
        let bounded = format!(r#"{{"type":"array","items":{items},"minItems":1,"maxItems":2}}"#);
        let wrong = [("[]", "1 choices or more"), (r#"["a","b","c"]"#, "2 choices or fewer")];
        assert_checked(&bounded, &[r#"["a"]"#, r#"["b","a"]"#], &wrong);
    }
}

fn stay() -> ElicitSchema {
    ElicitSchema::default()
        .field("boat", StringSchema::new().max_length(5u32))
        .field("nights", NumberSchema::integer().minimum(1).default(1))
        .optional("power", BooleanSchema::new().default(true))
        .optional("extras", EnumSchema::any_of(["water", "wifi"]).default(vec!["wifi".into()]))
        .optional("rate", NumberSchema::number().default(0.5))
        .optional("note", StringSchema::new())
}

// covers: ELIC-012, ELIC-020
#[test]
fn form_check_names_first_mismatch() {
    let form = stay();
    let content = |text: &str| serde_json::from_str::<Map<ElicitValue>>(text).expect("content");
    for good in [
        r#"{"boat":"Aline","nights":2}"#,
        r#"{"nights":2,"boat":"","extras":[],"rate":1,"note":"","power":false}"#,
        // Values without a field are accepted, as in JSON Schema.
        r#"{"nights":2,"boat":"","more":[""]}"#,
    ] {
        assert_eq!(form.check(&content(good)), Ok(()), "{good}");
    }
    for (bad, expected) in [
        ("{}", "`boat`: must be filled in"),
        (r#"{"boat":""}"#, "`nights`: must be filled in"),
        (r#"{"boat":"Aline","nights":0}"#, "`nights`: must be 1 or more"),
        (r#"{"boat":"Alines","nights":0}"#, "`boat`: must have 5 characters or fewer"),
        (r#"{"boat":"","nights":1,"extras":["wifi","x"]}"#, "`extras[1]`: must be one of the choices"),
        (r#"{"boat":"","nights":1,"power":"yes"}"#, "`power`: must be true or false"),
    ] {
        assert_eq!(form.check(&content(bad)).expect_err(bad).to_string(), expected);
    }
    // Required, though not described.
    let odd: ElicitSchema =
        serde_json::from_str(r#"{"type":"object","properties":{"a":{"type":"object"}},"required":["x"]}"#)
            .expect("a form");
    assert_eq!(odd.check(&content("{}")).expect_err("missing").path, "x");
    assert_eq!(odd.check(&content(r#"{"x":1,"a":true}"#)), Ok(()), "a kind of field that is not known");
}

// covers: ELIC-017
#[test]
fn defaults_fill_missing_fields_only() {
    let form = stay();
    let shown = form.fill_defaults(Map::new());
    let text = serde_json::to_string(&shown).expect("JSON");
    assert_eq!(text, r#"{"nights":1,"power":true,"extras":["wifi"],"rate":0.5}"#);
    let given: Map<ElicitValue> = [("power", false.into()), ("boat", "A".into()), ("more", 1.into())].into();
    let filled = form.fill_defaults(given);
    let text = serde_json::to_string(&filled).expect("JSON");
    assert_eq!(text, r#"{"power":false,"boat":"A","more":1,"nights":1,"extras":["wifi"],"rate":0.5}"#);
    assert_eq!(form.check(&filled), Ok(()));
    assert_eq!(form.fill_defaults(filled.clone()), filled);
    for (field, default) in [
        (r#"{"type":"string","default":"x"}"#, r#""x""#),
        (r#"{"type":"number","default":95.5}"#, "95.5"),
        (r#"{"type":"integer","default":30}"#, "30"),
        (r#"{"type":"boolean","default":false}"#, "false"),
        (r#"{"type":"string","enum":["a"],"default":"a"}"#, r#""a""#),
        (r#"{"type":"string","enum":["a"],"enumNames":["A"],"default":"a"}"#, r#""a""#),
        (r#"{"type":"string","oneOf":[{"const":"a","title":"A"}],"default":"a"}"#, r#""a""#),
        (r#"{"type":"array","items":{"type":"string","enum":["a"]},"default":["a"]}"#, r#"["a"]"#),
        (r#"{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]},"default":[]}"#, "[]"),
    ] {
        let field = self::field(field);
        let value = field.default_value().expect("a default");
        assert_eq!(serde_json::to_string(&value).expect("JSON"), default);
        assert_eq!(field.check(&value), Ok(()));
    }
    assert_eq!(field(r#"{"type":"object","default":1}"#).default_value(), None);
}

// covers: ELIC-012, ELIC-013, ELIC-014, ELIC-015, ELIC-016
#[test]
fn form_validation_names_unanswerable_field() {
    assert_eq!(stay().validate(), Ok(()));
    assert_eq!(ElicitSchema::default().validate(), Ok(()));
    let choice = |values: &[&str]| EnumSchema::one_of(values.iter().copied());
    let cases: Vec<(PrimitiveSchemaDefinition, &str)> = vec![
        (StringSchema::new().min_length(2u32).max_length(1u32).into(), "minLength"),
        (StringSchema::new().min_length(2u32).default("x").into(), "default"),
        (StringSchema::new().format(StringFormat::Email).default("x").into(), "default"),
        (NumberSchema::number().minimum(2).maximum(1).into(), "minimum"),
        (NumberSchema::number().minimum(f64::NAN).into(), "minimum"),
        (NumberSchema::number().maximum(f64::INFINITY).into(), "maximum"),
        (NumberSchema::number().default(f64::NAN).into(), "default"),
        (NumberSchema::integer().default(0.5).into(), "default"),
        (NumberSchema::integer().minimum(1).default(0).into(), "default"),
        (choice(&[]).into(), ""),
        (choice(&["a", "b", "a"]).into(), ""),
        (choice(&["a"]).default("b").into(), "default"),
        (EnumSchema::one_of_titled([("a", "A"), ("a", "B")]).into(), ""),
        (EnumSchema::one_of_titled([("a", "A")]).default("A").into(), "default"),
        (EnumSchema::any_of([""; 0]).into(), ""),
        (EnumSchema::any_of(["a"]).min_items(2u32).into(), "minItems"),
        (EnumSchema::any_of(["a", "b"]).min_items(2u32).max_items(1u32).into(), "minItems"),
        (EnumSchema::any_of(["a"]).default(vec!["b".into()]).into(), "default[0]"),
        (EnumSchema::any_of_titled([("a", "A"), ("a", "A")]).into(), ""),
        (LegacyTitledEnumSchema::new(vec!["a".to_string()], vec![]).into(), "enumNames"),
        (field(r#"{"type":"object"}"#), ""),
    ];
    for (field, path) in cases {
        let mismatch = ElicitSchema::default().field("x", field.clone()).validate().expect_err("nobody can");
        let expected = if path.is_empty() { "properties.x".into() } else { format!("properties.x.{path}") };
        assert_eq!(mismatch.path, expected, "{field:?}: {mismatch}");
    }
    let twice = ElicitSchema::default().field("x", BooleanSchema::new()).field("x", StringSchema::new());
    assert_eq!(twice.validate().expect_err("twice").path, "required");
    let unknown = ElicitSchema::default().required(vec!["y".into()]);
    assert_eq!(unknown.validate().expect_err("unknown").path, "required");
}

// covers: ELIC-013, ELIC-015, ELIC-016
#[test]
fn field_accessors_cover_every_kind() {
    for field in super::super::tests::every_kind().into_iter().filter(|f| f.title().is_some()) {
        assert_eq!((field.title(), field.description()), (Some("t"), Some("d")));
    }
    let titled = [("a", "A"), ("b", "B")];
    assert_eq!(PrimitiveSchemaDefinition::from(EnumSchema::one_of_titled(titled)).choices(), titled);
    assert_eq!(PrimitiveSchemaDefinition::from(EnumSchema::any_of_titled(titled)).choices(), titled);
    assert_eq!(PrimitiveSchemaDefinition::from(EnumSchema::any_of(["a"])).choices(), [("a", "a")]);
    let untitled: UntitledSingleSelectEnumSchema = EnumSchema::one_of(["a"]);
    assert_eq!(PrimitiveSchemaDefinition::from(untitled).choices(), [("a", "a")]);
    let legacy = LegacyTitledEnumSchema::new(vec!["a".to_string(), "b".into()], vec!["A".to_string()]);
    assert_eq!(PrimitiveSchemaDefinition::from(legacy).choices(), [("a", "A"), ("b", "b")]);
    let none: TitledSingleSelectEnumSchema = EnumSchema::one_of_titled([("", ""); 0]);
    assert!(PrimitiveSchemaDefinition::from(none).choices().is_empty());
    assert!(PrimitiveSchemaDefinition::from(StringSchema::new()).choices().is_empty());
}

// covers: ELIC-020
#[test]
fn form_check_handles_many_fields_and_choices() {
    let many = 2_000;
    let mut text = String::from(r#"{"type":"object","properties":{"#);
    let mut content = String::from("{");
    for n in 0..many {
        let comma = if n == 0 { "" } else { "," };
        text.push_str(&format!(r#"{comma}"f{n}":{{"type":"integer","default":{n}}}"#));
        content.push_str(&format!(r#"{comma}"f{n}":{n}"#));
    }
    let names: Vec<String> = (0..many).map(|n| format!("\"f{n}\"")).collect();
    text.push_str(&format!(r#"}},"required":[{}]}}"#, names.join(",")));
    content.push('}');
    let form: ElicitSchema = serde_json::from_str(&text).expect("a form");
    let given: Map<ElicitValue> = serde_json::from_str(&content).expect("content");
    assert_eq!(form.check(&given), Ok(()));
    assert_eq!(form.fill_defaults(Map::new()), given);
    assert_eq!(form.validate(), Ok(()));
    let choices: Vec<String> = (0..many).map(|n| format!("c{n}")).collect();
    let field = PrimitiveSchemaDefinition::from(EnumSchema::any_of(choices.clone()));
    assert_eq!(field.check(&ElicitValue::Choices(choices)), Ok(()));
}

// covers: ELIC-014
#[test]
fn numbers_beyond_floats_are_refused_where_they_are_read() {
    let form = |member: &str| {
        let text = alloc::format!(
            r#"{{"type":"object","properties":{{"n":{{"type":"number","{member}":-1e999}}}},"z":1e999}}"#
        );
        serde_json::from_str::<ElicitSchema>(&text).map_err(|e| e.to_string())
    };
    for member in ["minimum", "maximum", "default"] {
        let error = form(member).expect_err("no float");
        assert!(
            error.starts_with(&alloc::format!("`properties.n.{member}`: number out of range")),
            "{error}"
        );
    }
    // Members that are not read are kept as text, even if no float can hold them.
    let form = form("multipleOf").expect("a form");
    assert_eq!(form.validate(), Ok(()));
    let again = serde_json::to_string(&form).expect("JSON");
    assert!(again.contains(r#""multipleOf":-1e999"#) && again.contains(r#""z":1e999"#), "{again}");
    let content = r#"{"action":"accept","content":{"n":1e999}}"#;
    let error = serde_json::from_str::<ElicitResult>(content).expect_err("no float").to_string();
    assert!(error.starts_with("`content.n`: number out of range"), "{error}");
}
