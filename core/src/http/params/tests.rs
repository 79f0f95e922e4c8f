use alloc::format;
use alloc::string::ToString;

use super::*;

fn of(schema: &str) -> Result<HeaderParams, AnnotationError> {
    HeaderParams::from_schema(&RawJson::new(schema.to_string()).expect("JSON"))
}

/// Returns the parameters of a schema with these properties.
fn properties(properties: &str) -> HeaderParams {
    of(&format!(r#"{{"type":"object","properties":{{{properties}}}}}"#)).expect("valid annotations")
}

fn route() -> HeaderParams {
    properties(
        r#""region":{"type":"string","x-mcp-header":"Region"},"n":{"x-mcp-header":"Count","type":"integer"},
        "dry":{"type":"boolean","x-mcp-header":"Dry-Run"},"query":{"type":"string"},
        "opt":{"type":"object","properties":{"tag":{"type":"string","x-mcp-header":"Tag"}}}"#,
    )
}

fn values(params: &HeaderParams, arguments: &str) -> Vec<(String, String)> {
    params.values(arguments.as_bytes()).map(|(n, v)| (n.to_string(), v.into_owned())).collect()
}

// covers: XHDR-001, XHDR-009, XHDR-014, XHDR-015, XHDR-016, XHDR-034
#[test]
fn annotated_arguments_become_fields() {
    let all =
        r#" {"region":"eu-west","n":-7,"dry":true,"query":"q","opt":{"tag":"a b","region":"no"},"tag":"no"}"#;
    let want = [("Count", "-7"), ("Dry-Run", "true"), ("Region", "eu-west"), ("Tag", "a b")];
    let mut found = values(&route(), all.trim());
    found.sort();
    let want = want.map(|(name, value)| (format!("Mcp-Param-{name}"), value.to_string()));
    assert_eq!(found, want);
    for none in [
        "",
        "{}",
        "[]",
        "null",
        r#"{"region":null,"n":null,"opt":null}"#,
        r#"{"opt":5}"#,
        r#"{"opt":{"tag":null}}"#,
    ] {
        assert_eq!(values(&route(), none), [], "{none}");
    }
    // What should be an object and is none has no fields, and leaves those of other arguments alone.
    let written = values(&route(), r#"{"opt":5,"region":"a"}"#);
    assert_eq!(written, [("Mcp-Param-Region".to_string(), "a".to_string())]);
    let both = properties(
        r#""a":{"type":"string","x-mcp-header":"A","properties":{"b":{"type":"string","x-mcp-header":"B"}}}"#,
    );
    for (arguments, name) in [(r#"{"a":"x"}"#, "Mcp-Param-A"), (r#"{"a":{"b":"x"}}"#, "Mcp-Param-B")] {
        assert_eq!(values(&both, arguments), [(name.to_string(), "x".to_string())], "{arguments}");
    }
    let method = properties(r#""m":{"type":"string","x-mcp-header":"Method"}"#);
    assert_eq!(method.names().collect::<Vec<_>>(), ["Mcp-Param-Method"]);
    // Property names may equal keywords, even the annotation itself.
    let odd = properties(
        r#""x-mcp-header":{"type":"string","x-mcp-header":"A"},"properties":{"type":"string","x-mcp-header":"B"},"":{"type":"string","\u0078-mcp-header":"C"}"#,
    );
    let written = values(&odd, r#"{"x-mcp-header":"1","\u0070roperties":"2","":"3"}"#);
    let want = [("Mcp-Param-C", "3"), ("Mcp-Param-B", "2"), ("Mcp-Param-A", "1")];
    assert_eq!(written, want.map(|(n, v)| (n.to_string(), v.to_string())));
}

// covers: XHDR-008, XHDR-016
#[test]
fn integers_are_written_in_plain_notation() {
    for (number, want) in [
        ("42", "42"),
        ("-7", "-7"),
        ("0", "0"),
        ("-0", "0"),
        ("-0.0e5", "0"),
        ("42.0", "42"),
        ("42.000", "42"),
        ("4.2e1", "42"),
        ("420e-1", "42"),
        ("1e2", "100"),
        ("1E+2", "100"),
        ("1.50e1", "15"),
        ("100000000000000000000000e-21", "100"),
        ("0.000000000000000000000000001e28", "10"),
        ("0e999999999999999999999999999", "0"),
        ("9007199254740991", "9007199254740991"),
        ("-9007199254740991.0", "-9007199254740991"),
    ] {
        assert_eq!(integer(number.as_bytes()).map(|i| i.to_string()).as_deref(), Some(want), "{number}");
        let written = values(&route(), &format!("{{\"n\":{number}}}"));
        assert_eq!(written, [("Mcp-Param-Count".to_string(), want.to_string())]);
    }
    for none in [
        "1.5",
        "1e-1",
        "9007199254740992",
        "-9007199254740992",
        "1e16",
        "1e400",
        "1e99999999999999999999999",
        "1e-99999999999999999999999",
        "12345678901234567890",
        "0.1000000000000000000000000001",
        "[1]",
        "{}",
    ] {
        assert_eq!(values(&route(), &format!("{{\"n\":{none}}}")), [], "{none}");
    }
}

// covers: XHDR-007, XHDR-016
#[test]
fn numbers_of_drafts_are_written_in_plain_notation() {
    let long = "9".repeat(400);
    for (number, want) in [
        ("42", "42"),
        ("3.14", "3.14"),
        ("-0.50", "-0.5"),
        ("-0.0e7", "0"),
        ("0e999999999999999999999", "0"),
        ("1e2", "100"),
        ("1.25E-3", "0.00125"),
        ("12300e-1", "1230"),
        ("12.34e1", "123.4"),
        ("1200.0", "1200"),
        ("0.00100", "0.001"),
        (&*long, &*long),
        ("5e-324", &*format!("0.{}5", "0".repeat(323))),
        ("1e-400", &*format!("0.{}1", "0".repeat(399))),
    ] {
        assert_eq!(plain_decimal(number.as_bytes()).as_deref(), Some(want), "{number}");
    }
    let longer = format!("1{long}");
    for none in ["", "-", "e1", "1e400", "1e-401", "1e999999999999999999999", &longer, "x", "1x"] {
        assert_eq!(plain_decimal(none.as_bytes()), None, "{none}");
    }
}

// covers: XHDR-004, XHDR-007
#[test]
fn rules_of_drafts_hold_where_they_are_asked_for() {
    let schema = r#"{"properties":{"n":{"type":"number","x-mcp-header":"N"},"s":{"type":"string","x-mcp-header":"a/b"}}}"#;
    let read =
        |draft| HeaderParams::from_draft_schema(&RawJson::new(schema.to_string()).expect("JSON"), draft);
    let params = read(Draft::ALL).expect("valid in drafts");
    // No field can have the name of the other one.
    let written = values(&params, r#"{"n":1.50,"s":"x"}"#);
    assert_eq!(written, [("Mcp-Param-N".to_string(), "1.5".to_string())]);
    assert_eq!(read(Draft::default()), of(schema));
    assert_eq!(of(schema).expect_err("a number").kind, AnnotationErrorKind::Type);
}

// covers: XHDR-003, XHDR-004, XHDR-005, XHDR-006, XHDR-007, XHDR-009, XHDR-010
#[test]
#[rustfmt::skip]
fn invalid_annotation_is_reported_with_its_pointer() {
    let schema = |inner: &str| format!(r#"{{"type":"object",{inner}}}"#);
    let token = |text: &str| AnnotationErrorKind::NotToken(text.into());
    let cases = [
        (r#""properties":{"a":{"type":"string","x-mcp-header":""}}"#, "/properties/a", token("")),
        (r#""properties":{"a":{"type":"string","x-mcp-header":"My Region"}}"#, "/properties/a", token("My Region")),
        (r#""properties":{"a":{"type":"string","x-mcp-header":"a:b"}}"#, "/properties/a", token("a:b")),
        (r#""properties":{"a":{"type":"string","x-mcp-header":"é"}}"#, "/properties/a", token("é")),
        (r#""properties":{"a":{"type":"string","x-mcp-header":"a\r\nb"}}"#, "/properties/a", token("a\r\nb")),
        (r#""properties":{"a":{"type":"string","x-mcp-header":7}}"#, "/properties/a", AnnotationErrorKind::NotString),
        (r#""properties":{"a":{"type":"string","x-mcp-header":null}}"#, "/properties/a", AnnotationErrorKind::NotString),
        (r#""properties":{"a":{"type":"number","x-mcp-header":"A"}}"#, "/properties/a", AnnotationErrorKind::Type),
        (r#""properties":{"a":{"type":"object","x-mcp-header":"A"}}"#, "/properties/a", AnnotationErrorKind::Type),
        (r#""properties":{"a":{"type":"array","x-mcp-header":"A"}}"#, "/properties/a", AnnotationErrorKind::Type),
        (r#""properties":{"a":{"type":"null","x-mcp-header":"A"}}"#, "/properties/a", AnnotationErrorKind::Type),
        (r#""properties":{"a":{"type":["string","null"],"x-mcp-header":"A"}}"#, "/properties/a", AnnotationErrorKind::Type),
        (r#""properties":{"a":{"x-mcp-header":"A"}}"#, "/properties/a", AnnotationErrorKind::Type),
        (r#""properties":{"a":{"type":"string","x-mcp-header":"K"},"b":{"type":"object","properties":{"c~/":{"type":"string","x-mcp-header":"k"}}}}"#,
            "/properties/b/properties/c~0~1", AnnotationErrorKind::Duplicate("Mcp-Param-k".into())),
        (r#""x-mcp-header":"A""#, "", AnnotationErrorKind::Unreachable),
        (r#""properties":{"l":{"type":"array","items":{"type":"string","x-mcp-header":"L"}}}"#, "/properties/l/items", AnnotationErrorKind::Unreachable),
        (r#""properties":{"l":{"prefixItems":[{},{"type":"string","x-mcp-header":"L"}]}}"#, "/properties/l/prefixItems/1", AnnotationErrorKind::Unreachable),
        (r#""oneOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]"#, "/oneOf/0/properties/a", AnnotationErrorKind::Unreachable),
        (r#""properties":{"o":{"anyOf":[{"type":"string","x-mcp-header":"A"}]}}"#, "/properties/o/anyOf/0", AnnotationErrorKind::Unreachable),
        (r#""allOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]"#, "/allOf/0/properties/a", AnnotationErrorKind::Unreachable),
        (r#""not":{"x-mcp-header":"A"}"#, "/not", AnnotationErrorKind::Unreachable),
        (r#""if":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}"#, "/if/properties/a", AnnotationErrorKind::Unreachable),
        (r#""then":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}"#, "/then/properties/a", AnnotationErrorKind::Unreachable),
        (r#""else":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}"#, "/else/properties/a", AnnotationErrorKind::Unreachable),
        (r##""properties":{"a":{"$ref":"#/$defs/d"}},"$defs":{"d":{"type":"string","x-mcp-header":"A"}}"##, "/$defs/d", AnnotationErrorKind::Unreachable),
        (r#""$defs":{"default":{"type":"string","\u0078-mcp-header":"A"}}"#, "/$defs/default", AnnotationErrorKind::Unreachable),
        (r#""patternProperties":{"a":{"type":"string","x-mcp-header":"A"}}"#, "/patternProperties/a", AnnotationErrorKind::Unreachable),
        (r#""additionalProperties":{"type":"string","x-mcp-header":"A"}"#, "/additionalProperties", AnnotationErrorKind::Unreachable),
        (r#""dependentSchemas":{"a":{"x-mcp-header":"A"}}"#, "/dependentSchemas/a", AnnotationErrorKind::Unreachable),
        (r#""unheard-of":[[{"x-mcp-header":"A"}]]"#, "/unheard-of/0/0", AnnotationErrorKind::Unreachable),
        (r#""properties":{"a":{"type":"string","x-mcp-header":"A","x-mcp-header":"B"}}"#, "/properties/a", AnnotationErrorKind::DuplicateMember),
    ];
    for (inner, at, reason) in cases {
        let bad = of(&schema(inner)).expect_err(inner);
        assert_eq!((&*bad.at, bad.kind), (at, reason), "{inner}");
    }
    let bad = of(&schema(r#""properties":{"a":{"type":"number","x-mcp-header":"A"}}"#)).expect_err("a number");
    let text = "`x-mcp-header` at `/properties/a` of the schema annotates a property whose type is not integer, string or boolean";
    assert_eq!(bad.to_string(), text);
}

// covers: SEC-018
#[test]
fn deep_schema_is_refused_without_recursion_beyond_its_limit() {
    for (n, kind) in [(100, AnnotationErrorKind::Unreachable), (10_000, AnnotationErrorKind::TooDeep)] {
        let text = format!("{}{{\"x-mcp-header\":\"A\"}}{}", "{\"a\":".repeat(n), "}".repeat(n));
        // A peer's schema may be that deep if `Limits::max_depth` permits.
        let found = HeaderParams::from_schema(&RawJson::trusted(text.into()));
        assert_eq!(found.expect_err("no annotation").kind, kind);
    }
}

/// Names of properties in values of other keywords.
// covers: XHDR-009
#[test]
fn property_called_like_the_annotation_is_none() {
    for keyword in ["dependentRequired", "dependencies"] {
        let schema = format!(
            r#"{{"properties":{{"x-mcp-header":{{"type":"string"}}}},"{keyword}":{{"x-mcp-header":["b"]}}}}"#
        );
        assert!(of(&schema).expect(keyword).is_empty());
    }
}

// covers: XHDR-010
#[test]
fn schema_values_are_not_searched_for_annotations() {
    let data = r#"{"x-mcp-header":"not one"}"#;
    let params = properties(&format!(
        r#""a":{{"type":"string","x-mcp-header":"A","default":{data},"const":{data},"enum":[{data}],"examples":[{data}],"description":"x-mcp-header"}}"#
    ));
    assert_eq!(params.names().collect::<Vec<_>>(), ["Mcp-Param-A"]);
    assert!(
        of("true").expect("a schema").is_empty() && of(r#"["x-mcp-header"]"#).expect("no schema").is_empty()
    );
}

#[test]
fn annotations_beyond_the_limits_are_refused() {
    let many = |n: usize| {
        let property = |i| format!(r#""p{i}":{{"type":"string","x-mcp-header":"H{i}"}}"#);
        let all: Vec<String> = (0..n).map(property).collect();
        of(&format!(r#"{{"properties":{{{}}}}}"#, all.join(",")))
    };
    assert_eq!(
        many(HeaderParams::MAX_PARAMS).expect("at the limit").names().count(),
        HeaderParams::MAX_PARAMS
    );
    assert_eq!(many(HeaderParams::MAX_PARAMS + 1).expect_err("too many").kind, AnnotationErrorKind::TooMany);
    let name = |n: usize| {
        of(&format!(r#"{{"properties":{{"a":{{"type":"string","x-mcp-header":"{}"}}}}}}"#, "n".repeat(n)))
    };
    assert!(name(HeaderParams::MAX_NAME).is_ok());
    assert_eq!(name(HeaderParams::MAX_NAME + 1).expect_err("too long").kind, AnnotationErrorKind::TooLong);
    // The deepest nesting that the scanner allows, in the schema and in the arguments.
    let (mut schema, mut arguments) =
        (r#"{"type":"integer","x-mcp-header":"Deep"}"#.to_string(), "7".to_string());
    for _ in 0..63 {
        schema = format!(r#"{{"properties":{{"p":{schema}}}}}"#);
        arguments = format!(r#"{{"p":{arguments}}}"#);
    }
    let params = of(&schema).expect("valid annotations");
    assert_eq!(values(&params, &arguments), [("Mcp-Param-Deep".to_string(), "7".to_string())]);
}

// covers: XHDR-021, XHDR-022, XHDR-023, XHDR-024, XHDR-025, XHDR-026, XHDR-027
#[test]
fn check_compares_fields_with_the_body() {
    use HeaderMismatchKind as Why;
    let params = route();
    let check = |arguments: &str, fields: &[(&str, &str)]| {
        let fields: Vec<FieldLine<'_>> = fields.iter().map(|(n, v)| (*n, v.as_bytes())).collect();
        params.check(arguments.as_bytes(), &fields).map_err(|m| (m.name, m.kind))
    };
    let (region, count, dry) = ("Mcp-Param-Region", "Mcp-Param-Count", "Mcp-Param-Dry-Run");
    type Headers<'a> = &'a [(&'a str, &'a str)];
    let good: &[(&str, Headers<'_>)] = &[
        ("", &[]),
        (r#"{"region":null,"opt":{}}"#, &[("Mcp-Param-Other", "x"), ("Mcp-Param-Other", "y")]),
        (r#"{"region":"Hello"}"#, &[("mcp-param-REGION", "=?base64?SGVsbG8=?=")]),
        (r#"{"region":"Hello"}"#, &[(region, "  Hello\t")]),
        (r#"{"region":"SGVsbG8="}"#, &[(region, "SGVsbG8=")]),
        (r#"{"region":"=?base64?SGVsbG8="}"#, &[(region, "=?base64?SGVsbG8=")]),
        (r#"{"region":"=?BASE64?SGVsbG8=?="}"#, &[(region, "=?BASE64?SGVsbG8=?=")]),
        (r#"{"region":"Brest-Oc\u00e9an"}"#, &[(region, "=?base64?QnJlc3QtT2PDqWFu?=")]),
        (r#"{"region":""}"#, &[(region, "")]),
        (r#"{"n":42}"#, &[(count, "42.0")]),
        (r#"{"n":42.0}"#, &[(count, "4.2e1")]),
        (r#"{"n":42}"#, &[(count, "=?base64?NDI=?=")]),
        (r#"{"dry":false,"n":-7}"#, &[(dry, "false"), (count, "-7")]),
    ];
    for (arguments, fields) in good {
        assert_eq!(check(arguments, fields), Ok(()), "{arguments} {fields:?}");
    }
    let bad: &[(&str, Headers<'_>, &str, Why)] = &[
        (r#"{"region":"a"}"#, &[], region, Why::Missing),
        (r#"{"region":""}"#, &[], region, Why::Missing),
        (r#"{"region":"a"}"#, &[(region, "b")], region, Why::Different),
        (r#"{"region":"a"}"#, &[(region, "A")], region, Why::Different),
        (r#"{"region":"a"}"#, &[(region, "")], region, Why::Different),
        ("{}", &[(region, "a")], region, Why::Unexpected),
        ("", &[(region, "")], region, Why::Unexpected),
        (r#"{"region":null}"#, &[(region, "null")], region, Why::Unexpected),
        (
            r#"{"region":"a"}"#,
            &[(region, "a"), ("mcp-param-region", "a")],
            region,
            Why::Value(FieldValueError::Repeated),
        ),
        (
            r#"{"region":"Hello"}"#,
            &[(region, "=?base64?SGVsbG8?=")],
            region,
            Why::Value(FieldValueError::Base64),
        ),
        (
            r#"{"region":"Hello"}"#,
            &[(region, "=?base64?SGVs!!!bG8=?=")],
            region,
            Why::Value(FieldValueError::Base64),
        ),
        (r#"{"region":"x"}"#, &[(region, "=?base64?/w==?=")], region, Why::Value(FieldValueError::Utf8)),
        (r#"{"region":"é"}"#, &[(region, "é")], region, Why::Value(FieldValueError::Characters)),
        (r#"{"n":42}"#, &[(count, "43")], count, Why::Different),
        (r#"{"n":42}"#, &[(count, "042")], count, Why::Different),
        (r#"{"n":42}"#, &[(count, "+42")], count, Why::Different),
        (r#"{"n":42}"#, &[(count, "42.5")], count, Why::Different),
        (r#"{"n":42}"#, &[(count, "42 42")], count, Why::Different),
        (r#"{"n":42}"#, &[(count, "\"42\"")], count, Why::Different),
        (r#"{"n":0}"#, &[(count, "")], count, Why::Different),
        (r#"{"dry":true}"#, &[(dry, "True")], dry, Why::Different),
        (r#"{"dry":true}"#, &[(dry, "1")], dry, Why::Different),
        (r#"{"n":9007199254740992}"#, &[(count, "9007199254740992")], count, Why::Unrepresentable),
        (r#"{"n":[1]}"#, &[(count, "1")], count, Why::Unrepresentable),
        (r#"{"region":"a","region":"b"}"#, &[(region, "a")], dry, Why::DuplicateMember),
        (r#"{"opt":{"tag":"a","\u0074ag":"b"}}"#, &[("Mcp-Param-Tag", "a")], dry, Why::DuplicateMember),
    ];
    for (arguments, fields, name, reason) in bad {
        assert_eq!(check(arguments, fields), Err(((*name).into(), *reason)), "{arguments} {fields:?}");
    }
    let mismatch = params.check(br#"{"region":"a"}"#, &[]).expect_err("it is missing");
    assert_eq!(mismatch.to_string(), "Mcp-Param-Region is missing");
}

// covers: XHDR-015, XHDR-021
#[test]
fn fields_written_by_client_pass_server_check() {
    for arguments in [
        r#"{"region":"line1\nline2","n":1e3,"dry":false,"opt":{"tag":"=?base64?x?="}}"#,
        r#"{"region":" lead","opt":{"tag":"\ud83d\ude00"}}"#,
        r#"{"n":-0.0}"#,
        "{}",
    ] {
        let params = route();
        let written: Vec<_> = params.values(arguments.as_bytes()).collect();
        let fields: Vec<FieldLine<'_>> = written.iter().map(|(n, v)| (*n, v.as_bytes())).collect();
        assert_eq!(params.check(arguments.as_bytes(), &fields), Ok(()), "{arguments} {written:?}");
    }
}

// covers: SEC-018
#[test]
fn annotation_paths_are_bounded() {
    // All annotated properties share one long parent name.
    let deep = |length: usize, n: usize| {
        let inner: String =
            (0..n).map(|i| format!(r#""{i:02}":{{"type":"string","x-mcp-header":"H{i}"}},"#)).collect();
        let inner = inner.trim_end_matches(',');
        of(&format!(r#"{{"properties":{{"{}":{{"properties":{{{inner}}}}}}}}}"#, "x".repeat(length)))
    };
    let longest = HeaderParams::MAX_PATHS / 32 - 2;
    assert_eq!(deep(longest, 32).expect("at the limit").names().count(), 32);
    let bad = deep(longest + 1, 32).expect_err("too much");
    assert_eq!(bad.kind, AnnotationErrorKind::TooDeep);
    assert!(bad.to_string().ends_with("exceeds the limit of property names or levels"));
}
