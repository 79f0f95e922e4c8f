//! Tokens and registrations that outlive a flow.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::time::Duration;
use std::io;
use std::path::PathBuf;

use mcp_proto::auth::Secret;

use super::cancellation::{Budget, Cancellation, Ended};
use crate::durable_file::FileError;

mod document;
mod file;
mod memory;
#[cfg(test)]
mod tests;

pub use file::{FileStore, StoreWarning};
pub use memory::MemoryStore;

/// A store of secret texts by key.
///
/// A flow chooses the keys and the texts. A store keeps each text whole: after a crash it has the old one or the new
/// one.
pub trait TokenStore: Send + Sync {
    /// Returns the text of a key.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read. A key without a text is no error.
    fn load(&self, key: &str) -> Result<Option<Secret>, StoreError>;

    /// Sets the text of a key. It is permanent once this returns.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it may not have been stored. The texts of other keys are unchanged.
    fn save(&self, key: &str, text: &Secret) -> Result<(), StoreError>;

    /// Removes the text of a key, if there is one.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it may not have been removed. The texts of other keys are unchanged.
    fn remove(&self, key: &str) -> Result<(), StoreError>;

    /// Waits up to `wait` for the exclusive lock of a key, and takes it.
    ///
    /// It excludes everyone who uses the same stored texts, in other processes too, and ends with this process at the
    /// latest. It excludes nobody from the other methods. Whoever refreshes, replaces or removes tokens holds it from
    /// before the load to after the save, so that a refresh token is used once. A holder may be waiting for an
    /// authorization server, so `wait` is [`Config::lock_timeout`](mcp_proto::auth::Config::lock_timeout).
    ///
    /// # Errors
    ///
    /// - [`StoreError::Locked`]: another one still had it after `wait`.
    /// - [`StoreError::Cancelled`]: `cancellation` ended the wait.
    /// - Otherwise the error of the store.
    fn lock(&self, key: &str, wait: Duration, cancellation: &Cancellation) -> Result<StoreLock, StoreError>;
}

/// The exclusive lock of one key of a [`TokenStore`]; dropping it releases it.
#[must_use = "the lock is released when it is dropped"]
pub struct StoreLock {
    _guard: Box<dyn Send>,
}

impl StoreLock {
    /// Wraps a value whose destructor releases the lock.
    pub fn new(guard: impl Send + 'static) -> Self {
        Self { _guard: Box::new(guard) }
    }
}

impl fmt::Debug for StoreLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreLock").finish_non_exhaustive()
    }
}

/// The reason why a [`TokenStore`] did not do what was asked. It holds no stored text (SEC-019).
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The operating system refused an operation on a file.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Operation that failed: `read`, `replace`, …
        operation: &'static str,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The file is not a store. It was not changed.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, as the end of a sentence that begins with the path.
        why: Box<str>,
    },
    /// Another process or thread had the lock for the whole time.
    Locked {
        /// The file of the store; `None` for a store without one.
        path: Option<PathBuf>,
        /// The whole time.
        wait: Duration,
    },
    /// The [`Cancellation`] ended the wait for a lock.
    Cancelled,
    /// The texts are larger than the store takes. Nothing was changed.
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The error of a store of the application.
    Other(Box<dyn core::error::Error + Send + Sync>),
}

impl StoreError {
    fn io(path: &std::path::Path, operation: &'static str, error: io::Error) -> Self {
        Self::Io { path: path.into(), operation, error }
    }
}

impl From<FileError> for StoreError {
    fn from(failed: FileError) -> Self {
        Self::Io { path: failed.path, operation: failed.operation, error: failed.error }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, operation, error } => {
                write!(f, "cannot {operation} {}: {error}", path.display())
            }
            Self::Damaged { path, why } => write!(f, "the token store {} {why}", path.display()),
            Self::Locked { path, wait } => {
                let path = path.as_ref().map_or_else(String::new, |path| format!("{} ", path.display()));
                write!(f, "the token store {path}was locked by another process or thread for {wait:?}")
            }
            Self::Cancelled => f.write_str("the wait for the token store was cancelled"),
            Self::TooLarge { path } => {
                write!(f, "the token store {} would be larger than {MAX_STORE} bytes", path.display())
            }
            Self::Other(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            Self::Other(error) => error.source(),
            _ => None,
        }
    }
}

/// Calls `attempt` until it succeeds, up to the end of the budget; `None` if it did not.
fn retry<T>(
    budget: &Budget<'_>,
    mut attempt: impl FnMut() -> Result<Option<T>, StoreError>,
) -> Result<Option<T>, StoreError> {
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(value) = attempt()? {
            return Ok(Some(value));
        }
        match budget.next_wait() {
            Ok(longest) => std::thread::sleep(pause.min(longest)),
            Err(Ended::TimedOut) => return Ok(None),
            Err(Ended::Cancelled) => return Err(StoreError::Cancelled),
        }
        pause = pause.saturating_mul(2);
    }
}

/// Bytes of the file of a store, at most.
const MAX_STORE: usize = 16 << 20;
