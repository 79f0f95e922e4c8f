//! The table of the exchanges of a client, with the actions that they require.
//!
//! It keeps the sums and finds the exchanges that the binding needs per operation, so that none of them walks the table.
//! Phases change through its methods alone.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::{Add, Sub};

use bytes::Bytes;

use super::config::FailureReason;
use super::events::EventStreamState;
use super::exchange::{
    Action, CollectedBody, ExchangeClass, ExchangeId, ExchangePhase, ExchangePurpose, NextStep,
    OutgoingRequest, RetryCounts,
};
use super::send::RequestStates;
use crate::calls::outbound::OutboundCalls;
use crate::deadlines::Deadlines;
use crate::error::HttpResponse;
use crate::rpc::RequestId;
use crate::slab::list::{List, ListLinks, ListNode};
use crate::slab::{Key, Slab};
use crate::sync::Arc;
use crate::time::{Instant, TimeoutReason};
use crate::url::Url;

/// Largest number of notifications and responses in flight, and of those that wait to be sent again.
pub(super) const MAX_MESSAGES: usize = 64;

/// A held exchange: the exchange as it is sent anew, the time at which it was held, and the refusal
/// if the request was sent.
pub(in crate::http::client) type HeldExchange = (ClientExchange, Instant, Option<Box<HttpResponse>>);

#[derive(Debug)]
enum Entry {
    Open(ClientExchange),
    /// The exchange has ended here, and the HTTP implementation has not been told yet.
    Aborted,
}

impl Entry {
    const fn open(&self) -> Option<&ClientExchange> {
        match self {
            Self::Open(x) => Some(x),
            Self::Aborted => None,
        }
    }
}

/// The list of held exchanges has its links in their phase.
impl ListNode for Entry {
    fn list_links(&self) -> ListLinks {
        match self.open().map(ClientExchange::phase) {
            Some(ExchangePhase::AwaitingCredential { links, .. }) => *links,
            _ => ListLinks::NONE,
        }
    }

    fn set_list_links(&mut self, links: ListLinks) {
        if let Self::Open(x) = self {
            x.set_list_links(links);
        }
    }
}

/// The exchanges and actions of a client; see the [module](self).
///
/// Invariant: the sums equal those of a walk over the exchanges (`sums_equal_a_walk_after_every_step`).
#[derive(Debug, Default)]
pub(super) struct ExchangeTable {
    slab: Slab<Entry>,
    actions: VecDeque<Action>,
    requests: RequestStates,
    /// Exchanges whose event streams have undecoded events.
    ready_streams: VecDeque<Key>,
    deadlines: Deadlines<Key>,
    /// Exchanges that wait for a credential.
    held: List,
    /// The GET stream that was opened last.
    get_stream: Option<Key>,
    sums: Sums,
}

/// Sums over the open exchanges.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sums {
    open: usize,
    /// Notifications, responses and other short messages in flight.
    messages: usize,
    /// The same that wait to be sent again.
    resends: usize,
    /// Lists of tools that are expected on the GET stream.
    tool_lists: usize,
}

impl Sums {
    /// Returns the sums of one exchange.
    fn of(x: &ClientExchange) -> Self {
        let is_message = x.purpose().class() == ExchangeClass::Message;
        let is_delayed = matches!(x.phase(), ExchangePhase::Scheduled(_));
        let awaits_stream = matches!(x.phase(), ExchangePhase::AwaitingGetStream);
        Self {
            open: 1,
            messages: usize::from(is_message && !is_delayed && !awaits_stream),
            resends: usize::from(is_message && is_delayed),
            tool_lists: usize::from(awaits_stream && x.purpose().lists_tools()),
        }
    }

    /// Returns the sums with those of one exchange added or subtracted.
    fn with(self, x: &ClientExchange, count: fn(usize, usize) -> usize) -> Self {
        let other = Self::of(x);
        Self {
            open: count(self.open, other.open),
            messages: count(self.messages, other.messages),
            resends: count(self.resends, other.resends),
            tool_lists: count(self.tool_lists, other.tool_lists),
        }
    }
}

impl ExchangeTable {
    // ---- exchanges -------------------------------------------------------------------------------------------

    /// Adds an exchange.
    pub(super) fn insert(&mut self, x: ClientExchange) -> Key {
        let x = x.untaken();
        self.sums = self.sums.with(&x, Add::add);
        let request = Self::served_request(&x);
        let (is_held, is_get_stream) = (x.is_held(), matches!(x.purpose(), ExchangePurpose::GetStream));
        let deadline = x.deadline();
        let key = self.slab.insert(Entry::Open(x));
        if let Some(request) = request {
            self.requests.record_service(request, key);
        }
        self.arm(key, deadline);
        if is_held {
            self.held.push(&mut self.slab, key);
        }
        if is_get_stream {
            self.get_stream = Some(key);
        }
        key
    }

    pub(super) fn get(&self, key: Key) -> Option<&ClientExchange> {
        self.slab.get(key)?.open()
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut ClientExchange> {
        match self.slab.get_mut(key)? {
            Entry::Open(x) => Some(x),
            Entry::Aborted => None,
        }
    }

    /// Returns whether there is neither an exchange nor an action.
    pub(super) const fn is_empty(&self) -> bool {
        // An aborted exchange is in the slab until the action is taken.
        self.slab.is_empty()
    }

    /// Removes an exchange without an action.
    pub(super) fn remove(&mut self, key: Key) -> Option<ClientExchange> {
        // An aborted entry stays until its action is taken, so only an open one is removed.
        self.get(key)?;
        let Some(Entry::Open(x)) = self.slab.remove(key) else { return None };
        self.record_end(key, &x);
        Some(x)
    }

    /// Removes an exchange, and aborts it if the HTTP implementation has it.
    pub(super) fn abort(&mut self, key: Key) -> Option<ClientExchange> {
        let x = self.get(key)?;
        // A request that was not taken needs no abort.
        if !x.is_taken() || !(x.is_in_flight() || x.is_draining()) {
            return self.remove(key);
        }
        let Some(Entry::Open(x)) = self.slab.get_mut(key).map(|e| core::mem::replace(e, Entry::Aborted))
        else {
            return None;
        };
        self.record_end(key, &x);
        self.actions.push_back(Action::Abort { exchange: ExchangeId(key) });
        Some(x)
    }

    /// Forgets an aborted exchange that has ended by itself.
    pub(super) fn cancel_abort(&mut self, key: Key) {
        if matches!(self.slab.get(key), Some(Entry::Aborted)) {
            self.slab.remove(key);
        }
    }

    /// Takes an exchange in flight, and leaves what is needed to read the rest of its response until `until`.
    pub(super) fn drain(&mut self, key: Key, until: Instant) -> Option<ClientExchange> {
        let Some(Entry::Open(x)) = self.slab.get_mut(key) else { return None };
        let taken = x.drain(until);
        // `record_end` subtracts the sums of what was taken.
        self.sums = self.sums.with(x, Add::add);
        self.record_end(key, &taken);
        self.arm(key, Some(until));
        Some(taken)
    }

    /// Reads the rest of each response until `until`, without effect.
    pub(super) fn drain_all(&mut self, until: Instant) {
        for key in self.keys_where(|x| !x.is_draining()) {
            self.drain(key, until);
        }
    }

    // The sums are the same in all phases of a response.

    /// Begins a body that is collected to its end, at most until `until`.
    pub(super) fn collect_body(
        &mut self,
        key: Key,
        response: HttpResponse,
        is_json: bool,
        until: Option<Instant>,
    ) {
        let body = CollectedBody { response, is_json, body: Vec::new() };
        if let Some(x) = self.get_mut(key) {
            x.begin_response(ExchangePhase::CollectingBody(Box::new(body)));
            x.end_at(until);
        }
        self.arm(key, until);
    }

    /// Begins to decode an event stream, whose events are at most `max` bytes long.
    pub(super) fn open_event_stream(&mut self, key: Key, now: Instant, max: usize) {
        if let Some(x) = self.get_mut(key) {
            x.open_event_stream(now, max);
        }
    }

    /// Returns the place of a part of a body of this length.
    pub(super) fn body_sink(&mut self, key: Key, len: usize) -> BodySink<'_> {
        self.get_mut(key).map_or(BodySink::None, |x| x.body_sink(len))
    }

    /// Updates sums and references after `x` was taken from its entry.
    fn record_end(&mut self, key: Key, x: &ClientExchange) {
        // The sums depend on the phase, so `x` is still in the one in which it was counted.
        self.sums = self.sums.with(x, Sub::sub);
        if let Some(request) = Self::served_request(x) {
            self.requests.record_end(request, key);
        }
        if let ExchangePhase::AwaitingCredential { links, .. } = x.phase() {
            self.held.unlink(&mut self.slab, *links);
        }
        if self.get_stream == Some(key) {
            self.get_stream = None;
        }
    }

    // ---- sums and look-ups -----------------------------------------------------------------------------------

    /// Returns whether one more notification or response may be in flight.
    pub(super) const fn has_room_for_message(&self) -> bool {
        self.sums.messages < MAX_MESSAGES
    }

    /// Returns whether one more notification or response may wait to be sent again.
    pub(super) const fn has_room_for_resend(&self) -> bool {
        self.sums.resends < MAX_MESSAGES
    }

    /// Returns whether a list of tools is expected on the GET stream.
    pub(super) const fn expects_tool_list(&self) -> bool {
        self.sums.tool_lists > 0
    }

    /// Returns whether the GET stream of a session is open, or is being opened.
    pub(super) fn has_get_stream(&self, session_serial: u32) -> bool {
        let stream = self.get_stream.and_then(|key| self.get(key));
        stream.is_some_and(|x| x.session_serial == session_serial)
    }

    /// Returns the exchange that serves a request of the engine: its own, or the one that looks up its tool.
    pub(super) fn find(&self, id: &RequestId) -> Option<Key> {
        let key = self.requests.exchange_of(OutboundCalls::key_of(id)?)?;
        // The slot of a call is used again by later ones, so the id has to be equal, too.
        let serves = |x: &ClientExchange| match x.purpose() {
            ExchangePurpose::RefreshTools(refresh) => refresh.call == *id,
            purpose => purpose.request_id() == Some(id),
        };
        self.get(key).filter(|x| serves(x)).map(|_| key)
    }

    /// Returns the exchange that carries the request of a call, if the call's own.
    pub(super) fn find_by_call(&self, call: Key) -> Option<Key> {
        let key = self.requests.exchange_of(call)?;
        let is_own = |x: &&ClientExchange| x.request_id().and_then(OutboundCalls::key_of) == Some(call);
        self.get(key).filter(is_own).map(|_| key)
    }

    /// Returns the exchange that has waited longest for a credential.
    pub(super) fn first_held(&self) -> Option<(ExchangeId, Option<&HttpResponse>, u32)> {
        let key = self.held.first(&self.slab)?;
        let x = self.get(key)?;
        let ExchangePhase::AwaitingCredential { answer, .. } = x.phase() else { return None };
        Some((ExchangeId(key), answer.as_deref(), x.retries.credentials))
    }

    /// Takes all exchanges that wait for a credential.
    pub(super) fn take_held(&mut self) -> Vec<HeldExchange> {
        let mut taken = Vec::new();
        // The loop ends, because `remove` takes the exchange off the list.
        while let Some((ExchangeId(key), ..)) = self.first_held() {
            let Some(mut x) = self.remove(key) else { break };
            if let Some((since, answer)) = x.take_refusal() {
                taken.push((x, since, answer));
            }
        }
        taken
    }

    /// Returns the exchanges that fit, by a walk over all: for the loss and the end of a session or stream.
    pub(super) fn keys_where(&self, fits: impl Fn(&ClientExchange) -> bool) -> Vec<Key> {
        let open = self.slab.iter().filter_map(|(key, entry)| Some((key, entry.open()?)));
        open.filter(|(_, x)| fits(x)).map(|(key, _)| key).collect()
    }

    /// Returns the call that an exchange serves.
    fn served_request(x: &ClientExchange) -> Option<Key> {
        let id = match x.purpose() {
            ExchangePurpose::RefreshTools(refresh) => Some(&refresh.call),
            purpose => purpose.request_id(),
        };
        OutboundCalls::key_of(id?)
    }

    /// Returns the states of the requests of the engine.
    pub(super) const fn requests(&mut self) -> &mut RequestStates {
        &mut self.requests
    }

    /// Records that the request of an exchange was not executed; its cancellation is then not sent.
    pub(super) fn record_unsent(&mut self, x: &ClientExchange) {
        if let ExchangePurpose::Call { id, .. } = x.purpose() {
            self.requests.record_unsent(id);
        }
    }

    // ---- event streams ---------------------------------------------------------------------------------------

    /// Queues an exchange whose event stream has undecoded events, or has ended.
    pub(super) fn queue_stream(&mut self, key: Key) {
        let Some(events) = self.get_mut(key).and_then(|x| x.events.as_mut()) else { return };
        if !core::mem::replace(&mut events.is_queued, true) {
            self.ready_streams.push_back(key);
        }
    }

    /// Returns the next exchange whose event stream was queued.
    pub(super) fn pop_stream(&mut self) -> Option<Key> {
        while let Some(key) = self.ready_streams.pop_front() {
            let events = self.get_mut(key).and_then(|x| x.events.as_mut());
            if events.is_some_and(|events| core::mem::take(&mut events.is_queued)) {
                return Some(key);
            }
        }
        None
    }

    /// Records the end of the connection of an event stream.
    pub(super) fn end_stream(&mut self, key: Key, how: Result<(), FailureReason>) {
        if let Some(events) = self.get_mut(key).and_then(|x| x.events.as_mut()) {
            events.ended = Some(how);
        }
        self.queue_stream(key);
    }

    /// Forgets the undecoded events of all streams.
    pub(super) fn clear_streams(&mut self) {
        self.ready_streams.clear();
    }

    // ---- time ------------------------------------------------------------------------------------------------

    /// Returns the next deadline of an exchange.
    pub(super) fn next_deadline(&mut self) -> Option<Instant> {
        let Self { deadlines, slab, .. } = self;
        deadlines.next(|at, key| deadline_of(slab, key) == Some(at))
    }

    /// Returns the next deadline of an exchange and its reason.
    pub(super) fn timeout_reason(&mut self) -> Option<(Instant, TimeoutReason)> {
        self.next_deadline()?;
        let (at, key) = self.deadlines.peek()?;
        let reason = match self.get(key)?.phase() {
            ExchangePhase::AwaitingCredential { .. } => TimeoutReason::Credential,
            ExchangePhase::CollectingBody(collected) if collected.response.asks_for_credential() => {
                TimeoutReason::Credential
            }
            ExchangePhase::Scheduled(_) => TimeoutReason::Retry,
            _ => TimeoutReason::Response,
        };
        Some((at, reason))
    }

    /// Returns the next exchange whose deadline has passed.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Key> {
        // A timer that was replaced stays in the queue. Its time then differs from that of the exchange.
        while let Some((at, key)) = self.deadlines.pop_due(now) {
            if deadline_of(&self.slab, key) == Some(at) {
                return Some(key);
            }
        }
        None
    }

    /// Removes the deadline of an exchange.
    pub(super) fn clear_deadline(&mut self, key: Key) {
        if let Some(x) = self.get_mut(key) {
            x.clear_deadline();
        }
    }

    fn arm(&mut self, key: Key, deadline: Option<Instant>) {
        let Some(at) = deadline else { return };
        let Self { deadlines, slab, sums, .. } = self;
        deadlines.arm(at, key);
        deadlines.sweep(sums.open, |at, key| deadline_of(slab, key) == Some(at));
    }

    // ---- actions ---------------------------------------------------------------------------------------------

    /// Queues the request of an exchange.
    pub(super) fn push_request(&mut self, request: OutgoingRequest) {
        self.actions.push_back(Action::Send(request));
    }

    /// Returns whether there is an action, and drops those of exchanges that have ended.
    pub(super) fn has_action(&mut self) -> bool {
        while let Some(action) = self.actions.front() {
            let is_current = match action {
                Action::Send(request) => self.get(request.exchange.0).is_some(),
                Action::Abort { exchange } => matches!(self.slab.get(exchange.0), Some(Entry::Aborted)),
            };
            if is_current {
                return true;
            }
            self.actions.pop_front();
        }
        false
    }

    /// Returns the next action for the HTTP implementation.
    pub(super) fn poll_action(&mut self) -> Option<Action> {
        if !self.has_action() {
            return None;
        }
        let action = self.actions.pop_front()?;
        match &action {
            Action::Send(request) => {
                if let Some(x) = self.get_mut(request.exchange.0) {
                    x.mark_taken();
                }
            }
            Action::Abort { exchange } => drop(self.slab.remove(exchange.0)),
        }
        Some(action)
    }

    /// Releases the memory if there is nothing in the table.
    pub(super) fn trim(&mut self) {
        self.slab.trim();
        if self.slab.is_empty() {
            self.actions = VecDeque::new();
            self.requests = RequestStates::default();
        }
    }
}

fn deadline_of(slab: &Slab<Entry>, key: Key) -> Option<Instant> {
    slab.get(key).and_then(Entry::open)?.deadline()
}

// One exchange of a client: its request, and the phases of its response.
//
// The rest of the client makes new exchanges of ended ones. Only the table changes the phase of an exchange in it.

/// Bytes of an unneeded response that are read to keep its connection.
const MAX_DRAIN: usize = 64 << 10;

/// One exchange: its request, and the progress of its response.
#[derive(Debug)]
pub(super) struct ClientExchange {
    purpose: ExchangePurpose,
    pub(super) url: Arc<Url>,
    /// The sent body, kept while it may be sent again.
    pub(super) body: Bytes,
    pub(super) retries: RetryCounts,
    /// The session in which it was sent.
    pub(super) session_serial: u32,
    /// The credential with which it was sent.
    pub(super) credential_generation: u32,
    phase: ExchangePhase,
    /// The request was taken by the HTTP implementation.
    is_taken: bool,
    /// Time at which it continues or ends by itself; the engine has the deadlines of its requests.
    deadline: Option<Instant>,
    pub(super) events: Option<Box<EventStreamState>>,
}

impl ClientExchange {
    /// Creates an exchange that is not in the table yet.
    pub(super) fn new(purpose: ExchangePurpose, url: Arc<Url>, body: Bytes, retries: RetryCounts) -> Self {
        Self {
            purpose,
            url,
            body,
            retries,
            session_serial: 0,
            credential_generation: 0,
            phase: ExchangePhase::Sent,
            is_taken: false,
            deadline: None,
            events: None,
        }
    }

    pub(super) const fn purpose(&self) -> &ExchangePurpose {
        &self.purpose
    }

    pub(super) const fn phase(&self) -> &ExchangePhase {
        &self.phase
    }

    /// Returns the request of the engine that waits for this exchange.
    pub(super) const fn request_id(&self) -> Option<&RequestId> {
        self.purpose.request_id()
    }

    pub(super) const fn is_draining(&self) -> bool {
        matches!(self.phase, ExchangePhase::Draining { .. })
    }

    /// Returns whether the response is incomplete and still needed.
    pub(super) fn is_in_flight(&self) -> bool {
        let ended = self.events.as_ref().is_some_and(|e| e.ended.is_some());
        matches!(self.phase, ExchangePhase::Sent | ExchangePhase::CollectingBody(_))
            || (matches!(self.phase, ExchangePhase::EventStream) && !ended)
    }

    /// Returns the exchange with a time at which it ends by itself.
    pub(super) fn until(self, deadline: Option<Instant>) -> Self {
        Self { deadline, ..self }
    }

    /// Returns the exchange as it is sent anew.
    pub(super) fn sent(self) -> Self {
        Self { phase: ExchangePhase::Sent, ..self }
    }

    /// Returns the exchange with another purpose, as it is sent anew.
    pub(super) fn sent_as(self, purpose: ExchangePurpose) -> Self {
        Self { purpose, phase: ExchangePhase::Sent, ..self }
    }

    /// Returns the exchange as it continues by `step` at the time `until`.
    pub(super) fn scheduled(self, step: NextStep, until: Instant) -> Self {
        Self { phase: ExchangePhase::Scheduled(step), deadline: Some(until), ..self }
    }

    /// Returns the exchange as it is held until there is a credential, at most until `until`.
    pub(super) fn held(self, since: Instant, until: Instant, answer: Option<Box<HttpResponse>>) -> Self {
        let phase = ExchangePhase::AwaitingCredential { since, answer, links: ListLinks::NONE };
        Self { phase, deadline: Some(until), ..self }
    }

    /// Returns the exchange as its answer is expected on the GET stream.
    pub(super) fn awaiting_get_stream(self) -> Self {
        Self { phase: ExchangePhase::AwaitingGetStream, ..self }
    }

    /// Returns the exchange and its collected body.
    pub(super) fn take_body(mut self) -> Option<(Self, CollectedBody)> {
        match core::mem::replace(&mut self.phase, ExchangePhase::Sent) {
            ExchangePhase::CollectingBody(collected) => Some((self, *collected)),
            _ => None,
        }
    }

    /// Returns the purpose, without the exchange.
    pub(super) fn into_purpose(self) -> ExchangePurpose {
        self.purpose
    }

    // ---- for the table alone -----------------------------------------------------------------------------------

    /// Returns the exchange as it enters the table.
    fn untaken(mut self) -> Self {
        if let Some(events) = &mut self.events {
            events.is_queued = false;
        }
        Self { is_taken: false, ..self }
    }

    /// Records that the HTTP implementation took the request.
    const fn mark_taken(&mut self) {
        self.is_taken = true;
    }

    const fn is_taken(&self) -> bool {
        self.is_taken
    }

    const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    const fn clear_deadline(&mut self) {
        self.deadline = None;
    }

    const fn is_held(&self) -> bool {
        matches!(self.phase, ExchangePhase::AwaitingCredential { .. })
    }

    /// Takes the exchange, and leaves what is needed to read the rest of its response until `until`.
    fn drain(&mut self, until: Instant) -> Self {
        let rest = Self {
            purpose: self.purpose.clone(),
            url: Arc::clone(&self.url),
            body: Bytes::new(),
            phase: ExchangePhase::Draining { remaining: MAX_DRAIN },
            deadline: Some(until),
            events: None,
            ..*self
        };
        core::mem::replace(self, rest)
    }

    /// Sets the time at which the exchange ends by itself; `None` leaves it.
    fn end_at(&mut self, until: Option<Instant>) {
        self.deadline = until.or(self.deadline);
    }

    /// Enters a phase of a response, if there was none.
    fn begin_response(&mut self, phase: ExchangePhase) {
        // A second head, or one that comes too late, changes nothing.
        if matches!(self.phase, ExchangePhase::Sent) {
            self.phase = phase;
        }
    }

    /// Begins to decode an event stream, if there was no response; its events are at most `max` bytes long.
    fn open_event_stream(&mut self, now: Instant, max: usize) {
        if matches!(self.phase, ExchangePhase::Sent) {
            let events = self.events.get_or_insert_with(|| Box::new(EventStreamState::new(max)));
            events.reopen(now, max);
            self.phase = ExchangePhase::EventStream;
        }
    }

    /// Returns the place of a part of a body of this length.
    fn body_sink(&mut self, len: usize) -> BodySink<'_> {
        match &mut self.phase {
            ExchangePhase::EventStream => self.events.as_deref_mut().map_or(BodySink::None, BodySink::Events),
            ExchangePhase::CollectingBody(collected) => BodySink::Collected(collected),
            ExchangePhase::Draining { remaining } => {
                let rest = remaining.checked_sub(len);
                *remaining = rest.unwrap_or(0);
                BodySink::Dropped { exceeded: rest.is_none() }
            }
            _ => BodySink::None,
        }
    }

    /// Sets the links among the held exchanges.
    const fn set_list_links(&mut self, new: ListLinks) {
        if let ExchangePhase::AwaitingCredential { links, .. } = &mut self.phase {
            *links = new;
        }
    }

    /// Takes the time since which the exchange has been held, and the refusal; it is then as it is sent anew.
    fn take_refusal(&mut self) -> Option<(Instant, Option<Box<HttpResponse>>)> {
        match core::mem::replace(&mut self.phase, ExchangePhase::Sent) {
            ExchangePhase::AwaitingCredential { since, answer, .. } => Some((since, answer)),
            _ => None,
        }
    }
}

/// The place of a part of a body.
pub(super) enum BodySink<'a> {
    Events(&'a mut EventStreamState),
    Collected(&'a mut CollectedBody),
    /// The part is dropped; `exceeded` if it is one part too many.
    Dropped {
        exceeded: bool,
    },
    /// No body is expected.
    None,
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;

    use bytes::Bytes;

    use super::super::exchange::{CallMethod, NextStep, RetryCounts, ToolRefresh};
    use super::*;
    use crate::url::Url;

    fn id(slot: u32, generation: u32) -> RequestId {
        RequestId::int(OutboundCalls::wire_id(Key { slot, generation }))
    }

    fn call(id: RequestId) -> ExchangePurpose {
        ExchangePurpose::Call { id, method: CallMethod::ListTools }
    }

    fn exchange(purpose: ExchangePurpose) -> ClientExchange {
        let url = Arc::new(Url::parse("http://localhost/mcp").expect("a URL"));
        ClientExchange::new(purpose, url, Bytes::new(), RetryCounts::default())
    }

    fn response() -> HttpResponse {
        HttpResponse {
            status: 401,
            content_type: None,
            content_encoding: None,
            body: alloc::string::String::new(),
            error: None,
            retry_after: None,
            challenges: Vec::new(),
            asks_for_more: false,
        }
    }

    fn send(table: &mut ExchangeTable, x: ClientExchange) -> Key {
        let (url, class) = (Arc::clone(&x.url), x.purpose().class());
        let key = table.insert(x);
        table.push_request(OutgoingRequest {
            exchange: ExchangeId(key),
            method: "POST",
            url,
            fields: crate::head::Fields::new(),
            body: Bytes::new(),
            class,
            idempotent: false,
        });
        key
    }

    /// Compares what is kept with a walk over all exchanges.
    fn check(table: &mut ExchangeTable) {
        let open = || table.slab.iter().filter_map(|(key, entry)| Some((key, entry.open()?)));
        let walked = open().fold(Sums::default(), |all, (_, x)| all.with(x, Add::add));
        assert_eq!(table.sums, walked);
        assert_eq!(table.held.iter(&table.slab).count(), open().filter(|(_, x)| x.is_held()).count());
        for (key, x) in open().filter(|(_, x)| !x.is_draining()) {
            if let Some(id) = x.request_id() {
                assert_eq!(table.find(id), Some(key));
                assert_eq!(OutboundCalls::key_of(id).and_then(|call| table.find_by_call(call)), Some(key));
            }
        }
        let stream =
            open().find(|(_, x)| matches!(x.purpose(), ExchangePurpose::GetStream) && !x.is_draining());
        assert_eq!(table.has_get_stream(0), stream.is_some());
        let queued = open().filter(|(_, x)| x.events.as_ref().is_some_and(|events| events.is_queued)).count();
        let is_queued = |key: &&Key| {
            table.get(**key).and_then(|x| x.events.as_ref()).is_some_and(|events| events.is_queued)
        };
        assert_eq!(table.ready_streams.iter().filter(is_queued).count(), queued);
        let deadline = open().filter_map(|(_, x)| x.deadline()).min();
        assert_eq!(table.next_deadline(), deadline);
    }

    #[test]
    fn sums_equal_a_walk_after_every_step() {
        let (mut table, mut keys) = (ExchangeTable::default(), Vec::new());
        let mut random = 7_u32;
        for step in 0..crate::testing::rounds(4_000) as u32 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (choice, at) = ((random >> 16) % 15, (random >> 8) as usize);
            let now = Instant::from_micros(step.into());
            let key = (!keys.is_empty()).then(|| keys[at % keys.len()]);
            match (choice, key) {
                (0, _) => {
                    keys.push(send(&mut table, exchange(ExchangePurpose::Message { initialized: false })))
                }
                (1, _) if !table.has_get_stream(0) => {
                    keys.push(send(&mut table, exchange(ExchangePurpose::GetStream)));
                }
                // Each request has a slot of its own, as in the engine.
                (2 | 3, _) => keys.push(send(&mut table, exchange(call(id(step % 60_000, step / 7))))),
                (4, Some(key)) => table.collect_body(key, response(), true, None),
                (5, Some(key)) => table.open_event_stream(key, Instant::ZERO, 1 << 10),
                (6, Some(key)) => drop(table.remove(key)),
                (7, Some(key)) => drop(table.abort(key)),
                (8, Some(key)) if table.get(key).is_some_and(|x| !x.is_draining()) => {
                    drop(table.drain(key, now));
                }
                (9, Some(key)) => {
                    if let Some(x) = table.remove(key) {
                        let next = match at % 3 {
                            0 => x.scheduled(NextStep::Resend, now),
                            1 => x.held(now, now, Some(Box::new(response()))),
                            _ => x.awaiting_get_stream(),
                        };
                        keys.push(table.insert(next));
                    }
                }
                (10, _) => drop(table.poll_action()),
                (12, Some(key)) => table.end_stream(key, Ok(())),
                (13, _) => drop(table.pop_stream()),
                (14, _) => {
                    if let Some(key) = table.pop_due(Instant::from_micros(u64::from(step / 2))) {
                        table.remove(key);
                    }
                }
                (11, _) if step % 97 == 0 => table.take_held().into_iter().for_each(|(x, ..)| {
                    keys.push(table.insert(x));
                }),
                _ => {}
            }
            check(&mut table);
        }
        for key in keys {
            table.abort(key);
        }
        while table.poll_action().is_some() {}
        assert!(table.is_empty() && table.sums == Sums::default());
        table.trim();
        assert_eq!((table.requests.capacity(), table.slab.capacity()), (0, 0));
    }

    #[test]
    fn exchange_that_was_not_taken_needs_no_abort() {
        let mut table = ExchangeTable::default();
        let (a, b) = (send(&mut table, exchange(call(id(0, 0)))), send(&mut table, exchange(call(id(1, 0)))));
        assert!(matches!(table.poll_action(), Some(Action::Send(request)) if request.exchange.0 == a));
        assert!(table.abort(a).is_some() && table.abort(b).is_some() && table.get(a).is_none());
        assert!(!table.is_empty(), "the abort was not taken");
        assert!(matches!(table.poll_action(), Some(Action::Abort { exchange }) if exchange.0 == a));
        assert!(table.poll_action().is_none() && table.is_empty());
    }

    #[test]
    fn abort_of_exchange_that_has_ended_meanwhile_is_dropped() {
        let mut table = ExchangeTable::default();
        let key = send(&mut table, exchange(call(id(0, 0))));
        assert!(table.poll_action().is_some() && table.abort(key).is_some());
        table.cancel_abort(key);
        assert!(!table.has_action() && table.is_empty());
    }

    #[test]
    fn exchange_that_looks_up_a_tool_serves_the_call_but_is_not_its_own() {
        let mut table = ExchangeTable::default();
        let key = table.insert(exchange(call(id(5, 2))));
        assert_eq!(
            (table.find(&id(5, 2)), table.find(&id(5, 1)), table.find(&RequestId::int(-1))),
            (Some(key), None, None)
        );
        let refresh = ToolRefresh {
            message: Bytes::new(),
            call: id(6, 0),
            tool: "t".into(),
            refusal: Bytes::new(),
            retries: RetryCounts::default(),
            pages: 0,
        };
        let key = table.insert(exchange(ExchangePurpose::RefreshTools(Box::new(refresh))));
        assert_eq!(table.find(&id(6, 0)), Some(key));
        assert_eq!(table.find_by_call(Key { slot: 6, generation: 0 }), None, "it is not the call's own");
    }

    #[test]
    fn held_exchanges_are_taken_in_the_order_in_which_they_were_held() {
        let mut table = ExchangeTable::default();
        let hold =
            |n| exchange(call(id(n, 0))).held(Instant::ZERO, Instant::ZERO, Some(Box::new(response())));
        let keys = [0, 1, 2].map(|n| table.insert(hold(n)));
        table.remove(keys[0]);
        assert_eq!(table.first_held().map(|(exchange, ..)| exchange.0), Some(keys[1]));
        let ids: Vec<_> = table.take_held().into_iter().map(|(x, ..)| x.request_id().cloned()).collect();
        assert_eq!(ids, [Some(id(1, 0)), Some(id(2, 0))]);
        assert!(table.is_empty());
    }

    #[test]
    fn messages_in_flight_and_those_that_wait_have_bounds_of_their_own() {
        let message = || exchange(ExchangePurpose::Message { initialized: false });
        let mut table = ExchangeTable::default();
        table.insert(exchange(call(id(0, 0))).scheduled(NextStep::RetryWithNewId, Instant::ZERO));
        for _ in 0..MAX_MESSAGES {
            assert!(table.has_room_for_message() && table.has_room_for_resend());
            table.insert(message());
            table.insert(message().scheduled(NextStep::Resend, Instant::ZERO));
        }
        assert!(!table.has_room_for_message() && !table.has_room_for_resend());
        let mut table = ExchangeTable::default();
        for _ in 0..MAX_MESSAGES {
            table.insert(message());
        }
        assert!(!table.has_room_for_message() && table.has_room_for_resend());
    }

    #[test]
    fn list_of_tools_is_expected_while_one_that_was_accepted_waits_for_the_get_stream() {
        let mut table = ExchangeTable::default();
        let other = ExchangePurpose::Call { id: id(1, 0), method: CallMethod::Other };
        table.insert(exchange(call(id(0, 0))));
        table.insert(exchange(other).awaiting_get_stream());
        assert!(!table.expects_tool_list());
        let key = table.insert(exchange(call(id(2, 0))).awaiting_get_stream());
        assert!(table.expects_tool_list());
        table.remove(key);
        assert!(!table.expects_tool_list());
    }

    #[test]
    fn refusal_that_asks_for_a_credential_is_told_as_the_reason_of_its_deadline() {
        for (status, reason) in [(401, TimeoutReason::Credential), (500, TimeoutReason::Response)] {
            let mut table = ExchangeTable::default();
            let key = send(&mut table, exchange(call(id(0, 0))));
            let until = Instant::from_micros(9);
            table.collect_body(key, HttpResponse { status, ..response() }, true, Some(until));
            assert_eq!(table.timeout_reason(), Some((until, reason)));
        }
    }

    #[test]
    fn exchange_that_is_sent_anew_was_not_taken_yet() {
        let mut table = ExchangeTable::default();
        let key = send(&mut table, exchange(call(id(0, 0))));
        assert!(table.poll_action().is_some());
        let again = table.remove(key).expect("an exchange");
        let key = send(&mut table, again);
        assert!(table.abort(key).is_some() && table.poll_action().is_none());
    }

    #[test]
    fn rest_of_a_response_is_read_up_to_its_bound() {
        let mut table = ExchangeTable::default();
        let key = send(&mut table, exchange(call(id(0, 0))));
        table.drain(key, Instant::from_micros(9));
        for (length, expected) in [(MAX_DRAIN, false), (1, true)] {
            let sink = table.body_sink(key, length);
            assert!(matches!(sink, BodySink::Dropped { exceeded } if exceeded == expected), "{length}");
        }
    }

    #[test]
    fn undecoded_streams_are_forgotten_together() {
        let mut table = ExchangeTable::default();
        let key = send(&mut table, exchange(call(id(0, 0))));
        table.open_event_stream(key, Instant::ZERO, 1 << 10);
        table.end_stream(key, Ok(()));
        table.clear_streams();
        assert_eq!(table.pop_stream(), None);
    }
}
