//! Fixtures of the conformance suite for `input_required`: one or several rounds, one or several input requests.

use mcp_proto::RpcError;
use mcp_proto::model::{
    BooleanSchema, ClientCapabilities, ElicitResult, ElicitSchema, ElicitValue, ListRootsResult, Prompt,
    StringSchema,
};
use mcp_proto::router::schema::NoArguments;
use mcp_runtime::server::Cx;
use mcp_runtime::server::router::RegisterFunctions;

use super::input::{describe_elicitation, message_text, user_message};

type ToolText = Result<String, RpcError>;
/// Name, description and handler of a fixture.
type RoundFixture = (&'static str, &'static str, fn(&mut Cx<'_>) -> ToolText);

pub(super) fn register(router: &mut impl RegisterFunctions) {
    let tools: [RoundFixture; 9] = [
        ("test_input_required_result_elicitation", "Asks for a name", run_elicitation),
        ("test_input_required_result_sampling", "Asks the model for a capital", run_sampling),
        ("test_input_required_result_list_roots", "Asks for the client's directories", run_list_roots),
        (
            "test_input_required_result_request_state",
            "Asks for a confirmation and keeps state meanwhile",
            run_request_state,
        ),
        ("test_input_required_result_multiple_inputs", "Asks for three things at once", run_multiple_inputs),
        ("test_input_required_result_multi_round", "Asks, and asks again", run_multi_round),
        (
            "test_input_required_result_tampered_state",
            "Asks, and detects a modified state",
            run_request_state,
        ),
        (
            "test_input_required_result_capabilities",
            "Requests every kind of input that the client supports",
            run_capabilities,
        ),
        ("test_streaming_elicitation", "Asks for a confirmation", run_streaming),
    ];
    for (name, about, run) in tools {
        router.tool(name, move |cx, _: NoArguments| run(cx)).description(about);
    }
    let prompt = Prompt::new("test_input_required_result_prompt").description("Asks for context first");
    router.prompt(prompt, move |cx, _: NoArguments| -> ToolText {
        let form =
            ElicitSchema::default().field("context", StringSchema::new().description("What it is about"));
        let answer = cx.elicit("user_context", "What context should the prompt use?", form)?;
        Ok(match text_field(&answer, "context") {
            Some(context) => format!("Use the following context: {context}"),
            None => "Use no context".into(),
        })
    });
}

fn name_form() -> ElicitSchema {
    ElicitSchema::default().field("name", StringSchema::new().description("Your name"))
}

/// Returns the value of a text field.
fn text_field<'a>(answer: &'a ElicitResult, name: &str) -> Option<&'a str> {
    match answer.content.as_ref()?.get(name)? {
        ElicitValue::Text(text) => Some(text),
        _ => None,
    }
}

fn greeting(answer: &ElicitResult) -> String {
    text_field(answer, "name").map_or_else(|| describe_elicitation(answer), |name| format!("Hello, {name}!"))
}

fn format_roots(roots: &ListRootsResult) -> String {
    let roots: Vec<_> = roots.roots.iter().map(|root| &*root.uri).collect();
    if roots.is_empty() { "no roots".into() } else { roots.join(", ") }
}

fn run_elicitation(cx: &mut Cx<'_>) -> ToolText {
    Ok(greeting(&cx.elicit("user_name", "What is your name?", name_form())?))
}

#[expect(deprecated, reason = "supported until its removal")]
fn run_sampling(cx: &mut Cx<'_>) -> ToolText {
    let reply = cx.sample("capital_question", user_message("What is the capital of France?"))?;
    Ok(format!("LLM response: {}", message_text(&reply)))
}

#[expect(deprecated, reason = "supported until its removal")]
fn run_list_roots(cx: &mut Cx<'_>) -> ToolText {
    Ok(format!("Roots: {}", format_roots(&cx.list_roots("client_roots")?)))
}

fn run_request_state(cx: &mut Cx<'_>) -> ToolText {
    let begun = cx.call().state().map(<[u8]>::to_vec);
    cx.set_state(&b"asked for a confirmation"[..]);
    let form = ElicitSchema::default().field("ok", BooleanSchema::new().description("Whether to go on"));
    let answer = cx.elicit("confirm", "Please confirm", form)?;
    // A client may send answers with the first call, without state; the result then says so.
    let kept = begun.map_or_else(|| "nothing".into(), |state| String::from_utf8_lossy(&state).into_owned());
    Ok(format!("state-ok: {kept}; {}", describe_elicitation(&answer)))
}

#[expect(deprecated, reason = "supported until its removal")]
fn run_multiple_inputs(cx: &mut Cx<'_>) -> ToolText {
    cx.set_state(&b"asked for three things"[..]);
    // All requests are collected before the first answer is awaited.
    let name = cx.elicit("user_name", "What is your name?", name_form());
    let reply = cx.sample("greeting", user_message("Generate a greeting"));
    let roots = cx.list_roots("client_roots");
    let (name, reply, roots) = (name?, reply?, roots?);
    Ok(format!("{} {} Roots: {}", greeting(&name), message_text(&reply), format_roots(&roots)))
}

fn run_multi_round(cx: &mut Cx<'_>) -> ToolText {
    let name = cx.elicit("step1", "Step 1: What is your name?", name_form())?;
    let form =
        ElicitSchema::default().field("color", StringSchema::new().description("Your favourite colour"));
    let color = cx.elicit("step2", "Step 2: What is your favorite color?", form)?;
    let color = text_field(&color, "color")
        .map_or_else(|| describe_elicitation(&color), |color| format!("Your colour is {color}."));
    Ok(format!("{} {color}", greeting(&name)))
}

#[expect(deprecated, reason = "supported until its removal")]
fn run_capabilities(cx: &mut Cx<'_>) -> ToolText {
    let declared: ClientCapabilities = cx.peer().capabilities.parse().unwrap_or_default();
    let mut reply = Vec::new();
    // All requests are collected first, as above.
    let name = declared.elicitation.filter(|e| e.has_form());
    let name = name.map(|_| cx.elicit("user_name", "What is your name?", name_form()));
    let capital = declared
        .sampling
        .map(|_| cx.sample("capital_question", user_message("What is the capital of France?")));
    let roots = declared.roots.map(|_| cx.list_roots("client_roots"));
    if let Some(name) = name {
        reply.push(greeting(&name?));
    }
    if let Some(capital) = capital {
        reply.push(format!("LLM response: {}", message_text(&capital?)));
    }
    if let Some(roots) = roots {
        reply.push(format!("Roots: {}", format_roots(&roots?)));
    }
    Ok(if reply.is_empty() { "The client declares nothing to ask for".into() } else { reply.join(" ") })
}

fn run_streaming(cx: &mut Cx<'_>) -> ToolText {
    let form = ElicitSchema::default().field("confirm", BooleanSchema::new().description("Whether to go on"));
    Ok(describe_elicitation(&cx.elicit("confirmation", "Do you want to go on?", form)?))
}
