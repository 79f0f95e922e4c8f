//! A set of handler futures, each polled only after it was woken.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use crate::adapter::sync::Inbox;
use crate::adapter::sync::IndexedWaker;
use crate::catch;

/// Concurrently running futures of one type, in reusable slots. `K` identifies a future.
///
/// The set is `Send` if its futures are.
pub(super) struct FutureSet<F, K = ()> {
    slots: Vec<FutureSlot<F, K>>,
    free: Vec<usize>,
    /// Indexes of the slots that were woken.
    woken: Inbox<usize>,
    /// Buffer for `poll_woken`, kept to reuse its memory.
    scratch: VecDeque<usize>,
}

struct FutureSlot<F, K> {
    /// Key of the running future; `None` if the slot is free.
    key: Option<K>,
    future: Pin<Box<Option<F>>>,
    /// Sends the slot's index to `woken`.
    wake_flag: Arc<IndexedWaker>,
    waker: Waker,
}

impl<F, K: PartialEq> FutureSet<F, K> {
    /// Drops the future with this key, if it runs.
    pub(super) fn cancel(&mut self, key: &K) {
        if let Some(index) = self.slots.iter().position(|slot| slot.key.as_ref() == Some(key)) {
            self.clear_slot(index);
        }
    }
}

impl<F, K> FutureSet<F, K> {
    /// Creates an empty set; `waker` is woken when a future is to be polled.
    pub(super) fn new(waker: &Waker) -> Self {
        let (slots, free, scratch) = (Vec::new(), Vec::new(), VecDeque::new());
        let woken = Inbox::new(usize::MAX);
        woken.register(waker);
        Self { slots, free, woken, scratch }
    }

    fn add_slot(&mut self) -> usize {
        let index = self.slots.len();
        let (wake_flag, waker) = IndexedWaker::new(index, self.woken.sender());
        self.slots.push(FutureSlot { key: None, future: Box::pin(None), wake_flag, waker });
        index
    }

    /// Replaces the waker of the set.
    pub(super) fn register(&self, waker: &Waker) {
        self.woken.register(waker);
    }

    /// Returns the number of running futures.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns whether a future was woken.
    pub(super) fn is_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Drops all futures and returns their keys.
    pub(super) fn drop_all(&mut self) -> Vec<K> {
        (0..self.slots.len()).filter_map(|index| self.clear_slot(index)).collect()
    }

    fn clear_slot(&mut self, index: usize) -> Option<K> {
        let FutureSlot { key, future, .. } = self.slots.get_mut(index)?;
        let key = key.take()?;
        let _ = catch(|| future.as_mut().set(None));
        self.free.push(index);
        Some(key)
    }
}

// One after the other: a panic in one destructor neither skips the others nor reaches the caller.
impl<F, K> Drop for FutureSet<F, K> {
    fn drop(&mut self) {
        let _ = self.drop_all();
    }
}

impl<F: Future<Output = ()>, K> FutureSet<F, K> {
    /// Adds a future and polls it for the first time.
    pub(super) fn start(&mut self, key: K, future: impl FnOnce() -> F) {
        let index = self.free.pop().unwrap_or_else(|| self.add_slot());
        if let Some(slot) = self.slots.get_mut(index) {
            slot.key = Some(key);
            slot.future.as_mut().set(Some(future()));
            self.poll_slot(index);
        }
    }

    /// Polls the futures that were woken. Returns whether there were any.
    pub(super) fn poll_woken(&mut self) -> bool {
        let mut woken = core::mem::take(&mut self.scratch);
        let any = self.woken.take(&mut woken);
        woken.drain(..).for_each(|index| self.poll_slot(index));
        self.scratch = woken;
        any
    }

    fn poll_slot(&mut self, index: usize) {
        let Some(FutureSlot { future, wake_flag, waker, .. }) = self.slots.get_mut(index) else {
            return;
        };
        wake_flag.reset();
        let Some(future) = future.as_mut().as_pin_mut() else { return };
        let outcome = catch(|| future.poll(&mut Context::from_waker(waker)));
        // Handlers catch their own panics. A panic here comes from a destructor and ends the future as well.
        if !matches!(outcome, Ok(Poll::Pending)) {
            self.clear_slot(index);
        }
    }
}
