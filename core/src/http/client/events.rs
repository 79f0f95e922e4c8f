//! Event streams: their messages, and the evaluation of their end.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;

use bytes::Bytes;

use super::binding::{Client, MessageParts};
use super::config::{FailureReason, ReconnectPolicy};
use super::exchange::{CallMethod, ExchangePurpose, NextStep};
use super::exchange_table::ClientExchange;
use crate::error::HttpError;
use crate::frame::sse::{SseDecoder, SseItem};
use crate::methods;
use crate::rpc::RequestId;
use crate::rpc::envelope::{self, Kind};
use crate::slab::Key;
use crate::time::Instant;

/// The kind of the message in an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EventMessageKind {
    Response,
    /// A response to another request.
    Foreign,
    Request,
    Notification,
    /// The notification that begins a subscription.
    Acknowledgment,
    Malformed,
}

impl EventMessageKind {
    fn classify(data: &[u8], limits: &crate::Limits, own: Option<&RequestId>) -> Self {
        match envelope::parse(data, limits, None) {
            Ok(envelope) => match envelope.kind {
                Kind::Response if envelope.id.is_some() && own.is_some() && envelope.id.as_ref() != own => {
                    Self::Foreign
                }
                Kind::Response => Self::Response,
                Kind::Request => Self::Request,
                Kind::Notification if envelope.method == methods::ACKNOWLEDGED => Self::Acknowledgment,
                Kind::Notification => Self::Notification,
            },
            Err(rejected) if rejected.is_response => Self::Response,
            Err(_) => Self::Malformed,
        }
    }
}

impl Client {
    /// Decodes one event of a stream.
    pub(super) fn decode_event(&mut self, key: Key) {
        let Some(events) = self.exchanges.get_mut(key).and_then(|x| x.events.as_mut()) else { return };
        // An event without an id of its own leaves the id as it was, and is no repeated one.
        let before = events.decoder.last_event_id().to_vec();
        let found = events.decoder.next_event();
        events.update_from_decoder();
        match found {
            None => {
                // The end takes effect only here, when all events before it are decoded.
                if let Some(how) = events.ended.take() {
                    if let Some(x) = self.remove(key) {
                        self.finish_event_stream(x, how);
                    }
                }
            }
            Some(found) => {
                let is_duplicate = events.is_duplicate(&before);
                // One event at a time, so that many streams take turns.
                self.exchanges.queue_stream(key);
                if is_duplicate {
                    return;
                }
                match found {
                    SseItem::Event(event) => self.receive_event(key, event.kind.as_deref(), event.data),
                    SseItem::TooLong { kind: Some(_), .. } => {} // SSE-001
                    SseItem::TooLong { oversize, .. } => {
                        let what = self.exchanges.get(key).map(|x| x.purpose().clone());
                        match what.as_ref().and_then(ExchangePurpose::request_id) {
                            Some(_) if oversize.recovered.is_response => {
                                if let Some(x) = self.abort(key) {
                                    self.fail_too_large(x);
                                }
                            }
                            _ => {
                                self.engine.exchanges().handle_oversize(
                                    self.now,
                                    oversize,
                                    &mut self.ended_requests,
                                );
                                self.release_answered();
                            }
                        }
                    }
                }
            }
        }
    }

    fn receive_event(&mut self, key: Key, kind: Option<&[u8]>, data: Bytes) {
        let Some(x) = self.exchanges.get_mut(key) else { return };
        if matches!(x.purpose(), ExchangePurpose::HttpSse) && !self.session.is_http_sse() {
            return self.receive_endpoint(key, kind, &data);
        }
        if kind.is_some() {
            return; // SSE-001
        }
        let is_from_lost_session = x.session_serial != self.session.serial();
        // Most messages are parsed once, by the engine; these have to be told apart before.
        let must_classify = is_from_lost_session
            || matches!(
                x.purpose(),
                ExchangePurpose::RenewSession
                    | ExchangePurpose::RefreshTools(_)
                    | ExchangePurpose::Call { method: CallMethod::Listen, .. }
            );
        // Only of a request that the engine does not know the body is still there.
        let own = if must_classify { MessageParts::parse(&x.body).id } else { None };
        let message_kind = must_classify.then(|| {
            EventMessageKind::classify(&data, self.engine.config().effective_limits(), own.as_ref())
        });
        // A request of another session must not be answered in this one, where its id may differ in meaning.
        if is_from_lost_session
            && matches!(message_kind, Some(EventMessageKind::Request | EventMessageKind::Malformed))
        {
            return;
        }
        if let Some(events) = &mut x.events {
            let is_acknowledgment = message_kind == Some(EventMessageKind::Acknowledgment);
            events.yielded = events.yielded.max(if is_acknowledgment {
                StreamYield::Acknowledgment
            } else {
                StreamYield::Messages
            });
        }
        let purpose = x.purpose().clone();
        receive_for(self, key, &purpose, message_kind, data);
    }

    /// Passes a message to the engine.
    pub(super) fn deliver(&mut self, data: Bytes, own: Option<&RequestId>) {
        let ended = &mut self.ended_requests;
        self.engine.exchanges().handle_recorded_message(self.now, data, own, ended);
        self.release_answered();
    }

    /// Concludes the exchanges of the requests that the last message has ended.
    fn release_answered(&mut self) {
        // `conclude` borrows the client, so the list is taken out. It goes back, because its memory is used again.
        let ended = core::mem::take(&mut self.ended_requests);
        for call in &ended {
            if let Some(key) = self.exchanges.find_by_call(*call) {
                self.conclude(key);
            }
        }
        self.ended_requests = ended;
    }

    /// Handles the end of an event stream after all its events.
    fn finish_event_stream(&mut self, x: ClientExchange, how: Result<(), FailureReason>) {
        let is_whole = how.is_ok();
        let ended = if matches!(x.purpose(), ExchangePurpose::GetStream) {
            "the server ended it"
        } else {
            "the event stream ended before the answer"
        };
        let reason = how.err().unwrap_or_else(|| ended.into());
        match x.purpose() {
            ExchangePurpose::Call { id, .. } | ExchangePurpose::Resume { id, .. } => {
                if !self.engine.awaits_response(id) {
                    return;
                }
                let is_negotiation = matches!(
                    x.purpose(),
                    ExchangePurpose::Call { method: CallMethod::Probe | CallMethod::Handshake, .. }
                );
                // A whole stream without an answer tells something about the era (VER-020), and a broken one does not.
                if is_negotiation && is_whole {
                    return end_unanswered(self, x, HttpError::Unanswered { status: 200 });
                }
                let can_resume =
                    self.is_legacy() && x.events.as_ref().is_some_and(|e| !e.last_event_id.is_empty());
                if can_resume && x.session_serial != self.session.serial() {
                    let id = id.clone();
                    return self.retry_or_fail(x, &id, HttpError::SessionLost);
                }
                // SSE-019, SSE-020, SSE-021
                let x = if can_resume { self.schedule_reconnect(x, true, Duration::ZERO) } else { Some(x) };
                match x {
                    Some(x) if is_whole => end_unanswered(self, x, HttpError::Lost { reason }),
                    Some(x) => self.exchange_failed(x, HttpError::Lost { reason }),
                    None => {}
                }
            }
            ExchangePurpose::GetStream => {
                if self.schedule_reconnect(x, false, Duration::ZERO).is_some() {
                    self.give_up_get_stream(&reason);
                }
            }
            _ => self.exchange_failed(x, HttpError::Lost { reason }),
        }
    }

    /// Ends the subscriptions that need the GET stream, if it stays closed.
    pub(super) fn end_subscriptions_without_stream(&mut self) {
        if let Some(reason) = self.session.get_stream_error().filter(|_| self.engine.has_subscriptions()) {
            let error = HttpError::GetStreamUnavailable { reason: reason.into() };
            self.engine.exchanges().handle_change_stream_lost(self.now, &error.into());
        }
    }

    /// Schedules the reopening of a stream after at least `least`; returns the exchange if it must not be reopened.
    pub(super) fn schedule_reconnect(
        &mut self,
        mut x: ClientExchange,
        polled: bool,
        least: Duration,
    ) -> Option<ClientExchange> {
        let Some(pause) =
            x.events.as_mut().and_then(|e| e.next_delay(self.now, &self.config.reconnect, polled))
        else {
            return Some(x);
        };
        self.exchanges.insert(x.scheduled(NextStep::Reconnect, self.now + pause.max(least)));
        None
    }
}

/// Handles the end of an exchange without the answer: an answer that was skipped in it was meant, if there was one.
pub(super) fn end_unanswered(client: &mut Client, x: ClientExchange, error: HttpError) {
    match x.request_id().filter(|id| client.engine.exchanges().has_skipped_answer(id)) {
        Some(id) => client.engine.exchanges().fail_request(client.now, id, error.into()),
        None => client.exchange_failed(x, error),
    }
}

/// Takes a message of an event stream, by the purpose of its exchange.
fn receive_for(
    client: &mut Client,
    key: Key,
    purpose: &ExchangePurpose,
    message_kind: Option<EventMessageKind>,
    data: Bytes,
) {
    match purpose {
        ExchangePurpose::Call { id, .. } | ExchangePurpose::Resume { id, .. } => {
            client.record_attempt(purpose, &data);
            let was_awaited = client.engine.awaits_response(id);
            // The engine must not see tools that cannot be called, so they are taken out first (XHDR-011).
            let data = if purpose.lists_tools() { client.learn_tools(data) } else { data };
            client.deliver(data, Some(id));
            // Of a request that was given up before, the cancellation aborts the exchange: its stream may have no end to read to.
            if was_awaited && !client.engine.awaits_response(id) {
                client.session.record_answer();
                client.conclude(key); // SSE-011: later events are ignored.
            }
        }
        ExchangePurpose::GetStream => {
            let data = if client.exchanges.expects_tool_list() { client.learn_tools(data) } else { data };
            client.deliver(data, None);
        }
        ExchangePurpose::HttpSse => client.deliver(data, None),
        // A message before the response.
        ExchangePurpose::RenewSession | ExchangePurpose::RefreshTools(_)
            if message_kind != Some(EventMessageKind::Response) =>
        {
            client.deliver(data, None)
        }
        ExchangePurpose::RenewSession => {
            client.conclude(key);
            client.finish_renewal(&data);
        }
        ExchangePurpose::RefreshTools(_) => {
            if let Some(x) = client.conclude(key) {
                client.process_tools_page(x, &data);
            }
        }
        ExchangePurpose::Message { .. }
        | ExchangePurpose::ConfirmSession
        | ExchangePurpose::DeleteSession => {}
    }
}

// The state of an event stream across its connections: decoder, event ids, and delays between connections.

/// Number of remembered event ids, to detect repeated events.
const MAX_RECENT_IDS: usize = 32;

/// An event stream, across all its connections.
#[derive(Debug)]
pub(super) struct EventStreamState {
    pub(super) decoder: SseDecoder,
    /// The exchange is in the queue of streams with undecoded events.
    pub(super) is_queued: bool,
    /// Outcome of the current connection.
    pub(super) ended: Option<Result<(), FailureReason>>,
    /// The id to resume after.
    pub(super) last_event_id: Box<[u8]>,
    recent_ids: VecDeque<Box<[u8]>>,
    pub(super) retry: Option<Duration>,
    history: StreamHistory,
    /// Time at which it was opened; taken when its end is evaluated.
    opened_at: Option<Instant>,
    /// Yield of the current connection.
    pub(super) yielded: StreamYield,
    /// The current connection has sent an event id.
    id_advanced: bool,
    /// Consecutive unproductive connections.
    failures: u32,
}

/// The connections that an event stream has had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StreamHistory {
    /// None yet.
    None,
    /// The current one sends new events.
    New,
    /// Events of the one before, which broke, may be sent again.
    Replaying,
}

/// The yield of a connection of an event stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum StreamYield {
    Nothing,
    /// The acknowledgment of a subscription, and no messages.
    Acknowledgment,
    Messages,
}

impl EventStreamState {
    pub(super) fn new(max: usize) -> Self {
        Self {
            decoder: SseDecoder::new(max),
            is_queued: false,
            ended: None,
            last_event_id: Box::default(),
            recent_ids: VecDeque::new(),
            retry: None,
            history: StreamHistory::None,
            opened_at: None,
            yielded: StreamYield::Nothing,
            id_advanced: false,
            failures: 0,
        }
    }

    /// Returns whether the stream has been open.
    pub(super) fn was_open(&self) -> bool {
        self.history != StreamHistory::None
    }

    /// Starts to decode a new connection.
    pub(super) fn reopen(&mut self, now: Instant, max: usize) {
        // A part of an event is lost with its connection; the server sends the event again or not at all.
        self.decoder = SseDecoder::new(max);
        self.ended = None;
        self.history = if self.was_open() { StreamHistory::Replaying } else { StreamHistory::New };
        self.opened_at = Some(now);
        self.yielded = StreamYield::Nothing;
        self.id_advanced = false;
    }

    /// Forgets the received events: the next connection is a new stream, whose ids may be used again.
    ///
    /// Replay is optional, and bounded where there is any. What was missed is lost, but the stream can be opened anew.
    /// Returns false if the last connection was such a stream already.
    pub(super) fn forget_events(&mut self) -> bool {
        self.recent_ids.clear();
        !core::mem::take(&mut self.last_event_id).is_empty()
    }

    /// Records the event id and the retry time of the decoder.
    pub(super) fn update_from_decoder(&mut self) {
        let id = self.decoder.last_event_id();
        // The decoder of a new connection begins without an id. That must not erase the id to resume after.
        if *id != *self.last_event_id && (!id.is_empty() || self.id_advanced) {
            // An id that does not fit into a header field cannot be used.
            let trimmed = id.trim_ascii().len() == id.len();
            let fits = trimmed && id.iter().all(|b| *b >= b' ' && *b != 0x7f);
            self.last_event_id = if fits { id.into() } else { Box::default() };
            self.id_advanced = true;
        }
        self.retry = self.decoder.retry().or(self.retry);
    }

    /// Returns whether the decoded event was received before; `before` is the previous id of the decoder.
    ///
    /// Only the first events on a new connection can be duplicates. So no event is lost if a server uses an id twice.
    pub(super) fn is_duplicate(&mut self, before: &[u8]) -> bool {
        let id = self.decoder.last_event_id();
        // An event without an id of its own is always new.
        if id.is_empty() || id == before {
            return false;
        }
        if self.recent_ids.iter().any(|known| **known == *id) {
            return self.history == StreamHistory::Replaying;
        }
        self.history = StreamHistory::New;
        if self.recent_ids.len() >= MAX_RECENT_IDS {
            self.recent_ids.pop_front();
        }
        self.recent_ids.push_back(id.into());
        false
    }

    /// Returns the yield of the ended connection; one that was open for `max_delay` counts as productive.
    ///
    /// Each connection is evaluated once. Later attempts that fail to connect yield nothing.
    pub(super) fn take_yield(&mut self, now: Instant, policy: &ReconnectPolicy) -> StreamYield {
        let lived = self.opened_at.take().map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let brought = core::mem::replace(&mut self.yielded, StreamYield::Nothing);
        if lived >= policy.max_delay { StreamYield::Messages } else { brought }
    }

    /// Returns the delay before the stream is reopened, or `None` after `max_attempts` unproductive connections.
    ///
    /// `polled` means that the server may end the stream on purpose and something else limits the total time. A new
    /// event id then counts as productive (SSE-017).
    pub(super) fn next_delay(
        &mut self,
        now: Instant,
        policy: &ReconnectPolicy,
        polled: bool,
    ) -> Option<Duration> {
        let advanced = core::mem::take(&mut self.id_advanced);
        if self.take_yield(now, policy) == StreamYield::Messages || (polled && advanced) {
            self.failures = 0;
        }
        if self.failures >= policy.max_attempts {
            return None;
        }
        self.failures += 1;
        Some(match self.retry {
            Some(retry) => {
                // The first attempt waits as the server asks. From the second one on the growing delay counts, too:
                // the server may be down.
                let more = self.failures.checked_sub(2).map_or(Duration::ZERO, |n| backoff(policy, n));
                // A retry time of zero would keep the client busy.
                retry.max(more).max(Duration::from_millis(50))
            }
            None => backoff(policy, self.failures - 1),
        })
    }
}

/// Returns the delay after this number of attempts (SSE-026).
pub(super) fn backoff(policy: &ReconnectPolicy, tries: u32) -> Duration {
    // The bound keeps the shift within 32 bits.
    policy.initial_delay.saturating_mul(1 << tries.min(20)).min(policy.max_delay)
}
