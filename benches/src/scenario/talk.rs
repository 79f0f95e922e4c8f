//! A call in the middle of which the server needs something of the client, beside one that it can answer at once.

use alloc::sync::Arc;
use core::hint::black_box;
use core::time::Duration;

use mcp_proto::client::{self, Config, Event};
use mcp_proto::model::{CallToolResult, ElicitResult, ElicitSchema, StringSchema};
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::seal::Keys;
use mcp_proto::server::{self, Asking, Call};

use mcp_proto::{Anchor, CallOptions, Capabilities, Capability, Instant, Limits, RpcError, UseError};

use super::memory::{grown, rest};
use super::{Echo, Held, STEP, Scenario, TEXT, pair, pass};
use crate::heap;
use crate::wire::{Era, text};

/// A call with one round of input: asked by form, answered by the user's side, answered by the tool
#[derive(Debug)]
pub struct Conversation {
    client: Client,
    server: Server,
    now: Instant,
    text: String,
    done: u64,
}

impl Conversation {
    /// In the steady state
    #[must_use]
    pub fn new(era: Era) -> Self {
        let mut talk = Self::connected(era, &Limits::default());
        for _ in 0..3 {
            talk.op();
        }
        talk
    }

    fn connected(era: Era, limits: &Limits) -> Self {
        let capabilities = Capabilities::new().with(Capability::ElicitationForm);
        let client = Config::clone(&pair::config(era)).capabilities(capabilities).limits(limits.clone());
        let server = server::Config::new("echo", "1.0.0")
            .capabilities(Capabilities::new().with(Capability::Tools))
            .limits(limits.clone())
            .seal(Keys::new([7; 32]), Anchor::new(Instant::ZERO, 1_800_000_000));
        let now = Instant::ZERO;
        let (client, server) = (Client::new(Arc::new(client), now), Server::new(Arc::new(server), now));
        let mut talk = Self { client, server, now, text: text(TEXT), done: 0 };
        talk.exchange(true);
        assert!(talk.client.engine().peer().is_some(), "connected");
        talk
    }

    fn ask(&mut self) {
        let arguments = Echo { text: black_box(&self.text) };
        let options = CallOptions::new();
        self.client.engine().call_tool(self.now, "echo", &arguments, &options).expect("a call");
    }

    /// Moves bytes to and fro until there are none; what is asked for is answered if `answers` says so
    fn exchange(&mut self, answers: bool) {
        loop {
            let now = self.now;
            let asked = self.client.transmit();
            let n = asked.len();
            self.server.handle_input(now, asked);
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
                    Event::Input(input) if answers => fill_in(self.client.engine(), now, &input),
                    Event::Done { outcome, .. } => {
                        let result = outcome.expect("an answer");
                        let read: CallToolResult<'_> = result.parse().expect("a result");
                        assert_eq!(read.content[0].as_text(), Some(&*self.text));
                        self.done += 1;
                    }
                    _ => {}
                }
            }
            for pipe in [&mut self.client as &mut dyn Deadlines, &mut self.server] {
                pipe.pass(now);
            }
            if n == 0 && m == 0 {
                return;
            }
        }
    }
}

trait Deadlines {
    fn pass(&mut self, now: Instant);
}

impl<P: Pipe> Deadlines for P {
    fn pass(&mut self, now: Instant) {
        while self.poll_timeout().is_some_and(|at| at <= now) {
            self.handle_timeout(now);
        }
    }
}

impl Scenario for Conversation {
    fn op(&mut self) {
        let before = self.done;
        pass(&mut self.now, STEP);
        self.ask();
        self.exchange(true);
        assert_eq!(self.done, before + 1, "an answer");
    }
}

/// The handler: asks for a name, then says what it was given
fn answer(engine: &mut server::Engine, now: Instant, call: &Call) {
    let tool = call.tool().expect("a tool");
    let Echo { text } = tool.parse().expect("arguments");
    let mut asking = Asking::new();
    let form = ElicitSchema::default().field("name", StringSchema::new().min_length(2u64));
    let done: Result<(), UseError> = match asking.elicit(call, "name", "Who is asking?", form) {
        Ok(_) => engine.complete(now, call.id(), &CallToolResult::text(text)),
        Err(_) if !asking.is_empty() => engine.ask(now, call, &asking),
        Err(none) => engine.fail(now, call.id(), &RpcError::from(none)),
    };
    done.expect("an open call");
}

fn fill_in(engine: &mut client::Engine, now: Instant, input: &client::Input) {
    let result = ElicitResult::accept([("name", "Alice".into())]);
    engine.answer(now, input.id, &result).expect("an open question");
}

/// Per call of a server that waits for its client, beyond the bytes of the call's parameters
#[must_use]
pub fn server_waiting(era: Era, n: usize) -> Held {
    let mut limits = Limits::default();
    limits.max_live_calls = 4_096;
    limits.max_pending_calls = 4_096;
    let mut talk = Conversation::connected(era, &limits);
    talk.op();
    rest(&mut talk.server, &mut talk.now);
    let (mut payload, mut buffer) = (0, Vec::new());
    for _ in 0..n {
        talk.ask();
    }
    while let sent @ 1.. = talk.client.transmit().len() {
        buffer.extend_from_slice(talk.client.transmit());
        talk.client.consume(sent);
    }
    let lines: Vec<&[u8]> = buffer.split_inclusive(|b| *b == b'\n').collect();
    assert_eq!(lines.len(), n);
    let before = heap::now().live;
    let mut asked = 0;
    for line in lines {
        payload += line.len();
        talk.server.handle_input(talk.now, line);
        while let Some(event) = talk.server.poll_event(talk.now) {
            if let server::Event::Call(call) = event {
                answer(talk.server.engine(), talk.now, &call);
            }
        }
        while let sent @ 1.. = talk.server.transmit().len() {
            let asks = |text: &[u8]| text.windows(10).any(|w| w == b"requestedS");
            asked += usize::from(asks(talk.server.transmit()));
            talk.server.consume(sent);
        }
    }
    assert_eq!(asked, n, "all of them wait");
    // Long enough that buffers are given back, short enough that everybody still waits.
    pass(&mut talk.now, Duration::from_secs(5));
    talk.server.pass(talk.now);
    let payload = if era == Era::Modern { 0.0 } else { payload as f64 / n as f64 };
    Held { heap: grown(before) / n as f64 - payload, inline: 0 }
}
