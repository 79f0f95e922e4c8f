//! A session store in memory.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::{
    MAX_LIFETIME, SessionName, SessionStore, SessionStoreError, StoredSession, Swap, Watch, WatchReceiver,
    Watched,
};

/// A [`SessionStore`] in memory, for the servers of one process.
///
/// Clones are the same store. By default it takes 100,000 sessions whose records have 256 MiB together. Beyond that a record
/// is refused as [`Full`](SessionStoreError::Full); those that have expired make room.
#[derive(Clone)]
pub struct MemorySessionStore(Arc<Shared>);

struct Shared {
    max_sessions: usize,
    max_bytes: usize,
    sessions: Mutex<Sessions>,
    processes: AtomicU32,
    receivers: Mutex<Receivers>,
}

/// The records. Each has its entry in `expiries`, and the lengths of all are `bytes`.
#[derive(Default)]
struct Sessions {
    records: BTreeMap<SessionName, Record>,
    expiries: BTreeSet<(Instant, SessionName)>,
    bytes: usize,
    last_version: u64,
}

struct Record {
    stored: StoredSession,
    expires: Instant,
}

/// The receivers, in the order in which they came.
#[derive(Default)]
struct Receivers {
    by_number: BTreeMap<u64, WatchReceiver>,
    next: u64,
}

/// Removes its receiver when it is dropped.
struct Registration {
    shared: Arc<Shared>,
    number: u64,
}

impl MemorySessionStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::with_bounds(100_000, 256 << 20)
    }

    /// Creates an empty store for at most `max_sessions`, whose records have at most `max_bytes` together.
    #[must_use]
    pub fn with_bounds(max_sessions: usize, max_bytes: usize) -> Self {
        Self(Arc::new(Shared {
            max_sessions,
            max_bytes,
            sessions: Mutex::default(),
            processes: AtomicU32::new(0),
            receivers: Mutex::default(),
        }))
    }

    /// Returns the records, without those that have expired.
    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        // No method panics while it has the lock.
        let mut sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        while let Some(&(_, name)) = sessions.expiries.first().filter(|(expires, _)| *expires <= now) {
            sessions.remove(&name);
        }
        sessions
    }
}

impl Default for MemorySessionStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Sessions {
    fn remove(&mut self, name: &SessionName) {
        if let Some(record) = self.records.remove(name) {
            self.expiries.remove(&(record.expires, *name));
            self.bytes -= record.stored.record.len();
        }
    }
}

impl SessionStore for MemorySessionStore {
    fn load(&self, session: &SessionName) -> Result<Option<StoredSession>, SessionStoreError> {
        Ok(self.sessions().records.get(session).map(|record| record.stored.clone()))
    }

    fn compare_and_set(
        &self,
        session: &SessionName,
        expected: Option<u64>,
        record: &[u8],
        lifetime: Duration,
    ) -> Result<Swap, SessionStoreError> {
        if record.len() > self.0.max_bytes {
            return Err(SessionStoreError::TooLarge { size: record.len(), max: self.0.max_bytes });
        }
        let mut sessions = self.sessions();
        let stored = sessions.records.get(session).map(|record| &record.stored);
        if stored.map(|stored| stored.version) != expected {
            return Ok(Swap::Conflict(stored.cloned()));
        }
        let (old_sessions, old_bytes) = stored.map_or((0, 0), |stored| (1, stored.record.len()));
        let bytes = sessions.bytes - old_bytes + record.len();
        if sessions.records.len() - old_sessions >= self.0.max_sessions || bytes > self.0.max_bytes {
            return Err(SessionStoreError::Full);
        }
        sessions.remove(session);
        sessions.last_version += 1;
        let version = sessions.last_version;
        let stored = StoredSession { version, record: record.into() };
        let expires = instant_after(lifetime);
        sessions.records.insert(*session, Record { stored, expires });
        sessions.expiries.insert((expires, *session));
        sessions.bytes = bytes;
        Ok(Swap::Stored(version))
    }

    fn touch(&self, names: &[SessionName], lifetime: Duration) -> Result<(), SessionStoreError> {
        let mut sessions = self.sessions();
        let Sessions { records, expiries, .. } = &mut *sessions;
        let expires = instant_after(lifetime);
        for name in names {
            if let Some(record) = records.get_mut(name) {
                expiries.remove(&(record.expires, *name));
                record.expires = expires;
                expiries.insert((expires, *name));
            }
        }
        Ok(())
    }

    fn remove(&self, session: &SessionName) -> Result<(), SessionStoreError> {
        self.sessions().remove(session);
        Ok(())
    }

    fn join(&self) -> Result<u32, SessionStoreError> {
        Ok(self.0.processes.fetch_add(1, Ordering::Relaxed))
    }

    fn publish(&self, message: &[u8]) -> Result<(), SessionStoreError> {
        let registered = self.0.receivers.lock().unwrap_or_else(PoisonError::into_inner);
        let receivers: Vec<_> = registered.by_number.values().cloned().collect();
        // One of them may drop its watch.
        drop(registered);
        receivers.iter().for_each(|receiver| receiver(Watched::Message(message)));
        Ok(())
    }

    fn watch(&self, receiver: WatchReceiver) -> Result<Watch, SessionStoreError> {
        let mut receivers = self.0.receivers.lock().unwrap_or_else(PoisonError::into_inner);
        let number = receivers.next;
        receivers.next += 1;
        receivers.by_number.insert(number, receiver);
        Ok(Watch::new(Registration { shared: self.0.clone(), number }))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut receivers = self.shared.receivers.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = receivers.by_number.remove(&self.number);
        drop(receivers);
        // What it holds may have a watch, too.
        drop(receiver);
    }
}

impl fmt::Debug for MemorySessionStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySessionStore")
            .field("max_sessions", &self.0.max_sessions)
            .field("max_bytes", &self.0.max_bytes)
            .finish_non_exhaustive()
    }
}

/// Returns the time after `lifetime`, or after 100 years if that is earlier.
fn instant_after(lifetime: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(lifetime.min(MAX_LIFETIME)).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::session_store::Store;

    impl Store for MemorySessionStore {
        fn create() -> Option<Self> {
            Some(Self::new())
        }

        fn open(&self) -> Arc<dyn SessionStore> {
            Arc::new(self.clone())
        }

        fn damage(&self, _: &SessionName) -> bool {
            false
        }
    }

    crate::session_store_tests!(MemorySessionStore);

    fn name(number: u8) -> SessionName {
        SessionName([number; 32])
    }

    fn set(
        store: &MemorySessionStore,
        number: u8,
        record: &[u8],
        lifetime: Duration,
    ) -> Result<u64, SessionStoreError> {
        let stored = store.load(&name(number))?;
        match store.compare_and_set(&name(number), stored.map(|stored| stored.version), record, lifetime)? {
            Swap::Stored(version) => Ok(version),
            Swap::Conflict(_) => panic!("nobody else writes"),
        }
    }

    #[test]
    fn full_store_refuses_more_until_something_is_removed_or_expires() {
        const LONG: Duration = Duration::from_secs(600);
        let store = MemorySessionStore::with_bounds(2, 100);
        set(&store, 1, &[0; 60], LONG).unwrap();
        set(&store, 2, &[0; 40], LONG).unwrap();
        assert!(matches!(set(&store, 3, b"", LONG), Err(SessionStoreError::Full)));
        assert!(matches!(set(&store, 1, &[0; 61], LONG), Err(SessionStoreError::Full)));
        let refused = set(&store, 1, &[0; 101], LONG).unwrap_err();
        assert!(matches!(refused, SessionStoreError::TooLarge { size: 101, max: 100 }));
        assert_eq!(store.load(&name(1)).unwrap().unwrap().record, [0; 60]);
        set(&store, 1, &[0; 50], LONG).unwrap();
        set(&store, 2, &[0; 50], LONG).unwrap();
        store.remove(&name(2)).unwrap();
        set(&store, 3, &[0; 50], Duration::ZERO).unwrap();
        // It has expired at once, and leaves its place and its bytes.
        set(&store, 4, &[0; 50], LONG).unwrap();
        let sessions = store.sessions();
        assert_eq!((sessions.records.len(), sessions.expiries.len(), sessions.bytes), (2, 2, 100));
    }

    #[test]
    fn debug_output_shows_no_record() {
        let store = MemorySessionStore::new();
        set(&store, 1, b"secret", Duration::from_secs(9)).unwrap();
        let shown = alloc::format!("{store:?} {:?} {:?}", store.load(&name(1)), name(0xab));
        assert!(
            !shown.contains("secret") && !shown.contains("115, 101") && shown.contains("(abab…)"),
            "{shown}"
        );
    }
}
