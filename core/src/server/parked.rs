//! Parked calls: calls of the legacy era that wait for the responses to their input requests.
//!
//! A parked call stays unanswered while its input requests are in flight, and is delivered again when all of them have
//! ended. Before `notifications/initialized` the input requests are queued instead of sent (LIFE-006, DESIGN-30).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use bytes::Bytes;

use super::authorization::Caller;
use super::channel::ServerEndpoint;
use super::event::{Call, Event};
use super::input_tasks::{FollowedQuestions, QuestionTasks, cancel_question};
use super::receive::{CarriedAnswer, RetryContext};
use super::reply::RESULT_CAPACITY;
use super::tasks::{CallTask, TaskOffer};
use crate::built::{Part, Tasking};
use crate::calls::endpoint::EndpointTimer;
use crate::calls::inbound::{CallId, InputOutcome};
use crate::calls::outbound::{
    CallOptions, CallPurpose, CallStage, CallTask as CallFollow, OutboundCall, QueuedCall, TaskRequest,
};
use crate::calls::outbound_requests::{OutboundRequest, VersionedParams, check_reserved};
use crate::error::{CallError, UseError};
use crate::identity::Capabilities;
use crate::json::{Serializer, Span, TopLevelMembers};
use crate::limits::Limit;
use crate::model::{InputRequest, InputRequests};
use crate::raw::RawJson;
use crate::rpc::envelope::{MetaSpans, ParamsSpans};
use crate::slab::tree::{Tree, TreeLinks, TreeNode};
use crate::slab::{Key, Slab};
use crate::tap::ChannelId;
use crate::tasks::may_be_task;
use crate::time::Instant;
use crate::version::Version;
use crate::{methods, shape};

/// A session may use at most one part in this many of the limits that all sessions share.
pub(super) const SESSION_SHARE: usize = 4;

/// The parked calls of all channels. A trait object, so that a server that never requests input is linked without this
/// code (7 KiB; `core/docs/size.md`).
pub(super) trait ParkedCallTable: fmt::Debug + Send + Sync {
    /// Returns the number of parked calls.
    fn len(&self) -> usize;

    /// Returns the bytes that are kept for them.
    fn byte_len(&self) -> usize;

    /// Returns whether nothing is kept. Questions that were to become tasks are known until all sessions have ended,
    /// because a late response may still create one that has to be cancelled (CANC-009).
    fn is_unused(&self, endpoint: &ServerEndpoint) -> bool;

    /// Sends the input requests of a call and parks it until all of them have ended.
    ///
    /// `answers` are those that the call keeps. Before `notifications/initialized` the requests are queued, and the call
    /// keeps its deadline. With `tasks`, those that a client with these capabilities can host are sent as tasks. Returns the
    /// event that delivers the call again, if it waits for nothing.
    ///
    /// # Errors
    ///
    /// [`UseError::Full`], [`UseError::Stale`], [`UseError::Closed`], [`UseError::ReservedKey`] or an encoding error.
    /// Nothing was sent then.
    fn park(
        &mut self,
        endpoint: &mut ServerEndpoint,
        call: &Call,
        requests: &InputRequests<'_>,
        state: &[u8],
        answers: &[CarriedAnswer<'_>],
        tasks: Option<(QuestionTasks, &Capabilities)>,
    ) -> Result<Option<Event>, UseError>;

    /// Sends the queued input requests of all calls of a session that has become ready (LIFE-006).
    ///
    /// Returns the events that deliver calls again, because none of their requests could be sent.
    fn send_all_queued(&mut self, endpoint: &mut ServerEndpoint, session: Key) -> Vec<Event>;

    /// Records the outcome of an input request of a parked call. Returns the event that delivers the call again, if it
    /// was the last one. The request was sent: one that is queued ends only together with its call.
    fn finish_request(
        &mut self,
        endpoint: &mut ServerEndpoint,
        call: Key,
        request: Key,
        outcome: InputOutcome,
    ) -> Option<Event>;

    /// Cancels the open input requests of a call that is parked with `state`. Returns the event that delivers it again.
    fn withdraw(
        &mut self,
        endpoint: &mut ServerEndpoint,
        state: &[u8],
        reason: Option<&str>,
    ) -> Option<Event>;

    /// Cancels the input requests of a parked call that is over.
    ///
    /// Returns `None` if the call is not parked, and otherwise the event to report, if its handler kept state.
    fn unpark(&mut self, endpoint: &mut ServerEndpoint, call: Key, reason: &str) -> Option<Option<Event>>;

    /// Returns a parked call of a stream, or of any stream of a session.
    fn find_on(&mut self, endpoint: &ServerEndpoint, channel: Key) -> Option<Key>;

    /// Returns the tasks that input requests follow, if one was to become a task.
    fn tasks(&mut self) -> Option<&mut FollowedQuestions>;

    /// Panics if a sum differs from what it sums.
    #[cfg(any(debug_assertions, test))]
    fn check_sums(&self, endpoint: &ServerEndpoint);
}

/// The table of parked calls.
///
/// Their deadlines are those of the calls and of the input requests, which the heap of the endpoint holds: one heap
/// finds the next deadline of all kinds by one look at its top.
///
/// The bytes that are kept for a call are its own, those of responses, and those of requests that are queued. Invariant:
/// `bytes` is their sum over all calls, and `LegacySession::parked_bytes` that over the calls of the session;
/// `check_sums` recomputes both in the simulations.
#[derive(Debug)]
pub(super) struct ParkedCalls {
    calls: Slab<ParkedCall>,
    /// Ordered by [`Position`].
    by_position: Tree<BY_POSITION>,
    /// Those with state, ordered by it.
    by_state: Tree<BY_STATE>,
    /// Bytes that are kept for all calls.
    bytes: usize,
    /// Tasks that input requests follow; created with the first one that asks for a task.
    tasks: Part<Tasking, FollowedQuestions>,
}

const BY_POSITION: u8 = 0;
const BY_STATE: u8 = 1;

/// A call that waits for input.
#[derive(Debug)]
struct ParkedCall {
    /// The key of the inbound call.
    call: Key,
    method: &'static str,
    /// The parameters, followed by the state that the application keeps until the next delivery.
    text: Box<[u8]>,
    params_len: u32,
    params: KeptSpans,
    attempt: u32,
    /// Input responses so far, by the application's keys.
    answers: Vec<(Box<str>, InputOutcome)>,
    /// Input requests, by the application's keys; the key of one with a response was moved to `answers`.
    requests: Box<[(Option<Box<str>>, Key)]>,
    caller: Caller,
    links: [TreeLinks; 2],
}

/// Positions in the parameters of a parked call, of the members that are read at its next delivery.
#[derive(Debug)]
struct KeptSpans {
    name: Span,
    arguments: Span,
    meta: Span,
    token: Span,
}

impl KeptSpans {
    /// Returns the positions in the parameters of those in the frame.
    fn of(params: &ParamsSpans) -> Self {
        let by = params.whole.start.wrapping_neg();
        Self {
            name: params.name.shifted(by),
            arguments: params.arguments.shifted(by),
            meta: params.meta.whole.shifted(by),
            token: params.meta.token.shifted(by),
        }
    }

    /// Returns the positions in a frame that has the parameters alone.
    fn in_frame_of(self, params_len: u32) -> ParamsSpans {
        ParamsSpans {
            whole: Span { start: 0, end: params_len },
            name: self.name,
            arguments: self.arguments,
            meta: MetaSpans {
                whole: self.meta,
                token: self.token,
                has_application_keys: true,
                ..MetaSpans::default()
            },
            has_others: true,
            ..ParamsSpans::default()
        }
    }
}

impl ParkedCall {
    fn state(&self) -> &[u8] {
        self.text.get(self.params_len as usize..).unwrap_or_default()
    }

    /// Returns the bytes that are kept for the call, without those of requests that are queued.
    fn byte_len(&self) -> usize {
        self.text.len() + self.answers.iter().map(answer_len).sum::<usize>()
    }
}

impl TreeNode<BY_POSITION> for ParkedCall {
    fn tree_links(&mut self) -> &mut TreeLinks {
        let [links, _] = &mut self.links;
        links
    }
}

impl TreeNode<BY_STATE> for ParkedCall {
    fn tree_links(&mut self) -> &mut TreeLinks {
        let [_, links] = &mut self.links;
        links
    }
}

/// The channel of the session of a call, the stream that the call is answered on, and its key.
type Position = (Key, Key, Key);

/// Returns the position of a call, which does not change while it is parked: it is in flight, and its stream exists.
fn position(endpoint: &ServerEndpoint, call: Key) -> Option<Position> {
    let stream = endpoint.inbound.calls.get(call)?.channel;
    Some((endpoint.root_channel(stream), stream, call))
}

/// An input request in the form of its revision.
pub(super) struct EncodedRequest {
    /// The key by which the handler finds the response.
    pub(super) name: Box<str>,
    pub(super) method: &'static str,
    pub(super) params: Vec<u8>,
}

/// Adds an input request of a call, to be sent when its session is ready.
fn queue_request(
    endpoint: &mut ServerEndpoint,
    (channel, call): (Key, Key),
    queued: QueuedCall,
) -> Option<Key> {
    let timeout = queued.total_timeout;
    let options = CallOptions::new().timeout(timeout).total_timeout(timeout);
    let purpose = CallPurpose::Input(call);
    let mut request = OutboundCall::new(endpoint.now, channel, purpose, &options, &endpoint.limits);
    if queued.task.is_some() && Tasking::IS_BUILT {
        request.task = CallFollow::Follow;
    }
    request.stage = CallStage::Queued(Box::new(queued));
    endpoint.begin_request(request)
}

fn answer_len((key, answer): &(Box<str>, InputOutcome)) -> usize {
    key.len() + answer.as_ref().map_or(0, |a| a.as_bytes().len())
}

impl ParkedCalls {
    pub(super) const fn new() -> Self {
        Self {
            calls: Slab::new(),
            by_position: Tree::new(),
            by_state: Tree::new(),
            bytes: 0,
            tasks: Part::NONE,
        }
    }

    /// Checks that one more call may be parked and that its client can answer.
    ///
    /// # Errors
    ///
    /// [`UseError::Full`], [`UseError::Stale`] or [`UseError::Closed`].
    fn check_room(
        &self,
        endpoint: &ServerEndpoint,
        call: &Call,
        requests: &InputRequests<'_>,
        state: &[u8],
    ) -> Result<(), UseError> {
        let limits = &endpoint.limits;
        let channel = call.channel.0;
        if endpoint.outbound.calls.len() + requests.len() > limits.effective_max_pending_calls() {
            return Err(UseError::Full(Limit::PendingCalls));
        }
        // Compared without the bytes of this call, so the last call may exceed the limit by its own.
        if self.bytes >= limits.max_retained_bytes {
            return Err(UseError::Full(Limit::RetainedBytes));
        }
        let root = endpoint.root_channel(channel);
        let session = endpoint.channels.get(root).ok_or(UseError::Stale)?;
        if root != channel {
            // A session of many: input requests that its client leaves unanswered must not block the other sessions.
            if session.request_count() + requests.len()
                > (limits.effective_max_pending_calls() / SESSION_SHARE).max(limits.max_inputs)
            {
                return Err(UseError::Full(Limit::PendingCalls));
            }
            let parked_bytes = session.role.session.as_ref().map_or(0, |session| session.parked_bytes);
            if parked_bytes.saturating_add(call.frame.len()).saturating_add(state.len())
                > limits.max_retained_bytes / SESSION_SHARE
            {
                return Err(UseError::Full(Limit::RetainedBytes));
            }
        }
        let c = endpoint.channels.get(channel).ok_or(UseError::Stale)?;
        if c.input_end.is_some() || c.closed || session.input_end.is_some() || c.role.stream.is_unreachable()
        {
            return Err(UseError::Closed); // the client cannot answer
        }
        Ok(())
    }

    /// Sends the queued input requests of a parked call, which waits for their responses without a deadline of its own.
    fn send_queued(&mut self, endpoint: &mut ServerEndpoint, key: Key) -> Option<Event> {
        let call = self.calls.get(key)?.call;
        let record = endpoint.inbound.calls.get_mut(call)?;
        // From now on the deadlines of the requests hold: a user may take longer than a handler.
        record.expires_at = Instant::FAR_FUTURE;
        let version = record.version;
        let (mut resumed, mut index) = (None, 0);
        // By index, because a request that cannot be sent may end the parking of the call.
        while let Some((_, request)) = self.calls.get(key).and_then(|parked| parked.requests.get(index)) {
            index += 1;
            let request = *request;
            let Some(record) = endpoint.outbound.calls.get_mut(request) else { continue };
            let Some(queued) = record.take_queued() else { continue };
            record.restart_timeouts(endpoint.now, queued.total_timeout);
            let head = OutboundRequest {
                method: &queued.method,
                base_meta: None,
                meta: None,
                wants_progress: false,
            };
            let sent = queued.params.for_version(version).and_then(|params| {
                endpoint.send_request(request, &head, &mut |out| {
                    out.extend_from_slice(params);
                    if let Some(task) = queued.task {
                        task.append_to(out);
                    }
                    Ok(TopLevelMembers::default())
                })
            });
            // Sent or not, its text is not kept any longer.
            self.uncharge(endpoint, position(endpoint, call), queued.cost());
            if let Err(error) = sent {
                endpoint.end_request(request);
                resumed = self.finish_request(endpoint, call, request, Err(CallError::Refused(error)));
            }
        }
        resumed
    }

    /// Ends the parking of a call and returns the event that delivers it again.
    fn resume(&mut self, endpoint: &mut ServerEndpoint, key: Key) -> Option<Event> {
        let parked = self.remove(endpoint, key)?;
        let call = parked.call;
        // A new age: the time that the user took is not that of the handler.
        let expires = endpoint.now + endpoint.limits.max_call_age;
        let record = endpoint.inbound.calls.get_mut(call)?;
        record.expires_at = expires;
        let (channel, version) = (ChannelId(record.channel), record.version);
        endpoint.deadlines.arm(expires, EndpointTimer::CallAge(call));
        let ParkedCall { method, text, params_len, params, attempt, answers, caller, .. } = parked;
        let mut frame = text.into_vec();
        let state = frame.split_off(frame.len().min(params_len as usize));
        // The parameters alone: nothing else of the message is read again.
        let (params, frame) = (params.in_frame_of(params_len), Bytes::from(frame));
        let method = Cow::Borrowed(method);
        let round = RetryContext { attempt, state, answers, requested_keys: None };
        let (id, retry) = (CallId(call), Some(Box::new(round)));
        let task = CallTask::Offer(TaskOffer::None);
        Some(Event::Call(Call { id, channel, version, method, frame, params, retry, caller, task }))
    }

    fn find(&mut self, endpoint: &ServerEndpoint, call: Key) -> Option<Key> {
        let searched = position(endpoint, call);
        self.by_position.find(&mut self.calls, |_, parked| match parked.call == call {
            true => Ordering::Equal,
            false => position(endpoint, parked.call).cmp(&searched),
        })
    }

    /// Adds a call, whose queued requests have `queued_bytes`.
    fn insert(&mut self, endpoint: &mut ServerEndpoint, mut parked: ParkedCall, queued_bytes: usize) -> Key {
        let (added, bytes) = (position(endpoint, parked.call), parked.byte_len() + queued_bytes);
        // The trees compare with other calls only.
        let (text, params_len) = (core::mem::take(&mut parked.text), parked.params_len);
        let state = text.get(params_len as usize..).unwrap_or_default();
        let key = self.calls.insert(parked);
        let calls = &mut self.calls;
        let by_position = |_, parked: &ParkedCall| position(endpoint, parked.call).cmp(&added);
        if let Ok(place) = self.by_position.place(calls, by_position) {
            self.by_position.insert(calls, place, key);
        }
        if !state.is_empty() {
            // States may be equal, so the slot makes the order strict.
            let by_state = |slot, parked: &ParkedCall| (parked.state(), slot).cmp(&(state, key.slot));
            if let Ok(place) = self.by_state.place(calls, by_state) {
                self.by_state.insert(calls, place, key);
            }
        }
        if let Some(parked) = calls.get_mut(key) {
            parked.text = text;
        }
        self.charge(endpoint, added, bytes);
        key
    }

    fn remove(&mut self, endpoint: &mut ServerEndpoint, key: Key) -> Option<ParkedCall> {
        let parked = self.calls.get_mut(key)?;
        // Taken out, because the trees compare it while they borrow the table.
        let (call, bytes, text) = (parked.call, parked.byte_len(), core::mem::take(&mut parked.text));
        let state = text.get(parked.params_len as usize..).unwrap_or_default();
        let calls = &mut self.calls;
        let removed = position(endpoint, call);
        self.by_position.remove(calls, key, |_, parked| position(endpoint, parked.call).cmp(&removed));
        if !state.is_empty() {
            self.by_state.remove(calls, key, |slot, parked| (parked.state(), slot).cmp(&(state, key.slot)));
        }
        let parked = calls.remove(key)?;
        self.uncharge(endpoint, removed, bytes);
        Some(ParkedCall { text, ..parked })
    }

    /// Ends an input request of a call, which may still be queued.
    fn end_request(&mut self, endpoint: &mut ServerEndpoint, call: Key, request: Key) {
        if let Some(tasks) = self.tasks.as_mut() {
            tasks.end(endpoint, request, &Err(CallError::Cancelled));
        }
        if let Some(queued) = endpoint.end_request(request).and_then(|mut request| request.take_queued()) {
            self.uncharge(endpoint, position(endpoint, call), queued.cost());
        }
    }

    fn charge(&mut self, endpoint: &mut ServerEndpoint, at: Option<Position>, bytes: usize) {
        self.bytes += bytes;
        if let Some(total) = session_bytes(endpoint, at) {
            *total += bytes;
        }
    }

    fn uncharge(&mut self, endpoint: &mut ServerEndpoint, at: Option<Position>, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        if let Some(total) = session_bytes(endpoint, at) {
            *total = total.saturating_sub(bytes);
        }
    }
}

impl ParkedCallTable for ParkedCalls {
    fn len(&self) -> usize {
        self.calls.len()
    }

    fn byte_len(&self) -> usize {
        self.bytes
    }

    fn is_unused(&self, endpoint: &ServerEndpoint) -> bool {
        self.calls.is_empty() && (self.tasks.is_none() || endpoint.channels.iter().next().is_none())
    }

    fn park(
        &mut self,
        endpoint: &mut ServerEndpoint,
        call: &Call,
        requests: &InputRequests<'_>,
        state: &[u8],
        answers: &[CarriedAnswer<'_>],
        tasks: Option<(QuestionTasks, &Capabilities)>,
    ) -> Result<Option<Event>, UseError> {
        self.check_room(endpoint, call, requests, state)?;
        let method = methods::request_rule(&call.method).ok_or(UseError::Stale)?.name;
        let params = call.params.whole.slice(&call.frame).unwrap_or_default();
        // Encoded before anything is sent, so that either all requests are sent or none.
        let encoded = encode_requests(requests, call.version)?;
        let timeout = endpoint.limits.input_timeout;
        let channel = call.channel.0;
        let root = endpoint.root_channel(channel);
        let session = endpoint.channels.get(root).and_then(|c| c.role.session.as_ref());
        let is_initialized = session.is_some_and(|session| session.initialized);
        // After the checks, because the key that the application has becomes stale here.
        let call_key = endpoint.rekey(call.id.0).ok_or(UseError::Stale)?;
        let (mut pending, mut queued_bytes) = (Vec::with_capacity(encoded.len()), 0);
        for EncodedRequest { name, method, params } in encoded {
            let wish = tasks.filter(|(_, declared)| may_be_task(declared, method)).map(|(wish, _)| wish);
            // Clients have tasks in this revision alone.
            let wish = wish.filter(|_| call.version == Version::V2025_11_25);
            if let Some((_, marker)) = wish.zip(Tasking::get()) {
                self.tasks.get_or_insert_default(marker);
            }
            let queued = QueuedCall {
                method: Cow::Borrowed(method),
                params: VersionedParams::from_encoded(call.version, params),
                meta: None,
                task: wish.map(|wish| TaskRequest::followed().ttl(wish.ttl.unwrap_or(timeout))),
                total_timeout: timeout,
            };
            queued_bytes += queued.cost();
            let request = queue_request(endpoint, (channel, call_key), queued);
            pending.extend(request.map(|request| (Some(name), request)));
        }
        let has_no_requests = pending.is_empty();
        let expires = endpoint.inbound.calls.get(call_key).ok_or(UseError::Stale)?.expires_at;
        let parked = ParkedCall {
            call: call_key,
            method,
            text: [params, state].concat().into(),
            // Frames are shorter than 4 GiB.
            params_len: u32::try_from(params.len()).unwrap_or(u32::MAX),
            params: KeptSpans::of(&call.params),
            attempt: call.attempt().saturating_add(1),
            answers: answers
                .iter()
                .map(|(key, answer)| ((*key).into(), answer.cloned().map_err(CallError::clone)))
                .collect(),
            requests: pending.into(),
            caller: call.caller.to_resumed(),
            links: [TreeLinks::default(); 2],
        };
        let key = self.insert(endpoint, parked, queued_bytes);
        if has_no_requests {
            // There are no requests: the call only wanted to be delivered again.
            Ok(self.resume(endpoint, key))
        } else if is_initialized {
            Ok(self.send_queued(endpoint, key))
        } else {
            // The deadline was armed with the old key of the call.
            endpoint.deadlines.arm(expires, EndpointTimer::CallAge(call_key));
            Ok(None)
        }
    }

    fn send_all_queued(&mut self, endpoint: &mut ServerEndpoint, session: Key) -> Vec<Event> {
        let calls = endpoint.live_calls(session);
        let send = |call| self.find(endpoint, call).and_then(|key| self.send_queued(endpoint, key));
        calls.into_iter().filter_map(send).collect()
    }

    fn finish_request(
        &mut self,
        endpoint: &mut ServerEndpoint,
        call: Key,
        request: Key,
        outcome: InputOutcome,
    ) -> Option<Event> {
        if let Some(tasks) = self.tasks.as_mut() {
            tasks.end(endpoint, request, &outcome);
        }
        // A small request may have a large response, and others may never come. The allowance of one frame leaves room
        // for at least one response, however large the call itself is.
        let limit = endpoint.limits.max_retained_bytes;
        let max_bytes = limit.saturating_add(endpoint.limits.effective_max_frame());
        let outcome = match outcome {
            Ok(result) if self.bytes.saturating_add(result.as_bytes().len()) > max_bytes => {
                Err(CallError::TooLarge { limit })
            }
            outcome => outcome,
        };
        // The call may have ended since the request was sent.
        let key = self.find(endpoint, call)?;
        let parked = self.calls.get_mut(key)?;
        // Without its name the request counts as answered.
        let name = parked.requests.iter_mut().find(|(_, out)| *out == request)?.0.take()?;
        // A copy, because the response is a part of a frame that would stay in memory with it.
        let answer = (name, outcome.map(|result| result.compact()));
        let is_complete = parked.requests.iter().all(|(name, _)| name.is_none());
        let bytes = answer_len(&answer);
        parked.answers.push(answer);
        self.charge(endpoint, position(endpoint, call), bytes);
        if is_complete { self.resume(endpoint, key) } else { None }
    }

    fn withdraw(
        &mut self,
        endpoint: &mut ServerEndpoint,
        state: &[u8],
        reason: Option<&str>,
    ) -> Option<Event> {
        // Calls without state are not in this index. Equal states are told apart by their slots elsewhere, so any of
        // them is found here.
        let key = self.by_state.find(&mut self.calls, |_, parked| parked.state().cmp(state))?;
        let parked = self.calls.get_mut(key)?;
        let (call, requests) = (parked.call, core::mem::take(&mut parked.requests));
        for (name, request) in requests {
            let Some(name) = name else { continue };
            let answer = (name, Err(CallError::Cancelled));
            self.charge(endpoint, position(endpoint, call), answer_len(&answer));
            self.calls.get_mut(key)?.answers.push(answer);
            // Before the request ends: the cancellation needs its id and its channel.
            cancel_question(endpoint, request, reason);
            self.end_request(endpoint, call, request);
        }
        self.resume(endpoint, key)
    }

    fn unpark(&mut self, endpoint: &mut ServerEndpoint, call: Key, reason: &str) -> Option<Option<Event>> {
        let key = self.find(endpoint, call)?;
        let parked = self.remove(endpoint, key)?;
        for (_, request) in &parked.requests {
            cancel_question(endpoint, *request, Some(reason));
            self.end_request(endpoint, call, *request);
        }
        let state = parked.state();
        Some((!state.is_empty()).then(|| Event::ParkedCallDropped { state: state.into() }))
    }

    fn find_on(&mut self, endpoint: &ServerEndpoint, channel: Key) -> Option<Key> {
        let root = endpoint.root_channel(channel);
        let compare = |_, parked: &ParkedCall| {
            let position = position(endpoint, parked.call);
            position.map_or(Ordering::Less, |(session, stream, _)| match channel == root {
                true => session.cmp(&root),
                false => (session, stream).cmp(&(root, channel)),
            })
        };
        let key = self.by_position.find(&mut self.calls, compare)?;
        self.calls.get(key).map(|parked| parked.call)
    }

    fn tasks(&mut self) -> Option<&mut FollowedQuestions> {
        self.tasks.as_mut()
    }

    /// Panics if a sum differs from what it sums.
    #[cfg(any(debug_assertions, test))]
    fn check_sums(&self, endpoint: &ServerEndpoint) {
        if let Some(tasks) = self.tasks.as_ref() {
            tasks.check_sums(endpoint);
        }
        let queued = |(_, request): &(Option<Box<str>>, Key)| match endpoint
            .outbound
            .calls
            .get(*request)
            .map(|request| &request.stage)
        {
            Some(CallStage::Queued(queued)) => queued.cost(),
            _ => 0,
        };
        let bytes =
            |parked: &ParkedCall| parked.byte_len() + parked.requests.iter().map(queued).sum::<usize>();
        let all = || self.calls.iter().map(|(_, parked)| parked);
        assert!(all().all(|parked| position(endpoint, parked.call).is_some()), "a parked call is in flight");
        assert_eq!(self.bytes, all().map(bytes).sum::<usize>(), "the bytes of all parked calls");
        for (root, c) in endpoint.channels.iter() {
            let Some(session) = c.role.session.as_ref() else { continue };
            let is_own =
                |parked: &&ParkedCall| position(endpoint, parked.call).is_some_and(|at| at.0 == root);
            let own = all().filter(is_own).map(bytes).sum::<usize>();
            assert_eq!(session.parked_bytes, own, "the bytes of the parked calls of a session");
        }
    }
}

/// Returns the sum of the session of a call.
fn session_bytes(endpoint: &mut ServerEndpoint, at: Option<Position>) -> Option<&mut usize> {
    let (root, ..) = at?;
    let session = endpoint.channels.get_mut(root)?.role.session.as_mut()?;
    Some(&mut session.parked_bytes)
}

/// Encodes input requests in the form of `version`.
///
/// # Errors
///
/// [`UseError::ReservedKey`] or an encoding error.
#[expect(deprecated, reason = "supported until its removal")]
pub(super) fn encode_requests(
    requests: &InputRequests<'_>,
    version: Version,
) -> Result<Vec<EncodedRequest>, UseError> {
    let table = shape::table(version);
    let encode = |(name, request): (&str, &InputRequest<'_>)| {
        let mut params = Vec::with_capacity(RESULT_CAPACITY);
        let members = match request {
            InputRequest::Elicit(request) => Serializer::object(&mut params, request, table),
            InputRequest::CreateMessage(request) => Serializer::object(&mut params, request, table),
            InputRequest::ListRoots(Some(request)) => Serializer::object(&mut params, request, table),
            _ => {
                params.extend_from_slice(b"{}");
                Ok(TopLevelMembers::default())
            }
        }?;
        check_reserved(members)?;
        let method = request.method().unwrap_or_default();
        Ok(EncodedRequest { name: name.into(), method, params })
    };
    requests.iter().map(encode).collect()
}

// Requests that ask questions as tasks of the client, as the engine meets them.

/// The parked calls of an engine, which have the tasks of their questions.
pub(super) type Parked = Option<Box<dyn ParkedCallTable>>;

fn question_tasks(parked: &mut Parked) -> Option<&mut FollowedQuestions> {
    // Without the feature the compiler sees that there are none.
    if Tasking::IS_BUILT { parked.as_mut()?.tasks() } else { None }
}

/// Takes the outcome of an outbound request that may be about the task of a question.
///
/// Returns the request that has ended, with its outcome: itself, the question of the task, or none.
pub(super) fn follow_question(
    parked: &mut Parked,
    endpoint: &mut ServerEndpoint,
    key: Key,
    outcome: InputOutcome,
) -> Option<(Key, InputOutcome)> {
    let Some(request) = endpoint.outbound.calls.get(key) else { return Some((key, outcome)) };
    let may_be_task = request.task == CallFollow::Follow && !request.is_superseded();
    let question = match (request.purpose, &outcome) {
        (CallPurpose::InputTask(question), _) => {
            endpoint.end_request(key);
            endpoint.sweep();
            question
        }
        (CallPurpose::Input(_), Ok(_)) if may_be_task => key,
        _ => return Some((key, outcome)),
    };
    let tasks = question_tasks(parked)?;
    let outcome = match outcome {
        Ok(result) if question == key => tasks.begin(endpoint, question, result),
        outcome => tasks.receive(endpoint, question, key, outcome),
    };
    outcome.map(|outcome| (question, outcome))
}

/// Polls the task of a question if that is what its deadline is for. Returns false if the question has timed out, or
/// follows no task.
pub(super) fn poll_question(parked: &mut Parked, endpoint: &mut ServerEndpoint, key: Key) -> bool {
    let now = endpoint.now;
    let followed = endpoint.outbound.calls.get(key).filter(|request| request.is_superseded());
    if followed.is_none_or(|request| now >= request.total_deadline) {
        return false;
    }
    if let Some(tasks) = question_tasks(parked) {
        tasks.handle_deadline(endpoint, key);
    }
    true
}

/// Cancels a task that a late response has created.
pub(super) fn cancel_late_question(
    parked: &mut Parked,
    endpoint: &mut ServerEndpoint,
    root: Key,
    result: &RawJson,
) {
    if let Some(tasks) = question_tasks(parked) {
        tasks.cancel_late(endpoint, root, result);
    }
}

/// Takes a notification about a task. Returns false if no question of the session follows it.
pub(super) fn receive_question_status(
    parked: &mut Parked,
    endpoint: &mut ServerEndpoint,
    root: Key,
    params: &[u8],
) -> bool {
    question_tasks(parked).is_some_and(|tasks| tasks.receive_notification(endpoint, root, params))
}
