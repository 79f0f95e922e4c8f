//! What a server does with what it is asked

#[cfg(feature = "http")]
use alloc::string::String;

use crate::Panic;
#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
#[cfg(feature = "http")]
use mcp_proto::http::server::{Denial, Token};
use mcp_proto::router::BadResult;
use mcp_proto::server::{Call, Event, Notification};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Diagnostic, EncodeError, RawJson, RpcError, UseError};

use super::cx::{Answered, Cx};

/// What a server does with what it is asked
///
/// Every `FnMut(&mut Cx<'_>, &Call) -> Result<Answered, RpcError>` is one. All methods run on the loop's thread, one at
/// a time: while one runs, nothing else moves, except inside of the methods of [`Cx`] that say so.
///
/// ```
/// use mcp_proto::server::Call;
/// use mcp_std::serve::{Answered, Cx, Handler};
/// use mcp_proto::{Diagnostic, RpcError, model::CallToolResult};
///
/// struct Clock;
///
/// impl Handler for Clock {
///     fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
///         match &*call.tool()?.name {
///             "time" => cx.complete(&CallToolResult::text("noon")),
///             other => Err(RpcError::invalid_params(format!("unknown tool: {other}"))),
///         }
///     }
///
///     fn diagnostic(&mut self, diagnostic: &Diagnostic) {
///         eprintln!("odd: {diagnostic:?}");
///     }
/// }
/// ```
pub trait Handler {
    /// Answers a request: with what [`Cx::complete`] returns, or with an error
    ///
    /// A panic is caught and answered with an internal error; the handler is used again afterwards, in whatever state
    /// the panic left it in.
    ///
    /// # Errors
    ///
    /// What the client is told instead of a result. `?` on the results of [`Call`]'s and [`Cx`]'s methods gives the right
    /// one.
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError>;

    /// Takes note of a notification that the engine does not handle itself
    fn notification(&mut self, notification: &Notification) {
        let _ = notification;
    }

    /// Takes note of something odd that the client did
    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        let _ = diagnostic;
    }

    /// Takes note of a call that was answered with an internal error because this handler failed
    fn failed(&mut self, call: &Call, failure: &Failure) {
        let _ = (call, failure);
    }

    /// Sees a message that was received or sent ([`Limits::tap_records`](mcp_proto::Limits) turns this on)
    fn tap(&mut self, record: &TapRecord) {
        let _ = record;
    }

    /// Sees the head of a request or response, without its secrets (`HttpServer::tap_heads` turns this on)
    #[cfg(feature = "http")]
    fn head(&mut self, record: &HeadRecord) {
        let _ = record;
    }

    /// Judges the token that a request came with: on whose behalf it is made, or why it is not let in
    ///
    /// Asked for each request to an HTTP server that is [protected](mcp_proto::http::server::Config::protected). By
    /// default no token is good. A token must have been issued for this very server (SEC-001).
    ///
    /// # Errors
    ///
    /// What the client is told.
    #[cfg(feature = "http")]
    fn token(&mut self, token: &Token) -> Result<String, Denial> {
        let _ = token;
        Err(Denial::InvalidToken)
    }

    /// Tells `tell` the name and the input schema of each tool
    ///
    /// An HTTP server asks for that when it begins, and when a call has published that the tools have changed: arguments
    /// that a schema has repeated in header fields (`x-mcp-header`) are held against these. By default nothing is told,
    /// and nothing is compared.
    fn tools(&mut self, tell: &mut dyn FnMut(&str, &RawJson)) {
        let _ = tell;
    }

    /// Sees every other event: sessions that were opened, requests of our own that ended
    fn event(&mut self, event: &Event) {
        let _ = event;
    }
}

impl<F: FnMut(&mut Cx<'_>, &Call) -> Result<Answered, RpcError>> Handler for F {
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        self(cx, call)
    }
}

/// How a handler failed; the client was told no more than that something went wrong
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// It panicked
    Panicked(Panic),
    /// Its result could not be written as JSON
    Encode(EncodeError),
    /// The structured result of a tool is not what its schema promises
    BadResult(BadResult),
    /// Its result cannot be sent: it says something that only the protocol may say
    Refused(UseError),
    /// What it asked for cannot be asked
    Ask(UseError),
    /// It gave the answer of another call for this one's
    Unanswered,
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Panicked(panic) => panic.fmt(f),
            Self::Encode(error) => write!(f, "the result cannot be written: {error}"),
            Self::BadResult(bad) => bad.fmt(f),
            Self::Refused(refused) => write!(f, "the result cannot be sent: {refused}"),
            Self::Ask(refused) => write!(f, "the client cannot be asked: {refused}"),
            Self::Unanswered => f.write_str("the call was not answered"),
        }
    }
}

/// Why a result was refused
impl From<UseError> for Failure {
    fn from(refused: UseError) -> Self {
        match refused {
            UseError::Encode(error) => Self::Encode(error),
            other => Self::Refused(other),
        }
    }
}
