//! The downstream side over HTTP.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::net::SocketAddr;
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::net::ToSocketAddrs;
use std::sync::mpsc;

use mcp_auth::token::TokenValidator;
use mcp_proto::http::server as http;
use mcp_proto::http::server::{Denial, ExchangeId, TokenRequest};
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::{Entropy, Instant, RawJson};
use mcp_runtime::server::{Connections, TokenOutcome, TokenQueue, TokenWorkers};
use mcp_std::entropy;
use mcp_std::io::Listener;
use mcp_std::poll::WaitRequest;
#[cfg(feature = "tls")]
use mcp_std::tls::ServerTls;

use super::downstream::{Downstream, give_tasks, with_defaults};

/// An address at which a proxy serves clients over HTTP, any number of them. They share the servers.
///
/// Every process that can reach the address can use the servers. Listen on `127.0.0.1` or `[::1]` unless it is meant for other machines.
#[derive(Debug)]
pub struct Http {
    listener: Listener,
    config: http::Config,
    max_connections: Option<usize>,
    tokens: Option<TokenWorkers>,
    #[cfg(feature = "tls")]
    tls: Option<ServerTls>,
}

impl Http {
    /// Starts to listen. With port 0 the system chooses one; see [`address`](Self::address).
    ///
    /// `config` says who is let in. Its limit of sessions becomes 10,000, and their idle timeout that of the proxy if there is one.
    ///
    /// # Errors
    ///
    /// As [`Listener::bind`].
    pub fn bind(address: impl ToSocketAddrs, config: http::Config) -> io::Result<Self> {
        let listener = Listener::bind(address)?;
        Ok(Self {
            listener,
            config,
            max_connections: None,
            tokens: None,
            #[cfg(feature = "tls")]
            tls: None,
        })
    }

    /// Returns the address of the listener.
    ///
    /// # Errors
    ///
    /// That of the operating system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.address()
    }

    /// Replaces the configuration that says who is let in.
    #[must_use]
    pub fn config(mut self, config: http::Config) -> Self {
        self.config = config;
        self
    }

    /// Sets the maximum number of open connections, as
    /// [`HttpServer::max_connections`](mcp_runtime::server::HttpServer::max_connections) does.
    #[must_use]
    pub const fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = Some(connections);
        self
    }

    /// Sets the validator of access tokens, if the configuration is [protected](http::Config::protected). Without one, no token is
    /// accepted.
    #[must_use]
    pub fn validate_tokens(mut self, validator: impl TokenValidator + 'static) -> Self {
        self.tokens = Some(TokenWorkers::new(validator));
        self
    }

    /// Enables TLS for all clients.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: impl Into<ServerTls>) -> Self {
        self.tls = Some(tls.into());
        self
    }
}

/// Any number of clients over HTTP.
pub(super) struct HttpDownstream {
    server: http::Server,
    connections: Connections,
    events: VecDeque<Event>,
    error: Option<io::Error>,
    shutdown_deadline: Option<Instant>,
    tokens: Option<Tokens>,
}

impl HttpDownstream {
    /// # Errors
    ///
    /// That of the system, if it refuses what is needed.
    pub(super) fn new(config: Config, http: Http, idle_timeout: Option<Duration>) -> io::Result<Self> {
        let mut connections = Connections::new(http.listener)?;
        let mut protocol = http.config.max_sessions(MAX_SESSIONS, MAX_SESSIONS);
        if let Some(idle) = idle_timeout {
            // Those of clients that vanished would take the places of others.
            protocol = protocol.session_idle_timeout(idle);
        }
        let anchor = connections.anchor();
        let entropy = Entropy::new(entropy::seed()?, entropy::nonce());
        let mut server = http::Server::new(with_defaults(config, anchor), Arc::new(protocol), entropy);
        give_tasks(server.engine(), connections.now(), anchor);
        if let Some(max) = http.max_connections {
            connections.max_connections = max;
        }
        server.set_max_connections(connections.max_connections);
        #[cfg(feature = "tls")]
        {
            connections.tls = http.tls;
        }
        let mut tokens = None;
        if let Some(workers) = http.tokens {
            let (decided, decisions) = mpsc::channel();
            let queue = TokenQueue::new(workers, &mut server);
            tokens = Some(Tokens { queue, waker: connections.waker()?, decided, decisions });
        }
        let events = VecDeque::new();
        Ok(Self { server, connections, events, error: None, shutdown_deadline: None, tokens })
    }

    fn collect_events(&mut self) {
        let now = self.connections.now();
        while let Some(event) = self.server.poll_event(now) {
            match event {
                http::Event::Server(event) => self.events.push_back(event),
                http::Event::Token { exchange, request } => match &mut self.tokens {
                    Some(tokens) => tokens.submit(exchange, request),
                    None => self.server.deny(now, exchange, &Denial::invalid_token()),
                },
                _ => {}
            }
        }
    }

    /// Applies decisions about tokens.
    fn apply_decisions(&mut self) {
        let Some(tokens) = &mut self.tokens else { return };
        tokens.queue.discard(&self.server);
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
struct Tokens {
    queue: TokenQueue,
    waker: Waker,
    decided: mpsc::Sender<(ExchangeId, TokenOutcome)>,
    decisions: mpsc::Receiver<(ExchangeId, TokenOutcome)>,
}

impl Tokens {
    fn submit(&mut self, exchange: ExchangeId, request: TokenRequest) {
        let (decided, waker) = (self.decided.clone(), self.waker.clone());
        let reply = Box::new(move |outcome| {
            // The loop may have ended.
            let _ = decided.send((exchange, outcome));
            waker.wake_by_ref();
        });
        if let Err(denial) = self.queue.submit(exchange, request, reply) {
            let _ = self.decided.send((exchange, Err(denial)));
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

    fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    fn set_tool_schema(&mut self, name: &str, schema: &RawJson) {
        // An invalid schema is ignored here; the server itself checks the header fields.
        let _ = self.server.set_tool_schema(name, schema);
    }
}

/// Maximum number of HTTP sessions. All share the connections to servers, which a legacy request may fan out to.
const MAX_SESSIONS: usize = 10_000;
