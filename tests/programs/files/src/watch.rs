//! Notices of changed files: a thread looks at those that have subscribers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use std::{fs, thread};

use mcp_threads::Handle;
use mcp_threads::mcp_proto::Change;

use crate::entries::path_of;
use crate::scope::Scope;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_millis(200);

/// Time and size of a file, by which a change is noticed; `None` if there is no such file.
type Version = Option<(SystemTime, u64)>;

/// The URIs that have subscribers, each with the version that was seen last. The engine bounds their number.
///
/// The first look always counts as a change: the file may have changed since the subscriber read it.
#[derive(Default)]
pub struct Watch(Mutex<BTreeMap<String, Option<Version>>>);

impl Watch {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Option<Version>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins or ends to watch a file.
    pub fn set(&self, uri: &str, is_wanted: bool) {
        if is_wanted {
            self.lock().entry(uri.to_owned()).or_default();
        } else {
            self.lock().remove(uri);
        }
    }

    /// Records the version of a file, and returns whether it is a new one.
    fn see(&self, uri: &str, version: Version) -> bool {
        self.lock().get_mut(uri).is_some_and(|seen| seen.replace(version) != Some(version))
    }
}

/// Starts a thread that publishes changes as long as the server runs.
pub fn start(watch: Arc<Watch>, folders: Vec<PathBuf>, server: Handle) {
    let scope = Scope::new(&folders);
    thread::spawn(move || {
        while !server.is_over() {
            // Not locked during a look, which may take long.
            let uris: Vec<String> = watch.lock().keys().cloned().collect();
            for uri in uris {
                if watch.see(&uri, version(&scope, &uri)) {
                    // Refused if the server has just ended.
                    let _ = server.publish(&Change::Resource(uri));
                }
            }
            thread::sleep(INTERVAL);
        }
    });
}

fn version(scope: &Scope, uri: &str) -> Version {
    let path = scope.resolve(path_of(uri)?.to_str()?).ok()?;
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
