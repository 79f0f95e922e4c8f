use super::super::test_support::{assert_borrowed_round_trip, assert_missing, assert_round_trip};
use super::*;
use alloc::string::ToString;
use alloc::vec;

fn raw(text: &'static str) -> RawJson {
    RawJson::new(text).expect("JSON")
}

pub(in crate::model) fn every_kind() -> Vec<SamplingContent<'static>> {
    vec![
        TextContent::new("t").into(),
        ImageContent::new("aGk=", "image/png").into(),
        AudioContent::new("aGk=", "audio/wav").meta(raw("{}")).into(),
        ToolUseContent::new("u1", "depth", raw(r#"{"at":"A"}"#)).meta(raw("{}")).into(),
        ToolResultContent::text("u1", "3 m")
            .is_error(false)
            .structured_content(raw("null"))
            .meta(raw("{}"))
            .into(),
    ]
}

// covers: SAMP-004, SAMP-006, SAMP-016, SAMP-019
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn sampling_params_round_trip() {
    let preferences = ModelPreferences::new()
        .hints([ModelHint::new().name("small"), ModelHint::new()])
        .cost_priority(0.5)
        .speed_priority(0)
        .intelligence_priority(1);
    assert_round_trip(&preferences);
    assert_round_trip(&ToolChoice::new().mode(ToolChoiceMode::Required));
    let params = CreateMessageParams::new(
        [
            SamplingMessage::user("hi").meta(raw("{}")),
            SamplingMessage::assistant(every_kind()),
            SamplingMessage::user(ToolResultContent::new("u", vec![])),
        ],
        200u32,
    )
    .model_preferences(preferences)
    .system_prompt("s")
    .include_context(IncludeContext::ThisServer)
    .temperature(0.2)
    .stop_sequences(["x".into()])
    .metadata(raw("{}"))
    .tools([Tool::new("depth", raw(r#"{"type":"object"}"#))])
    .tool_choice(ToolChoice::new())
    .meta(raw("{}"));
    assert_borrowed_round_trip(&params, |t| {
        serde_json::from_str::<CreateMessageParams<'_>>(t).map(|p| p.into_owned())
    });
    for message in &params.messages {
        assert_borrowed_round_trip(message, |t| {
            serde_json::from_str::<SamplingMessage<'_>>(t).map(|m| m.into_owned())
        });
    }
    let turned: SamplingMessage<'_> =
        serde_json::from_str(r#"{"content":{"text":"x","type":"text"},"role":"user"}"#).expect("a message");
    assert_eq!(turned, SamplingMessage::user("x"));
    assert_missing::<CreateMessageParams<'_>>(r#"{"messages":[]}"#, "maxTokens");
    assert_missing::<SamplingMessage<'_>>(r#"{"role":"user"}"#, "content");
    let wrong = serde_json::from_str::<CreateMessageParams<'_>>(r#"{"messages":[{"content":1}]}"#)
        .expect_err("wrong");
    assert!(wrong.to_string().starts_with("`messages.content`: invalid type: integer"), "{wrong}");
}

// covers: SAMP-005, SAMP-006, SAMP-012
#[test]
fn sampling_result_round_trips() {
    let read = |t: &str| serde_json::from_str::<CreateMessageResult<'_>>(t).map(|r| r.into_owned());
    let one =
        CreateMessageResult::new(Role::Assistant, "hi", "m").stop_reason(StopReason::EndTurn).meta(raw("{}"));
    let text = assert_borrowed_round_trip(&one, read);
    assert!(text.contains(r#""content":{"type":"text","text":"hi"}"#), "one block stands for itself");
    let many = CreateMessageResult::new(Role::Assistant, every_kind(), "m").stop_reason("hostile");
    assert_borrowed_round_trip(&many, read);
    assert_eq!((one.content.len(), many.content.len()), (1, every_kind().len()));
    assert_eq!(one.content[0].as_text(), Some("hi"));
    assert_missing::<CreateMessageResult<'_>>(r#"{"role":"assistant","content":[]}"#, "model");
}

// covers: CONT-001, CONT-007, SAMP-011
#[test]
fn tool_blocks_are_known_in_sampling_only() {
    let read = |t: &str| serde_json::from_str::<SamplingContent<'_>>(t).map(|c| c.into_owned());
    for block in every_kind() {
        assert_borrowed_round_trip(&block, read);
    }
    assert_missing::<SamplingContent<'_>>(r#"{"type":"tool_use","id":"","name":""}"#, "input");
    assert_missing::<SamplingContent<'_>>(r#"{"type":"tool_result","content":[]}"#, "toolUseId");
    assert!(matches!(read(r#"{"type":"resource_link","uri":1}"#), Ok(SamplingContent::Other(_))));
    assert!(matches!(serde_json::from_str::<Content<'_>>(r#"{"type":"tool_use"}"#), Ok(Content::Other(_))));
}
