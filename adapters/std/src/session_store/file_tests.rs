//! The store in a folder: faults at each step of a change, foreign files, expired files, and messages that are not whole.

use alloc::format;
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::time::Duration;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::SystemTime;

use super::message_log::{Follower, MessageLog};
use super::*;
use crate::durable_file::FileLock;
use crate::durable_file::step_tests::{self, Change, Progress};
use crate::folder_in_tests::Folder;
use crate::testing::session_store::Store;

impl Store for Folder {
    fn create() -> Option<Self> {
        Some(Self::new())
    }

    fn open(&self) -> Arc<dyn SessionStore> {
        Arc::new(FileSessionStore::open(&self.0).unwrap())
    }

    fn damage(&self, session: &SessionName) -> bool {
        let path = self.path_of(session);
        let expires = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, "anything").unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(expires).unwrap();
        true
    }
}

crate::session_store_tests!(Folder);

impl Folder {
    fn path_of(&self, session: &SessionName) -> PathBuf {
        self.0.join(format!("{}.session", session.to_hex()))
    }

    fn records(&self) -> usize {
        self.names().iter().filter(|name| name.contains(".session")).count()
    }
}

const A: SessionName = SessionName([0xa1; 32]);
const B: SessionName = SessionName([0xb2; 32]);
const LONG: Duration = Duration::from_secs(600);

fn set(store: &dyn SessionStore, session: &SessionName, expected: Option<u64>, record: &[u8]) -> u64 {
    match store.compare_and_set(session, expected, record, LONG).unwrap() {
        Swap::Stored(version) => version,
        Swap::Conflict(found) => panic!("{found:?}"),
    }
}

fn record(store: &dyn SessionStore, session: &SessionName) -> Option<Vec<u8>> {
    store.load(session).unwrap().map(|stored| stored.record)
}

fn open(folder: &Folder) -> FileSessionStore {
    FileSessionStore::open(&folder.0).unwrap()
}

fn set_first(store: &FileSessionStore) {
    set(store, &A, None, b"first");
}

/// The records of A and B.
type Records = [Option<&'static [u8]>; 2];

/// Changes of a folder in which A is stored, and the records of A and B then.
fn changes() -> [(Change<FileSessionStore, SessionStoreError>, Records); 3] {
    [
        (
            |store| {
                let version = store.load(&A)?.map(|stored| stored.version);
                store.compare_and_set(&A, version, b"second", LONG).map(drop)
            },
            [Some(b"second"), None],
        ),
        (|store| store.compare_and_set(&B, None, b"other", LONG).map(drop), [Some(b"first"), Some(b"other")]),
        (|store| store.remove(&A), [None, None]),
    ]
}

const BEFORE: Records = [Some(b"first"), None];

fn check_records(store: &FileSessionStore, after: Records, progress: Progress) {
    let found = [record(store, &A), record(store, &B)];
    let found = found.each_ref().map(|record| record.as_deref());
    assert_eq!(found, if progress.is_made() { after } else { BEFORE }, "{progress:?}");
}

#[test]
fn process_that_ends_at_any_step_leaves_the_old_record_or_the_new_one() {
    for (change, after) in changes() {
        step_tests::crash_at_each_step(open, set_first, change, |folder, store, progress| {
            check_records(&store, after, progress);
            // What it left of a new record goes with the next sweep, and disturbs no change.
            change(&store).unwrap();
            drop(open(folder));
            assert!(folder.names().iter().all(|name| !name.ends_with(".tmp")), "{:?}", folder.names());
        });
    }
}

#[test]
fn full_disk_at_any_step_is_an_error_and_loses_nothing() {
    for (change, after) in changes() {
        step_tests::fill_disk_at_each_step(open, set_first, change, |store, error, progress| {
            assert!(matches!(error, SessionStoreError::Io { .. }), "{error:?}");
            check_records(store, after, progress);
        });
    }
}

#[test]
fn files_that_are_no_record_have_version_0_or_are_left_alone() {
    let folder = Folder::new();
    let store = FileSessionStore::open(&folder.0).unwrap();
    set(&store, &A, None, b"record");
    let whole = fs::read(folder.path_of(&A)).unwrap();
    let header = whole.len() - b"record".len();
    let mut cases: Vec<Vec<u8>> = (0..header).map(|length| whole[..length].into()).collect();
    cases.push([b"mcp-session 2 5\n".as_slice(), b"record"].concat());
    for version in ["0", "-1", "18446744073709551615", "18446744073709551616", "1 ", "x"] {
        cases.push(format!("mcp-session 1 {version}\nrecord").into_bytes());
    }
    cases.push(vec![b'1'; 5000]);
    for content in cases {
        fs::write(folder.path_of(&A), &content).unwrap();
        let file = fs::File::options().write(true).open(folder.path_of(&A)).unwrap();
        file.set_modified(SystemTime::now() + LONG).unwrap();
        assert_eq!(store.load(&A).unwrap(), Some(StoredSession { version: 0, record: content }));
    }
    let foreign = ["README", "0123.session", "a.tmp", &format!("{}.session", A.to_hex().to_uppercase())];
    for name in foreign {
        fs::write(folder.0.join(name), name).unwrap();
    }
    fs::create_dir(folder.path_of(&B)).unwrap();
    assert_eq!(store.load(&B).unwrap().unwrap().version, 0);
    store.touch(&[B], LONG).unwrap();
    assert!(store.compare_and_set(&B, Some(0), b"", LONG).is_err());
    assert!(store.remove(&B).is_err());
    drop(FileSessionStore::open(&folder.0).unwrap());
    assert!(foreign.iter().all(|name| fs::read_to_string(folder.0.join(name)).unwrap() == *name));
    assert!(folder.path_of(&B).is_dir());
}

#[test]
fn files_of_expired_records_are_removed_unless_a_writer_has_them() {
    let folder = Folder::new();
    let store = FileSessionStore::open(&folder.0).unwrap();
    set(&store, &A, None, b"long");
    store.compare_and_set(&B, None, b"short", Duration::ZERO).unwrap();
    fs::write(folder.0.join(format!("{}.session.tmp", B.to_hex())), "of a process that was killed").unwrap();
    thread::sleep(Duration::from_millis(5));
    let writer = FileLock::try_new(&folder.0.join("records-b.lock")).unwrap().unwrap();
    drop(FileSessionStore::open(&folder.0).unwrap());
    assert_eq!(folder.records(), 3);
    drop(writer);
    drop(FileSessionStore::open(&folder.0).unwrap());
    assert_eq!(folder.records(), 1);
    assert_eq!(record(&store, &A).unwrap(), b"long");
}

#[test]
fn writer_that_waits_for_another_one_gives_up_after_a_time() {
    let folder = Folder::new();
    let store = FileSessionStore::open(&folder.0).unwrap();
    let writer = FileLock::try_new(&folder.0.join("records-a.lock")).unwrap().unwrap();
    assert!(matches!(store.compare_and_set(&A, None, b"", LONG), Err(SessionStoreError::TimedOut)));
    // Neither readers nor other records wait.
    assert_eq!(store.load(&A).unwrap(), None);
    set(&store, &B, None, b"");
    let freed = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        drop(writer);
    });
    set(&store, &A, None, b"");
    freed.join().unwrap();
}

#[test]
fn records_and_messages_that_are_too_large_are_refused() {
    let folder = Folder::new();
    let store = FileSessionStore::open(&folder.0).unwrap();
    let large = vec![7; (16 << 20) + 1];
    let text = "a record or message of sessions has 16777217 bytes, and the store takes 16777216";
    assert_eq!(store.compare_and_set(&A, None, &large, LONG).unwrap_err().to_string(), text);
    assert_eq!(store.publish(&large).unwrap_err().to_string(), text);
    assert_eq!(folder.records(), 0);
    set(&store, &A, None, &large[1..]);
    assert!(record(&store, &A).unwrap() == large[1..]);
}

#[test]
fn numbers_of_processes_do_not_return_after_their_file_was_lost() {
    let folder = Folder::new();
    let store = FileSessionStore::open(&folder.0).unwrap();
    let first = store.join().unwrap();
    fs::write(folder.0.join("processes"), "garbage \u{e4}").unwrap();
    thread::sleep(Duration::from_millis(1001));
    let second = store.join().unwrap();
    fs::write(folder.0.join("processes"), format!("{}", second + 100)).unwrap();
    assert!(first < second && store.join().unwrap() == second + 101);
}

#[cfg(unix)]
#[test]
fn files_and_created_folders_are_closed_to_others() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let below = folder.0.join("sessions");
    let store = FileSessionStore::open(&below).unwrap();
    set(&store, &A, None, b"");
    store.join().unwrap();
    store.publish(b"").unwrap();
    let mut seen = 0;
    for folder in [&below, &below.join("messages")] {
        assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let found = entry.metadata().unwrap();
            assert!(found.is_dir() || found.permissions().mode() & 0o777 == 0o600, "{entry:?}");
            seen += 1;
        }
    }
    assert!(seen >= 7, "{seen} files");
}

fn log(folder: &Folder) -> MessageLog {
    MessageLog::new(folder.0.clone())
}

/// Returns the messages since the last call, and `gap`.
fn poll(follower: &mut Follower) -> Vec<Vec<u8>> {
    let received = RefCell::new(Vec::new());
    let receiver = |watched: Watched<'_>| {
        received.borrow_mut().push(match watched {
            Watched::Message(message) => message.to_vec(),
            Watched::Gap => b"gap".to_vec(),
        });
    };
    follower.poll(&receiver).unwrap();
    received.into_inner()
}

/// The newest file of messages.
fn newest(folder: &Folder) -> PathBuf {
    folder.0.join(folder.names().last().unwrap())
}

#[test]
fn full_file_of_messages_is_followed_by_another_one_and_two_are_kept() {
    let folder = Folder::new();
    let log = log(&folder);
    let mut follower = log.follow().unwrap();
    let mut slow = log.follow().unwrap();
    let large = vec![7; 5 << 20];
    for round in 0..7 {
        log.append(&large).unwrap();
        log.append(b"small").unwrap();
        assert!(poll(&mut follower) == [large.clone(), b"small".to_vec()], "round {round}");
        assert!(folder.names().len() <= 2);
    }
    // Two files were removed before it came.
    let received = poll(&mut slow);
    assert_eq!(received.iter().filter(|message| *message == b"gap").count(), 1);
    assert!(received.ends_with(&[large, b"small".to_vec()]));
    log.append(b"next").unwrap();
    assert_eq!([poll(&mut slow), poll(&mut follower)], [[b"next".to_vec()], [b"next".to_vec()]]);
}

#[test]
fn message_of_a_writer_that_was_killed_is_not_read() {
    let folder = Folder::new();
    let log = log(&folder);
    let mut follower = log.follow().unwrap();
    log.append(b"first").unwrap();
    // The length and a part of a message, whose end was not written.
    let mut file = fs::File::options().append(true).open(newest(&folder)).unwrap();
    file.write_all(&[100, 0, 0, 0, 1, 2, 3]).unwrap();
    assert_eq!(poll(&mut follower), [b"first"]);
    log.append(b"second, which is longer").unwrap();
    log.append(b"third").unwrap();
    assert_eq!(poll(&mut follower), [&b"second, which is longer"[..], b"third"]);
    assert_eq!(folder.names().len(), 1);
}

fn end(end: u64) -> Vec<u8> {
    end.to_le_bytes().to_vec()
}

#[test]
fn damaged_file_of_messages_is_a_gap_and_what_follows_arrives() {
    type Damage = fn(&[u8]) -> Vec<u8>;
    let damages: [Damage; 6] = [
        |_| Vec::new(),
        |_| b"garbage".to_vec(),
        |whole| [&end(u64::MAX), &whole[8..]].concat(),
        |whole| [&end(3), &whole[8..]].concat(),
        // An end before the position of the reader, and a message that is longer than the file.
        |whole| [&end(8), &whole[8..]].concat(),
        |whole| [&end(whole.len() as u64 + 8)[..], &whole[8..], &[0xff; 8]].concat(),
    ];
    for (case, damage) in damages.into_iter().enumerate() {
        let folder = Folder::new();
        let log = log(&folder);
        let mut follower = log.follow().unwrap();
        log.append(b"first").unwrap();
        assert_eq!(poll(&mut follower), [b"first"]);
        let whole = fs::read(newest(&folder)).unwrap();
        fs::write(newest(&folder), damage(&whole)).unwrap();
        let mut received = poll(&mut follower);
        for number in 0..4 {
            log.append(format!("message {number}").as_bytes()).unwrap();
            received.extend(poll(&mut follower));
        }
        assert!(received.contains(&b"gap".to_vec()) || received.len() == 4, "case {case}: {received:?}");
        assert_eq!(received.last().unwrap(), b"message 3", "case {case}");
    }
}

#[test]
fn watch_goes_on_after_the_folder_of_messages_was_emptied() {
    let folder = Folder::new();
    let store = FileSessionStore::open(&folder.0).unwrap();
    let (sender, received) = mpsc::channel();
    let receiver = move |watched: Watched<'_>| {
        let message = match watched {
            Watched::Message(message) => message.to_vec(),
            Watched::Gap => b"gap".to_vec(),
        };
        let _ = sender.send(message);
    };
    let watch = store.watch(Arc::new(receiver)).unwrap();
    store.publish(b"first").unwrap();
    let next = || received.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(next(), b"first");
    for entry in fs::read_dir(folder.0.join("messages")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    store.publish(b"second").unwrap();
    // The file has a number that was not used before.
    assert_eq!([next(), next()], [&b"gap"[..], b"second"]);
    drop(watch);
}
