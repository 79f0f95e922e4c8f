//! Handlers on virtual time, a simulated clock that advances when nothing else is left to do.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Instant as StdInstant;

use mcp_proto::Instant;
use mcp_proto::server::Event;
use mcp_proto::tap::TapRecord;
use mcp_std::catch;

use super::server::RunningCalls;
use super::{FutureSet, Runtime, start_timer};
use crate::client::TestPeer;
use crate::server::{
    AsyncHandler, Attachments, Dispatcher, FinishedCall, RemoteCall, ServerLoop, StartTimer,
    dispatch_async_event, run_call,
};

/// Wraps a handler for a test's server.
pub fn test_peer<R: Runtime>(handler: impl AsyncHandler + 'static) -> Box<dyn TestPeer> {
    let handler = Arc::new(handler);
    let start = {
        let handler = handler.clone();
        move |remote| {
            let handler = handler.clone();
            async move { R::unbounded(run_call(&*handler, remote, StartTimer::Function(start_timer::<R>))).await }
        }
    };
    let waker = Waker::from(Arc::new(TestThreadWaker(thread::current())));
    Box::new(AsyncTestPeer {
        calls: RunningCalls { handler, running: FutureSet::new(&waker), start },
        sleep_queue: Arc::default(),
        grace_expired: false,
    })
}

/// A handler and its running futures.
struct AsyncTestPeer<H, S, F> {
    calls: RunningCalls<Arc<H>, F, S>,
    sleep_queue: Arc<SleepQueue>,
    /// Whether the running futures have used up `REAL_TIME_GRACE`.
    grace_expired: bool,
}

impl<H, S, F> TestPeer for AsyncTestPeer<H, S, F>
where
    H: AsyncHandler,
    S: Fn(RemoteCall) -> F,
    F: Future<Output = Option<FinishedCall>>,
{
    fn handle(&mut self, host: &mut dyn ServerLoop, dispatcher: &mut Dispatcher, event: Event) {
        if let Some(event) = dispatcher.accept_event(host, event) {
            dispatch_async_event(&*self.calls.handler, &event);
        }
    }

    fn tap(&mut self, record: &TapRecord) {
        let _ = catch(|| self.calls.handler.tap(record));
    }

    fn advance(&mut self, host: &mut dyn ServerLoop, dispatcher: &mut Dispatcher) -> bool {
        self.sleep_queue.lock().now = host.now();
        let _scope = SleepScope::enter(self.sleep_queue.clone());
        let mut moved = false;
        while self.calls.start_next(host, dispatcher) {
            moved = true;
        }
        moved |= self.calls.poll_woken(host, dispatcher);
        self.grace_expired &= !moved;
        moved
    }

    fn attachments(&mut self) -> Attachments {
        self.calls.handler.attachments()
    }

    fn wait_real_time(&mut self) -> bool {
        let until = StdInstant::now() + REAL_TIME_GRACE;
        let awake = |this: &Self| this.calls.running.len() > this.sleep_queue.lock().sleepers.len();
        while !self.grace_expired && awake(self) && !self.calls.running.is_woken() {
            let left = until.saturating_duration_since(StdInstant::now());
            self.grace_expired = left.is_zero();
            thread::park_timeout(left);
        }
        self.calls.running.is_woken()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.sleep_queue.lock().sleepers.keys().next().map(|(until, _)| *until)
    }

    fn wake(&mut self, now: Instant) {
        loop {
            let mut state = self.sleep_queue.lock();
            state.now = now;
            let Some(first) = state.sleepers.first_entry().filter(|first| first.key().0 <= now) else {
                return;
            };
            let waker = first.remove();
            drop(state);
            waker.wake();
        }
    }
}

/// Ends the thread's wait for events in real time.
struct TestThreadWaker(Thread);

impl Wake for TestThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Longest wait for events in real time.
const REAL_TIME_GRACE: Duration = Duration::from_secs(1);

// Sleeps of handlers on virtual time, in tests.

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
