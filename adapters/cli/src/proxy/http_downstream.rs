//! The downstream side over HTTP.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
#[cfg(feature = "auth")]
use core::sync::atomic::{AtomicBool, Ordering};
#[cfg(feature = "auth")]
use core::task::Waker;
use core::time::Duration;
#[cfg(feature = "auth")]
use std::sync::mpsc;

#[cfg(feature = "auth")]
use mcp_auth::token::TokenValidator;
use mcp_proto::http::server as http;
#[cfg(feature = "auth")]
use mcp_proto::http::server::{ExchangeId, TokenRequest};
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::{Entropy, Instant, RawJson};
use mcp_runtime::server::Connections;
#[cfg(feature = "auth")]
use mcp_runtime::server::{TokenOutcome, TokenWorkers};
use mcp_std::entropy;
use mcp_std::io::Listener;
use mcp_std::poll::WaitRequest;
#[cfg(feature = "tls")]
use mcp_std::tls::ServerTls;

use super::downstream::{Downstream, give_tasks, with_defaults};
use crate::args::{ProxyArgs, ServeHttpArgs};
use crate::endpoint::http as options;
use crate::failure::CommandFailure;

/// An address that is bound already, before anything else is tried.
pub(crate) struct BoundHttp {
    listener: Listener,
    #[cfg(feature = "tls")]
    tls: Option<ServerTls>,
}

impl BoundHttp {
    /// Binds the address, and reads the certificate.
    ///
    /// # Errors
    ///
    /// Fails if one of them is wrong, or if the address is not free.
    pub(crate) fn new(args: &ServeHttpArgs, address: &str) -> Result<Self, CommandFailure> {
        #[cfg(feature = "tls")]
        let tls = options::tls(args)?;
        options::raise_descriptor_limit(args);
        let listener =
            Listener::bind(address).map_err(|error| options::bind_failure(address, &error.into()))?;
        Ok(Self {
            listener,
            #[cfg(feature = "tls")]
            tls,
        })
    }

    /// Serves clients, and prints the URL.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses what it needs.
    pub(crate) fn serve(
        self,
        args: &ProxyArgs,
        config: Config,
        http: http::Config,
    ) -> Result<HttpDownstream, CommandFailure> {
        let at = self.listener.address().map_err(|error| CommandFailure::failed(error.to_string()))?;
        let protected = http.protected_resource().cloned();
        let mut http = http.max_sessions(MAX_SESSIONS, MAX_SESSIONS);
        if !args.idle_timeout.is_zero() {
            // Those of clients that vanished would take the places of others.
            http = http.session_idle_timeout(args.idle_timeout);
        }
        #[allow(unused_mut, reason = "that TLS is spoken is said afterwards")]
        let mut downstream = HttpDownstream::new(config, http, self.listener)?;
        downstream.set_max_connections(args.http.max_connections);
        #[cfg(feature = "tls")]
        {
            downstream.connections.tls = self.tls;
        }
        options::report_address(&args.http, Ok(at), protected.as_ref())?;
        Ok(downstream)
    }
}

/// Any number of clients over HTTP.
pub(crate) struct HttpDownstream {
    server: http::Server,
    connections: Connections,
    events: VecDeque<Event>,
    error: Option<std::io::Error>,
    shutdown_deadline: Option<Instant>,
    #[cfg(feature = "auth")]
    tokens: Option<TokenQueue>,
}

impl HttpDownstream {
    fn new(config: Config, http: http::Config, listener: Listener) -> Result<Self, CommandFailure> {
        let failed =
            |error: std::io::Error| CommandFailure::failed(format!("HTTP cannot be served: {error}"));
        let peers = Connections::new(listener).map_err(failed)?;
        let anchor = peers.anchor();
        let entropy = Entropy::new(entropy::seed().map_err(failed)?, entropy::nonce());
        let mut server = http::Server::new(with_defaults(config, anchor), Arc::new(http), entropy);
        give_tasks(server.engine(), peers.now(), anchor);
        let mut downstream = Self {
            server,
            connections: peers,
            events: VecDeque::new(),
            error: None,
            shutdown_deadline: None,
            #[cfg(feature = "auth")]
            tokens: None,
        };
        downstream.set_max_connections(None);
        Ok(downstream)
    }

    /// Sets the connection limit, if one is given.
    fn set_max_connections(&mut self, connections: Option<usize>) {
        if let Some(connections) = connections {
            self.connections.max_connections = connections;
        }
        self.server.set_max_connections(self.connections.max_connections);
    }

    /// Sets what decides about the tokens of clients.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses what a decision on another thread needs.
    #[cfg(feature = "auth")]
    pub(crate) fn validate_tokens(
        &mut self,
        validator: impl TokenValidator + 'static,
    ) -> Result<(), CommandFailure> {
        let failed = |error: std::io::Error| CommandFailure::failed(error.to_string());
        let workers = TokenWorkers::new(validator);
        let quick = workers.clone();
        self.server.set_validator(move |request| quick.validate_now(request));
        let waker = self.connections.waker().map_err(failed)?;
        self.tokens = Some(TokenQueue::new(workers, waker));
        Ok(())
    }

    fn collect_events(&mut self) {
        let now = self.connections.now();
        while let Some(event) = self.server.poll_event(now) {
            match event {
                http::Event::Server(event) => self.events.push_back(event),
                #[cfg(feature = "auth")]
                http::Event::Token { exchange, request } => {
                    if let Some(tokens) = &mut self.tokens {
                        tokens.submit(exchange, request);
                    }
                }
                _ => {}
            }
        }
    }

    /// Applies decisions about tokens.
    #[cfg(feature = "auth")]
    fn apply_decisions(&mut self) {
        let Some(tokens) = &mut self.tokens else { return };
        tokens.discard(&self.server);
        let now = self.connections.now();
        while let Ok((exchange, outcome)) = tokens.decisions.try_recv() {
            match outcome {
                Ok(identity) => self.server.grant(now, exchange, identity),
                Err(denial) => self.server.deny(now, exchange, &denial),
            }
            self.connections.drive(&mut self.server, exchange);
        }
        self.collect_events();
    }
}

/// Tokens that are decided about on other threads.
#[cfg(feature = "auth")]
struct TokenQueue {
    workers: TokenWorkers,
    waker: Waker,
    decided: mpsc::Sender<(ExchangeId, TokenOutcome)>,
    decisions: mpsc::Receiver<(ExchangeId, TokenOutcome)>,
    /// Exchanges that wait, with the flags that the decision is wanted.
    undecided: Vec<(ExchangeId, Arc<AtomicBool>)>,
}

#[cfg(feature = "auth")]
impl TokenQueue {
    fn new(workers: TokenWorkers, waker: Waker) -> Self {
        let (decided, decisions) = mpsc::channel();
        Self { workers, waker, decided, decisions, undecided: Vec::new() }
    }

    fn submit(&mut self, exchange: ExchangeId, request: TokenRequest) {
        let (decided, waker) = (self.decided.clone(), self.waker.clone());
        let reply = Box::new(move |outcome| {
            // The loop may have ended.
            let _ = decided.send((exchange, outcome));
            waker.wake_by_ref();
        });
        match self.workers.submit(request, reply) {
            Ok(is_wanted) => self.undecided.push((exchange, is_wanted)),
            Err(denial) => _ = self.decided.send((exchange, Err(denial))),
        }
    }

    /// Forgets the tokens whose clients are gone or were refused meanwhile, so that they take no thread and no place.
    fn discard(&mut self, server: &http::Server) {
        let before = self.undecided.len();
        self.undecided.retain(|(exchange, is_wanted)| {
            let waits = server.awaits_token_decision(*exchange);
            if !waits {
                is_wanted.store(false, Ordering::Release);
            }
            waits
        });
        if self.undecided.len() < before {
            self.workers.discard_unwanted();
        }
    }
}

impl Downstream for HttpDownstream {
    fn engine(&mut self) -> &mut Engine {
        self.server.engine()
    }

    fn now(&self) -> Instant {
        self.connections.now()
    }

    fn poll_event(&mut self) -> Option<Event> {
        if self.events.is_empty() {
            self.collect_events();
        }
        self.events.pop_front()
    }

    fn write(&mut self) -> bool {
        self.connections.write(&mut self.server)
    }

    fn poll_io(&mut self, reads: bool) {
        let now = self.connections.tick();
        if let Err(error) = self.connections.wait(&mut self.server, reads, Some(now)) {
            self.error.get_or_insert(error);
        }
        while self.connections.process_next(&mut self.server, reads) {
            self.collect_events();
        }
        #[cfg(feature = "auth")]
        self.apply_decisions();
        if self.shutdown_deadline.is_some_and(|at| at <= self.connections.now()) {
            self.connections.write(&mut self.server);
            self.connections.abandon(&mut self.server);
        }
    }

    fn wait_requests(&mut self, reads: bool) -> Vec<WaitRequest<'_>> {
        let Self { connections: peers, server, error, .. } = self;
        // With those of the signal and of a few servers.
        let mut all = Vec::with_capacity(8);
        all.push(peers.wait_request(server, reads).unwrap_or_else(|why| {
            error.get_or_insert(why);
            WaitRequest::unpollable(Some(Duration::ZERO))
        }));
        all
    }

    fn shutdown(&mut self, grace: Duration) {
        let now = self.connections.tick();
        self.server.shutdown(now, grace);
        self.connections.close(&mut self.server);
        self.shutdown_deadline = Some(now + grace);
    }

    fn is_stream(&self) -> bool {
        false
    }

    fn is_finished(&self) -> bool {
        self.error.is_some() || self.connections.is_over()
    }

    fn take_error(&mut self) -> Option<std::io::Error> {
        self.error.take()
    }

    fn set_tool_schema(&mut self, name: &str, schema: &RawJson) {
        // An invalid schema is ignored here; the server itself checks the header fields.
        let _ = self.server.set_tool_schema(name, schema);
    }
}

/// Maximum number of HTTP sessions. All share the connections to servers, which a legacy request may fan out to.
const MAX_SESSIONS: usize = 10_000;
