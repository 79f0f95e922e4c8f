//! Bytes in, typed call, bytes out.

use alloc::sync::Arc;
use core::hint::black_box;

use mcp_proto::model::CallToolResult;
use mcp_proto::pipe::{Pipe, Server};
use mcp_proto::server::{Call, Config, Event};
use mcp_proto::{Capabilities, Capability, Instant, Limits, RpcError};

use super::{Echo, STEP, Scenario, TEXT, pass};
use crate::floor;
use crate::wire::{Era, INITIALIZE, INITIALIZED, Request};

/// The floor's whole call
#[derive(Debug)]
pub struct FloorCore {
    request: Request,
    out: Vec<u8>,
}

impl FloorCore {
    /// With a request of `era`
    #[must_use]
    pub fn new(era: Era) -> Self {
        Self { request: Request::new(era, TEXT), out: Vec::with_capacity(1024) }
    }
}

impl Scenario for FloorCore {
    fn op(&mut self) {
        let line = black_box(self.request.advance());
        let end = memchr::memchr(b'\n', line).expect("a line end");
        self.out.clear();
        assert!(floor::answer(&line[..end], &mut self.out), "an answer");
        black_box(&self.out);
    }
}

/// Our whole call, on the public API of the byte pipe
#[derive(Debug)]
pub struct Core {
    request: Request,
    server: EchoServer,
}

impl Core {
    /// In the steady state: a few calls were made
    #[must_use]
    pub fn new(era: Era) -> Self {
        let server = EchoServer::ready(config(), era);
        let mut core = Self { request: Request::new(era, TEXT), server };
        for _ in 0..100 {
            core.op();
        }
        core
    }
}

impl Scenario for Core {
    fn op(&mut self) {
        let server = &mut self.server;
        pass(&mut server.now, STEP);
        server.pipe.handle_input(server.now, black_box(self.request.advance()));
        server.turn();
        let sent = black_box(server.pipe.transmit());
        assert!(sent.len() > TEXT && sent.ends_with(b"\n"), "an answer");
        let n = sent.len();
        server.pipe.consume(n);
    }
}

/// What the measured server is
pub(super) fn config() -> Arc<Config> {
    let capabilities = Capabilities::new().with(Capability::Tools);
    Arc::new(Config::new("echo", "1.0.0").capabilities(capabilities).limits(Limits::default()))
}

/// A server on a byte pipe with the handler that every scenario uses, driven as an adapter drives it
#[derive(Debug)]
pub(super) struct EchoServer {
    pub(super) pipe: Server,
    pub(super) now: Instant,
}

impl EchoServer {
    /// A server that nobody has spoken to
    pub(super) fn new(config: Arc<Config>) -> Self {
        Self { pipe: Server::new(config, Instant::ZERO), now: Instant::ZERO }
    }

    /// A server that `era` can call at once
    pub(super) fn ready(config: Arc<Config>, era: Era) -> Self {
        let mut server = Self::new(config);
        if era == Era::Legacy {
            for part in [INITIALIZE, b"\n", INITIALIZED, b"\n"] {
                server.pipe.handle_input(server.now, part);
            }
            server.turn();
            server.discard();
        }
        server
    }

    /// Polls events until there are none, answers calls, and lets deadlines pass that are due
    pub(super) fn turn(&mut self) {
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

    /// The handler
    fn answer(&mut self, call: &Call) {
        let (now, engine) = (self.now, self.pipe.engine());
        let read = call.tool().and_then(|tool| {
            let Echo { text } = tool.parse()?;
            if tool.name == "echo" { Ok(text) } else { Err(RpcError::invalid_params("unknown tool")) }
        });
        let answered = match read {
            Ok(text) => engine.complete(now, call.id(), &CallToolResult::text(text)),
            Err(error) => engine.fail(now, call.id(), &error),
        };
        answered.expect("an open call");
    }

    /// Drops what is to be sent
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
