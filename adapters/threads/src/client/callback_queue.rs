//! The callback thread, on which the handler of a client runs while the event loop continues to read.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::sync::{Condvar, Mutex, PoisonError};

use mcp_std::sync::lock;
use std::thread::{self, ThreadId};

use mcp_runtime::client::{Callback, ClientHandler, ConnectionHandle, RemoteHandler};
use mcp_std::catch;

/// Maximum wait of [`Client::close`](crate::Client::close) for the callbacks that are left.
const FINAL_CALLBACKS_TIMEOUT: Duration = Duration::from_secs(1);

/// Queue of callbacks for the handler, in order; clones share the queue.
#[derive(Clone)]
pub(super) struct CallbackQueue(Arc<CallbackQueueShared>);

struct CallbackQueueShared {
    state: Mutex<State>,
    item_available: Condvar,
    /// The callback thread has ended.
    ended: Condvar,
    /// Whether reading from the server should pause (as of the last change).
    is_full: AtomicBool,
    max_items: usize,
    max_bytes: usize,
    /// Wakes the loop.
    waker: Waker,
}

#[derive(Default)]
struct State {
    items: VecDeque<CallbackItem>,
    bytes: usize,
    is_closed: bool,
    /// The callback thread, while it runs.
    thread: Option<ThreadId>,
}

enum CallbackItem {
    Callback(Callback),
    Handler(Box<dyn ClientHandler + Send>),
}

impl CallbackQueue {
    /// Creates an empty queue that is full at `max_items` entries or about `max_bytes` bytes.
    pub(super) fn new(max_items: usize, max_bytes: usize, waker: Waker) -> Self {
        Self(Arc::new(CallbackQueueShared {
            state: Mutex::default(),
            item_available: Condvar::new(),
            ended: Condvar::new(),
            is_full: AtomicBool::new(false),
            max_items,
            max_bytes,
            waker,
        }))
    }

    /// Starts the callback thread, which runs the queued callbacks on `handler` and sends replies by `caller`.
    ///
    /// # Errors
    ///
    /// The error of the operating system if the thread cannot be started.
    pub(super) fn spawn_thread(
        &self,
        handler: Box<dyn ClientHandler + Send>,
        caller: ConnectionHandle,
    ) -> io::Result<()> {
        let queue = self.0.clone();
        let thread = thread::Builder::new().name("mcp-callbacks".into());
        // Locked before the thread can end, which forgets its id.
        let mut state = lock(&self.0.state);
        state.thread = Some(thread.spawn(move || queue.run_thread(handler, &caller))?.thread().id());
        Ok(())
    }

    /// Replaces the handler for all callbacks queued from now on.
    pub(super) fn set_handler(&self, handler: Box<dyn ClientHandler + Send>) {
        self.0.push(CallbackItem::Handler(handler), 0);
    }

    /// Closes the queue: further callbacks are dropped, and the callback thread ends after the remaining ones.
    ///
    /// Of those, the ones that expect a reply do not run, because no reply can be sent any more.
    pub(super) fn close(&self) {
        let mut state = lock(&self.0.state);
        state.is_closed = true;
        drop(state);
        self.0.item_available.notify_one();
    }

    /// Waits until the callbacks of a closed queue have run, for [`FINAL_CALLBACKS_TIMEOUT`] at most: a handler may
    /// wait for something that happens only later. Does not wait on the callback thread itself.
    pub(super) fn wait_until_ended(&self) {
        let state = lock(&self.0.state);
        if state.thread == Some(thread::current().id()) {
            return;
        }
        let is_running = |state: &mut State| state.thread.is_some();
        drop(self.0.ended.wait_timeout_while(state, FINAL_CALLBACKS_TIMEOUT, is_running));
    }
}

impl RemoteHandler for CallbackQueue {
    /// Queues the callback for the callback thread.
    fn dispatch(&mut self, callback: Callback) {
        let bytes = callback.cost();
        self.0.push(CallbackItem::Callback(callback), bytes);
    }

    fn is_full(&self) -> bool {
        self.0.is_full.load(Ordering::Acquire)
    }
}

impl CallbackQueueShared {
    fn push(&self, item: CallbackItem, bytes: usize) {
        let mut state = lock(&self.state);
        if state.is_closed {
            return;
        }
        state.items.push_back(item);
        state.bytes += bytes;
        self.is_full.store(self.is_full(&state), Ordering::Release);
        drop(state);
        self.item_available.notify_one();
    }

    fn is_full(&self, state: &State) -> bool {
        state.items.len() >= self.max_items || state.bytes >= self.max_bytes
    }

    /// Waits for the next entry. Returns it and whether the queue is closed, or `None` if it is closed and empty.
    fn pop(&self) -> Option<(CallbackItem, bool)> {
        let mut state = lock(&self.state);
        loop {
            if let Some(item) = state.items.pop_front() {
                if let CallbackItem::Callback(callback) = &item {
                    state.bytes = state.bytes.saturating_sub(callback.cost());
                }
                let (is_full, closed) = (self.is_full(&state), state.is_closed);
                let freed = self.is_full.swap(is_full, Ordering::AcqRel) && !is_full;
                drop(state);
                if freed {
                    self.waker.wake_by_ref();
                }
                return Some((item, closed));
            }
            if state.is_closed {
                return None;
            }
            state = self.item_available.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run_thread(&self, mut handler: Box<dyn ClientHandler + Send>, caller: &ConnectionHandle) {
        while let Some((item, closed)) = self.pop() {
            match item {
                CallbackItem::Handler(new) => {
                    let old = core::mem::replace(&mut handler, new);
                    // A panic of the old handler's destructor must not end the thread.
                    let _ = catch(|| drop(old));
                }
                CallbackItem::Callback(callback) if closed && callback.expects_reply() => {}
                CallbackItem::Callback(callback) => {
                    if let Some(reply) = callback.dispatch(&*handler) {
                        // Not limited by the bound of the inbox: each callback has one reply at most.
                        caller.run_unbounded(move |connection| connection.reply(reply));
                    }
                }
            }
        }
        let _ = catch(|| drop(handler));
        lock(&self.state).thread = None;
        self.ended.notify_all();
    }
}
