//! Fixtures of the conformance suite for results that need input first: one round and several, one question and several

use mcp_proto::RpcError;
use mcp_proto::model::{
    BooleanSchema, ClientCapabilities, ElicitResult, ElicitSchema, ElicitValue, ListRootsResult, Prompt,
    StringSchema,
};
use mcp_proto::router::schema::NoArguments;

use super::asking::{outcome, question, text};
use super::{Cx, Router};

type Told = Result<String, RpcError>;
/// Name, description, and what it does
type Fixture = (&'static str, &'static str, fn(&mut Cx<'_>) -> Told);

pub(super) fn register(router: &mut Router) {
    let tools: [Fixture; 9] = [
        ("test_input_required_result_elicitation", "Asks for a name", elicitation),
        ("test_input_required_result_sampling", "Asks the model for a capital", sampling),
        ("test_input_required_result_list_roots", "Asks for the client's directories", list_roots),
        (
            "test_input_required_result_request_state",
            "Asks for a word, and remembers something meanwhile",
            state,
        ),
        ("test_input_required_result_multiple_inputs", "Asks for three things at once", several),
        ("test_input_required_result_multi_round", "Asks, and asks again", rounds),
        ("test_input_required_result_tampered_state", "Asks, and notices when its notes were changed", state),
        ("test_input_required_result_capabilities", "Asks for whatever the client can be asked for", able),
        ("test_streaming_elicitation", "Asks for a confirmation", streaming),
    ];
    for (name, about, run) in tools {
        router.tool(name, about, handler!(|cx, _: NoArguments| run(cx)));
    }
    let prompt = Prompt::new("test_input_required_result_prompt").description("Asks for context first");
    router.prompt(
        prompt,
        handler!(|cx, _: NoArguments| -> Told {
            let form =
                ElicitSchema::default().field("context", StringSchema::new().description("What it is about"));
            let answer = cx.elicit("user_context", "What context should the prompt use?", form)?;
            Ok(match field(&answer, "context") {
                Some(context) => format!("Use the following context: {context}"),
                None => "Use no context".into(),
            })
        }),
    );
}

fn name_form() -> ElicitSchema {
    ElicitSchema::default().field("name", StringSchema::new().description("Your name"))
}

/// What was filled into a field of text
fn field<'a>(answer: &'a ElicitResult, name: &str) -> Option<&'a str> {
    match answer.content.as_ref()?.get(name)? {
        ElicitValue::Text(text) => Some(text),
        _ => None,
    }
}

fn greeting(answer: &ElicitResult) -> String {
    field(answer, "name").map_or_else(|| outcome(answer), |name| format!("Hello, {name}!"))
}

fn listed(roots: &ListRootsResult) -> String {
    let roots: Vec<_> = roots.roots.iter().map(|root| &*root.uri).collect();
    if roots.is_empty() { "no roots".into() } else { roots.join(", ") }
}

fn elicitation(cx: &mut Cx<'_>) -> Told {
    Ok(greeting(&cx.elicit("user_name", "What is your name?", name_form())?))
}

fn sampling(cx: &mut Cx<'_>) -> Told {
    let said = cx.sample("capital_question", question("What is the capital of France?"))?;
    Ok(format!("LLM response: {}", text(&said)))
}

fn list_roots(cx: &mut Cx<'_>) -> Told {
    Ok(format!("Roots: {}", listed(&cx.roots("client_roots")?)))
}

fn state(cx: &mut Cx<'_>) -> Told {
    let begun = cx.call().state().map(<[u8]>::to_vec);
    cx.keep(&b"asked for a confirmation"[..]);
    let form = ElicitSchema::default().field("ok", BooleanSchema::new().description("Whether to go on"));
    let answer = cx.elicit("confirm", "Please confirm", form)?;
    // A client may bring answers on the first call, with no state; it says so then.
    let kept = begun.map_or_else(|| "nothing".into(), |state| String::from_utf8_lossy(&state).into_owned());
    Ok(format!("state-ok: {kept}; {}", outcome(&answer)))
}

fn several(cx: &mut Cx<'_>) -> Told {
    cx.keep(&b"asked for three things"[..]);
    // All of them are asked before the first is waited for.
    let name = cx.elicit("user_name", "What is your name?", name_form());
    let said = cx.sample("greeting", question("Generate a greeting"));
    let roots = cx.roots("client_roots");
    let (name, said, roots) = (name?, said?, roots?);
    Ok(format!("{} {} Roots: {}", greeting(&name), text(&said), listed(&roots)))
}

fn rounds(cx: &mut Cx<'_>) -> Told {
    let name = cx.elicit("step1", "Step 1: What is your name?", name_form())?;
    let form =
        ElicitSchema::default().field("color", StringSchema::new().description("Your favourite colour"));
    let color = cx.elicit("step2", "Step 2: What is your favorite color?", form)?;
    let color =
        field(&color, "color").map_or_else(|| outcome(&color), |color| format!("Your colour is {color}."));
    Ok(format!("{} {color}", greeting(&name)))
}

fn able(cx: &mut Cx<'_>) -> Told {
    let declared: ClientCapabilities = cx.peer().capabilities.parse().unwrap_or_default();
    let mut said = Vec::new();
    // As above: asked for at once, then waited for.
    let name = declared.elicitation.filter(|e| e.has_form());
    let name = name.map(|_| cx.elicit("user_name", "What is your name?", name_form()));
    let capital =
        declared.sampling.map(|_| cx.sample("capital_question", question("What is the capital of France?")));
    let roots = declared.roots.map(|_| cx.roots("client_roots"));
    if let Some(name) = name {
        said.push(greeting(&name?));
    }
    if let Some(capital) = capital {
        said.push(format!("LLM response: {}", text(&capital?)));
    }
    if let Some(roots) = roots {
        said.push(format!("Roots: {}", listed(&roots?)));
    }
    Ok(if said.is_empty() { "The client declares nothing to ask for".into() } else { said.join(" ") })
}

fn streaming(cx: &mut Cx<'_>) -> Told {
    let form = ElicitSchema::default().field("confirm", BooleanSchema::new().description("Whether to go on"));
    Ok(outcome(&cx.elicit("confirmation", "Do you want to go on?", form)?))
}
