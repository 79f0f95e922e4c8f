//! Messages of webhooks: subscriptions, and the bodies of deliveries.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt;

use mcp_proto::http::Url;
use mcp_proto::model::{Cursor, ResultType};
use mcp_proto::{RawJson, message, string_enum};
use serde::{Deserialize, Deserializer, Serialize};

use super::{DeliveryMode, EventErrorObject, EventOccurrence, Millis, Nullable};
use crate::webhook::Secret;

string_enum! {
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
