//! A folder of tasks that several processes want, and processes that are killed while they write to it.

use core::time::Duration;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

use mcp_std::task_store::{FileTaskStore, StoredTask, TaskStore, TaskStoreError};

use crate::support::{Folder, with_deadline};

/// The variables that tell a helper what to do.
const STORE: &str = "MCP_TEST_STORE";
const FIRST: &str = "MCP_TEST_FIRST";
const TASKS: u64 = 5;

/// Starts this program as a helper.
fn start(helper: &str, store: &Path, first: u64) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([&format!("task_store::{helper}"), "--exact", "--ignored", "--nocapture"])
        .env(STORE, store)
        .env(FIRST, first.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    (child, stdout)
}

fn id(version: u64) -> String {
    format!("task-{}", version % TASKS)
}

fn record(version: u64) -> Vec<u8> {
    // Long enough for several writes of a slow disk.
    format!("{version}.").into_bytes().repeat(usize::try_from(version % 7).unwrap() * 5_000 + 1)
}

#[test]
#[ignore = "a helper of `process_killed_at_any_time_loses_no_task`"]
fn helper_saves_for_ever() {
    let store = FileTaskStore::open(std::env::var_os(STORE).unwrap()).unwrap();
    let first: u64 = std::env::var(FIRST).unwrap().parse().unwrap();
    println!();
    for version in first.. {
        store.save(&id(version), version, &record(version)).unwrap();
        println!("saved {version}");
    }
}

// covers: TASK-109
#[test]
fn process_killed_at_any_time_loses_no_task() {
    with_deadline(|| {
        let folder = Folder::new();
        let (mut last, mut left_behind) = (0, 0);
        for round in 0..2_000_u32 {
            // Some have to be killed before the rename, otherwise this shows nothing.
            if round >= 40 && left_behind > 0 {
                break;
            }
            let (mut child, stdout) = start("helper_saves_for_ever", &folder.0, last + 1);
            let mut lines = stdout.lines().map(Result::unwrap);
            lines.find(|line| line.starts_with("saved ")).unwrap();
            // Spread over the steps of some saves.
            thread::sleep(Duration::from_micros(u64::from(round * 7919 % 5000)));
            child.kill().unwrap();
            child.wait().unwrap();
            let reported = lines.filter_map(|line| line.strip_prefix("saved ")?.parse::<u64>().ok()).last();
            let reported = reported.unwrap_or(last + 1);
            let names = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path());
            left_behind +=
                u32::from(names.into_iter().any(|path| path.extension().is_some_and(|e| e == "tmp")));

            let store = FileTaskStore::open(&folder.0).unwrap();
            let loaded = store.load().unwrap();
            assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
            let newest = loaded.tasks.iter().map(|task| task.version).max().unwrap();
            // The last one that was reported, or the one after it.
            assert!((reported..=reported + 1).contains(&newest), "{newest} after {reported}");
            // Each task has its newest version, whole.
            assert_eq!(u64::try_from(loaded.tasks.len()).unwrap(), newest.min(TASKS));
            for StoredTask { id: found, version, record: content, .. } in loaded.tasks {
                assert!(
                    found == id(version) && version + TASKS > newest && content == record(version),
                    "{version}"
                );
            }
            last = newest;
        }
        assert!(left_behind > 0);
    });
}

#[test]
#[ignore = "a helper of `folder_belongs_to_one_process`"]
fn helper_keeps_the_folder() {
    let _store = FileTaskStore::open(std::env::var_os(STORE).unwrap()).unwrap();
    println!("\nopened");
    thread::sleep(Duration::from_secs(50));
}

#[test]
fn folder_belongs_to_one_process() {
    with_deadline(|| {
        let folder = Folder::new();
        let (mut child, stdout) = start("helper_keeps_the_folder", &folder.0, 0);
        assert!(stdout.lines().map(Result::unwrap).any(|line| line == "opened"));
        let refused = FileTaskStore::open(&folder.0).unwrap_err();
        assert!(matches!(refused, TaskStoreError::InUse { .. }), "{refused}");
        child.kill().unwrap();
        child.wait().unwrap();
        FileTaskStore::open(&folder.0).unwrap();
    });
}
