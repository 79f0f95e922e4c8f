//! How each type is drawn.

use mcp_proto::RequestId;
use mcp_proto::model::*;

use crate::dice::{Any, Dice};

/// Draws types: what `new` takes, and then the members that may be absent
macro_rules! any {
    ($(
        $type:ident ( $($required:ident),* ) { $($member:ident : $draw:ident),* $(,)? }
    )*) => {$(
        impl Any for $type {
            fn any(dice: &mut Dice) -> Self {
                let mut value = $type::new($( any!(@required $required dice) ),*);
                $( value.$member = any!(@optional $draw dice); )*
                value.extra = dice.extra();
                value
            }
        }
    )*};
    (@required text $dice:ident) => { $dice.text() };
    (@required name $dice:ident) => { $dice.text() };
    (@required version $dice:ident) => { $dice.text() };
    (@required title $dice:ident) => { $dice.text() };
    (@required model $dice:ident) => { $dice.text() };
    (@required url $dice:ident) => { $dice.uri() };
    (@required uri $dice:ident) => { $dice.uri() };
    (@required icon_source $dice:ident) => { $dice.icon_source() };
    (@required base64 $dice:ident) => { $dice.base64() };
    (@required json $dice:ident) => { $dice.json() };
    (@required object $dice:ident) => { $dice.object() };
    (@required schema $dice:ident) => { $dice.schema() };
    (@required number $dice:ident) => { $dice.number() };
    (@required count $dice:ident) => { $dice.count() };
    (@required texts $dice:ident) => { $dice.list(Dice::text) };
    (@required fields $dice:ident) => { $dice.map(PrimitiveSchemaDefinition::any) };
    (@required listen_meta $dice:ident) => { $dice.listen_meta() };
    (@required $drawn:ident $dice:ident) => { $dice.$drawn() };
    (@optional text $dice:ident) => { $dice.maybe(|d| d.text().into()) };
    (@optional uri $dice:ident) => { $dice.maybe(Dice::uri) };
    (@optional flag $dice:ident) => { $dice.maybe(Dice::flag) };
    (@optional count $dice:ident) => { $dice.maybe(Dice::count) };
    (@optional share $dice:ident) => { $dice.maybe(Dice::share) };
    (@optional number $dice:ident) => { $dice.maybe(Dice::number) };
    (@optional texts $dice:ident) => { $dice.maybe(|d| d.list(Dice::text)) };
    (@optional text_list $dice:ident) => { $dice.list(Dice::text) };
    (@optional text_map $dice:ident) => { $dice.maybe(|d| d.map(Dice::text)) };
    (@optional object $dice:ident) => { $dice.maybe(Dice::object) };
    (@optional settings $dice:ident) => { $dice.maybe(|d| d.map(Dice::object)) };
    (@optional json_map $dice:ident) => { $dice.maybe(|d| d.map(Dice::json)) };
    (@optional request_meta $dice:ident) => { Some($dice.request_meta()) };
    (@optional ttl $dice:ident) => { Some($dice.pick(&[0, 1, 86_400_000])) };
    (@optional must $dice:ident) => { Some($dice.draw()) };
    (@optional drawn $dice:ident) => { $dice.opt() };
    (@optional boxed $dice:ident) => { $dice.opt().map(Box::new) };
    (@optional some $dice:ident) => { $dice.some() };
    (@optional opt_some $dice:ident) => { $dice.maybe(Dice::some) };
    (@optional map $dice:ident) => { $dice.maybe(|d| d.map(Any::any)) };
    (@optional schema_or_other $dice:ident) => { $dice.maybe(Dice::output_schema) };
    (@optional structured $dice:ident) => { $dice.maybe(Dice::structured) };
}

macro_rules! words {
    ($($type:ident [$($word:ident)*])*) => {$(
        impl Any for $type {
            fn any(dice: &mut Dice) -> Self {
                dice.pick(&[$($type::$word),*])
            }
        }
    )*};
}

words! {
    Role [User Assistant]
    CacheScope [Public Private]
    IconTheme [Light Dark]
    TaskSupport [Forbidden Optional Required]
    LoggingLevel [Debug Info Notice Warning Error Critical Alert Emergency]
    IncludeContext [None ThisServer AllServers]
    ToolChoiceMode [Auto Required None]
    StopReason [EndTurn StopSequence MaxTokens ToolUse]
    ElicitAction [Accept Decline Cancel]
    StringFormat [Email Uri Date DateTime]
    NumberKind [Number Integer]
}

impl Any for ResultType {
    fn any(dice: &mut Dice) -> Self {
        dice.pick(&[Self::Complete, "org.example/odd".into()])
    }
}

impl Any for RequestId {
    fn any(dice: &mut Dice) -> Self {
        let text = dice.pick(&["0", "-7", "9007199254740991", "\"\"", "\"a\\u00e9\"", "\"7\""]);
        serde_json::from_str(text).expect("an id")
    }
}

/// Draws what `new` takes by the name of the parameter, where it is a type of the model
macro_rules! drawn {
    ($($name:ident : $type:ty)*) => {
        impl Dice {
            $( fn $name(&mut self) -> $type { self.draw() } )*
        }
    };
}

drawn! {
    role: Role  level: LoggingLevel  action: ElicitAction  kind: NumberKind  token: RequestId
    client_capabilities: ClientCapabilities  server_capabilities: ServerCapabilities
    implementation: Implementation  completion: Completion  filter: SubscriptionFilter
    elicit_schema: ElicitSchema  untitled: UntitledEnumItems  titled: TitledEnumItems
    reference: CompletionReference<'static>  argument: CompletionArgument<'static>
    content: Content<'static>  contents: ResourceContents<'static>  sampling: SamplingBlocks<'static>
}

macro_rules! lists {
    ($($name:ident : $type:ty)*) => {
        impl Dice {
            $( fn $name(&mut self) -> Vec<$type> { self.some() } )*
        }
    };
}

lists! {
    tools: Tool  resources: Resource  templates: ResourceTemplate  prompts: Prompt  roots: Root
    options: EnumOption  blocks: Content<'static>  contents_list: ResourceContents<'static>
    prompt_messages: PromptMessage<'static>  messages: SamplingMessage<'static>
}

impl Dice {
    fn output_schema(&mut self) -> mcp_proto::RawJson {
        let open = mcp_proto::RawJson::new(r#"{"type":["array","null"],"items":true}"#).expect("JSON");
        if self.chance(70) { self.schema() } else { open }
    }

    fn structured(&mut self) -> mcp_proto::RawJson {
        if self.flag() { self.object() } else { self.no_object() }
    }

    /// Of a message: several blocks only where there is a list to put several messages into
    fn sampling_in_list(&mut self) -> SamplingBlocks<'static> {
        if self.is_nested() { self.draw() } else { SamplingBlocks::One(self.draw()) }
    }

    fn listen_meta(&mut self) -> mcp_proto::RawJson {
        mcp_proto::RawJson::new(r#"{"io.modelcontextprotocol/subscriptionId":"two"}"#).expect("JSON")
    }
}

any! {
    Implementation(name, version) { title: text, description: text, website_url: uri, icons: some }
    Icon(icon_source) { mime_type: text, sizes: text_list, theme: drawn }
    Annotations() { audience: opt_some, priority: share, last_modified: text }
    EmptyResult() { result_type: must, meta: object }

    ClientCapabilities() {
        experimental: settings, roots: drawn, sampling: drawn, elicitation: drawn, extensions: settings,
    }
    RootsCapability() { list_changed: flag }
    SamplingCapability() { context: json_map, tools: json_map }
    ElicitationCapability() { form: json_map, url: json_map }
    ServerCapabilities() {
        experimental: settings, logging: json_map, completions: json_map, prompts: drawn, resources: drawn,
        tools: drawn, extensions: settings,
    }
    ListCapability() { list_changed: flag }
    ResourcesCapability() { subscribe: flag, list_changed: flag }

    InitializeParams(text, client_capabilities, implementation) { meta: object }
    InitializeResult(text, server_capabilities, implementation) { instructions: text, meta: object }
    DiscoverResult(texts, server_capabilities) {
        instructions: text, ttl_ms: ttl, cache_scope: must, result_type: must, meta: object,
    }

    Tool(name, schema) {
        title: text, description: text, output_schema: schema_or_other, annotations: drawn, icons: some,
        execution: boxed, meta: object,
    }
    ToolAnnotations() {
        title: text, read_only_hint: flag, destructive_hint: flag, idempotent_hint: flag, open_world_hint: flag,
    }
    ToolExecution() { task_support: drawn }
    ListToolsResult(tools) { next_cursor: text, ttl_ms: ttl, cache_scope: must, result_type: must, meta: object }

    Resource(uri, name) {
        title: text, description: text, mime_type: text, size: count, annotations: drawn, icons: some, meta: object,
    }
    ResourceTemplate(uri, name) {
        title: text, description: text, mime_type: text, annotations: drawn, icons: some, meta: object,
    }
    ListResourcesResult(resources) {
        next_cursor: text, ttl_ms: ttl, cache_scope: must, result_type: must, meta: object,
    }
    ListResourceTemplatesResult(templates) {
        next_cursor: text, ttl_ms: ttl, cache_scope: must, result_type: must, meta: object,
    }
    SubscribeParams(uri) { meta: request_meta }
    ResourceUpdatedParams(uri) { meta: object }

    Prompt(name) { title: text, description: text, arguments: some, icons: some, meta: object }
    PromptArgument(name) { title: text, description: text, required: flag }
    ListPromptsResult(prompts) { next_cursor: text, ttl_ms: ttl, cache_scope: must, result_type: must, meta: object }

    CompletionContext() { arguments: text_map }
    CompleteResult(completion) { result_type: must, meta: object }
    Completion(texts) { total: count, has_more: flag }

    SetLevelParams(level) { meta: request_meta }
    LoggingMessageParams(level, json) { logger: text, meta: object }
    ProgressParams(token, number) { total: number, message: text, meta: object }
    CancelledParams() { request_id: must, reason: text, meta: object }
    SubscriptionsListenParams(filter) { meta: request_meta }
    SubscriptionFilter() {
        tools_list_changed: flag, prompts_list_changed: flag, resources_list_changed: flag,
        resource_subscriptions: texts,
    }
    SubscriptionsAcknowledgedParams(filter) { meta: object }
    SubscriptionsListenResult(listen_meta) { result_type: must }

    ListRootsResult(roots) { meta: object }
    Root(uri) { name: text, meta: object }

    ModelPreferences() { hints: some, cost_priority: share, speed_priority: share, intelligence_priority: share }
    ModelHint() { name: text }
    ToolChoice() { mode: drawn }

    ElicitFormParams(text, elicit_schema) { meta: object }
    ElicitUrlParams(text, uri) { elicitation_id: text, meta: object }
    ElicitSchema(fields) { schema: text, required: texts }
    ElicitResult(action) { content: map, meta: object }
    ElicitationCompleteParams(text) {}

    StringSchema() {
        title: text, description: text, min_length: count, max_length: count, format: drawn, default: text,
    }
    NumberSchema(kind) { title: text, description: text, minimum: number, maximum: number, default: number }
    BooleanSchema() { title: text, description: text, default: flag }
    UntitledSingleSelectEnumSchema(texts) { title: text, description: text, default: text }
    TitledSingleSelectEnumSchema(options) { title: text, description: text, default: text }
    UntitledMultiSelectEnumSchema(untitled) {
        title: text, description: text, min_items: count, max_items: count, default: texts,
    }
    TitledMultiSelectEnumSchema(titled) {
        title: text, description: text, min_items: count, max_items: count, default: texts,
    }
    LegacyTitledEnumSchema(texts, texts) { title: text, description: text, default: text }
    UntitledEnumItems(texts) {}
    TitledEnumItems(options) {}
    EnumOption(name, title) {}

    ResourceNotFound(uri) {}
    MissingRequiredClientCapability(client_capabilities) {}
}

/// The same for types that borrow: drawn as ones that do not
macro_rules! any_static {
    ($( $type:ident ( $($required:ident),* ) { $($member:ident : $draw:ident),* $(,)? } )*) => {$(
        impl Any for $type<'static> {
            fn any(dice: &mut Dice) -> Self {
                let mut value = $type::new($( any!(@required $required dice) ),*);
                $( value.$member = any!(@optional $draw dice); )*
                value.extra = dice.extra();
                value
            }
        }
    )*};
}

any_static! {
    TextContent(text) { annotations: boxed, meta: object }
    ImageContent(base64, text) { annotations: boxed, meta: object }
    AudioContent(base64, text) { annotations: boxed, meta: object }
    ResourceLink(uri, name) {
        title: text, description: text, mime_type: text, size: count, annotations: boxed, icons: some, meta: object,
    }
    EmbeddedResource(contents) { annotations: boxed, meta: object }
    TextResourceContents(uri, text) { mime_type: text, meta: object }
    BlobResourceContents(uri, base64) { mime_type: text, meta: object }

    CallToolParams(name) { arguments: object, input_responses: map, request_state: text, meta: request_meta }
    CallToolResult(blocks) { structured_content: structured, is_error: flag, result_type: must, meta: object }
    ReadResourceParams(uri) { input_responses: map, request_state: text, meta: request_meta }
    ReadResourceResult(contents_list) { ttl_ms: ttl, cache_scope: must, result_type: must, meta: object }
    GetPromptParams(name) { arguments: text_map, input_responses: map, request_state: text, meta: request_meta }
    GetPromptResult(prompt_messages) { description: text, result_type: must, meta: object }
    PromptMessage(role, content) {}

    CompleteParams(reference, argument) { context: drawn, meta: request_meta }
    PromptReference(name) { title: text }
    ResourceTemplateReference(uri) {}
    CompletionArgument(name, text) {}

    CreateMessageParams(messages, count) {
        model_preferences: drawn, system_prompt: text, include_context: drawn, temperature: number,
        stop_sequences: texts, metadata: object, meta: object,
    }
    SamplingMessage(role, sampling_in_list) { meta: object }
    CreateMessageResult(role, sampling, model) { stop_reason: drawn, meta: object }
    ToolUseContent(text, name, object) { meta: object }
    ToolResultContent(text, blocks) { structured_content: structured, is_error: flag, meta: object }
    InputRequiredResult() { input_requests: map, request_state: text, meta: object }
}

macro_rules! one_of {
    ($($type:ty { $($kind:ident)* })*) => {$(
        impl Any for $type {
            fn any(dice: &mut Dice) -> Self {
                let kinds: &[fn(&mut Dice) -> $type] = &[$( |d| <$type>::$kind(Any::any(d)) ),*];
                dice.pick(kinds)(dice)
            }
        }
    )*};
}

impl<T: Any> Any for Box<T> {
    fn any(dice: &mut Dice) -> Self {
        Self::new(T::any(dice))
    }
}

one_of! {
    Content<'static> { Text Image Audio ResourceLink Resource }
    ResourceContents<'static> { Text Blob }
    CompletionReference<'static> { Prompt Resource }
    SamplingContent<'static> { Text Image Audio ToolUse ToolResult }
    PrimitiveSchemaDefinition {
        String Number Boolean SingleSelect TitledSingleSelect MultiSelect TitledMultiSelect LegacyTitledEnum
    }
    ElicitParams { Form Url }
    InputResponse<'static> { Elicit CreateMessage ListRoots }
}

impl Any for SamplingBlocks<'static> {
    fn any(dice: &mut Dice) -> Self {
        if dice.chance(70) { Self::One(dice.draw()) } else { Self::Many(dice.some()) }
    }
}

impl Any for InputRequest<'static> {
    fn any(dice: &mut Dice) -> Self {
        match dice.below(3) {
            0 => Self::Elicit(dice.draw()),
            1 => Self::CreateMessage(dice.draw()),
            _ => Self::ListRoots(dice.opt()),
        }
    }
}

impl Any for EmptyParams {
    fn any(dice: &mut Dice) -> Self {
        Self::new().meta(dice.request_meta())
    }
}

impl Any for UnsupportedProtocolVersion {
    fn any(dice: &mut Dice) -> Self {
        Self::new(dice.list(Dice::text)).requested(dice.text())
    }
}

impl Any for UrlElicitationRequired {
    fn any(dice: &mut Dice) -> Self {
        let page = |d: &mut Dice| ElicitUrlParams::any(d).elicitation_id("e");
        Self::new(dice.list(page))
    }
}

impl Any for PaginatedParams {
    fn any(dice: &mut Dice) -> Self {
        let mut page = Self::new().meta(dice.request_meta());
        page.cursor = dice.maybe(Dice::text);
        page.extra = dice.extra();
        page
    }
}

impl Any for ElicitValue {
    fn any(dice: &mut Dice) -> Self {
        match dice.below(5) {
            0 => Self::Text(dice.text()),
            1 => Self::Integer(dice.pick(&[0, -7, 9_007_199_254_740_991])),
            // Whole numbers are read as integers.
            2 => Self::Number(dice.pick(&[0.5, -2.25, 1e-7])),
            3 => Self::Boolean(dice.flag()),
            _ => Self::Choices(dice.list(Dice::text)),
        }
    }
}

/// Sampling with tools, which older revisions refuse
pub(crate) struct WithTools(pub(crate) CreateMessageParams<'static>);

impl Any for WithTools {
    fn any(dice: &mut Dice) -> Self {
        let mut params = CreateMessageParams::any(dice);
        params.tools = Some(dice.some());
        params.tool_choice = dice.opt();
        Self(params)
    }
}
