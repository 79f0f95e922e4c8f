//! A call through a proxy: the bytes of a client, both engines and the relay between them, and the echo server behind.
//!
//! The cost of the proxy is the difference to `core` of the era of the server, which answers the same call.

use alloc::sync::Arc;
use core::hint::black_box;

use mcp_proto::client::{Config, Event, KnownEra, Peer};
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::{Instant, Limits, VersionSet};
use mcp_proto_proxy::{ClientCount, Engines, Relay, client_limits, server_config, server_limits};

use super::server::{EchoServer, config};
use super::{Scenario, TEXT, TIME_STEP, advance};
use crate::wire::{INITIALIZE, INITIALIZED, RequestLine, WireEra};

/// A call of a client of one era to a server of one era, with a [`Relay`] between them.
#[derive(Debug)]
pub struct RelayedEcho {
    request: RequestLine,
    downstream: Server,
    relay: Relay,
    upstream: Client,
    echo: EchoServer,
}

impl RelayedEcho {
    /// Returns the scenario in its steady state.
    ///
    /// # Panics
    ///
    /// If the server cannot be connected to.
    #[must_use]
    pub fn new(client: WireEra, server: WireEra) -> Self {
        let known = if server == WireEra::Legacy { KnownEra::Legacy } else { KnownEra::Modern };
        let limits = client_limits(Limits::default());
        let up = Config::new("proxy", "1.0.0").known_era(Some(known)).limits(limits);
        let mut up = Client::new(Arc::new(up), Instant::ZERO);
        let mut echo = EchoServer::new(config());
        let peer = connect(&mut up, &mut echo);
        let front = server_config(&peer, VersionSet::ALL, server_limits(Limits::default()));
        let mut down = Server::new(Arc::new(front), Instant::ZERO);
        if client == WireEra::Legacy {
            for part in [INITIALIZE, b"\n", INITIALIZED, b"\n"] {
                down.handle_input(Instant::ZERO, part);
            }
        }
        let relay = Relay::new(ClientCount::One, &peer, Instant::ZERO, None);
        let request = RequestLine::new(client, TEXT);
        let mut chain = Self { request, downstream: down, relay, upstream: up, echo };
        chain.settle();
        let greeting = chain.downstream.transmit().len();
        chain.downstream.consume(greeting);
        for _ in 0..100 {
            chain.run_once();
        }
        chain
    }

    fn settle(&mut self) {
        let Self { downstream, relay, upstream, echo, .. } = self;
        let now = echo.now;
        loop {
            let mut moved = false;
            while let Some(event) = downstream.poll_event(now) {
                let mut engines = engines(now, downstream, upstream);
                relay.handle_server_event(&mut engines, event);
                moved = true;
            }
            while let Some(event) = upstream.poll_event(now) {
                let mut engines = engines(now, downstream, upstream);
                relay.handle_client_event(&mut engines, event);
                moved = true;
            }
            relay.process_pending(&mut engines(now, downstream, upstream));
            moved |= exchange(upstream, echo);
            if !moved {
                break;
            }
        }
        while downstream.poll_timeout().is_some_and(|at| at <= now) {
            downstream.handle_timeout(now);
        }
        while upstream.poll_timeout().is_some_and(|at| at <= now) {
            upstream.handle_timeout(now);
        }
    }
}

impl Scenario for RelayedEcho {
    fn run_once(&mut self) {
        advance(&mut self.echo.now, TIME_STEP);
        self.downstream.handle_input(self.echo.now, black_box(self.request.advance()));
        self.settle();
        let sent = black_box(self.downstream.transmit());
        assert!(sent.len() > TEXT && sent.ends_with(b"\n"), "an answer");
        let n = sent.len();
        self.downstream.consume(n);
    }
}

fn engines<'a>(now: Instant, downstream: &'a mut Server, upstream: &'a mut Client) -> Engines<'a> {
    Engines { now, downstream: downstream.engine(), upstream_now: now, upstream: upstream.engine() }
}

/// Moves bytes in both directions once. Returns whether there were any.
fn exchange(client: &mut Client, echo: &mut EchoServer) -> bool {
    let n = client.transmit().len();
    echo.pipe.handle_input(echo.now, client.transmit());
    client.consume(n);
    echo.run_turn();
    let m = echo.pipe.transmit().len();
    client.handle_input(echo.now, echo.pipe.transmit());
    echo.pipe.consume(m);
    n + m > 0
}

fn connect(client: &mut Client, echo: &mut EchoServer) -> Peer {
    loop {
        assert!(exchange(client, echo), "the server answers");
        while let Some(event) = client.poll_event(echo.now) {
            if let Event::Ready(peer) = event {
                return peer;
            }
        }
    }
}
