//! A call whose handler runs away from the event loop: on another thread, or in a future.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::Waker;
use core::time::Duration;
use std::sync::{Condvar, Mutex};

use mcp_proto::server::{
    Announcement, BufferedResult, Call, CancelReason, Engine, InputRequired, Peer, PreparedResult,
};
use mcp_proto::{Instant, Progress, RawJson, RpcError, UseError};
use mcp_std::sync::{SendError, Sender, lock};
use mcp_std::{Panic, catch};

use super::cx::{Answered, Backend, CallState, Cx};
use super::handler::HandlerFailure;
use super::server_loop::{ChangeSet, ServerLoop, in_scope};

/// A command that runs on the event loop.
pub type LoopCommand = Box<dyn FnOnce(&mut dyn ServerLoop) + Send>;

/// A message to the event loop.
pub(crate) enum LoopMessage {
    /// The call has progress to report, or a description of its task. They are stored in the call.
    Progress(Arc<ActiveCall>),
    /// The handler has ended.
    Finished(Arc<ActiveCall>, HandlerOutcome),
    /// The last work that outlived the handler of the call has ended.
    Released(Arc<ActiveCall>),
    /// Something has changed.
    Changed(ChangeSet),
    /// Runs a command.
    Run(LoopCommand),
}

impl LoopMessage {
    /// Merges the changes of another message into this one. Returns `false` unless both carry changes.
    pub(super) fn merge(&mut self, other: &Self) -> bool {
        let (Self::Changed(changes), Self::Changed(more)) = (self, other) else { return false };
        changes.merge(more);
        true
    }
}

/// Makes a call a task. A pointer, so that only programs whose handlers begin tasks link the code.
pub type BeginTask = fn(&mut Engine, Instant, &Call, &InputRequired) -> Result<(), UseError>;

/// Outcome of a handler.
#[derive(Debug)]
pub enum HandlerOutcome {
    /// The call is answered or no longer awaited. A failure is reported to the author of the handler.
    Answered(Option<Arc<HandlerFailure>>),
    /// Completes the call with a result. A failure is reported to the author of the handler.
    Complete(EncodedResult, Option<Arc<HandlerFailure>>),
    /// Sends input requests first.
    InputRequired(InputRequired),
    /// Begins a task, which runs the handler again.
    BeginTask(InputRequired, BeginTask),
    /// Fails the call with an error. A failure is reported to the author of the handler.
    Fail(Box<RpcError>, Option<Arc<HandlerFailure>>),
}

/// A result that was encoded away from the event loop.
#[derive(Debug)]
pub enum EncodedResult {
    /// Encoded for the revision of the call, to be sent once.
    Buffered(Box<BufferedResult>),
    /// Encoded for the revision of the call, before it arrived.
    Prepared(Box<PreparedResult>),
    /// Raw JSON, sent unchanged.
    Raw(RawJson),
}

/// A call that a remote handler works on.
#[derive(Debug)]
pub struct ActiveCall {
    call: Call,
    peer: Peer,
    /// Whether the transport supports `poll_later`.
    supports_poll_later: bool,
    /// Index of its slot in the [`Dispatcher`](super::Dispatcher).
    pub(super) slot: usize,
    /// The handler until its outcome is applied, and the work that it has moved to other threads. The slot is free
    /// when none is left, so that clients cannot start more work than handlers may run.
    holders: AtomicUsize,
    cancelled: AtomicBool,
    state: Mutex<State>,
    /// Notified when the call is cancelled.
    cancellation: Condvar,
}

#[derive(Debug, Default)]
struct State {
    reason: Option<CancelReason>,
    progress: Option<Progress>,
    /// Description of the state of a task, and the time from which on it may be shown.
    task_message: Option<Box<str>>,
    next_task_message: Instant,
    waker: Option<Waker>,
}

impl ActiveCall {
    pub(super) fn new(call: Call, slot: usize, server_loop: &mut dyn ServerLoop) -> Self {
        let engine = server_loop.engine();
        Self {
            peer: engine.peer(&call),
            supports_poll_later: server_loop.supports_poll_later(),
            slot,
            holders: AtomicUsize::new(1),
            cancelled: AtomicBool::new(false),
            state: Mutex::default(),
            cancellation: Condvar::new(),
            call,
        }
    }

    /// Returns the call.
    pub const fn call(&self) -> &Call {
        &self.call
    }

    /// Returns whether the call is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Registers a waker that is woken when the call is cancelled, or immediately if it is.
    pub fn register_cancel_waker(&self, waker: &Waker) {
        let mut state = lock(&self.state);
        match &mut state.waker {
            Some(previous) => previous.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        drop(state);
        // The cancellation may have come before the waker was registered.
        if self.is_cancelled() {
            waker.wake_by_ref();
        }
    }

    /// Cancels the call and wakes its handler. The first reason is kept.
    pub(super) fn cancel(&self, reason: CancelReason) {
        let waker = {
            let mut state = lock(&self.state);
            state.reason.get_or_insert(reason);
            // Stored under the lock, so that no handler begins to sleep between its look and the notification.
            self.cancelled.store(true, Ordering::Release);
            state.waker.take()
        };
        self.cancellation.notify_all();
        // After unlocking, because a waker runs code of an executor.
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Gives up one holder. Returns whether it was the last one.
    pub(super) fn release(&self) -> bool {
        self.holders.fetch_sub(1, Ordering::AcqRel) == 1
    }

    pub(super) fn take_progress(&self) -> Option<Progress> {
        lock(&self.state).progress.take()
    }

    /// Takes the description of the task if it may be shown now. Otherwise returns when it may.
    pub(super) fn take_task_message(&self, now: Instant) -> Result<Option<Box<str>>, Instant> {
        let mut state = lock(&self.state);
        if state.task_message.is_some() {
            if now < state.next_task_message {
                return Err(state.next_task_message);
            }
            state.next_task_message = now + TASK_MESSAGE_INTERVAL;
        }
        Ok(state.task_message.take())
    }
}

/// A call as its remote handler sees it.
///
/// Dropping it before [`finish`](Self::finish) fails the call.
pub struct RemoteCall {
    running: Arc<ActiveCall>,
    sender: Sender<LoopMessage>,
    role: CallRole,
    /// A buffer for the result, to be used again.
    buffer: Option<Box<BufferedResult>>,
    /// Whether the handler does not wait any more for the work that has this.
    abandonment: Option<Arc<AtomicBool>>,
}

/// Tells work on another thread that its handler does not wait for it any more.
#[derive(Debug)]
pub(super) struct Abandonment {
    running: Arc<ActiveCall>,
    flag: Arc<AtomicBool>,
}

impl Abandonment {
    /// Tells the work, and wakes it if it sleeps.
    pub(super) fn tell(&self) {
        {
            // Locked, so that no sleep begins between a look at the flag and the notification.
            let _state = lock(&self.running.state);
            self.flag.store(true, Ordering::Release);
        }
        self.running.cancellation.notify_all();
    }
}

/// Part of a call that a [`RemoteCall`] belongs to. It decides which message the loop gets when it is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallRole {
    /// Its handler has not finished.
    Handler,
    /// The outcome was reported.
    Finished,
    /// Work of the handler on another thread has ended.
    Work,
}

impl RemoteCall {
    pub(super) const fn new(
        running: Arc<ActiveCall>,
        sender: Sender<LoopMessage>,
        buffer: Option<Box<BufferedResult>>,
    ) -> Self {
        Self { running, sender, role: CallRole::Handler, buffer, abandonment: None }
    }

    /// Returns the same call for work that its handler moves to another thread, and that may outlive the handler.
    ///
    /// The second value tells the work that the handler does not wait for it any more, though the call may go on.
    pub(super) fn for_work(&self) -> (Self, Abandonment) {
        self.running.holders.fetch_add(1, Ordering::AcqRel);
        let flag = Arc::new(AtomicBool::new(false));
        let (running, sender, abandonment) = (self.running.clone(), self.sender.clone(), Some(flag.clone()));
        let buffer = None;
        let work = Self { running: running.clone(), sender, role: CallRole::Work, buffer, abandonment };
        (work, Abandonment { running, flag })
    }

    /// Notes that the outcome is known. Otherwise dropping this reports that the handler gave up.
    pub(super) const fn mark_finished(&mut self) {
        self.role = CallRole::Finished;
    }

    fn is_abandoned(&self) -> bool {
        self.abandonment.as_ref().is_some_and(|flag| flag.load(Ordering::Acquire))
    }

    /// Returns the call with everything known about it.
    #[must_use]
    pub const fn running(&self) -> &Arc<ActiveCall> {
        &self.running
    }

    /// Returns whether the call is cancelled, or its handler does not wait any more for the work that has this.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.running.is_cancelled() || self.is_abandoned()
    }

    /// Returns why the call is cancelled, or `None` if it is not, or if only its handler does not wait any more.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        if self.running.is_cancelled() { lock(&self.running.state).reason.clone() } else { None }
    }

    /// Waits until the call is cancelled, for `timeout` at most. Returns whether it is cancelled.
    pub fn wait_for_cancellation(&self, timeout: Duration) -> bool {
        let state = lock(&self.running.state);
        let outcome = self.running.cancellation.wait_timeout_while(state, timeout, |_| !self.is_cancelled());
        drop(outcome);
        self.is_cancelled()
    }

    pub(super) fn peer(&self) -> Peer {
        self.running.peer.clone()
    }

    pub(super) fn supports_poll_later(&self) -> bool {
        self.running.supports_poll_later
    }

    /// Reports progress. Only the latest report waits for the loop.
    pub(super) fn progress(&self, progress: Progress) {
        if !self.running.call.wants_progress() {
            return;
        }
        // If a report is present, the loop has not seen it yet and will take this one instead.
        if lock(&self.running.state).progress.replace(progress).is_none() {
            // It fails only when the loop has stopped, which then sends no progress.
            let _ = self.sender.send_unbounded(LoopMessage::Progress(self.running.clone()));
        }
    }

    /// Describes the state of a task. Only the latest description waits for the loop.
    pub(super) fn set_task_message(&self, message: Box<str>) {
        if lock(&self.running.state).task_message.replace(message).is_none() {
            // The loop has stopped, and its tasks with it.
            let _ = self.sender.send_unbounded(LoopMessage::Progress(self.running.clone()));
        }
    }

    /// Publishes a change to its audience, unless the loop has stopped.
    pub(super) fn publish(&self, announcement: &Announcement<'_>) {
        let _ = self.sender.send_or_merge(LoopMessage::Changed(announcement.into()), LoopMessage::merge);
    }

    /// Sends a command to the loop. Returns `false` if too many commands wait or the loop has stopped.
    pub(super) fn send_command(&self, command: LoopCommand) -> bool {
        match self.sender.send(LoopMessage::Run(command)) {
            Ok(()) => true,
            Err(SendError::Full(_) | SendError::Closed(_)) => false,
        }
    }

    /// Runs a handler to its end on this thread and reports its outcome. A panic is caught.
    pub fn run(mut self, handler: impl FnOnce(&mut Cx<'_>, &Call) -> Result<Answered, RpcError>) {
        let running = self.running.clone();
        let mut state = CallState::with_buffer(self.take_buffer());
        let mut cx = Cx::new(Backend::Remote(&self), running.call(), &mut state);
        let outcome = catch(|| in_scope(running.call(), || handler(&mut cx, running.call())));
        let outcome = state.into_outcome(running.call(), outcome);
        self.finish(outcome);
    }

    /// Reports the outcome of a handler; see [`CallState::into_outcome`].
    pub fn finish(self, outcome: HandlerOutcome) {
        FinishedCall { remote: self, outcome }.report();
    }

    /// Takes the buffer for the result.
    pub(super) const fn take_buffer(&mut self) -> Option<Box<BufferedResult>> {
        self.buffer.take()
    }
}

/// A call whose handler has ended, and the outcome: for the loop, or to be [reported](Self::report) to it.
///
/// Dropping it fails the call.
#[derive(Debug)]
#[must_use = "report it"]
pub struct FinishedCall {
    pub(super) remote: RemoteCall,
    pub(super) outcome: HandlerOutcome,
}

impl FinishedCall {
    /// Reports the outcome to the loop, from any thread.
    pub fn report(self) {
        let Self { mut remote, outcome } = self;
        remote.mark_finished();
        // After the end of the loop no answer can be sent.
        let _ = remote.sender.send_unbounded(LoopMessage::Finished(remote.running.clone(), outcome));
    }
}

impl Drop for RemoteCall {
    fn drop(&mut self) {
        let outcome = match self.role {
            CallRole::Finished => return,
            CallRole::Work if !self.running.release() => return,
            CallRole::Work => None,
            // Nothing is sent, but the slot has to become free.
            CallRole::Handler if self.is_cancelled() => Some(HandlerOutcome::Answered(None)),
            CallRole::Handler => {
                let failure = Some(Arc::new(HandlerFailure::Unanswered));
                let error = RpcError::internal("the handler gave up");
                Some(HandlerOutcome::Fail(error.into(), failure))
            }
        };
        let running = self.running.clone();
        let message = match outcome {
            Some(outcome) => LoopMessage::Finished(running, outcome),
            None => LoopMessage::Released(running),
        };
        let _ = self.sender.send_unbounded(message);
    }
}

impl HandlerOutcome {
    pub(super) fn from_panic(call: &Call, panic: Panic) -> Self {
        Self::Fail(
            RpcError::internal(format!("the handler of {} panicked", call.describe_target())).into(),
            Some(Arc::new(HandlerFailure::Panicked(panic))),
        )
    }
}

impl fmt::Debug for RemoteCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteCall").field("running", &self.running).finish_non_exhaustive()
    }
}

impl fmt::Debug for LoopMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Progress(running) => f.debug_tuple("Progress").field(&running.call.id()).finish(),
            Self::Finished(running, outcome) => {
                f.debug_tuple("Finished").field(&running.call.id()).field(outcome).finish()
            }
            Self::Released(running) => f.debug_tuple("Released").field(&running.call.id()).finish(),
            Self::Changed(changes) => changes.fmt(f),
            Self::Run(_) => f.write_str("Run"),
        }
    }
}

/// Interval at which descriptions of a task are shown and stored.
pub(super) const TASK_MESSAGE_INTERVAL: Duration = Duration::from_secs(1);
