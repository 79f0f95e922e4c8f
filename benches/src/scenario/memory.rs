//! What connections and calls hold. Meaningful only in a program with the counting allocator.

use core::time::Duration;

use mcp_proto::Instant;
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::server::{Call, Event};

use super::pair::{RoundTrip, config as client_config};
use super::server::{EchoServer, config};
use super::{Scenario, TEXT, pass};
use crate::heap;
use crate::wire::{Era, Request};

/// Longer than [`Limits::idle_trim`](mcp_proto::Limits::idle_trim), shorter than any other deadline
const QUIET: Duration = Duration::from_secs(2);

/// Bytes for each of what was counted; what the shared configuration holds is not among them
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// On the heap
    pub heap: f64,
    /// In the value itself, wherever its owner keeps it
    pub inline: usize,
}

/// Per server on a byte pipe, after one call and the time after which buffers are given back
#[must_use]
pub fn idle_server(era: Era, n: usize) -> Held {
    let config = config();
    let mut request = Request::new(era, TEXT);
    let mut servers = Vec::with_capacity(n);
    let before = heap::now().live;
    for _ in 0..n {
        let mut server = EchoServer::ready(config.clone(), era);
        server.pipe.handle_input(server.now, request.advance());
        server.turn();
        server.discard();
        rest(&mut server.pipe, &mut server.now);
        servers.push(server);
    }
    Held { heap: grown(before) / n as f64, inline: size_of::<Server>() }
}

/// Per client on a byte pipe, likewise
#[must_use]
pub fn idle_client(era: Era, n: usize) -> Held {
    let (config, server_config) = (client_config(era), config());
    let mut clients = Vec::with_capacity(n);
    let before = heap::now().live;
    for _ in 0..n {
        let mut pair = RoundTrip::connected(config.clone(), server_config.clone());
        pair.op();
        rest(&mut pair.client, &mut pair.server.now);
        clients.push(pair.client);
    }
    Held { heap: grown(before) / n as f64, inline: size_of::<Client>() }
}

/// Per call that a server has in work, beyond the bytes of its request, which the call itself keeps
#[must_use]
pub fn server_in_flight(era: Era, n: usize) -> Held {
    let mut request = Request::new(era, TEXT);
    let mut server = EchoServer::ready(config(), era);
    server.pipe.handle_input(server.now, request.advance());
    server.turn();
    server.discard();
    rest(&mut server.pipe, &mut server.now);
    let payload = request.line().len() - 1;
    let mut calls = Vec::with_capacity(n);
    let before = heap::now().live;
    for _ in 0..n {
        server.pipe.handle_input(server.now, request.advance());
        while let Some(event) = server.pipe.poll_event(server.now) {
            if let Event::Call(call) = event {
                calls.push(call);
            }
        }
    }
    assert_eq!(calls.len(), n, "all taken up");
    Held { heap: grown(before) / n as f64 - payload as f64, inline: size_of::<Call>() }
}

/// Per call of a client that waits for its answer; its request was sent, so all of it is beyond the payload
#[must_use]
pub fn client_in_flight(era: Era, n: usize) -> Held {
    let mut pair = RoundTrip::connected(client_config(era), config());
    pair.op();
    rest(&mut pair.client, &mut pair.server.now);
    let before = heap::now().live;
    for _ in 0..n {
        pair.ask();
        let sent = pair.client.transmit().len();
        pair.client.consume(sent);
    }
    Held { heap: grown(before) / n as f64, inline: 0 }
}

/// Lets the time pass after which an engine gives buffers back
pub(super) fn rest(pipe: &mut impl Pipe, now: &mut Instant) {
    pass(now, QUIET);
    while pipe.poll_timeout().is_some_and(|at| at <= *now) {
        pipe.handle_timeout(*now);
    }
    assert!(pipe.poll_event(*now).is_none(), "quiet");
}

pub(super) fn grown(before: u64) -> f64 {
    heap::now().live as f64 - before as f64
}
