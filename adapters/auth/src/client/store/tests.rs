//! Both stores by their contract, and the files of a file store.

use alloc::string::ToString as _;
use alloc::vec::Vec;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Instant;

use core::error::Error as _;

use super::*;
use crate::folder_in_tests::Folder;
use mcp_std::durable_file::{beside, write_temporary};

impl Folder {
    fn store(&self) -> FileStore {
        FileStore::new(self.0.join("tokens.json"))
    }
}

fn loaded(store: &dyn TokenStore, key: &str) -> Option<String> {
    store.load(key).unwrap().map(|text| text.expose().into())
}

fn saved(store: &dyn TokenStore, key: &str, text: &str) {
    store.save(key, &text.into()).unwrap();
}

const NOW: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(60);

fn each_store(test: impl Fn(&dyn TokenStore)) {
    test(&MemoryStore::new());
    let folder = Folder::new();
    test(&folder.store());
}

#[test]
fn stores_keep_the_last_text_of_each_key() {
    each_store(|store| {
        assert_eq!(loaded(store, "a"), None);
        store.remove("a").unwrap();
        saved(store, "a", "1");
        saved(store, "https://b.test \u{e4}\"\\", "\u{0}\n\u{1F511}");
        saved(store, "a", "2");
        saved(store, "", "");
        assert_eq!(loaded(store, "a").as_deref(), Some("2"));
        assert_eq!(loaded(store, "https://b.test \u{e4}\"\\").as_deref(), Some("\u{0}\n\u{1F511}"));
        assert_eq!(loaded(store, "").as_deref(), Some(""));
        store.remove("a").unwrap();
        store.remove("a").unwrap();
        assert_eq!((loaded(store, "a"), loaded(store, "").as_deref()), (None, Some("")));
    });
}

#[test]
fn replace_changes_the_text_that_it_was_given_alone() {
    each_store(|store| {
        let replaced = |old: Option<&str>, new: Option<&str>| {
            let (old, new) = (old.map(Secret::from), new.map(Secret::from));
            store.replace("a", old.as_ref(), new.as_ref()).unwrap()
        };
        saved(store, "b", "kept");
        assert!(!replaced(Some("1"), Some("2")) && !replaced(Some("1"), None) && replaced(None, None));
        assert_eq!(loaded(store, "a"), None);
        assert!(replaced(None, Some("1")) && !replaced(None, Some("2")) && !replaced(Some("2"), Some("3")));
        assert!(!replaced(None, None) && !replaced(Some(""), None));
        assert_eq!(loaded(store, "a").as_deref(), Some("1"));
        assert!(replaced(Some("1"), Some("1")) && replaced(Some("1"), Some("2")));
        assert_eq!(loaded(store, "a").as_deref(), Some("2"));
        assert!(replaced(Some("2"), None) && !replaced(Some("2"), None));
        assert_eq!((loaded(store, "a"), loaded(store, "b").as_deref()), (None, Some("kept")));
    });
}

#[test]
fn increments_by_replace_are_not_lost() {
    each_store(|store| {
        saved(store, "n", "0");
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut left = 10;
                    while left > 0 {
                        let old = store.load("n").unwrap().unwrap();
                        let next = old.expose().parse::<u32>().unwrap() + 1;
                        let new = next.to_string().into();
                        left -= i32::from(store.replace("n", Some(&old), Some(&new)).unwrap());
                    }
                });
            }
        });
        assert_eq!(loaded(store, "n").as_deref(), Some("40"));
    });
}

#[test]
fn lock_of_a_key_is_exclusive_until_it_is_dropped() {
    each_store(|store| {
        let free = Cancellation::new();
        let first = store.lock("a", NOW, &free).unwrap();
        let _other_key = store.lock("b", NOW, &free).unwrap();
        let refused = store.lock("a", Duration::from_millis(30), &free).unwrap_err();
        assert!(matches!(refused, StoreError::Locked { .. }), "{refused}");
        // A lock excludes nobody from the texts.
        saved(store, "a", "x");
        assert_eq!(loaded(store, "a").as_deref(), Some("x"));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| store.lock("a", LONG, &free).map(drop));
            thread::sleep(Duration::from_millis(100));
            assert!(!waiting.is_finished());
            drop(first);
            waiting.join().unwrap().unwrap();
        });
        drop(store.lock("a", NOW, &free).unwrap());
    });
}

#[test]
fn cancellation_ends_the_wait_for_a_lock() {
    each_store(|store| {
        let (free, cancellation) = (Cancellation::new(), Cancellation::new());
        let _held = store.lock("a", NOW, &free).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| store.lock("a", LONG, &cancellation).map(drop));
            thread::sleep(Duration::from_millis(50));
            let begun = Instant::now();
            cancellation.cancel();
            assert!(matches!(waiting.join().unwrap(), Err(StoreError::Cancelled)));
            assert!(begun.elapsed() < Duration::from_secs(10));
        });
    });
}

#[test]
fn increments_under_the_lock_are_not_lost() {
    each_store(|store| {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let _lock = store.lock("n", LONG, &Cancellation::new()).unwrap();
                        let n: u32 = loaded(store, "n").map_or(0, |n| n.parse().unwrap());
                        saved(store, "n", &(n + 1).to_string());
                    }
                });
            }
        });
        assert_eq!(loaded(store, "n").as_deref(), Some("40"));
    });
}

// covers: SEC-019
#[test]
fn debug_output_of_stores_shows_no_text() {
    let store = MemoryStore::new();
    saved(&store, "hush", "hush");
    let lock = store.lock("hush", NOW, &Cancellation::new()).unwrap();
    let shown = format!("{store:?} {lock:?} {:?}", FileStore::new("/tokens.json"));
    let stores = "MemoryStore { entries: 1, .. } StoreLock { .. } FileStore { path: \"/tokens.json\", .. }";
    assert_eq!(shown, stores);
}

/// Returns the permissions of a file.
#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

// covers: AUTH-064
#[cfg(unix)]
#[test]
fn files_and_new_folders_are_closed_to_others() {
    let folder = Folder::new();
    set_mode(&folder.0, 0o755);
    let store = FileStore::new(folder.0.join("new/below/tokens.json"));
    assert_eq!(loaded(&store, "a"), None);
    assert!(folder.names().is_empty(), "loading creates nothing");
    store.remove("a").unwrap();
    assert!(folder.names().is_empty(), "removing nothing creates nothing");
    saved(&store, "a", "1");
    drop(store.lock("a", NOW, &Cancellation::new()).unwrap());
    assert_eq!((mode(&folder.0), mode(&folder.0.join("new"))), (0o755, 0o700));
    let below = folder.0.join("new/below");
    assert_eq!(mode(&below), 0o700);
    let modes: Vec<_> = fs::read_dir(below).unwrap().map(|entry| mode(&entry.unwrap().path())).collect();
    // The store, its lock and the lock of the key.
    assert_eq!(modes, [0o600; 3]);
    assert_eq!(loaded(&store, "a").as_deref(), Some("1"));
    assert!(store.take_warnings().is_empty());
}

// covers: AUTH-064
#[cfg(unix)]
#[test]
fn store_that_others_can_read_is_repaired_and_reported() {
    let (folder, path) = (Folder::new(), |folder: &Folder| folder.0.join("tokens.json"));
    let (store, path) = (folder.store(), path(&folder));
    saved(&store, "a", "1");
    for open in [0o644, 0o620, 0o604, 0o666] {
        set_mode(&path, open);
        assert_eq!(loaded(&store, "a").as_deref(), Some("1"));
        assert_eq!(mode(&path), 0o600);
        let warnings = store.clone().take_warnings();
        assert_eq!(warnings, [StoreWarning::WasOpenToOthers { path: path.clone(), mode: open }]);
        assert!(warnings[0].to_string().contains(&format!("mode 0{open:o}")), "{}", warnings[0]);
        assert!(store.take_warnings().is_empty());
    }
    set_mode(&path, 0o644);
    saved(&store, "a", "2");
    assert_eq!((mode(&path), store.take_warnings().len()), (0o600, 1));
    // Sixteen are kept, each once.
    for open in [0o601].into_iter().chain(0o601..=0o624) {
        set_mode(&path, open);
        assert_eq!(loaded(&store, "a").as_deref(), Some("2"));
    }
    let kept = |mode| StoreWarning::WasOpenToOthers { path: path.clone(), mode };
    assert_eq!(store.take_warnings(), (0o601..=0o620).map(kept).collect::<Vec<_>>());
}

#[test]
fn damaged_store_is_named_and_never_overwritten() {
    let folder = Folder::new();
    let (store, path) = (folder.store(), folder.0.join("tokens.json"));
    let large = "x".repeat(MAX_STORE + 1);
    for (content, part) in [
        ("", "is empty"),
        ("{\"version\":1,\"entries\":{\"a\":\"hush", "is not JSON"),
        ("{\"version\":2,\"entries\":{}}", "has version 2"),
        ("{\"version\":1,\"entries\":{\"a\":7}}", "does not have the members"),
        ("[[[[[[[[", "does not have the members"),
        (&*large, "is larger than 16 MiB"),
    ] {
        fs::write(&path, content).unwrap();
        let save = || store.save("a", &"new".into());
        for error in [store.load("a").err(), save().err(), store.remove("a").err()] {
            let error = error.unwrap();
            assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
            let text = format!("{error} {error:?}");
            assert!(text.contains(part) && !text.contains("hush"), "{text}");
            assert!(text.contains(&path.display().to_string()), "{text}");
        }
        assert!(fs::read(&path).unwrap() == content.as_bytes(), "{part}");
    }
}

#[cfg(unix)]
#[test]
fn what_is_not_a_file_is_damaged_and_not_waited_for() {
    let folder = Folder::new();
    let path = folder.0.join("tokens.json");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let error = folder.store().load("a").unwrap_err();
    assert!(error.to_string().contains("is not a regular file"), "{error}");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let error = folder.store().save("a", &"1".into()).unwrap_err();
    assert!(error.to_string().contains("is not a regular file"), "{error}");
}

#[test]
fn texts_beyond_the_bound_are_refused_and_change_nothing() {
    let folder = Folder::new();
    let store = folder.store();
    saved(&store, "a", "1");
    let largest = "x".repeat(MAX_STORE - br#"{"version":1,"entries":{"a":""}}"#.len());
    let error = store.save("a", &format!("{largest}x").into()).unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { .. }), "{error}");
    assert_eq!(loaded(&store, "a").as_deref(), Some("1"));
    saved(&store, "a", &largest);
    assert!(loaded(&store, "a").is_some_and(|text| text == largest));
}

#[cfg(unix)]
#[test]
fn symbolic_links_are_followed_and_not_replaced() {
    use std::os::unix::fs::symlink;
    let (folder, real) = (Folder::new(), Folder::new());
    let link = folder.0.join("tokens.json");
    // Through a second link, to a file that does not exist yet.
    symlink("second", &link).unwrap();
    symlink(real.0.join("real.json"), folder.0.join("second")).unwrap();
    saved(&folder.store(), "a", "1");
    saved(&folder.store(), "a", "2");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(loaded(&FileStore::new(real.0.join("real.json")), "a").as_deref(), Some("2"));
    assert_eq!(folder.names(), ["second", "tokens.json"]);
    assert_eq!(real.names(), ["real.json", "real.json.lock"]);
    // Both names have the same locks.
    let held = folder.store().lock("a", NOW, &Cancellation::new()).unwrap();
    let other = FileStore::new(real.0.join("real.json")).lock("a", NOW, &Cancellation::new());
    assert!(matches!(other, Err(StoreError::Locked { .. })));
    drop(held);

    let looped = folder.0.join("loop");
    symlink("loop", &looped).unwrap();
    let error = FileStore::new(looped).load("a").unwrap_err();
    assert!(error.to_string().contains("too many symbolic links"), "{error}");
}

#[test]
fn save_that_stops_at_any_step_leaves_the_old_content() {
    let folder = Folder::new();
    let (store, path) = (folder.store(), folder.0.join("tokens.json"));
    saved(&store, "a", "old");
    let whole = br#"{"version":1,"entries":{"a":"new"}}"#;
    for stopped in [&whole[..0], &whole[..9], &whole[..]] {
        // The process ended before the rename.
        let temporary = write_temporary(&path, &[stopped]).unwrap();
        assert_eq!(fs::read(&temporary).unwrap(), stopped);
        #[cfg(unix)]
        assert_eq!(mode(&temporary), 0o600);
        assert_eq!(loaded(&store, "a").as_deref(), Some("old"));
        saved(&store, "b", &stopped.len().to_string());
        assert_eq!(loaded(&store, "a").as_deref(), Some("old"));
        assert_eq!(folder.names(), ["tokens.json", "tokens.json.lock"]);
    }
    // What lies there with other permissions is not written to.
    let temporary = beside(&path, "tmp");
    fs::write(&temporary, "left").unwrap();
    #[cfg(unix)]
    set_mode(&temporary, 0o666);
    saved(&store, "a", "new");
    #[cfg(unix)]
    assert_eq!(mode(&path), 0o600);
    assert_eq!(loaded(&store, "a").as_deref(), Some("new"));
}

#[test]
fn errors_name_the_path_and_the_operation() {
    let folder = Folder::new();
    fs::write(folder.0.join("file"), "x").unwrap();
    let below_file = FileStore::new(folder.0.join("file/tokens.json"));
    let error = below_file.save("a", &"hush".into()).unwrap_err().to_string();
    assert!(error.starts_with("cannot create the folder ") && error.contains("/file: "), "{error}");
    // An account whose home is `/dev/null` has no tokens, and may ask servers that want none.
    assert_eq!(loaded(&below_file, "a"), None);
    let error = FileStore::new(folder.0.join("x".repeat(300))).load("a").unwrap_err();
    assert!(error.to_string().starts_with("cannot read ") && error.source().is_some(), "{error}");
    let other = |error: Box<dyn core::error::Error + Send + Sync>| StoreError::Other(error);
    assert!(other("no disk".into()).source().is_none());
    assert!(other(Box::new(error)).source().is_some_and(|source| source.is::<io::Error>()));
    assert!(StoreError::Cancelled.source().is_none());
    fs::create_dir(folder.0.join("tokens.json.lock")).unwrap();
    let error = folder.store().save("a", &"hush".into()).unwrap_err().to_string();
    assert!(error.starts_with("cannot lock ") && error.contains("tokens.json.lock: "), "{error}");
    let held = Folder::new();
    let _held = held.store().lock("a", NOW, &Cancellation::new()).unwrap();
    let error = held.store().lock("a", NOW, &Cancellation::new()).unwrap_err().to_string();
    assert!(error.contains("tokens.json was locked by another process or thread for "), "{error}");
}

/// Another version of this program has the same locks.
#[test]
fn lock_of_a_key_is_a_file_by_its_digest() {
    let folder = Folder::new();
    drop(folder.store().lock("a", NOW, &Cancellation::new()).unwrap());
    // The first bytes of the SHA-256 digest of `a`.
    assert_eq!(folder.names(), ["tokens.json.ca978112ca1bbdca.lock"]);
}
