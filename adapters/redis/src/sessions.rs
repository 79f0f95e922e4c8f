//! The store of sessions.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use core::{fmt, str};

use mcp_std::entropy;
use mcp_std::session_store::{
    SessionName, SessionStore, SessionStoreError, StoredSession, Swap, Watch, WatchReceiver,
};
use redis::{ErrorKind, Script, Value, cmd};

use crate::connections::Connections;
use crate::watch::watch;
use crate::{RedisTaskStore, Settings};

/// A [`SessionStore`] in a Redis or Valkey server. Clones are the same store, with the same connections.
///
/// Records and messages have up to 16 MiB.
#[derive(Clone)]
pub struct RedisStore {
    connections: Arc<Connections>,
    compare_and_set: Arc<Script>,
    join: Arc<Script>,
    /// The name of the watches of this store, which others have another one of: random hexadecimal digits.
    name: Arc<str>,
}

impl RedisStore {
    /// Creates a store. It connects when it is used, so the server need not run yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        // A server does not start without entropy.
        let seed = entropy::seed().unwrap_or_default();
        let name: String = seed[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            connections: Arc::new(Connections::new(settings)),
            compare_and_set: Arc::new(Script::new(include_str!("compare_and_set.lua"))),
            join: Arc::new(Script::new(include_str!("join.lua"))),
            name: name.into(),
        }
    }

    /// Returns a store of tasks on the same connections. Tasks belong to one process: give each a name of its own, which it
    /// has again after a restart.
    #[must_use]
    pub fn tasks(&self, name: &str) -> RedisTaskStore {
        RedisTaskStore::new(self.connections.clone(), name)
    }

    fn key(&self, session: &SessionName) -> String {
        self.connections.key(format_args!("session:{}", session.to_hex()))
    }

    /// The channel with a name. Databases of a server share channels.
    fn channel(&self, name: &str) -> String {
        let database = self.connections.settings.server.redis_settings().db();
        self.connections.key(format_args!("{database}:{name}"))
    }

    /// The prefix of the keys that have the names of watches, by the numbers of processes.
    fn watch_keys(&self) -> String {
        self.connections.key(format_args!("process:"))
    }

    /// The channel on which nothing is sent: it has receivers as long as the watches of that name last.
    fn watch_channel(&self, name: &str) -> String {
        self.channel("watch:") + name
    }

    /// Returns the number of connections that watch by a name.
    fn receivers(&self, name: &str) -> Result<u64, SessionStoreError> {
        let publish = cmd("PUBLISH").arg(self.watch_channel(name)).arg("").take();
        Ok(self.connections.call(|connection| publish.query(connection))?)
    }
}

impl SessionStore for RedisStore {
    fn load(&self, session: &SessionName) -> Result<Option<StoredSession>, SessionStoreError> {
        Ok(self.connections.get(&self.key(session), None, MAX_VALUE)?.map(read))
    }

    fn compare_and_set(
        &self,
        session: &SessionName,
        expected: Option<u64>,
        record: &[u8],
        lifetime: Duration,
    ) -> Result<Swap, SessionStoreError> {
        check_size(record)?;
        let mut call = self.compare_and_set.key(self.key(session));
        let digits = expected.map_or_else(String::new, |version| format!("{version:020}"));
        call.arg(digits).arg(record).arg(milliseconds(lifetime)).arg(MAX_VALUE);
        let mut runs = 0;
        let answer = self.connections.call(|connection| {
            runs += 1;
            call.invoke(connection)
        })?;
        match answer {
            Value::Int(version @ 1..) => Ok(Swap::Stored(version.unsigned_abs())),
            Value::Nil => Ok(Swap::Conflict(None)),
            Value::BulkString(stored) => {
                let stored = read(stored);
                // The first run stored it, and its answer was lost with the connection.
                let is_own = runs > 1 && Some(stored.version) > expected && stored.record == record;
                Ok(if is_own { Swap::Stored(stored.version) } else { Swap::Conflict(Some(stored)) })
            }
            _ => Err(self.connections.error(&(ErrorKind::UnexpectedReturnType, "").into()).into()),
        }
    }

    fn touch(&self, sessions: &[SessionName], lifetime: Duration) -> Result<(), SessionStoreError> {
        if sessions.is_empty() {
            return Ok(());
        }
        let mut commands = redis::pipe();
        for session in sessions {
            commands.cmd("PEXPIRE").arg(self.key(session)).arg(milliseconds(lifetime)).ignore();
        }
        Ok(self.connections.call(|connection| commands.query(connection))?)
    }

    fn remove(&self, session: &SessionName) -> Result<(), SessionStoreError> {
        let delete = cmd("DEL").arg(self.key(session)).take();
        Ok(self.connections.call(|connection| delete.query(connection))?)
    }

    fn join(&self) -> Result<u32, SessionStoreError> {
        let mut call = self.join.key(self.connections.key(format_args!("processes")));
        call.arg(&*self.name).arg(self.watch_keys()).arg(self.watch_channel(""));
        Ok(self.connections.call(|connection| call.invoke(connection))?)
    }

    fn publish(&self, message: &[u8]) -> Result<(), SessionStoreError> {
        check_size(message)?;
        let publish = cmd("PUBLISH").arg(self.channel(MESSAGES)).arg(message).take();
        Ok(self.connections.call(|connection| publish.query(connection))?)
    }

    fn watch(&self, receiver: WatchReceiver) -> Result<Watch, SessionStoreError> {
        let channels = [self.channel(MESSAGES), self.watch_channel(&self.name)];
        Ok(watch(&self.connections, channels, receiver)?)
    }

    fn is_watching(&self, process: u32) -> Result<Option<bool>, SessionStoreError> {
        let name = self.connections.get(&(self.watch_keys() + &process.to_string()), None, MAX_NAME)?;
        let Some(name) = name else { return Ok(None) };
        if self.receivers(&String::from_utf8_lossy(&name))? > 0 {
            return Ok(Some(true));
        }
        // After an outage of the server all watches are made anew, each after a pause.
        Ok((self.receivers(&self.name)? > 0).then_some(false))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("settings", &self.connections.settings).finish_non_exhaustive()
    }
}

/// Takes a stored value apart: 20 digits of the version, and the record. Another value has version 0. One that was cut has a record
/// that no server takes, as any other that no server has written.
fn read(stored: Vec<u8>) -> StoredSession {
    let version = split_version(&stored).filter(|(version, _)| (1..=MAX_VERSION).contains(version));
    match version {
        Some((version, record)) => StoredSession { version, record: record.into() },
        None => StoredSession { version: 0, record: stored },
    }
}

/// Returns the version of a stored value, and the rest.
pub(crate) fn split_version(stored: &[u8]) -> Option<(u64, &[u8])> {
    let (digits, rest) = stored.split_at_checked(VERSION_LEN)?;
    let digits = str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?;
    Some((digits.parse().ok()?, rest))
}

fn check_size(bytes: &[u8]) -> Result<(), SessionStoreError> {
    if bytes.len() > MAX_RECORD {
        return Err(SessionStoreError::TooLarge { size: bytes.len(), max: MAX_RECORD });
    }
    Ok(())
}

/// Returns a lifetime that Redis takes: 1 ms to 100 years.
fn milliseconds(lifetime: Duration) -> u64 {
    const LONGEST: u64 = 100 * 365 * 86_400_000;
    u64::try_from(lifetime.as_millis()).unwrap_or(LONGEST).clamp(1, LONGEST)
}

/// The name of the channel of messages.
const MESSAGES: &str = "messages";
/// Bytes of a record or message, at most: 16 MiB.
const MAX_RECORD: usize = 16 << 20;
/// Bytes of a stored value that are read: one more than a store writes.
const MAX_VALUE: usize = VERSION_LEN + MAX_RECORD + 1;
/// Bytes of a version.
pub(crate) const VERSION_LEN: usize = 20;
/// Bytes of the name of a watch that are read: more than it has.
const MAX_NAME: usize = 64;
/// The greatest version that `compare_and_set.lua` reads.
const MAX_VERSION: u64 = 9_999_999_999_999_999;
