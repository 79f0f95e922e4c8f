//! A store in one file.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use mcp_std::durable_file::{FileLock, beside, replace_content};

use super::keeper::EventStore;
use crate::store::Record;

/// First line of a file: its format.
const HEADER: &str = r#"{"mcp-events":1}"#;
/// Bytes from which on a file is worth a snapshot.
const MIN_SNAPSHOT: u64 = 1 << 20;

/// An [`EventStore`] in one file: lines of JSON, to which each change is added.
///
/// **The file has the secrets of all subscriptions**, their arguments, and the events. It is not encrypted. On Unix it is for its
/// owner only (mode 0600), also if it was there with another mode. Use a local file system, and a folder that others cannot
/// write to.
///
/// The file belongs to one server at a time: `PATH.lock` is locked while the store exists, by `flock(2)` on Unix and by an
/// exclusively opened file on Windows.
///
/// Every record is written before the call that it belongs to is answered, so the end of the process loses none. Those of calls
/// are flushed to the disk, too, and outlive a power failure: grants, and events unless [`flush_events`](Self::flush_events) is
/// off. When the file is twice as large as what is still of use, and a mebibyte, it is replaced as a whole: written beside it
/// as `PATH.tmp`, flushed, and renamed.
///
/// What a write that fails leaves is removed before anything else is written; as long as that fails, too, everything is refused.
/// A last line without an end was being written when the machine or the process ended, and is dropped. Any other line that is no
/// record is refused, because what follows from it is unknown: remove the file to begin without state, or repair it.
pub struct FileStore {
    path: PathBuf,
    state: Mutex<State>,
    flushes_events: bool,
    max_bytes: u64,
    _lock: FileLock,
}

struct State {
    /// `None` from a replacement of the file on, until it is used again.
    file: Option<File>,
    /// Bytes of the file, all in whole lines.
    size: u64,
    /// Whether something of a write that failed may be behind them.
    is_torn: bool,
    /// Bytes of the file at the last snapshot; 0 if there was none since the file was opened.
    live: u64,
    /// The records that were read when it was opened, until they are taken or not all any more.
    loaded: Option<Vec<Record>>,
}

/// Reason why a file is no store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileStoreError {
    /// Another store has the file.
    #[error("the event store {} is in use by another server", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refused an operation.
    #[error("cannot {operation} the event store {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was refused: `open`, `lock`, `read`.
        operation: &'static str,
        /// The error of the operating system.
        error: io::Error,
    },
    /// A line is no record of this version.
    #[error("line {line} of the event store {} is damaged, or of another version: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The file is larger than is allowed.
    #[error("the event store {} has {bytes} bytes, more than the {max} that are allowed", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The limit.
        max: u64,
    },
}

impl From<FileStoreError> for io::Error {
    fn from(error: FileStoreError) -> Self {
        let kind = match &error {
            FileStoreError::InUse { .. } => ErrorKind::WouldBlock,
            FileStoreError::Io { error, .. } => error.kind(),
            FileStoreError::Damaged { .. } => ErrorKind::InvalidData,
            FileStoreError::TooLarge { .. } => ErrorKind::StorageFull,
        };
        Self::new(kind, error)
    }
}

impl FileStore {
    /// Size of the largest file, in bytes: 1 GiB.
    pub const MAX_BYTES: u64 = 1 << 30;

    /// Opens the store in a file, which is created if it does not exist. Its folder has to exist.
    ///
    /// # Errors
    ///
    /// [`FileStoreError`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, FileStoreError> {
        let path = path.into();
        let failed = |operation| {
            let path = path.clone();
            move |error| FileStoreError::Io { path, operation, error }
        };
        let lock = FileLock::try_new(&beside(&path, "lock")).map_err(failed("lock"))?;
        let Some(lock) = lock else { return Err(FileStoreError::InUse { path }) };
        let file = open(&path).map_err(failed("open"))?;
        let mut state = State { file: Some(file), size: 0, is_torn: false, live: 0, loaded: None };
        state.loaded = Some(state.read(&path, Self::MAX_BYTES)?);
        let state = Mutex::new(state);
        Ok(Self { path, state, flushes_events: true, max_bytes: Self::MAX_BYTES, _lock: lock })
    }

    /// Sets whether each event is flushed to the disk before it is published (default yes). If not, a power failure loses the
    /// latest ones, and readers that have seen them are told that something is missing; the end of the process loses none in
    /// either case.
    #[must_use]
    pub const fn flush_events(mut self, flushes_events: bool) -> Self {
        self.flushes_events = flushes_events;
        self
    }

    /// Sets the size of the largest file (default [`MAX_BYTES`](Self::MAX_BYTES)): what would make it larger is refused. A file
    /// that is there is read up to the default.
    #[must_use]
    pub const fn max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        mcp_std::sync::lock(&self.state)
    }

    fn must_flush(&self, record: &Record) -> bool {
        record.is_promise()
            && (self.flushes_events || !matches!(record, Record::Event { .. } | Record::Gap { .. }))
    }

    fn check_size(&self, bytes: u64) -> io::Result<()> {
        if bytes > self.max_bytes {
            return Err(
                FileStoreError::TooLarge { path: self.path.clone(), bytes, max: self.max_bytes }.into()
            );
        }
        Ok(())
    }
}

/// Opens or creates a file that only its owner can read.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(file)
}

impl State {
    fn file(&mut self, path: &Path) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => open(path)?,
        };
        Ok(self.file.insert(file))
    }

    /// Removes what a write that failed has left behind the whole lines.
    ///
    /// # Errors
    ///
    /// It is still there: nothing may be written behind it, nor over a part of it.
    fn mend(&mut self, path: &Path) -> io::Result<()> {
        if self.is_torn {
            let size = self.size;
            self.file(path)?.set_len(size)?;
            self.is_torn = false;
        }
        Ok(())
    }

    /// Reads the records, and drops a last line without an end.
    fn read(&mut self, path: &Path, max: u64) -> Result<Vec<Record>, FileStoreError> {
        let failed = |error| FileStoreError::Io { path: path.into(), operation: "read", error };
        self.mend(path).map_err(failed)?;
        let damaged = |line, reason: String| FileStoreError::Damaged { path: path.into(), line, reason };
        let file = self.file(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        if bytes > max {
            return Err(FileStoreError::TooLarge { path: path.into(), bytes, max });
        }
        let mut content = Vec::new();
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        file.read_to_end(&mut content).map_err(failed)?;
        let whole = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let content_len = content.len();
        content.truncate(whole);
        if whole < content_len {
            file.set_len(whole as u64).map_err(failed)?;
        }
        self.size = whole as u64;
        let mut lines = content.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
        if let Some(first) = lines.next() {
            if first != HEADER.as_bytes() {
                return Err(damaged(1, format!("it is not {HEADER}")));
            }
        } else {
            self.write(path, &format!("{HEADER}\n"), true).map_err(failed)?;
        }
        let mut records = Vec::new();
        for (line, number) in lines.zip(2..) {
            let text = core::str::from_utf8(line).map_err(|error| damaged(number, error.to_string()))?;
            // The text of the error may have parts of the line.
            let wrong = |error: serde_json::Error| match error.is_data() {
                true => format!("it is no record, from column {} on", error.column()),
                false => format!("it is not JSON, from column {} on", error.column()),
            };
            records.push(Record::read(text).map_err(|error| damaged(number, wrong(error)))?);
        }
        Ok(records)
    }

    /// Adds whole lines, or nothing.
    fn write(&mut self, path: &Path, lines: &str, is_flushed: bool) -> io::Result<()> {
        self.loaded = None;
        self.mend(path)?;
        let size = self.size;
        let file = self.file(path)?;
        file.seek(SeekFrom::Start(size))?;
        let written = file.write_all(lines.as_bytes());
        let written = written.and_then(|()| if is_flushed { file.sync_data() } else { Ok(()) });
        if written.is_err() {
            self.is_torn = true;
            // If that fails, too, the next write does it first.
            let _ = self.mend(path);
        } else {
            self.size += lines.len() as u64;
        }
        written
    }
}

/// Returns records as lines.
fn lines(records: &[Record]) -> io::Result<String> {
    let mut lines = String::new();
    for record in records {
        lines.push_str(&record.to_line().map_err(io::Error::other)?);
        lines.push('\n');
    }
    Ok(lines)
}

impl EventStore for FileStore {
    fn load(&self) -> io::Result<Vec<Record>> {
        let mut state = self.lock();
        match state.loaded.take() {
            Some(records) => Ok(records),
            None => Ok(state.read(&self.path, Self::MAX_BYTES)?),
        }
    }

    fn append(&self, records: &[Record]) -> io::Result<()> {
        let lines = lines(records)?;
        let mut state = self.lock();
        self.check_size(state.size + lines.len() as u64)?;
        state.write(&self.path, &lines, records.iter().any(|record| self.must_flush(record)))
    }

    fn wants_snapshot(&self) -> bool {
        let state = self.lock();
        // Before it is full, too: it takes no record then that could make a snapshot due.
        let room = self.max_bytes.saturating_sub(state.live);
        let is_filling = state.size > state.live.saturating_add(room / 2);
        is_filling || (state.size > MIN_SNAPSHOT && state.size > state.live.saturating_mul(2))
    }

    fn replace(&self, records: &[Record]) -> io::Result<()> {
        let content = format!("{HEADER}\n{}", lines(records)?);
        self.check_size(content.len() as u64)?;
        let mut state = self.lock();
        // If the file is not replaced, its size is that of whole lines.
        state.mend(&self.path)?;
        // It is opened again: that of before has no name any more, and some systems do not replace a file that is open.
        (state.file, state.loaded) = (None, None);
        let replaced = replace_content(&self.path, &[content.as_bytes()]);
        // If it failed, the file is the old or the new one.
        state.size = match (&replaced, fs::metadata(&self.path)) {
            (Err(_), Ok(found)) => found.len(),
            (Err(_), Err(_)) => state.size,
            (Ok(()), _) => content.len() as u64,
        };
        // It is tried again when the file is twice as large.
        state.live = state.size;
        replaced.map_err(io::Error::other)
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
