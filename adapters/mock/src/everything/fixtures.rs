//! Fixtures of the official conformance suite, with the names and content that it expects.
//!
//! Fixtures that send input requests are in `input` and `rounds`, those of logs and changes in `changes`, those of
//! tasks in `tools/tasks`.

use mcp_proto::model::{
    ClientCapabilities, Content, EmbeddedResource, Prompt, PromptArgument, PromptMessage, PromptReference,
    Resource, ResourceTemplate, SamplingCapability, TextResourceContents, Tool,
};
use mcp_proto::router::schema::{NoArguments, schemars};
use mcp_proto::router::suggest;
use mcp_proto::{RawJson, RpcError};
use mcp_runtime::server::Cx;
use mcp_runtime::server::router::RegisterFunctions;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

const PICTURE: &[u8] = include_bytes!("dot.png");
const SOUND: &[u8] = include_bytes!("beep.wav");

pub(super) fn register(router: &mut impl RegisterFunctions) {
    register_content_tools(router);
    register_behaviour_tools(router);
    register_resources(router);
    register_prompts(router);
}

/// Registers tools that answer with each kind of content. All of them can be called without arguments.
fn register_content_tools(router: &mut impl RegisterFunctions) {
    router
        .tool("test_simple_text", move |_, _: NoArguments| "This is a simple text response for testing.")
        .description("Answers with a text");
    router
        .tool("test_image_content", move |_, _: NoArguments| Content::image_bytes(PICTURE, "image/png"))
        .description("Answers with a picture");
    router
        .tool("test_audio_content", move |_, _: NoArguments| Content::audio_bytes(SOUND, "audio/wav"))
        .description("Answers with a sound");
    router
        .tool("test_embedded_resource", move |_, _: NoArguments| {
            embedded_text("test://embedded-resource", "text/plain", "This is an embedded resource content.")
        })
        .description("Answers with a resource");
    router
        .tool("test_multiple_content_types", move |_, _: NoArguments| {
            vec![
                Content::text("Multiple content types test:"),
                Content::image_bytes(PICTURE, "image/png"),
                embedded_text(
                    "test://mixed-content-resource",
                    "application/json",
                    r#"{"test":"data","value":123}"#,
                ),
            ]
        })
        .description("Answers with text, picture and resource");
    router
        .tool("test_error_handling", move |_, _: NoArguments| {
            Err::<(), _>("This tool intentionally returns an error for testing")
        })
        .description("Reports an error, as a tool does");
}

fn embedded_text(uri: &'static str, mime_type: &'static str, text: &'static str) -> Content<'static> {
    EmbeddedResource::new(TextResourceContents::new(uri, text).mime_type(mime_type)).into()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CustomHeaderArguments {
    /// Repeated in the header field `Mcp-Param-Region` by clients over HTTP.
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

/// Registers tools that do more than answer.
fn register_behaviour_tools(router: &mut impl RegisterFunctions) {
    router
        .tool("test_missing_capability", move |cx, _: NoArguments| {
            require_sampling(cx).map(|()| "The client declares sampling")
        })
        .description("Needs a client that declares sampling");
    router
        .tool("test_custom_header", move |_, CustomHeaderArguments { region }: CustomHeaderArguments| region)
        .description("Has an argument that clients repeat in a header of HTTP");
    let schema = RawJson::new(JSON_SCHEMA_2020_12).expect("a valid constant");
    let tool = Tool::new("json_schema_2020_12_tool", schema)
        .description("Has a schema with much of JSON Schema 2020-12");
    router.tool_with(tool, move |_, arguments: Value| {
        format!("JSON Schema 2020-12 tool called with {arguments}")
    });
}

fn require_sampling(cx: &mut Cx<'_>) -> Result<(), RpcError> {
    let declared: ClientCapabilities = cx.peer().capabilities.parse().unwrap_or_default();
    match declared.sampling {
        Some(_) => Ok(()),
        None => {
            let needed = ClientCapabilities::new().sampling(SamplingCapability::new());
            Err(RpcError::missing_client_capability(needed)?)
        }
    }
}

fn register_resources(router: &mut impl RegisterFunctions) {
    let resource =
        Resource::new("test://static-text", "static-text").description("A text").mime_type("text/plain");
    router.resource(resource, move |_, _| "This is the content of the static text resource.");
    let resource = Resource::new("test://static-binary", "static-binary")
        .description("A picture")
        .mime_type("image/png");
    router.resource(resource.size(PICTURE.len() as u64), move |_, _| PICTURE);
    let family = ResourceTemplate::new("test://template/{id}/data", "template")
        .description("The data of an id")
        .mime_type("application/json");
    router.resource_template(family, move |_, read| {
        let id = read.variables.get("id");
        serde_json::json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {}", id.unwrap_or_default()) })
            .to_string()
    });
}

#[derive(Deserialize)]
struct TwoTextArguments {
    arg1: String,
    arg2: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceUriArguments {
    resource_uri: String,
}

fn register_prompts(router: &mut impl RegisterFunctions) {
    router.prompt(
        Prompt::new("test_simple_prompt").description("Says one thing"),
        move |_, _: NoArguments| "This is a simple prompt for testing.",
    );

    let arguments = [
        PromptArgument::new("arg1").description("First test argument").required(true),
        PromptArgument::new("arg2").description("Second test argument").required(true),
    ];
    let prompt =
        Prompt::new("test_prompt_with_arguments").description("Says its arguments").arguments(arguments);
    router.prompt(prompt, move |_, TwoTextArguments { arg1, arg2 }: TwoTextArguments| {
        format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")
    });
    for argument in ["arg1", "arg2"] {
        let words = ["test value 1", "test value 2", "another value"];
        router.completion(PromptReference::new("test_prompt_with_arguments"), argument, move |_, asked| {
            suggest(words, asked.value())
        });
    }

    let argument =
        PromptArgument::new("resourceUri").description("URI of the resource to embed").required(true);
    let prompt = Prompt::new("test_prompt_with_embedded_resource").description("Has a resource in it");
    router.prompt(
        prompt.arguments([argument]),
        move |_, ResourceUriArguments { resource_uri }: ResourceUriArguments| {
            let text = "Embedded resource content for testing.";
            let resource = TextResourceContents::new(resource_uri, text).mime_type("text/plain");
            vec![
                PromptMessage::user(EmbeddedResource::new(resource)),
                PromptMessage::user("Please process the embedded resource above."),
            ]
        },
    );

    let prompt = Prompt::new("test_prompt_with_image").description("Has a picture in it");
    router.prompt(prompt, move |_, _: NoArguments| {
        vec![
            PromptMessage::user(Content::image_bytes(PICTURE, "image/png")),
            PromptMessage::user("Please analyze the image above."),
        ]
    });
}

/// Sent to clients unchanged.
const JSON_SCHEMA_2020_12: &str = r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}"##;
