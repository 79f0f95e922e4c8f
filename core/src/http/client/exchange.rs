//! The state of one exchange: its request, and the progress of its response.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::config::{FailureReason, ReconnectPolicy};
use super::url::Url;
use crate::error::{AuthChallenge, HttpResponse};
use crate::frame::sse::SseDecoder;
use crate::head::Fields;
use crate::rpc::RequestId;
use crate::time::Instant;

crate::slab::key! {
    /// The id of an exchange: one request and its response.
    ///
    /// It is stale once the exchange has ended or was aborted. Input for a stale id is ignored.
    ExchangeId
}

/// An action for the HTTP implementation.
#[derive(Debug)]
#[non_exhaustive]
pub enum Action {
    /// Send a request and report its response.
    Send(OutgoingRequest),
    /// Abort an exchange; its response is not needed.
    Abort {
        /// The exchange; stale from now on.
        exchange: ExchangeId,
    },
}

/// A request to send.
///
/// The HTTP implementation adds `Host`, `Content-Length` and the fields of the connection.
#[derive(Debug)]
#[non_exhaustive]
pub struct OutgoingRequest {
    /// The id for reporting the response.
    pub exchange: ExchangeId,
    /// `POST`, `GET` or `DELETE`.
    pub method: &'static str,
    /// The URL.
    pub url: Arc<Url>,
    /// The header fields.
    pub fields: Fields,
    /// The whole body; empty if there is none.
    pub body: Bytes,
    /// Expected duration of the exchange.
    pub class: ExchangeClass,
    /// Whether the request may be sent twice.
    pub idempotent: bool,
}

/// The expected duration of an exchange, for connection pools.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum ExchangeClass {
    /// Answered immediately.
    ///
    /// Exchanges of the other classes may wait for it, so it must never wait for one of those.
    Message,
    /// Answered when the server has processed it.
    Request,
    /// Open until one side closes it.
    Stream,
}

/// The failure of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeFailure {
    /// Whether the server may have received any of the request.
    pub may_have_been_sent: bool,
    /// The reason, as human-readable text.
    pub reason: Box<str>,
}

impl ExchangeFailure {
    /// Creates a failure without a connection, or before any byte was written.
    #[must_use]
    pub fn unsent(reason: impl Into<Box<str>>) -> Self {
        Self { may_have_been_sent: false, reason: reason.into() }
    }

    /// Creates a failure after the request may have been sent.
    #[must_use]
    pub fn interrupted(reason: impl Into<Box<str>>) -> Self {
        Self { may_have_been_sent: true, reason: reason.into() }
    }
}

/// A request of the server for a credential.
///
/// Answer it with [`Client::authorize`](super::Client::authorize) or [`Client::refuse`](super::Client::refuse).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Challenge {
    /// The exchange to answer with; further challenged exchanges are held with it.
    pub exchange: ExchangeId,
    /// The status: 401, or 403 if the scope is insufficient.
    pub status: u16,
    /// The challenges of the server.
    pub challenges: Vec<AuthChallenge>,
    /// Number of credentials tried for this request before.
    pub credentials_tried: u32,
}

/// The kind of an outbound call, as far as the transport distinguishes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CallMethod {
    /// `server/discover`, during the negotiation.
    Probe,
    Handshake,
    ListTools,
    CallTool,
    /// `subscriptions/listen`.
    Listen,
    /// `logging/setLevel`.
    SetLevel,
    Ping,
    Other,
}

/// The purpose of an exchange.
#[derive(Clone, Debug)]
pub(super) enum ExchangePurpose {
    /// A request of the engine.
    Call { id: RequestId, method: CallMethod },
    /// A notification or a response of the engine.
    Message { initialized: bool },
    /// The GET stream of a legacy server.
    GetStream,
    /// A GET that resumes the event stream of a request.
    Resume { id: RequestId, method: CallMethod },
    /// The GET of HTTP+SSE.
    HttpSse,
    /// `initialize` for a new session.
    RenewSession,
    /// `notifications/initialized` for a new session.
    ConfirmSession,
    /// `tools/list`, to learn the header fields of a call.
    RefreshTools(Box<ToolRefresh>),
    /// The DELETE that ends the session.
    DeleteSession,
}

impl ExchangePurpose {
    /// Returns whether the response is a list of tools, which has the annotations of header fields.
    pub(super) fn lists_tools(&self) -> bool {
        let (Self::Call { method, .. } | Self::Resume { method, .. }) = self else { return false };
        *method == CallMethod::ListTools
    }

    /// Returns the request of the engine that waits for this exchange.
    pub(super) const fn request_id(&self) -> Option<&RequestId> {
        match self {
            Self::Call { id, .. } | Self::Resume { id, .. } => Some(id),
            _ => None,
        }
    }

    pub(super) const fn class(&self) -> ExchangeClass {
        match self {
            Self::Message { .. } | Self::RenewSession | Self::ConfirmSession | Self::DeleteSession => {
                ExchangeClass::Message
            }
            // A ping that waits for the connection of a long call would time out.
            Self::Call { method: CallMethod::Probe | CallMethod::Handshake | CallMethod::Ping, .. } => {
                ExchangeClass::Message
            }
            Self::Call { method: CallMethod::Listen, .. } | Self::GetStream | Self::HttpSse => {
                ExchangeClass::Stream
            }
            Self::Call { .. } | Self::Resume { .. } | Self::RefreshTools(_) => ExchangeClass::Request,
        }
    }
}

/// A call that was refused for its header fields, while its tool is looked up.
#[derive(Clone, Debug)]
pub(super) struct ToolRefresh {
    pub(super) call: RequestId,
    pub(super) tool: Box<str>,
    /// The refusal, with which the call ends if the lookup does not help.
    pub(super) refusal: Bytes,
    pub(super) retries: RetryCounts,
    pub(super) pages: u32,
}

/// The numbers of retries of one request, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct RetryCounts {
    pub(super) redirects: u8,
    pub(super) credentials: u32,
    pub(super) sessions: u8,
    pub(super) refreshes: u8,
    /// Retries after a lost answer.
    pub(super) repeats: u32,
}

#[derive(Debug)]
pub(super) struct ClientExchange {
    pub(super) purpose: ExchangePurpose,
    pub(super) url: Arc<Url>,
    /// The sent body, kept while it may be sent again.
    pub(super) body: Bytes,
    pub(super) retries: RetryCounts,
    /// The session in which it was sent.
    pub(super) session_serial: u32,
    /// The credential with which it was sent.
    pub(super) credential_generation: u32,
    pub(super) phase: ExchangePhase,
    /// Time at which it continues or ends by itself; the engine has the deadlines of its requests.
    pub(super) deadline: Option<Instant>,
    pub(super) events: Option<Box<EventStreamState>>,
}

impl ClientExchange {
    /// Returns whether the response is incomplete and still needed.
    pub(super) fn is_in_flight(&self) -> bool {
        let ended = self.events.as_ref().is_some_and(|e| e.ended.is_some());
        matches!(self.phase, ExchangePhase::Sent | ExchangePhase::CollectingBody(_))
            || (matches!(self.phase, ExchangePhase::EventStream) && !ended)
    }
}

#[derive(Debug)]
pub(super) enum ExchangePhase {
    /// No response yet.
    Sent,
    /// An event stream, decoded by [`ClientExchange::events`].
    EventStream,
    /// A body that is collected to its end.
    CollectingBody(Box<CollectedBody>),
    /// Held until there is a credential.
    AwaitingCredential { since: Instant, answer: Box<HttpResponse> },
    /// A call that was answered with 202; its response is expected on the GET stream.
    AwaitingGetStream,
    /// Continues at `deadline`.
    Scheduled(NextStep),
    /// The response is not needed; at most this many bytes are read.
    Draining { remaining: usize },
}

/// The step after a delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NextStep {
    /// A GET that resumes the stream, or opens it anew.
    Reconnect,
    /// The same request under a new id.
    RetryWithNewId,
    /// The same message, which was not processed.
    Resend,
}

/// A body with the head of its response.
#[derive(Debug)]
pub(super) struct CollectedBody {
    pub(super) response: HttpResponse,
    pub(super) is_json: bool,
    pub(super) body: Vec<u8>,
}

/// Number of remembered event ids, to detect repeated events.
const MAX_RECENT_IDS: usize = 32;

/// An event stream, across all its connections.
#[derive(Debug)]
pub(super) struct EventStreamState {
    pub(super) decoder: SseDecoder,
    /// The exchange is in `Client::ready_streams`.
    pub(super) is_queued: bool,
    /// Outcome of the current connection.
    pub(super) ended: Option<Result<(), FailureReason>>,
    /// The id to resume after.
    pub(super) last_event_id: Box<[u8]>,
    recent_ids: VecDeque<Box<[u8]>>,
    /// Events of the broken connection may be sent again.
    may_replay: bool,
    pub(super) retry: Option<Duration>,
    /// The stream has been open.
    pub(super) was_open: bool,
    /// Time at which it was opened; taken when its end is evaluated.
    opened_at: Option<Instant>,
    /// Yield of the current connection.
    pub(super) yielded: StreamYield,
    /// The current connection has sent an event id.
    id_advanced: bool,
    /// Consecutive unproductive connections.
    failures: u32,
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
            may_replay: false,
            retry: None,
            was_open: false,
            opened_at: None,
            yielded: StreamYield::Nothing,
            id_advanced: false,
            failures: 0,
        }
    }

    /// Starts to decode a new connection.
    pub(super) fn reopen(&mut self, now: Instant, max: usize) {
        self.decoder = SseDecoder::new(max);
        self.ended = None;
        self.may_replay = self.was_open;
        self.was_open = true;
        self.opened_at = Some(now);
        self.yielded = StreamYield::Nothing;
        self.id_advanced = false;
    }

    /// Forgets the received events: the next connection is a new stream, whose ids may be used again.
    pub(super) fn forget_events(&mut self) {
        self.last_event_id = Box::default();
        self.recent_ids.clear();
    }

    /// Records the event id and the retry time of the decoder.
    pub(super) fn update_from_decoder(&mut self) {
        let id = self.decoder.last_event_id();
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
            return self.may_replay;
        }
        self.may_replay = false;
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
                let more = self.failures.checked_sub(2).map_or(Duration::ZERO, |n| backoff(policy, n));
                retry.max(more).max(Duration::from_millis(50))
            }
            None => backoff(policy, self.failures - 1),
        })
    }
}

/// Returns the delay after this number of attempts (SSE-026).
pub(super) fn backoff(policy: &ReconnectPolicy, tries: u32) -> Duration {
    policy.initial_delay.saturating_mul(1 << tries.min(20)).min(policy.max_delay)
}
