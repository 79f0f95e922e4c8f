//! Snapshots: results that were kept in files, one for each step.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::mismatch::{Mismatch, pretty};
use crate::failure::CommandFailure;
use crate::output::read_text;
use mcp_std::json_file::values::is_equal;

/// Returns the name of the file of a step: its name, with - for each character but ASCII letters, digits, - and _.
pub(super) fn file_name(step: &str) -> String {
    let plain = step
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '-' });
    plain.chain(".json".chars()).collect()
}

/// Returns the path of the snapshot of a step.
fn path(suite: &Path, step: &str) -> PathBuf {
    let mut folder = suite.as_os_str().to_owned();
    folder.push(".snapshots");
    Path::new(&folder).join(file_name(step))
}

/// Replaces what a snapshot leaves out.
fn masked(result: &Value, ignored: &[String]) -> Value {
    let mut result = result.clone();
    for pointer in ignored {
        if let Some(value) = result.pointer_mut(pointer) {
            *value = "(ignored)".into();
        }
    }
    result
}

/// Writes the snapshot of a step.
///
/// # Errors
///
/// Fails if it cannot be written.
pub(super) fn write(
    suite: &Path,
    step: &str,
    result: &Value,
    ignored: &[String],
) -> Result<(), CommandFailure> {
    let path = path(suite, step);
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    let text = pretty(&masked(result, ignored)) + "\n";
    let written = folder.and_then(|()| replace(&path, &text));
    written.map_err(|error| {
        CommandFailure::failed(format!("cannot write the snapshot {}: {error}", path.display()))
    })
}

/// Replaces a file at once, and not what it links to.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("json.new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::create_new(&new)?.write_all(text.as_bytes())?;
    fs::rename(&new, path)
}

/// Returns how a result differs from the snapshot of a step, if it does.
pub(super) fn check(suite: &Path, step: &str, result: &Value, ignored: &[String]) -> Option<Mismatch> {
    let path = path(suite, step);
    let expected = || format!("the snapshot {}", path.display());
    let differs = |found: String| Some(Mismatch::new("snapshot", expected(), found));
    let snapshot: Value = match read_text(&path, MAX_SNAPSHOT_BYTES) {
        Ok(text) => match serde_json::from_str(&text) {
            Ok(snapshot) => snapshot,
            Err(error) => return differs(format!("a file that is not JSON ({error}); --update writes it")),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return differs("no such file; --update writes it".to_owned());
        }
        Err(error) => return differs(error.to_string()),
    };
    let found = masked(result, ignored);
    // What is left out now may have been there when the snapshot was written.
    let snapshot = masked(&snapshot, ignored);
    (!is_equal(&snapshot, &found)).then(|| Mismatch::between("snapshot", &snapshot, &found))
}

/// Maximum size of a snapshot in bytes: larger than any result that a client takes.
const MAX_SNAPSHOT_BYTES: u64 = 256 << 20;
