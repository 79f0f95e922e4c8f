//! Exchanges as the HTTP implementation sees them, and their purposes.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use super::binding::{Client, max_frame};
use super::events::EventStreamState;
use super::exchange_table::ClientExchange;
use super::session::SendGate;
use crate::diagnostic::Diagnostic;
use crate::error::{AuthChallenge, HttpError, HttpResponse};
use crate::head::Fields;
use crate::rpc::RequestId;
use crate::slab::list::ListLinks;
use crate::sync::Arc;
use crate::time::Instant;
use crate::url::Url;

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
/// Answer it with [`Authorization::authorize`](super::Authorization::authorize) or
/// [`Authorization::refuse`](super::Authorization::refuse).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Challenge {
    /// The exchange to answer with; further challenged exchanges are held with it.
    pub exchange: ExchangeId,
    /// The reason.
    pub cause: ChallengeCause,
    /// The challenges of the server; empty if the credential is due.
    pub challenges: Vec<AuthChallenge>,
    /// Number of credentials tried for this request before.
    pub credentials_tried: u32,
}

/// The reason of a [`Challenge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChallengeCause {
    /// The server responded with 401.
    Unauthorized,
    /// The server responded with 403: the scope is not sufficient.
    InsufficientScope,
    /// The credential is due to be renewed ([`Credential::renew_at`](super::Credential::renew_at)); nothing was sent.
    Due,
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
    /// A call that stays open for its notifications.
    LongLived,
    /// `logging/setLevel`.
    SetLevel,
    Ping,
    /// `tasks/cancel`, which is sent even if the connection is closed meanwhile.
    CancelTask,
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

    /// Returns whether it ends work at the server, so that it has to arrive even if its answer is not waited for.
    pub(super) const fn cancels_task(&self) -> bool {
        matches!(self, Self::Call { method: CallMethod::CancelTask, .. })
    }

    /// Returns whether the response may name a new session.
    pub(super) const fn opens_session(&self) -> bool {
        matches!(self, Self::Call { method: CallMethod::Handshake, .. } | Self::RenewSession)
    }

    /// Returns the request of the engine that waits for this exchange.
    pub(super) const fn request_id(&self) -> Option<&RequestId> {
        match self {
            Self::Call { id, .. } | Self::Resume { id, .. } => Some(id),
            _ => None,
        }
    }

    /// Returns whether the request stays open for as long as the server likes.
    pub(super) const fn stays_open(&self) -> bool {
        matches!(
            self,
            Self::Call { method: CallMethod::Listen | CallMethod::LongLived, .. }
                | Self::Resume { method: CallMethod::Listen | CallMethod::LongLived, .. }
        )
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
            Self::Call { method: CallMethod::Listen | CallMethod::LongLived, .. }
            | Self::Resume { method: CallMethod::LongLived, .. }
            | Self::GetStream
            | Self::HttpSse => ExchangeClass::Stream,
            Self::Call { .. } | Self::Resume { .. } | Self::RefreshTools(_) => ExchangeClass::Request,
        }
    }
}

/// A call while its tool is looked up: it was refused for its header fields, or waits for the first list.
#[derive(Clone, Debug)]
pub(super) struct ToolRefresh {
    pub(super) call: RequestId,
    pub(super) tool: Box<str>,
    /// The message of the call.
    pub(super) message: Bytes,
    /// The refusal, with which the call ends if the lookup does not help; empty if the call was not sent yet.
    pub(super) refusal: Bytes,
    pub(super) retries: RetryCounts,
    pub(super) pages: u32,
}

/// The numbers of retries of one request, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct RetryCounts {
    pub(super) redirects: u8,
    pub(super) credentials: u32,
    /// Credentials that were renewed before the request was sent.
    pub(super) renewals: u8,
    /// Retries with another nonce in the proof.
    pub(super) nonces: u8,
    pub(super) sessions: u8,
    pub(super) refreshes: u8,
    /// Retries after a lost answer.
    pub(super) repeats: u32,
}

/// The phase of an exchange.
#[derive(Debug)]
pub(super) enum ExchangePhase {
    /// No response yet.
    Sent,
    /// An event stream, decoded by `ClientExchange::events`.
    EventStream,
    /// A body that is collected to its end.
    CollectingBody(Box<CollectedBody>),
    /// Held until there is a credential.
    ///
    /// `answer` is the refusal of the server; without one the request was not sent.
    AwaitingCredential { since: Instant, answer: Option<Box<HttpResponse>>, links: ListLinks },
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

// The GET stream of a legacy server, and reconnecting broken event streams.

impl Client {
    /// Opens the GET stream of a legacy server before the first call (HTTP-047).
    ///
    /// Calls wait until it is open: some servers send input requests on it, and drop them if it is not open. It is not
    /// opened later while a call is pending, because some servers send answers on whichever stream comes first.
    pub(super) fn open_get_stream(&mut self) {
        self.session.clear_get_stream_error();
        if !self.config.opens_get_stream || self.session.is_http_sse() || !self.is_legacy() {
            return self.open_gate();
        }
        self.session.close_gate(SendGate::AwaitingGetStream, self.now + self.config.get_stream_timeout);
        self.open_exchange(ExchangePurpose::GetStream, Bytes::new(), RetryCounts::default());
    }

    /// Handles the failure to open the GET stream; a server need not support it (HTTP-049).
    pub(super) fn get_stream_failed(&mut self, mut x: ClientExchange, error: &HttpError) {
        // Calls have waited for this stream and now go on without it.
        if self.session.gate() == SendGate::AwaitingGetStream {
            self.open_gate();
        }
        let was_open = x.events.as_ref().is_some_and(|events| events.was_open());
        let mut may_reopen = error.allows_reopen(was_open);
        // SSE-022, SSE-024
        // `forget_events` returns true once: a stream without an event id was not refused for that.
        if !may_reopen && error.refuses_resumption() && x.events.as_mut().is_some_and(|e| e.forget_events()) {
            let note = "the server cannot resume the GET stream; messages may be lost";
            self.engine.report_diagnostic(Diagnostic::Http(note.into()));
            may_reopen = true;
        }
        if may_reopen {
            let max = max_frame(&self.engine);
            // The state counts the attempts, also those of a stream that was never open.
            x.events.get_or_insert_with(|| EventStreamState::new(max).into());
            if self.schedule_reconnect(x, false, error.retry_after()).is_none() {
                return;
            }
        }
        if may_reopen || was_open {
            self.give_up_get_stream(error);
        } else {
            let reason = format!("the server does not support the GET stream: {error}");
            self.session.set_get_stream_error(reason);
            self.fail_awaiting_get_stream(error);
        }
    }

    /// Reports that the GET stream stays closed.
    pub(super) fn give_up_get_stream(&mut self, reason: &dyn fmt::Display) {
        let note = format!("the GET stream is not opened again: {reason}");
        self.session.set_get_stream_error(note.as_str());
        self.end_subscriptions_without_stream();
        self.fail_awaiting_get_stream(reason);
        self.engine.report_diagnostic(Diagnostic::Http(note));
    }

    // ---- calls that are answered there -----------------------------------------------------------------------

    /// Returns whether a call that was answered with 202 may get its response on the GET stream.
    ///
    /// A response belongs on the stream of its request (HTTP-021, HTTP-051), but some servers have one stream for all.
    /// Without a GET stream the response cannot arrive.
    pub(super) fn may_answer_on_get_stream(&self, x: &ClientExchange) -> bool {
        x.request_id().is_some() && self.exchanges.has_get_stream(x.session_serial)
    }

    /// Leaves a call to the GET stream. It ends with its response there, with the stream, or by its own time-out.
    pub(super) fn await_get_stream(&mut self, x: ClientExchange) {
        if self.session.record_answer_on_get_stream() {
            let note = "the server accepts requests with status 202 and answers them on the GET stream";
            self.engine.report_diagnostic(Diagnostic::Http(note.into()));
        }
        if matches!(x.purpose(), ExchangePurpose::Call { method: CallMethod::SetLevel, .. }) {
            // Later calls wait for the level, too.
            self.session.close_gate(SendGate::AwaitingLogLevel, self.now + self.config.get_stream_timeout);
        }
        self.exchanges.insert(x.awaiting_get_stream());
    }

    /// Ends the calls that wait for the GET stream, which stays closed.
    fn fail_awaiting_get_stream(&mut self, reason: &dyn fmt::Display) {
        for key in self.exchanges.keys_where(|x| matches!(x.phase(), ExchangePhase::AwaitingGetStream)) {
            let Some(x) = self.remove(key) else { continue };
            let Some(id) = x.request_id().cloned() else { continue };
            let reason = format!("the GET stream, where the answer was expected, stays closed: {reason}");
            self.retry_or_fail(x, &id, HttpError::Lost { reason: reason.into() });
        }
    }

    /// Reopens an event stream.
    pub(super) fn reconnect(&mut self, x: ClientExchange) {
        let purpose = match x.purpose().clone() {
            ExchangePurpose::Call { id, method } => ExchangePurpose::Resume { id, method },
            purpose => purpose,
        };
        let mut x = x.sent_as(purpose);
        // Streams are at the endpoint, wherever a redirect has led the POST.
        (x.url, x.body) = (self.config.endpoint.clone(), Bytes::new());
        self.submit(x, None);
    }
}
