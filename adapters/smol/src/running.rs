//! Futures of handlers, polled when they were woken

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use mcp_std::catch;
use mcp_std::inbox::Inbox;
use mcp_std::nudge::Ring;

/// Futures that run at the same time, all of one type, in places that are used again
///
/// It is as `Send` as they are. `K` is what one of them is known by.
pub(crate) struct Running<F, K = ()> {
    places: Vec<Place<F, K>>,
    free: Vec<usize>,
    /// Places that were woken
    woken: Inbox<usize>,
    /// What was taken out of it, for the sake of its memory
    turns: VecDeque<usize>,
}

struct Place<F, K> {
    /// What the future is for
    key: Option<K>,
    future: Pin<Box<Option<F>>>,
    /// Sends its number to the woken ones
    ring: Arc<Ring>,
    waker: Waker,
}

impl<F, K: PartialEq> Running<F, K> {
    /// Drops the one of this key, if it runs
    pub(crate) fn stop(&mut self, key: &K) {
        if let Some(place) = self.places.iter().position(|place| place.key.as_ref() == Some(key)) {
            self.clear(place);
        }
    }
}

impl<F, K> Running<F, K> {
    /// None yet; `waker` is woken when one of them is to be polled
    pub(crate) fn new(waker: &Waker) -> Self {
        let (places, free, turns) = (Vec::new(), Vec::new(), VecDeque::new());
        let woken = Inbox::new(usize::MAX);
        woken.register(waker);
        Self { places, free, woken, turns }
    }

    fn add(&mut self) -> usize {
        let place = self.places.len();
        let (ring, waker) = Ring::new(place, self.woken.sender());
        self.places.push(Place { key: None, future: Box::pin(None), ring, waker });
        place
    }

    /// Has `waker` woken from now on
    pub(crate) fn register(&self, waker: &Waker) {
        self.woken.register(waker);
    }

    /// How many run
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether one of them was woken
    pub(crate) fn is_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Drops all that run; what they were for
    pub(crate) fn clear_all(&mut self) -> Vec<K> {
        (0..self.places.len()).filter_map(|place| self.clear(place)).collect()
    }

    fn clear(&mut self, place: usize) -> Option<K> {
        let Place { key, future, .. } = self.places.get_mut(place)?;
        let key = key.take()?;
        let _ = catch(|| future.as_mut().set(None));
        self.free.push(place);
        Some(key)
    }
}

/// One after the other: a panic in one does not keep the others from being dropped, nor end who drops them
impl<F, K> Drop for Running<F, K> {
    fn drop(&mut self) {
        let _ = self.clear_all();
    }
}

impl<F: Future<Output = ()>, K> Running<F, K> {
    /// Begins one
    pub(crate) fn start(&mut self, key: K, future: impl FnOnce() -> F) {
        let place = self.free.pop().unwrap_or_else(|| self.add());
        if let Some(free) = self.places.get_mut(place) {
            free.key = Some(key);
            free.future.as_mut().set(Some(future()));
            self.poll(place);
        }
    }

    /// Goes on with those that were woken; whether there were any
    pub(crate) fn turn(&mut self) -> bool {
        let mut turns = core::mem::take(&mut self.turns);
        let any = self.woken.take(&mut turns);
        turns.drain(..).for_each(|place| self.poll(place));
        self.turns = turns;
        any
    }

    fn poll(&mut self, place: usize) {
        let Some(Place { future, ring, waker, .. }) = self.places.get_mut(place) else { return };
        ring.silence();
        let Some(future) = future.as_mut().as_pin_mut() else { return };
        let outcome = catch(|| future.poll(&mut Context::from_waker(waker)));
        // What panics here is what handlers own, while it is dropped: they are caught by themselves.
        if !matches!(outcome, Ok(Poll::Pending)) {
            self.clear(place);
        }
    }
}
