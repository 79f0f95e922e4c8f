//! Fixtures of the conformance suite that send one input request, to the user or to the model.

use mcp_proto::RpcError;
use mcp_proto::model::{
    BooleanSchema, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitResult, ElicitSchema,
    ElicitUrlParams, EnumSchema, LegacyTitledEnumSchema, NumberSchema, SamplingMessage, StringFormat,
    StringSchema,
};
use mcp_proto::router::schema::{NoArguments, schemars};
use mcp_runtime::server::Cx;
use mcp_runtime::server::router::RegisterFunctions;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SamplingArguments {
    /// Message to the model.
    prompt: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ElicitationArguments {
    /// Message to the user.
    message: String,
}

#[expect(deprecated, reason = "supported until its removal")]
pub(super) fn register(router: &mut impl RegisterFunctions) {
    let about = "Sends a request to the client's model and returns its reply";
    router
        .tool("test_sampling", move |cx, SamplingArguments { prompt }: SamplingArguments| {
            let reply = cx.sample("model", user_message(prompt))?;
            Ok::<_, RpcError>(format!("LLM response: {}", message_text(&reply)))
        })
        .description(about);
    let about = "Asks the user for a name and an address, and returns the values";
    router
        .tool("test_elicitation", move |cx, ElicitationArguments { message }: ElicitationArguments| {
            let form = ElicitSchema::default()
                .field("username", StringSchema::new().description("User's response"))
                .field(
                    "email",
                    StringSchema::new().description("User's email address").format(StringFormat::Email),
                );
            Ok::<_, RpcError>(describe_elicitation(&cx.elicit("user", message, form)?))
        })
        .description(about);
    router
        .tool("test_elicitation_sep1034_defaults", move |cx, _: NoArguments| {
            let answer = cx.elicit(
                "profile",
                "Please review and update the form fields with defaults",
                defaults_form(),
            );
            Ok::<_, RpcError>(describe_elicitation(&answer?))
        })
        .description("Asks with a form that has defaults");
    router
        .tool("test_elicitation_sep1330_enums", move |cx, _: NoArguments| {
            let answer = cx.elicit("choices", "Please select options from the enum fields", choices_form());
            Ok::<_, RpcError>(describe_elicitation(&answer?))
        })
        .description("Asks with a form that has every kind of choice");
    router
        .tool("test_elicitation_url", move |cx, _: NoArguments| open_url(cx))
        .description("Asks the user to visit a web page");
}

/// Asks the user to visit a web page. There is no such page, so the elicitation is complete immediately.
fn open_url(cx: &mut Cx<'_>) -> Result<String, RpcError> {
    let page =
        ElicitUrlParams::new("Please sign in to the harbour", "https://harbour.example/sign-in?boat=7");
    let action = cx.elicit_url("page", page.elicitation_id(ELICITATION_ID))?;
    if action == ElicitAction::Accept {
        let channel = cx.call().channel();
        cx.with_engine(move |engine, now| {
            _ = engine.notify_elicitation_complete(now, channel, ELICITATION_ID)
        })?;
    }
    Ok(format!("User response: action={}", action.as_str()))
}

const ELICITATION_ID: &str = "harbour-sign-in";

fn defaults_form() -> ElicitSchema {
    let status = EnumSchema::one_of(["active", "inactive", "pending"]);
    ElicitSchema::default()
        .optional("name", StringSchema::new().description("User name").default("John Doe"))
        .optional("age", NumberSchema::integer().description("User age").default(30))
        .optional("score", NumberSchema::number().description("User score").default(95.5))
        .optional("status", status.description("User status").default("active"))
        .optional("verified", BooleanSchema::new().description("Verification status").default(true))
}

fn choices_form() -> ElicitSchema {
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

/// Creates a sampling request with one message of the user.
pub(super) fn user_message(text: impl Into<String>) -> CreateMessageParams<'static> {
    CreateMessageParams::new([SamplingMessage::user(text.into())], 100u32)
}

/// Returns the text blocks of a model message, one per line.
pub(super) fn message_text(reply: &CreateMessageResult<'_>) -> String {
    let texts: Vec<_> = reply.content.iter().filter_map(|block| block.as_text()).collect();
    texts.join("\n")
}

/// Describes the user's response to a form.
pub(super) fn describe_elicitation(answer: &ElicitResult) -> String {
    match &answer.action {
        ElicitAction::Accept => {
            let content =
                serde_json::to_string(answer.content.as_ref().unwrap_or(&mcp_proto::model::Map::new()));
            format!("User response: action=accept, content={}", content.unwrap_or_default())
        }
        other => format!("User response: action={}", other.as_str()),
    }
}
