//! A client over HTTP at exchange level, with open exchanges.

use alloc::sync::Arc;

use mcp_proto::client::{Event, KnownEra};
use mcp_proto::head::ResponseHead;
use mcp_proto::http::client::{Action, Client, Config, ExchangeId, OutgoingRequest};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallKey, Instant, Limits};

use super::super::{Scenario, TIME_STEP, advance};
use super::client::{self, CALL_RESULT, EchoText, negotiation_response, response};
use super::engine::id_of;
use super::{Scattered, limits, warmed_up};

/// URL of the server.
pub(super) const ENDPOINT: &str = "http://harbour.example:3000/mcp";

/// A client over HTTP with a virtual clock.
#[derive(Debug)]
pub(super) struct HttpClient {
    pub(super) client: Client,
    pub(super) now: Instant,
    pub(super) text: EchoText,
}

impl HttpClient {
    /// Returns a modern client that is ready for calls.
    fn connected(limits: Limits) -> Self {
        let mut http = Self::unconnected(limits);
        while let Some(request) = http.next_request() {
            let response = negotiation_response(&request.body).expect("a request of the negotiation");
            http.respond(request.exchange, &response);
            while http.client.poll_event(http.now).is_some() {}
        }
        assert!(http.client.engine().peer().is_some(), "connected");
        http
    }

    /// Returns a modern client whose first request is to be sent.
    pub(super) fn unconnected(limits: Limits) -> Self {
        Self::configured(limits, Config::new(ENDPOINT).expect("a URL"))
    }

    /// Returns a modern client with this configuration, whose first request is to be sent.
    pub(super) fn configured(limits: Limits, config: Config) -> Self {
        let engine = client::config(KnownEra::Modern, limits);
        let client = Client::new(engine, Arc::new(config), Instant::ZERO);
        Self { client, now: Instant::ZERO, text: EchoText::new() }
    }

    fn next_request(&mut self) -> Option<OutgoingRequest> {
        match self.client.poll_exchange(self.now)? {
            Action::Send(request) => Some(request),
            other => panic!("no request: {other:?}"),
        }
    }

    fn expect_request(&mut self) -> OutgoingRequest {
        self.next_request().expect("a request")
    }

    fn respond(&mut self, exchange: ExchangeId, body: &str) {
        self.begin_response(exchange, 200, b"application/json");
        self.client.handle_body(self.now, exchange, body.as_bytes());
        self.client.handle_end(self.now, exchange);
    }

    fn begin_response(&mut self, exchange: ExchangeId, status: u16, kind: &[u8]) {
        let fields = [("content-type", kind)];
        self.client.handle_head(self.now, exchange, &ResponseHead { status, fields: &fields });
    }

    fn start_call(&mut self) -> (CallKey, OutgoingRequest) {
        let key = self.text.call(self.client.engine(), self.now);
        (key, self.expect_request())
    }

    /// Opens an event stream for a subscription and returns its exchange.
    fn subscribe(&mut self) -> OpenStream {
        let filter = SubscriptionFilter::new().tools_list_changed(true);
        let key = self.client.engine().subscribe(self.now, &filter).expect("a subscription");
        let request = self.expect_request();
        let (exchange, id) = (request.exchange, id_of(&request.body));
        self.begin_response(exchange, 200, b"text/event-stream");
        self.send_event(
            exchange,
            &format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":\
                 {{\"notifications\":{{\"toolsListChanged\":true}},{}}}}}",
                subscription_meta(id)
            ),
        );
        let event = self.client.poll_event(self.now);
        assert!(matches!(event, Some(Event::Subscribed { .. })), "acknowledged: {event:?}");
        OpenStream { key, exchange, id }
    }

    fn send_event(&mut self, exchange: ExchangeId, message: &str) {
        self.client.handle_body(self.now, exchange, format!("data: {message}\n\n").as_bytes());
    }

    /// Advances the time by a step and handles the deadlines that are due, as an adapter does in each turn of its loop.
    pub(super) fn turn(&mut self) {
        advance(&mut self.now, TIME_STEP);
        while self.client.poll_timeout().is_some_and(|at| at <= self.now) {
            self.client.handle_timeout(self.now);
        }
    }
}

fn subscription_meta(id: u64) -> String {
    format!("\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{id}}}")
}

/// The operation of a client with open exchanges.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    /// A call and its response.
    Call,
    /// A notification.
    Message,
    /// A new call, and the cancellation of an open one.
    Cancel,
}

/// One operation of a client beside `n` calls without a response.
pub(super) struct OpenExchanges {
    http: HttpClient,
    operation: Operation,
    calls: Vec<(CallKey, ExchangeId)>,
    order: Scattered,
}

impl OpenExchanges {
    pub(super) fn new(operation: Operation, n: usize) -> Self {
        let mut http = HttpClient::connected(limits(n));
        let calls = (0..n).map(|_| {
            let (key, request) = http.start_call();
            (key, request.exchange)
        });
        let calls = calls.collect();
        warmed_up(Self { http, operation, calls, order: Scattered::new(n) })
    }
}

impl Scenario for OpenExchanges {
    fn run_once(&mut self) {
        let http = &mut self.http;
        match self.operation {
            Operation::Call => {
                let (_, request) = http.start_call();
                http.respond(request.exchange, &response(id_of(&request.body), CALL_RESULT));
                let event = http.client.poll_event(http.now);
                assert!(matches!(event, Some(Event::Done { .. })), "the end of a call: {event:?}");
            }
            Operation::Message => {
                let now = http.now;
                http.client.engine().notify(now, "notifications/tide", None::<&()>).expect("room");
                let request = http.expect_request();
                http.begin_response(request.exchange, 202, b"application/json");
                http.client.handle_end(now, request.exchange);
            }
            Operation::Cancel => {
                let (key, request) = http.start_call();
                let opened = (key, request.exchange);
                let (key, exchange) = core::mem::replace(&mut self.calls[self.order.advance()], opened);
                http.client.engine().cancel(http.now, key, None).expect("an open call");
                while http.client.poll_event(http.now).is_some() {}
                let action = http.client.poll_exchange(http.now);
                assert!(
                    matches!(action, Some(Action::Abort { exchange: aborted }) if aborted == exchange),
                    "the end of an exchange: {action:?}"
                );
            }
        }
        http.turn();
    }
}

struct OpenStream {
    key: mcp_proto::client::SubscriptionKey,
    exchange: ExchangeId,
    id: u64,
}

/// One operation of a client with `n` open event streams.
pub(super) struct OpenStreams {
    http: HttpClient,
    streams: Vec<OpenStream>,
    /// The operation is an event of one of them; otherwise the end of one and the begin of another.
    receives: bool,
    order: Scattered,
}

impl OpenStreams {
    pub(super) fn new(receives: bool, n: usize) -> Self {
        let mut http = HttpClient::connected(limits(n));
        let streams = (0..n).map(|_| http.subscribe()).collect();
        warmed_up(Self { http, streams, receives, order: Scattered::new(n) })
    }
}

impl Scenario for OpenStreams {
    fn run_once(&mut self) {
        let http = &mut self.http;
        let stream = &mut self.streams[self.order.advance()];
        if self.receives {
            let meta = subscription_meta(stream.id);
            http.send_event(
                stream.exchange,
                &format!(
                    "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\",\"params\":{{{meta}}}}}"
                ),
            );
            let event = http.client.poll_event(http.now);
            assert!(matches!(event, Some(Event::Changed { .. })), "a change: {event:?}");
        } else {
            http.client.engine().unsubscribe(http.now, stream.key).expect("an open subscription");
            while http.client.poll_event(http.now).is_some() {}
            let action = http.client.poll_exchange(http.now);
            assert!(matches!(action, Some(Action::Abort { .. })), "the end of an exchange: {action:?}");
            *stream = http.subscribe();
        }
        http.turn();
    }
}
