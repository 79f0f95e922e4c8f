//! A token store in the memory of this process.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_proto::auth::Secret;

use super::{Budget, Cancellation, StoreError, StoreLock, TokenStore, retry};

/// A [`TokenStore`] in memory, which ends with the process. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    entries: BTreeMap<String, Secret>,
    locked: BTreeSet<String>,
}

/// A locked key.
struct Guard {
    store: MemoryStore,
    key: String,
}

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        // No change can be interrupted half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenStore for MemoryStore {
    fn load(&self, key: &str) -> Result<Option<Secret>, StoreError> {
        Ok(self.content().entries.get(key).cloned())
    }

    fn save(&self, key: &str, text: &Secret) -> Result<(), StoreError> {
        self.content().entries.insert(key.into(), text.clone());
        Ok(())
    }

    fn remove(&self, key: &str) -> Result<(), StoreError> {
        self.content().entries.remove(key);
        Ok(())
    }

    fn lock(&self, key: &str, wait: Duration, cancellation: &Cancellation) -> Result<StoreLock, StoreError> {
        let taken = retry(&Budget::new(wait, cancellation), || {
            let is_new = self.content().locked.insert(key.into());
            Ok(is_new.then(|| StoreLock::new(Guard { store: self.clone(), key: key.into() })))
        })?;
        taken.ok_or(StoreError::Locked { path: None, wait })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.store.content().locked.remove(&self.key);
    }
}

/// Shows the number of entries only; keys name servers, and texts are secret (SEC-019).
impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("entries", &self.content().entries.len()).finish_non_exhaustive()
    }
}
