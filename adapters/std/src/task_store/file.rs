//! A task store in a folder.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::{fmt, str};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::{LoadedTasks, StoredTask, TaskStore, TaskStoreError};
use crate::durable_file::{
    FileError, FileLock, beside, create_folder, flush_folder_of, read_up_to, remove, replace_content,
};
use crate::sync::lock;

/// A [`TaskStore`] in a folder, with one file for each task.
///
/// The folder belongs to one server at a time: it is locked while the store exists, by `flock(2)` on Unix and by an
/// exclusively opened file on Windows. Use a local file system. On Unix, files are for their owner only (mode 0600), and
/// so is a folder that had to be created (mode 0700). Records are not encrypted.
///
/// A change replaces the file of its task as a whole: it is written beside it, flushed to the disk, and renamed, and the
/// folder is flushed. So a process that is killed at any time, a full disk and a power failure leave the old version or
/// the new one.
///
/// Each file has a checksum. [`load`](TaskStore::load) renames a damaged one to `NAME.damaged`, and reports it. It
/// reports files that are not those of the store, and leaves them.
pub struct FileTaskStore {
    folder: PathBuf,
    /// Held from the look at a stored version to the end of its change.
    change: Mutex<()>,
    /// The lock of the folder.
    _lock: FileLock,
}

impl FileTaskStore {
    /// Opens the store in `folder`, which is created if it does not exist.
    ///
    /// # Errors
    ///
    /// - [`TaskStoreError::InUse`]: another store has the folder.
    /// - [`TaskStoreError::Io`]: the folder cannot be created or locked.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, TaskStoreError> {
        let folder = folder.into();
        create_folder(&folder)?;
        let lock_path = folder.join(LOCK);
        match FileLock::try_new(&lock_path) {
            Ok(Some(lock)) => Ok(Self { folder, change: Mutex::new(()), _lock: lock }),
            Ok(None) => Err(TaskStoreError::InUse { path: folder }),
            Err(error) => Err(FileError::new(&lock_path, "lock", error).into()),
        }
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Changes the file of a task, unless a newer version is stored.
    fn change(
        &self,
        id: &str,
        version: u64,
        change: impl FnOnce(&Path) -> Result<(), FileError>,
    ) -> Result<(), TaskStoreError> {
        if !is_valid_id(id) {
            return Err(TaskStoreError::InvalidId);
        }
        let path = self.folder.join(file_name(id));
        // The files are whole at any time, also if a thread panicked.
        let _change = lock(&self.change);
        let start = read_up_to(&path, MAX_HEADER)?;
        match start.as_deref().map(parse_header) {
            Some(Ok((stored, _))) if stored.id != id => return Err(TaskStoreError::NameTaken { path }),
            Some(Ok((stored, _))) if stored.version > version => return Ok(()),
            Some(Err(_)) => drop(set_aside(&path)?),
            _ => {}
        }
        Ok(change(&path)?)
    }

    /// Reads the file of a task. Sets it aside if it is damaged.
    fn load_file(path: &Path, name: &str) -> Result<StoredTask, TaskStoreError> {
        // Looked at before it is opened: opening a pipe would wait for its other end.
        let found = fs::metadata(path).map_err(|error| FileError::new(path, "read", error))?;
        let task = if found.is_file() {
            let bytes = read_up_to(path, MAX_FILE + 1)?.unwrap_or_default();
            if bytes.len() > MAX_FILE {
                Err("is larger than a store writes".into())
            } else {
                parse_file(&bytes)
            }
        } else {
            Err("is not a regular file".into())
        };
        let whole = task.and_then(|task| {
            let is_own = file_name(&task.id) == name;
            is_own.then_some(task).ok_or_else(|| "contains a task with another file name".into())
        });
        whole.map_err(|why| TaskStoreError::Damaged {
            path: path.into(),
            why,
            set_aside: set_aside(path).ok(),
        })
    }

    /// Reads the names of the files of the folder, in order.
    fn names(&self) -> io::Result<Vec<std::ffi::OsString>> {
        let names: io::Result<Vec<_>> =
            fs::read_dir(&self.folder)?.map(|entry| entry.map(|entry| entry.file_name())).collect();
        let mut names = names?;
        names.sort_unstable();
        Ok(names)
    }
}

impl TaskStore for FileTaskStore {
    fn load(&self) -> Result<LoadedTasks, TaskStoreError> {
        let _change = lock(&self.change);
        let names = self.names().map_err(|error| FileError::new(&self.folder, "read the folder", error))?;
        let mut loaded = LoadedTasks::default();
        for name in names {
            let path = self.folder.join(&name);
            let name = name.to_str().unwrap_or_default();
            match file_kind(name) {
                FileKind::Task => match Self::load_file(&path, name) {
                    Ok(task) if !loaded.admit(task.record.len()) => break,
                    Ok(task) => loaded.tasks.push(task),
                    Err(problem) => loaded.problems.push(problem),
                },
                FileKind::Temporary => {
                    if let Err(problem) = remove(&path) {
                        loaded.problems.push(problem.into());
                    }
                }
                FileKind::SetAside => {}
                FileKind::Foreign if name == LOCK => {}
                FileKind::Foreign => loaded.problems.push(TaskStoreError::Foreign { path }),
            }
        }
        Ok(loaded)
    }

    fn save(&self, id: &str, version: u64, record: &[u8]) -> Result<(), TaskStoreError> {
        if record.len() > MAX_RECORD {
            return Err(TaskStoreError::TooLarge { size: record.len(), max: MAX_RECORD });
        }
        self.change(id, version, |path| {
            replace_content(path, &[header_line(id, version, record).as_bytes(), record])
        })
    }

    fn delete(&self, id: &str, version: u64) -> Result<(), TaskStoreError> {
        match self.change(id, version, remove) {
            // The task itself is not stored, then.
            Err(TaskStoreError::NameTaken { .. }) => Ok(()),
            result => result,
        }
    }
}

impl fmt::Debug for FileTaskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileTaskStore").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// Renames a damaged file, and returns its new path. Earlier ones stay, up to a number.
fn set_aside(path: &Path) -> Result<PathBuf, FileError> {
    let first = beside(path, SET_ASIDE);
    let numbered = (2..=MAX_SET_ASIDE).map(|number| beside(&first, &alloc::format!("{number}")));
    let is_free = |aside: &PathBuf| matches!(fs::symlink_metadata(aside), Err(error) if error.kind() == ErrorKind::NotFound);
    let aside = core::iter::once(first.clone()).chain(numbered).find(is_free).unwrap_or(first);
    fs::rename(path, &aside).map_err(|error| FileError::new(path, "set aside", error))?;
    flush_folder_of(path)?;
    Ok(aside)
}

/// The name of the file that is locked.
const LOCK: &str = "lock";
/// Bytes of a record, at most: 64 MiB.
const MAX_RECORD: usize = 64 << 20;
/// Bytes of a file, at most.
const MAX_FILE: usize = MAX_RECORD + MAX_HEADER;
/// Damaged files of one name that are kept; then the first one is replaced.
const MAX_SET_ASIDE: u32 = 16;

// The format of the file of a stored task, and its name.
//
// A file is one line of text and the record: `mcp-task 1 ID VERSION LENGTH CHECKSUM\n`. The checksum covers the line up
// to it, and the record.

/// The line before the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header<'a> {
    pub(super) id: &'a str,
    pub(super) version: u64,
    length: usize,
    checksum: u64,
    /// The line up to the checksum.
    covered: &'a str,
}

/// Returns the line before a record.
pub(super) fn header_line(id: &str, version: u64, record: &[u8]) -> String {
    let covered = format!("{MAGIC} {FORMAT} {id} {version} {} ", record.len());
    let checksum = fnv1a(fnv1a(FNV_OFFSET, covered.as_bytes()), record);
    format!("{covered}{checksum:016x}\n")
}

/// Finds the header at the start of a file, of which `bytes` may be a part. Returns the rest of `bytes`, too.
pub(super) fn parse_header(bytes: &[u8]) -> Result<(Header<'_>, &[u8]), Box<str>> {
    let end = bytes.iter().take(MAX_HEADER).position(|byte| *byte == b'\n');
    let (line, rest) = end.and_then(|end| bytes.split_at_checked(end)).ok_or("has no whole header")?;
    let line = str::from_utf8(line).map_err(|_| "has a header that is not text")?;
    let mut fields = line.split(' ');
    if fields.next() != Some(MAGIC) {
        return Err("was not written by a task store".into());
    }
    let format = fields.next().unwrap_or_default();
    if format != FORMAT {
        return Err(format!("has the format {format:?}, and this version reads {FORMAT:?}").into());
    }
    let header = (|| {
        let id = fields.next().filter(|id| is_valid_id(id))?;
        let version = fields.next()?.parse().ok()?;
        let length = fields.next()?.parse().ok()?;
        let checksum_text = fields.next().filter(|text| text.len() == 16)?;
        let checksum = u64::from_str_radix(checksum_text, 16).ok()?;
        let covered = line.strip_suffix(checksum_text)?;
        fields.next().is_none().then_some(Header { id, version, length, checksum, covered })
    })();
    let header = header.ok_or("has a header that cannot be read")?;
    Ok((header, rest.get(1..).unwrap_or_default()))
}

/// Reads a whole file.
pub(super) fn parse_file(bytes: &[u8]) -> Result<StoredTask, Box<str>> {
    let (header, record) = parse_header(bytes)?;
    if record.len() != header.length {
        return Err(
            format!("has {} bytes after its header instead of {}", record.len(), header.length).into()
        );
    }
    if fnv1a(fnv1a(FNV_OFFSET, header.covered.as_bytes()), record) != header.checksum {
        return Err("has a wrong checksum".into());
    }
    Ok(StoredTask { id: header.id.into(), version: header.version, record: record.into() })
}

/// Returns the name of the file of a task.
///
/// It does not tell the id: names of files appear in errors, and in the listing of a folder. It has no letters that only
/// differ in case.
pub(super) fn file_name(id: &str) -> String {
    format!("{:016x}.{ENDING}", fnv1a(FNV_OFFSET, id.as_bytes()))
}

/// The kind of a file in the folder, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Task,
    /// A write of a process that was killed.
    Temporary,
    SetAside,
    Foreign,
}

pub(super) fn file_kind(name: &str) -> FileKind {
    let is_hash =
        |hash: &str| hash.len() == 16 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let mut parts = name.split('.');
    if !parts.next().is_some_and(is_hash) || parts.next() != Some(ENDING) {
        return FileKind::Foreign;
    }
    match (parts.next(), parts.next(), parts.next()) {
        (None, ..) => FileKind::Task,
        (Some("tmp"), None, _) => FileKind::Temporary,
        (Some(SET_ASIDE), None, _) => FileKind::SetAside,
        (Some(SET_ASIDE), Some(number), None) if number.bytes().all(|b| b.is_ascii_digit()) => {
            FileKind::SetAside
        }
        _ => FileKind::Foreign,
    }
}

/// Returns whether an id can be stored.
pub(super) fn is_valid_id(id: &str) -> bool {
    (1..=MAX_ID).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

/// Continues a checksum (FNV-1a). It finds damage; it is no protection against forgery.
fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

const MAGIC: &str = "mcp-task";
const FORMAT: &str = "1";
const ENDING: &str = "task";
/// Last part of the name of a damaged file.
pub(super) const SET_ASIDE: &str = "damaged";
/// Characters of an id, at most.
const MAX_ID: usize = 64;
/// Bytes of a header, at most: a magic word, a format, an id, three numbers.
pub(super) const MAX_HEADER: usize = 160;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;
