//! Sessions of a server that live in a store, so that several processes serve them.
//!
//! Each process keeps the sessions that it uses in memory, and stores what changes in them. A [`SessionStore`] has one
//! record for each session, and carries messages between the processes: that a session has changed, that a list has, and
//! what a client sent to one process and another one waits for.
//!
//! [`MemorySessionStore`] is for the servers of one process, [`FileSessionStore`] for the processes of one machine.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use std::io;
use std::path::PathBuf;

use crate::durable_file::FileError;

mod file;
#[cfg(test)]
mod file_tests;
mod memory;
mod message_log;

pub use file::FileSessionStore;
pub use memory::MemorySessionStore;

/// A store of sessions, which all processes of a server share.
///
/// A server calls it on threads of its own, several at a time. Each method returns within a time that the store bounds:
/// requests wait for it, and are answered with 503 when it fails.
///
/// Records and messages are sealed. A store reads neither, and need not trust who writes to it: a stored record that is not
/// its own is returned as it is, with version 0, and the server refuses it because its seal cannot be opened.
///
/// [`testing::session_store`](crate::testing::session_store) has tests that every store passes.
pub trait SessionStore: Send + Sync {
    /// Returns the record of a session, or `None` if there is none, or it has expired.
    ///
    /// # Errors
    ///
    /// [`SessionStoreError`] if the store cannot say.
    fn load(&self, session: &SessionName) -> Result<Option<StoredSession>, SessionStoreError>;

    /// Stores a record in the place of the one with the version `expected`, or of none.
    ///
    /// The record has a new version then, greater than each that the session had before, also in a record that was removed
    /// or has expired since. It expires after `lifetime` unless it is stored again or [touched](Self::touch). Of two callers
    /// that expect the same version, one succeeds.
    ///
    /// # Errors
    ///
    /// [`SessionStoreError`] if it may not have been stored.
    fn compare_and_set(
        &self,
        session: &SessionName,
        expected: Option<u64>,
        record: &[u8],
        lifetime: Duration,
    ) -> Result<Swap, SessionStoreError>;

    /// Lets the records of sessions expire after `lifetime` from now, as far as there are records.
    ///
    /// # Errors
    ///
    /// [`SessionStoreError`] if some may expire earlier.
    fn touch(&self, sessions: &[SessionName], lifetime: Duration) -> Result<(), SessionStoreError>;

    /// Removes the record of a session, if there is one.
    ///
    /// # Errors
    ///
    /// [`SessionStoreError`] if it may still be there.
    fn remove(&self, session: &SessionName) -> Result<(), SessionStoreError>;

    /// Returns a number that no other process has got from this store: the one after the last, from any one on.
    ///
    /// # Errors
    ///
    /// [`SessionStoreError`] if the store cannot say.
    fn join(&self) -> Result<u32, SessionStoreError>;

    /// Sends a message to all that [watch](Self::watch), also to watchers of the same process.
    ///
    /// A message may arrive twice if a connection was lost while it was sent.
    ///
    /// # Errors
    ///
    /// [`SessionStoreError`] if it may not have reached them.
    fn publish(&self, message: &[u8]) -> Result<(), SessionStoreError>;

    /// Passes all further messages to a receiver, in the order of each sender, until the watch is dropped.
    ///
    /// It returns once messages arrive. The receiver is called on a thread of the store, or on one that publishes; it does not
    /// block, and does not call the store. After the watch was dropped it gets at most the message that was under way. After
    /// a connection was lost the store makes it anew by itself, and says so by [`Watched::Gap`].
    ///
    /// # Errors
    ///
    /// [`SessionStoreError`] if messages cannot arrive.
    fn watch(&self, receiver: WatchReceiver) -> Result<Watch, SessionStoreError>;

    /// Returns whether a process that has [joined](Self::join) still [watches](Self::watch), or `None` if the store cannot tell.
    ///
    /// `process` is its number modulo [`PROCESSES`]; if several have it, the last one that joined is meant. A process that has
    /// ended watches no more; one whose connection to the store was lost does again once it has a new one.
    ///
    /// # Errors
    ///
    /// [`SessionStoreError`] if the store does not answer.
    fn is_watching(&self, process: u32) -> Result<Option<bool>, SessionStoreError> {
        _ = process;
        Ok(None)
    }
}

/// Number of processes that can share a store: those that live at the same time have numbers that differ modulo it.
pub const PROCESSES: u32 = 1024;

/// What receives the messages of a [watch](SessionStore::watch).
pub type WatchReceiver = Arc<dyn Fn(Watched<'_>) + Send + Sync>;

/// The name of a session in a store: a digest of its id, which tells nobody the id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionName(pub [u8; 32]);

impl SessionName {
    /// Returns the name as 64 hexadecimal digits, for keys and file names.
    #[must_use]
    pub fn to_hex(&self) -> String {
        use core::fmt::Write as _;
        let mut text = String::with_capacity(64);
        self.0.iter().for_each(|byte| _ = write!(text, "{byte:02x}"));
        text
    }
}

/// Shows the first digits alone.
impl fmt::Debug for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionName({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}

/// A stored session.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredSession {
    /// The version of the record.
    pub version: u64,
    /// The record.
    pub record: Vec<u8>,
}

/// Does not show the record.
impl fmt::Debug for StoredSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.record.len();
        f.debug_struct("StoredSession")
            .field("version", &self.version)
            .field("bytes", &bytes)
            .finish_non_exhaustive()
    }
}

/// The outcome of [`SessionStore::compare_and_set`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Swap {
    /// The record is stored, with this version.
    Stored(u64),
    /// Another one is there, or none although one was expected. Nothing was stored.
    Conflict(Option<StoredSession>),
}

/// What a [watch](SessionStore::watch) receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watched<'m> {
    /// A message.
    Message(&'m [u8]),
    /// Messages may have been missed until now.
    Gap,
}

/// A [watch](SessionStore::watch), which ends when this is dropped.
pub struct Watch(#[expect(dead_code, reason = "it is dropped")] Box<dyn Send + Sync>);

impl Watch {
    /// Creates a watch that ends when `guard` is dropped.
    #[must_use]
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// The reason why a [`SessionStore`] did not do what was asked. It shows neither ids nor records.
#[derive(Debug)]
#[non_exhaustive]
pub enum SessionStoreError {
    /// The operating system refused an operation on a file.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Operation that failed: `read`, `replace`, …
        operation: &'static str,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The record or message is larger than the store takes. Nothing was stored or sent.
    TooLarge {
        /// Bytes of the record or message.
        size: usize,
        /// Bytes that the store takes.
        max: usize,
    },
    /// The store has no room for the record.
    Full,
    /// The store did not answer in time.
    TimedOut,
    /// Another error of the store: it cannot be reached, or refuses the client.
    Other(Box<dyn core::error::Error + Send + Sync>),
}

impl From<FileError> for SessionStoreError {
    fn from(failed: FileError) -> Self {
        Self::Io { path: failed.path, operation: failed.operation, error: failed.error }
    }
}

impl fmt::Display for SessionStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, operation, error } => {
                write!(f, "cannot {operation} {}: {error}", path.display())
            }
            Self::TooLarge { size, max } => {
                write!(f, "a record or message of sessions has {size} bytes, and the store takes {max}")
            }
            Self::Full => f.write_str("the store of sessions has no room for the record"),
            Self::TimedOut => f.write_str("the store of sessions did not answer in time"),
            Self::Other(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SessionStoreError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            Self::Other(error) => error.source(),
            _ => None,
        }
    }
}

/// Longest lifetime of a record, of those that clocks represent: 100 years.
const MAX_LIFETIME: Duration = Duration::from_secs(100 * 365 * 86_400);
