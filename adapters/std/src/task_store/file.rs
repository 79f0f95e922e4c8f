//! A task store in a folder.

use alloc::vec::Vec;
use core::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::record_file::{
    FileKind, MAX_HEADER, SET_ASIDE, file_kind, file_name, header_line, is_valid_id, parse_file, parse_header,
};
use super::{LoadedTasks, StoredTask, TaskStore, TaskStoreError};
use crate::durable_file::{
    FileError, FileLock, beside, create_folder, flush_folder_of, remove, replace_content,
};

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
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
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
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let names = self.names().map_err(|error| FileError::new(&self.folder, "read the folder", error))?;
        let mut loaded = LoadedTasks::default();
        for name in names {
            let path = self.folder.join(&name);
            let name = name.to_str().unwrap_or_default();
            match file_kind(name) {
                FileKind::Task => match Self::load_file(&path, name) {
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

/// Reads the start of a file; `None` if there is no file.
fn read_up_to(path: &Path, length: usize) -> Result<Option<Vec<u8>>, FileError> {
    let failed = |error| FileError::new(path, "read", error);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = Vec::new();
    file.take(length as u64).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(bytes))
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
