//! Messages of the extension, its errors, and the profiles in which implementations of it differ.
//!
//! Reading is lenient where peers differ: an absent cursor is `null`, an absent `truncated` is `false`, `payloadSchema` and
//! `delivery.mode` may be absent, and both sets of error codes are known. Writing follows a [`Profile`].

mod errors;
mod profile;
mod webhooks;

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use mcp_proto::model::message::IntoStatic;
use mcp_proto::model::{Cursor, EmptyResult, RequestParams, ResultType};
use mcp_proto::{CustomList, RawJson, message, string_enum};
use serde::{Deserialize, Deserializer, Serialize};

pub use errors::{ErrorCodes, EventsError, EventsErrorKind};
pub use profile::{EventsCapability, Profile, WebhookIdRule, declared};
pub use webhooks::{
    CallbackFailure, CallbackUrl, ChallengeEcho, DeliveryStatus, Envelope, GapEnvelope,
    SubscribeEventsParams, SubscribeEventsResult, TerminatedEnvelope, UnsubscribeEventsParams,
    VerificationEnvelope, WebhookDelivery, WebhookTarget,
};

/// Identifier of the extension (EVT-001).
pub const EXTENSION: &str = "io.modelcontextprotocol/events";
/// Member of the capability object by which drafts, and ChatGPT, declare events.
pub const CAPABILITY: &str = "events";
/// Setting of the extension: the server sends [`LIST_CHANGED`] (EVT-002).
pub const LIST_CHANGED_SETTING: &str = "listChanged";
/// Member of the filter of `subscriptions/listen` that asks for [`LIST_CHANGED`] (EVT-017, EVT-018).
pub const LISTEN_MEMBER: &str = "eventsListChanged";
/// The list of types, whose changes clients can subscribe to (EVT-016, EVT-019).
///
/// A server registers it by `server::Config::custom_list`, as its extension does. A client registers it by `client::Config::custom_list`,
/// and subscribes to it by `SubscriptionFilter::custom_list`.
pub const EVENTS_LIST: CustomList = CustomList::new(LISTEN_MEMBER, LIST_CHANGED);

/// Method that lists event types (EVT-010).
pub const LIST: &str = "events/list";
/// Method that polls one subscription (EVT-040).
pub const POLL: &str = "events/poll";
/// Method that opens a stream of one subscription (EVT-050).
pub const STREAM: &str = "events/stream";
/// Method that makes or refreshes a webhook subscription (EVT-075).
pub const SUBSCRIBE: &str = "events/subscribe";
/// Method that ends a webhook subscription (EVT-130).
pub const UNSUBSCRIBE: &str = "events/unsubscribe";
/// Notification that event types or their descriptors have changed (EVT-016).
pub const LIST_CHANGED: &str = "notifications/events/list_changed";
/// Notification that a stream has begun, or has a gap (EVT-051, EVT-055).
pub const ACTIVE: &str = "notifications/events/active";
/// Notification of one occurrence on a stream.
pub const EVENT: &str = "notifications/events/event";
/// Notification that a stream lives (EVT-056).
pub const HEARTBEAT: &str = "notifications/events/heartbeat";
/// Notification of an error after which the stream goes on (EVT-054).
pub const ERROR: &str = "notifications/events/error";
/// Notification that the subscription of a stream has ended (EVT-054).
pub const TERMINATED: &str = "notifications/events/terminated";

/// Length of the longest name of an event type, in bytes.
pub const MAX_NAME: usize = 256;
/// Length of the longest event id, in bytes.
pub const MAX_EVENT_ID: usize = 256;
/// Length of the longest cursor, in bytes.
pub const MAX_CURSOR: usize = 4096;

string_enum! {
    /// Way in which occurrences reach a client (EVT-012).
    DeliveryMode {
        /// The client asks for them: `events/poll`.
        Poll = "poll",
        /// They come on the stream of a request: `events/stream`.
        Push = "push",
        /// The server sends them to a URL: `events/subscribe`.
        Webhook = "webhook",
    }
}

/// A value that `null` stands for the absence of, where messages tell `null` from an absent member, or always have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Nullable<T>(pub Option<T>);

impl<T: Serialize> Serialize for Nullable<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Nullable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(Self)
    }
}

impl<T> IntoStatic for Nullable<T> {
    type Owned = Self;
    fn into_static(self) -> Self {
        self
    }
}

impl<T> From<Option<T>> for Nullable<T> {
    fn from(value: Option<T>) -> Self {
        Self(value)
    }
}

impl From<&str> for Nullable<String> {
    fn from(text: &str) -> Self {
        Self(Some(text.into()))
    }
}

impl Nullable<String> {
    /// Returns the text of a member that is absent, `null` or a text (EVT-140).
    #[must_use]
    pub fn text(member: Option<&Self>) -> Option<&str> {
        member?.0.as_deref()
    }
}

/// A time in whole milliseconds that a client suggests: any number is one, because none is refused (EVT-082).
///
/// Fractions are dropped, and negative numbers are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Millis(pub u64);

impl Serialize for Millis {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Millis {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "numbers out of range become the nearest"
    )]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(|millis| Self(millis as u64))
    }
}

message! {
    /// An event type (EVT-011).
    EventType {
        /// Name, which does not change; not empty.
        name: String = "name",
        /// Modes, at least one (EVT-012).
        delivery: Vec<DeliveryMode> as List = "delivery",
        /// JSON Schema of the arguments; some peers take a boolean.
        input_schema: RawJson = "inputSchema",
    } {
        /// JSON Schema of [`EventOccurrence::data`]. A server writes it always; a client reads types without it.
        opt payload_schema: RawJson = "payloadSchema",
        /// Description.
        opt description: String = "description",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of `events/list`.
    ListEventsParams {} {
        /// Cursor from the previous page; `None` for the first page.
        opt cursor: Cursor = "cursor",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Result of `events/list`: one page (EVT-010).
    ListEventsResult {
        /// The types.
        events: Vec<EventType> as List = "events",
    } {
        /// Cursor of the next page; absent on the last page.
        opt next_cursor: Cursor = "nextCursor",
        /// Kind of the result (EVT-007). If a handler leaves it unset, the server's engine adds it.
        opt result_type: ResultType = "resultType",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// An occurrence of an event, and the parameters of `notifications/events/event` (EVT-030).
    EventOccurrence {
        /// Id, the same on every path (EVT-031); not empty.
        event_id: String = "eventId",
        /// Name of its type.
        name: String = "name",
        /// Time at which it happened, ISO 8601 with a zone.
        timestamp: String = "timestamp",
        /// What happened; it fits the schema of its type (EVT-033). Untrusted, as the result of a tool is (EVT-160).
        data: RawJson as Object = "data",
    } {
        /// Position to resume from (push, webhook); a poll has it in its result.
        any cursor: Nullable<String> = "cursor",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of `events/poll` (EVT-040).
    PollEventsParams<'a> {
        /// Name of the type.
        name: Cow<'a, str> as CowStr = "name",
    } {
        /// Arguments; absent for `{}`.
        opt arguments: RawJson as Object = "arguments",
        /// Position; `None` for now: no events, and a fresh cursor (EVT-041).
        opt cursor: Cursor = "cursor",
        /// Age of the oldest event that is wanted, in milliseconds (EVT-143).
        opt max_age_ms: u64 as Integer = "maxAgeMs",
        /// Largest number of events; 0 and less are refused.
        opt max_events: u64 as Integer = "maxEvents",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Result of `events/poll` (EVT-042, EVT-043).
    PollEventsResult {
        /// The events, in order; empty if nothing happened.
        events: Vec<EventOccurrence> as List = "events",
    } {
        /// Position behind these events; a server writes it always.
        any cursor: Nullable<String> = "cursor",
        /// True if events were skipped (EVT-145); absent means false.
        opt truncated: bool = "truncated",
        /// True if more events are there now (EVT-044); absent means false.
        opt has_more: bool = "hasMore",
        /// Time to the next poll, in milliseconds (EVT-045); any other value than a number counts as absent.
        hint next_poll_ms: f64 as Number = "nextPollMs",
        /// Kind of the result (EVT-007). If a handler leaves it unset, the server's engine adds it.
        opt result_type: ResultType = "resultType",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of `events/stream` (EVT-050).
    StreamEventsParams<'a> {
        /// Name of the type.
        name: Cow<'a, str> as CowStr = "name",
    } {
        /// Arguments; absent for `{}`.
        opt arguments: RawJson as Object = "arguments",
        /// Position; `None` for now.
        opt cursor: Cursor = "cursor",
        /// Age of the oldest event that is wanted, in milliseconds (EVT-143).
        opt max_age_ms: u64 as Integer = "maxAgeMs",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of `notifications/events/active` (EVT-051, EVT-055).
    StreamActiveParams {} {
        /// Position of the stream; a server writes it always.
        any cursor: Nullable<String> = "cursor",
        /// True if events were skipped; absent means false.
        opt truncated: bool = "truncated",
        /// Metadata, with the id of the stream's request (EVT-052): [`NotificationMeta`](mcp_proto::model::NotificationMeta).
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of `notifications/events/heartbeat` (EVT-056).
    StreamHeartbeatParams {} {
        /// Position of the stream; a server writes it always.
        any cursor: Nullable<String> = "cursor",
        /// Metadata, with the id of the stream's request (EVT-052).
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of `notifications/events/error` and `notifications/events/terminated` (EVT-054).
    StreamErrorParams {
        /// The error.
        error: EventErrorObject = "error",
    } {
        /// Metadata, with the id of the stream's request (EVT-052).
        opt meta: RawJson as Object = "_meta",
    }

    /// An error as a member of a message.
    EventErrorObject {
        /// Code: [`EventsErrorKind::of_code`].
        code: i64 as Integer = "code",
        /// Message.
        message: String = "message",
    } {
        /// Details.
        any data: RawJson = "data",
    }
}

macro_rules! request_params {
    ($($params:ty, $method:expr, $result:ty;)*) => {$(
        impl RequestParams for $params {
            const METHOD: &'static str = $method;
            type Result = $result;
            fn read(result: &RawJson) -> Result<$result, serde_json::Error> {
                result.parse()
            }
        }
    )*};
}

request_params! {
    ListEventsParams, LIST, ListEventsResult;
    PollEventsParams<'_>, POLL, PollEventsResult;
    StreamEventsParams<'_>, STREAM, EmptyResult;
    SubscribeEventsParams<'_>, SUBSCRIBE, SubscribeEventsResult;
    UnsubscribeEventsParams<'_>, UNSUBSCRIBE, EmptyResult;
}

#[cfg(test)]
mod tests;
