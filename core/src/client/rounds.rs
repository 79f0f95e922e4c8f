//! Calls that a modern server answers with what it needs first: told, gathered, and repeated with the answers (MRTR).
//!
//! ```text
//!   sent ──input_required, with requests──▶ Asking ──all answered──▶ Out (a request of its own) ──▶ …
//!     └───input_required, state alone─────▶ Pausing, from the second in a row on ──▶ Out
//! ```
//! The call that the application knows stays in the table through all rounds, parked: its own id is used up. What is
//! sent again is an entry of its own, whose outcome is that of the call.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::calls::stamp;
use super::engine::Engine;
use super::event::Event;
use super::input::{Input, InputId, Owed, Source, check};
use crate::calls::link::Timer;
use crate::calls::ours::{Ask, kept_parts};
use crate::calls::outbound::{CallKey, Purpose};
use crate::error::{CallError, UseError};
use crate::json::{self, Noted, Serializer, object_members, write_str};
use crate::model::{InputRequest, InputRequests};
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::shape;
use crate::slab::Key;
use crate::time::Instant;
use crate::vocab;

/// What is under way between the server, which needs something, and the application, which has it
#[derive(Debug, Default)]
pub(super) struct Inputs {
    /// Calls that are in some round
    rounds: BTreeMap<Key, Round>,
    /// What has not been answered, by the number in its [`InputId`]
    open: BTreeMap<u64, Open>,
    /// What legacy servers wait for
    pub(super) owed: Owed,
    /// The ids of pages that the user may be visiting
    pub(super) pages: Vec<Box<str>>,
}

#[derive(Debug)]
struct Open {
    call: Key,
    /// The server's name for it
    name: Box<str>,
    method: &'static str,
}

/// How far a call has come that needs input
#[derive(Debug, Default)]
struct Round {
    /// How often the server has needed something
    count: u32,
    /// How often in a row it needed nothing but to be asked again
    idle: u32,
    /// The text of the latest `requestState`, to be sent back as it came (MRTR-011, MRTR-015)
    state: Option<Box<[u8]>>,
    /// Bytes charged for it and the names
    held: usize,
    phase: Phase,
}

#[derive(Debug, Default)]
enum Phase {
    /// Nothing is to be answered; the call waits until it is sent again
    #[default]
    Pausing,
    /// The application has something to answer
    Asking {
        /// How many are missing
        missing: usize,
        /// Members of `inputResponses`
        answers: Vec<u8>,
        /// What is left of the call's time in all, which stands still
        left: Option<Duration>,
    },
    /// Sent again, as this
    Out(Key),
}

impl Inputs {
    /// Whether there is nothing to keep
    pub(super) fn is_empty(&self) -> bool {
        self.rounds.is_empty() && self.owed.is_empty() && self.pages.is_empty()
    }
}

/// What an `InputRequiredResult` asks for
struct Needs {
    inputs: Vec<(Box<str>, InputRequest<'static>)>,
    state: Option<Box<[u8]>>,
}

/// Reads the result strictly: who answers it acts on behalf of a user
fn read(result: &RawJson, most: usize) -> Result<Needs, CallError> {
    let bad = |why: &str| CallError::BadInputRequest { why: why.into() };
    let (mut state, mut requests) = (None, None);
    object_members(result.as_bytes(), |name, value| match name {
        b"requestState" => state = Some(value),
        b"inputRequests" => requests = Some(value),
        _ => {}
    });
    if state.is_some_and(|s| s.first() != Some(&b'"')) {
        return Err(bad("`requestState` is not a string"));
    }
    if requests.is_none() && state.is_none() {
        return Err(bad("it has neither `inputRequests` nor `requestState`")); // MRTR-005
    }
    let inputs = match &requests {
        None => Vec::new(),
        Some(requests) => {
            let requests = json::read::<InputRequests<'_>>(requests)
                .map_err(|e| bad(&format!("`inputRequests`: {e}")))?;
            if requests.len() > most {
                return Err(bad(&format!("it asks for more than {most} things at once")));
            }
            requests.into_iter().map(|(name, request)| (name.into(), request.into_owned())).collect()
        }
    };
    if inputs.is_empty() && state.is_none() {
        return Err(bad("`inputRequests` is empty"));
    }
    Ok(Needs { inputs, state: state.map(Into::into) })
}

impl Engine {
    /// Whether a request of ours may be answered with what the server needs first (MRTR-003)
    pub(super) fn may_need_input(&self, key: Key) -> bool {
        let call = self.link.outbound.calls.get(self.call_of(key));
        let kept = call.and_then(|c| c.kept.as_deref());
        kept.is_some_and(|kept| vocab::may_need_input(kept_parts(kept).0))
    }

    /// Sends a call again, whose answer was lost or which was refused for its header fields; the id of the repeat
    ///
    /// None, with nothing changed, when what was sent is not kept: answers that went along with it are not.
    #[cfg(feature = "http")]
    pub(super) fn repeat_lost(&mut self, key: Key) -> Option<Key> {
        let call = self.call_of(key);
        let all = self.inputs.get_or_insert_default();
        if all.rounds.get(&call).is_some_and(|round| round.count > 0) {
            return None;
        }
        let parked = self.link.outbound.calls.get_mut(call).filter(|c| c.kept.is_some())?;
        parked.parked = true;
        all.rounds.entry(call).or_default();
        if call != key {
            self.link.outbound.calls.remove(key);
        }
        self.repeat(call);
        self.wire_key(call).filter(|again| *again != call)
    }

    /// The call that a request of ours is about: itself, or the one that it repeats
    pub(super) fn call_of(&self, key: Key) -> Key {
        match self.link.outbound.calls.get(key).map(|c| c.purpose) {
            Some(Purpose::Round(call)) => call,
            _ => key,
        }
    }

    /// A call of ours, or a repeat of it, was answered with what the server needs first
    pub(super) fn input_required(&mut self, key: Key, result: &RawJson) {
        let call = self.repeat_over(key);
        if let Err(error) = self.begin_round(call, result) {
            self.finish(call, Err(error));
        }
    }

    /// Takes a repeat out of the tables; the call that it is about
    pub(super) fn repeat_over(&mut self, key: Key) -> Key {
        let call = self.call_of(key);
        if call != key {
            self.link.outbound.calls.remove(key);
        }
        call
    }

    fn begin_round(&mut self, call: Key, result: &RawJson) -> Result<(), CallError> {
        let (now, limits) = (self.link.now, Arc::clone(&self.link.limits));
        let Some(version) = self.peer.as_ref().map(|p| p.version) else { return Ok(()) };
        let Needs { mut inputs, state } = read(result, limits.max_inputs)?;
        for (_, request) in &mut inputs {
            self.config.screen(request, version)?; // MRTR-008, MRTR-009
        }
        let Some(parked) = self.link.outbound.calls.get_mut(call) else { return Ok(()) };
        parked.parked = true;
        let all = self.inputs.get_or_insert_default();
        let round = all.rounds.entry(call).or_default();
        if round.count >= limits.max_input_rounds {
            return Err(CallError::TooManyRounds { limit: limits.max_input_rounds });
        }
        round.count += 1;
        let names: usize = inputs.iter().map(|(name, _)| name.len()).sum();
        let held = names + state.as_ref().map_or(0, |s| s.len());
        let params = parked.kept.as_ref().map_or(0, |k| k.len());
        self.kept = self.kept.saturating_sub(round.held);
        round.held = 0;
        if self.kept.saturating_sub(params) + held > limits.max_kept_bytes {
            let why = "it is more than is kept (`max_kept_bytes`)".into();
            return Err(CallError::BadInputRequest { why });
        }
        self.kept += held;
        round.held = held;
        round.state = state;
        if inputs.is_empty() {
            round.idle = round.idle.saturating_add(1);
            round.phase = Phase::Pausing;
            let Some(doublings) = round.idle.checked_sub(2) else {
                self.repeat(call); // MRTR-013: at once, the first time
                return Ok(());
            };
            parked.idle_at = now + limits.input_backoff.saturating_mul(1 << doublings.min(20)); // DEC-030
            self.link.deadlines.arm(parked.deadline(), Timer::Out(call));
            return Ok(());
        }
        round.idle = 0;
        // Who is asked may be a human: this time is the application's, not the server's.
        let left = (!parked.total_is_set).then(|| parked.total_at.saturating_duration_since(now));
        if left.is_some() {
            parked.total_at = Instant::FAR;
        }
        parked.idle_at = now + limits.input_timeout;
        self.link.deadlines.arm(parked.deadline(), Timer::Out(call));
        round.phase = Phase::Asking { missing: inputs.len(), answers: Vec::new(), left };
        for (name, request) in inputs {
            self.serial += 1;
            let id = InputId(Source::Round(self.serial));
            let method = request.method().unwrap_or_default();
            all.open.insert(self.serial, Open { call, name: name.clone(), method });
            let input = Input { id, call: Some(CallKey(call)), key: Some(name), request: Box::new(request) };
            self.events.push_back(Event::Input(input));
        }
        Ok(())
    }

    pub(super) fn answer_round<T: Serialize + ?Sized>(
        &mut self,
        number: u64,
        response: &T,
    ) -> Result<(), UseError> {
        let table = self.peer.as_ref().and_then(|p| shape::table(p.version));
        let Inputs { open, rounds, .. } = self.inputs.as_deref_mut().ok_or(UseError::Stale)?;
        let Open { call, name, method } = open.get(&number).ok_or(UseError::Stale)?;
        let (call, round) = (*call, rounds.get_mut(call).ok_or(UseError::Stale)?);
        let Phase::Asking { missing, answers, .. } = &mut round.phase else { return Err(UseError::Stale) };
        let mark = answers.len();
        if mark > 0 {
            answers.push(b',');
        }
        write_str(answers, name); // MRTR-014
        answers.push(b':');
        let start = answers.len();
        let written = Serializer::object(answers, response, table).map_err(UseError::from);
        let checked =
            written.and_then(|noted| check(method, noted, answers.get(start..).unwrap_or_default()));
        if let Err(error) = checked {
            answers.truncate(mark);
            return Err(error);
        }
        *missing -= 1;
        let all_there = *missing == 0;
        open.remove(&number);
        if all_there {
            self.repeat(call); // MRTR-012
        }
        Ok(())
    }

    pub(super) fn refuse_round(&mut self, number: u64, error: &RpcError) -> Result<(), UseError> {
        let inputs = self.inputs.as_mut().ok_or(UseError::Stale)?;
        let Open { call, .. } = inputs.open.remove(&number).ok_or(UseError::Stale)?;
        self.finish(call, Err(CallError::InputRefused(error.clone())));
        Ok(())
    }

    /// Sends a call again, under an id of its own and with metadata of its own (MRTR-016, MRTR-019)
    fn repeat(&mut self, call: Key) {
        let now = self.link.now;
        let Some(all) = &mut self.inputs else { return };
        let Some(round) = all.rounds.get_mut(&call) else { return };
        let Some(parked) = self.link.outbound.calls.get_mut(call) else { return };
        let (answers, left) = match core::mem::take(&mut round.phase) {
            Phase::Asking { answers, left, .. } => (answers, left),
            _ => (Vec::new(), None),
        };
        if let Some(left) = left {
            parked.total_at = now + left;
        }
        parked.idle_at = Instant::FAR;
        let (repeat, progress) = (parked.again(now, call), parked.wants_progress);
        let Some(kept) = parked.kept.take() else { return };
        let key = self.link.outbound.calls.insert(repeat);
        round.phase = Phase::Out(key);
        let (method, params, meta) = kept_parts(&kept);
        let meta = meta.map(|meta| RawJson::trusted(Bytes::copy_from_slice(meta)));
        let stamp = stamp(self.peer.as_deref(), &self.config, self.news.as_deref());
        let ask = Ask { method, stamp, meta: meta.as_ref(), progress };
        let sent = self.link.ask(key, &ask, |out| {
            let start = out.len() + 1;
            out.extend_from_slice(params);
            let mut member = |name: &str, parts: &[&[u8]]| {
                if out.len() > start {
                    out.push(b',');
                }
                write_str(out, name);
                out.push(b':');
                parts.iter().for_each(|part| out.extend_from_slice(part));
            };
            if !answers.is_empty() {
                member("inputResponses", &[b"{", &answers, b"}"]);
            }
            if let Some(state) = &round.state {
                member("requestState", &[state]);
            }
            out.push(b'}');
            Ok(Noted::default())
        });
        if let Some(parked) = self.link.outbound.calls.get_mut(call) {
            parked.kept = Some(kept);
        }
        if let Err(error) = sent {
            self.finish(call, Err(CallError::Refused(error)));
        }
    }

    /// A deadline of a call that is in some round has come
    pub(super) fn round_due(&mut self, call: Key) {
        let Some(parked) = self.link.outbound.calls.get(call) else { return };
        // A legacy server may wait for something while a call is out a second time.
        let owed = self.inputs.as_ref().map_or(Duration::ZERO, |inputs| inputs.owed.waited(self.link.now));
        let more = if parked.total_is_set { Duration::ZERO } else { owed };
        let total_at = parked.total_at + more;
        if self.link.now >= total_at {
            return self.abandon(call, Some("no answer in time"), CallError::TotalTimedOut);
        }
        if self.link.now >= parked.total_at {
            return self.link.deadlines.arm(total_at, Timer::Out(call));
        }
        let round = self.inputs.as_ref().and_then(|inputs| inputs.rounds.get(&call));
        match round.map(|r| &r.phase) {
            Some(Phase::Pausing) => self.repeat(call),
            Some(Phase::Asking { .. }) => self.finish(call, Err(CallError::InputTimedOut)),
            Some(Phase::Out(_)) | None => {}
        }
    }

    /// The request under which a call is out, if it is
    pub(super) fn wire_key(&self, call: Key) -> Option<Key> {
        match self.inputs.as_ref().and_then(|inputs| inputs.rounds.get(&call)).map(|r| &r.phase) {
            None => Some(call),
            Some(Phase::Out(key)) => Some(*key),
            Some(_) => None,
        }
    }

    /// A call that was in some round has ended: nothing of it is to be answered any more
    pub(super) fn end_rounds(&mut self, call: Key) {
        let Some(inputs) = &mut self.inputs else { return };
        let Some(round) = inputs.rounds.remove(&call) else { return };
        self.kept = self.kept.saturating_sub(round.held);
        match round.phase {
            Phase::Pausing => {}
            Phase::Out(key) => drop(self.link.outbound.calls.remove(key)),
            Phase::Asking { .. } => {
                let gone = inputs.open.iter().filter(|(_, open)| open.call == call);
                let gone: Vec<u64> = gone.map(|(number, _)| *number).collect();
                for number in &gone {
                    inputs.open.remove(number);
                }
                for number in gone {
                    self.input_gone(InputId(Source::Round(number)));
                }
            }
        }
    }
}
