//! The endpoint: the part of an engine that both roles share.
//!
//! It owns the channels with their outboxes, the calls in both directions, the deadlines and the tap. It knows JSON-RPC
//! and the notifications that both roles use. It knows neither eras nor handshakes. It creates no events: it returns
//! what it finds, and the engine turns that into events.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::batch::Batch;
use super::inbound::{BatchKey, InboundCalls, InboundIndex};
use super::observing::Observing;
use super::outbound::{OutboundCall, OutboundCalls, ResponseMatch};
use super::pings::{KeepAlive, KeepAlivePing, KeepAlivePings};
use super::room;
use crate::built::{Legacy, Observability, Part};
use crate::deadlines::Deadlines;
use crate::diagnostic::Diagnostic;
use crate::draft::Draft;
use crate::driving::{self, DriverCheck};
use crate::error::{CallError, Fault, UseError};
use crate::frame::line::Oversize;
use crate::identity::{Capabilities, Implementation};
use crate::json::{Serializer, ShapeTable};
use crate::limits::{Limit, Limits};
use crate::memory::MemoryAccount;
use crate::methods;
use crate::observe::Observer;
use crate::outbox::Outbox;
use crate::raw::RawJson;
use crate::rpc::envelope::{MalformedMessage, RejectedMessage};
use crate::rpc::{self, RequestId};
use crate::slab::list::List;
use crate::slab::{Key, Slab};
use crate::sync::Arc;
use crate::tap::{ChannelId, Direction, Tap, TapRecord};
use crate::time::{Instant, TimeoutReason};
use crate::version::{Era, Version, VersionSet};

/// The purpose of a deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum EndpointTimer {
    /// An inbound call has reached its maximum age.
    CallAge(Key),
    /// Deferred notifications of an inbound call may be sent.
    Deferred(Key),
    /// An outbound call may have timed out.
    Outbound(Key),
    /// The deferred log message of a session may be sent; before changes that are due at the same time.
    SessionLog(Key),
    /// Deferred change notifications of a channel may be sent.
    Changes(Key),
    /// The grace period of a channel has ended.
    Grace(Key),
    /// A keep-alive ping of a channel may be due.
    KeepAlive(Key),
    /// A task may have expired, or something about tasks is tried again.
    Tasks,
    /// The handshake or the probe has timed out.
    Negotiation(u32),
    /// The engine has been idle, so its buffers are freed.
    Trim,
}

impl EndpointTimer {
    const fn reason(self) -> TimeoutReason {
        match self {
            Self::CallAge(_) => TimeoutReason::CallAge,
            Self::Deferred(_) | Self::SessionLog(_) => TimeoutReason::Notification,
            Self::Outbound(_) => TimeoutReason::Call,
            Self::Changes(_) => TimeoutReason::Changes,
            Self::Grace(_) => TimeoutReason::GracePeriod,
            Self::KeepAlive(_) => TimeoutReason::KeepAlive,
            Self::Tasks => TimeoutReason::Task,
            Self::Negotiation(_) => TimeoutReason::Negotiation,
            Self::Trim => TimeoutReason::Trim,
        }
    }
}

/// A stream of messages to and from one peer, with the role's own state in `role`.
#[derive(Debug)]
pub(crate) struct Channel<R> {
    pub(crate) outbox: Outbox,
    /// Inbound calls in flight, ordered by id.
    pub(super) live_calls: InboundIndex,
    /// Outbound calls that end with the channel.
    pub(super) requests: List,
    /// Number of outbound calls of the channel and its streams, if it is a root channel.
    pub(super) request_count: u32,
    pub(crate) idless_errors: IdlessErrors,
    /// Number of faulty messages in a row.
    pub(crate) consecutive_faults: u32,
    pub(crate) input_end: Option<Box<InputEnd>>,
    /// Keep-alive pings, from the end of a legacy handshake on.
    pub(super) keep_alive: Part<Legacy, KeepAlive>,
    pub(crate) closed: bool,
    pub(crate) role: R,
}

/// The form of an error for a message whose id cannot be read (DEC-004).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IdlessErrors {
    /// None is sent.
    Unsent,
    /// Its id is `null`, as JSON-RPC has it.
    Null,
    /// It has no id, as the schemas have it from 2025-11-25 on.
    Absent,
}

impl IdlessErrors {
    /// Returns the form in a session on a byte stream.
    pub(crate) fn in_session(version: Version, settings: &Settings) -> Self {
        match settings.sends_null_ids {
            _ if version >= Version::V2025_11_25 => Self::Absent,
            true => Self::Null,
            false => Self::Unsent,
        }
    }
}

/// The end of the input of a channel.
#[derive(Debug)]
pub(crate) struct InputEnd {
    pub(crate) fault: Fault,
    /// End of the grace period for what is still in flight.
    grace_deadline: Instant,
}

impl<R> Channel<R> {
    /// Returns whether inbound calls are in flight.
    pub(crate) const fn has_live_calls(&self) -> bool {
        !self.live_calls.is_empty()
    }

    /// Returns the number of outbound calls of a root channel and its streams that end with their channel.
    pub(crate) const fn request_count(&self) -> usize {
        self.request_count as usize
    }
}

/// An outbound call that has ended, and its outcome.
pub(crate) type EndedCall = (Key, Result<RawJson, CallError>);

#[derive(Debug)]
pub(crate) struct Endpoint<R: Role> {
    pub(crate) limits: Arc<Limits>,
    /// The account of `max_memory`, which all engines of a server share.
    pub(crate) memory: MemoryAccount,
    pub(super) draft: Draft,
    pub(crate) channels: Slab<Channel<R>>,
    pub(crate) inbound: InboundCalls,
    pub(crate) outbound: OutboundCalls,
    pub(super) batches: Slab<Batch>,
    /// Number of answers that wait for memory: errors of inbound calls, and complete batches.
    pub(crate) owed: usize,
    pub(crate) deadlines: Deadlines<EndpointTimer>,
    pub(super) keep_alive: Part<Legacy, KeepAlivePings>,
    pub(crate) tap: Part<Observability, Tap>,
    pub(crate) observing: Part<Observability, Observing>,
    pub(crate) now: Instant,
    pub(crate) check: DriverCheck,
    last_activity: Instant,
    /// Deadline for freeing idle buffers; separate from `deadlines`, which have to be punctual.
    trim_at: Option<Instant>,
    /// The generation for which [`EndpointTimer::Negotiation`] is valid.
    pub(crate) negotiation_generation: u32,
    /// State of the role that all channels share.
    pub(crate) shared: R::Shared,
}

impl<R: Role> Endpoint<R> {
    pub(crate) fn new(settings: &Settings) -> Self {
        let keep_alive = Part::from_setting(settings.keep_alive, |settings| KeepAlivePings {
            settings,
            input_held_at: None,
        });
        let limits = Arc::clone(&settings.limits);
        let redacted = || settings.redacted_members.clone();
        let records = (limits.tap_records > 0).then_some(&*limits);
        let tap = Part::from_setting(records, |limits| Tap::new(limits, redacted()));
        let observing = Part::from_setting(settings.observer.as_ref(), Observing::new);
        Self {
            limits,
            memory: settings.memory.for_engine(),
            draft: settings.draft,
            channels: Slab::new(),
            inbound: InboundCalls::new(),
            outbound: OutboundCalls::new(),
            batches: Slab::new(),
            owed: 0,
            deadlines: Deadlines::new(),
            keep_alive,
            tap,
            observing,
            now: Instant::ZERO,
            check: DriverCheck::default(),
            last_activity: Instant::ZERO,
            trim_at: None,
            negotiation_generation: 0,
            shared: R::Shared::default(),
        }
    }

    // ---- time -------------------------------------------------------------------------------------------------------

    /// Advances the clock. An older `now` counts as the last one.
    pub(crate) fn tick(&mut self, now: Instant) {
        driving::check_time(self.now, now);
        self.now = self.now.max(now);
    }

    /// Records that a message was received, which postpones the trimming of buffers.
    pub(crate) fn record_activity(&mut self) {
        self.check.progressed();
        self.last_activity = self.now;
        // An armed time is not moved by each message: `trim` postpones it when it has come.
        if self.trim_at.is_none() {
            self.trim_at = Some(self.now + self.limits.idle_trim_delay);
        }
    }

    /// Returns whether the buffers of the idle engine have been freed.
    pub(crate) const fn is_idle(&self) -> bool {
        self.trim_at.is_none()
    }

    /// Returns the next deadline that has passed and is still valid.
    pub(crate) fn pop_due(&mut self) -> Option<EndpointTimer> {
        while let Some((at, timer)) = self.deadlines.pop_due(self.now) {
            if self.is_current(at, timer) {
                return Some(timer);
            }
            if let EndpointTimer::Outbound(key) = timer {
                // Progress has moved the deadline of the call.
                if let Some(at) = self.outbound.calls.get(key).map(OutboundCall::deadline) {
                    // Without a deadline at present: what gives the call one arms it.
                    if at < Instant::FAR_FUTURE {
                        self.deadlines.arm(at, timer);
                    }
                }
            }
        }
        // Last, so that buffers are freed only when no other work is due.
        self.trim_at.filter(|at| *at <= self.now).map(|_| EndpointTimer::Trim)
    }

    pub(crate) fn poll_timeout(&mut self) -> Option<Instant> {
        let trim_at = self.trim_at;
        self.poll_timeout_without_trim().into_iter().chain(trim_at).min()
    }

    /// Returns the next deadline, without that for freeing buffers.
    pub(crate) fn poll_timeout_without_trim(&mut self) -> Option<Instant> {
        let Self { deadlines, inbound, outbound, channels, negotiation_generation: generation, .. } = self;
        deadlines.next(|at, timer| may_be_current(at, timer, inbound, outbound, channels, *generation))
    }

    fn is_current(&self, at: Instant, timer: EndpointTimer) -> bool {
        may_be_current(at, timer, &self.inbound, &self.outbound, &self.channels, self.negotiation_generation)
            && match timer {
                EndpointTimer::Outbound(key) => {
                    self.outbound.calls.get(key).is_some_and(|c| c.deadline() <= at)
                }
                _ => true,
            }
    }

    /// Removes deadlines of ended calls and channels when they have become many.
    pub(crate) fn sweep(&mut self) {
        let Self { deadlines, inbound, outbound, channels, negotiation_generation: generation, .. } = self;
        let pings = if self.keep_alive.is_some() { channels.len() } else { 0 };
        let live = inbound.calls.len() + outbound.calls.len() + pings;
        let may_hold = |at, timer| may_be_current(at, timer, inbound, outbound, channels, *generation);
        // `pop_due` arms the deadline of an outbound call anew if it has moved.
        deadlines.sweep_moving(live, may_hold, |timer| matches!(timer, EndpointTimer::Outbound(_)));
    }

    /// Removes all deadlines of ended calls and channels, and frees their memory.
    fn sweep_all(&mut self) {
        let Self { deadlines, inbound, outbound, channels, negotiation_generation: generation, .. } = self;
        deadlines.trim(|at, timer| may_be_current(at, timer, inbound, outbound, channels, *generation));
    }

    /// Frees buffers if the engine has been idle for long enough; returns false if it has not.
    pub(crate) fn trim(&mut self) -> bool {
        let quiet_until = self.last_activity + self.limits.idle_trim_delay;
        if self.now < quiet_until {
            // Moved here, and removed below: left as it is, it would make `pop_due` return `Trim` without end.
            self.trim_at = Some(quiet_until);
            return false;
        }
        self.trim_at = None;
        self.inbound.trim();
        self.outbound.calls.trim();
        self.batches.trim();
        self.sweep_all();
        for key in self.open_channels() {
            if let Some(c) = self.channels.get_mut(key) {
                c.outbox.trim(self.limits.error_room());
            }
        }
        true
    }

    // ---- channels ---------------------------------------------------------------------------------------------------

    pub(crate) fn open_channel(&mut self, idless_errors: IdlessErrors, role: R) -> Key {
        let mut outbox = Outbox::default();
        outbox.charge_to(&self.memory);
        // While the outbox is empty, an error response has room in it.
        outbox.reserve(self.limits.error_room());
        self.channels.insert(Channel {
            outbox,
            live_calls: InboundIndex::new(),
            requests: List::new(),
            request_count: 0,
            idless_errors,
            consecutive_faults: 0,
            input_end: None,
            keep_alive: Part::NONE,
            closed: false,
            role,
        })
    }

    /// Returns the channel that owns request ids, session and peer: the parent of this one, or itself.
    pub(crate) fn root_channel(&self, channel: Key) -> Key {
        self.channels.get(channel).and_then(|c| c.role.parent()).unwrap_or(channel)
    }

    pub(crate) fn open_channels(&self) -> Vec<Key> {
        self.channels.iter().map(|(key, _)| key).collect()
    }

    /// Records the end of the input and starts the grace period. Returns false if the input had ended before.
    pub(crate) fn end_input(&mut self, channel: Key, fault: Fault, grace: Duration) -> bool {
        let grace_deadline = self.now + grace;
        let Some(c) = self.channels.get_mut(channel) else { return false };
        // The first end counts. A second one must not extend the grace period that runs.
        if c.input_end.is_some() {
            return false;
        }
        c.input_end = Some(Box::new(InputEnd { fault, grace_deadline }));
        self.deadlines.arm(grace_deadline, EndpointTimer::Grace(channel));
        true
    }

    /// Returns the keys of the outbound calls of a channel.
    pub(crate) fn outbound_keys(&self, channel: Key) -> Vec<Key> {
        self.outbound.calls.iter().filter(|(_, c)| c.channel == channel).map(|(key, _)| key).collect()
    }

    pub(crate) fn release_channel(&mut self, channel: Key) {
        if self.channels.get(channel).is_some_and(|c| c.closed) {
            self.channels.remove(channel);
        }
    }

    // ---- sending ----------------------------------------------------------------------------------------------------

    /// Checks that the outbox of a channel takes a message that can wait or be dropped: it is below its limit, and there is
    /// memory for the message; `extra` is as for [`send`](Self::send).
    ///
    /// # Errors
    ///
    /// [`UseError::Full`].
    #[inline]
    pub(crate) fn check_outbox_room(&mut self, channel: Key, extra: usize) -> Result<(), UseError> {
        if self.channels.get(channel).is_none_or(|c| c.outbox.len() >= self.limits.outbox_high_water) {
            return Err(UseError::Full(Limit::OutboxHighWater));
        }
        let has_memory = self.memory.takes_new(0) && self.make_room(channel, extra);
        if has_memory { Ok(()) } else { Err(UseError::Full(Limit::Memory)) }
    }

    /// Makes room for a message of the engine, which has at most `extra` bytes beyond
    /// [`Limits::message_room`]. Returns whether there is.
    #[inline]
    pub(crate) fn make_room(&mut self, channel: Key, extra: usize) -> bool {
        self.limits.memory_reserve == 0
            || room::reserve(self, channel, self.limits.message_room().saturating_add(extra))
    }

    /// Appends a message to the outbox of a channel; `extra` is the number of bytes by which it may exceed
    /// [`Limits::message_room`].
    ///
    /// Returns false, and sends nothing, if there is no memory for it.
    pub(crate) fn send(&mut self, channel: Key, extra: usize, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        if !self.make_room(channel, extra) {
            return false;
        }
        self.append(channel, write);
        true
    }

    /// Appends a message for which there is room.
    pub(super) fn append(&mut self, channel: Key, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(c) = self.channels.get_mut(channel).filter(|c| !c.closed) else { return };
        let mark = c.outbox.mark();
        write(c.outbox.tail());
        self.commit_message(channel, mark);
    }

    /// Accounts for a message that was appended to the outbox of a channel, and copies it to the tap.
    pub(crate) fn commit_message(&mut self, channel: Key, mark: usize) {
        self.check.progressed();
        let Some(c) = self.channels.get_mut(channel) else { return };
        c.outbox.commit(mark);
        c.role.message_sent(&mut self.shared);
        let message = c.outbox.tail().get(mark..).unwrap_or_default();
        record_sent(&mut self.tap, &mut self.observing, self.now, channel, message);
    }

    /// Records input from the peer of a channel or stream: a message, or a part of one.
    #[inline]
    pub(crate) fn record_input(&mut self, channel: Key) {
        self.check.progressed();
        if self.keep_alive.is_some() {
            self.record_sign_of_life(channel);
        }
    }

    pub(crate) fn record_received(&mut self, channel: Key, message: &[u8]) {
        self.record_input(channel);
        if let Some(tap) = self.tap.as_mut() {
            tap.record(self.now, Direction::In, ChannelId(channel), message);
        }
        if let Some(observing) = self.observing.as_mut() {
            observing.record_received(message);
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

    /// Sends a custom notification of the application.
    ///
    /// # Errors
    ///
    /// [`UseError::ReservedMethod`], [`UseError::Stale`], [`UseError::Closed`], [`UseError::Full`] if the outbox is
    /// full or there is no memory for its growth, or an encoding error.
    pub(crate) fn notify<T: serde::Serialize + ?Sized>(
        &mut self,
        channel: Key,
        method: &str,
        params: Option<&T>,
        table: Option<&'static ShapeTable>,
    ) -> Result<(), UseError> {
        if methods::is_spec_notification(method) || methods::request_rule(method).is_some() {
            return Err(UseError::ReservedMethod(method.into()));
        }
        if self.channels.get(channel).ok_or(UseError::Stale)?.closed {
            return Err(UseError::Closed);
        }
        self.check_outbox_room(channel, 0)?;
        let c = self.channels.get_mut(channel).ok_or(UseError::Stale)?;
        let mark = c.outbox.mark();
        let out = c.outbox.tail();
        rpc::notification_head(out, method);
        if let Some(params) = params {
            out.extend_from_slice(b",\"params\":");
            if let Err(e) = Serializer::object(out, params, table) {
                c.outbox.rollback(mark);
                return Err(e.into());
            }
        }
        rpc::end(c.outbox.tail());
        self.commit_message(channel, mark);
        Ok(())
    }

    // ---- faults -----------------------------------------------------------------------------------------------------

    /// Answers a faulty message where that is required. Returns the diagnostic, and the outbound call that it ended.
    ///
    /// `in_flight`: the id belongs to an inbound call, which an answer would end at the peer (DESIGN-09).
    pub(crate) fn reject(
        &mut self,
        channel: Key,
        batch: Option<BatchKey>,
        rejected: RejectedMessage,
        in_flight: bool,
    ) -> (Diagnostic, Option<EndedCall>) {
        let RejectedMessage { reason, id, has_method, is_response, is_notification, batched } = rejected;
        // A faulty response must not leave its outbound call waiting.
        let root = self.root_channel(channel);
        let ended = match id.as_ref().filter(|_| is_response).map(|i| self.match_response(root, i)) {
            Some(ResponseMatch::Live(key)) => {
                let outcome = match reason {
                    MalformedMessage::TooLong { limit } => CallError::TooLarge { limit },
                    reason => CallError::Malformed(reason),
                };
                Some((key, Err(outcome)))
            }
            _ => None,
        };
        let may_be_request = !matches!(
            reason,
            MalformedMessage::Contradictory | MalformedMessage::Result | MalformedMessage::Error
        );
        let idless_errors = self.channels.get(channel).map_or(IdlessErrors::Unsent, |c| c.idless_errors);
        let answered = match &id {
            None if !batched.is_empty() => true,
            // In a batch also without a method (BATCH-008). An id of ours may be a malformed response instead.
            Some(id) => {
                // The id alone does not say whose it is: both sides number their requests, often from 1 on.
                let is_ours = || matches!(self.match_response(root, id), ResponseMatch::Live(_));
                (has_method || (batch.is_some() && !is_response && !is_ours())) && !in_flight
            }
            // The id is unknown, so an answer is possible only where errors without an id are allowed (DEC-004).
            None => {
                // Of a batch whose other members are answered, the schemas have no form for it but JSON-RPC has.
                let is_allowed = match idless_errors {
                    IdlessErrors::Unsent => false,
                    IdlessErrors::Null => true,
                    IdlessErrors::Absent => batch.is_none(),
                };
                may_be_request && !is_response && !is_notification && is_allowed
            }
        };
        if answered {
            let error = reason.to_error();
            let null = (idless_errors == IdlessErrors::Null).then(RequestId::null);
            if batched.is_empty() {
                self.send_error(channel, batch, id.as_ref().or(null.as_ref()), &error);
            }
            for id in &batched {
                self.send_error(channel, batch, Some(id), &error);
            }
        }
        (Diagnostic::Malformed { reason, id, answered }, ended)
    }

    /// Returns the rejection of a line that exceeded the frame limit (STDIO-012), or for which there was no memory.
    pub(crate) fn oversize_rejection(&self, oversize: Oversize) -> RejectedMessage {
        let recovered = oversize.recovered;
        let reason = if oversize.is_out_of_memory {
            MalformedMessage::OutOfMemory
        } else {
            MalformedMessage::TooLong { limit: self.limits.effective_max_frame() }
        };
        RejectedMessage {
            id: recovered.id.and_then(|text| RequestId::from_json(&text, self.limits.max_id)),
            has_method: recovered.has_method,
            is_response: recovered.is_response && !recovered.has_method,
            is_notification: recovered.is_notification,
            ..RejectedMessage::unreadable(reason)
        }
    }

    /// Counts a faulty message. Returns the fault if there were too many in a row.
    pub(crate) fn count_fault(&mut self, channel: Key) -> Option<Fault> {
        let c = self.channels.get_mut(channel)?;
        c.consecutive_faults = c.consecutive_faults.saturating_add(1);
        let count = c.consecutive_faults;
        self.limits
            .max_faulty_messages
            .filter(|max| count >= *max)
            .map(|_| Fault::TooManyFaultyMessages { count })
    }
}

/// Appends a complete message without a copy. Returns false, and sends nothing, if there is no memory for its entry.
pub(super) fn send_text<R: Role>(endpoint: &mut Endpoint<R>, channel: Key, text: &mut Vec<u8>) -> bool {
    // A closed channel sends nothing. The text is dropped, which is no lack of memory.
    let Some(c) = endpoint.channels.get_mut(channel).filter(|c| !c.closed) else { return true };
    if !c.outbox.push_text(text) {
        return false;
    }
    endpoint.check.progressed();
    c.role.message_sent(&mut endpoint.shared);
    let message = c.outbox.segments().last().unwrap_or_default();
    record_sent(&mut endpoint.tap, &mut endpoint.observing, endpoint.now, channel, message);
    true
}

/// Returns whether the next message of a channel can be taken: whatever it is, an error response to it has room.
///
/// Otherwise it waits until output is written. An empty outbox always has that room.
#[inline]
pub(crate) fn can_answer<R: Role>(endpoint: &mut Endpoint<R>, channel: Key) -> bool {
    endpoint.limits.memory_reserve == 0 || room::make_room_for_answer(endpoint, channel)
}

/// Sends one answer that there was no memory for before, if there is now. Returns its channel.
#[inline]
pub(crate) fn send_owed<R: Role>(endpoint: &mut Endpoint<R>) -> Option<Key> {
    if endpoint.owed == 0 { None } else { room::send_next_owed(endpoint) }
}

/// Copies a message that was sent to the tap, and its length to the observer.
fn record_sent(
    tap: &mut Part<Observability, Tap>,
    observing: &mut Part<Observability, Observing>,
    now: Instant,
    channel: Key,
    message: &[u8],
) {
    if let Some(tap) = tap.as_mut().filter(|tap| !tap.has_exchanges) {
        tap.record(now, Direction::Out, ChannelId(channel), message);
    }
    if let Some(observing) = observing.as_mut() {
        observing.record_sent(message);
    }
}

/// The kind of content of a frame.
pub(crate) enum FrameContent {
    Blank,
    Array,
    Message,
}

/// Strips a byte order mark (STDIO-004) and distinguishes blank lines (STDIO-011), arrays and messages.
pub(crate) fn classify_frame(frame: Bytes) -> (FrameContent, Bytes) {
    // A peer that writes text files with a byte order mark does so at the beginning of a line; JSON allows none.
    let frame = match frame.strip_prefix(b"\xef\xbb\xbf") {
        Some(rest) => frame.slice_ref(rest),
        None => frame,
    };
    let content = match frame.iter().find(|b| !b.is_ascii_whitespace()) {
        None => FrameContent::Blank,
        Some(b'[') => FrameContent::Array,
        Some(_) => FrameContent::Message,
    };
    (content, frame)
}

/// Returns the next deadline and its reason.
pub(crate) fn next_deadline<R: Role>(endpoint: &mut Endpoint<R>) -> Option<(Instant, TimeoutReason)> {
    // The first call drops what has lapsed, so the top of the heap is a deadline that may hold.
    let next = endpoint.poll_timeout_without_trim().and_then(|_| endpoint.deadlines.peek());
    let trim = endpoint.trim_at.map(|at| (at, TimeoutReason::Trim));
    TimeoutReason::earliest([next.map(|(at, timer)| (at, timer.reason())), trim])
}

/// Checks a call of `handle_timeout`; `has_output` if there is something to poll.
pub(crate) fn check_timeout<R: Role>(endpoint: &mut Endpoint<R>, now: Instant, has_output: bool) {
    endpoint.tick(now);
    let next = next_deadline(endpoint);
    endpoint.check.handle_timeout(endpoint.now, next, has_output);
    endpoint.check.call_in_vain(endpoint.now, next);
}

/// Returns whether a deadline may still be valid. That of an outbound call may have moved.
fn may_be_current<R>(
    at: Instant,
    timer: EndpointTimer,
    inbound: &InboundCalls,
    outbound: &OutboundCalls,
    channels: &Slab<Channel<R>>,
    generation: u32,
) -> bool {
    match timer {
        EndpointTimer::CallAge(key) => inbound.calls.get(key).is_some_and(|c| c.expires_at == at),
        EndpointTimer::Deferred(key) => {
            inbound.calls.get(key).and_then(|c| c.throttle.as_ref()).is_some_and(|p| p.due_at == Some(at))
        }
        EndpointTimer::Outbound(key) => outbound.calls.get(key).is_some(),
        EndpointTimer::Changes(key) | EndpointTimer::SessionLog(key) => {
            channels.get(key).is_some_and(|c| !c.closed)
        }
        EndpointTimer::Grace(key) => {
            let is_due = |c: &Channel<R>| c.input_end.as_ref().is_some_and(|end| end.grace_deadline == at);
            channels.get(key).is_some_and(|c| is_due(c) && !c.closed)
        }
        EndpointTimer::KeepAlive(key) => channels.get(key).is_some_and(|c| {
            let is_due = c.keep_alive.as_ref().is_some_and(|state| state.is_due_at(at));
            // After the end of the input no answer to a ping can arrive, so its absence would prove nothing.
            is_due && c.input_end.is_none() && !c.closed
        }),
        EndpointTimer::Negotiation(which) => which == generation,
        EndpointTimer::Tasks | EndpointTimer::Trim => true,
    }
}

// The interface between the endpoint and the state that an engine keeps per channel.

/// The state of an engine per channel.
///
/// On a server, a channel may be one stream of a session. Its messages are sent apart, and everything else, request
/// ids above all, belongs to the *root channel*: that of the session. Channels of a client are always roots.
pub(crate) trait Role {
    /// State that all channels share.
    type Shared: Default + core::fmt::Debug;

    /// Whether the role sends requests. A server does in legacy revisions alone.
    const SENDS_REQUESTS: bool = true;

    /// Returns the channel that owns request ids, session and peer, or `None` if that is this one.
    fn parent(&self) -> Option<Key> {
        None
    }

    /// Returns whether messages outside of calls reach the peer at present.
    fn is_reachable(&self) -> bool {
        true
    }

    /// Records that a request of the channel has to be answered.
    fn request_started(&mut self) {}

    /// Records that a request was answered or dropped.
    fn request_finished(&mut self, _shared: &mut Self::Shared) {}

    /// Records that an error response was sent.
    fn error_sent(&mut self, _code: i64) {}

    /// Records that a message was appended to the outbox.
    fn message_sent(&mut self, _shared: &mut Self::Shared) {}
}

impl Role for () {
    type Shared = ();
}

// Settings that the configurations of both roles have.

/// The part of a configuration that client and server share.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    info: Arc<Implementation>,
    /// Writes `info`. A program that sets no more than name and version has no serializer for the rest.
    write_info: fn(&Implementation, &mut Vec<u8>, Version),
    pub(crate) capabilities: Arc<Capabilities>,
    pub(crate) limits: Arc<Limits>,
    /// The account of `max_memory`, which all engines of a server share; that of a client counts nothing.
    pub(crate) memory: MemoryAccount,
    pub(crate) keep_alive: Option<KeepAlivePing>,
    /// Names of members whose values the tap hides.
    pub(crate) redacted_members: Vec<String>,
    pub(crate) accepts_any_custom_method: bool,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) draft: Draft,
    pub(crate) sends_null_ids: bool,
    versions: VersionSet,
}

impl Settings {
    /// All revisions of both eras, no capabilities.
    pub(crate) fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            info: Arc::new(Implementation::new(name, version)),
            write_info: |info, out, _| info.write_name_and_version(out),
            capabilities: Arc::default(),
            limits: Arc::new(Limits::default()),
            memory: MemoryAccount::default(),
            keep_alive: None,
            redacted_members: Vec::new(),
            accepts_any_custom_method: false,
            observer: None,
            draft: Draft::default(),
            sends_null_ids: false,
            versions: VersionSet::ALL,
        }
    }

    /// Sets the identity, without icons that must not be sent.
    pub(crate) fn set_info(&mut self, info: Implementation) {
        self.info = Arc::new(info.without_forbidden_icons());
        self.write_info = Implementation::write;
    }

    /// Appends the identity in the form of a revision.
    pub(crate) fn write_info(&self, out: &mut Vec<u8>, version: Version) {
        (self.write_info)(&self.info, out, version);
    }

    /// Restricts the revisions. An empty set means all.
    pub(crate) const fn set_versions(&mut self, versions: VersionSet) {
        self.versions = if versions.is_empty() { VersionSet::ALL } else { versions };
    }

    pub(crate) const fn versions(&self) -> VersionSet {
        self.versions
    }

    pub(crate) const fn modern_versions(&self) -> VersionSet {
        self.versions.era(Era::Modern)
    }

    pub(crate) const fn legacy_versions(&self) -> VersionSet {
        self.versions.era(Era::Legacy)
    }

    /// Returns whether a method is accepted because all custom methods are.
    pub(crate) fn accepts_as_custom_method(&self, method: &str) -> bool {
        self.accepts_any_custom_method && methods::request_rule(method).is_none()
    }
}

#[cfg(test)]
pub(super) mod tests;
