//! A bounded queue of commands into a loop, which wakes the loop.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;
use std::sync::{Mutex, MutexGuard};

use crate::sync::lock;

/// The receiving end of a queue that other threads and tasks fill.
///
/// The loop [registers](Self::register) a waker for its wait and takes the queued items. No lock is held while other
/// code runs.
pub struct Inbox<T>(Arc<InboxShared<T>>);

/// The sending end of an [`Inbox`]; clones share the queue.
pub struct Sender<T>(Arc<InboxShared<T>>);

/// Error of sending; contains the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError<T> {
    /// The queue is at its capacity.
    Full(T),
    /// The loop has ended.
    Closed(T),
}

struct InboxShared<T> {
    /// Whether items may be queued; checked before the lock is taken.
    has_items: AtomicBool,
    state: Mutex<State<T>>,
    capacity: usize,
}

struct State<T> {
    queue: VecDeque<T>,
    waker: Option<Waker>,
    closed: bool,
}

impl<T> Inbox<T> {
    /// Creates an empty queue for at most `capacity` items.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let state = State { queue: VecDeque::new(), waker: None, closed: false };
        Self(Arc::new(InboxShared { has_items: AtomicBool::new(false), state: Mutex::new(state), capacity }))
    }

    /// Creates a sender.
    #[must_use]
    pub fn sender(&self) -> Sender<T> {
        Sender(self.0.clone())
    }

    /// Returns whether no sender exists.
    #[must_use]
    pub fn has_no_senders(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Registers the waker for items sent from now on; items already queued wake nothing.
    ///
    /// So the order is: register, then [take](Self::take), then wait.
    pub fn register(&self, waker: &Waker) {
        let mut state = lock(&self.0.state);
        match &mut state.waker {
            Some(current) => current.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Returns whether a waker is registered.
    #[must_use]
    pub fn has_waker(&self) -> bool {
        lock(&self.0.state).waker.is_some()
    }

    /// Moves all items into `queue` in the order of sending, and returns whether there were any.
    pub fn take(&self, queue: &mut VecDeque<T>) -> bool {
        // Most looks find nothing, and a load costs less than a swap. Cleared before the queue is taken: an item that is sent
        // meanwhile sets it again.
        if self.is_empty() || !self.0.has_items.swap(false, Ordering::AcqRel) {
            return false;
        }
        let mut state = lock(&self.0.state);
        if queue.is_empty() {
            core::mem::swap(queue, &mut state.queue);
        } else {
            queue.append(&mut state.queue);
        }
        drop(state);
        !queue.is_empty()
    }

    /// Returns whether no item was sent or [expected](Self::expect_items) since the last [`take`](Self::take).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.0.has_items.load(Ordering::Acquire)
    }

    /// Lets items wake nothing until the next [`take`](Self::take), for a loop that will take them before it waits.
    pub fn expect_items(&self) {
        self.0.has_items.store(true, Ordering::Release);
    }

    /// Refuses items from now on; queued items can still be taken.
    pub fn close(&self) {
        lock(&self.0.state).closed = true;
    }
}

/// Refuses items from then on and drops the queued ones.
impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.closed = true;
        let left = core::mem::take(&mut state.queue);
        drop(state);
        // Dropped without the lock, as the drop code of an item may use a sender.
        drop(left);
    }
}

impl<T> Sender<T> {
    /// Queues an item and wakes the loop.
    ///
    /// # Errors
    ///
    /// [`SendError`], which contains the item.
    pub fn send(&self, item: T) -> Result<(), SendError<T>> {
        self.send_up_to(item, self.0.capacity)
    }

    /// Queues an item beyond the capacity.
    ///
    /// It is meant for items that must not be lost and whose number is bounded elsewhere, for example the answers of
    /// running calls.
    ///
    /// # Errors
    ///
    /// [`SendError::Closed`].
    pub fn send_unbounded(&self, item: T) -> Result<(), SendError<T>> {
        self.send_up_to(item, usize::MAX)
    }

    /// Queues an item, or merges it into a similar one if the queue is full.
    ///
    /// `merge` adds the second item to the first and returns `true` if they are alike; it must be fast. So the queue
    /// may exceed its capacity by one item of each kind.
    ///
    /// # Errors
    ///
    /// [`SendError::Closed`].
    pub fn send_or_merge(
        &self,
        item: T,
        mut merge: impl FnMut(&mut T, &T) -> bool,
    ) -> Result<(), SendError<T>> {
        let mut state = lock(&self.0.state);
        if state.closed {
            return Err(SendError::Closed(item));
        }
        if state.queue.len() > self.0.capacity {
            let mut excess = state.queue.range_mut(self.0.capacity..);
            if excess.any(|waiting| merge(waiting, &item)) {
                return Ok(());
            }
        }
        self.push_and_wake(state, item);
        Ok(())
    }

    fn send_up_to(&self, item: T, capacity: usize) -> Result<(), SendError<T>> {
        let state = lock(&self.0.state);
        if state.closed {
            return Err(SendError::Closed(item));
        }
        if state.queue.len() >= capacity {
            return Err(SendError::Full(item));
        }
        self.push_and_wake(state, item);
        Ok(())
    }

    fn push_and_wake(&self, mut state: MutexGuard<'_, State<T>>, item: T) {
        state.queue.push_back(item);
        // If it was set, the loop has been woken and has not taken the items yet.
        let was_set = self.0.has_items.swap(true, Ordering::AcqRel);
        let waker = if was_set { None } else { state.waker.clone() };
        drop(state);
        // After unlocking, because a waker may run code that sends.
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns whether this is a sender of `inbox`.
    #[must_use]
    pub fn is_sender_of(&self, inbox: &Inbox<T>) -> bool {
        Arc::ptr_eq(&self.0, &inbox.0)
    }

    /// Returns whether the loop has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        lock(&self.0.state).closed
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("waiting", &lock(&self.0.state).queue.len()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::task::Wake;
    use core::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;

    #[derive(Default)]
    struct InboxWakeCount(AtomicUsize);

    impl Wake for InboxWakeCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn inbox_wakes_once_until_taken() {
        let (count, inbox) = (Arc::new(InboxWakeCount::default()), Inbox::new(3));
        let sender = inbox.sender();
        inbox.register(&Waker::from(count.clone()));
        let mut taken = VecDeque::new();
        for round in 1..=2 {
            for n in 0..3 {
                sender.send(n).unwrap();
            }
            assert_eq!(sender.send(3), Err(SendError::Full(3)));
            sender.send_unbounded(4).unwrap();
            assert_eq!(count.0.load(Ordering::SeqCst), round);
            assert!(inbox.take(&mut taken));
            assert_eq!(taken.drain(..).collect::<Vec<_>>(), [0, 1, 2, 4]);
            assert!(!inbox.take(&mut taken));
        }
        assert!(!inbox.has_no_senders());
        drop(inbox);
        assert_eq!(sender.send_unbounded(5), Err(SendError::Closed(5)));
    }

    #[test]
    fn expected_items_wake_nothing_until_taken() {
        let (count, inbox) = (Arc::new(InboxWakeCount::default()), Inbox::new(3));
        let sender = inbox.sender();
        inbox.register(&Waker::from(count.clone()));
        inbox.expect_items();
        assert!(!inbox.is_empty());
        sender.send(1).unwrap();
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
        let mut taken = VecDeque::new();
        assert!(inbox.take(&mut taken));
        sender.send(2).unwrap();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert!(inbox.take(&mut taken));
        // If none comes, the item after the next `take` wakes again.
        inbox.expect_items();
        assert!(!inbox.take(&mut VecDeque::new()));
        sender.send(3).unwrap();
        assert_eq!(count.0.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn full_inbox_merges_similar_items() {
        let inbox = Inbox::new(2);
        let sender = inbox.sender();
        let send = |item: (char, u32)| {
            sender.send_or_merge(item, |waiting, item| {
                let alike = waiting.0 == item.0;
                waiting.1 += if alike { item.1 } else { 0 };
                alike
            })
        };
        for n in 1..=4 {
            send(('a', n)).unwrap();
            send(('b', n)).unwrap();
        }
        assert_eq!(sender.send(('a', 9)), Err(SendError::Full(('a', 9))));
        let mut taken = VecDeque::new();
        assert!(inbox.take(&mut taken));
        assert_eq!(taken, [('a', 1), ('b', 1), ('a', 9), ('b', 9)]);
        drop(inbox);
        assert_eq!(send(('a', 1)), Err(SendError::Closed(('a', 1))));
    }

    #[test]
    fn inbox_loses_nothing_between_threads() {
        struct InboxUnpark(thread::Thread);
        impl Wake for InboxUnpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let inbox = Inbox::new(usize::MAX);
        inbox.register(&Waker::from(Arc::new(InboxUnpark(thread::current()))));
        let senders: Vec<_> = (0..4_u32)
            .map(|sender_index| {
                let sender = inbox.sender();
                thread::spawn(move || (0..10_000_u32).for_each(|n| sender.send((sender_index, n)).unwrap()))
            })
            .collect();
        let (mut next, mut taken) = ([0; 4], VecDeque::new());
        while next != [10_000; 4] {
            if !inbox.take(&mut taken) {
                thread::park();
            }
            for (sender_index, n) in taken.drain(..) {
                assert_eq!(next[sender_index as usize], n);
                next[sender_index as usize] += 1;
            }
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert!(inbox.has_no_senders());
    }
}
