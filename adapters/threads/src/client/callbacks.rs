//! The thread on which handlers run: what the server says is read on while they take their time

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use mcp_std::catch;
use mcp_std::client::{Caller, ClientHandler, Heard, Listener};

/// What is yet to be told to the handler, in order; clones fill the same queue
#[derive(Clone)]
pub(super) struct Callbacks(Arc<Queue>);

struct Queue {
    state: Mutex<State>,
    some: Condvar,
    /// As of the last change: nothing more should be read
    full: AtomicBool,
    most: usize,
    most_bytes: usize,
    /// Ends the wait of the loop
    waker: Waker,
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    bytes: usize,
    closed: bool,
}

enum Item {
    Heard(Heard),
    Handler(Box<dyn ClientHandler + Send>),
}

impl Callbacks {
    /// An empty queue that is full at `most` entries, or when they hold about `most_bytes`
    pub(super) fn new(most: usize, most_bytes: usize, waker: Waker) -> Self {
        Self(Arc::new(Queue {
            state: Mutex::default(),
            some: Condvar::new(),
            full: AtomicBool::new(false),
            most,
            most_bytes,
            waker,
        }))
    }

    /// Begins to tell `handler`
    pub(super) fn run(&self, handler: Box<dyn ClientHandler + Send>, caller: Caller) -> io::Result<()> {
        let queue = self.0.clone();
        let thread = thread::Builder::new().name("mcp-callbacks".into());
        thread.spawn(move || queue.run(handler, &caller)).map(drop)
    }

    /// From here on another handler is told
    pub(super) fn set_handler(&self, handler: Box<dyn ClientHandler + Send>) {
        self.0.push(Item::Handler(handler), 0);
    }

    /// Tells what is left, other than questions, to which nobody needs an answer now; then the thread ends
    pub(super) fn close(&self) {
        let mut state = self.0.lock();
        state.closed = true;
        drop(state);
        self.0.some.notify_one();
    }
}

impl Listener for Callbacks {
    fn hear(&mut self, heard: Heard) {
        let bytes = heard.cost();
        self.0.push(Item::Heard(heard), bytes);
    }

    fn is_full(&self) -> bool {
        self.0.full.load(Ordering::Acquire)
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, item: Item, bytes: usize) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        state.items.push_back(item);
        state.bytes += bytes;
        self.full.store(self.is_full(&state), Ordering::Release);
        drop(state);
        self.some.notify_one();
    }

    fn is_full(&self, state: &State) -> bool {
        state.items.len() >= self.most || state.bytes >= self.most_bytes
    }

    /// Waits for the next entry; none when there will be no more
    fn pop(&self) -> Option<(Item, bool)> {
        let mut state = self.lock();
        loop {
            if let Some(item) = state.items.pop_front() {
                if let Item::Heard(heard) = &item {
                    state.bytes = state.bytes.saturating_sub(heard.cost());
                }
                let (was, closed) = (self.is_full(&state), state.closed);
                let freed = self.full.swap(was, Ordering::AcqRel) && !was;
                drop(state);
                if freed {
                    self.waker.wake_by_ref();
                }
                return Some((item, closed));
            }
            if state.closed {
                return None;
            }
            state = self.some.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self, mut handler: Box<dyn ClientHandler + Send>, caller: &Caller) {
        while let Some((item, closed)) = self.pop() {
            match item {
                Item::Handler(new) => {
                    let old = core::mem::replace(&mut handler, new);
                    let _ = catch(|| drop(old));
                }
                Item::Heard(heard) if closed && heard.is_question() => {}
                Item::Heard(heard) => {
                    if let Some(reply) = heard.tell(&mut *handler) {
                        caller.run_due(move |connection| connection.reply(reply));
                    }
                }
            }
        }
        let _ = catch(|| drop(handler));
    }
}
