//! The lines of earlier shells, in a file that several shells share.

use core::time::Duration;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use mcp_proto_trace::Mask;
use mcp_std::durable_file::{FileLock, beside, replace_content};
use serde_json::Value;

use crate::output::{create_private_file, create_private_folder, state_folder};

/// A file with a line for each entry, the newest one last.
pub(super) struct History {
    file: Option<PathBuf>,
}

impl History {
    /// Returns the history of the user. Without a folder for state nothing is kept.
    pub(super) fn of_user() -> Self {
        Self { file: state_folder().map(|folder| folder.join("history")) }
    }

    /// Returns the newest entries.
    pub(super) fn read(&self) -> Vec<String> {
        let bytes = self.file.as_ref().and_then(|file| fs::read(file).ok()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().collect();
        lines.iter().skip(lines.len().saturating_sub(MAX_ENTRIES)).map(|line| decoded(line)).collect()
    }

    /// Adds an entry, unless it is [not to be kept](is_kept). Failures change nothing.
    pub(super) fn add(&self, entry: &str) {
        if let Some(file) = self.file.as_ref().filter(|_| is_kept(entry)) {
            let _ = append(file, &encoded(entry));
        }
    }
}

/// Appends a line, and drops the oldest ones beyond [`MAX_ENTRIES`]. Other shells wait meanwhile.
fn append(file: &Path, line: &str) -> io::Result<()> {
    create_private_folder(file.parent().unwrap_or(file))?;
    let until = Instant::now() + LOCK_TIMEOUT;
    let _lock = loop {
        match FileLock::try_new(&beside(file, "lock"))? {
            Some(lock) => break lock,
            None if Instant::now() >= until => return Err(io::ErrorKind::TimedOut.into()),
            None => thread::sleep(LOCK_INTERVAL),
        }
    };
    let before = match fs::read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_private_file(file)?;
            Vec::new()
        }
        read => read?,
    };
    set_private(file)?;
    let count = before.iter().filter(|byte| **byte == b'\n').count();
    if count < MAX_ENTRIES {
        return OpenOptions::new().append(true).open(file)?.write_all(format!("{line}\n").as_bytes());
    }
    let rest: Vec<_> = before.split_inclusive(|byte| *byte == b'\n').skip(count + 1 - MAX_ENTRIES).collect();
    replace_content(file, &[&rest.concat(), line.as_bytes(), b"\n"]).map_err(|error| error.error)
}

/// Takes a file from other users, who may have been able to read it.
fn set_private(file: &Path) -> io::Result<()> {
    #[cfg(unix)]
    fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}

/// Returns whether an entry may be kept: it has no blank at the beginning, and nothing in it looks like a secret.
pub(super) fn is_kept(entry: &str) -> bool {
    let mask = Mask::default();
    // A name may stand anywhere: before a value, in JSON with a typo, in a comment. So each word that can be one counts.
    let has_secret_name = |text: &str| {
        let is_in_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        text.split(|c| !is_in_name(c)).any(|name| mask.is_secret_name(name))
    };
    let words = shlex::split(entry).unwrap_or_default();
    let is_secret = has_secret_name(entry)
        || mask.words(entry) != entry
        || words.iter().any(|word| {
            // The JSON of `--args`, and behind `:=`, has members with names.
            let json = word.find(['{', '[']).and_then(|at| serde_json::from_str(word.get(at..)?).ok());
            has_secret_name(word)
                || mask.words(word) != *word
                || json.is_some_and(|json| has_secret(&json, &mask))
        });
    !entry.trim().is_empty()
        && !entry.starts_with([' ', '\t'])
        && entry.len() <= MAX_ENTRY_BYTES
        && !is_secret
}

/// Returns whether a value has a member whose name looks like that of a secret, at any depth.
fn has_secret(value: &Value, mask: &Mask) -> bool {
    match value {
        Value::Array(values) => values.iter().any(|value| has_secret(value, mask)),
        Value::Object(members) => {
            members.iter().any(|(name, value)| mask.is_secret_name(name) || has_secret(value, mask))
        }
        _ => false,
    }
}

/// Writes an entry as one line.
fn encoded(entry: &str) -> String {
    entry.replace('\\', "\\\\").replace('\n', "\\n")
}

fn decoded(line: &str) -> String {
    let (mut entry, mut chars) = (String::new(), line.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => entry.push('\n'),
                Some(other) => entry.push(other),
                None => {}
            },
            other => entry.push(other),
        }
    }
    entry
}

/// Maximum number of entries. The oldest one is dropped.
pub(super) const MAX_ENTRIES: usize = 1_000;
/// Maximum size of an entry. A longer one is not kept.
const MAX_ENTRY_BYTES: usize = 4_096;
/// Time to wait for another shell, which holds the lock for the time of a write.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use std::env;
    use std::process;

    use super::*;

    #[test]
    fn lines_with_secrets_and_after_a_blank_are_not_kept() {
        for (entry, want) in [
            ("call add a=1", true),
            (" call add a=1", false),
            ("call login user=ada password=x", false),
            ("call login 'API-KEY=a b'", false),
            ("call login token:=5", false),
            ("call echo text=ghp_0123456789abcdefghijABCDEFGHIJ012345", false),
            (r#"call login --args '{"password": "x"}'"#, false),
            (r#"call echo --args '{"text": "x"}'"#, true),
            (r#"call t --args '{"password": "hunter2",}'"#, false),
            (r#"call t 'x[0]:={"token":"hunter4"}'"#, false),
            (r#"call t --args '{"j":"{\"password\":\"hunter5\"}"}'"#, false),
            ("complete prompt:login password hunter3", false),
            ("call t password hunter9", false),
            ("call t password = hunter11", false),
            ("call t pass'word'=hunter12", false),
            ("ping # password=x", false),
            ("call t passwordless=yes", true),
            ("", false),
        ] {
            assert_eq!(is_kept(entry), want, "{entry}");
        }
    }

    #[test]
    fn history_of_two_shells_is_bounded_and_complete() {
        let folder = env::temp_dir().join(format!("mcp-probe-history-{}", process::id()));
        let shells = [0, 1].map(|_| History { file: Some(folder.join("history")) });
        thread::scope(|scope| {
            for (shell, name) in shells.iter().zip(["a", "b"]) {
                scope.spawn(move || (0..60).for_each(|n| shell.add(&format!("call {name}{n} \\ 'x\ny'"))));
            }
        });
        let entries = shells[0].read();
        assert_eq!(entries.len(), 120);
        for name in ["a", "b"] {
            let own: Vec<_> =
                entries.iter().filter(|entry| entry.starts_with(&format!("call {name}"))).collect();
            let want: Vec<_> = (0..60).map(|n| format!("call {name}{n} \\ 'x\ny'")).collect();
            assert!(own.into_iter().eq(&want), "in order, and as they were typed");
        }
        let many: String = (0..MAX_ENTRIES + 5).map(|n| format!("ping {n}\n")).collect();
        fs::write(folder.join("history"), many).expect("a file");
        shells[1].add("quit");
        let entries = shells[0].read();
        assert_eq!((entries.len(), &*entries[0]), (MAX_ENTRIES, "ping 6"));
        assert_eq!(entries.last().map(String::as_str), Some("quit"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let file = folder.join("history");
            // A file that is there already may be readable for others.
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("a file");
            shells[1].add("ping");
            let mode = fs::metadata(file).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        fs::remove_dir_all(folder).expect("removed");
    }
}
