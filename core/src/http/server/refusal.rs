//! Refusals of requests.

use alloc::format;

use super::exchange::HeadRejection;
use crate::http::fields;
use crate::rpc::RpcError;
use crate::rpc::envelope::MalformedMessage;

/// A refusal: its status and its error.
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) error: RpcError,
}

impl Refusal {
    pub(super) fn new(status: u16, message: impl Into<alloc::borrow::Cow<'static, str>>) -> Self {
        Self { status, error: RpcError::invalid_request(message) }
    }
}

pub(super) fn no_session() -> Refusal {
    Refusal::new(400, format!("`{}` is missing: `initialize` begins a session", fields::SESSION_ID)) // HTTP-069
}

pub(super) fn unknown_session() -> Refusal {
    Refusal::new(404, "the session is unknown or over") // HTTP-071
}

pub(super) fn overloaded(reason: &'static str) -> Refusal {
    Refusal { status: 503, error: RpcError::internal(reason) }
}

pub(super) fn shutting_down() -> Refusal {
    overloaded("the server is shutting down")
}

pub(super) fn too_long(limit: u64) -> Refusal {
    Refusal::new(413, format!("the body is longer than {limit} bytes"))
}

pub(super) fn unsupported_version() -> Refusal {
    Refusal::new(400, format!("`{}` names no revision that is served here", fields::PROTOCOL_VERSION))
}

pub(super) fn unknown_event_id() -> Refusal {
    Refusal::new(400, format!("`{}` names no event that can be gone on from", fields::LAST_EVENT_ID)) // SSE-024
}

/// Returns the refusal of a body that is not a valid message.
pub(super) fn malformed(reason: MalformedMessage) -> Refusal {
    Refusal { status: 400, error: RpcError::new(reason.code(), format!("{reason}")) }
}

pub(super) fn repeated_id() -> Refusal {
    Refusal::new(400, "a request with this id is under way")
}

pub(super) fn no_batches() -> Refusal {
    Refusal::new(400, "batches exist in 2025-03-26 alone")
}

impl HeadRejection {
    /// Returns the refusal; `limit` is the length of the longest body, in bytes.
    pub(super) fn to_refusal(self, limit: u64) -> Refusal {
        match self {
            Self::ContentType => Refusal::new(415, "`Content-Type` must be application/json"), // HTTP-013
            Self::ContentEncoding => Refusal::new(415, "`Content-Encoding` must be none"),
            Self::Accept => {
                Refusal::new(406, "`Accept` must list application/json and text/event-stream") // HTTP-011
            }
            Self::AcceptEvents => Refusal::new(406, "`Accept` must list text/event-stream"), // HTTP-048
            Self::BodyTooLong => too_long(limit),                                            // HTTP-081
        }
    }
}
