//! Client handlers with asynchronous methods, polled by the task that drives the connection.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::task::Waker;

use mcp_proto::client::{Input, ServerRequest};
#[cfg(feature = "http")]
use mcp_proto::http::client::{Challenge, Credential};
use mcp_proto::model::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, InputRequest, InputResponse,
    ListRootsResult,
};
use mcp_proto::{RawJson, RpcError};
use mcp_std::{catch, catch_async};

use crate::client::{Callback, CallbackKey, CallbackReply, ClientHandler, DeferredHandler, no_handler_error};
use crate::runtime::FutureSet;

/// Answers the questions of a server with futures; [`ClientHandler`] answers the same ones at once.
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

    /// Returns the handler of everything that needs no answer. The default ignores it.
    ///
    /// A handler that implements [`ClientHandler`] as well returns itself:
    ///
    /// ```
    /// use mcp_proto::Change;
    /// use mcp_proto::model::{ElicitParams, ElicitResult};
    /// use mcp_runtime::client::ClientHandler;
    /// use mcp_runtime::runtime::client::AsyncClientHandler;
    ///
    /// struct User;
    ///
    /// impl AsyncClientHandler for User {
    ///     async fn elicit(&self, _: &ElicitParams) -> Result<ElicitResult, mcp_proto::RpcError> {
    ///         Ok(ElicitResult::decline())
    ///     }
    ///
    ///     fn notifications(&self) -> &dyn ClientHandler {
    ///         self
    ///     }
    /// }
    ///
    /// impl ClientHandler for User {
    ///     fn changed(&self, change: &Change) {
    ///         println!("{change:?}");
    ///     }
    /// }
    /// ```
    fn notifications(&self) -> &dyn ClientHandler {
        &()
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
    ready_replies: VecDeque<CallbackReply>,
}

/// Answers a callback that expects a reply.
async fn answer<H: AsyncClientHandler>(handler: Arc<H>, callback: Callback) -> Option<CallbackReply> {
    Some(match callback {
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
        _ => return None,
    })
}

impl<H, S, F> DeferredHandler for AsyncHandlerAdapter<H, S, F>
where
    H: AsyncClientHandler,
    S: Fn(Arc<H>, Callback) -> F,
    F: Future<Output = Option<CallbackReply>>,
{
    fn dispatch(&mut self, callback: Callback) {
        let cancelled = match (&callback, callback.key()) {
            (Callback::InputWithdrawn(input), _) => CallbackKey::Input(*input),
            (Callback::RequestCancelled(request), _) => CallbackKey::Request(*request),
            (_, Some(key)) => return self.queued.push_back((key, callback)),
            (_, None) => {
                let _ = catch(|| callback.dispatch(self.handler.notifications()));
                return;
            }
        };
        self.queued.retain(|(key, _)| *key != cancelled);
        self.running.cancel(&cancelled);
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
            let handler = self.handler.clone();
            self.ready_replies.extend(self.running.start(key, || (self.start)(handler, callback)).flatten());
        }
        self.running.poll_woken(&mut |reply| self.ready_replies.extend(reply));
        self.ready_replies.pop_front()
    }

    fn open_count(&self) -> usize {
        self.queued.len() + self.running.len() + self.ready_replies.len()
    }

    fn cancel_all(&mut self) -> Vec<CallbackReply> {
        let queued = self.queued.drain(..).map(|(key, _)| key);
        let open: Vec<CallbackKey> = queued.chain(self.running.drop_all()).collect();
        let refused = open.into_iter().map(|key| key.refuse(no_handler_error()));
        self.ready_replies.drain(..).chain(refused).collect()
    }
}

impl<H, S, F> ClientHandler for AsyncHandlerAdapter<H, S, F>
where
    H: AsyncClientHandler,
    S: Fn(Arc<H>, Callback) -> F,
    F: Future<Output = Option<CallbackReply>>,
{
    fn deferred(&mut self) -> Option<&mut dyn DeferredHandler> {
        Some(self)
    }
}

fn handler_panicked_error() -> RpcError {
    RpcError::internal("the handler of the question panicked")
}
