//! A bounded queue into a loop, which wakes the loop

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The loop's end of a queue that is filled from other threads and tasks
///
/// Whoever turns the loop [registers](Self::register) what ends its waiting early, and takes out what there is. No lock is
/// held while anything else runs.
pub struct Inbox<T>(Arc<Shared<T>>);

/// The other end of an [`Inbox`]; clones fill the same one
pub struct Sender<T>(Arc<Shared<T>>);

/// Why something was not taken in; here it is again
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused<T> {
    /// As much waits already as may wait
    Full(T),
    /// The loop is over
    Closed(T),
}

struct Shared<T> {
    /// Something may be there: looked at before the lock is
    any: AtomicBool,
    state: Mutex<State<T>>,
    most: usize,
}

struct State<T> {
    queue: VecDeque<T>,
    waker: Option<Waker>,
    closed: bool,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Inbox<T> {
    /// An empty one, for at most so many at a time
    #[must_use]
    pub fn new(most: usize) -> Self {
        let state = State { queue: VecDeque::new(), waker: None, closed: false };
        Self(Arc::new(Shared { any: AtomicBool::new(false), state: Mutex::new(state), most }))
    }

    /// The end to fill it by
    #[must_use]
    pub fn sender(&self) -> Sender<T> {
        Sender(self.0.clone())
    }

    /// Whether nobody can fill it: there is no sender
    #[must_use]
    pub fn is_alone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Has `waker` woken by whatever comes from now on; what is there already wakes nobody
    ///
    /// So: register first, then [take](Self::take), then wait.
    pub fn register(&self, waker: &Waker) {
        let mut state = self.0.lock();
        match &mut state.waker {
            Some(old) => old.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Moves all there is into `queue`, in the order in which it came; whether there was anything
    pub fn take(&self, queue: &mut VecDeque<T>) -> bool {
        if !self.0.any.swap(false, Ordering::AcqRel) {
            return false;
        }
        let mut state = self.0.lock();
        if queue.is_empty() {
            core::mem::swap(queue, &mut state.queue);
        } else {
            queue.append(&mut state.queue);
        }
        drop(state);
        !queue.is_empty()
    }

    /// Whether nothing has come since it was [taken](Self::take) from
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.0.any.load(Ordering::Acquire)
    }

    /// Takes nothing in any more; what is there can still be taken
    pub fn close(&self) {
        self.0.lock().closed = true;
    }
}

/// What nobody will take any more is refused from then on
impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        let left = core::mem::take(&mut state.queue);
        drop(state);
        // Whatever their ends do, they may look here again.
        drop(left);
    }
}

impl<T> Sender<T> {
    /// Puts something in, and wakes the loop
    ///
    /// # Errors
    ///
    /// [`Refused`], with what was to be put in.
    pub fn send(&self, item: T) -> Result<(), Refused<T>> {
        self.put(item, self.0.most)
    }

    /// Puts in what must not be lost, such as the answer to a call of which there are only so many: however much waits
    ///
    /// # Errors
    ///
    /// [`Refused::Closed`].
    pub fn send_due(&self, item: T) -> Result<(), Refused<T>> {
        self.put(item, usize::MAX)
    }

    /// Puts something in, or adds it to something like it once as much waits as may wait
    ///
    /// `merge` adds the second one to the first and says so, if they are alike; it must not be slow. So there may be one of
    /// each kind beyond what may wait.
    ///
    /// # Errors
    ///
    /// [`Refused::Closed`].
    pub fn send_or_merge(
        &self,
        item: T,
        mut merge: impl FnMut(&mut T, &T) -> bool,
    ) -> Result<(), Refused<T>> {
        let mut state = self.0.lock();
        if state.closed {
            return Err(Refused::Closed(item));
        }
        if state.queue.len() > self.0.most {
            let mut beyond = state.queue.range_mut(self.0.most..);
            if beyond.any(|waiting| merge(waiting, &item)) {
                return Ok(());
            }
        }
        self.enter(state, item);
        Ok(())
    }

    fn put(&self, item: T, most: usize) -> Result<(), Refused<T>> {
        let state = self.0.lock();
        if state.closed {
            return Err(Refused::Closed(item));
        }
        if state.queue.len() >= most {
            return Err(Refused::Full(item));
        }
        self.enter(state, item);
        Ok(())
    }

    fn enter(&self, mut state: MutexGuard<'_, State<T>>, item: T) {
        state.queue.push_back(item);
        // Who finds it set has not taken yet what is there.
        let woken = self.0.any.swap(true, Ordering::AcqRel);
        let waker = if woken { None } else { state.waker.clone() };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether this is the other end of `inbox`
    #[must_use]
    pub fn is_of(&self, inbox: &Inbox<T>) -> bool {
        Arc::ptr_eq(&self.0, &inbox.0)
    }

    /// Whether the loop is over
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.lock().closed
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("waiting", &self.0.lock().queue.len()).finish_non_exhaustive()
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
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn wakes_once_until_it_is_taken_from() {
        let (count, inbox) = (Arc::new(Count::default()), Inbox::new(3));
        let sender = inbox.sender();
        inbox.register(&Waker::from(count.clone()));
        let mut taken = VecDeque::new();
        for round in 1..=2 {
            for n in 0..3 {
                sender.send(n).unwrap();
            }
            assert_eq!(sender.send(3), Err(Refused::Full(3)));
            sender.send_due(4).unwrap();
            assert_eq!(count.0.load(Ordering::SeqCst), round);
            assert!(inbox.take(&mut taken));
            assert_eq!(taken.drain(..).collect::<Vec<_>>(), [0, 1, 2, 4]);
            assert!(!inbox.take(&mut taken));
        }
        assert!(!inbox.is_alone());
        drop(inbox);
        assert_eq!(sender.send_due(5), Err(Refused::Closed(5)));
    }

    #[test]
    fn what_is_alike_is_merged_when_much_waits() {
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
        assert_eq!(sender.send(('a', 9)), Err(Refused::Full(('a', 9))));
        let mut taken = VecDeque::new();
        assert!(inbox.take(&mut taken));
        assert_eq!(taken, [('a', 1), ('b', 1), ('a', 9), ('b', 9)]);
        drop(inbox);
        assert_eq!(send(('a', 1)), Err(Refused::Closed(('a', 1))));
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        struct Unpark(thread::Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let inbox = Inbox::new(usize::MAX);
        inbox.register(&Waker::from(Arc::new(Unpark(thread::current()))));
        let senders: Vec<_> = (0..4_u32)
            .map(|who| {
                let sender = inbox.sender();
                thread::spawn(move || (0..10_000_u32).for_each(|n| sender.send((who, n)).unwrap()))
            })
            .collect();
        let (mut next, mut taken) = ([0; 4], VecDeque::new());
        while next != [10_000; 4] {
            if !inbox.take(&mut taken) {
                thread::park();
            }
            for (who, n) in taken.drain(..) {
                assert_eq!(next[who as usize], n);
                next[who as usize] += 1;
            }
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert!(inbox.is_alone());
    }
}
