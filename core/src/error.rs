//! Three kinds of trouble that are never mixed up: the connection is over, one call failed, we were misused.

mod http;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

#[cfg(feature = "http")]
pub(crate) use http::quoted;
pub use http::{AuthChallenge, HttpAnswer, HttpError};

use crate::json::EncodeError;
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::version::{Verdict, Version, VersionSet};
use crate::vocab::Capability;

/// Why a connection is over
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The peer closed its side; nothing was wrong
    #[error("the peer closed the connection")]
    Eof,
    /// The peer closed its side in the middle of a message
    #[error("the peer closed the connection in the middle of a message ({bytes} bytes of it had arrived)")]
    Truncated {
        /// Bytes of the unfinished message
        bytes: usize,
    },
    /// We closed it
    #[error("the connection was closed here")]
    Closed,
    /// Too many faulty messages in a row ([`Limits::max_faulty`](crate::Limits::max_faulty))
    #[error("{count} faulty messages in a row")]
    Garbage {
        /// How many
        count: u32,
    },
    /// The peer closed its side while it was asked what it speaks
    ///
    /// Some old servers exit on a request that they do not know: start the server again and connect with
    /// [`Fault::retry_with`].
    #[error("the server closed the connection when it was asked for its versions")]
    ExitedDuringProbe {
        /// A handshake with a legacy revision may work on a fresh connection
        legacy: bool,
    },
    /// Both sides speak the protocol, but no common revision (VER-006, VER-010)
    #[error("no common protocol version: we speak {ours}, the server {}", .theirs.join(", "))]
    NoCommonVersion {
        /// What we speak
        ours: VersionSet,
        /// What the server said it speaks
        theirs: Vec<String>,
    },
    /// The server needs an `initialize` handshake, and we were told to speak modern revisions only (VER-034)
    #[error("the server speaks only versions with an `initialize` handshake, and we were told to speak {ours} only{}",
        match .answer { Some(a) => alloc::format!("; it said: {a}"), None => String::new() })]
    LegacyServer {
        /// What we speak
        ours: VersionSet,
        /// What it answered to the question
        answer: Option<RpcError>,
    },
    /// The server refused the handshake
    #[error("the server refused to connect: {0}")]
    Refused(RpcError),
    /// The server's answer to the handshake makes no sense
    #[error("the server's answer to `{method}` is not valid: {why}")]
    BadHandshake {
        /// The request that was answered
        method: &'static str,
        /// What is wrong with the answer
        why: &'static str,
    },
    /// No answer to the handshake in time (TIME-007)
    #[error("the server did not answer `{method}` in time")]
    HandshakeTimeout {
        /// The request that was not answered
        method: &'static str,
    },
    /// The peer sends back what it is sent: a program such as `cat`, a terminal that echoes, our own output
    #[error("the peer only sends back what it is sent, so it is no server")]
    Echo,
    /// An HTTP exchange that everything depends on failed in a way that says nothing about the era (VER-021)
    #[error("{0}")]
    Http(Arc<HttpError>),
    /// Everything was tried that an MCP server could answer over HTTP (VER-031, HTTP-084)
    #[error("no MCP server answers there: {}", .attempts.join("; "))]
    NoServer {
        /// What was tried, in order, each with what came
        attempts: Vec<String>,
    },
}

impl Fault {
    /// What to connect with on a fresh connection, when that is likely to work
    ///
    /// An adapter that can start the server again does so once.
    #[must_use]
    pub const fn retry_with(&self) -> Option<Verdict> {
        match self {
            Self::ExitedDuringProbe { legacy: true } => Some(Verdict::Legacy),
            _ => None,
        }
    }
}

/// Why a call of ours failed
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The peer answered with an error
    #[error(transparent)]
    Rpc(RpcError),
    /// No answer and no progress in time (TIME-001)
    #[error("no answer in time")]
    TimedOut,
    /// Not finished in the total time allowed, progress or not (TIME-006)
    #[error("not finished in the total time allowed")]
    TotalTimedOut,
    /// Cancelled here
    #[error("cancelled")]
    Cancelled,
    /// The connection ended first
    #[error("the connection ended before the answer: {0}")]
    Closed(Fault),
    /// The answer is no valid response
    #[error("the answer is malformed: {0}")]
    Malformed(crate::rpc::envelope::Malformed),
    /// The answer is longer than [`Limits::max_frame`](crate::Limits::max_frame)
    #[error("the answer is longer than the limit of {limit} bytes")]
    TooLarge {
        /// The limit
        limit: usize,
    },
    /// The result is of a kind that was not asked for (BASE-030)
    #[error("the result is of the unknown type {0}")]
    ResultType(RawJson),
    /// The server needs something first, and says so in a way that is not valid (MRTR-005, MRTR-008)
    #[error("the server needs something first, and says so in a way that is not valid: {why}")]
    BadInputRequest {
        /// What is wrong
        why: String,
    },
    /// The server needs something first that was not declared to it (MRTR-009, SAMP-009)
    #[error("the server needs the capability `{0}`, which was not declared to it")]
    NotDeclared(Capability),
    /// The server needs something again and again ([`Limits::max_input_rounds`](crate::Limits::max_input_rounds))
    #[error("the server needed something more than {limit} times")]
    TooManyRounds {
        /// The limit
        limit: u32,
    },
    /// The server needed something first that the application refused (MRTR-031)
    #[error("the server needed something first, which was refused: {0}")]
    InputRefused(RpcError),
    /// The server needed something first that did not come in time
    #[error("the server needed something first, which was not given in time")]
    InputTimedOut,
    /// The peer or the negotiated revision lacks what the call needs; found out once the connection was ready
    #[error(transparent)]
    Refused(UseError),
    /// Over HTTP: the exchange failed before there was an answer
    #[error("{0}")]
    Http(Arc<HttpError>),
}

impl From<HttpError> for CallError {
    fn from(error: HttpError) -> Self {
        Self::Http(Arc::new(error))
    }
}

/// Why a command was refused; nothing was changed and nothing sent
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UseError {
    /// The key belongs to something that has ended
    #[error("this call or channel has ended")]
    Stale,
    /// The connection is over
    #[error("the connection is closed")]
    Closed,
    /// Not possible before the handshake is done
    #[error("the connection is not ready yet")]
    NotReady,
    /// A limit of ours is reached; the text names its field in [`Limits`](crate::Limits)
    #[error("limit reached: {0}")]
    Full(&'static str),
    /// The peer did not declare the capability that this needs (LIFE-010, LIFE-011)
    #[error("the peer does not have the capability `{0}`")]
    PeerLacks(Capability),
    /// We did not declare the capability that this needs (LOG-001)
    #[error("the capability `{0}` is not declared here")]
    NotDeclared(Capability),
    /// Something that the client is to be asked is not right in itself
    #[error("the question `{key}` cannot be asked: {why}")]
    BadQuestion {
        /// The key of the question
        key: String,
        /// What is wrong with it, and where
        why: String,
    },
    /// Something that the server needs cannot be answered like this
    #[error("this is no answer to what the server needs: {why}")]
    BadAnswer {
        /// What does not fit, and where
        why: String,
    },
    /// There is something to be sealed, and no key ([`server::Config::seal`](crate::server::Config::seal))
    #[error("there is no key to seal the state with")]
    NoKeys,
    /// The negotiated revision has no such thing
    #[error("`{what}` does not exist in {version}")]
    NotInVersion {
        /// Method or feature
        what: String,
        /// The revision in use
        version: Version,
    },
    /// The engine sends this by itself, or the other side does
    #[error("`{0}` is not for the application to send")]
    NotYours(String),
    /// A member or `_meta` key belongs to the protocol (META-002), or is malformed (META-003)
    #[error("`{0}` is reserved for the protocol")]
    ReservedKey(String),
    /// The value could not be written
    #[error("cannot be written as JSON: {0}")]
    Encode(EncodeError),
}

impl From<EncodeError> for UseError {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::NotInVersion { what, revision } => match Version::from_name(revision) {
                Some(version) => Self::NotInVersion { what: what.into(), version },
                None => Self::Encode(error),
            },
            error => Self::Encode(error),
        }
    }
}
