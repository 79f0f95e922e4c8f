//! The bindings of HTTP in a world: one server, and the exchanges of all clients with it.
//!
//! Each exchange has a stream of its own in either direction, so exchanges overtake each other. A body is cut at any byte, and so is a
//! head if the plan has the bytes of HTTP/1.1.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use core::time::Duration;

use bytes::Bytes;
use mcp_proto::http::client as http_client;
use mcp_proto::http::server::{Config, Denial, Event, ExchangeId, Protected, Server};
use mcp_proto::server::{self, Identity};
use mcp_proto::{Entropy, Instant, head};
use serde_json::Value;

use super::http1::{Http1, Written};
use super::inputs::task_table;
use super::participant::ClientSide;
use super::sides::{begin_transits, end_transits};
use super::{
    Application, Binding, CallId, Connection, Entry, Lane, Transit, What, World, cancelled, http_sse,
    principal,
};
use crate::stream::{ByteStream, Chunker};

/// Path of the MCP endpoint.
pub(super) const PATH: &str = "/mcp";

/// URL of the MCP endpoint.
const ENDPOINT: &str = "https://sim.example/mcp";

const ISSUER: &str = "https://issuer.example";

/// Token, and name, of a party that is none of the clients.
pub(super) const STRANGER: &str = "stranger";

/// How long a call is silent before its response becomes an event stream. Short, so that many do.
const EVENT_STREAM_DELAY: Duration = Duration::from_millis(100);

/// Returns the URL that a client is given.
pub(super) const fn client_url(binding: Binding) -> &'static str {
    match binding {
        Binding::HttpSse => http_sse::URL,
        _ => ENDPOINT,
    }
}

/// Returns the token of a client.
pub(super) fn token(lane: usize) -> String {
    format!("token-{lane}")
}

/// The server of all clients, and what is under way to it and from it.
#[derive(Debug)]
pub(super) struct Network {
    config: Arc<Config>,
    server_config: Arc<server::Config>,
    has_tasks: bool,
    /// None while its process is dead.
    pub(super) server: Option<Server>,
    /// Number of server processes so far.
    servers: u64,
    /// The sessions that the process before has written down.
    snapshots: Option<Vec<Vec<u8>>>,
    exchanges: Vec<Exchange>,
    /// Number of exchanges so far.
    opened: usize,
    /// The events that were sent, by the ids of their sessions and their own.
    sent_events: BTreeSet<String>,
    /// The last session, event and request of each client, which a stranger tries to use.
    secrets: Vec<Secrets>,
    /// The session of a stranger.
    pub(super) foreign_session: Option<String>,
}

/// Identifiers of a client that a stranger presents as his own.
#[derive(Clone, Debug, Default)]
pub(super) struct Secrets {
    pub(super) session: Option<String>,
    pub(super) event: Option<String>,
    pub(super) request: Option<String>,
    pub(super) task: Option<String>,
}

/// A request and its response.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) number: usize,
    /// The client; none for a stranger.
    pub(super) client: Option<(usize, http_client::ExchangeId)>,
    /// Number of the client in the log.
    lane: Lane,
    server: Option<ExchangeId>,
    /// Its connection, if the plan has its bytes. Its server end has the exchange then.
    http1: Option<Http1>,
    pub(super) request: Request,
    /// When the request arrives; none before it has left.
    arrives: Option<Instant>,
    /// Number of the bytes of the body that have arrived.
    received: usize,
    is_received: bool,
    pub(super) response: Option<Response>,
    /// The messages that are under way to the server, and to the client: their numbers among those of all exchanges.
    request_under_way: Option<usize>,
    responses_under_way: VecDeque<usize>,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: &'static str,
    pub(super) target: String,
    pub(super) fields: Vec<(String, Vec<u8>)>,
    pub(super) body: Bytes,
    /// The ids of the requests in the body.
    ids: Vec<String>,
    pub(super) session: String,
    /// Number of the client whose session or task a stranger presents.
    pub(super) presents: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Response {
    status: u16,
    fields: Vec<(String, Vec<u8>)>,
    arrives: Instant,
    is_head_received: bool,
    pub(super) is_event_stream: bool,
    body: ByteStream,
    /// Bytes behind the last complete message that the server has written.
    pub(super) unparsed: Vec<u8>,
    /// Bytes behind the last complete event that has arrived.
    arriving: Vec<u8>,
    /// Number of the messages that have arrived and were not counted before.
    arrived: usize,
    is_finished: bool,
    is_logged: bool,
}

impl Request {
    pub(super) fn new(
        method: &'static str,
        target: String,
        fields: Vec<(String, Vec<u8>)>,
        body: Bytes,
    ) -> Self {
        let ids = match serde_json::from_slice::<Value>(&body) {
            Ok(message) if message.get("method").is_some() => {
                message.get("id").map(Value::to_string).into_iter().collect()
            }
            _ => Vec::new(),
        };
        let session = field(&fields, "mcp-session-id").or_else(|| http_sse::session_of(&target));
        let session = session.unwrap_or_default();
        Self { method, target, fields, body, ids, session, presents: None }
    }

    fn field(&self, name: &str) -> Option<String> {
        field(&self.fields, name)
    }
}

fn field(fields: &[(String, Vec<u8>)], name: &str) -> Option<String> {
    let found = fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
}

/// Returns field lines as a head has them.
fn lines(fields: &[(String, Vec<u8>)]) -> Vec<head::FieldLine<'_>> {
    fields.iter().map(|(name, value)| (&**name, &**value)).collect()
}

/// Returns field lines of a head.
pub(super) fn line_pairs(fields: &[head::FieldLine<'_>]) -> Vec<(String, Vec<u8>)> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect()
}

fn owned(fields: &head::Fields) -> Vec<(String, Vec<u8>)> {
    fields.iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect()
}

impl Network {
    pub(super) fn new(binding: Binding, server_config: &Arc<server::Config>, has_tasks: bool) -> Self {
        let protected = Protected::new(ENDPOINT, ISSUER).expect("URLs");
        let mut config = Config::new()
            .allow_host("sim.example")
            .protected(protected)
            .event_stream_delay(EVENT_STREAM_DELAY);
        if binding == Binding::HttpSse {
            config = http_sse::serve(config);
        }
        let mut network = Self {
            config: Arc::new(config),
            server_config: Arc::clone(server_config),
            has_tasks,
            server: None,
            servers: 0,
            snapshots: None,
            exchanges: Vec::new(),
            opened: 0,
            sent_events: BTreeSet::new(),
            secrets: Vec::new(),
            foreign_session: None,
        };
        network.start_server(Instant::ZERO);
        network
    }

    /// Starts a server process; it takes the sessions that the one before has written down.
    fn start_server(&mut self, now: Instant) {
        self.servers += 1;
        // Each process has other ids of sessions.
        let entropy = Entropy::new([7; 32], self.servers);
        let mut server = Server::new(Arc::clone(&self.server_config), Arc::clone(&self.config), entropy);
        server.set_validator(|request| {
            let token = request.token.reveal();
            Some(match token.strip_prefix("token-").and_then(|lane| lane.parse().ok()) {
                Some(lane) => Ok(Arc::new(Identity::new(principal(lane)))),
                None if token == STRANGER => Ok(Arc::new(Identity::new(STRANGER))),
                None => Err(Denial::invalid_token()),
            })
        });
        if self.has_tasks {
            server.set_tasks(now, task_table(self.servers));
        }
        for snapshot in self.snapshots.take().into_iter().flatten() {
            // A session may not fit any more, and its client begins another one.
            let _ = server.snapshots().restore(now, &snapshot);
        }
        self.server = Some(server);
    }

    /// Returns the number of exchanges that are open on either side.
    pub(super) fn exchange_count(&self) -> usize {
        self.exchanges.len().max(self.server.as_ref().map_or(0, Server::exchange_count))
    }

    pub(super) fn poll_timeout(&mut self) -> Option<Instant> {
        let server = self.server.as_mut().and_then(Server::poll_timeout);
        let connections = self.exchanges.iter().filter_map(|x| x.http1.as_ref()?.poll_timeout());
        connections.chain(server).min()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if let Some(server) = &mut self.server {
            server.handle_timeout(now);
            for http1 in self.exchanges.iter_mut().filter_map(|x| x.http1.as_mut()) {
                http1.handle_timeout(now, server);
            }
        }
    }

    pub(super) fn open(
        &mut self,
        client: Option<(usize, http_client::ExchangeId)>,
        lane: Lane,
        request: Request,
    ) -> usize {
        self.opened += 1;
        self.exchanges.push(Exchange {
            number: self.opened,
            client,
            lane,
            server: None,
            http1: None,
            request,
            arrives: None,
            received: 0,
            is_received: false,
            response: None,
            request_under_way: None,
            responses_under_way: VecDeque::new(),
        });
        self.opened
    }

    pub(super) fn secrets(&mut self, n: usize) -> &mut Secrets {
        if self.secrets.len() <= n {
            self.secrets.resize(n + 1, Secrets::default());
        }
        &mut self.secrets[n]
    }
}

impl Exchange {
    /// Brings more of the request to the server; returns whether something moved.
    fn move_request(&mut self, now: Instant, server: &mut Server, limit: usize) -> bool {
        if self.is_received || self.arrives.is_none_or(|at| at > now) {
            return false;
        }
        let Request { method, target, fields, body, .. } = &self.request;
        let Some(id) = self.server else {
            let mut fields = lines(fields);
            fields.push(("Host", b"sim.example"));
            let request = head::RequestHead { method, target, fields: &fields };
            self.server = Some(server.open(now, &request, Some(body.len() as u64)));
            return true;
        };
        let piece = (body.len() - self.received).min(limit);
        if piece > 0 && server.wants_body(id) {
            server.handle_body(now, id, body.slice(self.received..self.received + piece));
            self.received += piece;
        } else {
            self.is_received = true;
            server.handle_end(now, id);
        }
        true
    }

    /// Takes more of the response from the server; returns whether something moved.
    fn move_response(
        &mut self,
        now: Instant,
        server: &mut Server,
        (limit, delay, capacity): (usize, Duration, usize),
        log: &mut impl FnMut(What),
    ) -> bool {
        let Some(id) = self.server else { return false };
        let mut moved = false;
        if self.response.is_none() {
            let Some(head) = server.response(id) else { return false };
            let (status, fields) = (head.status, owned(&head.fields));
            log(What::Responded { exchange: self.number, status });
            self.response = Some(Response::new(status, fields, now + delay, capacity));
            moved = true;
        }
        let Some(response) = &mut self.response else { return moved };
        let mut remaining = limit;
        while !response.is_finished {
            let bytes = server.transmit(now, id);
            let n = response.body.write(now + delay, &bytes[..bytes.len().min(remaining)]);
            if n == 0 {
                break;
            }
            response.unparsed.extend_from_slice(&bytes[..n]);
            server.consume(id, n);
            remaining -= n;
            moved = true;
        }
        if !response.is_finished && server.is_finished(id) {
            server.release(now, id);
            // What is refused for its head is not read.
            (self.server, self.is_received) = (None, true);
            response.is_finished = true;
            response.body.close();
            moved = true;
        }
        moved
    }

    /// Moves the bytes of the request to the server, and takes those of the response from it; returns whether something moved.
    fn move_bytes(
        &mut self,
        now: Instant,
        server: &mut Server,
        reads: bool,
        (limit, delay): (usize, Duration),
        log: &mut impl FnMut(What),
    ) -> bool {
        let Some(http1) = &mut self.http1 else { return false };
        let mut written = Vec::new();
        let moved = http1.move_request(now, server, (limit, delay), reads)
            | http1.move_response(now, server, (limit, delay), &mut written);
        self.is_received |= http1.is_received();
        for part in written {
            match (part, &mut self.response) {
                (Written::Head { status, fields }, _) => {
                    log(What::Responded { exchange: self.number, status });
                    // Its bytes are on the connection.
                    self.response = Some(Response::new(status, fields, now, 0));
                }
                (Written::Body(piece), Some(response)) => response.unparsed.extend_from_slice(&piece),
                (Written::End, Some(response)) => (response.is_finished, self.is_received) = (true, true),
                _ => {}
            }
        }
        moved
    }

    /// Brings more of the response to its client.
    fn deliver(
        &mut self,
        now: Instant,
        client: &mut http_client::Client,
        id: http_client::ExchangeId,
    ) -> Delivery {
        let delivery = match &mut self.http1 {
            Some(http1) => http1.deliver(now, client, id),
            None => self.deliver_parts(now, client, id),
        };
        match (&delivery, &mut self.response) {
            (Delivery::Some(piece), Some(response)) if response.is_event_stream => {
                response.arriving.extend_from_slice(piece);
                let events = take_events(&mut response.arriving);
                response.arrived += events.iter().filter(|event| event.is_message()).count();
            }
            (Delivery::End, Some(response)) => response.arrived = self.responses_under_way.len(),
            _ => {}
        }
        delivery
    }

    /// Brings the head, or more of the body, to its client.
    fn deliver_parts(
        &mut self,
        now: Instant,
        client: &mut http_client::Client,
        id: http_client::ExchangeId,
    ) -> Delivery {
        let Some(response) = self.response.as_mut().filter(|response| response.arrives <= now) else {
            return Delivery::Nothing;
        };
        if !core::mem::replace(&mut response.is_head_received, true) {
            let head = head::ResponseHead { status: response.status, fields: &lines(&response.fields) };
            client.handle_head(now, id, &head);
            return Delivery::Some(Vec::new());
        }
        if !client.wants_body(id) {
            return Delivery::Nothing;
        }
        if let Some(piece) = response.body.read(now) {
            client.handle_body(now, id, &piece);
            return Delivery::Some(piece);
        }
        if response.body.is_finished() {
            client.handle_end(now, id);
            return Delivery::End;
        }
        Delivery::Nothing
    }

    /// Returns how much is lost with it: more for an event stream, and most for one with events under way.
    fn loss(&self) -> u8 {
        let stream = self.response.as_ref().filter(|response| response.is_event_stream);
        let is_under_way = |stream: &Response| match &self.http1 {
            Some(http1) => http1.next_arrival().is_some(),
            None => stream.body.next_arrival().is_some(),
        };
        stream.map_or(0, |stream| 1 + u8::from(is_under_way(stream)))
    }

    /// Returns when more of it arrives at one of its sides.
    fn next_arrival(&self) -> Option<Instant> {
        match (&self.http1, &self.response) {
            (Some(http1), _) => http1.next_arrival(),
            (_, None) => self.arrives.filter(|_| !self.is_received),
            (_, Some(response)) if !response.is_head_received => Some(response.arrives),
            (_, Some(response)) => response.body.next_arrival(),
        }
    }
}

/// How far a response has come at its client.
#[derive(Debug)]
pub(super) enum Delivery {
    /// No further.
    Nothing,
    /// A head, or these bytes of the body.
    Some(Vec<u8>),
    /// To its end.
    End,
    /// The connection ended before, for this reason.
    Failed(String),
}

impl Response {
    fn new(status: u16, fields: Vec<(String, Vec<u8>)>, arrives: Instant, capacity: usize) -> Self {
        let kind = field(&fields, "content-type");
        Self {
            status,
            is_event_stream: kind.is_some_and(|kind| kind.starts_with("text/event-stream")),
            fields,
            arrives,
            is_head_received: false,
            body: ByteStream::new(Chunker::Whole, Duration::ZERO, capacity),
            unparsed: Vec::new(),
            arriving: Vec::new(),
            arrived: 0,
            is_finished: false,
            is_logged: false,
        }
    }
}

/// An event of an event stream.
#[derive(Debug, Default)]
pub(super) struct StreamEvent {
    id: String,
    pub(super) data: String,
    /// Whether it names the URL for messages.
    pub(super) is_endpoint: bool,
}

impl StreamEvent {
    fn is_message(&self) -> bool {
        !self.is_endpoint && !self.data.is_empty()
    }
}

/// Takes the events that are complete.
pub(super) fn take_events(unparsed: &mut Vec<u8>) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    while let Some(end) = unparsed.windows(2).position(|two| two == b"\n\n") {
        let block: Vec<u8> = unparsed.drain(..end + 2).collect();
        let mut event = StreamEvent::default();
        for line in String::from_utf8_lossy(&block).lines() {
            match line.split_once(": ") {
                Some(("id", id)) => id.clone_into(&mut event.id),
                Some(("data", data)) => data.clone_into(&mut event.data),
                Some(("event", kind)) => event.is_endpoint = kind == "endpoint",
                _ => {}
            }
        }
        if !event.id.is_empty() || !event.data.is_empty() {
            events.push(event);
        }
    }
    events
}

impl<A: Application> World<A> {
    /// Returns the client whose number in the log this is, or whose process before this was.
    fn slot(&self, lane: usize) -> usize {
        lane % self.connections.len()
    }

    /// Starts a server if there is none, or none that takes requests.
    pub(super) fn prepare_network(&mut self) {
        let Some(network) = &mut self.network else { return };
        if network.server.as_mut().is_some_and(|server| server.engine().is_shutting_down()) {
            self.end_server(false);
        }
        let now = self.now;
        let Some(network) = self.network.as_mut().filter(|network| network.server.is_none()) else { return };
        let is_restored = network.snapshots.is_some();
        network.start_server(now);
        #[cfg(feature = "events")]
        self.start_event_server(0);
        for n in 0..self.connections.len() {
            let what = if is_restored { What::Restored } else { What::Started };
            self.record(Lane::Server(self.connections[n].lane), what);
        }
    }

    /// Ends what strangers have begun, and starts a server if there is none.
    pub(super) fn calm_network(&mut self) {
        self.break_where(|x| x.client.is_none());
        self.prepare_network();
    }

    /// Ends the server, whose clients have all left.
    pub(super) fn end_network(&mut self) {
        self.record_idle();
        self.network = None;
    }

    /// Records what a server holds, whose clients have all left.
    pub(super) fn record_idle(&mut self) {
        if let Some(server) = self.network.as_ref().and_then(|network| network.server.as_ref()) {
            let (exchanges, sessions) = (server.exchange_count(), server.session_count());
            self.record(Lane::World, What::Idle { exchanges, sessions });
        }
    }

    /// Returns when more of an exchange arrives.
    pub(super) fn next_arrival(&self) -> Option<Instant> {
        let arrivals = self.network.as_ref()?.exchanges.iter().filter_map(Exchange::next_arrival);
        arrivals.filter(|at| *at > self.now).min()
    }

    /// Sends a request with the token of a stranger.
    pub(super) fn send_foreign(&mut self, request: Request) {
        if let Some(network) = &mut self.network {
            network.open(None, Lane::World, request);
        }
    }

    /// Returns the number of a client in the log.
    pub(super) fn lane_of(&self, n: usize) -> usize {
        self.connections[n].lane
    }

    /// Returns the session that a stranger has opened.
    pub(super) fn foreign_session(&self) -> Option<String> {
        self.network.as_ref()?.foreign_session.clone()
    }

    /// Returns what a stranger has learned of a client.
    pub(super) fn secrets_of(&mut self, n: usize) -> Secrets {
        self.network.as_mut().map(|network| network.secrets(n).clone()).unwrap_or_default()
    }

    /// Starts a client again, under another number. The server goes on with what it has begun.
    pub(super) fn restart_client(&mut self, n: usize) {
        let next = self.connections[n].lane + self.connections.len();
        let started = self.start(next);
        let before = core::mem::replace(&mut self.connections[n], started);
        let connection = &mut self.connections[n];
        (connection.requests, connection.ended_requests) = (before.requests, before.ended_requests);
    }

    pub(super) fn kill_client(&mut self, n: usize) {
        if self.connections[n].client.is_some() {
            self.break_where(|x| x.client.is_some_and(|(of, _)| of == n));
            self.end_client(n);
        }
    }

    pub(super) fn kill_server(&mut self) {
        let is_saved = self.draws.below(2) == 1;
        self.end_server(is_saved);
    }

    fn end_server(&mut self, is_saved: bool) {
        let Some(network) = &mut self.network else { return };
        let Some(mut server) = network.server.take() else { return };
        if is_saved {
            let ids = server.snapshots().ids();
            network.snapshots = Some(ids.iter().filter_map(|id| server.snapshots().save(id)).collect());
        }
        drop(server);
        self.break_where(|_| true);
        let mut lanes = BTreeSet::new();
        for connection in &mut self.connections {
            lanes.insert(Lane::Server(connection.lane));
            lanes.extend(connection.requests.drain(..).map(|request| request.lane));
            // The next process has the same keys for other calls.
            connection.ended_requests.clear();
        }
        for lane in lanes {
            self.record(lane, What::Died);
        }
    }

    /// Breaks one exchange of a client, all of them, or those of all clients, or lets the server shut down.
    pub(super) fn break_exchanges(&mut self, n: usize) {
        let of_client = |x: &Exchange| x.client.is_some_and(|(of, _)| of == n);
        let kind = self.draws.below(24);
        let at = self.draws.below(16) as usize;
        if kind < 12 {
            // Responses have become streams, whose first events have arrived, and an answer is under way.
            self.advance_to(self.now + 2 * EVENT_STREAM_DELAY);
            while self.move_exchanges(n, usize::MAX, Duration::ZERO) {}
            self.answer(n, at);
            self.move_exchanges(n, usize::MAX, Duration::from_secs(1));
        }
        let Some(network) = &mut self.network else { return };
        let text = match (kind, &mut network.server) {
            (23, Some(server)) => {
                server.shutdown(self.now, Duration::from_secs(1));
                "the server shuts down".to_owned()
            }
            (22, _) => {
                self.break_where(|_| true);
                "the network breaks".to_owned()
            }
            (18..=21, _) => {
                self.break_where(of_client);
                format!("all exchanges of client {n} break")
            }
            _ => {
                // A stream with events under way, which are repeated once it is resumed, or another stream. Over HTTP+SSE each client
                // has one stream, whose end is that of all: there it is any exchange.
                let is_any = self.plan.binding == Binding::HttpSse;
                let all = || network.exchanges.iter().filter(|x| of_client(x));
                let most = all().map(Exchange::loss).max();
                let numbers: Vec<_> =
                    all().filter(|x| is_any || Some(x.loss()) == most).map(|x| x.number).collect();
                let Some(at) = at.checked_rem(numbers.len()) else { return };
                self.break_where(|x| x.number == numbers[at]);
                format!("exchange {} breaks", numbers[at])
            }
        };
        self.record(Lane::World, What::Fault { text });
    }

    /// Breaks exchanges, whose bytes under way are lost.
    fn break_where(&mut self, is_broken: impl Fn(&Exchange) -> bool) {
        let Some(network) = &mut self.network else { return };
        let (broken, rest) = core::mem::take(&mut network.exchanges).into_iter().partition(is_broken);
        network.exchanges = rest;
        let broken: Vec<Exchange> = broken;
        for mut x in broken {
            self.lose(&mut x);
            if let Some((n, id)) = x.client {
                if let Some(ClientSide::Http(client)) = &mut self.connections[n].client {
                    let failure = match x.server.is_some() || x.http1.is_some() || x.response.is_some() {
                        true => http_client::ExchangeFailure::interrupted("connection reset"),
                        false => http_client::ExchangeFailure::unsent("connection refused"),
                    };
                    client.handle_failure(self.now, id, failure);
                }
            }
        }
    }

    /// Ends the messages that are under way on an exchange, and do not arrive.
    fn lose_transits(&mut self, x: &Exchange) {
        let lost = x.request_under_way.into_iter().chain(x.responses_under_way.iter().copied());
        end_transits(&mut self.transits, lost, self.now, self.log.len(), true);
    }

    /// Tells the server that an exchange is over, of which it does not know yet.
    fn lose(&mut self, x: &mut Exchange) {
        let now = self.now;
        if http_sse::is_stream(x) {
            // What was before the end of the session stands before it.
            self.take_server_events();
        }
        if let Some(server) = self.network.as_mut().and_then(|network| network.server.as_mut()) {
            if let Some(id) = x.server {
                server.handle_gone(now, id);
            }
            if let Some(http1) = &mut x.http1 {
                http1.abandon(now, server);
            }
        }
        self.lose_transits(x);
        let what = match x.client {
            Some(_) => What::Lost { exchange: x.number, requests: x.request.ids.clone() },
            None => {
                let Some(Response { status, unparsed, is_finished, fields, .. }) = &x.response else {
                    return;
                };
                if let Some(network) = &mut self.network {
                    let known = network.foreign_session.take();
                    let is_over = http_sse::is_stream(x) || *status == 404;
                    let kept = known.filter(|known| !is_over || *known != x.request.session);
                    network.foreign_session = field(fields, "mcp-session-id").or(kept);
                }
                let body = String::from_utf8_lossy(unparsed);
                // The beginning of an answer does not tell what it is.
                let is_told = *is_finished || x.request.method == "GET";
                let is_refused = body.contains(r#""error":"#) || body.contains(r#""tasks":[]"#);
                let is_granted = is_told && *status < 300 && !is_refused;
                let granted = x.request.presents.filter(|_| is_granted);
                What::Overheard { text: format!("{status}: {body}"), granted }
            }
        };
        self.record(x.lane, what);
    }

    /// Takes the requests and events of a client and the events of the server; returns whether there was one.
    pub(super) fn poll_network(&mut self, n: usize) -> bool {
        let mut moved = false;
        while let Some(ClientSide::Http(client)) = &mut self.connections[n].client {
            match client.poll_exchange(self.now) {
                Some(http_client::Action::Send(request)) => {
                    let id = request.exchange;
                    let target = request.url.target().to_owned();
                    let fields = owned(&request.fields);
                    self.send(n, id, Request::new(request.method, target, fields, request.body));
                }
                Some(http_client::Action::Abort { exchange }) => {
                    let Some(network) = &mut self.network else { break };
                    let is_aborted = |x: &Exchange| x.client == Some((n, exchange));
                    if let Some(at) = network.exchanges.iter().position(is_aborted) {
                        let mut aborted = network.exchanges.remove(at);
                        self.lose(&mut aborted);
                    }
                }
                _ => break,
            }
            moved = true;
        }
        moved | self.take_server_events()
    }

    /// Takes the events of the server; returns whether there was one.
    fn take_server_events(&mut self) -> bool {
        let mut moved = false;
        while let Some(event) = self.poll_server() {
            self.handle_network_event(event);
            moved = true;
        }
        moved
    }

    fn poll_server(&mut self) -> Option<Event> {
        let server = self.network.as_mut()?.server.as_mut()?;
        // Exchanges are looked at one by one, so which of them is ready does not matter.
        while server.poll_ready(self.now).is_some() {}
        server.poll_event(self.now)
    }

    fn send(&mut self, n: usize, id: http_client::ExchangeId, request: Request) {
        let lane = Lane::Client(self.connections[n].lane);
        let is_message = !request.body.is_empty();
        if is_message {
            let line = String::from_utf8_lossy(&request.body).into_owned();
            self.record(lane, What::Sent { line });
        }
        let (session, event) = (&request.session, request.field("last-event-id"));
        let resumes = event.map(|event| format!("{session} {event}"));
        let path = request.target.split('?').next().filter(|path| *path != PATH);
        let path = path.map_or_else(String::new, |path| format!("{path} "));
        let head = format!("{} {path}{}", request.method, session.get(..8).unwrap_or_default());
        let Some(network) = &mut self.network else { return };
        if let Some(id) = request.ids.last() {
            network.secrets(n).request = Some(id.clone());
        }
        let exchange = network.open(Some((n, id)), lane, request);
        if let Some(x) = network.exchanges.last_mut().filter(|_| is_message) {
            x.request_under_way = Some(self.transits.len());
            let to = Lane::Server(self.connections[n].lane);
            self.transits.push(Transit { sent: self.log.len() - 1, to, end: None });
        }
        self.record(lane, What::Requested { exchange, head, resumes });
    }

    fn handle_network_event(&mut self, event: Event) {
        #[cfg(feature = "events")]
        let event = match event {
            Event::Server(event) => match self.take_server_event(0, event) {
                Some(event) => Event::Server(event),
                None => return,
            },
            other => other,
        };
        match event {
            Event::Server(server::Event::Call(call)) => {
                let principal = call.caller().principal().unwrap_or_default().to_owned();
                let lane = principal.strip_prefix("principal-").and_then(|lane| lane.parse().ok());
                let n = lane.map_or(0, |lane| self.slot(lane));
                let lane = lane.map_or(Lane::World, Lane::Server);
                let params = call.params().map_or_else(String::new, |params| params.as_str().to_owned());
                self.record(lane, What::Event { text: format!("call for {principal}: {params}") });
                self.receive(n, lane, call);
            }
            Event::Server(server::Event::Cancelled { call, reason }) => {
                let found = (0..self.connections.len()).find_map(|n| self.end_request(n, call));
                let unknown = |call: CallId| (format!("unknown {call:?}"), Lane::World);
                let (request, lane) = found.unwrap_or_else(|| unknown(call));
                self.record(lane, cancelled(request, &reason));
            }
            other => self.record(Lane::World, What::Event { text: format!("{other:?}") }),
        }
    }

    /// Moves the exchanges of one client, and of strangers; returns whether something moved.
    pub(super) fn move_exchanges(&mut self, n: usize, limit: usize, delay: Duration) -> bool {
        let Some(network) = &mut self.network else { return false };
        let all = core::mem::take(&mut network.exchanges);
        let (mut moved, mut kept) = (false, Vec::with_capacity(all.len()));
        for mut x in all {
            let is_of = x.client.is_none_or(|(of, _)| of == n);
            if !is_of || !self.move_exchange(n, &mut x, limit, delay, &mut moved) {
                kept.push(x);
            }
        }
        if let Some(network) = &mut self.network {
            kept.append(&mut network.exchanges);
            network.exchanges = kept;
        }
        moved
    }

    /// Moves one exchange; returns whether it is over.
    fn move_exchange(
        &mut self,
        n: usize,
        x: &mut Exchange,
        limit: usize,
        delay: Duration,
        moved: &mut bool,
    ) -> bool {
        let now = self.now;
        x.arrives.get_or_insert(now + delay);
        // A stranger keeps all that he gets.
        let capacity = if self.plan.tight && x.client.is_some() { 2_048 } else { usize::MAX };
        let Some(network) = &mut self.network else { return true };
        let server_reads = self.connections[n].server_reads || x.client.is_none();
        let Some(server) = &mut network.server else {
            if x.response.is_none() && x.arrives.is_some_and(|at| at <= now) {
                *moved = true;
                self.lose(x);
                if let (Some((_, id)), Some(ClientSide::Http(client))) =
                    (x.client, &mut self.connections[n].client)
                {
                    client.handle_failure(
                        now,
                        id,
                        http_client::ExchangeFailure::unsent("connection refused"),
                    );
                }
                return true;
            }
            return false;
        };
        if self.plan.http1 && x.http1.is_none() {
            x.http1 = Some(Http1::new(now, &x.request, self.plan.tight));
        }
        let mut log = Vec::new();
        *moved |= x.move_bytes(now, server, server_reads, (limit, delay), &mut |what| log.push(what));
        *moved |= x.http1.is_none() && server_reads && x.move_request(now, server, limit);
        if x.is_received {
            let arrived = x.request_under_way.take();
            end_transits(&mut self.transits, arrived, now, self.log.len(), false);
        }
        *moved |= x.move_response(now, server, (limit, delay, capacity), &mut |what| log.push(what));
        let lane = match x.lane {
            Lane::Client(lane) => Lane::Server(lane),
            _ => Lane::World,
        };
        observe(x, network, &mut log);
        let heard = http_sse::overhear(x, network);
        self.log.extend(heard.into_iter().map(|what| Entry { at: now, lane: Lane::World, what }));
        if lane != Lane::World {
            x.responses_under_way.extend(begin_transits(&mut self.transits, x.lane, self.log.len(), &log));
            self.log.extend(log.into_iter().map(|what| Entry { at: now, lane, what }));
        }
        let Connection { client, client_reads, .. } = &mut self.connections[n];
        match (x.client, client) {
            (Some((_, id)), Some(ClientSide::Http(client))) if *client_reads => {
                let delivery = x.deliver(now, client, id);
                *moved |= !matches!(delivery, Delivery::Nothing);
                if let Some(fault) = x.http1.as_mut().and_then(|http1| http1.take_fault()) {
                    let what = What::Unreadable { exchange: x.number, fault: fault.to_string() };
                    self.log.push(Entry { at: now, lane: x.lane, what });
                }
                let arrived =
                    x.response.as_mut().map_or(0, |response| core::mem::take(&mut response.arrived));
                let arrived = x.responses_under_way.drain(..arrived);
                end_transits(&mut self.transits, arrived, now, self.log.len(), false);
                match delivery {
                    Delivery::Nothing | Delivery::Some(_) => false,
                    // The server has not read a body that it refused for its head.
                    Delivery::End => {
                        self.lose_transits(x);
                        true
                    }
                    Delivery::Failed(reason) => {
                        client.handle_failure(now, id, http_client::ExchangeFailure::interrupted(reason));
                        self.lose(x);
                        true
                    }
                }
            }
            (None, _) => {
                let is_over = x.response.as_ref().is_some_and(|response| response.is_finished);
                if is_over {
                    self.lose(x);
                }
                is_over
            }
            _ => false,
        }
    }
}

/// Logs the messages that the server has written on an exchange of a client.
fn observe(x: &mut Exchange, network: &mut Network, log: &mut Vec<What>) {
    let logged = log.len();
    let (Some((n, _)), Some(response)) = (x.client, &mut x.response) else { return };
    let new_session = field(&response.fields, "mcp-session-id");
    let session = new_session.clone().unwrap_or_else(|| x.request.session.clone());
    if new_session.is_some() {
        network.secrets(n).session = new_session;
    }
    if response.is_event_stream {
        for StreamEvent { id, data: line, is_endpoint } in take_events(&mut response.unparsed) {
            let mut is_repeated = false;
            if is_endpoint {
                network.secrets(n).session = http_sse::session_of(&line);
                log.push(What::Endpoint { exchange: x.number, target: line });
                continue;
            }
            if !id.is_empty() {
                network.secrets(n).event = Some(id.clone());
                let id = format!("{session} {id}");
                is_repeated = !network.sent_events.insert(id.clone());
                log.push(What::Streamed { exchange: x.number, id, line: line.clone() });
            }
            if !is_repeated && !line.is_empty() {
                log.push(What::Sent { line });
            }
        }
    } else if response.is_finished && !response.unparsed.is_empty() {
        let line = String::from_utf8_lossy(&core::mem::take(&mut response.unparsed)).into_owned();
        log.push(What::Sent { line });
    }
    let lines = log[logged..].iter().filter_map(|what| match what {
        What::Sent { line } => Some(line),
        _ => None,
    });
    for line in lines {
        if let Some((_, rest)) = line.split_once(r#""taskId":""#) {
            network.secrets(n).task = rest.split('"').next().map(str::to_owned);
        }
    }
    if response.is_finished && !core::mem::replace(&mut response.is_logged, true) {
        log.push(What::Finished { exchange: x.number });
    }
}
