//! A session store in a folder, for the processes of one machine.

use alloc::format;
use alloc::string::ToString as _;
use alloc::vec::Vec;
use core::time::Duration;
use core::{fmt, str};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::message_log::{MAX_MESSAGE, MessageLog};
use super::{
    MAX_LIFETIME, SessionName, SessionStore, SessionStoreError, StoredSession, Swap, Watch, WatchReceiver,
};
use crate::durable_file::{
    FileError, FileLock, beside, create_folder, read_up_to, remove, replace, replace_content, write_temporary,
};

/// A [`SessionStore`] in a folder, for the processes of one machine.
///
/// Each record is a file, which a change replaces as a whole: it is written beside it, flushed to the disk, and renamed, and
/// the folder is flushed. So a process that is killed at any time, a full disk and a power failure leave the old record or
/// the new one. The modification time of the file is the time at which the record expires, by the clock of the system.
/// Writers lock one of 16 files, by `flock(2)` on Unix and by an exclusively opened file on Windows; who waits for longer
/// than 2 s gets [`TimedOut`](SessionStoreError::TimedOut). Use a local file system. On Unix, files are for their owner only
/// (mode 0600), and so are folders that had to be created (mode 0700).
///
/// A change waits for the disk twice: 1.6 ms on ext4 where it was measured, and a load takes 4 µs, a message 6 µs.
///
/// Records and messages have up to 16 MiB. Files of expired records are removed when a store is opened and once in a minute
/// in which a session is stored for the first time; that looks at each file. Files that are not those of the store stay as
/// they are.
///
/// Messages are appended to a file in the folder `messages`, which is followed by another one at 8 MiB; two are kept. Each
/// watch has a thread that looks for messages 100 times per second, so they arrive after up to 10 ms. One that falls two
/// files behind gets a [`Gap`](super::Watched::Gap). An idle watch takes 0.3 % of a core.
/// Messages are not flushed to the disk, and do not outlive a power failure.
pub struct FileSessionStore {
    folder: PathBuf,
    messages: MessageLog,
    /// The last look for files of expired records.
    swept: Mutex<Instant>,
}

impl FileSessionStore {
    /// Opens the store in `folder`, which is created if it does not exist. Several processes may open it, and one several times.
    ///
    /// # Errors
    ///
    /// [`SessionStoreError::Io`]: the folder cannot be created or read.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, SessionStoreError> {
        let folder = folder.into();
        let messages = MessageLog::new(folder.join("messages"));
        create_folder(messages.folder())?;
        let store = Self { folder, messages, swept: Mutex::new(Instant::now()) };
        store.sweep()?;
        Ok(store)
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, session: &SessionName) -> PathBuf {
        self.folder.join(format!("{}.{ENDING}", session.to_hex()))
    }

    /// Locks a file, which keeps other processes and other threads out.
    fn lock(&self, path: &Path) -> Result<FileLock, SessionStoreError> {
        let begun = Instant::now();
        let mut pause = Duration::from_micros(50);
        loop {
            match FileLock::try_new(path) {
                Ok(Some(lock)) => return Ok(lock),
                Ok(None) if begun.elapsed() >= LOCK_WAIT => return Err(SessionStoreError::TimedOut),
                Ok(None) => thread::sleep(pause),
                Err(error) => return Err(FileError::new(path, "lock", error).into()),
            }
            pause = (2 * pause).min(Duration::from_millis(2));
        }
    }

    /// Returns the path of the lock of a record, by the start of the name of its file.
    fn lock_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("records-{}.lock", name.get(..1).unwrap_or_default()))
    }

    fn lock_record(&self, session: &SessionName) -> Result<FileLock, SessionStoreError> {
        self.lock(&self.lock_path(&session.to_hex()))
    }

    fn lock_messages(&self) -> Result<FileLock, SessionStoreError> {
        self.lock(&self.folder.join("messages.lock"))
    }

    /// Removes the files of expired records, and those of writers that were killed.
    fn sweep(&self) -> Result<(), FileError> {
        let entries = fs::read_dir(&self.folder)
            .map_err(|error| FileError::new(&self.folder, "read the folder", error))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| is_own(name)) else { continue };
            let is_expired =
                || entry.path().symlink_metadata().is_ok_and(|found| found.is_file() && has_expired(&found));
            if !is_expired() {
                continue;
            }
            // A writer has the lock while the file is a part of a change. The next sweep will remove what is left then.
            if let Ok(Some(_lock)) = FileLock::try_new(&self.lock_path(name)) {
                if is_expired() {
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
        Ok(())
    }

    fn sweep_sometimes(&self) -> Result<(), FileError> {
        {
            let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
            if swept.elapsed() < SWEEP_INTERVAL {
                return Ok(());
            }
            *swept = Instant::now();
        }
        self.sweep()
    }
}

impl SessionStore for FileSessionStore {
    fn load(&self, session: &SessionName) -> Result<Option<StoredSession>, SessionStoreError> {
        Ok(read_record(&self.path(session))?)
    }

    fn compare_and_set(
        &self,
        session: &SessionName,
        expected: Option<u64>,
        record: &[u8],
        lifetime: Duration,
    ) -> Result<Swap, SessionStoreError> {
        if record.len() > MAX_RECORD {
            return Err(SessionStoreError::TooLarge { size: record.len(), max: MAX_RECORD });
        }
        if expected.is_none() {
            self.sweep_sometimes()?;
        }
        let path = self.path(session);
        let _lock = self.lock_record(session)?;
        let stored = read_record(&path)?;
        if stored.as_ref().map(|stored| stored.version) != expected {
            return Ok(Swap::Conflict(stored));
        }
        let now = since_1970().as_micros();
        // After a session was removed its versions go on, as far as the clock does.
        let version = expected.unwrap_or(0).saturating_add(1).max(u64::try_from(now).unwrap_or(0));
        let temporary = write_temporary(&path, &[format!("{MAGIC} {version}\n").as_bytes(), record])?;
        set_expiry(&temporary, lifetime)?;
        replace(&path, &temporary)?;
        Ok(Swap::Stored(version))
    }

    fn touch(&self, sessions: &[SessionName], lifetime: Duration) -> Result<(), SessionStoreError> {
        for session in sessions {
            let path = self.path(session);
            match fs::symlink_metadata(&path) {
                // Without the lock: a file that a writer replaces now gets the lifetime of that writer.
                Ok(found) if found.is_file() && !has_expired(&found) => match set_expiry(&path, lifetime) {
                    Err(failed) if failed.error.kind() == ErrorKind::NotFound => {}
                    result => result?,
                },
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(FileError::new(&path, "read", error).into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn remove(&self, session: &SessionName) -> Result<(), SessionStoreError> {
        // A writer that has read the record would bring it back.
        let _lock = self.lock_record(session)?;
        Ok(remove(&self.path(session))?)
    }

    fn join(&self) -> Result<u32, SessionStoreError> {
        let path = self.folder.join("processes");
        let _lock = self.lock(&beside(&path, "lock"))?;
        let content = read_up_to(&path, 16)?.unwrap_or_default();
        let last: u32 = str::from_utf8(&content).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        // One after the other, from the time on: a number does not return after the file was lost.
        let number = match last {
            0 => u32::try_from(since_1970().as_secs()).unwrap_or(1),
            last => last.wrapping_add(1),
        };
        replace_content(&path, &[number.to_string().as_bytes()])?;
        Ok(number)
    }

    fn publish(&self, message: &[u8]) -> Result<(), SessionStoreError> {
        if message.len() > MAX_MESSAGE {
            return Err(SessionStoreError::TooLarge { size: message.len(), max: MAX_MESSAGE });
        }
        let _lock = self.lock_messages()?;
        Ok(self.messages.append(message)?)
    }

    fn watch(&self, receiver: WatchReceiver) -> Result<Watch, SessionStoreError> {
        let lock = self.lock_messages()?;
        let mut follower = self.messages.follow()?;
        drop(lock);
        // Dropping the sender is the end of the watch.
        let (guard, ended) = mpsc::channel::<()>();
        let run = move || {
            let is_ended = || matches!(ended.try_recv(), Err(mpsc::TryRecvError::Disconnected));
            while !is_ended() {
                // What cannot be read now is read the next time.
                let _ = follower.poll(&|watched| {
                    if !is_ended() {
                        receiver(watched);
                    }
                });
                let _ = ended.recv_timeout(POLL_INTERVAL);
            }
        };
        let started = thread::Builder::new().name("mcp-session-watch".into()).spawn(run);
        started.map_err(|error| FileError::new(&self.folder, "start a thread for", error))?;
        Ok(Watch::new(guard))
    }
}

impl fmt::Debug for FileSessionStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSessionStore").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// Reads a record. One that was not written by a store has version 0, and its whole file is the record.
fn read_record(path: &Path) -> Result<Option<StoredSession>, FileError> {
    let failed = |error| FileError::new(path, "read", error);
    // Looked at before it is opened: opening a pipe would wait for its other end.
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.is_file() => return Ok(Some(StoredSession { version: 0, record: Vec::new() })),
        Ok(_) => {}
    }
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    if has_expired(&file.metadata().map_err(failed)?) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(parse(&bytes).unwrap_or(StoredSession { version: 0, record: bytes })))
}

fn parse(bytes: &[u8]) -> Option<StoredSession> {
    let end = bytes.iter().take(MAX_HEADER).position(|byte| *byte == b'\n')?;
    let (line, rest) = bytes.split_at_checked(end)?;
    let version = str::from_utf8(line).ok()?.strip_prefix(MAGIC)?.strip_prefix(' ')?;
    // A greater one has no successor.
    let version = version.parse().ok().filter(|version| (1..u64::MAX).contains(version))?;
    let record = rest.get(1..).filter(|record| record.len() <= MAX_RECORD)?;
    Some(StoredSession { version, record: record.into() })
}

fn has_expired(found: &fs::Metadata) -> bool {
    // A system that has no modification times keeps records for ever.
    found.modified().is_ok_and(|expires| expires <= SystemTime::now())
}

fn set_expiry(path: &Path, lifetime: Duration) -> Result<(), FileError> {
    let set = || {
        let expires = SystemTime::now() + lifetime.min(MAX_LIFETIME);
        OpenOptions::new().write(true).open(path)?.set_modified(expires)
    };
    set().map_err(|error| FileError::new(path, "set the expiry of", error))
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns whether a file is that of a record, or the beginning of one.
fn is_own(name: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.split_once('.').is_some_and(|(hex, rest)| {
        hex.len() == 64 && hex.bytes().all(is_digit) && (rest == ENDING || rest == "session.tmp")
    })
}

const ENDING: &str = "session";
/// The beginning of a file: a word, and the version of the format.
const MAGIC: &str = "mcp-session 1";
/// Bytes of the line before a record, at most.
const MAX_HEADER: usize = 40;
/// Bytes of a record, at most: 16 MiB.
const MAX_RECORD: usize = 16 << 20;
/// Bytes of a file that are read: one more than a store writes.
const MAX_FILE: u64 = (MAX_RECORD + MAX_HEADER + 1) as u64;
/// Time after which a call gives up to wait for other writers.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// Time between two looks for messages.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
