//! One exchange of a client: its request, and the phases of its response.
//!
//! The rest of the client makes new exchanges of ended ones. Only the table changes the phase of an exchange in it.

use alloc::boxed::Box;

use bytes::Bytes;

use crate::error::HttpResponse;
use crate::http::client::event_stream::EventStreamState;
use crate::http::client::exchange::{CollectedBody, ExchangePhase, ExchangePurpose, NextStep, RetryCounts};
use crate::rpc::RequestId;
use crate::slab::list::ListLinks;
use crate::sync::Arc;
use crate::time::Instant;
use crate::url::Url;

/// Bytes of an unneeded response that are read to keep its connection.
const MAX_DRAIN: usize = 64 << 10;

/// One exchange: its request, and the progress of its response.
#[derive(Debug)]
pub(in crate::http::client) struct ClientExchange {
    purpose: ExchangePurpose,
    pub(in crate::http::client) url: Arc<Url>,
    /// The sent body, kept while it may be sent again.
    pub(in crate::http::client) body: Bytes,
    pub(in crate::http::client) retries: RetryCounts,
    /// The session in which it was sent.
    pub(in crate::http::client) session_serial: u32,
    /// The credential with which it was sent.
    pub(in crate::http::client) credential_generation: u32,
    phase: ExchangePhase,
    /// The request was taken by the HTTP implementation.
    is_taken: bool,
    /// Time at which it continues or ends by itself; the engine has the deadlines of its requests.
    deadline: Option<Instant>,
    pub(in crate::http::client) events: Option<Box<EventStreamState>>,
}

impl ClientExchange {
    /// Creates an exchange that is not in the table yet.
    pub(in crate::http::client) fn new(
        purpose: ExchangePurpose,
        url: Arc<Url>,
        body: Bytes,
        retries: RetryCounts,
    ) -> Self {
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

    pub(in crate::http::client) const fn purpose(&self) -> &ExchangePurpose {
        &self.purpose
    }

    pub(in crate::http::client) const fn phase(&self) -> &ExchangePhase {
        &self.phase
    }

    /// Returns the request of the engine that waits for this exchange.
    pub(in crate::http::client) const fn request_id(&self) -> Option<&RequestId> {
        self.purpose.request_id()
    }

    pub(in crate::http::client) const fn is_draining(&self) -> bool {
        matches!(self.phase, ExchangePhase::Draining { .. })
    }

    /// Returns whether the response is incomplete and still needed.
    pub(in crate::http::client) fn is_in_flight(&self) -> bool {
        let ended = self.events.as_ref().is_some_and(|e| e.ended.is_some());
        matches!(self.phase, ExchangePhase::Sent | ExchangePhase::CollectingBody(_))
            || (matches!(self.phase, ExchangePhase::EventStream) && !ended)
    }

    /// Returns the exchange with a time at which it ends by itself.
    pub(in crate::http::client) fn until(self, deadline: Option<Instant>) -> Self {
        Self { deadline, ..self }
    }

    /// Returns the exchange as it is sent anew.
    pub(in crate::http::client) fn sent(self) -> Self {
        Self { phase: ExchangePhase::Sent, ..self }
    }

    /// Returns the exchange with another purpose, as it is sent anew.
    pub(in crate::http::client) fn sent_as(self, purpose: ExchangePurpose) -> Self {
        Self { purpose, phase: ExchangePhase::Sent, ..self }
    }

    /// Returns the exchange as it continues by `step` at the time `until`.
    pub(in crate::http::client) fn scheduled(self, step: NextStep, until: Instant) -> Self {
        Self { phase: ExchangePhase::Scheduled(step), deadline: Some(until), ..self }
    }

    /// Returns the exchange as it is held until there is a credential, at most until `until`.
    pub(in crate::http::client) fn held(
        self,
        since: Instant,
        until: Instant,
        answer: Option<Box<HttpResponse>>,
    ) -> Self {
        let phase = ExchangePhase::AwaitingCredential { since, answer, links: ListLinks::NONE };
        Self { phase, deadline: Some(until), ..self }
    }

    /// Returns the exchange as its answer is expected on the GET stream.
    pub(in crate::http::client) fn awaiting_get_stream(self) -> Self {
        Self { phase: ExchangePhase::AwaitingGetStream, ..self }
    }

    /// Returns the exchange and its collected body.
    pub(in crate::http::client) fn take_body(mut self) -> Option<(Self, CollectedBody)> {
        match core::mem::replace(&mut self.phase, ExchangePhase::Sent) {
            ExchangePhase::CollectingBody(collected) => Some((self, *collected)),
            _ => None,
        }
    }

    /// Returns the purpose, without the exchange.
    pub(in crate::http::client) fn into_purpose(self) -> ExchangePurpose {
        self.purpose
    }

    // ---- for the table alone -----------------------------------------------------------------------------------

    /// Returns the exchange as it enters the table.
    pub(super) fn untaken(mut self) -> Self {
        if let Some(events) = &mut self.events {
            events.is_queued = false;
        }
        Self { is_taken: false, ..self }
    }

    /// Records that the HTTP implementation took the request.
    pub(super) const fn mark_taken(&mut self) {
        self.is_taken = true;
    }

    pub(super) const fn is_taken(&self) -> bool {
        self.is_taken
    }

    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub(super) const fn clear_deadline(&mut self) {
        self.deadline = None;
    }

    pub(super) const fn is_held(&self) -> bool {
        matches!(self.phase, ExchangePhase::AwaitingCredential { .. })
    }

    /// Takes the exchange, and leaves what is needed to read the rest of its response until `until`.
    pub(super) fn drain(&mut self, until: Instant) -> Self {
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
    pub(super) fn end_at(&mut self, until: Option<Instant>) {
        self.deadline = until.or(self.deadline);
    }

    /// Enters a phase of a response, if there was none.
    pub(super) fn begin_response(&mut self, phase: ExchangePhase) {
        if matches!(self.phase, ExchangePhase::Sent) {
            self.phase = phase;
        }
    }

    /// Begins to decode an event stream, if there was no response; its events are at most `max` bytes long.
    pub(super) fn open_event_stream(&mut self, now: Instant, max: usize) {
        if matches!(self.phase, ExchangePhase::Sent) {
            let events = self.events.get_or_insert_with(|| Box::new(EventStreamState::new(max)));
            events.reopen(now, max);
            self.phase = ExchangePhase::EventStream;
        }
    }

    /// Returns the place of a part of a body of this length.
    pub(super) fn body_sink(&mut self, len: usize) -> BodySink<'_> {
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
    pub(super) const fn set_list_links(&mut self, new: ListLinks) {
        if let ExchangePhase::AwaitingCredential { links, .. } = &mut self.phase {
            *links = new;
        }
    }

    /// Takes the time since which the exchange has been held, and the refusal; it is then as it is sent anew.
    pub(super) fn take_refusal(&mut self) -> Option<(Instant, Option<Box<HttpResponse>>)> {
        match core::mem::replace(&mut self.phase, ExchangePhase::Sent) {
            ExchangePhase::AwaitingCredential { since, answer, .. } => Some((since, answer)),
            _ => None,
        }
    }
}

/// The place of a part of a body.
pub(in crate::http::client) enum BodySink<'a> {
    Events(&'a mut EventStreamState),
    Collected(&'a mut CollectedBody),
    /// The part is dropped; `exceeded` if it is one part too many.
    Dropped {
        exceeded: bool,
    },
    /// No body is expected.
    None,
}
