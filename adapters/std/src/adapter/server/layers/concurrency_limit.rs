//! Limit of the number of calls that run at a time.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use super::call_key::{CallKey, KeyHasher, KeyTable};
use super::refusal;
use crate::adapter::server::cx::Cx;
use crate::adapter::server::router::{EntryRequest, HandlerResult, Interceptor};

/// Limits how many calls run at a time. A call beyond the limit is refused, as by a [`RateLimit`](super::RateLimit), but without
/// a time.
///
/// A place is free again when the inside has ended in any way: with a result or an error, by a panic, or because it was dropped. A
/// call that waits for the answer to a question has no place, and needs one when it is delivered again.
///
/// By default all calls of all kinds of entries count together, and tasks count while they run. On the router of `mcp-blocking` one call runs at a time, so a
/// limit has no effect there.
///
/// ```
/// # use mcp_std::adapter::server::router::{Functions, Router};
/// use mcp_std::adapter::server::layers::{CallKey, ConcurrencyLimit};
///
/// let mut router = Router::<Functions<()>>::new("harbour", "1.0");
/// router.intercept(ConcurrencyLimit::new(64)).intercept(ConcurrencyLimit::new(4).key(CallKey::CLIENT.entry()));
/// ```
#[derive(Debug)]
pub struct ConcurrencyLimit {
    max: u32,
    keys: KeyHasher,
    running: Arc<Mutex<KeyTable<u32>>>,
}

impl ConcurrencyLimit {
    /// Creates a limit of `max` calls at a time; 0 refuses all.
    #[must_use]
    pub fn new(max: u32) -> Self {
        Self { max, keys: KeyHasher::default(), running: Arc::default() }
    }

    /// Sets the parts of calls that are limited on their own; by default [none](CallKey::NONE).
    #[must_use]
    pub fn key(mut self, key: CallKey) -> Self {
        self.keys.key = key;
        self
    }

    /// Adds a part of the application to the key, for example a tenant.
    #[must_use]
    pub fn key_by(
        mut self,
        key: impl Fn(&EntryRequest<'_>) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.keys.function = Some(Box::new(key));
        self
    }

    /// Takes a place, if there is one.
    fn enter(&self, key: u64) -> Option<RunningPlace> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // Calls that run have an entry each at most, and the engine limits them.
        let count = running.get(&key).copied().unwrap_or_default();
        if count >= self.max {
            return None;
        }
        running.insert(key, count + 1);
        Some(RunningPlace { key, running: self.running.clone() })
    }
}

/// The place of a running call. Dropping it frees the place.
#[derive(Debug)]
pub struct RunningPlace {
    key: u64,
    running: Arc<Mutex<KeyTable<u32>>>,
}

impl Drop for RunningPlace {
    fn drop(&mut self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        match running.get_mut(&self.key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => _ = running.remove(&self.key),
        }
    }
}

impl Interceptor for ConcurrencyLimit {
    type State = RunningPlace;

    fn before(
        &self,
        _: &mut Cx<'_>,
        request: &mut EntryRequest<'_>,
    ) -> ControlFlow<HandlerResult, RunningPlace> {
        match self.enter(self.keys.hash(request)) {
            Some(place) => ControlFlow::Continue(place),
            None => {
                let message = format!("too many calls at a time, the limit is {}: try again later", self.max);
                ControlFlow::Break(refusal(request, message, None))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_free_again_when_it_is_dropped_and_leaves_nothing() {
        let limit = ConcurrencyLimit::new(2);
        let places = [limit.enter(1), limit.enter(1)];
        assert!(places.iter().all(Option::is_some) && limit.enter(1).is_none());
        let other = limit.enter(2);
        assert!(other.is_some());
        let [first, second] = places;
        drop(first);
        let third = limit.enter(1);
        assert!(third.is_some() && limit.enter(1).is_none());
        drop((second, third, other));
        assert!(limit.running.lock().unwrap().is_empty());
        assert!(ConcurrencyLimit::new(0).enter(1).is_none());
    }
}
