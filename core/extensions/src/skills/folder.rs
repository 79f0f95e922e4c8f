//! Folders of skills, read into memory.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use super::{Content, MAX_FILES, MAX_TOTAL_SIZE, SKILL_FILE, SkillFolder};

/// Maximum depth of folders below the one that is read.
const MAX_DEPTH: usize = 32;

/// Maximum number of files and folders that are visited.
const MAX_ENTRIES: usize = 100_000;

/// A file or folder that cannot be part of a skill, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderError {
    /// The file or folder, below the path that was given.
    pub path: PathBuf,
    /// Why it cannot be served, in English.
    pub reason: String,
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl core::error::Error for FolderError {}

impl FolderError {
    fn new(path: &Path, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into() }
    }

    fn io(path: &Path, error: &io::Error) -> Self {
        Self::new(path, error.to_string())
    }
}

/// Reads all skills below a folder: each folder with a `SKILL.md`, the folder itself included.
///
/// What is left out and what is refused is as for `Router::skills_from` of an adapter, which calls this.
///
/// # Errors
///
/// The first file or folder that cannot be served.
pub fn read_skills(path: &Path) -> Result<Vec<SkillFolder>, FolderError> {
    let root = fs::canonicalize(path).map_err(|error| FolderError::io(path, &error))?;
    let mut files = Files { root: root.clone(), shown: path.to_owned(), visited: 0, found: BTreeMap::new() };
    files.visit(&root, "", &mut Vec::new())?;
    let opened = OpenedFolder::open(&root).map_err(|error| FolderError::io(path, &error))?;

    // A folder that is itself a skill gives it its name.
    let own_name = root.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let prefix = if files.found.contains_key(SKILL_FILE) { format!("{own_name}/") } else { String::new() };
    let skills: Vec<String> =
        files.found.keys().filter_map(|file| skill_path(file)).map(str::to_owned).collect();
    if skills.is_empty() {
        return Err(FolderError::new(path, format!("there is no `{SKILL_FILE}` in it")));
    }
    // The content of each file, read once.
    let mut contents: BTreeMap<&str, Content> = BTreeMap::new();
    let mut folders = Vec::new();
    for skill in &skills {
        let within =
            |file: &str| skill.is_empty() || file.strip_prefix(&**skill).is_some_and(|r| r.starts_with('/'));
        let own: Vec<(&String, &PathBuf)> = files.found.iter().filter(|(file, _)| within(file)).collect();
        if own.len() > MAX_FILES {
            let reason = format!("{} files, and a skill may have at most {MAX_FILES}", own.len());
            return Err(FolderError::new(&files.shown.join(skill), reason));
        }
        let uri = format!("skill://{prefix}{skill}");
        let mut folder = SkillFolder::new(uri.trim_end_matches('/'));
        let mut total = 0u64;
        for (file, target) in own {
            let content = match contents.get(&**file) {
                Some(content) => content.clone(),
                None => {
                    let content = read_file(&opened, target, &files.shown.join(file))?;
                    contents.insert(file, content.clone());
                    content
                }
            };
            total += content.len() as u64;
            if total > MAX_TOTAL_SIZE {
                let reason = format!("its files have more than {MAX_TOTAL_SIZE} bytes");
                return Err(FolderError::new(&files.shown.join(skill), reason));
            }
            let path = if skill.is_empty() { file } else { file.get(skill.len() + 1..).unwrap_or(file) };
            folder.files.insert(path.to_owned(), content);
        }
        folders.push(folder);
    }
    Ok(folders)
}

/// Returns the folder of the skill whose `SKILL.md` this is.
fn skill_path(file: &str) -> Option<&str> {
    if file == SKILL_FILE { Some("") } else { file.strip_suffix(SKILL_FILE)?.strip_suffix('/') }
}

fn read_file(folder: &OpenedFolder, path: &Path, shown: &Path) -> Result<Content, FolderError> {
    let mut content = Vec::new();
    let file = folder.file(path).map_err(|error| FolderError::io(shown, &error))?;
    // One byte more shows that it is too large, however large it says that it is.
    let read = file.take(MAX_TOTAL_SIZE + 1).read_to_end(&mut content);
    read.map_err(|error| FolderError::io(shown, &error))?;
    if content.len() as u64 > MAX_TOTAL_SIZE {
        return Err(FolderError::new(shown, format!("it has more than {MAX_TOTAL_SIZE} bytes")));
    }
    Ok(content.into())
}

/// The files below a folder, by their path with `/` between the segments.
struct Files {
    /// The folder, without links.
    root: PathBuf,
    /// The folder as it was named, for errors.
    shown: PathBuf,
    visited: usize,
    /// The files by their path below the root, without links.
    found: BTreeMap<String, PathBuf>,
}

impl Files {
    /// Visits a folder. `path` is relative to the root; `above` are the folders above it, without links.
    fn visit(&mut self, folder: &Path, path: &str, above: &mut Vec<PathBuf>) -> Result<(), FolderError> {
        let shown = self.shown.join(path);
        if above.len() > MAX_DEPTH {
            return Err(FolderError::new(&shown, format!("it is more than {MAX_DEPTH} folders deep")));
        }
        above.push(folder.to_owned());
        let entries = fs::read_dir(folder).map_err(|error| FolderError::io(&shown, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| FolderError::io(&shown, &error))?;
            self.visited += 1;
            if self.visited > MAX_ENTRIES {
                return Err(FolderError::new(&shown, format!("there are more than {MAX_ENTRIES} files")));
            }
            let name = entry.file_name();
            let shown = shown.join(&name);
            let Some(name) = name.to_str() else {
                return Err(FolderError::new(&shown, "its name is not UTF-8"));
            };
            if name.starts_with('.') {
                continue;
            }
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            // Follows links, also those above the file.
            let target = fs::canonicalize(entry.path()).map_err(|error| FolderError::io(&shown, &error))?;
            let Ok(below) = target.strip_prefix(&self.root) else {
                let reason = format!("it is a link that leads out of the folder, to `{}`", target.display());
                return Err(FolderError::new(&shown, reason));
            };
            let kind = fs::metadata(&target).map_err(|error| FolderError::io(&shown, &error))?;
            if kind.is_dir() {
                if above.contains(&target) {
                    return Err(FolderError::new(&shown, "it is a link to a folder above it"));
                }
                self.visit(&target, &path, above)?;
            } else if kind.is_file() {
                self.found.insert(path, below.to_owned());
            } else {
                return Err(FolderError::new(&shown, "it is not a file or folder"));
            }
        }
        above.pop();
        Ok(())
    }
}

// Opening of files below a folder without following links.

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
