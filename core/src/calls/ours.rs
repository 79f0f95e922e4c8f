//! Calls of ours: asked, answered, given up.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::inbound::Progress;
use super::link::{Link, Timer};
use super::outbound::{Match, Outbound};
use super::side::Side;
use crate::diagnostic::Diagnostic;
use crate::error::UseError;
use crate::json::{EncodeError, Noted, append_one_line, object_members, read, string, write_int, write_str};
use crate::meta;
use crate::raw::RawJson;
use crate::rpc::{RequestId, encode};
use crate::slab::Key;
use crate::vocab;

/// A request of ours, apart from its parameters
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a str,
    /// `_meta` members that the era wants in every request
    pub(crate) stamp: Option<&'a [u8]>,
    /// `_meta` members of the application
    pub(crate) meta: Option<&'a RawJson>,
    /// Ask for progress
    pub(crate) progress: bool,
}

impl Ask<'_> {
    fn write_meta(&self, out: &mut Vec<u8>, id: i64) {
        let begin = out.len();
        out.extend_from_slice(self.stamp.unwrap_or_default());
        let comma = |out: &mut Vec<u8>| {
            if out.len() > begin {
                out.push(b',');
            }
        };
        if let Some(meta) = self.meta {
            object_members(meta.as_bytes(), |name, value| {
                comma(out);
                write_str(out, core::str::from_utf8(name).unwrap_or_default());
                out.push(b':');
                append_one_line(out, value);
            });
        }
        if self.progress {
            comma(out);
            write_str(out, meta::PROGRESS_TOKEN);
            out.push(b':');
            write_int(out, id);
        }
    }
}

/// Refuses members of the parameters that belong to the engine
pub(crate) fn check_reserved(noted: Noted) -> Result<(), UseError> {
    let reserved = [
        (Noted::META, "_meta"),
        (Noted::INPUT_RESPONSES, "inputResponses"),
        (Noted::REQUEST_STATE, "requestState"),
    ];
    match reserved.iter().find(|(bit, _)| noted.has(*bit)) {
        Some((_, name)) => Err(UseError::ReservedKey(String::from(*name))),
        None => Ok(()),
    }
}

/// Refuses `_meta` that is no object or has keys of the protocol (META-002)
pub(crate) fn check_meta(meta: Option<&RawJson>) -> Result<(), UseError> {
    let Some(meta) = meta else { return Ok(()) };
    if !meta.is_object() {
        return Err(EncodeError::NotAnObject.into());
    }
    check_keys(meta.as_bytes(), meta::is_free_key)
}

/// Refuses an object with a key that is not free; it may be followed by anything
pub(crate) fn check_keys(object: &[u8], is_free: fn(&str) -> bool) -> Result<(), UseError> {
    let mut taken = None;
    object_members(object, |name, _| {
        let name = core::str::from_utf8(name).unwrap_or_default();
        if !is_free(name) {
            taken = Some(String::from(name));
        }
    });
    taken.map_or(Ok(()), |name| Err(UseError::ReservedKey(name)))
}

/// Between method and parameters of a request
const PARAMS: &[u8] = b",\"params\":";

/// What was kept of a request: its method, its parameters without the closing brace, `_meta` of the application
///
/// As it stood in the message, `"method","params":{…`, then on a line of its own what the application added.
pub(crate) fn kept_parts(kept: &[u8]) -> (&str, &[u8], Option<&[u8]>) {
    let mut lines = kept.splitn(2, |b| *b == b'\n');
    let text = lines.next().and_then(|line| line.strip_prefix(b"\"")).unwrap_or_default();
    // Methods that are kept have no escapes.
    let mut parts = text.splitn(2, |b| *b == b'"');
    let method = parts.next().and_then(|m| core::str::from_utf8(m).ok()).unwrap_or_default();
    let params = parts.next().and_then(|rest| rest.strip_prefix(PARAMS)).unwrap_or_default();
    (method, params, lines.next())
}

impl<X: Side> Link<X> {
    /// Sends a request of ours and arms its deadline; on an error nothing was sent
    ///
    /// `params` appends the parameter object, which is opened again for `_meta`.
    pub(crate) fn ask(
        &mut self,
        key: Key,
        ask: &Ask<'_>,
        params: impl FnOnce(&mut Vec<u8>) -> Result<Noted, EncodeError>,
    ) -> Result<(), UseError> {
        self.ask_at(key, ask, params).map(drop)
    }

    /// The same; where method and parameters stand, without `_meta` and the closing brace, as offsets into the outbox's
    /// tail
    pub(crate) fn ask_at(
        &mut self,
        key: Key,
        ask: &Ask<'_>,
        params: impl FnOnce(&mut Vec<u8>) -> Result<Noted, EncodeError>,
    ) -> Result<Range<usize>, UseError> {
        let call = self.outbound.calls.get(key).ok_or(UseError::Stale)?;
        let (deadline, channel, id) = (call.deadline(), call.channel, Outbound::wire_id(key));
        let c = self.channels.get_mut(channel).ok_or(UseError::Stale)?;
        let mark = c.outbox.mark();
        let out = c.outbox.tail();
        encode::request_head(out, id, ask.method);
        let before = out.len();
        out.extend_from_slice(PARAMS);
        let start = out.len();
        if let Err(e) = params(out).map_err(UseError::from).and_then(check_reserved) {
            c.outbox.undo(mark);
            return Err(e);
        }
        out.pop();
        let empty = out.len() == start + 1;
        let written = before.saturating_sub(ask.method.len() + 2)..out.len();
        if ask.stamp.is_some() || ask.progress || ask.meta.is_some() {
            out.extend_from_slice(if empty { b"\"_meta\":{" } else { b",\"_meta\":{" });
            ask.write_meta(out, id);
            out.extend_from_slice(b"}}");
        } else if empty {
            // Parameters that say nothing are left out, as older servers expect.
            out.truncate(before);
        } else {
            out.push(b'}');
        }
        encode::end(out);
        self.sent(channel, mark);
        self.deadlines.arm(deadline, Timer::Out(key));
        Ok(written)
    }

    /// Keeps what is needed to send a request of ours again ([`kept_parts`]); how many bytes that takes
    pub(crate) fn keep(
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
            // Parameters that say nothing were left out.
            None => Cow::Owned([b"\"", method.as_bytes(), b"\"", PARAMS, b"{"].concat()),
        };
        let kept: Box<[u8]> = match meta {
            None => (*text).into(),
            Some(meta) => {
                let mut kept = Vec::with_capacity(text.len() + 1 + meta.as_bytes().len());
                kept.extend_from_slice(&text);
                kept.push(b'\n');
                append_one_line(&mut kept, meta.as_bytes());
                kept.into()
            }
        };
        let bytes = kept.len();
        call.kept = Some(kept);
        bytes
    }

    /// Who an answer on `channel` is for, or on any stream whose home that is
    pub(crate) fn match_answer(&self, channel: Key, id: &RequestId) -> Match {
        let found = self.outbound.lookup(id);
        let Match::Live(key) = found else { return found };
        match self.outbound.calls.get(key) {
            Some(c) if self.home(c.channel) != channel => Match::Unknown,
            Some(c) if c.queued.is_none() && !c.parked => found,
            Some(c) if c.parked => Match::Late,
            _ => Match::Unknown,
        }
    }

    /// Tells the peer that an answer is no longer wanted (TIME-002, CANC-003)
    pub(crate) fn send_cancelled(&mut self, key: Key, reason: Option<&str>) {
        if let Some(channel) = self.outbound.calls.get(key).map(|c| c.channel) {
            self.send(channel, |out| encode::cancelled(out, Outbound::wire_id(key), reason));
        }
    }

    /// A progress report from the peer: whose it is and what it says, or what is wrong with it (PROG-012)
    pub(crate) fn progress_in(&mut self, channel: Key, params: &[u8]) -> Result<(Key, Progress), Diagnostic> {
        let (mut token, mut progress, mut total, mut message) = (None, None, None, None);
        object_members(params, |name, value| match name {
            b"progressToken" => token = RequestId::from_json(value, self.limits.max_id),
            b"progress" => progress = read::<f64>(value).ok(),
            b"total" => total = read::<f64>(value).ok(),
            b"message" => message = string(value).map(Cow::into_owned),
            _ => {}
        });
        let (Some(token), Some(progress)) = (token, progress) else {
            return Err(Diagnostic::InvalidNotification(vocab::PROGRESS.into()));
        };
        let Match::Live(key) = self.match_answer(channel, &token) else {
            return Err(Diagnostic::UnknownProgress);
        };
        let now = self.now;
        match self.outbound.calls.get_mut(key).filter(|c| c.wants_progress) {
            None => Err(Diagnostic::UnknownProgress),
            Some(call) => {
                if call.advance(now, progress) {
                    Ok((key, Progress { progress, total, message }))
                } else {
                    Err(Diagnostic::ProgressNotIncreasing)
                }
            }
        }
    }
}
