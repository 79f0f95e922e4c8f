//! Messages of the extension, its errors, and the profiles in which implementations of it differ.
//!
//! Reading is lenient where peers differ: an absent cursor is `null`, an absent `truncated` is `false`, `payloadSchema` and
//! `delivery.mode` may be absent, and both sets of error codes are known. Writing follows a [`Profile`].

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use mcp_proto::http::Url;
use mcp_proto::model::message::IntoStatic;
use mcp_proto::model::{Cursor, EmptyResult, RequestParams, ResultType};
use mcp_proto::{Capabilities, RawJson, RpcError, Version, message, string_enum};

use crate::webhook::Secret;

/// Identifier of the extension (EVT-001).
pub const EXTENSION: &str = "io.modelcontextprotocol/events";
/// Member of the capability object by which drafts, and ChatGPT, declare events.
pub const CAPABILITY: &str = "events";
/// Setting of the extension: the server sends [`LIST_CHANGED`] (EVT-002).
pub const LIST_CHANGED_SETTING: &str = "listChanged";
/// Member of the filter of `subscriptions/listen` that asks for [`LIST_CHANGED`] (EVT-017, EVT-018).
pub const LISTEN_MEMBER: &str = "eventsListChanged";

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

    /// Category of a failed request to a webhook receiver: all that a subscriber is told about it (EVT-101).
    CallbackFailure {
        /// No connection was made.
        ConnectionRefused = "connection_refused",
        /// There was no answer in time.
        Timeout = "timeout",
        /// TLS failed.
        TlsError = "tls_error",
        /// The answer was 3xx or 4xx.
        Http4xx = "http_4xx",
        /// The answer was 5xx.
        Http5xx = "http_5xx",
        /// The challenge was not echoed.
        ChallengeFailed = "challenge_failed",
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

/// URL of a receiver, as it was sent. Its debug output omits the query, which may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct CallbackUrl(pub String);

impl fmt::Debug for CallbackUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Url::redacted(&self.0))
    }
}

impl<T: Into<String>> From<T> for CallbackUrl {
    fn from(url: T) -> Self {
        Self(url.into())
    }
}

impl Serialize for CallbackUrl {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CallbackUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
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

    /// Member `delivery` of `events/subscribe`.
    WebhookDelivery {
        /// URL of the receiver: `https` (EVT-071).
        url: CallbackUrl = "url",
        /// Secret of the subscription (EVT-072).
        secret: Secret = "secret",
    } {
        /// `webhook`, and what is meant if it is absent. Another one is [`EventsError::Unsupported`].
        opt mode: DeliveryMode = "mode",
    }

    /// Member `delivery` of `events/unsubscribe`.
    WebhookTarget {
        /// URL of the receiver, as it was subscribed with.
        url: CallbackUrl = "url",
    } {
        /// `webhook`, and what is meant if it is absent.
        opt mode: DeliveryMode = "mode",
    }

    /// Parameters of `events/subscribe` (EVT-074, EVT-075).
    SubscribeEventsParams<'a> {
        /// Name of the type.
        name: Cow<'a, str> as CowStr = "name",
        /// Receiver and secret.
        delivery: WebhookDelivery = "delivery",
    } {
        /// Arguments; absent for `{}`.
        opt arguments: RawJson as Object = "arguments",
        /// Position to replay from, if there is no such subscription (EVT-078).
        opt cursor: Cursor = "cursor",
        /// Age of the oldest event that is wanted, in milliseconds (EVT-143).
        opt max_age_ms: u64 as Integer = "maxAgeMs",
        /// Suggested time to live: absent for the server's default, `null` for no expiry (EVT-082).
        any ttl_ms: Nullable<Millis> = "ttlMs",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Result of `events/subscribe` (EVT-080).
    SubscribeEventsResult {
        /// Id, by which deliveries are routed (EVT-076).
        id: String = "id",
        /// Time before which to refresh, ISO 8601; `null` for no expiry (EVT-081, EVT-083).
        refresh_before: Nullable<String> = "refreshBefore",
    } {
        /// Watermark: everything at or before it is acknowledged or given up (EVT-099); a server writes it always.
        any cursor: Nullable<String> = "cursor",
        /// True if events were skipped (EVT-144); absent means false, a server writes it always.
        opt truncated: bool = "truncated",
        /// State of the deliveries, on a refresh.
        opt delivery_status: DeliveryStatus = "deliveryStatus",
        /// Kind of the result (EVT-007). If a handler leaves it unset, the server's engine adds it.
        opt result_type: ResultType = "resultType",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// State of the deliveries of a subscription.
    DeliveryStatus {
        /// False if they were suspended, until this refresh (EVT-100).
        active: bool = "active",
    } {
        /// Time of the last acknowledged delivery, ISO 8601.
        any last_delivery_at: Nullable<String> = "lastDeliveryAt",
        /// Category of the last failure (EVT-101).
        any last_error: Nullable<CallbackFailure> = "lastError",
        /// Time since which every attempt has failed, ISO 8601.
        opt failed_since: String = "failedSince",
        /// True if deliveries are delayed at the request of the receiver (EVT-102).
        opt throttled: bool = "throttled",
        /// Time until they go on, in milliseconds.
        opt retry_after_ms: u64 as Integer = "retryAfterMs",
    }

    /// Parameters of `events/unsubscribe` (EVT-130).
    UnsubscribeEventsParams<'a> {
        /// Name of the type.
        name: Cow<'a, str> as CowStr = "name",
        /// Receiver.
        delivery: WebhookTarget = "delivery",
    } {
        /// Arguments; absent for `{}`.
        opt arguments: RawJson as Object = "arguments",
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

    /// Control envelope of a webhook: events were skipped (EVT-104).
    GapEnvelope ("type" = "gap") {
    } {
        /// Position to resume from; a server writes it always (EVT-140).
        any cursor: Nullable<String> = "cursor",
    }

    /// Control envelope of a webhook: the subscription has ended (EVT-104).
    TerminatedEnvelope ("type" = "terminated") {
        /// The cause.
        error: EventErrorObject = "error",
    } {
    }

    /// Control envelope of a webhook: a challenge (EVT-114).
    VerificationEnvelope ("type" = "verification") {
        /// The nonce to echo.
        challenge: String = "challenge",
    } {
    }

    /// Answer of a receiver to a [`VerificationEnvelope`].
    ChallengeEcho {
        /// The nonce of the challenge.
        challenge: String = "challenge",
    } {
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

/// Body of a delivery (EVT-034, EVT-103).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Envelope {
    /// An occurrence: the body has no member `type`.
    Event(EventOccurrence),
    /// Events were skipped.
    Gap(GapEnvelope),
    /// The subscription has ended.
    Terminated(TerminatedEnvelope),
    /// A challenge.
    Verification(VerificationEnvelope),
    /// A control envelope of another type, which is acknowledged and not forwarded.
    Unknown,
}

impl Envelope {
    /// Reads a body.
    ///
    /// # Errors
    ///
    /// An error that names the member that is missing or wrong.
    pub fn read(body: &RawJson) -> Result<Self, serde_json::Error> {
        let Some(kind) = body.member("type") else { return body.parse().map(Self::Event) };
        match kind.string().as_deref() {
            Some("gap") => body.parse().map(Self::Gap),
            Some("terminated") => body.parse().map(Self::Terminated),
            Some("verification") => body.parse().map(Self::Verification),
            _ => Ok(Self::Unknown),
        }
    }
}

// Errors.

/// Kind of an error of the extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventsErrorKind {
    /// A parameter is missing or wrong.
    InvalidParams,
    /// The event type or the subscription does not exist.
    NotFound,
    /// The caller may not do this: stop.
    Forbidden,
    /// A limit of the server is reached.
    ResourceExhausted,
    /// The server does not do this, or the type has changed: list and subscribe again.
    Unsupported,
    /// The receiver did not prove that it wants deliveries.
    CallbackEndpoint,
    /// The server, or what the events come from, fails for now.
    Internal,
}

impl EventsErrorKind {
    const ALL: [Self; 7] = [
        Self::InvalidParams,
        Self::NotFound,
        Self::Forbidden,
        Self::ResourceExhausted,
        Self::Unsupported,
        Self::CallbackEndpoint,
        Self::Internal,
    ];

    /// Returns the code in a set.
    #[must_use]
    pub const fn code(self, codes: ErrorCodes) -> i64 {
        let first = match codes {
            ErrorCodes::Sep => -32023,
            ErrorCodes::Sketch => -32011,
        };
        match self {
            Self::InvalidParams => -32602,
            Self::NotFound => first,
            Self::Forbidden => first - 1,
            Self::ResourceExhausted => first - 2,
            Self::Unsupported => first - 3,
            Self::CallbackEndpoint => first - 4,
            Self::Internal => -32603,
        }
    }

    /// Returns the kind of a code of either set.
    #[must_use]
    pub fn of_code(code: i64) -> Option<Self> {
        let is = |kind: &Self| code == kind.code(ErrorCodes::Sep) || code == kind.code(ErrorCodes::Sketch);
        Self::ALL.into_iter().find(is)
    }

    const fn message(self) -> &'static str {
        match self {
            Self::InvalidParams => "InvalidParams",
            Self::NotFound => "NotFound",
            Self::Forbidden => "Forbidden",
            Self::ResourceExhausted => "ResourceExhausted",
            Self::Unsupported => "Unsupported",
            Self::CallbackEndpoint => "CallbackEndpointError",
            Self::Internal => "InternalError",
        }
    }
}

/// An error of the extension.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventsError {
    /// A parameter is missing or wrong, with the reason.
    InvalidParams(String),
    /// There is no such event type (EVT-021).
    EventNotFound,
    /// There is no such subscription (EVT-130).
    SubscriptionNotFound,
    /// The caller may not do this, with the reason (EVT-070, EVT-088).
    Forbidden(String),
    /// A limit is reached (EVT-087).
    ResourceExhausted {
        /// Name of the limit.
        limit: &'static str,
        /// Its value.
        max: u64,
    },
    /// The type does not have this mode of delivery (EVT-047).
    UnsupportedMode(DeliveryMode),
    /// The type has changed in place (EVT-021).
    SchemaChanged {
        /// The member of the type: `payloadSchema` or `inputSchema`.
        feature: &'static str,
    },
    /// The receiver did not prove that it wants deliveries (EVT-115).
    CallbackEndpoint(CallbackFailure),
    /// The server, or what the events come from, fails for now; with a text for clients.
    Internal(String),
}

impl EventsError {
    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> EventsErrorKind {
        match self {
            Self::InvalidParams(_) => EventsErrorKind::InvalidParams,
            Self::EventNotFound | Self::SubscriptionNotFound => EventsErrorKind::NotFound,
            Self::Forbidden(_) => EventsErrorKind::Forbidden,
            Self::ResourceExhausted { .. } => EventsErrorKind::ResourceExhausted,
            Self::UnsupportedMode(_) | Self::SchemaChanged { .. } => EventsErrorKind::Unsupported,
            Self::CallbackEndpoint(_) => EventsErrorKind::CallbackEndpoint,
            Self::Internal(_) => EventsErrorKind::Internal,
        }
    }

    /// Returns the error as a member of a message.
    #[must_use]
    pub fn to_object(&self, profile: &Profile) -> EventErrorObject {
        let message = match self {
            Self::InvalidParams(reason) | Self::Internal(reason) => reason,
            other => other.kind().message(),
        };
        let error = EventErrorObject::new(self.kind().code(profile.codes), message);
        let data = match self {
            Self::InvalidParams(_) | Self::Internal(_) => return error,
            Self::EventNotFound => ErrorData::kind("event"),
            Self::SubscriptionNotFound => ErrorData::kind("subscription"),
            Self::Forbidden(reason) => ErrorData { reason: Some(reason), ..ErrorData::default() },
            Self::ResourceExhausted { limit, max } => {
                ErrorData { limit: Some(limit), max: Some(*max), ..ErrorData::default() }
            }
            Self::UnsupportedMode(mode) => ErrorData {
                feature: Some("deliveryMode"),
                value: Some(mode.as_str()),
                ..ErrorData::default()
            },
            Self::SchemaChanged { feature } => {
                ErrorData { feature: Some(feature), reason: Some("schema_changed"), ..ErrorData::default() }
            }
            Self::CallbackEndpoint(failure) => {
                ErrorData { reason: Some(failure.as_str()), ..ErrorData::default() }
            }
        };
        match RawJson::encode(&data) {
            Ok(data) => error.data(data),
            Err(_) => error,
        }
    }

    /// Returns the error as the answer of a request.
    #[must_use]
    pub fn to_rpc(&self, profile: &Profile) -> RpcError {
        let object = self.to_object(profile);
        let error = RpcError::new(object.code, object.message);
        match object.data {
            Some(data) => error.with_data(data),
            None => error,
        }
    }
}

/// Member `data` of an error.
#[derive(Default, Serialize)]
struct ErrorData<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    feature: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl<'a> ErrorData<'a> {
    fn kind(kind: &'a str) -> Self {
        Self { kind: Some(kind), ..Self::default() }
    }
}

// Profiles and the capability.

/// Set of error codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ErrorCodes {
    /// -32023 to -32027: SEP-3415.
    Sep,
    /// -32011 to -32015: its sketch, ChatGPT, and the conformance suite.
    Sketch,
}

/// How a server forms `webhook-id` of an event (EVT-091).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum WebhookIdRule {
    /// It is the event id.
    EventId,
    /// It is an id of the message: `msg_event_…`.
    Message,
}

/// Choices on the wire in which implementations differ, for one peer.
///
/// Reading does not depend on it: each side reads what any profile writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Profile {
    /// Error codes.
    pub codes: ErrorCodes,
    /// `webhook-id` of events.
    pub webhook_id: WebhookIdRule,
    /// Whether [`EXTENSION`] is declared.
    pub declares_extension: bool,
    /// Whether [`CAPABILITY`] is declared.
    pub declares_member: bool,
    /// Whether the end of an unknown subscription is a success instead of `NotFound` (EVT-130).
    pub unsubscribe_is_idempotent: bool,
    /// Whether `gap` and `terminated` are sent to webhooks (EVT-104).
    pub has_control_envelopes: bool,
    /// Whether poll and webhook exist under revisions with a handshake (EVT-008).
    pub is_legacy_allowed: bool,
}

impl Profile {
    /// SEP-3415, declared in both places, so that every client finds it.
    pub const SEP: Self = Self {
        codes: ErrorCodes::Sep,
        webhook_id: WebhookIdRule::EventId,
        declares_extension: true,
        declares_member: true,
        unsubscribe_is_idempotent: false,
        has_control_envelopes: true,
        is_legacy_allowed: false,
    };

    /// ChatGPT, and clients that follow it.
    pub const CHATGPT: Self = Self {
        codes: ErrorCodes::Sketch,
        webhook_id: WebhookIdRule::EventId,
        declares_extension: true,
        declares_member: true,
        unsubscribe_is_idempotent: true,
        has_control_envelopes: false,
        is_legacy_allowed: true,
    };

    /// Declares events among the capabilities of a server (EVT-001, EVT-002).
    ///
    /// Clients of revisions with a handshake see a declaration only if their methods are there (EVT-008), and never
    /// `listChanged`: they have no `subscriptions/listen`.
    #[must_use]
    pub fn declare(&self, capabilities: Capabilities, events: EventsCapability) -> Capabilities {
        let legacy = EventsCapability::new();
        let declared =
            [(Version::V2024_11_05, legacy, self.is_legacy_allowed), (Version::V2026_07_28, events, true)];
        declared.into_iter().filter(|(.., is_declared)| *is_declared).fold(
            capabilities,
            |all, (since, events, _)| {
                let all = match self.declares_extension {
                    // The identifier is valid, so nothing is refused.
                    true => all.clone().extension_since(EXTENSION, events.settings(), since).unwrap_or(all),
                    false => all,
                };
                if self.declares_member { all.with_member(CAPABILITY, events.settings(), since) } else { all }
            },
        )
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::SEP
    }
}

/// What a server declares about events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EventsCapability {
    /// Whether it sends `notifications/events/list_changed`.
    pub list_changed: bool,
}

impl EventsCapability {
    /// Creates the declaration of a server that does not announce changes.
    #[must_use]
    pub const fn new() -> Self {
        Self { list_changed: false }
    }

    fn settings(self) -> RawJson {
        let settings = if self.list_changed { r#"{"listChanged":true}"# } else { "{}" };
        RawJson::new(settings).unwrap_or_else(|_| RawJson::empty_object())
    }

    /// Sets whether changes of the list are announced.
    #[must_use]
    pub const fn list_changed(mut self, list_changed: bool) -> Self {
        self.list_changed = list_changed;
        self
    }
}

/// Returns what a capability object declares about events, in either place (EVT-001, EVT-004).
///
/// A setting that is not an object is malformed and declares nothing; `events` may be `true`. If both places declare
/// events, one `listChanged` is enough.
#[must_use]
pub fn declared(capabilities: &RawJson) -> Option<EventsCapability> {
    let extension = capabilities.member("extensions").and_then(|map| map.member(EXTENSION));
    let member = capabilities.member(CAPABILITY);
    let places =
        [extension.filter(RawJson::is_object), member.filter(|m| m.is_object() || m.as_str() == "true")];
    places.into_iter().flatten().fold(None, |found: Option<EventsCapability>, settings| {
        let list_changed = settings.member(LIST_CHANGED_SETTING).is_some_and(|flag| flag.as_str() == "true");
        Some(EventsCapability { list_changed: list_changed || found.is_some_and(|found| found.list_changed) })
    })
}

#[cfg(test)]
mod tests;
