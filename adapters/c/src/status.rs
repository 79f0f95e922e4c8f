//! Outcomes of functions and calls: a number, and a message for people.

use core::ffi::{CStr, c_char, c_int};

use mcp_proto::{CallError, UseError};

/// The outcome of a function, or of a call in an event. Errors are negative.
///
/// A function that returns an error has changed nothing and sent nothing, except for `MCP_ERROR_PANIC`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum mcp_status {
    /// Success.
    MCP_OK = 0,
    /// Success, and there is nothing: no event, nothing to write, no deadline, no such member or answer.
    MCP_DONE = 1,
    /// A null pointer, a handle of another kind, a wrong length, a size that is not set, an unknown flag or number.
    MCP_ERROR_INVALID_ARGUMENT = -1,
    /// A text is not UTF-8.
    MCP_ERROR_INVALID_UTF8 = -2,
    /// A text is not JSON, is nested more than 128 deep, or is not an object where one is needed.
    MCP_ERROR_INVALID_JSON = -3,
    /// The JSON value does not have the form that belongs here.
    MCP_ERROR_INVALID_VALUE = -4,
    /// The buffer is too small. The length that is needed was told.
    MCP_ERROR_BUFFER_TOO_SMALL = -5,
    /// The id names nothing, or something that has ended.
    MCP_ERROR_STALE = -6,
    /// The connection is not ready yet.
    MCP_ERROR_NOT_READY = -7,
    /// The connection has ended.
    MCP_ERROR_CLOSED = -8,
    /// The function must not be called now: input after its end, or more bytes consumed than there were.
    MCP_ERROR_WRONG_ORDER = -9,
    /// A limit is reached.
    MCP_ERROR_LIMIT = -10,
    /// The peer lacks the capability, or the revision in use has no such feature.
    MCP_ERROR_UNSUPPORTED = -11,
    /// The configuration does not declare the capability.
    MCP_ERROR_NOT_DECLARED = -12,
    /// The method or the member is reserved for the protocol.
    MCP_ERROR_RESERVED = -13,
    /// The feature needs `mcp_config.entropy`.
    MCP_ERROR_NO_ENTROPY = -14,

    /// The peer answered with an error: `mcp_event.code`, `text` and `json`.
    MCP_ERROR_RPC = -20,
    /// No answer came in time.
    MCP_ERROR_TIMED_OUT = -21,
    /// The call or its task was cancelled.
    MCP_ERROR_CANCELLED = -22,
    /// Input that the call needs was refused.
    MCP_ERROR_REFUSED = -23,
    /// The answer of the peer is not valid.
    MCP_ERROR_BAD_ANSWER = -24,
    /// The task is lost: the peer does not know it, or its time has passed.
    MCP_ERROR_TASK_LOST = -25,

    /// Another thread, or a caller further up, uses the handle.
    MCP_ERROR_BUSY = -40,
    /// A defect of this library: please report it. The handle is of no use any more.
    MCP_ERROR_PANIC = -41,
    /// The handle is of no use any more, after `MCP_ERROR_PANIC`. It can only be freed.
    MCP_ERROR_POISONED = -42,
}

use mcp_status::*;

impl mcp_status {
    const ALL: [(Self, &'static CStr); 25] = [
        (MCP_OK, c"success"),
        (MCP_DONE, c"nothing left"),
        (MCP_ERROR_INVALID_ARGUMENT, c"invalid argument"),
        (MCP_ERROR_INVALID_UTF8, c"not UTF-8"),
        (MCP_ERROR_INVALID_JSON, c"not JSON, or not an object"),
        (MCP_ERROR_INVALID_VALUE, c"a JSON value of the wrong form"),
        (MCP_ERROR_BUFFER_TOO_SMALL, c"the buffer is too small"),
        (MCP_ERROR_STALE, c"the id is unknown, or has ended"),
        (MCP_ERROR_NOT_READY, c"the connection is not ready yet"),
        (MCP_ERROR_CLOSED, c"the connection has ended"),
        (MCP_ERROR_WRONG_ORDER, c"not possible now"),
        (MCP_ERROR_LIMIT, c"a limit is reached"),
        (MCP_ERROR_UNSUPPORTED, c"the peer or the revision does not have it"),
        (MCP_ERROR_NOT_DECLARED, c"the capability is not declared by this side"),
        (MCP_ERROR_RESERVED, c"reserved for the protocol"),
        (MCP_ERROR_NO_ENTROPY, c"the configuration has no entropy"),
        (MCP_ERROR_RPC, c"the peer answered with an error"),
        (MCP_ERROR_TIMED_OUT, c"no answer in time"),
        (MCP_ERROR_CANCELLED, c"cancelled"),
        (MCP_ERROR_REFUSED, c"input was refused"),
        (MCP_ERROR_BAD_ANSWER, c"the answer of the peer is not valid"),
        (MCP_ERROR_TASK_LOST, c"the task is lost"),
        (MCP_ERROR_BUSY, c"the handle is in use"),
        (MCP_ERROR_PANIC, c"a defect of the library"),
        (MCP_ERROR_POISONED, c"the handle is of no use after a defect"),
    ];
}

/// Returns a short English text for a status. It is static and ends with NUL.
#[unsafe(no_mangle)]
pub extern "C" fn mcp_status_text(status: c_int) -> *const c_char {
    let known = mcp_status::ALL.iter().find(|(known, _)| *known as c_int == status);
    known.map_or(c"unknown status", |(_, text)| *text).as_ptr()
}

/// A status that is an error, and its message.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: mcp_status,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(status: mcp_status, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(crate) fn argument(message: &str) -> Self {
        Self::new(MCP_ERROR_INVALID_ARGUMENT, message)
    }

    pub(crate) fn value(message: impl core::fmt::Display) -> Self {
        Self::new(MCP_ERROR_INVALID_VALUE, message.to_string())
    }

    pub(crate) fn stale() -> Self {
        UseError::Stale.into()
    }
}

impl From<UseError> for Failure {
    fn from(error: UseError) -> Self {
        Self::new(use_status(&error), error.to_string())
    }
}

fn use_status(error: &UseError) -> mcp_status {
    match error {
        UseError::Stale => MCP_ERROR_STALE,
        UseError::Closed => MCP_ERROR_CLOSED,
        UseError::NotReady => MCP_ERROR_NOT_READY,
        UseError::Full(_) => MCP_ERROR_LIMIT,
        UseError::MissingPeerCapability(_) | UseError::NotInVersion { .. } => MCP_ERROR_UNSUPPORTED,
        UseError::NotDeclared(_) => MCP_ERROR_NOT_DECLARED,
        UseError::NoSealKeys => MCP_ERROR_NO_ENTROPY,
        UseError::ReservedMethod(_) | UseError::ReservedKey(_) => MCP_ERROR_RESERVED,
        _ => MCP_ERROR_INVALID_VALUE,
    }
}

/// Returns the status of a call that failed.
pub(crate) fn call_status(error: &CallError) -> mcp_status {
    match error {
        CallError::Rpc(_) => MCP_ERROR_RPC,
        CallError::TimedOut
        | CallError::TotalTimedOut
        | CallError::Misaddressed(_)
        | CallError::InputTimedOut => MCP_ERROR_TIMED_OUT,
        CallError::Cancelled | CallError::TaskCancelled { .. } => MCP_ERROR_CANCELLED,
        CallError::Closed(_) => MCP_ERROR_CLOSED,
        CallError::InputRefused(_) => MCP_ERROR_REFUSED,
        CallError::NotDeclared(_) => MCP_ERROR_NOT_DECLARED,
        CallError::TaskLost(_) | CallError::TaskExpired => MCP_ERROR_TASK_LOST,
        CallError::Refused(error) => use_status(error),
        _ => MCP_ERROR_BAD_ANSWER,
    }
}
