//! Every type of the model, read from any text.

use serde::Serialize;

use super::dice::Dice;
use super::scanner::{Names, all_differ};
use super::wire::json;
use crate::json::EncodeError;
use crate::model::*;
use crate::version::Version;

/// What is read is written and read back as the same; each revision writes it as JSON or refuses it by name, and nothing
/// is written that was not there
pub fn model(data: &[u8]) {
    let mut dice = Dice::new(data);
    let which = usize::from(dice.byte());
    let Ok(text) = core::str::from_utf8(dice.rest()) else { return };
    let Some(read) = READERS.get(which % READERS.len()) else { return };
    read(text);
}

macro_rules! readers {
    ($($type:ident $(<$life:lifetime>)?)*) => {
        const READERS: &[fn(&str)] = &[$( |text| {
            let Ok(value) = serde_json::from_str::<$type $(<$life>)?>(text) else { return };
            let written = serde_json::to_string(&value).expect("what was read can be written");
            let again: $type $(<$life>)? = serde_json::from_str(&written).expect("what was written can be read");
            if has_exact_numbers(text) {
                assert!(again == value, "{text} is written as {written}");
            }
            shaped(text, &written, &value);
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
}

/// Whether serde_json reads each number as the nearest float, which it promises for short ones only
fn has_exact_numbers(text: &str) -> bool {
    let in_number = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
    let runs = text.split(|c| !in_number(c));
    runs.into_iter().all(|run| {
        run.len() < 16 && !(run.contains(['e', 'E']) && run.contains(|c: char| c.is_ascii_digit()))
    })
}

fn shaped<T: Serialize>(text: &str, written: &str, value: &T) {
    let Ok(Names(before)) = serde_json::from_str(text) else { return };
    assert!(all_differ(&before), "a member stands twice: {text}");
    if let Ok(Names(after)) = serde_json::from_str(written) {
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
            // What came from a peer may be something that we never send.
            Err(EncodeError::NeverSent(what)) => assert!(!what.is_empty()),
            Err(error) => panic!("{text}: {error}"),
        }
    }
}
