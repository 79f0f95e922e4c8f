//! Observation of requests: their times, sizes and outcomes, and the trace context that they carry.
//!
//! An application sets an [`Observer`] in the configuration of a client or a server. It is told when a request begins and
//! how it ends, in both directions. Without one, or without the feature `observe`, nothing is observed. The crate
//! `mcp-telemetry` has one that writes OpenTelemetry spans and metrics.
//!
//! Trace context crosses processes in `_meta` (META-021): that of a received request is given to the observer, and that of
//! a request to be sent is taken from it.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use memchr::memchr2_iter;

use super::json::{object_members, string};
use super::meta::{BAGGAGE, TRACEPARENT, TRACESTATE};
use super::methods;
use super::rpc::envelope::ParamsSpans;
use super::slab::Key;
use crate::error::CallError;
use crate::rpc::RequestId;
use crate::sync::Arc;
use crate::time::Instant;
use crate::version::Version;

pub use crate::model::TraceContext;
pub use crate::tap::Direction;

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

    /// Returns whether adapters read their clock when a handler answers the request, for [`RequestEnd::at`]. The default is `true`.
    ///
    /// Without it, that may be the time at which the handler was called. For observations with a clock of their own.
    fn needs_end_time(&self) -> bool {
        true
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
    /// Trace context in `_meta`, if it has any: the parent of what the observer creates. Text of the peer, or of the application.
    pub parent: Option<TraceContext>,
}

/// The end of a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestEnd<'a> {
    /// Time at which the answer was sent or received, on the clock of the engine. See [`Observation::needs_end_time`].
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

// The observed requests that have no answer yet.

/// The message of a request, as far as an observer is told about it.
pub(crate) struct Requested<'a> {
    pub(crate) at: Instant,
    pub(crate) direction: Direction,
    pub(crate) id: &'a RequestId,
    pub(crate) method: &'a str,
    pub(crate) params: RequestedParams<'a>,
    pub(crate) version: Option<Version>,
    pub(crate) request_bytes: usize,
}

/// Parameters of a request. Nothing is read of them before an observer wants it.
pub(crate) enum RequestedParams<'a> {
    /// The object, or nothing, and its `_meta` if that is not among its members.
    Unread { text: &'a [u8], meta: Option<&'a [u8]> },
    /// Members of this message that were found when it was read.
    Read { frame: &'a [u8], spans: &'a ParamsSpans },
}

impl<'a> RequestedParams<'a> {
    /// Returns the subject, and `_meta` if it may have trace context.
    fn subject_and_meta(&self, method: &str) -> (Option<Cow<'a, str>>, Option<&'a [u8]>) {
        let subject_member = subject_member(method);
        let (text, mut meta, is_unread) = match *self {
            Self::Unread { text, meta } => (text, meta, meta.is_none()),
            Self::Read { frame, spans } => {
                let meta = if spans.meta.has_trace { spans.meta.whole.slice(frame) } else { None };
                match subject_member {
                    None => return (None, meta),
                    Some("name") => return (spans.name.slice(frame).and_then(string), meta),
                    Some(_) => (spans.whole.slice(frame).unwrap_or_default(), meta, false),
                }
            }
        };
        let (subject_member, mut subject) = (subject_member.map(str::as_bytes), None);
        object_members(text, |name, value| {
            if Some(name) == subject_member {
                subject = string(value);
            } else if is_unread && name == b"_meta" {
                meta = Some(value);
            }
        });
        (subject, meta)
    }
}

/// An observed request without an answer.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    generation: u32,
    pub(crate) observation: Arc<dyn Observation>,
    pub(crate) request_bytes: usize,
    is_tool_call: bool,
}

impl OpenRequest {
    /// Tells the observer about a request.
    #[inline]
    pub(crate) fn begin(observer: &dyn Observer, request: &Requested<'_>) -> Option<Self> {
        // Asked before the parameters are read, which costs as much as reading a request.
        if !observer.is_enabled() {
            return None;
        }
        let &Requested { at, direction, id, method, ref params, version, request_bytes } = request;
        let (subject, meta) = params.subject_and_meta(method);
        let parent = meta.and_then(trace_context);
        let start = RequestStart { at, direction, id, method, subject, version, parent };
        let observation = observer.request(&start)?;
        let is_tool_call = method == methods::TOOLS_CALL;
        Some(Self { generation: 0, observation, request_bytes, is_tool_call })
    }

    /// Reports the result in this object.
    #[cold]
    pub(crate) fn end_with_result(self, at: Instant, response_bytes: usize, result: &[u8]) {
        let is_error = self.is_tool_call && has_is_error(result);
        self.end_with_success(at, response_bytes, is_error);
    }

    /// Reports the result in this response.
    #[cold]
    pub(crate) fn end_with_response(self, at: Instant, response: &[u8]) {
        let message = response.strip_suffix(b"\n").unwrap_or(response);
        let mut is_error = false;
        if self.is_tool_call && may_have_is_error(message) {
            object_members(message, |name, value| is_error |= name == b"result" && has_is_error(value));
        }
        self.end_with_success(at, message.len(), is_error);
    }

    /// Reports a result, which may be that of a tool with `isError`.
    #[inline]
    fn end_with_success(self, at: Instant, response_bytes: usize, is_error: bool) {
        let outcome = if is_error { RequestOutcome::ToolError } else { RequestOutcome::Success };
        self.end(at, response_bytes, outcome);
    }

    /// Reports that the request has failed.
    #[cold]
    pub(crate) fn end_with_error(self, at: Instant, response_bytes: usize, error: &CallError) {
        self.end(at, response_bytes, RequestOutcome::Failed(error));
    }

    fn end(self, at: Instant, response_bytes: usize, outcome: RequestOutcome<'_>) {
        let request_bytes = self.request_bytes;
        self.observation.end(&RequestEnd { at, request_bytes, response_bytes, outcome });
    }
}

/// Returns whether the result of a tool has `isError`.
fn has_is_error(result: &[u8]) -> bool {
    let mut is_error = false;
    if may_have_is_error(result) {
        object_members(result, |name, value| is_error |= name == b"isError" && value == b"true");
    }
    is_error
}

/// Returns whether a member may have the name `isError`, without reading the JSON, which costs as much as reading a request.
fn may_have_is_error(json: &[u8]) -> bool {
    // A letter in a name is itself or `\u` with its number.
    let is_escape = |at| json.get(at + 1) == Some(&b'u');
    let is_name = |at: usize| {
        // `E` is the third letter of the name.
        let name = b"isError";
        // An `E` at the very beginning has no room for the letters before it.
        at.checked_sub(2)
            .and_then(|start| json.get(start..start + name.len()))
            .is_some_and(|found| found == name)
    };
    memchr2_iter(b'E', b'\\', json).any(|at| is_escape(at) || is_name(at))
}

/// Returns the parameter that names what a request is about.
fn subject_member(method: &str) -> Option<&'static str> {
    match method {
        methods::RESOURCES_SUBSCRIBE | methods::RESOURCES_UNSUBSCRIBE => Some("uri"),
        methods::TASKS_RESULT => Some("taskId"),
        _ => methods::subject_member(method),
    }
}

/// Reads the trace context of a `_meta` object, if it has any. A member that is not a string is left out.
fn trace_context(meta: &[u8]) -> Option<TraceContext> {
    let mut context = TraceContext::new();
    let text = |value| string(value).map(Cow::into_owned);
    object_members(meta, |name, value| {
        let member: &mut Option<String> = match name {
            TRACEPARENT => &mut context.traceparent,
            TRACESTATE => &mut context.tracestate,
            BAGGAGE => &mut context.baggage,
            _ => return,
        };
        *member = text(value);
    });
    (context != TraceContext::new()).then_some(context)
}

/// The observed requests of one direction, by the key of their call.
///
/// It has at most one entry for each call in the table of calls, so the limits of that bound it.
#[derive(Debug, Default)]
pub(crate) struct OpenRequests {
    slots: Vec<Option<OpenRequest>>,
}

impl OpenRequests {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new() }
    }

    /// Releases the memory if there are no calls.
    pub(crate) fn trim(&mut self, is_empty: bool) {
        if is_empty {
            self.slots = Vec::new();
        }
    }

    #[inline]
    pub(crate) fn insert(&mut self, key: Key, request: OpenRequest) {
        let slot = key.slot as usize;
        // Slots are those of the table of calls, so its limits bound this length.
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        if let Some(entry) = self.slots.get_mut(slot) {
            *entry = Some(OpenRequest { generation: key.generation, ..request });
        }
    }

    pub(crate) fn take(&mut self, key: Key) -> Option<OpenRequest> {
        // The entry of an earlier call in the slot has another generation, and is left to be replaced.
        self.slots.get_mut(key.slot as usize)?.take_if(|request| request.generation == key.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_failed_tools_is_found_however_it_is_written() {
        for json in [
            r#"{"isError":true}"#,
            r#"{"content":[],"isError" : true}"#,
            r#"{"is\u0045rror":true}"#,
            r#"{"\u0069sError":true}"#,
            r#"{"E":1,"\\":2,"isError":true}"#,
        ] {
            assert!(may_have_is_error(json.as_bytes()), "{json}");
        }
        for json in ["", "E", "isE", "sError", r#"{"content":[{"text":"ERROR: isErro \n E"}]}"#] {
            assert!(!may_have_is_error(json.as_bytes()), "{json}");
        }
    }

    #[test]
    fn trace_context_is_known_only_with_a_member_of_it() {
        for meta in ["{}", r#"{"progressToken":1,"example.com/k":"v"}"#, r#"{"traceparent":7}"#] {
            assert_eq!(trace_context(meta.as_bytes()), None, "{meta}");
        }
        let expected = TraceContext::new().baggage("a=b");
        assert_eq!(trace_context(br#"{"baggage":"a=b","tracestate":null}"#), Some(expected));
    }
}
