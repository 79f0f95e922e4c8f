//! The table of outbound calls.
//!
//! The request id on the wire encodes slot and generation of the slab. So the call of a response is found by its index,
//! and no id is used twice (BASE-005, BASE-006). The same number is the progress token (PROG-004).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::outbound_requests::VersionedParams;
use crate::error::CallError;
use crate::json::{self, append_one_line, object_members, write_int, write_str};
use crate::limits::Limits;
use crate::meta::{BAGGAGE, TRACE_MEMBERS, TRACEPARENT};
use crate::observe::{OpenRequest, OpenRequests, TraceContext};
use crate::raw::RawJson;
use crate::rpc::RequestId;
use crate::slab::list::{List, ListLinks, ListNode};
use crate::slab::{Key, Slab};
use crate::time::Instant;

crate::slab::key! {
    /// The key of an outbound call.
    ///
    /// The call ends exactly once, with an event that carries its outcome. The key is stale from then on.
    CallKey
}

/// Options of an outbound call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallOptions {
    /// Longest time without an answer or progress; defaults to [`Limits::call_timeout`] (TIME-004).
    pub timeout: Option<Duration>,
    /// Longest total time; defaults to [`Limits::call_total_timeout`] (TIME-006).
    ///
    /// A value that is set here is never extended, not even while the peer waits for input of a user.
    pub total_timeout: Option<Duration>,
    /// Whether the peer is asked to report progress (PROG-001). The default is no.
    pub wants_progress: bool,
    /// Whether progress restarts `timeout` (TIME-005). The default is yes.
    pub progress_resets_timeout: bool,
    /// Further members of `_meta`, as a JSON object.
    ///
    /// Keys of the protocol are refused. Trace context (`traceparent`, `tracestate`, `baggage`) belongs here.
    pub meta: Option<RawJson>,
    /// Whether the call may be executed twice. The default is no.
    ///
    /// If so, a call over HTTP whose answer was lost is sent again under a new id (HTTP-044), as often as `max_attempts` of
    /// `http::client::ReconnectPolicy` says. For a [long-lived](Self::long_lived) call these attempts are counted anew after a
    /// stream that has brought a notification, or was open for `max_delay` of that policy.
    pub idempotent: bool,
    /// Whether the call stays open for as long as the server likes, and takes the notifications that belong to it. The
    /// default is no.
    ///
    /// A notification belongs to the call whose request id is the subscription id in its `_meta`, or, without one, to the call
    /// in whose exchange it arrives. It is reported as [`CallNotification`](crate::client::Event::CallNotification). With the
    /// first one, `timeout` and the default of `total_timeout` end; only `timeout` applies again to a request that is sent again. Over
    /// HTTP the call takes the place of a subscription, not that of a request.
    pub long_lived: bool,
    /// Whether the call is meant for the session of now. The default is no.
    ///
    /// If an HTTP server has lost the session, such a call is not sent again in the next one: it ends with
    /// [`HttpError::SessionLost`](crate::HttpError::SessionLost). What the caller has checked before need not hold there.
    pub same_session: bool,
}

impl Default for CallOptions {
    #[inline]
    fn default() -> Self {
        Self {
            timeout: None,
            total_timeout: None,
            wants_progress: false,
            progress_resets_timeout: true,
            meta: None,
            idempotent: false,
            long_lived: false,
            same_session: false,
        }
    }
}

impl CallOptions {
    /// Creates the default options.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the longest time without an answer or progress.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the longest total time.
    #[must_use]
    pub const fn total_timeout(mut self, total: Duration) -> Self {
        self.total_timeout = Some(total);
        self
    }

    /// Asks for progress.
    #[must_use]
    pub const fn with_progress(mut self) -> Self {
        self.wants_progress = true;
        self
    }

    /// Declares that the call may be executed twice.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Keeps the call open for the notifications that belong to it ([`long_lived`](Self::long_lived)).
    #[must_use]
    pub const fn long_lived(mut self) -> Self {
        self.long_lived = true;
        self
    }

    /// Lets the call end with its session ([`same_session`](Self::same_session)).
    #[must_use]
    pub const fn same_session(mut self) -> Self {
        self.same_session = true;
        self
    }

    /// Sets further members of `_meta`.
    #[must_use]
    pub fn with_meta(mut self, meta: RawJson) -> Self {
        self.meta = Some(meta);
        self
    }

    /// Adds trace context to [`meta`](Self::meta), unless that has a `traceparent` (META-021). Baggage that it has is replaced only
    /// by other baggage.
    ///
    /// An [observer](crate::observe::Observer) of the engine makes it the parent of what it sends.
    #[must_use]
    pub fn with_trace_context(mut self, context: &TraceContext) -> Self {
        let mut text = Vec::from(*b"{");
        let mut is_traced = false;
        if let Some(meta) = &self.meta {
            object_members(meta.as_bytes(), |name, value| {
                is_traced |= name == TRACEPARENT;
                let is_kept = name == BAGGAGE && context.baggage.is_none();
                if is_kept || !TRACE_MEMBERS.contains(&name) {
                    append_member(&mut text, name, |out| append_one_line(out, value));
                }
            });
        }
        if !is_traced && self.meta.as_ref().is_none_or(RawJson::is_object) {
            append_trace_context(&mut text, context);
            text.push(b'}');
            self.meta = Some(RawJson::trusted(text.into()));
        }
        self
    }
}

/// Appends the members of a trace context to an open object.
pub(super) fn append_trace_context(out: &mut Vec<u8>, context: &TraceContext) {
    let values = [&context.traceparent, &context.tracestate, &context.baggage];
    for (name, value) in TRACE_MEMBERS.into_iter().zip(values) {
        if let Some(value) = value {
            append_member(out, name, |out| write_str(out, value));
        }
    }
}

/// Appends a member to an open object.
pub(super) fn append_member(out: &mut Vec<u8>, name: &[u8], value: impl FnOnce(&mut Vec<u8>)) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    write_str(out, core::str::from_utf8(name).unwrap_or_default());
    out.push(b':');
    value(out);
}

/// The purpose of an outbound call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallPurpose {
    /// A call of the application.
    Application,
    /// `server/discover`, to find the era.
    Probe,
    /// `initialize`.
    Handshake,
    /// A repeat of this call of the application, with input responses or after a loss (MRTR-016).
    Retry(Key),
    /// `subscriptions/listen` of this subscription.
    Listen(Key),
    /// `resources/subscribe` for this resource of the client.
    Subscribe(Key),
    /// A request of the engine itself.
    Internal,
    /// A keep-alive ping.
    KeepAlive,
    /// An input request of this inbound call.
    Input(Key),
    /// A request of the engine about the task that this call follows. The call may have ended.
    Task(Key),
    /// A call of the application that has ended, although its answer may still create a task (2025-11-25).
    Abandoned,
    /// A request of the engine about the task that this input request follows. The input request may have ended.
    InputTask(Key),
    /// A question of a task, sent on this stream.
    TaskInput { task: Key, stream: Key },
}

impl CallPurpose {
    /// Returns whether the request is about the connection itself, which no observer is told of.
    pub(super) const fn is_of_connection(self) -> bool {
        matches!(self, Self::Probe | Self::Handshake | Self::KeepAlive)
    }
}

/// The part that tasks have in a call of the application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallTask {
    /// The result is no task.
    None,
    /// If the result is a task, the call follows it.
    Follow,
    /// If the result is a task, the application gets it.
    Report,
    /// It follows a task, and its progress token is still valid (2025-11-25; TASK-033).
    Running,
}

/// How far a call has come.
#[derive(Debug)]
pub(crate) enum CallStage {
    /// It waits until the connection is ready, as what it takes to send it.
    Queued(Box<QueuedCall>),
    /// Its request was sent and has no response yet.
    Sent,
    /// It was answered and is continued by a retry or a task; no other response can come for its id.
    Superseded,
}

/// How progress of a call is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProgressUse {
    /// It was not asked for.
    None,
    /// The application is told of it.
    Report,
    /// The application is told of it, and it extends the timeout.
    ExtendTimeout,
}

#[derive(Debug)]
pub(crate) struct OutboundCall {
    pub(crate) channel: Key,
    pub(crate) purpose: CallPurpose,
    pub(crate) stage: CallStage,
    /// Data to send the call again ([`split_retained`](super::outbound_requests::split_retained)); empty without.
    pub(crate) retained: Box<[u8]>,
    /// `total_deadline` was set for this call, so it is never extended.
    pub(crate) has_explicit_total: bool,
    pub(crate) progress: ProgressUse,
    pub(crate) idempotent: bool,
    /// Notifications that belong to it are reported with it ([`CallOptions::long_lived`]).
    pub(crate) is_long_lived: bool,
    /// It is not sent again in another session ([`CallOptions::same_session`]).
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "HTTP alone has sessions that end"))]
    pub(crate) same_session: bool,
    pub(crate) task: CallTask,
    pub(crate) last_progress: f64,
    pub(crate) timeout: Duration,
    /// Ends the call unless progress arrives before.
    pub(crate) idle_deadline: Instant,
    /// Ends the call in any case.
    pub(crate) total_deadline: Instant,
    /// Slots of the neighbours in a list: that of the channel, or of the queue. The largest number stands for none: no call
    /// has that slot ([`Limits::effective_max_pending_calls`]).
    neighbours: (u16, u16),
}

impl ListNode for OutboundCall {
    fn list_links(&self) -> ListLinks {
        let slot = |slot| if slot == u16::MAX { ListLinks::NONE.next } else { u32::from(slot) };
        ListLinks { previous: slot(self.neighbours.0), next: slot(self.neighbours.1) }
    }

    fn set_list_links(&mut self, links: ListLinks) {
        let slot = |slot| u16::try_from(slot).unwrap_or(u16::MAX);
        self.neighbours = (slot(links.previous), slot(links.next));
    }
}

/// A call that is queued until the connection is ready.
#[derive(Debug)]
pub(crate) struct QueuedCall {
    pub(crate) method: Cow<'static, str>,
    pub(crate) params: VersionedParams,
    pub(crate) meta: Option<RawJson>,
    /// Request to run it as a task, if the server does so.
    pub(crate) task: Option<TaskRequest>,
    /// Longest total time, from sending on.
    pub(crate) total_timeout: Duration,
}

impl QueuedCall {
    /// Returns the bytes that are charged for keeping it.
    pub(crate) fn cost(&self) -> usize {
        self.method.len() + self.params.cost() + self.meta.as_ref().map_or(0, |m| m.as_bytes().len())
    }
}

impl OutboundCall {
    pub(crate) fn new(
        now: Instant,
        channel: Key,
        purpose: CallPurpose,
        options: &CallOptions,
        limits: &Limits,
    ) -> Self {
        let timeout = options.timeout.unwrap_or(limits.call_timeout);
        let total = options.total_timeout.unwrap_or(limits.call_total_timeout);
        Self {
            channel,
            purpose,
            stage: CallStage::Sent,
            retained: Box::default(),
            has_explicit_total: options.total_timeout.is_some(),
            progress: match (options.wants_progress, options.progress_resets_timeout) {
                (false, _) => ProgressUse::None,
                (true, false) => ProgressUse::Report,
                (true, true) => ProgressUse::ExtendTimeout,
            },
            idempotent: options.idempotent,
            is_long_lived: options.long_lived,
            same_session: options.same_session,
            task: CallTask::None,
            last_progress: f64::NEG_INFINITY,
            timeout,
            idle_deadline: now + timeout,
            total_deadline: now + total,
            neighbours: (u16::MAX, u16::MAX),
        }
    }

    /// Returns whether the call waits to be sent.
    pub(crate) const fn is_queued(&self) -> bool {
        matches!(self.stage, CallStage::Queued(_))
    }

    /// Returns whether the call was answered and goes on.
    pub(crate) const fn is_superseded(&self) -> bool {
        matches!(self.stage, CallStage::Superseded)
    }

    pub(crate) fn wants_progress(&self) -> bool {
        self.progress != ProgressUse::None
    }

    /// Takes what it takes to send a queued call, which counts as sent from now on.
    pub(crate) fn take_queued(&mut self) -> Option<QueuedCall> {
        // Checked first: the exchange below would turn a superseded call into one that waits for a response.
        if !self.is_queued() {
            return None;
        }
        match core::mem::replace(&mut self.stage, CallStage::Sent) {
            CallStage::Queued(queued) => Some(*queued),
            _ => None,
        }
    }

    /// Returns the next deadline of the call.
    pub(crate) fn deadline(&self) -> Instant {
        self.idle_deadline.min(self.total_deadline)
    }

    /// Returns when it was sent, or when the last progress that extended its time arrived.
    pub(crate) fn last_active_at(&self) -> Instant {
        self.idle_deadline - self.timeout
    }

    /// Returns the error if a deadline has passed.
    pub(crate) fn timeout_error(&self, now: Instant) -> Option<CallError> {
        if now >= self.total_deadline {
            Some(CallError::TotalTimedOut)
        } else if now >= self.idle_deadline {
            Some(CallError::TimedOut)
        } else {
            None
        }
    }

    /// Restarts both deadlines; for a call that was queued until the connection was ready.
    pub(crate) fn restart_timeouts(&mut self, now: Instant, total: Duration) {
        self.idle_deadline = now + self.timeout;
        self.total_deadline = now + total;
    }

    /// Creates the record of a retry of `call`. The total deadline stays as it is.
    pub(crate) fn new_retry(&self, now: Instant, call: Key) -> Self {
        Self {
            purpose: CallPurpose::Retry(call),
            stage: CallStage::Sent,
            retained: Box::default(),
            // The retry has an id of its own, and so a progress token of its own, whose values begin anew.
            last_progress: f64::NEG_INFINITY,
            idle_deadline: now + self.timeout,
            // The call is still in its list, whose links must not be copied.
            neighbours: (u16::MAX, u16::MAX),
            ..*self
        }
    }

    /// Removes both deadlines.
    pub(crate) fn disable_timeouts(&mut self) {
        self.idle_deadline = Instant::FAR_FUTURE;
        self.total_deadline = Instant::FAR_FUTURE;
    }

    /// Removes the deadlines of a long-lived call that has begun, except for a total time that was set for it.
    pub(crate) fn keep_open(&mut self) {
        self.idle_deadline = Instant::FAR_FUTURE;
        // Progress must not set the deadline again.
        if self.progress == ProgressUse::ExtendTimeout {
            self.progress = ProgressUse::Report;
        }
        if !self.has_explicit_total {
            self.total_deadline = Instant::FAR_FUTURE;
        }
    }

    /// Returns whether [`keep_open`](Self::keep_open) was called.
    pub(crate) fn is_kept_open(&self) -> bool {
        self.is_long_lived && self.idle_deadline == Instant::FAR_FUTURE
    }

    /// Records a progress report. Returns false if it does not increase (PROG-007).
    pub(crate) fn record_progress(&mut self, now: Instant, progress: f64) -> bool {
        // NaN has no order, so it is refused, too.
        if !self.wants_progress()
            || progress.partial_cmp(&self.last_progress) != Some(core::cmp::Ordering::Greater)
        {
            return false;
        }
        self.last_progress = progress;
        if self.progress == ProgressUse::ExtendTimeout {
            self.idle_deadline = now + self.timeout;
        }
        true
    }
}

/// The call that a response belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ResponseMatch {
    Live(Key),
    /// The call has ended.
    Late,
    Unknown,
}

/// The slab of outbound calls, with the numbers of those that are counted per operation.
///
/// Invariant: each number equals that of the calls with the purpose, which only [`abandon`](Self::abandon) changes.
#[derive(Debug, Default)]
pub(crate) struct CallSlab {
    slab: Slab<OutboundCall>,
    /// Number of calls of the application.
    application: u32,
    /// Number of keep-alive pings.
    pings: u32,
    /// The latest generation of a key: ids of requests of later ones were never sent.
    newest: u32,
    /// Those that are observed.
    pub(super) observed: OpenRequests,
    /// Calls whose requests end are recorded here, while it is set: they were answered, repeated or given up.
    #[cfg(feature = "http")]
    ended: Option<Vec<Key>>,
}

impl CallSlab {
    const fn new() -> Self {
        Self {
            slab: Slab::new(),
            application: 0,
            pings: 0,
            newest: 0,
            observed: OpenRequests::new(),
            #[cfg(feature = "http")]
            ended: None,
        }
    }

    /// Starts or stops the record of ended requests. Returns the earlier record.
    #[cfg(feature = "http")]
    pub(crate) const fn record_ended(&mut self, ended: Option<Vec<Key>>) -> Option<Vec<Key>> {
        core::mem::replace(&mut self.ended, ended)
    }

    /// Ends the observation of a call, if it is observed.
    #[inline]
    pub(super) fn take_observed(&mut self, key: Key) -> Option<OpenRequest> {
        self.observed.take(key)
    }

    fn note_ended(&mut self, key: Key) {
        // Still here only if no outcome was reported: the drop tells the observer that the request was given up.
        drop(self.take_observed(key));
        #[cfg(feature = "http")]
        if let Some(ended) = &mut self.ended {
            ended.push(key);
        }
        #[cfg(not(feature = "http"))]
        let _ = key;
    }

    /// Marks a call as answered and continued by a retry.
    pub(crate) fn supersede(&mut self, key: Key) {
        // Once only: the request has ended with its first answer, and a call may be continued several times.
        if let Some(call) = self.slab.get_mut(key).filter(|call| !call.is_superseded()) {
            call.stage = CallStage::Superseded;
            self.note_ended(key);
        }
    }

    /// Turns a call of the application into one whose outcome was reported, while its request stays open.
    pub(crate) fn abandon(&mut self, key: Key) -> Option<&mut OutboundCall> {
        let call = self.slab.get_mut(key).filter(|call| call.purpose == CallPurpose::Application)?;
        call.purpose = CallPurpose::Abandoned;
        self.application -= 1;
        Some(call)
    }

    fn counter(&mut self, purpose: CallPurpose) -> Option<&mut u32> {
        match purpose {
            CallPurpose::Application => Some(&mut self.application),
            CallPurpose::KeepAlive => Some(&mut self.pings),
            _ => None,
        }
    }

    pub(crate) fn insert(&mut self, call: OutboundCall) -> Key {
        if let Some(count) = self.counter(call.purpose) {
            *count += 1;
        }
        let key = self.slab.insert(call);
        self.newest = self.newest.max(key.generation);
        key
    }

    /// Returns the latest generation of a key.
    #[cfg(all(feature = "http", feature = "server"))]
    pub(crate) const fn newest(&self) -> u32 {
        self.newest
    }

    /// Makes all further ids of requests later ones than those up to a generation, which another engine has sent.
    #[cfg(all(feature = "http", feature = "server"))]
    pub(crate) fn begin_after(&mut self, newest: u32) {
        self.slab.begin_at(newest.saturating_add(1));
        self.newest = self.newest.max(newest);
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<OutboundCall> {
        let call = self.slab.remove(key)?;
        if let Some(count) = self.counter(call.purpose) {
            *count -= 1;
        }
        self.note_ended(key);
        Some(call)
    }

    /// Adds a call to a list. A call is in one list at a time.
    pub(crate) fn push_to(&mut self, list: &mut List, key: Key) {
        list.push(&mut self.slab, key);
    }

    /// Takes a call out of its list.
    pub(crate) fn take_from(&mut self, list: &mut List, key: Key) {
        list.remove(&mut self.slab, key);
    }

    /// Returns the keys of the calls in a list.
    pub(crate) fn keys_of(&self, list: &List) -> Vec<Key> {
        list.iter(&self.slab).map(|(key, _)| key).collect()
    }

    pub(crate) fn get(&self, key: Key) -> Option<&OutboundCall> {
        self.slab.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut OutboundCall> {
        self.slab.get_mut(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &OutboundCall)> {
        self.slab.iter()
    }

    pub(crate) const fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Returns the number of calls of the application.
    pub(crate) const fn application_calls(&self) -> usize {
        self.application as usize
    }

    /// Returns the number of keep-alive pings.
    pub(crate) const fn pings(&self) -> usize {
        self.pings as usize
    }

    /// Releases the memory if there are no calls.
    pub(crate) fn trim(&mut self) {
        self.slab.trim();
        self.observed.trim(self.slab.is_empty());
    }
}

/// Reads a number of a progress report.
type ReadNumber = fn(&[u8]) -> Option<f64>;

#[derive(Debug)]
pub(crate) struct OutboundCalls {
    pub(crate) calls: CallSlab,
    /// Set with the first call that asks for progress, so that other programs read no numbers with a fraction.
    pub(super) read_number: Option<ReadNumber>,
    /// Whether a long-lived call has had notifications.
    pub(crate) had_long_lived: bool,
}

/// Number of bits of the slot in a request id.
///
/// [`Limits::max_pending_calls`], doubled for retries, fits into them. So ids stay below 2^53 in every generation.
const SLOT_BITS: u32 = 16;

impl OutboundCalls {
    pub(crate) const fn new() -> Self {
        Self { calls: CallSlab::new(), read_number: None, had_long_lived: false }
    }

    /// Makes progress reports readable, before a call asks for them.
    pub(crate) fn read_progress(&mut self) {
        self.read_number = Some(|text| json::read(text).ok());
    }

    /// Returns the id on the wire. It is never zero, which some peers take for a missing id.
    pub(crate) fn wire_id(key: Key) -> i64 {
        (i64::from(key.generation) << SLOT_BITS | i64::from(key.slot)) + 1
    }

    /// Returns the key that an id on the wire encodes, whether there was such a call or not.
    pub(crate) fn key_of(id: &RequestId) -> Option<Key> {
        // The reverse of `wire_id`. Zero and negative numbers were never sent.
        let raw = id.as_int().and_then(|i| u64::try_from(i).ok())?.checked_sub(1)?;
        let generation = u32::try_from(raw >> SLOT_BITS).ok()?;
        Some(Key { slot: (raw & ((1 << SLOT_BITS) - 1)) as u32, generation })
    }

    pub(crate) fn lookup(&self, id: &RequestId) -> ResponseMatch {
        let Some(key) = Self::key_of(id) else { return ResponseMatch::Unknown };
        if self.calls.get(key).is_some() {
            ResponseMatch::Live(key)
        } else if self.calls.slab.is_stale(key) {
            ResponseMatch::Late
        } else {
            ResponseMatch::Unknown
        }
    }
}

// The request to run a tool as a task.

/// The request to run a tool as a task.
///
/// A server of 2025-11-25 that runs tools as tasks gets it as the parameter `task` (TASK-008). In 2026-07-28 the server
/// alone decides, so nothing is sent (TASK-103). Servers without tasks run the tool as usual (TASK-003, TASK-004).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TaskRequest {
    /// Time for which the server is asked to keep the task; the server may choose another (TASK-016).
    ///
    /// It is sent in whole milliseconds, from 1 to 10^12 (some 31 years).
    pub ttl: Option<Duration>,
    /// Whether the engine follows the task to its result. If not, the result of the call describes the task.
    pub follow: bool,
}

/// Longest time for which a server is asked to keep a task, in milliseconds. It is exact in every JSON number.
const MAX_TTL_MILLIS: i64 = 1_000_000_000_000;

impl TaskRequest {
    /// Creates the request for a task that the engine follows to its result.
    #[must_use]
    pub const fn followed() -> Self {
        Self { ttl: None, follow: true }
    }

    /// Creates the request for a task that is not followed: [`StartedTask`](crate::client::StartedTask) reads the result.
    #[must_use]
    pub const fn detached() -> Self {
        Self { ttl: None, follow: false }
    }

    /// Sets the time for which the server is asked to keep the task.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }
}

impl TaskRequest {
    /// Appends the member `task` to parameters, which are an object (TASK-008).
    pub(crate) fn append_to(self, params: &mut Vec<u8>) {
        // The closing brace, written again below together with that of `task`.
        params.pop();
        params.extend_from_slice(if params.last() == Some(&b'{') { b"\"task\":{" } else { b",\"task\":{" });
        if let Some(ttl) = self.ttl {
            params.extend_from_slice(b"\"ttl\":");
            write_int(
                params,
                i64::try_from(ttl.as_millis()).unwrap_or(MAX_TTL_MILLIS).clamp(1, MAX_TTL_MILLIS),
            );
        }
        params.extend_from_slice(b"}}");
    }
}

#[cfg(test)]
mod task_request_tests {
    use super::*;

    // covers: TASK-008
    #[test]
    fn request_is_a_member_of_the_parameters() {
        for (params, request, expected) in [
            ("{}", TaskRequest::followed(), r#"{"task":{}}"#),
            (r#"{"name":"a"}"#, TaskRequest::detached(), r#"{"name":"a","task":{}}"#),
            (
                r#"{"name":"a"}"#,
                TaskRequest::followed().ttl(Duration::from_secs(60)),
                r#"{"name":"a","task":{"ttl":60000}}"#,
            ),
            ("{}", TaskRequest::followed().ttl(Duration::from_micros(900)), r#"{"task":{"ttl":1}}"#),
            ("{}", TaskRequest::followed().ttl(Duration::MAX), r#"{"task":{"ttl":1000000000000}}"#),
        ] {
            let mut text = params.as_bytes().to_vec();
            request.append_to(&mut text);
            assert_eq!(core::str::from_utf8(&text), Ok(expected));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> OutboundCall {
        let channel = Key { slot: 0, generation: 0 };
        OutboundCall::new(
            Instant::ZERO,
            channel,
            CallPurpose::Application,
            &CallOptions::new().with_progress(),
            &Limits::default(),
        )
    }

    // covers: BASE-005, BASE-006, PROG-004
    #[test]
    fn request_ids_are_never_reused_and_late_responses_are_recognized() {
        let mut out = OutboundCalls::new();
        let mut seen = alloc::collections::BTreeSet::new();
        for _ in 0..1_000 {
            let a = out.calls.insert(call());
            let b = out.calls.insert(call());
            for k in [a, b] {
                assert!(seen.insert(OutboundCalls::wire_id(k)));
                assert_eq!(out.lookup(&RequestId::int(OutboundCalls::wire_id(k))), ResponseMatch::Live(k));
            }
            out.calls.remove(a);
            assert_eq!(out.lookup(&RequestId::int(OutboundCalls::wire_id(a))), ResponseMatch::Late);
            out.calls.remove(b);
        }
        out.calls.trim();
        assert_eq!(out.calls.slab.capacity(), 0);
        assert!(seen.insert(OutboundCalls::wire_id(out.calls.insert(call()))));
        for unknown in [0, -1, i64::MAX, 99 << 20] {
            assert_eq!(out.lookup(&RequestId::int(unknown)), ResponseMatch::Unknown, "{unknown}");
        }
    }

    #[test]
    fn list_has_each_call_of_a_full_table() {
        let limits = Limits { max_pending_calls: u32::MAX, ..Limits::default() };
        let (mut out, mut list) = (OutboundCalls::new(), List::new());
        // Each call and one retry of it.
        for _ in 0..2 * limits.effective_max_pending_calls() {
            let key = out.calls.insert(call());
            out.calls.push_to(&mut list, key);
        }
        assert_eq!(out.calls.keys_of(&list).len(), out.calls.len());
    }

    #[test]
    fn numbers_of_calls_equal_a_recount_after_every_step() {
        let (mut out, mut keys) = (OutboundCalls::new(), Vec::new());
        let purposes = [CallPurpose::Application, CallPurpose::KeepAlive, CallPurpose::Internal];
        for step in 0..600_usize {
            if step % 7 < 4 {
                let purpose = purposes[step % 3];
                keys.push(out.calls.insert(OutboundCall { purpose, ..call() }));
            } else {
                let key = keys.swap_remove(step * 31 % keys.len());
                assert!(out.calls.remove(key).is_some() && out.calls.remove(key).is_none());
            }
            let count = |purpose| {
                out.calls.iter().filter(|(_, c): &(Key, &OutboundCall)| c.purpose == purpose).count()
            };
            assert_eq!(out.calls.application_calls(), count(CallPurpose::Application));
            assert_eq!(out.calls.pings(), count(CallPurpose::KeepAlive));
        }
    }

    // covers: TIME-005, TIME-006, PROG-007
    #[test]
    fn progress_extends_idle_deadline_but_not_total_deadline() {
        let s = |n: u64| Instant::from_micros(n * 1_000_000);
        let mut c = call();
        assert_eq!(c.deadline(), s(60));
        assert!(
            c.record_progress(s(50), 1.0)
                && !c.record_progress(s(51), 1.0)
                && !c.record_progress(s(51), f64::NAN)
        );
        assert_eq!(c.timeout_error(s(109)), None);
        assert_eq!(c.timeout_error(s(110)), Some(CallError::TimedOut));
        assert!(c.record_progress(s(590), 2.0));
        assert_eq!(c.timeout_error(s(600)), Some(CallError::TotalTimedOut));
    }

    // covers: META-021
    #[test]
    fn trace_context_is_added_to_an_object_without_one() {
        let context = TraceContext { traceparent: Some("00-a".into()), ..TraceContext::default() };
        for (meta, expected) in [
            (None, r#"{"traceparent":"00-a"}"#),
            (Some(r#"{"x":1,"tracestate":"old"}"#), r#"{"x":1,"traceparent":"00-a"}"#),
            (Some(r#"{"traceparent":"00-b","x":1}"#), r#"{"traceparent":"00-b","x":1}"#),
            (Some("[1]"), "[1]"),
        ] {
            let mut options = CallOptions::new();
            options.meta = meta.map(|meta| RawJson::trusted(meta.as_bytes().to_vec().into()));
            let meta = options.with_trace_context(&context).meta.expect("metadata");
            assert_eq!(core::str::from_utf8(meta.as_bytes()), Ok(expected));
        }
    }

    #[test]
    fn requests_about_the_connection_are_probe_handshake_and_ping() {
        use CallPurpose::{Abandoned, Application, Handshake, Internal, KeepAlive, Probe};
        for purpose in [Probe, Handshake, KeepAlive] {
            assert!(purpose.is_of_connection(), "{purpose:?}");
        }
        for purpose in [Application, Internal, Abandoned] {
            assert!(!purpose.is_of_connection(), "{purpose:?}");
        }
    }

    #[test]
    fn call_is_kept_open_if_it_is_long_lived_and_has_begun() {
        let mut c = OutboundCall { is_long_lived: true, ..call() };
        assert!(!c.is_kept_open());
        c.keep_open();
        assert!(c.is_kept_open());
        let mut without_deadline = call();
        without_deadline.disable_timeouts();
        assert!(!without_deadline.is_kept_open());
    }
}
