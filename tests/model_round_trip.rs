//! Random values of every type of the model, written for each revision and read back.
//!
//! A written value matches the type of its revision, has exactly the members that the schema declares, and is read back
//! as it was written.
//!
//! Two independent sources decide what is right. The schema of a revision decides which members may be lost, except for
//! the few in [`is_exempt`], where the value of a member decides. The published table decides the replacement.

mod generator;
mod mutations;
mod values;

use alloc::collections::BTreeMap;
use core::fmt::Debug;

use mcp_proto::model::*;
use mcp_proto::{EncodeError, RawJson, Version};
use mcp_tests::harness::rounds;
use mcp_tests::revision_table::{NotRepresentable, RevisionTable, normalize_numbers};
use mcp_tests::schema::{REVISIONS, SchemaSet};
use serde::Serialize;
use serde_json::{Value, json};

use generator::ValueGenerator;
use mutations::{check_duplicate_members, check_mutations};
use values::ParamsWithTools;

/// Number of values per type.
fn draws_per_type() -> u64 {
    rounds(100)
}

/// Position of a type in a message.
#[derive(Clone, Copy)]
enum TypePosition {
    /// The whole document.
    Standalone,
    /// This member of the named type.
    Member(&'static str),
    /// The `params` of a request with this method.
    Request(&'static str),
    /// The `params` of a notification with this method.
    Notification(&'static str),
    /// The `data` of an error with this code.
    Error(i64),
}

use TypePosition::{Error, Member, Notification, Request, Standalone};

/// A type of the model and its names in the schemas.
struct TypeRow {
    /// Name in the model.
    name: &'static str,
    /// Names in the schemas; the first that a revision has counts.
    schema_names: &'static [&'static str],
    position: TypePosition,
    /// Type that replaces it in a revision that has none of the names; empty if there is none.
    replacement: &'static str,
}

impl TypePosition {
    fn message(self, value: &Value) -> Value {
        match self {
            Standalone => value.clone(),
            Member(member) => json!({ member: value }),
            Request(method) => json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": value }),
            Notification(method) => json!({ "jsonrpc": "2.0", "method": method, "params": value }),
            Error(code) => {
                json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": code, "message": "m", "data": value } })
            }
        }
    }
}

/// Features that a revision may refuse although it has the type of the value.
const REFUSALS: [&str; 4] = [
    "a field with several choices",
    "elicitation by a web page",
    "elicitation by a web page without `elicitationId`",
    "sampling with tools",
];

/// Returns whether the presence of a member does not follow from the schema.
fn is_exempt(row: &TypeRow, revision: &str, member: &str, full: &Value) -> bool {
    let object = |name: &str| full[name].is_object();
    match (row.name, member) {
        // Every request and notification may have `_meta`, by the base types.
        (_, "_meta") => matches!(row.position, Request(_) | Notification(_)) && revision < "2025-11-25",
        ("CallToolResult" | "ToolResultContent", "structuredContent") => {
            !object(member) && revision < "2026-07-28"
        }
        ("Tool", "outputSchema") => full[member]["type"] != "object" && revision < "2026-07-28",
        // Legacy schemas allow further members, and extensions are declared there all the same (EXT-009).
        ("ClientCapabilities" | "ServerCapabilities", "extensions") => revision < "2026-07-28",
        // URL mode alone is left out: an older revision would read it as forms.
        ("ClientCapabilities", "elicitation") => {
            let elicitation = &full["elicitation"];
            elicitation.get("url").is_some() && elicitation.get("form").is_none() && revision < "2025-11-25"
        }
        // The schema of 2026-07-28 has no tasks: they are an extension.
        ("Task", _) => !["ttl", "pollInterval"].contains(&member),
        ("SubscriptionFilter", "taskIds") => true,
        _ => false,
    }
}

fn parsed(json: &RawJson) -> Value {
    normalize_numbers(&serde_json::from_str(json.as_str()).expect("JSON"))
}

/// Returns the members that `name` declares in a revision; for a message, those of its `params`.
fn declared_members(schemas: &SchemaSet, revision: &str, row: &TypeRow, name: &str) -> Option<Vec<String>> {
    let resolve = |mut schema: Value| {
        while let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            schema = schemas.definition(revision, name.rsplit('/').next()?)?.clone();
        }
        Some(schema)
    };
    let mut schema = resolve(schemas.definition(revision, name)?.clone())?;
    let part = match row.position {
        Request(_) | Notification(_) => Some("params"),
        Member(member) => Some(member),
        Standalone | Error(_) => None,
    };
    if let Some(part) = part {
        schema = resolve(schema["properties"][part].clone())?;
    }
    Some(schema.get("properties")?.as_object()?.keys().cloned().collect())
}

struct RoundTripStats {
    revision_table: RevisionTable,
    /// Members that were given wrong values, and whether all of those were accepted so far.
    tolerant_members: BTreeMap<(&'static str, String), bool>,
    /// Numbers of sent and of refused values, by type and revision.
    counts: BTreeMap<(&'static str, &'static str), (u32, u32)>,
}

impl RoundTripStats {
    fn check<T: Serialize + PartialEq + Debug>(
        &mut self,
        schemas: Option<&SchemaSet>,
        row: &TypeRow,
        value: &T,
        read: &impl Fn(&str) -> serde_json::Result<T>,
    ) {
        let full_text = serde_json::to_string(value).expect("JSON");
        assert_eq!(&read(&full_text).expect("a value"), value, "{full_text}");
        let exact: Value = serde_json::from_str(&full_text).expect("JSON");
        let full = normalize_numbers(&exact);
        check_mutations(row, &full, read, &mut self.tolerant_members);
        if self.counts.get(&(row.name, REVISIONS[0])).is_none_or(|(sent, refused)| sent + refused < 20) {
            check_duplicate_members(row, &full_text, read);
        }
        for version in Version::ALL {
            let counts = self.counts.entry((row.name, version.as_str())).or_default();
            let expected_value = self.revision_table.lower(version, row.name, &exact);
            let shaped = match encode_for(version, value) {
                Ok(shaped) => {
                    let expected_value = expected_value.as_ref().map(normalize_numbers);
                    assert_eq!(Ok(parsed(&shaped)), expected_value, "{version} {}: {full_text}", row.name);
                    shaped
                }
                Err(EncodeError::NotInVersion { what, .. }) => {
                    assert_eq!(expected_value, Err(NotRepresentable), "{version} {}: {full_text}", row.name);
                    let known = schemas.is_none_or(|s| definition(s, version.as_str(), row).is_none());
                    assert!(known || REFUSALS.contains(&what), "{version} {}: refused: {what}", row.name);
                    counts.1 += 1;
                    continue;
                }
                Err(other) => panic!("{other}"),
            };
            counts.0 += 1;
            let json = parsed(&shaped);
            let lossless = json == full;
            if let Some(schemas) = schemas {
                check_schema(schemas, version.as_str(), row, &full, &json);
            }
            // A replacement has another type and is not read back.
            if let Ok(back) = read(shaped.as_str()) {
                assert_eq!(
                    parsed(&RawJson::encode(&back).expect("JSON")),
                    json,
                    "{version}: reading changed the value"
                );
                assert!(!lossless || back == *value, "{version}: {back:?}");
                assert_eq!(
                    parsed(&encode_for(version, &back).expect("shaped")),
                    json,
                    "{version}: writing again changed the value"
                );
            } else {
                assert!(!lossless && !row.replacement.is_empty(), "{version} {}: {shaped}", row.name);
            }
        }
    }
}

fn definition(schemas: &SchemaSet, revision: &str, row: &TypeRow) -> Option<&'static str> {
    let has = |name: &&&str| match (schemas.definition(revision, name), row.position) {
        (Some(schema), Member(member)) => schema["properties"].get(member).is_some(),
        (schema, _) => schema.is_some(),
    };
    row.schema_names.iter().find(has).copied()
}

/// Checks that a written value matches the type and has exactly the expected members.
fn check_schema(schemas: &SchemaSet, revision: &str, row: &TypeRow, full: &Value, json: &Value) {
    let Some(name) = definition(schemas, revision, row) else {
        if !row.replacement.is_empty() {
            let outcome = schemas.check_type(revision, row.replacement, json);
            assert_eq!(outcome, Ok(()), "{revision} {} as {}: {json}", row.name, row.replacement);
        }
        return;
    };
    assert_eq!(
        schemas.check_type(revision, name, &row.position.message(json)),
        Ok(()),
        "{revision} {name}: {json}"
    );
    if matches!(row.position, Error(_)) {
        return;
    }
    let Some(declared) = declared_members(schemas, revision, row, name) else { return };
    let known: Vec<String> =
        REVISIONS.iter().filter_map(|r| declared_members_in(schemas, r, row)).flatten().collect();
    let members = full.as_object().expect("an object");
    for member in members.keys().filter(|m| !is_exempt(row, revision, m, full)) {
        // A member that no revision knows is kept in every revision.
        let expected = declared.contains(member) || !known.contains(member);
        assert_eq!(json.get(member).is_some(), expected, "{revision} {name}: `{member}` of {full} in {json}");
    }
    // No member is added, except for those of a replacement, and those that 2025-03-26 always has.
    for member in json.as_object().expect("an object").keys() {
        let substitute = ["enum", "enumNames"].contains(&&**member)
            || (revision == "2025-03-26" && ["isError", "stopReason"].contains(&&**member));
        assert!(members.contains_key(member) || substitute, "{revision} {name}: {member} in {json}");
    }
}

fn declared_members_in(schemas: &SchemaSet, revision: &str, row: &TypeRow) -> Option<Vec<String>> {
    declared_members(schemas, revision, row, definition(schemas, revision, row)?)
}

macro_rules! rows {
    ($tally:ident $schemas:ident $(
        $type:ident $(<$life:lifetime>)? [$($known:literal)+] $position:expr $(, $replacement:literal)?;
    )*) => {$(
        let row = TypeRow {
            name: stringify!($type),
            schema_names: &[$($known),+],
            position: $position,
            replacement: concat!("" $(, $replacement)?),
        };
        let read = |text: &str| serde_json::from_str::<$type $(<$life>)?>(text)
            $(.map(|value: $type<$life>| value.into_owned()))?;
        for seed in 0..draws_per_type() {
            let value: $type $(<$life>)? = ValueGenerator::new(seed).draw();
            $tally.check($schemas.as_ref(), &row, &value, &read);
        }
    )*};
}

// covers: SCHEMA-011, TOOL-006, TOOL-009, TOOL-013, RES-008, RES-009, PROMPT-005, COMP-002, COMP-003, CONT-001, CONT-008, ELIC-008, ELIC-009, ELIC-012, ELIC-013, ELIC-014, ELIC-015, ELIC-016, ELIC-018, SAMP-004, SAMP-005, SAMP-006, TASK-002, TASK-008, TASK-014, LIFE-013, LIFE-014, LIFE-022, META-008, META-026
#[test]
fn random_values_are_valid_and_survive_in_every_revision() {
    let schemas = SchemaSet::from_env();
    let mut tally = RoundTripStats {
        revision_table: RevisionTable::read(),
        tolerant_members: BTreeMap::new(),
        counts: BTreeMap::new(),
    };
    rows! { tally schemas
        Implementation ["Implementation"] Standalone;
        Icon ["Icon"] Standalone;
        Annotations ["Annotations"] Standalone;
        EmptyResult ["EmptyResult"] Standalone;
        EmptyParams ["PingRequest"] Request("ping");
        PaginatedParams ["ListToolsRequest"] Request("tools/list");

        ClientCapabilities ["ClientCapabilities"] Standalone;
        ServerCapabilities ["ServerCapabilities"] Standalone;
        RootsCapability ["ClientCapabilities"] Member("roots");
        SamplingCapability ["ClientCapabilities"] Member("sampling");
        ElicitationCapability ["ClientCapabilities"] Member("elicitation");
        ListCapability ["ServerCapabilities"] Member("tools");
        ResourcesCapability ["ServerCapabilities"] Member("resources");
        InitializeParams ["InitializeRequest"] Request("initialize");
        InitializeResult ["InitializeResult"] Standalone;
        DiscoverResult ["DiscoverResult"] Standalone;

        Tool ["Tool"] Standalone;
        ToolAnnotations ["ToolAnnotations"] Standalone;
        ToolExecution ["ToolExecution"] Standalone;
        ListToolsResult ["ListToolsResult"] Standalone;
        CallToolParams<'_> ["CallToolRequest"] Request("tools/call");
        CallToolResult<'_> ["CallToolResult"] Standalone;

        TasksCapability ["ServerCapabilities"] Member("tasks");
        Task<'_> ["Task"] Standalone;
        CreateTaskResult<'_> ["CreateTaskResult"] Standalone;
        TaskMetadata ["TaskMetadata"] Standalone;
        RelatedTaskMetadata ["RelatedTaskMetadata"] Standalone;
        GetTaskParams<'_> ["GetTaskRequest"] Request("tasks/get");
        GetTaskPayloadParams<'_> ["GetTaskPayloadRequest"] Request("tasks/result");
        CancelTaskParams<'_> ["CancelTaskRequest"] Request("tasks/cancel");
        UpdateTaskParams<'_> ["UpdateTaskRequest"] Request("tasks/update");
        ListTasksResult<'_> ["ListTasksResult"] Standalone;

        TextContent<'_> ["TextContent"] Standalone;
        ImageContent<'_> ["ImageContent"] Standalone;
        AudioContent<'_> ["AudioContent"] Standalone, "TextContent";
        ResourceLink<'_> ["ResourceLink"] Standalone, "TextContent";
        EmbeddedResource<'_> ["EmbeddedResource"] Standalone;
        TextResourceContents<'_> ["TextResourceContents"] Standalone;
        BlobResourceContents<'_> ["BlobResourceContents"] Standalone;

        Resource ["Resource"] Standalone;
        ResourceTemplate ["ResourceTemplate"] Standalone;
        ListResourcesResult ["ListResourcesResult"] Standalone;
        ListResourceTemplatesResult ["ListResourceTemplatesResult"] Standalone;
        ReadResourceParams<'_> ["ReadResourceRequest"] Request("resources/read");
        ReadResourceResult<'_> ["ReadResourceResult"] Standalone;
        SubscribeParams ["SubscribeRequest"] Request("resources/subscribe");
        ResourceUpdatedParams ["ResourceUpdatedNotification"] Notification("notifications/resources/updated");

        Prompt ["Prompt"] Standalone;
        PromptArgument ["PromptArgument"] Standalone;
        ListPromptsResult ["ListPromptsResult"] Standalone;
        GetPromptParams<'_> ["GetPromptRequest"] Request("prompts/get");
        GetPromptResult<'_> ["GetPromptResult"] Standalone;
        PromptMessage<'_> ["PromptMessage"] Standalone;

        CompleteParams<'_> ["CompleteRequest"] Request("completion/complete");
        PromptReference<'_> ["PromptReference"] Standalone;
        ResourceTemplateReference<'_> ["ResourceTemplateReference" "ResourceReference"] Standalone;
        CompleteResult ["CompleteResult"] Standalone;

        SetLevelParams ["SetLevelRequest"] Request("logging/setLevel");
        LoggingMessageParams ["LoggingMessageNotification"] Notification("notifications/message");
        ProgressParams ["ProgressNotification"] Notification("notifications/progress");
        CancelledParams ["CancelledNotification"] Notification("notifications/cancelled");
        SubscriptionFilter ["SubscriptionFilter"] Standalone;
        SubscriptionsListenParams ["SubscriptionsListenRequest"] Request("subscriptions/listen");
        SubscriptionsListenResult ["SubscriptionsListenResult"] Standalone;
        SubscriptionsAcknowledgedParams ["SubscriptionsAcknowledgedNotification"]
            Notification("notifications/subscriptions/acknowledged");

        Root ["Root"] Standalone;
        ListRootsResult ["ListRootsResult"] Standalone;
        SamplingMessage<'_> ["SamplingMessage"] Standalone;
        CreateMessageParams<'_> ["CreateMessageRequest"] Request("sampling/createMessage");
        CreateMessageResult<'_> ["CreateMessageResult"] Standalone;
        ModelPreferences ["ModelPreferences"] Standalone;
        ModelHint ["ModelHint"] Standalone;
        ToolChoice ["ToolChoice"] Standalone;
        ToolUseContent<'_> ["ToolUseContent"] Standalone, "TextContent";
        ToolResultContent<'_> ["ToolResultContent"] Standalone, "TextContent";

        ElicitFormParams ["ElicitRequestFormParams"] Standalone;
        ElicitUrlParams ["ElicitRequestURLParams"] Standalone;
        ElicitResult ["ElicitResult"] Standalone;
        ElicitationCompleteParams ["ElicitationCompleteNotification"]
            Notification("notifications/elicitation/complete");
        StringSchema ["StringSchema"] Standalone;
        NumberSchema ["NumberSchema"] Standalone;
        BooleanSchema ["BooleanSchema"] Standalone;
        UntitledSingleSelectEnumSchema ["UntitledSingleSelectEnumSchema" "EnumSchema"] Standalone;
        TitledSingleSelectEnumSchema ["TitledSingleSelectEnumSchema"] Standalone, "EnumSchema";
        UntitledMultiSelectEnumSchema ["UntitledMultiSelectEnumSchema"] Standalone;
        TitledMultiSelectEnumSchema ["TitledMultiSelectEnumSchema"] Standalone;
        LegacyTitledEnumSchema ["LegacyTitledEnumSchema" "EnumSchema"] Standalone;

        InputRequiredResult<'_> ["InputRequiredResult"] Standalone;
        MissingRequiredClientCapability ["MissingRequiredClientCapabilityError"] Error(-32021);
        UnsupportedProtocolVersion ["UnsupportedProtocolVersionError"] Error(-32022);
        UrlElicitationRequired ["URLElicitationRequiredError"] Error(-32042);
        ResourceNotFound ["JSONRPCErrorResponse" "JSONRPCError"] Error(-32602);
    }
    assert_every_type_seen(&tally);
    // No schema of a revision has them; `skills/messages.rs` of `mcp-extensions` has their round trips.
    let skills = ["GetSkillResult", "ListSkillsResult", "ReadDirectoryResult"];
    assert_eq!(tally.revision_table.unused_types(), skills, "rows of the table without a value");
    let unknown = ["x-odd", "é\"", "org.example/a"];
    let free =
        tally.tolerant_members.iter().filter(|((_, member), free)| **free && !unknown.contains(&&**member));
    // Hints count as absent if they cannot be read.
    let is_hint = |name: &str, member: &str| name.ends_with("Annotations") || member == "annotations";
    let free = free.filter(|((name, member), _)| !is_hint(name, member));
    let free: Vec<_> = free.map(|((name, member), _)| format!("{name}.{member}")).collect();
    let any = [
        "CallToolResult.structuredContent",
        "LoggingMessageParams.data",
        "ToolResultContent.structuredContent",
    ];
    assert_eq!(free, any, "members that accept any value");
}

/// Checks that a type was sent in each revision that has it, and was refused or replaced in the others.
fn assert_every_type_seen(tally: &RoundTripStats) {
    let sent = |name, revision| tally.counts[&(name, revision)].0;
    for ((name, revision), (sent, refused)) in &tally.counts {
        assert_eq!(u64::from(sent + refused), draws_per_type(), "{name} {revision}");
    }
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        for always in ["Tool", "CallToolResult", "CallToolParams", "GetPromptResult", "CreateMessageParams"] {
            assert_eq!(u64::from(sent(always, revision)), draws_per_type(), "{always} {revision}");
        }
    }
    assert_eq!((sent("DiscoverResult", "2025-11-25"), sent("InitializeParams", "2026-07-28")), (0, 0));
    assert_eq!((sent("ElicitUrlParams", "2025-06-18"), sent("ElicitFormParams", "2025-03-26")), (0, 0));
    assert!(sent("ElicitFormParams", "2025-06-18") > 0 && sent("ElicitUrlParams", "2025-11-25") > 0);
}

/// Unknown words are kept in every type, because a later revision may define them. Some of them are never sent.
// covers: CONT-005, CONT-007
#[test]
fn unknown_words_are_preserved() {
    macro_rules! preserved {
        ($($type:ident)*) => {$(
            for word in ["x-unknown", "", "User ", "q\"\u{e9}"] {
                let text = json!(word).to_string();
                let read: $type = serde_json::from_str(&text).expect(stringify!($type));
                assert_eq!(serde_json::to_string(&read).expect("JSON"), text, stringify!($type));
                for version in Version::ALL {
                    match encode_for(version, &read) {
                        Ok(sent) => assert_eq!(parsed(&sent), word),
                        // Only the defined roles can be sent.
                        Err(error) => {
                            assert_eq!((stringify!($type), error), ("Role", EncodeError::NeverSent("`role`")));
                        }
                    }
                }
            }
        )*};
    }
    preserved! {
        Role CacheScope IconTheme TaskSupport LoggingLevel IncludeContext ToolChoiceMode StopReason ElicitAction
        StringFormat NumberKind ResultType
    }
    // Kinds of content are words too, with members around them.
    for unknown in [r#"{"type":"hologram","x":1}"#, r#"{"type":"hologram"}"#] {
        let read: Content<'_> = serde_json::from_str(unknown).expect("kept");
        assert_eq!(serde_json::to_string(&read).expect("JSON"), unknown);
        for version in Version::ALL {
            assert_eq!(encode_for(version, &read), Err(EncodeError::NeverSent("the kind of a Content")));
        }
    }
}

/// Every public type of the model is a row of the table or a part of one.
#[test]
fn every_type_of_the_model_is_tested() {
    let source = include_str!("../core/src/model/mod.rs");
    let rows = include_str!("model_round_trip.rs");
    let named = |text: &str, name: &str| text.split(|c: char| !c.is_alphanumeric()).any(|word| word == name);
    // Drawn as parts of rows by the generator of values, or not part of a message.
    let parts = include_str!("model_round_trip/values.rs");
    let exempt = [
        "ContentBlocks",
        "Cursor",
        "Extra",
        "ElicitMode",
        "InputRequests",
        "InputResponses",
        "ListItem",
        "Map",
        "ElicitOutcome",
        "ValidationError",
        "NotificationMeta",
        "ProgressToken",
        "RequestMeta",
        "RequestParams",
        "ResultMeta",
        "TraceContext",
    ];
    // The types of apps and skills have no schema in a revision; `core/src/model/apps/tests.rs` and
    // `skills/messages.rs` of `mcp-extensions` have their round trips.
    let uses = source
        .split("pub use ")
        .skip(1)
        .filter(|part| !part.starts_with("apps::") && !part.starts_with("skills::"))
        .map(|part| part.split(';').next().unwrap_or_default());
    let names: Vec<&str> = uses
        .flat_map(|part| part.split(|c: char| !c.is_alphanumeric()))
        .filter(|name| name.starts_with(char::is_uppercase))
        .collect();
    assert!(names.len() > 100, "{}", names.len());
    for name in names {
        assert!(
            named(rows, name) || named(parts, name) || exempt.contains(&name),
            "no value of {name} is ever drawn"
        );
    }
}

/// Values that need a message around them: forms and unions had no name in old revisions, and tools in sampling need a
/// revision that has them.
// covers: SAMP-008, ELIC-008, CONT-008
#[test]
fn values_without_a_type_name_are_valid_in_messages() {
    let Some(schemas) = SchemaSet::from_env() else { return };
    let check = |revision: &str, name: &str, value: &Value| {
        assert_eq!(schemas.check_type(revision, name, value), Ok(()), "{revision} {name}: {value}");
    };
    for seed in 0..draws_per_type() {
        let form: ElicitFormParams = ValueGenerator::new(seed).draw();
        let field: PrimitiveSchemaDefinition = ValueGenerator::new(seed).draw();
        let block: Content<'static> = ValueGenerator::new(seed).draw();
        let ParamsWithTools(tools) = ValueGenerator::new(seed).draw();
        for version in Version::ALL {
            let revision = version.as_str();
            let with_tools = encode_for(version, &tools);
            if version >= Version::V2025_11_25 {
                let params = Request("sampling/createMessage").message(&parsed(&with_tools.expect("shaped")));
                check(revision, "CreateMessageRequest", &params);
            } else {
                assert!(matches!(with_tools, Err(EncodeError::NotInVersion { .. })));
            }
            if let Ok(form) = encode_for(version, &form) {
                check(revision, "ElicitRequest", &Request("elicitation/create").message(&parsed(&form)));
            }
            if let Ok(field) = encode_for(version, &field) {
                check(revision, "PrimitiveSchemaDefinition", &parsed(&field));
            }
            // Older revisions spell out the union wherever it is used.
            let block = parsed(&encode_for(version, &block).expect("shaped"));
            check(revision, "PromptMessage", &json!({ "role": "user", "content": block }));
            check(revision, "CallToolResult", &with_result_stamps(version, json!({ "content": [block] })));
        }
    }
}

fn with_result_stamps(version: Version, mut result: Value) -> Value {
    if version == Version::V2026_07_28 {
        result["resultType"] = json!("complete");
    }
    result
}
