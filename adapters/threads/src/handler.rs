//! What a server does with what it is asked, on many threads at once

#[cfg(feature = "http")]
use alloc::string::String;
use alloc::sync::Arc;

#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
#[cfg(feature = "http")]
use mcp_proto::http::server::{Denial, Token};
use mcp_proto::server::{Call, Event, Notification};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Diagnostic, RawJson, RpcError};
use mcp_std::serve::{self, Answered, Cx, Failure};

/// What a server does with what it is asked
///
/// Every `Fn(&mut Cx<'_>, &Call) -> Result<Answered, RpcError>` that is `Send` and `Sync` is one. Calls are answered on the
/// server's workers, several at a time; the other methods run on the thread that turns the loop, which waits for them,
/// while calls are answered elsewhere.
///
/// ```
/// use core::sync::atomic::{AtomicU64, Ordering};
/// use mcp_proto::{RpcError, model::CallToolResult};
/// use mcp_threads::{Answered, Call, Cx, Handler};
///
/// #[derive(Default)]
/// struct Counter(AtomicU64);
///
/// impl Handler for Counter {
///     fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
///         match &*call.tool()?.name {
///             "count" => cx.complete(&CallToolResult::text(self.0.fetch_add(1, Ordering::Relaxed).to_string())),
///             other => Err(RpcError::invalid_params(format!("unknown tool: {other}"))),
///         }
///     }
/// }
/// ```
pub trait Handler: Send + Sync + 'static {
    /// Answers a request: with what [`Cx::complete`] returns, or with an error
    ///
    /// A panic is caught and answered with an internal error; the handler is used again afterwards.
    ///
    /// # Errors
    ///
    /// What the client is told instead of a result. `?` on the results of [`Call`]'s and [`Cx`]'s methods gives the right
    /// one.
    fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError>;

    /// Takes note of a notification that the engine does not handle itself
    fn notification(&self, notification: &Notification) {
        let _ = notification;
    }

    /// Takes note of something odd that the client did
    fn diagnostic(&self, diagnostic: &Diagnostic) {
        let _ = diagnostic;
    }

    /// Takes note of a call that was answered with an internal error because this handler failed
    fn failed(&self, call: &Call, failure: &Failure) {
        let _ = (call, failure);
    }

    /// Sees a message that was received or sent ([`Limits::tap_records`](mcp_proto::Limits) turns this on)
    fn tap(&self, record: &TapRecord) {
        let _ = record;
    }

    /// Sees the head of a request or response, without its secrets (`HttpServer::tap_heads` turns this on)
    #[cfg(feature = "http")]
    fn head(&self, record: &HeadRecord) {
        let _ = record;
    }

    /// Judges the token that a request came with: see [`serve::Handler::token`]
    ///
    /// It runs on the loop's thread: whoever has to ask somebody else keeps what was said, or answers from what is known.
    ///
    /// # Errors
    ///
    /// What the client is told.
    #[cfg(feature = "http")]
    fn token(&self, token: &Token) -> Result<String, Denial> {
        let _ = token;
        Err(Denial::InvalidToken)
    }

    /// Tells `tell` the name and the input schema of each tool: see [`serve::Handler::tools`]
    fn tools(&self, tell: &mut dyn FnMut(&str, &RawJson)) {
        let _ = tell;
    }

    /// Sees every other event: sessions that were opened, requests of our own that ended
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

/// A handler for a loop, which believes to have it alone
#[derive(Debug)]
pub(crate) struct Shared<H>(pub(crate) Arc<H>);

impl<H> Clone for Shared<H> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<H: Handler> serve::Handler for Shared<H> {
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        self.0.call(cx, call)
    }

    fn notification(&mut self, notification: &Notification) {
        self.0.notification(notification);
    }

    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        self.0.diagnostic(diagnostic);
    }

    fn failed(&mut self, call: &Call, failure: &Failure) {
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
    fn token(&mut self, token: &Token) -> Result<String, Denial> {
        self.0.token(token)
    }

    fn tools(&mut self, tell: &mut dyn FnMut(&str, &RawJson)) {
        self.0.tools(tell);
    }

    fn event(&mut self, event: &Event) {
        self.0.event(event);
    }
}
