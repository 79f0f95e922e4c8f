//! Messages of calls that may run again, in the store, each with its owner: the process that runs the call.
//!
//! An entry of the store is a version, a kind, the number of the owner (four bytes, high ones first), and the message.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use mcp_proto::Instant;
use mcp_proto::http::server::{ExchangeId, KeptCall, Server, SessionId, SharedSessionEvent};
use mcp_std::session_store::{SessionName, SessionStoreError, StoredSession, Swap};

use super::jobs::{Job, guard};
use super::relays::number_of;
use super::seal::{Purpose, name_of_call};
use super::{MAX_CONFLICTS, SessionSharing, Shared};

const VERSION: u8 = 1;
/// The call runs.
const RUNS: u8 = 1;
/// The call has an answer.
const ANSWERED: u8 = 2;
/// The call was cancelled. Has no message.
const CANCELLED: u8 = 3;
/// How long a cancellation counts for a call whose process has ended, or seems to.
const CANCELLED_LIFETIME: Duration = Duration::from_secs(60);
/// How long the store tells a process that was slow that its call has an answer, by another one.
const ANSWERED_LIFETIME: Duration = Duration::from_secs(600);
/// The same for a call that no process has taken over. No process asks, so that the store has no more than the calls of a second.
const UNCLAIMED_LIFETIME: Duration = Duration::from_secs(1);

/// The number that no process has.
const NO_PROCESS: u32 = u32::MAX;

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

    /// Returns the place of the cancellation of a request, whichever process its call came to.
    fn of_cancellation(id: SessionId, request: String) -> Self {
        Self { id, call: KeptCall { process: NO_PROCESS, request } }
    }
}

/// A step for a call, in the store.
pub(super) enum CallJob {
    /// Stores the message.
    Keep { exchange: ExchangeId, place: CallPlace, message: Vec<u8>, lifetime: Duration },
    /// Removes the message, unless another process has taken it over.
    Release { exchange: Option<ExchangeId>, place: CallPlace },
    /// Notes that the client has cancelled the call.
    Cancel { place: CallPlace },
    /// Takes the message over from the process with this number, modulo 1024.
    TakeOver { exchange: ExchangeId, place: CallPlace, from: u32, lifetime: Duration },
    /// Gives it back to its earlier owner: the client that has asked for the call is gone.
    GiveBack { place: CallPlace, taken: Taken, lifetime: Duration },
}

/// The end of a [`CallJob`].
pub(super) enum CallOutcome {
    Kept {
        exchange: ExchangeId,
        place: CallPlace,
        is_stored: bool,
    },
    Released {
        exchange: Option<ExchangeId>,
        is_taken_over: bool,
    },
    Found {
        exchange: ExchangeId,
        place: CallPlace,
        found: Found,
    },
    /// There is nothing to do.
    Done,
}

/// The outcome of a search for a call.
pub(super) enum Found {
    /// This process owns it now.
    Mine(Taken),
    /// The process with this number owns it, modulo 1024.
    Owned(u32),
    /// It is not in the store, or has an answer: it is lost.
    Nothing,
    /// The store does not answer.
    Unknown,
}

/// A call that this process owns now.
pub(super) struct Taken {
    /// The version of its record.
    version: u64,
    /// The number of the earlier owner, which may be this process.
    previous: u32,
    message: Vec<u8>,
}

/// The entry of a call in the store.
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
        let ([VERSION, kind @ (RUNS | ANSWERED | CANCELLED)], rest) = entry.split_first_chunk()? else {
            return None;
        };
        let (owner, message) = rest.split_first_chunk()?;
        Some(Self { kind: *kind, owner: u32::from_be_bytes(*owner), message: message.to_vec() })
    }
}

impl CallJob {
    pub(super) fn run(self, shared: &Shared, process: u32) -> CallOutcome {
        match self {
            Self::Keep { exchange, place, message, lifetime } => {
                let is_stored = shared.keep(&place, process, &message, lifetime).unwrap_or(false);
                CallOutcome::Kept { exchange, place, is_stored }
            }
            Self::Release { exchange, place } => {
                // If the store does not answer, the message expires there. Only a client without the answer would find it.
                let is_taken_over = shared.release(&place, process).unwrap_or(false);
                CallOutcome::Released { exchange, is_taken_over }
            }
            Self::Cancel { place } => {
                let entry = Entry::write(CANCELLED, process, &[]);
                // Noted before, it counts as well. If it fails, the call may run again, as if the cancellation had come too late.
                let _ = shared.set_call(&place, None, &entry, CANCELLED_LIFETIME);
                CallOutcome::Done
            }
            Self::TakeOver { exchange, place, from, lifetime } => {
                let found = shared.take_over(&place, process, from, lifetime).unwrap_or(Found::Unknown);
                CallOutcome::Found { exchange, place, found }
            }
            Self::GiveBack { place, taken, lifetime } => {
                let entry = Entry::write(RUNS, taken.previous, &taken.message);
                // If it fails, another request has it, or the next one takes it over from here.
                let _ = shared.set_call(&place, Some(taken.version), &entry, lifetime);
                CallOutcome::Done
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

    /// Loads the entry of a call; `None` also for what this release does not read.
    fn load_call(&self, place: &CallPlace) -> Result<Option<(u64, Entry)>, SessionStoreError> {
        let name = place.name();
        let stored = guard(|| self.store.load(&name))?;
        Ok(stored.and_then(|StoredSession { version, record }| {
            let entry = self.sealer.open(Purpose::Call(&name), &record).ok()?;
            Some((version, Entry::read(&entry)?))
        }))
    }

    /// Stores the message of a call. Returns whether it is stored.
    fn keep(
        &self,
        place: &CallPlace,
        process: u32,
        message: &[u8],
        lifetime: Duration,
    ) -> Result<bool, SessionStoreError> {
        let entry = Entry::write(RUNS, process, message);
        let stored = match self.set_call(place, None, &entry, lifetime)? {
            Swap::Conflict(Some(_)) => match self.load_call(place)? {
                // The client has used the id of its request before. A call that runs in another process is left alone.
                Some((version, other)) if other.kind == ANSWERED || other.owner == process => {
                    self.set_call(place, Some(version), &entry, lifetime)?
                }
                _ => return Ok(false),
            },
            stored => stored,
        };
        Ok(matches!(stored, Swap::Stored(_)))
    }

    /// Notes that a call has an answer. Returns whether another process has taken it over, and may have answered it.
    fn release(&self, place: &CallPlace, process: u32) -> Result<bool, SessionStoreError> {
        let answered = Entry::write(ANSWERED, process, &[]);
        for _ in 0..MAX_CONFLICTS {
            match self.load_call(place)? {
                Some((_, entry)) if entry.owner != process => return Ok(true),
                Some((version, entry)) if entry.kind == RUNS => {
                    let was_taken_over = number_of(process) != place.call.process;
                    let lifetime = if was_taken_over { ANSWERED_LIFETIME } else { UNCLAIMED_LIFETIME };
                    let swap = self.set_call(place, Some(version), &answered, lifetime)?;
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
            let Some((version, entry)) = self.load_call(place)? else { return Ok(Found::Nothing) };
            let owner = number_of(entry.owner);
            if entry.kind != RUNS {
                // Who has taken the call over keeps its answer for a while.
                let was_asked = [place.call.process, from, number_of(process)].contains(&owner);
                return Ok(if was_asked { Found::Nothing } else { Found::Owned(owner) });
            }
            if owner != from && owner != number_of(process) {
                return Ok(Found::Owned(owner));
            }
            let cancellation = CallPlace::of_cancellation(place.id.clone(), place.call.request.clone());
            if self.load_call(&cancellation)?.is_some() {
                return Ok(Found::Nothing);
            }
            // Also what this process owns already: what it gives back later has another version then.
            let mine = Entry::write(RUNS, process, &entry.message);
            if let Swap::Stored(version) = self.set_call(place, Some(version), &mine, lifetime)? {
                return Ok(Found::Mine(Taken { version, previous: entry.owner, message: entry.message }));
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
            SharedSessionEvent::CallCancelled { id, request } => {
                let place = CallPlace::of_cancellation(id, request);
                // If there is no room, it is as if it had come too late.
                _ = self.workers.submit(Job::Call(CallJob::Cancel { place }));
            }
            SharedSessionEvent::FindCall { exchange, id, call, asked } => {
                let place = CallPlace { id, call };
                self.take_over(now, server, CallJob::TakeOver { exchange, place, from: asked, lifetime });
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
            CallOutcome::Found { exchange, place, found } => match found {
                Found::Mine(taken) => {
                    let runs = server.shared_sessions().repeat_call(
                        now,
                        exchange,
                        Some(&taken.message.clone().into()),
                    );
                    // For another request the call may run here: then it stays here.
                    if !runs && taken.previous != self.process {
                        let job = CallJob::GiveBack { place, taken, lifetime };
                        _ = self.workers.submit(Job::Call(job));
                    }
                }
                Found::Owned(from) if self.relays.has_ended(now, from) => {
                    self.take_over(now, server, CallJob::TakeOver { exchange, place, from, lifetime });
                }
                Found::Owned(owner) => server.shared_sessions().ask_owner(now, exchange, owner),
                Found::Nothing => _ = server.shared_sessions().repeat_call(now, exchange, None),
                Found::Unknown => server.shared_sessions().unavailable(now, exchange),
            },
            CallOutcome::Released { exchange: None, .. } | CallOutcome::Done => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use mcp_proto::head::RequestHead;
    use mcp_std::session_store::SessionStore as _;

    use super::super::tests::{Failing, Process, repeating};
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
        assert!(Entry::read(&[&[VERSION, 4], &written[2..]].concat()).is_none());
    }

    /// Processes with numbers of more than [`PROCESSES`](mcp_std::session_store::PROCESSES), a session, its call in the first one, and its name.
    fn begun() -> ([Process; 2], CallPlace, String) {
        let store = Failing::default();
        (0..1030).for_each(|_| _ = store.join().expect("a number"));
        let [mut a, b] = repeating(&store);
        let id = a.begin();
        let after = a.begin_call(&id, 77);
        let call = KeptCall { process: number_of(a.sharing.process), request: "Nzc".into() };
        assert_ne!(call.process, a.sharing.process);
        ([a, b], CallPlace { id, call }, after)
    }

    /// Lets a process take a call over for a client that is gone.
    fn take_over_in_vain(process: &mut Process, place: &CallPlace) {
        let head = RequestHead { method: "GET", target: "/mcp", fields: &[] };
        let exchange = process.server.open(process.now, &head, None);
        process.server.handle_gone(process.now, exchange);
        let (place, from, lifetime) = (place.clone(), place.call.process, LIFETIME);
        let job = CallJob::TakeOver { exchange, place, from, lifetime };
        let outcome = job.run(&process.shared, process.sharing.process);
        assert!(matches!(outcome, CallOutcome::Found { found: Found::Mine(_), .. }));
        process.sharing.finish_call(process.now, &mut process.server, outcome);
        // For what the workers do.
        let mut turns = 0;
        process.run_until("it is given back", |_| {
            turns += 1;
            turns > 50
        });
    }

    const LIFETIME: Duration = Duration::from_secs(60);

    fn owner(process: &Process, place: &CallPlace) -> Option<u32> {
        Some(process.shared.load_call(place).expect("it answers")?.1.owner)
    }

    // covers: SSE-021
    #[test]
    fn call_that_is_given_back_is_that_of_its_owner_whatever_number_that_has() {
        let ([mut a, mut b], place, _) = begun();
        take_over_in_vain(&mut b, &place);
        b.run_until("it is given back", |b| owner(b, &place) == Some(a.sharing.process));
        a.answer("of the owner");
        a.run_until_written("of the owner");
    }

    // covers: SSE-021
    #[test]
    fn call_that_runs_for_one_request_stays_where_it_is_when_another_one_is_gone() {
        let ([a, mut b], place, after) = begun();
        drop(a);
        b.resume(&place.id, &after);
        b.run_until("it is asked", |process| !process.sharing.relays.is_idle());
        b.now = b.now + Duration::from_secs(2);
        b.run_until("it runs again", |process| process.call.is_some());
        take_over_in_vain(&mut b, &place);
        b.answer("of the new owner");
        b.run_until_written("of the new owner");
    }

    #[test]
    fn store_keeps_a_mark_of_an_answered_call_for_long_only_if_it_was_taken_over() {
        let ([a, b], place, _) = begun();
        let (own, other) = (a.sharing.process, b.sharing.process);
        let is_marked = || {
            thread::sleep(UNCLAIMED_LIFETIME + Duration::from_millis(100));
            owner(&a, &place).is_some()
        };
        assert!(!a.shared.release(&place, own).expect("it answers"));
        assert!(owner(&a, &place).is_some() && !is_marked());
        assert!(a.shared.keep(&place, own, b"{}", LIFETIME).expect("it answers"));
        let taken = b.shared.take_over(&place, other, number_of(own), LIFETIME);
        assert!(matches!(taken, Ok(Found::Mine(Taken { previous, .. })) if previous == own));
        // The id of its request comes once more, to a process that was slow.
        assert!(!a.shared.keep(&place, own, b"[]", LIFETIME).expect("it answers"));
        assert!(!b.shared.release(&place, other).expect("it answers"));
        assert!(is_marked());
        // A third process is told who has the answer, and asks no one twice.
        let seek = |from| a.shared.take_over(&place, other + 1, from, LIFETIME);
        assert!(matches!(seek(number_of(own)), Ok(Found::Owned(found)) if found == number_of(other)));
        assert!(matches!(seek(number_of(other)), Ok(Found::Nothing)));
        assert!(a.shared.release(&place, own).expect("it answers"));
        assert!(
            a.shared.keep(&place, own, b"[]", LIFETIME).expect("it answers"),
            "the next one with this id"
        );
    }

    // covers: SSE-021, CANC-010
    #[test]
    fn call_that_was_cancelled_is_not_taken_over() {
        let ([a, mut b], place, after) = begun();
        drop(a);
        let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}"#;
        b.request("POST", place.id.reveal(), cancelled);
        b.run_until_written(" 202 ");
        let noted = CallPlace::of_cancellation(place.id.clone(), place.call.request.clone());
        b.run_until("it is noted", |b| owner(b, &noted).is_some());
        b.resume(&place.id, &after);
        b.run_until("it is asked", |process| !process.sharing.relays.is_idle());
        b.now = b.now + Duration::from_secs(2);
        b.run_until_written("the call was lost");
        assert!(b.call.is_none());
    }
}
