//! Calls of the store, on the threads of a loop: records of sessions and messages to other processes, sealed.

use alloc::vec::Vec;
use core::time::Duration;
use std::thread;

use mcp_proto::http::server::{ExchangeId, SessionId};
use mcp_std::catch;
use mcp_std::session_store::{SessionName, SessionStoreError, StoredSession, Swap};

use super::kept_calls::{CallJob, CallOutcome};
use super::message::Message;
use super::seal::{Purpose, name_of};
use super::{MAX_CONFLICTS, Shared};

/// Time after which steps that have failed without a request are tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Time in which a process whose connection to the store was lost has a new one.
const RECONNECTED_AFTER: Duration = Duration::from_millis(300);

/// A call of the store.
pub(super) enum Job {
    Load {
        exchange: Option<ExchangeId>,
        id: SessionId,
        lifetime: Duration,
    },
    Save {
        id: SessionId,
        replaces: u64,
        bytes: Vec<u8>,
        lifetime: Duration,
    },
    Remove {
        exchange: Option<ExchangeId>,
        id: SessionId,
    },
    Touch {
        ids: Vec<SessionId>,
        lifetime: Duration,
    },
    /// Something about a call that may run again.
    Call(CallJob),
    /// Looks which of these processes have ended.
    FindEnded(Vec<u32>),
    /// Waits for [`RETRY_AFTER`].
    Pause,
}

/// The end of a [`Job`].
pub(super) enum Outcome {
    Loaded {
        exchange: Option<ExchangeId>,
        id: SessionId,
        result: Result<Option<StoredSession>, SessionStoreError>,
    },
    Saved {
        id: SessionId,
        result: Result<Swap, SessionStoreError>,
        /// The other processes were told of it.
        is_told: bool,
    },
    Removed {
        exchange: Option<ExchangeId>,
        id: SessionId,
        result: Result<(), SessionStoreError>,
        is_told: bool,
    },
    Touched,
    Call(CallOutcome),
    /// These processes have ended.
    Ended(Vec<u32>),
    Paused,
}

impl Shared {
    pub(super) fn run(&self, process: u32, job: Job) -> Outcome {
        match job {
            Job::Load { exchange, id, lifetime } => {
                let result = self.load(&name_of(&id), lifetime);
                Outcome::Loaded { exchange, id, result }
            }
            Job::Save { id, replaces, bytes, lifetime } => {
                let name = name_of(&id);
                let result = self.sealer.seal(Purpose::Record(&name), &bytes).and_then(|sealed| {
                    let expected = (replaces > 0).then_some(replaces);
                    self.swap(&name, expected, &sealed, lifetime)
                });
                let result = result.map(|swap| match swap {
                    Swap::Conflict(stored) => Swap::Conflict(self.open(&name, stored)),
                    stored @ Swap::Stored(_) => stored,
                });
                let is_told = match &result {
                    Ok(Swap::Stored(version)) => {
                        self.publish(process, &Message::Changed(id.clone(), *version))
                    }
                    _ => true,
                };
                Outcome::Saved { id, result, is_told }
            }
            Job::Remove { exchange, id } => {
                let result = guard(|| self.store.remove(&name_of(&id)));
                let is_told = self.publish(process, &Message::Ended(id.clone()));
                Outcome::Removed { exchange, id, result, is_told }
            }
            Job::Touch { ids, lifetime } => {
                let names: Vec<SessionName> = ids.iter().map(name_of).collect();
                // They are touched again long before they expire.
                let _ = guard(|| self.store.touch(&names, lifetime));
                Outcome::Touched
            }
            Job::Call(job) => Outcome::Call(job.run(self, process)),
            Job::FindEnded(mut processes) => {
                processes.retain(|process| self.watches_not(*process));
                if !processes.is_empty() {
                    thread::sleep(RECONNECTED_AFTER);
                    processes.retain(|process| self.watches_not(*process));
                }
                Outcome::Ended(processes)
            }
            Job::Pause => {
                thread::sleep(RETRY_AFTER);
                Outcome::Paused
            }
        }
    }

    /// Loads a record, and seals it anew if that was done with an older key.
    pub(super) fn load(
        &self,
        name: &SessionName,
        lifetime: Duration,
    ) -> Result<Option<StoredSession>, SessionStoreError> {
        let mut stored = guard(|| self.store.load(name))?;
        for _ in 0..MAX_CONFLICTS {
            let sealed = stored.as_ref().filter(|stored| !self.sealer.is_current(&stored.record));
            let Some(StoredSession { version, record }) = sealed else { break };
            let Ok(record) = self.sealer.open(Purpose::Record(name), record) else { break };
            let sealed = self.sealer.seal(Purpose::Record(name), &record)?;
            match self.swap(name, Some(*version), &sealed, lifetime)? {
                Swap::Stored(version) => return Ok(Some(StoredSession { version, record })),
                Swap::Conflict(other) => stored = other,
            }
        }
        Ok(self.open(name, stored))
    }

    pub(super) fn swap(
        &self,
        name: &SessionName,
        expected: Option<u64>,
        sealed: &[u8],
        lifetime: Duration,
    ) -> Result<Swap, SessionStoreError> {
        guard(|| self.store.compare_and_set(name, expected, sealed, lifetime))
    }

    /// Opens the seal of a record. One that cannot be opened is the record of no session: its bytes are empty.
    fn open(&self, name: &SessionName, stored: Option<StoredSession>) -> Option<StoredSession> {
        stored.map(|StoredSession { version, record }| StoredSession {
            version,
            record: self.sealer.open(Purpose::Record(name), &record).unwrap_or_default(),
        })
    }

    /// Tells the other processes what the one with a number says, and returns whether it has.
    pub(super) fn publish(&self, process: u32, message: &Message) -> bool {
        let sealed = self.sealer.seal(Purpose::Message, &message.write(process));
        // A message that arrives twice does no harm: what waited for the first one does not wait any more.
        let publish = |sealed: &[u8]| guard(|| self.store.publish(sealed));
        sealed.is_ok_and(|sealed| publish(&sealed).or_else(|_| publish(&sealed)).is_ok())
    }

    /// Returns whether the store says that the process with a number, modulo 1024, does not watch.
    fn watches_not(&self, process: u32) -> bool {
        matches!(guard(|| self.store.is_watching(process)), Ok(Some(false)))
    }
}

/// Calls the store. A panic of it is a failure.
pub(super) fn guard<T>(call: impl FnOnce() -> Result<T, SessionStoreError>) -> Result<T, SessionStoreError> {
    catch(call).unwrap_or_else(|_| Err(SessionStoreError::Other("the store has panicked".into())))
}
