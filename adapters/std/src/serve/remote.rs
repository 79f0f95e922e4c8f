//! A call in the hands of a handler that runs elsewhere: on another thread, or in a future

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;
use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use mcp_proto::server::{Asking, Call, CancelReason, Peer, Prepared};
use mcp_proto::{Change, Progress, RawJson, RpcError};

use super::changes::Changes;
use super::cx::{Answered, Cx};
use super::handler::Failure;
use super::host::Host;
use crate::inbox::{Refused, Sender};
use crate::{Panic, catch};

/// What is done on the loop for somebody elsewhere
pub type Command = Box<dyn FnOnce(&mut dyn Host) + Send>;

/// What somebody elsewhere has to say to the loop
pub enum Report {
    /// The call has come further: how far stands with it
    Progress(Arc<Running>),
    /// The handler has ended
    Over(Arc<Running>, Verdict),
    /// Something has changed
    Changed(Changes),
    /// Something is to be done
    Do(Command),
}

impl Report {
    /// Adds what has changed, if that is what both are about
    pub(super) fn merge(&mut self, other: &Self) -> bool {
        let (Self::Changed(changes), Self::Changed(more)) = (self, other) else { return false };
        changes.add(more);
        true
    }
}

/// What becomes of a call whose handler has ended
#[derive(Debug)]
pub enum Verdict {
    /// It is answered, or nobody waits any more
    Answered,
    /// It is to be answered with this; the rest is for the author of the handler
    Complete(Done, Option<Arc<Failure>>),
    /// Something has to be asked first
    Ask(Asking),
    /// It fails with this; the rest is for the author of the handler
    Fail(RpcError, Option<Arc<Failure>>),
}

/// A result that was written off the loop
#[derive(Debug)]
pub enum Done {
    /// In the shape of the call's revision
    Prepared(Prepared),
    /// As it is
    Raw(RawJson),
}

/// A call that a handler elsewhere works on
#[derive(Debug)]
pub struct Running {
    call: Call,
    peer: Peer,
    principal: Option<String>,
    /// Whether the client can be told to come back later
    polls: bool,
    /// Where the [`Desk`](super::Desk) keeps it
    pub(super) place: usize,
    cancelled: AtomicBool,
    state: Mutex<State>,
    /// Told when the call is cancelled
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    reason: Option<CancelReason>,
    progress: Option<Progress>,
    waker: Option<Waker>,
}

impl Running {
    pub(super) fn new(call: Call, place: usize, host: &mut dyn Host) -> Self {
        let engine = host.engine();
        Self {
            peer: engine.peer(&call),
            principal: engine.principal(call.channel()).map(String::from),
            polls: host.polls(),
            place,
            cancelled: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
            call,
        }
    }

    /// The call
    pub const fn call(&self) -> &Call {
        &self.call
    }

    /// Whether nobody waits for the answer any more
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Has `waker` woken when the call is cancelled; at once if it is
    pub fn wake_when_cancelled(&self, waker: &Waker) {
        let mut state = self.lock();
        match &mut state.waker {
            Some(old) => old.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        drop(state);
        if self.is_cancelled() {
            waker.wake_by_ref();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody waits for the answer any more
    pub(super) fn cancel(&self, reason: CancelReason) {
        let waker = {
            let mut state = self.lock();
            state.reason.get_or_insert(reason);
            self.cancelled.store(true, Ordering::Release);
            state.waker.take()
        };
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn take_progress(&self) -> Option<Progress> {
        self.lock().progress.take()
    }
}

/// The handler's end of a call that it works on away from the loop
///
/// One that is dropped before the handler has [ended](Self::end) fails the call.
pub struct Remote {
    running: Arc<Running>,
    to: Sender<Report>,
    ended: bool,
}

impl Remote {
    pub(super) const fn new(running: Arc<Running>, to: Sender<Report>) -> Self {
        Self { running, to, ended: false }
    }

    /// The call, with all that is known of it
    #[must_use]
    pub const fn running(&self) -> &Arc<Running> {
        &self.running
    }

    /// Whether nobody waits for the answer any more
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.running.is_cancelled()
    }

    /// Why the call is cancelled, if it is
    #[must_use]
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        if self.is_cancelled() { self.running.lock().reason.clone() } else { None }
    }

    /// Waits until the call is cancelled, at most for `timeout`; whether it is
    pub fn wait_cancelled(&self, timeout: Duration) -> bool {
        let state = self.running.lock();
        let outcome = self.running.changed.wait_timeout_while(state, timeout, |_| !self.is_cancelled());
        drop(outcome);
        self.is_cancelled()
    }

    pub(super) fn peer(&self) -> Peer {
        self.running.peer.clone()
    }

    pub(super) fn principal(&self) -> Option<&str> {
        self.running.principal.as_deref()
    }

    pub(super) fn polls(&self) -> bool {
        self.running.polls
    }

    /// Reports how far the call has come; only the latest report waits for the loop
    pub(super) fn progress(&self, progress: Progress) {
        if !self.running.call.wants_progress() {
            return;
        }
        // Who finds one there knows that the loop has not seen it yet, and will see this one.
        if self.running.lock().progress.replace(progress).is_none() {
            let _ = self.to.send_due(Report::Progress(self.running.clone()));
        }
    }

    /// Has everybody told who wants to know that something has changed, unless the loop is over
    pub(super) fn publish(&self, change: &Change) {
        let _ = self.to.send_or_merge(Report::Changed(change.clone().into()), Report::merge);
    }

    /// Has something done on the loop; false when too much waits there already, or the loop is over
    pub(super) fn command(&self, command: Command) -> bool {
        match self.to.send(Report::Do(command)) {
            Ok(()) => true,
            Err(Refused::Full(_) | Refused::Closed(_)) => false,
        }
    }

    /// Runs a handler to its end on this thread, and reports what came of it
    pub fn run(mut self, handler: impl FnOnce(&mut Cx<'_>, &Call) -> Result<Answered, RpcError>) {
        let running = self.running.clone();
        let mut cx: Cx<'_> = Cx::new(&mut self, running.call());
        let outcome = catch(|| handler(&mut cx, running.call()));
        let verdict = cx.verdict(outcome);
        self.end(verdict);
    }

    /// Reports how a handler has ended: see [`Cx::verdict`]
    pub fn end(mut self, verdict: Verdict) {
        self.ended = true;
        let _ = self.to.send_due(Report::Over(self.running.clone(), verdict));
    }

    /// Reports that a handler has panicked
    pub fn panicked(self, panic: Panic) {
        self.end(Verdict::panicked(panic));
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if !self.ended {
            let verdict = if self.is_cancelled() {
                Verdict::Answered
            } else {
                Verdict::Fail(RpcError::internal("the handler gave up"), Some(Arc::new(Failure::Unanswered)))
            };
            let _ = self.to.send_due(Report::Over(self.running.clone(), verdict));
        }
    }
}

impl Verdict {
    pub(super) fn panicked(panic: Panic) -> Self {
        Self::Fail(RpcError::internal("the handler panicked"), Some(Arc::new(Failure::Panicked(panic))))
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("running", &self.running).finish_non_exhaustive()
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Progress(running) => f.debug_tuple("Progress").field(&running.call.id()).finish(),
            Self::Over(running, verdict) => {
                f.debug_tuple("Over").field(&running.call.id()).field(verdict).finish()
            }
            Self::Changed(changes) => changes.fmt(f),
            Self::Do(_) => f.write_str("Do"),
        }
    }
}
