//! Generators of each type.

use mcp_proto::RequestId;
use mcp_proto::model::*;

use crate::model_round_trip::generator::{Arbitrary, ValueGenerator};

/// Implements [`Arbitrary`] for types: first the parameters of `new`, then the optional members.
macro_rules! any {
    ($(
        $type:ident ( $($required:ident),* ) { $($member:ident : $draw:ident),* $(,)? }
    )*) => {$(
        impl Arbitrary for $type {
            fn any(generator: &mut ValueGenerator) -> Self {
                let mut value = $type::new($( any!(@required $required generator) ),*);
                $( value.$member = any!(@optional $draw generator); )*
                value.extra = generator.extra();
                value
            }
        }
    )*};
    (@required text $generator:ident) => { $generator.text() };
    (@required name $generator:ident) => { $generator.text() };
    (@required version $generator:ident) => { $generator.text() };
    (@required title $generator:ident) => { $generator.text() };
    (@required model $generator:ident) => { $generator.text() };
    (@required url $generator:ident) => { $generator.uri() };
    (@required uri $generator:ident) => { $generator.uri() };
    (@required icon_source $generator:ident) => { $generator.icon_source() };
    (@required base64 $generator:ident) => { $generator.base64() };
    (@required json $generator:ident) => { $generator.json() };
    (@required object $generator:ident) => { $generator.object() };
    (@required schema $generator:ident) => { $generator.schema() };
    (@required number $generator:ident) => { $generator.number() };
    (@required count $generator:ident) => { $generator.count() };
    (@required texts $generator:ident) => { $generator.list(ValueGenerator::text) };
    (@required fields $generator:ident) => { $generator.map(PrimitiveSchemaDefinition::any) };
    (@required responses $generator:ident) => { $generator.map(Arbitrary::any) };
    (@required listen_meta $generator:ident) => { $generator.listen_meta() };
    (@required $drawn:ident $generator:ident) => { $generator.$drawn() };
    (@optional text $generator:ident) => { $generator.maybe(|d| d.text().into()) };
    (@optional uri $generator:ident) => { $generator.maybe(ValueGenerator::uri) };
    (@optional flag $generator:ident) => { $generator.maybe(ValueGenerator::flag) };
    (@optional count $generator:ident) => { $generator.maybe(ValueGenerator::count) };
    (@optional share $generator:ident) => { $generator.maybe(ValueGenerator::share) };
    (@optional number $generator:ident) => { $generator.maybe(ValueGenerator::number) };
    (@optional texts $generator:ident) => { $generator.maybe(|d| d.list(ValueGenerator::text)) };
    (@optional text_list $generator:ident) => { $generator.list(ValueGenerator::text) };
    (@optional text_map $generator:ident) => { $generator.maybe(|d| d.map(ValueGenerator::text)) };
    (@optional object $generator:ident) => { $generator.maybe(ValueGenerator::object) };
    (@optional settings $generator:ident) => { $generator.maybe(|d| d.map(ValueGenerator::object)) };
    (@optional json_map $generator:ident) => { $generator.maybe(|d| d.map(ValueGenerator::json)) };
    (@optional millis $generator:ident) => { $generator.maybe(|d| d.pick(&[0u64, 1, 86_400_000])) };
    (@optional task_ttl $generator:ident) => {
        Some($generator.pick(&[TaskTtl::Unlimited, TaskTtl::Millis(0), TaskTtl::Millis(86_400_000)]))
    };
    (@optional task_ids $generator:ident) => {
        $generator.maybe(|d| d.list(ValueGenerator::text).into_iter().map(TaskId::from).collect())
    };
    (@optional request_meta $generator:ident) => { Some($generator.request_meta()) };
    (@optional ttl $generator:ident) => { Some($generator.pick(&[0, 1, 86_400_000])) };
    (@optional must $generator:ident) => { Some($generator.draw()) };
    (@optional drawn $generator:ident) => { $generator.opt() };
    (@optional boxed $generator:ident) => { $generator.opt().map(Box::new) };
    (@optional some $generator:ident) => { $generator.some() };
    (@optional opt_some $generator:ident) => { $generator.maybe(ValueGenerator::some) };
    (@optional map $generator:ident) => { $generator.maybe(|d| d.map(Arbitrary::any)) };
    (@optional schema_or_other $generator:ident) => { $generator.maybe(ValueGenerator::output_schema) };
    (@optional structured $generator:ident) => { $generator.maybe(ValueGenerator::structured) };
}

macro_rules! words {
    ($($type:ident [$($word:ident)*])*) => {$(
        impl Arbitrary for $type {
            fn any(generator: &mut ValueGenerator) -> Self {
                generator.pick(&[$($type::$word),*])
            }
        }
    )*};
}

words! {
    Role [User Assistant]
    CacheScope [Public Private]
    IconTheme [Light Dark]
    TaskSupport [Forbidden Optional Required]
    TaskStatus [Working InputRequired Completed Failed Cancelled]
    LoggingLevel [Debug Info Notice Warning Error Critical Alert Emergency]
    ToolChoiceMode [Auto Required None]
    StopReason [EndTurn StopSequence MaxTokens ToolUse]
    ElicitAction [Accept Decline Cancel]
    StringFormat [Email Uri Date DateTime]
    NumberKind [Number Integer]
}

impl Arbitrary for IncludeContext {
    #[expect(deprecated, reason = "tested until its removal")]
    fn any(generator: &mut ValueGenerator) -> Self {
        generator.pick(&[Self::None, Self::ThisServer, Self::AllServers])
    }
}

impl Arbitrary for ResultType {
    fn any(generator: &mut ValueGenerator) -> Self {
        generator.pick(&[Self::Complete, "org.example/odd".into()])
    }
}

impl Arbitrary for RequestId {
    fn any(generator: &mut ValueGenerator) -> Self {
        let text = generator.pick(&["0", "-7", "9007199254740991", "\"\"", "\"a\\u00e9\"", "\"7\""]);
        serde_json::from_str(text).expect("an id")
    }
}

/// Draws a parameter of `new` by its name, if it is a type of the model.
macro_rules! drawn {
    ($($name:ident : $type:ty)*) => {
        impl ValueGenerator {
            $( fn $name(&mut self) -> $type { self.draw() } )*
        }
    };
}

drawn! {
    role: Role  level: LoggingLevel  action: ElicitAction  kind: NumberKind  token: RequestId
    client_capabilities: ClientCapabilities  server_capabilities: ServerCapabilities
    implementation: Implementation  completion: Completion  filter: SubscriptionFilter
    elicit_schema: ElicitSchema  untitled: UntitledEnumItems  titled: TitledEnumItems
    task_status: TaskStatus  task: Task<'static>
    reference: CompletionReference<'static>  argument: CompletionArgument<'static>
    content: Content<'static>  contents: ResourceContents<'static>  sampling: SamplingBlocks<'static>
}

macro_rules! lists {
    ($($name:ident : $type:ty)*) => {
        impl ValueGenerator {
            $( fn $name(&mut self) -> Vec<$type> { self.some() } )*
        }
    };
}

lists! {
    tools: Tool  resources: Resource  templates: ResourceTemplate  prompts: Prompt  roots: Root
    options: EnumOption  blocks: Content<'static>  contents_list: ResourceContents<'static>
    task_list: Task<'static>
    prompt_messages: PromptMessage<'static>  messages: SamplingMessage<'static>
}

impl ValueGenerator {
    fn output_schema(&mut self) -> mcp_proto::RawJson {
        let open = mcp_proto::RawJson::new(r#"{"type":["array","null"],"items":true}"#).expect("JSON");
        if self.percent(70) { self.schema() } else { open }
    }

    fn structured(&mut self) -> mcp_proto::RawJson {
        if self.flag() { self.object() } else { self.non_object() }
    }

    /// Draws the content of a message: several blocks only inside a list, where a message can be split into several.
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
        experimental: settings, roots: drawn, sampling: drawn, elicitation: drawn, tasks: drawn,
        extensions: settings,
    }
    RootsCapability() { list_changed: flag }
    SamplingCapability() { context: json_map, tools: json_map }
    ElicitationCapability() { form: json_map, url: json_map }
    ServerCapabilities() {
        experimental: settings, logging: json_map, completions: json_map, prompts: drawn, resources: drawn,
        tools: drawn, tasks: drawn, extensions: settings,
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
    TasksCapability() { list: object, cancel: object, requests: drawn }
    TaskRequestsCapability() { tools: object, sampling: object, elicitation: object }
    TaskMetadata() { ttl: millis }
    RelatedTaskMetadata(text) {}
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
        resource_subscriptions: texts, task_ids: task_ids,
    }
    SubscriptionsAcknowledgedParams(filter) { meta: object }
    SubscriptionsListenResult(listen_meta) { result_type: must }

    ListRootsResult(roots) { meta: object }
    Root(uri) { name: text, meta: object }

    ModelPreferences() { hints: some, cost_priority: share, speed_priority: share, intelligence_priority: share }
    ModelHint() { name: text }
    ToolChoice() { mode: drawn }

    ElicitFormParams(text, elicit_schema) { task: drawn, meta: object }
    ElicitUrlParams(text, uri) { elicitation_id: text, task: drawn, meta: object }
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

/// Implements [`Arbitrary`] for types that borrow, with owned values.
macro_rules! any_static {
    ($( $type:ident ( $($required:ident),* ) { $($member:ident : $draw:ident),* $(,)? } )*) => {$(
        impl Arbitrary for $type<'static> {
            fn any(generator: &mut ValueGenerator) -> Self {
                let mut value = $type::new($( any!(@required $required generator) ),*);
                $( value.$member = any!(@optional $draw generator); )*
                value.extra = generator.extra();
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

    CallToolParams(name) {
        arguments: object, input_responses: map, request_state: text, task: drawn, meta: request_meta,
    }
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
        stop_sequences: texts, metadata: object, task: drawn, meta: object,
    }
    SamplingMessage(role, sampling_in_list) { meta: object }
    CreateMessageResult(role, sampling, model) { stop_reason: drawn, meta: object }
    ToolUseContent(text, name, object) { meta: object }
    ToolResultContent(text, blocks) { structured_content: structured, is_error: flag, meta: object }
    InputRequiredResult() { input_requests: map, request_state: text, meta: object }
    Task(text, task_status, text, text) {
        ttl: task_ttl, ttl_ms: task_ttl, poll_interval: millis, poll_interval_ms: millis, status_message: text,
        input_requests: map, result: object, error: object, result_type: must, meta: object,
    }
    CreateTaskResult(task) { meta: object }
    ListTasksResult(task_list) { next_cursor: text, meta: object }
    GetTaskParams(text) { meta: request_meta }
    GetTaskPayloadParams(text) { meta: request_meta }
    CancelTaskParams(text) { meta: request_meta }
    UpdateTaskParams(text, responses) { meta: request_meta }
}

macro_rules! one_of {
    ($($type:ty { $($kind:ident)* })*) => {$(
        impl Arbitrary for $type {
            fn any(generator: &mut ValueGenerator) -> Self {
                let kinds: &[fn(&mut ValueGenerator) -> $type] = &[$( |d| <$type>::$kind(Arbitrary::any(d)) ),*];
                generator.pick(kinds)(generator)
            }
        }
    )*};
}

impl<T: Arbitrary> Arbitrary for Box<T> {
    fn any(generator: &mut ValueGenerator) -> Self {
        Self::new(T::any(generator))
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

impl Arbitrary for SamplingBlocks<'static> {
    fn any(generator: &mut ValueGenerator) -> Self {
        if generator.percent(70) { Self::One(generator.draw()) } else { Self::Many(generator.some()) }
    }
}

impl Arbitrary for InputRequest<'static> {
    #[expect(deprecated, reason = "tested until its removal")]
    fn any(generator: &mut ValueGenerator) -> Self {
        match generator.below(3) {
            0 => Self::Elicit(generator.draw()),
            1 => Self::CreateMessage(generator.draw()),
            _ => Self::ListRoots(generator.opt()),
        }
    }
}

impl Arbitrary for EmptyParams {
    fn any(generator: &mut ValueGenerator) -> Self {
        Self::new().meta(generator.request_meta())
    }
}

impl Arbitrary for UnsupportedProtocolVersion {
    fn any(generator: &mut ValueGenerator) -> Self {
        Self::new(generator.list(ValueGenerator::text)).requested(generator.text())
    }
}

impl Arbitrary for UrlElicitationRequired {
    fn any(generator: &mut ValueGenerator) -> Self {
        let page = |d: &mut ValueGenerator| ElicitUrlParams::any(d).elicitation_id("e");
        Self::new(generator.list(page))
    }
}

impl Arbitrary for PaginatedParams {
    fn any(generator: &mut ValueGenerator) -> Self {
        let mut page = Self::new().meta(generator.request_meta());
        page.cursor = generator.maybe(ValueGenerator::text);
        page.extra = generator.extra();
        page
    }
}

impl Arbitrary for ElicitValue {
    fn any(generator: &mut ValueGenerator) -> Self {
        match generator.below(5) {
            0 => Self::Text(generator.text()),
            1 => Self::Integer(generator.pick(&[0, -7, 9_007_199_254_740_991])),
            // Whole numbers are read back as integers.
            2 => Self::Number(generator.pick(&[0.5, -2.25, 1e-7])),
            3 => Self::Boolean(generator.flag()),
            _ => Self::Choices(generator.list(ValueGenerator::text)),
        }
    }
}

/// Sampling with tools, which older revisions refuse.
pub(crate) struct ParamsWithTools(pub(crate) CreateMessageParams<'static>);

impl Arbitrary for ParamsWithTools {
    fn any(generator: &mut ValueGenerator) -> Self {
        let mut params = CreateMessageParams::any(generator);
        params.tools = Some(generator.some());
        params.tool_choice = generator.opt();
        Self(params)
    }
}
