//! The observed requests that have no answer yet.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use memchr::memchr2_iter;

use super::{Direction, Observation, Observer, RequestEnd, RequestOutcome, RequestStart};
use crate::error::CallError;
use crate::json::{object_members, string};
use crate::meta::{BAGGAGE, TRACEPARENT, TRACESTATE};
use crate::methods;
use crate::model::TraceContext;
use crate::rpc::RequestId;
use crate::rpc::envelope::ParamsSpans;
use crate::slab::Key;
use crate::sync::Arc;
use crate::time::Instant;
use crate::version::Version;

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

/// Parameters of a request.
pub(crate) struct RequestedParams<'a> {
    /// The object, or nothing.
    text: &'a [u8],
    members: Members<'a>,
}

/// Members of parameters, as far as their reader knows them.
enum Members<'a> {
    /// `_meta` is this, or a member that is to be looked for.
    Unread { meta: Option<&'a [u8]> },
    /// They were found when the message was read; `_meta` only if it has trace context.
    Read { name: Option<&'a [u8]>, meta: Option<&'a [u8]> },
}

impl<'a> RequestedParams<'a> {
    /// Takes parameters, and their `_meta` if it is not among them.
    pub(crate) const fn unread(text: &'a [u8], meta: Option<&'a [u8]>) -> Self {
        Self { text, members: Members::Unread { meta } }
    }

    /// Takes the parameters of a message that was read.
    pub(crate) fn read(frame: &'a [u8], spans: &ParamsSpans) -> Self {
        let meta = if spans.meta.has_trace { spans.meta.whole.slice(frame) } else { None };
        let members = Members::Read { name: spans.name.slice(frame), meta };
        Self { text: spans.whole.slice(frame).unwrap_or_default(), members }
    }

    /// Returns the subject and `_meta`.
    fn subject_and_meta(&self, method: &str) -> (Option<Cow<'a, str>>, Option<&'a [u8]>) {
        let subject_member = subject_member(method);
        let mut meta = match self.members {
            Members::Unread { meta } => meta,
            Members::Read { name, meta } => match subject_member {
                None => return (None, meta),
                Some("name") => return (name.and_then(string), meta),
                Some(_) => meta,
            },
        };
        let is_unread = matches!(self.members, Members::Unread { meta: None });
        let (subject_member, mut subject) = (subject_member.map(str::as_bytes), None);
        object_members(self.text, |name, value| {
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
    #[cold]
    pub(crate) fn begin(observer: &dyn Observer, request: &Requested<'_>) -> Option<Self> {
        if !observer.is_enabled() {
            return None;
        }
        let &Requested { at, direction, id, method, ref params, version, request_bytes } = request;
        let (subject, meta) = params.subject_and_meta(method);
        let parent = meta.map_or_else(TraceContext::new, trace_context);
        let start = RequestStart { at, direction, id, method, subject, version, parent };
        let observation = observer.request(&start)?;
        let is_tool_call = method == methods::TOOLS_CALL;
        Some(Self { generation: 0, observation, request_bytes, is_tool_call })
    }

    /// Reports the result in this object.
    #[cold]
    pub(crate) fn end_with_result(self, at: Instant, response_bytes: usize, result: &[u8]) {
        let mut is_error = false;
        if self.is_tool_call && may_have_is_error(result) {
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
        if self.is_tool_call && may_have_is_error(message) {
            object_members(message, |name, value| {
                if name == b"result" {
                    result = value;
                }
            });
        }
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

/// Returns whether a member may have the name `isError`, without reading the JSON, which costs as much as reading a request.
fn may_have_is_error(json: &[u8]) -> bool {
    // A letter in a name is itself or `\u` with its number.
    let is_escape = |at| json.get(at + 1) == Some(&b'u');
    let is_name = |at: usize| {
        let name = b"isError";
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
}
