//! Errors of the extension, with the codes of both sets.

use alloc::string::String;

use mcp_proto::{RawJson, RpcError};
use serde::{Deserialize, Serialize};

use super::{CallbackFailure, DeliveryMode, EventErrorObject, Profile};

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
