//! The three error types: a connection has ended, a call failed, a command was refused.

mod authorization;
mod http;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

pub use authorization::AuthorizationError;
#[cfg(feature = "http")]
pub(crate) use http::quoted;
pub use http::{AuthChallenge, HttpError, HttpResponse};

use crate::diagnostic::Diagnostic;
use crate::json::EncodeError;
use crate::limits::Limit;
use crate::methods::{self, Capability};
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::sync::Arc;
use crate::version::{KnownEra, Version, VersionSet};

/// The reason why a connection has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The peer closed its side between two messages.
    #[error("the peer closed the connection")]
    Eof,
    /// The peer closed its side in the middle of a message.
    #[error("the peer closed the connection in the middle of a message (after {bytes} bytes)")]
    Truncated {
        /// Bytes of the unfinished message.
        bytes: usize,
    },
    /// This side closed the connection.
    #[error("the connection was closed by this side")]
    Closed,
    /// Too many faulty messages arrived in a row ([`Limits::max_faulty_messages`](crate::Limits::max_faulty_messages)).
    #[error("{count} faulty messages in a row")]
    TooManyFaultyMessages {
        /// Number of faulty messages.
        count: u32,
    },
    /// The peer left too many keep-alive pings in a row unanswered (PING-003, PING-005).
    ///
    /// See `keep_alive_ping` of the engines' configurations.
    #[error("the peer did not answer {misses} keep-alive pings in a row")]
    PingTimeout {
        /// Number of unanswered pings.
        misses: u32,
    },
    /// The server closed its side during the probe.
    ///
    /// Some legacy servers exit on a request that they do not know. Start the server again and connect with the era of
    /// [`Fault::retry_with`].
    #[error("the server closed the connection on `server/discover`{}", untried(!.legacy))]
    ExitedDuringProbe {
        /// Whether a handshake in the legacy era may work on a new connection.
        legacy: bool,
    },
    /// Both sides speak MCP, but have no revision in common (VER-006, VER-010).
    #[error("no common protocol version: the client speaks {supported}, the server {}", .offered.join(", "))]
    NoCommonVersion {
        /// Revisions that this client speaks.
        supported: VersionSet,
        /// Revisions that the server named.
        offered: Vec<String>,
    },
    /// The server requires `initialize`, but this client is limited to modern revisions (VER-034).
    #[error("the server speaks only revisions with an `initialize` handshake, the client only {supported}: let it speak older ones, too{}",
        match .error { Some(a) => alloc::format!("; the server answered: {a}"), None => String::new() })]
    LegacyServer {
        /// Revisions that this client speaks.
        supported: VersionSet,
        /// Error that the server answered to the probe, if any.
        error: Option<RpcError>,
    },
    /// The server answered the handshake with an error.
    #[error("the server refused to connect: {0}")]
    HandshakeRefused(RpcError),
    /// The server's answer to the handshake is not valid.
    #[error("the server's answer to `{method}` is not valid: {reason}")]
    BadHandshake {
        /// Method of the request.
        method: &'static str,
        /// Reason why the answer is not valid.
        reason: Cow<'static, str>,
    },
    /// The server did not answer the handshake in time (TIME-007).
    #[error("the server did not answer `{method}` in time{}{}",
        untried(*.method == methods::DISCOVER), meanwhile(.stray.as_deref()))]
    HandshakeTimeout {
        /// Method of the request.
        method: &'static str,
        /// A message that arrived meanwhile and may have been the answer: see [`CallError::Misaddressed`].
        stray: Option<Box<Diagnostic>>,
    },
    /// There was no memory to send a message of the handshake ([`Limits::memory_reserve`](crate::Limits::memory_reserve)).
    #[error("not enough memory to send `{method}`")]
    OutOfMemory {
        /// Method of the message.
        method: &'static str,
    },
    /// The peer returns the messages that it receives.
    ///
    /// It is not an MCP server. It is `cat` for example, a terminal with echo, or our own output.
    #[error("the peer returns every message that it receives, so it is not an MCP server")]
    Echo,
    /// An HTTP exchange that the connection depends on failed, in a way that does not show the era (VER-021).
    #[error("{0}")]
    Http(Arc<HttpError>),
    /// No MCP server answered at the URL, by any of the HTTP transports (VER-031, HTTP-084).
    #[error("no MCP server answers at this URL: {}", .attempts.join("; "))]
    NoServer {
        /// Attempts in order, each with its outcome; last the words of [`Fault::untried_handshake`], if there are any.
        attempts: Vec<String>,
    },
    /// The transport has failed. Reported by bindings outside of this crate (`client::Exchanges::close`).
    #[error("the transport failed: {reason}")]
    Transport {
        /// Reason, in the words of the binding.
        reason: String,
    },
}

impl Fault {
    /// Returns the era to use on a new connection, if that is likely to succeed.
    ///
    /// An adapter that can start the server again does so once.
    #[must_use]
    pub const fn retry_with(&self) -> Option<KnownEra> {
        match self {
            Self::ExitedDuringProbe { legacy: true } => Some(KnownEra::Legacy),
            _ => None,
        }
    }

    /// Returns the words that the server may speak only revisions with a handshake, if the client has tried none (VER-034).
    ///
    /// The message of the fault ends with them. Who describes the end of the connection in other words adds them.
    #[must_use]
    pub fn untried_handshake(&self) -> Option<&'static str> {
        let is_untried = match self {
            Self::ExitedDuringProbe { legacy } => !legacy,
            Self::HandshakeTimeout { method, .. } => *method == methods::DISCOVER,
            Self::NoServer { attempts } => attempts.last().is_some_and(|last| last == UNTRIED_HANDSHAKE),
            _ => false,
        };
        is_untried.then_some(UNTRIED_HANDSHAKE)
    }
}

pub(crate) const UNTRIED_HANDSHAKE: &str = "it may speak only revisions with an `initialize` handshake, which was not tried: let the client speak them, too";

fn untried(is_untried: bool) -> String {
    if is_untried { alloc::format!("; {UNTRIED_HANDSHAKE}") } else { String::new() }
}

/// The reason why an outbound call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The peer answered with an error.
    #[error(transparent)]
    Rpc(RpcError),
    /// Neither an answer nor progress arrived within the timeout (TIME-001).
    #[error("no answer in time")]
    TimedOut,
    /// The call took longer than its total timeout, with or without progress (TIME-006).
    #[error("not finished in the total time allowed")]
    TotalTimedOut,
    /// No answer arrived in time, but one without a usable id did, which may have been meant (BASE-013).
    ///
    /// It is the last [`Diagnostic::PeerError`], [`Diagnostic::UnknownResponse`] or [`Diagnostic::Malformed`] since the call
    /// was sent. Otherwise the call ends as after [`TimedOut`](Self::TimedOut).
    #[error("no answer in time{}", meanwhile(Some(.0)))]
    Misaddressed(Box<Diagnostic>),
    /// The application cancelled the call.
    #[error("cancelled")]
    Cancelled,
    /// The connection ended before the answer arrived.
    #[error("the connection ended before the answer: {0}")]
    Closed(Fault),
    /// The answer is not a valid response.
    #[error("the answer is malformed: {0}")]
    Malformed(crate::rpc::envelope::MalformedMessage),
    /// The answer is longer than [`Limits::max_frame`](crate::Limits::max_frame).
    #[error("the answer is longer than the limit of {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The result has an unknown `resultType` (BASE-030).
    #[error("the result has the unknown type {0}")]
    UnknownResultType(RawJson),
    /// The server answered with input requests that are not valid (MRTR-005, MRTR-008).
    #[error("the server asked for input in a way that is not valid: {reason}")]
    InvalidInputRequest {
        /// Reason why they are not valid.
        reason: String,
    },
    /// The server asked for input that needs a capability which this client did not declare (MRTR-009, SAMP-009).
    #[error("the server asked for input that needs the capability `{0}`, which the client did not declare")]
    NotDeclared(Capability),
    /// The server asked for input too often ([`Limits::max_input_rounds`](crate::Limits::max_input_rounds)).
    #[error("the server asked for input more than {limit} times")]
    TooManyRounds {
        /// The limit.
        limit: u32,
    },
    /// The application refused an input request of the call (MRTR-031).
    #[error("the server asked for input, which was refused: {0}")]
    InputRefused(RpcError),
    /// An input request of the call was not answered in time.
    #[error("the server asked for input, which was not given in time")]
    InputTimedOut,
    /// The peer has cancelled the task of the call, or of the question (TASK-013).
    #[error("the task was cancelled{}", match .message { Some(m) => alloc::format!(": {m}"), None => String::new() })]
    TaskCancelled {
        /// Message of the peer; untrusted text.
        message: Option<String>,
    },
    /// The peer does not know the task of the call or of the question, or not any more (TASK-031, TASK-124).
    #[error("the peer does not know the task: {0}")]
    TaskLost(RpcError),
    /// The time to live of the task has passed, and it has not ended (TASK-116).
    #[error("the time to live of the task has passed")]
    TaskExpired,
    /// The peer described a task in a way that is not valid (TASK-014, TASK-108, TASK-112).
    #[error("the peer described a task in a way that is not valid: {reason}")]
    InvalidTask {
        /// Reason why it is not valid.
        reason: String,
    },
    /// The peer or the negotiated revision lacks a feature that the call needs.
    ///
    /// The call was queued before the revision was known.
    #[error(transparent)]
    Refused(UseError),
    /// The HTTP exchange failed before the answer arrived.
    #[error("{0}")]
    Http(Arc<HttpError>),
    /// The exchange failed before the answer arrived. Reported by bindings outside of this crate
    /// (`client::Exchanges::fail_request`).
    #[error("the exchange of the call failed: {reason}")]
    Transport {
        /// Reason, in the words of the binding.
        reason: String,
    },
}

/// # Over HTTP
impl CallError {
    /// Returns the time that the server asks to wait before the next request: `Retry-After` (RFC 9110, 10.2.3) in seconds.
    ///
    /// It is the server's wish, without a bound.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Http(error) => match &**error {
                HttpError::Response(answer) => answer.retry_after,
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns whether the server, or what stands before it, refuses access: the status is 401, 403 or 407, or the authorization
    /// failed for another reason than the network, a busy or failing authorization server, or this side (a store for example). The
    /// same request would be refused again.
    #[must_use]
    pub fn is_access_refused(&self) -> bool {
        match self {
            Self::Http(error) => match &**error {
                HttpError::Response(answer) => matches!(answer.status, 401 | 403 | 407),
                HttpError::Authorization { error, .. } => !error.is_passing(),
                _ => false,
            },
            _ => false,
        }
    }
}

fn meanwhile(stray: Option<&Diagnostic>) -> String {
    stray.map(|stray| alloc::format!("; meanwhile: {stray}")).unwrap_or_default()
}

impl From<HttpError> for CallError {
    fn from(error: HttpError) -> Self {
        Self::Http(Arc::new(error))
    }
}

/// The reason why a command was refused. Nothing was changed and nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UseError {
    /// The key is stale: its call or channel has ended.
    #[error("this call or channel has ended")]
    Stale,
    /// The connection has ended.
    #[error("the connection is closed")]
    Closed,
    /// The command is not possible before the handshake has finished.
    #[error("the connection is not ready yet")]
    NotReady,
    /// A limit is reached.
    #[error("limit reached: {0}")]
    Full(Limit),
    /// The peer did not declare the capability that the command needs (LIFE-010, LIFE-011).
    #[error("the peer does not have the capability `{0}`")]
    MissingPeerCapability(Capability),
    /// This side did not declare the capability that the command needs (LOG-001).
    #[error("the capability `{0}` is not declared by this side")]
    NotDeclared(Capability),
    /// An input request is not valid.
    #[error("the input request `{key}` is not valid: {reason}")]
    InvalidInputRequest {
        /// Key of the input request.
        key: String,
        /// Reason why it is not valid, and where.
        reason: String,
    },
    /// An input response does not fit its input request.
    #[error("the input response does not fit the input request: {reason}")]
    InvalidInputResponse {
        /// Reason why it does not fit, and where.
        reason: String,
    },
    /// State has to be sealed, and no key is configured ([`server::Config::seal`](crate::server::Config::seal)).
    #[error("the state cannot be sealed: no key is configured (`server::Config::seal`)")]
    NoSealKeys,
    /// An app wants to call a tool that it may not call (APP-008); [`AppTools`](crate::client::AppTools) decides.
    #[error("the tool `{tool}` cannot be called by an app: {reason}")]
    NotForApps {
        /// Name of the tool.
        tool: String,
        /// Reason why apps may not call it.
        reason: String,
    },
    /// The handle of a task belongs to another server, or to another form of tasks.
    #[error("the task is not one of this server: {reason}")]
    ForeignTask {
        /// What does not match.
        reason: String,
    },
    /// The negotiated revision lacks the feature.
    #[error("`{feature}` does not exist in {version}")]
    NotInVersion {
        /// Method or feature.
        feature: String,
        /// Negotiated revision.
        version: Version,
    },
    /// The method is sent only by the engine, or by the other role.
    #[error("`{0}` cannot be sent by the application")]
    ReservedMethod(String),
    /// The member or `_meta` key is reserved for the protocol (META-002) or malformed (META-003).
    #[error("`{0}` is reserved for the protocol")]
    ReservedKey(String),
    /// The value could not be serialized.
    #[error("cannot be written as JSON: {0}")]
    Encode(EncodeError),
}

impl From<EncodeError> for UseError {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::NotInVersion { what, revision } => match Version::from_name(revision) {
                Some(version) => Self::NotInVersion { feature: what.into(), version },
                None => Self::Encode(error),
            },
            error => Self::Encode(error),
        }
    }
}
