//! Results: written into the outbox and stamped with what their revision wants.

use alloc::vec::Vec;

use serde::Serialize;

use super::config::Config;
use super::engine::Engine;
use crate::calls::inbound::CallId;
use crate::calls::ours::check_keys;
use crate::error::UseError;
use crate::json::{EncodeError, Noted, Serializer, Table, append_one_line, object_members};
use crate::meta;
use crate::raw::RawJson;
use crate::rpc::encode;
use crate::shape;
use crate::time::Instant;
use crate::version::{Era, Version};

/// From this size on a result travels as a segment of its own
const LARGE: usize = 16 << 10;
/// Most results fit, so that writing one takes one allocation
const USUAL: usize = 256;

/// Appends an object; says what was seen of it
type Write<'a> = dyn FnMut(&mut Vec<u8>, Option<&'static Table>) -> Result<Noted, EncodeError> + 'a;

impl Engine {
    /// Answers a call with the object that `write` appends, in the shape that the table gives
    ///
    /// Compiled once: of every type of results there is but what writes it.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        call: CallId,
        write: &mut Write<'_>,
    ) -> Result<(), UseError> {
        let link = &mut self.link;
        link.tick(now);
        let record = link.inbound.calls.get(call.0).ok_or(UseError::Stale)?;
        let c = link.channels.get_mut(record.channel).ok_or(UseError::Stale)?;
        let (channel, mark) = (record.channel, c.outbox.mark());
        let out = c.outbox.tail();
        encode::result_head(out, &record.id);
        let start = out.len();
        let written = write(out, shape::table(record.version)).map_err(UseError::from).and_then(|noted| {
            if noted.has(Noted::META) {
                check_meta(out, noted)?;
            }
            if record.version.era() == Era::Modern {
                let asks = asks(noted, out.get(start..).unwrap_or_default())?;
                stamp(out, noted, record.cacheable && !asks, &self.config);
            }
            Ok(())
        });
        if let Err(e) = written {
            c.outbox.undo(mark);
            return Err(e);
        }
        encode::end(out);
        link.answered(call.0, mark);
        self.check_closed(channel);
        Ok(())
    }

    /// Answers a call with a result that is JSON already: an object, sent without being copied when it is large
    ///
    /// Only stamped, not shaped for the revision: members that a revision lacks go out as they are; of what
    /// [`complete`](Self::complete) refuses, only `_meta` and `resultType` are looked at. The text is looked
    /// through each time; what is sent again and again is better [prepared](Prepared).
    pub fn complete_raw(&mut self, now: Instant, call: CallId, result: &RawJson) -> Result<(), UseError> {
        self.complete_prepared(now, call, &Prepared::of_text(result.clone())?)
    }

    /// Answers a call with a result that was written before, in the shape of the call's revision; not copied when it is
    /// large
    pub fn complete_prepared(
        &mut self,
        now: Instant,
        call: CallId,
        result: &Prepared,
    ) -> Result<(), UseError> {
        let Prepared { text, noted, one_line } = result;
        let in_batch = self.link.inbound.calls.get(call.0).is_some_and(|c| c.batch.is_some());
        if text.as_bytes().len() < LARGE
            || !one_line
            || in_batch
            || self.link.has_tap()
            || noted.has(Noted::META)
        {
            return self.answer(now, call, &mut |out, _| {
                let at = out.len();
                if *one_line {
                    out.extend_from_slice(text.as_bytes());
                } else {
                    append_one_line(out, text.as_bytes());
                }
                Ok(noted.behind(at))
            });
        }
        self.link.tick(now);
        let record = self.link.inbound.calls.get(call.0).ok_or(UseError::Stale)?;
        let asks = record.version.era() == Era::Modern && asks(*noted, text.as_bytes())?;
        let record = self.link.end_call(call.0).ok_or(UseError::Stale)?;
        let c = self.link.channels.get_mut(record.channel).ok_or(UseError::Stale)?;
        let mark = c.outbox.mark();
        encode::result_head(c.outbox.tail(), &record.id);
        c.outbox.wrote(mark);
        // All but the closing brace is shared; the stamps and a brace of ours follow.
        let mut body = text.clone().into_bytes();
        body.truncate(body.len() - 1);
        c.outbox.push_bytes(&body);
        let mark = c.outbox.mark();
        let out = c.outbox.tail();
        if record.version.era() == Era::Modern {
            let empty = body.iter().skip(1).all(u8::is_ascii_whitespace);
            append_stamps(out, *noted, record.cacheable && !asks, &self.config.stamp, empty);
        }
        out.push(b'}');
        encode::end(out);
        self.link.sent(record.channel, mark);
        self.check_closed(record.channel);
        Ok(())
    }
}

/// A result that is written once and sent often: its text, and what an engine has to know of it
///
/// Cloning shares the text.
#[derive(Clone, Debug)]
pub struct Prepared {
    text: RawJson,
    /// Relative to the text
    noted: Noted,
    one_line: bool,
}

impl Prepared {
    /// Writes a result in the shape of a revision; it is for calls of that revision only
    ///
    /// An error says what the revision has no form for, or that the value is not written as an object.
    pub fn new<T: Serialize + ?Sized>(version: Version, result: &T) -> Result<Self, EncodeError> {
        let mut text = Vec::with_capacity(USUAL);
        let noted = Serializer::object(&mut text, result, shape::table(version))?;
        Ok(Self { text: RawJson::trusted(text.into()), noted, one_line: true })
    }

    fn of_text(text: RawJson) -> Result<Self, EncodeError> {
        if !text.is_object() {
            return Err(EncodeError::NotAnObject);
        }
        let noted = Noted::of_text(text.as_bytes(), 0);
        let one_line = !text.as_bytes().iter().any(|b| matches!(b, b'\n' | b'\r'));
        Ok(Self { text, noted, one_line })
    }

    /// The text
    #[must_use]
    pub const fn text(&self) -> &RawJson {
        &self.text
    }
}

/// Whether a result asks for input, and so is not one that can be kept (CACHE-004)
///
/// One that says so and asks for nothing, or whose type is no string, is refused (BASE-026, MRTR-005).
fn asks(noted: Noted, object: &[u8]) -> Result<bool, EncodeError> {
    let mut kind: &[u8] = b"\"";
    if noted.has(Noted::RESULT_TYPE) {
        object_members(object, |name, value| {
            if name == b"resultType" {
                kind = value;
            }
        });
    }
    let asks = kind == b"\"input_required\"";
    if kind.first() != Some(&b'"') || (asks && !noted.has(Noted::INPUT_REQUESTS | Noted::REQUEST_STATE)) {
        return Err(EncodeError::NeverSent("`resultType`"));
    }
    Ok(asks)
}

/// Refuses metadata of the application that is no object or has keys of the protocol (META-003, META-006, META-007,
/// DEC-009)
#[cold]
fn check_meta(out: &[u8], noted: Noted) -> Result<(), UseError> {
    let object = noted.meta.and_then(|at| out.get(at - 1..)).ok_or(EncodeError::NotAnObject)?;
    check_keys(object, meta::is_free_in_result)
}

/// Adds what every modern result has to the object at the end of `out` (BASE-026, BASE-027, META-018, CACHE-001)
fn stamp(out: &mut Vec<u8>, noted: Noted, cacheable: bool, config: &Config) {
    let (stamp, stamp_meta) = (&config.stamp, &config.stamp_meta);
    if let Some(at) = noted.meta.filter(|_| !stamp_meta.is_empty()) {
        // The application has metadata of its own: ours goes in front of it.
        let tail = out.split_off(at);
        let empty = tail.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'}');
        out.extend_from_slice(stamp_meta);
        if !empty {
            out.push(b',');
        }
        out.extend_from_slice(&tail);
    }
    out.pop();
    let empty = out.last() == Some(&b'{');
    append_stamps(out, noted, cacheable, stamp, empty);
    out.push(b'}');
}

/// Appends the members that are missing, behind the last member of an object that is still open
fn append_stamps(out: &mut Vec<u8>, noted: Noted, cacheable: bool, stamp: &[u8], mut empty: bool) {
    let mut member = |out: &mut Vec<u8>, text: &[u8]| {
        if !core::mem::take(&mut empty) {
            out.push(b',');
        }
        out.extend_from_slice(text);
    };
    if cacheable && !noted.has(Noted::TTL) {
        member(out, b"\"ttlMs\":0");
    }
    if cacheable && !noted.has(Noted::SCOPE) {
        member(out, b"\"cacheScope\":\"private\"");
    }
    match (noted.has(Noted::RESULT_TYPE), noted.has(Noted::META)) {
        (false, false) => member(out, stamp),
        (false, true) => member(out, b"\"resultType\":\"complete\""),
        (true, false) => {
            // The stamp without its first member, which is there already.
            if let Some(at) = stamp.iter().position(|b| *b == b',') {
                member(out, stamp.get(at + 1..).unwrap_or_default());
            }
        }
        (true, true) => {}
    }
}
