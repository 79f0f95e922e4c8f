//! Token buckets in the store of sessions.

use alloc::sync::Arc;
use core::time::Duration;
use std::io;

use mcp_std::session_store::{SessionName, SessionStoreError, Swap};
use sha2::{Digest as _, Sha256};

use super::jobs::guard;
use super::seal::Purpose;
use super::{Place, Shared, SharedSessions};

/// Number of times that a bucket is stored again after a conflict.
const MAX_CONFLICTS: u32 = 16;
/// Shortest lifetime of a bucket in the store.
const MIN_LIFETIME: Duration = Duration::from_secs(1);

/// The buckets of a limit, which all processes change. A bucket is one number: the time at which it is full.
pub(crate) struct SharedBuckets {
    shared: Arc<Shared>,
    /// The digest of the secret and the name of the limit.
    prefix: Sha256,
}

impl SharedSessions {
    /// Returns the buckets of the limit with a name.
    pub(crate) fn buckets(&self, name: &str) -> io::Result<SharedBuckets> {
        let Place::Store(shared) = &self.0 else {
            let why = "a limit of several processes needs a store of sessions";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        };
        let prefix =
            Sha256::new().chain_update(b"mcp-proto rate limit").chain_update(shared.sealer.name_secret);
        Ok(SharedBuckets { shared: shared.clone(), prefix: prefix.chain_update(name) })
    }
}

impl SharedBuckets {
    /// Returns a secret for the hashes of keys, the same in all processes.
    pub(crate) fn key_secret(&self) -> [u64; 2] {
        let secret = <[u8; 32]>::from(self.prefix.clone().finalize());
        let word = |at: usize| {
            let bytes = secret.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        [word(0), word(8)]
    }

    /// Changes the bucket of a key, and returns it, or nothing if others have changed it each time. A bucket that is not there,
    /// or is not one, is 0. `change` returns the bucket, and the time until it is full: then it is as good as none.
    pub(crate) fn change(
        &self,
        key: u64,
        change: impl Fn(u64) -> (u64, Duration),
    ) -> Result<Option<u64>, SessionStoreError> {
        let name = SessionName(self.prefix.clone().chain_update(key.to_be_bytes()).finalize().into());
        let (store, sealer) = (&self.shared.store, &self.shared.sealer);
        let mut stored = guard(|| store.load(&name))?;
        for _ in 0..MAX_CONFLICTS {
            let opened = stored.as_ref().and_then(|stored| {
                let bucket = sealer.open(Purpose::Bucket(&name), &stored.record).ok()?;
                Some(u64::from_be_bytes(bucket.try_into().ok()?))
            });
            let (bucket, lifetime) = change(opened.unwrap_or_default());
            let sealed = sealer.seal(Purpose::Bucket(&name), &bucket.to_be_bytes())?;
            let expected = stored.map(|stored| stored.version);
            match self.shared.swap(&name, expected, &sealed, lifetime.max(MIN_LIFETIME))? {
                Swap::Stored(_) => return Ok(Some(bucket)),
                Swap::Conflict(other) => stored = other,
            }
        }
        Ok(None)
    }
}
