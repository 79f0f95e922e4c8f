//! Rounds of a modern call: input requests are reported, gathered, and sent with a retry of the call (MRTR).
//!
//! ```text
//!   call ──input_required, with requests─▶ AwaitingInput ──all answered──▶ Sent (a request of its own) ──▶ …
//!     └────input_required, state alone───▶ BackingOff (from the second in a row on) ──▶ Sent
//! ```
//! The original call stays in the table through all rounds as *superseded*: its id is used up. Each retry is an entry
//! of its own, whose outcome becomes that of the call.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::common::{CommonState, request_meta};
use super::config::{NamedInput, ReadRound};
use super::event::Event;
use super::input::{self, Input, InputId, InputSource, check_input_response};
use crate::calls::endpoint::EndpointTimer;
use crate::calls::outbound::CallKey;
use crate::calls::outbound_requests::{OutboundRequest, split_retained};
use crate::error::{CallError, UseError};
use crate::json::{Serializer, TopLevelMembers, room, write_str};
use crate::raw::RawJson;
use crate::slab::{Key, SecondaryMap};
use crate::sync::Arc;
use crate::time::Instant;
use crate::version::Version;

/// Calls that are in a round, and their unanswered input requests; see the [module](self).
///
/// Deadlines are those of the calls, in the shared heap: a call has one whether it is in a round or not.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    rounds: SecondaryMap<InputRound>,
}

/// Meaning of a deadline of a call that is in a round.
pub(super) enum RoundDeadline {
    /// The call is sent again.
    Retry,
    /// The input has not come in time.
    InputTimedOut,
    /// The retry has deadlines of its own.
    None,
}

/// An unanswered input request.
#[derive(Debug)]
struct OpenInput {
    /// The server's key for the input request.
    name: Box<str>,
    method: &'static str,
}

/// The progress of a call through its rounds.
#[derive(Debug, Default)]
struct InputRound {
    /// Number of rounds so far.
    count: u32,
    /// Number of rounds in a row without input requests.
    empty_rounds: u32,
    /// Text of the latest `requestState`, which is returned unchanged (MRTR-011, MRTR-015).
    state: Option<Vec<u8>>,
    /// Bytes that are charged for the state and the keys.
    charged_bytes: usize,
    phase: RoundPhase,
}

#[derive(Debug, Default)]
enum RoundPhase {
    /// The call waits before its next retry.
    #[default]
    BackingOff,
    /// The application has to answer input requests.
    AwaitingInput {
        /// Serial number of the first input request; each further one has the next.
        first: u64,
        /// The input requests; those with a response are gone.
        inputs: Vec<Option<OpenInput>>,
        /// Number of missing responses.
        missing: usize,
        /// Members of `inputResponses`.
        answers: Vec<u8>,
        /// Rest of the total timeout, which is suspended.
        remaining_total: Option<Duration>,
    },
    /// The retry was sent as this entry.
    Sent(Key),
}

/// Room for an input response, which most of them do not exceed.
const ANSWER_ROOM: usize = 256;

/// The content of an `InputRequiredResult`.
struct RequiredInput {
    inputs: Vec<NamedInput>,
    state: Option<Vec<u8>>,
}

/// Parses the result, and checks its input requests (MRTR-008, MRTR-009).
///
/// # Errors
///
/// [`CallError::InvalidInputRequest`] or [`CallError::NotDeclared`].
fn parse_input_required(
    common: &CommonState,
    result: &RawJson,
    version: Version,
) -> Result<RequiredInput, CallError> {
    let invalid = |reason: &str| CallError::InvalidInputRequest { reason: reason.into() };
    let max = common.endpoint.limits.max_inputs;
    let ReadRound { inputs, state } = common.config.read_round(result.as_bytes(), max, version)?;
    // Only its kind is checked: the text is returned as it came (MRTR-011).
    if state.is_some_and(|s| !s.starts_with('"')) {
        return Err(invalid("`requestState` is not a string"));
    }
    match (inputs, state) {
        (None, None) => Err(invalid("it has neither `inputRequests` nor `requestState`")), // MRTR-005
        // A retry without responses and without state would be the same request again.
        (Some(inputs), None) if inputs.is_empty() => Err(invalid("`inputRequests` is empty")),
        (inputs, state) => {
            Ok(RequiredInput { inputs: inputs.unwrap_or_default(), state: state.map(Into::into) })
        }
    }
}

impl Rounds {
    /// Returns whether there is nothing to keep.
    pub(super) fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    /// Sends a call again whose answer was lost, or which was refused for its header fields. Returns the retry.
    ///
    /// Returns `None` without effect if the request is not retained. A retry with input responses never is.
    ///
    /// # Errors
    ///
    /// The outcome of the call, if it cannot be sent.
    pub(super) fn resend_lost(
        &mut self,
        common: &mut CommonState,
        key: Key,
    ) -> Result<Option<Key>, CallError> {
        let call = common.original_call(key);
        if self.rounds.get(call).is_some_and(|round| round.count > 0) {
            return Ok(None);
        }
        let calls = &mut common.endpoint.outbound.calls;
        if calls.get(call).is_none_or(|c| c.retained.is_empty()) {
            return Ok(None);
        }
        calls.supersede(call);
        self.round(call);
        if call != key {
            calls.remove(key);
        }
        self.send_retry(common, call)?;
        Ok(self.wire_key(call).filter(|retry| *retry != call))
    }

    /// Begins a round of a call by the result that asks for it.
    ///
    /// # Errors
    ///
    /// The outcome of the call.
    pub(super) fn begin(
        &mut self,
        common: &mut CommonState,
        call: Key,
        result: &RawJson,
    ) -> Result<(), CallError> {
        let (now, limits) = (common.endpoint.now, Arc::clone(&common.endpoint.limits));
        let Some(peer) = common.peer.as_ref() else { return Ok(()) };
        let version = peer.version;
        let RequiredInput { inputs, state } = parse_input_required(common, result, version)?;
        for (_, request) in &inputs {
            input::report_deprecated(common, request);
        }
        // Its response is here, so no other one can come under its id.
        common.endpoint.outbound.calls.supersede(call);
        let Some(parked) = common.endpoint.outbound.calls.get_mut(call) else { return Ok(()) };
        let Some(round) = self.round(call) else { return Ok(()) };
        // A server could otherwise ask without end (DEC-030).
        if round.count >= limits.max_input_rounds {
            return Err(CallError::TooManyRounds { limit: limits.max_input_rounds });
        }
        round.count += 1;
        let names: usize = inputs.iter().map(|(name, _)| name.len()).sum();
        let added_bytes = names + state.as_ref().map_or(0, |s| s.len());
        let params = parked.retained.len();
        // The state of the round before is replaced, so it does not count any more.
        common.retained_bytes = common.retained_bytes.saturating_sub(round.charged_bytes);
        round.charged_bytes = 0;
        // The parameters do not count here: they were there before the server asked.
        if common.retained_bytes.saturating_sub(params) + added_bytes > limits.max_retained_bytes {
            let reason = "it exceeds the limit `max_retained_bytes`".into();
            return Err(CallError::InvalidInputRequest { reason });
        }
        common.retained_bytes += added_bytes;
        round.charged_bytes = added_bytes;
        round.state = state;
        if !inputs.is_empty() {
            self.request_input(common, call, inputs);
            return Ok(());
        }
        round.empty_rounds = round.empty_rounds.saturating_add(1);
        round.phase = RoundPhase::BackingOff;
        let Some(doublings) = round.empty_rounds.checked_sub(2) else {
            return self.send_retry(common, call); // MRTR-013: immediately the first time
        };
        // The limit of rounds may be greater than the number of bits, so the shift is capped.
        parked.idle_deadline = now + limits.input_backoff.saturating_mul(1 << doublings.min(20)); // DEC-030
        common.endpoint.deadlines.arm(parked.deadline(), EndpointTimer::Outbound(call));
        Ok(())
    }

    /// Asks the application for the input of a round.
    fn request_input(&mut self, common: &mut CommonState, call: Key, inputs: Vec<NamedInput>) {
        let (now, limits) = (common.endpoint.now, &common.endpoint.limits);
        let Some(parked) = common.endpoint.outbound.calls.get_mut(call) else { return };
        let Some(round) = self.rounds.get_mut(call) else { return };
        round.empty_rounds = 0;
        // A user may be asked, so this time does not count against the server.
        let remaining_total =
            (!parked.has_explicit_total).then(|| parked.total_deadline.saturating_duration_since(now));
        if remaining_total.is_some() {
            parked.total_deadline = Instant::FAR_FUTURE;
        }
        parked.idle_deadline = now + limits.input_timeout;
        common.endpoint.deadlines.arm(parked.deadline(), EndpointTimer::Outbound(call));
        let missing = inputs.len();
        // The serials of a round are consecutive: `find_input` computes the position from them.
        let (mut first, mut open) = (None, Vec::with_capacity(missing));
        for (name, request) in inputs {
            let serial = common.next_serial();
            first.get_or_insert(serial);
            let id = InputId(InputSource::Round(call, serial));
            let method = request.method().unwrap_or_default();
            open.push(Some(OpenInput { name: name.clone(), method }));
            let call = Some(CallKey(call));
            let input = Input { id, call, key: Some(name), request };
            common.events.push_back(Event::Input(input));
        }
        let (first, answers) = (first.unwrap_or_default(), Vec::new());
        round.phase = RoundPhase::AwaitingInput { first, inputs: open, missing, answers, remaining_total };
    }

    /// Records an input response. Returns whether the call can be sent again by then.
    ///
    /// # Errors
    ///
    /// As [`Engine::answer`](super::Engine::answer).
    pub(super) fn answer<T: Serialize + ?Sized>(
        &mut self,
        common: &CommonState,
        call: Key,
        number: u64,
        response: &T,
    ) -> Result<bool, UseError> {
        let round = self.rounds.get_mut(call).ok_or(UseError::Stale)?;
        let RoundPhase::AwaitingInput { first, inputs, missing, answers, .. } = &mut round.phase else {
            return Err(UseError::Stale);
        };
        let open = find_input(inputs, *first, number).ok_or(UseError::Stale)?;
        let OpenInput { name, method } = open.as_ref().ok_or(UseError::Stale)?;
        let mark = answers.len();
        room(answers, name.len() + ANSWER_ROOM)?;
        if mark > 0 {
            answers.push(b',');
        }
        write_str(answers, name); // MRTR-014
        answers.push(b':');
        let start = answers.len();
        let written = Serializer::object(answers, response, common.shape_table()).map_err(UseError::from);
        let checked = written.and_then(|members| {
            check_input_response(method, members, answers.get(start..).unwrap_or_default())
        });
        if let Err(error) = checked {
            // No comma and no name may stay behind, because the application may answer again.
            answers.truncate(mark);
            return Err(error);
        }
        *missing -= 1;
        *open = None;
        Ok(*missing == 0) // MRTR-012
    }

    /// Removes an input request that the application refuses; `None` if it is stale.
    pub(super) fn take_refused(&mut self, call: Key, number: u64) -> Option<()> {
        let RoundPhase::AwaitingInput { first, inputs, .. } = &mut self.rounds.get_mut(call)?.phase else {
            return None;
        };
        find_input(inputs, *first, number)?.take().map(drop)
    }

    /// Returns the round of a call. It is made now if there is none.
    fn round(&mut self, call: Key) -> Option<&mut InputRound> {
        if self.rounds.get(call).is_none() {
            self.rounds.insert(call, InputRound::default());
        }
        self.rounds.get_mut(call)
    }

    /// Sends a retry of a call, with a new id and new metadata (MRTR-016, MRTR-019).
    ///
    /// # Errors
    ///
    /// The outcome of the call, if it cannot be sent.
    pub(super) fn send_retry(&mut self, common: &mut CommonState, call: Key) -> Result<(), CallError> {
        let now = common.endpoint.now;
        let Some(round) = self.rounds.get_mut(call) else { return Ok(()) };
        let calls = &mut common.endpoint.outbound.calls;
        let Some(parked) = calls.get_mut(call) else { return Ok(()) };
        let (answers, remaining_total) = match core::mem::take(&mut round.phase) {
            RoundPhase::AwaitingInput { answers, remaining_total, .. } => (answers, remaining_total),
            _ => (Vec::new(), None),
        };
        // The user has answered, so the time of the server goes on where it stopped.
        if let Some(remaining_total) = remaining_total {
            parked.total_deadline = now + remaining_total;
        }
        // The retry is an entry of its own, which has this deadline.
        parked.idle_deadline = Instant::FAR_FUTURE;
        let (retry, progress) = (parked.new_retry(now, call), parked.wants_progress());
        // Taken out because `send_request` changes the table. It is put back below.
        let retained = core::mem::take(&mut parked.retained);
        if retained.is_empty() {
            return Ok(());
        }
        let key = calls.insert(retry);
        // Set before the request is sent: `end` then also removes a retry that could not be sent.
        round.phase = RoundPhase::Sent(key);
        let (method, params, meta) = split_retained(&retained);
        let meta = meta.map(|meta| RawJson::trusted(Bytes::copy_from_slice(meta)));
        let base_meta = request_meta(&common.config, common.peer.as_ref(), common.log.as_ref());
        let request = OutboundRequest { method, base_meta, meta: meta.as_ref(), wants_progress: progress };
        let sent = common.endpoint.send_request(key, &request, &mut |out| {
            // `params` has no closing brace. Behind its opening brace the first member needs no comma.
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
            Ok(TopLevelMembers::default())
        });
        if let Some(parked) = common.endpoint.outbound.calls.get_mut(call) {
            parked.retained = retained;
        }
        sent.map_err(CallError::Refused)
    }

    /// Returns what a deadline of a call means.
    pub(super) fn deadline_passed(&self, call: Key) -> RoundDeadline {
        match self.rounds.get(call).map(|round| &round.phase) {
            Some(RoundPhase::BackingOff) => RoundDeadline::Retry,
            Some(RoundPhase::AwaitingInput { .. }) => RoundDeadline::InputTimedOut,
            Some(RoundPhase::Sent(_)) | None => RoundDeadline::None,
        }
    }

    /// Returns the entry under which a call is in flight, if it is.
    pub(super) fn wire_key(&self, call: Key) -> Option<Key> {
        match self.rounds.get(call).map(|round| &round.phase) {
            None => Some(call),
            Some(RoundPhase::Sent(key)) => Some(*key),
            Some(_) => None,
        }
    }

    /// Removes the rounds of a call that has ended, and withdraws its input requests.
    pub(super) fn end(&mut self, common: &mut CommonState, call: Key) {
        let Some(round) = self.rounds.remove(call) else { return };
        common.retained_bytes = common.retained_bytes.saturating_sub(round.charged_bytes);
        match round.phase {
            RoundPhase::BackingOff => {}
            RoundPhase::Sent(key) => drop(common.endpoint.outbound.calls.remove(key)),
            RoundPhase::AwaitingInput { first, inputs, .. } => {
                for (number, input) in (first..).zip(inputs) {
                    if input.is_some() {
                        common.events.withdraw_input(InputId(InputSource::Round(call, number)));
                    }
                }
            }
        }
    }
}

/// Returns the place of the input request with a serial number.
fn find_input(inputs: &mut [Option<OpenInput>], first: u64, number: u64) -> Option<&mut Option<OpenInput>> {
    inputs.get_mut(usize::try_from(number.checked_sub(first)?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::outbound::{CallOptions, CallPurpose, OutboundCall};
    use crate::client::config::Config;
    use crate::client::event::Peer;
    use crate::diagnostic::Diagnostic;
    use crate::identity::Capabilities;
    use crate::methods::Capability;
    use alloc::format;

    const ROOTS: &str = r#"{"method":"roots/list"}"#;

    #[expect(deprecated, reason = "tested until its removal")]
    fn connected() -> CommonState {
        let capabilities = Capabilities::new().with(Capability::Roots);
        let mut common = CommonState::new(Arc::new(Config::new("test", "1").capabilities(capabilities)));
        common.main_channel =
            Some(common.endpoint.open_channel(crate::calls::endpoint::IdlessErrors::Unsent, ()));
        common.peer = Some(Peer {
            version: Version::V2026_07_28,
            info: None,
            declared: Capabilities::new(),
            capabilities: RawJson::trusted(Bytes::from_static(b"{}")),
            instructions: None,
        });
        common
    }

    /// Adds a call that can be repeated.
    fn call(common: &mut CommonState) -> Key {
        let (now, limits) = (common.endpoint.now, Arc::clone(&common.endpoint.limits));
        let main = common.main_channel.expect("open");
        let mut call = OutboundCall::new(now, main, CallPurpose::Application, &CallOptions::new(), &limits);
        call.retained = br#""tools/call","params":{"name":"t""#.as_slice().into();
        common.endpoint.outbound.calls.insert(call)
    }

    fn required(names: &[&str]) -> RawJson {
        let requests: Vec<_> = names.iter().map(|name| format!(r#""{name}":{ROOTS}"#)).collect();
        RawJson::new(format!(r#"{{"requestState":"s","inputRequests":{{{}}}}}"#, requests.join(",")))
            .expect("JSON")
    }

    fn inputs(common: &mut CommonState) -> Vec<(Key, u64)> {
        let mut found = Vec::new();
        while let Some(event) = common.events.pop_front() {
            match event {
                Event::Input(Input { id: InputId(InputSource::Round(call, number)), .. }) => {
                    found.push((call, number));
                }
                Event::Diagnostic(Diagnostic::DeprecatedFeature { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        found
    }

    // covers: MRTR-012
    #[test]
    fn call_is_sent_again_with_its_last_input_response() {
        let (mut common, mut rounds) = (connected(), Rounds::default());
        let (one, other) = (call(&mut common), call(&mut common));
        rounds.begin(&mut common, one, &required(&["a", "b"])).expect("a round");
        rounds.begin(&mut common, other, &required(&["a"])).expect("a round");
        let open = inputs(&mut common);
        assert_eq!((open.len(), rounds.wire_key(one)), (3, None));
        let answer = crate::model::ListRootsResult::new(Vec::new());
        let mut give = |(call, number)| rounds.answer(&common, call, number, &answer);
        assert_eq!(give(open[1]), Ok(false));
        assert_eq!(give(open[1]), Err(UseError::Stale));
        assert_eq!(
            (give((other, open[0].1)), give((one, open[2].1))),
            (Err(UseError::Stale), Err(UseError::Stale))
        );
        assert_eq!((open[0].0, give(open[0])), (one, Ok(true)));
        rounds.send_retry(&mut common, one).expect("sent");
        let retry = rounds.wire_key(one).expect("sent");
        assert!(retry != one && common.original_call(retry) == one);
        rounds.end(&mut common, one);
        assert!(common.endpoint.outbound.calls.get(retry).is_none() && !rounds.is_empty());
    }

    #[test]
    fn retry_of_a_call_without_parameters_is_json() {
        let (mut common, mut rounds) = (connected(), Rounds::default());
        let call = call(&mut common);
        let retained = br#""prompts/get","params":{"#.as_slice();
        common.endpoint.outbound.calls.get_mut(call).expect("a call").retained = retained.into();
        rounds.begin(&mut common, call, &required(&["a"])).expect("a round");
        let (_, number) = inputs(&mut common)[0];
        // The revision has no metadata there.
        let meta = RawJson::new(r#"{"a":1}"#).expect("JSON");
        let answer = crate::model::ListRootsResult::new(Vec::new()).meta(meta);
        assert_eq!(rounds.answer(&common, call, number, &answer), Ok(true));
        rounds.send_retry(&mut common, call).expect("sent");
        let main = common.main_channel.expect("open");
        let sent =
            common.endpoint.channels.get_mut(main).and_then(|c| c.outbox.pop_message()).expect("a request");
        let sent: serde_json::Value = serde_json::from_slice(&sent).expect("JSON");
        let params = serde_json::json!({"inputResponses": {"a": {"roots": []}}, "requestState": "s"});
        let mut found = sent["params"].clone();
        found.as_object_mut().expect("an object").remove("_meta");
        assert_eq!((&sent["method"], found), (&"prompts/get".into(), params));
    }

    #[test]
    fn end_of_a_call_withdraws_its_input_requests_and_no_others() {
        let (mut common, mut rounds) = (connected(), Rounds::default());
        let (one, other) = (call(&mut common), call(&mut common));
        rounds.begin(&mut common, one, &required(&["a"])).expect("a round");
        rounds.begin(&mut common, other, &required(&["a", "b"])).expect("a round");
        rounds.end(&mut common, other);
        let left = inputs(&mut common);
        assert_eq!((left.len(), left[0].0), (1, one));
        assert_eq!(rounds.take_refused(one, left[0].1), Some(()));
        assert_eq!(rounds.take_refused(one, left[0].1), None);
        assert!(common.retained_bytes > 0);
        rounds.end(&mut common, one);
        assert!(rounds.is_empty() && common.retained_bytes == 0);
    }

    // covers: MRTR-013
    #[test]
    fn empty_rounds_are_repeated_at_once_and_then_after_a_pause() {
        let (mut common, mut rounds) = (connected(), Rounds::default());
        let call = call(&mut common);
        let state = RawJson::new(r#"{"requestState":"s"}"#).expect("JSON");
        rounds.begin(&mut common, call, &state).expect("a round");
        assert!(rounds.wire_key(call).is_some_and(|key| key != call));
        assert!(matches!(rounds.deadline_passed(call), RoundDeadline::None));
        rounds.begin(&mut common, call, &state).expect("a round");
        assert_eq!(rounds.wire_key(call), None);
        assert!(matches!(rounds.deadline_passed(call), RoundDeadline::Retry));
    }
}
