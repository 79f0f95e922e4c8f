//! The state of clients, servers and their links between two steps, for whoever shows a world.

use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::{Instant, TimeoutReason, Version};

use super::{Lane, World};
use crate::stream::OneWayLink;

/// Phase of one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SidePhase {
    /// Its process has died.
    Dead,
    /// No revision is agreed. A server stays here without a session: each request of a modern client names its revision.
    Open,
    /// The server has accepted `initialize`, and waits for its confirmation.
    Handshake,
    /// The revision is agreed.
    Ready,
    /// The server ends as soon as its calls have ended.
    ShuttingDown,
    /// Its connection has ended, and its output is written.
    Ended,
}

/// One end of a connection, and the direction of the link that leads to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// Its participant.
    pub lane: Lane,
    /// Its phase.
    pub phase: SidePhase,
    /// The agreed revision.
    pub version: Option<Version>,
    /// Calls without an outcome, or requests without an answer.
    pub open_calls: usize,
    /// Bytes that it has for the link.
    pub unsent: usize,
    /// Whether it reads.
    pub reads: bool,
    /// Its next deadline, except for the one at which buffers are freed, and the reason if it is known.
    pub deadline: Option<(Instant, Option<TimeoutReason>)>,
    /// Complete lines that have arrived at it in this life.
    pub arrived: usize,
    /// Whether nothing arrives at it any more: bytes that were under way are lost.
    pub is_cut_off: bool,
}

fn side<P: Pipe>(lane: Lane, pipe: Option<&mut P>, reads: bool, link: &OneWayLink) -> Side {
    let mut side = Side {
        lane,
        phase: SidePhase::Dead,
        version: None,
        open_calls: 0,
        unsent: 0,
        reads,
        deadline: None,
        arrived: link.lines_delivered(),
        is_cut_off: link.stream.is_finished(),
    };
    if let Some(pipe) = pipe {
        side.phase = if pipe.is_drained() { SidePhase::Ended } else { SidePhase::Open };
        side.unsent = pipe.transmit().len();
        let reason = pipe.timeout_reason().filter(|reason| *reason != TimeoutReason::Trim);
        side.deadline = pipe.poll_timeout_without_trim().map(|at| (at, reason));
    }
    side
}

impl<A> World<A> {
    /// Returns both sides of each connection: client and server by turns. To look changes nothing in the run.
    pub fn sides(&mut self) -> Vec<Side> {
        let mut sides = Vec::new();
        for (n, c) in self.connections.iter_mut().enumerate() {
            let mut client = side(Lane::Client(n), c.client.as_mut(), c.client_reads, &c.to_client);
            if let Some(engine) = c.client.as_mut().map(Client::engine) {
                client.version = engine.peer().map(|peer| peer.version);
                client.open_calls = engine.pending_calls();
                if client.phase == SidePhase::Open && client.version.is_some() {
                    client.phase = SidePhase::Ready;
                }
            }
            let mut server = side(Lane::Server(n), c.server.as_mut(), c.server_reads, &c.to_server);
            if let Some((channel, engine)) = c.server.as_mut().map(|s| (s.channel(), Server::engine(s))) {
                let session = engine.session_status(channel);
                server.version = session.map(|session| session.version);
                server.open_calls = engine.live_calls();
                server.phase = match (server.phase, session) {
                    (SidePhase::Open, _) if engine.is_shutting_down() => SidePhase::ShuttingDown,
                    (SidePhase::Open, Some(session)) if session.is_initialized => SidePhase::Ready,
                    (SidePhase::Open, Some(_)) => SidePhase::Handshake,
                    (phase, _) => phase,
                };
            }
            sides.extend([client, server]);
        }
        sides
    }

    /// Returns the bytes that the servers hold for their clients.
    #[must_use]
    pub fn memory_in_use(&self) -> usize {
        self.server_config.memory_in_use()
    }
}
