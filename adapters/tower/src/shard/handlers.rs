//! The running handlers of a shard, and who polls which.
//!
//! A handler is polled in the context of its request or in none: by the future of its response until that is decided, and
//! then by a driver of the shard, or if there is none by the body of its response. Task-locals and the current span of
//! another request are never those that it sees.

use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::task::Wake;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use core::task::{Context, Poll, Waker};
use std::sync::Mutex;

use mcp_runtime::server::{ActiveCall, RemoteCall};
use mcp_std::catch;

use super::{Shard, lock};
use crate::handler::CallFuture;

/// The running handlers. No lock is held while one is polled or dropped.
#[derive(Default)]
pub(super) struct Handlers {
    slots: Mutex<Slots>,
    /// Number of handlers whose home is not [`Phase::Response`]. Changes under the lock.
    fostered: AtomicUsize,
    /// Whether [`Slots::cancelled`] may have entries. Changes under the lock.
    has_cancelled: AtomicBool,
}

/// Invariants: `free` has the indexes of the slots without a handler. A queue may have entries that were polled in the meantime:
/// their slots are not `is_queued`.
#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<usize>,
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
    /// Absent while it is polled.
    handler: Option<RunningHandler>,
    is_polled: bool,
    /// Whether it is in a queue.
    is_queued: bool,
    /// Woken while it was polled.
    is_woken: bool,
}

struct RunningHandler {
    call: Arc<ActiveCall>,
    waker: Waker,
    home: Option<Arc<Home>>,
    future: CallFuture,
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
    /// Returns whether this polls the request of a call.
    pub(super) fn is_home_of(self, call: &RemoteCall) -> bool {
        let home = call.running().call().extension::<Arc<Home>>();
        matches!((self, home), (Self::Home(own), Some(home)) if Arc::ptr_eq(own, home))
    }

    /// Returns whether this polls an exchange.
    pub(super) fn is_home(self, index: usize) -> bool {
        matches!(self, Self::Home(home) if home.index == index)
    }

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
    /// Takes a handler that is queued, to poll it.
    fn take(&mut self, (index, generation): Entry) -> Option<RunningHandler> {
        let slot = self.slots.get_mut(index)?;
        if slot.generation != generation || !core::mem::take(&mut slot.is_queued) {
            return None;
        }
        slot.is_polled = true;
        slot.handler.take()
    }
}

impl Handlers {
    /// Returns the number of running handlers.
    pub(super) fn len(&self) -> usize {
        let slots = lock(&self.slots);
        slots.slots.len() - slots.free.len()
    }

    /// Returns the number of handlers that a driver is to poll.
    pub(super) fn fostered(&self) -> usize {
        self.fostered.load(SeqCst)
    }

    /// Returns whether a handler waits for a poller.
    pub(super) fn has_woken(&self, poller: Poller<'_>) -> bool {
        match poller {
            Poller::Home(home) => home.has_woken(),
            Poller::Driver => self.fostered() > 0 && !lock(&self.slots).for_driver.is_empty(),
        }
    }

    /// Adds a handler. `is_here`: the caller polls the response of its home, and so it is polled at once. Returns who else is to
    /// poll it.
    pub(super) fn start(
        &self,
        shard: &Weak<Shard>,
        call: &Arc<ActiveCall>,
        future: CallFuture,
        home: Option<Arc<Home>>,
        is_here: bool,
    ) -> Option<WakeTarget> {
        let mut slots = lock(&self.slots);
        let index = slots.free.pop().unwrap_or_else(|| {
            slots.slots.push(Slot::default());
            slots.slots.len() - 1
        });
        let phase = home.as_ref().map(|home| {
            let mut state = lock(&home.state);
            state.handlers += 1;
            state.phase
        });
        if phase != Some(Phase::Response) {
            self.fostered.fetch_add(1, SeqCst);
        }
        let slot = slots.slots.get_mut(index)?;
        slot.generation += 1;
        let entry = (index, slot.generation);
        let waker = HandlerWaker { shard: shard.clone(), index, generation: slot.generation };
        let waker = Waker::from(Arc::new(waker));
        slot.is_woken = false;
        let handler = RunningHandler { call: call.clone(), waker: waker.clone(), home, future };
        slot.is_polled = is_here && phase == Some(Phase::Response);
        if slot.is_polled {
            drop(slots);
            // Another handler, or the loop, may cancel it while it is polled.
            call.register_cancel_waker(&waker);
            self.poll_taken(entry, handler);
            return None;
        }
        slot.handler = Some(handler);
        let target = self.queue(&mut slots, entry);
        drop(slots);
        // It may be cancelled before it is polled.
        call.register_cancel_waker(&waker);
        target
    }

    /// Queues a handler for its poller. Returns what to wake.
    fn queue(&self, slots: &mut Slots, entry: Entry) -> Option<WakeTarget> {
        let slot = slots.slots.get_mut(entry.0)?;
        slot.is_queued = true;
        let handler = slot.handler.as_ref()?;
        if handler.call.is_cancelled() {
            slots.cancelled.push_back(entry);
            self.has_cancelled.store(true, SeqCst);
            return Some(WakeTarget::Anybody);
        }
        if let Some(home) = &handler.home {
            let mut state = lock(&home.state);
            if state.phase == Phase::Response || state.phase == Phase::Body && !slots.has_driver {
                state.woken.push_back(entry);
                return Some(WakeTarget::Exchange(home.index));
            }
        }
        slots.for_driver.push_back(entry);
        Some(WakeTarget::Driver)
    }

    /// Queues a handler anew, if it still waits.
    fn requeue(&self, slots: &mut Slots, entry: Entry) -> Option<WakeTarget> {
        slots.slots.get(entry.0).filter(|slot| slot.generation == entry.1 && slot.is_queued)?;
        self.queue(slots, entry)
    }

    /// Polls the handlers that wait for a poller. Returns whether there were any.
    pub(super) fn poll_woken(&self, poller: Poller<'_>) -> bool {
        match poller {
            Poller::Home(home) => {
                let woken = core::mem::take(&mut lock(&home.state).woken);
                woken.into_iter().filter(|entry| self.poll(*entry)).count() > 0
            }
            Poller::Driver => {
                // One at a time: several drivers share them.
                let count = lock(&self.slots).for_driver.len();
                let next = |_| lock(&self.slots).for_driver.pop_front();
                (0..count).map_while(next).filter(|entry| self.poll(*entry)).count() > 0
            }
        }
    }

    /// Ends the handlers whose calls are cancelled.
    pub(super) fn end_cancelled(&self) -> bool {
        let mut any = false;
        while self.has_cancelled.load(SeqCst) {
            let mut slots = lock(&self.slots);
            let next = slots.cancelled.pop_front();
            self.has_cancelled.store(!slots.cancelled.is_empty(), SeqCst);
            drop(slots);
            any |= next.is_some_and(|entry| self.poll(entry));
        }
        any
    }

    /// Polls a handler, if it still waits for that.
    fn poll(&self, entry: Entry) -> bool {
        let taken = lock(&self.slots).take(entry);
        taken.map(|handler| self.poll_taken(entry, handler)).is_some()
    }

    /// Polls a handler whose slot says so.
    fn poll_taken(&self, entry: Entry, handler: RunningHandler) {
        let RunningHandler { call, waker, home, mut future } = handler;
        let pending = {
            let _span = home.as_ref().map(|home| home.span.enter());
            // Handlers catch their own panics. A panic here comes from a destructor and ends the future as well.
            match catch(|| future.as_mut().poll(&mut Context::from_waker(&waker))) {
                Ok(Poll::Pending) => Some(future),
                _ => {
                    let _ = catch(|| drop(future));
                    None
                }
            }
        };
        if let Some(future) = pending {
            return self.put_back(entry, RunningHandler { call, waker, home, future });
        }
        let mut slots = lock(&self.slots);
        let phase = home.as_ref().map(|home| {
            let mut state = lock(&home.state);
            state.handlers = state.handlers.saturating_sub(1);
            state.phase
        });
        if phase != Some(Phase::Response) {
            self.fostered.fetch_sub(1, SeqCst);
        }
        if let Some(slot) = slots.slots.get_mut(entry.0) {
            slot.is_polled = false;
            slots.free.push(entry.0);
        }
    }

    fn put_back(&self, entry: Entry, handler: RunningHandler) {
        let mut slots = lock(&self.slots);
        let Some(slot) = slots.slots.get_mut(entry.0) else { return };
        let is_woken = core::mem::take(&mut slot.is_woken);
        let waker = is_woken.then(|| handler.waker.clone());
        slot.is_polled = false;
        slot.handler = Some(handler);
        drop(slots);
        // Somebody else may be to poll it by now.
        waker.into_iter().for_each(Waker::wake);
    }

    /// Queues a handler that was woken. Returns who is to poll it, unless that is known already.
    fn mark_woken(&self, index: usize, generation: u64) -> Option<WakeTarget> {
        let mut slots = lock(&self.slots);
        let slot = slots.slots.get_mut(index).filter(|slot| slot.generation == generation)?;
        if slot.is_polled {
            // Its poller queues it.
            slot.is_woken = true;
            return None;
        }
        let handler = slot.handler.as_ref()?;
        // A cancelled one is queued for everybody: its own poller may not be polled for long.
        if slot.is_queued && !handler.call.is_cancelled() {
            return None;
        }
        self.queue(&mut slots, (index, generation))
    }

    /// Moves a request to its next phase, or the one after it. Returns whether it has handlers that go on.
    pub(super) fn advance(&self, home: &Home, phase: Phase) -> bool {
        let mut slots = lock(&self.slots);
        let mut state = lock(&home.state);
        if state.phase == Phase::Response && state.handlers > 0 {
            self.fostered.fetch_add(state.handlers, SeqCst);
        }
        state.phase = phase;
        let goes_on = state.handlers > 0;
        let woken = core::mem::take(&mut state.woken);
        drop(state);
        for entry in woken {
            self.requeue(&mut slots, entry);
        }
        goes_on
    }

    /// Sets whether the shard has a driver. Returns what to wake, because handlers change their poller.
    pub(super) fn set_driver(&self, has_driver: bool) -> Vec<WakeTarget> {
        let mut slots = lock(&self.slots);
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
        waiting.into_iter().filter_map(|entry| self.requeue(&mut slots, entry)).collect()
    }
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
