//! A folder of sessions that several processes use, and processes that are killed while they write to it.

use alloc::sync::Arc;
use core::str;
use core::time::Duration;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use mcp_std::session_store::{FileSessionStore, SessionName, SessionStore, Swap, Watched};

use crate::support::{Folder, with_deadline};

/// The variable that tells a helper where the store is.
const STORE: &str = "MCP_TEST_SESSIONS";
const SESSION: SessionName = SessionName([7; 32]);
const LONG: Duration = Duration::from_secs(600);

/// Starts this program as a helper.
fn start(store: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["session_store::helper_counts_for_ever", "--exact", "--ignored", "--nocapture"])
        .env(STORE, store)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    (child, stdout)
}

/// A record or message: a number many times, so that a part of it is not one.
fn text(number: u64) -> Vec<u8> {
    format!("{number}.").into_bytes().repeat(usize::try_from(number % 7).unwrap() * 5_000 + 1)
}

#[track_caller]
fn number(record: &[u8]) -> u64 {
    let first = record.split(|byte| *byte == b'.').next().unwrap();
    let number = str::from_utf8(first).unwrap().parse().unwrap();
    assert!(record == text(number), "a part of {number}");
    number
}

#[test]
#[ignore = "a helper of `processes_killed_at_any_time_lose_no_change`"]
fn helper_counts_for_ever() {
    let store = FileSessionStore::open(std::env::var_os(STORE).unwrap()).unwrap();
    println!();
    loop {
        let stored = store.load(&SESSION).unwrap();
        let next = stored.as_ref().map_or(0, |stored| number(&stored.record)) + 1;
        let expected = stored.map(|stored| stored.version);
        if let Swap::Stored(_) = store.compare_and_set(&SESSION, expected, &text(next), LONG).unwrap() {
            println!("stored {next}");
            store.publish(&text(next)).unwrap();
        }
    }
}

#[test]
fn processes_killed_at_any_time_lose_no_change() {
    with_deadline(|| {
        let folder = Folder::new();
        let store = FileSessionStore::open(&folder.0).unwrap();
        let (sender, messages) = mpsc::channel();
        let receiver = move |watched: Watched<'_>| {
            let _ = sender.send(match watched {
                Watched::Message(message) => Some(number(message)),
                Watched::Gap => None,
            });
        };
        let watch = store.watch(Arc::new(receiver)).unwrap();
        let mut published = 0;
        for round in 0..30_u64 {
            let mut helpers: Vec<_> = (0..2).map(|_| start(&folder.0)).collect();
            let stored = |line: String| line.strip_prefix("stored ")?.parse::<u64>().ok();
            let mut reported = 0;
            for (_, stdout) in &mut helpers {
                reported = reported.max(stdout.lines().map(Result::unwrap).find_map(stored).unwrap());
            }
            // Spread over the steps of some changes.
            thread::sleep(Duration::from_micros(round * 7919 % 5000));
            for (child, _) in &mut helpers {
                child.kill().unwrap();
            }
            for (child, stdout) in &mut helpers {
                child.wait().unwrap();
                let last = stdout.lines().map(Result::unwrap).filter_map(stored).last();
                reported = reported.max(last.unwrap_or(0));
            }
            // Each counted on from the other, and each could not report its last change.
            let found = number(&store.load(&SESSION).unwrap().unwrap().record);
            assert!((reported..=reported + 2).contains(&found), "{found} after {reported}");
            published = found;
        }
        // Some were killed between a change and its message; the others arrived whole and once.
        store.publish(&text(0)).unwrap();
        let received: Vec<_> = messages.iter().take_while(|number| *number != Some(0)).collect();
        drop(watch);
        assert!(received.iter().all(Option::is_some), "a gap");
        let mut sorted: Vec<_> = received.iter().flatten().copied().collect();
        sorted.sort_unstable();
        let all = sorted.len();
        sorted.dedup();
        assert_eq!(sorted.len(), all, "a message came twice");
        assert!(all + 2 * 30 >= usize::try_from(published).unwrap(), "{all} of {published} messages");
    });
}
