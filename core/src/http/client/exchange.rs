//! Exchanges as the HTTP implementation sees them, and their purposes.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::error::{AuthChallenge, HttpResponse};
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
