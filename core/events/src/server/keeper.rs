//! What keeps logs and subscriptions over a restart: the interface of stores, one in memory, and the use of one by the events.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;
use core::time::Duration;
use std::io;
use std::sync::Mutex;
use std::time::SystemTime;

use mcp_proto::Instant;
use mcp_proto::server::{Authorization, Caller, Identity};
use mcp_std::Clock;

use super::shared::{Shared, State};
use super::webhooks::Restored;
use crate::source::Source;
use crate::store::{Record, Snapshot, StoredSubscription};
use crate::webhook::SubscriptionKey;
use crate::wire::EventsError;

/// Where records outlive a restart. One server at a time uses it.
///
/// Its functions are called one at a time, while the events of the server wait.
pub trait EventStore: Send + Sync {
    /// Returns all records, in their order.
    ///
    /// # Errors
    ///
    /// They cannot be read, or are none.
    fn load(&self) -> io::Result<Vec<Record>>;

    /// Adds records behind the others. Those that are [promises](Record::is_promise) outlive a power failure when it returns.
    ///
    /// # Errors
    ///
    /// They could not be written; none of them counts then.
    fn append(&self, records: &[Record]) -> io::Result<()>;

    /// Returns whether most of what is stored is of no use any more, so that [`replace`](Self::replace) would make it small.
    fn wants_snapshot(&self) -> bool;

    /// Replaces all records by those of a snapshot.
    ///
    /// # Errors
    ///
    /// They could not be written; the records are those of before then.
    fn replace(&self, records: &[Record]) -> io::Result<()>;
}

/// A store in memory, for tests: clones share it, so events that are created with one after others go on where these were.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(Arc<Mutex<Records>>);

#[derive(Debug, Default)]
struct Records {
    all: Vec<Record>,
    /// Number of those of the last snapshot.
    live: usize,
}

impl MemoryStore {
    /// Creates a store without records.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn with<R>(&self, f: impl FnOnce(&mut Records) -> R) -> R {
        f(&mut mcp_std::sync::lock(&self.0))
    }
}

impl EventStore for MemoryStore {
    fn load(&self) -> io::Result<Vec<Record>> {
        Ok(self.with(|records| records.all.clone()))
    }

    fn append(&self, records: &[Record]) -> io::Result<()> {
        self.with(|stored| stored.all.extend_from_slice(records));
        Ok(())
    }

    fn wants_snapshot(&self) -> bool {
        self.with(|records| records.all.len() > 2 * records.live + 1_024)
    }

    fn replace(&self, records: &[Record]) -> io::Result<()> {
        self.with(|stored| *stored = Records { all: records.into(), live: records.len() });
        Ok(())
    }
}

/// A monotonic clock whose instants are microseconds since 1970, so that they go on over a restart.
#[derive(Clone, Copy)]
pub(super) struct UnixClock {
    clock: Clock,
    began: Duration,
}

impl UnixClock {
    pub(super) fn start() -> Self {
        let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { clock: Clock::start(), began }
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now() + self.began
    }
}

/// The store of the events of a server, and what it had that is not in use yet.
pub(super) struct Keeper {
    store: Box<dyn EventStore>,
    /// Subscriptions whose types were not added yet, or for which there are no webhooks yet, by their ids.
    stored: BTreeMap<String, StoredSubscription>,
    /// Whether the store may miss a change: it is replaced as soon as it takes something.
    is_behind: bool,
    on_error: Box<dyn Fn(&io::Error) + Send>,
}

impl Keeper {
    /// Reads a store. Its logs wait in the source.
    ///
    /// # Errors
    ///
    /// That of the store.
    pub(super) fn load(store: Box<dyn EventStore>, source: &mut Source) -> io::Result<Self> {
        let snapshot: Snapshot = store.load()?.into_iter().collect();
        let mut stored = source.restore(snapshot);
        let now = UnixClock::start().began.as_secs();
        stored.retain(|_, stored| stored.expires_at.is_none_or(|at| at > now));
        let on_error = Box::new(|error: &io::Error| std::eprintln!("events: the store: {error}"));
        Ok(Self { store, stored, is_behind: false, on_error })
    }

    pub(super) fn on_error(&mut self, on_error: impl Fn(&io::Error) + Send + 'static) {
        self.on_error = Box::new(on_error);
    }
}

impl State {
    /// Writes records to the store, if there is one.
    ///
    /// # Errors
    ///
    /// That of the store; it has none of them.
    pub(super) fn store(&mut self, records: &[Record]) -> io::Result<()> {
        let Self { source, webhooks, keeper: Some(keeper), .. } = self else { return Ok(()) };
        if records.is_empty() {
            return Ok(());
        }
        // First, because it is cheap: a store that is full is not asked for more.
        let stored = keeper.store.append(records);
        if stored.is_ok() && (keeper.is_behind || keeper.store.wants_snapshot()) {
            let waiting = keeper.stored.values().map(|stored| Record::Subscription(stored.clone().into()));
            let of_webhooks = match webhooks {
                Some(webhooks) => webhooks.records(source),
                None => Some(Vec::new()),
            };
            // Without those of the deliverer, the store would lose them.
            let Some(of_webhooks) = of_webhooks else { return stored };
            let all = source.records().chain(waiting).chain(of_webhooks);
            // What is not published yet is not among them; what is there twice counts once.
            let all: Vec<Record> = all.chain(records.iter().cloned()).collect();
            let replaced = keeper.store.replace(&all);
            keeper.is_behind &= replaced.is_err();
            if let Err(error) = replaced {
                (keeper.on_error)(&error);
            }
        }
        keeper.is_behind |= stored.is_err();
        stored
    }

    /// Writes a change that has happened. If that fails, it is written with the next one.
    pub(super) fn keep(&mut self, records: impl IntoIterator<Item = Record>) {
        let records: Vec<Record> = records.into_iter().collect();
        if let (Err(error), Some(keeper)) = (self.store(&records), &self.keeper) {
            (keeper.on_error)(&error);
        }
    }

    /// Writes what has changed in the deliveries.
    pub(super) fn keep_changes(&mut self) {
        if self.keeper.is_some() {
            let changes = self.webhooks.as_ref().map(|webhooks| webhooks.changes()).unwrap_or_default();
            self.keep(changes);
        }
    }

    /// Forgets a subscription that waits for its type. Returns whether there was one.
    pub(super) fn forget_stored(&mut self, key: &SubscriptionKey) -> bool {
        let id = key.id();
        let found = self.keeper.as_mut().and_then(|keeper| keeper.stored.remove(&id));
        self.keep(found.as_ref().map(|_| Record::SubscriptionEnded { id }));
        found.is_some()
    }

    /// Ends the subscription of a call that was refused, if its principal may not have it any more (EVT-162). One that waits for
    /// a type that is not there goes on waiting.
    pub(super) fn end_refused(&mut self, key: &SubscriptionKey, error: &EventsError) {
        let is_lost = matches!(error, EventsError::Forbidden(_) | EventsError::EventNotFound);
        if !is_lost || !self.types.contains_key(key.name()) {
            return;
        }
        let id = key.id();
        self.end_stored(&|other, _| (other == id).then(|| error.clone()));
        if let Some(webhooks) = &mut self.webhooks {
            webhooks.end(key, error);
        }
        self.keep_changes();
    }

    /// Ends the subscriptions that are not in use yet and for which `reason`, called with their ids, returns one. Returns their
    /// number.
    pub(super) fn end_stored(
        &mut self,
        reason: &dyn Fn(&str, &StoredSubscription) -> Option<EventsError>,
    ) -> usize {
        let Self { source, webhooks, keeper: Some(keeper), .. } = self else { return 0 };
        let ended: Vec<(String, EventsError)> =
            keeper.stored.iter().filter_map(|(id, stored)| Some((id.clone(), reason(id, stored)?))).collect();
        let mut records = Vec::new();
        for (id, error) in &ended {
            // Its end is delivered, and stored as that of others is.
            let is_told = match (webhooks.as_mut(), keeper.stored.remove(id)) {
                (Some(webhooks), Some(stored)) => {
                    webhooks.restore(source, &stored, Err(error.clone())) == Restored::Taken
                }
                _ => false,
            };
            records.extend((!is_told).then(|| Record::SubscriptionEnded { id: id.clone() }));
        }
        self.keep(records);
        ended.len()
    }
}

impl Shared {
    /// Lets the subscriptions of the store go on whose types are there, if there are webhooks. Those about which the application
    /// cannot decide now go on waiting.
    pub(super) fn restore_subscriptions(&self) {
        let mut last = String::new();
        loop {
            let state = self.lock();
            let epoch = state.epoch;
            let State { types, webhooks: Some(_), keeper: Some(keeper), .. } = &*state else { return };
            let behind = (Bound::Excluded(&*last), Bound::Unbounded);
            let found = keeper.stored.range::<str, _>(behind).find_map(|(id, stored)| {
                let access = types.get(&stored.name).map(|known| known.access.clone());
                (access.is_some() || stored.terminated.is_some())
                    .then(|| (id.clone(), stored.clone(), access))
            });
            let Some((id, stored, access)) = found else { return };
            drop(state);
            // Without the lock, because functions of the application run.
            let identity = Identity::new(&*stored.principal).scopes(&stored.scopes);
            let caller = Caller::from(Authorization::new(identity));
            let filter = access.ok_or(EventsError::EventNotFound).and_then(|access| {
                access.check_visible(&caller)?;
                access.accept(&stored.arguments, &caller)
            });
            let mut state = self.lock();
            if state.epoch != epoch {
                // Access may have been lost while the application decided (EVT-162): it decides again.
                continue;
            }
            if stored.terminated.is_none() && matches!(filter, Err(EventsError::Internal(_))) {
                // Nothing was decided about access (EVT-162): it waits for the next time, or for its refresh.
                last = id;
                continue;
            }
            let State { source, webhooks: Some(webhooks), keeper: Some(keeper), .. } = &mut *state else {
                return;
            };
            // It may have ended meanwhile.
            if keeper.stored.contains_key(&id) {
                let restored = webhooks.restore(source, &stored, filter);
                if restored != Restored::Later {
                    keeper.stored.remove(&id);
                }
                if restored == Restored::Refused {
                    state.keep([Record::SubscriptionEnded { id: id.clone() }]);
                }
            }
            last = id;
        }
    }
}
