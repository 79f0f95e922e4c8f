//! The places where a handler runs: on the thread of the event loop, on a worker, or in a future.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt::{self, Debug};
use core::pin::Pin;
use core::time::Duration;

use mcp_proto::RpcError;
use mcp_proto::server::Call;
use mcp_std::Panic;

use super::{Answered, CallCx, CallState};
use crate::server::dispatcher::Dispatcher;
use crate::server::remote::{FinishedCall, RemoteCall};
use crate::server::server_loop::ServerLoop;

/// The place where the operations of a handler take effect.
pub enum Backend<'p> {
    /// On the event loop's thread, with the dispatcher for commands of other threads.
    Local(&'p mut dyn ServerLoop, &'p mut Dispatcher),
    /// Away from the event loop.
    Remote(&'p RemoteCall),
}

impl Backend<'_> {
    fn reborrow(&mut self) -> Backend<'_> {
        match self {
            Self::Local(server_loop, dispatcher) => Backend::Local(&mut **server_loop, dispatcher),
            Self::Remote(remote) => Backend::Remote(remote),
        }
    }
}

impl Debug for Backend<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(..) => f.write_str("Local"),
            Self::Remote(remote) => f.debug_tuple("Remote").field(remote).finish(),
        }
    }
}

/// The parts of a running call.
pub struct CallParts<'p> {
    pub(super) backend: Backend<'p>,
    pub(super) call: &'p Call,
    pub(super) state: &'p mut CallState,
}

/// A running call: borrowed by a function, or owned by a future.
pub trait RunningCall: Debug {
    /// Returns its parts.
    fn parts(&mut self) -> CallParts<'_>;

    /// Returns the call.
    fn call(&self) -> &Call;

    /// Returns its state.
    fn state(&self) -> &CallState;
}

/// The running call of a function.
#[derive(Debug)]
pub struct BorrowedCall<'a> {
    backend: Backend<'a>,
    call: &'a Call,
    state: &'a mut CallState,
}

impl RunningCall for BorrowedCall<'_> {
    fn parts(&mut self) -> CallParts<'_> {
        CallParts { backend: self.backend.reborrow(), call: self.call, state: self.state }
    }

    fn call(&self) -> &Call {
        self.call
    }

    fn state(&self) -> &CallState {
        self.state
    }
}

impl<'a> CallCx<BorrowedCall<'a>> {
    /// Creates the context of a call. `state` is a new one.
    pub const fn new(backend: Backend<'a>, call: &'a Call, state: &'a mut CallState) -> Self {
        Self(BorrowedCall { backend, call, state })
    }

    /// Returns the call.
    #[must_use]
    pub const fn call(&self) -> &'a Call {
        self.0.call
    }

    /// Sleeps for `duration` while the rest of the server continues. Blocks the thread of the handler.
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](Self::checkpoint). Returns as soon as the call has ended.
    pub fn sleep(&mut self, duration: Duration) -> Result<(), RpcError> {
        let CallParts { backend, call, state } = self.0.parts();
        match backend {
            Backend::Local(server_loop, dispatcher) => {
                let now = server_loop.tick();
                let until = now + state.limit_to_deadline(duration, Some(now));
                state.pump(server_loop, dispatcher, call, until);
                state.check_open()?;
                state.check_deadline(Some(server_loop.now()))
            }
            Backend::Remote(remote) => {
                remote.wait_for_cancellation(state.limit_to_deadline(duration, None));
                state.check_cancelled(remote)
            }
        }
    }
}

/// Ready after some time.
pub type SleepFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts a timer of the runtime, for [`AsyncCx::sleep`](super::AsyncCx).
#[derive(Clone)]
pub enum StartTimer {
    /// The timers of a runtime that is known by its type.
    Function(fn(Duration) -> SleepFuture),
    /// The timers of a value.
    Shared(Arc<dyn Fn(Duration) -> SleepFuture + Send + Sync>),
}

impl StartTimer {
    fn start(&self, duration: Duration) -> SleepFuture {
        match self {
            Self::Function(start) => start(duration),
            Self::Shared(start) => start(duration),
        }
    }
}

impl Debug for StartTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartTimer").finish_non_exhaustive()
    }
}

/// The running call of a future.
#[derive(Debug)]
pub struct OwnedCall {
    pub(super) remote: RemoteCall,
    pub(super) state: CallState,
    start_timer: StartTimer,
}

impl RunningCall for OwnedCall {
    fn parts(&mut self) -> CallParts<'_> {
        CallParts {
            backend: Backend::Remote(&self.remote),
            call: self.remote.running().call(),
            state: &mut self.state,
        }
    }

    fn call(&self) -> &Call {
        self.remote.running().call()
    }

    fn state(&self) -> &CallState {
        &self.state
    }
}

impl CallCx<OwnedCall> {
    /// Creates the context of a call, with the timer of the runtime.
    #[must_use]
    pub fn from_remote(mut remote: RemoteCall, start_timer: StartTimer) -> Self {
        let state = CallState::with_buffer(remote.take_buffer());
        Self(OwnedCall { remote, state, start_timer })
    }

    /// Returns the call.
    #[must_use]
    pub fn call(&self) -> &Call {
        RunningCall::call(&self.0)
    }

    /// Waits for `duration`.
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](Self::checkpoint).
    pub async fn sleep(&mut self, duration: Duration) -> Result<(), RpcError> {
        self.checkpoint()?;
        self.0.start_timer.start(duration).await;
        self.checkpoint()
    }

    /// Starts a timer of the runtime.
    pub(in crate::server) fn start_timer(&self, duration: Duration) -> SleepFuture {
        self.0.start_timer.start(duration)
    }

    /// Returns the context for a function that is called by the future.
    pub fn reborrow(&mut self) -> super::Cx<'_> {
        let CallParts { backend, call, state } = self.0.parts();
        CallCx::new(backend, call, state)
    }

    /// Ends the call with the outcome of the handler.
    pub fn finish(self, outcome: Result<Result<Answered, RpcError>, Panic>) -> FinishedCall {
        let OwnedCall { remote, state, .. } = self.0;
        let outcome = state.into_outcome(remote.running().call(), outcome);
        FinishedCall { remote, outcome }
    }
}
