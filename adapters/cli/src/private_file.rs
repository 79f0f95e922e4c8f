//! Files and folders that other users cannot read: traces hold conversations.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// Creates a file, which must not exist.
///
/// # Errors
///
/// Fails as the system does.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Creates a folder with those above it, unless they exist.
///
/// # Errors
///
/// Fails as the system does.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}
