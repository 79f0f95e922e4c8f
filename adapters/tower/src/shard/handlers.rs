//! The running handlers of a shard, and who polls which.
//!
//! A handler is polled in the context of its request or in none: by the future of its response until that is decided, and
//! then by a driver of the shard, or if there is none by the body of its response. Task-locals and the current span of
//! another request are never those that it sees.

use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::task::Wake;
use alloc::vec::Vec;
use core::task::{Context, Poll, Waker};
use std::sync::Mutex;

use mcp_runtime::server::ActiveCall;
use mcp_std::catch;

use super::{Shard, lock};
use crate::handler::CallFuture;

/// The running handlers. No lock is held while one is polled or dropped.
#[derive(Default)]
pub(super) struct Handlers(Mutex<Slots>);

/// Invariants: `free` has the indexes of the slots without a handler, `fostered` is the number of handlers whose home is not
/// [`Phase::Response`]. A queue may have entries that were polled in the meantime: their slots are not `is_queued`.
#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<usize>,
    fostered: usize,
    /// Handlers for a driver.
    for_driver: VecDeque<Entry>,
    /// Handlers whose calls are cancelled, for everybody: they end, and no code of the application runs but destructors.
    cancelled: VecDeque<Entry>,
    /// Whether the shard has a driver.
    has_driver: bool,
}

/// A handler in a queue: its slot, and the generation of the slot.
type Entry = (usize, u64);

#[derive(Default)]
struct Slot {
    /// Distinguishes the handlers that were in this slot.
    generation: u64,
    handler: Option<RunningHandler>,
    /// Absent while it is polled.
    future: Option<CallFuture>,
    /// Whether it is in a queue.
    is_queued: bool,
    /// Woken while it was polled.
    is_woken: bool,
}

#[derive(Clone)]
struct RunningHandler {
    call: Arc<ActiveCall>,
    waker: Waker,
    home: Option<Arc<Home>>,
}

/// The request of a handler, as far as it concerns who polls it.
#[derive(Debug)]
pub(crate) struct Home {
    /// Index of the exchange.
    index: usize,
    span: RequestSpan,
    state: Mutex<HomeState>,
}

// Locked after `Slots`.
#[derive(Debug, Default)]
struct HomeState {
    phase: Phase,
    /// Number of running handlers.
    handlers: usize,
    /// Handlers that the response, or the body, is to poll.
    woken: VecDeque<Entry>,
}

/// How far the exchange of a home is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Phase {
    /// The future of the response is polled, in the context of the request.
    #[default]
    Response,
    /// The body is polled, by the connection.
    Body,
    /// The exchange has ended.
    Gone,
}

/// A caller of [`Shard::turn`], which polls its handlers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Poller<'a> {
    /// The response or the body of a request, which polls the handlers of this request.
    Home(&'a Arc<Home>),
    /// A driver, which polls the handlers that have no response.
    Driver,
}

impl Poller<'_> {
    pub(super) fn wake_target(self) -> WakeTarget {
        match self {
            Self::Home(home) => WakeTarget::Exchange(home.index),
            Self::Driver => WakeTarget::Driver,
        }
    }
}

/// The future or body that is woken for a handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WakeTarget {
    /// The response or body of an exchange.
    Exchange(usize),
    Driver,
    Anybody,
}

impl Home {
    pub(super) fn new(index: usize) -> Self {
        Self { index, span: RequestSpan::current(), state: Mutex::default() }
    }

    /// Returns whether a handler waits for the response or the body.
    pub(super) fn has_woken(&self) -> bool {
        !lock(&self.state).woken.is_empty()
    }
}

impl Slots {
    /// Queues a handler for its poller. Returns what to wake.
    fn queue(&mut self, entry: Entry) -> Option<WakeTarget> {
        let slot = self.slots.get_mut(entry.0)?;
        slot.is_queued = true;
        let handler = slot.handler.as_ref()?;
        if handler.call.is_cancelled() {
            self.cancelled.push_back(entry);
            return Some(WakeTarget::Anybody);
        }
        if let Some(home) = &handler.home {
            let mut state = lock(&home.state);
            if state.phase == Phase::Response || state.phase == Phase::Body && !self.has_driver {
                state.woken.push_back(entry);
                return Some(WakeTarget::Exchange(home.index));
            }
        }
        self.for_driver.push_back(entry);
        Some(WakeTarget::Driver)
    }

    /// Takes a handler that is queued, to poll it.
    fn take(&mut self, (index, generation): Entry) -> Option<(usize, RunningHandler, CallFuture)> {
        let slot = self.slots.get_mut(index)?;
        if slot.generation != generation || !core::mem::take(&mut slot.is_queued) {
            return None;
        }
        Some((index, slot.handler.clone()?, slot.future.take()?))
    }
}

impl Handlers {
    /// Returns the number of running handlers.
    pub(super) fn len(&self) -> usize {
        let slots = lock(&self.0);
        slots.slots.len() - slots.free.len()
    }

    /// Returns the number of handlers that a driver is to poll.
    #[cfg(feature = "tokio")]
    pub(super) fn fostered(&self) -> usize {
        lock(&self.0).fostered
    }

    /// Returns whether a handler waits for a poller.
    pub(super) fn has_woken(&self, poller: Poller<'_>) -> bool {
        match poller {
            Poller::Home(home) => home.has_woken(),
            Poller::Driver => !lock(&self.0).for_driver.is_empty(),
        }
    }

    /// Adds a handler, which is to be polled. Returns who is to do that.
    pub(super) fn add(
        &self,
        shard: &Weak<Shard>,
        call: Arc<ActiveCall>,
        future: CallFuture,
        home: Option<Arc<Home>>,
    ) -> Option<WakeTarget> {
        let mut slots = lock(&self.0);
        let index = slots.free.pop().unwrap_or_else(|| {
            slots.slots.push(Slot::default());
            slots.slots.len() - 1
        });
        let phase = home.as_ref().map(|home| {
            let mut state = lock(&home.state);
            state.handlers += 1;
            state.phase
        });
        slots.fostered += usize::from(phase != Some(Phase::Response));
        let slot = slots.slots.get_mut(index)?;
        slot.generation += 1;
        let generation = slot.generation;
        let waker = Waker::from(Arc::new(HandlerWaker { shard: shard.clone(), index, generation }));
        let handler = RunningHandler { call, waker, home };
        slot.handler = Some(handler.clone());
        slot.future = Some(future);
        slot.is_woken = false;
        let target = slots.queue((index, generation));
        drop(slots);
        // It may be cancelled before it is polled.
        handler.call.register_cancel_waker(&handler.waker);
        target
    }

    /// Polls the handlers that wait for a poller. Returns whether there were any.
    pub(super) fn poll_woken(&self, poller: Poller<'_>) -> bool {
        let next = || match poller {
            Poller::Home(home) => lock(&home.state).woken.pop_front(),
            Poller::Driver => lock(&self.0).for_driver.pop_front(),
        };
        let count = match poller {
            Poller::Home(home) => lock(&home.state).woken.len(),
            Poller::Driver => lock(&self.0).for_driver.len(),
        };
        (0..count).map_while(|_| next()).filter(|entry| self.poll(*entry)).count() > 0
    }

    /// Ends the handlers whose calls are cancelled.
    pub(super) fn end_cancelled(&self) -> bool {
        let mut any = false;
        loop {
            let Some(entry) = lock(&self.0).cancelled.pop_front() else { return any };
            any |= self.poll(entry);
        }
    }

    /// Polls a handler, if it still waits for that.
    fn poll(&self, entry: Entry) -> bool {
        let Some((index, handler, mut future)) = lock(&self.0).take(entry) else { return false };
        let _span = handler.home.as_ref().map(|home| home.span.enter());
        let outcome = catch(|| future.as_mut().poll(&mut Context::from_waker(&handler.waker)));
        // Handlers catch their own panics. A panic here comes from a destructor and ends the future as well.
        if matches!(outcome, Ok(Poll::Pending)) {
            self.put_back(entry, future);
            return true;
        }
        let _ = catch(|| drop(future));
        let mut slots = lock(&self.0);
        let phase = handler.home.as_ref().map(|home| {
            let mut state = lock(&home.state);
            state.handlers = state.handlers.saturating_sub(1);
            state.phase
        });
        slots.fostered -= usize::from(phase != Some(Phase::Response));
        if let Some(slot) = slots.slots.get_mut(index) {
            slot.handler = None;
            slots.free.push(index);
        }
        true
    }

    fn put_back(&self, entry: Entry, future: CallFuture) {
        let mut slots = lock(&self.0);
        let Some(slot) = slots.slots.get_mut(entry.0) else { return };
        slot.future = Some(future);
        let is_woken = core::mem::take(&mut slot.is_woken);
        let waker = slot.handler.as_ref().filter(|_| is_woken).map(|handler| handler.waker.clone());
        drop(slots);
        // Somebody else may be to poll it by now.
        waker.into_iter().for_each(Waker::wake);
    }

    /// Queues a handler that was woken. Returns who is to poll it, unless that is known already.
    fn mark_woken(&self, index: usize, generation: u64) -> Option<WakeTarget> {
        let mut slots = lock(&self.0);
        let slot = slots.slots.get_mut(index)?;
        let handler = slot.handler.as_ref().filter(|_| slot.generation == generation)?;
        if slot.future.is_none() {
            // Its poller queues it.
            slot.is_woken = true;
            return None;
        }
        // A cancelled one is queued for everybody: its own poller may not be polled for long.
        if slot.is_queued && !handler.call.is_cancelled() {
            return None;
        }
        slots.queue((index, generation))
    }

    /// Moves a request to its next phase, or the one after it. Returns whether it has handlers that go on.
    pub(super) fn advance(&self, home: &Home, phase: Phase) -> bool {
        let mut slots = lock(&self.0);
        let mut state = lock(&home.state);
        if state.phase == Phase::Response {
            slots.fostered += state.handlers;
        }
        state.phase = phase;
        let goes_on = state.handlers > 0;
        let woken = core::mem::take(&mut state.woken);
        drop(state);
        for entry in woken {
            requeue(&mut slots, entry);
        }
        goes_on
    }

    /// Sets whether the shard has a driver. Returns what to wake, because handlers change their poller.
    pub(super) fn set_driver(&self, has_driver: bool) -> Vec<WakeTarget> {
        let mut slots = lock(&self.0);
        if core::mem::replace(&mut slots.has_driver, has_driver) == has_driver {
            return Vec::new();
        }
        // A body may not be polled for long: a driver takes over what waits for it.
        let at_body = |slot: &Slot| {
            let home = slot.handler.as_ref().and_then(|handler| handler.home.as_ref());
            slot.is_queued && home.is_some_and(|home| lock(&home.state).phase == Phase::Body)
        };
        let waiting: Vec<Entry> = if has_driver {
            let slots = slots.slots.iter().enumerate().filter(|(_, slot)| at_body(slot));
            slots.map(|(index, slot)| (index, slot.generation)).collect()
        } else {
            core::mem::take(&mut slots.for_driver).into()
        };
        waiting.into_iter().filter_map(|entry| requeue(&mut slots, entry)).collect()
    }
}

/// Queues a handler anew, if it still waits.
fn requeue(slots: &mut Slots, entry: Entry) -> Option<WakeTarget> {
    slots.slots.get(entry.0).filter(|slot| slot.generation == entry.1 && slot.is_queued)?;
    slots.queue(entry)
}

/// Wakes a handler: queues it, and wakes its poller.
struct HandlerWaker {
    shard: Weak<Shard>,
    index: usize,
    generation: u64,
}

impl Wake for HandlerWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let Some(shard) = self.shard.upgrade() else { return };
        if let Some(target) = shard.handlers.mark_woken(self.index, self.generation) {
            shard.wake_for_handler(target);
        }
    }
}

/// The span that was current when a request arrived: that of a layer around the service. Its handlers run in it, wherever they are
/// polled.
#[derive(Debug)]
struct RequestSpan(#[cfg(feature = "tracing")] tracing::Span);

#[cfg(feature = "tracing")]
impl RequestSpan {
    fn current() -> Self {
        Self(tracing::Span::current())
    }

    /// Enters the span, unless it is current already.
    fn enter(&self) -> Option<tracing::span::Entered<'_>> {
        let is_entered = self.0.is_none() || tracing::Span::current().id() == self.0.id();
        (!is_entered).then(|| self.0.enter())
    }
}

#[cfg(not(feature = "tracing"))]
impl RequestSpan {
    const fn current() -> Self {
        Self()
    }

    const fn enter(&self) -> Option<()> {
        None
    }
}
