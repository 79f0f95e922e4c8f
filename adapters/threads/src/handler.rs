//! The handler of a server's calls, for several threads.

use alloc::sync::Arc;

#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
use mcp_proto::server::{Call, Event, Notification};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Diagnostic, RawJson, RpcError};
use mcp_runtime::server as serve;
use mcp_runtime::server::{Answered, Attachments, Cx, HandlerFailure};

/// A server's handler, which may run on several threads at a time.
///
/// Every `Fn(&mut Cx<'_>, &Call) -> Result<Answered, RpcError>` that is `Send` and `Sync` implements it.
/// [`call`](Self::call) runs on the server's workers, several calls at a time. The other methods run on the loop's
/// thread, possibly while calls run, and must be fast.
///
/// ```
/// use core::sync::atomic::{AtomicU64, Ordering};
/// use mcp_threads::mcp_proto::model::CallToolResult;
/// use mcp_threads::{Answered, Call, Cx, Handler, RpcError};
///
/// #[derive(Default)]
/// struct Counter(AtomicU64);
///
/// impl Handler for Counter {
///     fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
///         match &*call.tool_call()?.name {
///             "count" => cx.complete(&CallToolResult::text(self.0.fetch_add(1, Ordering::Relaxed).to_string())),
///             other => Err(RpcError::invalid_params(format!("unknown tool: {other}"))),
///         }
///     }
/// }
/// ```
pub trait Handler: Send + Sync + 'static {
    /// Answers a request with the value of [`Cx::complete`], or with an error.
    ///
    /// A panic is caught and answered with an internal error; the handler is used again afterwards.
    ///
    /// # Errors
    ///
    /// The error that the client receives instead of a result. The errors of [`Call`]'s and [`Cx`]'s methods are
    /// suitable: pass them on with `?`.
    fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError>;

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

    /// Calls `visit` with the name and the input schema of each tool: see [`serve::Handler::for_each_tool`].
    fn for_each_tool(&self, visit: &mut dyn FnMut(&str, &RawJson)) {
        let _ = visit;
    }

    /// Returns the tasks and extensions of the server: see [`serve::Handler::attachments`].
    fn attachments(&self) -> Attachments {
        Attachments::default()
    }

    /// Receives every other event: opened sessions, completed outbound calls.
    fn event(&self, event: &Event) {
        let _ = event;
    }
}

impl<F> Handler for F
where
    F: Fn(&mut Cx<'_>, &Call) -> Result<Answered, RpcError> + Send + Sync + 'static,
{
    fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        self(cx, call)
    }
}

/// A shared handler in the form that one loop uses.
#[derive(Debug)]
pub(crate) struct SharedHandler<H>(pub(crate) Arc<H>);

impl<H> Clone for SharedHandler<H> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<H: Handler> serve::Handler for SharedHandler<H> {
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        self.0.call(cx, call)
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

    #[cfg(feature = "http")]
    fn head(&mut self, record: &HeadRecord) {
        self.0.head(record);
    }

    #[cfg(feature = "http")]
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
