//! The store of tokens of this program.

use core::time::Duration;
use std::env;
use std::path::{Path, PathBuf};

use mcp_auth::client::{Cancellation, FileStore, MemoryStore, StoreError, StoreLock, TokenStore};
use mcp_oauth::Secret;

use crate::failure::CommandFailure;
use crate::notes::print_note;

/// A [`FileStore`] whose warnings are printed, or memory if the user has no folder for data.
#[derive(Clone, Debug)]
pub(crate) enum ProbeStore {
    File(FileStore),
    Memory(MemoryStore),
}

impl ProbeStore {
    /// Opens the store that an option names, else `MCP_TOKEN_STORE`, else the default; else one in memory.
    pub(crate) fn open(named: Option<&Path>) -> Self {
        find(named).map_or_else(|| Self::Memory(MemoryStore::new()), |path| Self::File(FileStore::new(path)))
    }

    /// Opens the store for tokens that have to outlive this process.
    ///
    /// # Errors
    ///
    /// Fails if nothing names a file.
    pub(crate) fn for_tokens(named: Option<&Path>) -> Result<Self, CommandFailure> {
        match find(named) {
            Some(path) => Ok(Self::File(FileStore::new(path))),
            None => Err(CommandFailure::usage(
                "there is no folder for the data of this user: --token-store or MCP_TOKEN_STORE names a file",
            )),
        }
    }

    /// Prints the warnings of the file.
    fn noted<T>(&self, outcome: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Self::File(file) = self {
            for warning in file.take_warnings() {
                print_note(&warning.to_string());
            }
        }
        outcome
    }

    fn inner(&self) -> &dyn TokenStore {
        match self {
            Self::File(file) => file,
            Self::Memory(memory) => memory,
        }
    }
}

impl TokenStore for ProbeStore {
    fn load(&self, key: &str) -> Result<Option<Secret>, StoreError> {
        self.noted(self.inner().load(key))
    }

    fn save(&self, key: &str, text: &Secret) -> Result<(), StoreError> {
        self.noted(self.inner().save(key, text))
    }

    fn replace(&self, key: &str, old: Option<&Secret>, new: Option<&Secret>) -> Result<bool, StoreError> {
        self.noted(self.inner().replace(key, old, new))
    }

    fn remove(&self, key: &str) -> Result<(), StoreError> {
        self.noted(self.inner().remove(key))
    }

    fn lock(&self, key: &str, wait: Duration, cancellation: &Cancellation) -> Result<StoreLock, StoreError> {
        self.noted(self.inner().lock(key, wait, cancellation))
    }
}

/// Returns the file of the store; `None` if nothing names one.
pub(super) fn find(named: Option<&Path>) -> Option<PathBuf> {
    let variable = || env::var_os("MCP_TOKEN_STORE").filter(|path| !path.is_empty()).map(PathBuf::from);
    named.map(Path::to_path_buf).or_else(variable).or_else(FileStore::default_path)
}
