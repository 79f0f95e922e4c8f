//! What a server does with what it is asked

#[cfg(feature = "http")]
use alloc::sync::Arc;
use core::future::poll_fn;
use core::ops::{Deref, DerefMut};
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use async_io::Timer;
#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
#[cfg(feature = "http")]
use mcp_proto::http::server::{Denial, Token};
use mcp_proto::server::{Call, Event, Notification};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Diagnostic, RawJson, RpcError};
use mcp_std::serve::{self, Answered, Failure, Remote};
use mcp_std::{Panic, catch};

use crate::testing;

/// One call, in the hands of its handler
///
/// What it can do is what [`mcp_std::serve::Cx`] can, and [`sleep`](Self::sleep). A handler whose call is cancelled is
/// dropped where it waits; one that works for long without waiting asks [`checkpoint`](serve::Cx::checkpoint) now and then,
/// or hands its work to a thread (`blocking::unblock`): while it works, nothing else of its server moves.
#[derive(Debug)]
pub struct Cx<'a>(serve::Cx<'a, Remote>);

impl Cx<'_> {
    /// Lets `duration` pass
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](serve::Cx::checkpoint).
    pub async fn sleep(&mut self, duration: Duration) -> Result<(), RpcError> {
        self.checkpoint()?;
        match testing::sleep(duration) {
            Some(sleep) => sleep.await,
            None => _ = Timer::after(duration).await,
        }
        self.checkpoint()
    }
}

impl<'a> Deref for Cx<'a> {
    type Target = serve::Cx<'a, Remote>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Cx<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// What a server does with what it is asked
///
/// Every `async |cx: &mut Cx<'_>, call: &Call|` that gives a `Result<Answered, RpcError>` is one. Calls run at the same
/// time, so a handler is shared: what it changes is in cells, locks or channels. If its futures can move to another
/// thread, so can the server's.
///
/// ```
/// use mcp_proto::{Diagnostic, RpcError, model::CallToolResult};
/// use mcp_smol::{Answered, Call, Cx, Handler};
///
/// struct Clock;
///
/// impl Handler for Clock {
///     async fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
///         match &*call.tool()?.name {
///             "time" => cx.complete(&CallToolResult::text("noon")),
///             other => Err(RpcError::invalid_params(format!("unknown tool: {other}"))),
///         }
///     }
///
///     fn diagnostic(&self, diagnostic: &Diagnostic) {
///         eprintln!("odd: {diagnostic:?}");
///     }
/// }
/// ```
#[allow(async_fn_in_trait, reason = "whether a server can move to another thread follows from its handler")]
pub trait Handler {
    /// Answers a request: with what [`Cx::complete`](serve::Cx::complete) returns, or with an error
    ///
    /// Dropped where it waits when the call is cancelled. A panic is caught and answered with an internal error; the
    /// handler is used again afterwards, in whatever state the panic left it in.
    ///
    /// # Errors
    ///
    /// What the client is told instead of a result. `?` on the results of [`Call`]'s and [`Cx`]'s methods gives the right
    /// one.
    async fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError>;

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

    /// Judges the token that a request came with: on whose behalf it is made, or why it is not let in
    ///
    /// Asked for each request to an HTTP server that is [protected](mcp_proto::http::server::Config::protected). By
    /// default no token is good. A token must have been issued for this very server (SEC-001).
    ///
    /// # Errors
    ///
    /// What the client is told.
    #[cfg(feature = "http")]
    fn token(&self, token: &Token) -> Result<String, Denial> {
        let _ = token;
        Err(Denial::InvalidToken)
    }

    /// Tells `tell` the name and the input schema of each tool
    ///
    /// An HTTP server asks for that when it begins, and when a call has published that the tools have changed: arguments
    /// that a schema has repeated in header fields (`x-mcp-header`) are held against these. By default nothing is told,
    /// and nothing is compared.
    fn tools(&self, tell: &mut dyn FnMut(&str, &RawJson)) {
        let _ = tell;
    }

    /// Sees every other event: sessions that were opened, requests of our own that ended
    fn event(&self, event: &Event) {
        let _ = event;
    }
}

impl<F: AsyncFn(&mut Cx<'_>, &Call) -> Result<Answered, RpcError>> Handler for F {
    async fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        self(cx, call).await
    }
}

/// Has a handler answer a call, and reports what came of it; over where it waits when the call is cancelled
pub(crate) async fn run<H: Handler>(handler: &H, mut remote: Remote) {
    let running = remote.running().clone();
    let verdict = {
        let mut cx = Cx(serve::Cx::new(&mut remote, running.call()));
        let outcome = {
            let mut outcome = pin!(caught(handler.call(&mut cx, running.call())));
            poll_fn(|cx| {
                if running.is_cancelled() {
                    return Poll::Ready(None);
                }
                let outcome = outcome.as_mut().poll(cx);
                if outcome.is_pending() {
                    running.wake_when_cancelled(cx.waker());
                }
                outcome.map(Some)
            })
            .await
        };
        outcome.map(|outcome| cx.0.verdict(outcome))
    };
    if let Some(verdict) = verdict {
        remote.end(verdict);
    }
}

/// What a future gives, or its panic
pub(crate) async fn caught<F: Future>(future: F) -> Result<F::Output, Panic> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch(|| future.as_mut().poll(cx)) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// A handler for a loop, which believes to have it alone; calls are for [`run`]
#[cfg(feature = "http")]
#[derive(Debug)]
pub(crate) struct Shared<H>(pub(crate) Arc<H>);

#[cfg(feature = "http")]
impl<H: Handler> serve::Handler for Shared<H> {
    fn call(&mut self, _: &mut serve::Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        Err(RpcError::method_not_found(call.method()))
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

    fn head(&mut self, record: &HeadRecord) {
        self.0.head(record);
    }

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

/// Has a handler see an event that is no call
pub(crate) fn tell(handler: &impl Handler, event: &Event) {
    // A panic ends what panicked and nothing else; the panic hook has said it.
    let _ = match event {
        Event::Call(_) | Event::Cancelled { .. } => Ok(()),
        Event::Notification(notification) => catch(|| handler.notification(notification)),
        Event::Diagnostic { diagnostic, .. } => catch(|| handler.diagnostic(diagnostic)),
        other => catch(|| handler.event(other)),
    };
}
