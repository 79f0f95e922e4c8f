//! What the application and the loops of a server share: the types, the streams and the webhooks, behind one lock.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use mcp_proto::router::SchemaValidator;
use mcp_proto::server::{Announcement, Caller};
use mcp_proto::{CallId, Change, Entropy, Era, Instant, RpcError, Version};
use mcp_runtime::server::CommandSender;
use mcp_std::catch;

use super::EVENTS_LIST;
use super::keeper::{Keeper, UnixClock};
use super::registration::Access;
use super::webhooks::{WebhookFailure, Webhooks};
use crate::source::{Lane, Source};
use crate::wire::{
    DeliveryMode, EventType, EventsError, ListEventsParams, ListEventsResult, Profile, SubscribeEventsResult,
};

/// The answer of `events/subscribe`.
pub(super) type Answer = Result<SubscribeEventsResult, RpcError>;

/// Chooses the profile of a caller.
pub(super) type FindProfile = Arc<dyn Fn(&Caller) -> Profile + Send + Sync>;

/// Hears of receivers that fail.
pub(super) type OnWebhookFailure = Arc<dyn Fn(&WebhookFailure) + Send + Sync>;

pub(super) struct Shared {
    /// What is declared, and the profile of callers who have none of their own.
    pub(super) profile: Profile,
    pub(super) clock: UnixClock,
    pub(super) state: Mutex<State>,
    /// Whether the deliverer of webhooks has events.
    pub(super) has_news: AtomicBool,
}

/// The state while it is locked. The events of the deliverer are taken when it is not any more.
pub(super) struct Locked<'a> {
    // Dropped first.
    state: MutexGuard<'a, State>,
    _after: AfterLock<'a>,
}

struct AfterLock<'a>(&'a Shared);

impl Drop for AfterLock<'_> {
    fn drop(&mut self) {
        self.0.take_news();
    }
}

impl Deref for Locked<'_> {
    type Target = State;
    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

pub(super) struct State {
    pub(super) find_profile: Option<FindProfile>,
    pub(super) source: Source,
    pub(super) types: BTreeMap<String, Registered>,
    /// Number of the last type that was added.
    pub(super) last_type: u64,
    pub(super) loops: BTreeMap<Lane, JoinedLoop>,
    pub(super) webhooks: Option<Box<Webhooks>>,
    pub(super) keeper: Option<Keeper>,
    pub(super) validator: Option<Arc<dyn SchemaValidator>>,
    pub(super) on_webhook_failure: Option<OnWebhookFailure>,
    /// Raised when access may have been lost: a check before that counts no more.
    pub(super) epoch: u64,
    /// The latest time of a loop.
    pub(super) now: Instant,
    pub(super) entropy: Entropy,
}

/// A type, as it was added last.
pub(super) struct Registered {
    /// Tells it from one that had this name before.
    pub(super) number: u64,
    pub(super) access: Arc<Access>,
}

/// A loop of the server, as the publishers see it.
pub(super) struct JoinedLoop {
    pub(super) commands: CommandSender,
    /// Whether it was woken, and has not looked since then.
    pub(super) is_woken: bool,
}

impl Shared {
    pub(super) fn new(profile: Profile, source: Source, entropy: Entropy, keeper: Option<Keeper>) -> Self {
        let state = State {
            find_profile: None,
            source,
            types: BTreeMap::new(),
            last_type: 0,
            loops: BTreeMap::new(),
            webhooks: None,
            keeper,
            validator: None,
            on_webhook_failure: None,
            epoch: 0,
            now: Instant::ZERO,
            entropy,
        };
        Self {
            profile,
            clock: UnixClock::start(),
            state: Mutex::new(state),
            has_news: AtomicBool::new(false),
        }
    }

    pub(super) fn lock(&self) -> Locked<'_> {
        let state = mcp_std::sync::lock(&self.state);
        Locked { state, _after: AfterLock(self) }
    }

    /// Locks the state, unless it is locked.
    pub(super) fn try_lock(&self) -> Option<Locked<'_>> {
        Some(Locked { state: self.try_state()?, _after: AfterLock(self) })
    }

    /// Locks the state without taking the events of the deliverer afterwards.
    fn try_state(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Changes something, and wakes the loops that have to send something for it.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State, Instant) -> T) -> T {
        let mut state = self.lock();
        let now = self.clock.now().max(state.now);
        let outcome = change(&mut state, now);
        let woken = state.wake();
        // A waker may run its loop at once, which locks.
        drop(state);
        wake_all(woken);
        outcome
    }

    /// Returns whether clients of a revision have the extension (EVT-008).
    pub(super) fn is_served(&self, version: Version) -> bool {
        version.era() == Era::Modern || self.profile.is_legacy_allowed
    }

    /// Returns the profile of a caller.
    pub(super) fn profile(&self, caller: &Caller) -> Profile {
        let find_profile = self.lock().find_profile.clone();
        find_profile.and_then(|find| catch(|| find(caller)).ok()).unwrap_or(self.profile)
    }

    /// Returns an answer for a call that has waited on a lane.
    pub(super) fn poll_answer(&self, lane: Lane) -> Option<(CallId, Answer)> {
        self.lock().webhooks.as_mut()?.poll_answer(lane)
    }

    /// Takes the events of the deliverer of webhooks, unless another thread has the lock: it does that then when it is done.
    pub(super) fn take_news(&self) {
        while self.has_news.load(Ordering::SeqCst) {
            let Some(mut state) = self.try_state() else { return };
            self.has_news.store(false, Ordering::SeqCst);
            let State { source, webhooks, .. } = &mut *state;
            let failures = webhooks.as_mut().map(|webhooks| webhooks.take_news(source)).unwrap_or_default();
            // Before the answers of calls that depend on it (EVT-084).
            state.keep_changes();
            let woken = state.wake();
            let on_failure = state.on_webhook_failure.clone();
            drop(state);
            wake_all(woken);
            for failure in failures {
                let _ = on_failure.as_ref().map(|on_failure| catch(|| on_failure(&failure)));
            }
        }
    }

    /// Announces that the list of types has changed (EVT-016).
    pub(super) fn announce_list(&self) {
        let loops: Vec<CommandSender> =
            self.lock().loops.values().map(|joined| joined.commands.clone()).collect();
        for commands in loops {
            // Each loop tells its own subscribers. One that has ended has none.
            let _ = commands.send_unbounded(|server_loop| {
                let now = server_loop.tick();
                server_loop.engine().publish(now, Announcement::new(Change::Custom(EVENTS_LIST)));
            });
        }
    }

    /// Finds what decides about a type that a caller may see.
    pub(super) fn access(&self, name: &str, caller: &Caller) -> Result<Arc<Access>, EventsError> {
        let access = self.lock().types.get(name).map(|known| known.access.clone());
        let access = access.ok_or(EventsError::EventNotFound)?;
        // To others, a type is as if it did not exist.
        access.check_visible(caller)?;
        Ok(access)
    }

    /// Answers `events/list`. Those who have no streams see neither their mode nor types that have no other.
    pub(super) fn list(
        &self,
        params: &ListEventsParams,
        caller: &Caller,
        version: Version,
    ) -> ListEventsResult {
        let all: Vec<_> =
            self.lock().types.iter().map(|(name, known)| (name.clone(), known.access.clone())).collect();
        // Without the lock, because functions of the application run.
        let visible: BTreeMap<String, bool> =
            all.into_iter().map(|(name, access)| (name, access.check_visible(caller).is_ok())).collect();
        let has = |mode: &DeliveryMode| has_streams(version) || *mode != DeliveryMode::Push;
        let is_visible = |described: &EventType| {
            visible.get(&described.name).copied().unwrap_or(false) && described.delivery.iter().any(has)
        };
        let mut page = self.lock().source.list(params.cursor.as_deref(), is_visible);
        page.events.iter_mut().for_each(|described| described.delivery.retain(has));
        page
    }
}

impl State {
    /// Notes that the loops are woken which have something to send, and returns how.
    fn wake(&mut self) -> Vec<CommandSender> {
        let Self { source, loops, webhooks, .. } = self;
        let has_work = |lane: Lane| {
            source.is_ready(lane) || webhooks.as_ref().is_some_and(|webhooks| webhooks.has_answers(lane))
        };
        let ready = loops.iter_mut().filter(|(lane, joined)| !joined.is_woken && has_work(**lane));
        ready
            .map(|(_, joined)| {
                joined.is_woken = true;
                joined.commands.clone()
            })
            .collect()
    }
}

fn wake_all(loops: Vec<CommandSender>) {
    for commands in loops {
        // A loop that has ended has nothing to send.
        let _ = commands.send_unbounded(|_| ());
    }
}

/// Returns whether clients of a revision have `events/stream`. In those with a handshake there is no way to tell the messages
/// of one stream from those of another (EVT-008).
pub(super) fn has_streams(version: Version) -> bool {
    version.era() == Era::Modern
}
