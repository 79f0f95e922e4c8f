//! Fuzz target for all types of the model, decoded from arbitrary text.

use mcp_proto::model::*;
use mcp_proto::{EncodeError, RawJson, Version};
use serde::Serialize;

use super::input::FuzzInput;
use super::scanner::{ObjectNames, all_differ};
use super::wire::json;

/// Decodes a type from arbitrary text and checks the invariants of its encoding.
///
/// - `RawJson::parse` and serde_json decode it alike.
/// - A decoded value is encoded and decoded to an equal value.
/// - Each revision encodes it as JSON or refuses it by name.
/// - No member is written that was not in the text.
pub fn model(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let which = usize::from(choices.byte());
    let Ok(text) = core::str::from_utf8(choices.rest()) else { return };
    let Some(read) = READERS.get(which % READERS.len()) else { return };
    read(text);
}

macro_rules! readers {
    ($($type:ident $(<$life:lifetime>)?)*) => {
        const READERS: &[fn(&str)] = &[$( |text| {
            let read = serde_json::from_str::<$type $(<$life>)?>(text);
            if let Ok(checked) = RawJson::new(text.to_owned()) {
                check_parsed(text, &read, checked.parse());
            }
            let Ok(value) = read else { return };
            let written = serde_json::to_string(&value).expect("what was read can be written");
            let again: $type $(<$life>)? = serde_json::from_str(&written).expect("what was written can be read");
            if has_exact_numbers(text) {
                assert!(again == value, "{text} is written as {written}");
            }
            check_shaped(text, &written, &value);
        } ),*];
    };
}

readers! {
    Annotations EmptyParams EmptyResult Icon Implementation PaginatedParams ClientCapabilities ServerCapabilities
    CompleteParams<'_> CompleteResult Content<'_> SamplingContent<'_> TextContent<'_> EmbeddedResource<'_>
    ResourceLink<'_> ElicitParams ElicitFormParams ElicitUrlParams ElicitResult ElicitSchema
    PrimitiveSchemaDefinition ElicitationCompleteParams MissingRequiredClientCapability ResourceNotFound
    UnsupportedProtocolVersion UrlElicitationRequired InputRequiredResult<'_> InputRequest<'_> InputResponse<'_>
    DiscoverResult InitializeParams InitializeResult RequestMeta ResultMeta NotificationMeta TraceContext
    CancelledParams LoggingMessageParams ProgressParams SetLevelParams SubscriptionFilter
    SubscriptionsAcknowledgedParams SubscriptionsListenParams SubscriptionsListenResult GetPromptParams<'_>
    GetPromptResult<'_> ListPromptsResult Prompt ListResourceTemplatesResult ListResourcesResult
    ReadResourceParams<'_> ReadResourceResult<'_> ResourceContents<'_> ResourceUpdatedParams SubscribeParams
    ListRootsResult Root CreateMessageParams<'_> CreateMessageResult<'_> SamplingMessage<'_> ToolResultContent<'_>
    ToolUseContent<'_> CallToolParams<'_> CallToolResult<'_> ListToolsResult Tool ToolAnnotations
    Task<'_> CreateTaskResult<'_> ListTasksResult<'_> TaskMetadata RelatedTaskMetadata GetTaskParams<'_>
    GetTaskPayloadParams<'_> CancelTaskParams<'_> UpdateTaskParams<'_> TasksCapability TaskRequestsCapability
}

/// Returns whether serde_json decodes each number to the nearest float, which it guarantees for short numbers only.
pub(super) fn has_exact_numbers(text: &str) -> bool {
    let in_number = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
    let runs = text.split(|c| !in_number(c));
    runs.into_iter().all(|run| {
        run.len() < 16 && !(run.contains(['e', 'E']) && run.contains(|c: char| c.is_ascii_digit()))
    })
}

/// Checks that our own reader has read the same.
fn check_parsed<T: PartialEq>(text: &str, read: &serde_json::Result<T>, parsed: serde_json::Result<T>) {
    match (read, parsed) {
        (Ok(read), Ok(parsed)) => assert!(*read == parsed || !has_exact_numbers(text), "{text}"),
        (Err(_), Err(_)) => {}
        (read, parsed) => assert!(
            !has_exact_numbers(text),
            "{text}: {:?} and {:?}",
            read.as_ref().err(),
            parsed.as_ref().err()
        ),
    }
}

fn check_shaped<T: Serialize>(text: &str, written: &str, value: &T) {
    let Ok(ObjectNames(before)) = serde_json::from_str(text) else { return };
    assert!(all_differ(&before), "duplicate member: {text}");
    if let Ok(ObjectNames(after)) = serde_json::from_str(written) {
        assert!(after.iter().all(|name| before.contains(name)), "{text} is written as {written}");
    }
    for version in Version::ALL {
        match encode_for(version, value) {
            Ok(shaped) => {
                assert!(json(shaped.as_bytes()).is_none_or(|json| json.is_object() || json.is_array()))
            }
            Err(EncodeError::NotInVersion { what, revision }) => {
                assert!(!what.is_empty() && revision == version.as_str());
            }
            // A received value may be one that is never sent.
            Err(EncodeError::NeverSent(what)) => assert!(!what.is_empty()),
            Err(error) => panic!("{text}: {error}"),
        }
    }
}
