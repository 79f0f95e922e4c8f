//! What a client does with what comes from the server

use mcp_proto::client::{Input, InputId, Kind, Log, Notification, Request, SchemaError, SubscriptionKey};
#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
#[cfg(feature = "http")]
use mcp_proto::http::client::{Challenge, Credential};
use mcp_proto::model::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, InputRequest, InputResponse,
    ListRootsResult,
};
use mcp_proto::tap::TapRecord;
use mcp_proto::{CallError, CallKey, Change, Diagnostic, Progress, RawJson, RpcError};

use super::heard::Later;

/// What a client does with what comes from the server, other than answers
///
/// All methods run on the thread that is in a call of the client's, and none of them may take long:
/// nothing else moves while they run. A panic in one of them ends nothing else; one in [`request`](Self::request) is
/// answered with an internal error.
pub trait ClientHandler {
    /// Answers a request of the server (legacy servers only), with a JSON object
    ///
    /// # Errors
    ///
    /// What the server is told instead of a result; by default, that there is no such method.
    fn request(&mut self, request: &Request) -> Result<RawJson, RpcError> {
        Err(RpcError::method_not_found(&request.method))
    }

    /// Gives the server what it needs: the kind of answer that [`Input::request`] asks for
    ///
    /// By default this calls [`elicit`](Self::elicit), [`sample`](Self::sample) or [`roots`](Self::roots). Only what the
    /// [configuration](mcp_proto::client::Config::capabilities) declares is asked for. An answer to a form is held
    /// against it: what does not fit is no answer, and the server is told that there is none.
    ///
    /// None leaves it open: a user takes their time, while calls, pings and time-outs should go on. It is to be answered
    /// by `Client::answer` or `Client::refuse`, unless
    /// [`input_gone`](Self::input_gone) comes first.
    fn input(&mut self, input: &Input) -> Option<Result<InputResponse<'static>, RpcError>> {
        Some(match &*input.request {
            InputRequest::Elicit(params) => self.elicit(params).map(Into::into),
            InputRequest::CreateMessage(params) => self.sample(params).map(Into::into),
            InputRequest::ListRoots(_) => self.roots().map(Into::into),
            _ => Err(nobody()),
        })
    }

    /// Takes note of something that was left open and is needed no more: the server has taken it back, or the call that
    /// it was needed for has ended
    fn input_gone(&mut self, input: InputId) {
        let _ = input;
    }

    /// Asks the user: by a form, or to visit a web page
    ///
    /// A form's [defaults](mcp_proto::model::ElicitSchema::fill_defaults) are to be shown to the user, not to be answered
    /// in their place (ELIC-017, ELIC-024). That a user declines is an answer.
    ///
    /// # Errors
    ///
    /// Why nobody is asked; by default always.
    fn elicit(&mut self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let _ = params;
        Err(nobody())
    }

    /// Asks the model, with the user's consent (SAMP-001)
    ///
    /// # Errors
    ///
    /// Why it is not asked; by default always.
    fn sample(&mut self, params: &CreateMessageParams<'_>) -> Result<CreateMessageResult<'static>, RpcError> {
        let _ = params;
        Err(nobody())
    }

    /// Says which directories the server may see
    ///
    /// # Errors
    ///
    /// Why it does not say so; by default always.
    fn roots(&mut self) -> Result<ListRootsResult, RpcError> {
        Err(nobody())
    }

    /// Takes note of something that has changed at the server; told once until it was told, however often it changes
    fn changed(&mut self, change: &Change) {
        let _ = change;
    }

    /// Takes note of a subscription that has ended, otherwise than by
    /// `unsubscribe`; without an error the server has ended it in good order
    fn subscription_ended(&mut self, subscription: SubscriptionKey, error: Option<&CallError>) {
        let _ = (subscription, error);
    }

    /// Takes note of a web page that the user is done with, by its `elicitationId` (2025-11-25)
    fn elicitation_complete(&mut self, id: &str) {
        let _ = id;
    }

    /// Takes note of a log message of the server
    fn log(&mut self, log: &Log) {
        let _ = log;
    }

    /// Takes note of a notification that the engine does not handle itself
    fn notification(&mut self, notification: &Notification) {
        let _ = notification;
    }

    /// Takes note of the progress of a call; not told of calls that are waited for with a callback of their own
    fn progress(&mut self, call: CallKey, progress: &Progress) {
        let _ = (call, progress);
    }

    /// Takes note of something odd that the server did, a banner on its stdout for instance
    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        let _ = diagnostic;
    }

    /// Takes note of an entry of a list that was left out, since it cannot be read; `why` names the member
    ///
    /// Only by those methods that read lists as types (`list_tools`, …).
    fn unreadable(&mut self, kind: Kind, entry: &RawJson, why: &str) {
        let _ = (kind, entry, why);
    }

    /// Takes note of an output schema that results are not held against, since it cannot be used; once for each
    ///
    /// Only if there is a [validator](super::Options::validator).
    fn unusable_schema(&mut self, tool: &str, why: &SchemaError) {
        let _ = (tool, why);
    }

    /// Sees a message that was received or sent ([`Limits::tap_records`](mcp_proto::Limits) turns this on)
    fn tap(&mut self, record: &TapRecord) {
        let _ = record;
    }

    /// Sees the head of a request or response over HTTP, without its secrets (`Options::tap_heads` turns this on)
    #[cfg(feature = "http")]
    fn head(&mut self, record: &HeadRecord) {
        let _ = record;
    }

    /// Answers a server over HTTP that wants to know who asks, where
    /// [`asks_for_credentials`](mcp_proto::http::client::Config::asks_for_credentials) is set; none lets the calls that
    /// wait for it fail, which is the default
    #[cfg(feature = "http")]
    fn challenge(&mut self, challenge: &Challenge) -> Option<Credential> {
        let _ = challenge;
        None
    }

    /// Who answers questions instead of [`request`](Self::request), [`input`](Self::input) and `challenge`, in its own time:
    /// for adapters whose handlers are futures, which make such handlers by themselves
    fn later(&mut self) -> Option<&mut dyn Later> {
        None
    }
}

fn nobody() -> RpcError {
    RpcError::internal("nobody is here to answer")
}

/// Refuses every request and ignores everything else
impl ClientHandler for () {}
