//! The table: which revision has which type and member (`wire-tables` (b) and (c)).

use super::substitute as by;
use crate::json::{Revisions, Rule, Substitute};
use crate::version::Version;
use crate::vocab;

const fn from(version: Version) -> Revisions {
    ALL & (ALL << version as u8)
}

const ALL: Revisions = 0b1_1111;
const SINCE_2025_03_26: Revisions = from(Version::V2025_03_26);
const SINCE_2025_06_18: Revisions = from(Version::V2025_06_18);
const SINCE_2025_11_25: Revisions = from(Version::V2025_11_25);
const MODERN: Revisions = from(Version::V2026_07_28);
const LEGACY: Revisions = ALL & !MODERN;
const ONLY_2025_11_25: Revisions = SINCE_2025_11_25 & !MODERN;

type Members = &'static [(&'static str, Revisions)];

/// A type that every revision has
const fn rule(name: &'static str, members: Members) -> Rule {
    Rule { name, lives: ALL, members, instead: &[], what: "" }
}

/// A type that some revisions lack; what the refusal says there
const fn only(name: &'static str, lives: Revisions, what: &'static str, members: Members) -> Rule {
    Rule { name, lives, members, instead: &[], what }
}

/// A type that some revisions lack, with what stands in for it
const fn replaced(
    name: &'static str,
    lives: Revisions,
    members: Members,
    instead: &'static [(Revisions, Substitute)],
) -> Rule {
    Rule { name, lives, members, instead, what: name }
}

impl Rule {
    /// Says what the refusal says where nothing stands in for it
    const fn or_refused(self, what: &'static str) -> Self {
        Self { what, ..self }
    }
}

/// Members that every result may have in the modern era (BASE-026, CACHE-001)
const RESULT: Members = &[("resultType", MODERN)];
const CACHEABLE: Members = &[("resultType", MODERN), ("ttlMs", MODERN), ("cacheScope", MODERN)];
/// Members of requests that may be repeated with answers (MRTR-014), or made as tasks
const RETRIED: Members = &[("inputResponses", MODERN), ("requestState", MODERN), ("task", ONLY_2025_11_25)];
const META: Members = &[("_meta", SINCE_2025_06_18)];
const LISTED: Members =
    &[("title", SINCE_2025_06_18), ("_meta", SINCE_2025_06_18), ("icons", SINCE_2025_11_25)];
const DEFAULT: Members = &[("default", SINCE_2025_11_25)];
const SAMPLING: Members = &[("_meta", LEGACY), ("task", ONLY_2025_11_25)];
const URL_MODE: &str = "elicitation by a web page";
const MULTI_SELECT: &str = "a field with several choices";

/// Every type that some revision does not have in full, ordered by name
///
/// A name with a `+` is a form of a type: a value that has something which not every revision has for it.
pub(super) const RULES: &[Rule] = &[
    rule("Annotations", &[("lastModified", SINCE_2025_06_18)]),
    replaced("AudioContent", SINCE_2025_03_26, META, &[(ALL, by::words)]),
    rule("BlobResourceContents", META),
    only("BooleanSchema", SINCE_2025_06_18, vocab::ELICIT, &[]),
    rule("CallToolParams", RETRIED),
    rule("CallToolResult", RESULT),
    replaced("CallToolResult+object", SINCE_2025_06_18, RESULT, &[(ALL, by::structured)]),
    replaced("CallToolResult+value", MODERN, RESULT, &[(ALL, by::structured)]),
    rule(
        "ClientCapabilities",
        &[("elicitation", SINCE_2025_06_18), ("tasks", ONLY_2025_11_25), ("extensions", MODERN)],
    ),
    rule(
        "ClientCapabilities+url",
        &[("elicitation", SINCE_2025_11_25), ("tasks", ONLY_2025_11_25), ("extensions", MODERN)],
    ),
    rule("CompleteParams", &[("context", SINCE_2025_06_18)]),
    rule("CompleteResult", RESULT),
    rule("CreateMessageParams", SAMPLING),
    replaced("CreateMessageParams+many", SINCE_2025_11_25, SAMPLING, &[(ALL, by::messages)]),
    only("CreateMessageParams+tools", SINCE_2025_11_25, "sampling with tools", SAMPLING),
    replaced("CreateMessageResult+many", SINCE_2025_11_25, &[], &[(ALL, by::one_block)]),
    only("DiscoverResult", MODERN, vocab::DISCOVER, &[]),
    only("ElicitChoices", SINCE_2025_11_25, MULTI_SELECT, &[]),
    only(
        "ElicitFormParams",
        SINCE_2025_06_18,
        vocab::ELICIT,
        &[("mode", SINCE_2025_11_25), ("_meta", LEGACY), ("task", ONLY_2025_11_25)],
    ),
    only("ElicitResult", SINCE_2025_06_18, vocab::ELICIT, &[("_meta", LEGACY)]),
    only("ElicitSchema", SINCE_2025_06_18, vocab::ELICIT, &[("$schema", SINCE_2025_11_25)]),
    only(
        "ElicitUrlParams",
        SINCE_2025_11_25,
        URL_MODE,
        &[("elicitationId", ONLY_2025_11_25), ("_meta", LEGACY), ("task", ONLY_2025_11_25)],
    ),
    only(
        "ElicitUrlParams+anonymous",
        MODERN,
        "elicitation by a web page without `elicitationId`",
        &[("_meta", LEGACY), ("task", ONLY_2025_11_25)],
    ),
    only(
        "ElicitationCapability",
        SINCE_2025_06_18,
        vocab::ELICIT,
        &[("form", SINCE_2025_11_25), ("url", SINCE_2025_11_25)],
    ),
    only("ElicitationCompleteParams", ONLY_2025_11_25, vocab::ELICITATION_COMPLETE, &[]),
    rule("EmbeddedResource", META),
    rule("EmptyResult", RESULT),
    rule("GetPromptParams", RETRIED),
    rule("GetPromptResult", RESULT),
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
    only("InitializeParams", LEGACY, vocab::INITIALIZE, &[]),
    only("InitializeResult", LEGACY, vocab::INITIALIZE, &[]),
    only("InputRequiredResult", MODERN, "a result that asks for input", &[]),
    only("LegacyTitledEnumSchema", SINCE_2025_06_18, vocab::ELICIT, DEFAULT),
    rule("ListPromptsResult", CACHEABLE),
    rule("ListResourceTemplatesResult", CACHEABLE),
    rule("ListResourcesResult", CACHEABLE),
    rule("ListRootsResult", &[("_meta", LEGACY)]),
    rule("ListToolsResult", CACHEABLE),
    only("NumberSchema", SINCE_2025_06_18, vocab::ELICIT, DEFAULT),
    rule("ProgressParams", &[("message", SINCE_2025_03_26)]),
    rule("Prompt", LISTED),
    rule("PromptArgument", &[("title", SINCE_2025_06_18)]),
    rule("PromptReference", &[("title", SINCE_2025_06_18)]),
    rule("ReadResourceParams", RETRIED),
    rule("ReadResourceResult", CACHEABLE),
    rule("Resource", LISTED),
    replaced(
        "ResourceLink",
        SINCE_2025_06_18,
        &[("icons", SINCE_2025_11_25), ("_meta", SINCE_2025_06_18)],
        &[(ALL, by::words)],
    ),
    rule("ResourceTemplate", LISTED),
    rule("Root", META),
    rule("RootsCapability", &[("listChanged", LEGACY)]),
    rule("SamplingCapability", &[("context", SINCE_2025_11_25), ("tools", SINCE_2025_11_25)]),
    rule("SamplingMessage", &[("_meta", SINCE_2025_11_25)]),
    rule(
        "ServerCapabilities",
        &[("completions", SINCE_2025_03_26), ("tasks", ONLY_2025_11_25), ("extensions", MODERN)],
    ),
    only("SetLevelParams", LEGACY, vocab::SET_LEVEL, &[]),
    only("StringSchema", SINCE_2025_06_18, vocab::ELICIT, DEFAULT),
    only("SubscribeParams", LEGACY, vocab::RESOURCES_SUBSCRIBE, &[]),
    only("SubscriptionFilter", MODERN, vocab::SUBSCRIBE, &[]),
    only("SubscriptionsAcknowledgedParams", MODERN, vocab::SUBSCRIBE, &[]),
    only("SubscriptionsListenParams", MODERN, vocab::SUBSCRIBE, &[]),
    only("SubscriptionsListenResult", MODERN, vocab::SUBSCRIBE, &[]),
    rule("TextContent", META),
    rule("TextResourceContents", META),
    only("TitledMultiSelectEnumSchema", SINCE_2025_11_25, MULTI_SELECT, &[]),
    replaced(
        "TitledSingleSelectEnumSchema",
        SINCE_2025_11_25,
        DEFAULT,
        &[(SINCE_2025_06_18, by::legacy_enum)],
    )
    .or_refused(vocab::ELICIT),
    rule("Tool", TOOL),
    rule("Tool+value", OPEN_TOOL),
    replaced("ToolResultContent", SINCE_2025_11_25, &[], &[(ALL, by::words)]),
    replaced("ToolResultContent+value", MODERN, &[], &[(ONLY_2025_11_25, by::structured), (ALL, by::words)]),
    replaced("ToolUseContent", SINCE_2025_11_25, &[], &[(ALL, by::words)]),
    only("UntitledMultiSelectEnumSchema", SINCE_2025_11_25, MULTI_SELECT, &[]),
    only("UntitledSingleSelectEnumSchema", SINCE_2025_06_18, vocab::ELICIT, DEFAULT),
];

const TOOL: Members = &[
    ("annotations", SINCE_2025_03_26),
    ("title", SINCE_2025_06_18),
    ("outputSchema", SINCE_2025_06_18),
    ("_meta", SINCE_2025_06_18),
    ("icons", SINCE_2025_11_25),
    ("execution", ONLY_2025_11_25),
];

/// A tool whose output schema may describe anything (TOOL-009)
const OPEN_TOOL: Members = &[
    ("annotations", SINCE_2025_03_26),
    ("title", SINCE_2025_06_18),
    ("outputSchema", MODERN),
    ("_meta", SINCE_2025_06_18),
    ("icons", SINCE_2025_11_25),
    ("execution", ONLY_2025_11_25),
];
