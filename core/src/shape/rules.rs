//! Shaping rules: the revisions of each type and member (DESIGN-35).

use super::substitute as by;
use crate::json::{AddedMember, RevisionMask, ShapeRule, Substitute};
use crate::methods;
use crate::version::Version;

const fn revisions_since(version: Version) -> RevisionMask {
    ALL & (ALL << version as u8)
}

const ALL: RevisionMask = 0b1_1111;
const SINCE_2025_03_26: RevisionMask = revisions_since(Version::V2025_03_26);
const SINCE_2025_06_18: RevisionMask = revisions_since(Version::V2025_06_18);
const SINCE_2025_11_25: RevisionMask = revisions_since(Version::V2025_11_25);
const MODERN: RevisionMask = revisions_since(Version::V2026_07_28);
const LEGACY: RevisionMask = ALL & !MODERN;
const ONLY_2025_03_26: RevisionMask = SINCE_2025_03_26 & !SINCE_2025_06_18;
const ONLY_2025_11_25: RevisionMask = SINCE_2025_11_25 & !MODERN;

type MemberRules = &'static [(&'static str, RevisionMask)];

/// Creates a rule for a type that every revision has.
const fn rule(name: &'static str, members: MemberRules) -> ShapeRule {
    ShapeRule { name, revisions: ALL, members, substitutes: &[], refusal: "", added: None }
}

/// Creates a rule for a type that some revisions lack; `feature` names it in the error.
const fn limited_to(
    name: &'static str,
    revisions: RevisionMask,
    feature: &'static str,
    members: MemberRules,
) -> ShapeRule {
    ShapeRule { name, revisions, members, substitutes: &[], refusal: feature, added: None }
}

/// Creates a rule for a type that some revisions lack, with substitutes.
const fn substituted(
    name: &'static str,
    revisions: RevisionMask,
    members: MemberRules,
    substitutes: &'static [(RevisionMask, Substitute)],
) -> ShapeRule {
    ShapeRule { name, revisions, members, substitutes, refusal: name, added: None }
}

impl ShapeRule {
    /// Sets the name for the error where no substitute applies.
    const fn with_refusal(self, feature: &'static str) -> Self {
        Self { refusal: feature, ..self }
    }

    /// Sets the member that a value gets in some revisions if it has none.
    const fn adding(self, added: AddedMember) -> Self {
        Self { added: Some(added), ..self }
    }
}

/// Members that all results may have in the modern era (BASE-026, CACHE-001).
const RESULT: MemberRules = &[("resultType", MODERN)];
const CACHEABLE: MemberRules = &[("resultType", MODERN), ("ttlMs", MODERN), ("cacheScope", MODERN)];
/// Members of requests that may be retried with input responses (MRTR-014), or run as tasks.
const RETRYABLE: MemberRules =
    &[("inputResponses", MODERN), ("requestState", MODERN), ("task", ONLY_2025_11_25)];
const META: MemberRules = &[("_meta", SINCE_2025_06_18)];
const LIST_ENTRY: MemberRules =
    &[("title", SINCE_2025_06_18), ("_meta", SINCE_2025_06_18), ("icons", SINCE_2025_11_25)];
const DEFAULT: MemberRules = &[("default", SINCE_2025_11_25)];
const SAMPLING: MemberRules = &[("_meta", LEGACY), ("task", ONLY_2025_11_25)];
const URL_MODE: &str = "elicitation by a web page";
const TASKS: &str = "tasks";
const TASKS_2025_11_25: &str = "tasks in the form of 2025-11-25";
const TASK: MemberRules = &[
    ("ttl", ONLY_2025_11_25),
    ("ttlMs", MODERN),
    ("pollInterval", ONLY_2025_11_25),
    ("pollIntervalMs", MODERN),
    ("inputRequests", MODERN),
    ("result", MODERN),
    ("error", MODERN),
    ("resultType", MODERN),
];
/// Members that are optional by the schema of 2025-03-26, while a list of tests for that revision requires them.
const IS_ERROR: AddedMember = (ONLY_2025_03_26, "isError", "false");
const STOP_REASON: AddedMember = (ONLY_2025_03_26, "stopReason", "\"endTurn\"");
const MULTI_SELECT: &str = "a field with several choices";

/// All types that some revision does not have in full, ordered by name.
///
/// A name with `+` is a form of a type: a value with a feature that some revisions lack.
pub(super) const RULES: &[ShapeRule] = &[
    rule("Annotations", &[("lastModified", SINCE_2025_06_18)]),
    substituted("AudioContent", SINCE_2025_03_26, META, &[(ALL, by::block_as_text)]),
    rule("BlobResourceContents", META),
    limited_to("BooleanSchema", SINCE_2025_06_18, methods::ELICIT, &[]),
    rule("CallToolParams", RETRYABLE),
    rule("CallToolResult", RESULT).adding(IS_ERROR),
    substituted("CallToolResult+object", SINCE_2025_06_18, RESULT, &[(ALL, by::structured_as_text)])
        .adding(IS_ERROR),
    substituted("CallToolResult+value", MODERN, RESULT, &[(ALL, by::structured_as_text)]).adding(IS_ERROR),
    limited_to("CancelTaskParams", SINCE_2025_11_25, TASKS, &[]),
    rule("ClientCapabilities", &[("elicitation", SINCE_2025_06_18), ("tasks", ONLY_2025_11_25)]),
    rule("ClientCapabilities+url", &[("elicitation", SINCE_2025_11_25), ("tasks", ONLY_2025_11_25)]),
    rule("CompleteParams", &[("context", SINCE_2025_06_18)]),
    rule("CompleteResult", RESULT),
    rule("CreateMessageParams", SAMPLING),
    substituted("CreateMessageParams+many", SINCE_2025_11_25, SAMPLING, &[(ALL, by::split_messages)]),
    limited_to("CreateMessageParams+tools", SINCE_2025_11_25, "sampling with tools", SAMPLING),
    rule("CreateMessageResult", &[]).adding(STOP_REASON),
    substituted("CreateMessageResult+many", SINCE_2025_11_25, &[], &[(ALL, by::merge_blocks)])
        .adding(STOP_REASON),
    limited_to("CreateTaskResult", ONLY_2025_11_25, TASKS_2025_11_25, &[]),
    limited_to("DiscoverResult", MODERN, methods::DISCOVER, &[]),
    limited_to("ElicitChoices", SINCE_2025_11_25, MULTI_SELECT, &[]),
    limited_to(
        "ElicitFormParams",
        SINCE_2025_06_18,
        methods::ELICIT,
        &[("mode", SINCE_2025_11_25), ("_meta", LEGACY), ("task", ONLY_2025_11_25)],
    ),
    limited_to("ElicitResult", SINCE_2025_06_18, methods::ELICIT, &[("_meta", LEGACY)]),
    limited_to("ElicitSchema", SINCE_2025_06_18, methods::ELICIT, &[("$schema", SINCE_2025_11_25)]),
    limited_to(
        "ElicitUrlParams",
        SINCE_2025_11_25,
        URL_MODE,
        &[("elicitationId", ONLY_2025_11_25), ("_meta", LEGACY), ("task", ONLY_2025_11_25)],
    ),
    limited_to(
        "ElicitUrlParams+anonymous",
        MODERN,
        "elicitation by a web page without `elicitationId`",
        &[("_meta", LEGACY), ("task", ONLY_2025_11_25)],
    ),
    limited_to(
        "ElicitationCapability",
        SINCE_2025_06_18,
        methods::ELICIT,
        &[("form", SINCE_2025_11_25), ("url", SINCE_2025_11_25)],
    ),
    limited_to("ElicitationCompleteParams", ONLY_2025_11_25, methods::ELICITATION_COMPLETE, &[]),
    rule("EmbeddedResource", META),
    rule("EmptyResult", RESULT),
    rule("GetPromptParams", RETRYABLE),
    rule("GetPromptResult", RESULT),
    rule("GetSkillResult", CACHEABLE),
    limited_to("GetTaskParams", SINCE_2025_11_25, TASKS, &[]),
    limited_to("GetTaskPayloadParams", ONLY_2025_11_25, methods::TASKS_RESULT, &[]),
    rule("ImageContent", META),
    rule(
        "Implementation",
        &[
            ("title", SINCE_2025_06_18),
            ("description", SINCE_2025_11_25),
            ("websiteUrl", SINCE_2025_11_25),
            ("icons", SINCE_2025_11_25),
        ],
    ),
    limited_to("InitializeParams", LEGACY, methods::INITIALIZE, &[]),
    limited_to("InitializeResult", LEGACY, methods::INITIALIZE, &[]),
    limited_to("InputRequiredResult", MODERN, "a result that asks for input", &[]),
    limited_to("LegacyTitledEnumSchema", SINCE_2025_06_18, methods::ELICIT, DEFAULT),
    rule("ListPromptsResult", CACHEABLE),
    rule("ListResourceTemplatesResult", CACHEABLE),
    rule("ListResourcesResult", CACHEABLE),
    rule("ListRootsResult", &[("_meta", LEGACY)]),
    rule("ListSkillsResult", CACHEABLE),
    limited_to("ListTasksResult", ONLY_2025_11_25, methods::TASKS_LIST, &[]),
    rule("ListToolsResult", CACHEABLE),
    limited_to("NumberSchema", SINCE_2025_06_18, methods::ELICIT, DEFAULT),
    rule("ProgressParams", &[("message", SINCE_2025_03_26)]),
    rule("Prompt", LIST_ENTRY),
    rule("PromptArgument", &[("title", SINCE_2025_06_18)]),
    rule("PromptReference", &[("title", SINCE_2025_06_18)]),
    rule("ReadDirectoryResult", RESULT),
    rule("ReadResourceParams", RETRYABLE),
    rule("ReadResourceResult", CACHEABLE),
    rule("Resource", LIST_ENTRY),
    substituted(
        "ResourceLink",
        SINCE_2025_06_18,
        &[("icons", SINCE_2025_11_25), ("_meta", SINCE_2025_06_18)],
        &[(ALL, by::block_as_text)],
    ),
    rule("ResourceTemplate", LIST_ENTRY),
    rule("Root", META),
    rule("RootsCapability", &[("listChanged", LEGACY)]),
    rule("SamplingCapability", &[("context", SINCE_2025_11_25), ("tools", SINCE_2025_11_25)]),
    rule("SamplingMessage", &[("_meta", SINCE_2025_11_25)]),
    rule("ServerCapabilities", &[("completions", SINCE_2025_03_26), ("tasks", ONLY_2025_11_25)]),
    limited_to("SetLevelParams", LEGACY, methods::SET_LEVEL, &[]),
    limited_to("StringSchema", SINCE_2025_06_18, methods::ELICIT, DEFAULT),
    limited_to("SubscribeParams", LEGACY, methods::RESOURCES_SUBSCRIBE, &[]),
    limited_to("SubscriptionFilter", MODERN, methods::SUBSCRIPTIONS_LISTEN, &[]),
    limited_to("SubscriptionsAcknowledgedParams", MODERN, methods::SUBSCRIPTIONS_LISTEN, &[]),
    limited_to("SubscriptionsListenParams", MODERN, methods::SUBSCRIPTIONS_LISTEN, &[]),
    limited_to("SubscriptionsListenResult", MODERN, methods::SUBSCRIPTIONS_LISTEN, &[]),
    limited_to("Task", SINCE_2025_11_25, TASKS, TASK),
    rule("TextContent", META),
    rule("TextResourceContents", META),
    limited_to("TitledMultiSelectEnumSchema", SINCE_2025_11_25, MULTI_SELECT, &[]),
    substituted(
        "TitledSingleSelectEnumSchema",
        SINCE_2025_11_25,
        DEFAULT,
        &[(SINCE_2025_06_18, by::legacy_enum)],
    )
    .with_refusal(methods::ELICIT),
    rule("Tool", TOOL),
    rule("Tool+value", OPEN_TOOL),
    substituted("ToolResultContent", SINCE_2025_11_25, &[], &[(ALL, by::block_as_text)]),
    substituted(
        "ToolResultContent+value",
        MODERN,
        &[],
        &[(ONLY_2025_11_25, by::structured_as_text), (ALL, by::block_as_text)],
    ),
    substituted("ToolUseContent", SINCE_2025_11_25, &[], &[(ALL, by::block_as_text)]),
    limited_to("UntitledMultiSelectEnumSchema", SINCE_2025_11_25, MULTI_SELECT, &[]),
    limited_to("UntitledSingleSelectEnumSchema", SINCE_2025_06_18, methods::ELICIT, DEFAULT),
    limited_to("UpdateTaskParams", MODERN, methods::TASKS_UPDATE, &[]),
];

const TOOL: MemberRules = &[
    ("annotations", SINCE_2025_03_26),
    ("title", SINCE_2025_06_18),
    ("outputSchema", SINCE_2025_06_18),
    ("_meta", SINCE_2025_06_18),
    ("icons", SINCE_2025_11_25),
    ("execution", ONLY_2025_11_25),
];

/// Members of a tool whose output schema is not restricted to objects (TOOL-009).
const OPEN_TOOL: MemberRules = &[
    ("annotations", SINCE_2025_03_26),
    ("title", SINCE_2025_06_18),
    ("outputSchema", MODERN),
    ("_meta", SINCE_2025_06_18),
    ("icons", SINCE_2025_11_25),
    ("execution", ONLY_2025_11_25),
];
