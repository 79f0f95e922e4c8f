//! Locks between processes, which the operating system releases when their process ends.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// A locked file. Dropping it ends the lock.
pub(crate) struct FileLock {
    #[cfg_attr(not(unix), expect(dead_code, reason = "closing the file ends the lock"))]
    file: File,
}

impl FileLock {
    /// Locks a file, which is created if it is missing; `None` if another one has the lock.
    ///
    /// The file stays when the lock ends: whoever removed it could remove the lock of another one.
    pub(crate) fn try_new(path: &Path) -> io::Result<Option<Self>> {
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
        Err(io::Error::new(io::ErrorKind::Unsupported, "this platform has no locks between processes"))
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
        std::fs::remove_file(&path).unwrap();
    }
}
