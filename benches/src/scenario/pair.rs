//! A client and a server that exchange bytes in memory.

use alloc::sync::Arc;
use core::hint::black_box;

use mcp_proto::client::{Config, Event, KnownEra};
use mcp_proto::model::CallToolResult;
use mcp_proto::pipe::{Client, Pipe};
use mcp_proto::{CallOptions, Instant, server};

use super::server::{EchoServer, config as server_config};
use super::{EchoArguments, Scenario, TEXT, TIME_STEP, advance};
use crate::wire::{WireEra, text};

/// A call from one engine to the other and back: written, framed, parsed, handled, answered, parsed into a typed
/// result.
#[derive(Debug)]
pub struct RoundTrip {
    pub(super) client: Client,
    pub(super) server: EchoServer,
    text: String,
    options: CallOptions,
    completed_count: u64,
}

impl RoundTrip {
    /// Returns a connected pair in its steady state.
    #[must_use]
    pub fn new(era: WireEra) -> Self {
        let mut pair = Self::connected(config(era), server_config());
        for _ in 0..100 {
            pair.run_once();
        }
        pair
    }

    /// Returns a connected pair before its first call.
    pub(super) fn connected(client: Arc<Config>, server: Arc<server::Config>) -> Self {
        let client = Client::new(client, Instant::ZERO);
        let server = EchoServer::new(server);
        let mut pair =
            Self { client, server, text: text(TEXT), options: CallOptions::default(), completed_count: 0 };
        pair.exchange();
        assert!(pair.client.engine().peer().is_some(), "connected");
        pair
    }

    /// Moves bytes in both directions until none are left.
    fn exchange(&mut self) {
        loop {
            let now = self.server.now;
            let bytes = self.client.transmit();
            let n = bytes.len();
            self.server.pipe.handle_input(now, bytes);
            self.client.consume(n);
            self.server.run_turn();
            let answered = self.server.pipe.transmit();
            let m = answered.len();
            self.client.handle_input(now, answered);
            self.server.pipe.consume(m);
            while let Some(event) = self.client.poll_event(now) {
                if let Event::Done { outcome, .. } = event {
                    let result = outcome.expect("an answer");
                    let read: CallToolResult<'_> = result.parse().expect("a result");
                    assert_eq!(read.content[0].as_text(), Some(&*self.text));
                    self.completed_count += 1;
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

    /// Starts a call.
    pub(super) fn start_call(&mut self) {
        let arguments = EchoArguments { text: black_box(&self.text) };
        let engine = self.client.engine();
        engine.call_tool(self.server.now, "echo", &arguments, &self.options).expect("a call");
    }
}

impl Scenario for RoundTrip {
    fn run_once(&mut self) {
        let before = self.completed_count;
        advance(&mut self.server.now, TIME_STEP);
        self.start_call();
        self.exchange();
        assert_eq!(self.completed_count, before + 1, "an answer");
    }
}

/// Returns the configuration of the measured client. Its era is known, so that no probe precedes the first call.
pub(super) fn config(era: WireEra) -> Arc<Config> {
    let known_era = match era {
        WireEra::Legacy => KnownEra::Legacy,
        WireEra::Modern => KnownEra::Modern,
    };
    Arc::new(Config::new("mcpdrive", "1.0.0").known_era(Some(known_era)))
}
