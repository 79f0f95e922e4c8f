//! Client handlers with asynchronous methods, polled by the task that drives the connection.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
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
use mcp_std::catch_async;
use mcp_std::sync::{Inbox, Sender};

use crate::client::{Callback, CallbackReply, ClientHandler, DeferredHandler};
use crate::runtime::FutureSet;

/// A client's handler like [`ClientHandler`], with `async` methods.
///
/// [`async_handler`] turns it into a handler that clients accept. Requests are answered concurrently, so the handler is
/// shared: keep mutable state in cells, locks or channels.
///
/// The task that drives the connection polls the futures, so they must not compute for a long time without awaiting.
/// They may await calls of the same client. A future is dropped when the server cancels its request or withdraws its
/// input request, and when the call that needed the input has ended. A panic is answered with an internal error.
#[allow(async_fn_in_trait, reason = "whether a handler can move to another thread follows from its futures")]
pub trait AsyncClientHandler {
    /// Answers a request of the server with a JSON object (legacy servers only).
    ///
    /// # Errors
    ///
    /// The error that the server receives; by default "method not found".
    async fn request(&self, request: &ServerRequest) -> Result<RawJson, RpcError> {
        Err(RpcError::method_not_found(&request.method))
    }

    /// Answers an input request with the kind of response that [`Input::request`] demands.
    ///
    /// By default this calls [`elicit`](Self::elicit), [`sample`](Self::sample) or [`roots`](Self::roots), as
    /// [`ClientHandler::input`] does.
    ///
    /// # Errors
    ///
    /// The error that the server receives.
    #[expect(deprecated, reason = "supported until its removal")]
    async fn input(&self, input: &Input) -> Result<InputResponse<'static>, RpcError> {
        match &*input.request {
            InputRequest::Elicit(params) => self.elicit(params).await.map(Into::into),
            InputRequest::CreateMessage(params) => self.sample(params).await.map(Into::into),
            InputRequest::ListRoots(_) => self.roots().await.map(Into::into),
            _ => Err(no_handler_error()),
        }
    }

    /// Asks the user to fill in a form or to visit a web page; see [`ClientHandler::elicit`].
    ///
    /// # Errors
    ///
    /// The reason why the user is not asked; the default implementation always fails.
    async fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let _ = params;
        Err(no_handler_error())
    }

    /// Asks the model, with the user's consent (SAMP-001).
    ///
    /// # Errors
    ///
    /// The reason why the model is not asked; the default implementation always fails.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    async fn sample(
        &self,
        params: &CreateMessageParams<'_>,
    ) -> Result<CreateMessageResult<'static>, RpcError> {
        let _ = params;
        Err(no_handler_error())
    }

    /// Returns the directories that the server may access.
    ///
    /// # Errors
    ///
    /// The reason why there is no list; the default implementation always fails.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    async fn roots(&self) -> Result<ListRootsResult, RpcError> {
        Err(no_handler_error())
    }

    /// Answers the authentication challenge of an HTTP server with a credential; see [`ClientHandler::challenge`].
    #[cfg(feature = "http")]
    async fn challenge(&self, challenge: &Challenge) -> Option<Credential> {
        let _ = challenge;
        None
    }

    /// Receives a change on the server; see [`ClientHandler::changed`].
    fn changed(&self, change: &Change) {
        let _ = change;
    }

    /// Receives the end of a subscription; see [`ClientHandler::subscription_ended`].
    fn subscription_ended(&self, subscription: SubscriptionKey, error: Option<&CallError>) {
        let _ = (subscription, error);
    }

    /// Receives the completion of an elicitation by web page; see [`ClientHandler::elicitation_complete`].
    fn elicitation_complete(&self, id: &str) {
        let _ = id;
    }

    /// Receives a log message of the server; see [`ClientHandler::log`].
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    fn log(&self, log: &LogMessage) {
        let _ = log;
    }

    /// Receives a notification that the engine does not handle; see [`ClientHandler::notification`].
    fn notification(&self, notification: &Notification) {
        let _ = notification;
    }

    /// Receives the progress of a call; see [`ClientHandler::progress`].
    fn progress(&self, call: CallKey, progress: &Progress) {
        let _ = (call, progress);
    }

    /// Receives a state of a task; see [`ClientHandler::task_changed`].
    fn task_changed(&self, call: CallKey, task: &Task<'_>) {
        let _ = (call, task);
    }

    /// Receives a tolerated deviation of the server; see [`ClientHandler::diagnostic`].
    fn diagnostic(&self, diagnostic: &Diagnostic) {
        let _ = diagnostic;
    }

    /// Receives the reason why an output schema cannot be used; see [`ClientHandler::unusable_schema`].
    fn unusable_schema(&self, tool: &str, reason: &SchemaError) {
        let _ = (tool, reason);
    }

    /// Receives a copy of a message; see [`ClientHandler::tap`].
    fn tap(&self, record: &TapRecord) {
        let _ = record;
    }

    /// Receives the head of an HTTP request or response; see [`ClientHandler::head`].
    #[cfg(feature = "http")]
    fn head(&self, record: &HeadRecord) {
        let _ = record;
    }
}

/// Wraps an [`AsyncClientHandler`] for `Options::handler` or [`Client::set_handler`](super::Client::set_handler).
///
/// No task is spawned: the task that drives the connection polls the futures that were woken.
///
/// The handler of a client must be `Send`. The returned handler is `Send` if `handler` and its futures are.
/// [`Client::run_with`](super::Client::run_with) also takes a handler that is not.
///
/// At most [`Limits::max_waiting_requests`](mcp_proto::Limits) requests are open at a time; more are refused.
///
/// Use it with clients of an asynchronous adapter only. Other clients never poll it, so it answers nothing there.
pub fn async_handler<H: AsyncClientHandler>(handler: H) -> impl ClientHandler {
    AsyncHandlerAdapter {
        handler: Arc::new(handler),
        start: answer::<H>,
        queued: VecDeque::new(),
        running: FutureSet::new(Waker::noop()),
        reply_inbox: Inbox::new(usize::MAX),
        ready_replies: VecDeque::new(),
    }
}

/// Adapter from [`AsyncClientHandler`] to [`ClientHandler`], with the queued and running callbacks.
struct AsyncHandlerAdapter<H, S, F> {
    handler: Arc<H>,
    /// Creates the future that answers a callback.
    start: S,
    /// Callbacks without a future yet. `dispatch` only queues them, because it has no waker; `poll` starts them.
    queued: VecDeque<(CallbackKey, Callback)>,
    running: FutureSet<F, CallbackKey>,
    reply_inbox: Inbox<CallbackReply>,
    /// Replies taken out of `reply_inbox`.
    ready_replies: VecDeque<CallbackReply>,
}

/// Key of a callback that expects a reply. The callback is cancelled or refused by this key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallbackKey {
    Request(CallId),
    Input(InputId),
    #[cfg(feature = "http")]
    Challenge(ExchangeId),
}

impl CallbackKey {
    /// Returns the key of a callback, or `None` if the callback expects no reply.
    const fn from_callback(callback: &Callback) -> Option<Self> {
        match callback {
            Callback::Request(request) => Some(Self::Request(request.id)),
            Callback::Input(input) => Some(Self::Input(input.id)),
            #[cfg(feature = "http")]
            Callback::Challenge(challenge) => Some(Self::Challenge(challenge.exchange)),
            _ => None,
        }
    }

    /// Returns the reply that refuses the callback.
    fn refuse(self) -> CallbackReply {
        match self {
            Self::Request(request) => CallbackReply::Request(request, Err(no_handler_error())),
            Self::Input(input) => CallbackReply::Input(input, Err(no_handler_error())),
            #[cfg(feature = "http")]
            Self::Challenge(exchange) => CallbackReply::Challenge(exchange, None),
        }
    }
}

/// Answers one callback and sends the reply.
async fn answer<H: AsyncClientHandler>(handler: Arc<H>, callback: Callback, replies: Sender<CallbackReply>) {
    let reply = match callback {
        Callback::Request(request) => {
            let outcome = catch_async(handler.request(&request)).await;
            CallbackReply::Request(request.id, outcome.unwrap_or_else(|_| Err(handler_panicked_error())))
        }
        Callback::Input(input) => {
            let outcome = catch_async(handler.input(&input)).await;
            CallbackReply::input(&input, outcome.unwrap_or_else(|_| Err(handler_panicked_error())))
        }
        #[cfg(feature = "http")]
        Callback::Challenge(challenge) => {
            let outcome = catch_async(handler.challenge(&challenge)).await;
            CallbackReply::Challenge(challenge.exchange, outcome.unwrap_or_default())
        }
        _ => return,
    };
    // The inbox needs no bound: each open callback sends one reply, and the number of open callbacks is bounded.
    let _ = replies.send_unbounded(reply);
}

impl<H, S, F> DeferredHandler for AsyncHandlerAdapter<H, S, F>
where
    S: Fn(Arc<H>, Callback, Sender<CallbackReply>) -> F,
    F: Future<Output = ()>,
{
    fn dispatch(&mut self, callback: Callback) -> Option<Callback> {
        let cancelled = match &callback {
            Callback::InputWithdrawn(input) => CallbackKey::Input(*input),
            Callback::RequestCancelled(request) => CallbackKey::Request(*request),
            _ => {
                let Some(key) = CallbackKey::from_callback(&callback) else { return Some(callback) };
                self.queued.push_back((key, callback));
                return None;
            }
        };
        self.queued.retain(|(key, _)| *key != cancelled);
        self.running.cancel(&cancelled);
        None
    }

    fn poll(&mut self, waker: &Waker) -> Option<CallbackReply> {
        if let Some(reply) = self.ready_replies.pop_front() {
            return Some(reply);
        }
        if self.open_count() == 0 {
            return None;
        }
        // Registered before polling, so that wake-ups during the poll reach this waker.
        self.running.register(waker);
        while let Some((key, callback)) = self.queued.pop_front() {
            let (handler, replies) = (self.handler.clone(), self.reply_inbox.sender());
            let _ = self.running.start(key, || (self.start)(handler, callback, replies));
        }
        self.running.poll_woken(&mut |()| ());
        self.reply_inbox.take(&mut self.ready_replies);
        self.ready_replies.pop_front()
    }

    fn open_count(&self) -> usize {
        self.queued.len() + self.running.len() + self.ready_replies.len()
    }

    fn cancel_all(&mut self) -> Vec<CallbackReply> {
        let queued = self.queued.drain(..).map(|(key, _)| key);
        let open: Vec<CallbackKey> = queued.chain(self.running.drop_all()).collect();
        let refused = open.into_iter().map(CallbackKey::refuse);
        self.ready_replies.drain(..).chain(refused).collect()
    }
}

impl<H, S, F> ClientHandler for AsyncHandlerAdapter<H, S, F>
where
    H: AsyncClientHandler,
    S: Fn(Arc<H>, Callback, Sender<CallbackReply>) -> F,
    F: Future<Output = ()>,
{
    fn deferred(&mut self) -> Option<&mut dyn DeferredHandler> {
        Some(self)
    }

    fn changed(&self, change: &Change) {
        self.handler.changed(change);
    }

    fn subscription_ended(&self, subscription: SubscriptionKey, error: Option<&CallError>) {
        self.handler.subscription_ended(subscription, error);
    }

    fn task_changed(&self, call: CallKey, task: &Task<'_>) {
        self.handler.task_changed(call, task);
    }

    fn elicitation_complete(&self, id: &str) {
        self.handler.elicitation_complete(id);
    }

    #[expect(deprecated, reason = "supported until its removal")]
    fn log(&self, log: &LogMessage) {
        self.handler.log(log);
    }

    fn notification(&self, notification: &Notification) {
        self.handler.notification(notification);
    }

    fn progress(&self, call: CallKey, progress: &Progress) {
        self.handler.progress(call, progress);
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        self.handler.diagnostic(diagnostic);
    }

    fn unusable_schema(&self, tool: &str, reason: &SchemaError) {
        self.handler.unusable_schema(tool, reason);
    }

    fn tap(&self, record: &TapRecord) {
        self.handler.tap(record);
    }

    #[cfg(feature = "http")]
    fn head(&self, record: &HeadRecord) {
        self.handler.head(record);
    }
}

impl<H, S, F> fmt::Debug for AsyncHandlerAdapter<H, S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncHandlerAdapter").finish_non_exhaustive()
    }
}

fn no_handler_error() -> RpcError {
    RpcError::internal("the client has no handler for this request")
}

fn handler_panicked_error() -> RpcError {
    RpcError::internal("the handler of the question panicked")
}
