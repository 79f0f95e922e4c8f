//! The values of the two applications: every kind of content, and every member that a later revision added.

use mcp_proto::EntryKind;
use mcp_proto::model::*;
use mcp_proto::router::{CacheHint, Router};
use mcp_proto::rpc::code;
use mcp_proto::{Capabilities, Capability, RawJson, RpcError, Version, VersionSet, client, server};
use mcp_tests::harness::build::{raw, to_value};
use serde_json::{Value, json};

use super::DowngradeRun;
use super::connection::{CUSTOM_METHOD, PreparedAnswer};
use crate::protocol::common::secs;

pub(super) const URI: &str = "chart://north";

fn meta() -> RawJson {
    raw(&json!({ "org.example/k": [1, null] }))
}

fn icons() -> [Icon; 1] {
    [Icon::new("data:image/svg+xml;base64,PHN2Zy8+").mime_type("image/svg+xml").theme(IconTheme::Dark)]
}

fn annotations() -> Annotations {
    Annotations::new().audience([Role::User]).priority(0.25).last_modified("2026-07-28T10:00:00Z")
}

pub(super) fn info(name: &str) -> Implementation {
    let mut info =
        Implementation::new(name, "2.1.0").title("T").description("d").website_url("https://x.example");
    info.icons = icons().into();
    info
}

/// A schema without arguments, in the form in which the router lists it: some clients require `properties`.
fn schema() -> RawJson {
    raw(&json!({ "type": "object", "properties": {} }))
}

fn tools() -> Vec<Tool> {
    let plain = Tool::new("plain", schema());
    let all = Tool::new("all", schema())
        .title("All")
        .description("has everything")
        .output_schema(schema())
        .annotations(ToolAnnotations::new().read_only_hint(true).title("A"))
        .icons(icons())
        .execution(ToolExecution::new().task_support(TaskSupport::Optional))
        .meta(meta());
    let mut open = all.clone();
    open.name = "open".into();
    vec![plain, all, open.output_schema(raw(&json!({ "type": "array" })))]
}

fn resource() -> Resource {
    Resource::new(URI, "north")
        .title("North")
        .description("d")
        .mime_type("text/plain")
        .size(7u64)
        .annotations(annotations())
        .icons(icons())
        .meta(meta())
}

fn template() -> ResourceTemplate {
    ResourceTemplate::new("berth://{pier}/{number}", "berths")
        .title("Berths")
        .description("d")
        .mime_type("text/plain")
        .annotations(annotations())
        .icons(icons())
        .meta(meta())
}

fn prompt() -> Prompt {
    let argument = PromptArgument::new("harbour").title("Harbour").description("which").required(true);
    Prompt::new("all").title("All").description("d").arguments([argument]).icons(icons()).meta(meta())
}

/// The lists with the type of their results, the member and all entries.
pub(super) fn lists() -> [(EntryKind, &'static str, &'static str, Value); 4] {
    let all = |items: Result<RawJson, _>| to_value(&items.expect("JSON"));
    let mut listed = all(RawJson::encode(&tools()));
    let tests = tool_results().into_iter().map(|(name, _)| String::from(name));
    let fails = errors().into_iter().map(|e| format!("fail{}", e.code));
    let more = tests.chain(fails).chain(["asks".into()]);
    listed
        .as_array_mut()
        .expect("a list")
        .extend(more.map(|n| json!({ "name": n, "inputSchema": to_value(&schema()) })));
    [
        (EntryKind::Tool, "ListToolsResult", "tools", listed),
        (EntryKind::Resource, "ListResourcesResult", "resources", all(RawJson::encode(&[resource()]))),
        (
            EntryKind::ResourceTemplate,
            "ListResourceTemplatesResult",
            "resourceTemplates",
            all(RawJson::encode(&[template()])),
        ),
        (EntryKind::Prompt, "ListPromptsResult", "prompts", all(RawJson::encode(&[prompt()]))),
    ]
}

/// One content block of each kind.
fn blocks() -> Vec<Content<'static>> {
    let link = ResourceLink::new(URI, "north").title("North").description("By \"the\" pier").size(7u64);
    let blob = BlobResourceContents::new("chart://south", "aGVsbG8=").mime_type("image/png").meta(meta());
    let text = TextResourceContents::new(URI, "soundings").mime_type("text/plain").meta(meta());
    vec![
        TextContent::new("ahoy").annotations(annotations()).meta(meta()).into(),
        ImageContent::new("aGVsbG8=", "image/png").annotations(annotations()).meta(meta()).into(),
        AudioContent::new("aGVsbG8=", "audio/wav").annotations(annotations()).meta(meta()).into(),
        link.annotations(annotations()).icons(icons()).meta(meta()).into(),
        EmbeddedResource::new(ResourceContents::from(text)).annotations(annotations()).meta(meta()).into(),
        EmbeddedResource::new(ResourceContents::from(blob)).into(),
    ]
}

/// Tool results by tool name.
pub(super) fn tool_results() -> Vec<(&'static str, CallToolResult<'static>)> {
    let wordless = || CallToolResult::content(vec![Content::image("aGVsbG8=", "image/png")]);
    vec![
        ("blocks", CallToolResult::content(blocks()).meta(meta())),
        ("nothing", CallToolResult::content(Vec::new())),
        ("failed", CallToolResult::error("no tide")),
        ("object", CallToolResult::structured(raw(&json!({ "depth": 4.5 })))),
        ("objectAlone", wordless().structured_content(raw(&json!({ "depth": 4.5 })))),
        ("value", CallToolResult::structured(raw(&json!([1, null])))),
        ("valueAlone", wordless().structured_content(raw(&json!([1, null])))),
    ]
}

pub(super) fn contents() -> ReadResourceResult<'static> {
    let text = TextResourceContents::new(URI, "soundings").mime_type("text/plain").meta(meta());
    let blob = BlobResourceContents::new(URI, "aGVsbG8=").mime_type("image/png").meta(meta());
    ReadResourceResult::new(vec![text.into(), blob.into()])
        .ttl_ms(5_000)
        .cache_scope(CacheScope::Public)
        .meta(meta())
}

pub(super) fn messages() -> GetPromptResult<'static> {
    let messages = blocks().into_iter().map(PromptMessage::user);
    GetPromptResult::new(messages.collect::<Vec<_>>()).description("d").meta(meta())
}

pub(super) fn completed() -> CompleteResult {
    CompleteResult::from_suggestions(vec!["Brest".into(), "Brescou".into()]).meta(meta())
}

pub(super) fn completions() -> [CompleteParams<'static>; 2] {
    let argument = |name: &'static str| CompletionArgument::new(name, "Br");
    let mut known = Map::new();
    known.insert("pier".to_owned(), "C".to_owned());
    let context = CompletionContext::new().arguments(known);
    [
        CompleteParams::new(PromptReference::new("all").title("All"), argument("harbour")),
        CompleteParams::new(ResourceTemplateReference::new("berth://{pier}/{number}"), argument("number"))
            .context(context),
    ]
}

pub(super) fn input_required_result() -> InputRequiredResult<'static> {
    InputRequiredResult::new().request_state("s")
}

/// One error of each code that not every revision has, with its data.
pub(super) fn errors() -> Vec<RpcError> {
    let page = ElicitUrlParams::new("Pay", "https://x.example").elicitation_id("e");
    let versions = UnsupportedProtocolVersion::new(["2026-07-28".into()]).requested("2027-01-01");
    let needed = ClientCapabilities::new().roots(RootsCapability::new());
    vec![
        RpcError::resource_not_found("a:b"),
        RpcError::url_elicitation_required(vec![page]).expect("JSON"),
        RpcError::missing_client_capability(needed).expect("JSON"),
        RpcError::new(code::UNSUPPORTED_PROTOCOL_VERSION, "m")
            .with_data(RawJson::encode(&versions).expect("JSON")),
        RpcError::new(code::HEADER_MISMATCH, "m"),
        RpcError::new(7, "no luck").with_data(meta()),
    ]
}

pub(super) fn router() -> Router<PreparedAnswer> {
    let mut router = Router::new("", "");
    router.info(info("tide-server"));
    for tool in tools() {
        router.tool(tool, PreparedAnswer::Tool(CallToolResult::text("done"))).expect("a tool");
    }
    for (name, result) in tool_results() {
        router.tool(Tool::new(name, schema()), PreparedAnswer::Tool(result)).expect("a tool");
    }
    for error in errors() {
        let tool = Tool::new(format!("fail{}", error.code), schema());
        router.tool(tool, PreparedAnswer::Fail(error)).expect("a tool");
    }
    router.tool(Tool::new("asks", schema()), PreparedAnswer::Ask(input_required_result())).expect("a tool");
    router.resource(resource(), PreparedAnswer::Read(contents())).expect("a resource");
    router.resource_template(template(), PreparedAnswer::Read(contents())).expect("a template");
    router.prompt(prompt(), PreparedAnswer::Prompt(messages())).expect("a prompt");
    let (prompt, template) =
        (PromptReference::new("all"), ResourceTemplateReference::new("berth://{pier}/{number}"));
    router.completion(prompt, "harbour", PreparedAnswer::Complete(completed())).expect("a prompt");
    router.completion(template, "number", PreparedAnswer::Complete(completed())).expect("a template");
    for kind in [EntryKind::Tool, EntryKind::Resource, EntryKind::ResourceTemplate, EntryKind::Prompt] {
        router.cache_list(kind, CacheHint::public(secs(60)));
    }
    router
}

#[expect(deprecated, reason = "tested until its removal")]
pub(super) fn server(router: &Router<PreparedAnswer>, versions: VersionSet) -> server::Config {
    let capabilities =
        router.capabilities().with(Capability::ResourceSubscriptions).with(Capability::Logging);
    let capabilities = capabilities.extension("org.example/e", raw(&json!({}))).expect("an identifier");
    router.config().versions(versions).capabilities(capabilities).custom_method(CUSTOM_METHOD)
}

pub(super) fn server_capabilities() -> Value {
    json!({
        "tools": { "listChanged": true }, "resources": { "subscribe": true, "listChanged": true },
        "prompts": { "listChanged": true }, "completions": {}, "logging": {},
        "extensions": { "org.example/e": {} },
    })
}

#[expect(deprecated, reason = "tested until its removal")]
pub(super) fn client(versions: VersionSet) -> client::Config {
    let capabilities = Capabilities::new()
        .with(Capability::Roots)
        .with(Capability::Sampling)
        .with(Capability::Elicitation)
        .extension("org.example/e", raw(&json!({})))
        .expect("an identifier");
    client::Config::new("", "")
        .info(info("harbor-client"))
        .versions(versions)
        .capabilities(capabilities)
        .custom_method(CUSTOM_METHOD)
}

pub(super) fn client_capabilities() -> Value {
    json!({
        "roots": {}, "sampling": {}, "elicitation": {}, "extensions": { "org.example/e": {} },
    })
}

fn map<T>(name: &str, value: T) -> Map<T> {
    let mut map = Map::new();
    map.insert(name.to_owned(), value);
    map
}

fn fields() -> ElicitSchema {
    let single = UntitledSingleSelectEnumSchema::new(["a".into()]).default("a");
    let titled = TitledSingleSelectEnumSchema::new([EnumOption::new("s", "Sloop")]).default("s");
    let legacy = LegacyTitledEnumSchema::new(["s".into()], ["Sloop".into()]).default("s");
    ElicitSchema::default()
        .schema("https://json-schema.org/draft/2020-12/schema")
        .field("text", StringSchema::new().default("x"))
        .field("number", NumberSchema::new(NumberKind::Integer).default(3.0))
        .field("yes", BooleanSchema::new().default(true))
        .field("single", single)
        .field("titled", titled)
        .optional("old", legacy)
}

/// Checks every type as parameters of the custom method.
pub(super) fn each_parameter(run: &mut DowngradeRun<'_>) {
    repeated(run);
    let sampling = || SamplingCapability::new().context(Map::new()).tools(Map::new());
    let forms = ElicitationCapability::new().form(Map::new()).url(Map::new());
    let all = ClientCapabilities::new().roots(RootsCapability::new().list_changed(true)).sampling(sampling());
    run.parameter("ClientCapabilities", &all.clone().elicitation(forms));
    run.parameter("ClientCapabilities", &all.elicitation(ElicitationCapability::new().url(Map::new())));

    let call = || SamplingContent::from(ToolUseContent::new("u", "depth", raw(&json!({ "at": "A" }))));
    let audio = Content::from(AudioContent::new("aGVsbG8=", "audio/wav"));
    let object = ToolResultContent::new("u", vec![audio]).structured_content(raw(&json!({ "depth": 1 })));
    let open = ToolResultContent::new("u", Vec::new()).structured_content(raw(&json!(1))).is_error(true);
    let one = [SamplingMessage::user("hi").meta(meta()), SamplingMessage::assistant(call())];
    run.parameter("CreateMessageParams", &CreateMessageParams::new(one.clone(), 9u32));
    let several = vec![SamplingContent::text("so"), call(), object.into(), open.into()];
    let many = SamplingMessage::assistant(several.clone());
    run.parameter("CreateMessageParams", &CreateMessageParams::new([many], 9u32));
    let with_tools = CreateMessageParams::new(one, 9u32).tools(tools()).tool_choice(ToolChoice::new());
    run.parameter("CreateMessageParams", &with_tools);
    run.parameter("CreateMessageResult", &CreateMessageResult::new(Role::Assistant, several, "m"));
    run.parameter("CreateMessageResult", &CreateMessageResult::new(Role::Assistant, vec![call()], "m"));

    run.parameter("ElicitFormParams", &ElicitFormParams::new("?", fields()).mode(ElicitMode::Form));
    let untitled = UntitledMultiSelectEnumSchema::new(UntitledEnumItems::new(["a".into()]));
    run.parameter(
        "ElicitFormParams",
        &ElicitFormParams::new("?", ElicitSchema::default().field("f", untitled)),
    );
    let titled = TitledMultiSelectEnumSchema::new(TitledEnumItems::new([EnumOption::new("s", "Sloop")]));
    run.parameter(
        "ElicitFormParams",
        &ElicitFormParams::new("?", ElicitSchema::default().field("f", titled)),
    );
    run.parameter("ElicitUrlParams", &ElicitUrlParams::new("Pay", "https://x.example").elicitation_id("e"));
    run.parameter("ElicitUrlParams", &ElicitUrlParams::new("Pay", "https://x.example"));
    run.parameter("ElicitResult", &ElicitResult::accept([("n", ElicitValue::Integer(1))]));
    run.parameter("ElicitResult", &ElicitResult::accept([("c", ElicitValue::Choices(vec!["a".into()]))]));
    run.parameter("ElicitationCompleteParams", &ElicitationCompleteParams::new("e"));

    run.parameter("ListRootsResult", &ListRootsResult::new(vec![Root::new("file:///a").meta(meta())]));
    run.parameter("ProgressParams", &ProgressParams::new(1, 1.0).message("m"));
    run.parameter("SetLevelParams", &SetLevelParams::new(LoggingLevel::Info));
    run.parameter("SubscribeParams", &SubscribeParams::new(URI));
    let filter = SubscriptionFilter::new().tools_list_changed(true);
    run.parameter("SubscriptionsListenParams", &SubscriptionsListenParams::new(filter));
    run.parameter("EmptyResult", &EmptyResult::new().result_type(ResultType::Complete));
}

/// Checks retries with input responses. In 2026-07-28 only the engine may send them.
fn repeated(run: &mut DowngradeRun<'_>) {
    if run.version == Version::V2026_07_28 {
        return;
    }
    let answers = || map("q", InputResponse::from(ElicitResult::new(ElicitAction::Decline)));
    let mut call = CallToolParams::new("t").input_responses(answers()).request_state("s");
    call.extra.insert("task", raw(&json!({ "ttl": 1 })));
    run.parameter("CallToolParams", &call);
    run.parameter(
        "GetPromptParams",
        &GetPromptParams::new("t").input_responses(answers()).request_state("s"),
    );
    run.parameter(
        "ReadResourceParams",
        &ReadResourceParams::new(URI).input_responses(answers()).request_state("s"),
    );
    run.parameter("InputRequiredResult", &input_required_result());
}
