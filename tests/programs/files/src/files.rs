//! Lists, reads and writes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use mcp_threads::schemars;

use crate::error::FileError;
use crate::scope::{Scope, kind_of};

/// Largest file that is read as a whole, and largest text that is written.
pub const MAX_FILE: u64 = 1024 * 1024;
/// Largest part of a file in a result, and the default.
pub const MAX_PART: u64 = 64 * 1024;
/// Most entries of a directory in a result.
const MAX_ENTRIES: usize = 1000;

#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct Entry {
    /// Name in its directory, or path of a folder
    name: String,
    kind: &'static str,
    /// Bytes of a file
    size: Option<u64>,
}

#[derive(Default, serde::Serialize, schemars::JsonSchema)]
pub struct Entries {
    entries: Vec<Entry>,
    /// Entries that are left out, since there are more than 1000
    left_out: usize,
    /// Entries whose names are not UTF-8, so that they cannot be named here
    not_utf8: usize,
}

/// Lists a directory by name, or the folders.
pub fn list(scope: &Scope, path: Option<&str>) -> Result<Entries, FileError> {
    let mut result = Entries::default();
    let Some(path) = path else {
        let folders = scope.folders().iter().map(|folder| folder.display().to_string());
        result.entries = folders.map(|name| Entry { name, kind: "directory", size: None }).collect();
        return Ok(result);
    };
    let directory = scope.resolve_kind(path, "directory")?.0;
    for entry in fs::read_dir(directory).map_err(|error| FileError::io(path, error))? {
        let entry = entry.map_err(|error| FileError::io(path, error))?;
        let Ok(name) = entry.file_name().into_string() else {
            result.not_utf8 += 1;
            continue;
        };
        // Not followed, so that nothing outside of the folders is looked at. The file may be gone already.
        let Ok(metadata) = entry.metadata() else { continue };
        let size = metadata.is_file().then_some(metadata.len());
        result.entries.push(Entry { name, kind: kind_of(metadata.file_type()), size });
    }
    result.entries.sort_by(|a, b| a.name.cmp(&b.name));
    result.left_out = result.entries.len().saturating_sub(MAX_ENTRIES);
    result.entries.truncate(MAX_ENTRIES);
    Ok(result)
}

#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct Part {
    text: String,
    /// Bytes of the whole file
    size: u64,
    /// Where the next part begins; missing at the end
    next_offset: Option<u64>,
}

/// Reads text from a byte on. A character at the end that is not complete belongs to the next part.
pub fn read_part(scope: &Scope, text: &str, offset: u64, length: u64) -> Result<Part, FileError> {
    let (path, metadata) = scope.resolve_kind(text, "file")?;
    let size = metadata.len();
    if offset > size {
        return Err(FileError::BeyondEnd { path: text.to_owned(), offset, size });
    }
    let mut bytes =
        read_bytes(&path, offset, length.clamp(4, MAX_PART)).map_err(|error| FileError::io(text, error))?;
    if let Err(error) = str::from_utf8(&bytes) {
        let path = text.to_owned();
        match (error.valid_up_to(), error.error_len()) {
            (0, Some(_)) if offset > 0 => return Err(FileError::InsideCharacter { path, offset }),
            (valid @ 1.., None) => bytes.truncate(valid),
            _ => return Err(FileError::NotText(path)),
        }
    }
    let next = offset + bytes.len() as u64;
    let part = String::from_utf8(bytes).map_err(|_| FileError::NotText(text.to_owned()))?;
    Ok(Part { text: part, size, next_offset: (next < size).then_some(next) })
}

/// Reads a whole file.
pub fn read_all(scope: &Scope, text: &str) -> Result<Vec<u8>, FileError> {
    let (path, metadata) = scope.resolve_kind(text, "file")?;
    if metadata.len() > MAX_FILE {
        return Err(FileError::TooLarge { path: text.to_owned(), size: metadata.len(), limit: MAX_FILE });
    }
    read_bytes(&path, 0, MAX_FILE).map_err(|error| FileError::io(text, error))
}

/// Reads at most `length` bytes, also if the file grows meanwhile.
pub fn read_bytes(path: &Path, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a file: readers see the old text or the new one, also after a crash.
pub fn write(scope: &Scope, path: &str, text: &str) -> Result<(), FileError> {
    if text.len() as u64 > MAX_FILE {
        return Err(FileError::TextTooLarge { size: text.len(), limit: MAX_FILE });
    }
    let target = scope.resolve_target(path)?;
    write_atomically(&target, text.as_bytes()).map_err(|error| FileError::io(path, error))
}

fn write_atomically(target: &Path, bytes: &[u8]) -> io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let unique = format!(".mcp-files-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let temporary = target.with_file_name(unique);
    let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
    let written = (|| {
        file.write_all(bytes)?;
        if let Ok(old) = fs::metadata(target) {
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()?;
        fs::rename(&temporary, target)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}
