//! A thread that waits for what it is told

use alloc::sync::Arc;
use alloc::task::Wake;
use core::task::{Poll, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use mcp_proto::Progress;
use mcp_std::client::{Slot, Update};
use mcp_std::{Error, catch};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static WAKER: Waker = Waker::from(Arc::new(Unpark(thread::current())));
}

/// Waits until `slot` is told, at most until `until`; progress goes to `on_progress`, whose panics end nothing else
pub(super) fn wait<T>(
    slot: &Slot<T>,
    until: Option<Instant>,
    on_progress: &mut dyn FnMut(&Progress),
) -> Option<Result<T, Error>> {
    let waker = WAKER.try_with(Clone::clone);
    // A thread that is ending has none any more.
    let waker = waker.unwrap_or_else(|_| Waker::from(Arc::new(Unpark(thread::current()))));
    loop {
        match slot.poll(&waker) {
            Poll::Ready(Update::Progress(progress)) => {
                // The panic hook has said it.
                let _ = catch(|| on_progress(&progress));
            }
            Poll::Ready(Update::Outcome(outcome)) => return Some(outcome),
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
