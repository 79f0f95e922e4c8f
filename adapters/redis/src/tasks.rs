//! The store of tasks.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use mcp_std::task_store::{LoadedTasks, StoredTask, TaskStore, TaskStoreError};
use redis::{Script, Value};

use crate::connections::Connections;
use crate::sessions::{VERSION_LEN, split_version};

/// A [`TaskStore`] in a Redis or Valkey server: [`RedisStore::tasks`](crate::RedisStore::tasks).
///
/// Records have up to 64 MiB, and no more is read of what another program has written there: a longer one is a
/// [problem](LoadedTasks::problems). What it stores is as permanent as the server makes it: with `appendonly yes` and
/// `appendfsync always` it outlives a power failure, by default the last minutes may be lost.
pub struct RedisTaskStore {
    connections: Arc<Connections>,
    /// A hash, with a field for each task: 20 digits of the version, and the record.
    key: String,
    change: Script,
    list: Script,
}

impl RedisTaskStore {
    pub(crate) fn new(connections: Arc<Connections>, name: &str) -> Self {
        let key = connections.key(format_args!("tasks:{name}"));
        let change = Script::new(include_str!("change_task.lua"));
        Self { connections, key, change, list: Script::new(include_str!("list_tasks.lua")) }
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
        let mut call = self.list.key(&self.key);
        call.arg(MAX_TASKS).arg(MAX_ID).arg(LIST_BYTES);
        let (_, found): List = self.connections.call(|connection| call.invoke(connection))?;
        let mut loaded = LoadedTasks::default();
        for (id, value) in found {
            let length = match &value {
                Value::Int(length) => usize::try_from(*length).unwrap_or(usize::MAX),
                Value::BulkString(value) => value.len(),
                _ => 0,
            };
            let size = length.saturating_sub(VERSION_LEN);
            if size > MAX_RECORD {
                loaded.problems.push(TaskStoreError::TooLarge { size, max: MAX_RECORD });
                continue;
            }
            if !loaded.admit(size) {
                break;
            }
            let value = match value {
                Value::BulkString(value) => Some(value),
                _ => self.connections.get(&self.key, Some(&id), VERSION_LEN + MAX_RECORD)?,
            };
            match (String::from_utf8(id), value.as_deref().and_then(split_version)) {
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

/// The number of tasks, and ids with values or their lengths.
type List = (u64, Vec<(Vec<u8>, Value)>);

/// Bytes of a record, at most: 64 MiB.
const MAX_RECORD: usize = 64 << 20;
/// Tasks of which the ids are read, at most.
const MAX_TASKS: usize = 1 << 18;
/// Bytes of an id that are read: more than one of a server has.
const MAX_ID: usize = 128;
/// Bytes of the records that are read together. A task beyond it is read by itself.
const LIST_BYTES: usize = 16 << 20;
