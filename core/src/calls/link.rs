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
use super::inbound::{Inbound, Index};
use super::outbound::{Match, OutCall, Outbound};
use super::side::Side;
use crate::deadlines::Deadlines;
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, Fault, UseError};
use crate::frame::line::Oversize;
use crate::json::{Serializer, Table};
use crate::limits::Limits;
use crate::outbox::Outbox;
use crate::raw::RawJson;
use crate::rpc::envelope::{Malformed, Rejected};
use crate::rpc::{RequestId, RpcError, encode};
use crate::slab::{Key, Slab};
use crate::tap::{ChannelId, Direction, Tap, TapRecord};
use crate::time::Instant;
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
    /// News that was held back on a channel may go out
    News(Key),
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
pub(crate) struct Link<X: Side> {
    pub(crate) limits: Arc<Limits>,
    pub(crate) channels: Slab<Channel<X>>,
    pub(crate) inbound: Inbound,
    pub(crate) outbound: Outbound,
    pub(super) batches: Slab<Batch>,
    pub(crate) deadlines: Deadlines<Timer>,
    tap: Option<Box<Tap>>,
    pub(crate) now: Instant,
    last_active: Instant,
    /// When buffers are given back, unless something is received before; kept apart from what has to be punctual
    trim_at: Option<Instant>,
    /// Which [`Timer::Opening`] is meant
    pub(crate) opening: u32,
    /// What the engine keeps once for all channels
    pub(crate) shared: X::Shared,
}

impl<X: Side> Link<X> {
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
            trim_at: None,
            opening: 0,
            shared: X::Shared::default(),
        }
    }

    // ---- time ------------------------------------------------------------------------------------------------

    /// Time only moves forward: an older `now` counts as the last one seen
    pub(crate) fn tick(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Notes that something was received, so that buffers are kept for a while
    pub(crate) fn touch(&mut self) {
        self.last_active = self.now;
        if self.trim_at.is_none() {
            self.trim_at = Some(self.now + self.limits.idle_trim);
        }
    }

    /// Whether nothing has happened for long enough that buffers were given back
    pub(crate) const fn is_idle(&self) -> bool {
        self.trim_at.is_none()
    }

    /// The next deadline that has passed and still means something
    pub(crate) fn pop_due(&mut self) -> Option<Timer> {
        while let Some((at, timer)) = self.deadlines.pop_due(self.now) {
            if self.holds(at, timer) {
                return Some(timer);
            }
            if let Timer::Out(key) = timer {
                // Progress moved the deadline: look again then.
                if let Some(at) = self.outbound.calls.get(key).map(OutCall::deadline) {
                    if at < Instant::FAR {
                        self.deadlines.arm(at, timer);
                    }
                }
            }
        }
        self.trim_at.filter(|at| *at <= self.now).map(|_| Timer::Trim)
    }

    pub(crate) fn poll_timeout(&mut self) -> Option<Instant> {
        let trim_at = self.trim_at;
        self.poll_punctual().into_iter().chain(trim_at).min()
    }

    /// The next deadline that is about more than giving memory back
    pub(crate) fn poll_punctual(&mut self) -> Option<Instant> {
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
    pub(crate) fn sweep(&mut self) {
        let Self { deadlines, inbound, outbound, channels, opening, .. } = self;
        let live = inbound.calls.len() + outbound.calls.len();
        deadlines.sweep(live, |at, timer| may_hold(at, timer, inbound, outbound, channels, *opening));
    }

    /// Drops all deadlines of what has ended, and their memory
    fn sweep_all(&mut self) {
        let Self { deadlines, inbound, outbound, channels, opening, .. } = self;
        deadlines.trim(|at, timer| may_hold(at, timer, inbound, outbound, channels, *opening));
    }

    /// Gives buffers back once nothing has happened for a while; false when it is too early
    pub(crate) fn trim(&mut self) -> bool {
        let quiet_until = self.last_active + self.limits.idle_trim;
        if self.now < quiet_until {
            self.trim_at = Some(quiet_until);
            return false;
        }
        self.trim_at = None;
        self.inbound.calls.trim();
        self.outbound.calls.trim();
        self.batches.trim();
        self.sweep_all();
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

    /// The channel that has the ids, the session and the peer of this one: most often itself
    pub(crate) fn home(&self, channel: Key) -> Key {
        self.channels.get(channel).and_then(|c| c.extra.home()).unwrap_or(channel)
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
    pub(crate) fn send(&mut self, channel: Key, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(c) = self.channels.get_mut(channel).filter(|c| !c.closed) else { return };
        let mark = c.outbox.mark();
        write(c.outbox.tail());
        self.sent(channel, mark);
    }

    /// Accounts for a message that was appended to the outbox of a channel, and shows it to the tap
    pub(crate) fn sent(&mut self, channel: Key, mark: usize) {
        let Some(c) = self.channels.get_mut(channel) else { return };
        c.outbox.wrote(mark);
        c.extra.sent(&mut self.shared);
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
    pub(crate) fn send_error(
        &mut self,
        channel: Key,
        batch: Option<Key>,
        id: Option<&RequestId>,
        error: &RpcError,
    ) {
        if let (None, Some(c)) = (batch, self.channels.get_mut(channel)) {
            c.extra.failed(error.code);
        }
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
        table: Option<&'static Table>,
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
            if let Err(e) = Serializer::object(out, params, table) {
                c.outbox.undo(mark);
                return Err(e.into());
            }
        }
        encode::end(c.outbox.tail());
        self.sent(channel, mark);
        Ok(())
    }

    // ---- faults ----------------------------------------------------------------------------------------------

    /// Answers a message that is not in order where that is due; what is to be reported, and whose call it ended
    ///
    /// `in_flight`: its id is that of a request that is being worked on, which an answer would end (design, 9).
    pub(crate) fn reject(
        &mut self,
        channel: Key,
        batch: Option<Key>,
        rejected: Rejected,
        in_flight: bool,
    ) -> (Diagnostic, Option<Ended>) {
        let Rejected { why, id, asks, answers, notifies } = rejected;
        // Something that answers a request of ours must not leave that waiting.
        let home = self.home(channel);
        let ended = match id.as_ref().filter(|_| answers).map(|i| self.match_answer(home, i)) {
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
            Some(_) => asks && !in_flight,
            // Who sent it cannot be known: answered only where an error may go without an id (DEC-004).
            None => {
                let idless = self.channels.get(channel).is_some_and(|c| c.idless);
                a_request && !answers && !notifies && batch.is_none() && idless
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
            notifies: found.notifies,
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
        Timer::News(key) => channels.get(key).is_some_and(|c| !c.closed),
        Timer::Grace(key) => channels.get(key).is_some_and(|c| c.grace == Some(at) && !c.closed),
        Timer::Opening(which) => which == opening,
        Timer::Trim => true,
    }
}
