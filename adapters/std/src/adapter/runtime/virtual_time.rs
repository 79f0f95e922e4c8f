//! Sleeps of handlers on virtual time, in tests.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_proto::Instant;

/// The handlers that sleep on virtual time.
#[derive(Debug, Default)]
pub(super) struct SleepQueue(Mutex<State>);

/// A trait object, so that only tests link the queue.
trait StartSleep: Send + Sync {
    fn sleep(self: Arc<Self>, duration: Duration) -> SleepFuture;
}

/// A sleep that has begun.
pub(super) type SleepFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) now: Instant,
    /// Wakers by deadline and id.
    pub(super) sleepers: BTreeMap<(Instant, u64), Waker>,
    last_id: u64,
}

impl SleepQueue {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

std::thread_local! {
    /// The queue of the handlers that this thread is polling.
    static CURRENT_SLEEP_QUEUE: RefCell<Option<Arc<dyn StartSleep>>> = const { RefCell::new(None) };
}

/// Sets the sleep queue of this thread; restores the previous one when dropped.
pub(super) struct SleepScope(Option<Arc<dyn StartSleep>>);

impl SleepScope {
    pub(super) fn enter(sleep_queue: Arc<SleepQueue>) -> Self {
        Self(CURRENT_SLEEP_QUEUE.replace(Some(sleep_queue)))
    }
}

impl Drop for SleepScope {
    fn drop(&mut self) {
        CURRENT_SLEEP_QUEUE.set(self.0.take());
    }
}

/// Returns a sleep on virtual time; `None` outside of tests.
pub(super) fn sleep(duration: Duration) -> Option<SleepFuture> {
    let sleep_queue = CURRENT_SLEEP_QUEUE.with_borrow(Clone::clone)?;
    Some(sleep_queue.sleep(duration))
}

impl StartSleep for SleepQueue {
    fn sleep(self: Arc<Self>, duration: Duration) -> SleepFuture {
        let mut state = self.lock();
        state.last_id += 1;
        let key = (state.now + duration, state.last_id);
        drop(state);
        Box::pin(Sleep { sleep_queue: self, key })
    }
}

/// Future of [`sleep`].
#[derive(Debug)]
struct Sleep {
    sleep_queue: Arc<SleepQueue>,
    key: (Instant, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.sleep_queue.lock();
        if self.key.0 <= state.now {
            return Poll::Ready(());
        }
        state.sleepers.insert(self.key, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let left = self.sleep_queue.lock().sleepers.remove(&self.key);
        drop(left);
    }
}
