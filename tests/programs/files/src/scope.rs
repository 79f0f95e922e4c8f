//! The folders that a call may use.

use std::fs::{self, Metadata};
use std::path::{Component, Path, PathBuf};

use crate::error::FileError;

/// The folders of the command line, or the parts of them that are roots of the client as well. All are canonical.
///
/// A path is resolved and checked before it is opened. Another program of this machine that replaces a folder by a
/// symbolic link in between is not noticed. Where such programs run, open files by `openat2` with `RESOLVE_BENEATH`.
pub struct Scope(Vec<PathBuf>);

impl Scope {
    pub fn new(folders: &[PathBuf]) -> Self {
        Self(folders.to_vec())
    }

    /// Returns the folders that are inside of a root, and the roots that are inside of a folder.
    pub fn narrow(self, roots: &[PathBuf]) -> Self {
        let mut narrowed = Vec::new();
        for root in roots.iter().filter_map(|root| root.canonicalize().ok()) {
            for folder in &self.0 {
                let both = if folder.starts_with(&root) { folder } else { &root };
                if both.starts_with(folder) && !narrowed.contains(both) {
                    narrowed.push(both.clone());
                }
            }
        }
        Self(narrowed)
    }

    pub fn folders(&self) -> &[PathBuf] {
        &self.0
    }

    pub fn contains(&self, path: &Path) -> bool {
        self.0.iter().any(|folder| path.starts_with(folder))
    }

    /// Returns the canonical path of something that exists in the folders.
    pub fn resolve(&self, text: &str) -> Result<PathBuf, FileError> {
        let path = Path::new(text);
        if !path.is_absolute() {
            return Err(FileError::NotAbsolute(text.to_owned()));
        }
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(FileError::ParentSegment(text.to_owned()));
        }
        match path.canonicalize() {
            Ok(path) if self.contains(&path) => Ok(path),
            Ok(_) if self.contains(path) => Err(FileError::LinkOutside(text.to_owned())),
            // An answer must not tell what exists elsewhere.
            Err(error) if self.contains(path) => Err(FileError::io(text, error)),
            _ => Err(FileError::Outside { path: text.to_owned(), folders: self.to_string() }),
        }
    }

    /// Returns the canonical path of a file or directory, as expected. Devices and pipes are refused before they are
    /// opened.
    pub fn resolve_kind(&self, text: &str, expected: &'static str) -> Result<(PathBuf, Metadata), FileError> {
        let path = self.resolve(text)?;
        let metadata = fs::metadata(&path).map_err(|error| FileError::io(text, error))?;
        expect_kind(text, kind_of(metadata.file_type()), expected)?;
        Ok((path, metadata))
    }

    /// Returns where a file may be written: over a regular file, or as a new one in a directory that exists.
    pub fn resolve_target(&self, text: &str) -> Result<PathBuf, FileError> {
        let path = Path::new(text);
        let (Some(parent), Some(name)) = (path.parent().and_then(Path::to_str), path.file_name()) else {
            // The top of the file system, or a path that ends with `..`.
            return self.resolve(text).and_then(|path| expect_kind(text, "directory", "file").map(|()| path));
        };
        let target = self.resolve_kind(parent, "directory")?.0.join(name);
        // Not followed: a link would be replaced by the file.
        if let Ok(metadata) = fs::symlink_metadata(&target) {
            expect_kind(text, kind_of(metadata.file_type()), "file")?;
        }
        Ok(target)
    }
}

/// The folders, for a message.
impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no folder is both served and a root of the client");
        }
        for (index, folder) in self.0.iter().enumerate() {
            write!(f, "{}{}", if index > 0 { ", " } else { "" }, folder.display())?;
        }
        Ok(())
    }
}

/// Returns the kind of a directory entry.
pub fn kind_of(kind: fs::FileType) -> &'static str {
    match kind {
        kind if kind.is_file() => "file",
        kind if kind.is_dir() => "directory",
        kind if kind.is_symlink() => "symbolic link",
        _ => "device, pipe or socket",
    }
}

fn expect_kind(path: &str, kind: &'static str, expected: &'static str) -> Result<(), FileError> {
    if kind == expected {
        return Ok(());
    }
    Err(FileError::WrongKind { path: path.to_owned(), kind, expected })
}
