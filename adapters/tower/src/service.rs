//! The service, and its settings.

#[cfg(feature = "shared-sessions")]
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll};
use core::time::Duration;
use std::io::{self, ErrorKind};

use http::{Request, Response, request};
use http_body::Body;
use mcp_auth::token::TokenValidator;
use mcp_proto::http::server::{Config as HttpConfig, Server};
use mcp_proto::router::RegisterErrors;
use mcp_proto::seal::Keys;
use mcp_proto::server::{Announcement, Config, ConnectionInfo, Engine};
use mcp_proto::{Anchor, Entropy, Instant, UseError};
use mcp_runtime::Error;
use mcp_runtime::server::router::{Futures, Router, Shared};
use mcp_runtime::server::{Handle, TokenWorkers};
use mcp_std::task_store::TasksError;
use tower_service::Service;

use crate::handler::Application;
use crate::request_view::RequestView;
use crate::shard::{Poller, Shard, StartSharing, Waiter};
use crate::{McpBody, ResponseFuture, Timer};

/// An MCP server as a [`tower_service::Service`]. A clone is a handle to the same server.
///
/// See the [crate](crate) for how to mount it.
#[derive(Clone)]
pub struct McpService(Arc<Inner>);

/// What the handles to a server share.
pub(crate) struct Inner {
    pub(crate) shards: Vec<Arc<Shard>>,
    /// The shard of the next request without a session.
    next: AtomicUsize,
    pub(crate) body_timeout: Duration,
    pub(crate) view: RequestView,
}

impl Inner {
    /// Returns the shard of the next request, unless that has a session.
    pub(crate) fn next_shard(&self) -> Option<&Arc<Shard>> {
        match &*self.shards {
            [only] => Some(only),
            all => all.get(self.next.fetch_add(1, Ordering::Relaxed) % all.len().max(1)),
        }
    }
}

impl McpService {
    /// Creates a service with the default settings: one engine, for clients of this machine
    /// ([`HttpConfig`]), with the timers of the enabled feature.
    ///
    /// # Errors
    ///
    /// As [`Builder::build`].
    pub fn new<R: 'static>(router: Router<Futures<R, Shared>>) -> Result<Self, Error> {
        Self::builder(router).build()
    }

    /// Begins to create a service with other settings.
    pub fn builder<R: 'static>(router: Router<Futures<R, Shared>>) -> Builder {
        Builder::new(router)
    }

    /// Serves one request, as [`Service::call`] does, for stacks that take a function.
    pub fn handle<B: Body>(&self, request: Request<B>) -> ResponseFuture<B> {
        ResponseFuture::new(request, self.0.clone())
    }

    /// Returns the future that drives the server between requests, until it is [shut down](Self::shutdown).
    ///
    /// A service does the work of the protocol whenever a request or a body is polled; this does it when there is none, and
    /// polls the handlers that no response polls: those of event streams, of clients that have left and may come back, and of
    /// tasks. Spawn it in a runtime. In tokio (feature `tokio`) the service does that itself while there are such handlers.
    #[must_use = "futures do nothing unless polled"]
    pub fn run(&self) -> Run {
        Run::new(self.0.clone())
    }

    /// Shuts the server down: new requests get 503, streams end, and what is not answered after `grace` is aborted.
    ///
    /// This begins at once. The returned future is ready when all responses were taken and no handler runs, or after
    /// `grace`; it drives the server until then. Stop the web server when it is ready: before that, open event streams hold it up.
    pub fn shutdown(&self, grace: Duration) -> Run {
        for shard in &self.0.shards {
            Handle::new(shard.commands()).shutdown(grace);
            shard.settle();
        }
        self.run()
    }

    /// Publishes a change to all subscribers, or an [`Announcement`] to its audience. Handlers do so with [`Cx::publish`](crate::Cx).
    ///
    /// # Errors
    ///
    /// [`UseError::Closed`] if the server has stopped.
    pub fn publish<'c>(&self, change: impl Into<Announcement<'c>>) -> Result<(), UseError> {
        // The first shard tells the others.
        let Some(shard) = self.0.shards.first() else { return Err(UseError::Closed) };
        let published = Handle::new(shard.commands()).publish(change);
        shard.settle();
        published
    }

    /// Runs a command on the engine of each shard, for example to count sessions.
    ///
    /// # Errors
    ///
    /// [`UseError::Full`] if 1,024 commands wait, [`UseError::Closed`] if the server has stopped.
    pub fn with_engines(
        &self,
        command: impl Fn(&mut Engine, Instant) + Clone + Send + 'static,
    ) -> Result<(), UseError> {
        for shard in &self.0.shards {
            Handle::new(shard.commands()).with_engine(command.clone())?;
            shard.settle();
        }
        Ok(())
    }
}

impl<B: Body> Service<Request<B>> for McpService {
    type Response = Response<McpBody>;
    type Error = Infallible;
    type Future = ResponseFuture<B>;

    /// Always ready: a server that is overloaded answers with 503.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture<B> {
        self.handle(request)
    }
}

impl fmt::Debug for McpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpService").field("shards", &self.0.shards).finish_non_exhaustive()
    }
}

/// Drives a server until it has ended; see [`McpService::run`] and [`McpService::shutdown`].
///
/// Spawn it, or await it where the server ends. Within the handling of a request it would poll the handlers of others.
pub struct Run {
    service: Arc<Inner>,
    /// Empty before the first poll: a future that is never polled drives nothing.
    drivers: Vec<u64>,
}

impl Run {
    const fn new(service: Arc<Inner>) -> Self {
        Self { service, drivers: Vec::new() }
    }
}

impl Future for Run {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if this.drivers.is_empty() {
            this.drivers = this.service.shards.iter().map(|shard| shard.add_driver()).collect();
        }
        let mut is_over = true;
        for (shard, driver) in this.service.shards.iter().zip(&this.drivers) {
            shard.turn(Poller::Driver);
            shard.wait(Waiter::Driver(*driver), cx.waker());
            if shard.has_work_for(Poller::Driver) {
                cx.waker().wake_by_ref();
            }
            is_over &= shard.is_over();
        }
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let shards = self.service.shards.iter();
        shards.zip(&self.drivers).for_each(|(shard, driver)| shard.remove_driver(*driver, true));
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("shards", &self.service.shards).finish_non_exhaustive()
    }
}

/// Settings of an [`McpService`].
pub struct Builder {
    application: Arc<dyn Application>,
    config: Result<Config, RegisterErrors>,
    http: HttpConfig,
    timer: Arc<dyn Timer>,
    secret: Option<[u8; 32]>,
    shards: u8,
    max_running: usize,
    tokens: Option<TokenWorkers>,
    share_sessions: Option<StartSharing>,
    body_timeout: Duration,
    view: RequestView,
}

impl Builder {
    fn new<R: 'static>(router: Router<Futures<R, Shared>>) -> Self {
        Self {
            config: router.config(),
            application: Arc::new(router),
            http: HttpConfig::new(),
            timer: default_timer(),
            secret: None,
            shards: 1,
            max_running: 1024,
            tokens: None,
            share_sessions: None,
            body_timeout: Duration::from_secs(60),
            view: RequestView::default(),
        }
    }

    /// Sets which requests are served: path, hosts, origins, sessions, limits.
    #[must_use]
    pub fn http(mut self, http: HttpConfig) -> Self {
        self.http = http;
        self
    }

    /// Changes the settings of the protocol, for example its limits.
    #[must_use]
    pub fn config(mut self, change: impl FnOnce(Config) -> Config) -> Self {
        self.config = self.config.map(change);
        self
    }

    /// Sets the clock and the timers (default: [`TokioTimer`](crate::TokioTimer) or
    /// [`AsyncIoTimer`](crate::AsyncIoTimer), by feature; otherwise [`StdClock`](crate::StdClock)).
    #[must_use]
    pub fn timer(mut self, timer: impl Timer) -> Self {
        self.timer = Arc::new(timer);
        self
    }

    /// Sets the secret of which session ids and sealed state are made (default: of the operating system).
    ///
    /// It must come from a cryptographic source and be another one for each process, or whenever a process restarts. On
    /// `wasm32-unknown-unknown` it is required.
    #[must_use]
    pub const fn secret(mut self, secret: [u8; 32]) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Sets the number of engines (default 1; at least 1), so that threads do not wait for each other.
    ///
    /// Each has sessions of its own; the limits of [`http`](Self::http) hold for each.
    #[must_use]
    pub const fn shards(mut self, shards: u8) -> Self {
        self.shards = shards;
        self
    }

    /// Sets how many calls of a shard run at a time (default 1,024, at least 1). More calls wait; beyond that, requests get
    /// 503.
    #[must_use]
    pub const fn max_running(mut self, calls: usize) -> Self {
        self.max_running = calls;
        self
    }

    /// Sets the validator of access tokens, for a server that is [protected](HttpConfig::protected).
    ///
    /// A decision that it cannot make at once is made on threads of its own, at most 8 at a time; 256 more tokens may
    /// wait.
    #[must_use]
    pub fn validate_tokens(mut self, validator: impl TokenValidator + 'static) -> Self {
        self.tokens = Some(TokenWorkers::new(validator));
        self
    }

    /// Shares the sessions of clients with other processes, so that each request can go to any of them and a session survives
    /// its process.
    ///
    /// Requests that need the store while it is down are answered with 503 and `Retry-After`: those that begin or change a
    /// session, and those of a session that is not here. A server with tasks cannot share its sessions, because other
    /// processes would not know the tasks.
    #[cfg(feature = "shared-sessions")]
    #[must_use]
    pub fn share_sessions(mut self, sessions: &mcp_runtime::server::SharedSessions) -> Self {
        let sessions = sessions.clone();
        self.share_sessions = Some(Box::new(move |server| sessions.share(server)));
        self
    }

    /// Sets how long the body of a request may take (default 60 s). Reached: 408.
    #[must_use]
    pub const fn body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = timeout;
        self
    }

    /// Lets handlers see the value of a type that a layer in front puts into the extensions of a request
    /// ([`Call::extension`](crate::Call::extension)). Call it for each such type.
    #[must_use]
    pub fn extension<T: Clone + Send + Sync + 'static>(mut self) -> Self {
        self.view.add_extension::<T>();
        self
    }

    /// Sets a function that describes the connection of a request to its handlers
    /// ([`HttpRequest::connection`](mcp_proto::server::HttpRequest::connection)), for example by the address that the web server
    /// puts into the extensions of the request (default: nothing is known). It must not block. A request for which it panics gets 500.
    #[must_use]
    pub fn describe_connections(
        mut self,
        describe: impl Fn(&request::Parts) -> ConnectionInfo + Send + Sync + 'static,
    ) -> Self {
        self.view.set_describe(describe);
        self
    }

    /// Creates the service.
    ///
    /// # Errors
    ///
    /// [`Error::Register`] if an entry could not be registered. [`Error::Io`] if there is no source of randomness, or the
    /// schema of a tool has invalid header parameters. [`Error::Tasks`] if stored tasks cannot be loaded, or if a server with
    /// tasks has several shards.
    pub fn build(self) -> Result<McpService, Error> {
        let secret = match self.secret {
            Some(secret) => secret,
            None => mcp_std::entropy::seed()?,
        };
        // A number that no engine has: sealed state is independent of session ids.
        let mut entropy = Entropy::new(secret, u64::MAX);
        let mut keys = [0; 32];
        entropy.fill(&mut keys);
        let now = crate::shard::instant(&*self.timer);
        let anchor = Anchor::new(now, self.timer.unix_seconds());
        let config = self.config?.max_memory_by_default(mcp_std::memory::max_memory());
        let config = Arc::new(config.seal_by_default(|| Some((Keys::new(keys), anchor))));
        let http = Arc::new(self.http);
        let all = self.shards.max(1);
        let mut shards = Vec::new();
        for index in 0..all {
            let server = Server::new(config.clone(), http.clone(), Entropy::new(secret, u64::from(index)));
            let application = self.application.clone();
            let shard = Shard::new(server, application, self.timer.clone(), self.max_running, (index, all));
            if shard.prepare(self.tokens.as_ref())? && (all > 1 || self.share_sessions.is_some()) {
                return Err(TasksError::Shards.into());
            }
            if let Some(start) = &self.share_sessions {
                shard.share_sessions(start)?;
            }
            shards.push(shard);
        }
        for shard in &shards {
            let others = shards.iter().filter(|other| !Arc::ptr_eq(shard, other));
            shard.set_others(others.map(Arc::downgrade).collect());
        }
        if shards.is_empty() {
            return Err(io::Error::from(ErrorKind::InvalidInput).into());
        }
        let (next, body_timeout, view) = (AtomicUsize::new(0), self.body_timeout, self.view);
        Ok(McpService(Arc::new(Inner { shards, next, body_timeout, view })))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("http", &self.http).finish_non_exhaustive()
    }
}

/// Returns the timers of the enabled feature.
fn default_timer() -> Arc<dyn Timer> {
    #[cfg(feature = "tokio")]
    return Arc::new(crate::TokioTimer);
    #[cfg(all(feature = "async-io", not(feature = "tokio")))]
    return Arc::new(crate::AsyncIoTimer);
    #[cfg(not(any(feature = "async-io", feature = "tokio")))]
    return Arc::new(crate::StdClock);
}
