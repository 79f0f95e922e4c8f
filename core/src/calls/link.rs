//! What client and server have in common: channels with their outboxes, calls in both directions, deadlines, the tap.
//!
//! Knows JSON-RPC and the few notifications that both sides send and receive; knows no era and no handshake. It
//! produces no events: what it finds it returns, and the engine above says it in its own words.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::batch::Batch;
use super::inbound::{InCall, Inbound, Index, Progress, Reporting, Sent};
use super::outbound::{Match, Outbound};
use crate::deadlines::Deadlines;
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, Fault, UseError};
use crate::frame::line::Oversize;
use crate::json::{EncodeError, Noted, Serializer, append_one_line, object_members, write_int, write_str};
use crate::limits::Limits;
use crate::meta;
use crate::outbox::Outbox;
use crate::raw::RawJson;
use crate::rpc::envelope::{Malformed, Rejected};
use crate::rpc::{RequestId, RpcError, encode};
use crate::slab::{Key, Slab};
use crate::tap::{ChannelId, Direction, Tap, TapRecord};
use crate::time::Instant;
use crate::version::Version;
use crate::vocab;

/// What a deadline is for
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Timer {
    /// A call of the peer is too old
    Age(Key),
    /// Progress that was held back may go out
    Held(Key),
    /// A request of ours has waited long enough
    Out(Key),
    /// What is left of a channel is given up
    Grace(Key),
    /// The handshake, or the question before it, has taken long enough
    Opening(u32),
    /// Nothing has happened for a while
    Trim,
}

/// One stream of messages with one peer; `X` is what the engine adds
#[derive(Debug)]
pub(crate) struct Channel<X> {
    pub(crate) outbox: Outbox,
    /// Calls in work, by id
    pub(crate) live: Index,
    /// An error without id may be sent (DEC-004)
    pub(crate) idless: bool,
    /// Faulty messages in a row
    pub(crate) faulty: u32,
    /// The input has ended
    pub(crate) ended: Option<Box<Fault>>,
    /// When what is still in work is given up
    grace: Option<Instant>,
    pub(crate) closed: bool,
    pub(crate) extra: X,
}

/// What an answer has led to
pub(crate) type Ended = (Key, Result<RawJson, CallError>);

#[derive(Debug)]
pub(crate) struct Link<X> {
    pub(crate) limits: Arc<Limits>,
    pub(crate) channels: Slab<Channel<X>>,
    pub(crate) inbound: Inbound,
    pub(crate) outbound: Outbound,
    pub(super) batches: Slab<Batch>,
    pub(crate) deadlines: Deadlines<Timer>,
    tap: Option<Box<Tap>>,
    pub(crate) now: Instant,
    last_active: Instant,
    trim_armed: bool,
    /// Which [`Timer::Opening`] is meant
    pub(crate) opening: u32,
}

impl<X> Link<X> {
    pub(crate) fn new(limits: Arc<Limits>, hidden: &[String]) -> Self {
        let tap = (limits.tap_records > 0).then(|| Box::new(Tap::new(&limits, hidden.to_vec())));
        Self {
            limits,
            channels: Slab::new(),
            inbound: Inbound::new(),
            outbound: Outbound::new(),
            batches: Slab::new(),
            deadlines: Deadlines::new(),
            tap,
            now: Instant::ZERO,
            last_active: Instant::ZERO,
            trim_armed: false,
            opening: 0,
        }
    }

    // ---- time ------------------------------------------------------------------------------------------------

    /// Time only moves forward: an older `now` counts as the last one seen
    #[inline]
    pub(crate) fn tick(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Notes that something was received, so that buffers are kept for a while
    #[inline]
    pub(crate) fn touch(&mut self) {
        self.last_active = self.now;
        if !self.trim_armed {
            self.trim_armed = true;
            self.deadlines.arm(self.now + self.limits.idle_trim, Timer::Trim);
        }
    }

    /// Whether nothing has happened for long enough that buffers were given back
    pub(crate) const fn is_idle(&self) -> bool {
        !self.trim_armed
    }

    /// The next deadline that has passed and still means something
    pub(crate) fn pop_due(&mut self) -> Option<Timer> {
        while let Some((at, timer)) = self.deadlines.pop_due(self.now) {
            if self.holds(at, timer) {
                return Some(timer);
            }
            if let Timer::Out(key) = timer {
                // Progress moved the deadline: look again then.
                if let Some(call) = self.outbound.calls.get(key) {
                    self.deadlines.arm(call.deadline(), timer);
                }
            }
        }
        None
    }

    pub(crate) fn poll_timeout(&mut self) -> Option<Instant> {
        let Self { deadlines, inbound, outbound, channels, opening, .. } = self;
        deadlines.next(|at, timer| may_hold(at, timer, inbound, outbound, channels, *opening))
    }

    fn holds(&self, at: Instant, timer: Timer) -> bool {
        may_hold(at, timer, &self.inbound, &self.outbound, &self.channels, self.opening)
            && match timer {
                Timer::Out(key) => self.outbound.calls.get(key).is_some_and(|c| c.deadline() <= at),
                _ => true,
            }
    }

    /// Drops deadlines of what has ended before they pile up
    fn sweep(&mut self) {
        let Self { deadlines, inbound, outbound, channels, opening, .. } = self;
        let live = inbound.calls.len() + outbound.calls.len();
        deadlines.sweep(live, |at, timer| may_hold(at, timer, inbound, outbound, channels, *opening));
    }

    /// Gives buffers back once nothing has happened for a while; false when it is too early
    pub(crate) fn trim(&mut self) -> bool {
        let quiet_until = self.last_active + self.limits.idle_trim;
        if self.now < quiet_until {
            self.deadlines.arm(quiet_until, Timer::Trim);
            return false;
        }
        self.trim_armed = false;
        self.inbound.calls.trim();
        self.outbound.calls.trim();
        self.batches.trim();
        self.deadlines.trim();
        for key in self.open_channels() {
            if let Some(c) = self.channels.get_mut(key) {
                c.outbox.trim();
                c.live.shrink_to_fit();
            }
        }
        true
    }

    // ---- channels --------------------------------------------------------------------------------------------

    pub(crate) fn open_channel(&mut self, idless: bool, extra: X) -> Key {
        self.channels.insert(Channel {
            outbox: Outbox::default(),
            live: Index::new(),
            idless,
            faulty: 0,
            ended: None,
            grace: None,
            closed: false,
            extra,
        })
    }

    pub(crate) fn open_channels(&self) -> Vec<Key> {
        self.channels.iter().map(|(key, _)| key).collect()
    }

    /// Notes that nothing more will come; false when that was known. What is left ends after `grace`.
    pub(crate) fn end_input(&mut self, channel: Key, fault: Fault, grace: Duration) -> bool {
        let at = self.now + grace;
        let Some(c) = self.channels.get_mut(channel) else { return false };
        if c.ended.is_some() {
            return false;
        }
        c.ended = Some(Box::new(fault));
        c.grace = Some(at);
        self.deadlines.arm(at, Timer::Grace(channel));
        true
    }

    /// The requests of ours on a channel
    pub(crate) fn ours(&self, channel: Key) -> Vec<Key> {
        self.outbound.calls.iter().filter(|(_, c)| c.channel == channel).map(|(key, _)| key).collect()
    }

    pub(crate) fn release_channel(&mut self, channel: Key) {
        if self.channels.get(channel).is_some_and(|c| c.closed) {
            self.channels.remove(channel);
        }
    }

    // ---- sending ---------------------------------------------------------------------------------------------

    /// Appends a message to the outbox of a channel
    #[inline]
    pub(crate) fn send(&mut self, channel: Key, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(c) = self.channels.get_mut(channel).filter(|c| !c.closed) else { return };
        let mark = c.outbox.mark();
        write(c.outbox.tail());
        self.sent(channel, mark);
    }

    /// Accounts for a message that was appended to the outbox of a channel, and shows it to the tap
    #[inline]
    pub(crate) fn sent(&mut self, channel: Key, mark: usize) {
        let Some(c) = self.channels.get_mut(channel) else { return };
        c.outbox.wrote(mark);
        if let Some(tap) = &mut self.tap {
            let message = c.outbox.tail().get(mark..).unwrap_or_default();
            tap.record(self.now, Direction::Out, ChannelId(channel), message);
        }
    }

    pub(crate) fn received(&mut self, channel: Key, message: &[u8]) {
        if let Some(tap) = &mut self.tap {
            tap.record(self.now, Direction::In, ChannelId(channel), message);
        }
    }

    pub(crate) const fn has_tap(&self) -> bool {
        self.tap.is_some()
    }

    pub(crate) fn poll_tap(&mut self) -> Option<TapRecord> {
        self.tap.as_mut()?.poll()
    }

    pub(crate) fn tap_dropped(&self) -> u64 {
        self.tap.as_ref().map_or(0, |t| t.dropped())
    }

    /// Sends an error answer, in the batch that the request came in if it came in one
    pub(crate) fn send_error(&mut self, channel: Key, batch: Option<Key>, id: Option<&RequestId>, error: &RpcError) {
        self.send_or_gather(channel, batch, id, |out| encode::error(out, id, error));
    }

    /// Sends an answer that is known at once, in its batch if it has one
    pub(crate) fn send_or_gather(
        &mut self,
        channel: Key,
        batch: Option<Key>,
        id: Option<&RequestId>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        match batch {
            None => self.send(channel, write),
            Some(batch) => {
                let mut message = Vec::new();
                write(&mut message);
                self.add_to_batch(batch, id, &message);
            }
        }
    }

    /// Sends a notification of the application's own
    pub(crate) fn notify<T: serde::Serialize + ?Sized>(
        &mut self,
        channel: Key,
        method: &str,
        params: Option<&T>,
    ) -> Result<(), UseError> {
        if vocab::is_spec_notification(method) || vocab::request(method).is_some() {
            return Err(UseError::NotYours(method.into()));
        }
        let limit = self.limits.outbox_mark;
        let c = self.channels.get_mut(channel).ok_or(UseError::Stale)?;
        if c.closed {
            return Err(UseError::Closed);
        }
        if c.outbox.len() >= limit {
            return Err(UseError::Full("outbox_mark"));
        }
        let mark = c.outbox.mark();
        let out = c.outbox.tail();
        encode::notification_head(out, method);
        if let Some(params) = params {
            out.extend_from_slice(b",\"params\":");
            if let Err(e) = Serializer::object(out, params) {
                c.outbox.undo(mark);
                return Err(e.into());
            }
        }
        encode::end(c.outbox.tail());
        self.sent(channel, mark);
        Ok(())
    }

    // ---- calls of the peer -----------------------------------------------------------------------------------

    /// Enters a call; none when one with its id is in flight
    pub(crate) fn begin(&mut self, call: InCall) -> Option<Key> {
        let expires = call.expires;
        let c = self.channels.get_mut(call.channel)?;
        let key = self.inbound.insert(&mut c.live, call)?;
        self.deadlines.arm(expires, Timer::Age(key));
        Some(key)
    }

    /// Takes a call out of the tables
    pub(crate) fn end_call(&mut self, key: Key) -> Option<InCall> {
        let channel = self.inbound.calls.get(key)?.channel;
        let record = match self.channels.get_mut(channel) {
            Some(c) => self.inbound.remove(&mut c.live, key),
            None => self.inbound.calls.remove(key),
        };
        self.sweep();
        record
    }

    /// Ends a call with an error
    pub(crate) fn fail(&mut self, key: Key, error: &RpcError) -> Option<InCall> {
        let record = self.end_call(key)?;
        self.send_error(record.channel, record.batch, Some(&record.id), error);
        self.leave_batch(&record);
        Some(record)
    }

    /// Ends a call with the message that stands in the outbox behind `mark`
    pub(crate) fn answered(&mut self, key: Key, mark: usize) {
        let Some(record) = self.end_call(key) else { return };
        match record.batch {
            None => self.sent(record.channel, mark),
            Some(batch) => {
                let Some(c) = self.channels.get_mut(record.channel) else { return };
                let message = c.outbox.tail().split_off(mark);
                self.add_to_batch(batch, Some(&record.id), &message);
                self.leave_batch(&record);
            }
        }
    }

    /// Ends a call without an answer (CANC-020)
    pub(crate) fn drop_call(&mut self, key: Key) -> Option<InCall> {
        let record = self.end_call(key)?;
        self.leave_batch(&record);
        Some(record)
    }

    /// The progress token of a request; the error is the answer to give (PROG-003)
    pub(crate) fn token(&self, text: Option<&[u8]>) -> Result<Option<RequestId>, RpcError> {
        text.map(|text| {
            RequestId::from_json(text, self.limits.max_id).ok_or_else(|| {
                RpcError::invalid_params("`_meta.progressToken` is neither a string nor an integer")
            })
        })
        .transpose()
    }

    /// What a `notifications/cancelled` names, and why
    pub(crate) fn cancellation(&self, params: &[u8]) -> Option<(RequestId, Option<String>)> {
        let (mut id, mut reason) = (None, None);
        object_members(params, |name, value| match name {
            b"requestId" => id = RequestId::from_json(value, self.limits.max_id),
            b"reason" => reason = serde_json::from_slice::<String>(value).ok(),
            _ => {}
        });
        Some((id?, reason))
    }

    /// Reports how far a call has come, now or later
    pub(crate) fn report(&mut self, key: Key, progress: Progress) -> Result<Sent, UseError> {
        let (now, limits) = (self.now, &*self.limits);
        let record = self.inbound.calls.get_mut(key).ok_or(UseError::Stale)?;
        if record.token.is_none() {
            return Ok(Sent::Dropped);
        }
        let full = self.channels.get(record.channel).is_none_or(|c| c.outbox.len() >= limits.outbox_mark);
        let reporting = record.progress.get_or_insert_with(|| Box::new(Reporting::new(now, limits)));
        let newest = reporting.held.as_ref().map_or(reporting.last, |h| h.progress);
        if !progress.progress.is_finite() || progress.progress <= newest {
            return Ok(Sent::Dropped);
        }
        if reporting.held.is_none() && !full && reporting.bucket.take(now) {
            self.send_progress(key, &progress);
            return Ok(Sent::Queued);
        }
        reporting.held = Some(progress);
        if reporting.due.is_none() {
            self.hold(key);
        }
        Ok(Sent::Held)
    }

    /// Arms the timer that sends the held progress of a call
    fn hold(&mut self, key: Key) {
        // A peer that does not read gets another look a little later.
        let soonest = self.now + Duration::from_millis(50);
        let Some(reporting) = self.inbound.calls.get_mut(key).and_then(|c| c.progress.as_mut()) else { return };
        let due = reporting.bucket.ready_at().unwrap_or(Instant::FAR).max(soonest);
        reporting.due = Some(due);
        self.deadlines.arm(due, Timer::Held(key));
    }

    /// Sends the held progress of a call if that is possible by now
    pub(crate) fn release_held(&mut self, key: Key) {
        let (now, mark) = (self.now, self.limits.outbox_mark);
        let Some(call) = self.inbound.calls.get_mut(key) else { return };
        let full = self.channels.get(call.channel).is_none_or(|c| c.outbox.len() >= mark);
        let Some(reporting) = call.progress.as_mut() else { return };
        reporting.due = None;
        if full || !reporting.bucket.take(now) {
            self.hold(key);
        } else if let Some(progress) = reporting.held.take() {
            self.send_progress(key, &progress);
        }
    }

    fn send_progress(&mut self, key: Key, progress: &Progress) {
        let Some(call) = self.inbound.calls.get_mut(key) else { return };
        let (Some(token), Some(reporting)) = (call.token.as_ref(), call.progress.as_mut()) else { return };
        reporting.last = progress.progress;
        let Some(c) = self.channels.get_mut(call.channel) else { return };
        let mark = c.outbox.mark();
        let out = c.outbox.tail();
        encode::notification_head(out, vocab::PROGRESS);
        out.extend_from_slice(b",\"params\":{\"progressToken\":");
        token.write(out);
        out.extend_from_slice(b",\"progress\":");
        // A finite number can always be written.
        let _ = Serializer::any(out, &progress.progress);
        if let Some(total) = progress.total.filter(|t| t.is_finite()) {
            out.extend_from_slice(b",\"total\":");
            let _ = Serializer::any(out, &total);
        }
        // The first revision has no message (PROG-006).
        if let Some(message) = progress.message.as_ref().filter(|_| call.version > Version::V2024_11_05) {
            out.extend_from_slice(b",\"message\":");
            write_str(out, message);
        }
        out.push(b'}');
        encode::end(out);
        let channel = call.channel;
        self.sent(channel, mark);
    }

    // ---- calls of ours ---------------------------------------------------------------------------------------

    /// Sends a request of ours and arms its deadline; on an error nothing was sent
    ///
    /// `params` appends the parameter object, which is opened again for `_meta`.
    pub(crate) fn ask(
        &mut self,
        key: Key,
        ask: &Ask<'_>,
        params: impl FnOnce(&mut Vec<u8>) -> Result<Noted, EncodeError>,
    ) -> Result<(), UseError> {
        let call = self.outbound.calls.get(key).ok_or(UseError::Stale)?;
        let (deadline, channel, id) = (call.deadline(), call.channel, Outbound::wire_id(key));
        let c = self.channels.get_mut(channel).ok_or(UseError::Stale)?;
        let mark = c.outbox.mark();
        let out = c.outbox.tail();
        encode::request_head(out, id, ask.method);
        let before = out.len();
        out.extend_from_slice(b",\"params\":");
        let start = out.len();
        if let Err(e) = params(out).map_err(UseError::from).and_then(check_reserved) {
            c.outbox.undo(mark);
            return Err(e);
        }
        out.pop();
        let empty = out.len() == start + 1;
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
        Ok(())
    }

    /// Who an answer on `channel` is for
    pub(crate) fn match_answer(&self, channel: Key, id: &RequestId) -> Match {
        match self.outbound.lookup(id) {
            Match::Live(key) if self.outbound.calls.get(key).is_none_or(|c| c.channel != channel || c.queued.is_some()) => {
                Match::Unknown
            }
            other => other,
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
            b"progress" => progress = serde_json::from_slice::<f64>(value).ok(),
            b"total" => total = serde_json::from_slice::<f64>(value).ok(),
            b"message" => message = serde_json::from_slice::<String>(value).ok(),
            _ => {}
        });
        let (Some(token), Some(progress)) = (token, progress) else {
            return Err(Diagnostic::InvalidNotification(vocab::PROGRESS.into()));
        };
        let Match::Live(key) = self.match_answer(channel, &token) else { return Err(Diagnostic::UnknownProgress) };
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

    // ---- faults ----------------------------------------------------------------------------------------------

    /// Answers a message that is not in order where that is due; what is to be reported, and whose call it ended
    pub(crate) fn reject(&mut self, channel: Key, batch: Option<Key>, rejected: Rejected) -> (Diagnostic, Option<Ended>) {
        let Rejected { why, id, asks, answers } = rejected;
        // Something that answers a request of ours must not leave that waiting.
        let ended = match id.as_ref().filter(|_| answers).map(|i| self.match_answer(channel, i)) {
            Some(Match::Live(key)) => {
                let outcome = match why {
                    Malformed::TooLong { limit } => CallError::TooLarge { limit },
                    why => CallError::Malformed(why),
                };
                Some((key, Err(outcome)))
            }
            _ => None,
        };
        let a_request = !matches!(why, Malformed::Contradictory | Malformed::Result | Malformed::Error);
        let answered = match &id {
            Some(_) => asks,
            // Who sent it cannot be known: answered only where an error may go without an id (DEC-004).
            None => {
                let idless = self.channels.get(channel).is_some_and(|c| c.idless);
                a_request && !answers && batch.is_none() && idless
            }
        };
        if answered {
            self.send_error(channel, batch, id.as_ref(), &RpcError::new(why.code(), format!("{why}")));
        }
        (Diagnostic::Malformed { why, id, answered }, ended)
    }

    /// What a line that was too long to keep is refused with (STDIO-012)
    pub(crate) fn too_long(&self, oversize: Oversize) -> Rejected {
        let found = oversize.found;
        Rejected {
            why: Malformed::TooLong { limit: self.limits.frame() },
            id: found.id.and_then(|text| RequestId::from_json(&text, self.limits.max_id)),
            asks: found.asks,
            answers: found.answers && !found.asks,
        }
    }

    /// Counts a faulty message; the fault when there were too many in a row
    pub(crate) fn count_fault(&mut self, channel: Key) -> Option<Fault> {
        let c = self.channels.get_mut(channel)?;
        c.faulty = c.faulty.saturating_add(1);
        let count = c.faulty;
        self.limits.max_faulty.filter(|max| count >= *max).map(|_| Fault::Garbage { count })
    }
}

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
    let reserved =
        [(Noted::META, "_meta"), (Noted::INPUT_RESPONSES, "inputResponses"), (Noted::REQUEST_STATE, "requestState")];
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
    let mut taken = None;
    object_members(meta.as_bytes(), |name, _| {
        let name = core::str::from_utf8(name).unwrap_or_default();
        if !meta::is_free_key(name) {
            taken = Some(String::from(name));
        }
    });
    taken.map_or(Ok(()), |name| Err(UseError::ReservedKey(name)))
}

/// What a frame holds
pub(crate) enum Content {
    Blank,
    Array,
    One,
}

/// Strips a byte order mark (STDIO-004) and tells blank lines (STDIO-011) and arrays from the rest
pub(crate) fn content(frame: Bytes) -> (Content, Bytes) {
    let frame = match frame.strip_prefix(b"\xef\xbb\xbf") {
        Some(rest) => frame.slice_ref(rest),
        None => frame,
    };
    let content = match frame.iter().find(|b| !b.is_ascii_whitespace()) {
        None => Content::Blank,
        Some(b'[') => Content::Array,
        Some(_) => Content::One,
    };
    (content, frame)
}

/// Whether a deadline may still mean something; a request's may have moved
fn may_hold<X>(
    at: Instant,
    timer: Timer,
    inbound: &Inbound,
    outbound: &Outbound,
    channels: &Slab<Channel<X>>,
    opening: u32,
) -> bool {
    match timer {
        Timer::Age(key) => inbound.calls.get(key).is_some_and(|c| c.expires == at),
        Timer::Held(key) => {
            inbound.calls.get(key).and_then(|c| c.progress.as_ref()).is_some_and(|p| p.due == Some(at))
        }
        Timer::Out(key) => outbound.calls.get(key).is_some(),
        Timer::Grace(key) => channels.get(key).is_some_and(|c| c.grace == Some(at) && !c.closed),
        Timer::Opening(which) => which == opening,
        Timer::Trim => true,
    }
}
