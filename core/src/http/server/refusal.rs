//! Refusals of requests.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use super::exchange_table::HeadRejection;
use crate::http::fields;
use crate::rpc::RpcError;
use crate::rpc::envelope::MalformedMessage;

/// What becomes of a request by its head.
pub(super) enum HeadDecision {
    /// It is served, once the decision about its token is there.
    Admitted,
    Refused(Refusal),
    /// It has its response already.
    Answered,
}

/// A refusal: its status and its error. It is boxed because most requests are not refused.
pub(super) struct Refusal(Box<(u16, RpcError)>);

impl Refusal {
    /// Creates the refusal of an invalid request.
    #[cold]
    #[inline(never)]
    pub(super) fn new(status: u16, message: &'static str) -> Self {
        Self::with_error(status, RpcError::invalid_request(message))
    }

    /// Creates the refusal of a request with a field that has this fault.
    #[cold]
    #[inline(never)]
    fn of_field(field: &str, fault: &str) -> Self {
        Self::with_error(400, RpcError::invalid_request(format!("`{field}` {fault}")))
    }

    #[cold]
    #[inline(never)]
    pub(super) fn with_error(status: u16, error: RpcError) -> Self {
        Self(Box::new((status, error)))
    }

    pub(super) fn status(&self) -> u16 {
        self.0.0
    }

    pub(super) fn error(&self) -> &RpcError {
        &self.0.1
    }
}

pub(super) fn no_session() -> Refusal {
    Refusal::of_field(fields::SESSION_ID, "is missing: `initialize` begins a session") // HTTP-069
}

pub(super) fn unknown_session() -> Refusal {
    Refusal::new(404, "the session is unknown or over") // HTTP-071
}

#[cold]
#[inline(never)]
pub(super) fn overloaded(reason: &'static str) -> Refusal {
    Refusal::with_error(503, RpcError::internal(reason))
}

pub(super) fn shutting_down() -> Refusal {
    overloaded("the server is shutting down")
}

pub(super) fn too_long(limit: u64) -> Refusal {
    let mut message = String::from("the body is longer than ");
    message.push_str(itoa::Buffer::new().format(limit));
    message.push_str(" bytes");
    Refusal::with_error(413, RpcError::invalid_request(message))
}

pub(super) fn unsupported_version() -> Refusal {
    Refusal::of_field(fields::PROTOCOL_VERSION, "names no revision that is served here")
}

pub(super) fn unknown_event_id() -> Refusal {
    Refusal::of_field(fields::LAST_EVENT_ID, "names no event that can be gone on from") // SSE-024
}

/// Returns the refusal of a body that is not a valid message.
pub(super) fn malformed(reason: MalformedMessage) -> Refusal {
    Refusal::with_error(400, reason.to_error())
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
