//! A handler that stays with one future, whoever drives

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll};

use mcp_proto::RpcError;
use mcp_std::client::{ClientHandler, Ears, Heard, Listener, Reply};
use mcp_std::inbox::Inbox;
use mcp_std::{Error, catch};

use super::waiting::Run;
use super::{Client, drive::ROUNDS};

/// Drives a connection to its very end, with a handler of its own; see [`Client::run_with`]
#[must_use = "nothing happens unless it is awaited or spawned"]
pub struct RunWith<H: ClientHandler> {
    run: Run,
    handler: H,
    queue: Arc<Queue>,
    /// What was taken out of it, for the sake of its memory
    taken: VecDeque<Heard>,
    most: usize,
}

/// What is yet to be heard
struct Queue {
    inbox: Inbox<Heard>,
    waiting: AtomicUsize,
    bytes: AtomicUsize,
}

/// The loop's end of a queue
struct Away {
    queue: Arc<Queue>,
    most: usize,
    most_bytes: usize,
}

impl Listener for Away {
    fn hear(&mut self, heard: Heard) {
        let queue = &*self.queue;
        queue.waiting.fetch_add(1, Ordering::Relaxed);
        queue.bytes.fetch_add(heard.cost(), Ordering::Relaxed);
        let _ = queue.inbox.sender().send_due(heard);
    }

    fn is_full(&self) -> bool {
        let waiting = self.queue.waiting.load(Ordering::Relaxed);
        waiting >= self.most || self.queue.bytes.load(Ordering::Relaxed) >= self.most_bytes
    }
}

impl<H: ClientHandler> RunWith<H> {
    pub(super) fn new(client: &Client, handler: H) -> Self {
        let inbox = Inbox::new(usize::MAX);
        let queue = Arc::new(Queue { inbox, waiting: AtomicUsize::new(0), bytes: AtomicUsize::new(0) });
        let theirs = queue.clone();
        let caller = &client.0.shared.caller;
        caller.run_due(move |connection| {
            let limits = connection.wire.engine().config().get_limits();
            let (most, most_bytes) = (limits.max_waiting, limits.max_waiting_bytes);
            connection.set_ears(Ears::Away(Box::new(Away { queue: theirs, most, most_bytes })));
        });
        let most = caller.most_waiting();
        Self { run: client.run(), handler, queue, taken: VecDeque::new(), most }
    }

    /// Has the handler hear what there is, and answers; whether there was anything
    fn tell(&mut self, cx: &Context<'_>) -> bool {
        self.queue.inbox.register(cx.waker());
        let mut taken = core::mem::take(&mut self.taken);
        let mut any = self.queue.inbox.take(&mut taken);
        for heard in taken.drain(..) {
            self.queue.waiting.fetch_sub(1, Ordering::Relaxed);
            self.queue.bytes.fetch_sub(heard.cost(), Ordering::Relaxed);
            if let Some(reply) = heard.tell_or_leave(&mut self.handler, self.most) {
                self.reply(reply);
            }
        }
        self.taken = taken;
        if any {
            // It may be that reading was held back for this.
            self.run.shared().turns.wake_by_ref();
        }
        while let Some(reply) = self.handler.later().and_then(|later| later.poll(cx.waker())) {
            self.reply(reply);
            any = true;
        }
        any
    }

    fn reply(&self, reply: Reply) {
        self.run.shared().caller.run_due(move |connection| connection.reply(reply));
    }
}

/// The handler is never pinned
impl<H: ClientHandler> Unpin for RunWith<H> {}

impl<H: ClientHandler> Future for RunWith<H> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        for _ in 0..ROUNDS {
            if let Poll::Ready(outcome) = Pin::new(&mut self.run).poll(cx) {
                let _ = self.tell(cx);
                return Poll::Ready(outcome);
            }
            if !self.tell(cx) {
                return Poll::Pending;
            }
        }
        // Others have waited long enough.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// What is open is refused; what comes until the loop knows of this, too
impl<H: ClientHandler> Drop for RunWith<H> {
    fn drop(&mut self) {
        let open = catch(|| self.handler.later().map(mcp_std::client::Later::stop)).ok().flatten();
        open.into_iter().flatten().for_each(|reply| self.reply(reply));
        let queue = self.queue.clone();
        self.run.shared().caller.run_due(move |connection| {
            let mut left = VecDeque::new();
            queue.inbox.take(&mut left);
            let refused = left
                .into_iter()
                .filter_map(|heard| heard.refuse(RpcError::internal("nobody is here to answer")));
            refused.for_each(|reply| connection.reply(reply));
            // Unless another handler has taken its place.
            if Arc::strong_count(&queue) > 1 {
                connection.set_ears(Ears::Here(Box::new(())));
            }
        });
    }
}

impl<H: ClientHandler> fmt::Debug for RunWith<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunWith").field("run", &self.run).finish_non_exhaustive()
    }
}
