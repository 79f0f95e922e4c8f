//! What a handler needs from the client's side before it can go on: asked, gathered, delivered with the call again
//! (MRTR, and the requests of legacy servers).
//!
//! In the modern era nothing is kept: what was asked is the answer to the call, what is to be remembered travels sealed,
//! and the client's retry is a call of its own. In the legacy era the call is *parked*: it stays unanswered while the
//! requests are out, and comes again when all of them have ended.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

use super::engine::Engine;
use super::event::{Call, Event};
#[cfg(feature = "crypto")]
use super::sealing::UNANSWERED;
use crate::calls::inbound::{Answer, CallId, InCall, Parked};
use crate::calls::ours::Ask;
use crate::calls::outbound::{CallOptions, OutCall, Purpose};
use crate::error::{CallError, UseError};
use crate::identity::Capabilities;
use crate::json::{Serializer, Span, object_members, write_str};
use crate::model::{InputRequest, InputRequests};
use crate::raw::RawJson;
use crate::rpc::envelope::{self, Params};
use crate::rpc::{RpcError, encode};
use crate::shape;
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::{Era, Version};
use crate::vocab;

/// What came with a call that was delivered before
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    /// How often it was delivered before
    pub(super) attempt: u32,
    pub(super) state: Vec<u8>,
    pub(super) answers: Vec<(Box<str>, Answer)>,
    /// What was asked in the round before, where that is known
    pub(super) asked: Option<Vec<Box<str>>>,
}

/// The part that one of many sessions may have of what is kept for calls that wait
const SHARE: usize = 4;

impl Round {
    /// What is carried into the next round: all answers but those to what is asked anew
    fn carried<'a>(&'a self, requests: &InputRequests<'_>) -> impl Iterator<Item = &'a (Box<str>, Answer)> {
        let asked = |key: &str| requests.iter().any(|(asked, _)| asked == key);
        self.answers.iter().filter(move |(key, _)| !asked(key))
    }
}

impl Call {
    /// How often this call was delivered before: each [`need_input`](Engine::need_input) leads to another delivery
    ///
    /// A call whose state was not sealed ([`Config::seal`](super::Config::seal)) does not know.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.round.as_ref().map_or(0, |round| round.attempt)
    }

    /// What the handler wanted to have back, if it asked before
    #[must_use]
    pub fn state(&self) -> Option<&[u8]> {
        self.round.as_ref().map(|round| &*round.state).filter(|state| !state.is_empty())
    }

    /// The answer to what was asked under a key, in this round or an earlier one
    ///
    /// A result object, or why there is none: a client may refuse (in the legacy era; a modern one then does not come
    /// again), and a legacy one may let its time pass. Results come as the client wrote them: what they are is to be
    /// checked (MRTR-020, MRTR-027).
    #[must_use]
    pub fn answer(&self, key: &str) -> Option<Result<&RawJson, &CallError>> {
        let (_, answer) = self.round.as_ref()?.answers.iter().find(|(other, _)| **other == *key)?;
        Some(answer.as_ref())
    }
}

impl Engine {
    /// Asks the client's side for what the handler of a call needs; the call then comes again, with the answers
    ///
    /// In the modern era the call is answered with `requests` and with `state`, sealed (MRTR-001, MRTR-004, MRTR-021);
    /// the client's retry is the next delivery. In the legacy era the requests go out as such, and when all of them have
    /// ended the call is delivered again. Either way it has a new key then, [`Call::answer`] has what was answered so
    /// far, and [`Call::state`] is `state`. A modern client need not come back (MRTR-025).
    ///
    /// Refused, with nothing sent and the call still open: for methods other than `tools/call`, `prompts/get` and
    /// `resources/read` (MRTR-002, MRTR-003), with nothing to ask and no state (MRTR-005), for what the client did not
    /// declare ([`UseError::PeerLacks`]; MRTR-009, ELIC-005, SAMP-002, SAMP-008, ROOT-010), for what the revision has no
    /// form for, after [`Limits::max_input_rounds`](crate::Limits::max_input_rounds), for more than
    /// [`Limits::max_inputs`](crate::Limits::max_inputs) answers in all, and without keys to seal with where something
    /// has to be sealed ([`UseError::NoKeys`]); and of a legacy client while
    /// [`Limits::max_kept_bytes`](crate::Limits::max_kept_bytes) are kept of calls that wait.
    pub fn need_input(
        &mut self,
        now: Instant,
        call: &Call,
        requests: &InputRequests<'_>,
        state: &[u8],
    ) -> Result<(), UseError> {
        self.link.tick(now);
        if self.link.inbound.calls.get(call.id.0).is_none() {
            return Err(UseError::Stale);
        }
        if !vocab::may_need_input(&call.method) || (requests.is_empty() && state.is_empty()) {
            return Err(UseError::NotYours(call.method().into()));
        }
        if call.attempt() >= self.link.limits.max_input_rounds {
            return Err(UseError::Full("max_input_rounds"));
        }
        let nothing = Round::default();
        let carried = call.round.as_deref().unwrap_or(&nothing).carried(requests).count();
        if requests.len() + carried > self.link.limits.max_inputs {
            return Err(UseError::Full("max_inputs"));
        }
        let declared = Capabilities::declared(&self.peer(call).capabilities);
        for (key, request) in requests.iter() {
            check(key, request, &declared, call.version)?;
        }
        match call.version.era() {
            Era::Modern => self.answer_with_requests(call, requests, state),
            Era::Legacy => self.park(call, requests, state),
        }
    }

    // ---- modern ----------------------------------------------------------------------------------------------

    fn answer_with_requests(
        &mut self,
        call: &Call,
        requests: &InputRequests<'_>,
        state: &[u8],
    ) -> Result<(), UseError> {
        #[cfg(feature = "crypto")]
        self.make_keys();
        let sealed = self.seal(call, requests, state)?;
        let link = &mut self.link;
        let record = link.inbound.calls.get(call.id.0).ok_or(UseError::Stale)?;
        let c = link.channels.get_mut(record.channel).ok_or(UseError::Stale)?;
        let (channel, mark) = (record.channel, c.outbox.mark());
        let out = c.outbox.tail();
        encode::result_head(out, &record.id);
        out.extend_from_slice(b"{\"resultType\":\"input_required\"");
        if !requests.is_empty() {
            out.extend_from_slice(b",\"inputRequests\":");
            if let Err(e) = Serializer::object(out, requests, shape::table(call.version)) {
                c.outbox.undo(mark);
                return Err(e.into());
            }
        }
        if let Some(sealed) = sealed {
            out.extend_from_slice(b",\"requestState\":");
            write_str(out, &sealed);
        }
        if !self.config.stamp_meta.is_empty() {
            out.extend_from_slice(b",\"_meta\":{");
            out.extend_from_slice(&self.config.stamp_meta);
            out.push(b'}');
        }
        out.push(b'}');
        encode::end(out);
        link.answered(call.id.0, mark);
        self.check_closed(channel);
        Ok(())
    }

    /// What the client is to send back; none where nothing can be sealed and nothing has to
    fn seal(
        &self,
        call: &Call,
        requests: &InputRequests<'_>,
        state: &[u8],
    ) -> Result<Option<String>, UseError> {
        let nothing = Round::default();
        let round = call.round.as_deref().unwrap_or(&nothing);
        let carried = round
            .carried(requests)
            .filter_map(|(key, answer)| Some((&**key, answer.as_ref().ok()?.as_str())));
        #[cfg(feature = "crypto")]
        if let Some(keys) = &self.keys {
            let asked = requests.iter().map(|(key, _)| (key, UNANSWERED));
            let answers = carried.chain(asked).collect();
            let record = crate::seal::Record { attempt: round.attempt.saturating_add(1), state, answers };
            // Whole seconds, and never earlier than was promised.
            let rest = core::time::Duration::from_micros(999_999);
            let expires = self.config.anchor.unix_secs(self.link.now + self.link.limits.input_timeout + rest);
            let principal = self.principal(call.channel);
            return keys
                .seal(call, principal, &record, expires, self.link.limits.max_request_state)
                .map(Some);
        }
        if state.is_empty() && carried.count() == 0 { Ok(None) } else { Err(UseError::NoKeys) }
    }

    /// What came along with a modern request; the error is the answer to give
    pub(super) fn round(&self, call: &Call) -> Result<Option<Box<Round>>, RpcError> {
        let (inputs, state) = (call.params.inputs, call.params.state);
        if (inputs.is_empty() && state.is_empty()) || !vocab::may_need_input(&call.method) {
            return Ok(None);
        }
        let mut round = self.unseal(call, state)?;
        if let Some(inputs) = inputs.of(&call.frame) {
            if inputs.first() != Some(&b'{') {
                return Err(RpcError::invalid_params("`params.inputResponses` is not an object")); // MRTR-027
            }
            let most = self.link.limits.max_inputs;
            let mut wrong = None;
            let asked = round.asked.take();
            object_members(inputs, |key, value| {
                let key = core::str::from_utf8(key).unwrap_or_default();
                if asked.as_ref().is_some_and(|asked| asked.iter().all(|other| **other != *key)) {
                    return; // MRTR-028
                }
                if value.first() != Some(&b'{') {
                    wrong.get_or_insert_with(|| String::from(key));
                } else if round.answers.len() < most && !round.answers.iter().any(|(k, _)| **k == *key) {
                    // What was answered in an earlier round stays as it was.
                    let value = RawJson::trusted(call.frame.slice_ref(value));
                    round.answers.push((key.into(), Ok(value)));
                }
            });
            if let Some(key) = wrong {
                let key = crate::rpc::clip(&key);
                let what = format!("`params.inputResponses.{key}` is not an object");
                return Err(RpcError::invalid_params(what));
            }
        }
        Ok(Some(Box::new(round)))
    }

    /// What was sealed in an earlier round (MRTR-020, MRTR-021, MRTR-023)
    fn unseal(&self, call: &Call, state: Span) -> Result<Round, RpcError> {
        if state.is_empty() {
            // Answers without a state: to a server that asks for them without keeping anything.
            return Ok(Round::default());
        }
        let Some(text) = call.part(state).and_then(|text| text.string()) else {
            return Err(RpcError::invalid_params("`params.requestState` is not a string"));
        };
        let opened = self.open(call, &text);
        // One text for every reason: a forger learns nothing.
        opened.ok_or_else(|| RpcError::invalid_params("`params.requestState` is not valid: begin again"))
    }

    #[cfg(feature = "crypto")]
    fn open(&self, call: &Call, text: &str) -> Option<Round> {
        let now = self.config.anchor.unix_secs(self.link.now);
        let principal = self.principal(call.channel);
        self.keys.as_ref()?.open(call, principal, text, now, self.link.limits.max_request_state)
    }

    #[cfg(not(feature = "crypto"))]
    fn open(&self, _: &Call, _: &str) -> Option<Round> {
        None
    }

    // ---- legacy ----------------------------------------------------------------------------------------------

    /// Sends the requests, and keeps the call until they have ended
    fn park(&mut self, call: &Call, requests: &InputRequests<'_>, state: &[u8]) -> Result<(), UseError> {
        let limits = alloc::sync::Arc::clone(&self.link.limits);
        let channel = call.channel.0;
        if self.link.outbound.calls.len() + requests.len() > limits.pending() {
            return Err(UseError::Full("max_pending_calls"));
        }
        if self.parked_bytes(None) >= limits.max_kept_bytes {
            return Err(UseError::Full("max_kept_bytes"));
        }
        let home = self.link.home(channel);
        if home != channel {
            // One of many sessions: what its client leaves unanswered must not keep the others from being asked.
            let ours = self.link.outbound.calls.iter().filter(|(_, c)| self.link.home(c.channel) == home);
            if ours.count() + requests.len() > (limits.pending() / SHARE).max(limits.max_inputs) {
                return Err(UseError::Full("max_pending_calls"));
            }
            let kept = self.parked_bytes(Some(home));
            if kept.saturating_add(call.frame.len()).saturating_add(state.len())
                > limits.max_kept_bytes / SHARE
            {
                return Err(UseError::Full("max_kept_bytes"));
            }
        }
        let c = self.link.channels.get(channel).ok_or(UseError::Stale)?;
        let home = self.link.channels.get(home).ok_or(UseError::Stale)?;
        if c.ended.is_some() || c.closed || home.ended.is_some() || c.extra.stream.deaf {
            return Err(UseError::Closed); // nobody is left to answer
        }
        let table = shape::table(call.version);
        // Written before anything is sent: all of them can be asked, or none is.
        let mut written = Vec::with_capacity(requests.len());
        for (key, request) in requests.iter() {
            let mut params = Vec::new();
            let noted = match request {
                InputRequest::Elicit(ask) => Serializer::object(&mut params, ask, table),
                InputRequest::CreateMessage(ask) => Serializer::object(&mut params, ask, table),
                InputRequest::ListRoots(Some(ask)) => Serializer::object(&mut params, ask, table),
                _ => {
                    params.extend_from_slice(b"{}");
                    Ok(crate::json::Noted::default())
                }
            }?;
            written.push((key, request.method().unwrap_or_default(), params, noted));
        }
        let round = call.round.as_deref();
        let nothing = Round::default();
        let carried = round.unwrap_or(&nothing).carried(requests).cloned().collect();
        let key = self.link.rekey(call.id.0).ok_or(UseError::Stale)?;
        let options = CallOptions::new().timeout(limits.input_timeout).total(limits.input_timeout);
        let mut open = Vec::with_capacity(written.len());
        for (name, method, params, noted) in written {
            let ask = OutCall::new(self.link.now, channel, Purpose::Input(key), &options, &limits);
            let out = self.link.outbound.calls.insert(ask);
            let ask = Ask { method, stamp: None, meta: None, progress: false };
            let sent = self.link.ask(out, &ask, |to| {
                to.extend_from_slice(&params);
                Ok(noted)
            });
            match sent {
                Ok(()) => open.push((Box::<str>::from(name), out)),
                Err(_) => _ = self.link.outbound.calls.remove(out),
            }
        }
        let attempt = call.attempt().saturating_add(1);
        let parked =
            Parked { frame: (&*call.frame).into(), attempt, state: state.into(), answers: carried, open };
        let at_once = parked.open.is_empty();
        if let Some(record) = self.link.inbound.calls.get_mut(key) {
            record.expires = Instant::FAR;
            record.parked = Some(Box::new(parked));
            self.parked += 1;
        }
        if at_once {
            // Nothing but a pause was asked for.
            self.resume(key);
        }
        Ok(())
    }

    /// Bytes that are kept of all parked calls, or of those of a session
    fn parked_bytes(&self, home: Option<Key>) -> usize {
        let calls = self.link.inbound.calls.iter().map(|(_, call)| call);
        let counts = |call: &&InCall| home.is_none_or(|home| self.link.home(call.channel) == home);
        calls.filter(counts).filter_map(|call| call.parked.as_deref()).map(Parked::bytes).sum()
    }

    /// A request for the sake of a parked call has ended
    pub(super) fn input_ended(&mut self, call: Key, request: Key, outcome: Answer) {
        // Whoever asks a little may be answered a lot, and other answers may never come. One frame is room for at least
        // one answer, however much is kept of the call itself.
        let limit = self.link.limits.max_kept_bytes;
        let most = limit.saturating_add(self.link.limits.frame());
        let outcome = match outcome {
            Ok(result) if self.parked_bytes(None).saturating_add(result.as_bytes().len()) > most => {
                Err(CallError::TooLarge { limit })
            }
            outcome => outcome,
        };
        let parked = self.link.inbound.calls.get_mut(call).and_then(|record| record.parked.as_mut());
        let Some(parked) = parked else { return };
        let Some(place) = parked.open.iter().position(|(_, out)| *out == request) else { return };
        let (key, _) = parked.open.remove(place);
        parked.answers.push((key, outcome.map(|result| result.compact())));
        if parked.open.is_empty() {
            self.resume(call);
        }
    }

    /// Delivers a parked call again
    fn resume(&mut self, key: Key) {
        let expires = self.link.now + self.link.limits.max_call_age;
        let Some(record) = self.link.inbound.calls.get_mut(key) else { return };
        let Some(parked) = record.parked.take() else { return };
        self.parked = self.parked.saturating_sub(1);
        record.expires = expires;
        let (channel, version) = (ChannelId(record.channel), record.version);
        self.link.deadlines.arm(expires, crate::calls::link::Timer::Age(key));
        let Parked { frame, attempt, state, answers, .. } = *parked;
        let frame = Bytes::from(frame);
        // It was in order when it came.
        let Ok(envelope) = envelope::parse(&frame, &self.link.limits, None) else { return };
        let Some(rule) = vocab::request(&envelope.method) else { return };
        let params: Params = envelope.params;
        let round = Some(Box::new(Round { attempt, state: state.into_vec(), answers, asked: None }));
        let method = rule.name.into();
        let id = CallId(key);
        self.events.push_back(Event::Call(Call { id, channel, version, method, frame, params, round }));
    }

    /// Takes back what the client of a call is being asked, and has the call delivered again at once (legacy)
    ///
    /// `state` is what was [kept](Self::need_input) when it was asked. The call comes with the answers that were given;
    /// what was not answered counts as [`CallError::Cancelled`], and the client is told that, with `reason`. False where
    /// no call waits with that state: it is on its way already, or over, or it is modern, and waits nowhere.
    pub fn recall(&mut self, now: Instant, state: &[u8], reason: Option<&str>) -> bool {
        self.link.tick(now);
        let waits = |call: &InCall| call.parked.as_ref().is_some_and(|parked| *parked.state == *state);
        let found = self.link.inbound.calls.iter().find(|(_, call)| waits(call) && !state.is_empty());
        let Some(key) = found.map(|(key, _)| key) else { return false };
        let parked = self.link.inbound.calls.get_mut(key).and_then(|record| record.parked.as_mut());
        let Some(parked) = parked else { return false };
        let open = core::mem::take(&mut parked.open);
        parked.answers.extend(open.iter().map(|(name, _)| (name.clone(), Err(CallError::Cancelled))));
        for (_, request) in open {
            self.link.send_cancelled(request, reason);
            self.link.outbound.calls.remove(request);
        }
        self.resume(key);
        true
    }

    /// Takes back what was asked for a parked call, which is over; false when it is not parked
    pub(super) fn unpark(&mut self, key: Key, reason: &str) -> bool {
        let parked = self.link.inbound.calls.get_mut(key).and_then(|record| record.parked.take());
        let Some(parked) = parked else { return false };
        self.parked = self.parked.saturating_sub(1);
        for (_, request) in parked.open {
            self.link.send_cancelled(request, Some(reason));
            self.link.outbound.calls.remove(request);
        }
        if !parked.state.is_empty() {
            self.events.push_back(Event::Dropped { state: parked.state });
        }
        true
    }

    /// Calls of a channel, or of all streams whose home that is, that wait for answers which cannot come any more
    pub(super) fn fail_parked(&mut self, channel: Key, why: &'static str) {
        let home = self.link.home(channel);
        let Some(c) = self.link.channels.get(home) else { return };
        let is_parked = |key: &Key| {
            let call = self.link.inbound.calls.get(*key);
            call.is_some_and(|c| c.parked.is_some() && (channel == home || c.channel == channel))
        };
        let parked: Vec<Key> = c.live.iter().copied().filter(is_parked).collect();
        for key in parked {
            self.unpark(key, "the call is over");
            self.link.fail(key, &RpcError::internal(why));
        }
    }

    /// Tells a client that an interaction by a web page is over (2025-11-25 alone; ELIC-025, ELIC-026)
    ///
    /// `id` is the `elicitationId` of a request that this very client was sent. Other revisions have no such news: false.
    /// So it is while [`Limits::outbox_mark`](crate::Limits::outbox_mark) bytes wait that the client has not fetched.
    /// Over HTTP the channel of a call is over when the call is; that of
    /// [`SessionOpened`](super::Event::SessionOpened) stays.
    pub fn elicitation_complete(&mut self, now: Instant, channel: ChannelId, id: &str) -> bool {
        self.link.tick(now);
        let home = self.link.home(channel.0);
        let session = self.link.channels.get(home).and_then(|c| c.extra.session.as_ref());
        if session.is_none_or(|s| s.version != Version::V2025_11_25) {
            return false;
        }
        let mark = self.link.limits.outbox_mark;
        if self.link.channels.get(channel.0).is_none_or(|c| c.outbox.len() >= mark) {
            return false;
        }
        self.link.send(channel.0, |out| {
            encode::notification_head(out, vocab::ELICITATION_COMPLETE);
            out.extend_from_slice(b",\"params\":{\"elicitationId\":");
            write_str(out, id);
            out.push(b'}');
            encode::end(out);
        });
        true
    }
}

/// Whether a question is right in itself, and of a kind that the client declared
fn check(
    key: &str,
    request: &InputRequest<'_>,
    declared: &Capabilities,
    version: Version,
) -> Result<(), UseError> {
    let bad = |why: String| UseError::BadQuestion { key: key.into(), why };
    if matches!(request, InputRequest::Other(_)) {
        return Err(bad("there is no such question".into())); // MRTR-008
    }
    if !InputRequest::is_key(key) {
        return Err(bad("a key is 1 to 64 characters, none of them a control character".into()));
    }
    request.validate().map_err(|misfit| bad(format!("{misfit}")))?;
    // The most special of what is lacking, which includes the others.
    let Some(lacks) = declared.missing(&request.needs(version)).iter().last() else { return Ok(()) };
    // What its revision lacks no client can declare, so the revision is the better reason.
    Serializer::object(&mut Vec::new(), request, shape::table(version))?;
    Err(UseError::PeerLacks(lacks))
}
