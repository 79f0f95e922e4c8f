//! The running handlers of a shard. Each is polled by one thread at a time, and several at once by several threads.

use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::task::Wake;
use alloc::vec::Vec;
use core::task::{Context, Poll, Waker};
use std::sync::Mutex;

use mcp_std::adapter::server::ActiveCall;
use mcp_std::catch;

use super::{Shard, lock};
use crate::handler::CallFuture;

/// The running handlers. No lock is held while one is polled or dropped.
#[derive(Default)]
pub(super) struct Handlers(Mutex<Slots>);

/// Invariant: `free` has the indexes of the slots without a handler, `woken` those of slots with `is_queued`.
#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<usize>,
    woken: VecDeque<usize>,
}

#[derive(Default)]
struct Slot {
    /// Distinguishes the handlers that were in this slot.
    generation: u64,
    handler: Option<RunningHandler>,
    /// Absent while it is polled.
    future: Option<CallFuture>,
    /// Whether its index is in `woken`.
    is_queued: bool,
    /// Woken while it was polled.
    is_woken: bool,
}

#[derive(Clone)]
struct RunningHandler {
    call: Arc<ActiveCall>,
    waker: Waker,
}

impl Handlers {
    /// Returns the number of running handlers.
    pub(super) fn len(&self) -> usize {
        let slots = lock(&self.0);
        slots.slots.len() - slots.free.len()
    }

    /// Returns whether a handler was woken and not polled since.
    pub(super) fn has_woken(&self) -> bool {
        !lock(&self.0).woken.is_empty()
    }

    /// Adds a handler, which is polled next. `home` is the exchange that is probably the one of its call.
    pub(super) fn add(
        &self,
        shard: &Weak<Shard>,
        call: Arc<ActiveCall>,
        future: CallFuture,
        home: Option<usize>,
    ) {
        let mut slots = lock(&self.0);
        let index = slots.free.pop().unwrap_or_else(|| {
            slots.slots.push(Slot::default());
            slots.slots.len() - 1
        });
        let Some(slot) = slots.slots.get_mut(index) else { return };
        slot.generation += 1;
        let waker = HandlerWaker { shard: shard.clone(), index, generation: slot.generation, home };
        slot.handler = Some(RunningHandler { call, waker: Waker::from(Arc::new(waker)) });
        slot.future = Some(future);
        (slot.is_queued, slot.is_woken) = (true, false);
        slots.woken.push_back(index);
    }

    /// Polls the handlers that were woken before. Returns whether there were any.
    pub(super) fn poll_woken(&self) -> bool {
        let count = lock(&self.0).woken.len();
        (0..count).filter(|_| self.poll_next(|_| true)).count() > 0
    }

    /// Polls those of the woken handlers whose calls are cancelled: they end, and no code of the application runs but
    /// destructors.
    pub(super) fn end_cancelled(&self) {
        while self.poll_next(ActiveCall::is_cancelled) {}
    }

    /// Polls the first of the woken handlers that is chosen. Returns whether there was one.
    fn poll_next(&self, is_chosen: impl Fn(&ActiveCall) -> bool) -> bool {
        let Some((index, RunningHandler { waker, .. }, mut future)) = self.take(is_chosen) else {
            return false;
        };
        let outcome = catch(|| future.as_mut().poll(&mut Context::from_waker(&waker)));
        // Handlers catch their own panics. A panic here comes from a destructor and ends the future as well.
        if matches!(outcome, Ok(Poll::Pending)) {
            self.put_back(index, future);
            return true;
        }
        let _ = catch(|| drop(future));
        let mut slots = lock(&self.0);
        if let Some(slot) = slots.slots.get_mut(index) {
            slot.handler = None;
            slots.free.push(index);
        }
        true
    }

    fn take(&self, is_chosen: impl Fn(&ActiveCall) -> bool) -> Option<(usize, RunningHandler, CallFuture)> {
        let mut slots = lock(&self.0);
        let Slots { slots, woken, .. } = &mut *slots;
        let is_next = |index: &usize| {
            let slot = slots.get(*index);
            slot.and_then(|slot| slot.handler.as_ref()).is_some_and(|handler| is_chosen(&handler.call))
        };
        let at = woken.iter().position(is_next)?;
        let index = woken.remove(at)?;
        let slot = slots.get_mut(index)?;
        slot.is_queued = false;
        Some((index, slot.handler.clone()?, slot.future.take()?))
    }

    fn put_back(&self, index: usize, future: CallFuture) {
        let mut slots = lock(&self.0);
        let Slots { slots, woken, .. } = &mut *slots;
        let Some(slot) = slots.get_mut(index) else { return };
        slot.future = Some(future);
        if core::mem::take(&mut slot.is_woken) {
            slot.is_queued = true;
            woken.push_back(index);
        }
    }

    /// Queues a handler. Returns whether it is to be polled, and was not queued before.
    fn mark_woken(&self, index: usize, generation: u64) -> bool {
        let mut slots = lock(&self.0);
        let Slots { slots, woken, .. } = &mut *slots;
        let Some(slot) = slots.get_mut(index) else { return false };
        if slot.generation != generation || slot.handler.is_none() || slot.is_queued {
            return false;
        }
        if slot.future.is_none() {
            // Its poller queues it.
            slot.is_woken = true;
            return true;
        }
        slot.is_queued = true;
        woken.push_back(index);
        true
    }
}

/// Wakes a handler: queues it, and wakes somebody who polls it.
struct HandlerWaker {
    shard: Weak<Shard>,
    index: usize,
    generation: u64,
    home: Option<usize>,
}

impl Wake for HandlerWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let Some(shard) = self.shard.upgrade() else { return };
        if shard.handlers.mark_woken(self.index, self.generation) {
            shard.wake(self.home);
        }
    }
}
