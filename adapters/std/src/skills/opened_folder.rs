//! Opening of files below a folder without following links.

use std::fs::File;
use std::io;
use std::path::{Component, Path};

/// A folder whose files are opened by their path below it.
///
/// On Unix each segment of a path is opened below the folder before it (`openat`) and without following a link. A link
/// that is put there after the path was checked therefore leads nowhere. Other systems have no such call in `std`: there
/// a path is checked before it is opened, so that no other user may be able to change the folder meanwhile.
pub(super) struct OpenedFolder {
    #[cfg(unix)]
    folder: std::os::fd::OwnedFd,
    #[cfg(not(unix))]
    folder: std::path::PathBuf,
}

impl OpenedFolder {
    /// Opens a folder by its path without links.
    #[cfg(unix)]
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        use rustix::fs::{CWD, Mode, OFlags, openat};

        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self { folder: openat(CWD, path, flags, Mode::empty())? })
    }

    /// Opens a folder by its path without links.
    #[cfg(not(unix))]
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { folder: path.into() })
    }

    /// Opens a file by its path below the folder, which has no link in it.
    ///
    /// # Errors
    ///
    /// The path is empty, absolute or has a segment `..`; a segment is a link; or it names no file: a pipe, a socket, a
    /// device or a folder is not waited for.
    pub(super) fn file(&self, path: &Path) -> io::Result<File> {
        let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_below || path.as_os_str().is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not below the folder"));
        }
        let file = self.open_each(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
        }
        Ok(file)
    }

    #[cfg(unix)]
    fn open_each(&self, path: &Path) -> io::Result<File> {
        use rustix::fs::{Mode, OFlags, openat};
        use rustix::io::Errno;
        use std::os::fd::{AsFd as _, OwnedFd};

        let mut folder: Option<OwnedFd> = None;
        let mut parts = path.components().peekable();
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            // Not waiting for the other end of a pipe.
            let kind = if is_last { OFlags::NONBLOCK | OFlags::NOCTTY } else { OFlags::DIRECTORY };
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | kind;
            let above = folder.as_ref().unwrap_or(&self.folder).as_fd();
            let opened = openat(above, part.as_os_str(), flags, Mode::empty());
            folder = Some(opened.map_err(|error| match error {
                Errno::LOOP | Errno::NOTDIR | Errno::MLINK => {
                    io::Error::other("it became a link, or something else, while it was read")
                }
                error => error.into(),
            })?);
        }
        folder.map(File::from).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    #[cfg(not(unix))]
    fn open_each(&self, path: &Path) -> io::Result<File> {
        let path = self.folder.join(path);
        // Opening some other kinds would wait.
        let kind = std::fs::symlink_metadata(&path)?;
        if !kind.is_file() {
            return Err(io::Error::other("it became a link, or something else, while it was read"));
        }
        File::open(path)
    }
}
