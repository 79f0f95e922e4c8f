//! Handlers in tasks of their own.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
use mcp_proto::server::{Call, Event, Notification};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Diagnostic, RawJson, RpcError};
use mcp_runtime::server::{Attachments, Placement, RemoteCall, StartTimer, run_call};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinHandle;

use crate::{Answered, Cx, Handler, HandlerFailure, Router};

/// A router whose calls run in tasks of tokio, one for each, instead of inside the future of the server.
///
/// On a runtime of several threads the calls of one client then use several cores, and one that computes without awaiting
/// delays no other, as long as the runtime has a thread left. A task costs allocations and a wake-up of another thread for
/// each call, so this is of no use for handlers that answer at once; those that block for long belong to
/// [`unblock`](crate::unblock).
///
/// A task is aborted when its call is cancelled, when the client disconnects, and when the server ends: the future of the
/// handler is dropped at its next `await`. Until then the call counts for
/// [`max_running`](crate::generic::Server::max_running). A panic is answered as elsewhere. A call sees the router as it is when
/// its task begins.
///
/// ```no_run
/// use mcp_tokio::{Cx, Router, Server, Spawned, Stdio};
/// use mcp_tokio::mcp_proto::{RawJson, model::Tool};
///
/// #[tokio::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let mut router = Router::new("primes", "1.0");
///     let tool = Tool::new("count", RawJson::new(r#"{"type":"object"}"#)?);
///     router.tool_with(tool, async |_: &mut Cx, _: serde_json::Value| {
///         let is_prime = |n: &u32| (2..*n).all(|d| n % d != 0);
///         (2..20_000).filter(is_prime).count().to_string()
///     });
///     let config = router.config()?;
///     Server::stdio(config, Spawned::new(router))?.run().await?;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Spawned {
    router: Arc<Router>,
    runtime: Option<Handle>,
}

impl Spawned {
    /// Creates the handler. Its tasks run in the runtime that polls the server.
    ///
    /// Each [shard](crate::generic::HttpServer::shards) but the first has a runtime of one thread: name another one by
    /// [`on`](Self::on).
    pub fn new(router: Router) -> Self {
        Self { router: Arc::new(router), runtime: None }
    }

    /// Sets the runtime whose tasks the calls are, for example the one of `main` for all shards.
    #[must_use]
    pub fn on(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Returns the router.
    pub fn router(&self) -> &Router {
        &self.router
    }
}

impl Handler for Spawned {
    /// Runs a call in the future of the caller. Servers [place](Self::place) calls elsewhere before.
    async fn call(&self, cx: &mut Cx, call: &Call) -> Result<Answered, RpcError> {
        self.router.call(cx, call).await
    }

    fn place(&self, call: RemoteCall, timer: StartTimer) -> Placement {
        // Outside of a runtime, as in tests on virtual time, there are no tasks.
        let Some(runtime) = self.runtime.clone().or_else(|| Handle::try_current().ok()) else {
            return Placement::Inline(call, timer);
        };
        let router = self.router.clone();
        let task = runtime.spawn(async move {
            if let Some(finished) = run_call(&*router, call, timer).await {
                finished.report();
            }
        });
        if runtime.runtime_flavor() != RuntimeFlavor::CurrentThread {
            // A thread of the runtime keeps the task that it spawned last to itself, and wakes no other thread for it. With
            // another one after it, a second thread is awake, and watches the sockets while the call computes.
            drop(runtime.spawn(async {}));
        }
        Placement::Spawned(Box::pin(AbortOnDrop(task)))
    }

    fn notification(&self, notification: &Notification) {
        self.router.notification(notification);
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        self.router.diagnostic(diagnostic);
    }

    fn failed(&self, call: &Call, failure: &HandlerFailure) {
        self.router.failed(call, failure);
    }

    fn tap(&self, record: &TapRecord) {
        self.router.tap(record);
    }

    #[cfg(feature = "http")]
    fn head(&self, record: &HeadRecord) {
        self.router.head(record);
    }

    fn for_each_tool(&self, visit: &mut dyn FnMut(&str, &RawJson)) {
        Handler::for_each_tool(&*self.router, visit);
    }

    fn attachments(&self) -> Attachments {
        self.router.attachments()
    }

    fn event(&self, event: &Event) {
        self.router.event(event);
    }
}

impl fmt::Debug for Spawned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawned").field("runtime", &self.runtime).finish_non_exhaustive()
    }
}

/// A task that is aborted when this is dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Future for AbortOnDrop {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Handlers catch their panics. After a panic in a destructor, or if the runtime has ended, the call is gone: its
        // server answers it with an error.
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
