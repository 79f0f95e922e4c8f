//! The callbacks of a client.

use mcp_proto::client::{
    Input, InputId, LogMessage, Notification, SchemaError, ServerRequest, SubscriptionKey,
};
#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
#[cfg(feature = "http")]
use mcp_proto::http::client::{Challenge, Credential};
use mcp_proto::model::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, InputRequest, InputResponse,
    ListRootsResult, Task,
};
use mcp_proto::tap::TapRecord;
use mcp_proto::{CallError, CallKey, Change, Diagnostic, Progress, RawJson, RpcError};

use super::callback::DeferredHandler;

/// Callbacks of a client, for everything from the server except responses.
///
/// All methods run on the thread that runs a method of the client. They must not take long, because the connection
/// is not driven meanwhile. They take `&self`: keep mutable state in cells, locks or channels. A panic is caught. A
/// panic in [`request`](Self::request) or [`input`](Self::input) is answered with an internal error.
pub trait ClientHandler {
    /// Answers a request of a legacy server with a JSON object.
    ///
    /// # Errors
    ///
    /// The error that is sent to the server. The default is "method not found".
    fn request(&self, request: &ServerRequest) -> Result<RawJson, RpcError> {
        Err(RpcError::method_not_found(&request.method))
    }

    /// Answers an input request with the kind of response that [`Input::request`] asks for.
    ///
    /// The default calls [`elicit`](Self::elicit), [`sample`](Self::sample) or [`roots`](Self::roots). Only input
    /// requests that the [configuration](mcp_proto::client::Config::capabilities) allows arrive here. The response to a
    /// form is checked; if it does not match the form, the server gets an error instead.
    ///
    /// `None` leaves the input request open, so that calls, pings and timeouts continue while a user decides. Answer it
    /// with `Client::answer` or `Client::refuse`, unless [`input_withdrawn`](Self::input_withdrawn) is called first.
    #[expect(deprecated, reason = "supported until its removal")]
    fn input(&self, input: &Input) -> Option<Result<InputResponse<'static>, RpcError>> {
        Some(match &*input.request {
            InputRequest::Elicit(params) => self.elicit(params).map(Into::into),
            InputRequest::CreateMessage(params) => self.sample(params).map(Into::into),
            InputRequest::ListRoots(_) => self.roots().map(Into::into),
            _ => Err(not_handled()),
        })
    }

    /// Reports that an open input request is no longer needed.
    ///
    /// The server withdrew it, or the call that needed it has ended.
    fn input_withdrawn(&self, input: InputId) {
        let _ = input;
    }

    /// Asks the user to fill in a form or to visit a web page.
    ///
    /// Show the [defaults](mcp_proto::model::ElicitSchema::fill_defaults) of a form to the user. Do not answer with
    /// them on the user's behalf (ELIC-017, ELIC-024). If the user declines, that is a result, not an error.
    ///
    /// # Errors
    ///
    /// The error that is sent to the server if no user can be asked. The default always fails.
    fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let _ = params;
        Err(not_handled())
    }

    /// Asks the language model, with the user's consent (SAMP-001).
    ///
    /// # Errors
    ///
    /// The error that is sent to the server if the model is not asked. The default always fails.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    fn sample(&self, params: &CreateMessageParams<'_>) -> Result<CreateMessageResult<'static>, RpcError> {
        let _ = params;
        Err(not_handled())
    }

    /// Returns the directories that the server may see.
    ///
    /// # Errors
    ///
    /// The error that is sent to the server. The default always fails.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    fn roots(&self) -> Result<ListRootsResult, RpcError> {
        Err(not_handled())
    }

    /// Reports a change on the server. Several changes of one list or resource may be reported as one.
    fn changed(&self, change: &Change) {
        let _ = change;
    }

    /// Reports that a subscription has ended, except by `unsubscribe`.
    ///
    /// Without an error, the server ended it gracefully.
    fn subscription_ended(&self, subscription: SubscriptionKey, error: Option<&CallError>) {
        let _ = (subscription, error);
    }

    /// Reports that the user has finished with a web page, by its `elicitationId` (2025-11-25).
    fn elicitation_complete(&self, id: &str) {
        let _ = id;
    }

    /// Receives a log message of the server.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    fn log(&self, log: &LogMessage) {
        let _ = log;
    }

    /// Receives a notification that the engine does not handle itself.
    fn notification(&self, notification: &Notification) {
        let _ = notification;
    }

    /// Reports progress of a call. Calls with a progress callback of their own are not reported here.
    fn progress(&self, call: CallKey, progress: &Progress) {
        let _ = (call, progress);
    }

    /// Reports that a call follows a task now, or that the status or the message of the task has changed.
    ///
    /// The id of the task may be a secret ([`TaskHandle`](mcp_proto::client::TaskHandle)).
    fn task_changed(&self, call: CallKey, task: &Task<'_>) {
        let _ = (call, task);
    }

    /// Reports a deviation of the server that was tolerated, for example a banner on its stdout, or an entry that was
    /// left out of a typed list.
    fn diagnostic(&self, diagnostic: &Diagnostic) {
        let _ = diagnostic;
    }

    /// Reports an output schema that cannot be used to check results, once for each schema.
    ///
    /// It requires a [validator](super::Options::validator).
    fn unusable_schema(&self, tool: &str, reason: &SchemaError) {
        let _ = (tool, reason);
    }

    /// Receives a copy of a received or sent message, if [`Limits::tap_records`](mcp_proto::Limits) enables it.
    fn tap(&self, record: &TapRecord) {
        let _ = record;
    }

    /// Receives the head of an HTTP request or response without its secrets, if `Options::tap_heads` enables it.
    #[cfg(feature = "http")]
    fn head(&self, record: &HeadRecord) {
        let _ = record;
    }

    /// Answers a challenge of an HTTP server with a credential.
    ///
    /// It requires [`handle_challenges`](mcp_proto::http::client::Config::handle_challenges). `None`, the
    /// default, fails the calls that wait for the credential.
    #[cfg(feature = "http")]
    fn challenge(&self, challenge: &Challenge) -> Option<Credential> {
        let _ = challenge;
        None
    }

    /// Returns the handler that answers [`request`](Self::request), [`input`](Self::input) and `challenge` later.
    ///
    /// Adapters whose handlers are futures implement it. Applications do not need it.
    fn deferred(&mut self) -> Option<&mut dyn DeferredHandler> {
        None
    }
}

fn not_handled() -> RpcError {
    RpcError::internal("the client has no handler for this request")
}

/// Refuses every request and ignores everything else.
impl ClientHandler for () {}
