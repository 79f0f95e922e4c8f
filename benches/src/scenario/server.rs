//! Bytes in, typed call, bytes out.

use alloc::sync::Arc;
use core::hint::black_box;

use mcp_proto::model::CallToolResult;
use mcp_proto::pipe::{Pipe, Server};
use mcp_proto::server::{Call, Config, Event};
use mcp_proto::{Capabilities, Capability, Instant, Limits, RpcError};

use super::{EchoArguments, Scenario, TEXT, TIME_STEP, advance};
use crate::floor;
use crate::wire::{INITIALIZE, INITIALIZED, RequestLine, WireEra};

/// A whole call on the floor.
#[derive(Debug)]
pub struct FloorCore {
    request: RequestLine,
    out: Vec<u8>,
}

impl FloorCore {
    /// Returns the scenario with a request of `era`.
    #[must_use]
    pub fn new(era: WireEra) -> Self {
        Self { request: RequestLine::new(era, TEXT), out: Vec::with_capacity(1024) }
    }
}

impl Scenario for FloorCore {
    fn run_once(&mut self) {
        let line = black_box(self.request.advance());
        let end = memchr::memchr(b'\n', line).expect("a line end");
        self.out.clear();
        assert!(floor::answer(&line[..end], &mut self.out), "an answer");
        black_box(&self.out);
    }
}

/// A whole call on the public API of the pipe.
#[derive(Debug)]
pub struct CoreCall {
    request: RequestLine,
    server: EchoServer,
}

impl CoreCall {
    /// Returns the scenario in its steady state, after a few calls.
    #[must_use]
    pub fn new(era: WireEra) -> Self {
        let server = EchoServer::ready(config(), era);
        let mut core = Self { request: RequestLine::new(era, TEXT), server };
        for _ in 0..100 {
            core.run_once();
        }
        core
    }
}

impl Scenario for CoreCall {
    fn run_once(&mut self) {
        let server = &mut self.server;
        advance(&mut server.now, TIME_STEP);
        server.pipe.handle_input(server.now, black_box(self.request.advance()));
        server.run_turn();
        let sent = black_box(server.pipe.transmit());
        assert!(sent.len() > TEXT && sent.ends_with(b"\n"), "an answer");
        let n = sent.len();
        server.pipe.consume(n);
    }
}

/// Returns the configuration of the measured server.
pub(super) fn config() -> Arc<Config> {
    let capabilities = Capabilities::new().with(Capability::Tools);
    Arc::new(Config::new("echo", "1.0.0").capabilities(capabilities).limits(Limits::default()))
}

/// A server on a byte stream with the handler of all scenarios, driven like in an adapter.
#[derive(Debug)]
pub(super) struct EchoServer {
    pub(super) pipe: Server,
    pub(super) now: Instant,
}

impl EchoServer {
    /// Returns a server before its first message.
    pub(super) fn new(config: Arc<Config>) -> Self {
        Self { pipe: Server::new(config, Instant::ZERO), now: Instant::ZERO }
    }

    /// Returns a server that accepts calls of `era`.
    pub(super) fn ready(config: Arc<Config>, era: WireEra) -> Self {
        let mut server = Self::new(config);
        if era == WireEra::Legacy {
            for part in [INITIALIZE, b"\n", INITIALIZED, b"\n"] {
                server.pipe.handle_input(server.now, part);
            }
            server.run_turn();
            server.discard();
        }
        server
    }

    /// Polls all events, answers calls, and handles deadlines that are due.
    pub(super) fn run_turn(&mut self) {
        while let Some(event) = self.pipe.poll_event(self.now) {
            if let Event::Call(call) = event {
                self.answer(&call);
            }
        }
        self.pass_deadlines();
    }

    pub(super) fn pass_deadlines(&mut self) {
        while self.pipe.poll_timeout().is_some_and(|at| at <= self.now) {
            self.pipe.handle_timeout(self.now);
        }
    }

    /// Runs the handler.
    fn answer(&mut self, call: &Call) {
        let (now, engine) = (self.now, self.pipe.engine());
        let read = call.tool_call().and_then(|tool| {
            let EchoArguments { text } = tool.parse()?;
            if tool.name == "echo" { Ok(text) } else { Err(RpcError::invalid_params("unknown tool")) }
        });
        let answered = match read {
            Ok(text) => engine.complete(now, call.id(), &CallToolResult::text(text)),
            Err(error) => engine.fail(now, call.id(), &error),
        };
        answered.expect("an open call");
    }

    /// Drops the output.
    pub(super) fn discard(&mut self) {
        loop {
            let n = self.pipe.transmit().len();
            if n == 0 {
                return;
            }
            self.pipe.consume(n);
        }
    }
}
