//! Typed messages: every value of the protocol, the superset of all revisions.
//!
//! The names are the specification's, in Rust's spelling. Values that pass through borrow from the message that they
//! came in ([`CallToolResult`], [`Content`], …; `into_owned` ends that); values that are stored own what they hold
//! ([`Tool`], [`Resource`], …). `new` takes what must be there, a method per member adds the rest. Members that this
//! version does not know are kept in `extra`, words that it does not know in a variant `Other`, kinds of content in one
//! of the same name: reading is strict on structure and lenient on vocabulary. The structs are messages as they stand
//! on the wire, so they can be read from JSON text by anything that is given a [`RawJson`], and written by any serde
//! serializer; the engines write them in the shape of the revision that the peer speaks.
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
//! | `tools/call` | [`CallToolParams`] | [`CallToolResult`], [`InputRequiredResult`] |
//! | `resources/list` | [`PaginatedParams`] | [`ListResourcesResult`] |
//! | `resources/templates/list` | [`PaginatedParams`] | [`ListResourceTemplatesResult`] |
//! | `resources/read` | [`ReadResourceParams`] | [`ReadResourceResult`], [`InputRequiredResult`] |
//! | `resources/subscribe`, `resources/unsubscribe` | [`SubscribeParams`] | [`EmptyResult`] |
//! | `prompts/list` | [`PaginatedParams`] | [`ListPromptsResult`] |
//! | `prompts/get` | [`GetPromptParams`] | [`GetPromptResult`], [`InputRequiredResult`] |
//! | `completion/complete` | [`CompleteParams`] | [`CompleteResult`] |
//! | `logging/setLevel` | [`SetLevelParams`] | [`EmptyResult`] |
//! | `subscriptions/listen` | [`SubscriptionsListenParams`] | [`SubscriptionsListenResult`] |
//! | `roots/list` | [`EmptyParams`] | [`ListRootsResult`] |
//! | `sampling/createMessage` | [`CreateMessageParams`] | [`CreateMessageResult`] |
//! | `elicitation/create` | [`ElicitParams`] | [`ElicitResult`] |
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
//!
//! Tasks are not typed: `task` and what belongs to it are in `extra`.
//!
//! # Questions and answers
//!
//! What a server can ask of a client is an [`InputRequest`], in every revision. It says whether it is right in itself
//! ([`validate`](InputRequest::validate)), what the client must have declared ([`needs`](InputRequest::needs)), and
//! whether an answer fits it ([`read`](InputRequest::read), [`check`](InputRequest::check)): the same functions for who
//! asks and for who answers. What does not fit is a [`Misfit`], which names the place. A form is an [`ElicitSchema`]: of
//! fields, of choices ([`EnumSchema`]), or of a Rust type (`ElicitSchema::of`, with feature `schemars`); its answer is
//! read as one by [`ElicitResult::parse`].
//!
//! ```
//! use mcp_proto::RawJson;
//! use mcp_proto::model::{BooleanSchema, ElicitParams, ElicitSchema, InputRequest, InputResponse, NumberSchema};
//!
//! let form = ElicitSchema::default()
//!     .field("nights", NumberSchema::integer().minimum(1))
//!     .optional("power", BooleanSchema::new().default(true));
//! let question = InputRequest::Elicit(ElicitParams::form("How long do you stay?", form));
//! question.validate()?;
//!
//! let wrong = RawJson::new(r#"{"action":"accept","content":{"nights":0}}"#)?;
//! assert_eq!(question.read(&wrong).unwrap_err().to_string(), "`content.nights`: must be 1 or more");
//! let right = RawJson::new(r#"{"action":"accept","content":{"nights":2}}"#)?;
//! let InputResponse::Elicit(answer) = question.read(&right)? else { unreachable!() };
//! #[derive(serde::Deserialize)]
//! struct Stay { nights: u32 }
//! assert_eq!(answer.parse::<Stay>()?.nights, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What each revision has
//!
//! An application makes one value for all revisions; this is what becomes of it. What is not listed exists in all of
//! them, and a type "with" something is like the type but for what is said there. "Left out" means that the member is
//! not written, also where it stands in something that is written in place of its type. "Refused" is [`UseError::NotInVersion`](crate::UseError::NotInVersion), and nothing is sent.
//! `initialize` is written for the revision that it asks for, whatever comes of it.
//!
#![doc = include_str!("revisions.md")]

use alloc::vec::Vec;

use serde::Serialize;

use crate::json::{EncodeError, Serializer};
use crate::raw::RawJson;
use crate::shape;
use crate::version::Version;

mod base;
mod capabilities;
pub(crate) mod codec;
mod completion;
mod content;
mod elicitation;
mod errors;
#[cfg(test)]
mod for_tests;
mod form;
mod id;
mod input;
mod lifecycle;
mod map;
pub(crate) mod message;
mod meta;
mod misfit;
mod notifications;
pub(crate) mod own;
mod prompts;
mod request;
mod resources;
mod roots;
mod sampling;
mod tools;
pub(crate) mod union;
pub(crate) mod words;

pub use base::{
    Annotations, CacheScope, Cursor, EmptyParams, EmptyResult, Icon, IconTheme, Implementation,
    PaginatedParams, ProgressToken, ResultType, Role,
};
pub use capabilities::{
    ClientCapabilities, ElicitationCapability, ListCapability, ResourcesCapability, RootsCapability,
    SamplingCapability, ServerCapabilities,
};
pub use completion::{
    CompleteParams, CompleteResult, Completion, CompletionArgument, CompletionContext, CompletionReference,
    PromptReference, ResourceTemplateReference,
};
pub use content::{AudioContent, Blocks, Content, EmbeddedResource, ImageContent, ResourceLink, TextContent};
pub use elicitation::{
    ElicitAction, ElicitFormParams, ElicitMode, ElicitParams, ElicitResult, ElicitSchema, ElicitUrlParams,
    ElicitValue, ElicitationCompleteParams,
};
pub use errors::{
    MissingRequiredClientCapability, ResourceNotFound, UnsupportedProtocolVersion, UrlElicitationRequired,
};
#[cfg(feature = "schemars")]
pub(crate) use form::settings;
pub use form::{
    BooleanSchema, Elicited, EnumOption, EnumSchema, LegacyTitledEnumSchema, NumberKind, NumberSchema,
    PrimitiveSchemaDefinition, StringFormat, StringSchema, TitledEnumItems, TitledMultiSelectEnumSchema,
    TitledSingleSelectEnumSchema, UntitledEnumItems, UntitledMultiSelectEnumSchema,
    UntitledSingleSelectEnumSchema,
};
pub use input::{InputRequest, InputRequests, InputRequiredResult, InputResponse, InputResponses};
pub use lifecycle::{DiscoverResult, InitializeParams, InitializeResult};
pub use map::{Extra, Map};
pub use meta::{NotificationMeta, RequestMeta, ResultMeta, TraceContext};
pub use misfit::Misfit;
pub use notifications::{
    CancelledParams, LoggingLevel, LoggingMessageParams, ProgressParams, SetLevelParams, SubscriptionFilter,
    SubscriptionsAcknowledgedParams, SubscriptionsListenParams, SubscriptionsListenResult,
};
pub use prompts::{
    GetPromptParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage,
};
pub use request::{Listed, Request};
pub use resources::{
    BlobResourceContents, ListResourceTemplatesResult, ListResourcesResult, ReadResourceParams,
    ReadResourceResult, Resource, ResourceContents, ResourceTemplate, ResourceUpdatedParams, SubscribeParams,
    TextResourceContents,
};
pub use roots::{ListRootsResult, Root};
pub use sampling::{
    CreateMessageParams, CreateMessageResult, IncludeContext, ModelHint, ModelPreferences, SamplingBlocks,
    SamplingContent, SamplingMessage, StopReason, ToolChoice, ToolChoiceMode, ToolResultContent,
    ToolUseContent,
};
pub use tools::{
    CallToolParams, CallToolResult, ListToolsResult, TaskSupport, Tool, ToolAnnotations, ToolExecution,
};

/// A value as JSON in the shape of a revision, as the engines write it
///
/// The stamps that an engine puts on a result (`resultType`, `_meta`, …) are not part of it. An error
/// ([`EncodeError::NotInVersion`]) says what the revision has no form for.
pub fn encode_for<T: Serialize + ?Sized>(version: Version, value: &T) -> Result<RawJson, EncodeError> {
    let mut out = Vec::new();
    Serializer::shaped(&mut out, value, shape::table(version))?;
    Ok(RawJson::trusted(out.into()))
}
