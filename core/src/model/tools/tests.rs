use super::super::test_support::{assert_borrowed_round_trip, assert_missing, assert_round_trip};
use super::*;
use crate::json::Serializer;
use alloc::string::ToString;

fn raw(text: &'static str) -> RawJson {
    RawJson::new(text).expect("JSON")
}

fn object() -> RawJson {
    raw(r#"{"type":"object"}"#)
}

fn result(text: &str) -> serde_json::Result<CallToolResult<'static>> {
    serde_json::from_str::<CallToolResult<'_>>(text).map(|r| r.into_owned())
}

// covers: TOOL-005, TOOL-006, TOOL-007, META-035
#[test]
fn tool_list_round_trips() {
    let mut tool = Tool::new("t", object())
        .title("T")
        .description("d")
        .output_schema(raw("{}"))
        .annotations(ToolAnnotations::new().title("A").read_only_hint(false))
        .icons([Icon::new("data:,")])
        .execution(ToolExecution::new().task_support("sometimes"))
        .meta(raw("{}"));
    assert_round_trip(&tool);
    assert_round_trip(&*tool.execution.clone().expect("execution"));
    assert_round_trip(
        &ListToolsResult::new(alloc::vec![tool.clone(), Tool::new("u", object())])
            .next_cursor("c")
            .ttl_ms(1000)
            .cache_scope(CacheScope::Public)
            .result_type(ResultType::Complete)
            .meta(raw("{}")),
    );
    assert_eq!(tool.display_name(), "T");
    tool.title = None;
    assert_eq!(tool.display_name(), "A");
    tool.annotations = None;
    assert_eq!(tool.display_name(), "t");
    assert_missing::<Tool>(r#"{"name":"t"}"#, "inputSchema");
    assert_missing::<ListToolsResult>("{}", "tools");
}

// covers: TOOL-027
#[test]
fn tool_hints_have_defaults() {
    let none = ToolAnnotations::new();
    assert!(!none.is_read_only() && none.is_destructive() && !none.is_idempotent() && none.is_open_world());
    let reads = ToolAnnotations::new().read_only_hint(true).destructive_hint(true);
    assert!(reads.is_read_only() && !reads.is_destructive() && reads.is_idempotent());
    assert_round_trip(&reads.idempotent_hint(true).open_world_hint(false));
}

// covers: TOOL-010, TOOL-012
#[test]
fn call_params_round_trip() {
    let read = |text: &str| serde_json::from_str::<CallToolParams<'_>>(text).map(|p| p.into_owned());
    assert_borrowed_round_trip(
        &CallToolParams::new("t").arguments(raw(r#"{"a":[1.50]}"#)).request_state("s").meta(raw("{}")),
        read,
    );
    assert_borrowed_round_trip(&CallToolParams::new(""), read);
    assert_missing::<CallToolParams<'_>>("{}", "name");
}

// covers: TOOL-013, TOOL-014, TOOL-037
#[test]
fn tool_results_round_trip() {
    let text = serde_json::to_string(&CallToolResult::text("hi")).expect("JSON");
    assert_eq!(text, r#"{"content":[{"type":"text","text":"hi"}]}"#);
    let error = serde_json::to_string(&CallToolResult::error("no")).expect("JSON");
    assert_eq!(error, r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#);
    let sum = CallToolResult::structured(raw(r#"{"sum":42}"#));
    let written = assert_borrowed_round_trip(&sum, result);
    let back: CallToolResult<'_> = serde_json::from_str(&written).expect("a result");
    assert_eq!(back.content[0].as_text(), Some(r#"{"sum":42}"#));
    assert!(!back.is_failure() && CallToolResult::error("").is_failure());
    assert_borrowed_round_trip(
        &CallToolResult::content(Vec::new()).is_error(false).result_type("complete").meta(raw("{}")),
        result,
    );
    assert_borrowed_round_trip(&CallToolResult::content(super::super::content::tests::every_kind()), result);
    // Any JSON is a value, `null` too.
    for value in ["null", "1", "[]", "\"x\""] {
        assert_borrowed_round_trip(&CallToolResult::structured(raw(value)), result);
    }
    assert_missing::<CallToolResult<'_>>(r#"{"isError":true}"#, "content");
    let wrong = result(r#"{"content":{}}"#).expect_err("wrong");
    assert!(wrong.to_string().starts_with("`content`: invalid type: map, expected an array"), "{wrong}");
    let odd = result(r#"{"content":[{"type":"new","x":1}],"more":2}"#).expect("a result");
    assert!(matches!(&odd.content[0], Content::Other(raw) if raw.as_str() == r#"{"type":"new","x":1}"#));
}

// covers: TOOL-013, TOOL-014
#[test]
fn structured_result_parses_as_type() {
    #[derive(serde::Deserialize, PartialEq, Debug)]
    struct SumResult<'a> {
        sum: i32,
        unit: &'a str,
    }
    let value = r#"{"sum":42,"unit":"m"}"#;
    let expected = SumResult { sum: 42, unit: "m" };
    let structured = CallToolResult::text("forty-two").structured_content(raw(value));
    assert_eq!(structured.parse_structured::<SumResult<'_>>().expect("a sum"), expected);
    // The text of a result in a revision without structured results.
    assert_eq!(CallToolResult::text(value).parse_structured::<SumResult<'_>>().expect("a sum"), expected);
    let why =
        |result: &CallToolResult<'_>| result.parse_structured::<i32>().expect_err("no number").to_string();
    assert!(why(&structured).starts_with("invalid type: map"));
    assert!(why(&CallToolResult::text("forty-two")).starts_with("expected"));
    let two = CallToolResult::content(alloc::vec![Content::text("1"), Content::text("2")]);
    assert_eq!(why(&two), "there is no structured result");
    assert_eq!(why(&CallToolResult::error("1")), "the tool failed: 1");
}

#[test]
fn text_result_is_written_without_reallocation() {
    // The serializer writes straight into a buffer that is large enough: it is not reallocated.
    let mut out = Vec::with_capacity(256);
    let at = out.as_ptr();
    let table = crate::shape::table(crate::Version::V2025_11_25);
    let noted = Serializer::object(&mut out, &CallToolResult::text("hi"), table).expect("JSON");
    assert!(out.as_ptr() == at && noted.meta.is_none());
    assert_eq!(out, br#"{"content":[{"type":"text","text":"hi"}]}"#);
}
