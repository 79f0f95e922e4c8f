//! Blocking waits for outcomes of calls.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::task::{Poll, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use mcp_proto::Progress;
use mcp_runtime::Error;
use mcp_runtime::client::{OutcomeReceiver, OutcomeUpdate};
use mcp_std::catch;

struct BlockedThreadWaker(Thread);

impl Wake for BlockedThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static WAKER: Waker = Waker::from(Arc::new(BlockedThreadWaker(thread::current())));
}

/// Waits for the outcome of `slot`, at most until `until`. Panics of `on_progress` are caught.
pub(super) fn wait_for_slot<T>(
    slot: &OutcomeReceiver<T>,
    until: Option<Instant>,
    on_progress: &mut dyn FnMut(&Progress),
) -> Option<Result<T, Error>> {
    loop {
        match wait_for_update(slot, until)? {
            OutcomeUpdate::Progress(progress) => {
                // The panic hook has already reported the panic.
                let _ = catch(|| on_progress(&progress));
            }
            OutcomeUpdate::Notification(_) => {}
            OutcomeUpdate::Outcome(outcome) => return Some(outcome),
        }
    }
}

/// Waits for the next update of `slot`, at most until `until`.
pub(super) fn wait_for_update<T>(
    slot: &OutcomeReceiver<T>,
    until: Option<Instant>,
) -> Option<OutcomeUpdate<T>> {
    let waker = WAKER.try_with(Clone::clone);
    // Thread-local values may be gone while a thread ends.
    let waker = waker.unwrap_or_else(|_| Waker::from(Arc::new(BlockedThreadWaker(thread::current()))));
    loop {
        match slot.poll(&waker) {
            Poll::Ready(update) => return Some(update),
            Poll::Pending => match until {
                None => thread::park(),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    thread::park_timeout(left);
                }
            },
        }
    }
}
