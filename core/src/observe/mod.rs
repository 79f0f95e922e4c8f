//! Observation of requests: their times, sizes and outcomes, and the trace context that they carry.
//!
//! An application sets an [`Observer`] in the configuration of a client or a server. It is told when a request begins and
//! how it ends, in both directions. Without one, nothing is recorded. The crate `mcp-telemetry` has one that writes
//! OpenTelemetry spans and metrics.
//!
//! Trace context crosses processes in `_meta` (META-021): that of a received request is given to the observer, and that of
//! a request to be sent is taken from it.

mod table;

use alloc::borrow::Cow;
use core::fmt;

pub use crate::model::TraceContext;
pub use crate::tap::Direction;

use crate::error::CallError;
use crate::rpc::RequestId;
use crate::sync::Arc;
use crate::time::Instant;
use crate::version::Version;

pub(crate) use table::{OpenRequest, OpenRequests, Requested, RequestedParams};

/// An observer of the requests of an engine.
///
/// It is called while the engine works, so it must return soon and must not panic: hand over what takes long.
///
/// Observed is each request on the wire, in both directions, with these exceptions on the client: pings, the requests that
/// negotiate a revision, and requests of the server that the engine refuses or answers by itself. On a server,
/// `subscriptions/listen` ends with its acknowledgement. A call of the application that is continued after it asked for
/// input, or that follows a task, is several requests.
pub trait Observer: Send + Sync + fmt::Debug {
    /// Returns whether requests are observed at present. If not, [`request`](Self::request) is not called, and nothing is read
    /// for it. Called for each request; the default is `true`.
    fn is_enabled(&self) -> bool {
        true
    }

    /// Returns the observation of a request that was received or is to be sent, or `None` if it is not observed.
    fn request(&self, request: &RequestStart<'_>) -> Option<Arc<dyn Observation>>;

    /// Returns the trace context of the running code, for the requests that it makes.
    ///
    /// Adapters call it in the task or thread of the application, and pass the answer to the engine in
    /// [`CallOptions::meta`](crate::CallOptions::meta), unless that has a `traceparent`. The default is `None`.
    fn current_context(&self) -> Option<TraceContext> {
        None
    }

    /// Reports that a session has ended. The default does nothing.
    ///
    /// On a server, it is a session of a legacy client; modern clients have none. On a client, it is the connection to a
    /// server from the end of the negotiation on, whatever its revision.
    fn session_ended(&self, session: &SessionEnd) {
        let _ = session;
    }
}

/// The observation of one request.
///
/// It is dropped without [`end`](Self::end) if the request was given up: its caller dropped it, or its connection was
/// released. Like the [`Observer`], it must return soon and must not panic, except for what `run` does in
/// [`in_scope`](Self::in_scope).
pub trait Observation: Send + Sync + fmt::Debug {
    /// Runs a part of the handler of a received request, for example with a span entered.
    ///
    /// `run` is to be called exactly once. Adapters call this for a handler that is a function, and for each poll of one
    /// that is a future.
    fn in_scope(&self, run: &mut dyn FnMut()) {
        run();
    }

    /// Returns the trace context of a request that is sent. It replaces that of the application in `_meta`.
    fn trace_context(&self) -> Option<TraceContext> {
        None
    }

    /// Reports the end of the request. Called at most once.
    fn end(&self, end: &RequestEnd<'_>);
}

/// The beginning of a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestStart<'a> {
    /// Time at which it was received or sent, on the clock of the engine.
    pub at: Instant,
    /// Direction of the request.
    pub direction: Direction,
    /// Id of the request on the wire.
    pub id: &'a RequestId,
    /// Method of the request. That of a received request may be one that does not exist.
    pub method: &'a str,
    /// Name of the tool or prompt, URI of the resource, or id of the task.
    pub subject: Option<Cow<'a, str>>,
    /// Revision of the request, if it is known.
    pub version: Option<Version>,
    /// Trace context in `_meta`: the parent of what the observer creates. Text of the peer, or of the application.
    pub parent: TraceContext,
}

/// The end of a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestEnd<'a> {
    /// Time at which the answer was sent or received, on the clock of the engine.
    pub at: Instant,
    /// Size of the request in bytes, without framing.
    pub request_bytes: usize,
    /// Size of the response in bytes, without framing. Zero if there is none.
    pub response_bytes: usize,
    /// The outcome.
    pub outcome: RequestOutcome<'a>,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum RequestOutcome<'a> {
    /// A result. It may ask for input, or name a task.
    Success,
    /// The result of a tool with `isError`.
    ToolError,
    /// An error, or no answer.
    Failed(&'a CallError),
}

/// The end of a session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionEnd {
    /// Direction of the requests that the session is for: `In` on a server, `Out` on a client.
    pub direction: Direction,
    /// Negotiated revision.
    pub version: Version,
    /// Time at which the session began, on the clock of the engine.
    pub began_at: Instant,
    /// Time at which it ended.
    pub ended_at: Instant,
    /// Whether it ended by a fault of the peer or of the connection.
    pub is_fault: bool,
}
