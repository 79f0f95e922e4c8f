//! Work of a handler that may block: a function on another thread, which the future of the handler awaits.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::poll_fn;
use core::panic::AssertUnwindSafe;
use core::task::{Context, Poll, Waker};
use std::panic::{catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::thread;

use mcp_std::catch;
use mcp_std::sync::{BlockingPool, lock};

use super::{AsyncCx, CallState, Cx};
use crate::server::cx::Backend;
use crate::server::remote::{Abandonment, RemoteCall};
use crate::server::server_loop::in_scope;

impl AsyncCx {
    /// Runs `work` on a thread of the pool `P` and returns its value; a panic continues in this future.
    ///
    /// The context of `work` is that of the call, with the state of this one. If this future is dropped, `work` is not
    /// started any more; if it runs, it learns from its context that nothing waits for it ([`Cx::checkpoint`] and the like), goes
    /// on to its end, and its value is dropped. The call occupies its slot until then.
    ///
    /// [`Cx::checkpoint`]: super::CallCx::checkpoint
    pub async fn run_blocking<P: BlockingPool, T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Cx<'_>) -> T + Send + 'static,
    ) -> T {
        // Only what the context of `work` may have to add to is moved, so that nothing else is lost if this is dropped.
        let state = CallState {
            input_required: core::mem::take(&mut self.0.state.input_required),
            begins_task: self.0.state.begins_task,
            next_task_message: self.0.state.next_task_message,
            ..CallState::default()
        };
        let shared = Arc::new(Shared(Mutex::new(WorkState::Pending(None))));
        let (remote, abandonment) = self.0.remote.for_work();
        let job = Job { shared: shared.clone(), remote, state };
        P::run_blocking(Box::new(move || job.run(work)));
        let waiting = Waiting { shared, abandonment };
        let (outcome, state) = poll_fn(|cx| waiting.shared.poll(cx)).await;
        self.0.state.absorb(state);
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl CallState {
    /// Takes over what work on another thread has added.
    fn absorb(&mut self, work: Self) {
        self.input_required = work.input_required;
        self.begins_task = self.begins_task.or(work.begins_task);
        self.result = self.result.take().or(work.result);
        self.end = self.end.take().or(work.end);
        self.failure = work.failure.or_else(|| self.failure.take());
    }
}

/// The outcome of work, or its panic, and the state of its context.
type WorkOutcome<T> = (thread::Result<T>, CallState);

/// Work as the future and the thread see it.
struct Shared<T>(Mutex<WorkState<T>>);

enum WorkState<T> {
    /// It has not ended; the waker is that of the future.
    Pending(Option<Waker>),
    Ended(WorkOutcome<T>),
    /// The future was dropped, or has taken the outcome.
    Abandoned,
}

impl<T> Shared<T> {
    fn poll(&self, cx: &Context<'_>) -> Poll<WorkOutcome<T>> {
        let mut state = lock(&self.0);
        match core::mem::replace(&mut *state, WorkState::Abandoned) {
            WorkState::Ended(outcome) => Poll::Ready(outcome),
            WorkState::Pending(_) | WorkState::Abandoned => {
                *state = WorkState::Pending(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }

    fn is_abandoned(&self) -> bool {
        matches!(*lock(&self.0), WorkState::Abandoned)
    }

    fn end(&self, outcome: WorkOutcome<T>) {
        let mut state = lock(&self.0);
        if let WorkState::Pending(waker) = &mut *state {
            let waker = waker.take();
            *state = WorkState::Ended(outcome);
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        } else {
            drop(state);
            // The value may panic when it is dropped, and this thread is not its own.
            let _ = catch(|| drop(outcome));
        }
    }
}

/// The side of the future.
struct Waiting<T> {
    shared: Arc<Shared<T>>,
    abandonment: Abandonment,
}

impl<T> Drop for Waiting<T> {
    fn drop(&mut self) {
        let left = core::mem::replace(&mut *lock(&self.shared.0), WorkState::Abandoned);
        drop(left);
        self.abandonment.tell();
    }
}

/// The side of the thread. Dropping it ends the work with a panic in the future, so that this does not wait for ever.
struct Job<T> {
    shared: Arc<Shared<T>>,
    remote: RemoteCall,
    state: CallState,
}

impl<T> Job<T> {
    fn run(mut self, work: impl FnOnce(&mut Cx<'_>) -> T) {
        if self.shared.is_abandoned() {
            return;
        }
        let Self { remote, state, .. } = &mut self;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let call = remote.running().call();
            in_scope(call, || work(&mut Cx::new(Backend::Remote(remote), call, state)))
        }));
        let state = core::mem::take(&mut self.state);
        self.shared.end((outcome, state));
    }
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        if matches!(*lock(&self.shared.0), WorkState::Pending(_)) {
            let dropped = Box::new("the threads for blocking work have shut down");
            self.shared.end((Err(dropped), core::mem::take(&mut self.state)));
        }
    }
}
