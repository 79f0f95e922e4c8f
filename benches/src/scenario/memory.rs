//! Memory of connections and calls. Meaningful only in a program with the counting allocator.

use core::time::Duration;

use mcp_proto::Instant;
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::server::{Call, Event};

use super::pair::{RoundTrip, config as client_config};
use super::server::{EchoServer, config};
use super::{Scenario, TEXT, advance};
use crate::heap;
use crate::wire::{RequestLine, WireEra};

/// Longer than [`Limits::idle_trim`](mcp_proto::Limits::idle_trim), shorter than any other deadline.
const IDLE_PERIOD: Duration = Duration::from_secs(2);

/// Bytes per object, without the shared configuration.
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    /// Bytes on the heap.
    pub heap: f64,
    /// Bytes of the value itself.
    pub inline: usize,
}

/// Returns the memory per server on a byte stream, after one call and after `idle_trim`.
#[must_use]
pub fn idle_server(era: WireEra, n: usize) -> Footprint {
    let config = config();
    let mut request = RequestLine::new(era, TEXT);
    let mut servers = Vec::with_capacity(n);
    let before = heap::snapshot().live;
    for _ in 0..n {
        let mut server = EchoServer::ready(config.clone(), era);
        server.pipe.handle_input(server.now, request.advance());
        server.run_turn();
        server.discard();
        settle(&mut server.pipe, &mut server.now);
        servers.push(server);
    }
    Footprint { heap: heap_growth(before) / n as f64, inline: size_of::<Server>() }
}

/// Returns the memory per client on a byte stream, after one call and after `idle_trim`.
#[must_use]
pub fn idle_client(era: WireEra, n: usize) -> Footprint {
    let (config, server_config) = (client_config(era), config());
    let mut clients = Vec::with_capacity(n);
    let before = heap::snapshot().live;
    for _ in 0..n {
        let mut pair = RoundTrip::connected(config.clone(), server_config.clone());
        pair.run_once();
        settle(&mut pair.client, &mut pair.server.now);
        clients.push(pair.client);
    }
    Footprint { heap: heap_growth(before) / n as f64, inline: size_of::<Client>() }
}

/// Returns the memory per open call of a server, beyond the bytes of its request, which the call keeps.
#[must_use]
pub fn server_in_flight(era: WireEra, n: usize) -> Footprint {
    let mut request = RequestLine::new(era, TEXT);
    let mut server = EchoServer::ready(config(), era);
    server.pipe.handle_input(server.now, request.advance());
    server.run_turn();
    server.discard();
    settle(&mut server.pipe, &mut server.now);
    let payload = request.line().len() - 1;
    let mut calls = Vec::with_capacity(n);
    let before = heap::snapshot().live;
    for _ in 0..n {
        server.pipe.handle_input(server.now, request.advance());
        while let Some(event) = server.pipe.poll_event(server.now) {
            if let Event::Call(call) = event {
                calls.push(call);
            }
        }
    }
    assert_eq!(calls.len(), n, "all taken up");
    Footprint { heap: heap_growth(before) / n as f64 - payload as f64, inline: size_of::<Call>() }
}

/// Returns the memory per open call of a client. Its request has been sent, so all of it is overhead.
#[must_use]
pub fn client_in_flight(era: WireEra, n: usize) -> Footprint {
    let mut pair = RoundTrip::connected(client_config(era), config());
    pair.run_once();
    settle(&mut pair.client, &mut pair.server.now);
    let before = heap::snapshot().live;
    for _ in 0..n {
        pair.start_call();
        let sent = pair.client.transmit().len();
        pair.client.consume(sent);
    }
    Footprint { heap: heap_growth(before) / n as f64, inline: 0 }
}

/// Advances the time until the engine has released its buffers.
pub(super) fn settle(pipe: &mut impl Pipe, now: &mut Instant) {
    advance(now, IDLE_PERIOD);
    while pipe.poll_timeout().is_some_and(|at| at <= *now) {
        pipe.handle_timeout(*now);
    }
    assert!(pipe.poll_event(*now).is_none(), "quiet");
}

pub(super) fn heap_growth(before: u64) -> f64 {
    heap::snapshot().live as f64 - before as f64
}
