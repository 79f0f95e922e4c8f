//! The context of a handler while it answers a call.

mod backend;
mod blocking;
mod input;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt::Debug;
use core::time::Duration;
use std::time::Instant as StdInstant;

use mcp_proto::model::LoggingLevel;
use mcp_proto::model::TaskId;
use mcp_proto::server::TaskOptions;
use mcp_proto::server::{
    Announcement, Authorization, BufferedResult, Call, CancelReason, Engine, Event, HttpRequest,
    InputRequired, Peer, PreparedResult, Scopes, TaskOffer,
};
use mcp_proto::{CallId, EncodeError, Instant, Limit, Progress, RawJson, RpcError, SendStatus, UseError};
use mcp_std::Panic;
use serde::Serialize;

use super::dispatcher::Dispatcher;
use super::handler::HandlerFailure;
use super::remote::{BeginTask, EncodedResult, HandlerOutcome, RemoteCall, TASK_MESSAGE_INTERVAL};
use super::server_loop::{ServerLoop, answer_time, set_task_message};

pub use backend::{Backend, BorrowedCall, CallParts, OwnedCall, RunningCall, SleepFuture, StartTimer};

/// The context of one call, for a handler that is a function.
///
/// In `mcp-blocking`, handlers run on the thread of the event loop, and nothing else moves until the handler returns.
/// The exceptions are [`progress`](CallCx::progress), [`checkpoint`](CallCx::checkpoint) and [`sleep`](CallCx::sleep):
/// they read and write, handle timeouts, and notice a cancellation. A handler that takes long should call one of them
/// now and then, and return its error with `?`. In other adapters these methods only check for a cancellation, and the
/// same code works:
///
/// ```
/// # use mcp_runtime::server::{Answered, Cx};
/// # use mcp_proto::{Progress, RpcError, model::CallToolResult};
/// fn count(cx: &mut Cx<'_>, to: u32) -> Result<Answered, RpcError> {
///     for n in 1..=to {
///         // … some work …
///         cx.progress(Progress::new(n.into()).with_total(to.into()))?;
///     }
///     cx.complete(&CallToolResult::text("done"))
/// }
/// ```
///
/// Messages that arrive while a handler runs on the loop's thread wait until it returns, within
/// [`Limits::max_waiting_requests`](mcp_proto::Limits) and [`max_waiting_bytes`](mcp_proto::Limits). Beyond these
/// limits reading pauses, so that a cancellation is not noticed.
pub type Cx<'a> = CallCx<BorrowedCall<'a>>;

/// The context of one call, for a handler that is a future.
///
/// When a call is cancelled, the future of its handler is dropped. A handler that computes for a long time calls
/// [`checkpoint`](CallCx::checkpoint) from time to time, or moves the work to a thread by the function `unblock` of its
/// adapter: while it computes, its server makes no progress.
pub type AsyncCx = CallCx<OwnedCall>;

/// The context of one call: [`Cx`] for functions, [`AsyncCx`] for futures.
#[derive(Debug)]
pub struct CallCx<B>(B);

/// State of a call while its handler runs.
#[derive(Debug)]
pub struct CallState {
    /// A buffer for a result that is encoded away from the event loop.
    buffer: Option<Box<BufferedResult>>,
    /// A result that was encoded away from the event loop.
    result: Option<EncodedResult>,
    end: Option<CallEnd>,
    failure: Option<Arc<HandlerFailure>>,
    input_required: InputRequired,
    /// Set if the call becomes a task when its handler has returned.
    begins_task: Option<BeginTask>,
    /// Description of the state of a task, on the loop's thread, and the time from which on it may be shown.
    task_message: Option<Box<str>>,
    next_task_message: Instant,
    next_checkpoint: Instant,
    /// Time at which the handler has failed.
    deadline: Option<Deadline>,
}

impl Default for CallState {
    fn default() -> Self {
        Self {
            buffer: None,
            result: None,
            end: None,
            failure: None,
            input_required: InputRequired::new(),
            begins_task: None,
            task_message: None,
            next_task_message: Instant::ZERO,
            next_checkpoint: Instant::ZERO,
            deadline: None,
        }
    }
}

/// Proof that a call was answered. Only [`Cx`] creates it.
#[derive(Debug)]
#[must_use = "return it from the handler"]
pub struct Answered(CallId);

impl Answered {
    /// Returns whether it belongs to `call`.
    pub fn is_for(&self, call: &Call) -> bool {
        self.0 == call.id()
    }
}

/// The reason why nothing more can be sent for a call.
#[derive(Debug)]
enum CallEnd {
    Answered,
    Cancelled(Option<CancelReason>),
}

impl<B: RunningCall> CallCx<B> {
    /// Completes the call with a result, which must serialize to a JSON object.
    ///
    /// It is sent when the handler has returned. For a cancelled call nothing is sent.
    ///
    /// # Errors
    ///
    /// An internal error if `result` cannot be encoded or the call was answered before. Return it from the handler.
    /// Details are reported to [`Handler::failed`](super::Handler::failed).
    pub fn complete<T: Serialize + ?Sized>(&mut self, result: &T) -> Result<Answered, RpcError> {
        let CallParts { backend, call, state } = self.0.parts();
        state.check_no_pending_input()?;
        let outcome = match backend {
            Backend::Local(server_loop, _) => {
                let now = answer_time(server_loop, call);
                server_loop.engine().complete(now, call.id(), result)
            }
            Backend::Remote(_) => {
                let mut buffer = state.buffer.take().unwrap_or_default();
                match buffer.encode(call.version(), result) {
                    Ok(()) => state.store_result(EncodedResult::Buffered(buffer)),
                    Err(error) => Err(error.into()),
                }
            }
        };
        state.record_answer(call, outcome)
    }

    /// Completes the call with a result that is a JSON object already. Large results are not copied.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    pub fn complete_raw(&mut self, result: &RawJson) -> Result<Answered, RpcError> {
        let CallParts { backend, call, state } = self.0.parts();
        state.check_no_pending_input()?;
        let outcome = match backend {
            Backend::Local(server_loop, _) => {
                let now = answer_time(server_loop, call);
                server_loop.engine().complete_raw(now, call.id(), result)
            }
            Backend::Remote(_) if !result.is_object() => Err(EncodeError::NotAnObject.into()),
            Backend::Remote(_) => state.store_result(EncodedResult::Raw(result.clone())),
        };
        state.record_answer(call, outcome)
    }

    /// Completes the call with a result that was encoded before, for the revision of the call.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    pub fn complete_prepared(&mut self, result: &PreparedResult) -> Result<Answered, RpcError> {
        let CallParts { backend, call, state } = self.0.parts();
        state.check_no_pending_input()?;
        let outcome = match backend {
            Backend::Local(server_loop, _) => {
                let now = answer_time(server_loop, call);
                server_loop.engine().complete_prepared(now, call.id(), result)
            }
            Backend::Remote(_) => state.store_result(EncodedResult::Prepared(Box::new(result.clone()))),
        };
        state.record_answer(call, outcome)
    }

    /// Reports progress, then does the same as [`checkpoint`](Self::checkpoint).
    ///
    /// It may be called at any rate. A report is not sent if the client did not ask for progress, or if it exceeds
    /// [`Limits::progress_rate`](mcp_proto::Limits). The latest report is sent as soon as the rate allows.
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](Self::checkpoint).
    pub fn progress(&mut self, progress: Progress) -> Result<(), RpcError> {
        let CallParts { backend, call, state } = self.0.parts();
        match backend {
            Backend::Local(server_loop, dispatcher) => {
                let now = server_loop.tick();
                if let Ok(SendStatus::Queued) = server_loop.engine().progress(now, call.id(), progress) {
                    state.next_checkpoint = now;
                }
                state.pump_if_due(server_loop, dispatcher, call, now)
            }
            Backend::Remote(remote) => {
                remote.progress(progress);
                state.check_cancelled(remote)
            }
        }
    }

    /// Checks whether to continue, without waiting. On the loop's thread it also reads, writes and handles timeouts.
    ///
    /// It is cheap enough for an inner loop: the transport is polled at most once per millisecond.
    ///
    /// # Errors
    ///
    /// The call has ended: it was cancelled or answered, the client has left, the call is too old, or the server shuts
    /// down. Or the time limit of a [layer](super::router::Interceptor::time_limit) is over, on a router of functions.
    /// Return the error with `?`; it is not sent.
    pub fn checkpoint(&mut self) -> Result<(), RpcError> {
        let CallParts { backend, call, state } = self.0.parts();
        match backend {
            Backend::Local(server_loop, dispatcher) => {
                let now = server_loop.tick();
                state.pump_if_due(server_loop, dispatcher, call, now)
            }
            Backend::Remote(remote) => state.check_cancelled(remote),
        }
    }

    /// Sends a log message about the call, if the client wants messages of this level.
    ///
    /// Away from the event loop, [`SendStatus::Queued`] only says that the message was passed to the loop, which checks
    /// the level later.
    ///
    /// # Errors
    ///
    /// - [`UseError::Stale`]: the call has ended, as far as is known.
    /// - [`UseError::Encode`]: `data` cannot be encoded as JSON.
    /// - [`UseError::Full`]: too many commands wait for the event loop.
    /// - [`UseError::NotDeclared`]: the server did not declare that it logs.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    #[expect(deprecated, reason = "supported until its removal")]
    pub fn log<T: Serialize + ?Sized>(
        &mut self,
        level: &LoggingLevel,
        logger: Option<&str>,
        data: &T,
    ) -> Result<SendStatus, UseError> {
        let CallParts { backend, call, .. } = self.0.parts();
        let call = call.id();
        match backend {
            Backend::Local(server_loop, _) => {
                let now = server_loop.tick();
                server_loop.engine().log(now, call, level, logger, data)
            }
            Backend::Remote(remote) if remote.is_cancelled() => Err(UseError::Stale),
            Backend::Remote(remote) => {
                let (level, logger, data) = (level.clone(), logger.map(String::from), RawJson::encode(data)?);
                let sent = remote.send_command(Box::new(move |server_loop| {
                    let now = server_loop.now();
                    // The handler has gone on and cannot receive the error.
                    let _ = server_loop.engine().log(now, call, &level, logger.as_deref(), &data);
                }));
                if sent { Ok(SendStatus::Queued) } else { Err(UseError::Full(Limit::LoopCommands)) }
            }
        }
    }

    /// Publishes a change to all subscribers, or an [`Announcement`] to its audience.
    ///
    /// A router publishes changes of its lists itself. The bound on commands that wait for the event loop does not
    /// apply; several changes of one list or resource are published as one. If very many resources have changed, all
    /// subscribers of resources are notified.
    pub fn publish<'c>(&mut self, change: impl Into<Announcement<'c>>) {
        let announcement = change.into();
        match self.0.parts().backend {
            Backend::Local(server_loop, _) => server_loop.publish(&announcement),
            Backend::Remote(remote) => remote.publish(&announcement),
        }
    }

    /// Lets the client poll for the answer after `retry` or the configured time, and frees its connection meanwhile.
    ///
    /// It is for long calls. Returns `false` and changes nothing if this is not supported: on byte streams, and for
    /// clients with a revision other than 2025-11-25. Away from the event loop, only byte streams are recognized.
    pub fn poll_later(&mut self, retry: Option<Duration>) -> bool {
        let CallParts { backend, call, .. } = self.0.parts();
        let call = call.id();
        match backend {
            Backend::Local(server_loop, _) => server_loop.poll_later(call, retry),
            Backend::Remote(remote) => {
                remote.supports_poll_later()
                    && remote
                        .send_command(Box::new(move |server_loop| _ = server_loop.poll_later(call, retry)))
            }
        }
    }

    /// Returns whether the call is known to be cancelled. Only [`progress`](Self::progress),
    /// [`checkpoint`](Self::checkpoint) and [`sleep`](Self::sleep) update this.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.0.state().end, Some(CallEnd::Cancelled(_)))
    }

    /// Returns why the call is cancelled, if it is and the reason is known.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<&CancelReason> {
        match &self.0.state().end {
            Some(CallEnd::Cancelled(Some(reason))) => Some(reason),
            _ => None,
        }
    }

    /// Returns the call, as [`call`](Cx::call) does, of any context.
    pub fn running_call(&self) -> &Call {
        self.0.call()
    }

    /// Returns the client, as far as its identity is known.
    pub fn peer(&mut self) -> Peer {
        let CallParts { backend, call, .. } = self.0.parts();
        match backend {
            Backend::Local(server_loop, _) => server_loop.engine().peer(call),
            Backend::Remote(remote) => remote.peer(),
        }
    }

    /// Returns the party on whose behalf the call is made: its principal and its scopes. `None` without authorization:
    /// on byte streams, and on servers that are not protected.
    pub fn authorization(&self) -> Option<&Authorization> {
        self.0.call().authorization()
    }

    /// Returns the HTTP request of the call: its path, chosen header fields, and its connection.
    ///
    /// `None` on byte streams and in the run of a task ([`Call::http`]). Fields are seen if
    /// [`visible_fields`](mcp_proto::http::server::Config::visible_fields) names them.
    pub fn http(&self) -> Option<&HttpRequest> {
        self.0.call().http()
    }

    /// Returns the value of a type that was attached to the request, its token, its session or its connection
    /// ([`Call::extension`]).
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.call().extension()
    }

    /// Returns the principal on whose behalf the call is made, if it is authenticated.
    pub fn principal(&self) -> Option<String> {
        self.authorization().map(|party| party.principal().into())
    }

    /// Returns the scopes of the token with which the call was made, if it is authenticated.
    pub fn scopes(&self) -> Option<&Scopes> {
        self.authorization().map(Authorization::scopes)
    }

    /// Returns whether the token of the call has a scope, or one that includes it. Without authorization there is none.
    pub fn has_scope(&self, scope: &str) -> bool {
        self.authorization().is_some_and(|party| party.has_scope(scope))
    }

    /// Checks that the token of the call has all these scopes, or broader ones; without authorization it needs none.
    ///
    /// Ask for all scopes of the operation at once, before anything has an effect. The client then gets a token with
    /// them and repeats the call.
    ///
    /// ```
    /// # use mcp_runtime::server::Cx;
    /// # use mcp_proto::RpcError;
    /// fn delete(cx: &mut Cx<'_>) -> Result<String, RpcError> {
    ///     cx.require_scopes(&["files:read", "files:write"])?;
    ///     Ok("deleted".into())
    /// }
    /// # let _ = delete;
    /// ```
    ///
    /// # Errors
    ///
    /// The error that refuses the call: return it from the handler. Over HTTP the response is then 403 with a challenge,
    /// unless it has begun, for example with [`progress`](Self::progress)
    /// ([`Engine::fail`](mcp_proto::server::Engine::fail)).
    pub fn require_scopes<S: AsRef<str>>(&self, scopes: &[S]) -> Result<(), RpcError> {
        self.0.call().require_scopes(scopes)
    }

    /// Runs a command of the engine that has no method here, for example a notification of the application.
    ///
    /// On the loop's thread it runs immediately, elsewhere it runs soon.
    ///
    /// # Errors
    ///
    /// An internal error if the command does not run, because too many commands wait or the event loop has stopped.
    pub fn with_engine(
        &mut self,
        command: impl FnOnce(&mut Engine, Instant) + Send + 'static,
    ) -> Result<(), RpcError> {
        match self.0.parts().backend {
            Backend::Local(server_loop, _) => {
                let now = server_loop.tick();
                command(server_loop.engine(), now);
                Ok(())
            }
            Backend::Remote(remote) => {
                let sent = remote.send_command(Box::new(move |server_loop| {
                    let now = server_loop.now();
                    command(server_loop.engine(), now);
                }));
                if sent { Ok(()) } else { Err(RpcError::internal("the server is behind")) }
            }
        }
    }

    /// Records a failure for the author of the handler. The client does not see it.
    pub fn record_failure(&mut self, failure: HandlerFailure) {
        self.0.parts().state.record_failure(failure);
    }

    /// Returns whether input requests will be sent instead of the outcome of the handler.
    #[must_use]
    pub fn is_awaiting_input(&self) -> bool {
        self.0.state().is_awaiting_input()
    }

    /// Returns whether the call will become a task instead of the outcome of the handler.
    #[must_use]
    pub fn is_becoming_task(&self) -> bool {
        self.0.state().is_becoming_task()
    }
}

impl CallState {
    /// Creates the state of a call away from the event loop, with a buffer for its result.
    pub(super) fn with_buffer(buffer: Option<Box<BufferedResult>>) -> Self {
        Self { buffer, ..Self::default() }
    }

    fn record_failure(&mut self, failure: HandlerFailure) {
        self.failure = Some(Arc::new(failure));
    }

    fn is_awaiting_input(&self) -> bool {
        !self.input_required.is_empty() && self.end.is_none()
    }

    const fn is_becoming_task(&self) -> bool {
        self.begins_task.is_some() && self.end.is_none()
    }

    /// Returns the outcome of the call after its handler has returned or panicked.
    #[must_use]
    pub fn into_outcome(
        mut self,
        call: &Call,
        outcome: Result<Result<Answered, RpcError>, Panic>,
    ) -> HandlerOutcome {
        if self.is_awaiting_input() && outcome.is_ok() {
            return HandlerOutcome::InputRequired(self.input_required);
        }
        if let (Some(begin_task), None, Ok(_)) = (self.begins_task, &self.end, &outcome) {
            return HandlerOutcome::BeginTask(self.input_required, begin_task);
        }
        if let Some(result) = self.result.take() {
            // The result stands, even if the handler panics afterwards.
            let panic = outcome.err().map(|panic| Arc::new(HandlerFailure::Panicked(panic)));
            return HandlerOutcome::Complete(result, panic.or(self.failure));
        }
        match (outcome, self.failure) {
            (Ok(Ok(answered)), failure) if answered.is_for(call) => HandlerOutcome::Answered(failure),
            // The handler returned the `Answered` of another call.
            (Ok(Ok(_)), _) => HandlerOutcome::Fail(
                RpcError::internal("no answer").into(),
                Some(Arc::new(HandlerFailure::Unanswered)),
            ),
            (Ok(Err(error)), failure) => HandlerOutcome::Fail(error.into(), failure),
            (Err(panic), _) => HandlerOutcome::from_panic(call, panic),
        }
    }

    fn store_result(&mut self, result: EncodedResult) -> Result<(), UseError> {
        if self.result.is_some() {
            return Err(UseError::Stale);
        }
        self.result = Some(result);
        Ok(())
    }

    fn record_answer(&mut self, call: &Call, outcome: Result<(), UseError>) -> Result<Answered, RpcError> {
        match outcome {
            Ok(()) => self.end = Some(CallEnd::Answered),
            Err(UseError::Encode(error)) => {
                self.record_failure(HandlerFailure::Encode(error));
                return Err(RpcError::internal("the result cannot be written as JSON"));
            }
            Err(refused) if refused != UseError::Stale => {
                self.record_failure(refused.into());
                return Err(RpcError::internal("the result cannot be sent"));
            }
            Err(_) if matches!(self.end, Some(CallEnd::Answered)) => {
                return Err(RpcError::internal("answered already"));
            }
            // The call is cancelled, so the answer is not sent.
            Err(_) => {
                self.end.get_or_insert(CallEnd::Cancelled(None));
            }
        }
        Ok(Answered(call.id()))
    }

    /// Checks that no input request is pending, and that the call does not become a task. Its error is never sent,
    /// because the input requests or the task are sent instead.
    fn check_no_pending_input(&self) -> Result<(), RpcError> {
        if self.begins_task.is_some() {
            Err(RpcError::internal("the call becomes a task first"))
        } else if self.input_required.is_empty() {
            Ok(())
        } else {
            Err(RpcError::internal("something has to be asked first"))
        }
    }

    fn check_open(&self) -> Result<(), RpcError> {
        match self.end {
            None => Ok(()),
            Some(CallEnd::Answered) => Err(RpcError::internal("answered already")),
            Some(CallEnd::Cancelled(_)) => Err(RpcError::internal("cancelled")),
        }
    }

    /// Notices a cancellation away from the event loop.
    fn check_cancelled(&mut self, remote: &RemoteCall) -> Result<(), RpcError> {
        if remote.is_cancelled() {
            self.end = Some(CallEnd::Cancelled(remote.cancel_reason()));
        }
        self.check_open()?;
        self.check_deadline(None)
    }

    fn pump_if_due(
        &mut self,
        server_loop: &mut dyn ServerLoop,
        dispatcher: &mut Dispatcher,
        call: &Call,
        now: Instant,
    ) -> Result<(), RpcError> {
        if now >= self.next_checkpoint {
            self.pump(server_loop, dispatcher, call, now);
            self.next_checkpoint = now + CHECKPOINT_INTERVAL;
        }
        self.check_open()?;
        self.check_deadline(Some(now))
    }

    /// Polls the transport until `until` or the end of the call, and at least once.
    fn pump(
        &mut self,
        server_loop: &mut dyn ServerLoop,
        dispatcher: &mut Dispatcher,
        call: &Call,
        until: Instant,
    ) {
        let mut polled = false;
        loop {
            while let Some(event) = server_loop.poll_event_during_call() {
                match event {
                    Event::Cancelled { call: cancelled, reason } if cancelled == call.id() => {
                        self.end = Some(CallEnd::Cancelled(Some(reason)));
                    }
                    event => server_loop.defer(event),
                }
            }
            let held = self.show_task_message(server_loop, call);
            if server_loop.write() {
                continue;
            }
            if self.end.is_some() || (polled && server_loop.now() >= until) {
                return;
            }
            let deadlines = [held, dispatcher.next_deadline()];
            server_loop.wait(deadlines.into_iter().flatten().fold(until, Instant::min));
            // Commands may, for example, shut the server down; and other tasks are stored. No remote handler runs, so there are no failures.
            dispatcher.process_messages(server_loop, &mut |_, _| {});
            polled = true;
        }
    }
}

/// Minimum interval between two polls of the transport in a handler.
const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(1);

// Time limits of handlers that are functions.

/// Time at which a handler has failed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deadline {
    /// On the clock of the event loop.
    Loop(Instant),
    /// Away from the event loop. `None` is never.
    Wall(Option<StdInstant>),
}

impl Deadline {
    /// Returns the time that is left; `now` is that of the event loop, on its thread.
    fn time_left(self, now: Option<Instant>) -> Duration {
        match (self, now) {
            (Self::Loop(until), Some(now)) => until.saturating_duration_since(now),
            (Self::Wall(Some(until)), _) => until.saturating_duration_since(StdInstant::now()),
            _ => Duration::MAX,
        }
    }
}

impl<B: RunningCall> CallCx<B> {
    /// Lets the handler fail after `limit`, unless it has to end earlier already. Returns the previous deadline.
    pub(super) fn set_deadline(&mut self, limit: Duration) -> Option<Deadline> {
        let CallParts { backend, state, .. } = self.0.parts();
        let (now, deadline) = match backend {
            Backend::Local(server_loop, _) => {
                let now = server_loop.tick();
                (Some(now), Deadline::Loop(now + limit))
            }
            Backend::Remote(_) => (None, Deadline::Wall(StdInstant::now().checked_add(limit))),
        };
        let outer = state.deadline;
        if outer.is_none_or(|outer| limit < outer.time_left(now)) {
            state.deadline = Some(deadline);
        }
        outer
    }

    /// Restores a previous deadline; returns whether that of now has passed.
    pub(super) fn restore_deadline(&mut self, outer: Option<Deadline>) -> bool {
        let CallParts { backend, state, .. } = self.0.parts();
        let now = match backend {
            Backend::Local(server_loop, _) => Some(server_loop.tick()),
            Backend::Remote(_) => None,
        };
        core::mem::replace(&mut state.deadline, outer).is_some_and(|inner| inner.time_left(now).is_zero())
    }

    /// Drops the input requests of the handler, and its wish to become a task, so that its error is sent. Values that it keeps
    /// for the next delivery stay: what they record has been done.
    pub(super) fn discard_pending(&mut self) {
        let state = self.0.parts().state;
        state.input_required.discard_requests();
        state.begins_task = None;
    }
}

impl CallState {
    /// Returns the time until the deadline, at most `duration`; `now` is that of the event loop, on its thread.
    fn limit_to_deadline(&self, duration: Duration, now: Option<Instant>) -> Duration {
        self.deadline.map_or(duration, |deadline| deadline.time_left(now).min(duration))
    }

    /// Checks that the deadline has not passed; `now` is that of the event loop, on its thread.
    fn check_deadline(&self, now: Option<Instant>) -> Result<(), RpcError> {
        if self.deadline.is_some_and(|deadline| deadline.time_left(now).is_zero()) {
            return Err(RpcError::internal("the call took too long"));
        }
        Ok(())
    }
}

// The task that a call runs as.

impl<B: RunningCall> CallCx<B> {
    /// Returns the id of the task that the call runs as; `None` in a plain call.
    ///
    /// A holder of the id may use the task, so treat it as a secret.
    #[must_use]
    pub fn task(&self) -> Option<TaskId> {
        self.0.call().task_id()
    }

    /// Describes the state of the task to its client, then does the same as [`checkpoint`](Self::checkpoint).
    ///
    /// It may be called at any rate: a client sees the latest description, and the store gets at most one in a second. In
    /// a plain call it has no effect.
    ///
    /// ```
    /// # use mcp_runtime::server::Cx;
    /// # use mcp_proto::RpcError;
    /// fn build(cx: &mut Cx<'_>) -> Result<&'static str, RpcError> {
    ///     for part in ["keel", "planks", "mast"] {
    ///         cx.working(format!("working on the {part}"))?;
    ///         // … some work …
    ///     }
    ///     Ok("a boat")
    /// }
    /// # let _ = build;
    /// ```
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](Self::checkpoint).
    pub fn working(&mut self, message: impl Into<Box<str>>) -> Result<(), RpcError> {
        let CallParts { backend, call, state } = self.0.parts();
        if call.is_task_run() {
            match backend {
                Backend::Local(..) => state.task_message = Some(message.into()),
                Backend::Remote(remote) => remote.set_task_message(message.into()),
            }
        }
        self.checkpoint()
    }

    /// Makes the call a task, if the client supports it, for a tool that
    /// [defers](mcp_proto::router::ToolEntry::defer_task) the decision.
    ///
    /// The first time it returns an error: leave the handler with `?`. The handler then runs again from its beginning, as
    /// the task, with the input that was there before. In the task, and in a call that cannot become one, it returns
    /// `Ok`. So ask first what a task should not wait for:
    ///
    /// ```
    /// # use mcp_runtime::server::Cx;
    /// # use mcp_proto::RpcError;
    /// # use mcp_proto::model::{BooleanSchema, ElicitSchema};
    /// fn refit(cx: &mut Cx<'_>) -> Result<&'static str, RpcError> {
    ///     let form = ElicitSchema::default().field("ok", BooleanSchema::new());
    ///     cx.elicit("confirm", "Take the boat out of the water?", form)?;
    ///     cx.begin_task()?;
    ///     // … a day of work …
    ///     Ok("as new")
    /// }
    /// # let _ = refit;
    /// ```
    ///
    /// # Errors
    ///
    /// An error that is never sent: the call becomes a task.
    pub fn begin_task(&mut self) -> Result<(), RpcError> {
        let CallParts { call, state, .. } = self.0.parts();
        if call.task_offer() == TaskOffer::None {
            return Ok(());
        }
        state.begins_task = Some(begin_task);
        Err(RpcError::internal("the call becomes a task"))
    }
}

impl CallState {
    /// Shows the description of the task on the loop's thread, if it is time. Returns when it will be.
    fn show_task_message(&mut self, server_loop: &mut dyn ServerLoop, call: &Call) -> Option<Instant> {
        let message = self.task_message.take()?;
        let now = server_loop.now();
        if now < self.next_task_message {
            self.task_message = Some(message);
            return Some(self.next_task_message);
        }
        self.next_task_message = now + TASK_MESSAGE_INTERVAL;
        set_task_message(server_loop, call, &message);
        None
    }
}

/// Makes a call a task.
fn begin_task(engine: &mut Engine, now: Instant, call: &Call, input: &InputRequired) -> Result<(), UseError> {
    input.begin_task(engine, now, call, TaskOptions::new())
}
