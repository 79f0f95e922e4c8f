//! Every type of the model, drawn by chance: written for each revision it is valid there as that very type, has
//! exactly the members that the revision's schema knows, and is read back as what was written.
//!
//! There are two judges, and neither is the code that shapes: a revision's schema says what may be lost (the few cases
//! where a member's *value* decides are listed in [`excepted`]), and the table that users read says what is.

extern crate alloc;

#[path = "model_round_trip/dice.rs"]
mod dice;
#[path = "model_round_trip/spoil.rs"]
mod spoil;
#[path = "model_round_trip/values.rs"]
mod values;

use alloc::collections::BTreeMap;
use core::fmt::Debug;

use mcp_proto::model::*;
use mcp_proto::{EncodeError, RawJson, Version};
use mcp_tests::published::{Published, Refused, plain};
use mcp_tests::schema::{REVISIONS, Schemas};
use serde::Serialize;
use serde_json::{Value, json};

use dice::Dice;
use spoil::{spoil, twice};
use values::WithTools;

/// How often each type is drawn
const DRAWS: u64 = 100;

/// Where a type stands in a message
#[derive(Clone, Copy)]
enum Place {
    /// By itself
    Alone,
    /// As this member of the type, which has no name of its own
    Part(&'static str),
    /// The `params` of a request with this method
    Request(&'static str),
    /// The `params` of a notification with this method
    Notification(&'static str),
    /// The `data` of an error with this code
    Error(i64),
}

use Place::{Alone, Error, Notification, Part, Request};

/// One type, and what the schemas call it
struct Row {
    /// Our name
    name: &'static str,
    /// The first of these that a revision has
    known_as: &'static [&'static str],
    place: Place,
    /// What it becomes where a revision has none of them
    instead: &'static str,
}

impl Place {
    fn message(self, value: &Value) -> Value {
        match self {
            Alone => value.clone(),
            Part(member) => json!({ member: value }),
            Request(method) => json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": value }),
            Notification(method) => json!({ "jsonrpc": "2.0", "method": method, "params": value }),
            Error(code) => {
                json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": code, "message": "m", "data": value } })
            }
        }
    }
}

/// Refusals that a value of a type may meet in a revision that has the type
const REFUSALS: [&str; 4] = [
    "a field with several choices",
    "elicitation by a web page",
    "elicitation by a web page without `elicitationId`",
    "sampling with tools",
];

/// Members that are left out, or written, for another reason than that the schema lacks, or has, them
fn excepted(row: &Row, revision: &str, member: &str, full: &Value) -> bool {
    let object = |name: &str| full[name].is_object();
    match (row.name, member) {
        // Every request and notification may have one, by the base types (wire-tables (c)).
        (_, "_meta") => matches!(row.place, Request(_) | Notification(_)) && revision < "2025-11-25",
        ("CallToolResult" | "ToolResultContent", "structuredContent") => {
            !object(member) && revision < "2026-07-28"
        }
        ("Tool", "outputSchema") => full[member]["type"] != "object" && revision < "2026-07-28",
        // Web pages alone: there it would mean forms.
        ("ClientCapabilities", "elicitation") => {
            let asks = &full["elicitation"];
            asks.get("url").is_some() && asks.get("form").is_none() && revision < "2025-11-25"
        }
        _ => false,
    }
}

fn parsed(json: &RawJson) -> Value {
    plain(&serde_json::from_str(json.as_str()).expect("JSON"))
}

/// The members that `name` declares in a revision, those of `params` where it is a message
fn declared(schemas: &Schemas, revision: &str, row: &Row, name: &str) -> Option<Vec<String>> {
    let resolve = |mut schema: Value| {
        while let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            schema = schemas.definition(revision, name.rsplit('/').next()?)?.clone();
        }
        Some(schema)
    };
    let mut schema = resolve(schemas.definition(revision, name)?.clone())?;
    let part = match row.place {
        Request(_) | Notification(_) => Some("params"),
        Part(member) => Some(member),
        Alone | Error(_) => None,
    };
    if let Some(part) = part {
        schema = resolve(schema["properties"][part].clone())?;
    }
    Some(schema.get("properties")?.as_object()?.keys().cloned().collect())
}

struct Tally {
    published: Published,
    /// Members that some wrong value was tried in, and whether none was refused so far
    tolerant: BTreeMap<(&'static str, String), bool>,
    /// Values that went out, and refusals, by type and revision
    seen: BTreeMap<(&'static str, &'static str), (u32, u32)>,
}

impl Tally {
    fn check<T: Serialize + PartialEq + Debug>(
        &mut self,
        schemas: Option<&Schemas>,
        row: &Row,
        value: &T,
        read: &impl Fn(&str) -> serde_json::Result<T>,
    ) {
        let full_text = serde_json::to_string(value).expect("JSON");
        assert_eq!(&read(&full_text).expect("a value"), value, "{full_text}");
        let exact: Value = serde_json::from_str(&full_text).expect("JSON");
        let full = plain(&exact);
        spoil(row, &full, read, &mut self.tolerant);
        if self.seen.get(&(row.name, REVISIONS[0])).is_none_or(|(sent, refused)| sent + refused < 20) {
            twice(row, &full_text, read);
        }
        for version in Version::ALL {
            let counts = self.seen.entry((row.name, version.as_str())).or_default();
            let told = self.published.lower(version, row.name, &exact);
            let shaped = match encode_for(version, value) {
                Ok(shaped) => {
                    let told = told.as_ref().map(plain);
                    assert_eq!(Ok(parsed(&shaped)), told, "{version} {}: {full_text}", row.name);
                    shaped
                }
                Err(EncodeError::NotInVersion { what, .. }) => {
                    assert_eq!(told, Err(Refused), "{version} {}: {full_text}", row.name);
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
                judge(schemas, version.as_str(), row, &full, &json);
            }
            // What stands in for a type is another type.
            if let Ok(back) = read(shaped.as_str()) {
                assert_eq!(
                    parsed(&RawJson::encode(&back).expect("JSON")),
                    json,
                    "{version}: read back as written"
                );
                assert!(!lossless || back == *value, "{version}: {back:?}");
                assert_eq!(
                    parsed(&encode_for(version, &back).expect("shaped")),
                    json,
                    "{version}: no further loss"
                );
            } else {
                assert!(!lossless && !row.instead.is_empty(), "{version} {}: {shaped}", row.name);
            }
        }
    }
}

fn definition(schemas: &Schemas, revision: &str, row: &Row) -> Option<&'static str> {
    let has = |name: &&&str| match (schemas.definition(revision, name), row.place) {
        (Some(schema), Part(member)) => schema["properties"].get(member).is_some(),
        (schema, _) => schema.is_some(),
    };
    row.known_as.iter().find(has).copied()
}

/// Whether what was written is an instance of the type, and has the members that it should
fn judge(schemas: &Schemas, revision: &str, row: &Row, full: &Value, json: &Value) {
    let Some(name) = definition(schemas, revision, row) else {
        if !row.instead.is_empty() {
            let outcome = schemas.check_type(revision, row.instead, json);
            assert_eq!(outcome, Ok(()), "{revision} {} as {}: {json}", row.name, row.instead);
        }
        return;
    };
    assert_eq!(
        schemas.check_type(revision, name, &row.place.message(json)),
        Ok(()),
        "{revision} {name}: {json}"
    );
    if matches!(row.place, Error(_)) {
        return;
    }
    let Some(declared) = declared(schemas, revision, row, name) else { return };
    let known: Vec<String> =
        REVISIONS.iter().filter_map(|r| declared_in(schemas, r, row)).flatten().collect();
    let members = full.as_object().expect("an object");
    for member in members.keys().filter(|m| !excepted(row, revision, m, full)) {
        // A member that no revision knows survives everywhere.
        let expected = declared.contains(member) || !known.contains(member);
        assert_eq!(json.get(member).is_some(), expected, "{revision} {name}: `{member}` of {full} in {json}");
    }
    // Nothing is added but what stands in for something.
    for member in json.as_object().expect("an object").keys() {
        let substitute = ["enum", "enumNames"].contains(&&**member);
        assert!(members.contains_key(member) || substitute, "{revision} {name}: {member} in {json}");
    }
}

fn declared_in(schemas: &Schemas, revision: &str, row: &Row) -> Option<Vec<String>> {
    declared(schemas, revision, row, definition(schemas, revision, row)?)
}

macro_rules! rows {
    ($tally:ident $schemas:ident $(
        $type:ident $(<$life:lifetime>)? [$($known:literal)+] $place:expr $(, $instead:literal)?;
    )*) => {$(
        let row = Row {
            name: stringify!($type),
            known_as: &[$($known),+],
            place: $place,
            instead: concat!("" $(, $instead)?),
        };
        let read = |text: &str| serde_json::from_str::<$type $(<$life>)?>(text)
            $(.map(|value: $type<$life>| value.into_owned()))?;
        for seed in 0..DRAWS {
            let value: $type $(<$life>)? = Dice::new(seed).draw();
            $tally.check($schemas.as_ref(), &row, &value, &read);
        }
    )*};
}

// covers: SCHEMA-011, TOOL-006, TOOL-009, TOOL-013, RES-008, RES-009, PROMPT-005, COMP-002, COMP-003, CONT-001, CONT-008, ELIC-008, ELIC-009, ELIC-012, ELIC-013, ELIC-014, ELIC-015, ELIC-016, ELIC-018, SAMP-004, SAMP-005, SAMP-006, LIFE-013, LIFE-014, LIFE-022, META-008, META-026
#[test]
fn values_are_valid_in_every_revision_and_survive() {
    let schemas = Schemas::from_env();
    let mut tally = Tally { published: Published::read(), tolerant: BTreeMap::new(), seen: BTreeMap::new() };
    rows! { tally schemas
        Implementation ["Implementation"] Alone;
        Icon ["Icon"] Alone;
        Annotations ["Annotations"] Alone;
        EmptyResult ["EmptyResult"] Alone;
        EmptyParams ["PingRequest"] Request("ping");
        PaginatedParams ["ListToolsRequest"] Request("tools/list");

        ClientCapabilities ["ClientCapabilities"] Alone;
        ServerCapabilities ["ServerCapabilities"] Alone;
        RootsCapability ["ClientCapabilities"] Part("roots");
        SamplingCapability ["ClientCapabilities"] Part("sampling");
        ElicitationCapability ["ClientCapabilities"] Part("elicitation");
        ListCapability ["ServerCapabilities"] Part("tools");
        ResourcesCapability ["ServerCapabilities"] Part("resources");
        InitializeParams ["InitializeRequest"] Request("initialize");
        InitializeResult ["InitializeResult"] Alone;
        DiscoverResult ["DiscoverResult"] Alone;

        Tool ["Tool"] Alone;
        ToolAnnotations ["ToolAnnotations"] Alone;
        ToolExecution ["ToolExecution"] Alone;
        ListToolsResult ["ListToolsResult"] Alone;
        CallToolParams<'_> ["CallToolRequest"] Request("tools/call");
        CallToolResult<'_> ["CallToolResult"] Alone;

        TextContent<'_> ["TextContent"] Alone;
        ImageContent<'_> ["ImageContent"] Alone;
        AudioContent<'_> ["AudioContent"] Alone, "TextContent";
        ResourceLink<'_> ["ResourceLink"] Alone, "TextContent";
        EmbeddedResource<'_> ["EmbeddedResource"] Alone;
        TextResourceContents<'_> ["TextResourceContents"] Alone;
        BlobResourceContents<'_> ["BlobResourceContents"] Alone;

        Resource ["Resource"] Alone;
        ResourceTemplate ["ResourceTemplate"] Alone;
        ListResourcesResult ["ListResourcesResult"] Alone;
        ListResourceTemplatesResult ["ListResourceTemplatesResult"] Alone;
        ReadResourceParams<'_> ["ReadResourceRequest"] Request("resources/read");
        ReadResourceResult<'_> ["ReadResourceResult"] Alone;
        SubscribeParams ["SubscribeRequest"] Request("resources/subscribe");
        ResourceUpdatedParams ["ResourceUpdatedNotification"] Notification("notifications/resources/updated");

        Prompt ["Prompt"] Alone;
        PromptArgument ["PromptArgument"] Alone;
        ListPromptsResult ["ListPromptsResult"] Alone;
        GetPromptParams<'_> ["GetPromptRequest"] Request("prompts/get");
        GetPromptResult<'_> ["GetPromptResult"] Alone;
        PromptMessage<'_> ["PromptMessage"] Alone;

        CompleteParams<'_> ["CompleteRequest"] Request("completion/complete");
        PromptReference<'_> ["PromptReference"] Alone;
        ResourceTemplateReference<'_> ["ResourceTemplateReference" "ResourceReference"] Alone;
        CompleteResult ["CompleteResult"] Alone;

        SetLevelParams ["SetLevelRequest"] Request("logging/setLevel");
        LoggingMessageParams ["LoggingMessageNotification"] Notification("notifications/message");
        ProgressParams ["ProgressNotification"] Notification("notifications/progress");
        CancelledParams ["CancelledNotification"] Notification("notifications/cancelled");
        SubscriptionFilter ["SubscriptionFilter"] Alone;
        SubscriptionsListenParams ["SubscriptionsListenRequest"] Request("subscriptions/listen");
        SubscriptionsListenResult ["SubscriptionsListenResult"] Alone;
        SubscriptionsAcknowledgedParams ["SubscriptionsAcknowledgedNotification"]
            Notification("notifications/subscriptions/acknowledged");

        Root ["Root"] Alone;
        ListRootsResult ["ListRootsResult"] Alone;
        SamplingMessage<'_> ["SamplingMessage"] Alone;
        CreateMessageParams<'_> ["CreateMessageRequest"] Request("sampling/createMessage");
        CreateMessageResult<'_> ["CreateMessageResult"] Alone;
        ModelPreferences ["ModelPreferences"] Alone;
        ModelHint ["ModelHint"] Alone;
        ToolChoice ["ToolChoice"] Alone;
        ToolUseContent<'_> ["ToolUseContent"] Alone, "TextContent";
        ToolResultContent<'_> ["ToolResultContent"] Alone, "TextContent";

        ElicitFormParams ["ElicitRequestFormParams"] Alone;
        ElicitUrlParams ["ElicitRequestURLParams"] Alone;
        ElicitResult ["ElicitResult"] Alone;
        ElicitationCompleteParams ["ElicitationCompleteNotification"]
            Notification("notifications/elicitation/complete");
        StringSchema ["StringSchema"] Alone;
        NumberSchema ["NumberSchema"] Alone;
        BooleanSchema ["BooleanSchema"] Alone;
        UntitledSingleSelectEnumSchema ["UntitledSingleSelectEnumSchema" "EnumSchema"] Alone;
        TitledSingleSelectEnumSchema ["TitledSingleSelectEnumSchema"] Alone, "EnumSchema";
        UntitledMultiSelectEnumSchema ["UntitledMultiSelectEnumSchema"] Alone;
        TitledMultiSelectEnumSchema ["TitledMultiSelectEnumSchema"] Alone;
        LegacyTitledEnumSchema ["LegacyTitledEnumSchema" "EnumSchema"] Alone;

        InputRequiredResult<'_> ["InputRequiredResult"] Alone;
        MissingRequiredClientCapability ["MissingRequiredClientCapabilityError"] Error(-32021);
        UnsupportedProtocolVersion ["UnsupportedProtocolVersionError"] Error(-32022);
        UrlElicitationRequired ["URLElicitationRequiredError"] Error(-32042);
        ResourceNotFound ["JSONRPCErrorResponse" "JSONRPCError"] Error(-32602);
    }
    every_type_was_seen(&tally);
    assert_eq!(tally.published.unseen(), [""; 0], "rows of the table without a value");
    let unknown = ["x-odd", "é\"", "org.example/a"];
    let free = tally.tolerant.iter().filter(|((_, member), free)| **free && !unknown.contains(&&**member));
    let free: Vec<_> = free.map(|((name, member), _)| format!("{name}.{member}")).collect();
    let any = [
        "CallToolResult.structuredContent",
        "LoggingMessageParams.data",
        "ToolResultContent.structuredContent",
    ];
    assert_eq!(free, any, "members that take anything");
}

/// Where the schema has the type, values of it went out; where it is not there, each was refused or replaced
fn every_type_was_seen(tally: &Tally) {
    let sent = |name, revision| tally.seen[&(name, revision)].0;
    for ((name, revision), (sent, refused)) in &tally.seen {
        assert_eq!(u64::from(sent + refused), DRAWS, "{name} {revision}");
    }
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        for always in ["Tool", "CallToolResult", "CallToolParams", "GetPromptResult", "CreateMessageParams"] {
            assert_eq!(u64::from(sent(always, revision)), DRAWS, "{always} {revision}");
        }
    }
    assert_eq!((sent("DiscoverResult", "2025-11-25"), sent("InitializeParams", "2026-07-28")), (0, 0));
    assert_eq!((sent("ElicitUrlParams", "2025-06-18"), sent("ElicitFormParams", "2025-03-26")), (0, 0));
    assert!(sent("ElicitFormParams", "2025-06-18") > 0 && sent("ElicitUrlParams", "2025-11-25") > 0);
}

/// Words that nobody knows are kept, whatever the type (they may be of a revision to come); some of them are never sent
// covers: CONT-005, CONT-007
#[test]
fn unknown_words_are_kept() {
    macro_rules! kept {
        ($($type:ident)*) => {$(
            for word in ["x-unknown", "", "User ", "q\"\u{e9}"] {
                let text = json!(word).to_string();
                let read: $type = serde_json::from_str(&text).expect(stringify!($type));
                assert_eq!(serde_json::to_string(&read).expect("JSON"), text, stringify!($type));
                for version in Version::ALL {
                    match encode_for(version, &read) {
                        Ok(sent) => assert_eq!(parsed(&sent), word),
                        // Roles are the ones that there are.
                        Err(error) => {
                            assert_eq!((stringify!($type), error), ("Role", EncodeError::NeverSent("`role`")));
                        }
                    }
                }
            }
        )*};
    }
    kept! {
        Role CacheScope IconTheme TaskSupport LoggingLevel IncludeContext ToolChoiceMode StopReason ElicitAction
        StringFormat NumberKind ResultType
    }
    // Kinds of content are words, too, with something around them.
    for odd in [r#"{"type":"hologram","x":1}"#, r#"{"type":"hologram"}"#] {
        let read: Content<'_> = serde_json::from_str(odd).expect("kept");
        assert_eq!(serde_json::to_string(&read).expect("JSON"), odd);
        for version in Version::ALL {
            assert_eq!(encode_for(version, &read), Err(EncodeError::NeverSent("the kind of a Content")));
        }
    }
}

/// Every public type of the model is a row above, or a part of one
#[test]
fn no_type_of_the_model_is_left_out() {
    let source = include_str!("../core/src/model/mod.rs");
    let rows = include_str!("model_round_trip.rs");
    let named = |text: &str, name: &str| text.split(|c: char| !c.is_alphanumeric()).any(|word| word == name);
    // What is drawn as a part of rows, by the generator of values; and what is no message.
    let parts = include_str!("model_round_trip/values.rs");
    let apart = [
        "Blocks",
        "Cursor",
        "Extra",
        "ElicitMode",
        "InputRequests",
        "InputResponses",
        "Listed",
        "Map",
        "Elicited",
        "Misfit",
        "NotificationMeta",
        "ProgressToken",
        "Request",
        "RequestMeta",
        "ResultMeta",
        "TraceContext",
    ];
    let uses = source.split("pub use ").skip(1).map(|part| part.split(';').next().unwrap_or_default());
    let names: Vec<&str> = uses
        .flat_map(|part| part.split(|c: char| !c.is_alphanumeric()))
        .filter(|name| name.starts_with(char::is_uppercase))
        .collect();
    assert!(names.len() > 100, "{}", names.len());
    for name in names {
        assert!(named(rows, name) || named(parts, name) || apart.contains(&name), "{name} is never drawn");
    }
}

/// What the rows above cannot say: forms and unions went without a name of their own at first; tools need a revision
/// that has them
// covers: SAMP-008, ELIC-008, CONT-008
#[test]
fn values_that_need_a_message_around_them() {
    let Some(schemas) = Schemas::from_env() else { return };
    let check = |revision: &str, name: &str, value: &Value| {
        assert_eq!(schemas.check_type(revision, name, value), Ok(()), "{revision} {name}: {value}");
    };
    for seed in 0..DRAWS {
        let form: ElicitFormParams = Dice::new(seed).draw();
        let field: PrimitiveSchemaDefinition = Dice::new(seed).draw();
        let block: Content<'static> = Dice::new(seed).draw();
        let WithTools(tools) = Dice::new(seed).draw();
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
            // Before there was a name for it, the union stood where it was used.
            let block = parsed(&encode_for(version, &block).expect("shaped"));
            check(revision, "PromptMessage", &json!({ "role": "user", "content": block }));
            check(revision, "CallToolResult", &stamped(version, json!({ "content": [block] })));
        }
    }
}

fn stamped(version: Version, mut result: Value) -> Value {
    if version == Version::V2026_07_28 {
        result["resultType"] = json!("complete");
    }
    result
}
