//! The store of tasks.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use mcp_std::task_store::{LoadedTasks, StoredTask, TaskStore, TaskStoreError};
use redis::{Script, cmd};

use crate::connections::Connections;
use crate::sessions::split_version;

/// A [`TaskStore`] in a Redis or Valkey server: [`RedisStore::tasks`](crate::RedisStore::tasks).
///
/// Records have up to 64 MiB. What it stores is as permanent as the server makes it: with `appendonly yes` and
/// `appendfsync always` it outlives a power failure, by default the last minutes may be lost.
pub struct RedisTaskStore {
    connections: Arc<Connections>,
    /// A hash, with a field for each task: 20 digits of the version, and the record.
    key: String,
    change: Script,
}

impl RedisTaskStore {
    pub(crate) fn new(connections: Arc<Connections>, name: &str) -> Self {
        let key = connections.key(format_args!("tasks:{name}"));
        Self { connections, key, change: Script::new(include_str!("change_task.lua")) }
    }

    /// Stores a record, or deletes it without one.
    fn change(&self, id: &str, version: u64, record: Option<&[u8]>) -> Result<(), TaskStoreError> {
        let mut call = self.change.key(&self.key);
        call.arg(id).arg(format!("{version:020}")).arg(record);
        Ok(self.connections.call(|connection| call.invoke(connection))?)
    }
}

impl TaskStore for RedisTaskStore {
    fn load(&self) -> Result<LoadedTasks, TaskStoreError> {
        let mut values = BTreeMap::new();
        let mut cursor: u64 = 0;
        loop {
            let scan = cmd("HSCAN").arg(&self.key).arg(cursor).arg("COUNT").arg(16).take();
            let (next, found) = self.connections.call(|connection| scan.query::<Page>(connection))?;
            // A task may be found more than once.
            values.extend(found);
            if next == 0 {
                break;
            }
            cursor = next;
        }
        let mut loaded = LoadedTasks::default();
        for (id, value) in values {
            match (String::from_utf8(id), split_version(&value)) {
                (Ok(id), Some((version, record))) => {
                    loaded.tasks.push(StoredTask { id, version, record: record.into() });
                }
                _ => {
                    let problem = format!("a value in the hash {} in Redis is not a task", self.key);
                    loaded.problems.push(TaskStoreError::Other(problem.into()));
                }
            }
        }
        Ok(loaded)
    }

    fn save(&self, id: &str, version: u64, record: &[u8]) -> Result<(), TaskStoreError> {
        if record.len() > MAX_RECORD {
            return Err(TaskStoreError::TooLarge { size: record.len(), max: MAX_RECORD });
        }
        self.change(id, version, Some(record))
    }

    fn delete(&self, id: &str, version: u64) -> Result<(), TaskStoreError> {
        self.change(id, version, None)
    }
}

impl fmt::Debug for RedisTaskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisTaskStore").field("key", &self.key).finish_non_exhaustive()
    }
}

/// The next cursor, and ids with values.
type Page = (u64, Vec<(Vec<u8>, Vec<u8>)>);

/// Bytes of a record, at most: 64 MiB.
const MAX_RECORD: usize = 64 << 20;
