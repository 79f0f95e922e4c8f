//! Typed messages: every value of the protocol, as the superset of all revisions.
//!
//! Names are those of the specification in Rust's spelling. Values that pass through borrow from their message
//! ([`CallToolResult`], [`Content`], …); `into_owned` makes them owned. Values that are stored own their content
//! ([`Tool`], [`Resource`], …). `new` takes the required members, and one method per optional member adds it.
//!
//! Reading is strict on structure and lenient on vocabulary (DESIGN-34). Unknown members are kept in `extra`, unknown
//! words and unknown kinds of content in a variant `Other`. The structs are messages as they stand on the wire:
//! anything that is given a [`RawJson`] can read them, and any serde serializer can write them. The engines write them
//! in the shape of the peer's revision (DESIGN-35).
//!
//! ```
//! use mcp_proto::model::{CallToolResult, Content, ResourceLink, Tool, ToolAnnotations, encode_for};
//! use mcp_proto::{RawJson, Version};
//!
//! let tool = Tool::new("berth", RawJson::new(r#"{"type":"object"}"#)?)
//!     .title("Reserve a berth")
//!     .annotations(ToolAnnotations::new().destructive_hint(false));
//! assert_eq!(tool.display_name(), "Reserve a berth");
//!
//! let result = CallToolResult::content(vec![ResourceLink::new("berth://C/14", "C14").into()]);
//! let old = encode_for(Version::V2024_11_05, &result)?;
//! assert_eq!(old.as_str(), r#"{"content":[{"type":"text","text":"C14: berth://C/14"}]}"#);
//! let read: CallToolResult<'_> = old.parse()?; // borrows from `old`
//! assert_eq!(read.content[0].as_text(), Some("C14: berth://C/14"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Methods
//!
//! | Method | Parameters | Result |
//! |---|---|---|
//! | `initialize` | [`InitializeParams`] | [`InitializeResult`] |
//! | `server/discover` | [`EmptyParams`] | [`DiscoverResult`] |
//! | `ping` | [`EmptyParams`] | [`EmptyResult`] |
//! | `tools/list` | [`PaginatedParams`] | [`ListToolsResult`] |
//! | `tools/call` | [`CallToolParams`] | [`CallToolResult`], [`InputRequiredResult`], [`CreateTaskResult`] or [`Task`] |
//! | `resources/list` | [`PaginatedParams`] | [`ListResourcesResult`] |
//! | `resources/templates/list` | [`PaginatedParams`] | [`ListResourceTemplatesResult`] |
//! | `resources/read` | [`ReadResourceParams`] | [`ReadResourceResult`], [`InputRequiredResult`] |
//! | `resources/subscribe`, `resources/unsubscribe` | [`SubscribeParams`] | [`EmptyResult`] |
//! | `prompts/list` | [`PaginatedParams`] | [`ListPromptsResult`] |
//! | `prompts/get` | [`GetPromptParams`] | [`GetPromptResult`], [`InputRequiredResult`] |
//! | `skills/*`, `resources/directory/read` | `mcp_extensions::skills` | `mcp_extensions::skills` |
//! | `completion/complete` | [`CompleteParams`] | [`CompleteResult`] |
//! | `logging/setLevel` | [`SetLevelParams`] | [`EmptyResult`] |
//! | `subscriptions/listen` | [`SubscriptionsListenParams`] | [`SubscriptionsListenResult`] |
//! | `roots/list` | [`EmptyParams`] | [`ListRootsResult`] |
//! | `sampling/createMessage` | [`CreateMessageParams`] | [`CreateMessageResult`] |
//! | `elicitation/create` | [`ElicitParams`] | [`ElicitResult`] |
//! | `tasks/get` | [`GetTaskParams`] | [`Task`] |
//! | `tasks/result` | [`GetTaskPayloadParams`] | [`CallToolResult`] |
//! | `tasks/list` | [`PaginatedParams`] | [`ListTasksResult`] |
//! | `tasks/update` | [`UpdateTaskParams`] | [`EmptyResult`] |
//! | `tasks/cancel` | [`CancelTaskParams`] | [`Task`] in 2025-11-25, else [`EmptyResult`] |
//!
//! | Notification | Parameters |
//! |---|---|
//! | `notifications/initialized`, `notifications/*/list_changed` | [`EmptyParams`] |
//! | `notifications/cancelled` | [`CancelledParams`] |
//! | `notifications/progress` | [`ProgressParams`] |
//! | `notifications/message` | [`LoggingMessageParams`] |
//! | `notifications/resources/updated` | [`ResourceUpdatedParams`] |
//! | `notifications/elicitation/complete` | [`ElicitationCompleteParams`] |
//! | `notifications/subscriptions/acknowledged` | [`SubscriptionsAcknowledgedParams`] |
//! | `notifications/tasks/status`, `notifications/tasks` | [`Task`] |
//!
//! # Input requests and input responses
//!
//! An [`InputRequest`] is a request of a server to a client, in every revision. The same functions serve both sides:
//!
//! - [`validate`](InputRequest::validate) checks the request itself.
//! - [`required_capabilities`](InputRequest::required_capabilities) lists what the client must have declared.
//! - [`parse_response`](InputRequest::parse_response) and [`check_response`](InputRequest::check_response) check
//!   whether a response matches the request.
//!
//! A failed check is a [`ValidationError`], which names the member. A form is an [`ElicitSchema`]: of
//! fields, of choices ([`EnumSchema`]), or of a Rust type (`ElicitSchema::for_type`, with feature `schemars`).
//! [`ElicitResult::parse`] reads the answer as that type.
//!
//! ```
//! use mcp_proto::RawJson;
//! use mcp_proto::model::{BooleanSchema, ElicitParams, ElicitSchema, InputRequest, InputResponse, NumberSchema};
//!
//! let form = ElicitSchema::default()
//!     .field("nights", NumberSchema::integer().minimum(1))
//!     .optional("power", BooleanSchema::new().default(true));
//! let request = InputRequest::Elicit(ElicitParams::form("How long do you stay?", form));
//! request.validate()?;
//!
//! let wrong = RawJson::new(r#"{"action":"accept","content":{"nights":0}}"#)?;
//! assert_eq!(request.parse_response(&wrong).unwrap_err().to_string(), "`content.nights`: must be 1 or more");
//! let right = RawJson::new(r#"{"action":"accept","content":{"nights":2}}"#)?;
//! let InputResponse::Elicit(answer) = request.parse_response(&right)? else { unreachable!() };
//! #[derive(serde::Deserialize)]
//! struct Stay { nights: u32 }
//! assert_eq!(answer.parse::<Stay>()?.nights, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Differences between the revisions
//!
//! An application makes one value for all revisions. The table lists how the engines change it; everything else exists
//! in all revisions. A type "with" something is like the type apart from that row. "Left out" means that the member is
//! not written, also in a value that replaces its type. "Refused" means
//! [`UseError::NotInVersion`](crate::UseError::NotInVersion), and nothing is sent. `initialize` is written for the
//! revision that it requests, whichever is negotiated.
//!
#![doc = include_str!("revisions.md")]

use alloc::vec::Vec;

use serde::Serialize;

use crate::json::{EncodeError, Serializer};
use crate::raw::RawJson;
use crate::shape;
use crate::version::Version;

mod apps;
pub(crate) mod base;
#[doc(hidden)]
pub mod codec;
mod completion;
mod content;
mod elicitation;
mod errors;
mod form;
mod input;
mod lifecycle;
mod map;
#[doc(hidden)]
pub mod message;
mod notifications;
mod prompts;
mod resources;
mod sampling;
pub(crate) mod string_enum;
mod tasks;
#[cfg(test)]
mod test_support;
mod tools;
pub(crate) mod union;

pub use apps::{
    UI_EXTENSION, UI_MIME_TYPE, UI_SCHEME, UiClientCapabilities, UiResourceCsp, UiResourceMeta,
    UiResourcePermissions, UiToolMeta, UiToolVisibility, is_ui_mime_type, is_ui_uri,
};
pub(crate) use apps::{complete_contents, has_tool_ui, raw_ui};
pub use base::{
    Annotations, CacheScope, Cursor, EmptyParams, EmptyResult, Icon, IconTheme, Implementation,
    PaginatedParams, ProgressToken, ResultType, Role, TaskMetadata,
};
pub use base::{ListItem, NotificationMeta, RequestMeta, RequestParams, ResultMeta, TraceContext};
pub use completion::{
    CompleteParams, CompleteResult, Completion, CompletionArgument, CompletionContext, CompletionReference,
    PromptReference, ResourceTemplateReference,
};
pub use content::{
    AudioContent, Content, ContentBlocks, EmbeddedResource, ImageContent, ResourceLink, TextContent,
};
pub use elicitation::{
    ElicitAction, ElicitFormParams, ElicitMode, ElicitParams, ElicitResult, ElicitSchema, ElicitUrlParams,
    ElicitValue, ElicitationCompleteParams,
};
pub use errors::ValidationError;
pub use errors::{
    MissingRequiredClientCapability, ResourceNotFound, UnsupportedProtocolVersion, UrlElicitationRequired,
};
#[cfg(feature = "http")]
pub(crate) use form::is_date;
#[cfg(feature = "schemars")]
pub(crate) use form::schema_settings;
pub use form::{
    BooleanSchema, ElicitOutcome, EnumOption, EnumSchema, LegacyTitledEnumSchema, NumberKind, NumberSchema,
    PrimitiveSchemaDefinition, StringFormat, StringSchema, TitledEnumItems, TitledMultiSelectEnumSchema,
    TitledSingleSelectEnumSchema, UntitledEnumItems, UntitledMultiSelectEnumSchema,
    UntitledSingleSelectEnumSchema,
};
pub use input::{
    InputRequest, InputRequests, InputRequiredResult, InputResponse, InputResponses, ListRootsResult, Root,
};
pub use lifecycle::{
    ClientCapabilities, ElicitationCapability, ListCapability, ResourcesCapability, RootsCapability,
    SamplingCapability, ServerCapabilities,
};
pub use lifecycle::{DiscoverResult, InitializeParams, InitializeResult};
pub use map::{Extra, Map};
pub use notifications::{
    CancelledParams, LoggingLevel, LoggingMessageParams, ProgressParams, SetLevelParams, SubscriptionFilter,
    SubscriptionsAcknowledgedParams, SubscriptionsListenParams, SubscriptionsListenResult,
};
pub use prompts::{
    GetPromptParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage,
};
pub use resources::{
    BlobResourceContents, ListResourceTemplatesResult, ListResourcesResult, ReadResourceParams,
    ReadResourceResult, Resource, ResourceContents, ResourceTemplate, ResourceUpdatedParams, SubscribeParams,
    TextResourceContents,
};
pub use sampling::{
    CreateMessageParams, CreateMessageResult, IncludeContext, ModelHint, ModelPreferences, SamplingBlocks,
    SamplingContent, SamplingMessage, StopReason, ToolChoice, ToolChoiceMode, ToolResultContent,
    ToolUseContent,
};
pub use tasks::{
    CancelTaskParams, CreateTaskResult, GetTaskParams, GetTaskPayloadParams, ListTasksResult,
    RelatedTaskMetadata, Task, TaskId, TaskRequestsCapability, TaskStatus, TaskTtl, TasksCapability,
    UpdateTaskParams,
};
pub use tools::{
    CallToolParams, CallToolResult, ListToolsResult, TaskSupport, Tool, ToolAnnotations, ToolExecution,
    lacks_content,
};

/// Encodes a value as JSON in the shape of a revision, as the engines write it.
///
/// Members that an engine adds to a result (`resultType`, `_meta`, …) are not included.
///
/// # Errors
///
/// [`EncodeError::NotInVersion`] if the revision has no form for the value, and the other variants if it cannot be
/// expressed as JSON.
pub fn encode_for<T: Serialize + ?Sized>(version: Version, value: &T) -> Result<RawJson, EncodeError> {
    let mut out = Vec::new();
    Serializer::shaped(&mut out, value, shape::table(version))?;
    Ok(RawJson::trusted(out.into()))
}
