//! Updates of a router while it serves: an immutable copy in use, and the changes that lead to the next one.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use std::sync::{Mutex, PoisonError};

use mcp_std::sync::lock;

use mcp_proto::Diagnostic;
#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
use mcp_proto::server::{Event, Notification};
use mcp_proto::tap::TapRecord;

use super::flavor::{About, Failed, StoredCode, Update};
use super::share::Shareable;
use super::{Flavor, Router, Sharing};

/// Updates of a router from inside its handlers.
///
/// Updates are applied when the handler that scheduled them has ended, before its answer is sent. This is also true if
/// the handler panics. If several handlers run at a time, the first one that ends applies all updates. Handlers that
/// still run keep the previous state of the router.
///
/// Updates of a [nested](super::Router::nest) router apply to the outer router, which contains its entries. An update
/// that panics is [reported](super::Router::on_failure), and the other updates are applied. Updates that an update
/// schedules are applied after the next call.
#[derive(Clone)]
pub struct RouterUpdates<F: Flavor>(pub(super) ChangeQueue<ScheduledUpdate<F>>);

/// Stored update of a router of the flavour `F`.
pub(super) type ScheduledUpdate<F> = StoredCode<F, Update<F>>;

impl<F: Flavor> fmt::Debug for RouterUpdates<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RouterUpdates").field(&self.0).finish()
    }
}

/// An immutable copy that is in use while the next one is prepared.
///
/// No lock is held while a copy is in use.
#[derive(Debug)]
pub(super) struct Snapshot<T>(Mutex<Arc<T>>);

impl<T> Snapshot<T> {
    /// Creates a cell with its first snapshot.
    pub(super) fn new(first: Arc<T>) -> Self {
        Self(Mutex::new(first))
    }

    /// Returns the current snapshot.
    pub(super) fn load(&self) -> Arc<T> {
        lock(&self.0).clone()
    }

    /// Replaces the current snapshot. Users of the previous one keep it.
    pub(super) fn store(&self, next: Arc<T>) {
        // The previous snapshot is dropped after the lock.
        let _previous = core::mem::replace(&mut *lock(&self.0), next);
    }

    /// Returns a mutable reference to the current snapshot. Copies it first if it is in use.
    pub(super) fn make_mut(&mut self) -> &mut T
    where
        T: Clone,
    {
        Arc::make_mut(self.0.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the current snapshot. Copies it if it is in use.
    pub(super) fn into_inner(self) -> T
    where
        T: Clone,
    {
        Arc::unwrap_or_clone(self.0.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A queue of changes for the next snapshot. Clones share the queue.
pub(super) struct ChangeQueue<C>(Arc<Mutex<ChangeQueueState<C>>>);

enum ChangeQueueState<C> {
    Queued(Vec<C>),
    /// Changes go to this queue instead.
    Forwarded(ChangeQueue<C>),
}

impl<C> Default for ChangeQueue<C> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(ChangeQueueState::Queued(Vec::new()))))
    }
}

impl<C> ChangeQueue<C> {
    /// Adds a change.
    pub(super) fn push(&self, change: C) {
        match &mut *lock(&self.0) {
            ChangeQueueState::Queued(changes) => changes.push(change),
            ChangeQueueState::Forwarded(outer) => outer.push(change),
        }
    }

    /// Returns whether there is nothing to take.
    pub(super) fn is_empty(&self) -> bool {
        !matches!(&*lock(&self.0), ChangeQueueState::Queued(changes) if !changes.is_empty())
    }

    /// Takes all changes. Returns none once the queue [forwards](Self::forward_to) them.
    pub(super) fn take(&self) -> Vec<C> {
        match &mut *lock(&self.0) {
            ChangeQueueState::Queued(changes) => core::mem::take(changes),
            ChangeQueueState::Forwarded(_) => Vec::new(),
        }
    }

    /// Moves all changes, and all later ones, to `outer`.
    pub(super) fn forward_to(&self, outer: &Self) {
        let mut state = lock(&self.0);
        if let ChangeQueueState::Queued(changes) =
            core::mem::replace(&mut *state, ChangeQueueState::Forwarded(outer.clone()))
        {
            changes.into_iter().for_each(|change| outer.push(change));
        }
    }
}

impl<C> Clone for ChangeQueue<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C> fmt::Debug for ChangeQueue<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*lock(&self.0) {
            ChangeQueueState::Queued(changes) => f.debug_tuple("ChangeQueue").field(&changes.len()).finish(),
            ChangeQueueState::Forwarded(outer) => outer.fmt(f),
        }
    }
}

impl<F: Flavor> RouterUpdates<F> {
    /// Schedules an update of the router.
    ///
    /// It runs once. On a router of [`Shared`](super::Shared) handlers it is `Send`.
    pub fn schedule<U: FnOnce(&mut Router<F>)>(&self, update: U)
    where
        Mutex<Option<U>>: Shareable<F::Sharing>,
    {
        self.0.push(Mutex::new(Some(update)).store::<Update<F>>(|update, router, ()| {
            let update = lock(update).take();
            update.into_iter().for_each(|update| update(router));
        }));
    }
}

// Callbacks of routers for what a server learns beside calls.

/// The callbacks that were set.
#[derive(Clone)]
pub(super) struct Observers<S: Sharing> {
    pub(super) on_interest: Option<S::Stored<About<Event>>>,
    pub(super) on_failure: Option<S::Stored<Failed>>,
    pub(super) on_notification: Option<S::Stored<About<Notification>>>,
    pub(super) on_diagnostic: Option<S::Stored<About<Diagnostic>>>,
    pub(super) on_tap: Option<S::Stored<About<TapRecord>>>,
    #[cfg(feature = "http")]
    pub(super) on_head: Option<S::Stored<About<HeadRecord>>>,
}

// Not derived: the marker itself is not `Default`.
impl<S: Sharing> Default for Observers<S> {
    fn default() -> Self {
        Self {
            on_interest: None,
            on_failure: None,
            on_notification: None,
            on_diagnostic: None,
            on_tap: None,
            #[cfg(feature = "http")]
            on_head: None,
        }
    }
}

impl<F: Flavor> Router<F> {
    /// Takes a notification that the engine does not handle; see [`Handler::notification`](crate::server::Handler::notification).
    pub fn handle_notification(&self, notification: &Notification) {
        if let Some(observer) = &self.state.load().observers.on_notification {
            observer(&mut (), notification);
        }
    }

    /// Takes a deviation of a client; see [`Handler::diagnostic`](crate::server::Handler::diagnostic).
    pub fn handle_diagnostic(&self, diagnostic: &Diagnostic) {
        if let Some(observer) = &self.state.load().observers.on_diagnostic {
            observer(&mut (), diagnostic);
        }
    }

    /// Takes a copy of a message; see [`Handler::tap`](crate::server::Handler::tap).
    pub fn handle_tap(&self, record: &TapRecord) {
        if let Some(observer) = &self.state.load().observers.on_tap {
            observer(&mut (), record);
        }
    }

    /// Takes the head of a request or response; see [`Handler::head`](crate::server::Handler::head).
    #[cfg(feature = "http")]
    pub fn handle_head(&self, record: &HeadRecord) {
        if let Some(observer) = &self.state.load().observers.on_head {
            observer(&mut (), record);
        }
    }
}
