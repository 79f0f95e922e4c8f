//! Messages of calls that may run again, in the store, and who owns each: the process that runs the call.
//!
//! What the store has is a version, a kind, the number of the owner (four bytes, high ones first), and the message.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use mcp_proto::Instant;
use mcp_proto::http::server::{ExchangeId, KeptCall, Server, SessionId, SharedSessionEvent};
use mcp_std::session_store::{SessionName, SessionStoreError, StoredSession, Swap};

use super::relays::number_of;
use super::seal::{Purpose, name_of_call};
use super::{Job, MAX_CONFLICTS, SessionSharing, Shared, guard};

const VERSION: u8 = 1;
/// The call runs.
const RUNS: u8 = 1;
/// The call has an answer.
const ANSWERED: u8 = 2;
/// How long the store tells a process that was slow that its call has an answer.
const ANSWERED_LIFETIME: Duration = Duration::from_secs(600);

/// A call in its session.
#[derive(Clone)]
pub(super) struct CallPlace {
    id: SessionId,
    call: KeptCall,
}

impl CallPlace {
    fn name(&self) -> SessionName {
        name_of_call(&self.id, &self.call)
    }
}

/// What is done about a call.
pub(super) enum CallJob {
    /// Stores the message.
    Keep { exchange: ExchangeId, place: CallPlace, message: Vec<u8>, lifetime: Duration },
    /// Removes the message, unless another process has taken it over.
    Release { exchange: Option<ExchangeId>, place: CallPlace },
    /// Takes the message over from the process with this number, modulo 1024.
    TakeOver { exchange: ExchangeId, place: CallPlace, after: String, from: u32, lifetime: Duration },
    /// Gives it back: the client that has asked for the call is gone.
    GiveBack { place: CallPlace, version: u64, message: Vec<u8>, lifetime: Duration },
}

/// The end of a [`CallJob`].
pub(super) enum CallOutcome {
    Kept { exchange: ExchangeId, place: CallPlace, is_stored: bool },
    Released { exchange: Option<ExchangeId>, is_taken_over: bool },
    Found { exchange: ExchangeId, place: CallPlace, after: String, found: Found },
    GivenBack,
}

/// What was found of a call.
pub(super) enum Found {
    /// This process owns it now, in a record with this version.
    Mine(u64, Vec<u8>),
    /// The process with this number owns it, modulo 1024.
    Owned(u32),
    /// It is not in the store, or has an answer: it is lost.
    Nothing,
    /// The store does not answer.
    Unknown,
}

/// What the store has of a call.
struct Entry {
    kind: u8,
    owner: u32,
    message: Vec<u8>,
}

impl Entry {
    fn write(kind: u8, owner: u32, message: &[u8]) -> Vec<u8> {
        [&[VERSION, kind], &owner.to_be_bytes()[..], message].concat()
    }

    /// Reads an entry; `None` for one of another release.
    fn read(entry: &[u8]) -> Option<Self> {
        let ([VERSION, kind @ (RUNS | ANSWERED)], rest) = entry.split_first_chunk()? else { return None };
        let (owner, message) = rest.split_first_chunk()?;
        Some(Self { kind: *kind, owner: u32::from_be_bytes(*owner), message: message.to_vec() })
    }
}

impl CallJob {
    pub(super) fn run(self, shared: &Shared, process: u32) -> CallOutcome {
        match self {
            Self::Keep { exchange, place, message, lifetime } => {
                let entry = Entry::write(RUNS, process, &message);
                let mut expected = None;
                let mut stored = shared.set_call(&place, expected, &entry, lifetime);
                if let Ok(Swap::Conflict(Some(other))) = &stored {
                    // The client has used the id of its request before, which that one ends.
                    expected = Some(other.version);
                    stored = shared.set_call(&place, expected, &entry, lifetime);
                }
                let is_stored = matches!(stored, Ok(Swap::Stored(_)));
                CallOutcome::Kept { exchange, place, is_stored }
            }
            Self::Release { exchange, place } => {
                // If the store does not answer, the message expires there. Only a client without the answer would find it.
                let is_taken_over = shared.release(&place, process).unwrap_or(false);
                CallOutcome::Released { exchange, is_taken_over }
            }
            Self::TakeOver { exchange, place, after, from, lifetime } => {
                let found = shared.take_over(&place, process, from, lifetime).unwrap_or(Found::Unknown);
                CallOutcome::Found { exchange, place, after, found }
            }
            Self::GiveBack { place, version, message, lifetime } => {
                let entry = Entry::write(RUNS, place.call.process, &message);
                // If it fails, the call is lost for who resumes it.
                let _ = shared.set_call(&place, Some(version), &entry, lifetime);
                CallOutcome::GivenBack
            }
        }
    }
}

impl Shared {
    fn set_call(
        &self,
        place: &CallPlace,
        expected: Option<u64>,
        entry: &[u8],
        lifetime: Duration,
    ) -> Result<Swap, SessionStoreError> {
        let name = place.name();
        let sealed = self.sealer.seal(Purpose::Call(&name), entry)?;
        self.swap(&name, expected, &sealed, lifetime)
    }

    /// Loads what the store has of a call; `None` also for what this release does not read.
    fn load_call(&self, place: &CallPlace) -> Result<Option<(u64, Entry)>, SessionStoreError> {
        let name = place.name();
        let stored = guard(|| self.store.load(&name))?;
        Ok(stored.and_then(|StoredSession { version, record }| {
            let entry = self.sealer.open(Purpose::Call(&name), &record).ok()?;
            Some((version, Entry::read(&entry)?))
        }))
    }

    /// Notes that a call has an answer. Returns whether another process has taken it over, and may have answered it.
    fn release(&self, place: &CallPlace, process: u32) -> Result<bool, SessionStoreError> {
        let answered = Entry::write(ANSWERED, process, &[]);
        for _ in 0..MAX_CONFLICTS {
            match self.load_call(place)? {
                Some((_, entry)) if entry.owner != process => return Ok(true),
                Some((version, entry)) if entry.kind == RUNS => {
                    let swap = self.set_call(place, Some(version), &answered, ANSWERED_LIFETIME)?;
                    if matches!(swap, Swap::Stored(_)) {
                        return Ok(false);
                    }
                }
                // It was noted before, or has expired.
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    fn take_over(
        &self,
        place: &CallPlace,
        process: u32,
        from: u32,
        lifetime: Duration,
    ) -> Result<Found, SessionStoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some((version, entry)) = self.load_call(place)?.filter(|(_, entry)| entry.kind == RUNS)
            else {
                return Ok(Found::Nothing);
            };
            let owner = number_of(entry.owner);
            if owner != from && owner != number_of(process) {
                return Ok(Found::Owned(owner));
            }
            let mine = Entry::write(RUNS, process, &entry.message);
            if let Swap::Stored(version) = self.set_call(place, Some(version), &mine, lifetime)? {
                return Ok(Found::Mine(version, entry.message));
            }
        }
        Ok(Found::Unknown)
    }
}

impl SessionSharing {
    pub(super) fn handle_call_event(&mut self, now: Instant, server: &mut Server, event: SharedSessionEvent) {
        let lifetime = server.config().record_lifetime();
        match event {
            SharedSessionEvent::KeepCall { exchange, id, call, message } => {
                let job = CallJob::Keep {
                    exchange,
                    place: CallPlace { id, call },
                    message: message.to_vec(),
                    lifetime,
                };
                if self.workers.submit(Job::Call(job)).is_err() {
                    server.shared_sessions().call_kept(now, exchange, false);
                }
            }
            SharedSessionEvent::CallAnswered { exchange, id, call } => {
                let job = CallJob::Release { exchange: Some(exchange), place: CallPlace { id, call } };
                if self.workers.submit(Job::Call(job)).is_err() {
                    server.shared_sessions().answer_call(now, exchange, false);
                }
            }
            SharedSessionEvent::FindCall { exchange, id, call, after } => {
                let (from, place) = (call.process, CallPlace { id, call });
                self.take_over(now, server, CallJob::TakeOver { exchange, place, after, from, lifetime });
            }
            _ => {}
        }
    }

    fn take_over(&mut self, now: Instant, server: &mut Server, job: CallJob) {
        if let Err(Job::Call(CallJob::TakeOver { exchange, .. })) = self.workers.submit(Job::Call(job)) {
            server.shared_sessions().unavailable(now, exchange);
        }
    }

    pub(super) fn finish_call(&mut self, now: Instant, server: &mut Server, outcome: CallOutcome) {
        let lifetime = server.config().record_lifetime();
        match outcome {
            CallOutcome::Kept { exchange, place, is_stored } => {
                let runs = server.shared_sessions().call_kept(now, exchange, is_stored);
                if is_stored && !runs {
                    // If there is no room, it expires.
                    _ = self.workers.submit(Job::Call(CallJob::Release { exchange: None, place }));
                }
            }
            CallOutcome::Released { exchange: Some(exchange), is_taken_over } => {
                server.shared_sessions().answer_call(now, exchange, is_taken_over);
            }
            CallOutcome::Found { exchange, place, after, found } => match found {
                Found::Mine(version, message) => {
                    if !server.shared_sessions().repeat_call(now, exchange, Some(&message.clone().into())) {
                        let job = CallJob::GiveBack { place, version, message, lifetime };
                        _ = self.workers.submit(Job::Call(job));
                    }
                }
                Found::Owned(from) if self.relays.has_ended(now, from) => {
                    self.take_over(now, server, CallJob::TakeOver { exchange, place, after, from, lifetime });
                }
                Found::Owned(owner) => self.ask(now, server, exchange, (place.id, owner, after)),
                Found::Nothing => _ = server.shared_sessions().repeat_call(now, exchange, None),
                Found::Unknown => server.shared_sessions().unavailable(now, exchange),
            },
            CallOutcome::Released { exchange: None, .. } | CallOutcome::GivenBack => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_is_read_as_it_was_written_and_one_of_another_release_is_none() {
        let written = Entry::write(RUNS, 70_000, b"{}");
        let read = Entry::read(&written).expect("an entry");
        assert_eq!((read.kind, read.owner, &*read.message), (RUNS, 70_000, b"{}".as_slice()));
        for end in 0..6 {
            assert!(Entry::read(&written[..end]).is_none(), "{end}");
        }
        assert!(Entry::read(&[&[2], &written[1..]].concat()).is_none());
        assert!(Entry::read(&[&[VERSION, 3], &written[2..]].concat()).is_none());
    }
}
