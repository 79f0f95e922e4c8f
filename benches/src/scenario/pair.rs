//! A client and a server that exchange bytes in memory.

use alloc::sync::Arc;
use core::hint::black_box;

use mcp_proto::client::{Config, Event, Verdict};
use mcp_proto::model::CallToolResult;
use mcp_proto::pipe::{Client, Pipe};
use mcp_proto::{CallOptions, Instant, server};

use super::server::{EchoServer, config as server_config};
use super::{Echo, STEP, Scenario, TEXT, pass};
use crate::wire::{Era, text};

/// A call from one engine to the other and back: written, framed, parsed, handled, answered, parsed into a typed result
#[derive(Debug)]
pub struct RoundTrip {
    pub(super) client: Client,
    pub(super) server: EchoServer,
    text: String,
    options: CallOptions,
    done: u64,
}

impl RoundTrip {
    /// Connected, in the steady state
    #[must_use]
    pub fn new(era: Era) -> Self {
        let mut pair = Self::connected(config(era), server_config());
        for _ in 0..100 {
            pair.op();
        }
        pair
    }

    /// Connected, nothing called
    pub(super) fn connected(client: Arc<Config>, server: Arc<server::Config>) -> Self {
        let client = Client::new(client, Instant::ZERO);
        let server = EchoServer::new(server);
        let mut pair = Self { client, server, text: text(TEXT), options: CallOptions::default(), done: 0 };
        pair.exchange();
        assert!(pair.client.engine().peer().is_some(), "connected");
        pair
    }

    /// Moves bytes to and fro until there are none
    fn exchange(&mut self) {
        loop {
            let now = self.server.now;
            let asked = self.client.transmit();
            let n = asked.len();
            self.server.pipe.handle_input(now, asked);
            self.client.consume(n);
            self.server.turn();
            let answered = self.server.pipe.transmit();
            let m = answered.len();
            self.client.handle_input(now, answered);
            self.server.pipe.consume(m);
            while let Some(event) = self.client.poll_event(now) {
                if let Event::Done { outcome, .. } = event {
                    let result = outcome.expect("an answer");
                    let read: CallToolResult<'_> = result.parse().expect("a result");
                    assert_eq!(read.content[0].as_text(), Some(&*self.text));
                    self.done += 1;
                }
            }
            while self.client.poll_timeout().is_some_and(|at| at <= now) {
                self.client.handle_timeout(now);
            }
            if n == 0 && m == 0 {
                return;
            }
        }
    }

    /// Begins a call
    pub(super) fn ask(&mut self) {
        let arguments = Echo { text: black_box(&self.text) };
        let engine = self.client.engine();
        engine.call_tool(self.server.now, "echo", &arguments, &self.options).expect("a call");
    }
}

impl Scenario for RoundTrip {
    fn op(&mut self) {
        let before = self.done;
        pass(&mut self.server.now, STEP);
        self.ask();
        self.exchange();
        assert_eq!(self.done, before + 1, "an answer");
    }
}

/// What the measured client is: its era is known, so that no question goes before the first call
pub(super) fn config(era: Era) -> Arc<Config> {
    let verdict = match era {
        Era::Legacy => Verdict::Legacy,
        Era::Modern => Verdict::Modern,
    };
    Arc::new(Config::new("mcpdrive", "1.0.0").verdict(Some(verdict)))
}
