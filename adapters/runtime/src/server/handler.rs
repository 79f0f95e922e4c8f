//! The handler of a server.

use alloc::boxed::Box;
#[cfg(feature = "http")]
use alloc::sync::Arc;
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;

#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
use mcp_proto::router::{Failure, InvalidToolOutput};
use mcp_proto::server::{Call, Event, Notification};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Diagnostic, EncodeError, RawJson, RpcError, UseError};
use mcp_std::{Panic, catch, catch_async};

use super::attachments::Attachments;
use super::cx::{Answered, AsyncCx, Cx, StartTimer};
use super::remote::{FinishedCall, RemoteCall};
use super::server_loop::in_scope;

/// The application code of a server.
///
/// Every `FnMut(&mut Cx<'_>, &Call) -> Result<Answered, RpcError>` is a handler. All methods run on the thread of the
/// event loop, one at a time. While one runs, nothing else moves, except inside the methods of [`Cx`] that say so.
///
/// ```
/// use mcp_proto::server::Call;
/// use mcp_runtime::server::{Answered, Cx, Handler};
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

    /// Returns the tasks and extensions of the server. Each loop calls it once, before it runs.
    ///
    /// By default there are none. A handler that wraps a router passes on those of the router.
    fn attachments(&mut self) -> Attachments {
        Attachments::default()
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

impl fmt::Display for HandlerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

// The handler of a server's calls, as futures, for adapters on executors.

/// A server's handler, whose calls run concurrently.
///
/// Every `async |cx: &mut AsyncCx, call: &Call|` closure that returns `Result<Answered, RpcError>` implements it. A
/// handler is shared by its running calls: keep mutable state in cells, locks or channels. The server's future is
/// `Send` if the handler's futures are.
///
/// ```
/// use mcp_proto::server::Call;
/// use mcp_proto::{Diagnostic, RpcError, model::CallToolResult};
/// use mcp_runtime::server::{Answered, AsyncCx, AsyncHandler};
///
/// struct Clock;
///
/// impl AsyncHandler for Clock {
///     async fn call(&self, cx: &mut AsyncCx, call: &Call) -> Result<Answered, RpcError> {
///         match &*call.tool_call()?.name {
///             "time" => cx.complete(&CallToolResult::text("noon")),
///             other => Err(RpcError::invalid_params(format!("unknown tool: {other}"))),
///         }
///     }
///
///     fn diagnostic(&self, diagnostic: &Diagnostic) {
///         eprintln!("diagnostic: {diagnostic:?}");
///     }
/// }
/// ```
#[allow(async_fn_in_trait, reason = "whether a server can move to another thread follows from its handler")]
pub trait AsyncHandler {
    /// Answers a request with the value of [`AsyncCx::complete`](super::CallCx::complete), or with an error.
    ///
    /// The future is dropped when the call is cancelled. A panic is caught and answered with an internal error; the
    /// handler is used again afterwards, in the state that the panic left.
    ///
    /// # Errors
    ///
    /// The error that the client receives instead of a result. The errors of [`Call`]'s and [`AsyncCx`]'s methods are
    /// suitable: pass them on with `?`.
    async fn call(&self, cx: &mut AsyncCx, call: &Call) -> Result<Answered, RpcError>;

    /// Receives a notification that the engine does not handle itself.
    fn notification(&self, notification: &Notification) {
        let _ = notification;
    }

    /// Receives a deviation of the client that was tolerated or ignored.
    fn diagnostic(&self, diagnostic: &Diagnostic) {
        let _ = diagnostic;
    }

    /// Receives a call that was answered with an internal error because this handler failed.
    fn failed(&self, call: &Call, failure: &HandlerFailure) {
        let _ = (call, failure);
    }

    /// Receives a copy of each message received or sent ([`Limits::tap_records`](mcp_proto::Limits) enables this).
    fn tap(&self, record: &TapRecord) {
        let _ = record;
    }

    /// Receives the head of each HTTP message, without secrets (`HttpServer::tap_heads` enables this).
    #[cfg(feature = "http")]
    fn head(&self, record: &HeadRecord) {
        let _ = record;
    }

    /// Calls `visit` with the name and the input schema of each tool.
    ///
    /// An HTTP server calls this when it starts, and after a call has published a change of the tools. It uses the
    /// schemas to compare arguments with header fields (`x-mcp-header`). By default it visits no tool, and nothing is
    /// compared.
    fn for_each_tool(&self, visit: &mut dyn FnMut(&str, &RawJson)) {
        let _ = visit;
    }

    /// Returns the tasks and extensions of the server. Each loop calls it once, before it runs.
    ///
    /// By default there are none. A handler that wraps a router passes on those of the router.
    fn attachments(&self) -> Attachments {
        Attachments::default()
    }

    /// Receives every other event: opened sessions, completed outbound calls.
    fn event(&self, event: &Event) {
        let _ = event;
    }

    /// Decides where a call runs: by default inside the future of the server, by [`call`](Self::call).
    ///
    /// A handler that moves calls to tasks of an executor runs each by [`run_call`] with another handler,
    /// [reports](FinishedCall::report) the outcome there, and returns a future that is ready when the task has ended. The
    /// server drops that future to stop the task; until it is ready or dropped, the call counts as one of those that run at
    /// a time.
    fn place(&self, call: RemoteCall, timer: StartTimer) -> Placement {
        Placement::Inline(call, timer)
    }
}

/// Where a call runs; see [`AsyncHandler::place`].
pub enum Placement {
    /// Inside the future of the server.
    Inline(RemoteCall, StartTimer),
    /// Outside of it, until this future is ready.
    Spawned(Pin<Box<dyn Future<Output = ()> + Send>>),
}

impl fmt::Debug for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(call, _) => f.debug_tuple("Inline").field(call).finish_non_exhaustive(),
            Self::Spawned(_) => f.debug_tuple("Spawned").finish_non_exhaustive(),
        }
    }
}

impl<F: AsyncFn(&mut AsyncCx, &Call) -> Result<Answered, RpcError>> AsyncHandler for F {
    async fn call(&self, cx: &mut AsyncCx, call: &Call) -> Result<Answered, RpcError> {
        self(cx, call).await
    }
}

/// Runs a handler on a call and returns the outcome. Returns `None` early when the call is cancelled.
///
/// If the handler [places](AsyncHandler::place) the call elsewhere, waits for its end there and returns `None`.
pub async fn run_call<H: AsyncHandler>(
    handler: &H,
    remote: RemoteCall,
    start_timer: StartTimer,
) -> Option<FinishedCall> {
    let (remote, start_timer) = match handler.place(remote, start_timer) {
        Placement::Inline(remote, start_timer) => (remote, start_timer),
        Placement::Spawned(end) => {
            end.await;
            return None;
        }
    };
    let running = remote.running().clone();
    let mut cx = AsyncCx::from_remote(remote, start_timer);
    let outcome = {
        // Pinned here, as it is large and would be moved into `catch_async`.
        let answer = pin!(handler.call(&mut cx, running.call()));
        let mut outcome = pin!(catch_async(answer));
        poll_fn(|cx| {
            if running.is_cancelled() {
                return Poll::Ready(None);
            }
            let outcome = in_scope(running.call(), || outcome.as_mut().poll(cx));
            if outcome.is_pending() {
                running.register_cancel_waker(cx.waker());
            }
            outcome.map(Some)
        })
        .await
    };
    outcome.map(|outcome| cx.finish(outcome))
}

/// A shared handler in the form that one loop uses; calls go to [`run_call`] instead.
#[cfg(feature = "http")]
#[derive(Debug)]
pub struct SharedHandler<H>(pub Arc<H>);

#[cfg(feature = "http")]
impl<H: AsyncHandler> Handler for SharedHandler<H> {
    fn call(&mut self, _: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        Err(RpcError::method_not_found(call.method()))
    }

    fn notification(&mut self, notification: &Notification) {
        self.0.notification(notification);
    }

    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        self.0.diagnostic(diagnostic);
    }

    fn failed(&mut self, call: &Call, failure: &HandlerFailure) {
        self.0.failed(call, failure);
    }

    fn tap(&mut self, record: &TapRecord) {
        self.0.tap(record);
    }

    fn head(&mut self, record: &HeadRecord) {
        self.0.head(record);
    }

    fn for_each_tool(&mut self, visit: &mut dyn FnMut(&str, &RawJson)) {
        self.0.for_each_tool(visit);
    }

    fn attachments(&mut self) -> Attachments {
        self.0.attachments()
    }

    fn event(&mut self, event: &Event) {
        self.0.event(event);
    }
}

/// Passes an event other than a call to the handler.
pub fn dispatch_async_event(handler: &impl AsyncHandler, event: &Event) {
    // A panic ends only the callback. The panic hook has already reported it.
    let _ = match event {
        Event::Call(_) | Event::Cancelled { .. } => Ok(()),
        Event::Notification(notification) => catch(|| handler.notification(notification)),
        Event::Diagnostic { diagnostic, .. } => catch(|| handler.diagnostic(diagnostic)),
        other => catch(|| handler.event(other)),
    };
}
