//! Detection of process groups that contain only zombies, on Linux.
//!
//! A killed process whose parent is gone is reaped by process 1. In many containers that program reaps late or never.
//! Signal 0 to the group still reaches such a zombie, so the group looks alive.

use std::fs;

/// Returns whether group `id` has members that are all zombies; `false` when in doubt.
///
/// It reads the entry of every process in `/proc`, so use it in the rare case only.
pub(super) fn only_zombies(id: i32) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    let mut found = false;
    for process in processes.flatten() {
        let is_process = process.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit);
        // A process that exits meanwhile can no longer be read.
        let Some(stat) = is_process.then(|| fs::read(process.path().join("stat")).ok()).flatten() else {
            continue;
        };
        if let Some((state, group)) = state_and_group(&stat) {
            if group == id && !matches!(state, "Z" | "X") {
                return false;
            }
            found |= group == id;
        }
    }
    found
}

/// Reads fields 3 and 5 of `/proc/N/stat`: `N (name) state parent group …`. The name may contain any character.
fn state_and_group(stat: &[u8]) -> Option<(&str, i32)> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = core::str::from_utf8(&stat[name_end + 1..]).ok()?.split_ascii_whitespace();
    Some((fields.next()?, fields.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_line_yields_state_and_group() {
        assert_eq!(state_and_group(b"7 (a) Z (\xff) S 1 42 42 0 -1\n"), Some(("S", 42)));
        assert_eq!(state_and_group(b"7 (a"), None);
        assert_eq!(state_and_group(b"7 (a) S"), None);
    }

    #[test]
    fn group_of_this_process_is_not_only_zombies() {
        let group = rustix::process::getpgrp().as_raw_nonzero().get();
        assert!(!only_zombies(group));
        assert!(!only_zombies(i32::MAX));
    }
}
