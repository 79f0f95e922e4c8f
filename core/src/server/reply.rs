//! Results: serialized into the outbox and completed with the members that the revision requires.

use alloc::vec::Vec;

use memchr::memchr2;
use serde::Serialize;

use super::config::Config;
use super::engine::Engine;
use super::tasks::RunAnswer;
use crate::calls::inbound::CallId;
use crate::calls::observing::observe_sent_result;
use crate::calls::outbound_requests::check_keys;
use crate::error::UseError;
use crate::json::{EncodeError, Serializer, TopLevelMembers, append_one_line, object_members, room};
use crate::raw::RawJson;
use crate::time::Instant;
use crate::version::Version;
use crate::{meta, rpc, shape};

/// Minimum size of a result that is sent as a segment of its own.
const MIN_SHARED_RESULT: usize = 16 << 10;

/// Initial buffer size; most results need no second allocation.
pub(super) const RESULT_CAPACITY: usize = 256;
/// Room for the members that every result has in addition to the suffix of the server.
pub(super) const MEMBERS_ROOM: usize = 128;

/// Appends an object in the form of a revision and returns its top-level members of interest.
type WriteResult<'a> = dyn FnMut(&mut Vec<u8>, Version) -> Result<TopLevelMembers, EncodeError> + 'a;

impl Engine {
    /// Answers a call with the object that `write` appends, shaped for the revision it gets.
    ///
    /// Not generic, so that only the serializer is compiled once per type.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        call: CallId,
        write: &mut WriteResult<'_>,
    ) -> Result<(), UseError> {
        let endpoint = &mut self.endpoint;
        endpoint.tick(now);
        let run_channel = self.tasks.as_ref().map(|tasks| tasks.channel);
        // Serialization takes what memory it gets, so the part for errors is set aside meanwhile.
        let reserve = endpoint.limits.hold_reserve().ok_or(EncodeError::OutOfMemory)?;
        let record = endpoint.inbound.calls.get(call.0).ok_or(UseError::Stale)?;
        let c = endpoint.channels.get_mut(record.channel).ok_or(UseError::Stale)?;
        let (channel, mark) = (record.channel, c.outbox.mark());
        let out = c.outbox.tail();
        // The head, and the members that are added behind the result.
        room(out, RESULT_CAPACITY + MEMBERS_ROOM + self.config.result_suffix.len())?;
        rpc::result_head(out, &record.id);
        let start = out.len();
        let written = write(out, record.version).map_err(UseError::from).and_then(|members| {
            if members.contains(TopLevelMembers::META) {
                check_meta(out, members)?;
            }
            // Behind the result come members, and the end of the message.
            room(out, MEMBERS_ROOM + self.config.result_suffix.len())?;
            if record.version.is_modern() {
                let needs_input = is_input_required(members, out.get(start..).unwrap_or_default())?;
                // The answer to a run goes to its client later, with members of that revision.
                if run_channel != Some(record.channel) {
                    add_standard_members(out, members, record.cacheable && !needs_input, &self.config);
                } else if needs_input {
                    // The answer to a run is kept; what it needs is asked with `need_input`.
                    return Err(UseError::Encode(EncodeError::NeverSent("`resultType`")));
                } else if !members.contains(TopLevelMembers::RESULT_TYPE) {
                    out.pop();
                    append_standard_members(
                        out,
                        members,
                        false,
                        b"\"resultType\":\"complete\"",
                        out.len() == start + 1,
                    );
                    out.push(b'}');
                }
            }
            Ok(())
        });
        if let Err(e) = written {
            c.outbox.rollback(mark);
            return Err(e);
        }
        if run_channel == Some(channel) {
            // Without the head, whose id is that of the run: no client knows it.
            let result: Vec<u8> = out.split_off(start);
            c.outbox.rollback(mark);
            self.with_tasks(|tasks, cx| tasks.finish(cx, call.0, RunAnswer::Result(&result)));
            return Ok(());
        }
        rpc::end(out);
        if !endpoint.memory.takes_result(out.len().saturating_sub(mark)) {
            c.outbox.rollback(mark);
            return Err(EncodeError::OutOfMemory.into());
        }
        drop(reserve);
        endpoint.commit_answer(call.0, mark)?;
        self.close_if_finished(channel);
        Ok(())
    }

    /// Answers a call with a result that is a JSON object already.
    ///
    /// A large one is sent without a copy.
    ///
    /// The result is not shaped for the revision: members that the revision lacks are sent as they are. The engine only
    /// adds the required members. The text is scanned at each call; to send a result often, use a [`PreparedResult`].
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete), for `_meta`, `resultType` and memory only. Each call counts the text for
    /// `max_memory`: of one text for many calls, make a [`PreparedResult`].
    pub fn complete_raw(&mut self, now: Instant, call: CallId, result: &RawJson) -> Result<(), UseError> {
        let text = RawJson::trusted(self.endpoint.memory.hold(result.clone().into_bytes()));
        self.complete_prepared(now, call, &PreparedResult::from_text(text)?)
    }

    /// Answers a call with a prepared result. A large one is sent without a copy.
    ///
    /// The result must have been prepared for the revision of the call.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete), for `_meta`, `resultType` and memory only.
    pub fn complete_prepared(
        &mut self,
        now: Instant,
        call: CallId,
        result: &PreparedResult,
    ) -> Result<(), UseError> {
        let PreparedResult { text, members, one_line } = result;
        let in_batch = self.endpoint.inbound.calls.get(call.0).is_some_and(|c| c.batch.is_some());
        if text.as_bytes().len() < MIN_SHARED_RESULT
            // A line break would end the message (STDIO-003).
            || !one_line
            // The answers of a batch are parts of one message.
            || in_batch
            // The tap takes a message in one piece.
            || self.endpoint.has_tap()
            // Segments are not asked for.
            || self.endpoint.limits.memory_reserve > 0
            // `_meta` of the application is checked, and extended by members of the engine.
            || members.contains(TopLevelMembers::META)
            // The result of a run is kept instead of sent.
            || self.is_run(call.0)
        {
            return self.answer(now, call, &mut |out, _| {
                let at = out.len();
                room(out, text.as_bytes().len())?;
                if *one_line {
                    out.extend_from_slice(text.as_bytes());
                } else {
                    append_one_line(out, text.as_bytes());
                }
                Ok(members.shifted(at))
            });
        }
        self.endpoint.tick(now);
        if !self.endpoint.memory.takes_result(0) {
            return Err(EncodeError::OutOfMemory.into());
        }
        let record = self.endpoint.inbound.calls.get(call.0).ok_or(UseError::Stale)?;
        // Before the call ends, so that a refused result leaves it open.
        let needs_input = record.version.is_modern() && is_input_required(*members, text.as_bytes())?;
        let observed = self.endpoint.inbound.take_observed(call.0);
        let record = self.endpoint.end_call(call.0).ok_or(UseError::Stale)?;
        let c = self.endpoint.channels.get_mut(record.channel).ok_or(UseError::Stale)?;
        let mark = c.outbox.mark();
        rpc::result_head(c.outbox.tail(), &record.id);
        let head_bytes = c.outbox.tail().len().saturating_sub(mark);
        // Not `commit_message`: the message goes on behind the shared text.
        c.outbox.commit(mark);
        // Everything except the closing brace is shared; the required members and a brace follow.
        let mut body = text.clone().into_bytes();
        body.truncate(body.len() - 1);
        c.outbox.push_bytes(&body);
        let mark = c.outbox.mark();
        let out = c.outbox.tail();
        if record.version.is_modern() {
            let empty = body.iter().skip(1).all(u8::is_ascii_whitespace);
            append_standard_members(
                out,
                *members,
                record.cacheable && !needs_input,
                &self.config.result_suffix,
                empty,
            );
        }
        out.push(b'}');
        rpc::end(out);
        self.endpoint.commit_message(record.channel, mark);
        observe_sent_result(&self.endpoint, observed, head_bytes + body.len(), text.as_bytes());
        self.close_if_finished(record.channel);
        Ok(())
    }
}

/// A result that is serialized once and sent often.
///
/// Clones share the text.
#[derive(Clone, Debug)]
pub struct PreparedResult {
    text: RawJson,
    /// Offsets are relative to the text.
    members: TopLevelMembers,
    one_line: bool,
}

impl PreparedResult {
    /// Serializes a result for calls of one revision.
    ///
    /// # Errors
    ///
    /// An encoding error if the revision has no form for the value, or if it is not an object.
    pub fn new<T: Serialize + ?Sized>(version: Version, result: &T) -> Result<Self, EncodeError> {
        let mut text = Vec::with_capacity(RESULT_CAPACITY);
        let members = Serializer::object(&mut text, result, shape::table(version))?;
        Ok(Self { text: RawJson::trusted(text.into()), members, one_line: true })
    }

    fn from_text(text: RawJson) -> Result<Self, EncodeError> {
        if !text.is_object() {
            return Err(EncodeError::NotAnObject);
        }
        let members = TopLevelMembers::scan(text.as_bytes(), 0);
        let one_line = memchr2(b'\n', b'\r', text.as_bytes()).is_none();
        Ok(Self { text, members, one_line })
    }

    /// Returns the JSON text.
    #[must_use]
    pub const fn text(&self) -> &RawJson {
        &self.text
    }
}

/// A result that is serialized away from the engine and sent once. Its buffer can be used again.
#[derive(Debug, Default)]
pub struct BufferedResult {
    text: Vec<u8>,
    /// Offsets are relative to the text.
    members: TopLevelMembers,
}

impl BufferedResult {
    /// Serializes a result for a call of one revision.
    ///
    /// # Errors
    ///
    /// As [`PreparedResult::new`]. The buffer is empty then.
    pub fn encode<T: Serialize + ?Sized>(&mut self, version: Version, result: &T) -> Result<(), EncodeError> {
        self.text.clear();
        self.text.reserve(RESULT_CAPACITY);
        match Serializer::object(&mut self.text, result, shape::table(version)) {
            Ok(members) => self.members = members,
            Err(error) => {
                self.text.clear();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Answers a call with the result, and empties the buffer. A large one is sent without a copy.
    ///
    /// The result must have been serialized for the revision of the call.
    ///
    /// # Errors
    ///
    /// As [`Engine::complete_prepared`]. An encoding error if the buffer is empty.
    pub fn complete(&mut self, engine: &mut Engine, now: Instant, call: CallId) -> Result<(), UseError> {
        let Self { text, members } = self;
        if text.is_empty() {
            return Err(EncodeError::NotAnObject.into());
        }
        if text.len() >= MIN_SHARED_RESULT {
            let text = RawJson::trusted(engine.endpoint.memory.hold_text(core::mem::take(text)));
            let result = PreparedResult { text, members: *members, one_line: true };
            return engine.complete_prepared(now, call, &result);
        }
        engine.answer(now, call, &mut |out, _| {
            let at = out.len();
            room(out, text.len())?;
            out.extend_from_slice(text);
            Ok(members.shifted(at))
        })?;
        text.clear();
        Ok(())
    }

    /// Returns the size of the buffer in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.text.capacity()
    }
}

/// Returns whether a result asks for input, so that it must not be cached (CACHE-004).
///
/// # Errors
///
/// [`EncodeError::NeverSent`] if `resultType` is not a string, or is `input_required` without input requests and state
/// (BASE-026, MRTR-005).
fn is_input_required(members: TopLevelMembers, object: &[u8]) -> Result<bool, EncodeError> {
    let mut result_type: &[u8] = b"\"";
    if members.contains(TopLevelMembers::RESULT_TYPE) {
        object_members(object, |name, value| {
            if name == b"resultType" {
                result_type = value;
            }
        });
    }
    let needs_input = result_type == b"\"input_required\"";
    if result_type.first() != Some(&b'"')
        || (needs_input
            && !members.contains(TopLevelMembers::INPUT_REQUESTS | TopLevelMembers::REQUEST_STATE))
    {
        return Err(EncodeError::NeverSent("`resultType`"));
    }
    Ok(needs_input)
}

/// Checks the `_meta` of an application (META-003, META-006, META-007, DEC-009).
///
/// It must be an object without keys of the protocol.
///
/// # Errors
///
/// [`UseError::ReservedKey`] or an encoding error.
#[cold]
fn check_meta(out: &[u8], members: TopLevelMembers) -> Result<(), UseError> {
    // `meta` is the position behind the brace that opens the object.
    let object = members.meta.and_then(|at| out.get(at - 1..)).ok_or(EncodeError::NotAnObject)?;
    check_keys(object, meta::is_unreserved_in_result)
}

/// Adds the members of every modern result to the object at the end of `out` (BASE-026, BASE-027, META-018, CACHE-001).
fn add_standard_members(out: &mut Vec<u8>, members: TopLevelMembers, cacheable: bool, config: &Config) {
    let (suffix, suffix_meta) = (&config.result_suffix, &config.result_meta);
    if let Some(at) = members.meta.filter(|_| !suffix_meta.is_empty()) {
        // The application has `_meta` of its own: that of the engine is inserted before it.
        let end = out.len();
        let own = out.get(at..).unwrap_or_default();
        let is_empty = own.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'}');
        out.extend_from_slice(suffix_meta);
        if !is_empty {
            out.push(b',');
        }
        let inserted = out.len() - end;
        // Appended and moved into place, so that no second buffer is needed.
        if let Some(from) = out.get_mut(at..) {
            from.rotate_right(inserted);
        }
    }
    out.pop();
    let empty = out.last() == Some(&b'{');
    append_standard_members(out, members, cacheable, suffix, empty);
    out.push(b'}');
}

/// Appends the missing members to an object without its closing brace.
fn append_standard_members(
    out: &mut Vec<u8>,
    members: TopLevelMembers,
    cacheable: bool,
    suffix: &[u8],
    mut empty: bool,
) {
    let mut member = |out: &mut Vec<u8>, text: &[u8]| {
        if !core::mem::take(&mut empty) {
            out.push(b',');
        }
        out.extend_from_slice(text);
    };
    if cacheable && !members.contains(TopLevelMembers::TTL) {
        member(out, b"\"ttlMs\":0");
    }
    if cacheable && !members.contains(TopLevelMembers::SCOPE) {
        member(out, b"\"cacheScope\":\"private\"");
    }
    match (members.contains(TopLevelMembers::RESULT_TYPE), members.contains(TopLevelMembers::META)) {
        (false, false) => member(out, suffix),
        (false, true) => member(out, b"\"resultType\":\"complete\""),
        (true, false) => {
            // The object has `resultType`, the first member of the suffix, already.
            if let Some(at) = suffix.iter().position(|b| *b == b',') {
                member(out, suffix.get(at + 1..).unwrap_or_default());
            }
        }
        (true, true) => {}
    }
}
