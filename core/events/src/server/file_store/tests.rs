use std::{fs, process};

use mcp_proto::RawJson;

use super::*;
use crate::source::LogLimits;
use crate::store::{Snapshot, log_records};
use crate::wire::EventOccurrence;

/// A folder of a test, which it leaves empty.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mcp-events-{}-{name}", process::id()));
        fs::create_dir(&path).expect("a folder");
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("events.jsonl")
    }

    fn open(&self) -> FileStore {
        FileStore::open(self.file()).expect("a store")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn log() -> Record {
    Record::Log { name: "mail".into(), epoch: 7, first: 0, limits: LogLimits::default() }
}

fn event(position: u64, text: &str) -> Record {
    let data = RawJson::new(format!(r#"{{"text":"{text}"}}"#)).expect("JSON");
    let event = EventOccurrence::new(format!("evt-{position}"), "mail", "2026-11-25T10:00:00Z", data);
    Record::Event { position, at: 1, event }
}

fn refused(folder: &Folder) -> FileStoreError {
    FileStore::open(folder.file()).expect_err("no store")
}

#[test]
fn file_is_for_its_owner_and_for_one_server() {
    let folder = Folder::new("owner");
    fs::write(folder.file(), "").expect("a file");
    let store = folder.open();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: PathBuf| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
        assert_eq!(mode(folder.file()), 0o600);
        store.replace(&[log()]).expect("a snapshot");
        store.append(&[event(0, "a")]).expect("a record");
        assert_eq!((mode(folder.file()), mode(beside(&folder.file(), "lock"))), (0o600, 0o600));
    }
    let error = refused(&folder);
    assert!(matches!(error, FileStoreError::InUse { .. }), "{error}");
    assert_eq!(io::Error::from(error).kind(), ErrorKind::WouldBlock);
    drop(store);
    folder.open();
    let missing = FileStore::open(folder.0.join("none/events.jsonl")).expect_err("no folder");
    assert!(matches!(missing, FileStoreError::Io { operation: "lock", .. }), "{missing}");
}

#[test]
fn records_are_there_again_after_each_kind_of_end() {
    let folder = Folder::new("end");
    let store = folder.open().flush_events(false);
    assert_eq!(store.load().expect("empty"), []);
    let mut all = Vec::from([log()]);
    store.append(&all).expect("records");
    for position in 0..9 {
        all.push(event(position, "\u{e9}"));
        store.append(&all[all.len() - 1..]).expect("a record");
    }
    assert_eq!(store.load().expect("while it is open"), all);
    drop(store);
    let whole = fs::read(folder.file()).expect("a file");
    // The last line ends anywhere, also within a character, or is zeros: it was never acknowledged.
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').expect("lines") + 1;
    for end in last..whole.len() {
        let mut torn = whole[..end].to_vec();
        torn.resize(torn.len() + end % 3, 0);
        fs::write(folder.file(), torn).expect("a file");
        let store = folder.open();
        assert_eq!(store.load().expect("the others"), all[..all.len() - 1]);
        store.append(&all[all.len() - 1..]).expect("again");
        drop(store);
        assert_eq!(fs::read(folder.file()).expect("a file"), whole);
    }
    // Not even the first line was written.
    fs::write(folder.file(), &HEADER[..5]).expect("a file");
    assert_eq!(folder.open().load().expect("empty"), []);
    assert_eq!(fs::read(folder.file()).expect("a file"), format!("{HEADER}\n").as_bytes());
}

#[test]
fn damaged_file_is_refused_with_the_place_and_without_its_content() {
    let folder = Folder::new("damaged");
    let good = log().to_line().expect("text");
    for (content, line) in [
        ("marker\n".into(), 1),
        (format!("{good}\n"), 1),
        ("{\"mcp-events\":2}\n".into(), 1),
        (format!("{HEADER}\n{good}\nmarker\n{good}\n"), 3),
        (format!("{HEADER}\n\n"), 2),
        (format!("{HEADER}\n{{\"log\":{{\"name\":[\"marker\"]}}}}\n"), 2),
        (format!("{HEADER}\n{{\"later\":\"marker\"}}\n"), 2),
        (format!("{HEADER}\n{good}\n{{\"subscriptionEnded\":{{\"id\":\"marker\u{0}\"}}}}\n"), 3),
    ] {
        fs::write(folder.file(), &content).expect("a file");
        let error = refused(&folder);
        assert!(
            matches!(error, FileStoreError::Damaged { line: at, .. } if at == line),
            "{error}: {content}"
        );
        assert!(!error.to_string().contains("marker"), "{error}");
        assert_eq!(fs::read(folder.file()).expect("a file"), content.as_bytes(), "it stays as it is");
    }
    fs::write(folder.file(), [HEADER.as_bytes(), b"\n\xff\n"].concat()).expect("a file");
    assert!(matches!(refused(&folder), FileStoreError::Damaged { line: 2, .. }));
}

#[test]
fn file_that_has_grown_is_replaced_by_its_snapshot() {
    let folder = Folder::new("snapshot");
    let store = folder.open().flush_events(false);
    store.append(&[log()]).expect("a record");
    let text = "x".repeat(1 << 16);
    let (mut snapshots, mut largest) = (0, 0);
    for position in 0..200 {
        if store.wants_snapshot() {
            let snapshot: Snapshot = store.load().expect("records").into_iter().collect();
            let live: Vec<Record> = log_records("mail", &snapshot.logs["mail"]).collect();
            store.replace(&live).expect("a snapshot");
            snapshots += 1;
            assert!(!store.wants_snapshot());
        }
        store.append(&[event(position, &text)]).expect("a record");
        largest = largest.max(fs::metadata(folder.file()).expect("a file").len());
    }
    // The log keeps a mebibyte.
    assert!(snapshots > 5 && largest < 5 << 19, "{snapshots} of {largest} bytes");
    drop(store);
    let records = folder.open().load().expect("records");
    assert!(matches!(records.last(), Some(Record::Event { position: 199, .. })));
    assert!(!beside(&folder.file(), "tmp").exists());
}

#[test]
fn file_that_cannot_be_replaced_goes_on() {
    let folder = Folder::new("replaced");
    let store = folder.open().flush_events(false);
    // Where the new content would be written.
    fs::create_dir(beside(&folder.file(), "tmp")).expect("a folder");
    let text = "x".repeat(1 << 16);
    let mut tried = 0;
    let mut all = Vec::from([log()]);
    store.append(&all).expect("a record");
    for position in 0..100 {
        let next = event(position, &text);
        store.append(core::slice::from_ref(&next)).expect("a record");
        all.push(next);
        if store.wants_snapshot() {
            store.replace(&[log()]).expect_err("no place");
            tried += 1;
        }
    }
    assert_eq!(tried, 3, "at one mebibyte, at two, and at four");
    drop(store);
    assert_eq!(folder.open().load().expect("records"), all);
}

#[test]
fn size_is_bounded_and_what_is_refused_leaves_nothing() {
    let folder = Folder::new("size");
    let store = folder.open().max_bytes(1_000);
    store.append(&[log(), event(0, "a")]).expect("records");
    let before = fs::read(folder.file()).expect("a file");
    let error = store.append(&[event(1, "b"), event(2, &"x".repeat(1_000))]).expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(store.replace(&[event(1, &"x".repeat(1_000))]).is_err());
    assert_eq!(fs::read(folder.file()).expect("a file"), before);
    store.append(&[event(1, "b")]).expect("it is as it was");
    drop(store);
    let file = OpenOptions::new().write(true).open(folder.file()).expect("a file");
    file.set_len(FileStore::MAX_BYTES + 1).expect("a sparse file");
    assert!(matches!(refused(&folder), FileStoreError::TooLarge { .. }));
}

#[test]
fn record_that_was_torn_is_removed_before_anything_is_written() {
    let folder = Folder::new("torn");
    let store = folder.open().flush_events(false);
    store.append(&[log(), event(0, "a")]).expect("records");
    let whole = fs::read(folder.file()).expect("a file");
    // The disk takes a part of two records, and neither the rest nor that it is cut off again.
    let torn = format!("{}\n{{\"event\":", event(1, &"x".repeat(500)).to_line().expect("text"));
    fs::write(folder.file(), [&*whole, torn.as_bytes()].concat()).expect("a file");
    let broken = || File::open(folder.file()).expect("a file that cannot be written to");
    store.lock().file = Some(broken());
    for _ in 0..2 {
        assert!(store.append(&[event(1, "b")]).is_err());
        assert!(store.replace(&[log()]).is_err(), "its size is not known");
        assert!(store.load().is_err(), "a record that was refused would be among them");
        assert_eq!(fs::metadata(folder.file()).expect("a file").len(), (whole.len() + torn.len()) as u64);
    }
    // It recovers. The next record is shorter than what it replaces.
    store.lock().file = Some(open(&folder.file()).expect("a file"));
    store.append(&[event(1, "b")]).expect("a record");
    assert_eq!(store.load().expect("records"), [log(), event(0, "a"), event(1, "b")]);
    drop(store);
    assert_eq!(folder.open().load().expect("records"), [log(), event(0, "a"), event(1, "b")]);
    // What was read before the failure is not what is there behind it.
    let store = folder.open();
    store.lock().file = Some(broken());
    assert!(store.append(&[event(2, "c")]).is_err() && store.load().is_err());
    store.lock().file = Some(open(&folder.file()).expect("a file"));
    assert_eq!(store.load().expect("records").len(), 3);
    store.replace(&[log()]).expect("a snapshot");
    assert_eq!(store.load().expect("records"), [log()]);
}
