//! The handler of a server.

use crate::Panic;
#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
use mcp_proto::router::{Failure, InvalidToolOutput};
use mcp_proto::server::{Call, Event, Notification};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Diagnostic, EncodeError, RawJson, RpcError, UseError};

use super::cx::{Answered, Cx};
use super::tasks::TaskSource;

/// The application code of a server.
///
/// Every `FnMut(&mut Cx<'_>, &Call) -> Result<Answered, RpcError>` is a handler. All methods run on the thread of the
/// event loop, one at a time. While one runs, nothing else moves, except inside the methods of [`Cx`] that say so.
///
/// ```
/// use mcp_proto::server::Call;
/// use mcp_std::adapter::server::{Answered, Cx, Handler};
/// use mcp_proto::{Diagnostic, RpcError, model::CallToolResult};
///
/// struct Clock;
///
/// impl Handler for Clock {
///     fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
///         match &*call.tool_call()?.name {
///             "time" => cx.complete(&CallToolResult::text("noon")),
///             other => Err(RpcError::invalid_params(format!("unknown tool: {other}"))),
///         }
///     }
///
///     fn diagnostic(&mut self, diagnostic: &Diagnostic) {
///         eprintln!("diagnostic: {diagnostic:?}");
///     }
/// }
/// ```
pub trait Handler {
    /// Answers a request: returns the value of [`Cx::complete`], or an error.
    ///
    /// A panic is caught and answered with an internal error. The handler is used again afterwards, in the state that
    /// the panic left.
    ///
    /// # Errors
    ///
    /// The error that is sent to the client. `?` on the results of methods of [`Call`] and [`Cx`] gives the right one.
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError>;

    /// Receives a notification that the engine does not handle itself.
    fn notification(&mut self, notification: &Notification) {
        let _ = notification;
    }

    /// Reports a deviation of the client that was tolerated.
    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        let _ = diagnostic;
    }

    /// Reports a call that was answered with an internal error because this handler failed.
    fn failed(&mut self, call: &Call, failure: &HandlerFailure) {
        let _ = (call, failure);
    }

    /// Receives a copy of a received or sent message, if [`Limits::tap_records`](mcp_proto::Limits) enables it.
    fn tap(&mut self, record: &TapRecord) {
        let _ = record;
    }

    /// Receives the head of a request or response without its secrets, if `HttpServer::tap_heads` enables it.
    #[cfg(feature = "http")]
    fn head(&mut self, record: &HeadRecord) {
        let _ = record;
    }

    /// Calls `visit` with the name and the input schema of each tool, also of a disabled one, whose schema is checked at the
    /// start. Calls of it are answered as those of an unknown tool all the same
    /// ([`tool_audience`](mcp_proto::server::Config::tool_audience)).
    ///
    /// An HTTP server calls it at the start, and after a call published a change of the tools. Arguments that are
    /// repeated in header fields (`x-mcp-header`) are compared according to these schemas. By default there are no
    /// tools, and nothing is compared.
    fn for_each_tool(&mut self, visit: &mut dyn FnMut(&str, &RawJson)) {
        let _ = visit;
    }

    /// Returns the tasks of the server. Each loop calls it once, before it runs.
    ///
    /// By default there are none. A handler that wraps a router passes on those of the router.
    fn tasks(&mut self) -> Option<TaskSource> {
        None
    }

    /// Receives every other event, for example new sessions and the outcomes of requests to the client.
    fn event(&mut self, event: &Event) {
        let _ = event;
    }
}

impl<F: FnMut(&mut Cx<'_>, &Call) -> Result<Answered, RpcError>> Handler for F {
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        self(cx, call)
    }
}

/// Failure of a handler, for its author. The client only gets an internal error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandlerFailure {
    /// The handler panicked.
    Panicked(Panic),
    /// The handler returned an error with causes. The client received the message of the error without them.
    Failed(Failure),
    /// The result cannot be encoded as JSON.
    Encode(EncodeError),
    /// The structured result of a tool violates its output schema.
    InvalidToolOutput(InvalidToolOutput),
    /// The result cannot be sent, because it contains something that is reserved for the protocol.
    Refused(UseError),
    /// The input requests cannot be sent.
    InputRequest(UseError),
    /// The call cannot become a task.
    Task(UseError),
    /// The handler returned the answer of another call.
    Unanswered,
}

impl core::fmt::Display for HandlerFailure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Panicked(panic) => panic.fmt(f),
            Self::Failed(failure) => failure.fmt(f),
            Self::Encode(error) => write!(f, "the result cannot be encoded as JSON: {error}"),
            Self::InvalidToolOutput(invalid) => invalid.fmt(f),
            Self::Refused(error) => write!(f, "the result cannot be sent: {error}"),
            Self::InputRequest(error) => write!(f, "the input request cannot be sent: {error}"),
            Self::Task(error) => write!(f, "no task can be created: {error}"),
            Self::Unanswered => f.write_str("the call was not answered"),
        }
    }
}

/// Converts the reason for which a result was refused.
impl From<UseError> for HandlerFailure {
    fn from(error: UseError) -> Self {
        match error {
            UseError::Encode(error) => Self::Encode(error),
            other => Self::Refused(other),
        }
    }
}
