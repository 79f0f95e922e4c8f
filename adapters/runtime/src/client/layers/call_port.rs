//! The way from the layers of an asynchronous client to the call inside them.
//!
//! The futures of layers own what they hold and are `Send`; the future of a call borrows its client and its progress
//! function. So a layer posts its request here, and the future around both makes the call.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::Mutex;

use mcp_std::sync::lock;

use mcp_proto::client::{TaskHandle, TaskRequest, request_name};
use mcp_proto::model::{CallToolParams, Map, RequestParams};
use mcp_proto::observe::{Observer, TraceContext};
use mcp_proto::{CallError, CallOptions, EncodeError, RawJson, UseError};

use crate::client::outcome::{OutcomeReceiver, OutcomeSender};
use crate::error::Error;

/// Requests that layers have posted. Clones are one port.
#[derive(Clone)]
pub(super) struct CallPort {
    state: Arc<Mutex<State>>,
    /// Knows the trace context of the layer that posts.
    observer: Option<Arc<dyn Observer>>,
}

#[derive(Default)]
struct State {
    posted: Vec<(ClientRequest, OutcomeSender<RawJson>)>,
    /// The task that makes the calls, while it is not polled.
    driver: Option<Waker>,
    /// Whether no more calls are made.
    is_closed: bool,
}

impl CallPort {
    pub(super) fn new(observer: Option<Arc<dyn Observer>>) -> Self {
        Self { state: Arc::default(), observer }
    }

    fn post(&self, mut request: ClientRequest) -> OutcomeReceiver<RawJson> {
        request.set_current_context(self.observer.as_deref());
        let (sender, receiver) = OutcomeReceiver::new(false);
        let mut state = lock(&self.state);
        if state.is_closed {
            drop(state);
            sender.send(Err(cancelled()));
            return receiver;
        }
        state.posted.push((request, sender));
        drop(state);
        self.wake_driver();
        receiver
    }

    fn wake_driver(&self) {
        let driver = lock(&self.state).driver.take();
        driver.into_iter().for_each(Waker::wake);
    }

    /// Ends all waits, also those that begin later.
    fn close(&self) {
        let mut state = lock(&self.state);
        // First, so that a request which is posted from now on ends at once.
        state.is_closed = true;
        state.driver = None;
        let posted = core::mem::take(&mut state.posted);
        drop(state);
        for (_, sender) in posted {
            sender.send(Err(cancelled()));
        }
    }
}

/// Error of a call whose layers have ended without it.
fn cancelled() -> Error {
    Error::Call(CallError::Cancelled)
}

/// A call that a layer makes. Dropping it cancels the call.
pub(super) struct PortCall {
    port: CallPort,
    /// The request, until it is posted by the first poll.
    request: Option<ClientRequest>,
    outcome: Option<OutcomeReceiver<RawJson>>,
}

impl PortCall {
    pub(super) const fn new(port: CallPort, request: ClientRequest) -> Self {
        Self { port, request: Some(request), outcome: None }
    }
}

impl Future for PortCall {
    type Output = Result<RawJson, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(request) = self.request.take() {
            self.outcome = Some(self.port.post(request));
        }
        self.outcome.as_ref().map_or(Poll::Pending, |outcome| outcome.poll_outcome(cx.waker(), &mut |_| {}))
    }
}

impl Drop for PortCall {
    fn drop(&mut self) {
        if let Some(outcome) = self.outcome.take().filter(|outcome| !outcome.is_finished()) {
            // Before the wake-up: the driver looks for abandoned calls.
            drop(outcome);
            self.port.wake_driver();
        }
    }
}

/// The end of a call that sends its outcome; `None` after that.
type CallSender = Option<OutcomeSender<RawJson>>;

/// The calls under way, which this end makes. Dropping it cancels them.
pub(super) struct PortDriver<F> {
    port: CallPort,
    calls: Vec<(CallSender, Pin<Box<F>>)>,
}

impl<F: Future<Output = Result<RawJson, Error>>> PortDriver<F> {
    pub(super) const fn new(port: CallPort) -> Self {
        Self { port, calls: Vec::new() }
    }

    /// Polls the layers and the calls that they have made, until the layers have ended.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        layers: &mut dyn FnMut(&mut Context<'_>) -> Poll<T>,
        start: &dyn Fn(ClientRequest) -> F,
    ) -> Poll<T> {
        // A wake-up by what this poll itself does would be spurious.
        lock(&self.port.state).driver = None;
        for _ in 0..MAX_ROUNDS_PER_POLL {
            if let Poll::Ready(outcome) = layers(cx) {
                return Poll::Ready(outcome);
            }
            let has_outcome = self.poll_calls(cx, start);
            if !has_outcome && self.rest(cx.waker()) {
                return Poll::Pending;
            }
        }
        // Yield to the executor's other futures: a layer may repeat a call that fails at once.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Starts and polls calls. Returns whether one has ended.
    fn poll_calls(&mut self, cx: &mut Context<'_>, start: &dyn Fn(ClientRequest) -> F) -> bool {
        let posted = core::mem::take(&mut lock(&self.port.state).posted);
        for (request, sender) in posted {
            if !sender.is_abandoned() {
                self.calls.push((Some(sender), Box::pin(start(request))));
            }
        }
        let mut has_outcome = false;
        self.calls.retain_mut(|(sender, call)| {
            if sender.as_ref().is_none_or(OutcomeSender::is_abandoned) {
                return false;
            }
            let Poll::Ready(outcome) = call.as_mut().poll(cx) else { return true };
            has_outcome = true;
            if let Some(sender) = sender.take() {
                sender.send(outcome);
            }
            false
        });
        has_outcome
    }

    /// Registers the task for wake-ups. Returns `false` if there is something to do already.
    fn rest(&self, waker: &Waker) -> bool {
        let mut state = lock(&self.port.state);
        let is_abandoned =
            |sender: &Option<OutcomeSender<RawJson>>| sender.as_ref().is_none_or(OutcomeSender::is_abandoned);
        if !state.posted.is_empty() || self.calls.iter().any(|(sender, _)| is_abandoned(sender)) {
            return false;
        }
        state.driver = Some(waker.clone());
        true
    }
}

impl<F> Drop for PortDriver<F> {
    fn drop(&mut self) {
        self.port.close();
        for (sender, call) in self.calls.drain(..) {
            drop(call);
            if let Some(sender) = sender {
                sender.send(Err(cancelled()));
            }
        }
    }
}

/// Polls of the layers in one poll of the call.
const MAX_ROUNDS_PER_POLL: usize = 32;

// A request as the layers of a client see it.

/// A request of the application, on its way through the [layers](crate::client::Options#layers) of a client.
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
pub(in crate::client) enum RequestKind {
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
    pub(in crate::client) fn new(
        method: impl Into<String>,
        params: RawJson,
        options: CallOptions,
        kind: RequestKind,
    ) -> Self {
        Self { method: method.into(), params, options, context: None, kind }
    }

    /// Returns the request whose result may come from the cache.
    pub(in crate::client) fn cached(mut self) -> Self {
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
    pub(in crate::client) const fn has_meta(&self) -> bool {
        self.options.meta.is_some()
    }

    /// Returns the method, the parameters, the options with the trace context, and the kind.
    pub(in crate::client) fn into_parts(self) -> (String, RawJson, CallOptions, RequestKind) {
        let options = match &self.context {
            Some(context) => self.options.with_trace_context(context),
            None => self.options,
        };
        (self.method, self.params, options, self.kind)
    }

    /// Returns the method, for example that of [`CallToolParams`].
    ///
    /// A wait for a task ([`wait_task`](crate::client::AsyncCalls::wait_task)) has the method of
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
