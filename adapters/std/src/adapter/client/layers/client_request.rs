//! A request as the layers of a client see it.

use alloc::string::String;
use core::fmt;

use mcp_proto::client::{TaskHandle, TaskRequest, request_name};
use mcp_proto::model::{CallToolParams, Map, RequestParams};
use mcp_proto::observe::{Observer, TraceContext};
use mcp_proto::{CallOptions, EncodeError, RawJson, UseError};

/// A request of the application, on its way through the [layers](super::super::Options#layers) of a client.
///
/// A clone is the same request, to be made once more.
#[derive(Clone)]
pub struct ClientRequest {
    method: String,
    params: RawJson,
    options: CallOptions,
    /// Trace context of the layer that makes the request. It does not change the result, as other members of `_meta` may.
    context: Option<TraceContext>,
    kind: RequestKind,
}

/// The way in which a request is made.
#[derive(Clone, Debug)]
pub(in super::super) enum RequestKind {
    /// It is sent.
    Sent,
    /// It is sent unless there is a cached result.
    Cached,
    /// It calls a tool, as a task if the tool or this request asks for one.
    Tool(Option<TaskRequest>),
    /// It waits for a task.
    Task(TaskHandle),
}

impl ClientRequest {
    pub(in super::super) fn new(
        method: impl Into<String>,
        params: RawJson,
        options: CallOptions,
        kind: RequestKind,
    ) -> Self {
        Self { method: method.into(), params, options, context: None, kind }
    }

    /// Returns the request whose result may come from the cache.
    pub(in super::super) fn cached(mut self) -> Self {
        if matches!(self.kind, RequestKind::Sent) {
            self.kind = RequestKind::Cached;
        }
        self
    }

    /// Adds the trace context of the running code.
    pub(super) fn set_current_context(&mut self, observer: Option<&dyn Observer>) {
        self.context = observer.and_then(Observer::current_context);
    }

    /// Returns whether the application has set members of `_meta`.
    pub(in super::super) const fn has_meta(&self) -> bool {
        self.options.meta.is_some()
    }

    /// Returns the method, the parameters, the options with the trace context, and the kind.
    pub(in super::super) fn into_parts(self) -> (String, RawJson, CallOptions, RequestKind) {
        let options = match &self.context {
            Some(context) => self.options.with_trace_context(context),
            None => self.options,
        };
        (self.method, self.params, options, self.kind)
    }

    /// Returns the method, for example that of [`CallToolParams`].
    ///
    /// A wait for a task ([`wait_task`](super::super::AsyncCalls::wait_task)) has the method of
    /// [`GetTaskPayloadParams`](mcp_proto::model::GetTaskPayloadParams) in every revision.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Returns the name of the tool or prompt, the URI of the resource or skill, or the id of the task; see
    /// [`request_name`].
    #[must_use]
    pub fn name(&self) -> Option<String> {
        request_name(&self.method, &self.params)
    }

    /// Returns whether this is a call of the tool `name`.
    #[must_use]
    pub fn is_tool(&self, name: &str) -> bool {
        self.method == CallToolParams::METHOD && self.name().as_deref() == Some(name)
    }

    /// Returns the parameters, a JSON object in the form of the revision of the connection.
    ///
    /// `_meta` is not among them: [`CallOptions::meta`] has the members of the application.
    #[must_use]
    pub const fn params(&self) -> &RawJson {
        &self.params
    }

    /// Replaces the parameters. What is wrong with them otherwise is an error of the call.
    ///
    /// # Errors
    ///
    /// [`UseError::Encode`] if they are no JSON object, or if this is a wait for a task, which has no others. The request
    /// is unchanged then.
    pub fn set_params(&mut self, params: RawJson) -> Result<(), UseError> {
        if matches!(self.kind, RequestKind::Task(_)) {
            let text = "the parameters of a wait for a task cannot be replaced";
            return Err(UseError::Encode(EncodeError::Custom(text.into())));
        }
        if !params.is_object() {
            return Err(UseError::Encode(EncodeError::NotAnObject));
        }
        self.params = params;
        Ok(())
    }

    /// Returns the arguments of a tool or a prompt.
    #[must_use]
    pub fn arguments(&self) -> Option<RawJson> {
        self.params.member(ARGUMENTS)
    }

    /// Replaces the arguments of a tool or a prompt, and no other parameter.
    ///
    /// # Errors
    ///
    /// [`UseError::Encode`] if they are no JSON object, or as [`set_params`](Self::set_params). The request is unchanged
    /// then.
    pub fn set_arguments(&mut self, arguments: RawJson) -> Result<(), UseError> {
        if !arguments.is_object() {
            return Err(UseError::Encode(EncodeError::NotAnObject));
        }
        let unreadable = |error| UseError::Encode(EncodeError::Custom(alloc::format!("{error}")));
        let mut params: Map<RawJson> = self.params.parse().map_err(unreadable)?;
        params.insert(ARGUMENTS, arguments);
        self.set_params(RawJson::encode(&params).map_err(UseError::Encode)?)
    }

    /// Returns the options: timeouts, `_meta`, and whether the call may be executed twice.
    #[must_use]
    pub const fn options(&self) -> &CallOptions {
        &self.options
    }

    /// Returns the options, to be changed.
    ///
    /// The result of a request with [`meta`](CallOptions::meta) is neither taken from the cache nor put there. Progress is
    /// reported to the function that the call was made with, if any.
    pub const fn options_mut(&mut self) -> &mut CallOptions {
        &mut self.options
    }
}

/// Omits the parameters, which may be private.
impl fmt::Debug for ClientRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientRequest").field("method", &self.method).finish_non_exhaustive()
    }
}

/// Member of the parameters of tools and prompts.
const ARGUMENTS: &str = "arguments";

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> RawJson {
        RawJson::new(text.as_bytes().to_vec()).unwrap()
    }

    fn call(params: &str) -> ClientRequest {
        let kind = RequestKind::Tool(None);
        ClientRequest::new(CallToolParams::METHOD, raw(params), CallOptions::new(), kind)
    }

    #[test]
    fn arguments_are_replaced_alone() {
        let mut request = call(r#"{"name":"add","arguments":{"a":1},"x":2}"#);
        request.set_arguments(raw(r#"{"b":2}"#)).unwrap();
        assert_eq!(request.params().as_str(), r#"{"name":"add","arguments":{"b":2},"x":2}"#);
        assert_eq!(request.arguments(), Some(raw(r#"{"b":2}"#)));
        assert!(request.is_tool("add") && !request.is_tool("sub"));
        let mut without = call(r#"{"name":"add"}"#);
        assert_eq!(without.arguments(), None);
        without.set_arguments(raw("{}")).unwrap();
        assert_eq!(without.params().as_str(), r#"{"name":"add","arguments":{}}"#);
    }

    #[test]
    fn parameters_that_are_no_object_are_refused_and_change_nothing() {
        let mut request = call(r#"{"name":"add"}"#);
        for refused in [request.clone().set_params(raw("[]")), request.set_arguments(raw("1"))] {
            assert!(matches!(refused, Err(UseError::Encode(EncodeError::NotAnObject))), "{refused:?}");
        }
        assert_eq!(request.params().as_str(), r#"{"name":"add"}"#);
    }
}
