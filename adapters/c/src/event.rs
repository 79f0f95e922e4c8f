//! Events, as C sees them: one flat structure for both roles.

use crate::slice::mcp_slice;
use crate::status::mcp_status;

/// The kind of an event. Each names the members of `mcp_event` that it sets; the others are 0 or empty.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum mcp_event_kind {
    /// No event.
    MCP_EVENT_NONE = 0,
    /// The connection has ended. The last event. `text` has the reason; `flags` may have `MCP_EVENT_RETRY_LEGACY`.
    MCP_EVENT_CLOSED = 1,
    /// The peer deviated from the protocol, which affects nothing else. `text` describes it.
    MCP_EVENT_DIAGNOSTIC = 2,
    /// A notification that the library does not handle: `method`, `json` (parameters).
    MCP_EVENT_NOTIFICATION = 3,

    /// Server: a request. Answer `call` by exactly one of `mcp_server_respond`, `mcp_server_respond_text`,
    /// `mcp_server_respond_error`, `mcp_server_ask`, `mcp_server_elicit` and `mcp_server_begin_task`.
    ///
    /// `method`, `json` (parameters), and for a call of a tool `name` and `arguments`. `attempt` counts the earlier
    /// deliveries, after input was asked for. `flags`.
    MCP_EVENT_CALL = 10,
    /// Server: `call` ended before it was answered, so work on it should stop. `text` has the reason.
    MCP_EVENT_CALL_CANCELLED = 11,
    /// Server: a call that waited for input has ended, and is not delivered again. `text` has the state that was kept.
    MCP_EVENT_INPUT_DROPPED = 12,
    /// Server: a client opened a session (revisions up to 2025-11-25). `text` has the revision.
    MCP_EVENT_SESSION_OPENED = 13,
    /// Server: the resource with the URI `text` got its first subscriber (`MCP_EVENT_SUBSCRIBED` in `flags`), or lost its
    /// last one.
    MCP_EVENT_RESOURCE_INTEREST = 14,

    /// Client: the connection is ready. `text` has the revision; `mcp_client_peer` tells more.
    MCP_EVENT_READY = 20,
    /// Client: `call` has ended. `status` is `MCP_OK`, and `json` the result; or `status` is an error, `text` describes
    /// it, and for `MCP_ERROR_RPC` `code` is that of the peer and `json` its data.
    MCP_EVENT_DONE = 21,
    /// Client: progress of `call`: `progress`, `total` (negative if unknown), `text`.
    MCP_EVENT_PROGRESS = 22,
    /// Client: `call` follows a task, or the state of its task has changed: `json`.
    MCP_EVENT_TASK = 23,
    /// Client: the server asks for input. Answer `id` by exactly one of `mcp_client_answer` and `mcp_client_refuse`.
    ///
    /// `call`, 0 if it is not known which call needs it. `method`, `json` (parameters), and `name`, the key that the
    /// server uses, if any.
    MCP_EVENT_INPUT = 24,
    /// Client: the input `id` is not needed any more.
    MCP_EVENT_INPUT_WITHDRAWN = 25,
    /// Client: the server has acknowledged the subscription `id`. `json` is the part of the filter that it honours.
    MCP_EVENT_SUBSCRIPTION_ACKNOWLEDGED = 26,
    /// Client: something has changed: `code` (`MCP_CHANGE_…`), and for a resource its URI, `text`.
    ///
    /// `id` is the subscription, or 0 if the server announces it without one.
    MCP_EVENT_CHANGED = 27,
    /// Client: the subscription `id` has ended. `status` is `MCP_OK` if the server announced that; otherwise changes may
    /// have been missed.
    MCP_EVENT_SUBSCRIPTION_ENDED = 28,
    /// Client: a log message: `name` (level), `text` (logger), `json` (data).
    MCP_EVENT_LOG = 29,
    /// Client: the user has finished the page of the elicitation `text` (2025-11-25).
    MCP_EVENT_ELICITATION_COMPLETE = 30,
    /// Client: a request with a custom method (`MCP_ANY_METHOD`). Answer `id` by exactly one of `mcp_client_respond`
    /// and `mcp_client_refuse`. `method`, `json` (parameters).
    MCP_EVENT_REQUEST = 31,
    /// Client: the request `id` was cancelled.
    MCP_EVENT_REQUEST_CANCELLED = 32,
}

/// `mcp_event.flags`: the client asks for progress of the call.
pub const MCP_EVENT_WANTS_PROGRESS: u32 = 1;
/// `mcp_event.flags`: the call may become a task (`mcp_server_begin_task`).
pub const MCP_EVENT_TASK_ALLOWED: u32 = 2;
/// `mcp_event.flags`: the client asks for a task. `MCP_EVENT_TASK_ALLOWED` is set, too.
pub const MCP_EVENT_TASK_REQUESTED: u32 = 4;
/// `mcp_event.flags`: the call runs a task.
pub const MCP_EVENT_TASK_RUN: u32 = 8;
/// `mcp_event.flags`: the resource has a subscriber now.
pub const MCP_EVENT_SUBSCRIBED: u32 = 16;
/// `mcp_event.flags`: the server may work if it is started again, with `MCP_KNOWN_LEGACY`.
pub const MCP_EVENT_RETRY_LEGACY: u32 = 32;

/// A change: the list of tools.
pub const MCP_CHANGE_TOOLS: u32 = 1;
/// A change: the list of prompts.
pub const MCP_CHANGE_PROMPTS: u32 = 2;
/// A change: the lists of resources and resource templates.
pub const MCP_CHANGE_RESOURCES: u32 = 3;
/// A change: the content of one resource, by its URI.
pub const MCP_CHANGE_RESOURCE: u32 = 4;

/// An event. Its slices are valid until the next poll for an event, and until the handle is freed.
///
/// Ids are never 0 and never used twice on a handle.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mcp_event {
    /// Kind of the event, which tells the members that are set.
    pub kind: mcp_event_kind,
    /// Outcome.
    pub status: mcp_status,
    /// Id of a call.
    pub call: u64,
    /// Id of an input, a subscription or a request.
    pub id: u64,
    /// Error code of the peer, or kind of a change.
    pub code: i64,
    /// Progress so far.
    pub progress: f64,
    /// Progress at the end; negative if it is not known.
    pub total: f64,
    /// `MCP_EVENT_…` flags.
    pub flags: u32,
    /// Number of earlier deliveries.
    pub attempt: u32,
    /// Method.
    pub method: mcp_slice,
    /// JSON text.
    pub json: mcp_slice,
    /// Name.
    pub name: mcp_slice,
    /// Arguments of a tool: a JSON object.
    pub arguments: mcp_slice,
    /// Text for people, a URI or a revision.
    pub text: mcp_slice,
    /// Not used.
    pub reserved: [u64; 4],
}

impl mcp_event {
    pub(crate) const fn new(kind: mcp_event_kind) -> Self {
        Self {
            kind,
            status: mcp_status::MCP_OK,
            call: 0,
            id: 0,
            code: 0,
            progress: 0.0,
            total: -1.0,
            flags: 0,
            attempt: 0,
            method: mcp_slice::EMPTY,
            json: mcp_slice::EMPTY,
            name: mcp_slice::EMPTY,
            arguments: mcp_slice::EMPTY,
            text: mcp_slice::EMPTY,
            reserved: [0; 4],
        }
    }
}

/// A peer as it describes itself, which is not verified. Each slice may be empty.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mcp_peer {
    /// Revision in use, for example `2025-11-25`.
    pub revision: mcp_slice,
    /// JSON object with name and version.
    pub info: mcp_slice,
    /// JSON object of its capabilities.
    pub capabilities: mcp_slice,
    /// Instructions of a server for a model; untrusted text.
    pub instructions: mcp_slice,
    /// 1 if the revision is of the modern era (2026-07-28), otherwise 0.
    pub is_modern: u32,
}
