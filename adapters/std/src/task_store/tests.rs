//! The file store: faults at each step of a change, files that are not whole, versions, ids; and the worker.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use std::fs;
#[cfg(unix)]
use std::path::Path;
use std::path::PathBuf;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Instant;

use super::file::{FileKind, file_kind, file_name, header_line};
use super::*;
use crate::durable_file::step_tests::{self, Change};
use crate::folder_in_tests::Folder;

impl Folder {
    fn open(&self) -> FileTaskStore {
        FileTaskStore::open(&self.0).unwrap()
    }

    fn file(&self, id: &str) -> PathBuf {
        self.0.join(file_name(id))
    }
}

const A: &str = "AAECAwQFBgcICQoLDA0ODw";
const B: &str = "aaECAwQFBgcICQoLDA0OD-";

/// Returns the stored tasks in the order of their ids.
fn stored(store: &dyn TaskStore) -> Vec<Row> {
    let loaded = store.load().unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    let mut tasks: Vec<_> =
        loaded.tasks.into_iter().map(|task| (task.id, task.version, task.record)).collect();
    tasks.sort();
    tasks
}

fn task(id: &str, version: u64, record: &[u8]) -> Row {
    (id.into(), version, record.into())
}

#[test]
fn store_returns_the_last_version_of_each_task() {
    let folder = Folder::new();
    let every_byte: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    {
        let store = folder.open();
        assert_eq!(stored(&store), []);
        store.save(A, 1, b"one").unwrap();
        store.save(B, 1, b"").unwrap();
        store.save(A, 2, &every_byte).unwrap();
    }
    let store = folder.open();
    assert_eq!(stored(&store), [task(A, 2, &every_byte), task(B, 1, b"")]);
    store.delete(A, 2).unwrap();
    store.delete(A, 3).unwrap();
    assert_eq!(stored(&store), [task(B, 1, b"")]);
}

#[test]
fn older_version_never_replaces_or_deletes_a_newer_one() {
    let folder = Folder::new();
    let store = folder.open();
    store.save(A, 7, b"seven").unwrap();
    store.save(A, 6, b"six").unwrap();
    store.delete(A, 6).unwrap();
    assert_eq!(stored(&store), [task(A, 7, b"seven")]);
    // A repetition of a save whose end is unknown.
    store.save(A, 7, b"seven").unwrap();
    store.save(A, u64::MAX, b"last").unwrap();
    assert_eq!(stored(&store), [task(A, u64::MAX, b"last")]);
    store.delete(A, u64::MAX).unwrap();
    assert_eq!(stored(&store), []);
}

#[test]
fn ids_that_could_be_paths_are_refused() {
    let folder = Folder::new();
    let store = folder.open();
    let long = "x".repeat(65);
    for id in ["", ".", "..", "../a", "a/b", "a\\b", "C:", "a.task", "a b", "a\n", "a\0", "\u{e4}", &long] {
        assert!(matches!(store.save(id, 1, b""), Err(TaskStoreError::InvalidId)), "{id:?}");
        assert!(matches!(store.delete(id, 1), Err(TaskStoreError::InvalidId)), "{id:?}");
    }
    assert_eq!(folder.names(), ["lock"]);
    for id in ["con", "NUL", "-", "__", &long[1..]] {
        store.save(id, 1, id.as_bytes()).unwrap();
    }
    assert_eq!(stored(&store).len(), 5);
}

// covers: TASK-131
#[test]
fn names_and_errors_do_not_tell_ids() {
    let folder = Folder::new();
    let store = folder.open();
    store.save(A, 1, b"secret").unwrap();
    assert_eq!(folder.names().len(), 2);
    assert!(folder.names().iter().all(|name| !name.contains(A) && name.to_lowercase() == *name));
    fs::write(folder.file(A), b"secret").unwrap();
    let loaded = store.load().unwrap();
    let shown = format!("{loaded:?} {}", loaded.problems[0]);
    let job = TaskStoreJob::Save { id: A.into(), version: 1, record: (*b"secret").into() };
    let stored = StoredTask { id: A.into(), version: 1, record: b"secret".to_vec() };
    for shown in [shown, format!("{job:?} {stored:?} {store:?}")] {
        assert!(!shown.contains(A) && !shown.contains("secret") && !shown.contains("115, 101"), "{shown}");
    }
}

#[test]
fn folder_belongs_to_one_store() {
    let folder = Folder::new();
    let first = folder.open();
    let refused = FileTaskStore::open(&folder.0).unwrap_err();
    assert!(matches!(&refused, TaskStoreError::InUse { path } if *path == folder.0));
    assert_eq!(
        refused.to_string(),
        format!(
            "the task store {} is in use by another server: give each server a folder of its own",
            folder.0.display()
        )
    );
    drop(first);
    drop(folder.open());
    let below = folder.0.join("a").join("b");
    drop(FileTaskStore::open(&below).unwrap());
    let file = below.join("lock");
    let refused = FileTaskStore::open(&file).unwrap_err();
    assert!(refused.to_string().contains("cannot create the folder"), "{refused}");
}

#[cfg(unix)]
#[test]
fn files_and_created_folders_are_closed_to_others() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let below = folder.0.join("tasks");
    let store = FileTaskStore::open(&below).unwrap();
    store.save(A, 1, b"").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&below), 0o700);
    assert_eq!((mode(&below.join(file_name(A))), mode(&below.join("lock"))), (0o600, 0o600));
}

/// A stored task: id, version and record.
type Row = (String, u64, Vec<u8>);

/// Changes of a folder in which A is stored with version 1, and what is stored then.
fn changes() -> [(Change<FileTaskStore, TaskStoreError>, Vec<Row>); 3] {
    [
        (|store| store.save(A, 2, b"second"), [task(A, 2, b"second")].into()),
        (|store| store.save(B, 1, b"other"), [task(A, 1, b"first"), task(B, 1, b"other")].into()),
        (|store| store.delete(A, 1), Vec::new()),
    ]
}

fn save_first(store: &FileTaskStore) {
    store.save(A, 1, b"first").unwrap();
}

#[test]
fn process_that_ends_at_any_step_leaves_the_old_version_or_the_new_one() {
    let before = [task(A, 1, b"first")];
    for (change, after) in changes() {
        step_tests::crash_at_each_step(Folder::open, save_first, change, |folder, store, progress| {
            assert_eq!(stored(&store), if progress.is_made() { &after[..] } else { &before });
            // Nothing is left behind, and the change can be made.
            assert!(folder.names().iter().all(|name| file_kind(name) != FileKind::Temporary));
            change(&store).unwrap();
            assert_eq!(stored(&store), after);
        });
    }
}

#[test]
fn full_disk_at_any_step_is_an_error_and_loses_nothing() {
    let before = [task(A, 1, b"first")];
    for (change, after) in changes() {
        step_tests::fill_disk_at_each_step(Folder::open, save_first, change, |store, error, progress| {
            assert!(matches!(error, TaskStoreError::Io { .. }), "{error:?}");
            assert_eq!(stored(store), if progress.is_made() { &after[..] } else { &before });
            // Later there is room again.
            change(store).unwrap();
            assert_eq!(stored(store), after);
        });
    }
}

#[test]
fn damaged_file_is_set_aside_and_the_others_load() {
    let folder = Folder::new();
    let store = folder.open();
    let whole = [header_line(A, 3, b"record").as_bytes(), b"record"].concat();
    let mut cases: Vec<(Vec<u8>, &str)> =
        (0..whole.len()).map(|length| (whole[..length].into(), "has ")).collect();
    cases.extend((0..whole.len()).map(|at| {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        (changed, "")
    }));
    cases.push(([&whole[..], b"x"].concat(), "has 7 bytes after its header instead of 6"));
    cases.push((vec![0; 5000], "has no whole header"));
    cases.push((b"{\"version\":1}\n".to_vec(), "was not written by a task store"));
    cases.push((b"mcp-task 2 x\n".to_vec(), "has the format \"2\", and this version reads \"1\""));
    cases.push((header_line(B, 1, b"").into_bytes(), "contains a task with another file name"));
    store.save(B, 1, b"whole").unwrap();
    for (content, why) in cases {
        fs::write(folder.file(A), &content).unwrap();
        let loaded = store.load().unwrap();
        assert_eq!(loaded.tasks.len(), 1);
        assert_eq!(loaded.tasks[0].id, B);
        let [problem] = &loaded.problems[..] else { panic!("{:?}", loaded.problems) };
        let TaskStoreError::Damaged { path, why: found, set_aside: Some(aside) } = problem else {
            panic!("{problem}")
        };
        assert_eq!(*path, folder.file(A));
        assert!(found.contains(why), "{found}");
        assert_eq!(fs::read(aside).unwrap(), content);
        // Reported once; and the name is free.
        assert_eq!(stored(&store).len(), 1);
        store.save(A, 1, b"again").unwrap();
        assert_eq!(stored(&store).len(), 2);
        fs::remove_file(aside).unwrap();
    }
}

#[test]
fn damaged_file_is_set_aside_before_a_save_replaces_it() {
    let folder = Folder::new();
    let store = folder.open();
    for n in 0..20 {
        fs::write(folder.file(A), format!("damaged {n}")).unwrap();
        store.save(A, 1, b"new").unwrap();
        assert_eq!(stored(&store), [task(A, 1, b"new")]);
        let aside = folder.names().iter().filter(|name| file_kind(name) == FileKind::SetAside).count();
        assert_eq!(aside, (n + 1).min(16));
    }
}

#[test]
fn foreign_files_are_reported_and_left() {
    let folder = Folder::new();
    let store = folder.open();
    store.save(A, 1, b"whole").unwrap();
    let foreign =
        ["README", ".hidden", "0123.task", "0123456789abcdef.task.tmp.old", "0123456789ABCDEF.task"];
    for name in foreign {
        fs::write(folder.0.join(name), name).unwrap();
    }
    fs::create_dir(folder.0.join("folder")).unwrap();
    fs::create_dir(folder.file(B)).unwrap();
    let loaded = store.load().unwrap();
    assert_eq!(loaded.tasks.len(), 1);
    let count =
        |is: fn(&TaskStoreError) -> bool| loaded.problems.iter().filter(|problem| is(problem)).count();
    assert_eq!(count(|problem| matches!(problem, TaskStoreError::Foreign { .. })), foreign.len() + 1);
    assert_eq!(count(|problem| matches!(problem, TaskStoreError::Damaged { .. })), 1);
    for name in foreign {
        assert_eq!(fs::read_to_string(folder.0.join(name)).unwrap(), name);
    }
}

#[test]
fn task_whose_file_name_is_taken_replaces_nothing() {
    let folder = Folder::new();
    let store = folder.open();
    fs::write(folder.file(A), header_line(B, 1, b"")).unwrap();
    assert!(matches!(store.save(A, 9, b"new"), Err(TaskStoreError::NameTaken { .. })));
    store.delete(A, 9).unwrap();
    assert_eq!(fs::read(folder.file(A)).unwrap(), header_line(B, 1, b"").as_bytes());
}

#[test]
fn record_that_is_too_large_is_refused() {
    let folder = Folder::new();
    let store = folder.open();
    let error = store.save(A, 1, &vec![0; (64 << 20) + 1]).unwrap_err();
    assert_eq!(error.to_string(), "the record of a task has 67108865 bytes, and the store takes 67108864");
    assert_eq!(stored(&store), []);
}

/// A store whose saves end when the test allows it.
struct SlowStore {
    allowed: Mutex<mpsc::Receiver<()>>,
    saved: Mutex<Vec<u64>>,
}

impl TaskStore for SlowStore {
    fn load(&self) -> Result<LoadedTasks, TaskStoreError> {
        Ok(LoadedTasks::default())
    }

    fn save(&self, _: &str, version: u64, record: &[u8]) -> Result<(), TaskStoreError> {
        self.allowed.lock().unwrap().recv().unwrap();
        assert!(record != b"panic", "as the test wants");
        self.saved.lock().unwrap().push(version);
        Ok(())
    }

    fn delete(&self, _: &str, _: u64) -> Result<(), TaskStoreError> {
        Err(TaskStoreError::Other("never".into()))
    }
}

fn save_job(version: u64, record: &[u8]) -> TaskStoreJob {
    TaskStoreJob::Save { id: A.into(), version, record: record.into() }
}

fn slow_worker(capacity: usize) -> (Arc<SlowStore>, mpsc::Sender<()>, TaskStoreWorker) {
    let (allow, allowed) = mpsc::channel();
    let store = Arc::new(SlowStore { allowed: Mutex::new(allowed), saved: Mutex::default() });
    let worker = TaskStoreWorker::start(store.clone(), capacity).unwrap();
    (store, allow, worker)
}

fn next_outcome(worker: &mut TaskStoreWorker) -> TaskStoreOutcome {
    let started = Instant::now();
    loop {
        if let Some(outcome) = worker.poll_outcome() {
            return outcome;
        }
        assert!(started.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn worker_refuses_jobs_of_a_slow_store_beyond_its_capacity() {
    let (store, allow, mut worker) = slow_worker(2);
    // One is in the store as soon as its thread runs, and two wait.
    let (begun, mut version) = (Instant::now(), 1);
    while version <= 3 {
        version += u64::from(worker.submit(save_job(version, b"")).is_ok());
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
    assert_eq!(worker.submit(save_job(4, b"")), Err(save_job(4, b"")));
    assert!(worker.poll_outcome().is_none());
    for _ in 0..100 {
        let _ = allow.send(());
    }
    let first = next_outcome(&mut worker);
    assert!((first.version, first.is_deletion, first.result.is_ok()) == (1, false, true));
    assert!(worker.finish(Duration::from_secs(60)));
    let saved = store.saved.lock().unwrap();
    assert_eq!(*saved, [1, 2, 3]);
}

#[test]
fn worker_reports_errors_and_panics_in_order() {
    let (_, allow, mut worker) = slow_worker(8);
    for _ in 0..2 {
        allow.send(()).unwrap();
    }
    worker.submit(save_job(1, b"panic")).unwrap();
    worker.submit(TaskStoreJob::Delete { id: A.into(), version: 2 }).unwrap();
    worker.submit(save_job(3, b"")).unwrap();
    let outcomes = [0; 3].map(|_| next_outcome(&mut worker));
    assert_eq!(outcomes[0].result.as_ref().unwrap_err().to_string(), "the task store panicked");
    assert_eq!(outcomes[1].result.as_ref().unwrap_err().to_string(), "never");
    assert!(outcomes[1].is_deletion && outcomes[1].id == A);
    assert!(outcomes[2].result.is_ok());
}

#[test]
fn worker_ends_in_time_although_its_store_hangs() {
    let (store, allow, worker) = slow_worker(2);
    worker.submit(save_job(1, b"")).unwrap();
    worker.submit(save_job(2, b"")).unwrap();
    let begun = Instant::now();
    assert!(!worker.finish(Duration::from_millis(20)));
    assert!(begun.elapsed() < Duration::from_secs(30));
    // What was submitted is stored as soon as that is possible.
    allow.send(()).unwrap();
    allow.send(()).unwrap();
    while store.saved.lock().unwrap().len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn tasks_are_admitted_up_to_their_sum() {
    let mut loaded = LoadedTasks::default();
    let record = 64 << 20;
    assert!((0..3).all(|_| loaded.admit(record)));
    // The last one lacks what each costs beside its record.
    assert!(!loaded.admit(record) && !loaded.admit(usize::MAX));
    let [problem, _] = &loaded.problems[..] else { panic!("{:?}", loaded.problems) };
    assert_eq!(
        problem.to_string(),
        "the tasks have more than 268435456 bytes: those that were not read stay stored"
    );
}
