//! Handlers whose answers are futures, polled by whoever drives the connection

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::task::Waker;

use mcp_proto::client::{Input, InputId, Kind, Log, Notification, Request, SchemaError, SubscriptionKey};
#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
#[cfg(feature = "http")]
use mcp_proto::http::client::{Challenge, Credential, ExchangeId};
use mcp_proto::model::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, InputRequest, InputResponse,
    ListRootsResult,
};
use mcp_proto::tap::TapRecord;
use mcp_proto::{CallError, CallId, CallKey, Change, Diagnostic, Progress, RawJson, RpcError};
use mcp_std::client::{ClientHandler, Heard, Later, Reply};
use mcp_std::inbox::{Inbox, Sender};

use crate::handler::caught;
use crate::running::Running;

/// What a client does with what comes from the server, where answers take their time: [`ClientHandler`] with futures
///
/// [`asynchronous`] makes a handler for clients of it. Questions are answered at the same time, so a handler is shared:
/// what it changes is in cells, locks or channels. Its futures are polled by whoever awaits something of the client, so
/// none of them is to work for long without waiting; calls of the client itself may be awaited in them. The future of a
/// question that the server has taken back, or whose call has ended, is dropped where it waits. A panic in one is answered
/// with an internal error.
///
/// ```no_run
/// use std::time::Duration;
///
/// use mcp_proto::model::{ElicitParams, ElicitResult};
/// use mcp_proto::{Capabilities, Capability, RpcError, client::Config};
/// use mcp_smol::{AsyncClientHandler, Client, Program, asynchronous};
///
/// struct User;
///
/// impl AsyncClientHandler for User {
///     async fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
///         println!("{params:?}");
///         async_io::Timer::after(Duration::from_secs(5)).await; // calls, pings and time-outs go on
///         Ok(ElicitResult::decline())
///     }
/// }
///
/// # mcp_smol::block_on(async {
/// let config = Config::new("my-app", "1.0").capabilities(Capabilities::new().with(Capability::ElicitationForm));
/// let client = Client::options(config).handler(asynchronous(User)).spawn(Program::new("my-server")).await?;
/// # Ok::<(), mcp_smol::Error>(())
/// # })?;
/// # Ok::<(), mcp_smol::Error>(())
/// ```
#[allow(async_fn_in_trait, reason = "whether a handler can move to another thread follows from its futures")]
pub trait AsyncClientHandler {
    /// Answers a request of the server (legacy servers only), with a JSON object
    ///
    /// # Errors
    ///
    /// What the server is told instead of a result; by default, that there is no such method.
    async fn request(&self, request: &Request) -> Result<RawJson, RpcError> {
        Err(RpcError::method_not_found(&request.method))
    }

    /// Gives the server what it needs: the kind of answer that [`Input::request`] asks for
    ///
    /// By default this calls [`elicit`](Self::elicit), [`sample`](Self::sample) or [`roots`](Self::roots), as
    /// [`ClientHandler::input`] does.
    ///
    /// # Errors
    ///
    /// What the server is told instead.
    async fn input(&self, input: &Input) -> Result<InputResponse<'static>, RpcError> {
        match &*input.request {
            InputRequest::Elicit(params) => self.elicit(params).await.map(Into::into),
            InputRequest::CreateMessage(params) => self.sample(params).await.map(Into::into),
            InputRequest::ListRoots(_) => self.roots().await.map(Into::into),
            _ => Err(nobody()),
        }
    }

    /// Asks the user: by a form, or to visit a web page; see [`ClientHandler::elicit`]
    ///
    /// # Errors
    ///
    /// Why nobody is asked; by default always.
    async fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let _ = params;
        Err(nobody())
    }

    /// Asks the model, with the user's consent (SAMP-001)
    ///
    /// # Errors
    ///
    /// Why it is not asked; by default always.
    async fn sample(
        &self,
        params: &CreateMessageParams<'_>,
    ) -> Result<CreateMessageResult<'static>, RpcError> {
        let _ = params;
        Err(nobody())
    }

    /// Says which directories the server may see
    ///
    /// # Errors
    ///
    /// Why it does not say so; by default always.
    async fn roots(&self) -> Result<ListRootsResult, RpcError> {
        Err(nobody())
    }

    /// Answers a server over HTTP that wants to know who asks: see [`ClientHandler::challenge`]
    #[cfg(feature = "http")]
    async fn challenge(&self, challenge: &Challenge) -> Option<Credential> {
        let _ = challenge;
        None
    }

    /// As [`ClientHandler::changed`]
    fn changed(&self, change: &Change) {
        let _ = change;
    }

    /// As [`ClientHandler::subscription_ended`]
    fn subscription_ended(&self, subscription: SubscriptionKey, error: Option<&CallError>) {
        let _ = (subscription, error);
    }

    /// As [`ClientHandler::elicitation_complete`]
    fn elicitation_complete(&self, id: &str) {
        let _ = id;
    }

    /// As [`ClientHandler::log`]
    fn log(&self, log: &Log) {
        let _ = log;
    }

    /// As [`ClientHandler::notification`]
    fn notification(&self, notification: &Notification) {
        let _ = notification;
    }

    /// As [`ClientHandler::progress`]
    fn progress(&self, call: CallKey, progress: &Progress) {
        let _ = (call, progress);
    }

    /// As [`ClientHandler::diagnostic`]
    fn diagnostic(&self, diagnostic: &Diagnostic) {
        let _ = diagnostic;
    }

    /// As [`ClientHandler::unreadable`]
    fn unreadable(&self, kind: Kind, entry: &RawJson, why: &str) {
        let _ = (kind, entry, why);
    }

    /// As [`ClientHandler::unusable_schema`]
    fn unusable_schema(&self, tool: &str, why: &SchemaError) {
        let _ = (tool, why);
    }

    /// As [`ClientHandler::tap`]
    fn tap(&self, record: &TapRecord) {
        let _ = record;
    }

    /// As [`ClientHandler::head`]
    #[cfg(feature = "http")]
    fn head(&self, record: &HeadRecord) {
        let _ = record;
    }
}

/// A handler for this crate's clients, to be given to `Options::handler` or [`Client::set_handler`](super::Client), of one
/// whose answers are futures
///
/// Nothing is spawned: whoever drives the connection polls the futures that were woken. It can move to another thread, as a
/// client's handler has to, if those can; [`Client::run_with`](super::Client::run_with) takes one that cannot. As many
/// questions are open at a time as [`Limits::max_waiting`](mcp_proto::Limits) says; what is asked beyond is refused.
///
/// On clients of other adapters nothing polls it: there it answers nothing.
pub fn asynchronous<H: AsyncClientHandler>(handler: H) -> impl ClientHandler {
    Asynchronous {
        handler: Arc::new(handler),
        start: answer::<H>,
        asked: VecDeque::new(),
        running: Running::new(Waker::noop()),
        given: Inbox::new(usize::MAX),
        answers: VecDeque::new(),
    }
}

/// A handler, and what it is at
struct Asynchronous<H, S, F> {
    handler: Arc<H>,
    start: S,
    /// What was asked and has not begun: nothing is polled where it comes in
    asked: VecDeque<(Question, Heard)>,
    running: Running<F, Question>,
    given: Inbox<Reply>,
    /// What was taken out of it
    answers: VecDeque<Reply>,
}

/// What a question is known by, should it be taken back
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Request(CallId),
    Input(InputId),
    #[cfg(feature = "http")]
    Challenge(ExchangeId),
}

impl Question {
    /// None of what is no question
    const fn of(heard: &Heard) -> Option<Self> {
        match heard {
            Heard::Request(request) => Some(Self::Request(request.id)),
            Heard::Input(input) => Some(Self::Input(input.id)),
            #[cfg(feature = "http")]
            Heard::Challenge(challenge) => Some(Self::Challenge(challenge.exchange)),
            _ => None,
        }
    }

    fn refuse(self) -> Reply {
        match self {
            Self::Request(request) => Reply::Request(request, Err(nobody())),
            Self::Input(input) => Reply::Input(input, Err(nobody())),
            #[cfg(feature = "http")]
            Self::Challenge(exchange) => Reply::Challenge(exchange, None),
        }
    }
}

/// Answers one question
async fn answer<H: AsyncClientHandler>(handler: Arc<H>, heard: Heard, given: Sender<Reply>) {
    let reply = match heard {
        Heard::Request(request) => {
            let outcome = caught(handler.request(&request)).await;
            Reply::Request(request.id, outcome.unwrap_or_else(|_| Err(panicked())))
        }
        Heard::Input(input) => {
            let outcome = caught(handler.input(&input)).await;
            Reply::input(&input, outcome.unwrap_or_else(|_| Err(panicked())))
        }
        #[cfg(feature = "http")]
        Heard::Challenge(challenge) => {
            let outcome = caught(handler.challenge(&challenge)).await;
            Reply::Challenge(challenge.exchange, outcome.unwrap_or_default())
        }
        _ => return,
    };
    // No more of them than questions.
    let _ = given.send_due(reply);
}

impl<H, S, F> Later for Asynchronous<H, S, F>
where
    S: Fn(Arc<H>, Heard, Sender<Reply>) -> F,
    F: Future<Output = ()>,
{
    fn hear(&mut self, heard: Heard) -> Option<Heard> {
        let gone = match &heard {
            Heard::InputGone(input) => Question::Input(*input),
            Heard::RequestGone(request) => Question::Request(*request),
            _ => {
                let Some(question) = Question::of(&heard) else { return Some(heard) };
                self.asked.push_back((question, heard));
                return None;
            }
        };
        self.asked.retain(|(question, _)| *question != gone);
        self.running.stop(&gone);
        None
    }

    fn poll(&mut self, waker: &Waker) -> Option<Reply> {
        if let Some(reply) = self.answers.pop_front() {
            return Some(reply);
        }
        if self.open() == 0 {
            return None;
        }
        // First: what is woken while it is polled wakes this one.
        self.running.register(waker);
        while let Some((question, heard)) = self.asked.pop_front() {
            let (handler, given) = (self.handler.clone(), self.given.sender());
            self.running.start(question, || (self.start)(handler, heard, given));
        }
        self.running.turn();
        self.given.take(&mut self.answers);
        self.answers.pop_front()
    }

    fn open(&self) -> usize {
        self.asked.len() + self.running.len() + self.answers.len()
    }

    fn stop(&mut self) -> Vec<Reply> {
        let asked = self.asked.drain(..).map(|(question, _)| question);
        let open: Vec<Question> = asked.chain(self.running.clear_all()).collect();
        let refused = open.into_iter().map(Question::refuse);
        self.answers.drain(..).chain(refused).collect()
    }
}

impl<H, S, F> ClientHandler for Asynchronous<H, S, F>
where
    H: AsyncClientHandler,
    S: Fn(Arc<H>, Heard, Sender<Reply>) -> F,
    F: Future<Output = ()>,
{
    fn later(&mut self) -> Option<&mut dyn Later> {
        Some(self)
    }

    fn changed(&mut self, change: &Change) {
        self.handler.changed(change);
    }

    fn subscription_ended(&mut self, subscription: SubscriptionKey, error: Option<&CallError>) {
        self.handler.subscription_ended(subscription, error);
    }

    fn elicitation_complete(&mut self, id: &str) {
        self.handler.elicitation_complete(id);
    }

    fn log(&mut self, log: &Log) {
        self.handler.log(log);
    }

    fn notification(&mut self, notification: &Notification) {
        self.handler.notification(notification);
    }

    fn progress(&mut self, call: CallKey, progress: &Progress) {
        self.handler.progress(call, progress);
    }

    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        self.handler.diagnostic(diagnostic);
    }

    fn unreadable(&mut self, kind: Kind, entry: &RawJson, why: &str) {
        self.handler.unreadable(kind, entry, why);
    }

    fn unusable_schema(&mut self, tool: &str, why: &SchemaError) {
        self.handler.unusable_schema(tool, why);
    }

    fn tap(&mut self, record: &TapRecord) {
        self.handler.tap(record);
    }

    #[cfg(feature = "http")]
    fn head(&mut self, record: &HeadRecord) {
        self.handler.head(record);
    }
}

impl<H, S, F> fmt::Debug for Asynchronous<H, S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asynchronous").finish_non_exhaustive()
    }
}

fn nobody() -> RpcError {
    RpcError::internal("nobody is here to answer")
}

fn panicked() -> RpcError {
    RpcError::internal("the handler of the question panicked")
}
