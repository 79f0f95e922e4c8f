//! The observed requests that have no answer yet.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Direction, Observation, Observer, RequestEnd, RequestOutcome, RequestStart};
use crate::error::CallError;
use crate::json::{object_members, string};
use crate::methods;
use crate::model::TraceContext;
use crate::rpc::RequestId;
use crate::slab::Key;
use crate::time::Instant;
use crate::version::Version;

/// The message of a request, as far as an observer is told about it.
pub(crate) struct Requested<'a> {
    pub(crate) at: Instant,
    pub(crate) direction: Direction,
    pub(crate) id: &'a RequestId,
    pub(crate) method: &'a str,
    pub(crate) params: &'a [u8],
    /// `_meta`, if it is not a member of `params`.
    pub(crate) meta: Option<&'a [u8]>,
    pub(crate) version: Option<Version>,
    pub(crate) request_bytes: usize,
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
    #[cold]
    pub(crate) fn begin(observer: &dyn Observer, request: &Requested<'_>) -> Option<Self> {
        let &Requested { at, direction, id, method, params, version, request_bytes, .. } = request;
        let (mut subject, mut meta) = (None, request.meta);
        let subject_member = subject_member(method).map(str::as_bytes);
        object_members(params, |name, value| {
            if Some(name) == subject_member {
                subject = string(value);
            } else if name == b"_meta" && meta.is_none() {
                meta = Some(value);
            }
        });
        let parent = trace_context(meta.unwrap_or_default());
        let start = RequestStart { at, direction, id, method, subject, version, parent };
        let observation = observer.request(&start)?;
        let is_tool_call = method == methods::TOOLS_CALL;
        Some(Self { generation: 0, observation, request_bytes, is_tool_call })
    }

    /// Reports the result in this object.
    #[cold]
    pub(crate) fn end_with_result(self, at: Instant, response_bytes: usize, result: &[u8]) {
        let mut is_error = false;
        if self.is_tool_call {
            object_members(result, |name, value| is_error |= name == b"isError" && value == b"true");
        }
        let outcome = if is_error { RequestOutcome::ToolError } else { RequestOutcome::Success };
        self.end(at, response_bytes, outcome);
    }

    /// Reports the result in this response.
    #[cold]
    pub(crate) fn end_with_response(self, at: Instant, response: &[u8]) {
        let mut result: &[u8] = b"";
        let message = response.strip_suffix(b"\n").unwrap_or(response);
        object_members(message, |name, value| {
            if name == b"result" {
                result = value;
            }
        });
        self.end_with_result(at, message.len(), result);
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

/// Returns the parameter that names what a request is about.
fn subject_member(method: &str) -> Option<&'static str> {
    match method {
        methods::RESOURCES_SUBSCRIBE | methods::RESOURCES_UNSUBSCRIBE => Some("uri"),
        _ => methods::subject_member(method),
    }
}

/// Reads the trace context of a `_meta` object. A member that is not a string is left out.
fn trace_context(meta: &[u8]) -> TraceContext {
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
    context
}

/// Member of `_meta` for the parent span (META-021).
pub(crate) const TRACEPARENT: &[u8] = b"traceparent";
const TRACESTATE: &[u8] = b"tracestate";
const BAGGAGE: &[u8] = b"baggage";
/// All members of `_meta` with trace context, in the order of [`TraceContext`].
pub(crate) const TRACE_MEMBERS: [&[u8]; 3] = [TRACEPARENT, TRACESTATE, BAGGAGE];

/// The observed requests of one direction, by the key of their call.
///
/// It has at most one entry for each call in the table of calls, so the limits of that bound it.
#[derive(Debug, Default)]
pub(crate) struct OpenRequests {
    slots: Vec<Option<OpenRequest>>,
}

impl OpenRequests {
    pub(crate) fn insert(&mut self, key: Key, request: OpenRequest) {
        let slot = key.slot as usize;
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        if let Some(entry) = self.slots.get_mut(slot) {
            *entry = Some(OpenRequest { generation: key.generation, ..request });
        }
    }

    pub(crate) fn take(&mut self, key: Key) -> Option<OpenRequest> {
        self.slots.get_mut(key.slot as usize)?.take_if(|request| request.generation == key.generation)
    }
}
