//! Search in files.

use std::fs;
use std::path::PathBuf;

use mcp_threads::{Cx, Progress, schemars};

use crate::error::FileError;
use crate::files::{MAX_FILE, read_bytes};
use crate::scope::Scope;

/// Most files that one search looks at.
const MAX_FILES: u64 = 10_000;
/// Most lines that one search returns.
const MAX_MATCHES: usize = 100;
/// Longest part of a line that is returned, in characters.
const MAX_LINE: usize = 200;

#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct Match {
    path: String,
    line: usize,
    text: String,
}

#[derive(Default, serde::Serialize, schemars::JsonSchema)]
pub struct Found {
    matches: Vec<Match>,
    /// Files that were searched
    files: u64,
    /// Files that were not: larger than 1 MiB, not UTF-8 text, with such a name, or unreadable
    skipped: u64,
    /// Why the search ended early: search in a directory below
    ended_early: Option<&'static str>,
}

/// Returns the lines that contain `text`, of the files in a directory and below. Symbolic links are not followed.
pub fn search(scope: &Scope, cx: &mut Cx<'_>, path: &str, text: &str) -> Result<Found, FileError> {
    if text.is_empty() {
        return Err(FileError::NothingToSearch);
    }
    let mut found = Found::default();
    let mut directories = vec![scope.resolve_kind(path, "directory")?.0];
    while let Some(directory) = directories.pop() {
        let Ok(entries) = fs::read_dir(&directory) else {
            found.skipped += 1;
            continue;
        };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                directories.push(entry.path());
            }
            if !kind.is_file() {
                continue;
            }
            if found.files + found.skipped >= MAX_FILES {
                found.ended_early = Some("10,000 files were searched");
                return Ok(found);
            }
            search_file(&entry.path(), text, &mut found);
            if found.matches.len() >= MAX_MATCHES {
                found.ended_early = Some("100 lines were found");
                return Ok(found);
            }
            // It may be called at any rate, and fails if the call was cancelled.
            let searched = found.files + found.skipped;
            if let Err(ended) = cx.progress(Progress::new(searched as f64)) {
                eprintln!("search cancelled after {searched} files");
                return Err(ended.into());
            }
        }
    }
    Ok(found)
}

fn search_file(path: &PathBuf, text: &str, found: &mut Found) {
    let content = || {
        let size = fs::metadata(path).ok()?.len();
        let bytes = (size <= MAX_FILE).then(|| read_bytes(path, 0, MAX_FILE).ok())??;
        Some((path.to_str()?, String::from_utf8(bytes).ok()?))
    };
    let Some((path, content)) = content() else {
        found.skipped += 1;
        return;
    };
    found.files += 1;
    for (line, content) in (1..).zip(content.lines()).filter(|(_, content)| content.contains(text)) {
        if found.matches.len() < MAX_MATCHES {
            let text = content.chars().take(MAX_LINE).collect();
            found.matches.push(Match { path: path.to_owned(), line, text });
        }
    }
}
