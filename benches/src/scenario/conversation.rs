//! Calls with an input request, compared with calls that are answered immediately.

use alloc::sync::Arc;
use core::hint::black_box;
use core::time::Duration;

use mcp_proto::client::{self, Config, Event};
use mcp_proto::model::{CallToolResult, ElicitResult, ElicitSchema, StringSchema};
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::seal::Keys;
use mcp_proto::server::{self, Call, InputRequired};

use mcp_proto::{Anchor, CallOptions, Capabilities, Capability, Instant, Limits, RpcError, UseError};

use super::memory::{heap_growth, settle};
use super::{EchoArguments, Footprint, Scenario, TEXT, TIME_STEP, advance, pair};
use crate::heap;
use crate::wire::{WireEra, text};

/// A call with one round of input: a form of the server, the answer of the client, the result.
#[derive(Debug)]
pub struct InputRoundTrip {
    client: Client,
    server: Server,
    now: Instant,
    text: String,
    completed_count: u64,
}

impl InputRoundTrip {
    /// Returns the scenario in its steady state.
    #[must_use]
    pub fn new(era: WireEra) -> Self {
        let mut scenario = Self::connected(era, &Limits::default());
        for _ in 0..3 {
            scenario.run_once();
        }
        scenario
    }

    fn connected(era: WireEra, limits: &Limits) -> Self {
        let capabilities = Capabilities::new().with(Capability::ElicitationForm);
        let client = Config::clone(&pair::config(era)).capabilities(capabilities).limits(limits.clone());
        let server = server::Config::new("echo", "1.0.0")
            .capabilities(Capabilities::new().with(Capability::Tools))
            .limits(limits.clone())
            .seal(Keys::new([7; 32]), Anchor::new(Instant::ZERO, 1_800_000_000));
        let now = Instant::ZERO;
        let (client, server) = (Client::new(Arc::new(client), now), Server::new(Arc::new(server), now));
        let mut scenario = Self { client, server, now, text: text(TEXT), completed_count: 0 };
        scenario.exchange(true);
        assert!(scenario.client.engine().peer().is_some(), "connected");
        scenario
    }

    fn start_call(&mut self) {
        let arguments = EchoArguments { text: black_box(&self.text) };
        let options = CallOptions::new();
        self.client.engine().call_tool(self.now, "echo", &arguments, &options).expect("a call");
    }

    /// Moves bytes in both directions until none are left. Input requests are answered if `answers` is set.
    fn exchange(&mut self, answers: bool) {
        loop {
            let now = self.now;
            let bytes = self.client.transmit();
            let n = bytes.len();
            self.server.handle_input(now, bytes);
            self.client.consume(n);
            while let Some(event) = self.server.poll_event(now) {
                if let server::Event::Call(call) = event {
                    answer(self.server.engine(), now, &call);
                }
            }
            let answered = self.server.transmit();
            let m = answered.len();
            self.client.handle_input(now, answered);
            self.server.consume(m);
            while let Some(event) = self.client.poll_event(now) {
                match event {
                    Event::Input(input) if answers => answer_input(self.client.engine(), now, &input),
                    Event::Done { outcome, .. } => {
                        let result = outcome.expect("an answer");
                        let read: CallToolResult<'_> = result.parse().expect("a result");
                        assert_eq!(read.content[0].as_text(), Some(&*self.text));
                        self.completed_count += 1;
                    }
                    _ => {}
                }
            }
            for pipe in [&mut self.client as &mut dyn DeadlineDriver, &mut self.server] {
                pipe.pass_deadlines(now);
            }
            if n == 0 && m == 0 {
                return;
            }
        }
    }
}

trait DeadlineDriver {
    fn pass_deadlines(&mut self, now: Instant);
}

impl<P: Pipe> DeadlineDriver for P {
    fn pass_deadlines(&mut self, now: Instant) {
        while self.poll_timeout().is_some_and(|at| at <= now) {
            self.handle_timeout(now);
        }
    }
}

impl Scenario for InputRoundTrip {
    fn run_once(&mut self) {
        let before = self.completed_count;
        advance(&mut self.now, TIME_STEP);
        self.start_call();
        self.exchange(true);
        assert_eq!(self.completed_count, before + 1, "an answer");
    }
}

/// Runs the handler: requests a name, then returns the answer.
fn answer(engine: &mut server::Engine, now: Instant, call: &Call) {
    let tool = call.tool_call().expect("a tool");
    let EchoArguments { text } = tool.parse().expect("arguments");
    let mut input = InputRequired::new();
    let form = ElicitSchema::default().field("name", StringSchema::new().min_length(2u64));
    let done: Result<(), UseError> = match input.elicit(call, "name", "Who is asking?", form) {
        Ok(_) => engine.complete(now, call.id(), &CallToolResult::text(text)),
        Err(_) if !input.is_empty() => engine.require_input(now, call, &input),
        Err(none) => engine.fail(now, call.id(), &RpcError::from(none)),
    };
    done.expect("an open call");
}

fn answer_input(engine: &mut client::Engine, now: Instant, input: &client::Input) {
    let result = ElicitResult::accept([("name", "Alice".into())]);
    engine.answer(now, input.id, &result).expect("an open input request");
}

/// Returns the memory per call of a server that waits for input, beyond the bytes of the call's parameters.
#[must_use]
pub fn server_waiting_for_input(era: WireEra, n: usize) -> Footprint {
    let mut limits = Limits::default();
    limits.max_live_calls = 4_096;
    limits.max_pending_calls = 4_096;
    let mut scenario = InputRoundTrip::connected(era, &limits);
    scenario.run_once();
    settle(&mut scenario.server, &mut scenario.now);
    let (mut payload, mut buffer) = (0, Vec::new());
    for _ in 0..n {
        scenario.start_call();
    }
    while let sent @ 1.. = scenario.client.transmit().len() {
        buffer.extend_from_slice(scenario.client.transmit());
        scenario.client.consume(sent);
    }
    let lines: Vec<&[u8]> = buffer.split_inclusive(|b| *b == b'\n').collect();
    assert_eq!(lines.len(), n);
    let before = heap::snapshot().live;
    let mut count = 0;
    for line in lines {
        payload += line.len();
        scenario.server.handle_input(scenario.now, line);
        while let Some(event) = scenario.server.poll_event(scenario.now) {
            if let server::Event::Call(call) = event {
                answer(scenario.server.engine(), scenario.now, &call);
            }
        }
        while let sent @ 1.. = scenario.server.transmit().len() {
            let has_input_request = |text: &[u8]| text.windows(10).any(|w| w == b"requestedS");
            count += usize::from(has_input_request(scenario.server.transmit()));
            scenario.server.consume(sent);
        }
    }
    assert_eq!(count, n, "every call waits");
    // Long enough to release buffers, short enough that no input request times out.
    advance(&mut scenario.now, Duration::from_secs(5));
    scenario.server.pass_deadlines(scenario.now);
    let payload = if era == WireEra::Modern { 0.0 } else { payload as f64 / n as f64 };
    Footprint { heap: heap_growth(before) / n as f64 - payload, inline: 0 }
}
