//! The downstream side over HTTP.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::net::ToSocketAddrs;

use mcp_auth::token::TokenValidator;
use mcp_proto::http::server as http;
use mcp_proto::http::server::{Denial, ExchangeId};
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::{Entropy, Instant, RawJson};
use mcp_runtime::server::{Connections, TokenOutcome, TokenQueue, TokenWorkers};
use mcp_std::entropy;
use mcp_std::io::Listener;
use mcp_std::poll::WaitRequest;
use mcp_std::sync::Inbox;
#[cfg(feature = "tls")]
use mcp_std::tls::ServerTls;

use super::downstream::{Downstream, give_tasks, with_defaults};

/// An address at which a proxy serves clients over HTTP, any number of them. They share the servers.
///
/// Every process that can reach the address can use the servers. Listen on `127.0.0.1` or `[::1]` unless it is meant for other machines.
#[derive(Debug)]
pub struct Http {
    connections: Connections,
    config: http::Config,
    tokens: Option<TokenWorkers>,
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
        Ok(Self { connections: Connections::new(Listener::bind(address)?)?, config, tokens: None })
    }

    /// Returns the address of the listener.
    ///
    /// # Errors
    ///
    /// That of the operating system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.connections.address()
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
        self.connections.max_connections = connections;
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
        self.connections.tls = Some(tls.into());
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
    tokens: Option<TokenQueue>,
    /// Decisions about tokens, which are made on other threads.
    decided: Inbox<(ExchangeId, TokenOutcome)>,
}

impl HttpDownstream {
    /// # Errors
    ///
    /// That of the system, if it refuses what is needed.
    pub(super) fn new(config: Config, http: Http, idle_timeout: Option<Duration>) -> io::Result<Self> {
        let Http { mut connections, config: protocol, tokens: workers } = http;
        // Time has passed since the address was bound.
        connections.tick();
        let mut protocol = protocol.max_sessions(MAX_SESSIONS, MAX_SESSIONS);
        if let Some(idle) = idle_timeout {
            // Those of clients that vanished would take the places of others.
            protocol = protocol.session_idle_timeout(idle);
        }
        let anchor = connections.anchor();
        let entropy = Entropy::new(entropy::seed()?, entropy::nonce());
        let mut server = http::Server::new(with_defaults(config, anchor), Arc::new(protocol), entropy);
        give_tasks(server.engine(), connections.now(), anchor);
        server.set_max_connections(connections.max_connections);
        let (events, decided) = (VecDeque::new(), Inbox::new(usize::MAX));
        let mut tokens = None;
        if let Some(workers) = workers {
            decided.register(&connections.waker()?);
            tokens = Some(TokenQueue::new(workers, &mut server));
        }
        Ok(Self { server, connections, events, error: None, shutdown_deadline: None, tokens, decided })
    }

    fn collect_events(&mut self) {
        let now = self.connections.now();
        while let Some(event) = self.server.poll_event(now) {
            match event {
                http::Event::Server(event) => self.events.push_back(event),
                http::Event::Token { exchange, request } => match &mut self.tokens {
                    Some(tokens) => {
                        let [decided, refused] = [(); 2].map(|()| self.decided.sender());
                        // Bounded by the tokens that wait. The loop may have ended.
                        let reply = Box::new(move |outcome| _ = decided.send_unbounded((exchange, outcome)));
                        if let Err(denial) = tokens.submit(exchange, request, reply) {
                            let _ = refused.send_unbounded((exchange, Err(denial)));
                        }
                    }
                    None => self.server.deny(now, exchange, &Denial::invalid_token()),
                },
                _ => {}
            }
        }
    }

    /// Applies decisions about tokens.
    fn apply_decisions(&mut self) {
        let Some(tokens) = &mut self.tokens else { return };
        tokens.discard(&self.server);
        let now = self.connections.now();
        let mut decided = VecDeque::new();
        self.decided.take(&mut decided);
        for (exchange, outcome) in decided {
            match outcome {
                Ok(identity) => self.server.grant(now, exchange, identity),
                Err(denial) => self.server.deny(now, exchange, &denial),
            }
            self.connections.drive(&mut self.server, exchange);
        }
        self.collect_events();
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
