//! Calls, input requests and messages of a client beside others.

use mcp_proto::CallKey;
use mcp_proto::client::{Event, InputId, KnownEra};
use mcp_proto::model::{ElicitAction, ElicitResult};

use super::super::{Scenario, TIME_STEP};
use super::client::{CALL_RESULT, MessageClient, response};
use super::engine::{FIRST_NUMBER, id_of};
use super::{Scattered, limits, warmed_up};

/// A call beside `n` pending ones.
pub(super) struct PendingCalls(MessageClient);

impl PendingCalls {
    pub(super) fn new(n: usize) -> Self {
        let mut client = MessageClient::connected(KnownEra::Modern, limits(n));
        for _ in 0..n {
            client.start_call();
        }
        warmed_up(Self(client))
    }
}

impl Scenario for PendingCalls {
    fn run_once(&mut self) {
        let Self(client) = self;
        let (_, id) = client.start_call();
        client.deliver(&response(id, CALL_RESULT));
        client.expect_done();
        client.turn();
    }
}

/// A new call, and the cancellation of one of `n` pending ones.
pub(super) struct CancelPending {
    client: MessageClient,
    calls: Vec<CallKey>,
    order: Scattered,
}

impl CancelPending {
    pub(super) fn new(n: usize) -> Self {
        let mut client = MessageClient::connected(KnownEra::Modern, limits(n));
        let calls = (0..n).map(|_| client.start_call().0).collect();
        warmed_up(Self { client, calls, order: Scattered::new(n) })
    }
}

impl Scenario for CancelPending {
    fn run_once(&mut self) {
        let (key, _) = self.client.start_call();
        let cancelled = core::mem::replace(&mut self.calls[self.order.advance()], key);
        self.client.engine.cancel(self.client.now, cancelled, None).expect("an open call");
        while self.client.engine.poll_event(self.client.now).is_some() {}
        assert!(self.client.pop_message().is_some(), "a cancellation");
        self.client.turn();
    }
}

/// A new call, and the end of the oldest of `n` by its deadline.
pub(super) struct ExpirePending(MessageClient);

impl ExpirePending {
    pub(super) fn new(n: usize) -> Self {
        let mut limits = limits(n);
        limits.call_timeout = TIME_STEP * u32::try_from(n).expect("a number of calls");
        let mut client = MessageClient::connected(KnownEra::Modern, limits);
        for _ in 0..n {
            client.start_call();
            client.turn();
        }
        client.discard();
        while client.engine.poll_event(client.now).is_some() {}
        warmed_up(Self(client))
    }
}

impl Scenario for ExpirePending {
    fn run_once(&mut self) {
        let Self(client) = self;
        client.start_call();
        client.turn();
        client.expect_done();
        client.discard();
    }
}

/// A call that is queued until the server is known, and the withdrawal of one of `n` queued ones.
pub(super) struct QueuedCalls {
    client: MessageClient,
    calls: Vec<CallKey>,
    order: Scattered,
}

impl QueuedCalls {
    pub(super) fn new(n: usize) -> Self {
        let mut client = MessageClient::unconnected(KnownEra::Legacy, limits(n));
        let calls = (0..n).map(|_| client.text.call(&mut client.engine, client.now)).collect();
        warmed_up(Self { client, calls, order: Scattered::new(n) })
    }
}

impl Scenario for QueuedCalls {
    fn run_once(&mut self) {
        let client = &mut self.client;
        let key = client.text.call(&mut client.engine, client.now);
        let cancelled = core::mem::replace(&mut self.calls[self.order.advance()], key);
        client.engine.cancel(client.now, cancelled, None).expect("an open call");
        while client.engine.poll_event(client.now).is_some() {}
        client.turn();
    }
}

/// An input request of a legacy server, received and answered beside `n` open ones.
pub(super) struct PendingInputs {
    client: MessageClient,
    inputs: Vec<InputId>,
    order: Scattered,
    next: u64,
}

impl PendingInputs {
    pub(super) fn new(n: usize) -> Self {
        let client = MessageClient::connected(KnownEra::Legacy, limits(n));
        let mut pending = Self { client, inputs: Vec::new(), order: Scattered::new(n), next: FIRST_NUMBER };
        for _ in 0..n {
            let input = pending.receive();
            pending.inputs.push(input);
        }
        warmed_up(pending)
    }

    fn receive(&mut self) -> InputId {
        let id = self.next;
        self.next += 1;
        self.client.deliver(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"elicitation/create\",\"params\":{FORM}}}"
        ));
        expect_input(&mut self.client)
    }
}

/// Parameters of an elicitation.
const FORM: &str = r#"{"message":"Who is asking?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}"#;

fn expect_input(client: &mut MessageClient) -> InputId {
    match client.engine.poll_event(client.now) {
        Some(Event::Input(input)) => input.id,
        other => panic!("no input request: {other:?}"),
    }
}

fn answer(client: &mut MessageClient, input: InputId) {
    let result = ElicitResult::accept([("name", "Alice".into())]);
    client.engine.answer(client.now, input, &result).expect("an open input request");
}

impl Scenario for PendingInputs {
    fn run_once(&mut self) {
        let input = self.receive();
        let answered = core::mem::replace(&mut self.inputs[self.order.advance()], input);
        answer(&mut self.client, answered);
        assert!(self.client.pop_message().is_some(), "an answer");
        self.client.turn();
    }
}

/// An elicitation by URL that is accepted, and the completion of one of `n` accepted ones.
pub(super) struct PendingPages {
    client: MessageClient,
    pages: Vec<u64>,
    order: Scattered,
    next: u64,
}

impl PendingPages {
    pub(super) fn new(n: usize) -> Self {
        let client = MessageClient::connected(KnownEra::Legacy, limits(n));
        let mut pending = Self { client, pages: Vec::new(), order: Scattered::new(n), next: FIRST_NUMBER };
        for _ in 0..n {
            let page = pending.accept();
            pending.pages.push(page);
        }
        warmed_up(pending)
    }

    fn accept(&mut self) -> u64 {
        let id = self.next;
        self.next += 1;
        self.client.deliver(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"elicitation/create\",\"params\":{{\"mode\":\"url\",\
             \"message\":\"Sign in\",\"url\":\"https://harbour.example/\",\"elicitationId\":\"{id}\"}}}}"
        ));
        let input = expect_input(&mut self.client);
        let accepted = ElicitResult::new(ElicitAction::Accept);
        self.client.engine.answer(self.client.now, input, &accepted).expect("an open input request");
        assert!(self.client.pop_message().is_some(), "an answer");
        id
    }
}

impl Scenario for PendingPages {
    fn run_once(&mut self) {
        let page = self.accept();
        let completed = core::mem::replace(&mut self.pages[self.order.advance()], page);
        self.client.deliver(&format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/elicitation/complete\",\
             \"params\":{{\"elicitationId\":\"{completed}\"}}}}"
        ));
        let event = self.client.engine.poll_event(self.client.now);
        assert!(matches!(event, Some(Event::ElicitationComplete(_))), "a completion: {event:?}");
        self.client.turn();
    }
}

/// A call of a modern server with one round of input, beside `n` that wait for their input.
pub(super) struct PendingRounds {
    client: MessageClient,
    inputs: Vec<InputId>,
    order: Scattered,
}

impl PendingRounds {
    pub(super) fn new(n: usize) -> Self {
        let client = MessageClient::connected(KnownEra::Modern, limits(n));
        let mut pending = Self { client, inputs: Vec::new(), order: Scattered::new(n) };
        for _ in 0..n {
            let input = pending.start();
            pending.inputs.push(input);
        }
        warmed_up(pending)
    }

    fn start(&mut self) -> InputId {
        let (_, id) = self.client.start_call();
        let result = format!(
            "{{\"resultType\":\"input_required\",\"inputRequests\":{{\"name\":{{\"method\":\"elicitation/create\",\
             \"params\":{FORM}}}}},\"requestState\":\"sealed\"}}"
        );
        self.client.deliver(&response(id, &result));
        expect_input(&mut self.client)
    }
}

impl Scenario for PendingRounds {
    fn run_once(&mut self) {
        let input = self.start();
        let answered = core::mem::replace(&mut self.inputs[self.order.advance()], input);
        answer(&mut self.client, answered);
        let retry = id_of(&self.client.pop_message().expect("a retry"));
        self.client.deliver(&response(retry, CALL_RESULT));
        self.client.expect_done();
        self.client.turn();
    }
}

/// A message that is queued, and the oldest of `n` queued ones, which is taken.
pub(super) struct QueuedMessages(MessageClient);

impl QueuedMessages {
    pub(super) fn new(n: usize) -> Self {
        let mut client = MessageClient::connected(KnownEra::Legacy, limits(n));
        for _ in 0..n {
            Self::push(&mut client);
        }
        warmed_up(Self(client))
    }

    fn push(client: &mut MessageClient) {
        client.engine.notify(client.now, "notifications/tide", Some(&TideParams { level: 3 })).expect("room");
    }
}

#[derive(serde::Serialize)]
struct TideParams {
    level: u32,
}

impl Scenario for QueuedMessages {
    fn run_once(&mut self) {
        let Self(client) = self;
        Self::push(client);
        assert!(client.pop_message().is_some(), "the oldest message");
        client.turn();
    }
}
