//! A token store that several processes use, and processes that are killed while they use it.

use core::time::Duration;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

use mcp_auth::client::{Cancellation, FileStore, StoreError, TokenStore};

use crate::support::{Folder, with_deadline};

/// The variables that tell a helper what to do.
const STORE: &str = "MCP_TEST_STORE";
const NAME: &str = "MCP_TEST_NAME";
const LONG: Duration = Duration::from_secs(50);

/// Starts this program as a helper.
fn start(helper: &str, store: &Path, name: &str) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([&format!("token_store::{helper}"), "--exact", "--ignored", "--nocapture"])
        .env(STORE, store)
        .env(NAME, name)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    (child, stdout)
}

/// Returns the store and the name that a helper was started with.
fn helper_arguments() -> (FileStore, String) {
    (FileStore::new(std::env::var_os(STORE).unwrap()), std::env::var(NAME).unwrap())
}

fn number(store: &FileStore, key: &str) -> u32 {
    store.load(key).unwrap().map_or(0, |text| text.expose().split(' ').next().unwrap().parse().unwrap())
}

#[test]
#[ignore = "a helper of `increments_of_several_processes_are_not_lost`"]
fn helper_increments() {
    let (store, name) = helper_arguments();
    for n in 0..20 {
        // A key of its own, without a lock.
        store.save(&name, &n.to_string().into()).unwrap();
        let _lock = store.lock("shared", LONG, &Cancellation::new()).unwrap();
        let next = number(&store, "shared") + 1;
        store.save("shared", &next.to_string().into()).unwrap();
    }
}

#[test]
fn increments_of_several_processes_are_not_lost() {
    with_deadline(|| {
        let folder = Folder::new();
        let names = ["a", "b", "c", "d"];
        let helpers = names.map(|name| start("helper_increments", &folder.0.join("tokens.json"), name));
        for (mut child, stdout) in helpers {
            let output: Vec<_> = stdout.lines().map(Result::unwrap).collect();
            assert!(child.wait().unwrap().success(), "{output:?}");
        }
        let store = FileStore::new(folder.0.join("tokens.json"));
        assert_eq!(number(&store, "shared"), 80);
        assert_eq!(names.map(|name| number(&store, name)), [19; 4]);
    });
}

#[test]
#[ignore = "a helper of `lock_ends_with_the_process_that_has_it`"]
fn helper_keeps_the_lock() {
    let (store, name) = helper_arguments();
    let _lock = store.lock(&name, LONG, &Cancellation::new()).unwrap();
    println!("\nlocked");
    thread::sleep(LONG);
}

#[test]
fn lock_ends_with_the_process_that_has_it() {
    with_deadline(|| {
        let folder = Folder::new();
        let (mut child, stdout) = start("helper_keeps_the_lock", &folder.0.join("tokens.json"), "key");
        assert!(stdout.lines().map(Result::unwrap).any(|line| line == "locked"));
        let (store, free) = (FileStore::new(folder.0.join("tokens.json")), Cancellation::new());
        let refused = store.lock("key", Duration::from_millis(100), &free).unwrap_err();
        assert!(matches!(refused, StoreError::Locked { .. }), "{refused}");
        drop(store.lock("other", Duration::ZERO, &free).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        drop(store.lock("key", Duration::ZERO, &free).unwrap());
    });
}

#[test]
#[ignore = "a helper of `process_killed_at_any_time_leaves_a_whole_store`"]
fn helper_saves_for_ever() {
    let (store, name) = helper_arguments();
    let first: u32 = name.parse().unwrap();
    println!();
    for n in first.. {
        // Long enough for several writes of a slow disk.
        let filler = "x".repeat(usize::try_from(n % 7).unwrap() * 20_000);
        store.save("n", &format!("{n} {filler}.").into()).unwrap();
        println!("saved {n}");
    }
}

// covers: AUTH-064
#[test]
fn process_killed_at_any_time_leaves_a_whole_store() {
    with_deadline(|| {
        let folder = Folder::new();
        let store = FileStore::new(folder.0.join("tokens.json"));
        store.save("other", &"kept".into()).unwrap();
        let (mut last, mut left_behind) = (0, 0);
        for round in 0..2_000u32 {
            // Some have to be killed before the rename, otherwise this shows nothing.
            if round >= 60 && left_behind > 0 {
                break;
            }
            let (mut child, stdout) =
                start("helper_saves_for_ever", &folder.0.join("tokens.json"), &(last + 1).to_string());
            let mut lines = stdout.lines().map(Result::unwrap);
            lines.find(|line| line.starts_with("saved ")).unwrap();
            // Spread over the steps of some saves.
            thread::sleep(Duration::from_micros(u64::from(round * 7919 % 5000)));
            child.kill().unwrap();
            child.wait().unwrap();
            let reported = lines.filter_map(|line| line.strip_prefix("saved ")?.parse::<u32>().ok()).last();
            left_behind += u32::from(folder.0.join("tokens.json.tmp").exists());
            // The last one that was reported, or the one after it.
            let found = number(&store, "n");
            let reported = reported.unwrap_or(last + 1);
            assert!((reported..=reported + 1).contains(&found), "{found} after {reported}");
            assert!(store.load("n").unwrap().unwrap().expose().ends_with('.'));
            assert_eq!(store.load("other").unwrap().unwrap().expose(), "kept");
            last = found;
        }
        assert!(left_behind > 0);
        store.save("n", &"1".into()).unwrap();
        assert!(!folder.0.join("tokens.json.tmp").exists());
    });
}
