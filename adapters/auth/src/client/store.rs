//! Tokens and registrations that outlive a flow.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use mcp_oauth::Secret;
use ring::digest;
use serde::{Deserialize, Serialize};
use serde_json::error::Category;

use super::interaction::Cancellation;
use mcp_std::durable_file::{FileError, FileLock, beside, create_folder, replace_content};
use mcp_std::sync::lock;
use mcp_std::sync::{Budget, Ended};

#[cfg(test)]
mod tests;

/// A store of secret texts by key.
///
/// A flow chooses the keys and the texts. A store keeps each text whole: after a crash it has the old one or the new
/// one.
///
/// # Stores that processes share
///
/// Two operations see to it that a refresh token is used once, and that nobody loses the tokens of another process:
///
/// - [`replace`](Self::replace) is one step for all who share the store (compare and set): a transaction in a database, a
///   script in Redis. It compares whole texts.
/// - [`lock`](Self::lock) excludes all who share the store. Best is a lock of the operating system, which ends with its
///   process and not before. A *lease*, which ends by time, will do. It lasts for
///   [`Config::lock_timeout`](mcp_oauth::Config::lock_timeout) at least, the longest time from the lock to the write, and
///   dropping the lock leaves alone the lease of another holder. After a crash the others wait for its end. A process that
///   stands still for longer (a machine that sleeps) cannot overwrite what its successor has written, but may present a used
///   refresh token.
///
/// One loss no store can avoid: a process is killed after the authorization server has issued a new refresh token and before
/// it is stored. The next process presents the old one. If the server knows no grace for that, it answers `invalid_grant`,
/// and a user has to log in once.
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

    /// Replaces the text of a key if it is `old`, as one step, and returns whether it did. `None` is a key without a text.
    /// It is permanent once this returns.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it may or may not have been replaced. The texts of other keys are unchanged.
    fn replace(&self, key: &str, old: Option<&Secret>, new: Option<&Secret>) -> Result<bool, StoreError>;

    /// Removes the text of a key, if there is one.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it may not have been removed. The texts of other keys are unchanged.
    fn remove(&self, key: &str) -> Result<(), StoreError>;

    /// Waits up to `wait` for the exclusive lock of a key, and takes it.
    ///
    /// It excludes everyone who uses the same stored texts, in other processes too, and ends with this process, or a bounded
    /// time after it. It excludes nobody from the other methods. Whoever refreshes, replaces or removes tokens holds it from
    /// before the load to after the save, so that a refresh token is used once. A holder may be waiting for an
    /// authorization server, so `wait` is [`Config::lock_timeout`](mcp_oauth::Config::lock_timeout).
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
    fn io(path: &Path, operation: &'static str, error: io::Error) -> Self {
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

// A token store in the memory of this process.

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
        lock(&self.0)
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

    fn replace(&self, key: &str, old: Option<&Secret>, new: Option<&Secret>) -> Result<bool, StoreError> {
        let entries = &mut self.content().entries;
        let is_old = entries.get(key) == old;
        match new {
            _ if !is_old => {}
            Some(new) => drop(entries.insert(key.into(), new.clone())),
            None => drop(entries.remove(key)),
        }
        Ok(is_old)
    }

    fn remove(&self, key: &str) -> Result<(), StoreError> {
        self.content().entries.remove(key);
        Ok(())
    }

    fn lock(&self, key: &str, wait: Duration, cancellation: &Cancellation) -> Result<StoreLock, StoreError> {
        let taken = retry(&cancellation.within(wait), || {
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

// A token store in a file.

/// A [`TokenStore`] in one file, for all processes of a user.
///
/// The file is JSON: `{"version":1,"entries":{key: text}}`, at most 16 MiB. On Unix only its owner may read and write
/// it (mode 0600), and a folder that had to be created is closed to others (mode 0700). The texts are not encrypted.
///
/// A change replaces the file as a whole: it is written beside it, flushed to the disk, and renamed. A reader and a
/// crash therefore see the old content or the new one. A file that is not a store is an error and is never replaced. A
/// symbolic link is followed, and the file that it leads to is replaced.
///
/// Changes exclude each other by a lock on `PATH.lock`, for which they wait up to 10 s: nobody holds it for longer than
/// a change of the file takes. The lock of a key is on `PATH.HASH.lock`, and its holder may wait for an authorization
/// server, so it is waited for as long as the caller says ([`TokenStore::lock`]). These files stay, and are empty. The locks
/// are those of `flock(2)` on Unix, and exclusively opened files on Windows; they end with their process. Processes on
/// several machines need another store: not every network file system keeps these locks.
#[derive(Clone)]
pub struct FileStore {
    path: PathBuf,
    warnings: Arc<Mutex<Vec<StoreWarning>>>,
}

/// Something about a [`FileStore`] that its user should know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreWarning {
    /// Other users could read or write the file, and no longer can. Its tokens may be known to them.
    WasOpenToOthers {
        /// The file.
        path: PathBuf,
        /// The permissions that it had.
        mode: u32,
    },
}

impl FileStore {
    /// Creates a store in the file `path`, which is created when something is saved.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), warnings: Arc::default() }
    }

    /// Returns the usual place: `mcp-proto/tokens.json` in the folder for the data of this user.
    ///
    /// That folder is `$XDG_DATA_HOME` or `~/.local/share`; on macOS `~/Library/Application Support`; on Windows
    /// `%LOCALAPPDATA%`. Returns `None` if the variables that name it are not set to an absolute path.
    #[must_use]
    pub fn default_path() -> Option<PathBuf> {
        Some(data_folder(|name| std::env::var_os(name))?.join("mcp-proto").join("tokens.json"))
    }

    /// Returns the path that the store was created with.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the warnings since the last call, in order, at most 16; further and repeated ones are dropped. There are
    /// none on systems other than Unix.
    #[must_use]
    pub fn take_warnings(&self) -> Vec<StoreWarning> {
        core::mem::take(&mut lock(&self.warnings))
    }

    #[cfg(unix)]
    fn warn(&self, warning: StoreWarning) {
        let mut warnings = lock(&self.warnings);
        if warnings.len() < MAX_WARNINGS && !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// Reads the file at `path`; without a file there are no entries.
    fn read(&self, path: &Path) -> Result<Document, StoreError> {
        let damaged = |why: &str| StoreError::Damaged { path: path.into(), why: why.into() };
        // Looked at before it is opened: opening a pipe would wait for its other end.
        let found = match fs::metadata(path) {
            Ok(found) => found,
            Err(error) if NO_FILE.contains(&error.kind()) => return Ok(Document::new()),
            Err(error) => return Err(StoreError::io(path, "read", error)),
        };
        if !found.is_file() {
            return Err(damaged("is not a regular file"));
        }
        let file = File::open(path).map_err(|error| StoreError::io(path, "read", error))?;
        self.close_to_others(path, &file)?;
        let mut bytes = Vec::new();
        let read = file.take(MAX_STORE as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|error| StoreError::io(path, "read", error))?;
        if bytes.len() > MAX_STORE {
            return Err(damaged("is larger than 16 MiB"));
        }
        Document::parse(&bytes).map_err(|why| StoreError::Damaged { path: path.into(), why })
    }

    /// Repairs the permissions of a file that others may read or write (AUTH-064).
    #[cfg(unix)]
    fn close_to_others(&self, path: &Path, file: &File) -> Result<(), StoreError> {
        use std::os::unix::fs::PermissionsExt as _;
        let failed = |error| StoreError::io(path, "restrict the permissions of", error);
        let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            file.set_permissions(fs::Permissions::from_mode(0o600)).map_err(failed)?;
            self.warn(StoreWarning::WasOpenToOthers { path: path.into(), mode });
        }
        Ok(())
    }

    /// Does nothing: a file in the folder of a user inherits the access list of that folder.
    #[cfg(not(unix))]
    fn close_to_others(&self, _: &Path, _: &File) -> Result<(), StoreError> {
        Ok(())
    }

    /// Changes the entries under the lock of the file. `change` returns whether it has changed anything.
    fn update(&self, change: impl FnOnce(&mut Document) -> bool) -> Result<(), StoreError> {
        let path = self.prepare()?;
        let lock_path = beside(&path, "lock");
        let _lock = lock_file(&path, &lock_path, CHANGE_WAIT, &Cancellation::new())?;
        let mut document = self.read(&path)?;
        if !change(&mut document) {
            return Ok(());
        }
        let bytes = document.to_bytes().map_err(|error| StoreError::Other(error.into()))?;
        if bytes.len() > MAX_STORE {
            return Err(StoreError::TooLarge { path });
        }
        Ok(replace_content(&path, &[&bytes])?)
    }

    /// Creates the folder of the file and returns the path behind symbolic links.
    fn prepare(&self) -> Result<PathBuf, StoreError> {
        let path = follow_links(&self.path)?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            create_folder(folder)?;
        }
        Ok(path)
    }
}

impl TokenStore for FileStore {
    fn load(&self, key: &str) -> Result<Option<Secret>, StoreError> {
        let document = self.read(&follow_links(&self.path)?)?;
        Ok({ document }.entries.remove(key).map(Secret::from))
    }

    fn save(&self, key: &str, text: &Secret) -> Result<(), StoreError> {
        self.update(|document| {
            let new = text.expose();
            let old = document.entries.insert(key.into(), new.into());
            old.is_none_or(|old| old != new)
        })
    }

    fn replace(&self, key: &str, old: Option<&Secret>, new: Option<&Secret>) -> Result<bool, StoreError> {
        let mut is_old = false;
        self.update(|document| {
            let found = document.entries.get(key).map(String::as_str);
            is_old = found == old.map(Secret::expose);
            let is_change = is_old && found != new.map(Secret::expose);
            match new {
                Some(new) => drop(document.entries.insert(key.into(), new.expose().into())),
                None => drop(document.entries.remove(key)),
            }
            // Otherwise the document is dropped.
            is_change
        })?;
        Ok(is_old)
    }

    fn remove(&self, key: &str) -> Result<(), StoreError> {
        // Without this, forgetting what was never stored would create a folder.
        if self.load(key)?.is_none() {
            return Ok(());
        }
        self.update(|document| document.entries.remove(key).is_some())
    }

    fn lock(&self, key: &str, wait: Duration, cancellation: &Cancellation) -> Result<StoreLock, StoreError> {
        let path = self.prepare()?;
        let hash = digest::digest(&digest::SHA256, key.as_bytes());
        let hash = hash.as_ref().first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
        let lock_path = beside(&path, &format!("{hash:016x}.lock"));
        lock_file(&path, &lock_path, wait, cancellation).map(StoreLock::new)
    }
}

/// Waits for the lock on `lock_path`, which is a lock of the store at `path`.
fn lock_file(
    path: &Path,
    lock_path: &Path,
    wait: Duration,
    cancellation: &Cancellation,
) -> Result<FileLock, StoreError> {
    let attempt = || FileLock::try_new(lock_path).map_err(|error| StoreError::io(lock_path, "lock", error));
    let locked = || StoreError::Locked { path: Some(path.into()), wait };
    retry(&cancellation.within(wait), attempt)?.ok_or_else(locked)
}

/// Follows the symbolic links that a path ends in, also to a file that does not exist.
fn follow_links(path: &Path) -> Result<PathBuf, StoreError> {
    let mut real = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        // An error means that there is no link.
        let Ok(target) = fs::read_link(&real) else { return Ok(real) };
        real = real.parent().map_or_else(|| target.clone(), |folder| folder.join(&target));
    }
    let error = io::Error::other("it leads through too many symbolic links");
    Err(StoreError::io(path, "follow", error))
}

/// Returns the folder for the data of a user, from the environment.
fn data_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // A relative path would depend on the current folder, and the specification of XDG says to ignore it.
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if cfg!(windows) {
        absolute("LOCALAPPDATA")
    } else if cfg!(target_vendor = "apple") {
        Some(absolute("HOME")?.join("Library").join("Application Support"))
    } else {
        absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local").join("share")))
    }
}

impl fmt::Display for StoreWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::WasOpenToOthers { path, mode } = self;
        write!(
            f,
            "the token store {} was open to other users (mode {mode:04o}) and is now closed to them (0600)",
            path.display()
        )
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Why there is no file: a part of its path may be no folder, since `/dev/null` is the home of some accounts.
const NO_FILE: [ErrorKind; 2] = [ErrorKind::NotFound, ErrorKind::NotADirectory];

/// Time that a change waits for other changes.
const CHANGE_WAIT: Duration = Duration::from_secs(10);
/// Symbolic links that are followed, at most.
const MAX_LINKS: u32 = 40;
/// Warnings that are kept until they are taken.
#[cfg(unix)]
const MAX_WARNINGS: usize = 16;

// The content of the file of a store.

/// The entries, as `{"version":1,"entries":{…}}`.
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u64,
    entries: BTreeMap<String, String>,
}

/// The member that every version has.
#[derive(Deserialize)]
struct AnyVersion {
    version: u64,
}

impl Document {
    fn new() -> Self {
        Self { version: VERSION, entries: BTreeMap::new() }
    }

    /// Reads a document. The error says what is wrong and shows nothing of the content.
    fn parse(bytes: &[u8]) -> Result<Self, Box<str>> {
        if bytes.is_empty() {
            return Err("is empty".into());
        }
        let outcome = match serde_json::from_slice::<AnyVersion>(bytes) {
            Ok(AnyVersion { version }) if version != VERSION => {
                return Err(format!("has version {version}, and only version {VERSION} is known").into());
            }
            Ok(_) => serde_json::from_slice(bytes),
            Err(error) => Err(error),
        };
        // The text of the error may quote a value of the document.
        outcome.map_err(|error| {
            let what = match error.classify() {
                Category::Data => "does not have the members of a token store",
                Category::Io | Category::Syntax | Category::Eof => "is not JSON",
            };
            format!("{what} (line {}, column {})", error.line(), error.column()).into()
        })
    }

    fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }
}

/// The version that this program reads and writes.
const VERSION: u64 = 1;

#[cfg(test)]
mod document_tests {
    use super::*;

    #[test]
    fn document_has_the_documented_form() {
        let mut document = Document::new();
        document.entries.insert("k".into(), "a\"b".into());
        let bytes = document.to_bytes().unwrap();
        assert_eq!(bytes, br#"{"version":1,"entries":{"k":"a\"b"}}"#);
        assert_eq!(Document::parse(&bytes).ok().unwrap().entries, document.entries);
    }

    #[test]
    fn damaged_documents_are_described_without_their_content() {
        for (text, part) in [
            ("", "is empty"),
            ("hush", "is not JSON (line 1, column 1)"),
            ("{\"version\":1,\n\"entries\":{\"k\":\"hush", "is not JSON (line 2, column "),
            ("{\"version\":1,\"entries\":{}}hush", "is not JSON"),
            ("{\"version\":1,\"entries\":{\"k\":\"\u{1}hush\"}}", "is not JSON"),
            ("\"hush\"", "does not have the members"),
            ("{}", "does not have the members"),
            ("{\"version\":\"hush\",\"entries\":{}}", "does not have the members"),
            ("{\"version\":1}", "does not have the members"),
            ("{\"version\":1,\"entries\":\"hush\"}", "does not have the members"),
            ("{\"version\":1,\"entries\":{\"k\":[\"hush\"]}}", "does not have the members"),
            ("{\"version\":1,\"entries\":{},\"hush\":1}", "does not have the members"),
            ("{\"version\":2,\"hush\":1}", "has version 2, and only version 1 is known"),
        ] {
            let why = Document::parse(text.as_bytes()).err().unwrap();
            assert!(why.starts_with(part) && !why.contains("hush"), "{text}: {why}");
        }
    }
}

#[cfg(test)]
mod file_tests {
    use super::*;

    #[test]
    #[cfg(not(any(windows, target_vendor = "apple")))]
    fn data_folder_is_that_of_xdg_or_below_home() {
        let folder = |xdg: &str, home: &str| {
            data_folder(|name| match name {
                "XDG_DATA_HOME" => Some(xdg.into()),
                "HOME" => Some(home.into()),
                other => panic!("{other}"),
            })
        };
        assert_eq!(folder("/data", "/home/me"), Some("/data".into()));
        assert_eq!(folder("data", "/home/me"), Some("/home/me/.local/share".into()));
        assert_eq!(folder("", "me"), None);
        assert_eq!(data_folder(|_| None), None);
        let folder = data_folder(|name| std::env::var_os(name));
        assert_eq!(FileStore::default_path(), folder.map(|folder| folder.join("mcp-proto/tokens.json")));
    }
}
