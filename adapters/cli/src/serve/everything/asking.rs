//! Fixtures of the conformance suite that ask their client once: by a form, or its model

use mcp_proto::RpcError;
use mcp_proto::model::{
    BooleanSchema, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitResult, ElicitSchema,
    ElicitUrlParams, EnumSchema, LegacyTitledEnumSchema, NumberSchema, SamplingMessage, StringFormat,
    StringSchema,
};
use mcp_proto::router::schema::{NoArguments, schemars};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Cx, Router};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Sampling {
    /// What the model is told
    prompt: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Elicitation {
    /// What the user is told
    message: String,
}

pub(super) fn register(router: &mut Router) {
    let about = "Asks the client's model, and answers with what that says";
    router.tool(
        "test_sampling",
        about,
        handler!(|cx, Sampling { prompt }: Sampling| {
            let said = cx.sample("model", question(prompt))?;
            Ok::<_, RpcError>(format!("LLM response: {}", text(&said)))
        }),
    );
    let about = "Asks the user for a name and an address, and answers with what was filled in";
    router.tool(
        "test_elicitation",
        about,
        handler!(|cx, Elicitation { message }: Elicitation| {
            let form = ElicitSchema::default()
                .field("username", StringSchema::new().description("User's response"))
                .field(
                    "email",
                    StringSchema::new().description("User's email address").format(StringFormat::Email),
                );
            Ok::<_, RpcError>(outcome(&cx.elicit("user", message, form)?))
        }),
    );
    router.tool(
        "test_elicitation_sep1034_defaults",
        "Asks by a form that is filled in already",
        handler!(|cx, _: NoArguments| {
            let answer =
                cx.elicit("profile", "Please review and update the form fields with defaults", defaults());
            Ok::<_, RpcError>(outcome(&answer?))
        }),
    );
    router.tool(
        "test_elicitation_sep1330_enums",
        "Asks by a form with every kind of choice",
        handler!(|cx, _: NoArguments| {
            let answer = cx.elicit("choices", "Please select options from the enum fields", choices());
            Ok::<_, RpcError>(outcome(&answer?))
        }),
    );
    router.tool(
        "test_elicitation_url",
        "Asks the user to visit a web page",
        handler!(|cx, _: NoArguments| page(cx)),
    );
}

/// Sends the user to a web page, which is done at once as there is none
fn page(cx: &mut Cx<'_>) -> Result<String, RpcError> {
    let page =
        ElicitUrlParams::new("Please sign in to the harbour", "https://harbour.example/sign-in?boat=7");
    let action = cx.elicit_url("page", page.elicitation_id(PAGE))?;
    if action == ElicitAction::Accept {
        let channel = cx.call().channel();
        cx.with_engine(move |engine, now| _ = engine.elicitation_complete(now, channel, PAGE))?;
    }
    Ok(format!("User response: action={}", action.as_str()))
}

const PAGE: &str = "harbour-sign-in";

fn defaults() -> ElicitSchema {
    let status = EnumSchema::one_of(["active", "inactive", "pending"]);
    ElicitSchema::default()
        .optional("name", StringSchema::new().description("User name").default("John Doe"))
        .optional("age", NumberSchema::integer().description("User age").default(30))
        .optional("score", NumberSchema::number().description("User score").default(95.5))
        .optional("status", status.description("User status").default("active"))
        .optional("verified", BooleanSchema::new().description("Verification status").default(true))
}

fn choices() -> ElicitSchema {
    let options = || ["option1", "option2", "option3"];
    let titled = || [("value1", "First Option"), ("value2", "Second Option"), ("value3", "Third Option")];
    let values = ["opt1", "opt2", "opt3"].map(String::from);
    let names = ["Option One", "Option Two", "Option Three"].map(String::from);
    ElicitSchema::default()
        .optional("untitledSingle", EnumSchema::one_of(options()).description("Select one option"))
        .optional(
            "titledSingle",
            EnumSchema::one_of_titled(titled()).description("Select one option with titles"),
        )
        .optional(
            "legacyEnum",
            LegacyTitledEnumSchema::new(values, names).description("Select one option (legacy)"),
        )
        .optional("untitledMulti", EnumSchema::any_of(options()).description("Select multiple options"))
        .optional(
            "titledMulti",
            EnumSchema::any_of_titled(titled()).description("Select multiple options with titles"),
        )
}

/// A user's question to the model
pub(super) fn question(text: impl Into<String>) -> CreateMessageParams<'static> {
    CreateMessageParams::new([SamplingMessage::user(text.into())], 100u32)
}

/// What a model said, as far as it is text
pub(super) fn text(said: &CreateMessageResult<'_>) -> String {
    let texts: Vec<_> = said.content.iter().filter_map(|block| block.as_text()).collect();
    texts.join("\n")
}

/// What a user did with a form
pub(super) fn outcome(answer: &ElicitResult) -> String {
    match &answer.action {
        ElicitAction::Accept => {
            let content =
                serde_json::to_string(answer.content.as_ref().unwrap_or(&mcp_proto::model::Map::new()));
            format!("User response: action=accept, content={}", content.unwrap_or_default())
        }
        other => format!("User response: action={}", other.as_str()),
    }
}
