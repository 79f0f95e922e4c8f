//! Parked calls: calls of the legacy era that wait for the responses to their input requests.
//!
//! A parked call stays unanswered while its input requests are in flight, and is delivered again when all of them have
//! ended. Before `notifications/initialized` the input requests are queued instead of sent (LIFE-006, DESIGN-30).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use bytes::Bytes;

use super::channel::ServerEndpoint;
use super::event::{Call, Event};
use super::retry::RetryContext;
use crate::calls::endpoint::EndpointTimer;
use crate::calls::inbound::{CallId, InputOutcome};
use crate::calls::outbound::{CallOptions, CallPurpose, OutboundCall, QueuedCall};
use crate::calls::outbound_requests::{OutboundRequest, check_reserved};
use crate::calls::versioned_params::VersionedParams;
use crate::error::{CallError, UseError};
use crate::json::{Serializer, TopLevelMembers};
use crate::limits::Limit;
use crate::methods;
use crate::model::{InputRequest, InputRequests};
use crate::rpc::envelope;
use crate::shape;
use crate::slab::tree::{Tree, TreeLinks, TreeNode};
use crate::slab::{Key, Slab};
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::Version;

/// A session may use at most one part in this many of the limits that all sessions share.
const SESSION_SHARE: usize = 4;

/// The parked calls of all channels. A trait object, so that a server that never requests input is linked without this
/// code.
pub(super) trait ParkedCallTable: fmt::Debug + Send + Sync {
    /// Returns the number of parked calls.
    fn len(&self) -> usize;

    /// Sends the input requests of a call and parks it until all of them have ended.
    ///
    /// `answers` are those that the call keeps. Before `notifications/initialized` the requests are queued, and the call
    /// keeps its deadline. Returns the event that delivers the call again, if it waits for nothing.
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
        answers: Vec<(Box<str>, InputOutcome)>,
    ) -> Result<Option<Event>, UseError>;

    /// Sends the queued input requests of all calls of a session that has become ready (LIFE-006).
    ///
    /// Returns the events that deliver calls again, because none of their requests could be sent.
    fn send_all_queued(&mut self, endpoint: &mut ServerEndpoint, session: Key) -> Vec<Event>;

    /// Records the outcome of an input request of a parked call. Returns the event that delivers the call again, if it
    /// was the last one.
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

    /// Panics if a sum differs from what it sums.
    #[cfg(any(fuzzing, test))]
    fn check_sums(&self, endpoint: &ServerEndpoint);
}

/// The table of parked calls.
///
/// Their deadlines are those of the calls and of the input requests, which the heap of the endpoint holds: one heap
/// finds the next deadline of all kinds by one look at its top.
///
/// Invariant: `bytes` is the sum of `ParkedCall::bytes` of all calls, and `LegacySession::parked_bytes` that of the
/// calls of the session; `check_sums` recomputes both in the simulations.
#[derive(Debug)]
pub(super) struct ParkedCalls {
    calls: Slab<ParkedCall>,
    /// Ordered by the key of the inbound call.
    by_call: Tree<BY_CALL>,
    /// Those with state, ordered by it.
    by_state: Tree<BY_STATE>,
    /// Ordered by session and stream.
    by_stream: Tree<BY_STREAM>,
    /// Bytes that are kept for all calls.
    bytes: usize,
}

const BY_CALL: u8 = 0;
const BY_STATE: u8 = 1;
const BY_STREAM: u8 = 2;

/// A call that waits for input.
#[derive(Debug)]
struct ParkedCall {
    /// The key of the inbound call.
    call: Key,
    /// Channel of the session, and the stream that the call is answered on.
    stream: (Key, Key),
    /// The request as received.
    frame: Box<[u8]>,
    attempt: u32,
    /// State that the application keeps until the next delivery.
    state: Box<[u8]>,
    /// Input responses so far, by the application's keys.
    answers: Vec<(Box<str>, InputOutcome)>,
    /// Input requests without a response, by the application's keys.
    pending_requests: Vec<(Box<str>, Key)>,
    /// Bytes that are kept for the call: its own, those of responses, and those of requests that are queued.
    bytes: usize,
    links: [TreeLinks; 3],
}

impl TreeNode<BY_CALL> for ParkedCall {
    fn tree_links(&mut self) -> &mut TreeLinks {
        let [links, ..] = &mut self.links;
        links
    }
}

impl TreeNode<BY_STATE> for ParkedCall {
    fn tree_links(&mut self) -> &mut TreeLinks {
        let [_, links, _] = &mut self.links;
        links
    }
}

impl TreeNode<BY_STREAM> for ParkedCall {
    fn tree_links(&mut self) -> &mut TreeLinks {
        let [.., links] = &mut self.links;
        links
    }
}

/// An input request in the form of its revision.
struct EncodedRequest {
    /// The key by which the handler finds the response.
    name: Box<str>,
    method: &'static str,
    params: Bytes,
}

fn answer_len((key, answer): &(Box<str>, InputOutcome)) -> usize {
    key.len() + answer.as_ref().map_or(0, |a| a.as_bytes().len())
}

impl ParkedCalls {
    pub(super) const fn new() -> Self {
        Self {
            calls: Slab::new(),
            by_call: Tree::new(),
            by_state: Tree::new(),
            by_stream: Tree::new(),
            bytes: 0,
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
    fn send_queued(&mut self, endpoint: &mut ServerEndpoint, call: Key) -> Option<Event> {
        let parked = self.find(call)?;
        let record = endpoint.inbound.calls.get_mut(call)?;
        record.expires_at = Instant::FAR_FUTURE;
        let version = record.version;
        let requests: Vec<Key> =
            self.calls.get(parked)?.pending_requests.iter().map(|(_, request)| *request).collect();
        let mut resumed = None;
        for key in requests {
            let Some(request) = endpoint.outbound.calls.get_mut(key) else { continue };
            let Some(queued) = request.queued.take() else { continue };
            request.restart_timeouts(endpoint.now, queued.total_timeout);
            let head = OutboundRequest {
                method: &queued.method,
                base_meta: None,
                meta: None,
                wants_progress: false,
            };
            let sent = queued.params.for_version(version).and_then(|params| {
                endpoint.send_request(key, &head, |out| {
                    out.extend_from_slice(params);
                    Ok(TopLevelMembers::default())
                })
            });
            self.uncharge(endpoint, parked, queued.cost());
            if let Err(error) = sent {
                endpoint.end_request(key);
                resumed = self.finish_request(endpoint, call, key, Err(CallError::Refused(error)));
            }
        }
        resumed
    }

    /// Ends the parking of a call and returns the event that delivers it again.
    fn resume(&mut self, endpoint: &mut ServerEndpoint, call: Key) -> Option<Event> {
        let parked = self.remove(endpoint, call)?;
        let expires = endpoint.now + endpoint.limits.max_call_age;
        let record = endpoint.inbound.calls.get_mut(call)?;
        record.expires_at = expires;
        let (channel, version) = (ChannelId(record.channel), record.version);
        endpoint.deadlines.arm(expires, EndpointTimer::CallAge(call));
        let ParkedCall { frame, attempt, state, answers, .. } = parked;
        let frame = Bytes::from(frame);
        // The frame was valid when it arrived.
        let envelope = envelope::parse(&frame, &endpoint.limits, None).ok()?;
        let method = methods::request_rule(&envelope.method)?.name.into();
        let params = envelope.params;
        let round = RetryContext { attempt, state: state.into_vec(), answers, requested_keys: None };
        let (id, retry) = (CallId(call), Some(Box::new(round)));
        Some(Event::Call(Call { id, channel, version, method, frame, params, retry }))
    }

    fn find(&mut self, call: Key) -> Option<Key> {
        self.by_call.find(&mut self.calls, |_, parked| parked.call.cmp(&call))
    }

    fn insert(&mut self, endpoint: &mut ServerEndpoint, parked: ParkedCall) {
        let bytes = parked.bytes;
        let key = self.calls.insert(ParkedCall { bytes: 0, ..parked });
        self.index(key);
        self.charge(endpoint, key, bytes);
    }

    /// Adds a call to the trees.
    fn index(&mut self, key: Key) {
        let Some(parked) = self.calls.get_mut(key) else { return };
        // The trees compare with other calls only.
        let (call, stream, state) = (parked.call, parked.stream, core::mem::take(&mut parked.state));
        let calls = &mut self.calls;
        let by_call = |_, parked: &ParkedCall| parked.call.cmp(&call);
        if let Ok(place) = self.by_call.place(calls, by_call) {
            self.by_call.insert(calls, place, key);
        }
        let by_stream = |_, parked: &ParkedCall| (parked.stream, parked.call).cmp(&(stream, call));
        if let Ok(place) = self.by_stream.place(calls, by_stream) {
            self.by_stream.insert(calls, place, key);
        }
        if !state.is_empty() {
            let by_state = |slot, parked: &ParkedCall| (&parked.state, slot).cmp(&(&state, key.slot));
            if let Ok(place) = self.by_state.place(calls, by_state) {
                self.by_state.insert(calls, place, key);
            }
        }
        if let Some(parked) = calls.get_mut(key) {
            parked.state = state;
        }
    }

    fn remove(&mut self, endpoint: &mut ServerEndpoint, call: Key) -> Option<ParkedCall> {
        let key = self.find(call)?;
        let parked = self.calls.get_mut(key)?;
        let (stream, bytes, state) = (parked.stream, parked.bytes, core::mem::take(&mut parked.state));
        self.uncharge(endpoint, key, bytes);
        let calls = &mut self.calls;
        self.by_call.remove(calls, key, |_, parked| parked.call.cmp(&call));
        self.by_stream.remove(calls, key, |_, parked| (parked.stream, parked.call).cmp(&(stream, call)));
        if !state.is_empty() {
            self.by_state.remove(calls, key, |slot, parked| match slot == key.slot {
                true => Ordering::Equal,
                false => (&parked.state, slot).cmp(&(&state, key.slot)),
            });
        }
        Some(ParkedCall { state, ..calls.remove(key)? })
    }

    fn charge(&mut self, endpoint: &mut ServerEndpoint, key: Key, bytes: usize) {
        let Some(parked) = self.calls.get_mut(key) else { return };
        parked.bytes += bytes;
        self.bytes += bytes;
        if let Some(total) = session_bytes(endpoint, parked.stream.0) {
            *total += bytes;
        }
    }

    fn uncharge(&mut self, endpoint: &mut ServerEndpoint, key: Key, bytes: usize) {
        let Some(parked) = self.calls.get_mut(key) else { return };
        parked.bytes = parked.bytes.saturating_sub(bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
        if let Some(total) = session_bytes(endpoint, parked.stream.0) {
            *total = total.saturating_sub(bytes);
        }
    }
}

impl ParkedCallTable for ParkedCalls {
    fn len(&self) -> usize {
        self.calls.len()
    }

    fn park(
        &mut self,
        endpoint: &mut ServerEndpoint,
        call: &Call,
        requests: &InputRequests<'_>,
        state: &[u8],
        answers: Vec<(Box<str>, InputOutcome)>,
    ) -> Result<Option<Event>, UseError> {
        self.check_room(endpoint, call, requests, state)?;
        // Encoded before anything is sent, so that either all requests are sent or none.
        let encoded = encode_requests(requests, call.version)?;
        let timeout = endpoint.limits.input_timeout;
        let channel = call.channel.0;
        let root = endpoint.root_channel(channel);
        let session = endpoint.channels.get(root).and_then(|c| c.role.session.as_ref());
        let is_initialized = session.is_some_and(|session| session.initialized);
        let key = endpoint.rekey(call.id.0).ok_or(UseError::Stale)?;
        let options = CallOptions::new().timeout(timeout).total_timeout(timeout);
        let mut pending_requests = Vec::with_capacity(encoded.len());
        let mut bytes = call.frame.len() + state.len() + answers.iter().map(answer_len).sum::<usize>();
        for EncodedRequest { name, method, params } in encoded {
            let mut request =
                OutboundCall::new(endpoint.now, channel, CallPurpose::Input(key), &options, &endpoint.limits);
            let queued = QueuedCall {
                method: method.into(),
                params: VersionedParams::from_encoded(call.version, params),
                meta: None,
                total_timeout: timeout,
            };
            bytes += queued.cost();
            request.queued = Some(Box::new(queued));
            pending_requests.extend(endpoint.begin_request(request).map(|request| (name, request)));
        }
        let has_no_requests = pending_requests.is_empty();
        let expires = endpoint.inbound.calls.get(key).ok_or(UseError::Stale)?.expires_at;
        self.insert(
            endpoint,
            ParkedCall {
                call: key,
                stream: (root, channel),
                frame: (&*call.frame).into(),
                attempt: call.attempt().saturating_add(1),
                state: state.into(),
                answers,
                pending_requests,
                bytes,
                links: [TreeLinks::default(); 3],
            },
        );
        if has_no_requests {
            // There are no requests: the call only wanted to be delivered again.
            Ok(self.resume(endpoint, key))
        } else if is_initialized {
            Ok(self.send_queued(endpoint, key))
        } else {
            // The deadline was armed with the old key of the call.
            endpoint.deadlines.arm(expires, EndpointTimer::CallAge(key));
            Ok(None)
        }
    }

    fn send_all_queued(&mut self, endpoint: &mut ServerEndpoint, session: Key) -> Vec<Event> {
        let calls = endpoint.live_calls(session);
        calls.into_iter().filter_map(|call| self.send_queued(endpoint, call)).collect()
    }

    fn finish_request(
        &mut self,
        endpoint: &mut ServerEndpoint,
        call: Key,
        request: Key,
        outcome: InputOutcome,
    ) -> Option<Event> {
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
        let key = self.find(call)?;
        let parked = self.calls.get_mut(key)?;
        let index = parked.pending_requests.iter().position(|(_, out)| *out == request)?;
        let (name, _) = parked.pending_requests.remove(index);
        let answer = (name, outcome.map(|result| result.compact()));
        let (bytes, is_complete) = (answer_len(&answer), parked.pending_requests.is_empty());
        parked.answers.push(answer);
        self.charge(endpoint, key, bytes);
        if is_complete { self.resume(endpoint, call) } else { None }
    }

    fn withdraw(
        &mut self,
        endpoint: &mut ServerEndpoint,
        state: &[u8],
        reason: Option<&str>,
    ) -> Option<Event> {
        // Calls without state are not in this index. Equal states are told apart by their slots elsewhere, so any of
        // them is found here.
        let key = self.by_state.find(&mut self.calls, |_, parked| (*parked.state).cmp(state))?;
        let parked = self.calls.get_mut(key)?;
        let (call, open) = (parked.call, core::mem::take(&mut parked.pending_requests));
        let mut bytes = 0;
        for (name, request) in open {
            let answer = (name, Err(CallError::Cancelled));
            bytes += answer_len(&answer);
            parked.answers.push(answer);
            endpoint.send_cancellation(request, reason);
            endpoint.end_request(request);
        }
        self.charge(endpoint, key, bytes);
        self.resume(endpoint, call)
    }

    fn unpark(&mut self, endpoint: &mut ServerEndpoint, call: Key, reason: &str) -> Option<Option<Event>> {
        let parked = self.remove(endpoint, call)?;
        for (_, request) in parked.pending_requests {
            endpoint.send_cancellation(request, Some(reason));
            endpoint.end_request(request);
        }
        let state = parked.state;
        Some((!state.is_empty()).then_some(Event::ParkedCallDropped { state }))
    }

    fn find_on(&mut self, endpoint: &ServerEndpoint, channel: Key) -> Option<Key> {
        let root = endpoint.root_channel(channel);
        let compare = |_, parked: &ParkedCall| match channel == root {
            true => parked.stream.0.cmp(&root),
            false => parked.stream.cmp(&(root, channel)),
        };
        let key = self.by_stream.find(&mut self.calls, compare)?;
        self.calls.get(key).map(|parked| parked.call)
    }

    #[cfg(any(fuzzing, test))]
    fn check_sums(&self, endpoint: &ServerEndpoint) {
        let queued = |(_, request): &(Box<str>, Key)| {
            let request = endpoint.outbound.calls.get(*request);
            request.and_then(|request| request.queued.as_deref()).map_or(0, QueuedCall::cost)
        };
        let bytes = |parked: &ParkedCall| {
            let own = parked.frame.len() + parked.state.len();
            own + parked.answers.iter().map(answer_len).sum::<usize>()
                + parked.pending_requests.iter().map(queued).sum::<usize>()
        };
        let all = || self.calls.iter().map(|(_, parked)| parked);
        assert!(all().all(|parked| parked.bytes == bytes(parked)), "the bytes of a parked call");
        assert_eq!(self.bytes, all().map(bytes).sum::<usize>(), "the bytes of all parked calls");
        for (root, c) in endpoint.channels.iter() {
            let Some(session) = &c.role.session else { continue };
            let own = all().filter(|parked| parked.stream.0 == root).map(bytes).sum::<usize>();
            assert_eq!(session.parked_bytes, own, "the bytes of the parked calls of a session");
        }
        let is_live = |parked: &ParkedCall| endpoint.inbound.calls.get(parked.call).is_some();
        assert!(all().all(is_live), "a parked call is in flight");
    }
}

/// Returns the sum of a session.
fn session_bytes(endpoint: &mut ServerEndpoint, root: Key) -> Option<&mut usize> {
    let session = endpoint.channels.get_mut(root)?.role.session.as_deref_mut()?;
    Some(&mut session.parked_bytes)
}

/// Encodes input requests in the form of `version`.
///
/// # Errors
///
/// [`UseError::ReservedKey`] or an encoding error.
fn encode_requests(requests: &InputRequests<'_>, version: Version) -> Result<Vec<EncodedRequest>, UseError> {
    let table = shape::table(version);
    let encode = |(name, request): (&str, &InputRequest<'_>)| {
        let mut params = Vec::new();
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
        Ok(EncodedRequest { name: name.into(), method, params: params.into() })
    };
    requests.iter().map(encode).collect()
}
