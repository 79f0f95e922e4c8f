use super::*;
use crate::model::{
    ModelPreferences, SamplingBlocks, TextContent, Tool, ToolChoice, ToolResultContent, ToolUseContent,
};
use crate::raw::RawJson;
use crate::rpc::RpcError;
use alloc::vec;

fn raw(text: &'static str) -> RawJson {
    RawJson::new(text).expect("JSON")
}

fn call(id: &'static str) -> SamplingContent<'static> {
    ToolUseContent::new(id, "depth", raw("{}")).into()
}

fn result(id: &'static str) -> SamplingContent<'static> {
    ToolResultContent::text(id, "3 m").into()
}

fn text() -> SamplingContent<'static> {
    TextContent::new("hi").into()
}

fn user(content: impl Into<SamplingBlocks<'static>>) -> SamplingMessage<'static> {
    SamplingMessage::user(content)
}

fn model(content: impl Into<SamplingBlocks<'static>>) -> SamplingMessage<'static> {
    SamplingMessage::assistant(content)
}

fn check<const N: usize>(messages: [SamplingMessage<'static>; N]) -> Result<(), ValidationError> {
    CreateMessageParams::new(messages, 9u32).validate()
}

// covers: SAMP-011, SAMP-012, SAMP-013
#[test]
fn conversation_with_paired_tool_results_is_valid() {
    assert_eq!(check([]), Ok(()));
    assert_eq!(check([user(text()), model(text()), user(vec![text(), text()]), user(vec![])]), Ok(()));
    assert_eq!(check([model(call("1")), user(result("1"))]), Ok(()));
    let two = || model(vec![text(), call("1"), call("2")]);
    assert_eq!(check([two(), user(vec![result("2"), result("1")]), model(text())]), Ok(()), "in any order");
    // The same id again, in another turn.
    assert_eq!(check([model(call("1")), user(result("1")), model(call("1")), user(result("1"))]), Ok(()));
}

// covers: SAMP-011, SAMP-012, SAMP-013
#[test]
fn malformed_conversation_is_refused() {
    let wrong = |messages: &[SamplingMessage<'static>]| {
        CreateMessageParams::new(messages.to_vec(), 9u32).validate().expect_err("wrong")
    };
    for (messages, path, why) in [
        // SAMP-011
        (vec![model(call("1")), user(vec![result("1"), text()])], "messages[1].content", "must hold only"),
        (vec![model(call("1")), user(vec![text(), result("1")])], "messages[1].content", "must hold only"),
        // SAMP-012
        (vec![model(call("1"))], "messages", "continue with"),
        (vec![model(call("1")), user(text())], "messages[1].content", "for each"),
        (vec![model(call("1")), user(vec![])], "messages[1].content", "for each"),
        (vec![model(call("1")), model(text()), user(result("1"))], "messages[1].content", "for each"),
        (vec![model(vec![call("1"), call("2")]), user(result("1"))], "messages[1].content", "for each"),
        (vec![model(call("1")), user(result("2"))], "messages[1].content", "for each"),
        (vec![model(call("1")), user(vec![result("1"), result("1")])], "messages[1].content", "for each"),
        (vec![model(call("1")), user(vec![result("1"), result("2")])], "messages[1].content", "for each"),
        (vec![model(call("1")), user(result("1")), user(result("1"))], "messages[2].content", "for each"),
        (vec![user(result("1"))], "messages[0].content", "for each"),
        (vec![model(text()), user(result("1"))], "messages[1].content", "for each"),
        (vec![model(vec![call("1"), call("1")])], "messages[0].content", "same `id`"),
        // Roles
        (vec![user(call("1")), user(result("1"))], "messages[0].content", "must be `assistant`"),
        (vec![model(call("1")), model(result("1"))], "messages[1].content", "must be `user`"),
        // SAMP-022
        (
            vec![model(vec![text(), ToolUseContent::new("1", "t", raw("[]")).into()])],
            "messages[0].content[1].input",
            "an object",
        ),
    ] {
        let mismatch = wrong(&messages);
        assert_eq!(mismatch.path, path, "{mismatch}");
        assert!(mismatch.reason.contains(why), "{mismatch}");
        assert_eq!(RpcError::from(mismatch).code, -32602);
    }
}

// covers: SAMP-016, SAMP-019, SAMP-022
#[test]
fn sampling_settings_are_validated() {
    let params = || CreateMessageParams::new([user(text())], 9u32);
    let tool = || [Tool::new("depth", raw(r#"{"type":"object"}"#))];
    let choice = |mode: ToolChoiceMode| ToolChoice::new().mode(mode);
    let shares = || ModelPreferences::new().cost_priority(0).speed_priority(1).intelligence_priority(0.5);
    let good = [
        params().metadata(raw("{}")).temperature(0.7).model_preferences(shares()),
        params().tools(tool()).tool_choice(choice(ToolChoiceMode::Required)),
        params().tools(tool()).tool_choice(ToolChoice::new()),
        params().tool_choice(choice(ToolChoiceMode::None)),
        params().tools([]).tool_choice(choice(ToolChoiceMode::Auto)),
    ];
    for params in good {
        assert_eq!(params.validate(), Ok(()));
    }
    for (params, path) in [
        (params().metadata(raw("1")), "metadata"),
        (params().temperature(f64::NAN), "temperature"),
        (params().model_preferences(shares().cost_priority(1.1)), "modelPreferences.costPriority"),
        (params().model_preferences(shares().speed_priority(-0.1)), "modelPreferences.speedPriority"),
        (
            params().model_preferences(shares().intelligence_priority(f64::NAN)),
            "modelPreferences.intelligencePriority",
        ),
        (params().tools(tool()).tool_choice(choice("any".into())), "toolChoice.mode"),
        (params().tool_choice(choice(ToolChoiceMode::Required)), "toolChoice.mode"),
        (params().tools([]).tool_choice(choice(ToolChoiceMode::Required)), "toolChoice.mode"),
    ] {
        assert_eq!(params.validate().expect_err("wrong").path, path);
    }
}
