//! The connection pool of an HTTP client, with busy connections.

use mcp_proto::client::Event;
use mcp_proto::http::client::{Config, ConnectionId, ConnectionPool, Credential, PoolLimits};

use super::super::Scenario;
use super::client::{CALL_RESULT, negotiation_response, response};
use super::engine::id_of;
use super::http_client::{ENDPOINT, HttpClient};
use super::{limits, warmed_up};

/// Returns the scenario of a client with one connection, whose requests bring this token.
pub(super) fn client_call(token: Option<&str>) -> BusyConnections {
    let mut config = Config::new(ENDPOINT).expect("a URL").dangerously_allow_cleartext_credential();
    if let Some(token) = token {
        config = config.credential(Credential::bearer(token).expect("a token"));
    }
    BusyConnections::with_client(0, HttpClient::configured(limits(0), config))
}

/// A call over an idle connection, beside `n` connections with a call each.
pub(super) struct BusyConnections {
    http: HttpClient,
    pool: ConnectionPool,
    /// The connection that is used again.
    connection: ConnectionId,
}

impl BusyConnections {
    pub(super) fn new(n: usize) -> Self {
        Self::with_client(n, HttpClient::unconnected(limits(n)))
    }

    fn with_client(n: usize, mut http: HttpClient) -> Self {
        let mut limits = PoolLimits::default();
        limits.max_connections = n + 10;
        let mut pool = ConnectionPool::new(limits);
        assert!(pool.poll_event(http.now, &mut http.client).is_none(), "no answer yet");
        let (connection, _) = pool.poll_connect().expect("a connection");
        pool.handle_connected(http.now, connection);
        let mut busy = Self { http, pool, connection };
        let request = busy.take_request(connection);
        busy.respond(&negotiation_response(&request).expect("a request of the negotiation"));
        assert!(matches!(busy.poll_event(), Some(Event::Ready(_))), "connected");
        for _ in 0..n {
            busy.start_call();
            let connected = busy.pool.poll_connect();
            let connection = connected.map_or(busy.connection, |(connection, _)| connection);
            busy.pool.handle_connected(busy.http.now, connection);
            busy.connection = connection;
            busy.take_request(connection);
        }
        // One more connection, which the measured calls use; without others that is the first one.
        busy.start_call();
        if let Some((connection, _)) = busy.pool.poll_connect() {
            busy.pool.handle_connected(busy.http.now, connection);
            busy.connection = connection;
        }
        busy.finish_call();
        warmed_up(busy)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.pool.poll_event(self.http.now, &mut self.http.client)
    }

    fn start_call(&mut self) {
        let now = self.http.now;
        self.http.text.call(self.http.client.engine(), now);
        assert!(self.poll_event().is_none(), "no answer yet");
    }

    /// Takes the bytes of a request.
    fn take_request(&mut self, connection: ConnectionId) -> Vec<u8> {
        let mut request = Vec::new();
        while let sent @ 1.. = self.pool.transmit(connection).len() {
            request.extend_from_slice(self.pool.transmit(connection));
            self.pool.consume(connection, sent);
        }
        assert!(!request.is_empty(), "a request");
        request
    }

    fn respond(&mut self, body: &str) {
        let length = body.len();
        let response = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        self.pool.handle_input(self.http.now, self.connection, response.as_bytes());
    }

    fn finish_call(&mut self) {
        let request = self.take_request(self.connection);
        self.respond(&response(id_of(&request), CALL_RESULT));
        let event = self.poll_event();
        assert!(matches!(event, Some(Event::Done { .. })), "the end of a call: {event:?}");
    }
}

impl Scenario for BusyConnections {
    fn run_once(&mut self) {
        self.start_call();
        self.finish_call();
        self.http.turn();
        while self.pool.poll_timeout().is_some_and(|at| at <= self.http.now) {
            self.pool.handle_timeout(self.http.now);
        }
    }
}
