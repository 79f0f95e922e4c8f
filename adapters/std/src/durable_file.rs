//! Files that are replaced as a whole, and locks between processes.

use alloc::vec::Vec;
use core::fmt;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

#[cfg(test)]
mod faults;
#[cfg(test)]
pub(crate) mod step_tests;

/// An operation on a file that failed.
#[derive(Debug)]
pub struct FileError {
    /// The file or folder.
    pub path: PathBuf,
    /// Operation that failed: `read`, `replace`, …
    pub operation: &'static str,
    /// The error of the operating system.
    pub error: io::Error,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.operation, self.path.display(), self.error)
    }
}

/// No source: `Display` has the error of the operating system.
impl core::error::Error for FileError {}

impl FileError {
    pub(crate) fn new(path: &Path, operation: &'static str, error: io::Error) -> Self {
        Self { path: path.into(), operation, error }
    }
}

/// Steps of a write, before each of which a test can make it fail or end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "read by the faults of tests"))]
pub(crate) enum Step {
    Create,
    /// The first half of the content.
    Write,
    /// The second half.
    WriteRest,
    Flush,
    Rename,
    FlushFolder,
    Remove,
}

/// Replaces the content of a file. A reader and a crash see the old content or the new one.
///
/// The caller has the lock of the file. `parts` are written one after another.
///
/// # Errors
///
/// [`FileError`], if the operating system refuses a step. The content is then the old one or the new one.
pub fn replace_content(path: &Path, parts: &[&[u8]]) -> Result<(), FileError> {
    let temporary = write_temporary(path, parts)?;
    replace(path, &temporary)
}

/// Writes new content beside a file, complete and on the disk. The caller has the lock of the file.
///
/// Returns its path, `PATH.tmp`, which is beside the file so that a rename replaces the file.
///
/// # Errors
///
/// [`FileError`], if the operating system refuses a step. The file is as it was.
pub fn write_temporary(path: &Path, parts: &[&[u8]]) -> Result<PathBuf, FileError> {
    let temporary = beside(path, "tmp");
    let failed = |error| FileError::new(&temporary, "write", error);
    // A process that was killed left it behind. Its permissions may be anything, so it is not written to.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = step(Step::Create).and_then(|()| options.open(&temporary)).map_err(failed)?;
    let written =
        write_parts(&mut file, parts).and_then(|()| step(Step::Flush)).and_then(|()| file.sync_all());
    drop(file);
    if let Err(error) = written {
        // What does not fit on the disk need not stay there. The error that matters is the first one.
        let _ = fs::remove_file(&temporary);
        return Err(failed(error));
    }
    Ok(temporary)
}

fn write_parts(file: &mut File, parts: &[&[u8]]) -> io::Result<()> {
    step(Step::Write)?;
    for (i, part) in parts.iter().enumerate() {
        let is_last = i + 1 == parts.len();
        let (first, rest) = part.split_at(if is_last { part.len() / 2 } else { part.len() });
        file.write_all(first)?;
        if is_last {
            step(Step::WriteRest)?;
            file.write_all(rest)?;
        }
    }
    Ok(())
}

/// Replaces a file by the new content, and makes that permanent.
pub(crate) fn replace(path: &Path, temporary: &Path) -> Result<(), FileError> {
    // The new content is on the disk by now, so a crash leaves the old file or the whole new one.
    let renamed = step(Step::Rename).and_then(|()| fs::rename(temporary, path));
    renamed.map_err(|error| FileError::new(path, "replace", error))?;
    flush_folder_of(path)
}

/// Removes a file, and makes that permanent. A file that does not exist is no error.
pub(crate) fn remove(path: &Path) -> Result<(), FileError> {
    match step(Step::Remove).and_then(|()| fs::remove_file(path)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(FileError::new(path, "remove", error)),
        Ok(()) => flush_folder_of(path),
    }
}

/// Makes the entries of the folder of `path` permanent.
pub(crate) fn flush_folder_of(path: &Path) -> Result<(), FileError> {
    let flushed = step(Step::FlushFolder).and_then(|()| sync_folder(path));
    flushed.map_err(|error| FileError::new(path, "flush the folder of", error))
}

#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    // The parent of a plain file name is empty and means the current folder.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

/// Does nothing: only Unix can flush a folder.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Creates a folder and those above it, unless they exist. On Unix, created ones are closed to others (mode 0700).
///
/// # Errors
///
/// [`FileError`], if the operating system refuses a step.
pub fn create_folder(folder: &Path) -> Result<(), FileError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| FileError::new(folder, "create the folder", error))
}

/// Returns the path of a file beside another one: `PATH.ENDING`.
#[must_use]
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".");
    name.push(ending);
    name.into()
}

/// Reads the start of a file; `None` if there is no file.
pub(crate) fn read_up_to(path: &Path, length: usize) -> Result<Option<Vec<u8>>, FileError> {
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

#[cfg(test)]
fn step(step: Step) -> io::Result<()> {
    faults::reach(step)
}

#[cfg(not(test))]
#[allow(clippy::unnecessary_wraps, reason = "tests inject errors here")]
const fn step(_: Step) -> io::Result<()> {
    Ok(())
}

// Locks between processes, which the operating system releases when their process ends.

/// A locked file. Dropping it ends the lock.
#[derive(Debug)]
pub struct FileLock {
    #[cfg_attr(not(unix), expect(dead_code, reason = "closing the file ends the lock"))]
    file: File,
}

impl FileLock {
    /// Locks a file, which is created if it is missing; `None` if another one has the lock.
    ///
    /// The file stays when the lock ends: whoever removed it could remove the lock of another one.
    ///
    /// # Errors
    ///
    /// That of the operating system. `Unsupported` on a platform without locks.
    pub fn try_new(path: &Path) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        Ok(platform::try_lock(options, path)?.map(|file| Self { file }))
    }
}

/// A child that another thread has just forked shares the open file until its `exec`, so closing it does not suffice.
#[cfg(unix)]
impl Drop for FileLock {
    fn drop(&mut self) {
        // An unlock can only fail for a descriptor that is not open.
        let _ = rustix::fs::flock(&self.file, rustix::fs::FlockOperation::Unlock);
    }
}

#[cfg(unix)]
mod platform {
    use std::os::unix::fs::OpenOptionsExt as _;

    use super::*;
    use rustix::fs::{FlockOperation, flock};
    use rustix::io::Errno;

    pub(super) fn try_lock(mut options: OpenOptions, path: &Path) -> io::Result<Option<File>> {
        let file = options.mode(0o600).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(windows)]
mod platform {
    use std::os::windows::fs::OpenOptionsExt as _;

    use super::*;

    /// `ERROR_SHARING_VIOLATION`: another one has the file open.
    const SHARING_VIOLATION: i32 = 32;

    pub(super) fn try_lock(mut options: OpenOptions, path: &Path) -> io::Result<Option<File>> {
        // Nobody else can open the file while this handle is open.
        match options.share_mode(0).open(path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.raw_os_error() == Some(SHARING_VIOLATION) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(not(any(unix, windows)))]
mod platform {
    use super::*;

    pub(super) fn try_lock(_: OpenOptions, _: &Path) -> io::Result<Option<File>> {
        Err(io::Error::new(ErrorKind::Unsupported, "this platform has no locks between processes"))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn lock_ends_although_a_child_shares_the_open_file() {
        let path = std::env::temp_dir().join(format!("mcp-lock-{}", std::process::id()));
        let lock = FileLock::try_new(&path).unwrap().unwrap();
        // As between `fork` and `exec`.
        let shared = lock.file.try_clone().unwrap();
        assert!(FileLock::try_new(&path).unwrap().is_none());
        drop(lock);
        assert!(FileLock::try_new(&path).unwrap().is_some());
        drop(shared);
        fs::remove_file(&path).unwrap();
    }
}
