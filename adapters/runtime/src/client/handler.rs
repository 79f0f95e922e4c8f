//! The callbacks of a client, and how they are called: now, deferred, or queued for another thread or task.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::task::Waker;

use mcp_proto::client::{
    Input, InputId, LogMessage, Notification, SchemaError, ServerRequest, SubscriptionKey,
};
#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
#[cfg(feature = "http")]
use mcp_proto::http::client::{Challenge, Credential, ExchangeId};
use mcp_proto::model::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, InputRequest, InputResponse,
    ListRootsResult, Task,
};
use mcp_proto::tap::TapRecord;
use mcp_proto::{CallError, CallId, CallKey, Change, Diagnostic, Progress, RawJson, RpcError};

use mcp_std::catch;

/// A pending call of a method of [`ClientHandler`].
#[derive(Debug)]
pub enum Callback {
    /// Calls [`ClientHandler::request`].
    Request(ServerRequest),
    /// Calls [`ClientHandler::input`].
    Input(Input),
    /// Calls [`ClientHandler::input_withdrawn`].
    InputWithdrawn(InputId),
    /// The server cancelled a [`Request`](Self::Request). Only a [`DeferredHandler`] uses it.
    RequestCancelled(CallId),
    /// Calls [`ClientHandler::notification`].
    Notification(Notification),
    /// Calls [`ClientHandler::subscription_ended`].
    SubscriptionEnded(SubscriptionKey, Option<CallError>),
    /// Calls [`ClientHandler::elicitation_complete`].
    ElicitationComplete(String),
    /// Calls [`ClientHandler::changed`].
    Changed(Change),
    /// Calls [`ClientHandler::log`].
    Log(LogMessage),
    /// Calls [`ClientHandler::diagnostic`].
    Diagnostic(Diagnostic),
    /// Calls [`ClientHandler::progress`].
    Progress(CallKey, Progress),
    /// Calls [`ClientHandler::task_changed`].
    Task(CallKey, Box<Task<'static>>),
    /// Calls [`ClientHandler::unusable_schema`].
    UnusableSchema(String, SchemaError),
    /// Calls [`ClientHandler::tap`].
    Tap(TapRecord),
    /// Calls [`ClientHandler::head`].
    #[cfg(feature = "http")]
    Head(HeadRecord),
    /// Calls [`ClientHandler::challenge`].
    #[cfg(feature = "http")]
    Challenge(Challenge),
}

/// The reply of a handler to a callback, applied by [`Connection::reply`](super::Connection::reply).
#[derive(Debug)]
pub enum CallbackReply {
    /// Answers a request.
    Request(CallId, Result<RawJson, RpcError>),
    /// Answers an input request.
    Input(InputId, Result<Box<InputResponse<'static>>, RpcError>),
    /// Answers a challenge; `None` refuses.
    #[cfg(feature = "http")]
    Challenge(ExchangeId, Option<Credential>),
}

impl Callback {
    /// Runs the callback: calls the handler now, and returns its reply if the callback expects one.
    ///
    /// A panic is caught. A panic in `request` or `input` is answered with an internal error.
    #[expect(deprecated, reason = "supported until its removal")]
    pub fn dispatch(self, handler: &dyn ClientHandler) -> Option<CallbackReply> {
        // The panic hook has reported the panic.
        let _ = match self {
            Self::Request(request) => {
                let outcome = catch(|| handler.request(&request))
                    .unwrap_or_else(|_| Err(RpcError::internal("the handler of the request panicked")));
                return Some(CallbackReply::Request(request.id, outcome));
            }
            Self::Input(input) => {
                let outcome = catch(|| handler.input(&input))
                    .unwrap_or_else(|_| Some(Err(RpcError::internal("the handler of the input panicked"))));
                // `None`: the answer follows by `Client::answer`.
                return outcome.map(|outcome| CallbackReply::input(&input, outcome));
            }
            #[cfg(feature = "http")]
            Self::Challenge(challenge) => {
                // A panic refuses the challenge.
                let credential = catch(|| handler.challenge(&challenge)).unwrap_or_default();
                return Some(CallbackReply::Challenge(challenge.exchange, credential));
            }
            Self::InputWithdrawn(input) => catch(|| handler.input_withdrawn(input)),
            Self::RequestCancelled(_) => Ok(()),
            Self::Notification(notification) => catch(|| handler.notification(&notification)),
            Self::SubscriptionEnded(key, error) => catch(|| handler.subscription_ended(key, error.as_ref())),
            Self::ElicitationComplete(id) => catch(|| handler.elicitation_complete(&id)),
            Self::Changed(change) => catch(|| handler.changed(&change)),
            Self::Log(log) => catch(|| handler.log(&log)),
            Self::Diagnostic(diagnostic) => catch(|| handler.diagnostic(&diagnostic)),
            Self::Progress(call, progress) => catch(|| handler.progress(call, &progress)),
            Self::Task(call, task) => catch(|| handler.task_changed(call, &task)),
            Self::UnusableSchema(tool, reason) => catch(|| handler.unusable_schema(&tool, &reason)),
            Self::Tap(record) => catch(|| handler.tap(&record)),
            #[cfg(feature = "http")]
            Self::Head(record) => catch(|| handler.head(&record)),
        };
        None
    }

    /// Gives the callback to the [`DeferredHandler`](ClientHandler::deferred) of the handler if it has one. Otherwise
    /// runs it.
    ///
    /// At most `max_open` deferred callbacks may be open. Further callbacks that expect a reply are refused.
    pub fn dispatch_or_defer(
        self,
        handler: &mut dyn ClientHandler,
        max_open: usize,
    ) -> Option<CallbackReply> {
        match handler.deferred() {
            None => self.dispatch(handler),
            Some(deferred) if self.expects_reply() && deferred.open_count() >= max_open => {
                self.refuse(RpcError::internal("too many questions are open"))
            }
            Some(deferred) => {
                deferred.dispatch(self);
                None
            }
        }
    }

    /// Returns the reply that refuses this callback with `error`, or `None` if no reply is expected.
    #[must_use]
    pub fn refuse(self, error: RpcError) -> Option<CallbackReply> {
        self.key().map(|key| key.refuse(error))
    }

    /// Returns whether the server or the transport waits for a reply.
    #[must_use]
    pub const fn expects_reply(&self) -> bool {
        self.key().is_some()
    }

    /// Returns the key of a callback that expects a reply.
    pub(crate) const fn key(&self) -> Option<CallbackKey> {
        match self {
            Self::Request(request) => Some(CallbackKey::Request(request.id)),
            Self::Input(input) => Some(CallbackKey::Input(input.id)),
            #[cfg(feature = "http")]
            Self::Challenge(challenge) => Some(CallbackKey::Challenge(challenge.exchange)),
            _ => None,
        }
    }

    /// Returns the approximate size in bytes.
    #[must_use]
    pub fn cost(&self) -> usize {
        let raw = |raw: &Option<RawJson>| raw.as_ref().map_or(0, |raw| raw.as_bytes().len());
        size_of::<Self>()
            + match self {
                Self::Request(request) => raw(&request.params),
                Self::Notification(notification) => raw(&notification.params),
                Self::Log(log) => log.data.as_bytes().len(),
                Self::Tap(record) => record.bytes.len(),
                _ => 0,
            }
    }
}

/// The key of a callback that expects a reply, by which it is cancelled or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallbackKey {
    Request(CallId),
    Input(InputId),
    #[cfg(feature = "http")]
    Challenge(ExchangeId),
}

impl CallbackKey {
    /// Returns the reply that refuses the callback with `error`.
    pub(crate) fn refuse(self, error: RpcError) -> CallbackReply {
        match self {
            Self::Request(request) => CallbackReply::Request(request, Err(error)),
            Self::Input(input) => CallbackReply::Input(input, Err(error)),
            #[cfg(feature = "http")]
            Self::Challenge(exchange) => CallbackReply::Challenge(exchange, None),
        }
    }
}

impl CallbackReply {
    /// Creates the reply to an input request. A response that does not match the request becomes an error.
    #[must_use]
    pub fn input(input: &Input, outcome: Result<InputResponse<'static>, RpcError>) -> Self {
        let outcome = outcome.and_then(|response| match input.request.check_response(&response) {
            Ok(()) => Ok(Box::new(response)),
            // ELIC-020: the text names the mistake for the author of the handler.
            Err(mismatch) => Err(RpcError::internal(alloc::format!("the answer does not fit: {mismatch}"))),
        });
        Self::Input(input.id, outcome)
    }
}

/// The place that holds the handler of a client.
pub enum HandlerSlot {
    /// The event loop calls the handler.
    Local(Box<dyn ClientHandler + Send>),
    /// Another thread or task calls the handler and sends the replies.
    Remote(Box<dyn RemoteHandler + Send>),
}

/// A handler that answers callbacks later. The event loop polls it for replies.
///
/// Adapters with futures create it and return it from [`ClientHandler::deferred`]. Applications do not need it.
pub trait DeferredHandler {
    /// Queues a callback for [`poll`](Self::poll) if it expects a reply, cancels the open callback that it names, or runs it.
    fn dispatch(&mut self, callback: Callback);

    /// Returns the next reply. Without one, arranges for `waker` to be woken when there is work.
    fn poll(&mut self, waker: &Waker) -> Option<CallbackReply>;

    /// Returns the number of open callbacks.
    fn open_count(&self) -> usize;

    /// Drops all open callbacks and returns replies that refuse them.
    fn cancel_all(&mut self) -> Vec<CallbackReply>;
}

/// A queue to a handler that runs on another thread or task.
pub trait RemoteHandler {
    /// Queues a callback, even if the queue [is full](Self::is_full): callbacks that result from deadlines are not
    /// delayed. The handler runs later, and elsewhere.
    fn dispatch(&mut self, callback: Callback);

    /// Returns whether reading should pause.
    fn is_full(&self) -> bool;
}

impl HandlerSlot {
    /// Runs or defers the callback on a local handler, as [`Callback::dispatch_or_defer`] does; queues it for a remote
    /// one.
    ///
    /// At most `max_open` deferred callbacks may be open. Further callbacks that expect a reply are refused.
    pub fn dispatch(&mut self, callback: Callback, max_open: usize) -> Option<CallbackReply> {
        match self {
            Self::Local(handler) => callback.dispatch_or_defer(&mut **handler, max_open),
            Self::Remote(remote) => {
                remote.dispatch(callback);
                None
            }
        }
    }

    /// Polls a [`DeferredHandler`] for its next reply. Without one, `waker` is woken when there is work.
    pub fn poll_deferred(&mut self, waker: &Waker) -> Option<CallbackReply> {
        match self {
            Self::Local(handler) => handler.deferred()?.poll(waker),
            Self::Remote(_) => None,
        }
    }

    /// Drops the open callbacks of a [`DeferredHandler`] and returns replies that refuse them.
    pub fn cancel_deferred(&mut self) -> Vec<CallbackReply> {
        match self {
            Self::Local(handler) => handler.deferred().map(DeferredHandler::cancel_all).unwrap_or_default(),
            Self::Remote(_) => Vec::new(),
        }
    }

    /// Returns whether reading should pause.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Local(_) => false,
            Self::Remote(remote) => remote.is_full(),
        }
    }
}

// The callbacks of a client.

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
            _ => Err(no_handler_error()),
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
        Err(no_handler_error())
    }

    /// Asks the language model, with the user's consent (SAMP-001).
    ///
    /// # Errors
    ///
    /// The error that is sent to the server if the model is not asked. The default always fails.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    fn sample(&self, params: &CreateMessageParams<'_>) -> Result<CreateMessageResult<'static>, RpcError> {
        let _ = params;
        Err(no_handler_error())
    }

    /// Returns the directories that the server may see.
    ///
    /// # Errors
    ///
    /// The error that is sent to the server. The default always fails.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    fn roots(&self) -> Result<ListRootsResult, RpcError> {
        Err(no_handler_error())
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

/// The error of a request without a handler.
pub(crate) fn no_handler_error() -> RpcError {
    RpcError::internal("the client has no handler for this request")
}

/// Refuses every request and ignores everything else.
impl ClientHandler for () {}
