//! Operations on outbound calls: send, match responses, cancel.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::endpoint::{Endpoint, EndpointTimer, Role};
use super::inbound::Progress;
use super::outbound::{
    CallStage, CallTask, OutboundCall, OutboundCalls, ResponseMatch, append_member, append_trace_context,
};
use crate::diagnostic::Diagnostic;
use crate::error::UseError;
use crate::json::{
    EncodeError, ShapeTable, TopLevelMembers, append_one_line, find_newline, max_escaped_len, object_members,
    room, string, write_int,
};
use crate::observe::{Direction, Requested, RequestedParams, TraceContext};
use crate::raw::RawJson;
use crate::rpc::{self, RequestId};
use crate::slab::Key;
use crate::version::{Version, VersionSet};
use crate::{meta, methods, shape};

/// Room for the members of `_meta` that the engine adds to each request.
const META_ROOM: usize = 128;

/// An outbound request without its parameters.
pub(crate) struct OutboundRequest<'a> {
    pub(crate) method: &'a str,
    /// Members of `_meta` that the era requires in every request.
    pub(crate) base_meta: Option<&'a [u8]>,
    /// Members of `_meta` from the application.
    pub(crate) meta: Option<&'a RawJson>,
    /// Whether progress is asked for.
    pub(crate) wants_progress: bool,
}

impl OutboundRequest<'_> {
    /// Returns an upper bound of the number of bytes that method and metadata take.
    fn len(&self) -> usize {
        let meta = self.meta.map_or(0, |meta| meta.as_bytes().len());
        max_escaped_len(self.method.len()) + self.base_meta.map_or(0, <[u8]>::len) + meta
    }

    /// Appends `_meta` to parameters, and closes them; the member `params` begins at `before`.
    fn close_params(&self, out: &mut Vec<u8>, id: i64, before: usize, trace: Option<&TraceContext>) {
        // The closing brace is removed already, so one opening brace is all that is left of `{}`.
        let empty = out.len() == before + PARAMS_MEMBER.len() + 1;
        if self.base_meta.is_some() || self.wants_progress || self.meta.is_some() || trace.is_some() {
            out.extend_from_slice(if empty { b"\"_meta\":{" } else { b",\"_meta\":{" });
            self.write_meta(out, id, trace);
            out.extend_from_slice(b"}}");
        } else if empty {
            // Empty parameters are left out, as older servers expect.
            out.truncate(before);
        } else {
            out.push(b'}');
        }
    }

    /// Appends the members of `_meta` to an open object. Trace context of an observer replaces that of the application.
    fn write_meta(&self, out: &mut Vec<u8>, id: i64, trace: Option<&TraceContext>) {
        out.extend_from_slice(self.base_meta.unwrap_or_default());
        if let Some(meta) = self.meta {
            object_members(meta.as_bytes(), |name, value| {
                if trace.is_none() || !meta::TRACE_MEMBERS.contains(&name) {
                    append_member(out, name, |out| append_one_line(out, value));
                }
            });
        }
        if let Some(trace) = trace {
            append_trace_context(out, trace);
        }
        if self.wants_progress {
            append_member(out, meta::PROGRESS_TOKEN.as_bytes(), |out| write_int(out, id));
        }
    }
}

/// Refuses parameters with members that belong to the engine.
///
/// # Errors
///
/// [`UseError::ReservedKey`].
pub(crate) fn check_reserved(members: TopLevelMembers) -> Result<(), UseError> {
    let reserved = [
        (TopLevelMembers::META, "_meta"),
        (TopLevelMembers::INPUT_RESPONSES, "inputResponses"),
        (TopLevelMembers::REQUEST_STATE, "requestState"),
    ];
    match reserved.iter().find(|(bit, _)| members.contains(*bit)) {
        Some((_, name)) => Err(UseError::ReservedKey(String::from(*name))),
        None => Ok(()),
    }
}

/// Refuses `_meta` that is not an object or has keys of the protocol (META-002).
///
/// # Errors
///
/// [`UseError::Encode`] or [`UseError::ReservedKey`].
pub(crate) fn check_meta(meta: Option<&RawJson>) -> Result<(), UseError> {
    let Some(meta) = meta else { return Ok(()) };
    if !meta.is_object() {
        return Err(EncodeError::NotAnObject.into());
    }
    check_keys(meta.as_bytes(), meta::is_unreserved_key)
}

/// Refuses an object with a reserved key. Text after the object is ignored.
///
/// # Errors
///
/// [`UseError::ReservedKey`].
pub(crate) fn check_keys(object: &[u8], is_allowed: impl Fn(&str) -> bool) -> Result<(), UseError> {
    let mut reserved = None;
    object_members(object, |name, _| {
        let name = core::str::from_utf8(name).unwrap_or_default();
        if !is_allowed(name) {
            reserved = Some(String::from(name));
        }
    });
    reserved.map_or(Ok(()), |name| Err(UseError::ReservedKey(name)))
}

/// Appends the parameter object of a request.
///
/// Behind a pointer, so that what sends a request is compiled once and not for each type of parameters.
pub(crate) type WriteParams<'a> = dyn FnMut(&mut Vec<u8>) -> Result<TopLevelMembers, EncodeError> + 'a;

/// Appends a parameter object in the form of a revision.
pub(crate) type WriteForm<'a> =
    dyn Fn(&mut Vec<u8>, Option<&'static ShapeTable>) -> Result<TopLevelMembers, EncodeError> + 'a;

/// The bytes between method and parameters of a request.
const PARAMS_MEMBER: &[u8] = b",\"params\":";

/// Splits a retained request: its method, its parameters without the closing brace, `_meta` of the application.
///
/// The text is that of the message, `"method","params":{…`, followed by the application's `_meta` on a line of its own.
pub(crate) fn split_retained(retained: &[u8]) -> (&str, &[u8], Option<&[u8]>) {
    let end = find_newline(retained).unwrap_or(retained.len());
    let (line, meta) = retained.split_at_checked(end).unwrap_or((retained, &[]));
    let text = line.strip_prefix(b"\"").unwrap_or_default();
    // Methods of retained requests contain no escapes.
    let mut parts = text.splitn(2, |b| *b == b'"');
    let method = parts.next().and_then(|m| core::str::from_utf8(m).ok()).unwrap_or_default();
    let params = parts.next().and_then(|rest| rest.strip_prefix(PARAMS_MEMBER)).unwrap_or_default();
    (method, params, meta.strip_prefix(b"\n"))
}

impl<R: Role> Endpoint<R> {
    /// Adds an outbound call that ends with its channel at the latest; see [`requests_of`](Self::requests_of).
    pub(crate) fn begin_request(&mut self, call: OutboundCall) -> Option<Key> {
        let (channel, root) = (call.channel, self.root_channel(call.channel));
        // The root of a channel that is gone is the key itself, so nothing is counted before the call fails.
        self.channels.get_mut(root)?.request_count += 1;
        let requests = &mut self.channels.get_mut(channel)?.requests;
        let key = self.outbound.calls.insert(call);
        self.outbound.calls.push_to(requests, key);
        Some(key)
    }

    /// Removes a call that [`begin_request`](Self::begin_request) added.
    pub(crate) fn end_request(&mut self, key: Key) -> Option<OutboundCall> {
        let channel = self.outbound.calls.get(key)?.channel;
        let root = self.root_channel(channel);
        if let Some(c) = self.channels.get_mut(root) {
            c.request_count = c.request_count.saturating_sub(1);
        }
        if let Some(c) = self.channels.get_mut(channel) {
            self.outbound.calls.take_from(&mut c.requests, key);
        }
        self.outbound.calls.remove(key)
    }

    /// Returns the calls of a channel that [`begin_request`](Self::begin_request) added, in order.
    pub(crate) fn requests_of(&self, channel: Key) -> Vec<Key> {
        if !R::SENDS_REQUESTS {
            return Vec::new();
        }
        self.channels.get(channel).map(|c| self.outbound.calls.keys_of(&c.requests)).unwrap_or_default()
    }

    /// Panics if a list or a number of outbound calls of a channel differs from the calls.
    #[cfg(any(debug_assertions, test))]
    pub(crate) fn check_requests(&self) {
        for (channel, c) in self.channels.iter() {
            let listed = self.outbound.calls.iter().filter(|(_, call)| call.channel == channel).count();
            assert_eq!(self.requests_of(channel).len(), listed, "the list of outbound calls of a channel");
            let of_root =
                self.outbound.calls.iter().filter(|(_, call)| self.root_channel(call.channel) == channel);
            if self.root_channel(channel) == channel {
                assert_eq!(c.request_count(), of_root.count(), "the number of outbound calls of a session");
            }
        }
    }

    /// Sends a request and arms its deadline.
    ///
    /// `params` appends the parameter object, to which `_meta` is added.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`], [`UseError::ReservedKey`], or an encoding error. Nothing was sent then.
    pub(crate) fn send_request(
        &mut self,
        key: Key,
        request: &OutboundRequest<'_>,
        params: &mut WriteParams<'_>,
    ) -> Result<(), UseError> {
        self.send_request_range(key, request, params).map(drop)
    }

    /// Like [`send_request`](Self::send_request), and returns the range of method and parameters.
    ///
    /// The range refers to the tail of the outbox. It excludes `_meta` and the closing brace.
    pub(crate) fn send_request_range(
        &mut self,
        key: Key,
        request: &OutboundRequest<'_>,
        params: &mut WriteParams<'_>,
    ) -> Result<Range<usize>, UseError> {
        let call = self.outbound.calls.get(key).ok_or(UseError::Stale)?;
        let (deadline, channel, purpose) = (call.deadline(), call.channel, call.purpose);
        let id = OutboundCalls::wire_id(key);
        let version = self.observing.as_ref().and_then(|it| it.version(self.root_channel(channel)));
        let room_behind = self.limits.error_room();
        let extra = request.len();
        if !self.make_room(channel, extra) {
            return Err(EncodeError::OutOfMemory.into());
        }
        let reserve = self.limits.hold_reserve().ok_or(EncodeError::OutOfMemory)?;
        let c = self.channels.get_mut(channel).ok_or(UseError::Stale)?;
        let mark = c.outbox.mark();
        let out = c.outbox.tail();
        rpc::request_head(out, id, request.method);
        let before = out.len();
        out.extend_from_slice(PARAMS_MEMBER);
        let start = before + PARAMS_MEMBER.len();
        let written = params(out).map_err(UseError::from).and_then(check_reserved);
        // Behind it stays room for an error response, as a request must not keep messages of the peer from being answered.
        let written = match room_behind {
            0 => written,
            _ => written.and_then(|()| Ok(room(out, META_ROOM + extra + room_behind)?)),
        };
        if let Err(e) = written {
            c.outbox.rollback(mark);
            return Err(e);
        }
        // Before `_meta` is written, which names the span of the observer; requests of the connection are not observed.
        let observed =
            self.observing.as_ref().filter(|_| !purpose.is_of_connection()).and_then(|observing| {
                let text = out.get(start..).unwrap_or_default();
                observing.begin_sent(&Requested {
                    at: self.now,
                    direction: Direction::Out,
                    id: &RequestId::int(id),
                    method: request.method,
                    params: RequestedParams::Unread { text, meta: request.meta.map(RawJson::as_bytes) },
                    version,
                    // Known when the message is complete.
                    request_bytes: 0,
                })
            });
        let trace = observed.as_ref().and_then(|open| open.observation.trace_context());
        // The closing brace, which `close_params` writes again behind `_meta`.
        out.pop();
        // From the quoted method on, which is the form that `split_retained` reads.
        let written = before.saturating_sub(request.method.len() + 2)..out.len();
        request.close_params(out, id, before, trace.as_ref());
        rpc::end(out);
        drop(reserve);
        self.commit_message(channel, mark);
        self.deadlines.arm(deadline, EndpointTimer::Outbound(key));
        if let (Some(mut open), Some(observing)) = (observed, self.observing.as_ref()) {
            open.request_bytes = observing.sent_bytes();
            self.outbound.calls.observed.insert(key, open);
        }
        Ok(written)
    }

    /// Retains what is needed to send a request again ([`split_retained`]). Returns its size in bytes.
    pub(crate) fn retain_request(
        &mut self,
        key: Key,
        method: &str,
        written: Range<usize>,
        meta: Option<&RawJson>,
    ) -> usize {
        let Some(call) = self.outbound.calls.get_mut(key) else { return 0 };
        let Some(c) = self.channels.get_mut(call.channel) else { return 0 };
        let text = match c.outbox.tail().get(written) {
            Some(text) => Cow::Borrowed(text),
            // Empty parameters were left out.
            None => Cow::Owned([b"\"", method.as_bytes(), b"\"", PARAMS_MEMBER, b"{"].concat()),
        };
        let retained: Box<[u8]> = match meta {
            None => (*text).into(),
            Some(meta) => {
                let mut retained = Vec::with_capacity(text.len() + 1 + meta.as_bytes().len());
                retained.extend_from_slice(&text);
                // A message has no newline inside, so the separator is unambiguous.
                retained.push(b'\n');
                append_one_line(&mut retained, meta.as_bytes());
                retained.into()
            }
        };
        let bytes = retained.len();
        call.retained = retained;
        bytes
    }

    /// Returns the call that a response belongs to; `channel` is a root channel.
    pub(crate) fn match_response(&self, channel: Key, id: &RequestId) -> ResponseMatch {
        if !R::SENDS_REQUESTS {
            return ResponseMatch::Unknown;
        }
        let matched = self.outbound.lookup(id);
        let ResponseMatch::Live(key) = matched else { return matched };
        match self.outbound.calls.get(key) {
            // Ids are easy to guess: a peer must not answer the request of another session.
            Some(c) if self.root_channel(c.channel) != channel => ResponseMatch::Unknown,
            Some(c) => match c.stage {
                CallStage::Sent => matched,
                CallStage::Superseded => ResponseMatch::Late,
                CallStage::Queued(_) => ResponseMatch::Unknown,
            },
            None => ResponseMatch::Unknown,
        }
    }

    /// Sends a cancellation of an outbound call (TIME-002, CANC-003).
    pub(crate) fn send_cancellation(&mut self, key: Key, reason: Option<&str>) {
        if let Some(channel) = self.outbound.calls.get(key).map(|c| c.channel) {
            self.send_cancellation_on(channel, key, reason);
        }
    }

    /// Sends a cancellation of an outbound call on a channel of its session.
    pub(crate) fn send_cancellation_on(&mut self, channel: Key, key: Key, reason: Option<&str>) {
        // A queued call was never sent.
        if self.outbound.calls.get(key).is_some_and(|c| !c.is_queued()) {
            let extra = reason.map_or(0, |reason| max_escaped_len(reason.len()));
            self.send(channel, extra, |out| rpc::cancelled(out, OutboundCalls::wire_id(key), reason));
        }
    }

    /// Returns the call with this token, if it follows a task of 2025-11-25.
    fn running_task(&self, token: &RequestId) -> Option<Key> {
        let key = OutboundCalls::key_of(token)?;
        self.outbound.calls.get(key).filter(|call| call.task == CallTask::Running).map(|_| key)
    }

    /// Records a progress report of the peer. Returns the call and the report (PROG-012).
    ///
    /// # Errors
    ///
    /// The diagnostic, if the report is not valid.
    pub(crate) fn receive_progress(
        &mut self,
        channel: Key,
        params: &[u8],
    ) -> Result<(Key, Progress), Diagnostic> {
        if !R::SENDS_REQUESTS {
            return Err(Diagnostic::UnknownProgress);
        }
        let (mut token, mut progress, mut total, mut message) = (None, None, None, None);
        object_members(params, |name, value| match name {
            b"progressToken" => token = RequestId::from_json(value, self.limits.max_id),
            b"progress" => progress = Some(value),
            b"total" => total = Some(value),
            b"message" => message = string(value).map(Cow::into_owned),
            _ => {}
        });
        // The message was validated when it was read, so the first byte tells the kind of a value.
        let is_number = |text: &&[u8]| matches!(text.first(), Some(b'-' | b'0'..=b'9'));
        let (Some(token), Some(progress)) = (token, progress.filter(is_number)) else {
            return Err(Diagnostic::InvalidNotification(methods::PROGRESS.into()));
        };
        let key = match self.match_response(channel, &token) {
            ResponseMatch::Live(key) => key,
            // The token stays valid while the task runs, although the request was answered (TASK-033).
            ResponseMatch::Late => self.running_task(&token).ok_or(Diagnostic::UnknownProgress)?,
            ResponseMatch::Unknown => return Err(Diagnostic::UnknownProgress),
        };
        let now = self.now;
        let read_number = self.outbound.read_number;
        match self.outbound.calls.get_mut(key).filter(|c| c.wants_progress()).zip(read_number) {
            None => Err(Diagnostic::UnknownProgress),
            Some((call, read_number)) => {
                // Too large for a number with a fraction.
                let Some(progress) = read_number(progress) else {
                    return Err(Diagnostic::InvalidNotification(methods::PROGRESS.into()));
                };
                // A faulty total costs itself alone: the value is what the report is about.
                let total = total.filter(is_number).and_then(read_number);
                if call.record_progress(now, progress) {
                    Ok((key, Progress { progress, total, message }))
                } else {
                    Err(Diagnostic::ProgressNotIncreasing)
                }
            }
        }
    }
}

// Parameters of calls that are queued until the revision is known.

/// A parameter object as JSON, in the form of each possible revision.
///
/// Most parameters have the same form in every revision, so there is usually one entry.
#[derive(Debug)]
pub(crate) struct VersionedParams(Vec<(VersionSet, Result<Vec<u8>, UseError>)>);

impl VersionedParams {
    /// Encodes `params` for each of `versions`.
    ///
    /// # Errors
    ///
    /// An encoding error if no revision has a form for it, or [`UseError::ReservedKey`].
    pub(crate) fn encode(params: &WriteForm<'_>, versions: VersionSet) -> Result<Self, UseError> {
        let mut forms: Vec<(VersionSet, Result<Vec<u8>, UseError>)> = Vec::new();
        for version in versions.iter() {
            let mut body = Vec::new();
            let form = match params(&mut body, shape::table(version)) {
                Ok(members) => {
                    check_reserved(members)?;
                    Ok(body)
                }
                // Not an error yet: the negotiated revision may be one of the others.
                Err(error @ EncodeError::NotInVersion { .. }) => Err(error.into()),
                Err(error) => return Err(error.into()),
            };
            match forms.iter_mut().find(|(_, known)| *known == form) {
                Some((versions, _)) => *versions = versions.with(version),
                None => forms.push((VersionSet::only(version), form)),
            }
        }
        match forms.first() {
            // No revision has a form for it.
            Some((_, Err(error))) if forms.iter().all(|(_, form)| form.is_err()) => Err(error.clone()),
            _ => Ok(Self(forms)),
        }
    }

    /// Wraps parameters that were encoded for `version`.
    pub(crate) fn from_encoded(version: Version, params: Vec<u8>) -> Self {
        Self(alloc::vec![(VersionSet::only(version), Ok(params))])
    }

    /// Returns the object for `version`.
    ///
    /// # Errors
    ///
    /// [`UseError::NotReady`] if `version` was not encoded, or the reason why it has no form.
    pub(crate) fn for_version(&self, version: Version) -> Result<&[u8], UseError> {
        let form = self.0.iter().find(|(versions, _)| versions.contains(version));
        form.map_or(Err(UseError::NotReady), |(_, form)| form.as_deref().map_err(Clone::clone))
    }

    /// Returns the bytes that are charged for keeping it.
    pub(crate) fn cost(&self) -> usize {
        self.0.iter().map(|(_, form)| form.as_ref().map_or(0, Vec::len)).sum()
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;
    use crate::calls::endpoint::tests::{Counting, endpoint, outbox};
    use crate::calls::outbound::{CallOptions, CallPurpose};
    use crate::json::Serializer;
    use crate::limits::Limits;

    const PING: OutboundRequest<'_> =
        OutboundRequest { method: methods::PING, base_meta: None, meta: None, wants_progress: false };

    /// Sends a ping without parameters on an endpoint with these limits.
    fn ping(memory_reserve: usize) -> (Endpoint<Counting>, Key) {
        let limits = Limits { memory_reserve, max_uri: 0, max_id: 64, ..Limits::default() };
        let (mut endpoint, channel) = endpoint(limits);
        let options = CallOptions::new();
        let purpose = CallPurpose::Internal;
        let call = OutboundCall::new(endpoint.now, channel, purpose, &options, &endpoint.limits);
        let key = endpoint.begin_request(call).expect("a channel");
        let mut params = |out: &mut Vec<u8>| {
            out.extend_from_slice(b"{}");
            Ok(TopLevelMembers::default())
        };
        endpoint.send_request(key, &PING, &mut params).expect("memory");
        (endpoint, channel)
    }

    #[test]
    fn request_is_at_most_as_long_as_its_method_and_metadata_may_be() {
        let meta = RawJson::trusted(br#"{"a":1}"#.to_vec().into());
        for (base_meta, meta) in [(None, None), (Some(&b"x"[..]), None), (None, Some(&meta))] {
            let request = OutboundRequest { base_meta, meta, ..PING };
            let rest = base_meta.map_or(0, <[u8]>::len) + meta.map_or(0, |meta| meta.as_bytes().len());
            assert_eq!(request.len(), max_escaped_len(PING.method.len()) + rest);
        }
    }

    #[test]
    fn request_in_a_bounded_heap_leaves_room_for_an_error_and_reserves_little_more() {
        let (mut endpoint, channel) = ping(1);
        let room = endpoint.limits.error_room();
        let outbox = outbox(&mut endpoint, channel);
        assert!(outbox.has_room(room) && outbox.capacity() < 1 << 10, "{}", outbox.capacity());
    }

    #[test]
    fn request_where_the_heap_is_not_bounded_reserves_nothing() {
        let (mut endpoint, channel) = ping(0);
        let outbox = outbox(&mut endpoint, channel);
        assert!(outbox.capacity() < META_ROOM, "{}", outbox.capacity());
    }

    #[test]
    #[should_panic(expected = "the number of outbound calls of a session")]
    fn wrong_number_of_requests_is_told() {
        let (mut endpoint, channel) = ping(0);
        endpoint.check_requests();
        endpoint.channels.get_mut(channel).expect("a channel").request_count = 2;
        endpoint.check_requests();
    }

    #[test]
    fn parameters_that_some_revision_has_a_form_for_are_refused_by_the_others_alone() {
        #[derive(Serialize)]
        struct Params<T> {
            value: T,
        }
        fn check<T: Serialize>(value: T, with: Version, without: Version) {
            let params = Params { value };
            let params = |out: &mut Vec<u8>, table| Serializer::object(out, &params, table);
            let refused = VersionedParams::encode(&params, VersionSet::only(without));
            assert!(matches!(refused, Err(UseError::NotInVersion { .. })));
            let encoded = VersionedParams::encode(&params, VersionSet::ALL).expect("a form");
            assert!(encoded.for_version(with).is_ok());
            assert!(matches!(encoded.for_version(without), Err(UseError::NotInVersion { .. })));
        }
        let (old, new) = (Version::V2024_11_05, Version::V2026_07_28);
        check(crate::model::InputRequiredResult::new().request_state("s"), new, old);
        check(crate::model::SubscribeParams::new("a:b"), old, new);
    }
}
