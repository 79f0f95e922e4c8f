//! [`RunWith`]: a future that drives a connection and owns the connection's handler.
//!
//! The handler runs in this future only, also while another task drives the connection. So it need not be `Send`.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll};

use crate::adapter::client::{Callback, CallbackReply, ClientHandler, HandlerSlot, RemoteHandler};
use crate::adapter::sync::Inbox;
use crate::{Error, catch};
use mcp_proto::RpcError;

use super::wait::Run;
use super::{Client, driver::MAX_TURNS_PER_POLL};
use crate::adapter::runtime::Runtime;

/// Future that drives a connection to its end, with a handler of its own; see [`Client::run_with`].
#[must_use = "nothing happens unless it is awaited or spawned"]
pub struct RunWith<R: Runtime, H: ClientHandler> {
    run: Run<R>,
    handler: H,
    callbacks: Arc<HandlerQueue>,
    /// Buffer for `run_callbacks`, kept to reuse its memory.
    callback_buffer: VecDeque<Callback>,
    max_waiting: usize,
}

/// Callbacks that wait for the handler.
struct HandlerQueue {
    inbox: Inbox<Callback>,
    waiting: AtomicUsize,
    bytes: AtomicUsize,
}

/// The connection's end of a [`HandlerQueue`].
struct HandlerQueueSender {
    queue: Arc<HandlerQueue>,
    max_waiting: usize,
    max_waiting_bytes: usize,
}

impl RemoteHandler for HandlerQueueSender {
    /// Queues the callback for the future that owns the handler.
    fn dispatch(&mut self, callback: Callback) {
        let queue = &*self.queue;
        queue.waiting.fetch_add(1, Ordering::Relaxed);
        queue.bytes.fetch_add(callback.cost(), Ordering::Relaxed);
        let _ = queue.inbox.sender().send_unbounded(callback);
    }

    fn is_full(&self) -> bool {
        let waiting = self.queue.waiting.load(Ordering::Relaxed);
        waiting >= self.max_waiting || self.queue.bytes.load(Ordering::Relaxed) >= self.max_waiting_bytes
    }
}

impl<R: Runtime, H: ClientHandler> RunWith<R, H> {
    pub(super) fn new(client: &Client<R>, handler: H) -> Self {
        let inbox = Inbox::new(usize::MAX);
        let queue =
            Arc::new(HandlerQueue { inbox, waiting: AtomicUsize::new(0), bytes: AtomicUsize::new(0) });
        let sender_queue = queue.clone();
        let caller = &client.shared().caller;
        caller.run_unbounded(move |connection| {
            let limits = connection.transport.engine().config().effective_limits();
            let (max_waiting, max_waiting_bytes) = (limits.max_waiting_requests, limits.max_waiting_bytes);
            connection.set_handler(HandlerSlot::Remote(Box::new(HandlerQueueSender {
                queue: sender_queue,
                max_waiting,
                max_waiting_bytes,
            })));
        });
        let max_waiting = caller.max_waiting();
        Self { run: client.run(), handler, callbacks: queue, callback_buffer: VecDeque::new(), max_waiting }
    }

    /// Runs or defers the waiting callbacks, and sends all replies that are ready. Returns whether there were any.
    fn run_callbacks(&mut self, cx: &Context<'_>) -> bool {
        self.callbacks.inbox.register(cx.waker());
        let mut taken = core::mem::take(&mut self.callback_buffer);
        let mut any = self.callbacks.inbox.take(&mut taken);
        for callback in taken.drain(..) {
            self.callbacks.waiting.fetch_sub(1, Ordering::Relaxed);
            self.callbacks.bytes.fetch_sub(callback.cost(), Ordering::Relaxed);
            if let Some(reply) = callback.dispatch_or_defer(&mut self.handler, self.max_waiting) {
                self.reply(reply);
            }
        }
        self.callback_buffer = taken;
        if any {
            // Reading may have been paused because the queue was full.
            self.run.shared().leader_queue.wake_by_ref();
        }
        while let Some(reply) = self.handler.deferred().and_then(|deferred| deferred.poll(cx.waker())) {
            self.reply(reply);
            any = true;
        }
        any
    }

    fn reply(&self, reply: CallbackReply) {
        self.run.shared().caller.run_unbounded(move |connection| connection.reply(reply));
    }
}

// The handler is never pinned.
impl<R: Runtime, H: ClientHandler> Unpin for RunWith<R, H> {}

impl<R: Runtime, H: ClientHandler> Future for RunWith<R, H> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        for _ in 0..MAX_TURNS_PER_POLL {
            if let Poll::Ready(outcome) = Pin::new(&mut self.run).poll(cx) {
                let _ = self.run_callbacks(cx);
                return Poll::Ready(outcome);
            }
            if !self.run_callbacks(cx) {
                return Poll::Pending;
            }
        }
        // Yield to the executor's other futures.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

// Refuses all open requests, and those that arrive before the connection has replaced the handler.
impl<R: Runtime, H: ClientHandler> Drop for RunWith<R, H> {
    fn drop(&mut self) {
        let open = catch(|| self.handler.deferred().map(crate::adapter::client::DeferredHandler::cancel_all))
            .ok()
            .flatten();
        open.into_iter().flatten().for_each(|reply| self.reply(reply));
        let queue = self.callbacks.clone();
        self.run.shared().caller.run_unbounded(move |connection| {
            let mut left = VecDeque::new();
            queue.inbox.take(&mut left);
            let error = || RpcError::internal("the client has no handler for this request");
            let refused = left.into_iter().filter_map(|callback| callback.refuse(error()));
            refused.for_each(|reply| connection.reply(reply));
            // The connection still holds its clone of the queue, so no other handler has replaced this one.
            if Arc::strong_count(&queue) > 1 {
                connection.set_handler(HandlerSlot::Local(Box::new(())));
            }
        });
    }
}

impl<R: Runtime, H: ClientHandler> fmt::Debug for RunWith<R, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunWith").field("run", &self.run).finish_non_exhaustive()
    }
}
